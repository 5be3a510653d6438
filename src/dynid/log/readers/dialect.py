"""How a text file writes its table: separator, decimal sign, comment head, names and units of columns, first row."""

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

from dynid.base.errors import InputError, Place
from dynid.base.records import dataclass
from dynid.base.units import is_unit, number_of, units_beside

# Signs in text that stand for those of plain numbers: minus signs of typesetters, blanks that do not break,
# marks.
#
# And numbers as NumPy prints them for Python, np.float64(1.5).

# U+2212 minus, U+2013 en dash and U+FF0D full-width hyphen, before a digit.
_MINUS = re.compile("[\u2212\u2013\uff0d](?=[.,]?\\d)")
# No-break space, figure space, thin space and narrow no-break space, between digits where they part thousands.
_BLANKS = "\u00a0\u2007\u2009\u202f"
_THOUSANDS = re.compile(f"(?<=\\d)[{_BLANKS}](?=\\d{{3}}(?!\\d))")
_BLANK = re.compile(f"[{_BLANKS}]")
# Byte order marks stand wherever files were put one behind the other.
_MARK = "\ufeff"
_MARKS_OF_NUMPY = (b"np.", b"numpy.")
# From its version 2 on, of single numbers.
_OF_NUMPY = re.compile(r"\b(?:np|numpy)\.(?:float|u?int)\d*\(([-+\w.]+)\)")


def with_plain_signs(text: str) -> str:
    """A text with the signs that numbers of programs have."""
    text = _OF_NUMPY.sub(r"\1", text) if "np." in text or "numpy." in text else text
    if text.isascii():
        return text
    return _BLANK.sub(" ", _THOUSANDS.sub("", _MINUS.sub("-", text.replace(_MARK, ""))))


