"""Sensors: lattices, noise statistics, seeds."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import UsageError
from dynid.simulation import (
    Chain,
    Dropout,
    Encoder,
    Gain,
    Latency,
    Noise,
    NoiseRatio,
    Ripple,
    TorqueSensor,
    warming,
)

RESOLUTION = np.array([1e-4, 3e-4])


def test_encoder_values_lie_on_its_lattice_within_half_a_count() -> None:
    rng = np.random.default_rng(0)
    true = rng.uniform(-3, 3, (1000, 2))
    measured = Encoder(RESOLUTION).measure(true, rng)
    counts = measured / RESOLUTION
    np.testing.assert_allclose(counts, np.round(counts), atol=1e-9)
    assert (np.abs(measured - true) <= 0.5 * RESOLUTION * (1 + 1e-9)).all()
    np.testing.assert_array_equal(Encoder(RESOLUTION).measure(measured, rng), measured)


def test_resolution_zero_is_an_ideal_encoder() -> None:
    true = np.random.default_rng(0).normal(size=(10, 2))
    np.testing.assert_array_equal(Encoder(np.zeros(1)).measure(true, np.random.default_rng(0)), true)


def test_torque_noise_has_the_stated_deviation() -> None:
    sensor = TorqueSensor(np.array([0.5, 2.0]), np.array([0.0, 0.01]))
    error = sensor.measure(np.zeros((200_000, 2)), np.random.default_rng(1))
    np.testing.assert_allclose(error.mean(axis=0), [0.0, 0.0], atol=5 * 2.0 / np.sqrt(200_000))
    np.testing.assert_allclose(error.std(axis=0), [0.5, 2.0], rtol=0.01)


def test_one_seed_one_measurement() -> None:
    sensor, true = TorqueSensor(np.ones(1), np.zeros(1)), np.zeros((5, 2))
    one, again, other = (sensor.measure(true, np.random.default_rng(seed)) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one, again)
    assert (one != other).all()


def test_nonsense_is_refused() -> None:
    with pytest.raises(UsageError, match="resolution"):
        Encoder(np.array([-1.0]))
    with pytest.raises(UsageError, match="noise_std"):
        TorqueSensor(np.array([np.nan]), np.zeros(1))


def test_noise_ratio_is_in_decibel_of_power() -> None:
    t = np.linspace(0, 100, 200_001)
    true = np.stack([3.0 * np.sin(t), np.full_like(t, 2.0)], axis=1)
    error = NoiseRatio(np.array([20.0, 40.0])).measure(true, np.random.default_rng(0)) - true
    ratio = 10 * np.log10((true**2).mean(axis=0) / (error**2).mean(axis=0))
    np.testing.assert_allclose(ratio, [20.0, 40.0], atol=0.05)


def test_ripple_has_its_amplitude_and_cycles() -> None:
    position = np.linspace(0, 2 * np.pi, 1001)[:, None]
    ripple = Ripple(position, np.array([0.5]), np.array([3.0]), 0.1)
    np.testing.assert_allclose(
        ripple.measure(np.ones((1001, 1)), np.random.default_rng(0)), 1 + 0.5 * np.sin(3 * position + 0.1)
    )


def test_a_gain_makes_current_of_torque() -> None:
    current = Gain(np.array([2.0, 4.0])).measure(np.array([[2.0, 2.0]]), np.random.default_rng(0))
    np.testing.assert_array_equal(current, [[1.0, 0.5]])


@pytest.mark.parametrize("delay", [0.003, 0.0034])
def test_latency_shows_the_past(delay: float) -> None:
    t = np.arange(2000) / 1000.0
    late = Latency(delay, 1000.0).measure(np.sin(9 * t)[:, None], np.random.default_rng(0))
    np.testing.assert_allclose(late[10:, 0], np.sin(9 * (t - delay))[10:], atol=1e-7)
    np.testing.assert_array_equal(late[:3], 0.0)


def test_dropouts_are_missing_or_held() -> None:
    true = np.arange(20_000.0)[:, None] * np.ones(2)
    lost = np.isnan(Dropout(0.2).measure(true, np.random.default_rng(3)))
    assert lost.mean() == pytest.approx(0.2, abs=0.01)
    held = Dropout(0.2, held=True).measure(true, np.random.default_rng(3))
    np.testing.assert_array_equal(held[~lost], true[~lost])
    assert (np.diff(held, axis=0) >= 0).all()
    np.testing.assert_array_equal(held != true, lost)


def test_drives_warm_up_to_what_their_loss_sustains() -> None:
    T = warming(np.full((4001, 1), 20.0), 10.0, 25.0, np.array([0.5]), 60.0)
    t = np.arange(4001)[:, None] / 10.0
    np.testing.assert_allclose(T, 25 + 10 * (1 - np.exp(-t / 60)), atol=1e-9)
    cooling = warming(np.zeros((4001, 1)), 10.0, 25.0, np.array([0.5]), 60.0, start=45.0)
    np.testing.assert_allclose(cooling, 25 + 20 * np.exp(-t / 60), atol=1e-9)


def test_sensors_make_a_chain_and_leave_the_truth_alone() -> None:
    true = np.random.default_rng(0).normal(size=(100, 2))
    before = true.copy()
    chain = Chain((Noise(np.array([0.1])), Encoder(np.array([0.01]))))
    rng = np.random.default_rng(5)
    step_by_step = Encoder(np.array([0.01])).measure(Noise(np.array([0.1])).measure(true, rng), rng)
    np.testing.assert_array_equal(chain.measure(true, np.random.default_rng(5)), step_by_step)
    np.testing.assert_array_equal(true, before)
    nothing = Chain(()).measure(true, rng)
    np.testing.assert_array_equal(nothing, true)
    assert nothing is not true


def test_more_nonsense_is_refused() -> None:
    for bad in (
        lambda: Noise(np.array([-1.0])),
        lambda: NoiseRatio(np.array([np.nan])),
        lambda: Gain(np.zeros(1)),
        lambda: Latency(-1.0, 100.0),
        lambda: Dropout(1.0),
        lambda: warming(np.zeros((2, 1)), 10.0, 25.0, np.ones(1), 0.0),
    ):
        with pytest.raises(UsageError, match="sensor"):
            bad()
