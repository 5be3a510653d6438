"""Torque or current, in which unit, on which side, and what a current is worth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import NOWHERE, InputError, UsageError
from dynid.base.records import dataclass
from dynid.base.units import factor
from dynid.layouts.meaning import Meaning
from dynid.layouts.physics import EXPLAINS, Motion, contradicted_link, description_scale, weight_share
from dynid.layouts.presets import UNKNOWN, ConstantsEntry, Preset, matches_word
from dynid.layouts.proposal import AS_YOU_SAY, Answers, Decision, Option, decided
from dynid.log.joints import hand_joints
from dynid.log.mapping import RATED, is_rated
from dynid.log.prior_check import size_advice
from dynid.robot.mjcf import actuator_gains
from dynid.robot.model import RobotModel

UNIT, SIDE, GAINS = "log.effort.unit", "log.effort.side", "robot.drive_gain"
RATED_TORQUE = "log.effort.rated_torque"
SIGN, TURNED = "log.effort.sign", "-1"
RAW = "raw"
_OTHERS = (
    Option("A", "current"),
    Option("mA", "current in thousandths"),
    Option("% of rated torque", "percent of the motors' rated torque or current"),
    Option("permille of rated torque", "thousandths of it, as CiA 402 drives count"),
    Option(RAW, "counts"),
)
_OF_TURNS = (
    Option("N m", "torque"),
    Option("mN m", "torque in thousandths"),
    Option("N cm", "torque in hundredths"),
    Option("kN m", "torque in thousands"),
    *_OTHERS,
)
_OF_SLIDES = (Option("N", "force"), Option("kN", "force in thousands"), *_OTHERS)
# Units that nothing but the effort's size has to say. A thousandth of the torque may also be that of motors before
# their gears: thousands are asked for.
_BY_SIZE_OF_TURNS, _BY_SIZE_OF_SLIDES = ("N m", "mN m"), ("N",)
CURRENTS = {"A": 1.0, "mA": 1e-3}
# Masses of a description are right to a factor of two; units differ by more.
NEAR = 2.0
# A unit that is sure by its source is doubted beyond this factor.
FAR = 4.0
# Joints whose torque in the description is less than this share of the largest say little.
LEAST = 0.02
# Within the effort limits, and not a hundredth of them.
LOWEST_USE, HIGHEST_USE = 0.01, 1.3


@dataclass(frozen=True)
class Effort:
    """What was decided.    sign, gains: None = not asked, or known to the description already."""

    unit: Decision
    side: Decision
    sign: Decision | None
    gains: Decision | None
    values: Mapping[str, float]
    source: str
    rated: Decision | None = None
    rated_torque: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scale:
    """The logged effort per N m of the description.

    middle: over the informative joints, by their torque.    joints: how many they are.    negative: those of them on
    which the effort falls where the torque rises.    weights: of all joints, (n,).
    left_out: link without which the description explains the torque decisively better.
    """

    middle: float
    joints: int
    slopes: Float
    informative: tuple[bool, ...]
    negative: tuple[str, ...]
    weights: Float
    left_out: str = ""

    @property
    def without(self) -> str:
        """Words for the link that was left out."""
        return f" without link '{self.left_out}', which the torque contradicts" if self.left_out else ""

    def share(self, sizes: Float) -> float:
        """The effort over the robot file's torque where one of the log is `sizes` (n,) N m at the joints."""
        return float(self.weights @ (np.abs(self.slopes) * sizes))

    def turned(self, by_answer: bool) -> Scale:
        """The same with the sign of the effort settled.    by_answer: whether it is the other one."""
        return replace(self, slopes=-self.slopes if by_answer else self.slopes, negative=())


def torque_size(unit: str) -> float | None:
    """Newton metres of a unit of torque, newtons of one of force; None for another one."""
    try:
        return factor(unit, ("torque", "force"), NOWHERE)[1]
    except InputError:
        return None


