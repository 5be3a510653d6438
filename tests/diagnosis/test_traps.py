"""Wrong inputs: what the fit gives away, on simulated arms and, in a small dose, on the campaign's five robots."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Finding, Float, Level
from dynid.diagnosis import (
    ResidualAnalysis,
    check_negative_friction,
    check_wiring,
    compare_with_description,
    every_diagnosis,
    report_missing_effects,
)
from dynid.diagnosis.load_times import prove_load
from dynid.estimate import WLS
from dynid.identification import DEFAULT_TERMS
from dynid.log import canonical_columns, write_log
from dynid.robot import RobotModel, load_robot, lock_joints
from dynid.signals import Samples
from dynid.simulation import inverse, rigid_torque
from dynid.spatial import from_com
from dynid.terms import CATALOGUE, DriveGain, FeatureGroup, Hypothesis, RigidBody, Terms, TermWords, Viscous
from dynid.terms.gain import heaviness, size_against_description
from dynid.terms.gravity_tilt import find_tilt, perpendicular
from dynid.terms.payload import find_load
from dynid.terms.torque_delay import find_delay
from dynid.testing import TrueMotion, analysis_of, small_arm
from dynid.testing.faults import BY_NAME, CLEAN, FAULTS, kind, outcome
from dynid.testing.lab import RATE, fitted
from dynid.testing.machines import MACHINES, imprecise, loaded, tilted
from dynid.testing.plants import example_robots
from dynid.trajectories import FourierTrajectory
from tests.command_line import Run


def spoilt(change: str, joint: int = 1) -> ResidualAnalysis:
    """A clean motion of the small arm, read wrongly, and fitted."""
    robot = small_arm()
    path = FourierTrajectory.random(robot, 20.0, 5, 4, 0.1)
    q, dq, ddq = path.motion(np.arange(0.0, 20.0, 1.0 / RATE))
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(robot)])
    acting = {"gravity": np.zeros(3), "wall": np.array([9.81, 0.0, 0.0])}.get(change, robot.gravity)
    real = replace(robot, gravity=acting)
    tau = inverse(real, DEFAULT_TERMS, theta, q, dq, ddq)
    tau += 0.01 * np.abs(tau).max(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    sign, order = np.where(np.arange(3) == joint, -1.0, 1.0), [0, 2, 1]
    if change == "torque sign":
        tau = tau * sign
    if change == "position sign":
        q, dq, ddq = q * sign, dq * sign, ddq * sign
    if change == "torques":
        tau = tau[:, order]
    if change == "joints":
        tau = tau[:, order]
    if change in ("positions", "joints"):
        q, dq, ddq = q[:, order], dq[:, order], ddq[:, order]
    samples = Samples.from_motion(q, dq, ddq, tau, RATE)
    return fitted(robot, replace(samples, keep=np.abs(dq).max(axis=1) > 0.02), DEFAULT_TERMS)


@pytest.mark.parametrize(
    ("change", "identifier", "says"),
    [
        ("torque sign", "torque-sign", "effort.sign = { shoulder = -1 }"),
        ("position sign", "position-sign", "position.sign = { shoulder = -1 }"),
        ("torques", "joint-order", "efforts of 'shoulder' and 'elbow'"),
        ("positions", "joint-order", "positions of 'shoulder' and 'elbow'"),
        ("joints", "joint-order", "columns of 'shoulder' and 'elbow'"),
        ("gravity", "gravity-compensated", "without gravity"),
        ("wall", "tilted-base", "--gravity=9.81,0,0"),
    ],
)
def test_the_reading_that_fits_is_named_without_any_description(
    change: str, identifier: str, says: str
) -> None:
    analysis = spoilt(change)
    unknown = np.full_like(analysis.robot.inertia_prior, np.nan)
    bare = replace(analysis, robot=replace(analysis.robot, inertia_prior=unknown))
    sink = Diagnostics()
    check_wiring(bare, sink)
    (doubt,) = sink.doubts
    assert doubt.identifier == identifier
    assert says in doubt.text
    reported = re.search(r"torque error of '(\w+)' from ([\d.e+]+) % to ([\d.]+) %", doubt.text)
    assert reported is not None
    assert reported[1] in analysis.robot.joint_names
    assert float(reported[3]) < 0.5 * float(reported[2])


def read_at_motors(N: Float, counted: bool = False) -> tuple[RobotModel, Diagnostics]:
    """What is said of torque u of motors that turn by N q, as virtual work has it: tau_joint = N' u.

    counted: the log has the angles N q, and the torque of the joints.
    """
    robot = small_arm()
    path = FourierTrajectory.random(robot, 20.0, 5, 4, 0.1)
    q, dq, ddq = path.motion(np.arange(0.0, 20.0, 1.0 / RATE))
    tau = rigid_torque(robot, robot.inertia_prior, q, dq, ddq) @ (np.eye(3) if counted else np.linalg.inv(N))
    speed = dq if counted else dq @ N.T
    tau += robot.friction_prior[:, 0] * speed + robot.friction_prior[:, 1] * np.tanh(speed / 0.02)
    tau += 0.01 * np.abs(tau).max(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    logged = [x @ N.T if counted else x for x in (q, dq, ddq)]
    samples = Samples.from_motion(logged[0], logged[1], logged[2], tau, RATE)
    sink = Diagnostics()
    check_wiring(fitted(robot, replace(samples, keep=np.abs(dq).max(axis=1) > 0.02), DEFAULT_TERMS), sink)
    return robot, sink


@pytest.mark.parametrize(("motor", "joint", "factor"), [(2, 1, 1.0), (2, 1, -1.0), (1, 2, 1.0)])
def test_a_motor_that_turns_with_a_second_joint_is_named(motor: int, joint: int, factor: float) -> None:
    N = np.eye(3)
    N[motor, joint] = factor
    robot, sink = read_at_motors(N)
    (found,) = list(sink)
    assert found.identifier == "undeclared-coupling"
    names = robot.joint_names
    assert f'motor = "{names[motor]}", joint = "{names[joint]}", factor = {factor:.3g}' in found.text
    assert found.text.startswith("the log contains torque of motors")


@pytest.mark.parametrize("factor", [1.0, -1.0])
def test_an_angle_to_the_horizontal_is_named(factor: float) -> None:
    """As controllers show the third joint of an arm, whose own torque they log."""
    N = np.eye(3)
    N[2, 1] = factor
    robot, sink = read_at_motors(N, counted=True)
    (found,) = list(sink)
    assert found.identifier == "undeclared-coupling"
    names = robot.joint_names
    assert f"the logged angle of '{names[2]}' includes the angle of '{names[1]}'" in found.text
    assert f"the logged angle {'minus' if factor > 0 else 'plus'} the angle of '{names[1]}'" in found.text
    assert f'factor = {factor:.3g}) with position.side = "motor" and effort.side = "link"' in found.text


@pytest.mark.parametrize(("factor", "sign"), [(1.0, 1.0), (-0.6, -1.0), (1.7, -1.0), (-2.5, 1.0)])
def test_the_motors_of_a_differential_are_named_with_its_transmission(factor: float, sign: float) -> None:
    N = np.eye(3)
    N[1:, 1:] = [[1.0, factor], [sign, -sign * factor]]
    _, sink = read_at_motors(N)
    (found,) = list(sink)
    assert found.identifier == "undeclared-coupling"
    rows = re.search(r"transmission = \[\[(.*)\]\]", found.text)
    assert rows is not None
    shown = np.array([[float(one) for one in row.split(", ")] for row in rows[1].split("], [")])
    np.testing.assert_allclose(shown, N, rtol=0.05)


def read_at_belts(N: Float, declared: Float) -> Diagnostics:
    """What is said of angles N q and torque of motors, where another transmission is declared."""
    robot = small_arm()
    path = FourierTrajectory.random(robot, 20.0, 5, 4, 0.1)
    q, dq, ddq = path.motion(np.arange(0.0, 20.0, 1.0 / RATE))
    ratios = np.abs(np.diag(declared))
    speed = dq @ N.T / ratios
    tau = rigid_torque(robot, robot.inertia_prior, q, dq, ddq) @ np.linalg.inv(N)
    tau += (robot.friction_prior[:, 0] * speed + robot.friction_prior[:, 1] * np.tanh(speed / 0.02)) / ratios
    tau += 0.01 * np.abs(tau).max(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    read = [x @ N.T @ np.linalg.inv(declared).T for x in (q, dq, ddq)]
    driven = replace(robot, drive=replace(robot.drive, transmission=declared))
    samples = Samples.from_motion(read[0], read[1], read[2], tau @ declared, RATE)
    sink = Diagnostics()
    moving = replace(samples, keep=np.abs(dq).max(axis=1) > 0.02)
    check_wiring(fitted(driven, moving, DEFAULT_TERMS), sink)
    return sink


BELTS = np.array([[1.0, 0.0, 0.0], [-0.3, 1.0, 0.0], [0.3, -1.0, 1.0]])
ONE_BELT = np.array([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, -1.0, 1.0]])


def shown_transmission(sink: Diagnostics) -> Float:
    (found,) = list(sink)
    assert found.code == "undeclared-coupling"
    assert found.text.startswith("the log contains angles and torque of")
    assert 'position.side = "motor"' in found.text
    rows = re.search(r"transmission = \[\[(.*)\]\]", found.text)
    assert rows is not None
    return np.array([[float(one) for one in row.split(", ")] for row in rows[1].split("], [")])


@pytest.mark.parametrize("declared", [np.eye(3), ONE_BELT])
@pytest.mark.parametrize("ratios", [np.ones(3), np.array([121.0, 80.0, 50.0])])
def test_all_couplings_of_belts_are_named_together(declared: Float, ratios: Float) -> None:
    """Also where one of them is declared: one more factor alone would spoil what another mended."""
    scale = ratios[:, None]
    shown = shown_transmission(read_at_belts(scale * BELTS, scale * declared))
    np.testing.assert_allclose(shown / scale, BELTS, atol=0.03)


@pytest.mark.parametrize("N", [np.eye(3), BELTS])
def test_belts_that_are_declared_pass(N: Float) -> None:
    assert list(read_at_belts(N, N)) == []


@pytest.mark.parametrize(("factor", "sign"), [(0.7, 1.0), (-1.3, -1.0)])
def test_a_differential_whose_motors_angles_are_logged_is_named(factor: float, sign: float) -> None:
    N = np.eye(3)
    N[1:, 1:] = [[1.0, factor], [sign, -sign * factor]]
    np.testing.assert_allclose(shown_transmission(read_at_belts(N, np.eye(3))), N, atol=0.03)


def test_the_declared_reading_passes() -> None:
    sink = Diagnostics()
    check_wiring(spoilt("nothing"), sink)
    assert list(sink) == []


def test_a_wrong_model_is_no_wrong_reading() -> None:
    def cable(motion: TrueMotion, rng: np.random.Generator) -> Float:
        return 0.5 * motion.size * np.cos(2 * motion.q + 1.0)

    analysis = analysis_of(small_arm(), cable, seed=1)
    assert (analysis.rms > 0.1 * analysis.torque_rms).any()
    sink = Diagnostics()
    check_wiring(analysis, sink)
    assert not sink.doubts


def test_a_dead_encoder_is_no_wrong_wiring() -> None:
    analysis = spoilt("torque sign")
    r = analysis.residuals
    q, dq = r.q.copy(), r.dq.copy()
    q[:, 0], dq[:, 0] = 0.3 + 1e-5 * np.sin(np.arange(len(q))), 0.0
    sink = Diagnostics()
    check_wiring(replace(analysis, residuals=replace(r, q=q, dq=dq)), sink)
    assert not sink.doubts


def test_free_gains_make_every_reading_right() -> None:
    analysis = spoilt("torque sign")
    terms = replace(analysis.terms, terms=(*analysis.terms, DriveGain()))
    sink = Diagnostics()
    check_wiring(replace(analysis, terms=terms), sink)
    assert not sink.doubts


@pytest.mark.parametrize("joints", [(4, 5), pytest.param((1, 3), marks=pytest.mark.slow)])
def test_bodies_alone_accuse_no_wiring(joints: tuple[int, int]) -> None:
    """Friction makes up most of a light arm's torque: without it some exchange is a little less bad."""
    robot = MACHINES["arm7"].robot
    analysis = rubbed(robot, Terms((RigidBody(),)))
    sink = Diagnostics()
    check_wiring(analysis, sink)
    (warning,) = sink.warnings
    assert warning.identifier == "large-misfit"
    assert "rigid_body: the torque error is" in warning.text
    missed = {name: float(share) for share, name in re.findall(r"([\d.]+) % of '(\w+)'", warning.text)}
    assert set(missed) <= set(robot.joint_names)
    assert list(missed.values()) == sorted(missed.values(), reverse=True)
    assert all(share > 50 for share in missed.values())
    # The exchange itself would be found with friction in the model.
    order = list(range(robot.n))
    order[joints[0]], order[joints[1]] = order[joints[1]], order[joints[0]]
    sink = Diagnostics()
    check_wiring(rubbed(robot, DEFAULT_TERMS, order), sink)
    assert [one.identifier for one in sink.doubts] == ["joint-order"]


