"""ROS bags and MCAP files as tables: a row a message, columns t, q_<joint>, dq_<joint>, tau_<joint> by joint name."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics, Finding
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.base.registry import meant
from dynid.log.log import ColumnInfo, Text
from dynid.log.readers.bag_files import MCAP_MAGIC, METADATA, ROS1_MAGIC, SQLITE_MAGIC, Bag, Topic
from dynid.log.readers.bag_messages import FIELDS, JOINT_STATE, KINDS, VALUE, Decoder, Group, ValueDecoder

# What a bag holds: one pass over its joint states, which joints come in which messages, how often, and
# when.

BLOCK = 4096
FIRST_STAMPS = 256
MAX_SORTS = 1000
# A log is read several times over, and taking messages apart is most of the work: of shorter bags the numbers are kept.
MAX_KEPT_BYTES = 64_000_000
MEASURED_SHARE = 0.99

Item = tuple[str, str]  # (position | velocity | effort, joint), or (value, path)
AnyDecoder = Decoder | ValueDecoder
Block = tuple[Int, Sequence[Group]]


@dataclass(eq=False)
class Sort:
    """Messages of one topic that hold the same numbers of the same joints.

    zeros: how many of the `count` stamps are 0; first and last are those of the others.    ascending: whether each of
    them is at least the one before.    received: first and last time of reception.    finite: number of finite values
    of each item.    times: (k, 2) stamp and reception of the first ones.
    """

    topic: Topic
    names: tuple[str, ...]
    fields: tuple[str, ...]
    count: int = 0
    zeros: int = 0
    first: int = np.iinfo(np.int64).max
    last: int = -1
    ascending: bool = True
    received: tuple[int, int] = (np.iinfo(np.int64).max, -1)
    finite: dict[Item, int] = field(default_factory=dict)
    times: list[Int] = field(default_factory=list)

    @property
    def items(self) -> frozenset[Item]:
        """What these messages hold."""
        return frozenset((kind, name) for kind in self.fields for name in self.names)

    def see(self, group: Group, received: Int) -> None:
        """Takes a group of such messages into the account."""
        stamps = group.stamp[group.stamp > 0]
        self.count += len(group.stamp)
        self.zeros += len(group.stamp) - len(stamps)
        if len(stamps):
            self.ascending &= bool((np.diff(stamps, prepend=self.last) >= 0).all())
            self.first, self.last = min(self.first, int(stamps.min())), max(self.last, int(stamps.max()))
        self.received = (
            min(self.received[0], int(received.min())),
            max(self.received[1], int(received.max())),
        )
        if sum(map(len, self.times)) < FIRST_STAMPS:
            self.times.append(np.stack([group.stamp, received], axis=1)[:FIRST_STAMPS])
        for kind, values in group.fields.items():
            for name, number in zip(group.names, np.isfinite(values).sum(axis=0).tolist(), strict=True):
                self.finite[kind, name] = self.finite.get((kind, name), 0) + number


@dataclass(frozen=True, eq=False)
class Survey:
    """The topics of joint states of a bag and the sorts of messages on each.

    kept: the messages of each topic in blocks, None where they are too many.    values: paths of the numbers on other
    topics, as their first messages have them.    unread: other topics, in words.
    """

    bag: Bag
    decoders: Mapping[Topic, AnyDecoder]
    sorts: Mapping[Topic, tuple[Sort, ...]]
    kept: Mapping[Topic, Sequence[Block]] | None
    values: Mapping[Topic, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def with_values(self, wanted: Mapping[Topic, Collection[str]]) -> Survey:
        """The same, gone through once more for these numbers of other topics."""
        decoders: dict[Topic, AnyDecoder] = {
            one: ValueDecoder(self.bag.other_codecs[one], one, self.path, paths)
            for one, paths in wanted.items()
        }
        sorts, kept = _surveyed(self.bag, decoders) if decoders else ({}, {})
        return replace(
            self,
            decoders={**self.decoders, **decoders},
            sorts={**self.sorts, **sorts},
            kept={**self.kept, **kept} if self.kept is not None and kept is not None else None,
        )

    @property
    def path(self) -> Path:
        """Of the bag."""
        return self.bag.path

    def blocks(self, topic: Topic) -> Iterator[Block]:
        """Yields the messages of a topic in blocks: times of reception (k,) in ns, and groups."""
        if self.kept is not None:
            yield from self.kept[topic]
        else:
            for _, received, groups in blocks(self.bag, {topic: self.decoders[topic]}):
                yield received, groups

    def names(self, topics: Collection[Topic]) -> tuple[str, ...]:
        """Joints whose positions come on these topics, in the order in which they first do."""
        found = [
            name
            for one in topics
            for sort in self.sorts[one]
            if "position" in sort.fields
            for name in sort.names
        ]
        return tuple(dict.fromkeys(found))

    def measured(self, topics: Collection[Topic], share: float = 0.0) -> tuple[Item, ...]:
        """Items with at least one finite value, in more than this share of the messages with that joint's position."""
        total: dict[str, int] = {}
        finite: dict[Item, int] = {}
        for sort in (sort for one in topics for sort in self.sorts[one]):
            for name in sort.names:
                total[name] = total.get(name, 0) + sort.count * ("position" in sort.fields)
            for item, number in sort.finite.items():
                finite[item] = finite.get(item, 0) + number
        joints = dict.fromkeys(name for _, name in finite)
        return tuple(
            (kind, name)
            for kind in FIELDS
            for name in joints
            if finite.get((kind, name), 0) > share * total[name] and finite.get((kind, name), 0) > 0
        )


