"""The first rows of a log, the decisions taken on it, and the proposal they make."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from difflib import get_close_matches
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import NOWHERE, InputError, Place, UsageError
from dynid.base.records import dataclass
from dynid.base.units import factor, is_multiple
from dynid.layouts.names import Family
from dynid.log.clocks import ROW
from dynid.log.log import ManyTopics
from dynid.log.summary import Contents, Stream, Values, contents
from dynid.robot.linkage import Table
from dynid.robot.model import RobotModel

# Columns that are the orientation of a body, and no signals of joints: the four of a unit quaternion.

# What distinguishes the components of one: a number, or their letter.
_COMPONENT = re.compile(r"(\d+|[wxyz])(?=\W*$)", re.IGNORECASE)
_COMPONENTS = 4
_PLACED = re.compile(r"(.+)\[\d+\]")
# A body that moves freely has a place and a unit quaternion.
POSE = 7
# Squares sum to one but for this share of what the largest of them changes by: rounding is less, and what joints do,
# each by itself, is more.
_STEADY = 0.05


def candidates(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Columns that may be one by their place: four whose names differ in a number or w, x, y, z, then any four."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_COMPONENT.sub("", name), []).append(name)
    for group in (*alike.values(), names):
        for window in zip(*(islice(group, k, None) for k in range(_COMPONENTS)), strict=False):
            yield tuple(window)


def of_states(names: Sequence[str], joints: int) -> set[str]:
    """Columns of arrays, such as qpos[0], qpos[1], ..., that are long enough for a pose beside as many joints."""
    arrays: dict[str, list[str]] = {}
    for name in names:
        if placed := _PLACED.fullmatch(name):
            arrays.setdefault(placed[1], []).append(name)
    return {name for array in arrays.values() if len(array) >= joints + POSE for name in array}


def may_be_quaternion(values: Float) -> bool:
    """Whether the squares of columns (T, 4) sum to one in every row, about."""
    off = np.abs((values**2).sum(axis=1) - 1.0)
    return bool((off[np.isfinite(off)] < _STEADY).all())


def is_quaternion(values: Float) -> bool:
    """Whether the squares of columns (T, 4) sum to one in every row while they change."""
    squares = (values**2)[np.isfinite(values).all(axis=1)]
    if not len(squares):
        return False
    return bool(np.abs(squares.sum(axis=1) - 1.0).max() < _STEADY * np.ptp(squares, axis=0).max())


# The first rows of a log, column by column, as far as a guess needs them.

# Enough for gravity to be seen from many sides, read in a moment.
ROWS = 60_000
# What holds no number here is looked at further.
FIRST_ROWS = 100
# Of a column's cells: with so many numbers the others are mistakes, and the column is none of words.
MOSTLY = 0.9


@dataclasses.dataclass(eq=False)
class Excerpt:
    """A log's columns and its first rows.

    stream: columns that share rows, those of the joints.    bag: whether columns have dynid's own names.
    joints: how many the robot has.
    """

    contents: Contents
    stream: Stream
    bag: bool
    joints: int
    _seen: dict[str, Values] = field(default_factory=dict)
    _order: Int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Of the stream's columns, without a topic before them."""
        return tuple(_plain(column.name) for column in self.stream.columns)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Of its columns of numbers, without those that hold none, and without orientations."""
        named = {_plain(column.name): column.name for column in self.stream.columns if column.numeric}
        if self.bag:
            return tuple(named)
        late = [name for name, values in self._first.items() if not _holds_numbers(values)]
        out = {name for name, values in self.values(late).items() if not _holds_numbers(values)}
        out.update(*self.orientations)
        return tuple(name for name in named if name not in out)

    @cached_property
    def orientations(self) -> tuple[tuple[str, ...], ...]:
        """Columns that are unit quaternions, four each; none of an array that may hold all joints beside a pose."""
        first = {name: values for name, values in self._first.items() if isinstance(values, np.ndarray)}
        found: list[tuple[str, ...]] = []
        states = of_states(tuple(first), self.joints)
        for four in candidates(tuple(name for name in first if name not in states)):
            fresh = not {*four} & {name for one in found for name in one}
            if fresh and may_be_quaternion(np.stack([first[name] for name in four], axis=1)):
                found += [four] if is_quaternion(self.table(four)) else []
        return tuple(found)

    @cached_property
    def _first(self) -> dict[str, Values]:
        """A few rows of the columns of numbers."""
        if self.bag:
            return {}
        named = {column.name: _plain(column.name) for column in self.stream.columns if column.numeric}
        return {named[full]: values for full, values in self.contents.read([*named], FIRST_ROWS).items()}

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of a bag that the names are on, if it has several: efforts may have one of their own."""
        if not self.bag or len(self.contents.streams) < 2:
            return ()
        named = (column.name.rpartition(":")[0] for column in self.stream.columns)
        return tuple(dict.fromkeys((self.stream.name, *filter(None, named))))

    def values(self, names: Sequence[str]) -> dict[str, Values]:
        """First rows of the named columns."""
        new = [name for name in names if name not in self._seen]
        if new:
            full = {_plain(column.name): column.name for column in self.stream.columns}
            # The rows of a bag are those of the columns that are read together.
            read = self.contents.read([*full.values()] if self.bag else [full[name] for name in new], ROWS)
            self._seen |= {_plain(name): self._ordered(values) for name, values in read.items()}
        return {name: self._seen[name] for name in names}

    def fill(self, values: Mapping[str, Float]) -> None:
        """Has columns give other values from here on, in the rows as they are now."""
        self._seen |= values

    def put_in_order(self, order: Int) -> None:
        """Has all columns give their first rows in another order, or some of them, from here on."""
        self._order = order if self._order is None else self._order[order]
        self._seen = {name: _taken(values, order) for name, values in self._seen.items()}

    def refuse_words(self, names: Sequence[str]) -> None:
        """Raises InputError for a word in one of these columns where nearly all cells are numbers: it is no signal."""
        for name, cells in self.values(names).items():
            wrong = [row for row, cell in enumerate(cells) if not _is_number(str(cell))]
            if 0 < len(wrong) <= (1.0 - MOSTLY) * len(cells):
                raise InputError(
                    "text-cell",
                    found=f"column '{name}' = '{cells[wrong[0]]}'",
                    expected="a number",
                    place=Place(file=str(self.contents.path), row=wrong[0]),
                )

    def _ordered(self, values: Values) -> Values:
        return values if self._order is None else _taken(values, self._order)

    def table(self, names: Sequence[str]) -> Float:
        """Columns of numbers side by side, (T, k)."""
        found = self.values([name for name in names if name != ROW or ROW in self.names])
        if ROW in names and ROW not in found:
            found[ROW] = np.arange(len(next(iter(self.values(self.names[:1]).values()))), dtype=np.float64)
        return np.stack([np.asarray(found[name], dtype=np.float64) for name in names], axis=1)


