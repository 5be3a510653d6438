"""Factors stand for the dense equations behind them, however they are merged, cut and selected."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.factor import (
    Assembly,
    Block,
    Blocking,
    Factor,
    Factors,
    merged,
    stack,
    structural_base,
    triangle_of,
)
from dynid.factor.factor import TRACE, without_traces
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples
from dynid.terms import Offset, RigidBody, SmoothCoulomb, Terms, Viscous
from dynid.testing import factors_of, piece_of, random_robot, smooth_samples

COLUMNS = np.array([1, 2, 5, 9])
FILTER = ParallelFilter(100.0, 10.0, 4, 2)


def panel(seed: int, T: int = 50, w: int = 4) -> Float:
    return np.random.default_rng(seed).normal(0, 1, (w + 1, T))


def made(seed: int, T: int = 50) -> Factor:
    return Factor.from_panel(COLUMNS, panel(seed, T))


def assert_same(a: Factor, b: Factor, relative: float = 1e-12) -> None:
    np.testing.assert_array_equal(a.columns, b.columns)
    assert a.count == b.count
    size = np.abs(b.R).max(initial=1e-300)
    assert np.abs(a.R - b.R).max() <= relative * size
    np.testing.assert_allclose(a.sums, b.sums, rtol=relative, atol=relative * size)
    np.testing.assert_allclose(a.target_abs, b.target_abs, rtol=relative)


@pytest.mark.parametrize("T", [1, 3, 5, 200])
def test_sums_over_residuals_are_those_of_the_equations(T: int) -> None:
    one = panel(T, T)
    X, y = one[:-1].T, one[-1]
    factor = Factor.from_panel(COLUMNS, one)
    theta = np.random.default_rng(1).normal(0, 1, 10)
    e = y - X @ theta[COLUMNS]
    np.testing.assert_allclose(factor.residual_square(theta), e @ e, rtol=1e-12)
    np.testing.assert_allclose(factor.residual_sum(theta), e.sum(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(factor.gradient(theta), X.T @ e, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(factor.target_square, y @ y, rtol=1e-12)
    np.testing.assert_allclose(factor.target_abs, np.abs(y).sum(), rtol=1e-12)
    assert factor.count == T


def test_merging_is_associative_and_has_a_neutral_element() -> None:
    a, b, c = made(1), made(2, 3), made(3, 100)
    assert_same(a.merge(b).merge(c), a.merge(b.merge(c)))
    assert_same(a.merge(b), b.merge(a))
    assert_same(a.merge(Factor.empty(COLUMNS)), a)
    whole = Factor.from_panel(COLUMNS, np.hstack([panel(1), panel(2, 3), panel(3, 100)]))
    assert_same(merged([a, b, c]), whole)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 8, 33])
def test_merging_many_is_one_sum(count: int) -> None:
    factors = [made(seed, 20) for seed in range(count)]
    whole = Factor.from_panel(COLUMNS, np.hstack([panel(seed, 20) for seed in range(count)]))
    first, again = merged(factors), merged(tuple(factors))
    assert_same(first, whole)
    assert first.R.tobytes() == again.R.tobytes()
    assert first.sums.tobytes() == again.sums.tobytes()


def test_a_multiple_is_the_factor_of_the_multiplied_equations() -> None:
    assert_same(made(1).times(3.0), Factor.from_panel(COLUMNS, 3.0 * panel(1)))


def test_what_cannot_be_merged() -> None:
    with pytest.raises(UsageError, match="different columns"):
        made(1).merge(Factor.from_panel(COLUMNS + 1, panel(1)))
    with pytest.raises(UsageError, match="no block of data"):
        merged([])
    with pytest.raises(UsageError, match="array-shape"):
        Factor(COLUMNS, np.zeros((4, 4)), 1, np.zeros(5), 0.0)


def test_selecting_columns_is_leaving_lines_out() -> None:
    keep = np.zeros(10, dtype=np.bool_)
    keep[[2, 3, 9]] = True
    found = made(1).select(keep)
    assert_same(found, Factor.from_panel(np.array([2, 9]), panel(1)[[1, 3, 4]]))
    assert made(1).select(np.ones(10, dtype=np.bool_)).R is not None
    nothing = made(1).select(np.zeros(10, dtype=np.bool_))
    np.testing.assert_allclose(nothing.target_square, made(1).target_square, rtol=1e-12)


def test_parameters_under_other_numbers_are_columns_in_another_order() -> None:
    number = np.full(10, -1)
    number[[1, 2, 9]] = [7, 0, 3]
    before, places = panel(1), {int(c): i for i, c in enumerate(COLUMNS)}
    lines = [before[places[2]], before[places[9]], before[places[1]], before[-1]]
    assert_same(made(1).renumbered(number), Factor.from_panel(np.array([0, 3, 7]), np.array(lines)))
    assert_same(made(1).renumbered(np.arange(10)), made(1))


def test_stacking_weighs_groups() -> None:
    a, b = made(1), Factor.from_panel(np.array([2, 7]), panel(4, 30, 2))
    columns, weights = np.array([1, 2, 5, 7, 9]), np.array([4.0, 0.25])
    R = stack([a, b], columns, weights)
    dense = np.zeros((80, 6))
    dense[:50, [0, 1, 2, 4, 5]] = 2.0 * panel(1).T
    dense[50:, [1, 3, 5]] = 0.5 * panel(4, 30, 2).T
    np.testing.assert_allclose(R.T @ R, dense.T @ dense, rtol=1e-12, atol=1e-12)
    assert (np.tril(R, -1) == 0).all()


def test_factors_of_a_log() -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(0, 1, (100, 3)), rng.normal(0, 1, 100)
    factors = factors_of([X, X[:, :2]], [y, 2 * y], [np.arange(3), np.arange(2)], 3, 8)
    assert len(factors.blocks) == 8
    assert factors.count == 200
    half, rest = factors.subset(range(4)), factors.subset(range(4, 8))
    assert_same(half.join(rest).total[0], factors.total[0])
    assert_same(half.total[0].merge(rest.total[0]), factors.total[0])
    kept = factors.select(np.array([True, False, True]))
    assert [f.columns.tolist() for f in kept.total] == [[0, 2], [0]]
    with pytest.raises(UsageError, match="two different models"):
        half.join(Factors(("other",), 3, rest.blocks))


# Assembly


ROBOT = random_robot(11, 3, 0.4)
TERMS = RigidBody() + Viscous() + Offset()
# Independent columns only, or triangles are not unique.
WANTED = structural_base(ROBOT, TERMS, TorqueRows()).mask


def assembly(seconds: float = 0.5, cutoff: float | None = None, decimation: int = 1) -> Assembly:
    parallel = ParallelFilter(1000.0, cutoff, 4, decimation)
    return Assembly(ROBOT, TERMS, TorqueRows(), WANTED, parallel, Blocking(seconds))


def motion(count: int = 3000, origin: float = 0.0) -> Samples:
    samples = smooth_samples(ROBOT, count)
    return replace(samples, t=samples.t + origin, trajectory="a")


def cut(samples: Samples, *at: int) -> list[Samples]:
    edges = [0, *at, len(samples)]
    return [piece_of(samples, slice(a, b)) for a, b in pairwise(edges)]


def shape(block: Block) -> tuple[str, int, float, float, list[int]]:
    return block.trajectory, block.segment, block.start, block.end, [f.count for f in block.groups]


@pytest.mark.parametrize("origin", [0.0, 0.1, 12345.678])
def test_how_samples_are_cut_into_chunks_does_not_matter(origin: float) -> None:
    samples = motion(origin=origin)
    whole = assembly().factors([samples])
    assert [f.count for b in whole.blocks for f in b.groups] == [500] * 18
    for at in ((1000,), (137, 138, 1999), (500, 1000, 1500, 2000, 2500)):
        pieces = assembly().factors(cut(samples, *at))
        assert [shape(b)[4] for b in pieces.blocks] == [shape(b)[4] for b in whole.blocks]
        np.testing.assert_allclose(
            [b.start for b in pieces.blocks], [b.start for b in whole.blocks], atol=1e-9
        )
        for a, b in zip(pieces.total, whole.total, strict=True):
            assert_same(a, b, 1e-11)


def test_threads_do_not_change_a_byte() -> None:
    pieces = cut(motion(), 400, 800, 1200, 1600, 2000, 2400)
    one, four = (assembly().factors(pieces, threads) for threads in (1, 4))
    assert [shape(b) for b in one.blocks] == [shape(b) for b in four.blocks]
    for a, b in zip(one.blocks, four.blocks, strict=True):
        assert [f.R.tobytes() for f in a.groups] == [f.R.tobytes() for f in b.groups]
    assert [f.R.tobytes() for f in one.total] == [f.R.tobytes() for f in four.total]


def test_factors_are_those_of_the_dense_equations() -> None:
    samples = motion(1000)
    keep = np.ones(1000, dtype=np.bool_)
    keep[100:333] = False
    samples = replace(samples, keep=keep)
    Y = TERMS.torque_regressor(ROBOT, samples).dense(len(WANTED))
    for decimation in (1, 7):
        found = assembly(decimation=decimation).factors([samples])
        rows = np.flatnonzero(keep & (np.arange(1000) % decimation == 0))
        for j, factor in enumerate(found.total):
            X = np.column_stack([Y[rows, j][:, factor.columns], samples.tau[rows, j]])
            assert factor.count == len(rows)
            np.testing.assert_allclose(
                factor.R.T @ factor.R, X.T @ X, rtol=1e-10, atol=1e-11 * np.abs(X.T @ X).max()
            )


def test_both_sides_are_filtered_alike() -> None:
    # With the torque of the model itself, the equations hold before and after the filter.
    samples = motion(2000)
    theta = WANTED * np.random.default_rng(0).normal(0, 1, len(WANTED))
    samples = replace(samples, tau=TERMS.torque(ROBOT, samples, theta))
    for factor in assembly(cutoff=20.0, decimation=5).factors([samples]).total:
        assert factor.count == 400
        assert factor.residual_square(theta) < 1e-18 * factor.target_square


def test_gated_equations_are_left_out() -> None:
    samples = motion(1000)
    gate = np.abs(samples.dq) > 1.0
    found = assembly().factors([replace(samples, gate=gate)])
    assert [f.count for f in found.total] == gate.sum(axis=0).tolist()


def test_short_ends_join_their_neighbours_within_a_segment() -> None:
    samples = motion(1700)
    counts = [b.groups[0].count for b in assembly().factors([samples]).blocks]
    assert counts == [500, 500, 700]
    short = replace(motion(100), segment=1)
    blocks = assembly().factors([samples, short]).blocks
    assert [(b.segment, b.groups[0].count) for b in blocks] == [(0, 500), (0, 500), (0, 700), (1, 100)]


def test_nothing_to_use_is_said() -> None:
    samples = motion(100)
    with pytest.raises(UnfitDataError, match="no usable sample"):
        assembly().factors([replace(samples, keep=np.zeros(100, dtype=np.bool_))])
    with pytest.raises(UnfitDataError, match=r"reduce prepare.trim$"):
        assembly().factors([])
    slow = replace(assembly(), parallel=ParallelFilter(1.0, None))
    with pytest.raises(UnfitDataError, match=r"rows are 1 s apart: declare the unit of log.time"):
        slow.factors([])


def test_progress_adds_up_to_the_data() -> None:
    reported: list[float] = []
    assembly().factors(cut(motion(), 1000, 2000), progress=reported.append)
    assert abs(sum(reported) - 3.0) < 0.2


@pytest.mark.parametrize("index", [[0, 1, 2, 3], [0, 1, 3], [2, 0], [0, 2, 1, 3], [3]])
def test_a_triangle_of_some_columns_is_that_of_their_equations(index: list[int]) -> None:
    one = panel(3, 40, 3)
    whole = Factor.from_panel(np.arange(3), one).R
    chosen = Factor.from_panel(np.arange(len(index) - 1), one[index]).R
    np.testing.assert_allclose(triangle_of(whole, np.array(index)), chosen, atol=1e-12 * np.abs(whole).max())


def test_groups_that_a_changed_term_leaves_alone_keep_their_factors() -> None:
    robot, samples = random_robot(4, 3), smooth_samples(random_robot(4, 3), 400)
    curves = [SmoothCoulomb(width, (robot.joint_names[1],)) for width in (0.02, 0.3)]
    before, after = (
        Assembly(
            robot,
            terms,
            TorqueRows(),
            np.ones(len(terms.columns(robot)), dtype=np.bool_),
            FILTER,
            Blocking(1.0),
        )
        for terms in (Terms((RigidBody(), Viscous(), curve)) for curve in curves)
    )
    # The same objects stand for the same terms.
    after = replace(after, terms=Terms((*before.terms.terms[:2], curves[1])))
    batches = [samples.part(0, 200), samples.part(200, 400)]
    known = after.unchanged(before, before.factors(batches))
    assert known is not None
    np.testing.assert_array_equal(known.groups, [True, False, True])
    found, whole = after.factors(batches, known=known), after.factors(batches)
    for a, b in zip(found.blocks, whole.blocks, strict=True):
        for one, other in zip(a.groups, b.groups, strict=True):
            np.testing.assert_array_equal(one.R, other.R)
            np.testing.assert_array_equal(one.columns, other.columns)
            assert one.count == other.count
    assert replace(after, blocks=Blocking(2.0)).unchanged(before, whole) is None


def test_what_a_filter_keeps_of_a_motion_long_past_is_none() -> None:
    rng = np.random.default_rng(11)
    X, y = rng.normal(size=(400, 4)), rng.normal(size=400)
    # One column is of a joint that moves in the first of four blocks; what follows dies away.
    X[:, 2] *= np.where(np.arange(400) < 100, 1.0, np.exp(-0.5 * np.arange(-100.0, 300.0)))
    found = factors_of([X], [y], [np.arange(4)], 4, 4)
    clean = without_traces(found.blocks)
    assert clean[0] is found.blocks[0]
    still = np.array([0.1, 0.2, 0.0, 0.4])
    for k, block in enumerate(clean[1:], 1):
        (factor,), (before,) = block.groups, found.blocks[k].groups
        left = np.linalg.norm(X[100 * k : 100 * k + 100, 2]) < TRACE * np.linalg.norm(X[:, 2])
        assert left == (k > 1)
        assert (factor.sums[2] == 0) == left
        assert factor.residual_square(still) == pytest.approx(before.residual_square(still), rel=1e-12)
        moved = still + np.array([0.0, 0.0, 1e6, 0.0])
        assert left == (factor.residual_square(moved) == factor.residual_square(still))
    assert without_traces(()) == ()


def test_factors_of_a_log_hold_no_traces() -> None:
    """A joint that moves at the begin alone, filtered: its friction is in no later equation."""
    samples = motion(6000)
    quiet = np.exp(-np.maximum(np.arange(len(samples)) - 500, 0) / 5.0)[:, None]
    stops = np.concatenate([np.ones((1, samples.n - 1)), np.zeros((1, 1))], axis=1)
    dq = samples.dq * np.where(stops > 0, 1.0, quiet)
    found = assembly().factors([replace(samples, dq=dq)])
    last = [c.name for c in assembly().terms.columns(assembly().robot)].index(f"fv{samples.n}")
    sizes = []
    for block in found.blocks:
        factor = block.groups[-1]
        place = np.flatnonzero(factor.columns == last)
        sizes.append(float(np.linalg.norm(factor.R[:, place])))
    assert sizes[0] > 0
    assert sizes[-1] == 0
    assert all(size == 0 or size > TRACE * sizes[0] for size in sizes)
