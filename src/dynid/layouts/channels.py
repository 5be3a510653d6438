"""Which columns are positions, velocities and efforts: what is measured, not what was wanted."""

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
from dynid.layouts.presets import UNKNOWN, Preset
from dynid.layouts.proposal import Answers, Decision, Excerpt, Group, Option, Refusal, decided
from dynid.log.files import parts_beside
from dynid.log.joints import hand_joints
from dynid.log.mapping import PERCENT
from dynid.robot.drive import DRIVE
from dynid.robot.model import RobotModel, path_to_base

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


# Commands that stand in for an effort that nobody measured, and what a log says of the drives' gains.

GAINS_OF_DRIVES = ("drive.kp", "drive.kd")
DELAY, LOOP = "drive.delay", "drive.loop"
# What was asked for and what came of it have the same size in the same unit.
_SAME = 1.6
# Of a joint's own spread, by which it may be away from its command, since gravity holds hobby arms some degrees below
# it; and rows that show it.
_FOLLOWED, _LEAST_ROWS = 0.5, 50
# Of a commanded torque that kp (q_des - q) + kd (dq_des - dq) leaves at most where it is that law; the rest are limits,
# filters of the drives and the time between the two columns.
_LEFT = 0.1


def stand_in(
    robot: RobotModel,
    look: Excerpt,
    chosen: dict[str, Family],
    found: Sequence[Family],
    decisions: dict[str, Decision],
    answers: Answers,
) -> None:
    """Commands in place of an effort that nobody measured: they need the gains of the drives."""
    key = "log.effort.columns"
    found = [_as_positions(look, one, chosen["position"]) for one in found]
    wanted = _commands_of(chosen["position"], found)
    commands = {
        kind: family
        for kind, family in wanted.items()
        if (measured := chosen.get(kind.removeprefix("command_"))) is not None
        and _same_size(look, family, measured)
    }
    left = [family for kind, family in wanted.items() if kind not in commands]
    if any(np.nanstd(look.table(family.columns)) > 0 for family in left):
        return  # commands that cannot be distinguished from something else
    efforts = [one for one in found if one.meaning.quantity in EFFORTS]
    held = decisions[key].value == NONE and decisions[key].likely
    if "command_position" not in commands or (
        not held and any(one.meaning.role in ("", "measured", "spare") for one in efforts)
    ):
        return
    if decisions[key].value not in (None, NONE):
        return
    why = "no effort was measured; what the drives were asked for stands in for it, with their gains"
    if held:
        (why,) = decisions[key].why
        decisions[DELAY] = Decision(
            DELAY, "0", ("the effort shows it: drives follow a command at once",), likely=True
        )
        why_loop = "the effort shows it: the command of the row before, with the motion of its own row"
        decisions[LOOP] = Decision(LOOP, DRIVE, (why_loop,), likely=True)
    decisions[key] = Decision(key, NONE, (why,), options=decisions[key].options, likely=True)
    chosen |= commands
    if robot.drive.servo is not None:
        return
    for key, meaning in zip(GAINS_OF_DRIVES, ("stiffness kp, N m/rad", "damping kd, N m s/rad"), strict=True):
        question = f"{meaning}, of the drives' position controllers: one number, or one a joint with commas?"
        asked = Decision(key, None, ("the description does not know it",), question)
        decisions[key] = decided(asked, answers) if _numbers(answers.get(key, ""), robot.n) else asked


def without_held_effort(
    robot: RobotModel,
    look: Excerpt,
    chosen: dict[str, Family],
    found: Sequence[Family],
    decisions: dict[str, Decision],
    answers: Answers,
) -> None:
    """Leaves out an effort that is always read at the end of a held command, where commands can stand in for it.

    Drives that hold a command let the effort fall while the joint moves on, by kp times the way of one row. Read just
    before the next command it lacks half of that on average, as if viscous friction were smaller by kp times half a
    row. It is then the law of the command of the row before, and not of the row's own.
    """
    key, effort, position = "log.effort.columns", chosen.get("effort"), chosen.get("position")
    if key in answers or effort is None or position is None or effort.joints != position.joints:
        return
    if effort.meaning.role == "commanded" or effort.named != position.named or robot.drive.servo is not None:
        return
    wanted = _commands_of(position, [_as_positions(look, one, position) for one in found])
    if "command_position" not in wanted or not _same_size(look, wanted["command_position"], position):
        return
    tau, q, q_des = (look.table(one.columns) for one in (effort, position, wanted["command_position"]))
    dq = look.table(chosen["velocity"].columns) if "velocity" in chosen else np.gradient(q, axis=0)
    if dq.shape != q.shape or len(tau) < _LEAST_ROWS:
        return
    before, own = (_unexplained(tau, q_des, q, dq, rows) for rows in (1, 0))
    if before.max() < _LEFT**2 and (before < own / np.exp(DECISIVE)).all():
        why = (
            f"'{effort.template}' is what the command of the row before makes, read at the end of its hold: viscous "
            "friction would come out too small by kp times half a row; the commands stand in for it"
        )
        decisions[key] = Decision(key, NONE, (why,), options=decisions[key].options, likely=True)
        del chosen["effort"]


