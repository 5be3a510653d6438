"""The unit of positions that the effort speaks for: a rigid arm, or the description's masses, fit it so alone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.layouts.effort import NEAR, force_unit, scale_of, torque_size
from dynid.layouts.meaning import Meaning
from dynid.layouts.physics import DECISIVE, FITS, Motion, evidence, gain, misfit
from dynid.layouts.presets import UNKNOWN
from dynid.layouts.unit_kinds import POSITIONS, SLIDING, TURN, Kind, in_range, kind_of, si
from dynid.log.calibration import PERCENT
from dynid.robot.model import RobotModel

# Positions that fit far better this many times as large are those of motors, or of another unit; the last are turns.
STRETCHES = (0.5, 0.7, 1.4, 2.0, 2 * np.pi)


def _why_none(kind: Kind, said: Meaning) -> str:
    """Why no unit is taken: counts are known to be none, or none fits."""
    return said.doubt if said.doubt and said.unit == UNKNOWN else kind.neither


def _gears(robot: RobotModel) -> str:
    """Where the gears of motors are known from."""
    if (np.abs(robot.drive.gear_ratio) == 1).all():
        return "and the ratios of their gears, which are asked for then"
    return "and are divided by the gear ratios of the description"


def by_torque(
    robot: RobotModel,
    motion: Motion | None,
    left: Sequence[str],
    said: Meaning,
    effort: Meaning | None,
    widest: float,
) -> tuple[str | None, tuple[str, ...], str]:
    """The position unit that the torque speaks for: it, evidence, question.    widest: span of a column."""
    kind = kind_of(robot)
    ask = f"are the positions in {' or '.join(kind.positions)}?"
    if PERCENT in left:
        ask = f"are the positions in {' or '.join(left)} of each motor's range (LeRobot without use_degrees)?"
        return (PERCENT, (), "") if len(left) == 1 else (None, ("nothing decides between them",), ask)
    if not left and widest < kind.moved and not said.doubt:
        why = f"the joints move by {widest:.3g} at most: as {' or '.join(kind.positions)} the robot hardly moves"
        return None, (why,), f"in which unit are the positions? {why[0].upper()}{why[1:]}"
    if not left:
        return (
            None,
            (
                f"{_why_none(kind, said)}; counts of an encoder are shares of a turn (1/4096 turn for one), "
                "and their zero is an offset under [log] position",
            ),
            f"which unit have the positions ({_why_none(kind, said)})? Of counts it is what one is worth: "
            "1/4096 turn, 0.01 deg, or one for each joint with commas; "
            f"those of motors take --answer log.position.side=motor, too, {_gears(robot)}",
        )
    named = said.unit in kind.all_positions and not said.doubt
    best = said.unit if named and said.unit in left else left[0]
    others = [u for u in POSITIONS if u != best]
    seen = None if motion is None else evidence(robot, _read(motion, best), _read(motion, others[0]))
    if seen is None:
        return (best, (), "") if len(left) == 1 else (None, ("nothing decides between them",), ask)
    advantage, words = seen
    if not named and (turns := _as_turns(robot, motion, best, effort)) is not None:
        return TURN, (turns,), ""
    stretched = _stretched(robot, motion, best)
    if stretched is not None and len(left) == 1:
        return (
            None,
            (f"as {best}, but {stretched}",),
            f"in which unit are the positions? As {best}, {stretched}",
        )
    if advantage > DECISIVE:
        return (best, (f"{words} as {best}",), "") if stretched is None else (None, (stretched,), ask)
    if advantage < -DECISIVE:
        if len(left) > 1 and not named:
            return others[0], (f"{words} as {others[0]}",), ""
        return None, (f"but {words} as {others[0]}",), ask
    return (
        (best, ("the torque neither confirms nor contradicts it",), "")
        if len(left) == 1
        else (None, ("nothing decides between them",), ask)
    )


def by_force(
    robot: RobotModel, motion: Motion | None, left: Sequence[str], said: Meaning, effort: Meaning | None
) -> tuple[str | None, tuple[str, ...], str]:
    """The unit of slides' positions in which the description's masses need the logged force.    As `by_torque`.

    The force of slides is linear in their positions: in any unit a rigid robot fits it as well.
    """
    neither = SLIDING.neither
    if not left:
        return None, (neither,), f"which unit have the positions? {neither.capitalize()}"
    if len(left) == 1:
        return left[0], (), ""
    ask = f"are the positions in {' or '.join(left)}?"
    if said.unit in SLIDING.all_positions and not said.doubt:
        return None, ("nothing decides between them",), ask
    newtons = None if motion is None or effort is None else force_unit(robot, motion, effort)
    if motion is not None and newtons is not None:
        scales = {unit: scale_of(robot, motion.read_as(si(unit, "length"))) for unit in left}
        shares = {unit: newtons * one.middle for unit, one in scales.items() if one is not None}
        near = [unit for unit, share in shares.items() if 1 / NEAR < share < NEAR]
        words = ", ".join(f"{share:.3g} as {unit}" for unit, share in shares.items())
        if words:
            words = f"the force over that of the description's masses is {words}"
        if len(near) == 1:
            return near[0], (words,), ""
        if words:
            return None, (words,), ask
    if "m" in left:
        return "m", (f"as {' or '.join(one for one in left if one != 'm')} the robot hardly moved",), ""
    return None, ("the limits allow each, and no force in a known unit decides between them",), ask


def _stretched(robot: RobotModel, motion: Motion | None, unit: str) -> str | None:
    """What speaks for positions of another size than the unit's: those of motors before their gears, for one."""
    here = None if motion is None else misfit(robot, motion.read_as(si(unit, "angle")))
    if motion is None or here is None:
        return None
    for factor_ in STRETCHES:
        there = misfit(robot, motion.read_as(factor_ * si(unit, "angle")))
        if there is not None and gain(there, here) > DECISIVE and (np.sqrt(there[there < 1]) <= FITS).all():
            what = "turns" if factor_ == STRETCHES[-1] else "motors before gears"
            return f"a rigid arm fits the torque far better with {factor_:.3g} times the angles: {what}?"
    return None


def _as_turns(robot: RobotModel, motion: Motion | None, unit: str, effort: Meaning | None) -> str | None:
    """What says that positions are in turns, and no other length than that of the unit; None = it is not beyond doubt.

    They stay within the limits, a fit or the description speaks for them as for one of the usual units, and as turns
    alone the torque is as large as the description's: the angles of motors, and counts, would be as well by chance.
    """
    if motion is None or effort is None or effort.quantity not in ("torque", "effort") or effort.doubt:
        return None
    size = 1.0 if effort.unit == UNKNOWN else torque_size(effort.unit)
    if size is None or not in_range(robot, np.ptp(motion.q, axis=0), TURN):
        return None
    seen = evidence(robot, _read(motion, TURN), _read(motion, unit))
    here, there = (scale_of(robot, motion.read_as(si(one, "angle"))) for one in (TURN, unit))
    if seen is None or seen[0] <= DECISIVE or here is None:
        return None
    others = [] if there is None else [size * there.middle]
    if not 1 / NEAR < size * here.middle < NEAR or any(1 / NEAR < one < NEAR for one in others):
        return None
    share = f"and is {size * here.middle:.2g} times the description's then"
    return f"{seen[1]} as {TURN} than as {unit}, {share}" + "".join(f" ({one:.2g} times)" for one in others)


def _read(motion: Motion, unit: str) -> Motion:
    return motion.read_as(si(unit, "angle"))
