"""Which columns are positions, velocities and efforts: what is measured, not what was wanted."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

import numpy as np

from dynid.base.errors import UsageError
from dynid.base.overview import few
from dynid.layouts.clock import Clock
from dynid.layouts.decision import Answers, Decision, Option, Refusal, decided
from dynid.layouts.effort import knows_gains, preset_gains, torque_size
from dynid.layouts.excerpt import Excerpt
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
from dynid.layouts.presets import UNKNOWN, Preset
from dynid.log.absent import hand_joints
from dynid.log.files import parts_beside
from dynid.robot.branches import path_to_base
from dynid.robot.model import RobotModel

NONE = "none"
FORCES = ("N", "kN")
SI = ("rad", "rad/s", "N m", "A")
_NAMED = 4  # files that are listed
# Parts of what a sensor between flange and tool measures.
_OF_TOOL = re.compile(r"[ftm][xyz]")
# What drives measure of themselves.
_OF_DRIVES = {"temperature", "temperatures", "temp", "voltage", "voltages"}


def choose_channels(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    known: Sequence[Preset],
    found: Sequence[Family],
    silent: Sequence[str],
    answers: Answers,
) -> tuple[dict[str, Decision], dict[str, Family]]:
    """The columns of each channel, and the groups that were chosen, by channel.

    found: the groups.    silent: names of efforts that are 0 throughout.
    Raises UsageError for an answer that is none, InputError for a word among the numbers of a channel's columns.
    """
    decisions: dict[str, Decision] = {}
    chosen: dict[str, Family] = {}
    for kind in ("position", "velocity", "effort"):
        # Of a robot with other joints than the log no answer names the columns.
        other_robot = any(one.refusal for one in decisions.values())
        given = {} if other_robot else answers
        asked = kind == "effort" and "log.effort.columns" not in given
        worthless = asked and not (knows_gains(robot) or preset_gains(robot, known))
        able = [one for one in found if one not in chosen.values()] if kind == "effort" else found
        able = _of_load(robot, able) if asked else able
        decision, family = choose(kind, _with_torques_of_drives(able) if worthless else able, given)
        if kind == "position" and family is None and not any(one.meaning.quantity == kind for one in found):
            decision = _with_chains(decision, look, robot, known)
        decision, family = _by_joint(kind, decision, family, robot, look, found, answers)
        if decision.question and family is None:
            decision = _with_help(kind, decision, robot, look, clock, silent)
        decisions[decision.key] = decision
        if family is not None:
            chosen[kind] = family
    _refuse_broken(look, robot, known, chosen)
    return decisions, chosen


def columns_by_joint(
    robot: RobotModel, look: Excerpt, found: Sequence[Family], answers: Answers
) -> dict[str, str]:
    """The answers, those that name a column of each joint, with commas, in place of a group by joint.

    found: the groups.    The columns are of all joints from base to tip, or of all but those of a hand.
    """
    given = dict(answers)
    hands = hand_joints(robot)
    for kind in ("position", "velocity", "effort"):
        key = f"log.{kind}.columns"
        answer = answers.get(key, NONE)
        if answer == NONE or any(one.template == answer for one in found):
            continue
        columns = [answer] if answer in look.numeric else [one.strip() for one in answer.split(",")]
        for joints in (robot.joint_names, tuple(one for one in robot.joint_names if one not in hands)):
            if len(columns) == len(joints) and set(columns) <= {*look.numeric, NONE}:
                del given[key]
                given |= {f"{key}.{joint}": one for joint, one in zip(joints, columns, strict=True)}
                break
    return given


def _of_load(robot: RobotModel, found: Sequence[Family]) -> list[Family]:
    """The groups without efforts whose names state a unit of force where all joints turn, of torque where all slide."""

    def is_other(one: Family) -> bool:
        if one.meaning.quantity not in EFFORTS:
            return False
        if all(robot.prismatic):
            return torque_size(one.meaning.unit) is not None and one.meaning.unit not in FORCES
        stated = unit_of_slide(re.sub(r"\{\w+\}", "", one.template), "")
        return not any(robot.prismatic) and stated is not None and stated[1] in FORCES

    kept = [one for one in found if not is_other(one)]
    return kept if any(one.meaning.quantity in EFFORTS for one in kept) else list(found)


def _with_torques_of_drives(found: Sequence[Family]) -> list[Family]:
    """The groups without the currents of unknown worth that stand beside the torque that drives make of them."""
    torques = [k for k, one in enumerate(found) if one.meaning.quantity == "torque"]
    measured = [
        one for one in found if one.meaning.quantity == "current" and one.meaning.role in ("", "measured")
    ]
    if len(torques) != 1 or not measured or found[torques[0]].meaning.role != "estimated":
        return list(found)
    return [one for one in found if one not in measured]


def choose(kind: str, found: Sequence[Family], answers: Answers) -> tuple[Decision, Family | None]:
    """The columns of positions, velocities or efforts.    kind: "position", "velocity" or "effort"."""
    key = f"log.{kind}.columns"
    wanted = EFFORTS if kind == "effort" else (kind,)
    same = [one for one in found if one.meaning.quantity in wanted]
    fit = [one for one in same if one.meaning.role in ("", "measured") and not one.meaning.motor]
    fit = fit or [one for one in same if one.meaning.role in ("", "measured")]
    fit = fit or [one for one in same if one.meaning.role == "estimated"]
    fit = fit or [one for one in same if one.meaning.role == "spare"]
    fit = [one for one in fit if not one.meaning.doubt] or fit
    fullest = min((len(one.missing) for one in fit), default=0)
    fit = [one for one in fit if len(one.missing) == fullest]
    said = [one for one in fit if one.meaning.role == "measured"]
    short = said or fit
    short = [one for one in short if not one.in_part] if any(_in_full(one) for one in short) else short
    short = [one for one in short if not is_filtered(one.template)] or short
    short = [one for one in short if not is_unprocessed(one.template)] or short
    short = _once(_most_direct(short, found) if kind == "effort" else short)
    options = tuple(Option(one.template, _in_words(one)) for one in same)
    if not same:
        options = tuple(
            Option(one.template, "nothing is known of them") for one in found if not one.meaning.quantity
        )
    if kind == "effort":
        options = (*options, Option(NONE, "there is none"))
    decision = _one_of(key, kind, short, same, options)
    decision = decided(decision, answers)
    chosen = next((one for one in found if one.template == decision.value), None)
    if decision.value not in (None, NONE) and chosen is None:
        decision = Decision(key, None, (f"no columns '{decision.value}'",), "which columns?", options)
    return decision, chosen


def _in_full(one: Family) -> bool:
    return one.named and not one.in_part


def _most_direct(short: list[Family], found: Sequence[Family]) -> list[Family]:
    """Measured torques where there are some, else currents, else what counts.    found: the groups of the log.

    A torque of which nothing says that it was measured may be what a controller wanted, beside the current that came;
    in what a drive reports of itself, its voltage or temperature among it, it is what the drive made of its current.
    """
    if not all(one.meaning.quantity in ("torque", "current", "raw") for one in short):
        return short
    torques = [one for one in short if one.meaning.quantity == "torque"]
    reports = {_record(one) for one in found if set(words(one.template)) & _OF_DRIVES}
    if torques and all(one.meaning.role == "measured" or _record(one) in reports for one in short):
        return torques
    return [one for one in short if one.meaning.quantity != "raw"] or short


def _record(one: Family) -> tuple[str, ...]:
    """What a name says beside the signal: groups of one record have that in common."""
    return tuple(word for word in words(one.template) if not names_signal(word))


def _once(short: list[Family]) -> list[Family]:
    """Groups that say the same kept once: in SI units, with the joints' names, as a recorder documents them."""
    by_name: dict[tuple[str, ...], list[Family]] = {}
    for one in short:
        by_name.setdefault(without_units(one.template), []).append(one)
    kept: list[Family] = []
    for same in by_name.values():
        stated = all(one.meaning.unit != UNKNOWN for one in same)
        kept += [next((one for one in same if one.meaning.unit in SI), same[0])] if stated else same
    kept = [one for one in kept if one.named] or kept
    sourced = [one for one in kept if one.meaning.said_by not in ("", "name")]
    return sourced if len(sourced) == 1 else kept