def rubbed(robot: RobotModel, terms: Terms, order: Sequence[int] | None = None) -> ResidualAnalysis:
    """A robot whose joints carry three times their described friction, efforts in some order."""
    path = FourierTrajectory.random(robot, 20.0, 5, 4, 0.1)
    q, dq, ddq = path.motion(np.arange(0.0, 20.0, 1.0 / RATE))
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(robot)])
    theta = np.where(
        [c.term in ("viscous", "coulomb") for c in DEFAULT_TERMS.columns(robot)], 3 * theta, theta
    )
    tau = inverse(robot, DEFAULT_TERMS, theta, q, dq, ddq)
    tau += 0.005 * np.abs(tau).max(axis=0) * np.random.default_rng(0).normal(size=tau.shape)
    samples = Samples.from_motion(q, dq, ddq, tau if order is None else tau[:, order], RATE)
    return fitted(robot, replace(samples, keep=np.abs(dq).max(axis=1) > 0.02), terms)


@pytest.mark.parametrize(("degrees", "azimuth"), [(0.7, 0.3), (3.0, 2.0), (6.0, 4.5)])
def test_a_leaning_base_is_measured(degrees: float, azimuth: float) -> None:
    robot = small_arm()
    real = tilted(robot, np.deg2rad(degrees), azimuth)
    found = find_tilt(analysis_of(robot, seed=2, truth=real))
    assert found is not None
    assert found.certain
    assert abs(found.degrees - degrees) < 3 * found.std + 0.1 * degrees
    lean = np.degrees(np.arccos(found.gravity @ real.gravity / 9.81**2))
    assert lean < 0.15 * degrees
    assert np.linalg.norm(found.gravity) == pytest.approx(9.81)


