"""How many rows of filtered noise carry what one independent row does."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from dynid.estimate import noise_rows_a_sample


@pytest.mark.parametrize("order", [1, 2, 4, 8])
@pytest.mark.parametrize(("rate", "cutoff"), [(1000.0, 8.0), (100.0, 20.0)])
def test_white_noise_behind_a_low_pass_is_that_of_its_band(rate: float, cutoff: float, order: int) -> None:
    """As many as the band of the noise, of a filter run there and back, is narrower than half the rate."""
    band = cutoff * quad(lambda f: (1.0 + f ** (2 * order)) ** -2, 0.0, np.inf)[0]
    assert noise_rows_a_sample(rate, cutoff, order) == pytest.approx(rate / (2.0 * band), rel=1e-6)


def test_noise_that_no_filter_narrows_has_a_row_a_row() -> None:
    assert noise_rows_a_sample(100.0, 80.0, 4) == 1.0
