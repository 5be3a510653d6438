"""Forms of logs found in public repositories, of a simulated arm: read rightly, or asked for what they leave open."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import read_log
from dynid.base import Float
from dynid.layouts import propose_logs
from dynid.log import contents
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
    question = propose_logs(UR.robot, [path])["robot.lock.shoulder_lift_joint"].question
    assert "log.position.columns.shoulder_lift_joint=lift_pos" in question
    answers = {
        f"log.{channel}.columns.shoulder_{name}_joint": f"{name}_{kind}"
        for name in names[:2]
        for channel, kind in (("position", "pos"), ("effort", "torque"))
    }
    assert not propose_logs(UR.robot, [path], answers).open


def test_encoders_at_the_motors_of_doosan_are_its_positions(tmp_path: Path) -> None:
    robot = replace(ARM.robot, name="m1013")
    columns = {"time_stamp": ARM.t} | numbered("actual_joint_torque_#", ARM.tau, 0)
    for end, values in (("", ARM.q), ("abs_", ARM.q + 0.01)):
        columns |= numbered(f"actual_joint_position_{end}#", values * 180 / np.pi, 0)
    found = propose_logs(robot, [csv(tmp_path / "log.csv", columns)])
    assert not found.open
    assert found["log.position.columns"].value == "actual_joint_position_{index}"
    assert found["log.position.unit"].value == "deg"


@pytest.mark.parametrize(
    "clocks",
    [
        {},
        {"state_time": ARM.t},
        {"state_time": ARM.t[:, None]},
        {"state_time": ARM.t, "control_time": ARM.t[:-1]},
        {"time": ARM.t, "last": (ARM.t[:-1] > 5).astype(float)},
    ],
)
def test_a_rollout_holds_one_state_more_than_inputs(clocks: dict[str, Float], tmp_path: Path) -> None:
    path = tmp_path / "rollout.npz"
    np.savez(path, q=ARM.q, dq=ARM.dq, tau=ARM.tau[:-1], **clocks)
    found = propose_logs(ARM.robot, [path])
    assert not found.open
    log = read_log(path, ARM.robot)
    (name,) = log.trajectories
    raw = log.read(name)
    assert_allclose(raw.q, ARM.q[:-1], atol=1e-9)
    assert_allclose(raw.tau, ARM.tau[:-1], atol=1e-9)


@pytest.mark.parametrize("names", [("position_time", "effort_time"), ("t_q", "t_tau"), ("ts_q", "effort_ts")])
@pytest.mark.parametrize("late", [0.003, 0.2])
@pytest.mark.parametrize("axes", [1, 2])
def test_signals_with_clocks_of_their_own_are_no_rollout(
    names: tuple[str, str], late: float, axes: int, tmp_path: Path
) -> None:
    path = tmp_path / "log.npz"
    clocks = dict(zip(names, (ARM.t, ARM.t[:-1] + late), strict=True))
    clocks = {name: one if axes == 1 else one[:, None] for name, one in clocks.items()}
    np.savez(path, position=ARM.q, effort=ARM.tau[:-1], **clocks)
    assert len(contents(path).streams) == 2


def test_motions_one_behind_the_other_have_clocks_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "log.npz"
    t = np.concatenate([ARM.t[:900], ARM.t[: len(ARM.t) - 900]])
    np.savez(path, t_q=t, q=ARM.q, t_tau=t[:-1] + 0.2, tau=ARM.tau[:-1])
    assert len(contents(path).streams) == 2


@pytest.mark.parametrize("first", [0, 1])
def test_one_column_lists_the_joints_of_the_numbers(first: int, tmp_path: Path) -> None:
    """As bagpy writes joint states: the names as Python prints them, and a column for each number."""
    order = (4, 1, 0, 2, 3, 5)
    listed = str([ARM.robot.joint_names[k] for k in order])
    columns: dict[str, Float | Sequence[str]] = {"Time": ARM.t, "name": [listed] * len(ARM.t)}
    for kind, values in (("position", ARM.q), ("velocity", ARM.dq), ("effort", ARM.tau)):
        columns |= numbered(f"{kind}_#", values[:, order], first)
    found = propose_logs(ARM.robot, [csv(tmp_path / "log.csv", columns, mark=";")])
    assert not found.open
    assert found.groups["effort"].columns == {
        joint: f"effort_{order.index(k) + first}" for k, joint in enumerate(ARM.robot.joint_names)
    }


@pytest.mark.parametrize("first", [True, False])
def test_bodies_that_move_freely_beside_the_joints_are_known_by_their_orientation(
    first: bool, tmp_path: Path
) -> None:
    """As of a scene of MuJoCo with an arm and a box: qpos has seven more, qvel six."""
    half = 0.1 * np.sin(ARM.t)[:, None]
    place = np.hstack([0.6 + 0.01 * half, 0.02 * half, 0.03 + 0.0 * half])
    pose = np.hstack([place, np.cos(half), np.sin(half), 0.0 * half, 0.0 * half])
    twist = np.gradient(pose[:, :6], ARM.t, axis=0)
    ends = lambda arm, body: np.hstack([arm, body] if first else [body, arm])
    path = tmp_path / "rollout.npz"
    np.savez(
        path,
        time=ARM.t,
        qpos=ends(ARM.q, pose),
        qvel=ends(ARM.dq, twist),
        qfrc_actuator=ends(ARM.tau, 0 * twist),
    )
    found = propose_logs(ARM.robot, [path])
    assert not found.open
    assert found["log.position.which"].value == ("first" if first else "last")
    assert found["log.velocity.which"].value == found["log.position.which"].value
    at = 0 if first else 7
    assert tuple(found.groups["position"].columns.values()) == tuple(f"qpos[{k + at}]" for k in range(6))


def test_arrays_of_other_widths_are_compared_with_none(tmp_path: Path) -> None:
    """Observations of a simulated arm and a box, and actions: neither is called a position."""
    box = np.hstack([0.6 + 0 * ARM.q[:, :3], np.ones_like(ARM.q[:, :1]), 0 * ARM.q[:, :3]])
    path = tmp_path / "rollout.npz"
    np.savez(path, obs=np.hstack([ARM.q, box, ARM.dq, 0 * box[:, :6]]), actions=ARM.wanted)
    assert "log.position.columns" in {one.key for one in propose_logs(ARM.robot, [path]).open}
