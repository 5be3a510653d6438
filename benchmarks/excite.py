"""Designed motions of a UR5e and a Panda beside published figures: condition number, time, gradients, intervals.

    python benchmarks/excite.py [ur5e] [panda] [--seconds 31] [--starts 2] [--workers 2] [--campaign]

For each arm: the column condition number of W (base parameters of bodies and friction; rows in units of the noise)
within real limits, floor and capsules; wall and processor time; the least margin of each kind. Then one gradient of the
log determinant (200 points, 77 coefficients for the Panda): milliseconds and, at the frequency that the processor
states, millions of cycles, the rigid bodies' reverse sweep by itself too.
With --campaign both motions, the designed one for the log determinant and a hand-made one of equal length (one sinusoid
a joint, all of different frequency, within the same limits), are simulated with friction and noise and identified; the
ratio of the standard deviations is printed. The Panda's description holds no masses, so it is not simulated.
"""

from __future__ import annotations

import argparse
import os
import resource
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

from dynid.excitation.collision import collision_model
from dynid.excitation.design import Criterion, Information, Problem, Task, draws, within
from dynid.excitation.limits import Bounds, MotionLimits, Workspace
from dynid.excitation.plan import Plan, design_motion, information_of, prior_theta
from dynid.excitation.shapes import robot_shapes
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.kernel.adjoint import pairs, torque_gradient
from dynid.lab.rig import Rig, SensorFile
from dynid.lab.setup import ControllerFile, PlantFile, Setup, build_plant
from dynid.log.own_columns import write_log
from dynid.log.read import read_log
from dynid.robot import load_example
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.rigid_body import RigidBody
from dynid.trajectories.basis import BasisTrajectory, FourierBasis

TERMS = RigidBody() + Viscous() + Coulomb() + Offset()
PUBLISHED = {
    "ur5e": "66 (Madsen et al. 2020, 36 base parameters and friction)",
    "panda": "49 (Gaz et al. 2019, 43 base parameters)",
}
ELSEWHERE = "116.7 (robot_payload_id, seven joints, its own motion)"


@dataclass(frozen=True)
class Arm:
    """What a description does not say: limits, effort, radius of the capsules, friction of the simulated arm."""

    example: str
    radius: float
    velocity: float | None = None
    span: float | None = None
    effort: tuple[float, ...] | None = None
    viscous: tuple[float, ...] = ()
    coulomb: tuple[float, ...] = ()


ARMS = {
    "ur5e": Arm(
        "ur5e",
        0.05,
        np.pi,
        2 * np.pi,
        (150.0, 150.0, 150.0, 28.0, 28.0, 28.0),
        (8.0, 8.0, 6.0, 2.0, 2.0, 2.0),
        (6.0, 6.0, 5.0, 2.0, 2.0, 2.0),
    ),
    "panda": Arm("panda", 0.06),
}


def task_of(arm: Arm, seconds: float, criterion: Criterion) -> Task:
    """The task of an arm."""
    robot = load_example(arm.example)
    lower, upper = (None, None) if arm.span is None else ([-arm.span], [arm.span])
    velocity = None if arm.velocity is None else [arm.velocity]
    limits = MotionLimits.of(robot, velocity=velocity, lower=lower, upper=upper, torque=arm.effort)
    noise = None if arm.effort is None else 0.01 * np.array(arm.effort)
    information = replace(information_of(robot, TERMS, noise), criterion=criterion)
    capsules = collision_model(robot, robot_shapes(robot, np.array([arm.radius])))
    space = Workspace.of(robot, floor=0.0, collision=capsules)
    theta = prior_theta(robot, information.terms)
    return Task(FourierBasis(seconds, 5, 0.1), information, Bounds(limits, theta, 0.1, space, capsules, 0.02))


def spent() -> float:
    """Processor seconds of this process and of the workers that have ended."""
    own, others = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return own.ru_utime + own.ru_stime + others.ru_utime + others.ru_stime


def timed(task: Task, starts: int, iterations: int, workers: int) -> tuple[Plan, float, float]:
    """The plan, wall seconds and processor seconds."""
    wall, cpu = time.perf_counter(), spent()
    plan = design_motion(task, starts, iterations, workers=workers)
    return plan, time.perf_counter() - wall, spent() - cpu


