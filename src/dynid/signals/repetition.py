"""Motion that repeats: within a trajectory, or in several trajectories."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.log.joints import STILL
from dynid.signals.samples import Samples

# Samples of a trajectory that are examined, at most DENSE per second (Hz), so that they span 200 s or more. A first
# search takes FINE per second.
EVIDENCE, DENSE, FINE = 20_000, 100.0, 25.0
# A joint has returned within RETURNED standard deviations of its position. A motion repeats if all joints have returned
# at a share MOST of its moving samples, since a start and an end may surround the repeated part.
RETURNED, MOST = 0.1, 0.5
# Share of the mean square difference of unrelated positions that a motion must exceed before it can return.
LEFT = 0.3
# Share of the samples that must have a later one to compare with, so that a motion repeats for at least a third; and
# share of the shorter of two trajectories that the other must contain.
OVERLAP, SHARED = 0.25, 0.5
# Share of a joint's r.m.s. speed above which the joint moves, and shifts (samples) on either side in the fine search.
MOVING, CLOSE = 0.1, 12
LEAST = 100  # samples: fewer show no repetition
COMPARED = 5_000  # samples per comparison: the median of more is hardly more precise
MOST_MOTIONS = 32  # different motions that a trajectory is compared with, which bounds the time
# Range of part numbers of each motion, more than any motion has parts.
PARTS_OF_A_MOTION = 1_000_000
NEAR = 1e-6  # of a part: rounding error of summed times


@dataclass(frozen=True, eq=False)
class Repetition:
    """A trajectory whose motion repeats, within itself or in other trajectories.

    The clock of the motion is that of the trajectory, stopped during pauses whose duration varies between repetitions.

    Attributes
    ----------
    motion : int
        Number of the motion, the same for all trajectories that contain it.
    first : str
        Name of the first of these trajectories.
    origin : float, s
        Time of the motion's clock that corresponds to the origin of the first trajectory.
    period : float, s
        Period of the motion within a trajectory; inf if each trajectory contains it once.
    seconds : float, s
        Duration of the motion: its period, or the duration of the first trajectory.
    pauses : ndarray, shape (K, 2), optional, s
        First and last time of each pause during which the motion's clock is stopped.

    """

    motion: int
    first: str
    origin: float
    period: float
    seconds: float
    pauses: Float | None = None

    def moving(self, t: Float) -> Float:
        """Times (N,) of the motion's clock at times of the trajectory's clock, s."""
        if self.pauses is None:
            return t
        return np.asarray(t - np.interp(t, self.pauses.ravel(), np.repeat(self._paused_seconds, 2)[1:-1]))

    def time(self, moving: Float) -> Float:
        """First times (N,) of the trajectory's clock at times of the motion's clock, s."""
        if self.pauses is None:
            return moving
        begun = self.pauses[:, 0] - self._paused_seconds[:-1]
        return np.asarray(moving + self._paused_seconds[np.searchsorted(begun, moving, side="left")])

    def between(self, start: float, end: float) -> float:
        """Seconds of the motion's clock between two times of the trajectory's clock."""
        first, last = self.moving(np.array([start, end]))
        return float(last - first)

    @cached_property
    def _paused_seconds(self) -> Float:
        """(K + 1,) cumulated seconds of the pauses before each pause, and of all."""
        pauses = np.zeros((0, 2)) if self.pauses is None else self.pauses
        return np.append(0.0, np.cumsum(pauses[:, 1] - pauses[:, 0]))

    def phase(self, t: Float) -> Float:
        """Seconds (N,) since the start of the motion, at times of the trajectory's clock."""
        since = np.asarray(self.moving(t) - self.origin)
        return since % self.period if np.isfinite(self.period) else np.maximum(since, 0.0)

    def parts(self, seconds: float) -> int:
        """Number of parts of about `seconds` in a repetition."""
        return max(round(self.period / seconds), 1)

    def part(self, t: float, seconds: float) -> int:
        """Number of the part (of `seconds` each) that begins nearest to a time, unique among all motions."""
        # NEAR keeps rounding from deciding for a time midway between two parts.
        number = int(float(self.phase(np.asarray(t))) / seconds + 0.5 + NEAR)
        if np.isfinite(self.period):
            number %= self.parts(seconds)
        return self.motion * PARTS_OF_A_MOTION + number


