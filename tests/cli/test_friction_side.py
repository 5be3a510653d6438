"""dynid identify --friction-side: friction moved to the motors of coupled joints where the log wants it there."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dynid_studies.nini_arm import MODEL, SPRINGS, arm, motion, truth

from dynid.log import canonical_columns, write_log
from tests.command_line import Run
from tests.robot_files import ROBOTS

FILE = ROBOTS / "painting_arm.toml"

TERMS = """
[model]
rows = "torque"
terms = ["rigid_body", "motor_inertia", "viscous", { term = "coulomb", width = 0.03 },
  { term = "spring", label = "springs", geometry = { joint = "j2", anchor = 0.9, crank = 0.45, angle = 0.35 } }]

[prepare]
cutoff = 10.0

[estimate]
method = "wls"
"""


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    robot = arm()
    t, samples = motion(robot, 6000)
    tau = robot.drive.motor_torque(samples.q, MODEL.torque(robot, samples, truth(robot)))
    columns = canonical_columns(robot.joint_names, samples.q, tau=tau)
    return write_log(tmp_path_factory.mktemp("side") / "log.parquet", t, columns)


def test_both_sides_are_tried_and_the_better_one_is_kept(run: Run, log: Path, tmp_path: Path) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(TERMS)
    out = tmp_path / "run"
    found = run("identify", FILE, log, "--config", config, "--friction-side", "both", "--out", out)
    assert found.code == 0, found.err
    stored = json.loads((out / "run.json").read_text())
    assert "friction acts at the motors" in (out / "run.json").read_text()
    terms = stored["experiment"]["model"]["terms"]
    assert [term["term"] for term in terms].count("on_motor") == 2
    assert SPRINGS.name in [term["term"] for term in terms]
    wrong = run(
        "identify", FILE, log, "--config", config, "--friction-side", "left", "--out", tmp_path / "no"
    )
    assert wrong.code == 2
    assert "joint, motor, both" in wrong.err
    wrong = run("identify", FILE, log, "--friction-side", "both", "--auto", "--out", tmp_path / "no")
    assert wrong.code == 2
    assert "friction-side-auto" in wrong.err
    assert not (tmp_path / "no").exists()
