"""Sheets of Excel's workbooks (.xlsx, ECMA-376 part 1) as tables: the cells as text, read as any other table.

Formulas have the value that was saved; dates and times of day are written out.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any
from xml.parsers import expat

from dynid.base.diagnostics import Diagnostic, Severity
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.log.arrays import Budget, damaged, reading
from dynid.log.csv import CsvTable
from dynid.log.dialect import dialect_of
from dynid.log.log import Table
from dynid.log.numpy_files import first_member
from dynid.log.parts import are_joints, are_signals, side_by_side
from dynid.log.signal_folder import file_digest

# Python's objects and the text take so many times the bytes of the XML.
_TIMES_XML = 3
_PIECE = 1 << 20
# Formats of dates and times that have numbers and no text (18.8.30), and letters of those that have text.
_DATES = {*range(14, 23), *range(45, 48)}
_OF_DATES = re.compile(r"[ymdhs]", re.IGNORECASE)
_NO_LETTERS = re.compile(r'"[^"]*"|\\.|\[[^\]]*\]|General|E\+', re.IGNORECASE)
# Day 60 is a 29th of February that 1900 did not have.
_DAY_0 = datetime(1899, 12, 30)
_LETTERS = re.compile(r"[A-Z]+")
# Excel's sheets have no more columns.
_MOST_COLUMNS = 16_384


class WorkbookReader:
    """Opens workbooks: the sheet with the most rows, or those that hold a signal or a joint each, side by side."""

    name = "workbook"
    suffixes = (".xlsx", ".xlsm")

    def can_read(self, head: bytes) -> bool:
        """Whether the first bytes are those of an archive of Office's."""
        return first_member(head).startswith(("[Content_Types].xml", "_rels/", "docProps/", "xl/"))

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> Table:
        """Opens a file; raises InputError for one without a sheet of rows, RefusedError for one that is too large."""
        with reading(path, "a workbook"):
            sheets = _sheets(path, path.stat().st_mtime_ns)
        if not sheets:
            raise damaged(path, "a workbook without a sheet of rows")
        most = max(sheets, key=lambda one: one.rows)
        long = {one.name: SheetTable(path, one, [], decimal) for one in sheets if 2 * one.rows > most.rows}
        if _are_parts(long):
            return side_by_side(path, long)
        left = [f"{one.name} ({one.rows} rows)" for one in sheets if one is not most]
        return SheetTable(path, most, left, decimal)


def _are_parts(sheets: Mapping[str, SheetTable]) -> bool:
    """Whether sheets are parts of one recording, and not recordings of one robot."""
    return are_joints(tuple(sheets)) or are_signals(tuple(sheets))


@dataclass(frozen=True, eq=False)
class _Sheet:
    """A sheet as lines of cells separated by tabs."""

    name: str
    rows: int
    text: bytes


class _TextOfSheet(type(Path())):  # type: ignore[misc]  # the class of the system's paths
    """A file as text that is in memory."""

    def open(self, mode: str = "r", *_: Any, **__: Any) -> Any:
        """Its bytes."""
        return io.BytesIO(self.text)

    text: bytes


class SheetTable(CsvTable):
    """A sheet of a workbook."""

    def __init__(self, path: Path, sheet: _Sheet, left: Sequence[str], decimal: str | None) -> None:
        text = _TextOfSheet(path)
        text.text = sheet.text
        super().__init__(text, dialect_of(text, "\t", decimal))
        if left:
            said = f"the sheet '{sheet.name}' is read; other sheets: {', '.join(left)}"
            self.remarks = (
                *self.remarks,
                Diagnostic(Severity.NOTE, "other-files", said, Place(file=str(path))),
            )

    @cached_property
    def sha256(self) -> str:
        """Of the workbook."""
        return file_digest(Path(str(self.path)))


@lru_cache(maxsize=2)
def _sheets(path: Path, changed: int) -> tuple[_Sheet, ...]:
    """The sheets that hold rows.    changed: time of the file's last change."""
    budget = Budget(path)
    with zipfile.ZipFile(path) as archive:
        sizes = {one.filename: one.file_size for one in archive.infolist()}

        def parsed(name: str, handler: _Handler) -> None:
            budget.spend(_TIMES_XML * sizes[name], f"'{name}'")
            with archive.open(name) as file:
                _parse(file, handler, path)

        strings, styles, named, targets = _Strings(), _Styles(), _Names(), _Targets()
        for name, handler in (
            ("xl/sharedStrings.xml", strings), ("xl/styles.xml", styles), ("xl/workbook.xml", named),
            ("xl/_rels/workbook.xml.rels", targets),
        ):  # fmt: skip
            if name in sizes:
                parsed(name, handler)
        found = []
        for title, identity in named.found.items():
            target = targets.found.get(identity, "")
            member = target.lstrip("/") if target.startswith(("/", "xl/")) else f"xl/{target}"
            if member in sizes:
                cells = _Cells(strings.found, styles.of_dates)
                parsed(member, cells)
                if cells.lines:
                    found.append(_Sheet(title, len(cells.lines), cells.text()))
        return tuple(found)


