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
from dynid.run import Identification, load, refuse_floating
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
# Most errors listed for one catalogue; further ones add nothing.
_MOST_ERRORS = 20
# Most logs of a plan; reading more would take gigabytes of memory.
MOST_LOGS = 10_000_000


class TypeSection(Strict):
    """Table [type.NAME]: the model that all robots of a type share."""

    model: str = key(doc="run folder of `dynid identify`, whose robot, terms and signals all logs share")
    experiment: str | None = key(
        None, "experiment file with the [log] table of these logs; without one that of the run"
    )


class LogEntry(Strict):
    """Table [[log]]: one log."""

    type: str = key(doc="name of its type")
    serial: str = key(doc="serial number of the robot")
    time: str = key(doc="when it was recorded, ISO 8601; UTC without an offset")
    path: str = key(doc="file, relative to the plan, or URI")
    trajectory: str = key("*", "trajectory within the file, by name or glob")


class PlanFile(Strict):
    """The content of a plan file."""

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
        """Key of the log in the store: a hash of all its fields."""
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
    """Read the logs and models of a fleet.

    Parameters
    ----------
    path : str or Path
        A plan in TOML, or a catalogue in Parquet or CSV.
    models : mapping, optional
        Run folders by type; they replace those of the plan and are required for a catalogue.

    Returns
    -------
    Plan
        The logs in order, with the run folder of each type.

    Raises
    ------
    InputErrors
        With the line or row of every entry that is wrong.

    """
    path = Path(path)
    given = dict(models or {})
    if path.suffix.lower() != ".toml":
        logs = _catalogue_logs(path, path.parent)
        return _checked(Plan(logs, given, {}, path))
    data, lines = read_toml(path)
    content = validate(PlanFile, _with_text_dates(data), lines, str(path))
    folder = path.parent
    listed = list(_catalogue_logs(folder / content.catalogue, folder)) if content.catalogue else []
    errors: list[DynidError] = []
    for i, entry in enumerate(content.log):
        place = Place(file=str(path), line=line_of(("log", i), lines))
        try:
            listed.append(_log(entry.model_dump(), folder, place))
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors[:_MOST_ERRORS])
    return _checked(
        Plan(
            tuple(listed),
            {name: folder / section.model for name, section in content.type.items()} | given,
            {
                name: folder / section.experiment
                for name, section in content.type.items()
                if section.experiment
            },
            path,
        )
    )


def _checked(plan: Plan) -> Plan:
    place = Place(file=str(plan.file))
    if not plan.logs:
        raise InputError("no-log", found="a plan without logs", expected="at least one log", place=place)
    unknown = sorted({log.type for log in plan.logs} - set(plan.models))
    if unknown:
        listed = ", ".join(f"'{name}'" for name in unknown[:_MOST_ERRORS])
        raise InputError(
            "unknown-type",
            found=f"logs of type {listed}",
            expected="a model for each type: " + (", ".join(plan.models) or "none is given"),
            do="add [type.NAME] with model = RUN to the plan, or --model NAME=RUN",
            place=place,
        )
    logs = tuple(sorted(plan.logs))
    for log, following in pairwise(logs):
        if log == following:
            raise InputError(
                "log-twice",
                found=f"'{log.path}' of serial '{log.serial}' at {log.time.isoformat()} twice",
                expected="each log once",
                place=place,
            )
    return Plan(logs, plan.models, plan.experiments, plan.file)


def _catalogue_logs(path: Path, folder: Path) -> tuple[FleetLog, ...]:
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
            do="give the columns these names, in a CSV file in its first line",
            place=place,
        )