def sizes_of(unit: str | None, rated: Sequence[float] = ()) -> tuple[str, Float] | None:
    """Quantity and SI sizes of the units of an effort, one or one a joint; None for another one, and for none.

    rated: N m that are 100 %, of each joint; shares of unknown ones have the size nan.
    """
    if is_rated(unit):
        return "torque", RATED[str(unit)] * np.array(rated or [np.nan])
    try:
        pairs = [
            factor(one.strip(), ("torque", "force", "current"), NOWHERE) for one in (unit or "").split(",")
        ]
    except InputError:
        return None
    kinds = {"current" if quantity == "current" else "torque" for quantity, _ in pairs}
    return (kinds.pop(), np.array([size for _, size in pairs])) if len(kinds) == 1 else None


def _is_torque(unit: str | None) -> bool:
    sizes = sizes_of(unit)
    return sizes is not None and sizes[0] == "torque"


def _units(robot: RobotModel) -> tuple[Option, ...]:
    return _OF_SLIDES if all(robot.prismatic) else _OF_TURNS


def _torques(robot: RobotModel) -> dict[str, float]:
    """Units of torque, of force where all joints slide, in SI."""
    sizes = {one.value: torque_size(one.value) for one in _units(robot)}
    return {unit: size for unit, size in sizes.items() if size is not None}


def load_of(robot: RobotModel) -> str:
    """What joints take: force where all of them slide."""
    return "force" if all(robot.prismatic) else "torque"


def force_unit(robot: RobotModel, motion: Motion, said: Meaning) -> float | None:
    """Newtons of the effort's unit, of a robot whose joints all slide; None where nothing says it.

    Its name says it; or it is called no current, and the weight that is carried says that it is in N.
    """
    if said.doubt or said.actuator is not None or said.quantity not in ("torque", "effort"):
        return None
    size = _torques(robot).get(said.unit)
    if size is not None:
        return size
    lifted = weight_share(robot, motion) if said.unit == UNKNOWN else None
    return 1.0 if lifted is not None and 1 / NEAR < lifted < NEAR else None


def scale_of(robot: RobotModel, motion: Motion | None) -> Scale | None:
    """How the logged effort compares with the torque of the description; None where nothing can be said."""
    found = None if motion is None or motion.tau is None else description_scale(robot, motion)
    if motion is None or found is None:
        return None
    link = contradicted_link(robot, motion, found)
    if link is not None:
        found = link[1]
    slope, share, size = found
    informative = (share > EXPLAINS) & (size > LEAST * size.max())
    if not informative.any():
        return None
    negative = tuple(j for j, s, t in zip(robot.joint_names, slope, informative, strict=True) if t and s < 0)
    # Joints with much torque say most: small ones carry what the description forgets.
    weights = np.where(informative, size**2, 0.0)
    weights /= weights.sum()
    middle = float(weights @ np.abs(slope))
    known = tuple(bool(one) for one in informative)
    left_out = "" if link is None else robot.body_names[link[0]]
    return Scale(middle, int(informative.sum()), slope, known, negative, weights, left_out)


def decide_effort(
    robot: RobotModel,
    said: Meaning,
    motion: Motion | None,
    known: Sequence[Preset],
    answers: Answers,
    joints: Sequence[str],
) -> Effort:
    """Unit and side of the effort, and the gains of currents.    joints: with an effort, in the robot's order."""
    scale = scale_of(robot, motion)
    sign = _sign(robot, scale, asked=SIGN not in answers)
    if sign is not None:
        sign = decided(sign, answers)
        scale = None if scale is None else scale.turned(sign.value == TURNED)
    actuator = said.actuator or _actuator(robot, said, scale)
    if is_rated(said.unit) and (GAINS in answers or knows_gains(robot)):
        said = replace(said, unit=RAW)
    unit = _of_actuators(robot, said, actuator, scale) or _unit(robot, said, motion, scale, known)
    unit = _unit_by_joint(joints, answers) or decided(unit, answers)
    numbers = [robot.joint_names.index(joint) for joint in joints]
    rated = _answered_torques(robot, joints, answers) if is_rated(unit.value) else {}
    sizes = np.ones(robot.n)
    if (known_sizes := sizes_of(unit.value, [rated[joint] for joint in joints] if rated else ())) is not None:
        sizes[numbers] = known_sizes[1]
    side = decided(_side(robot, said, unit, scale, sizes), answers)
    rated_decision = _rated(robot, unit, side, scale, rated, answers, joints)
    gains, values, source = _gains(
        robot, actuator if unit.value == RAW else None, unit, scale, known, answers, joints, sizes
    )
    return Effort(unit, side, sign, gains, values, source, rated_decision, rated)