def survey(path: Path, definitions: Collection[Path] = ()) -> Survey:
    """Looks through a bag: at all its joint states, and at the first message of every other topic.

    definitions: .msg files, for types that the bag does not define.

    Raises InputError if it holds neither joint states nor other numbers, or joint states without messages.
    """
    bag = Bag(path, KINDS, definitions)
    decoders: dict[Topic, AnyDecoder] = {one: Decoder(codec, one, path) for one, codec in bag.codecs.items()}
    values, unread = _values(bag)
    if not decoders and not values:
        raise no_joint_states(bag)
    sorts, kept = _surveyed(bag, decoders)
    if decoders and not any(sorts.values()) and not values:
        raise InputError(
            "no-rows",
            found=f"no message on {', '.join(one.name for one in decoders)}",
            expected="data",
            place=Place(file=str(path)),
        )
    return Survey(bag, decoders, sorts, kept, values, unread)


def no_joint_states(bag: Bag) -> InputError:
    """The error for a bag without joint states."""
    listed = ", ".join(f"{one.name} ({one.kind})" for one in bag.topics[:20])
    return InputError(
        "no-joint-states",
        found=f"the topics {listed}" if listed else "a bag without topics",
        expected=" or ".join(kind.replace("/msg/", "/") for kind in KINDS),
        do=_other_ways(bag),
        place=Place(file=str(bag.path)),
    )


def _other_ways(bag: Bag) -> str:
    if bag.other_codecs:
        return "map numbers of other topics as TOPIC:FIELD; dynid check lists them"
    unknown = list(dict.fromkeys(one.kind for one in bag.topics if one.count))
    return f'give the .msg files of {unknown[0]}: definitions = "FOLDER" under [log]' if unknown else ""


def _values(bag: Bag) -> tuple[dict[Topic, tuple[str, ...]], tuple[str, ...]]:
    """Paths of the numbers on topics that are no joint states, and what is left of the topics, in words."""
    found: dict[Topic, tuple[str, ...]] = {}
    for topic, codec in bag.other_codecs.items():
        with suppress(InputError):  # what cannot be taken apart is listed among the others
            found[topic] = tuple(
                ValueDecoder(codec, topic, bag.path).layout(bag.first_messages[topic]).numbers
            )
    bag.first_messages.clear()
    found = {topic: paths for topic, paths in found.items() if paths}
    others = [one for one in bag.topics if one not in found and one not in bag.codecs]
    return found, tuple(f"{one.name}: {one.count} messages of {one.kind}" for one in others)


