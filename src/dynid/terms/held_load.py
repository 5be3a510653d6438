"""A load of unknown inertia that is held while a channel of the log says so."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.channel import channel
from dynid.terms.rigid_body import INERTIAL_SYMBOLS, INERTIAL_UNITS, RigidBody
from dynid.terms.term import Column, Of, Symbol, Term


@dataclass(frozen=True)
class HeldLoad(Term):
    """Torque of a load on a body while it is held: tau = s(t) Y_body(q, dq, ddq) pi, ten parameters.

    channel_name: the extra channel u that says so, s = (u - empty) / (held - empty).    body: name; "" = the last one.
    held, empty: values of the channel with the load and without it.
    """

    channel_name: str
    body: str = ""
    held: float = 1.0
    empty: float = 0.0
    name: str = "held_load"
    of_log = True
    symbols = tuple(
        Symbol(f"held_{symbol}", f"held {symbol}", "", f"{symbol} of the load that is held at times")
        for symbol in INERTIAL_SYMBOLS
    )

    def __post_init__(self) -> None:
        if not np.isfinite([self.held, self.empty]).all() or self.held == self.empty:
            raise UsageError(
                "held-load",
                found=f"held = {self.held:g}, empty = {self.empty:g}",
                expected="two different values of the channel: with the load and without it",
            )

    def channels(self) -> tuple[str, ...]:
        """The one channel."""
        return (self.channel_name,)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Ten parameters about the joint frame of the body."""
        body = self._body(robot)
        return tuple(
            Column(
                f"held_{symbol}{body + 1}",
                unit,
                self.name,
                body,
                lower=0.0 if symbol == "m" else -np.inf,
                of=Of.ROBOT,
            )
            for symbol, unit in zip(INERTIAL_SYMBOLS, INERTIAL_UNITS, strict=True)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Columns of the body while the load is held."""
        first = 10 * self._body(robot)
        own = np.zeros(10 * robot.n_bodies, dtype=np.bool_)
        own[first : first + 10] = wanted
        share = (channel(samples, self.channel_name) - self.empty) / (self.held - self.empty)
        panels = RigidBody().torque_regressor(robot, samples, own)
        return Panels(
            tuple(columns - first for columns in panels.columns),
            tuple(values * share for values in panels.values),
        )

    def _body(self, robot: RobotModel) -> int:
        if self.body and self.body not in robot.body_names:
            raise UsageError(
                "unknown-body", found=f"body '{self.body}'", expected="one of " + ", ".join(robot.body_names)
            )
        return robot.body_names.index(self.body) if self.body else robot.n_bodies - 1