def _unit_by_joint(joints: Sequence[str], answers: Answers) -> Decision | None:
    """Units of torque, or of current, that are answered one a joint: 0.0127 N m,0.0064 N m; None = they are not."""
    answer = answers.get(UNIT, "")
    if "," not in answer:
        return None
    if len(answer.split(",")) != len(joints) or sizes_of(answer) is None:
        raise UsageError(
            "unknown-answer",
            found=f"{UNIT} = {answer}",
            expected=f"one unit, or {len(joints)} from base to tip with commas ({', '.join(joints)}), all of torque or "
            "all of current",
        )
    return Decision(UNIT, answer, (AS_YOU_SAY,))


def _answered_torques(robot: RobotModel, joints: Sequence[str], answers: Answers) -> dict[str, float]:
    """The torque that is 100 %, by joint, as the user says; {} without an answer."""
    if RATED_TORQUE not in answers:
        return {}
    for those in (joints, robot.joint_names):
        for count in (len(those), 1):
            values = _numbers(answers[RATED_TORQUE], count)
            if values is not None and min(values) > 0:
                return dict(zip(those, values * (len(those) // count), strict=True))
    raise UsageError(
        "unknown-answer",
        found=f"{RATED_TORQUE} = {answers[RATED_TORQUE]}",
        expected=f"one number above 0, or {len(joints)} from base to tip, with commas ({', '.join(joints)})",
    )


def _rated(
    robot: RobotModel,
    unit: Decision,
    side: Decision,
    scale: Scale | None,
    answered: Mapping[str, float],
    answers: Answers,
    joints: Sequence[str],
) -> Decision | None:
    """What is 100 % of an effort in shares of a rated torque; None for another effort."""
    if not is_rated(unit.value):
        return None
    ratios = np.abs(robot.drive.own_ratio) if side.value == "motor" else np.ones(robot.n)
    share = RATED[str(unit.value)]
    if answered:
        said = AS_YOU_SAY
        if scale is not None:
            torques = np.array([answered.get(joint, 0.0) for joint in robot.joint_names])
            said += (
                f"; with it the effort is {scale.share(share * torques * ratios):.3g} times the robot file's "
            )
            said += load_of(robot)
        return Decision(RATED_TORQUE, answers[RATED_TORQUE], (said,))
    why: tuple[str, ...] = (f"the log counts {unit.value}, and nothing says how many N m are 100 %",)
    informative = [j for j in range(robot.n) if scale is not None and scale.informative[j]]
    if scale is not None and (side.value != "motor" or not _without_gears(robot)):
        guesses = 1.0 / (np.abs(scale.slopes[informative]) * share * ratios[informative])
        pairs = zip([robot.joint_names[j] for j in informative], guesses, strict=True)
        listed = ", ".join(f"{joint} {guess:.3g}" for joint, guess in pairs)
        why = (*why, f"if the masses of the description were right it would be {listed}")
    what = "its motor" if side.value == "motor" else "the joint"
    count = f"{len(joints)} numbers from base to tip, with commas" if len(joints) > 1 else "one number"
    count += f" ({', '.join(joints)})" if 1 < len(joints) < robot.n else ""
    where = "its rated torque on the data sheet; object 0x6076 of a CiA 402 drive"
    question = f"how many N m of {what} are 100 % ({where})? {count}"
    return Decision(RATED_TORQUE, None, why, question)


def _sign(robot: RobotModel, scale: Scale | None, asked: bool) -> Decision | None:
    """Whether all efforts are of the other sign, where several joints say so and none says otherwise; None = no.

    asked: False where it is answered, whatever the joints say.
    """
    load = load_of(robot)
    seen = scale is not None and scale.joints >= 2 and len(scale.negative) == scale.joints
    if asked and not seen:
        return None
    negative = ", ".join(scale.negative) if scale is not None else ""
    why = f"the effort of {negative} falls where the robot file's {load} rises, and no effort rises"
    return Decision(
        SIGN,
        None,
        (why,),
        f"is the effort what the drives give (1), or of the other sign (-1), as the {load} on a sensor may be?",
        (
            Option(TURNED, "of the other sign"),
            Option("1", f"as the drives give it; the {load} opposes gravity then"),
        ),
    )


def _unit(
    robot: RobotModel, said: Meaning, motion: Motion | None, scale: Scale | None, known: Sequence[Preset]
) -> Decision:
    question, units, torques = "in which unit is the effort?", _units(robot), _torques(robot)
    stated = not said.doubt and (said.unit in torques or said.unit in CURRENTS)
    if scale is not None and scale.negative and not stated:
        joints = ", ".join(scale.negative)
        why = (
            f"the effort of {joints} falls where the robot file's {load_of(robot)} rises: a sign is turned, or it is "
            "no effort",
        )
        return Decision(UNIT, None, why, question, units)
    who = "its name" if said.said_by == "name" else said.said_by
    compared = (
        None
        if scale is None
        else f"{scale.middle:.3g} times the robot file's {load_of(robot)} on {scale.joints} joint(s){scale.without}"
    )
    if said.unit in torques and stated:
        share = None if scale is None else scale.middle * torques[said.unit]
        ratios = np.abs(robot.drive.gear_ratio)
        if share is None or 1 / FAR < share < FAR or 1 / FAR < share * float(np.median(ratios)) < FAR:
            return Decision(
                UNIT, said.unit, (who, *([f"it is {compared}"] if compared else [])), options=units
            )
        return Decision(UNIT, None, (f"{who} says {said.unit}, but it is {compared}",), question, units)
    if stated:
        return Decision(UNIT, said.unit, (who,), options=units)
    if is_rated(said.unit) and not said.doubt:
        return Decision(
            UNIT, said.unit, (f"{who} says a share, of the rated torque",), options=units, likely=True
        )
    if said.doubt or said.quantity in ("torque", "effort"):
        return _torque_or_not(robot, said, motion, scale, compared, question)
    if said.quantity == "current":
        return _current(robot, scale, known, compared, question)
    if said.unit == RAW and not said.doubt:
        return Decision(UNIT, RAW, (who,), options=units)
    return Decision(UNIT, None, ("its name does not say it",), question, units)


def _torque_or_not(
    robot: RobotModel,
    said: Meaning,
    motion: Motion | None,
    scale: Scale | None,
    compared: str | None,
    question: str,
) -> Decision:
    doubt, units = f"{said.doubt}; " if said.doubt else "", _units(robot)
    by_size = _BY_SIZE_OF_SLIDES if all(robot.prismatic) else _BY_SIZE_OF_TURNS
    if scale is not None and compared is not None:
        for unit in by_size:
            if 1 / NEAR < scale.middle * _torques(robot)[unit] < NEAR:
                return Decision(UNIT, unit, (f"{doubt}it is {compared}: {unit}",), options=units)
        for unit in by_size:
            at_joints = scale.share(_torques(robot)[unit] * np.abs(robot.drive.own_ratio))
            if 1 / NEAR < at_joints < NEAR:
                size = f"{at_joints:.3g} times the robot file's {load_of(robot)}"
                reason = f"{doubt}in {unit} of the motors it is {size}"
                return Decision(UNIT, unit, (reason,), options=units, likely=True)
        if said.unit in CURRENTS and scale.middle * CURRENTS[said.unit] < 1 / NEAR:
            reason = f"{doubt}it is {compared}: too little for {by_size[0]}, as {said.unit} is"
            return Decision(UNIT, said.unit, (reason,), options=units)
        why = f"{doubt}it is {compared}, too far off for {by_size[0]} at the joints"
        advice = size_advice(scale.middle, all(robot.prismatic))
        return Decision(UNIT, None, (why, advice) if advice else (why,), question, units)
    limits = robot.limits.effort
    if (
        said.quantity == "torque"
        and not said.doubt
        and motion is not None
        and motion.tau is not None
        and np.isfinite(limits).all()
    ):
        used = np.abs(motion.tau).max(axis=0) / limits
        if LOWEST_USE < used.max() < HIGHEST_USE:
            share = f"{100 * used.max():.0f} %"
            reason = (
                f"called torque, and takes up to {share} of the robot file's effort limits in {by_size[0]}"
            )
            return Decision(UNIT, by_size[0], (reason,), options=units)
    why = f"{doubt}the description knows no masses that the effort could be compared with"
    described = None if motion is None or motion.tau is None else description_scale(robot, motion)
    if described is not None:
        most = int(np.argmax(described[1]))
        why = (
            f"{doubt}the robot file's masses explain too little of it to compare sizes, "
            f"{100 * described[1][most]:.0f} % of '{robot.joint_names[most]}' at most"
        )
    if motion is None:
        why = f"{doubt}it may follow from the robot file's masses once time, positions and their order are known"
    return Decision(UNIT, None, (why,), question, units)


def _current(
    robot: RobotModel, scale: Scale | None, known: Sequence[Preset], compared: str | None, question: str
) -> Decision:
    gains, whose = _known_gains(robot), "the robot file's drives"
    if gains is None and (found := preset_gains(robot, known)) is not None:
        gains, whose = np.array(found[2]), f"the drives of {found[0].title}"
    if scale is not None and gains is not None:
        worth = float(np.median(np.abs(gains)[list(scale.informative)]))
        for unit, size in CURRENTS.items():
            share = scale.middle * size * worth
            if 1 / NEAR < share < NEAR:
                said = f"in {unit}, with {whose}, it is {share:.3g} times the robot file's {load_of(robot)}"
                return Decision(UNIT, unit, (said,), options=_units(robot))
    why = "called a current; A, mA and percent of the greatest one are all usual"
    return Decision(UNIT, None, (why + (f"; it is {compared}" if compared else ""),), question, _units(robot))


def preset_gains(
    robot: RobotModel, known: Sequence[Preset]
) -> tuple[Preset, ConstantsEntry, list[float]] | None:
    """N m per ampere of this robot from a preset."""
    for preset in known:
        for entry in preset.constants:
            named = any(matches_word(word, robot.name) for word in entry.robots)
            if named and (gains := _of(entry, robot.n)):
                return preset, entry, gains
    return None


def knows_gains(robot: RobotModel) -> bool:
    """Whether the description says what currents are worth at the joints."""
    return _known_gains(robot) is not None


def _known_gains(robot: RobotModel) -> Float | None:
    drive = robot.drive
    if np.isfinite(drive.drive_gain).all():
        return drive.drive_gain
    constants = drive.torque_constant * drive.gear_ratio
    return constants if np.isfinite(constants).all() else None


def _side(robot: RobotModel, said: Meaning, unit: Decision, scale: Scale | None, sizes: Float) -> Decision:
    options = (Option("link", "at the joints"), Option("motor", "before the gears"))
    if not _is_torque(unit.value):
        return Decision(SIDE, None, optional=True)
    ratios = np.abs(robot.drive.own_ratio)
    if said.side is not None:
        return Decision(SIDE, said.side, (said.said_by,), options=options, optional=True)
    if is_rated(unit.value) and not (scale is not None and np.isfinite(scale.share(sizes))):
        why = ("drives count shares of what their motors are rated for",)
        return Decision(SIDE, "motor", why, options=options, optional=True, likely=True)
    if _without_gears(robot) and not is_rated(unit.value):
        return Decision(
            SIDE, None, ("the description knows no gears: at the joints",), options=options, optional=True
        )
    if scale is not None:
        here, there = scale.share(sizes), scale.share(sizes * ratios)
        near = [side for side, value in (("link", here), ("motor", there)) if 1 / NEAR < value < NEAR]
        if len(near) == 1:
            return Decision(
                SIDE,
                near[0],
                (
                    f"there it is {here if near[0] == 'link' else there:.3g} times the robot file's {load_of(robot)}",
                ),
                options=options,
                optional=True,
            )
    if is_rated(unit.value):
        why = ("drives count shares of what their motors are rated for",)
        return Decision(SIDE, "motor", why, options=options, optional=True, likely=True)
    load = load_of(robot)
    why = (f"the description has gears, and nothing says on which side the {load} is",)
    return Decision(
        SIDE, None, why, f"is the {load} that of the joints (link) or of the motors (motor)?", options
    )


def _actuator(robot: RobotModel, said: Meaning, scale: Scale | None) -> str | None:
    """What an effort is of the robot file's actuators, "force" or "input", where their gears make it its torque.

    None where it is that torque already, or a gear does not make it so on every joint that says something.
    """
    if scale is None or said.quantity not in ("torque", "effort") or said.unit in _torques(robot) | CURRENTS:
        return None
    known, slopes = np.array(scale.informative), scale.slopes
    if _near(slopes[known]):
        return None
    return next(
        (kind for kind, gains in actuator_gains(robot).items() if _near((slopes * gains)[known])), None
    )


def _near(shares: Float) -> bool:
    return bool(((shares > 1 / NEAR) & (shares < NEAR)).all())


def _of_actuators(
    robot: RobotModel, said: Meaning, actuator: str | None, scale: Scale | None
) -> Decision | None:
    if actuator is None:
        return None
    words = "the input of the actuators (ctrl)" if actuator == "input" else "the force of the actuators"
    if said.actuator is not None:
        return Decision(UNIT, RAW, (said.said_by,), options=_units(robot))
    compared = (
        "" if scale is None else f"it is {scale.middle:.3g} times the robot file's {load_of(robot)}, and "
    )
    why = f"{compared}with the gears of the robot file's actuators about that {load_of(robot)}: {words}"
    return Decision(UNIT, RAW, (why,), options=_units(robot), likely=True)


def _gains_of_actuators(
    robot: RobotModel, actuator: str, joints: Sequence[str]
) -> tuple[Decision, Mapping[str, float], str] | None:
    """What inputs or forces of the robot file's actuators are worth, where each of the joints has one."""
    gains = actuator_gains(robot).get(actuator, np.full(robot.n, np.nan))
    values = {joint: float(gains[robot.joint_names.index(joint)]) for joint in joints}
    if not np.isfinite(list(values.values())).all():
        return None
    why = f"gear{' times gain' if actuator == 'input' else ''} of the robot file's actuators"
    return Decision(GAINS, _listed(list(values.values())), (why,)), values, why


def _gains(
    robot: RobotModel,
    actuator: str | None,
    unit: Decision,
    scale: Scale | None,
    known: Sequence[Preset],
    answers: Answers,
    joints: Sequence[str],
    sizes: Float,
) -> tuple[Decision | None, Mapping[str, float], str]:
    known_already = _known_gains(robot) is not None and GAINS not in answers
    if unit.value is None or _is_torque(unit.value) or known_already:
        return None, {}, ""
    if GAINS in answers:
        for those in (joints, robot.joint_names):
            if (values := _numbers(answers[GAINS], len(those))) is not None:
                given = Decision(GAINS, answers[GAINS], (AS_YOU_SAY,))
                return given, dict(zip(those, values, strict=True)), ""
    if actuator is not None and (found_there := _gains_of_actuators(robot, actuator, joints)) is not None:
        return found_there
    found = preset_gains(robot, known)
    if found is not None:
        preset, entry, gains = found
        said = f"{preset.cited(entry.source)}; right to {100 * entry.relative_uncertainty:.0f} %"
        said += f"; {entry.says}" if entry.says else ""
        if scale is not None:
            worth = np.array(gains) * sizes * np.abs(scale.slopes)
            share = float(np.median(worth[list(scale.informative)]))
            said += f"; with them the effort is {share:.3g} times the robot file's {load_of(robot)}"
        decision = Decision(GAINS, _listed(gains), (said,), likely=True)
        return decision, dict(zip(robot.joint_names, gains, strict=True)), said
    why: tuple[str, ...] = ("neither the description nor a preset knows what a unit of it is worth",)
    # Gains are those of amperes, whatever the log counts in.
    current = unit.value != RAW
    if scale is not None:
        places = [robot.joint_names.index(joint) for joint in joints]
        guess = [1 / abs(scale.slopes[j]) if scale.informative[j] else 1 / scale.middle for j in places]
        guess = [value / sizes[j] for value, j in zip(guess, places, strict=True)]
        why = (*why, f"if the masses of the description were right it would be {_listed(guess)}")
    one = "is one A" if current else "are worth 1 of it"
    newtons = "N" if all(robot.prismatic) else "N m"
    count = f"{len(joints)} numbers from base to tip, with commas" if len(joints) > 1 else "one number"
    count += (
        f" ({', '.join(joints)})"
        if 1 < len(joints) < robot.n
        else f", of {joints[0]}"
        if robot.n > 1 == len(joints)
        else ""
    )
    count += f" other than 0, and not '{answers[GAINS]}'" if GAINS in answers else ""
    question = f"how many {newtons} at the joint {one}? {count}"
    return Decision(GAINS, None, why, question), {}, ""


def _of(entry: ConstantsEntry, n: int) -> list[float] | None:
    """N m per ampere at the joints, or None where the entry is of another number of them."""
    if entry.drive_gain is not None:
        return entry.drive_gain if len(entry.drive_gain) == n else None
    if entry.torque_constant is None or entry.gear_ratio is None:
        return None
    pairs = list(zip(entry.torque_constant, entry.gear_ratio, strict=False))
    return [k * r for k, r in pairs] if len(pairs) == n else None


def _numbers(text: str, n: int) -> list[float] | None:
    try:
        values = [float(one) for one in text.replace(",", " ").split()]
    except ValueError:
        return None
    return values if len(values) == n and all(np.isfinite(values)) and all(values) else None


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


# Ratios of gears that no description says, where positions or efforts are those of the motors before them.

GEARS = "robot.gear_ratio"
_SIDES = ("log.position.side", "log.effort.side")


def decide_gears(robot: RobotModel, answers: Answers) -> tuple[RobotModel, Decision | None]:
    """The robot with the ratios that are answered, and what was decided of them; None = they are not answered.

    Raises UsageError for an answer that is neither one number other than 0 nor one a joint, those of a hand
    left out or not, or of a coupled drive.
    """
    if GEARS in answers:
        ratios = _gears_numbers(answers[GEARS])
        joints = next((some for some in _some_joints(robot) if len(some) == len(ratios)), ())
        if len(ratios) == 1:
            joints, ratios = robot.joint_names, ratios * robot.n
        if not joints:
            raise UsageError(
                "unknown-answer",
                found=f"{GEARS} = {answers[GEARS]}",
                expected=f"{_count(robot)}, other than 0",
            )
        numbers = map(robot.joint_names.index, joints)
        drive = robot.drive.with_constants(gear_ratio=dict(zip(numbers, ratios, strict=True)))
        return replace(robot, drive=drive), Decision(GEARS, answers[GEARS], (AS_YOU_SAY,))
    return robot, None


def _without_gears(robot: RobotModel) -> bool:
    return bool((np.abs(robot.drive.gear_ratio) == 1).all()) and not robot.drive.coupled


def gears_question(robot: RobotModel, answers: Answers, effort: Effort | None) -> Decision | None:
    """The question for the ratios where something is of the motors and the description knows no gears; else None."""
    sides = [answers.get(side) for side in _SIDES] + ([] if effort is None else [effort.side.value])
    if GEARS in answers or "motor" not in sides or not _without_gears(robot):
        return None
    why = "the description knows no gears between the motors and the joints"
    slides = [joint for joint, one in zip(robot.joint_names, robot.prismatic, strict=True) if one]
    per_metre = f" ({', '.join(slides)}: rad of it are 1 m)" if slides else ""
    question = (
        f"how many turns of its motor are one of the joint{per_metre}? {_count(robot)}; 1 = it has no gear"
    )
    return Decision(GEARS, None, (why,), question)


def _some_joints(robot: RobotModel) -> list[tuple[str, ...]]:
    """Joints that may have a number each: all, or those without a hand's."""
    hands = hand_joints(robot)
    arm = tuple(one for one in robot.joint_names if one not in hands)
    return [robot.joint_names, *([arm] if hands and arm else [])]


def _count(robot: RobotModel) -> str:
    if robot.n == 1:
        return "one number"
    several = " or ".join(f"{len(some)} ({', '.join(some)})" for some in _some_joints(robot))
    return f"one number for all joints, or {several} from base to tip, with commas"


def _gears_numbers(text: str) -> list[float]:
    """[] where one of them is none, or 0."""
    try:
        values = [float(one) for one in text.replace(",", " ").split()]
    except ValueError:
        return []
    return values if all(np.isfinite(values)) and all(values) else []
