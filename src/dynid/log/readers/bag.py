"""ROS bags and MCAP files as tables: one row per message, columns t, q_<joint>, dq_<joint>, tau_<joint>."""

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

# Survey of a bag: one pass over its joint states lists the joints, message counts and times of each topic.

BLOCK = 4096  # messages decoded together
FIRST_STAMPS = 256  # time stamps kept to estimate the delay of a topic
MAX_VARIANTS = 1000  # different lists of joints on a topic; a larger number means that the bag is damaged
# Bytes. A log is read several times and decoding takes most of that time, so dynid caches the values of small bags.
MAX_KEPT_BYTES = 64_000_000
MEASURED_SHARE = 0.99  # a velocity counts as measured if at least this share of the messages contains it

Item = tuple[str, str]  # (position | velocity | effort, joint), or (value, path)
AnyDecoder = Decoder | ValueDecoder
Block = tuple[Int, Sequence[Group]]


@dataclass(eq=False)
class Variant:
    """Statistics of the messages on one topic that have the same joints and the same fields.

    Parameters
    ----------
    topic : Topic
    names : tuple of str
        Names of the joints.
    fields : tuple of str
        Fields present in the messages: position, velocity, effort or value.
    count : int
        Number of messages.
    zeros : int
        Number of messages whose time stamp is 0.
    first, last : int, ns
        Earliest and latest nonzero stamp.
    ascending : bool
        Whether the stamps never decrease.
    received : tuple of int, ns
        Earliest and latest reception time.
    finite : dict of Item to int
        Number of finite values of each item.
    times : list of ndarray, shape (k, 2), ns
        Stamp and reception time of the first messages.

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
        """All pairs of a field and a joint in these messages."""
        return frozenset((kind, name) for kind in self.fields for name in self.names)

    def see(self, group: Group, received: Int) -> None:
        """Add a group of messages to the statistics."""
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
    """Contents of a bag: the joint-state messages of each topic and the numeric fields of all other topics.

    Parameters
    ----------
    bag : Bag
    decoders : mapping of Topic to decoder
    variants : mapping of Topic to tuple of Variant
        Statistics of the messages on each decoded topic.
    kept : mapping of Topic to sequence of Block, optional
        Decoded messages; None if they exceed `MAX_KEPT_BYTES`.
    values : mapping of Topic to tuple of str
        Topics without joint states, with the paths of the numeric fields in their first message.
    unread : tuple of str
        Name, message count and message type of each topic that is not read.

    """

    bag: Bag
    decoders: Mapping[Topic, AnyDecoder]
    variants: Mapping[Topic, tuple[Variant, ...]]
    kept: Mapping[Topic, Sequence[Block]] | None
    values: Mapping[Topic, tuple[str, ...]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()

    def with_values(self, wanted: Mapping[Topic, Collection[str]]) -> Survey:
        """Add the given numeric fields of topics without joint states; this reads the bag once more."""
        decoders: dict[Topic, AnyDecoder] = {
            topic: ValueDecoder(self.bag.other_codecs[topic], topic, self.path, paths)
            for topic, paths in wanted.items()
        }
        variants, kept = _surveyed(self.bag, decoders) if decoders else ({}, {})
        return replace(
            self,
            decoders={**self.decoders, **decoders},
            variants={**self.variants, **variants},
            kept={**self.kept, **kept} if self.kept is not None and kept is not None else None,
        )

    @property
    def path(self) -> Path:
        """Path of the bag."""
        return self.bag.path

    def blocks(self, topic: Topic) -> Iterator[Block]:
        """Yield the messages of a topic in blocks: reception times (k,) in ns and groups of decoded messages."""
        if self.kept is not None:
            yield from self.kept[topic]
        else:
            for _, received, groups in blocks(self.bag, {topic: self.decoders[topic]}):
                yield received, groups

    def names(self, topics: Collection[Topic]) -> tuple[str, ...]:
        """Joints with positions on these topics, in the order of their first appearance."""
        names = [
            name
            for topic in topics
            for variant in self.variants[topic]
            if "position" in variant.fields
            for name in variant.names
        ]
        return tuple(dict.fromkeys(names))

    def measured(self, topics: Collection[Topic], share: float = 0.0) -> tuple[Item, ...]:
        """Items with at least one finite value, in more than `share` of the messages with that joint's position."""
        total: dict[str, int] = {}
        finite: dict[Item, int] = {}
        for variant in (variant for topic in topics for variant in self.variants[topic]):
            for name in variant.names:
                total[name] = total.get(name, 0) + variant.count * ("position" in variant.fields)
            for item, number in variant.finite.items():
                finite[item] = finite.get(item, 0) + number
        joints = dict.fromkeys(name for _, name in finite)
        return tuple(
            (kind, name)
            for kind in FIELDS
            for name in joints
            if finite.get((kind, name), 0) > share * total[name] and finite.get((kind, name), 0) > 0
        )


def survey(path: Path, definitions: Collection[Path] = ()) -> Survey:
    """Read all joint states of a bag and the first message of every other topic.

    Parameters
    ----------
    path : Path
        The bag.
    definitions : collection of Path
        .msg files for message types that the bag does not define.

    Raises
    ------
    InputError
        If the bag has no numeric field, or if its only topics are joint states without a message.

    """
    bag = Bag(path, KINDS, definitions)
    decoders: dict[Topic, AnyDecoder] = {
        topic: Decoder(codec, topic, path) for topic, codec in bag.codecs.items()
    }
    values, unread = _values(bag)
    if not decoders and not values:
        raise no_joint_states(bag)
    variants, kept = _surveyed(bag, decoders)
    if decoders and not any(variants.values()) and not values:
        raise InputError(
            "no-rows",
            found=f"no message on {', '.join(topic.name for topic in decoders)}",
            expected="messages with joint states",
            do="check that the recorder subscribed to this topic",
            place=Place(file=str(path)),
        )
    return Survey(bag, decoders, variants, kept, values, unread)


