"""Friction with nonlinear parameters: each shape is given, or estimated from the data (None)."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.numerics import expit
from dynid.base.records import dataclass
from dynid.kernel import stop_operator
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import (
    Coefficient,
    CurveTerm,
    Shape,
    ShapeValue,
    c_texts,
    check_shapes,
    range_of,
    shape_table,
    starts,
    tried_shapes,
)
from dynid.terms.exports import (
    STANDS,
    Dry,
    Extent,
    FrictionForm,
    JointMotion,
    LeftOut,
    LogFacts,
    Memory,
    MotionBasis,
    OnJoint,
    Part,
    Reads,
    c_number,
    c_sign,
)
from dynid.terms.forms import exported_parts, within_extent, without_memory
from dynid.terms.friction import WIDTH, Coulomb, check_width, direction, mean_sign, passed_speeds
from dynid.terms.residual_tests import FRICTION_FORM, Feature, Remains, TermWords
from dynid.terms.term import Proposal, Symbol, Term, joint_indices, named_joints, narrowed, proposal_by_joint

# Share of the usual top speed at which friction of low speed has faded.
LOW = 0.15
# Widths of the smoothed sign over which friction of low speed fades at least: below it the sign has not risen where
# friction has faded, and a coefficient of any size is as good. At one it reaches three eighths of its coefficient.
RISEN = 1.0
# Waves of friction within the range of a joint's motion; more are not told apart.
MOST_WAVES = 60.0
# Waves within the range of the log from which on they go on beyond it; and by rad or m, farther than any joint goes.
WHOLE, FAR = 3.0, 1e4
_SPEED = ("rad/s", "m/s")
_INVERSE = ("s/rad", "s/m")


@dataclass(frozen=True)
class SmoothCoulomb(CurveTerm):
    """Coulomb friction whose width is estimated: tau_j = fc_j tanh(dq_j / width_j).

    width: rad/s (m/s); None = estimated.    joints: names of the joints it acts on; empty = all.
    """

    width: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "coulomb_tanh"
    form = FrictionForm("tanh", ("coulomb",), (0.3, 0.45, 0.6, 0.75))
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    words = TermWords(symbols=(Symbol("fc", "f", "c", "Coulomb friction"),))
    coefficients = (Coefficient("fc", "N m", "N", 0.0),)
    shapes = (Shape("width", *_SPEED, 0.02, bounds=lambda _, at: (1e-4 * at.peak, at.peak)),)

    def __post_init__(self) -> None:
        check_shapes(self)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The smoothed sign."""
        return np.asarray(np.tanh(samples.dq[:, joint] / shape[0]))[None, :]


