"""Two encoders on axes 1 to 3 of a KUKA KR300: stiffness with honest intervals, and exchanged encoders doubted."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.estimate import Origin
from dynid.identification import Experiment, Settings, identify, open_log
from dynid.robot import RobotModel, load_robot
from dynid.run import Identification, load
from dynid.verbs import save
from tests.robot_files import ROBOTS


@pytest.fixture(scope="module")
def opened(data_dir: Path):  # type: ignore[no-untyped-def]  # fixtures
    robot = load_robot(ROBOTS / "kr300_rptu.toml")
    experiment = Experiment.read(ROBOTS / "kr300_elastic.experiment.toml")
    return robot, experiment, data_dir / "kr300_rptu" / "data.parquet"


@pytest.fixture(scope="module")
def run(opened) -> Identification:  # type: ignore[no-untyped-def]  # fixtures
    robot, experiment, path = opened
    diagnostics = Diagnostics()
    log = open_log(experiment, [path], robot, experiment.data.train, diagnostics)
    return identify(robot, log, experiment.settings(), diagnostics=diagnostics)


def ranges(run: Identification) -> dict[str, dict[str, float]]:
    found = run.log_summary["stiffness"]
    assert isinstance(found, list)
    return {one["joint"]: one for one in found}


def test_stiffness_of_axes_1_to_3(run: Identification) -> None:
    found = ranges(run)
    assert list(found) == ["j1", "j2", "j3"]
    for one in found.values():
        assert 3e6 <= one["value"] <= 9e6
        assert 0 < one["lower"] < one["forward"] < one["value"] < one["inverse"] < one["upper"]
    # Hysteresis: the deflection explains little of axis 1, and its interval says so.
    assert found["j1"]["explained"] < 0.6
    assert found["j1"]["upper"] / found["j1"]["lower"] > 3
    assert found["j3"]["explained"] > 0.85
    assert found["j3"]["upper"] / found["j3"]["lower"] < 1.6


def test_the_report_warns_where_the_equations_disagree(run: Identification) -> None:
    reported = {(d.identifier, d.place.joint) for d in run.diagnostics}
    assert ("one-encoder", None) in reported
    assert ("stiffness-disputed", "j1") in reported
    lost = next(d.text for d in run.diagnostics if d.identifier == "one-encoder")
    assert "j4, j5, j6" in lost
    assert "stiffness and damping" in lost
    columns = {c.name: c.unit for c in run.estimate.columns}
    assert {name for name in columns if name.startswith("K")} == {"K1", "K2", "K3"}
    assert columns["K1"] == "N m/rad"


def test_two_encoders_cost_no_accuracy(run: Identification) -> None:
    (held_out,) = run.validations
    assert held_out.scores.origin is Origin.HELD_OUT_BLOCKS
    assert held_out.scores.joint_names == run.robot.joint_names
    assert (100 * held_out.scores.relative <= [7.5, 5.0, 4.0, 21.0, 5.0, 13.0]).all()


def test_a_run_with_two_encoders_is_stored_and_read(run: Identification, tmp_path: Path) -> None:
    save(run, tmp_path / "run")
    back = load(tmp_path / "run")
    assert back.terms == run.terms
    assert back.factors.group_names == run.factors.group_names
    assert back.factors.group_names[6:] == ("j1 motor", "j2 motor", "j3 motor")
    assert ranges(back) == ranges(run)
    np.testing.assert_array_equal(back.estimate.value, run.estimate.value)
    assert "N m/rad" in (tmp_path / "run" / "report.html").read_text(encoding="utf-8")


def exchanged(opened, joints: tuple[str, ...]) -> tuple[RobotModel, object, Settings]:  # type: ignore[no-untyped-def]  # fixtures
    robot, experiment, path = opened
    log = open_log(experiment, [path], robot, experiment.data.train, Diagnostics())
    m = log.mapping
    position = {j: m.motor_position[j] if j in joints else c for j, c in m.position.items()}
    motor = {j: m.position[j] if j in joints else c for j, c in m.motor_position.items()}
    return (
        robot,
        log.with_mapping(replace(m, position=position, motor_position=motor)),
        experiment.settings(),
    )


def test_exchanged_encoders_are_doubted_with_the_evidence(opened) -> None:  # type: ignore[no-untyped-def]  # fixtures
    robot, log, settings = exchanged(opened, ("j3",))
    only = replace(settings, rows=replace(settings.rows, joints=("j3",)))
    sink = Diagnostics()
    identify(robot, log, only, diagnostics=sink)
    reported = "\n".join(map(str, sink.doubts))
    assert re.search(r"encoders-exchanged.*j3.*negative stiffness \(j3: -", reported)
    robot, log, settings = exchanged(opened, ("j3",))
    sink = Diagnostics()
    identify(robot, log, settings, diagnostics=sink)
    reported = "\n".join(map(str, sink.doubts))
    assert re.search(r"negative-stiffness.*columns of position and motor_position.*this joint", reported)


def test_the_second_encoder_s_unit_and_side_are_checked(opened) -> None:  # type: ignore[no-untyped-def]  # fixtures
    robot, experiment, path = opened
    log = open_log(experiment, [path], robot, experiment.data.train, Diagnostics())
    wrong = log.with_mapping(replace(log.mapping, motor_side="motor"))
    sink = Diagnostics()
    identify(robot, wrong, experiment.settings(), diagnostics=sink)
    reported = "\n".join(map(str, sink.doubts))
    assert re.search(r"motor-position-side.*gear ratio 257 was applied", reported)
