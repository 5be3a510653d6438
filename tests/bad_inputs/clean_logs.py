"""An arm, a log of it without fault, and how to write, read and judge logs that have one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import Diagnostics, DynidError, Float, InputError, UnfitDataError
from dynid.log import Log, LogSummary, LogWatch
from dynid.robot import RobotModel
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from dynid.simulation import rigid_torque

ROBOT = """\
name = "arm"
gravity = [0.0, 0.0, -9.81]
convention = "placements"
"""
JOINT = """
[[joint]]
name = "{name}"
xyz = {xyz}
axis = {axis}
lower = -2.9
upper = 2.9
velocity = 5.0
effort = {effort}
inertial = {{ mass = {mass}, com = {com}, inertia = {{ xx = 0.05, yy = 0.06, zz = 0.04 }} }}
"""
JOINTS = (
    {"name": "j1", "xyz": [0, 0, 0.3], "axis": [0, 0, 1], "effort": 60, "mass": 4.0, "com": [0.0, 0.0, 0.1]},
    {"name": "j2", "xyz": [0, 0, 0.2], "axis": [0, 1, 0], "effort": 60, "mass": 3.0, "com": [0.2, 0.0, 0.05]},
    {"name": "j3", "xyz": [0.4, 0, 0], "axis": [0, 1, 0], "effort": 40, "mass": 2.0, "com": [0.2, 0.0, 0.0]},
)
NAMES = ("j1", "j2", "j3")
RATE, ROWS = 100.0, 2000
Columns = dict[str, Float]
MAPPING = """\
[log]
time = { column = "t", unit = "s" }
position = { columns = "q_{joint}", unit = "rad" }
velocity = { columns = "dq_{joint}", unit = "rad/s" }
effort = { columns = "tau_{joint}", unit = "N m" }
"""


def floats(text: list[int] | list[float]) -> str:
    return str([float(x) for x in text])


def write_arm(path: Path) -> Path:
    """The description of the arm."""
    parts = []
    for joint in JOINTS:
        values = {key: floats(v) if isinstance(v, list) else v for key, v in joint.items()}
        parts.append(JOINT.format(**values | {"effort": float(joint["effort"])}))
    path.write_text(ROBOT + "".join(parts), encoding="utf-8")
    return path


def clean_columns(robot: RobotModel) -> Columns:
    """Twenty seconds of exciting motion of the arm with friction and noise: a log without fault."""
    t = np.arange(ROWS) / RATE
    q, dq, ddq = np.zeros((3, ROWS, 3))
    for j, (f, a) in enumerate(((0.13, 0.9), (0.17, 0.8), (0.23, 1.0))):
        for k, share in ((1, 1.0), (2, 0.3), (3, 0.15)):
            w = 2 * np.pi * f * k
            q[:, j] += a * share * np.sin(w * t + j + k)
            dq[:, j] += a * share * w * np.cos(w * t + j + k)
            ddq[:, j] -= a * share * w**2 * np.sin(w * t + j + k)
    rng = np.random.default_rng(5)
    tau = rigid_torque(robot, robot.inertia_prior, q, dq, ddq) + 0.4 * dq + 0.8 * np.tanh(dq / 0.02)
    columns = {"t": t}
    for prefix, values, noise in (("q", q, 2e-5), ("dq", dq, 2e-3), ("tau", tau, 0.05)):
        for j, name in enumerate(NAMES):
            columns[f"{prefix}_{name}"] = values[:, j] + noise * rng.normal(size=ROWS)
    return columns


def write_csv(path: Path, columns: Columns, delimiter: str = ",", decimal: str = ".") -> Path:
    rows = np.column_stack(list(columns.values()))
    lines = [delimiter.join(columns), *(delimiter.join(map(repr, row)) for row in rows.tolist())]
    text = "\n".join(lines) + "\n"
    path.write_text(text.replace(".", ",") if decimal == "," else text)
    return path


def write_parquet(path: Path, columns: Columns) -> Path:
    pq.write_table(pa.table(columns), path, write_page_checksum=True)
    return path


def caught(work: Callable[[], object]) -> DynidError:
    with pytest.raises(DynidError) as found:
        work()
    return found.value


def by_pipeline(log: Log) -> tuple[LogSummary, Diagnostics]:
    """What an identification does with a log before it builds an equation."""
    sink = Diagnostics()
    prepared = prepare(log, Preparation(), sink)
    watch = LogWatch(log, sink)
    for window in prepared.windows(watch):
        prepared.process(window)
    return watch.finish(), sink


def expect(error: DynidError, kind: type[DynidError], identifier: str, says: tuple[str, ...]) -> None:
    assert type(error) is kind or (kind is InputError and isinstance(error, InputError)), error
    assert error.exit_code == {InputError: 3, UnfitDataError: 4}[kind]
    assert identifier in {one.identifier for one in getattr(error, "errors", (error,))}, error
    for words in says:
        assert words in str(error), f"{words!r} is missing in: {error}"
