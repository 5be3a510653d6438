"""Friction with nonlinear shapes, which are given or estimated from the data (None)."""

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
    range_of,
    shape_table,
    shape_values,
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

# Share of the usual top speed: decay of low-speed friction in the feature that finds it in residuals.
LOW = 0.15
# Least Stribeck velocity in widths of the smoothed sign. Below it, friction has decayed before the sign saturates, so
# that any coefficient fits. At 1, friction reaches three eighths of its coefficient.
RISEN = 1.0
# Most periods of friction within a joint's range of motion; more cannot be distinguished.
MOST_WAVES = 60.0
# Periods within the range of the log above which the wave continues beyond it; rad (m): a range beyond that of any
# joint, which stands for no limit.
WHOLE, FAR = 3.0, 1e4
_SPEED = ("rad/s", "m/s")
_INVERSE = ("s/rad", "s/m")


@dataclass(frozen=True)
class SmoothCoulomb(CurveTerm):
    """Coulomb friction with an estimated width: tau_j = fc_j tanh(dq_j / width_j).

    Attributes
    ----------
    width : float, tuple of float or None, rad/s (m/s)
        Width of the smoothed sign, for all joints or per joint; None = estimated.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    width: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "coulomb_tanh"
    form = FrictionForm("tanh", ("coulomb",), (0.3, 0.45, 0.6, 0.75))
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    words = TermWords(symbols=(Symbol("fc", "f", "c", "Coulomb friction"),))
    coefficients = (Coefficient("fc", "N m", "N", 0.0),)
    shapes = (Shape("width", *_SPEED, 0.02, bounds=lambda _, at: (1e-4 * at.peak, at.peak)),)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The smoothed sign."""
        return np.asarray(np.tanh(samples.dq[:, joint] / shape[0]))[None, :]


