"""Does the torque lag behind the motion? A second clock or a filter in the drive shows in the residuals."""

from __future__ import annotations

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.diagnosis.adopted_effects import report
from dynid.diagnosis.delay import find_delay
from dynid.diagnosis.proof import misfit_by_shift
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.terms.torque_delay import DOUBT_SAMPLES, WARN_SAMPLES, lag_notice

# Long lags are sought up to so many seconds either way, in so many steps, where the plain model misses more than this
# share of the torque; where the mean square error falls by this factor it is worth a proof.
LONGEST, SHIFTS, POOR, DECISIVE = 0.5, 60, 0.05, 2.0


def check_lag(evidence: ResidualAnalysis, source_rate: float, diagnostics: Diagnostics) -> float:
    """Estimates by how many seconds the measured torque lags behind the motion; 0 when nothing speaks for a lag.

    source_rate: of the log, Hz. Warns over one sample of the log.
    Claims: torque-lag over five samples, 95 % interval included.
    """
    # A long lag is no small change of the torque, which is all that the residuals of a fit can show.
    long = find_long_lag(evidence)
    if abs(long) * source_rate > DOUBT_SAMPLES:
        half = 0.5 / evidence.residuals.rate
        report(evidence, lag_notice(long, half, source_rate, " on every joint"), diagnostics)
        return long
    delay = find_delay(evidence)
    if delay is None or not delay.believable:
        return 0.0
    if abs(delay.seconds) * source_rate <= WARN_SAMPLES:
        return 0.0
    notice = lag_notice(delay.seconds, 2.0 * delay.std, source_rate, " on every joint")
    report(evidence, notice, diagnostics)
    return delay.seconds


def find_long_lag(evidence: ResidualAnalysis) -> float:
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
