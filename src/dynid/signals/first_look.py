"""Time step, time base and signals from the first rows of a log, and averages over the periods of a motion."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import tee

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import CLAIMS, Diagnostics
from dynid.base.errors import Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.log.checks import check_log
from dynid.log.clocks import longest_step
from dynid.log.read import Log
from dynid.recording import RawChunk, Trajectory
from dynid.signals.coherence import Signals
from dynid.signals.filter import at_times, is_uniform, sensible_rate
from dynid.signals.time_base import Piece, TimeBase, clean_rows, find_time_base, pieces

HEAD_ROWS = 8192  # rows read for the time step and the time base
EVIDENCE_SAMPLES = 200_000  # samples used for spectra, which bounds time and memory
WINDOW_SECONDS, WINDOWS = 10.0, 6  # s, and windows: a minute is enough for spectra


def first_look(log: Log, index: int) -> tuple[float, TimeBase]:
    """Median time step and time base from the first rows of a trajectory, which are read once.

    Raises
    ------
    UnfitDataError
        If the trajectory has no rows or its time stamps do not increase.

    """
    trajectory = log.trajectories[index]
    for_step, for_base = tee(log.chunks(trajectory, HEAD_ROWS))
    return _median_step(trajectory, for_step), _time_base(for_base, log.robot.n)


def median_step(log: Log, index: int) -> float:
    """Median time step (s) of the first rows of a trajectory; raises UnfitDataError if time does not increase."""
    trajectory = log.trajectories[index]
    return _median_step(trajectory, log.chunks(trajectory, HEAD_ROWS))


@dataclass(frozen=True)
class EffortClock:
    """Times of efforts that are recorded more slowly than positions.

    Attributes
    ----------
    every : int
        Rows per measured effort; 1 if each row has one.
    period : float, s
        Time between efforts.
    phases : tuple of float, s
        Time of an effort in each trajectory.

    """

    every: int = 1
    period: float = 0.0
    phases: tuple[float, ...] = ()


def effort_clock(log: Log) -> EffortClock:
    """Times of the efforts, estimated from the first rows of each trajectory."""
    clocks = []
    for trajectory in log.trajectories:
        chunk = next(log.chunks(trajectory, HEAD_ROWS), None)
        if chunk is None or chunk.effort_every == 1 or len(chunk.t) < 2 * chunk.effort_every:
            return EffortClock()
        t = chunk.t[:: chunk.effort_every]
        steps = np.diff(t)
        # Numbering the periods, including those within gaps, gives a period that stays accurate over a long log.
        number = np.rint(np.append(0.0, np.cumsum(steps / np.median(steps))))
        period, phase = np.polyfit(number, t, 1)
        clocks.append((chunk.effort_every, float(period), float(phase)))
    every, periods, phases = zip(*clocks, strict=True)
    return EffortClock(every[0], float(np.median(periods)), phases) if len(set(every)) == 1 else EffortClock()


def _time_base(chunks: Iterable[RawChunk], joints: int) -> TimeBase:
    rows, total = [], 0
    for t, lines in clean_rows(chunks):
        rows.append((t, lines))
        total += len(t)
        if total >= HEAD_ROWS:
            break
    if not rows:
        return TimeBase()
    t, lines = np.concatenate([t for t, _ in rows]), np.concatenate([x for _, x in rows], axis=1)
    return find_time_base([(t[:HEAD_ROWS], lines[:, :HEAD_ROWS])], joints)


def _median_step(trajectory: Trajectory, chunks: Iterable[RawChunk]) -> float:
    times, total = [np.zeros(0)], 0
    for chunk in chunks:  # several, since a selected window may keep few rows of the first
        times.append(chunk.t)
        total += len(chunk.t)
        if total >= HEAD_ROWS:
            break
    if not total:
        raise UnfitDataError(
            "no-rows",
            found=f"trajectory '{trajectory.name}' without values in the selected columns",
            expected="positions of its joints",
        )
    steps = np.diff(np.concatenate(times)[:HEAD_ROWS])
    steps = steps[steps > 0]
    if len(steps) == 0:
        raise UnfitDataError(
            "time-stands",
            found=f"time stamps of trajectory '{trajectory.name}' never increase",
            expected="increasing time stamps",
        )
    return float(np.median(steps))


def signals_for_evidence(log: Log, rate: float, bases: Sequence[TimeBase]) -> list[Signals]:
    """Uniform positions, velocities and torques from the start of a log at `rate` (Hz), for choices from their spectra.

    `bases` has the time base of each trajectory.
    """
    n, m = log.robot.n, log.channels
    velocity, effort = set(m.velocity) == set(log.robot.joint_names), m.gives_torque
    wanted = slice(n * (1 + bool(m.velocity) + effort))
    signals, total = [], 0
    for trajectory, base in zip(log.trajectories, bases, strict=True):
        segments: dict[int, list[Piece]] = {}
        rows = pieces(log.chunks(trajectory), log.robot.prismatic, longest_step(1.0 / rate), 0, base)
        for piece in rows:
            segments.setdefault(piece.segment, []).append(replace(piece, lines=piece.lines[wanted]))
            total += len(piece.t)
            if total > EVIDENCE_SAMPLES:
                break
        for parts in segments.values():
            t = np.concatenate([piece.t for piece in parts])
            lines = np.concatenate([piece.lines for piece in parts], axis=1)
            if len(t) <= 8:
                continue
            if not is_uniform(t, rate):
                lines = at_times(t, lines, np.arange(t[0], t[-1], 1.0 / rate))
            signals.append(
                Signals(lines[:n], lines[n : 2 * n] if velocity else None, lines[-n:] if effort else None)
            )
        if total > EVIDENCE_SAMPLES:
            break
    if not signals:
        check_log(log, Diagnostics(accepting=frozenset(CLAIMS)))  # raises a more precise error if it can
        raise UnfitDataError(
            "no-rows", found="no consecutive complete rows", expected="rows without missing values"
        )
    return signals


def windows_of(parts: Sequence[Signals], rate: float) -> list[Signals]:
    """At most a minute of the stretches, in windows of ten seconds spread evenly over them."""
    size = int(WINDOW_SECONDS * rate)
    whole = [(part, start) for part in parts for start in range(0, max(part.q.shape[1] - size // 2, 1), size)]
    wanted = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), WINDOWS)).astype(int))
    return [whole[i][0].part(whole[i][1], whole[i][1] + size) for i in wanted]


# Periodic averaging: a repeated motion becomes one period with less noise.

CONTEXT = 4  # rows around a point that the interpolation depends on
REPEATS = 0.02  # of a joint's range: a motion repeats if its positions differ by less
DRIFT = 6.0  # standard deviations by which the halves of the periods must differ to count as drift


@dataclass(frozen=True, eq=False)
class PeriodMean:
    """One period of a repeated motion.

    Attributes
    ----------
    trajectory : str
        Name of the trajectory.
    period : float, s
        The period.
    periods : int
        Number of averaged periods.
    names : tuple of str
        Names of the L channels.
    t : ndarray, shape (P,), s
        Times from the start of the period.
    mean, spread : ndarray, shape (L, P)
        Mean over the periods, and standard deviation between them.

    """

    trajectory: str
    period: float
    periods: int
    names: tuple[str, ...]
    t: Float
    mean: Float
    spread: Float

    @property
    def noise(self) -> Float:
        """(L,) r.m.s. of the spread; the noise of the mean is smaller by the root of the number of periods."""
        return np.asarray(np.sqrt(np.mean(self.spread**2, axis=1)))

    def rows(self, margin: float) -> tuple[Float, dict[str, Float]]:
        """Times (s) and columns of one period, continued by `margin` seconds on both sides for the filters."""
        P = len(self.t)
        extra = min(math.ceil(margin / self.period * P), P)
        index = np.arange(-extra, P + extra)
        return (index + extra) * self.period / P, {
            name: line[index % P] for name, line in zip(self.names, self.mean, strict=True)
        }


def average_periods(
    log: Log, period: float, skip: int = 1, diagnostics: Diagnostics | None = None
) -> tuple[PeriodMean, ...]:
    """Average the trajectories of a log over the periods of their motion, in the memory of one period.

    With N periods the noise of positions and torques falls by sqrt(N); the spread between periods is an estimate of it.
    q, dq, tau, and theta and dtheta of second encoders are averaged; temperatures and further channels are left out.

    Parameters
    ----------
    log : Log
        The log.
    period : float, s
        Period of the motion.
    skip : int
        Periods that are left out at the start, while the controller settles.
    diagnostics : Diagnostics, optional
        Sink of warnings.

    Returns
    -------
    tuple of PeriodMean
        The mean period of each trajectory.

    Raises
    ------
    UsageError
        If the period is not positive and finite.
    UnfitDataError
        If there are fewer than two whole periods or the motion does not repeat.

    References
    ----------
    Swevers, Verdonck, De Schutter 2007, section III.

    """
    if not (math.isfinite(period) and period > 0 and skip >= 0):
        raise UsageError(
            "period",
            found=f"a period of {period:g} s, {skip} left out",
            expected="a positive time and a count",
        )
    sink = diagnostics if diagnostics is not None else Diagnostics()
    return tuple(_averaged(log, i, period, skip, sink) for i in range(len(log.trajectories)))


def columns_of(log: Log, mean: PeriodMean, margin: float) -> tuple[Float, dict[str, Float]]:
    """Times and columns of a mean period in the format of the robot's logs.

    Parameters
    ----------
    log : Log
        The averaged log; its robot determines the side of the torque (motor or link).
    mean : PeriodMean
        The mean period.
    margin : float, s
        Time by which the period is continued on both sides.

    Returns
    -------
    tuple of ndarray and dict of ndarray
        Times (s), and columns by name.

    """
    t, columns = mean.rows(margin)
    drive, names = log.robot.drive, log.robot.joint_names
    if str(drive.torque_side) == "motor" and f"tau_{names[0]}" in columns:
        q, tau = (np.stack([columns[f"{kind}_{name}"] for name in names], axis=1) for kind in ("q", "tau"))
        tau = drive.motor_torque(q, tau)
        columns |= {f"tau_{name}": tau[:, j] for j, name in enumerate(names)}
    return t, columns


def _averaged(log: Log, index: int, period: float, skip: int, sink: Diagnostics) -> PeriodMean:
    trajectory = log.trajectories[index]
    rate = sensible_rate(median_step(log, index))
    P = round(period * rate)
    place = Place(file=str(trajectory.file))
    whole = math.floor((trajectory.end_time - trajectory.start_time) / period + 1e-6) - skip
    if P < 8 or whole < 2:
        raise UnfitDataError(
            "periods",
            found=f"{whole} whole periods of {period:g} s after the first {skip} in trajectory '{trajectory.name}'",
            expected="at least 2, of at least 8 samples each",
            do="give the period of the motion in seconds, or record longer",
            place=place,
        )
    names = _channel_names(log)
    sums = _Sums(len(names), P)
    halves = (_Sums(len(names), P), _Sums(len(names), P))
    for k, lines in _on_grid(log, trajectory, index, period / P, skip * period):
        inside = k < whole * P
        bins, number = k[inside] % P, k[inside] // P
        kept = lines[: len(names), inside]
        sums.add(bins, kept)
        for half, part in zip(halves, (number < whole // 2, number >= whole - whole // 2), strict=True):
            half.add(bins[part], kept[:, part])
    if (sums.count < 2).any():
        raise UnfitDataError(
            "periods",
            found=f"phases of the period with fewer than two samples in trajectory '{trajectory.name}'",
            expected="every phase at least twice",
            do="leave the trajectory with gaps out, or record longer",
            place=place,
        )
    mean = PeriodMean(
        trajectory.name, period, whole, names, np.arange(P) * period / P, sums.mean, sums.deviation
    )
    _refuse_other_motion(mean, log.robot.joint_names, place)
    _warn_of_drift(mean, halves, sink, place)
    return mean


def _channel_names(log: Log) -> tuple[str, ...]:
    m, joints = log.channels, log.robot.joint_names
    groups = (
        ("q", True),
        ("dq", bool(m.velocity)),
        ("tau", m.gives_torque),
        ("theta", bool(m.motor_position)),
        (
            "dtheta",
            m.measures_motor_velocity,
        ),
    )
    return tuple(f"{prefix}_{joint}" for prefix, logged in groups if logged for joint in joints)


def _on_grid(
    log: Log, trajectory: Trajectory, index: int, step: float, start: float
) -> Iterator[tuple[Int, Float]]:
    """Numbers of grid points since `start` and the channels there, each point once, for batches of any size."""
    origin = trajectory.start_time + start
    gap = longest_step(median_step(log, index))
    previous: Piece | None = None
    following = 0
    for piece in pieces(log.chunks(trajectory), log.robot.prismatic, gap, 0):
        if previous is None or previous.segment != piece.segment:
            t, lines = piece.t, piece.lines
            following = max(math.ceil((float(t[0]) - origin) / step - 1e-6), 0) if len(t) else 0
        else:
            t = np.concatenate([previous.t, piece.t])
            lines = np.concatenate([previous.lines, piece.lines], axis=1)
        if len(t) > CONTEXT:
            # The slope at the last rows still depends on the rows that follow.
            last = float(t[-1] if piece.last else t[-1 - CONTEXT // 2])
            stop = math.floor((last - origin) / step + 1e-6) + 1
            if stop > following:
                k = np.arange(following, stop)
                yield k, at_times(t, lines, np.asarray(origin + k * step))
                following = stop
        keep = max(int(np.searchsorted(t, origin + following * step)) - CONTEXT, 0)
        previous = Piece(piece.segment, t[keep:], lines[:, keep:], piece.last)


class _Sums:
    """Sums over periods of differences from the first period, so that no digits are lost."""

    def __init__(self, lines: int, phases: int) -> None:
        self.count = np.zeros(phases)
        self.first, self.sum, self.square = np.zeros((3, lines, phases))

    def add(self, bins: Int, lines: Float) -> None:
        for a in range(0, len(bins), len(self.count)):  # at most one sample per phase at a time
            at, x = bins[a : a + len(self.count)], lines[:, a : a + len(self.count)]
            new = self.count[at] == 0
            self.first[:, at[new]] = x[:, new]
            d = x - self.first[:, at]
            self.sum[:, at] += d
            self.square[:, at] += d * d
            self.count[at] += 1

    @property
    def mean(self) -> Float:
        return np.asarray(self.first + self.sum / np.maximum(self.count, 1))

    @property
    def deviation(self) -> Float:
        rest = self.square - self.sum**2 / np.maximum(self.count, 1)
        return np.asarray(np.sqrt(np.maximum(rest, 0.0) / np.maximum(self.count - 1, 1)))


def _refuse_other_motion(mean: PeriodMean, joints: tuple[str, ...], place: Place) -> None:
    n = len(joints)
    travel = np.ptp(mean.mean[:n], axis=1)
    for j in np.flatnonzero(mean.noise[:n] > REPEATS * np.maximum(travel, 1e-9)).tolist():
        if travel[j] < 1e-3 and mean.noise[j] < 1e-3:
            continue
        raise UnfitDataError(
            "not-periodic",
            found=f"positions of '{joints[j]}' that differ by {mean.noise[j]:.3g} between periods, of a range of "
            f"{travel[j]:.3g}, in trajectory '{mean.trajectory}'",
            expected=f"a motion that repeats every {mean.period:g} s to {100 * REPEATS:g} %",
            do="check the period, or leave out more periods at the start",
            place=place,
        )


def _warn_of_drift(mean: PeriodMean, halves: tuple[_Sums, _Sums], sink: Diagnostics, place: Place) -> None:
    # The noise of a whole period averages out, so that a difference of the means is drift.
    shift = halves[1].mean.mean(axis=1) - halves[0].mean.mean(axis=1)
    count = mean.spread.shape[1] * (mean.periods // 2)
    doubt = mean.noise * math.sqrt(2.0 / count)
    for i, name in enumerate(mean.names):
        if name.startswith("tau_") and abs(shift[i]) > max(DRIFT * doubt[i], 0.02 * np.ptp(mean.mean[i])):
            sink.warn(
                "drift",
                f"{name} changes by {shift[i]:.3g} from the first to the second half of the periods: friction warms up "
                "or the sensor drifts. Leave out more periods at the start",
                place,
            )
