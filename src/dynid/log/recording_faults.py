"""Detect recording faults with plausible values: lost rows at even time stamps; frozen, unsigned and absent efforts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.kernel import line_ranges, line_unevenness
from dynid.log.joints import STILL
from dynid.log.log import lattice_step
from dynid.recording import RawChunk, joined, rows_only, taken
from dynid.robot.model import RobotModel

# Detect an effort that was logged without its sign: at each zero crossing it has a kink.

# Fractions of the largest value. The effort touches zero if it falls below TOUCHES, and the touch ends when it exceeds
# LEAVES. The test uses the samples around a touch up to the value UP_TO.
TOUCHES, LEAVES, UP_TO = 0.02, 0.06, 0.25
# Minimum number of samples on each side of a touch, and order of the polynomial fitted to them.
SIDE, ORDER = 4, 3
# Fraction of the path of a joint. A smaller reverse motion is encoder noise.
WAY_BACK = 0.02
# Fraction of the largest value. Smaller deviations are rounding errors.
ROUNDED = 1e-4
# If a larger share of the samples around a touch is exactly zero, the effort is switched off or clipped there.
SWITCHED_OFF = 1.0 / 3.0


def sign_evidence(effort: Float, position: Float) -> float:
    """Evidence that a nonnegative effort is the absolute value of a signed effort.

    Around each touch of zero, a polynomial is fitted to the effort as logged and to the effort with a change of sign at
    the touch. The evidence is the sum over all touches of the log ratio of the squared residuals of the two fits. The
    fits end where the joint reverses, since friction jumps there.

    Parameters
    ----------
    effort : ndarray, shape (n_samples,)
        Nonnegative effort.
    position : ndarray, shape (n_samples,), rad or m
        Position of the joint.

    Returns
    -------
    float
        Positive if the effort is smoother with changes of sign.

    """
    if effort.max(initial=0.0) <= 0:
        return 0.0
    effort = effort / effort.max()
    low = np.concatenate([[False], effort < LEAVES, [False]])
    touches = [
        a + int(np.argmin(effort[a:b]))
        for a, b in np.flatnonzero(low[1:] != low[:-1]).reshape(-1, 2)
        if effort[a:b].min() < TOUCHES
    ]
    if not touches:
        return 0.0
    # Segments end at the highest effort between two touches.
    tops = [a + int(np.argmax(effort[a:b])) for a, b in pairwise(touches)]
    far, evidence = np.flatnonzero(effort > UP_TO), 0.0
    for at, first, last in zip(touches, [0, *tops], [*tops, len(effort)], strict=True):
        beyond = int(np.searchsorted(far, at))
        start = max(first, int(far[beyond - 1]) + 1 if beyond else 0)
        end = min(last, int(far[beyond]) if beyond < len(far) else len(effort))
        start, end = _part_in_one_direction(position, start, end, at)
        around = effort[start:end]
        if min(at - start, end - at - 1) < SIDE or (around == 0).mean() > SWITCHED_OFF:
            continue
        sign = np.where(np.arange(start, end) < at, -1.0, 1.0)
        rounded = len(around) * ROUNDED**2
        evidence += float(np.log((_roughness(around) + rounded) / (_roughness(sign * around) + rounded)))
    return evidence


def _roughness(values: Float) -> float:
    """Sum of squared residuals of a polynomial of order `ORDER` fitted to values (T,)."""
    basis = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, len(values)), ORDER + 1))[0]
    return float(((values - basis @ (basis.T @ values)) ** 2).sum())


def _part_in_one_direction(position: Float, start: int, end: int, at: int) -> tuple[int, int]:
    """Reduce the range start..end to a part that contains sample `at` and in which the joint does not reverse."""
    while end - start > 2:
        path = position[start:end]
        # A reversal is an interior maximum or minimum of the position beyond both ends of the path.
        beyond = [(int(np.argmax(way)), way.max() - max(way[0], way[-1])) for way in (path, -path)]
        turn, back = max(beyond, key=lambda extreme: extreme[1])
        if back <= WAY_BACK * np.ptp(path):
            break
        start, end = (start + turn, end) if start + turn <= at else (start, start + turn + 1)
    return start, end


# Detect efforts that never change sign and grow with the speed although the joint moves both ways, like a supply
# current.

ONE_SIDED = "one-sided-effort"
# Minimum correlation of the effort with the speed, and its minimum ratio to the correlation with the velocity. Gravity
# on a joint that swings about the horizontal can give the same values, so this is a note and not a rejection.
FOLLOWS, RATHER = 0.4, 3.0
# Minimum share of the rows with motion in each direction.
EACH_WAY = 0.2


class OneSidedWatch:
    """Accumulates the correlation of efforts that never change sign with velocity and speed, window by window.

    Parameters
    ----------
    names : tuple of str
        Names of the joints.

    """

    def __init__(self, names: tuple[str, ...]) -> None:
        n = len(names)
        self._names = names
        self._low, self._high = np.full(n, np.inf), np.full(n, -np.inf)
        self._rows, self._ahead, self._back = np.zeros(n), np.zeros(n), np.zeros(n)
        self._means, self._products = np.zeros((n, 3)), np.zeros((n, 3, 3))

    def see(self, t: Float, q: Float, effort: Float, low: Float, high: Float) -> None:
        """Add a window to the sums.

        Parameters
        ----------
        t : ndarray, shape (n_samples,), s
            Time.
        q, effort : ndarray, shape (n_joints, n_samples)
            Positions and efforts.
        low, high : ndarray, shape (n_joints,)
            Minimum and maximum of each effort in the window.

        """
        self._low, self._high = np.fmin(self._low, low), np.fmax(self._high, high)
        for j in np.flatnonzero(self._of_one_sign & np.isfinite(low)).tolist():
            step = np.diff(t)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                dq = np.diff(q[j]) / step
            middle = 0.5 * (effort[j, 1:] + effort[j, :-1])
            known = (step > 0) & np.isfinite(dq) & np.isfinite(middle)
            rows = np.column_stack([dq[known], np.abs(dq[known]), np.abs(middle[known])])
            self._rows[j] += len(rows)
            self._ahead[j] += (rows[:, 0] > 0).sum()
            self._back[j] += (rows[:, 0] < 0).sum()
            self._means[j] += rows.sum(axis=0)
            self._products[j] += rows.T @ rows

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Note efforts of moving joints that never change sign and follow the speed."""
        for j in np.flatnonzero(moved & self._of_one_sign & (self._rows > 0)).tolist():
            count = self._rows[j]
            mean = self._means[j] / count
            with np.errstate(over="ignore", invalid="ignore"):  # unphysically large values overflow
                covariance = self._products[j] / count - np.outer(mean, mean)
                size = np.sqrt(np.diag(covariance))
            if (
                not (np.isfinite(size) & (size > 0)).all()
                or min(self._ahead[j], self._back[j]) < EACH_WAY * count
            ):
                continue
            velocity, speed = covariance[2, :2] / (size[2] * size[:2])
            if speed > FOLLOWS and speed > RATHER * abs(velocity):
                sink.note(
                    ONE_SIDED,
                    f"the effort ({self._low[j]:.3g} to {self._high[j]:.3g}) never changes sign and follows the speed "
                    f"(correlation {speed:.2f}) instead of the velocity ({velocity:.2f})",
                    Place(joint=self._names[j]),
                )

    @property
    def _of_one_sign(self) -> Bool:
        return np.asarray((self._low >= 0) | (self._high <= 0))


