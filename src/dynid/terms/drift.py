"""Offsets that drift with time, and friction that drifts with time or temperature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, Role, Side, Traits, mean_warmth
from dynid.terms.forms import clock_of
from dynid.terms.friction import OFFSETS
from dynid.terms.residual_tests import (
    Feature,
    FeatureGroup,
    FittedEffect,
    Remains,
    TermWords,
    Words,
    moves_throughout,
)
from dynid.terms.term import JointTerm, Selection, Symbol, by_joint, joint_indices

SECONDS_AN_HOUR = 3600.0
# Share of a joint's torque: larger changes of its offset within the log are reported.
WARN = 0.01


def _drift_features(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Linear changes of offset and friction with time, and with temperature if it was logged.

    A joint that moves in few parts of the log has none, because friction at rest may have any value.
    """
    dq = remains.motion.dq[:, joint]
    return tuple(
        _feature(remains, joint, cause, form)
        for cause in causes(remains.motion, joint)
        if moves_throughout(cause.values, dq)
        for form in PARTS
    )


def _drift_notices(term: Drift, effect: FittedEffect) -> Iterator[Finding]:
    """Notices about changes above 1 % of the joint's torque within the log, 95 % interval included."""
    hours = effect.seconds / SECONDS_AN_HOUR
    for j in joint_indices(effect.robot, term.joints):
        value, half = effect.sizes.get(f"{term.symbol}{j + 1}", (0.0, 0.0))
        if (abs(value) - half) * hours > WARN * effect.torque[j]:
            name, unit = effect.robot.joint_names[j], "N" if effect.robot.prismatic[j] else "N m"
            share = 100 * abs(value) * hours / effect.torque[j]
            yield Finding(
                Level.WARNING,
                "torque-drift",
                f"offset of '{name}' that changes by {value * hours:.3g} +- {half * hours:.1g} {unit} over the log "
                f"({share:.2g} % of its torque); the model contains it: warm up robot and sensors first, or split the "
                "log",
            )


@dataclass(frozen=True)
class Drift(JointTerm):
    """Offset that changes with time: tau_j = fd_j (t - origin) / 3600 s, in N m per hour.

    Attributes
    ----------
    origin, end : float, s
        Times on the clock of the log between which the offset changes, since the drift may not continue. `end` None =
        it changes at all times.
    joints : tuple of str
        Joints on which it acts; () = all.

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
        """Hours since the origin, limited to the time of the log."""
        t = samples.t if self.end is None else np.clip(samples.t, self.origin, self.end)
        hours = (t - self.origin) / SECONDS_AN_HOUR
        return np.repeat(hours[:, None], robot.n, axis=1)


@clock_of.register(Drift)
def _(term: Drift) -> tuple[float, float] | None:
    """From its origin to its end."""
    return None if term.end is None else (term.origin, term.end)


@dataclass(frozen=True, eq=False)
class Cause:
    """A quantity with which a residual may drift.

    Attributes
    ----------
    name, title : str
        Name, and title of the axis of the figure.
    span : str
        Range of the values, in words.
    values : ndarray, shape (N,)
        Values at the samples.

    """

    name: str
    title: str
    span: str
    values: Float

    @property
    def trend(self) -> Float:
        """Values minus their mean, scaled to a range of 2."""
        return np.asarray(2.0 * (self.values - self.values.mean()) / np.ptp(self.values))


def causes(motion: Samples, joint: int) -> list[Cause]:
    """Time, and the temperature of the joint's drive if it was logged and changed."""
    candidates = []
    if np.ptp(motion.t) > 0:
        candidates.append(Cause("time", "time, s", f"{np.ptp(motion.t):.3g} s", motion.t))
    if motion.temperature is not None:
        warmth = motion.temperature[:, joint]
        if mean_warmth(warmth) is not None:
            span = f"{warmth.min():.3g} to {warmth.max():.3g} °C"
            candidates.append(Cause("temperature", "temperature, °C", span, np.asarray(warmth)))
    return candidates


# Parts of a joint's torque that may drift: name in titles, and advice.
PARTS = {
    "offset": (
        "the offset",
        "Zero the torque sensors and let them warm up; split the log if the drift is real.",
    ),
    "dry": (
        "friction",
        "The drives warm up or run in: warm them up first, log their temperature (temperature_viscous), or identify "
        "cold and warm parts separately.",
    ),
    "speed": (
        "viscous friction",
        "The drives warm up: warm them up first, log their temperature and add temperature_viscous, or identify cold "
        "and warm parts separately.",
    ),
}


def _feature(remains: Remains, joint: int, cause: Cause, form: str) -> Feature:
    # A linear change of one of PARTS with a cause.
    trend = cause.trend
    speed = remains.motion.dq[:, joint] / remains.top_speed(joint)
    column = trend * {"offset": np.ones_like(trend), "dry": remains.step(joint), "speed": speed}[form]
    subject, advice = PARTS[form]

    def words(factor: Float, _: Float) -> Words:
        change = 2.0 * float(factor[0])
        return Words(
            f"{subject} changes with {cause.name}",
            f"By {change:+.3g} {remains.unit(joint)} within {cause.span}. This explains {{figures}}.",
            advice,
            f"straight line in {cause.name}",
        )

    along = np.sign(column / np.where(np.abs(trend) > 0.02, trend, np.inf))
    return Feature(column[:, None], words, cause.values, cause.title, along)
