"""Is a log fit? One pass over it; what is found is repaired with a note, warned about, or stops the work."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np

from dynid.arrays import Bool, Float
from dynid.diagnostics import Diagnostics
from dynid.errors import Place, UnfitDataError
from dynid.kernel import gravity_torque, inverse_dynamics
from dynid.log.log import RawChunk, Trajectory
from dynid.log.read import Log
from dynid.robot.model import RobotModel

MIN_ROWS = 50
MOVED = 2e-3
GAP_STEPS, GAP_LEAST = 6.0, 0.02
MISSING_SHARE = 0.01
DUPLICATE_SHARE = 0.05
SATURATED_SHARE = 0.02
COMPARE_STEP = 0.02
TORQUE_STATES = 4000


@dataclass
class TrajectorySummary:
    """What one trajectory holds; arrays are (n,)."""

    name: str
    file: str
    rows: int = 0
    start: float = np.nan
    end: float = np.nan
    dt: Float = field(default_factory=lambda: np.zeros(0))
    median_dt: float = np.nan
    gaps: int = 0
    largest_gap: float = 0.0
    lost: int = 0
    duplicates: int = 0
    missing_rows: int = 0
    lower: Float = field(default_factory=lambda: np.zeros(0))
    upper: Float = field(default_factory=lambda: np.zeros(0))
    speed: Float = field(default_factory=lambda: np.zeros(0))
    effort: Float = field(default_factory=lambda: np.zeros(0))

    @property
    def rate(self) -> float:
        """Samples a second, from the median of the time steps."""
        return 1.0 / self.median_dt


@dataclass(frozen=True, eq=False)
class LogSummary:
    """What was found in a log.

    moved: (n,) whether each joint moved.    position_step, velocity_step: (n,) lattice of the values, 0 = none seen.
    wraps: number of jumps by 2 pi that are undone.
    """

    joint_names: tuple[str, ...]
    trajectories: tuple[TrajectorySummary, ...]
    moved: Bool
    position_step: Float
    velocity_step: Float
    saturated: Float
    wraps: int
    has_velocity: bool
    has_effort: bool

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder and the report."""
        return {
            "trajectories": [
                {
                    "name": t.name, "file": t.file, "rows": t.rows, "start_s": t.start, "end_s": t.end,
                    "rate_hz": t.rate, "dt_min_s": float(t.dt.min(initial=np.inf)),
                    "dt_max_s": float(t.dt.max(initial=0.0)), "long_steps": t.lost, "gaps": t.gaps,
                    "largest_gap_s": t.largest_gap, "duplicate_rows": t.duplicates,
                    "rows_with_missing_values": t.missing_rows,
                }
                for t in self.trajectories
            ],
            "joints": [
                {
                    "name": name,
                    "lower": float(min(t.lower[j] for t in self.trajectories)),
                    "upper": float(max(t.upper[j] for t in self.trajectories)),
                    "peak_velocity": float(max(t.speed[j] for t in self.trajectories)),
                    "peak_effort": float(max(t.effort[j] for t in self.trajectories)),
                    "moved": bool(self.moved[j]),
                    "position_step": float(self.position_step[j]),
                    "velocity_step": float(self.velocity_step[j]),
                    "saturated_share": float(self.saturated[j]),
                }
                for j, name in enumerate(self.joint_names)
            ],
            "turns_unwrapped": self.wraps,
        }  # fmt: skip

    def lines(self) -> list[str]:
        """Lines of text for the terminal."""
        lines = [f"{'trajectory':<40}{'rows':>9}{'seconds':>10}{'Hz':>8}{'gaps':>6}{'missing':>9}"]
        for t in self.trajectories:
            lines.append(
                f"{t.name[:39]:<40}{t.rows:>9}{t.end - t.start:>10.2f}{t.rate:>8.4g}{t.gaps:>6}{t.missing_rows:>9}"
            )
        lines += ["", f"{'joint':<24}{'lower':>10}{'upper':>10}{'velocity':>10}{'effort':>10}  moved"]
        for joint in self.describe()["joints"]:
            lines.append(
                f"{joint['name']:<24}{joint['lower']:>10.4g}{joint['upper']:>10.4g}{joint['peak_velocity']:>10.4g}"
                f"{joint['peak_effort']:>10.4g}  {'yes' if joint['moved'] else 'NO'}"
            )
        return lines


