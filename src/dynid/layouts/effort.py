"""Decide the quantity, unit and side of the effort, and the torque per unit of current."""

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
    Option("mA", "current in mA"),
    Option("% of rated torque", "percent of the motors' rated torque or current"),
    Option("permille of rated torque", "permille of rated torque, as in CiA 402 drives"),
    Option(RAW, "counts"),
)
_OF_TURNS = (
    Option("N m", "torque"),
    Option("mN m", "torque in mN m"),
    Option("N cm", "torque in N cm"),
    Option("kN m", "torque in kN m"),
    *_OTHERS,
)
_OF_SLIDES = (Option("N", "force"), Option("kN", "force in kN"), *_OTHERS)
# Units that may be selected by the size of the effort alone. Larger units are asked for, because a torque a
# thousand times too small may also be a motor torque before the gears.
_BY_SIZE_OF_TURNS, _BY_SIZE_OF_SLIDES = ("N m", "mN m"), ("N",)
CURRENTS = {"A": 1.0, "mA": 1e-3}
# Masses in a model file are right to a factor of two; units differ by more.
NEAR = 2.0
# Factor beyond which even a documented unit is doubted.
FAR = 4.0
# Minimum predicted torque of a joint, relative to the largest one, for the joint to count.
LEAST = 0.02
# Plausible ratios of maximum effort to effort limit.
LOWEST_USE, HIGHEST_USE = 0.01, 1.3


@dataclass(frozen=True)
class Effort:
    """Decisions on the effort; `sign` and `gains` are None if they are not needed or the model file has them."""

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
    """Ratio of the logged effort to the torque predicted from the model file.

    Attributes
    ----------
    middle : float
        Mean ratio of the informative joints, weighted by torque.
    joints : int
        Number of informative joints.
    slopes : (n,) array
        Ratio of each joint.
    informative : tuple of bool
        Whether the predicted torque of a joint is large enough and explains its effort.
    negative : tuple of str
        Informative joints with a negative ratio.
    weights : (n,) array
        Weights of the mean.
    left_out : str
        Link without which the model file explains the torque decisively better.

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
        """Message about the link that was left out."""
        return f" without link '{self.left_out}', which the torque contradicts" if self.left_out else ""

    def share(self, sizes: Float) -> float:
        """Ratio of effort to predicted torque if one unit of the log is `sizes` (n,) N m at the joints."""
        return float(self.weights @ (np.abs(self.slopes) * sizes))

    def turned(self, by_answer: bool) -> Scale:
        """The same scale with its sign decided; `by_answer` states whether it is inverted."""
        return replace(self, slopes=-self.slopes if by_answer else self.slopes, negative=())


def torque_size(unit: str) -> float | None:
    """Factor of a unit of torque to N m, or of force to N; None for other units."""
    try:
        return factor(unit, ("torque", "force"), NOWHERE)[1]
    except InputError:
        return None


def sizes_of(unit: str | None, rated: Sequence[float] = ()) -> tuple[str, Float] | None:
    """Quantity and SI factors of one unit, or of comma-separated units per joint; None if there is no valid unit.

    Parameters
    ----------
    unit : str or None
        Unit of the positions.
    rated : sequence of float
        Rated torque of each joint, N m; a percentage of an unknown torque has the factor nan.

    """
    if is_rated(unit):
        return "torque", RATED[str(unit)] * np.array(rated or [np.nan])
    try:
        pairs = [
            factor(text.strip(), ("torque", "force", "current"), NOWHERE) for text in (unit or "").split(",")
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
    """Factors to SI of the units of torque, or of force if all joints are prismatic."""
    sizes = {option.value: torque_size(option.value) for option in _units(robot)}
    return {unit: size for unit, size in sizes.items() if size is not None}


def load_of(robot: RobotModel) -> str:
    """Whether the joints' load is a "force" (all joints prismatic) or a "torque"."""
    return "force" if all(robot.prismatic) else "torque"


def force_unit(robot: RobotModel, motion: Motion, meaning: Meaning) -> float | None:
    """Factor of the effort's unit to N for a robot with prismatic joints only; None if unknown.

    The factor follows from the name, or, if the name does not exclude a force, from an effort that matches
    the carried weight in N.
    """
    if meaning.doubt or meaning.actuator is not None or meaning.quantity not in ("torque", "effort"):
        return None
    size = _torques(robot).get(meaning.unit)
    if size is not None:
        return size
    lifted = weight_share(robot, motion) if meaning.unit == UNKNOWN else None
    return 1.0 if lifted is not None and 1 / NEAR < lifted < NEAR else None


