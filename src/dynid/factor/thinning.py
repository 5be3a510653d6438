"""A share of a long log that every block of time has its part in, where all of it would not fit in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.signals.samples import Samples

# Fractional parts of its multiples fill the unit interval most evenly, so that a motion that repeats is met in all its
# phases, whatever its period (van der Corput and Kronecker sequences; Niederreiter 1992).
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


@dataclass(frozen=True)
class Stretches:
    """One stretch of consecutive samples in each block of time, as long as a share of the block.

    share: of the log, 0 to 1.    size: samples of a block, counted from the start of each segment.
    Stretches of a smaller share lie within those of a larger one.
    """

    share: float
    size: int

    @property
    def length(self) -> int:
        """Samples of a stretch."""
        return max(round(self.share * self.size), 1)

    def start(self, segment: int, number: int) -> int:
        """First sample of a block's stretch, counted from the start of the segment."""
        place = float((0.5 + GOLDEN * (number + segment)) % 1.0)
        return number * self.size + round(place * (self.size - self.length))

    def numbers(self, segment: int, index: Int) -> Int:
        """Number (T,) of the block whose stretch each sample of the segment lies in; -1 = in none."""
        block = index // self.size
        if self.share >= 1.0:
            return np.asarray(block)
        inside = np.full(len(index), -1)
        for number in np.unique(block).tolist():
            start = self.start(segment, number)
            inside[(block == number) & (index >= start) & (index < start + self.length)] = number
        return inside


def thinned(batches: Iterable[Samples], share: float, seconds: float, margin: int) -> Iterator[Samples]:
    """The stretches of a share of the log, with what a filter needs beside them.

    seconds: length of the blocks.    margin: samples on each side of a stretch that a filter needs.
    Arrays are copied, so that a stretch does not keep the window in memory that it was cut from.
    """
    for samples in batches:
        if share >= 1.0:
            yield samples
            continue
        stretches = Stretches(share, max(round(seconds * samples.rate), 1))
        last = (samples.first + len(samples) - 1) // stretches.size
        for number in range(samples.first // stretches.size, last + 1):
            start = stretches.start(samples.segment, number) - samples.first
            inside = np.zeros(len(samples), dtype=np.bool_)
            inside[max(start, 0) : max(start + stretches.length, 0)] = True
            kept = np.flatnonzero(inside & samples.keep)
            if len(kept):
                low, high = max(int(kept[0]) - margin, 0), int(kept[-1]) + 1 + margin
                yield _part(replace(samples, keep=inside & samples.keep), low, min(high, len(samples)))


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
