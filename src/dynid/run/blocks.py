"""How a log is cut into blocks, and the share of a long one that is looked at."""

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

# Samples on which models are compared, and shapes estimated, in dozens of passes: seven minutes of a 7-joint arm at 100
# samples a second, in which every block of time has its part. They cost half of the pass over an hour at 1 kHz.
TRIAL_BYTES = 10e6
# Residuals that are kept: of a longer log those of a stretch of every block. Scores are sums over all samples.
RESIDUAL_BYTES = 20e6
# A block is a sixtieth of the data, but at least so many periods of the highest frequency kept. Where that leaves fewer
# blocks than this, blocks are shorter, down to two periods: twenty give a standard error that is known to a sixth and
# three folds or more of several blocks, and intervals keep their coverage (benchmarks/coverage.py --short).
BLOCKS_WANTED, FEW_BLOCKS = 60, 20
# Parts of a motion that repeats, however often it does: a fault of the log has to gain three standard errors over them,
# which twenty seldom show where some hold most of it; with fewer than ten none is known well enough. And blocks of the
# log in all, each of which is kept with a triangle a joint.
PARTS, LEAST_PARTS, MOST_BLOCKS = 30, 10, 240
BLOCK_CYCLES, LEAST_CYCLES = 8.0, 2.0
# Of a log, at rest: above it blocks are of the motion alone. Below it half of them hold motion at least, which are
# enough, and blocks do not change with the seconds before and after a motion.
MOSTLY = 0.5


@dataclass(frozen=True)
class Rest:
    """In which all joints stand.    seconds: of the log.    left_out: those of them that are in no equation, s."""

    seconds: float = 0.0
    left_out: float = 0.0


def block_seconds(prepared: Prepared, wanted: float | None = None, still: float = 0.0) -> float:
    """Length of a block, s.

    wanted: what was asked for; None = from the log.    still: seconds at rest.
    Raises UsageError for less than one period of the cut-off frequency, within which filtered samples are as one.
    """
    chosen = usual_block(_seconds_of_motion(prepared, still), prepared.bandwidth)
    least = 1.0 / prepared.bandwidth
    if wanted is not None and wanted < least:
        raise UsageError(
            "block-seconds",
            found=f"block_seconds = {wanted:g} s at a cut-off frequency of {prepared.bandwidth:g} Hz",
            expected=f"at least {least:.2g} s, one period: blocks count as independent, and filtered samples that lie "
            "closer together are not",
            do=f"leave it out ({chosen:.3g} s for this log), or take {LEAST_CYCLES * least:.2g} s or more",
        )
    return chosen if wanted is None else wanted


def _seconds_of_motion(prepared: Prepared, still: float) -> float:
    # Of a robot that stands most of the time, blocks a sixtieth of the log long would hold all its motion in a few.
    stands = still > MOSTLY * prepared.duration
    return prepared.duration - still if stands else prepared.duration


def blocks_of(
    repeated: Mapping[str, Repetition],
    prepared: Prepared,
    wanted: float | None = None,
    still: float = 0.0,
    gaps: int = 0,
) -> Blocking:
    """How a log is cut into blocks: of a motion that is gone through more than once, into its parts.

    The same parts of all repetitions are held out together: PARTS of them, or fewer, down to LEAST_PARTS, where they
    would be too short to count as independent. Where even these are, blocks go by time.
    wanted: length of a block that was asked for, s.    still: seconds at rest.    gaps: in the log, across which no
    block goes.
    Raises UsageError as `block_seconds`.
    """
    seconds, together = block_seconds(prepared, wanted, still), 1
    names = {one.name for one in prepared.log.trajectories}
    within = names == set(repeated) and all(np.isfinite(one.period) for one in repeated.values())
    within &= LEAST_PARTS * (gaps + len(names)) <= MOST_BLOCKS
    if repeated and wanted is None:
        shortest = min(one.seconds for one in repeated.values())
        most = shortest * prepared.bandwidth / LEAST_CYCLES
        moving = min(_seconds_of_motion(prepared, still), _on_their_clocks(repeated, prepared))
        # What is no repetition within a trajectory, or is broken by gaps, has blocks of its own.
        most = min(most, MOST_BLOCKS / (gaps + len(names)) if within else MOST_BLOCKS * shortest / moving)
        parts = math.floor(min(max(PARTS, shortest / seconds), most))
        if parts >= LEAST_PARTS:
            seconds = shortest / parts
            together = max(math.ceil(moving / seconds / MOST_BLOCKS), 1) if within else 1
    held_out = {name: one for name, one in repeated.items() if one.seconds > (LEAST_PARTS - 0.5) * seconds}
    return Blocking(seconds, held_out, _fewest(held_out, prepared) if within else 0.0, together)


def _on_their_clocks(repeated: Mapping[str, Repetition], prepared: Prepared) -> float:
    """Seconds of the log less the pauses that last otherwise in each repetition."""
    return sum(
        repeated[one.name].between(one.start_time, one.end_time)
        if one.name in repeated
        else one.end_time - one.start_time
        for one in prepared.log.trajectories
    )


def _fewest(repeated: Mapping[str, Repetition], prepared: Prepared) -> float:
    """How often the motion is gone through that is least often."""
    times: dict[int, float] = {}
    for one in prepared.log.trajectories:
        if one.name in repeated:
            own = repeated[one.name]
            times[own.motion] = (
                times.get(own.motion, 0.0) + own.between(one.start_time, one.end_time) / own.period
            )
    return min(times.values(), default=0.0)


def usual_block(seconds: float, bandwidth: float) -> float:
    """Length of a block, s, of so many seconds of data up to a frequency, Hz.

    A sixtieth of the data, at least eight periods; of a short log a twentieth, at least two periods. What the filter
    correlates is half a period long, and blocks count as independent from four such times on.
    """
    period = 1.0 / bandwidth
    least = min(BLOCK_CYCLES * period, max(seconds / FEW_BLOCKS, LEAST_CYCLES * period))
    return max(seconds / BLOCKS_WANTED, least)


def block_of_motion(batches: Iterable[Samples], bandwidth: float) -> float:
    """Length of a block, s, of some samples of a log, up to a frequency, Hz: by what they hold of motion alone."""
    return usual_block(sum(float(samples.keep.sum()) / samples.rate for samples in batches), bandwidth)


def share_to_choose_on(prepared: Prepared, still: float = 0.0) -> float:
    """The share of a log on which models are compared: its samples take TRIAL_BYTES; 1 = all of it.

    still: seconds at rest that are left out.
    """
    return min(TRIAL_BYTES / max(sample_bytes(prepared, still), 1.0), 1.0)


def share_to_keep(prepared: Prepared) -> float:
    """The share of a log whose residuals are kept: they take RESIDUAL_BYTES; 1 = all of them."""
    rows = prepared.duration * prepared.rate / prepared.parallel_filter().decimation
    return min(RESIDUAL_BYTES / max(rows * 8.0 * (5 * prepared.joints + 3), 1.0), 1.0)


def sample_bytes(prepared: Prepared, still: float = 0.0) -> float:
    """Memory that the samples of a log take."""
    return (prepared.duration - still) * prepared.rate * 8.0 * (4 * prepared.joints + 4)
