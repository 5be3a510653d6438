"""Sequential tests for changes of a robot's friction, gain, offset, stiffness and load, with the day of the change.

Each day a robot is compared with the prediction from its earlier days and its type. The test of an effect is a
Shiryaev-Roberts sum of Bayes factors over all days on which the change may have begun. The probability of a false alarm
is bounded.
Source: Shiryaev 1963; Roberts 1966; Shin, Ramdas and Rinaldo 2022 (e-detectors).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Float, Int, dataclass, staged_files
from dynid.fleet.plan import TypeModel
from dynid.fleet.pool import Day, Hierarchy, State, Weights, batches, days, fit_hierarchy, inverse, spread_out
from dynid.fleet.store import FleetStore, is_done

# Probability of an alarm on an unchanged robot, and the number of tested days that it refers to.
FALSE_ALARM, DAYS_A_YEAR = 0.01, 365
# Days: a change is looked for within this many latest days.
WINDOW = 60
# Standard deviations of expected changes: friction and gain (relative), offset (relative to the joint's torque),
# deflection under that torque (rad), mass of a load (relative to the robot's mass) and its distance (m).
FRICTION, GAIN, OFFSET, DEFLECTION, LOAD, DISTANCE = 0.10, 0.05, 0.02, 1e-3, 0.02, 0.1
# Robots that are processed together.
SIDE_BY_SIDE = 32
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
    inflation: Float,
    threshold: float | None = None,
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
    inflation : ndarray, shape (K,)
        Factors on the standard deviations of the tests, see `inflation_of`.
    threshold : float, optional
        Threshold of the evidence; by default that of the probability FALSE_ALARM within DAYS_A_YEAR tested days.

    Returns
    -------
    list of Course
        One for each robot.

    """
    limit = DAYS_A_YEAR / FALSE_ALARM if threshold is None else threshold
    followers = [_Follower(serial, days, effects, limit) for serial, days in robots]
    state = State.new(hierarchy, len(robots))
    mean, information = state.mean.copy(), state.information.copy()
    D = np.concatenate([effect.D for effect in effects], axis=1)
    project = projection(hierarchy, effects)
    for step in range(max(len(dates) for _, dates in robots)):
        now = [s for s, (_, dates) in enumerate(robots) if step < len(dates)]
        A = np.array([robots[s][1][step].A for s in now])
        h = np.array([robots[s][1][step].h for s in now])
        before = State(mean[now], information[now])
        X, W = _scores(before, hierarchy, A, h, D)
        after = before.after(hierarchy, A, h)
        mean[now], information[now] = after.mean, after.information
        for i, s in enumerate(now):
            moved = followers[s].see(X[i], W[i], inflation, project @ before.mean[i])
            if moved is not None:
                information[s] = _reopened(information[s], *moved)
    final = State(mean, information).covariance
    return [follower.course(mean[s], final[s]) for s, follower in enumerate(followers)]


def projection(hierarchy: Hierarchy, effects: Sequence[Effect]) -> Float:
    """Return (K, m) projections from x to the size of each effect, weighted by the variances between robots."""
    lines = []
    for effect in effects:
        weighted = effect.D / hierarchy.serial[:, None]
        lines.append(np.linalg.lstsq(weighted.T @ effect.D, weighted.T, rcond=None)[0][0])
    return np.asarray(lines, dtype=np.float64)


def inflation_of(courses: Sequence[Course]) -> Float:
    """Return (K,) the scatter of tests relative to the model's prediction, by the median, at least 1."""
    z = np.concatenate([course.z[1:] for course in courses])
    if not len(z):
        return np.ones(courses[0].z.shape[1])
    return np.asarray(np.maximum(np.median(np.abs(z), axis=0) / _MEDIAN, 1.0))


