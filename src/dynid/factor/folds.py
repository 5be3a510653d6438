"""Folds: which blocks of time are left out together, so that a model is judged on motion that it was not fitted on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.factor.factor import Factor, Factors

# With two folds a model is fitted on half of the data, and one difference between folds has no spread.
LEAST_FOLDS = 3
# A fold of a single block borders on training data on both sides: filtered neighbours are correlated.
BLOCKS_A_FOLD = 2
LEAST_BLOCKS = LEAST_FOLDS * BLOCKS_A_FOLD


# Of a joint's motion, this share has to be left to train on whichever fold is held out: a joint that moved in the
# held-out part alone would be judged by a model that never saw its friction. Even motion leaves two thirds.
LEAST_MOTION = 1.0 / 3.0
# A block with less than this share of a joint's motion is one in which it stands.
STANDS = 0.01


@dataclass(frozen=True, eq=False)
class Fold:
    """Numbers of the blocks that a model is fitted on, and of those that it is then judged on, both ascending."""

    training: Int
    held_out: Int


def folds(counts: Sequence[float] | Float, wanted: int = 5, motion: Float | None = None) -> tuple[Fold, ...]:
    """Contiguous runs of whole blocks, each held out once, with about as many equations each.

    counts: (M,) equations by block.    wanted: number of folds; at least LEAST_FOLDS are made, and at most as many as
    leave BLOCKS_A_FOLD blocks for each.    motion: (M, n) sums of the joints' squared velocities by block, None = not
    known. Where one run would hold most of a joint's motion, as of joints that move one after the other, each fold is
    of several shorter runs, dealt in turn: as few as leave LEAST_MOTION of it to train on. Joints that move but once
    do not count: no cut shares out their motion, and `not_judged` leaves it out.    Deterministic.
    Returns () where nothing can be compared: for fewer than LEAST_BLOCKS blocks, or if most joints move but once.
    """
    size = np.asarray(counts, dtype=np.float64)
    M = len(size)
    if M < LEAST_BLOCKS:
        return ()
    number = max(min(wanted, M // BLOCKS_A_FOLD), LEAST_FOLDS)
    tried = range(number, M + 1, number)
    if motion is None:
        return _dealt(size, tried[0], number)
    moves = motion.sum(axis=0) > 0
    shared = _left(_dealt(size, tried[-1], number), motion) >= LEAST_MOTION
    if 2 * int((shared & moves).sum()) < int(moves.sum()):
        return ()
    dealt = (_dealt(size, runs, number) for runs in tried)
    return next(made for made in dealt if (_left(made, motion)[shared] >= LEAST_MOTION).all())


def _dealt(size: Float, runs: int, number: int) -> tuple[Fold, ...]:
    # Runs with about as many equations each, dealt to so many folds in turn.
    M = len(size)
    share = np.cumsum(np.maximum(size, 0.0))
    share = share / share[-1] if share[-1] > 0 else np.arange(1, M + 1) / M
    middle = share - 0.5 * np.diff(share, prepend=0.0)
    # A block belongs to the fold in which its middle lies; none is left without a block.
    cuts = np.searchsorted(middle, np.arange(1, runs) / runs)
    for i in range(runs - 1):
        cuts[i] = min(max(cuts[i], 1 if i == 0 else cuts[i - 1] + 1), M - (runs - 1 - i))
    every = np.arange(M)
    parts = np.split(every, cuts)
    held_out = [np.concatenate(parts[k::number]) for k in range(number)]
    return tuple(Fold(np.setdiff1d(every, part), part) for part in held_out)


def _left(made: Sequence[Fold], motion: Float) -> Float:
    # Least share of each joint's motion (n,) that is left to train on; 1 of joints that do not move.
    total = motion.sum(axis=0)
    left = np.min([motion[fold.training].sum(axis=0) for fold in made], axis=0)
    return np.where(total > 0, left / np.where(total > 0, total, 1.0), 1.0)


def not_judged(made: Sequence[Fold], motion: Float) -> Bool:
    """Where (M, n) a joint moves in a block that is held out, and the rest holds less than LEAST_MOTION of its motion.

    A fit to the rest knows next to nothing of that joint's friction: what it misses there is no fault of the model.
    motion: (M, n) as of `folds`.
    """
    total = motion.sum(axis=0)
    mask = np.zeros(motion.shape, dtype=np.bool_)
    for fold in made:
        unknown = motion[fold.training].sum(axis=0) < LEAST_MOTION * total
        mask[fold.held_out] = unknown & (motion[fold.held_out] > STANDS * total)
    return mask


def judged_equations(factors: Factors, made: Sequence[Fold]) -> Factors:
    """Factors to judge fits to other blocks on: without the equations of joints of `not_judged`.

    As they are where groups of equations are not the joints.
    """
    motion = factors.motion
    if motion is None or motion.shape[1] != len(factors.group_names):
        return factors
    gone = not_judged(made, motion)
    if not gone.any():
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
        for block, block_mask in zip(factors.blocks, gone, strict=True)
    )
    return replace(factors, blocks=blocks)


def moved_once(factors: Factors, made: Sequence[Fold]) -> tuple[str, ...]:
    """Joints of whose motion less than LEAST_MOTION is judged: the rest shows them at rest."""
    motion = factors.motion
    if motion is None or motion.shape[1] != len(factors.group_names):
        return ()
    seen = np.where(not_judged(made, motion), 0.0, motion).sum(axis=0)
    few = seen < LEAST_MOTION * motion.sum(axis=0)
    return tuple(name for name, is_few in zip(factors.group_names, few, strict=True) if is_few)


def can_hold_out(factors: Factors) -> bool:
    """Whether blocks can be held out in turn, each part judged by a fit to the others that knows the joints' motion."""
    return bool(folds_of(factors))