def _unexplained(tau: Float, q_des: Float, q: Float, dq: Float, rows: int) -> Float:
    """Share (n,) of each effort's variance that a law of position and velocity leaves, of the command rows before."""
    T = len(tau) - rows
    left = np.zeros(tau.shape[1])
    for j in range(tau.shape[1]):
        X = np.column_stack([q_des[:T, j] - q[rows:, j], dq[rows:, j], np.ones(T)])
        use = np.isfinite(X).all(axis=1) & np.isfinite(tau[rows:, j])
        y = tau[rows:, j][use]
        residual = y - X[use] @ np.linalg.lstsq(X[use], y, rcond=None)[0]
        left[j] = float((residual**2).sum()) / max(float(((y - y.mean()) ** 2).sum()), np.finfo(float).tiny)
    return left


def _as_positions(look: Excerpt, one: Family, position: Family) -> Family:
    """Columns that are only said to be commanded, and that every joint's position follows: commanded positions.

    So are those of which names say that they are, though not of which joint, where the others name it.
    """
    said = one.meaning
    of_all = one.joints == position.joints and len(one.columns) == len(position.columns)
    unclear = not said.quantity or (said.quantity == "position" and one.named != position.named)
    if said.role != "commanded" or not of_all or not unclear:
        return one
    if not _followed(look.table(one.columns), look.table(position.columns)):
        return one
    meaning = replace(position.meaning, role="commanded", said_by=said.said_by or position.meaning.said_by)
    return replace(one, named=position.named, meaning=meaning)


def _followed(commanded: Float, measured: Float) -> bool:
    """Whether each joint that moves follows its own column (T, n), and none follows another's better."""
    sound = np.isfinite(commanded).all(axis=1) & np.isfinite(measured).all(axis=1)
    a, b = commanded[sound], measured[sound]
    if len(b) < _LEAST_ROWS:
        return False
    spread = b.std(axis=0)
    moved = np.flatnonzero(spread > 0)
    if not len(moved):
        return False
    # Mean squares of each command less each position, about one centre lest digits are lost.
    a, b = a - b.mean(axis=0), b - b.mean(axis=0)
    left = np.sqrt(
        np.maximum((a**2).mean(axis=0)[:, None] + (b**2).mean(axis=0) - 2.0 * a.T @ b / len(b), 0.0)
    )
    nearest = np.argmin(left, axis=0)
    own = left[moved, moved] < _FOLLOWED * spread[moved]
    return bool(own.all() and (nearest[moved] == moved).all())


def _same_size(look: Excerpt, one: Family, other: Family) -> bool:
    a, b = (np.nanstd(look.table(family.columns), axis=0) for family in (one, other))
    moved = (a > 0) & (b > 0)
    return bool(moved.any()) and 1 / _SAME < float(np.median(a[moved] / b[moved])) < _SAME


def _numbers(text: str, n: int) -> list[float]:
    """One number, or one a joint; [] where the text is neither."""
    try:
        values = [float(one) for one in text.replace(",", " ").split()]
    except ValueError:
        return []
    return values if len(values) in (1, n) and bool(np.isfinite(values).all()) else []


def _commands_of(position: Family, found: Sequence[Family]) -> dict[str, Family]:
    """What the drives were commanded, where it is beyond question: commanded positions, and velocities beside them."""
    commanded = {
        kind: [
            one
            for one in found
            if one.meaning.quantity == kind and one.meaning.role == "commanded" and one.joints == position.joints
            and one.named == position.named and len(one.columns) == len(position.columns)
        ]
        for kind in ("position", "velocity")
    }  # fmt: skip
    if len(commanded["position"]) != 1:
        return {}
    kept = {"command_position": commanded["position"][0]}
    return kept | ({"command_velocity": commanded["velocity"][0]} if len(commanded["velocity"]) == 1 else {})


