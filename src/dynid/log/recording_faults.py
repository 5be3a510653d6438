"""Faults of recording that leave plausible numbers: rows lost behind even time stamps, frozen or unsigned efforts."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.kernel import line_ranges, line_unevenness
from dynid.log.joints import STILL
from dynid.log.log import lattice_step
from dynid.recording import RawChunk
from dynid.robot.model import RobotModel

# Whether an effort that comes down to zero and goes up again was logged without its sign.

# Shares of the largest value: what comes as close to zero touches it; it is one touch until the effort is as far
# away again; and it is looked at up to here.
TOUCHES, LEAVES, UP_TO = 0.02, 0.06, 0.25
# Samples on either side of a touch, and order of the smooth curve through them.
SIDE, ORDER = 4, 3
# A way back of a joint below this share of its way is noise of its encoder.
WAY_BACK = 0.02
# Deviations below this share of the largest value are those of numbers that were rounded.
ROUNDED = 1e-4
# An effort whose samples are zero for this share of the time around a touch is switched off, or cut off, there.
SWITCHED_OFF = 1.0 / 3.0


def sign_evidence(effort: Float, position: Float) -> float:
    """How much smoother an effort (T,), not below zero, is with the sign given back that it may have lost.

    Logarithm of the ratio of squared deviations from smooth curves, without and with a change of sign at each touch,
    summed over the touches. Friction jumps where the joint turns round, so that a curve ends there.
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
    # Between two touches the effort is highest.
    tops = [a + int(np.argmax(effort[a:b])) for a, b in pairwise(touches)]
    far, evidence = np.flatnonzero(effort > UP_TO), 0.0
    for at, first, last in zip(touches, [0, *tops], [*tops, len(effort)], strict=True):
        beyond = int(np.searchsorted(far, at))
        start = max(first, int(far[beyond - 1]) + 1 if beyond else 0)
        end = min(last, int(far[beyond]) if beyond < len(far) else len(effort))
        start, end = _one_way(position, start, end, at)
        around = effort[start:end]
        if min(at - start, end - at - 1) < SIDE or (around == 0).mean() > SWITCHED_OFF:
            continue
        sign = np.where(np.arange(start, end) < at, -1.0, 1.0)
        rounded = len(around) * ROUNDED**2
        evidence += float(np.log((_roughness(around) + rounded) / (_roughness(sign * around) + rounded)))
    return evidence


def _roughness(values: Float) -> float:
    """Sum of squared deviations of values (T,) from a polynomial."""
    basis = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, len(values)), ORDER + 1))[0]
    return float(((values - basis @ (basis.T @ values)) ** 2).sum())


def _one_way(position: Float, start: int, end: int, at: int) -> tuple[int, int]:
    """The part of start..end around a sample in which a joint does not turn round."""
    while end - start > 2:
        path = position[start:end]
        # The same both ways round: an extreme inside that lies beyond both ends.
        beyond = [(int(np.argmax(way)), way.max() - max(way[0], way[-1])) for way in (path, -path)]
        turn, back = max(beyond, key=lambda one: one[1])
        if back <= WAY_BACK * np.ptp(path):
            break
        start, end = (start + turn, end) if start + turn <= at else (start, start + turn + 1)
    return start, end


# Efforts that never change their sign while their joint moves both ways, and grow with its speed: supply
# currents.

ONE_SIDED = "one-sided-effort"
# Correlation of such an effort with the speed, and how many times that with the velocity it is. Weight on a joint that
# moves to and fro about the level does as much: alone this proves nothing.
FOLLOWS, RATHER = 0.4, 3.0
# Share of the rows with motion each way.
EACH_WAY = 0.2