def gradient(task: Task) -> None:
    """Prints the cost of one gradient."""
    information = task.information
    robot = information.robot
    basis = FourierBasis(20.0, 5, 0.1)
    values = basis.values(np.linspace(0.0, 20.0, 200))[:3]
    X = np.random.default_rng(0).normal(0.0, 0.3, (basis.size, robot.n))
    q, dq, ddq = (B @ X for B in values)

    def whole() -> None:
        _, g = information.gradient(q, dq, ddq)
        sum(B.T @ part for B, part in zip(values, g, strict=True))

    motion = robot.tree_motion(q, dq, ddq)
    slots = np.arange(10 * len(pairs(robot.tree)[0])).reshape(-1, 10)
    weights = np.ones((slots.size, 200))
    for name, work in (
        (f"gradient of log det, {X.size} coefficients, 200 points", whole),
        ("  of it the reverse sweep", lambda: torque_gradient(robot.tree, *motion, slots, weights)),
    ):
        seconds = best_of(work)
        print(f"  {name}: {1e3 * seconds:.2f} ms{cycles(seconds)}")


def best_of(work: Callable[[], object], repeats: int = 60) -> float:
    """The least of many times, as others may be at work on the machine."""
    work()
    least = np.inf
    for _ in range(repeats):
        started = time.perf_counter()
        work()
        least = min(least, time.perf_counter() - started)
    return float(least)


def cycles(seconds: float) -> str:
    """Millions of cycles, where the system states a frequency."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        megahertz = next(float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz"))
    except (OSError, StopIteration, ValueError):
        return ""
    return f" ({seconds * megahertz:.1f} Mcycles)"


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
        fit = problem.shrunk(within(problem, X))
        if fit is not None and (size := float(np.abs(fit[1:] / problem.scale[1:]).sum())) > largest:
            best, largest = fit, size
    assert largest > 0
    return BasisTrajectory(basis, best)


def identified(arm: Arm, information: Information, motion: BasisTrajectory, seed: int) -> dict[str, float]:
    """Deviations of the base parameters from a simulated log of a motion."""
    robot = information.robot
    friction = {"viscous": list(arm.viscous), "coulomb": list(arm.coulomb)} if arm.viscous else {}
    plant = build_plant(robot, PlantFile.model_validate({"friction": friction}))
    sensors = {"rate": 200.0, "position": {"noise": 2e-5}, "effort": {"noise": information.noise.tolist()}}
    rig = Rig(SensorFile.model_validate(sensors))
    moved = Setup(plant, ControllerFile(kind="ideal")).motion(motion, rig.rate)
    t, columns = rig.measure(robot, moved, (seed, 0))
    with tempfile.TemporaryDirectory() as folder:
        log = read_log(write_log(Path(folder) / "log.parquet", t, columns), robot)
        estimate = identify(robot, log, Settings(terms=TERMS)).estimate
    return dict(zip(estimate.base.formulas(), np.sqrt(np.diag(estimate.covariance)), strict=True))


def campaign(name: str, arm: Arm, options: argparse.Namespace) -> None:
    """Simulates and identifies a designed and a hand-made motion."""
    task = task_of(arm, options.seconds, Criterion.LOGDET)
    if task.bounds.theta is None:
        print(f"  {name} is not simulated: its description holds no masses")
        return
    plan, _, _ = timed(task, options.starts, options.iterations, options.workers)
    mine = identified(arm, task.information, plan.trajectory, 1)
    theirs = identified(arm, task.information, hand_made(task), 2)
    ratios = np.array([mine[key] / theirs[key] for key in mine if key in theirs])
    print(
        f"  {name} simulated and identified: deviation {np.median(ratios):.3f} of a hand-made motion's (median of "
        f"{len(ratios)} base parameters; {len(mine)} against {len(theirs)} determined at all)"
    )


def main() -> None:
    """Runs the comparison."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("arms", nargs="*", default=list(ARMS))
    parser.add_argument("--seconds", type=float, default=31.0)
    parser.add_argument("--criterion", type=Criterion, default=Criterion.CONDITION)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--starts", type=int, default=2)
    parser.add_argument("--iterations", type=int, default=80)
    parser.add_argument("--campaign", action="store_true")
    options = parser.parse_args()
    for name in options.arms:
        arm = ARMS[name]
        task = task_of(arm, options.seconds, options.criterion)
        plan, wall, cpu = timed(task, options.starts, options.iterations, options.workers)
        print(
            f"{name}: {task.information.base.rank} base parameters, {options.seconds:g} s, {options.criterion}"
        )
        print(
            f"  condition number {plan.figures.condition:.2f}; published {PUBLISHED[name]}, {ELSEWHERE}\n"
            f"  {wall:.1f} s wall, {cpu:.1f} s of processor, {plan.iterations} iterations of {plan.starts} starts"
        )
        for kind in dict.fromkeys(m.what for m in plan.margins):
            print(f"  {min((m for m in plan.margins if m.what == kind), key=lambda m: m.margin)}")
        gradient(task)
        if options.campaign:
            campaign(name, arm, options)


if __name__ == "__main__":
    main()
