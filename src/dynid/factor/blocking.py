"""How a log is cut into blocks: by time, or, of a motion that repeats, by its parts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise
from typing import TypeVar

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.factor.factor import Block, Factor
from dynid.kernel import qr_panel
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
        return max(self.ends) - min(float(spans[0, 0]) for spans in self.stretches) if self.ends else 0.0

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


# Blocks that come piece by piece: of a motion that repeats, one of every repetition.

# Numbers, 16 MB, of equations that wait for others of their block before they are made a triangle: one of several
# hundred equations takes less time than one of each piece.
WAITING = 2**21


class GrowingBlocks:
    """Blocks by segment and number, in the order in which they begin, and the equations that they have so far."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], _GrowingBlock] = {}
        # One piece of memory for all that waits. Thousands of small ones, each for as long as it waits, would lie where
        # larger arrays have been freed, and the process would grow by what does not fit between them any more.
        self._room, self._used = np.empty(WAITING), 0

    def take(
        self, cut: Cut, motion: Float, columns: Sequence[Int], panels: Sequence[Float], edges: Sequence[Int]
    ) -> None:
        """Adds what a batch has of the blocks that it is cut into.

        motion: (n, B) of each block, see Block.    columns: of each group, see Factor.
        panels: (w + 1, T) a group, as Factor.from_panel takes, in the blocks' order; they are copied.
        edges: (B + 1,) a group, where the equations of each block begin, and their number.
        """
        blocks = [self._block(cut, place, motion[:, place], columns) for place in range(len(cut.numbers))]
        if sum(panel.size for panel in panels) > len(self._room) - self._used:
            self._settle()
        for group, (panel, block_edges) in enumerate(zip(panels, edges, strict=True)):
            waits = panel.size <= len(self._room) - self._used
            stored = self._kept(panel) if waits else panel
            for block, (a, b) in zip(blocks, pairwise(block_edges.tolist()), strict=True):
                if a == b:
                    continue
                if waits:
                    block.groups[group].waiting.append(stored[:, a:b])
                else:
                    block.groups[group].settle(stored[:, a:b])

    def whole(self) -> list[Block]:
        """The blocks with all equations."""
        self._settle()
        return [block.whole() for block in self._blocks.values()]

    def _block(self, cut: Cut, place: int, motion: Float, columns: Sequence[Int]) -> _GrowingBlock:
        key = cut.segment, cut.numbers[place]
        known = self._blocks.get(key)
        if known is None:
            made = self._blocks[key] = _GrowingBlock(cut.block(place), motion, columns)
            return made
        known.add(cut.ends[place], motion, cut.stretches[place])
        return known

    def _kept(self, panel: Float) -> Float:
        room = self._room[self._used : self._used + panel.size].reshape(panel.shape)
        room[...] = panel
        self._used += panel.size
        return room

    def _settle(self) -> None:
        for block in self._blocks.values():
            for group in block.groups:
                if group.waiting:
                    group.settle(*group.waiting)
                    group.waiting.clear()
        self._used = 0


class _GrowingBlock:
    """What its pieces have of a block, without their equations, and its factors so far."""

    def __init__(self, first: Block, motion: Float, columns: Sequence[Int]) -> None:
        self.groups = [_GrowingFactor(group_columns) for group_columns in columns]
        self._first, self._end, self._motion = first, first.end, motion.copy()
        self._stretches = [] if first.stretches is None else [first.stretches]

    def add(self, end: float, motion: Float, stretches: Float) -> None:
        """A further piece, behind the others in time."""
        self._end = end
        self._motion += motion
        if self._stretches:
            self._stretches.append(stretches)

    def whole(self) -> Block:
        """The block with all equations so far."""
        return replace(
            self._first,
            end=self._end,
            groups=tuple(group.factor() for group in self.groups),
            motion=self._motion,
            stretches=stretches_joined(np.concatenate(self._stretches)) if self._stretches else None,
        )


class _GrowingFactor:
    """A factor of the equations so far, and panels (w + 1, T) of those that wait."""

    def __init__(self, columns: Int) -> None:
        w = len(columns) + 1
        self.waiting: list[Float] = []
        self._columns, self._R, self._sums = columns, np.zeros((0, w)), np.zeros(w)
        self._target_abs, self._count = 0.0, 0

    def settle(self, *panels: Float) -> None:
        """Adds equations to the triangle."""
        whole = np.concatenate([self._R.T, *panels], axis=1)
        new = whole[:, len(self._R) :]
        self._sums += new.sum(axis=1)
        self._target_abs += float(np.abs(new[-1]).sum())
        self._count += new.shape[1]
        self._R = qr_panel(whole)

    def factor(self) -> Factor:
        """That of all equations that do not wait."""
        if not self._count:
            return Factor.empty(self._columns)
        self._R.setflags(write=False)  # which is taken as it is, not copied
        return Factor(self._columns, self._R, self._count, self._sums, self._target_abs)


def stretches_joined(every: Float) -> Float:
    """Stretches (K, 2), first and last time, of several pieces of a block: one that two pieces share is one."""
    first, index = np.unique(every[:, 0], return_inverse=True)
    last = np.full(len(first), -np.inf)
    np.maximum.at(last, index, every[:, 1])
    return np.stack([first, last], axis=1)


# A share of a long log that every block of time has its part in, where all of it would not fit in memory.

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
        numbers = stretches.numbers(samples.segment, blocks.index(samples, np.arange(len(samples))))
        for number in np.unique(numbers[numbers >= 0]).tolist():
            inside = (numbers == number) & samples.keep
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
