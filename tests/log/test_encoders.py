"""Logs with two encoders: mapping by joint, conventions, and readings that contradict each other."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, UnfitDataError
from dynid.log import ChannelMap, Log, canonical_columns, check_log, read_log, write_log
from dynid.log.own_columns import canonical_map
from dynid.robot import Drive, RobotModel
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from dynid.testing import random_robot, smooth_samples

RATIO = 80.0


@pytest.fixture
def robot() -> RobotModel:
    plain = random_robot(1, 3, 0.0)
    plain = replace(plain, inertia_prior=np.full((3, 10), np.nan))
    unknown = np.full(3, np.nan)
    return replace(plain, drive=Drive(RATIO * np.eye(3), unknown, unknown, unknown))


def columns(robot: RobotModel, seconds: float = 8.0) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    samples = smooth_samples(robot, round(250 * seconds), seed=3, rate=250.0)
    deflection = 2e-3 * np.sin(7 * samples.t)[:, None]
    tau = samples.tau
    return samples.t, canonical_columns(robot.joint_names, samples.q, tau=tau, theta=samples.q + deflection)


def logged(robot: RobotModel, folder: Path, **changes: np.ndarray) -> Log:
    t, data = columns(robot)
    return read_log(write_log(folder / "log.parquet", t, data | changes), robot)


def mapped(log: Log, **changes: object) -> ChannelMap:
    return replace(log.mapping, **changes)


def test_dynid_s_own_names(robot: RobotModel) -> None:
    names = ("t", *(f"q_{j}" for j in robot.joint_names), "theta_joint2", "dtheta_joint2")
    mapping = canonical_map(names, robot, "log.csv")
    assert set(mapping.motor_position) == set(mapping.motor_velocity) == {"joint2"}


def test_joints_with_one_encoder_have_the_link_s_motion(robot: RobotModel, tmp_path: Path) -> None:
    t, data = columns(robot)
    del data["theta_joint3"]
    log = read_log(write_log(tmp_path / "log.parquet", t, data), robot)
    chunk = log.read(log.trajectories[0])
    np.testing.assert_array_equal(chunk.theta[:, 2], chunk.q[:, 2])
    np.testing.assert_array_equal(chunk.theta[:, 0], data["theta_joint1"])
    (samples,) = prepare(log, Preparation(cutoff=10.0))
    for motor, link in (
        (samples.theta, samples.q),
        (samples.dtheta, samples.dq),
        (samples.ddtheta, samples.ddq),
    ):
        np.testing.assert_array_equal(motor[:, 2], link[:, 2])
        assert np.abs(motor[:, :2] - link[:, :2]).max() > 1e-4


@pytest.mark.parametrize("velocity", ["differentiate", "measured"])
def test_motor_motion_is_filtered_and_differentiated_like_the_link_s(
    robot: RobotModel, tmp_path: Path, velocity: str
) -> None:
    samples = smooth_samples(robot, 2000, seed=3, rate=250.0)
    names = robot.joint_names
    data = canonical_columns(names, samples.q, samples.dq, samples.tau, 1.1 * samples.q, 1.1 * samples.dq)
    log = read_log(write_log(tmp_path / "log.parquet", samples.t, data), robot)
    (found,) = prepare(log, Preparation(cutoff=10.0, velocity=velocity))
    for motor, link in ((found.theta, found.q), (found.dtheta, found.dq), (found.ddtheta, found.ddq)):
        np.testing.assert_allclose(motor, 1.1 * link, rtol=1e-9, atol=1e-9)
    without = log.with_mapping(mapped(log, motor_velocity={}))
    (found,) = prepare(without, Preparation(cutoff=10.0, velocity=velocity))
    inner = slice(100, -100)
    np.testing.assert_allclose(found.dtheta[inner], 1.1 * found.dq[inner], atol=2e-3)


def test_conventions_of_the_motor(robot: RobotModel, tmp_path: Path) -> None:
    log = logged(robot, tmp_path)
    plain = log.read(log.trajectories[0])
    turned = log.with_mapping(mapped(log, position_sign={"joint1": -1.0}, position_offset={"joint2": 0.5}))
    chunk = turned.read(log.trajectories[0])
    np.testing.assert_allclose(chunk.theta[:, 0], -plain.theta[:, 0])  # as for the position
    np.testing.assert_allclose(chunk.theta[:, 1], plain.theta[:, 1] + 0.5)
    own = log.with_mapping(mapped(turned, motor_sign={}, motor_offset={"joint2": 0.1}))
    chunk = own.read(log.trajectories[0])
    np.testing.assert_allclose(chunk.theta[:, 0], plain.theta[:, 0])
    np.testing.assert_allclose(chunk.theta[:, 1], plain.theta[:, 1] + 0.1)
    at_motor = log.with_mapping(mapped(log, motor_side="motor"))
    np.testing.assert_allclose(at_motor.read(log.trajectories[0]).theta, plain.theta / RATIO)


def test_turns_of_the_motor_are_undone(robot: RobotModel, tmp_path: Path) -> None:
    _, data = columns(robot)
    wrapped = np.angle(np.exp(1j * (data["theta_joint2"] + 3.0)))
    log = logged(robot, tmp_path, theta_joint2=wrapped)
    assert np.abs(np.diff(wrapped)).max() > 6
    (samples,) = prepare(log, Preparation(cutoff=10.0))
    assert np.abs(samples.theta[:, 1] - samples.q[:, 1] - 3.0 + np.pi).max() < 2 * np.pi
    assert np.abs(np.diff(samples.theta[:, 1])).max() < 0.1


def test_readings_that_agree(robot: RobotModel, tmp_path: Path) -> None:
    diagnostics = Diagnostics()
    check_log(logged(robot, tmp_path), diagnostics)
    assert not [one for one in diagnostics.warnings if "encoder" in one.identifier]


@pytest.mark.parametrize(
    ("change", "identifier", "text"),
    [
        (lambda th, q: RATIO * th, "motor-position-side", 'gear ratio is 80.*side = "motor"'),
        (lambda th, q: th / RATIO, "motor-position-side", 'already reflected.*side = "link"'),
        (lambda th, q: -th, "motor-position-sign", "opposite to the joint"),
        (lambda th, q: np.rad2deg(th), "unit-suspicion", "57.3"),
        (lambda th, q: np.sin(np.arange(len(th)) / 40), "motor-position", "does not follow the joint"),
    ],
)
def test_readings_that_contradict_each_other(robot, tmp_path, change, identifier: str, text: str) -> None:  # type: ignore[no-untyped-def]  # fixtures
    _, data = columns(robot)
    log = logged(robot, tmp_path, theta_joint2=change(data["theta_joint2"], data["q_joint2"]))
    sink = Diagnostics()
    check_log(log, sink)
    assert [one.identifier for one in sink.doubts] == [identifier]
    assert re.search(f"joint2.*{text}", str(sink.doubts[0]))


def test_a_zero_that_is_far_off_is_reported(robot: RobotModel, tmp_path: Path) -> None:
    _, data = columns(robot)
    diagnostics = Diagnostics()
    check_log(logged(robot, tmp_path, theta_joint1=data["theta_joint1"] + 1.5), diagnostics)
    (warning,) = [one for one in diagnostics.warnings if one.identifier == "encoders-apart"]
    assert "1.5" in warning.text
    assert warning.place.joint == "joint1"


def test_missing_values_of_the_motor_are_seen(robot: RobotModel, tmp_path: Path) -> None:
    _, data = columns(robot)
    broken = np.array(data["theta_joint1"])
    broken[: len(broken) // 2] = np.nan
    with pytest.raises(UnfitDataError, match="no motor position"):
        check_log(logged(robot, tmp_path, theta_joint1=broken), Diagnostics())
