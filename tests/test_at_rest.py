"""Friction of joints that stand still: half of that of their last motion is predicted, beside what was fitted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.estimate import WLS
from dynid.estimate.scores import Scores
from dynid.identification.pipeline import identify
from dynid.identification.settings import Settings
from dynid.log.read import Log
from dynid.robot import load_robot
from dynid.robot.model import RobotModel
from dynid.run.validation import validate
from dynid.signals.last_motion import last_direction
from dynid.signals.past import WithPast
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms import Coulomb, Presliding, RigidBody, RotorInertia, Viscous
from dynid.terms.at_rest import kept_friction
from dynid.terms.friction_curves import AsymmetricCoulomb
from dynid.terms.friction_shapes import Stribeck
from dynid.terms.term import Term, Terms
from dynid.testing import random_robot

PENDULUM = """
<robot name="pendulum"><link name="base"/><link name="arm"/>
<joint name="shoulder" type="revolute"><parent link="base"/><child link="arm"/><axis xyz="0 1 0"/>
<limit lower="-3" upper="3" effort="100" velocity="5"/></joint></robot>
"""
STEP, ROW, SECONDS = 2e-4, 2e-3, 40.0
# Of the plant: inertia with the rotor, weight times distance, dry and viscous friction, and where a bristle slides.
INERTIA, WEIGHT, DRY, DAMPING, BRISTLE = 0.4, 8.0, 3.0, 1.0, 1e-4
KP, KD = 1500.0, 40.0
NOISE = 5e-6  # rad


def stopped(seed: int, compensated: bool) -> tuple[Float, Float, Float]:
    """A pendulum with bristles as friction (LuGre) that a servo moves from pose to pose: t, q and torque.

    compensated: whether the servo adds the friction of the motion that it asks for, and so lets go at its end.
    """
    rng = np.random.default_rng(seed)
    times = np.arange(round(SECONDS / STEP)) * STEP
    asked, speed = np.zeros_like(times), np.zeros_like(times)
    at, pose = 0.0, 0.0
    while at < SECONDS:
        goal = float(rng.choice([-1, 1]) * rng.uniform(0.3, 1.2)) * np.sign(-pose or 1.0)
        length, stand = abs(goal - pose) / rng.uniform(0.5, 1.5), rng.uniform(0.5, 1.5)
        u = np.clip((times - at) / length, 0.0, 1.0)
        own = times >= at
        asked[own] = (pose + (goal - pose) * u**3 * (10 - 15 * u + 6 * u * u))[own]
        speed[own] = ((goal - pose) / length * 30 * u * u * (1 - u) ** 2)[own]
        at, pose = at + length + stand, goal
    q = v = z = torque = 0.0
    stiffness, every = DRY / BRISTLE, round(ROW / STEP)
    rows = np.zeros((len(times) // every, 2))
    ahead = DRY * np.tanh(speed / 0.02) + DAMPING * speed if compensated else np.zeros_like(speed)
    for k in range(len(rows) * every):
        if k % 5 == 0:
            torque = KP * (asked[k] - q) + KD * (speed[k] - v) + ahead[k]
        bristle = (z + STEP * v) / (1.0 + STEP * abs(v) / BRISTLE)
        friction = stiffness * bristle + 40.0 * (bristle - z) / STEP + DAMPING * v
        z = bristle
        v += STEP * (torque - friction - WEIGHT * np.sin(q)) / INERTIA
        q += STEP * v
        if k % every == 0:
            rows[k // every] = q, torque
    q_logged = rows[:, 0] + NOISE * rng.normal(size=len(rows))
    return (
        ROW * np.arange(float(len(rows))),
        np.asarray(q_logged),
        rows[:, 1] + 0.02 * rng.normal(size=len(rows)),
    )


def log_of(robot: RobotModel, seed: int, compensated: bool) -> Log:
    t, q, tau = stopped(seed, compensated)
    return Log.from_arrays(robot, t, q[:, None], tau=tau[:, None])


@pytest.fixture(scope="module")
def pendulum(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("pendulum") / "pendulum.urdf"
    Path(path).write_text(PENDULUM)
    return load_robot(path)


def test_half_misses_less_than_none_and_than_all_of_it(
    pendulum: RobotModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(
        terms=RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02),
        preparation=Preparation(cutoff=10.0),
        estimator=WLS(),
    )
    squares: dict[float, list[float]] = {0.0: [], 0.5: [], 1.0: []}
    for compensated in (False, True):
        found = identify(pendulum, log_of(pendulum, 1, compensated), settings, threads=1)
        other = log_of(pendulum, 2, compensated)
        scores: dict[float, Scores] = {}
        for kept in squares:
            with monkeypatch.context() as patch:
                patch.setattr("dynid.terms.at_rest.KEPT", kept)
                scores[kept] = validate(found, other, threads=1).scores
        for kept, one in scores.items():
            assert one.left_out["rest"] > 0.2
            assert one.all_samples is not None
            squares[kept].append(float(one.all_samples.mse[0]))
            # What is predicted at rest changes nothing in motion.
            np.testing.assert_array_equal(one.mse, scores[0.5].mse)
    # Some stops of either servo leave all of the friction, some none of it or the opposite, and nothing says which.
    none, half, whole = (np.array(squares[kept]) for kept in (0.0, 0.5, 1.0))
    assert (half < np.minimum(none, whole)).all()


def moved(path: Float) -> Samples:
    q = np.asarray(path, dtype=np.float64)[:, None]
    return Samples.from_motion(q, np.zeros_like(q), np.zeros_like(q))


def test_the_last_motion_is_the_last_that_is_seen() -> None:
    forward, back = np.linspace(0.0, 1.0, 50), 1.0 - np.linspace(0.0, 2e-3, 20)
    way = last_direction(
        moved(np.concatenate([np.zeros(5), forward, back, np.full(5, back[-1])])), np.array([1e-3])
    )
    assert (way[:5] == 0).all()
    assert (way[6:55] == 1).all()
    np.testing.assert_allclose(way[-5:], -1.0)
    small = last_direction(moved(np.concatenate([forward, back])), np.array([3e-3]))
    assert (small[1:] > 0).all()
    trembling = last_direction(moved(1e-3 * np.sin(np.arange(100.0))), np.array([1.1e-3]))
    assert not trembling.any()


def test_the_last_motion_is_known_across_batches() -> None:
    whole = moved(np.concatenate([np.linspace(0.0, -1.0, 50), np.full(50, -1.0)]))
    parts = [whole.part(0, 60), whole.part(60, 100)]
    first, second = WithPast(parts)
    travel = np.array([1e-4])
    assert (last_direction(second, travel) == -1).all()
    np.testing.assert_array_equal(
        np.concatenate([last_direction(first, travel), last_direction(second, travel)])[1:],
        last_direction(whole, travel)[1:],
    )


ROBOT = random_robot(5, 2, 0.0)


@pytest.mark.parametrize(
    ("term", "values", "half"),
    [
        (Coulomb(0.02), (2.0, 4.0), ((1.0, -2.0), (0.0, 2.0))),
        (Coulomb(), (2.0, 4.0), ((1.0, -2.0), (0.0, 2.0))),
        (AsymmetricCoulomb(), (2.0, 3.0, 4.0, 6.0), ((1.0, -3.0), (0.0, 2.0))),
        (Stribeck(velocity=10.0), (2.0, 4.0), ((1.0, -2.0), (0.0, 2.0))),
        (Viscous(), (2.0, 4.0), ((0.0, 0.0), (0.0, 0.0))),
        (Presliding(distance=1e-3), (2.0, 4.0), ((0.0, 0.0), (0.0, 0.0))),
    ],
)
def test_half_of_the_dry_friction_of_the_last_motion(
    term: Term, values: tuple[float, ...], half: tuple[tuple[float, ...], ...]
) -> None:
    nothing = np.zeros((2, 2))
    samples = Samples.from_motion(nothing, nothing, nothing)
    direction = np.array([[1.0, -1.0], [0.0, 1.0]])
    terms = Terms((RigidBody(), term))
    theta = np.concatenate([np.ones(10 * ROBOT.n_bodies), values])
    found = kept_friction(ROBOT, terms, samples, theta, direction)
    np.testing.assert_allclose(found, half, rtol=0.01)
    # In place of what the terms say of a velocity, not beside it.
    creeping = replace(samples, dq=0.5 * direction)
    if isinstance(term, Coulomb):
        np.testing.assert_allclose(kept_friction(ROBOT, terms, creeping, theta, direction), -found, rtol=0.02)
