"""The bad-input catalogue's logs (33 to 60) and experiment files (61, 62, 68): what stops, and with which words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.arrays import Float
from dynid.diagnostics import Diagnostics
from dynid.errors import DynidError, InputError, Place, UnfitDataError
from dynid.log import csv as csv_log
from dynid.log.checks import LogWatch, check_log
from dynid.log.read import Log, read_log
from dynid.log.summary import LogSummary
from dynid.pipeline import identify
from dynid.recipe import Experiment, open_log
from dynid.robot import load_robot
from dynid.robot.model import RobotModel
from dynid.scores import Origin
from dynid.settings import Settings
from dynid.signals.prepare import prepare
from dynid.signals.settings import Preparation
from dynid.simulate.rigid import rigid_torque
from dynid.validation import validate

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


def _floats(text: list[int] | list[float]) -> str:
    return str([float(x) for x in text])


@pytest.fixture(scope="module")
def robot(tmp_path_factory: pytest.TempPathFactory) -> RobotModel:
    path = tmp_path_factory.mktemp("robot") / "arm.toml"
    parts = []
    for joint in JOINTS:
        values = {key: _floats(v) if isinstance(v, list) else v for key, v in joint.items()}
        parts.append(JOINT.format(**values | {"effort": float(joint["effort"])}))
    path.write_text(ROBOT + "".join(parts))
    return load_robot(path)


@pytest.fixture(scope="module")
def bare(robot: RobotModel) -> RobotModel:
    """The same arm, its inertias unknown."""
    return replace(robot, inertia_prior=np.full((3, 10), np.nan))


@pytest.fixture(scope="module")
def clean(robot: RobotModel) -> Columns:
    """Twenty seconds of exciting motion with friction and noise: a log without fault."""
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


# Files that cannot be understood: exit code 3 (a truncated one: 4).


@dataclass(frozen=True)
class FileCase:
    """A damaged file, made from the clean CSV text or Parquet bytes."""

    number: int
    name: str
    make: Callable[[str, bytes], str | bytes]
    identifier: str
    says: tuple[str, ...]
    file: str = "log.csv"
    error: type[DynidError] = InputError


def row_text(text: str, row: int, change: Callable[[str], str]) -> str:
    lines = text.split("\n")
    lines[row + 1] = change(lines[row + 1])
    return "\n".join(lines)


def cell(text: str, row: int, column: int, value: str) -> str:
    def change(line: str) -> str:
        cells = line.split(",")
        cells[column] = value
        return ",".join(cells)

    return row_text(text, row, change)


def european(text: str) -> str:
    return text.replace(",", ";").replace(".", ",")


FILES = (
    FileCase(33, "empty", lambda t, p: b"", "file-empty", ("log.csv", "an empty file")),
    FileCase(33, "blank", lambda t, p: " \n\n", "file-empty", ("log.csv",)),
    FileCase(33, "header only", lambda t, p: t.split("\n")[0] + "\n", "no-rows", ("log.csv", "without rows")),
    FileCase(33, "blank header", lambda t, p: "\n" + t, "file-empty", ("log.csv:1", "header line")),
    FileCase(34, "csv called parquet", lambda t, p: t, "magic", ("'.parquet'", "csv"), "log.parquet"),
    FileCase(34, "parquet called csv", lambda t, p: p, "magic", ("'.csv'", "parquet", "csv")),
    FileCase(
        34,
        "neither",
        lambda t, p: b"\x00\x01rubbish" * 50,
        "log-format",
        ("parquet, csv", "rubbis"),
        "log.bin",
    ),
    FileCase(
        35,
        "half a parquet",
        lambda t, p: p[: len(p) // 2],
        "truncated",
        ("no row can be recovered", "without its footer"),
        "log.parquet",
        UnfitDataError,
    ),
    FileCase(
        35, "head of a parquet", lambda t, p: p[:6], "truncated", ("6 bytes",), "log.parquet", UnfitDataError
    ),
    FileCase(
        35,
        "spoilt footer",
        lambda t, p: p[:-800] + bytes(792) + p[-8:],
        "parquet",
        ("damaged",),
        "log.parquet",
    ),
    FileCase(
        35,
        "flipped bit in a page",
        lambda t, p: p[:9000] + bytes([p[9000] ^ 4]) + p[9001:],
        "parquet",
        ("damaged", "log.parquet"),
        "log.parquet",
    ),
    FileCase(
        43,
        "missing cell",
        lambda t, p: row_text(t, 120, lambda x: x.rpartition(",")[0]),
        "ragged-row",
        ("log.csv:122", "row 120", "9 cells", "10"),
    ),
    FileCase(
        43,
        "further cell",
        lambda t, p: row_text(t, 1999, lambda x: x + ",1"),
        "ragged-row",
        ("row 1999", "11 cells"),
    ),
    FileCase(
        43,
        "cut while writing",
        lambda t, p: t[: t.rindex(",") - 40],
        "ragged-row",
        ("row 1999", "cells", "10"),
    ),
    FileCase(
        44, "semicolons", lambda t, p: t.replace(",", ";"), "delimiter", ("log.csv:1", 'delimiter = ";"')
    ),
    FileCase(
        44,
        "semicolons, decimal commas",
        lambda t, p: european(t),
        "delimiter",
        ('delimiter = ";"', 'decimal = ","'),
    ),
    FileCase(44, "tabs", lambda t, p: t.replace(",", "\t"), "delimiter", ('delimiter = "\\t"',)),
    FileCase(
        45,
        "word",
        lambda t, p: cell(t, 57, 2, "abc"),
        "text-cell",
        ("log.csv:59", "row 57", "'q_j2' = 'abc'"),
    ),
    FileCase(
        45,
        "number with unit",
        lambda t, p: cell(t, 0, 9, "1.5Nm"),
        "text-cell",
        ("row 0", "'tau_j3' = '1.5Nm'"),
    ),
    FileCase(45, "time", lambda t, p: cell(t, 3, 0, "12:30"), "text-cell", ("row 3", "'t' = '12:30'")),
    FileCase(
        45,
        "word behind empty lines",
        lambda t, p: row_text(cell(t, 57, 2, "abc"), 7, lambda x: "\n" + x),
        "text-cell",
        ("row 57", "'q_j2' = 'abc'"),
    ),
    FileCase(
        46,
        "no header",
        lambda t, p: t.partition("\n")[2],
        "no-header",
        ("log.csv:1", "numbers", "header line"),
    ),
    FileCase(
        47,
        "foreign columns",
        lambda t, p: t.replace("dq_j", "dq").replace("q_j", "q").replace("tau_j", "i"),
        "no-mapping",
        (
            "q1, q2, q3",
            "[log]",
            'position = { columns = "q{number}", unit = "?" }',
            'velocity = { columns = "dq{number}"',
            'effort = { columns = "i{number}"',
            'column = "t"',
        ),
    ),
    FileCase(
        48,
        "two of a name",
        lambda t, p: t.replace("dq_j3", "dq_j2"),
        "duplicate-column",
        ("log.csv:1", "dq_j2"),
    ),
)


@pytest.mark.parametrize("case", FILES, ids=lambda case: f"{case.number} {case.name}")
def test_damaged_files(case: FileCase, robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    text = write_csv(tmp_path / "clean.csv", clean).read_text()
    data = write_parquet(tmp_path / "clean.parquet", clean).read_bytes()
    made = case.make(text, data)
    path = tmp_path / case.file
    path.write_bytes(made.encode() if isinstance(made, str) else made)

    def work() -> None:
        log = read_log(path, robot)
        for trajectory in log.trajectories:
            log.read(trajectory)

    error = caught(work)
    expect(error, case.error, case.identifier, case.says)
    assert error.place.file == str(path)


def test_33_missing_file_and_folder(robot: RobotModel, tmp_path: Path) -> None:
    for path, words in ((tmp_path / "nothing.csv", "no such file"), (tmp_path, "a folder")):
        expect(
            caught(lambda path=path: read_log(path, robot)), InputError, "file-missing", (str(path), words)
        )


def test_44_declared_dialect_is_read(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(european(write_csv(tmp_path / "log.csv", clean).read_text()))
    (tmp_path / "x.toml").write_text(MAPPING.replace("[log]", '[log]\ndelimiter = ";"\ndecimal = ","'))
    log = open_log(Experiment.read(tmp_path / "x.toml"), [tmp_path / "e.csv"], robot, ["*"], Diagnostics())
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q[:, 1], clean["q_j2"])
    (tmp_path / "half.toml").write_text(MAPPING.replace("[log]", '[log]\ndelimiter = ";"'))
    half = Experiment.read(tmp_path / "half.toml")
    error = caught(lambda: open_log(half, [tmp_path / "e.csv"], robot, ["*"], Diagnostics()))
    expect(error, InputError, "text-cell", ("row 0", "'t' = '0,0'", 'decimal = ","'))


def test_45_text_far_down_is_placed(
    robot: RobotModel, clean: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_log, "BLOCK_BYTES", 20_000)
    path = write_csv(tmp_path / "log.csv", clean)
    path.write_text(cell(path.read_text(), 1500, 4, "lost"))
    log = read_log(path, robot)
    error = caught(lambda: log.read(log.trajectories[0]))
    expect(error, InputError, "text-cell", ("log.csv:1502", "row 1500", "'dq_j1' = 'lost'"))


def test_whole_numbers_first_are_no_promise(
    robot: RobotModel, clean: Columns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_log, "BLOCK_BYTES", 20_000)
    path = write_csv(tmp_path / "log.csv", clean)
    lines = path.read_text().split("\n")
    for row in range(500):
        cells = lines[row + 1].split(",")
        cells[7], cells[8] = "0", ""
        lines[row + 1] = ",".join(cells)
    path.write_text("\n".join(lines))
    log = read_log(path, robot)
    tau = log.read(log.trajectories[0]).tau
    assert tau is not None
    np.testing.assert_array_equal(tau[:500, 0], 0.0)
    assert np.isnan(tau[:500, 1]).all()
    np.testing.assert_array_equal(tau[500:, :2], np.column_stack([clean["tau_j1"], clean["tau_j2"]])[500:])


def test_48_two_parquet_columns_of_a_name(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    arrays = [pa.array(values) for values in clean.values()]
    names = ["dq_j1" if name == "dq_j2" else name for name in clean]
    pq.write_table(pa.Table.from_arrays(arrays, names=names), tmp_path / "log.parquet")
    error = caught(lambda: read_log(tmp_path / "log.parquet", robot))
    expect(error, InputError, "duplicate-column", ("log.parquet", "dq_j1"))


# Mappings and experiment files: exit code 3 with the line.

MAPPING = """\
[log]
time = { column = "t", unit = "s" }
position = { columns = "q_{joint}", unit = "rad" }
velocity = { columns = "dq_{joint}", unit = "rad/s" }
effort = { columns = "tau_{joint}", unit = "N m" }
"""
TABLES = '{ j1 = "q_j1", j2 = "q_j2", j3 = "q_j3" }'


@dataclass(frozen=True)
class TextCase:
    """A change of the experiment file and what is said about it."""

    number: int
    name: str
    old: str
    new: str
    identifier: str
    says: tuple[str, ...]


TEXTS = (
    TextCase(
        47,
        "column",
        '"q_{joint}"',
        TABLES.replace('"q_j2"', '"q_j22"'),
        "missing-column",
        ("no column 'q_j22'", "did you mean 'q_j2'?"),
    ),
    TextCase(
        47,
        "joint",
        '"q_{joint}"',
        TABLES.replace("j2 =", "jj2 ="),
        "unknown-joint",
        ("x.toml:3", "'jj2'", "j1, j2, j3", "did you mean 'j2'?"),
    ),
    TextCase(
        47,
        "joint left out",
        '"dq_{joint}"',
        '{ j1 = "dq_j1" }',
        "missing-joint",
        ("x.toml:4", "j2, j3", "velocity"),
    ),
    TextCase(47, "sign", '"N m" }', '"N m", sign = { j4 = -1 } }', "unknown-joint", ("x.toml:5", "'j4'")),
    TextCase(53, "no unit", ', unit = "rad" }', " }", "missing-key", ("x.toml:3", "log.position.unit")),
    TextCase(
        53, "odd unit", '"rad" }', '"degrees" }', "unit", ("x.toml:3", "'degrees'", "rad, deg", "write 'deg'")
    ),
    TextCase(53, "unit of another kind", '"N m" }', '"rad" }', "unit", ("x.toml:5", "'rad'", "N m", "A")),
    TextCase(53, "current without a gain", '"N m" }', '"A" }', "drive-gain", ("j1, j2, j3", "drive_gain")),
    TextCase(
        61,
        "table",
        "[log]",
        "[prepair]\n[log]",
        "unknown-key",
        ("x.toml:1", "'prepair'", "did you mean 'prepare'?"),
    ),
    TextCase(
        61,
        "key",
        "[log]",
        "[prepare]\ncutof = 8.0\n[log]",
        "unknown-key",
        ("x.toml:2", "'prepare.cutof'", "did you mean 'cutoff'?"),
    ),
    TextCase(
        61,
        "key of the mapping",
        "velocity =",
        "velocities =",
        "unknown-key",
        ("x.toml:4", "log.velocities", "did you mean 'velocity'?"),
    ),
    TextCase(
        61,
        "key of a selection",
        "[log]",
        '[[data.train]]\ntrajektory = "a"\n[log]',
        "unknown-key",
        ("x.toml:2", "did you mean 'trajectory'?"),
    ),
    TextCase(
        62,
        "negative",
        "[log]",
        "[prepare]\ncutoff = -8\n[log]",
        "wrong-value",
        ("x.toml:2", "prepare.cutoff = -8", "greater than 0"),
    ),
    TextCase(
        62,
        "text",
        "[log]",
        '[prepare]\norder = "four"\n[log]',
        "wrong-value",
        ("x.toml:2", "prepare.order = 'four'", "integer"),
    ),
    TextCase(
        62,
        "range",
        "[log]",
        "[prepare]\norder = 9\n[log]",
        "wrong-value",
        ("x.toml:2", "less than or equal to 8"),
    ),
    TextCase(
        62,
        "nan",
        "[log]",
        "[prepare]\nrest = nan\n[log]",
        "wrong-value",
        ("x.toml:2", "prepare.rest", "finite"),
    ),
    TextCase(
        62,
        "choice",
        "[log]",
        '[estimate]\nmethod = "magic"\n[log]',
        "unknown-method",
        ("x.toml:2", "'magic'", "ols, wls"),
    ),
    TextCase(
        62,
        "share",
        "[log]",
        "[data]\ntrain = [{ part = [0.0, 1.5] }]\n[log]",
        "wrong-value",
        ("x.toml:2", "1.5", "equal to 1"),
    ),
    TextCase(
        62,
        "sign",
        '"N m" }',
        '"N m", sign = { j1 = 2 } }',
        "wrong-value",
        ("x.toml:5", "log.effort.sign.j1 = 2"),
    ),
    TextCase(62, "syntax", "[log]", "[log", "toml-syntax", ("x.toml:1",)),
    TextCase(62, "twice", "[log]", "[log]\nsort = true\nsort = false", "toml-syntax", ("x.toml:3",)),
    TextCase(
        62,
        "option of another method",
        "[log]",
        '[estimate]\nmethod = "ols"\nstrength = 1.0\n[log]',
        "unknown-option",
        ("x.toml:3", "estimate.strength", "'ols'"),
    ),
    TextCase(
        62,
        "term",
        "[log]",
        '[model]\nterms = ["rigid_bodi"]\n[log]',
        "unknown-term",
        ("x.toml:2", "rigid_body"),
    ),
)


@pytest.mark.parametrize("case", TEXTS, ids=lambda case: f"{case.number} {case.name}")
def test_experiment_files(case: TextCase, robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    log = write_parquet(tmp_path / "log.parquet", clean)
    if case.old not in MAPPING:
        raise AssertionError(case.old)
    (tmp_path / "x.toml").write_text(MAPPING.replace(case.old, case.new, 1))

    def work() -> None:
        experiment = Experiment.read(tmp_path / "x.toml")
        experiment.settings()
        opened = open_log(experiment, [log], robot, experiment.data.train, Diagnostics())
        opened.read(opened.trajectories[0])

    expect(caught(work), InputError, case.identifier, case.says)


def test_every_fault_of_a_file_is_listed(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("[prepare]\ncutof = 8\norder = 0\n[estimate]\nfolds = 1\n")
    text = str(caught(lambda: Experiment.read(tmp_path / "x.toml")))
    assert [f"x.toml:{line}" in text for line in (2, 3, 5)] == [True] * 3


def test_the_clean_mapping_is_accepted(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    log = write_parquet(tmp_path / "log.parquet", clean)
    (tmp_path / "x.toml").write_text(MAPPING)
    opened = open_log(Experiment.read(tmp_path / "x.toml"), [log], robot, ["*"], Diagnostics())
    np.testing.assert_array_equal(opened.read(opened.trajectories[0]).q[:, 2], clean["q_j3"])


# Rows that nothing trustworthy can be computed from: exit code 4.


def at(columns: Columns, names: str, rows: slice | list[int], value: float) -> Columns:
    out = {name: np.array(values) for name, values in columns.items()}
    for name in names.split():
        out[name][rows] = value
    return out


def scaled(columns: Columns, prefix: str, factor: float) -> Columns:
    return {
        name: values * (factor if name.startswith(prefix + "_") else 1.0) for name, values in columns.items()
    }


def exchanged(columns: Columns, a: str, b: str) -> Columns:
    swap = {a: b, b: a}
    return {name: columns[swap.get(name, name)] for name in columns}


def rows(columns: Columns, index: object) -> Columns:
    return {name: values[index] for name, values in columns.items()}


def without(columns: Columns, prefix: str) -> Columns:
    return {name: values for name, values in columns.items() if not name.startswith(prefix + "_")}


def with_time(columns: Columns, t: Float) -> Columns:
    return {**columns, "t": t}


def weightless(columns: Columns, robot: RobotModel) -> Columns:
    q = np.column_stack([columns[f"q_{name}"] for name in NAMES])
    g = rigid_torque(robot, robot.inertia_prior, q, 0 * q, 0 * q)
    return {**columns, **{f"tau_{name}": columns[f"tau_{name}"] - g[:, j] for j, name in enumerate(NAMES)}}


def still(columns: Columns) -> Columns:
    out = dict(columns)
    for j, name in enumerate(NAMES):
        out[f"q_{name}"] = 0.1 * j + 1e-4 * np.random.default_rng(j).uniform(size=ROWS)
        out[f"dq_{name}"] = 1e-4 * np.random.default_rng(j).normal(size=ROWS)
    return out


def backwards(columns: Columns, row: int, by: float) -> Columns:
    return at(columns, "t", [row], columns["t"][row] - by)


@dataclass(frozen=True)
class RowCase:
    """A fault of the rows; priors: whether the robot's inertias are known."""

    number: int
    name: str
    fault: Callable[[Columns, RobotModel], Columns]
    identifier: str
    says: tuple[str, ...]
    priors: bool = False
    piped: str | None = None