@c_texts.register(SmoothCoulomb)
def _(term: SmoothCoulomb, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """The smoothed sign."""
    return (f"tanh({speed} / {c_number(shape[0])})",)


def _low_speeds(term: Stribeck, motion: JointMotion) -> tuple[float, float]:
    """From a thousandth of the peak velocity, or the width of the smoothed sign, to the peak velocity."""
    return max(1e-3 * motion.peak, min(RISEN * term.width, 0.5 * motion.peak)), motion.peak


def _low_speed_friction(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """More or less friction at low speed."""
    x = remains.motion.dq[:, joint] / remains.top_speed(joint)
    column = remains.step(joint) * np.exp(-((x / LOW) ** 2))

    def title(size: float) -> str:
        return f"{'More' if size > 0 else 'Less'} friction at low speed than at high speed"

    return (remains.friction(joint, column, title, "Try stribeck"),)


@dataclass(frozen=True)
class Stribeck(CurveTerm):
    """Stribeck friction in addition to `coulomb`: tau_j = fs_j s(dq_j) exp(-(|dq_j| / velocity_j)^exponent).

    Attributes
    ----------
    velocity : float, tuple of float or None, rad/s (m/s)
        Stribeck velocity, for all joints or per joint; None = estimated.
    exponent : float
        2 = Gaussian, 1 = exponential; > 0.
    width : float, rad/s (m/s)
        Width of the smoothed sign s; 0 = no smoothing.
    joints : tuple of str
        Joints on which it acts; () = all.

    References
    ----------
    Armstrong-Helouvry, Dupont and Canudas de Wit 1994.

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
        super().__post_init__()
        if not (self.exponent > 0 and self.width >= 0):
            raise UsageError(
                "stribeck",
                found=f"exponent {self.exponent}, width {self.width}",
                expected="exponent > 0, width >= 0",
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Smoothed sign, decaying with speed."""
        v = samples.dq[:, joint]
        slow = np.exp(-((np.abs(v) / shape[0]) ** self.exponent))
        return np.asarray(direction(samples, self.width, joint) * slow)[None, :]


@c_texts.register(Stribeck)
def _(term: Stribeck, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Smoothed sign, decaying with speed."""
    slow = f"pow(fabs({speed}) / {c_number(shape[0])}, {c_number(term.exponent)})"
    return (f"{c_sign(speed, term.width)} * exp(-{slow})",)


@dataclass(frozen=True)
class Sigmoid(CurveTerm):
    """Sigmoidal friction: tau_j = fg_j (1 / (1 + exp(-slope_j (dq_j + shift_j))) - 1 / (1 + exp(-slope_j shift_j))).

    It replaces Coulomb friction.

    Attributes
    ----------
    slope : float, tuple of float or None, s/rad (s/m)
        Slope, for all joints or per joint; None = estimated.
    shift : float, tuple of float or None, rad/s (m/s)
        Shift along velocity; None = estimated.
    joints : tuple of str
        Joints on which it acts; () = all.

    References
    ----------
    Gaz et al. 2019, eq. 25, with phi_1 = fg, phi_2 = slope, phi_3 = shift.

    """

    slope: ShapeValue = None
    shift: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "sigmoid"
    form = FrictionForm("sigmoid", ("coulomb",))
    traits = replace(CurveTerm.traits, dry=Dry.STEP)
    words = TermWords(symbols=(Symbol("fg", "f", "g", "sigmoidal friction, Gaz's phi 1"),))
    coefficients = (Coefficient("fg", "N m", "N", 0.0),)
    # A width from a ten-thousandth of the peak velocity to the peak velocity; a shift up to half the peak velocity.
    shapes = (
        Shape("slope", *_INVERSE, 20.0, bounds=lambda _, at: (2.0 / at.peak, 2e4 / at.peak)),
        Shape("shift", *_SPEED, 0.0, False, lambda _, at: (-0.5 * at.peak, 0.5 * at.peak)),
    )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Sigmoid minus its value at rest."""
        slope, shift = shape
        low, high = passed_speeds(samples, joint)
        if low is high:
            moving = expit(slope * (low + shift))
        else:
            moving = 0.5 + 0.5 * mean_sign(low + shift, high + shift, 2.0 / slope)
        return np.asarray(moving - expit(slope * shift))[None, :]


@c_texts.register(Sigmoid)
def _(term: Sigmoid, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """Sigmoid minus its value at rest."""
    slope, shift = shape
    rest = c_number(float(expit(slope * shift)))
    moving = f"1.0 / (1.0 + exp(-{c_number(slope)} * ({speed} + {c_number(shift)})))"
    return (f"({moving} - {rest})",)


@dataclass(frozen=True)
class ZolloFriction(CurveTerm):
    """Low-speed part of Zollo's friction, in addition to `viscous` and `coulomb`.

    tau_j = -f3_j s exp(-|dq| / fade_j) - f5_j s exp(-1 / (rise_j |dq|)), with s the sign of dq, smoothed by `width`.

    Attributes
    ----------
    fade : float, tuple of float or None, rad/s (m/s)
        f4, for all joints or per joint; None = estimated.
    rise : float, tuple of float or None, s/rad (s/m)
        f6; None = estimated.
    width : float, rad/s (m/s)
        Width of the smoothed sign; 0 = no smoothing.
    joints : tuple of str
        Joints on which it acts; () = all.

    References
    ----------
    Zollo et al. 2015, eq. 43, with the velocity in the first exponent (printed: the position) and the second exponent
    as written here, since it is not dissipative otherwise.

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
        super().__post_init__()
        check_width(self.width)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The part that decays with speed and the part that rises with speed."""
        v = samples.dq[:, joint]
        speed, s = np.abs(v), direction(samples, self.width, joint)
        with np.errstate(divide="ignore", over="ignore"):
            rising = np.exp(-1.0 / (shape[1] * speed))
        return np.stack([-s * np.exp(-speed / shape[0]), -s * rising])


@c_texts.register(ZolloFriction)
def _(term: ZolloFriction, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """The part that decays with speed and the part that rises with speed."""
    s, fade, rise = c_sign(speed, term.width), c_number(shape[0]), c_number(shape[1])
    rising = f"(fabs({speed}) > 0.0 ? exp(-1.0 / ({rise} * fabs({speed}))) : 0.0)"
    return f"-{s} * exp(-fabs({speed}) / {fade})", f"-{s} * {rising}"


@starts.register(ZolloFriction)
def _(term: ZolloFriction, motion: JointMotion) -> Float:
    """Start values with fade = 1 / rise, at several speeds."""
    speed = motion.peak * 1e-3 ** (1.0 - np.array([0.2, 0.35, 0.5, 0.65, 0.8]))
    return np.stack([speed, 1.0 / speed], axis=1)


@dataclass(frozen=True)
class Presliding(CurveTerm):
    """Coulomb friction with memory: tau_j = fc_j z_j, dz_j = dq_j / distance_j, z_j limited to -1 to 1.

    A joint that comes to rest keeps its friction, and friction reverses over twice the distance after a reversal. It
    replaces Coulomb friction. At the start of a log, or after a gap, z is 0.

    Attributes
    ----------
    distance : float, tuple of float or None, rad (m)
        Distance over which friction builds up, for all joints or per joint; None = estimated.
    joints : tuple of str
        Joints on which it acts; () = all.
    width : float, rad/s (m/s)
        Width of the smoothed sign in programs without memory.

    References
    ----------
    Elasto-plastic (Jenkin) element; Dahl 1968 is its rounded form.

    """

    distance: ShapeValue = None
    joints: tuple[str, ...] = ()
    width: float = WIDTH
    name: str = "presliding"
    form = FrictionForm("presliding", ("coulomb",), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7))
    words = TermWords(symbols=(Symbol("fc", "f", "c", "Coulomb friction"),))
    traits = replace(CurveTerm.traits, reads=Reads.PAST, dry=Dry.STEP)
    coefficients = (Coefficient("fc", "N m", "N", 0.0),)
    # From a millionth to a tenth of the range of motion, limited by the memory of samples.
    shapes = (
        Shape(
            "distance", "rad", "m", 1e-3, bounds=lambda _, at: (1e-6 * at.span, min(0.1 * at.span, at.reach))
        ),
    )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The state z along the samples, starting from the past motion."""
        past = samples.past.joints[joint] if samples.past is not None else ()
        path = samples.q[:, joint] / shape[0]
        return stop_operator([x / shape[0] for x in past], path)[None, :]


@without_memory.register(Presliding)
def _(term: Presliding) -> Coulomb:
    """Coulomb friction with the width: z is the sign of velocity except shortly after reversals."""
    return Coulomb(term.width, term.joints)


@exported_parts.register(Presliding)
def _(term: Presliding, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Coulomb friction, and the distance over which it builds up."""
    acting = joint_indices(robot, term.joints)
    return tuple(
        part
        for j, x, (distance,) in zip(acting, theta, shape_values(term, robot), strict=True)
        for part in (OnJoint(j, float(x), MotionBasis.SIGN, term.width), Memory(j, float(distance)))
    )


def _wave_numbers(_: PositionFriction, motion: JointMotion) -> tuple[float, float]:
    """From one to MOST_WAVES periods within the range of motion."""
    turn, span = 2.0 * np.pi, max(motion.span, STANDS)
    return turn / span, MOST_WAVES * turn / span


def _wave_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Friction with the candidate wave numbers of the log, on the joints that have any."""
    waves = {j: motion.waves[0] for j, motion in enumerate(log.motion) if motion.waves}
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
    """Position-dependent Coulomb friction: tau_j = s(dq_j) (fqc_j cos(k_j q_j) + fqs_j sin(k_j q_j)).

    Caused by eccentric gears or bearings, teeth, or the rollers of strain wave gears; in addition to `coulomb`. If the
    log contains fewer than three periods, the term keeps its border values beyond the positions of the log, since it
    may not be periodic.

    Attributes
    ----------
    harmonic : float, tuple of float or None, 1 (rad/m)
        k, periods per turn, for all joints or per joint; None = estimated, with up to 60 periods within the log.
    width : float, rad/s (m/s)
        Width of the smoothed sign s; 0 = no smoothing.
    joints : tuple of str
        Joints on which it acts; () = all.
    positions : tuple of pairs of float, rad (m)
        Least and greatest position of every joint of the robot; () = those of the log.

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
        if not all(number is None or 0.0 < number < np.inf for number in given):
            raise UsageError("harmonic", found=f"harmonic = {self.harmonic}", expected="numbers > 0")
        if not all(-np.inf < low <= high < np.inf for low, high in self.positions):
            raise UsageError(
                "positions", found=f"positions = {self.positions}", expected="the least before the greatest"
            )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Smoothed sign times cosine and sine of k q."""
        q = samples.q[:, joint]
        if self.positions:
            q = np.clip(q, *self._positions(robot)[joint])
        angle, s = shape[0] * q, direction(samples, self.width, joint)
        return np.stack([s * np.cos(angle), s * np.sin(angle)])

    def _positions(self, robot: RobotModel) -> tuple[tuple[float, float], ...]:
        if len(self.positions) != robot.n:
            raise UsageError(
                "positions",
                found=f"{len(self.positions)} pairs in positions of term '{self.name}'",
                expected=f"a pair for each of {robot.n} joints",
                do="give [least, greatest] of every joint, or remove positions to use those of the log",
            )
        return self.positions


@starts.register(PositionFriction)
def _(term: PositionFriction, motion: JointMotion) -> Float:
    """Every half period within the range, since the cost has a local minimum for each."""
    low, high = range_of(term, motion)[0]
    return np.arange(low, high, 0.5 * low)[:, None]


@tried_shapes.register(PositionFriction)
def _(term: PositionFriction, motion: JointMotion) -> Float:
    """The candidate wave numbers of the log; every half period if they were not searched."""
    return starts(term, motion) if motion.waves is None else np.reshape(motion.waves, (-1, 1))


@within_extent.register(PositionFriction)
def _(term: PositionFriction, robot: RobotModel, extent: Extent) -> PositionFriction:
    """The term with the positions of the log as limits on joints with few periods, unless positions are given."""
    if term.positions:
        return term
    low, high = extent.low - FAR, extent.high + FAR
    for j, (k,) in zip(joint_indices(robot, term.joints), shape_table(term, robot), strict=True):
        if not k * (extent.high[j] - extent.low[j]) >= 2.0 * np.pi * WHOLE:
            low[j], high[j] = extent.low[j], extent.high[j]
    return replace(term, positions=tuple(zip(low.tolist(), high.tolist(), strict=True)))


@exported_parts.register(PositionFriction)
def _(term: PositionFriction, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Coulomb friction with the mean over the positions of the log, on joints limited to these; nothing on others."""
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
        # Means of cos and sin from low to high.
        share, middle = np.sinc(0.5 * k * (high - low) / np.pi), 0.5 * k * (low + high)
        mean = share * (fqc * np.cos(middle) + fqs * np.sin(middle))
        on.append(OnJoint(j, float(mean), MotionBasis.SIGN, term.width))
    return (
        *on,
        LeftOut(f"{term.name} except its mean over the positions of the log" if on else term.name),
    )
