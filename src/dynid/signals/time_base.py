"""The times of a log's rows: messages that were logged twice, and stamps that scatter about a regular clock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass

Rows = tuple[Float, Float]
# A time base is changed where positions then follow from their neighbours this much better.
BETTER = 0.9
SHARE_HELD = 0.01  # of the rows: fewer repeated ones do no harm
SCATTER = 0.02  # of a step: less does not matter to the grid either
CLOCK_SECONDS = 0.25  # to each side: a clock's rate is steady for longer, its scatter averages out over less
PAUSE_STEPS = 4.0  # median steps after which a clock may have lost count
HELD_RATIO = (
    1.5  # change of position after a hold over that before it: above, the robot moved while rows were held
)
LONGEST_HOLD = 0.25  # s
LEAST_ROWS = 64


@dataclass(frozen=True)
class TimeBase:
    """What is done to the rows of a log before they are resampled.

    drop_held: whether rows that repeat all channels of the one before, while the robot moves, are dropped.
    smoothing: rows to each side over which time stamps are replaced by a straight line; 0 = stamps as logged.
    step: s, median step of the rows that stay.    reason: in words, "" = nothing is done.
    """

    drop_held: bool = False
    smoothing: int = 0
    step: float = 0.0
    reason: str = ""

    def stream(self, rows: Iterable[Rows], joints: int) -> Iterator[Rows]:
        """Passes rows on, (times (T,), lines (L, T) with the positions first), however they arrive."""
        if self.drop_held:
            rows = _without_held(rows, joints)
        return self._regular(rows) if self.smoothing else iter(rows)

    def _regular(self, rows: Iterable[Rows]) -> Iterator[Rows]:
        # Holds back what a later row may still change; keeps what is needed to smooth the first one that is held.
        h, pause = self.smoothing, PAUSE_STEPS * self.step
        t, lines, done = np.zeros(0), np.zeros((0, 0)), 0
        for more, values in rows:
            t = np.concatenate([t, more])
            lines = np.concatenate([lines, values], axis=1) if lines.size else values
            ready = len(t) - h - 1
            if ready <= done:
                continue
            smooth = regular_times(t, h, pause)
            yield smooth[done:ready], lines[:, done:ready]
            kept = max(ready - h, 0)
            t, lines, done = t[kept:], lines[:, kept:], ready - kept
        if len(t) > done:
            yield regular_times(t, h, pause)[done:], lines[:, done:]


def find_time_base(stretches: Sequence[Rows], joints: int) -> TimeBase:
    """Finds out whether rows were held and whether stamps scatter about a regular clock, from stretches of a log.

    Each position is predicted from two neighbours on both sides by a cubic over time. The time base under which this
    misses least is taken: all rows at their stamps, rows without repeated messages, and these at evenly spaced times
    (a straight line through the stamps within 0.25 s, anew after each pause). Each must beat the one before it by a
    tenth. Stamps that are uneven because rows really were sampled so lose nothing: even times then miss more.
    """
    whole = [(t, x) for t, x in stretches if len(t) >= LEAST_ROWS]
    if not whole:
        return TimeBase()
    logged = [(t, _without_turns(x[:joints])) for t, x in whole]
    step = float(np.median(np.concatenate([np.diff(t) for t, _ in logged])))
    held = [held_rows(t, x, joints) for t, x in whole]
    share = float(np.concatenate(held).mean())
    miss, base = _missed(logged), TimeBase(step=step)
    reasons = []
    if share > SHARE_HELD:
        fresh = [(t[~h], q[:, ~h]) for (t, q), h in zip(logged, held, strict=True)]
        better = _relative(_missed(fresh), miss)
        if _gain(better) < BETTER:
            logged, miss = fresh, _missed(fresh)
            step = float(np.median(np.concatenate([np.diff(t) for t, _ in logged])))
            base = TimeBase(drop_held=True, step=step)
            reasons.append(
                f"{100 * share:.2g} % of the rows repeat the message before them while the robot moves and are dropped"
            )
    rows_each_side = max(int(CLOCK_SECONDS / step), 2)
    even = [(regular_times(t, rows_each_side, PAUSE_STEPS * step), q) for t, q in logged]
    moved = np.concatenate([a - b for (a, _), (b, _) in zip(even, logged, strict=True)])
    scatter = float(np.sqrt(np.mean(moved**2)))
    if scatter > SCATTER * step and all((np.diff(t) > 0).all() for t, _ in even):
        better = _relative(_missed(even), miss)
        if _gain(better) < BETTER:
            base = TimeBase(base.drop_held, rows_each_side, step)
            reasons.append(
                f"time stamps scatter by {1e3 * scatter:.2g} ms about a regular clock, whose times fit the positions "
                f"{1 / _gain(better):.2g} times better and are used"
            )
    return TimeBase(base.drop_held, base.smoothing, base.step, "; ".join(reasons))


def regular_times(t: Float, half: int, pause: float) -> Float:
    """Times on a straight line through the stamps of up to `half` rows on each side, fitted anew after each pause.

    t: (T,) increasing, s.    pause: steps longer than this start a new line, s.
    """
    smooth = t.copy()
    starts = np.flatnonzero(np.diff(t) > pause) + 1
    for a, b in zip(np.append(0, starts), np.append(starts, len(t)), strict=True):
        if b - a >= 8:
            smooth[a:b] = t[a] + _local_line(t[a:b] - t[a], half)
    return smooth


def _local_line(y: Float, half: int) -> Float:
    k = np.arange(len(y))
    low, high = np.maximum(k - half, 0), np.minimum(k + half + 1, len(y))

    def window(values: Float) -> Float:
        total = np.append(0.0, np.cumsum(values))
        return np.asarray(total[high] - total[low])

    # About the first guess of an even clock, so that sums stay small.
    slope = y[-1] / max(len(y) - 1, 1)
    rest, x = y - slope * k, k.astype(np.float64)
    count, first, second = window(np.ones_like(x)), window(x), window(x * x)
    mean, mixed = window(rest), window(x * rest)
    spread = count * second - first**2
    tilt = np.where(spread > 0, (count * mixed - first * mean) / np.where(spread > 0, spread, 1.0), 0.0)
    return np.asarray(slope * k + (mean - tilt * first) / count + tilt * k)


def held_rows(t: Float, lines: Float, joints: int) -> Bool:
    """Which rows (T,) repeat all channels (L, T) of the one before while the robot moves.

    Rows of a single repetition count always. Longer holds count where the position then jumps by more than it changed
    just before; otherwise, and over a quarter of a second, the robot stands still.
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


