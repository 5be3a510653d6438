"""Laws of the filters: no phase, gain |H|^2, linear, the same from any window that overlaps by the settling length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.signal import butter, sosfiltfilt

from dynid.base import UsageError
from dynid.kernel import backend, using
from dynid.signals import ParallelFilter, Samples, at_times, first_difference, is_uniform
from dynid.signals.filter import ZeroPhase, bracketed, second_difference, sensible_rate

RATE = 200.0
BACKENDS = ["numpy", "native"] if backend().startswith("native") else ["numpy"]
cutoffs = st.floats(1.0, 60.0)
orders = st.integers(1, 8)


def sines(frequency: float, count: int, rate: float = RATE) -> np.ndarray:
    t = np.arange(count) / rate
    return np.stack([np.cos(2 * np.pi * frequency * t), np.sin(2 * np.pi * frequency * t)])


@given(cutoff=cutoffs, order=orders, frequency=st.floats(0.1, 90.0))
@settings(max_examples=60, deadline=None)
def test_gain_is_the_square_of_one_pass_and_phase_is_zero(
    cutoff: float, order: int, frequency: float
) -> None:
    smooth = ZeroPhase(cutoff, order, RATE)
    count = 2 * smooth.settling + 401
    x = sines(frequency, count)
    middle = slice(smooth.settling, count - smooth.settling)
    gain = float(smooth.gain(np.array([frequency]))[0])
    # The ends are reflected, so their error dies out over the settling length.
    np.testing.assert_allclose(smooth(x)[:, middle], gain * x[:, middle], atol=1e-10)


@given(cutoff=cutoffs, order=orders)
@settings(max_examples=30, deadline=None)
def test_gain_at_the_cutoff_is_a_half_and_falls(cutoff: float, order: int) -> None:
    smooth = ZeroPhase(cutoff, order, RATE)
    assert smooth.gain(np.array([cutoff]))[0] == pytest.approx(0.5, rel=1e-9)
    assert smooth.gain(np.array([1e-9]))[0] == pytest.approx(1.0, rel=1e-9)
    assert (np.diff(smooth.gain(np.linspace(0, 0.499 * RATE, 50))) <= 1e-12).all()


@pytest.mark.parametrize("name", BACKENDS)
@pytest.mark.parametrize("order", [1, 2, 3, 4, 6, 8])
def test_equals_scipy(name: str, order: int) -> None:
    x = np.random.default_rng(order).normal(size=(3, 2000))
    smooth = ZeroPhase(7.0, order, RATE)
    sections = butter(order, 7.0, fs=RATE, output="sos")
    wanted = sosfiltfilt(sections, x, axis=1, padlen=min(smooth.settling, 1999))
    with using(name):
        np.testing.assert_allclose(smooth(x), wanted, atol=1e-10)
        np.testing.assert_allclose(smooth(x, 3, 7), wanted[:, 3::7], atol=1e-10)


def test_constants_and_ramps_pass() -> None:
    line = np.stack([np.full(700, 3.0), np.arange(700) / RATE])
    np.testing.assert_allclose(ZeroPhase(5.0, 4, RATE)(line), line, atol=1e-9)


@given(cutoff=st.floats(2.0, 60.0), order=orders)
@settings(max_examples=30, deadline=None)
def test_impulse_response_has_died_after_the_settling_length(cutoff: float, order: int) -> None:
    smooth = ZeroPhase(cutoff, order, RATE)
    pulse = np.zeros((1, 4 * smooth.settling + 1))
    pulse[0, 2 * smooth.settling] = 1.0
    response = smooth(pulse)[0]
    far = np.abs(np.arange(len(response)) - 2 * smooth.settling) > smooth.settling
    assert np.abs(response[far]).max() < 1e-11 * np.abs(response).max()


@given(a=st.integers(0, 3000), length=st.integers(1, 800), cutoff=st.floats(3.0, 60.0))
@settings(max_examples=40, deadline=None)
def test_a_window_with_its_overlap_equals_the_whole(a: int, length: int, cutoff: float) -> None:
    smooth = ZeroPhase(cutoff, 4, RATE)
    x = np.cumsum(np.random.default_rng(1).normal(size=(2, 4000)), axis=1)
    b = min(a + length, 4000)
    low, high = max(a - smooth.settling, 0), min(b + smooth.settling, 4000)
    window = smooth(x[:, low:high])[:, a - low : b - low]
    np.testing.assert_allclose(window, smooth(x)[:, a:b], atol=1e-9 * np.abs(x).max())


def test_short_lines_and_impossible_cutoffs() -> None:
    smooth = ZeroPhase(5.0, 4, RATE)
    for count in (0, 1, 2, 5):
        assert smooth(np.ones((2, count))).shape == (2, count)
        np.testing.assert_allclose(smooth(np.ones((2, count))), 1.0)
    for cutoff in (0.0, -1.0, 100.0, float("nan")):
        with pytest.raises(UsageError, match="below 100 Hz"):
            ZeroPhase(cutoff, 4, RATE)


# Differences.


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6), st.floats(20.0, 2000.0))
@settings(max_examples=50, deadline=None)
def test_differences_are_exact_for_polynomials(c: list[float], rate: float) -> None:
    t = np.arange(40) / rate * 20
    scale = rate / 20
    fourth, fifth = np.polynomial.Polynomial(c[:5]), np.polynomial.Polynomial(c)
    inner = slice(2, -2)
    np.testing.assert_allclose(
        first_difference(fourth(t), scale)[inner], fourth.deriv()(t)[inner], atol=1e-9 * (1 + scale)
    )
    np.testing.assert_allclose(
        second_difference(fifth(t), scale)[inner],
        fifth.deriv(2)(t)[inner],
        atol=1e-7 * (1 + scale**2),
        rtol=1e-7,
    )


@pytest.mark.parametrize("frequency", [1.0, 5.0, 20.0])
def test_differences_lose_what_is_said(frequency: float) -> None:
    x = sines(frequency, 400)[0]
    w, h = 2 * np.pi * frequency, 1 / RATE
    first = np.abs(first_difference(x, RATE)[2:-2]).max() / np.abs(w * sines(frequency, 400)[1][2:-2]).max()
    assert 1 - first == pytest.approx((w * h) ** 4 / 30, rel=0.3, abs=1e-9)
    far = np.abs(x[2:-2]) > 0.1
    second = second_difference(x, RATE)[2:-2][far] / (-(w**2) * x[2:-2][far])
    np.testing.assert_allclose(second, second.mean(), rtol=1e-6)
    assert 1 - second.mean() == pytest.approx((w * h) ** 4 / 90, rel=0.3, abs=1e-9)


def test_differences_at_chosen_samples_and_ends() -> None:
    x = np.random.default_rng(0).normal(size=(2, 30))
    index = np.array([0, 1, 2, 15, 27, 29])
    for difference in (first_difference, second_difference):
        whole = difference(x, RATE)
        np.testing.assert_array_equal(difference(x, RATE, index), whole[:, index])
        np.testing.assert_array_equal(whole[:, [0, 1, 28, 29]], whole[:, [2, 2, 27, 27]])
        with pytest.raises(UsageError, match="4 samples"):
            difference(x[:, :4], RATE)


def test_filtering_and_differentiating_commute() -> None:
    x = np.cumsum(np.random.default_rng(3).normal(size=(1, 3000)), axis=1)
    smooth = ZeroPhase(10.0, 4, RATE)
    a, b = smooth(first_difference(x, RATE)), first_difference(smooth(x), RATE)
    middle = slice(smooth.settling + 4, -smooth.settling - 4)
    np.testing.assert_allclose(a[:, middle], b[:, middle], atol=1e-8)


# Uniform grids.


def jittered(count: int, seed: int = 0) -> np.ndarray:
    """Stamps like a real controller's: 0.7 to 8.8 ms apart, some samples lost."""
    rng = np.random.default_rng(seed)
    steps = 1e-3 * rng.choice([0.8, 1.0, 1.2, 2.0, 8.0], p=[0.1, 0.75, 0.1, 0.04, 0.01], size=count)
    return np.cumsum(steps)


