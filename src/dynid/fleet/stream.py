"""Rows of a running log: checks of their order, thinning without loss, and reading from lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from time import monotonic
from typing import Protocol

import numpy as np

from dynid.base import Float, InputError, Place, UnfitDataError, UsageError, dataclass, number_of
from dynid.robot import RobotModel

# Sampling times: a longer step begins a new segment.
LONGEST_STEPS = 6.0
# s: longest time that lines wait for a full batch.
LONGEST_WAIT = 0.5


@dataclass(frozen=True, eq=False)
class StreamRows:
    """Rows of a log in SI units: t (T,), q and tau (T, n), dq (T, n) or None."""

    t: Float
    q: Float
    tau: Float
    dq: Float | None = None

    def __len__(self) -> int:
        return len(self.t)

    def part(self, which: slice) -> StreamRows:
        """Return some of the rows."""
        return StreamRows(
            self.t[which], self.q[which], self.tau[which], None if self.dq is None else self.dq[which]
        )

    def then(self, later: StreamRows) -> StreamRows:
        """Append later rows; velocities remain only if both parts have them."""
        if not len(self):
            return later
        dq = None if self.dq is None or later.dq is None else np.concatenate([self.dq, later.dq])
        t, q, tau = (
            np.concatenate(pair) for pair in ((self.t, later.t), (self.q, later.q), (self.tau, later.tau))
        )
        return StreamRows(t, q, tau, dq)

    @staticmethod
    def none(joints: int) -> StreamRows:
        """Return an empty set of rows."""
        return StreamRows(np.zeros(0), np.zeros((0, joints)), np.zeros((0, joints)))


class RowStream:
    """Checks rows and splits them into segments; a time step above six sampling times begins a new segment.

    step: sampling time in s, None before the second row.
    """

    def __init__(self, robot: RobotModel) -> None:
        """robot: whose joints the rows measure."""
        self.robot = robot
        self.step: float | None = None
        self._seen = 0
        self._last: float | None = None

    def take(self, rows: StreamRows) -> list[tuple[bool, StreamRows]]:
        """Split rows into segments; each is returned with whether a gap separates it from the rows before.

        Raises
        ------
        UsageError
            If shapes do not fit the robot.
        UnfitDataError
            If time does not rise or a value is missing; it names the row.

        """
        self._check(rows)
        t = rows.t
        if self.step is None and len(t) and (len(t) > 1 or self._last is not None):
            self.step = float(np.median(np.diff(t if self._last is None else np.append(self._last, t))))
        longest = np.inf if self.step is None else LONGEST_STEPS * self.step
        edges = [0, *(np.flatnonzero(np.diff(t) > longest) + 1).tolist(), len(t)]
        stretches = []
        for a, b in pairwise(edges):
            if b > a:
                apart = a > 0 or (self._last is not None and float(t[0]) - self._last > longest)
                stretches.append((apart, rows.part(slice(a, b))))
        self._seen += len(t)
        self._last = float(t[-1]) if len(t) else self._last
        return stretches

    def _check(self, rows: StreamRows) -> None:
        t, n = rows.t, self.robot.n
        shapes = {np.shape(rows.q), np.shape(rows.tau), *(() if rows.dq is None else (np.shape(rows.dq),))}
        if shapes != {(len(t), n)}:
            raise UsageError("watch-shape", found=f"rows of shapes {shapes}", expected=f"({len(t)}, {n})")
        columns = {"time": t[:, None], "position": rows.q, "torque": rows.tau}
        if rows.dq is not None:
            columns["velocity"] = rows.dq
        for name, values in columns.items():
            # One sum detects any value that is not finite; its row is searched only then.
            if not np.isfinite(values.sum()):
                bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
                raise UnfitDataError(
                    "missing-signal",
                    found=f"no {name}",
                    expected=f"{name} in every row",
                    place=self._place(int(bad[0]), t) if len(bad) else Place(),
                )
        before = t if self._last is None else np.concatenate([[self._last], t])
        back = np.flatnonzero(np.diff(before) <= 0)
        if len(back):
            row = int(back[0]) + len(t) - len(before) + 1
            raise UnfitDataError(
                "time-backwards",
                found=f"time that does not rise ({before[back[0]]:.6g} s, then {t[row]:.6g} s)",
                expected="rows in the order of time, each time once",
                do="sort the log, or start a new stream",
                place=self._place(row, t),
            )

    def _place(self, row: int, t: Float) -> Place:
        return Place(row=self._seen + row, time=float(t[row]) if np.isfinite(t[row]) else None)


class Thinner:
    """Keeps every k-th row; torque and velocity become triangular weighted means of the rows around it.

    The trapezoidal integral of these means over the kept rows equals that over all rows. So equations that integrate
    torque lose nothing, and the mean velocity agrees with the change of position.
    """

    def __init__(self, every: int, joints: int) -> None:
        """every: the factor k; 1 keeps all rows."""
        self.every = every
        self._joints = joints
        self._pending = StreamRows.none(joints)
        weight = 1.0 - np.abs(np.arange(1 - every, every)) / every
        self._weight = weight / every

    def forget(self) -> None:
        """Discard pending rows at a gap."""
        self._pending = StreamRows.none(self._joints)

    def take(self, rows: StreamRows) -> StreamRows:
        """Return the kept rows whose means are complete; each needs k - 1 rows after it."""
        k = self.every
        if k == 1:
            return rows
        waiting = self._pending.then(rows)
        # Row i k + k - 1 of the pending rows, with the k - 1 rows on either side of it.
        count = max((len(waiting) - 2 * k + 1) // k + 1, 0)
        self._pending = waiting.part(slice(count * k, None))
        if not count:
            return StreamRows.none(self._joints)
        middle = slice(k - 1, (count - 1) * k + k, k)
        return StreamRows(
            waiting.t[middle],
            waiting.q[middle],
            self._mean(waiting.tau, count),
            None if waiting.dq is None else self._mean(waiting.dq, count),
        )

    def _mean(self, values: Float, count: int) -> Float:
        windows = np.lib.stride_tricks.sliding_window_view(values, 2 * self.every - 1, axis=0)
        return np.asarray(windows[:: self.every][:count] @ self._weight)


@dataclass(frozen=True)
class StreamColumns:
    """Indices of the columns t, q_<joint>, tau_<joint> and, if present, dq_<joint> in a stream."""

    time: int
    position: tuple[int, ...]
    torque: tuple[int, ...]
    velocity: tuple[int, ...] | None
    width: int

    @staticmethod
    def of_header(header: str, robot: RobotModel, file: str = "") -> StreamColumns:
        """Find the columns in a header line; raises InputError with the names of missing columns."""
        names = [name.strip().strip('"') for name in header.lstrip("\ufeff").strip().split(",")]
        index: Mapping[str, int] = {name: i for i, name in enumerate(names)}
        needed = ["t", *(f"{kind}_{joint}" for kind in ("q", "tau") for joint in robot.joint_names)]
        missing = [name for name in needed if name not in index]
        if missing:
            raise InputError(
                "missing-column",
                found=f"no column {', '.join(missing)}",
                expected="t, q_<joint> and tau_<joint> of every joint",
                place=Place(file=file or None, line=1),
            )
        velocity = [f"dq_{joint}" for joint in robot.joint_names]
        return StreamColumns(
            time=index["t"],
            position=tuple(index[f"q_{joint}"] for joint in robot.joint_names),
            torque=tuple(index[f"tau_{joint}"] for joint in robot.joint_names),
            velocity=tuple(index[name] for name in velocity) if set(velocity) <= set(index) else None,
            width=len(names),
        )

    @cached_property
    def read(self) -> tuple[int, ...]:
        """Indices of the columns to read: time, positions, torques, velocities."""
        return (self.time, *self.position, *self.torque, *(self.velocity or ()))


class Follower(Protocol):
    """Interface of estimators that take rows of a stream, such as `Watcher`."""

    robot: RobotModel

    def feed(self, t: Float, q: Float, tau: Float, dq: Float | None = None) -> bool:
        """Process rows; return whether the estimate has changed."""
        ...

    def finish(self) -> bool:
        """Process the remaining rows at the end of the log; return whether the estimate has changed."""
        ...

    @property
    def time(self) -> float:
        """Time of the last estimate, s of the log's clock."""
        ...