def _one_of(
    key: str, kind: str, short: Sequence[Family], same: Sequence[Family], options: tuple[Option, ...]
) -> Decision:
    optional = kind == "velocity"
    if len(short) == 1:
        one = short[0]
        beside = [other.template for other in same if other is not one]
        why = _said(one) + (f"; beside it: {', '.join(beside)}" if beside else "")
        if not one.meaning.role and any(other.meaning.role == "commanded" for other in same):
            why += "; those beside it say that they were commanded, these do not"
        elif one.meaning.role == "estimated":
            made_of = "their current" if kind == "effort" else "what their encoders count"
            why += f" and calls it estimated, as drives do that make it of {made_of}: taken as measured"
        elif not one.meaning.role:
            why += "; the name does not say whether they were measured or commanded: taken as measured"
        bare = not one.meaning.role and not any(other.meaning.role == "commanded" for other in same)
        bare |= one.meaning.role == "estimated"
        return Decision(key, one.template, (why,), options=options, optional=optional, likely=bare)
    if optional:
        several = ", ".join(one.template for one in short)
        why = f"several may be it, of which none is taken: {several}" if short else "no measured one"
        why += "; velocities are made from positions"
        return Decision(key, None, (why,), options=options, optional=True, likely=bool(short))
    if short:
        names = ", ".join(f"'{one.template}' ({_in_words(one)})" for one in short)
        return Decision(
            key,
            None,
            (f"several columns may be it: {names}",),
            f"which columns are the measured {kind}?",
            options,
        )
    others = [one for one in same if one.meaning.role in ("commanded", "estimated", "model", "spare")]
    if others:
        names = ", ".join(f"'{one.template}' ({_in_words(one)})" for one in others)
        question = f"which columns are the {kind}?"
        if kind == "effort" and any(one.meaning.role == "commanded" for one in others):
            question += (
                " None says that it was measured; what a drive's controller asks for (a reference of torque or "
                "current) it follows closely, a feed-forward alone is not all of it"
            )
        return Decision(key, None, (f"no {kind} is measured: {names}",), question, options)
    return Decision(
        key, None, (f"no columns, one a joint, are called {kind}",), f"which columns are the {kind}?", options
    )


