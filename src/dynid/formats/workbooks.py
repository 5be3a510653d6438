"""Sheets of Excel workbooks (.xlsx) as tables: the cells as text, read like any other table.

Formulas have the value that was saved; dates and times of day are written as text. The only file that imports the
optional package openpyxl.
"""

from __future__ import annotations

import io
import math
import re
import warnings
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from dynid.base import Budget, Finding, InputError, Level, Place, ResourceError, dataclass
from dynid.log import (
    CsvTable,
    Table,
    are_joints,
    are_of_one_signal,
    are_signals,
    damaged,
    dialect_of,
    file_digest,
    first_member,
    has_each_signal_once,
    reading,
    side_by_side,
)

# Memory of Python's objects and the text relative to the XML.
_TIMES_XML = 3
# Bytes per cell, empty or not: rows reach from the first column to their last cell.
_BYTES_OF_CELL = 8
# Excel's own limits of rows and of characters per cell; damaged files may claim any number.
_MOST_ROWS, _MOST_CHARACTERS = 1_048_576, 32_767
_NUMBER = re.compile(r"\d+")
# Parts of the heads that may differ between two recordings.
_DIFFERS: Mapping[str, Any] = {"first": (), "stated": {}, "head_lines": 0}


class WorkbookReader:
    """Opens workbooks: the sheet with the most rows and others with the same columns, or sheets side by side.

    Sheets are combined side by side if each contains one signal or one joint.
    """

    name = "workbook"
    suffixes = (".xlsx", ".xlsm")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are those of an Office archive."""
        return first_member(head).startswith(("[Content_Types].xml", "_rels/", "docProps/", "xl/"))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> Table:
        """Open a workbook.

        Parameters
        ----------
        path : Path
            The file.
        delimiter : str, optional
            Not used by this format.
        decimal : str, optional
            Decimal mark of numbers in text cells.

        Returns
        -------
        Table
            The table.

        Raises
        ------
        InputError
            If no sheet has rows.
        RefusedError
            If the file is too large.
        ResourceError
            Without the package openpyxl.

        """
        with reading(path, "a workbook"):
            sheets = _sheets(path, path.stat().st_mtime_ns)
        if not sheets:
            raise damaged(path, "a workbook without a sheet of rows")
        most = max(sheets, key=lambda sheet: sheet.rows)
        long = {
            sheet.name: SheetTable(path, sheet, [], decimal) for sheet in sheets if 2 * sheet.rows > most.rows
        }
        if _are_parts(long):
            return side_by_side(path, long)
        runs = _recordings(long[most.name], [SheetTable(path, sheet, [], decimal) for sheet in sheets])
        if len(runs) > 1:
            return SheetsInOne(path, runs)
        left = [f"{sheet.name} ({sheet.rows} rows)" for sheet in sheets if sheet is not most]
        return SheetTable(path, most, left, decimal)


def _are_parts(sheets: Mapping[str, SheetTable]) -> bool:
    """Whether sheets are parts of one recording, by their names, and none has the columns of a whole one."""
    names, columns = tuple(sheets), [sheet.column_names for sheet in sheets.values()]
    return (are_joints(names) and all(map(has_each_signal_once, columns))) or (
        are_signals(names) and all(map(are_of_one_signal, columns))
    )


def _recordings(most: SheetTable, sheets: Sequence[SheetTable]) -> list[SheetTable]:
    """Sheets that are recordings like the longest one: with its columns, and its name except for a number."""
    alike = _NUMBER.sub("", most.sheet.name)
    recordings = [
        sheet
        for sheet in sheets
        if _NUMBER.sub("", sheet.sheet.name) == alike
        and replace(sheet.dialect, **_DIFFERS) == replace(most.dialect, **_DIFFERS)
    ]
    # A copied sheet adds no information.
    by_text = {sheet.rows_as_text: sheet for sheet in reversed(recordings)}
    return [sheet for sheet in recordings if by_text[sheet.rows_as_text] is sheet]


@dataclass(frozen=True, eq=False)
class _Sheet:
    """A sheet as lines of cells separated by tabs."""

    name: str
    rows: int
    text: bytes


class _TextOfSheet(type(Path())):  # type: ignore[misc]  # the class of the system's paths
    """A file whose text is in memory."""

    def open(self, mode: str = "r", *_: Any, **__: Any) -> Any:
        """The bytes of the text."""
        return io.BytesIO(self.text)

    text: bytes


class SheetTable(CsvTable):
    """A sheet of a workbook."""

    def __init__(self, path: Path, sheet: _Sheet, left: Sequence[str], decimal: str | None) -> None:
        text = _TextOfSheet(path)
        text.text = sheet.text
        self.sheet = sheet
        super().__init__(text, dialect_of(text, "\t", decimal))
        if left:
            note_text = f"the sheet '{sheet.name}' is read; other sheets: {', '.join(left)}"
            note = Finding(Level.NOTE, "other-files", note_text, Place(file=str(path)))
            self.remarks = (*self.remarks, note)

    @cached_property
    def sha256(self) -> str:
        """Hash of the workbook."""
        return file_digest(Path(str(self.path)))

    @property
    def rows_as_text(self) -> bytes:
        """The text below the column names."""
        return self.sheet.text.split(b"\n", self.dialect.head_lines)[-1]


class SheetsInOne(CsvTable):
    """Recordings in the sheets of a workbook, one after another.    trajectory: column with the names of the sheets."""

    def __init__(self, path: Path, sheets: Sequence[SheetTable]) -> None:
        known = sheets[0].dialect
        taken = {*known.names}
        self.trajectory = next(
            name for name in ("sheet", "sheet of the workbook", "its sheet") if name not in taken
        )
        titles = [sheet.sheet.name.replace("\t", " ").replace('"', " ") for sheet in sheets]
        text = _TextOfSheet(path)
        text.text = b"\n" * known.head_lines + b"".join(
            line + f"\t{title}\n".encode()
            for title, sheet in zip(titles, sheets, strict=True)
            for line in sheet.rows_as_text.splitlines()
        )
        joined = replace(
            known,
            names=(*known.names, self.trajectory),
            units=(*known.units, "") if known.units else (),
            first=(*known.first, titles[0]),
            in_cells=(*known.in_cells, "") if known.in_cells else (),
        )
        self._sheets = sheets
        super().__init__(text, joined)
        note_text = f"the sheets {', '.join(titles)} have the same columns: each is read as one recording"
        self.remarks = (
            *self.remarks,
            Finding(Level.NOTE, "other-files", note_text, Place(file=str(path))),
        )

    def wrong_row(self, column: str) -> InputError | None:
        """Error of the first row whose cell in a column of numbers is not a number, by sheet."""
        errors = (sheet.wrong_row(column) for sheet in self._sheets if column != self.trajectory)
        return next((error for error in errors if error is not None), None)

    @cached_property
    def sha256(self) -> str:
        """Hash of the workbook."""
        return file_digest(Path(str(self.path)))


@lru_cache(maxsize=2)
def _sheets(path: Path, changed: int) -> tuple[_Sheet, ...]:
    """The sheets that contain rows.    changed: time of the file's last change."""
    try:
        from openpyxl import load_workbook
    except ImportError as error:
        raise ResourceError(
            "no-openpyxl",
            found="no package 'openpyxl'",
            expected="openpyxl, which reads Excel's workbooks",
            do="pip install 'dynid[excel]', or save the sheet as CSV",
            place=Place(file=str(path)),
        ) from error
    budget = Budget(path)
    with zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            budget.spend(_TIMES_XML * member.file_size, f"'{member.filename}'")
    with path.open("rb") as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about styles and form elements, which are not cells
        workbook = load_workbook(file, read_only=True, data_only=True)
        # openpyxl would round dates to milliseconds: numbers stay numbers, and _cell_text makes dates of them.
        workbook._date_formats = set()
        sheets = (_sheet(sheet, workbook.epoch, budget) for sheet in workbook.worksheets)
        return tuple(sheet for sheet in sheets if sheet.rows)