class _Handler:
    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        """An element begins."""

    def end(self, tag: str, content: str) -> None:
        """An element ends.    content: text since the last beginning or end."""


def _parse(file: Any, handler: _Handler, path: Path) -> None:
    """Reads XML in pieces.    Entities, which may make any amount of text, are none that Office writes."""
    content: list[str] = []

    def start(tag: str, attributes: Mapping[str, str]) -> None:
        content.clear()
        handler.start(tag.rpartition(":")[2], attributes)

    def end(tag: str) -> None:
        handler.end(tag.rpartition(":")[2], "".join(content))
        content.clear()

    def refuse(*_: object) -> None:
        raise damaged(path, "a workbook with a document type")

    parser = expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = content.append
    parser.StartDoctypeDeclHandler = parser.EntityDeclHandler = refuse
    while data := file.read(_PIECE):
        parser.Parse(data, False)
    parser.Parse(b"", True)


class _Strings(_Handler):
    """The texts that cells refer to by their place.    Those for the pronunciation of others are left out."""

    def __init__(self) -> None:
        self.found: list[str] = []
        self._parts: list[str] = []
        self._spoken = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        self._spoken |= tag == "rPh"

    def end(self, tag: str, content: str) -> None:
        if tag == "t" and not self._spoken:
            self._parts.append(content)
        elif tag == "rPh":
            self._spoken = False
        elif tag == "si":
            self.found.append("".join(self._parts))
            self._parts = []


class _Styles(_Handler):
    """Which styles of cells show dates or times of day."""

    def __init__(self) -> None:
        self.of_dates: list[bool] = []
        self._formats: dict[str, bool] = {}
        self._cells = False

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "numFmt":
            plain = _NO_LETTERS.sub("", attributes.get("formatCode", ""))
            self._formats[attributes.get("numFmtId", "")] = _OF_DATES.search(plain) is not None
        elif tag == "cellXfs":
            self._cells = True
        elif tag == "xf" and self._cells:
            kind = attributes.get("numFmtId", "0")
            self.of_dates.append(self._formats.get(kind, kind.isdigit() and int(kind) in _DATES))

    def end(self, tag: str, content: str) -> None:
        self._cells &= tag != "cellXfs"


class _Names(_Handler):
    """What relation each sheet has, by its title."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "sheet":
            identity = next((one for key, one in attributes.items() if key.rpartition(":")[2] == "id"), "")
            self.found[attributes.get("name", "")] = identity


class _Targets(_Handler):
    """What file each relation leads to."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "Relationship":
            self.found[attributes.get("Id", "")] = attributes.get("Target", "")


class _Cells(_Handler):
    """The rows of a sheet that are not empty."""

    def __init__(self, strings: Sequence[str], of_dates: Sequence[bool]) -> None:
        self.lines: list[dict[int, str]] = []
        self._strings, self._of_dates = strings, of_dates
        self._row: dict[int, str] = {}
        self._at, self._kind, self._date, self._value = -1, "", False, ""

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if tag == "row":
            self._row, self._at = {}, -1
        elif tag == "c":
            letters = _LETTERS.match(attributes.get("r", ""))
            self._at = _column(letters[0]) if letters else self._at + 1
            style = int(attributes.get("s") or 0)
            self._kind, self._value = attributes.get("t", "n"), ""
            self._date = self._kind == "n" and style < len(self._of_dates) and self._of_dates[style]

    def end(self, tag: str, content: str) -> None:
        if tag in ("v", "t"):
            self._value += content
        elif tag == "c" and self._value and 0 <= self._at < _MOST_COLUMNS:
            self._row[self._at] = self._shown()
        elif tag == "row" and self._row:
            self.lines.append(self._row)

    def _shown(self) -> str:
        if self._kind == "s":
            text = self._strings[int(self._value)]
        else:
            text = _date(float(self._value)) if self._date else self._value
        return re.sub(r'[\s"]+', " ", text).strip()

    def text(self) -> bytes:
        """As lines of cells, all of them as many."""
        first, last = min(map(min, self.lines)), max(map(max, self.lines))
        places = range(first, last + 1)
        return "".join("\t".join(row.get(k, "") for k in places) + "\n" for row in self.lines).encode()


def _column(letters: str) -> int:
    """The place of a column, counted from 0: A, ..., Z, AA, ..."""
    place = 0
    for letter in letters:
        place = 26 * place + ord(letter) - ord("A") + 1
    return place - 1


def _date(days: float) -> str:
    """A date with a time of day, or a time of day alone, of days since the end of 1899."""
    micro = round(86_400e6 * days)
    if 0 <= days < 1:
        seconds = micro // 1_000_000
        return f"{seconds // 3600:02d}:{seconds // 60 % 60:02d}:{seconds % 60:02d}.{micro % 1_000_000:06d}"
    return (_DAY_0 + timedelta(microseconds=micro)).isoformat(" ", "microseconds")
