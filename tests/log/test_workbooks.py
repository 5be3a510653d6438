"""Sheets of workbooks are read as the same table in a text file."""

from __future__ import annotations

import sys
import zipfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import openpyxl
import pytest
from numpy.testing import assert_allclose
from openpyxl.cell import WriteOnlyCell

from dynid import read_log
from dynid.base import Float, InputError, RefusedError, ResourceError
from dynid.log import Text, file_hash, open_table
from tests.layouts.test_strangers import ARM, DEG, numbered, reads

BUDGET = 1_000_000  # bytes
SHEET = "xl/worksheets/sheet1.xml"
ROWS = 400
t, q, dq, tau = ARM.t[:ROWS], ARM.q[:ROWS], ARM.dq[:ROWS], ARM.tau[:ROWS]
HEAD: dict[str, Float] = {
    "Time [s]": t, **numbered("Joint # position [deg]", q * DEG), **numbered("Joint # torque [Nm]", tau)
}  # fmt: skip


def workbook(
    path: Path, sheets: Mapping[str, Sequence[Sequence[object]]], form: str = "yyyy-mm-dd hh:mm:ss.000"
) -> Path:
    """Cells of each sheet, row by row; None = an empty one, (x,) = a number in this form."""
    book = openpyxl.Workbook(write_only=True)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            cells = []
            for value in row:
                cell = WriteOnlyCell(sheet, value[0] if isinstance(value, tuple) else value)
                cell.number_format = form if isinstance(value, tuple) else "General"
                cells.append(cell)
            sheet.append(cells)
    book.save(path)
    return path