def _holds_numbers(values: Values) -> bool:
    return not (isinstance(values, np.ndarray) and len(values) and np.isnan(values).all())


def _is_number(cell: str) -> bool:
    try:
        float(cell or "nan")
    except ValueError:
        return False
    return True


def _taken(values: Values, order: Int) -> Values:
    return values[order] if isinstance(values, np.ndarray) else tuple(values[k] for k in order.tolist())


def excerpt(path: str | Path | Mapping[str, Path], joints: Sequence[str]) -> Excerpt:
    """Looks into a log; the stream is the one that names most of the joints, or has most columns.

    Raises InputError for what cannot be read.
    """
    found = contents(path)
    if not found.streams:
        raise InputError("no-columns", found="a log without columns", expected="columns of numbers")
    words = [one.lower() for one in joints]

    def named(stream: Stream) -> tuple[int, int]:
        names = " ".join(column.name.lower() for column in stream.columns)
        return sum(word in names for word in words), len(stream.columns)

    return Excerpt(found, max(found.streams, key=named), isinstance(found.table, ManyTopics), len(joints))


def _plain(name: str) -> str:
    """A column of a bag without its topic."""
    topic, mark, rest = name.rpartition(":")
    return rest if mark and topic.startswith("/") else name


# Rows whose time runs back: several motions in one file, or rows that only stand in another order.

# Mean square step from row to row over twice the variance, of a signal that neighbouring rows follow; of rows in random
# order it is 1.
SMOOTH = 0.1
# Share of the mean square step that is left at the rows that sorting moves.
LESS_ROUGH = 0.5


