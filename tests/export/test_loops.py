"""MJCF with loops: cranks and rods that MuJoCo closes, with the motors' friction and rotor, read back as they were."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.exporters import ExportModel, new_mjcf
from dynid.robot import Reading, RobotModel, read_robot
from dynid.terms import Coulomb, MotorInertia, OnMotor, RigidBody, Viscous
from tests.loop_plants import BARS, LoopPlant, ankle, knee, swing

CASES = {
    "ankle": (["knee", "ankle_pitch", "ankle_roll"], ["knee", "ankle_pitch_motor", "ankle_roll_motor"], {}),
    "knee": (["hip", "knee"], ["hip", "knee_motor"], {"knee": -1.55}),
}


def described(kind: str, folder: Path) -> RobotModel:
    """A leg with rods of MJCF, or with bars of TOML."""
    if kind == "ankle":
        (folder / "leg.xml").write_text(ankle())
        return read_robot(folder / "leg.xml", Reading(), Diagnostics())
    (folder / "tree.xml").write_text(knee().split('<body name="crank">')[0] + "</body></worldbody></mujoco>")
    bars = ", ".join(f"{name} = {value}" for name, value in BARS.items())
    text = f'mjcf = "tree.xml"\n[[joint]]\nname = "knee"\ndrive.linkage = {{ {bars} }}\n'
    (folder / "leg.toml").write_text(text)
    return read_robot(folder / "leg.toml", Reading(), Diagnostics())


@pytest.mark.parametrize("kind", CASES)
def test_exported_loops_have_the_torque_of_the_terms(kind: str, tmp_path: Path) -> None:
    robot = described(kind, tmp_path)
    behind = tuple(
        name for name, is_behind in zip(robot.joint_names, robot.drive.linked, strict=True) if is_behind
    )
    m = len(behind)
    terms = RigidBody() + MotorInertia(behind) + OnMotor(Viscous(behind)) + OnMotor(Coulomb(joints=behind))
    values = np.concatenate([np.full(m, 0.006), np.full(m, 0.03), np.full(m, 0.09)])
    theta = np.concatenate([robot.inertia_prior.ravel(), values])
    model = ExportModel.of_terms(robot, terms, theta)
    (tmp_path / "exported.xml").write_bytes(new_mjcf(model))
    joints, motors, start = CASES[kind]
    plant = LoopPlant((tmp_path / "exported.xml").read_text(), joints, motors, start)
    middle, size = (
        (np.array([0.0, -0.05, 0.0]), np.array([0.6, 0.4, 0.2]))
        if kind == "ankle"
        else (np.array([0.0, -1.5]), np.array([0.7, 0.7]))
    )
    q, dq, ddq = swing(np.arange(0.0, 1.0, 0.02), middle, size, 6)
    # Dry friction yields in MuJoCo, so that the plant adds it; its size is that of the file.
    assert [plant.model.dof_frictionloss[dof] for dof in plant.motors[1:]] == pytest.approx([0.09] * m)
    dry = np.array([0.09 if name in behind else 0.0 for name in robot.joint_names])
    tau = plant.torque(q, dq, ddq, 0.0 * dry, dry)[0]
    expected = robot.drive.motor_torque(q, terms.torque(robot, _samples(q, dq, ddq), theta))
    # Rods have an armature of 1e-7 kg m^2.
    np.testing.assert_allclose(tau, expected, atol=5e-6)
    # Read back, it has the same linkages and motors.
    again = read_robot(tmp_path / "exported.xml", Reading(), Diagnostics())
    assert again.joint_names == robot.joint_names
    shift = again.drive.motor_position(q) - robot.drive.motor_position(q)
    np.testing.assert_allclose(shift - shift[0], 0.0, atol=1e-9)
    for j in np.flatnonzero(robot.drive.linked):
        assert again.drive.rotor_inertia[j] == pytest.approx(0.006, rel=1e-6)


def _samples(q: np.ndarray, dq: np.ndarray, ddq: np.ndarray) -> object:
    from dynid.signals import Samples

    return Samples.from_motion(q, dq, ddq, np.zeros_like(q))


@pytest.mark.parametrize("kind", CASES)
def test_mujoco_simulates_exported_loops(kind: str, tmp_path: Path) -> None:
    import mujoco

    robot = described(kind, tmp_path)
    behind = tuple(
        name for name, is_behind in zip(robot.joint_names, robot.drive.linked, strict=True) if is_behind
    )
    terms = RigidBody() + MotorInertia(behind)
    theta = np.concatenate([robot.inertia_prior.ravel(), np.full(len(behind), 0.006)])
    text = new_mjcf(ExportModel.of_terms(robot, terms, theta)).decode()
    joints, motors, start = CASES[kind]
    plant = LoopPlant(text, joints, motors, start) if kind == "knee" else None
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    assert plant is None or plant.model.nq == model.nq
    if kind == "ankle":
        for _ in range(500):
            mujoco.mj_step(model, data)
        assert np.isfinite(data.qpos).all()
        tips = [data.site(f"{name}_{end}").xpos for name in behind for end in ("tip", "end")]
        assert np.linalg.norm(tips[0] - tips[1]) < 1e-3
        assert np.linalg.norm(tips[2] - tips[3]) < 1e-3
