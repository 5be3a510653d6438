"""Units of joints that slide whose columns stand in one group with those of joints that turn: mm beside degrees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.layouts.physics import Motion, velocity_ratio
from dynid.layouts.unit_kinds import SLID, SLIDE_SPEEDS, TURNS, room, si
from dynid.robot.model import RobotModel

METRE = "m"
# What logs are written in: what leaves its limits so is asked for, and no rarer unit is tried.
_TRIED = (METRE, "mm")
_BY_FAR = 10.0  # times what the limits allow: descriptions are not off by that, units are
# A logged velocity is the derivative of the position in units that agree within this factor, and follows it so far.
_ALIKE, _FOLLOWS = 1.2, 0.5


def units_of_slides(robot: RobotModel, joints: Sequence[str], q: Float, angle: str) -> dict[str, str]:
    """The unit of length of each joint that slides beside others that turn; "" = none fits its limits.

    joints: with a position.    q: (T, n), as logged.    angle: the unit of those that turn. One unit of all where one
    fits all; of several the longest, as where all joints slide: what fits as metres hardly moved as millimetres.
    """
    slides = slides_among(robot, joints, joints)
    fits = {one: _fitting(robot, robot.joint_names.index(one), q, angle) for one in slides}
    common = [unit for unit in _TRIED if all(unit in of for of in fits.values())]
    return {one: (common or fits[one] or [""])[0] for one in slides}


def slides_among(robot: RobotModel, joints: Sequence[str], said: Sequence[str]) -> dict[str, str]:
    """Of joints that slide where others turn, what is said of each; {} where all are of one kind."""
    kinds = [robot.prismatic[robot.joint_names.index(joint)] for joint in joints]
    found = {joint: one.strip() for joint, one, slides in zip(joints, said, kinds, strict=True) if slides}
    return {} if len(found) == len(joints) else found


def _fitting(robot: RobotModel, j: int, q: Float, angle: str) -> list[str]:
    """Units in which a joint stays within its limits, and moves if it moves at all.

    Beside radians metres are what programs write: they are, unless the joint would leave its limits by far.
    """
    read = q[np.isfinite(q[:, j]), j]
    if not len(read):
        return [METRE]
    span = float(np.ptp(read))
    near = float(np.abs(read).max())
    ends = np.array([robot.limits.lower[j], robot.limits.upper[j]])
    limited = bool(np.isfinite(ends).all() and ends[1] > ends[0])  # of no width they say nothing
    wide = float(room(robot)[j]) if limited else TURNS
    if span == 0.0:
        farthest = float(np.abs(ends).max()) + SLID if limited else np.inf
        found = [unit for unit in _TRIED if si(unit, "length") * near <= farthest]
    else:
        found = [unit for unit in _TRIED if SLID <= si(unit, "length") * span <= wide]
    possible = angle == "rad" and span <= _BY_FAR * wide and METRE not in found
    return [METRE, *found] if possible else found


def over_angles(robot: RobotModel, slides: Mapping[str, str], angle: str) -> Float:
    """What columns (n,) are multiplied by so that a unit of angle brings all to SI units; 1 for joints that turn."""
    ratios = np.ones(robot.n)
    for joint, unit in slides.items():
        ratios[robot.joint_names.index(joint)] = si(unit or METRE, "length") / si(angle, "angle")
    return ratios


def by_joint(joints: Sequence[str], turns: str, slides: Mapping[str, str]) -> str:
    """Units of joints, one each with commas; one for all where those are rad and m, or a second of these."""
    if turns.startswith("rad") and all(unit.split("/")[0] == METRE for unit in slides.values()):
        return turns
    return ",".join(slides.get(joint, turns) for joint in joints)


def speeds_of_slides(
    robot: RobotModel, slides: Mapping[str, str], motion: Motion, angle: str
) -> dict[str, str]:
    """The unit of velocity of each joint that slides: that of the derivative of its position; "" = it is none.

    motion: its positions over the unit of angle, as `over_angles` makes them.
    """
    ratio, share = velocity_ratio(motion)
    found = {}
    for joint, unit in slides.items():
        j = robot.joint_names.index(joint)
        alike = [
            one
            for one in (f"{unit}/s", *SLIDE_SPEEDS)
            if 1 / _ALIKE < ratio[j] * si(one, "velocity") / si(angle, "angle") < _ALIKE
        ]
        moves = bool(np.ptp(motion.q[:, j]) > 0)
        found[joint] = f"{unit}/s" if not moves or share[j] <= _FOLLOWS else (alike or [""])[0]
    return found
