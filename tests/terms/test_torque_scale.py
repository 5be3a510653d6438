"""One factor on all bodies: how often a wrong description shows one, and a torque of another size does not."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.diagnosis import ResidualAnalysis, compare_with_description
from dynid.kernel import gravity_torque
from dynid.robot import RobotModel
from dynid.spatial import from_com, to_com
from dynid.terms.gain import SCALE_CHANCE, CommonScale, common_scale, gravity_parameters
from dynid.terms.payload import UNSURE, UNSURE_CENTRE
from dynid.testing import analysis_of, small_arm
from dynid.testing.faults import BY_NAME, CLEAN, outcome
from dynid.testing.machines import MACHINES, imprecise, loaded

DRAWS = 100


@cache
def analysis(name: str) -> ResidualAnalysis:
    """A log of one of the campaign's robots, exactly described."""
    return analysis_of(MACHINES[name].robot, seed=1)


def scale_of(described: RobotModel, name: str, factor: float = 1.0) -> CommonScale:
    """Of a log whose torque is `factor` times as large as the robot's."""
    smaller = replace(described, inertia_prior=described.inertia_prior / factor)
    found = common_scale(replace(analysis(name), robot=smaller))
    assert found is not None
    return found


def doubted(described: RobotModel, name: str, factor: float = 1.0) -> bool:
    """Whether such a log is doubted for its scale."""
    said = Diagnostics()
    smaller = replace(described, inertia_prior=described.inertia_prior / factor)
    compare_with_description(replace(analysis(name), robot=smaller), said)
    return "torque-scale" in {one.identifier for one in said.doubts}


def as_unsure_as_assumed(robot: RobotModel, rng: np.random.Generator) -> RobotModel:
    """A description whose masses and centres are off as much as UNSURE says."""
    bodies = []
    for body in robot.inertia_prior:
        mass, com, inertia = to_com(body)
        off = np.exp(UNSURE * rng.normal())
        moved = com + rng.normal(size=3) * np.hypot(UNSURE * com, UNSURE_CENTRE)
        bodies.append(from_com(off * mass, moved, off * inertia))
    return replace(robot, inertia_prior=np.array(bodies))


@pytest.mark.parametrize("name", ["arm7", pytest.param("kr300", marks=pytest.mark.slow)])
def test_the_error_of_the_factor_is_what_descriptions_make_of_it(name: str) -> None:
    """Of log k, over descriptions that are off as much as assumed; beyond its limits only by chance."""
    rng = np.random.default_rng(3)
    found = [scale_of(as_unsure_as_assumed(MACHINES[name].robot, rng), name) for _ in range(DRAWS)]
    logs, std = np.log([one.factor for one in found]), np.median([one.std for one in found])
    assert np.std(logs) == pytest.approx(std, rel=0.35)
    beyond = sum(one.sure for one in found)
    assert beyond <= SCALE_CHANCE * DRAWS + 3.0 * np.sqrt(SCALE_CHANCE * DRAWS)


@pytest.mark.parametrize("factor", [0.5, pytest.param(2.0, marks=pytest.mark.slow)])
def test_a_factor_on_all_torque_is_measured(factor: float) -> None:
    found = scale_of(MACHINES["arm7"].robot, "arm7", factor)
    assert found.factor == pytest.approx(factor, rel=0.03)
    assert found.sure
    low, high = found.limits
    assert low < factor < high


@pytest.mark.parametrize("name", ["kr300", pytest.param("polar", marks=pytest.mark.slow)])
def test_wrong_descriptions_are_no_scale_and_a_scale_is_one(name: str) -> None:
    """Masses, centres and inertias 20 to 30 % off, each body's by itself, or up to 15 % and all torque by a factor."""
    rng, robot = np.random.default_rng(0), MACHINES[name].robot
    wrong = sum(doubted(imprecise(robot, rng, (0.2, 0.3)), name) for _ in range(DRAWS))
    assert wrong <= SCALE_CHANCE * DRAWS
    for factor in (0.5, 2.0):
        named = sum(doubted(imprecise(robot, rng, (0.0, 0.15)), name, factor) for _ in range(20))
        assert named >= 19


def test_a_load_explains_a_robot_that_is_heavier_in_one_place() -> None:
    robot = small_arm()
    for seed in range(3):
        heavier = analysis_of(robot, seed=seed, truth=loaded(robot, 4.0, np.random.default_rng(seed)))
        found = common_scale(heavier)
        assert found is not None
        assert found.by_load > 0
        assert not found.sure


def test_what_gravity_shows_makes_up_its_torque() -> None:
    """G spans the gravity torque of any bodies, and the fit's values on it are those of the robot that moved."""
    one = analysis("arm7")
    assert one.body_parameters is not None
    shown = gravity_parameters(one, one.body_parameters)
    robot, rng = one.robot, np.random.default_rng(2)
    other = robot.inertia_prior.ravel() + rng.normal(size=10 * robot.n_bodies)
    same = other - shown.matrix.T @ (shown.matrix @ (other - robot.inertia_prior.ravel()))
    q = rng.uniform(-1.0, 1.0, (20, robot.n))
    g = [gravity_torque(robot.tree, bodies.reshape(-1, 10), q) for bodies in (robot.inertia_prior, same)]
    np.testing.assert_allclose(g[1], g[0], atol=1e-6 * np.abs(g[0]).max())
    truth = shown.matrix @ robot.inertia_prior.ravel()
    assert (np.abs(shown.value - truth) < 5.0 * np.sqrt(np.diag(shown.covariance)) + 1e-3).all()


def test_masses_are_needed_and_inertias_stand_in_for_gravity() -> None:
    one = analysis("arm7")
    unknown = np.full_like(one.robot.inertia_prior, np.nan)
    assert common_scale(replace(one, robot=replace(one.robot, inertia_prior=unknown))) is None
    found = common_scale(replace(one, robot=replace(one.robot, gravity=np.zeros(3))))
    assert found is not None
    assert found.limits[0] < 1.0 < found.limits[1]


@pytest.mark.parametrize("seed", [1001, pytest.param(1009, marks=pytest.mark.slow)])
def test_two_heavy_bodies_that_are_off_the_same_way_are_no_scale(seed: int) -> None:
    """Two joints of a heavy robot carry most weight: gravity's torque is 0.71 and 1.46 times the described one."""
    result = outcome(MACHINES["kr300"], BY_NAME[CLEAN], seed)
    assert result["doubted"] == [], result


@pytest.mark.parametrize(
    ("factor", "std", "open_"),
    [(1.0, 0.1, False), (1.0, 0.5, True), (0.53, 0.34, True), (1.3, 0.3, True), (0.5, 0.1, False)],
)
def test_a_scale_is_open_where_one_and_a_factor_of_two_both_fit(
    factor: float, std: float, open_: bool
) -> None:
    assert CommonScale(factor, std, -10.0).open == open_
