"""Reverse engineering of Gaz et al. 2019: 43 coefficients from a controller's mass matrices and gravity torques."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from dynid.base import Float, read_table
from dynid.factor import structural_base
from dynid.kernel import gravity_torque, mass_matrix
from dynid.papers.reveal import parameters_from_model
from dynid.rows import GRAVITY_TORQUE, MASS_MATRIX, InertiaRows, TorqueRows
from dynid.signals import Samples
from dynid_studies.panda import (
    COEFFICIENTS,
    PRINTED_2,
    RIGID,
    arm,
    bodies_of_coefficients,
    combinations,
    feasible_set,
    plain,
    random_configurations,
    reverse_engineered,
)
from dynid_studies.study import StudyPage, at_most, near, reported, within

# The supplement's misfit of all entries of M and g, relative to them.
MISFIT, CONDITION = 3.15e-4, 48.9
DOUBTFUL = 0.3


@dataclass(frozen=True, eq=False)
class Stack:
    """Equation (20) for the 43 coefficients: lines (L, 43), left side (L,)."""

    lines: Float
    left: Float

    @staticmethod
    def of(q: Float, M: Float, g: Float) -> Stack:
        """The lower triangle of M (T, 7, 7) and g (T, 7) at q (T, 7), without joint 1 of g, which is zero."""
        base = structural_base(arm(), RIGID, TorqueRows())
        motion = Samples.from_motion(q, np.zeros_like(q), np.zeros_like(q))
        samples = replace(motion, extra={MASS_MATRIX: M, GRAVITY_TORQUE: g})
        equations = InertiaRows().equations(arm(), RIGID, samples, base.mask)
        lines, left = [], []
        for columns, panel in list(zip(equations.columns, equations.panels, strict=True))[1:]:
            full = np.zeros((len(q), len(base.mask)))
            full[:, columns] = panel[:-1].T
            lines.append(full[:, base.independent])
            left.append(panel[-1])
        return Stack(
            np.concatenate(lines) @ np.linalg.inv(combinations()[:, base.independent]), np.concatenate(left)
        )

    def noisy(self, misfit: float, seed: int = 0) -> Stack:
        """The same with white noise that is a share of the left side's size."""
        noise = np.random.default_rng(seed).normal(size=len(self.left))
        size = misfit * np.linalg.norm(self.left) / np.linalg.norm(noise)
        return replace(self, left=self.left + size * noise)

    def fit(self) -> tuple[Float, Float, float]:
        """Least squares (21): coefficients (43,), their standard deviations, relative error of the prediction."""
        solution = np.linalg.lstsq(self.lines, self.left, rcond=None)[0]
        missed = self.left - self.lines @ solution
        variance = float(missed @ missed) / (len(missed) - len(solution))
        covariance = variance * np.linalg.inv(self.lines.T @ self.lines)
        error = float(np.linalg.norm(missed) / np.linalg.norm(self.left))
        return np.asarray(solution), np.sqrt(np.diag(covariance)), error