def longest_step(median: float) -> float:
    """Time steps above this count as gaps: six median steps, but at least 20 ms, which no motion jumps over."""
    return max(GAP_STEPS * median, GAP_LEAST)


def check_log(log: Log, diagnostics: Diagnostics) -> LogSummary:
    """Reads a log once and checks it; warnings and repairs go to the sink.

    Raises UnfitDataError for time that runs backwards, contradicting duplicate stamps, more than 1 % missing values,
    a log without motion or with too few samples, and for signs, units, joint orders or compensation of gravity that
    contradict the robot.
    """
    watch = LogWatch(log, diagnostics)
    for trajectory in log.trajectories:
        for _ in watch.observed(trajectory, log.chunks(trajectory)):
            pass
    return watch.finish()


class LogWatch:
    """Checks a log while its chunks pass by on their way to somewhere else."""

    def __init__(self, log: Log, diagnostics: Diagnostics) -> None:
        n = log.robot.n
        self.log, self.robot, self.sink = log, log.robot, diagnostics
        self.done: list[TrajectorySummary] = []
        self.missing: dict[str, Float] = {}
        self.total_rows = 0
        self.agreement = np.zeros((3, n, n))
        self.position_step, self.velocity_step = np.zeros(n), np.zeros(n)
        self.peak_count = np.zeros(n)
        self.peak = np.zeros(n)
        self.wraps = 0
        self.states: list[States] = []
        self.has_velocity = self.has_effort = False

    def observed(self, trajectory: Trajectory, chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
        """Passes the chunks of a trajectory on, having looked at each."""
        n = self.robot.n
        one = TrajectorySummary(trajectory.name, str(trajectory.file))
        one.lower, one.upper = np.full(n, np.inf), np.full(n, -np.inf)
        one.speed, one.effort = np.zeros(n), np.zeros(n)
        previous: RawChunk | None = None
        steps: list[Float] = []
        for chunk in chunks:
            self._time(one, chunk, previous, steps)
            self._values(one, chunk)
            if previous is None:
                self._lattice(chunk)
            self._compare(chunk)
            previous = chunk
            yield chunk
        if one.rows < MIN_ROWS:
            raise UnfitDataError(
                "too-few-rows",
                found=f"{one.rows} rows in trajectory '{one.name}'",
                expected=f"at least {MIN_ROWS}",
                do="record longer, or leave this trajectory out ([data] train)",
                place=Place(file=one.file),
            )
        one.dt = np.concatenate(steps) if steps else np.zeros(0)
        if one.gaps:
            self.sink.warn(
                "gap",
                f"trajectory '{one.name}' has {one.gaps} gap(s), the largest {one.largest_gap:.3g} s; "
                "it is split there",
                Place(file=one.file),
            )
        if one.lost > 0.01 * one.rows:
            self.sink.note(
                "jitter",
                f"trajectory '{one.name}': {one.lost} steps of over 1.5 median steps; resampled by the time stamps",
            )
        if one.duplicates:
            if one.duplicates > DUPLICATE_SHARE * one.rows:
                raise UnfitDataError(
                    "duplicate-rows",
                    found=f"{one.duplicates} of {one.rows} rows of trajectory '{one.name}' are exact duplicates",
                    expected=f"at most {100 * DUPLICATE_SHARE:.0f} %",
                    place=Place(file=one.file),
                )
            self.sink.note(
                "duplicate-rows", f"trajectory '{one.name}': {one.duplicates} duplicate rows dropped"
            )
        self.done.append(one)

    def _time(
        self, one: TrajectorySummary, chunk: RawChunk, previous: RawChunk | None, steps: list[Float]
    ) -> None:
        t = chunk.t if previous is None else np.concatenate([previous.t[-1:], chunk.t])
        first = chunk.first_row - (previous is not None)
        dt = np.diff(t)
        if previous is None:
            one.start = float(chunk.t[0])
        if not np.isfinite(one.median_dt):
            positive = dt[dt > 0]
            one.median_dt = float(np.median(positive)) if len(positive) else np.nan
        one.end = float(chunk.t[-1])
        one.rows += len(chunk.t)
        if not np.isfinite(chunk.t).all():
            row = chunk.first_row + int(np.flatnonzero(~np.isfinite(chunk.t))[0])
            raise UnfitDataError("time-missing", found="a row without time", expected="a time stamp in every row",
                                 place=Place(file=one.file, row=row))  # fmt: skip
        backwards = np.flatnonzero(dt < 0)
        if len(backwards):
            k = int(backwards[0])
            raise UnfitDataError(
                "time-backwards",
                found=f"time that runs back by {-dt[k]:.4g} s in trajectory '{one.name}' ({len(backwards)} place(s))",
                expected="increasing time",
                do="set sort = true under [log] if the rows are only out of order",
                place=Place(file=one.file, row=first + k + 1, time=float(t[k + 1])),
            )
        for k in np.flatnonzero(dt == 0).tolist():
            if not self._same(chunk, previous, k - (previous is not None)):
                raise UnfitDataError(
                    "duplicate-time",
                    found="two different rows with the same time stamp",
                    expected="one row a time stamp",
                    do="check the unit and resolution of the time column",
                    place=Place(file=one.file, row=first + k + 1, time=float(t[k + 1])),
                )
            one.duplicates += 1
        wide = dt > longest_step(one.median_dt)
        one.lost += int((dt > 1.5 * one.median_dt).sum() - wide.sum())
        one.gaps += int(wide.sum())
        one.largest_gap = max(one.largest_gap, float(dt[wide].max(initial=0.0)))
        steps.append(np.array([dt.min(initial=np.inf), dt.max(initial=0.0)]) if len(dt) else np.zeros(0))

    @staticmethod
    def _same(chunk: RawChunk, previous: RawChunk | None, k: int) -> bool:
        def row(i: int) -> Float:
            source, index = (chunk, i) if i >= 0 or previous is None else (previous, i)
            parts = [source.q[index], *(x[index] for x in (source.dq, source.tau) if x is not None)]
            return np.concatenate(parts)

        return bool(np.array_equal(row(k), row(k + 1), equal_nan=True))

    def _values(self, one: TrajectorySummary, chunk: RawChunk) -> None:
        self.total_rows += len(chunk.t)
        q_low, q_high = chunk.q.min(axis=0), chunk.q.max(axis=0)
        tau_low = tau_high = np.zeros(self.robot.n)
        if chunk.tau is not None:
            self.has_effort = True
            tau_low, tau_high = chunk.tau.min(axis=0), chunk.tau.max(axis=0)
        dq_low = dq_high = np.zeros(self.robot.n)
        if chunk.dq is not None:
            self.has_velocity = True
            dq_low, dq_high = chunk.dq.min(axis=0), chunk.dq.max(axis=0)
        further = (chunk.theta, chunk.dtheta, chunk.temperature, *chunk.extra.values())
        with np.errstate(invalid="ignore"):
            seen = q_low + q_high + tau_low + tau_high + dq_low + dq_high
            complete = np.isfinite(seen.sum() + sum(float(x.sum()) for x in further if x is not None))
        if not complete:
            self._missing(one, chunk)
            q_low, q_high = _finite_range(chunk.q)
            if chunk.tau is not None:
                tau_low, tau_high = _finite_range(chunk.tau)
            if chunk.dq is not None:
                dq_low, dq_high = _finite_range(chunk.dq)
        one.lower, one.upper = np.minimum(one.lower, q_low), np.maximum(one.upper, q_high)
        if chunk.tau is not None:
            one.effort = np.maximum(one.effort, _peak(tau_low, tau_high))
            self._flat_tops(chunk.tau, tau_low, tau_high)
        turning = ~np.array(self.robot.prismatic)
        for joint in np.flatnonzero(turning & (q_high - q_low > np.pi)):
            step = np.abs(np.diff(chunk.q[:, joint]))
            self.wraps += int((np.abs(step - 2 * np.pi) < 0.5).sum())
        if chunk.dq is not None:
            one.speed = np.fmax(one.speed, _peak(dq_low, dq_high))

    def _missing(self, one: TrajectorySummary, chunk: RawChunk) -> None:
        rows = np.zeros(len(chunk.t), dtype=np.bool_)
        by_name = {
            "position": chunk.q,
            "velocity": chunk.dq,
            "effort": chunk.tau,
            "motor_position": chunk.theta,
        }
        by_name |= {"motor_velocity": chunk.dtheta, "temperature": chunk.temperature, **chunk.extra}
        for name, values in by_name.items():
            if values is None:
                continue
            bad = ~np.isfinite(values)
            rows |= bad if bad.ndim == 1 else bad.any(axis=1)
            self.missing[name] = self.missing.get(name, 0.0) + bad.sum(axis=0)
        one.missing_rows += int(rows.sum())

    def _flat_tops(self, tau: Float, low: Float, high: Float) -> None:
        top = _peak(low, high)
        higher = top > self.peak * (1 + 1e-9)
        self.peak_count = np.where(higher, 0.0, self.peak_count)
        self.peak = np.where(higher, top, self.peak)
        # Only a chunk that reaches the peak can hold samples at the peak.
        for j in np.flatnonzero((top >= self.peak * (1 - 1e-9)) & (self.peak > 0)):
            self.peak_count[j] += np.count_nonzero(np.abs(tau[:, j]) >= self.peak[j] * (1 - 1e-9))

    def _lattice(self, chunk: RawChunk) -> None:
        self.position_step = np.fmax(self.position_step, lattice_step(chunk.q[:8192]))
        if chunk.dq is not None:
            self.velocity_step = np.fmax(self.velocity_step, lattice_step(chunk.dq[:8192]))

    def _compare(self, chunk: RawChunk) -> None:
        dt = float(np.median(np.diff(chunk.t))) if len(chunk.t) > 1 else np.nan
        stride = max(1, int(COMPARE_STEP / dt)) if dt > 0 else 1
        t, q = chunk.t[::stride], chunk.q[::stride]
        if chunk.dq is not None and len(t) > 8:
            slope = (q[2:] - q[:-2]) / np.maximum(t[2:] - t[:-2], 1e-9)[:, None]
            logged = chunk.dq[::stride][1:-1]
            ok = np.isfinite(slope).all(axis=1) & np.isfinite(logged).all(axis=1)
            ok &= (np.abs(np.diff(q, axis=0)).max(axis=1)[1:] < 2.0) & (
                np.abs(np.diff(q, axis=0)).max(axis=1)[:-1] < 2.0
            )
            a, b = slope[ok], logged[ok]
            self.agreement += np.stack([a.T @ b, np.outer((a**2).sum(axis=0), np.ones(a.shape[1])),
                                        np.outer(np.ones(b.shape[1]), (b**2).sum(axis=0))])  # fmt: skip
        known = chunk.tau is not None and np.isfinite(self.robot.inertia_prior).all()
        if chunk.tau is not None and known and sum(len(s.q) for s in self.states) < TORQUE_STATES:
            self.states.append(_states(t, q, chunk.tau[::stride]))

    def finish(self) -> LogSummary:
        """What was found, after all chunks have passed."""
        names = self.robot.joint_names
        for channel, counts in self.missing.items():
            for j, count in enumerate(np.atleast_1d(counts)):
                place = Place(joint=names[j] if np.ndim(counts) else None)
                if count == self.total_rows:
                    raise UnfitDataError(
                        "joint-missing", found=f"no {channel} at all", expected="numbers", place=place
                    )
                if count > MISSING_SHARE * self.total_rows:
                    raise UnfitDataError(
                        "missing-values",
                        found=f"{100 * count / self.total_rows:.2g} % missing or infinite values of {channel}",
                        expected=f"at most {100 * MISSING_SHARE:.0f} %",
                        place=place,
                    )
        if self.missing:
            rows = sum(one.missing_rows for one in self.done)
            self.sink.warn("missing-values", f"{rows} row(s) with missing or infinite values are masked")
        lower = np.min([one.lower for one in self.done], axis=0)
        upper = np.max([one.upper for one in self.done], axis=0)
        moved = upper - lower > np.maximum(MOVED, 5 * self.position_step)
        if not moved.any():
            raise UnfitDataError(
                "standstill",
                found="a robot that stands still",
                expected="motion",
                do="record an exciting motion",
            )
        self._units(lower, upper)
        if self.has_velocity:
            self._velocity(moved)
        self._torque()
        saturated = self.peak_count / max(self.total_rows, 1)
        for k in np.flatnonzero(saturated > SATURATED_SHARE):
            self.sink.warn(
                "saturated",
                f"{100 * saturated[k]:.2g} % of the effort lies exactly at its peak of {self.peak[k]:.4g}: saturated?",
                Place(joint=names[k]),
            )
        if self.wraps:
            self.sink.note("unwrapped", f"{self.wraps} jump(s) by 2 pi are undone")
        if (self.velocity_step > 0).any():
            self.sink.note(
                "quantised-velocity",
                "the logged velocity is quantised; the position is differentiated instead",
            )
        return LogSummary(
            names, tuple(self.done), moved, self.position_step, self.velocity_step, saturated, self.wraps,
            self.has_velocity, self.has_effort,
        )  # fmt: skip

    def _units(self, lower: Float, upper: Float) -> None:
        limits = self.robot.limits
        for j, name in enumerate(self.robot.joint_names):
            span = limits.upper[j] - limits.lower[j]
            if np.isfinite(span) and span > 0 and upper[j] - lower[j] > 6 * span:
                raise UnfitDataError(
                    "unit-suspicion",
                    found=f"a range of {upper[j] - lower[j]:.4g}, "
                    f"{(upper[j] - lower[j]) / span:.3g} times the joint's limits",
                    expected="radians (metres)",
                    do="is the column in degrees or millimetres? Declare its unit under [log]",
                    place=Place(joint=name),
                )
            peak = max(one.effort[j] for one in self.done)
            if np.isfinite(limits.effort[j]) and peak > 20 * limits.effort[j]:
                raise UnfitDataError(
                    "unit-suspicion",
                    found=f"effort up to {peak:.4g}, {peak / limits.effort[j]:.3g} times the joint's limit",
                    expected="N m (N) on the link side",
                    do="is it a current, in mA or on the motor side? Declare unit and side under [log]",
                    place=Place(joint=name),
                )

    def _velocity(self, moved: Bool) -> None:
        product, slope_square, logged_square = self.agreement
        with np.errstate(divide="ignore", invalid="ignore"):
            C = product / np.sqrt(slope_square * logged_square)
            ratio = product / slope_square
        names = self.robot.joint_names
        order = [int(np.nanargmax(np.abs(row))) if np.isfinite(row).any() else i for i, row in enumerate(C)]
        mixed = [
            i for i in np.flatnonzero(moved) if order[i] != i and C[i, order[i]] > 0.9 and not C[i, i] > 0.7
        ]
        if mixed:
            listed = ", ".join(f"{names[i]} <- column of {names[order[i]]}" for i in mixed)
            raise UnfitDataError(
                "joint-order", found=f"velocities that belong to other joints: {listed}", expected="one joint order",
                do="map position and velocity columns by the same names",
            )  # fmt: skip
        for j in np.flatnonzero(moved):
            place = Place(joint=names[j])
            if C[j, j] < -0.6:
                raise UnfitDataError(
                    "velocity-sign", found=f"velocity opposed to the change of position (correlation {C[j, j]:.2f})",
                    expected="the same sign", do="set position.sign of this joint under [log]", place=place,
                )  # fmt: skip
            if C[j, j] > 0.9 and not 0.5 < ratio[j, j] < 2.0:
                raise UnfitDataError(
                    "unit-suspicion", found=f"velocity {ratio[j, j]:.4g} times the change of position",
                    expected="a ratio of 1", do="declare the units of position and velocity (57.3 = degrees)",
                    place=place,
                )  # fmt: skip
            if C[j, j] < 0.5:
                self.sink.warn(
                    "velocity-differs",
                    f"logged velocity hardly follows the position (correlation {C[j, j]:.2f})",
                    place,
                )

    def _torque(self) -> None:
        if self.states:
            joined = (np.concatenate([getattr(s, f.name) for s in self.states]) for f in fields(States))
            check_against_prior(self.robot, States(*joined))


@dataclass(frozen=True, eq=False)
class States:
    """Some moments of a log with their motion from differences, each (S, n)."""

    q: Float
    dq: Float
    ddq: Float
    tau: Float


def _states(t: Float, q: Float, tau: Float) -> States:
    # At most 400 rows whose neighbours lie close in time and on the same turn.
    if len(t) < 3:
        return States(q[:0], q[:0], q[:0], tau[:0])
    before, after = (t[1:-1] - t[:-2])[:, None], (t[2:] - t[1:-1])[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        slope_before, slope_after = (q[1:-1] - q[:-2]) / before, (q[2:] - q[1:-1]) / after
        dq = (slope_before * after + slope_after * before) / (before + after)
        ddq = 2.0 * (slope_after - slope_before) / (before + after)
        jump = np.maximum(np.abs(q[1:-1] - q[:-2]), np.abs(q[2:] - q[1:-1])).max(axis=1)
        near = (before + after)[:, 0] < 5 * COMPARE_STEP
        good = near & (jump < 2.0) & np.isfinite(ddq).all(axis=1) & np.isfinite(tau[1:-1]).all(axis=1)
    index = np.flatnonzero(good)
    index = index[:: max(1, len(index) // 400)]
    return States(q[1:-1][index], dq[index], ddq[index], tau[1:-1][index])


def check_against_prior(robot: RobotModel, states: States) -> None:
    """Compares measured torque with the torque that the description's own inertias predict.

    Of every joint that gravity loads, the torque is fitted as a g + b h + c dq + d sign(dq) + e, with gravity torque g
    and inertial torque h; a should be near 1.
    Raises UnfitDataError if gravity is missing from the torque, a sign is flipped, joints are exchanged, or the size
    is off by a factor of more than 30.
    """
    tau = states.tau
    q, dq, ddq = (np.ascontiguousarray(x) for x in robot.tree_motion(states.q, states.dq, states.ddq))
    g = gravity_torque(robot.tree, robot.inertia_prior, q) @ robot.projection
    h = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) @ robot.projection - g
    swing = g.std(axis=0)
    heavy = [int(j) for j in np.flatnonzero((swing > 0.2 * swing.max(initial=0.0)) & (swing > 0.3))]
    if not heavy or len(tau) < 50:
        return
    fits = {j: _prior_fit(np.stack([g[:, j], h[:, j]]), states.dq[:, j], tau) for j in heavy}
    names = robot.joint_names
    if all(abs(fit.slope[j]) + 3 * fit.deviation[j] < 0.2 for j, fit in fits.items()):
        share = max(abs(fit.slope[j]) for j, fit in fits.items())
        # A motor-side torque is small as well, but follows gravity closely.
        if all(fit.certainty[j] < 0.5 for j, fit in fits.items()):
            raise UnfitDataError(
                "gravity-compensated",
                found=f"torque without gravity on {', '.join(names[j] for j in heavy)} "
                f"({100 * share:.2g} % of the expected)",
                expected="the whole joint torque",
                do="log the measured torque, not the one that is left after gravity compensation",
            )
    for j, fit in fits.items():
        place = Place(joint=names[j])
        best = int(np.argmax(fit.explained))
        if best != j and fit.explained[best] > 0.9 and fit.explained[j] < 0.5 and fit.slope[best] > 0:
            raise UnfitDataError(
                "joint-order",
                found=f"its gravity torque in the effort column of '{names[best]}' "
                f"(it explains {100 * fit.explained[best]:.3g} % of that, {100 * fit.explained[j]:.3g} % of its own)",
                expected="columns mapped to their joints",
                place=place,
            )
        if fit.slope[j] < 0 and fit.certainty[j] > 0.7:
            raise UnfitDataError(
                "torque-sign",
                found=f"torque opposed to gravity ({fit.slope[j]:.3g} times the expected)",
                expected="torque that carries it",
                do="set effort.sign of this joint under [log]",
                place=place,
            )
        if fit.certainty[j] > 0.7 and not 1 / 30 < fit.slope[j] < 30:
            raise UnfitDataError(
                "unit-suspicion",
                found=f"torque {fit.slope[j]:.3g} times the gravity torque of the description",
                expected="a ratio near 1",
                do="declare unit and side of the effort (mA, motor side)",
                place=place,
            )


@dataclass(frozen=True, eq=False)
class _PriorFit:
    """Fit of every effort column by one joint's gravity torque; each (n,).

    slope, deviation: the coefficient and its standard deviation.    explained: share of the column's variance that the
    whole fit explains.    certainty: share that gravity explains of what the rest of the fit leaves.
    """

    slope: Float
    deviation: Float
    explained: Float
    certainty: Float


def _prior_fit(rigid: Float, dq: Float, tau: Float) -> _PriorFit:
    others = np.column_stack([rigid[1], dq, np.tanh(dq / 0.02), np.ones(len(dq))])
    Q, _ = np.linalg.qr(others)
    x, y = rigid[0] - Q @ (Q.T @ rigid[0]), tau - Q @ (Q.T @ tau)
    slope = x @ y / (x @ x)
    rest, without, total = ((v**2).sum(axis=0) for v in (y - np.outer(x, slope), y, tau - tau.mean(axis=0)))
    with np.errstate(divide="ignore", invalid="ignore"):
        explained, certainty = np.nan_to_num(1.0 - rest / total), np.nan_to_num(1.0 - rest / without)
    return _PriorFit(slope, np.sqrt(rest / (x @ x) / max(len(x) - 5, 1)), explained, certainty)


def _finite_range(values: Float) -> tuple[Float, Float]:
    fine = np.isfinite(values)
    return values.min(axis=0, initial=np.inf, where=fine), values.max(axis=0, initial=-np.inf, where=fine)


def _peak(low: Float, high: Float) -> Float:
    # Nothing at all was seen where low > high.
    return np.where(low <= high, np.maximum(np.abs(low), np.abs(high)), 0.0)


def lattice_step(values: Float) -> Float:
    """Step of quantised values (T, n) by column: the difference of distinct ones if few cover the range, else 0."""
    steps = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        distinct = np.unique(values[np.isfinite(values[:, j]), j])
        if 4 <= len(distinct) < 0.25 * len(values):
            gaps = np.diff(distinct)
            step = float(np.median(gaps[gaps <= 1.5 * gaps.min()])) if gaps.min() > 1e-12 else 0.0
            if step > 0 and np.mean(np.abs(gaps / step - np.round(gaps / step)) < 0.1) > 0.9:
                steps[j] = step
    return steps
