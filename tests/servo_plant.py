"""A two-joint arm in MuJoCo whose drives get positions: an independent plant for logs of commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dynid.base import Float
from dynid.log import Log
from dynid.robot import RobotModel

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


def stop_and_go(
    seconds: float, rng: np.random.Generator, pauses: tuple[float, float] = (0.3, 0.8)
) -> tuple[Float, Float]:
    """Times (T,) and positions (T, 2) in moves of 0.4 to 0.9 s, with both joints at rest between them."""
    t, now, pose = ROW * np.arange(int(seconds / ROW)), 0.0, np.zeros(2)
    q_des = np.zeros((len(t), 2))
    while now < seconds:
        goal, lasting = rng.uniform(-1.2, 1.2, 2), rng.uniform(0.4, 0.9)
        u = np.clip((t[t >= now] - now) / lasting, 0.0, 1.0)[:, None]
        q_des[t >= now] = pose + (goal - pose) * u**3 * (10 - 15 * u + 6 * u * u)
        now, pose = now + lasting + rng.uniform(*pauses), goal
    return t, q_des


# N m, and s of its correlation: torque that acts on the joints and that no model knows.
DISTURBANCE, MEMORY = np.array([0.2, 0.08]), 0.1
# Of MuJoCo's friction where it is to be dry rather than soft: time constant in s, impedance; and a step that it needs.
DRY, HARD, FINE = 5e-4, 0.998, 1e-4


def recorded(
    seconds: float = 30.0,
    delayed_rows: int = 2,
    seed: int = 0,
    noise: float = 2e-5,
    limit: float | Float = np.inf,
    dead_band: float | Float = 0.0,
    disturbed: float = 0.0,
    dry: bool = False,
    motion: Callable[[float, np.random.Generator], tuple[Float, Float]] = commanded,
) -> Recording:
    """The arm under a controller that computes its torque from each row, late by some rows, and holds it for one.

    disturbed: size of the unknown torque, in those of `DISTURBANCE`.    dry: friction without MuJoCo's softness.
    """
    import mujoco

    model = mujoco.MjModel.from_xml_string(arm_text())
    if dry:
        model.opt.timestep = FINE
        model.dof_solref[:], model.dof_solimp[:, :2] = (DRY, 1.0), HARD
    data, step = mujoco.MjData(model), model.opt.timestep
    rng, unknown = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    t, q_des = motion(seconds, rng)
    T, n = q_des.shape
    rows, count = np.zeros((4, T, n)), round(ROW / step)
    waiting, push, kept = [np.zeros(n)] * delayed_rows, np.zeros(n), np.exp(-step / MEMORY)
    for k in range(T):
        q, dq = data.qpos + noise * rng.standard_normal(n), data.qvel + 20 * noise * rng.standard_normal(n)
        error = q_des[k] - q
        law = KP * np.where(np.abs(error) > dead_band, error, 0.0) - KD * dq
        waiting.append(np.clip(law, -np.asarray(limit), limit))
        data.ctrl[:] = waiting.pop(0)
        rows[:, k] = q, dq, q_des[k], data.ctrl
        pushes = np.sqrt(1.0 - kept**2) * disturbed * DISTURBANCE * unknown.standard_normal((count, n))
        for i in range(count):
            push = kept * push + pushes[i]
            data.qfrc_applied[:] = push
            mujoco.mj_step(model, data)
    return Recording(t, *rows)


def true_parameters(names: Sequence[str]) -> Float:
    """The arm's parameters under the names of an estimate, zero for those that it does not have."""
    robot_bodies = (
        (2.0, (0.02, 0.0, -0.15), (0.02, 0.02, 0.004)),
        (1.0, (0.0, 0.01, -0.12), (0.008, 0.008, 0.001)),
    )
    true: dict[str, float] = {}
    for j, (m, c, I) in enumerate(robot_bodies, start=1):
        x, y, z = c
        true |= {f"m{j}": m, f"mcx{j}": m * x, f"mcy{j}": m * y, f"mcz{j}": m * z}
        true |= {f"Ixx{j}": I[0] + m * (y * y + z * z), f"Iyy{j}": I[1] + m * (x * x + z * z)}
        true |= {f"Izz{j}": I[2] + m * (x * x + y * y)}
        true |= {f"Ixy{j}": -m * x * y, f"Ixz{j}": -m * x * z, f"Iyz{j}": -m * y * z}
        own = (ARMATURE[j - 1], DAMPING[j - 1], FRICTION[j - 1])
        true |= {f"{symbol}{j}": value for symbol, value in zip(("Ia", "fv", "fc"), own, strict=True)}
    return np.array([true.get(name, 0.0) for name in names])
