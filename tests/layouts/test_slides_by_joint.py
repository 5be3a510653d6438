"""Joints that slide in one group with joints that turn, whose units no name states: a SCARA's deg and mm."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.base.errors import UsageError
from dynid.layouts.propose import propose
from dynid.layouts.write import experiment_text
from dynid.log.read import read_log
from dynid.robot import load_robot
from tests.layouts.test_slides import SCARA, SLIDES, motion

UNIT = "log.position.unit"
DEG = np.rad2deg(1.0)
AS_LOGGED = np.where(SLIDES, 1e3, DEG)


def written(folder: Path, velocities: bool = True, robot: str = SCARA) -> tuple[Path, Path]:
    robot_file, log_file = folder / "scara.urdf", folder / "log.csv"
    robot_file.write_text(robot)
    t, q, dq, tau = motion(robot_file)
    kinds = {"pos": q * AS_LOGGED} | ({"vel": dq * AS_LOGGED} if velocities else {}) | {"trq": tau}
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
    found = propose(robot, log_file, answer)
    assert not found.open
    assert found[UNIT].value == "deg,deg,mm,deg"
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
    assert "deg,deg,mm,deg" in propose(robot, log_file)[UNIT].question
    assert not propose(robot, log_file, {UNIT: "deg,deg,mm,deg"}).open
    with pytest.raises(UsageError) as info:
        propose(robot, log_file, {UNIT: "deg,deg,deg,deg"})
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
    found = propose(load_robot(robot_file), log_file)
    assert not found.open
    expected = {"joint_a1": "A1", "joint_a2": "A2", "e1": "E1", "joint_a3": "A3"}
    assert found.groups["position"].columns == expected
    assert found.groups["effort"].columns == {joint: f"trq_{one}" for joint, one in expected.items()}
