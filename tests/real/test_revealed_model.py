"""The controller's own rigid model, logged beside the measurement, gives its parameters away."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.estimate import Origin
from dynid.identification import Experiment, identify, open_log
from dynid.robot import load_robot
from dynid.rows import MomentumRows, Rows, TorqueRows
from dynid.terms import RigidBody, RotorInertia
from tests.robot_files import ROBOTS

pytestmark = pytest.mark.usefixtures("unexamined")


@pytest.mark.parametrize("rows", [TorqueRows(), MomentumRows()])
def test_ur10e_target_moment(rows: Rows, data_dir: Path, tmp_path: Path) -> None:
    text = (ROBOTS / "ur10e_innopolis.experiment.toml").read_text()
    measured = 'effort = { columns = "i{number}", unit = "A" }'
    assert measured in text
    config = tmp_path / "model.toml"
    config.write_text(text.replace(measured, 'effort = { columns = "tau_model{number}", unit = "N m" }'))
    experiment, robot = Experiment.read(config), load_robot(ROBOTS / "ur10e_innopolis.toml")
    log = data_dir / "ur10e_innopolis" / "data.parquet"
    training = open_log(experiment, [log], robot, experiment.data.train, Diagnostics())
    unseen = open_log(experiment, [log], robot, experiment.data.validate_on, Diagnostics())
    settings = replace(experiment.settings(), terms=RigidBody() + RotorInertia(), rows=rows)
    (validation,) = identify(robot, training, settings, validation=unseen).validations
    assert validation.scores.origin is Origin.HELD_OUT_LOG
    assert (100 * validation.scores.relative[1:4] <= 1.2).all()
    assert np.isfinite(validation.scores.relative).all()
