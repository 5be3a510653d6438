"""Physically consistent parameters: constraints on links, and the parameters closest to data that fulfil them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.feasible.bodies import UNLIMITED, body_columns, least_eigenvalues, plausible
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
        InsideHull,
        PhysicalBodies,
        TotalMass,
        all_conditions,
    )
    from dynid.feasible.limits import enclosing_points
    from dynid.feasible.problem import Distance, Feasible, feasible_parameters, l_curve_strength
    from dynid.feasible.refinement import FAR, Chart, refine

__all__ = [
    "FAR",
    "RULES",
    "UNLIMITED",
    "Block",
    "BodyMass",
    "CentreCone",
    "CentreHalfSpaces",
    "Chart",
    "ColumnBounds",
    "Condition",
    "Cone",
    "Convex",
    "DensityLimit",
    "Distance",
    "Feasible",
    "InsideEllipsoid",
    "InsideHull",
    "PhysicalBodies",
    "TotalMass",
    "all_conditions",
    "body_columns",
    "enclosing_points",
    "feasible_parameters",
    "l_curve_strength",
    "least_eigenvalues",
    "mesh_points",
    "plausible",
    "refine",
    "triangle",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "bodies": "UNLIMITED body_columns least_eigenvalues plausible",
        "catalogue": "RULES",
        "cones": "Block Cone triangle",
        "constraints": (
            "BodyMass CentreCone CentreHalfSpaces ColumnBounds Condition Convex DensityLimit "
            "InsideEllipsoid InsideHull PhysicalBodies TotalMass all_conditions"
        ),
        "limits": "enclosing_points mesh_points",
        "problem": "Distance Feasible feasible_parameters l_curve_strength",
        "refinement": "Chart FAR refine",
    },
    moved={
        "dynid.papers": "Annealing Bodies Box Constraint Penalised Rule Search annealed_parameters penalised_parameters"
    },
)
