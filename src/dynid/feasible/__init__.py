"""Feasible models: parameters of physically consistent bodies, under whatever else is known of them."""

from dynid.feasible.annealing import RULES, Annealing, Box, annealed_parameters
from dynid.feasible.bodies import body_columns, least_eigenvalues
from dynid.feasible.cones import Block, Cone, triangle
from dynid.feasible.constraints import (
    BodyMass,
    CentreCone,
    CentreHalfSpaces,
    ColumnBounds,
    Condition,
    Convex,
    DensityLimit,
    InsideEllipsoid,
    PhysicalBodies,
    TotalMass,
)
from dynid.feasible.density import UNLIMITED
from dynid.feasible.inside import InsideHull
from dynid.feasible.mesh import enclosing_points, mesh_points
from dynid.feasible.penalty import Bodies, Constraint, Penalised, Rule, Search, penalised_parameters
from dynid.feasible.problem import Distance, Feasible, feasible_parameters
from dynid.feasible.refine import Chart, refine

__all__ = [
    "RULES",
    "UNLIMITED",
    "Annealing",
    "Block",
    "Bodies",
    "BodyMass",
    "Box",
    "CentreCone",
    "CentreHalfSpaces",
    "Chart",
    "ColumnBounds",
    "Condition",
    "Cone",
    "Constraint",
    "Convex",
    "DensityLimit",
    "Distance",
    "Feasible",
    "InsideEllipsoid",
    "InsideHull",
    "Penalised",
    "PhysicalBodies",
    "Rule",
    "Search",
    "TotalMass",
    "annealed_parameters",
    "body_columns",
    "enclosing_points",
    "feasible_parameters",
    "least_eigenvalues",
    "mesh_points",
    "penalised_parameters",
    "refine",
    "triangle",
]
