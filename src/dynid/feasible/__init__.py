"""Feasible models: parameters of bodies that can exist, under whatever else is known of them."""

from dynid.feasible.constraints import (
    BodyMass,
    CentreCone,
    CentreHalfSpaces,
    ColumnBounds,
    Convex,
    InsideEllipsoid,
    PhysicalBodies,
    TotalMass,
)
from dynid.feasible.problem import Distance, Feasible, feasible_parameters

__all__ = [
    "BodyMass",
    "CentreCone",
    "CentreHalfSpaces",
    "ColumnBounds",
    "Convex",
    "Distance",
    "Feasible",
    "InsideEllipsoid",
    "PhysicalBodies",
    "TotalMass",
    "feasible_parameters",
]
