"""Row schemes on robots that have everything: exact motion fulfils every scheme's equations."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.rows import (
    CausalFilter,
    ElasticMomentumRows,
    ElasticRows,
    EnergyRows,
    FilteredPowerRows,
    InertiaRows,
    MomentumRows,
    MotorRows,
    PowerRows,
    Rows,
    StaticRows,
    TorqueRows,
)
from dynid.signals import Samples
from dynid.testing import RobotCase
from dynid.testing.robots import CHANNEL
from tests.covering.oracle import (
    EVERY,
    ONE_ENCODER,
    TWO_ENCODERS,
    Bodies,
    agree,
    bodies_of,
    motors_of,
    values,
)


def misses(rows: Rows, case: RobotCase, samples: Samples) -> Float:
    """By group, the greatest error of an equation as a share of the group's greatest part."""
    every = np.ones(len(case.theta), dtype=np.bool_)
    found = rows.equations(case.robot, case.terms, samples, every)
    share = []
    for columns, panel in zip(found.columns, found.panels, strict=True):
        size = np.abs(panel[-1]).max() + np.abs(panel[:-1].T * case.theta[columns]).max(initial=0.0)
        share.append(np.abs(panel[:-1].T @ case.theta[columns] - panel[-1]).max() / max(size, 1e-300))
    return np.array(share)


@pytest.mark.parametrize("case", ONE_ENCODER)
@pytest.mark.parametrize("rows", [TorqueRows(), MotorRows(), PowerRows()], ids=lambda rows: rows.name)
def test_torque_fulfils_the_equations(case: RobotCase, rows: Rows) -> None:
    assert misses(rows, case, case.samples(40, seed=1)).max() < 1e-10


@pytest.mark.parametrize("case", TWO_ENCODERS)
@pytest.mark.parametrize("form", ["total", "link"])
def test_torque_behind_springs_fulfils_both_equations(case: RobotCase, form: str) -> None:
    assert misses(ElasticRows(form=form), case, case.samples(40, seed=1)).max() < 1e-10


@pytest.mark.parametrize("case", EVERY)
def test_poses_are_in_balance(case: RobotCase) -> None:
    rows = StaticRows()
    poses = rows.posed(case.robot, case.samples(20, seed=2))
    poses = replace(poses, theta=None, dtheta=None, ddtheta=None)
    poses = replace(poses, tau=case.terms.torque(case.robot, poses, case.theta))
    assert misses(rows, case, poses).max() < 1e-10


@pytest.mark.parametrize("case", EVERY)
def test_motors_are_the_joints_through_their_jacobian(case: RobotCase) -> None:
    samples = replace(case.motion(10, seed=3), theta=None, dtheta=None, ddtheta=None)
    samples = replace(samples, tau=case.terms.torque(case.robot, samples, case.theta))
    p = len(case.theta)
    every = np.ones(p, dtype=np.bool_)
    found = MotorRows().equations(case.robot, case.terms, samples, every)
    J = motors_of(case.robot, (samples.q, samples.dq, samples.ddq))[1]
    at_motors = np.zeros((len(samples), case.robot.n, p))
    for motor, (columns, panel) in enumerate(zip(found.columns, found.panels, strict=True)):
        at_motors[:, motor, columns] = panel[:-1].T
    joints = np.einsum("tmn,tmp->tnp", J, at_motors)
    agree(joints, case.terms.torque_regressor(case.robot, samples, every).dense(p))


@pytest.mark.parametrize("case", ONE_ENCODER)
@pytest.mark.parametrize(
    "rows",
    [
        MomentumRows(),
        MomentumRows(3.0, 1),
        EnergyRows(),
        FilteredPowerRows(),
        FilteredPowerRows(3.0, 2),
    ],
    ids=lambda rows: f"{rows.name} {getattr(rows, 'degree', '')}",
)
def test_integrals_converge_with_the_square_of_the_step(case: RobotCase, rows: Rows) -> None:
    coarse, fine = (misses(rows, case, case.samples(200 * k, 4, 250.0 * k)).max() for k in (1, 4))
    assert fine < 1e-9 or 10 < coarse / fine < 24
    assert fine < 1e-3


