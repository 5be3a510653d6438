"""Signals that a log lacks altogether: no answer names their columns, and that is said at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dynid.base.overview import few
from dynid.layouts.channels import NONE
from dynid.layouts.clock import Clock
from dynid.layouts.decision import Answers, Decision, Refusal
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.meaning import EFFORTS
from dynid.layouts.names import Family
from dynid.log.absent import hand_joints
from dynid.robot.model import RobotModel

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
