"""The static step of Nini et al. 2024: Table I for three ideal arms, identified and optimised."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from dynid.base import Float
from dynid.estimate import OLS, Estimate, FeasibleFit, Regression, parameter_spread
from dynid.factor import influence
from dynid.feasible import UNLIMITED
from dynid.robot import RobotModel
from dynid.terms import RigidBody, Terms
from dynid.verbs.statics import StaticEstimate, identify_statics
from dynid_studies.nini_arm import (
    MODEL,
    PRELOAD,
    STIFFNESS,
    arm,
    at_rest,
    known_poses,
    static_grid,
    truth,
    with_noise,
)
from dynid_studies.study import Cell, StudyPage, at_most, near, reported

POSES, NOISE = 1600, 0.05
JOINTS = tuple(f"J{i + 1}" for i in range(6))
# Tables I and II: mean squared error (N m)^2 and standard deviation of the error (N m), identified and optimised.
TABLE_1 = {
    "identification": (
        (5.08e-33, 1.41e-4, 6.66e-4, 2.09e-5, 6.02e-5, 1.43e-11),
        (7.00e-15, 1.19e-2, 2.58e-2, 4.56e-3, 7.75e-3, 3.77e-6),
    ),
    "optimisation": (
        (5.08e-33, 1.64e-4, 6.82e-4, 2.93e-5, 6.02e-5, 1.36e-10),
        (7.00e-17, 1.19e-2, 2.58e-2, 4.56e-3, 7.75e-3, 8.18e-6),
    ),
}
TABLE_2 = {
    "identification": (
        (169.69, 803.85, 6497.74, 15.73, 14.02, 0.53),
        (12.54, 24.19, 74.50, 2.89, 3.67, 0.48),
    ),
    "optimisation": (
        (169.67, 1071.41, 6821.87, 16.89, 14.04, 0.56),
        (12.54, 25.59, 74.14, 3.07, 3.73, 0.52),
    ),
}


@dataclass(frozen=True, eq=False)
class Statics:
    """The static step in its variants: weighted by joint, by least squares (20), and optimised within CAD's limits."""

    weighted: StaticEstimate
    plain: Estimate
    optimised: Estimate


def identified(robot: RobotModel, terms: Terms, q: Float, measured: Float, room: float = 0.2) -> Statics:
    """Gravity parameters and springs from poses (P, 6) and torque (P, 6) at the joints.

    room: how far an optimised mass may lie from CAD, relative, and a centre of mass, m.
    """
    static = identify_statics(robot, known_poses(q, measured), terms)
    base, columns = static.estimate.base, static.estimate.columns
    factors = static.factors.select(base.mask)
    plain = OLS().fit(Regression(columns, base, factors, np.ones(len(columns))))
    # CAD values of masses, centres of mass and springs, each wrong by up to a tenth.
    rng = np.random.default_rng(7)
    cad = robot.inertia_prior[:6] * (1 + rng.uniform(-0.1, 0.1, (6, 10)))
    springs = {"k_springs": 1.1 * STIFFNESS, "c_springs": 0.9 * PRELOAD}
    known = {c.name: float(value) for c, value in zip(columns, cad.ravel(), strict=False)} | springs
    guessed = tuple(replace(c, prior=known.get(c.name, np.nan)) for c in columns)
    limits = [
        {
            "body": i + 1,
            "mass": ((1 - room) * body[0], (1 + room) * body[0]),
            "centre_lower": tuple(body[1:4] / body[0] - room),
            "centre_upper": tuple(body[1:4] / body[0] + room),
        }
        for i, body in enumerate(cad)
    ]
    spread = parameter_spread(robot, guessed, influence(static.factors))
    for name, value in springs.items():
        spread = np.where([c.name == name for c in columns], 0.3 * abs(value), spread)
    fit = FeasibleFit(strength=1e-4, prior="euclidean", limits=limits, density=UNLIMITED)
    return Statics(static, plain, fit.fit(Regression(guessed, base, factors, spread)))


def mse_and_sde(error: Float) -> tuple[Float, Float]:
    """Mean square (6,) and standard deviation (6,) of errors (T, 6)."""
    return np.asarray((error**2).mean(axis=0)), np.asarray(error.std(axis=0))


def printed_rows(table: Mapping[str, tuple[tuple[float, ...], ...]]) -> list[tuple[Cell, ...]]:
    """Rows of Table I or II as printed."""
    return [
        (f"printed, {how}: {kind}", *row)
        for how, pair in table.items()
        for kind, row in zip(("MSE", "SDE"), pair, strict=True)
    ]


