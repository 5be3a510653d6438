"""ROS bags and MCAP files as tables: a row a message, columns t, q_<joint>, dq_<joint>, tau_<joint> by joint name."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic, Diagnostics
from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.log.bag_damage import MCAP_MAGIC, ROS1_MAGIC, SQLITE_MAGIC
from dynid.log.bag_files import METADATA, Topic
from dynid.log.bag_sources import TIME, Sources, Wanted, sources_of
from dynid.log.bag_survey import MEASURED_SHARE, Item, Survey, chosen_topics, present_joints, survey
from dynid.log.bag_values import VALUE
from dynid.log.log import ColumnInfo, Text

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
        remarks: tuple[Diagnostic, ...] = (),
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