def _in_words(one: Family) -> str:
    role = {"": "not said whether measured or commanded", "model": "computed, no measurement"}.get(
        one.meaning.role, one.meaning.role
    )
    return f"{one.meaning.quantity or 'unknown'}, {role}"


def _said(one: Family) -> str:
    return "the name says so" if one.meaning.said_by in ("", "name") else one.meaning.said_by


def _meaning(kind: str, columns: Mapping[str, str], found: Sequence[Family]) -> Meaning:
    """What columns are that the user gave, one a joint: that of the group that they are of, where it is that signal."""
    wanted = EFFORTS if kind == "effort" else (kind,)
    own = [one for one in found if {*columns.values()} <= {*one.columns} and one.meaning.quantity in wanted]
    return replace(own[0].meaning, role="measured") if own else Meaning(kind, said_by="name")


def _by_joint(
    kind: str,
    decision: Decision,
    family: Family | None,
    robot: RobotModel,
    look: Excerpt,
    found: Sequence[Family],
    answers: Answers,
) -> tuple[Decision, Family | None]:
    """The columns of a channel with those that the user gave to single joints; the others are in order."""
    key = f"log.{kind}.columns"
    given = {joint: answers[f"{key}.{joint}"] for joint in robot.joint_names if f"{key}.{joint}" in answers}
    unknown = [
        one for one in answers if one.startswith(f"{key}.") and one.removeprefix(f"{key}.") not in given
    ]
    if unknown:
        raise UsageError("unknown-answer", found=unknown[0], expected=f"{key}.JOINT, a joint of the robot")
    if not given:
        return decision, family
    columns = {} if family is None else dict(zip(family.joints, family.columns, strict=False))
    columns |= given
    columns = {one: columns[one] for one in robot.joint_names if columns.get(one, NONE) != NONE}
    absent = [column for column in columns.values() if column not in look.numeric]
    twice = [column for column in columns.values() if list(columns.values()).count(column) > 1]
    if absent or twice:
        raise UsageError(
            "unknown-answer",
            found=f"{kind} in column '{(absent or twice)[0]}'" + ("" if absent else " of two joints"),
            expected="a column of numbers for each joint, one of its own",
        )
    whole = Family(
        ", ".join(columns.values()) if family is None else family.template,
        tuple(columns.values()),
        tuple(columns),
        True,
        0,
        tuple(one for one in robot.joint_names if one not in columns),
        _meaning(kind, columns, found) if family is None else family.meaning,
    )
    why = "as you say, joint by joint"
    if not columns:
        return Decision(key, NONE, (why,), options=decision.options, optional=decision.optional), None
    return Decision(key, whole.template, (why,), options=decision.options, optional=decision.optional), whole


