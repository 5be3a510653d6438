"""Motion that repeats: after how many seconds."""

from __future__ import annotations

from collections.abc import Collection, Iterable

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.log.absent import STILL
from dynid.signals.samples import Samples

# Samples of a trajectory that are looked at, on FINE samples a second at most for a first look.
EVIDENCE, FINE = 20_000, 25.0
# Standard deviations of a joint's position within which it has returned, and the share of the samples in motion at
# which all joints have: a start from rest and an end at rest may stand around the repeated part.
RETURNED, MOST = 0.1, 0.5
# Of the mean square difference of positions without relation: motion has to leave where it was before it returns.
LEFT = 0.3
# Of the samples, with a later one to compare with: a motion that was not gone through again for a third.
OVERLAP = 0.25
# Of a joint's root mean square speed, from which on it moves; and shifts that are looked at closely.
MOVING, CLOSE = 0.1, 12
LEAST = 100  # samples
COMPARED = 5_000  # samples in a comparison of two places of the log: a median of more says no more


def periods(batches: Iterable[Samples], trajectories: Collection[str]) -> dict[str, float]:
    """Seconds after which the motion of a trajectory repeats, by its name; those that do not are left out.

    trajectories: those that are asked for: batches are read until enough is known of them.
    """
    parts: dict[str, list[Samples]] = {}
    left = set(trajectories)
    for samples in batches:
        if samples.trajectory not in left or not len(samples):
            continue
        seen = parts.setdefault(samples.trajectory, [])
        # Of one segment alone: the clock runs on without a gap there.
        if not seen or seen[0].segment == samples.segment:
            seen.append(samples)
        if seen[-1] is not samples or sum(map(len, seen)) >= EVIDENCE:
            left.remove(samples.trajectory)
            if not left:
                break
    found = {name: _period(own) for name, own in parts.items()}
    return {name: period for name, period in found.items() if period is not None}


@dataclass(frozen=True, eq=False)
class _Track:
    """Positions (N, n) in standard deviations, zero where unknown, and whether each is known and in motion, (N,)."""

    x: Float
    known: Bool
    moves: Bool

    def thinned(self, step: int) -> _Track:
        return _Track(self.x[::step], self.known[::step], self.moves[::step])

    def apart(self) -> tuple[Float, Float]:
        """Mean square difference of positions by shift (N,), 1 = without relation, and the share of known ones."""
        N, size = len(self.x), 2 * len(self.x)
        known = np.fft.rfft(self.known.astype(np.float64), size)
        square = np.fft.rfft(np.sum(self.x**2, axis=1), size)
        product = np.sum(np.abs(np.fft.rfft(self.x, size, axis=0)) ** 2, axis=1)
        both = np.conj(square) * known + np.conj(known) * square - 2.0 * product
        total, pairs = np.fft.irfft(both, size)[:N], np.fft.irfft(np.abs(known) ** 2, size)[:N]
        return total / np.maximum(pairs, 1.0) / (2.0 * self.x.shape[1]), pairs / max(N, 1)

    def differences(self, shift: int) -> Float:
        """The greatest difference of a joint's positions so many samples apart, at samples in motion."""
        thinned = slice(None, None, max((len(self.x) - shift) // COMPARED, 1))
        here, there = (self.x[part][thinned] for part in (slice(None, -shift), slice(shift, None)))
        asked = self.moves[:-shift][thinned] & self.known[shift:][thinned]
        away: Float = np.abs(there[asked] - here[asked]).max(axis=1, initial=0.0)
        return away


def _period(batches: list[Samples]) -> float | None:
    rate = batches[0].rate
    track = _track(batches, rate)
    if track is None:
        return None
    step = max(int(rate / FINE), 1)
    coarse = track.thinned(step)
    apart, pairs = coarse.apart()
    left = np.flatnonzero(apart > LEFT)
    if not len(left):
        return None
    for shift in range(int(left[0]) + 1, len(apart) - 1):
        if pairs[shift] < OVERLAP:
            return None
        lowest = apart[shift] <= min(apart[shift - 1], apart[shift + 1])
        if lowest and _returns(coarse, shift):
            return _refined(track, step * shift) / rate
    return None


def _returns(track: _Track, shift: int) -> bool:
    away = track.differences(shift)
    return len(away) > 0 and float(np.mean(away < RETURNED)) > MOST


def _refined(track: _Track, shift: int) -> float:
    """The shift at which positions differ least, between samples, by as many repetitions as there are."""
    found, N = float(shift), len(track.x)
    times = 1
    while times * found < (1.0 - OVERLAP) * N:
        near = round(times * found)
        if near + CLOSE >= N:
            break
        tried = np.arange(max(near - CLOSE, 1), near + CLOSE + 1)
        missed = [
            float(np.median(one)) if len(one := track.differences(k)) else np.inf for k in tried.tolist()
        ]
        best = int(np.argmin(missed))
        if not 0 < best < len(tried) - 1:
            break
        found, times = float(tried[best]) / times, 2 * times
    return found


def _track(batches: list[Samples], rate: float) -> _Track | None:
    start = batches[0].t[0]
    places = [np.round((samples.t - start) * rate).astype(np.int64) for samples in batches]
    N = int(places[-1][-1]) + 1
    if N < LEAST:
        return None
    n = batches[0].q.shape[1]
    x, dx, known = np.zeros((N, n)), np.zeros((N, n)), np.zeros(N, dtype=np.bool_)
    for place, samples in zip(places, batches, strict=True):
        own = (place >= 0) & (place < N)
        x[place[own]], dx[place[own]], known[place[own]] = samples.q[own], samples.dq[own], True
    size, speed = x[known].std(axis=0), np.sqrt(np.mean(dx[known] ** 2, axis=0))
    moved = size > STILL
    if not moved.any():
        return None
    x = np.where(known[:, None], (x - x[known].mean(axis=0)) / np.where(moved, size, 1.0), 0.0)[:, moved]
    return _Track(x, known, known & (np.abs(dx) > MOVING * speed)[:, moved].any(axis=1))
