"""A two-joint arm in MuJoCo whose drives get positions: an independent plant for logs of commands."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.log.read import Log
from dynid.robot.model import RobotModel

STEP, ROW = 5e-4, 5e-3
KP, KD = np.array([60.0, 40.0]), np.array([1.5, 1.0])
ARMATURE, DAMPING, FRICTION = (0.05, 0.03), (0.4, 0.2), (0.6, 0.3)
ARM = """
<mujoco model="arm"><compiler angle="radian"/><option timestep="0.0005" integrator="implicitfast"/>
<worldbody><body name="upper"><inertial pos="0.02 0 -0.15" mass="2" diaginertia="0.02 0.02 0.004"/>
<joint name="shoulder" axis="0 1 0" armature="0.05" damping="{0}" frictionloss="{2}"/>
<body name="lower" pos="0 0 -0.3"><inertial pos="0 0.01 -0.12" mass="1" diaginertia="0.008 0.008 0.001"/>
<joint name="elbow" axis="0 1 0" armature="0.03" damping="{1}" frictionloss="{3}"/></body></body></worldbody>
<actuator>{actuators}</actuator></mujoco>
"""
MOTORS = '<motor joint="shoulder"/><motor joint="elbow"/>'


def arm_text(actuators: str = MOTORS) -> str:
    """The arm as MJCF."""
    return ARM.format(*DAMPING, *FRICTION, actuators=actuators)


def robot_file(folder: Path, actuators: str = MOTORS) -> Path:
    """Its file."""
    path = folder / "arm.xml"
    path.write_text(arm_text(actuators))
    return path


@dataclass(frozen=True, eq=False)
class Recording:
    """Rows of a log of commands, and the torque that the drives made, the mean between rows; (T, 2) each."""

    t: Float
    q: Float
    dq: Float
    q_des: Float
    tau: Float

    def log(self, robot: RobotModel, **more: Float) -> Log:
        """Without the torque."""
        return Log.from_arrays(robot, self.t, self.q, dq=self.dq, q_des=self.q_des, **more)


def commanded(seconds: float, rng: np.random.Generator) -> tuple[Float, Float]:
    """Times (T,) and positions (T, 2) of random sums of sines, from zero."""
    t = ROW * np.arange(int(seconds / ROW))
    frequency = rng.uniform(0.2, 2.2, (8, 2))
    phase, size = rng.uniform(0, 2 * np.pi, (8, 2)), 0.35 / np.sqrt(1.0 + (frequency / 0.8) ** 2)
    q_des = (size * np.sin(2 * np.pi * frequency * t[:, None, None] + phase)).sum(axis=1)
    return t, q_des - q_des[0]


def recorded(seconds: float = 30.0, delayed_rows: int = 2, seed: int = 0, noise: float = 2e-5) -> Recording:
    """The arm under a controller that computes its torque from each row, late by some rows, and holds it for one."""
    import mujoco

    model = mujoco.MjModel.from_xml_string(arm_text())
    data = mujoco.MjData(model)
    rng = np.random.default_rng(seed)
    t, q_des = commanded(seconds, rng)
    T, n = q_des.shape
    rows = np.zeros((4, T, n))
    waiting = [np.zeros(n)] * delayed_rows
    for k in range(T):
        q, dq = data.qpos + noise * rng.standard_normal(n), data.qvel + 20 * noise * rng.standard_normal(n)
        waiting.append(KP * (q_des[k] - q) - KD * dq)
        data.ctrl[:] = waiting.pop(0)
        rows[:, k] = q, dq, q_des[k], data.ctrl
        for _ in range(round(ROW / STEP)):
            mujoco.mj_step(model, data)
    return Recording(t, *rows)
