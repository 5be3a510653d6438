"""Joints without a column in the chosen groups: slides in columns of their own, and joints that are held."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynid.base.overview import few
from dynid.layouts.decision import Answers, Decision
from dynid.layouts.excerpt import Excerpt
from dynid.layouts.names import Family, columns_of_slide, naming
from dynid.log.absent import hand_joints
from dynid.robot.branches import on_branches_of
from dynid.robot.locking import rest_position
from dynid.robot.model import RobotModel

LOCK = "robot.lock."
_NAMED = 4  # columns that are listed
KINDS_OF_SLIDES = ("position", "velocity", "effort")


def slides_beside(
    robot: RobotModel,
    look: Excerpt,
    chosen: Mapping[str, Family],
    missing: Sequence[str],
    efforts: Family | None = None,
) -> dict[str, dict[str, tuple[str, str]]]:
    """Columns of joints that slide, by joint and channel, where those of the others are angles.

    A joint is found if it has a column of every channel that the others have.
    efforts: the group with those of all joints, such as currents; a slide's is in the others' unit then, "" here.
    """
    taken = {column for one in chosen.values() for column in one.columns}
    left = [name for name in look.numeric if name not in taken]
    found = {}
    for joint in missing:
        own = columns_of_slide(joint, left) if robot.prismatic[robot.joint_names.index(joint)] else {}
        if own and efforts is not None and efforts.named and joint in efforts.joints:
            own.setdefault("effort", (efforts.columns[efforts.joints.index(joint)], ""))
        wanted = [kind for kind, one in chosen.items() if joint in one.missing and kind in KINDS_OF_SLIDES]
        if own and all(kind in own for kind in wanted):
            found[joint] = {kind: own[kind] for kind in wanted}
    return found


def slides_decision(slides: Mapping[str, Mapping[str, tuple[str, str]]]) -> Decision:
    """What is said of such joints."""
    said = [f"{column} {unit}".strip() for own in slides.values() for column, unit in own.values()]
    verb = "slides" if len(slides) == 1 else "slide"
    why = f"{', '.join(slides)} {verb}, in columns of other units: {', '.join(said)}"
    return Decision("log.position.slides", "as their names say", (why,), likely=True)


def held_joints(
    robot: RobotModel, look: Excerpt, chosen: Mapping[str, Family], missing: Sequence[str], answers: Answers
) -> list[Decision]:
    """Where the joints stand that the log does not have."""
    taken = {column for one in chosen.values() for column in one.columns}
    left = [name for name in look.names if name not in taken]
    alike = _alike(chosen["position"], left) if "position" in chosen else []
    return [
        _held(
            robot,
            joint,
            _apart(robot, joint, missing),
            answers,
            naming(joint, left),
            (alike, alike[k : k + 1]),
        )
        for k, joint in enumerate(missing)
    ]


def _alike(family: Family, left: Sequence[str]) -> list[str]:
    """Columns that are called as those of a group, but for names that are no joints': they may be of missing joints."""
    before, joint, behind = family.template.partition("{joint}")
    if not joint or not before + behind:
        return []
    return [
        name
        for name in left
        if len(name) > len(before + behind) and name.startswith(before) and name.endswith(behind)
    ]


def _held(
    robot: RobotModel,
    joint: str,
    apart: bool,
    answers: Answers,
    named: Sequence[str],
    alike: tuple[Sequence[str], Sequence[str]],
) -> Decision:
    """Where a joint stands that the log does not have.

    apart: whether that matters to none that it has.    named: columns of the log that name it nevertheless.
    alike: those that may be its under another name, and the one at its place.
    """
    key, j = f"{LOCK}{joint}", robot.joint_names.index(joint)
    rest = rest_position(robot, joint)
    why = f"the log has no column of '{joint}': it is held"
    if named:
        why = (
            f"no column of '{joint}' is one of these groups, though {few(named, _NAMED)} "
            f"name{'s' if len(named) == 1 else ''} it: it is held; columns and unit may be tables by joint"
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
        question = f"at which position does '{joint}' stand, in {unit}?"
        if alike[0]:
            question += (
                f" Or does the log call it otherwise ({few(alike[0], _NAMED)}): --answer "
                f"'log.position.columns.{joint}={(*alike[1], alike[0][0])[0]}', and so for velocity and effort?"
            )
        found = Decision(key, None, (why,), question)
    if key in answers:
        try:
            value = float(answers[key])
        except ValueError:
            return found
        return Decision(key, f"{value:g}", ("as you say",)) if np.isfinite(value) else found
    return found


def _apart(robot: RobotModel, joint: str, missing: Sequence[str]) -> bool:
    """Whether a joint carries none of those that the log has, and none of them carries it: as of another arm."""
    logged = ~np.isin(robot.joint_names, list(missing))
    return not on_branches_of(robot, logged)[robot.joint_names.index(joint)]
