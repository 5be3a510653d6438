"""Momentum rows of elastic joints: link and motor equations, filtered so that no acceleration is needed."""

from __future__ import annotations

from dynid.base.arrays import Bool
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows, between
from dynid.rows.momentum import filtered
from dynid.rows.momentum_filter import CausalFilter, Hold, check_filter, require_finite
from dynid.rows.rows import Equations
from dynid.signals.samples import Samples
from dynid.terms.term import Side, Terms


@dataclass(frozen=True)
class ElasticMomentumRows(ElasticRows):
    """Both equations of `ElasticRows`, each as f2[tau] = (f1[P - P(0)] + f2[R]) theta.

    P and R of the motors' part hold rotors with their gyroscopic coupling, springs and motor friction.
    cutoff: Hz.    degree: relative degree of f2.    hold: as in `MomentumRows`.
    Source: Zollo et al. 2014, eqs 2 and 13, filtered as in Chavez-Olivares et al. 2012, eqs 12 to 14.

    Raises UsageError for options out of range; `equations` raises UnfitDataError where a signal is missing.
    """

    cutoff: float = option(5.0, "cut-off of the filter of the equations", unit="Hz", above=0)
    degree: int = option(2, "its relative degree", least=1, most=2)
    hold: Hold = "linear"
    name: str = "elastic_momentum"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_filter(self.cutoff, self.degree, self.hold)

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel an equation: filtered columns and filtered torque, less what is known of it."""
        require_finite(samples, self.name)
        f = CausalFilter(self.cutoff, self.degree, samples.rate)
        at_motors = Terms(tuple(term for term in terms if term.side is Side.MOTOR))
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