def test_an_upright_base_is_not_leaning() -> None:
    for seed in range(4):
        found = find_tilt(analysis_of(small_arm(), seed=seed))
        assert found is not None
        assert not found.certain
        assert found.degrees < 0.3


def test_directions_across_gravity() -> None:
    for g in (np.array([0.0, 0.0, -9.81]), np.array([1.0, -2.0, 0.5])):
        u, v = perpendicular(g)
        frame = np.stack([u, v, g / np.linalg.norm(g)])
        np.testing.assert_allclose(frame @ frame.T, np.eye(3), atol=1e-12)


def test_leaning_is_doubted_over_a_degree_and_says_what_to_declare() -> None:
    robot = small_arm()
    sink = Diagnostics()
    compare_with_description(analysis_of(robot, seed=2, truth=tilted(robot, np.deg2rad(3.0), 1.0)), sink)
    (doubt,) = sink.doubts
    assert doubt.identifier == "tilted-base"
    declared = re.search(r"--gravity=([-\d.,e]+)", doubt.text)
    assert declared
    assert np.linalg.norm([float(part) for part in declared[1].split(",")]) == pytest.approx(9.81, rel=1e-3)
    assert "gravity = [" in doubt.text
    sink = Diagnostics()
    compare_with_description(analysis_of(robot, seed=2, truth=tilted(robot, np.deg2rad(0.8), 1.0)), sink)
    assert [item.identifier for item in sink.warnings] == ["tilted-base"]


