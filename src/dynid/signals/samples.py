"""Samples: filtered motion and torque of one segment, its reversals before, and the dwells of its joints."""

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

# Reversals of the motion, the only part of the past that hysteretic friction depends on.

# rad (m): greatest distance over which friction builds up, ten times the values measured on gears and seals.
REACH = 0.2
# Samples at the end of a path that are searched first; longer parts follow only if these do not suffice.
SHORT = 256


@dataclass(frozen=True, eq=False)
class Past:
    """Positions at which the motion before some samples reversed, oldest first.

    Only extremes of the past count, and none from before the joint moved by more than twice the greatest distance over
    which friction builds up (return-point memory of rate-independent hysteresis).

    Attributes
    ----------
    joints : tuple of tuple of float, rad or m
        Reversals of each joint.
    drive : Drive, optional
        Drive of a robot whose motors do not turn as the joints do.
    motors : tuple of tuple of float, rad
        Reversals of each motor of the drive; () without one.

    References
    ----------
    Mayergoyz 1991.

    """

    joints: tuple[tuple[float, ...], ...]
    drive: Drive | None = None
    motors: tuple[tuple[float, ...], ...] = ()

    @staticmethod
    def none(n: int, drive: Drive | None = None) -> Past:
        """Past of n joints that have not moved yet."""
        nothing = ((),) * n
        if drive is None or (not drive.linkages and np.array_equal(drive.transmission, np.eye(n))):
            return Past(nothing)
        return Past(nothing, drive, nothing)

    def after(self, q: Float) -> Past:
        """Past after the joints have passed through positions `q` (T, n)."""
        past = replace(self, joints=_followed(self.joints, q, np.full(q.shape[1], REACH)))
        if self.drive is None:
            return past
        reach = REACH * np.abs(self.drive.transmission).max(axis=1)
        return replace(past, motors=_followed(self.motors, self.drive.motor_position(q), reach))

    @property
    def of_motors(self) -> Past:
        """Past of the motors instead of the joints."""
        return self if self.drive is None else Past(self.motors)


def _followed(
    past: tuple[tuple[float, ...], ...], path: Float, reach: Float
) -> tuple[tuple[float, ...], ...]:
    return tuple(
        turning_points((*points, *turning_points(path[:, i], reach[i])), reach[i])
        for i, points in enumerate(past)
    )


def turning_points(path: Sequence[float] | Float, reach: float = REACH) -> tuple[float, ...]:
    """Extremes of a path in order, with its last point, without those that a later swing of 2 `reach` erased."""
    x: Float = np.asarray(path, dtype=np.float64)
    # Most extremes of a long path are erased, so the search starts at its end. An extreme counts there as it does in
    # the whole path, unless the searched part begins with it.
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
    """First and last point of a path, and the points between at which it reverses."""
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
    # Backwards from the end: once the path spans 2 reach, the state at the later extreme is known.
    if len(x) < 3:
        return 0
    backward = x[::-1]
    high, low = np.maximum.accumulate(backward), np.minimum.accumulate(backward)
    wide = np.flatnonzero(high - low >= 2 * reach)
    return 0 if not len(wide) else len(x) - 1 - int(wide[0])


# Samples: uniformly sampled, filtered motion and torque of one segment, ready for the regressor.

# Reason of samples that are left out because every joint is at rest.
REST = "rest"
# Reason of equations of joints at rest while others move, and just before and after that.
STANDING = "joints that friction holds"
POSE_RATE = 1e-9  # Hz, of poses at rest: thirty years apart, so that differences along time vanish
ALONG_TIME = ("t", "q", "dq", "ddq", "tau", "keep", "theta", "dtheta", "ddtheta", "temperature", "gate")


