"""Times of a log's rows: messages logged twice, and time stamps that scatter around a regular clock."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.recording import RawChunk

Rows = tuple[Float, Float]
# A time base is adopted if it lowers the interpolation error of the positions to this share.
BETTER = 0.9
SHARE_HELD = 0.01  # of the rows: fewer repeated rows hardly change a fit
SCATTER = 0.02  # of a step: rows with less scatter count as uniform
CLOCK_SECONDS = (
    0.25  # to each side: clock rates are steady for longer, and their scatter averages out over less
)
PAUSE_STEPS = 4.0  # median steps after which a clock may have lost count
# Change of position after repeated rows over the change before them: above it, the robot moved in between.
HELD_RATIO = 1.5
LONGEST_HOLD = 0.25  # s: a robot that repeats its position for longer is at rest
# s: longest wait for the end of a frozen segment, since a robot at rest repeats its position for hours.
LONGEST_FROZEN = 2.0
# Rows. A logger without a new message repeats the last one. After a late message, rows lag their stamps by one message
# until the logger skips one. If that takes more rows than this, the stamps are right and time was lost.
LATE_ROWS = 5
LONGEST_GAP = 10  # median steps: after a longer pause the number of missing messages is unknown
AROUND = 4  # rows on either side by which late rows are judged: two more than a cubic needs
CLEARLY = 0.5  # share of the interpolation error with the original stamps that late rows must not exceed
LEAST_ROWS = 64  # fewer rows do not show how a clock scatters


@dataclass(frozen=True)
class TimeBase:
    """Corrections of the rows of a log before they are resampled.

    Rows in which every channel is frozen while the robot moves (`frozen_rows`) are always dropped.

    Attributes
    ----------
    drop_repeated : bool
        Whether other rows that repeat all channels of the row before while the robot moves are dropped.
    shift_late : bool
        Whether rows after a gap that carry an earlier message get the time of that message.
    smoothing : int
        Rows to each side over which time stamps are replaced by a straight line; 0 keeps the stamps.
    step : float, s
        Median step of the remaining rows.
    reason : str
        Corrections and their reasons; "" without any.

    """

    drop_repeated: bool = False
    shift_late: bool = False
    smoothing: int = 0
    step: float = 0.0
    reason: str = ""

    def stream(self, rows: Iterable[Rows], joints: int) -> Iterator[Rows]:
        """Corrected rows: times (T,) and channels (L, T), the positions first, in batches of any size."""
        rows = _without_frozen(rows, joints)
        if self.drop_repeated:
            rows = _without_repeated(rows, joints)
        if self.shift_late:
            reach = 2 * (LATE_ROWS + 2 * AROUND)  # of a gap and of its neighbour
            rows = _retimed(
                rows,
                lambda t, lines: times_of_messages(t, _without_turns(lines[:joints]), self.step),
                reach,
                reach,
            )
        h, pause = self.smoothing, PAUSE_STEPS * self.step
        return _retimed(rows, lambda t, _: regular_times(t, h, pause), h + 1, h) if h else iter(rows)


def _retimed(
    rows: Iterable[Rows], times: Callable[[Float, Float], Float], ahead: int, behind: int
) -> Iterator[Rows]:
    """Rows at new times, in batches of any size.

    `times` returns new times (T,) from stamps (T,) in s and channels (L, T); each depends on `ahead` later and `behind`
    earlier rows.
    """
    t, lines, done = np.zeros(0), np.zeros((0, 0)), 0
    for more, values in rows:
        t = np.concatenate([t, more])
        lines = np.concatenate([lines, values], axis=1) if lines.size else values
        ready = len(t) - ahead
        if ready <= done:
            continue
        yield times(t, lines)[done:ready], lines[:, done:ready]
        kept = max(ready - behind, 0)
        t, lines, done = t[kept:], lines[:, kept:], ready - kept
    if len(t) > done:
        yield times(t, lines)[done:], lines[:, done:]


def find_time_base(stretches: Sequence[Rows], joints: int) -> TimeBase:
    """Detect repeated messages, late rows and time stamps that scatter around a regular clock.

    Each position is interpolated from two neighbours on both sides by a cubic over time. The time base with the least
    interpolation error is chosen: all rows at their stamps; rows without repeated messages; then either late rows at
    the times of their messages, or all rows at evenly spaced times (a straight line through the stamps within 0.25 s,
    fitted anew after each pause). Each must lower the error by a tenth. Rows that really were sampled unevenly keep
    their stamps, since even times raise their error.

    `stretches`: stamps (T,) in s and channels (L, T), the positions first, of consecutive rows.
    """
    frozen = [frozen_rows(t, x, joints) for t, x in stretches]
    whole = [
        (t[~f], x[:, ~f])
        for (t, x), f in zip(stretches, frozen, strict=True)
        if len(t) - f.sum() >= LEAST_ROWS
    ]
    if not whole:
        return TimeBase()
    logged = [(t, _without_turns(x[:joints])) for t, x in whole]
    step = float(np.median(np.concatenate([np.diff(t) for t, _ in logged])))
    repeated = [repeated_rows(t, x, joints) for t, x in whole]
    share = float(np.concatenate(repeated).mean())
    error, base = _interpolation_error(logged), TimeBase(step=step)
    reasons = []
    if count := sum(int(f.sum()) for f in frozen):
        reasons.append(
            f"{count} frozen rows are dropped: every channel repeats the row before while the robot moves"
        )
    if share > SHARE_HELD:
        fresh = [(t[~h], q[:, ~h]) for (t, q), h in zip(logged, repeated, strict=True)]
        better = _ratio(_interpolation_error(fresh), error)
        if _mean_ratio(better) < BETTER:
            logged, error = fresh, _interpolation_error(fresh)
            step = float(np.median(np.concatenate([np.diff(t) for t, _ in logged])))
            base = TimeBase(drop_repeated=True, step=step)
            reasons.append(
                f"{100 * share:.2g} % of the rows repeat the previous message while the robot moves and are dropped"
            )
    candidates = [
        candidate
        for candidate in (_at_even_times(logged, base), _at_message_times(logged, base))
        if candidate is not None
    ]
    tried = [
        (_mean_ratio(_ratio(_interpolation_error(rows), error)), candidate, why)
        for rows, candidate, why in candidates
    ]
    if tried and (best := min(tried, key=lambda candidate: candidate[0]))[0] < BETTER:
        share, base, why = best
        reasons.append(why.format(1 / share))
    return replace(base, reason="; ".join(reasons))


def _at_even_times(logged: list[Rows], base: TimeBase) -> tuple[list[Rows], TimeBase, str] | None:
    """Rows at evenly spaced times, the time base and its reason; None if the stamps hardly scatter."""
    step = base.step
    rows_each_side = max(int(CLOCK_SECONDS / step), 2)
    even = [(regular_times(t, rows_each_side, PAUSE_STEPS * step), q) for t, q in logged]
    moved = np.concatenate([a - b for (a, _), (b, _) in zip(even, logged, strict=True)])
    scatter = float(np.sqrt(np.mean(moved**2)))
    if scatter <= SCATTER * step or not all((np.diff(t) > 0).all() for t, _ in even):
        return None
    reason = (
        f"time stamps scatter by {1e3 * scatter:.2g} ms around a regular clock and are replaced by its times, which "
        "fit the positions {:.2g} times better"
    )
    return even, replace(base, smoothing=rows_each_side), reason


def _at_message_times(logged: list[Rows], base: TimeBase) -> tuple[list[Rows], TimeBase, str] | None:
    """Rows at the times of their messages, the time base and its reason; None if no row is late."""
    if not base.drop_repeated:
        return None
    timed = [(times_of_messages(t, q, base.step), q) for t, q in logged]
    late = sum(int(np.count_nonzero(a != b)) for (a, _), (b, _) in zip(timed, logged, strict=True))
    why = (
        f"{late} rows after them carry the message before theirs and get its time, which fits the positions {{:.2g}} "
        "times better"
    )
    return (timed, replace(base, shift_late=True), why) if late else None


def regular_times(t: Float, half: int, pause: float) -> Float:
    """Times (T,) on a straight line through the stamps of up to `half` rows on each side, fitted anew after each pause.

    A step longer than `pause` (s) counts as a pause.
    """
    smooth = t.copy()
    starts = np.flatnonzero(np.diff(t) > pause) + 1
    for a, b in zip(np.append(0, starts), np.append(starts, len(t)), strict=True):
        if b - a >= 8:
            smooth[a:b] = t[a] + _local_line(t[a:b] - t[a], half)
    return smooth


def times_of_messages(t: Float, q: Float, step: float) -> Float:
    """Times (T,) of the messages of rows that lag their stamps after a gap, until the logger skips a message.

    After each gap up to LATE_ROWS rows are tried with lags of whole steps that fit into the gap. A lag is adopted if
    cubics through the neighbours then interpolate the positions q (n, T) CLEARLY better. `step` is the median step in
    s.
    """
    message_times = t.copy()
    elapsed = np.rint(np.diff(t) / step).astype(np.int64)
    gaps = np.flatnonzero((elapsed > 1) & (elapsed <= LONGEST_GAP)) + 1
    gaps = gaps[(gaps >= AROUND) & (gaps < len(t) - LATE_ROWS - AROUND)]
    # From AROUND rows before the end of the gap to AROUND rows after the last that may be late. The second round
    # accounts for neighbouring gaps corrected in the first.
    rows = gaps[:, None] + np.arange(-AROUND, LATE_ROWS + AROUND)
    lost = elapsed[gaps - 1]
    near = q[:, rows]
    for _ in range(2):
        now = message_times[rows]
        best, times = _unevenness(now, near), now.copy()
        enough = CLEARLY * best
        for late in range(1, int(lost.max(initial=1))):
            roomy = np.flatnonzero(late < lost)
            there = near[:, roomy]
            for length in range(1, LATE_ROWS + 1):
                tried, behind = now[roomy], slice(AROUND, AROUND + length)
                tried[:, behind] = t[rows[roomy, behind]] - step * late
                error = _unevenness(tried, there)
                better = error < np.minimum(best, enough)[roomy]
                best[roomy[better]], times[roomy[better]] = error[better], tried[better]
        changed, behind = (times != now).any(axis=1), slice(AROUND, AROUND + LATE_ROWS)
        message_times[rows[changed, behind]] = times[changed, behind]
        again = (message_times[rows] != now).any(axis=1)
        rows, near, lost = rows[again], near[:, again], lost[again]
    return message_times


def _unevenness(t: Float, q: Float) -> Float:
    """(G,) r.m.s. error of positions (n, G, W) at times (G, W) from cubics through two neighbours on both sides."""
    forward = np.asarray((np.diff(t, axis=1) > 0).all(axis=1))
    t = np.where(forward[:, None], t, np.arange(t.shape[1]))
    error = _off_cubic(t, q, np.arange(2, t.shape[1] - 2))
    return np.where(forward, np.sqrt((error**2).mean(axis=(0, 2))), np.inf)


def _off_cubic(t: Float, q: Float, k: Int) -> Float:
    # Positions (..., k) minus a cubic through two neighbours on both sides, at times (..., W).
    predicted = np.zeros((*q.shape[:-1], len(k)))
    for a in (-2, -1, 1, 2):
        weight = np.ones((*t.shape[:-1], len(k)))
        for b in (-2, -1, 1, 2):
            if b != a:
                weight *= (t[..., k] - t[..., k + b]) / (t[..., k + a] - t[..., k + b])
        predicted += weight * q[..., k + a]
    return np.asarray(q[..., k] - predicted)


def _local_line(y: Float, half: int) -> Float:
    k = np.arange(len(y))
    low, high = np.maximum(k - half, 0), np.minimum(k + half + 1, len(y))

    def window(values: Float) -> Float:
        total = np.append(0.0, np.cumsum(values))
        return np.asarray(total[high] - total[low])

    # Relative to an even clock, so that the sums of squares keep their digits.
    slope = y[-1] / max(len(y) - 1, 1)
    rest, x = y - slope * k, k.astype(np.float64)
    count, first, second = window(np.ones_like(x)), window(x), window(x * x)
    mean, mixed = window(rest), window(x * rest)
    spread = count * second - first**2
    tilt = np.where(spread > 0, (count * mixed - first * mean) / np.where(spread > 0, spread, 1.0), 0.0)
    return np.asarray(slope * k + (mean - tilt * first) / count + tilt * k)


def repeated_rows(t: Float, lines: Float, joints: int) -> Bool:
    """Rows that repeat all channels of the row before while the robot moves.

    A single repeated row always counts. Longer runs count where the position then jumps by more than it changed just
    before; otherwise, and beyond LONGEST_HOLD, the robot is at rest.

    `t` (T,) in s: times; `lines` (L, T): channels, the positions first.
    """
    same = np.append(False, (lines[:, 1:] == lines[:, :-1]).all(axis=0))
    edges = np.flatnonzero(np.diff(np.concatenate([[False], same, [False]]).astype(np.int8)))
    q = lines[:joints]
    for a, b in edges.reshape(-1, 2):
        if b - a == 1:
            continue
        before = np.linalg.norm(q[:, a - 1] - q[:, max(a - 2, 0)])
        after = np.linalg.norm(q[:, min(b, q.shape[1] - 1)] - q[:, b - 1])
        if t[b - 1] - t[a] > LONGEST_HOLD or before == 0.0 or not after > HELD_RATIO * before:
            same[a:b] = False
    return same


def frozen_rows(t: Float, lines: Float, joints: int) -> Bool:
    """Rows (T,) of runs of two or more that repeat every channel of the row before while the robot moves.

    After such a run the position jumps by more than HELD_RATIO times its mean step in the surrounding rows, most of
    which have new values. A robot that leaves rest does so in small, growing steps. If a logger is faster than its
    source, the surrounding rows repeat as well (see `repeated_rows`, which has the same arguments).
    """
    frozen = np.zeros(lines.shape[1], dtype=np.bool_)
    same = _repeats(lines)
    for a, b in _runs_of(same):
        # A run that starts with the first row may have begun before it.
        if a > 1 and b < len(t) and t[b - 1] - t[a] <= LONGEST_FROZEN:
            frozen[a:b] = _is_frozen(lines[:joints], same, a, b)
    return frozen


def _is_frozen(q: Float, same: Bool, a: int, b: int) -> bool:
    # Rows a to b - 1 repeat row a - 1. Steps that end other runs of repeated rows are jumps and do not show the usual
    # pace.
    ends = np.r_[max(a - AROUND, 1) : a, b + 1 : min(b + 1 + AROUND, q.shape[1])]
    fresh = ends[~same[ends]]
    usual = fresh[~same[fresh - 1]]
    if 2 * len(fresh) <= len(ends) or not len(usual):
        return False
    pace = float(np.linalg.norm(q[:, usual] - q[:, usual - 1], axis=0).mean())
    return 0.0 < HELD_RATIO * pace < float(np.linalg.norm(q[:, b] - q[:, b - 1]))


def _repeats(lines: Float) -> Bool:
    """Rows (T,) whose channels (L, T) all equal the previous row."""
    same = np.append(False, lines[0, 1:] == lines[0, :-1])
    places = np.flatnonzero(same)
    if len(places):
        same[places] = (lines[:, places] == lines[:, places - 1]).all(axis=0)
    return same


def _runs_of(same: Bool) -> list[tuple[int, int]]:
    """First row of each run of two or more repeated rows, and the row after it."""
    edges = np.flatnonzero(np.diff(same, prepend=False, append=False))
    return [(a, b) for a, b in edges.reshape(-1, 2).tolist() if b - a > 1]


def _without_frozen(rows: Iterable[Rows], joints: int) -> Iterator[Rows]:
    # Rows that may belong to a frozen run wait until the following rows are known; others pass unchanged. The first
    # `sent` buffered rows have been passed on and serve as context.
    t, lines, sent = np.zeros(0), np.zeros((0, 0)), 0
    context = AROUND + 2
    for more, values in rows:
        if sent == len(t) and len(more) > context:
            same = _repeats(values)
            goes_on = same[-1] or (len(t) > 0 and bool((values[:, 0] == lines[:, -1]).all()))
            if not goes_on and not _runs_of(same):
                yield more, values
                t, lines, sent = more[-context:].copy(), values[:, -context:].copy(), context
                continue
        t = np.concatenate([t, more]) if len(t) else more
        lines = np.concatenate([lines, values], axis=1) if lines.size else values
        same = _repeats(lines)
        runs = _runs_of(same)
        ready = len(t)
        for a, b in runs:
            # A run that is already too long is no frozen run, so nothing waits for its end.
            if b + AROUND >= len(t) and t[b - 1] - t[a] <= LONGEST_FROZEN:
                ready = min(ready, a)
        if same[-1] and not same[-2:].all():
            ready = min(ready, len(t) - 1)
        if ready <= sent:
            continue
        passed = slice(sent, ready)
        if not runs:
            yield t[passed], lines[:, passed]
        else:
            fresh = ~frozen_rows(t, lines, joints)[passed]
            yield (
                (t[passed], lines[:, passed])
                if fresh.all()
                else (t[passed][fresh], lines[:, passed][:, fresh])
            )
        kept = max(ready - context, 0)
        t, lines, sent = t[kept:].copy(), lines[:, kept:].copy(), ready - kept
    if len(t) > sent:
        fresh = ~frozen_rows(t, lines, joints)[sent:]
        yield t[sent:][fresh], lines[:, sent:][:, fresh]


def _without_repeated(rows: Iterable[Rows], joints: int) -> Iterator[Rows]:
    # Repeated rows at the end are judged once their run has ended or is too long; the two rows before it show the
    # speed. `resting`: the last row passed on belongs to a long run, which may continue.
    t, lines, sent, resting = np.zeros(0), np.zeros((0, 0)), 0, False
    for more, values in rows:
        t = np.concatenate([t, more])
        lines = np.concatenate([lines, values], axis=1) if lines.size else values
        changed = np.append(0, np.flatnonzero((lines[:, 1:] != lines[:, :-1]).any(axis=0)) + 1)
        last = int(changed[-1])
        stands = resting and last <= sent
        over = stands or t[-1] - t[last] > LONGEST_HOLD
        ready = len(t) if over else last
        if ready <= sent:
            continue
        fresh = ~repeated_rows(t, lines, joints)
        if resting:
            fresh[sent : int(changed[changed >= sent][0]) if (changed >= sent).any() else None] = True
        yield t[sent:ready][fresh[sent:ready]], lines[:, sent:ready][:, fresh[sent:ready]]
        kept = max(ready - 2, 0)
        t, lines, sent, resting = t[kept:], lines[:, kept:], ready - kept, over
    if len(t) > sent:
        yield t[sent:], lines[:, sent:]


def _interpolation_error(stretches: Sequence[Rows]) -> Float:
    # (n,) r.m.s. error of positions interpolated from two neighbours on both sides, without pauses.
    errors = []
    for t, q in stretches:
        k = np.arange(2, len(t) - 2)
        span = t[k + 2] - t[k - 2]
        errors.append(_off_cubic(t, q, k)[:, span < PAUSE_STEPS * 2.0 * np.median(span)])
    return np.asarray(np.sqrt(np.mean(np.concatenate(errors, axis=1) ** 2, axis=1)))


def _ratio(after: Float, before: Float) -> Float:
    # (n,) ratio of the errors; nan for joints without error, which rest at a rounded position.
    return np.asarray(np.divide(after, before, out=np.full(len(before), np.nan), where=before > 0.0))


def _mean_ratio(ratio: Float) -> float:
    # Geometric mean over the joints that move.
    fine = np.isfinite(ratio) & (ratio > 0)
    return float(np.exp(np.mean(np.log(ratio[fine])))) if fine.any() else 1.0


def _without_turns(q: Float) -> Float:
    return np.asarray(np.unwrap(q, axis=1))


# Rows of a log, cleaned while they stream: duplicate and incomplete rows dropped, angles unwrapped, split at gaps.

TURN = 2.0 * np.pi  # rad


@dataclass(frozen=True, eq=False)
class Piece:
    """Clean rows of one segment: channels (L, T) at times t (T,)."""

    segment: int
    t: Float
    lines: Float
    last: bool


def pieces(
    chunks: Iterator[RawChunk],
    prismatic: Sequence[bool],
    longest_step: float,
    first_segment: int,
    time_base: TimeBase | None = None,
) -> Iterator[Piece]:
    """Clean pieces in order; the last piece of every segment is marked.

    `chunks`: rows as read; `prismatic`: which joints are prismatic, so that their positions are not unwrapped;
    `longest_step` in s: a longer step starts a new segment; `time_base`: corrections of repeated rows and time stamps.
    """
    segment, n = first_segment, len(prismatic)
    turning = ~np.array(prismatic)
    end_time = -np.inf
    end_position: Float | None = None
    end_motor: Float | None = None
    turned, turned_motor = np.zeros((2, n))
    pending: Piece | None = None
    motors: list[slice] = []
    rows = clean_rows(chunks, motors)
    for t, logged in rows if time_base is None else time_base.stream(rows, n):
        before, end_position = end_position, logged[:n, -1].copy()
        unwrapped, turned = _unwrapped(logged[:n], before, turned, turning)
        lines = [_with_channels(logged, slice(0, n), unwrapped)]
        if motors:
            before, end_motor = end_motor, logged[motors[0], -1].copy()
            unwrapped, turned_motor = _unwrapped(logged[motors[0]], before, turned_motor, turning)
            lines.append(_with_channels(lines[0], motors[0], unwrapped))
        starts = np.flatnonzero(np.diff(t, prepend=end_time) > longest_step)
        edges = [0, *[int(k) for k in starts if k > 0], len(t)]
        for a, b in pairwise(edges):
            broken = a in starts and np.isfinite(end_time)
            if pending is not None:
                yield replace(pending, last=broken)
            if broken:
                segment += 1
            pending = Piece(segment, t[a:b], lines[-1][:, a:b], last=False)
            end_time = float(t[b - 1])
    if pending is not None:
        yield replace(pending, last=True)


def clean_rows(
    chunks: Iterable[RawChunk], motors: list[slice] | None = None
) -> Iterator[tuple[Float, Float]]:
    """Complete rows at increasing times: times (T,) and channels (L, T), never empty.

    The slice of the motor positions among the channels, if there are any, is appended to `motors`.
    """
    end_time = -np.inf
    for chunk in chunks:
        t, lines = _finite(chunk)
        if not (np.diff(t, prepend=end_time) > 0).all():
            later = t > np.maximum.accumulate(np.concatenate([[end_time], t]))[:-1]
            t, lines = t[later], lines[:, later]
        if len(t) == 0:
            continue
        if chunk.theta is not None and motors is not None and not motors:
            motors.append(_motor_lines(chunk))
        end_time = float(t[-1])
        yield t, lines


def _finite(chunk: RawChunk) -> tuple[Float, Float]:
    parts = [
        chunk.q.T,
        *(x.T for x in (chunk.dq, chunk.tau, chunk.theta, chunk.dtheta, chunk.temperature) if x is not None),
    ]
    parts += [values[None, :] if values.ndim == 1 else values.T for values in chunk.extra.values()]
    lines = _stacked(parts)
    # A sum is finite only if all its terms are, which takes one pass over the values in the usual case.
    with np.errstate(invalid="ignore"):
        complete = np.isfinite(lines.sum()) and np.isfinite(chunk.t.sum())
    if complete:
        return chunk.t, lines
    good = np.isfinite(chunk.t) & np.isfinite(lines).all(axis=0)
    return chunk.t[good], lines[:, good]


def _stacked(parts: Sequence[Float]) -> Float:
    """The parts (L_i, T) as one array (L, T): their common base if they fill it in this order, else a copy."""
    base = parts[0].base
    if not isinstance(base, np.ndarray) or base.nbytes != sum(part.nbytes for part in parts):
        return np.concatenate(parts)
    at = parts[0].__array_interface__["data"][0]
    for part in parts:
        place = part.__array_interface__["data"][0]
        if part.base is not base or place != at or not part.flags.c_contiguous:
            return np.concatenate(parts)
        at += part.nbytes
    return base.reshape(-1, parts[0].shape[1])


def _with_channels(lines: Float, index: slice, values: Float) -> Float:
    # Others may read the same chunk, so a copy is changed.
    if np.shares_memory(lines[index], values):
        return lines
    lines = lines.copy()
    lines[index] = values
    return lines


def _motor_lines(chunk: RawChunk) -> slice:
    first = sum(x.shape[1] for x in (chunk.q, chunk.dq, chunk.tau) if x is not None)
    return slice(first, first + chunk.q.shape[1])


def _unwrapped(q: Float, before: Float | None, turned: Float, turning: Bool) -> tuple[Float, Float]:
    """Unwrap jumps within a quarter turn of a whole turn, which no joint moves in one step.

    Positions q (n, T) in rad follow `before` (n,), from which `turned` (n,) turns were removed; `turning` (n,) selects
    revolute joints. Returns unwrapped positions and the turns removed at their end.
    """
    spread = q.max(axis=1) - q.min(axis=1)
    far = np.abs(q[:, 0] - before) if before is not None else np.zeros(len(q))
    if not ((spread > 0.7 * TURN) | (far > 0.7 * TURN))[turning].any():
        return (q - TURN * turned[:, None] if turned.any() else q), turned
    step = np.diff(q, axis=1, prepend=q[:, :1] if before is None else before[:, None])
    turns = np.where(np.abs(np.abs(step) - TURN) < 0.25 * TURN, np.round(step / TURN), 0.0)
    total = turned[:, None] + np.cumsum(turns, axis=1) * turning[:, None]
    return q - TURN * total, total[:, -1].copy()


# Windows of clean rows, cut from segments as these are read, from which samples are made.

# s: a window of a 7-joint arm at 1 kHz then takes 10 MB, and the fixed cost per window is small.
WINDOW_SECONDS = 60.0
ON_GRID = 0.1  # of a period: tolerance between the start of a segment and its first sample


@dataclass(frozen=True, eq=False)
class Window:
    """Clean rows from which one window of samples is made.

    Attributes
    ----------
    trajectory : str
        Name of the trajectory.
    segment : int
        Number of the segment in the log.
    step : float, s
        Step of the rows.
    origin : float, s
        Time of the first grid sample of the segment.
    t : ndarray, shape (T,), s
        Times of the rows.
    parts : tuple of ndarray, shape (L, T_i)
        Channels of consecutive rows, as views of the rows read.
    low, high : int
        Range of grid samples that are computed.
    start, stop : int
        Range of grid samples that belong to this window alone; the rest overlaps with its neighbours.
    ends : bool
        Whether the segment ends at `high`.

    """

    trajectory: str
    segment: int
    step: float
    origin: float
    t: Float
    parts: tuple[Float, ...]
    low: int
    start: int
    stop: int
    high: int
    ends: bool

    @property
    def lines(self) -> Float:
        """The channels in one array, (L, T)."""
        return np.concatenate(self.parts, axis=1)


class Cutter:
    """Cuts the segments of one trajectory into windows and drops rows that no later window needs.

    Parameters
    ----------
    trajectory : str
        Name of the trajectory.
    step : float, s
        Step of its rows.
    rate : float, Hz
        Rate of the grid.
    overlap : int
        Grid samples that a window needs on each side.
    decimation : int
        Grid samples per sample.
    shortest : float, s
        Shorter segments are left out.
    phase : float, s, optional
        Time of a grid sample that is kept by the decimation; None: that of the first row of each segment.

    """

    def __init__(
        self,
        trajectory: str,
        step: float,
        rate: float,
        overlap: int,
        decimation: int,
        shortest: float,
        phase: float | None = None,
    ) -> None:
        self.phase, self.period = phase, decimation / rate
        self.trajectory, self.step, self.rate, self.overlap = trajectory, step, rate, overlap
        self.shortest = shortest
        self.size = max(int(WINDOW_SECONDS * rate) // decimation, 1) * decimation
        # Grid samples that must be known beyond a window before it is cut: it is then not the last, so that the ends of
        # windows do not depend on how the rows arrived.
        self.ahead = max(self.overlap + 2, self.size // 2)
        self.pending: list[Piece] = []
        self.done, self.origin = 0, 0.0

    def cut(self, piece: Piece) -> Iterator[Window]:
        """Add a piece and yield the windows that are complete."""
        if not self.pending:
            self.done, self.origin = 0, float(piece.t[0])
            if self.phase is not None:
                periods = math.ceil((self.origin - self.phase) / self.period - ON_GRID)
                self.origin = self.phase + periods * self.period
        self.pending.append(piece)
        last = float(piece.t[-1])
        enough = (last - self.origin) * self.rate > self.done + self.size + self.ahead + 2
        if not (enough or piece.last):
            return
        t = np.concatenate([part.t for part in self.pending])
        lines = tuple(part.lines for part in self.pending)
        count = math.floor((float(t[-1]) - self.origin) * self.rate + 1e-6) + 1
        if not (piece.last and self.done == 0 and t[-1] - self.origin < self.shortest):
            yield from self._complete(piece, t, lines, count)
        if piece.last:
            self.pending = []
        else:
            self._forget()

    def _complete(self, piece: Piece, t: Float, lines: tuple[Float, ...], count: int) -> Iterator[Window]:
        while self.done < count:
            stop = min(self.done + self.size, count)
            if piece.last and count - stop < self.size // 2:
                stop = count
            if not piece.last and count - stop < self.ahead:
                return
            low, high = max(self.done - self.overlap, 0), min(stop + self.overlap, count)
            a = max(int(np.searchsorted(t, self.origin + (low - 2) / self.rate)) - 1, 0)
            b = int(np.searchsorted(t, self.origin + (high + 2) / self.rate)) + 1
            yield Window(
                self.trajectory, piece.segment, self.step, self.origin, t[a:b], between(lines, a, b),
                low, self.done, stop, high, piece.last and high == count,
            )  # fmt: skip
            self.done = stop

    def _forget(self) -> None:
        # A window uses up to two rows before its first time.
        needed = self.origin + (self.done - self.overlap - 8) / self.rate
        while len(self.pending) > 1 and np.count_nonzero(self.pending[1].t < needed) > 2:
            del self.pending[0]


def between(parts: tuple[Float, ...], start: int, stop: int) -> tuple[Float, ...]:
    """Columns start..stop of arrays concatenated along time."""
    selected, at = [], 0
    for part in parts:
        a, b = max(start - at, 0), min(stop - at, part.shape[1])
        if b > a:
            selected.append(part[:, a:b])
        at += part.shape[1]
    return tuple(selected) or (parts[0][:, :0],)
