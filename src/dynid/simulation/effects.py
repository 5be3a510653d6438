"""What acts on a simulated robot besides its bodies: loads on the joints, friction in the drives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel

SMOOTHING = 0.01


class Load(Protocol):
    """The seam for torque on the links: springs, counterbalances, dampers; of any number of states at once."""

    def torque(self, q: Float, dq: Float) -> Float:
        """Joint torque (B, n) that the drives must supply against it, for states (B, n)."""
        ...

    def energy(self, q: Float) -> Float:
        """What it stores, (B,) J; zeros if it stores nothing."""
        ...


class Friction(Protocol):
    """The seam for friction in the drives, motor by motor; it may have states of its own (LuGre, Dahl).

    Velocity and torque are those of a motor divided and multiplied by its own gear ratio, so that coefficients are
    those seen at the joint where joints are not coupled. The plant maps them to the joints.
    """

    @property
    def states(self) -> int:
        """Number of internal states, all motors together."""
        ...

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque (B, n) at velocities (B, n) and internal states (B, states)."""
        ...

    def rate(self, velocity: Float, state: Float) -> Float:
        """Time derivative (B, states) of the internal states."""
        ...


@dataclass(frozen=True)
class FunctionLoad:
    """A load from functions: a spring is FunctionLoad(lambda q, dq: k * q, lambda q: 0.5 * k * (q**2).sum(1)).

    law: (q (B, n), dq (B, n)) -> torque (B, n) that the drives must supply.
    stored: q (B, n) -> energy (B,), None = nothing is stored.
    """

    law: Callable[[Float, Float], Float]
    stored: Callable[[Float], Float] | None = None

    def torque(self, q: Float, dq: Float) -> Float:
        """The law's torque."""
        return self.law(q, dq)

    def energy(self, q: Float) -> Float:
        """The stored energy."""
        return np.zeros(len(q)) if self.stored is None else self.stored(q)


@dataclass(frozen=True, eq=False)
class SmoothFriction:
    """Viscous and Coulomb friction: tau = viscous v + coulomb tanh(v / width), without states.

    viscous, coulomb: (n,) N m s/rad and N m (N s/m and N).    width: rad/s (m/s) over which the sign is smoothed.
    Raises UsageError if a coefficient is negative or not finite, or the width is not positive.
    """

    viscous: Float
    coulomb: Float
    width: float = SMOOTHING

    def __post_init__(self) -> None:
        n = len(self.viscous)
        for name in ("viscous", "coulomb"):
            values = locked(getattr(self, name), (n,), name)
            if not (np.isfinite(values) & (values >= 0)).all():
                raise UsageError(
                    "friction", found=f"{name} = {values.tolist()}", expected="finite numbers >= 0"
                )
            object.__setattr__(self, name, values)
        if not self.width > 0:
            raise UsageError("friction", found=f"width = {self.width}", expected="a velocity > 0")

    @staticmethod
    def of(robot: RobotModel, width: float = SMOOTHING) -> SmoothFriction:
        """Friction of the robot's description; what it does not know is zero."""
        viscous, coulomb = np.nan_to_num(robot.friction_prior, nan=0.0).T
        return SmoothFriction(viscous, coulomb, width)

    @property
    def states(self) -> int:
        """None."""
        return 0

    def torque(self, velocity: Float, state: Float) -> Float:
        """Friction torque."""
        return np.asarray(self.viscous * velocity + self.coulomb * np.tanh(velocity / self.width))

    def rate(self, velocity: Float, state: Float) -> Float:
        """Empty."""
        return np.zeros_like(state)
