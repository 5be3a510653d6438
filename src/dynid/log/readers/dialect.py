"""Detect the dialect of a text table: separator, decimal sign, comments, column names and units, first row."""

from __future__ import annotations

import codecs
import csv
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from itertools import pairwise
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place, RefusedError
from dynid.base.records import dataclass
from dynid.base.units import is_unit, number_of, units_beside

# Replace typographic characters by plain text (minus signs, no-break spaces, byte order marks), and NumPy scalars such
# as np.float64(1.5) by their value.

# U+2212 minus, U+2013 en dash and U+FF0D full-width hyphen, before a digit.
_MINUS = re.compile("[\u2212\u2013\uff0d](?=[.,]?\\d)")
# No-break space, figure space, thin space and narrow no-break space. Between digits, they separate thousands.
_BLANKS = "\u00a0\u2007\u2009\u202f"
_THOUSANDS = re.compile(f"(?<=\\d)[{_BLANKS}](?=\\d{{3}}(?!\\d))")
_BLANK = re.compile(f"[{_BLANKS}]")
# A file joined from several files can contain byte order marks at any position.
_MARK = "\ufeff"
_MARKS_OF_NUMPY = (b"np.", b"numpy.")
# A scalar as NumPy 2 and later print it.
_OF_NUMPY = re.compile(r"\b(?:np|numpy)\.(?:float|u?int)\d*\(([-+\w.]+)\)")


def with_plain_signs(text: str) -> str:
    """Replace typographic minus signs and spaces by plain characters, and NumPy scalars by their value."""
    text = _OF_NUMPY.sub(r"\1", text) if "np." in text or "numpy." in text else text
    if text.isascii():
        return text
    return _BLANK.sub(" ", _THOUSANDS.sub("", _MINUS.sub("-", text.replace(_MARK, ""))))


