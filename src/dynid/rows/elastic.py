"""Rows of elastic joints: with two encoders every joint has two equations, for link and motor."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.rows.momentum import CausalFilter, Hold, check_filter, filtered, require_finite
from dynid.rows.rows import Equations
from dynid.signals.samples import Samples
from dynid.terms.exports import Side
from dynid.terms.term import Terms, joint_indices

Form = Literal["total", "link"]
Equation = tuple[Int, Float]


@dataclass(frozen=True)
class ElasticRows:
    """Two equations per joint, for its link and its motor.

        link:   0 = l(q, dq, ddq) - K (theta - q) - ...
        motor:  tau = m(theta, dtheta, ddtheta) + K (theta - q) + ...

    l is the link's part of the model, m that of the motor, and tau the motor torque on the joint side. A joint without
    a second encoder has one equation, their sum.

    Parameters
    ----------
    joints : tuple of str
        Joints with two encoders; () = all.
    form : {"total", "link"}
        "total": the sum of both and the motor's equation, so that every left side is a measured torque. "link": the
        motor's and the link's. Without noise both are equivalent. With noise the link's equation, whose left side is
        zero, is best fulfilled by parameters near zero, and re-weighting by residuals drives them there.

    Raises
    ------
    UsageError
        For another form.

    References
    ----------
    Zollo et al. 2014, eqs 2 and 13.

    """

    joints: tuple[str, ...] = ()
    form: Form = "total"
    name: str = "elastic"

    def __post_init__(self) -> None:
        if self.form not in ("total", "link"):
            raise UsageError("elastic-form", found=f"form '{self.form}'", expected="'total' or 'link'")

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Joints, then the second equations of those with two encoders."""
        second = "motor" if self.form == "total" else "link"
        return robot.joint_names + tuple(f"{robot.joint_names[j]} {second}" for j in self.two_encoders(robot))

    def two_encoders(self, robot: RobotModel) -> tuple[int, ...]:
        """Indices of the joints with two encoders."""
        return joint_indices(robot, self.joints)

    def group_joints(self, robot: RobotModel) -> tuple[int, ...]:
        """Joint of every group."""
        return tuple(range(robot.n)) + self.two_encoders(robot)

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel per equation: its columns, and as target the measured or known torque."""
        elastic = self.two_encoders(robot)
        known, known_motor = terms.known_torque(robot, samples), terms.known_motor_torque(robot, samples)
        total = terms.torque_regressor(robot, samples, wanted, samples.tau - known)
        motor = terms.motor_regressor(robot, samples, wanted, samples.tau - known_motor)
        return between(_equations(total, range(robot.n)), _equations(motor, elastic), elastic, self.form)


def between(total: list[Equation], motor: list[Equation], elastic: Sequence[int], form: Form) -> Equations:
    """Equations of a form, from the sums of both sides, and from the motors' equations for joints with two encoders.

    Parameters
    ----------
    total : list of tuple
        Columns and panel of each joint, for the sum of link and motor.
    motor : list of tuple
        Columns and panel of each joint with two encoders, for its motor.
    elastic : sequence of int
        Joints with two encoders.
    form : {"total", "link"}
        Form, see `ElasticRows`.

    Returns
    -------
    Equations
        Equations.

    """
    if form == "total":
        first, second = total, motor
    else:
        motor_equations = dict(zip(elastic, motor, strict=True))
        first = [motor_equations.get(j, both_sides) for j, both_sides in enumerate(total)]
        second = [_difference(total[j], motor_equations[j]) for j in elastic]
    columns, panels = zip(*first, *second, strict=True)
    return Equations(columns, panels)


def _equations(panels: Panels, joints: Sequence[int]) -> list[Equation]:
    return [(panels.columns[j], panels.values[j]) for j in joints]


def _difference(total: Equation, motor: Equation) -> Equation:
    columns = np.union1d(total[0], motor[0])
    panel = np.zeros((len(columns) + 1, total[1].shape[1]))
    for sign, (indices, lines) in ((1.0, total), (-1.0, motor)):
        panel[np.searchsorted(columns, indices)] += sign * lines[:-1]
        panel[-1] += sign * lines[-1]
    return columns, panel


# Momentum rows of elastic joints: link and motor equations, filtered so that no acceleration is needed.


@dataclass(frozen=True)
class ElasticMomentumRows(ElasticRows):
    """Both equations of `ElasticRows`, filtered as f2[tau] = (f1[P - P(0)] + f2[R]) theta, without acceleration.

    P and R of the motors contain rotors with their gyroscopic coupling, springs and motor friction.

    Parameters
    ----------
    cutoff : float, Hz
        Cutoff frequency of f2.
    degree : {1, 2}
        Relative degree of f2.
    hold : {"linear", "zero"}
        Torque between samples, as in `MomentumRows`.

    Raises
    ------
    UsageError
        For options out of range. `equations` raises UnfitDataError if a signal is missing.

    References
    ----------
    Zollo et al. 2014, eqs 2 and 13, filtered as in Chavez-Olivares et al. 2012, eqs 12 to 14.

    """

    cutoff: float = option(5.0, "cutoff frequency of the equation filter", unit="Hz", above=0)
    degree: int = option(2, "relative degree of that filter", least=1, most=2)
    hold: Hold = "linear"
    name: str = "elastic_momentum"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.cutoff, self.degree, self.hold)

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel per equation: filtered columns and filtered torque, minus known torque."""
        require_finite(samples, self.name)
        f = CausalFilter(self.cutoff, self.degree, samples.rate)
        at_motors = Terms(tuple(term for term in terms if term.traits.side is Side.MOTOR))
        total, motor = (
            [filtered(f, forms, known, samples, j, self.hold) for j in joints]
            for forms, known, joints in (
                (
                    terms.momentum_form(robot, samples, wanted),
                    terms.known_momentum(robot, samples),
                    range(robot.n),
                ),
                (
                    terms.motor_momentum_form(robot, samples, wanted),
                    at_motors.known_momentum(robot, samples),
                    self.two_encoders(robot),
                ),
            )
        )
        return between(total, motor, self.two_encoders(robot), self.form)
