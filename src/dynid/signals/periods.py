"""Periodic averaging: a motion that was repeated becomes one period of it, with the noise of one period."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.log.log import Trajectory
from dynid.log.read import Log
from dynid.log.time_order import longest_step
from dynid.signals.align import Piece, pieces
from dynid.signals.first_look import median_step
from dynid.signals.resample import at_times, sensible_rate

CONTEXT = 4
REPEATS = 0.02
DRIFT = 6.0


@dataclass(frozen=True, eq=False)
class PeriodMean:
    """One period of a repeated motion.

    periods: how many were averaged.    t: (P,) s from the period's start.    names: of the L channels.
    mean, spread: (L, P) mean over the periods and standard deviation of a single one.
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
        """(L,) root mean square of the spread; that of the mean is smaller by the root of the number of periods."""
        return np.asarray(np.sqrt(np.mean(self.spread**2, axis=1)))

    def rows(self, margin: float) -> tuple[Float, dict[str, Float]]:
        """Times and columns of one period, continued by `margin` seconds on both sides for the filters' edges."""
        P = len(self.t)
        extra = min(math.ceil(margin / self.period * P), P)
        index = np.arange(-extra, P + extra)
        return (index + extra) * self.period / P, {
            name: line[index % P] for name, line in zip(self.names, self.mean, strict=True)
        }


def average_periods(
    log: Log, period: float, skip: int = 1, diagnostics: Diagnostics | None = None
) -> tuple[PeriodMean, ...]:
    """Averages the trajectories of a log over the periods of their motion; memory is that of one period.

    period: s.    skip: periods left out at the start, while the controller settles.
    With N periods the noise of positions and torques falls by sqrt(N), and what is left over gives the noise's size.
    Averaged are q, dq, tau, and theta and dtheta of two encoders; temperatures and further channels are left out.

    Raises UsageError for a period that is no time, UnfitDataError for fewer than two whole periods or a motion that
    does not repeat.
    Source: Swevers, Verdonck, De Schutter 2007, section III.
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
    """Times and columns of a mean period as a log of the robot holds them, torque on the side that the robot names."""
    t, columns = mean.rows(margin)
    drive, names = log.robot.drive, log.robot.joint_names
    if str(drive.torque_side) == "motor" and f"tau_{names[0]}" in columns:
        q, tau = (np.stack([columns[f"{kind}_{name}"] for name in names], axis=1) for kind in ("q", "tau"))
        if drive.linkages:
            tau = tau / drive.linkage_slopes(q)
        tau = tau @ np.linalg.inv(drive.transmission)
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
    names = _names(log)
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
    _judge(mean, log.robot.joint_names, place)
    _add_drift(mean, halves, sink, place)
    return mean


def _names(log: Log) -> tuple[str, ...]:
    m, joints = log.mapping, log.robot.joint_names
    groups = (
        ("q", True),
        ("dq", bool(m.velocity)),
        ("tau", m.gives_torque),
        ("theta", bool(m.motor_position)),
        (
            "dtheta",
            bool(m.velocity) and bool(m.motor_position) and set(m.motor_velocity) >= set(m.motor_position),
        ),
    )
    return tuple(f"{prefix}_{joint}" for prefix, logged in groups if logged for joint in joints)


def _on_grid(
    log: Log, trajectory: Trajectory, index: int, step: float, start: float
) -> Iterator[tuple[Int, Float]]:
    """Numbers of grid points since `start` and the channels there, each point once, however the rows arrive."""
    origin = trajectory.start_time + start
    gap = longest_step(median_step(log, index))
    held: Piece | None = None
    following = 0
    for piece in pieces(log.chunks(trajectory), log.robot.prismatic, gap, 0):
        if held is None or held.segment != piece.segment:
            t, lines = piece.t, piece.lines
            following = max(math.ceil((float(t[0]) - origin) / step - 1e-6), 0) if len(t) else 0
        else:
            t = np.concatenate([held.t, piece.t])
            lines = np.concatenate([held.lines, piece.lines], axis=1)
        if len(t) > CONTEXT:
            # The slope at the last rows may still change with what follows.
            last = float(t[-1] if piece.last else t[-1 - CONTEXT // 2])
            stop = math.floor((last - origin) / step + 1e-6) + 1
            if stop > following:
                k = np.arange(following, stop)
                yield k, at_times(t, lines, np.asarray(origin + k * step))
                following = stop
        keep = max(int(np.searchsorted(t, origin + following * step)) - CONTEXT, 0)
        held = Piece(piece.segment, t[keep:], lines[:, keep:], piece.last)


class _Sums:
    """Sums over periods, of differences from the first one, so that no digits are lost."""

    def __init__(self, lines: int, phases: int) -> None:
        self.count = np.zeros(phases)
        self.first, self.sum, self.square = np.zeros((3, lines, phases))

    def add(self, bins: Int, lines: Float) -> None:
        for a in range(0, len(bins), len(self.count)):  # no phase twice in one stretch
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


def _judge(mean: PeriodMean, joints: tuple[str, ...], place: Place) -> None:
    n = len(joints)
    travel = np.ptp(mean.mean[:n], axis=1)
    for j in np.flatnonzero(mean.noise[:n] > REPEATS * np.maximum(travel, 1e-9)).tolist():
        if travel[j] < 1e-3 and mean.noise[j] < 1e-3:
            continue
        raise UnfitDataError(
            "not-periodic",
            found=f"positions of '{joints[j]}' that differ by {mean.noise[j]:.3g} from period to period, of "
            f"{travel[j]:.3g} travelled, in trajectory '{mean.trajectory}'",
            expected=f"a motion that repeats every {mean.period:g} s to {100 * REPEATS:g} %",
            do="check the period, or leave out more periods at the start",
            place=place,
        )


def _add_drift(mean: PeriodMean, halves: tuple[_Sums, _Sums], sink: Diagnostics, place: Place) -> None:
    # The mean over a whole period has the spread of all its samples averaged out: what differs there is no noise.
    shift = halves[1].mean.mean(axis=1) - halves[0].mean.mean(axis=1)
    count = mean.spread.shape[1] * (mean.periods // 2)
    doubt = mean.noise * math.sqrt(2.0 / count)
    for i, name in enumerate(mean.names):
        if name.startswith("tau_") and abs(shift[i]) > max(DRIFT * doubt[i], 0.02 * np.ptp(mean.mean[i])):
            sink.warn(
                "drift",
                f"{name} moves by {shift[i]:.3g} from the first half of the periods to the second: the friction warms "
                "up or the sensor drifts; leave out more periods at the start",
                place,
            )
