"""How a log is cut into blocks: by time, or, of a motion that repeats, by its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.factor.factor import Block
from dynid.signals.repetition import Repetition
from dynid.signals.samples import Samples

DIGITS = 3  # of numbers of samples that are worked out from times


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
        visit = (self.index(samples, kept) // size).astype(np.int64)
        # That of the first of the parts that are one block.
        number = (
            visit // (parts * self.together) * (parts * self.together) + visit % parts if parts else visit
        )
        for first, own in _places(number):
            visits, times = np.unique(visit[own]).astype(np.float64), samples.t[kept[own]]
            begins, end = self._time(samples, visits * size), float(times[-1])
            start = float(begins[0])
            part = None if repetition is None else repetition.part(start, seconds)
            block = Block(samples.trajectory, samples.segment, start, end, (), part=part)
            if parts and self.together > 1:
                last = times[np.append(np.flatnonzero(np.diff(visit[own])), len(times) - 1)]
                until = np.minimum(self._time(samples, (visits + 1) * size), last + _step(samples, kept))
                block = replace(block, stretches=np.stack([begins, until], axis=1))
            yield first, own, block

    def index(self, samples: Samples, places: Int) -> Float | Int:
        """Samples since the segment began, at some of a batch's, (N,): on the clock of a motion that repeats."""
        repetition = self.repeated.get(samples.trajectory)
        if repetition is None or repetition.pauses is None:
            # Counted, since times differ in their last digits.
            return np.asarray(samples.first + places)
        begun = repetition.moving(np.array([_origin(samples)]))
        return np.round((repetition.moving(samples.t[places]) - begun) * samples.rate, DIGITS)

    def _time(self, samples: Samples, index: Float | Int) -> Float:
        """First time at which so many samples have gone by, (N,), as `index` counts them."""
        repetition, origin = self.repeated.get(samples.trajectory), _origin(samples)
        if repetition is None or repetition.pauses is None:
            return np.asarray(origin + index / samples.rate)
        return repetition.time(repetition.moving(np.array([origin])) + index / samples.rate)


def _step(samples: Samples, kept: Int) -> float:
    """Time between two samples that are kept, s."""
    return float(np.median(np.diff(kept))) / samples.rate if len(kept) > 1 else 0.0


def _origin(samples: Samples) -> float:
    """When the segment of a batch began, s of the trajectory's clock."""
    return float(samples.t[0] - samples.first / samples.rate)


def _places(number: Int) -> Iterator[tuple[int, slice | Int]]:
    """Each number of an array (N,) and where it stands: a slice where its places follow one another."""
    for one in np.unique(number).tolist():
        place = np.flatnonzero(number == one)
        first, stop = int(place[0]), int(place[-1]) + 1
        yield one, slice(first, stop) if stop - first == len(place) else place
