"""A robot whose base floats, from a log with an IMU and unknown forces of the ground."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from dynid.base import Diagnostics, Level, UsageError
from dynid.diagnosis.floating_checks import check_contacts
from dynid.estimate import OLS, Estimate, Origin, regression_of
from dynid.exporters import export_parameters
from dynid.factor import Assembly, Blocking, structural_base
from dynid.identification import identify
from dynid.identification.floating import ACCELEROMETER_BIAS, of_accelerometer_bias
from dynid.lab import replay_torque
from dynid.log import Log, read_log
from dynid.robot import (
    RobotModel,
    described_shapes,
    load_robot,
    lock_joints,
    with_fixed_base,
    with_floating_base,
)
from dynid.rows import Contact, FloatingRows, TorqueRows, contact_jacobian, floating_samples
from dynid.rows.floating import placements, vertical_in_world
from dynid.run import Identification, next_steps, store, total_mass, validate
from dynid.signals import ParallelFilter, Samples
from dynid.terms import RigidBody, Terms
from dynid.verbs import write_recording
from dynid.verbs.payload import payload
from dynid.verbs.schemes import drive
from dynid.verbs.selftest import selftest
from tests.robot.shipped import shipped

FEET = ("FL_foot", "FR_foot", "RL_foot", "RR_foot")
RATE, SECONDS = 200.0, 20.0


def _wave(rng: np.random.Generator, t: np.ndarray, size: float) -> tuple[np.ndarray, ...]:
    """A sum of sines and its two derivatives."""
    f, phase = rng.uniform(0.2, 1.5, 4), rng.uniform(0, 6.28, 4)
    w = 2 * np.pi * f
    return tuple(
        size / 4 * np.sum(w[:, None] ** k * np.sin(np.outer(w, t) + phase[:, None] + k * np.pi / 2), axis=0)
        for k in range(3)
    )


def _swaying(rng: np.random.Generator, t: np.ndarray) -> tuple[np.ndarray, ...]:
    """Angular velocity and acceleration, specific force and vertical of a base that sways, (T, 3), in its axes."""
    step = 1e-4
    fine = t[:, None] + step * np.arange(-2, 3)
    angles, place = (
        np.stack([_wave(rng, fine.ravel(), size)[0].reshape(fine.shape) for _ in "xyz"], axis=2)
        for size in (0.4, 0.05)
    )
    rotations = [Rotation.from_euler("xyz", angles[:, k]) for k in range(5)]
    # Mean angular velocities between neighbours, in the axes of the first: those of the middle to second order.
    rates = [(rotations[k].inv() * rotations[k + 2]).as_rotvec() / (2.0 * step) for k in (0, 1, 2)]
    acceleration = (place[:, 3] - 2.0 * place[:, 2] + place[:, 1]) / step**2
    to_base = rotations[2].inv()
    felt = to_base.apply(acceleration + np.array([0.0, 0.0, 9.81]))
    return rates[1], (rates[2] - rates[0]) / (2.0 * step), felt, to_base.apply([0.0, 0.0, 1.0])


def _log(robot: RobotModel, light: float = 1.0, weighed: bool = False) -> Log:
    """A log of random motion, with forces at the feet that balance it.

    light: factor on all masses.    weighed: with the normal forces of the feet in place of torques.
    """
    rng = np.random.default_rng(4)
    t = np.arange(0, SECONDS, 1 / RATE)
    q, dq, ddq = (np.array(x).T for x in zip(*(_wave(rng, t, 0.4) for _ in robot.joint_names), strict=True))
    q = q + np.tile([0.0, 0.8, -1.5], 4)
    omega, alpha = (np.array(x).T for x in list(zip(*(_wave(rng, t, 0.4) for _ in "xyz"), strict=True))[1:])
    specific = np.array([_wave(rng, t, 2.0)[0] for _ in "xyz"]).T + np.array([0, 0, 9.81])
    floating = with_floating_base(robot)
    up = np.tile([0.0, 0.0, 1.0], (len(t), 1))
    if weighed:
        omega, alpha, specific, up = _swaying(rng, t)
    ones = np.ones((len(t), 4), dtype=np.bool_)
    samples = floating_samples(floating, Samples.from_motion(q, dq, ddq), omega, alpha, specific, up, ones)
    torque = Terms((RigidBody(),)).torque(floating, samples, light * floating.inertia_prior.ravel())
    feet = tuple(
        Contact(name, body, tuple(frame[:3, 3].tolist()))
        for name in FEET
        for body, frame in [floating.link_frame(name)]
    )
    J = contact_jacobian(floating, feet, samples.q, up)
    force = np.einsum("tcb,tb->tc", np.linalg.pinv(J[:, :, :6].transpose(0, 2, 1)), torque[:, :6])
    tau = torque - np.einsum("tcn,tc->tn", J, force) + 0.02 * rng.normal(size=torque.shape)
    _, frame = floating.link_frame("imu")
    R, p = frame[:3, :3], frame[:3, 3]
    arm = np.broadcast_to(p, omega.shape)
    felt = specific + np.cross(alpha, arm) + np.cross(omega, np.cross(omega, arm))
    columns = {"t": t}
    for j, name in enumerate(robot.joint_names):
        columns |= {f"q_{name}": q[:, j], f"tau_{name}": tau[:, 6 + j]}
    for k, axis in enumerate("xyz"):
        columns |= {f"w_{axis}": (omega @ R)[:, k], f"a_{axis}": (felt @ R)[:, k]}
    if weighed:
        vertical = np.einsum("tfi,ti->ft", force.reshape(len(t), 4, 3), vertical_in_world(floating, up))
        vertical = vertical + 0.5 * rng.normal(size=vertical.shape)
        columns = {name: values for name, values in columns.items() if not name.startswith("tau_")}
        columns |= {f"f_{foot}": vertical[k] for k, foot in enumerate(FEET)}
        return Log.from_frame(columns, robot, mapping=WEIGHED)
    columns |= {f"c_{foot}": np.ones(len(t)) for foot in FEET}
    return Log.from_frame(columns, robot, mapping=MAPPING)


MAPPING: dict[str, Any] = {
    "time": {"column": "t", "unit": "s"},
    "position": {"columns": "q_{joint}", "unit": "rad"},
    "effort": {"columns": "tau_{joint}", "unit": "N m"},
    "imu": {
        "link": "imu",
        "gyro": "w_{axis}",
        "acceleration": "a_{axis}",
        "unit": {"gyro": "rad/s", "acceleration": "m/s^2"},
    },
    "contact": {"feet": list(FEET), "columns": "c_{foot}", "moment": False},
}
WEIGHED = {key: value for key, value in MAPPING.items() if key != "effort"}
WEIGHED["contact"] = {"feet": list(FEET), "columns": "f_{foot}", "unit": "N", "moment": False}


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    """A quadruped, whose feet push at the origins of their links, as the log does."""
    return replace(load_robot(shipped("go2_description/urdf/go2.urdf")), source="")


@pytest.fixture(scope="module")
def log(robot: RobotModel) -> Log:
    """Of a robot with 0.8 times the masses of its file."""
    return _log(robot, 0.8)


@pytest.fixture(scope="module")
def result(robot: RobotModel, log: Log) -> Identification:
    """The robot identified from its log."""
    return identify(robot, log)


def test_mass_is_found_without_forces_and_without_pose(robot: RobotModel, result: Identification) -> None:
    """The true robot has 0.8 times the masses of its file; the base has neither position nor orientation in the log."""
    estimate = result.estimate
    mass = sum(
        value
        for column, value in zip(estimate.columns, estimate.parameters, strict=True)
        if column.name[1:].isdigit() and column.name[0] == "m"
    )
    true = 0.8 * with_floating_base(robot).inertia_prior[:, 0].sum()
    assert mass == pytest.approx(true, rel=0.01)
    assert result.validations[0].scores.total_relative < 0.05
    assert any(note.code == "floating-base" for note in result.diagnostics)


def test_normal_forces_of_the_feet_weigh_a_robot_without_torques(robot: RobotModel) -> None:
    """The mass of all links is within its interval; no joint torque was measured, so the model is not to be used."""
    run = identify(robot, _log(robot, 0.8, weighed=True))
    mass = total_mass(run.estimate, run.regression)
    true = 0.8 * with_floating_base(robot).inertia_prior[:, 0].sum()
    assert abs(mass.value - true) < mass.half < 0.03 * true
    assert set(run.training.scores.unmeasured) >= set(robot.joint_names)
    assert run.verdict.level == "poor"
    (finding,) = [
        finding
        for finding in run.verdict.findings
        if finding.code == "unscored-joint" and finding.level is Level.PROBLEM
    ]
    assert finding.title == "No joint torque is measured"
    assert not any(column.term in ("viscous", "coulomb", "rotor") for column in run.estimate.columns)
    assert not any(item.code == "constant-effort" for item in run.diagnostics)


def test_normal_forces_take_no_place_of_efforts_where_the_base_is_fixed(robot: RobotModel) -> None:
    fixed = replace(robot, reading=replace(robot.reading, base="fixed"))
    assert _log(robot, weighed=True).has_effort
    assert not _log(fixed, weighed=True).has_effort


def test_covariance_of_an_accelerometers_bias_is_that_of_the_estimates_which_it_moves(
    robot: RobotModel,
) -> None:
    """Three recordings of exact samples, each with its own bias: refits of them are the oracle, and truth is kept.

    With the move M b of the estimate by the biases b of all recordings and their covariance S, half of it common, the
    covariance is M S M'.
    """
    rng = np.random.default_rng(3)
    terms, floating = Terms((RigidBody(),)), with_floating_base(robot)
    truth = floating.inertia_prior.ravel()
    contacts = tuple(
        Contact(foot, body, tuple(frame[:3, 3].tolist()))
        for foot in FEET
        for body, frame in [floating.link_frame(foot)]
    )
    recordings = []
    for number, name in enumerate(("rope", "stance", "step")):
        motion = [rng.normal(size=(40, 12)) for _ in range(3)]
        omega, alpha, specific, up = rng.normal(size=(4, 40, 3))
        pressed = np.repeat(rng.uniform(size=(1, 4)) > 0.5, 40, axis=0)
        joints = replace(Samples.from_motion(*motion), trajectory=name, segment=number)
        samples = floating_samples(floating, joints, omega, alpha, specific, up, pressed)
        recordings.append(replace(samples, tau=terms.torque(floating, samples, truth)))
    structural = structural_base(floating, terms, TorqueRows())
    parallel = ParallelFilter(recordings[0].rate, None)
    rows = FloatingRows(contacts, usual=tuple(rng.uniform(1.0, 2.0, 18).tolist()), weighted=True)
    assembly = Assembly(floating, terms, rows, structural.mask, parallel, Blocking(0.02))

    def fitted(biases: np.ndarray) -> Estimate:
        biased = []
        for samples, bias in zip(recordings, biases, strict=True):
            ddq = samples.ddq.copy()
            ddq[:, :3] += bias
            biased.append(replace(samples, ddq=ddq))
        regression = regression_of(floating, terms, structural, assembly.factors(biased))
        return OLS().fit(replace(regression, value_only=True))

    estimate = fitted(np.zeros((3, 3)))
    assert np.allclose(estimate.value, estimate.base.reduce(truth), atol=1e-8)
    small = 1e-5
    moves = [(fitted(small * step.reshape(3, 3)).value - estimate.value) / small for step in np.eye(9)]
    spread = 0.5 * ACCELEROMETER_BIAS**2 * np.kron(np.ones((3, 3)) + np.eye(3), np.eye(3))
    wanted = np.transpose(moves) @ spread @ np.array(moves)
    covariance = of_accelerometer_bias(assembly, estimate, recordings)
    size = np.sqrt(np.diag(wanted))
    assert np.allclose(covariance / np.outer(size, size), wanted / np.outer(size, size), atol=1e-3)


def test_a_run_folder_of_a_floating_base_scores_logs_and_refuses_what_needs_forces(
    tmp_path: Path, log: Log, result: Identification
) -> None:
    """Its own log has the errors of the training, with the weights of the fit; a payload or replay has one message."""
    store.write_tables(result, tmp_path)
    run = store.load(tmp_path)
    diagnostics = Diagnostics()
    again = validate(run, log, diagnostics)
    assert again.scores.origin is Origin.TRAINING
    assert np.allclose(again.scores.rms, result.training.scores.rms, rtol=1e-6)
    refused: list[Callable[[], object]] = [
        lambda: payload(run, log),
        lambda: replay_torque(run, log),
        lambda: selftest(run, log),
        lambda: drive(run, log, 1.0),
    ]
    for action in refused:
        with pytest.raises(UsageError, match="floating-run"):
            action()
    offered = " ".join(command for step in next_steps(run) for command in step.commands)
    assert "model.urdf" in offered
    assert "model.xml" in offered
    assert not re.search(r"excite|replay", offered)


def test_mjcf_of_a_floating_base_has_the_mass_matrix_of_its_links(robot: RobotModel, tmp_path: Path) -> None:
    """A free joint at the base; Pinocchio's free flyer with the same inertias is the oracle."""
    import mujoco
    import pinocchio

    target = tmp_path / "model.xml"
    floating = with_floating_base(robot)
    inertia = 0.8 * floating.inertia_prior
    export_parameters(floating, Terms((RigidBody(),)), inertia.ravel(), target)
    model = mujoco.MjModel.from_xml_path(str(target))
    data = mujoco.MjData(model)
    urdf = shipped("go2_description/urdf/go2.urdf")
    oracle = pinocchio.buildModelFromUrdf(str(urdf), pinocchio.JointModelFreeFlyer())
    names = floating.tree_joint_names
    for j in range(1, oracle.njoints):
        body = 5 if j == 1 else names.index(oracle.names[j])
        oracle.inertias[j] = pinocchio.Inertia.FromDynamicParameters(inertia[body])
    q = pinocchio.neutral(oracle)
    angles = np.random.default_rng(1).uniform(-1.0, 1.0, 12)
    q[7:] = angles
    order = [*range(6), *(model.joint(name).dofadr[0] for name in oracle.names[2:])]
    for name, angle in zip(oracle.names[2:], angles, strict=True):
        data.qpos[model.joint(name).qposadr[0]] = angle
    data.qpos[3:7] = [1.0, 0.0, 0.0, 0.0]
    mujoco.mj_forward(model, data)
    M = np.zeros((18, 18))
    mujoco.mj_fullM(model, data, M)
    M -= np.diag(model.dof_armature)
    wanted = pinocchio.crba(oracle, oracle.createData(), q)
    wanted = np.triu(wanted) + np.triu(wanted, 1).T
    assert np.abs(M[np.ix_(order, order)] - wanted).max() < 1e-10 * np.abs(wanted).max()


