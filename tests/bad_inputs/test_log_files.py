"""The bad-input catalogue: files that cannot be understood, exit code 3 (a truncated one: 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dynid
from dynid.base import Diagnostics, DynidError, InputError, RefusedError, UnfitDataError
from dynid.identification import Experiment, open_log
from dynid.log import contents, dialect_of, read_log
from dynid.log.files import parts_beside
from dynid.log.readers import csv as csv_log
from dynid.robot import RobotModel
from tests.bad_inputs.clean_logs import MAPPING, Columns, caught, expect, write_csv, write_parquet


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


def clock(text: str) -> str:
    head, *lines = text.splitlines()
    return "\n".join([head, *("2024-01-05 10:30:00," + line.split(",", 1)[1] for line in lines)])


FILES = (
    FileCase(33, "empty", lambda t, p: b"", "file-empty", ("log.csv", "an empty file")),
    FileCase(33, "blank", lambda t, p: " \n\n", "file-empty", ("log.csv",)),
    FileCase(33, "header only", lambda t, p: t.split("\n")[0] + "\n", "no-rows", ("log.csv", "without rows")),
    FileCase(34, "csv called parquet", lambda t, p: t, "magic", ("'.parquet'", "csv"), "log.parquet"),
    FileCase(34, "parquet called csv", lambda t, p: p, "magic", ("'.csv'", "parquet", "csv")),
    FileCase(
        34,
        "neither",
        lambda t, p: b"\x00\x01rubbish" * 50,
        "log-format",
        ("parquet, ", ", csv", "rubbis"),
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
        "open quote in the first row",
        lambda t, p: row_text(t, 0, lambda x: '"' + x),
        "ragged-row",
        ("log.csv:2", "a quote that is not closed"),
    ),
    FileCase(
        43,
        "open quote",
        lambda t, p: row_text(t, 1500, lambda x: x.replace(",", ',"', 1)),
        "ragged-row",
        ("log.csv:1502", "a quote that is not closed"),
    ),
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
    FileCase(45, "clock", lambda t, p: clock(t), "text-cell", ("row 0", "'t' = '2024-01-05 10:30:00'")),
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
        "no-mapping",
        ("columns column[0], column[1]", 'position = { columns = "?"'),
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


@pytest.mark.parametrize(
    "make",
    [
        lambda t: t.replace(",", ";"),
        european,
        lambda t: t.replace(",", "\t"),
        lambda t: european(t).replace(";", "\t"),
        lambda t: t.replace(",", "|"),
        lambda t: t.replace(",", ", "),
        lambda t: "  " + t.replace(",", "   ").replace("\n", "  \n "),
        lambda t: european(t).replace(";", " \t"),
        lambda t: "\n" + t,
        lambda t: t.replace("\n", "\r\n"),
        lambda t: "# a robot, in the lab\n#\n# " + t,
        lambda t: "% recorded\n" + european(t),
        lambda t: "Device;A1\nDate;2024\n\n" + european(t),
        lambda t: t.replace("\n", ",\n"),
        lambda t: t.replace("\n", ",\n").replace(",\n", "\n", 1),
        lambda t: t.replace("\n", "\ns" + ",rad" * 3 + ",rad/s" * 3 + ",Nm" * 3 + "\n", 1),
        lambda t: t.replace("\n", ",\n", 1),
        lambda t: ",joint" + ",q" * 3 + ",dq" * 3 + ",tau" * 3 + "\n" + t,
        lambda t: '"' + european(t).replace(";", '","').replace("\n", '"\n"').removesuffix('"'),
        lambda t: ("\ufeff" + t).encode("utf-8"),
        lambda t: european(t).replace(";", "\t").encode("utf-16"),
        lambda t: ("# angles in °\n" + t).encode("latin-1"),
    ],
)
def test_44_a_dialect_changes_nothing(
    make: Callable[[str], str | bytes], robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    plain = read_log(write_csv(tmp_path / "log.csv", clean), robot)
    made = make((tmp_path / "log.csv").read_text())
    (tmp_path / "x.txt").write_bytes(made if isinstance(made, bytes) else made.encode())
    other = read_log(tmp_path / "x.txt", robot)
    wanted, found = (log.read(log.trajectories[0]) for log in (plain, other))
    for part in ("t", "q", "dq", "tau"):
        np.testing.assert_array_equal(getattr(found, part), getattr(wanted, part))


def test_44_declared_dialect_is_read(robot: RobotModel, clean: Columns, tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text(european(write_csv(tmp_path / "log.csv", clean).read_text()))
    (tmp_path / "x.toml").write_text(MAPPING.replace("[log]", '[log]\ndelimiter = ";"\ndecimal = ","'))
    log = open_log(Experiment.read(tmp_path / "x.toml"), [tmp_path / "e.csv"], robot, ["*"], Diagnostics())
    np.testing.assert_array_equal(log.read(log.trajectories[0]).q[:, 1], clean["q_j2"])
    for name, keys, identifier, says in (
        ("half", 'delimiter = ";"\ndecimal = "."', "text-cell", ("row 0", "'t' = '0,0'", 'decimal = ","')),
        ("other", 'delimiter = "|"', "delimiter", ("e.csv:1", "separated by ';'", 'delimiter = ";"')),
    ):
        (tmp_path / f"{name}.toml").write_text(MAPPING.replace("[log]", f"[log]\n{keys}"))
        wrong = Experiment.read(tmp_path / f"{name}.toml")
        error = caught(lambda wrong=wrong: open_log(wrong, [tmp_path / "e.csv"], robot, ["*"], Diagnostics()))
        expect(error, InputError, identifier, says)


def test_46_columns_without_names_are_mapped_by_place(
    robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    text = write_csv(tmp_path / "log.csv", clean).read_text().partition("\n")[2]
    (tmp_path / "log.csv").write_text(text)
    log = read_log(
        tmp_path / "log.csv",
        robot,
        {
            "time": {"column": "column[0]", "unit": "s"},
            "position": {"columns": "column[1:4]", "unit": "rad"},
            "effort": {"columns": [f"column[{i}]" for i in (7, 8, 9)], "unit": "N m"},
        },
    )
    chunk = log.read(log.trajectories[0])
    np.testing.assert_array_equal(chunk.q[:, 2], clean["q_j3"])
    assert chunk.tau is not None
    np.testing.assert_array_equal(chunk.tau[:, 0], clean["tau_j1"])


@pytest.mark.parametrize(
    "word", ["N/A", "None", "-", "#N/A", "-nan(ind)", "1.#QNAN", "NA", "<NA>", "--", "-nan"]
)
def test_44_what_stands_for_a_missing_number(
    word: str, robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "log.csv", clean)
    path.write_text(cell(path.read_text(), 57, 2, word))
    log = read_log(path, robot)
    q = log.read(log.trajectories[0]).q
    # A single missing value is interpolated from its neighbours.
    assert q[57, 1] == pytest.approx((q[56, 1] + q[58, 1]) / 2, abs=1e-3 * np.ptp(q[:, 1]))
    assert np.isfinite(q).all()


@pytest.mark.parametrize(
    ("head", "names"),
    [
        ("t,pos,pos,vel,vel", ("t", "pos[0]", "pos[1]", "vel[0]", "vel[1]")),
        (
            ",position,position,effort,effort\nt,a,b,a,b",
            ("t", "position a", "position b", "effort a", "effort b"),
        ),
        ("t,position,,effort,\n,a,b,a,b", ("t", "position a", "position b", "effort a", "effort b")),
    ],
)
def test_48_names_over_several_columns(head: str, names: tuple[str, ...], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(head + "\n" + "".join(f"{k},0,1,2,3\n" for k in range(9)))
    assert dialect_of(path).names == names


def test_40_an_endless_line_is_refused(robot: RobotModel, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("t," + "q" * 400_000)
    with pytest.raises(RefusedError, match=r"too-large.*log\.csv:1: found a line of more than"):
        read_log(path, robot)


def test_40_a_file_beside_that_is_a_bomb_does_not_stop_a_log(
    robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "log.csv", clean)
    with (tmp_path / "bomb.npy").open("wb") as file:
        header = {"descr": "<f8", "fortran_order": False, "shape": (1 << 40, 1)}
        np.lib.format.write_array_header_1_0(file, header)
    assert parts_beside(path) == []


@pytest.mark.parametrize("separator", [",", " "])
@pytest.mark.parametrize("end", ["12.5", "Recording stopped", "12.5\n\n", "1,2,3\n"])
def test_43_a_last_line_that_was_cut_off_is_left_out(
    end: str, separator: str, robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "log.csv", clean)
    whole = read_log(path, robot)
    (tmp_path / "cut.csv").write_text((path.read_text() + end).replace(",", separator))
    log = read_log(tmp_path / "cut.csv", robot)
    assert [one.identifier for one in log.remarks if one.identifier != "dialect"] == ["last-line"]
    wanted, found = (one.read(one.trajectories[0]) for one in (whole, log))
    np.testing.assert_array_equal(found.q, wanted.q)


def test_43_a_line_that_was_cut_off_further_up_is_not(
    robot: RobotModel, clean: Columns, tmp_path: Path
) -> None:
    path = write_csv(tmp_path / "log.csv", clean)
    text = path.read_text()
    path.write_text(f"{text}12.5\n{text.splitlines()[-1]}\n")

    def work() -> None:
        log = read_log(path, robot)
        log.read(log.trajectories[0])

    expect(caught(work), InputError, "ragged-row", ("row 2000", "1 cells"))


@pytest.mark.parametrize("head", ["t,q1,q1,dq1,dq2", "t,pos,vel,pos,vel"])
def test_48_names_that_are_one_too_many(head: str, robot: RobotModel, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(head + "\n" + "0,0,1,2,3\n" * 9)
    expect(caught(lambda: dynid.read_log(path, robot)), InputError, "duplicate-column", ("log.csv:1",))
    name = head.split(",")[1]
    expect(caught(lambda: contents(path).read([name])), InputError, "duplicate-column", ("log.csv:1", name))


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
