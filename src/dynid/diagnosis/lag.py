"""Does the torque lag behind the motion? A second clock or a filter in the drive shows in the residuals."""

from __future__ import annotations

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.diagnosis.delay import find_delay
from dynid.diagnosis.proof import friction_forms, misfit_by_shift, prove, shifted
from dynid.diagnosis.residual_analysis import Evidence

WARN_SAMPLES, DOUBT_SAMPLES = 1.0, 5.0
# Long lags are sought up to so many seconds either way, in so many steps, where the plain model misses more than this
# share of the torque; where the mean square error falls by this factor it is worth a proof.
LONGEST, SHIFTS, POOR, DECISIVE = 0.5, 60, 0.05, 2.0


def check_lag(evidence: Evidence, source_rate: float, diagnostics: Diagnostics) -> float:
    """Estimates by how many seconds the measured torque lags behind the motion; 0 when nothing speaks for a lag.

    source_rate: of the log, Hz. Warns over one sample of the log.
    Claims: torque-lag over five samples, 95 % interval included.
    """
    # A long lag is no small change of the torque, which is all that the residuals of a fit can show.
    long = find_long_lag(evidence)
    if abs(long) * source_rate > DOUBT_SAMPLES:
        tell_lag(evidence, long, 0.5 / evidence.residuals.rate, source_rate, " on every joint", diagnostics)
        return long
    delay = find_delay(evidence)
    if delay is None or not delay.believable:
        return 0.0
    if abs(delay.seconds) * source_rate <= WARN_SAMPLES:
        return 0.0
    tell_lag(evidence, delay.seconds, 2.0 * delay.std, source_rate, " on every joint", diagnostics)
    return delay.seconds


def find_long_lag(evidence: Evidence) -> float:
    """The shift of the torque, s, with which the plain model fits all joints decisively better; 0 for none."""
    # What the model holds of delays may hide a lag that is longer than they can be: the plain model is asked.
    now = misfit_by_shift(evidence, np.zeros(1)) if evidence.enough else None
    if now is None or np.sqrt(now[0]) < POOR:
        return 0.0
    rate = evidence.residuals.rate
    reach = round(LONGEST * rate)
    shifts = np.arange(-reach, reach + 1, max(1, reach // SHIFTS)) / rate
    errors = misfit_by_shift(evidence, np.concatenate([[0.0], shifts]))
    if errors is None:
        return 0.0
    best = int(np.argmin(errors[1:]))
    inside = 0 < best < len(shifts) - 1
    return float(shifts[best]) if inside and errors[0] > DECISIVE * errors[1:][best] else 0.0


def tell_lag(
    evidence: Evidence, seconds: float, half: float, source_rate: float, where: str, diagnostics: Diagnostics
) -> None:
    """Tells of a lag of all joints with its 95 % half width, s; where: put behind its size.

    Claims: torque-lag over five samples of the log, interval included, where it is proven.
    """
    found = lag_in_words(seconds, half, source_rate) + where
    proof = None
    if (abs(seconds) - half) * source_rate > DOUBT_SAMPLES:
        rivals = {"friction of another form": friction_forms(evidence)}
        proof = prove(evidence, shifted(evidence, seconds), shifted(evidence, -seconds), rivals)
    if proof is not None and proof.holds:
        diagnostics.claim(
            "torque-lag",
            found=f"{found}: {proof.words(evidence.robot.joint_names)}",
            expected="motion and torque on one clock",
            do="align the effort channel in time (receive time against header time, filter of the drive)",
        )
    else:
        diagnostics.warn("torque-lag", found if proof is None else f"{found}; {proof.doubts()}")


def lag_in_words(seconds: float, half: float, source_rate: float) -> str:
    """A lag with its 95 % half width, s, in time and in samples of the log."""
    late = "lags behind the motion" if seconds > 0 else "runs ahead of the motion"
    size = abs(seconds)
    samples = f"{1e3 * size:.2g} +- {1e3 * half:.1g} ms ({size * source_rate:.2g} samples)"
    return f"torque that {late} by about {samples}"
