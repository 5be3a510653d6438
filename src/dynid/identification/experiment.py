"""experiment.toml: the settings of an identification, its columns and trajectories."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, cast

import numpy as np

from dynid.base.diagnostics import Diagnostics, claim_codes
from dynid.base.errors import DynidError, InputError, InputErrors, Place, UsageError
from dynid.base.options import options_of, set_options
from dynid.base.records import dataclass
from dynid.base.registry import fields_of, load_plugins, meant, named_for, option_value
from dynid.base.toml import Key, Lines, line_of, read_toml, validate
from dynid.estimate import CATALOGUE, Estimator, FeasibleFit
from dynid.feasible.catalogue import constraint_from_spec
from dynid.feasible.limits import LinkLimits, with_hull_of_mesh
from dynid.identification.blocks import Blocks
from dynid.identification.schema import DataSection, EstimateSection, ExperimentFile, RobotSection
from dynid.identification.settings import (
    AROUND_METHOD,
    NOT_IN_FILES,
    Settings,
    default_estimator,
    needs_of,
)
from dynid.log.clocks import Selection
from dynid.log.log import Channel
from dynid.log.mapping import LIMITS, channel_map, read_calibration
from dynid.log.read import Log, read_log
from dynid.robot.linkage import Table
from dynid.robot.load import read_robot, with_tables
from dynid.robot.model import RobotModel
from dynid.robot.options import Reading
from dynid.rows.automatic import AutomaticRows
from dynid.rows.catalogue import rows_from_spec
from dynid.rows.rows import Rows
from dynid.terms.catalogue import DEFAULT_TERMS, terms_from_spec
from dynid.terms.term import Terms

# Questions of `dynid init` without an answer in the experiment file: each has a line and possible answers.

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
    """Raise InputErrors with one error for each entry of a [log] table that has an open question of `dynid init`."""
    text = Path(file).read_text(encoding="utf-8").splitlines() if Path(file).is_file() else []
    errors: list[DynidError] = []
    for name, entry in log.items():
        marked = (
            [key for key, value in entry.items() if _is_open(key, value)]
            if isinstance(entry, Mapping)
            else []
        )
        if not marked:
            continue
        line = line_of(("log", name), lines)
        questions = _questions_above(text, line)
        if "columns" in marked and not any(
            question.key.endswith((".order", ".columns", ".which")) for question in questions
        ):
            # The order of the columns is questions once, for the positions.
            questions = [
                question for question in _questions_in(text) if question.key == "log.order"
            ] + questions
        about = (
            ": ".join(("questions there", " ".join(question.text for question in questions)))
            if questions
            else "an open question"
        )
        marks = ", ".join(f"{key} = {_shown(entry[key])}" for key in marked)
        answers = [f"--answer '{question.key}={_answers(text, question)}'" for question in questions]
        errors.append(
            InputError(
                "open-question",
                found=f"{marks} in {name}, {about}",
                expected="; ".join(_expected(name, key, robot) for key in marked),
                do="write the answer there, or run `dynid init` again with "
                + " ".join(["--force", *(answers or ["--answer KEY=VALUE"])]),
                place=Place(file=file or None, line=line),
            )
        )
    if errors:
        raise InputErrors(errors)


def questions_of_effort(file: Path) -> list[str]:
    """Open questions about the effort in a file that `dynid init` wrote."""
    from dynid.layouts.write import open_questions  # imports all that detects columns

    return [question for question in open_questions(file.read_text(encoding="utf-8")) if "effort" in question]


def _is_open(key: str, value: Any) -> bool:
    values = (
        list(value.values()) if isinstance(value, Mapping) else value if isinstance(value, list) else [value]
    )
    return "?" in values or (key == "unit" and "unknown" in values)


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else 'a list or table with "?"'


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


def _questions_above(text: list[str], line: int | None) -> list[_Question]:
    """Questions in the comments above a line, with their keys for --answer."""
    first = last = (line or 1) - 1
    while first > 0 and text[first - 1].startswith("#"):
        first -= 1
    return _questions_in(text[first:last])


def _questions_in(text: list[str]) -> list[_Question]:
    questions, key = list[_Question](), ""
    for comment in _joined([line for line in text if line.startswith("#")]):
        decision = re.match(r"([\w.]+) \((sure|likely|asked)\): ", comment)
        if decision is not None:
            key = decision[1] if decision[1].startswith("robot.") else f"log.{decision[1]}"
        elif comment.startswith("QUESTION: "):
            questions.append(_Question(key, comment.removeprefix("QUESTION: ")))
    return questions


def _answers(text: list[str], question: _Question) -> str:
    """Answers that the head of the file offers for a question, separated by bars."""
    begin = [k for k, line in enumerate(text) if line.startswith(f"#   {question.key}: ")]
    head = [f"#{entry[3:]}" for entry in text[begin[0] :] if entry.startswith("#")] if begin else []
    for line in list(_joined(head))[1:]:
        if line.startswith("- answers: "):
            options = line.removeprefix("- answers: ").split("; ")
            return "|".join(entry.split(" (", maxsplit=1)[0] for entry in options)
        if not line.startswith("- "):
            break
    return "VALUE"


def _joined(lines: list[str]) -> Iterator[str]:
    """Comments joined with their continuation lines, which are indented by two more spaces."""
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


@dataclass(frozen=True)
class Experiment:
    """A checked experiment file, or the defaults without one.

    Attributes
    ----------
    content : ExperimentFile
        The checked content.
    raw : mapping
        The content as written.
    file : str
        Path of the file; "" without one.
    lines : Lines
        Line of every key.

    """

    content: ExperimentFile
    raw: Mapping[str, Any]
    file: str
    lines: Lines

    @staticmethod
    def read(path: str | Path | None) -> Experiment:
        """Read an experiment file and load its plug-ins.

        Raises
        ------
        InputErrors
            With the line of every error.

        """
        if path is None:
            return Experiment(ExperimentFile(), {}, "", {})
        path = Path(path)
        data, lines = read_toml(path)
        content = validate(ExperimentFile, data, lines, str(path))
        load_plugins(content.plugins, path.parent, Place(file=str(path), line=line_of(("plugins",), lines)))
        _refuse_unknown(content.estimate, lines, str(path))
        whole = data
        if any(entry.mesh for entry in content.estimate.limits or ()):
            whole = _with_hulls(whole, content.estimate.limits or (), path, lines)
        if content.log is not None and content.log.definitions is not None:
            whole = _with_folders(whole, path)
        position = content.log.position if content.log is not None else None
        if position is not None and isinstance(position.calibration, str) and position.calibration != LIMITS:
            whole = _with_calibration(whole, path.parent / position.calibration)
        if whole is not data:
            content = validate(ExperimentFile, whole, lines, str(path))
        return Experiment(content, whole, str(path), lines)

    @staticmethod
    def from_dict(stored: Mapping[str, Any]) -> Experiment:
        """The experiment of a stored run.

        Its plug-ins are not imported, since a run may come from anyone; name them again to import them.

        Raises
        ------
        InputErrors
            If the data are damaged.

        """
        data = dict(stored)
        return Experiment(validate(ExperimentFile, data, {}, "run.json"), data, "run.json", {})

    def with_method(self, method: str) -> Experiment:
        """The same experiment with another method; drops options that the method lacks.

        Raises
        ------
        UsageError
            For an unknown method.

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
            kept |= AROUND_METHOD
        elif CATALOGUE[method] is not FeasibleFit:
            kept -= {"limits", "constraints"}
        section = {k: v for k, v in dict(self.raw.get("estimate", {})).items() if k in kept}
        return self._with_key("estimate", section | {"method": method})

    def with_topics(self, topics: Sequence[str] | None) -> Experiment:
        """The same experiment with these topics of bags under [log]; unchanged for None or none."""
        if not topics:
            return self
        return self._with_key("log", dict(self.raw.get("log", {})) | {"topic": list(topics)})

    def with_values(self, written: Mapping[str, Mapping[str, Any]]) -> Experiment:
        """The same experiment with other values, by table and key, as from a command line.

        Raises
        ------
        InputErrors
            For values that the keys do not accept.

        """
        values = {table: dict(keys) for table, keys in written.items() if keys}
        validate(ExperimentFile, values, {}, "command line")
        experiment = self
        for table, keys in values.items():
            experiment = experiment._with_key(table, dict(experiment.raw.get(table, {})) | keys)
        return experiment

    def _with_key(self, key: str, value: Any) -> Experiment:
        raw = dict(self.raw) | {key: value}
        return replace(self, raw=raw, content=validate(ExperimentFile, raw, self.lines, self.file))

    def with_accepted(self, codes: Sequence[str] | None) -> Experiment:
        """The same experiment with further accepted claims; raises UsageError for the code of no claim."""
        if not codes:
            return self
        return self._with_key("accept", list(claim_codes((*self.content.accept, *codes))))

    def with_robot(self, options: Mapping[str, Any]) -> Experiment:
        """The same experiment with other values under [robot], by key; entries of tables (lock, xacro) are added.

        Raises
        ------
        InputErrors
            For values that the keys do not accept.

        """
        before = dict(self.raw.get("robot", {}))
        values = dict(options)
        if self._folder and "packages" in values:  # paths in the file are relative to it, these are not
            values["packages"] = [str(Path(folder).absolute()) for folder in values["packages"]]
        if values.get("xacro") is True and before.get("xacro"):
            del values["xacro"]  # implied by the arguments in the file
        tables = {key: table for key, table in before.items() if isinstance(table, Mapping)}
        merged = {
            key: {**tables.get(key, {}), **value} if isinstance(value, Mapping) else value
            for key, value in values.items()
        }
        return self.with_values({"robot": merged})

    @property
    def reading(self) -> Reading:
        """How the model file is read, with folders of packages relative to the experiment file."""
        reading, folder = self.content.robot.made(Reading), Path(self._folder)
        return replace(reading, packages=tuple(str(folder / package) for package in reading.packages))

    @property
    def _folder(self) -> str:
        # A stored run has no lines; its paths were made absolute.
        return str(Path(self.file).parent) if self.file and self.lines else ""

    def robot(self, path: str | Path, diagnostics: Diagnostics | None = None) -> RobotModel:
        """Read a model file with the options and drive constants of [robot].

        Raises
        ------
        InputError
            As by `load_robot` and `with_drives`.

        """
        return self.with_drives(read_robot(path, self.reading, diagnostics))

    def with_drives(self, robot: RobotModel) -> RobotModel:
        """The robot with the gear ratios, torque constants and drive gains of [robot] and the controllers of [drive].

        Raises
        ------
        InputErrors
            With the line of every joint that the robot lacks.
        InputError
            With the line of a wrong gain.

        """
        driven = self._with_linkages(self._with_constants(robot))
        try:
            return driven.with_servo(self.content.drive)
        except DynidError as error:
            raise self._placed(error, ("drive",)) from error

    def _with_linkages(self, robot: RobotModel) -> RobotModel:
        tables = {}
        for joint, entry in self.content.robot.table.items():
            try:
                tables[joint] = Table(tuple(entry.position), tuple(entry.actuator), entry.cylinder)
            except DynidError as error:
                raise self._placed(error, ("robot", "table", joint)) from error
        return with_tables(
            robot, {joint: table for joint, table in tables.items() if joint in robot.joint_names}
        )

    def _with_constants(self, robot: RobotModel) -> RobotModel:
        section = self.content.robot
        given: dict[str, dict[int, float]] = {}
        errors: list[DynidError] = []
        for table in (name for name in RobotSection.model_fields if name not in options_of(Reading)):
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
            if known and table != "table":
                given[table] = known
        if errors:
            raise InputErrors(errors)
        if not given:
            return robot
        drive = robot.drive
        if "torque_constant" in given and "drive_gain" not in given:
            # Gains take precedence over constants, so those of the model file would hide the constants given here.
            drive = replace(drive, drive_gain=np.full(robot.n, np.nan))
        return replace(robot, drive=drive.with_constants(**given))

    @property
    def data(self) -> DataSection:
        """Trajectories for training and validation."""
        return self.content.data

    def settings(self) -> Settings:
        """Settings of the identification.

        Returns
        -------
        Settings
            The settings.

        Raises
        ------
        InputError
            With the line of a wrong option.

        """
        content = self.content
        return Settings(
            terms=self.terms() if content.model.terms is not None else None,
            rows=self.rows(),
            estimator=self._estimator(),
            preparation=content.prepare,
            automatic=content.model.automatic,
            accept=tuple(content.accept),
            **asdict(content.estimate.made(Blocks)),
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain data with which a run can be repeated, with the plug-ins that it used."""
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
        # Without a method: the default, its fit without a prior for `feasible = false`, and constrained least squares
        # where constraints are set.
        section = self.content.estimate
        if section.method is not None:
            return section.method
        if section.feasible is False:
            return default_estimator().unconstrained.name
        only_feasible = set(fields_of(FeasibleFit)) - set(fields_of(type(default_estimator())))
        constrained = section.limits or section.constraints or only_feasible & set(section.options)
        return "feasible" if section.feasible or constrained else default_estimator().name

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
        options = set(fields_of(kind)) - NOT_IN_FILES
        wrapped = bool(section.feasible) and kind is not FeasibleFit
        known = options | AROUND_METHOD if wrapped else options
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
        limits = tuple(set_options(entry) for entry in section.limits or ())
        try:
            further = tuple(constraint_from_spec(constraint) for constraint in section.constraints or ())
            inner = {
                name: option_value(kind, method, name, value)
                for name, value in written.items()
                if name in options
            }
            if not wrapped:
                extra = {"required": bool(section.feasible), "limits": limits, "further": further}
                return cast(Estimator, kind(**inner, **(extra if takes_limits else {})))
            bodies = {
                name: option_value(FeasibleFit, "feasible", name, value)
                for name, value in written.items()
                if name not in options
            }
            return FeasibleFit(**bodies, limits=limits, further=further, inner=kind(**inner))
        except DynidError as error:
            where = next((name for name in written if name in error.found), "method")
            raise self._placed(error, ("estimate", where), "estimate.") from error


# Keys of [estimate] that are not options of a method.
_COMMON = set(EstimateSection.model_fields)


def _refuse_unknown(section: EstimateSection, lines: Lines, file: str) -> None:
    # An option of no method is a typing error; an option that only the named method lacks is reported when the method
    # is made.
    if section.method is not None and section.method not in CATALOGUE:
        return
    options = set(fields_of(CATALOGUE[section.method])) if section.method else set()
    known = options.union(_COMMON, *(set(fields_of(kind)) for kind in CATALOGUE.values())) - (
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
    data: Mapping[str, Any], entries: Sequence[LinkLimits], path: Path, lines: Lines
) -> dict[str, Any]:
    # Run folders are read without the meshes, so the experiment contains their hulls from here on.
    limits = [
        with_hull_of_mesh(
            set_options(entry),
            path.parent,
            Place(file=str(path), line=line_of(("estimate", "limits", k), lines)),
        )
        for k, entry in enumerate(entries)
    ]
    return dict(data) | {"estimate": dict(data["estimate"]) | {"limits": limits}}


def _with_folders(data: Mapping[str, Any], path: Path) -> dict[str, Any]:
    # Run folders are read from anywhere, so paths of message definitions become absolute.
    folders = data["log"]["definitions"]
    all_folders = [folders] if isinstance(folders, str) else folders
    folders = [str((path.parent / folder).resolve()) for folder in all_folders]
    return dict(data) | {"log": dict(data["log"]) | {"definitions": folders}}


def _with_calibration(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    # A run keeps its calibration, since the arm may be calibrated again under the same name.
    motors = {name: motor.model_dump(exclude_none=True) for name, motor in read_calibration(file).items()}
    position = dict(data["log"]["position"]) | {"calibration": motors}
    return dict(data) | {"log": dict(data["log"]) | {"position": position}}


def named_files(
    robot: str | Path,
    logs: Sequence[str | Path],
    held_out: Sequence[str | Path] = (),
    config: str | Path | None = None,
) -> dict[str, Any]:
    """Names of the model file, the logs and the experiment file of a command, as a run stores them."""
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
    selection: Sequence[str | Selection],
    diagnostics: Diagnostics,
    wrench: str | None = None,
) -> Log:
    """Open logs with the mapping of an experiment and a selection of trajectories.

    Parameters
    ----------
    experiment : Experiment
        The experiment.
    paths : sequence of str or Path
        The log files.
    robot : RobotModel
        The robot.
    selection : sequence of str or Selection
        Trajectories, by name, pattern or window; empty for all.
    diagnostics : Diagnostics
        Sink of notes and warnings.
    wrench : str, optional
        Force/torque sensor to read; its log needs positions, but no efforts.

    Returns
    -------
    Log
        The log.

    Raises
    ------
    InputError
        For missing files, columns, efforts, an undeclared sensor, or extra channels that a term reads.

    """
    section = experiment.content.log
    channels = experiment.terms().channels()
    mapping = None
    if section is not None:
        refuse_open_questions(experiment.raw["log"], robot, experiment.file, experiment.lines)
        mapping = channel_map(section, robot, experiment.file, experiment.lines)
        # Extra channels that no term reads are not read, since their gaps would cost rows.
        mapping = replace(
            mapping,
            extra=mapping.of_base | {name: mapping.extra[name] for name in channels if name in mapping.extra},
            wrench={},
        )
    if wrench is not None:
        if section is None or wrench not in section.wrench:
            sensors = ", ".join(section.wrench) if section is not None else ""
            raise InputError(
                "no-wrench",
                found=f"no sensor '{wrench}' under [log.wrench]",
                expected=f"one of {sensors}" if sensors else "its link, columns and unit",
                do=f'add [log.wrench.{wrench}] with link = "...", columns = [...], unit = "N" to the file of --config',
                place=Place(file=experiment.file or None),
            )
        declared = channel_map(section, robot, experiment.file, experiment.lines)
        mapping = replace(
            declared,
            position=declared.position or {j: Channel(f"q_{j}", "rad", 1.0) for j in robot.joint_names},
            wrench={wrench: declared.wrench[wrench]},
            effort={},
            motor_position={},
            motor_velocity={},
            temperature={},
            command_position={},
            command_velocity={},
            command_effort={},
            extra={},
            base=None,
            own_names=False,
        )
        return read_log(list(paths), robot, mapping, list(selection) or [Selection()])
    log = read_log(list(paths), robot, mapping, list(selection) or [Selection()], channels)
    if not log.has_effort:
        remarks = [
            remark for remark in log.remarks if remark.code == "not-measured" and "effort" in remark.text
        ]
        texts = [remark.text for remark in remarks]
        asked = (
            [] if texts or not Path(experiment.file).is_file() else questions_of_effort(Path(experiment.file))
        )
        nothing = "no column of effort, such as " + f"tau_{robot.joint_names[0]}"
        raise InputError(
            "no-effort",
            found="; ".join(texts)
            or (f"no effort under [log], with the open question: {' '.join(asked)}" if asked else nothing),
            expected="torque or current of every joint",
            do="record it, or take it from another topic with log.effort"
            if texts
            else "answer the question there and remove the # in front of 'effort = ...', or run dynid init again with "
            "--answer"
            if asked
            else "name the column under [log.effort]",
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
