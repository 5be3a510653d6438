"""Study of Nini et al. 2024: static and dynamic identification of a painting arm with coupled joints and springs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from dynid.arrays import Float
from dynid.estimate.estimator import Estimate, Regression
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.least_squares import OLS, WLS
from dynid.report.figures import BLUE, CYCLE, GREY, Axis, Panel, column_of, line, row_of
from dynid.robot.model import RobotModel
from dynid.rows import MotorRows, TorqueRows
from dynid.signals.samples import Samples
from dynid.spatial.inertia import pseudo_inertia
from dynid.statics import StaticEstimate, identify_statics
from dynid.studies.nini_arm import (
    MODEL,
    PRELOAD,
    STIFFNESS,
    arm,
    at_rest,
    known_poses,
    motion,
    regression,
    static_grid,
    truth,
    with_noise,
)
from dynid.studies.nini_checks import check_errors, check_model, check_ranks
from dynid.studies.study import Dose, Paper, StudyPage, at_most, told

PAPER = Paper(
    name="nini2024",
    title="Coupled joints and load-assisting springs",
    source="Nini, Ferraguti, Ragaglia, Bertuletti, Di Napoli and Fantuzzi 2024",
    summary="A painting arm of six joints with a parallelogram, a bevel pair and two springs: gravity parameters from "
    "static poses, the rest from motion, beside everything in one shot.",
)
POSES, MOTIONS, SAMPLES, NOISE = 1600, 7, 70_000, 0.05
# Table I, squared error at the motors, (N m)^2.
TABLE_1 = (5.08e-33, 1.41e-4, 6.66e-4, 2.09e-5, 6.02e-5, 1.43e-11)
JOINTS = tuple(f"J{i + 1}" for i in range(6))


@dataclass(frozen=True, eq=False)
class Experiment:
    """The ideal arm's data.    samples: a motion.    noise: of the motors' torque range.

    Fewer samples with less noise hold the same information.
    """

    robot: RobotModel
    theta: Float
    samples: int
    noise: float

    def motions(self, noisy: bool = True, count: int | None = None) -> Iterator[Samples]:
        """The motions, one after the other; count: samples of each, None = all."""
        for seed in range(MOTIONS):
            clean = motion(self.robot, count or self.samples, seed)[1]
            tau = MODEL.torque(self.robot, clean, self.theta)
            if noisy:
                tau = with_noise(self.robot, clean.q, tau, self.noise, 100 + seed)
            yield replace(clean, tau=tau)

    def mse(self, found: Float) -> Float:
        """Mean squared error of the torque on the motions without noise, by joint, (N m)^2."""
        errors = [MODEL.torque(self.robot, s, found) - s.tau for s in self.motions(noisy=False, count=4000)]
        return np.asarray(np.mean([(e**2).mean(axis=0) for e in errors], axis=0))


def study(dose: Dose, page: StudyPage) -> None:
    """The model, ranks, the static step, the dynamic one in its variants, feasible bodies, errors of the model."""
    robot = arm()
    share = dose.pick(0.1, 1.0)
    made = Experiment(robot, truth(robot), round(share * SAMPLES), NOISE * np.sqrt(share))
    check_model(page, robot)
    check_ranks(page, robot)
    static = _static(page, made)
    found = _dynamic(page, made, static, dose.full)
    _bodies(page, made, found)
    check_errors(page, robot)
    page.section("The real robot")
    page.text(
        """Table II and figure 5 of the paper belong to a GA-OL, whose logs are not published: they cannot be
        recomputed. Its joint 3 misses by 74 N m in the static step, where none of the errors above shows: what is left
        there are the springs' geometry and stiction. Approaching each pose from both directions, as dynid asks for,
        takes the latter out; the geometry is sought by `dynid.spring_search`."""
    )


def _static(page: StudyPage, made: Experiment) -> StaticEstimate:
    page.section("The static step (Table I)")
    robot, theta = made.robot, made.theta
    q = static_grid(robot, POSES)
    clean = MODEL.torque(robot, at_rest(q), theta)
    measured = with_noise(robot, q, clean, NOISE, 99)
    static = identify_statics(robot, known_poses(q, measured), MODEL)
    base, columns = static.estimate.base, static.estimate.columns
    plain = OLS().fit(Regression(columns, base, static.factors.select(base.mask), np.ones(len(columns))))

    def mse(estimate: Estimate) -> Float:
        return np.asarray(((MODEL.torque(robot, at_rest(q), estimate.full_vector) - clean) ** 2).mean(axis=0))

    ordinary, weighted = mse(plain), mse(static.estimate)
    squared = robot.drive.gear_ratio**2
    page.text(
        f"""{POSES} poses spread over the workspace, noise of {100 * NOISE:g} % of each motor's torque range, each pose
        approached from both directions, so that stiction cancels. Table I is at the motors; its columns cannot all
        hold the stated noise: joint 6 with 1.4e-11 is exact to seven digits. (The deviation of link 1 is misprinted:
        7e-15 for 7e-17.)"""
    )
    page.table(
        "Mean squared error against the torque without noise",
        ("", *JOINTS),
        [
            ("printed, at the motors", *TABLE_1),
            ("least squares (20), at the motors", *map(float, ordinary / squared)),
            ("weighted by joint, at the motors", *map(float, weighted / squared)),
            ("least squares (20), at the joints", *map(float, ordinary)),
            ("weighted by joint, at the joints", *map(float, weighted)),
        ],
    )
    page.results(
        "Static parameters",
        replace(
            told("static_rank", "parameters that these poses tell", float(static.estimate.base.rank)),
            least=11.0,
            most=11.0,
        ),
        at_most("static_joint1", "squared error of joint 1", float(weighted[0]), 1e-20, unit="(N m)^2"),
        at_most(
            "static_wrist",
            "weighted over plain squared error, joint 6",
            float(weighted[5] / ordinary[5]),
            1e-2,
            explanation="Equation 20 is unweighted: the shoulder's noise, a thousand times the wrist's, is spread over "
            "all joints. Weights by joint cost nothing.",
        ),
    )
    return static


def _dynamic(page: StudyPage, made: Experiment, static: StaticEstimate, full: bool) -> Mapping[str, Estimate]:
    page.section("The dynamic step: two steps or one shot")
    joint, motor = (
        regression(made.robot, MODEL, rows, made.motions()) for rows in (TorqueRows(), MotorRows())
    )
    found: dict[str, Estimate] = {
        "two steps, weighted": static.given().fit(motor),
        "one shot, least squares": OLS().fit(joint),
        "one shot, weighted by joint": WLS().fit(joint),
        "one shot, weighted by motor": WLS().fit(motor),
        "the same with the poses": static.joined().fit(motor),
        "the same without them, among real bodies": FeasibleFit(strength=1e-6).fit(motor),
    }
    mse = {name: made.mse(estimate.full_vector) for name, estimate in found.items()}
    dose = "" if full else " (a tenth of the paper's samples, and the root of a tenth of its noise)"
    page.text(
        f"""{MOTIONS} motions of {made.samples:,} samples with noise of {100 * made.noise:.3g} % of the motors'
        range{dose}. Two steps hold the
        static values and propagate their covariance; one shot finds everything from motion. Noise belongs to motors:
        where two of them move a joint, rows by motor keep it apart."""
    )
    page.table(
        "Mean squared error against the torque without noise, at the joints, (N m)^2",
        ("", *JOINTS),
        [(name, *map(float, values)) for name, values in mse.items()],
    )
    at = np.arange(1.0, 7.0)
    traces = tuple(line(at, values, name, CYCLE[i], 1.8) for i, (name, values) in enumerate(mse.items()))
    flat = np.concatenate(list(mse.values()))
    axis = Axis("(N m)²", log=True, span=(0.5 * float(flat.min()), 2 * float(flat.max())))
    page.figure(
        "methods",
        "Squared error by joint and method",
        row_of([Panel(traces, Axis("", labels=JOINTS), axis)], 320),
    )
    best = found["one shot, weighted by motor"]
    value, std = (dict(zip(best.names, numbers, strict=True)) for numbers in (best.value, best.std))
    true = dict(zip((c.name for c in MODEL.columns(made.robot)), made.theta, strict=True))
    friction = [f"f{kind}m{i + 1}" for kind in "vc" for i in range(6)]
    one, steps = mse["one shot, weighted by motor"], mse["two steps, weighted"]
    page.results(
        "One shot",
        at_most("one_shot_joint2", "squared error of joint 2", float(one[1]), 2.0, unit="(N m)^2"),
        at_most("stiffness", "error of the springs' stiffness, relative",
                float(abs(value["k_springs"] / STIFFNESS - 1)), 0.01),
        told("preload", "error of their preload, relative", float(abs(value["c_springs"] / PRELOAD - 1))),
        told("stiffness_z", "error of the stiffness in standard deviations",
             float(abs(value["k_springs"] - STIFFNESS) / std["k_springs"])),
        at_most(
            "friction",
            "greatest relative error of friction",
            float(max(abs(value[name] / true[name] - 1) for name in friction)),
            0.005,
        ),
        replace(
            told(
                "two_step_costs",
                "joint 2: two steps over one shot",
                float(steps[1] / one[1]),
                explanation="The static step alone cannot tell the springs from gravity as well as motion can, and the "
                "dynamic step inherits its noise. Two steps are worth it where only poses are at hand.",
            ),
            least=5.0,
        ),
    )  # fmt: skip
    _figure_4(page, made, best.full_vector)
    return found


def _figure_4(page: StudyPage, made: Experiment, theta: Float) -> None:
    t, unseen = motion(made.robot, 6000, seed=50)
    tau = MODEL.torque(made.robot, unseen, made.theta)
    measured = made.robot.drive.motor_torque(unseen.q, with_noise(made.robot, unseen.q, tau, NOISE, 150))
    predicted = made.robot.drive.motor_torque(unseen.q, MODEL.torque(made.robot, unseen, theta))
    shown = slice(0, 2000)
    panels = [
        Panel(
            (
                line(t[shown], measured[shown, j], "measured", GREY, 0.8),
                line(t[shown], predicted[shown, j], "predicted", BLUE, 1.4),
            ),
            Axis("s"),
            Axis(f"{name}, N m"),
        )
        for j, name in enumerate(JOINTS)
    ]
    page.figure(
        "figure4",
        "Figure 4: motor torque of an unseen motion, measured and predicted",
        column_of(panels, 760),
    )


def _bodies(page: StudyPage, made: Experiment, found: Mapping[str, Estimate]) -> None:
    page.section("Bodies that can exist")
    plain = found["one shot, weighted by motor"]
    feasible = found["the same without them, among real bodies"]

    def least(estimate: Estimate) -> list[float]:
        bodies = estimate.parameters[:60].reshape(6, 10)
        return [float(np.linalg.eigvalsh(pseudo_inertia(body))[0]) for body in bodies]

    def cost(estimate: Estimate, factors: Regression) -> float:
        theta = np.zeros(len(estimate.parameters))
        theta[factors.base.independent] = factors.base.reduce(estimate.parameters)
        groups = zip(plain.weights, factors.factors.total, strict=True)
        return float(sum(w * f.residual_square(theta) for w, f in groups))

    motor = regression(made.robot, MODEL, MotorRows(), made.motions())
    page.text(
        """The paper asks for inertia matrices with positive eigenvalues, by a global search. That is not enough: a body
        exists if its 4 x 4 pseudo-inertia has none below zero. Both conditions are convex, so one semidefinite program
        finds the optimum, and proves it."""
    )
    page.table(
        "Least eigenvalue of the pseudo-inertia by link",
        ("", *(f"link {i + 1}" for i in range(6))),
        [("weighted least squares", *least(plain)), ("among real bodies", *least(feasible))],
    )
    page.results(
        "Feasible bodies",
        replace(
            told("feasible", "least eigenvalue of all links", min(least(feasible)), unit="kg m^2"), least=0.0
        ),
        at_most(
            "feasible_cost",
            "objective over that of least squares",
            cost(feasible, motor) / cost(plain, motor),
            1.01,
        ),
        at_most(
            "feasible_joint2",
            "squared error of joint 2",
            float(made.mse(feasible.full_vector)[1]),
            2.0,
            unit="(N m)^2",
        ),
    )