def add_static(page: StudyPage) -> Statics:
    """Table I, printed and in kind, for the three ideal arms; returns the third's estimates."""
    page.section("The static step (Table I)")
    page.text(
        f"""{POSES} poses spread over the workspace, noise of {100 * NOISE:g} % of each motor's torque range, each pose
        approached from both directions, so that stiction cancels. Three ideal arms as in the paper: a plain one, one
        with couplings, one with couplings and springs. Identified: least squares (20). Optimised: masses and centres
        of mass within limits from a CAD model that is wrong by up to a tenth, with physically consistent links; the
        paper searches globally, but the problem is convex. Errors are relative to the motor torque without noise.

        Table I cannot contain the stated noise in all columns: joint 6 with 1.4e-11 is exact to seven digits while
        joints 2 to 5 are not. And an error's standard deviation cannot exceed the root of its mean square: of the 24
        pairs of Tables I and II one does, link 1 identified, which should read 7e-17."""
    )
    rows = printed_rows(TABLE_1)
    cases: dict[str, tuple[Statics, Float, Float]] = {}
    arms = (
        ("plain", arm(coupled=False), Terms((RigidBody(),))),
        ("coupled", arm(), Terms((RigidBody(),))),
        ("coupled, springs", arm(), MODEL),
    )
    for name, robot, terms in arms:
        q = static_grid(robot, POSES)
        clean = terms.torque(robot, at_rest(q), truth(robot, terms))
        statics = identified(robot, terms, q, with_noise(robot, q, clean, NOISE, 99))
        sets = {
            "least squares": statics.plain.full_vector,
            "weighted by joint": statics.weighted.estimate.full_vector,
            "optimised": statics.optimised.parameters,
        }
        for how, theta in sets.items():
            error = terms.torque(robot, at_rest(q), theta) - clean
            square, deviation = mse_and_sde(
                robot.drive.motor_torque(q, error) - robot.drive.motor_torque(q, 0 * q)
            )
            rows.append((f"{name}, {how}: MSE", *map(float, square)))
            if name == "coupled, springs":
                rows.append((f"{name}, {how}: SDE", *map(float, deviation)))
        cases[name] = (statics, q, clean)
    page.table(
        "Table I: mean square (MSE, (N m)²) and standard deviation (SDE, N m) of the static error, at the motors",
        ("", *JOINTS),
        rows,
        name="table_1",
    )
    statics, q, clean = cases["coupled, springs"]
    _static_results(page, statics, q, clean)
    return statics


def _static_results(page: StudyPage, statics: Statics, q: Float, clean: Float) -> None:
    robot = arm()

    def mse(theta: Float) -> Float:
        return mse_and_sde(MODEL.torque(robot, at_rest(q), theta) - clean)[0]

    ordinary, weighted = mse(statics.plain.full_vector), mse(statics.weighted.estimate.full_vector)
    optimised = mse(statics.optimised.parameters)
    impossible = sum(
        deviation**2 > 1.02 * square
        for table in (TABLE_1, TABLE_2)
        for squares, deviations in table.values()
        for square, deviation in zip(squares, deviations, strict=True)
    )
    page.results(
        "Static parameters",
        near(
            "impossible_entries",
            "printed deviations beyond the root of their mean square, Tables I and II",
            float(impossible),
            0.0,
            0.0,
            explanation="link 1 of the identification in Table I: 7.00e-15 beside a mean square of 5.08e-33, whose "
            "root is 7.1e-17, the value printed beside it for the optimisation",
            right=1.0,
        ),
        replace(
            reported(
                "static_rank",
                "parameters that these poses determine",
                float(statics.weighted.estimate.base.rank),
            ),
            least=11.0,
            most=11.0,
        ),
        at_most("static_joint1", "squared error of joint 1", float(weighted[0]), 1e-20, unit="(N m)²"),
        at_most(
            "static_wrist",
            "weighted over plain squared error, joint 6",
            float(weighted[5] / ordinary[5]),
            1e-2,
            explanation="Equation 20 is unweighted: the shoulder's noise, a thousand times the wrist's, is spread over "
            "all joints. Weights by joint cost nothing.",
        ),
        at_most(
            "static_optimised",
            "joints 2 and 3: squared error optimised over weighted, at the joints",
            float(optimised[1:3].sum() / weighted[1:3].sum()),
            1.2,
        ),
        at_most(
            "static_limits",
            "least eigenvalue of an optimised body below zero",
            float(max(-least_of(statics.optimised), 0.0)),
            0.0,
        ),
    )


def least_of(estimate: Estimate) -> float:
    """Least eigenvalue of all pseudo-inertias of an estimate's bodies."""
    from dynid.feasible import least_eigenvalues

    return float(least_eigenvalues(estimate.columns, estimate.parameters).min())
