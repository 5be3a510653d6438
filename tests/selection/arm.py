"""An arm of six joints as URDF, its logs simulated by pinocchio with joints that stand elsewhere than the log says."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_robot
from dynid.run import Identification
from dynid.signals import Preparation
from dynid.trajectories import FourierTrajectory

# Place of each joint in the frame before it, its axis, and mass, centre and inertia of the body behind it.
JOINTS = (
    ("0 0 0.3", "0 0 1", 8.0, "0.02 0.01 0.1", 0.05),
    ("0 0.1 0.15", "0 1 0", 6.0, "0.2 0.02 0.01", 0.06),
    ("0.45 0 0", "0 1 0", 4.0, "0.15 -0.01 0.03", 0.03),
    ("0.35 0 0.05", "1 0 0", 2.0, "0.05 0.03 0.01", 0.01),
    ("0.1 0 0", "0 1 0", 1.5, "0.06 0.01 0.02", 0.006),
    ("0.1 0 0", "1 0 0", 0.8, "0.04 0.03 -0.02", 0.003),
)
RATE, SECONDS, NOISE = 200.0, 60.0, 0.01
VISCOUS = np.array([4.0, 5.0, 3.0, 1.0, 0.8, 0.4])
COULOMB = np.array([5.0, 6.0, 4.0, 1.5, 1.0, 0.5])
ROTOR = np.array([1.0, 1.2, 0.8, 0.2, 0.1, 0.05])


def urdf() -> str:
    """The arm."""
    text = ['<robot name="arm"><link name="base"/>']
    for i, (place, axis, mass, centre, inertia) in enumerate(JOINTS, 1):
        before = "base" if i == 1 else f"link{i - 1}"
        text.append(
            f'<joint name="joint{i}" type="revolute"><origin xyz="{place}" rpy="0 0 0"/><parent link="{before}"/>'
            f'<child link="link{i}"/><axis xyz="{axis}"/>'
            '<limit lower="-2" upper="2" velocity="3" effort="300"/></joint>'
            f'<link name="link{i}"><inertial><origin xyz="{centre}"/><mass value="{mass}"/><inertia ixx="{inertia}" '
            f'iyy="{1.2 * inertia}" izz="{1.1 * inertia}" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        )
    return "".join([*text, "</robot>"])


def arm(folder: Path) -> RobotModel:
    """The arm, read from its file."""
    path = folder / "arm.urdf"
    path.write_text(urdf(), encoding="utf-8")
    return load_robot(path)


def torque(q: Float, dq: Float, ddq: Float, lean: float = 0.0) -> Float:
    """Joint torque (T, 6) by pinocchio, rotors and friction included.    lean: of gravity about y, rad."""
    model = pin.buildModelFromXML(urdf())
    model.gravity.linear = 9.81 * np.array([-np.sin(lean), 0.0, -np.cos(lean)])
    data = model.createData()
    rigid = np.array([pin.rnea(model, data, *state).copy() for state in zip(q, dq, ddq, strict=True)])
    return np.asarray(rigid + ROTOR * ddq + VISCOUS * dq + COULOMB * np.tanh(dq / 0.02))


def identified(folder: Path, zeros: Float, lean: float = 0.0) -> Identification:
    """A log of a random motion whose positions leave out the zeros (6,), rad, identified by default."""
    robot = arm(folder)
    planned = FourierTrajectory.random(robot, SECONDS, harmonics=8, seed=3, frequency=0.06, ramp=1.0)
    t = np.arange(round(SECONDS * RATE)) / RATE
    q, dq, ddq = planned.motion(t)
    tau = torque(q, dq, ddq, lean)
    tau = tau + NOISE * tau.std(axis=0) * np.random.default_rng(1).normal(size=tau.shape)
    log = write_log(folder / "log.parquet", t, canonical_columns(robot.joint_names, q - zeros, tau=tau))
    # Effects are chosen by fits without constraints: the bodies that are looked for afterwards are a third of the time.
    settings = Settings(automatic=True, estimator=WLS(), preparation=Preparation(cutoff=8.0))
    return identify(robot, read_log(log, robot), settings, threads=1, diagnostics=Diagnostics())
