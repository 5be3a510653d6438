"""Designed motions beside those of figaroh and robot_payload_id, and short motions after one another beside a long one.

    python benchmarks/excitation.py OUT.jsonl [--seeds 5] [--seconds 31] [--cpu 20] [--only designs|enough]

Designs: one robot (UR5e, floor, links apart), the same limits, length and processor time, five seeds; medians of
condition number, log determinant and parameter errors. Criteria and parametrisations of the others are as published,
optimised here by the same sequential quadratic programming (SLSQP), not by their own solvers (IPOPT, SNOPT):
    figaroh: cubic splines through way points, clamped at both ends, condition number of the base regressor;
    robot_payload_id: Fourier series of five harmonics, condition number;
    dynid: the default of `dynid excite`, Fourier series of five harmonics, log determinant.
Parameter errors: of 200 simulated least-squares fits with torque noise of 1 % of the effort limits at 100 Hz, the root
mean square over base parameters of their errors in units of torque (column size in usual motion), median, N m.

Enough: how long motions of 6 s, each designed from what the ones before leave unknown, take until every base parameter
is known as well as after one designed motion of 30 s, over these 30 s.

A line a case is appended to OUT.jsonl; cases that are there are not run again.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np
from scipy.interpolate import CubicSpline

from dynid.base.arrays import Float
from dynid.excitation.collision import collision_model
from dynid.excitation.criteria import Criterion, Information
from dynid.excitation.design import Task
from dynid.excitation.limits import Bounds, MotionLimits, Workspace
from dynid.excitation.plan import Plan, design_motion, information_of, prior_theta
from dynid.excitation.shapes import robot_shapes
from dynid.robot import load_example
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.trajectories.basis import Basis, FourierBasis

EFFORT = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
RATE, FITS = 100.0, 200
WAY_POINTS = 12
LONG, SHORT, MOST = 30.0, 6.0, 8


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
    fourier = FourierBasis(seconds, 5, 0.1)
    return {
        "dynid": task_of(fourier, Criterion.LOGDET),
        "robot_payload_id": task_of(fourier, Criterion.CONDITION),
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


def designed(name: str, seed: int, seconds: float, cpu: float) -> dict[str, object]:
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


def enough(seed: int) -> dict[str, object]:
    """The time that short motions take to know every base parameter as well as a long one, over its length."""
    plan = design_motion(task_of(FourierBasis(LONG, 5, 0.1), Criterion.LOGDET), 2, 40, seed, candidates=30)
    size = plan.information.base.scale[plan.information.base.independent]

    def worst(R: Float) -> float:
        return float((size * np.linalg.norm(np.linalg.inv(R), axis=1)).max())

    asked = worst(sampled(plan))
    before: Float | None = None
    reached = []
    for k in range(MOST):
        task = task_of(FourierBasis(SHORT, 5, 1.0 / SHORT, 1.0), Criterion.LEAST if k else Criterion.LOGDET)
        if before is not None:
            information = replace(task.information, recorded=before, rate=RATE)
            task = replace(task, information=information)
        short = design_motion(task, 2, 30, seed + k, candidates=30)
        own = sampled(
            replace(short, task=replace(task, information=replace(task.information, recorded=None)))
        )
        before = own if before is None else np.linalg.qr(np.concatenate([before, own]), mode="r")
        reached.append(worst(before))
        if reached[-1] <= asked:
            break
    seconds = SHORT * len(reached)
    return {
        "asked": asked, "reached": reached, "seconds": seconds, "share": seconds / LONG,
        "known": reached[-1] <= asked,
    }  # fmt: skip


def main() -> None:
    """Runs the cases that are missing, and prints medians."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("out", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=31.0)
    parser.add_argument("--cpu", type=float, default=20.0)
    parser.add_argument("--only", choices=("designs", "enough"))
    options = parser.parse_args()
    lines = options.out.read_text().splitlines() if options.out.exists() else []
    there = {one["case"]: one for one in map(json.loads, lines)}
    cases: dict[str, Callable[[], dict[str, object]]] = {}
    for seed in range(options.seeds):
        if options.only != "enough":
            for name in designs(options.seconds):
                case = f"{name} {seed} {options.seconds:g} s {options.cpu:g} s"
                cases[case] = lambda name=name, seed=seed: designed(name, seed, options.seconds, options.cpu)
        if options.only != "designs":
            cases[f"enough {seed}"] = lambda seed=seed: enough(seed)
    for case, work in cases.items():
        if case not in there:
            there[case] = {"case": case} | work()
            with options.out.open("a", encoding="utf-8") as file:
                file.write(json.dumps(there[case]) + "\n")
        print(there[case], flush=True)
    for name in designs(options.seconds) if options.only != "enough" else ():
        own = [one for case, one in there.items() if case in cases and case.split()[0] == name]
        medians = {
            key: float(np.median([one[key] for one in own])) for key in ("condition", "logdet", "error")
        }
        print(f"{name}: median of {len(own)}: " + ", ".join(f"{key} {x:.4g}" for key, x in medians.items()))


if __name__ == "__main__":
    main()