def test_a_recording_keeps_imu_and_contacts(robot: RobotModel, log: Log, tmp_path: Path) -> None:
    again = read_log(write_recording(log, tmp_path / "recording"), robot)
    assert again.channels == log.channels
    before, after = (source.read(source.trajectories[0]) for source in (log, again))
    assert before.extra.keys() == after.extra.keys()
    for name, values in before.extra.items():
        np.testing.assert_array_equal(after.extra[name], values)


def test_shapes_follow_the_links_of_a_floating_base() -> None:
    """In the pose of the file, each shape is where it is with a fixed base; the trunk's are on the base."""
    fixed = load_robot(shipped("go2_description/urdf/go2.urdf"))
    floating = with_floating_base(lock_joints(fixed, {"FL_calf_joint": 0.4}).robot)
    fixed = with_fixed_base(floating)
    again = with_floating_base(fixed)
    assert again.parent.tolist() == floating.parent.tolist()
    assert np.allclose(again.T_parent_joint, floating.T_parent_joint)
    assert np.allclose(again.inertia_prior, floating.inertia_prior)
    for link in ("imu", "base", "FL_calf"):
        assert again.link_frame(link)[0] == floating.link_frame(link)[0]
        assert np.allclose(again.link_frame(link)[1], floating.link_frame(link)[1])
    places = []
    for robot in (fixed, floating):
        R, p = placements(robot.tree, robot.projection_offset[None])
        frames = []
        for described in described_shapes(robot):
            if described.geometry == "visual":
                continue
            shape, frame = described.read(), np.eye(4)
            if described.body >= 0:
                frame[:3, :3], frame[:3, 3] = R[0, described.body], p[0, described.body]
            frames.append(frame @ shape.frame)
        places.append(np.array(frames))
    assert len(places[0])
    assert np.allclose(places[0], places[1])
    trunk = [described.body for described in described_shapes(floating) if described.link == "base"]
    assert set(trunk) == {5}


