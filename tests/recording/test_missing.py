"""Missing values: interpolated across short holes from the channel's own samples, whatever the chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Bool, Float
from dynid.log.clocks import longest_step
from dynid.recording import RawChunk, Trajectory, bridged, joined, pieces_of

RATE = 100.0
TRAJECTORY = Trajectory("made", Path("made"), 0, 1000, 0.0, 10.0)


def smooth(t: Float) -> Float:
    return np.column_stack([np.sin(2.0 * np.pi * 0.7 * t), 0.5 * np.cos(2.0 * np.pi * 1.1 * t)])


def chunk_of(t: Float, missing: Bool, q: Float | None = None) -> RawChunk:
    """Positions without holes and efforts with holes (T,)."""
    tau = smooth(t)
    tau[missing] = np.nan
    return RawChunk(TRAJECTORY, 0, t, smooth(t) if q is None else q, None, tau, None, None, None, {})


def filled(chunk: RawChunk, rows: int = 100_000) -> RawChunk:
    return joined(list(bridged(pieces_of(chunk, rows), longest_step)))


@pytest.fixture
def t() -> Float:
    return np.arange(1000) / RATE


def test_a_complete_channel_is_passed_on(t: Float) -> None:
    chunk = chunk_of(t, np.zeros(len(t), dtype=np.bool_))
    (same,) = bridged(iter([chunk]), longest_step)
    assert same is chunk


@pytest.mark.parametrize("rows", [100_000, 64, 7])
def test_single_values_are_interpolated(t: Float, rows: int) -> None:
    missing = np.random.default_rng(0).random(len(t)) < 0.2
    missing[[0, 1, -1, -2]] = False
    result = filled(chunk_of(t, missing), rows)
    np.testing.assert_array_equal(result.t, t)
    np.testing.assert_allclose(np.asarray(result.tau), smooth(t), atol=2e-3)
    np.testing.assert_array_equal(np.asarray(result.tau)[~missing], smooth(t)[~missing])


def test_counts_are_those_of_interpolated_values(t: Float) -> None:
    missing = np.zeros(len(t), dtype=np.bool_)
    missing[[100, 101, 500]] = True
    missing[700:720] = True
    counts = [part.bridged for part in bridged(iter([chunk_of(t, missing)]), longest_step)]
    np.testing.assert_array_equal(sum(part["tau"] for part in counts if part), [3, 3])
    assert {name for part in counts for name in part} == {"tau"}


@pytest.mark.parametrize("rows", [100_000, 50])
def test_holes_that_are_gaps_stay(t: Float, rows: int) -> None:
    missing = np.zeros(len(t), dtype=np.bool_)
    missing[300:306] = True  # 7 steps, and at most 6 are no gap
    missing[:3] = missing[-2:] = True
    np.testing.assert_array_equal(np.isnan(np.asarray(filled(chunk_of(t, missing), rows).tau)[:, 0]), missing)


@pytest.mark.parametrize("rows", [100_000, 30])
def test_a_slow_channel_has_a_value_in_each_row(t: Float, rows: int) -> None:
    missing = np.arange(len(t)) % 5 != 0
    result = filled(chunk_of(t, missing), rows)
    np.testing.assert_allclose(np.asarray(result.tau)[:996], smooth(t)[:996], atol=0.01)
    assert np.isnan(np.asarray(result.tau)[996:]).all()


def test_an_angle_that_wraps_is_interpolated_the_short_way(t: Float) -> None:
    turning = np.column_stack([2.0 * t, 3.0 * t])
    wrapped = np.angle(np.exp(1j * turning))
    q = wrapped.copy()
    q[np.random.default_rng(1).random(len(t)) < 0.1] = np.nan
    q[[0, 1, -1, -2]] = wrapped[[0, 1, -1, -2]]
    result = filled(chunk_of(t, np.zeros(len(t), dtype=np.bool_), q))
    np.testing.assert_allclose(np.exp(1j * result.q), np.exp(1j * turning), atol=1e-9)
