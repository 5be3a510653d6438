"""How a log is split into blocks, and which share of a long log is used."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

import numpy as np

from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.factor.blocking import Blocking
from dynid.signals.prepare import Prepared
from dynid.signals.repetition import Repetition
from dynid.signals.samples import Samples

# bytes: samples for comparing models and estimating nonlinear parameters, in dozens of passes. Seven minutes of a
# 7-joint arm at 100 Hz; every block of time contributes. Costs half as much as one pass over an hour at 1 kHz.
TRIAL_BYTES = 10e6
# bytes: residuals that are kept. A longer log keeps a part of every block; scores are sums over all samples.
RESIDUAL_BYTES = 20e6
# A block is 1/60 of the data, but at least BLOCK_CYCLES periods of the highest frequency kept. If that gives fewer than
# FEW_BLOCKS blocks, blocks are shorter, down to LEAST_CYCLES periods: 20 blocks give a standard error accurate to 1/6
# and at least three folds, and intervals keep their coverage (benchmarks/coverage.py --short).
BLOCKS_WANTED, FEW_BLOCKS = 60, 20
# Parts of a motion that repeats: an effect of the log must gain three standard errors over them, which 20 parts seldom
# show if a few carry most of it; below 10 the standard error is too uncertain. MOST_BLOCKS bounds the memory: each
# block keeps a triangle per joint.
PARTS, LEAST_PARTS, MOST_BLOCKS = 30, 10, 240
BLOCK_CYCLES, LEAST_CYCLES = 8.0, 2.0
# Share of a log at rest above which block length follows from the motion alone. Below it at least half of the blocks
# have motion, which is enough, and blocks do not depend on the rest before and after a motion.
MOSTLY = 0.5


@dataclass(frozen=True)
class Rest:
    """Time in which all joints are at rest, s; left_out: the part of it that is in no equation, s."""

    seconds: float = 0.0
    left_out: float = 0.0


def block_seconds(prepared: Prepared, wanted: float | None = None, still: float = 0.0) -> float:
    """Length of a block, s.

    Parameters
    ----------
    prepared : Prepared
        The log with its signal settings.
    wanted : float, s, optional
        Requested length; None = from the log.
    still : float, s
        Time at rest.

    Returns
    -------
    float, s

    Raises
    ------
    UsageError
        For less than one period of the cutoff frequency, within which filtered samples are not independent.

    """
    chosen = usual_block(_seconds_of_motion(prepared, still), prepared.bandwidth)
    least = 1.0 / prepared.bandwidth
    if wanted is not None and wanted < least:
        raise UsageError(
            "block-seconds",
            found=f"block_seconds = {wanted:g} s at a cutoff frequency of {prepared.bandwidth:g} Hz",
            expected=f"at least {least:.2g} s (one period): filtered samples closer together are not independent",
            do=f"leave it out ({chosen:.3g} s for this log), or use {LEAST_CYCLES * least:.2g} s or more",
        )
    return chosen if wanted is None else wanted


def _seconds_of_motion(prepared: Prepared, still: float) -> float:
    # For a robot at rest most of the time, blocks of 1/60 of the log would put all motion into a few blocks.
    mostly_at_rest = still > MOSTLY * prepared.duration
    return prepared.duration - still if mostly_at_rest else prepared.duration


def blocks_of(
    repeated: Mapping[str, Repetition],
    prepared: Prepared,
    wanted: float | None = None,
    still: float = 0.0,
    gaps: int = 0,
) -> Blocking:
    """How a log is split into blocks; a repeated motion is split into its parts.

    The same part of all repetitions is held out together. There are PARTS parts, or fewer (at least LEAST_PARTS) if
    they would be too short to be independent. If even these are too short, blocks are split by time.

    `repeated`: repeated motions, by trajectory; `prepared`: the log with its signal settings; `wanted` in s: requested
    length of a block; `still` in s: time at rest; `gaps`: gaps in the log; no block spans a gap. Raises UsageError as
    `block_seconds`.
    """
    seconds, together = block_seconds(prepared, wanted, still), 1
    names = {trajectory.name for trajectory in prepared.log.trajectories}
    within = names == set(repeated) and all(
        np.isfinite(repetition.period) for repetition in repeated.values()
    )
    within &= LEAST_PARTS * (gaps + len(names)) <= MOST_BLOCKS
    if repeated and wanted is None:
        shortest = min(repetition.seconds for repetition in repeated.values())
        most = shortest * prepared.bandwidth / LEAST_CYCLES
        moving = min(_seconds_of_motion(prepared, still), _seconds_on_common_clock(repeated, prepared))
        # Motion that is not repeated, or is broken by gaps, has its own blocks.
        most = min(most, MOST_BLOCKS / (gaps + len(names)) if within else MOST_BLOCKS * shortest / moving)
        parts = math.floor(min(max(PARTS, shortest / seconds), most))
        if parts >= LEAST_PARTS:
            seconds = shortest / parts
            together = max(math.ceil(moving / seconds / MOST_BLOCKS), 1) if within else 1
    long_enough = (LEAST_PARTS - 0.5) * seconds
    held_out = {name: repetition for name, repetition in repeated.items() if repetition.seconds > long_enough}
    return Blocking(seconds, held_out, _fewest_repetitions(held_out, prepared) if within else 0.0, together)


def _seconds_on_common_clock(repeated: Mapping[str, Repetition], prepared: Prepared) -> float:
    """Duration of the log, s, without the pauses whose length differs between repetitions."""
    return sum(
        repeated[trajectory.name].between(trajectory.start_time, trajectory.end_time)
        if trajectory.name in repeated
        else trajectory.end_time - trajectory.start_time
        for trajectory in prepared.log.trajectories
    )


def _fewest_repetitions(repeated: Mapping[str, Repetition], prepared: Prepared) -> float:
    """Number of repetitions of the motion that is repeated least often."""
    times: dict[int, float] = {}
    for trajectory in prepared.log.trajectories:
        if trajectory.name in repeated:
            repetition = repeated[trajectory.name]
            times[repetition.motion] = (
                times.get(repetition.motion, 0.0)
                + repetition.between(trajectory.start_time, trajectory.end_time) / repetition.period
            )
    return min(times.values(), default=0.0)


def usual_block(seconds: float, bandwidth: float) -> float:
    """Usual length of a block, s, for data of a duration (s) up to a frequency (Hz).

    1/60 of the data, at least eight periods; for a short log 1/20, at least two periods. The filter correlates samples
    over half a period, and blocks count as independent from four times that on.
    """
    period = 1.0 / bandwidth
    least = min(BLOCK_CYCLES * period, max(seconds / FEW_BLOCKS, LEAST_CYCLES * period))
    return max(seconds / BLOCKS_WANTED, least)


def block_of_motion(batches: Iterable[Samples], bandwidth: float) -> float:
    """Usual length of a block, s, from the samples in motion alone; bandwidth: Hz."""
    return usual_block(sum(float(samples.keep.sum()) / samples.rate for samples in batches), bandwidth)


def share_to_choose_on(prepared: Prepared, still: float = 0.0) -> float:
    """Share of a log on which models are compared, 0 to 1: its samples take TRIAL_BYTES.

    still: time at rest that is left out, s.
    """
    return min(TRIAL_BYTES / max(sample_bytes(prepared, still), 1.0), 1.0)


def share_to_keep(prepared: Prepared) -> float:
    """Share of a log whose residuals are kept, 0 to 1: they take RESIDUAL_BYTES."""
    rows = prepared.duration * prepared.rate / prepared.parallel_filter().decimation
    return min(RESIDUAL_BYTES / max(rows * 8.0 * (5 * prepared.joints + 3), 1.0), 1.0)


def sample_bytes(prepared: Prepared, still: float = 0.0) -> float:
    """Memory of the samples of a log, bytes."""
    return (prepared.duration - still) * prepared.rate * 8.0 * (4 * prepared.joints + 4)
