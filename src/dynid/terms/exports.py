"""What programs without dynid can hold of an effect: torque that is a line in the motion, and its text in C."""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel


class MotionBasis(Enum):
    """What a torque is made of, x = weights . (dq or ddq)."""

    SPEED = "dq"
    SIGN = "s(dq)"
    ACCELERATION = "ddq"
    ONE = "1"

    def slope(self, values: Float, width: float) -> tuple[int, Float | float] | None:
        """Derivative of a line with respect to one joint's motion; None where it depends on none.

        values: of the line itself.    width: of the sign, 0 = plain.
        Returns which of q, dq, ddq (0, 1, 2) it depends on, and the derivative.
        """
        if self is MotionBasis.SIGN:
            return (1, (1.0 - values**2) / width) if width > 0 else None
        places = {MotionBasis.SPEED: 1, MotionBasis.ACCELERATION: 2}
        return (places[self], 1.0) if self in places else None


class Part:
    """A piece of an exported model; subclasses are frozen dataclasses."""


@dataclass(frozen=True)
class OnJoint(Part):
    """Torque of one parameter on one joint, from its own motion: tau_j = value basis(dq_j or ddq_j).

    width: of the sign, rad/s or m/s, 0 = plain.
    """

    joint: int
    value: float
    basis: MotionBasis
    width: float = 0.0


@dataclass(frozen=True)
class Memory(Part):
    """The distance over which a joint's Coulomb friction builds up, rad (m)."""

    joint: int
    distance: float


@dataclass(frozen=True)
class LeftOut(Part):
    """What no program without dynid can hold of a term whose other parts it can, in words."""

    what: str


@dataclass(frozen=True, eq=False)
class Mixed(Part):
    """Torque of one parameter on all joints: tau = out value basis(weights . dq), with ddq for accelerations.

    term: its name.    out, weights: (n,).    width: of the sign, rad/s or m/s, 0 = plain.
    """

    term: str
    value: float
    basis: MotionBasis
    out: Float
    weights: Float
    width: float = 0.0

    def __post_init__(self) -> None:
        for name in ("out", "weights"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))

    def torque(self, dq: Float, ddq: Float) -> Float:
        """(T, n) of motion (T, n)."""
        line = (ddq if self.basis is MotionBasis.ACCELERATION else dq) @ self.weights
        if self.basis is MotionBasis.SIGN:
            line = smooth_sign(line, self.width)
        if self.basis is MotionBasis.ONE:
            line = np.ones(len(dq))
        return np.asarray(self.value * np.outer(line, self.out))


@dataclass(frozen=True, eq=False)
class JointSpring(Part):
    """A spring over a joint, or the sum of several: tau = weights (stiffness a + preload), a = weights . q.

    term: name of the term.    weights: (n,).    stiffness: N m/rad (N/m).    preload: N m (N) at a = 0.
    """

    term: str
    weights: Float
    stiffness: float
    preload: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", locked(self.weights, (None,), "weights"))

    @property
    def joints(self) -> tuple[int, ...]:
        """The joints that it spans."""
        return tuple(np.flatnonzero(self.weights).tolist())

    @property
    def rest(self) -> float:
        """The a without torque, rad (m); the stiffness must not be zero."""
        return -self.preload / self.stiffness

    def torque(self, q: Float) -> Float:
        """(T, n) at positions (T, n)."""
        return np.outer(self.stiffness * (q @ self.weights) + self.preload, self.weights)

    def energy(self, q: Float) -> Float:
        """Stored energy (T,), J, zero at a = 0."""
        a = q @ self.weights
        return np.asarray((0.5 * self.stiffness * a + self.preload) * a)


def spring_torque(springs: Sequence[JointSpring], q: Float) -> Float:
    """Torque of all springs, (T, n)."""
    return sum((one.torque(q) for one in springs), np.zeros_like(q))


def spring_slopes(springs: Sequence[JointSpring], n: int) -> Float:
    """Derivative (n, n) of their torque by the positions."""
    return sum((one.stiffness * np.outer(one.weights, one.weights) for one in springs), np.zeros((n, n)))


def mixed_torque(parts: Sequence[Mixed], bases: Sequence[MotionBasis], dq: Float, ddq: Float) -> Float:
    """Sum over the parts with some bases, (T, n)."""
    return sum((part.torque(dq, ddq) for part in parts if part.basis in bases), np.zeros_like(dq))


def smooth_sign(speed: Float, width: float) -> Float:
    """tanh(speed / width), or the plain sign for a width of 0."""
    return np.tanh(speed / width) if width > 0 else np.sign(speed)


def c_sign(speed: str, width: float) -> str:
    """The smoothed sign of a speed in C, or the plain one for a width of 0."""
    return f"tanh({speed} / {width!r})" if width > 0 else f"(double)(({speed} > 0.0) - ({speed} < 0.0))"


def c_number(value: float) -> str:
    """A number as a factor in C."""
    return repr(float(value)) if value >= 0 else f"({float(value)!r})"


def spring_text(robot: RobotModel, one: JointSpring) -> str:
    """A spring in words: the joints that it spans, its stiffness, and where it is at rest."""
    joints = " + ".join(
        f"'{robot.joint_names[j]}'"
        if one.weights[j] == 1.0
        else f"{one.weights[j]:g} '{robot.joint_names[j]}'"
        for j in one.joints
    )
    unit = "N/m" if all(robot.prismatic[j] for j in one.joints) else "N m/rad"
    rest = f", at rest at {one.rest:.3g} {'m' if unit == 'N/m' else 'rad'}" if one.stiffness else ""
    return f"{joints} ({one.stiffness:.3g} {unit}{rest})"
