"""The equations of motion of covering cases a second time: pinocchio's bodies and rotors, motors by differences."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float
from dynid.robot import RobotModel
from dynid.signals import Samples
from dynid.spatial import six
from dynid.terms import SpinningRotor
from dynid.testing import RobotCase, covering_cases
from dynid.testing.robots import CHANNEL, LOAD, WIDTH

EVERY = [pytest.param(case, id=case.name) for case in covering_cases()]
ONE_ENCODER = [pytest.param(c, id=c.name) for c in covering_cases() if c.levels["encoders"] == "one"]
TWO_ENCODERS = [pytest.param(c, id=c.name) for c in covering_cases() if c.levels["encoders"] == "two"]


def agree(found: Float, wanted: Float, tolerance: float = 1e-10) -> None:
    """Equal to a share of the greatest number."""
    assert np.shape(found) == np.shape(wanted)
    assert np.abs(found - wanted).max() <= tolerance * max(1.0, float(np.abs(wanted).max()))


def slope(function: Any, h: float = 5e-3) -> Float:
    """First derivative at 0 of an array's function of one number, by eight points."""
    weights = {1: 4 / 5, 2: -1 / 5, 3: 4 / 105, 4: -1 / 280}
    return np.asarray(sum(w * (function(k * h) - function(-k * h)) for k, w in weights.items()) / h)


def bend(function: Any, h: float = 1e-2) -> Float:
    """Second derivative at 0, by nine points."""
    weights = {0: -205 / 72, 1: 8 / 5, 2: -1 / 5, 3: 8 / 315, 4: -1 / 560}
    total = weights[0] * function(0.0)
    for k in range(1, 5):
        total = total + weights[k] * (function(k * h) + function(-k * h))
    return np.asarray(total / h**2)


