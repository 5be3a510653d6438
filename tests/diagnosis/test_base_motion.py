"""A base that moves under an arm, found from the joints' errors; plants by pinocchio, which the model lacks much of."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.testing import Recorded, Unmodelled, on_moving_base, plant, record
from dynid.testing.machines import imprecise

SWAY = np.array([0.4, 0.4, 0.1])
WAVES, LOWEST, HIGHEST = 6, 0.2, 1.5
LACKS = {
    "ur5": Unmodelled(flexibility=1e-3, ripple=0.01),
    "kinova": Unmodelled(cable=0.01, gear_friction=0.1, torque_step=0.01),
    "slow xarm7": Unmodelled(stale=0.05, warming=0.1),
}


def swaying(t: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Acceleration (T, 3) of r.m.s. SWAY: a few waves of 0.2 to 1.5 Hz."""
    f, phase = rng.uniform(LOWEST, HIGHEST, (WAVES, 3)), rng.uniform(0.0, 2.0 * np.pi, (WAVES, 3))
    a = np.sin(2.0 * np.pi * f * t[:, None, None] + phase).sum(axis=1)
    return np.asarray(SWAY * a / np.sqrt((a**2).mean(axis=0)))


def said(name: str, seed: int, moves: bool) -> tuple[Diagnostics, dict[str, str]]:
    """What a run says of a log with or without motion of the base, in all and by identifier."""
    rng = np.random.default_rng([seed, 17])
    one = plant(name, rng)
    log: Recorded = record(one, rng, LACKS[name], seconds=30.0 if moves else 20.0)
    if moves:
        log = on_moving_base(one, log, swaying(log.t, rng))
    described, sink = imprecise(one.described, rng, (0.0, 0.15)), Diagnostics()
    made = Log.from_arrays(described, log.t, log.q, log.tau, log.dq)
    # Doubts stand on the fit without constraints.
    identify(described, made, Settings(estimator=WLS()), threads=1, diagnostics=sink)
    return sink, {one.identifier: one.text for one in sink}


@pytest.mark.parametrize("name", ["ur5", "kinova"])
def test_a_base_that_moves_is_named_with_its_acceleration(name: str) -> None:
    _, told = said(name, 0, moves=True)
    assert "moving-base" in told
    numbers = told["moving-base"].split("by about ")[1].split(" m/s^2")[0].replace(" and", ",").split(",")
    found = np.array([float(number) for number in numbers])
    # Horizontal motion within a quarter; the vertical one is a tenth of what gravity's own errors would leave.
    np.testing.assert_allclose(found[:2], SWAY[:2], rtol=0.25)
    assert found[2] < SWAY[0]


@pytest.mark.parametrize("name", ["kinova", "slow xarm7"])
def test_a_base_that_stands_is_not(name: str) -> None:
    # Samples that are repeated make noise of accelerations, which all joints feel as well.
    sink, told = said(name, 0, moves=False)
    assert "moving-base" not in told
    assert not [one for one in sink if str(one.severity) == "doubt"]