def _log(row: Mapping[str, Any], folder: Path, place: Place) -> FleetLog:
    texts = {}
    for name in ("type", "serial", "path"):
        value = row.get(name)
        if value is None or not str(value).strip():
            raise InputError("catalogue-empty", found=f"no {name}", expected="one for each log", place=place)
        texts[name] = str(value).strip()
    path = texts["path"]
    if not is_uri(path):
        path = str((folder / path).absolute())
    trajectory = str(row.get("trajectory") or "*")
    return FleetLog(texts["type"], texts["serial"], _time(row.get("time"), place), path, trajectory)


def is_uri(path: str) -> bool:
    """Whether a path is a URI for fsspec and not a path of the file system."""
    return "://" in path


def _time(value: Any, place: Place) -> datetime:
    moment: datetime | None = None
    if isinstance(value, datetime):
        moment = value
    elif isinstance(value, date):
        moment = datetime(value.year, value.month, value.day)
    elif hasattr(value, "astype") and getattr(value, "dtype", None) is not None and value.dtype.kind == "M":
        moment = value.astype("datetime64[us]").item()
    else:
        try:
            moment = datetime.fromisoformat(str(value).strip())
        except ValueError:
            moment = None
    if moment is None:
        raise InputError(
            "catalogue-time",
            found=f"time {value!r}",
            expected="a time in ISO 8601, such as 2026-03-01T14:30:00Z",
            place=place,
        )
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


