"""A log looked at as a whole: every decision that an experiment file needs, with its evidence.

Each step has a file: `column_groups` (names), `clock` and `row_clock`, `channels`, `spare_columns`, `common_joints`,
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
from dynid.layouts.physics import OFFSET
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
from dynid.log.mapping import imu_columns, wrench_groups
from dynid.log.readers.csv import refuse_unlike
from dynid.log.readers.parts import may_be_parts, recordings
from dynid.robot.linkage import Table
from dynid.robot.load import with_tables
from dynid.robot.model import RobotModel

# Questions that are left open where a file lacks what others hold.
COLUMNS = ("log.time.column", "log.position.columns", "log.effort.columns")


def propose_logs(
    robot: RobotModel,
    logs: Sequence[Path],
    answers: Answers | None = None,
    further: Sequence[str | Path] = (),
) -> Proposal:
    """As `propose` of the first of several recordings; of all files together where they are parts of one.

    They are where the first has no columns of all joints, and all together have, or have more of them.
    """
    together = recordings(logs)[0]
    if not may_be_parts(tuple(together), robot.joint_names):
        return propose(robot, logs[0], answers, further)
    first: Proposal | UsageError
    try:
        first = propose(robot, logs[0], answers, further)
    except UsageError as error:  # an answer may name a column of another part
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


def _lacks_columns(found: Proposal) -> int:
    return sum(one.key in COLUMNS for one in found.open)


def propose(
    robot: RobotModel,
    log: str | Path | Mapping[str, Path],
    answers: Answers | None = None,
    further: Sequence[str | Path] = (),
) -> Proposal:
    """Looks at names, shapes and physics of a log and says what its columns are.

    log: a file or folder, or the files of one recording by their labels.
    answers: by key, of earlier questions; `log.position.columns.JOINT` is the column of one joint, "none" = it has
    none; velocity and effort alike.    further: preset files beside those of dynid and of plug-ins.
    Raises InputError for a log that cannot be read, UsageError for an answer that is none.
    """
    given = dict(answers or {})
    require_questions(given)
    robot, gears = decide_gears(robot, given)
    names = (robot.name, *robot.joint_names)
    fitting = [one for one in presets(further) if one.fits(names)]
    look = excerpt(log, robot.joint_names)
    known = most_fitting(look.names, fitting, look.bag)
    found, alone = column_groups(look, robot, known)
    cylinders = cylinders_of(robot, look)
    found = with_forces(robot, found, cylinders)
    clock = _clock(look, alone, given)
    found, silent = without_silent(found, look)
    decisions = by_key(*(one for one in (clock.column, clock.sort, gears) if one is not None))
    given = columns_by_joint(robot, look, found, given)
    columns, chosen = choose_channels(robot, look, clock, known, found, silent, given)
    decisions |= columns
    chosen = without_spare(look, chosen, decisions, given)
    chosen = in_known_order(robot, look, clock, chosen, given)
    if "position" in chosen:
        chosen["position"] = without_other_scales(robot, look, chosen["position"], decisions)
    efforts = chosen.get("effort")
    chosen = on_common_joints(robot, chosen, decisions)
    clock = rate_from_velocity(look, clock, chosen)
    clock, apart = on_rows_of_positions(look, clock, chosen)
    without_held_effort(robot, look, chosen, found, decisions, given)
    if "effort" not in chosen and "position" in chosen:
        stand_in(robot, look, chosen, found, decisions, given, known)
    refuse_lacking(robot, look, clock, found, chosen, decisions, given)
    missing = chosen["position"].missing if "position" in chosen else ()
    slides = slides_beside(robot, look, chosen, missing, efforts)
    held = held_joints(robot, look, chosen, [joint for joint in missing if joint not in slides], given)
    decisions |= by_key(*([slides_decision(slides)] if slides else []), *held)
    alike = [joint for joint, own in slides.items() if own.get("effort", ("", "N"))[1] == ""]
    motion, effort, tables, levers = _motion_and_effort(
        robot, look, clock, chosen, known, given, alike, cylinders
    )
    # The levers of cylinders stand in the place of gears.
    ratios = None if cylinders.force else gears_question(robot, given, effort)
    if ratios is not None:
        decisions = {GEARS: ratios, **decisions}
    decisions |= by_key(*_of_motion(clock, given, motion, effort), *levers)
    chosen |= _temperature(look, chosen, found)
    groups = _groups(chosen, motion.columns if motion is not None else None, slides, apart)
    with_gains(look, found, chosen, groups, decisions)
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
        {one.key.removeprefix(LOCK): float(one.value) for one in held if one.value is not None},
        tuple(name for name in dict.fromkeys((*look.names, *_of_sensors(look))) if name not in used),
        {one.said(entry.source): one.title for one in known for entry in one.channel},
        standstill(look, chosen, motion),
        tables,
    )


def _temperature(look: Excerpt, chosen: Mapping[str, Family], found: Sequence[Family]) -> dict[str, Family]:
    """Temperatures of the joints' drives, where a single group of columns is one."""
    position = chosen.get("position")
    groups = [
        one
        for one in found
        if position is not None and one.meaning.quantity == "temperature" and one.joints == position.joints
        and one.named == position.named and len(one.columns) == len(position.columns)
    ]  # fmt: skip
    moved = len(groups) == 1 and bool(
        np.nanmax(np.ptp(look.table(groups[0].columns), axis=0), initial=0.0) > 0
    )
    return {"temperature": groups[0]} if moved else {}