def _scores(state: State, hierarchy: Hierarchy, A: Float, h: Float, D: Float) -> tuple[Float, Float]:
    """Return score X (S, r) and information W (S, r, r) of effects that begin on this day: X ~ N(W a, W).

    With Q = P + diag day and the day's A and h: W = D' A (I + Q A)^-1 D and X = D' (I + A Q)^-1 (h - A m).
    """
    Q = state.covariance + np.diag(hierarchy.day)
    size = np.sqrt(np.einsum("sii->si", Q))
    scale = size[:, :, None]
    # I + L' A L with L L' = Q is positive definite in any units.
    L = scale * np.linalg.cholesky(Q / (scale * size[:, None, :]))
    LA = np.swapaxes(L, 1, 2) @ A
    B = np.eye(A.shape[1]) + LA @ L
    rest = h - np.einsum("sij,sj->si", A, state.mean)
    AD, LD = A @ D, LA @ D
    solved = np.linalg.solve(B, np.concatenate([LD, np.einsum("sji,sj->si", L, rest)[:, :, None]], axis=2))
    W = D.T @ AD - np.swapaxes(LD, 1, 2) @ solved[:, :, :-1]
    X = rest @ D - np.einsum("sij,si->sj", LD, solved[:, :, -1])
    return np.asarray(X), np.asarray(W)


def _reopened(information: Float, D: Float, a: Float, spread: Float) -> Float:
    """Reduce the information about a robot that has changed by about D a, so that the next days determine its state."""
    covariance = inverse(information[None])[0] + (D * (spread**2 + (2.0 * a) ** 2)) @ D.T
    return np.asarray(inverse(covariance[None])[0])


class _Follower:
    """Tests of one robot, day by day."""

    def __init__(self, serial: str, days: Sequence[Day], effects: Sequence[Effect], limit: float) -> None:
        self.serial, self.days, self.effects, self.limit = serial, [day.day for day in days], effects, limit
        self.single = [i for i, effect in enumerate(effects) if len(effect.spread) == 1]
        ends = np.cumsum([0, *(len(effect.spread) for effect in effects)])
        self.parts = [slice(a, b) for a, b in pairwise(ends)]
        self.X: list[Float] = []
        self.W: list[Float] = []
        self.shift: list[Float] = []
        self.std: list[Float] = []
        self.z: list[Float] = []
        self.level: list[Float] = []
        self.alarms: list[Alarm] = []
        self.start = 0

    def see(self, X: Float, W: Float, inflation: Float, level: Float) -> tuple[Float, Float, Float] | None:
        """Process one more day, with level (K,) before it; return D, a and spread of a detected change, or None."""
        first = np.array([part.start for part in self.parts])
        diagonal = np.maximum(np.diag(W)[first], 1e-300)
        self.shift.append(X[first] / diagonal)
        self.std.append(1.0 / np.sqrt(diagonal))
        self.z.append(X[first] / np.sqrt(diagonal))
        self.level.append(level + self._likely(X, W, first, diagonal))
        factor = np.concatenate(
            [np.full(len(effect.spread), f) for effect, f in zip(self.effects, inflation, strict=True)]
        )
        self.X.append(X / factor**2)
        self.W.append(W / np.outer(factor, factor))
        return self._tested()

    def _likely(self, X: Float, W: Float, first: Int, diagonal: Float) -> Float:
        """Return (K,) the posterior sizes of the effects on this day, given their spread."""
        sizes = X[first] / (diagonal + np.array([effect.spread[0] for effect in self.effects]) ** -2)
        for i, (effect, part) in enumerate(zip(self.effects, self.parts, strict=True)):
            if len(effect.spread) > 1:
                sizes[i] = np.linalg.solve(W[part, part] + np.diag(effect.spread**-2), X[part])[0]
        return np.asarray(sizes)

    def _tested(self) -> tuple[Float, Float, Float] | None:
        begin = max(self.start, len(self.X) - WINDOW)
        # Sums from each possible first day of the change to the last day.
        X = np.cumsum(np.array(self.X[begin:])[::-1], axis=0)[::-1]
        W = np.cumsum(np.array(self.W[begin:])[::-1], axis=0)[::-1]
        logs = np.array([self._bayes(i, X, W) for i in range(len(self.effects))])
        top = float(logs.max())
        evidence = float(np.exp(logs - top).sum()) / len(self.effects)
        if np.log(evidence) + top < np.log(self.limit):
            return None
        share = np.exp(logs - top) / np.exp(logs - top).sum()
        by_effect = share.sum(axis=1)
        order = np.argsort(-by_effect)
        best = int(order[0])
        chance = share[best] / share[best].sum()
        since = int(np.argmax(chance))
        inside = np.flatnonzero((np.cumsum(chance) >= 0.05) & (np.cumsum(chance[::-1])[::-1] >= 0.05))
        effect, part = self.effects[best], self.parts[best]
        P = np.linalg.inv(W[since][part, part] + np.diag(effect.spread**-2))
        a = P @ X[since][part]
        other = self.effects[int(order[1])] if len(order) > 1 else None
        self.alarms.append(
            Alarm(
                serial=self.serial,
                joint=effect.joint,
                effect=effect.kind,
                since=self.days[begin + since],
                earliest=self.days[begin + int(inside.min(initial=since))],
                latest=self.days[begin + int(inside.max(initial=since))],
                found=self.days[len(self.X) - 1],
                size=float(a[0]),
                std=float(np.sqrt(P[0, 0])),
                unit=effect.unit,
                probability=float(by_effect[best]),
                rival="" if other is None else f"{other.kind} {other.joint}".strip(),
                evidence=float(min(np.log10(evidence) + top / np.log(10.0), 300.0)),
            )
        )
        self.start = len(self.X)
        return effect.D, a, effect.spread

    def _bayes(self, i: int, X: Float, W: Float) -> Float:
        """Return (T,) log Bayes factors of an effect that began on each day: N(0, W + W S W) over N(0, W)."""
        part, spread = self.parts[i], self.effects[i].spread
        x, w = X[:, part], W[:, part, part]
        if len(spread) == 1:
            w, s = w[:, 0, 0], spread[0]
            return np.asarray(-0.5 * np.log1p(s * s * w) + 0.5 * x[:, 0] ** 2 / (w + s**-2))
        B = np.eye(len(spread)) + spread[:, None] * w * spread
        y = (x * spread)[:, :, None]
        square = np.einsum("tij,tij->t", y, np.linalg.solve(B, y))
        return np.asarray(-0.5 * np.linalg.slogdet(B)[1] + 0.5 * square)

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