def folds_of(factors: Factors, wanted: int = 5) -> tuple[Fold, ...]:
    """Folds of the blocks of factors; of a motion that repeats, each of the same parts of every repetition."""
    together, counts, motion = factors.repetitions(), block_counts(factors), factors.motion
    made = folds(
        np.array([counts[those].sum() for those in together]),
        wanted,
        None if motion is None else np.array([motion[those].sum(axis=0) for those in together]),
    )

    def blocks(parts: Int) -> Int:
        return np.sort(np.concatenate([together[k] for k in parts]))

    return tuple(Fold(blocks(fold.training), blocks(fold.held_out)) for fold in made)


def folds_by_time(factors: Factors, wanted: int = 5) -> tuple[Fold, ...]:
    """Folds of the blocks of factors, contiguous in time whether the motion repeats or not."""
    return folds(block_counts(factors), wanted, factors.motion)


def folds_of_samples(block: Int, dq: Float, wanted: int) -> tuple[Fold, ...]:
    """Folds of the blocks (N,) that samples lie in, whose velocities (N, n) say where the joints move.

    Where most joints move but once the folds are contiguous runs all the same.
    """
    M = int(block.max(initial=-1)) + 1
    counts = np.bincount(block, minlength=M).astype(np.float64)
    return folds(counts, wanted, motion_of_samples(block, dq)) or folds(counts, wanted)


def motion_of_samples(block: Int, dq: Float) -> Float:
    """(M, n) sums of squared velocities (N, n) by block (N,)."""
    M = int(block.max(initial=-1)) + 1
    return np.stack([np.bincount(block, line**2, minlength=M) for line in dq.T], axis=1).astype(np.float64)


def block_counts(factors: Factors) -> Float:
    """(M,) number of equations by block, all groups together."""
    return np.array([float(sum(group.count for group in block.groups)) for block in factors.blocks])


def why_none_held_out(M: int) -> str:
    """Why `folds` makes none of so many blocks, as words of a message."""
    if M < LEAST_BLOCKS:
        return f"{_count(M)} are too few to hold any out, which takes {LEAST_BLOCKS}"
    return f"{_count(M)}, in which most joints move but once: without that part nothing is known of their friction"


def too_few_blocks(M: int) -> UnfitDataError:
    """The error of blocks of which `folds` makes none."""
    few = M < LEAST_BLOCKS
    return UnfitDataError(
        "too-short-to-hold-out",
        found=_count(M) if few else why_none_held_out(M),
        expected=f"at least {LEAST_BLOCKS}, to hold {LEAST_FOLDS} parts out in turn"
        if few
        else "joints that move at several times",
        do="take a longer log, a shorter block_seconds, or validate on another log",
    )


def _count(M: int) -> str:
    return f"{M} {'block' if M == 1 else 'blocks'} of data"


# Models compared on blocks of time that none of them was fitted on: the simplest that is as good as the
# best.


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model with what it misses on held-out data.

    parameters: how many it has, linear and nonlinear; fewer = simpler.
    squares: (M,) squared error of each block, or fold, by a fit that has not seen it; nan = it could not be fitted.
    """

    name: str
    parameters: float
    squares: Float


@dataclass(frozen=True, eq=False)
class Comparison:
    """Candidates beside the best one.

    best, chosen: places among the candidates.    excess: (k,) squared error in excess of the best one's.
    excess_std: (k,) its standard error over blocks.    within: (k,) whether a candidate is as good as the best.
    """

    candidates: tuple[Candidate, ...]
    best: int
    chosen: int
    excess: Float
    excess_std: Float
    within: Bool

    @property
    def winner(self) -> Candidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]


def compare(
    candidates: Sequence[Candidate],
    counts: Sequence[float] | Float,
    errors: float = 1.0,
    negligible: float = 0.0,
    noticeable: float = np.inf,
) -> Comparison:
    """The simplest candidate whose held-out squared error is that of the best one within its standard error.

    counts: (M,) equations by block.    errors: how many standard errors of the paired difference count as chance.
    negligible: share of the best one's error that is of no account.    noticeable: share that is, however unsure.
    Simple = few parameters; of equally simple ones the one that misses least is chosen, then the first.
    Source: Breiman et al. 1984 (rule of one standard error), with paired differences over blocks.
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
    # Rounding decides nothing: errors count to six digits.
    chosen = min(
        np.flatnonzero(within).tolist(), key=lambda i: (candidates[i].parameters, float(f"{total[i]:.6g}"), i)
    )
    return Comparison(tuple(candidates), best, chosen, excess, spread, within)


def gain(without: Float, squares: Float, counts: Float) -> tuple[float, float]:
    """What a model misses less than another, as a share of what that one misses, and its standard error over blocks.

    without, squares: (M,) held-out squared errors of the other and of the model.    counts: (M,) equations by block.
    Nothing is less than what misses nothing: 0 and 0 then.
    """
    whole, less = float(without.sum()), without - squares
    if whole <= 0:
        return 0.0, 0.0
    return float(less.sum()) / whole, standard_error(less, counts) / whole


def standard_error(sums: Float, counts: Float) -> float:
    """Standard error of a sum over blocks of unlike size, blocks being independent (ratio estimator).

    sums: (M,).    counts: (M,) equations by block; blocks without any are left out.
    """
    used = counts > 0
    x, n = sums[used], counts[used]
    M = len(x)
    if M < 2:
        return 0.0
    spread = x - n * x.sum() / n.sum()
    return float(np.sqrt(M / (M - 1) * (spread @ spread)))
