"""Folds are whole runs of blocks; a comparison prefers the simple; a thinned log has its part of every block."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dynid.estimate import Places
from dynid.factor import (
    LEAST_BLOCKS,
    Assembly,
    Block,
    Blocking,
    Candidate,
    Factor,
    Factors,
    compare,
    gain,
    judged_equations,
    not_judged,
    structural_base,
    thinned,
)
from dynid.factor.blocking import ALL
from dynid.factor.folds import BLOCKS_A_FOLD, LEAST_FOLDS, LEAST_MOTION, folds
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Repetition, Samples, WithPast
from dynid.terms import Offset, Presliding, RigidBody, Viscous, torque_of
from dynid.testing import random_robot, smooth_samples

COUNTS = st.lists(st.integers(0, 1000), min_size=0, max_size=80)


@given(COUNTS, st.integers(1, 600))
def test_every_block_is_held_out_once_in_runs_of_neighbours(counts: list[int], wanted: int) -> None:
    found = folds(np.array(counts, dtype=np.float64), wanted)
    M = len(counts)
    if M < LEAST_BLOCKS:
        assert found == ()
        return
    assert len(found) == max(min(wanted, M // BLOCKS_A_FOLD), LEAST_FOLDS)
    assert np.concatenate([fold.held_out for fold in found]).tolist() == list(range(M))
    for fold in found:
        assert len(fold.held_out) > 0
        assert sorted([*fold.training, *fold.held_out]) == list(range(M))


@given(st.lists(st.integers(1, 100), min_size=10, max_size=80))
def test_folds_are_as_equal_as_whole_blocks_allow(counts: list[int]) -> None:
    size = [sum(counts[i] for i in fold.held_out) for fold in folds(np.array(counts, dtype=np.float64))]
    assert max(size) - sum(counts) / 5 <= max(counts)


def test_equal_blocks_make_folds_of_equal_number() -> None:
    assert {len(fold.held_out) for fold in folds(np.full(60, 7.0))} == {12}


def one_after_the_other(joints: int, blocks: int) -> np.ndarray:
    """Motion (joints blocks, joints) of joints that each move for so many blocks, after the one before."""
    return np.repeat(np.eye(joints), blocks, axis=0)


@pytest.mark.parametrize("joints", [2, 6, 12])
@pytest.mark.parametrize("blocks", [4, 5, 9])
@pytest.mark.parametrize("wanted", [3, 5, 7])
def test_joints_that_move_one_after_the_other_are_known_whatever_is_held_out(
    joints: int, blocks: int, wanted: int
) -> None:
    motion = one_after_the_other(joints, blocks)
    found = folds(np.ones(len(motion)), wanted, motion)
    assert found
    assert sorted(np.concatenate([fold.held_out for fold in found])) == list(range(len(motion)))
    for fold in found:
        assert sorted([*fold.training, *fold.held_out]) == list(range(len(motion)))
        assert (motion[fold.training].sum(axis=0) >= LEAST_MOTION * motion.sum(axis=0)).all()


@given(st.integers(1, 6), st.integers(12, 60), st.integers(0, 1000))
def test_joints_that_move_throughout_leave_the_folds_whole_runs(n: int, M: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    counts, motion = rng.uniform(10, 12, M), rng.uniform(1.0, 1.5, (M, n))
    plain, found = folds(counts, 5), folds(counts, 5, motion)
    assert [fold.held_out.tolist() for fold in found] == [fold.held_out.tolist() for fold in plain]


def test_a_joint_that_moves_but_once_changes_no_fold_and_most_of_them_leave_none() -> None:
    motion = np.ones((40, 3))
    motion[:, 0] = 0.0
    motion[7, 0] = 1.0
    plain = [fold.held_out.tolist() for fold in folds(np.ones(40), 5)]
    assert [fold.held_out.tolist() for fold in folds(np.ones(40), 5, motion)] == plain
    assert folds(np.ones(12), 5, np.eye(12)) == ()


def candidate(name: str, parameters: int, squares: list[float]) -> Candidate:
    return Candidate(name, parameters, np.array(squares))


def test_of_equals_the_simplest_then_the_first_is_chosen() -> None:
    counts = np.ones(4)
    one, same = candidate("a", 2, [1, 2, 3, 4]), candidate("b", 2, [1, 2, 3, 4])
    assert compare([one, same], counts).winner.name == "a"
    assert compare([same, one], counts).winner.name == "b"
    assert compare([one, candidate("c", 1, [1, 2, 3, 4])], counts).winner.name == "c"


def test_a_gain_counts_from_one_standard_error_on() -> None:
    counts = np.ones(4)
    simple = candidate("simple", 1, [2.0, 2.0, 2.0, 2.0])
    # Mean gain 0.5; its standard error is 0.1 sqrt(4 / 3) by block in one case and 0.9 of that in the other.
    sure, unsure = [1.4, 1.6, 1.4, 1.6], [0.5, 2.5, 0.5, 2.5]
    assert compare([simple, candidate("rich", 2, sure)], counts).winner.name == "rich"
    found = compare([simple, candidate("rich", 2, unsure)], counts)
    assert (found.winner.name, found.best) == ("simple", 1)
    assert compare([simple, candidate("rich", 2, sure)], counts, errors=9.0).winner.name == "simple"
    assert compare([simple, candidate("rich", 2, sure)], counts, negligible=0.4).winner.name == "simple"
    # The rich model misses 6 in all, the simple one a third more.
    assert compare([simple, candidate("rich", 2, unsure)], counts, noticeable=0.34).winner.name == "simple"
    assert compare([simple, candidate("rich", 2, unsure)], counts, noticeable=0.32).winner.name == "rich"


def test_a_gain_is_the_share_that_is_missed_less() -> None:
    """A third less of every block is a third; its standard error is that of many draws of the blocks."""
    rng = np.random.default_rng(0)
    counts, without = np.full(40, 10.0), rng.uniform(1, 2, 40)
    assert gain(without, without * 2 / 3, counts)[0] == pytest.approx(1 / 3)
    less = rng.uniform(0, 1, (4000, 40))
    shares, errors = zip(*(gain(np.ones(40), 1.0 - one, counts) for one in less), strict=True)
    assert np.mean(errors) == pytest.approx(np.std(shares), rel=0.05)
    assert gain(np.zeros(4), np.zeros(4), np.ones(4)) == (0.0, 0.0)


def test_what_could_not_be_fitted_is_never_chosen() -> None:
    counts = np.ones(3)
    lost = candidate("lost", 0, [np.nan, 1.0, 1.0])
    assert compare([lost, candidate("found", 5, [1.0, 1.0, 1.0])], counts).winner.name == "found"


ROBOT = random_robot(2, 2, 0.0)
TERMS = RigidBody() + Viscous() + Offset()


def assembly(seconds: float) -> Assembly:
    wanted = structural_base(ROBOT, TERMS, TorqueRows(), 0).mask
    return Assembly(ROBOT, TERMS, TorqueRows(), wanted, ParallelFilter(100.0, 8.0, 4, 2), Blocking(seconds))


def windows(count: int, length: int, overlap: int) -> list[Samples]:
    """One segment cut into windows with overlap."""
    whole = smooth_samples(ROBOT, count * length, 3, rate=100.0)
    found = []
    for i in range(count):
        low, high = max(i * length - overlap, 0), min((i + 1) * length + overlap, count * length)
        own = np.arange(low, high)
        keep = (own >= i * length) & (own < (i + 1) * length)
        found.append(replace(whole.part(low, high), keep=keep))
    return found


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
@pytest.mark.parametrize("seconds", [2.0, 5.0, 30.0])
def test_each_block_keeps_its_share(share: float, seconds: float) -> None:
    # Blocks shorter than the windows, equal to them, and of several windows.
    made = assembly(seconds)
    settling = made.parallel.settling
    batches = windows(24, 500, settling)
    whole = made.factors(batches)
    part = made.factors(thinned(batches, share, made.blocks, settling))
    assert [b.start for b in part.blocks] == [b.start for b in whole.blocks]
    for a, b in zip(part.blocks, whole.blocks, strict=True):
        assert a.groups[0].count == pytest.approx(share * b.groups[0].count, abs=2)


def test_a_stretch_has_the_equations_that_it_has_in_its_window() -> None:
    made = assembly(5.0)
    settling = made.parallel.settling
    batches = windows(4, 500, settling)
    panel, times = made.parallel.apply(batches[1].tau.T.copy(), batches[1])
    rows = dict(zip(times.tolist(), panel.T, strict=True))
    found = list(thinned(batches, 0.4, made.blocks, settling))
    met = 0
    for part in found:
        values, t = made.parallel.apply(part.tau.T.copy(), part)
        for time, value in zip(t.tolist(), values.T, strict=True):
            if time in rows:
                np.testing.assert_allclose(value, rows[time], rtol=1e-7, atol=1e-9 * np.abs(panel).max())
                met += 1
    assert met == 100


def test_smaller_shares_lie_within_larger_ones() -> None:
    batches, blocks = windows(6, 500, 60), Blocking(4.0)
    once = {share: times(thinned(batches, share, blocks, 60)) for share in (0.1, 0.5)}
    assert once[0.1] < once[0.5]
    assert times(thinned(thinned(batches, 0.5, blocks, 60), 0.2, blocks, 60, within=0.5)) == once[0.1]


def times(batches: Iterable[Samples]) -> set[float]:
    return {t for part in batches for t in part.t[part.keep].tolist()}


def test_of_a_motion_that_repeats_often_whole_repetitions_are_looked_at() -> None:
    """So that every part of the motion is met as often as any other, and a share of a share is a smaller share."""
    period = 3.337
    batches, name = windows(24, 500, 60), smooth_samples(ROBOT, 10, 3, rate=100.0).trajectory
    often = Blocking(period / 10, {name: Repetition(0, name, 0.0, period, period)}, 120.0 / period)
    found = {share: times(thinned(batches, share, often, 60)) for share in (0.1, 0.4)}
    assert found[0.1] < found[0.4]
    assert times(thinned(thinned(batches, 0.4, often, 60), 0.25, often, 60, within=0.4)) == found[0.1]
    for share, seen in found.items():
        part = np.bincount((np.array(sorted(seen)) % period / period * 10).astype(int), minlength=10)
        assert part.max() - part.min() <= 2 * share * 120.0 / period
        assert len(seen) / (100 * period) == pytest.approx(share * 120.0 / period, abs=2.0)
    # Of a motion that is gone through three times that would be too coarse a share: it is taken of each of the blocks.
    seldom = Blocking(period / 10, often.repeated, 3.0)
    seen = np.array(sorted(times(thinned(batches, 0.1, seldom, 60))))
    assert np.diff(seen).max() < 2 * period / 10
    # And of whole repetitions a share of each block.
    both = times(thinned(thinned(batches, 0.4, often, 60), 0.01, often, 60, within=0.4))
    assert both < found[0.4]
    assert len(both) >= 0.4 * 12000 / (0.1 * period * 100) * 0.8


@pytest.mark.parametrize("together", [1, 3, 7, ALL])
def test_parts_of_many_repetitions_in_one_block_are_the_same_equations(together: int) -> None:
    """Whatever the windows; a sample lies in the block that holds its equations, and blocks are no more than asked."""
    name = smooth_samples(ROBOT, 10, 3, rate=100.0).trajectory
    period, parts = 3.337, 10
    blocks = Blocking(period / parts, {name: Repetition(0, name, 0.0, period, period)}, 36.0, together)
    made = replace(assembly(1.0), blocks=blocks)
    batches = windows(24, 500, made.parallel.settling)
    found = made.factors(batches)
    if together == ALL:
        assert blocks == replace(blocks, together=3).of_all_repetitions()
        assert len(found.blocks) == parts
    single = replace(made, blocks=replace(blocks, together=1)).factors(batches)
    for one, other in zip(found.total, single.total, strict=True):
        assert one.count == other.count
        np.testing.assert_allclose(one.R.T @ one.R, other.R.T @ other.R, rtol=1e-9, atol=1e-9)
    for wide, narrow in zip(
        found.repetitions_merged().blocks, single.repetitions_merged().blocks, strict=True
    ):
        assert wide.part == narrow.part
        few = 0.5 / together * narrow.groups[0].count  # joined to a neighbour
        assert wide.groups[0].count == pytest.approx(narrow.groups[0].count, abs=few)
    assert len(found.blocks) <= parts * np.ceil(37 / together)
    left = 0.01 * len(found.blocks)  # a block ends with its last sample
    assert sum(block.seconds for block in found.blocks) == pytest.approx(120.0, abs=1.5 + left)
    places = Places(found.blocks)
    counts = np.zeros(len(found.blocks), dtype=int)
    for samples in batches:
        own = places.of(samples.segment, samples.t[made.parallel.kept(samples)])
        assert (own >= 0).all()
        counts += np.bincount(own, minlength=len(counts))
    assert counts.tolist() == [block.groups[0].count for block in found.blocks]


def test_a_stretch_remembers_where_the_motion_turned_before() -> None:
    batches = list(WithPast(windows(6, 500, 60)))
    term = Presliding((0.02, 0.03))
    theta = np.ones(2)
    torque = {t: tau for s in batches for t, tau in zip(s.t, torque_of(term, ROBOT, s, theta), strict=True)}
    for part in thinned(batches, 0.3, Blocking(4.0), 60):
        wanted = np.array([torque[t] for t in part.t])
        np.testing.assert_allclose(
            torque_of(term, ROBOT, part, theta)[part.keep], wanted[part.keep], atol=1e-9
        )


def one_block(size: float, joints: int, count: int = 5) -> tuple[Factor, ...]:
    rng = np.random.default_rng(0)
    return tuple(Factor.from_panel(np.arange(2), size * rng.normal(size=(3, count))) for _ in range(joints))


def factors_of(motion: np.ndarray, joints: int) -> Factors:
    blocks = [
        Block("log", 0, float(m), m + 1.0, one_block(1.0, joints), line) for m, line in enumerate(motion)
    ]
    return Factors(tuple(f"group{g}" for g in range(joints)), 2, tuple(blocks))


def test_a_joint_is_not_judged_in_a_block_without_which_its_motion_is_not_known() -> None:
    """Joint 0 moves once, within block 7; joint 1 in two blocks of unlike folds; joint 2 throughout."""
    motion = np.ones((40, 3))
    motion[:, :2] = 0.0
    motion[7, 0] = motion[3, 1] = motion[21, 1] = 1.0
    made = folds(np.ones(40), 5, motion)
    wanted = np.zeros((40, 3), dtype=bool)
    wanted[7, 0] = True
    np.testing.assert_array_equal(not_judged(made, motion), wanted)
    factors = factors_of(motion, 3)
    seen = judged_equations(factors, made)
    counts = np.array([[f.count for f in block.groups] for block in seen.blocks])
    np.testing.assert_array_equal(counts, np.where(wanted, 0, 5))
    for m in range(40):
        for g in range(3):
            if not wanted[m, g]:
                assert seen.blocks[m].groups[g] is factors.blocks[m].groups[g]


def test_a_joint_that_stands_in_a_block_is_judged_there() -> None:
    motion = np.ones((40, 2))
    motion[:, 0] = 1e-6
    motion[7, 0] = 1.0
    assert np.argwhere(not_judged(folds(np.ones(40), 5, motion), motion)).tolist() == [[7, 0]]


@pytest.mark.parametrize("joints", [2, 6])
def test_where_every_joint_is_known_all_equations_are_judged(joints: int) -> None:
    motion = one_after_the_other(joints, 5)
    factors = factors_of(motion, joints)
    assert judged_equations(factors, folds(np.ones(len(motion)), 5, motion)) is factors


def test_groups_that_are_no_joints_are_judged_as_they_are() -> None:
    motion = np.ones((40, 3))
    motion[:, 0] = 0.0
    motion[7, 0] = 1.0
    factors = factors_of(motion, 1)
    assert judged_equations(factors, folds(np.ones(40), 5, motion)) is factors