@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(0, 50))
@settings(max_examples=30, deadline=None)
def test_lines_are_resampled_exactly(a: float, b: float, seed: int) -> None:
    t = jittered(300, seed)
    grid = np.arange(t[0], t[-1], 1e-3)
    np.testing.assert_allclose(at_times(t, (a + b * t)[None], grid)[0], a + b * grid, atol=1e-11)


def test_resampling_goes_through_its_points_without_overshoot() -> None:
    t = jittered(500)
    x = np.random.default_rng(1).normal(size=(2, 500))
    np.testing.assert_allclose(at_times(t, x, t), x, atol=1e-12)
    fine = at_times(t, x, np.linspace(t[0], t[-1], 20_000))
    assert fine.max() <= x.max() + 1e-12
    assert fine.min() >= x.min() - 1e-12


def test_resampling_of_a_motion_is_far_better_than_counting_rows() -> None:
    t = jittered(5000)
    motion = lambda at: np.sin(2 * np.pi * 1.5 * at)[None]
    grid = np.arange(t[0], t[-1], 1e-3)
    error = np.abs(at_times(t, motion(t), grid) - motion(grid)).max()
    by_count = np.abs(motion(t) - motion(t[0] + np.arange(len(t)) * 1e-3)).max()
    assert error < 4e-4
    assert by_count > 1000 * error


