"""Friction with inner states for the lab, and the terms that their steady sliding is identified by."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import UsageError
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.friction import Coulomb, Viscous
from dynid.terms.friction_shapes import Stribeck
from dynid.terms.term import Terms


@dataclass(frozen=True, eq=False)
class Dahl:
    """Dahl's friction: dz/dt = v - stiffness |v| z / coulomb, tau = stiffness z.

    coulomb: (n,) N m (N) > 0.    stiffness: (n,) N m/rad (N/m) > 0, of the contact before it slides.
    Source: Dahl 1968, exponent 1.

    Raises UsageError for a value that is not positive.
    """

    coulomb: Float
    stiffness: Float

    def __post_init__(self) -> None:
        _lock(self, ("coulomb", "stiffness"), least_open=True)

    @property
    def states(self) -> int:
        """One deflection a motor."""
        return len(self.coulomb)

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n)."""
        return np.asarray(self.stiffness * state)

    def rate(self, velocity: Float, state: Float) -> Float:
        """Rate of the deflections (B, n)."""
        return np.asarray(velocity - self.stiffness * np.abs(velocity) * state / self.coulomb)

    def static_map(self, velocity: Float) -> Float:
        """Torque of steady sliding, coulomb sign(v), (B, n)."""
        return np.asarray(self.coulomb * np.sign(velocity))

    def static_terms(self) -> tuple[Terms, Float]:
        """The terms of the static map with their parameters, in the order of their columns."""
        return Terms((Coulomb(),)), np.array(self.coulomb)


@dataclass(frozen=True, eq=False)
class LuGre:
    """LuGre friction: dz/dt = v - stiffness |v| z / g(v), tau = stiffness z + damping dz/dt + viscous v.

    g(v) = coulomb + (static - coulomb) exp(-(v / velocity)^2). damping fades as exp(-(v / velocity)^2), which keeps the
    model passive. All (n,): coulomb, static N m, stiffness N m/rad, damping, viscous N m s/rad, velocity rad/s.
    Source: Canudas de Wit, Olsson, Astrom and Lischinsky 1995.

    Raises UsageError for a value below zero, or a zero where it is divided by, or static below coulomb.
    """

    coulomb: Float
    static: Float
    velocity: Float
    stiffness: Float
    damping: Float
    viscous: Float

    def __post_init__(self) -> None:
        _lock(self, ("coulomb", "static", "velocity", "stiffness"), least_open=True)
        _lock(self, ("damping", "viscous"), least_open=False)
        if (self.static < self.coulomb).any():
            raise UsageError(
                "friction",
                found=f"static = {self.static.tolist()} below coulomb",
                expected="static >= coulomb",
            )

    @property
    def states(self) -> int:
        """One deflection a motor."""
        return len(self.coulomb)

    def level(self, velocity: Float) -> Float:
        """g(v), (B, n)."""
        return np.asarray(self.coulomb + (self.static - self.coulomb) * self._slow(velocity))

    def _slow(self, velocity: Float) -> Float:
        return np.asarray(np.exp(-((velocity / self.velocity) ** 2)))

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n)."""
        damping = self.damping * self._slow(velocity)
        return np.asarray(
            self.stiffness * state + damping * self.rate(velocity, state) + self.viscous * velocity
        )

    def rate(self, velocity: Float, state: Float) -> Float:
        """Rate of the deflections (B, n)."""
        return np.asarray(velocity - self.stiffness * np.abs(velocity) * state / self.level(velocity))

    def static_map(self, velocity: Float) -> Float:
        """Torque of steady sliding, g(v) sign(v) + viscous v, (B, n)."""
        return np.asarray(self.level(velocity) * np.sign(velocity) + self.viscous * velocity)

    def static_terms(self) -> tuple[Terms, Float]:
        """The terms of the static map with their parameters, in the order of their columns."""
        terms = Viscous() + Coulomb() + Stribeck(tuple(self.velocity.tolist()), exponent=2.0, width=0.0)
        return terms, np.concatenate([self.viscous, self.coulomb, self.static - self.coulomb])


@dataclass(frozen=True, eq=False)
class TermsFriction:
    """Friction of any terms with known parameters, without states: what is identified can be simulated.

    theta: (p,) over terms.columns(robot); the terms see velocities alone (positions and accelerations are zero).
    Raises UsageError if theta has the wrong length or an unknown (nan) entry.
    """

    robot: RobotModel
    terms: Terms
    theta: Float

    def __post_init__(self) -> None:
        p = len(self.terms.columns(self.robot))
        object.__setattr__(self, "theta", locked(self.theta, (p,), "theta"))
        if not np.isfinite(self.theta).all():
            raise UsageError("friction", found="a parameter that is not finite", expected="finite numbers")

    @property
    def states(self) -> int:
        """None."""
        return 0

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n)."""
        zero = np.zeros_like(velocity)
        return self.terms.torque(self.robot, Samples.from_motion(zero, velocity, zero), self.theta)

    def rate(self, velocity: Float, state: Float) -> Float:
        """Empty."""
        return np.zeros_like(state)


def _lock(model: object, names: tuple[str, ...], least_open: bool) -> None:
    for name in names:
        values = locked(np.atleast_1d(getattr(model, name)), (None,), name)
        good = np.isfinite(values) & ((values > 0) if least_open else (values >= 0))
        if not good.all():
            expected = "finite numbers > 0" if least_open else "finite numbers >= 0"
            raise UsageError("friction", found=f"{name} = {values.tolist()}", expected=expected)
        object.__setattr__(model, name, values)
