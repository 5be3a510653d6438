"""Motion that is gone through more than once: within a trajectory, or by several of them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.log.joints import STILL
from dynid.signals.samples import Samples

# Samples of a trajectory that are looked at, DENSE a second at most: 200 s or more; FINE of them for a first look.
EVIDENCE, DENSE, FINE = 20_000, 100.0, 25.0
# Standard deviations of a joint's position within which it has returned, and the share of the samples in motion at
# which all joints have: a start from rest and an end at rest may stand around the repeated part.
RETURNED, MOST = 0.1, 0.5
# Of the mean square difference of positions without relation: motion has to leave where it was before it returns.
LEFT = 0.3
# Of the samples, with a later one to compare with: a motion that was not gone through again for a third. And of the
# shorter of two trajectories, that the other has as well.
OVERLAP, SHARED = 0.25, 0.5
# Of a joint's root mean square speed, from which on it moves; and shifts that are looked at closely.
MOVING, CLOSE = 0.1, 12
LEAST = 100  # samples
COMPARED = 5_000  # samples in a comparison of two places of the log: a median of more says no more
MOST_MOTIONS = 32  # that a trajectory is compared with: of more, each is its own
# Numbers of parts that each motion has for itself: more than any has.
PARTS_OF_A_MOTION = 1_000_000
NEAR = 1e-6  # of a part, by which sums of times are off


@dataclass(frozen=True, eq=False)
class Repetition:
    """A trajectory whose motion is gone through more than once, by itself or by others.

    motion: number of the motion, the same for all trajectories that go through it.    first: name of the first of them.
    origin: s of the motion's clock at which the motion is where it was at that of the first.
    period: s of motion after which it repeats within a trajectory, inf = each goes through it once.
    seconds: of the motion: its period, or how long the first trajectory lasts.
    pauses: (K, 2) first and last time, s of the trajectory's clock, of the stands through which the motion's clock
    stands as well, since they last otherwise in each repetition; None = none.
    """

    motion: int
    first: str
    origin: float
    period: float
    seconds: float
    pauses: Float | None = None

    def moving(self, t: Float) -> Float:
        """Time of the motion's clock (N,) at times of the trajectory's."""
        if self.pauses is None:
            return t
        return np.asarray(t - np.interp(t, self.pauses.ravel(), np.repeat(self._stood, 2)[1:-1]))

    def time(self, moving: Float) -> Float:
        """First time of the trajectory's clock (N,) at times of the motion's."""
        if self.pauses is None:
            return moving
        begun = self.pauses[:, 0] - self._stood[:-1]
        return np.asarray(moving + self._stood[np.searchsorted(begun, moving, side="left")])

    def between(self, start: float, end: float) -> float:
        """Seconds of the motion's clock between two times of the trajectory's."""
        first, last = self.moving(np.array([start, end]))
        return float(last - first)

    @cached_property
    def _stood(self) -> Float:
        """(K + 1,) seconds of all pauses before each, and of all."""
        pauses = np.zeros((0, 2)) if self.pauses is None else self.pauses
        return np.append(0.0, np.cumsum(pauses[:, 1] - pauses[:, 0]))

    def phase(self, t: Float) -> Float:
        """Seconds (N,) since the motion began, at times of the trajectory's clock."""
        since = np.asarray(self.moving(t) - self.origin)
        return since % self.period if np.isfinite(self.period) else np.maximum(since, 0.0)

    def parts(self, seconds: float) -> int:
        """How many parts of about some seconds a repetition has."""
        return max(round(self.period / seconds), 1)

    def part(self, t: float, seconds: float) -> int:
        """Number of the part of some seconds that begins nearest to a time; another one for every motion."""
        # Where times lie in the middle between two parts their last digits do not decide.
        number = int(float(self.phase(np.asarray(t))) / seconds + 0.5 + NEAR)
        if np.isfinite(self.period):
            number %= self.parts(seconds)
        return self.motion * PARTS_OF_A_MOTION + number


