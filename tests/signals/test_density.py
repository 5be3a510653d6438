"""Spectral densities averaged over stretches."""

from __future__ import annotations

import numpy as np

from dynid.signals import averaged_density


def test_white_noise_is_flat_and_its_power_comes_back() -> None:
    rng = np.random.default_rng(0)
    parts = [2.0 * rng.normal(size=(3, count)) for count in (40_000, 10_000)]
    frequency, density = averaged_density(parts, 200.0, 256)
    assert frequency[-1] == 100.0
    # One-sided: variance over half the rate.
    np.testing.assert_allclose(density[:, 2:-2].mean(axis=1), 4.0 / 100.0, rtol=0.02)
    np.testing.assert_allclose(density[:, 2:-2], 4.0 / 100.0, rtol=0.4)


def test_stretches_count_by_their_length() -> None:
    rng = np.random.default_rng(1)
    quiet, loud = rng.normal(size=3000), 3.0 * rng.normal(size=1000)
    alone = [averaged_density([part], 1.0, 64)[1] for part in (quiet, loud)]
    together = averaged_density([quiet, loud], 1.0, 64)[1]
    np.testing.assert_allclose(together, 0.75 * alone[0] + 0.25 * alone[1], rtol=1e-12)