def every(n: int) -> list[int]:
    return list(range(5, ROWS, n))


ROW_CASES = (
    RowCase(
        49,
        "2 % nan",
        lambda c, r: at(c, "q_j2", every(50), np.nan),
        "missing-values",
        ("joint 'j2'", "2 %", "position", "1 %"),
    ),
    RowCase(
        49,
        "2 % inf",
        lambda c, r: at(c, "tau_j3", every(50), np.inf),
        "missing-values",
        ("joint 'j3'", "2 %", "effort"),
    ),
    RowCase(
        49,
        "2 % of velocity",
        lambda c, r: at(c, "dq_j1", every(50), np.nan),
        "missing-values",
        ("joint 'j1'", "velocity"),
    ),
    RowCase(
        49,
        "a whole joint",
        lambda c, r: at(c, "q_j3", slice(None), np.nan),
        "joint-missing",
        ("joint 'j3'", "no position at all"),
    ),
    RowCase(
        49,
        "effort of a joint",
        lambda c, r: at(c, "tau_j2", slice(None), np.nan),
        "joint-missing",
        ("joint 'j2'", "no effort at all"),
    ),
    RowCase(49, "no time", lambda c, r: at(c, "t", [700], np.nan), "time-missing", ("row 700", "time stamp")),
    RowCase(
        50,
        "one step back",
        lambda c, r: backwards(c, 700, 0.5),
        "time-backwards",
        ("row 700 (t = 6.5 s)", "by 0.49 s", "sort = true", "1 place"),
    ),
    RowCase(
        50,
        "starts anew",
        lambda c, r: with_time(c, np.tile(c["t"][:1000], 2)),
        "time-backwards",
        ("row 1000 (t = 0 s)", "by 9.99 s"),
    ),
    RowCase(
        50,
        "ends at its start",
        lambda c, r: at(c, "t", [ROWS - 1], 0.0),
        "time-backwards",
        ("row 1999 (t = 0 s)",),
    ),
    RowCase(
        51,
        "one stamp, two rows",
        lambda c, r: at(c, "t", [700], 6.99),
        "duplicate-time",
        ("row 700 (t = 6.99 s)", "two different rows"),
    ),
    RowCase(
        51,
        "coarse clock",
        lambda c, r: with_time(c, np.round(c["t"], 1)),
        "duplicate-time",
        ("row 1 ", "resolution"),
    ),
    RowCase(
        51,
        "6 % twice",
        lambda c, r: rows(c, np.sort(np.r_[np.arange(ROWS), every(16)])),
        "duplicate-rows",
        ("125 of 2125 rows", "5 %"),
    ),
    RowCase(
        53,
        "degrees",
        lambda c, r: scaled(c, "q", 180 / np.pi),
        "unit-suspicion",
        ("joint 'j1'", "times the joint's limits", "degrees"),
    ),
    RowCase(
        53,
        "velocity in degrees",
        lambda c, r: scaled(c, "dq", 180 / np.pi),
        "unit-suspicion",
        ("joint 'j1'", "velocity 57.", "times the change of position", "57.3 = degrees"),
    ),
    RowCase(
        53,
        "mN m",
        lambda c, r: scaled(c, "tau", 1000.0),
        "unit-suspicion",
        ("joint 'j1'", "times the joint's limit", "mA"),
    ),
    RowCase(
        53,
        "motor side",
        lambda c, r: scaled(c, "tau", 0.01),
        "unit-suspicion",
        ("joint 'j2'", "torque 0.0", "times the gravity torque", "side"),
        priors=True,
    ),
    RowCase(
        54,
        "gravity compensated",
        weightless,
        "gravity-compensated",
        ("j2, j3", "without gravity"),
        priors=True,
    ),
    RowCase(
        54,
        "no torque at all",
        lambda c, r: scaled(c, "tau", 0.0),
        "gravity-compensated",
        ("j2",),
        priors=True,
    ),
    RowCase(
        55,
        "velocity",
        lambda c, r: {**c, "dq_j2": -c["dq_j2"]},
        "velocity-sign",
        ("joint 'j2'", "correlation -", "sign"),
    ),
    RowCase(
        55,
        "torque",
        lambda c, r: {**c, "tau_j3": -c["tau_j3"]},
        "torque-sign",
        ("joint 'j3'", "opposed to gravity (-", "effort.sign"),
        priors=True,
    ),
    RowCase(
        56,
        "velocities",
        lambda c, r: exchanged(c, "dq_j1", "dq_j3"),
        "joint-order",
        ("j1 <- column of j3", "j3 <- column of j1"),
    ),
    RowCase(
        56,
        "torques",
        lambda c, r: exchanged(c, "tau_j1", "tau_j2"),
        "joint-order",
        ("joint 'j2'", "effort column of 'j1'"),
        priors=True,
    ),
    RowCase(58, "standstill", lambda c, r: still(c), "standstill", ("stands still", "exciting motion")),
    RowCase(
        60,
        "30 rows",
        lambda c, r: rows(c, slice(30)),
        "too-few-rows",
        ("30 rows", "at least 50"),
        piped="too-short",
    ),
    RowCase(
        60,
        "one row",
        lambda c, r: rows(c, slice(1)),
        "too-few-rows",
        ("1 rows", "at least 50"),
        piped="time-stands",
    ),
)


