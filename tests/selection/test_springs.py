"""Springs of joints that a MuJoCo model has: the automatic choice finds them, and takes nothing else for one."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_robot
from dynid.run import Identification
from dynid.signals import Preparation
from dynid.terms import TorsionSpring
from dynid.trajectories import FourierTrajectory
from tests.selection.logs import adopted, options, reported

pytestmark = pytest.mark.usefixtures("unexamined")

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


# An arm under controllers: stiffness N m/rad, damping N m s/rad, dry friction and noise of its torque N m, by joint.
KP, KD = np.array([300.0, 400.0, 250.0, 80.0]), np.array([20.0, 25.0, 12.0, 3.0])
DRY, TORQUE_NOISE = np.array([1.5, 2.0, 1.0, 0.5]), np.array([0.2, 0.3, 0.15, 0.05])


def controlled_arm(springs: bool) -> str:
    """Four joints, of which two that carry the arm may have strong springs."""
    parts = (
        ("j1", "0 0 1", "0 0 .3", 4.0, "0.02 0.01 0.05", "0.03 0.03 0.02", ""),
        ("j2", "0 1 0", "0 0 .1", 5.0, "0.01 0.02 0.2", "0.08 0.08 0.02", 'stiffness="35" springref="-30"'),
        ("j3", "0 1 0", "0 0 .4", 3.0, "0.02 -0.01 0.15", "0.04 0.04 0.01", 'stiffness="18" springref="40"'),
        ("j4", "1 0 0", "0 0 .35", 1.5, "0.0 0.02 0.08", "0.006 0.006 0.003", ""),
    )
    text = (
        '<mujoco><compiler angle="degree"/><option timestep="0.0005" integrator="implicitfast"/>'
        '<default><joint damping="0.8" armature="0.05"/></default><worldbody>'
    )
    for name, axis, place, mass, centre, inertia, spring in parts:
        text += (
            f'<body name="{name}_body" pos="{place}"><joint name="{name}" axis="{axis}" range="-170 170" '
            f'{spring if springs else ""}/><inertial mass="{mass}" pos="{centre}" diaginertia="{inertia}"/>'
        )
    return text + "</body>" * len(parts) + "</worldbody></mujoco>"


def test_springs_beside_gravity_are_not_lost_to_what_contains_them(tmp_path: Path) -> None:
    """Any slow function of the position takes a spring's place, and leaves the model again."""
    path = tmp_path / "arm.xml"
    path.write_text(controlled_arm(springs=False), encoding="utf-8")
    robot = load_robot(path)
    model = mujoco.MjModel.from_xml_string(controlled_arm(springs=True))
    data, rng = mujoco.MjData(model), np.random.default_rng(1)
    w, size = 2 * np.pi * rng.uniform(0.08, 0.6, (4, 5)), rng.uniform(0.1, 0.55, (4, 5))
    phase = rng.uniform(0.0, 6.28, (4, 5))
    rows = []
    for k in range(80_000):
        t = k * model.opt.timestep
        rise = min(1.0, t / 2.0)
        wanted = rise * (size * np.sin(w * t + phase)).sum(axis=1)
        speed = rise * (size * w * np.cos(w * t + phase)).sum(axis=1)
        tau = KP * (wanted - data.qpos) + KD * (speed - data.qvel)
        data.qfrc_applied[:] = tau - DRY * np.tanh(data.qvel / 0.02)
        if k % 4 == 0:
            rows.append([t, *data.qpos, *data.qvel, *(tau + TORQUE_NOISE * rng.normal(size=4))])
        mujoco.mj_step(model, data)
    t, q, dq, tau = np.split(np.array(rows), [1, 5, 9], axis=1)
    log = write_log(
        tmp_path / "log.parquet", t[:, 0], canonical_columns(robot.joint_names, q, dq=dq, tau=tau)
    )
    found = identify(
        robot, read_log(log, robot), Settings(automatic=True), threads=1, diagnostics=Diagnostics()
    )
    assert options(found)["springs"] == "2 springs on j2, j3"
    values = dict(zip(found.estimate.names, found.estimate.value, strict=True))
    assert values["kt_joint2"] == pytest.approx(35.0, rel=0.03)
    assert values["kt_joint3"] == pytest.approx(18.0, rel=0.03)
    assert found.training.scores.total_relative < 0.02
