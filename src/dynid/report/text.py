"""Numbers and formulas for readers: digits by the interval, signs and powers typeset."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import TypeGuard

import numpy as np
from markupsafe import Markup, escape

from dynid.base.arrays import Float
from dynid.robot.model import RobotModel
from dynid.terms.catalogue import symbol_of
from dynid.terms.exports import Column, Of

__all__ = ["MINUS", "NO_BREAK", "interval", "number", "percent", "plain_number"]


MISSING = "–"
MINUS = "−"
NO_BREAK = "\u00a0"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST, _GREATEST = -3, 5
_MOST_DIGITS = 8


def number(value: float, digits: int = 3) -> str:
    """Format a number with a number of significant digits, e.g. "0.0123" or "−1.20·10⁻⁵"; "–" for nan."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    exponent = _exponent(value, digits)
    return _fixed(value, digits - 1 - exponent, exponent)


def interval(value: float, half_width: float) -> tuple[str, str]:
    """Format value and half width with equal decimals, two digits for the half width: ("1.234", "0.056")."""
    if not math.isfinite(half_width) or half_width <= 0 or not math.isfinite(value):
        return number(value, 4), number(half_width, 2)
    exponent = _exponent(max(abs(value), half_width), _MOST_DIGITS)
    decimals = min(1 - _exponent(half_width, 2), _MOST_DIGITS - 1 - exponent)
    return _fixed(value, decimals, exponent), _fixed(half_width, decimals, exponent)


def percent(fraction: float, digits: int = 2) -> str:
    """Format a fraction as percent, e.g. "5.2 %"."""
    return MISSING if math.isnan(fraction) else f"{number(100.0 * fraction, digits)}{NO_BREAK}%"


def duration(seconds: float) -> str:
    """Format a time span in s, min or h, e.g. "21 s", "12.5 min", "1.2 h"."""
    if seconds < 120:
        return f"{number(seconds)}{NO_BREAK}s"
    if seconds < 7200:
        return f"{number(seconds / 60)}{NO_BREAK}min"
    return f"{number(seconds / 3600)}{NO_BREAK}h"


def r_squared(value: float) -> str:
    """Format R² with four decimals, because its distance from 1 matters."""
    return f"{value:.4f}".replace("-", MINUS) if math.isfinite(value) and abs(value) < 100 else number(value)


def unit(text: str) -> str:
    """Format a unit with superscript exponents, e.g. "kg m²"."""
    return text.replace("^2", "²").replace("^3", "³")


def plain_number(value: float) -> str:
    """Format a number from a run's plain data with six digits and without trailing zeros."""
    if not math.isfinite(value) or (value != 0 and not 1e-4 <= abs(value) < 1e7):
        return number(value, 4)
    return f"{value:.6g}".replace("-", MINUS)


def markdown(text: str) -> Markup:
    """Convert a paragraph with code in backticks to HTML; links become plain text (offline page)."""
    escaped = str(escape(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))  # noqa: S704  (escaped above)