def test_momentum_rows_and_a_floating_base_without_imu_are_refused(robot: RobotModel) -> None:
    """Each with its reason."""
    from dynid.identification import Settings
    from dynid.rows import MomentumRows

    log = _log(robot)
    with pytest.raises(UsageError, match="contact forces"):
        identify(robot, log, settings=Settings(rows=MomentumRows()))
    wanted = replace(robot, reading=replace(robot.reading, base="floating"))
    columns = {name: np.linspace(0, 1, 50) for name in ("t", *(f"q_{j}" for j in robot.joint_names))}
    columns |= {f"tau_{j}": np.linspace(0, 1, 50) for j in robot.joint_names}
    with pytest.raises(UsageError, match="IMU"):
        identify(wanted, Log.from_frame(columns, wanted))


def test_swapped_feet_and_missed_contacts_are_noticed() -> None:
    """Flags of one foot fit the load of another, and a flag that never rises."""
    rng = np.random.default_rng(0)
    pressed = (rng.uniform(size=(500, 4)) > 0.4).astype(float)
    codes = []
    for logged in (pressed, pressed[:, [1, 0, 2, 3]], pressed * [1, 1, 0, 1]):
        diagnostics = Diagnostics()
        check_contacts(FEET, logged, pressed, diagnostics)
        codes.append([item.code for item in diagnostics])
    assert codes == [[], ["feet-swapped"], ["contact-missed"]]
