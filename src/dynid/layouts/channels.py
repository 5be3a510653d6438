"""Select the measured columns of position, velocity and effort, and reject commanded ones."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import Place, UsageError
from dynid.base.numerics import nnls
from dynid.base.records import few
from dynid.base.units import factor
from dynid.layouts.clock import Clock
from dynid.layouts.effort import knows_gains, preset_gains, torque_size
from dynid.layouts.meaning import (
    EFFORTS,
    Meaning,
    is_filtered,
    is_unprocessed,
    meaning_of,
    names_signal,
    unit_of_slide,
    without_units,
    words,
)
from dynid.layouts.names import Family, families
from dynid.layouts.physics import DECISIVE
from dynid.layouts.presets import UNKNOWN, Preset, matches_word
from dynid.layouts.proposal import Answers, Decision, Excerpt, Group, Option, Refusal, by_key, decided
from dynid.log.files import parts_beside
from dynid.log.joints import hand_joints
from dynid.log.mapping import PERCENT
from dynid.robot.drive import DRIVE
from dynid.robot.model import RobotModel, path_to_base

NONE = "none"
FORCES = ("N", "kN")
SI = ("rad", "rad/s", "N m", "A")
_NAMED = 4  # files that are listed
# Components of a force-torque sensor between flange and tool.
_OF_TOOL = re.compile(r"[ftm][xyz]")
# Quantities that drives measure about themselves.
_OF_DRIVES = {"temperature", "temperatures", "temp", "voltage", "voltages"}


def choose_channels(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    known: Sequence[Preset],
    groups: Sequence[Family],
    silent: Sequence[str],
    answers: Answers,
) -> tuple[dict[str, Decision], dict[str, Family]]:
    """Select the column group of each channel.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    clock : Clock
        The clock of the log.
    known : sequence of Preset
        Presets that match the log.
    groups : sequence of Family
        All column groups of the log.
    silent : sequence of str
        Names of efforts that are 0 in every row.
    answers : Answers
        User answers by key.

    Raises
    ------
    UsageError
        If an answer is invalid.
    InputError
        If a column of a channel contains text among its numbers.

    """
    decisions: dict[str, Decision] = {}
    chosen: dict[str, Family] = {}
    for kind in ("position", "velocity", "effort"):
        # If the robot has other joints than the log, answers cannot apply to its columns.
        other_robot = any(earlier.refusal for earlier in decisions.values())
        given = {} if other_robot else answers
        asked = kind == "effort" and "log.effort.columns" not in given
        worthless = asked and not (knows_gains(robot) or preset_gains(robot, known))
        able = [group for group in groups if group not in chosen.values()] if kind == "effort" else groups
        able = _of_load(robot, able) if asked else able
        decision, family = choose(kind, _with_torques_of_drives(able) if worthless else able, given)
        if (
            kind == "position"
            and family is None
            and not any(group.meaning.quantity == kind for group in groups)
        ):
            decision = _with_chains(decision, look, robot, known)
        decision, family = _by_joint(kind, decision, family, robot, look, groups, answers)
        if decision.question and family is None:
            decision = _with_help(kind, decision, robot, look, clock, silent)
        decisions[decision.key] = decision
        if family is not None:
            chosen[kind] = family
    _refuse_broken(look, robot, known, chosen)
    return decisions, chosen


def columns_by_joint(
    robot: RobotModel, look: Excerpt, groups: Sequence[Family], answers: Answers
) -> dict[str, str]:
    """Convert answers that list a column for each joint, separated by commas, into one answer per joint.

    The list covers all joints from base to tip, or all except the hand's.
    """
    given = dict(answers)
    hands = hand_joints(robot)
    for kind in ("position", "velocity", "effort"):
        key = f"log.{kind}.columns"
        answer = answers.get(key, NONE)
        if answer == NONE or any(group.template == answer for group in groups):
            continue
        columns = [answer] if answer in look.numeric else [text.strip() for text in answer.split(",")]
        for joints in (robot.joint_names, tuple(joint for joint in robot.joint_names if joint not in hands)):
            if len(columns) == len(joints) and set(columns) <= {*look.numeric, NONE}:
                del given[key]
                given |= {f"{key}.{joint}": column for joint, column in zip(joints, columns, strict=True)}
                break
    return given


def _of_load(robot: RobotModel, groups: Sequence[Family]) -> list[Family]:
    """Drop efforts with a unit of force if all joints are revolute, and of torque if all are prismatic."""

    def is_other(group: Family) -> bool:
        if group.meaning.quantity not in EFFORTS:
            return False
        if all(robot.prismatic):
            return torque_size(group.meaning.unit) is not None and group.meaning.unit not in FORCES
        stated = unit_of_slide(re.sub(r"\{\w+\}", "", group.template), "")
        return not any(robot.prismatic) and stated is not None and stated[1] in FORCES

    kept = [group for group in groups if not is_other(group)]
    return kept if any(group.meaning.quantity in EFFORTS for group in kept) else list(groups)


def _with_torques_of_drives(groups: Sequence[Family]) -> list[Family]:
    """Drop currents with unknown torque constants if the log also has the torque that the drives compute."""
    torques = [k for k, group in enumerate(groups) if group.meaning.quantity == "torque"]
    measured = [
        group
        for group in groups
        if group.meaning.quantity == "current" and group.meaning.role in ("", "measured")
    ]
    if len(torques) != 1 or not measured or groups[torques[0]].meaning.role != "estimated":
        return list(groups)
    return [group for group in groups if group not in measured]


def choose(kind: str, groups: Sequence[Family], answers: Answers) -> tuple[Decision, Family | None]:
    """Select the columns of "position", "velocity" or "effort"."""
    key = f"log.{kind}.columns"
    wanted = EFFORTS if kind == "effort" else (kind,)
    same = [group for group in groups if group.meaning.quantity in wanted]
    fit = [group for group in same if group.meaning.role in ("", "measured") and not group.meaning.motor]
    fit = fit or [group for group in same if group.meaning.role in ("", "measured")]
    fit = fit or [group for group in same if group.meaning.role == "estimated"]
    fit = fit or [group for group in same if group.meaning.role == "spare"]
    fit = [group for group in fit if not group.meaning.doubt] or fit
    fullest = min((len(group.missing) for group in fit), default=0)
    fit = [group for group in fit if len(group.missing) == fullest]
    measured = [group for group in fit if group.meaning.role == "measured"]
    short = measured or fit
    short = (
        [group for group in short if not group.in_part] if any(_in_full(group) for group in short) else short
    )
    short = [group for group in short if not is_filtered(group.template)] or short
    short = [group for group in short if not is_unprocessed(group.template)] or short
    short = _once(_most_direct(short, groups) if kind == "effort" else short)
    options = tuple(Option(group.template, _in_words(group)) for group in same)
    if not same:
        options = tuple(
            Option(group.template, "unknown signal") for group in groups if not group.meaning.quantity
        )
    if kind == "effort":
        options = (*options, Option(NONE, "the log has none"))
    decision = _one_of(key, kind, short, same, options)
    decision = decided(decision, answers)
    chosen = next((group for group in groups if group.template == decision.value), None)
    if decision.value not in (None, NONE) and chosen is None:
        decision = Decision(key, None, (f"no columns '{decision.value}'",), "which columns?", options)
    return decision, chosen


def _in_full(group: Family) -> bool:
    return group.named and not group.in_part


def _most_direct(short: list[Family], groups: Sequence[Family]) -> list[Family]:
    """Keep the most direct efforts: measured torques, otherwise currents, otherwise counts.

    A torque that is not marked as measured may be commanded, so a current is preferred. The exception is a
    torque in a record that also reports the drive's voltage or temperature: the drive computed it from its
    current.

    Parameters
    ----------
    short : list of Family
        Candidate groups.
    groups : sequence of Family
        All column groups of the log.

    """
    if not all(group.meaning.quantity in ("torque", "current", "raw") for group in short):
        return short
    torques = [group for group in short if group.meaning.quantity == "torque"]
    reports = {_record(group) for group in groups if set(words(group.template)) & _OF_DRIVES}
    if torques and all(group.meaning.role == "measured" or _record(group) in reports for group in short):
        return torques
    return [group for group in short if group.meaning.quantity != "raw"] or short


def _record(group: Family) -> tuple[str, ...]:
    """Words of a name besides the signal, which groups of the same record have in common."""
    return tuple(word for word in words(group.template) if not names_signal(word))


def _once(short: list[Family]) -> list[Family]:
    """Remove duplicate signals, preferring SI units, then joint names, then a documented source."""
    by_name: dict[tuple[str, ...], list[Family]] = {}
    for group in short:
        by_name.setdefault(without_units(group.template), []).append(group)
    kept: list[Family] = []
    for same in by_name.values():
        stated = all(group.meaning.unit != UNKNOWN for group in same)
        kept += [next((group for group in same if group.meaning.unit in SI), same[0])] if stated else same
    kept = [group for group in kept if group.named] or kept
    sourced = [group for group in kept if group.meaning.said_by not in ("", "name")]
    return sourced if len(sourced) == 1 else kept


def _one_of(
    key: str, kind: str, short: Sequence[Family], same: Sequence[Family], options: tuple[Option, ...]
) -> Decision:
    optional = kind == "velocity"
    if len(short) == 1:
        chosen = short[0]
        beside = [other.template for other in same if other is not chosen]
        why = _said(chosen) + (f"; also logged: {', '.join(beside)}" if beside else "")
        if not chosen.meaning.role and any(other.meaning.role == "commanded" for other in same):
            why += "; the others are marked as commanded, this one is not"
        elif chosen.meaning.role == "estimated":
            made_of = "motor current" if kind == "effort" else "encoder counts"
            why += f", marked as estimated, as in drives that compute it from {made_of}: used as measured"
        elif not chosen.meaning.role:
            why += "; the name does not state whether it is measured or commanded: used as measured"
        bare = not chosen.meaning.role and not any(other.meaning.role == "commanded" for other in same)
        bare |= chosen.meaning.role == "estimated"
        return Decision(key, chosen.template, (why,), options=options, optional=optional, likely=bare)
    if optional:
        several = ", ".join(group.template for group in short)
        why = f"several groups match, so none is used: {several}" if short else "no measured column"
        why += "; velocity is computed from position"
        return Decision(key, None, (why,), options=options, optional=True, likely=bool(short))
    if short:
        names = ", ".join(f"'{group.template}' ({_in_words(group)})" for group in short)
        return Decision(
            key,
            None,
            (f"several groups match: {names}",),
            f"which columns are the measured {kind}?",
            options,
        )
    others = [group for group in same if group.meaning.role in ("commanded", "estimated", "model", "spare")]
    if others:
        names = ", ".join(f"'{group.template}' ({_in_words(group)})" for group in others)
        question = f"which columns are the {kind}?"
        if kind == "effort" and any(group.meaning.role == "commanded" for group in others):
            question += (
                " None is marked as measured. A torque or current reference of the drive's "
                "controller is usable, because the drive follows it closely; a feed-forward alone is "
                "not"
            )
        return Decision(key, None, (f"no {kind} is measured: {names}",), question, options)
    return Decision(
        key,
        None,
        (f"no group with one column per joint is named {kind}",),
        f"which columns are the {kind}?",
        options,
    )


def _in_words(group: Family) -> str:
    role = {"": "not stated whether measured or commanded", "model": "computed, not measured"}.get(
        group.meaning.role, group.meaning.role
    )
    return f"{group.meaning.quantity or 'unknown'}, {role}"


def _said(group: Family) -> str:
    return "according to the name" if group.meaning.said_by in ("", "name") else group.meaning.said_by


def _meaning(kind: str, columns: Mapping[str, str], groups: Sequence[Family]) -> Meaning:
    """Meaning of the columns that the user named, from the group that contains them if it has that signal."""
    wanted = EFFORTS if kind == "effort" else (kind,)
    matching = [
        group
        for group in groups
        if {*columns.values()} <= {*group.columns} and group.meaning.quantity in wanted
    ]
    return replace(matching[0].meaning, role="measured") if matching else Meaning(kind, said_by="name")


def _by_joint(
    kind: str,
    decision: Decision,
    family: Family | None,
    robot: RobotModel,
    look: Excerpt,
    groups: Sequence[Family],
    answers: Answers,
) -> tuple[Decision, Family | None]:
    """Add the columns that the user named for single joints to the selected group."""
    key = f"log.{kind}.columns"
    given = {joint: answers[f"{key}.{joint}"] for joint in robot.joint_names if f"{key}.{joint}" in answers}
    unknown = [
        answer
        for answer in answers
        if answer.startswith(f"{key}.") and answer.removeprefix(f"{key}.") not in given
    ]
    if unknown:
        raise UsageError("unknown-answer", found=unknown[0], expected=f"{key}.JOINT, a joint of the robot")
    if not given:
        return decision, family
    columns = {} if family is None else dict(zip(family.joints, family.columns, strict=False))
    columns |= given
    columns = {joint: columns[joint] for joint in robot.joint_names if columns.get(joint, NONE) != NONE}
    absent = [column for column in columns.values() if column not in look.numeric]
    twice = [column for column in columns.values() if list(columns.values()).count(column) > 1]
    if absent or twice:
        raise UsageError(
            "unknown-answer",
            found=f"{kind} in column '{(absent or twice)[0]}'" + ("" if absent else " of two joints"),
            expected="a numeric column for each joint, not shared with another",
        )
    whole = Family(
        ", ".join(columns.values()) if family is None else family.template,
        tuple(columns.values()),
        tuple(columns),
        True,
        0,
        tuple(joint for joint in robot.joint_names if joint not in columns),
        _meaning(kind, columns, groups) if family is None else family.meaning,
    )
    why = "as you say, per joint"
    if not columns:
        return Decision(key, NONE, (why,), options=decision.options, optional=decision.optional), None
    return Decision(key, whole.template, (why,), options=decision.options, optional=decision.optional), whole


def _with_help(
    kind: str, decision: Decision, robot: RobotModel, look: Excerpt, clock: Clock, silent: Sequence[str]
) -> Decision:
    """Add hints to a question for columns that no group matches."""
    if kind == "effort" and silent:
        question = f"which columns are the effort? '{silent[0]}' is 0 in every row"
        decision = replace(decision, question=question)
    if kind == "position" and look.orientations:
        four = look.orientations[0]
        none = (
            f"'{four[0]}' to '{four[-1]}' are not positions but a unit quaternion, the orientation of a link"
        )
        decision = replace(decision, question=f"{decision.question} {none}")
    if parts := parts_beside(look.contents.path):
        why = (
            f"same folder, same number of rows: {few(parts, _NAMED)}; if they are parts of one "
            "recording, give their folder"
        )
        decision = replace(decision, why=(*decision.why, why))
    if all(option.value == NONE for option in decision.options):
        decision = _with_example(kind, decision, robot, look, clock)
    return decision


def _with_example(kind: str, decision: Decision, robot: RobotModel, look: Excerpt, clock: Clock) -> Decision:
    """Add to the question an example answer that names the most similar column for one joint."""
    columns = [name for name in look.numeric if name != clock.column.value]
    if not columns:
        return decision
    joint, *others = robot.joint_names
    called = " ".join(words(f"{joint} {kind}"))
    likely = _of_kind(kind, [name for name in columns if np.nan_to_num(np.ptp(look.table([name])))])
    if not likely:
        return decision
    column = max(likely, key=lambda name: SequenceMatcher(None, " ".join(words(name)), called).ratio())
    if len(columns) < robot.n:
        available = f"{len(columns)} numeric column{'s' * (len(columns) > 1)} ({few(columns, _NAMED)})"
        question = f"{decision.question} The log has {available} for {robot.n} joints"
        more = (
            " and the same for the others; you are asked for the fixed position of a joint without a column"
        )
        return replace(decision, question=question, example=(f"{decision.key}.{joint}={column}", more))
    rest = f", and the same for {', '.join(others)}" if others else ""
    rest += f" ({NONE} for a joint without a motor)" if others and kind == "effort" else ""
    return replace(decision, example=(f"{decision.key}.{joint}={column}", rest))


def _of_kind(kind: str, columns: Sequence[str]) -> list[str]:
    """Columns named as the channel, otherwise columns named as no other channel; tool forces are left out."""
    wanted = EFFORTS if kind == "effort" else (kind,)
    quantities = {name: meaning_of(f"{name} {{joint}}", "{joint}", (), False).quantity for name in columns}
    named = [name for name in columns if quantities[name] in wanted]
    return named or [
        name for name in columns if not quantities[name] and not any(map(_OF_TOOL.fullmatch, words(name)))
    ]


def _with_chains(decision: Decision, look: Excerpt, robot: RobotModel, known: Sequence[Preset]) -> Decision:
    """Add to a question for positions the kinematic chains with as many joints as there are numbered columns."""
    moves = robot.projection != 0
    joints = [int(moves[path_to_base(robot, i)].any(axis=0).sum()) for i in range(robot.n_bodies)]
    for m in sorted({count for count in joints if count < robot.n}, reverse=True):
        tips = [name for name, count in zip(robot.body_names, joints, strict=True) if count == m]
        numbered = [
            joint.template
            for joint in families(look.numeric, robot.joint_names[:m], known, look.bag)
            if joint.meaning.quantity == "position"
            and not joint.named
            and len(joint.columns) == m
            and np.nan_to_num(np.ptp(look.table(joint.columns), axis=0)).any()
        ]
        if m > 1 and numbered:
            why = (
                f"'{numbered[0]}' numbers {m} columns but the robot has {robot.n} joints: run again "
                f"with the last link of the logged arm, --tip {' or --tip '.join(tips)}, or with "
                "--lock for joints that did not move"
            )
            refusal = Refusal(
                why,
                "as many columns as the robot has joints",
                "run again with the robot of this log, then answer the remaining questions",
            )
            return replace(decision, why=(*decision.why, why), refusal=refusal)
    return decision


def _refuse_broken(
    look: Excerpt, robot: RobotModel, known: Sequence[Preset], chosen: Mapping[str, Family]
) -> None:
    """Raise InputError if text in a column keeps a group of positions or efforts from being complete.

    Otherwise the joint would be fixed, or the user asked a question without a correct answer.

    Parameters
    ----------
    look : Excerpt
        Names and first rows of the log.
    robot : RobotModel
        The robot.
    known : sequence of Preset
        Presets that match the log.
    chosen : dict
        Selected groups by channel.

    """
    if look.bag or not (texts := set(look.names) - set(look.numeric)):
        return
    whole = families(look.names, robot.joint_names, known)
    for other in whole:
        kind = "effort" if other.meaning.quantity in EFFORTS else other.meaning.quantity
        broken, selected = [name for name in other.columns if name in texts], chosen.get(kind)
        lacks = selected is None or set(selected.columns) < set(other.columns)
        if kind in ("position", "effort") and 0 < len(broken) < len(other.columns) and lacks:
            look.refuse_words(broken)


# Commands in place of an effort that was not measured, and the controller gains that the log implies.

GAINS_OF_DRIVES = ("drive.kp", "drive.kd")
DELAY, LOOP = "drive.delay", "drive.loop"
# Decision on the preset data sheet that describes the drives, its answer for none of them, and the values it contains.
SERVO, OTHER_SERVO = "drive.servo", "other"
DATA_SHEET = ("drive.stall_torque", "drive.no_load_speed", "drive.duty_gain")
# Maximum factor between the spreads of a command and its measurement in the same unit.
_SAME = 1.6
# Maximum deviation from the command relative to a joint's own spread (gravity pulls hobby arms some degrees
# below it), and minimum number of rows to check it.
_FOLLOWED, _LEAST_ROWS = 0.5, 50
# Maximum share of a commanded torque that kp (q_des - q) + kd (dq_des - dq) leaves unexplained. The rest
# comes from saturation, drive filters and the delay between the columns.
_LEFT = 0.1


def stand_in(
    robot: RobotModel,
    look: Excerpt,
    chosen: dict[str, Family],
    groups: Sequence[Family],
    decisions: dict[str, Decision],
    answers: Answers,
    known: Sequence[Preset] = (),
) -> None:
    """Use commands in place of an effort that was not measured. This requires the controller gains of the drives.

    known: presets, whose data sheets describe drives.
    """
    key = "log.effort.columns"
    groups = [_as_positions(look, group, chosen["position"]) for group in groups]
    wanted = _commands_of(chosen["position"], groups)
    commands = {
        kind: family
        for kind, family in wanted.items()
        if (measured := chosen.get(kind.removeprefix("command_"))) is not None
        and _same_size(look, family, measured)
    }
    left = [family for kind, family in wanted.items() if kind not in commands]
    if any(np.nanstd(look.table(family.columns)) > 0 for family in left):
        return  # commands that cannot be distinguished from another signal
    efforts = [group for group in groups if group.meaning.quantity in EFFORTS]
    was_held = decisions[key].value == NONE and decisions[key].likely
    if "command_position" not in commands or (
        not was_held and any(group.meaning.role in ("", "measured", "spare") for group in efforts)
    ):
        return
    if decisions[key].value not in (None, NONE):
        return
    why = "no effort was measured; it is computed from the commands with the controller gains"
    if was_held:
        (why,) = decisions[key].why
        decisions[DELAY] = Decision(
            DELAY, "0", ("the effort shows that the drives apply a command immediately",), likely=True
        )
        why_loop = "the effort shows it: the command of the row before, with the motion of its own row"
        decisions[LOOP] = Decision(LOOP, DRIVE, (why_loop,), likely=True)
    decisions[key] = Decision(key, NONE, (why,), options=decisions[key].options, likely=True)
    chosen |= commands
    sheet = {} if any(gain in answers for gain in GAINS_OF_DRIVES) else _data_sheet(robot, known, answers)
    decisions |= sheet
    settled = DATA_SHEET[-1] in sheet or (SERVO in sheet and not sheet[SERVO].sure)
    if robot.drive.servo is not None or settled:
        return
    for key, meaning in zip(GAINS_OF_DRIVES, ("stiffness kp, N m/rad", "damping kd, N m s/rad"), strict=True):
        question = (
            f"{meaning}, of the drives' position controllers: one number, or one per joint "
            "separated by commas?"
        )
        asked = Decision(key, None, ("not in the model file",), question)
        decisions[key] = decided(asked, answers) if _numbers(answers.get(key, ""), robot.n) else asked


def _data_sheet(robot: RobotModel, known: Sequence[Preset], answers: Answers) -> dict[str, Decision]:
    """What presets say of the voltage-controlled drives of a robot; a question where they know several versions.

    Its values count more than gains of the robot file: those of published simulation models are rarely the servos'.
    """
    sheets = {
        entry.id: (preset, entry)
        for preset in known
        for entry in preset.servos
        if len(entry.stall_torque) == robot.n and any(matches_word(word, robot.name) for word in entry.robots)
    }
    if not sheets:
        return {}
    options = [
        *(Option(name, entry.says) for name, (_, entry) in sheets.items()),
        Option(OTHER_SERVO, "none of them"),
    ]
    if len(sheets) == 1:
        (name,) = sheets
        asked = Decision(SERVO, name, (sheets[name][1].says,), options=tuple(options), likely=True)
    else:
        why = (f"the name '{robot.name}' fits them",)
        asked = Decision(SERVO, None, why, "which servos does the arm have, at which supply?", tuple(options))
    sheet_decisions = by_key(decided(asked, answers))
    if sheet_decisions[SERVO].value not in sheets:
        return sheet_decisions
    preset, entry = sheets[str(sheet_decisions[SERVO].value)]
    why = (f"{preset.cited(entry.source)}; accurate to {100 * entry.relative_uncertainty:.0f} %",)
    values = (entry.stall_torque, entry.no_load_speed, entry.duty_gain)
    for key, numbers in zip(DATA_SHEET, values, strict=True):
        if numbers is not None:
            sheet_decisions[key] = Decision(
                key, ", ".join(f"{value:g}" for value in numbers), why, likely=True
            )
    if entry.duty_gain is not None:
        damping = ("the damping of the firmware counts as viscous friction",)
        sheet_decisions[GAINS_OF_DRIVES[1]] = Decision(GAINS_OF_DRIVES[1], "0", damping, likely=True)
    return sheet_decisions


def without_held_effort(
    robot: RobotModel,
    look: Excerpt,
    chosen: dict[str, Family],
    groups: Sequence[Family],
    decisions: dict[str, Decision],
    answers: Answers,
) -> None:
    """Drop an effort that is read at the end of a zero-order hold if the commands can replace it.

    While a drive holds a command, its effort falls by kp times the joint's motion within that row. A reading
    just before the next command is low by half of this on average, which underestimates viscous friction by
    kp times half a row. This is the case if the effort follows from the command of the previous row and not
    from that of its own row.
    """
    key, effort, position = "log.effort.columns", chosen.get("effort"), chosen.get("position")
    if key in answers or effort is None or position is None or effort.joints != position.joints:
        return
    if effort.meaning.role == "commanded" or effort.named != position.named or robot.drive.servo is not None:
        return
    wanted = _commands_of(position, [_as_positions(look, group, position) for group in groups])
    if "command_position" not in wanted or not _same_size(look, wanted["command_position"], position):
        return
    tau, q, q_des = (look.table(group.columns) for group in (effort, position, wanted["command_position"]))
    dq = look.table(chosen["velocity"].columns) if "velocity" in chosen else np.gradient(q, axis=0)
    if dq.shape != q.shape or len(tau) < _LEAST_ROWS:
        return
    before, same_row = (_unexplained(tau, q_des, q, dq, rows) for rows in (1, 0))
    if before.max() < _LEFT**2 and (before < same_row / np.exp(DECISIVE)).all():
        why = (
            f"'{effort.template}' follows from the previous row's command, as read at the end of "
            "its hold: viscous friction would be too small by kp times half a row, so the "
            "commands are used instead"
        )
        decisions[key] = Decision(key, NONE, (why,), options=decisions[key].options, likely=True)
        del chosen["effort"]


def _unexplained(tau: Float, q_des: Float, q: Float, dq: Float, rows: int) -> Float:
    """Share (n,) of the effort's variance that a PD law leaves unexplained, with the command delayed by `rows`."""
    T = len(tau) - rows
    left = np.zeros(tau.shape[1])
    for j in range(tau.shape[1]):
        X = np.column_stack([q_des[:T, j] - q[rows:, j], dq[rows:, j], np.ones(T)])
        use = np.isfinite(X).all(axis=1) & np.isfinite(tau[rows:, j])
        y = tau[rows:, j][use]
        residual = y - X[use] @ np.linalg.lstsq(X[use], y, rcond=None)[0]
        left[j] = float((residual**2).sum()) / max(float(((y - y.mean()) ** 2).sum()), np.finfo(float).tiny)
    return left