def short(text: str, length: int = 60) -> str:
    """The text itself, or its beginning and end around an ellipsis."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def _exponent(value: float, digits: int) -> int:
    return int(f"{abs(value):.{digits - 1}e}".partition("e")[2])


def _fixed(value: float, decimals: int, exponent: int) -> str:
    if _LEAST <= exponent < _GREATEST:
        text = f"{value:.{max(decimals, 0)}f}"
    else:
        mantissa = f"{value / 10.0**exponent:.{max(decimals + exponent, 0)}f}"
        text = f"{mantissa}·10{str(exponent).translate(_SUPERSCRIPT)}"
    return text.replace("-", MINUS)


# Parameters as a reader writes them: I with indices zz and 3 instead of Izz3, with a tooltip in words.

_NAME = re.compile(r"([A-Za-z]+)(\d+)")
_SHOWN = 4
# Coefficients this close to 1 are set to 1: the difference is rounding in the base map.
_ROUNDING = 1.1e-8


def owner(column: Column, robot: RobotModel) -> str:
    """Link or joint that a parameter belongs to, in words."""
    i = column.owner
    if of_whole_robot(column):
        return "the whole robot"
    if column.of is Of.BODY and i < robot.n_bodies:
        return f"link {i + 1} '{robot.body_names[i]}' (moved by joint '{robot.tree_joint_names[i]}')"
    return f"joint {i + 1} '{robot.joint_names[i]}'" if 0 <= i < robot.n else ""


def of_whole_robot(column: Column) -> bool:
    """Whether a parameter belongs to no single joint or link, such as a common delay or the tilt of the base."""
    return column.of is Of.ROBOT


def parts(column: Column) -> tuple[str, str]:
    """Split the name of a parameter into symbol and number, ("Izz", "3"); number "" for other names."""
    match = _NAME.fullmatch(column.name)
    return (match[1], match[2]) if match else (column.name, "")


def letter(symbol: str) -> Markup:
    """A symbol without its number, typeset."""
    head, index = _written(symbol)
    return Markup("<i>{}</i><sub>{}</sub>").format(head, index) if index else Markup("<i>{}</i>").format(head)


def words(symbol: str) -> str:
    """Meaning of a symbol; "" if unknown."""
    known = symbol_of(symbol)
    return known.words if known else ""


def symbol(column: Column, robot: RobotModel) -> Markup:
    """A parameter, typeset, with a tooltip of its meaning, owner and unit."""
    name, count = parts(column)
    meaning = words(name) or column.term.replace("_", " ")
    title = f"{column.name}: {meaning}, {owner(column, robot)} [{column.unit}]"
    head, index = _written(name)
    below = ",".join(part for part in (index, count) if part)
    if not below:
        return Markup('<span class="sym" title="{}"><i>{}</i></span>').format(title, head)
    return Markup('<span class="sym" title="{}"><i>{}</i><sub>{}</sub></span>').format(title, head, below)


def _written(name: str) -> tuple[str, str]:
    known = symbol_of(name)
    return (known.letter, known.index) if known else (name, "")


def formula(row: Float, lead: int, columns: tuple[Column, ...], robot: RobotModel) -> Markup:
    """A base parameter as a typeset sum; a long sum can be unfolded.

    Parameters
    ----------
    row : ndarray, shape (p,)
        Row of the base map.
    lead : int
        Index of the leading parameter, which comes first.
    columns : tuple of Column
        The parameters of the model.
    robot : RobotModel
        The robot.

    Returns
    -------
    Markup

    """
    members = [lead, *(int(j) for j in np.flatnonzero(row) if j != lead)]
    pieces = [_piece(float(row[j]), symbol(columns[j], robot), first=j == lead) for j in members]
    if len(pieces) <= _SHOWN + 1:
        return Markup(" ").join(pieces)
    head, tail = Markup(" ").join(pieces[:_SHOWN]), Markup(" ").join(pieces[_SHOWN:])
    return Markup(
        '<details class="formula"><summary>{head} <span class="more">+ {count} more</span></summary>'
        "{tail}</details>"
    ).format(head=head, count=len(pieces) - _SHOWN, tail=tail)


def _piece(factor: float, name: Markup, first: bool) -> Markup:
    size = abs(factor)
    text = "" if abs(size - 1.0) <= _ROUNDING else f"{size:.4g} "
    sign = "" if first and factor > 0 else "+ " if factor > 0 else f"{MINUS} "
    return Markup('<span class="piece">{}{}{}</span>').format(sign, text, name)


# Plain data (as in JSON) as tables, for any keys.

_LISTED = 12
_MOST_ROWS = 200
_DEEPEST = 6
_LONGEST = 160

Table = Mapping[object, object]


def tables(data: object, depth: int = 0) -> Markup:
    """HTML of nested mappings and lists: scalars in two columns, lists of mappings as tables."""
    if depth > _DEEPEST:
        return escape(short(str(data), _LONGEST))
    if _is_mapping(data):
        return _mapping(data, depth)
    if _is_mappings(data):
        return _records(data)
    return cell(data)


def cell(value: object) -> Markup:
    """HTML of one value in a table."""
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
    """Label of a key: underscores become spaces, and a unit at the end is put in brackets."""
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
