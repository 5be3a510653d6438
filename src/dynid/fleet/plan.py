"""A fleet's plan: which logs there are, of which type and serial number, and the model of each type."""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from dynid.base import (
    DynidError,
    InputError,
    InputErrors,
    Place,
    RefusedError,
    Strict,
    key,
    line_of,
    read_table,
    read_toml,
    validate,
)

# Columns of a catalogue; the last one may be left out.
COLUMNS = ("type", "serial", "time", "path", "trajectory")
_REQUIRED = COLUMNS[:4]
# Wrong rows of a catalogue that are listed; more of them say the same.
_MOST_ERRORS = 20
# Rows of a plan or catalogue, beyond which its reading alone would take gigabytes.
MOST_LOGS = 10_000_000


class TypeSection(Strict):
    """[type.NAME]: the model of all robots of one type."""

    model: str = key(doc="run folder of `dynid identify`, whose robot, terms and signals all logs share")
    experiment: str | None = key(
        None, "experiment file with the [log] table of these logs; without one that of the run"
    )


class LogEntry(Strict):
    """[[log]]: one log."""

    type: str = key(doc="name of its type")
    serial: str = key(doc="serial number of the robot")
    time: str = key(doc="when it was recorded, ISO 8601; UTC without an offset")
    path: str = key(doc="file, relative to the plan, or URI")
    trajectory: str = key("*", "trajectory within the file, by name or glob")


class PlanFile(Strict):
    """A plan."""

    type: Annotated[dict[str, TypeSection], Field(min_length=1)] = key(doc="the types by name")
    catalogue: str | None = key(None, "Parquet or CSV file with one row a log, relative to the plan")
    log: list[LogEntry] = key(doc="logs, beside those of the catalogue", default_factory=list)


@dataclass(frozen=True, order=True)
class FleetLog:
    """One log of a fleet, ordered by type, serial number and time.

    time: UTC.    path: file or URI.    trajectory: name or glob of what counts within the file.
    """

    type: str
    serial: str
    time: datetime
    path: str
    trajectory: str = "*"

    @property
    def key(self) -> str:
        """What names it in the store: a hash of all its fields."""
        text = "\0".join((self.type, self.serial, self.time.isoformat(), self.path, self.trajectory))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True)
class Plan:
    """The logs of a fleet, in order, and for each type its run folder and the experiment file of its logs."""

    logs: tuple[FleetLog, ...]
    models: Mapping[str, Path]
    experiments: Mapping[str, Path]
    file: Path


def read_plan(path: str | Path, models: Mapping[str, Path] | None = None) -> Plan:
    """Reads a plan in TOML, or a catalogue in Parquet or CSV with the model of every type given beside it.

    models: run folders by type, in place of those of the plan.
    Raises InputErrors with the line or row of everything that is wrong.
    """
    path = Path(path)
    given = dict(models or {})
    if path.suffix.lower() != ".toml":
        logs = _of_catalogue(path, path.parent)
        return _checked(Plan(logs, given, {}, path))
    data, lines = read_toml(path)
    content = validate(PlanFile, _with_text_dates(data), lines, str(path))
    folder = path.parent
    found = list(_of_catalogue(folder / content.catalogue, folder)) if content.catalogue else []
    errors: list[DynidError] = []
    for i, entry in enumerate(content.log):
        place = Place(file=str(path), line=line_of(("log", i), lines))
        try:
            found.append(_log(entry.model_dump(), folder, place))
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors[:_MOST_ERRORS])
    return _checked(
        Plan(
            tuple(found),
            {name: folder / one.model for name, one in content.type.items()} | given,
            {name: folder / one.experiment for name, one in content.type.items() if one.experiment},
            path,
        )
    )


