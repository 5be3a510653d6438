"""Check a log in a single pass: repair faults with a note, report them as findings, or reject the log."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place, UnfitDataError
from dynid.kernel import line_ranges
from dynid.log.clocks import DAMAGED_SHARE, FASTEST, MIN_ROWS, SLOWEST, longest_step
from dynid.log.joints import WITHOUT_EFFORT, EncoderWatch, RangeWatch, check_limits
from dynid.log.log import POSES, OrderWatch, lattice_step
from dynid.log.prior_check import COMPARE_STEP, States, check_against_prior, states_of
from dynid.log.recording_faults import RecordingWatch, look_at_peaks
from dynid.log.summary import LogSummary, TrajectorySummary
from dynid.recording import RawChunk, Trajectory

if TYPE_CHECKING:  # `dynid explain` imports this module without the readers of logs
    from dynid.log.read import Log

MOVED = 2e-3  # rad or m; a joint with a smaller range counts as at rest
SAME_WAY = 2.0  # rad or m; a larger change within 20 ms is a wrapped position
# Possible units of a time column whose rate in seconds is implausibly low.
FINER_UNITS = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
STEP_ROWS = 2048  # number of first rows of a chunk from which its time step is estimated
MISSING_SHARE = 0.2  # share of the rows; if a channel has no value in more rows, the log is rejected
CHANNEL_NAMES = {
    "q": "position", "dq": "velocity", "tau": "effort", "theta": "motor position", "dtheta": "motor velocity",
    "temperature": "temperature",
}  # fmt: skip
DUPLICATE_SHARE = 0.05  # share of the rows; fewer duplicates are removed, and a log with more is rejected
TORQUE_STATES = 4000  # maximum number of states compared with the prior, which limits the time of the check
# The clock is wrong (and not a unit) if the correlation of the logged velocity with the change of position exceeds
# FOLLOWS_CLOSELY and the ratio of the two is the same for all joints within the fraction SAME_FACTOR.
FOLLOWS_CLOSELY, SAME_FACTOR = 0.9, 0.1
# A factor beyond CLOCK_STOP (or its inverse) rejects the log. A factor that deviates from 1 by more than CLOCK_DOUBT is
# reported if it is the same for all joints within CLOCK_ALIKE. Smaller deviations have another cause: differences over
# 20 ms attenuate fast motion by up to 5 %, differently for each joint.
CLOCK_DOUBT, CLOCK_ALIKE, CLOCK_STOP = 0.05, 0.02, 2.0


def check_log(
    log: Log,
    diagnostics: Diagnostics,
    balanced: Bool | None = None,
    progress: Callable[[float], None] | None = None,
) -> LogSummary:
    """Read a log once and check it.

    Parameters
    ----------
    log : Log
        Log to check.
    diagnostics : Diagnostics
        Collects notes on repairs, warnings, and claims about signs, units, joint orders or gravity compensation that
        contradict the robot.
    balanced : ndarray of bool, shape (n_joints,), optional
        Joints whose gravity load a spring or counterbalance of the model may carry; None means no joint.
    progress : callable, optional
        Function that is called with the seconds of data read since its previous call.

    Returns
    -------
    LogSummary

    Raises
    ------
    UnfitDataError
        If time decreases in more than a few rows, different rows share a time stamp, more than 20 % of the values of a
        channel are missing, the robot does not move, or the log has too few rows.

    """
    watch = LogWatch(log, diagnostics, balanced)
    for trajectory in log.trajectories:
        for chunk in watch.observed(trajectory, log.chunks(trajectory)):
            if progress is not None:
                progress(float(chunk.t[-1] - chunk.t[0]))
    return watch.finish()


class LogWatch:
    """Checks a log while another consumer reads its chunks."""

    def __init__(self, log: Log, diagnostics: Diagnostics, balanced: Bool | None = None) -> None:
        n = log.robot.n
        # The torque of these joints was not measured, so it cannot be compared with their gravity torque.
        absent = np.array([joint in log.unmeasured for joint in log.robot.joint_names])
        self.balanced = absent if balanced is None else absent | balanced
        self.log, self.robot, self.sink = log, log.robot, diagnostics
        for remark in log.remarks:
            diagnostics.extend(Diagnostics([remark]))
        self.done: list[TrajectorySummary] = []
        self.missing: dict[str, Float] = {}
        self.bridged: dict[str, Float] = {}
        self.total_rows = 0
        self.agreement = np.zeros((3, n, n))
        self.position_step, self.velocity_step = np.zeros(n), np.zeros(n)
        self.extreme_count = np.zeros((2, n))
        self.extreme = np.full((2, n), -np.inf)
        self.wraps = 0
        self.states: list[States] = []
        self.has_velocity = self.has_effort = False
        self.encoders = EncoderWatch(log.robot, log.mapping)
        self.recording = RecordingWatch(log.robot)
        self.order = OrderWatch(n)
        self.ranges = RangeWatch(log.robot)

    def observed(self, trajectory: Trajectory, chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
        """Check each chunk of a trajectory and yield it unchanged."""
        n = self.robot.n
        summary = TrajectorySummary(trajectory.name, str(trajectory.file))
        summary.lower, summary.upper = np.full(n, np.inf), np.full(n, -np.inf)
        summary.speed, summary.effort = np.zeros(n), np.zeros(n)
        previous: RawChunk | None = None
        steps: list[Float] = []
        for chunk in chunks:
            summary.empty_rows += len(chunk.empty)
            summary.spread_rows += len(chunk.spread)
            summary.effortless_rows += len(chunk.without_effort)
            self._time(summary, chunk, previous, steps)
            seen = self._seen(chunk)
            self._values(summary, chunk)
            for name, counts in chunk.bridged.items():
                self.bridged[name] = self.bridged.get(name, 0.0) + counts
            if previous is None:
                self._lattice(chunk)
            self._compare(chunk)
            self.encoders.see(chunk)
            self.recording.see(seen)
            self.order.see(chunk)
            self.ranges.see(chunk.q)
            previous = chunk
            yield chunk
        self.recording.end()
        self.order.end()
        self.ranges.end()
        summary.dt = np.concatenate(steps) if steps else np.zeros(0)
        self._report_rows(summary)
        self.done.append(summary)

    def _report_rows(self, summary: TrajectorySummary) -> None:
        # Raises UnfitDataError if the trajectory cannot be used.
        name, place = f"trajectory '{summary.name}'", Place(file=summary.file)
        if summary.rows < MIN_ROWS:
            raise UnfitDataError(
                "too-few-rows",
                found=f"{summary.rows} rows in {name}",
                expected=f"at least {MIN_ROWS}",
                do="record a longer motion, or exclude this trajectory ([data] train)",
                place=place,
            )
        if summary.empty_rows:
            self.sink.note(
                "rows-without-values",
                f"{name}: {summary.empty_rows} row(s) without any mapped value are ignored; "
                f"{summary.rows} rows remain",
            )
        if summary.effortless_rows:
            self.sink.warn(
                "rows-without-effort",
                f"{name}: {summary.effortless_rows} rows have an effort of exactly 0 on every joint between rows with "
                "efforts; they are no measurement and are ignored",
                place,
            )
        if summary.rate < SLOWEST:
            raise UnfitDataError(
                "rows-too-slow",
                found=f"{summary.rate:.3g} rows per second in {name} (time step {summary.median_dt:.6g} s)",
                expected=f"at least {SLOWEST:g} rows per second",
                do=self._finer_unit(summary.median_dt) or "record faster, or declare the unit of log.time",
                place=place,
            )
        if summary.spread_rows:
            coarse = summary.spread_rows > DUPLICATE_SHARE * summary.rows
            self.sink.warn(
                "shared-stamps",
                f"{name}: {summary.spread_rows} of {summary.rows} rows share a time stamp with another row"
                f"{' (the clock is coarser than the row rate)' if coarse else ''}; they are spaced evenly",
                place,
            )
        if summary.gaps:
            self.sink.warn(
                "gap",
                f"{name} has {summary.gaps} gap(s), the largest {summary.largest_gap:.3g} s; it is split at each gap",
                place,
            )
        if summary.lost > 0.01 * summary.rows:
            text = f"{name}: {summary.lost} time steps exceed 1.5 median steps; resampled according to the stamps"
            self.sink.note("jitter", text)
        if summary.duplicates:
            # With a coarse clock, rows at rest have equal times and values but are no duplicates.
            if summary.duplicates > max(DUPLICATE_SHARE * summary.rows, summary.spread_rows):
                raise UnfitDataError(
                    "duplicate-rows",
                    found=f"{summary.duplicates} of {summary.rows} rows of {name} are exact duplicates",
                    expected=f"at most {100 * DUPLICATE_SHARE:.0f} %",
                    do="drop the duplicates, or check the recorder",
                    place=place,
                )
            self.sink.note("duplicate-rows", f"{name}: {summary.duplicates} duplicate rows are removed")

    def _finer_unit(self, step: float) -> str:
        time = self.log.mapping.time
        if self.order.unrelated():
            return f"record a motion with many rows per period; {POSES}"
        for unit, factor in FINER_UNITS:
            if SLOWEST <= time.factor / (step * factor) <= FASTEST:
                declared = f'time = {{ column = "{time.column}", unit = "{unit}" }} under [log]'
                return f"is '{time.column}' in {unit}? Declare it: {declared}"
        return ""

    def _seen(self, chunk: RawChunk) -> RawChunk:
        # Unmeasured efforts are stored as 0. Replace them by nan, since a constant 0 looks like a frozen sensor.
        absent = self.log.unmeasured
        if chunk.tau is None or not absent:
            return chunk
        tau = np.array(chunk.tau)
        tau[:, [joint in absent for joint in self.robot.joint_names]] = np.nan
        return replace(chunk, tau=tau)

    def _time(
        self, summary: TrajectorySummary, chunk: RawChunk, previous: RawChunk | None, steps: list[Float]
    ) -> None:
        t = chunk.t if previous is None else np.concatenate([previous.t[-1:], chunk.t])
        first = chunk.first_row - (previous is not None)
        dt = np.diff(t)
        if previous is None:
            summary.start = float(chunk.t[0])
        if not np.isfinite(summary.median_dt):
            positive = dt[dt > 0]
            summary.median_dt = float(np.median(positive)) if len(positive) else np.nan
        summary.end = float(chunk.t[-1])
        summary.rows += len(chunk.t)
        if not np.isfinite(chunk.t).all():
            row = chunk.first_row + int(np.flatnonzero(~np.isfinite(chunk.t))[0])
            raise UnfitDataError(
                "time-missing",
                found="rows without a time stamp",
                expected=f"a time stamp in at least {100 * (1 - DAMAGED_SHARE):.0f} % of the rows",
                do="remove these rows, or check the recorder",
                place=Place(file=summary.file, row=row),
            )
        backwards = np.flatnonzero(dt < 0)
        if len(backwards):
            k = int(backwards[0])
            raise UnfitDataError(
                "time-backwards",
                found=f"time that decreases by {-dt[k]:.3g} s in trajectory '{summary.name}' "
                f"({len(backwards)} place(s))",
                expected="increasing time",
                do='set trajectory = "motion" under [log] if the file concatenates recordings, or sort = true if rows '
                "are only out of order; dynid init ROBOT LOG detects which",
                place=Place(file=summary.file, row=first + k + 1, time=float(t[k + 1])),
            )
        for k in np.flatnonzero(dt == 0).tolist():
            if not self._same(chunk, previous, k - (previous is not None)):
                raise UnfitDataError(
                    "duplicate-time",
                    found="different rows that share a time stamp for longer than a gap",
                    expected="a different time stamp for most rows",
                    do="log finer time stamps; if the row rate is constant, count rows instead: "
                    'time = { column = "row", unit = "1/RATE s" } under [log], RATE in rows per second',
                    place=Place(file=summary.file, row=first + k + 1, time=float(t[k + 1])),
                )
            summary.duplicates += 1
        wide = dt > longest_step(summary.median_dt)
        summary.lost += int((dt > 1.5 * summary.median_dt).sum() - wide.sum())
        summary.gaps += int(wide.sum())
        summary.largest_gap = max(summary.largest_gap, float(dt[wide].max(initial=0.0)))
        steps.append(np.array([dt.min(initial=np.inf), dt.max(initial=0.0)]) if len(dt) else np.zeros(0))

    @staticmethod
    def _same(chunk: RawChunk, previous: RawChunk | None, k: int) -> bool:
        def row(i: int) -> Float:
            source, index = (chunk, i) if i >= 0 or previous is None else (previous, i)
            parts = [source.q[index], *(x[index] for x in (source.dq, source.tau) if x is not None)]
            return np.concatenate(parts)

        return bool(np.array_equal(row(k), row(k + 1), equal_nan=True))

    def _values(self, summary: TrajectorySummary, chunk: RawChunk) -> None:
        self.total_rows += len(chunk.t)
        q_low, q_high = line_ranges(chunk.q.T).T
        tau_low = tau_high = np.zeros(self.robot.n)
        if chunk.tau is not None:
            self.has_effort = True
            tau_low, tau_high = line_ranges(chunk.tau.T).T
        dq_low = dq_high = np.zeros(self.robot.n)
        if chunk.dq is not None:
            self.has_velocity = True
            dq_low, dq_high = line_ranges(chunk.dq.T).T
        further = (chunk.theta, chunk.dtheta, chunk.temperature, *chunk.extra.values())
        with np.errstate(invalid="ignore"):
            seen = q_low + q_high + tau_low + tau_high + dq_low + dq_high
            complete = np.isfinite(seen.sum() + sum(float(x.sum()) for x in further if x is not None))
        if not complete:
            self._missing(summary, chunk)
            q_low, q_high = _finite_range(chunk.q)
            if chunk.tau is not None:
                tau_low, tau_high = _finite_range(chunk.tau)
            if chunk.dq is not None:
                dq_low, dq_high = _finite_range(chunk.dq)
        summary.lower, summary.upper = np.minimum(summary.lower, q_low), np.maximum(summary.upper, q_high)
        if chunk.tau is not None:
            summary.effort = np.maximum(summary.effort, _peak(tau_low, tau_high))
            self._flat_tops(chunk.tau, tau_low, tau_high)
        turning = ~np.array(self.robot.prismatic)
        for joint in np.flatnonzero(turning & (q_high - q_low > np.pi)):
            step = np.abs(np.diff(chunk.q[:, joint]))
            self.wraps += int((np.abs(step - 2 * np.pi) < 0.5).sum())
        if chunk.dq is not None:
            summary.speed = np.fmax(summary.speed, _peak(dq_low, dq_high))

    def _missing(self, summary: TrajectorySummary, chunk: RawChunk) -> None:
        rows = np.zeros(len(chunk.t), dtype=np.bool_)
        by_name = {channel: getattr(chunk, name) for name, channel in CHANNEL_NAMES.items()} | dict(
            chunk.extra
        )
        for name, values in by_name.items():
            if values is None:
                continue
            bad = ~np.isfinite(values)
            rows |= bad if bad.ndim == 1 else bad.any(axis=1)
            self.missing[name] = self.missing.get(name, 0.0) + bad.sum(axis=0)
        summary.missing_rows += int(rows.sum())

    def _flat_tops(self, tau: Float, low: Float, high: Float) -> None:
        # Count both ends of the range, since a limit may clip only one of them.
        reached = np.where(low <= high, np.stack([high, -low]), -np.inf)
        near = 1e-9 * np.abs(np.where(np.isfinite(reached), reached, 0.0))
        self.extreme_count = np.where(reached > self.extreme + near, 0.0, self.extreme_count)
        self.extreme = np.maximum(self.extreme, reached)
        # Only a chunk that reaches an end can have samples there. An end at a torque of 0 is no limit.
        for side, j in np.argwhere((reached >= self.extreme - near) & (reached != 0) & np.isfinite(reached)):
            values = tau[:, j] if side == 0 else -tau[:, j]
            self.extreme_count[side, j] += np.count_nonzero(values >= self.extreme[side, j] - near[side, j])

    def _lattice(self, chunk: RawChunk) -> None:
        self.position_step = np.fmax(self.position_step, lattice_step(chunk.q[:8192]))
        if chunk.dq is not None:
            self.velocity_step = np.fmax(self.velocity_step, lattice_step(chunk.dq[:8192]))

    def _compare(self, chunk: RawChunk) -> None:
        dt = float(np.median(np.diff(chunk.t[:STEP_ROWS]))) if len(chunk.t) > 1 else np.nan
        stride = max(1, int(COMPARE_STEP / dt)) if dt > 0 else 1
        t, q = chunk.t[::stride], chunk.q[::stride]
        if chunk.dq is not None and len(t) > 8:
            # Store each joint contiguously, because the sums run along time.
            lines, logged = np.array(q.T, order="C"), np.array(chunk.dq.T[:, ::stride][:, 1:-1], order="C")
            slope = (lines[:, 2:] - lines[:, :-2]) / np.maximum(t[2:] - t[:-2], 1e-9)
            steps = np.abs(np.diff(lines))
            with np.errstate(invalid="ignore", over="ignore"):
                complete = np.isfinite(slope.sum() + logged.sum()) and steps.max() < SAME_WAY
            if not complete:
                small = np.asarray((steps < SAME_WAY).all(axis=0))
                ok = small[1:] & small[:-1] & np.isfinite(slope).all(axis=0) & np.isfinite(logged).all(axis=0)
                slope, logged = slope[:, ok], logged[:, ok]
            row_of_ones = np.ones(len(slope))
            squares = np.vecdot(slope, slope), np.vecdot(logged, logged)
            self.agreement += np.stack(
                [slope @ logged.T, np.outer(squares[0], row_of_ones), np.outer(row_of_ones, squares[1])]
            )
        known = chunk.tau is not None and np.isfinite(self.robot.inertia_prior).all()
        if chunk.tau is not None and known and sum(len(s.q) for s in self.states) < TORQUE_STATES:
            self.states.append(states_of(t, q, chunk.tau[::stride]))

    def finish(self) -> LogSummary:
        """Report the faults of the log and return its summary, after all chunks have been read.

        Raises
        ------
        UnfitDataError
            If too many values are missing, the robot does not move, or the rate of the clock is wrong.

        """
        names = self.robot.joint_names
        self._report_missing()
        lower = np.min([summary.lower for summary in self.done], axis=0)
        upper = np.max([summary.upper for summary in self.done], axis=0)
        moved = upper - lower > np.maximum(MOVED, 5 * self.position_step)
        if not moved.any():
            raise UnfitDataError(
                "standstill",
                found="no joint that moves",
                expected="motion",
                do="record an exciting motion (dynid excite)",
            )
        self.order.finish(moved)
        if not self._units(lower, upper):
            check_limits(self.robot, self.log.mapping, self.ranges, lower, upper, self.sink)
        self.encoders.finish(moved, self.sink)
        self.recording.finish(moved, self.sink)
        if self.has_velocity:
            self._velocity(moved)
        self._torque()
        shares = self.extreme_count / max(self.total_rows, 1)
        saturated, cut_off = look_at_peaks(
            names,
            self.extreme,
            shares,
            moved & ~np.isin(names, self.log.unmeasured),
            self.sink,
            self.recording.effort_step,
            self.recording.next_to_end,
        )
        if self.wraps:
            self.sink.note("unwrapped", f"{self.wraps} position jump(s) by 2 pi are unwrapped")
        if (self.velocity_step > 0).any():
            step = float(self.velocity_step.max())
            self.sink.note(
                "quantised-velocity",
                f"the logged velocity is quantised in steps of up to {step:.3g}; it is used only if its noise is low",
            )
        return LogSummary(
            names, tuple(self.done), moved, self.position_step, self.velocity_step, saturated, cut_off, self.wraps,
            self.has_velocity, self.has_effort,
        )  # fmt: skip

    def _report_missing(self) -> None:
        # Raises UnfitDataError if a channel has no values or too few values.
        names = self.robot.joint_names
        for channel, counts in self.missing.items():
            for j, count in enumerate(np.atleast_1d(counts)):
                place = Place(joint=names[j] if np.ndim(counts) else None)
                if count == self.total_rows:
                    raise UnfitDataError(
                        "joint-missing",
                        found=f"no {channel} in any row",
                        expected="numbers",
                        do=WITHOUT_EFFORT
                        if channel == "effort"
                        else "map its column; lock a joint that stayed at rest with --lock",
                        place=place,
                    )
                if count > MISSING_SHARE * self.total_rows:
                    raise UnfitDataError(
                        "missing-values",
                        found=f"no {channel} for longer than a gap in {100 * count / self.total_rows:.2g} % of rows",
                        expected=f"at most {100 * MISSING_SHARE:.0f} %",
                        do="exclude long missing parts (window under [data]), or unmap the channel",
                        place=place,
                    )
        rows = sum(summary.missing_rows for summary in self.done)
        most = {
            name: float(counts.max()) / self.total_rows
            for name, counts in self.bridged.items()
            if counts.any()
        }
        if most:
            listed = ", ".join(
                f"up to {100 * share:.2g} % of the {CHANNEL_NAMES[name]} of a joint"
                for name, share in most.items()
            )
            left_out = f"; {rows} row(s) in longer gaps are ignored" if rows else ""
            self.sink.warn(
                "missing-values",
                f"{listed} missing, or 0 between efforts: interpolated between neighbouring samples{left_out}",
            )
        elif self.missing:
            self.sink.warn("missing-values", f"{rows} row(s) with missing or infinite values are ignored")

    def _units(self, lower: Float, upper: Float) -> bool:
        """Report implausible units; return True if the unit of a position is implausible."""
        limits, positions = self.robot.limits, False
        for j, name in enumerate(self.robot.joint_names):
            span = limits.upper[j] - limits.lower[j]
            if np.isfinite(span) and span > 0 and upper[j] - lower[j] > 6 * span:
                positions = True
                self.sink.claim(
                    "unit-suspicion",
                    found=f"a position range of {upper[j] - lower[j]:.3g}, "
                    f"{(upper[j] - lower[j]) / span:.3g} times the range between the joint's limits",
                    expected="radians (metres)",
                    do="is the column in degrees or millimetres? Declare its unit under [log]",
                    place=Place(joint=name),
                )
            peak = max(summary.effort[j] for summary in self.done)
            if np.isfinite(limits.effort[j]) and peak > 20 * limits.effort[j]:
                self.sink.claim(
                    "unit-suspicion",
                    found=f"effort up to {peak:.3g}, {peak / limits.effort[j]:.3g} times the joint's limit",
                    expected="N m (N) on the link side",
                    do="is it a current, in mA, or on the motor side? Declare its unit and side under [log]",
                    place=Place(joint=name),
                )
        return positions

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
            listed = ", ".join(f"{names[i]} follows the column of {names[order[i]]}" for i in mixed)
            self.sink.claim(
                "joint-order", found=f"velocities of other joints: {listed}",
                expected="the same joint order for position and velocity",
                do="map position and velocity columns by the same names",
            )  # fmt: skip
        self._clock(moved, np.diag(C), np.diag(ratio))
        for j in np.flatnonzero(moved):
            place = Place(joint=names[j])
            if C[j, j] < -0.6:
                self.sink.claim(
                    "velocity-sign",
                    found=f"velocity of opposite sign to the change of position (correlation {C[j, j]:.2f})",
                    expected="the same sign", do="set position.sign of this joint under [log]", place=place,
                )  # fmt: skip
            if C[j, j] > 0.9 and not 0.5 < ratio[j, j] < 2.0:
                self.sink.claim(
                    "unit-suspicion", found=f"velocity {ratio[j, j]:.3g} times the change of position",
                    expected="a ratio of 1", do="declare the units of position and velocity (57.3 = degrees)",
                    place=place,
                )  # fmt: skip
            if C[j, j] < 0.5:
                self.sink.warn(
                    "velocity-differs",
                    f"the logged velocity hardly follows the position (correlation {C[j, j]:.2f}): check its column",
                    place,
                )

    def _clock(self, moved: Bool, correlation: Float, ratio: Float) -> None:
        """Report a wrong clock if the velocities of all joints are wrong by the same factor."""
        ratios = ratio[moved & (correlation > FOLLOWS_CLOSELY)]
        if len(ratios) < max(2, int(np.sum(moved)) // 2):
            return
        factor = float(np.median(ratios))
        alike = float(np.abs(ratios / factor - 1.0).max())
        if alike > SAME_FACTOR or any(abs(factor / unit - 1.0) < SAME_FACTOR for unit in (57.3, 1 / 57.3)):
            return
        finding = f"velocities {factor:.3g} times the change of position on every joint"
        do = f"the clock seems to run {factor:.3g} times too slowly: declare the unit of log.time, or correct the clock"
        if not 1.0 / CLOCK_STOP < factor < CLOCK_STOP:
            raise UnfitDataError("time-base", found=finding, expected="a ratio of 1", do=do)
        if abs(factor - 1.0) > CLOCK_DOUBT and alike < CLOCK_ALIKE:
            self.sink.claim("wrong-clock", found=finding, expected="a ratio of 1", do=do)

    def _torque(self) -> None:
        if self.states:
            joined = (np.concatenate([getattr(s, f.name) for s in self.states]) for f in fields(States))
            check_against_prior(self.robot, States(*joined), self.sink, self.balanced)


def _finite_range(values: Float) -> tuple[Float, Float]:
    fine = np.isfinite(values)
    return values.min(axis=0, initial=np.inf, where=fine), values.max(axis=0, initial=-np.inf, where=fine)


def _peak(low: Float, high: Float) -> Float:
    # low > high means that there is no finite value.
    return np.where(low <= high, np.maximum(np.abs(low), np.abs(high)), 0.0)
