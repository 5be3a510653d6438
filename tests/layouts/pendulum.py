"""A pendulum and its swing, for logs of one joint."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base import Diagnostics, Float
from dynid.kernel import inverse_dynamics
from dynid.robot import RobotModel, load_robot

_URDF = """<robot name="pendulum"><link name="base"/><link name="rod">
<inertial><origin xyz="0.25 0 0"/><mass value="1.5"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.03"/></inertial></link>
<joint name="knee" type="revolute"><parent link="base"/><child link="rod"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" velocity="10" effort="20"/></joint></robot>"""


def pendulum(folder: Path) -> RobotModel:
    """One joint, 1.5 kg at 0.25 m."""
    path = folder / "pendulum.urdf"
    path.write_text(_URDF)
    return load_robot(path, diagnostics=Diagnostics())


def swing(robot: RobotModel, rate: float = 100.0, seconds: float = 30.0) -> tuple[Float, Float, Float, Float]:
    """Time (T,), position, velocity and torque (T,) with friction, in SI units."""
    t = np.arange(0.0, seconds, 1 / rate)
    q, dq, ddq = np.zeros_like(t), np.zeros_like(t), np.zeros_like(t)
    for size, f, phase in ((0.5, 0.21, 0.3), (0.4, 0.47, 1.1), (0.2, 0.83, 2.0)):
        w = 2 * np.pi * f
        q += size * np.sin(w * t + phase)
        dq += size * w * np.cos(w * t + phase)
        ddq -= size * w**2 * np.sin(w * t + phase)
    rigid = inverse_dynamics(robot.tree, robot.inertia_prior, q[:, None], dq[:, None], ddq[:, None])[:, 0]
    return t, q, dq, rigid + 0.1 * np.tanh(dq / 0.03) + 0.05 * dq
