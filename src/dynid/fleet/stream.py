"""Rows of a running log: checked one after another, thinned out without loss, read from lines of text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from itertools import pairwise
from time import monotonic
from typing import Protocol

import numpy as np

from dynid.base import Float, InputError, Place, UnfitDataError, UsageError, dataclass, number_of
from dynid.robot import RobotModel

LONGEST_STEPS = 6.0
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
        """Some of the rows."""
        return StreamRows(
            self.t[which], self.q[which], self.tau[which], None if self.dq is None else self.dq[which]
        )

    def then(self, later: StreamRows) -> StreamRows:
        """These rows and later ones; velocities only where both have them."""
        if not len(self):
            return later
        dq = None if self.dq is None or later.dq is None else np.concatenate([self.dq, later.dq])
        t, q, tau = (
            np.concatenate(pair) for pair in ((self.t, later.t), (self.q, later.q), (self.tau, later.tau))
        )
        return StreamRows(t, q, tau, dq)

    @staticmethod
    def none(joints: int) -> StreamRows:
        """No rows yet."""
        return StreamRows(np.zeros(0), np.zeros((0, joints)), np.zeros((0, joints)))


class RowStream:
    """Checks rows as they come and cuts them into stretches: a step of more than six sampling times begins a new one.

    step: s, the sampling time, None before the second row.
    """

    def __init__(self, robot: RobotModel) -> None:
        """robot: whose joints the rows measure."""
        self.robot = robot
        self.step: float | None = None
        self._seen = 0
        self._last: float | None = None

    def take(self, rows: StreamRows) -> list[tuple[bool, StreamRows]]:
        """Stretches of the rows, each with whether it stands apart from what came before.

        Raises UsageError for other shapes, UnfitDataError that names the row if time does not rise or a value is
        missing.
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
            # One sum shows any value that is not finite; which one is looked for only then.
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
                expected="rows in the order of time, each once",
                do="sort the log, or start a new stream",
                place=self._place(row, t),
            )

    def _place(self, row: int, t: Float) -> Place:
        return Place(row=self._seen + row, time=float(t[row]) if np.isfinite(t[row]) else None)


class Thinner:
    """Keeps every k-th row; torque and velocity become means over the rows between, weighted by a triangle.

    The trapezoidal integral of the means over the kept rows is that of all rows, so that equations which integrate
    torque lose nothing of it, and the mean velocity is the one at which the position has moved.
    """

    def __init__(self, every: int, joints: int) -> None:
        """every: k; 1 passes all rows on."""
        self.every = every
        self._joints = joints
        self._pending = StreamRows.none(joints)
        weight = 1.0 - np.abs(np.arange(1 - every, every)) / every
        self._weight = weight / every

    def forget(self) -> None:
        """Starts anew, for rows that stand apart."""
        self._pending = StreamRows.none(self._joints)

    def take(self, rows: StreamRows) -> StreamRows:
        """Kept rows that are complete: each needs k - 1 rows after it."""
        k = self.every
        if k == 1:
            return rows
        waiting = self._pending.then(rows)
        # Row i k + k - 1 of those held, from the k - 1 rows on either side of it.
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
    """Where a stream's header has the canonical columns t, q_<joint>, tau_<joint> and perhaps dq_<joint>."""

    time: int
    position: tuple[int, ...]
    torque: tuple[int, ...]
    velocity: tuple[int, ...] | None
    width: int

    @staticmethod
    def of_header(header: str, robot: RobotModel, file: str = "") -> StreamColumns:
        """Raises InputError that names the columns that are missing."""
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
        """Indices of the columns that are read: time, positions, torques, velocities."""
        return (self.time, *self.position, *self.torque, *(self.velocity or ()))


class Follower(Protocol):
    """What takes rows of a stream: `Watcher` or one of its kind."""

    robot: RobotModel

    def feed(self, t: Float, q: Float, tau: Float, dq: Float | None = None) -> bool:
        """Takes in rows; whether the estimate has changed."""
        ...

    def finish(self) -> bool:
        """Takes in what is left at the end of the log."""
        ...

    @property
    def time(self) -> float:
        """Time of the last estimate, s of the log's clock."""
        ...


def watch_rows(watcher: Follower, pieces: Iterable[StreamRows]) -> Iterator[float]:
    """Feeds rows to a watcher; yields the time of the log each time the estimate has changed.

    Rows in which something is missing are left out.    Raises UnfitDataError as `Watcher.feed`.
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
    """Feeds CSV lines, header first, to a watcher; yields the time of the log each time the estimate has changed.

    Raises InputError with the line of a row that is not numbers, UnfitDataError as `Watcher.feed`.
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
        # Slow streams are not kept waiting for a full batch.
        if len(waiting) >= at_once or monotonic() - latest >= LONGEST_WAIT:
            if feed():
                yield watcher.time
            first, latest = number + 1, monotonic()
    changed = feed() if waiting else False
    if watcher.finish() or changed:
        yield watcher.time


def _table(lines: list[str], columns: StreamColumns, file: str, first: int) -> Float:
    # Whole rows at once; only where that fails are lines looked at one by one, for what is wrong with which.
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
    # The columns that are read, as numbers; the others may hold anything.
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
