"""Physically consistent parameters: constraints on links, and the parameters closest to data that fulfil them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.feasible.bodies import (
        DENSEST,
        THINNEST,
        UNLIMITED,
        body_columns,
        density,
        least_eigenvalues,
        plausible,
        thinness,
    )
    from dynid.feasible.catalogue import CATALOGUE, RULES
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
    from dynid.feasible.limits import (
        LinkLimits,
        enclosing_points,
        limits_from_description,
        limits_of_body,
        limits_of_robot,
        limits_text,
    )
    from dynid.feasible.problem import (
        Distance,
        Feasible,
        feasible_parameters,
        held_out_strength,
        l_curve_strength,
        nearest,
    )
    from dynid.feasible.refinement import FAR, Chart, refine

__all__ = [
    "CATALOGUE",
    "DENSEST",
    "FAR",
    "RULES",
    "THINNEST",
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
    "LinkLimits",
    "PhysicalBodies",
    "TotalMass",
    "all_conditions",
    "body_columns",
    "density",
    "enclosing_points",
    "feasible_parameters",
    "held_out_strength",
    "l_curve_strength",
    "least_eigenvalues",
    "limits_from_description",
    "limits_of_body",
    "limits_of_robot",
    "limits_text",
    "mesh_points",
    "nearest",
    "plausible",
    "refine",
    "thinness",
    "triangle",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "bodies": "DENSEST THINNEST UNLIMITED body_columns density least_eigenvalues plausible thinness",
        "catalogue": "CATALOGUE RULES",
        "cones": "Block Cone triangle",
        "constraints": (
            "BodyMass CentreCone CentreHalfSpaces ColumnBounds Condition Convex DensityLimit "
            "InsideEllipsoid InsideHull PhysicalBodies TotalMass all_conditions"
        ),
        "limits": (
            "LinkLimits enclosing_points limits_from_description limits_of_body limits_of_robot "
            "limits_text mesh_points"
        ),
        "problem": "Distance Feasible feasible_parameters held_out_strength l_curve_strength nearest",
        "refinement": "Chart FAR refine",
    },
    moved={
        "dynid.papers": "Annealing Bodies Box Constraint Penalised Rule Search annealed_parameters penalised_parameters"
    },
)
