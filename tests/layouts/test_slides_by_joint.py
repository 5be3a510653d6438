"""Joints that slide in one group with joints that turn, whose units no name states: a SCARA's deg and mm."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, UsageError
from dynid.layouts import experiment_text, propose_logs
from dynid.layouts.measured_motion import with_slides
from dynid.layouts.physics import Recording
from dynid.layouts.proposal import Decision
from dynid.layouts.units import Units
from dynid.log import read_log
from dynid.robot import load_robot
from tests.layouts.test_slides import SCARA, SLIDES, motion

UNIT = "log.position.unit"
DEG = np.rad2deg(1.0)
AS_LOGGED = np.where(SLIDES, 1e3, DEG)


def written(
    folder: Path, velocities: bool = True, robot: str = SCARA, units: Float = AS_LOGGED
) -> tuple[Path, Path]:
    robot_file, log_file = folder / "scara.urdf", folder / "log.csv"
    robot_file.write_text(robot)
    t, q, dq, tau = motion(robot_file)
    kinds = {"pos": q * units} | ({"vel": dq * units} if velocities else {}) | {"trq": tau}
    names = ["time", *(f"J{k + 1}_{kind}" for kind in kinds for k in range(4))]
    table = np.column_stack([t, *kinds.values()])
    np.savetxt(log_file, table, delimiter=",", header=",".join(names), comments="", fmt="%.9g")
    return robot_file, log_file


@pytest.mark.parametrize("answer", [{}, {UNIT: "deg"}, {UNIT: "deg,deg,mm,deg"}])
@pytest.mark.parametrize("velocities", [True, False])
def test_millimetres_beside_degrees_are_known_by_the_limits(
    answer: dict[str, str], velocities: bool, tmp_path: Path
) -> None:
    robot_file, log_file = written(tmp_path, velocities)
    robot = load_robot(robot_file)
    found = propose_logs(robot, [log_file], answer)
    assert not found.open
    assert found[UNIT].value == "deg,deg,mm,deg"
    assert answer or found[UNIT].grade == "likely"
    assert found["log.velocity.unit"].value == ("deg/s,deg/s,mm/s,deg/s" if velocities else None)
    log = read_log(log_file, robot, tomllib.loads(experiment_text(found, "dynid init"))["log"])
    chunk = next(iter(log.chunks(log.trajectories[0])))
    _, q, dq, tau = motion(robot_file)
    assert chunk.q is not None
    assert chunk.tau is not None
    np.testing.assert_allclose(chunk.q, q[: len(chunk.q)], atol=1e-6)
    np.testing.assert_allclose(chunk.tau, tau[: len(chunk.q)], atol=1e-6)
    if velocities:
        assert chunk.dq is not None
        np.testing.assert_allclose(chunk.dq, dq[: len(chunk.q)], atol=1e-6)


def test_a_slide_that_fits_no_unit_of_length_is_asked_for(tmp_path: Path) -> None:
    narrow = SCARA.replace('lower="-0.2" upper="0"', 'lower="-0.002" upper="0"')
    robot_file, log_file = written(tmp_path, robot=narrow)
    robot = load_robot(robot_file)
    assert "deg,deg,mm,deg" in propose_logs(robot, [log_file])[UNIT].question
    assert not propose_logs(robot, [log_file], {UNIT: "deg,deg,mm,deg"}).open
    with pytest.raises(UsageError) as info:
        propose_logs(robot, [log_file], {UNIT: "deg,deg,deg,deg"})
    assert "(j3: of length)" in str(info.value)


def test_joints_of_two_makes_of_names_are_found_by_these(tmp_path: Path) -> None:
    """As of an arm on a rail: A1, A2 and E1 in the log, joint_a1, joint_a2 and e1 in the description."""
    names = {"j1": "joint_a1", "j2": "joint_a2", "j3": "e1", "j4": "joint_a3"}
    rail = SCARA
    for old, new in names.items():
        rail = rail.replace(f'name="{old}"', f'name="{new}"')
    robot_file, log_file = written(tmp_path, robot=rail)
    text = log_file.read_text()
    for kind in ("pos", "vel", "trq"):
        for old, new in names.items():
            short = new.removeprefix("joint_").upper()
            text = text.replace(f"{old.upper()}_{kind}", short if kind == "pos" else f"{kind}_{short}", 1)
    log_file.write_text(text)
    found = propose_logs(load_robot(robot_file), [log_file])
    assert not found.open
    expected = {"joint_a1": "A1", "joint_a2": "A2", "e1": "E1", "joint_a3": "A3"}
    assert found.groups["position"].columns == expected
    assert found.groups["effort"].columns == {joint: f"trq_{one}" for joint, one in expected.items()}


@pytest.mark.parametrize("limits", [(-0.2, 0.0), (-0.1, 0.0), (0.0, 0.0)])
def test_metres_beside_radians_may_leave_their_limits(limits: tuple[float, float], tmp_path: Path) -> None:
    narrow = SCARA.replace('lower="-0.2" upper="0"', 'lower="{}" upper="{}"'.format(*limits))
    robot_file, log_file = written(tmp_path, robot=narrow, units=np.where(SLIDES, 2.0, 1.0))  # 0.33 m
    found = propose_logs(load_robot(robot_file), [log_file])
    assert found[UNIT].value == "rad"
    assert found[UNIT].grade == "sure"


def test_millimetres_beside_radians_leave_their_limits_by_far(tmp_path: Path) -> None:
    robot_file, log_file = written(tmp_path, units=np.where(SLIDES, 1e3, 1.0))
    found = propose_logs(load_robot(robot_file), [log_file])
    assert found[UNIT].value == "rad,rad,mm,rad"
    assert found[UNIT].grade == "likely"


@pytest.mark.parametrize(("again", "value"), [("deg", "deg,deg,mm,deg"), ("rad", None)])
def test_slides_are_looked_at_again_where_they_change_the_unit_of_angle(
    again: str, value: str | None, tmp_path: Path
) -> None:
    robot_file, _ = written(tmp_path)
    robot = load_robot(robot_file)
    t, q, _, _ = motion(robot_file)
    looks = iter(["deg", again])
    units_of = lambda unit: Units(Decision("log.time.unit", "s"), Decision(UNIT, unit), None, 1.0, 1.0, None)
    plain = Recording(t, q * AS_LOGGED, None, None, ((0, len(t)),))
    units, _, _ = with_slides(
        robot, robot.joint_names, plain, units_of("rad"), lambda _: units_of(next(looks))
    )
    assert units.position.value == value
    assert bool(units.position.question) == (value is None)
