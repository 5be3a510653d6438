"""A log looked at as a whole: every decision that an experiment file needs, with its evidence.

Each step has a file: `column_groups` (names), `clock` and `row_clock`, `channels`, `spare_columns`, `common_joints`,
`commands`, `missing_joints`, `measured_motion` (`units`, `zero`, `order`) and `effort`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np

from dynid.base.errors import InputError, UsageError
from dynid.layouts.channels import choose_channels, columns_by_joint
from dynid.layouts.clock import Clock, choose_clock, on_rows_of_positions
from dynid.layouts.column_groups import column_groups, without_silent
from dynid.layouts.commands import stand_in, with_gains
from dynid.layouts.common_joints import in_known_order, on_common_joints, without_other_scales
from dynid.layouts.decision import Answers, Decision, by_key, require_questions
from dynid.layouts.effort import Effort, decide_effort
from dynid.layouts.excerpt import Excerpt, excerpt
from dynid.layouts.gears import decide_gears
from dynid.layouts.lacking import refuse_lacking
from dynid.layouts.meaning import Meaning, most_fitting
from dynid.layouts.measured_motion import MeasuredMotion, measured_motion
from dynid.layouts.missing_joints import LOCK, held_joints, slides_beside, slides_decision
from dynid.layouts.names import Family
from dynid.layouts.order import Order, in_order
from dynid.layouts.presets import Preset, presets
from dynid.layouts.proposal import Group, Proposal
from dynid.layouts.row_clock import rate_from_velocity, rows_as_clock
from dynid.layouts.spare_columns import without_spare
from dynid.layouts.standstill import standstill
from dynid.layouts.units import time_unit
from dynid.log.parts import may_be_parts, recordings
from dynid.log.row_numbers import ROW
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
    if "effort" not in chosen and "position" in chosen:
        stand_in(robot, look, chosen, found, decisions, given)
    refuse_lacking(robot, look, clock, found, chosen, decisions, given)
    missing = chosen["position"].missing if "position" in chosen else ()
    slides = slides_beside(robot, look, chosen, missing, efforts)
    held = held_joints(robot, look, chosen, [joint for joint in missing if joint not in slides], given)
    decisions |= by_key(*([slides_decision(slides)] if slides else []), *held)
    alike = [joint for joint, own in slides.items() if own.get("effort", ("", "N"))[1] == ""]
    motion, effort = _motion_and_effort(robot, look, clock, chosen, known, given, alike)
    decisions |= by_key(*_of_motion(clock, given, motion, effort))
    groups = _groups(chosen, motion.columns if motion is not None else None, slides, apart)
    with_gains(look, found, chosen, groups, decisions)
    used = {name for group in groups.values() for name in group.all_columns}
    used |= {clock.column.value or "", clock.trajectory.value or ""}
    return Proposal(
        robot,
        log if isinstance(log, Mapping) else Path(log),
        look.topic,
        tuple(decisions.values()),
        groups,
        dict(effort.values) if effort is not None else {},
        {one.key.removeprefix(LOCK): float(one.value) for one in held if one.value is not None},
        tuple(name for name in look.names if name not in used),
        {one.said(entry.source): one.title for one in known for entry in one.channel},
        standstill(look, chosen, motion),
    )


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
) -> tuple[MeasuredMotion | None, Effort | None]:
    """How positions and efforts are to be read; None without positions or time.

    alike: joints that slide whose effort is in the others' unit.
    """
    if "position" not in chosen or clock.column.value is None or not clock.runs:
        return None, None
    found = measured_motion(robot, look, clock, chosen, answers)
    if "effort" not in chosen:
        return found, None
    effort, motion = chosen["effort"], found.motion if found.order.sure else None
    joints = [one for one in robot.joint_names if one in (*effort.joints, *alike)]
    # Nothing is worth 0, which is no effort: of joints of a hand, for one.
    of = effort.columns if effort.named else in_order(effort.columns, found.columns)
    values = np.nan_to_num(look.table(of))
    idle = {joint for j, joint in enumerate(effort.joints[: values.shape[1]]) if not values[:, j].any()}
    joints = [one for one in joints if one not in idle] or joints
    return found, decide_effort(robot, effort.meaning, motion, known, answers, joints)


def _of_motion(
    clock: Clock, answers: Answers, motion: MeasuredMotion | None, effort: Effort | None
) -> list[Decision]:
    if motion is None:
        return [clock.trajectory, time_unit(clock, answers)]
    units = motion.units
    found = [clock.trajectory, units.time, motion.order, units.position]
    found += [one for one in (motion.side, motion.zero, units.calibration, units.velocity) if one is not None]
    found += [effort.unit, effort.side] if effort is not None else []
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
