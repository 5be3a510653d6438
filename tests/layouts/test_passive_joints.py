"""Joints without a motor, as the pole of a cart: the user names the effort of the others, and the motion is used."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid import read_log
from dynid.base import Diagnostics
from dynid.kernel import inverse_dynamics
from dynid.layouts import answer_option, propose_logs
from dynid.robot import RobotModel, load_robot
from tests.layouts.test_strangers import csv

CART = """<robot name="cart"><link name="rail"/>
<link name="cart"><inertial><mass value="1.0"/><inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial></link>
<joint name="slider_to_cart" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
<limit lower="-3" upper="3" effort="50" velocity="5"/></joint>
<link name="pole"><inertial><origin xyz="0 0 0.5"/><mass value="0.4"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.001"/></inertial></link>
<joint name="cart_to_pole" type="continuous"><parent link="cart"/><child link="pole"/><axis xyz="0 1 0"/></joint>
</robot>"""  # noqa: E501


def cart(folder: Path) -> tuple[RobotModel, Path]:
    (folder / "cart.urdf").write_text(CART)
    robot = load_robot(folder / "cart.urdf", diagnostics=Diagnostics())
    t = np.arange(0.0, 20.0, 0.01)
    q = np.column_stack([0.4 * np.sin(2.1 * t), 3.0 + 1.5 * np.sin(3.3 * t + 1.0)])
    dq = np.gradient(q, t, axis=0)
    ddq = np.gradient(dq, t, axis=0)
    force = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)[:, 0] + 0.5 * dq[:, 0]
    columns = {
        "time": t,
        "x": q[:, 0],
        "x_dot": dq[:, 0],
        "theta": q[:, 1],
        "theta_dot": dq[:, 1],
        "force": force,
    }
    return robot, csv(folder / "log.csv", columns)


@pytest.mark.parametrize(
    "effort", [{"log.effort.columns": "force,none"}, {"log.effort.columns.slider_to_cart": "force"}]
)
def test_the_motion_of_a_joint_without_a_motor_is_used(effort: dict[str, str], tmp_path: Path) -> None:
    robot, path = cart(tmp_path)
    answers = {"log.position.columns": "x,theta"} | effort
    found = propose_logs(robot, [path], answers)
    assert not found.open
    assert found.groups["effort"].columns == {"slider_to_cart": "force"}
    log = read_log(path, robot, answers=answers)
    assert log.robot.joint_names == robot.joint_names
    assert log.read(log.trajectories[0]).q.shape[1] == robot.n


def test_questions_show_columns_of_their_kind(tmp_path: Path) -> None:
    robot, path = cart(tmp_path)
    asked = {one.key: answer_option(one) for one in propose_logs(robot, [path]).open}
    assert "slider_to_cart=theta'" in asked["log.position.columns"]
    assert (
        "slider_to_cart=force', and the same for cart_to_pole (none for a joint without a motor)"
        in asked["log.effort.columns"]
    )
