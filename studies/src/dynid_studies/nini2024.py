"""Study of Nini et al. 2024: static and dynamic identification of a painting arm with coupled joints and springs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import null_space

from dynid.base import Float
from dynid.estimate import OLS, WLS, Estimate, FeasibleFit, Regression
from dynid.factor import stack
from dynid.feasible import UNLIMITED
from dynid.report.figures import CYCLE, Axis, Figure, Panel, dots, row_of
from dynid.robot import RobotModel
from dynid.rows import MotorRows, TorqueRows
from dynid.signals import Samples
from dynid_studies.nini_arm import MODEL, PRELOAD, STIFFNESS, arm, motion, regression, truth, with_noise
from dynid_studies.nini_bodies import LEAST_SQUARES, ONE_SHOT, REAL, add_bodies
from dynid_studies.nini_checks import check_errors, check_model, check_ranks
from dynid_studies.nini_drawings import arm_figure, spring_figure
from dynid_studies.nini_real import add_real, torque_figure
from dynid_studies.nini_rotors import add_rotors
from dynid_studies.nini_static import JOINTS, NOISE, Statics, add_static
from dynid_studies.study import Dose, Paper, StudyPage, at_most, reported

PAPER = Paper(
    name="nini2024",
    title="Coupled joints and load-assisting springs",
    source="Nini, Ferraguti, Ragaglia, Bertuletti, Di Napoli and Fantuzzi 2024",
    summary="A painting arm of six joints with a parallelogram, a bevel pair and two springs: gravity parameters from "
    "static poses, the rest from motion, beside everything in one shot.",
)
MOTIONS, SAMPLES = 7, 70_000
PLACES = (
    ("Figure 1", "The arm", "the workflow, as a table: which step is which command"),
    ("Figure 2", "The arm", "drawn from the model: joints, crank and coupler"),
    ("Figure 3", "The arm", "drawn from the model: springs, and what they carry"),
    ("Table I", "The static step", "three ideal arms, identified and optimised"),
    ("Figures 4a, 4b", "The dynamic step", "motors of a held-out motion, identified and optimised"),
    ("Equation (33)", "Rotors that the links carry", "identified behind the coupled transmission"),
    ("Table II", "A real arm", "printed, beside an arm that the model does not describe"),
    ("Figures 5a, 5b", "A real arm", "motors of that arm, identified and optimised"),
)
STEPS = (
    ("static poses", "1600 poses", "`dynid statics`", "each pose from both directions"),
    (
        "reduce the regressor",
        "ranks, one column after the other",
        "structural base",
        "by QR on random states",
    ),
    ("static identification", "least squares (20)", "weighted by joint", "with covariance"),
    ("static optimisation", "global search", "semidefinite program", "the optimum, proved"),
    (
        "dynamic identification",
        "given the static step (32)",
        "two steps or one shot",
        "covariance carried on",
    ),
    (
        "dynamic optimisation",
        "global search, inertias > 0",
        "semidefinite program",
        "physically consistent bodies",
    ),
    ("validation", "the same motion", "held-out motion, held-out blocks", "with intervals"),
)
TWO_STEPS = "two steps, least squares"


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

    def mse(self, theta: Float) -> Float:
        """Mean squared error of the torque on the motions without noise, by joint, (N m)^2."""
        errors = [MODEL.torque(self.robot, s, theta) - s.tau for s in self.motions(noisy=False, count=4000)]
        return np.asarray(np.mean([(e**2).mean(axis=0) for e in errors], axis=0))


def study(dose: Dose, page: StudyPage) -> None:
    """The arm, ranks, the static step, the dynamic one in its variants, feasible bodies, errors of the model."""
    robot = arm()
    share = dose.pick(0.1, 1.0)
    made = Experiment(robot, truth(robot), round(share * SAMPLES), NOISE * np.sqrt(share))
    _arm(page, robot)
    check_model(page, robot)
    check_ranks(page, robot)
    statics = add_static(page)
    _dynamic(page, made, statics, dose.full)
    check_errors(page, robot)
    add_rotors(page, robot, dose)
    add_real(page)


def _arm(page: StudyPage, robot: RobotModel) -> None:
    page.section("The arm, and where each table and figure stands")
    page.table("Tables and figures of the paper", ("in the paper", "section here", ""), PLACES)
    page.table("Figure 1 in kind: the workflow", ("step", "in the paper", "in dynid", ""), STEPS)
    page.figure("figure2", "Figure 2 in kind: the arm and its parallelogram from the side", arm_figure(robot))
    page.figure("figure3", "Figure 3 in kind: the springs of joint 2", spring_figure(robot))


def _dynamic(page: StudyPage, made: Experiment, statics: Statics, full: bool) -> None:
    page.section("The dynamic step (figure 4): two steps or one shot")
    joint, motor = (
        regression(made.robot, MODEL, rows, made.motions()) for rows in (TorqueRows(), MotorRows())
    )
    static = statics.weighted
    fits: dict[str, Estimate] = {
        "two steps, weighted": static.given().fit(motor),
        LEAST_SQUARES: OLS().fit(joint),
        "one shot, weighted by joint": WLS().fit(joint),
        ONE_SHOT: WLS().fit(motor),
        "one shot with the poses": static.joined().fit(motor),
        REAL: FeasibleFit(1e-6, prior="euclidean", density=UNLIMITED).fit(motor),
    }
    sets = {TWO_STEPS: two_steps(statics.plain, joint)}
    sets |= {name: estimate.full_vector for name, estimate in fits.items()}
    mse = {name: made.mse(theta) for name, theta in sets.items()}
    dose = "" if full else " (a tenth of the paper's samples, and the root of a tenth of its noise)"
    page.text(
        f"""{MOTIONS} motions of {made.samples:,} samples with noise of {100 * made.noise:.3g} % of the motors'
        range{dose}. Two steps by least squares are the paper's (20) and (32), which treat static values as exact; the
        weighted version propagates their covariance. One shot estimates everything from motion. Noise is that of the
        motors: where two of them move a joint, rows per motor separate it."""
    )
    page.table(
        "Mean squared error against the torque without noise, at the joints, (N m)²",
        ("", *JOINTS),
        [(name, *map(float, values)) for name, values in mse.items()],
        name="methods",
    )
    page.figure("methods", "Squared error by joint and method", _methods(mse))
    _one_shot(page, made, fits[ONE_SHOT], mse)
    for letter, purpose, name in (("a", "identification", TWO_STEPS), ("b", "optimisation", REAL)):
        page.figure(
            f"figure4{letter}",
            f"Figure 4{letter}: {purpose} ({name}), motors of a held-out motion, measured and predicted",
            _unseen(made, sets[name]),
        )
    add_bodies(page, joint, motor, fits, mse)


def two_steps(static: Estimate, regression: Regression) -> Float:
    """Equation (32): least squares for what the static step leaves open, its values held; (p,) parameters."""
    free, base = regression.base.independent, regression.base
    R = stack(regression.factors.total, free, np.ones(len(regression.factors.total)))
    A, y = R[: base.rank, : base.rank], R[: base.rank, base.rank]
    static_rows = static.base.B[:, free]
    start, open_ways = np.linalg.lstsq(static_rows, static.value, rcond=None)[0], null_space(static_rows)
    theta = np.zeros(len(regression.columns))
    theta[free] = start + open_ways @ np.linalg.lstsq(A @ open_ways, y - A @ start, rcond=None)[0]
    return theta


def _methods(mse: Mapping[str, Float]) -> Figure:
    # Markers side by side: joints are categories, and a line between them would mean nothing.
    shift = np.linspace(-0.3, 0.3, len(mse))
    traces = tuple(
        dots(np.arange(1.0, 7.0) + shift[i], values, name, CYCLE[i], 8.0, 1.0)
        for i, (name, values) in enumerate(mse.items())
    )
    flat = np.concatenate(list(mse.values()))
    axis = Axis("squared error, (N m)²", log=True, span=(0.5 * float(flat.min()), 2 * float(flat.max())))
    return row_of([Panel(traces, Axis("joint", labels=JOINTS), axis)], 340)


def _one_shot(page: StudyPage, made: Experiment, best: Estimate, mse: Mapping[str, Float]) -> None:
    value, std = (dict(zip(best.names, numbers, strict=True)) for numbers in (best.value, best.std))
    true = dict(zip((c.name for c in MODEL.columns(made.robot)), made.theta, strict=True))
    friction = [f"f{kind}m{i + 1}" for kind in "vc" for i in range(6)]
    one_shot, weighted, plain = (mse[name] for name in (ONE_SHOT, "two steps, weighted", TWO_STEPS))
    page.results(
        "One shot",
        at_most("one_shot_joint2", "squared error of joint 2", float(one_shot[1]), 2.0, unit="(N m)²"),
        at_most("stiffness", "error of the springs' stiffness, relative",
                float(abs(value["k_springs"] / STIFFNESS - 1)), 0.01),
        reported("preload", "error of their preload, relative", float(abs(value["c_springs"] / PRELOAD - 1))),
        reported("stiffness_z", "error of the stiffness in standard deviations",
             float(abs(value["k_springs"] - STIFFNESS) / std["k_springs"])),
        at_most(
            "friction",
            "greatest relative error of friction",
            float(max(abs(value[name] / true[name] - 1) for name in friction)),
            0.005,
        ),
        replace(
            reported(
                "two_step_costs",
                "joint 2: two steps over one shot",
                float(weighted[1] / one_shot[1]),
                explanation="The static step alone separates springs from gravity less well as motion can, and the "
                "dynamic step inherits its noise. Two steps are worth it where only poses are at hand.",
            ),
            least=5.0,
        ),
        reported("two_step_plain_costs", "joint 2: two steps by least squares over one shot",
                 float(plain[1] / one_shot[1])),
    )  # fmt: skip


def _unseen(made: Experiment, theta: Float) -> Figure:
    t, unseen = motion(made.robot, 6000, seed=50)
    tau = MODEL.torque(made.robot, unseen, made.theta)
    measured = made.robot.drive.motor_torque(unseen.q, with_noise(made.robot, unseen.q, tau, NOISE, 150))
    predicted = made.robot.drive.motor_torque(unseen.q, MODEL.torque(made.robot, unseen, theta))
    shown = slice(0, 1000)
    return torque_figure(t[shown], measured[shown], predicted[shown])