@dataclass(frozen=True, eq=False)
class Samples:
    """T consecutive samples of one uniform segment in SI units.

    Attributes
    ----------
    t : ndarray, shape (T,), s
        Times.
    q, dq, ddq : ndarray, shape (T, n), rad or m and derivatives
        Motion of the joints.
    tau : ndarray, shape (T, n), N m or N
        Torque of the joints.
    keep : ndarray of bool, shape (T,)
        Samples that count. The others (overlap with neighbouring windows, filter edges, masked samples) let a further
        filter along time settle.
    rate : float, Hz
        Sampling rate.
    segment : int
        Number of the segment in the whole log.
    trajectory : str
        Name of the trajectory.
    first : int
        Index of the first sample within the segment, which fixes the phase of a later decimation.
    theta, dtheta, ddtheta : ndarray, shape (T, n), optional
        Motion of the motors, reflected to the joints; None with one encoder.
    temperature : ndarray, shape (T, n), optional
        Temperatures.
    extra : mapping of ndarray, shape (T,) or (T, n)
        Further channels by name.
    gate : ndarray of bool, shape (T, n), optional
        Joints that move fast enough for their equations to count; None = all.
    left_out : mapping of ndarray of bool, shape (T,)
        Valid samples that do not count, by reason; none of them in `keep`.
    past : Past, optional
        Reversals of the motion before the first sample; None = unknown.
    span : float, s
        Time that each sample represents after decimation; 0 = an instant.
    measured : ndarray of bool, shape (n,), optional
        Joints whose effort was measured; None = all. The torque of the others is zero and their gates are closed.

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
        """Samples start..stop as a batch without a past."""
        window = slice(start, stop)

        def cut(values: Float | None) -> Float | None:
            return None if values is None else values[window]

        return replace(
            self,
            t=self.t[window],
            q=self.q[window],
            dq=self.dq[window],
            ddq=self.ddq[window],
            tau=self.tau[window],
            keep=self.keep[window],
            theta=cut(self.theta),
            dtheta=cut(self.dtheta),
            ddtheta=cut(self.ddtheta),
            temperature=cut(self.temperature),
            gate=None if self.gate is None else self.gate[window],
            left_out={reason: mask[window] for reason, mask in self.left_out.items()},
            extra={name: values[window] for name, values in self.extra.items()},
            first=self.first + start,
            past=None,
        )

    @property
    def n(self) -> int:
        """Number of joints."""
        return int(self.q.shape[1])

    @property
    def with_left_out(self) -> Samples:
        """The same samples, with those in `left_out` counted as well."""
        if not any(mask.any() for mask in self.left_out.values()):
            return self
        return replace(self, keep=np.any([self.keep, *self.left_out.values()], axis=0), left_out={})

    @property
    def motor(self) -> Samples:
        """The same samples with the motion of the motors instead of the links; unchanged with one encoder.

        Raises
        ------
        UsageError
            If the position of the motors comes without its derivatives.

        """
        # A reference to itself would keep large arrays until the garbage collector searches for cycles.
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
        """Samples of a motion, all of which count: for simulated data, random states and tests.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (T, n), rad or m and derivatives
            Motion.
        tau : ndarray, shape (T, n), optional, N m or N
            Torque; zero without it.
        rate : float, Hz
            Sampling rate.

        """
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
    """Samples of poses at rest, so far apart in time that nothing changes along time.

    Parameters
    ----------
    q : ndarray, shape (T, n), rad or m
        Poses.
    tau : ndarray, shape (T, n), optional, N m or N
        Torques; zero without them.
    extra : mapping of ndarray, optional
        Further channels by name.

    """
    zero = np.zeros_like(q)
    return replace(Samples.from_motion(q, zero, zero, tau, POSE_RATE), extra=dict(extra or {}))


def joined_samples(batches: Sequence[Samples]) -> Samples:
    """Concatenate batches with the same channels, for functions that treat each sample by itself.

    The result counts as one segment without a past, in which time may jump.
    """
    first = batches[0]

    def whole(name: str) -> Float | None:
        if getattr(first, name) is None:
            return None
        return np.concatenate([getattr(batch, name) for batch in batches])

    def each(name: str) -> dict[str, Any]:
        return {
            key: np.concatenate([getattr(batch, name)[key] for batch in batches])
            for key in getattr(first, name)
        }

    along: dict[str, Any] = {name: whole(name) for name in ALONG_TIME}
    return replace(first, **along, extra=each("extra"), left_out=each("left_out"), past=None)


# Reversals before each batch, so that effects with a memory do not depend on how a log is cut.


@dataclass(frozen=True)
class WithPast:
    """Batches in the order of the log, each with the reversals of the (motors') motion before it.

    Attributes
    ----------
    batches : iterable of Samples
        The batches.
    drive : Drive, optional
        Drive of a robot whose motors do not turn as the joints do.

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


# Dwells of joints within a log.

# BIN in s. A dwell lasts LEAST_BINS or more, longer than most reversals; a brief dwell, as between two moves,
# BRIEF_BINS.
BIN, LEAST_BINS, BRIEF_BINS = 0.1, 10, 4
# Shortest pause between two moves, in s and in bins; a reversal at 0.1 rad/s^2 or more is shorter.
PAUSE, PAUSE_BINS = 0.2, 4


@dataclass(frozen=True)
class Stand:
    """Dwell of a joint (by its index) from start to end (s) in a trajectory."""

    joint: int
    trajectory: str
    start: float
    end: float


def stands(batches: Iterable[Samples], least: int = LEAST_BINS) -> tuple[Stand, ...]:
    """Dwells of at least `least` bins of joints that move at other times.

    A joint may travel by `STILL` per second during its dwell.
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
    """Bins of a segment in which joints rest or move, so that a long log needs little memory."""

    def __init__(self, trajectory: str, segment: int, least: int) -> None:
        self.trajectory, self.segment, self._least = trajectory, segment, least
        self._times: list[Float] = []
        self._still: list[Bool] = []
        # Greatest and negative least positions of the last bins (2, B, n), and whether joints rested in them so far.
        self._open: Float | None = None
        self._stood: Bool | None = None

    def add(self, t: Float, q: Float) -> None:
        """Add the next times (T,) and positions (T, n)."""
        first = np.flatnonzero(np.diff(np.floor(t / BIN), prepend=-np.inf))
        self._times.append(np.stack([t[first], t[np.append(first[1:], len(t)) - 1]], axis=1))
        ends = np.stack([np.maximum.reduceat(signed, first, axis=0) for signed in (q, -q)])
        stood = np.zeros(ends.shape[1:], dtype=np.bool_)
        if self._open is not None and self._stood is not None:
            ends = np.concatenate([self._open, ends], axis=1)
            stood = np.concatenate([self._stood, stood])
        known = max(len(stood) - self._least + 1, 0)
        stood |= _still(ends, self._least, STILL * self._least / LEAST_BINS)
        self._still.append(stood[:known])
        self._open, self._stood = ends[:, known:], stood[known:]

    def stands(self) -> Iterator[Stand]:
        """Dwells of the joints that also move."""
        if self._stood is None:
            return
        times, still = np.concatenate(self._times), np.concatenate([*self._still, self._stood])
        for j in np.flatnonzero(still.any(axis=0) & ~still.all(axis=0)).tolist():
            edges = np.flatnonzero(np.diff(still[:, j], prepend=False, append=False))
            for a, b in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
                yield Stand(j, self.trajectory, float(times[a, 0]), float(times[b - 1, 1]))


def move_seconds(parts: Sequence[Float], rate: float, slowness: float = 1.0) -> float:
    """Median duration (s) of a move from one pause to the next; inf if less than half of the motion is such moves.

    `parts` are uniform positions (n, T) at `rate` (Hz); `slowness` is a factor on the usual speeds at rest.
    """
    width = max(1, round(PAUSE / PAUSE_BINS * rate))
    longest = slowness * STILL * PAUSE / (BIN * LEAST_BINS)
    moves, moving = [], 0
    for q in parts:
        first = np.arange(0, q.shape[1], width)
        ends = np.stack([np.maximum.reduceat(signed, first, axis=1).T for signed in (q, -q)])
        for still in _still(ends, PAUSE_BINS, longest).T:
            # A move lies between two pauses; motion before the first or after the last pause has no known end.
            edges = np.flatnonzero(np.diff(still))
            moves.append(np.diff(edges[0 if still[0] else 1 :])[::2])
            moving += int((~still).sum())
    durations = np.concatenate(moves)
    return float(np.median(durations)) * width / rate if durations.sum() > 0.5 * moving else np.inf


def _still(ends: Float, least: int, longest: float) -> Bool:
    # Bins (B, n) within `least` consecutive ones that travel no further than `longest`, from their greatest and
    # negative least positions (2, B, n).
    still = np.zeros(ends.shape[1:], dtype=np.bool_)
    windows = len(still) - least + 1
    if windows > 0:
        travel = np.lib.stride_tricks.sliding_window_view(ends, least, axis=1).max(axis=3).sum(axis=0)
        for shift in range(least):
            still[shift : shift + windows] |= travel <= longest
    return still


def own_samples(samples: Samples) -> Bool:
    """Samples (T,) of a batch that belong to no other batch: those that count and those at rest, without overlap."""
    return np.asarray(np.any([samples.keep, *samples.left_out.values()], axis=0))


# Hz: nominal rate of a single sample, where nothing is differentiated.
LONE_RATE = 1000.0


def samples_at(t: Float, q: Float, dq: Float, ddq: Float) -> Samples:
    """Samples of a motion q, dq, ddq (T, n) at uniform times t (T,) in s."""
    rate = (len(t) - 1) / float(t[-1] - t[0]) if len(t) > 1 else LONE_RATE
    return replace(Samples.from_motion(q, dq, ddq, rate=rate), t=t)
