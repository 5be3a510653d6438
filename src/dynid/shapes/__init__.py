"""Nonlinear parameters of terms: sought by variable projection, compared on held-out blocks, with intervals."""
