"""Simulated robots that have everything: pinocchio's equations of motion, energy, MuJoCo's motion."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.lab import MujocoSimulator
from dynid.simulation import (
    Coupling,
    Elasticity,
    FixedStep,
    ForwardModel,
    FunctionLoad,
    Mechanism,
    Plant,
    SmoothFriction,
    simulate,
)
from dynid.simulation.control import OpenLoop
from dynid.terms import Terms, channels_of
from dynid.testing import RobotCase
from tests.covering.oracle import EVERY, ONE_ENCODER, Bodies, agree, bodies_of, motors_of, slope


def plant_of(case: RobotCase, friction: bool = True) -> Plant:
    """The robot with its load, loads on the joints, and friction; springs where there are two encoders."""
    robot = case.robot
    elasticity = None
    if case.levels["encoders"] == "two":
        elasticity = Elasticity(np.linspace(900.0, 400.0, robot.n), np.linspace(0.5, 2.0, robot.n))
    payload = bodies_of(case) - robot.inertia_prior
    return Plant(
        robot,
        elasticity=elasticity,
        coupling=Coupling.SIMPLIFIED if robot.drive.linkages else Coupling.FULL,
        payload=payload,
        loads=(FunctionLoad(lambda q, dq: 3.0 * np.sin(q), lambda q: 3.0 * (1.0 - np.cos(q)).sum(axis=1)),),
        friction=SmoothFriction.of(robot, 0.3) if friction else None,
    )


def random_states(plant: Plant, count: int = 6) -> Float:
    """State vectors in which bars can be closed."""
    rng = np.random.default_rng(8)
    share = 0.3 if plant.robot.drive.linkages else 1.0
    return np.asarray(share * rng.uniform(-1, 1, (count, plant.states)))


@pytest.mark.parametrize("case", EVERY)
def test_equations_are_pinocchios(case: RobotCase) -> None:
    plant, robot, n = plant_of(case), case.robot, case.robot.n
    y = random_states(plant)
    state, s = plant.state(y), plant.size
    a = np.random.default_rng(9).normal(size=(len(y), s))
    M, h = plant.equations(y[:, :s], y[:, s : 2 * s])
    found = np.einsum("bij,bj->bi", M, a) + h
    links, motors = (state.q, state.dq, a[:, :n]), (state.theta, state.dtheta, a[:, -n:])
    full = plant.coupling is Coupling.FULL
    (turned, spun, gaining), J = motors_of(robot, motors)
    bodies = Bodies(robot, bodies_of(case), plant.rotors if full else None)
    link, rotors = bodies.torque(links, (turned, spun, gaining))
    if not full:
        rotors = plant.rotors * gaining
    drive = np.einsum("bmn,bm->bn", J, rotors)
    agree(found, link + drive if s == n else np.concatenate([link, drive], axis=1))


@pytest.mark.parametrize("case", EVERY)
def test_power_is_the_rate_of_energy(case: RobotCase) -> None:
    plant = plant_of(case)
    y = random_states(plant)
    u = np.random.default_rng(10).uniform(-50, 50, (len(y), plant.n))
    dy = plant.rate(y, u)
    state = plant.state(y)
    lost = (plant.friction_torque(y) * state.dtheta).sum(axis=1)
    if plant.elasticity is not None:
        lost = lost + ((state.dtheta - state.dq) ** 2) @ plant.elasticity.damping
    size = 0.01 / np.abs(dy).max()
    agree(
        slope(lambda t: plant.energy(y + t * dy), size),
        (u * state.dtheta).sum(axis=1) - lost,
        1e-8 / size / 1e4,
    )


@pytest.mark.parametrize("case", EVERY)
def test_drive_torque_and_acceleration_undo_each_other(case: RobotCase) -> None:
    plant = plant_of(case)
    y = random_states(plant)
    u = np.random.default_rng(11).normal(0, 30, (len(y), plant.n))
    agree(plant.drive_torque(plant.state(y), plant.acceleration(y, u)), u, 1e-9)
    held = plant.at_rest(plant.state(y).q)
    still = replace(plant, friction=None)
    assert np.abs(still.rate(held, plant.holding_torque(plant.state(y).q))).max() < 1e-7


@pytest.mark.parametrize("case", ONE_ENCODER)
def test_a_model_moves_forward_by_its_own_torque(case: RobotCase) -> None:
    own = [term for term in case.terms if not channels_of(term)]
    terms, samples = Terms(tuple(own)), case.motion(6, seed=12)
    assert len(terms.columns(case.robot)) == len(case.theta)
    M, h = ForwardModel(case.robot, terms, case.theta).equations(samples.q, samples.dq)
    agree(np.einsum("bij,bj->bi", M, samples.ddq) + h, terms.torque(case.robot, samples, case.theta))


@pytest.mark.parametrize("case", EVERY)
def test_a_mechanism_has_the_torque_of_its_terms(case: RobotCase) -> None:
    samples, n = case.motion(6, seed=13), case.robot.n
    two = samples.theta is not None
    mechanism = Mechanism(case.robot, case.terms, case.theta, tuple(range(n)) if two else ())
    motor = samples.motor
    x, v, a = (
        np.concatenate([one, other], axis=1) if two else one
        for one, other in ((samples.q, motor.q), (samples.dq, motor.dq), (samples.ddq, motor.ddq))
    )
    extra = dict(samples.extra)
    total, on_motors = case.terms.torque(case.robot, samples, case.theta), case.motor_torque(samples)
    wanted = np.concatenate([total - on_motors, on_motors], axis=1) if two else total
    agree(mechanism.force(x, v, a, extra), wanted)
    M, h = mechanism.equations(x, v, extra)
    agree(np.einsum("bij,bj->bi", M, a) + h, wanted, 1e-9)
    every = np.ones(len(case.theta), dtype=np.bool_)
    lines = mechanism.regressor(x, v, a, extra, every) @ case.theta
    known = mechanism.force(x, v, a, extra) - lines
    agree(
        known, Mechanism(case.robot, case.terms, 0 * case.theta, mechanism.second).force(x, v, a, extra), 1e-9
    )
    u = np.random.default_rng(14).normal(0, 20, (len(x), n))
    agree(
        mechanism.force(x, v, mechanism.acceleration(x, v, u, extra), extra),
        mechanism.on_coordinates(u),
        1e-8,
    )


# MuJoCo holds followers and linkages of bars by soft constraints only.
EXACT = [c for c in EVERY if not (c.values[0].robot.has_mimic or c.values[0].robot.drive.linkages)]


@pytest.mark.parametrize("case", EXACT)
def test_mujoco_moves_them_in_the_same_way(case: RobotCase) -> None:
    robot = case.robot
    elastic = case.levels["encoders"] == "two" or robot.drive.coupled
    springs = Elasticity(np.full(robot.n, 3e3), np.full(robot.n, 5.0)) if elastic else None
    coupling = Coupling.FULL if elastic else Coupling.SIMPLIFIED
    plant = replace(plant_of(case), elasticity=springs, coupling=coupling)
    push = OpenLoop(lambda t: 20.0 * np.sin(t[:, None] * np.linspace(3.0, 9.0, robot.n)))
    start, t = plant.at_rest(np.full((1, robot.n), 0.3))[0], np.arange(11) / 100.0
    ours = simulate(plant, push, start, t, FixedStep(5e-4))
    theirs = MujocoSimulator(plant, 5e-4).simulate(push, start, t)
    agree(theirs.q, ours.q)
    agree(theirs.theta, ours.theta)
    agree(theirs.ddq, ours.ddq, 1e-8)
