"""A log looked at as a whole: every decision that an experiment file needs, with its evidence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from difflib import SequenceMatcher
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.layouts.channels import EFFORTS, NONE, Clock, choose, choose_clock
from dynid.layouts.commands import stand_in, with_gains
from dynid.layouts.decision import Answers, Decision, Option, decided, require_questions
from dynid.layouts.effort import Effort, decide_effort
from dynid.layouts.excerpt import Excerpt, excerpt
from dynid.layouts.meaning import Meaning, meaning_of_slides, most_fitting, single, words
from dynid.layouts.nameless import is_nameless, nameless, states_apart
from dynid.layouts.names import Family, columns_of_slide, families, joint_labels, naming
from dynid.layouts.order import decide_order, in_order
from dynid.layouts.physics import Motion, Recording, runs_of, time_step, unwrapped
from dynid.layouts.presets import Preset, presets
from dynid.layouts.row_clock import rate_from_velocity, rows_as_clock
from dynid.layouts.units import (
    CALIBRATION,
    Units,
    decide_units,
    stays_within_limits,
    time_unit,
    units_within_limits,
)
from dynid.layouts.zero import answered_offsets, decide_offset, moved_by
from dynid.log.absent import WITHOUT_EFFORT, hand_joints
from dynid.log.calibration import motor_of, rad_per_percent, read_calibration
from dynid.log.files import parts_beside
from dynid.log.row_numbers import ROW
from dynid.robot.model import RobotModel

LOCK = "robot.lock."
_NAMED = 4  # columns or files that are listed
KINDS_OF_SLIDES = ("position", "velocity", "effort")
LEAST_MEASURED = 2.0 / 3.0  # of the joints with a position, as for names that are shortened


@dataclass(frozen=True)
class Group:
    """The columns of one channel by joint.

    slides: column and unit of joints that slide where the others turn.    apart: whether their rows are not those of
    the positions.
    """

    family: Family
    columns: dict[str, str]
    slides: dict[str, tuple[str, str]] = field(default_factory=dict)
    apart: bool = False


@dataclass(frozen=True)
class Proposal:
    """What was found of a log, for an experiment file.

    decisions: in the order in which they are asked.    groups: columns of "position", "velocity", "effort".
    locked: where joints that the log does not have stand.    unused: columns that nothing was made of.
    cited: sources as reasons name them -> the recorder alone.
    """

    robot: RobotModel
    log: Path
    topic: str | None
    decisions: tuple[Decision, ...]
    groups: dict[str, Group]
    gains: dict[str, float]
    locked: dict[str, float]
    unused: tuple[str, ...]
    cited: Mapping[str, str] = field(default_factory=dict)

    def __getitem__(self, key: str) -> Decision:
        return next((one for one in self.decisions if one.key == key), Decision(key, None, optional=True))

    @property
    def open(self) -> tuple[Decision, ...]:
        """What is left to ask."""
        return tuple(one for one in self.decisions if not one.sure)


def propose(
    robot: RobotModel, log: str | Path, answers: Answers | None = None, further: Sequence[str | Path] = ()
) -> Proposal:
    """Looks at names, shapes and physics of a log and says what its columns are.

    answers: by key, of earlier questions; `log.position.columns.JOINT` is the column of one joint, "none" = it has
    none; velocity and effort alike.    further: preset files beside those of dynid and of plug-ins.
    Raises InputError for a log that cannot be read, UsageError for an answer that is none.
    """
    given = dict(answers or {})
    require_questions(given)
    names = (robot.name, *robot.joint_names)
    fitting = [one for one in presets(further) if one.fits(names)]
    look = excerpt(log, robot.joint_names)
    known = most_fitting(look.names, fitting, look.bag)
    if is_nameless(look):
        found, alone = nameless(look, robot)
    else:
        found = _of_actuators(robot, states_apart(_families(look, robot, known), look, robot))
        taken = {column for one in found for column in one.columns}
        alone = single([name for name in look.names if name not in taken], known)
    counted = given.get("log.time.column") == ROW and ROW not in look.names and not look.bag
    clock = rows_as_clock(look, alone, given) if counted else choose_clock(look, alone, given)
    if clock.column.value is None and not clock.column.options and not look.bag:
        clock = rows_as_clock(look, alone, given)
    if all(robot.prismatic):
        found = _of_slides(found)
    found, silent = _without_silent(found, look)
    decisions = [clock.column, *([clock.sort] if clock.sort is not None else [])]
    chosen: dict[str, Family] = {}
    for kind in ("position", "velocity", "effort"):
        # Of a robot with other joints than the log no answer names the columns.
        other_robot = any(one.instead for one in decisions)
        decision, family = choose(kind, found, {} if other_robot else given)
        if kind == "position" and family is None:
            decision = _with_chains(decision, look, robot, known)
        decision, family = _assigned(kind, decision, family, robot, look, given)
        if kind == "effort" and family is None and silent:
            question = f"which columns are the effort? '{silent[0]}' is 0 throughout"
            decision = replace(decision, question=question if decision.question else "")
        if decision.question and family is None and (parts := parts_beside(Path(log))):
            shown = ", ".join(parts[:_NAMED]) + (", ..." if len(parts) > _NAMED else "")
            why = f"beside it {shown}, as many rows: give their folder if they are parts of one recording"
            decision = replace(decision, why=(*decision.why, why))
        if decision.question and family is None and all(one.value == NONE for one in decision.options):
            decision = _with_example(kind, decision, robot, look, clock)
        decisions.append(decision)
        if family is not None:
            chosen[kind] = family
    _refuse_broken(look, robot, known, chosen)
    columns_of_positions = len(chosen["position"].columns) if "position" in chosen else 0
    for kind in list(chosen):
        extra = _extra_columns(look, kind, chosen[kind], given)
        if extra is not None:
            same = next((one for one in decisions if one.key == "log.position.which"), None)
            if same is not None and extra.question and len(chosen[kind].columns) == columns_of_positions:
                # What is not of a joint stands at the same end in all groups.
                extra = replace(extra, value=same.value, why=("as those of the positions",), question="")
            decisions.append(extra)
            chosen[kind] = _cut(chosen[kind], extra.value)
    if "position" in chosen:
        chosen["position"] = _without_other_scales(robot, look, chosen["position"], decisions)
    chosen = _alike(robot, chosen, decisions)
    clock = rate_from_velocity(look, clock, chosen)
    clock, apart = _on_rows_of_positions(look, clock, chosen)
    if "effort" not in chosen and "position" in chosen:
        stand_in(robot, look, chosen, found, decisions, given)
    missing = chosen["position"].missing if "position" in chosen else ()
    slides = _slides(robot, look, chosen, missing)
    if slides:
        said = [f"{column} {unit}" for own in slides.values() for column, unit in own.values()]
        verb = "slides" if len(slides) == 1 else "slide"
        why = f"{', '.join(slides)} {verb}, in columns of other units: {', '.join(said)}"
        decisions.append(Decision("log.position.slides", "as their names say", (why,), likely=True))
        missing = tuple(joint for joint in missing if joint not in slides)
    taken = {column for one in chosen.values() for column in one.columns}
    left = [name for name in look.names if name not in taken]
    held = [
        _held(robot, joint, _apart(robot, joint, missing), given, naming(joint, left)) for joint in missing
    ]
    decisions += held
    groups, decisions, effort_gains = _settle(robot, look, clock, chosen, known, given, decisions)
    decisions = with_gains(look, found, chosen, {k: one.columns for k, one in groups.items()}, decisions)
    groups = {
        kind: replace(
            one,
            slides={joint: own[kind] for joint, own in slides.items() if kind in own},
            apart=kind in apart,
        )
        for kind, one in groups.items()
    }
    used = {column for group in groups.values() for column in group.columns.values()}
    used |= {column for group in groups.values() for column, _ in group.slides.values()}
    used |= {clock.column.value or "", clock.trajectory.value or ""}
    return Proposal(
        robot,
        Path(log),
        look.topic,
        tuple(decisions),
        groups,
        effort_gains,
        {one.key.removeprefix(LOCK): float(one.value) for one in held if one.value is not None},
        tuple(name for name in look.names if name not in used),
        {one.said(entry.source): one.title for one in known for entry in one.channel},
    )


def _on_rows_of_positions(
    look: Excerpt, clock: Clock, chosen: Mapping[str, Family]
) -> tuple[Clock, frozenset[str]]:
    """The clock of the rows with positions, to whose times channels in other rows are brought, and which those are."""
    if "position" not in chosen or clock.column.value is None or clock.counted or len(clock.runs) != 1:
        return clock, frozenset()
    rows = {kind: np.isfinite(look.table(one.columns)).any(axis=1) for kind, one in chosen.items()}
    there = rows.pop("position")
    apart = [kind for kind, own in rows.items() if 2 * (there & own).sum() < there.sum()]
    if not apart:
        return clock, frozenset()
    t = look.table([clock.column.value])[:, 0]
    filled = {}
    for name in (name for kind in apart for name in chosen[kind].columns):
        values = look.table([name])[:, 0]
        known = np.isfinite(values)
        if known.any():
            filled[name] = np.interp(t[there], t[known], values[known], np.nan, np.nan)
    look.put_in_order(np.flatnonzero(there))
    look.fill(filled)
    t = t[there]
    return replace(clock, runs=runs_of(t), step=time_step(t, runs_of(t)), first=float(t[0])), frozenset(apart)


def _slides(
    robot: RobotModel, look: Excerpt, chosen: Mapping[str, Family], missing: Sequence[str]
) -> dict[str, dict[str, tuple[str, str]]]:
    """Columns of joints that slide, by joint and channel, where those of the others are angles.

    A joint is found if it has a column of every channel that the others have.
    """
    taken = {column for one in chosen.values() for column in one.columns}
    left = [name for name in look.numeric if name not in taken]
    found = {}
    for joint in missing:
        own = columns_of_slide(joint, left) if robot.prismatic[robot.joint_names.index(joint)] else {}
        wanted = [kind for kind, one in chosen.items() if joint in one.missing and kind in KINDS_OF_SLIDES]
        if own and all(kind in own for kind in wanted):
            found[joint] = {kind: own[kind] for kind in wanted}
    return found


def _with_example(kind: str, decision: Decision, robot: RobotModel, look: Excerpt, clock: Clock) -> Decision:
    """The question with the answer that names the column of one joint, the one that is called most like it."""
    columns = [name for name in look.numeric if name != clock.column.value]
    if len(columns) < robot.n:
        return decision
    joint, *others = robot.joint_names
    called = " ".join(words(f"{joint} {kind}"))
    column = max(columns, key=lambda one: SequenceMatcher(None, " ".join(words(one)), called).ratio())
    rest = f", and so for {', '.join(others)}" if others else ""
    return replace(decision, example=(f"{decision.key}.{joint}={column}", rest))


def _assigned(
    kind: str, decision: Decision, family: Family | None, robot: RobotModel, look: Excerpt, answers: Answers
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
        Meaning(kind, said_by="name") if family is None else family.meaning,
    )
    why = "as you say, joint by joint"
    if not columns:
        return Decision(key, NONE, (why,), options=decision.options, optional=decision.optional), None
    return Decision(key, whole.template, (why,), options=decision.options, optional=decision.optional), whole


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


def _families(look: Excerpt, robot: RobotModel, known: Sequence[Preset]) -> list[Family]:
    """The groups of columns; numbered ones may be those of the arm without its hand."""
    columns = [name for name in look.numeric if name != "t" or not look.bag]
    texts = look.values([name for name in look.names if name not in look.numeric]) if not look.bag else {}
    labels = joint_labels(texts, robot.joint_names)
    found = families(columns, robot.joint_names, known, look.bag, labels)
    hands = hand_joints(robot)
    arm = [one for one in robot.joint_names if one not in hands]
    if len(arm) == robot.n or not arm or any(one.meaning.quantity == "position" for one in found):
        return found
    hand = tuple(one for one in robot.joint_names if one in hands)
    return [replace(one, missing=(*one.missing, *hand)) for one in families(columns, arm, known, look.bag)]


def _without_silent(found: Sequence[Family], look: Excerpt) -> tuple[list[Family], tuple[str, ...]]:
    """The groups but efforts that are 0 in every row, as of simulators that have none, and what these are called."""
    silent = {
        one.template
        for one in found
        if one.meaning.quantity in EFFORTS and not np.nan_to_num(look.table(one.columns)).any()
    }
    return [one for one in found if one.template not in silent], tuple(sorted(silent))


def _of_actuators(robot: RobotModel, found: Sequence[Family]) -> list[Family]:
    """The groups; of simulated actuators the torque at the joints is better than their force, and this than the input.

    Inputs of position controllers are the positions that they were commanded.
    """
    servo = robot.drive.servo
    kinds = {one.meaning.actuator for one in found if one.meaning.quantity in EFFORTS}

    def meaning(said: Meaning) -> Meaning:
        if said.actuator == "input" and servo is not None and servo.known:
            return Meaning("position", "commanded", "rad", said.said_by)
        better = {None} if said.actuator == "force" else {None, "force"}
        return replace(said, role="spare") if said.actuator is not None and better & kinds else said

    return [replace(one, meaning=meaning(one.meaning)) for one in found]


def _of_slides(found: Sequence[Family]) -> list[Family]:
    """The groups, with what their names mean where all joints slide."""

    def meaning(one: Family) -> Meaning:
        place = "{joint}" if "{joint}" in one.template else "{number}"
        return meaning_of_slides(one.meaning, one.template.replace("{index}", place), place)

    return [replace(one, meaning=meaning(one)) for one in found]


def _with_chains(decision: Decision, look: Excerpt, robot: RobotModel, known: Sequence[Preset]) -> Decision:
    """A question for positions, with the chains that have as many joints as there are numbered columns."""
    lines = [
        {j for i in own for j in np.flatnonzero(robot.projection[i])} for own in _bodies_on_the_way(robot)
    ]
    for m in sorted({len(one) for one in lines if len(one) < robot.n}, reverse=True):
        tips = [name for name, one in zip(robot.body_names, lines, strict=True) if len(one) == m]
        numbered = [
            one.template
            for one in families(look.numeric, robot.joint_names[:m], known, look.bag)
            if one.meaning.quantity == "position" and not one.named and len(one.columns) == m
        ]
        if m > 1 and numbered:
            why = (
                f"'{numbered[0]}' numbers {m} columns and the robot has {robot.n} joints: call again with the last "
                f"link of the logged arm, --tip {' or --tip '.join(tips)}, or with --lock for joints that stood still"
            )
            return replace(decision, why=(*decision.why, why), instead=why)
    return decision


def _settle(
    robot: RobotModel,
    look: Excerpt,
    clock: Clock,
    chosen: dict[str, Family],
    known: Sequence[Preset],
    answers: Answers,
    decisions: list[Decision],
) -> tuple[dict[str, Group], list[Decision], dict[str, float]]:
    """Units, order and drives of the chosen columns."""
    if "position" not in chosen or clock.column.value is None or not clock.runs:
        groups = {
            kind: Group(one, dict(zip(one.joints, one.columns, strict=True)))
            for kind, one in chosen.items()
            if one.named
        }
        return groups, [*decisions, clock.trajectory, time_unit(clock, answers)], {}
    family = chosen["position"]
    velocity = chosen["velocity"].meaning if "velocity" in chosen else None
    per_percent = _per_percent(robot, family, answers)
    said = chosen["effort"].meaning if "effort" in chosen else None
    offsets = answered_offsets(family.joints, answers)

    def read(at: Sequence[int]) -> tuple[Units, Decision | None, Motion | None]:
        recording = moved_by(_recording(robot, look, clock, chosen, at), robot, offsets)
        units = decide_units(robot, recording, clock, family, velocity, answers, per_percent, said)
        unit = units.position.value or ""
        zero = decide_offset(robot, family.joints, recording, units.scale, unit, answers)
        known = units.motion is not None and np.isfinite(units.scale).all() and (zero is None or zero.sure)
        return units, zero, units.motion.read_as(units.scale) if units.motion is not None and known else None

    plain = tuple(range(len(family.joints)))
    units, zero, motion = read(plain)
    order, at = decide_order(robot, family, motion, answers)
    if at != plain:
        # Limits and masses are those of the joints: units are looked at again in the order that was found.
        units, zero, motion = read(at)
    effort = None
    if "effort" in chosen:
        effort = decide_effort(
            robot,
            chosen["effort"].meaning,
            motion if order.sure else None,
            known,
            answers,
            chosen["effort"].joints,
        )
    groups = {
        kind: Group(
            family,
            dict(
                zip(
                    family.joints,
                    in_order(family.columns, at) if not family.named else family.columns,
                    strict=True,
                )
            ),
        )
        for kind, family in chosen.items()
    }
    return (
        groups,
        [*decisions, *_further(clock, units, order, zero, effort)],
        dict(effort.values) if effort else {},
    )


def _per_percent(robot: RobotModel, family: Family, answers: Answers) -> Float | None:
    """Rad in one percent of the range of every joint's motor (n,), where its calibration was named."""
    if CALIBRATION not in answers:
        return None
    motors = read_calibration(Path(answers[CALIBRATION]).expanduser())
    scale = np.full(robot.n, np.nan)
    for joint, column in zip(family.joints, family.columns, strict=False):
        motor = motor_of(column, joint, motors)
        if motor is not None:
            scale[robot.joint_names.index(joint)] = rad_per_percent(motor, motors[motor])
    # Joints that the log lacks stand still.
    scale[[robot.joint_names.index(joint) for joint in family.missing]] = 0.0
    return scale


