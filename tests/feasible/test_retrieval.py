"""Retrieval of feasible parameters from coefficients: the figures of Gaz et al. 2019 and laws."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import SolverError, UsageError
from dynid.factor import structural_base
from dynid.feasible import (
    BodyMass,
    CentreCone,
    CentreHalfSpaces,
    ColumnBounds,
    Distance,
    InsideEllipsoid,
    PhysicalBodies,
    TotalMass,
    all_conditions,
    feasible_parameters,
    least_eigenvalues,
)
from dynid.feasible.constraints import refuse_conflict
from dynid.feasible.distance import divergence, quadratic
from dynid.kernel import inverse_dynamics
from dynid.robot import load_robot
from dynid.rows import TorqueRows
from dynid.spatial import eigenvalues, from_com
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Stiffness, Terms, Viscous
from tests.feasible.panda import ROBOT, Panda

WINDOW = [PhysicalBodies(1e-6), TotalMass(16, 20)]
COLUMNS = RigidBody().columns(load_robot(ROBOT))
SPREAD = np.tile([2.5, *(0.75,) * 3, *(0.225,) * 6], 7)
UNKNOWN = np.full(70, np.nan)


def nothing() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros((1, 70)), np.zeros(1)


def mass_matrices_definite(theta: np.ndarray, count: int) -> bool:
    robot = load_robot(ROBOT)
    q = np.random.default_rng(1).uniform(-np.pi, np.pi, (count, 7))
    zero = np.zeros_like(q)
    gravity = inverse_dynamics(robot.tree, theta, q, zero, zero)
    M = np.empty((count, 7, 7))
    for j in range(7):
        unit = np.zeros_like(q)
        unit[:, j] = 1.0
        M[:, :, j] = inverse_dynamics(robot.tree, theta, q, zero, unit) - gravity
    return bool((np.linalg.eigvalsh((M + M.transpose(0, 2, 1)) / 2)[:, 0] > 0).all())


def test_published_set(panda: Panda) -> None:
    theta = panda.feasible_set()
    assert abs(theta[::10].sum() - 16.062132) < 1e-6
    least = least_eigenvalues(panda.columns, theta)
    assert least.min() == pytest.approx(8.6e-7, rel=0.01)
    assert len(panda.y) == 41
    # The table's four digits leave phi uncertain by 2e-6: with exact lengths it is 1.2903e-3 and 1.2351e-3. Both
    # figures in use, 1.288e-3 and 1.236e-3, come out where coefficient 39 reads 0.0770 in place of the printed 0.0771,
    # and for no other change of one digit: the two sets differ in coefficients 17, 21, 25 and 39 alone.
    residual, corrected = (panda.C @ panda.feasible_set(c6z) - panda.y for c6z in (None, -0.01925))
    assert np.sum(residual**2) == pytest.approx(1.2903e-3, abs=1e-7)
    assert np.sum(corrected**2) == pytest.approx(1.2351e-3, abs=1e-7)
    rounding = 2 * np.linalg.norm(residual) * 1e-4 / np.sqrt(12)
    assert rounding == pytest.approx(2.07e-6, abs=1e-8)
    digits = {
        (row, step): [np.sum((one - step * np.eye(41)[row]) ** 2) for one in (residual, corrected)]
        for row in range(41)
        for step in (-1e-4, 1e-4)
    }
    both = [
        place
        for place, (first, second) in digits.items()
        if abs(first - 1.288e-3) < 1e-6 and abs(second - 1.236e-3) < 1e-6
    ]
    assert both == [(36, -1e-4)]
    assert panda.y[36] == 0.0771


def test_panda_retrieval_beats_the_published_method(panda: Panda) -> None:
    found = feasible_parameters(panda.C, panda.y, panda.columns, WINDOW, panda.unknown, panda.spread, 1e-7)
    assert found.cost <= 3.73e-4
    assert found.least_eigenvalue.min() >= 9e-7
    assert 16 - 1e-6 <= found.parameters[::10].sum() <= 20 + 1e-6
    assert found.certificate.ok
    assert mass_matrices_definite(found.parameters, 2000)


def test_retrieval_with_the_entropic_distance_stays_inside(panda: Panda) -> None:
    found = feasible_parameters(
        panda.C, panda.y, panda.columns, WINDOW, panda.unknown, panda.spread, 5e-8, Distance.ENTROPIC
    )
    assert found.cost <= 3.73e-4
    assert found.least_eigenvalue.min() > 1.2e-6
    assert mass_matrices_definite(found.parameters, 2000)


def test_feasible_coefficients_come_back_exactly(panda: Panda) -> None:
    robot = load_robot(ROBOT)
    base = structural_base(robot, Terms((RigidBody(),)), TorqueRows())
    truth = panda.feasible_set()
    found = feasible_parameters(
        base.B, base.reduce(truth), panda.columns, WINDOW, truth * 1.1, panda.spread, 1e-16
    )
    assert found.cost < 1e-18
    rng = np.random.default_rng(3)
    q, dq, ddq = (rng.normal(0, 1, (50, 7)) for _ in range(3))
    difference = inverse_dynamics(robot.tree, found.parameters, q, dq, ddq) - inverse_dynamics(
        robot.tree, truth, q, dq, ddq
    )
    assert np.abs(difference).max() < 1e-10


def test_friction_rotors_and_stiffness_are_held_above_zero() -> None:
    terms = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Stiffness() + Offset()
    columns = terms.columns(load_robot(ROBOT))
    p = len(columns)
    spread = np.concatenate([SPREAD, np.ones(p - 70)])
    unknown = np.full(p, np.nan)
    wanted = np.full(p - 70, -1.0)
    A = np.hstack([np.zeros((p - 70, 70)), np.eye(p - 70)])
    found = feasible_parameters(A, wanted, columns, [PhysicalBodies(), ColumnBounds()], unknown, spread, 1e-3)
    bounded = np.array([column.lower == 0.0 for column in columns[70:]])
    assert bounded.sum() == 4 * 7
    np.testing.assert_allclose(found.parameters[70:][bounded], 0.0, atol=1e-6)
    np.testing.assert_allclose(found.parameters[70:][~bounded], -1.0, atol=1e-2)
    assert {name.split(" ")[0][:2] for name in found.active if ">= 0" in name} >= {"Ia", "fv", "fc", "K1"}


def test_masses_beyond_the_window_name_the_parties() -> None:
    constraints = [PhysicalBodies(), TotalMass(30, 40), *(BodyMass(b, 0, 3) for b in range(1, 8))]
    with pytest.raises(SolverError, match="total mass >= 30") as stopped:
        feasible_parameters(*nothing(), COLUMNS, constraints, UNKNOWN, SPREAD, 1.0)
    assert stopped.value.exit_code == 5
    assert "mass of body 4 <= 3" in stopped.value.found
    assert "total mass <= 40" not in stopped.value.found
    amounts = [float(w) for w in stopped.value.expected.replace(",", "").split() if _number(w)]
    assert any(a == pytest.approx(9.0, rel=1e-2) for a in amounts)  # 30 - 7 * 3


def _number(word: str) -> bool:
    return word.replace(".", "", 1).replace("e-", "", 1).isdigit() and word not in {"30", "3", "0"}


def test_constraints_that_a_point_fulfils_are_never_called_a_conflict() -> None:
    conditions = all_conditions([PhysicalBodies(), TotalMass(5, 40)], COLUMNS, SPREAD)
    reference = np.tile(from_com(2.0, np.zeros(3), 0.1 * np.eye(3)), 7)
    with pytest.raises(SolverError, match="not-solved"):
        refuse_conflict(conditions, reference, SPREAD)


def test_a_centre_of_mass_outside_its_ellipsoid_is_a_conflict() -> None:
    constraints = [
        PhysicalBodies(),
        InsideEllipsoid(2, (0.0, 0.0, 0.0), (0.1, 0.1, 0.1)),
        CentreHalfSpaces.box(2, (0.3, -1.0, -1.0), (0.5, 1.0, 1.0)),
        BodyMass(2, 1.0),
    ]
    with pytest.raises(SolverError, match="ellipsoid of body 2"):
        feasible_parameters(*nothing(), COLUMNS, constraints, UNKNOWN, SPREAD, 1.0)


@pytest.mark.parametrize(
    ("moment", "given", "least"),
    [
        (1e-2, None, 1e-6),
        (7e-6, None, 7e-8),
        (np.nan, None, 1e-6),
        (-1e-6, None, 1e-6),
        (7e-6, 1e-5, 1e-5),
        (1e-2, 1e-9, 1e-9),
    ],
)
def test_bodies_keep_a_share_of_their_described_thickness(
    moment: float, given: float | None, least: float
) -> None:
    """Least second moment of the description, `margin` where it is given, and the least one that is allowed."""
    second = np.diag([0.01, 0.02, moment])
    prior = from_com(0.12, np.zeros(3), np.trace(second) * np.eye(3) - second)
    columns = tuple(replace(one, prior=float(value)) for one, value in zip(COLUMNS[:10], prior, strict=True))
    (condition,) = PhysicalBodies(given).conditions(columns, SPREAD[:10])
    assert condition.name == f"pseudo-inertia of body 1 >= {least:g}"
    for share, inside in ((1.01, True), (0.99, False)):
        thin = np.diag([0.01, 0.02, share * least])
        theta = from_com(0.12, np.zeros(3), np.trace(thin) * np.eye(3) - thin)
        assert (condition.violation(theta) == 0) == inside


def test_centres_stay_in_their_shapes() -> None:
    corners = 0.05 * np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])
    constraints = [
        PhysicalBodies(),
        CentreHalfSpaces.hull(1, corners),
        CentreCone(2, ((0, 1, 0), (0, 0, 1)), (0.0, 0.0), reach=0.04),
        CentreHalfSpaces.box(3, (-np.inf, -0.02, -np.inf), (0.01, np.inf, np.inf)),
        InsideEllipsoid(4, (0.0, 0.1, 0.0), (0.1, 0.2, 0.1)),
    ]
    prior = np.tile(from_com(2.0, np.array([0.3, 0.2, -0.1]), 0.02 * np.eye(3)), 7)
    found = feasible_parameters(*nothing(), COLUMNS, constraints, prior, SPREAD, 1.0).parameters.reshape(
        7, 10
    )
    centre = found[:, 1:4] / found[:, :1]
    assert np.abs(centre[0]).max() <= 0.05 + 1e-6
    assert np.linalg.norm(centre[1, 1:]) <= 0.04 + 1e-6
    assert centre[2, 0] <= 0.01 + 1e-6
    assert centre[2, 1] >= -0.02 - 1e-6
    shape = np.diag([0.01, 0.04, 0.01])
    offset = centre[3] - [0.0, 0.1, 0.0]
    assert offset @ np.linalg.solve(shape, offset) <= 1.0
    assert min(eigenvalues(pi)[0] for pi in found) >= 9e-7
    np.testing.assert_allclose(found[6], prior[60:], rtol=1e-6)  # nothing is asked of the last body


def test_minimum_of_two_cones_needs_no_branches(panda: Panda) -> None:
    # Algorithm 1 writes the radius of a double cone as if-else on the side of the centre; each side is one cone.
    cones = [
        CentreCone(4, ((1, 0, 0), (0, 1, 0)), (0.0, 0.0), slope=(0.0, 0.0, sign * 0.5), reach=0.1)
        for sign in (1.0, -1.0)
    ]
    truth = np.tile(from_com(2.0, np.array([0.03, 0.02, 0.05]), 0.02 * np.eye(3)), 7)
    y = panda.C @ truth
    found = feasible_parameters(
        panda.C, y, panda.columns, [PhysicalBodies(), *cones], truth * 1.05, SPREAD, 1e-14
    )
    c = found.parameters[31:34] / found.parameters[30]
    assert found.cost < 1e-8
    assert np.hypot(c[0], c[1]) <= min(0.1 + 0.5 * c[2], 0.1 - 0.5 * c[2]) + 1e-7


def test_entropic_distance_is_a_divergence() -> None:
    a = from_com(2.0, np.array([0.03, 0.02, 0.05]), 0.02 * np.eye(3))
    assert divergence(a, a) == pytest.approx(0.0, abs=1e-12)
    assert divergence(1.3 * a, a) == pytest.approx(4 * (1.3 - np.log(1.3) - 1))
    assert np.isinf(divergence(-a, a))


def test_the_entropic_distance_near_a_body_is_a_sum_of_squares() -> None:
    prior = from_com(2.0, np.array([0.03, 0.02, 0.05]), 0.02 * np.eye(3))
    body = from_com(1.4, np.array([0.01, 0.0, 0.08]), np.diag([0.03, 0.02, 0.015]))
    J, r = quadratic(body, prior)
    turn = np.random.default_rng(0).normal(0, 1, 10) * 1e-3

    def missed(share: float) -> float:
        change = float(np.sum((J @ (body + share * turn) - r) ** 2) - np.sum((J @ body - r) ** 2))
        return divergence(body + share * turn, prior) - divergence(body, prior) - change

    # What is left over is of third order.
    assert abs(missed(0.1)) < 2e-3 * abs(missed(1.0)) < 1e-3 * divergence(body, prior)


def test_wrong_shapes_and_strengths_are_refused() -> None:
    A, y = nothing()
    with pytest.raises(UsageError, match="feasible-shapes"):
        feasible_parameters(A[:, :3], y, COLUMNS, [], UNKNOWN, SPREAD, 1.0)
    with pytest.raises(UsageError, match="prior-strength"):
        feasible_parameters(A, y, COLUMNS, [], UNKNOWN, SPREAD, 0.0)
    with pytest.raises(UsageError, match="unknown-body"):
        feasible_parameters(A, y, COLUMNS, [BodyMass(9)], UNKNOWN, SPREAD, 1.0)
    with pytest.raises(UsageError, match="flat-hull"):
        CentreHalfSpaces.hull(1, np.zeros((5, 3)))
