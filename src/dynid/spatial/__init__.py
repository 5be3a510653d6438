"""Rigid-body algebra: rotations, placements, inertial parameters and their conversions."""

from dynid.spatial.algebra import placement
from dynid.spatial.inertia import from_com, pseudo_inertia, symmetric, transformed

__all__ = ["from_com", "placement", "pseudo_inertia", "symmetric", "transformed"]
