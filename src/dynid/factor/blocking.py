"""How a log is cut into blocks: by time, or, of a motion that repeats, by its parts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.factor.factor import Block
from dynid.signals.repetition import Repetition
from dynid.signals.samples import Samples

ALL = 2**40  # repetitions that are one block: more than any log holds
Values = TypeVar("Values", Float, Bool)
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

    def of_all_repetitions(self) -> Blocking:
        """With one block for each part of a motion that repeats."""
        return replace(self, together=ALL)

    def of(self, samples: Samples, kept: Int) -> Iterator[tuple[int, tuple[slice, ...], Block]]:
        """The blocks of a batch, without equations yet: number within the segment, which of the samples kept, block.

        Which: runs of samples, see `of_runs`.
        """
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
        if not len(kept):
            return
        visit = (self.index(samples, kept) // size).astype(np.int64)
        # Runs of samples of one visit, which follow one another in time.
        first = np.flatnonzero(np.diff(visit, prepend=visit[0] - 1))
        edges = [*first.tolist(), len(visit)]
        visits = visit[first]
        ends = samples.t[kept[np.array(edges[1:]) - 1]]
        count = visits.astype(np.float64)
        begins = self._time(samples, count * size)
        joins = parts > 0 and self.together > 1
        until = ends
        if joins:
            until = np.minimum(self._time(samples, (count + 1.0) * size), ends + _step(samples, kept))
        # That of the first of the parts that are one block.
        number = (
            visits // (parts * self.together) * (parts * self.together) + visits % parts if parts else visits
        )
        for one in np.unique(number).tolist():
            runs = np.flatnonzero(number == one)
            start = float(begins[runs[0]])
            part = None if repetition is None else repetition.part(start, seconds)
            stretches = np.stack([begins[runs], until[runs]], axis=1) if joins else None
            end = float(ends[runs[-1]])
            block = Block(samples.trajectory, samples.segment, start, end, (), part=part, stretches=stretches)
            yield one, tuple(slice(edges[run], edges[run + 1]) for run in runs.tolist()), block

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


def of_runs(lines: Values, runs: Sequence[slice]) -> Values:
    """Lines (..., N) over some runs of samples, one after the other."""
    if len(runs) == 1:
        return lines[..., runs[0]]
    # Runs are copied in one piece each, ten times as fast as sample by sample.
    return np.concatenate([lines[..., run] for run in runs], axis=-1)


def _step(samples: Samples, kept: Int) -> float:
    """Time between two samples that are kept, s."""
    return float(np.median(np.diff(kept))) / samples.rate if len(kept) > 1 else 0.0


def _origin(samples: Samples) -> float:
    """When the segment of a batch began, s of the trajectory's clock."""
    return float(samples.t[0] - samples.first / samples.rate)
