"""Pan and tilt with frames at the far ends of the links (Gaz et al. 2019, supplement): grouping and cones."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.factor.base import structural_base
from dynid.feasible import CentreCone, PhysicalBodies, TotalMass, feasible_parameters
from dynid.feasible.penalty import Bodies, Rule, Search, penalised_parameters
from dynid.kernel import inverse_dynamics
from dynid.robot import load_robot
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.spatial.algebra import placement
from dynid.spatial.inertia import from_com, transformed
from dynid.terms import RigidBody, Terms

LENGTH = 0.8
ROBOT = f"""
name = "two"
convention = "standard_dh"
gravity = [0, 0, -9.81]
[[joint]]
name = "pan"
a = 0.0
alpha = 1.5707963267948966
d = 0.6
theta = 0.0
[[joint]]
name = "tilt"
a = {LENGTH}
alpha = 0.0
d = 0.0
theta = 0.0
"""
SPREAD = np.tile([3.0, *(0.9,) * 3, *(0.3,) * 6], 2)
# In the frame of the joint, link 2 reaches from 0 to 0.8 m along x; it is slim at both ends.
SLOPE, REACH = 0.15, 0.02
TRUTH = np.concatenate(
    [
        from_com(4.0, np.array([0.01, -0.02, 0.0]), np.diag([0.05, 0.02, 0.05])),
        from_com(2.5, np.array([0.35, 0.02, -0.03]), np.diag([0.01, 0.12, 0.12])),
    ]
)


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("two") / "two.toml"
    path.write_text(ROBOT)
    return load_robot(path)


def far_end() -> np.ndarray:
    """(20, 20): parameters about the joints' frames from those of link 2 about its far end, as in the paper."""
    X = np.eye(20)
    X[10:, 10:] = np.array(
        [transformed(one, placement(np.eye(3), np.array([LENGTH, 0, 0]))) for one in np.eye(10)]
    ).T
    return X


def in_row_space(B: np.ndarray, row: np.ndarray) -> float:
    """How far a combination of parameters is from being a base parameter, relative."""
    fitted = B.T @ np.linalg.lstsq(B.T, row, rcond=None)[0]
    return float(np.linalg.norm(row - fitted) / np.linalg.norm(row))


def grouped(factor: float) -> np.ndarray:
    """J2zz - factor m2, frames at the far ends."""
    row = np.zeros(20)
    row[19], row[10] = 1.0, -factor
    return row


def test_square_of_the_length_and_not_the_length_regroups(robot: RobotModel) -> None:
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    B = base.B @ far_end()
    assert in_row_space(B, grouped(LENGTH**2)) < 1e-10
    assert in_row_space(B, grouped(LENGTH)) > 0.05


def cones() -> list[CentreCone]:
    """||(c2y, c2z)|| <= the smaller of two cones' radii, one from either end; (c1x, c1z) round the column of link 1."""
    round_x = ((0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    return [
        CentreCone(1, ((1.0, 0.0, 0.0), (0.0, 0.0, 1.0)), (0.0, 0.0), reach=0.05),
        CentreCone(2, round_x, (0.0, 0.0), slope=(SLOPE, 0.0, 0.0), reach=REACH),
        CentreCone(2, round_x, (0.0, 0.0), slope=(-SLOPE, 0.0, 0.0), reach=REACH + SLOPE * LENGTH),
    ]


def radius(x: float) -> float:
    """The same written with if and else, as Algorithm 1 takes it."""
    return REACH + SLOPE * x if x < LENGTH / 2 else REACH + SLOPE * (LENGTH - x)


def test_cones_are_solved_exactly_without_branches(robot: RobotModel) -> None:
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    prior = 1.3 * TRUTH
    prior[11:14] = [1.0, 0.5, 0.5]  # a centre of mass far outside the cone
    constraints = [PhysicalBodies(), TotalMass(5, 8), *cones()]
    found = feasible_parameters(
        base.B, base.reduce(TRUTH), RigidBody().columns(robot), constraints, prior, SPREAD, 1e-13
    )
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
