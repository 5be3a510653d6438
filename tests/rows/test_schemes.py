"""Row schemes beside torque: each keeps the contract, and follows from the torque equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.factor import STRUCTURAL_TOLERANCE, base_of_matrix, structural_base
from dynid.kernel import gravity_torque, mass_matrix
from dynid.robot import RobotModel, load_robot
from dynid.rows import (
    CATALOGUE,
    CausalFilter,
    EnergyRows,
    FilteredPowerRows,
    InertiaRows,
    MomentumRows,
    PowerRows,
    Rows,
    StaticRows,
    check_mass_matrices,
    rows_from_spec,
    rows_to_spec,
)
from dynid.signals import Samples
from dynid.terms import (
    Coulomb,
    KnownPayload,
    MotorInertia,
    Offset,
    OnMotor,
    RigidBody,
    RotorInertia,
    Terms,
    Viscous,
)
from dynid.testing import RowsContract, random_robot, smooth_samples
from tests.robot_files import ROBOTS

RIGID = Terms((RigidBody(),))
LOAD = (2.0, 0.1, -0.05, 0.2, 0.08, 0.0, 0.09, 0.0, 0.0, 0.05)


class TestMomentum(RowsContract):
    tolerance = 3e-4

    def rows(self) -> Rows:
        return MomentumRows()

    def terms(self) -> Terms:
        return RigidBody() + RotorInertia() + Viscous() + Offset() + KnownPayload(LOAD)


class TestMomentumOfDegreeOne(TestMomentum):
    def rows(self) -> Rows:
        return MomentumRows(cutoff=2.0, degree=1)


class TestMomentumWithMotors(TestMomentum):
    def terms(self) -> Terms:
        return RigidBody() + MotorInertia() + OnMotor(Viscous())

    def robots(self) -> tuple[RobotModel, ...]:
        return random_robot(1, 3, 0.0), random_robot(2, 5, 0.6)


class TestEnergy(TestMomentum):
    def rows(self) -> Rows:
        return EnergyRows()


class TestEnergyWithMotors(TestMomentumWithMotors):
    def rows(self) -> Rows:
        return EnergyRows()


class TestPower(RowsContract):
    def rows(self) -> Rows:
        return PowerRows()


class TestFilteredPower(TestMomentum):
    def rows(self) -> Rows:
        return FilteredPowerRows()


class TestFilteredPowerOfDegreeTwo(TestMomentum):
    def rows(self) -> Rows:
        return FilteredPowerRows(cutoff=3.0, degree=2)


class TestStatic(RowsContract):
    def rows(self) -> Rows:
        return StaticRows()

    def exact(self, robot: RobotModel) -> tuple[Samples, Float]:
        poses = StaticRows().posed(robot, super().exact(robot)[0])
        theta = np.random.default_rng(3).normal(0, 1, len(self.terms().columns(robot)))
        return replace(poses, tau=self.terms().torque(robot, poses, theta)), theta


class TestInertia(RowsContract):
    def rows(self) -> Rows:
        return InertiaRows()

    def terms(self) -> Terms:
        return RigidBody() + RotorInertia()

    def exact(self, robot: RobotModel) -> tuple[Samples, Float]:
        samples, theta = super().exact(robot)
        n = robot.n
        M, g = np.zeros((len(samples), n, n)), np.zeros((len(samples), n))
        for j in range(n + 1):
            ddq = np.zeros_like(samples.q)
            ddq[:, :n] = np.eye(n + 1)[j, :n]
            at = replace(samples, dq=np.zeros_like(samples.q), ddq=ddq)
            torque = self.terms().torque(robot, at, theta)
            if j < n:
                M[:, :, j] = torque
            else:
                g = torque
        return replace(samples, extra={"mass_matrix": M - g[:, :, None], "gravity_torque": g}), theta


@pytest.mark.parametrize("degree", [1, 2])
def test_filters_of_constant_ramp_and_integral(degree: int) -> None:
    f = CausalFilter(1.45, degree, 400.0)
    t = np.arange(8000) / 400.0
    assert abs(f.high(t[None])[0, -1] - 1.0) < 1e-6
    assert abs(f.low(np.ones((1, 8000)))[0, -1] - 1.0) < 1e-6
    assert abs(f.low_of_held(np.ones((1, 8000)))[0, -1] - 1.0) < 1e-6
    x = np.random.default_rng(0).normal(0, 1, (3, 500))
    integral = (
        np.concatenate([np.zeros((3, 1)), np.cumsum(0.5 * (x[:, 1:] + x[:, :-1]), axis=1)], axis=1) / 400
    )
    np.testing.assert_allclose(f.low(x), f.high(integral), atol=1e-10)
    if degree == 1:  # f1 = lambda (1 - f2), for signals that start at zero
        y = x - x[:, :1]
        np.testing.assert_allclose(f.high(y), f.pole * (y - f.low(y)), atol=1e-10)


@pytest.mark.parametrize(
    "robot", [random_robot(4, 6, 0.0), random_robot(5, 5, 0.6), random_robot(3, 4, mimic=True)]
)
def test_forms_are_the_torque(robot: RobotModel) -> None:
    terms = RigidBody() + RotorInertia() + Viscous()
    p = len(terms.columns(robot))
    every = np.ones(p, dtype=np.bool_)
    step = 1e-5
    middle = smooth_samples(robot, 40, seed=1)
    Y = terms.torque_regressor(robot, middle, every).dense(p)
    forms = []
    for side in (-1.0, 1.0):
        d = side * step
        at = Samples.from_motion(
            middle.q + d * middle.dq + 0.5 * d * d * middle.ddq, middle.dq + d * middle.ddq, middle.ddq
        )
        forms.append(
            (terms.momentum_form(robot, at, every)[0].dense(p), terms.energy_form(robot, at, every)[0])
        )
    R = terms.momentum_form(robot, middle, every)[1].dense(p)
    W = terms.energy_form(robot, middle, every)[1].dense(p)
    rate = (forms[1][0] - forms[0][0]) / (2 * step)
    assert np.abs(rate + R - Y).max() < 1e-7 * np.abs(Y).max()
    power = (forms[1][1] - forms[0][1]) / (2 * step) + np.einsum("tnp,tn->pt", W, middle.dq)
    assert np.abs(power - np.einsum("tnp,tn->pt", Y, middle.dq)).max() < 1e-7 * np.abs(power).max()


@pytest.mark.parametrize("robot", [random_robot(4, 6, 0.0), random_robot(5, 5, 0.6)])
def test_forms_against_mass_matrix_and_bias(robot: RobotModel) -> None:
    samples = smooth_samples(robot, 30, seed=2)
    pi = robot.inertia_prior
    every = np.ones(pi.size, dtype=np.bool_)
    P, _ = RIGID.momentum_form(robot, samples, every)
    M = mass_matrix(robot.tree, pi, samples.q)
    np.testing.assert_allclose(
        P.dense(pi.size) @ pi.ravel(), np.einsum("tij,tj->ti", M, samples.dq), rtol=1e-11, atol=1e-11
    )
    h, _ = RIGID.energy_form(robot, StaticRows().posed(robot, samples), every)
    motion, _ = RIGID.energy_form(robot, samples, every)
    kinetic = 0.5 * np.einsum("ti,tij,tj->t", samples.dq, M, samples.dq)
    np.testing.assert_allclose(pi.ravel() @ (motion - h), kinetic, rtol=1e-11, atol=1e-11)
    rest = StaticRows().posed(robot, samples)
    g = RIGID.momentum_form(robot, rest, every)[1].dense(pi.size) @ pi.ravel()
    np.testing.assert_allclose(g, gravity_torque(robot.tree, pi, samples.q), rtol=1e-11, atol=1e-11)


def test_filtered_torque_regressor_is_filtered_momentum() -> None:
    robot = random_robot(4, 4, 0.0)
    samples = smooth_samples(robot, 10_000, seed=5, rate=1e4)
    p = len(RIGID.columns(robot))
    every = np.ones(p, dtype=np.bool_)
    f = CausalFilter(1.45, 1, samples.rate)
    Y = RIGID.torque_regressor(robot, samples, every)
    found = MomentumRows(1.45, 1).equations(robot, RIGID, samples, every)
    for columns, panel, own, lines in zip(found.columns, found.panels, Y.columns, Y.values, strict=True):
        np.testing.assert_array_equal(columns, own)
        assert np.abs(panel[:-1] - f.low(lines)).max() < 1e-6 * np.abs(lines).max()


def test_held_torque_is_worked_exactly() -> None:
    # A mass on a rail under held force moves along parabolas: the balance is exact however long the step.
    robot = random_robot(1, 1)
    robot = replace(robot, joint_types=(type(robot.joint_types[0]).PRISMATIC,), gravity=np.zeros(3))
    rng, h, m = np.random.default_rng(0), 0.1, 3.0
    force = rng.normal(0, 1, 60)
    q, v = np.zeros(60), np.zeros(60)
    for k in range(59):
        v[k + 1] = v[k] + h * force[k] / m
        q[k + 1] = q[k] + h * v[k] + 0.5 * h * h * force[k] / m
    samples = Samples.from_motion(q[:, None], v[:, None], np.zeros((60, 1)), force[:, None], 1.0 / h)
    only_mass = np.arange(10) == 0
    for rows in (EnergyRows(hold="zero"), FilteredPowerRows(hold="zero"), MomentumRows(1.0, hold="zero")):
        (panel,) = rows.equations(robot, RIGID, samples, only_mass).panels
        np.testing.assert_allclose(m * panel[0], panel[1], rtol=1e-10, atol=1e-10)


def test_friction_that_holds_does_no_work() -> None:
    robot = random_robot(1, 3, 0.0)
    q = np.tile([0.3, -0.2, 0.5], (100, 1))
    stuck = np.random.default_rng(0).normal(0, 5, q.shape)
    samples = Samples.from_motion(q, np.zeros_like(q), np.zeros_like(q), stuck)
    terms = RigidBody() + Coulomb()
    wanted = np.ones(len(terms.columns(robot)), dtype=np.bool_)
    (panel,) = EnergyRows().equations(robot, terms, samples, wanted).panels
    assert not panel.any()


@pytest.mark.parametrize(
    ("name", "rank"),
    [("panda_gaz", 43), ("ur10e_innopolis", 36)],
)
def test_ranks_of_every_scheme(name: str, rank: int) -> None:
    robot = load_robot(ROBOTS / f"{name}.toml")
    for rows in (MomentumRows(), EnergyRows(), PowerRows(), FilteredPowerRows(), InertiaRows()):
        assert structural_base(robot, RIGID, rows).rank == rank, rows.name


@pytest.mark.parametrize(("name", "rank"), [("panda_gaz", 43), ("ur10e_innopolis", 36)])
def test_energy_itself_has_one_rank_more_than_its_change(name: str, rank: int) -> None:
    robot = load_robot(ROBOTS / f"{name}.toml")
    rng = np.random.default_rng(0)
    states = Samples.from_motion(*(rng.uniform(-2, 2, (600, robot.n)) for _ in range(3)))
    columns = [column.name for column in RIGID.columns(robot)]
    stored = RIGID.energy_form(robot, states, np.ones(len(columns), dtype=np.bool_))[0].T
    assert base_of_matrix(stored, columns, STRUCTURAL_TOLERANCE).rank == rank + 1
    assert base_of_matrix(stored[1:] - stored[0], columns, STRUCTURAL_TOLERANCE).rank == rank


def test_ranks_of_gaz() -> None:
    robot = load_robot(ROBOTS / "panda_gaz.toml")
    assert structural_base(robot, RIGID, InertiaRows(gravity=False)).rank == 39
    assert structural_base(robot, RIGID, InertiaRows(mass=False)).rank == 12
    assert structural_base(robot, RIGID, StaticRows()).rank == 12
    tilted = replace(robot, gravity=np.array([3.0, 2.0, -9.0]))
    assert structural_base(tilted, RIGID, InertiaRows()).rank == 45
    assert structural_base(tilted, RIGID, MomentumRows()).rank == 45


def test_experiments_name_the_schemes() -> None:
    for name, kind in CATALOGUE.items():
        assert rows_from_spec(name) == kind()
        assert rows_from_spec(rows_to_spec(kind()).get("rows", "auto")) == kind()
    assert rows_from_spec({"rows": "momentum", "cutoff": 3.0, "hold": "zero"}) == MomentumRows(
        3.0, hold="zero"
    )


def test_bad_input() -> None:
    robot = random_robot(1, 3, 0.0)
    samples = smooth_samples(robot, 50)
    wanted = np.ones(30, dtype=np.bool_)
    for name, word in (("tau", "torque"), ("dq", "velocity")):
        values = np.array(getattr(samples, name))
        values[7, 1] = np.nan
        broken = replace(samples, **{name: values})
        for rows in (MomentumRows(), EnergyRows(), PowerRows(), FilteredPowerRows()):
            with pytest.raises(UnfitDataError, match=f"row 7.*no {word}"):
                rows.equations(robot, RIGID, broken, wanted)
    with pytest.raises(UnfitDataError, match=r"row 0.*a pose in motion"):
        StaticRows().equations(robot, RIGID, samples, wanted)
    poses = replace(samples, dq=np.where(np.arange(50)[:, None] == 17, 0.01, 0.0) * np.ones(robot.n))
    with pytest.raises(UnfitDataError, match=r"row 17.*a pose in motion, 0.01 rad/s"):
        StaticRows().equations(robot, RIGID, poses, wanted)
    with pytest.raises(UnfitDataError, match="gravity_torque"):
        InertiaRows().equations(robot, RIGID, samples, wanted)
    for stick in (-0.1, np.nan):
        with pytest.raises(UsageError, match="rows-stick"):
            MomentumRows(stick=stick)
    for wrong in (
        lambda: MomentumRows(cutoff=0),
        lambda: MomentumRows(degree=3),
        lambda: EnergyRows("first"),
    ):  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(UsageError):
            wrong()
    M = np.tile(np.eye(3), (4, 1, 1))
    M[2, 0, 1] = 0.1
    with pytest.raises(UnfitDataError, match=r"row 2.*transpose"):
        check_mass_matrices(M)
    M[2, 0, 1], M[3, 1, 1] = np.nan, -1.0
    with pytest.raises(UnfitDataError, match=r"row 3.*eigenvalue"):
        check_mass_matrices(M)
