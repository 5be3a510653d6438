"""Does the torque lag behind the motion? A second clock or a filter in the drive shows in the residuals."""

from __future__ import annotations

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.diagnosis.adopted_effects import report
from dynid.diagnosis.delay import find_delay
from dynid.diagnosis.proof import misfit_by_shift
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.terms.torque_delay import DOUBT_SAMPLES, WARN_SAMPLES, lag_notice

# Long lags are sought up to so many seconds either way, in so many steps, where half of the joints miss more than this
# share of their torque; the mean square error has to fall by this factor.
LONGEST, SHIFTS, POOR, DECISIVE = 0.5, 60, 0.05, 4.0


def check_lag(evidence: ResidualAnalysis, source_rate: float, diagnostics: Diagnostics) -> float:
    """Estimates by how many seconds the measured torque lags behind the motion; 0 when nothing speaks for a lag.

    source_rate: of the log, Hz. Warns over one sample of the log.
    Claims: torque-lag over five samples, 95 % interval included.
    """
    delay = find_delay(evidence)
    if delay is None or not delay.believable:
        # A long lag is no small change of the torque; it is sought among shifts where the fit is poor.
        seconds = find_long_lag(evidence)
        if seconds * source_rate == 0 or abs(seconds) * source_rate <= DOUBT_SAMPLES:
            return 0.0
        half = 0.5 / evidence.residuals.rate
        report(evidence, lag_notice(seconds, half, source_rate, " on every joint"), diagnostics)
        return seconds
    if abs(delay.seconds) * source_rate <= WARN_SAMPLES:
        return 0.0
    notice = lag_notice(delay.seconds, 2.0 * delay.std, source_rate, " on every joint")
    report(evidence, notice, diagnostics)
    return delay.seconds


def find_long_lag(evidence: ResidualAnalysis) -> float:
    """The shift of the torque, s, with which the plain model fits all joints decisively better; 0 for none."""
    missed = evidence.rms[list(evidence.joints)] / np.maximum(
        evidence.torque_rms[list(evidence.joints)], 1e-300
    )
    if not evidence.enough or np.median(missed) < POOR:
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