def no_joint_states(bag: Bag) -> InputError:
    """Error for a bag without joint states."""
    listed = ", ".join(f"{topic.name} ({topic.kind})" for topic in bag.topics[:20])
    return InputError(
        "no-joint-states",
        found=f"no joint states, only the topics {listed}" if listed else "a bag without topics",
        expected=" or ".join(kind.replace("/msg/", "/") for kind in KINDS),
        do=_other_ways(bag),
        place=Place(file=str(bag.path)),
    )


def _other_ways(bag: Bag) -> str:
    if bag.other_codecs:
        return "map numbers of other topics as TOPIC:FIELD; `dynid check LOG` lists them"
    unknown = list(dict.fromkeys(topic.kind for topic in bag.topics if topic.count))
    return f'add the .msg files of {unknown[0]}: definitions = "FOLDER" under [log]' if unknown else ""


def _values(bag: Bag) -> tuple[dict[Topic, tuple[str, ...]], tuple[str, ...]]:
    """Numeric fields of the topics without joint states, and one line of text for each topic that is not read."""
    paths_of: dict[Topic, tuple[str, ...]] = {}
    for topic, codec in bag.other_codecs.items():
        with suppress(InputError):  # a topic that cannot be decoded is listed as not read
            paths_of[topic] = tuple(
                ValueDecoder(codec, topic, bag.path).layout(bag.first_messages[topic]).numbers
            )
    bag.first_messages.clear()
    paths_of = {topic: paths for topic, paths in paths_of.items() if paths}
    others = [topic for topic in bag.topics if topic not in paths_of and topic not in bag.codecs]
    return paths_of, tuple(f"{topic.name}: {topic.count} messages of {topic.kind}" for topic in others)


def _surveyed(
    bag: Bag, decoders: Mapping[Topic, AnyDecoder]
) -> tuple[dict[Topic, tuple[Variant, ...]], dict[Topic, list[Block]] | None]:
    variants: dict[Topic, dict[tuple[tuple[str, ...], tuple[str, ...]], Variant]] = {
        topic: {} for topic in decoders
    }
    kept: dict[Topic, list[Block]] | None = {topic: [] for topic in decoders}
    size = 0
    for topic, received, groups in blocks(bag, decoders):
        size += received.nbytes + sum(group.nbytes for group in groups)
        kept = kept if size <= MAX_KEPT_BYTES else None
        if kept is not None:
            kept[topic].append((received, groups))
        for group in groups:
            fields = tuple(kind for kind in (*FIELDS, VALUE) if kind in group.fields)
            key = group.names, fields
            if key not in variants[topic]:
                if len(variants[topic]) >= MAX_VARIANTS:
                    raise InputError(
                        "joint-names",
                        found=f"more than {MAX_VARIANTS} different lists of joints on topic {topic.name}",
                        expected="the joints of one robot",
                        do="record a topic with a fixed list of joints",
                        place=Place(file=str(bag.path)),
                    )
                variants[topic][key] = Variant(topic, *key)
            variants[topic][key].see(group, received[group.rows])
    return {topic: tuple(by_key.values()) for topic, by_key in variants.items()}, kept


def blocks(
    bag: Bag, decoders: Mapping[Topic, AnyDecoder], rows: int = BLOCK
) -> Iterator[tuple[Topic, Int, Sequence[Group]]]:
    """Decode the messages of the given topics and yield them in blocks.

    Parameters
    ----------
    bag : Bag
        The bag.
    decoders : mapping of Topic to decoder
        Topics to read.
    rows : int
        Maximum number of messages in a block.

    Yields
    ------
    topic : Topic
        Topic of the block.
    received : ndarray of int, shape (k,), ns
        Reception times.
    groups : sequence of Group
        Decoded messages.

    """
    raws: dict[Topic, list[bytes]] = {topic: [] for topic in decoders}
    times: dict[Topic, list[int]] = {topic: [] for topic in decoders}
    numbers = dict.fromkeys(decoders, 0)
    began: dict[Topic, int] = {}

    def flush(topic: Topic) -> tuple[Topic, Int, Sequence[Group]]:
        block, received = raws[topic], np.array(times[topic], dtype=np.int64)
        raws[topic], times[topic] = [], []
        numbers[topic] += len(block)
        seconds = np.asarray((received - began.setdefault(topic, int(received[0]))) * 1e-9, dtype=np.float64)
        return topic, received, list(decoders[topic].decode(block, numbers[topic] - len(block), seconds))

    for topic, time, raw in bag.messages(decoders):
        if not isinstance(raw, bytes | bytearray | memoryview):  # SQLite keeps any type in any column
            raise InputError(
                "damaged",
                found=f"a message of topic '{topic.name}' that is {type(raw).__name__} instead of bytes",
                expected="serialised messages",
                do="repair the file, or record it again",
                place=Place(file=str(bag.path)),
            )
        raws[topic].append(raw)
        times[topic].append(time)
        if len(raws[topic]) >= rows:
            yield flush(topic)
    yield from (flush(topic) for topic in decoders if raws[topic])


