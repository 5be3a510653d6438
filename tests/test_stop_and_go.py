"""Stop and go: friction holds joints that all stand for a moment, and no low pass may spread what it is then."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.robot import RobotModel, load_robot
from dynid.run import Identification
from dynid.signals.coherence import LEAST_BY_TORQUE, PERIODS_A_MOVE
from dynid.signals.samples import move_seconds
from tests.servo_plant import recorded, robot_file, stop_and_go
from tests.unexamined import not_examined

RATE = 200.0


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    return load_robot(robot_file(tmp_path_factory.mktemp("arm")))


@cache
def identified(robot: RobotModel, seed: int, stops: bool) -> Identification:
    """On an arm in MuJoCo with dry friction under servos, scored on another motion without a stop."""

    def log(made: int, stopping: bool, seconds: float) -> Log:
        motion = {"motion": stop_and_go} if stopping else {}
        rows = recorded(seconds, 0, made, dry=True, **motion)
        return Log.from_arrays(robot, rows.t, rows.q, tau=rows.tau, dq=rows.dq)

    train, other = log(seed, stops, 28.0), log(50 + seed, False, 16.0)
    return identify(
        robot, train, Settings(estimator=WLS()), validation=other, threads=1, diagnostics=Diagnostics()
    )


@pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_stops_of_all_joints_spoil_no_model(robot: RobotModel, seed: int) -> None:
    """A log of moves with pauses of 0.3 to 0.8 s says nearly as much of another motion as one without a pause."""
    run = identified(robot, seed, True)
    with not_examined():
        free = identified(robot, seed, False)
    (note,) = (one.text for one in run.diagnostics if one.identifier == "held-by-friction")
    assert all(f"'{joint}'" in note for joint in robot.joint_names)
    assert not [one for one in free.diagnostics if one.identifier == "held-by-friction"]
    assert not run.diagnostics.doubts
    unseen, wanted = (one.validations[0].scores for one in (run, free))
    assert unseen.total_relative <= 2.0 * wanted.total_relative


def test_the_cut_off_is_as_fast_as_the_moves(robot: RobotModel) -> None:
    """What friction is at rest, a filter spreads over its period to either side: a third of a move at most."""
    evidence = identified(robot, 0, True).preparation
    cutoff = evidence["settings"]["cutoff"]
    assert cutoff > LEAST_BY_TORQUE
    # Moves of 0.4 to 0.9 s.
    assert cutoff >= PERIODS_A_MOVE / 0.9


def poses(rng: np.random.Generator, lasting: Float, pauses: Float) -> Float:
    """(1, T) a joint that waits, moves for a time, waits, ..."""
    parts, at = [np.zeros(round(RATE))], 0.0
    for move, pause in zip(lasting, pauses, strict=True):
        u = np.arange(0.0, move, 1.0 / RATE) / move
        goal = at + float(rng.choice([-1.0, 1.0]) * rng.uniform(0.5, 1.0))
        parts += [at + (goal - at) * u**3 * (10 - 15 * u + 6 * u * u), np.full(round(pause * RATE), goal)]
        at = goal
    return np.concatenate(parts)[None]


@pytest.mark.parametrize("typical", [0.5, 1.0, 3.0])
def test_moves_are_measured_from_pause_to_pause(typical: float) -> None:
    rng = np.random.default_rng(round(10 * typical))
    lasting = typical * rng.uniform(0.8, 1.25, 31)
    q = poses(rng, lasting, rng.uniform(0.4, 1.5, 31))
    # A move of degree five creeps at its ends.
    assert move_seconds([q], RATE) == pytest.approx(float(np.median(lasting)), rel=0.2)
    assert move_seconds([q, q], RATE) == move_seconds([q], RATE)


def test_a_motion_without_pauses_has_no_moves() -> None:
    t = np.arange(0.0, 60.0, 1.0 / RATE)
    turning = np.sin(2 * np.pi * 0.3 * t) + 0.2 * np.sin(2 * np.pi * 0.7 * t)
    assert move_seconds([turning[None]], RATE) == np.inf
    # One pause amid it leaves no move with two ends.
    paused = np.concatenate([turning, np.full(600, turning[-1]), turning[-1] + turning])
    assert move_seconds([paused[None]], RATE) == np.inf
