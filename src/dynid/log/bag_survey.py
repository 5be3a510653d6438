"""What a bag holds: one pass over its joint states, which joints come in which messages, how often, and when."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from difflib import get_close_matches
from pathlib import Path

import numpy as np

from dynid.base.arrays import Int
from dynid.base.errors import InputError, Place
from dynid.base.named_options import meant
from dynid.base.records import dataclass
from dynid.log.bag_files import Bag, Topic
from dynid.log.bag_messages import FIELDS, JOINT_STATE, KINDS, Decoder, Group
from dynid.log.bag_values import VALUE, ValueDecoder

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
