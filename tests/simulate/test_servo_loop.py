"""Robots and the controllers of their drives, run together: both kernels, and the plant that such a log came from."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.base.arrays import Bool
from dynid.base.errors import SolverError
from dynid.kernel import using
from dynid.kernel.multibody import Control, Held, rollout
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.loop import Feedback, Stretches
from dynid.simulation.mechanism import Mechanism
from dynid.simulation.servo_loop import ServoLoop, cubic, servo_run
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Terms, Viscous
from dynid.testing import random_robot

pytestmark = pytest.mark.usefixtures("native_kernel")
RATE = 200.0
TERMS = Terms((RigidBody(), RotorInertia(), Viscous(), Coulomb(0.1), Offset()))
GAINS = Feedback(np.array([150.0, 60.0]), np.array([30.0, 12.0]))


def model(robot: RobotModel) -> Mechanism:
    other = [0.4, 0.2, 1.0, 0.5, 1.5, 0.8, 0.3, -0.2]
    return Mechanism(robot, TERMS, np.concatenate([robot.inertia_prior.ravel(), other]))


def log_of_plant(robot: RobotModel, delay: float, T: int = 240) -> Samples:
    """A computer's log that commands from row to row, `delay` rows late; torque as the log's preparation has it."""
    system = model(robot).multibody
    assert system is not None
    t = np.arange(T) / RATE
    q_des = 0.3 * np.sin(2 * np.pi * np.multiply.outer(t, [0.9, 1.4]))
    control = Control(2, kp=GAINS.kp, kd=GAINS.kd, q=q_des)
    run = rollout(system, np.zeros((1, 4)), T, 1 / RATE, 20, control, Held.of(delay, 20))
    assert run.u is not None
    # On average half a row later than it was commanded.
    later = np.maximum(np.arange(T) - delay - 0.5, 0.0)
    made = Samples.from_motion(run.x[0], run.v[0], np.gradient(run.v[0], t, axis=0), rate=RATE)
    return replace(made, tau=cubic(run.u, later)[0])


def parameters(one: Mechanism) -> Bool:
    return np.ones(len(one.theta), dtype=np.bool_)


@pytest.mark.parametrize("delay", [0.0, 2.3])
def test_a_run_with_the_true_model_is_the_plants_motion(delay: float) -> None:
    robot = random_robot(3, 2, 0.0)
    log, loop = log_of_plant(robot, delay), ServoLoop(GAINS, (delay + 0.5) / RATE)
    stretches = Stretches.of(len(log), 80, 20)
    run = servo_run(model(robot), log, loop, stretches)
    size = np.ptp(log.q, axis=0)
    missed = stretches.gathered(run.x) - log.q
    # The plant holds its torque from row to row, the log's torque is smooth: a ten-thousandth of the motion.
    assert (np.abs(missed[20:]).max(axis=0) < 2e-3 * size).all()
    wrong = servo_run(model(robot), log, replace(loop, later=0.01), stretches)
    assert (np.abs(stretches.gathered(wrong.x) - log.q)[20:].max(axis=0) > 5e-3 * size).all()


@pytest.mark.parametrize("lag", [0.001, 0.0165])
def test_both_kernels_give_one_run_and_one_tangent(lag: float) -> None:
    robot = random_robot(3, 2, 0.0)
    log = log_of_plant(robot, 1.0, 60)
    stretches, found = Stretches.of(len(log), 15, 5), []
    for kernel in ("native", "numpy"):
        with using(kernel):
            one = model(robot)
            found.append(servo_run(one, log, ServoLoop(GAINS, lag), stretches, parameters(one)))
    assert_allclose(found[0].x, found[1].x, rtol=0, atol=1e-10)
    assert found[0].dx is not None
    assert found[1].dx is not None
    assert np.abs(found[0].dx).max() > 1e-4
    assert_allclose(found[0].dx, found[1].dx, rtol=1e-8, atol=1e-10)


def test_threads_change_no_byte() -> None:
    robot = random_robot(3, 2, 0.0)
    log, one = log_of_plant(robot, 1.0), model(robot)
    runs = [
        servo_run(one, log, ServoLoop(GAINS, 0.01), Stretches.of(len(log), 20, 10), parameters(one), threads)
        for threads in (1, 3)
    ]
    assert runs[0].dx is not None
    assert runs[1].dx is not None
    assert runs[0].x.tobytes() + runs[0].dx.tobytes() == runs[1].x.tobytes() + runs[1].dx.tobytes()


def test_a_loop_that_runs_off_is_an_error_with_advice() -> None:
    robot = random_robot(3, 2, 0.0)
    log = log_of_plant(robot, 1.0)
    unstable = ServoLoop(Feedback(GAINS.kp * 200, GAINS.kd), 0.05)
    with pytest.raises(SolverError, match=r"leaves the measured one|no finite acceleration"):
        servo_run(model(robot), log, unstable, Stretches.of(len(log), 200, 0))
