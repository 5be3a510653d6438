"""Torque that motion of several joints makes: coupled drives, motors that move several joints, a tilted base."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.exporters.curves import c_sign
from dynid.exporters.expression import Graph
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.coupling import JointCoupling
from dynid.terms.friction import Coulomb, Offset, Viscous, smooth_sign
from dynid.terms.measurement_effects import GravityTilt
from dynid.terms.term import Term, Terms
from dynid.terms.transmission import MotorInertia, OnMotor


class Basis(Enum):
    """What a torque is made of, x = weights . (dq or ddq)."""

    SPEED = "dq"
    SIGN = "s(dq)"
    ACCELERATION = "ddq"
    ONE = "1"


@dataclass(frozen=True, eq=False)
class Mixed:
    """Torque of one parameter on all joints: tau = out value basis(weights . dq), with ddq for accelerations.

    term: its name.    out, weights: (n,).    width: of the sign, rad/s or m/s, 0 = plain.
    """

    term: str
    value: float
    basis: Basis
    out: Float
    weights: Float
    width: float = 0.0

    def __post_init__(self) -> None:
        for name in ("out", "weights"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))

    def torque(self, dq: Float, ddq: Float) -> Float:
        """(T, n) of motion (T, n)."""
        line = (ddq if self.basis is Basis.ACCELERATION else dq) @ self.weights
        if self.basis is Basis.SIGN:
            line = smooth_sign(line, self.width)
        if self.basis is Basis.ONE:
            line = np.ones(len(dq))
        return np.asarray(self.value * np.outer(line, self.out))

    def share(self, g: Graph) -> int:
        """The basis as an expression of dq[...] or ddq[...]."""
        if self.basis is Basis.ONE:
            return g.constant(1.0)
        if self.basis is Basis.SIGN:
            return g.variable(c_sign(f"({self._sum()})", self.width))
        name = "ddq" if self.basis is Basis.ACCELERATION else "dq"
        return g.dot(
            [g.constant(float(x)) for x in self.weights],
            [g.variable(f"{name}[{j}]") for j in range(len(self.weights))],
        )

    def _sum(self) -> str:
        return " + ".join(f"({float(x)!r}) * dq[{j}]" for j, x in enumerate(self.weights) if x)


@dataclass(frozen=True, eq=False)
class Motor:
    """A motor that moves several joints: theta_m = weights . q, with what resists its motion, on its own side."""

    weights: Float
    inertia: float = 0.0
    viscous: float = 0.0
    coulomb: float = 0.0


_OF_MOTOR = {Basis.ACCELERATION: "inertia", Basis.SPEED: "viscous", Basis.SIGN: "coulomb"}


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


@dataclass(frozen=True, eq=False)
class Tilt:
    """A term of a base that is not level, with its parameters (2 or 4)."""

    term: GravityTilt
    values: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", locked(self.values, (None,), "tilts"))

    def torque(self, robot: RobotModel, q: Float) -> Float:
        """(T, n) at positions q (T, n)."""
        still = np.zeros_like(q)
        return Terms((self.term,)).torque(robot, Samples.from_motion(q, still, still), self.values)

    def gravity(self, robot: RobotModel) -> Float:
        """(2, 3) m/s^2: what a unit of each tilt adds to gravity."""
        return np.array([np.cross(np.eye(3)[k], robot.gravity) for k in self.term.axes(robot)])


def mixed_of(term: Term, theta: Float, robot: RobotModel) -> list[Mixed] | None:
    """A term's torque in these forms, with its parameters; None for another term, and through linkages."""
    unit, N = np.eye(robot.n), robot.drive.transmission
    if isinstance(term, JointCoupling):
        kinds = ((Basis.SPEED, 0.0), (Basis.SIGN, term.width), (Basis.ACCELERATION, 0.0))
        return [
            Mixed(term.name, float(theta[3 * i + c]), basis, unit[j], unit[k], width)
            for i, (j, k) in enumerate(term.pairs(robot))
            for c, (basis, width) in enumerate(kinds)
        ]
    if robot.drive.linkages:
        return None
    if isinstance(term, MotorInertia):
        return [
            Mixed(term.name, float(x), Basis.ACCELERATION, N[column.owner], N[column.owner])
            for x, column in zip(theta, term.columns(robot), strict=True)
        ]
    if not isinstance(term, OnMotor):
        return None
    basis = {Viscous: Basis.SPEED, Coulomb: Basis.SIGN, Offset: Basis.ONE}.get(type(term.of))
    if basis is None:
        return None
    width = term.of.width if isinstance(term.of, Coulomb) else 0.0
    return [
        Mixed(term.name, float(x), basis, N[column.owner], N[column.owner], width)
        for x, column in zip(theta, term.columns(robot), strict=True)
    ]


def mixed_torque(parts: Sequence[Mixed], bases: Sequence[Basis], dq: Float, ddq: Float) -> Float:
    """Sum over the parts with some bases, (T, n)."""
    return sum((part.torque(dq, ddq) for part in parts if part.basis in bases), np.zeros_like(dq))
