"""Is a log fit? One pass over it; what is found is repaired with a note, warned about, doubted, or stops the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place, UnfitDataError
from dynid.kernel import line_ranges
from dynid.log.clocks import DAMAGED_SHARE, FASTEST, SLOWEST, longest_step
from dynid.log.joints import WITHOUT_EFFORT, EncoderWatch, RangeWatch, check_limits
from dynid.log.log import POSES, OrderWatch, lattice_step
from dynid.log.prior_check import COMPARE_STEP, States, check_against_prior, states_of
from dynid.log.recording_faults import RecordingWatch, look_at_peaks
from dynid.log.summary import LogSummary, TrajectorySummary
from dynid.recording import RawChunk, Trajectory

if TYPE_CHECKING:  # what findings mean is told without the readers of logs
    from dynid.log.read import Log

MIN_ROWS = 50
MOVED = 2e-3
SAME_WAY = 2.0  # rad or m: positions that lie further apart after 20 ms have been wrapped
# What a clock that is too slow may have counted, in place of seconds.
FINER_UNITS = (("ms", 1e-3), ("us", 1e-6), ("ns", 1e-9))
STEP_ROWS = 2048  # of a chunk, that show its time step
MISSING_SHARE = 0.01
DUPLICATE_SHARE = 0.05
TORQUE_STATES = 4000
# A factor between velocity and change of position that all joints share to this extent is that of their clock.
FOLLOWS_CLOSELY, SAME_FACTOR = 0.9, 0.1
# Differences over 20 ms take up to 5 % off fast motion, and not the same of every joint.
CLOCK_DOUBT, CLOCK_ALIKE, CLOCK_STOP = 0.05, 0.02, 2.0


def check_log(
    log: Log,
    diagnostics: Diagnostics,
    balanced: Bool | None = None,
    progress: Callable[[float], None] | None = None,
) -> LogSummary:
    """Reads a log once and checks it; warnings and repairs go to the sink.

    balanced: (n,) joints whose gravity a spring or counterbalance of the model may carry, None = none.
    progress: called with the seconds of data that were read since it was called before.

    Raises UnfitDataError for time that runs backwards in more than a few rows, contradicting duplicate stamps, more
    than 1 % missing values, a log without motion or with too few samples. Claims: signs, units, joint orders or
    compensation of gravity that contradict the robot.
    """
    watch = LogWatch(log, diagnostics, balanced)
    for trajectory in log.trajectories:
        for chunk in watch.observed(trajectory, log.chunks(trajectory)):
            if progress is not None:
                progress(float(chunk.t[-1] - chunk.t[0]))
    return watch.finish()


class LogWatch:
    """Checks a log while its chunks pass by on their way to somewhere else."""

    def __init__(self, log: Log, diagnostics: Diagnostics, balanced: Bool | None = None) -> None:
        n = log.robot.n
        # Joints whose torque says nothing of their weight.
        absent = np.array([joint in log.unmeasured for joint in log.robot.joint_names])
        self.balanced = absent if balanced is None else absent | balanced
        self.log, self.robot, self.sink = log, log.robot, diagnostics
        for remark in log.remarks:
            diagnostics.extend(Diagnostics([remark]))
        self.done: list[TrajectorySummary] = []
        self.missing: dict[str, Float] = {}
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
        """Passes the chunks of a trajectory on, having looked at each."""
        n = self.robot.n
        one = TrajectorySummary(trajectory.name, str(trajectory.file))
        one.lower, one.upper = np.full(n, np.inf), np.full(n, -np.inf)
        one.speed, one.effort = np.zeros(n), np.zeros(n)
        previous: RawChunk | None = None
        steps: list[Float] = []
        for chunk in chunks:
            one.empty_rows += len(chunk.empty)
            one.spread_rows += len(chunk.spread)
            self._time(one, chunk, previous, steps)
            seen = self._seen(chunk)
            self._values(one, chunk)
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
        one.dt = np.concatenate(steps) if steps else np.zeros(0)
        self._report_rows(one)
        self.done.append(one)

    def _report_rows(self, one: TrajectorySummary) -> None:
        # Raises UnfitDataError where they cannot be used.
        name, place = f"trajectory '{one.name}'", Place(file=one.file)
        if one.rows < MIN_ROWS:
            raise UnfitDataError(
                "too-few-rows",
                found=f"{one.rows} rows in {name}",
                expected=f"at least {MIN_ROWS}",
                do="record longer, or leave this trajectory out ([data] train)",
                place=place,
            )
        if one.empty_rows:
            self.sink.note(
                "rows-without-values",
                f"{name}: {one.empty_rows} row(s) besides {one.rows} are left out, as they hold none "
                "of the values that are read",
            )
        if one.rate < SLOWEST:
            raise UnfitDataError(
                "rows-too-slow",
                found=f"{one.rate:.3g} rows a second in {name}, with steps of {one.median_dt:.6g} s",
                expected=f"at least {SLOWEST:g}",
                do=self._finer_unit(one.median_dt) or "record faster, or declare the unit of log.time",
                place=place,
            )
        if one.spread_rows:
            coarse = one.spread_rows > DUPLICATE_SHARE * one.rows
            self.sink.warn(
                "shared-stamps",
                f"{name}: {one.spread_rows} of {one.rows} rows share the time stamp of the row beside "
                f"them{': the clock is coarser than the rows' if coarse else ''}; they are set evenly between stamps",
                place,
            )
        if one.gaps:
            self.sink.warn(
                "gap",
                f"{name} has {one.gaps} gap(s), the largest {one.largest_gap:.3g} s; it is split there",
                place,
            )
        if one.lost > 0.01 * one.rows:
            text = f"{name}: {one.lost} steps of over 1.5 median steps; resampled by the time stamps"
            self.sink.note("jitter", text)
        if one.duplicates:
            # Behind a coarse clock rows at rest repeat each other.
            if one.duplicates > max(DUPLICATE_SHARE * one.rows, one.spread_rows):
                raise UnfitDataError(
                    "duplicate-rows",
                    found=f"{one.duplicates} of {one.rows} rows of {name} are exact duplicates",
                    expected=f"at most {100 * DUPLICATE_SHARE:.0f} %",
                    place=place,
                )
            self.sink.note("duplicate-rows", f"{name}: {one.duplicates} duplicate rows dropped")

    def _finer_unit(self, step: float) -> str:
        time = self.log.mapping.time
        if self.order.unrelated():
            return f"record a motion, many rows a period of it; {POSES}"
        for unit, factor in FINER_UNITS:
            if SLOWEST <= time.factor / (step * factor) <= FASTEST:
                declared = f'time = {{ column = "{time.column}", unit = "{unit}" }} under [log]'
                return f"is '{time.column}' in {unit}? Declare it: {declared}"
        return ""

    def _seen(self, chunk: RawChunk) -> RawChunk:
        # What was not measured is no effort that stands still.
        absent = self.log.unmeasured
        if chunk.tau is None or not absent:
            return chunk
        tau = np.array(chunk.tau)
        tau[:, [joint in absent for joint in self.robot.joint_names]] = np.nan
        return replace(chunk, tau=tau)

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
            raise UnfitDataError(
                "time-missing",
                found="rows without time",
                expected=f"a time stamp in all but {100 * DAMAGED_SHARE:.0f} % of the rows",
                place=Place(file=one.file, row=row),
            )
        backwards = np.flatnonzero(dt < 0)
        if len(backwards):
            k = int(backwards[0])
            raise UnfitDataError(
                "time-backwards",
                found=f"time that runs back by {-dt[k]:.4g} s in trajectory '{one.name}' ({len(backwards)} place(s))",
                expected="increasing time",
                do='set trajectory = "motion" under [log] if recordings stand one behind the other, sort = true if '
                "rows are only out of order; dynid init ROBOT LOG finds out which",
                place=Place(file=one.file, row=first + k + 1, time=float(t[k + 1])),
            )
        for k in np.flatnonzero(dt == 0).tolist():
            if not self._same(chunk, previous, k - (previous is not None)):
                raise UnfitDataError(
                    "duplicate-time",
                    found="different rows that share a time stamp for longer than what counts as a gap",
                    expected="stamps nearly as fine as the rows",
                    do="log finer stamps; where rows follow one another evenly count them: "
                    'time = { column = "row", unit = "1/RATE s" } under [log], RATE in rows a second',
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
        # Both ends of the range: a limit may cut off one side only.
        reached = np.where(low <= high, np.stack([high, -low]), -np.inf)
        near = 1e-9 * np.abs(np.where(np.isfinite(reached), reached, 0.0))
        self.extreme_count = np.where(reached > self.extreme + near, 0.0, self.extreme_count)
        self.extreme = np.maximum(self.extreme, reached)
        # Only a chunk that reaches an end can hold samples there; no torque at all is no limit.
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
            # Joint by joint in memory, so that sums work along time.
            lines, logged = np.array(q.T, order="C"), np.array(chunk.dq.T[:, ::stride][:, 1:-1], order="C")
            slope = (lines[:, 2:] - lines[:, :-2]) / np.maximum(t[2:] - t[:-2], 1e-9)
            steps = np.abs(np.diff(lines))
            with np.errstate(invalid="ignore", over="ignore"):
                complete = np.isfinite(slope.sum() + logged.sum()) and steps.max() < SAME_WAY
            if not complete:
                small = np.asarray((steps < SAME_WAY).all(axis=0))
                ok = small[1:] & small[:-1] & np.isfinite(slope).all(axis=0) & np.isfinite(logged).all(axis=0)
                slope, logged = slope[:, ok], logged[:, ok]
            ones = np.ones(len(slope))
            squares = np.vecdot(slope, slope), np.vecdot(logged, logged)
            self.agreement += np.stack(
                [slope @ logged.T, np.outer(squares[0], ones), np.outer(ones, squares[1])]
            )
        known = chunk.tau is not None and np.isfinite(self.robot.inertia_prior).all()
        if chunk.tau is not None and known and sum(len(s.q) for s in self.states) < TORQUE_STATES:
            self.states.append(states_of(t, q, chunk.tau[::stride]))

    def finish(self) -> LogSummary:
        """What was found, after all chunks have passed."""
        names = self.robot.joint_names
        for channel, counts in self.missing.items():
            for j, count in enumerate(np.atleast_1d(counts)):
                place = Place(joint=names[j] if np.ndim(counts) else None)
                if count == self.total_rows:
                    raise UnfitDataError(
                        "joint-missing",
                        found=f"no {channel} at all",
                        expected="numbers",
                        do=WITHOUT_EFFORT
                        if channel == "effort"
                        else "hold a joint that stood still with --lock",
                        place=place,
                    )
                if count > MISSING_SHARE * self.total_rows:
                    raise UnfitDataError(
                        "missing-values",
                        found=f"{100 * count / self.total_rows:.2g} % missing or infinite values of {channel}",
                        expected=f"at most {100 * MISSING_SHARE:.0f} %",
                        do="drop these rows where they are single ones, which are interpolated then; take longer parts "
                        "out of what is read (window under [data]), or unmap the channel",
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
            names, self.extreme, shares, moved, self.sink, self.recording.effort_step, self.recording.beside
        )
        if self.wraps:
            self.sink.note("unwrapped", f"{self.wraps} jump(s) by 2 pi are undone")
        if (self.velocity_step > 0).any():
            step = float(self.velocity_step.max())
            self.sink.note(
                "quantised-velocity",
                f"the logged velocity has steps of up to {step:.3g}; whether it is used depends on its noise",
            )
        return LogSummary(
            names, tuple(self.done), moved, self.position_step, self.velocity_step, saturated, cut_off, self.wraps,
            self.has_velocity, self.has_effort,
        )  # fmt: skip

    def _units(self, lower: Float, upper: Float) -> bool:
        """Claims units that cannot be; returns whether positions are in doubt."""
        limits, positions = self.robot.limits, False
        for j, name in enumerate(self.robot.joint_names):
            span = limits.upper[j] - limits.lower[j]
            if np.isfinite(span) and span > 0 and upper[j] - lower[j] > 6 * span:
                positions = True
                self.sink.claim(
                    "unit-suspicion",
                    found=f"a range of {upper[j] - lower[j]:.4g}, "
                    f"{(upper[j] - lower[j]) / span:.3g} times the joint's limits",
                    expected="radians (metres)",
                    do="is the column in degrees or millimetres? Declare its unit under [log]",
                    place=Place(joint=name),
                )
            peak = max(one.effort[j] for one in self.done)
            if np.isfinite(limits.effort[j]) and peak > 20 * limits.effort[j]:
                self.sink.claim(
                    "unit-suspicion",
                    found=f"effort up to {peak:.4g}, {peak / limits.effort[j]:.3g} times the joint's limit",
                    expected="N m (N) on the link side",
                    do="is it a current, in mA or on the motor side? Declare unit and side under [log]",
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
            listed = ", ".join(f"{names[i]} <- column of {names[order[i]]}" for i in mixed)
            self.sink.claim(
                "joint-order", found=f"velocities that belong to other joints: {listed}", expected="one joint order",
                do="map position and velocity columns by the same names",
            )  # fmt: skip
        self._clock(moved, np.diag(C), np.diag(ratio))
        for j in np.flatnonzero(moved):
            place = Place(joint=names[j])
            if C[j, j] < -0.6:
                self.sink.claim(
                    "velocity-sign", found=f"velocity opposed to the change of position (correlation {C[j, j]:.2f})",
                    expected="the same sign", do="set position.sign of this joint under [log]", place=place,
                )  # fmt: skip
            if C[j, j] > 0.9 and not 0.5 < ratio[j, j] < 2.0:
                self.sink.claim(
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

    def _clock(self, moved: Bool, correlation: Float, ratio: Float) -> None:
        """Velocities that are off by one and the same factor on every joint speak of time, not of units."""
        own = ratio[moved & (correlation > FOLLOWS_CLOSELY)]
        if len(own) < max(2, int(np.sum(moved)) // 2):
            return
        factor = float(np.median(own))
        alike = float(np.abs(own / factor - 1.0).max())
        if alike > SAME_FACTOR or any(abs(factor / unit - 1.0) < SAME_FACTOR for unit in (57.3, 1 / 57.3)):
            return
        found = f"velocities {factor:.4g} times the change of position on every joint"
        do = f"time seems to run {factor:.3g} times too slowly in this log: declare the unit of log.time, or mend it"
        if not 1.0 / CLOCK_STOP < factor < CLOCK_STOP:
            raise UnfitDataError("time-base", found=found, expected="a ratio of 1", do=do)
        if abs(factor - 1.0) > CLOCK_DOUBT and alike < CLOCK_ALIKE:
            self.sink.claim("wrong-clock", found=found, expected="a ratio of 1", do=do)

    def _torque(self) -> None:
        if self.states:
            joined = (np.concatenate([getattr(s, f.name) for s in self.states]) for f in fields(States))
            check_against_prior(self.robot, States(*joined), self.sink, self.balanced)


def _finite_range(values: Float) -> tuple[Float, Float]:
    fine = np.isfinite(values)
    return values.min(axis=0, initial=np.inf, where=fine), values.max(axis=0, initial=-np.inf, where=fine)


def _peak(low: Float, high: Float) -> Float:
    # Nothing at all was seen where low > high.
    return np.where(low <= high, np.maximum(np.abs(low), np.abs(high)), 0.0)
