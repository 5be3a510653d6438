"""Rigid-body algebra: rotations, placements, inertial parameters and their conversions."""

from dynid.spatial.algebra import inverse, placement, rotation_quaternion, rotation_rpy
from dynid.spatial.inertia import from_com, pseudo_inertia, symmetric, to_mjcf, transformed

__all__ = [
    "from_com",
    "inverse",
    "placement",
    "pseudo_inertia",
    "rotation_quaternion",
    "rotation_rpy",
    "symmetric",
    "to_mjcf",
    "transformed",
]
