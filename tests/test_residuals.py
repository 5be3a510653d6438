"""How residuals remember: against the sums written out, and against a process whose memory is known."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.estimate import autocorrelation, rows_alike


@pytest.mark.parametrize("most", [None, 5])
def test_autocorrelation_is_the_sum_over_parts(most: int | None) -> None:
    rng = np.random.default_rng(0)
    parts = [rng.normal(1.0, 2.0, size) for size in (40, 7, 23)]
    mean = np.concatenate(parts).mean()
    lags = 20 if most is None else most
    total = [
        sum(float(np.sum((p[: len(p) - k] - mean) * (p[k:] - mean))) for p in parts if len(p) > k)
        for k in range(lags + 1)
    ]
    np.testing.assert_allclose(autocorrelation(parts, most), np.array(total) / total[0], atol=1e-12)
    assert np.isnan(autocorrelation([np.ones(9)])).all()


def test_rows_alike_of_a_process_with_known_memory() -> None:
    """x_t = rho x_{t-1} + e_t has the variance of a mean (1 + rho) / (1 - rho) times that of independent rows."""
    rho = 0.8
    assert rows_alike(rho ** np.arange(200.0)) == pytest.approx((1 + rho) / (1 - rho))
    assert rows_alike(np.array([1.0, -0.2, 0.3])) == 1.0
