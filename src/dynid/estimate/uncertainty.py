"""Covariance that holds with autocorrelated residuals: blocks of time are independent, samples are not."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.errors import UsageError
from dynid.base.numerics import f_tail
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate
from dynid.factor.factor import Factors, branches, stack
from dynid.kernel import solve_triangular

# Information and score of each block of time, from factors.

# In a direction that one block determines alone, only rounding remains of the others.
LARGEST_LEVERAGE = 1.0 - 1e-6


@dataclass(frozen=True, eq=False)
class BlockScores:
    """Information and scores of M blocks, in coordinates where the total information is the identity.

    The condition number does not enter in these coordinates. A = sum X_m' W X_m, plus a penalty if there is one, and
    A^-1 = inverse inverse'.

    Attributes
    ----------
    inverse : ndarray, shape (b, f)
        Inverse root; f < b if only some directions are free.
    information : ndarray, shape (M, f, f)
        H_m = inverse' X_m' W X_m inverse.
    score : ndarray, shape (M, f)
        inverse' X_m' W e_m; they sum to zero without a penalty.
    segment : ndarray of int, shape (M,)
        Segment of unbroken time that contains the block.

    """

    inverse: Float
    information: Float
    score: Float
    segment: Int

    def __post_init__(self) -> None:
        M, f = self.score.shape
        object.__setattr__(self, "inverse", locked(self.inverse, (None, f), "inverse"))
        object.__setattr__(self, "information", locked(self.information, (M, f, f), "information"))
        object.__setattr__(self, "score", locked(self.score, (M, f), "score"))
        object.__setattr__(self, "segment", locked_int(self.segment, (M,), "segment"))

    @staticmethod
    def of(factors: Factors, columns: Int, theta: Float, inverse: Float, weights: Float) -> BlockScores:
        """Block scores of factors.

        Parameters
        ----------
        factors : Factors
            Factors.
        columns : ndarray of int, shape (b,)
            Parameters.
        theta : ndarray, shape (p,)
            Estimate.
        inverse : ndarray, shape (b, f)
            Inverse root.
        weights : ndarray, shape (g,)
            Weights of the groups.

        """
        M, f = len(factors.blocks), inverse.shape[1]
        information, score = np.zeros((M, f, f)), np.zeros((M, f))
        place = np.zeros(factors.parameter_count, dtype=np.int64)
        place[columns] = np.arange(len(columns))
        # A group has the same columns in every block.
        groups = factors.blocks[0].groups if factors.blocks else ()
        roots = np.sqrt(weights)
        parts = [root * inverse[place[group.columns]] for root, group in zip(roots, groups, strict=False)]
        used = np.array([part.any(axis=0) for part in parts], dtype=np.bool_).reshape(-1, f)
        for branch in branches(used):
            of_branch, these = np.flatnonzero(branch), np.flatnonzero(used[:, branch].any(axis=1))
            within = [parts[g][:, of_branch] for g in these]
            square = np.ix_(of_branch, of_branch)
            for m in range(M if len(these) else 0):
                factors_in = [factors.blocks[m].groups[g] for g in these]
                X = np.concatenate(
                    [f.rows[:, :-1] @ part for f, part in zip(factors_in, within, strict=True)]
                )
                residual = [
                    root * (f.rows[:, -1] - f.rows[:, :-1] @ theta[f.columns])
                    for f, root in zip(factors_in, roots[these], strict=True)
                ]
                information[m][square] = X.T @ X
                score[m, of_branch] = X.T @ np.concatenate(residual)
        information.setflags(write=False)  # so that it is used without a copy
        segment = np.array([block.segment for block in factors.blocks], dtype=np.int64)
        return BlockScores(inverse, information, score, segment)

    @property
    def count(self) -> int:
        """Number of blocks M."""
        return len(self.score)

    def joined(self, count: int) -> BlockScores:
        """Runs of `count` neighbouring blocks of a segment as one block each; a remainder joins the last run."""
        first = np.concatenate([[True], np.diff(self.segment) != 0])
        place = np.arange(self.count) - np.maximum.accumulate(np.where(first, np.arange(self.count), 0))
        size = np.bincount(np.cumsum(first) - 1)[np.cumsum(first) - 1]
        begins = first | ((place % count == 0) & (place + count <= size))
        at = np.flatnonzero(begins)
        return BlockScores(
            self.inverse,
            np.add.reduceat(self.information, at, axis=0),
            np.add.reduceat(self.score, at, axis=0),
            self.segment[at],
        )

    def grouped(self, together: Sequence[Int]) -> BlockScores:
        """Dependent blocks as one block each; together: numbers of the blocks of each group."""
        if [numbers.tolist() for numbers in together] == [[m] for m in range(self.count)]:
            return self
        information = np.array([self.information[numbers].sum(axis=0) for numbers in together])
        information.setflags(write=False)  # so that it is used without a copy
        return BlockScores(
            self.inverse,
            information,
            np.array([self.score[numbers].sum(axis=0) for numbers in together]),
            np.array([self.segment[numbers[0]] for numbers in together]),
        )

    def leverage(self) -> Float:
        """Share (M,) of all information in each block."""
        return np.asarray(np.trace(self.information, axis1=1, axis2=2) / self.score.shape[1])

    def without(self) -> Float:
        """(1 - H_m)^-1 score_m, (M, f): minus the change of the estimate without block m."""
        return self._per_branch(_solved_without_block)

    def jackknifed(self) -> Float:
        """Change of the estimate without each block, as far as the other blocks test it.

        In a direction of which a block has the share h, the variance is 1 / (1 - h) times that of `standardised`, which
        is unbiased for equally noisy residuals. If all other blocks together have less information on a direction than
        one block has on average, 1 / M, the block determines it alone: a fit without it tests nothing there, and the
        factor stays M. Without this limit such a direction would have unbounded variance.

        Returns
        -------
        ndarray, shape (M, f)
            Shifts; `without` itself if no block has a share above 1 - 1/M.

        """
        least = 1.0 / self.count
        return self._per_branch(lambda H, score: _solved_without_block(H, score, least))

    def standardised(self) -> Float:
        """(1 - H_m)^-1/2 score_m, (M, f): scores corrected for the pull of each block on the fit."""
        return self._per_branch(_standardised)

    def _per_branch(self, solved: Callable[[Float, Float], Float]) -> Float:
        """Scores (M, f) after a function of the information and the score of each block, branch by branch."""
        changed = np.zeros_like(self.score)
        for branch in branches(np.asarray(self.information.any(axis=0))):
            square = np.ix_(branch, branch)
            for m, (H, score) in enumerate(zip(self.information, self.score, strict=True)):
                changed[m, branch] = solved(H[square], score[branch])
        return changed

    def covariance(self, white: Float) -> Float:
        """Covariance of parameters (b, b) from one in these coordinates (f, f)."""
        return np.asarray(self.inverse @ white @ self.inverse.T)


def _standardised(H: Float, score: Float) -> Float:
    """(1 - H)^-1/2 score."""
    share, directions = np.linalg.eigh(H)
    remaining = 1.0 - np.clip(share, 0.0, LARGEST_LEVERAGE)
    return np.asarray(directions @ ((directions.T @ score) / np.sqrt(remaining)))


def _solved_without_block(H: Float, score: Float, least: float = 1.0 - LARGEST_LEVERAGE) -> Float:
    """(1 - H)^-1 score; where less than `least` of a direction remains, (least (1 - H))^-1/2 score."""
    try:
        np.linalg.cholesky((1.0 - least) * np.eye(len(H)) - H)
    except LinAlgError:
        share, directions = np.linalg.eigh(H)
        remaining = 1.0 - np.minimum(share, LARGEST_LEVERAGE)
        amplified = np.sqrt(remaining * np.maximum(remaining, least))
        return np.asarray(directions @ ((directions.T @ score) / amplified))
    return np.asarray(np.linalg.solve(np.eye(len(H)) - H, score))


# Shrinkage of a covariance from fewer blocks than parameters towards the textbook covariance.


def shrunk(white: Float, blocks: BlockScores) -> Float:
    """Covariance shrunk towards the textbook covariance times one factor, in the coordinates of the blocks.

    (1 - l) V + l T, T = H tr V / tr H, H the information of all blocks (the identity without a penalty), and
    l = min(b^2 / d^2, 1) with d^2 = ||S - T||^2, b^2 = (mean |d_m|^4 - ||S||^2) / M, S = mean d_m d_m', d_m the
    standardised scores. M blocks show at most M - 1 directions; V would call all others exactly known.

    Parameters
    ----------
    white : ndarray, shape (f, f)
        Covariance V.
    blocks : BlockScores
        Blocks.

    Returns
    -------
    ndarray, shape (f, f)
        Covariance.

    References
    ----------
    Ledoit and Wolf 2004, section 3.3.

    """
    D, H = blocks.standardised(), blocks.information.sum(axis=0)
    M, whole = len(D), float(np.trace(H))
    S = D.T @ D / M
    away = float(np.sum((S - np.trace(S) / whole * H) ** 2))
    if away <= 0.0:
        return white
    chance = (float(np.mean(np.sum(D**2, axis=1) ** 2)) - float(np.sum(S**2))) / M
    weight = min(max(chance, 0.0) / away, 1.0)
    return np.asarray((1.0 - weight) * white + weight * np.trace(white) / whole * H)


# Sandwich covariance: valid for any weights of a fit.


def sandwich(blocks: BlockScores) -> Float:
    """Covariance sum g_m g_m' of a weighted fit in the coordinates of the blocks, (f, f), with standardised scores g_m.

    They are standardised by (1 - H_m)^-1/2, which makes the mean of each term right for equally noisy residuals.

    References
    ----------
    Liang and Zeger 1986; Bell and McCaffrey 2002 (CR2).

    """
    D = blocks.standardised()
    return np.asarray(D.T @ D)


# Covariance for residuals with correlation beyond a block.

# Constant of the Bartlett kernel in Andrews' rule for the bandwidth.
_BARTLETT = 1.1447
# Greatest autoregression used, so that the bandwidth stays finite.
_MOST_CORRELATED = 0.97


def hac(blocks: BlockScores, bandwidth: float | None = None) -> Float:
    """Heteroscedasticity and autocorrelation consistent covariance in the coordinates of the blocks, (f, f).

    G_0 + sum_l w_l (G_l + G_l'), G_l = sum_m d_m d_{m+l}' over blocks l apart in one segment,
    w_l = 1 - l / bandwidth, d_m the standardised scores. It is never indefinite.

    `bandwidth`: 1 = no neighbour; None = Andrews' plug-in rule.

    References
    ----------
    Newey and West 1987; Andrews 1991, eq. 6.2 and 6.4.

    """
    D = blocks.standardised()
    width = automatic_bandwidth(D, blocks.segment) if bandwidth is None else bandwidth
    white = D.T @ D
    for lag in range(1, int(np.ceil(width))):
        together = blocks.segment[lag:] == blocks.segment[:-lag]
        G = D[:-lag][together].T @ D[lag:][together]
        white += (1.0 - lag / width) * (G + G.T)
    return np.asarray(white)


def automatic_bandwidth(scores: Float, segment: np.ndarray) -> float:
    """Andrews' bandwidth of the Bartlett kernel, in blocks, from 1 to a third of them.

    1.1447 (alpha M)^(1/3), alpha = sum_i 4 r_i^2 s_i^4 / ((1 - r_i)^6 (1 + r_i)^2) / sum_i s_i^4 / (1 - r_i)^4, with
    r_i and s_i^2 of a first-order autoregression of score i over neighbouring blocks of one segment.
    scores: (M, f).
    """
    together = segment[1:] == segment[:-1]
    before, after = scores[:-1][together], scores[1:][together]
    square = (before**2).sum(axis=0)
    if not len(before) or not (square > 0).any():
        return 1.0
    product = (before * after).sum(axis=0)
    r = np.clip(product / np.where(square > 0, square, np.inf), -_MOST_CORRELATED, _MOST_CORRELATED)
    s4 = (((after - r * before) ** 2).sum(axis=0)) ** 2
    top = np.sum(4.0 * r**2 * s4 / ((1.0 - r) ** 6 * (1.0 + r) ** 2))
    alpha = top / np.sum(s4 / (1.0 - r) ** 4)
    width = _BARTLETT * (alpha * len(scores)) ** (1.0 / 3.0)
    return float(np.clip(width, 1.0, max(len(scores) / 3.0, 1.0)))


# Moving-block bootstrap from factors.


def bootstrap(blocks: BlockScores, replicates: int = 500, run: int = 2, seed: int = 0) -> Float:
    """Changes of the estimate over moving-block bootstrap samples, in the coordinates of the blocks.

    Each sample consists of runs of `run` consecutive blocks, as many blocks as the log has, starting anywhere and never
    crossing segments. It is solved exactly, (sum H_m)^-1 sum g_m, g_m = standardised scores. A direction in which a
    sample has less information than a block has on average, 1 / M, counts as having that: a block that alone determines
    a direction is missing from one sample in three, and its variance would be unbounded (see `BlockScores.jackknifed`).

    The result has shape (replicates, f). Raises UsageError for fewer than two replicates, or a run below one block.

    References
    ----------
    Kuensch 1989; Efron and Tibshirani 1993, section 8.6.

    """
    if replicates < 2 or run < 1:
        raise UsageError(
            "bootstrap",
            found=f"{replicates} replicates of runs of {run} blocks",
            expected="at least 2 replicates of runs of at least 1 block",
        )
    rng = np.random.default_rng(seed)
    runs = _runs(blocks.segment, run)
    scores = blocks.standardised()
    scores = scores - scores.mean(axis=0)
    M, f = scores.shape
    changes = np.zeros((replicates, f))
    for k in range(replicates):
        drawn = rng.integers(len(runs), size=-(-M // min(run, M)))
        picked = np.concatenate([runs[i] for i in drawn])[:M]
        counts = np.bincount(picked, minlength=M).astype(np.float64)
        H = np.tensordot(counts, blocks.information, axes=1)
        changes[k] = _bootstrap_solved(H, counts @ scores, 1.0 / M)
    return changes


def _bootstrap_solved(H: Float, score: Float, least: float) -> Float:
    try:
        np.linalg.cholesky(H - least * np.eye(len(H)))
    except np.linalg.LinAlgError:
        share, directions = np.linalg.eigh(H)
        return np.asarray(directions @ ((directions.T @ score) / np.maximum(share, least)))
    return np.asarray(np.linalg.solve(H, score))


def bootstrap_covariance(blocks: BlockScores) -> Float:
    """Covariance of the changes of `bootstrap`, in the coordinates of the blocks, (f, f)."""
    changes = bootstrap(blocks)
    return np.asarray(np.cov(changes, rowvar=False).reshape(changes.shape[1], changes.shape[1]))


def _runs(segment: Int, run: int) -> list[Int]:
    """Every run of neighbouring blocks of one segment; a segment shorter than `run` is one run."""
    runs = []
    for number in np.unique(segment):
        blocks = np.flatnonzero(segment == number)
        runs += [blocks[i : i + run] for i in range(max(len(blocks) - run + 1, 1))]
    return runs


class Intervals(StrEnum):
    """Method that computes the covariance of a least-squares fit from its blocks."""

    JACKKNIFE = "jackknife"
    SANDWICH = "sandwich"
    HAC = "hac"
    BOOTSTRAP = "bootstrap"


DESCRIBED = {
    Intervals.JACKKNIFE: "by leaving out each block of time in turn",
    Intervals.SANDWICH: "from the scores of the blocks of time, each corrected for its leverage",
    Intervals.HAC: "from the scores of blocks of time, with correlation between neighbouring blocks (HAC)",
    Intervals.BOOTSTRAP: "from 500 bootstrap samples of runs of neighbouring blocks of time",
}


def check_intervals(name: str) -> None:
    """Raise UsageError for an unknown method."""
    if name not in {kind.value for kind in Intervals}:
        raise UsageError(
            "intervals",
            found=f"intervals = '{name}'",
            expected="one of " + ", ".join(k.value for k in Intervals),
        )


def covariance_of(kind: str, blocks: BlockScores) -> Float:
    """Covariance of a least-squares estimate by one of the methods, (b, b), definite for any number of blocks."""
    check_intervals(kind)
    return blocks.covariance(shrunk(_IN_BLOCKS[Intervals(kind)](blocks), blocks))


def jackknife(blocks: BlockScores) -> Float:
    """Covariance by leaving out one block at a time, without refitting, in the coordinates of the blocks, (f, f).

    With A the total normal matrix, A_m that of block m and g_m = X_m' W e_m its score, the estimate without block m
    differs by -(A - A_m)^-1 g_m; cov = (M - 1)/M sum (d_m - mean d)(d_m - mean d)'. This is exact except for directions
    that a block determines alone (`BlockScores.jackknifed`).

    References
    ----------
    Cameron, Gelbach and Miller 2008 (CR3); Efron and Tibshirani 1993, chapter 11.

    """
    shifts = blocks.jackknifed()
    D = shifts - shifts.mean(axis=0)
    return np.asarray((blocks.count - 1) / blocks.count * (D.T @ D))


_IN_BLOCKS: dict[Intervals, Callable[[BlockScores], Float]] = {
    Intervals.JACKKNIFE: jackknife,
    Intervals.SANDWICH: sandwich,
    Intervals.HAC: hac,
    Intervals.BOOTSTRAP: bootstrap_covariance,
}


def block_jackknife(
    factors: Factors, columns: Int, theta: Float, inverse: Float, weights: Float
) -> tuple[Float, Float]:
    """Jackknife covariance, and the blocks' shares of the information.

    `columns` (b,): parameters; `theta` (p,): estimate; `inverse` (b, f): A^-1 = inverse inverse'; f < b if only some
    directions are free; `weights` (g,): weights of the groups. Results: `covariance` (b, b); `leverage` (M,).
    """
    blocks = BlockScores.of(factors, columns, theta, inverse, weights)
    independent = blocks.grouped(factors.independent())
    return covariance_of(Intervals.JACKKNIFE, independent), blocks.leverage()


# Information and influence of the parts of a log, block by block, from factors.


@dataclass(frozen=True, eq=False)
class Influence:
    """Information and influence on each base parameter, by group of equations and by block of time.

    Attributes
    ----------
    group_share : ndarray, shape (b, g)
        Share of the information on a parameter by group, with all others free; each line sums to 1.
    block_share : ndarray, shape (b, M)
        The same by block.
    shift : ndarray, shape (b, M)
        Change of a value without a block, in standard deviations.
    leverage : ndarray, shape (M,)
        Mean share of a block over all directions.
    cook : ndarray, shape (M,)
        Mean square change without a block, over all directions of the fit, in textbook variances.

    References
    ----------
    Frisch and Waugh 1933 (partial regression); Belsley, Kuh and Welsch 1980 (DFBETAS); Cook 1977.

    """

    group_share: Float
    block_share: Float
    shift: Float
    leverage: Float
    cook: Float

    def __post_init__(self) -> None:
        b, M = self.shift.shape
        object.__setattr__(self, "group_share", locked(self.group_share, (b, None), "group_share"))
        object.__setattr__(self, "block_share", locked(self.block_share, (b, M), "block_share"))
        object.__setattr__(self, "shift", locked(self.shift, (b, M), "shift"))
        object.__setattr__(self, "leverage", locked(self.leverage, (M,), "leverage"))
        object.__setattr__(self, "cook", locked(self.cook, (M,), "cook"))


def influence_of(estimate: Estimate, factors: Factors) -> Influence | None:
    """Influence of the factors that were fitted, at the weights of the fit; None if they are not of this estimate."""
    independent = estimate.base.independent
    known = {int(c) for c in independent}
    if not factors.blocks or len(estimate.weights) != len(factors.group_names):
        return None
    if any(int(c) not in known for factor in factors.total for c in factor.columns):
        return None
    b = len(independent)
    R = stack(factors.total, independent, np.asarray(estimate.weights))[:b, :b]
    try:
        inverse = solve_triangular(R, np.eye(b))
    except LinAlgError:
        return None
    blocks = BlockScores.of(factors, independent, estimate.full_vector, inverse, np.asarray(estimate.weights))
    Z = inverse @ inverse.T
    size = np.diag(Z)
    place = {int(c): i for i, c in enumerate(independent)}
    group_share = np.zeros((b, len(factors.group_names)))
    for g, (factor, weight) in enumerate(zip(factors.total, estimate.weights, strict=True)):
        rows = np.array([place[int(c)] for c in factor.columns], dtype=np.int64)
        group_share[:, g] = weight * np.sum((factor.R[:, :-1] @ Z[rows]) ** 2, axis=0) / size
    # r H r' for the rows r of the inverse, block by block.
    block_share = np.array([((inverse @ H) * inverse).sum(axis=1) for H in blocks.information]).T
    changes = blocks.without()
    with np.errstate(divide="ignore", invalid="ignore"):
        shift = -(changes @ inverse.T) / estimate.std
    return Influence(
        group_share=group_share,
        block_share=block_share / size[:, None],
        shift=np.nan_to_num(shift.T),
        leverage=blocks.leverage(),
        cook=np.mean(changes**2, axis=1),
    )


# Test whether parts of the data have the same parameters, with autocorrelated residuals.

# Relative information below which a direction of a part is undetermined.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class Part:
    """The same r parameters, estimated from one part of the data.

    Attributes
    ----------
    value : ndarray, shape (r,)
        Parameters.
    information : ndarray, shape (r, r)
        Inverse of the textbook covariance.
    scatter : ndarray, shape (r, M)
        One column per block: the covariance of the value is scatter scatter'.

    """

    value: Float
    information: Float
    scatter: Float

    def __post_init__(self) -> None:
        r = len(self.value)
        object.__setattr__(self, "value", locked(self.value, (r,), "value"))
        object.__setattr__(self, "information", locked(self.information, (r, r), "information"))
        object.__setattr__(self, "scatter", locked(self.scatter, (r, None), "scatter"))


@dataclass(frozen=True, eq=False)
class Homogeneity:
    """Improvement of the fit with separate parameters for every part, compared with chance.

    Attributes
    ----------
    statistic : float
        T = sum_k (beta_k - pooled)' A_k (beta_k - pooled).
    expected : float
        Its mean if all parameters are the same.
    freedom, known : float
        Degrees of freedom of the F distribution of statistic / expected in that case.
    p_value : float
        Probability of a greater statistic in that case.
    spread : float
        Standard deviation of the statistic in that case.
    pooled : ndarray, shape (r,)
        Common parameters, A^-1 sum A_k beta_k.
    away : ndarray, shape (K, r)
        beta_k - pooled.
    noise : ndarray, shape (K, r, S)
        The covariance of away is noise_k noise_k'.

    """

    statistic: float
    expected: float
    freedom: float
    known: float
    p_value: float
    spread: float
    pooled: Float
    away: Float
    noise: Float

    @property
    def ratio(self) -> float:
        """Statistic over its expectation: 1 = as by chance."""
        return self.statistic / self.expected


def homogeneity(parts: Sequence[Part], free: Sequence[Float] | None = None) -> Homogeneity:
    """Test whether parts have the same parameters, for any correlation of residuals within blocks.

    T is the weighted sum of squares that pooling adds (Chow's statistic). With T = u' P u, u_k = A_k^1/2 beta_k and P
    the projection that removes the common parameters, its mean is tr P V and its variance 2 tr (P V)^2, with V from the
    blocks; the part of tr (P V)^2 that only comes from few blocks is subtracted.

    Parameters
    ----------
    parts : sequence of Part
        Parts.
    free : sequence of ndarray, shape (r, f_k), optional
        Directions in which each part may differ.

    Returns
    -------
    Homogeneity
        Test.

    Raises
    ------
    UsageError
        For fewer than two parts.

    References
    ----------
    Chow 1960; Rao and Scott 1984 (second-order correction); Bell and McCaffrey 2002.

    """
    if len(parts) < 2:
        raise UsageError("one-part", found="one part of the data", expected="at least two to be compared")
    r, K = len(parts[0].value), len(parts)
    size = 1.0 / np.sqrt(np.maximum(np.diag(sum(part.information for part in parts)), 1e-300))
    roots, inverses, u = [], [], []
    for part in parts:
        root, inverse = _roots(part.information * np.outer(size, size))
        roots.append(root)
        inverses.append(inverse)
        u.append(root @ (part.value / size))
    common = np.concatenate(roots)
    directions = [common]
    for k, free_directions in enumerate(free or ()):
        block = np.zeros((K * r, free_directions.shape[1]))
        block[k * r : (k + 1) * r] = roots[k] @ (free_directions / size[:, None])
        directions.append(block)
    basis = _orthonormal(np.concatenate(directions, axis=1))
    stacked = np.concatenate(u)
    rest = stacked - basis @ (basis.T @ stacked)
    counts = [part.scatter.shape[1] for part in parts]
    Z = np.zeros((K * r, sum(counts)))
    ends = np.cumsum([0, *counts])
    for k, part in enumerate(parts):
        Z[k * r : (k + 1) * r, ends[k] : ends[k + 1]] = roots[k] @ (part.scatter / size[:, None])
    Y = Z - basis @ (basis.T @ Z)
    gram = Z.T @ Y
    expected = float(np.trace(gram))
    square, doubt = float(np.sum(gram**2)), 0.0
    for k, n in enumerate(counts):
        free_directions = gram[ends[k] : ends[k + 1], ends[k] : ends[k + 1]]
        seen, trace, known = (
            float(np.sum(free_directions**2)),
            float(np.trace(free_directions)),
            max(n - 1, 2),
        )
        true = max((seen - trace**2 / known) * known**2 / ((known - 1) * (known + 2)), trace**2 / r)
        square += min(true, seen) - seen
        doubt += 2.0 * min(true, seen) / known
    statistic = float(rest @ rest)
    freedom, sure = expected**2 / square, 2.0 * expected**2 / doubt
    pooled = np.linalg.lstsq(common, stacked, rcond=None)[0]
    return Homogeneity(
        statistic=statistic,
        expected=expected,
        freedom=freedom,
        known=sure,
        p_value=float(f_tail(freedom, sure, statistic / expected)),
        spread=float(np.sqrt(2.0 * square)),
        pooled=size * pooled,
        away=np.array([size * (inverses[k] @ rest[k * r : (k + 1) * r]) for k in range(K)]),
        noise=np.array([size[:, None] * (inverses[k] @ Y[k * r : (k + 1) * r]) for k in range(K)]),
    )


def _roots(A: Float) -> tuple[Float, Float]:
    values, vectors = np.linalg.eigh(A)
    kept = values > _NOTHING * values[-1]
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.where(kept, 1.0 / np.where(kept, root, 1.0), 0.0)
    return (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T


def _orthonormal(columns: Float) -> Float:
    norms = np.linalg.norm(columns, axis=0)
    U, s, _ = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), full_matrices=False)
    return np.asarray(U[:, s > 1e-9])


def combined(tests: Sequence[Homogeneity]) -> Homogeneity:
    """Several independent tests as one, such as of the halves of several runs, without common parameters."""
    expected = sum(test.expected for test in tests)
    square = sum(test.spread**2 for test in tests) / 2.0
    doubt = sum(2.0 * test.expected**2 / test.known for test in tests)
    statistic = sum(test.statistic for test in tests)
    freedom, known = expected**2 / square, 2.0 * expected**2 / doubt
    return Homogeneity(
        statistic=statistic,
        expected=expected,
        freedom=freedom,
        known=known,
        p_value=float(f_tail(freedom, known, statistic / expected)),
        spread=float(np.sqrt(2.0 * square)),
        pooled=np.zeros(0),
        away=np.zeros((0, 0)),
        noise=np.zeros((0, 0, 0)),
    )


# Options that several estimators share, each with its range and a sentence.

# Upper limit that no iteration needs.
MOST_ROUNDS = 10_000_000


def most_rounds(default: int) -> Any:
    """Option: greatest number of rounds of an iteration."""
    return option(
        default,
        "greatest number of re-weightings (wls, ridge: default 30) or simulations (didim: 12, iv: 10)",
        least=1,
        most=MOST_ROUNDS,
    )


def last_move(default: float) -> Any:
    """Option: change at which an iteration stops."""
    return option(
        default,
        "wls, ridge: relative change of the weights at which to stop, default 1e-4; others: move of the estimate at "
        "which to stop, in standard deviations",
        above=0,
    )


def play_option() -> Any:
    """Option: whether play is estimated."""
    return option(
        False,
        "servo_oe: also estimate the play between each motor and its link, with one more simulation per joint and step",
    )


def interval_kind() -> Any:
    """Option: method of the covariance."""
    return option(
        Intervals.JACKKNIFE.value,
        'every method: how the covariance is computed, see below; default `"jackknife"`',
        choices=tuple(kind.value for kind in Intervals),
    )


def encoder_noise() -> Any:
    """Option: noise of the encoders."""
    return option(
        None,
        "tls, ml, ekf, ukf, cdkf: standard deviation of the encoder noise, one number or one per joint; default: "
        "estimated from the log",
        unit="rad or m",
        above=0,
    )


def prior_strength(default: float | str) -> Any:
    """Option: weight of the prior."""
    return option(
        default,
        'ridge: weight of the prior; feasible: factor on its precision; default 1. "held-out" and "l-curve" of earlier '
        "versions count as 1; `dynid retrieve` chooses it by the L-curve",
        above=0,
        choices=("held-out", "l-curve"),
    )