# An effort is frozen if it is constant for at least this time (s) and number of rows while its joint moves by more than
# this distance (rad or m), and for at least FROZEN_TIMES as many rows as it usually repeats a value.
FROZEN_SECONDS, FROZEN_ROWS, FROZEN_MOTION = 0.25, 20, 0.02
FROZEN_TIMES = 5.0
# A constant effort at an end of its range is clipped. It counts as frozen only if no other run is nearly as long and
# the joint reverses FROZEN_TURNS times during it. The same holds for every value of an effort with at most
# COARSE_VALUES distinct values (steps of 2 % of its range), which often repeats values.
FROZEN_TURNS, COARSE_VALUES = 2, 50
# Share of the log. A joint whose effort is frozen for a smaller share is not reported.
FROZEN_SHARE = 0.01
# An effort with a minimum between 0 and AT_ZERO times its maximum has lost its sign if restoring the sign makes it
# SMOOTHER times smoother (ratio of the squared residuals, multiplied over all touches of zero).
AT_ZERO, SMOOTHER = 2e-3, 20.0
# A jump along the motion counts if it exceeds the usual unevenness by the factor JUMP_SIGNIFICANCE and is longer than
# JUMP_ROWS rows (jitter or repeated samples cause one or two rows), and if no more than the share LEFT of the joints'
# unevenness remains unexplained.
JUMP_SIGNIFICANCE, JUMP_ROWS, LEFT = 12.0, 5.0, 0.05
# Time steps count as even if they deviate from the median step by at most this fraction.
EVEN = 0.2
# A step shorter than STALLED usual steps is a repeated sample. If more than STALE_SHARE of the QUIET rows on each side
# of a jump are repeated samples, lost rows cannot be distinguished from late rows. Otherwise the path around the jump
# must exceed the path at the usual pace by more than NOT_CAUGHT_UP of the jump.
STALLED, STALE_SHARE, QUIET, NOT_CAUGHT_UP = 0.05, 0.2, 15, 0.5
# Number of steps before the stationary rows and after the jump from which the pace is estimated.
PACE = 5
# Ratio of the median absolute value of a normal variable to its standard deviation.
NORMAL_MEDIAN = 0.6745
# No sample can be a jump if, for each joint, half of the samples reach this fraction of the largest unevenness,
# multiplied by the square root of the number of joints.
EVEN_SHARE = NORMAL_MEDIAN / JUMP_SIGNIFICANCE * (1.0 + 1e-9)
# Standard deviation of 1.5 q6 - 1.5 q3 + 0.5 q0 - 0.5 q9 if all four are rounded, in rounding steps: sqrt(5 / 12).
RECORDING_FAULTS_ROUNDED = 0.645
# Efforts alternate between two sources if the mean squared difference of efforts a few rows apart is smaller than that
# of neighbours by the factor TURNS_CLOSER, in most sections of TURNS_ROWS rows. The difference of neighbours must
# exceed the share TURNS_LEAST of the effort's variance.
TURNS_CLOSER, TURNS_ROWS, TURNS_LEAST = 4.0, 128, 0.01
TURNS_PERIODS = range(2, 9)  # rows; periods of the alternation that are tested
# A joint is at rest if its motion is smaller than this many times its unevenness.
MOVING = 3.0
WINDOW = 4096  # rows
LOOKED_AT = 5  # the search for runs first tests every fifth value only
# The quantisation step of efforts is estimated in the first LATTICE_WINDOWS windows and then in every
# LATTICE_EVERY-th window.
LATTICE_WINDOWS, LATTICE_EVERY = 16, 32