def repetitions(batches: Iterable[Samples], trajectories: Collection[str]) -> dict[str, Repetition]:
    """Trajectories whose motion is gone through more than once, by name.

    Pauses may last otherwise in each repetition: where the motion does not return after one time, stands are left out.
    trajectories: those that are asked for: batches are read until enough is known of them, and to their end where
    stands are left out.
    """
    tracks = _tracks(batches, trajectories)
    found = _grouped(tracks)
    standing = {name: track for name, track in tracks.items() if name not in found and track.stands}
    again = _grouped({name: track.in_motion() for name, track in standing.items()}, _motions(found))
    if not again:
        return found
    pauses = _pauses(batches, {name: standing[name] for name in again})
    return found | {
        name: replace(one, pauses=pauses[name] if len(pauses[name]) else None) for name, one in again.items()
    }


def _tracks(batches: Iterable[Samples], trajectories: Collection[str]) -> dict[str, _Track]:
    parts: dict[str, list[Samples]] = {}
    left = set(trajectories)
    for samples in batches:
        if samples.trajectory not in left or not len(samples):
            continue
        seen = parts.setdefault(samples.trajectory, [])
        # Of one segment alone: the clock runs on without a gap there.
        if not seen or seen[0].segment == samples.segment:
            seen.append(samples)
        if seen[-1] is not samples or sum(map(len, seen)) >= EVIDENCE * _step(samples.rate):
            left.remove(samples.trajectory)
            if not left:
                break
    tracks = {}
    for name, own in parts.items():
        t, q, dq = (np.concatenate([getattr(one, key) for one in own]) for key in ("t", "q", "dq"))
        track = _Track.of(t, q, dq, own[0].rate)
        if track is not None:
            tracks[name] = track
    return tracks


def _step(rate: float) -> int:
    """Every how many samples are looked at."""
    return max(int(rate / DENSE), 1)


def _pauses(batches: Iterable[Samples], tracks: Mapping[str, _Track]) -> dict[str, Float]:
    """Stands (K, 2) of trajectories, first and last time, by name."""
    found: dict[str, list[Float]] = {name: [np.zeros((0, 2))] for name in tracks}
    # The last sample in motion and the last of all: a stand may go on.
    ends: dict[str, tuple[Float, Bool]] = {}
    for samples in batches:
        name = samples.trajectory
        if name not in tracks:
            continue
        t, moves = samples.t, tracks[name].moves_at(samples.dq)
        if name in ends:
            new = t > ends[name][0][-1]
            t, moves = np.append(ends[name][0], t[new]), np.append(ends[name][1], moves[new])
        found[name].append(_stands(t, moves) - np.array([0.0, 1.0 / samples.rate]))
        last = np.unique([np.flatnonzero(moves)[-1] if moves.any() else 0, len(t) - 1])
        ends[name] = t[last], moves[last]
    return {name: np.concatenate(own) for name, own in found.items()}


def _stands(t: Float | Int, moves: Bool) -> Float:
    """The samples in motion (K, 2) before and after each stand.    t: (N,) time or place of samples.    moves: (N,)."""
    moving = np.flatnonzero(moves)
    # Of rows that are missing in motion none stands.
    before = np.flatnonzero(np.diff(moving) > 1)
    return np.stack([t[moving[before]], t[moving[before + 1]]], axis=1).astype(np.float64)


def same_motion(known: Mapping[str, Motion], other: Mapping[str, Motion]) -> dict[str, str]:
    """Trajectories whose motion is that of a known one, and that one, by name."""
    rate = min((one.rate for one in (*known.values(), *other.values())), default=1.0)
    tracks, tried = (
        {name: track for name, one in motions.items() if (track := _Track.of(one.t, one.q, one.dq, rate))}
        for motions in (known, other)
    )
    found: dict[str, str] = {}
    for name, track in tried.items():
        firsts = list(tracks)[:MOST_MOTIONS]
        seen = [first for first in firsts if _shift(tracks[first], track) is not None]
        if not seen and track.stands:
            seen = [one for one in firsts if _shift(tracks[one].in_motion(), track.in_motion()) is not None]
        if seen:
            found[name] = seen[0]
    return found


@dataclass(frozen=True, eq=False)
class Motion:
    """t (T,) s, q and dq (T, n), and how many samples there are a second."""

    t: Float
    q: Float
    dq: Float
    rate: float


def _motions(found: Mapping[str, Repetition]) -> int:
    return len({one.motion for one in found.values()})


