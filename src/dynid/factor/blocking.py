"""How a log is cut into blocks: by time, or by the parts of a motion that repeats."""

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

ALL = 2**40  # repetitions in one block: more than any log has
Values = TypeVar("Values", Float, Bool)
DIGITS = 3  # decimals of sample numbers computed from times


@dataclass(frozen=True, eq=False)
class Cut:
    """How a batch of samples is cut into blocks, in the order of their numbers.

    Attributes
    ----------
    trajectory : str
        Trajectory.
    segment : int
        Segment.
    numbers : tuple of int
        Numbers of the blocks within the segment, ascending.
    runs : tuple of slice
        Runs of kept samples, block by block.
    edges : ndarray of int, shape (B + 1,)
        First sample of each block in that order, and the number of samples.
    stretches : sequence of ndarray, shape (K, 2), s
        First and last time of the runs of each block, on the clock of the trajectory.
    ends : tuple of float, s
        Time of the last sample of each block.
    seconds : float, s
        Duration of a block.
    repetition : Repetition or None
        Repetition of the motion.
    joins : bool
        Whether blocks contain parts of several repetitions.

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
        """Lines (..., N) over the kept samples, in the order of the blocks."""
        if all(a.stop == b.start for a, b in pairwise(self.runs)):
            return lines
        # Copying whole runs is ten times as fast as sample by sample.
        return np.concatenate([lines[..., run] for run in self.runs], axis=-1)

    def block(self, place: int) -> Block:
        """One of the blocks as far as this batch contains it, without equations."""
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

    Attributes
    ----------
    seconds : float, s
        Duration of a block.
    repeated : mapping of str to Repetition
        Trajectories whose motion repeats, by name; they are cut into parts of the motion of about that duration.
    repetitions : float
        Repetitions of the motion that is repeated least often.
    together : int
        Number of consecutive repetitions whose same part is one block, so that a long log has no more blocks than a
        short one.

    """

    seconds: float
    repeated: Mapping[str, Repetition] = field(default_factory=dict)
    repetitions: float = 0.0
    together: int = 1

    def of_all_repetitions(self) -> Blocking:
        """The same with one block per part of a motion that repeats."""
        return replace(self, together=ALL)

    def of(self, samples: Samples, kept: Int) -> Cut:
        """How a batch is cut into blocks; kept: samples with equations, ascending."""
        seconds, parts = self.seconds, 0
        repetition = self.repeated.get(samples.trajectory)
        if repetition is None:
            size = float(max(round(seconds * samples.rate), 1))
        else:
            if np.isfinite(repetition.period):
                parts = repetition.parts(seconds)
                seconds = repetition.period / parts
            # A whole number of samples would drift against the period.
            size = max(seconds * samples.rate, 1.0)
        visit = (self.index(samples, kept) // size).astype(np.int64)
        # Runs of consecutive samples in one block.
        first = np.flatnonzero(np.diff(visit, prepend=visit[:1] - 1))
        visits, edges = visit[first], np.append(first, len(visit))
        ends = samples.t[kept[edges[1:] - 1]]
        count = visits.astype(np.float64)
        begins = self._time(samples, count * size)
        joins = parts > 0 and self.together > 1
        until = ends
        if joins:
            until = np.minimum(self._time(samples, (count + 1.0) * size), ends + _step(samples, kept))
        # Number of the first of the parts in one block.
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
        """Number of samples since the segment began, (N,), at some samples; on the clock of a motion that repeats."""
        repetition = self.repeated.get(samples.trajectory)
        if repetition is None or repetition.pauses is None:
            # Counted, since times differ in their last digits.
            return np.asarray(samples.first + places)
        begun = repetition.moving(np.array([_origin(samples)]))
        return np.round((repetition.moving(samples.t[places]) - begun) * samples.rate, DIGITS)

    def _time(self, samples: Samples, index: Float | Int) -> Float:
        """First time (N,) at which `index` samples have passed, as `index` counts them."""
        repetition, origin = self.repeated.get(samples.trajectory), _origin(samples)
        if repetition is None or repetition.pauses is None:
            return np.asarray(origin + index / samples.rate)
        return repetition.time(repetition.moving(np.array([origin])) + index / samples.rate)


def _step(samples: Samples, kept: Int) -> float:
    """Time between two kept samples, s."""
    return float(np.median(np.diff(kept))) / samples.rate if len(kept) > 1 else 0.0


def _origin(samples: Samples) -> float:
    """Time at which the segment of a batch began, s on the clock of the trajectory."""
    return float(samples.t[0] - samples.first / samples.rate)


# Blocks that grow piece by piece, such as parts of a motion that repeats.

# Numbers (16 MB) of waiting equations: one triangle of several hundred equations is faster than one per piece.
WAITING = 2**21


class GrowingBlocks:
    """Blocks by segment and number, in the order in which they begin, with the equations so far."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], _GrowingBlock] = {}
        # One piece of memory for all waiting equations. Thousands of small arrays would fragment the memory that larger
        # ones have freed, and the process would grow.
        self._room, self._used = np.empty(WAITING), 0

    def take(
        self, cut: Cut, motion: Float, columns: Sequence[Int], panels: Sequence[Float], edges: Sequence[Int]
    ) -> None:
        """Add the parts of blocks that a batch contains.

        Parameters
        ----------
        cut : Cut
            How the batch is cut into blocks.
        motion : ndarray, shape (n, B)
            Motion of each block, see Block.
        columns : sequence of ndarray
            Columns of each group, see Factor.
        panels : sequence of ndarray, shape (w + 1, T)
            Panel of each group, as for Factor.from_panel, in the order of the blocks; they are copied.
        edges : sequence of ndarray, shape (B + 1,)
            For each group, where the equations of each block begin, and their number.

        """
        blocks = [self._block(cut, place, motion[:, place], columns) for place in range(len(cut.numbers))]
        if sum(panel.size for panel in panels) > len(self._room) - self._used:
            self._settle()
        for group, (panel, block_edges) in enumerate(zip(panels, edges, strict=True)):
            waits = panel.size <= len(self._room) - self._used
            stored = self._stored(panel) if waits else panel
            for block, (a, b) in zip(blocks, pairwise(block_edges.tolist()), strict=True):
                if a == b:
                    continue
                if waits:
                    block.groups[group].waiting.append(stored[:, a:b])
                else:
                    block.groups[group].settle(stored[:, a:b])

    def whole(self) -> list[Block]:
        """Blocks with all equations."""
        self._settle()
        return [block.whole() for block in self._blocks.values()]

    def _block(self, cut: Cut, place: int, motion: Float, columns: Sequence[Int]) -> _GrowingBlock:
        key = cut.segment, cut.numbers[place]
        known = self._blocks.get(key)
        if known is None:
            new_block = self._blocks[key] = _GrowingBlock(cut.block(place), motion, columns)
            return new_block
        known.add(cut.ends[place], motion, cut.stretches[place])
        return known

    def _stored(self, panel: Float) -> Float:
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
    """A block that grows piece by piece, and its factors so far."""

    def __init__(self, first: Block, motion: Float, columns: Sequence[Int]) -> None:
        self.groups = [_GrowingFactor(group_columns) for group_columns in columns]
        self._first, self._end, self._motion = first, first.end, motion.copy()
        self._stretches = [] if first.stretches is None else [first.stretches]

    def add(self, end: float, motion: Float, stretches: Float) -> None:
        """Add a later piece."""
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
    """Factor of the equations so far, and panels (w + 1, T) of waiting equations."""

    def __init__(self, columns: Int) -> None:
        w = len(columns) + 1
        self.waiting: list[Float] = []
        self._columns, self._R, self._sums = columns, np.zeros((0, w)), np.zeros(w)
        self._target_abs, self._count = 0.0, 0

    def settle(self, *panels: Float) -> None:
        """Add equations to the triangle."""
        whole = np.concatenate([self._R.T, *panels], axis=1)
        new = whole[:, len(self._R) :]
        self._sums += new.sum(axis=1)
        self._target_abs += float(np.abs(new[-1]).sum())
        self._count += new.shape[1]
        self._R = qr_panel(whole)

    def factor(self) -> Factor:
        """Factor of all equations that do not wait."""
        if not self._count:
            return Factor.empty(self._columns)
        self._R.setflags(write=False)  # so that it is used without a copy
        return Factor(self._columns, self._R, self._count, self._sums, self._target_abs)


def stretches_joined(every: Float) -> Float:
    """First and last times (K, 2) of the pieces of a block, with pieces of one run joined."""
    first, index = np.unique(every[:, 0], return_inverse=True)
    last = np.full(len(first), -np.inf)
    np.maximum.at(last, index, every[:, 1])
    return np.stack([first, last], axis=1)


# Selection of a share of a long log, with a part of every block, if all of it would not fit in memory.

# Fractional parts of its multiples fill the unit interval most evenly, so that all phases of a motion that repeats are
# selected for any period (van der Corput and Kronecker sequences; Niederreiter 1992).
GOLDEN = 0.5 * (np.sqrt(5.0) - 1.0)


# Among GAP / share consecutive multiples of the golden section, one has a fractional part below the share.
GAP = 3.0


@dataclass(frozen=True)
class Stretches:
    """Runs of consecutive samples that are a share of a log; runs of a smaller share are parts of runs of a larger one.

    Attributes
    ----------
    share : float
        Share of the log, 0 to 1.
    size : float
        Samples of a block, counted from the start of each segment.
    whole : bool
        Whether whole blocks are selected; otherwise a run of each block.

    """

    share: float
    size: float
    whole: bool = False

    @staticmethod
    def of(share: float, blocks: Blocking, samples: Samples, within: float = 1.0) -> Stretches:
        """Runs that are `share` of the samples of a log that was already reduced to `within`.

        In a motion that repeats often enough whole repetitions are selected, each of which contains all of the motion
        wherever it begins; otherwise runs of each block.

        Parameters
        ----------
        share : float
            Share to select.
        blocks : Blocking
            How the log is cut into blocks.
        samples : Samples
            A batch.
        within : float
            Share of the log that the samples are.

        """
        repetition = blocks.repeated.get(samples.trajectory)
        size = float(max(round(blocks.seconds * samples.rate), 1))
        if repetition is None or not np.isfinite(repetition.period):
            return Stretches(share * within, size)
        if share * within * blocks.repetitions >= GAP:
            return Stretches(share * within, repetition.period * samples.rate, whole=True)
        return Stretches(share if within * blocks.repetitions >= GAP else share * within, size)

    def numbers(self, segment: int, index: Float | Int) -> Int:
        """Number (T,) of the block whose run contains each sample of the segment; -1 = none.

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
    """Runs of samples that are a share of the log, with the samples that a filter needs around them.

    Arrays are copied, so that a run does not keep the window in memory from which it was cut.

    Parameters
    ----------
    batches : iterable of Samples
        Prepared log.
    share : float
        Share to select.
    blocks : Blocking
        How the log is cut into blocks.
    margin : int
        Samples on each side of a run that a filter needs.
    within : float
        Share of the log that the batches are.

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
                yield _copied_part(replace(samples, keep=inside), low, min(high, len(samples)))


def _copied_part(samples: Samples, start: int, stop: int) -> Samples:
    cut = samples.part(start, stop)

    def copied(values: Float | None) -> Float | None:
        return None if values is None else values.copy()

    return replace(
        cut,
        t=cut.t.copy(),
        q=cut.q.copy(),
        dq=cut.dq.copy(),
        ddq=cut.ddq.copy(),
        tau=cut.tau.copy(),
        keep=cut.keep.copy(),
        theta=copied(cut.theta),
        dtheta=copied(cut.dtheta),
        ddtheta=copied(cut.ddtheta),
        temperature=copied(cut.temperature),
        gate=None if cut.gate is None else cut.gate.copy(),
        extra={name: values.copy() for name, values in cut.extra.items()},
        past=None if samples.past is None else samples.past.after(samples.motor.q[:start]),
    )
