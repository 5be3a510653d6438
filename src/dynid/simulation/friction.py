"""Friction with inner states for the lab, and the terms that their steady sliding is identified by."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass


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


def _lock(model: object, names: tuple[str, ...], least_open: bool) -> None:
    for name in names:
        values = locked(np.atleast_1d(getattr(model, name)), (None,), name)
        good = np.isfinite(values) & ((values > 0) if least_open else (values >= 0))
        if not good.all():
            expected = "finite numbers > 0" if least_open else "finite numbers >= 0"
            raise UsageError("friction", found=f"{name} = {values.tolist()}", expected=expected)
        object.__setattr__(model, name, values)