@pytest.mark.parametrize("case", TWO_ENCODERS)
@pytest.mark.parametrize("form", ["total", "link"])
def test_momentum_behind_springs_is_the_filtered_torque(case: RobotCase, form: str) -> None:
    # Both forms of the same samples: f2 of a line of the torque equations is the line of the filtered ones.
    rows, plain = ElasticMomentumRows(form=form), ElasticRows(form=form)
    every = np.ones(len(case.theta), dtype=np.bool_)

    def filtered_and_plain(rate: float, count: int) -> tuple[float, float]:
        samples = case.motion(count, 5, rate)
        # No channel, whose noise is another one at every rate.
        samples = replace(samples, extra={CHANNEL: np.zeros(count)})
        samples = replace(samples, tau=np.cos(3.0 * samples.t)[:, None] * np.ones(case.robot.n))
        found = rows.equations(case.robot, case.terms, samples, every)
        other = plain.equations(case.robot, case.terms, samples, every)
        f = CausalFilter(rows.cutoff, rows.degree, rate)
        worst = size = 0.0
        for columns, panel, own, lines in zip(
            found.columns, found.panels, other.columns, other.panels, strict=True
        ):
            dense, wanted = (np.zeros((len(case.theta) + 1, count)) for _ in range(2))
            dense[np.append(columns, -1)], wanted[np.append(own, -1)] = panel, f.low(lines)
            scale = np.append(np.abs(case.theta), 1.0)[:, None]
            worst = max(worst, float(np.abs(scale * (dense - wanted)).max()))
            size = max(size, float(np.abs(scale * wanted).max()))
        return worst, size

    (coarse, size), (fine, _) = filtered_and_plain(250.0, 150), filtered_and_plain(1000.0, 600)
    assert fine < 1e-9 * size or 10 < coarse / fine < 24
    assert fine < 1e-2 * size


@pytest.mark.parametrize("case", EVERY)
def test_mass_matrix_and_gravity_are_pinocchios(case: RobotCase) -> None:
    robot = case.robot
    samples = replace(case.motion(6, seed=7), theta=None, dtheta=None, ddtheta=None)
    rest = np.zeros_like(samples.q)
    M, g = Bodies(robot, bodies_of(case)).mass_and_bias(samples.q, rest)
    if "spinning_rotor" in {term.name for term in case.terms}:
        rotors = values(case, "spinning_rotor") / robot.drive.gear_ratio**2
        tree = Bodies(robot, bodies_of(case), rotors)
        N = np.diag(robot.drive.gear_ratio)
        for j in range(robot.n):
            unit = np.tile(np.eye(robot.n)[j], (len(samples), 1))
            link, spin = tree.torque((samples.q, rest, unit), (rest, rest, unit @ N))
            M[:, :, j] = link + spin @ N - g
    else:
        J = motors_of(robot, (samples.q, rest, rest))[1]
        rotors = values(case, "motor_inertia")
        M = M + np.einsum("tmi,m,tmj->tij", J, rotors, J) + np.diag(values(case, "rotor_inertia"))
    g = g + values(case, "offset") + values(case, "link_offset")
    if case.levels["known"] != "none":
        torque = np.zeros_like(g)
        torque[:, robot.n // 2] = samples.extra[CHANNEL]
        if case.levels["known"] == "at a motor":
            torque = robot.drive.joint_torque(samples.q, torque)
        g = g + torque
    given = replace(samples, extra={**samples.extra, "mass_matrix": M, "gravity_torque": g})
    assert misses(InertiaRows(), case, given).max() < 1e-10


@pytest.mark.parametrize("case", ONE_ENCODER[:4])
@pytest.mark.parametrize("degree", [1, 2])
def test_filtered_power_is_the_filtered_power(case: RobotCase, degree: int) -> None:
    rows, every = FilteredPowerRows(4.0, degree), np.ones(len(case.theta), dtype=np.bool_)

    def miss(rate: float, count: int) -> float:
        samples = case.samples(count, 8, rate)
        samples = replace(samples, extra={CHANNEL: np.zeros(count)})
        (found,) = rows.equations(case.robot, case.terms, samples, every).panels
        (power,) = PowerRows().equations(case.robot, case.terms, samples, every).panels
        wanted = CausalFilter(4.0, degree, rate).low(power)
        scale = np.append(np.abs(case.theta), 1.0)[:, None]
        return float(np.abs(scale * (found - wanted)).max() / np.abs(scale * wanted).max())

    assert 10 < miss(250.0, 150) / miss(1000.0, 600) < 24


@pytest.mark.parametrize("case", ONE_ENCODER[:4])
@pytest.mark.parametrize(
    "rows", [MomentumRows(), EnergyRows(), FilteredPowerRows()], ids=lambda rows: rows.name
)
def test_integrals_begin_with_the_first_sample_that_counts(case: RobotCase, rows: Rows) -> None:
    samples, start, every = case.samples(60, seed=9), 17, np.ones(len(case.theta), dtype=np.bool_)
    late = replace(samples, keep=np.arange(60) >= start)
    whole = rows.equations(case.robot, case.terms, late, every)
    alone = replace(samples.part(start, 60), first=0)
    part = rows.equations(case.robot, case.terms, alone, every)
    for panel, wanted in zip(whole.panels, part.panels, strict=True):
        assert not panel[:, :start].any()
        agree(panel[:, start:], wanted, 1e-12)
