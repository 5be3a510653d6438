"""Springs of joints that a MuJoCo model has: the automatic choice finds them, and takes nothing else for one."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import read_log
from dynid.log.write import canonical_columns, write_log
from dynid.robot import load_robot
from dynid.run.result import Identification
from dynid.signals.settings import Preparation
from dynid.terms import TorsionSpring
from dynid.trajectories.trajectory import FourierTrajectory
from tests.selection.logs import adopted, options, reported

RATE, SECONDS, NOISE, REST = 200.0, 40.0, 0.01, 0.3
COULOMB = np.array([0.5, 0.6, 0.4])


def mjcf(stiffness: tuple[float, float, float] = (0.0, 0.0, 0.0)) -> str:
    """An arm of three joints, its first axis vertical.    stiffness: of its joints, N m/rad."""
    parts = (
        ("turn", "0 0 1", "0 0 .2", 3.0),
        ("shoulder", "0 1 0", "0 0 .1", 2.4),
        ("elbow", "0 1 0", "0 0 .35", 1.5),
    )
    text = '<mujoco><compiler angle="radian" autolimits="true"/><worldbody>'
    for (name, axis, place, mass), k in zip(parts, stiffness, strict=True):
        spring = f'stiffness="{k}" springref="{REST}"' if k else ""
        text += (
            f'<body name="{name}_body" pos="{place}"><joint name="{name}" axis="{axis}" range="-1.2 1.2" damping="0.4" '
            f'armature="0.05" {spring}/><inertial pos="0.03 0.02 0.14" mass="{mass}" diaginertia="0.03 0.03 0.01"/>'
        )
    return text + "</body>" * len(parts) + "</worldbody></mujoco>"


def found_with(folder: Path, stiffness: tuple[float, float, float], lean: float = 0.0) -> Identification:
    """A log of that robot by MuJoCo's inverse dynamics, identified by default with a file that knows of no springs.

    lean: of the base about x, rad.
    """
    path = folder / "arm.xml"
    path.write_text(mjcf(), encoding="utf-8")
    robot = load_robot(path)
    planned = FourierTrajectory.random(robot, SECONDS, harmonics=8, seed=4, frequency=0.06, ramp=1.0)
    t = np.arange(round(SECONDS * RATE)) / RATE
    q, dq, ddq = planned.motion(t)
    tau = torque(stiffness, lean, q, dq, ddq)
    tau = tau + NOISE * tau.std(axis=0) * np.random.default_rng(1).normal(size=tau.shape)
    log = write_log(folder / "log.parquet", t, canonical_columns(robot.joint_names, q, tau=tau))
    settings = Settings(automatic=True, preparation=Preparation(cutoff=8.0))
    return identify(robot, read_log(log, robot), settings, threads=1, diagnostics=Diagnostics())


def torque(stiffness: tuple[float, float, float], lean: float, q: Float, dq: Float, ddq: Float) -> Float:
    """Of the joints, (T, 3); dry friction beside MuJoCo's."""
    model = mujoco.MjModel.from_xml_string(mjcf(stiffness))
    model.opt.gravity[:] = 9.81 * np.array([0.0, np.sin(lean), -np.cos(lean)])
    data, tau = mujoco.MjData(model), np.zeros_like(q)
    for i, (data.qpos[:], data.qvel[:], data.qacc[:]) in enumerate(zip(q, dq, ddq, strict=True)):
        mujoco.mj_inverse(model, data)
        tau[i] = data.qfrc_inverse
    return np.asarray(tau + COULOMB * np.tanh(dq / 0.02))


@pytest.mark.parametrize(("joint", "stiffness"), [("elbow", (0.0, 0.0, 3.0)), ("turn", (2.0, 0.0, 0.0))])
def test_a_spring_is_found_on_its_joint(joint: str, stiffness: tuple[float, ...], tmp_path: Path) -> None:
    found = found_with(tmp_path, stiffness)
    assert options(found)["springs"] == f"1 spring on {joint}"
    assert [t.joints for t in found.terms if isinstance(t, TorsionSpring)] == [(joint,)]
    values = dict(zip(found.estimate.names, found.estimate.value, strict=True))
    (size,) = (value for name, value in values.items() if name.startswith("kt_"))
    assert size == pytest.approx(max(stiffness), rel=0.1)
    assert not adopted(found)
    assert not {"tilted-base", "drive-gain", "zero-offset"} & set(reported(found))
    assert found.training.scores.total_relative < 0.02


def test_springs_on_two_joints_are_both_found(tmp_path: Path) -> None:
    found = found_with(tmp_path, (2.0, 0.0, 3.0))
    assert options(found)["springs"] == "2 springs on turn, elbow"
    assert not adopted(found)


def test_a_robot_without_springs_gets_none(tmp_path: Path) -> None:
    assert "springs" not in options(found_with(tmp_path, (0.0, 0.0, 0.0)))


def test_a_base_that_leans_is_no_spring(tmp_path: Path) -> None:
    found = found_with(tmp_path, (0.0, 0.0, 0.0), lean=np.radians(4.0))
    assert options(found)["base"] == "tilted"
    assert "springs" not in options(found)