def present_joints(bag_survey: Survey, joints: Sequence[str], known: Sequence[str]) -> list[str]:
    """Robot joints that occur in the bag; all joints if a topic has a name that the robot does not know.

    An unknown name may be the name of a joint that seems to be absent, so then no joint counts as absent.

    Parameters
    ----------
    bag_survey : Survey
        Survey of the bag.
    joints : sequence of str
        Names of the robot's joints in the bag.
    known : sequence of str
        Further names that the robot knows.

    """
    named = [set(bag_survey.names([topic])) for topic, variants in bag_survey.variants.items() if variants]
    present = [joint for joint in joints if any(joint in names for names in named)]
    strange = any(names & set(present) and names - {*joints, *known} for names in named)
    return list(joints) if not present or strange else present


def chosen_topics(bag_survey: Survey, joints: Sequence[str], asked: Sequence[str]) -> tuple[Topic, ...]:
    """Choose the topics to read: the requested topics, or the only topic with all joints of the robot.

    Parameters
    ----------
    bag_survey : Survey
        Survey of the bag.
    joints : sequence of str
        Names of the joints.
    asked : sequence of str
        Requested topics.

    Raises
    ------
    InputError
        If a topic or joint is missing, or if several topics contain all joints.

    """
    place = Place(file=str(bag_survey.path))
    if not bag_survey.variants:
        raise no_joint_states(bag_survey.bag)
    if asked:
        topics = tuple(_topic_named(bag_survey, name) for name in asked)
        missing = [joint for joint in joints if joint not in bag_survey.names(topics)]
        if missing:
            raise _missing_joints(bag_survey, missing, topics)
        return topics
    fitting = [
        topic
        for topic, variants in bag_survey.variants.items()
        if variants and set(joints) <= set(bag_survey.names([topic]))
    ]
    states = [topic for topic in fitting if topic.kind == JOINT_STATE]
    best = states if len(states) == 1 else fitting
    if len(best) == 1:
        return (best[0],)
    if not best:
        nearest = max(
            bag_survey.variants, key=lambda topic: len(set(joints) & set(bag_survey.names([topic])))
        )
        raise _missing_joints(
            bag_survey, [j for j in joints if j not in bag_survey.names([nearest])], [nearest]
        )
    raise InputError(
        "several-topics",
        found="the robot's joints on several topics: "
        + ", ".join(_topic_text(bag_survey, topic) for topic in best),
        expected="one topic",
        do=f'choose with --topic {best[0].name}, or topic = "{best[0].name}" under [log]',
        place=place,
    )


def _topic_text(bag_survey: Survey, topic: Topic) -> str:
    variants = bag_survey.variants[topic]
    first, last = (
        min(variant.received[0] for variant in variants),
        max(variant.received[1] for variant in variants),
    )
    count = sum(variant.count for variant in variants)
    rate = f", {1e9 * (count - 1) / (last - first):.4g} Hz" if last > first else ""
    kinds = dict.fromkeys(kind for kind, _ in bag_survey.measured([topic]))
    return f"{topic.name} ({topic.kind.rpartition('/')[2]}, {count} messages{rate}: {', '.join(kinds)})"


def _topic_named(bag_survey: Survey, name: str) -> Topic:
    topics = {topic.name: topic for topic, variants in bag_survey.variants.items() if variants}
    if name in topics or f"/{name}" in topics:
        return topics.get(name) or topics[f"/{name}"]
    raise InputError(
        "unknown-topic",
        found=f"no joint states on topic {name}",
        expected="one of " + ", ".join(topics),
        do=meant(name, topics),
        place=Place(file=str(bag_survey.path)),
    )


def _missing_joints(bag_survey: Survey, missing: Sequence[str], topics: Collection[Topic]) -> InputError:
    have = bag_survey.names(topics)
    elsewhere = {
        joint: topic.name
        for joint in missing
        for topic in bag_survey.variants
        if joint in bag_survey.names([topic])
    }
    near = [(joint, get_close_matches(joint, have, n=1, cutoff=0.6)) for joint in missing]
    hints = [f"'{close[0]}' for '{joint}'" for joint, close in near if close]
    do = ""
    if len(elsewhere) == len(missing):
        names = [topic.name for topic in topics] + sorted(set(elsewhere.values()))
        do = "read several topics: " + " ".join(f"--topic {name}" for name in names)
    elif hints:
        do = f"did you mean {', '.join(hints)}? Map names with position.columns under [log]"
    listed = ", ".join(have[:40]) or "no joint with a position"
    return InputError(
        "missing-joint",
        found=f"no {', '.join(missing)} on topic {', '.join(topic.name for topic in topics)}, which has {listed}",
        expected="every joint of the robot",
        do=do,
        place=Place(file=str(bag_survey.path)),
    )


# Rows of the table: each message of the main source gives one row; other messages are interpolated to its time.

TIME = "t"
# ns: a clock that starts earlier than this (1973) started at zero, as in simulation; a later start is a wall clock.
WALL_CLOCK = 100_000_000 * 1_000_000_000
# A gap is a step longer than GAP_STEPS mean steps and longer than GAP_LEAST (ns).
GAP_STEPS, GAP_LEAST = 6, 20_000_000
SECOND = 1_000_000_000  # ns
# Two topics may differ in their delay by this many row steps, or by this many ns, as on a busy network.
CLOCK_STEPS, CLOCK_LEAST = 5, 10_000_000
Wanted = Mapping[str, tuple[tuple[Topic, ...], Item]]
BagSourcesBlock = tuple[Int, dict[str, Float]]