def _further(
    clock: Clock, units: Units, order: Decision, zero: Decision | None, effort: Effort | None
) -> list[Decision]:
    found = [clock.trajectory, units.time, order, units.position]
    found += [zero] if zero is not None else []
    found += [units.calibration] if units.calibration is not None else []
    found += [units.velocity] if units.velocity is not None else []
    if effort is not None:
        found += [effort.unit, effort.side]
        found += [effort.gains] if effort.gains is not None else []
    return found


def _recording(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: dict[str, Family], at: Sequence[int]
) -> Recording:
    t = look.table([clock.column.value or ""])[:, 0]
    read = {kind: _table(robot, look, family, at) for kind, family in chosen.items()}
    return Recording(t, unwrapped(read["position"]), read.get("velocity"), read.get("effort"), clock.runs)


def _table(robot: RobotModel, look: Excerpt, family: Family, at: Sequence[int]) -> Float:
    """Columns by joint, (T, n); joints that the log does not have stand still at 0."""
    read = look.table(family.columns if family.named else in_order(family.columns, at))
    whole = np.zeros((len(read), robot.n))
    whole[:, [robot.joint_names.index(one) for one in family.joints]] = read
    return whole


def _extra_columns(look: Excerpt, kind: str, family: Family, answers: Answers) -> Decision | None:
    """More numbered columns than joints: fingers, a rail, another arm."""
    if not family.spare:
        return None
    n, m = len(family.joints), len(family.columns)
    key = f"log.{kind}.which"
    reason = f"{m} columns '{family.template}' for {n} joints"
    options = (Option("first", f"the first {n}"), Option("last", f"the last {n}"))
    values = look.table(family.columns)
    still = np.nanmax(values, axis=0) == np.nanmin(values, axis=0)
    for name, alive, dead in (
        ("first", slice(None, n), slice(n, None)),
        ("last", slice(-n, None), slice(None, -n)),
    ):
        if still[dead].all() and not still[alive].any():
            return decided(
                Decision(key, name, (f"{reason}; the others never change",), options=options), answers
            )
    return decided(Decision(key, None, (reason,), "which of them are the joints?", options), answers)


