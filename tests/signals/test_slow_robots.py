"""Robots that are slower than others at rest, as telescopes: rest and the widths of friction's sign follow the log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.identification import identify
from dynid.log import Log
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from dynid.simulation import inverse
from dynid.terms import Coulomb, Offset, RigidBody, Viscous, narrowed
from dynid.testing import small_arm

ARM, RATE = small_arm(), 25.0
FRICTION = np.array([4.0, 6.0, 2.5])  # N m
DAMPING = np.array([40.0, 60.0, 30.0])  # N m s/rad


def moves(fastest: float, seconds: float, seed: int) -> tuple[Float, Float, Float]:
    """Times, positions and velocities of moves of one or all joints with rests between, at most that fast, rad/s."""
    rng = np.random.default_rng(seed)
    speeds: list[Float] = []
    while sum(map(len, speeds)) < seconds * RATE:
        length = int(rng.uniform(8.0, 25.0) * RATE)
        ramp = np.clip(np.minimum(np.arange(length), np.arange(length)[::-1]) / RATE, 0.0, 1.0)
        which = np.ones(3) if rng.random() < 0.4 else np.eye(3)[rng.integers(3)]
        top = fastest * which * rng.uniform(0.4, 1.0, 3) * rng.choice([-1.0, 1.0], 3)
        speeds += [ramp[:, None] * top, np.zeros((int(rng.uniform(1.5, 4.0) * RATE), 3))]
    dq = np.concatenate(speeds)
    q = np.array([0.3, -0.4, 0.5]) + np.cumsum(dq, axis=0) / RATE
    return np.arange(len(q)) / RATE, q, dq


def log_of(fastest: float, seconds: float = 400.0, seed: int = 0) -> Log:
    """What such a robot logs: dry friction with a sharp sign, and at rest a third of what it stopped with."""
    rng = np.random.default_rng([seed, 5])
    t, q, dq = moves(fastest, seconds, seed)
    bodies = RigidBody()
    rigid = inverse(
        ARM,
        bodies + Offset(),
        np.append(ARM.inertia_prior.ravel(), np.zeros(3)),
        q,
        dq,
        np.gradient(dq, t, axis=0),
    )
    last = np.zeros_like(dq)
    for k in range(1, len(dq)):
        last[k] = np.where(dq[k] != 0, np.sign(dq[k]), last[k - 1])
    dry = FRICTION * np.where(dq != 0, np.sign(dq), last / 3.0)
    tau = rigid + dry + DAMPING * dq + 0.05 * FRICTION * rng.normal(size=q.shape)
    return Log.from_arrays(ARM, t, q + 1e-7 * rng.normal(size=q.shape), tau)


def test_a_slow_robot_is_at_rest_below_a_tenth_of_its_greatest_speed() -> None:
    said = Diagnostics()
    prepared = prepare(log_of(0.008), Preparation(), said)
    assert prepared.settings.rest == pytest.approx(0.0008, rel=0.05)
    assert prepared.settings.gate == prepared.settings.rest
    assert prepared.slowness == pytest.approx(prepared.settings.rest / 0.02)
    assert "slow-robot" in [one.identifier for one in said]


def test_a_robot_of_ordinary_speed_is_treated_as_ever() -> None:
    said = Diagnostics()
    prepared = prepare(log_of(0.05, 120.0), Preparation(), said)
    assert (prepared.settings.rest, prepared.settings.gate, prepared.slowness) == (0.02, 0.0, 1.0)
    assert "slow-robot" not in [one.identifier for one in said]


@pytest.mark.parametrize("rest", [0.0, 0.003])
def test_a_rest_that_is_asked_for_is_kept(rest: float) -> None:
    prepared = prepare(log_of(0.008, 120.0), replace(Preparation(), rest=rest), Diagnostics())
    assert prepared.settings.rest == rest


def test_a_robot_that_stands_is_not_slow() -> None:
    rng = np.random.default_rng(1)
    t = np.arange(0.0, 60.0, 1.0 / RATE)
    q = 0.3 + 1e-5 * rng.normal(size=(len(t), 3))
    log = Log.from_arrays(ARM, t, q, rng.normal(size=q.shape))
    assert prepare(log, Preparation(), Diagnostics()).slowness == 1.0


def test_one_fast_move_late_in_the_log_says_that_it_is_not_slow() -> None:
    t, q, _ = moves(0.008, 200.0, 3)
    q[-100:] += np.linspace(0.0, 0.5, 100)[:, None]
    log = Log.from_arrays(ARM, t, q, np.ones_like(q))
    assert prepare(log, Preparation(), Diagnostics()).slowness == 1.0


@pytest.mark.parametrize("seed", range(2))
def test_friction_of_a_slow_robot_is_found(seed: int) -> None:
    result = identify(ARM, log_of(0.008, 500.0, seed))
    columns = [column.name for column in result.estimate.columns]
    found = dict(zip(columns, result.estimate.parameters, strict=True))
    for joint, friction in enumerate(FRICTION):
        assert found[f"fc{joint + 1}"] == pytest.approx(friction, rel=0.15)
    assert str(result.verdict.level) in ("good", "usable")


def test_widths_shrink_with_the_speed() -> None:
    assert narrowed(Coulomb(0.02), 0.05).width == pytest.approx(0.001)
    assert narrowed(Viscous(), 0.05) == Viscous()
    assert narrowed(Coulomb(0.02), 1.0) == Coulomb(0.02)
