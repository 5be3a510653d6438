"""Physically consistent bodies in Nini et al. 2024: the paper's condition on inertias beside the whole one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dynid.base import Float
from dynid.estimate import Estimate, Regression
from dynid.factor import stack
from dynid.feasible import (
    Block,
    ColumnBounds,
    Condition,
    Cone,
    Convex,
    body_columns,
    feasible_parameters,
    triangle,
)
from dynid.spatial import pseudo_inertia, symmetric
from dynid.terms import Column
from dynid_studies.nini_static import JOINTS
from dynid_studies.study import StudyPage, at_least, at_most

ONE_SHOT, LEAST_SQUARES = "one shot, weighted by motor", "one shot, least squares"
REAL = "one shot among physically consistent bodies"
LINKS = tuple(f"link {i + 1}" for i in range(len(JOINTS)))


@dataclass(frozen=True)
class PositiveInertias:
    """The paper's condition, lambda(I_i) > 0: every inertia about its joint's frame >= margin, kg m^2."""

    margin: float = 1e-6

    def conditions(self, columns: tuple[Column, ...], spread: Float) -> Sequence[Condition]:
        """One semidefinite 3 x 3 cone a body."""
        conditions = []
        for ten in body_columns(columns):
            size, matrix = spread[ten[4]], np.zeros((6, len(columns)))
            for k, place in enumerate(ten[4:]):
                matrix[:, place] = triangle(symmetric(np.eye(6)[k])) / size
            offset = -self.margin / size * triangle(np.eye(3))
            conditions.append(
                Condition(
                    f"inertia of body {columns[ten[0]].owner + 1} > 0",
                    Block(Cone.SEMIDEFINITE, matrix, offset),
                )
            )
        return conditions


def optimised(regression: Regression, free: Estimate, constraints: Sequence[Convex]) -> Float:
    """Parameters (p,): weighted least squares under convex constraints, with the weights of a free fit."""
    b = regression.base.rank
    weights = free.weights / float(np.mean(free.weights * free.sigma**2))
    R = stack(regression.factors.total, regression.base.independent, weights)
    prior = np.array([column.prior for column in regression.columns])
    A = R[:b, :b] @ regression.base.B
    return feasible_parameters(
        A, R[:b, b], regression.columns, constraints, prior, regression.spread, 1e-5
    ).parameters


def add_bodies(
    page: StudyPage,
    joint: Regression,
    motor: Regression,
    fits: Mapping[str, Estimate],
    mse: Mapping[str, Float],
) -> None:
    """Least eigenvalues of pseudo-inertias by link, and the cost of feasible bodies.

    joint, motor: rows of either.    fits: by name.    mse: by name, (6,).
    """
    plain, feasible, ordinary = fits[ONE_SHOT], fits[REAL], fits[LEAST_SQUARES]
    page.section("Physically consistent bodies")
    page.text(
        """The paper asks for inertia matrices with positive eigenvalues, by a global search. That is not enough: a
        link is physically consistent if its 4 x 4 pseudo-inertia has no negative eigenvalue. Both conditions are
        convex, so one semidefinite program finds the optimum and proves it."""
    )
    paper = optimised(joint, ordinary, [PositiveInertias(), ColumnBounds()])
    eigenvalues = {
        "least squares": _least(ordinary.parameters),
        "least squares, inertias above zero: the paper's": _least(paper),
        "weighted by motor": _least(plain.parameters),
        "weighted by motor, among physically consistent bodies": _least(feasible.parameters),
    }
    page.table(
        "Least eigenvalue of the pseudo-inertia by link",
        ("", *LINKS),
        [(name, *map(float, values)) for name, values in eigenvalues.items()],
        name="least_eigenvalues",
    )
    page.results(
        "Feasible bodies",
        at_most(
            "paper_condition",
            "inertias above zero: least eigenvalue of a pseudo-inertia",
            float(eigenvalues["least squares, inertias above zero: the paper's"].min()),
            -1e-3,
            unit="kg m²",
        ),
        at_least(
            "feasible",
            "physically consistent bodies: the same",
            float(eigenvalues["weighted by motor, among physically consistent bodies"].min()),
            0.0,
            unit="kg m²",
        ),
        at_most(
            "feasible_cost",
            "objective over that of least squares",
            _cost(motor, plain, feasible) / _cost(motor, plain, plain),
            1.01,
        ),
        at_most(
            "feasible_joint2",
            "squared error of joint 2",
            float(mse[REAL][1]),
            2.0,
            unit="(N m)²",
        ),
    )  # fmt: skip


def _least(parameters: Float) -> Float:
    bodies = parameters[:60].reshape(6, 10)
    return np.array([np.linalg.eigvalsh(pseudo_inertia(body))[0] for body in bodies])


def _cost(motor: Regression, plain: Estimate, estimate: Estimate) -> float:
    theta = np.zeros(len(estimate.parameters))
    theta[motor.base.independent] = motor.base.reduce(estimate.parameters)
    groups = zip(plain.weights, motor.factors.total, strict=True)
    return float(sum(w * f.residual_square(theta) for w, f in groups))