# Tables of a store: types, robots, days, alarms. The logs are not read.

# Robots, and days of each, from which variances of a type are estimated; a variance is then known to 5 %.
SAMPLE_ROBOTS, SAMPLE_DAYS = 48, 24
# Robots whose course over time pages may show.
_SHOWN = 200
# Days minus robots below which variances, and so the probability of a false alarm, are uncertain.
LEAST_DAYS = 30
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
    inflation : ndarray, shape (K,)
        Factors on the standard deviations of the tests.
    sampled : tuple of int
        Numbers of robots and days from which the variances come.
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
    inflation: Float
    sampled: tuple[int, int]
    logs: int
    failed: int
    robots: int
    courses: tuple[Course, ...]
    alarms: tuple[Alarm, ...]

    @property
    def trusted(self) -> bool:
        """Whether there are enough days for the stated probability of a false alarm."""
        return self.sampled[1] - self.sampled[0] >= LEAST_DAYS

    def data(self) -> dict[str, Any]:
        """Return figures and alarms as plain data."""
        return {
            "type": self.model.name,
            "robots": self.robots,
            "logs": self.logs,
            "failed": self.failed,
            "trusted": self.trusted,
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
    trial = follow(_numbered(sampled_days), hierarchy, effects, np.ones(len(effects)), threshold=np.inf)
    inflation = inflation_of(trial)
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
        for course in follow(of_days, hierarchy, effects, inflation) if of_days else ():
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
        inflation,
        (len(sampled_days), sum(len(robot_days) for robot_days in sampled_days)),
        logs,
        failed,
        len(serials),
        tuple((shown + quiet)[:_SHOWN]),
        tuple(alarms),
    )


def _numbered(robots: Sequence[Sequence[Day]]) -> list[tuple[str, Sequence[Day]]]:
    return [(str(i), robot) for i, robot in enumerate(robots)]


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
