"""Motions for a UR5e and a Panda: proportions better than published ones, intervals half those of plain sinusoids."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base import Float
from dynid.estimate import WLS
from dynid.excitation import (
    Bounds,
    Criterion,
    Information,
    MotionLimits,
    Task,
    Workspace,
    collision_model,
    design_motion,
    information_of,
    prior_theta,
    robot_shapes,
)
from dynid.excitation.design import Problem, draws, within
from dynid.identification import Settings, identify
from dynid.lab import ControllerFile, PlantFile, Rig, SensorFile, Setup, build_plant
from dynid.log import read_log, write_log
from dynid.robot import load_robot
from dynid.terms import Coulomb, Offset, RigidBody, Viscous
from dynid.trajectories import BasisTrajectory, FourierBasis
from tests.robot_files import ROBOTS

TERMS = RigidBody() + Viscous() + Coulomb() + Offset()
BASIS = FourierBasis(31.0, 5, 0.1)
EFFORT = np.array([150.0, 150.0, 150.0, 28.0, 28.0, 28.0])
MADSEN, GAZ = 66.0, 49.0


def ur5e(criterion: Criterion) -> Task:
    robot = load_robot(ROBOTS / "ur5e.toml")
    limits = MotionLimits.of(robot, velocity=[np.pi], lower=[-2 * np.pi], upper=[2 * np.pi], torque=EFFORT)
    information = replace(information_of(robot, TERMS, 0.01 * EFFORT), criterion=criterion)
    theta = prior_theta(robot, information.terms)
    space, capsules = (
        Workspace.of(robot, floor=0.0),
        collision_model(robot, robot_shapes(robot, np.array([0.05]))),
    )
    return Task(BASIS, information, Bounds(limits, theta, 0.1, space, capsules, 0.02))


def deviations(information: Information, motion: BasisTrajectory) -> Float:
    R = information.triangle(*motion.motion(np.arange(0.0, 31.0, 0.02)))
    return np.asarray(np.linalg.norm(np.linalg.inv(R), axis=1))


def plain_sinusoids(task: Task) -> BasisTrajectory:
    problem = Problem(task)
    fits = []
    for pose in draws(problem, 30, 1)[:10]:
        X = np.zeros(problem.scale.shape)
        X[0] = pose[0]
        for j in range(X.shape[1]):
            X[1 + j % 5, j] = problem.scale[1 + j % 5, j]
        fit = problem.shrunk(within(problem, X))
        if fit is not None:
            fits.append(fit)
    return BasisTrajectory(task.basis, max(fits, key=lambda X: np.abs(X[1:] / problem.scale[1:]).sum()))


def test_the_condition_of_a_ur5e_is_well_below_the_published_one() -> None:
    task = ur5e(Criterion.CONDITION)
    assert task.information.base.rank == 36 + 18
    plan = design_motion(task, starts=1, iterations=10, candidates=30)
    assert plan.tightest.margin >= 0
    assert plan.figures.condition < MADSEN / 5


def test_the_condition_of_a_panda_is_below_the_published_one() -> None:
    robot = load_robot(ROBOTS / "panda_gaz.toml")
    information = replace(information_of(robot, TERMS), criterion=Criterion.CONDITION)
    assert information.base.rank == 43 + 21
    bounds = Bounds(
        MotionLimits.of(robot),
        workspace=Workspace.of(robot, floor=0.0),
        collision=collision_model(robot, robot_shapes(robot, np.array([0.06]))),
    )
    plan = design_motion(Task(BASIS, information, bounds), starts=1, iterations=6, candidates=30)
    assert plan.tightest.margin >= 0
    assert plan.figures.condition < GAZ / 3


def found_from(task: Task, motion: BasisTrajectory, folder: Path, seed: int) -> dict[str, float]:
    # The arm moves, its sensors are read, the log is identified: deviations of the base parameters by name.
    robot = task.information.robot
    friction = {"viscous": [8.0, 8.0, 6.0, 2.0, 2.0, 2.0], "coulomb": [6.0, 6.0, 5.0, 2.0, 2.0, 2.0]}
    plant = build_plant(robot, PlantFile.model_validate({"friction": friction}))
    sensors = {"rate": 200.0, "position": {"noise": 2e-5}, "effort": {"noise": (0.01 * EFFORT).tolist()}}
    rig = Rig(SensorFile.model_validate(sensors))
    moved = Setup(plant, ControllerFile(kind="ideal")).motion(motion, rig.rate)
    t, columns = rig.measure(robot, moved, (seed, 0))
    log = read_log(write_log(folder / f"{seed}.parquet", t, columns), robot)
    # Without a prior, which would make up for what a motion does not tell.
    estimate = identify(robot, log, Settings(terms=TERMS, estimator=WLS())).estimate
    assert estimate.base.rank == 36 + 18
    return dict(zip(estimate.base.formulas(), np.sqrt(np.diag(estimate.covariance)), strict=True))


def test_intervals_are_less_than_half_of_those_of_plain_sinusoids(tmp_path: Path) -> None:
    task = ur5e(Criterion.LOGDET)
    plan = design_motion(task, starts=1, iterations=15, candidates=30)
    assert plan.tightest.margin >= 0
    simple = plain_sinusoids(task)
    mine, theirs = deviations(task.information, plan.trajectory), deviations(task.information, simple)
    assert np.median(mine / theirs) < 0.5
    found, others = found_from(task, plan.trajectory, tmp_path, 1), found_from(task, simple, tmp_path, 2)
    assert found.keys() == others.keys()
    assert np.median([found[name] / others[name] for name in found]) < 0.5
    assert np.median(list(found.values())) < 0.5 * np.median(list(others.values()))
