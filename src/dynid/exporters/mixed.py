"""Torque that motion of several joints makes: coupled drives, motors that move several joints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.exporters.expression import Graph
from dynid.robot.model import RobotModel
from dynid.terms.exports import Mixed, MotionBasis, c_sign


def share(part: Mixed, g: Graph) -> int:
    """The basis of a part as an expression of dq[...] or ddq[...]."""
    if part.basis is MotionBasis.ONE:
        return g.constant(1.0)
    if part.basis is MotionBasis.SIGN:
        total = " + ".join(f"({float(x)!r}) * dq[{j}]" for j, x in enumerate(part.weights) if x)
        return g.variable(c_sign(f"({total})", part.width))
    name = "ddq" if part.basis is MotionBasis.ACCELERATION else "dq"
    return g.dot(
        [g.constant(float(x)) for x in part.weights],
        [g.variable(f"{name}[{j}]") for j in range(len(part.weights))],
    )


@dataclass(frozen=True, eq=False)
class Motor:
    """A motor that moves several joints: theta_m = weights . q, with what resists its motion, on its own side."""

    weights: Float
    inertia: float = 0.0
    viscous: float = 0.0
    coulomb: float = 0.0


_OF_MOTOR = {MotionBasis.ACCELERATION: "inertia", MotionBasis.SPEED: "viscous", MotionBasis.SIGN: "coulomb"}


def motors_of(parts: Sequence[Mixed]) -> tuple[list[Motor], list[Mixed]]:
    """The motors behind some parts, and the parts that are no inertia or friction of a motor."""
    motors: dict[tuple[float, ...], Motor] = {}
    left = []
    for part in parts:
        key = tuple(part.weights.tolist())
        if part.basis in _OF_MOTOR and np.array_equal(part.out, part.weights):
            one, name = motors.get(key, Motor(part.weights)), _OF_MOTOR[part.basis]
            motors[key] = replace(one, **{name: getattr(one, name) + part.value})
        else:
            left.append(part)
    return list(motors.values()), left


def on_one_branch(robot: RobotModel, weights: Float) -> bool:
    """Whether the joints (n,) that a motor moves lie on one way from the base to a body."""
    bodies = robot.independent_bodies[np.flatnonzero(weights)]
    return set(bodies.tolist()) <= set(robot.tree.paths[int(bodies.max())])


def motor_faults(motors: Sequence[Motor]) -> tuple[str, ...]:
    """What no real motor has, one sentence each."""
    return tuple(
        f"motor {i}: {what} {value:.4g}"
        for i, motor in enumerate(motors, 1)
        for what, value in (
            ("rotor inertia", motor.inertia),
            ("viscous friction", motor.viscous),
            ("coulomb friction", motor.coulomb),
        )
        if value < 0
    )
