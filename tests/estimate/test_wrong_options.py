"""Options of estimators that cannot work end the command line in one message, not in a traceback."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.command_line import Run, make_log

MODEL = """
[log]
time = { column = "t", unit = "s" }
position = { columns = "q_{joint}", unit = "rad" }
effort = { columns = "tau_{joint}", unit = "N m" }

[model]
terms = ["rigid_body", "viscous", { term = "coulomb", width = 0.02 }, "offset"]
"""


@pytest.mark.parametrize(
    ("estimate", "says"),
    [
        ('method = "didim"\nkp = [1.0, 2.0, 3.0]\nkd = [1.0, 2.0, 3.0]', "kp with 3 numbers"),
        ('method = "iv"\nkp = 1.0\nkd = [1.0, 2.0, 3.0]', "kd with 3 numbers"),
        ('method = "ml"\nposition_noise = [1e-4, 1e-4, 1e-4]', "position_noise with 3 numbers"),
        ('method = "ekf"\nposition_noise = [1e-4, 1e-4, 1e-4]', "position_noise with 3 numbers"),
        ('method = "oe"\nhorizon = 0.001', "horizon = 0.001 s"),
        ('method = "irls"\nloss = "tukey"\ntuning = 0.001', "tuning = 0.001"),
        ('method = "didim"\nbandwidth = 0.001', "bandwidth = 0.001 Hz"),
        ('method = "iv"\nbandwidth = 0.001', "bandwidth = 0.001 Hz"),
    ],
)
def test_one_message(
    run: Run, robot_file: Path, train_log: Path, tmp_path: Path, estimate: str, says: str
) -> None:
    file = tmp_path / "x.experiment.toml"
    file.write_text(f"{MODEL}\n[estimate]\n{estimate}\n")
    outcome = run("identify", robot_file, train_log, "-c", file, "--out", tmp_path / "run", "--threads", 1)
    assert outcome.code == 2, outcome.err
    assert says in outcome.err
    assert outcome.err.count("error[") == 1
    assert "Traceback" not in outcome.err


def test_energy_rows_have_instruments_as_well(run: Run, robot_file: Path, tmp_path: Path) -> None:
    file, log = tmp_path / "x.experiment.toml", make_log(robot_file, tmp_path / "log.parquet", 1, seconds=8.0)
    model = MODEL.replace("[model]", '[model]\nrows = "energy"')
    file.write_text(f'{model}\n[estimate]\nmethod = "iv"\nfolds = 2\n')
    outcome = run("identify", robot_file, log, "-c", file, "--out", tmp_path / "run", "--threads", 1)
    assert outcome.code == 0, outcome.err