def scale_of(robot: RobotModel, motion: Motion | None) -> Scale | None:
    """Compare the logged effort with the torque predicted from the model file; None if no joint is informative."""
    comparison = None if motion is None or motion.tau is None else description_scale(robot, motion)
    if motion is None or comparison is None:
        return None
    link = contradicted_link(robot, motion, comparison)
    if link is not None:
        comparison = link[1]
    slope, share, size = comparison
    informative = (share > EXPLAINS) & (size > LEAST * size.max())
    if not informative.any():
        return None
    negative = tuple(j for j, s, t in zip(robot.joint_names, slope, informative, strict=True) if t and s < 0)
    # Joints with a large torque count most, because small torques often come from parts that the model file
    # lacks.
    weights = np.where(informative, size**2, 0.0)
    weights /= weights.sum()
    middle = float(weights @ np.abs(slope))
    known = tuple(bool(flag) for flag in informative)
    left_out = "" if link is None else robot.body_names[link[0]]
    return Scale(middle, int(informative.sum()), slope, known, negative, weights, left_out)


def decide_effort(
    robot: RobotModel,
    meaning: Meaning,
    motion: Motion | None,
    known: Sequence[Preset],
    answers: Answers,
    joints: Sequence[str],
) -> Effort:
    """Decide the unit, side and sign of the effort, and the gains of currents.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    meaning : Meaning
        Signal and unit according to the column names.
    motion : Motion or None
        Filtered motion.
    known : sequence of Preset
        Presets that match the log.
    answers : Answers
        User answers by key.
    joints : sequence of str
        Joints that have an effort, in the robot's order.

    """
    scale = scale_of(robot, motion)
    sign = _sign(robot, scale, asked=SIGN not in answers)
    if sign is not None:
        sign = decided(sign, answers)
        scale = None if scale is None else scale.turned(sign.value == TURNED)
    actuator = meaning.actuator or _actuator(robot, meaning, scale)
    if is_rated(meaning.unit) and (GAINS in answers or knows_gains(robot)):
        meaning = replace(meaning, unit=RAW)
    unit = _of_actuators(robot, meaning, actuator, scale) or _unit(robot, meaning, motion, scale, known)
    unit = _unit_by_joint(joints, answers) or decided(unit, answers)
    numbers = [robot.joint_names.index(joint) for joint in joints]
    rated = _answered_torques(robot, joints, answers) if is_rated(unit.value) else {}
    sizes = np.ones(robot.n)
    if (known_sizes := sizes_of(unit.value, [rated[joint] for joint in joints] if rated else ())) is not None:
        sizes[numbers] = known_sizes[1]
    side = decided(_side(robot, meaning, unit, scale, sizes), answers)
    rated_decision = _rated(robot, unit, side, scale, rated, answers, joints)
    gains, values, source = _gains(
        robot, actuator if unit.value == RAW else None, unit, scale, known, answers, joints, sizes
    )
    return Effort(unit, side, sign, gains, values, source, rated_decision, rated)


def _unit_by_joint(joints: Sequence[str], answers: Answers) -> Decision | None:
    """Units of torque or of current answered per joint, such as 0.0127 N m,0.0064 N m; None for other answers."""
    answer = answers.get(UNIT, "")
    if "," not in answer:
        return None
    if len(answer.split(",")) != len(joints) or sizes_of(answer) is None:
        raise UsageError(
            "unknown-answer",
            found=f"{UNIT} = {answer}",
            expected=f"one unit, or {len(joints)} from base to tip separated by commas ({', '.join(joints)}), "
            "all of torque or all of current",
        )
    return Decision(UNIT, answer, (AS_YOU_SAY,))