def bytes_with_plain_signs(text: bytes) -> bytes:
    """The same of text in UTF-8."""
    if text.isascii() and not any(mark in text for mark in _MARKS_OF_NUMPY):
        return text
    return with_plain_signs(text.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


# Units behind the numbers in a table's cells: 1.23 Nm, 45.2 deg, 12 ms.

# With thousands apart or not; not with any number of commas, which would be tried in every way.
_NUMBER = r"[+-]?(?:\d{1,3}(?:[.,]\d{3}){1,4}(?:[.,]\d*)?|\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?"
# A unit is words up to the end of its cell: runs of blanks are passed once, and not tried from each of them.
_IN_LINE = re.compile(
    rf'(?P<number>(?:^|(?<=[,;\t|"])) *{_NUMBER}) *(?P<unit>[^-+.\s\d,;|"][^,;\t|" ]*(?: +[^,;\t|" ]+)*)'
)
_CELL = re.compile(rf"{_NUMBER}\s*(?P<unit>[^-+\s\d,.].*)")

# As Arrow has it, whose blanks are those of ASCII.
_PARTS = r"^(?P<number>[-+0-9.,eE]*[0-9.,])(?P<unit>[^-+0-9.,].*)$"


def without_units(line: str) -> str:
    """A line with the numbers of its cells alone."""
    return _IN_LINE.sub(lambda found: found["number" if is_unit(found["unit"]) else 0], line)


def number_in(cell: str, unit: str) -> str | None:
    """The number of a cell that ends in a unit, or in another one of its quantity; None where it does not."""
    plain = cell.strip()
    found = _CELL.fullmatch(plain) if unit else None
    if found is not None and found["unit"] in units_beside(unit):
        return plain.removesuffix(found["unit"]).rstrip()
    return plain.removesuffix(unit).rstrip() if plain.endswith(unit) else None


def units_of(rows: Sequence[Sequence[str]], width: int, is_missing: Callable[[str], bool]) -> tuple[str, ...]:
    """The unit to read each column in whose cells all end in a unit of one quantity, "" = they do not.

    It is the first one of that quantity in the rows, the same for all columns. () = no column has one.
    """
    whole = [cells for cells in rows if len(cells) == width]
    units: list[str] = []
    for k in range(width):
        own = dict.fromkeys(_unit(cells[k]) for cells in whole if not is_missing(cells[k]))
        first = next(iter(own), "")
        beside = units_beside(first)
        same = next((unit for unit in units if unit in beside), first)
        units.append(same if own.keys() <= beside.keys() else "")
    return tuple(units) if any(units) else ()


def _unit(cell: str) -> str:
    found = _CELL.fullmatch(cell.strip())
    return found["unit"] if found and is_unit(found["unit"]) else ""


def numbers_without(array: Any, unit: str, decimal: str, missing: Sequence[str]) -> Any:
    """An Arrow array of numbers in a unit of one of text, each of which ends in a unit of that quantity or is missing.

    Raises ArrowInvalid for another one.
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
        except pa.ArrowInvalid:  # mNm ends in Nm, too
            pass
    parts = compute.extract_regex(there, _PARTS)
    ends = compute.utf8_trim_whitespace(compute.struct_field(parts, "unit"))
    known = units_beside(unit)
    factors = compute.take(pa.array([*known.values()]), compute.index_in(ends, pa.array([*known], ends.type)))
    if factors.null_count > there.null_count:
        raise pa.ArrowInvalid(f"a cell that does not end in {unit}, or another unit of its quantity")
    return compute.multiply(numbers(compute.struct_field(parts, "number")), factors)


# Joint states as `ros2 topic echo --csv` prints them: no header line, the message's fields one behind the
# other.

_HEADER = ("header.stamp.sec", "header.stamp.nanosec", "header.frame_id")
# Of sensor_msgs/msg/JointState, in its order; any may be empty, and with two it is not said which.
_ARRAYS = {
    1: ("position",),
    2: ("position", "velocity_or_effort"),
    3: ("position", "velocity", "effort"),
}
_NANOSECONDS_PER_SECOND = 1_000_000_000


def joint_state_names(cells: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns of a row sec, nanosec, frame_id, names of m joints, and m numbers an array; else ()."""
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


# Lines of names above a table: which of them holds the names, which the units, and how names become
# distinct.

_UNIT_BEHIND = re.compile(r"\[[^][]*\]$|\([^()]*\)$")


def names_above_units(
    before: Sequence[tuple[str, ...]], width: int
) -> tuple[tuple[str, ...], tuple[str, ...]] | None:
    """Names and units where a line above the rows holds units; remarks may stand between them and the rows or names."""
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
    """Whether names are no two alike, and stand over most columns: those of groups stand over the first of each."""
    named = [name for name in names if name]
    return len(set(named)) == len(named) > len(names) // 2


def under_groups(groups: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """Names that are only distinct with those of the line above, each of which goes on to the right; else ()."""
    group, whole = "", []
    for above, name in zip(groups, names, strict=True):
        group = above or group
        whole.append(f"{group} {name}".strip())
    named = [name for name in names if name]
    return tuple(whole) if len(set(named)) < len(named) and len(set(whole)) == len(whole) else ()


def distinct(names: Sequence[str]) -> tuple[str, ...]:
    """Names of which some stand over several columns side by side are numbered as an array: pos[0], pos[1], ...

    A name that ends in a number of its own is not: it is one too many. One that comes again at even distances from the
    first column on, as a clock before each channel, is numbered, too: Time [s], Time 2 [s], ...
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


# Lists among the cells of a line that no quotes hold together: 0.01,[1.0, 2.0],[3.0, 4.0] or 7 (1.0 2.0)
# (3.0 4.0).

# Of two numbers or more, at the beginning of a cell and at its end.
_LIST_NUMBER = r"[-+]?(?:\d[\d.]*|\.\d+|nan|inf)(?:e[-+]?\d+)?"
_LIST = re.compile(
    rf"(?<![^\s,;|])([ \t]*)[\[(]\s*({_LIST_NUMBER}(?:(?:\s*[,;]\s*|\s+){_LIST_NUMBER})+)\s*,?\s*[\])](?![^\s,;|])",
    re.IGNORECASE,
)
# Of one number. In round brackets between blanks alone: those of spreadsheets are negative.
_ONE_NUMBER = re.compile(
    rf"(?<![^\s,;|])\[\s*({_LIST_NUMBER})\s*,?\s*\](?![^\s,;|])"
    rf"|(?:(?<=[^\s,;|] )|(?<=^))\(\s*({_LIST_NUMBER})\s*\)(?= *(?:\Z|[^\s,;|]))",
    re.IGNORECASE,
)
_BETWEEN = re.compile(r"\s*[,;]\s*|\s+")
# As cells of their own, as quotes make them, a cell for each of their numbers, or one number in place of each.
QUOTED, FLAT, ONE = "quoted", "flat", "one"


def has_lists(lines: Sequence[str]) -> bool:
    """Whether most lines hold lists that would fall apart into cells."""
    held = (
        '"' not in line and (_LIST.search(line) or _ONE_NUMBER.search(line)) is not None for line in lines
    )
    return 2 * sum(held) > len(lines)


def held_together(line: str, way: str, delimiter: str) -> str:
    """A line with its lists written in a way; "" = as they are.    delimiter: of the cells."""
    if not way or '"' in line:
        return line
    mark = "," if way == QUOTED else delimiter

    def written(found: re.Match[str]) -> str:
        blanks = found[1] if delimiter.isspace() else ""  # quotes begin a cell
        numbers = _BETWEEN.split(found[2])
        if way == ONE:
            return f"{found[1]}{numbers[0]}"
        return blanks + (f'"[{mark.join(numbers)}]"' if way == QUOTED else mark.join(numbers))

    return _LIST.sub(written, _ONE_NUMBER.sub(lambda found: found[1] or found[2], line))


# Tables that TwinCAT's Scope View exports: lines of properties of the channels above the rows, no line of
# names.

# The lines that name the channels, the better one first, and one that no other program writes.
_NAMES, _STEP = ("SymbolName", "Name"), "SampleTime[ms]"
# The last line, where an export is set up to have one.
END_TAG = "EOF"
# What begins a line above the rows.
_PROPERTIES = {
    "Name", "File", "Starttime of export", "Endtime of export", "StartRecord", "EndRecord", "StartTime", "EndTime",
    "SymbolName", "SymbolComment", "SymbolBased", "Data-Type", "VariableSize", "SampleTime[ms]", "NetID", "NetId",
    "Port", "IndexGroup", "IndexOffset", "Offset", "ScaleFactor", "BitMask", "Unit", "Unit ScaleFactor", "Unit Offset",
}  # fmt: skip
# Above this a time is no offset in ms but a stamp in 100 ns since 1601.
_STAMP = 1e15


def is_scope(lines: Iterable[Sequence[str]]) -> bool:
    """Whether one of the lines is such as Scope View alone writes."""
    return any(cells[:1] == [_STEP] for cells in lines)


def is_property(cells: Sequence[str]) -> bool:
    """Whether a line says something of the channels, or of the export."""
    return bool(cells) and cells[0] in _PROPERTIES


def scope_names(above: Sequence[Sequence[str]], row: Sequence[str]) -> tuple[str, ...]:
    """Names of the columns, () where the lines above the rows are none of Scope View's.

    above: cells of the lines above the first row.    row: its cells. Each channel has a time before it, or all have the
    one at the beginning, in ms since the export's start.
    """
    width = len(row)
    lines = [cells for cells in above if len(cells) == width and width > 1]
    in_pairs = {cells[0]: cells[1::2] for cells in lines if width % 2 == 0 and len(set(cells[0::2])) == 1}
    shared = {cells[0]: cells[1:] for cells in lines}
    if _STEP in in_pairs and width > 2:
        names = _distinct(in_pairs)
        times = [_time(row[2 * k], k + 1) for k in range(len(names))]
        return tuple(one for pair in zip(times, names, strict=True) for one in pair) if names else ()
    if _STEP in shared:
        names = _distinct(shared)
        return (_time(row[0], 1), *names) if names else ()
    return ()


def _distinct(properties: dict[str, Sequence[str]]) -> Sequence[str]:
    """The channels' full names where their short ones are not distinct."""
    short = properties.get(_NAMES[1], ())
    return short if len(set(short)) == len(short) else properties.get(_NAMES[0], ())


def _time(cell: str, number: int) -> str:
    """What a column of times is called."""
    try:
        value = number_of(cell.replace(",", "."))
    except ValueError:
        value = 0.0
    return f"Filetime {number}" if value > _STAMP else f"Time {number} [ms]" if number > 1 else "Time [ms]"


# Enough of a file to see how it is written.
SAMPLE_BYTES, SAMPLE_LINES = 1 << 18, 200
# Lines that a cell in quotes may have: what NumPy prints of an array of a hundred numbers.
LONGEST_CELL = 20
# Lines in words below a table.
LONGEST_FOOT = 20
# The last column of LabVIEW's measurement files, which rows lack where there is none.
LABVIEW_COMMENT = "comment"
BLANK = " "
# A table below a preamble begins where so many lines are rows.
ROWS_OF_TABLE = 5
# In the order of preference where several explain the sample equally well.
SEPARATORS = (",", ";", "\t", "|", BLANK)
COMMENT = re.compile(r"^\s*(#|%|//)+")
# What programs write where a number is missing, in any case: Python, R, C's runtime on Windows; instruments that have
# nothing to show; spreadsheets where they cannot work it out, in German, too.
MISSING = ("", "nan", "null", "none", "na", "n/a", "#n/a", "<na>", "-", "--", "-nan", "nan(ind)", "-nan(ind)",
           "1.#qnan", "-1.#qnan", "1.#ind", "-1.#ind",
           *("-" * count for count in range(3, 9)), *("*" * count for count in range(1, 9)),
           "#nv", "#null!", "#div/0!", "#value!", "#wert!", "#ref!", "#bezug!", "#name?", "#num!",
           "#zahl!")  # fmt: skip
# What a line above a table says by name; LabVIEW says it for each channel.
_SAID = re.compile(
    r"[#%/\s]*(?P<name>[A-Za-z][\w ]*?)\s*(?:\[(?P<bracket>\w+)\])?\s*[:=\t,;]\s*"
    r"(?P<values>[-+\d.,eE]+(?:\t[-+\d.,eE]+)*)\s*(?P<unit>Hz|kHz|s|ms|us)?"
)
_RUN = re.compile(r"\s+")
LONGEST_REMARK = 4096  # characters of a line above a table that is looked at
_SAID_IN = {"": 1.0, "Hz": 1.0, "kHz": 1e3, "s": 1.0, "ms": 1e-3, "us": 1e-6}
_COMMA_NUMBER = re.compile(r"[+-]?(\d+(,\d+)?|,\d+)([eE][+-]?\d+)?")
# 1,234.5 and 1.234,5: both signs in one cell leave no doubt which of them groups thousands.
_GROUPED = {
    sign: re.compile(rf"[+-]?\d{{1,3}}(?:{mark}\d{{3}})+{sign}\d*")
    for sign, mark in ((r"\.", ","), (",", r"\."))
}
_MARKS = ((codecs.BOM_UTF8, "utf-8-sig"), (codecs.BOM_UTF16_LE, "utf-16"), (codecs.BOM_UTF16_BE, "utf-16"))


@dataclass(frozen=True)
class Dialect:
    """How a text file is written.

    delimiter: one character; a blank stands for any run of blanks and tabs.    names: of the columns, column[0],
    column[1], ... where the file has none.    units: the cells of a line of units, () = there is none.    head_lines:
    number of lines before the first row.    named: whether the file names its columns.    first: its cells.
    broken: whether a cell in quotes goes on over the end of its line.    stated: numbers that the lines above the table
    say by name, in SI units where they have one.    lists: how lists of numbers in a line are held together, as
    in loose_lists.    grouped: whether numbers have their thousands apart, by the other sign.
    in_cells: the unit that each cell of a column ends in, "" = none, () = no column has one.
    twins: of a name that several columns have, those of the others among the names.    unlike: such names whose columns
    differ in the first rows.
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
        """A line with its lists as cells, and its numbers in one piece."""
        whole = _in_one_piece(line, self.delimiter, self.decimal) if self.grouped else line
        return held_together(whole, self.lists, self.delimiter)

    def cells(self, line: str) -> list[str]:
        """The cells of a line."""
        return _cells(self.as_cells(line), self.delimiter)

    def is_number(self, cell: str) -> bool:
        """Whether a cell is a number or missing."""
        return _is_missing(cell) or _dialect_is_number(cell, self.decimal)

    def is_number_of(self, column: int, cell: str) -> bool:
        """Whether a cell of a column is a number, in the column's unit where cells have one, or missing."""
        unit = self.in_cells[column] if self.in_cells else ""
        number = number_in(cell, unit)
        return _is_missing(cell) or (number is not None and _dialect_is_number(number, self.decimal))

    def number(self, cell: str) -> float:
        """The number of a cell, nan where missing; raises ValueError for text."""
        if _is_missing(cell):
            return float("nan")
        if not _dialect_is_number(cell, self.decimal):
            raise ValueError(f"'{cell}' is no number")
        return number_of(cell.replace(self.decimal, "."))

    @property
    def words(self) -> str:
        """Separator, decimal sign and header in words."""
        names = {"\t": "tabs", BLANK: "blanks", ";": "semicolons", ",": "commas"}
        separated = names.get(self.delimiter, f"'{self.delimiter}'")
        head = "" if self.named else ", no header line: columns are called by their place, counted from 0"
        letters = ", letters of Latin-1" if self.encoding == "latin-1" else ""
        return f"columns separated by {separated}, decimal sign '{self.decimal}'{letters}{head}"


@dataclass(frozen=True)
class _Guess:
    delimiter: str
    decimal: str
    # Of each line that is no comment: its number and cells.
    lines: Sequence[tuple[int, list[str]]]
    width: int
    numeric_share: float

    @property
    def header_fits(self) -> bool:
        """Whether the line before the first row, if there is one, has as many cells."""
        first = _first_row(self)
        before = [cells for i, cells in self.lines if first is None or i < first]
        return not before or len(before[-1]) == self.width or _has_comment(before[-1], self.width)


def dialect_of(path: Path, delimiter: str | None = None, decimal: str | None = None) -> Dialect:
    """Finds how a file is written.

    delimiter, decimal: None = whatever makes most cells of its rows numbers.

    Raises InputError for a file without a line, and for another separator than the given one.
    """
    text, encoding, whole = _sample(path)
    text = with_plain_signs(text)
    count = SAMPLE_LINES if whole else max(1, min(SAMPLE_LINES, text.count("\n")))
    physical = [line.rstrip("\r") for line in text.split("\n")[:count]]
    written = _whole_lines(physical)
    lines = [line if COMMENT.match(line) else without_units(line) for line in written]
    plain = _plain(lines)
    if not plain and not any(line.strip() for line in lines):
        raise InputError(
            "file-empty", found="an empty file", expected="a log", place=Place(file=str(path), line=1)
        )
    way = ""
    if has_lists([line for _, line in plain]):
        shortened = [held_together(line, ONE, "") for line in lines]
        best = _best(_plain(shortened), delimiter, decimal)
        delimiter, decimal = best.delimiter, best.decimal
        way = QUOTED if _head(shortened, best, _first_row(best))[0] else FLAT
        lines = [held_together(line, way, delimiter) for line in lines]
        plain = _plain(lines)
    best = _best(plain, delimiter, decimal)
    _check_separator(path, plain, best, delimiter)
    grouped = any(_is_grouped(cell, best.decimal) for _, cells in best.lines for cell in cells)
    if grouped:
        lines = [_in_one_piece(line, best.delimiter, best.decimal) for line in lines]
        best = _best(_plain(lines), best.delimiter, best.decimal)
    first = _first_row(best)
    names, units = _head(lines, best, first)
    found = tuple(name or f"column[{i}]" for i, name in enumerate(distinct(names) or ("",) * best.width))
    rows_of = [cells for i, cells in best.lines if first is not None and i >= first]
    found, twins, unlike = _with_twins(found, rows_of)
    # Without a row in the sample the first line that is no comment is the header.
    head = first if first is not None else next((i + 1 for i, _ in plain), len(lines))
    row = next((tuple(cells) for i, cells in best.lines if i == first), ())
    in_cells: tuple[str, ...] = ()
    if first is not None and lines != written:
        raw = [_in_one_piece(one, best.delimiter, best.decimal) if grouped else one for one in written]
        split = [_cells(held_together(raw[i], way, best.delimiter), best.delimiter) for i, _ in best.lines]
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
        found,
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


def _with_twins(
    names: tuple[str, ...], rows: Sequence[Sequence[str]]
) -> tuple[tuple[str, ...], Mapping[str, tuple[str, ...]], tuple[str, ...]]:
    """Names of which no two are alike, those of the further columns of each name, and names whose columns differ."""
    places: dict[str, list[int]] = {}
    for i, name in enumerate(names):
        places.setdefault(name, []).append(i)
    several = {name: at for name, at in places.items() if len(at) > 1}
    if not several:
        return names, {}, ()
    own = [f"{name} (column {i + 1})" if places[name][0] < i else name for i, name in enumerate(names)]
    whole = [cells for cells in rows if len(cells) == len(names)]
    unlike = [
        name for name, at in several.items() if any(cells[at[0]] != cells[i] for cells in whole for i in at)
    ]
    return tuple(own), {name: tuple(own[i] for i in at[1:]) for name, at in several.items()}, tuple(unlike)


def _is_grouped(cell: str, decimal: str) -> bool:
    return _GROUPED[re.escape(decimal)].fullmatch(cell.strip()) is not None


def _in_one_piece(line: str, delimiter: str, decimal: str) -> str:
    """A line whose numbers have no sign between their thousands.    A sign that separates cells, too, is in quotes."""
    mark = "," if decimal == "." else "."
    if mark not in line:
        return line
    number = rf"[+-]?\d{{1,3}}(?:{re.escape(mark)}\d{{3}})+(?:{re.escape(decimal)}\d*)?"
    # A unit may stand between a number and the quotes.
    bounds = (
        (r'(?<=")', r'(?=(?:\s*[^\s\d,"][^",]*)?")') if mark == delimiter else (r"(?<![\w.,])", r"(?![\w.,])")
    )
    return re.sub(rf"{bounds[0]}{number}{bounds[1]}", lambda found: found[0].replace(mark, ""), line)


def _plain(lines: Sequence[str]) -> list[tuple[int, str]]:
    return [(i, line) for i, line in enumerate(lines) if line.strip() and not COMMENT.match(line)]


def cut_off(path: Path, dialect: Dialect) -> tuple[int, str, int] | None:
    """Where the last lines begin that have fewer cells than the rows have, what the first says, and how many they are.

    A program that is stopped leaves such a line, one that is not may sum up in words; None = the last line has as many.
    Looked for in UTF-8, where no cell goes on over the end of a line.
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
    found: tuple[int, str, int] | None = None
    whole = data.rstrip()
    for count in range(1, LONGEST_FOOT + 1):
        at = whole.rfind(b"\n") + 1
        if at == 0:  # the only line, or one longer than what is looked at
            break
        text = with_plain_signs(whole[at:].decode("utf-8", "replace"))
        cells = dialect.cells(text)
        in_words = not any(map(dialect.is_number, cells))
        if len(cells) >= len(dialect.names) or not (in_words or count == 1):
            break
        found = start + at, text, count
        whole = whole[:at].rstrip()
    return found


def _whole_lines(lines: Sequence[str]) -> list[str]:
    """Lines, those that end inside of quotes with what follows."""
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
            return list(lines)  # one that nothing ends
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
        # A character that the end of the sample cuts is none that is wrong.
        return codecs.getincrementaldecoder("utf-8")().decode(data, final=whole), "utf-8", whole
    except UnicodeDecodeError:
        return data.decode("latin-1"), "latin-1", whole


def _best(lines: Sequence[tuple[int, str]], delimiter: str | None, decimal: str | None) -> _Guess:
    quoted = any('"' in line for _, line in lines)
    guesses = [
        _guess(lines, separator, sign)
        for separator in ((delimiter,) if delimiter else SEPARATORS)
        for sign in ((decimal,) if decimal else (".", ","))
        if separator != sign or quoted
    ]
    several = [one for one in guesses if one.width > 1] or guesses
    return max(several, key=lambda one: (one.header_fits, one.numeric_share))


def _guess(lines: Sequence[tuple[int, str]], delimiter: str, decimal: str) -> _Guess:
    cells = [(i, _cells(line, delimiter)) for i, line in lines]
    numeric = [(sum(_dialect_is_number(cell, decimal) for cell in row), len(row)) for _, row in cells]
    widths = Counter(width for count, width in numeric if count)
    width = widths.most_common(1)[0][0] if widths else max((len(row) for _, row in cells), default=0)
    rows = [row for _, row in cells if len(row) == width]
    found = sum(_dialect_is_number(cell, decimal) for row in rows for cell in row)
    given = sum(not _is_missing(cell) for row in rows for cell in row)
    # Rows of other widths count as cells that are no numbers.
    stray = sum(len(row) for _, row in cells) - sum(map(len, rows))
    return _Guess(delimiter, decimal, cells, width, found / max(given + stray, 1))


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
                do=f'set delimiter = "{shown}" under [log], or leave it out',
                place=Place(file=str(path), line=at + 1),
            )


def _first_row(guess: _Guess) -> int | None:
    # Rows that are too short or too long are still rows, and reported when they are read. A line with a number before
    # one without is a remark above the header.
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
    """The first row where numbers of a preamble stand above it: from it on words stand in no column of numbers.

    first: of the lines with numbers; it is the row where none below it is better.
    """
    whole = [cells for _, cells in guess.lines if len(cells) == guess.width]
    of_numbers = [
        i
        for i in range(guess.width)
        if 2 * sum(_dialect_is_number(cells[i], guess.decimal) for cells in whole) > len(whole)
    ]

    def is_row(cells: Sequence[str]) -> bool:
        own = [cells[i] for i in of_numbers] if len(cells) == guess.width else [""]
        return any(_dialect_is_number(cell, guess.decimal) for cell in own) and all(
            _is_missing(cell) or _dialect_is_number(cell, guess.decimal) for cell in own
        )

    rows = [is_row(cells) for _, cells in guess.lines]
    start = next((k for k in range(first, len(rows)) if all(rows[k : k + ROWS_OF_TABLE])), first)
    return guess.lines[start][0]


def _stated(above: Sequence[str], decimal: str) -> dict[str, float]:
    """Numbers that lines above a table say by name: "# sample rate: 200 Hz"."""
    found: dict[str, float] = {}
    for line in above:
        # Runs of blanks would be tried in every way that they can be shared out.
        plain = _RUN.sub(lambda run: "\t" if "\t" in run[0] else " ", line.strip())
        said = _SAID.fullmatch(plain) if len(plain) <= LONGEST_REMARK else None
        numbers = set(said["values"].split()) if said else set()
        if said and len(numbers) == 1 and _dialect_is_number(one := numbers.pop(), decimal):
            unit = said["unit"] or said["bracket"] or ""
            found[said["name"].strip()] = number_of(one.replace(decimal, ".")) * _SAID_IN.get(unit, 1.0)
    return found


def _has_comment(names: Sequence[str], width: int) -> bool:
    """Whether a header of LabVIEW has a last column that rows without a comment lack."""
    return len(names) == width + 1 and names[-1].lower() == LABVIEW_COMMENT


def _head(lines: Sequence[str], guess: _Guess, first: int | None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names and units of the columns, () = none."""
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
        # Every row may end in a delimiter, and the header not.
        trailing = len(names) == guess.width - 1 and all(
            len(cells) == guess.width and not cells[-1] for cells in rows
        )
        if len(names) == guess.width + 1 and not names[-1] and all(len(one) == guess.width for one in rows):
            names = names[:-1]  # and the header, and the rows not
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
