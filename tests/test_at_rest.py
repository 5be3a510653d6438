"""Friction of joints that stand still: a share of that of their last motion is predicted, beside what was fitted."""

from __future__ import annotations

import re
from dataclasses import fields, replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float, UnfitDataError
from dynid.estimate import WLS, Scores, StopSums, Sums
from dynid.estimate.scores import LEAST_STOP
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.robot import RobotModel, load_robot
from dynid.run import Identification, read_samples, validate
from dynid.signals import Preparation, Samples, WithPast, last_direction
from dynid.signals.prepare import prepare
from dynid.terms import (
    HALF,
    AsymmetricCoulomb,
    Coulomb,
    Presliding,
    RigidBody,
    RotorInertia,
    Stribeck,
    Term,
    Terms,
    Viscous,
    dry_friction,
)
from dynid.testing import random_robot

LEAST_REST = 0.2

pytestmark = pytest.mark.usefixtures("unexamined")

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


SETTINGS = Settings(
    terms=RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02),
    preparation=Preparation(cutoff=10.0),
    estimator=WLS(),
)


def keeping(found: Identification, share: float) -> Identification:
    """The same with another share of friction kept at rest."""
    scores = replace(found.training.scores, kept_at_rest=np.array([share]))
    return replace(found, training=replace(found.training, scores=scores))


def test_half_misses_least_over_servos_that_hold_on_and_that_let_go(pendulum: RobotModel) -> None:
    squares: dict[float, list[float]] = {0.0: [], HALF: [], 1.0: []}
    for compensated in (False, True):
        found = identify(pendulum, log_of(pendulum, 1, compensated), SETTINGS, threads=1)
        other = log_of(pendulum, 2, compensated)
        scores: dict[float, Scores] = {
            kept: validate(keeping(found, kept), other, threads=1).scores for kept in squares
        }
        for kept, one in scores.items():
            assert one.left_out["rest"] > 0.2
            assert one.all_samples is not None
            squares[kept].append(float(one.all_samples.mse[0]))
            # What is predicted at rest changes nothing in motion.
            np.testing.assert_array_equal(one.mse, scores[HALF].mse)
    # One servo holds on to the joint and one lets go of it, and nothing says which.
    none, half, whole = (sum(squares[kept]) for kept in (0.0, HALF, 1.0))
    assert half < min(none, whole)


def moved_and_held(seed: int, kept: float) -> tuple[Float, Float, Float]:
    """The pendulum from pose to pose without a servo, held at each with a share of the friction: t, q and torque."""
    rng = np.random.default_rng(seed)
    poses = np.cumsum(rng.choice([-1.0, 1.0], 20) * rng.uniform(0.4, 0.9, 20)) % 1.5
    u = np.concatenate([np.arange(0.0, 1.0, ROW), np.ones(round(0.6 / ROW))])
    step = u**3 * (10 - 15 * u + 6 * u * u)
    speed, acceleration = 30 * u * u * (1 - u) ** 2, 60 * u - 180 * u**2 + 120 * u**3
    far = np.diff(poses)[:, None]
    q, dq, ddq = (poses[:-1, None] + far * step).ravel(), (far * speed).ravel(), (far * acceleration).ravel()
    at_rest = np.where(dq == 0, kept, 0.0) * np.repeat(np.sign(far[:, 0]), len(u))
    friction = DRY * (np.tanh(dq / 0.02) + at_rest) + DAMPING * dq
    tau = INERTIA * ddq + friction + WEIGHT * np.sin(q) + 0.02 * rng.normal(size=len(q))
    return ROW * np.arange(float(len(q))), np.asarray(q + NOISE * rng.normal(size=len(q))), np.asarray(tau)


def test_stops_of_the_training_say_how_much_is_kept(pendulum: RobotModel) -> None:
    found_shares = []
    for share in (0.15, 0.2, 0.9):
        train, other = (
            Log.from_arrays(pendulum, t, q[:, None], tau=tau[:, None])
            for t, q, tau in (moved_and_held(seed, share) for seed in (1, 2))
        )
        found = identify(pendulum, train, SETTINGS, threads=1)
        kept = found.training.scores.kept_at_rest
        assert kept is not None
        found_shares.append(float(kept[0]))
        scores = [validate(one, other, threads=1).scores for one in (found, keeping(found, HALF))]
        measured, half = (float(one.all_samples.mse[0]) for one in scores if one.all_samples is not None)
        assert measured < 0.5 * half
        np.testing.assert_array_equal(scores[0].kept_at_rest, kept)
        assert f"{100 * kept[0]:.2g} %" in scores[0].at_rest_text
    np.testing.assert_allclose(found_shares[:2], [0.15, 0.2], atol=0.1)
    assert found_shares[2] > 0.8