def _of_sensors(look: Excerpt) -> list[str]:
    """Columns of force/torque sensors and of an IMU, which are on topics of their own in bags."""
    names = look.contents.table.column_names
    return [
        name for columns in (*wrench_groups(names).values(), *(imu_columns(names) or ())) for name in columns
    ]


def _clock(look: Excerpt, alone: Sequence[tuple[str, Meaning]], answers: Answers) -> Clock:
    """A column of time, else rows that are counted: also where the user says so."""
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
    """How positions and efforts are to be read, and tables of cylinders; None without positions or time.

    alike: joints that slide whose effort is in the others' unit.
    """
    if "position" not in chosen or clock.column.value is None or not clock.runs:
        return None, None, {}, []
    found = measured_motion(robot, look, clock, chosen, answers)
    if "effort" not in chosen:
        return found, None, {}, []
    effort, motion = chosen["effort"], found.motion if found.order.sure else None
    tables, levers = dict[str, Table](), list[Decision]()
    if cylinders.force and np.isfinite(found.units.scale).all():
        scale = np.broadcast_to(found.units.scale, (len(chosen["position"].joints),))
        tables, levers = tables_of(robot, look, cylinders, chosen["position"], scale)
        robot = with_tables(robot, tables)
        motion = None if motion is None or any(not one.sure for one in levers) else at_joints(robot, motion)
    joints = [one for one in robot.joint_names if one in (*effort.joints, *alike)]
    # Nothing is worth 0, which is no effort: of joints of a hand, for one.
    of = effort.columns if effort.named else in_order(effort.columns, found.columns)
    values = np.nan_to_num(look.table(of))
    idle = {joint for j, joint in enumerate(effort.joints[: values.shape[1]]) if not values[:, j].any()}
    joints = [one for one in joints if one not in idle] or joints
    return found, decide_effort(robot, effort.meaning, motion, known, answers, joints), tables, levers


def _of_motion(
    clock: Clock, answers: Answers, motion: MeasuredMotion | None, effort: Effort | None
) -> list[Decision]:
    if motion is None:
        return [clock.trajectory, time_unit(clock, answers)]
    units = motion.units
    found = [clock.trajectory, units.time, motion.order, units.position]
    found += [one for one in (motion.side, motion.zero, units.calibration, units.velocity) if one is not None]
    found += [effort.unit, effort.side] if effort is not None else []
    found += [effort.rated] if effort is not None and effort.rated is not None else []
    found += [effort.sign] if effort is not None and effort.sign is not None else []
    return found + ([effort.gains] if effort is not None and effort.gains is not None else [])


def _groups(
    chosen: Mapping[str, Family],
    order: Order | None,
    slides: Mapping[str, Mapping[str, tuple[str, str]]],
    apart: Collection[str],
) -> dict[str, Group]:
    """The columns by joint.    order: of numbered columns, None = not known.    slides: by joint and channel."""
    found = {}
    for kind, one in chosen.items():
        if not one.named and order is None:
            continue
        columns = one.columns if one.named or order is None else in_order(one.columns, order)
        own = {joint: of[kind] for joint, of in slides.items() if kind in of}
        found[kind] = Group(one, dict(zip(one.joints, columns, strict=True)), own, kind in apart)
    return found


# What an experiment says of a log whose columns nobody named, where names and motion leave nothing to ask.

_NAMES_OF_PARTS = (
    "where each file holds a joint or a signal of one recording, give them names that say so: "
    "joint1.csv, torque.csv"
)


def later_question(model: RobotModel, asked: Collection[str], answers: Mapping[str, str]) -> str:
    """The question that follows from some answers to those asked, with its option; "" = none.

    Parameters
    ----------
    model : RobotModel
        The robot.
    asked : collection of str
        Keys of open questions.
    answers : mapping of str to str
        Answers by key.

    Returns
    -------
    str

    """
    if EFFORT_UNIT not in asked or GAINS in answers or knows_gains(model):
        return ""
    meaning = "N m at the joint per A or per 1, from base to tip"
    return f"of currents and raw values {GAINS}, too: {meaning} (--answer '{GAINS}=...')"