def test_grid_points_in_holes_are_known() -> None:
    t = np.array([0.0, 1.0, 2.0, 7.0, 8.0])
    grid = np.arange(9.0)
    assert bracketed(t, grid, 1.5).tolist() == [True, True, True, False, False, False, False, False, True]
    assert bracketed(t, grid, 5.5).all()


@pytest.mark.parametrize(
    ("step", "rate"),
    [
        (1e-3, 1000.0),
        (1.0003e-3, 1000.0),
        (1 / 500.4, 500.0),
        (1 / 62.5, 62.5),
        (1 / 0.4, 0.4),
        (8e-3, 125.0),
    ],
)
def test_rates_near_whole_numbers_are_whole(step: float, rate: float) -> None:
    assert sensible_rate(step) == pytest.approx(rate)


def test_uniform_is_within_two_percent_of_a_step() -> None:
    t = 1.7e9 + np.arange(10_000) / 1000.0
    assert is_uniform(t, 1000.0)
    assert is_uniform(np.round(t, 6), 1000.0)
    assert not is_uniform(np.arange(10_000) / 1000.01, 1000.0)
    assert not is_uniform(jittered(100), 1000.0)


# The parallel filter.


def segment(T: int, first: int = 0, keep: np.ndarray | None = None) -> Samples:
    zero = np.zeros((T, 1))
    return Samples(
        t=(first + np.arange(T)) / RATE, q=zero, dq=zero, ddq=zero, tau=zero,
        keep=np.ones(T, dtype=np.bool_) if keep is None else keep, rate=RATE, segment=0, trajectory="a", first=first,
    )  # fmt: skip


@given(seed=st.integers(0, 100), decimation=st.integers(1, 9), columns=st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_filtered_regressor_times_parameters_is_filtered_torque(
    seed: int, decimation: int, columns: int
) -> None:
    rng = np.random.default_rng(seed)
    Y, theta = rng.normal(size=(columns, 600)), rng.normal(size=columns)
    samples = segment(600, keep=rng.uniform(size=600) > 0.1)
    parallel = ParallelFilter(RATE, 8.0, 4, decimation)
    filtered, times = parallel.apply(Y, samples)
    torque, same = parallel.apply((theta @ Y)[None], samples)
    np.testing.assert_allclose(theta @ filtered, torque[0], atol=1e-11 * np.abs(theta).sum())
    np.testing.assert_array_equal(times, same)


def test_without_a_cutoff_only_the_grid_remains() -> None:
    x = np.random.default_rng(0).normal(size=(3, 100))
    values, times = ParallelFilter(RATE, None, 4, 4).apply(x, segment(100, first=2))
    np.testing.assert_array_equal(values, x[:, 2::4])
    np.testing.assert_array_equal(times, np.arange(4, 102, 4) / RATE)


@given(cut=st.integers(200, 1800), decimation=st.integers(1, 12))
@settings(max_examples=30, deadline=None)
def test_the_grid_does_not_know_of_chunks(cut: int, decimation: int) -> None:
    x = np.cumsum(np.random.default_rng(2).normal(size=(2, 2000)), axis=1)
    parallel = ParallelFilter(RATE, 8.0, 4, decimation)
    whole, times = parallel.apply(x, segment(2000))
    parts = []
    for a, b in ((0, cut), (cut, 2000)):
        low, high = max(a - parallel.settling, 0), min(b + parallel.settling, 2000)
        index = np.arange(low, high)
        parts.append(parallel.apply(x[:, low:high], segment(high - low, low, (index >= a) & (index < b))))
    np.testing.assert_array_equal(np.concatenate([t for _, t in parts]), times)
    np.testing.assert_allclose(
        np.concatenate([y for y, _ in parts], axis=1), whole, atol=1e-9 * np.abs(x).max()
    )
