"""Designed motions beside those of figaroh and robot_payload_id, and short motions after one another beside a long one.

    python benchmarks/excitation.py OUT.jsonl [--seeds 5] [--first 0] [--seconds 31] [--cpu 20] [--only designs|enough]
                                    [--part 1/1]

Designs: one robot (UR5e, floor, links apart), the same limits, length and processor time, five seeds; medians of
condition number, log determinant and parameter errors. Criteria and parametrisations of the others are as published,
optimised here by the same sequential quadratic programming (SLSQP), not by their own solvers (IPOPT, SNOPT):
    figaroh: cubic splines through way points, clamped at both ends, condition number of the base regressor;
    robot_payload_id: Fourier series of five harmonics, condition number;
    dynid: the default of `dynid excite`, Fourier series up to 0.8 Hz, criterion balanced.
Parameter errors: of 200 simulated least-squares fits with torque noise of 1 % of the effort limits at 100 Hz, the root
mean square over base parameters of their errors in units of torque (column size in usual motion), median, N m.

Enough: how long motions of 6 s, the first designed by `dynid excite` for the criterion precision, each of the others as
`dynid watch --next` does from what the recordings before leave unknown, take until `dynid watch` says that every base
parameter is known as well as after the default motion of `dynid excite` (30 s, recorded whole), over these 30 s.
Simulated, recorded with noise, and watched as a user would; of four robots, three have friction that the model does not
describe. What both predict is compared on another motion.

A line a case is appended to OUT.jsonl; cases that are there are not run again.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np
from scipy.interpolate import CubicSpline

from dynid.base import Float
from dynid.cli.watch import MARGIN, NEXT_SECONDS, information_left
from dynid.excitation import (
    Bounds,
    Criterion,
    Information,
    MotionLimits,
    MotionSettings,
    MotionTable,
    Plan,
    Task,
    Workspace,
    collision_model,
    design_motion,
    information_of,
    prior_theta,
    robot_shapes,
)
from dynid.excitation.excite import Current, bounds_of, described, fourier_basis, motion_of
from dynid.excitation.settings import LimitsTable, SearchTable
from dynid.fleet import Watcher, WatchSettings, precision_of
from dynid.lab import ControllerFile, PlantFile, Rig, SensorFile, Setup, build_plant
from dynid.lab.setup import IntegratorSection
from dynid.robot import load_example
from dynid.signals import Samples
from dynid.terms import DEFAULT_TERMS, Coulomb, Offset, RigidBody, Viscous
from dynid.trajectories import Basis, BasisTrajectory, FourierBasis, Trajectory

EFFORT = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
RATE, FITS = 100.0, 200
WAY_POINTS = 12
# Of the simulated sensors: rows a second, N m, rad; rows that are shown to the watcher at once; s between recordings.
LOGGED, TORQUE_NOISE, POSITION_NOISE, AT_ONCE, PAUSE = 250.0, 1.0, 2e-5, 50, 1.0
# s, of its integration: LuGre's bristles are too stiff for longer ones in some motions.
STEP = 5e-4
LUGRE = {"kind": "lugre", "viscous": 4.0, "coulomb": 4.0, "static": 6.0, "stiffness": 2e3, "damping": 20.0}
# Default precision of `dynid watch`; s after which a series that is not enough is given up; of each search.
ASKED, MOST, SEARCH = 0.05, 45.0, SearchTable(starts=2, iterations=40, workers=1)


@dataclass(frozen=True)
class Robot:
    """A simulated robot: its description, what the model does not know of it, its controller."""

    name: str
    plant: dict[str, object]
    controller: str = "ideal"


ROBOTS = {
    "described": Robot("arm7", {"friction": {"viscous": 2.0, "coulomb": 3.0}}),
    "friction that rises slowly": Robot("arm7", {"friction": {"viscous": 3.0, "coulomb": 3.0, "smoothing": 0.3}}),
    "UR5e with such friction": Robot("ur5e", {"friction": {"viscous": 3.0, "coulomb": 3.0, "smoothing": 0.3}}),
    "LuGre friction": Robot("arm7", {"friction": LUGRE}, "computed-torque"),
}  # fmt: skip


@dataclass(frozen=True)
class WayPoints:
    """Clamped cubic splines through uniform way points, the first and the last of which are the pose."""

    duration: float
    count: int

    @property
    def size(self) -> int:
        """Number of functions: the pose, and a way point each between its two ends."""
        return self.count - 1

    @property
    def highest_frequency(self) -> float:
        """Half a period a way point, Hz."""
        return 0.5 * (self.count - 1) / self.duration

    def values(self, t: Float) -> tuple[Float, Float, Float, Float]:
        """The functions and three derivatives, (T, size) each."""
        knots = np.linspace(0.0, self.duration, self.count)
        spline = CubicSpline(knots, np.eye(self.count)[:, 1:-1], bc_type="clamped")
        parts = [spline(t, order) for order in range(4)]
        pose = [np.ones((len(t), 1)), *(np.zeros((len(t), 1)) for _ in range(3))]
        first, second, third, fourth = (
            np.concatenate(pair, axis=1) for pair in zip(pose, parts, strict=True)
        )
        return first, second, third, fourth


def task_of(basis: Basis, criterion: Criterion) -> Task:
    """The robot and its bounds, the same for every design."""
    robot = load_example("ur5e")
    limits = MotionLimits.of(robot, velocity=[np.pi], lower=[-2 * np.pi], upper=[2 * np.pi], torque=EFFORT)
    terms = RigidBody() + Viscous() + Coulomb() + Offset()
    information = replace(information_of(robot, terms, 0.01 * EFFORT), criterion=criterion)
    model = collision_model(robot, robot_shapes(robot, np.array([0.05])), 0.01)
    space = Workspace.of(robot, floor=0.0, collision=model)
    return Task(
        basis,
        information,
        Bounds(limits, prior_theta(robot, information.terms), 0.1, space, model, 0.01),
    )


def designs(seconds: float) -> dict[str, Task]:
    """The three designs."""
    table = MotionTable()
    return {
        "dynid": task_of(fourier_basis(seconds), Criterion(table.criterion)),
        "robot_payload_id": task_of(FourierBasis(seconds, 5, 0.1), Criterion.CONDITION),
        "figaroh": task_of(WayPoints(seconds, WAY_POINTS), Criterion.CONDITION),
    }


def within(cpu: float) -> Callable[[], bool]:
    """Whether so much processor time has been spent since now."""
    started = time.process_time()
    return lambda: time.process_time() - started > cpu


def sampled(plan: Plan) -> Float:
    """Triangle of the rows that the motion gives at RATE, in units of their noise."""
    seconds = plan.trajectory.duration
    t = np.arange(0.0, seconds, 1.0 / RATE)
    R = plan.information.triangle(*plan.trajectory.motion(t))
    return np.asarray(R * math.sqrt(len(t)))


def error_of(information: Information, R: Float, seed: int) -> float:
    """Median over fits of the root mean square error of the base parameters, in torque, N m."""
    size = information.base.scale[information.base.independent]
    noise = np.random.default_rng(seed).normal(size=(len(R), FITS))
    wrong = size[:, None] * np.linalg.solve(R, noise)
    return float(np.median(np.sqrt((wrong**2).mean(axis=0))))


def designed(name: str, seed: int, seconds: float, cpu: float) -> Row:
    """One design with one seed."""
    task = designs(seconds)[name]
    stop = within(cpu)
    plan = design_motion(task, starts=4, iterations=200, seed=seed, stop=stop)
    q, dq, ddq = plan.trajectory.motion(np.linspace(0.0, seconds, 1000))
    # Figures of every design by the same measure.
    figures = replace(task.information, criterion=Criterion.LOGDET).figures(q, dq, ddq, seconds)
    return {
        "condition": figures.condition,
        "logdet": figures.logdet,
        "error": error_of(task.information, sampled(plan), seed),
        "iterations": plan.iterations,
    }


class Simulated:
    """Records motions of a robot, and watches them."""

    def __init__(self, robot: Robot) -> None:
        self.robot = load_example(robot.name)
        controller = ControllerFile.model_validate({"kind": robot.controller})
        plant = build_plant(self.robot, PlantFile.model_validate(robot.plant))
        self.setup = Setup(plant, controller, IntegratorSection(step=STEP))
        effort, position = {"noise": TORQUE_NOISE}, {"noise": POSITION_NOISE}
        self.rig = Rig(SensorFile.model_validate({"rate": LOGGED, "position": position, "effort": effort}))
        self.watcher = Watcher(self.robot, WatchSettings(DEFAULT_TERMS))
        self.seconds, self.clock = 0.0, 0.0
        whole = robot.name == "ur5e"
        self.limits = (
            LimitsTable(velocity=np.pi, lower=-2 * np.pi, upper=2 * np.pi, torque=tuple(EFFORT))
            if whole
            else LimitsTable()
        )

    def record(self, motion: Trajectory, seed: int, asked: float | None) -> bool:
        """Shows a recording to the watcher until it says enough; whether it did."""
        t, columns = self.rig.measure(self.robot, self.setup.motion(motion, LOGGED), (seed, 0))
        q, tau = (
            np.stack([columns[f"{kind}_{name}"] for name in self.robot.joint_names], axis=1)
            for kind in ("q", "tau")
        )
        # The way to the next start is not recorded.
        start, self.clock = self.clock, self.clock + float(t[-1]) + PAUSE
        for k in range(0, len(t), AT_ONCE):
            part = slice(k, k + AT_ONCE)
            if self.watcher.feed(start + t[part], q[part], tau[part]) and self.enough(asked):
                self.seconds += float(t[part][-1])
                return True
        self.watcher.finish()
        self.seconds += float(t[-1])
        return self.enough(asked)

    def enough(self, asked: float | None) -> bool:
        """What `dynid watch` says."""
        return asked is not None and precision_of(self.watcher, asked).enough

    def designed(self, table: MotionTable, seed: int, asked: float | None = None) -> Trajectory:
        """The default motion of `dynid excite`, or that of `dynid watch --next` once something is known."""
        settings = MotionSettings(motion=table, limits=self.limits, search=replace(SEARCH, seed=seed))
        current = described(self.robot, DEFAULT_TERMS, Criterion(table.criterion))
        if asked is not None:
            current = Current(*information_left(self.watcher, asked), MARGIN)
        bounds = bounds_of(self.robot, settings, current)
        return motion_of(settings, current.information, bounds).trajectory

    def error(self) -> float:
        """Root mean square of torque predicted wrongly on a motion that was not watched, N m."""
        limits = MotionSettings(limits=self.limits)
        bounds = bounds_of(self.robot, limits, described(self.robot, DEFAULT_TERMS, Criterion.LOGDET)).limits
        half = 0.4 * np.minimum(bounds.upper - bounds.lower, np.pi)
        middle = 0.5 * (bounds.upper + bounds.lower)
        rng = np.random.default_rng(0)
        X = np.concatenate([middle[None], rng.uniform(-1, 1, (8, self.robot.n)) * half / 4])
        moved = self.setup.motion(BasisTrajectory(FourierBasis(15.0, 4, 0.1), X), LOGGED)
        theta = np.zeros(len(self.watcher.base.names))
        theta[self.watcher.base.independent] = self.watcher.trajectory.value[-1]
        samples = Samples.from_motion(moved.q, moved.dq, moved.ddq)
        wrong = DEFAULT_TERMS.torque(self.robot, samples, theta) - moved.tau
        return float(np.sqrt((wrong**2).mean()))


def enough(name: str, seed: int) -> Row:
    """The time that short motions take to know every base parameter as well as the default one, over its length."""
    whole, short = Simulated(ROBOTS[name]), Simulated(ROBOTS[name])
    whole.record(whole.designed(MotionTable(), seed), 1000 + seed, None)
    asked = ASKED * float(precision_of(whole.watcher, ASKED).share.max())
    first = MotionTable(seconds=NEXT_SECONDS, criterion="precision")
    known, reached, k = False, [], 0
    while not known and short.seconds < MOST:
        motion = short.designed(first, seed + k, asked if k else None)
        known = short.record(motion, 2000 + 100 * seed + k, asked)
        reached.append(float(precision_of(short.watcher, asked).share.max()))
        k += 1
    return {
        "asked": asked, "known": known, "reached": reached, "seconds": short.seconds,
        "share": short.seconds / whole.seconds, "error_long": whole.error(), "error_short": short.error(),
    }  # fmt: skip


def main() -> None:
    """Runs the cases that are missing, and prints medians."""
    options = parser(__doc__, seeds=5, first=0, seconds=31.0, cpu=20.0, only="", part="1/1")
    options.add_argument("out", type=Path)
    given = options.parse_args()
    cases: dict[str, Callable[[], Row]] = {}
    for seed in range(given.first, given.first + given.seeds):
        for name in designs(given.seconds) if given.only != "enough" else ():
            case = f"{name} {seed} {given.seconds:g} s {given.cpu:g} s"
            cases[case] = lambda name=name, seed=seed: designed(name, seed, given.seconds, given.cpu)
        for name in ROBOTS if given.only != "designs" else ():
            cases[f"enough: {name}, {seed}"] = lambda name=name, seed=seed: enough(name, seed)
    rows = campaign(
        {case: (case, work) for case, work in cases.items()},
        lambda job: {"case": job[0]} | job[1](),
        lambda row: row["case"],
        given,
        lambda row: print(row, flush=True),
    )

    def medians(start: str, *keys: str) -> tuple[int, list[float]]:
        group = [row for row in rows if row["case"].startswith(start)]
        return len(group), [float(np.median([row[key] for row in group])) for key in keys]

    for name in designs(given.seconds) if given.only != "enough" else ():
        count, (condition, logdet, error) = medians(f"{name} ", "condition", "logdet", "error")
        print(f"{name}: median of {count}: condition {condition:.4g}, logdet {logdet:.4g}, error {error:.4g}")
    for name in ROBOTS if given.only != "designs" else ():
        count, (share, short, long) = medians(f"enough: {name},", "share", "error_short", "error_long")
        known = sum(row["known"] for row in rows if row["case"].startswith(f"enough: {name},"))
        print(
            f"{name}: {known} of {count} known, median of {100 * share:.0f} % of the time, wrong by {short:.3g} N m "
            f"against {long:.3g}"
        )


if __name__ == "__main__":
    main()
