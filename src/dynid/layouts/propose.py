"""Propose an experiment file for a log: every decision that it needs, with the evidence.

Each step has a module: `column_groups` (names), `clock` and `row_clock`, `channels`, `spare_columns`, `common_joints`,
`commands`, `missing_joints`, `measured_motion` (`units`, `zero`, `order`) and `effort`.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place, UnfitDataError, UsageError
from dynid.layouts.channels import (
    GAINS_OF_DRIVES,
    NO_EFFORT,
    NONE,
    SERVO,
    choose_channels,
    columns_by_joint,
    refuse_lacking,
    stand_in,
    with_gains,
    without_held_effort,
)
from dynid.layouts.clock import Clock, choose_clock, on_rows_of_positions, rate_from_velocity, rows_as_clock
from dynid.layouts.cylinders import Cylinders, at_joints, cylinders_of, tables_of, with_forces
from dynid.layouts.effort import (
    GAINS,
    GEARS,
    Effort,
    decide_effort,
    decide_gears,
    gears_question,
    knows_gains,
)
from dynid.layouts.effort import UNIT as EFFORT_UNIT
from dynid.layouts.joints import (
    LOCK,
    Order,
    held_joints,
    in_order,
    slides_beside,
    slides_decision,
    without_spare,
)
from dynid.layouts.meaning import Meaning, most_fitting
from dynid.layouts.measured_motion import (
    MeasuredMotion,
    in_known_order,
    measured_motion,
    on_common_joints,
    standstill,
    without_other_scales,
)
from dynid.layouts.nameless import column_groups, without_silent
from dynid.layouts.names import Family
from dynid.layouts.physics import CALIBRATION, OFFSET
from dynid.layouts.presets import Preset, presets
from dynid.layouts.proposal import (
    Answers,
    Decision,
    Excerpt,
    Group,
    Proposal,
    by_key,
    excerpt,
    require_questions,
    without_effect,
)
from dynid.layouts.units import time_unit
from dynid.layouts.write import answer_option, columns_in_words, experiment_text, files_of, question_lines
from dynid.log.clocks import ROW
from dynid.log.mapping import LIMITS, PERCENT, imu_columns, wrench_groups
from dynid.log.readers.csv import refuse_unlike
from dynid.log.readers.parts import may_be_parts, recordings
from dynid.robot.linkage import Table
from dynid.robot.load import with_tables
from dynid.robot.model import RobotModel

# Questions that may remain because a file lacks columns that other files of the recording have.
COLUMNS = ("log.time.column", "log.position.columns", "log.effort.columns")


def propose_logs(
    robot: RobotModel,
    logs: Sequence[Path],
    answers: Answers | None = None,
    further: Sequence[str | Path] = (),
) -> Proposal:
    """Propose an experiment file from the first of several recordings, or from all parts of one recording.

    The files form one recording if the first has no columns for all joints but all of them together do, or
    have more.
    """
    together = recordings(logs)[0]
    if not may_be_parts(tuple(together), robot.joint_names):
        return propose(robot, logs[0], answers, further)
    first: Proposal | UsageError
    try:
        first = propose(robot, logs[0], answers, further)
    except UsageError as error:  # an answer may name a column of another file
        first = error
    if isinstance(first, Proposal) and not _lacks_columns(first):
        return first
    try:
        whole = propose(robot, together, answers, further)
    except (InputError, UsageError):
        whole = None
    if isinstance(first, UsageError):
        if whole is None or _lacks_columns(whole):
            raise first
        return whole
    return whole if whole is not None and _lacks_columns(whole) < _lacks_columns(first) else first


def _lacks_columns(proposal: Proposal) -> int:
    return sum(decision.key in COLUMNS for decision in proposal.open)


def propose(
    robot: RobotModel,
    log: str | Path | Mapping[str, Path],
    answers: Answers | None = None,
    further: Sequence[str | Path] = (),
) -> Proposal:
    """Propose the meaning of a log's columns from their names, their shapes and the physics of the robot.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : path or dict of paths
        A file or folder, or the files of one recording by label.
    answers : dict or None
        Answers to earlier questions by key. `log.position.columns.JOINT` names the column of a single
        joint, or "none" if it has none; the same applies to velocity and effort.
    further : sequence of paths
        Further preset files, besides dynid's and its plug-ins'.

    Raises
    ------
    InputError
        If the log cannot be read.
    UsageError
        If an answer is invalid.

    """
    given = dict(answers or {})
    require_questions(given)
    robot, gears = decide_gears(robot, given)
    names = (robot.name, *robot.joint_names)
    fitting = [preset for preset in presets(further) if preset.fits(names)]
    look = excerpt(log, robot.joint_names)
    known = most_fitting(look.names, fitting, look.bag)
    families, alone = column_groups(look, robot, known)
    cylinders = cylinders_of(robot, look)
    families = with_forces(robot, families, cylinders)
    clock = _clock(look, alone, given)
    families, silent = without_silent(families, look)
    decisions = by_key(*(decision for decision in (clock.column, clock.sort, gears) if decision is not None))
    given = columns_by_joint(robot, look, families, given)
    columns, chosen = choose_channels(robot, look, clock, known, families, silent, given)
    decisions |= columns
    chosen = without_spare(look, chosen, decisions, given)
    chosen = in_known_order(robot, look, clock, chosen, given)
    if "position" in chosen:
        chosen["position"] = without_other_scales(robot, look, chosen["position"], decisions)
    efforts = chosen.get("effort")
    chosen = on_common_joints(robot, chosen, decisions)
    clock = rate_from_velocity(look, clock, chosen)
    clock, apart = on_rows_of_positions(look, clock, chosen)
    without_held_effort(robot, look, chosen, families, decisions, given)
    if "effort" not in chosen and "position" in chosen:
        stand_in(robot, look, chosen, families, decisions, given, known)
    refuse_lacking(robot, look, clock, families, chosen, decisions, given)
    missing = chosen["position"].missing if "position" in chosen else ()
    slides = slides_beside(robot, look, chosen, missing, efforts)
    locks = held_joints(robot, look, chosen, [joint for joint in missing if joint not in slides], given)
    decisions |= by_key(*([slides_decision(slides)] if slides else []), *locks)
    alike = [joint for joint, of_channel in slides.items() if of_channel.get("effort", ("", "N"))[1] == ""]
    motion, effort, tables, levers = _motion_and_effort(
        robot, look, clock, chosen, known, given, alike, cylinders
    )
    # For hydraulic cylinders, levers take the place of gear ratios.
    ratios = None if cylinders.force else gears_question(robot, given, effort)
    if ratios is not None:
        decisions = {GEARS: ratios, **decisions}
    decisions |= by_key(*_of_motion(clock, given, motion, effort), *levers)
    chosen |= _temperature(look, chosen, families)
    groups = _groups(chosen, motion.columns if motion is not None else None, slides, apart)
    with_gains(look, families, chosen, groups, decisions)
    used = {name for group in groups.values() for name in group.all_columns}
    used |= {clock.column.value or "", clock.trajectory.value or ""}
    return Proposal(
        robot,
        log if isinstance(log, Mapping) else Path(log),
        look.topics,
        tuple(decisions.values()),
        groups,
        dict(effort.values) if effort is not None else {},
        dict(effort.rated_torque) if effort is not None else {},
        {
            decision.key.removeprefix(LOCK): float(decision.value)
            for decision in locks
            if decision.value is not None
        },
        tuple(name for name in dict.fromkeys((*look.names, *_of_sensors(look))) if name not in used),
        {preset.said(entry.source): preset.title for preset in known for entry in preset.channel},
        standstill(look, chosen, motion),
        tables,
    )


def _temperature(
    look: Excerpt, chosen: Mapping[str, Family], families_of_log: Sequence[Family]
) -> dict[str, Family]:
    """Group of drive temperatures, if exactly one group of columns is one."""
    position = chosen.get("position")
    groups = [
        group
        for group in families_of_log
        if position is not None and group.meaning.quantity == "temperature" and group.joints == position.joints
        and group.named == position.named and len(group.columns) == len(position.columns)
    ]  # fmt: skip
    moved = len(groups) == 1 and bool(
        np.nanmax(np.ptp(look.table(groups[0].columns), axis=0), initial=0.0) > 0
    )
    return {"temperature": groups[0]} if moved else {}


def _of_sensors(look: Excerpt) -> list[str]:
    """Columns of force-torque sensors and of an IMU; in bags these have separate topics."""
    names = look.contents.table.column_names
    return [
        name for columns in (*wrench_groups(names).values(), *(imu_columns(names) or ())) for name in columns
    ]


def _clock(look: Excerpt, alone: Sequence[tuple[str, Meaning]], answers: Answers) -> Clock:
    """Clock from a time column, or from counted rows if there is none or the user chooses so."""
    counted = answers.get("log.time.column") == ROW and ROW not in look.names
    if counted and not look.bag:
        return rows_as_clock(look, alone, answers)
    clock = choose_clock(look, alone, answers)
    timeless = clock.column.value is None and not clock.column.options and not look.bag
    return rows_as_clock(look, alone, answers) if timeless else clock


def _motion_and_effort(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    chosen: Mapping[str, Family],
    known: Sequence[Preset],
    answers: Answers,
    alike: Sequence[str],
    cylinders: Cylinders,
) -> tuple[MeasuredMotion | None, Effort | None, dict[str, Table], list[Decision]]:
    """Interpretation of positions and efforts, and tables of cylinders; None without positions or time.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    clock : Clock
        The clock of the log.
    chosen : dict
        Column group of each channel.
    known : sequence of Preset
        Presets that match the log.
    answers : Answers
        User answers by key.
    alike : sequence of str
        Prismatic joints whose effort is in the unit of the other joints.
    cylinders : Cylinders
        Columns of cylinders.

    """
    if "position" not in chosen or clock.column.value is None or not clock.runs:
        return None, None, {}, []
    measured = measured_motion(robot, look, clock, chosen, answers)
    if "effort" not in chosen:
        return measured, None, {}, []
    effort, motion = chosen["effort"], measured.motion if measured.order.sure else None
    tables, levers = dict[str, Table](), list[Decision]()
    if cylinders.force and np.isfinite(measured.units.scale).all():
        scale = np.broadcast_to(measured.units.scale, (len(chosen["position"].joints),))
        tables, levers = tables_of(robot, look, cylinders, chosen["position"], scale)
        robot = with_tables(robot, tables)
        motion = (
            None
            if motion is None or any(not decision.sure for decision in levers)
            else at_joints(robot, motion)
        )
    joints = [joint for joint in robot.joint_names if joint in (*effort.joints, *alike)]
    # Ignore efforts that are always 0, for example of hand joints.
    of = effort.columns if effort.named else in_order(effort.columns, measured.columns)
    values = np.nan_to_num(look.table(of))
    idle = {joint for j, joint in enumerate(effort.joints[: values.shape[1]]) if not values[:, j].any()}
    joints = [joint for joint in joints if joint not in idle] or joints
    return measured, decide_effort(robot, effort.meaning, motion, known, answers, joints), tables, levers


def _of_motion(
    clock: Clock, answers: Answers, motion: MeasuredMotion | None, effort: Effort | None
) -> list[Decision]:
    if motion is None:
        return [clock.trajectory, time_unit(clock, answers)]
    units = motion.units
    decisions = [clock.trajectory, units.time, motion.order, units.position]
    decisions += [
        decision
        for decision in (motion.side, motion.zero, units.calibration, units.velocity)
        if decision is not None
    ]
    decisions += [effort.unit, effort.side] if effort is not None else []
    decisions += [effort.rated] if effort is not None and effort.rated is not None else []
    decisions += [effort.sign] if effort is not None and effort.sign is not None else []
    return decisions + ([effort.gains] if effort is not None and effort.gains is not None else [])


def _groups(
    chosen: Mapping[str, Family],
    order: Order | None,
    slides: Mapping[str, Mapping[str, tuple[str, str]]],
    apart: Collection[str],
) -> dict[str, Group]:
    """Columns of each channel, sorted by joint.

    Parameters
    ----------
    chosen : dict
        Column group of each channel.
    order : tuple of int or None
        Column order of numbered columns; None if unknown.
    slides : dict
        Separate columns of prismatic joints, by joint and channel.
    apart : collection of str
        Channels that have other rows than the positions.

    """
    groups = {}
    for kind, group in chosen.items():
        if not group.named and order is None:
            continue
        columns = group.columns if group.named or order is None else in_order(group.columns, order)
        columns_of_slides = {joint: of[kind] for joint, of in slides.items() if kind in of}
        groups[kind] = Group(
            group, dict(zip(group.joints, columns, strict=True)), columns_of_slides, kind in apart
        )
    return groups


# Tables of an experiment without column names, if names and motion leave no question.

_NAMES_OF_PARTS = (
    "if each file holds one joint or one signal of a recording, name the files "
    "accordingly: joint1.csv, torque.csv"
)


def later_question(model: RobotModel, asked: Collection[Decision], answers: Mapping[str, str]) -> str:
    """Follow-up questions that result from some of the answers, with their options; empty if there is none.

    Parameters
    ----------
    model : RobotModel
        The robot.
    asked : collection of Decision
        The remaining questions.
    answers : mapping of str to str
        Answers by key.

    Returns
    -------
    str

    """
    further = []
    if (
        any(question.key == EFFORT_UNIT for question in asked)
        and GAINS not in answers
        and not knows_gains(model)
    ):
        meaning = "N m at the joint per A or per 1, from base to tip"
        further.append(f"currents and raw values also need {GAINS}: {meaning} (--answer '{GAINS}=...')")
    percent = any(option.value == PERCENT for question in asked for option in question.options)
    if percent and CALIBRATION not in answers:
        meaning = f"the file of lerobot-calibrate, or {LIMITS}"
        further.append(f"% also needs {CALIBRATION}: {meaning} (--answer '{CALIBRATION}=...')")
    return "; ".join(further)


def found_tables(
    model: RobotModel,
    source: str | Path,
    logs: Sequence[Path],
    answers: Mapping[str, str],
    unknown: InputError | None,
    with_effort: bool = True,
) -> tuple[dict[str, Any], Finding]:
    """Tables of an experiment file, including [log], as `dynid init` writes them, and a note about them.

    Parameters
    ----------
    model : RobotModel
        The robot.
    source : str or path
        Model file of the robot.
    logs : sequence of paths
        Logs with the same columns, or the parts of one recording.
    answers : dict
        Answers by key.
    unknown : InputError or None
        Reason why the log cannot be used without these tables.
    with_effort : bool
        Whether the log must contain an effort.

    Raises
    ------
    InputError
        If questions remain; the message lists them.

    """
    proposal = propose_logs(model, logs, answers)
    look = excerpt(proposal.log, model.joint_names)
    place = Place(file=str(look.contents.path))
    given = "".join(f" --answer '{key}={value}'" for key, value in answers.items())
    call = f"dynid init {source} {files_of(proposal)}"
    # Unknown gains can be estimated by the identification.
    asked = _first([decision for decision in proposal.open if decision.key not in (SERVO, *GAINS_OF_DRIVES)])
    if asked:
        look.refuse_words(() if look.bag else [name for name in look.names if name not in look.numeric])
        if any(question.key in COLUMNS for question in asked):
            refuse_unlike(look.contents.table)
        refusals = [
            decision
            for decision in (proposal.refusal, *(decision.refusal for decision in proposal.decisions))
            if decision
        ]
        refusal = next((refusal for refusal in refusals if with_effort or refusal.code != NO_EFFORT), None)
        questions = "; ".join(
            f"{question.key}: {_asked(question)} ({answer_option(question)})" for question in asked
        )
        if later := later_question(model, asked, answers):
            questions += f"; {later}"
        error = unknown or InputError(
            "no-mapping",
            found=f"answers to {', '.join(answers)}",
            expected=f"also answers to {', '.join(question.key for question in asked)}",
            place=place,
        )
        if refusal is not None:
            kind = UnfitDataError if refusal.unfit else InputError
            before = f"{unknown.found}; " if unknown and refusal.code in ("", unknown.identifier) else ""
            raise kind(
                refusal.code or error.identifier,
                found=before + refusal.found,
                expected=refusal.expected,
                do=refusal.do,
                place=error.place,
            ) from unknown
        # A table to fill in is less helpful than these results if only some questions remain.
        nothing = "position" not in proposal.groups and not proposal["log.position.columns"].options
        answer = error.do if nothing else "answer the remaining questions"
        parts = isinstance(proposal.log, Mapping)
        problem = (
            f"{len(logs)} files of one recording, the first with {error.found}" if parts else error.found
        )
        do = answer if call in answer else f"{answer or 'answer the others too'}, or let `{call}` ask"
        if len(logs) > 1 and not parts and any(question.key in COLUMNS for question in asked):
            do += f"; {_NAMES_OF_PARTS}"
        raise InputError(
            error.identifier,
            found=f"{problem}; not determined by the column names: {questions}",
            expected=error.expected,
            do=do,
            place=place if parts else error.place,
        ) from unknown
    text = (
        f"columns detected from their names and the motion: {columns_in_words(proposal)}. "
        f"`{call}{given}` explains them and writes them to a file that you can edit"
    )
    if idle := without_effect(proposal.decisions, answers):
        text += f". The answers to {', '.join(idle)} have no effect: this log does not need them"
    tables = tomllib.loads(experiment_text(proposal, call))
    return tables, Finding(Level.NOTE, "columns-found", text, place)


def _asked(decision: Decision) -> str:
    """The question; for the unit of the effort and for the zero of the positions, also the evidence."""
    why = decision.why[:1] if decision.key == EFFORT_UNIT else decision.why if decision.key == OFFSET else ()
    return " ".join([decision.question, "; ".join(why)]).strip()


def _first(asked: Sequence[Decision]) -> list[Decision]:
    """Questions to ask first. The others, such as the unit of the effort, may be settled by these answers."""
    keys = {decision.key for decision in asked}
    behind = {"log.time.unit"} if "log.time.column" in keys else set()
    if keys & {"log.time.column", "log.time.unit", "log.position.columns", "log.position.unit", OFFSET}:
        behind |= {EFFORT_UNIT, "log.order"}
    if GEARS in keys:
        behind |= {EFFORT_UNIT, "log.order", OFFSET}
    behind |= {
        decision.key
        for decision in asked
        if decision.key == "log.effort.columns" and all(option.value == NONE for option in decision.options)
        and "log.position.columns" in keys
    }  # fmt: skip
    if "log.effort.columns" in keys:
        behind |= {"log.order"}
    return [decision for decision in asked if decision.key not in behind]


# Interactive questions, asked one at a time because each answer may settle the next ones.

Say = Callable[[str], None]
Read = Callable[[str], str]


def ask_all(
    robot: RobotModel,
    log: Path | Mapping[str, Path],
    proposal: Proposal,
    answers: dict[str, str],
    further: Sequence[Path],
    say: Say,
    read: Read,
) -> Proposal:
    """Ask the remaining questions until none is left or the user skips the rest with an empty line.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    log : path or dict of paths
        The log.
    proposal : Proposal
        Proposal with the first questions.
    answers : dict
        Answers by key; accepted answers are added.
    further : sequence of paths
        Preset files.
    say : callable
        Prints a line.
    read : callable
        Prints a prompt and returns the answer.

    """
    left_open: set[str] = set()
    while True:
        question = next((decision for decision in proposal.open if decision.key not in left_open), None)
        if question is None:
            return proposal
        for line in question_lines(question):
            say(line)
        answer = _meant(question, read("answer (empty = skip): ").strip())
        if not answer:
            left_open.add(question.key)
            continue
        try:
            proposal = propose(robot, log, answers | {question.key: answer}, further)
        except UsageError as error:
            say(str(error))
            continue
        if question.key in {decision.key for decision in proposal.open}:
            say("this answer does not apply")
            continue
        answers[question.key] = answer


def _meant(question: Decision, answer: str) -> str:
    """The option that starts with the typed text if it is unique, otherwise the typed text."""
    values = [option.value for option in question.options]
    if answer in values or not answer:
        return answer
    begin = [
        value
        for value in values
        if value.lower().replace(" ", "").startswith(answer.lower().replace(" ", ""))
    ]
    return begin[0] if len(begin) == 1 else answer
