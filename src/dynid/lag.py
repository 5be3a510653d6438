"""Does the torque lag behind the motion? A second clock or a filter in the drive shows in the residuals."""

from __future__ import annotations

import numpy as np

from dynid.diagnostics import Diagnostics
from dynid.errors import UnfitDataError
from dynid.identification import Residuals

WARN_SAMPLES, STOP_SAMPLES = 1.0, 5.0
EXPLAINED = 0.1


def check_lag(residuals: Residuals, source_rate: float, diagnostics: Diagnostics) -> float:
    """Estimates by how many seconds the measured torque lags behind the predicted one; 0 when nothing speaks for a lag.

    A torque that is late by d leaves the residual e = -d dtau/dt, so d = -sum e dtau / sum dtau^2 for every joint.
    A lag is believed only if every joint shows one and it explains over 10 % of the residuals of the middle joint:
    friction that the model lacks also follows dtau/dt, but not on all joints alike.

    residuals: of the fit.    source_rate: of the log, Hz. Warns over one sample of the log.
    Raises UnfitDataError over five samples.
    """
    measured = residuals.measured
    step = np.diff(residuals.t, prepend=-np.inf) < 1.5 / residuals.rate
    inside = step & np.append(step[1:], False)
    slope = (
        np.gradient(residuals.predicted, axis=0) * residuals.rate
        if len(measured) > 2
        else np.zeros_like(measured)
    )
    e, d = residuals.error[inside], slope[inside]
    product, square, total = (e * d).sum(axis=0), (d * d).sum(axis=0), (e * e).sum(axis=0)
    if len(e) == 0 or not (square > 0).all() or not (total > 0).all():
        return 0.0
    lags, explained = -product / square, product**2 / (square * total)
    lag = float(np.median(lags))
    if lags.min() <= 0 or np.median(explained) < EXPLAINED or lag * source_rate <= WARN_SAMPLES:
        return 0.0
    samples = f"{1e3 * lag:.2g} ms ({lag * source_rate:.2g} samples)"
    found = f"torque that lags behind the motion by about {samples} on every joint"
    if lag * source_rate > STOP_SAMPLES:
        raise UnfitDataError(
            "torque-lag",
            found=found,
            expected="motion and torque on one clock",
            do="align the effort channel in time (receive time against header time, filter of the drive)",
        )
    diagnostics.warn("torque-lag", found)
    return lag
