"""Friction curves in an exported model: their values, their text in C, and the straight lines closest to them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import cast

import numpy as np
from scipy.special import expit

from dynid.base.arrays import Float, locked
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import CurveTerm
from dynid.terms.friction import smooth_sign
from dynid.terms.friction_curves import AsymmetricCoulomb, PolynomialFriction
from dynid.terms.friction_shapes import Sigmoid, SmoothCoulomb, Stribeck, ZolloFriction
from dynid.terms.term import joint_indices

# Speeds at which a curve is compared with straight lines, over the greatest one.
_SPEEDS = np.linspace(-1.0, 1.0, 201)
# An offset that is so small against the friction is rounding.
_DUST = 1e-9


@dataclass(frozen=True, eq=False)
class Curve:
    """Friction of one joint that depends on its speed alone: tau = coefficients . curve(dq; shape).

    term: one of those in `WRITTEN`.    joint: index.    coefficients: (c,).    shape: (s,).
    """

    term: CurveTerm
    joint: int
    coefficients: Float
    shape: Float

    def __post_init__(self) -> None:
        for name in ("coefficients", "shape"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))

    def torque(self, robot: RobotModel, dq: Float) -> Float:
        """Torque (T,) of joint speeds (T, n)."""
        nothing = np.zeros_like(dq)
        samples = Samples.from_motion(nothing, dq, nothing, nothing)
        return np.asarray(self.coefficients @ self.term.curve(robot, samples, self.joint, self.shape))

    def c_texts(self, speed: str) -> tuple[str, ...]:
        """A C expression for each coefficient's share, of the name of the speed."""
        return tuple(WRITTEN[type(self.term)](self.term, self.shape, speed))


def curves_of(term: CurveTerm, theta: Float, robot: RobotModel) -> list[Curve]:
    """The curves of a term with its parameters theta, joint by joint; joints without friction are left out."""
    table, c = term.shape_table(robot), len(term.coefficients)
    found = []
    for i, joint in enumerate(joint_indices(robot, term.joints)):
        own = theta[i * c : (i + 1) * c]
        if own.any():
            typical = np.array([shape.typical for shape in term.shapes])
            found.append(Curve(term, joint, own, np.where(np.isnan(table[i]), typical, table[i])))
    return found


def straight(speed: Float, torque: Float, width: float) -> tuple[float, float, float, float]:
    """Viscous and Coulomb friction >= 0 and an offset closest to torques (T,) at speeds (T,), and the r.m.s. left."""
    from scipy.optimize import nnls

    A = np.column_stack([speed, smooth_sign(speed, width), np.ones_like(speed), -np.ones_like(speed)])
    (viscous, coulomb, up, down), left = nnls(A, torque)
    offset = float(up - down)
    if abs(offset) < _DUST * float(np.abs(torque).max(initial=0.0)):
        offset = 0.0
    return float(viscous), float(coulomb), offset, float(left / np.sqrt(len(speed)))


def speeds_up_to(peak: float) -> Float:
    """Speeds on both sides of rest up to the greatest one."""
    return _SPEEDS * peak


def c_sign(speed: str, width: float) -> str:
    """The smoothed sign of a speed in C, or the plain one for a width of 0."""
    return f"tanh({speed} / {width!r})" if width > 0 else f"(double)(({speed} > 0.0) - ({speed} < 0.0))"


def _number(value: float) -> str:
    return repr(float(value)) if value >= 0 else f"({float(value)!r})"


def _smooth(term: CurveTerm, shape: Float, v: str) -> list[str]:
    return [f"tanh({v} / {_number(shape[0])})"]


def _sides(term: CurveTerm, shape: Float, v: str) -> list[str]:
    s = c_sign(v, cast(AsymmetricCoulomb, term).width)
    return [f"fmax({s}, 0.0)", f"fmin({s}, 0.0)"]


def _powers(term: CurveTerm, shape: Float, v: str) -> list[str]:
    return [
        " * ".join([f"fabs({v})"] * (k - 1) + [v]) if k > 1 else v
        for k in cast(PolynomialFriction, term).powers
    ]


def _stribeck(term: CurveTerm, shape: Float, v: str) -> list[str]:
    one = cast(Stribeck, term)
    slow = f"pow(fabs({v}) / {_number(shape[0])}, {_number(one.exponent)})"
    return [f"{c_sign(v, one.width)} * exp(-{slow})"]


def _sigmoid(term: CurveTerm, shape: Float, v: str) -> list[str]:
    slope, shift = shape
    rest = _number(float(expit(slope * shift)))
    return [f"(1.0 / (1.0 + exp(-{_number(slope)} * ({v} + {_number(shift)}))) - {rest})"]


def _zollo(term: CurveTerm, shape: Float, v: str) -> list[str]:
    s = c_sign(v, cast(ZolloFriction, term).width)
    fade, rise = _number(shape[0]), _number(shape[1])
    rising = f"(fabs({v}) > 0.0 ? exp(-1.0 / ({rise} * fabs({v}))) : 0.0)"
    return [f"-{s} * exp(-fabs({v}) / {fade})", f"-{s} * {rising}"]


# Curves that C code can hold.
WRITTEN: dict[type[CurveTerm], Callable[[CurveTerm, Float, str], list[str]]] = {
    SmoothCoulomb: _smooth,
    AsymmetricCoulomb: _sides,
    PolynomialFriction: _powers,
    Stribeck: _stribeck,
    Sigmoid: _sigmoid,
    ZolloFriction: _zollo,
}