def _grouped(tracks: Mapping[str, _Track], others: int = 0) -> dict[str, Repetition]:
    """Trajectories that repeat, by name.    others: motions that are numbered before these."""
    motions: list[tuple[str, list[tuple[str, float]]]] = []
    for name, track in tracks.items():
        for first, members in motions[:MOST_MOTIONS]:
            shift = _shift(tracks[first], track)
            if shift is not None:
                rate = track.rate
                members.append((name, track.start - tracks[first].start - shift / rate))
                break
        else:
            motions.append((name, [(name, 0.0)]))
    found: dict[str, Repetition] = {}
    for first, members in motions:
        own = (_period(tracks[name]) for name, _ in members)
        period = next((one for one in own if one is not None), np.inf)
        if len(members) == 1 and not np.isfinite(period):
            continue
        start = 0.0 if np.isfinite(period) else tracks[first].start
        seconds = period if np.isfinite(period) else len(tracks[first].q) / tracks[first].rate
        number = others + _motions(found)
        for name, later in members:
            found[name] = Repetition(number, first, start + later, period, seconds)
    return found


@dataclass(frozen=True, eq=False)
class _Track:
    """Positions (N, n) on a grid from `start` s on, whether each is known and in motion, (N,), and what scales them.

    mean, size: (n,) of positions; joints of size zero do not move.    slow: (n,) speeds below which each stands.
    """

    q: Float
    known: Bool
    moves: Bool
    mean: Float
    size: Float
    slow: Float
    start: float
    rate: float

    @staticmethod
    def of(t: Float, q: Float, dq: Float, rate: float) -> _Track | None:
        """None of too few samples, or where nothing moves."""
        step = _step(rate)
        place = np.round((t - t[0]) * rate).astype(np.int64)
        own = (place >= 0) & (place % step == 0)
        place = place[own] // step
        N = int(place.max(initial=0)) + 1
        if N < LEAST:
            return None
        on, speeds, known = np.zeros((N, q.shape[1])), np.zeros((N, q.shape[1])), np.zeros(N, dtype=np.bool_)
        on[place], speeds[place], known[place] = q[own], dq[own], True
        size, speed = on[known].std(axis=0), np.sqrt(np.mean(speeds[known] ** 2, axis=0))
        moved = size > STILL
        if not moved.any():
            return None
        slow = np.where(moved, MOVING * speed, np.inf)
        moves = known & (np.abs(speeds) > slow).any(axis=1)
        mean, size = on[known].mean(axis=0), np.where(moved, size, 0.0)
        return _Track(on, known, moves, mean, size, slow, float(t[0]), rate / step)

    def moves_at(self, dq: Float) -> Bool:
        """Whether it moves at velocities (N, n)."""
        return np.asarray((np.abs(dq) > self.slow).any(axis=1))

    @cached_property
    def stood(self) -> Bool:
        """Samples (N,) of stands between two samples in motion."""
        found, place = np.zeros(len(self.q), dtype=np.bool_), np.flatnonzero(self.known)
        for first, last in _stands(place, self.moves[place]).astype(np.int64).tolist():
            found[first + 1 : last] = True
        return found

    @property
    def stands(self) -> bool:
        """Whether it stands at all."""
        return bool(self.stood.any())

    def in_motion(self) -> _Track:
        """Without the stands, on the motion's clock."""
        own = ~self.stood
        return replace(self, q=self.q[own], known=self.known[own], moves=self.moves[own])

    @cached_property
    def x(self) -> Float:
        """Positions of the joints that move, in standard deviations; zero where unknown."""
        moved = self.size > 0
        return np.where(self.known[:, None], (self.q - self.mean)[:, moved] / self.size[moved], 0.0)

    def scaled_as(self, other: _Track) -> _Track:
        """By the mean and size of another's positions."""
        return replace(self, mean=other.mean, size=other.size)

    def thinned(self, step: int) -> _Track:
        """Every so many samples."""
        return replace(
            self,
            q=self.q[::step],
            known=self.known[::step],
            moves=self.moves[::step],
            rate=self.rate / step,
        )


def _apart(later: _Track, track: _Track) -> tuple[Float, Float]:
    """Mean square difference of positions, 1 = without relation, and pairs of known ones, by shift modulo their number.

    Entry s compares sample i + s of the first with sample i of the second.
    """
    size = 2 ** int(np.ceil(np.log2(len(later.q) + len(track.q))))

    def lagged(x: Float, y: Float) -> Float:
        product = np.fft.rfft(x, size, axis=0) * np.conj(np.fft.rfft(y, size, axis=0))
        return np.asarray(np.fft.irfft(product if product.ndim == 1 else product.sum(axis=1), size))

    known, other = later.known.astype(np.float64), track.known.astype(np.float64)
    pairs = lagged(known, other)
    total = lagged(np.sum(later.x**2, axis=1), other) + lagged(known, np.sum(track.x**2, axis=1))
    total -= 2.0 * lagged(later.x, track.x)
    return total / np.maximum(pairs, 1.0) / (2.0 * track.x.shape[1]), pairs