def test_where_nothing_is_kept_stops_count_as_motion_does(pendulum: RobotModel) -> None:
    train, other = (
        Log.from_arrays(pendulum, t, q[:, None], tau=tau[:, None])
        for t, q, tau in (moved_and_held(seed, 0.0) for seed in (1, 2))
    )
    found = identify(pendulum, train, SETTINGS, threads=1)
    for scores in (found.training.scores, validate(found, other, threads=1).scores):
        assert "rest" not in scores.left_out
        assert scores.all_samples is None
        assert scores.relative[0] < 0.02


def test_where_little_is_kept_the_middle_of_each_stop_counts(pendulum: RobotModel) -> None:
    t, q, tau = moved_and_held(1, 0.2)
    log, notes = Log.from_arrays(pendulum, t, q[:, None], tau=tau[:, None]), Diagnostics()
    prepared = prepare(log, SETTINGS.preparation)
    found, _, rest = read_samples(prepared, notes, np.zeros(1, dtype=np.bool_), 1, None)
    (note,) = [one.text for one in notes if one.identifier == "free-at-rest"]
    assert "the middle of each time at rest" in note
    for before, own in zip(map(prepared.process, prepared.windows(None)), found, strict=True):
        pauses = np.flatnonzero(np.diff(before.left_out["rest"], prepend=False, append=False))
        each = 2 * max(1, round(0.25 * own.rate / prepared.bandwidth))  # half a period of the filter
        assert len(pauses) > 20
        for a, b in zip(pauses[::2].tolist(), pauses[1::2].tolist(), strict=True):
            more = np.flatnonzero(own.keep[a:b] & ~before.keep[a:b])
            if b - a < round(LEAST_REST * own.rate):
                assert not len(more)
                continue
            assert len(more) == each
            assert abs(float(more.mean()) - 0.5 * (b - a)) <= 1.0
        assert rest.left_out == pytest.approx(own.left_out["rest"].sum() / own.rate)


def test_a_log_without_stops_says_nothing_of_them(pendulum: RobotModel) -> None:
    t = np.arange(0.0, 20.0, ROW)
    q = 0.8 * np.sin(2.0 * t) + 0.3 * np.sin(5.0 * t)
    dq = 1.6 * np.cos(2.0 * t) + 1.5 * np.cos(5.0 * t)
    ddq = -3.2 * np.sin(2.0 * t) - 7.5 * np.sin(5.0 * t)
    tau = INERTIA * ddq + DAMPING * dq + DRY * np.tanh(dq / 0.02) + WEIGHT * np.sin(q)
    found = identify(
        pendulum, Log.from_arrays(pendulum, t, q[:, None], tau=tau[:, None]), SETTINGS, threads=1
    )
    scores = validate(found, log_of(pendulum, 2, False), threads=1).scores
    # Where joints turn back they rest for a moment, which is no stop.
    np.testing.assert_array_equal(scores.kept_at_rest, [HALF])
    assert "50 % of the last dry friction" in scores.at_rest_text


