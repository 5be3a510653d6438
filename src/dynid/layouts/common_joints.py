"""The joints whose columns are used: those that positions and efforts have in common."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from dynid.layouts.clock import Clock
from dynid.layouts.decision import AS_YOU_SAY, Answers, Decision
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.measured_motion import measured_motion
from dynid.layouts.names import Family
from dynid.layouts.order import in_order
from dynid.layouts.row_clock import rate_from_velocity
from dynid.layouts.unit_kinds import stays_within_limits, units_within_limits
from dynid.log.absent import WITHOUT_EFFORT, hand_joints
from dynid.robot.model import RobotModel

LEAST_MEASURED = 2.0 / 3.0  # of the joints with a position, as for names that are shortened


def on_common_joints(
    robot: RobotModel, chosen: dict[str, Family], decisions: dict[str, Decision]
) -> dict[str, Family]:
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
        elif kind == "effort" and one is not None and _is_enough(one, position, decisions):
            lacking = ", ".join(joint for joint in position.joints if joint not in one.joints)
            _add_why(decisions, kind, f"{lacking} without one: the motion is used alone; {WITHOUT_EFFORT}")
        elif one is not None and one.joints != position.joints:
            del kept[kind]
            lacking = ", ".join(one.missing) or "joints"
            advice = "" if kind == "velocity" else f"; {WITHOUT_EFFORT}"
            why = (f"'{one.template}' lacks {lacking}{advice}",)
            question = "" if kind == "velocity" else "which columns are the effort?"
            key = f"log.{kind}.columns"
            decisions[key] = Decision(key, None, why, question, optional=kind == "velocity")
    return kept


def without_other_scales(
    robot: RobotModel, look: Excerpt, position: Family, decisions: dict[str, Decision]
) -> Family:
    """The columns, by joint, without those of a hand that are no position of its joints: 0 to 255, or percent."""
    ends, units, strange = _other_scales(robot, look, position) if position.named else ({}, (), [])
    if not strange:
        return position
    said = ", ".join(f"'{joint}' from {ends[joint][0]:.4g} to {ends[joint][1]:.4g}" for joint in strange)
    why = f"{said}: no position of that joint in {' or '.join(units)} or m, so that it is held"
    _add_why(decisions, "position", why)
    return _of_joints(position, [joint for joint in position.joints if joint not in strange])


def in_known_order(
    robot: RobotModel, look: Excerpt, clock: Clock, chosen: dict[str, Family], answers: Answers
) -> dict[str, Family]:
    """Numbered columns by joint, where one of a hand is no position of its joint and the motion says their order."""
    position = chosen.get("position")
    if position is None or position.named or len(position.columns) != len(position.joints):
        return chosen
    clock = rate_from_velocity(look, clock, chosen)
    if clock.column.value is None or not clock.runs:
        return chosen
    alike = {kind: one for kind, one in chosen.items() if not one.named and one.joints == position.joints}
    if any(len(one.columns) != len(one.joints) for one in alike.values()):
        return chosen
    if not _other_scales(robot, look, position)[2]:
        return chosen
    found = measured_motion(robot, look, clock, chosen, answers)
    if not found.order.sure:
        return chosen
    by_joint = {
        kind: replace(one, columns=in_order(one.columns, found.columns), named=True, ordered=found.order.why)
        for kind, one in alike.items()
    }
    return chosen | by_joint if _other_scales(robot, look, by_joint["position"])[2] else chosen


def _other_scales(
    robot: RobotModel, look: Excerpt, position: Family
) -> tuple[dict[str, tuple[float, float]], tuple[str, ...], list[str]]:
    """Ends of every joint's columns, units that fit the others, and joints of a hand whose columns fit none."""
    hand = sorted(hand_joints(robot).intersection(position.joints), key=position.joints.index)
    if not hand or len(hand) == len(position.joints):
        return {}, (), []
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
    return ends, units, strange


def _add_why(decisions: dict[str, Decision], kind: str, why: str) -> None:
    one = decisions[f"log.{kind}.columns"]
    decisions[one.key] = replace(one, why=(*one.why, why))


def _most_joints(effort: Family, position: Family) -> bool:
    # Columns by names of joints; a few of them alone are likely to be of another kind.
    if not effort.named or not position.named or not set(effort.joints) < set(position.joints):
        return False
    return len(effort.joints) >= LEAST_MEASURED * len(position.joints)


def _is_enough(effort: Family, position: Family, decisions: Mapping[str, Decision]) -> bool:
    """Whether an effort of some of the joints is used: of most of them, or of those that the user named."""
    said = any(AS_YOU_SAY in why for why in decisions["log.effort.columns"].why)
    return _most_joints(effort, position) or (said and set(effort.joints) < set(position.joints))


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
