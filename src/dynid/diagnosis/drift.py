"""Residual against time: an offset that drifts, friction that changes as the drives warm up."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float
from dynid.diagnosis.evidence import Evidence
from dynid.diagnosis.friction import STEEP
from dynid.diagnosis.symptom import Symptom
from dynid.diagnosis.wording import binned_curve, counts, figures, level, unit


@dataclass(frozen=True)
class Drift:
    """Tries a slope in time of the offset, of Coulomb and of viscous friction on every joint."""

    identifier: str = "drift"
    looks_at: str = "residual against time"

    def look(self, evidence: Evidence) -> list[Symptom]:
        """At most one symptom a joint: the slope that explains most."""
        found = []
        t = elapsed(evidence)
        span = float(np.ptp(t))
        if span <= 0:
            return []
        trend = 2.0 * (t - t.mean()) / span
        for joint in evidence.joints:
            forms = features(evidence.motion.dq[:, joint], trend)
            tried = {name: evidence.alone(joint, column[:, None]) for name, column in forms.items()}
            known = {name: effect for name, effect in tried.items() if effect is not None}
            if not known:
                continue
            name = max(known, key=lambda one: known[one].share[joint])
            effect = known[name]
            share = float(effect.share[joint])
            p_value = min(effect.p_value * len(forms) * len(evidence.joints), 1.0)
            if not counts(share, p_value):
                continue
            change = 2.0 * float(effect.coefficient[0])
            what, advice = WORDS[name]
            joint_name = evidence.robot.joint_names[joint]
            weight = forms[name] / np.where(np.abs(trend) > 0.02, trend, np.inf)
            found.append(
                Symptom(
                    self.identifier,
                    level(evidence, joint, share),
                    joint_name,
                    f"{joint_name}: {what} changes with time",
                    f"By {change:+.3g} {unit(evidence, joint)} within {span:.3g} s, which explains "
                    f"{figures(evidence, joint, share, p_value)}.",
                    advice,
                    share,
                    p_value,
                    curve=binned_curve(
                        t,
                        evidence.error[:, joint] * np.sign(weight),
                        effect.fitted[0] * np.sign(weight),
                        "time, s",
                        f"residual along it, {unit(evidence, joint)}",
                        "straight line in time",
                    ),
                )
            )
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
