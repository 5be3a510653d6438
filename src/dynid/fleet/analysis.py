"""What a store says of its fleet, as tables: types, robots, days, alarms. The logs are not touched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base import Float, dataclass, staged_files
from dynid.fleet.drift import (
    SIDE_BY_SIDE,
    Alarm,
    Course,
    Effect,
    effects_of,
    follow,
    inflation_of,
)
from dynid.fleet.model import TypeModel
from dynid.fleet.pool import Day, Hierarchy, Weights, batches, days, fit_hierarchy, spread_out
from dynid.fleet.store import FleetStore, is_done

# Robots and days of each, evenly spread, from which a type's variances are found: a variance is then known to 5 %.
SAMPLE_ROBOTS, SAMPLE_DAYS = 48, 24
# Robots of which pages show the course over time.
_SHOWN = 200
# Robots and days below which variances are guesses, and with them the chance of a false alarm.
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
    """What was found of one type.

    inflation: (K,) by effect, see `drift.follow`.    sampled: robots and days that variances come from.
    logs, failed: their number.    courses: of robots with alarms first, then others, as many as a page shows.
    robots: their number.    alarms: of all robots.
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
        """Whether there are days enough for the chance of a false alarm to be what it is said to be."""
        return self.sampled[1] - self.sampled[0] >= LEAST_DAYS

    def data(self) -> dict[str, Any]:
        """Figures and alarms as plain data."""
        return {
            "type": self.model.name,
            "robots": self.robots,
            "logs": self.logs,
            "failed": self.failed,
            "trusted": self.trusted,
            "alarms": [
                {n: str(v) if isinstance(v, date) else v for n, v in vars(one).items()} for one in self.alarms
            ],
        }


def analyse(store: FleetStore) -> tuple[TypeAnalysis, ...]:
    """Analyses all types of a store and writes its folder tables/; docs/fleet.md explains the columns.

    Raises ResourceError if the tables cannot be written.
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
        found = [one for name in store.types if (one := _type(store, name, tables)) is not None]
        for table in tables.values():
            table.close()
    return tuple(found)


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
    some = [spread_out(days(model, weights, one), SAMPLE_DAYS) for one in sample if one]
    daily = np.append(model.daily, np.ones(model.robot.n, dtype=np.bool_))
    hierarchy = fit_hierarchy(some, model.robot.n, daily)
    weights = weights.widened(hierarchy.noise)
    some = [[one.widened(hierarchy.noise) for one in own] for own in some]
    effects = effects_of(model, weights)
    trial = follow(_named(some), hierarchy, effects, np.ones(len(effects)), threshold=np.inf)
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
        of_days = [(serial, own) for serial, rows in stored if (own := days(model, weights, rows))]
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
        (len(some), sum(len(one) for one in some)),
        logs,
        failed,
        len(serials),
        tuple((shown + quiet)[:_SHOWN]),
        tuple(alarms),
    )


def _named(robots: Sequence[Sequence[Day]]) -> list[tuple[str, Sequence[Day]]]:
    return [(str(i), one) for i, one in enumerate(robots)]


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
        "joint": [one.joint for one in effects] * T,
        "effect": [one.kind for one in effects] * T,
        "unit": [one.unit for one in effects] * T,
        "level": course.level.ravel().astype(np.float32),
        "shift": course.shift.ravel().astype(np.float32),
        "std": course.std.ravel().astype(np.float32),
        "z": course.z.ravel().astype(np.float32),
    }


def _alarm_columns(model: TypeModel, alarms: Sequence[Alarm]) -> dict[str, Any]:
    return {"type": [model.name] * len(alarms)} | {
        name: [getattr(one, name) for one in alarms] for name in _ALARM_COLUMNS[1:]
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
    """A Parquet file that grows by columns of equal length.    columns: their names, of a table without rows."""

    def __init__(self, path: Path, columns: Sequence[str] = ()) -> None:
        self.path, self.columns = path, columns
        self._parts: list[Any] = []
        self._rows = 0
        self._writer: Any = None

    def add(self, columns: Mapping[str, Any]) -> None:
        """Adds rows."""
        import pyarrow as pa

        rows = len(next(iter(columns.values())))
        if rows:
            schema = None if self._writer is None else self._writer.schema
            self._parts.append(pa.table(dict(columns), schema=schema))
            self._rows += rows
            if self._rows > _ROW_GROUP:
                self._flush()

    def close(self) -> None:
        """Writes what is left."""
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


# Rows that are written at a time.
_ROW_GROUP = 250_000
