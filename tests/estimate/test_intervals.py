"""Covariances from blocks: what they are worth under correlation, their symmetries and special cases."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import binom

from benchmarks import coverage
from dynid.base import Float, UsageError
from dynid.estimate import OLS, WLS, BlockScores, Intervals, Ridge, covariance_of, shrunk
from dynid.estimate.uncertainty import automatic_bandwidth, bootstrap, hac, sandwich
from dynid.factor import stack
from dynid.testing import Synthetic, synthetic_regression

KINDS = [kind.value for kind in Intervals]


def blocks_of(case: Synthetic, weights: Float | None = None) -> BlockScores:
    """Blocks of a weighted fit at fixed weights."""
    regression = case.regression
    w = np.ones(len(case.X)) if weights is None else weights
    b = regression.base.rank
    R = stack(regression.factors.total, regression.base.independent, w)
    theta = np.zeros(len(regression.columns))
    theta[regression.base.independent] = np.linalg.solve(R[:b, :b], R[:b, b])
    return BlockScores.of(regression.factors, regression.base.independent, theta, np.linalg.inv(R[:b, :b]), w)


def test_blocks_share_out_the_information_and_their_scores_cancel() -> None:
    blocks = blocks_of(synthetic_regression(1))
    np.testing.assert_allclose(blocks.information.sum(axis=0), np.eye(5), atol=1e-9)
    np.testing.assert_allclose(blocks.score.sum(axis=0), 0.0, atol=1e-8 * np.abs(blocks.score).max())
    np.testing.assert_allclose(blocks.leverage().sum(), 1.0)


def test_sandwich_is_the_textbook_formula_on_blocks() -> None:
    case = synthetic_regression(2, count=240, blocks=8, noise=(1.0, 0.1))
    weights = np.array([0.3, 7.0])
    X = np.concatenate([np.sqrt(w) * one for w, one in zip(weights, case.X, strict=True)])
    y = np.concatenate([np.sqrt(w) * one for w, one in zip(weights, case.y, strict=True)])
    member = np.tile(np.repeat(np.arange(8), 30), 2)
    bread = np.linalg.inv(X.T @ X)
    e = y - X @ (bread @ X.T @ y)
    meat = np.zeros((5, 5))
    for m in range(8):
        own = X[member == m]
        values, vectors = np.linalg.eigh(np.eye(len(own)) - own @ bread @ own.T)
        root = (vectors / np.sqrt(values)) @ vectors.T
        g = own.T @ root @ e[member == m]
        meat += np.outer(g, g)
    blocks = blocks_of(case, weights)
    np.testing.assert_allclose(blocks.covariance(sandwich(blocks)), bread @ meat @ bread, rtol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_repetitions_of_the_same_equations_add_no_certainty(kind: str) -> None:
    """What a model lacks comes back with the motion: three repetitions say of it what one does."""
    once = synthetic_regression(5, blocks=24).regression
    parts = tuple(replace(block, part=k) for k, block in enumerate(once.factors.blocks))
    seconds = parts[-1].end + 1.0
    again = tuple(
        replace(block, start=block.start + k * seconds, end=block.end + k * seconds)
        for k in range(3)
        for block in parts
    )
    repeated = replace(once, factors=replace(once.factors, blocks=again))
    as_if_others = tuple(replace(block, part=None) for block in again)
    one, three, others = (
        OLS(intervals=kind).fit(each)
        for each in (
            replace(once, factors=replace(once.factors, blocks=parts)),
            repeated,
            replace(once, factors=replace(once.factors, blocks=as_if_others)),
        )
    )
    np.testing.assert_allclose(three.value, one.value, rtol=1e-9)
    np.testing.assert_allclose(three.std, one.std, rtol=1e-6)
    # Neighbours of 24 parts are taken together.
    assert three.degrees_of_freedom == one.degrees_of_freedom == 11
    assert len(three.block_leverage) == 72
    assert np.median(others.std / one.std) < 0.7


def test_hac_without_lags_is_the_sandwich_and_segments_do_not_mix() -> None:
    blocks = blocks_of(synthetic_regression(3, correlation=0.8))
    np.testing.assert_allclose(hac(blocks, 1.0), sandwich(blocks), rtol=1e-12)
    assert np.abs(hac(blocks, 4.0) / sandwich(blocks) - 1.0).max() > 0.01
    apart = replace(blocks, segment=np.arange(blocks.count))
    np.testing.assert_allclose(hac(apart, 4.0), sandwich(blocks), rtol=1e-12)
    assert np.linalg.eigvalsh(hac(blocks, 9.0)).min() > 0


def test_bandwidth_grows_with_the_correlation_of_blocks() -> None:
    rng = np.random.default_rng(0)
    white = rng.normal(size=(400, 6))
    slow = np.copy(white)
    for m in range(1, 400):
        slow[m] += 0.8 * slow[m - 1]
    segment = np.zeros(400, dtype=np.int64)
    assert automatic_bandwidth(white, segment) < 4.0
    assert 10.0 < automatic_bandwidth(slow, segment) < 40.0
    assert automatic_bandwidth(slow, np.arange(400)) == 1.0
    # A third of the blocks at most.
    assert automatic_bandwidth(slow[:24], segment[:24]) == pytest.approx(8.0)


def test_hac_is_honest_where_correlation_reaches_over_many_blocks() -> None:
    """Blocks far shorter than the residual's memory: the sandwich takes them as independent and is too narrow."""
    hits = dict.fromkeys(("hac", "sandwich"), 0)
    for seed in range(16):
        case = synthetic_regression(seed, count=2000, blocks=200, correlation=0.97, noise=(0.3, 0.3))
        for kind in hits:
            found = WLS(intervals=kind).fit(case.regression)
            hits[kind] += int((np.abs(found.value - case.beta) <= found.half_width()).sum())
    assert hits["sandwich"] < 0.75 * 80
    assert hits["hac"] > hits["sandwich"] + 8