def test_an_unknown_load_is_weighed_and_a_known_one_is_not() -> None:
    robot = small_arm()
    real = loaded(robot, 3.0, np.random.default_rng(1))
    analysis = analysis_of(robot, seed=5, truth=real)
    load = find_load(analysis)
    assert load is not None
    assert load.body == "forearm"
    assert abs(load.mass - 3.0) < 2 * load.std
    sink = Diagnostics()
    compare_with_description(analysis, sink)
    assert [item.identifier for item in sink.doubts] == ["payload"]
    declared = analysis_of(real, seed=5)
    sink = Diagnostics()
    compare_with_description(declared, sink)
    assert list(sink) == []


def test_only_the_body_that_carries_a_load_is_proven_to() -> None:
    """The opposite of the load, a load elsewhere and a scale of all torque explain less of held-out blocks."""
    robot = small_arm()
    proof = prove_load(analysis_of(robot, seed=5, truth=loaded(robot, 3.0, np.random.default_rng(1))), 2)
    assert proof is not None
    assert proof.holds
    assert proof.mirror < 0.0 < proof.rival_gain < proof.gain
    bent = robot.inertia_prior.copy()
    bent[1] *= 1.5
    elsewhere = prove_load(analysis_of(robot, seed=5, truth=replace(robot, inertia_prior=bent)), 2)
    assert elsewhere is not None
    assert not elsewhere.holds
    assert f"another weight of link '{robot.body_names[1]}'" in elsewhere.doubts()
    exact = prove_load(analysis_of(robot, seed=5), 2)
    assert exact is not None
    assert not exact.holds


