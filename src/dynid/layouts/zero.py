"""Where the zero of logged positions is: as logged, or elsewhere where joints would leave their limits otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.units import is_multiple
from dynid.layouts.decision import Answers, Decision, Option
from dynid.layouts.physics import DECISIVE, Motion, Recording, evidence
from dynid.log.absent import hand_joints
from dynid.log.joint_limits import RangeWatch, common_shift, half_turn
from dynid.robot.model import RobotModel

OFFSET = "log.position.offset"
_NAMED = 3  # joints whose readings are told
_LEAST_COUNT = 100  # less is a reading in no counts of a turn


def answered_offsets(joints: Sequence[str], answers: Answers) -> dict[str, float]:
    """What is added to the positions of each joint, in their unit, as the user says; {} without an answer.

    joints: with a position.    Raises UsageError for an answer that is neither one number nor one each.
    """
    if OFFSET not in answers:
        return {}
    try:
        values = [float(one) for one in answers[OFFSET].replace(",", " ").split()]
    except ValueError:
        values = []
    if len(values) not in (1, len(joints)) or not np.isfinite(values).all():
        raise UsageError(
            "unknown-answer",
            found=f"{OFFSET} = {answers[OFFSET]}",
            expected="one number for all joints"
            + (f", or {len(joints)} from base to tip, with commas" if len(joints) > 1 else ""),
        )
    return dict(zip(joints, values * len(joints) if len(values) == 1 else values, strict=True))


def moved_by(recording: Recording, robot: RobotModel, offsets: dict[str, float]) -> Recording:
    """The recording with positions that count from the description's zero."""
    if not offsets:
        return recording
    return replace(recording, q=recording.q + [offsets.get(joint, 0.0) for joint in robot.joint_names])


def from_another_zero(robot: RobotModel, joints: Sequence[str], recording: Recording, scale: float) -> Bool:
    """Joints (n,) that lie outside of their limits throughout, and would lie inside about another zero.

    joints: with a position.    scale: of the positions' unit, to rad or m.
    """
    if not np.isfinite(scale):
        return np.zeros(robot.n, dtype=np.bool_)
    watch, q = RangeWatch(robot), scale * recording.q
    for start, end in recording.runs:
        watch.see(q[start:end])
        watch.end()
    with np.errstate(invalid="ignore"):
        found = watch.displaced(*_ends(q))
    return np.asarray(found & np.isin(robot.joint_names, list(joints)))


def decide_offset(
    robot: RobotModel,
    joints: Sequence[str],
    recording: Recording,
    scale: float | Float,
    unit: str,
    answers: Answers,
) -> Decision | None:
    """What is added to the positions, in their unit; None = nothing speaks for another zero than the log's.

    joints: with a position, those with limits all within them about the zero that is offered.    recording: with an
    answer applied.
    """
    if OFFSET in answers:
        answered_offsets(joints, answers)
        return Decision(OFFSET, answers[OFFSET], ("as you say",), optional=True)
    if not isinstance(scale, float):
        return None  # percents of calibrated ranges have their zero from the calibration
    outside = from_another_zero(robot, joints, recording, scale)
    if not outside.any():
        return None
    low, high = _ends(scale * recording.q)
    hands = hand_joints(robot)
    needed = [
        j
        for j, joint in enumerate(robot.joint_names)
        if joint in joints and (outside[j] or joint not in hands)
    ]
    if len({robot.prismatic[j] for j in needed}) > 1:
        return None
    least, most = common_shift(robot, low, high, needed)
    if least > most:
        return None
    options = tuple(
        Option(f"{-zero:g}", f"{zero:g} is zero, {words}: every joint lies within its limits")
        for zero, words in _usual(robot, needed, recording.q, scale, least, most)
    )
    names = [robot.joint_names[j] for j in np.flatnonzero(outside)]
    said = [
        f"{robot.joint_names[j]} from {low[j]:.3g} to {high[j]:.3g} {'m' if robot.prismatic[j] else 'rad'}, limits "
        f"{robot.limits.lower[j]:.3g} to {robot.limits.upper[j]:.3g}"
        for j in np.flatnonzero(outside)[:_NAMED]
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    why = (
        f"as logged, joints lie outside of their limits throughout: {'; '.join(said)}{more}",
        f"with {least / scale:.6g} to {most / scale:.6g} added every joint lies within",
    )
    question = (
        f"what is to be added to the positions, in {unit}, to count from the description's zero (one number for all "
        "joints, or one each from base to tip, with commas)?"
    )
    as_logged = Option("0", "as logged, where the limits of the description are wrong")
    return Decision(OFFSET, None, why, question, (*options, as_logged) if options else ())


def decide_counters_zero(
    robot: RobotModel,
    joints: Sequence[str],
    recording: Recording,
    scale: float,
    unit: str,
    motion: Motion | None,
) -> Decision | None:
    """Zero of counts that never fall below 0, which a counter's range has in its middle; None = it is as logged.

    A rigid arm, or the description's masses, tell it by the torque. scale: of the unit, rad.    motion: as logged.
    """
    places = [robot.joint_names.index(one) for one in joints]
    middle = _middle(recording.q[:, places])
    if motion is None or middle is None or not is_multiple(unit) or any(robot.prismatic[j] for j in places):
        return None
    here = motion.read_as(scale)
    advantage = evidence(robot, replace(here, q=here.q - middle * scale), here)
    if advantage is not None and abs(advantage[0]) > DECISIVE:
        why = f"{advantage[1]} with {middle:g} as zero, the middle of a counter's range"
        return Decision(OFFSET, f"{-middle:g}", (why,), likely=True) if advantage[0] > 0 else None
    why = "the counts never fall below 0, and the torque does not decide about their zero"
    question = (
        f"what is to be added to the positions, in {unit}, to count from the description's zero (one number for all "
        "joints, or one each from base to tip, with commas)?"
    )
    options = (
        Option(f"{-middle:g}", f"{middle:g} is zero, the middle of a counter's range"),
        Option("0", "as logged"),
    )
    return Decision(OFFSET, None, (why,), question, options)


def _middle(read: Float) -> float | None:
    """The middle of a counter's range whose counts these are; None = they are no counts that never fall below 0."""
    read = read[np.isfinite(read)]
    if not len(read) or not ((read >= 0) & (read == np.round(read))).all() or read.max() < _LEAST_COUNT:
        return None
    return float(0.5 * 2.0 ** np.ceil(np.log2(read.max() + 1.0)))


def _ends(q: Float) -> tuple[Float, Float]:
    return np.fmin.reduce(q, axis=0), np.fmax.reduce(q, axis=0)


def _usual(
    robot: RobotModel, joints: Sequence[int], q: Float, scale: float, least: float, most: float
) -> list[tuple[float, str]]:
    """Readings where drives have their zero, that would do: half a turn, and the middle of a counter's range."""
    found: dict[float, str] = {}
    half = None if robot.prismatic[joints[0]] else half_turn(least, most)
    if half is not None:
        found[-round(half / scale, 9)] = "half a turn"
    middle = _middle(q[:, list(joints)])
    if middle is not None and least <= -middle * scale <= most:
        found.setdefault(middle, "the middle of a counter's range")
    return list(found.items())