def repetitions(batches: Iterable[Samples], trajectories: Collection[str]) -> dict[str, Repetition]:
    """Find trajectories whose motion repeats.

    Pauses may differ in duration between repetitions: if the motion does not return after a fixed time, it is compared
    without its pauses.

    Parameters
    ----------
    batches : iterable of Samples
        Samples of the log, read to the end only if motions are compared without pauses.
    trajectories : collection of str
        Names of the trajectories of interest.

    """
    tracks = _tracks(batches, trajectories)
    repeating = _grouped(tracks)
    standing = {name: track for name, track in tracks.items() if name not in repeating and track.has_pauses}
    again = _grouped({name: track.in_motion() for name, track in standing.items()}, _motions(repeating))
    if not again:
        return repeating
    pauses = _pauses(batches, {name: standing[name] for name in again})
    return repeating | {
        name: replace(repetition, pauses=pauses[name] if len(pauses[name]) else None)
        for name, repetition in again.items()
    }


def _tracks(batches: Iterable[Samples], trajectories: Collection[str]) -> dict[str, _Track]:
    parts: dict[str, list[Samples]] = {}
    remaining = set(trajectories)
    for samples in batches:
        if samples.trajectory not in remaining or not len(samples):
            continue
        seen = parts.setdefault(samples.trajectory, [])
        # One segment alone, since its clock has no gap.
        if not seen or seen[0].segment == samples.segment:
            seen.append(samples)
        if seen[-1] is not samples or sum(map(len, seen)) >= EVIDENCE * _step(samples.rate):
            remaining.remove(samples.trajectory)
            if not remaining:
                break
    tracks = {}
    for name, segment in parts.items():
        t, q, dq = (np.concatenate([getattr(batch, key) for batch in segment]) for key in ("t", "q", "dq"))
        track = _Track.of(t, q, dq, segment[0].rate)
        if track is not None:
            tracks[name] = track
    return tracks


def _step(rate: float) -> int:
    """Samples per examined sample."""
    return max(int(rate / DENSE), 1)


def _pauses(batches: Iterable[Samples], tracks: Mapping[str, _Track]) -> dict[str, Float]:
    """First and last times (K, 2) of the pauses of trajectories, by name."""
    pauses: dict[str, list[Float]] = {name: [np.zeros((0, 2))] for name in tracks}
    # The last moving sample and the last of all samples, since a pause may continue in the next batch.
    ends: dict[str, tuple[Float, Bool]] = {}
    for samples in batches:
        name = samples.trajectory
        if name not in tracks:
            continue
        t, moves = samples.t, tracks[name].moves_at(samples.dq)
        if name in ends:
            new = t > ends[name][0][-1]
            t, moves = np.append(ends[name][0], t[new]), np.append(ends[name][1], moves[new])
        pauses[name].append(_pause_ends(t, moves) - np.array([0.0, 1.0 / samples.rate]))
        last = np.unique([np.flatnonzero(moves)[-1] if moves.any() else 0, len(t) - 1])
        ends[name] = t[last], moves[last]
    return {name: np.concatenate(stands) for name, stands in pauses.items()}


def _pause_ends(t: Float | Int, moves: Bool) -> Float:
    """Times or rows (K, 2) of the last moving sample before and the first after each pause; t: of all samples."""
    moving = np.flatnonzero(moves)
    # Rows that are missing during motion are no pause.
    before = np.flatnonzero(np.diff(moving) > 1)
    return np.stack([t[moving[before]], t[moving[before + 1]]], axis=1).astype(np.float64)


def same_motion(known: Mapping[str, Motion], other: Mapping[str, Motion]) -> dict[str, str]:
    """Match trajectories with known ones of the same motion: names of known trajectories by name of the others."""
    rate = min((motion.rate for motion in (*known.values(), *other.values())), default=1.0)
    tracks, tried = (
        {
            name: track
            for name, motion in motions.items()
            if (track := _Track.of(motion.t, motion.q, motion.dq, rate))
        }
        for motions in (known, other)
    )
    matches: dict[str, str] = {}
    for name, track in tried.items():
        firsts = list(tracks)[:MOST_MOTIONS]
        seen = [first for first in firsts if _shift(tracks[first], track) is not None]
        if not seen and track.has_pauses:
            seen = [
                first for first in firsts if _shift(tracks[first].in_motion(), track.in_motion()) is not None
            ]
        if seen:
            matches[name] = seen[0]
    return matches


