"""Cylinders of joints that turn: forces and lengths are found, and torque is force times d length / d angle."""

from __future__ import annotations

import tomllib
from pathlib import Path

import numpy as np
import pytest

from dynid.kernel import inverse_dynamics
from dynid.layouts import experiment_text, propose_logs
from dynid.robot import RobotModel, load_robot
from tests.loop_plants import swing, write_csv
from tests.robot.test_toml import LINK

TIME = np.arange(0.0, 20.0, 0.02)


def crane(folder: Path) -> RobotModel:
    """A crane of three joints that turn."""
    links = "".join(
        LINK.format(name=name, parent=parent, axis=axis)
        for name, parent, axis in (
            ("slew", "base", "0 0 1"),
            ("jib", "slew_link", "0 1 0"),
            ("stick", "jib_link", "0 1 0"),
        )
    )
    (folder / "crane.urdf").write_text(f'<robot name="crane"><link name="base"/>{links}</robot>')
    return load_robot(folder / "crane.urdf")


def length_of(q: np.ndarray, a: float, b: float, turned: float) -> np.ndarray:
    """Distance of points at a and b m from a joint, at an angle of q + turned."""
    return np.asarray(np.sqrt(a**2 + b**2 - 2 * a * b * np.cos(q + turned)))


NAMES = {
    "plain": ("{}_angle_rad", "{}_cylinder_length_m", "{}_cylinder_force_N", 1.0, 1.0),
    "short": ("{}_pos", "{}_cyl_stroke_mm", "{}_cyl_force_kN", 1e3, 1e-3),
}


@pytest.mark.parametrize("names", NAMES)
@pytest.mark.parametrize("with_lengths", [True, False])
def test_forces_and_lengths_of_cylinders_are_found(names: str, with_lengths: bool, tmp_path: Path) -> None:
    robot = crane(tmp_path)
    position, length, force, millis, kilos = NAMES[names]
    q, dq, ddq = swing(TIME, np.array([0.0, -0.3, 1.2]), np.array([1.0, 0.5, 0.6]), 3)
    torque = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    columns = {
        position.format("slew"): q[:, 0],
        "slew_torque_kNm" if kilos < 1 else "slew_torque_Nm": kilos * torque[:, 0],
    }
    for j, (joint, a, b, turned) in enumerate((("jib", 1.0, 0.8, 1.8), ("stick", 0.9, 0.5, 0.4)), start=1):
        lengths = length_of(q[:, j], a, b, turned)
        lever = a * b * np.sin(q[:, j] + turned) / lengths
        columns[position.format(joint)] = q[:, j]
        if with_lengths:
            columns[length.format(joint)] = millis * lengths
        columns[force.format(joint)] = kilos * torque[:, j] / lever
    log = write_csv(tmp_path / "log.csv", TIME, **columns)
    proposal = propose_logs(robot, [log])
    assert proposal.groups["effort"].columns["slew"].startswith("slew_torque")
    if not with_lengths:
        (question,) = (one for one in proposal.open if one.key == "robot.table")
        assert question.refusal is not None
        assert "drive.rod" in question.refusal.do
        return
    assert not proposal.open
    assert proposal["log.effort.side"].value == "motor"
    assert proposal["log.effort.unit"].value == ("N m" if kilos == 1.0 else "kN m")
    for j, (joint, a, b, turned) in enumerate((("jib", 1.0, 0.8, 1.8), ("stick", 0.9, 0.5, 0.4)), start=1):
        phi, lever, _ = proposal.tables[joint].evaluate(q[:, [j]])
        lengths = length_of(q[:, j], a, b, turned)
        np.testing.assert_allclose(phi[:, 0], lengths, atol=2e-5)
        np.testing.assert_allclose(lever[:, 0, 0], a * b * np.sin(q[:, j] + turned) / lengths, rtol=2e-3)
    written = tomllib.loads(experiment_text(proposal, "dynid init"))
    assert written["robot"]["table"].keys() == {"jib", "stick"}
    assert written["log"]["effort"]["side"] == "motor"


def test_lengths_and_forces_of_other_things_are_left_alone(tmp_path: Path) -> None:
    robot = crane(tmp_path)
    q, dq, ddq = swing(TIME, np.array([0.0, -0.3, 1.2]), np.array([1.0, 0.5, 0.6]), 3)
    torque = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    columns = {f"{name}_pos": q[:, j] for j, name in enumerate(robot.joint_names)}
    columns |= {f"{name}_torque": torque[:, j] for j, name in enumerate(robot.joint_names)}
    columns |= {"jib_cable_length_m": q[:, 0], "tip_force_N": q[:, 1]}
    proposal = propose_logs(robot, [write_csv(tmp_path / "log.csv", TIME, **columns)])
    assert not proposal.open
    assert not proposal.tables
    assert proposal.groups["effort"].columns["jib"] == "jib_torque"