class RecordingWatch:
    """Searches a log for recording faults, in windows of a fixed length that do not depend on the chunks.

    Attributes
    ----------
    effort_step : ndarray, shape (n_joints,)
        Quantisation step of each effort, 0 without quantisation.
    next_to_end : ndarray, shape (2, n_joints)
        Share of the samples one step below the maximum and one step above the minimum of each effort.

    """

    def __init__(self, robot: RobotModel) -> None:
        n = robot.n
        self.names = robot.joint_names
        self.seconds, self.rows, self.windows = 0.0, 0, 0
        self.frozen, self.frozen_at = np.zeros(n), np.full(n, np.nan)
        self._uneven: list[Float | None] = [None] * n
        self.least, self.most = np.full(n, np.inf), np.full(n, -np.inf)
        self.lost_sign, self.effort_step = np.zeros(n), np.zeros(n)
        self.next_to_end_count = np.zeros((2, n))
        self.one_sided = OneSidedWatch(robot.joint_names)
        self.jumps: list[tuple[float, float]] = []
        self.stretches, self.taking_turns = 0, 0
        self._rest: list[tuple[Float, Float, Float]] = []  # rows after the last complete window

    @property
    def next_to_end(self) -> Float:
        """Share (2, n) of the samples one quantisation step away from the maximum and the minimum."""
        return self.next_to_end_count / max(self.rows, 1)

    def see(self, chunk: RawChunk) -> None:
        """Add a chunk and examine all windows that are now complete."""
        # Store each joint contiguously, because all later steps run along time.
        t, q = chunk.t, np.ascontiguousarray(chunk.q.T)
        tau = np.full_like(q, np.nan) if chunk.tau is None else np.ascontiguousarray(chunk.tau.T)
        start, waiting = 0, sum(len(rest) for rest, _, _ in self._rest)
        if waiting and waiting + len(t) >= WINDOW:
            start = WINDOW - waiting
            self._rest.append((t[:start], q[:, :start], tau[:, :start]))
            self._look_at_rest()
        while start + WINDOW <= len(t):
            self._look(t, q, tau, start, WINDOW)
            start += WINDOW
        # Copy the remaining rows; a view of them would keep the whole chunk in memory.
        if start < len(t):
            self._rest.append((t[start:].copy(), q[:, start:].copy(), tau[:, start:].copy()))
        self._uneven = [None if values is None else values.copy() for values in self._uneven]

    def end(self) -> None:
        """Examine the remaining rows of a trajectory."""
        if self._rest:
            self._look_at_rest()

    def _look_at_rest(self) -> None:
        t, q, tau = (np.concatenate(parts, axis=-1) for parts in zip(*self._rest, strict=True))
        self._rest = []
        self._look(t, q, tau, 0, len(t))

    def _look(self, t: Float, q: Float, effort: Float, start: int, count: int) -> None:
        # Examine rows start to start + count of t (T,), q and effort (n, T).
        if count < FROZEN_ROWS:
            return
        window = slice(start, start + count)
        self._jumps(t[window], q, start)
        low, high = line_ranges(effort, start, count).T
        t, q, effort = t[window], q[:, window], effort[:, window]
        self.seconds += float(t[-1] - t[0])
        self.rows += count
        self.windows += 1
        if not np.isfinite(low + high).all():
            effort = np.where(np.isfinite(effort), effort, np.nan)
            known = ~np.isnan(effort)
            low = effort.min(axis=1, where=known, initial=np.inf)
            high = effort.max(axis=1, where=known, initial=-np.inf)
        self._sources(effort)
        self._frozen(t, q, effort, low, high)
        with np.errstate(over="ignore"):  # unphysically large values may overflow without harm
            self._ends(effort, low, high)
            self.one_sided.see(t, q, effort, low, high)
            # An effort that was negative in any window has a sign.
            for j in np.flatnonzero((self.least >= 0) & (low < TOUCHES * high)):
                known = np.isfinite(effort[j]) & np.isfinite(q[j])
                self.lost_sign[j] += sign_evidence(effort[j, known], q[j, known])

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Report all faults as constant-effort, unsigned-effort, one-sided-effort, mixed-sources or rows-lost."""
        # `look_at_peaks` reports efforts that are constant in the whole log.
        changed = self.most > self.least
        for j in np.flatnonzero(moved & changed & (self.frozen > FROZEN_SHARE * self.seconds)):
            sink.claim(
                "constant-effort",
                found=f"a frozen effort: constant for {self.frozen[j]:.3g} s of {self.seconds:.3g} s (first at "
                f"t = {self.frozen_at[j]:.4g} s) while the joint moves",
                expected="an effort that follows the motion",
                do="exclude these times (window under [data]), or check the driver",
                place=Place(joint=self.names[j]),
            )
        with np.errstate(invalid="ignore", over="ignore"):
            unsigned = (self.least >= 0) & (self.least <= AT_ZERO * self.most) & (self.most > 0)
            unsigned &= self.lost_sign > np.log(SMOOTHER)
        for j in np.flatnonzero(moved & unsigned):
            sink.claim(
                "unsigned-effort",
                found=f"an effort from 0 to {self.most[j]:.3g} with kinks at zero: an absolute value",
                expected="an effort with a sign",
                do="log the signed effort; dynid cannot restore the sign",
                place=Place(joint=self.names[j]),
            )
        self.one_sided.finish(moved, sink)
        if self.taking_turns > 0.5 * self.stretches:
            sink.claim(
                "mixed-sources",
                found="efforts from two sources that alternate in the same channel, in "
                f"{self.taking_turns} of {self.stretches} sections of the log, on most joints",
                expected="efforts from a single source",
                do="record the driver's topic, or remove the rows of the second publisher",
            )
        if self.jumps:
            at, rows = self.jumps[0]
            sink.claim(
                "rows-lost",
                found=f"{len(self.jumps)} jump(s) of all joints along their motion at even time stamps (first at "
                f"t = {at:.4g} s, by {rows:.2g} rows): rows were lost and the others got new time stamps",
                expected="time stamps of the measurement",
                do="log the measured time, or split the log at the jumps (trajectory under [log])",
            )

    def _sources(self, effort: Float) -> None:
        # For a single source, the mean squared difference of two rows does not decrease with their distance.
        joints = effort[np.isfinite(effort).all(axis=1) & (np.ptp(effort, axis=1) > 0)]
        # Efforts of any size are compared: their squares must not overflow.
        joints = joints / np.maximum(np.abs(joints).max(axis=1, initial=0.0, keepdims=True), 1e-300)
        for first in range(0, effort.shape[1] - TURNS_ROWS + 1, TURNS_ROWS) if len(joints) else ():
            part = joints[:, first : first + TURNS_ROWS]
            next_row = np.mean(np.diff(part) ** 2, axis=1)
            apart = np.array([np.mean((part[:, k:] - part[:, :-k]) ** 2, axis=1) for k in TURNS_PERIODS])
            closer = (apart < next_row / TURNS_CLOSER) & (next_row > TURNS_LEAST * part.var(axis=1))
            self.stretches += 1
            self.taking_turns += bool((closer.mean(axis=1) > 0.5).any())

    def _frozen(self, t: Float, q: Float, effort: Float, low: Float, high: Float) -> None:
        stays = effort[:, 1:] == effort[:, :-1]
        repeats = _has_run(stays, FROZEN_ROWS)
        for j in np.flatnonzero(~stays.all(axis=1) & ~repeats).tolist():
            self._uneven[j] = effort[j]
        for j in np.flatnonzero(repeats).tolist():
            values = effort[j]
            starts, ends = _runs(values)
            rows = ends - starts
            # A coarse or slowly updated effort always repeats values, so a run is compared with the usual runs. A whole
            # window may be frozen, so the usual runs are from the latest window in which the effort changed.
            if len(rows) > 1:
                self._uneven[j] = values
            long = (rows >= FROZEN_ROWS) & (t[ends] - t[starts] > FROZEN_SECONDS)
            if not long.any():
                continue
            usual = self._usual_rows(j)
            others = np.delete(usual, np.argmax(usual))
            long &= rows > FROZEN_TIMES * float(np.quantile(others, 0.95)) if len(others) else True
            longest = float(others.max(initial=0))
            for a, b in zip(starts[long].tolist(), ends[long].tolist(), strict=True):
                inside = low[j] < values[a] < high[j] and len(np.unique(values)) > COARSE_VALUES
                path = q[j, a : b + 1]
                if _comes_to_rest(path):
                    continue
                # Runs of a coarse effort are of similar length; a freeze is a single run that is much longer.
                once = b - a > FROZEN_TIMES * longest and turns(path, FROZEN_MOTION) >= FROZEN_TURNS
                if _continues_by_single_steps(values, a, b):
                    continue
                if np.ptp(path) > FROZEN_MOTION and (inside or once):
                    self.frozen[j] += float(t[b] - t[a])
                    self.frozen_at[j] = np.fmin(self.frozen_at[j], t[a])

    def _usual_rows(self, joint: int) -> Int:
        """Lengths in rows of all runs of equal values in the latest window in which the effort changed."""
        values = self._uneven[joint]
        if values is None:
            return np.zeros(1, dtype=np.int64)
        starts, ends = _runs(values)
        return ends - starts

    def _ends(self, effort: Float, low: Float, high: Float) -> None:
        # The quantisation step is constant in a log, so a sample of its windows suffices.
        if self.windows <= LATTICE_WINDOWS or self.windows % LATTICE_EVERY == 0:
            self.effort_step = np.fmax(self.effort_step, lattice_step(effort.T))
        # A new maximum or minimum restarts the count of samples next to it.
        further = np.stack(
            [high > self.most + 0.5 * self.effort_step, low < self.least - 0.5 * self.effort_step]
        )
        self.next_to_end_count = np.where(further, 0.0, self.next_to_end_count)
        self.least, self.most = np.fmin(self.least, low), np.fmax(self.most, high)
        # A window can have samples next to an end only if its range reaches this end.
        for j in np.flatnonzero(self.effort_step > 0):
            step = self.effort_step[j]
            if self.most[j] - high[j] < 1.5 * step:
                self.next_to_end_count[0, j] += _count_next_to_end(self.most[j] - effort[j], step)
            if low[j] - self.least[j] < 1.5 * step:
                self.next_to_end_count[1, j] += _count_next_to_end(effort[j] - self.least[j], step)

    def _jumps(self, t: Float, q: Float, start: int) -> None:
        # Examine the rows t (T,) of the positions q (n, ...) that begin at row `start`.
        whole_lines = np.isfinite(line_ranges(q, start, len(t)).sum(axis=1))
        greatest = line_unevenness(q, EVEN_SHARE * np.sqrt(whole_lines.sum()), start, len(t))
        if not whole_lines.any() or _cannot_jump(greatest[whole_lines, 1], len(t) - 9):
            return
        lines = q[whole_lines, start : start + len(t)]
        # Compare the motion over three steps with the three steps before and after; a single late sample is no jump.
        three = lines[:, 3:] - lines[:, :-3]
        around, excess = 0.5 * (three[:, :-6] + three[:, 6:]), three[:, 3:-3]
        excess = excess - around
        dt = np.diff(t)
        usual = float(np.median(dt))
        if usual <= 0:
            return
        uneven_by = np.median(np.abs(excess), axis=1) / NORMAL_MEDIAN
        # Stop early: a jump along the motion cannot be more significant than the whole unevenness.
        if ((uneven_by + 1e-12) ** -2 @ excess**2).max() <= JUMP_SIGNIFICANCE**2:
            return
        weight = (np.maximum(uneven_by, _rounding(lines)) + 1e-12) ** -2
        # Estimate the number of lost rows by least squares, for constant joint speeds: excess = rows / 3 * around.
        information, common, whole = (
            weight @ (around * around),
            weight @ (around * excess),
            weight @ excess**2,
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            share = common / information
        left = whole - share * common
        uneven = np.abs(dt / usual - 1.0) > EVEN
        counts = np.concatenate([[0], np.cumsum(uneven)])
        even = counts[9:] == counts[:-9]
        is_jump = even & (3.0 * share > JUMP_ROWS) & (share * np.sqrt(information) > JUMP_SIGNIFICANCE)
        is_jump &= (left < LEFT * whole) & (information > MOVING**2)
        places = np.flatnonzero(is_jump)
        for group in np.split(places, np.flatnonzero(np.diff(places) > 3) + 1):
            if len(group):
                k, lost = int(group[len(group) // 2]), 3.0 * float(np.median(share[group]))
                # After repeated positions, a jump of the same size follows although no row is lost.
                near = np.diff(lines[:, max(0, k - QUIET) : k + 10 + QUIET]).T
                stalled = (np.abs(near) <= STALLED * np.abs(around[:, k]) / 3.0).all(axis=1)
                further = rows_gained(near) > NOT_CAUGHT_UP * lost
                if (
                    stalled.mean() < STALE_SHARE
                    and further
                    and not _catches_up(near, min(k, QUIET) + 4, weight)
                ):
                    self.jumps.append((float(t[k + 4]), lost))


def _rounding(lines: Float) -> Float:
    """Standard deviation (n,) of the unevenness that quantisation alone causes in positions (n, T).

    It is used as a lower bound, because the measured unevenness of a joint that is at rest or moves by less than one
    quantisation step per row is zero.
    """
    steps = np.abs(np.diff(lines, axis=1))
    least = np.where(steps > 0, steps, np.inf).min(axis=1)
    return np.where(np.isfinite(least), RECORDING_FAULTS_ROUNDED * least, 0.0)


def _count_next_to_end(away: Float, step: float) -> int:
    """Number of samples at a distance of one quantisation step from an end; `away` (T,) are the distances."""
    return int(np.count_nonzero((away > 0.5 * step) & (away < 1.5 * step)))


def _runs(values: Float) -> tuple[Int, Int]:
    """First and last index of each run of equal values (T,)."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([[0], edges]), np.concatenate([edges, [len(values)]]) - 1