def scaled(robot: RobotModel, factor: float) -> RobotModel:
    return replace(robot, inertia_prior=factor * robot.inertia_prior)


def test_torque_of_another_size() -> None:
    robot = small_arm()
    analysis = analysis_of(robot, seed=6)
    sizes = size_against_description(replace(analysis, robot=scaled(robot, 0.5)))
    assert sizes is not None
    np.testing.assert_allclose(sizes, 2.0, rtol=0.05)
    sink = Diagnostics()
    compare_with_description(replace(analysis, robot=scaled(robot, 0.1)), sink)
    assert [one.identifier for one in sink.doubts] == ["torque-scale"]
    assert "effort.side" not in sink.doubts[0].text
    sink = Diagnostics()
    compare_with_description(replace(analysis, robot=scaled(robot, 10.0)), sink)
    assert [one.identifier for one in sink.doubts] == ["torque-scale"]
    assert 'gear ratio of about 10, set effort.side = "motor"' in sink.doubts[0].text
    for factor in (0.01, 100.0):
        sink = Diagnostics()
        compare_with_description(replace(analysis, robot=scaled(robot, factor)), sink)
        assert [one.identifier for one in sink.doubts] == ["unit-suspicion"]
    unknown = replace(robot, inertia_prior=np.full((3, 10), np.nan))
    assert size_against_description(replace(analysis, robot=unknown)) is None
    assert find_load(replace(analysis, robot=unknown)) is None
    sink = Diagnostics()
    compare_with_description(replace(analysis, robot=unknown), sink)
    assert list(sink) == []


