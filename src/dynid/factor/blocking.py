"""How a log is cut into blocks: by time, or, of a motion that repeats, by its parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
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


@dataclass(frozen=True, eq=False)
class Cut:
    """How a batch of samples is cut into blocks, those of the lowest number first.

    numbers: of the blocks within their segment, ascending.    runs: of samples that are kept, block by block.
    edges: (B + 1,) first sample of each block in that order, and the number of samples.
    stretches: first and last time (K, 2) of each block's runs, s of the trajectory's clock.    ends: time of each
    block's last sample.    seconds: length of a block.    joins: blocks have parts of several repetitions.
    """

    trajectory: str
    segment: int
    numbers: tuple[int, ...]
    runs: tuple[slice, ...]
    edges: Int
    stretches: Sequence[Float]
    ends: tuple[float, ...]
    seconds: float
    repetition: Repetition | None
    joins: bool

    @property
    def duration(self) -> float:
        """Time from the first to the last sample, s."""
        return max(self.ends) - min(float(own[0, 0]) for own in self.stretches) if self.ends else 0.0

    def arranged(self, lines: Values) -> Values:
        """Lines (..., N) over the samples kept, those of the first block first."""
        if all(a.stop == b.start for a, b in pairwise(self.runs)):
            return lines
        # Runs are copied in one piece each, ten times as fast as sample by sample.
        return np.concatenate([lines[..., run] for run in self.runs], axis=-1)

    def block(self, place: int) -> Block:
        """One of the blocks as far as this batch has it, without equations."""
        start = float(self.stretches[place][0, 0])
        return Block(
            self.trajectory,
            self.segment,
            start,
            self.ends[place],
            (),
            part=None if self.repetition is None else self.repetition.part(start, self.seconds),
            stretches=self.stretches[place] if self.joins else None,
        )


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

    def of(self, samples: Samples, kept: Int) -> Cut:
        """How a batch is cut into blocks.    kept: which of the samples have equations, ascending."""
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
        # Runs of samples of one visit, which follow one another in time.
        first = np.flatnonzero(np.diff(visit, prepend=visit[:1] - 1))
        visits, edges = visit[first], np.append(first, len(visit))
        ends = samples.t[kept[edges[1:] - 1]]
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
        order = np.argsort(number, kind="stable")
        numbers, at = np.unique(number[order], return_index=True)
        lengths = np.diff(edges)[order]
        return Cut(
            trajectory=samples.trajectory,
            segment=samples.segment,
            numbers=tuple(numbers.tolist()),
            runs=tuple(
                slice(a, b) for a, b in zip(edges[order].tolist(), edges[order + 1].tolist(), strict=True)
            ),
            edges=np.append(np.cumsum(lengths) - lengths, len(visit))[np.append(at, len(order))],
            stretches=np.split(np.stack([begins, until], axis=1)[order], at[1:]),
            ends=tuple(ends[order][np.append(at[1:], len(order))[: len(at)] - 1].tolist()),
            seconds=seconds,
            repetition=repetition,
            joins=joins,
        )

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
