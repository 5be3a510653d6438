"""Spells in which a driver repeats its last message: no measurement, and no reason for intervals without bound."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log, read_log
from dynid.robot import load_robot
from dynid.run import Identification
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.trajectories import FourierTrajectory
from tests.selection.arm import VISCOUS, arm, torque

pytestmark = pytest.mark.usefixtures("unexamined")

RATE, SECONDS = 80.0, 27.0
MODEL = RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
Spells = Sequence[tuple[int, int]]


def viscous(run: Identification) -> tuple[Float, Float]:
    """Viscous friction of the joints and its standard deviations."""
    names = [column.name for column in run.estimate.columns]
    places = [names.index(f"fv{j + 1}") for j in range(run.robot.n)]
    independent = run.estimate.base.independent.tolist()
    return (
        run.estimate.full_vector[places],
        run.estimate.std[[independent.index(place) for place in places]],
    )


def identified(folder: Path, seed: int, spells: Spells) -> Identification:
    """The arm's log with spells of so many rows from a row on that repeat the row before."""
    robot = arm(folder)
    planned = FourierTrajectory.random(robot, SECONDS + 1.0, harmonics=5, seed=seed, frequency=0.1, ramp=1.0)
    t = np.arange(round(SECONDS * RATE)) / RATE
    q, dq, ddq = planned.motion(t)
    tau = torque(q, dq, ddq)
    tau = tau + 0.01 * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
    q = np.round(q, 4)
    for first, length in spells:
        q[first : first + length], tau[first : first + length] = q[first - 1], tau[first - 1]
    settings = Settings(terms=MODEL, automatic=False, estimator=WLS())
    return identify(robot, Log.from_arrays(robot, t, q, tau), settings, threads=1, diagnostics=Diagnostics())


@pytest.mark.parametrize("seed", [0, 1, pytest.param(2, marks=pytest.mark.slow)])
def test_frozen_spells_cost_a_model_nothing(tmp_path: Path, seed: int) -> None:
    """Four rows of 2160 took standard deviations from per cents of friction to its whole size and more."""
    usual = viscous(identified(tmp_path, seed, ()))[1]
    for lengths in ((4,), (2, 7, 3, 5, 2, 6), (40, 30)):
        rng = np.random.default_rng(100 + seed)
        first = rng.choice(np.arange(200, 2000, 60), len(lengths), replace=False)
        run = identified(tmp_path, seed, list(zip(first.tolist(), lengths, strict=True)))
        value, std = viscous(run)
        assert (std < 2.0 * usual).all()
        assert (np.abs(value - VISCOUS) < 4.0 * usual + 0.005 * VISCOUS).all()
        assert any(
            f"{sum(lengths)} frozen rows are dropped" in one.text
            for one in run.diagnostics
            if one.identifier == "time-base"
        )


def test_a_real_case_has_intervals_of_per_cents() -> None:
    """36 of 2160 rows are frozen, and the width of one joint's friction shows in a single block."""
    folder = Path(__file__).resolve().parents[2] / "shared" / "cases" / "stale"
    if not folder.is_dir():
        pytest.skip(f"no case at {folder}")
    robot = load_robot(folder / "arm.urdf")
    run = identify(robot, read_log(folder / "log.csv", robot), threads=1, diagnostics=Diagnostics())
    wanted = np.array([9.0, 10.0, 6.0, 1.4, 1.1, 0.7])
    value, std = viscous(run)
    assert (std < 0.02 * wanted).all()
    np.testing.assert_allclose(value, wanted, rtol=0.02)