def bytes_with_plain_signs(text: bytes) -> bytes:
    """Apply `with_plain_signs` to UTF-8 bytes."""
    if text.isascii() and not any(mark in text for mark in _MARKS_OF_NUMPY):
        return text
    return with_plain_signs(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


# Handle cells that contain a number and its unit: 1.23 Nm, 45.2 deg, 12 ms.

# A number, with or without grouped thousands. The number of groups is limited to avoid catastrophic backtracking.
_NUMBER = r"[+-]?(?:\d{1,3}(?:[.,]\d{3}){1,4}(?:[.,]\d*)?|\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?"
# A unit consists of all words up to the end of the cell. The pattern matches runs of blanks without backtracking.
_IN_LINE = re.compile(
    rf'(?P<number>(?:^|(?<=[,;\t|"])) *{_NUMBER}) *(?P<unit>[^-+.\s\d,;|"][^,;\t|" ]*(?: +[^,;\t|" ]+)*)'
)
_CELL = re.compile(rf"{_NUMBER}\s*(?P<unit>[^-+\s\d,.].*)")

# The same split into number and unit in the syntax of Arrow's regular expressions.
_PARTS = r"^(?P<number>[-+0-9.,eE]*[0-9.,])(?P<unit>[^-+0-9.,].*)$"


def without_units(line: str) -> str:
    """Remove the units after the numbers of a line."""
    return _IN_LINE.sub(lambda match: match["number" if is_unit(match["unit"]) else 0], line)


def number_in(cell: str, unit: str) -> str | None:
    """Number part of a cell that ends in `unit` or in another unit of the same quantity; None for other cells."""
    plain = cell.strip()
    match = _CELL.fullmatch(plain) if unit else None
    if match is not None and match["unit"] in units_beside(unit):
        return plain.removesuffix(match["unit"]).rstrip()
    return plain.removesuffix(unit).rstrip() if plain.endswith(unit) else None


def units_of(rows: Sequence[Sequence[str]], width: int, is_missing: Callable[[str], bool]) -> tuple[str, ...]:
    """Find the unit of each column whose cells all end in a unit of the same quantity.

    Parameters
    ----------
    rows : sequence of sequence of str
        Cells of the rows.
    width : int
        Number of columns.
    is_missing : callable
        Returns True for the text of a missing cell.

    Returns
    -------
    tuple of str
        Unit of each column, "" for columns without units; () if no column has a unit. Columns of the same quantity
        get the same unit, which is the first unit of this quantity in the table.

    """
    whole = [cells for cells in rows if len(cells) == width]
    units: list[str] = []
    for k in range(width):
        column_units = dict.fromkeys(_unit(cells[k]) for cells in whole if not is_missing(cells[k]))
        first = next(iter(column_units), "")
        same_quantity = units_beside(first)
        same = next((unit for unit in units if unit in same_quantity), first)
        units.append(same if column_units.keys() <= same_quantity.keys() else "")
    return tuple(units) if any(units) else ()


def _unit(cell: str) -> str:
    match = _CELL.fullmatch(cell.strip())
    return match["unit"] if match and is_unit(match["unit"]) else ""


def numbers_without(array: Any, unit: str, decimal: str, missing: Sequence[str]) -> Any:
    """Convert cells with a number and a unit to numbers in a given unit.

    Parameters
    ----------
    array : pyarrow array of text
        Cells; each cell is missing or ends in a unit of the same quantity.
    unit : str
        Unit of the result.
    decimal : str
        Decimal sign.
    missing : sequence of str
        Texts of missing cells, lower case.

    Raises
    ------
    ArrowInvalid
        If a cell contains other text.

    """
    import pyarrow as pa
    from pyarrow import compute

    plain = compute.utf8_trim_whitespace(array)
    absent = compute.is_in(compute.utf8_lower(plain), pa.array(missing, plain.type))
    there = compute.if_else(absent, None, plain)

    def numbers(text: Any) -> Any:
        return compute.replace_substring(compute.utf8_rtrim_whitespace(text), decimal, ".").cast(pa.float64())

    if compute.all(compute.ends_with(there, unit), skip_nulls=True, min_count=0).as_py():
        try:
            return numbers(compute.utf8_slice_codeunits(there, 0, -len(unit)))
        except pa.ArrowInvalid:  # a cell in mNm also ends in Nm
            pass
    parts = compute.extract_regex(there, _PARTS)
    ends = compute.utf8_trim_whitespace(compute.struct_field(parts, "unit"))
    known = units_beside(unit)
    factors = compute.take(pa.array([*known.values()]), compute.index_in(ends, pa.array([*known], ends.type)))
    if factors.null_count > there.null_count:
        raise pa.ArrowInvalid(f"a cell that does not end in {unit}, or another unit of its quantity")
    return compute.multiply(numbers(compute.struct_field(parts, "number")), factors)


# `ros2 topic echo --csv` prints the fields of a JointState message in order, without a header line.

_HEADER = ("header.stamp.sec", "header.stamp.nanosec", "header.frame_id")
# Arrays of sensor_msgs/msg/JointState in order, by the number of nonempty arrays. Any array may be empty, so the second
# of two arrays may be velocity or effort.
_ARRAYS = {
    1: ("position",),
    2: ("position", "velocity_or_effort"),
    3: ("position", "velocity", "effort"),
}
_NANOSECONDS_PER_SECOND = 1_000_000_000


def joint_state_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Column names of a row with sec, nanosec, frame_id, m joint names and m numbers per array; () for other rows."""
    start = len(_HEADER)
    if len(cells) <= start or not (cells[0].isdigit() and cells[1].isdigit()) or _is_number(cells[2]):
        return ()
    if int(cells[1]) >= _NANOSECONDS_PER_SECOND:
        return ()
    rest = cells[start:]
    m = next((k for k, cell in enumerate(rest) if _is_number(cell)), len(rest))
    numbers = rest[m:]
    if not m or not all(rest[:m]) or len(set(rest[:m])) < m or not all(map(_is_number, numbers)):
        return ()
    arrays = _ARRAYS.get(len(numbers) // m) if len(numbers) % m == 0 else None
    if arrays is None:
        return ()
    return (*_HEADER, *(f"{field}[{i}]" for field in ("name", *arrays) for i in range(m)))


def _is_number(cell: str) -> bool:
    try:
        number_of(cell)
    except ValueError:
        return False
    return True


# Find the line of names and the line of units above a table, and make repeated names distinct.

_UNIT_BEHIND = re.compile(r"\[[^][]*\]$|\([^()]*\)$")


def names_above_units(
    before: Sequence[tuple[str, ...]], width: int
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Column names and units if a line above the rows contains units; None without a line of units.

    Remarks may follow between the line of units and the first row.
    """
    other = next((k for k, cells in enumerate(reversed(before)) if len(cells) != width), len(before))
    block = list(before[len(before) - other :])
    at = next((k for k in range(len(block) - 1, 0, -1) if _are_units(block[k])), None)
    if at is None:
        return None
    for k in range(at - 1, -1, -1):
        if _is_distinct(block[k]):
            return block[k], block[at]
        if k > 0 and not _is_distinct(block[k - 1]) and (whole := under_groups(block[k - 1], block[k])):
            return whole, block[at]
    return block[at - 1], block[at]


def _is_distinct(names: Sequence[str]) -> bool:
    """Whether the names are distinct and cover more than half of the columns.

    A line of group names fails this test, because it names only the first column of each group.
    """
    named = [name for name in names if name]
    return len(set(named)) == len(named) > len(names) // 2


def under_groups(groups: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Combine names with the group names in the line above; () unless this is what makes the names distinct."""
    group, whole = "", []
    for above, name in zip(groups, names, strict=True):
        group = above or group
        whole.append(f"{group} {name}".strip())
    named = [name for name in names if name]
    return tuple(whole) if len(set(named)) < len(named) and len(set(whole)) == len(whole) else ()


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Number adjacent columns with the same name like the elements of an array: pos[0], pos[1], ...

    A repeated name that ends in a digit is an error in the file and is not numbered. If the name of the first column
    repeats at a constant distance, it is a clock before each channel and becomes Time [s], Time 2 [s], ...
    """
    again = [i for i, name in enumerate(names) if name and name == names[0]]
    if len(again) > 1 and again[1] > 1 and again == list(range(0, len(names), again[1])):
        unit = _UNIT_BEHIND.search(names[0])
        plain = names[0][: unit.start()].rstrip() if unit else names[0]
        behind = names[0][len(plain) :]
        numbered = {i: f"{plain} {k}{behind}" for k, i in enumerate(again[1:], 2)}
        names = [numbered.get(i, name) for i, name in enumerate(names)]
    starts = [i for i, name in enumerate(names) if i == 0 or name != names[i - 1]]
    runs = list(pairwise([*starts, len(names)]))
    if len({names[a] for a, _ in runs if names[a]}) < sum(bool(names[a]) for a, _ in runs):
        return tuple(names)
    return tuple(
        names[a] if b - a == 1 or not names[a] or names[a][-1].isdigit() else f"{names[a]}[{i - a}]"
        for a, b in runs
        for i in range(a, b)
    )


def _are_units(cells: Sequence[str]) -> bool:
    units = [cell.strip("[]() ") for cell in cells if cell]
    return 2 * sum(is_unit(unit) for unit in units) > len(units)


# Handle unquoted lists in the cells of a line: 0.01,[1.0, 2.0],[3.0, 4.0] or 7 (1.0 2.0) (3.0 4.0).

# A list of two or more numbers that fills a cell.
_LIST_NUMBER = r"[-+]?(?:\d[\d.]*|\.\d+|nan|inf)(?:e[-+]?\d+)?"
_LIST = re.compile(
    rf"(?<![^\s,;|])([ \t]*)[\[(]\s*({_LIST_NUMBER}(?:(?:\s*[,;]\s*|\s+){_LIST_NUMBER})+)\s*,?\s*[\])](?![^\s,;|])",
    re.IGNORECASE,
)
# A list of a single number. Round brackets count only between blanks, because spreadsheets write -1.5 as (1.5).
_ONE_NUMBER = re.compile(
    rf"(?<![^\s,;|])\[\s*({_LIST_NUMBER})\s*,?\s*\](?![^\s,;|])"
    rf"|(?:(?<=[^\s,;|] )|(?<=^))\(\s*({_LIST_NUMBER})\s*\)(?= *(?:\Z|[^\s,;|]))",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*[,;]\s*|\s+")
# Ways to rewrite a list: as a quoted cell, as one cell per number, or as its first number only.
QUOTED, FLAT, ONE = "quoted", "flat", "one"


def has_lists(lines: Sequence[str]) -> bool:
    """Whether most lines contain lists that the separator would split into cells."""
    with_lists = (
        '"' not in line and (_LIST.search(line) or _ONE_NUMBER.search(line)) is not None for line in lines
    )
    return 2 * sum(with_lists) > len(lines)


def rewritten_lists(line: str, way: str, delimiter: str) -> str:
    """Rewrite the lists of a line.

    Parameters
    ----------
    line : str
        The line.
    way : str
        QUOTED, FLAT or ONE; "" returns the line unchanged.
    delimiter : str
        Separator of the cells.

    """
    if not way or '"' in line:
        return line
    mark = "," if way == QUOTED else delimiter

    def written(match: re.Match[str]) -> str:
        blanks = match[1] if delimiter.isspace() else ""  # a quoted cell must begin with its quote
        numbers = _BETWEEN.split(match[2])
        if way == ONE:
            return f"{match[1]}{numbers[0]}"
        return blanks + (f'"[{mark.join(numbers)}]"' if way == QUOTED else mark.join(numbers))

    return _LIST.sub(written, _ONE_NUMBER.sub(lambda match: match[1] or match[2], line))


# A TwinCAT Scope View export lists the channel properties above the rows and has no header line.

# Keys of the lines with the channel names (full names first), and of a line that only Scope View writes.
_NAMES, _STEP = ("SymbolName", "Name"), "SampleTime[ms]"
# Optional last line of an export.
END_TAG = "EOF"
# First cells of the lines above the rows.
_PROPERTIES = {
    "Name", "File", "Starttime of export", "Endtime of export", "StartRecord", "EndRecord", "StartTime", "EndTime",
    "SymbolName", "SymbolComment", "SymbolBased", "Data-Type", "VariableSize", "SampleTime[ms]", "NetID", "NetId",
    "Port", "IndexGroup", "IndexOffset", "Offset", "ScaleFactor", "BitMask", "Unit", "Unit ScaleFactor", "Unit Offset",
}  # fmt: skip
# A time above this value is a Windows file time (units of 100 ns since 1601) instead of an offset in ms.
_STAMP = 1e15


def is_scope(lines: Iterable[Sequence[str]]) -> bool:
    """Whether a line begins with the key that only Scope View writes."""
    return any(cells[:1] == [_STEP] for cells in lines)


def is_property(cells: Sequence[str]) -> bool:
    """Whether a line states a property of the channels or of the export."""
    return bool(cells) and cells[0] in _PROPERTIES


def scope_names(above: Sequence[Sequence[str]], row: Sequence[str]) -> tuple[str, ...]:
    """Column names of a Scope View export; () for other files.

    Each channel has a time column before it, or all channels share the first column as time. Time is in ms since the
    start of the export.

    Parameters
    ----------
    above : sequence of sequence of str
        Cells of the lines above the first row.
    row : sequence of str
        Cells of the first row.

    """
    width = len(row)
    lines = [cells for cells in above if len(cells) == width and width > 1]
    in_pairs = {cells[0]: cells[1::2] for cells in lines if width % 2 == 0 and len(set(cells[0::2])) == 1}
    shared = {cells[0]: cells[1:] for cells in lines}
    if _STEP in in_pairs and width > 2:
        names = _distinct(in_pairs)
        times = [_time(row[2 * k], k + 1) for k in range(len(names))]
        return tuple(name for pair in zip(times, names, strict=True) for name in pair) if names else ()
    if _STEP in shared:
        names = _distinct(shared)
        return (_time(row[0], 1), *names) if names else ()
    return ()


def _distinct(properties: dict[str, Sequence[str]]) -> Sequence[str]:
    """Short names of the channels, or full names if the short ones are not distinct."""
    short = properties.get(_NAMES[1], ())
    return short if len(set(short)) == len(short) else properties.get(_NAMES[0], ())


def _time(cell: str, number: int) -> str:
    """Name of time column `number`, whose unit follows from the value of its first cell."""
    try:
        value = number_of(cell.replace(",", "."))
    except ValueError:
        value = 0.0
    return f"Filetime {number}" if value > _STAMP else f"Time {number} [ms]" if number > 1 else "Time [ms]"


# Size of the sample at the beginning of a file from which dynid detects the dialect.
SAMPLE_BYTES, SAMPLE_LINES = 1 << 18, 200
# Maximum number of lines in a quoted cell. NumPy prints an array of a hundred numbers on fewer lines.
LONGEST_CELL = 20
# Maximum number of lines of text below a table.
LONGEST_FOOT = 20
# Last column in the header of LabVIEW measurement files; rows without a comment omit it.
LABVIEW_COMMENT = "comment"
BLANK = " "
# After a preamble, the table begins at the first of this many consecutive rows.
ROWS_OF_TABLE = 5
# If several separators fit the sample equally well, the first in this list is used.
SEPARATORS = (",", ";", "\t", "|", BLANK)
COMMENT = re.compile(r"^\s*(#|%|//)+")
# Texts of missing numbers (case is ignored) as written by Python, R, the Windows C runtime and instruments, and the
# error values of English and German spreadsheets.
MISSING = ("", "nan", "null", "none", "na", "n/a", "#n/a", "<na>", "-", "--", "-nan", "nan(ind)", "-nan(ind)",
           "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind",
           *("-" * count for count in range(3, 9)), *("*" * count for count in range(1, 9)),
           "#nv", "#null!", "#div/0!", "#value!", "#wert!", "#ref!", "#bezug!", "#name?", "#num!",
           "#zahl!")  # fmt: skip
# A line "name: number unit" above a table. LabVIEW repeats the number for each channel.
_STATED = re.compile(
    r"[#%/\s]*(?P<name>[A-Za-z][\w ]*?)\s*(?:\[(?P<bracket>\w+)\])?\s*[:=\t,;]\s*"
    r"(?P<values>[-+\d.,eE]+(?:\t[-+\d.,eE]+)*)\s*(?P<unit>Hz|kHz|s|ms|us)?"
)
_RUN = re.compile(r"\s+")
LONGEST_REMARK = 4096  # characters; a longer line above a table is not searched for a number
_STATED_UNITS = {"": 1.0, "Hz": 1.0, "kHz": 1e3, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_COMMA_NUMBER = re.compile(r"[+-]?(\d+(,\d+)?|,\d+)([eE][+-]?\d+)?")
# 1,234.5 or 1.234,5: if a cell contains both signs, the last sign is the decimal sign.
_GROUPED = {
    sign: re.compile(rf"[+-]?\d{{1,3}}(?:{mark}\d{{3}})+{sign}\d*")
    for sign, mark in ((r"\.", ","), (",", r"\."))
}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Dialect:
    """Dialect of a text table.

    Parameters
    ----------
    delimiter : str
        Single character; a blank means any run of blanks and tabs.
    decimal : str
        Decimal sign.
    encoding : str
        Python's name of the encoding.
    names : tuple of str
        Distinct column names; columns without a name are called column[0], column[1], ...
    units : tuple of str
        Unit of each column, from a line of units or from the cells; () without units.
    head_lines : int
        Number of lines before the first row.
    named : bool
        Whether the file names its columns.
    first : tuple of str
        Cells of the first row.
    broken : bool
        Whether the sample contains a quoted cell with a line break.
    stated : mapping of str to float
        Named numbers in the lines above the table; frequencies in Hz, times in s, other numbers as written.
    lists : str
        Way to rewrite lists of numbers, see `rewritten_lists`.
    grouped : bool
        Whether thousands are separated (by "," if the decimal sign is ".", else by ".").
    in_cells : tuple of str
        Unit at the end of each cell of a column, "" for columns without a unit; () if no cell has a unit.
    twins : mapping of str to tuple of str
        Repeated column names, each with the distinct names of its second and later columns.
    unlike : tuple of str
        Repeated column names whose columns differ in the first rows.

    """

    delimiter: str
    decimal: str
    encoding: str
    names: tuple[str, ...]
    units: tuple[str, ...]
    head_lines: int
    named: bool
    first: tuple[str, ...] = ()
    broken: bool = False
    stated: Mapping[str, float] = field(default_factory=dict)
    lists: str = ""
    grouped: bool = False
    in_cells: tuple[str, ...] = ()
    twins: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    unlike: tuple[str, ...] = ()

    def as_cells(self, line: str) -> str:
        """Rewrite the lists of a line as cells and remove the separators of thousands."""
        whole = _without_grouping(line, self.delimiter, self.decimal) if self.grouped else line
        return rewritten_lists(whole, self.lists, self.delimiter)

    def cells(self, line: str) -> list[str]:
        """Split a line into cells."""
        return _cells(self.as_cells(line), self.delimiter)

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number or missing."""
        return _is_missing(cell) or _dialect_is_number(cell, self.decimal)

    def is_number_of(self, column: int, cell: str) -> bool:
        """Whether a cell is missing or a number, followed by a unit if the column has units in its cells."""
        unit = self.in_cells[column] if self.in_cells else ""
        number = number_in(cell, unit)
        return _is_missing(cell) or (number is not None and _dialect_is_number(number, self.decimal))

    def number(self, cell: str) -> float:
        """Convert a cell to a number, nan if it is missing; raise ValueError for text."""
        if _is_missing(cell):
            return float("nan")
        if not _dialect_is_number(cell, self.decimal):
            raise ValueError(f"'{cell}' is no number")
        return number_of(cell.replace(self.decimal, "."))

    @property
    def words(self) -> str:
        """Message that states the separator, decimal sign, encoding and a missing header."""
        names = {"\t": "tabs", BLANK: "blanks", ";": "semicolons", ",": "commas"}
        separated = names.get(self.delimiter, f"'{self.delimiter}'")
        head = "" if self.named else ", no header line: columns are numbered from 0"
        letters = ", Latin-1 encoding" if self.encoding == "latin-1" else ""
        return f"detected: columns separated by {separated}, decimal sign '{self.decimal}'{letters}{head}"


@dataclass(frozen=True)
class _Guess:
    delimiter: str
    decimal: str
    # Line number and cells of each line that is not a comment.
    lines: Sequence[tuple[int, list[str]]]
    width: int
    numeric_share: float

    @property
    def header_fits(self) -> bool:
        """Whether the line above the first row has as many cells as the rows; True if there is no line above."""
        first = _first_row(self)
        before = [cells for i, cells in self.lines if first is None or i < first]
        return not before or len(before[-1]) == self.width or _has_comment(before[-1], self.width)


def dialect_of(path: Path, delimiter: str | None = None, decimal: str | None = None) -> Dialect:
    """Detect the dialect of a text file.

    Parameters
    ----------
    path : Path
        Path of the file.
    delimiter, decimal : str, optional
        None selects the separator and the sign for which most cells are numbers.

    Returns
    -------
    Dialect

    Raises
    ------
    InputError
        If the file is empty, or if its separator is not the given one.
    RefusedError
        If its first line is longer than the sample.

    """
    text, encoding, whole = _sample(path)
    if not whole and "\n" not in text and "\r" not in text:
        raise RefusedError(
            "too-large",
            found=f"a line of more than {SAMPLE_BYTES} bytes",
            expected=f"a table with one row per line and at most {SAMPLE_BYTES} bytes per line",
            do="export one row per line, without images or other arrays",
            place=Place(file=str(path), line=1),
        )
    text = with_plain_signs(text)
    count = SAMPLE_LINES if whole else max(1, min(SAMPLE_LINES, text.count("\n")))
    physical = [line.rstrip("\r") for line in text.split("\n")[:count]]
    written = _whole_lines(physical)
    lines = [line if COMMENT.match(line) else without_units(line) for line in written]
    plain = _without_comments(lines)
    if not plain and not any(line.strip() for line in lines):
        raise InputError(
            "file-empty", found="an empty file", expected="a log", place=Place(file=str(path), line=1)
        )
    way = ""
    if has_lists([line for _, line in plain]):
        shortened = [rewritten_lists(line, ONE, "") for line in lines]
        best = _best_guess(_without_comments(shortened), delimiter, decimal)
        delimiter, decimal = best.delimiter, best.decimal
        way = QUOTED if _header(shortened, best, _first_row(best))[0] else FLAT
        lines = [rewritten_lists(line, way, delimiter) for line in lines]
        plain = _without_comments(lines)
    best = _best_guess(plain, delimiter, decimal)
    _check_separator(path, plain, best, delimiter)
    grouped = any(_is_grouped(cell, best.decimal) for _, cells in best.lines for cell in cells)
    if grouped:
        lines = [_without_grouping(line, best.delimiter, best.decimal) for line in lines]
        best = _best_guess(_without_comments(lines), best.delimiter, best.decimal)
    first = _first_row(best)
    names, units = _header(lines, best, first)
    column_names = tuple(
        name or f"column[{i}]" for i, name in enumerate(distinct(names) or ("",) * best.width)
    )
    rows_of = [cells for i, cells in best.lines if first is not None and i >= first]
    column_names, twins, unlike = _with_distinct_names(column_names, rows_of)
    # If the sample has no row, the first line that is not a comment is the header.
    head = first if first is not None else next((i + 1 for i, _ in plain), len(lines))
    row = next((tuple(cells) for i, cells in best.lines if i == first), ())
    in_cells: tuple[str, ...] = ()
    if first is not None and lines != written:
        raw = [_without_grouping(line, best.delimiter, best.decimal) if grouped else line for line in written]
        split = [_cells(rewritten_lists(raw[i], way, best.delimiter), best.delimiter) for i, _ in best.lines]
        rows = [cells for cells, (i, _) in zip(split, best.lines, strict=True) if i >= first]
        in_cells = units_of(rows, best.width, _is_missing)
        pairs = zip(rows[0], row, in_cells or [""] * len(row), strict=False)
        row = tuple(plain if unit else cell for cell, plain, unit in pairs)
    broken = len(written) < len(physical)
    above = _stated(written[: first or 0], best.decimal)
    return Dialect(
        best.delimiter,
        best.decimal,
        encoding,
        column_names,
        units or in_cells,
        head,
        bool(names),
        row,
        broken,
        above,
        way,
        grouped,
        in_cells,
        twins,
        unlike,
    )


def _with_distinct_names(
    names: tuple[str, ...], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Make the column names distinct.

    Returns
    -------
    names : tuple of str
        Distinct column names.
    twins : mapping of str to tuple of str
        Repeated names, each with the distinct names of its second and later columns.
    unlike : tuple of str
        Repeated names whose columns differ in the rows.

    """
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        places.setdefault(name, []).append(i)
    several = {name: at for name, at in places.items() if len(at) > 1}
    if not several:
        return names, {}, ()
    distinct_names = [
        f"{name} (column {i + 1})" if places[name][0] < i else name for i, name in enumerate(names)
    ]
    whole = [cells for cells in rows if len(cells) == len(names)]
    unlike = [
        name for name, at in several.items() if any(cells[at[0]] != cells[i] for cells in whole for i in at)
    ]
    return (
        tuple(distinct_names),
        {name: tuple(distinct_names[i] for i in at[1:]) for name, at in several.items()},
        tuple(unlike),
    )


def _is_grouped(cell: str, decimal: str) -> bool:
    return _GROUPED[re.escape(decimal)].fullmatch(cell.strip()) is not None


def _without_grouping(line: str, delimiter: str, decimal: str) -> str:
    """Remove the separators of thousands; if they equal the cell separator, only within quoted numbers."""
    mark = "," if decimal == "." else "."
    if mark not in line:
        return line
    number = rf"[+-]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d*)?"
    # A unit may follow the number within the quotes.
    bounds = (
        (r'(?<=")', r'(?=(?:\s*[^\s\d,"][^",]*)?")') if mark == delimiter else (r"(?<![\w.,])", r"(?![\w.,])")
    )
    return re.sub(rf"{bounds[0]}{number}{bounds[1]}", lambda match: match[0].replace(mark, ""), line)


def _without_comments(lines: Sequence[str]) -> list[tuple[int, str]]:
    return [(i, line) for i, line in enumerate(lines) if line.strip() and not COMMENT.match(line)]


def cut_off(path: Path, dialect: Dialect) -> tuple[int, str, int] | None:
    """Find lines at the end of a file that are not rows: an interrupted last line, or a summary in words.

    Only UTF-8 files without line breaks in quoted cells are searched.

    Returns
    -------
    tuple of int, str, int or None
        Byte offset and text of the first of these lines, and their number; None if the last line is a full row.

    """
    if dialect.broken or not dialect.encoding.startswith("utf-8"):
        return None
    with path.open("rb") as file:
        for _ in range(dialect.head_lines):
            file.readline()
        begin = file.tell()
        end = file.seek(0, 2)
        start = max(begin, end - SAMPLE_BYTES)
        file.seek(start)
        data = file.read()
    cut: tuple[int, str, int] | None = None
    whole = data.rstrip()
    for count in range(1, LONGEST_FOOT + 1):
        at = whole.rfind(b"\n") + 1
        if at == 0:  # the only line, or a line longer than the sample
            break
        text = with_plain_signs(whole[at:].decode("utf-8", "replace"))
        cells = dialect.cells(text)
        in_words = not any(map(dialect.is_number, cells))
        if len(cells) >= len(dialect.names) or not (in_words or count == 1):
            break
        cut = start + at, text, count
        whole = whole[:at].rstrip()
    return cut


def _whole_lines(lines: Sequence[str]) -> list[str]:
    """Join a line that ends within quotes with the following lines, up to the closing quote."""
    whole: list[str] = []
    opened = 0
    for line in lines:
        if opened:
            whole[-1] += f" {line}"
        else:
            whole.append(line)
        odd = line.count('"') % 2 == 1
        opened = (opened + 1 if opened else 0) if not odd else 0 if opened else 1
        if opened > LONGEST_CELL:
            return list(lines)  # no closing quote: treat the quote as a plain character
    return whole[:-1] if opened else whole


def _sample(path: Path) -> tuple[str, str, bool]:
    with path.open("rb") as file:
        data = file.read(SAMPLE_BYTES)
        whole = not file.read(1)
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            even = data if len(data) % 2 == 0 or encoding == "utf-8-sig" else data[:-1]
            return even.decode(encoding, "replace"), encoding, whole
    try:
        # The end of the sample may split a character; this is not an error of the encoding.
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=whole), "utf-8", whole
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1", whole


def _best_guess(lines: Sequence[tuple[int, str]], delimiter: str | None, decimal: str | None) -> _Guess:
    quoted = any('"' in line for _, line in lines)
    guesses = [
        _guess(lines, separator, sign)
        for separator in ((delimiter,) if delimiter else SEPARATORS)
        for sign in ((decimal,) if decimal else (".", ","))
        if separator != sign or quoted
    ]
    several = [guess for guess in guesses if guess.width > 1] or guesses
    return max(several, key=lambda guess: (guess.header_fits, guess.numeric_share))


def _guess(lines: Sequence[tuple[int, str]], delimiter: str, decimal: str) -> _Guess:
    cells = [(i, _cells(line, delimiter)) for i, line in lines]
    numeric = [(sum(_dialect_is_number(cell, decimal) for cell in row), len(row)) for _, row in cells]
    widths = Counter(width for count, width in numeric if count)
    width = widths.most_common(1)[0][0] if widths else max((len(row) for _, row in cells), default=0)
    rows = [row for _, row in cells if len(row) == width]
    number_count = sum(_dialect_is_number(cell, decimal) for row in rows for cell in row)
    given = sum(not _is_missing(cell) for row in rows for cell in row)
    # Cells in lines with another number of cells count as text.
    stray = sum(len(row) for _, row in cells) - sum(map(len, rows))
    return _Guess(delimiter, decimal, cells, width, number_count / max(given + stray, 1))


def _check_separator(
    path: Path, lines: Sequence[tuple[int, str]], best: _Guess, delimiter: str | None
) -> None:
    if delimiter is None or best.width > 1 or not lines:
        return
    at, line = lines[0]
    for other in (";", "\t", ",", "|"):
        if other != delimiter and other in line:
            shown = "\\t" if other == "\t" else other
            raise InputError(
                "delimiter",
                found=f"columns separated by '{shown}'",
                expected=f"'{delimiter}'",
                do=f'set delimiter = "{shown}" under [log], or omit it',
                place=Place(file=str(path), line=at + 1),
            )


def _first_row(guess: _Guess) -> int | None:
    # A row with too few or too many cells counts as a row here; the reader reports it later. A line with a number is a
    # remark above the header if the next line has no number.
    numeric = [any(_dialect_is_number(cell, guess.decimal) for cell in cells) for _, cells in guess.lines]
    if is_scope(cells for _, cells in guess.lines):
        pairs = zip(numeric, guess.lines, strict=True)
        numeric = [some and not is_property(cells) for some, (_, cells) in pairs]
    for k, (now, after) in enumerate(zip(numeric, [*numeric[1:], True], strict=True)):
        if now and after:
            head = guess.lines[k - 1][1] if k else []
            return guess.lines[k][0] if len(head) in (0, guess.width) else _below_preamble(guess, k)
    return None


def _below_preamble(guess: _Guess, first: int) -> int:
    """Line number of the first row below a preamble that contains numbers.

    The table starts at the first of `ROWS_OF_TABLE` consecutive lines without words in the numeric columns. If there
    is no such line, it starts at line `first` of the guess.
    """
    whole = [cells for _, cells in guess.lines if len(cells) == guess.width]
    of_numbers = [
        i
        for i in range(guess.width)
        if 2 * sum(_dialect_is_number(cells[i], guess.decimal) for cells in whole) > len(whole)
    ]

    def is_row(cells: Sequence[str]) -> bool:
        row_cells = [cells[i] for i in of_numbers] if len(cells) == guess.width else [""]
        return any(_dialect_is_number(cell, guess.decimal) for cell in row_cells) and all(
            _is_missing(cell) or _dialect_is_number(cell, guess.decimal) for cell in row_cells
        )

    rows = [is_row(cells) for _, cells in guess.lines]
    start = next((k for k in range(first, len(rows)) if all(rows[k : k + ROWS_OF_TABLE])), first)
    return guess.lines[start][0]


def _stated(above: Sequence[str], decimal: str) -> dict[str, float]:
    """Named numbers in the lines above a table, for example "# sample rate: 200 Hz"."""
    stated: dict[str, float] = {}
    for line in above:
        # Shorten runs of blanks to avoid catastrophic backtracking.
        plain = _RUN.sub(lambda run: "\t" if "\t" in run[0] else " ", line.strip())
        match = _STATED.fullmatch(plain) if len(plain) <= LONGEST_REMARK else None
        numbers = set(match["values"].split()) if match else set()
        if match and len(numbers) == 1 and _dialect_is_number(number := numbers.pop(), decimal):
            unit = match["unit"] or match["bracket"] or ""
            stated[match["name"].strip()] = number_of(number.replace(decimal, ".")) * _STATED_UNITS.get(
                unit, 1.0
            )
    return stated


def _has_comment(names: Sequence[str], width: int) -> bool:
    """Whether a LabVIEW header ends in a comment column that the rows omit."""
    return len(names) == width + 1 and names[-1].lower() == LABVIEW_COMMENT


def _header(
    lines: Sequence[str], guess: _Guess, first: int | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of the columns; () for each that the file does not state."""
    before = [tuple(cells) for i, cells in guess.lines if first is None or i < first]
    if first is None and before:
        return before[0], ()
    channels = scope_names(before, next((c for i, c in guess.lines if i == first), []))
    if channels:
        return channels, ()
    if named := names_above_units(before, guess.width):
        return named
    if len(before) > 1 and len(before[-2]) == len(before[-1]) == guess.width:
        whole = under_groups(before[-2], before[-1])
        if whole:
            return whole, ()
    if before and (len(before[-1]) > 1 or guess.width <= 1):
        names, rows = before[-1], [cells for i, cells in guess.lines if i >= (first or 0)]
        # The rows may end in a separator although the header does not.
        trailing = len(names) == guess.width - 1 and all(
            len(cells) == guess.width and not cells[-1] for cells in rows
        )
        if (
            len(names) == guess.width + 1
            and not names[-1]
            and all(len(cells) == guess.width for cells in rows)
        ):
            names = names[:-1]  # the header ends in a separator, but the rows do not
        if _has_comment(names, guess.width):
            names = names[:-1]
        return (*names, *([""] if trailing else [])), ()
    for line in [line for line in lines[: first or 0] if COMMENT.match(line)][::-1]:
        text = COMMENT.sub("", line).strip()
        for separator in (guess.delimiter, BLANK, ","):
            names = tuple(_cells(text, separator))
            if len(names) == guess.width:
                return names, ()
    row = next((cells for i, cells in guess.lines if first is not None and i >= first), [])
    return joint_state_names(row), ()


def _cells(line: str, delimiter: str) -> list[str]:
    if delimiter == BLANK:
        return line.split()
    try:
        return [cell.strip() for cell in next(csv.reader([line], delimiter=delimiter))]
    except (csv.Error, StopIteration):
        return [line]


def _is_missing(cell: str) -> bool:
    return cell.strip().lower() in MISSING


def _dialect_is_number(cell: str, decimal: str) -> bool:
    text = cell.strip()
    if decimal == ",":
        return _COMMA_NUMBER.fullmatch(text) is not None
    try:
        number_of(text)
    except ValueError:
        return False
    return text.lower() != "nan"
