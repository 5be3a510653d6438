"""Sensors: lattices, noise statistics, seeds."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.errors import UsageError
from dynid.simulate.sensors import Encoder, TorqueSensor

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