class OneSidedWatch:
    """Moments of efforts of one sign with velocity and speed, while the windows of a log pass by.

    names: of the joints.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        n = len(names)
        self._names = names
        self._low, self._high = np.full(n, np.inf), np.full(n, -np.inf)
        self._rows, self._ahead, self._back = np.zeros(n), np.zeros(n), np.zeros(n)
        self._means, self._products = np.zeros((n, 3)), np.zeros((n, 3, 3))

    def see(self, t: Float, q: Float, effort: Float, low: Float, high: Float) -> None:
        """Takes a window t (T,) of positions and efforts (n, T), whose ends are low, high (n,)."""
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
        """Notes such efforts of joints that moved."""
        for j in np.flatnonzero(moved & self._of_one_sign & (self._rows > 0)).tolist():
            count = self._rows[j]
            mean = self._means[j] / count
            with np.errstate(over="ignore", invalid="ignore"):  # of numbers of no size
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
                    f"an effort from {self._low[j]:.4g} to {self._high[j]:.4g} that never changes its sign while the "
                    f"joint moves both ways, and follows its speed (correlation {speed:.2f}), not its velocity "
                    f"({velocity:.2f})",
                    Place(joint=self._names[j]),
                )

    @property
    def _of_one_sign(self) -> Bool:
        return np.asarray((self._low >= 0) | (self._high <= 0))


# An effort that stands still for so long (s and rows), while its joint moves on by so much (rad or m), is frozen.
FROZEN_SECONDS, FROZEN_ROWS, FROZEN_MOTION = 0.25, 20, 0.02
# And that much longer than it usually repeats itself.
FROZEN_TIMES = 5.0
# At an end of its range an effort is cut off, unless it stands there once while its joint turns round so often. One of
# no more values than this, whose steps are 2 % of its range, may stand on any of them.
FROZEN_TURNS, COARSE_VALUES = 2, 50
# Below this share of the log it is a hitch.
FROZEN_SHARE = 0.01
# An effort whose least value lies within this share of its peak above zero has lost its sign if it is so many times
# smoother (squared deviations, over all touches of zero) with the sign given back.
AT_ZERO, SMOOTHER = 2e-3, 20.0
# A jump along the motion counts from so many times the usual unevenness and so many rows on (sampling that jitters or
# repeats itself makes one or two), if it leaves so little of all joints' unevenness; time steps are even to this share.
JUMP_SIGNIFICANCE, JUMP_ROWS, LEFT = 12.0, 5.0, 0.05
EVEN = 0.2
# A step below this share of the usual one is a repeated sample. Where such are more than this share of so many rows
# around a jump, what is lost and what is late cannot be distinguished; elsewhere the way covered there has to be longer
# than at the usual pace by this share of the jump.
STALLED, STALE_SHARE, QUIET, NOT_CAUGHT_UP = 0.05, 0.2, 15, 0.5
# Steps on either side of a jump, and of rows that stand still before it, that the pace is taken from.
PACE = 5
# Median of the size of a normal variable over its standard deviation.
NORMAL_MEDIAN = 0.6745
# Share of its greatest unevenness, times the root of the number of joints, that half of a joint's samples reach where
# none can be a jump.
EVEN_SHARE = NORMAL_MEDIAN / JUMP_SIGNIFICANCE * (1.0 + 1e-9)
# Of 1.5 q6 - 1.5 q3 + 0.5 q0 - 0.5 q9 in steps that all four are rounded to: sqrt(5 / 12).
RECORDING_FAULTS_ROUNDED = 0.645
# Motion below so many times its own unevenness is rest.
MOVING = 3.0
WINDOW = 4096
LOOKED_AT = 5  # one value in so many, for a first look at runs
# Windows from the start of the log that efforts' lattices are estimated in, and of those after them one in so many.
LATTICE_WINDOWS, LATTICE_EVERY = 16, 32


class RecordingWatch:
    """Looks for such faults while the chunks of a log pass by, in windows that do not depend on the chunks.

    effort_step: (n,) lattice of the efforts, 0 = none.    beside: (2, n) share of the samples on the step of the
    lattice next to the upper and the lower end.
    """

    def __init__(self, robot: RobotModel) -> None:
        n = robot.n
        self.names = robot.joint_names
        self.seconds, self.rows, self.windows = 0.0, 0, 0
        self.frozen, self.frozen_at = np.zeros(n), np.full(n, np.nan)
        self._uneven: list[Float | None] = [None] * n
        self.least, self.most = np.full(n, np.inf), np.full(n, -np.inf)
        self.lost_sign, self.effort_step = np.zeros(n), np.zeros(n)
        self.beside_count = np.zeros((2, n))
        self.one_sided = OneSidedWatch(robot.joint_names)
        self.jumps: list[tuple[float, float]] = []
        self._rest: list[tuple[Float, Float, Float]] = []  # rows that no window has had yet

    @property
    def beside(self) -> Float:
        """Share of the samples next to each end."""
        return self.beside_count / max(self.rows, 1)

    def see(self, chunk: RawChunk) -> None:
        """Takes a chunk, and looks at whole windows."""
        # Joint by joint in memory: all that follows works along time.
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
        # Copies, so that what is left does not keep a whole chunk in memory.
        if start < len(t):
            self._rest.append((t[start:].copy(), q[:, start:].copy(), tau[:, start:].copy()))
        self._uneven = [None if one is None else one.copy() for one in self._uneven]

    def end(self) -> None:
        """Looks at what is left of a trajectory."""
        if self._rest:
            self._look_at_rest()

    def _look_at_rest(self) -> None:
        t, q, tau = (np.concatenate(parts, axis=-1) for parts in zip(*self._rest, strict=True))
        self._rest = []
        self._look(t, q, tau, 0, len(t))

    def _look(self, t: Float, q: Float, effort: Float, start: int, count: int) -> None:
        # At rows start..start + count of t (T,), q and effort (n, T).
        if count < FROZEN_ROWS:
            return
        own = slice(start, start + count)
        self._jumps(t[own], q, start)
        low, high = line_ranges(effort, start, count).T
        t, q, effort = t[own], q[:, own], effort[:, own]
        self.seconds += float(t[-1] - t[0])
        self.rows += count
        self.windows += 1
        if not np.isfinite(low + high).all():
            effort = np.where(np.isfinite(effort), effort, np.nan)
            known = ~np.isnan(effort)
            low = effort.min(axis=1, where=known, initial=np.inf)
            high = effort.max(axis=1, where=known, initial=-np.inf)
        self._frozen(t, q, effort, low, high)
        with np.errstate(over="ignore"):  # of numbers of no size, which are judged as any others
            self._ends(effort, low, high)
            self.one_sided.see(t, q, effort, low, high)
            # What was once below zero has a sign.
            for j in np.flatnonzero((self.least >= 0) & (low < TOUCHES * high)):
                known = np.isfinite(effort[j]) & np.isfinite(q[j])
                self.lost_sign[j] += sign_evidence(effort[j, known], q[j, known])

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Reports what was found.    Claims: constant-effort, unsigned-effort, rows-lost."""
        # Of one that never changed, `look_at_peaks` tells.
        changed = self.most > self.least
        for j in np.flatnonzero(moved & changed & (self.frozen > FROZEN_SHARE * self.seconds)):
            sink.claim(
                "constant-effort",
                found=f"an effort that stands still for {self.frozen[j]:.3g} s of {self.seconds:.3g} s (first at "
                f"t = {self.frozen_at[j]:.4g} s) while the joint moves: frozen",
                expected="an effort that follows the motion",
                do="leave these times out (window under [data]), or look at the driver",
                place=Place(joint=self.names[j]),
            )
        with np.errstate(invalid="ignore", over="ignore"):
            unsigned = (self.least >= 0) & (self.least <= AT_ZERO * self.most) & (self.most > 0)
            unsigned &= self.lost_sign > np.log(SMOOTHER)
        for j in np.flatnonzero(moved & unsigned):
            sink.claim(
                "unsigned-effort",
                found=f"an effort from 0 to {self.most[j]:.4g} that turns back sharply at zero: its absolute value",
                expected="an effort with a sign",
                do="log the signed effort: no sign can be given back",
                place=Place(joint=self.names[j]),
            )
        self.one_sided.finish(moved, sink)
        if self.jumps:
            at, rows = self.jumps[0]
            sink.claim(
                "rows-lost",
                found=f"{len(self.jumps)} jump(s) of all joints along their motion while time goes on evenly (first at "
                f"t = {at:.4g} s, by {rows:.2g} rows): rows were lost and time was numbered anew",
                expected="time stamps of the measurement",
                do="log time as it was measured, or split the log there (trajectory under [log])",
            )

    def _frozen(self, t: Float, q: Float, effort: Float, low: Float, high: Float) -> None:
        stays = effort[:, 1:] == effort[:, :-1]
        repeats = _has_run(stays, FROZEN_ROWS)
        for j in np.flatnonzero(~stays.all(axis=1) & ~repeats).tolist():
            self._uneven[j] = effort[j]
        for j in np.flatnonzero(repeats).tolist():
            values = effort[j]
            starts, ends = _runs(values)
            rows = ends - starts
            # A coarse or slowly updated effort repeats itself all the time; a window may hold nothing but a frozen one.
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
                # A coarse effort rests on its steps again and again.
                once = b - a > FROZEN_TIMES * longest and turns(path, FROZEN_MOTION) >= FROZEN_TURNS
                if _goes_on_by_a_step(values, a, b):
                    continue
                if np.ptp(path) > FROZEN_MOTION and (inside or once):
                    self.frozen[j] += float(t[b] - t[a])
                    self.frozen_at[j] = np.fmin(self.frozen_at[j], t[a])

    def _usual_rows(self, joint: int) -> Int:
        """How often an effort repeated itself, run by run, in the latest window in which it changed."""
        values = self._uneven[joint]
        if values is None:
            return np.zeros(1, dtype=np.int64)
        starts, ends = _runs(values)
        return ends - starts

    def _ends(self, effort: Float, low: Float, high: Float) -> None:
        # A lattice is that of the whole log, so that a share of the windows of a long one shows it.
        if self.windows <= LATTICE_WINDOWS or self.windows % LATTICE_EVERY == 0:
            self.effort_step = np.fmax(self.effort_step, lattice_step(effort.T))
        # A new end further out begins the count of what lies next to it anew.
        further = np.stack(
            [high > self.most + 0.5 * self.effort_step, low < self.least - 0.5 * self.effort_step]
        )
        self.beside_count = np.where(further, 0.0, self.beside_count)
        self.least, self.most = np.fmin(self.least, low), np.fmax(self.most, high)
        # Only a window that comes near an end can hold samples next to it.
        for j in np.flatnonzero(self.effort_step > 0):
            step = self.effort_step[j]
            if self.most[j] - high[j] < 1.5 * step:
                self.beside_count[0, j] += _beside(self.most[j] - effort[j], step)
            if low[j] - self.least[j] < 1.5 * step:
                self.beside_count[1, j] += _beside(effort[j] - self.least[j], step)

    def _jumps(self, t: Float, q: Float, start: int) -> None:
        # In the rows t (T,) of positions (n, ...), which begin at a start.
        whole_lines = np.isfinite(line_ranges(q, start, len(t)).sum(axis=1))
        greatest = line_unevenness(q, EVEN_SHARE * np.sqrt(whole_lines.sum()), start, len(t))
        if not whole_lines.any() or _even(greatest[whole_lines, 1], len(t) - 9):
            return
        lines = q[whole_lines, start : start + len(t)]
        # Three steps against three before and three after: a sample that comes late moves nothing for good.
        three = lines[:, 3:] - lines[:, :-3]
        around, excess = 0.5 * (three[:, :-6] + three[:, 6:]), three[:, 3:-3]
        excess = excess - around
        dt = np.diff(t)
        usual = float(np.median(dt))
        if usual <= 0:
            return
        uneven_by = np.median(np.abs(excess), axis=1) / NORMAL_MEDIAN
        # A jump along the motion is no more significant than all of the unevenness there.
        if ((uneven_by + 1e-12) ** -2 @ excess**2).max() <= JUMP_SIGNIFICANCE**2:
            return
        weight = (np.maximum(uneven_by, _rounding(lines)) + 1e-12) ** -2
        # Rows lost if all joints went on as fast as around: excess = rows / 3 around, by least squares.
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
        found = even & (3.0 * share > JUMP_ROWS) & (share * np.sqrt(information) > JUMP_SIGNIFICANCE)
        found &= (left < LEFT * whole) & (information > MOVING**2)
        places = np.flatnonzero(found)
        for group in np.split(places, np.flatnonzero(np.diff(places) > 3) + 1):
            if len(group):
                k, lost = int(group[len(group) // 2]), 3.0 * float(np.median(share[group]))
                # Positions that repeat themselves catch up by as much afterwards, and have lost nothing.
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
    """Standard deviation (n,) of what is no even motion that positions (n, T) on a lattice have of it alone.

    Joints that pause, or move by less than a step a row, are as even as can be most of the time.
    """
    steps = np.abs(np.diff(lines, axis=1))
    least = np.where(steps > 0, steps, np.inf).min(axis=1)
    return np.where(np.isfinite(least), RECORDING_FAULTS_ROUNDED * least, 0.0)


def _beside(away: Float, step: float) -> int:
    """How many samples lie on the step of a lattice next to its end, by their distance (T,) from it."""
    return int(np.count_nonzero((away > 0.5 * step) & (away < 1.5 * step)))


def _runs(values: Float) -> tuple[Int, Int]:
    """First and last index of each run of equal values (T,)."""
    edges = np.flatnonzero(values[1:] != values[:-1]) + 1
    return np.concatenate([[0], edges]), np.concatenate([edges, [len(values)]]) - 1


def _goes_on_by_a_step(values: Float, a: int, b: int) -> bool:
    """Whether values (T,) that change by single steps of a lattice do so before and behind a run, from a to b, as well.

    So does a coarse effort where it turns round slowly; one that was frozen has more to make up for.
    """
    steps = np.abs(np.diff(values))
    steps = steps[steps > 0]
    if not len(steps) or a == 0 or b + 1 == len(values):
        return False
    single = 1.5 * float(steps.min())
    around = max(abs(values[a] - values[a - 1]), abs(values[b + 1] - values[b]))
    return bool(np.median(steps) <= single and around <= single)


def _comes_to_rest(path: Float) -> bool:
    """Whether a joint stands for most of its path (T,), from before the middle to the end: it was stopped.

    An effort that does not change is no fault of recording there: brakes hold.
    """
    half = path[len(path) // 2 :]
    return bool(len(half) and np.ptp(half) <= STILL and np.ptp(path) > STILL)


def _has_run(true: Bool, length: int) -> Bool:
    """Lines (L, T) with at least so many true values one after the other, (L,)."""
    # Of such a run, one value in LOOKED_AT is true as well: few lines have as many of those.
    found = np.array(_all_of(true[:, ::LOOKED_AT], length // LOOKED_AT).any(axis=1))
    lines = np.flatnonzero(found)
    found[lines] = _all_of(true[lines], length).any(axis=1)
    return found


def _all_of(true: Bool, length: int) -> Bool:
    # Where so many values begin that are all true, by doubling.
    have = 1
    while have < length and true.shape[1]:
        step = min(have, length - have)
        true = true[:, :-step] & true[:, step:]
        have += step
    return true


def _even(below: Float, samples: int) -> bool:
    """Whether no sample of unevenness (n, T) can be a jump, by a bound that needs no median.

    A jump is significant by at most the root of the sum over joints of (size / standard deviation)^2, the deviation
    from the median. Where half of a joint's samples reach a share of its largest, its median does.
    below: (n,) samples that do not.
    """
    return bool((below <= (samples - 1) // 2).all())


def _catches_up(steps: Float, jump: int, weight: Float) -> bool:
    """Whether a jump within steps (T, n) makes up for rows right before it that stood still.

    weight: (n,) of squared steps.    jump: about its index.
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
    """By how many rows steps (T, n) of motion lead further than as many at their usual pace."""
    pace, scale = np.median(steps, axis=0), np.median(np.abs(steps), axis=0)
    weight = 1.0 / np.maximum(scale, 1e-12 + 1e-3 * scale.max(initial=0.0)) ** 2
    along = float((pace**2 * weight).sum())
    return float((steps.sum(axis=0) * pace * weight).sum()) / along - len(steps) if along > 0 else 0.0


def turns(path: Float, least: float) -> int:
    """How often a path (T,) turns round, ways back of less than `least` not counted."""
    found, way, furthest = 0, 0.0, float(path[0])
    for value in path.tolist():
        if way == 0.0 and abs(value - furthest) > least:
            way, furthest = float(np.sign(value - furthest)), value
        elif (value - furthest) * way > 0:
            furthest = value
        elif way and (furthest - value) * way > least:
            found, way, furthest = found + 1, -way, value
    return found


# Efforts that lie at the ends of their range: cut off by a limit, or never measured at all.

SATURATED_SHARE = 0.02
# On a lattice a sine lies 1.4 times as often on its last step as on the one before: more than this is cut off.
GATHERED = 3.0
# From this share of its range on the steps of an effort are worth a warning.
COARSE = 0.02


def look_at_peaks(
    names: Sequence[str],
    extreme: Float,
    shares: Float,
    moved: Bool,
    sink: Diagnostics,
    step: Float | None = None,
    beside: Float | None = None,
) -> tuple[Float, Float]:
    """Share of each effort at an end, (n,), and the ends (2, n) that hold more than a fiftieth, nan = fewer.

    extreme: (2, n) greatest effort and greatest negative effort.    shares: (2, n) of the samples that lie there.
    step: (n,) lattice of the efforts, 0 or None = none.    beside: (2, n) shares on the step next to each end: on a
    coarse lattice samples gather at an end, too.
    Warns of efforts that are cut off, and of coarse ones.
    Claims: constant-effort, of a joint that moves under one and the same effort.
    """
    steps = np.zeros(len(names)) if step is None else step
    span = np.maximum(extreme[0] + extreme[1], 0.0)
    for k in np.flatnonzero((steps > COARSE * span) & (steps > 0) & moved).tolist():
        sink.warn(
            "quantised-effort",
            f"effort in steps of {steps[k]:.3g}, {100 * steps[k] / span[k]:.2g} % of its range: log it finer",
            Place(joint=names[k]),
        )
    gathered = np.where(steps > 0, GATHERED * (np.zeros_like(shares) if beside is None else beside), 0.0)
    least = np.maximum(SATURATED_SHARE, gathered)
    cut_off = np.where(shares > least, extreme * np.array([[1.0], [-1.0]]), np.nan)
    for k in np.flatnonzero((cut_off[0] == cut_off[1]) & moved).tolist():
        sink.claim(
            "constant-effort",
            found=f"an effort of {cut_off[0, k]:.4g} throughout, while the joint moves",
            expected="an effort that follows the motion",
            do="map the column that holds this joint's effort under [log], or look at the driver",
            place=Place(joint=names[k]),
        )
    saturated = shares.max(axis=0)
    for k in np.flatnonzero(np.isfinite(cut_off).any(axis=0)).tolist():
        sink.warn(
            "saturated",
            f"{100 * saturated[k]:.3g} % of the effort lies exactly at its end "
            f"{cut_off[int(np.argmax(shares[:, k])), k]:.4g}: saturated?",
            Place(joint=names[k]),
        )
    return saturated, cut_off