def with_gains(
    look: Excerpt,
    found: Sequence[Family],
    chosen: Mapping[str, Family],
    groups: Mapping[str, Group],
    decisions: dict[str, Decision],
) -> None:
    """Gains of the drives, in place of questions, where a commanded torque beside commanded positions has them."""
    if not all(key in decisions and decisions[key].question for key in GAINS_OF_DRIVES):
        return
    columns = {kind: one.columns for kind, one in groups.items()}
    units = {key: one.value for key, one in decisions.items()}
    position, unit = columns.get("position", {}), units.get("log.position.unit")
    held = DELAY in decisions  # an effort that is read at the end of a hold, see `without_held_effort`
    torques = [
        one
        for one in found
        if one.meaning.quantity in ("torque", "effort") and (one.meaning.role == "commanded") is not held
        and one.joints == tuple(position) and len(one.columns) == len(chosen["position"].columns)
    ]  # fmt: skip
    if len(torques) != 1 or unit in (None, UNKNOWN, PERCENT) or "," in str(unit):
        return
    order = [chosen["position"].columns.index(column) for column in position.values()]
    torque = look.table([torques[0].columns[k] for k in order])
    rows = (
        1 if DELAY in decisions else 0
    )  # an effort that is read at the end of a hold, see `without_held_effort`
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
    why = f"'{torques[0].template}' is {law} with these gains, but for a tenth at most"
    for key, values in zip(GAINS_OF_DRIVES, gains, strict=True):
        decisions[key] = replace(
            decisions[key], value=_numbered(values), why=(why,), question="", likely=True
        )


def _law(torque: Float, errors: Sequence[Float]) -> tuple[Float, Float] | None:
    """Gains by joint with which errors of position (and velocity) make the torque; None where they do not.

    A joint whose velocity error never changes takes the median kd of the others.
    """
    kp, kd = np.zeros(torque.shape[1]), np.zeros(torque.shape[1])
    for j in range(torque.shape[1]):
        X, y = np.column_stack([one[:, j] for one in errors]), torque[:, j]
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


# Signals that a log lacks altogether: no answer names their columns, and that is said at once.

_LISTED = 4  # groups that are listed
POSITION, EFFORT = "log.position.columns", "log.effort.columns"
NO_EFFORT = "no-effort"


def refuse_lacking(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    found: Sequence[Family],
    chosen: Mapping[str, Family],
    decisions: dict[str, Decision],
    answers: Answers,
) -> None:
    """Gives the decision on a signal that no column can be of its refusal.

    found: the groups.    chosen: those that were chosen, and commands that stand in for an effort.
    """
    said = {column for one in found if one.meaning.quantity for column in one.columns}
    used = {column for one in chosen.values() for column in one.columns}
    used |= {clock.column.value or "", clock.trajectory.value or ""}
    unknown = [name for name in look.numeric if name not in said | used]
    wanted = robot.n - len(hand_joints(robot)) or robot.n
    may_be_named = len(unknown) >= wanted
    position, effort = decisions[POSITION], decisions[EFFORT]
    efforts = [one.template for one in found if one.meaning.quantity in EFFORTS]
    named = any(key.startswith(POSITION) for key in answers)
    positions = any(one.meaning.quantity == "position" for one in found)
    positions |= named or may_be_named
    if position.question and not positions and position.refusal is None and efforts:
        refusal = Refusal(
            f"efforts ({few(efforts, _LISTED)}), but no positions",
            "positions of the joints beside them",
            "record both together, or give the files of both where they are parts of one recording",
            "no-position",
        )
        decisions[POSITION] = replace(position, refusal=refusal)
    no_other = not may_be_named and all(one.value == NONE for one in effort.options)
    without = effort.value == NONE or (bool(effort.question) and no_other)
    if "position" in chosen and without and not {"effort", "command_position"} & chosen.keys():
        decisions[EFFORT] = replace(effort, refusal=_without_effort(found))


def _without_effort(found: Sequence[Family]) -> Refusal:
    commands = [
        one.template
        for one in found
        if one.meaning.quantity == "position" and one.meaning.role == "commanded"
    ]
    return Refusal(
        "a log without efforts",
        "torque, current or force of every joint, or commanded positions of drives with known gains kp and kd",
        "log one of them"
        if not commands
        else f"log one of them, or name {few(commands, _LISTED)} as command_position under [log] of the experiment, "
        "with kp and kd under [drive], if the drives' controllers had these",
        NO_EFFORT,
    )