@dataclass(frozen=True, eq=False)
class Bodies:
    """A robot's tree in pinocchio, its rotors as further bodies where they have inertia (m,) about their axes."""

    robot: RobotModel
    inertia: Float
    rotors: Float | None = None

    @cached_property
    def model(self) -> tuple[Any, list[int], list[int]]:
        """Model, and the place of every body's and every rotor's joint in it."""
        robot, model = self.robot, pin.Model()
        joint: dict[int, int] = {-1: 0}
        place: dict[tuple[str, int], int] = {}
        bodies = np.array(self.inertia)
        mounts = []
        for j, body in enumerate(robot.independent_bodies.tolist()):
            parent, z = int(robot.parent[body]), robot.T_parent_joint[body, :3, :3] @ robot.axis[body]
            mounts.append((j, parent, z))
            if self.rotors is not None and parent >= 0:
                bodies[parent, 4:] -= self.rotors[j] * six(np.outer(z, z))

        def add(body: int) -> None:
            if body >= 0:
                slides = robot.tree.prismatic[body]
                kind = pin.JointModelPrismaticUnaligned if slides else pin.JointModelRevoluteUnaligned
                T = robot.T_parent_joint[body]
                at = pin.SE3(T[:3, :3].copy(), T[:3, 3].copy())
                name = f"body{body}"
                joint[body] = model.addJoint(
                    joint[int(robot.parent[body])], kind(robot.axis[body].copy()), at, name
                )
                place["body", body] = model.joints[joint[body]].idx_v
                one = pin.Inertia.FromDynamicParameters(bodies[body].copy())
                model.appendBodyToJoint(joint[body], one, pin.SE3.Identity())
            for j, parent, z in mounts:
                if self.rotors is not None and parent == body:
                    kind = pin.JointModelRevoluteUnaligned(z.copy())
                    found = model.addJoint(joint[body], kind, pin.SE3.Identity(), f"rotor{j}")
                    place["rotor", j] = model.joints[found].idx_v
                    disc = pin.Inertia(0.0, np.zeros(3), self.rotors[j] * np.outer(z, z))
                    model.appendBodyToJoint(found, disc, pin.SE3.Identity())
            for child in np.flatnonzero(robot.parent == body):
                add(int(child))

        add(-1)
        model.gravity.linear = robot.gravity.copy()
        rotors = range(robot.n if self.rotors is not None else 0)
        return model, [place["body", i] for i in range(robot.n_bodies)], [place["rotor", j] for j in rotors]

    def torque(self, links: tuple[Float, ...], motors: tuple[Float, ...]) -> tuple[Float, Float]:
        """Torque (T, n) on the joints and (T, m) on the motors; motion of joints and of motors, q, dq, ddq each."""
        robot = self.robot
        model, bodies, rotors = self.model
        data = model.createData()
        P = robot.projection
        tau, spin = np.zeros((len(links[0]), robot.n)), np.zeros((len(links[0]), robot.n))
        for t in range(len(links[0])):
            full = np.zeros((3, model.nv))
            for k in range(3):
                full[k, bodies] = P @ links[k][t] + (robot.projection_offset if k == 0 else 0.0)
                full[k, rotors] = motors[k][t][: len(rotors)]
            found = pin.rnea(model, data, *full)
            tau[t] = P.T @ found[bodies]
            if rotors:
                spin[t] = found[rotors]
        return tau, spin

    def mass_and_bias(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """M (T, n, n) and h (T, n) of the bodies alone."""
        n = self.robot.n
        none = (q, q, q)
        h = self.torque((q, dq, np.zeros_like(q)), none)[0]
        columns = []
        for j in range(n):
            unit = np.tile(np.eye(n)[j], (len(q), 1))
            columns.append(self.torque((q, dq, unit), none)[0] - h)
        return np.stack(columns, axis=2), h


def motors_of(robot: RobotModel, motion: tuple[Float, ...]) -> tuple[tuple[Float, Float, Float], Float]:
    """Motion of the motors (T, m) each, and their Jacobian (T, m, n), from their positions alone."""
    q, dq, ddq = motion
    position = robot.drive.motor_position
    path = lambda s: position(q + s * dq + 0.5 * s * s * ddq)
    J = np.stack([slope(lambda s, e=e: position(q + s * e)) for e in np.eye(robot.n)], axis=2)
    return (position(q), slope(path), bend(path)), J


def values(case: RobotCase, term: str, prefix: str = "") -> Float:
    """Parameters of a term by joint, (n,); zeros without it."""
    found = np.zeros(case.robot.n)
    for column, value in zip(case.terms.columns(case.robot), case.theta, strict=True):
        if column.term == term and column.name.startswith(prefix):
            found[column.owner] = value
    return found


def bodies_of(case: RobotCase) -> Float:
    """Bodies (nb, 10) with the load."""
    robot = case.robot
    inertia = np.array(case.theta[: 10 * robot.n_bodies]).reshape(-1, 10)
    if case.levels["payload"] != "none":
        inertia[{"last body": -1, "middle body": robot.n_bodies // 2}[case.levels["payload"]]] += LOAD
    return inertia


def expected(case: RobotCase, samples: Samples) -> tuple[Float, Float]:
    """Torque (T, n) of the model on the links and on the motors, seen at the joints."""
    robot, motor = case.robot, samples.motor
    links, reflected = (samples.q, samples.dq, samples.ddq), (motor.q, motor.dq, motor.ddq)
    turning, J = motors_of(robot, reflected)
    spinning = any(isinstance(term, SpinningRotor) for term in case.terms)
    rotors = values(case, "spinning_rotor") / robot.drive.gear_ratio**2 if spinning else None
    link, at_motors = Bodies(robot, bodies_of(case), rotors).torque(links, turning)
    if not spinning:
        at_motors = values(case, "motor_inertia") * turning[2]
    smooth = np.tanh(turning[1] / WIDTH)
    at_motors = (
        at_motors + values(case, "on_motor", "fv") * turning[1] + values(case, "on_motor", "fc") * smooth
    )
    known = np.zeros((len(samples), robot.n))
    if case.levels["known"] != "none":
        known[:, robot.n // 2] = samples.extra[CHANNEL]
    if case.levels["known"] == "at a motor":
        at_motors = at_motors + known
    total = np.einsum("tmn,tm->tn", J, at_motors)
    total += values(case, "rotor_inertia") * reflected[2] + values(case, "offset")
    total += values(case, "viscous") * reflected[1]
    total += values(case, "coulomb") * np.tanh(reflected[1] / WIDTH)
    spring = values(case, "stiffness") * (reflected[0] - links[0])
    spring += values(case, "joint_damping") * (reflected[1] - links[1])
    link = link + values(case, "link_viscous") * links[1] + values(case, "link_offset")
    if case.levels["known"] == "at a joint":
        link = link + known
    return link - spring, total + spring


def moved(samples: Samples, s: float) -> Samples:
    """The state s seconds later, at constant accelerations."""
    q = samples.q + s * samples.dq + 0.5 * s * s * samples.ddq
    later = replace(samples, q=q, dq=samples.dq + s * samples.ddq)
    if samples.theta is None:
        return later
    return replace(
        later,
        theta=samples.theta + s * samples.dtheta + 0.5 * s * s * samples.ddtheta,
        dtheta=samples.dtheta + s * samples.ddtheta,
    )