def _as_positions(look: Excerpt, group: Family, position: Family) -> Family:
    """Mark commanded columns with an unclear signal as commanded positions if every joint's position follows them.

    The signal is unclear if the name does not state it, or if the name lacks the joint although the
    position's names have it.
    """
    stated = group.meaning
    of_all = group.joints == position.joints and len(group.columns) == len(position.columns)
    unclear = not stated.quantity or (stated.quantity == "position" and group.named != position.named)
    if stated.role != "commanded" or not of_all or not unclear:
        return group
    if not _followed(look.table(group.columns), look.table(position.columns)):
        return group
    meaning = replace(position.meaning, role="commanded", said_by=stated.said_by or position.meaning.said_by)
    return replace(group, named=position.named, meaning=meaning)


def _followed(commanded: Float, measured: Float) -> bool:
    """Whether each moving joint follows its own column (T, n), and none follows another column better."""
    sound = np.isfinite(commanded).all(axis=1) & np.isfinite(measured).all(axis=1)
    a, b = commanded[sound], measured[sound]
    if len(b) < _LEAST_ROWS:
        return False
    spread = b.std(axis=0)
    moved = np.flatnonzero(spread > 0)
    if not len(moved):
        return False
    # Mean square of each command minus each position; subtracting the means first avoids loss of precision.
    a, b = a - b.mean(axis=0), b - b.mean(axis=0)
    left = np.sqrt(
        np.maximum((a**2).mean(axis=0)[:, None] + (b**2).mean(axis=0) - 2.0 * a.T @ b / len(b), 0.0)
    )
    nearest = np.argmin(left, axis=0)
    follows = left[moved, moved] < _FOLLOWED * spread[moved]
    return bool(follows.all() and (nearest[moved] == moved).all())


