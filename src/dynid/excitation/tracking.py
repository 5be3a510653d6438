"""How a robot followed a planned motion: its start in the log, errors per joint, and gaps."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
from scipy.signal import correlate

from dynid.base import Float, Place, UnfitDataError, dataclass, locked
from dynid.log import Log
from dynid.recording import Trajectory as Recorded
from dynid.trajectories import Trajectory, parts_of

# Hz: rate of the coarse search, and most points of its grid, which bound time and memory.
GRID_RATE, LONGEST_GRID = 50.0, 400_000
# Most Gauss-Newton steps, and unexplained share of variance above which the log contains another motion.
ROUNDS, ANOTHER = 20, 0.5
# Gap relative to the median step, least part of the plan within the log, and rows per second that are read, Hz.
LONG_STEP, LEAST_OVERLAP, THINNED = 10.0, 0.1, 250.0


@dataclass(frozen=True, eq=False)
class Tracking:
    """A planned motion compared with its log; arrays (n,), rad (m) and s.

    start: log time at which the plan starts.    rms, worst: of recorded minus planned position at equal plan time.
    worst_at: plan time of the worst.    share: r.m.s. error over the standard deviation of the planned position.
    delay: of each joint after `start`; nan for joints that do not move.    offset: constant part of the difference.
    missing: (k, 2) spans of plan time without samples.    duration: of the whole plan.
    part: number of the motion that the log contains if the plan consists of several, 0 = the whole plan.
    unlike: sum of the squared error over all samples, with the plan at rest before its start and after its end.
    """

    joint_names: tuple[str, ...]
    start: float
    rms: Float
    worst: Float
    worst_at: Float
    share: Float
    delay: Float
    offset: Float
    missing: Float
    duration: float
    unlike: float
    part: int = 0

    def __post_init__(self) -> None:
        n = len(self.joint_names)
        for name in ("rms", "worst", "worst_at", "share", "delay", "offset"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))
        object.__setattr__(self, "missing", locked(self.missing, (None, 2), "missing"))


def track(
    planned: Trajectory, joint_names: tuple[str, ...], t: Float, q: Float, place: Place | None = None
) -> Tracking:
    """Find a planned motion in recorded positions, and compare them.

    The start is that of the least squared difference: first on a grid by correlation, then by Gauss-Newton steps on
    the exact motion. The plan is at rest before its start and after its end.

    Parameters
    ----------
    planned : Trajectory
        The plan.
    joint_names : tuple of str
        Names of the joints.
    t : ndarray, shape (n_samples,), s
        Increasing times of the log.
    q : ndarray, shape (n_samples, n_joints), rad or m
        Recorded positions; rows with nan are skipped.
    place : Place, optional
        The log, for messages.

    Returns
    -------
    Tracking
        The comparison.

    Raises
    ------
    UnfitDataError
        If the log is too short, or explains less than half of the motion's variance.

    """
    good = np.isfinite(q).all(axis=1) & np.isfinite(t)
    t, q = np.asarray(t[good], dtype=np.float64), np.asarray(q[good], dtype=np.float64)
    where = Place() if place is None else place
    if len(t) < 10 or not t[-1] > t[0]:
        raise UnfitDataError(
            "plan-not-found", found=f"{len(t)} usable rows", expected="a log of the motion", place=where
        )
    start = _refined_start(planned, t, q, _coarse_start(planned, t, q))
    inside = (t >= start) & (t <= start + planned.duration)
    if inside.sum() < 10:
        raise _not_the_plan_error("a log without any part of the planned motion", where)
    at = t[inside] - start
    wanted, speed, _ = planned.motion(at)
    error = q[inside] - wanted
    size = np.std(wanted, axis=0)
    varies = size > 1e-9
    unexplained = float((error[:, varies].var(axis=0)).sum() / np.maximum((size[varies] ** 2).sum(), 1e-300))
    if not varies.any() or unexplained > ANOTHER:
        share = f"{100 * unexplained:.0f} %" if varies.any() else "all"
        raise _not_the_plan_error(
            f"a log whose motion differs from the plan by {share} of its variance", where
        )
    worst = np.abs(error).argmax(axis=0)
    rms = np.sqrt((error**2).mean(axis=0))
    delay, offset = _by_joint(speed, error)
    return Tracking(
        joint_names=joint_names,
        start=start,
        rms=rms,
        worst=np.abs(error).max(axis=0),
        worst_at=at[worst],
        share=np.divide(rms, size, out=np.full(len(rms), np.nan), where=varies),
        delay=np.where(varies, delay, np.nan),
        offset=offset,
        missing=_missing(at, planned.duration),
        duration=planned.duration,
        unlike=float(((q - planned.motion(t - start)[0]) ** 2).sum()),
    )


def track_any(
    planned: Trajectory, joint_names: tuple[str, ...], t: Float, q: Float, place: Place | None = None
) -> Tracking:
    """Compare a plan of several motions with a log that may contain only one of them, with rest before and after.

    The whole plan and each of its motions are compared; the one most like the log, rest included, is returned.

    Parameters
    ----------
    planned : Trajectory
        The plan.
    joint_names : tuple of str
        Names of the joints.
    t : ndarray, shape (n_samples,), s
        Increasing times of the log.
    q : ndarray, shape (n_samples, n_joints), rad or m
        Recorded positions; rows with nan are skipped.
    place : Place, optional
        The log, for messages.

    Returns
    -------
    Tracking
        The comparison.

    Raises
    ------
    UnfitDataError
        If the log contains none of them.

    """
    parts = parts_of(planned)
    matches: list[Tracking] = []
    refused: UnfitDataError | None = None
    start = 0.0
    for number, motion in enumerate([planned, *(parts if len(parts) > 1 else ())]):
        try:
            tracking = track(motion, joint_names, t, q, place)
        except UnfitDataError as error:
            refused = refused or error
        else:
            matches.append(tracking if number == 0 else _of_whole(tracking, number, start, planned.duration))
        start += motion.duration if number else 0.0
    if refused is not None and not matches:
        raise refused
    return min(matches, key=lambda tracking: tracking.unlike)


def _of_whole(tracking: Tracking, part: int, start: float, duration: float) -> Tracking:
    end = start + tracking.duration
    missing = np.concatenate([[[0.0, start]], tracking.missing + start, [[end, duration]]])
    missing = missing[missing[:, 1] > missing[:, 0]]
    return replace(
        tracking, part=part, missing=missing, duration=duration, worst_at=tracking.worst_at + start
    )


def _not_the_plan_error(finding: str, place: Place) -> UnfitDataError:
    return UnfitDataError(
        "plan-not-found",
        found=finding,
        expected="the motion of the plan",
        do="check which plan was run, units and joint order",
        place=place,
    )


def _coarse_start(planned: Trajectory, t: Float, q: Float) -> float:
    # sum (q_k - p_(k+s))^2 on the grid of the log for every shift s of the plan, which is at rest at both ends.
    length = t[-1] - t[0] + planned.duration
    step = max(1.0 / GRID_RATE, length / LONGEST_GRID)
    grid = np.arange(t[0], t[-1], step)
    recorded = np.stack([np.interp(grid, t, column) for column in q.T], axis=1)
    L = len(grid)
    plan = planned.motion(np.arange(-L, int(planned.duration / step) + L) * step)[0]
    middle = plan.mean(axis=0)
    recorded, plan = recorded - middle, plan - middle
    shifts = len(plan) - L + 1
    total = np.zeros(shifts)
    for r, p in zip(recorded.T, plan.T, strict=True):
        squares = np.concatenate([[0.0], np.cumsum(p**2)])
        total += squares[L:] - squares[:-L] - 2.0 * correlate(p, r, mode="valid", method="fft")
    # Rest fits every log at the start pose, so part of the plan's motion must be within the log.
    shift = np.arange(shifts)
    overlap = np.minimum(shift, planned.duration / step) - np.maximum(shift - L, 0)
    some = overlap >= LEAST_OVERLAP * min(planned.duration / step, L)
    best = int(np.where(some, total, np.inf).argmin())
    return float(t[0] - (best - L) * step)


def _refined_start(planned: Trajectory, t: Float, q: Float, start: float) -> float:
    for _ in range(ROUNDS):
        at = t - start
        near = (at >= 0) & (at <= planned.duration)
        if not near.any():
            return start
        p, dp, _ = planned.motion(at[near])
        curvature = float((dp**2).sum())
        if curvature == 0.0:
            return start
        step = -float(((q[near] - p) * dp).sum()) / curvature
        start += step
        if abs(step) < 1e-7:
            break
    return start


def _by_joint(speed: Float, error: Float) -> tuple[Float, Float]:
    # error = offset - delay * speed, joint by joint.
    v, e = speed - speed.mean(axis=0), error - error.mean(axis=0)
    square = (v**2).sum(axis=0)
    delay = -np.divide((v * e).sum(axis=0), square, out=np.zeros(len(square)), where=square > 0)
    return delay, error.mean(axis=0) + delay * speed.mean(axis=0)


def _missing(at: Float, duration: float) -> Float:
    steps = np.diff(at)
    longest = LONG_STEP * float(np.median(steps))
    edges = np.concatenate([[0.0], at, [duration]])
    wide = np.flatnonzero(np.diff(edges) > longest)
    return np.stack([edges[wide], edges[wide + 1]], axis=1)


def recorded_positions(log: Log, trajectory: Recorded) -> tuple[Float, Float]:
    """Times (T,) and positions (T, n) of one trajectory of a log, at most THINNED rows per second."""
    seconds = trajectory.end_time - trajectory.start_time
    every = max(1, int(trajectory.row_count / max(seconds * THINNED, 1.0)))
    times, positions, first = [], [], 0
    for chunk in log.chunks(trajectory):
        rows = slice((-first) % every, None, every)
        times.append(chunk.t[rows])
        positions.append(chunk.q[rows])
        first += len(chunk.t)
    return np.concatenate(times), np.concatenate(positions)


def union_missing(records: list[Tracking]) -> Float:
    """Spans (k, 2) of plan time that none of several logs contains."""
    if not records:
        return np.zeros((0, 2))
    duration = records[0].duration
    edges = np.unique(np.concatenate([[0.0, duration], *(record.missing.ravel() for record in records)]))
    spans: list[tuple[float, float]] = []
    for low, high in pairwise(edges):
        middle = 0.5 * (low + high)
        if all(
            ((record.missing[:, 0] <= middle) & (middle <= record.missing[:, 1])).any() for record in records
        ):
            spans = (
                [*spans[:-1], (spans[-1][0], high)]
                if spans and spans[-1][1] == low
                else [*spans, (low, high)]
            )
    return np.array(spans).reshape(-1, 2)
