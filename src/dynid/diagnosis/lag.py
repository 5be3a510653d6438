"""Does the torque lag behind the motion? A second clock or a filter in the drive shows in the residuals."""

from __future__ import annotations

from dynid.base.diagnostics import Diagnostics
from dynid.diagnosis.adopted_effects import report
from dynid.diagnosis.delay import find_delay
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.terms.torque_delay import WARN_SAMPLES, lag_notice


def check_lag(evidence: ResidualAnalysis, source_rate: float, diagnostics: Diagnostics) -> float:
    """Estimates by how many seconds the measured torque lags behind the motion; 0 when nothing speaks for a lag.

    source_rate: of the log, Hz. Warns over one sample of the log.
    Claims: torque-lag over five samples, 95 % interval included.
    """
    delay = find_delay(evidence)
    if delay is None or not delay.believable or abs(delay.seconds) * source_rate <= WARN_SAMPLES:
        return 0.0
    report(lag_notice(delay.seconds, 2.0 * delay.std, source_rate, " on every joint"), diagnostics)
    return delay.seconds