def test_bodies_whose_torque_a_rotor_takes_away_are_no_unit() -> None:
    """An upright axis: inertia about it and its rotor's are one sum, of which any part may be the bodies'."""
    analysis = analysis_of(small_arm(), seed=6)
    columns = {column.name: i for i, column in enumerate(analysis.estimate.columns)}
    parameters = analysis.estimate.parameters.copy()
    parameters[columns["Izz1"]] += 2e3 * parameters[columns["Izz1"]]
    split = replace(analysis, estimate=replace(analysis.estimate, parameters=parameters))
    sizes = size_against_description(split)
    assert sizes is not None
    assert np.isnan(sizes[0])
    np.testing.assert_allclose(sizes[1:], 1.0, rtol=0.05)


@pytest.mark.parametrize(
    ("sizes", "told"), [((1990.0, 1.55), False), ((1990.0, 1.55, 0.9), False), ((1990.0, 80.0), True)]
)
def test_one_absurd_joint_is_no_common_unit(
    sizes: tuple[float, ...], told: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysis, sink = analysis_of(small_arm(), seed=6), Diagnostics()
    found = np.array([*sizes, *[np.nan] * (3 - len(sizes))])
    monkeypatch.setattr("dynid.terms.gain.size_against_description", lambda fit: found)
    compare_with_description(analysis, sink)
    assert [one.identifier for one in sink.doubts] == ["unit-suspicion"] * told


def test_arms_that_are_too_heavy_for_their_length_are_reported_without_a_description() -> None:
    robot = small_arm()
    analysis = analysis_of(robot, seed=6)
    unknown = replace(robot, inertia_prior=np.full((3, 10), np.nan))
    heavy = heaviness(analysis)
    assert heavy is not None
    # 2.5 kg at 0.15 m and 4 kg at 0.2 m on a length of 0.6 m: some 2 to 3 kg at its end.
    assert 1.5 / 0.6**3 < heavy < 4.0 / 0.6**3
    estimate = replace(analysis.estimate, parameters=100.0 * analysis.estimate.parameters)
    sink = Diagnostics()
    compare_with_description(replace(analysis, robot=unknown, estimate=estimate), sink)
    (warning,) = sink.warnings
    assert warning.identifier == "unit-suspicion"
    # A hundred times the torque: the arm weighs what a hundred times its mass would, in units of usual ones.
    assert f"about {10 * heavy:.2g} times as heavy as robots of this reach" in warning.text


def late(seconds: float) -> ResidualAnalysis:
    """The small arm with torque that comes late."""

    def added(motion: TrueMotion, rng: np.random.Generator) -> Float:
        shifted = [np.interp(motion.t - seconds, motion.t, tau) for tau in motion.tau.T]
        return np.column_stack(shifted) - motion.tau

    return analysis_of(small_arm(), added, seed=7)


@pytest.mark.parametrize("seconds", [-0.03, 0.008, 0.03, 0.06])
def test_a_delay_is_measured(seconds: float) -> None:
    found = find_delay(late(seconds))
    assert found is not None
    assert found.believable
    assert abs(found.factor - seconds) < 3 * found.std + 0.06 * abs(seconds)


def test_a_small_lag_warns_and_a_large_one_is_doubted() -> None:
    sink = Diagnostics()
    report_missing_effects(late(0.0), sink)
    assert list(sink) == []
    report_missing_effects(late(0.01), sink)
    (warning,) = sink.warnings
    assert warning.identifier == "torque-lag"
    assert float(warning.text.split("about ")[1].split(" ")[0]) == pytest.approx(10.0, rel=0.1)
    for seconds, says in ((0.035, "lags behind"), (-0.035, "runs ahead")):
        sink = Diagnostics()
        report_missing_effects(late(seconds), sink)
        (doubt,) = sink.doubts
        assert doubt.identifier == "torque-lag"
        assert says in doubt.text


def test_friction_of_one_joint_is_no_lag() -> None:
    def added(motion: TrueMotion, rng: np.random.Generator) -> Float:
        torque = np.zeros_like(motion.tau)
        torque[:, 1] = np.interp(motion.t - 0.05, motion.t, motion.tau[:, 1]) - motion.tau[:, 1]
        return torque

    sink = Diagnostics()
    report_missing_effects(analysis_of(small_arm(), added, seed=7), sink)
    assert list(sink) == []


# The campaign of benchmarks/traps.py: each fault on one of the robots in turn, and a clean log of each.


@pytest.mark.parametrize(
    ("fault", "robot"), [(fault.name, list(MACHINES)[i % 5]) for i, fault in enumerate(FAULTS)]
)
def test_faults_are_named(fault: str, robot: str) -> None:
    # The default looks for consistent bodies longest where none fit, and what names a fault is found before; the slow
    # campaign takes it for all of them.
    result = outcome(MACHINES[robot], BY_NAME[fault], seed=0, estimator=WLS()) | {"fault": fault}
    assert kind(result) == "named", result


# Arms of revolute joints as arm7 is; a clean UR5 is in CI's dose of benchmarks/doubts.py, too.
ALIKE = {"panda", "ur5e"}


@pytest.mark.parametrize(
    "robot", [pytest.param(one, marks=[pytest.mark.slow] if one in ALIKE else []) for one in MACHINES]
)
def test_clean_logs_pass(robot: str) -> None:
    result = outcome(MACHINES[robot], BY_NAME[CLEAN], seed=0)
    assert result["stop"] is None, result
    assert result["doubted"] == [], result
    assert result["level"] == "good", result


@pytest.mark.slow
def test_faults_are_named_on_every_robot() -> None:
    results = [
        outcome(MACHINES[robot], fault, seed) | {"fault": fault.name}
        for robot in MACHINES
        for fault in FAULTS
        for seed in range(1, 9)
    ]
    kinds = [kind(result) for result in results]
    assert kinds.count("silent") == 0
    assert kinds.count("named") >= 0.98 * len(kinds)


# From the command line.


def test_check_doubts_a_leaning_base(run: Run, tmp_path: Path) -> None:
    robot = MACHINES["arm7"].robot
    for angle, leans, says in (
        (0.0, False, "fit for identification; verdict of the fit: GOOD"),
        (4.0, True, "doubt[tilted-base]"),
    ):
        real = tilted(robot, np.deg2rad(angle), 1.0)
        path = FourierTrajectory.random(real, 20.0, 5, 3, 0.1)
        t = np.arange(0.0, 20.0, 0.005)
        q, dq, ddq = path.motion(t)
        theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(real)])
        tau = inverse(real, DEFAULT_TERMS, theta, q, dq, ddq)
        tau += 0.005 * np.abs(tau).max(axis=0) * np.random.default_rng(1).normal(size=tau.shape)
        log = write_log(tmp_path / f"{angle}.parquet", t, canonical_columns(robot.joint_names, q, tau=tau))
        done = run("check", files("dynid.data") / "arm7.toml", log, "--fit")
        assert done.code == 0, done.err
        assert says in done.out + done.err
        assert leans or "show: only noise" in done.out


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_scale_of_torque_is_told_from_a_load_on_a_short_arm(factor: float) -> None:
    """On two joints that carry weight a load may look like a factor in gravity torque alone."""
    scaled, robot = Diagnostics(), small_arm()
    compare_with_description(analysis_of(robot, lambda motion, rng: (factor - 1.0) * motion.tau), scaled)
    assert [one.identifier for one in scaled] == ["torque-scale"]
    burdened = Diagnostics()
    compare_with_description(analysis_of(robot, truth=loaded(robot, 5.0, np.random.default_rng(0))), burdened)
    assert [one.identifier for one in burdened] == ["payload"]


