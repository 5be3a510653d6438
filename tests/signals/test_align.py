"""Rows cleaned while they stream: the result does not depend on where the chunks end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynid.recording import RawChunk, Trajectory
from dynid.signals.time_base import Piece, pieces

TURN = 2 * np.pi
ONE = Trajectory("a", Path("log.csv"), 0, 0, 0.0, 0.0)


def chunked(
    t: np.ndarray, q: np.ndarray, cuts: Sequence[int] = (), tau: np.ndarray | None = None
) -> Iterator[RawChunk]:
    edges = [0, *sorted(set(cuts)), len(t)]
    for a, b in pairwise(edges):
        yield RawChunk(ONE, a, t[a:b], q[a:b], None, None if tau is None else tau[a:b], None, None, None, {})


def cleaned(
    chunks: Iterator[RawChunk], prismatic: Sequence[bool], gap: float = 1.0, first: int = 0
) -> list[Piece]:
    """One piece a segment; of the pieces of a segment only the last is marked so."""
    found: list[Piece] = []
    for piece in pieces(chunks, prismatic, gap, first):
        if found and found[-1].segment == piece.segment:
            assert not found[-1].last
            before = found.pop()
            piece = Piece(  # noqa: PLW2901  # joined to the one before
                piece.segment,
                np.concatenate([before.t, piece.t]),
                np.concatenate([before.lines, piece.lines], axis=1),
                piece.last,
            )
        elif found:
            assert found[-1].last
            assert piece.segment == found[-1].segment + 1
        found.append(piece)
    assert not found or found[-1].last
    return found


steps = arrays(np.float64, st.tuples(st.integers(2, 60), st.just(2)), elements=st.floats(-1.5, 1.5))
cuts = st.lists(st.integers(1, 60), max_size=6)


@given(steps=steps, start=st.floats(-3, 3), cuts=cuts)
@settings(max_examples=150, deadline=None)
def test_turns_are_undone_whatever_the_chunks(steps: np.ndarray, start: float, cuts: list[int]) -> None:
    q = start + np.cumsum(steps, axis=0)
    wrapped = (q + np.pi) % TURN - np.pi
    t = np.arange(len(q)) * 0.01
    (piece,) = cleaned(chunked(t, wrapped, [c for c in cuts if c < len(q)]), (False, False))
    turns = (piece.lines - q.T) / TURN
    np.testing.assert_allclose(turns, np.round(turns[:, :1]) * np.ones(len(q)), atol=1e-9)
    np.testing.assert_allclose(piece.lines[:, 0], wrapped[0])


@given(steps=steps, cuts=cuts)
@settings(max_examples=50, deadline=None)
def test_what_never_wrapped_is_left_alone(steps: np.ndarray, cuts: list[int]) -> None:
    q = 10 * np.cumsum(steps, axis=0) * [0.1, 1.0]
    t = np.arange(len(q)) * 0.01
    (piece,) = cleaned(chunked(t, q, [c for c in cuts if c < len(q)]), (False, True))
    np.testing.assert_array_equal(piece.lines, q.T)


def test_a_jump_that_is_no_turn_stays() -> None:
    q = np.array([0.0, 0.1, 4.0, 4.1, 4.1 + 2 * TURN, 4.2 + 2 * TURN])[:, None]
    (piece,) = cleaned(chunked(np.arange(6.0) / 100, q), (False,))
    np.testing.assert_array_equal(piece.lines[0], q[:, 0])


def test_many_turns_over_many_chunks() -> None:
    t = np.arange(5000) / 100.0
    q = np.column_stack([3.0 * t, -2.0 * t])
    wrapped = (q + np.pi) % TURN - np.pi
    for size in (1, 10, 333, 5000):
        (piece,) = cleaned(chunked(t, wrapped, range(size, 5000, size)), (False, False))
        np.testing.assert_allclose(piece.lines, q.T, atol=1e-9)


@given(
    gaps=st.lists(st.integers(1, 199), max_size=5, unique=True),
    cuts=st.lists(st.integers(1, 199), max_size=5),
)
@settings(max_examples=80, deadline=None)
def test_gaps_split_whatever_the_chunks(gaps: list[int], cuts: list[int]) -> None:
    t = np.arange(200) * 0.01
    for k in gaps:
        t[k:] += 5.0
    q = np.arange(400.0).reshape(200, 2)
    found = cleaned(chunked(t, q, cuts), (True, True), gap=1.0, first=7)
    assert [piece.segment for piece in found] == list(range(7, 8 + len(gaps)))
    assert [piece.t[0] for piece in found] == [t[k] for k in sorted([0, *gaps])]
    np.testing.assert_array_equal(np.concatenate([piece.lines for piece in found], axis=1), q.T)


@given(
    bad=st.lists(st.integers(0, 99), max_size=20),
    cuts=st.lists(st.integers(1, 99), max_size=5),
    where=st.integers(0, 2),
)
@settings(max_examples=80, deadline=None)
def test_incomplete_rows_are_dropped(bad: list[int], cuts: list[int], where: int) -> None:
    t = np.arange(100) * 0.01
    q, tau = np.random.default_rng(0).normal(size=(2, 100, 2)) * 0.1
    q[bad[::2], 0] = np.nan
    tau[bad[1::2], where % 2] = np.inf
    if where == 2 and bad:
        t[bad[0]] = np.nan
    good = np.isfinite(t) & np.isfinite(q).all(axis=1) & np.isfinite(tau).all(axis=1)
    (piece,) = cleaned(chunked(t, q, cuts, tau), (False, False))
    np.testing.assert_array_equal(piece.t, t[good])
    np.testing.assert_array_equal(piece.lines, np.column_stack([q, tau])[good].T)


@given(order=st.permutations(range(20)), cuts=st.lists(st.integers(1, 19), max_size=4))
@settings(max_examples=80, deadline=None)
def test_time_always_increases(order: list[int], cuts: list[int]) -> None:
    t = np.array(order) * 0.01
    q = np.array(order)[:, None] * 0.01
    found = cleaned(chunked(t, q, cuts), (False,))
    times = np.concatenate([piece.t for piece in found])
    assert (np.diff(times) > 0).all()
    np.testing.assert_array_equal(np.concatenate([piece.lines for piece in found], axis=1)[0], times)


def test_repeated_rows_are_dropped() -> None:
    t = np.array([0.0, 0.01, 0.01, 0.02, 0.02, 0.02, 0.03])
    for cuts in ((), (2,), (1, 2, 3, 4, 5, 6)):
        (piece,) = cleaned(chunked(t, t[:, None], cuts), (False,))
        np.testing.assert_array_equal(piece.t, [0.0, 0.01, 0.02, 0.03])


@pytest.mark.parametrize("cuts", [(), (3,)])
def test_rows_that_are_all_incomplete_leave_nothing(cuts: tuple[int, ...]) -> None:
    assert cleaned(chunked(np.arange(9.0), np.full((9, 1), np.nan), cuts), (False,)) == []


def test_undoing_turns_leaves_the_chunk_as_it_was() -> None:
    t = np.arange(8) * 0.1
    block = np.empty((2, 1, 8))
    block[0], block[1] = (np.linspace(2.5, 4.5, 8) + np.pi) % TURN - np.pi, 1.0
    before = block.copy()
    chunk = RawChunk(ONE, 0, t, block[0].T, None, block[1].T, None, None, None, {})
    (piece,) = cleaned(iter([chunk]), [False])
    assert np.ptp(before[0]) > 5
    assert np.ptp(piece.lines[0]) < 2.1
    np.testing.assert_array_equal(block, before)