def _answered_torques(robot: RobotModel, joints: Sequence[str], answers: Answers) -> dict[str, float]:
    """Answered torque per joint that corresponds to 100 %; empty without an answer."""
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
        expected=f"one positive number, or {len(joints)} from base to tip separated by commas ({', '.join(joints)})",
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
    """Decide the torque of 100 % for an effort in shares of the rated torque; None for other efforts."""
    if not is_rated(unit.value):
        return None
    ratios = np.abs(robot.drive.own_ratio) if side.value == "motor" else np.ones(robot.n)
    share = RATED[str(unit.value)]
    if answered:
        text = AS_YOU_SAY
        if scale is not None:
            torques = np.array([answered.get(joint, 0.0) for joint in robot.joint_names])
            text += (
                f"; with it, the effort is {scale.share(share * torques * ratios):.3g} times the "
                "model file's "
            )
            text += load_of(robot)
        return Decision(RATED_TORQUE, answers[RATED_TORQUE], (text,))
    why: tuple[str, ...] = (f"the log is in {unit.value}, and the torque of 100 % in N m is not known",)
    informative = [j for j in range(robot.n) if scale is not None and scale.informative[j]]
    if scale is not None and (side.value != "motor" or not _without_gears(robot)):
        guesses = 1.0 / (np.abs(scale.slopes[informative]) * share * ratios[informative])
        pairs = zip([robot.joint_names[j] for j in informative], guesses, strict=True)
        listed = ", ".join(f"{joint} {guess:.3g}" for joint, guess in pairs)
        why = (*why, f"with the masses of the model file, it would be {listed}")
    loaded = "its motor" if side.value == "motor" else "the joint"
    count = (
        f"{len(joints)} numbers from base to tip, separated by commas" if len(joints) > 1 else "one number"
    )
    count += f" ({', '.join(joints)})" if 1 < len(joints) < robot.n else ""
    where = "the rated torque on the data sheet; object 0x6076 of a CiA 402 drive"
    question = f"how many N m of {loaded} correspond to 100 % ({where})? {count}"
    return Decision(RATED_TORQUE, None, why, question)


def _sign(robot: RobotModel, scale: Scale | None, asked: bool) -> Decision | None:
    """Ask whether all efforts are inverted if several joints indicate it and none contradicts; None otherwise.

    With an answer, `asked` is False and the decision is made whatever the joints indicate.
    """
    load = load_of(robot)
    seen = scale is not None and scale.joints >= 2 and len(scale.negative) == scale.joints
    if asked and not seen:
        return None
    negative = ", ".join(scale.negative) if scale is not None else ""
    why = (
        f"the effort of {negative} decreases while the {load} predicted from the model file "
        "increases, and no joint contradicts this"
    )
    return Decision(
        SIGN,
        None,
        (why,),
        f"does the effort have the sign of the drives' {load} (1), or is it inverted (-1), as "
        f"the {load} of a sensor may be?",
        (
            Option(TURNED, "inverted"),
            Option("1", f"as from the drives; then the {load} opposes gravity"),
        ),
    )


def _unit(
    robot: RobotModel, meaning: Meaning, motion: Motion | None, scale: Scale | None, known: Sequence[Preset]
) -> Decision:
    question, units, torques = "which unit does the effort have?", _units(robot), _torques(robot)
    stated = not meaning.doubt and (meaning.unit in torques or meaning.unit in CURRENTS)
    if scale is not None and scale.negative and not stated:
        joints = ", ".join(scale.negative)
        why = (
            f"the effort of {joints} decreases while the {load_of(robot)} predicted from the "
            "model file increases: its sign is inverted, or it is not an effort",
        )
        return Decision(UNIT, None, why, question, units)
    who = "its name" if meaning.said_by == "name" else meaning.said_by
    compared = (
        None
        if scale is None
        else (
            f"{scale.middle:.3g} times the {load_of(robot)} predicted from the model file on "
            f"{scale.joints} joint(s){scale.without}"
        )
    )
    if meaning.unit in torques and stated:
        share = None if scale is None else scale.middle * torques[meaning.unit]
        ratios = np.abs(robot.drive.gear_ratio)
        if share is None or 1 / FAR < share < FAR or 1 / FAR < share * float(np.median(ratios)) < FAR:
            return Decision(
                UNIT, meaning.unit, (who, *([f"it is {compared}"] if compared else [])), options=units
            )
        return Decision(UNIT, None, (f"{who} says {meaning.unit}, but it is {compared}",), question, units)
    if stated:
        return Decision(UNIT, meaning.unit, (who,), options=units)
    if is_rated(meaning.unit) and not meaning.doubt:
        return Decision(
            UNIT, meaning.unit, (f"{who} says a share of the rated torque",), options=units, likely=True
        )
    if meaning.doubt or meaning.quantity in ("torque", "effort"):
        return _torque_or_not(robot, meaning, motion, scale, compared, question)
    if meaning.quantity == "current":
        return _current(robot, scale, known, compared, question)
    if meaning.unit == RAW and not meaning.doubt:
        return Decision(UNIT, RAW, (who,), options=units)
    return Decision(UNIT, None, ("not stated in its name",), question, units)