def add_coefficients(page: StudyPage, known: Path | None) -> None:
    """Ranks, the model revealed without noise, and the coefficients with deviations, printed beside ours."""
    page.section("Reverse engineering: 43 coefficients from 1010 configurations")
    q = _configurations(known)
    whence = (
        "the paper's own" if known is not None else "drawn at random here: the paper's own are not at hand"
    )
    page.text(
        f"""The robot's controller reports its mass matrix M(q) and gravity torque g(q). Both are linear in the
        parameters, so their values at 1010 configurations ({whence}) determine all coefficients that matter for the
        torque, without a motion, friction or noise of sensors. The controller is not available and is replaced by a
        model with the paper's links and by one with exactly the 43 printed coefficients. `dynid reveal` does the same
        for any table of M and g.

        Ranks show what is identifiable: M alone does not contain the gravity parameters, g alone determines 12
        numbers, and a tilted base adds two."""
    )
    robot, truth = arm(), feasible_set()
    M, g = mass_matrix(robot.tree, truth, q), gravity_torque(robot.tree, truth, q)
    revealed = parameters_from_model(robot, q, M, g)
    beta = revealed.estimate.base.reduce(truth)
    torque = structural_base(robot, RIGID, TorqueRows())
    tilted = replace(robot, gravity=np.array([3.0, 2.0, -9.0]))
    C, P = combinations(), combinations((PRINTED_2,))
    base = revealed.estimate.base
    page.results(
        "Ranks, and the model revealed",
        near("rank", "rank of the stack of M and g", float(base.rank), 43.0, 0.0),
        near("rank_torque", "rank of the torque", float(torque.rank), 43, 0),
        within("rank_mass", "M alone", float(parameters_from_model(robot, q, M).estimate.base.rank), 39, 0),
        within(
            "rank_gravity",
            "g alone",
            float(parameters_from_model(robot, q, gravity=g).estimate.base.rank),
            12,
            0,
        ),
        within(
            "rank_tilted",
            "M and g on a tilted base",
            float(structural_base(tilted, RIGID, InertiaRows()).rank),
            45,
            0,
        ),
        at_most(
            "revealed",
            "greatest error of a coefficient, of the greatest one",
            float(np.abs(revealed.estimate.value - beta).max() / np.abs(beta).max()),
            1e-9,
        ),
        at_most("revealed_mass", "greatest misfit of M", revealed.mass_error, 1e-9),
        at_most("revealed_gravity", "greatest misfit of g", revealed.gravity_error, 1e-9),
        at_most(
            "base_combinations",
            "greatest distance of the 43 from base combinations",
            float(np.abs(C - C[:, base.independent] @ base.B).max()),
            1e-12,
        ),
        near(
            "coefficient_2",
            "distance of number 2 as printed",
            float(np.abs(P - P[:, base.independent] @ base.B).max()),
            0.0,
            1e-6,
            explanation="m3 stands in the bracket 0.1067 (m3 + m4 + ...) as well as before it; with the bracket from "
            "m4 on it is a base combination, and only then are all 43",
            right=0.1066625,
        ),
    )
    _table_3(page, q, 0.1 if known is not None else 2.0)


def _configurations(known: Path | None) -> Float:
    if known is None:
        return random_configurations()
    table = read_table(known)
    return np.stack([np.asarray(table[f"q{j}"]) for j in range(1, 8)], axis=1)


def _table_3(page: StudyPage, q: Float, tolerance: float) -> None:
    tree, truth = arm().tree, bodies_of_coefficients()
    stack = Stack.of(q, mass_matrix(tree, truth, q), gravity_torque(tree, truth, q))
    value, std, error = stack.noisy(MISFIT).fit()
    printed, spread = reverse_engineered(), np.array([row[2] for row in COEFFICIENTS])
    ours = 100 * std / np.abs(printed)
    away = (value - printed) / std
    bodies = combinations() @ feasible_set()
    page.text(
        f"""Table III of the supplement: a model with exactly the printed coefficients, with white noise of
        {100 * MISFIT:.4g} % on all entries of M and g, which is the misfit that the paper reports. Least squares
        recovers the coefficients, the printed deviations, the condition number, and the same two unreliable
        coefficients: noise of that size explains all of the paper's intervals. Since the model has the printed
        coefficients and the noise the printed misfit, all of this except the condition number is circular and has no
        bound here. The last two columns are the coefficients of the published links, as printed and as computed from
        these links."""
    )
    page.table(
        "Table III: the 43 coefficients",
        (
            "",
            "coefficient",
            "printed",
            "ours",
            "printed deviation, %",
            "ours, %",
            "of the bodies, printed",
            "ours",
        ),
        [
            (i, plain(row[0]), row[1], float(a), row[2], float(b), row[3], float(c))
            for i, (row, a, b, c) in enumerate(zip(COEFFICIENTS, value, ours, bodies, strict=True), start=1)
        ],
        digits=4,
        note="d3, d5, a4, a7 are the lengths of the arm; mcx2 is c2x m2, Iyy2 is J2yy about the joint's frame. Units "
        "kg m² and kg m.",
        name="table_3",
    )
    page.results(
        "The fit",
        near(
            "condition", "condition number of the regressor", float(np.linalg.cond(stack.lines)), CONDITION, tolerance
        ),
        reported("misfit", "relative error of the prediction, % (set by the noise)", 100 * error, 0.031),
        reported("doubtful", "coefficients with a deviation over 30 %", float((ours > 100 * DOUBTFUL).sum()), 2.0),
        reported(
            "coefficients",
            "distance of ours from the printed ones, rms in standard deviations",
            float(np.sqrt(np.mean(away**2))),
        ),
        reported(
            "deviations", "median ratio of our deviations to the printed ones", float(np.median(ours / spread))
        ),
        reported("deviations_worst", "greatest distance of that ratio from 1", float(np.abs(ours / spread - 1).max())),
    )  # fmt: skip