@pytest.mark.parametrize("case", ROW_CASES, ids=lambda case: f"{case.number} {case.name}")
def test_unfit_rows(
    case: RowCase, robot: RobotModel, bare: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    path = write_parquet(tmp_path / "log.parquet", case.fault(clean, robot))
    log = read_log(path, robot if case.priors else bare)
    expect(caught(lambda: check_log(log, Diagnostics())), UnfitDataError, case.identifier, case.says)
    piped = caught(lambda: by_pipeline(log))
    expect(piped, UnfitDataError, case.piped or case.identifier, () if case.piped else case.says)


@pytest.mark.parametrize("known", [True, False], ids=["priors", "no priors"])
def test_a_clean_log_is_left_alone(
    known: bool, robot: RobotModel, bare: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    for path in (write_parquet(tmp_path / "log.parquet", clean), write_csv(tmp_path / "log.csv", clean)):
        log = read_log(path, robot if known else bare)
        sink = Diagnostics()
        summary = check_log(log, sink)
        assert list(sink) == []
        assert summary.moved.all()
        assert summary.trajectories[0].rows == ROWS
        _, found = by_pipeline(log)
        assert [item.identifier for item in found] == ["cutoff"]


def mended(
    columns: Columns, robot: RobotModel, path: Path
) -> tuple[LogSummary, dict[str, str], dict[str, str]]:
    """Summary, warnings and notes of a log whose fault is no reason to stop."""
    summary, sink = by_pipeline(read_log(write_parquet(path / "log.parquet", columns), robot))
    warnings = {item.identifier: str(item) for item in sink.warnings}
    return summary, warnings, {item.identifier: str(item) for item in sink if item.identifier not in warnings}


def test_49_few_missing_values_are_masked(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    spoilt = at(at(clean, "q_j2", [100, 900], np.nan), "tau_j1", [900, 1500], -np.inf)
    summary, warnings, _ = mended(spoilt, robot, tmp_path)
    assert summary.trajectories[0].missing_rows == 3
    assert "3 row(s)" in warnings["missing-values"]
    assert np.isfinite(summary.trajectories[0].upper).all()


def test_50_rows_are_sorted_on_request(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    order = np.arange(ROWS)
    order[[10, 11, 1999, 0]] = order[[11, 10, 0, 1999]]
    path = write_parquet(tmp_path / "log.parquet", rows(clean, order))
    (tmp_path / "x.toml").write_text(MAPPING + "sort = true\n")
    log = open_log(Experiment.read(tmp_path / "x.toml"), [path], robot, ["*"], Diagnostics())
    assert check_log(log, Diagnostics()).trajectories[0].rows == ROWS
    chunk = log.read(log.trajectories[0])
    np.testing.assert_array_equal(chunk.t, clean["t"])
    np.testing.assert_array_equal(chunk.q[:, 1], clean["q_j2"])


def test_51_identical_rows_are_dropped(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    summary, warnings, notes = mended(
        rows(clean, np.sort(np.r_[np.arange(ROWS), 7, 8, 1999])), robot, tmp_path
    )
    assert summary.trajectories[0].duplicates == 3
    assert "3 duplicate rows dropped" in notes["duplicate-rows"]
    assert not warnings


def test_52_a_gap_splits_the_log(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", rows(clean, np.r_[0:900, 1000:ROWS]))
    log = read_log(path, robot)
    summary, sink = by_pipeline(log)
    assert summary.trajectories[0].gaps == 1
    assert [(item.identifier, item.text) for item in sink.warnings] == [
        ("gap", "trajectory 'log' has 1 gap(s), the largest 1.01 s; it is split there")
    ]
    assert {samples.segment for samples in prepare(log)} == {0, 1}


def test_53_units_are_converted_where_declared(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    turned = scaled(scaled(scaled(clean, "q", 180 / np.pi), "dq", 180 / np.pi), "tau", 1000.0)
    path = write_parquet(tmp_path / "log.parquet", turned)
    text = MAPPING.replace('"rad"', '"deg"').replace('"rad/s"', '"deg/s"').replace('"N m"', '"mN m"')
    (tmp_path / "x.toml").write_text(text)
    sink = Diagnostics()
    check_log(open_log(Experiment.read(tmp_path / "x.toml"), [path], robot, ["*"], sink), sink)
    assert list(sink) == []


def test_59_a_joint_that_never_moved_is_named(bare: RobotModel, clean: Columns, tmp_path: Path) -> None:
    fixed = {**clean, "q_j1": still(clean)["q_j1"], "dq_j1": still(clean)["dq_j1"]}
    log = read_log(write_parquet(tmp_path / "log.parquet", fixed), bare)
    sink = Diagnostics()
    summary = check_log(log, sink)
    assert summary.moved.tolist() == [False, True, True]
    assert any(line.startswith("j1") and line.endswith("NO") for line in summary.lines())
    assert list(sink.warnings) == []
    result = identify(bare, log, Settings(preparation=Preparation(cutoff=8.0)), threads=1)
    (warning,) = (item for item in result.diagnostics.warnings if item.identifier == "joint-at-rest")
    assert "'j1'" in warning.text
    assert "not identified" in warning.text


def test_saturated_effort_is_pointed_out(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    peak = 0.7 * np.abs(clean["tau_j2"]).max()
    _, warnings, _ = mended({**clean, "tau_j2": np.clip(clean["tau_j2"], -peak, peak)}, robot, tmp_path)
    assert "joint 'j2'" in warnings["saturated"]
    assert f"{peak:.4g}" in warnings["saturated"]


def test_quantised_velocity_is_not_used(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    coarse = {name: np.round(x / 0.02) * 0.02 if name.startswith("dq") else x for name, x in clean.items()}
    summary, warnings, notes = mended(coarse, robot, tmp_path)
    np.testing.assert_allclose(summary.velocity_step, 0.02, rtol=1e-6)
    assert "differentiated" in notes["quantised-velocity"]
    assert not warnings


def test_velocity_that_is_noise_is_pointed_out(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    noise = np.random.default_rng(1).normal(size=ROWS)
    sink = Diagnostics()
    check_log(read_log(write_parquet(tmp_path / "log.parquet", {**clean, "dq_j2": noise}), robot), sink)
    (warning,) = sink.warnings
    assert (warning.identifier, warning.place) == ("velocity-differs", Place(joint="j2"))


# One data set twice: scored, but never called validation.


def test_68_training_data_is_not_validation(bare: RobotModel, clean: Columns, tmp_path: Path) -> None:
    path = write_parquet(tmp_path / "log.parquet", clean)
    log = read_log(path, bare)
    settings = Settings(preparation=Preparation(cutoff=8.0))
    result = identify(bare, log, settings, validation=read_log(path, bare), threads=1)
    assert [one.scores.origin for one in result.validations] == [Origin.TRAINING]
    (warning,) = (item for item in result.diagnostics.warnings if item.identifier == "training-is-validation")
    assert "'log'" in warning.text or "log served" in warning.text
    copied = tmp_path / "renamed.parquet"
    copied.write_bytes(path.read_bytes())
    sink = Diagnostics()
    assert validate(result, read_log(copied, bare), sink, threads=1).scores.origin is Origin.TRAINING
    assert [item.identifier for item in sink.warnings] == ["training-is-validation"]


def test_68_a_log_of_its_own_is_validation(bare: RobotModel, clean: Columns, tmp_path: Path) -> None:
    training = read_log(write_parquet(tmp_path / "a.parquet", rows(clean, slice(0, 1200))), bare)
    held_out = read_log(write_parquet(tmp_path / "b.parquet", rows(clean, slice(1200, ROWS))), bare)
    settings = Settings(preparation=Preparation(cutoff=8.0))
    result = identify(bare, training, settings, validation=held_out, threads=1)
    assert [one.scores.origin for one in result.validations] == [Origin.HELD_OUT_LOG]
    assert "training-is-validation" not in {item.identifier for item in result.diagnostics}
