"""Models to export, and the torque that other programs compute from what was exported."""

from __future__ import annotations

import subprocess
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.exporters import ExportModel
from dynid.factor import random_states
from dynid.robot import RobotModel

AGREE = 1e-10


def model_of(robot: RobotModel, seed: int = 0) -> ExportModel:
    """A physical model: the description's bodies made heavier, unknown ones made up, with rotors and friction."""
    rng = np.random.default_rng(seed)
    n = robot.n
    inertia = robot.inertia_prior * rng.uniform(1.5, 2.0, (robot.n_bodies, 1))
    made_up = np.array([2.0, 0.1, -0.06, 0.04, 0.03, 0.002, 0.04, -0.001, 0.003, 0.035])
    inertia = np.where(np.isnan(inertia) | (inertia[:, :1] <= 0), made_up, inertia)
    positive = rng.uniform(0.1, 1.0, (3, n))
    return ExportModel(robot, inertia, *positive, rng.normal(size=n), np.full(n, 0.02))


def states(robot: RobotModel, count: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Random motion."""
    samples = random_states(robot, count, 11)
    return samples.q, samples.dq, samples.ddq


def compiled(source: str, header: str, folder: Path, name: str = "model", optimise: str = "-O1") -> str:
    """Compiles and runs the test main with every warning an error; returns what it printed."""
    (folder / f"{name}.c").write_text(source)
    (folder / f"{name}.h").write_text(header)
    flags = [
        "-std=c99",
        "-pedantic",
        "-Wall",
        "-Wextra",
        "-Werror",
        "-Wshadow",
        optimise,
        "-DDYNID_TEST_MAIN",
    ]
    built = subprocess.run(
        ["gcc", *flags, f"{name}.c", "-o", name, "-lm"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    ran = subprocess.run([str(folder / name)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout
    return ran.stdout


def shipped(file: str) -> Path:
    """A URDF of example-robot-data, by its path below the folder of robots."""
    try:
        installed = distribution("example-robot-data").files or []
    except PackageNotFoundError:
        pytest.skip("example-robot-data is not installed")
    found = [Path(str(one.locate())) for one in installed if str(one).endswith(f"robots/{file}")]
    if not found:
        pytest.skip(f"example-robot-data has no {file}")
    return found[0]


def mujoco_torque(data: bytes, model: ExportModel) -> np.ndarray:
    """Torque of the model's random motion by MuJoCo, from an MJCF file."""
    mujoco: Any = pytest.importorskip("mujoco")
    theirs = mujoco.MjModel.from_xml_string(data.decode())
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    state = mujoco.MjData(theirs)
    found = []
    for q, dq, ddq in zip(*states(model.robot), strict=True):
        state.qpos[:], state.qvel[:], state.qacc[:] = q, dq, ddq
        mujoco.mj_inverse(theirs, state)
        found.append(np.array(state.qfrc_inverse))
    return np.array(found)


def check_in_mujoco(data: bytes, model: ExportModel) -> None:
    """MuJoCo finds the model's torque, rotors and dry friction in an MJCF file."""
    mujoco: Any = pytest.importorskip("mujoco")
    q, dq, ddq = states(model.robot)
    wanted = model.rigid_torque(q, dq, ddq) + model.viscous * dq
    np.testing.assert_allclose(mujoco_torque(data, model), wanted, rtol=0, atol=AGREE * np.abs(wanted).max())
    theirs = mujoco.MjModel.from_xml_string(data.decode())
    np.testing.assert_array_equal(theirs.dof_armature, model.rotor)
    np.testing.assert_array_equal(theirs.dof_frictionloss, model.coulomb)
