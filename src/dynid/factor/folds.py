"""Folds: blocks of time that are held out together, so that a model is judged on motion that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.factor.factor import Factor, Factors

# With two folds a fit uses half of the data, and one difference between folds has no spread.
LEAST_FOLDS = 3
# A fold of one block has training data on both sides, and filtered neighbours are correlated.
BLOCKS_A_FOLD = 2
LEAST_BLOCKS = LEAST_FOLDS * BLOCKS_A_FOLD


# Least share of a joint's motion for training in every fold: a model without it would not know its friction. Even
# motion leaves two thirds.
LEAST_MOTION = 1.0 / 3.0
# A joint rests in a block with less than this share of its motion.
STANDS = 0.01


@dataclass(frozen=True, eq=False)
class Fold:
    """Numbers of the blocks for the fit, and of the blocks that are held out, both ascending."""

    training: Int
    held_out: Int


def folds(counts: Sequence[float] | Float, wanted: int = 5, motion: Float | None = None) -> tuple[Fold, ...]:
    """Contiguous runs of whole blocks, each held out once, with about the same number of equations.

    If one run contained most of a joint's motion, as when joints move one after the other, each fold consists of
    several shorter runs: as few as leave LEAST_MOTION of the motion for training. Joints that move in one part only do
    not count, since no division shares their motion; `not_judged` excludes it.

    Parameters
    ----------
    counts : sequence of float, length M
        Equations per block.
    wanted : int
        Number of folds; at least LEAST_FOLDS are made, and at most as many as leave BLOCKS_A_FOLD blocks each.
    motion : ndarray, shape (M, n), optional
        Sums of squared joint velocities per block; None = unknown.

    Returns
    -------
    tuple of Fold
        Folds; () for fewer than LEAST_BLOCKS blocks, or if most joints move in one part only.

    """
    size = np.asarray(counts, dtype=np.float64)
    M = len(size)
    if M < LEAST_BLOCKS:
        return ()
    number = max(min(wanted, M // BLOCKS_A_FOLD), LEAST_FOLDS)
    run_counts = range(number, M + 1, number)
    if motion is None:
        return _dealt_folds(size, run_counts[0], number)
    moves = motion.sum(axis=0) > 0
    shared = _least_training_share(_dealt_folds(size, run_counts[-1], number), motion) >= LEAST_MOTION
    if 2 * int((shared & moves).sum()) < int(moves.sum()):
        return ()
    dealt = (_dealt_folds(size, runs, number) for runs in run_counts)
    return next(
        candidate
        for candidate in dealt
        if (_least_training_share(candidate, motion)[shared] >= LEAST_MOTION).all()
    )


def _dealt_folds(size: Float, runs: int, number: int) -> tuple[Fold, ...]:
    # Runs with about the same number of equations, distributed to the folds in turn.
    M = len(size)
    share = np.cumsum(np.maximum(size, 0.0))
    share = share / share[-1] if share[-1] > 0 else np.arange(1, M + 1) / M
    middle = share - 0.5 * np.diff(share, prepend=0.0)
    # A block belongs to the fold that contains its middle; every fold has a block.
    cuts = np.searchsorted(middle, np.arange(1, runs) / runs)
    for i in range(runs - 1):
        cuts[i] = min(max(cuts[i], 1 if i == 0 else cuts[i - 1] + 1), M - (runs - 1 - i))
    every = np.arange(M)
    parts = np.split(every, cuts)
    held_out = [np.concatenate(parts[k::number]) for k in range(number)]
    return tuple(Fold(np.setdiff1d(every, part), part) for part in held_out)


def _least_training_share(made: Sequence[Fold], motion: Float) -> Float:
    # Least share of each joint's motion (n,) for training; 1 for joints at rest.
    total = motion.sum(axis=0)
    training = np.min([motion[fold.training].sum(axis=0) for fold in made], axis=0)
    return np.where(total > 0, training / np.where(total > 0, total, 1.0), 1.0)


def not_judged(made: Sequence[Fold], motion: Float) -> Bool:
    """Held-out blocks (M, n) in which a joint moves, while the rest contains less than LEAST_MOTION of its motion.

    A fit to the rest cannot know the friction of that joint, so its error there is no fault of the model.
    motion: (M, n) as for `folds`.
    """
    total = motion.sum(axis=0)
    mask = np.zeros(motion.shape, dtype=np.bool_)
    for fold in made:
        unknown = motion[fold.training].sum(axis=0) < LEAST_MOTION * total
        mask[fold.held_out] = unknown & (motion[fold.held_out] > STANDS * total)
    return mask


def judged_equations(factors: Factors, made: Sequence[Fold]) -> Factors:
    """Factors on which fits to other blocks are judged, without the equations of `not_judged`.

    They are unchanged if the groups of equations are not the joints.
    """
    motion = factors.motion
    if motion is None or motion.shape[1] != len(factors.group_names):
        return factors
    masks = not_judged(made, motion)
    if not masks.any():
        return factors
    blocks = tuple(
        replace(
            block,
            groups=tuple(
                Factor.empty(f.columns) if out else f for f, out in zip(block.groups, block_mask, strict=True)
            ),
        )
        if block_mask.any()
        else block
        for block, block_mask in zip(factors.blocks, masks, strict=True)
    )
    return replace(factors, blocks=blocks)


def moved_once(factors: Factors, made: Sequence[Fold]) -> tuple[str, ...]:
    """Joints with less than LEAST_MOTION of their motion in judged blocks."""
    motion = factors.motion
    if motion is None or motion.shape[1] != len(factors.group_names):
        return ()
    judged_motion = np.where(not_judged(made, motion), 0.0, motion).sum(axis=0)
    few = judged_motion < LEAST_MOTION * motion.sum(axis=0)
    return tuple(name for name, is_few in zip(factors.group_names, few, strict=True) if is_few)


def can_hold_out(factors: Factors) -> bool:
    """Whether blocks can be held out in turn, each judged by a fit that knows the motion of the joints."""
    return bool(folds_of(factors))


def folds_of(factors: Factors, wanted: int = 5) -> tuple[Fold, ...]:
    """Folds of the blocks of factors; in a motion that repeats, each consists of the same parts of every repetition."""
    together, counts, motion = factors.repetitions(), block_counts(factors), factors.motion
    part_folds = folds(
        np.array([counts[numbers].sum() for numbers in together]),
        wanted,
        None if motion is None else np.array([motion[numbers].sum(axis=0) for numbers in together]),
    )

    def blocks(parts: Int) -> Int:
        return np.sort(np.concatenate([together[k] for k in parts]))

    return tuple(Fold(blocks(fold.training), blocks(fold.held_out)) for fold in part_folds)


def folds_of_samples(block: Int, dq: Float, wanted: int) -> tuple[Fold, ...]:
    """Folds of the blocks that samples belong to.

    If most joints move in one part only, the folds are contiguous runs.

    Parameters
    ----------
    block : ndarray of int, shape (N,)
        Block of each sample.
    dq : ndarray, shape (N, n), rad/s (m/s)
        Velocities.
    wanted : int
        Number of folds.

    Returns
    -------
    tuple of Fold
        Folds.

    """
    M = int(block.max(initial=-1)) + 1
    counts = np.bincount(block, minlength=M).astype(np.float64)
    return folds(counts, wanted, motion_of_samples(block, dq)) or folds(counts, wanted)


def motion_of_samples(block: Int, dq: Float) -> Float:
    """Sums (M, n) of squared velocities (N, n) by block (N,)."""
    M = int(block.max(initial=-1)) + 1
    return np.stack([np.bincount(block, line**2, minlength=M) for line in dq.T], axis=1).astype(np.float64)


def block_counts(factors: Factors) -> Float:
    """Number of equations (M,) per block, over all groups."""
    return np.array([float(sum(group.count for group in block.groups)) for block in factors.blocks])


def why_none_held_out(M: int) -> str:
    """Why `folds` makes no fold of M blocks, as words of a message."""
    if M < LEAST_BLOCKS:
        return f"{_count(M)} are too few to hold any out; at least {LEAST_BLOCKS} are needed"
    return (
        f"{_count(M)}, but most joints move in one part only, and a fit without it cannot know their friction"
    )


def too_few_blocks(M: int) -> UnfitDataError:
    """Error for blocks of which `folds` makes no fold."""
    few = M < LEAST_BLOCKS
    return UnfitDataError(
        "too-short-to-hold-out",
        found=_count(M) if few else why_none_held_out(M),
        expected=f"at least {LEAST_BLOCKS}, to hold {LEAST_FOLDS} parts out in turn"
        if few
        else "joints that move in several parts of the log",
        do="use a longer log, a shorter block_seconds, or validate on another log",
    )


def _count(M: int) -> str:
    return f"{M} {'block' if M == 1 else 'blocks'} of data"


# Comparison of models on held-out blocks: the simplest that is as good as the best.


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model and its held-out error.

    Attributes
    ----------
    name : str
        Name.
    parameters : float
        Number of linear and nonlinear parameters; fewer = simpler.
    squares : ndarray, shape (M,)
        Squared error of each block or fold, by a fit without it; nan = it could not be fitted.

    """

    name: str
    parameters: float
    squares: Float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Candidates compared with the best one.

    Attributes
    ----------
    candidates : tuple of Candidate
        Candidates.
    best, chosen : int
        Index of the best and of the chosen candidate.
    excess : ndarray, shape (k,)
        Squared error minus that of the best candidate.
    excess_std : ndarray, shape (k,)
        Its standard error over blocks.
    within : ndarray of bool, shape (k,)
        Whether a candidate is as good as the best.

    """

    candidates: tuple[Candidate, ...]
    best: int
    chosen: int
    excess: Float
    excess_std: Float
    within: Bool

    @property
    def winner(self) -> Candidate:
        """Chosen candidate."""
        return self.candidates[self.chosen]


def compare(
    candidates: Sequence[Candidate],
    counts: Sequence[float] | Float,
    errors: float = 1.0,
    negligible: float = 0.0,
    noticeable: float = np.inf,
) -> Comparison:
    """Simplest candidate whose held-out squared error is that of the best one within its standard error.

    Of equally simple candidates the first is chosen whose error is the best one's but for a negligible share, else the
    one with the smallest error.

    Parameters
    ----------
    candidates : sequence of Candidate
        Candidates.
    counts : sequence of float, length M
        Equations per block.
    errors : float
        Number of standard errors of the paired difference that count as chance.
    negligible : float
        Share of the error of the best candidate that does not matter.
    noticeable : float
        Share that matters, however uncertain.

    Returns
    -------
    Comparison
        Comparison.

    References
    ----------
    Breiman et al. 1984 (rule of one standard error), with paired differences over blocks.

    """
    size = np.asarray(counts, dtype=np.float64)
    total = np.array([float(np.sum(candidate.squares)) for candidate in candidates])
    best = int(np.argmin(np.where(np.isnan(total), np.inf, total)))
    excess = total - total[best]
    spread = np.array(
        [standard_error(candidate.squares - candidates[best].squares, size) for candidate in candidates]
    )
    chance = np.minimum(errors * spread, noticeable * total[best])
    within = excess <= np.maximum(chance, negligible * total[best])
    within[best] = True
    # Errors count to six digits, so that rounding decides nothing.
    error = [
        0.0 if excess[i] <= negligible * total[best] else float(f"{total[i]:.6g}") for i in range(len(total))
    ]
    chosen = min(np.flatnonzero(within).tolist(), key=lambda i: (candidates[i].parameters, error[i], i))
    return Comparison(tuple(candidates), best, chosen, excess, spread, within)


def gain(without: Float, squares: Float, counts: Float) -> tuple[float, float]:
    """Relative reduction of the held-out squared error by a model, and its standard error over blocks.

    Parameters
    ----------
    without, squares : ndarray, shape (M,)
        Squared errors without and with the model.
    counts : ndarray, shape (M,)
        Equations per block.

    Returns
    -------
    tuple of two floats
        Reduction and standard error; 0 and 0 if the error without the model is zero.

    """
    whole, less = float(without.sum()), without - squares
    if whole <= 0:
        return 0.0, 0.0
    return float(less.sum()) / whole, standard_error(less, counts) / whole


def standard_error(sums: Float, counts: Float) -> float:
    """Standard error of a sum over blocks of unequal size, with independent blocks (ratio estimator).

    sums: (M,).    counts: (M,) equations per block; blocks without any are ignored.
    """
    used = counts > 0
    x, n = sums[used], counts[used]
    M = len(x)
    if M < 2:
        return 0.0
    spread = x - n * x.sum() / n.sum()
    return float(np.sqrt(M / (M - 1) * (spread @ spread)))