def _surveyed(
    bag: Bag, decoders: Mapping[Topic, AnyDecoder]
) -> tuple[dict[Topic, tuple[Sort, ...]], dict[Topic, list[Block]] | None]:
    sorts: dict[Topic, dict[tuple[tuple[str, ...], tuple[str, ...]], Sort]] = {one: {} for one in decoders}
    kept: dict[Topic, list[Block]] | None = {one: [] for one in decoders}
    size = 0
    for topic, received, groups in blocks(bag, decoders):
        size += received.nbytes + sum(group.nbytes for group in groups)
        kept = kept if size <= MAX_KEPT_BYTES else None
        if kept is not None:
            kept[topic].append((received, groups))
        for group in groups:
            fields = tuple(kind for kind in (*FIELDS, VALUE) if kind in group.fields)
            key = group.names, fields
            if key not in sorts[topic]:
                if len(sorts[topic]) >= MAX_SORTS:
                    raise InputError(
                        "joint-names",
                        found=f"over {MAX_SORTS} different lists of joints on topic {topic.name}",
                        expected="the joints of a robot",
                        place=Place(file=str(bag.path)),
                    )
                sorts[topic][key] = Sort(topic, *key)
            sorts[topic][key].see(group, received[group.rows])
    return {one: tuple(found.values()) for one, found in sorts.items()}, kept


def blocks(
    bag: Bag, decoders: Mapping[Topic, AnyDecoder], rows: int = BLOCK
) -> Iterator[tuple[Topic, Int, Sequence[Group]]]:
    """Yields the messages of some topics in blocks: topic, times of reception (k,) in ns, and groups of messages."""
    raws: dict[Topic, list[bytes]] = {one: [] for one in decoders}
    times: dict[Topic, list[int]] = {one: [] for one in decoders}
    numbers = dict.fromkeys(decoders, 0)
    began: dict[Topic, int] = {}

    def taken(topic: Topic) -> tuple[Topic, Int, Sequence[Group]]:
        block, received = raws[topic], np.array(times[topic], dtype=np.int64)
        raws[topic], times[topic] = [], []
        numbers[topic] += len(block)
        seconds = np.asarray((received - began.setdefault(topic, int(received[0]))) * 1e-9, dtype=np.float64)
        return topic, received, list(decoders[topic].decode(block, numbers[topic] - len(block), seconds))

    for topic, time, raw in bag.messages(decoders):
        if not isinstance(raw, bytes | bytearray | memoryview):  # SQLite keeps any type in any column
            raise InputError(
                "damaged",
                found=f"a message of topic '{topic.name}' that holds {type(raw).__name__} in place of bytes",
                expected="serialised messages",
                do="repair the file, or record it again",
                place=Place(file=str(bag.path)),
            )
        raws[topic].append(raw)
        times[topic].append(time)
        if len(raws[topic]) >= rows:
            yield taken(topic)
    yield from (taken(topic) for topic in decoders if raws[topic])


def present_joints(found: Survey, joints: Sequence[str], known: Sequence[str]) -> list[str]:
    """The joints that some topic holds, if all names of those topics are known; else all joints.

    Names that nobody knows may be those of the joints that seem to be absent.
    """
    named = [set(found.names([one])) for one, sorts in found.sorts.items() if sorts]
    present = [joint for joint in joints if any(joint in names for names in named)]
    strange = any(names & set(present) and names - {*joints, *known} for names in named)
    return list(joints) if not present or strange else present


def chosen_topics(found: Survey, joints: Sequence[str], asked: Sequence[str]) -> tuple[Topic, ...]:
    """The topics to take a robot's joints from: those asked for, or the only one that has them all.

    Raises InputError for topics that are not there, joints that are not on them, and where several topics fit.
    """
    place = Place(file=str(found.path))
    if not found.sorts:
        raise no_joint_states(found.bag)
    if asked:
        topics = tuple(_named(found, name) for name in asked)
        missing = [joint for joint in joints if joint not in found.names(topics)]
        if missing:
            raise _missing_joints(found, missing, topics)
        return topics
    fitting = [one for one, sorts in found.sorts.items() if sorts and set(joints) <= set(found.names([one]))]
    states = [one for one in fitting if one.kind == JOINT_STATE]
    best = states if len(states) == 1 else fitting
    if len(best) == 1:
        return (best[0],)
    if not best:
        nearest = max(found.sorts, key=lambda one: len(set(joints) & set(found.names([one]))))
        raise _missing_joints(found, [j for j in joints if j not in found.names([nearest])], [nearest])
    raise InputError(
        "several-topics",
        found="the robot's joints on " + ", ".join(_described(found, one) for one in best),
        expected="one topic",
        do=f'choose with --topic {best[0].name}, or topic = "{best[0].name}" under [log]',
        place=place,
    )


