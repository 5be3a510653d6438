"""experiment.toml: everything that an identification needs besides a robot and its logs."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from dynid.base.diagnostics import Diagnostics, claim_codes
from dynid.base.errors import DynidError, InputError, InputErrors, Place, UsageError
from dynid.base.options import options_of
from dynid.base.records import dataclass
from dynid.base.registry import fields_of, load_plugins, meant, named_for, option_value
from dynid.base.toml import Key, Lines, line_of, read_toml, validate
from dynid.estimate import CATALOGUE, Estimator, FeasibleFit
from dynid.feasible.catalogue import constraint_from_spec
from dynid.feasible.limits import with_hull_of_mesh
from dynid.identification.schema import (
    NOT_IN_FILES,
    DataSection,
    EstimateSection,
    ExperimentFile,
    LimitEntry,
    SelectionEntry,
)
from dynid.identification.settings import Settings, default_estimator, needs_of
from dynid.log.clocks import Selection
from dynid.log.mapping import channel_map, read_calibration
from dynid.log.read import Log, read_log
from dynid.robot.load import read_robot
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading, ServoSettings
from dynid.rows.automatic import AutomaticRows
from dynid.rows.catalogue import rows_from_spec
from dynid.rows.rows import Rows
from dynid.signals.settings import Preparation
from dynid.terms.catalogue import DEFAULT_TERMS, terms_from_spec
from dynid.terms.term import Terms

# Questions of `dynid init` that nobody answered: what the file asks in which line, and what to write there.

_UNITS = {
    "time": "s, ms, us, ns or day",
    "position": "rad or deg, of slides m or mm",
    "velocity": "rad/s, deg/s or rpm, of slides m/s, mm/s, cm/s or in/s",
    "effort": "N m, mN m or kN m (of slides N), A or mA, or raw",
}


@dataclass(frozen=True)
class _Question:
    key: str
    text: str


def refuse_open_questions(log: Mapping[str, Any], robot: RobotModel, file: str, lines: Lines) -> None:
    """Raises InputErrors, one for each entry of [log] that holds a mark of an unanswered question.

    log: the table as it stands in the file.
    """
    text = Path(file).read_text(encoding="utf-8").splitlines() if Path(file).is_file() else []
    errors: list[DynidError] = []
    for name, entry in log.items():
        marked = (
            [key for key, value in entry.items() if _open(key, value)] if isinstance(entry, Mapping) else []
        )
        if not marked:
            continue
        line = line_of(("log", name), lines)
        asked = _asked_above(text, line)
        if "columns" in marked and not any(
            one.key.endswith((".order", ".columns", ".which")) for one in asked
        ):
            # The order of numbers is asked once, of the positions.
            asked = [one for one in _asked_in(text) if one.key == "log.order"] + asked
        about = (
            ": ".join(("asked there", " ".join(one.text for one in asked))) if asked else "an open question"
        )
        found = ", ".join(f"{key} = {_shown(entry[key])}" for key in marked)
        answers = [f"--answer '{one.key}={_answers(text, one)}'" for one in asked]
        errors.append(
            InputError(
                "open-question",
                found=f"{found} in {name}, {about}",
                expected="; ".join(_expected(name, key, robot) for key in marked),
                do="write it there, or let `dynid init` write the file again: "
                + " ".join(["--force", *(answers or ["--answer KEY=VALUE"])]),
                place=Place(file=file or None, line=line),
            )
        )
    if errors:
        raise InputErrors(errors)


def questions_of_effort(file: Path) -> list[str]:
    """What a file that `dynid init` wrote still asks of the effort."""
    from dynid.layouts.write import open_questions  # and with it all that proposes a mapping

    return [one for one in open_questions(file.read_text(encoding="utf-8")) if "effort" in one]


def _open(key: str, value: Any) -> bool:
    values = (
        list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    )
    return "?" in values or (key == "unit" and "unknown" in values)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else "a list or table with a question mark"


def _expected(name: str, key: str, robot: RobotModel) -> str:
    kind = name.removeprefix("command_").removeprefix("motor_")
    if key == "unit":
        return f"unit = {_UNITS.get(kind, 'the unit of the column')}"
    if key == "columns":
        first = ", ".join(f'{joint} = "COLUMN"' for joint in robot.joint_names[:2])
        return f"the column of every joint, columns = {{ {first}{', ...' if robot.n > 2 else ''} }}"
    if key == "offset":
        return f"numbers by joint, in the unit of the column, such as offset = {{ {robot.joint_names[0]} = 0.0 }}"
    return f"{key} = the name of a column" if key == "column" else f"a value of {key}"


def _asked_above(text: list[str], line: int | None) -> list[_Question]:
    """Questions in the comments above a line, with the keys by which `dynid init` takes the answers."""
    first = last = (line or 1) - 1
    while first > 0 and text[first - 1].startswith("#"):
        first -= 1
    return _asked_in(text[first:last])


def _asked_in(text: list[str]) -> list[_Question]:
    found, key = list[_Question](), ""
    for one in _joined([line for line in text if line.startswith("#")]):
        decision = re.match(r"([\w.]+) \((sure|likely|asked)\): ", one)
        if decision is not None:
            key = decision[1] if decision[1].startswith("robot.") else f"log.{decision[1]}"
        elif one.startswith("QUESTION: "):
            found.append(_Question(key, one.removeprefix("QUESTION: ")))
    return found


def _answers(text: list[str], question: _Question) -> str:
    """Values that the head of the file offers for a question, with bars between them."""
    begin = [k for k, line in enumerate(text) if line.startswith(f"#   {question.key}: ")]
    asked = [f"#{one[3:]}" for one in text[begin[0] :] if one.startswith("#")] if begin else []
    for line in list(_joined(asked))[1:]:
        if line.startswith("- answers: "):
            options = line.removeprefix("- answers: ").split("; ")
            return "|".join(one.split(" (", maxsplit=1)[0] for one in options)
        if not line.startswith("- "):
            break
    return "VALUE"


def _joined(lines: list[str]) -> Iterator[str]:
    """Comments with the lines that continue them, which are set in by two blanks more."""
    whole = ""
    for line in lines:
        inner = line.removeprefix("#").removeprefix(" ")
        if inner.startswith("  ") and whole:
            whole += f" {inner.strip()}"
            continue
        if whole:
            yield whole
        whole = inner.strip()
    if whole:
        yield whole


# Options of the fit among physically consistent bodies around another method.
_OF_BODIES = {"strength", "margin", "density", "prior", "total_mass"}


@dataclass(frozen=True)
class Experiment:
    """A checked experiment file, or the defaults when there is none."""

    content: ExperimentFile
    raw: Mapping[str, Any]
    file: str
    lines: Lines

    @staticmethod
    def read(path: str | Path | None) -> Experiment:
        """Reads an experiment file; raises InputErrors with the line of everything that is wrong."""
        if path is None:
            return Experiment(ExperimentFile(), {}, "", {})
        path = Path(path)
        data, lines = read_toml(path)
        content = validate(ExperimentFile, data, lines, str(path))
        load_plugins(content.plugins, path.parent, Place(file=str(path), line=line_of(("plugins",), lines)))
        _refuse_unknown(content.estimate, lines, str(path))
        if any(entry.mesh for entry in content.estimate.limits or ()):
            data = _with_hulls(data, content.estimate.limits or (), path, lines)
            content = validate(ExperimentFile, data, lines, str(path))
        if content.log is not None and content.log.definitions is not None:
            data = _with_folders(data, path)
            content = validate(ExperimentFile, data, lines, str(path))
        position = content.log.position if content.log is not None else None
        if position is not None and isinstance(position.calibration, str):
            data = _with_calibration(data, path.parent / position.calibration)
            content = validate(ExperimentFile, data, lines, str(path))
        return Experiment(content, data, str(path), lines)

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Experiment:
        """The experiment of a stored run, as `to_dict` gave it; raises InputErrors if it is damaged.

        The plug-ins that it names are not imported: a run may come from anyone. Whoever wants them names them again.
        """
        data = dict(stored)
        return Experiment(validate(ExperimentFile, data, {}, "run.json"), data, "run.json", {})

    def with_method(self, method: str) -> Experiment:
        """The same experiment with another method of estimation; options that it does not have are left out.

        Raises UsageError for a method that does not exist.
        """
        if method not in CATALOGUE:
            raise UsageError(
                "unknown-method",
                found=f"method '{method}'",
                expected="one of " + ", ".join(CATALOGUE.names()),
                do=CATALOGUE.meant(method),
            )
        kept = _COMMON | set(fields_of(CATALOGUE[method]))
        if self.content.estimate.feasible:
            kept |= _OF_BODIES
        elif CATALOGUE[method] is not FeasibleFit:
            kept -= {"limits", "constraints"}
        section = {k: v for k, v in dict(self.raw.get("estimate", {})).items() if k in kept}
        return self._with("estimate", section | {"method": method})

    def with_topics(self, topics: Sequence[str] | None) -> Experiment:
        """The same experiment with these topics of bags under [log]; None or empty = as it is."""
        if not topics:
            return self
        return self._with("log", dict(self.raw.get("log", {})) | {"topic": list(topics)})

    def with_values(self, written: Mapping[str, Mapping[str, Any]]) -> Experiment:
        """The same experiment with other values of some keys, table by table, as given on a command line.

        Raises InputErrors for values that the keys do not take.
        """
        given = {table: dict(keys) for table, keys in written.items() if keys}
        validate(ExperimentFile, given, {}, "command line")
        experiment = self
        for table, keys in given.items():
            experiment = experiment._with(table, dict(experiment.raw.get(table, {})) | keys)
        return experiment

    def _with(self, table: str, section: Mapping[str, Any]) -> Experiment:
        raw = dict(self.raw) | {table: dict(section)}
        return replace(self, raw=raw, content=validate(ExperimentFile, raw, self.lines, self.file))

    def with_accepted(self, codes: Sequence[str] | None) -> Experiment:
        """The same experiment with further claims accepted; raises UsageError for a code that no claim has."""
        if not codes:
            return self
        accept = list(claim_codes((*self.content.accept, *codes)))
        raw = dict(self.raw) | {"accept": accept}
        return replace(self, raw=raw, content=validate(ExperimentFile, raw, self.lines, self.file))

    def with_robot(self, options: Mapping[str, Any]) -> Experiment:
        """The same experiment with other values of keys of [robot]; tables (lock, xacro) are added to.

        Raises InputErrors for values that the keys do not take.
        """
        before = dict(self.raw.get("robot", {}))
        given = dict(options)
        if self._folder and "packages" in given:  # those of the file are beside it, these are not
            given["packages"] = [str(Path(one).absolute()) for one in given["packages"]]
        if given.get("xacro") is True and before.get("xacro"):
            del given["xacro"]  # the file's arguments ask for the same, and more
        tables = {key: table for key, table in before.items() if isinstance(table, Mapping)}
        merged = {
            key: {**tables.get(key, {}), **value} if isinstance(value, Mapping) else value
            for key, value in given.items()
        }
        return self.with_values({"robot": merged})

    @property
    def reading(self) -> Reading:
        """How the robot's description is read; folders of packages are those beside the experiment file."""
        section = self.content.robot.model_dump()
        values = {name: section[name] for name in options_of(Reading)}
        folder = Path(self._folder)
        return Reading(**values | {"packages": tuple(str(folder / one) for one in values["packages"])})

    @property
    def _folder(self) -> str:
        # A run is read from anywhere.
        return str(Path(self.file).parent) if self.file and self.lines else ""

    def robot(self, path: str | Path, diagnostics: Diagnostics | None = None) -> RobotModel:
        """The robot of a description, read and driven as [robot] says.

        Raises as `load_robot` and `with_drives`.
        """
        return self.with_drives(read_robot(path, self.reading, diagnostics))

    def with_drives(self, robot: RobotModel) -> RobotModel:
        """The robot with the gear ratios, torque constants and drive gains of [robot], and the controllers of [drive].

        Raises InputErrors with the line of a joint that the robot does not have, InputError with that of a wrong gain.
        """
        driven = self._with_constants(robot)
        try:
            return driven.with_servo(ServoSettings(**self.content.drive.model_dump()))
        except DynidError as error:
            raise self._placed(error, ("drive",)) from error

    def _with_constants(self, robot: RobotModel) -> RobotModel:
        section = self.content.robot
        given: dict[str, dict[int, float]] = {}
        errors: list[DynidError] = []
        for table in ("gear_ratio", "torque_constant", "drive_gain"):
            values: Mapping[str, float] = getattr(section, table)
            for joint in values:
                if joint not in robot.joint_names and joint not in robot.locked:
                    errors.append(
                        InputError(
                            "unknown-joint",
                            found=f"joint '{joint}'",
                            expected="one of " + ", ".join(robot.joint_names),
                            do=meant(joint, robot.joint_names, cutoff=0.4),
                            place=self._place(("robot", table, joint)),
                        )
                    )
            known = {robot.joint_names.index(j): v for j, v in values.items() if j in robot.joint_names}
            if known:
                given[table] = known
        if errors:
            raise InputErrors(errors)
        if not given:
            return robot
        drive = robot.drive
        if "torque_constant" in given and "drive_gain" not in given:
            # Gains are read before constants: those of the description would hide the constants given here.
            drive = replace(drive, drive_gain=np.full(robot.n, np.nan))
        return replace(robot, drive=drive.with_constants(**given))

    @property
    def data(self) -> DataSection:
        """Which trajectories serve for what."""
        return self.content.data

    def settings(self) -> Settings:
        """Settings of the identification; raises InputError with the line of a wrong option."""
        e = self.content.estimate
        return Settings(
            terms=self.terms() if self.content.model.terms is not None else None,
            rows=self.rows(),
            estimator=self._estimator(),
            preparation=Preparation(**self.content.prepare.model_dump()),
            folds=e.folds,
            seed=e.seed,
            block_seconds=e.block_seconds,
            automatic=self.content.model.automatic,
            accept=tuple(self.content.accept),
        )

    def to_dict(self) -> dict[str, Any]:
        """What is written down so that the run can be repeated, the plug-ins that it took included."""
        plugins = list(dict.fromkeys([*self.content.plugins, *named_for(needs_of(self.settings()))]))
        return dict(self.raw) | ({"plugins": plugins} if plugins else {})

    def terms(self) -> Terms:
        """The model; raises InputError with the line of a wrong term."""
        spec = self.content.model.terms
        if spec is None:
            return DEFAULT_TERMS
        try:
            return terms_from_spec(spec)
        except DynidError as error:
            raise self._placed(error, ("model", "terms")) from error

    def rows(self) -> Rows | AutomaticRows:
        """The equations; raises InputError with the line of a wrong name or option."""
        try:
            return rows_from_spec(self.content.model.rows)
        except DynidError as error:
            raise self._placed(error, ("model", "rows")) from error

    def _placed(self, error: DynidError, key: tuple[Key, ...], table: str = "") -> InputError:
        return InputError(
            error.identifier,
            found=table + error.found,
            expected=error.expected,
            do=error.do,
            place=self._place(key),
        )

    def _place(self, key: tuple[Key, ...]) -> Place:
        return Place(file=self.file or None, line=line_of(key, self.lines))

    @property
    def _method(self) -> str:
        # Whoever wants no physically consistent bodies and names no method wants what they would be drawn from.
        section = self.content.estimate
        if section.method is not None:
            return section.method
        return (
            default_estimator().name
            if section.feasible is not False
            else default_estimator().unconstrained.name
        )

    def _estimator(self) -> Estimator:
        section, method = self.content.estimate, self._method
        if method not in CATALOGUE:
            raise InputError(
                "unknown-method",
                found=f"estimate.method = '{method}'",
                expected="one of " + ", ".join(CATALOGUE.names()),
                do=CATALOGUE.meant(method),
                place=self._place(("estimate", "method")),
            )
        kind = CATALOGUE[method]
        own = set(fields_of(kind)) - NOT_IN_FILES
        wrapped = bool(section.feasible) and kind is not FeasibleFit
        known = own | _OF_BODIES if wrapped else own
        written = section.options
        takes_limits = wrapped or kind is FeasibleFit
        of_bodies = [
            name for name in ("limits", "constraints") if getattr(section, name) and not takes_limits
        ]
        for name in (*written, *of_bodies):
            if name not in known:
                raise InputError(
                    "unknown-option",
                    found=f"estimate.{name} with method '{method}'",
                    expected="one of " + (", ".join(sorted(known)) or "no option"),
                    do=meant(name, known),
                    place=self._place(("estimate", name)),
                )
        limits = tuple(entry.model_dump(exclude_none=True) for entry in section.limits or ())
        try:
            further = tuple(constraint_from_spec(one) for one in section.constraints or ())
            inner = {
                name: option_value(kind, method, name, value)
                for name, value in written.items()
                if name in own
            }
            if not wrapped:
                extra = {"required": bool(section.feasible), "limits": limits, "further": further}
                return cast(Estimator, kind(**inner, **(extra if takes_limits else {})))
            bodies = {
                name: option_value(FeasibleFit, "feasible", name, value)
                for name, value in written.items()
                if name not in own
            }
            return FeasibleFit(**bodies, limits=limits, further=further, inner=kind(**inner))
        except DynidError as error:
            where = next((name for name in written if name in error.found), "method")
            raise self._placed(error, ("estimate", where), "estimate.") from error


