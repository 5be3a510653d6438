"""Excerpt of a log (its first rows), the decisions about it, and the proposal that they form."""

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

# Columns of unit quaternions, which are orientations of links and not joint signals.

# Component of a quaternion at the end of a name: a number, or one of w, x, y, z.
_COMPONENT = re.compile(r"(\d+|[wxyz])(?=\W*$)", re.IGNORECASE)
_COMPONENTS = 4
_PLACED = re.compile(r"(.+)\[\d+\]")
# Columns of a free body's pose: position and unit quaternion.
POSE = 7
# Tolerance of the squared norm, relative to the range of the largest component. Rounding errors are smaller;
# independent joints deviate more.
_STEADY = 0.05


def candidates(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Candidate quaternions: four columns that differ in a number or in w, x, y, z, then any four adjacent columns."""
    alike: dict[str, list[str]] = {}
    for name in names:
        alike.setdefault(_COMPONENT.sub("", name), []).append(name)
    for group in (*alike.values(), names):
        for window in zip(*(islice(group, k, None) for k in range(_COMPONENTS)), strict=False):
            yield tuple(window)


def of_states(names: Sequence[str], joints: int) -> set[str]:
    """Columns of arrays such as qpos[0], qpos[1], ... that are long enough for a pose and all joints."""
    arrays: dict[str, list[str]] = {}
    for name in names:
        if placed := _PLACED.fullmatch(name):
            arrays.setdefault(placed[1], []).append(name)
    return {name for array in arrays.values() if len(array) >= joints + POSE for name in array}


def may_be_quaternion(values: Float) -> bool:
    """Whether the squared norm of columns (T, 4) is about one in every row."""
    off = np.abs((values**2).sum(axis=1) - 1.0)
    return bool((off[np.isfinite(off)] < _STEADY).all())


def is_quaternion(values: Float) -> bool:
    """Whether the squared norm of columns (T, 4) is one in every row while the components change."""
    squares = (values**2)[np.isfinite(values).all(axis=1)]
    if not len(squares):
        return False
    return bool(np.abs(squares.sum(axis=1) - 1.0).max() < _STEADY * np.ptp(squares, axis=0).max())


# First rows of a log, read column by column as needed.

# Enough rows for gravity to show in many poses, and few enough to be read quickly.
ROWS = 60_000
# Columns without a number in these rows are not examined further.
FIRST_ROWS = 100
# Share of numeric cells above which a column is numeric and its text cells are errors.
MOSTLY = 0.9


@dataclasses.dataclass(eq=False)
class Excerpt:
    """Columns of a log and their first rows.

    Attributes
    ----------
    stream : Stream
        The columns with common rows that contain the joints.
    bag : bool
        Whether the columns have dynid's standard names.
    joints : int
        Number of joints of the robot.

    """

    contents: Contents
    stream: Stream
    bag: bool
    joints: int
    _seen: dict[str, Values] = field(default_factory=dict)
    _order: Int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the stream's columns without their topic."""
        return tuple(_plain(column.name) for column in self.stream.columns)

    @cached_property
    def numeric(self) -> tuple[str, ...]:
        """Names of the numeric columns, without empty columns and quaternions."""
        named = {_plain(column.name): column.name for column in self.stream.columns if column.numeric}
        if self.bag:
            return tuple(named)
        late = [name for name, values in self._first.items() if not _holds_numbers(values)]
        out = {name for name, values in self.values(late).items() if not _holds_numbers(values)}
        out.update(*self.orientations)
        return tuple(name for name in named if name not in out)

    @cached_property
    def orientations(self) -> tuple[tuple[str, ...], ...]:
        """Columns of unit quaternions, four each, except in arrays that may contain a pose followed by all joints."""
        first = {name: values for name, values in self._first.items() if isinstance(values, np.ndarray)}
        quaternions: list[tuple[str, ...]] = []
        states = of_states(tuple(first), self.joints)
        for four in candidates(tuple(name for name in first if name not in states)):
            fresh = not {*four} & {name for group in quaternions for name in group}
            if fresh and may_be_quaternion(np.stack([first[name] for name in four], axis=1)):
                quaternions += [four] if is_quaternion(self.table(four)) else []
        return tuple(quaternions)

    @cached_property
    def _first(self) -> dict[str, Values]:
        """First few rows of the numeric columns."""
        if self.bag:
            return {}
        named = {column.name: _plain(column.name) for column in self.stream.columns if column.numeric}
        return {named[full]: values for full, values in self.contents.read([*named], FIRST_ROWS).items()}

    @property
    def topics(self) -> tuple[str, ...]:
        """Topics of a bag to which the names belong, if there are several; the effort may be on a separate topic."""
        if not self.bag or len(self.contents.streams) < 2:
            return ()
        named = (column.name.rpartition(":")[0] for column in self.stream.columns)
        return tuple(dict.fromkeys((self.stream.name, *filter(None, named))))

    def values(self, names: Sequence[str]) -> dict[str, Values]:
        """First rows of the named columns."""
        new = [name for name in names if name not in self._seen]
        if new:
            full = {_plain(column.name): column.name for column in self.stream.columns}
            # In a bag, the rows depend on which columns are read together.
            read = self.contents.read([*full.values()] if self.bag else [full[name] for name in new], ROWS)
            self._seen |= {_plain(name): self._ordered(values) for name, values in read.items()}
        return {name: self._seen[name] for name in names}

    def fill(self, values: Mapping[str, Float]) -> None:
        """Replace the values of columns from here on, in the current row order."""
        self._seen |= values

    def put_in_order(self, order: Int) -> None:
        """Reorder or select the first rows of all columns from here on."""
        self._order = order if self._order is None else self._order[order]
        self._seen = {name: _taken(values, order) for name, values in self._seen.items()}

    def refuse_words(self, names: Sequence[str]) -> None:
        """Raise InputError for text in one of these columns if nearly all of its cells are numeric."""
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
        """Numeric columns as one array (T, k)."""
        columns = self.values([name for name in names if name != ROW or ROW in self.names])
        if ROW in names and ROW not in columns:
            columns[ROW] = np.arange(len(next(iter(self.values(self.names[:1]).values()))), dtype=np.float64)
        return np.stack([np.asarray(columns[name], dtype=np.float64) for name in names], axis=1)


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
    """Open a log; select the stream that names the most joints, otherwise the one with the most columns.

    Raises
    ------
    InputError
        If the log cannot be read.

    """
    log = contents(path)
    if not log.streams:
        raise InputError("no-columns", found="a log without columns", expected="numeric columns")
    words = [joint.lower() for joint in joints]

    def named(stream: Stream) -> tuple[int, int]:
        names = " ".join(column.name.lower() for column in stream.columns)
        return sum(word in names for word in words), len(stream.columns)

    return Excerpt(log, max(log.streams, key=named), isinstance(log.table, ManyTopics), len(joints))


def _plain(name: str) -> str:
    """Name of a bag's column without its topic."""
    topic, mark, rest = name.rpartition(":")
    return rest if mark and topic.startswith("/") else name


# Rows with decreasing time: several motions in one file, or rows in the wrong order.

# Threshold for the mean square step over twice the variance. The ratio is small for a smooth signal and 1 for
# rows in random order.
SMOOTH = 0.1
# Maximum ratio of the mean square step after sorting to that before, over the rows that move.
LESS_ROUGH = 0.5


def order_by_time(look: Excerpt, clock: str, t: Float) -> Int | None:
    """Order of the rows by time (T,); None if it is not conclusive.

    The times must be distinct. If sorting gives rows other neighbours, the signals must become smoother;
    otherwise the rows were in order and only the time stamps scatter.
    """
    if not np.isfinite(t).all() or len(np.unique(t)) < len(t):
        return None
    order = np.argsort(t, kind="stable")
    place = np.argsort(order)
    moved, were = (np.abs(np.diff(rows)) != 1 for rows in (order, place))
    if not moved.any():
        return order  # reversed rows
    signals = look.table([name for name in look.numeric if name != clock])
    signals = signals[:, np.isfinite(signals).all(axis=0)]
    after = np.diff(signals[order], axis=0) ** 2
    smooth = after.mean(axis=0) < SMOOTH * 2.0 * signals.var(axis=0)
    if not smooth.any():
        return None
    before = np.diff(signals[:, smooth], axis=0) ** 2
    left = after[moved][:, smooth].mean(axis=0) / np.maximum(before[were].mean(axis=0), np.finfo(float).tiny)
    return order if float(np.median(left)) < LESS_ROUGH else None


# A single decision about a log: its value and evidence, or a question.


@dataclass(frozen=True)
class Option:
    """A possible answer to a question: its value and its meaning."""

    value: str
    words: str


@dataclass(frozen=True)
class Refusal:
    """Reason why no answer makes the log usable: what was detected, what is required, and what to do.

    Attributes
    ----------
    code : str
        Finding code; empty for the code of a log without answers.
    unfit : bool
        Whether the data are understood but unsuitable.

    """

    found: str
    expected: str
    do: str
    code: str = ""
    unfit: bool = False


@dataclass(frozen=True)
class Decision:
    """Result for one key of the experiment file.

    Attributes
    ----------
    value : str or None
        The value; None if there is none.
    why : tuple of str
        Evidence, one sentence each.
    question : str
        Question to the user; empty if the value is certain.
    options : tuple of Option
        Possible answers; empty if any text is allowed.
    optional : bool
        Whether the file is valid without it.
    likely : bool
        Whether the value rests on the name alone and nothing contradicts it.
    refusal : Refusal or None
        Refusal of the log, if no answer helps.
    example : tuple of str
        Answer to a part of the question as KEY=VALUE, and a note on the other parts.

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
        """Whether no question remains."""
        return not self.question

    @property
    def grade(self) -> str:
        """Confidence of the decision: "sure", "likely" or "asked"."""
        return "asked" if self.question else "likely" if self.likely else "sure"


Answers = Mapping[str, str]


def by_key(*decisions: Decision) -> dict[str, Decision]:
    """Decisions by key, in the order of their questions."""
    return {decision.key: decision for decision in decisions}


# Keys that questions may have: of a channel, of the log, and of the drives.
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
    """Raise UsageError for an answer whose key belongs to no question."""
    known = [
        f"log.{kind}.{key}" for kind in ("time", "position", "velocity", "effort") for key in _OF_CHANNELS
    ]
    known += _OTHERS
    for key in answers:
        if key not in known and not key.startswith(_OF_JOINTS):
            near = get_close_matches(key, known, 1)
            raise UsageError(
                "unknown-answer",
                found=f"an answer to '{key}', which is not a question",
                expected=f"'{near[0]}'" if near else f"one of {', '.join(known)}",
            )


AS_YOU_SAY = "as you say"


def without_effect(decisions: Iterable[Decision], answers: Answers) -> list[str]:
    """Keys of answers that have no effect on this log, such as the torque constant of a log with torques."""
    by_keys = by_key(*decisions)

    def counts(key: str, answer: str) -> bool:
        joints = next((prefix for prefix in _OF_JOINTS if key.startswith(prefix) and key not in by_keys), key)
        decision = by_keys.get(joints.removesuffix("."))
        answered = decision is not None and (
            decision.value == answer or any(AS_YOU_SAY in why for why in decision.why)
        )
        return (
            answered or key == "log.time.column"
        )  # for counted rows, the value is the column's name in the log

    return [key for key, answer in answers.items() if not counts(key, answer)]


def _joined(unit: str) -> str:
    """Unit as a single word: N m, N·m and Nm are the same."""
    return unit.replace(" ", "").replace("·", "")


def decided(decision: Decision, answers: Answers) -> Decision:
    """Apply the user's answer to a decision, if there is one.

    Raises
    ------
    UsageError
        If the answer is not one of the options.

    """
    if decision.key not in answers:
        return decision
    answer = answers[decision.key]
    allowed = [option.value for option in decision.options]
    if decision.key.endswith(".unit"):
        answer = next((value for value in allowed if _joined(value) == _joined(answer)), answer)
    if decision.question and allowed and answer not in allowed and not is_multiple(answer):
        raise UsageError(
            "unknown-answer",
            found=f"{decision.key} = {answer}",
            expected="one of " + ", ".join(f"'{value}'" for value in allowed),
        )
    return Decision(decision.key, answer, (AS_YOU_SAY,), optional=decision.optional)


# Proposal for a log: its decisions and the columns of each channel.


@dataclass(frozen=True)
class Group:
    """Columns of one channel, sorted by joint.

    Attributes
    ----------
    columns : dict
        Column of each joint.
    slides : dict
        Column and unit of prismatic joints in a robot that also has revolute joints.
    apart : bool
        Whether the channel has other rows than the positions.

    """

    family: Family
    columns: dict[str, str]
    slides: dict[str, tuple[str, str]] = field(default_factory=dict)
    apart: bool = False

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Columns of all joints."""
        return (*self.columns.values(), *(column for column, _ in self.slides.values()))


@dataclass(frozen=True)
class Proposal:
    """Proposal of an experiment file for a log.

    Attributes
    ----------
    log : path or dict of paths
        A file, or the files of one recording by label.
    decisions : tuple of Decision
        Decisions in the order of their questions.
    groups : dict
        Columns of "position", "velocity" and "effort".
    locked : tuple of Decision
        Fixed positions of joints without a column.
    unused : tuple of str
        Columns without a use.
    cited : dict
        Recorder by the citation of its sources.
    refusal : Refusal or None
        Reason why no answer makes the log usable.
    tables : dict
        Length tables of cylinders by joint.

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
        return next(
            (decision for decision in self.decisions if decision.key == key),
            Decision(key, None, optional=True),
        )

    @property
    def open(self) -> tuple[Decision, ...]:
        """Decisions with a remaining question."""
        return tuple(decision for decision in self.decisions if not decision.sure)


# The proposal as plain data, for programs that let a user review and answer it.


@dataclass(frozen=True)
class NamedMotion:
    """Rows of the log that share a motion name.

    Attributes
    ----------
    seconds : float or None
        Duration; None if the unit of time is unknown or the time decreases.
    runs_back : bool
        Whether the time decreases between rows, so that they are not one motion.

    """

    name: str
    rows: int
    seconds: float | None
    runs_back: bool


def proposal_data(proposal: Proposal) -> dict[str, Any]:
    """The proposal as plain data: decisions with grade, evidence and options, columns per joint, motions."""
    return {
        "decisions": [vars(decision) | {"grade": decision.grade} for decision in proposal.decisions],
        "joints": proposal.robot.joint_names,
        "columns": {kind: group.columns for kind, group in proposal.groups.items()},
        "unused": proposal.unused,
        "motions": named_motions(proposal),
    }


def named_motions(proposal: Proposal) -> tuple[NamedMotion, ...]:
    """Motions named by a column of the log, in the order of their first rows; empty without such a column."""
    label, clock = proposal["log.trajectory"].value, proposal["log.time.column"].value
    if label is None or clock is None:
        return ()
    log = contents(proposal.log)
    streams = [
        stream for stream in log.streams if {label, clock} <= {column.name for column in stream.columns}
    ]
    if not streams:
        return ()
    read = log.read([label, clock])
    names, t = np.array([str(cell) for cell in read[label]]), np.asarray(read[clock], dtype=np.float64)
    unit = proposal["log.time.unit"].value
    scale = None if unit is None else factor(unit, ("time",), NOWHERE)[1]
    unique, first = np.unique(names, return_index=True)
    motions = []
    for name in unique[np.argsort(first)]:
        times = t[names == name]
        back = bool((np.diff(times) < 0).any())
        seconds = None if scale is None or back else scale * float(times[-1] - times[0])
        motions.append(NamedMotion(str(name), len(times), seconds, back))
    return tuple(motions)