def _without_held(rows: Iterable[Rows], joints: int) -> Iterator[Rows]:
    # A hold at the end is judged when its end is known, or when it is too long; two rows before it say how fast the
    # robot moved. resting: the last row passed on was one of a long hold, which may go on.
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
        fresh = ~held_rows(t, lines, joints)
        if resting:
            fresh[sent : int(changed[changed >= sent][0]) if (changed >= sent).any() else None] = True
        yield t[sent:ready][fresh[sent:ready]], lines[:, sent:ready][:, fresh[sent:ready]]
        kept = max(ready - 2, 0)
        t, lines, sent, resting = t[kept:], lines[:, kept:], ready - kept, over
    if len(t) > sent:
        yield t[sent:], lines[:, sent:]


def _missed(stretches: Sequence[Rows]) -> Float:
    # (n,) root mean square error of positions predicted from two neighbours on both sides, pauses left out.
    errors = []
    for t, q in stretches:
        k = np.arange(2, len(t) - 2)
        predicted = np.zeros((len(q), len(k)))
        for a in (-2, -1, 1, 2):
            weight = np.ones(len(k))
            for b in (-2, -1, 1, 2):
                if b != a:
                    weight *= (t[k] - t[k + b]) / (t[k + a] - t[k + b])
            predicted += weight * q[:, k + a]
        span = t[k + 2] - t[k - 2]
        errors.append((q[:, k] - predicted)[:, span < PAUSE_STEPS * 2.0 * np.median(span)])
    return np.asarray(np.sqrt(np.mean(np.concatenate(errors, axis=1) ** 2, axis=1)))


def _relative(after: Float, before: Float) -> Float:
    # (n,) nan of joints that were missed by nothing: they stand at a position without digits.
    return np.asarray(np.divide(after, before, out=np.full(len(before), np.nan), where=before > 0.0))


def _gain(ratio: Float) -> float:
    # Geometric mean over the joints that move.
    fine = np.isfinite(ratio) & (ratio > 0)
    return float(np.exp(np.mean(np.log(ratio[fine])))) if fine.any() else 1.0


def _without_turns(q: Float) -> Float:
    return np.asarray(np.unwrap(q, axis=1))
