"""How a log is cut into blocks: by time, or, of a motion that repeats, by its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Int
from dynid.base.records import dataclass
from dynid.factor.factor import Block
from dynid.signals.repetition import Repetition
from dynid.signals.samples import Samples


@dataclass(frozen=True)
class Blocking:
    """How a log is cut into blocks.

    seconds: length of a block.    repeated: trajectories whose motion is gone through more than once, by name: they are
    cut into parts of the motion, about as long.
    repetitions: of the motion that is gone through least often, within its trajectories.    together: consecutive ones
    of which a part is one block, so that a long log has no more blocks than a short one.
    """

    seconds: float
    repeated: Mapping[str, Repetition] = field(default_factory=dict)
    repetitions: float = 0.0
    together: int = 1

    def of(self, samples: Samples, kept: Int) -> Iterator[tuple[int, slice | Int, Block]]:
        """The blocks of a batch, without equations yet: number within the segment, which of the samples kept, block."""
        # The number of a block within its segment is counted in samples: times differ in their last digits.
        seconds, parts = self.seconds, 0
        repetition = self.repeated.get(samples.trajectory)
        if repetition is None:
            size = float(max(round(seconds * samples.rate), 1))
        else:
            if np.isfinite(repetition.period):
                parts = repetition.parts(seconds)
                seconds = repetition.period / parts
            # A whole number of samples would drift away from the period, repetition by repetition.
            size = max(seconds * samples.rate, 1.0)
        number = ((samples.first + kept) // size).astype(np.int64)
        if parts:
            # That of the first of the parts that are one block.
            number = number // (parts * self.together) * (parts * self.together) + number % parts
        origin = samples.t[0] - samples.first / samples.rate
        for first, own in _places(number):
            start, end = float(origin + first * size / samples.rate), float(samples.t[kept[own]][-1])
            part = None if repetition is None else repetition.part(start, seconds)
            block = Block(samples.trajectory, samples.segment, start, end, (), part=part)
            if parts and self.together > 1:
                block = replace(block, period=seconds * parts, length=seconds)
            yield first, own, block


def _places(number: Int) -> Iterator[tuple[int, slice | Int]]:
    """Each number of an array (N,) and where it stands: a slice where its places follow one another."""
    for one in np.unique(number).tolist():
        place = np.flatnonzero(number == one)
        first, stop = int(place[0]), int(place[-1]) + 1
        yield one, slice(first, stop) if stop - first == len(place) else place