def _same_size(look: Excerpt, group: Family, other: Family) -> bool:
    a, b = (np.nanstd(look.table(family.columns), axis=0) for family in (group, other))
    moved = (a > 0) & (b > 0)
    return bool(moved.any()) and 1 / _SAME < float(np.median(a[moved] / b[moved])) < _SAME


def _numbers(text: str, n: int) -> list[float]:
    """One number, or one per joint; empty if the text is neither."""
    try:
        values = [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        return []
    return values if len(values) in (1, n) and bool(np.isfinite(values).all()) else []


def _commands_of(position: Family, groups: Sequence[Family]) -> dict[str, Family]:
    """Commanded positions, and commanded velocities if there are any. Empty unless exactly one group matches."""
    commanded = {
        kind: [
            group
            for group in groups
            if group.meaning.quantity == kind and group.meaning.role == "commanded" and group.joints == position.joints
            and group.named == position.named and len(group.columns) == len(position.columns)
        ]
        for kind in ("position", "velocity")
    }  # fmt: skip
    if len(commanded["position"]) != 1:
        return {}
    kept = {"command_position": commanded["position"][0]}
    return kept | ({"command_velocity": commanded["velocity"][0]} if len(commanded["velocity"]) == 1 else {})


def with_gains(
    look: Excerpt,
    families_of_log: Sequence[Family],
    chosen: Mapping[str, Family],
    groups: Mapping[str, Group],
    decisions: dict[str, Decision],
) -> None:
    """Answer the questions for controller gains from a commanded torque that follows from commanded positions."""
    if not all(key in decisions and decisions[key].question for key in GAINS_OF_DRIVES):
        return
    columns = {kind: group.columns for kind, group in groups.items()}
    units = {key: decision.value for key, decision in decisions.items()}
    position, unit = columns.get("position", {}), units.get("log.position.unit")
    at_end_of_hold = DELAY in decisions  # an effort read at the end of a hold, see `without_held_effort`
    torques = [
        group
        for group in families_of_log
        if group.meaning.quantity in ("torque", "effort") and (group.meaning.role == "commanded") is not at_end_of_hold
        and group.joints == tuple(position) and len(group.columns) == len(chosen["position"].columns)
    ]  # fmt: skip
    if len(torques) != 1 or unit in (None, UNKNOWN, PERCENT) or "," in str(unit):
        return
    order = [chosen["position"].columns.index(column) for column in position.values()]
    torque = look.table([torques[0].columns[k] for k in order])
    rows = 1 if DELAY in decisions else 0  # an effort read at the end of a hold, see `without_held_effort`
    _, scale = factor(unit, ("angle", "length"), Place())
    read = {kind: look.table(tuple(names.values())) for kind, names in columns.items()}
    torque, T = torque[rows:], len(torque) - rows
    errors = [scale * (read["command_position"][:T] - read["position"][rows:])]
    if "velocity" in read:
        _, scale = factor(
            units.get("log.velocity.unit") or "rad/s", ("angular velocity", "velocity"), Place()
        )
        wanted_speed = read.get("command_velocity", np.zeros_like(read["velocity"]))
        errors.append(scale * (wanted_speed[:T] - read["velocity"][rows:]))
    gains = _law(torque, errors)
    if gains is None:
        return
    law = "kp (q_des - q) + kd (dq_des - dq)" if len(errors) > 1 else "kp (q_des - q)"
    why = f"with these gains, '{torques[0].template}' is {law} to within 10 %"
    for key, values in zip(GAINS_OF_DRIVES, gains, strict=True):
        decisions[key] = replace(
            decisions[key], value=_numbered(values), why=(why,), question="", likely=True
        )


def _law(torque: Float, errors: Sequence[Float]) -> tuple[Float, Float] | None:
    """Gains (n,) with which the errors of position and velocity give the torque; None if they do not fit.

    A joint with a constant velocity error takes the median kd of the others.
    """
    kp, kd = np.zeros(torque.shape[1]), np.zeros(torque.shape[1])
    for j in range(torque.shape[1]):
        X, y = np.column_stack([error[:, j] for error in errors]), torque[:, j]
        use = np.isfinite(X).all(axis=1) & np.isfinite(y)
        X, y = X[use], y[use]
        size = np.maximum(np.linalg.norm(X, axis=0), np.finfo(float).tiny)
        if len(y) <= X.shape[1]:
            return None
        gains, left = nnls(X / size, y)
        if not gains[0] > 0 or left > _LEFT * np.linalg.norm(y):
            return None
        kp[j] = gains[0] / size[0]
        if len(errors) > 1:
            kd[j] = gains[1] / size[1] if np.ptp(X[:, 1]) > 0 else np.nan
    seen = np.isfinite(kd)
    return kp, np.where(seen, kd, np.median(kd[seen]) if seen.any() else 0.0)


def _numbered(values: Float) -> str:
    return ", ".join(f"{x:.6g}" for x in values)  # kd may be 30 times viscous friction, which takes its error


# Signals that a log lacks entirely. No answer can supply them, so the log is refused at once.

_LISTED = 4  # groups that are listed
POSITION, EFFORT = "log.position.columns", "log.effort.columns"
NO_EFFORT = "no-effort"


def refuse_lacking(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    groups: Sequence[Family],
    chosen: Mapping[str, Family],
    decisions: dict[str, Decision],
    answers: Answers,
) -> None:
    """Refuse a log that lacks positions or efforts entirely.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    look : Excerpt
        Names and first rows of the log.
    clock : Clock
        The clock of the log.
    groups : sequence of Family
        All column groups of the log.
    chosen : dict
        Selected groups by channel, with the commands that replace an effort.
    decisions : dict
        Decisions by key; modified in place.
    answers : Answers
        User answers by key.

    """
    with_signal = {column for group in groups if group.meaning.quantity for column in group.columns}
    used = {column for group in chosen.values() for column in group.columns}
    used |= {clock.column.value or "", clock.trajectory.value or ""}
    unknown = [name for name in look.numeric if name not in with_signal | used]
    wanted = robot.n - len(hand_joints(robot)) or robot.n
    may_be_named = len(unknown) >= wanted
    position, effort = decisions[POSITION], decisions[EFFORT]
    efforts = [group.template for group in groups if group.meaning.quantity in EFFORTS]
    named = any(key.startswith(POSITION) for key in answers)
    positions = any(group.meaning.quantity == "position" for group in groups)
    positions |= named or may_be_named
    if position.question and not positions and position.refusal is None and efforts:
        refusal = Refusal(
            f"efforts ({few(efforts, _LISTED)}), but no positions",
            "joint positions recorded together with them",
            "record both together, or give both files if they are parts of one recording",
            "no-position",
        )
        decisions[POSITION] = replace(position, refusal=refusal)
    no_other = not may_be_named and all(option.value == NONE for option in effort.options)
    without = effort.value == NONE or (bool(effort.question) and no_other)
    if "position" in chosen and without and not {"effort", "command_position"} & chosen.keys():
        decisions[EFFORT] = replace(effort, refusal=_without_effort(groups))


def _without_effort(groups: Sequence[Family]) -> Refusal:
    commands = [
        group.template
        for group in groups
        if group.meaning.quantity == "position" and group.meaning.role == "commanded"
    ]
    return Refusal(
        "a log without efforts",
        "torque, current or force of every joint, or commanded positions of drives with "
        "known gains kp and kd",
        "log one of them"
        if not commands
        else (
            f"log one of them, or, if you know the gains of the drives, name {few(commands, _LISTED)} "
            "as command_position under [log] of the experiment and give kp and kd under [drive]"
        ),
        NO_EFFORT,
    )
