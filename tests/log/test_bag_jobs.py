"""A bag goes through the commands as any log: the same motion gives the same model."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from dynid_studies.panda import arm

from dynid.base import Diagnostics
from dynid.identification import Experiment, open_log
from dynid.log import canonical_columns, check_log, read_log, write_log
from dynid.robot import load_robot
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from tests.command_line import Run
from tests.log.bags import State, states, write_bag

EXPERIMENT = """
[prepare]
cutoff = 5.0

[model]
terms = ["rigid_body", "viscous", { term = "coulomb", width = 0.02 }, "offset"]

[estimate]
method = "wls"
"""


@pytest.fixture(scope="module")
def bag(robot_file: Path, train_log: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The log of other tests as a bag, among other topics and joints."""
    log = read_log(train_log, load_robot(robot_file))
    chunk = log.read(log.trajectories[0])
    assert chunk.tau is not None
    messages: list[State] = []
    for one in states(chunk.t, ("elbow", "shoulder"), chunk.q[:, ::-1], None, chunk.tau[:, ::-1], 0):
        messages += [one, State(one.ns + 2_000_000, ("finger",), np.ones(1))]
    messages += states(chunk.t, ("shoulder", "elbow"), chunk.q + 0.1, start=0, topic="/command")
    return write_bag(tmp_path_factory.mktemp("bags") / "run_mcap", messages)


def test_a_bag_gives_the_model_that_its_table_gives(
    run: Run, robot_file: Path, train_log: Path, bag: Path, tmp_path: Path
) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text(EXPERIMENT)
    found = []
    for name, log, options in (("a", train_log, ()), ("b", bag, ("--topic", "/joint_states"))):
        out = tmp_path / name
        done = run("identify", robot_file, log, "--config", config, "--out", out, *options)
        assert done.code == 0, done.err
        found.append(pq.read_table(out / "parameters.parquet").to_pydict())
    for key, values in found[0].items():
        if values and isinstance(values[0], float):
            np.testing.assert_allclose(found[1][key], values, rtol=1e-9, atol=1e-12)
    # The topic is part of the experiment, and what was read is reported.
    record = json.loads((tmp_path / "b" / "run.json").read_text())
    assert "/joint_states" in json.dumps(record["experiment"])
    done = run("validate", tmp_path / "b", bag)
    assert done.code == 0, done.err


def test_check_reports_what_is_in_a_bag(run: Run, robot_file: Path, bag: Path, tmp_path: Path) -> None:
    config = tmp_path / "experiment.toml"
    config.write_text('[log]\ntopic = "joint_states"\n')
    done = run("check", robot_file, bag, "--config", config)
    assert done.code == 0, done.err
    assert "run_mcap" in done.out
    assert "8000 messages of /joint_states are read; not read: /command" in done.out
    assert "which the robot does not have: finger" in done.out


def test_a_log_table_holds_only_what_differs(run: Run, robot_file: Path, bag: Path, tmp_path: Path) -> None:
    config = tmp_path / "experiment.toml"
    robot = load_robot(robot_file)
    found = {}
    for sign in (1, -1):
        entry = f'position = {{ unit = "rad", sign = {{ elbow = {sign} }} }}'
        config.write_text(f'[log]\ntopic = "/joint_states"\n{entry}\n')
        log = open_log(Experiment.read(config), [bag], robot, [], Diagnostics())
        found[sign] = log.read(log.trajectories[0])
    np.testing.assert_array_equal(found[1].q * [1, -1], found[-1].q)
    assert found[1].tau is not None
    config.write_text('[log]\ntopic = "/joint_states"\neffort = { unit = "A" }\n')
    done = run("check", robot_file, bag, "--config", config)
    assert done.code == 3
    assert "drive-gain" in done.err
    config.write_text('[log]\nposition = { columns = "q_{joint}", unit = "rad" }\n')
    done = run("check", robot_file, bag, "--config", config)
    assert done.code == 3
    assert f"{config}:2" in done.err


def test_a_real_log_as_a_bag(data_dir: Path, tmp_path: Path) -> None:
    # The Panda's exciting motion on the clock of the wall, in the order and company of its own driver.
    table = pq.read_table(data_dir / "panda_gaz" / "data.parquet")
    robot = arm()
    rows = slice(0, 8000)
    t = np.round(table["t"].to_numpy()[rows], 9)
    q, dq, tau = (
        np.stack([table[f"{name}{j + 1}"].to_numpy()[rows] for j in range(7)], axis=1)
        for name in ("q", "dq", "tau")
    )
    t = np.round(t - t[0], 9)
    fingers = np.full((len(t), 2), 0.04)
    names = [*robot.joint_names, "finger1", "finger2"]
    whole = [np.column_stack([values, fingers]) for values in (q, dq, tau)]
    logs = [
        read_log(
            write_log(tmp_path / "log.parquet", t, canonical_columns(robot.joint_names, q, dq, tau)), robot
        ),
        read_log(write_bag(tmp_path / "panda.bag", states(t, names, *whole)), robot),
    ]
    sinks = [Diagnostics(), Diagnostics()]
    summaries = [check_log(log, sink).lines() for log, sink in zip(logs, sinks, strict=True)]
    assert [line.replace("panda", "log  ") for line in summaries[1]] == summaries[0]
    assert sinks[1].warnings == sinks[0].warnings
    samples = [list(prepare(log, Preparation(cutoff=10.0), Diagnostics())) for log in logs]
    for one, other in zip(*samples, strict=True):
        for part in ("t", "q", "dq", "ddq", "tau"):
            np.testing.assert_allclose(getattr(other, part), getattr(one, part), rtol=0, atol=1e-12)