def _apart(robot: RobotModel, joint: str, missing: Sequence[str]) -> bool:
    """Whether a joint carries none of those that the log has, and none of them carries it: as of another arm."""
    lines = _bodies_on_the_way(robot)
    moved = robot.projection != 0
    own = set(np.flatnonzero(moved[:, robot.joint_names.index(joint)]).tolist())
    logged = [j for j, name in enumerate(robot.joint_names) if name not in missing]
    others = set(np.flatnonzero(moved[:, logged].any(axis=1)).tolist())
    return not any(i in lines[k] or k in lines[i] for i in own for k in others)


def _bodies_on_the_way(robot: RobotModel) -> list[set[int]]:
    """By body, those between it and the base, itself among them."""
    lines = [{i} for i in range(robot.n_bodies)]
    for i, parent in enumerate(robot.parent.tolist()):
        lines[i] |= lines[parent] if parent >= 0 else set()
    return lines


def _held(
    robot: RobotModel, joint: str, apart: bool, answers: Answers, named: Sequence[str] = ()
) -> Decision:
    """Where a joint stands that the log does not have.

    apart: whether that matters to none that it has.    named: columns of the log that name it nevertheless.
    """
    key, j = f"{LOCK}{joint}", robot.joint_names.index(joint)
    rest = float(np.clip(0.0, robot.limits.lower[j], robot.limits.upper[j]))
    why = f"the log has no column of '{joint}': it is held"
    if named:
        shown = ", ".join(named[:_NAMED]) + (", ..." if len(named) > _NAMED else "")
        why = (
            f"no column of '{joint}' is one of these groups, though {shown} name{'s' if len(named) == 1 else ''} it: "
            "it is held; columns and unit may be tables by joint"
        )
    if apart:
        found = Decision(
            key, f"{rest:g}", (f"{why}; it stands on a branch of its own, where its place does not matter",)
        )
    elif joint in hand_joints(robot):
        found = Decision(
            key, f"{rest:g}", (f"{why}; a joint of a hand, whose place matters little",), likely=True
        )
    else:
        unit = "m" if robot.prismatic[j] else "rad"
        found = Decision(key, None, (why,), f"at which position does '{joint}' stand, in {unit}?")
    if key in answers:
        try:
            value = float(answers[key])
        except ValueError:
            return found
        return Decision(key, f"{value:g}", ("as you say",)) if np.isfinite(value) else found
    return found


