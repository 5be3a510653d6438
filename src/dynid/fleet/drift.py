"""Sequential tests for changes of a robot's friction, gain, offset, stiffness and load, with the day of the change.

Each day a robot is compared with the prediction from its earlier days and its type. The test of an effect is a
Shiryaev-Roberts sum of Bayes factors over all days on which the change may have begun. The probability of a false alarm
is bounded.
Source: Shiryaev 1963; Roberts 1966; Shin, Ramdas and Rinaldo 2022 (e-detectors).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Bool, Float, Int, dataclass, staged_files
from dynid.fleet.plan import TypeModel
from dynid.fleet.pool import (
    FIRST_DAYS,
    Day,
    Hierarchy,
    Levels,
    Scatter,
    Starts,
    State,
    Weights,
    batches,
    days,
    fit_hierarchy,
    fit_scatter,
    inverse,
    spread_out,
    starts,
)
from dynid.fleet.store import FleetStore, is_done

# Probability of an alarm on an unchanged robot, and the number of tested days that it refers to.
FALSE_ALARM, DAYS_A_YEAR = 0.01, 365
# Days: a change is looked for within this many latest days.
WINDOW = 60
# Threshold of the evidence by which that probability is bounded.
BOUND = DAYS_A_YEAR / FALSE_ALARM
# Standard deviations of expected changes: friction and gain (relative), offset (relative to the joint's torque),
# deflection under that torque (rad), mass of a load (relative to the robot's mass) and its distance (m).
FRICTION, GAIN, OFFSET, DEFLECTION, LOAD, DISTANCE = 0.10, 0.05, 0.02, 1e-3, 0.02, 0.1
# Robots that are processed together.
SIDE_BY_SIDE = 32
# Random courses of the fleet's days: robots, blocks of days and their length, and the share of the greatest blocks from
# which the tail is extrapolated. 64 robots x 8 blocks are 42 robot-years.
_NULL_ROBOTS, _BLOCKS, _BLOCK, _TAIL = 64, 8, 30, 0.1
# Share of unchanged robots that may be taken for changed ones.
_CHANGED = 0.1
# The median of |z| of a standard normal distribution.
_MEDIAN = 0.6745
CAUSES = {
    "friction": "wear, lubrication or temperature",
    "gain": "torque constant or sensor scale",
    "offset": "zero of the torque sensor, or a spring",
    "stiffness": "a joint that became softer or stiffer",
    "load": "change of tool or payload",
}


@dataclass(frozen=True, eq=False)
class Effect:
    """A possible change of a robot: x changes by D a with a ~ N(0, diag spread^2).

    Attributes
    ----------
    joint : str
        Name of the joint; empty for the whole robot.
    kind : str
        Key of CAUSES.
    unit : str
        Unit of the first entry of a.
    D : ndarray, shape (m, r)
        Directions of the change.
    spread : ndarray, shape (r,)
        Standard deviations of a.

    """

    joint: str
    kind: str
    unit: str
    D: Float
    spread: Float


@dataclass(frozen=True, eq=False)
class Alarm:
    """A detected change of a robot.

    Attributes
    ----------
    serial, joint, effect : str
        Robot, joint (empty for the whole robot) and kind of the change.
    since : date
        Most likely first day of the change.
    earliest, latest : date
        Limits of a 90 % interval of that day.
    found : date
        Day of the alarm.
    size, std : float
        Posterior mean and standard deviation of the change, in `unit`.
    probability : float
        Posterior probability of this effect among all effects.
    rival : str
        The second most likely effect.
    evidence : float
        Logarithm to base 10 of the evidence at the alarm.

    """

    serial: str
    joint: str
    effect: str
    since: date
    earliest: date
    latest: date
    found: date
    size: float
    std: float
    unit: str
    probability: float
    rival: str
    evidence: float


@dataclass(frozen=True, eq=False)
class Course:
    """One robot over time, for T days and K effects.

    Attributes
    ----------
    serial : str
        Serial number.
    days : tuple of date
        The days.
    shift, std : ndarray, shape (T, K)
        Size of each effect on that day relative to the estimate of the day before, and its standard deviation.
    z : ndarray, shape (T, K)
        Test statistic.
    level : ndarray, shape (T, K)
        Size of each effect on that day relative to the type's model.
    mean, covariance : ndarray, shapes (m,) and (m, m)
        Estimate of x after the last day.
    alarms : tuple of Alarm
        Alarms in order.

    """

    serial: str
    days: tuple[date, ...]
    shift: Float
    std: Float
    z: Float
    level: Float
    mean: Float
    covariance: Float
    alarms: tuple[Alarm, ...]


def effects_of(model: TypeModel, weights: Weights) -> tuple[Effect, ...]:
    """Return the effects that are tested for on robots of a type."""
    k, n = len(model.kept), model.robot.n
    bodies = model.theta[
        [i for i, column in enumerate(model.columns[: len(model.theta)]) if column.of == "body"]
    ]
    mass = max(float(np.sum(bodies[::10])), 1e-3)
    effects = []
    for j, joint in enumerate(model.robot.joint_names):
        force = "N" if model.robot.prismatic[j] else "N m"
        torque = max(float(weights.torque[j]), 1e-9)
        directions = {
            ("friction", "1"): (model.friction(j) * model.value, FRICTION),
            ("gain", "1"): (None, GAIN),
            ("offset", force): (model.offset(j).astype(np.float64), OFFSET * torque),
            ("stiffness", model.units[int(np.argmax(model.compliance(j)))]): (
                model.compliance(j).astype(np.float64),
                DEFLECTION / torque,
            ),
        }
        for (name, unit), (direction, spread) in directions.items():
            D = np.zeros((k + n, 1))
            if direction is None:
                D[k + j] = 1.0
            else:
                D[:k, 0] = direction
            if D.any():
                effects.append(Effect(joint, name, unit, D, np.array([spread])))
    load = np.concatenate([model.load, np.zeros((n, model.load.shape[1]))])
    alive = np.abs(load).max(axis=0) > 0
    if alive.any():
        sizes = LOAD * mass * np.array([1.0, DISTANCE, DISTANCE, DISTANCE])[: load.shape[1]]
        effects.append(Effect("", "load", "kg", load[:, alive], sizes[alive]))
    return tuple(effects)


def follow(
    robots: Sequence[tuple[str, Sequence[Day]]],
    hierarchy: Hierarchy,
    effects: Sequence[Effect],
    scatter: Scatter | None = None,
    threshold: float = BOUND,
) -> list[Course]:
    """Test robots day by day for changes.

    With M the mean over effects of the sums of Bayes factors, M - days is a martingale if nothing changes, so
    P(max M >= threshold) <= days / threshold.

    Parameters
    ----------
    robots : sequence
        Serial number and days of each robot.
    hierarchy : Hierarchy
        Model of the type.
    effects : sequence of Effect
        The K effects to test for.
    scatter : Scatter, optional
        Scatter of the r quantities of the effects; by default of independent, normal days as in the hierarchy.
    threshold : float, optional
        Threshold of the evidence; by default that of the probability FALSE_ALARM within DAYS_A_YEAR tested days.

    Returns
    -------
    list of Course
        One for each robot.

    """
    robot_days = [days for _, days in robots]
    if scatter is None:
        scatter = Scatter.normal(typical_std(robot_days, hierarchy, effects))
    followers = [_Follower(serial, days, effects, scatter, threshold) for serial, days in robots]
    levels = Levels(scatter, np.concatenate([effect.spread for effect in effects]), len(robots))
    passage = _Passage(robot_days, hierarchy, effects, state_walk(hierarchy, effects, scatter))
    for now, gaps, X, W, level in passage:
        values, stds = _values(effects, X, W, level)
        mean, variance = levels.ahead(now, gaps)
        evidence, log_density = levels.see(now, gaps, values, stds)
        for i, s in enumerate(now):
            day = _DayLevels(values[i], stds[i], gaps[i], mean[i], variance[i], log_density[i])
            step = followers[s].see(X[i], W[i], level[i], day, evidence[i])
            if step is not None:
                levels.restart(int(s), step.alike)
                passage.information[s] = _reopened(passage.information[s], passage.D, step.variance)
    final = State(passage.mean, passage.information).covariance
    return [follower.course(passage.mean[s], final[s]) for s, follower in enumerate(followers)]


class _Passage:
    """Estimates of robots, day by day, and how each day differs from them along the directions of the effects."""

    def __init__(
        self, robots: Sequence[Sequence[Day]], hierarchy: Hierarchy, effects: Sequence[Effect], walk: Float
    ) -> None:
        self.robots, self.hierarchy, self.walk = robots, hierarchy, walk
        self.D = np.concatenate([effect.D for effect in effects], axis=1)
        self.project = _projections(hierarchy, effects)
        state = State.new(hierarchy, len(robots))
        self.mean, self.information = state.mean.copy(), state.information.copy()

    def __iter__(self) -> Iterator[tuple[Int, Float, Float, Float, Float]]:
        """Yield for each day the robots, days since their log before, scores X, W and levels (S, r) before the day."""
        for step in range(max(map(len, self.robots))):
            now = np.array([s for s, robot in enumerate(self.robots) if step < len(robot)])
            pairs = [(self.robots[s][max(step - 1, 0)], self.robots[s][step]) for s in now]
            gaps = np.array([float((day.day - earlier.day).days) for earlier, day in pairs])
            A = np.array([day.A for _, day in pairs])
            h = np.array([day.h for _, day in pairs])
            before = State(self.mean[now], self.information[now]).later(self.walk * gaps[:, None])
            X, W = _scores(before.mean, before.covariance, self.hierarchy, A, h, self.D)
            after = before.after(self.hierarchy, A, h)
            self.mean[now], self.information[now] = after.mean, after.information
            yield now, gaps, X, W, before.mean @ self.project.T


def _parts(effects: Sequence[Effect]) -> list[slice]:
    """Return the places of each effect among the r quantities of all effects."""
    ends = np.cumsum([0, *(len(effect.spread) for effect in effects)])
    return [slice(int(a), int(b)) for a, b in pairwise(ends)]


def _projections(hierarchy: Hierarchy, effects: Sequence[Effect]) -> Float:
    """Return (r, m) projections from x to all quantities of the effects, weighted by the variances between robots."""
    lines = []
    for effect in effects:
        weighted = effect.D / hierarchy.serial[:, None]
        lines.append(np.linalg.lstsq(weighted.T @ effect.D, weighted.T, rcond=None)[0])
    return np.concatenate(lines).astype(np.float64)


def projection(hierarchy: Hierarchy, effects: Sequence[Effect]) -> Float:
    """Return (K, m) projections from x to the size of each effect, weighted by the variances between robots."""
    return np.asarray(_projections(hierarchy, effects)[[part.start for part in _parts(effects)]])


def state_walk(hierarchy: Hierarchy, effects: Sequence[Effect], scatter: Scatter) -> Float:
    """Return (m,) variances by which x_serial walks in a calendar day; only what varies from day to day walks.

    The quantities of one kind walk alike, in proportion to their variance from day to day.
    """
    variance = scatter.walk * (scatter.scale * scatter.std) ** 2
    daily = _projections(hierarchy, effects) ** 2 @ hierarchy.day
    walk = np.zeros(len(hierarchy.day))
    for kind in ("friction", "gain", "offset"):
        parts = [
            (part.start, effect.D)
            for part, effect in zip(_parts(effects), effects, strict=True)
            if effect.kind == kind
        ]
        if parts:
            ratio = float(np.median([variance[k] / max(daily[k], 1e-300) for k, _ in parts]))
            moves = np.any([D.any(axis=1) for _, D in parts], axis=0)
            walk[moves] = np.maximum(walk[moves], ratio * hierarchy.day[moves])
    return walk


def typical_std(robots: Sequence[Sequence[Day]], hierarchy: Hierarchy, effects: Sequence[Effect]) -> Float:
    """Return (r,) the median standard deviations of a day's quantities if the robot's state is known."""
    sample = spread_out([day for days in robots for day in days], SAMPLE_ROBOTS)
    m = len(hierarchy.mean)
    D = np.concatenate([effect.D for effect in effects], axis=1)
    known = np.zeros((len(sample), m)), np.zeros((len(sample), m, m))
    A, h = np.array([day.A for day in sample]), np.array([day.h for day in sample])
    X, W = _scores(*known, hierarchy, A, h, D)
    return np.asarray(np.median(_values(effects, X, W, np.zeros_like(X))[1], axis=0))


def _values(effects: Sequence[Effect], X: Float, W: Float, level: Float) -> tuple[Float, Float]:
    """Return quantities (S, r) of a day and their standard deviations; others of the same effect vary within spread."""
    score, information = X.copy(), np.einsum("sii->si", W).copy()
    for effect, part in zip(effects, _parts(effects), strict=True):
        places = np.arange(part.start, part.stop)
        for place in places if len(places) > 1 else ():
            others = places[places != place]
            B = W[:, others[:, None], others] + np.diag(effect.spread[others - part.start] ** -2.0)
            solved = np.linalg.solve(B, np.stack([X[:, others], W[:, others, place]], axis=2))
            score[:, place] -= np.einsum("si,si->s", W[:, place, others], solved[:, :, 0])
            information[:, place] -= np.einsum("si,si->s", W[:, place, others], solved[:, :, 1])
    # A day that does not show a quantity has a large but finite standard deviation.
    spread = np.concatenate([effect.spread for effect in effects])
    information = np.maximum(information, (1e-3 / spread) ** 2)
    return level + score / information, 1.0 / np.sqrt(information)


def _scores(
    mean: Float, covariance: Float, hierarchy: Hierarchy, A: Float, h: Float, D: Float
) -> tuple[Float, Float]:
    """Return score X (S, r) and information W (S, r, r) of effects that begin on this day: X ~ N(W a, W).

    With Q = P + diag day and the day's A and h: W = D' A (I + Q A)^-1 D and X = D' (I + A Q)^-1 (h - A m).
    """
    Q = covariance + np.diag(hierarchy.day)
    size = np.sqrt(np.einsum("sii->si", Q))
    scale = size[:, :, None]
    # I + L' A L with L L' = Q is positive definite in any units.
    L = scale * np.linalg.cholesky(Q / (scale * size[:, None, :]))
    LA = np.swapaxes(L, 1, 2) @ A
    B = np.eye(A.shape[1]) + LA @ L
    rest = h - np.einsum("sij,sj->si", A, mean)
    AD, LD = A @ D, LA @ D
    solved = np.linalg.solve(B, np.concatenate([LD, np.einsum("sji,sj->si", L, rest)[:, :, None]], axis=2))
    W = D.T @ AD - np.swapaxes(LD, 1, 2) @ solved[:, :, :-1]
    X = rest @ D - np.einsum("sij,si->sj", LD, solved[:, :, -1])
    return np.asarray(X), np.asarray(W)


@dataclass(frozen=True, eq=False)
class _Step:
    """A detected step: the quantities (r,) that show it, and the variance (r,) by which each may have changed."""

    alike: Bool
    variance: Float


@dataclass(frozen=True, eq=False)
class _DayLevels:
    """The r quantities on a day: measured, standard deviations by the model, and their prediction without a change."""

    values: Float
    stds: Float
    gap: float
    mean: Float
    variance: Float
    log_density: Float


def _reopened(information: Float, D: Float, variance: Float) -> Float:
    """Reduce the information about a robot that has changed, so that the next days determine its state."""
    covariance = inverse(information[None])[0] + (D * variance) @ D.T
    return np.asarray(inverse(covariance[None])[0])


class _Follower:
    """Tests of one robot, day by day."""

    def __init__(
        self, serial: str, days: Sequence[Day], effects: Sequence[Effect], scatter: Scatter, limit: float
    ) -> None:
        self.serial, self.days, self.effects, self.limit = serial, [day.day for day in days], effects, limit
        self.scatter, self.parts = scatter, _parts(effects)
        self.first = np.array([part.start for part in self.parts])
        self.history: list[_DayLevels] = []
        self.shift: list[Float] = []
        self.std: list[Float] = []
        self.z: list[Float] = []
        self.level: list[Float] = []
        self.alarms: list[Alarm] = []
        self.spread = np.concatenate([effect.spread for effect in effects])

    def see(self, X: Float, W: Float, level: Float, day: _DayLevels, evidence: Float) -> _Step | None:
        """Process one more day, with level (r,) before it; return a detected change, or None."""
        first = self.first
        diagonal = np.maximum(np.diag(W)[first], 1e-300)
        self.shift.append(X[first] / diagonal)
        self.std.append(1.0 / np.sqrt(diagonal))
        self.z.append(X[first] / np.sqrt(diagonal))
        self.level.append(level[first] + self._likely(X, W, first, diagonal))
        self.history.append(day)
        return self._tested(evidence)

    def _likely(self, X: Float, W: Float, first: Int, diagonal: Float) -> Float:
        """Return (K,) the posterior sizes of the effects on this day, given their spread."""
        sizes = X[first] / (diagonal + np.array([effect.spread[0] for effect in self.effects]) ** -2)
        for i, (effect, part) in enumerate(zip(self.effects, self.parts, strict=True)):
            if len(effect.spread) > 1:
                sizes[i] = np.linalg.solve(W[part, part] + np.diag(effect.spread**-2), X[part])[0]
        return np.asarray(sizes)

    def _tested(self, evidence: Float) -> _Step | None:
        # Each effect has the same prior probability, whatever the number of its quantities.
        by_effect = np.array([float(np.mean(evidence[part])) for part in self.parts])
        total = float(np.mean(by_effect))
        if total < self.limit:
            return None
        by_effect = by_effect / by_effect.sum()
        order = np.argsort(-by_effect)
        best = int(order[0])
        effect, part = self.effects[best], self.parts[best]
        begun = [bool(np.isfinite(day.log_density[part]).all()) for day in self.history[-WINDOW:]]
        begin = len(self.history) - begun[::-1].index(False) if False in begun else len(self.history) - WINDOW
        steps = [self._starts(k, begin) for k in range(part.start, part.stop)]
        log = steps[int(np.argmax(evidence[part]))].log[:-1]
        chance = np.exp(log - log.max()) / np.exp(log - log.max()).sum()
        since = int(np.argmax(chance))
        inside = np.flatnonzero((np.cumsum(chance) >= 0.05) & (np.cumsum(chance[::-1])[::-1] >= 0.05))
        before = self.history[begin + since]
        level = np.array([step.mean[since] for step in steps])
        variance = np.array([step.variance[since] for step in steps])
        size, std = level - before.mean[part], np.sqrt(variance + before.variance[part])
        other = self.effects[int(order[1])] if len(order) > 1 else None
        self.alarms.append(
            Alarm(
                serial=self.serial,
                joint=effect.joint,
                effect=effect.kind,
                since=self.days[begin + since],
                earliest=self.days[begin + int(inside.min(initial=since))],
                latest=self.days[begin + int(inside.max(initial=since))],
                found=self.days[len(self.history) - 1],
                size=float(size[0]),
                std=float(std[0]),
                unit=effect.unit,
                probability=float(by_effect[best]),
                rival="" if other is None else f"{other.kind} {other.joint}".strip(),
                evidence=float(min(np.log10(total), 300.0)),
            )
        )
        # Quantities that look alike show the change, too; which of them has changed is for the next days to say.
        alike = evidence > WINDOW
        alike[part] = True
        variance = np.zeros(len(evidence))
        variance[part] = effect.spread**2 + (2.0 * size) ** 2
        return _Step(alike, variance)

    def _starts(self, k: int, begin: int) -> Starts:
        """Return the possible first days of a step of quantity k, from day `begin` on."""
        recent = self.history[begin:]
        values = np.array([day.values[k] for day in self.history[begin - 1 :]])
        stds, gaps = np.array([(day.stds[k], day.gap) for day in recent]).T
        mean, variance, log = np.array(
            [(day.mean[k], day.variance[k], day.log_density[k]) for day in recent]
        ).T
        return starts(self.scatter, k, float(self.spread[k]), values, stds, gaps, (mean, variance, log))

    def course(self, mean: Float, covariance: Float) -> Course:
        """Return the results of all days."""
        return Course(
            self.serial,
            tuple(self.days),
            np.array(self.shift),
            np.array(self.std),
            np.array(self.z),
            np.array(self.level),
            mean,
            covariance,
            tuple(self.alarms),
        )


@dataclass(frozen=True, eq=False)
class Calibration:
    """Threshold of the evidence, from the days of a type on which nothing changes.

    Attributes
    ----------
    scatter : Scatter
        Scatter of the r quantities of the effects.
    threshold : float
        Threshold of the evidence.
    rate : float
        False alarms per robot and year with that threshold, on the quiet robots' days in random order.
    days : int
        Number of days of quiet robots.

    """

    scatter: Scatter
    threshold: float
    rate: float
    days: int


def calibrate(
    robots: Sequence[Sequence[Day]], hierarchy: Hierarchy, effects: Sequence[Effect]
) -> Calibration:
    """Estimate scatter and threshold from the consecutive days of robots of a type.

    Parameters
    ----------
    robots : sequence of sequence of Day
        Days of each robot.
    hierarchy : Hierarchy
        Model of the type.
    effects : sequence of Effect
        The effects that are tested for.

    Returns
    -------
    Calibration
        Its threshold is at least BOUND.

    """
    scatter = Scatter.normal(typical_std(robots, hierarchy, effects))
    tested = sum(max(len(robot_days) - FIRST_DAYS, 0) for robot_days in robots)
    if tested < LEAST_DAYS:
        values, stds, gaps = _course_values(robots, hierarchy, effects, scatter)
        innovations, _ = _innovations(effects, scatter, values, stds, gaps)
        # With few days only a wider scatter than that of the model is believed.
        scale = np.nanmedian(np.abs(innovations), axis=(0, 1)) / _MEDIAN if tested else 1.0
        return Calibration(replace(scatter, scale=np.fmax(scale, scatter.scale)), BOUND, FALSE_ALARM, tested)
    values, stds, gaps = _course_values(robots, hierarchy, effects, scatter)
    scatter = fit_scatter(values, stds, gaps, scatter.std, _CHANGED)
    # Once more: the estimates of robots walk as the fleet does, and robots that have changed are left out as a whole.
    values, stds, gaps = _course_values(robots, hierarchy, effects, scatter)
    _, quiet = _innovations(effects, scatter, values, stds, gaps)
    values, stds, gaps = values[quiet], stds[quiet], gaps[quiet]
    scatter = fit_scatter(values, stds, gaps, scatter.std, 0.0)
    innovations, quiet = _innovations(effects, scatter, values, stds, gaps)
    pool = [rows[np.isfinite(rows[:, 0])] for rows in innovations[quiet]]
    # Without the centre of each robot's errors, which would become a trend where its days are repeated. One outlier
    # would move a mean, and so all other days.
    pool = [rows - np.median(rows, axis=0) for rows in pool if len(rows)]
    days_known = sum(len(rows) for rows in pool)
    if not pool:
        return Calibration(scatter, BOUND, FALSE_ALARM, 0)
    peaks = np.sort(_null_peaks(effects, scatter, pool).ravel())
    # Above a high quantile the logarithms of peaks are exponential: under the model, P(peak > x) ~ 1 / x.
    start = int((1.0 - _TAIL) * len(peaks))
    base = float(peaks[start])
    decay = float(np.mean(peaks[start:] - base))
    blocks = DAYS_A_YEAR / _BLOCK
    limit = max(np.log(BOUND), base + decay * float(np.log(_TAIL * blocks / FALSE_ALARM)))
    rate = _TAIL * blocks * float(np.exp(-(limit - base) / decay))
    return Calibration(scatter, max(float(np.exp(limit)), BOUND), rate, days_known)


def _total(effects: Sequence[Effect], evidence: Float) -> Float:
    """Return the evidence (S,) for any change from that of each quantity (S, r)."""
    return np.asarray(np.mean([evidence[:, part].mean(axis=1) for part in _parts(effects)], axis=0))


def _course_values(
    robots: Sequence[Sequence[Day]], hierarchy: Hierarchy, effects: Sequence[Effect], scatter: Scatter
) -> tuple[Float, Float, Float]:
    """Return values and standard deviations (S, T, r) and gaps (S, T) of robots, nan after their last day."""
    shape = len(robots), max(len(days) for days in robots), len(scatter.std)
    values, stds, gaps = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape[:2], np.nan)
    walk = state_walk(hierarchy, effects, scatter)
    for batch in batches(iter(range(len(robots))), SIDE_BY_SIDE):
        passage = _Passage([robots[s] for s in batch], hierarchy, effects, walk)
        for t, (now, gap, X, W, level) in enumerate(passage):
            rows = np.array(batch)[now]
            values[rows, t], stds[rows, t] = _values(effects, X, W, level)
            gaps[rows, t] = gap
    return values, stds, gaps


def _innovations(
    effects: Sequence[Effect], scatter: Scatter, values: Float, stds: Float, gaps: Float
) -> tuple[Float, Bool]:
    """Return errors of one-day predictions over stds (S, T, r), nan on first days, and which robots are quiet (S,).

    A robot is quiet if its evidence stays below what one of ten unchanged robots reaches, but for two days.
    """
    levels = Levels(scatter, np.concatenate([effect.spread for effect in effects]), len(values))
    innovations, totals = np.full(values.shape, np.nan), np.zeros(values.shape[:2])
    for t in range(values.shape[1]):
        now = np.flatnonzero(np.isfinite(gaps[:, t]))
        level, _ = levels.ahead(now, gaps[now, t])
        predicted = levels.predicted(now, gaps[now, t], level)
        evidence, _ = levels.see(now, gaps[now, t], values[now, t], stds[now, t])
        totals[now, t] = _total(effects, evidence)
        if t >= FIRST_DAYS:
            innovations[now, t] = (values[now, t] - predicted) / stds[now, t]
    lasting = np.minimum(totals[:, 2:], np.minimum(totals[:, 1:-1], totals[:, :-2]))
    return innovations, lasting.max(axis=1, initial=0.0) < values.shape[1] / _CHANGED


def _null_peaks(effects: Sequence[Effect], scatter: Scatter, pool: Sequence[Float]) -> Float:
    """Return the greatest log-evidence of blocks of days on robots whose days have a random order.

    In random order a change does not persist, and the tails remain. A day follows the prediction from the days before
    it, so that levels walk as they do on the robots.
    """
    rng = np.random.default_rng(0)
    count = _BLOCKS * _BLOCK + FIRST_DAYS
    days = np.array([_shuffled(pool[i % len(pool)], count, rng) for i in range(_NULL_ROBOTS)])
    spread = np.concatenate([effect.spread for effect in effects])
    levels, now = Levels(scatter, spread, len(days)), np.arange(len(days))
    peaks = np.full((len(days), _BLOCKS), -np.inf)
    stds = np.tile(scatter.std, (len(days), 1))
    for t in range(count):
        gaps = np.full(len(days), float(t > 0))
        level, _ = levels.ahead(now, gaps)
        values = levels.predicted(now, gaps, level) + days[:, t] * stds
        evidence, _ = levels.see(now, gaps, values, stds)
        if t >= FIRST_DAYS:
            block = (t - FIRST_DAYS) // _BLOCK
            total = np.log(np.maximum(_total(effects, evidence), 1e-300))
            peaks[:, block] = np.maximum(peaks[:, block], total)
    return peaks


def _shuffled(rows: Float, count: int, rng: np.random.Generator) -> Float:
    """Return `count` rows: all rows in random order, as often as needed."""
    return np.concatenate([rows[rng.permutation(len(rows))] for _ in range(-(-count // len(rows)))])[:count]


# Tables of a store: types, robots, days, alarms. The logs are not read.

# Robots, and days of each, from which variances of a type are estimated; a variance is then known to 5 %.
SAMPLE_ROBOTS, SAMPLE_DAYS = 48, 24
# Robots whose course over time pages may show.
_SHOWN = 200
# Consecutive latest days of a robot from which scatter and threshold are calibrated.
RECENT_DAYS = 60
# Quiet days below which the probability of a false alarm is uncertain: a robot-year.
LEAST_DAYS = 365
_LOG_COLUMNS = (
    "type", "serial", "time", "path", "trajectory", "status", "code", "message", "again", "seconds", "sha256",
    "warnings", "relative",
)  # fmt: skip

_ALARM_COLUMNS = (
    "type", "serial", "joint", "effect", "since", "earliest", "latest", "found", "size", "std", "unit", "probability",
    "rival", "evidence",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class TypeAnalysis:
    """Analysis of one robot type.

    Attributes
    ----------
    model : TypeModel
        Model of the type.
    weights : Weights
        Noise of its logs.
    hierarchy : Hierarchy
        Mean and variances of its parameters.
    effects : tuple of Effect
        The K tested effects.
    calibration : Calibration
        Scatter of days and threshold of the evidence.
    logs, failed, robots : int
        Numbers of logs, failed logs and robots.
    courses : tuple of Course
        Courses that a page shows, those with alarms first.
    alarms : tuple of Alarm
        Alarms of all robots.

    """

    model: TypeModel
    weights: Weights
    hierarchy: Hierarchy
    effects: tuple[Effect, ...]
    calibration: Calibration
    logs: int
    failed: int
    robots: int
    courses: tuple[Course, ...]
    alarms: tuple[Alarm, ...]

    @property
    def trusted(self) -> bool:
        """Whether there are enough quiet days to calibrate the probability of a false alarm."""
        return self.calibration.days >= LEAST_DAYS

    def data(self) -> dict[str, Any]:
        """Return figures and alarms as plain data."""
        return {
            "type": self.model.name,
            "robots": self.robots,
            "logs": self.logs,
            "failed": self.failed,
            "trusted": self.trusted,
            "false_alarms_a_robot_year": self.calibration.rate,
            "threshold": self.calibration.threshold,
            "quiet_days": self.calibration.days,
            "alarms": [
                {n: str(v) if isinstance(v, date) else v for n, v in vars(alarm).items()}
                for alarm in self.alarms
            ],
        }


def analyse(store: FleetStore) -> tuple[TypeAnalysis, ...]:
    """Analyse all types of a store and write its folder tables/; docs/fleet.md explains the columns.

    Parameters
    ----------
    store : FleetStore
        The store; its logs are not read.

    Returns
    -------
    tuple of TypeAnalysis
        One for each type with a processed log.

    Raises
    ------
    ResourceError
        If the tables cannot be written.

    """
    folder = store.folder / "tables"
    folder.mkdir(exist_ok=True)
    with ExitStack() as stack:
        names = ("logs", "parameters", "robots", "states", "days", "alarms")
        paths = stack.enter_context(staged_files(*(folder / f"{name}.parquet" for name in names)))
        tables = {
            name: _Table(path, _ALARM_COLUMNS if name == "alarms" else _LOG_COLUMNS)
            for name, path in zip(names, paths, strict=True)
        }
        analyses = [analysis for name in store.types if (analysis := _type(store, name, tables)) is not None]
        for table in tables.values():
            table.close()
    return tuple(analyses)


def _type(store: FleetStore, name: str, tables: Mapping[str, _Table]) -> TypeAnalysis | None:
    model = store.model(name)
    serials = store.serials(name)
    sample = [store.robot(name, serial) for serial in spread_out(serials, SAMPLE_ROBOTS)]
    sample = [[row for row in rows if is_done(row)] for rows in sample]
    rows = [row for rows in sample for row in spread_out(rows, SAMPLE_DAYS)]
    if not rows:
        for serial in serials:
            tables["logs"].add(_log_columns(store.robot(name, serial)))
        return None
    weights = Weights.of(model, rows)
    sampled_days = [spread_out(days(model, weights, rows), SAMPLE_DAYS) for rows in sample if rows]
    daily = np.append(model.daily, np.ones(model.robot.n, dtype=np.bool_))
    hierarchy = fit_hierarchy(sampled_days, model.robot.n, daily)
    weights = weights.widened(hierarchy.noise)
    sampled_days = [[day.widened(hierarchy.noise) for day in robot_days] for robot_days in sampled_days]
    effects = effects_of(model, weights)
    recent = [days(model, weights, rows)[-RECENT_DAYS:] for rows in sample if rows]
    calibration = calibrate(recent, hierarchy, effects)
    tables["parameters"].add(_parameter_columns(model, hierarchy))
    logs = failed = 0
    shown: list[Course] = []
    quiet: list[Course] = []
    alarms: list[Alarm] = []
    for batch in batches(iter(serials), SIDE_BY_SIDE):
        stored = [(serial, store.robot(name, serial)) for serial in batch]
        for _, rows in stored:
            tables["logs"].add(_log_columns(rows))
        logs += sum(len(rows) for _, rows in stored)
        failed += sum(not is_done(row) for _, rows in stored for row in rows)
        of_days = [
            (serial, robot_days) for serial, rows in stored if (robot_days := days(model, weights, rows))
        ]
        for course in (
            follow(of_days, hierarchy, effects, calibration.scatter, calibration.threshold) if of_days else ()
        ):
            alarms += course.alarms
            (shown if course.alarms else quiet).append(course)
            tables["days"].add(_day_columns(model, effects, course))
            tables["states"].add(_state_columns(model, course))
            tables["alarms"].add(_alarm_columns(model, course.alarms))
            tables["robots"].add(_robot_columns(model, dict(stored)[course.serial], course))
        del shown[_SHOWN:], quiet[_SHOWN:]
    return TypeAnalysis(
        model,
        weights,
        hierarchy,
        effects,
        calibration,
        logs,
        failed,
        len(serials),
        tuple((shown + quiet)[:_SHOWN]),
        tuple(alarms),
    )


def _log_columns(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: [row[name] for row in rows] for name in _LOG_COLUMNS}


def _names(model: TypeModel) -> tuple[list[str], list[str]]:
    gains = [f"gain {joint}" for joint in model.robot.joint_names]
    return [*model.names, *gains], [*model.units, *["1"] * len(gains)]


def _start(model: TypeModel) -> Float:
    return np.concatenate([model.value, np.zeros(model.robot.n)])


def _parameter_columns(model: TypeModel, hierarchy: Hierarchy) -> dict[str, Any]:
    names, units = _names(model)
    return {
        "type": [model.name] * len(names),
        "name": names,
        "unit": units,
        "model": _start(model),
        "value": _start(model) + hierarchy.mean,
        "std_robots": np.sqrt(hierarchy.serial),
        "std_days": np.sqrt(hierarchy.day),
    }


def _state_columns(model: TypeModel, course: Course) -> dict[str, Any]:
    names, units = _names(model)
    return {
        "type": [model.name] * len(names),
        "serial": [course.serial] * len(names),
        "name": names,
        "unit": units,
        "value": _start(model) + course.mean,
        "std": np.sqrt(np.diag(course.covariance)),
    }


def _day_columns(model: TypeModel, effects: Sequence[Effect], course: Course) -> dict[str, Any]:
    T, K = len(course.days), len(effects)
    return {
        "type": [model.name] * (T * K),
        "serial": [course.serial] * (T * K),
        "day": [day for day in course.days for _ in range(K)],
        "joint": [effect.joint for effect in effects] * T,
        "effect": [effect.kind for effect in effects] * T,
        "unit": [effect.unit for effect in effects] * T,
        "level": course.level.ravel().astype(np.float32),
        "shift": course.shift.ravel().astype(np.float32),
        "std": course.std.ravel().astype(np.float32),
        "z": course.z.ravel().astype(np.float32),
    }


def _alarm_columns(model: TypeModel, alarms: Sequence[Alarm]) -> dict[str, Any]:
    return {"type": [model.name] * len(alarms)} | {
        name: [getattr(alarm, name) for alarm in alarms] for name in _ALARM_COLUMNS[1:]
    }


def _robot_columns(model: TypeModel, rows: Sequence[Mapping[str, Any]], course: Course) -> dict[str, Any]:
    done = [row for row in rows if is_done(row)]
    return {
        "type": [model.name],
        "serial": [course.serial],
        "logs": [len(rows)],
        "failed": [len(rows) - len(done)],
        "days": [len(course.days)],
        "first": [course.days[0]],
        "last": [course.days[-1]],
        "relative": [float(np.median([max(row["relative"]) for row in done]))],
        "alarms": [len(course.alarms)],
    }


class _Table:
    """A Parquet file to which rows are added; `columns` are the names of the columns if no row is added."""

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        self.path, self.columns = path, columns
        self._parts: list[Any] = []
        self._rows = 0
        self._writer: Any = None

    def add(self, columns: Mapping[str, Any]) -> None:
        """Add rows, given by columns of equal length."""
        import pyarrow as pa

        rows = len(next(iter(columns.values())))
        if rows:
            schema = None if self._writer is None else self._writer.schema
            self._parts.append(pa.table(dict(columns), schema=schema))
            self._rows += rows
            if self._rows > _ROW_GROUP:
                self._flush()

    def close(self) -> None:
        """Write the remaining rows and close the file."""
        import pyarrow as pa

        if self._writer is None and not self._parts:
            text = pa.array([], pa.string())
            self._parts.append(pa.table(dict.fromkeys(self.columns, text)))
        self._flush()
        self._writer.close()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        if not self._parts:
            return
        table = pa.concat_tables(self._parts, promote_options="permissive")
        if self._writer is None:
            self._writer = pq.ParquetWriter(self.path, table.schema, compression="zstd")
        self._writer.write_table(table)
        self._parts, self._rows = [], 0


# Rows written at a time.
_ROW_GROUP = 250_000