# Keys of [estimate] that belong to no method.
_COMMON = set(EstimateSection.model_fields)


def _refuse_unknown(section: EstimateSection, lines: Lines, file: str) -> None:
    # What no method has at all is a slip of the pen; what only the named one lacks is reported when it is made.
    if section.method is not None and section.method not in CATALOGUE:
        return
    own = set(fields_of(CATALOGUE[section.method])) if section.method else set()
    known = own.union(_COMMON, *(set(fields_of(kind)) for kind in CATALOGUE.values())) - (
        NOT_IN_FILES - {"limits"}
    )
    errors: list[DynidError] = [
        InputError(
            "unknown-key",
            found=f"unknown key 'estimate.{name}'",
            expected="a known key",
            do=meant(name, known, cutoff=0.5) or "remove it",
            place=Place(file=file, line=line_of(("estimate", name), lines)),
        )
        for name in section.options
        if name not in known
    ]
    if errors:
        raise InputErrors(errors)


def _with_hulls(
    data: Mapping[str, Any], entries: Sequence[LimitEntry], path: Path, lines: Lines
) -> dict[str, Any]:
    # Run folders are read without the meshes: the experiment holds their hulls from here on.
    limits = [
        with_hull_of_mesh(
            entry.model_dump(exclude_none=True),
            path.parent,
            Place(file=str(path), line=line_of(("estimate", "limits", k), lines)),
        )
        for k, entry in enumerate(entries)
    ]
    return dict(data) | {"estimate": dict(data["estimate"]) | {"limits": limits}}