def arm_on_a_lift() -> RobotModel:
    """A mobile manipulator's arm on its lift: what hangs on the lift is heavier than the arm."""
    path = example_robots() / "tiago_description/robots/tiago_no_hand.urdf"
    robot = load_robot(path)
    beside = [one for one in robot.joint_names if not one.startswith(("arm", "torso"))]
    robot = lock_joints(robot, dict.fromkeys(beside, 0.0)).robot
    limits = robot.limits
    return replace(
        robot,
        limits=replace(
            limits,
            lower=np.maximum(limits.lower, -1.5),
            upper=np.minimum(limits.upper, 1.5),
            velocity=np.minimum(limits.velocity, [0.06] + [1.0] * 7),
        ),
    )


@pytest.mark.parametrize(
    ("seed", "noise"),
    [
        (0, 0.01),
        (1, 0.03),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((0, 0.03), (1, 0.01), (2, 0.01), (2, 0.03))),
    ],
)
def test_a_gripper_is_told_from_a_scale_of_torque_where_all_masses_are_off(seed: int, noise: float) -> None:
    """One factor explains 86 to 95 % of the gripper's gravity torque, the gripper 99.7 % or more."""
    robot = arm_on_a_lift()
    described = imprecise(robot, np.random.default_rng(seed), (0.05, 0.15))
    bodies = robot.inertia_prior.copy()
    bodies[-1] += from_com(0.9, np.array([0.0, 0.0, 0.1]), 1e-3 * np.eye(3))
    cases: tuple[tuple[str, RobotModel, float], ...] = (
        ("payload", replace(robot, inertia_prior=bodies), 0.0),
        ("torque-scale", robot, 0.6),
    )
    for named, truth, more in cases:
        said = Diagnostics()
        compare_with_description(
            analysis_of(
                described, lambda motion, rng, more=more: more * motion.tau, seed, noise=noise, truth=truth
            ),
            said,
        )
        assert [one.identifier for one in said] == [named]


