"""Feasible models: parameters of physically consistent bodies, under whatever else is known of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.feasible.annealing import Annealing, Box, annealed_parameters
    from dynid.feasible.bodies import body_columns, least_eigenvalues
    from dynid.feasible.catalogue import RULES
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
    from dynid.feasible.enclosing import enclosing_points
    from dynid.feasible.inside import InsideHull
    from dynid.feasible.penalty import Bodies, Constraint, Penalised, Rule, Search, penalised_parameters
    from dynid.feasible.problem import Distance, Feasible, feasible_parameters
    from dynid.feasible.refinement import Chart, refine
    from dynid.robot.mesh import mesh_points

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

__getattr__, __dir__ = lazily(
    __name__,
    {
        "annealing": "Annealing Box annealed_parameters",
        "bodies": "body_columns least_eigenvalues",
        "catalogue": "RULES",
        "cones": "Block Cone triangle",
        "constraints": "BodyMass CentreCone CentreHalfSpaces ColumnBounds Condition "
        "Convex DensityLimit InsideEllipsoid PhysicalBodies TotalMass",
        "density": "UNLIMITED",
        "enclosing": "enclosing_points",
        "inside": "InsideHull",
        "limits": "mesh_points",
        "penalty": "Bodies Constraint Penalised Rule Search penalised_parameters",
        "problem": "Distance Feasible feasible_parameters",
        "refinement": "Chart refine",
    },
)
