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
from dynid.feasible.inside import InsideHull
from dynid.feasible.mesh import enclosing_points, mesh_points
from dynid.feasible.penalty import Bodies, Constraint, Penalised, Rule, Search, penalised_parameters
from dynid.feasible.problem import Distance, Feasible, feasible_parameters
from dynid.feasible.refine import Chart, refine

__all__ = [
    "Bodies",
    "BodyMass",
    "CentreCone",
    "CentreHalfSpaces",
    "Chart",
    "ColumnBounds",
    "Constraint",
    "Convex",
    "Distance",
    "Feasible",
    "InsideEllipsoid",
    "InsideHull",
    "Penalised",
    "PhysicalBodies",
    "Rule",
    "Search",
    "TotalMass",
    "enclosing_points",
    "feasible_parameters",
    "mesh_points",
    "penalised_parameters",
    "refine",
]
