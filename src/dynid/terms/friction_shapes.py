"""Friction with nonlinear parameters: each shape is given, or estimated from the data (None)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.base.scipy_functions import expit
from dynid.kernel import stop_operator
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import FrictionForm, JointMotion
from dynid.terms.curve import Coefficient, CurveTerm, Shape, ShapeValue, check_shapes
from dynid.terms.exports import Memory, MotionBasis, OnJoint, Part, c_number, c_sign
from dynid.terms.friction import WIDTH, Coulomb, direction, mean_sign, passed_speeds
from dynid.terms.joint_term import joint_indices
from dynid.terms.residual_tests import FRICTION_FORM, Feature, Remains
from dynid.terms.term import Symbol, Terms

# Share of the usual top speed at which friction of low speed has faded.
LOW = 0.15
# Widths of the smoothed sign over which friction of low speed fades at least: below it the sign has not risen where
# friction has faded, and a coefficient of any size is as good. At one it reaches three eighths of its coefficient.
RISEN = 1.0
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
    steps = True
    symbols = (Symbol("fc", "f", "c", "Coulomb friction"),)
    coefficients = (Coefficient("fc", "N m", "N", 0.0),)
    shapes = (Shape("width", *_SPEED, 0.02),)

    def __post_init__(self) -> None:
        check_shapes(self)

    def rival(self, joints: tuple[str, ...]) -> Terms:
        """Coulomb friction."""
        return Terms((Coulomb(WIDTH, joints),))

    def range_of(self, motion: JointMotion) -> Float:
        """From a ten thousandth of the peak velocity to all of it."""
        return np.array([[1e-4 * motion.peak, motion.peak]])

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The smoothed sign."""
        return np.asarray(np.tanh(samples.dq[:, joint] / shape[0]))[None, :]

    def c_texts(self, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
        """The smoothed sign."""
        return (f"tanh({speed} / {c_number(shape[0])})",)


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
    group = FRICTION_FORM
    steps = True
    symbols = (Symbol("fs", "f", "s", "Stribeck friction"),)
    coefficients = (Coefficient("fs", "N m", "N", lower=0.0),)
    shapes = (Shape("velocity", *_SPEED, 0.1),)

    def __post_init__(self) -> None:
        check_shapes(self)
        if not (self.exponent > 0 and self.width >= 0):
            raise UsageError(
                "stribeck",
                found=f"exponent {self.exponent}, width {self.width}",
                expected="exponent > 0, width >= 0",
            )

    @classmethod
    def features(cls, remains: Remains, joint: int) -> tuple[Feature, ...]:
        """More, or less, friction at low speed."""
        x = remains.motion.dq[:, joint] / remains.top_speed(joint)
        column = remains.step(joint) * np.exp(-((x / LOW) ** 2))

        def seen(size: float) -> str:
            return f"{'More' if size > 0 else 'Less'} friction at low speed than at high"

        return (remains.friction(joint, column, seen, "Try stribeck"),)

    def range_of(self, motion: JointMotion) -> Float:
        """From a thousandth of the peak velocity, or where the smoothed sign has risen, to all of it."""
        risen = min(RISEN * self.width, 0.5 * motion.peak)
        return np.array([[max(1e-3 * motion.peak, risen), motion.peak]])

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The smoothed sign where the joint is slow."""
        v = samples.dq[:, joint]
        slow = np.exp(-((np.abs(v) / shape[0]) ** self.exponent))
        return np.asarray(direction(samples, self.width, joint) * slow)[None, :]

    def c_texts(self, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
        """The sign and what fades."""
        slow = f"pow(fabs({speed}) / {c_number(shape[0])}, {c_number(self.exponent)})"
        return (f"{c_sign(speed, self.width)} * exp(-{slow})",)


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
    steps = True
    symbols = (Symbol("fg", "f", "g", "sigmoidal friction, Gaz's phi 1"),)
    coefficients = (Coefficient("fg", "N m", "N", 0.0),)
    shapes = (Shape("slope", *_INVERSE, 20.0), Shape("shift", *_SPEED, 0.0, positive=False))

    def __post_init__(self) -> None:
        check_shapes(self)

    def rival(self, joints: tuple[str, ...]) -> Terms:
        """Coulomb friction."""
        return Terms((Coulomb(WIDTH, joints),))

    def range_of(self, motion: JointMotion) -> Float:
        """A width from a ten thousandth of the peak velocity to all of it; a shift up to half the peak."""
        return np.array([[2.0 / motion.peak, 2e4 / motion.peak], [-0.5 * motion.peak, 0.5 * motion.peak]])

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The sigmoid less its value at rest."""
        slope, shift = shape
        low, high = passed_speeds(samples, joint)
        if low is high:
            moving = expit(slope * (low + shift))
        else:
            moving = 0.5 + 0.5 * mean_sign(low + shift, high + shift, 2.0 / slope)
        return np.asarray(moving - expit(slope * shift))[None, :]

    def c_texts(self, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
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
    steps = True
    symbols = (
        Symbol("fzc", "f", "3", "friction that fades with speed, Zollo's f3"),
        Symbol("fze", "f", "5", "friction that rises with speed, Zollo's f5"),
    )
    coefficients = (Coefficient("fzc", "N m", "N"), Coefficient("fze", "N m", "N"))
    shapes = (Shape("fade", *_SPEED, 0.05), Shape("rise", *_INVERSE, 15.0))

    def __post_init__(self) -> None:
        check_shapes(self)
        if not self.width >= 0:
            raise UsageError("coulomb-width", found=f"width = {self.width}", expected="a velocity >= 0")

    def range_of(self, motion: JointMotion) -> Float:
        """Speeds from a thousandth of the peak velocity to all of it."""
        return np.array([[1e-3 * motion.peak, motion.peak], [1.0 / motion.peak, 1e3 / motion.peak]])

    def starts(self, motion: JointMotion) -> Float:
        """What fades and what rises changing over at one speed, fade = 1 / rise, at several speeds."""
        speed = motion.peak * 1e-3 ** (1.0 - np.array([0.2, 0.35, 0.5, 0.65, 0.8]))
        return np.stack([speed, 1.0 / speed], axis=1)

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """What fades with speed and what rises with it."""
        v = samples.dq[:, joint]
        speed, s = np.abs(v), direction(samples, self.width, joint)
        with np.errstate(divide="ignore", over="ignore"):
            rising = np.exp(-1.0 / (shape[1] * speed))
        return np.stack([-s * np.exp(-speed / shape[0]), -s * rising])

    def c_texts(self, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
        """What fades with speed and what rises with it."""
        s, fade, rise = c_sign(speed, self.width), c_number(shape[0]), c_number(shape[1])
        rising = f"(fabs({speed}) > 0.0 ? exp(-1.0 / ({rise} * fabs({speed}))) : 0.0)"
        return f"-{s} * exp(-fabs({speed}) / {fade})", f"-{s} * {rising}"


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
    steps = True
    symbols = (Symbol("fc", "f", "c", "Coulomb friction"),)
    remembers: ClassVar[bool] = True
    coefficients = (Coefficient("fc", "N m", "N", 0.0),)
    shapes = (Shape("distance", "rad", "m", 1e-3),)

    def __post_init__(self) -> None:
        check_shapes(self)

    def rival(self, joints: tuple[str, ...]) -> Terms:
        """Coulomb friction."""
        return Terms((Coulomb(WIDTH, joints),))

    def without_memory(self) -> Coulomb:
        """Coulomb friction with the width: z is the sign but for the distance behind each reversal."""
        return Coulomb(self.width, self.joints)

    def range_of(self, motion: JointMotion) -> Float:
        """From a millionth of the range of motion to a tenth, and no more than what samples remember."""
        return np.array([[1e-6 * motion.span, min(0.1 * motion.span, motion.reach)]])

    def exported(self, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
        """Coulomb friction, and the distance over which it builds up."""
        distance = np.nan_to_num(self.shape_table(robot)[:, 0], nan=self.shapes[0].typical)
        acting = joint_indices(robot, self.joints)
        return tuple(
            part
            for j, x, d in zip(acting, theta, distance, strict=True)
            for part in (OnJoint(j, float(x), MotionBasis.SIGN, self.width), Memory(j, float(d)))
        )

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The state z over the batch, from what the joint did before it."""
        past = samples.past.joints[joint] if samples.past is not None else ()
        path = samples.q[:, joint] / shape[0]
        return stop_operator([x / shape[0] for x in past], path)[None, :]