def with_text(path: Path, member: str, of: Callable[[str], str]) -> Path:
    """The workbook with another text in one of its members."""
    with zipfile.ZipFile(path) as archive:
        texts = {name: archive.read(name).decode() for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in texts.items():
            archive.writestr(name, of(text) if name == member else text)
    return path


def rows_of(columns: Mapping[str, Float]) -> list[list[object]]:
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def test_the_sheet_with_the_most_rows_is_the_log(tmp_path: Path) -> None:
    about: list[list[object]] = [["robot", "arm & hand"], ["payload", 0.0]]
    path = workbook(tmp_path / "log.xlsx", {"About": about, "Data": rows_of(HEAD)})
    reads(path, dq=False, rows=ROWS)
    table = open_table(path)
    (note,) = (one for one in table.remarks if one.identifier == "other-files")  # type: ignore[attr-defined]
    assert "'Data' is read; other sheets: About (2 rows)" in note.text
    assert table.sha256 == file_hash(path)  # type: ignore[attr-defined]


def test_a_title_above_the_table_and_columns_left_free(tmp_path: Path) -> None:
    moved: list[list[object]] = [[None, None, *row] for row in rows_of(HEAD)]
    rows: list[list[object]] = [["Recorded on Monday"], [], *moved]
    reads(workbook(tmp_path / "log.xlsx", {"Sheet1": rows}), dq=False, rows=ROWS)


def test_dates_and_times_of_day_are_seconds(tmp_path: Path) -> None:
    path = tmp_path / "log.xlsx"
    days = 45416.5 + t / 86400
    rows: list[list[object]] = [["Date", "Clock", *list(HEAD)[1:]]]
    others = zip(*list(HEAD.values())[1:], strict=True)
    rows += [[(day,), (day % 1,), *row] for day, row in zip(days.tolist(), others, strict=True)]
    table = open_table(workbook(path, {"log": rows}))
    (batch,) = table.batches(("Date", "Date, time in s", "Clock, time in s"), 10_000)
    assert isinstance(batch["Date"], Text)
    assert batch["Date"].names[0] == "2024-05-04 12:00:00.000000"
    for name in ("Date, time in s", "Clock, time in s"):
        seconds = np.asarray(batch[name])
        np.testing.assert_allclose(seconds - seconds[0], t, atol=2e-6)
    reads(path, dq=False, rows=ROWS)


def test_a_sheet_for_each_signal(tmp_path: Path) -> None:
    sheets = {
        name: rows_of({"t": t} | dict(zip(ARM.robot.joint_names, values.T, strict=True)))
        for name, values in (("position", q), ("velocity", dq), ("torque", tau))
    }
    reads(workbook(tmp_path / "log.xlsx", sheets), rows=ROWS)


def test_a_sheet_for_each_joint(tmp_path: Path) -> None:
    sheets = {
        f"Axis {k + 1}": rows_of({"t": t, "pos": q[:, k], "vel": dq[:, k], "trq": tau[:, k]})
        for k in range(ARM.robot.n)
    }
    reads(workbook(tmp_path / "log.xlsx", sheets), rows=ROWS)


@pytest.mark.parametrize("titles", [("Motor test 1", "Motor test 2"), ("position test", "speed test")])
def test_sheets_of_whole_recordings_stay_apart(titles: tuple[str, str], tmp_path: Path) -> None:
    path = workbook(tmp_path / "log.xlsx", dict.fromkeys(titles, rows_of(HEAD)))
    reads(path, dq=False, rows=ROWS)
    (note,) = (one for one in open_table(path).remarks if one.identifier == "other-files")  # type: ignore[attr-defined]
    assert titles[1] in note.text


def test_recordings_in_sheets_are_trajectories(tmp_path: Path) -> None:
    first, second = (
        {name: one[part] for name, one in HEAD.items()} for part in (slice(250), slice(250, ROWS))
    )
    sheets = {
        "run1": rows_of(first),
        "run2": [["of Monday"], [], *rows_of(second)],
        "Run notes": [["none", 1]],
    }
    log = read_log(workbook(tmp_path / "log.xlsx", sheets), ARM.robot)
    assert [one.name for one in log.trajectories] == ["run1", "run2"]
    for one, part in zip(log.trajectories, (slice(250), slice(250, ROWS)), strict=True):
        raw = log.read(one)
        assert_allclose(raw.q, q[part], atol=1e-9)
        assert_allclose(np.diff(raw.t), np.diff(t[part]), atol=1e-9)
    assert log.sha256 == {str(tmp_path / "log.xlsx"): file_hash(tmp_path / "log.xlsx")}


@pytest.mark.parametrize(
    "other", ["raw", pytest.param("run1 filtered", marks=pytest.mark.slow), "plan of 2024"]
)
def test_sheets_of_other_names_or_columns_are_left_out(other: str, tmp_path: Path) -> None:
    shorter = {name: one[:150] for name, one in HEAD.items()}
    path = workbook(tmp_path / "log.xlsx", {"run1": rows_of(HEAD), other: rows_of(shorter)})
    reads(path, dq=False, rows=ROWS)
    wider = shorter | {"load": t[:150]}
    reads(
        workbook(tmp_path / "log.xlsx", {"run1": rows_of(HEAD), "run2": rows_of(wider)}), dq=False, rows=ROWS
    )


def test_cells_with_errors_are_missing_and_truths_are_numbers(tmp_path: Path) -> None:
    rows: list[list[object]] = [
        ["t", "q", "on"],
        [0.0, 1.0, True],
        ["#N/A", "#DIV/0!", False],
        [0.2, 3.0, True],
    ]
    (batch,) = open_table(workbook(tmp_path / "log.xlsx", {"a": rows})).batches(("t", "q", "on"), 10)
    np.testing.assert_array_equal(np.asarray(batch["t"]), [0.0, np.nan, 0.2])
    np.testing.assert_array_equal(np.asarray(batch["q"]), [1.0, np.nan, 3.0])
    np.testing.assert_array_equal(np.asarray(batch["on"]), [1.0, 0.0, 1.0])


@pytest.mark.parametrize("ahead", ['<!DOCTYPE x [<!ENTITY a "aaaa">]>', "<"])
def test_a_damaged_or_strange_sheet_is_refused(ahead: str, tmp_path: Path) -> None:
    path = workbook(tmp_path / "log.xlsx", {"a": [["t", "q"], [0.0, 1.0]]})
    with pytest.raises(InputError, match="damaged"):
        open_table(with_text(path, SHEET, lambda text: ahead + text[text.index("<worksheet") :]))
    with zipfile.ZipFile(tmp_path / "text.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(InputError, match="damaged"):
        open_table(tmp_path / "text.xlsx")
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(InputError, match="damaged"):
        open_table(path)


def test_a_workbook_without_rows_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without a sheet of rows"):
        open_table(workbook(tmp_path / "log.xlsx", {"a": [], "b": []}))


@pytest.mark.parametrize(
    "rows",
    [
        " " * BUDGET,
        "".join(f'<row r="{k}"><c r="XFD{k}"><v>1</v></c></row>' for k in range(1, 100)),
    ],
    ids=["more text than the file can hold", "far to the right"],
)
def test_what_takes_too_much_memory_is_refused(
    rows: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workbook(tmp_path / "log.xlsx", {"a": [["t", "q"], [0.0, 1.0]]})
    with_text(path, SHEET, lambda text: text.replace("<sheetData>", f"<sheetData>{rows}"))
    monkeypatch.setattr("dynid.base.files.TIMES_FILE", 1)
    monkeypatch.setattr("dynid.base.files.LEAST_BUDGET", BUDGET)
    with pytest.raises(RefusedError, match=r"too-large.*sheet"):
        open_table(path)


def test_rows_far_below_are_left_out(tmp_path: Path) -> None:
    path = workbook(tmp_path / "log.xlsx", {"a": [["t", "q"], [0.0, 1.0], [1.0, 2.0]]})
    far = '<row r="2000000000"><c><v>3</v></c><c><v>4</v></c></row></sheetData>'
    table = open_table(with_text(path, SHEET, lambda text: text.replace("</sheetData>", far)))
    assert [np.asarray(one["t"]).tolist() for one in table.batches(("t",), 10)] == [[0.0, 1.0]]


def test_without_its_package_a_workbook_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = workbook(tmp_path / "log.xlsx", {"a": [["t", "q"], [0.0, 1.0]]})
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(ResourceError, match=r"no-openpyxl.*pip install 'dynid\[excel\]'"):
        open_table(path)