def _described(found: Survey, topic: Topic) -> str:
    sorts = found.sorts[topic]
    first, last = min(one.received[0] for one in sorts), max(one.received[1] for one in sorts)
    count = sum(one.count for one in sorts)
    rate = f", {1e9 * (count - 1) / (last - first):.4g} Hz" if last > first else ""
    kinds = dict.fromkeys(kind for kind, _ in found.measured([topic]))
    return f"{topic.name} ({topic.kind.rpartition('/')[2]}, {count} messages{rate}: {', '.join(kinds)})"


def _named(found: Survey, name: str) -> Topic:
    topics = {one.name: one for one, sorts in found.sorts.items() if sorts}
    if name in topics or f"/{name}" in topics:
        return topics.get(name) or topics[f"/{name}"]
    raise InputError(
        "unknown-topic",
        found=f"no joint states on topic {name}",
        expected="one of " + ", ".join(topics),
        do=meant(name, topics),
        place=Place(file=str(found.path)),
    )


def _missing_joints(found: Survey, missing: Sequence[str], topics: Collection[Topic]) -> InputError:
    have = found.names(topics)
    elsewhere = {joint: one.name for joint in missing for one in found.sorts if joint in found.names([one])}
    near = [(joint, get_close_matches(joint, have, n=1, cutoff=0.6)) for joint in missing]
    hints = [f"'{close[0]}' for '{joint}'" for joint, close in near if close]
    do = ""
    if len(elsewhere) == len(missing):
        names = [one.name for one in topics] + sorted(set(elsewhere.values()))
        do = "the others are on other topics: " + " ".join(f"--topic {name}" for name in names)
    elif hints:
        do = f"did you mean {', '.join(hints)}? Map names with position.columns under [log]"
    listed = ", ".join(have[:40]) or "no joint with a position"
    return InputError(
        "missing-joint",
        found=f"no {', '.join(missing)} on topic {', '.join(one.name for one in topics)}, which has {listed}",
        expected="every joint of the robot",
        do=do,
        place=Place(file=str(found.path)),
    )


# Rows out of joint states: a row a message, and what comes in other messages brought to its time.

TIME = "t"
# Clocks below this count from their own zero (simulation); others are those of the wall.
WALL_CLOCK = 100_000_000 * 1_000_000_000
GAP_STEPS, GAP_LEAST = 6, 20_000_000
SECOND = 1_000_000_000
# What the delays of two topics may differ by: steps of the rows, but no less than a busy network makes.
CLOCK_STEPS, CLOCK_LEAST = 5, 10_000_000
Wanted = Mapping[str, tuple[tuple[Topic, ...], Item]]
BagSourcesBlock = tuple[Int, dict[str, Float]]


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

    def messages(self, source: Source, columns: Collection[str]) -> Iterator[BagSourcesBlock]:
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


PREFIX = {"position": "q_", "velocity": "dq_", "effort": "tau_"}


@dataclass(frozen=True)
class BagReader:
    """Opens recordings of joint states of one kind, known by their first bytes."""

    name: str
    suffixes: tuple[str, ...]
    magic: bytes

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are those of this format."""
        return head.startswith(self.magic)

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> BagTable:
        """Looks through a bag; raises InputError or UnfitDataError for what is none, or damaged."""
        return BagTable(survey(path))

    def open_defined(self, path: Path, definitions: Sequence[Path]) -> BagTable:
        """The same with message definitions of .msg files, for types that the bag does not define."""
        return BagTable(survey(path, definitions))


BAG_READERS = (
    BagReader("ROS 1 bag", (".bag",), ROS1_MAGIC),
    BagReader("MCAP", (".mcap",), MCAP_MAGIC),
    BagReader("rosbag2 database", (".db3",), SQLITE_MAGIC),
)


def is_bag_folder(path: Path) -> bool:
    """Whether a folder is a rosbag2 recording."""
    return (path / METADATA).is_file()


def open_bag_folder(path: Path, definitions: Sequence[Path] = ()) -> BagTable:
    """Looks through a rosbag2 folder; raises InputError or UnfitDataError for what is none, or damaged.

    definitions: .msg files, for types that the bag does not define.
    """
    return BagTable(survey(path, definitions))


def joints_of_columns(columns: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The joints, by their names in the bag, and the topics that columns of positions speak of."""
    parts = [column.rpartition(":") for column in columns]
    plain = [name for topic, _, name in parts if not topic]
    named = all(name.startswith(PREFIX["position"]) for *_, name in parts)
    joints = tuple(name.removeprefix(PREFIX["position"]) for *_, name in parts) if named else ()
    return joints, () if plain else tuple(dict.fromkeys(topic for topic, *_ in parts))