def test_bootstrap_is_seeded_and_agrees_with_the_sandwich_on_white_residuals() -> None:
    blocks = blocks_of(synthetic_regression(4, count=6000, blocks=60))
    np.testing.assert_array_equal(bootstrap(blocks, 50, seed=3), bootstrap(blocks, 50, seed=3))
    assert (bootstrap(blocks, 50, seed=3) != bootstrap(blocks, 50, seed=4)).any()
    std = bootstrap(blocks, 2000, run=1).std(axis=0)
    np.testing.assert_allclose(std, np.sqrt(np.diag(sandwich(blocks))), rtol=0.1)
    with pytest.raises(UsageError, match="bootstrap"):
        bootstrap(blocks, 1)


@pytest.mark.parametrize("kind", KINDS)
def test_every_covariance_scales_with_units_and_is_definite(kind: str) -> None:
    case = synthetic_regression(5, correlation=0.5)
    covariance = covariance_of(kind, blocks_of(case))
    np.testing.assert_allclose(covariance, covariance.T, rtol=1e-9)
    assert np.linalg.eigvalsh(covariance).min() > 0
    louder = covariance_of(kind, replace(blocks_of(case), score=10.0 * blocks_of(case).score))
    np.testing.assert_allclose(louder, 100.0 * covariance, rtol=1e-9)


def test_intervals_are_chosen_by_name() -> None:
    case = synthetic_regression(6)
    with pytest.raises(UsageError, match="intervals"):
        OLS(intervals="wishful")
    spreads = {kind: OLS(intervals=kind).fit(case.regression).std for kind in KINDS}
    np.testing.assert_allclose(
        spreads["jackknife"] ** 2, np.diag(covariance_of("jackknife", blocks_of(case))), rtol=1e-9
    )
    assert len({tuple(s.tolist()) for s in spreads.values()}) == len(KINDS)


def test_the_prior_decides_what_the_data_do_not() -> None:
    case = synthetic_regression(7, count=60, blocks=6)
    assert not WLS().fit(case.regression).prior_share.any()
    weak, strong = (Ridge(strength=s).fit(case.regression).prior_share for s in (1e-6, 1e9))
    assert weak.max() < 1e-3
    assert strong.min() > 0.99
    assert (strong <= 1.0).all()


