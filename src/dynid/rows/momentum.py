"""Momentum rows: the filtered inverse dynamic model, which needs no acceleration."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Bool, Float, Int
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.rows.momentum_filter import CausalFilter, Hold, begin, check_filter, require_finite
from dynid.rows.rows import Equations
from dynid.signals.samples import Samples
from dynid.terms.term import Terms


@dataclass(frozen=True)
class MomentumRows:
    """f2[tau] = (f1[P - P(0)] + f2[R]) theta, grouped by joint; P theta = M dq, R theta = -C' dq + g + friction.

    cutoff: Hz.    degree: relative degree of f2; 2 lets noise of the velocity through less than 1.
    hold: "zero" where the torque is constant between samples, as a digital controller commands it; else "linear".
    Source: Chavez-Olivares et al. 2012 eqs 12 to 14, with R in place of the misprinted eq. 34.

    Raises UsageError for options out of range; `equations` raises UnfitDataError where a signal is missing.
    """

    cutoff: float = 5.0
    degree: int = 2
    hold: Hold = "linear"
    name: str = "momentum"

    def __post_init__(self) -> None:
        check_filter(self.cutoff, self.degree, self.hold)

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """The joints."""
        return robot.joint_names

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel a joint: filtered columns and filtered torque, less what is known of it."""
        require_finite(samples, self.name)
        f = CausalFilter(self.cutoff, self.degree, samples.rate)
        P, R = terms.momentum_form(robot, samples, wanted)
        known = terms.known_momentum(robot, samples)
        columns, panels = zip(
            *(filtered(f, (P, R), known, samples, j, self.hold) for j in range(robot.n)), strict=True
        )
        return Equations(columns, panels)


def filtered(
    f: CausalFilter,
    forms: tuple[Panels, Panels],
    known: tuple[Float, Float],
    samples: Samples,
    joint: int,
    hold: Hold,
) -> tuple[Int, Float]:
    """Columns and panel of one filtered equation: (P, R) of the model, known torque (T, n), measured torque."""
    start, T = begin(samples), len(samples)
    P, R = forms
    union = np.union1d(P.columns[joint], R.columns[joint])
    momentum, force = (np.zeros((len(union) + 1, T - start)) for _ in range(2))
    momentum[np.searchsorted(union, P.columns[joint])] = P.values[joint][:, start:]
    force[np.searchsorted(union, R.columns[joint])] = R.values[joint][:, start:]
    momentum[-1], force[-1] = -known[0][start:, joint], -known[1][start:, joint]
    panel = np.zeros((len(union) + 1, T))
    panel[:, start:] = f.run(f.steps(momentum, force))
    panel[-1:, start:] += f.of_torque(samples.tau[None, start:, joint], hold)
    return union, panel