def watch_rows(watcher: Follower, pieces: Iterable[StreamRows]) -> Iterator[float]:
    """Feed rows to a watcher; yield the time of the log, s, whenever the estimate has changed.

    Rows with a missing value are left out. Raises UnfitDataError as `Watcher.feed` does.
    """
    for rows in pieces:
        there = np.isfinite(np.concatenate([rows.q, rows.tau], axis=1)).all(axis=1)
        if rows.dq is not None:
            there &= np.isfinite(rows.dq).all(axis=1)
        dq = None if rows.dq is None else rows.dq[there]
        if there.any() and watcher.feed(rows.t[there], rows.q[there], rows.tau[there], dq):
            yield watcher.time
    if watcher.finish():
        yield watcher.time


def watch_lines(
    watcher: Follower, lines: Iterable[str], file: str = "", at_once: int = 512
) -> Iterator[float]:
    """Feed CSV lines to a watcher; yield the time of the log, s, whenever the estimate has changed.

    Parameters
    ----------
    watcher : Follower
        The estimator.
    lines : iterable of str
        Lines of the log, the header first.
    file : str
        Name of the file in messages.
    at_once : int
        Most lines that are processed together.

    Raises
    ------
    InputError
        If a row does not consist of numbers; it names the line.
    UnfitDataError
        As `Watcher.feed` does.

    """
    stream = iter(lines)
    columns = StreamColumns.of_header(next(stream, ""), watcher.robot, file)
    waiting: list[str] = []
    n, first, latest = watcher.robot.n, 2, monotonic()

    def feed() -> bool:
        table = _table(waiting, columns, file, first)
        waiting.clear()
        dq = None if columns.velocity is None else table[:, 1 + 2 * n :]
        return watcher.feed(table[:, 0], table[:, 1 : 1 + n], table[:, 1 + n : 1 + 2 * n], dq)

    for number, line in enumerate(stream, start=2):
        waiting.append(line)
        # A slow stream is processed before a batch is full.
        if len(waiting) >= at_once or monotonic() - latest >= LONGEST_WAIT:
            if feed():
                yield watcher.time
            first, latest = number + 1, monotonic()
    changed = feed() if waiting else False
    if watcher.finish() or changed:
        yield watcher.time


def _table(lines: list[str], columns: StreamColumns, file: str, first: int) -> Float:
    # Lines are parsed together; only if that fails, one by one, to name the wrong line.
    commas = columns.width - 1
    if all(line.count(",") == commas for line in lines):
        try:
            return np.loadtxt(lines, delimiter=",", usecols=columns.read, ndmin=2, comments=None)
        except ValueError:
            pass
    numbered = [(i, line) for i, line in enumerate(lines, start=first) if line.strip()]
    rows = [_numbers(line, columns, file, i) for i, line in numbered]
    return np.array(rows).reshape(-1, len(columns.read))


def _numbers(line: str, columns: StreamColumns, file: str, number: int) -> list[float]:
    # Only the columns to read must be numbers.
    parts = line.split(",")
    try:
        if len(parts) == columns.width:
            return [number_of(parts[i]) if parts[i].strip() else np.nan for i in columns.read]
    except ValueError:
        pass
    raise InputError(
        "row",
        found=f"'{line.strip()[:60]}'",
        expected=f"{columns.width} numbers",
        place=Place(file=file or None, line=number),
    )
