"""A log of a robot that holds a load at times: the column that says when is named, and the advice ends the doubt."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.kernel import inverse_dynamics
from dynid.log import Log
from dynid.simulation import inverse
from dynid.terms import HeldLoad
from dynid.testing import small_arm
from dynid.trajectories import FourierTrajectory

ARM, MASS = small_arm(), 1.5


def frame() -> pd.DataFrame:
    """40 s at 100 Hz in which the forearm holds 1.5 kg every other 0.7 s."""
    rng = np.random.default_rng(0)
    t = np.arange(0.0, 40.0, 0.01)
    q, dq, ddq = FourierTrajectory.random(ARM, 40.0, 5, 3, 0.1).motion(t)
    theta = np.array([0.0 if np.isnan(c.prior) else c.prior for c in DEFAULT_TERMS.columns(ARM)])
    load = np.zeros_like(ARM.inertia_prior)
    load[2, :4] = [MASS, 0.3 * MASS, 0.0, 0.0]
    grip = (t % 1.4 >= 0.7).astype(int)
    tau = inverse(ARM, DEFAULT_TERMS, theta, q, dq, ddq)
    tau = tau + grip[:, None] * inverse_dynamics(ARM.tree, load, q, dq, ddq)
    tau = tau + 0.003 * tau.std(axis=0) * rng.normal(size=tau.shape)
    columns = {"t": t, "grip": grip}
    for j, name in enumerate(ARM.joint_names):
        columns |= {f"q_{name}": q[:, j] + 1e-5 * rng.normal(size=len(t)), f"tau_{name}": tau[:, j]}
    return pd.DataFrame(columns)


def test_the_column_is_named_and_the_term_that_is_advised_ends_the_doubt() -> None:
    log = frame()
    before = identify(ARM, Log.from_frame(log, ARM))
    (doubt,) = [one for one in before.diagnostics if one.identifier == "changed-within-log"]
    assert "while column 'grip' is 1 (without it: 0)" in doubt.text
    assert "held_load" in doubt.text
    terms = DEFAULT_TERMS + HeldLoad("grip", "forearm")
    after = identify(ARM, Log.from_frame(log, ARM, extra=("grip",)), Settings(terms=terms))
    assert "changed-within-log" not in [one.identifier for one in after.diagnostics]
    names = [column.name for column in after.estimate.columns]
    found = dict(zip(names, after.estimate.parameters, strict=True))
    assert found["held_mcx3"] == pytest.approx(0.3 * MASS, rel=0.05)