def _torque_or_not(
    robot: RobotModel,
    meaning: Meaning,
    motion: Motion | None,
    scale: Scale | None,
    compared: str | None,
    question: str,
) -> Decision:
    doubt, units = f"{meaning.doubt}; " if meaning.doubt else "", _units(robot)
    by_size = _BY_SIZE_OF_SLIDES if all(robot.prismatic) else _BY_SIZE_OF_TURNS
    if scale is not None and compared is not None:
        for unit in by_size:
            if 1 / NEAR < scale.middle * _torques(robot)[unit] < NEAR:
                return Decision(UNIT, unit, (f"{doubt}it is {compared}: {unit}",), options=units)
        for unit in by_size:
            at_joints = scale.share(_torques(robot)[unit] * np.abs(robot.drive.own_ratio))
            if 1 / NEAR < at_joints < NEAR:
                size = f"{at_joints:.3g} times the {load_of(robot)} predicted from the model file"
                reason = f"{doubt}as motor effort in {unit}, it is {size}"
                return Decision(UNIT, unit, (reason,), options=units, likely=True)
        if meaning.unit in CURRENTS and scale.middle * CURRENTS[meaning.unit] < 1 / NEAR:
            reason = f"{doubt}it is {compared}: too small for {by_size[0]}, but plausible for {meaning.unit}"
            return Decision(UNIT, meaning.unit, (reason,), options=units)
        why = f"{doubt}it is {compared}, which does not fit {by_size[0]} at the joints"
        advice = size_advice(scale.middle, all(robot.prismatic))
        return Decision(UNIT, None, (why, advice) if advice else (why,), question, units)
    limits = robot.limits.effort
    if (
        meaning.quantity == "torque"
        and not meaning.doubt
        and motion is not None
        and motion.tau is not None
        and np.isfinite(limits).all()
    ):
        used = np.abs(motion.tau).max(axis=0) / limits
        if LOWEST_USE < used.max() < HIGHEST_USE:
            share = f"{100 * used.max():.0f} %"
            reason = (
                f"named as a torque, and it reaches {share} of the effort limits in the model file if "
                f"in {by_size[0]}"
            )
            return Decision(UNIT, by_size[0], (reason,), options=units)
    why = f"{doubt}the model file has no masses to compare the effort with"
    described = None if motion is None or motion.tau is None else description_scale(robot, motion)
    if described is not None:
        most = int(np.argmax(described[1]))
        why = (
            f"{doubt}the masses of the model file explain too little of it for a comparison, at "
            f"most {100 * described[1][most]:.0f} % of '{robot.joint_names[most]}'"
        )
    if motion is None:
        why = (
            f"{doubt}it may follow from the masses of the model file once time, positions and "
            "their order are known"
        )
    return Decision(UNIT, None, (why,), question, units)


def _current(
    robot: RobotModel, scale: Scale | None, known: Sequence[Preset], compared: str | None, question: str
) -> Decision:
    gains, whose = _known_gains(robot), "the drive constants of the model file"
    if gains is None and (from_preset := preset_gains(robot, known)) is not None:
        gains, whose = np.array(from_preset[2]), f"the drive constants of {from_preset[0].title}"
    if scale is not None and gains is not None:
        worth = float(np.median(np.abs(gains)[list(scale.informative)]))
        for unit, size in CURRENTS.items():
            share = scale.middle * size * worth
            if 1 / NEAR < share < NEAR:
                reason = (
                    f"in {unit}, with {whose}, it is {share:.3g} times the {load_of(robot)} predicted "
                    "from the model file"
                )
                return Decision(UNIT, unit, (reason,), options=_units(robot))
    why = "named as a current; A, mA and percent of the maximum current are all common"
    return Decision(UNIT, None, (why + (f"; it is {compared}" if compared else ""),), question, _units(robot))


def preset_gains(
    robot: RobotModel, known: Sequence[Preset]
) -> tuple[Preset, ConstantsEntry, list[float]] | None:
    """Torque per ampere of this robot from a preset, N m/A; None if no preset has it."""
    for preset in known:
        for entry in preset.constants:
            named = any(matches_word(word, robot.name) for word in entry.robots)
            if named and (gains := _of(entry, robot.n)):
                return preset, entry, gains
    return None


