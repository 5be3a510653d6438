"""Blocks that come piece by piece are as if they had come whole."""

from itertools import pairwise

import numpy as np
import pytest

from dynid.factor import growing
from dynid.factor.factor import Block, Factor
from dynid.factor.growing import GrowingBlocks

COLUMNS = (np.array([0, 2, 5]), np.array([1, 4]))
# Of pieces of a panel; those of one or two equations wait, the largest do not.
SIZES = (1, 700, 3, 40, 255, 1, 2000, 7, 0, 90)


def pieces(seed: int) -> list[tuple[np.ndarray, ...]]:
    """Panels of every group, a piece of each size, as parts of one array."""
    rng = np.random.default_rng(seed)
    edges = np.cumsum([0, *SIZES])
    whole = [rng.normal(size=(len(own) + 1, edges[-1])) for own in COLUMNS]
    return [tuple(one[:, a:b] for one in whole) for a, b in pairwise(edges)]


def block(segment: int, k: int, **more: object) -> Block:
    """The k-th piece of a block, without equations."""
    return Block("log", segment, float(k), k + 1.0, (), motion=np.array([1.0, k]), **more)


@pytest.mark.parametrize("most", [0, 3000, growing.WAITING])
def test_equations_are_those_of_the_whole(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(growing, "WAITING", most)
    found = GrowingBlocks()
    given = {0: pieces(1), 7: pieces(2)}
    for k in range(len(SIZES)):
        for number, panels in given.items():
            found.take(number, block(3, k), COLUMNS, panels[k])
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


def test_pieces_are_not_kept_with_the_panel_that_they_are_of() -> None:
    found, panels = GrowingBlocks(), pieces(1)[3]
    found.take(0, block(0, 0), COLUMNS, panels)
    before = [one.copy() for one in panels]
    for one in panels:
        one[:] = np.nan  # memory that the next batch is written to
    (made,) = found.whole()
    for g, one in enumerate(before):
        np.testing.assert_allclose(made.groups[g].R, Factor.from_panel(COLUMNS[g], one).R)


def test_blocks_of_other_segments_are_others_and_empty_ones_are_empty() -> None:
    found = GrowingBlocks()
    nothing = tuple(np.zeros((len(own) + 1, 0)) for own in COLUMNS)
    found.take(0, block(1, 0), COLUMNS, nothing)
    found.take(0, block(2, 0), COLUMNS, pieces(1)[1])
    first, second = found.whole()
    assert [factor.count for factor in first.groups] == [0, 0]
    assert [factor.count for factor in second.groups] == [700, 700]


def test_a_stretch_that_two_pieces_share_is_one() -> None:
    found, panels = GrowingBlocks(), pieces(1)
    found.take(0, block(0, 0, stretches=np.array([[0.0, 1.0], [5.0, 5.5]])), COLUMNS, panels[0])
    found.take(0, block(0, 5, stretches=np.array([[5.0, 6.0], [10.0, 11.0]])), COLUMNS, panels[1])
    (made,) = found.whole()
    np.testing.assert_array_equal(made.stretches, [[0.0, 1.0], [5.0, 6.0], [10.0, 11.0]])
