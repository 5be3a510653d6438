"""Readings of a log: columns of effort that stand elsewhere, and joints whose torque lacks gravity."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid import identify, load_robot, read_log
from dynid.diagnosis.proof import Reading
from dynid.diagnosis.residual_analysis import regressor
from dynid.diagnosis.wiring_checks import wirings
from dynid.testing import analysis_of, small_arm


def test_a_reading_without_gravity_differs_on_its_joints_alone() -> None:
    analysis = analysis_of(small_arm(), seed=1)
    terms, wanted = analysis.plain_model
    robot, samples = analysis.robot, analysis.gated
    read, _ = Reading(robot, samples, (0,)).columns(terms, wanted)
    whole, _ = regressor(robot, terms, samples, wanted)
    floating, _ = regressor(replace(robot, gravity=np.zeros(3)), terms, samples, wanted)
    np.testing.assert_array_equal(read[0], floating[0])
    np.testing.assert_array_equal(read[1:], whole[1:])


def test_every_place_that_columns_can_stand_off_is_read() -> None:
    analysis = analysis_of(small_arm(), seed=1)
    robot, samples = analysis.robot, analysis.gated
    for places in range(1, robot.n):
        moved = replace(samples, tau=np.roll(samples.tau, places, axis=1))
        readings = [one for one in wirings(robot, moved) if one.identifier == "joint-order"]
        assert any(np.array_equal(one.samples.tau, samples.tau) for one in readings)


@pytest.mark.parametrize(
    ("fault", "robot", "code"),
    [("rotated", "scara", "joint-order"), ("one compensated", "torso", "gravity-compensated")],
)
def test_readings_are_compared_with_friction_and_on_their_own_joints(
    fault: str, robot: str, code: str, tmp_path: Path
) -> None:
    """The SCARA's efforts show no friction where they stand; the torso's first joint hides the gain of the second."""
    pytest.importorskip("pinocchio")
    from benchmarks.silent import write

    write((fault, robot, 101), tmp_path)
    robot_of_log = load_robot(tmp_path / "robot.urdf")
    result = identify(robot_of_log, read_log(tmp_path / "log.csv", robot_of_log))
    assert code in {doubt.code for doubt in result.verdict.findings if doubt.level == "doubt"}
