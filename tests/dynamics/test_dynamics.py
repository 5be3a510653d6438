"""The model object against pinocchio on a dozen robots: torque, motion, kinematics, energy and derivatives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float, SolverError, UsageError
from dynid.dynamics import Dynamics
from dynid.kernel import inverse_dynamics
from dynid.robot import load_example
from dynid.terms import FrictionCurve, GravityTilt, Lean, Mixed, MotionBasis, Stribeck
from tests.dynamics.conftest import ROBOTS, Oracle, agree, example, states

pytestmark = pytest.mark.usefixtures("kernel")
each_robot = pytest.mark.parametrize("name", ROBOTS, ids=lambda name: Path(name).stem)


def rnea(oracle: Oracle, q: Float, dq: Float, ddq: Float) -> Float:
    tau = oracle.joints(pin.rnea(oracle.model, oracle.data, *oracle.motion(q, dq, ddq)))
    return np.asarray(tau + oracle.rotor * ddq)


def mass(oracle: Oracle, q: Float) -> Float:
    M = pin.crba(oracle.model, oracle.data, oracle.motion(q)[0])
    return oracle.between(np.triu(M) + np.triu(M, 1).T) + np.diag(oracle.rotor)


def arm() -> Dynamics:
    robot = load_example("arm7")
    nothing = np.zeros(robot.n)
    return Dynamics(robot, robot.inertia_prior, np.full(robot.n, 0.2), *[nothing] * 3, np.full(robot.n, 0.02))


@each_robot
def test_torque(name: str) -> None:
    model, oracle = example(name)
    q, dq, ddq = states(model.robot)
    tau = np.array([rnea(oracle, *one) for one in zip(q, dq, ddq, strict=True)])
    agree(model.inverse_dynamics(q, dq, ddq), tau)
    friction = model.viscous * dq + model.coulomb * np.tanh(dq / 0.05) + model.offset
    agree(model.friction(dq), friction)
    agree(model.torque(q, dq, ddq), tau + friction)
    still = np.zeros(model.robot.n)
    gravity = np.array([rnea(oracle, one, still, still) for one in q])
    agree(model.gravity(q), gravity)
    bias = np.array([rnea(oracle, a, b, still) for a, b in zip(q, dq, strict=True)])
    agree(model.coriolis(q, dq), bias - gravity)
    agree(model.mass_matrix(q), np.array([mass(oracle, one) for one in q]))


@each_robot
def test_motion_follows_torque(name: str) -> None:
    model, oracle = example(name)
    q, dq, tau = states(model.robot)
    still = np.zeros(model.robot.n)
    wanted = np.array(
        [
            np.linalg.solve(mass(oracle, a), u - rnea(oracle, a, b, still))
            for a, b, u in zip(q, dq, tau, strict=True)
        ]
    )
    agree(model.forward_dynamics(q, dq, tau, friction=False), wanted)
    agree(model.forward_dynamics(q, dq, tau + model.friction(dq)), wanted)
    if not model.robot.has_mimic:
        oracle.model.armature = oracle.rotor.copy()
        aba = [
            pin.aba(oracle.model, oracle.data, *oracle.motion(*one)) for one in zip(q, dq, tau, strict=True)
        ]
        oracle.model.armature = np.zeros(model.robot.n)
        agree(wanted, np.array(aba))


@each_robot
def test_kinematics(name: str) -> None:
    model, oracle = example(name)
    robot, (q, dq, _) = model.robot, states(model.robot)
    T, point = model.forward_kinematics(q), np.array([0.1, -0.2, 0.3])
    for k in range(len(q)):
        full, speed = oracle.motion(q[k], dq[k])
        pin.computeJointJacobians(oracle.model, oracle.data, full)
        agree(T[k], np.array([oracle.data.oMi[i + 1].homogeneous for i in range(robot.n_bodies)]))
        for body in (0, robot.n_bodies // 2, robot.n_bodies - 1):
            there = oracle.model.addFrame(
                pin.Frame(f"p{k} {body}", body + 1, pin.SE3(np.eye(3), point), pin.FrameType.OP_FRAME)
            )
            data = oracle.model.createData()
            pin.forwardKinematics(oracle.model, data, full, speed)
            aligned = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
            J = pin.computeFrameJacobian(oracle.model, data, full, there, aligned)
            found = model.jacobian(q[k], robot.body_names[body], point)
            agree(found, J @ robot.projection)
            agree(found @ dq[k], pin.getFrameVelocity(oracle.model, data, there, aligned).vector)


@each_robot
def test_energy_and_momentum(name: str) -> None:
    model, oracle = example(name)
    q, dq, tau = states(model.robot)
    P = model.robot.projection
    for k in range(len(q)):
        full, speed = oracle.motion(q[k], dq[k])
        kinetic = pin.computeKineticEnergy(oracle.model, oracle.data, full, speed)
        kinetic += 0.5 * float(oracle.rotor @ dq[k] ** 2)
        agree(model.kinetic_energy(q[k], dq[k]), np.asarray(kinetic))
        # Pinocchio counts what is fixed to the base as well.
        potential = [
            pin.computePotentialEnergy(oracle.model, oracle.data, oracle.motion(one)[0]) for one in q[[k, 0]]
        ]
        change = model.potential_energy(q[k]) - model.potential_energy(q[0])
        agree(np.asarray(change), np.asarray(potential[0] - potential[1]))
        agree(model.momentum(q[k], dq[k]), mass(oracle, q[k]) @ dq[k])
        C = pin.computeCoriolisMatrix(oracle.model, oracle.data, full, speed)
        g = pin.computeGeneralizedGravity(oracle.model, oracle.data, full)
        rate = tau[k] + P.T @ (C.T @ speed - g) - model.friction(dq[k])
        agree(model.momentum_rate(q[k], dq[k], tau[k]), rate)
        agree(model.coriolis_matrix(q[k], dq[k]) @ dq[k], P.T @ C @ speed)
        agree(model.coriolis_matrix(q[k], dq[k]).T @ dq[k], P.T @ C.T @ speed)


@each_robot
def test_derivatives(name: str) -> None:
    model, oracle = example(name)
    q, dq, ddq = states(model.robot)
    for k in range(len(q)):
        by_q, by_dq, _ = (
            oracle.between(np.array(one))
            for one in pin.computeRNEADerivatives(
                oracle.model, oracle.data, *oracle.motion(q[k], dq[k], ddq[k])
            )
        )
        found = model.torque_derivatives(q[k], dq[k], ddq[k], friction=False)
        agree(found[0], by_q)
        agree(found[1], by_dq)
        agree(found[2], mass(oracle, q[k]))
        tau = model.inverse_dynamics(q[k], dq[k], ddq[k])
        # The inverse multiplies rounding by the condition of M, which descriptions of tiny bodies make large.
        scale = 1e-12 * float(np.linalg.cond(found[2]))
        inverse = np.linalg.inv(mass(oracle, q[k]))
        got = model.acceleration_derivatives(q[k], dq[k], tau, friction=False)
        for one, wanted in zip(got, (-inverse @ by_q, -inverse @ by_dq, inverse), strict=True):
            agree(one, wanted, max(1e-10, scale))


def bent(robot_name: str = "arm7") -> Dynamics:
    """A model with everything that a derivative has no formula for."""
    robot = load_example(robot_name)
    n, rng = robot.n, np.random.default_rng(5)
    curve = Stribeck((0.2,), width=0.05, joints=(robot.joint_names[1],))
    unit = np.eye(n)
    return Dynamics(
        robot,
        robot.inertia_prior,
        *rng.uniform(0.1, 0.5, (3, n)),
        rng.normal(size=n),
        np.full(n, 0.05),
        curves=(FrictionCurve(curve, 1, np.array([0.7]), np.array([0.2])),),
        mixed=(
            Mixed("joint_coupling", 0.2, MotionBasis.ACCELERATION, unit[5], unit[5] + unit[6]),
            Mixed("joint_coupling", 0.3, MotionBasis.SIGN, unit[5], unit[6], 0.05),
        ),
        tilt=Lean(
            GravityTilt(tuple(robot.inertia_prior.ravel().tolist())), np.array([0.02, -0.01, 0.1, 0.2])
        ),
    )


def test_everything_that_is_not_rigid_agrees_with_itself() -> None:
    model = bent()
    q, dq, ddq = states(model.robot, 5)
    tau = model.torque(q, dq, ddq)
    agree(model.forward_dynamics(q, dq, tau), ddq, 1e-9)
    by_q, by_dq, M = model.torque_derivatives(q, dq, ddq)
    step = 1e-6
    for j in range(model.robot.n):
        move = step * np.eye(model.robot.n)[j]
        for slopes, motions in (
            (by_q, ((q + move, dq, ddq), (q - move, dq, ddq))),
            (by_dq, ((q, dq + move, ddq), (q, dq - move, ddq))),
            (M, ((q, dq, ddq + move), (q, dq, ddq - move))),
        ):
            change = (model.torque(*motions[0]) - model.torque(*motions[1])) / (2.0 * step)
            agree(slopes[..., j], change, 1e-7)
    rigid = model.torque(q, dq, ddq) - model.friction(dq)
    agree(
        model.mass_matrix(q) @ ddq[..., None], (rigid - model.coriolis(q, dq) - model.gravity(q))[..., None]
    )


def test_energy_is_kept_by_the_rate_of_momentum() -> None:
    # d(dq' M dq / 2)/dt = dq' (tau - g) whatever C is, and p = M dq changes as momentum_rate says.
    model = arm()
    q, dq, tau = states(model.robot, 4)
    ddq = model.forward_dynamics(q, dq, tau)
    h = 1e-6
    after, before = ((q + s * h * dq, dq + s * h * ddq) for s in (1.0, -1.0))
    agree(
        (model.momentum(*after) - model.momentum(*before)) / (2.0 * h), model.momentum_rate(q, dq, tau), 1e-7
    )
    change = (model.kinetic_energy(*after) - model.kinetic_energy(*before)) / (2.0 * h)
    agree(change, (dq * (tau - model.gravity(q))).sum(axis=1), 1e-7)
    C, M = model.coriolis_matrix(q, dq), [model.mass_matrix(q + s * h * dq) for s in (1.0, -1.0)]
    agree(C + np.swapaxes(C, 1, 2), (M[0] - M[1]) / (2.0 * h), 1e-7)


def test_one_state_is_as_many_and_lists_are_arrays() -> None:
    model = bent()
    q, dq, ddq = states(model.robot, 70)
    for method, arguments in (
        ("inverse_dynamics", 3), ("torque", 3), ("forward_dynamics", 3), ("torque_derivatives", 3),
        ("acceleration_derivatives", 3), ("momentum_rate", 3), ("coriolis", 2), ("coriolis_matrix", 2),
        ("momentum", 2), ("kinetic_energy", 2), ("gravity", 1), ("mass_matrix", 1), ("forward_kinematics", 1),
        ("potential_energy", 1), ("jacobian", 1),
    ):  # fmt: skip
        for one in (model, arm()):
            call, motion = getattr(one, method), (q, dq, ddq)[:arguments]
            many, single = call(*motion), call(*(x[66].tolist() for x in motion))
            if not isinstance(many, tuple):
                many, single = (many,), (single,)
            for a, b in zip(many, single, strict=True):
                # Central differences multiply rounding by 1 / (2 STEP), 1e5.
                np.testing.assert_allclose(b, a[66], rtol=0, atol=1e-9)


def test_arrays_of_any_layout_type_and_origin_are_states() -> None:
    model = arm()
    q, dq, ddq = states(model.robot, 70)
    read_only = q.copy()
    read_only.flags.writeable = False
    single = q.astype(np.float32)
    for method in (model.inverse_dynamics, model.forward_dynamics):
        wanted = method(q, dq, ddq)
        for other in (np.asfortranarray(q), np.repeat(q, 2, axis=0)[::2], read_only, q.astype(">f8")):
            np.testing.assert_array_equal(method(other, dq, ddq), wanted)
        np.testing.assert_array_equal(method(single, dq, ddq), method(single.astype(np.float64), dq, ddq))
        own = method(q[0], dq[0], ddq[0])
        own += 1.0  # results share no memory with each other, nor with what the kernel keeps
        np.testing.assert_allclose(method(q[0], dq[0], ddq[0]), wanted[0], rtol=1e-12, atol=1e-12)


def test_what_does_not_fit_is_said() -> None:
    model = arm()
    q = np.zeros(7)
    for wrong in (
        (q[:6], q, q),
        (q, np.zeros((2, 7)), q),
        (np.zeros((1, 1, 7)),) * 3,
        (np.zeros((3, 6)),) * 3,
    ):
        with pytest.raises(UsageError, match="joints of 'arm7'"):
            model.inverse_dynamics(*wrong)
        with pytest.raises(UsageError, match="joints of 'arm7'"):
            model.forward_dynamics(*wrong)
    with pytest.raises(UsageError, match="body 'hand'"):
        model.jacobian(q, "hand")
    with pytest.raises(UsageError, match="body 7"):
        model.jacobian(q, 7)
    nothing = np.zeros(7)
    hollow = Dynamics(model.robot, np.zeros((7, 10)), *[nothing] * 5)
    with pytest.raises(SolverError, match="not positive definite"):
        hollow.forward_dynamics(q, q, q)


def test_the_description_is_a_model_too() -> None:
    robot = load_example("arm7")
    model = Dynamics.of_description(robot)
    q, dq, ddq = states(robot)
    wanted = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    agree(
        model.inverse_dynamics(q, dq, ddq), wanted + np.nan_to_num(robot.drive.reflected_rotor_inertia) * ddq
    )
    unknown = np.array(robot.inertia_prior)
    unknown[1] = np.nan
    with pytest.raises(UsageError, match=f"no inertia of {robot.body_names[1]} "):
        Dynamics.of_description(replace(robot, inertia_prior=unknown))


def test_it_shows_itself() -> None:
    text = repr(arm())
    assert text.startswith("Dynamics of 'arm7': 7 joints, 7 moving")
    assert "left out: nothing" in text
    assert "<table>" in arm()._repr_html_()