@c_texts.register(SmoothCoulomb)
def _(term: SmoothCoulomb, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """The smoothed sign."""
    return (f"tanh({speed} / {c_number(shape[0])})",)


def _low_speeds(term: Stribeck, motion: JointMotion) -> tuple[float, float]:
    """From a thousandth of the peak velocity, or where the smoothed sign has risen, to all of it."""
    return max(1e-3 * motion.peak, min(RISEN * term.width, 0.5 * motion.peak)), motion.peak


def _low_speed_friction(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """More, or less, friction at low speed."""
    x = remains.motion.dq[:, joint] / remains.top_speed(joint)
    column = remains.step(joint) * np.exp(-((x / LOW) ** 2))

    def seen(size: float) -> str:
        return f"{'More' if size > 0 else 'Less'} friction at low speed than at high"

    return (remains.friction(joint, column, seen, "Try stribeck"),)


@dataclass(frozen=True)
class Stribeck(CurveTerm):
    """More friction at low speed, besides `coulomb`: tau_j = fs_j s(dq_j) exp(-(|dq_j| / velocity_j)^exponent).

    velocity: rad/s (m/s); None = estimated.    exponent: > 0, 2 = Gaussian, 1 = exponential.
    width: of the smoothed sign.    joints: names of the joints it acts on; empty = all.
    Source: Armstrong-Helouvry, Dupont and Canudas de Wit 1994.
    """

    velocity: ShapeValue = None
    exponent: float = 2.0
    width: float = 0.02
    joints: tuple[str, ...] = ()
    name: str = "stribeck"
    form = FrictionForm("stribeck", (), (0.25, 0.55, 0.85))
    words = TermWords(
        symbols=(Symbol("fs", "f", "s", "Stribeck friction"),),
        group=FRICTION_FORM,
        features=_low_speed_friction,
    )
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    coefficients = (Coefficient("fs", "N m", "N", lower=0.0),)
    shapes = (Shape("velocity", *_SPEED, 0.1, bounds=_low_speeds),)

    def __post_init__(self) -> None:
        check_shapes(self)
        if not (self.exponent > 0 and self.width >= 0):
            raise UsageError(
                "stribeck",
                found=f"exponent {self.exponent}, width {self.width}",
                expected="exponent > 0, width >= 0",
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The smoothed sign where the joint is slow."""
        v = samples.dq[:, joint]
        slow = np.exp(-((np.abs(v) / shape[0]) ** self.exponent))
        return np.asarray(direction(samples, self.width, joint) * slow)[None, :]


@c_texts.register(Stribeck)
def _(term: Stribeck, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """The sign and what fades."""
    slow = f"pow(fabs({speed}) / {c_number(shape[0])}, {c_number(term.exponent)})"
    return (f"{c_sign(speed, term.width)} * exp(-{slow})",)


@dataclass(frozen=True)
class Sigmoid(CurveTerm):
    """Sigmoidal friction: tau_j = fg_j (1 / (1 + exp(-slope_j (dq_j + shift_j))) - 1 / (1 + exp(-slope_j shift_j))).

    It takes the place of Coulomb friction. slope: s/rad (s/m), shift: rad/s (m/s); None = estimated.
    joints: names of the joints it acts on; empty = all.
    Source: Gaz et al. 2019, eq. 25, with phi_1 = fg, phi_2 = slope, phi_3 = shift.
    """

    slope: ShapeValue = None
    shift: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "sigmoid"
    form = FrictionForm("sigmoid", ("coulomb",))
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    words = TermWords(symbols=(Symbol("fg", "f", "g", "sigmoidal friction, Gaz's phi 1"),))
    coefficients = (Coefficient("fg", "N m", "N", 0.0),)
    # A width from a ten thousandth of the peak velocity to all of it; a shift up to half the peak.
    shapes = (
        Shape("slope", *_INVERSE, 20.0, bounds=lambda _, at: (2.0 / at.peak, 2e4 / at.peak)),
        Shape("shift", *_SPEED, 0.0, False, lambda _, at: (-0.5 * at.peak, 0.5 * at.peak)),
    )

    def __post_init__(self) -> None:
        check_shapes(self)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The sigmoid less its value at rest."""
        slope, shift = shape
        low, high = passed_speeds(samples, joint)
        if low is high:
            moving = expit(slope * (low + shift))
        else:
            moving = 0.5 + 0.5 * mean_sign(low + shift, high + shift, 2.0 / slope)
        return np.asarray(moving - expit(slope * shift))[None, :]


@c_texts.register(Sigmoid)
def _(term: Sigmoid, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """The sigmoid less its value at rest."""
    slope, shift = shape
    rest = c_number(float(expit(slope * shift)))
    moving = f"1.0 / (1.0 + exp(-{c_number(slope)} * ({speed} + {c_number(shift)})))"
    return (f"({moving} - {rest})",)


@dataclass(frozen=True)
class ZolloFriction(CurveTerm):
    """Low-speed part of Zollo's friction, besides `viscous` and `coulomb`.

    tau_j = -f3_j s exp(-|dq| / fade_j) - f5_j s exp(-1 / (rise_j |dq|)), with s the sign of dq, smoothed by `width`.
    fade: f4, rad/s (m/s), rise: f6, s/rad (s/m); None = estimated.    joints: it acts on; empty = all.
    Source: Zollo et al. 2015, eq. 43, whose first exponent holds the velocity (printed: the position) and whose second
    is only dissipative as written here.
    """

    fade: ShapeValue = None
    rise: ShapeValue = None
    width: float = 0.0
    joints: tuple[str, ...] = ()
    name: str = "zollo"
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    words = TermWords(
        symbols=(
            Symbol("fzc", "f", "3", "friction that fades with speed, Zollo's f3"),
            Symbol("fze", "f", "5", "friction that rises with speed, Zollo's f5"),
        )
    )
    coefficients = (Coefficient("fzc", "N m", "N"), Coefficient("fze", "N m", "N"))
    shapes = (
        Shape("fade", *_SPEED, 0.05, bounds=lambda _, at: (1e-3 * at.peak, at.peak)),
        Shape("rise", *_INVERSE, 15.0, bounds=lambda _, at: (1.0 / at.peak, 1e3 / at.peak)),
    )

    def __post_init__(self) -> None:
        check_shapes(self)
        check_width(self.width)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """What fades with speed and what rises with it."""
        v = samples.dq[:, joint]
        speed, s = np.abs(v), direction(samples, self.width, joint)
        with np.errstate(divide="ignore", over="ignore"):
            rising = np.exp(-1.0 / (shape[1] * speed))
        return np.stack([-s * np.exp(-speed / shape[0]), -s * rising])


@c_texts.register(ZolloFriction)
def _(term: ZolloFriction, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """What fades with speed and what rises with it."""
    s, fade, rise = c_sign(speed, term.width), c_number(shape[0]), c_number(shape[1])
    rising = f"(fabs({speed}) > 0.0 ? exp(-1.0 / ({rise} * fabs({speed}))) : 0.0)"
    return f"-{s} * exp(-fabs({speed}) / {fade})", f"-{s} * {rising}"


@starts.register(ZolloFriction)
def _(term: ZolloFriction, motion: JointMotion) -> Float:
    """What fades and what rises changing over at one speed, fade = 1 / rise, at several speeds."""
    speed = motion.peak * 1e-3 ** (1.0 - np.array([0.2, 0.35, 0.5, 0.65, 0.8]))
    return np.stack([speed, 1.0 / speed], axis=1)


@dataclass(frozen=True)
class Presliding(CurveTerm):
    """Coulomb friction with a memory: tau_j = fc_j z_j, dz_j = dq_j / distance_j held between -1 and 1.

    A joint that comes to rest keeps the friction it stopped with, and a reversal takes twice the distance to turn it
    round; it takes the place of Coulomb friction. At the start of a log, or after a gap, z is 0.
    distance: rad (m), over which friction builds up; None = estimated.    joints: names of the joints it acts on.
    width: of the smoothed sign, rad/s (m/s), that stands for it where a program has no memory.
    Source: elasto-plastic (Jenkin) element; Dahl 1968 is its rounded form.
    """

    distance: ShapeValue = None
    joints: tuple[str, ...] = ()
    width: float = WIDTH
    name: str = "presliding"
    form = FrictionForm("presliding", ("coulomb",), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
    words = TermWords(symbols=(Symbol("fc", "f", "c", "Coulomb friction"),))
    traits = replace(CurveTerm.traits, reads=Reads.PAST, dry=Dry.STEP)
    coefficients = (Coefficient("fc", "N m", "N", 0.0),)
    # From a millionth of the range of motion to a tenth, and no more than what samples remember.
    shapes = (
        Shape(
            "distance", "rad", "m", 1e-3, bounds=lambda _, at: (1e-6 * at.span, min(0.1 * at.span, at.reach))
        ),
    )

    def __post_init__(self) -> None:
        check_shapes(self)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The state z over the batch, from what the joint did before it."""
        past = samples.past.joints[joint] if samples.past is not None else ()
        path = samples.q[:, joint] / shape[0]
        return stop_operator([x / shape[0] for x in past], path)[None, :]


@without_memory.register(Presliding)
def _(term: Presliding) -> Coulomb:
    """Coulomb friction with the width: z is the sign but for the distance behind each reversal."""
    return Coulomb(term.width, term.joints)


@exported_parts.register(Presliding)
def _(term: Presliding, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Coulomb friction, and the distance over which it builds up."""
    distance = np.nan_to_num(shape_table(term, robot)[:, 0], nan=term.shapes[0].typical)
    acting = joint_indices(robot, term.joints)
    return tuple(
        part
        for j, x, d in zip(acting, theta, distance, strict=True)
        for part in (OnJoint(j, float(x), MotionBasis.SIGN, term.width), Memory(j, float(d)))
    )


def _wave_numbers(_: PositionFriction, motion: JointMotion) -> tuple[float, float]:
    """From one wave within the range of motion to MOST_WAVES."""
    turn, span = 2.0 * np.pi, max(motion.span, STANDS)
    return turn / span, MOST_WAVES * turn / span


def _wave_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """At the waves that the log seems to have, on the joints that have them."""
    waves = {j: one.waves[0] for j, one in enumerate(log.motion) if one.waves}
    if not waves:
        return ()
    joints = tuple(robot.joint_names[j] for j in waves)
    whole = narrowed(PositionFriction(harmonic=None), log.slowness)
    there = replace(whole, harmonic=tuple(waves.values()), joints=joints)
    label = "waves"

    def build(places: tuple[int, ...]) -> Term:
        return replace(whole, joints=named_joints(robot, places))

    return (proposal_by_joint(robot, there, label, label, build=build),)


@dataclass(frozen=True)
class PositionFriction(CurveTerm):
    """Coulomb friction that varies with position: tau_j = s(dq_j) (fqc_j cos(k_j q_j) + fqs_j sin(k_j q_j)).

    Of an eccentric gear or bearing, teeth, the rollers of a strain wave, besides `coulomb`. What a log saw fewer than
    three times is no wave elsewhere: beyond the positions of that log it stays as it is at their border.
    harmonic: k, periods a turn (of a slide: rad/m), one for all joints or one each; None = estimated, of those with at
    most MOST_WAVES periods within the log.
    width: of the smoothed sign.    joints: names of the joints it acts on; empty = all.
    positions: least and greatest of every joint of the robot, rad (m); empty = those of the log.
    """

    harmonic: ShapeValue = 1.0
    width: float = WIDTH
    joints: tuple[str, ...] = ()
    positions: tuple[tuple[float, float], ...] = ()
    name: str = "position_friction"
    form = FrictionForm("waves", options={"harmonic": None})
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    selection = replace(CurveTerm.selection, proposed=_wave_proposals)
    words = TermWords(
        symbols=(
            Symbol("fqc", "f", "qc", "Coulomb friction with the cosine of position"),
            Symbol("fqs", "f", "qs", "Coulomb friction with the sine of position"),
        )
    )
    coefficients = (Coefficient("fqc", "N m", "N"), Coefficient("fqs", "N m", "N"))
    shapes = (Shape("harmonic", "1", "rad/m", 1.0, bounds=_wave_numbers),)

    def __post_init__(self) -> None:
        check_width(self.width)
        given = self.harmonic if isinstance(self.harmonic, tuple) else (self.harmonic,)
        if not all(one is None or 0.0 < one < np.inf for one in given):
            raise UsageError("harmonic", found=f"harmonic = {self.harmonic}", expected="numbers > 0")
        if not all(-np.inf < low <= high < np.inf for low, high in self.positions):
            raise UsageError(
                "positions", found=f"positions = {self.positions}", expected="the least before the greatest"
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Smoothed sign times cosine and sine of the position."""
        q = samples.q[:, joint]
        if self.positions:
            q = np.clip(q, *self._positions(robot)[joint])
        angle, s = shape[0] * q, direction(samples, self.width, joint)
        return np.stack([s * np.cos(angle), s * np.sin(angle)])

    def _positions(self, robot: RobotModel) -> tuple[tuple[float, float], ...]:
        if len(self.positions) != robot.n:
            raise UsageError(
                "positions",
                found=f"{len(self.positions)} of them in positions of term '{self.name}'",
                expected=f"a pair for each of {robot.n} joints",
                do="give [least, greatest] of every joint of the robot, or leave positions out: those of the log",
            )
        return self.positions


@starts.register(PositionFriction)
def _(term: PositionFriction, motion: JointMotion) -> Float:
    """Every half wave within the range: costs have a valley for each."""
    low, high = range_of(term, motion)[0]
    return np.arange(low, high, 0.5 * low)[:, None]


@tried_shapes.register(PositionFriction)
def _(term: PositionFriction, motion: JointMotion) -> Float:
    """The waves that the log seems to have; every half wave where nobody looked for them."""
    return starts(term, motion) if motion.waves is None else np.reshape(motion.waves, (-1, 1))


@within_extent.register(PositionFriction)
def _(term: PositionFriction, robot: RobotModel, extent: Extent) -> PositionFriction:
    """With the positions of the log as its own on joints that saw few waves, unless it has some."""
    if term.positions:
        return term
    low, high = extent.low - FAR, extent.high + FAR
    for j, (k,) in zip(joint_indices(robot, term.joints), shape_table(term, robot), strict=True):
        if not k * (extent.high[j] - extent.low[j]) >= 2.0 * np.pi * WHOLE:
            low[j], high[j] = extent.low[j], extent.high[j]
    return replace(term, positions=tuple(zip(low.tolist(), high.tolist(), strict=True)))


@exported_parts.register(PositionFriction)
def _(term: PositionFriction, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Coulomb friction of the mean over the positions of the log on joints whose waves end there; else none."""
    if not term.positions:
        return None
    acting, table, ends = (
        joint_indices(robot, term.joints),
        shape_table(term, robot),
        term._positions(robot),
    )
    on = []
    for j, (k,), (fqc, fqs) in zip(acting, table, theta.reshape(-1, 2), strict=True):
        low, high = ends[j]
        if high - low >= FAR:
            continue
        # Integrals of cos and sin from low to high over high - low.
        share, middle = np.sinc(0.5 * k * (high - low) / np.pi), 0.5 * k * (low + high)
        mean = share * (fqc * np.cos(middle) + fqs * np.sin(middle))
        on.append(OnJoint(j, float(mean), MotionBasis.SIGN, term.width))
    return (
        *on,
        LeftOut(f"{term.name} but for its mean over the positions of the log" if on else term.name),
    )