def _cut(family: Family, which: str | None) -> Family:
    n = len(family.joints)
    if which == "last":
        return replace(family, columns=family.columns[-n:], first=family.first + len(family.columns) - n)
    return replace(family, columns=family.columns[:n])


def _alike(robot: RobotModel, chosen: dict[str, Family], decisions: list[Decision]) -> dict[str, Family]:
    """Velocities and efforts that cover fewer joints than the positions are of no use, but for those of a hand.

    A hand's positions are often logged without its effort: it is held then. Of another joint without one the motion is
    used, where most joints have one.
    """
    position, effort = chosen.get("position"), chosen.get("effort")
    if position is None:
        return chosen
    kept = dict(chosen)
    if effort is not None and effort.named and position.named:
        without = [joint for joint in position.joints if joint not in effort.joints]
        if without and hand_joints(robot).issuperset(without):
            position = _of_joints(position, [joint for joint in position.joints if joint not in without])
            kept["position"] = position
    for kind in ("velocity", "effort"):
        one = kept.get(kind)
        if one is not None and one.named and set(one.joints) > set(position.joints):
            kept[kind] = _of_joints(one, position.joints)
        elif kind == "effort" and one is not None and _most_joints(one, position):
            lacking = ", ".join(joint for joint in position.joints if joint not in one.joints)
            at = next(k for k, d in enumerate(decisions) if d.key == "log.effort.columns")
            why = (*decisions[at].why, f"{lacking} without one: the motion is used alone; {WITHOUT_EFFORT}")
            decisions[at] = replace(decisions[at], why=why)
        elif one is not None and one.joints != position.joints:
            del kept[kind]
            at = next(k for k, d in enumerate(decisions) if d.key == f"log.{kind}.columns")
            lacking = ", ".join(one.missing) or "joints"
            advice = "" if kind == "velocity" else f"; {WITHOUT_EFFORT}"
            why = (f"'{one.template}' lacks {lacking}{advice}",)
            question = "" if kind == "velocity" else "which columns are the effort?"
            decisions[at] = Decision(f"log.{kind}.columns", None, why, question, optional=kind == "velocity")
    return kept