@dataclass(frozen=True)
class Sagging(Viscous):
    """An effect that only its own class knows of."""

    name: str = "sagging"
    words = TermWords(
        group=FeatureGroup("sagging", "residual against nothing"),
        lacking=lambda fit: [Finding(Level.WARNING, "sagging", f"{len(fit.joints)} joints sag")],
        against_description=lambda _: [
            Hypothesis(Finding(Level.NOTE, "sagging", "as described"), instead_of=("payload",))
        ],
    )


def test_what_a_term_says_of_a_fit_is_reported_without_another_line(monkeypatch: pytest.MonkeyPatch) -> None:
    robot = small_arm()
    analysis = analysis_of(robot, seed=5, truth=loaded(robot, 3.0, np.random.default_rng(1)))
    before = Diagnostics()
    compare_with_description(analysis, before)
    assert [one.identifier for one in before] == ["payload"]
    monkeypatch.setitem(CATALOGUE, "sagging", Sagging)
    sink = Diagnostics()
    report_missing_effects(analysis, sink)
    compare_with_description(analysis, sink)
    assert "sagging" in {one.identifier for one in every_diagnosis()}
    assert [str(one) for one in sink] == ["warning[sagging] 3 joints sag", "note[sagging] as described"]


@pytest.mark.parametrize("commanded", [False, True])
def test_friction_that_drives_a_robot_of_commands_is_a_matter_of_their_delay(commanded: bool) -> None:
    """Such a log has no effort whose sign could be turned."""
    fed = analysis_of(small_arm(), lambda motion, rng: motion.dq * [0.0, 0.0, -3.0], seed=3)
    sink = Diagnostics()
    check_negative_friction(fed, sink, commanded)
    (found,) = list(sink)
    assert (found.identifier, found.place.joint) == ("negative-friction", "elbow")
    assert ("--loop" in found.text) == commanded
    assert ("effort" in found.text) != commanded
    assert not (commanded and sink.doubts)


def test_friction_that_stands_in_for_most_of_a_torque_says_nothing_of_a_sign() -> None:
    """A torque that no model has, far larger than the joint's own, with friction that drives besides."""

    def foreign(motion: TrueMotion, rng: np.random.Generator) -> Float:
        torque = motion.dq * [0.0, 0.0, -24.0]
        torque[:, 2] += np.abs(torque[:, 2]).max() * np.sin(23.0 * motion.t)
        return torque

    sink = Diagnostics()
    check_negative_friction(analysis_of(small_arm(), foreign, seed=3), sink)
    (found,) = list(sink)
    assert (found.identifier, found.place.joint) == ("negative-friction", "elbow")
    assert not sink.doubts
    assert "exceeds 50 %" in found.text
