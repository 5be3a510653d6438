"""Real robots' logs as they are raise no doubt; the same logs read wrongly do."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import Diagnostics
from dynid.estimate import WLS, Estimator
from dynid.identification import Experiment, identify, open_log
from dynid.robot import load_robot
from dynid.run import Identification
from tests.robot_files import ROBOTS

PANDA = ("panda_gaz", "panda_gaz", "panda_gaz")
FALSE = {"tilted-base", "payload", "unit-suspicion", "saturated", "torque-lag"}
# That of the whole file of a Panda is in tests/real/test_real_logs.py, which identifies it.
SOUND = [
    ("kr300_cad", "kr300_rptu", "kr300_rptu", "C"),
    ("ur10e_innopolis", "ur10e_innopolis", "ur10e_innopolis", "id/ur-19_12_23_free"),
    ("ur10e_innopolis", "ur10e_innopolis", "ur10e_innopolis", "val/ur-20_01_17-ptp_10_points"),
    *(
        pytest.param("ur10e_innopolis", "ur10e_innopolis", "ur10e_innopolis", one, marks=pytest.mark.slow)
        for one in ("id/ur-20_01_13-load_2600", "id/ur-20_02_12-40sec_12harm")
    ),
]


def run(
    robot_name: str, experiment_name: str, log: Path, trajectory: str, estimator: Estimator | None = None
) -> Identification:
    robot = load_robot(ROBOTS / f"{robot_name}.toml")
    experiment = Experiment.read(ROBOTS / f"{experiment_name}.experiment.toml")
    sink, settings = Diagnostics(), experiment.settings()
    settings = replace(settings, estimator=estimator or settings.estimator)
    return identify(robot, open_log(experiment, [log], robot, [trajectory], sink), settings, diagnostics=sink)


@pytest.mark.parametrize(("robot", "experiment", "folder", "trajectory"), SOUND)
def test_sound_logs_pass(robot: str, experiment: str, folder: str, trajectory: str, data_dir: Path) -> None:
    # Doubts stand on the fit without constraints. The short run of a KR300 knows masses by its description alone, which
    # consistent bodies lean on.
    estimator = None if robot == "kr300_cad" else WLS()
    found = run(robot, experiment, data_dir / folder / "data.parquet", trajectory, estimator)
    assert not found.diagnostics.doubts
    reported = {item.identifier for item in found.diagnostics.warnings}
    assert not reported & FALSE


@pytest.mark.parametrize(("folder", "cutoff"), [("krang_lwa3", 3.0), ("lwr4_flobaroid", None)])
def test_leans_that_are_not_proven_are_no_doubt(
    folder: str, cutoff: float | None, data_dir: Path, tmp_path: Path
) -> None:
    """Krang's lean predicts unseen motion worse than its opposite; the LWR4's is imitated by joints' zeros."""
    text = (data_dir / folder / "mapping.toml").read_text()
    (tmp_path / "e.toml").write_text(text + (f"[prepare]\ncutoff = {cutoff}\n" if cutoff else ""))
    robot, experiment, sink = (
        load_robot(data_dir / folder / "robot.toml"),
        Experiment.read(tmp_path / "e.toml"),
        Diagnostics(),
    )
    log = open_log(experiment, [data_dir / folder / "data.parquet"], robot, experiment.data.train, sink)
    # Leans are proven or not on the fit without constraints.
    found = identify(robot, log, replace(experiment.settings(), estimator=WLS()), diagnostics=sink)
    # Krang's elbow is 47 degrees off, which is a doubt of its own.
    assert {one.identifier for one in found.diagnostics.doubts} <= {"zero-offset"}
    for one in found.diagnostics:
        if one.identifier == "tilted-base":
            gravity = [float(part) for part in one.text.split("--gravity=")[1].split(",")]
            assert np.linalg.norm(gravity) == pytest.approx(9.81, rel=1e-3)


@pytest.mark.parametrize(("channel", "unit", "named"), [("tau_model", "N m", True), ("i", "A", False)])
def test_a_controllers_target_torque_is_no_measurement(
    channel: str, unit: str, named: bool, data_dir: Path, tmp_path: Path
) -> None:
    (tmp_path / "e.toml").write_text(
        f"""
[log]
time = {{ column = "t", unit = "s" }}
trajectory = "traj"
position = {{ columns = "q{{number}}", unit = "rad" }}
effort = {{ columns = "{channel}{{number}}", unit = "{unit}" }}
[model]
automatic = false
"""
    )
    robot, experiment, sink = (
        load_robot(ROBOTS / "ur10e_innopolis.toml"),
        Experiment.read(tmp_path / "e.toml"),
        Diagnostics(),
    )
    path = data_dir / "ur10e_innopolis" / "data.parquet"
    log = open_log(experiment, [path], robot, ["id/ur-20_02_12-40sec_12harm"], sink)
    found = identify(robot, log, experiment.settings(), diagnostics=sink)
    assert ("modelled-effort" in {one.identifier for one in found.diagnostics.doubts}) == named
    assert found.verdict.level == ("doubtful" if named else "good")


def changed(data_dir: Path, tmp_path: Path, change: dict[str, str], sign: dict[str, float]) -> Path:
    table = pq.read_table(data_dir / "panda_gaz" / "data.parquet")
    columns = {name: table[change.get(name, name)].to_numpy() for name in table.column_names}
    for name, factor in sign.items():
        columns[name] = factor * columns[name]
    pq.write_table(pa.table(columns), tmp_path / "changed.parquet")
    return tmp_path / "changed.parquet"


@pytest.mark.parametrize(
    ("change", "sign", "identifier", "joint"),
    [
        ({"tau2": "tau4", "tau4": "tau2"}, {}, "joint-order", "j2"),
        ({}, {"q2": -1.0, "dq2": -1.0}, "position-sign", "j2"),
        *(
            pytest.param(*one, marks=pytest.mark.slow)
            for one in (
                ({"q3": "q5", "q5": "q3", "dq3": "dq5", "dq5": "dq3"}, {}, "joint-order", "j3"),
                ({}, {"tau4": -1.0}, "torque-sign", "j4"),
            )
        ),
    ],
)
def test_wrong_wiring_of_a_panda_is_named_without_its_inertias(
    change: dict[str, str],
    sign: dict[str, float],
    identifier: str,
    joint: str,
    data_dir: Path,
    tmp_path: Path,
) -> None:
    assert np.isnan(load_robot(ROBOTS / "panda_gaz.toml").inertia_prior).any()
    # No consistent bodies fit such a log; the reading is named by the fit without constraints, before they are sought.
    found = run(*PANDA[:2], changed(data_dir, tmp_path, change, sign), "*", WLS())
    first = found.diagnostics.doubts[0]
    assert (first.identifier, first.place.joint) == (identifier, joint)
    assert found.verdict.level in ("doubtful", "poor")
