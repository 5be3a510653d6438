"""Rows out of joint states: a row a message, and what comes in other messages brought to its time."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import UTC, datetime

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.bag_files import Topic
from dynid.log.bag_messages import Group
from dynid.log.bag_survey import FIRST_STAMPS, Item, Sort, Survey

TIME = "t"
# Clocks below this count from their own zero (simulation); others are those of the wall.
WALL_CLOCK = 100_000_000 * 1_000_000_000
GAP_STEPS, GAP_LEAST = 6, 20_000_000
SECOND = 1_000_000_000
# What the delays of two topics may differ by: steps of the rows, but no less than a busy network makes.
CLOCK_STEPS, CLOCK_LEAST = 5, 10_000_000
Wanted = Mapping[str, tuple[tuple[Topic, ...], Item]]
Block = tuple[Int, dict[str, Float]]


@dataclass(frozen=True, eq=False)
class Source:
    """Messages of one topic that hold these items, and the columns that are read from them.

    anchor: the items without which a message is none of these.    sorts: what the survey found of them.
    """

    topic: Topic
    anchor: frozenset[Item]
    columns: Mapping[str, Item]
    sorts: tuple[Sort, ...]

    @property
    def count(self) -> int:
        """Number of its messages."""
        return sum(one.count for one in self.sorts)

    @property
    def undated(self) -> int:
        """How many have the stamp 0 on a clock of the wall; other clocks do pass through 0."""
        return sum(one.zeros for one in self.sorts) if self._first > WALL_CLOCK else 0

    @property
    def dated(self) -> bool:
        """Whether header stamps give the time."""
        first, last = self.span(header=True)
        return last > 0 and (first < last or self.count == 1)

    @property
    def _first(self) -> int:
        return min(one.first for one in self.sorts)

    def span(self, header: bool) -> tuple[int, int]:
        """First and last time in ns, by header stamps or by reception."""
        if not header:
            return min(one.received[0] for one in self.sorts), max(one.received[1] for one in self.sorts)
        zeros = sum(one.zeros for one in self.sorts)
        first = self._first if self.undated or not zeros else 0
        return first, max(one.last for one in self.sorts)

    def holds(self, group: Group) -> bool:
        """Whether messages are of this source."""
        return all(kind in group.fields and name in group.names for kind, name in self.anchor)

    @property
    def delay(self) -> float:
        """Median of reception behind the stamp of its first messages, ns."""
        times = np.concatenate([part for one in self.sorts for part in one.times])
        dated = times[times[:, 0] > 0] if self.undated else times
        return float(np.median(dated[:, 1] - dated[:, 0])) if len(dated) else 0.0

    def stamps(self, header: bool) -> Int:
        """Times of its first messages."""
        parts = [part[:, 0 if header else 1] for one in self.sorts for part in one.times]
        return np.sort(np.concatenate(parts))[:FIRST_STAMPS]


@dataclass(frozen=True, eq=False)
class Sources:
    """The sources of a table; the first makes the rows, the others follow it.

    header: whether time is that of the header stamps.    low, high: ns, the time that all sources cover.    origin: ns,
    what the column t counts from.
    """

    survey: Survey
    sources: tuple[Source, ...]
    header: bool
    low: int
    high: int
    origin: int

    @property
    def row_count(self) -> int | None:
        """Number of rows, None where the survey does not say."""
        main = self.sources[0]
        return main.count - (main.undated if self.header else 0) if len(self.sources) == 1 else None

    def extent(self) -> tuple[float, float] | None:
        """First and last time in s, None where header stamps do not ascend."""
        if self.header and not all(one.ascending for one in self.sources[0].sorts):
            return None
        return (self.low - self.origin) / SECOND, (self.high - self.origin) / SECOND

    def stream(self, columns: Collection[str]) -> Iterator[dict[str, Float]]:
        """Yields blocks of rows in the order of reception."""
        main, *others = self.sources
        followers = [_Follower(self, one, columns) for one in others if set(one.columns) & set(columns)]
        for stamps, values in self.messages(main, columns):
            inside = (stamps >= self.low) & (stamps <= self.high)
            ns = stamps[inside]
            if not len(ns):
                continue
            rows = {name: column[inside] for name, column in values.items()}
            for one in followers:
                rows |= one.at(ns)
            rows[TIME] = (ns - self.origin) / SECOND
            yield rows

    def messages(self, source: Source, columns: Collection[str]) -> Iterator[Block]:
        """Yields times and values of the messages of a source."""
        wanted = {name: item for name, item in source.columns.items() if name in columns}
        for received, groups in self.survey.blocks(source.topic):
            ns = np.full(len(received), -1, dtype=np.int64)
            values = {name: np.full(len(received), np.nan) for name in wanted}
            for group in groups:
                if not source.holds(group):
                    continue
                ns[group.rows] = group.stamp if self.header else received[group.rows]
                for name, (kind, joint) in wanted.items():
                    if kind in group.fields and joint in group.names:
                        values[name][group.rows] = group.fields[kind][:, group.names.index(joint)]
            good = ns > (0 if self.header and source.undated else -1)
            yield ns[good], {name: column[good] for name, column in values.items()}


class _Follower:
    """Values of a source at the times of the rows: its own where the stamps agree, between two of them else."""

    def __init__(self, sources: Sources, source: Source, columns: Collection[str]) -> None:
        self.names = [name for name in source.columns if name in columns]
        self.blocks = sources.messages(source, self.names)
        first, last = source.span(sources.header)
        self.longest = max(GAP_STEPS * (last - first) // max(source.count - 1, 1), GAP_LEAST)
        self.ns = np.zeros(0, dtype=np.int64)
        self.values = {name: np.zeros(0) for name in self.names}
        self.turns = {name: source.columns[name][0] == "position" for name in self.names}

    def at(self, ns: Int) -> dict[str, Float]:
        """Values at these times; nan where the source pauses."""
        while not len(self.ns) or self.ns[-1] < ns.max():
            block = next(self.blocks, None)
            if block is None:
                break
            self._append(*block)
        if not len(self.ns):
            return {name: np.full(len(ns), np.nan) for name in self.names}
        right = np.clip(np.searchsorted(self.ns, ns), 0, len(self.ns) - 1)
        left = np.maximum(right - 1, 0)
        apart = (self.ns[right] != ns) & (self.ns[right] - self.ns[left] > self.longest)
        outside = apart | (ns < self.ns[0]) | (ns > self.ns[-1])
        base = self.ns[0]
        share = (ns - self.ns[left]) / np.maximum(self.ns[right] - self.ns[left], 1)
        found = {}
        for name, values in self.values.items():
            between = np.interp(ns - base, self.ns - base, values)
            if self.turns[name]:
                # A turn that jumps by 2 pi from one message to the next did not pass through all in between.
                step = values[right] - values[left]
                short = values[left] + share * (step - 2 * np.pi * np.round(step / (2 * np.pi)))
                between = np.where((np.abs(step) > np.pi) & (self.ns[right] != ns), short, between)
            found[name] = np.where(outside, np.nan, between)
        self._keep(self.ns >= ns.min() - SECOND)
        return found

    def _append(self, ns: Int, values: Mapping[str, Float]) -> None:
        self.ns = np.concatenate([self.ns, ns])
        self.values = {name: np.concatenate([old, values[name]]) for name, old in self.values.items()}
        if (np.diff(self.ns) <= 0).any():
            self.ns, order = np.unique(self.ns, return_index=True)
            self.values = {name: old[order] for name, old in self.values.items()}

    def _keep(self, mask: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> None:
        if not mask.all():
            mask[-1] = True
            self.ns = self.ns[mask]
            self.values = {name: old[mask] for name, old in self.values.items()}


def sources_of(found: Survey, wanted: Wanted, sink: Diagnostics) -> Sources:
    """Chooses the fewest sorts of messages that hold all wanted columns; what that costs is reported to the sink.

    The rows are those of the sort that holds most.

    Raises InputError for items that no message holds, and sources without common time.
    """
    place = Place(file=str(found.path))
    sources: list[Source] = []
    for topics in dict.fromkeys(group for group, _ in wanted.values()):
        columns = {name: item for name, (group, item) in wanted.items() if group == topics}
        sources += _covering(found, topics, columns)
    for topic in dict.fromkeys(one.topic for one in sources):
        _report_partial(found, topic, [one for one in sources if one.topic == topic], sink)
    header = all(one.dated for one in sources)
    if not header:
        bad = dict.fromkeys(one.topic.name for one in sources if not one.dated)
        sink.warn(
            "no-stamps",
            f"the header stamps of {', '.join(bad)} are 0 or never change: the time of reception is used, "
            "which jitters with the recording computer",
            place,
        )
    elif any(one.undated for one in sources):
        lost = sum(one.undated for one in sources)
        sink.warn("no-stamps", f"{lost} messages with stamp 0 are left out", place)
    spans = [one.span(header) for one in sources]
    low, high = max(first for first, _ in spans), min(last for _, last in spans)
    if low > high:
        raise InputError(
            "no-overlap",
            found="messages of " + " and ".join(dict.fromkeys(one.topic.name for one in sources))
            + " that share no time",
            expected="one clock",
            place=place,
        )  # fmt: skip
    _report_interpolation(sources, header, sink, place)
    if header:
        _report_clocks(sources, sink, place)
    origin = low if low > WALL_CLOCK else 0
    if origin:
        began = datetime.fromtimestamp(origin / SECOND, UTC).isoformat(timespec="milliseconds")
        sink.note("clock", f"t counts from {began}", place)
    return Sources(found, tuple(sources), header, low, high, origin)


def _covering(found: Survey, topics: Sequence[Topic], columns: Mapping[str, Item]) -> list[Source]:
    sorts = [sort for topic in topics for sort in found.sorts[topic]]
    counts: dict[tuple[Topic, frozenset[Item]], int] = {}
    rest = set(columns.values())
    chosen: list[Source] = []
    while rest:
        counts.clear()
        for sort in sorts:
            key = sort.topic, frozenset(sort.items & rest)
            counts[key] = counts.get(key, 0) + sort.count
        # Rows are made by positions, then by what holds most, then by what comes most often.
        best = max(counts, key=lambda key: (_size(key[1]), counts[key]), default=None)
        if best is None or not best[1]:
            missing = ", ".join(f"{kind} of {joint}" for kind, joint in sorted(rest))
            raise InputError(
                "missing-joint",
                found=f"no {missing} on topic {', '.join(one.name for one in topics)}",
                expected="every mapped column",
                place=Place(file=str(found.path)),
            )
        topic, items = best
        anchor = frozenset(item for item in items if item[0] == "position") or items
        own = tuple(sort for sort in sorts if sort.topic == topic and anchor <= sort.items)
        chosen.append(
            Source(topic, anchor, {name: item for name, item in columns.items() if item in items}, own)
        )
        rest -= items
    return chosen


def _size(items: Collection[Item]) -> tuple[int, int]:
    return sum(kind == "position" for kind, _ in items), len(items)


def _report_partial(found: Survey, topic: Topic, sources: Sequence[Source], sink: Diagnostics) -> None:
    wanted = {item for one in sources for item in one.columns.values() if item[0] == "position"}
    used = {id(sort) for one in sources for sort in one.sorts}
    lost = [one for one in found.sorts[topic] if id(one) not in used]
    partial = sum(one.count for one in lost if one.items & wanted)
    other = sum(one.count for one in lost if not one.items & wanted)
    place = Place(file=str(found.path))
    if partial:
        sink.warn(
            "partial-messages",
            f"{partial} messages of {topic.name} hold only some of the robot's joints and are left out",
            place,
        )
    if other:
        sink.note(
            "other-messages", f"{other} messages of {topic.name} hold none of the robot's joints", place
        )


def _report_interpolation(sources: Sequence[Source], header: bool, sink: Diagnostics, place: Place) -> None:
    main = sources[0]
    own = main.stamps(header)
    for one in sources[1:]:
        stamps = one.stamps(header)
        common = stamps[(stamps >= own[0]) & (stamps <= own[-1])]
        what = ", ".join(one.columns)
        if np.isin(common, own).all() and abs(one.count - main.count) <= 0.01 * main.count:
            sink.note("joined", f"{what} of {one.topic.name} are joined to the rows by equal stamps", place)
        else:
            sink.warn(
                "mixed-rates",
                f"{what} of {one.topic.name} come at other times ({_rate(one, header)}) than the rows "
                f"({_rate(main, header)}): they are brought to the rows' time between two messages",
                place,
            )


def _report_clocks(sources: Sequence[Source], sink: Diagnostics, place: Place) -> None:
    main = sources[0]
    first, last = main.span(header=True)
    bearable = max(CLOCK_STEPS * (last - first) / max(main.count - 1, 1), CLOCK_LEAST)
    for one in sources[1:]:
        apart = one.delay - main.delay
        if abs(apart) > bearable:
            sink.warn(
                "two-clocks",
                f"messages of {one.topic.name} come {1e-9 * apart:+.3g} s later behind their stamps than those of "
                f"{main.topic.name}: clocks that differ, or stamps that are set late",
                place,
            )


def _rate(source: Source, header: bool) -> str:
    first, last = source.span(header)
    return f"{SECOND * (source.count - 1) / (last - first):.4g} Hz" if last > first else "one message"
