"""Motions as functions of time: Fourier series, splines, moves, torque sinusoids, chains of them, and their files."""
