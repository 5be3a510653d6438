"""Plain data (what JSON can hold) as tables, whatever its keys are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeGuard

from markupsafe import Markup, escape

from dynid.report.text import number, plain_number, short

_LISTED = 12
_MOST_ROWS = 200
_DEEPEST = 6
_LONGEST = 160

Table = Mapping[object, object]


def tables(data: object, depth: int = 0) -> Markup:
    """Nested mappings and lists as HTML: scalars in a table of two columns, lists of mappings as tables."""
    if depth > _DEEPEST:
        return escape(short(str(data), _LONGEST))
    if _is_mapping(data):
        return _mapping(data, depth)
    if _is_mappings(data):
        return _records(data)
    return cell(data)


def cell(value: object) -> Markup:
    """One value as it stands in a table."""
    if value is None or value == "":
        return Markup('<span class="faint">–</span>')
    if isinstance(value, bool):
        return Markup("yes") if value else Markup("no")
    if isinstance(value, float):
        return escape(plain_number(value))
    if _is_mapping(value):
        return Markup(", ").join(Markup("{} {}").format(label(k), cell(v)) for k, v in value.items())
    if _is_list(value):
        return _list(value)
    text = str(value)
    if len(text) > _LONGEST:
        return Markup('<span title="{}">{}</span>').format(text, short(text, _LONGEST))
    return escape(text)


def label(key: object) -> str:
    """A key as a label: underscores become spaces, a unit at the end is set in brackets."""
    text = str(key)
    for ending, unit in (("_hz", "Hz"), ("_s", "s")):
        if text.endswith(ending):
            return f"{text.removesuffix(ending).replace('_', ' ')} ({unit})"
    return text.replace("_", " ")


def _mapping(data: Table, depth: int) -> Markup:
    flat = [(key, value) for key, value in data.items() if _is_flat(value)]
    deep = [(key, value) for key, value in data.items() if not _is_flat(value)]
    if not flat and len(deep) > 1 and _alike([value for _, value in deep]):
        return _records([{"": key, **value} for key, value in deep if _is_mapping(value)])
    html = Markup("")
    if flat:
        rows = Markup("").join(
            Markup("<tr><th scope='row'>{}</th><td>{}</td></tr>").format(label(k), cell(v)) for k, v in flat
        )
        html += Markup('<table class="pairs"><tbody>{}</tbody></table>').format(rows)
    for key, value in deep:
        html += Markup('<div class="nested{}"><h4>{}</h4>{}</div>').format(
            " wide" if _is_wide(value) else "", label(key), tables(value, depth + 1)
        )
    return html


def _records(records: Sequence[Table]) -> Markup:
    keys = list(dict.fromkeys(key for record in records for key in record))
    numeric = [all(_is_number(record.get(key, 0)) for record in records) for key in keys]
    head = Markup("").join(
        Markup('<th class="{}">{}</th>').format("num" if right else "", label(key))
        for key, right in zip(keys, numeric, strict=True)
    )
    body = Markup("").join(_row(record, keys, numeric) for record in records[:_MOST_ROWS])
    note = Markup("")
    if len(records) > _MOST_ROWS:
        note = Markup('<p class="note">{} more rows are not shown.</p>').format(len(records) - _MOST_ROWS)
    return Markup(
        '<div class="scroll"><table class="data generic"><thead><tr>{}</tr></thead>'
        "<tbody>{}</tbody></table></div>{}"
    ).format(head, body, note)


def _row(record: Table, keys: Sequence[object], numeric: Sequence[bool]) -> Markup:
    cells = Markup("").join(
        Markup('<td class="{}">{}</td>').format("num" if right else "wrap", cell(record.get(key)))
        for key, right in zip(keys, numeric, strict=True)
    )
    return Markup("<tr>{}</tr>").format(cells)


def _list(values: Sequence[object]) -> Markup:
    if not values:
        return Markup('<span class="faint">none</span>')
    finite = [v for v in values if _is_number(v) and math.isfinite(v)]
    if len(values) > _LISTED and len(finite) == len(values):
        return Markup("{} values from {} to {}").format(len(values), number(min(finite)), number(max(finite)))
    shown = Markup(", ").join(cell(v) for v in values[:_LISTED])
    return shown if len(values) <= _LISTED else shown + Markup(" and {} more").format(len(values) - _LISTED)


def _is_wide(value: object) -> bool:
    return not (_is_mapping(value) and all(_is_flat(item) for item in value.values()))


def _is_mapping(value: object) -> TypeGuard[Table]:
    return isinstance(value, Mapping)


def _is_list(value: object) -> TypeGuard[Sequence[object]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_mappings(value: object) -> TypeGuard[Sequence[Table]]:
    return _is_list(value) and len(value) > 0 and all(_is_mapping(item) for item in value)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_flat(value: object) -> bool:
    if _is_mapping(value):
        return not value
    return not (_is_list(value) and any(_is_mapping(item) for item in value))


def _alike(values: Sequence[object]) -> bool:
    tables = [value for value in values if _is_mapping(value) and value]
    same = len(tables) == len(values) and all(set(table) == set(tables[0]) for table in tables)
    return same and all(_is_flat(item) for table in tables for item in table.values())