def knows_gains(robot: RobotModel) -> bool:
    """Whether the model file has the torque per unit of current at the joints."""
    return _known_gains(robot) is not None


def _known_gains(robot: RobotModel) -> Float | None:
    drive = robot.drive
    if np.isfinite(drive.drive_gain).all():
        return drive.drive_gain
    constants = drive.torque_constant * drive.gear_ratio
    return constants if np.isfinite(constants).all() else None


def _side(robot: RobotModel, meaning: Meaning, unit: Decision, scale: Scale | None, sizes: Float) -> Decision:
    options = (Option("link", "at the joints"), Option("motor", "before the gears"))
    if not _is_torque(unit.value):
        return Decision(SIDE, None, optional=True)
    ratios = np.abs(robot.drive.own_ratio)
    if meaning.side is not None:
        return Decision(SIDE, meaning.side, (meaning.said_by,), options=options, optional=True)
    if is_rated(unit.value) and not (scale is not None and np.isfinite(scale.share(sizes))):
        why = ("drives log shares of the rated torque of their motors",)
        return Decision(SIDE, "motor", why, options=options, optional=True, likely=True)
    if _without_gears(robot) and not is_rated(unit.value):
        return Decision(
            SIDE,
            None,
            ("the model file has no gears, so the effort is at the joints",),
            options=options,
            optional=True,
        )
    if scale is not None:
        here, there = scale.share(sizes), scale.share(sizes * ratios)
        near = [side for side, value in (("link", here), ("motor", there)) if 1 / NEAR < value < NEAR]
        if len(near) == 1:
            return Decision(
                SIDE,
                near[0],
                (
                    f"there it is {here if near[0] == 'link' else there:.3g} times the {load_of(robot)} "
                    "predicted from the model file",
                ),
                options=options,
                optional=True,
            )
    if is_rated(unit.value):
        why = ("drives log shares of the rated torque of their motors",)
        return Decision(SIDE, "motor", why, options=options, optional=True, likely=True)
    load = load_of(robot)
    why = (f"the model file has gears, but the side of the {load} is not known",)
    return Decision(
        SIDE, None, why, f"is it the {load} of the joints (link) or of the motors (motor)?", options
    )


def _actuator(robot: RobotModel, meaning: Meaning, scale: Scale | None) -> str | None:
    """Detect whether the effort is the "force" or the "input" of the model file's actuators by their gears.

    None if the effort is already the joint torque, or if no gear explains it on every informative joint.
    """
    if (
        scale is None
        or meaning.quantity not in ("torque", "effort")
        or meaning.unit in _torques(robot) | CURRENTS
    ):
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
    robot: RobotModel, meaning: Meaning, actuator: str | None, scale: Scale | None
) -> Decision | None:
    if actuator is None:
        return None
    words = "the input of the actuators (ctrl)" if actuator == "input" else "the force of the actuators"
    if meaning.actuator is not None:
        return Decision(UNIT, RAW, (meaning.said_by,), options=_units(robot))
    compared = (
        ""
        if scale is None
        else (f"it is {scale.middle:.3g} times the {load_of(robot)} predicted from the model file, and ")
    )
    why = f"{compared}with the gears of the model file's actuators about that {load_of(robot)}: {words}"
    return Decision(UNIT, RAW, (why,), options=_units(robot), likely=True)


