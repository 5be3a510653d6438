"""Units behind the numbers in a table's cells: 1.23 Nm, 45.2 deg, 12 ms."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

from dynid.base.units import is_unit, units_beside

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
