"""A joint's zero offset in logs that pinocchio simulated: found, in its interval, apart from a lean, and exported."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Diagnostics, Float, Level
from dynid.exporters import ExportModel, export, new_mjcf
from dynid.robot import RobotModel
from dynid.run import Identification
from dynid.signals import Samples
from dynid.terms import FittedEffect, Nominal, RigidBody, Term, torque_of
from dynid.terms.zero_offset import ZeroOffset
from dynid.testing import TermContract, random_inertia, random_robot
from tests.selection.arm import identified, torque

ZEROS = {"one": {3: 2.0}, "three": {2: 1.0, 4: -3.0, 5: 0.5}}


def degrees(of: dict[int, float]) -> Float:
    found = np.zeros(6)
    for joint, value in of.items():
        found[joint - 1] = np.radians(value)
    return found


@pytest.fixture(scope="module", params=[pytest.param("one", marks=pytest.mark.slow), "three"])
def wrong(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[Identification, Float]:
    zeros = degrees(ZEROS[request.param])
    return identified(tmp_path_factory.mktemp("zeros"), zeros), zeros


def sizes(found: Identification, kind: str) -> dict[str, tuple[float, float, bool]]:
    assert found.selection is not None
    return {
        n.name: (n.value, n.half_width, n.adopted)
        for n in found.selection.measurement_effects
        if n.kind == kind
    }


def test_zeros_are_found_in_their_intervals_and_on_their_joints(wrong: tuple[Identification, Float]) -> None:
    found, zeros = wrong
    offsets = sizes(found, "zero")
    assert "zq1" not in offsets  # about gravity
    adopted = {name for name, (_, _, held) in offsets.items() if held}
    assert adopted == {f"zq{j + 1}" for j in np.flatnonzero(zeros)}
    for name in adopted:
        value, half, _ = offsets[name]
        # Rounds of linearisation and a jackknife over 95 %: half as much again is not far off.
        assert abs(value - zeros[int(name[2:]) - 1]) <= 1.5 * half
        assert half < np.radians(0.2)
    assert not any(held for _, _, held in sizes(found, "tilt").values())
    assert found.validations[0].scores.total_relative < 0.003


def test_exported_joints_stand_where_they_are(wrong: tuple[Identification, Float], tmp_path: Path) -> None:
    found, zeros = wrong
    model = ExportModel.of_run(found)
    assert model.left_out == ()
    rng = np.random.default_rng(4)
    q, dq, ddq = rng.uniform(-1.2, 1.2, (3, 40, 6))
    wanted = torque(q + zeros, dq, ddq)
    ours = model.torque(q, dq, ddq)
    plain = found.terms.torque(found.robot, Samples.from_motion(q, dq, ddq), found.estimate.parameters)
    np.testing.assert_allclose(ours, plain, atol=2e-3 * np.abs(wanted).max())
    (path,) = export(found, tmp_path / "out.urdf", diagnostics=Diagnostics()).files
    theirs = pin.buildModelFromXML(path.read_text())
    data = theirs.createData()
    again = np.array([pin.rnea(theirs, data, *state).copy() for state in zip(q, dq, ddq, strict=True)])
    rigid = model.rigid_torque(q, dq, ddq) - model.rotor * ddq
    np.testing.assert_allclose(again, rigid, atol=1e-9 * np.abs(rigid).max())
    real = torque(q + zeros, 0 * dq, 0 * ddq)
    weight = np.array([pin.rnea(theirs, data, x, 0 * x, 0 * x).copy() for x in q])
    left = np.linalg.norm(weight - real) / np.linalg.norm(real)
    before = np.linalg.norm(torque(q, 0 * dq, 0 * ddq) - real) / np.linalg.norm(real)
    assert left < 0.005 < before


def test_a_lean_is_a_lean(tmp_path: Path) -> None:
    found = identified(tmp_path, np.zeros(6), lean=np.radians(0.8))
    assert not any(held for _, _, held in sizes(found, "zero").values())
    value, half, held = sizes(found, "tilt")["tilty"]
    assert held
    assert abs(value - np.radians(0.8)) <= 1.5 * half


class TestZeroOffset(TermContract):
    BODIES = tuple(random_inertia(9, 3).ravel().tolist())

    def term(self) -> Term:
        return ZeroOffset(self.BODIES)

    def robots(self) -> tuple[RobotModel, ...]:
        return random_robot(2, 3, 0.0), random_robot(5, 3, 0.5)


def test_the_derivative_is_that_of_the_torque() -> None:
    robot = random_robot(5, 3, 0.5)
    bodies = random_inertia(9, 3)
    rng = np.random.default_rng(2)
    samples = Samples.from_motion(*rng.normal(size=(3, 20, 3)), np.zeros((20, 3)))
    theta, tiny = rng.normal(size=3), 1e-5
    nominal = Nominal(tuple(bodies.ravel().tolist()))
    ends = [
        nominal.rigid(robot, samples.q + sign * tiny * theta, samples.dq, samples.ddq) for sign in (-1.0, 1.0)
    ]
    wanted = (ends[1] - ends[0]) / (2 * tiny)
    found = torque_of(ZeroOffset(nominal.inertia), robot, samples, theta)
    np.testing.assert_allclose(found, wanted, atol=1e-6 * np.abs(wanted).max())


def test_secants_are_exact_where_they_are_taken() -> None:
    robot, bodies = random_robot(2, 3, 0.0), random_inertia(9, 3)
    rng = np.random.default_rng(2)
    samples = Samples.from_motion(*rng.normal(size=(3, 20, 3)), np.zeros((20, 3)))
    zeros = np.array([0.05, -0.03, 0.02])
    term = ZeroOffset(tuple(bodies.ravel().tolist())).near(
        robot, {f"zq{j + 1}": float(z) for j, z in enumerate(zeros)}
    )
    moved = Samples.from_motion(samples.q + zeros, samples.dq, samples.ddq, samples.tau)
    theta = bodies.ravel()
    change = torque_of(RigidBody(), robot, moved, theta) - torque_of(RigidBody(), robot, samples, theta)
    np.testing.assert_allclose(torque_of(term, robot, samples, zeros), change, atol=1e-9)


@pytest.mark.parametrize(
    ("degrees_off", "half", "large"),
    [(3.0, 1.0, False), (47.0, 8.0, True), (-47.0, 8.0, True), (12.0, 5.0, False)],
)
def test_a_zero_offset_is_a_warning_without_proof_and_a_large_one_says_what_else_it_may_be(
    degrees_off: float, half: float, large: bool
) -> None:
    robot = random_robot(5, 3, 0.0)
    held = FittedEffect(robot, {"zq2": (np.radians(degrees_off), np.radians(half))}, 100.0, 60.0, np.ones(3))
    (notice,) = ZeroOffset.words.notices(ZeroOffset(joints=(robot.joint_names[1],)), held)
    assert (notice.finding.level, notice.lesser) == (Level.DOUBT, Level.WARNING)
    assert "position.offset" in notice.finding.advice
    assert ("without zero_offset" in notice.finding.advice) == large


def test_mujoco_agrees_with_the_corrected_joints(wrong: tuple[Identification, Float]) -> None:
    mujoco = pytest.importorskip("mujoco")
    model = ExportModel.of_run(wrong[0])
    theirs = mujoco.MjModel.from_xml_string(new_mjcf(model.straightened(Diagnostics())).decode())
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    state = mujoco.MjData(theirs)
    q = np.random.default_rng(1).uniform(-1.0, 1.0, (5, 6))
    for x in q:
        state.qpos[:] = x
        mujoco.mj_inverse(theirs, state)
        wanted = model.rigid_torque(x[None], 0 * x[None], 0 * x[None])[0]
        np.testing.assert_allclose(state.qfrc_inverse, wanted, atol=1e-9 * np.abs(wanted).max())
