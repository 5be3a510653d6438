"""Forms of logs found in public repositories, of a simulated arm: read rightly, or asked for what they leave open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.layouts.propose import propose
from tests.layouts.test_strangers import ARM, TURN, UR, asked, csv, numbered, reads


def _wide(**signals: Float) -> dict[str, Float]:
    found = {"t": ARM.t}
    for name, values in signals.items():
        found |= numbered(name, values)
    return found


def test_positions_that_never_change_are_no_measured_ones(tmp_path: Path) -> None:
    columns = _wide(**{"q_rad_#": ARM.q, "position_calibration_#": np.ones_like(ARM.q), "tau_#": ARM.tau})
    reads(csv(tmp_path / "log.csv", columns), dq=False)


def test_rated_torques_are_no_measured_ones(tmp_path: Path) -> None:
    columns = _wide(**{"q_#": ARM.q, "torque_#": ARM.tau, "rated_torque_#": np.full_like(ARM.q, 100.0)})
    reads(csv(tmp_path / "log.csv", columns), dq=False)


def test_currents_of_both_axes_of_a_motor_beside_turns(tmp_path: Path) -> None:
    columns = _wide(
        **{
            "id#_position_rev": ARM.q * TURN,
            "id#_velocity_rev_s": ARM.dq * TURN,
            "id#_torque_Nm": ARM.tau,
            "id#_q_current_A": ARM.tau / 12,
            "id#_d_current_A": 0.01 * ARM.dq,
        }
    )
    path = csv(tmp_path / "log.csv", columns)
    # A torque that nobody calls measured beside a current may be what was wanted.
    assert set(asked(path)) == {"log.effort.columns"}
    reads(path, log__effort__columns="id{number}_torque_Nm")


def test_turns_of_odrive(tmp_path: Path) -> None:
    columns = _wide(**{"axis#.torque": ARM.tau}) | numbered("axis#.pos_estimate", ARM.q * TURN, 0)
    columns |= numbered("axis#.vel_estimate", ARM.dq * TURN, 0)
    reads(csv(tmp_path / "log.csv", columns))


def test_joints_that_the_log_may_call_otherwise_are_asked_for_with_their_columns(tmp_path: Path) -> None:
    names = ("pan", "lift", "elbow", "wrist_1", "wrist_2", "wrist_3")
    columns = {"t": UR.t}
    for kind, values in (("pos", UR.q), ("torque", UR.tau)):
        columns |= {f"{name}_{kind}": values[:, k] for k, name in enumerate(names)}
    path = csv(tmp_path / "log.csv", columns)
    question = propose(UR.robot, path)["robot.lock.shoulder_lift_joint"].question
    assert "log.position.columns.shoulder_lift_joint=lift_pos" in question
    answers = {
        f"log.{channel}.columns.shoulder_{name}_joint": f"{name}_{kind}"
        for name in names[:2]
        for channel, kind in (("position", "pos"), ("effort", "torque"))
    }
    assert not propose(UR.robot, path, answers).open


def test_encoders_at_the_motors_of_doosan_are_its_positions(tmp_path: Path) -> None:
    robot = replace(ARM.robot, name="m1013")
    columns = {"time_stamp": ARM.t} | numbered("actual_joint_torque_#", ARM.tau, 0)
    for end, values in (("", ARM.q), ("abs_", ARM.q + 0.01)):
        columns |= numbered(f"actual_joint_position_{end}#", values * 180 / np.pi, 0)
    found = propose(robot, csv(tmp_path / "log.csv", columns))
    assert not found.open
    assert found["log.position.columns"].value == "actual_joint_position_{index}"
    assert found["log.position.unit"].value == "deg"
