"""Exciting motions: smooth trajectories inside the limits of a robot."""
