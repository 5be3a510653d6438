"""Designed motions of three arms: condition number, time, and intervals beside a hand-made sinusoid.

    python benchmarks/excite.py UR5E.toml|URDF [--seconds 31] [--criterion condition] [--workers 2]

Prints the column condition number of W with rows in units of the noise, the wall time, every kind of margin, and the
ratio of the median standard deviation of the base parameters to that of a hand-made motion of equal length: one
sinusoid a joint, all of different frequency, scaled to the same limits.
"""

from __future__ import annotations

import argparse
import os
import time
from dataclasses import replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dynid.excite.basis import BasisTrajectory, FourierBasis
from dynid.excite.capsules import link_capsules
from dynid.excite.criteria import Criterion, Information
from dynid.excite.design import Problem, Task, draws, within
from dynid.excite.limits import Bounds, MotionLimits, Workspace
from dynid.excite.plan import design_motion, information_of, prior_theta
from dynid.robot import load_robot
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody


def deviations(information: Information, trajectory: BasisTrajectory, rate: float = 100.0) -> np.ndarray:
    """Standard deviations (b,) of the base parameters for independent rows at a rate."""
    t = np.arange(0.0, trajectory.duration, 1.0 / rate)
    R = information.triangle(*trajectory.motion(t)) * np.sqrt(len(t))
    return np.linalg.norm(np.linalg.inv(R), axis=1)


def hand_made(task: Task) -> BasisTrajectory:
    """Joint j moves with harmonic 1 + j mod N alone, about the one of 30 drawn poses that lets it move most.

    As large as its own limits allow, then made smaller as a whole until it keeps every other bound.
    """
    problem = Problem(task)
    basis = task.basis
    assert isinstance(basis, FourierBasis)
    drawn = draws(problem, 60, 1)[:30]
    best, largest = drawn[0], 0.0
    for pose in drawn:
        X = np.zeros(problem.scale.shape)
        X[0] = pose[0]
        for j in range(X.shape[1]):
            X[1 + j % basis.harmonics, j] = problem.scale[1 + j % basis.harmonics, j]
        X = within(problem, X)
        fit = problem.shrunk(X)
        if fit is not None and (size := float(np.abs(fit[1:] / problem.scale[1:]).sum())) > largest:
            best, largest = fit, size
    assert largest > 0
    return BasisTrajectory(basis, best)


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("robot", type=Path)
    parser.add_argument("--seconds", type=float, default=31.0)
    parser.add_argument("--criterion", type=Criterion, default=Criterion.CONDITION)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=80)
    parser.add_argument("--radius", type=float, default=0.05)
    parser.add_argument("--velocity", type=float, default=None)
    parser.add_argument(
        "--span", type=float, default=None, help="joint limits +- span where the file has none, rad"
    )
    parser.add_argument("--effort", type=float, nargs="*", default=None)
    options = parser.parse_args()

    robot = load_robot(options.robot)
    terms = RigidBody() + Viscous() + Coulomb() + Offset()
    lower = None if options.span is None else [-options.span]
    upper = None if options.span is None else [options.span]
    velocity = None if options.velocity is None else [options.velocity]
    limits = MotionLimits.of(robot, velocity=velocity, lower=lower, upper=upper, torque=options.effort)
    information = information_of(
        robot, terms, None if options.effort is None else 0.01 * np.array(options.effort)
    )
    information = replace(information, criterion=options.criterion)
    theta = prior_theta(robot, information.terms)
    bounds = Bounds(
        limits, theta, 0.1, Workspace.of(robot, floor=0.0), link_capsules(robot, options.radius), 0.02
    )
    task = Task(FourierBasis(options.seconds, 5, 0.1), information, bounds)
    started = time.perf_counter()
    plan = design_motion(task, options.starts, options.iterations, workers=options.workers)
    seconds = time.perf_counter() - started
    simple = hand_made(task)
    mine, theirs = deviations(information, plan.trajectory), deviations(information, simple)
    print(
        f"{robot.name}: {information.base.rank} base parameters, {options.seconds:g} s, {options.criterion}"
    )
    print(
        f"  condition {plan.figures.condition:.2f} (log det {plan.figures.logdet:.2f}) in {seconds:.1f} s wall"
    )
    print(f"  drawn {plan.first:.3f}, designed {plan.value:.3f}, {plan.iterations} iterations")
    for kind in dict.fromkeys(m.what for m in plan.margins):
        print(f"  {min((m for m in plan.margins if m.what == kind), key=lambda m: m.margin)}")
    ratio = np.median(mine) / np.median(theirs)
    print(
        f"  median deviation {ratio:.3f} of a hand-made motion's; median ratio {np.median(mine / theirs):.3f}"
    )


if __name__ == "__main__":
    main()