def _continues_by_single_steps(values: Float, a: int, b: int) -> bool:
    """Whether values (T,) usually change by one quantisation step, and also before and after their run from a to b.

    If so, a coarse effort reverses slowly during the run. A frozen effort changes by more after the run.
    """
    steps = np.abs(np.diff(values))
    steps = steps[steps > 0]
    if not len(steps) or a == 0 or b + 1 == len(values):
        return False
    single = 1.5 * float(steps.min())
    around = max(abs(values[a] - values[a - 1]), abs(values[b + 1] - values[b]))
    return bool(np.median(steps) <= single and around <= single)


def _comes_to_rest(path: Float) -> bool:
    """Whether a joint moves and then is at rest in the second half of its path (T,).

    A constant effort is then no recording fault, because the brake may carry the load.
    """
    half = path[len(path) // 2 :]
    return bool(len(half) and np.ptp(half) <= STILL and np.ptp(path) > STILL)


def _has_run(true: Bool, length: int) -> Bool:
    """Mask (L,) of the lines of `true` (L, T) that contain a run of at least `length` true values."""
    # First test every LOOKED_AT-th value only, which excludes most lines.
    has_run = np.array(_starts_of_runs(true[:, ::LOOKED_AT], length // LOOKED_AT).any(axis=1))
    lines = np.flatnonzero(has_run)
    has_run[lines] = _starts_of_runs(true[lines], length).any(axis=1)
    return has_run


def _starts_of_runs(true: Bool, length: int) -> Bool:
    # Mask of the starts of runs of `length` true values; each pass doubles the length of the runs.
    have = 1
    while have < length and true.shape[1]:
        step = min(have, length - have)
        true = true[:, :-step] & true[:, step:]
        have += step
    return true


def _cannot_jump(below: Float, samples: int) -> bool:
    """Whether no sample can be a jump, from a bound that is faster to compute than the medians.

    The significance of a jump is at most the root of the sum over joints of (unevenness / standard deviation)^2, where
    the standard deviation is estimated from the median. If half of the samples of a joint reach the fraction
    `EVEN_SHARE` sqrt(n_joints) of the largest one, the median also reaches it, and the sum is too small for a jump.

    Parameters
    ----------
    below : ndarray, shape (n_joints,)
        Number of samples of each joint below this fraction of the largest sample.
    samples : int
        Number of samples of each joint.

    """
    return bool((below <= (samples - 1) // 2).all())


def _catches_up(steps: Float, jump: int, weight: Float) -> bool:
    """Whether a jump only makes up for the stationary rows right before it.

    Parameters
    ----------
    steps : ndarray, shape (k, n_joints)
        Steps of the positions.
    jump : int
        Approximate index of the jump.
    weight : ndarray, shape (n_joints,)
        Weight of the squared steps of each joint.

    """
    length = np.sqrt((steps**2) @ weight)
    first = max(0, jump - 4)
    at = first + int(np.argmax(length[first : jump + 5]))
    stands = length[:at][::-1] <= STALLED * np.median(length)
    # The first row after a stop may still be late.
    late = int(len(stands) > 1 and not stands[0] and stands[1])
    still = late + int(np.argmin(np.append(stands[late:], False)))
    before, after = length[max(0, at - still - PACE) : at - still], length[at + 1 : at + 1 + PACE]
    pace = max((float(np.mean(side)) for side in (before, after) if len(side)), default=0.0)
    return bool(length[at] - (still + 1) * pace <= NOT_CAUGHT_UP * length[at])


def rows_gained(steps: Float) -> float:
    """Distance covered by steps (T, n) beyond T steps at their median pace, as a number of such steps."""
    pace, scale = np.median(steps, axis=0), np.median(np.abs(steps), axis=0)
    weight = 1.0 / np.maximum(scale, 1e-12 + 1e-3 * scale.max(initial=0.0)) ** 2
    along = float((pace**2 * weight).sum())
    return float((steps.sum(axis=0) * pace * weight).sum()) / along - len(steps) if along > 0 else 0.0


def turns(path: Float, least: float) -> int:
    """Number of reversals of a path (T,); a reverse motion shorter than `least` does not count."""
    count, way, furthest = 0, 0.0, float(path[0])
    for value in path.tolist():
        if way == 0.0 and abs(value - furthest) > least:
            way, furthest = float(np.sign(value - furthest)), value
        elif (value - furthest) * way > 0:
            furthest = value
        elif way and (furthest - value) * way > least:
            count, way, furthest = count + 1, -way, value
    return count


# Detect efforts that are clipped by a limit or not measured at all, from the samples at the ends of their range.

# An effort counts as clipped if more than this share of its samples is exactly at an end of its range.
SATURATED_SHARE = 0.02
# A quantised sine has 1.4 times as many samples on its last step as on the step before. A ratio above GATHERED is
# clipping.
GATHERED = 3.0
# An effort whose quantisation step exceeds this fraction of its range causes a warning.
COARSE = 0.02


def look_at_peaks(
    names: Sequence[str],
    extreme: Float,
    shares: Float,
    moved: Bool,
    sink: Diagnostics,
    step: Float | None = None,
    next_to_end: Float | None = None,
) -> tuple[Float, Float]:
    """Report clipped, coarse and constant efforts.

    Parameters
    ----------
    names : sequence of str
        Names of the joints.
    extreme : ndarray, shape (2, n_joints)
        Maximum of the effort and of the negated effort.
    shares : ndarray, shape (2, n_joints)
        Share of the samples exactly at each of these two ends.
    moved : ndarray of bool, shape (n_joints,)
        Joints that moved.
    sink : Diagnostics
        Collects the warnings and the claim constant-effort.
    step : ndarray, shape (n_joints,), optional
        Quantisation step of each effort; 0 or None means that the effort is not quantised.
    next_to_end : ndarray, shape (2, n_joints), optional
        Share of the samples one step away from each end, for comparison: the ends of a quantised effort have many
        samples even without clipping.

    Returns
    -------
    saturated : ndarray, shape (n_joints,)
        Larger of the two shares of samples at an end, for each effort.
    cut_off : ndarray, shape (2, n_joints)
        Effort at which each end is clipped (more than 2 % of the samples), nan for an end that is not clipped.

    """
    steps = np.zeros(len(names)) if step is None else step
    span = np.maximum(extreme[0] + extreme[1], 0.0)
    for k in np.flatnonzero((steps > COARSE * span) & (steps > 0) & moved).tolist():
        sink.warn(
            "quantised-effort",
            f"the effort has steps of {steps[k]:.3g} ({100 * steps[k] / span[k]:.2g} % of its range): log more digits",
            Place(joint=names[k]),
        )
    gathered = np.where(
        steps > 0, GATHERED * (np.zeros_like(shares) if next_to_end is None else next_to_end), 0.0
    )
    least = np.maximum(SATURATED_SHARE, gathered)
    cut_off = np.where(shares > least, extreme * np.array([[1.0], [-1.0]]), np.nan)
    constant = extreme[0] == -extreme[1]
    # A joint without any torque is a free one, if others have some.
    constant &= (extreme[0] != 0.0) | constant.all()
    for k in np.flatnonzero(constant & moved).tolist():
        sink.claim(
            "constant-effort",
            found=f"a constant effort of {extreme[0, k]:.3g} while the joint moves",
            expected="an effort that follows the motion",
            do="map the column of this joint's effort under [log], or check the driver",
            place=Place(joint=names[k]),
        )
    saturated = shares.max(axis=0)
    for k in np.flatnonzero(np.isfinite(cut_off).any(axis=0)).tolist():
        sink.warn(
            "saturated",
            f"{100 * saturated[k]:.3g} % of the effort samples are exactly "
            f"{cut_off[int(np.argmax(shares[:, k])), k]:.3g}, the end of the range: is the effort saturated?",
            Place(joint=names[k]),
        )
    return saturated, cut_off


# Remove rows in which all efforts are 0 between rows with efforts: the driver reported no effort, or another program
# wrote the row.

# s. A longer zero is true: the drives were switched off.
LONGEST_ABSENCE = 2.0
# Share of a joint's efforts in a chunk. If more efforts are 0, then 0 is a usual value of this joint.
FEW_ZEROS = 0.2
# An effort jumps to 0 if the change exceeds the usual second difference by this factor.
JUMP_TO_ZERO = 5.0


def without_absent_efforts(chunks: Iterator[RawChunk]) -> Iterator[RawChunk]:
    """Yield the chunks without rows in which all efforts are exactly 0 after a jump and before a jump back.

    The zeros last two seconds at most. Measured torques do not cross zero at all joints at the same time, and they
    cross zero continuously. A jump is detected by comparison with the r.m.s. second difference of the other rows, so
    that efforts with coarse steps remain. Dwells without torque also remain.

    Parameters
    ----------
    chunks : iterator of RawChunk
        Consecutive chunks of a trajectory.

    Yields
    ------
    RawChunk
        Remaining rows; `without_effort` has the times of the removed rows. If the effort of a single joint jumps to 0
        and back, it is nan in these rows.

    """
    last: RawChunk | None = None  # last row that was yielded
    pending: RawChunk | None = None  # rows without effort, until the next row with effort is known
    for chunk in chunks:
        if chunk.tau is None or (pending is None and not _without_effort(chunk.tau).any()):
            last = rows_only(chunk, slice(-1, None))
            yield _without_single_zeros(chunk)
            continue
        known = 0 if last is None else 1
        whole = joined([part for part in (last, pending, chunk) if part is not None])
        zero = _without_effort(np.asarray(whole.tau))
        cut = len(zero)
        if zero[-1]:
            begin = int(np.flatnonzero(np.append(True, ~zero))[-1])
            if whole.t[-1] - whole.t[begin] <= LONGEST_ABSENCE:
                cut = max(begin, known)
        absent = _jumps_to_zero(whole.t, whole.q, np.asarray(whole.tau), zero)[known:cut]
        pending = rows_only(whole, slice(cut, None)) if cut < len(zero) else None
        ready = replace(taken(whole, slice(known, cut)), first_row=whole.first_row + known)
        if absent.any():
            ready = replace(taken(ready, ~absent), without_effort=ready.t[absent])
        if len(ready.t):
            last = rows_only(ready, slice(-1, None))
            yield _without_single_zeros(ready)
    if pending is not None:
        yield pending


def _without_effort(effort: Float) -> Bool:
    """Mask (T,) of the rows in which all efforts (T, n) are exactly 0."""
    return np.asarray((effort == 0.0).all(axis=1))


def _without_single_zeros(chunk: RawChunk) -> RawChunk:
    """Replace efforts of single joints by nan where they jump to exactly 0 and back."""
    zeros = None if chunk.tau is None else chunk.tau == 0.0
    if chunk.tau is None or zeros is None or not zeros.any():
        return chunk
    tau = np.array(chunk.tau, order="K")
    share = zeros.mean(axis=0)
    for joint in np.flatnonzero((share > 0) & (share <= FEW_ZEROS)).tolist():
        column = slice(joint, joint + 1)
        absent = _jumps_to_zero(chunk.t, chunk.q[:, column], chunk.tau[:, column], zeros[:, joint])
        tau[absent, joint] = np.nan
    return replace(chunk, tau=tau) if np.isnan(tau).sum() > np.isnan(chunk.tau).sum() else chunk


def _jumps_to_zero(t: Float, q: Float, effort: Float, zero: Bool) -> Bool:
    """Mask (T,) of the rows in `zero` at which at least one of the efforts (T, n) jumps to 0 and back."""
    bend = np.diff(effort[~zero], 2, axis=0)
    # The second difference of a coarse effort is 0 between its steps, so only nonzero values count.
    bend[~(np.abs(bend) > 0)] = np.nan
    count = np.isfinite(bend).sum(axis=0)
    usual = np.sqrt(np.nansum(bend**2, axis=0) / np.maximum(count, 1))
    absent = np.zeros(len(zero), dtype=np.bool_)
    for a, b in np.flatnonzero(np.diff(zero, prepend=False, append=False)).reshape(-1, 2).tolist():
        if a == 0 or b == len(zero) or t[b - 1] - t[a] > LONGEST_ABSENCE:
            continue
        # Distance of 0 from the midpoint between the rows before and after: near 0 for a torque that crosses zero.
        away = 0.5 * np.abs(effort[a - 1] + effort[b])
        jumps = bool((away > JUMP_TO_ZERO * usual)[usual > 0].any())
        # A joint without load can dwell without torque.
        dwells = t[b - 1] - t[a] > FROZEN_SECONDS and not (np.ptp(q[a:b], axis=0) > STILL).any()
        absent[a:b] = jumps and not dwells
    return absent