def _gains_of_actuators(
    robot: RobotModel, actuator: str, joints: Sequence[str]
) -> tuple[Decision, Mapping[str, float], str] | None:
    """Torque per unit of actuator input or force from the model file; None unless every joint has an actuator."""
    gains = actuator_gains(robot).get(actuator, np.full(robot.n, np.nan))
    values = {joint: float(gains[robot.joint_names.index(joint)]) for joint in joints}
    if not np.isfinite(list(values.values())).all():
        return None
    why = f"gear{' times gain' if actuator == 'input' else ''} of the model file's actuators"
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
    from_preset = preset_gains(robot, known)
    if from_preset is not None:
        preset, entry, gains = from_preset
        text = f"{preset.cited(entry.source)}; accurate to {100 * entry.relative_uncertainty:.0f} %"
        text += f"; {entry.says}" if entry.says else ""
        if scale is not None:
            worth = np.array(gains) * sizes * np.abs(scale.slopes)
            share = float(np.median(worth[list(scale.informative)]))
            text += (
                f"; with them, the effort is {share:.3g} times the {load_of(robot)} predicted from "
                "the model file"
            )
        decision = Decision(GAINS, _listed(gains), (text,), likely=True)
        return decision, dict(zip(robot.joint_names, gains, strict=True)), text
    why: tuple[str, ...] = ("neither the model file nor a preset has the torque per unit of it",)
    # Gains are per ampere, whatever the unit of the log.
    current = unit.value != RAW
    if scale is not None:
        places = [robot.joint_names.index(joint) for joint in joints]
        guess = [1 / abs(scale.slopes[j]) if scale.informative[j] else 1 / scale.middle for j in places]
        guess = [value / sizes[j] for value, j in zip(guess, places, strict=True)]
        why = (*why, f"with the masses of the model file, it would be {_listed(guess)}")
    per_unit = "1 A" if current else "one unit of it"
    newtons = "N" if all(robot.prismatic) else "N m"
    count = (
        f"{len(joints)} numbers from base to tip, separated by commas" if len(joints) > 1 else "one number"
    )
    count += (
        f" ({', '.join(joints)})"
        if 1 < len(joints) < robot.n
        else f", of {joints[0]}"
        if robot.n > 1 == len(joints)
        else ""
    )
    count += f" other than 0, and not '{answers[GAINS]}'" if GAINS in answers else ""
    question = f"how many {newtons} at the joint correspond to {per_unit}? {count}"
    return Decision(GAINS, None, why, question), {}, ""


def _of(entry: ConstantsEntry, n: int) -> list[float] | None:
    """Torque per ampere at the joints, N m/A; None if the entry has another number of joints."""
    if entry.drive_gain is not None:
        return entry.drive_gain if len(entry.drive_gain) == n else None
    if entry.torque_constant is None or entry.gear_ratio is None:
        return None
    pairs = list(zip(entry.torque_constant, entry.gear_ratio, strict=False))
    return [k * r for k, r in pairs] if len(pairs) == n else None


def _numbers(text: str, n: int) -> list[float] | None:
    try:
        values = [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        return None
    return values if len(values) == n and all(np.isfinite(values)) and all(values) else None


def _listed(values: Sequence[float]) -> str:
    return ", ".join(f"{value:.4g}" for value in values)


# Gear ratios that the model file lacks although positions or efforts are measured at the motors.

GEARS = "robot.gear_ratio"
_SIDES = ("log.position.side", "log.effort.side")


def decide_gears(robot: RobotModel, answers: Answers) -> tuple[RobotModel, Decision | None]:
    """Apply answered gear ratios to the robot; the decision is None without an answer.

    Raises
    ------
    UsageError
        If the answer is neither one nonzero number nor one per joint (with or without the hand), or if
        the drive is coupled.

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
    """Ask for the gear ratios if a signal is at the motors and the model file has no gears; None otherwise."""
    sides = [answers.get(side) for side in _SIDES] + ([] if effort is None else [effort.side.value])
    if GEARS in answers or "motor" not in sides or not _without_gears(robot):
        return None
    why = "the model file has no gears between the motors and the joints"
    slides = [joint for joint, prismatic in zip(robot.joint_names, robot.prismatic, strict=True) if prismatic]
    per_metre = f" ({', '.join(slides)}: motor angle in rad per m)" if slides else ""
    question = (
        f"how many motor turns correspond to one joint turn{per_metre}? {_count(robot)}; 1 without a gear"
    )
    return Decision(GEARS, None, (why,), question)


def _some_joints(robot: RobotModel) -> list[tuple[str, ...]]:
    """Sets of joints for which an answer may list numbers: all joints, or all except the hand's."""
    hands = hand_joints(robot)
    arm = tuple(joint for joint in robot.joint_names if joint not in hands)
    return [robot.joint_names, *([arm] if hands and arm else [])]


def _count(robot: RobotModel) -> str:
    if robot.n == 1:
        return "one number"
    several = " or ".join(f"{len(some)} ({', '.join(some)})" for some in _some_joints(robot))
    return f"one number for all joints, or {several} from base to tip, separated by commas"


def _gears_numbers(text: str) -> list[float]:
    """Numbers of an answer; empty if an entry is zero or not a number."""
    try:
        values = [float(number) for number in text.replace(",", " ").split()]
    except ValueError:
        return []
    return values if all(np.isfinite(values)) and all(values) else []