def _without_other_scales(
    robot: RobotModel, look: Excerpt, position: Family, decisions: list[Decision]
) -> Family:
    """The columns without those of a hand that are no position of its joints: 0 to 255, or percent."""
    hand = sorted(hand_joints(robot).intersection(position.joints), key=position.joints.index)
    if not position.named or not hand or len(hand) == len(position.joints):
        return position
    values = look.table(position.columns)
    with np.errstate(invalid="ignore"):
        low, high = (
            np.nanmin(values, axis=0, initial=np.inf),
            np.nanmax(values, axis=0, initial=-np.inf),
        )
    ends = dict(zip(position.joints, zip(low.tolist(), high.tolist(), strict=True), strict=True))
    span = np.zeros(robot.n)
    for joint, (least, most) in ends.items():
        span[robot.joint_names.index(joint)] = 0.0 if joint in hand else most - least
    units = units_within_limits(robot, span)
    strange = []
    for joint in hand:
        own = np.zeros(robot.n)
        j = robot.joint_names.index(joint)
        own[j] = ends[joint][1] - ends[joint][0]
        if units and not any(stays_within_limits(robot, own, unit)[j] for unit in units):
            strange.append(joint)
    if not strange:
        return position
    said = ", ".join(f"'{joint}' from {ends[joint][0]:.4g} to {ends[joint][1]:.4g}" for joint in strange)
    at = next(k for k, d in enumerate(decisions) if d.key == "log.position.columns")
    why = (
        *decisions[at].why,
        f"{said}: no position of that joint in {' or '.join(units)} or m, so that it is held",
    )
    decisions[at] = replace(decisions[at], why=why)
    return _of_joints(position, [joint for joint in position.joints if joint not in strange])


def _most_joints(effort: Family, position: Family) -> bool:
    # Columns by names of joints; a few of them alone are likely to be of another kind.
    if not effort.named or not position.named or not set(effort.joints) < set(position.joints):
        return False
    return len(effort.joints) >= LEAST_MEASURED * len(position.joints)


def _of_joints(family: Family, joints: Sequence[str]) -> Family:
    """Some of the columns, by joint; the others are missing."""
    column = dict(zip(family.joints, family.columns, strict=True))
    left_out = tuple(one for one in family.joints if one not in joints)
    return replace(
        family,
        columns=tuple(column[one] for one in joints),
        joints=tuple(joints),
        missing=(*family.missing, *left_out),
    )
