"""Temperatures of the drives: mapped by `dynid init`, and read by the term without a channel of its own."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.layouts import experiment_text, propose_logs
from dynid.log import write_log
from dynid.signals import Samples
from dynid.terms import TemperatureViscous
from dynid.testing import Unmodelled, plant, record


def test_init_maps_temperatures_of_the_joints(tmp_path: Path) -> None:
    rng = np.random.default_rng(5)
    arm = plant("finger", rng)
    log = record(arm, rng, Unmodelled(), 10.0)
    names = arm.described.joint_names
    columns = {f"q_{j}": log.q[:, k] for k, j in enumerate(names)}
    columns |= {f"tau_{j}": log.tau[:, k] for k, j in enumerate(names)}
    columns |= {f"temperature_{j}": 30.0 + log.t for j in names}
    path = write_log(tmp_path / "log.csv", log.t, columns)
    text = experiment_text(propose_logs(arm.described, [path]), "dynid init")
    assert 'temperature = { columns = "temperature_{joint}", unit = "degC" }' in text


def test_the_term_reads_the_temperature_of_each_joint() -> None:
    robot = plant("finger", np.random.default_rng(1)).described
    dq, warmth = np.random.default_rng(2).normal(size=(2, 5, robot.n))
    samples = Samples.from_motion(dq, dq, dq, rate=100.0)
    term = TemperatureViscous(reference=3.0)
    for j in range(robot.n):
        curve = term.curve(robot, replace(samples, temperature=warmth), j, np.zeros(0))
        np.testing.assert_allclose(curve, (dq[:, j] * (warmth[:, j] - 3.0))[None])
        assert not term.curve(robot, samples, j, np.zeros(0)).any()
