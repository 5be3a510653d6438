"""Online estimation: rows of a running log in, an estimate that follows them out."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise

import numpy as np

from dynid.arrays import Float
from dynid.errors import InputError, Place, UnfitDataError, UsageError
from dynid.estimate.recursive import (
    Forgetting,
    ParameterTrajectory,
    RecursiveLeastSquares,
    TrajectoryRecorder,
)
from dynid.factor.base import structural_base
from dynid.robot.model import RobotModel
from dynid.rows.momentum import MomentumRows
from dynid.rows.rows import Rows
from dynid.signals.samples import Samples
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Terms

WATCH_TERMS = RigidBody() + RotorInertia() + Viscous() + Coulomb(width=0.02) + Offset()
# Periods of the cut-off for which rows before a batch are kept; equations hold without them, and only weigh less.
SETTLING = 1.0


@dataclass(frozen=True)
class WatchSettings:
    """How a running log is followed.

    rows: equations without acceleration.    batch: s of rows that are taken in at once.
    rest: rad/s (m/s), rows in which every joint is slower are left out.    variance: of the parameters at the start.

    Raises UsageError for values out of range.
    """

    terms: Terms = WATCH_TERMS
    rows: Rows = field(default_factory=MomentumRows)
    forgetting: Forgetting = field(default_factory=Forgetting)
    batch: float = 0.5
    rest: float = 0.02
    variance: float = 1e6
    seed: int = 0

    def __post_init__(self) -> None:
        if not (self.batch > 0 and self.rest >= 0):
            raise UsageError(
                "watch", found=f"batch = {self.batch}, rest = {self.rest}", expected="batch > 0, rest >= 0"
            )


class Watcher:
    """Takes rows of time, position, torque and perhaps velocity, and keeps an estimate of the base parameters.

    Each batch is filtered together with the rows before it, as long as the filter remembers; so rows need not be kept.
    A step of more than six sampling times begins a new stretch, whose filters start anew.
    """

    def __init__(self, robot: RobotModel, settings: WatchSettings | None = None) -> None:
        """Finds the base parameters of the robot; no row is needed."""
        self.robot, self.settings = robot, settings or WatchSettings()
        s = self.settings
        if s.terms.channels():
            raise UsageError(
                "watch-channels", found=", ".join(s.terms.channels()), expected="terms without extra channels"
            )
        self.base = structural_base(robot, s.terms, s.rows, s.seed)
        self.estimate = RecursiveLeastSquares(
            self.base.independent, variance=s.variance, forgetting=s.forgetting
        )
        self.recorder = TrajectoryRecorder(self.base.formulas())
        self.seconds = 0.0
        self._step: float | None = None
        self._rows_seen = 0
        self._t = np.zeros(0)
        self._q, self._tau = (np.zeros((0, robot.n)) for _ in range(2))
        self._dq: Float | None = None
        self._fresh = 0

    @property
    def names(self) -> tuple[str, ...]:
        """Base parameters as formulas."""
        return self.base.formulas()

    @property
    def trajectory(self) -> ParameterTrajectory:
        """The estimate after every batch."""
        return self.recorder.trajectory

    def feed(self, t: Float, q: Float, tau: Float, dq: Float | None = None) -> bool:
        """Takes in rows: t (T,), q, tau and dq (T, n); returns whether the estimate has changed.

        Raises UnfitDataError that names the row if time does not rise or a value is missing.
        """
        self._check(t, q, tau, dq)
        self._rows_seen += len(t)
        changed = False
        for part in self._stretches(t):
            if self._starts_anew(float(t[part.start])):
                changed |= self._take(self._fresh)
                self._forget()
            self._append(t[part], q[part], tau[part], None if dq is None else dq[part])
            changed |= self._take(self._ready())
        return changed

    def finish(self) -> bool:
        """Takes in what is left at the end of the log."""
        return self._take(self._fresh)

    def _check(self, t: Float, q: Float, tau: Float, dq: Float | None) -> None:
        shapes = {np.shape(q), np.shape(tau), *(() if dq is None else (np.shape(dq),))}
        if shapes != {(len(t), self.robot.n)}:
            raise UsageError(
                "watch-shape", found=f"rows of shapes {shapes}", expected=f"({len(t)}, {self.robot.n})"
            )
        columns = {"time": t[:, None], "position": q, "torque": tau} | (
            {} if dq is None else {"velocity": dq}
        )
        for name, values in columns.items():
            bad = np.flatnonzero(~np.isfinite(values).all(axis=1))
            if len(bad):
                raise UnfitDataError(
                    "missing-signal",
                    found=f"no {name}",
                    expected=f"{name} in every row",
                    place=self._place(int(bad[0]), t),
                )
        before = np.concatenate([self._t[-1:], t])
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
        return Place(row=self._rows_seen + row, time=float(t[row]) if np.isfinite(t[row]) else None)

    def _stretches(self, t: Float) -> Iterator[slice]:
        if self._step is None and len(t) > 1:
            self._step = float(np.median(np.diff(t)))
        longest = np.inf if self._step is None else 6.0 * self._step
        edges = [0, *(np.flatnonzero(np.diff(t) > longest) + 1).tolist(), len(t)]
        for a, b in pairwise(edges):
            if b > a:
                yield slice(a, b)

    def _starts_anew(self, time: float) -> bool:
        return bool(len(self._t)) and self._step is not None and time - float(self._t[-1]) > 6.0 * self._step

    def _append(self, t: Float, q: Float, tau: Float, dq: Float | None) -> None:
        first = not len(self._t)
        self._t, self._q, self._tau = (
            np.concatenate(pair) for pair in ((self._t, t), (self._q, q), (self._tau, tau))
        )
        if dq is not None and (first or self._dq is not None):
            self._dq = dq if first or self._dq is None else np.concatenate([self._dq, dq])
        else:
            self._dq = None
        self._fresh += len(t)

    def _forget(self) -> None:
        self._t, self._fresh, self._dq = np.zeros(0), 0, None
        self._q, self._tau = (np.zeros((0, self.robot.n)) for _ in range(2))

    def _ready(self) -> int:
        # One row is held back: its velocity needs the next one.
        enough = self._step is not None and (self._fresh - 1) * self._step >= self.settings.batch
        return self._fresh - 1 if enough else 0

    def _take(self, count: int) -> bool:
        if count < 1 or self._step is None or len(self._t) < 4:
            return False
        known = len(self._t) - self._fresh
        stop = known + count
        keep = np.zeros(len(self._t), dtype=np.bool_)
        samples = self._samples()
        keep[known:stop] = (np.abs(samples.dq[known:stop]) >= self.settings.rest).any(axis=1)
        index = np.flatnonzero(keep)
        if len(index):
            wanted = self.base.mask
            equations = self.settings.rows.equations(self.robot, self.settings.terms, samples, wanted)
            self.estimate.update(equations, count * self._step, index)
            self.seconds += count * self._step
            self.recorder.note(float(self._t[stop - 1]), self.estimate)
        memory = round(SETTLING / getattr(self.settings.rows, "cutoff", 1.0) / self._step)
        first = max(stop - memory, 0)
        self._t, self._q, self._tau = self._t[first:], self._q[first:], self._tau[first:]
        self._dq = None if self._dq is None else self._dq[first:]
        self._fresh -= count
        return bool(len(index))

    def _samples(self) -> Samples:
        t, q = self._t, self._q
        dq = np.asarray(np.gradient(q, t, axis=0)) if self._dq is None else self._dq
        return Samples(
            t=t,
            q=q,
            dq=dq,
            ddq=np.zeros_like(q),
            tau=self._tau,
            keep=np.ones(len(t), dtype=np.bool_),
            rate=1.0 / float(self._step or 1.0),
            segment=0,
            trajectory="",
            first=1,
        )


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
    def read(self) -> frozenset[int]:
        """Indices of the columns that are read."""
        return frozenset((self.time, *self.position, *self.torque, *(self.velocity or ())))


def watch_lines(
    watcher: Watcher, lines: Iterable[str], file: str = "", at_once: int = 512
) -> Iterator[float]:
    """Feeds CSV lines, header first, to a watcher; yields the time of the log each time the estimate has changed.

    Raises InputError with the line of a row that is not numbers, UnfitDataError as `Watcher.feed`.
    """
    stream = iter(lines)
    columns = StreamColumns.of_header(next(stream, ""), watcher.robot, file)
    waiting: deque[list[float]] = deque()

    def feed() -> bool:
        table = np.array(waiting)
        waiting.clear()
        dq = None if columns.velocity is None else table[:, columns.velocity]
        return watcher.feed(table[:, columns.time], table[:, columns.position], table[:, columns.torque], dq)

    for number, line in enumerate(stream, start=2):
        if line.strip():
            waiting.append(_numbers(line, columns, file, number))
        if len(waiting) >= at_once and feed():
            yield float(watcher.trajectory.t[-1])
    changed = feed() if waiting else False
    if watcher.finish() or changed:
        yield float(watcher.trajectory.t[-1])


def _numbers(line: str, columns: StreamColumns, file: str, number: int) -> list[float]:
    # A line as numbers; columns that are not read may hold anything.
    parts = line.split(",")
    width, read = columns.width, columns.read
    try:
        values = [
            (float(part) if part.strip() else np.nan) if i in read else np.nan for i, part in enumerate(parts)
        ]
    except ValueError:
        values = []
    if len(values) != width:
        raise InputError(
            "row",
            found=f"'{line.strip()[:60]}'",
            expected=f"{width} numbers",
            place=Place(file=file or None, line=number),
        )
    return values