def found_tables(
    model: RobotModel,
    source: str | Path,
    logs: Sequence[Path],
    answers: Mapping[str, str],
    unknown: InputError | None,
    with_effort: bool = True,
) -> tuple[dict[str, Any], Finding]:
    """The tables of an experiment, [log] among them, as `dynid init` writes them, and the note that says so.

    logs: of one mapping, or parts of one recording.    source: of the robot's description.    answers: to questions,
    by key.    unknown: what stands against the log without a mapping. Raises it with the questions that are open.
    with_effort: whether a log without efforts is of no use.
    """
    proposal = propose_logs(model, logs, answers)
    look = excerpt(proposal.log, model.joint_names)
    place = Place(file=str(look.contents.path))
    given = "".join(f" --answer '{key}={value}'" for key, value in answers.items())
    call = f"dynid init {source} {files_of(proposal)}"
    # Gains that nobody knows are sought by the identification.
    asked = _first([one for one in proposal.open if one.key not in (SERVO, *GAINS_OF_DRIVES)])
    if asked:
        look.refuse_words(() if look.bag else [name for name in look.names if name not in look.numeric])
        if any(one.key in COLUMNS for one in asked):
            refuse_unlike(look.contents.table)
        refusals = [one for one in (proposal.refusal, *(one.refusal for one in proposal.decisions)) if one]
        refusal = next((one for one in refusals if with_effort or one.code != NO_EFFORT), None)
        questions = "; ".join(f"{one.key}: {_asked(one)} ({answer_option(one)})" for one in asked)
        if later := later_question(model, [question.key for question in asked], answers):
            questions += f"; {later}"
        error = unknown or InputError(
            "no-mapping",
            found=f"answers to {', '.join(answers)}",
            expected=f"answers to {', '.join(one.key for one in asked)}, too",
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
        # A table to fill in says less than what was found, where only some questions are open.
        nothing = "position" not in proposal.groups and not proposal["log.position.columns"].options
        answer = error.do if nothing else "answer what is open"
        parts = isinstance(proposal.log, Mapping)
        found = f"{len(logs)} files of one recording, the first with {error.found}" if parts else error.found
        do = answer if call in answer else f"{answer or 'answer the others, too'}, or let `{call}` ask"
        if len(logs) > 1 and not parts and any(one.key in COLUMNS for one in asked):
            do += f"; {_NAMES_OF_PARTS}"
        raise InputError(
            error.identifier,
            found=f"{found}; the names of the columns leave open: {questions}",
            expected=error.expected,
            do=do,
            place=place if parts else error.place,
        ) from unknown
    text = (
        f"columns, as their names and the motion say: {columns_in_words(proposal)}. "
        f"`{call}{given}` says why and writes them into a file that can be changed"
    )
    if idle := without_effect(proposal.decisions, answers):
        text += f". Nothing depends on the answers to {', '.join(idle)}: the log does not ask them"
    tables = tomllib.loads(experiment_text(proposal, call))
    return tables, Finding(Level.NOTE, "columns-found", text, place)


def _asked(one: Decision) -> str:
    """A question, with its evidence where any number may be the answer: of an effort's unit, and of a zero."""
    why = one.why[:1] if one.key == EFFORT_UNIT else one.why if one.key == OFFSET else ()
    return " ".join([one.question, "; ".join(why)]).strip()


def _first(asked: Sequence[Decision]) -> list[Decision]:
    """Questions but those that may have no need to be asked once others are answered: motion shows units of efforts."""
    keys = {one.key for one in asked}
    behind = {"log.time.unit"} if "log.time.column" in keys else set()
    if keys & {"log.time.column", "log.time.unit", "log.position.columns", "log.position.unit", OFFSET}:
        behind |= {EFFORT_UNIT, "log.order"}
    if GEARS in keys:
        behind |= {EFFORT_UNIT, "log.order", OFFSET}
    behind |= {
        one.key
        for one in asked
        if one.key == "log.effort.columns" and all(option.value == NONE for option in one.options)
        and "log.position.columns" in keys
    }  # fmt: skip
    if "log.effort.columns" in keys:
        behind |= {"log.order"}
    return [one for one in asked if one.key not in behind]


# The questions that are left, asked one after the other; each answer may settle the next ones.

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
    """Asks what is open, until nothing is or the user leaves the rest open with an empty line.

    say, read: print a line; print a prompt and return the answer.
    """
    left_open: set[str] = set()
    while True:
        question = next((one for one in proposal.open if one.key not in left_open), None)
        if question is None:
            return proposal
        for line in question_lines(question):
            say(line)
        answer = _meant(question, read("answer (empty = leave it open): ").strip())
        if not answer:
            left_open.add(question.key)
            continue
        try:
            proposal = propose(robot, log, answers | {question.key: answer}, further)
        except UsageError as error:
            say(str(error))
            continue
        if question.key in {one.key for one in proposal.open}:
            say("that does not fit")
            continue
        answers[question.key] = answer


def _meant(question: Decision, answer: str) -> str:
    """An option by its first letters where only one begins so, else what was typed."""
    values = [one.value for one in question.options]
    if answer in values or not answer:
        return answer
    begin = [
        one for one in values if one.lower().replace(" ", "").startswith(answer.lower().replace(" ", ""))
    ]
    return begin[0] if len(begin) == 1 else answer
