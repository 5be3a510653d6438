"""Two terms: friction with the square of velocity, and a friction curve with a shape of its own."""

from dataclasses import dataclass

import numpy as np

from dynid.base.options import option
from dynid.terms import Coefficient, CurveTerm, FrictionForm, JointTerm, Shape
from dynid.terms.residual_tests import FRICTION_FORM
from dynid.terms.term import Symbol


@dataclass(frozen=True)
class Quadratic(JointTerm):
    """tau_j = fq_j abs(dq_j) dq_j."""

    above: float = option(0.0, "speed where it begins", unit="rad/s", least=0)
    name: str = "frozen_quadratic"
    symbol = "fq"
    unit_revolute = "N m s^2/rad^2"
    unit_prismatic = "N s^2/m^2"
    symbols = (Symbol("fq", "f", "q", "friction with the square of velocity"),)
    group = FRICTION_FORM

    def basis(self, robot, samples):
        beyond = np.maximum(np.abs(samples.dq) - self.above, 0.0)
        return beyond * samples.dq

    @classmethod
    def features(cls, remains, joint):
        x = remains.motion.dq[:, joint] / remains.top_speed(joint)
        return (remains.friction(joint, np.abs(x) * x, lambda size: "It bends", "Add quadratic"),)


@dataclass(frozen=True)
class Arctangent(CurveTerm):
    """tau_j = fa_j atan(dq_j / bend_j), in place of Coulomb friction."""

    bend: float | tuple[float, ...] | None = None
    joints: tuple[str, ...] = ()
    name: str = "frozen_arctangent"
    coefficients = (Coefficient("fa", "N m", "N"),)
    shapes = (Shape("bend", "rad/s", "m/s", typical=0.1),)
    form = FrictionForm("frozen_arctangent", replaces=("coulomb",), tried=(0.3, 0.6))

    def range_of(self, motion):
        return np.array([[1e-3 * motion.peak, motion.peak]])

    def curve(self, robot, samples, joint, shape):
        return np.arctan(samples.dq[:, joint] / shape[0])[None, :]

    def c_texts(self, joint, shape, speed):
        return (f"atan({speed} / {float(shape[0])!r})",)
