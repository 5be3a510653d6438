"""Samples: filtered motion and torque of one segment, its standstills and its past, in memory or on disk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, locked_bool, shared
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.log.joints import STILL
from dynid.robot.drive import Drive

# Where a motion turned round: all that friction with a memory has to know of the past.

# Greatest distance of a joint over which friction builds up, rad (m): ten times what gears and seals were measured at.
REACH = 0.2
# Samples of a path that are looked at first, from its end.
SHORT = 256


@dataclass(frozen=True, eq=False)
class Past:
    """Positions at which the motion before some samples turned round, oldest first.

    joints: by joint, rad (m).    drive: of robots whose motors do not turn as the joints do, None = they do.
    motors: by motor of the drive, rad; () without one.
    Source: return-point memory of rate-independent hysteresis (Mayergoyz 1991): of the past only extremes count, and
    none from before the joint moved by more than twice the greatest distance over which friction builds up.
    """

    joints: tuple[tuple[float, ...], ...]
    drive: Drive | None = None
    motors: tuple[tuple[float, ...], ...] = ()

    @staticmethod
    def none(n: int, drive: Drive | None = None) -> Past:
        """The past of n joints that have not moved yet."""
        nothing = ((),) * n
        if drive is None or (not drive.linkages and np.array_equal(drive.transmission, np.eye(n))):
            return Past(nothing)
        return Past(nothing, drive, nothing)

    def after(self, q: Float) -> Past:
        """The past once the joints have gone through positions q (T, n)."""
        found = replace(self, joints=_followed(self.joints, q, np.full(q.shape[1], REACH)))
        if self.drive is None:
            return found
        reach = REACH * np.abs(self.drive.transmission).max(axis=1)
        return replace(found, motors=_followed(self.motors, self.drive.motor_position(q), reach))

    @property
    def of_motors(self) -> Past:
        """The motors' past in place of the joints'."""
        return self if self.drive is None else Past(self.motors)


def _followed(
    past: tuple[tuple[float, ...], ...], path: Float, reach: Float
) -> tuple[tuple[float, ...], ...]:
    return tuple(
        turning_points((*points, *turning_points(path[:, i], reach[i])), reach[i])
        for i, points in enumerate(past)
    )


def turning_points(path: Sequence[float] | Float, reach: float = REACH) -> tuple[float, ...]:
    """Extremes of a path in their order, its last point included, without what a later swing of 2 reach wiped out."""
    x: Float = np.asarray(path, dtype=np.float64)
    # Most of a long path was wiped out: its end is looked at first. An extreme counts there as it does in the whole
    # path, unless it is where the look begins.
    size = SHORT
    while size < len(x):
        extremes = _extremes(x[-size:])
        first = _first_that_counts(extremes, reach)
        if first > 0:
            return tuple(extremes[first:].tolist())
        size *= 4
    extremes = _extremes(x)
    return tuple(extremes[_first_that_counts(extremes, reach) :].tolist())


def _extremes(x: Float) -> Float:
    """The first and the last point of a path, and where it turns round between them."""
    if len(x) < 3:
        return x
    step = np.diff(x)
    moves = step != 0
    if not moves.all():
        x, step = x[np.append(True, moves)], step[moves]
    if len(x) < 3:
        return x
    rises = step > 0
    ends = np.ones(len(x), dtype=np.bool_)
    np.not_equal(rises[1:], rises[:-1], out=ends[1:-1])
    return x[ends]


def _first_that_counts(x: Float, reach: float) -> int:
    # From the end backwards: once the path seen spans 2 reach, the state at the later extreme is known.
    if len(x) < 3:
        return 0
    backward = x[::-1]
    high, low = np.maximum.accumulate(backward), np.minimum.accumulate(backward)
    wide = np.flatnonzero(high - low >= 2 * reach)
    return 0 if not len(wide) else len(x) - 1 - int(wide[0])


# Samples: uniformly sampled, filtered motion and torque of one segment, ready for the regressor.

# Reason of samples that are left out since every joint stands.
REST = "rest"
# Of equations of joints that stand while others move, or have just come to rest or leave it.
STANDING = "joints that friction holds"
POSE_RATE = 1e-9  # Hz, of poses at rest: thirty years apart, so that no difference along time is of any size
ALONG_TIME = ("t", "q", "dq", "ddq", "tau", "keep", "theta", "dtheta", "ddtheta", "temperature", "gate")


@dataclass(frozen=True, eq=False)
class Samples:
    """T consecutive samples of one uniform segment, SI units.

    t: (T,) s.    q, dq, ddq, tau: (T, n).    theta, dtheta, ddtheta: (T, n) reflected motor motion, None = one encoder.
    gate: (T, n) which joint moves fast enough for its equation to count, None = all.
    measured: (n,) joints whose effort was measured, None = all; tau of the others is zero, and their gates are shut.
    temperature: (T, n) or None.    extra: further channels by name, each (T,) or (T, n).
    keep: (T,) which samples count: the rest is overlap with neighbouring chunks, filter edges, masked or gated samples;
        they are there so that a further filter along time has something to run over.
    left_out: (T,) by reason, samples that are sound and do not count all the same; none of them in keep.
    rate: Hz.    segment: number of the segment in the whole log.    trajectory: its name.
    past: where the motion before the first sample turned round; None = unknown.
    first: index of the first sample counted from the start of the segment (fixes the phase of a later decimation).
    span: seconds that each sample stands for where samples were thinned out; 0 = instants.
    """

    t: Float
    q: Float
    dq: Float
    ddq: Float
    tau: Float
    keep: Bool
    rate: float
    segment: int
    trajectory: str
    first: int = 0
    theta: Float | None = None
    dtheta: Float | None = None
    ddtheta: Float | None = None
    temperature: Float | None = None
    extra: Mapping[str, Float] = field(default_factory=dict)
    gate: Bool | None = None
    left_out: Mapping[str, Bool] = field(default_factory=dict)
    past: Past | None = None
    span: float = 0.0
    measured: Bool | None = None

    def __post_init__(self) -> None:
        T, n = np.shape(self.q)
        object.__setattr__(self, "t", shared(self.t, (T,), "t"))
        object.__setattr__(self, "keep", locked_bool(self.keep, (T,), "keep"))
        for name in ("q", "dq", "ddq", "tau"):
            object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name in ("theta", "dtheta", "ddtheta", "temperature"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, shared(getattr(self, name), (T, n), name))
        for name, values in self.extra.items():
            if len(values) != T:
                raise UsageError(
                    "samples-extra",
                    found=f"channel '{name}' of {len(values)} samples",
                    expected=f"{T} samples",
                )

    def __len__(self) -> int:
        return len(self.t)

    def part(self, start: int, stop: int) -> Samples:
        """Samples start..stop of the batch, as a batch of their own; what was before them is not known."""
        own = slice(start, stop)

        def cut(values: Float | None) -> Float | None:
            return None if values is None else values[own]

        return replace(
            self,
            t=self.t[own],
            q=self.q[own],
            dq=self.dq[own],
            ddq=self.ddq[own],
            tau=self.tau[own],
            keep=self.keep[own],
            theta=cut(self.theta),
            dtheta=cut(self.dtheta),
            ddtheta=cut(self.ddtheta),
            temperature=cut(self.temperature),
            gate=None if self.gate is None else self.gate[own],
            left_out={reason: mask[own] for reason, mask in self.left_out.items()},
            extra={name: values[own] for name, values in self.extra.items()},
            first=self.first + start,
            past=None,
        )

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.q.shape[1])

    @property
    def with_left_out(self) -> Samples:
        """The same samples, those that were left out counted as well."""
        if not any(mask.any() for mask in self.left_out.values()):
            return self
        return replace(self, keep=np.any([self.keep, *self.left_out.values()], axis=0), left_out={})

    @property
    def motor(self) -> Samples:
        """The same samples with the motors' reflected motion in place of the links'; themselves with one encoder.

        Raises UsageError if the motor's position came without its derivatives.
        """
        # What keeps itself is freed only by a search for cycles, which comes late for large arrays.
        return self if self.theta is None else self._of_motors

    @cached_property
    def _of_motors(self) -> Samples:
        if self.theta is None or self.dtheta is None or self.ddtheta is None:
            raise UsageError(
                "samples-motor", found="theta without dtheta and ddtheta", expected="all three or none"
            )
        return replace(
            self, q=self.theta, dq=self.dtheta, ddq=self.ddtheta, theta=None, dtheta=None, ddtheta=None
        )

    @staticmethod
    def from_motion(
        q: Float, dq: Float, ddq: Float, tau: Float | None = None, rate: float = 1000.0
    ) -> Samples:
        """Samples from given motion, every one kept: for simulated data, random states and tests."""
        T = len(q)
        zero = np.zeros_like(q) if tau is None else tau
        return Samples(
            t=np.arange(T) / rate,
            q=q,
            dq=dq,
            ddq=ddq,
            tau=zero,
            keep=np.ones(T, dtype=np.bool_),
            rate=rate,
            segment=0,
            trajectory="",
        )


def poses_at_rest(q: Float, tau: Float | None = None, extra: Mapping[str, Float] | None = None) -> Samples:
    """Samples of poses (T, n) at rest, each by itself: so far apart that nothing changes with time between them."""
    zero = np.zeros_like(q)
    return replace(Samples.from_motion(q, zero, zero, tau, POSE_RATE), extra=dict(extra or {}))


def joined_samples(batches: Sequence[Samples]) -> Samples:
    """Samples of several batches with the same channels, one after the other, for what looks at each by itself.

    They count as one segment without a past, in which time may leap.
    """
    first = batches[0]

    def whole(name: str) -> Float | None:
        if getattr(first, name) is None:
            return None
        return np.concatenate([getattr(one, name) for one in batches])

    def each(name: str) -> dict[str, Any]:
        return {
            key: np.concatenate([getattr(one, name)[key] for one in batches]) for key in getattr(first, name)
        }

    along: dict[str, Any] = {name: whole(name) for name in ALONG_TIME}
    return replace(first, **along, extra=each("extra"), left_out=each("left_out"), past=None)


# What joints and motors did before a batch of samples: effects with a memory start right, however a log is
# cut.


@dataclass(frozen=True)
class WithPast:
    """Batches of samples in the order of the log, each with the turning points of the (motors') motion before it.

    drive: of the robot, for the turning points of motors that do not turn as the joints do; None = they all do.
    """

    batches: Iterable[Samples]
    drive: Drive | None = None

    def __iter__(self) -> Iterator[Samples]:
        latest: Samples | None = None
        past = Past(())
        for samples in self.batches:
            if latest is None or latest.segment != samples.segment:
                past = Past.none(samples.n, self.drive)
            else:
                past = past.after(latest.motor.q[: max(samples.first - latest.first, 0)])
            latest = samples
            yield replace(samples, past=past)


# Times at which a joint stands still in mid-log.

# s: motion is looked at in bins; a joint stands from so many of them on, which is longer than most reversals take.
# From so few on it stands briefly, as between two moves.
BIN, LEAST_BINS, BRIEF_BINS = 0.1, 10, 4
# s, and bins of it: the shortest pause between two moves, which a joint that turns back at 0.1 rad/s^2 or more does not
# make.
PAUSE, PAUSE_BINS = 0.2, 4


@dataclass(frozen=True)
class Stand:
    """A joint, by its index, that stands still from start to end, s, in a trajectory."""

    joint: int
    trajectory: str
    start: float
    end: float


def stands(batches: Iterable[Samples], least: int = LEAST_BINS) -> tuple[Stand, ...]:
    """Every time at which a joint stands still for so many bins or more, a second, and moves before or after.

    It may travel by `STILL` in a second, and by that part of it in fewer bins.
    """
    return tuple(stand for run in _runs_of_bins(batches, least) for stand in run.stands())


def _runs_of_bins(batches: Iterable[Samples], least: int) -> Iterator[_Bins]:
    run, last = _Bins("", -1, least), -np.inf
    for samples in batches:
        if run.segment != samples.segment:
            yield run
            run, last = _Bins(samples.trajectory, samples.segment, least), -np.inf
        new = own_samples(samples) & (samples.t > last)
        if new.any():
            run.add(samples.t[new], samples.q[new])
            last = float(samples.t[new][-1])
    yield run


class _Bins:
    """The bins of a segment, in which a joint stands or moves: of a day's log no more is kept than that."""

    def __init__(self, trajectory: str, segment: int, least: int) -> None:
        self.trajectory, self.segment, self._least = trajectory, segment, least
        self._times: list[Float] = []
        self._still: list[Bool] = []
        # Greatest and negative least positions of the last bins, (2, B, n), and whether joints stood in them so far.
        self._open: Float | None = None
        self._stood: Bool | None = None

    def add(self, t: Float, q: Float) -> None:
        """Samples (T,), (T, n) that follow the last ones."""
        first = np.flatnonzero(np.diff(np.floor(t / BIN), prepend=-np.inf))
        self._times.append(np.stack([t[first], t[np.append(first[1:], len(t)) - 1]], axis=1))
        ends = np.stack([np.maximum.reduceat(one, first, axis=0) for one in (q, -q)])
        stood = np.zeros(ends.shape[1:], dtype=np.bool_)
        if self._open is not None and self._stood is not None:
            ends = np.concatenate([self._open, ends], axis=1)
            stood = np.concatenate([self._stood, stood])
        known = max(len(stood) - self._least + 1, 0)
        stood |= _still(ends, self._least, STILL * self._least / LEAST_BINS)
        self._still.append(stood[:known])
        self._open, self._stood = ends[:, known:], stood[known:]

    def stands(self) -> Iterator[Stand]:
        """Every time at which a joint stands, of those that move, too."""
        if self._stood is None:
            return
        times, still = np.concatenate(self._times), np.concatenate([*self._still, self._stood])
        for j in np.flatnonzero(still.any(axis=0) & ~still.all(axis=0)).tolist():
            edges = np.flatnonzero(np.diff(still[:, j], prepend=False, append=False))
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                yield Stand(j, self.trajectory, float(times[a, 0]), float(times[b - 1, 1]))


def move_seconds(parts: Sequence[Float], rate: float, slowness: float = 1.0) -> float:
    """How long joints move from one pause to the next, s, the median; inf where less than half of motion is such moves.

    parts: uniform positions, each (n, T).    rate: Hz.    slowness: what speeds at rest are of those of other robots.
    """
    width = max(1, round(PAUSE / PAUSE_BINS * rate))
    longest = slowness * STILL * PAUSE / (BIN * LEAST_BINS)
    moves, moving = [], 0
    for q in parts:
        first = np.arange(0, q.shape[1], width)
        ends = np.stack([np.maximum.reduceat(one, first, axis=1).T for one in (q, -q)])
        for still in _still(ends, PAUSE_BINS, longest).T:
            # A move lies between two pauses: what comes before the first or after the last has no end.
            edges = np.flatnonzero(np.diff(still))
            moves.append(np.diff(edges[0 if still[0] else 1 :])[::2])
            moving += int((~still).sum())
    found = np.concatenate(moves)
    return float(np.median(found)) * width / rate if found.sum() > 0.5 * moving else np.inf


def _still(ends: Float, least: int, longest: float) -> Bool:
    # Bins (B, n), by their greatest and negative least positions (2, B, n), in so many that travel no further.
    found = np.zeros(ends.shape[1:], dtype=np.bool_)
    windows = len(found) - least + 1
    if windows > 0:
        travel = np.lib.stride_tricks.sliding_window_view(ends, least, axis=1).max(axis=3).sum(axis=0)
        for shift in range(least):
            found[shift : shift + windows] |= travel <= longest
    return found


def own_samples(samples: Samples) -> Bool:
    """Samples (T,) of a batch that are in no other one: overlap with neighbouring batches left out, rest not."""
    return np.asarray(np.any([samples.keep, *samples.left_out.values()], axis=0))


# Hz, that samples of a single moment are given: nothing is differentiated along them.
LONE_RATE = 1000.0


def samples_at(t: Float, q: Float, dq: Float, ddq: Float) -> Samples:
    """Samples of a motion, (T, n) each, at its times (T,) and their rate."""
    rate = (len(t) - 1) / float(t[-1] - t[0]) if len(t) > 1 else LONE_RATE
    return replace(Samples.from_motion(q, dq, ddq, rate=rate), t=t)
