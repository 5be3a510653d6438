"""Zero offsets in the user's own files: a URDF's origins and an MJCF's `ref`, in radians and in degrees."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.exporters import ExportModel, edit_mjcf, new_mjcf
from dynid.exporters.model import with_zero_offsets
from dynid.robot import JointType, Reading, load_robot
from tests.export.models import model_of
from tests.robot_files import ROBOTS

PUMA = load_robot(ROBOTS / "puma560.toml")
ZEROS = np.array([0.0, 0.03, -0.02, 0.0, 0.05, 0.0])


def turned(model: ExportModel, zeros: np.ndarray) -> ExportModel:
    return replace(model, robot=with_zero_offsets(model.robot, zeros), zeros=zeros)


@pytest.mark.parametrize("unit", ["radian", "degree"])
def test_an_mjcf_gets_the_zeros_in_ref(tmp_path: Path, unit: str) -> None:
    pytest.importorskip("mujoco")
    text = new_mjcf(model_of(PUMA)).decode()
    if unit == "degree":
        head, *joints = text.split('range="')
        ranges = [part.split('"', 1) for part in joints]
        text = head + "".join(
            f'range="{" ".join(repr(float(np.degrees(float(x)))) for x in numbers.split())}"{rest}'
            for numbers, rest in ranges
        )
        text = text.replace('angle="radian"', 'angle="degree"')
    path = tmp_path / "puma.xml"
    path.write_text(text, encoding="utf-8")
    robot = load_robot(path, diagnostics=Diagnostics())
    model = turned(model_of(robot), ZEROS)
    np.testing.assert_allclose(model.described.T_parent_joint, robot.T_parent_joint, atol=1e-14)
    data, faults = edit_mjcf(model, path, Reading())
    assert faults == ()
    again = tmp_path / "again.xml"
    again.write_bytes(data)
    found = load_robot(again, diagnostics=Diagnostics())
    np.testing.assert_allclose(found.T_parent_joint, model.robot.T_parent_joint, atol=1e-12)


def test_slides_move_and_followers_follow() -> None:
    kinds = (*PUMA.joint_types[:2], JointType.PRISMATIC, *PUMA.joint_types[3:])
    robot = replace(PUMA, joint_types=kinds)
    q = np.random.default_rng(0).uniform(-0.5, 0.5, (3, 6))
    moved = with_zero_offsets(robot, ZEROS)
    still = np.zeros_like(q)
    wanted = model_of(robot).rigid_torque(q + ZEROS, still, still)
    found = replace(model_of(robot), robot=moved).rigid_torque(q, still, still)
    np.testing.assert_allclose(found, wanted, atol=1e-10 * np.abs(wanted).max())