@dataclass(frozen=True, eq=False)
class Source:
    """Messages of one topic, and the columns that are read from them.

    Parameters
    ----------
    topic : Topic
    anchor : frozenset of Item
        Items that a message must have.
    columns : mapping of str to Item
        Item of each column.
    variants : tuple of Variant
        Message variants of the survey that contain all items of `anchor`.

    """

    topic: Topic
    anchor: frozenset[Item]
    columns: Mapping[str, Item]
    variants: tuple[Variant, ...]

    @property
    def count(self) -> int:
        """Number of messages."""
        return sum(variant.count for variant in self.variants)

    @property
    def undated(self) -> int:
        """Number of messages without a stamp (stamp 0 on a wall clock; on a clock from zero, 0 is a valid stamp)."""
        return sum(variant.zeros for variant in self.variants) if self._first > WALL_CLOCK else 0

    @property
    def dated(self) -> bool:
        """Whether the header stamps are usable as time: not all 0 and not constant."""
        first, last = self.span(header=True)
        return last > 0 and (first < last or self.count == 1)

    @property
    def _first(self) -> int:
        return min(variant.first for variant in self.variants)

    def span(self, header: bool) -> tuple[int, int]:
        """First and last time in ns, from the header stamps or from the reception times."""
        if not header:
            return min(variant.received[0] for variant in self.variants), max(
                variant.received[1] for variant in self.variants
            )
        zeros = sum(variant.zeros for variant in self.variants)
        first = self._first if self.undated or not zeros else 0
        return first, max(variant.last for variant in self.variants)

    def matches(self, group: Group) -> bool:
        """Whether the messages of a group contain all items of `anchor`."""
        return all(kind in group.fields and name in group.names for kind, name in self.anchor)

    @property
    def delay(self) -> float:
        """Median delay from stamp to reception over the first messages, ns."""
        times = np.concatenate([part for variant in self.variants for part in variant.times])
        dated = times[times[:, 0] > 0] if self.undated else times
        return float(np.median(dated[:, 1] - dated[:, 0])) if len(dated) else 0.0

    def stamps(self, header: bool) -> Int:
        """Sorted times of the first messages in ns, from the header stamps or from the reception times."""
        parts = [part[:, 0 if header else 1] for variant in self.variants for part in variant.times]
        return np.sort(np.concatenate(parts))[:FIRST_STAMPS]


@dataclass(frozen=True, eq=False)
class Sources:
    """Sources of a table: the first source gives the rows, and the other sources are interpolated to its times.

    A slow effort source (see `is_slow`) is not interpolated: its samples become additional rows.

    Parameters
    ----------
    survey : Survey
    sources : tuple of Source
    header : bool
        True if time is taken from the header stamps, False if from the reception times.
    low, high : int, ns
        Start and end of the interval that all sources cover.
    origin : int, ns
        Time at which the column t is zero.

    """

    survey: Survey
    sources: tuple[Source, ...]
    header: bool
    low: int
    high: int
    origin: int

    @property
    def row_count(self) -> int | None:
        """Number of rows; None for several sources, whose rows are only counted during reading."""
        main = self.sources[0]
        return main.count - (main.undated if self.header else 0) if len(self.sources) == 1 else None

    def extent(self) -> tuple[float, float] | None:
        """First and last time in s; None if the header stamps of the first source decrease."""
        if self.header and not all(variant.ascending for variant in self.sources[0].variants):
            return None
        return (self.low - self.origin) / SECOND, (self.high - self.origin) / SECOND

    def stream(self, columns: Collection[str]) -> Iterator[dict[str, Float]]:
        """Yield blocks of rows with the given columns in the order of reception."""
        main, *others = self.sources
        # Slow efforts add rows even if their columns are not requested, so that every pass has the same rows.
        followers = [
            _Follower(self, source, columns)
            for source in others
            if set(source.columns) & set(columns) or self.is_slow(source)
        ]
        last = self.low - 1
        for stamps, values in self.messages(main, columns):
            inside = (stamps >= self.low) & (stamps <= self.high)
            ns = stamps[inside]
            if not len(ns):
                continue
            rows = {name: column[inside] for name, column in values.items()}
            own_rows = {
                id(follower): follower.between(last, int(ns[-1]))
                for follower in followers
                if self.is_slow(follower.source)
            }
            if own_rows:
                last, logged = int(ns[-1]), ns
                ns = np.unique(np.concatenate([logged, *(times for times, _ in own_rows.values())]))
                rows = {name: _placed(ns, logged, column) for name, column in rows.items()}
            for follower in followers:
                if id(follower) in own_rows:
                    times, measured = own_rows[id(follower)]
                    rows |= {name: _placed(ns, times, column) for name, column in measured.items()}
                else:
                    rows |= follower.at(ns)
            rows[TIME] = (ns - self.origin) / SECOND
            yield rows

    def is_slow(self, source: Source) -> bool:
        """Whether a source has only efforts, at no more than half the rate of the rows, and no stamp decreases."""
        ascend = all(variant.ascending for variant in (*self.sources[0].variants, *source.variants))
        only = {kind for kind, _ in source.columns.values()} == {"effort"}
        return self.header and ascend and only and 2 * source.count <= self.sources[0].count

    def messages(self, source: Source, columns: Collection[str]) -> Iterator[BagSourcesBlock]:
        """Yield times in ns and the requested values of the messages of a source."""
        wanted = {name: item for name, item in source.columns.items() if name in columns}
        for received, groups in self.survey.blocks(source.topic):
            ns = np.full(len(received), -1, dtype=np.int64)
            values = {name: np.full(len(received), np.nan) for name in wanted}
            for group in groups:
                if not source.matches(group):
                    continue
                ns[group.rows] = group.stamp if self.header else received[group.rows]
                for name, (kind, joint) in wanted.items():
                    if kind in group.fields and joint in group.names:
                        values[name][group.rows] = group.fields[kind][:, group.names.index(joint)]
            good = ns > (0 if self.header and source.undated else -1)
            yield ns[good], {name: column[good] for name, column in values.items()}