def _checked(plan: Plan) -> Plan:
    place = Place(file=str(plan.file))
    if not plan.logs:
        raise InputError("no-log", found="a plan without a log", expected="at least one", place=place)
    unknown = sorted({log.type for log in plan.logs} - set(plan.models))
    if unknown:
        listed = ", ".join(f"'{one}'" for one in unknown[:_MOST_ERRORS])
        raise InputError(
            "unknown-type",
            found=f"logs of type {listed}",
            expected="a model for each type: " + (", ".join(plan.models) or "none is given"),
            do="add [type.NAME] with model = RUN to the plan, or --model NAME=RUN",
            place=place,
        )
    logs = tuple(sorted(plan.logs))
    for one, other in pairwise(logs):
        if one == other:
            raise InputError(
                "log-twice",
                found=f"'{one.path}' of serial '{one.serial}' at {one.time.isoformat()} twice",
                expected="each log once",
                place=place,
            )
    return Plan(logs, plan.models, plan.experiments, plan.file)


def _of_catalogue(path: Path, folder: Path) -> tuple[FleetLog, ...]:
    rows = _rows(path)
    logs, errors = [], []
    for number, row in enumerate(rows, start=1):
        if number > MOST_LOGS:
            raise RefusedError(
                "too-large",
                found=f"more than {MOST_LOGS} logs",
                expected="fewer in one plan",
                place=Place(file=str(path)),
            )
        try:
            logs.append(_log(row, folder, Place(file=str(path), row=number)))
        except InputError as error:
            errors.append(error)
            if len(errors) == _MOST_ERRORS:
                break
    if errors:
        raise InputErrors(list(errors))
    return tuple(logs)


def _rows(path: Path) -> Iterator[Mapping[str, Any]]:
    place = Place(file=str(path))
    if not path.is_file():
        raise InputError("file-missing", found="no such file", expected="a plan or catalogue", place=place)
    if path.suffix.lower() in (".parquet", ".pq"):
        try:
            table = read_table(path)
        except (OSError, ValueError) as error:
            raise InputError(
                "catalogue", found=f"no Parquet table ({error})", expected="a catalogue", place=place
            ) from error
        _require(tuple(table), place)
        names = [name for name in COLUMNS if name in table]
        for values in zip(*(table[name] for name in names), strict=True):
            yield dict(zip(names, values, strict=True))
        return
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            _require(tuple(reader.fieldnames or ()), place)
            yield from reader
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(
            "catalogue", found=str(error), expected="a CSV file in UTF-8", place=place
        ) from error


def _require(columns: Sequence[str], place: Place) -> None:
    missing = [name for name in _REQUIRED if name not in columns]
    if missing:
        raise InputError(
            "catalogue-columns",
            found=f"no column {', '.join(missing)}",
            expected=f"the columns {', '.join(_REQUIRED)}",
            do="name them so, in the first line of a CSV file",
            place=place,
        )


def _log(row: Mapping[str, Any], folder: Path, place: Place) -> FleetLog:
    texts = {}
    for name in ("type", "serial", "path"):
        value = row.get(name)
        if value is None or not str(value).strip():
            raise InputError("catalogue-empty", found=f"no {name}", expected="one a log", place=place)
        texts[name] = str(value).strip()
    path = texts["path"]
    if not is_uri(path):
        path = str((folder / path).absolute())
    trajectory = str(row.get("trajectory") or "*")
    return FleetLog(texts["type"], texts["serial"], _time(row.get("time"), place), path, trajectory)


def is_uri(path: str) -> bool:
    """Whether a log is reached by a protocol of fsspec, not by the file system."""
    return "://" in path


def _time(value: Any, place: Place) -> datetime:
    found: datetime | None = None
    if isinstance(value, datetime):
        found = value
    elif isinstance(value, date):
        found = datetime(value.year, value.month, value.day)
    elif hasattr(value, "astype") and getattr(value, "dtype", None) is not None and value.dtype.kind == "M":
        found = value.astype("datetime64[us]").item()
    else:
        try:
            found = datetime.fromisoformat(str(value).strip())
        except ValueError:
            found = None
    if found is None:
        raise InputError(
            "catalogue-time",
            found=f"time {value!r}",
            expected="a time in ISO 8601, such as 2026-03-01T14:30:00Z",
            place=place,
        )
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def _with_text_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_text_dates(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_with_text_dates(one) for one in value]
    return value.isoformat() if isinstance(value, date) else value