def _with_text_dates(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_text_dates(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_text_dates(item) for item in value]
    return value.isoformat() if isinstance(value, date) else value


# The model that all logs of a type share: a text that is sent to workers and stored with the factors.

FORMAT = 1
# Seed of the random states for the base parameters, which must agree on every machine.
_SEED = 0
# Parameters of the last link that a load changes most: its mass and three first moments.
_LOAD = 4


@dataclass(frozen=True, eq=False)
class TypeModel:
    """Robot, terms and signal processing of a robot type, with the parameters that its logs are compared with.

    Attributes
    ----------
    name : str
        Name of the type.
    robot : RobotModel
        The robot.
    terms : Terms
        Terms of the model, followed by terms with `watched` parameters that are zero in the model: the compliances of
        the joints, if the model has none.
    watched : int
        Number of these further parameters.
    theta : ndarray, shape (p,)
        Values of the model's parameters.
    preparation : Preparation
        Filters and sampling of the signals.
    experiment : mapping
        How logs are read, in the form of an experiment file.
    accepted : tuple of str
        Codes of doubts that count as warnings.

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
        """Read the model of a type from a run folder.

        Parameters
        ----------
        name : str
            Name of the type.
        folder : Path
            Run folder of `dynid identify`.
        experiment : Path, optional
            Experiment file whose [log] table replaces that of the run.

        Raises
        ------
        InputError
            If the folder is not a run or the experiment file is wrong.

        """
        run = load(folder)
        refuse_floating(run.robot, "a fleet")
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
        """Return the model as JSON; equal models give equal texts."""
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
        """Read a model from its JSON text; raises InputError if the text is damaged or of a newer format."""
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
                found=f"a file without the model of a robot type ({type(error).__name__}: {error})",
                expected=f"a model of format {FORMAT}",
                place=Place(file=file),
            ) from error

    @cached_property
    def digest(self) -> str:
        """Hash of the text; all factors of a type in a store have the same digest."""
        return hashlib.sha256(self.text().encode()).hexdigest()[:24]

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """All p parameters."""
        return self.terms.columns(self.robot)

    @cached_property
    def base(self) -> BaseMap:
        """Base parameters of the model's terms, without the watched parameters."""
        return structural_base(self.robot, _without_watched(self.terms, self.watched), TorqueRows(), _SEED)

    @cached_property
    def kept(self) -> Int:
        """Indices (k,) of the parameters in the factors: the base parameters, then the watched ones."""
        p = len(self.columns)
        return np.concatenate([self.base.independent, np.arange(p - self.watched, p)])

    @property
    def wanted(self) -> Bool:
        """Mask (p,) of the kept parameters."""
        mask = np.zeros(len(self.columns), dtype=np.bool_)
        mask[self.kept] = True
        return mask

    @cached_property
    def layout(self) -> tuple[Int, ...]:
        """For each joint, the indices (w_j,) of the parameters in its factor, ascending."""
        samples = random_states(self.robot, 8, _SEED, self.terms.channels(), clock=self.terms.clock())
        equations = TorqueRows().equations(self.robot, self.terms, samples, self.wanted)
        return tuple(np.asarray(columns) for columns in equations.columns)

    @cached_property
    def value(self) -> Float:
        """Values (k,) of the kept parameters in the model; zero for the watched ones."""
        modelled = len(self.columns) - self.watched
        return np.concatenate([self.base.reduce(self.theta[:modelled]), np.zeros(self.watched)])

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Names (k,) of the kept parameters: formulas of base parameters, then names of watched ones."""
        return (*self.base.formulas(), *(self.columns[i].name for i in self.kept[self.base.rank :]))

    @property
    def units(self) -> tuple[str, ...]:
        """Units (k,) of the kept parameters."""
        return tuple(self.columns[i].unit for i in self.kept)

    def friction(self, joint: int) -> Bool:
        """Mask (k,) of the friction parameters of a joint, without its offset."""
        known = self.terms.friction_columns(self.robot)
        return np.array([bool(known[i]) and self.columns[i].owner == joint for i in self.kept])

    def offset(self, joint: int) -> Bool:
        """Mask (k,) of the constant torque offset of a joint."""
        return self._mask_of(lambda term: term.traits.basis is MotionBasis.ONE, joint)

    def compliance(self, joint: int) -> Bool:
        """Mask (k,) of the compliance of a joint."""
        return self._mask_of(_is_compliance, joint)

    @cached_property
    def daily(self) -> Bool:
        """Mask (k,) of parameters that vary from day to day on an unchanged robot: friction and offsets."""
        every = [self.friction(j) | self.offset(j) for j in range(self.robot.n)]
        return np.asarray(np.logical_or.reduce(every))

    @cached_property
    def load(self) -> Float:
        """Derivatives (k, 4) of the kept parameters by mass and first moments of the last link."""
        last = self.robot.n_bodies - 1
        indices = [
            i for i, column in enumerate(self.columns) if column.of is Of.BODY and column.owner == last
        ][:_LOAD]
        return np.concatenate([self.base.B[:, indices], np.zeros((self.watched, len(indices)))])

    def _mask_of(self, kind: Callable[[Term], bool], joint: int) -> Bool:
        named = {term.name for term in self.terms if kind(term)}
        return np.array(
            [self.columns[i].term in named and self.columns[i].owner == joint for i in self.kept],
            dtype=np.bool_,
        )


def _watching(run: Identification) -> tuple[Terms, int]:
    """Return the terms of a run, with the compliances of all joints added if it has none, and their number."""
    bodies = [i for i, column in enumerate(run.estimate.columns) if column.of is Of.BODY]
    if any(_is_compliance(term) for term in run.terms) or len(bodies) != 10 * run.robot.n_bodies:
        return run.terms, 0
    estimate = run.estimate
    theta = estimate.consistent if len(estimate.consistent) else estimate.parameters
    return run.terms + Compliance(inertia=tuple(theta[bodies].tolist())), run.robot.n


def _is_compliance(term: Term) -> bool:
    return term.selection.question == Question("elasticity")


def _without_watched(terms: Terms, watched: int) -> Terms:
    return Terms(tuple(terms)[:-1]) if watched else terms


def check_same(stored: TypeModel, given: TypeModel, folder: Path) -> None:
    """Raise UsageError if a model differs from the one that the stored factors of its type were made with."""
    if stored.digest != given.digest:
        raise UsageError(
            "fleet-model",
            found=f"a model of type '{given.name}' that differs from the model stored in '{folder}'",
            expected="the same model, because factors of two models cannot be pooled",
            do="choose another folder with --out",
        )
