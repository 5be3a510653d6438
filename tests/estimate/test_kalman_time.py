"""Filters over logs that are too long for them: a message with an estimate, before any time is spent."""

from __future__ import annotations

import pytest

from dynid.base.errors import UsageError
from dynid.estimate import CDKF, EKF, UKF
from dynid.estimate.kalman_fit import KalmanFit
from dynid.testing import measured_regression


@pytest.mark.parametrize("method", [EKF, UKF, CDKF])
def test_a_log_that_would_take_too_long_is_refused_with_an_estimate(method: type[KalmanFit]) -> None:
    regression = measured_regression(1, seconds=4.0).regression
    with pytest.raises(
        UsageError, match=r"steps of \d+ points each, in up to 8 passes: about .* min"
    ) as refused:
        method(longest=1e-3).fit(regression)
    assert refused.value.exit_code == 2
    assert "part = [0.0, 0.0" in str(refused.value)