def _differences(later: _Track, track: _Track, shift: int) -> Float:
    """The greatest difference of a joint's positions so many samples apart, at samples in motion."""
    first, last = max(0, -shift), min(len(track.q), len(later.q) - shift)
    if last <= first:
        return np.zeros(0)
    step = max((last - first) // COMPARED, 1)
    here, there = slice(first, last, step), slice(first + shift, last + shift, step)
    asked = track.moves[here] & later.known[there]
    away: Float = np.abs(later.x[there][asked] - track.x[here][asked]).max(axis=1, initial=0.0)
    return away


def _returns(later: _Track, track: _Track, shift: int) -> bool:
    away = _differences(later, track, shift)
    return len(away) > 0 and float(np.mean(away < RETURNED)) > MOST


def _nearest(later: _Track, track: _Track, shift: int) -> int | None:
    """The shift close by at which positions differ least; None = there is none within reach."""
    tried = np.arange(shift - CLOSE, shift + CLOSE + 1)
    missed = [
        float(np.median(one)) if len(one := _differences(later, track, k)) else np.inf for k in tried.tolist()
    ]
    best = int(np.argmin(missed))
    return int(tried[best]) if 0 < best < len(tried) - 1 else None


def _shift(first: _Track, track: _Track) -> int | None:
    """Samples by which the same motion is later in the first than in a trajectory; None = it is another."""
    if first.rate != track.rate or first.q.shape[1] != track.q.shape[1]:
        return None
    track = track.scaled_as(first)
    step = max(int(first.rate / FINE), 1)
    coarse, other = first.thinned(step), track.thinned(step)
    apart, pairs = _apart(coarse, other)
    enough = pairs >= SHARED * min(np.count_nonzero(coarse.known), np.count_nonzero(other.known))
    if not enough.any():
        return None
    best = int(np.argmin(np.where(enough, apart, np.inf)))
    best = best - len(apart) if best >= len(coarse.q) else best
    if not _returns(coarse, other, best):
        return None
    near = _nearest(first, track, step * best)
    return step * best if near is None else near


def _period(track: _Track) -> float | None:
    step = max(int(track.rate / FINE), 1)
    coarse = track.thinned(step)
    apart, pairs = (one[: len(coarse.q)] for one in _apart(coarse, coarse))
    left = np.flatnonzero(apart > LEFT)
    if not len(left):
        return None
    for shift in range(int(left[0]) + 1, len(apart) - 1):
        if pairs[shift] < OVERLAP * len(coarse.q):
            return None
        lowest = apart[shift] <= min(apart[shift - 1], apart[shift + 1])
        if lowest and _returns(coarse, coarse, shift):
            return _refined(track, step * shift) / track.rate
    return None


def _refined(track: _Track, shift: int) -> float:
    """The shift at which positions differ least, between samples, by as many repetitions as there are."""
    found, N = float(shift), len(track.q)
    times = 1
    while times * found < (1.0 - OVERLAP) * N:
        near = round(times * found)
        best = _nearest(track, track, near) if CLOSE < near < N - CLOSE else None
        if best is None:
            break
        found, times = float(best) / times, 2 * times
    times //= 2
    return found - _between(track, round(times * found)) / times if times else found


def _between(track: _Track, shift: int) -> float:
    """By how much of a sample less than a shift the motion returns, to first order.

    Later positions are x + a dx/dt of those before: least squares of the differences on the speeds.
    """
    x, speed = track.x, np.gradient(track.x, axis=0)
    sound = track.known & np.append(track.known[1:], False) & np.append(False, track.known[:-1])
    away = x[shift:] - x[:-shift]
    asked = sound[:-shift] & track.moves[:-shift] & track.known[shift:]
    asked &= np.abs(away).max(axis=1) < RETURNED
    away, speed = away[asked], speed[:-shift][asked]
    part = float(np.sum(away * speed) / max(np.sum(speed**2), np.finfo(np.float64).tiny))
    return float(np.clip(part, -1.0, 1.0))
