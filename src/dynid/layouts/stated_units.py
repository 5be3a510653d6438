"""Units that a file states beside its columns, below their names or as an attribute, read as a part of the name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from dynid.layouts.excerpt import Excerpt
from dynid.layouts.meaning import BRACKETED_UNIT, Meaning, is_written_unit
from dynid.layouts.names import Family


def with_stated_units(look: Excerpt) -> dict[str, str]:
    """The columns' names by their names with the unit that the file states of them: q1 by "q1 [deg]"."""
    stated = {} if look.bag else {column.name: column.info.unit for column in look.stream.columns}
    return {_named(name, stated.get(name, "")): name for name in look.names}


def _named(name: str, unit: str) -> str:
    plain = unit.strip("[]() ")
    return name if not is_written_unit(plain) or BRACKETED_UNIT.search(name) else f"{name} [{plain}]"


def groups_as_named(found: Sequence[Family], plain: Mapping[str, str]) -> list[Family]:
    """Groups of columns whose names had their units, called as the file calls them.    plain: names by those."""
    return [_as_named(one, plain) for one in found]


def _as_named(one: Family, plain: Mapping[str, str]) -> Family:
    columns = tuple(plain.get(name, name) for name in one.columns)
    added = one.columns[0].removeprefix(columns[0]) if columns and columns != one.columns else ""
    return replace(one, template=one.template.removesuffix(added), columns=columns)


def meanings_as_named(
    found: Sequence[tuple[str, Meaning]], plain: Mapping[str, str]
) -> list[tuple[str, Meaning]]:
    """Columns that stand alone, called as the file calls them, with their meanings."""
    return [(plain.get(name, name), meaning) for name, meaning in found]