class BagTable:
    """The joint states of a bag, and the numbers of its other messages.

    Columns are t, and q_, dq_ and tau_ with the name of a joint for the joints on the chosen topics; those of any other
    topic are TOPIC:q_<joint> and so on. Velocities that are empty or not finite in more than 1 % of the messages, and
    efforts that always are, count as not measured. Numbers of other messages are TOPIC:FIELD, such as
    /lowstate:motor_state[0].q; those of DynamicJointState are TOPIC:<joint>.<interface>. t is the header's time in s,
    or that of reception where headers give none, counted on clocks of the wall from where all columns have begun.
    """

    def __init__(
        self,
        found: Survey,
        topics: tuple[Topic, ...] = (),
        wanted: Wanted | None = None,
        remarks: tuple[Finding, ...] = (),
    ) -> None:
        self.survey, self.topics = found, topics
        self.path = found.path
        spoken = [one for one, sorts in found.sorts.items() if sorts and one not in found.values]
        main = topics or (tuple(spoken) if len(spoken) == 1 else ())
        self._items: dict[str, tuple[tuple[Topic, ...], Item]] = {}
        for group, qualifier in ((main, ""), *(((one,), f"{one.name}:") for one in spoken)):
            if group:
                for item in _measured(found, group):
                    self._items[f"{qualifier}{PREFIX[item[0]]}{item[1]}"] = (group, item)
        for one, paths in found.values.items():
            self._items |= {f"{one.name}:{path}": ((one,), (VALUE, path)) for path in paths}
        # Of one that is read for some columns the others are not at hand.
        self.column_names = (TIME, *(self._items if wanted is None else wanted))
        self.left_out = found.unread
        sink = Diagnostics(list(remarks))
        self._sources: Sources | None = None
        if wanted is not None:
            self._sources = sources_of(found, wanted, sink)
        self.remarks = tuple(sink)
        self.row_count = self._sources.row_count if self._sources else None

    def of_joints(
        self, joints: Sequence[str], topics: Sequence[str] = (), known: Sequence[str] = ()
    ) -> BagTable:
        """The same bag with the topics that hold these joints.

        topics: names to choose among; none = the only one that fits.
        known: names that the robot knows; joints that no topic holds may be absent where all others are known.

        Raises InputError where none fits, or several do.
        """
        others = {one.name for one in self.survey.values}
        if topics and not joints and others.issuperset(topics):
            return self
        joints = present_joints(self.survey, joints, known)
        chosen = chosen_topics(self.survey, joints, topics)
        sink = Diagnostics()
        _report_choice(self.survey, chosen, joints, sink)
        return BagTable(self.survey, chosen, None, tuple(sink))

    def of_columns(self, columns: Sequence[str]) -> BagTable:
        """The same bag with one row for each message that holds these columns, joined by time where several do."""
        wanted = {name: self._items[name] for name in columns if name != TIME}
        values: dict[Topic, list[str]] = {}
        for (topic, *_), (kind, path) in wanted.values():
            if kind == VALUE:
                values.setdefault(topic, []).append(path)
        found = self.survey.with_values(values)
        return BagTable(found, self.topics, wanted, self.remarks)

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Columns of each topic, with the time, under its name; unqualified where the topic makes the rows."""
        found: dict[str, tuple[str, ...]] = {}
        for one in dict.fromkeys((*self.survey.sorts, *self.survey.values)):
            names = [name for name, (group, _) in self._items.items() if group == (one,)]
            plain = [name for name in names if ":" not in name]
            if names:
                found[one.name] = (TIME, *(plain or names))
        return found

    def info(self, column: str) -> ColumnInfo:
        """What the messages say of a column; of the time, nothing."""
        if column == TIME:
            return ColumnInfo("float64")
        topics, (kind, _) = self._items[column]
        if kind == VALUE:
            count, seconds = topics[0].count, self.survey.bag.seconds
            rate = (count - 1) / seconds if seconds > 0 and count > 1 else None
            return ColumnInfo("", topics[0].name, (count,), row_count=count, rate=rate)
        sorts = [sort for one in topics for sort in self.survey.sorts[one]]
        count = sum(one.count for one in sorts)
        first, last = min(one.received[0] for one in sorts), max(one.received[1] for one in sorts)
        rate = 1e9 * (count - 1) / (last - first) if last > first else None
        return ColumnInfo("float64", topics[0].name, (count,), row_count=count, rate=rate)

    def extent(self, column: str) -> tuple[float, float] | None:
        """First and last time where it ascends; None for other columns."""
        return self._sources.extent() if self._sources is not None and column == TIME else None

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; rows are counted from the front of the bag."""
        sources = self._sources
        if sources is None:
            yield from self.of_columns([*columns, *self._positions()]).batches(columns, rows, start, stop)
            return
        # Batches are as long as they may be: what is found of a log must not depend on the blocks of its reader.
        waiting: list[dict[str, Float]] = []
        held = 0
        for block in _part(sources.stream(columns), columns, start, stop):
            waiting.append(block)
            held += len(block[TIME])
            if held < rows:
                continue
            whole = {name: np.concatenate([one[name] for one in waiting]) for name in block}
            full = held - held % rows
            for a in range(0, full, rows):
                yield {name: whole[name][a : a + rows] for name in columns}
            waiting, held = [{name: values[full:] for name, values in whole.items()}], held - full
        if held:
            yield {name: np.concatenate([one[name] for one in waiting]) for name in columns}

    def _positions(self) -> list[str]:
        found = [name for name, (_, item) in self._items.items() if item[0] == "position" and ":" not in name]
        if not found:
            raise InputError(
                "several-topics",
                found="joint states on " + ", ".join(one.name for one in self.survey.sorts),
                expected="one topic",
                place=Place(file=str(self.path)),
            )
        return found


