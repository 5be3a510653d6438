"""An offset that changes with time."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, Role, Side, Traits
from dynid.terms.forms import clock_of
from dynid.terms.friction import OFFSETS
from dynid.terms.residual_tests import (
    Feature,
    FeatureGroup,
    Held,
    Remains,
    TermWords,
    Words,
    moves_throughout,
)
from dynid.terms.term import JointTerm, Selection, Symbol, by_joint, joint_indices

SECONDS_AN_HOUR = 3600.0
# Share of a joint's torque by which its offset may change within a log.
WARN = 0.01
# K, below which a drive counts as equally warm throughout.
LEAST_WARMING = 1.0


def _drift_features(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """A slope in time, and in temperature where it was logged, of the offset and of friction.

    Of a joint that moves in one part of the log alone nothing is seen: at rest friction is of any size.
    """
    dq = remains.motion.dq[:, joint]
    return tuple(
        _feature(remains, joint, cause, form)
        for cause in causes(remains.motion, joint)
        if moves_throughout(cause.values, dq)
        for form in PARTS
    )


def _drift_notices(term: Drift, held: Held) -> Iterator[Finding]:
    """Over 1 % of the joint's torque within the log, 95 % interval included."""
    hours = held.seconds / SECONDS_AN_HOUR
    for j in joint_indices(held.robot, term.joints):
        value, half = held.sizes.get(f"{term.symbol}{j + 1}", (0.0, 0.0))
        if (abs(value) - half) * hours > WARN * held.torque[j]:
            name, unit = held.robot.joint_names[j], "N" if held.robot.prismatic[j] else "N m"
            share = 100 * abs(value) * hours / held.torque[j]
            yield Finding(
                Level.WARNING,
                "torque-drift",
                f"offset of '{name}' that changes by {value * hours:.3g} +- {half * hours:.1g} {unit} over the log "
                f"({share:.2g} % of its torque); the model contains it: warm up the robot and its sensors first, "
                "or identify in parts",
            )


@dataclass(frozen=True)
class Drift(JointTerm):
    """Offset that changes with time: tau_j = fd_j (t - origin) / 3600 s, in N m an hour.

    origin, end: on the log's clock, s; before and after these the offset stays what it was: nothing says that it goes
    on. None = it never ends.    joints: names of the joints it acts on; empty = all.
    """

    origin: float = 0.0
    joints: tuple[str, ...] = ()
    end: float | None = None
    name: str = "drift"
    traits = Traits(Kind.LOG, Side.MOTOR)
    symbol = "fd"
    words = TermWords(
        symbols=(Symbol("fd", "f", "d", "offset that grows with time"),),
        group=FeatureGroup(
            "drift",
            "residual against time and temperature",
        ),
        features=_drift_features,
        notices=_drift_notices,
    )
    unit_revolute = "N m/h"
    unit_prismatic = "N/h"
    needs_motion = False
    selection = Selection(
        Role.LOG,
        OFFSETS,
        by_joint("drift", "drift on {joints}", lambda log: Drift(log.origin, end=log.end), measured=True),
    )

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Hours since the origin, within the time it is known for."""
        t = samples.t if self.end is None else np.clip(samples.t, self.origin, self.end)
        hours = (t - self.origin) / SECONDS_AN_HOUR
        return np.repeat(hours[:, None], robot.n, axis=1)


@clock_of.register(Drift)
def _(term: Drift) -> tuple[float, float] | None:
    """From its origin to its end."""
    return None if term.end is None else (term.origin, term.end)


@dataclass(frozen=True, eq=False)
class Cause:
    """What a residual may drift with.    values: (N,).    span: their range in words.    trend: (N,), -1 to 1."""

    name: str
    title: str
    span: str
    values: Float

    @property
    def trend(self) -> Float:
        """The values on a scale of -1 to 1 about their mean."""
        return np.asarray(2.0 * (self.values - self.values.mean()) / np.ptp(self.values))


def causes(motion: Samples, joint: int) -> list[Cause]:
    """Time, and the drive's temperature where it was logged and changed."""
    found = []
    if np.ptp(motion.t) > 0:
        found.append(Cause("time", "time, s", f"{np.ptp(motion.t):.3g} s", motion.t))
    if motion.temperature is not None:
        warmth = motion.temperature[:, joint]
        if np.isfinite(warmth).all() and np.ptp(warmth) > LEAST_WARMING:
            span = f"{warmth.min():.3g} to {warmth.max():.3g} °C"
            found.append(Cause("temperature", "temperature, °C", span, np.asarray(warmth)))
    return found


PARTS = {
    "offset": (
        "the offset",
        "Zero the torque sensors and let them warm up; identify in parts if the drift is real.",
    ),
    "dry": (
        "friction",
        "The drives warm up or run in: warm them up before, log their temperature (temperature_viscous), or identify "
        "warm and cold apart.",
    ),
    "speed": (
        "viscous friction",
        "The drives warm up: warm them up before, log their temperature and add temperature_viscous, or identify warm "
        "and cold apart.",
    ),
}


def _feature(remains: Remains, joint: int, cause: Cause, form: str) -> Feature:
    trend = cause.trend
    speed = remains.motion.dq[:, joint] / remains.top_speed(joint)
    column = trend * {"offset": np.ones_like(trend), "dry": remains.step(joint), "speed": speed}[form]
    what, advice = PARTS[form]

    def words(factor: Float, _: Float) -> Words:
        change = 2.0 * float(factor[0])
        return Words(
            f"{what} changes with {cause.name}",
            f"By {change:+.3g} {remains.unit(joint)} within {cause.span}, which explains {{figures}}.",
            advice,
            f"straight line in {cause.name}",
        )

    along = np.sign(column / np.where(np.abs(trend) > 0.02, trend, np.inf))
    return Feature(column[:, None], words, cause.values, cause.title, along)
