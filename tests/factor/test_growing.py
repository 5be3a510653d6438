"""Blocks that come piece by piece are as if they had come whole."""

from itertools import pairwise

import numpy as np
import pytest

from dynid.factor import Factor
from dynid.factor import blocking as growing
from dynid.factor.blocking import Cut, GrowingBlocks

COLUMNS = (np.array([0, 2, 5]), np.array([1, 4]))
# Of pieces of a panel; those of one or two equations wait, the largest do not.
SIZES = (1, 700, 3, 40, 255, 1, 2000, 7, 0, 90)


def pieces(seed: int) -> list[tuple[np.ndarray, ...]]:
    """Panels of every group, a piece of each size, as parts of one array."""
    rng = np.random.default_rng(seed)
    edges = np.cumsum([0, *SIZES])
    whole = [rng.normal(size=(len(own) + 1, edges[-1])) for own in COLUMNS]
    return [tuple(one[:, a:b] for one in whole) for a, b in pairwise(edges)]


def cut(
    segment: int, k: int, numbers: tuple[int, ...] = (0,), stretches: list[np.ndarray] | None = None
) -> Cut:
    """The k-th pieces of some blocks."""
    own = stretches or [np.array([[float(k), k + 1.0]])] * len(numbers)
    ends = tuple(float(one[-1, -1]) for one in own)
    return Cut("log", segment, numbers, (), np.zeros(0, int), own, ends, 1.0, None, stretches is not None)


def take(found: GrowingBlocks, own: Cut, k: int, *panels: tuple[np.ndarray, ...]) -> None:
    """Hands over pieces of a block each, with motion 1 and k."""
    edges = [np.cumsum([0, *(one[g].shape[1] for one in panels)]) for g in range(len(COLUMNS))]
    joined = [np.hstack([one[g] for one in panels]) for g in range(len(COLUMNS))]
    found.take(own, np.array([[1.0], [k]]) * np.ones(len(panels)), COLUMNS, joined, edges)
    for one in joined:
        one[:] = np.nan  # memory that the next batch is written to


@pytest.mark.parametrize("most", [0, 3000, growing.WAITING])
def test_equations_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(growing, "WAITING", most)
    found = GrowingBlocks()
    given = {0: pieces(1), 7: pieces(2)}
    for k in range(len(SIZES)):
        take(found, cut(3, k, tuple(given)), k, *(panels[k] for panels in given.values()))
    for made, panels in zip(found.whole(), given.values(), strict=True):
        assert (made.segment, made.start, made.end) == (3, 0.0, len(SIZES))
        np.testing.assert_allclose(made.motion, [len(SIZES), sum(range(len(SIZES)))])
        for g, columns in enumerate(COLUMNS):
            wanted = Factor.from_panel(columns, np.hstack([one[g] for one in panels]))
            own = made.groups[g]
            np.testing.assert_array_equal(own.columns, columns)
            np.testing.assert_allclose(own.R, wanted.R, rtol=1e-10, atol=1e-10)
            np.testing.assert_allclose(own.sums, wanted.sums, rtol=1e-10, atol=1e-10)
            assert own.count == wanted.count == sum(SIZES)
            assert own.target_abs == pytest.approx(wanted.target_abs, rel=1e-12)


def test_blocks_of_other_segments_are_others_and_empty_ones_are_empty() -> None:
    found = GrowingBlocks()
    nothing = tuple(np.zeros((len(own) + 1, 0)) for own in COLUMNS)
    take(found, cut(1, 0), 0, nothing)
    take(found, cut(2, 0), 0, pieces(1)[1])
    first, second = found.whole()
    assert [factor.count for factor in first.groups] == [0, 0]
    assert [factor.count for factor in second.groups] == [700, 700]


def test_a_stretch_that_two_pieces_share_is_one() -> None:
    found, panels = GrowingBlocks(), pieces(1)
    take(found, cut(0, 0, stretches=[np.array([[0.0, 1.0], [5.0, 5.5]])]), 0, panels[0])
    take(found, cut(0, 5, stretches=[np.array([[5.0, 6.0], [10.0, 11.0]])]), 5, panels[1])
    (made,) = found.whole()
    np.testing.assert_array_equal(made.stretches, [[0.0, 1.0], [5.0, 6.0], [10.0, 11.0]])
