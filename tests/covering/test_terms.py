"""Terms on robots that have everything: torque by pinocchio, momentum and energy by finite differences."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, product

import numpy as np
import pytest

from dynid.terms import DriveGain, OnMotor
from dynid.testing import RobotCase, covering_cases
from dynid.testing.robots import LEVELS
from tests.covering.oracle import EVERY, ONE_ENCODER, agree, expected, moved, slope


def test_every_pair_of_features_meets_on_a_robot() -> None:
    cases = covering_cases()
    for a, b in combinations(LEVELS, 2):
        for x, y in product(LEVELS[a], LEVELS[b]):
            assert any(c.levels[a] == x and c.levels[b] == y for c in cases), (a, x, b, y)


def test_nothing_on_them_is_plain() -> None:
    ratios = np.concatenate([np.diag(c.robot.drive.transmission) for c in covering_cases()])
    assert ratios.min() < -10
    assert ratios.max() > 100
    assert ((np.abs(ratios) < 1) & (np.abs(ratios) > 0)).any()
    depth = [max(len(path) for path in c.robot.tree.paths) for c in covering_cases()]
    assert max(depth) == 9
    for case in covering_cases():
        assert (case.theta != 0).all()
        moving = case.samples(20)
        assert (np.abs(moving.dq).max(axis=0) > 0.1).all()
        assert (np.abs(moving.tau).max(axis=0) > 0.1).all()


@pytest.mark.parametrize("case", EVERY)
def test_torque_is_pinocchios(case: RobotCase) -> None:
    samples = case.motion(8, seed=3)
    link, motor = expected(case, samples)
    agree(case.terms.torque(case.robot, samples, case.theta), link + motor)
    agree(case.motor_torque(samples), motor)
    p = len(case.theta)
    lines = case.terms.torque_regressor(case.robot, samples, np.ones(p, dtype=np.bool_)).dense(p)
    known = case.terms.known_torque(case.robot, samples)
    agree(lines @ case.theta + known, link + motor)


@pytest.mark.parametrize("case", EVERY)
def test_columns_left_out_change_nothing_else(case: RobotCase) -> None:
    samples, p = case.motion(5, seed=4), len(case.theta)
    every, some = np.ones(p, dtype=np.bool_), np.random.default_rng(5).random(p) < 0.5
    robot, terms = case.robot, case.terms
    for form in (
        terms.torque_regressor,
        terms.motor_regressor,
        lambda *at: terms.momentum_form(*at)[0],
        lambda *at: terms.momentum_form(*at)[1],
        lambda *at: terms.motor_momentum_form(*at)[0],
        lambda *at: terms.motor_momentum_form(*at)[1],
    ):
        agree(form(robot, samples, some).dense(p), form(robot, samples, every).dense(p) * some, 1e-12)


@pytest.mark.parametrize("case", EVERY)
def test_momentum_changes_by_the_torque(case: RobotCase) -> None:
    samples, p = case.motion(5, seed=6), len(case.theta)
    every, robot, terms = np.ones(p, dtype=np.bool_), case.robot, case.terms
    for form, regressor in (
        (terms.momentum_form, terms.torque_regressor),
        (terms.motor_momentum_form, terms.motor_regressor),
    ):
        rate = slope(lambda s, form=form: form(robot, moved(samples, s), every)[0].dense(p), 1e-3)
        R = form(robot, samples, every)[1].dense(p)
        agree(rate + R, regressor(robot, samples, every).dense(p), 1e-9)
    rate = slope(lambda s: terms.known_momentum(robot, moved(samples, s))[0], 1e-3)
    agree(rate + terms.known_momentum(robot, samples)[1], terms.known_torque(robot, samples), 1e-9)


@pytest.mark.parametrize("case", ONE_ENCODER)
def test_energy_changes_by_the_power(case: RobotCase) -> None:
    samples, p = case.motion(5, seed=7), len(case.theta)
    every, robot, terms = np.ones(p, dtype=np.bool_), case.robot, case.terms
    rate = slope(lambda s: terms.energy_form(robot, moved(samples, s), every)[0], 1e-3).T
    working = terms.energy_form(robot, samples, every)[1].dense(p)
    power = np.einsum("tjp,tj->tp", terms.torque_regressor(robot, samples, every).dense(p), samples.dq)
    agree(rate + np.einsum("tjp,tj->tp", working, samples.dq), power, 1e-9)
    rate = slope(lambda s: terms.known_energy(robot, moved(samples, s))[0], 1e-3)
    lost = (terms.known_energy(robot, samples)[1] * samples.dq).sum(axis=1)
    agree(rate + lost, (terms.known_torque(robot, samples) * samples.dq).sum(axis=1), 1e-9)


@pytest.mark.parametrize("case", EVERY)
def test_motors_see_their_own_torque(case: RobotCase) -> None:
    # The drive gain's column is minus the measured torque: on all motors it comes back to the joints as it was.
    robot = case.robot
    samples = replace(case.samples(5, seed=8), theta=None, dtheta=None, ddtheta=None)
    found = OnMotor(DriveGain()).torque_regressor(robot, samples, np.ones(robot.n, dtype=np.bool_))
    agree(found.dense(robot.n).sum(axis=2), -samples.tau)
