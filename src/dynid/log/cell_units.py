"""Units behind the numbers in a table's cells: 1.23 Nm, 45.2 deg, 12 ms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from dynid.base.units import is_unit

# With thousands apart or not; not with any number of commas, which would be tried in every way.
_NUMBER = r"[+-]?(?:\d{1,3}(?:[.,]\d{3}){1,4}(?:[.,]\d*)?|\d+(?:[.,]\d*)?|[.,]\d+)(?:[eE][+-]?\d+)?"
# A unit is words up to the end of its cell: runs of blanks are passed once, and not tried from each of them.
_IN_LINE = re.compile(
    rf'(?P<number>(?:^|(?<=[,;\t|"])) *{_NUMBER}) *(?P<unit>[^-+.\s\d,;|"][^,;\t|" ]*(?: +[^,;\t|" ]+)*)'
)
_CELL = re.compile(rf"{_NUMBER}\s*(?P<unit>[^-+\s\d,.].*)")


def without_units(line: str) -> str:
    """A line with the numbers of its cells alone."""
    return _IN_LINE.sub(lambda found: found["number" if is_unit(found["unit"]) else 0], line)


def number_in(cell: str, unit: str) -> str | None:
    """The number of a cell that ends in a unit, None where it does not."""
    plain = cell.strip()
    return plain.removesuffix(unit).rstrip() if plain.endswith(unit) else None


def units_of(rows: Sequence[Sequence[str]], width: int, is_missing: Callable[[str], bool]) -> tuple[str, ...]:
    """The unit of each column that every cell of its ends in, "" = none; () = no column has one."""
    whole = [cells for cells in rows if len(cells) == width]
    found = [{_unit(cells[k]) for cells in whole if not is_missing(cells[k])} for k in range(width)]
    units = tuple(one.pop() if len(one) == 1 else "" for one in found)
    return units if any(units) else ()


def _unit(cell: str) -> str:
    found = _CELL.fullmatch(cell.strip())
    return found["unit"] if found and is_unit(found["unit"]) else ""


def numbers_without(array: Any, unit: str, decimal: str, missing: Sequence[str]) -> Any:
    """An Arrow array of numbers of one of text, each of which ends in a unit or is missing.

    Raises ArrowInvalid for another one.
    """
    import pyarrow as pa
    from pyarrow import compute

    plain = compute.utf8_trim_whitespace(array)
    absent = compute.is_in(compute.utf8_lower(plain), pa.array(missing, plain.type))
    there = compute.if_else(absent, None, plain)
    if not compute.all(compute.ends_with(there, unit), skip_nulls=True, min_count=0).as_py():
        raise pa.ArrowInvalid(f"a cell that does not end in {unit}")
    number = compute.utf8_rtrim_whitespace(compute.utf8_slice_codeunits(there, 0, -len(unit)))
    return compute.replace_substring(number, decimal, ".").cast(pa.float64())
