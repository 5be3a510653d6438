"""Dry friction that varies with a joint's position: found in what plain friction leaves, and taken where it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.choose.friction_forms import SLIDING, SLOW, WITHIN, Left
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.run import Identification
from dynid.signals import Preparation
from dynid.terms import WIDTH, Coulomb, Offset, PositionFriction, RigidBody, RotorInertia, Terms, Viscous
from dynid.trajectories import FourierTrajectory
from tests.selection.arm import COULOMB, NOISE, RATE, SECONDS, arm, torque

pytestmark = pytest.mark.usefixtures("unexamined")

# By joint: waves a turn, share of Coulomb friction, rad.
WAVES = {1: (11.0, 0.5, 1.0), 4: (17.0, 0.4, -2.0)}
FASTEST = 100.0


def smooth_noise(rng: np.random.Generator, count: int, steps: int) -> Float:
    """Noise of standard deviation one, averaged over so many steps."""
    line = np.convolve(rng.normal(size=count + steps), np.ones(steps), "valid")[:count]
    return np.asarray(line / line.std())


def back_and_forth(rng: np.random.Generator, count: int) -> Float:
    """Positions (N,) over some 2 rad."""
    t = np.linspace(0.0, 60.0, count)
    return np.asarray(
        sum(0.5 * np.sin(rate * t + phase) for rate, phase in rng.uniform([0.3, 0.0], [2.0, 6.28], (3, 2)))
    )


@pytest.mark.parametrize("wave", [6.0, 13.7, 40.0])
@pytest.mark.parametrize("seed", range(3))
def test_a_wave_beside_noise_of_twice_its_size_is_found(wave: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    q = back_and_forth(rng, 6000)
    error = 0.3 + 0.5 * np.cos(wave * q + seed) + 0.7 * smooth_noise(rng, len(q), 10)
    found = Left(q, error).wave(FASTEST)
    assert found is not None
    # Waves that differ by less than half a period over the whole range are one and the same.
    assert abs(found - wave) < np.pi / np.ptp(q)


def test_noise_is_seldom_worth_a_trial() -> None:
    found = 0
    for seed in range(100):
        rng = np.random.default_rng([7, seed])
        q = back_and_forth(rng, 3000)
        found += Left(q, 1.0 + smooth_noise(rng, len(q), 10)).wave(FASTEST) is not None
    assert found <= 5


@pytest.mark.parametrize("q", [np.zeros(0), np.zeros(50), np.linspace(0.0, 1e-4, 50)])
def test_a_joint_that_stands_has_none(q: Float) -> None:
    assert Left(q, np.ones(len(q))).wave(FASTEST) is None


def test_without_errors_there_is_nothing_to_find() -> None:
    assert Left(back_and_forth(np.random.default_rng(0), 3000), np.zeros(3000)).wave(FASTEST) is None


def test_waves_faster_than_the_filter_are_not_tried() -> None:
    rng = np.random.default_rng(0)
    q = back_and_forth(rng, 6000)
    assert Left(q, np.cos(40.0 * q)).wave(50.0) == pytest.approx(40.0, abs=np.pi / np.ptp(q))
    slow = Left(q, np.cos(40.0 * q)).wave(20.0)
    assert slow is None or slow <= 20.0
    assert Left(q, np.cos(40.0 * q)).wave(1.0) is None


def identified(
    folder: Path, waves: dict[int, tuple[float, float, float]], terms: Terms | None = None
) -> Identification:
    """A log by pinocchio whose Coulomb friction varies on some joints, identified by default, or around some terms."""
    robot = arm(folder)
    planned = FourierTrajectory.random(robot, SECONDS, harmonics=8, seed=3, frequency=0.06, ramp=1.0)
    t = np.arange(round(SECONDS * RATE)) / RATE
    q, dq, ddq = planned.motion(t)
    tau = torque(q, dq, ddq)
    for j, (k, share, phase) in waves.items():
        tau[:, j] += share * COULOMB[j] * np.cos(k * q[:, j] + phase) * np.tanh(dq[:, j] / 0.02)
    tau = tau + NOISE * tau.std(axis=0) * np.random.default_rng(1).normal(size=tau.shape)
    log = write_log(folder / "log.parquet", t, canonical_columns(robot.joint_names, q, tau=tau))
    settings = Settings(
        automatic=True,
        estimator=WLS(),
        preparation=Preparation(cutoff=8.0),
        **({"terms": terms} if terms else {}),
    )
    return identify(robot, read_log(log, robot), settings, threads=1, diagnostics=Diagnostics())


def test_friction_that_varies_is_taken_on_the_joints_that_have_it(tmp_path: Path) -> None:
    result = identified(tmp_path, WAVES)
    (term,) = [term for term in result.terms if isinstance(term, PositionFriction)]
    assert term.joints == ("joint2", "joint5")
    assert isinstance(term.harmonic, tuple)
    estimate = result.estimate
    value = dict(zip((c.name for c in estimate.columns), estimate.parameters, strict=True))
    for k, (j, (wave, share, phase)) in zip(term.harmonic, WAVES.items(), strict=True):
        assert k == pytest.approx(wave, abs=0.1)
        found = complex(value[f"fqc{j + 1}"], -value[f"fqs{j + 1}"])
        assert abs(found) == pytest.approx(share * COULOMB[j], rel=0.15)
        assert np.angle(found * np.exp(-1j * phase)) == pytest.approx(0.0, abs=0.3)
    # Within the log: what it saw of each joint.
    assert all(low < high for low, high in term.positions)


def test_the_speed_of_a_sliding_joint_says_what_the_filter_takes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Samples at rest would make a joint slow that pauses, and waves tried that no filter leaves."""
    seen: list[tuple[float, float]] = []
    monkeypatch.setattr(Left, "wave", lambda left, fastest: seen.append((left.speed, fastest)))
    identified(tmp_path, {})
    speed, fastest = np.array(seen).T
    assert (speed > SLIDING * WIDTH).all()
    np.testing.assert_allclose(fastest * speed, WITHIN / SLOW * 2.0 * np.pi * 8.0)


def test_a_wave_that_is_given_is_no_candidate_beside_itself(tmp_path: Path) -> None:
    given = PositionFriction(11.0, joints=("joint2",))
    terms = Terms((RigidBody(), RotorInertia(), Viscous(), Coulomb(0.02), Offset(), given))
    found = [term for term in identified(tmp_path, WAVES, terms).terms if isinstance(term, PositionFriction)]
    assert [term.joints for term in found] == [("joint2",), ("joint5",)]
    assert found[0].harmonic == 11.0


def test_friction_that_is_the_same_everywhere_has_no_waves(tmp_path: Path) -> None:
    assert not [term for term in identified(tmp_path, {}).terms if isinstance(term, PositionFriction)]
