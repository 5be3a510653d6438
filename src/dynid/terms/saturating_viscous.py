"""Viscous friction that saturates: grease that thins under shear, gears that float up."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import FrictionForm, JointMotion
from dynid.terms.curve import Coefficient, CurveTerm, Shape, ShapeValue, check_shapes
from dynid.terms.exports import c_number
from dynid.terms.friction import Viscous
from dynid.terms.residual_tests import FRICTION_FORM, Feature, Remains
from dynid.terms.term import Symbol, Terms

# Share of the usual top speed at which it bends in what residuals are searched for.
BENDS = 0.3


@dataclass(frozen=True)
class SaturatingViscous(CurveTerm):
    """Viscous friction that bends over: tau_j = fvs_j dq_j / (1 + |dq_j| / velocity_j), in place of `viscous`.

    fvs is its slope at rest, fvs velocity the friction that it never exceeds, so that it is bounded at any speed.
    velocity: rad/s (m/s), at which it is half of what a straight line would be; None = estimated.
    joints: names of the joints it acts on; empty = all.
    """

    velocity: ShapeValue = None
    joints: tuple[str, ...] = ()
    name: str = "saturating_viscous"
    group = FRICTION_FORM
    symbols = (Symbol("fvs", "f", "v,s", "viscous friction at low speed, saturating"),)
    coefficients = (Coefficient("fvs", "N m s/rad", "N s/m", 0.0),)
    shapes = (Shape("velocity", "rad/s", "m/s", 0.5),)
    form = FrictionForm("saturating", ("viscous",), (0.2, 0.4, 0.6, 0.8))

    def __post_init__(self) -> None:
        check_shapes(self)

    def rival(self, joints: tuple[str, ...]) -> Terms:
        """Viscous friction."""
        return Terms((Viscous(joints),))

    @classmethod
    def features(cls, remains: Remains, joint: int) -> tuple[Feature, ...]:
        """A slope at low speed that gives way to a flatter one."""
        x = remains.motion.dq[:, joint] / remains.top_speed(joint)
        seen, advice = "Friction that flattens at high speed", "Try saturating_viscous"
        return (remains.friction(joint, x / (1.0 + np.abs(x) / BENDS), lambda _: seen, advice),)

    def range_of(self, motion: JointMotion) -> Float:
        """From a hundredth of the peak velocity, which is a step, to ten times it, which is a straight line."""
        return np.array([[1e-2 * motion.peak, 10.0 * motion.peak]])

    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """The hyperbola."""
        v = samples.dq[:, joint]
        return np.asarray(v / (1.0 + np.abs(v) / shape[0]))[None, :]

    def c_texts(self, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
        """The hyperbola."""
        return (f"({speed} / (1.0 + fabs({speed}) / {c_number(shape[0])}))",)
