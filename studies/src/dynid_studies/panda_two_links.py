"""The supplement's example to Gaz et al. 2019: pan and tilt with frames at the far ends of the links."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid.factor import BaseMap, structural_base
from dynid.feasible import CentreCone, Convex, Feasible, PhysicalBodies, TotalMass, feasible_parameters
from dynid.robot import RobotModel
from dynid.rows import TorqueRows
from dynid.spatial import from_com, placement, transformed
from dynid_studies.panda import RIGID
from dynid_studies.robots import study_robot
from dynid_studies.study import StudyPage, at_least, at_most, within

LENGTH = 0.8
SPREAD = np.tile([3.0, *(0.9,) * 3, *(0.3,) * 6], 2)
# Link 2 is slim at both ends: the radius grows from REACH by SLOPE a metre towards the middle.
SLOPE, REACH = 0.15, 0.02
TRUTH = np.concatenate(
    [
        from_com(4.0, np.array([0.01, -0.02, 0.0]), np.diag([0.05, 0.02, 0.05])),
        from_com(2.5, np.array([0.35, 0.02, -0.03]), np.diag([0.01, 0.12, 0.12])),
    ]
)


def two_links() -> RobotModel:
    """The arm of the example."""
    return study_robot("two_links")


def radius(x: float) -> float:
    """Of link 2 at x along it, written with if and else, as Algorithm 1 takes it."""
    return REACH + SLOPE * (x if x < LENGTH / 2 else LENGTH - x)


def inside_cones(robot: RobotModel, base: BaseMap) -> Feasible:
    """Bodies with the coefficients of the truth: centre of mass 2 in the cones from either end, 1 round its column."""
    round_x, column = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0)), ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0))
    constraints: list[Convex] = [
        PhysicalBodies(),
        TotalMass(5, 8),
        CentreCone(1, column, (0.0, 0.0), reach=0.05),
        CentreCone(2, round_x, (0.0, 0.0), slope=(SLOPE, 0.0, 0.0), reach=REACH),
        CentreCone(2, round_x, (0.0, 0.0), slope=(-SLOPE, 0.0, 0.0), reach=REACH + SLOPE * LENGTH),
    ]
    prior = 1.3 * TRUTH
    prior[11:14] = [1.0, 0.5, 0.5]  # far outside the link
    return feasible_parameters(
        base.B, base.reduce(TRUTH), RIGID.columns(robot), constraints, prior, SPREAD, 1e-13
    )


def add_two_links(page: StudyPage) -> None:
    """Which grouping is right, and centres of mass inside cones by one convex program."""
    page.section("The example of two links")
    page.text(
        f"""The supplement's 2R arm shows constraints with if and else: the centre of mass of link 2 must lie in a link
        that is slim at both ends. The smaller of two radii that are linear along the link is a convex region, the
        intersection of two cones, so no search is needed. Two slips of the supplement: J2zz is grouped with m2 times
        the square of the length, {LENGTH**2:g}, not with {LENGTH:g}; and the cone of link 1 is around its column, so
        it contains (c1x, c1z)."""
    )
    robot = two_links()
    base = structural_base(robot, RIGID, TorqueRows())
    B = base.B @ far_end()
    solution = inside_cones(robot, base)
    x, y, z = solution.parameters[11:14] / solution.parameters[10]
    page.results(
        "Grouping and cones",
        at_most("square", "J2zz − 0.64 m2: distance from a base parameter", away(B, LENGTH**2), 1e-10),
        at_least("length", "J2zz − 0.8 m2: the same", away(B, LENGTH), 0.05),
        at_most("cones", "cost of the coefficients with all constraints", solution.cost, 1e-8),
        within(
            "inside",
            "distance of the centre of mass of link 2 outside its cones",
            max(float(np.hypot(y, z)) - radius(float(x)), 0.0),
            0.0,
            1e-7,
            "m",
        ),
    )


def far_end() -> Float:
    """(20, 20): parameters about the joints' frames from those of link 2 about its far end, as in the supplement."""
    X = np.eye(20)
    at_end = placement(np.eye(3), np.array([LENGTH, 0, 0]))
    X[10:, 10:] = np.array([transformed(unit_vector, at_end) for unit_vector in np.eye(10)]).T
    return X


def grouped(factor: float) -> Float:
    """J2zz - factor m2, frames at the far ends, as a row (20,)."""
    row = np.zeros(20)
    row[19], row[10] = 1.0, -factor
    return row


def away(B: Float, factor: float) -> float:
    """How far J2zz - factor m2 is from the row space of B (b, 20), relative."""
    row = grouped(factor)
    fitted = B.T @ np.linalg.lstsq(B.T, row, rcond=None)[0]
    return float(np.linalg.norm(row - fitted) / np.linalg.norm(row))
