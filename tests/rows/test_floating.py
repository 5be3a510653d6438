"""Equations of a floating base, against pinocchio's free flyer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.robot import RobotModel, load_robot, lock_joints, with_floating_base
from dynid.rows import Contact, FloatingRows, TorqueRows, contact_jacobian, floating_samples, free_of_forces
from dynid.signals import Samples
from dynid.terms import RigidBody, Terms
from tests.robot.shipped import shipped

pin = pytest.importorskip("pinocchio")
ROBOTS = {
    "go2_description/urdf/go2.urdf": "FL_foot",
    "g1_description/urdf/g1_29dof_rev_1_0.urdf": "left_ankle_roll_link",
}
# Rows of pinocchio: force, then moment about x, y, z.
ORDER = [0, 1, 2, 5, 4, 3]
TERMS = Terms((RigidBody(),))


def _states(robot: RobotModel, count: int = 30) -> tuple[Samples, dict[str, np.ndarray]]:
    rng = np.random.default_rng(3)
    q, dq, ddq = rng.normal(size=(3, count, robot.n - 6))
    base = dict(zip(("omega", "alpha", "specific"), rng.normal(size=(3, count, 3)) * 3, strict=True))
    up = rng.normal(size=(count, 3))
    base["up"] = up / np.linalg.norm(up, axis=1, keepdims=True)
    joints = Samples.from_motion(q, dq, ddq)
    contact = np.ones((count, 1), dtype=np.bool_)
    return floating_samples(robot, joints, **base, contact=contact), base


def _pinocchio(path: Path) -> tuple[object, object]:
    model = pin.buildModelFromUrdf(str(path), pin.JointModelFreeFlyer())
    return model, model.createData()


@pytest.mark.parametrize("name", ROBOTS)
def test_regressor_of_a_random_base_motion_equals_pinocchios(name: str) -> None:
    """Neither orientation nor velocity of the base changes the equations: the oracle has any."""
    path = shipped(name)
    fixed = load_robot(path)
    robot = with_floating_base(fixed)
    model, data = _pinocchio(path)
    order = [model.joints[model.getJointId(joint)].idx_v for joint in robot.joint_names[6:]]
    bodies = [model.getJointId(joint) for joint in robot.joint_names[6:]]
    samples, base = _states(robot)
    wanted = np.ones(10 * robot.n_bodies, dtype=np.bool_)
    panels = TERMS.torque_regressor(robot, samples, wanted)
    rng = np.random.default_rng(0)
    for t in range(len(samples)):
        Y = np.zeros((robot.n, 10 * robot.n_bodies))
        for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
            Y[j, columns] = values[:, t]
        R = pin.Quaternion(*pin.Quaternion(rng.normal(size=4)).normalized().coeffs()).matrix()
        velocity, w = rng.normal(size=3), base["omega"][t]
        q, v, a = np.zeros(model.nq), np.zeros(model.nv), np.zeros(model.nv)
        q[:7] = np.append(rng.normal(size=3), pin.Quaternion(R).coeffs())
        v[:6] = np.append(velocity, w)
        a[:6] = np.append(
            base["specific"][t] + R.T @ model.gravity.linear - np.cross(w, velocity), base["alpha"][t]
        )
        places = np.array(order)
        q[places + 1], v[places], a[places] = samples.q[t, 6:], samples.dq[t, 6:], samples.ddq[t, 6:]
        oracle = pin.computeJointTorqueRegressor(model, data, q, v, a)
        columns = np.concatenate([10 * (body - 1) + np.arange(10) for body in [1, *bodies]])
        rows = [*range(6), *order]
        mine = Y[:, 50:][[*ORDER, *range(6, robot.n)]]
        assert np.abs(mine - oracle[np.ix_(rows, columns)]).max() < 1e-10 * np.abs(oracle).max()


@pytest.mark.parametrize("name", ROBOTS)
def test_jacobian_of_a_rolling_foot_equals_pinocchios(name: str) -> None:
    """The lowest point of a ball of 2 cm, with force and moment."""
    path, radius = shipped(name), 0.02
    robot = with_floating_base(load_robot(path))
    model, data = _pinocchio(path)
    samples, base = _states(robot)
    body, frame = robot.link_frame(ROBOTS[name])
    contact = Contact(ROBOTS[name], body, tuple(frame[:3, 3].tolist()), radius, moment=True)
    J = contact_jacobian(robot, (contact,), samples.q, base["up"])
    order = np.array([model.joints[model.getJointId(joint)].idx_v for joint in robot.joint_names[6:]])
    for t in range(len(samples)):
        q = pin.neutral(model)
        q[order + 1] = samples.q[t, 6:]
        pin.computeJointJacobians(model, data, q)
        pin.updateFramePlacements(model, data)
        oracle = pin.getFrameJacobian(model, data, model.getFrameId(ROBOTS[name]), pin.LOCAL_WORLD_ALIGNED)
        oracle[:3] += pin.skew(radius * base["up"][t]) @ oracle[3:]
        mine = J[t][:, [*ORDER, *range(6, robot.n)]]
        assert np.abs(mine - oracle[:, [*range(6), *order]]).max() < 1e-12


def test_projected_equations_do_not_feel_forces_of_contacts() -> None:
    """Any force and moment at a foot leaves the equations unchanged, with unequal errors of the rows, too."""
    robot = with_floating_base(load_robot(shipped("go2_description/urdf/go2.urdf")))
    samples, _ = _states(robot)
    feet = tuple(
        Contact(name, body, tuple(frame[:3, 3].tolist()), 0.02)
        for name in ("FL_foot", "FR_foot")
        for body, frame in [robot.link_frame(name)]
    )
    flags = np.array([[1.0, 0.0], [1.0, 1.0]])[np.arange(len(samples)) % 2]
    samples = replace(samples, extra={**samples.extra, "contact": flags})
    sigma = tuple(np.random.default_rng(1).uniform(0.1, 2.0, robot.n).tolist())
    rows = FloatingRows(feet, {(True, False): sigma})
    J = contact_jacobian(robot, feet, samples.q, samples.extra["up"])
    force = np.random.default_rng(2).normal(size=(len(samples), 6)) * np.repeat(flags, 3, axis=1)
    torque = np.einsum("tci,tc->ti", J, force)
    assert np.abs(rows.projected(robot, samples, torque)).max() < 1e-10 * np.abs(torque).max()
    equations = rows.equations(robot, TERMS, samples, np.ones(10 * robot.n_bodies, dtype=np.bool_))
    theta = np.nan_to_num(robot.inertia_prior.ravel())
    model = np.array(
        [theta[c] @ panel[:-1] for c, panel in zip(equations.columns, equations.panels, strict=True)]
    )
    free = TorqueRows().equations(robot, TERMS, samples, np.ones(10 * robot.n_bodies, dtype=np.bool_))
    whole = np.array([theta[c] @ panel[:-1] for c, panel in zip(free.columns, free.panels, strict=True)]).T
    assert np.allclose(model.T, rows.projected(robot, samples, whole))
    P = free_of_forces(J, np.ones(robot.n))
    assert np.allclose(P @ P, P)
    assert np.allclose(P, P.transpose(0, 2, 1))


def test_locked_joints_of_the_base_become_part_of_it() -> None:
    """The mass of the whole robot does not change."""
    robot = load_robot(shipped("go2_description/urdf/go2.urdf"))
    mass = with_floating_base(robot).inertia_prior[:, 0].sum()
    reduced = lock_joints(robot, dict.fromkeys(robot.joint_names[:3], 0.1)).robot
    assert np.isclose(with_floating_base(reduced).inertia_prior[:, 0].sum(), mass)
    assert with_floating_base(reduced).n == 6 + robot.n - 3
