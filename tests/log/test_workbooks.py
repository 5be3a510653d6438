"""Sheets of workbooks are read as the same table in a text file."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

import numpy as np
import pytest

from dynid.base.arrays import Float
from dynid.base.errors import InputError
from dynid.log.files import file_hash, open_table
from dynid.log.log import Text
from tests.layouts.test_strangers import ARM, DEG, numbered, reads

MAIN = 'xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"'
RELATED = 'xmlns:r="http://schemas.openxmlformats.org/officeDocument/2006/relationships"'
DATE = 1  # the style of dates
HEAD: dict[str, Float] = {
    "Time [s]": ARM.t, **numbered("Joint # position [deg]", ARM.q * DEG), **numbered("Joint # torque [Nm]", ARM.tau)
}  # fmt: skip


def letters(place: int) -> str:
    return (letters(place // 26 - 1) if place >= 26 else "") + chr(ord("A") + place % 26)


def workbook(
    path: Path, sheets: Mapping[str, Sequence[Sequence[object]]], shared: bool = True, ahead: str = ""
) -> Path:
    """Cells of each sheet, row by row; None = an empty one, (x,) = a date of a number of days."""
    strings: list[str] = []

    def cell(at: str, value: object) -> str:
        if value is None:
            return ""
        if isinstance(value, tuple):
            return f'<c r="{at}" s="{DATE}"><v>{value[0]!r}</v></c>'
        if not isinstance(value, str):
            return f'<c r="{at}"><v>{float(value)!r}</v></c>'  # type: ignore[arg-type]
        if not shared:
            return f'<c r="{at}" t="inlineStr"><is><t>{escape(value)}</t></is></c>'
        strings.append(value)
        return f'<c r="{at}" t="s"><v>{len(strings) - 1}</v></c>'

    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
        listed, related = "", ""
        for k, (title, rows) in enumerate(sheets.items(), 1):
            written = "".join(
                f'<row r="{i}">{"".join(cell(f"{letters(j)}{i}", one) for j, one in enumerate(row))}</row>'
                for i, row in enumerate(rows, 1)
            )
            text = f"{ahead}<worksheet {MAIN}><sheetData>{written}</sheetData></worksheet>"
            archive.writestr(f"xl/worksheets/sheet{k}.xml", text)
            listed += f'<sheet name="{title}" sheetId="{k}" r:id="rId{k}"/>'
            related += f'<Relationship Id="rId{k}" Target="worksheets/sheet{k}.xml"/>'
        archive.writestr(
            "xl/workbook.xml", f"<workbook {MAIN} {RELATED}><sheets>{listed}</sheets></workbook>"
        )
        archive.writestr("xl/_rels/workbook.xml.rels", f"<Relationships>{related}</Relationships>")
        styles = '<numFmts><numFmt numFmtId="164" formatCode="yyyy\\-mm\\-dd hh:mm:ss.000"/></numFmts>'
        styles += '<cellStyleXfs><xf numFmtId="22"/></cellStyleXfs>'
        styles += '<cellXfs><xf numFmtId="0"/><xf numFmtId="164"/></cellXfs>'
        archive.writestr("xl/styles.xml", f"<styleSheet {MAIN}>{styles}</styleSheet>")
        items = "".join(f"<si><t>{escape(one)}</t><rPh><t>spoken</t></rPh></si>" for one in strings)
        archive.writestr("xl/sharedStrings.xml", f"<sst {MAIN}>{items}</sst>")
    return path


def rows_of(columns: Mapping[str, Float]) -> list[list[object]]:
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


@pytest.mark.parametrize("shared", [True, False])
def test_the_sheet_with_the_most_rows_is_the_log(shared: bool, tmp_path: Path) -> None:
    about: list[list[object]] = [["robot", "arm & hand"], ["payload", 0.0]]
    path = workbook(tmp_path / "log.xlsx", {"About": about, "Data": rows_of(HEAD)}, shared)
    reads(path, dq=False)
    table = open_table(path)
    (note,) = (one for one in table.remarks if one.identifier == "other-files")  # type: ignore[attr-defined]
    assert "'Data' is read; other sheets: About (2 rows)" in note.text
    assert table.sha256 == file_hash(path)  # type: ignore[attr-defined]


def test_a_title_above_the_table_and_columns_left_free(tmp_path: Path) -> None:
    moved: list[list[object]] = [[None, None, *row] for row in rows_of(HEAD)]
    rows: list[list[object]] = [["Recorded on Monday"], [], *moved]
    reads(workbook(tmp_path / "log.xlsx", {"Sheet1": rows}), dq=False)


def test_dates_and_times_of_day_are_seconds(tmp_path: Path) -> None:
    path = tmp_path / "log.xlsx"
    days = 45416.5 + ARM.t / 86400
    rows: list[list[object]] = [["Date", "Clock", *list(HEAD)[1:]]]
    others = zip(*list(HEAD.values())[1:], strict=True)
    rows += [[(day,), (day % 1,), *row] for day, row in zip(days.tolist(), others, strict=True)]
    table = open_table(workbook(path, {"log": rows}))
    (batch,) = table.batches(("Date", "Date, time in s", "Clock, time in s"), 10_000)
    assert isinstance(batch["Date"], Text)
    assert batch["Date"].names[0] == "2024-05-04 12:00:00.000000"
    for name in ("Date, time in s", "Clock, time in s"):
        t = np.asarray(batch[name])
        np.testing.assert_allclose(t - t[0], ARM.t, atol=2e-6)
    reads(path, dq=False)


def test_a_sheet_for_each_signal(tmp_path: Path) -> None:
    sheets = {
        name: rows_of({"t": ARM.t} | dict(zip(ARM.robot.joint_names, values.T, strict=True)))
        for name, values in (("position", ARM.q), ("velocity", ARM.dq), ("torque", ARM.tau))
    }
    reads(workbook(tmp_path / "log.xlsx", sheets))


def test_a_sheet_for_each_joint(tmp_path: Path) -> None:
    sheets = {
        f"Axis {k + 1}": rows_of({"t": ARM.t, "pos": ARM.q[:, k], "vel": ARM.dq[:, k], "trq": ARM.tau[:, k]})
        for k in range(ARM.robot.n)
    }
    reads(workbook(tmp_path / "log.xlsx", sheets))


@pytest.mark.parametrize("ahead", ['<!DOCTYPE x [<!ENTITY a "aaaa">]>', "<"])
def test_a_damaged_or_strange_sheet_is_refused(ahead: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="damaged"):
        open_table(workbook(tmp_path / "log.xlsx", {"a": [["t", "q"], [0.0, 1.0]]}, ahead=ahead))
    with zipfile.ZipFile(tmp_path / "text.xlsx", "w") as archive:
        archive.writestr("[Content_Types].xml", "<Types/>")
    with pytest.raises(InputError, match="without a sheet"):
        open_table(tmp_path / "text.xlsx")
