"""A small simulated robot with its log, and a way to run the command line."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dynid.cli import main as cli
from dynid.kernel import inverse_dynamics
from dynid.log import write_log
from dynid.robot import load_robot

ROBOT = """
name = "two"
convention = "placements"

[[joint]]
name = "shoulder"
type = "revolute"
xyz = [0.0, 0.0, 0.3]
rpy = [1.5707963267948966, 0.0, 0.0]
inertial = { mass = 2.0, com = [0.2, 0.0, 0.0], inertia = { xx = 0.01, yy = 0.03, zz = 0.03 } }

[[joint]]
name = "elbow"
type = "revolute"
xyz = [0.4, 0.0, 0.0]
inertial = { mass = 1.0, com = [0.15, 0.02, 0.0], inertia = { xx = 0.004, yy = 0.01, zz = 0.01 } }
"""
# What a run folder holds.
RUN_FILES = {
    "run.json",
    "model.json",
    "links.parquet",
    "parameters.parquet",
    "residuals.parquet",
    "factors.parquet",
    "report.html",
    "manifest.json",
}
# Of dynid excite, over in a moment: keys of a plan file.
SHORT_SEARCH: dict[str, Any] = {
    "motion.seconds": 6.0,
    "motion.harmonics": 2,
    "motion.frequency": 0.3,
    "search.starts": 1,
    "search.workers": 1,
}


@dataclass(frozen=True)
class Outcome:
    """Exit code and what was printed."""

    code: int
    out: str
    err: str


Run = Callable[..., Outcome]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """Runs the command line in this process."""
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def call(*arguments: object) -> Outcome:
        monkeypatch.setattr("sys.argv", ["dynid", *map(str, arguments)])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
        captured = capsys.readouterr()
        code = leaving.value.code
        return Outcome(code if isinstance(code, int) else 0, captured.out, captured.err)

    yield call
    for number, handler in handlers.items():
        signal.signal(number, handler)


def planned(folder: Path, keys: Mapping[str, Any]) -> tuple[str, Path]:
    """Options that take a plan file with these keys, written as {"motion.seconds": 6.0}."""
    lines: dict[str, list[str]] = {}
    for key, value in keys.items():
        table, name = key.split(".")
        lines.setdefault(table, []).append(f"{name} = {json.dumps(value)}")
    text = "\n".join(f"[{table}]\n" + "\n".join(own) + "\n" for table, own in lines.items())
    plans = folder / "plans"
    plans.mkdir(exist_ok=True, parents=True)
    path = plans / f"{len(list(plans.iterdir()))}.toml"
    path.write_text(text)
    return "--plan", path


@pytest.fixture(scope="session")
def robot_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The description of a two-joint arm."""
    path = tmp_path_factory.mktemp("robot") / "two.toml"
    path.write_text(ROBOT)
    return path


def make_log(robot_file: Path, path: Path, seed: int, seconds: float = 20.0) -> Path:
    """Writes a log of the arm on a sum of sines, with noise."""
    robot = load_robot(robot_file)
    rng = np.random.default_rng(seed)
    t = np.arange(0.0, seconds, 0.005)
    q, dq, ddq = (np.zeros((len(t), 2)) for _ in range(3))
    for f in (0.21, 0.37, 0.53):
        a, phase = rng.uniform(0.2, 0.5, 2), rng.uniform(0, 6, 2)
        w = 2 * np.pi * f
        q += a * np.sin(w * t[:, None] + phase)
        dq += w * a * np.cos(w * t[:, None] + phase)
        ddq -= w * w * a * np.sin(w * t[:, None] + phase)
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) + 0.5 * dq + 0.4 * np.tanh(dq / 0.02)
    tau += rng.normal(0, 0.02, tau.shape)
    columns = {f"q_{j}": q[:, i] for i, j in enumerate(robot.joint_names)}
    columns |= {f"tau_{j}": tau[:, i] for i, j in enumerate(robot.joint_names)}
    return write_log(path, t, columns)


@pytest.fixture(scope="session")
def train_log(robot_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log to fit."""
    return make_log(robot_file, tmp_path_factory.mktemp("log") / "train.parquet", 1)


@pytest.fixture(scope="session")
def other_log(robot_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of another motion."""
    return make_log(robot_file, tmp_path_factory.mktemp("log") / "other.parquet", 2)
