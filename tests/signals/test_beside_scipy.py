"""Filters, densities, interpolation, distributions and eigenvalues, which start without SciPy, are those of SciPy."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.interpolate import PchipInterpolator
from scipy.linalg import eigh
from scipy.signal import butter, csd, sosfilt_zi, sosfreqz, welch
from scipy.special import chdtrc, fdtrc, gammaincc, ndtri, stdtr, stdtrit

from dynid.base import (
    chi_squared_tail,
    f_tail,
    gamma_tail,
    generalised_eigenvalues,
    normal_quantile,
    student_cumulative,
    student_quantile,
)
from dynid.signals import at_times
from dynid.signals.filter import ZeroPhase, density, pair_density

LINES = np.random.default_rng(0).normal(size=(2, 3, 1001))


@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, 8])
@pytest.mark.parametrize("cutoff", [0.3, 20.0, 200.0, 449.0])
def test_butterworth(order: int, cutoff: float) -> None:
    own, other = ZeroPhase(cutoff, order, 1000.0), butter(order, cutoff, fs=1000.0, output="sos")
    frequency = np.linspace(0.0, 500.0, 41)
    response = sosfreqz(other, worN=frequency, fs=1000.0)[1]
    assert_allclose(own.gain(frequency), np.abs(response) ** 2, rtol=1e-7, atol=1e-12)
    assert_allclose(own.settled, sosfilt_zi(own.sections), rtol=1e-6, atol=1e-9)
    # Of odd orders the sections stand in another order; at 0.3 Hz rounded poles fix the gain at rest to 1e-10.
    if order % 2 == 0:
        assert_allclose(own.sections, other, rtol=1e-9)


@pytest.mark.parametrize("window", [7, 64, 65, 512, 1001])
def test_densities(window: int) -> None:
    for way in ("constant", "linear"):
        frequency, power = density(LINES, 100.0, window, way)  # type: ignore[arg-type]
        expected = welch(LINES, fs=100.0, nperseg=window, detrend=way)
        assert_allclose(frequency, expected[0], rtol=1e-14)
        assert_allclose(power, expected[1], rtol=1e-10, atol=1e-15)
    _, *found = pair_density(LINES[0], LINES[1], 100.0, window)
    for density_found, (x, y) in zip(found, ((0, 0), (1, 1), (0, 1)), strict=True):
        expected = csd(LINES[x], LINES[y], fs=100.0, nperseg=window)
        assert_allclose(density_found, expected[1], rtol=1e-9, atol=1e-14)


def test_long_lines_are_transformed_in_batches() -> None:
    lines = np.random.default_rng(1).normal(size=(2, 300_000))
    assert_allclose(density(lines, 1.0, 128)[1], welch(lines, nperseg=128)[1], rtol=1e-9)


def test_monotone_interpolation() -> None:
    rng = np.random.default_rng(2)
    t = np.cumsum(rng.uniform(0.5, 1.5, 300))
    lines = rng.normal(size=(4, 300))
    lines[0, 100:120], lines[1], lines[2] = 0.0, np.round(lines[1]), np.cumsum(np.abs(lines[2]))
    lines[3] *= 5e-324
    grid = np.sort(rng.uniform(t[0] - 1.0, t[-1] + 1.0, 2000))
    with np.errstate(all="ignore"):
        expected = PchipInterpolator(t, lines, axis=1)(grid)
    assert_allclose(at_times(t, lines, grid), expected, rtol=1e-11, atol=1e-12)
    few = at_times(t[:2], lines[:, :2], t[:2])
    assert_allclose(few, lines[:, :2], rtol=1e-12)


def test_students_t() -> None:
    for freedom in (1.0, 1.5, 2.0, 3.0, 4.0, 7.3, 30.0, 100.0, 2999.0, 3001.0, 1e5, 1e9):
        for probability in (0.025, 0.5, 0.6, 0.9, 0.975, 0.995, 0.9995):
            expected = float(stdtrit(freedom, probability))
            assert student_quantile(freedom, probability) == pytest.approx(expected, rel=1e-10, abs=1e-12)
    assert np.isnan(student_quantile(0.0, 0.975))


def test_tails() -> None:
    for freedom in (1.0, 2.5, 30.0, 1e3, 1e5):
        for t in (-30.0, -2.0, -1e-3, 0.0, 0.7, 4.0):
            assert student_cumulative(freedom, t) == pytest.approx(stdtr(freedom, t), rel=1e-9, abs=1e-300)
        for above in (1, 2, 6, 20.5):
            for ratio in (0.0, 1e-3, 0.5, 1.0, 1.3, 4.0, 60.0, np.inf):
                expected = float(fdtrc(above, freedom, ratio))
                assert f_tail(above, freedom, ratio) == pytest.approx(expected, rel=1e-8, abs=1e-300)
    for a in (0.5, 1.0, 5.0, 300.0, 1e4):
        for x in (0.0, 0.1 * a, 0.9 * a, a, 1.1 * a, 1.5 * a, 1e9):
            assert gamma_tail(a, x) == pytest.approx(gammaincc(a, x), rel=1e-9, abs=1e-300)
            assert chi_squared_tail(a, x) == pytest.approx(chdtrc(a, x), rel=1e-9, abs=1e-300)
    for probability in (1e-300, 1e-12, 0.025, 0.5, 0.975):
        assert normal_quantile(probability) == pytest.approx(ndtri(probability), rel=1e-13)


@pytest.mark.parametrize("bad", [np.nan, 0.0, -1.0, np.inf])
def test_tails_of_no_degrees_of_freedom_are_no_numbers(bad: float) -> None:
    assert np.isnan(f_tail(bad, 5.0, 1.0))
    assert np.isnan(f_tail(5.0, bad, 1.0))
    assert np.isnan(f_tail(2.0, 5.0, np.nan))
    assert np.isnan(gamma_tail(2.0, np.nan))
    assert np.isnan(student_cumulative(0.0, 1.0))


@pytest.mark.parametrize("n", [1, 4, 40])
def test_eigenvalues_in_a_metric(n: int) -> None:
    rng = np.random.default_rng(n)
    a, root = rng.normal(size=(2, n, n))
    a, metric = a + a.T, root @ root.T + 0.1 * np.eye(n)
    expected = eigh(a, metric, eigvals_only=True)
    assert_allclose(
        generalised_eigenvalues(a, metric), expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
    )
    with pytest.raises(np.linalg.LinAlgError):
        generalised_eigenvalues(a, -metric)
