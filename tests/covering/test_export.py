"""Exported robots that have everything: other programs find the torque of the terms."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import mujoco
import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float
from dynid.exporters import ExportModel, new_mjcf, new_urdf, write_c
from dynid.exporters.model import with_zero_offsets
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.terms import MotionBasis, Terms
from dynid.testing import RobotCase
from tests.covering.oracle import EVERY, ONE_ENCODER, agree
from tests.export.models import compiled

# Linkages of bars cannot be exported, which the exported model says.
PLAIN = [c for c in ONE_ENCODER if not c.values[0].robot.drive.linkages]


def exported(case: RobotCase) -> tuple[ExportModel, Samples]:
    """The exported model, and motion with the torque of all that is the robot's own."""
    own = Terms(tuple(term for term in case.terms if term.columns(case.robot)))
    samples = case.motion(12, seed=20)
    model = ExportModel.of_terms(case.robot, own, case.theta)
    return model, replace(samples, tau=own.torque(case.robot, samples, case.theta))


@pytest.mark.parametrize("case", PLAIN)
def test_the_exported_model_has_the_torque_of_the_terms(case: RobotCase) -> None:
    model, samples = exported(case)
    assert model.left_out == ()
    agree(model.torque(samples.q, samples.dq, samples.ddq), samples.tau)


@pytest.mark.parametrize("case", EVERY)
def test_what_cannot_be_held_is_named(case: RobotCase) -> None:
    model, _ = exported(case)
    if case.robot.drive.linkages:
        assert any("position of friction and rotor behind the linkage" in what for what in model.left_out)
    springs = {"stiffness", "joint_damping"} if case.levels["encoders"] == "two" else set()
    assert springs <= set(model.left_out)


@pytest.mark.parametrize("case", EVERY)
def test_pinocchio_reads_the_same_bodies_from_a_urdf(case: RobotCase) -> None:
    model, samples = exported(case)
    robot = case.robot
    theirs = pin.buildModelFromXML(new_urdf(model).decode())
    theirs.gravity.linear = robot.gravity.copy()
    data = theirs.createData()
    place = [theirs.joints[theirs.getJointId(name)] for name in robot.tree_joint_names]
    found = np.zeros((len(samples), robot.n_bodies))
    for t, motion in enumerate(zip(*robot.tree_motion(samples.q, samples.dq, samples.ddq), strict=True)):
        q, rates = np.zeros(theirs.nq), np.zeros((2, theirs.nv))
        for i, joint in enumerate(place):
            turned = motion[0][i]
            own = turned if joint.nq == 1 else (np.cos(turned), np.sin(turned))
            q[joint.idx_q : joint.idx_q + joint.nq] = own
            rates[:, joint.idx_v] = motion[1][i], motion[2][i]
        tau = pin.rnea(theirs, data, q, *rates)
        found[t] = [tau[joint.idx_v] for joint in place]
    bodies = replace(model, rotor=np.zeros(robot.n), mixed=())
    agree(found @ robot.projection, bodies.rigid_torque(samples.q, samples.dq, samples.ddq))


def on_one_branch(robot: RobotModel, weights: Float) -> bool:
    """Whether one path from the base to a link has all joints (n,) that a motor moves."""
    moved = set(robot.independent_bodies[np.flatnonzero(weights)].tolist())
    return any(moved <= set(path) for path in robot.tree.paths)


@pytest.mark.parametrize("case", [c for c in PLAIN if not c.values[0].robot.has_mimic])
def test_mujoco_finds_the_torque_in_an_mjcf(case: RobotCase) -> None:
    model, samples = exported(case)
    # Dry friction is a constraint in MuJoCo, and motors on two branches have no inertia there, which the export says.
    mixed = tuple(
        part
        for part in model.mixed
        if part.basis is MotionBasis.SPEED
        or (part.basis is MotionBasis.ACCELERATION and on_one_branch(case.robot, part.weights))
    )
    smooth = replace(model, coulomb=np.zeros(case.robot.n), mixed=mixed)
    theirs = mujoco.MjModel.from_xml_string(new_mjcf(model).decode())
    theirs.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_CONSTRAINT)
    state = mujoco.MjData(theirs)
    found = []
    for q, dq, ddq in zip(samples.q, samples.dq, samples.ddq, strict=True):
        state.qpos[:], state.qvel[:], state.qacc[:] = q, dq, ddq
        mujoco.mj_inverse(theirs, state)
        found.append(np.array(state.qfrc_inverse))
    agree(np.array(found) + model.offset, smooth.torque(samples.q, samples.dq, samples.ddq))


@pytest.mark.skipif(shutil.which("gcc") is None, reason="no gcc on this machine")
def test_c_code_has_the_torque_of_the_model(tmp_path: Path) -> None:
    both = [c.values[0] for c in PLAIN if c.values[0].robot.has_mimic and c.values[0].robot.drive.coupled]
    smallest = min(both, key=lambda case: case.robot.n_bodies)
    code = write_c(exported(smallest)[0], "model.h")
    assert "greatest difference" in compiled(code.source, code.header, tmp_path)


@pytest.mark.parametrize("case", EVERY)
def test_zeros_of_joints_are_positions_further_on(case: RobotCase) -> None:
    robot, samples = case.robot, case.motion(6, seed=21)
    if robot.drive.linkages:
        robot = replace(robot, drive=replace(robot.drive, linkages=()))
    by = np.random.default_rng(22).uniform(-0.4, 0.4, robot.n)
    one, bodies = samples.q, Terms(case.terms.terms[:1])
    theta = case.theta[: 10 * robot.n_bodies]
    moved = Samples.from_motion(one + by, samples.dq, samples.ddq)
    plain = Samples.from_motion(one, samples.dq, samples.ddq)
    agree(bodies.torque(with_zero_offsets(robot, by), plain, theta), bodies.torque(robot, moved, theta))
