"""Residual against time and temperature: an offset that drifts, friction that changes as the drives warm up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.diagnosis.friction import STEEP
from dynid.diagnosis.residual_analysis import Effect, Evidence
from dynid.diagnosis.symptom import Symptom
from dynid.diagnosis.wording import binned_curve, counts, figures, level, unit

# K, below which a drive counts as equally warm throughout.
LEAST_WARMING = 1.0


@dataclass(frozen=True)
class Drift:
    """Tries a slope in time, and in temperature where it is logged, of the offset and of friction on every joint."""

    identifier: str = "drift"
    looks_at: str = "residual against time and temperature"

    def look(self, evidence: Evidence) -> list[Symptom]:
        """At most one symptom a joint: the slope that explains most."""
        found = []
        for joint in evidence.joints:
            tried = [
                (cause, form, column, effect)
                for cause in causes(evidence, joint)
                for form, column in features(evidence.motion.dq[:, joint], cause.trend).items()
                if (effect := evidence.alone(joint, column[:, None])) is not None
            ]
            if not tried:
                continue
            cause, form, column, effect = max(tried, key=lambda one: float(one[3].share[joint]))
            p_value = min(effect.p_value * len(tried) * len(evidence.joints), 1.0)
            if counts(float(effect.share[joint]), p_value):
                found.append(self._symptom(evidence, joint, cause, form, column, effect, p_value))
        return found

    def _symptom(
        self,
        evidence: Evidence,
        joint: int,
        cause: Cause,
        form: str,
        column: Float,
        effect: Effect,
        p_value: float,
    ) -> Symptom:
        share, change = float(effect.share[joint]), 2.0 * float(effect.coefficient[0])
        what, advice = WORDS[form]
        name = evidence.robot.joint_names[joint]
        along = np.sign(column / np.where(np.abs(cause.trend) > 0.02, cause.trend, np.inf))
        return Symptom(
            self.identifier,
            level(evidence, joint, share),
            name,
            f"{name}: {what} changes with {cause.name}",
            f"By {change:+.3g} {unit(evidence, joint)} within {cause.span}, which explains "
            f"{figures(evidence, joint, share, p_value)}.",
            advice,
            share,
            p_value,
            curve=binned_curve(
                cause.values,
                evidence.error[:, joint] * along,
                effect.fitted[0] * along,
                cause.title,
                f"residual along it, {unit(evidence, joint)}",
                f"straight line in {cause.name}",
            ),
        )


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


def causes(evidence: Evidence, joint: int) -> list[Cause]:
    """Time, and the drive's temperature where it was logged and changed."""
    found = []
    t = elapsed(evidence)
    if np.ptp(t) > 0:
        found.append(Cause("time", "time, s", f"{np.ptp(t):.3g} s", t))
    logged = evidence.residuals.temperature
    if logged is not None:
        T = logged[evidence.index, joint]
        if np.isfinite(T).all() and np.ptp(T) > LEAST_WARMING:
            span = f"{T.min():.3g} to {T.max():.3g} °C"
            found.append(Cause("temperature", "temperature, °C", span, np.asarray(T)))
    return found


WORDS = {
    "offset": (
        "the offset",
        "Zero the torque sensors and let them warm up; identify in parts if the drift is real.",
    ),
    "coulomb": (
        "friction",
        "The drives warm up or run in: warm them up before, log their temperature (temperature_viscous), or identify "
        "warm and cold apart.",
    ),
    "viscous": (
        "viscous friction",
        "The drives warm up: warm them up before, log their temperature and add temperature_viscous, or identify warm "
        "and cold apart.",
    ),
}


def elapsed(evidence: Evidence) -> Float:
    """Seconds (N,) of the thinned samples since the start, trajectories one behind the other where clocks restart."""
    r, i = evidence.residuals, evidence.index
    t = np.array(r.t[i], dtype=np.float64)
    back = np.diff(t, prepend=t[:1])
    return np.asarray(t - np.cumsum(np.where(back < 0, back, 0.0)))


def features(dq: Float, trend: Float) -> dict[str, Float]:
    """Slopes in time of the offset and of friction, each (N,), from velocity and a trend that runs from -1 to 1."""
    top = max(float(np.quantile(np.abs(dq), 0.95)), 1e-12)
    return {
        "offset": trend,
        "coulomb": trend * np.tanh(dq / (STEEP * top)),
        "viscous": trend * dq / top,
    }