def test_friction_whose_square_underflows_says_nothing_of_what_is_kept() -> None:
    """As of a filter's tail in which a joint stands: half is predicted, and no warning of NumPy's said."""
    stands = np.tile((np.arange(400) // 50) % 2 == 1, (2, 1))
    tau = np.ones((2, 400))
    dry = np.stack([np.full(400, 1e-100), np.full(400, 1.25)])
    share = StopSums.of(tau, dry, stands, 100.0).share
    assert share[0] == HALF
    assert 0.75 < share[1] < 0.8


def test_sums_over_stops() -> None:
    rng = np.random.default_rng(4)
    tau, dry = rng.normal(size=(2, 3, 400))
    stands = (np.arange(400) // 50) % 2 == 1
    stands[::97] = True  # too short for a stop
    dry[:, ~stands] = 0.0
    dry[2] = 0.0
    stands = np.tile(stands, (3, 1))
    stands[1] = np.roll(stands[1], 7)  # each joint stands at times of its own
    dry[1] = np.where(stands[1], 2.0, 0.0)
    sums = StopSums.of(tau, dry, stands, 100.0)
    cuts = StopSums.of(tau[:, :200], dry[:, :200], stands[:, :200], 100.0)
    both = cuts + StopSums.of(tau[:, 200:], dry[:, 200:], stands[:, 200:], 100.0)
    for name in ("friction", "friction_square", "product"):
        np.testing.assert_allclose(getattr(both, name), getattr(sums, name), atol=1e-12)
    assert (sums.weight[:2] > 0).all()
    assert sums.weight[2] == 0
    for j in range(3):
        alone = StopSums.of(tau[j : j + 1], dry[j : j + 1], stands[j : j + 1], 100.0)
        assert [float(getattr(alone, one.name)[0]) for one in fields(StopSums)] == [
            float(getattr(sums, one.name)[j]) for one in fields(StopSums)
        ]
    share = np.array([0.3, 0.9, 1.0])
    expected = Sums.of_arrays(tau.T, (share[:, None] * dry).T, stands.T)
    found = sums.predicted(Sums.of_arrays(tau.T, np.zeros_like(tau).T, stands.T), share)
    np.testing.assert_allclose(found.error, expected.error, atol=1e-12)
    np.testing.assert_allclose(found.error_square, expected.error_square, atol=1e-12)
    assert found.torque_square.tolist() == expected.torque_square.tolist()


@pytest.mark.parametrize("kept", [0.0, 0.3, 1.0, 1.7])
def test_the_share_is_that_of_many_stops(kept: float) -> None:
    rng = np.random.default_rng(5)
    length = round(LEAST_STOP * 100.0) + 10
    stands = np.tile(np.repeat([False, True], length), 300)
    dry = np.where(stands, np.repeat(rng.choice([-2.0, 2.0], 600), length), 0.0)[None]
    stands = stands[None]
    tau = kept * dry + 0.2 * rng.normal(size=dry.shape)
    share = StopSums.of(tau, dry, stands, 100.0).share
    np.testing.assert_allclose(share, np.clip(kept, 0.0, 1.0), atol=0.01)
    assert StopSums.of(tau, 0.0 * dry, stands, 100.0).share == HALF


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
    ("term", "values", "whole"),
    [
        (Coulomb(0.02), (2.0, 4.0), ((2.0, -4.0), (0.0, 4.0))),
        (Coulomb(), (2.0, 4.0), ((2.0, -4.0), (0.0, 4.0))),
        (AsymmetricCoulomb(), (2.0, 3.0, 4.0, 6.0), ((2.0, -6.0), (0.0, 4.0))),
        (Stribeck(velocity=10.0), (2.0, 4.0), ((2.0, -4.0), (0.0, 4.0))),
        (Viscous(), (2.0, 4.0), ((0.0, 0.0), (0.0, 0.0))),
        (Presliding(distance=1e-3), (2.0, 4.0), ((0.0, 0.0), (0.0, 0.0))),
    ],
)
def test_dry_friction_of_the_last_motion(
    term: Term, values: tuple[float, ...], whole: tuple[tuple[float, ...], ...]
) -> None:
    nothing = np.zeros((2, 2))
    samples = Samples.from_motion(nothing, nothing, nothing)
    direction = np.array([[1.0, -1.0], [0.0, 1.0]])
    terms = Terms((RigidBody(), term))
    theta = np.concatenate([np.ones(10 * ROBOT.n_bodies), values])
    stopped, smooth = dry_friction(ROBOT, terms, samples, theta, direction)
    np.testing.assert_allclose(stopped, whole, rtol=0.01)
    assert not smooth.any()
    # In place of what the terms say of a velocity, not beside it.
    creeping = replace(samples, dq=0.5 * direction)
    if isinstance(term, Coulomb):
        again, smooth = dry_friction(ROBOT, terms, creeping, theta, direction)
        np.testing.assert_array_equal(again, stopped)
        np.testing.assert_allclose(smooth, stopped, rtol=0.02)


def test_a_motion_that_counts_as_rest_is_named_with_the_option_that_keeps_it(pendulum: RobotModel) -> None:
    """As of a telescope's mount, which never turns by more than some mrad/s; what is advised is enough."""
    t = 0.02 * np.arange(10000.0)
    q = 0.4 * np.sin(0.02 * t) + 0.2 * np.sin(0.031 * t)
    dq = np.gradient(q, t)
    tau = WEIGHT * np.sin(q) + DRY * np.sign(dq)
    log = Log.from_arrays(pendulum, t, q[:, None], tau=tau[:, None])
    # By default rest follows the log; a rest that is asked for is kept.
    assert identify(pendulum, log, Settings(), threads=1).training.scores.relative[0] < 0.1
    asked = replace(SETTINGS, preparation=replace(SETTINGS.preparation, rest=0.03))
    with pytest.raises(UnfitDataError) as refused:
        identify(pendulum, log, asked, threads=1)
    assert refused.value.identifier == "no-samples"
    assert f"{np.abs(dq).max():.2g}" in str(refused.value)
    advised = float(re.findall(r"for example to (\S+)", str(refused.value))[0])
    slower = replace(SETTINGS, preparation=replace(SETTINGS.preparation, rest=advised))
    assert identify(pendulum, log, slower, threads=1).training.scores.relative[0] < 0.1
