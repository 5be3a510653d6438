"""Positions that count from another zero than the description's lie outside of its limits, and are doubted."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, Finding, Float
from dynid.kernel import inverse_dynamics
from dynid.log import ANGLE_BEYOND, RangeWatch, canonical_columns, check_log, half_turn, read_log, write_log
from dynid.log import JOINT_LIMITS_BEYOND as BEYOND
from dynid.robot import JointType, Limits, RobotModel
from dynid.terms import RigidBody, Viscous
from dynid.testing import random_robot

UNITS = {"rad": 1.0, "deg": np.pi / 180, "1/4096 turn": 2 * np.pi / 4096, "0.29 deg": np.deg2rad(0.29)}
T, RATE = 2000, 100.0


def arm(seed: int) -> RobotModel:
    """Joints that turn, limits of 0.8 to 1.3 rad about a middle of their own."""
    rng, robot = np.random.default_rng(seed), random_robot(seed, 4)
    middle, half = rng.uniform(-0.4, 0.4, 4), rng.uniform(0.8, 1.3, 4)
    limits = Limits(middle - half, middle + half, np.full(4, 20.0), np.full(4, 1e4))
    return replace(robot, joint_types=(JointType.REVOLUTE,) * 4, limits=limits)


def motion(robot: RobotModel, seed: int, share: float = 0.95) -> Float:
    """Positions (T, n) that use a share of what the limits allow."""
    rng, t = np.random.default_rng(seed), np.arange(T)[:, None] / RATE
    wave = np.sin(t * rng.uniform(1.0, 3.0, robot.n) + rng.uniform(0, 6, robot.n))
    low, high = robot.limits.lower, robot.limits.upper
    return np.asarray(0.5 * (low + high) + 0.5 * share * (high - low) * wave)


def found(
    robot: RobotModel, q: Float, path: Path, unit: str = "rad", **position: dict[str, float]
) -> list[Finding]:
    """What a check says of zeros of positions (T, n) in rad or m, logged in a unit."""
    columns = {f"p{j + 1}": q[:, j] / UNITS[unit] for j in range(robot.n)}
    mapping: dict[str, Any] = {
        "time": {"column": "t", "unit": "s"},
        "position": {"columns": "p{number}", "unit": unit} | position,
    }
    sink = Diagnostics()
    check_log(read_log(write_log(path, np.arange(len(q)) / RATE, columns), robot, mapping), sink)
    return [one for one in sink if one.identifier in ("outside-limits", "whole-turns")]


@pytest.mark.parametrize("unit", UNITS)
@pytest.mark.parametrize("seed", range(3))
def test_a_common_zero_is_named_and_the_advice_mends_it(unit: str, seed: int, tmp_path: Path) -> None:
    robot = arm(seed)
    q = motion(robot, seed) + np.pi
    (one,) = found(robot, q, tmp_path / "log.parquet", unit)
    assert one.severity == "doubt"
    assert all(f"{joint} from " in one.text for joint in robot.joint_names)
    (advice,) = re.findall(r"position\.(offset = \{.*?\})", one.text)
    offset = tomllib.loads(advice)["offset"]
    assert set(offset) == set(robot.joint_names)
    np.testing.assert_allclose([*offset.values()], -np.pi / UNITS[unit], rtol=1e-4)
    assert not found(robot, q, tmp_path / "log.parquet", unit, offset=offset)


@pytest.mark.parametrize("joint", range(4))
@pytest.mark.parametrize("shift", [-np.pi, -2.6, 2.6, np.pi, 3 * np.pi])
def test_a_single_joint_is_named_and_the_others_are_not(joint: int, shift: float, tmp_path: Path) -> None:
    robot = arm(7 + joint)
    q = motion(robot, joint)
    q[:, joint] += shift
    (one,) = found(robot, q, tmp_path / "log.parquet")
    assert one.severity == "doubt"
    assert re.findall(r"(joint\d) from", one.text) == [f"joint{joint + 1}"]
    half = re.search(r"offset = (\{.*?\}) \(half a turn\)", one.text)
    if half is not None:
        offset = tomllib.loads(f"offset = {half[1]}")["offset"]
    else:
        between = re.search(r"offset of (joint\d) between (\S+) and (\S+)", one.text)
        assert between is not None
        offset = {between[1]: 0.5 * float(between[2]) + 0.5 * float(between[3])}
    assert not found(robot, q, tmp_path / "log.parquet", offset=offset)


@pytest.mark.parametrize("seed", range(4))
def test_a_motion_that_passes_its_limits_is_no_other_zero(seed: int, tmp_path: Path) -> None:
    robot = arm(seed)
    span = robot.limits.upper - robot.limits.lower
    beyond = 0.99 * (BEYOND * span + ANGLE_BEYOND)
    path, dither = tmp_path / "log.parquet", 0.3 * beyond * np.sin(np.arange(T) / RATE)[:, None] ** 2
    # Throughout by what limits may be off, at either end; and by far more for a part of the time.
    assert not found(robot, robot.limits.upper + beyond - dither, path)
    assert not found(robot, robot.limits.lower - beyond + dither, path)
    part = np.arange(T)[:, None] < 0.75 * T
    assert not found(robot, motion(robot, seed) + np.where(part, 2.5, 0.0), path)


@pytest.mark.parametrize("turns", [-3, -1, 1, 2])
def test_whole_turns_are_a_note(turns: int, tmp_path: Path) -> None:
    robot = arm(turns + 5)
    q = motion(robot, 1)
    q[:, 2] += 2 * np.pi * turns
    (one,) = found(robot, q, tmp_path / "log.parquet")
    assert (one.severity, one.identifier) == ("note", "whole-turns")
    assert re.findall(r"(joint\d) from", one.text) == ["joint3"]


def test_whole_turns_leave_the_model_as_it_is(tmp_path: Path) -> None:
    robot = arm(11)
    q, path = motion(robot, 11), tmp_path / "log.parquet"
    t = np.arange(T) / RATE
    dq = np.gradient(q, t, axis=0)
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, np.gradient(dq, t, axis=0))
    models, settings = [], dynid.Settings(terms=RigidBody() + Viscous())
    for turns in (np.zeros(4), np.array([1.0, -1.0, 2.0, 0.0])):
        write_log(path, t, canonical_columns(robot.joint_names, q + 2 * np.pi * turns, tau=tau))
        models.append(dynid.identify(robot, read_log(path, robot), settings))
    plain, turned = models
    assert [one.identifier for one in turned.diagnostics if "turns" in one.identifier] == ["whole-turns"]
    assert turned.verdict.word == plain.verdict.word
    np.testing.assert_allclose(turned.estimate.parameters, plain.estimate.parameters, rtol=0, atol=1e-6)


def test_joints_without_limits_and_of_hands_say_nothing(tmp_path: Path) -> None:
    robot = arm(2)
    q = motion(robot, 2)
    q[:, 3] += np.pi
    free = replace(
        robot.limits,
        lower=np.array([*robot.limits.lower[:3], -np.inf]),
        upper=np.array([*robot.limits.upper[:3], np.inf]),
    )
    assert found(robot, q, tmp_path / "log.parquet")
    assert not found(replace(robot, limits=free), q, tmp_path / "log.parquet")
    names = ("joint1", "joint2", "joint3", "finger_joint")
    hand = replace(robot, joint_names=names, tree_joint_names=names)
    assert not found(hand, q, tmp_path / "log.parquet")


@pytest.mark.parametrize(("down", "severity"), [((0.0, 0.0, -9.81), "warning"), ((0.0, 3.0, -9.3), "doubt")])
def test_a_zero_on_which_no_torque_depends_is_a_warning(
    down: tuple[float, float, float], severity: str, tmp_path: Path
) -> None:
    robot = arm(3)
    place, axis = np.array(robot.T_parent_joint), np.array(robot.axis)
    place[0], axis[0] = np.eye(4), (0.0, 0.0, 1.0)
    robot = replace(robot, T_parent_joint=place, axis=axis, gravity=np.array(down))
    q = motion(robot, 3)
    q[:, 0] += np.pi
    (one,) = found(robot, q, tmp_path / "log.parquet")
    assert (one.severity, one.identifier) == (severity, "outside-limits")


@pytest.mark.parametrize("rows", [1, 7, 500, T])
def test_counts_do_not_depend_on_the_chunk_and_turns_are_of_each_trajectory(rows: int) -> None:
    robot = arm(4)
    q = motion(robot, 4) + np.array([0.0, 1.7, np.pi, 0.0])
    q[5, 1] = np.nan
    watch = RangeWatch(robot)
    for turns in (0, 1, -2):
        for start in range(0, T, rows):
            watch.see(q[start : start + rows] + 2 * np.pi * turns)
        watch.end()
    low, high = watch.low, watch.high

    def outside(shift: float) -> Float:
        return ((q + shift < low) | (q + shift > high)).sum(axis=0)

    best = np.min([outside(2 * np.pi * k) for k in (-1, 0, 1)], axis=0)
    np.testing.assert_allclose(watch.turned, best / T)
    as_logged = sum(outside(2 * np.pi * turns) for turns in (0, 1, -2))
    np.testing.assert_allclose(watch.share, as_logged / (3 * T))


@pytest.mark.parametrize("middle", [-3.3, 3.0, 9.5, -9.0])
def test_half_turns_are_odd_multiples_of_pi_within_a_range(middle: float) -> None:
    one = half_turn(middle - 0.5, middle + 0.5)
    assert one is not None
    assert np.isclose(np.cos(one), -1.0)
    assert abs(one - middle) <= 0.5
    assert half_turn(0.0, 3.0) is None
    assert half_turn(4.0, 3.0) is None