def _with_folders(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    # Run folders are read from anywhere: message definitions are found beside the experiment file from there as well.
    given = data["log"]["definitions"]
    several = [given] if isinstance(given, str) else given
    folders = [str((path.parent / one).resolve()) for one in several]
    return dict(data) | {"log": dict(data["log"]) | {"definitions": folders}}


def _with_calibration(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    # What a run was made with stays with it: the arm may be calibrated anew, under the same name.
    motors = {name: one.model_dump(exclude_none=True) for name, one in read_calibration(file).items()}
    position = dict(data["log"]["position"]) | {"calibration": motors}
    return dict(data) | {"log": dict(data["log"]) | {"position": position}}


def named_files(
    robot: str | Path,
    logs: Sequence[str | Path],
    held_out: Sequence[str | Path] = (),
    config: str | Path | None = None,
) -> dict[str, Any]:
    """What a run writes down of the files that a command named."""
    return {
        "robot": str(robot),
        "logs": [str(log) for log in logs],
        "validate": [str(log) for log in held_out],
        "config": None if config is None else str(config),
    }


def open_log(
    experiment: Experiment,
    paths: Sequence[str | Path],
    robot: RobotModel,
    selection: Sequence[str | SelectionEntry],
    diagnostics: Diagnostics,
) -> Log:
    """Opens logs with the experiment's mapping and the given selection of trajectories.

    Raises InputError for what does not exist, UsageError for extra channels that a term needs and the mapping lacks.
    """
    section = experiment.content.log
    channels = experiment.terms().channels()
    mapping = None
    if section is not None:
        refuse_open_questions(experiment.raw["log"], robot, experiment.file, experiment.lines)
        mapping = channel_map(section, robot, experiment.file, experiment.lines)
        # What no term reads is not read at all: its gaps must not cost rows.
        mapping = replace(
            mapping, extra={name: mapping.extra[name] for name in channels if name in mapping.extra}
        )
    chosen = [_selection(one) for one in selection] or [Selection()]
    log = read_log(list(paths), robot, mapping, chosen, channels)
    if not log.has_effort:
        remarks = [one for one in log.remarks if one.code == "not-measured" and "effort" in one.text]
        texts = [one.text for one in remarks]
        asked = (
            [] if texts or not Path(experiment.file).is_file() else questions_of_effort(Path(experiment.file))
        )
        nothing = "no column of effort, such as " + f"tau_{robot.joint_names[0]}"
        raise InputError(
            "no-effort",
            found="; ".join(texts)
            or (f"a mapping without effort, which still asks: {' '.join(asked)}" if asked else nothing),
            expected="torque or current of every joint",
            do="record it, or take it from another topic with log.effort"
            if texts
            else "answer the question there and take the # away from 'effort = ...', or call dynid init again with "
            "--answer"
            if asked
            else "say which it is: log.effort",
            place=remarks[0].place if remarks else Place(file=experiment.file if asked else None),
        )
    for name in channels:
        if name not in log.channels.extra:
            raise InputError(
                "missing-channel",
                found=f"no extra channel '{name}', which the model reads",
                expected=f"[log.extra] {name} = {{ column = ..., unit = ... }}",
                place=Place(file=experiment.file or None),
            )
    return log


def _selection(one: str | SelectionEntry) -> Selection:
    return Selection(one) if isinstance(one, str) else Selection(one.trajectory, one.window, one.part)
