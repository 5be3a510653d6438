"""A fleet's plan: which logs there are, of which type and serial number, and the model of each type."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, date, datetime
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from pydantic import Field

from dynid.base import (
    Bool,
    DynidError,
    Float,
    InputError,
    InputErrors,
    Int,
    Place,
    RefusedError,
    Strict,
    UsageError,
    dataclass,
    key,
    line_of,
    plain,
    read_table,
    read_toml,
    validate,
)
from dynid.factor import BaseMap, random_states, structural_base
from dynid.identification import Experiment
from dynid.robot import RobotModel, robot_from_dict, robot_to_dict
from dynid.rows import TorqueRows
from dynid.run import Identification, load
from dynid.signals import Preparation
from dynid.terms import (
    Column,
    Compliance,
    MotionBasis,
    Of,
    Question,
    Term,
    Terms,
    terms_from_spec,
    terms_to_spec,
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


@dataclasses.dataclass(frozen=True, order=True)
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


@dataclasses.dataclass(frozen=True)
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


# The model that all logs of a type share, as a text that travels to workers and stays beside the factors.

FORMAT = 1
# Of the random states for the base parameters, which must be the same on every machine.
_SEED = 0
# Directions of the last body that a load changes first: its mass and first moments.
_LOAD = 4


@dataclass(frozen=True, eq=False)
class TypeModel:
    """Robot, terms and signals of one type, and the values that its logs are compared with.

    terms: those of the model, then `watched` further columns whose values are zero in the model: the compliances of
        its joints, if it has none of its own.
    theta: (p,) values of the model's parameters.    preparation: of the signals.
    experiment: how its logs are read, in the form of an experiment file.    accepted: claims that warn.
    """

    name: str
    robot: RobotModel
    terms: Terms
    watched: int
    theta: Float
    preparation: Preparation
    experiment: Mapping[str, Any]
    accepted: tuple[str, ...]

    @staticmethod
    def of_run(name: str, folder: Path, experiment: Path | None = None) -> TypeModel:
        """The model of a run folder.

        experiment: file whose [log] table says how the logs are read, in place of the run's.
        Raises InputError for a folder that is no run or an experiment that is wrong.
        """
        run = load(folder)
        written: Any = run.experiment
        if experiment is not None:
            written = Experiment.read(experiment).raw
        reading: dict[str, Any] = {"log": written["log"]} if "log" in written else {}
        reading["model"] = {"terms": terms_to_spec(run.terms)}
        settings: Any = run.preparation["settings"]
        estimate = run.estimate
        theta = estimate.consistent if len(estimate.consistent) else estimate.parameters
        terms, watched = _watching(run)
        return TypeModel(
            name=name,
            robot=run.robot,
            terms=terms,
            watched=watched,
            theta=np.asarray(theta),
            preparation=replace(Preparation(**settings), rate=None),
            experiment=plain(reading),
            accepted=tuple(run.accepted),
        )

    def text(self) -> str:
        """The model as JSON; the same model gives the same text."""
        data = {
            "format": FORMAT,
            "name": self.name,
            "robot": robot_to_dict(self.robot),
            "terms": terms_to_spec(self.terms),
            "watched": self.watched,
            "theta": self.theta.tolist(),
            "preparation": asdict(self.preparation),
            "experiment": self.experiment,
            "accepted": list(self.accepted),
        }
        return json.dumps(plain(data), sort_keys=True, allow_nan=False) + "\n"

    @staticmethod
    def of_text(text: str, file: str = "model") -> TypeModel:
        """The model of a text; raises InputError if it is none, or of a newer version."""
        try:
            data = json.loads(text)
            if data["format"] != FORMAT:
                raise ValueError(f"format {data['format']}")
            return TypeModel(
                name=data["name"],
                robot=robot_from_dict(data["robot"]),
                terms=terms_from_spec(data["terms"]),
                watched=int(data["watched"]),
                theta=np.array(data["theta"], dtype=np.float64),
                preparation=Preparation(**data["preparation"]),
                experiment=data["experiment"],
                accepted=tuple(data["accepted"]),
            )
        except (LookupError, TypeError, ValueError, AttributeError, DynidError) as error:
            raise InputError(
                "damaged-fleet",
                found=f"no model of a type ({type(error).__name__}: {error})",
                expected=f"one of format {FORMAT}",
                place=Place(file=file),
            ) from error

    @cached_property
    def digest(self) -> str:
        """Hash of the text: factors of one store belong to one model."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All p parameters."""
        return self.terms.columns(self.robot)

    @cached_property
    def base(self) -> BaseMap:
        """Base parameters of the model's own terms; what is watched stands beside them."""
        return structural_base(self.robot, _first(self.terms, self.watched), TorqueRows(), _SEED)

    @cached_property
    def kept(self) -> Int:
        """(k,) parameters whose columns the factors hold: the base's b, then the watched ones."""
        p = len(self.columns)
        return np.concatenate([self.base.independent, np.arange(p - self.watched, p)])

    @property
    def wanted(self) -> Bool:
        """(p,) mask of the same."""
        mask = np.zeros(len(self.columns), dtype=np.bool_)
        mask[self.kept] = True
        return mask

    @cached_property
    def layout(self) -> tuple[Int, ...]:
        """By joint, the parameters (w_j,) whose columns its factor holds, ascending."""
        samples = random_states(self.robot, 8, _SEED, self.terms.channels(), clock=self.terms.clock())
        found = TorqueRows().equations(self.robot, self.terms, samples, self.wanted)
        return tuple(np.asarray(columns) for columns in found.columns)

    @cached_property
    def value(self) -> Float:
        """(k,) values of the kept parameters: base parameters of the model, zero for the watched ones."""
        own = len(self.columns) - self.watched
        return np.concatenate([self.base.reduce(self.theta[:own]), np.zeros(self.watched)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """(k,) base parameters as formulas, then the watched parameters by name."""
        return (*self.base.formulas(), *(self.columns[i].name for i in self.kept[self.base.rank :]))

    @property
    def units(self) -> tuple[str, ...]:
        """(k,)."""
        return tuple(self.columns[i].unit for i in self.kept)

    def friction(self, joint: int) -> Bool:
        """(k,) the friction of a joint, without its offset."""
        known = self.terms.friction_columns(self.robot)
        return np.array([bool(known[i]) and self.columns[i].owner == joint for i in self.kept])

    def offset(self, joint: int) -> Bool:
        """(k,) the torque of a joint that nothing moves."""
        return self._of(lambda term: term.traits.basis is MotionBasis.ONE, joint)

    def compliance(self, joint: int) -> Bool:
        """(k,) the compliance of a joint."""
        return self._of(_is_compliance, joint)

    @cached_property
    def daily(self) -> Bool:
        """(k,) what may differ from day to day on a robot that is as it was: friction and offsets, beside gains."""
        every = [self.friction(j) | self.offset(j) for j in range(self.robot.n)]
        return np.asarray(np.logical_or.reduce(every))

    @cached_property
    def load(self) -> Float:
        """(k, 4) how mass and first moments of the last body move the kept parameters."""
        last = self.robot.n_bodies - 1
        own = [i for i, one in enumerate(self.columns) if one.of is Of.BODY and one.owner == last][:_LOAD]
        return np.concatenate([self.base.B[:, own], np.zeros((self.watched, len(own)))])

    def _of(self, kind: Callable[[Term], bool], joint: int) -> Bool:
        named = {term.name for term in self.terms if kind(term)}
        return np.array(
            [self.columns[i].term in named and self.columns[i].owner == joint for i in self.kept],
            dtype=np.bool_,
        )


def _watching(run: Identification) -> tuple[Terms, int]:
    """The terms of a run with compliances of all joints about its bodies, where it has none."""
    bodies = [i for i, one in enumerate(run.estimate.columns) if one.of is Of.BODY]
    if any(_is_compliance(term) for term in run.terms) or len(bodies) != 10 * run.robot.n_bodies:
        return run.terms, 0
    estimate = run.estimate
    theta = estimate.consistent if len(estimate.consistent) else estimate.parameters
    return run.terms + Compliance(inertia=tuple(theta[bodies].tolist())), run.robot.n


def _is_compliance(term: Term) -> bool:
    return term.selection.question == Question("elasticity")


def _first(terms: Terms, watched: int) -> Terms:
    return Terms(tuple(terms)[:-1]) if watched else terms


def check_same(stored: TypeModel, given: TypeModel, folder: Path) -> None:
    """Raises UsageError if a type's model is another one than that its factors in a store were made with."""
    if stored.digest != given.digest:
        raise UsageError(
            "fleet-model",
            found=f"another model of type '{given.name}' than that of the factors in '{folder}'",
            expected="the same: factors of two models cannot be pooled",
            do="choose another --out",
        )