@dataclass(frozen=True, eq=False)
class Motion:
    """Times t (T,) in s, positions and velocities q, dq (T, n), and the rate in Hz."""

    t: Float
    q: Float
    dq: Float
    rate: float


def _motions(repeating: Mapping[str, Repetition]) -> int:
    return len({repetition.motion for repetition in repeating.values()})


def _grouped(tracks: Mapping[str, _Track], others: int = 0) -> dict[str, Repetition]:
    """Repeating trajectories by name; motions are numbered from `others` on."""
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
    repeating: dict[str, Repetition] = {}
    for first, members in motions:
        periods = (_period(tracks[name]) for name, _ in members)
        period = next((candidate for candidate in periods if candidate is not None), np.inf)
        if len(members) == 1 and not np.isfinite(period):
            continue
        start = 0.0 if np.isfinite(period) else tracks[first].start
        seconds = period if np.isfinite(period) else len(tracks[first].q) / tracks[first].rate
        number = others + _motions(repeating)
        for name, later in members:
            repeating[name] = Repetition(number, first, start + later, period, seconds)
    return repeating


@dataclass(frozen=True, eq=False)
class _Track:
    """Positions of a trajectory on a uniform grid, and their scale.

    `q` (N, n) in rad or m: positions; `known`, `moves` (N,): whether a position is known, and whether the robot moves
    there; `mean`, `size` (n,) in rad or m: mean and standard deviation of the positions; 0 for joints that do not move;
    `slow` (n,) in rad/s or m/s: speeds below which a joint rests; `start` in s: time of the first position; `rate` in
    Hz: rate of the grid.
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
        """The track of a motion; None for too few samples, or if nothing moves."""
        step = _step(rate)
        place = np.round((t - t[0]) * rate).astype(np.int64)
        used = (place >= 0) & (place % step == 0)
        place = place[used] // step
        N = int(place.max(initial=0)) + 1
        if N < LEAST:
            return None
        on, speeds, known = np.zeros((N, q.shape[1])), np.zeros((N, q.shape[1])), np.zeros(N, dtype=np.bool_)
        on[place], speeds[place], known[place] = q[used], dq[used], True
        size, speed = on[known].std(axis=0), np.sqrt(np.mean(speeds[known] ** 2, axis=0))
        moved = size > STILL
        if not moved.any():
            return None
        slow = np.where(moved, MOVING * speed, np.inf)
        moves = known & (np.abs(speeds) > slow).any(axis=1)
        mean, size = on[known].mean(axis=0), np.where(moved, size, 0.0)
        return _Track(on, known, moves, mean, size, slow, float(t[0]), rate / step)

    def moves_at(self, dq: Float) -> Bool:
        """Whether the robot moves (N,) at velocities (N, n)."""
        return np.asarray((np.abs(dq) > self.slow).any(axis=1))

    @cached_property
    def in_pause(self) -> Bool:
        """Samples (N,) of pauses between two moving samples."""
        standing, place = np.zeros(len(self.q), dtype=np.bool_), np.flatnonzero(self.known)
        for first, last in _pause_ends(place, self.moves[place]).astype(np.int64).tolist():
            standing[first + 1 : last] = True
        return standing

    @property
    def has_pauses(self) -> bool:
        """Whether the track has a pause."""
        return bool(self.in_pause.any())

    def in_motion(self) -> _Track:
        """The track without its pauses."""
        moving = ~self.in_pause
        return replace(self, q=self.q[moving], known=self.known[moving], moves=self.moves[moving])

    @cached_property
    def x(self) -> Float:
        """Positions of the moving joints in standard deviations; zero where unknown."""
        moved = self.size > 0
        return np.where(self.known[:, None], (self.q - self.mean)[:, moved] / self.size[moved], 0.0)

    def scaled_as(self, other: _Track) -> _Track:
        """The same track with the mean and size of another."""
        return replace(self, mean=other.mean, size=other.size)

    def thinned(self, step: int) -> _Track:
        """Every `step`-th sample of the track."""
        return replace(
            self,
            q=self.q[::step],
            known=self.known[::step],
            moves=self.moves[::step],
            rate=self.rate / step,
        )


def _mean_differences(later: _Track, track: _Track) -> tuple[Float, Float]:
    """Mean square difference of positions (1 = unrelated) and number of known pairs, by cyclic shift.

    Entry s compares sample i + s of `later` with sample i of `track`.
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
    """Greatest difference over the joints between positions `shift` samples apart, at moving samples."""
    first, last = max(0, -shift), min(len(track.q), len(later.q) - shift)
    if last <= first:
        return np.zeros(0)
    step = max((last - first) // COMPARED, 1)
    first_rows, later_rows = slice(first, last, step), slice(first + shift, last + shift, step)
    asked = track.moves[first_rows] & later.known[later_rows]
    away: Float = np.abs(later.x[later_rows][asked] - track.x[first_rows][asked]).max(axis=1, initial=0.0)
    return away


def _returns(later: _Track, track: _Track, shift: int) -> bool:
    away = _differences(later, track, shift)
    return len(away) > 0 and float(np.mean(away < RETURNED)) > MOST


def _nearest(later: _Track, track: _Track, shift: int) -> int | None:
    """Nearby shift with the least difference of positions; None if the least lies at the edge of the search."""
    tried = np.arange(shift - CLOSE, shift + CLOSE + 1)
    medians = [
        float(np.median(differences)) if len(differences := _differences(later, track, k)) else np.inf
        for k in tried.tolist()
    ]
    best = int(np.argmin(medians))
    return int(tried[best]) if 0 < best < len(tried) - 1 else None


def _shift(first: _Track, track: _Track) -> int | None:
    """Samples by which the same motion is later in the first track than in the other; None for another motion."""
    if first.rate != track.rate or first.q.shape[1] != track.q.shape[1]:
        return None
    track = track.scaled_as(first)
    step = max(int(first.rate / FINE), 1)
    coarse, other = first.thinned(step), track.thinned(step)
    apart, pairs = _mean_differences(coarse, other)
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
    apart, pairs = (values[: len(coarse.q)] for values in _mean_differences(coarse, coarse))
    departed = np.flatnonzero(apart > LEFT)
    if not len(departed):
        return None
    for shift in range(int(departed[0]) + 1, len(apart) - 1):
        if pairs[shift] < OVERLAP * len(coarse.q):
            return None
        lowest = apart[shift] <= min(apart[shift - 1], apart[shift + 1])
        if lowest and _returns(coarse, coarse, shift):
            return _refined(track, step * shift) / track.rate
    return None


def _refined(track: _Track, shift: int) -> float:
    """Period in samples, resolved below a sample over as many repetitions as there are."""
    estimate, N = float(shift), len(track.q)
    times = 1
    while times * estimate < (1.0 - OVERLAP) * N:
        near = round(times * estimate)
        best = _nearest(track, track, near) if CLOSE < near < N - CLOSE else None
        if best is None:
            break
        estimate, times = float(best) / times, 2 * times
    times //= 2
    return estimate - _fraction_of_sample(track, round(times * estimate)) / times if times else estimate


def _fraction_of_sample(track: _Track, shift: int) -> float:
    """Fraction of a sample by which the motion returns before a shift, to first order.

    Later positions are x + a dx/dt; a is the least-squares slope of the differences on the speeds.
    """
    x, speed = track.x, np.gradient(track.x, axis=0)
    sound = track.known & np.append(track.known[1:], False) & np.append(False, track.known[:-1])
    away = x[shift:] - x[:-shift]
    asked = sound[:-shift] & track.moves[:-shift] & track.known[shift:]
    asked &= np.abs(away).max(axis=1) < RETURNED
    away, speed = away[asked], speed[:-shift][asked]
    part = float(np.sum(away * speed) / max(np.sum(speed**2), np.finfo(np.float64).tiny))
    return float(np.clip(part, -1.0, 1.0))