def workbook_of(sheets: Mapping[str, Sequence[Sequence[Any]]]) -> bytes:
    """An Excel workbook of sheets with rows of cells; nan = empty. Raises ResourceError without openpyxl."""
    try:
        from openpyxl import Workbook
    except ImportError as error:
        raise ResourceError(
            "no-openpyxl",
            found="no package 'openpyxl'",
            expected="openpyxl, which writes Excel's workbooks",
            do="pip install 'dynid[excel]', or write CSV",
        ) from error
    workbook = Workbook(write_only=True)
    for title, lines in sheets.items():
        sheet = workbook.create_sheet(title)
        for line in lines:
            sheet.append([None if isinstance(cell, float) and math.isnan(cell) else cell for cell in line])
    data = io.BytesIO()
    workbook.save(data)
    return data.getvalue()


def _sheet(sheet: Any, epoch: datetime, budget: Budget) -> _Sheet:
    """The non-empty rows of a sheet, padded to the same number of cells."""
    from openpyxl.styles.numbers import is_date_format

    dates = lru_cache(is_date_format)
    sheet.reset_dimensions()  # some programs write wrong ones
    lines = []
    for row in sheet.iter_rows(max_row=_MOST_ROWS):
        line = "\t".join([_cell_text(cell, epoch, dates) for cell in row]).rstrip("\t")
        budget.spend(_BYTES_OF_CELL * len(row) + len(line), f"the sheet '{sheet.title}'")
        if line:
            lines.append(line)
    first = min((len(line) - len(line.lstrip("\t")) for line in lines), default=0)
    last = max((line.count("\t") for line in lines), default=0)
    budget.spend(len(lines) * (last - first), f"the sheet '{sheet.title}'")
    text = "".join(line[first:] + "\t" * (last - line.count("\t")) + "\n" for line in lines)
    return _Sheet(sheet.title, len(lines), text.encode())


def _cell_text(cell: Any, epoch: datetime, is_date: Any) -> str:
    """The text of a cell, "" if it is empty or an error."""
    value, kind = cell.value, cell.data_type
    if value is None or kind == "e":
        return ""
    if kind == "n" and is_date(cell.number_format):
        value = _date_text(value, epoch)
    text = str(int(value) if kind == "b" else value)
    return " ".join(text[:_MOST_CHARACTERS].replace('"', " ").split()) if kind != "n" else text


def _date_text(days: float, epoch: datetime) -> str:
    """A date with a time of day, or a time of day alone, from days since the epoch."""
    try:
        moment = epoch + timedelta(microseconds=round(86_400e6 * days))
    except OverflowError:  # a number that only looks like a date
        return repr(days)
    if 0 <= days < 1:
        return moment.time().isoformat("microseconds")
    return moment.isoformat(" ", "microseconds")
