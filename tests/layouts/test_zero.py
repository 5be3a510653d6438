"""Positions that count from another zero than the description's: what is asked, and what the answers do."""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import dynid
from dynid.base import Diagnostics, Float, InputError, UsageError
from dynid.identification import Experiment, open_log
from dynid.kernel import inverse_dynamics
from dynid.layouts import Proposal, experiment_text, propose_logs
from dynid.log import write_log
from dynid.robot import JointType, Limits, RobotModel
from dynid.testing import random_robot

OFFSET = "log.position.offset"
T, RATE, N = 2000, 100.0, 4
# Unit, what one is in rad, and the reading at the zero of the description.
SERVOS = {
    "counts of a turn": ("1/4096 turn", 2 * np.pi / 4096, 2048),
    "counts of 300 deg": ("0.29 deg", np.deg2rad(0.29), 512),
    "degrees": ("deg", np.pi / 180, 180),
    "counts of 18 bits": ("1/262144 turn", 2 * np.pi / 2**18, 2**17),
}


def arm(seed: int) -> RobotModel:
    """Joints that turn, limits of 0.8 to 1.2 rad about a middle of their own, and loads that need torque."""
    rng, robot = np.random.default_rng(seed), random_robot(seed, N, branching=0.0)
    middle, half = rng.uniform(-0.3, 0.3, N), rng.uniform(0.8, 1.2, N)
    limits = Limits(middle - half, middle + half, np.full(N, 20.0), np.full(N, 1e4))
    return replace(robot, joint_types=(JointType.REVOLUTE,) * N, limits=limits)


def log(
    robot: RobotModel, path: Path, seed: int, worth: float, zero: Float | float, whole: bool
) -> tuple[Path, Float]:
    """A log in units worth so many rad that read `zero` where joints stand at zero; its true positions."""
    rng, t = np.random.default_rng(seed), np.arange(T) / RATE
    rate, phase = rng.uniform(1.0, 3.0, N), rng.uniform(0, 6, N)
    low, high = robot.limits.lower, robot.limits.upper
    angle, size = t[:, None] * rate + phase, 0.47 * (high - low)
    q, dq, ddq = (
        0.5 * (low + high) + size * np.sin(angle),
        size * rate * np.cos(angle),
        -size * rate**2 * np.sin(angle),
    )
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    read = q / worth + zero
    read = np.round(read) if whole else read
    columns = {f"{joint} position": read[:, j] for j, joint in enumerate(robot.joint_names)}
    columns |= {f"{joint} torque [Nm]": tau[:, j] for j, joint in enumerate(robot.joint_names)}
    return write_log(path, t, columns), q


def read_as(found: Proposal, path: Path, robot: RobotModel) -> Float:
    one = dynid.read_log(path, robot, tomllib.loads(experiment_text(found, "dynid init"))["log"])
    return np.asarray(one.read(one.trajectories[0]).q)


@pytest.mark.parametrize("servo", SERVOS)
@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_the_zero_of_servos_is_asked_for_and_offered(servo: str, seed: int, tmp_path: Path) -> None:
    robot, (unit, worth, zero) = arm(seed), SERVOS[servo]
    path, q = log(robot, tmp_path / "log.parquet", seed, worth, zero, whole=unit != "deg")
    answers = {"log.position.unit": unit}
    found = propose_logs(robot, [path], answers)
    assert [one.key for one in found.open if one.key.startswith("log.position")] == [OFFSET]
    offered = [one.value for one in found[OFFSET].options]
    assert str(-zero) in offered
    assert offered[-1] == "0"
    with pytest.raises(InputError, match=re.escape(f"{OFFSET}={offered[0]}|")):
        dynid.read_log(path, robot, answers=answers)
    told = propose_logs(robot, [path], answers | {OFFSET: str(-zero)})
    assert not told.open
    # Half the last digit of the log.
    np.testing.assert_allclose(read_as(told, path, robot), q, atol=0.51 * worth)
    as_logged = propose_logs(robot, [path], answers | {OFFSET: "0"})
    assert as_logged[OFFSET].sure
    np.testing.assert_allclose(read_as(as_logged, path, robot), q + zero * worth, atol=0.51 * worth)


@pytest.mark.parametrize("seed", range(3))
def test_zeros_by_joint_are_answered_with_commas(seed: int, tmp_path: Path) -> None:
    robot, unit = arm(seed + 20), "1/4096 turn"
    zeros = np.array([2048, 2020, 2080, 2055])
    path, q = log(robot, tmp_path / "log.parquet", seed, 2 * np.pi / 4096, zeros, whole=True)
    said = ",".join(f"{-zero}" for zero in zeros)
    found = propose_logs(robot, [path], {"log.position.unit": unit, OFFSET: said})
    np.testing.assert_allclose(read_as(found, path, robot), q, atol=1e-3)
    for wrong in ("1,2", "middle", "inf"):
        with pytest.raises(UsageError, match=r"unknown-answer.*one number for all joints, or 4"):
            propose_logs(robot, [path], {"log.position.unit": unit, OFFSET: wrong})


@pytest.mark.parametrize("shift", [0.0, 0.15, -2 * np.pi, 2 * np.pi])
def test_zeros_that_limits_allow_or_whole_turns_explain_are_not_asked_for(
    shift: float, tmp_path: Path
) -> None:
    robot = arm(5)
    path, _ = log(robot, tmp_path / "log.parquet", 5, np.pi / 180, shift * 180 / np.pi, whole=False)
    found = propose_logs(robot, [path], {"log.position.unit": "deg"})
    assert found[OFFSET].value is None
    assert not found.open
    assert "offset" not in experiment_text(found, "dynid init")


def test_one_joint_that_lies_outside_is_no_common_zero(tmp_path: Path) -> None:
    robot = arm(6)
    zero = np.array([0.0, 0.0, 180.0, 0.0])
    path, _ = log(robot, tmp_path / "log.parquet", 6, np.pi / 180, zero, whole=False)
    found = propose_logs(robot, [path], {"log.position.unit": "deg"})
    assert OFFSET not in {one.key for one in found.open}


def test_a_file_that_still_asks_for_the_zero_says_so(tmp_path: Path) -> None:
    robot = arm(8)
    path, _ = log(robot, tmp_path / "log.parquet", 8, np.pi / 180, 180.0, whole=False)
    text = experiment_text(propose_logs(robot, [path], {"log.position.unit": "deg"}), "dynid init")
    file = tmp_path / "experiment.toml"
    file.write_text(text)
    with pytest.raises(
        InputError, match=r"open-question.*offset = .*--answer 'log\.position\.offset=-180\|0'"
    ):
        open_log(Experiment.read(file), [path], robot, (), Diagnostics())


@pytest.mark.parametrize("seed", [1, 2])
def test_counts_within_wide_limits_have_the_zero_that_the_torque_says(seed: int, tmp_path: Path) -> None:
    close = arm(seed)
    wide = replace(close, limits=replace(close.limits, lower=np.full(N, -6.28), upper=np.full(N, 6.28)))
    unit, worth, zero = SERVOS["counts of a turn"]
    path, _ = log(close, tmp_path / "log.csv", seed, worth, zero, True)
    found = propose_logs(wide, [path], {"log.position.unit": unit})
    assert found[OFFSET].value == f"{-zero}"
    assert found[OFFSET].sure
    assert f"{close.joint_names[0]} = -{zero}" in experiment_text(found, "")
    # Counts of both signs have their zero where they are 0.
    path, _ = log(close, tmp_path / "other.csv", seed, worth, 0.0, True)
    assert propose_logs(wide, [path], {"log.position.unit": unit})[OFFSET].value is None
