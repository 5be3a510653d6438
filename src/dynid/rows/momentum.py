"""Momentum rows: the filtered inverse dynamic model, which needs no acceleration."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.rows.momentum_filter import CausalFilter, Hold, begin, check_filter, check_stick, require_finite
from dynid.rows.rows import Equations
from dynid.signals.samples import Samples
from dynid.terms.term import Terms


@dataclass(frozen=True)
class MomentumRows:
    """f2[tau] = (f1[P - P(0)] + f2[R]) theta, grouped by joint; P theta = M dq, R theta = -C' dq + g + friction.

    cutoff: Hz.    degree: relative degree of f2; 2 lets noise of the velocity through less than 1.
    hold: "zero" where the torque is constant between samples, as a digital controller commands it; else "linear".
    stick: rad/s (m/s). A joint that is not faster may be held by dry friction of any value, so its equation pauses and
        begins anew, f1[P - P(t)], when it slides again; 0 = it never sticks.
    Source: Chavez-Olivares et al. 2012 eqs 12 to 14, with R in place of the misprinted eq. 34.

    Raises UsageError for options out of range; `equations` raises UnfitDataError where a signal is missing.
    """

    cutoff: float = option(5.0, "cut-off of the filter of the equations", unit="Hz", above=0)
    degree: int = option(2, "its relative degree", least=1, most=2)
    hold: Hold = "linear"
    stick: float = option(0.0, "a joint not faster than this pauses", unit="rad/s or m/s", least=0)
    name: str = "momentum"

    def __post_init__(self) -> None:
        check_filter(self.cutoff, self.degree, self.hold)
        check_stick(self.stick)

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
            *(filtered(f, (P, R), known, samples, j, self.hold, self.stick) for j in range(robot.n)),
            strict=True,
        )
        return Equations(columns, panels)


def filtered(
    f: CausalFilter,
    forms: tuple[Panels, Panels],
    known: tuple[Float, Float],
    samples: Samples,
    joint: int,
    hold: Hold,
    stick: float = 0.0,
) -> tuple[Int, Float]:
    """Columns and panel of one filtered equation: (P, R) of the model, known torque (T, n), measured torque.

    While the joint sticks, and at the first sample of each stretch of sliding, the equation is 0 = 0.
    """
    P, R = forms
    union = np.union1d(P.columns[joint], R.columns[joint])
    momentum, force = (np.zeros((len(union) + 1, len(samples))) for _ in range(2))
    momentum[np.searchsorted(union, P.columns[joint])] = P.values[joint]
    force[np.searchsorted(union, R.columns[joint])] = R.values[joint]
    momentum[-1], force[-1] = -known[0][:, joint], -known[1][:, joint]
    panel = np.zeros((len(union) + 1, len(samples)))
    for part in sliding(samples, joint, stick):
        panel[:, part] = f.run(f.steps(momentum[:, part], force[:, part]))
        panel[-1:, part] += f.of_torque(samples.tau[None, part, joint], hold)
    return union, panel


def sliding(samples: Samples, joint: int, stick: float) -> list[slice]:
    """Stretches of samples through which a joint is faster than `stick`; all that count for stick = 0."""
    start = begin(samples)
    if stick == 0:
        return [slice(start, len(samples))]
    moves = np.abs(samples.dq[start:, joint]) > stick
    # A change of direction between two samples is a stop as well.
    turns = np.diff(np.sign(samples.dq[start:, joint]), prepend=0.0) != 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], moves, [False]])))
    found = []
    for a, b in zip(edges[::2], edges[1::2], strict=True):
        cuts = [a, *(np.flatnonzero(turns[a + 1 : b]) + a + 1), b]
        found += [slice(start + int(x), start + int(y)) for x, y in pairwise(cuts) if y - x > 1]
    return found