def order_by_time(look: Excerpt, clock: str, t: Float) -> Int | None:
    """The order of the rows by their stamps (T,), None where it is not beyond doubt.

    Stamps have to differ, and where rows get other neighbours the signals have to be smoother than they were: stamps
    that scatter about the times of rows in the right order would make them rougher.
    """
    if not np.isfinite(t).all() or len(np.unique(t)) < len(t):
        return None
    order = np.argsort(t, kind="stable")
    place = np.argsort(order)
    moved, were = (np.abs(np.diff(one)) != 1 for one in (order, place))
    if not moved.any():
        return order  # from the last row to the first
    signals = look.table([name for name in look.numeric if name != clock])
    signals = signals[:, np.isfinite(signals).all(axis=0)]
    after = np.diff(signals[order], axis=0) ** 2
    smooth = after.mean(axis=0) < SMOOTH * 2.0 * signals.var(axis=0)
    if not smooth.any():
        return None
    before = np.diff(signals[:, smooth], axis=0) ** 2
    left = after[moved][:, smooth].mean(axis=0) / np.maximum(before[were].mean(axis=0), np.finfo(float).tiny)
    return order if float(np.median(left)) < LESS_ROUGH else None


# One thing that had to be decided about a log: what was taken and why, or what to ask.


@dataclass(frozen=True)
class Option:
    """One answer to a question: its value, and what it means."""

    value: str
    words: str


@dataclass(frozen=True)
class Refusal:
    """Why no answer helps: what was found, what is expected instead and what to do.

    code: "" = as the log is refused without an answer.    unfit: whether the data are understood, and are of no use.
    """

    found: str
    expected: str
    do: str
    code: str = ""
    unfit: bool = False


@dataclass(frozen=True)
class Decision:
    """What was found for one key of the experiment file.

    value: None = nothing there.    why: evidence, one sentence each.    question: "" = sure.
    options: possible answers; none = any text.    optional: the file works without it.
    likely: taken by its name alone, which nothing contradicts.
    refusal: of the log, where no answer helps.    example: an answer to one of its parts, KEY=VALUE, and what the
    others are.
    """

    key: str
    value: str | None
    why: tuple[str, ...] = ()
    question: str = ""
    options: tuple[Option, ...] = ()
    optional: bool = False
    likely: bool = False
    refusal: Refusal | None = None
    example: tuple[str, str] = ("", "")

    @property
    def sure(self) -> bool:
        """Whether nothing is left to ask."""
        return not self.question

    @property
    def grade(self) -> str:
        """How sure it is: "sure", "likely" or "asked"."""
        return "asked" if self.question else "likely" if self.likely else "sure"


Answers = Mapping[str, str]


def by_key(*decisions: Decision) -> dict[str, Decision]:
    """Decisions by their keys, in the order in which they are asked."""
    return {one.key: one for one in decisions}


# What questions are about: of a channel, of the log and of the drives.
_OF_CHANNELS = ("columns", "unit", "which", "calibration")
_OTHERS = (
    "log.time.column",
    "log.trajectory",
    "log.sort",
    "log.order",
    "log.position.offset",
    "log.position.side",
    "log.effort.side",
    "log.effort.sign",
    "log.effort.rated_torque",
    "robot.drive_gain",
    "robot.gear_ratio",
    "drive.kp",
    "drive.kd",
    "drive.servo",
)
_OF_JOINTS = ("log.position.columns.", "log.velocity.columns.", "log.effort.columns.", "robot.lock.")


def require_questions(answers: Answers) -> None:
    """Raises UsageError for an answer to what is never asked."""
    known = [
        f"log.{kind}.{key}" for kind in ("time", "position", "velocity", "effort") for key in _OF_CHANNELS
    ]
    known += _OTHERS
    for key in answers:
        if key not in known and not key.startswith(_OF_JOINTS):
            near = get_close_matches(key, known, 1)
            raise UsageError(
                "unknown-answer",
                found=f"an answer to '{key}', which is no question",
                expected=f"'{near[0]}'" if near else f"one of {', '.join(known)}",
            )


AS_YOU_SAY = "as you say"


def without_effect(decisions: Iterable[Decision], answers: Answers) -> list[str]:
    """Keys of answers on which nothing of a log depends, such as what an ampere is worth where torques are logged."""
    found = by_key(*decisions)

    def counts(key: str, answer: str) -> bool:
        joints = next((one for one in _OF_JOINTS if key.startswith(one) and key not in found), key)
        one = found.get(joints.removesuffix("."))
        said = one is not None and (one.value == answer or any(AS_YOU_SAY in why for why in one.why))
        return said or key == "log.time.column"  # of counted rows the column is called as the log calls it

    return [key for key, answer in answers.items() if not counts(key, answer)]


