"""Physically consistent parameters: constraints on links, and the parameters closest to data that fulfil them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.feasible.bodies import DENSEST as DENSEST
    from dynid.feasible.bodies import THINNEST as THINNEST
    from dynid.feasible.bodies import UNLIMITED as UNLIMITED
    from dynid.feasible.bodies import body_columns as body_columns
    from dynid.feasible.bodies import density as density
    from dynid.feasible.bodies import least_eigenvalues as least_eigenvalues
    from dynid.feasible.bodies import plausible as plausible
    from dynid.feasible.catalogue import CATALOGUE as CATALOGUE
    from dynid.feasible.catalogue import RULES as RULES
    from dynid.feasible.cones import Block as Block
    from dynid.feasible.cones import Cone as Cone
    from dynid.feasible.cones import slack as slack
    from dynid.feasible.cones import triangle as triangle
    from dynid.feasible.constraints import BodyMass as BodyMass
    from dynid.feasible.constraints import CentreCone as CentreCone
    from dynid.feasible.constraints import CentreHalfSpaces as CentreHalfSpaces
    from dynid.feasible.constraints import ColumnBounds as ColumnBounds
    from dynid.feasible.constraints import Condition as Condition
    from dynid.feasible.constraints import Convex as Convex
    from dynid.feasible.constraints import DensityLimit as DensityLimit
    from dynid.feasible.constraints import InsideEllipsoid as InsideEllipsoid
    from dynid.feasible.constraints import InsideHull as InsideHull
    from dynid.feasible.constraints import PhysicalBodies as PhysicalBodies
    from dynid.feasible.constraints import TotalMass as TotalMass
    from dynid.feasible.constraints import all_conditions as all_conditions
    from dynid.feasible.limits import LinkLimits as LinkLimits
    from dynid.feasible.limits import enclosing_points as enclosing_points
    from dynid.feasible.limits import limits_from_description as limits_from_description
    from dynid.feasible.limits import limits_of_body as limits_of_body
    from dynid.feasible.limits import limits_of_robot as limits_of_robot
    from dynid.feasible.limits import limits_text as limits_text
    from dynid.feasible.problem import Distance as Distance
    from dynid.feasible.problem import Feasible as Feasible
    from dynid.feasible.problem import feasible_parameters as feasible_parameters
    from dynid.feasible.problem import least_squares_within as least_squares_within
    from dynid.feasible.problem import nearest as nearest
    from dynid.feasible.refinement import FAR as FAR
    from dynid.feasible.refinement import Chart as Chart
    from dynid.feasible.refinement import refine as refine
    from dynid.feasible.region import Setting as Setting
    from dynid.robot import mesh_points as mesh_points

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "bodies": "DENSEST THINNEST UNLIMITED body_columns density least_eigenvalues plausible",
        "catalogue": "CATALOGUE RULES",
        "cones": "Block Cone slack triangle",
        "constraints": (
            "BodyMass CentreCone CentreHalfSpaces ColumnBounds Condition Convex DensityLimit "
            "InsideEllipsoid InsideHull PhysicalBodies TotalMass all_conditions"
        ),
        "limits": (
            "LinkLimits enclosing_points limits_from_description limits_of_body limits_of_robot "
            "limits_text mesh_points"
        ),
        "problem": "Distance Feasible feasible_parameters least_squares_within nearest",
        "refinement": "Chart FAR refine",
        "region": "Setting",
    },
    moved={
        "dynid.papers": (
            "Annealing Bodies Box Constraint Penalised Rule Search annealed_parameters l_curve_strength "
            "penalised_parameters"
        )
    },
)
