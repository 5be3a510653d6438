"""Rigid-body algebra: rotations, placements, inertial parameters and their conversions."""