def _with_help(
    kind: str, decision: Decision, robot: RobotModel, look: Excerpt, clock: Clock, silent: Sequence[str]
) -> Decision:
    """A question that no group answers, with what may help to answer it."""
    if kind == "effort" and silent:
        question = f"which columns are the effort? '{silent[0]}' is 0 throughout"
        decision = replace(decision, question=question)
    if kind == "position" and look.orientations:
        four = look.orientations[0]
        none = f"'{four[0]}' to '{four[-1]}' are none, but a unit quaternion, the orientation of a body"
        decision = replace(decision, question=f"{decision.question} {none}")
    if parts := parts_beside(look.contents.path):
        why = f"beside it {few(parts, _NAMED)}, as many rows: give their folder if they are parts of one recording"
        decision = replace(decision, why=(*decision.why, why))
    if all(one.value == NONE for one in decision.options):
        decision = _with_example(kind, decision, robot, look, clock)
    return decision


def _with_example(kind: str, decision: Decision, robot: RobotModel, look: Excerpt, clock: Clock) -> Decision:
    """The question with the answer that names the column of one joint, the one that is called most like it."""
    columns = [name for name in look.numeric if name != clock.column.value]
    if not columns:
        return decision
    joint, *others = robot.joint_names
    called = " ".join(words(f"{joint} {kind}"))
    likely = _of_kind(kind, [name for name in columns if np.nan_to_num(np.ptp(look.table([name])))])
    if not likely:
        return decision
    column = max(likely, key=lambda one: SequenceMatcher(None, " ".join(words(one)), called).ratio())
    if len(columns) < robot.n:
        held = f"{len(columns)} column{'s' * (len(columns) > 1)} of numbers ({few(columns, _NAMED)})"
        question = f"{decision.question} The log has {held} for {robot.n} joints"
        more = " and so for others; of those without one is asked where they stand"
        return replace(decision, question=question, example=(f"{decision.key}.{joint}={column}", more))
    rest = f", and so for {', '.join(others)}" if others else ""
    rest += f" ({NONE} for one without a motor)" if others and kind == "effort" else ""
    return replace(decision, example=(f"{decision.key}.{joint}={column}", rest))


def _of_kind(kind: str, columns: Sequence[str]) -> list[str]:
    """Columns whose names say a channel, else those of which no name says another; none of a force on a tool."""
    wanted = EFFORTS if kind == "effort" else (kind,)
    said = {name: meaning_of(f"{name} {{joint}}", "{joint}", (), False).quantity for name in columns}
    named = [name for name in columns if said[name] in wanted]
    return named or [
        name for name in columns if not said[name] and not any(map(_OF_TOOL.fullmatch, words(name)))
    ]


def _with_chains(decision: Decision, look: Excerpt, robot: RobotModel, known: Sequence[Preset]) -> Decision:
    """A question for positions, with the chains that have as many joints as there are numbered columns."""
    moves = robot.projection != 0
    joints = [int(moves[path_to_base(robot, i)].any(axis=0).sum()) for i in range(robot.n_bodies)]
    for m in sorted({count for count in joints if count < robot.n}, reverse=True):
        tips = [name for name, count in zip(robot.body_names, joints, strict=True) if count == m]
        numbered = [
            one.template
            for one in families(look.numeric, robot.joint_names[:m], known, look.bag)
            if one.meaning.quantity == "position"
            and not one.named
            and len(one.columns) == m
            and np.nan_to_num(np.ptp(look.table(one.columns), axis=0)).any()
        ]
        if m > 1 and numbered:
            why = (
                f"'{numbered[0]}' numbers {m} columns and the robot has {robot.n} joints: call again with the last "
                f"link of the logged arm, --tip {' or --tip '.join(tips)}, or with --lock for joints that stood still"
            )
            refusal = Refusal(
                why,
                "as many columns as the robot has joints",
                "call again with the robot of the log, and answer what that leaves open",
            )
            return replace(decision, why=(*decision.why, why), refusal=refusal)
    return decision


def _refuse_broken(
    look: Excerpt, robot: RobotModel, known: Sequence[Preset], chosen: Mapping[str, Family]
) -> None:
    """Raises InputError for a word in a column that a group of positions or efforts lacks, or is none without.

    chosen: groups by quantity. A joint would be held for it, or a question asked that has no right answer.
    """
    if look.bag or not (texts := set(look.names) - set(look.numeric)):
        return
    whole = families(look.names, robot.joint_names, known)
    for other in whole:
        kind = "effort" if other.meaning.quantity in EFFORTS else other.meaning.quantity
        broken, own = [name for name in other.columns if name in texts], chosen.get(kind)
        lacks = own is None or set(own.columns) < set(other.columns)
        if kind in ("position", "effort") and 0 < len(broken) < len(other.columns) and lacks:
            look.refuse_words(broken)
