"""A share of a long log that every block of time has its part in, where all of it would not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.factor.blocking import Blocking
from dynid.signals.samples import Samples

# Fractional parts of its multiples fill the unit interval most evenly, so that a motion that repeats is met in all its
# phases, whatever its period (van der Corput and Kronecker sequences; Niederreiter 1992).
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


# Of any so many consecutive multiples of the golden section, over the share, the fractional part of one is below it.
GAP = 3.0


@dataclass(frozen=True)
class Stretches:
    """Stretches of consecutive samples that are a share of a log.

    share: of the log, 0 to 1.    size: samples of a block, counted from the start of each segment.
    whole: whether some blocks are taken as they are; otherwise of each a stretch as long as a share of it.
    Stretches of a smaller share lie within those of a larger one.
    """

    share: float
    size: float
    whole: bool = False

    @staticmethod
    def of(share: float, blocks: Blocking, samples: Samples, within: float = 1.0) -> Stretches:
        """Those of a share of a batch that are a share of the samples `within` a larger one.

        Of a motion that repeats often enough whole repetitions are taken, each of which, wherever it begins, goes
        through all of the motion; otherwise stretches of each block.
        """
        repetition = blocks.repeated.get(samples.trajectory)
        size = float(max(round(blocks.seconds * samples.rate), 1))
        if repetition is None or not np.isfinite(repetition.period):
            return Stretches(share * within, size)
        if share * within * blocks.repetitions >= GAP:
            return Stretches(share * within, repetition.period * samples.rate, whole=True)
        return Stretches(share if within * blocks.repetitions >= GAP else share * within, size)

    def numbers(self, segment: int, index: Float | Int) -> Int:
        """Number (T,) of the block whose stretch each sample of the segment lies in; -1 = in none.

        index: (T,) samples since the segment began, see `Blocking.index`.
        """
        block = (index // self.size).astype(np.int64)
        if self.share >= 1.0:
            return np.asarray(block)
        if self.whole:
            return np.where((GOLDEN * (block + segment)) % 1.0 < self.share, block, -1)
        size, length = round(self.size), max(round(self.share * self.size), 1)
        start = block * size + np.round((0.5 + GOLDEN * (block + segment)) % 1.0 * (size - length)).astype(
            np.int64
        )
        return np.where((index >= start) & (index < start + length), block, -1)


def thinned(
    batches: Iterable[Samples], share: float, blocks: Blocking, margin: int, within: float = 1.0
) -> Iterator[Samples]:
    """The stretches of a share of the log, with what a filter needs beside them.

    margin: samples on each side of a stretch that a filter needs.    within: the share of the log that the batches are.
    Arrays are copied, so that a stretch does not keep the window in memory that it was cut from.
    """
    for samples in batches:
        if share >= 1.0:
            yield samples
            continue
        stretches = Stretches.of(share, blocks, samples, within)
        own = stretches.numbers(samples.segment, blocks.index(samples, np.arange(len(samples))))
        for number in np.unique(own[own >= 0]).tolist():
            inside = (own == number) & samples.keep
            kept = np.flatnonzero(inside)
            if len(kept):
                low, high = max(int(kept[0]) - margin, 0), int(kept[-1]) + 1 + margin
                yield _part(replace(samples, keep=inside), low, min(high, len(samples)))


def _part(samples: Samples, start: int, stop: int) -> Samples:
    cut = samples.part(start, stop)

    def own(values: Float | None) -> Float | None:
        return None if values is None else values.copy()

    return replace(
        cut,
        t=cut.t.copy(),
        q=cut.q.copy(),
        dq=cut.dq.copy(),
        ddq=cut.ddq.copy(),
        tau=cut.tau.copy(),
        keep=cut.keep.copy(),
        theta=own(cut.theta),
        dtheta=own(cut.dtheta),
        ddtheta=own(cut.ddtheta),
        temperature=own(cut.temperature),
        gate=None if cut.gate is None else cut.gate.copy(),
        extra={name: values.copy() for name, values in cut.extra.items()},
        past=None if samples.past is None else samples.past.after(samples.motor.q[:start]),
    )