class _Follower:
    """Reader of a source that gives its values at the times of the rows, interpolated if the stamps differ."""

    def __init__(self, sources: Sources, source: Source, columns: Collection[str]) -> None:
        self.source = source
        self.names = [name for name in source.columns if name in columns]
        self.blocks = sources.messages(source, self.names)
        first, last = source.span(sources.header)
        self.longest = max(GAP_STEPS * (last - first) // max(source.count - 1, 1), GAP_LEAST)
        self.ns = np.zeros(0, dtype=np.int64)
        self.values = {name: np.zeros(0) for name in self.names}
        self.turns = {name: source.columns[name][0] == "position" for name in self.names}

    def at(self, ns: Int) -> dict[str, Float]:
        """Interpolate the values to the times `ns`; nan within gaps and outside of the source's messages."""
        self._read_to(int(ns.max()))
        if not len(self.ns):
            return {name: np.full(len(ns), np.nan) for name in self.names}
        right = np.clip(np.searchsorted(self.ns, ns), 0, len(self.ns) - 1)
        left = np.maximum(right - 1, 0)
        apart = (self.ns[right] != ns) & (self.ns[right] - self.ns[left] > self.longest)
        outside = apart | (ns < self.ns[0]) | (ns > self.ns[-1])
        base = self.ns[0]
        share = (ns - self.ns[left]) / np.maximum(self.ns[right] - self.ns[left], 1)
        interpolated = {}
        for name, values in self.values.items():
            between = np.interp(ns - base, self.ns - base, values)
            if self.turns[name]:
                # If an angle wraps by 2 pi between two messages, interpolate along the shorter way.
                step = values[right] - values[left]
                short = values[left] + share * (step - 2 * np.pi * np.round(step / (2 * np.pi)))
                between = np.where((np.abs(step) > np.pi) & (self.ns[right] != ns), short, between)
            interpolated[name] = np.where(outside, np.nan, between)
        self._keep(self.ns >= ns.min() - SECOND)
        return interpolated

    def between(self, after: int, last: int) -> tuple[Int, dict[str, Float]]:
        """Times in ns and values of the samples with after < time <= last."""
        self._read_to(last)
        inside = (self.ns > after) & (self.ns <= last)
        times, measured = self.ns[inside], {name: values[inside] for name, values in self.values.items()}
        if len(self.ns):
            self._keep(self.ns > last)
        return times, measured

    def _read_to(self, last: int) -> None:
        while not len(self.ns) or self.ns[-1] < last:
            block = next(self.blocks, None)
            if block is None:
                break
            self._append(*block)

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


def _placed(ns: Int, times: Int, values: Float) -> Float:
    """Array over the times `ns` with `values` at `times` (a subset of `ns`) and nan elsewhere."""
    placed = np.full(len(ns), np.nan)
    placed[np.searchsorted(ns, times)] = values
    return placed


def sources_of(bag_survey: Survey, wanted: Wanted, sink: Diagnostics) -> Sources:
    """Choose the messages that provide all wanted columns, from as few message variants as possible.

    On each topic, variants are chosen by the number of positions, then of items, then of messages that they add.
    The first chosen variant gives the rows.

    Parameters
    ----------
    bag_survey : Survey
        Survey of the bag.
    wanted : mapping of str to (topics, item)
        Topics and item of each column to read.
    sink : Diagnostics
        Collects notes and warnings about interpolation and ignored messages.

    Raises
    ------
    InputError
        If no message has a wanted item, or if the sources do not overlap in time.

    """
    place = Place(file=str(bag_survey.path))
    sources: list[Source] = []
    for topics in dict.fromkeys(group for group, _ in wanted.values()):
        columns = {name: item for name, (group, item) in wanted.items() if group == topics}
        sources += _covering_sources(bag_survey, topics, columns)
    for topic in dict.fromkeys(source.topic for source in sources):
        _report_partial(bag_survey, topic, [source for source in sources if source.topic == topic], sink)
    header = all(source.dated for source in sources)
    if not header:
        bad = dict.fromkeys(source.topic.name for source in sources if not source.dated)
        sink.warn(
            "no-stamps",
            f"the header stamps of {', '.join(bad)} are 0 or constant: dynid uses the reception times, "
            "which include the jitter of the recording computer",
            place,
        )
    elif any(source.undated for source in sources):
        lost = sum(source.undated for source in sources)
        sink.warn("no-stamps", f"{lost} messages with stamp 0 are ignored", place)
    spans = [source.span(header) for source in sources]
    low, high = max(first for first, _ in spans), min(last for _, last in spans)
    if low > high:
        raise InputError(
            "no-overlap",
            found="messages of " + " and ".join(dict.fromkeys(source.topic.name for source in sources))
            + " that do not overlap in time",
            expected="topics recorded at the same time on one clock",
            place=place,
        )  # fmt: skip
    origin = low if low > WALL_CLOCK else 0
    joined_sources = Sources(bag_survey, tuple(sources), header, low, high, origin)
    fast = [source for source in sources[1:] if not joined_sources.is_slow(source)]
    _report_interpolation([sources[0], *fast], header, sink, place)
    if header:
        _report_clocks(sources, sink, place)
    if origin:
        began = datetime.fromtimestamp(origin / SECOND, UTC).isoformat(timespec="milliseconds")
        sink.note("clock", f"t is relative to {began}", place)
    return joined_sources


def _covering_sources(
    bag_survey: Survey, topics: Sequence[Topic], columns: Mapping[str, Item]
) -> list[Source]:
    variants = [variant for topic in topics for variant in bag_survey.variants[topic]]
    counts: dict[tuple[Topic, frozenset[Item]], int] = {}
    rest = set(columns.values())
    chosen: list[Source] = []
    while rest:
        counts.clear()
        for variant in variants:
            key = variant.topic, frozenset(variant.items & rest)
            counts[key] = counts.get(key, 0) + variant.count
        # Prefer the variant with the most positions, then with the most items, then with the most messages.
        best = max(counts, key=lambda key: (_size(key[1]), counts[key]), default=None)
        if best is None or not best[1]:
            missing = ", ".join(f"{kind} of {joint}" for kind, joint in sorted(rest))
            raise InputError(
                "missing-joint",
                found=f"no {missing} on topic {', '.join(topic.name for topic in topics)}",
                expected="every mapped column",
                place=Place(file=str(bag_survey.path)),
            )
        topic, items = best
        anchor = frozenset(item for item in items if item[0] == "position") or items
        matching = tuple(
            variant for variant in variants if variant.topic == topic and anchor <= variant.items
        )
        chosen.append(
            Source(topic, anchor, {name: item for name, item in columns.items() if item in items}, matching)
        )
        rest -= items
    return chosen


def _size(items: Collection[Item]) -> tuple[int, int]:
    return sum(kind == "position" for kind, _ in items), len(items)


def _report_partial(bag_survey: Survey, topic: Topic, sources: Sequence[Source], sink: Diagnostics) -> None:
    wanted = {item for source in sources for item in source.columns.values() if item[0] == "position"}
    used = {id(variant) for source in sources for variant in source.variants}
    lost = [variant for variant in bag_survey.variants[topic] if id(variant) not in used]
    partial = sum(variant.count for variant in lost if variant.items & wanted)
    other = sum(variant.count for variant in lost if not variant.items & wanted)
    place = Place(file=str(bag_survey.path))
    if partial:
        sink.warn(
            "partial-messages",
            f"{partial} messages of {topic.name} with only some of the robot's joints are ignored",
            place,
        )
    if other:
        sink.note(
            "other-messages",
            f"{other} messages of {topic.name} without joints of the robot are ignored",
            place,
        )


def _report_interpolation(sources: Sequence[Source], header: bool, sink: Diagnostics, place: Place) -> None:
    main = sources[0]
    row_stamps = main.stamps(header)
    for source in sources[1:]:
        stamps = source.stamps(header)
        common = stamps[(stamps >= row_stamps[0]) & (stamps <= row_stamps[-1])]
        columns = ", ".join(source.columns)
        if np.isin(common, row_stamps).all() and abs(source.count - main.count) <= 0.01 * main.count:
            sink.note(
                "joined",
                f"{columns} of {source.topic.name} have the same stamps as the rows and are joined",
                place,
            )
        else:
            sink.warn(
                "mixed-rates",
                f"{columns} of {source.topic.name} ({_rate(source, header)}) are interpolated to the times of the rows "
                f"({_rate(main, header)})",
                place,
            )


def _report_clocks(sources: Sequence[Source], sink: Diagnostics, place: Place) -> None:
    main = sources[0]
    first, last = main.span(header=True)
    bearable = max(CLOCK_STEPS * (last - first) / max(main.count - 1, 1), CLOCK_LEAST)
    for source in sources[1:]:
        apart = source.delay - main.delay
        if abs(apart) > bearable:
            sink.warn(
                "two-clocks",
                f"the delay from stamp to reception differs by {1e-9 * apart:+.3g} s between {source.topic.name} and "
                f"{main.topic.name}: the clocks differ, or stamps are set late",
                place,
            )


def _rate(source: Source, header: bool) -> str:
    first, last = source.span(header)
    return f"{SECOND * (source.count - 1) / (last - first):.4g} Hz" if last > first else "one message"


PREFIX = {"position": "q_", "velocity": "dq_", "effort": "tau_"}


@dataclass(frozen=True)
class BagReader:
    """Reader of one bag format, which is recognised by the first bytes of the file."""

    name: str
    suffixes: tuple[str, ...]
    magic: bytes

    def can_read(self, head: bytes) -> bool:
        """Whether a file that begins with the bytes `head` has this format."""
        return head.startswith(self.magic)

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> BagTable:
        """Open a bag; raise InputError or UnfitDataError if the file is damaged or not a bag."""
        return BagTable(survey(path))

    def open_defined(self, path: Path, definitions: Sequence[Path]) -> BagTable:
        """Open a bag with .msg files for message types that it does not define."""
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
    """Open a rosbag2 folder, with .msg files for message types that it does not define.

    Raises
    ------
    InputError, UnfitDataError
        If the folder is damaged or not a bag.

    """
    return BagTable(survey(path, definitions))


def joints_of_columns(columns: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Split position columns [TOPIC:]q_<joint> into joint names and topics.

    Parameters
    ----------
    columns : sequence of str
        Names of position columns.

    Returns
    -------
    joints : tuple of str
        Joint names in the bag; () if a column is not named q_<joint>.
    topics : tuple of str
        Topics of the columns; () if a column has no topic.

    """
    parts = [column.rpartition(":") for column in columns]
    plain = [name for topic, _, name in parts if not topic]
    named = all(name.startswith(PREFIX["position"]) for *_, name in parts)
    joints = tuple(name.removeprefix(PREFIX["position"]) for *_, name in parts) if named else ()
    return joints, () if plain else tuple(dict.fromkeys(topic for topic, *_ in parts))


class BagTable:
    """Table of the joint states of a bag and of the numeric fields of its other messages.

    The chosen topics have the columns q_<joint>, dq_<joint> and tau_<joint>; each topic also has the columns
    TOPIC:q_<joint>, TOPIC:dq_<joint> and TOPIC:tau_<joint>. Numeric fields of other messages have columns TOPIC:FIELD,
    for example /lowstate:motor_state[0].q, and DynamicJointState messages have columns TOPIC:<joint>.<interface>.

    A velocity counts as not measured if it is empty or not finite in more than 1 % of the messages, an effort if it is
    empty or not finite in all messages.

    Column t is the header time in s, or the reception time if the headers have no usable stamp. On a wall clock, t = 0
    is the first time at which all columns have a value.

    Parameters
    ----------
    bag_survey : Survey
        Survey of the bag.
    topics : tuple of Topic
        Topics whose column names omit the topic; () selects the only topic of the bag, if there is only one.
    wanted : mapping, optional
        Columns to read. None lists all columns; the number of rows is known only after `of_columns` selects columns.
    remarks : tuple of Finding
        Findings about the choice of the topics.

    """

    def __init__(
        self,
        bag_survey: Survey,
        topics: tuple[Topic, ...] = (),
        wanted: Wanted | None = None,
        remarks: tuple[Finding, ...] = (),
    ) -> None:
        self.survey, self.topics = bag_survey, topics
        self.path = bag_survey.path
        spoken = [
            topic
            for topic, variants in bag_survey.variants.items()
            if variants and topic not in bag_survey.values
        ]
        main = topics or (tuple(spoken) if len(spoken) == 1 else ())
        self._items: dict[str, tuple[tuple[Topic, ...], Item]] = {}
        for group, qualifier in ((main, ""), *(((topic,), f"{topic.name}:") for topic in spoken)):
            if group:
                for item in _measured_items(bag_survey, group):
                    self._items[f"{qualifier}{PREFIX[item[0]]}{item[1]}"] = (group, item)
        for topic, paths in bag_survey.values.items():
            self._items |= {f"{topic.name}:{path}": ((topic,), (VALUE, path)) for path in paths}
        self.column_names = (TIME, *(self._items if wanted is None else wanted))
        self.left_out = bag_survey.unread
        sink = Diagnostics(list(remarks))
        self._sources: Sources | None = None
        if wanted is not None:
            self._sources = sources_of(bag_survey, wanted, sink)
        self.remarks = tuple(sink)
        self.row_count = self._sources.row_count if self._sources else None

    def of_joints(
        self, joints: Sequence[str], topics: Sequence[str] = (), known: Sequence[str] = ()
    ) -> BagTable:
        """Select the topics that contain the given joints.

        Parameters
        ----------
        joints : sequence of str
            Names of the joints in the bag.
        topics : sequence of str
            Topics to read; () selects the only topic with all joints.
        known : sequence of str
            Further names that the robot knows. Joints may be absent from the bag if all names in it are known.

        Raises
        ------
        InputError
            If no topic or more than one topic has all joints.

        """
        others = {topic.name for topic in self.survey.values}
        if topics and not joints and others.issuperset(topics):
            return self
        joints = present_joints(self.survey, joints, known)
        chosen = chosen_topics(self.survey, joints, topics)
        sink = Diagnostics()
        _report_choice(self.survey, chosen, joints, sink)
        return BagTable(self.survey, chosen, None, tuple(sink))

    def of_columns(self, columns: Sequence[str]) -> BagTable:
        """Select the columns to read; columns of several topics are joined by time."""
        wanted = {name: self._items[name] for name in columns if name != TIME}
        values: dict[Topic, list[str]] = {}
        for (topic, *_), (kind, path) in wanted.values():
            if kind == VALUE:
                values.setdefault(topic, []).append(path)
        surveyed = self.survey.with_values(values)
        return BagTable(surveyed, self.topics, wanted, self.remarks)

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Column t and the columns of each topic; names without the topic are preferred for the chosen topic."""
        streams: dict[str, tuple[str, ...]] = {}
        for topic in dict.fromkeys((*self.survey.variants, *self.survey.values)):
            names = [name for name, (group, _) in self._items.items() if group == (topic,)]
            if effort := self._topic_of_efforts(topic):
                names += [
                    name for name, (group, item) in self._items.items() if group == (effort,) and ":" in name
                ]
            plain = [name for name in names if ":" not in name]
            if names:
                streams[topic.name] = (TIME, *(plain or names))
        return streams

    def _topic_of_efforts(self, topic: Topic) -> Topic | None:
        """Topic that has only efforts, of joints whose positions are on `topic`; None if `topic` itself has efforts.

        None also if no topic or more than one topic qualifies.
        """
        kinds = {other: {kind for kind, _ in self.survey.measured([other])} for other in self.survey.variants}
        if "position" not in kinds.get(topic, ()) or "effort" in kinds[topic]:
            return None
        joints = set(self.survey.names([topic]))
        others = [
            other
            for other, measured in kinds.items()
            if measured == {"effort"} and joints & {name for _, name in self.survey.measured([other])}
        ]
        return others[0] if len(others) == 1 else None

    def info(self, column: str) -> ColumnInfo:
        """Data type, topic, number of messages and rate of a column."""
        if column == TIME:
            return ColumnInfo("float64")
        topics, (kind, _) = self._items[column]
        if kind == VALUE:
            count, seconds = topics[0].count, self.survey.bag.seconds
            rate = (count - 1) / seconds if seconds > 0 and count > 1 else None
            return ColumnInfo("", topics[0].name, (count,), row_count=count, rate=rate)
        variants = [variant for topic in topics for variant in self.survey.variants[topic]]
        count = sum(variant.count for variant in variants)
        first, last = (
            min(variant.received[0] for variant in variants),
            max(variant.received[1] for variant in variants),
        )
        rate = 1e9 * (count - 1) / (last - first) if last > first else None
        return ColumnInfo("float64", topics[0].name, (count,), row_count=count, rate=rate)

    def extent(self, column: str) -> tuple[float, float] | None:
        """First and last time of column t in s if time does not decrease; None for all other columns."""
        return self._sources.extent() if self._sources is not None and column == TIME else None

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches of `rows` rows; `start` and `stop` count from the start of the bag."""
        sources = self._sources
        if sources is None:
            yield from self.of_columns([*columns, *self._positions()]).batches(columns, rows, start, stop)
            return
        # Yield batches of full length, so that the checks of a log do not depend on the block size of its reader.
        waiting: list[dict[str, Float]] = []
        waiting_rows = 0
        for block in _row_range(sources.stream(columns), columns, start, stop):
            waiting.append(block)
            waiting_rows += len(block[TIME])
            if waiting_rows < rows:
                continue
            whole = {name: np.concatenate([piece[name] for piece in waiting]) for name in block}
            full = waiting_rows - waiting_rows % rows
            for a in range(0, full, rows):
                yield {name: whole[name][a : a + rows] for name in columns}
            waiting, waiting_rows = (
                [{name: values[full:] for name, values in whole.items()}],
                waiting_rows - full,
            )
        if waiting_rows:
            yield {name: np.concatenate([piece[name] for piece in waiting]) for name in columns}

    def _positions(self) -> list[str]:
        positions = [
            name for name, (_, item) in self._items.items() if item[0] == "position" and ":" not in name
        ]
        if not positions:
            raise InputError(
                "several-topics",
                found="joint states on several topics: "
                + ", ".join(topic.name for topic in self.survey.variants),
                expected="one topic",
                do="choose with --topic NAME",
                place=Place(file=str(self.path)),
            )
        return positions


def _row_range(
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


def _measured_items(bag_survey: Survey, topics: tuple[Topic, ...]) -> list[Item]:
    # Include all positions, even if not finite: the checks of the log report faulty positions.
    often = set(bag_survey.measured(topics, MEASURED_SHARE))
    return [
        *(("position", name) for name in bag_survey.names(topics)),
        *(
            item
            for item in bag_survey.measured(topics)
            if item[0] == "effort" or (item[0] == "velocity" and item in often)
        ),
    ]


def _report_choice(
    bag_survey: Survey, topics: tuple[Topic, ...], joints: Sequence[str], sink: Diagnostics
) -> None:
    place = Place(file=str(bag_survey.path))
    names = ", ".join(topic.name for topic in topics)
    others = [
        topic.name for topic, variants in bag_survey.variants.items() if variants and topic not in topics
    ]
    not_read = f"; not read: {', '.join(others)}" if others else ""
    count = sum(variant.count for topic in topics for variant in bag_survey.variants[topic])
    sink.note("topic", f"{count} messages of {names} are read{not_read}", place)
    more = [name for name in bag_survey.names(topics) if name not in joints]
    if more:
        sink.note("other-joints", f"ignored joints, which the robot does not have: {', '.join(more)}", place)
    if not bag_survey.bag.checksums:
        sink.note("no-checksums", "the bag has no checksums: damaged values cannot be detected", place)
    have = set(_measured_items(bag_survey, topics))
    some = set(bag_survey.measured(topics))
    for kind in ("velocity", "effort"):
        lost = [joint for joint in joints if (kind, joint) not in have]
        if any((kind, joint) in some for joint in lost):
            sink.warn(
                "not-measured",
                f"{kind} of {', '.join(lost)} is missing in more than {100 * (1 - MEASURED_SHARE):.0f} % of the "
                f"messages of {names} and is ignored",
                place,
            )
        elif lost:
            sink.note(
                "not-measured",
                f"{kind} of {', '.join(lost)} is empty or not finite on {names}: not measured",
                place,
            )
    claimed = sum(topic.count for topic in topics)
    if claimed != count:
        sink.warn(
            "message-count",
            f"the bag's index lists {claimed} messages of {names}, but it contains {count}",
            place,
        )