def _part(
    blocks: Iterator[dict[str, Float]], columns: Sequence[str], start: int, stop: int | None
) -> Iterator[dict[str, Float]]:
    position = 0
    for block in blocks:
        count = len(block[TIME])
        part = slice(max(start - position, 0), count if stop is None else max(stop - position, 0))
        yield {name: block[name][part] for name in {TIME, *columns}}
        position += count
        if stop is not None and position >= stop:
            return


def _measured(found: Survey, topics: tuple[Topic, ...]) -> list[Item]:
    # Positions are wanted whatever they are: what is wrong with them is reported by the checks.
    often = set(found.measured(topics, MEASURED_SHARE))
    return [
        *(("position", name) for name in found.names(topics)),
        *(
            item
            for item in found.measured(topics)
            if item[0] == "effort" or (item[0] == "velocity" and item in often)
        ),
    ]


def _report_choice(
    found: Survey, topics: tuple[Topic, ...], joints: Sequence[str], sink: Diagnostics
) -> None:
    place = Place(file=str(found.path))
    names = ", ".join(one.name for one in topics)
    others = [one.name for one, sorts in found.sorts.items() if sorts and one not in topics]
    beside = f"; beside it: {', '.join(others)}" if others else ""
    count = sum(sort.count for one in topics for sort in found.sorts[one])
    sink.note("topic", f"{count} messages of {names} are read{beside}", place)
    more = [name for name in found.names(topics) if name not in joints]
    if more:
        sink.note("other-joints", f"joints that the robot does not have: {', '.join(more)}", place)
    if not found.bag.checksums:
        sink.note("no-checksums", "the bag carries no checksums: flipped bits would go unnoticed", place)
    have = set(_measured(found, topics))
    some = set(found.measured(topics))
    for kind in ("velocity", "effort"):
        lost = [joint for joint in joints if (kind, joint) not in have]
        if any((kind, joint) in some for joint in lost):
            sink.warn(
                "not-measured",
                f"{kind} of {', '.join(lost)} is missing in over {100 * (1 - MEASURED_SHARE):.0f} % of the messages "
                f"of {names} and counts as not measured",
                place,
            )
        elif lost:
            sink.note("not-measured", f"{kind} of {', '.join(lost)} is empty or not finite on {names}", place)
    claimed = sum(one.count for one in topics)
    if claimed != count:
        sink.warn(
            "message-count", f"the bag's index claims {claimed} messages of {names}, {count} are there", place
        )