def _joined(unit: str) -> str:
    """A product of units as one word: N m, N·m and Nm are the same."""
    return unit.replace(" ", "").replace("·", "")


def decided(decision: Decision, answers: Answers) -> Decision:
    """The decision as the user answers it; the one that was found without an answer.

    Raises UsageError for an answer that is none of the options.
    """
    if decision.key not in answers:
        return decision
    answer = answers[decision.key]
    allowed = [one.value for one in decision.options]
    if decision.key.endswith(".unit"):
        answer = next((one for one in allowed if _joined(one) == _joined(answer)), answer)
    if decision.question and allowed and answer not in allowed and not is_multiple(answer):
        raise UsageError(
            "unknown-answer",
            found=f"{decision.key} = {answer}",
            expected="one of " + ", ".join(f"'{one}'" for one in allowed),
        )
    return Decision(decision.key, answer, (AS_YOU_SAY,), optional=decision.optional)


# What was found of a log: its decisions, and the columns of every channel.


@dataclass(frozen=True)
class Group:
    """The columns of one channel by joint.

    slides: column and unit of joints that slide where the others turn.    apart: whether their rows are not those of
    the positions.
    """

    family: Family
    columns: dict[str, str]
    slides: dict[str, tuple[str, str]] = field(default_factory=dict)
    apart: bool = False

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Of all joints."""
        return (*self.columns.values(), *(column for column, _ in self.slides.values()))


@dataclass(frozen=True)
class Proposal:
    """What was found of a log, for an experiment file.

    log: a file, or those of one recording by their labels.
    decisions: in the order in which they are asked.    groups: columns of "position", "velocity", "effort".
    locked: where joints that the log does not have stand.    unused: columns that nothing was made of.
    cited: sources as reasons name them -> the recorder alone.    refusal: why no answer helps; None = one does.
    tables: of cylinders whose lengths are logged, by joint.
    """

    robot: RobotModel
    log: Path | Mapping[str, Path]
    topics: tuple[str, ...]
    decisions: tuple[Decision, ...]
    groups: dict[str, Group]
    gains: dict[str, float]
    rated_torque: dict[str, float]
    locked: dict[str, float]
    unused: tuple[str, ...]
    cited: Mapping[str, str] = field(default_factory=dict)
    refusal: Refusal | None = None
    tables: Mapping[str, Table] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Decision:
        return next((one for one in self.decisions if one.key == key), Decision(key, None, optional=True))

    @property
    def open(self) -> tuple[Decision, ...]:
        """What is left to ask."""
        return tuple(one for one in self.decisions if not one.sure)


# A proposal as plain data, for programs that let a user look it over and answer.


@dataclass(frozen=True)
class NamedMotion:
    """Rows of one name of a log.

    seconds: None where they have no unit yet, or time runs back.    runs_back: whether it does between rows, so that
    they cannot be read as one motion.
    """

    name: str
    rows: int
    seconds: float | None
    runs_back: bool


def proposal_data(proposal: Proposal) -> dict[str, Any]:
    """Decisions with grade, evidence and options; the column of every joint; other columns; the named motions."""
    return {
        "decisions": [vars(one) | {"grade": one.grade} for one in proposal.decisions],
        "joints": proposal.robot.joint_names,
        "columns": {kind: group.columns for kind, group in proposal.groups.items()},
        "unused": proposal.unused,
        "motions": named_motions(proposal),
    }


def named_motions(proposal: Proposal) -> tuple[NamedMotion, ...]:
    """The motions that a column of the log names, in the order in which they begin; none without such a column."""
    label, clock = proposal["log.trajectory"].value, proposal["log.time.column"].value
    if label is None or clock is None:
        return ()
    found = contents(proposal.log)
    streams = [one for one in found.streams if {label, clock} <= {column.name for column in one.columns}]
    if not streams:
        return ()
    read = found.read([label, clock])
    names, t = np.array([str(one) for one in read[label]]), np.asarray(read[clock], dtype=np.float64)
    unit = proposal["log.time.unit"].value
    scale = None if unit is None else factor(unit, ("time",), NOWHERE)[1]
    unique, first = np.unique(names, return_index=True)
    motions = []
    for name in unique[np.argsort(first)]:
        own = t[names == name]
        back = bool((np.diff(own) < 0).any())
        seconds = None if scale is None or back else scale * float(own[-1] - own[0])
        motions.append(NamedMotion(str(name), len(own), seconds, back))
    return tuple(motions)
