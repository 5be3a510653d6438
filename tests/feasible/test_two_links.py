"""Pan and tilt with frames at the far ends of the links (Gaz et al. 2019, supplement): grouping and cones."""

from __future__ import annotations

import numpy as np
import pytest
from dynid_studies.panda_two_links import (
    LENGTH,
    SPREAD,
    TRUTH,
    away,
    far_end,
    grouped,
    inside_cones,
    radius,
    two_links,
)

from dynid.factor import structural_base
from dynid.feasible import PhysicalBodies, TotalMass, feasible_parameters
from dynid.kernel import inverse_dynamics
from dynid.papers import Bodies, Rule, Search, penalised_parameters
from dynid.robot import RobotModel
from dynid.rows import TorqueRows
from dynid.terms import RigidBody, Terms


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    return two_links()


def test_square_of_the_length_and_not_the_length_regroups(robot: RobotModel) -> None:
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    B = base.B @ far_end()
    assert away(B, LENGTH**2) < 1e-10
    assert away(B, LENGTH) > 0.05


def test_cones_are_solved_exactly_without_branches(robot: RobotModel) -> None:
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    found = inside_cones(robot, base)
    assert found.cost < 1e-8
    centre = found.parameters[11:14] / found.parameters[10]
    assert np.hypot(centre[1], centre[2]) <= radius(centre[0]) + 1e-7
    first = found.parameters[1:4] / found.parameters[0]
    assert np.hypot(first[0], first[2]) <= 0.05 + 1e-7
    rng = np.random.default_rng(0)
    q, dq, ddq = (rng.normal(size=(20, 2)) for _ in range(3))
    ours, theirs = (inverse_dynamics(robot.tree, p, q, dq, ddq) for p in (found.parameters, TRUTH))
    np.testing.assert_allclose(ours, theirs, atol=1e-5)


def test_the_penalty_method_with_if_and_else_ends_at_the_same_place(robot: RobotModel) -> None:
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    columns = RigidBody().columns(robot)
    start = feasible_parameters(
        base.B, base.reduce(TRUTH), columns, [PhysicalBodies(1e-4)], 1.3 * TRUTH, SPREAD, 1e-8
    ).parameters

    def slim(bodies: Bodies) -> float:
        x, y, z = bodies.centre[1]
        return radius(float(x)) - float(np.hypot(y, z))

    found = penalised_parameters(
        base.B, base.reduce(TRUTH), columns, [Rule("slim", slim)], start, 1.3 * TRUTH, SPREAD, 1e-10,
        Search(starts=1, rounds=4, threads=1),
    )  # fmt: skip
    assert found.cost < 1e-8
    assert (found.values >= -1e-7).all()


def test_the_grouping_with_the_length_itself_gives_another_torque(robot: RobotModel) -> None:
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    columns, X = RigidBody().columns(robot), far_end()
    measured = base.reduce(TRUTH)
    # The coefficients as measured, read with the right and with the wrong formula for the one that holds J2zz.
    held = base.B @ X
    weight = np.linalg.lstsq(held.T, grouped(LENGTH**2), rcond=None)[0]
    rng = np.random.default_rng(1)
    q, dq, ddq = (rng.normal(size=(50, 2)) for _ in range(3))
    wanted = inverse_dynamics(robot.tree, TRUTH, q, dq, ddq)
    missed = {}
    for factor in (LENGTH**2, LENGTH):
        formula = grouped(factor) @ np.linalg.inv(X)
        others = base.B - np.outer(weight, weight @ base.B) / (weight @ weight)
        A = np.vstack([others, formula])
        y = np.append(others @ TRUTH, weight @ measured)
        found = feasible_parameters(
            A, y, columns, [PhysicalBodies(), TotalMass(5, 8)], 1.3 * TRUTH, SPREAD, 1e-12
        )
        torque = inverse_dynamics(robot.tree, found.parameters, q, dq, ddq)
        missed[factor] = np.linalg.norm(torque - wanted) / np.linalg.norm(wanted)
    assert missed[LENGTH**2] < 1e-5
    assert missed[LENGTH] > 1e-2