@pytest.mark.parametrize("count", [9, pytest.param(24, marks=pytest.mark.slow)])
def test_coverage_of_simulated_experiments(count: int) -> None:
    """A dose of benchmarks/coverage.py: experiments on 3 robots with correlated residuals; the full table has 1000.

    Base parameters of one experiment are correlated: by the spread over 1000 experiments they count as two thirds as
    many independent ones. Bounds are binomial ones of the claim that the true coverage lies in 92 to 98 %.
    """
    results = [coverage.experiment(number, default=False) for number in range(count)]
    total = sum(r["parameters"] for r in results)
    independent = 2 * total // 3
    low, high = binom.ppf(0.001, independent, 0.92), binom.ppf(0.999, independent, 0.98)
    for kind in KINDS:
        share = sum(r[kind] for r in results) / total
        assert low / independent <= share <= high / independent, kind
    assert sum(r["textbook"] for r in results) / total < 0.7


@pytest.mark.parametrize("kind", KINDS)
def test_fewer_blocks_than_parameters_leave_no_direction_without_error(kind: str) -> None:
    """Of errors e with covariance C the mean of e' C^-1 e / b is one; of as many blocks as half the parameters, too."""
    count, distances = 24, list[float]()
    for seed in range(12):
        case = synthetic_regression(seed, base=count, count=2400, blocks=count // 2, noise=(1.0, 1.0))
        found = OLS(intervals=kind).fit(case.regression)
        error = found.value - case.beta
        distances.append(float(error @ np.linalg.solve(found.covariance, error)) / count)
    assert 0.5 < np.median(distances) < 2.0


def test_many_blocks_say_by_themselves_where_errors_are_larger() -> None:
    """Errors of one direction ten times as large as the weights say stay so, and those of the others small."""
    rng = np.random.default_rng(0)

    def drawn(M: int) -> float:
        scores = rng.normal(size=(M, 4)) * np.array([10.0, 1.0, 1.0, 1.0]) / np.sqrt(M)
        segment = np.zeros(M, dtype=np.int64)
        blocks = BlockScores(np.eye(4), np.tile(np.eye(4) / M, (M, 1, 1)), scores, segment)
        raw = sandwich(blocks)
        found = shrunk(raw, blocks)
        np.testing.assert_allclose(np.trace(found), np.trace(raw))
        return 1.0 - float(found[0, 1] / raw[0, 1])

    assert drawn(2000) < 0.01
    assert drawn(6) > 0.05


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("left", [1e-3, 1e-6, 1e-9])
def test_a_direction_of_one_block_alone_leaves_the_variance_of_all_others(kind: str, left: float) -> None:
    """Of 24 directions, the first block determines one but for a share `left` of its information."""
    count, f = 12, 24

    def trace(seed: int, alone: bool) -> float:
        rng = np.random.default_rng(seed)
        information = np.tile(np.eye(f) / count, (count, 1, 1))
        if alone:
            information[:, 0, 0] = left / (count - 1)
            information[0, 0, 0] = 1.0 - left
        drawn = np.sqrt(information) @ rng.normal(size=(count, f, 1))
        score = (drawn - information @ drawn.sum(axis=0))[:, :, 0]
        blocks = BlockScores(np.eye(f), information, score, np.zeros(count, dtype=np.int64))
        return float(np.trace(covariance_of(kind, blocks)[1:, 1:]))

    ratios = [trace(seed, True) / trace(seed, False) for seed in range(8)]
    # The direction's own variance counts at most M-fold, or M^2 / e where it is drawn or not, in the mean of all 24.
    bound = 1.0 + (count**2 / np.e if kind == Intervals.BOOTSTRAP else count) / f
    assert 0.7 < np.median(ratios) < bound
    assert max(ratios) < 4.0 * bound


def test_a_jackknife_without_such_blocks_is_refitting() -> None:
    blocks = blocks_of(synthetic_regression(1))
    np.testing.assert_allclose(blocks.jackknifed(), blocks.without(), rtol=1e-9)
