"""Robots and the controllers of their drives, run together: both kernels, and the plant that such a log came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.base import Bool, Float, SolverError
from dynid.kernel import using
from dynid.kernel.multibody import Control, Held, rollout
from dynid.recording import Commands
from dynid.robot import RobotModel, Servo
from dynid.signals import Samples
from dynid.simulation import Mechanism, ServoLoop, Stretches, servo_run
from dynid.simulation.servo_loop import _means_of_held
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Terms, Viscous
from dynid.testing import random_robot

pytestmark = pytest.mark.usefixtures("native_kernel")
RATE = 200.0
TERMS = Terms((RigidBody(), RotorInertia(), Viscous(), Coulomb(0.1), Offset()))
LINEAR = Servo(
    np.array([150.0, 60.0]), np.array([30.0, 12.0]), np.full(2, np.inf), np.zeros(2), hold=1 / RATE
)
# Limits and dead bands that act in a good part of the motion.
HARD = replace(LINEAR, effort_limit=np.array([6.0, 2.5]), dead_band=np.array([0.01, 0.02]))


def model(robot: RobotModel) -> Mechanism:
    other = [0.4, 0.2, 1.0, 0.5, 1.5, 0.8, 0.3, -0.2]
    return Mechanism(robot, TERMS, np.concatenate([robot.inertia_prior.ravel(), other]))


def told(t: Float) -> Commands:
    w = 2 * np.pi * np.array([0.9, 1.4])
    phase = np.multiply.outer(t, w)
    return Commands(t, 0.3 * np.sin(phase), 0.1 * w * np.cos(phase), 0.2 * np.cos(phase))


def log_of_plant(robot: RobotModel, servo: Servo, delay: float, T: int = 240) -> tuple[Samples, ServoLoop]:
    """A log, and the controllers: held from row to row and `delay` rows late, or on board and asked all the time."""
    system = model(robot).multibody
    assert system is not None
    rows, count = np.arange(T) / RATE, 20
    late = replace(servo, delay=delay / RATE)
    at = rows if not servo.on_board else np.arange(2 * count * (T - 1) + 1) / (2 * count * RATE) - late.lag
    q, v, u = ServoLoop(late, told(rows)).commanded(at, np.zeros((len(at), 2)), np.ones(2, dtype=np.bool_))
    control = Control(2, servo.kp, servo.kd, servo.effort_limit, servo.dead_band, q, v, u)
    held = None if servo.on_board else Held.of(delay, count)
    run = rollout(system, np.zeros((1, 4)), T, 1 / RATE, count, control, held)
    log = Samples.from_motion(run.x[0], run.v[0], np.gradient(run.v[0], rows, axis=0), rate=RATE)
    return log, ServoLoop(late, told(rows))


def parameters(one: Mechanism) -> Bool:
    return np.ones(len(one.theta), dtype=np.bool_)


@pytest.mark.parametrize("loop", ["computer", "drive"])
@pytest.mark.parametrize("delay", [0.0, 2.3])
@pytest.mark.parametrize("servo", [LINEAR, HARD])
def test_a_run_with_the_true_model_is_the_plants_motion(servo: Servo, delay: float, loop: str) -> None:
    """The plant takes 20 steps a row and the run as few as it needs, from states amid the motion."""
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, replace(servo, loop=loop), delay)
    stretches = Stretches.of(len(log), 80, 40)
    run = servo_run(model(robot), log, controllers, stretches)
    size = np.ptp(log.q, axis=0)
    missed = stretches.gathered(run.x) - log.q
    # The plant's first torques come before its first row; later windows begin with those of the motion before them.
    assert (np.abs(missed[80:]).max(axis=0) < 5e-4 * size).all()
    wrong = servo_run(model(robot), log, replace(controllers, later=0.01), stretches)
    assert (np.abs(stretches.gathered(wrong.x) - log.q)[80:].max(axis=0) > 5e-3 * size).any()


def test_limits_and_dead_bands_move_the_joints() -> None:
    """What the runs above follow is no linear loop: without limits and bands they miss by a tenth of the motion."""
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, HARD, 1.0)
    stretches = Stretches.of(len(log), 80, 40)
    linear = servo_run(
        model(robot), log, replace(controllers, servo=replace(LINEAR, delay=1 / RATE)), stretches
    )
    missed = np.abs(stretches.gathered(linear.x) - log.q)[40:].max(axis=0)
    assert (missed > 0.05 * np.ptp(log.q, axis=0)).all()


@pytest.mark.parametrize(
    ("delay", "servo", "loop"),
    [
        (0.0, LINEAR, "computer"),
        (0.7, HARD, "computer"),
        (0.7, LINEAR, "drive"),
        (2.8, LINEAR, "computer"),
        (2.8, HARD, "drive"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                (0.0, LINEAR, "drive"),
                *((0.0, HARD, loop) for loop in ("computer", "drive")),
                (0.7, LINEAR, "computer"),
                (0.7, HARD, "drive"),
                (2.8, HARD, "computer"),
                (2.8, LINEAR, "drive"),
            )
        ),
    ],
)
def test_both_kernels_give_one_run_and_one_tangent(servo: Servo, delay: float, loop: str) -> None:
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, replace(servo, loop=loop), delay, 60)
    # Longer than the delay: torque that the history holds, and torque of the run itself.
    stretches, found = Stretches.of(len(log), 6, 2), []
    for kernel in ("native", "numpy"):
        with using(kernel):
            one = model(robot)
            found.append(servo_run(one, log, controllers, stretches, parameters(one)))
    assert_allclose(found[0].x, found[1].x, rtol=0, atol=1e-10)
    assert found[0].dx is not None
    assert found[1].dx is not None
    assert np.abs(found[0].dx).max() > 1e-4
    assert_allclose(found[0].dx, found[1].dx, rtol=1e-8, atol=1e-10)


def test_slopes_are_those_of_the_runs_under_a_limit_too() -> None:
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, HARD, 1.0, 80)
    stretches, one = Stretches.of(len(log), 40, 20), model(robot)
    run = servo_run(one, log, controllers, stretches, parameters(one))
    assert run.dx is not None
    for place in (-8, -5, -3):
        step = np.zeros(len(one.theta))
        step[place] = 1e-5
        ends = [
            servo_run(replace(one, theta=one.theta + sign * step), log, controllers, stretches).x
            for sign in (1, -1)
        ]
        slope = (ends[0] - ends[1]) / 2e-5
        # A sample in which the torque reaches or leaves its limit changes with the parameters, too.
        assert np.sqrt(np.mean((run.dx[..., place] - slope) ** 2)) < 0.02 * np.sqrt(np.mean(slope**2))


def test_commands_are_of_the_turn_that_the_joint_is_on() -> None:
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, LINEAR, 1.0)
    c, stretches = controllers.commands, Stretches.of(len(log), 80, 40)
    turned = replace(c, q_des=c.q_des + 2 * np.pi * np.array([1.0, -2.0]))
    runs = [
        servo_run(model(robot), log, replace(controllers, commands=one), stretches) for one in (c, turned)
    ]
    assert_allclose(runs[0].x, runs[1].x, rtol=0, atol=1e-9)


def test_threads_change_no_byte() -> None:
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, LINEAR, 1.0)
    one, stretches = model(robot), Stretches.of(len(log), 20, 10)
    runs = [servo_run(one, log, controllers, stretches, parameters(one), threads) for threads in (1, 3)]
    assert runs[0].dx is not None
    assert runs[1].dx is not None
    assert runs[0].x.tobytes() + runs[0].dx.tobytes() == runs[1].x.tobytes() + runs[1].dx.tobytes()


def test_a_loop_that_runs_off_is_an_error_with_advice() -> None:
    robot = random_robot(3, 2, 0.0)
    log, controllers = log_of_plant(robot, LINEAR, 1.0)
    unstable = replace(LINEAR, kp=LINEAR.kp * 200, delay=0.0475)
    with pytest.raises(SolverError, match=r"diverges from the measured|no finite acceleration"):
        servo_run(model(robot), log, replace(controllers, servo=unstable), Stretches.of(len(log), 200, 0))


def test_means_of_held_commands_are_those_of_their_stairs() -> None:
    """Against sums over fine stairs; before the first command it is held, and after the last."""
    rng = np.random.default_rng(0)
    t, values = np.cumsum(rng.uniform(0.01, 0.03, 12)), rng.normal(size=(12, 2))
    at, width = rng.uniform(t[0] - 0.05, t[-1] + 0.05, (4, 5)), 0.007
    fine = at[..., None] + width * ((np.arange(4000) + 0.5) / 4000 - 0.5)
    stairs = values[np.maximum(np.searchsorted(t, fine, side="right") - 1, 0)]
    found = _means_of_held(t, values, at, width)
    assert found == pytest.approx(stairs.mean(axis=2), abs=2e-3)
