"""Parameters as a reader writes them: I with indices zz and 3 instead of Izz3, with a tooltip in words."""

from __future__ import annotations

import re

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.report.text import MINUS
from dynid.robot.model import RobotModel
from dynid.terms.catalogue import symbol_of
from dynid.terms.term import Column, Of

_NAME = re.compile(r"([A-Za-z]+)(\d+)")
_SHOWN = 4
# A factor of a sum that is so near to one is one: rounding of the base map.
_ROUNDING = 1.1e-8


def owner(column: Column, robot: RobotModel) -> str:
    """The body or joint that a parameter belongs to, in words."""
    i = column.owner
    if of_whole_robot(column):
        return "the whole robot"
    if column.of is Of.BODY and i < robot.n_bodies:
        return f"body {i + 1} '{robot.body_names[i]}' (moved by joint '{robot.tree_joint_names[i]}')"
    return f"joint {i + 1} '{robot.joint_names[i]}'" if 0 <= i < robot.n else ""


def of_whole_robot(column: Column) -> bool:
    """Whether a parameter belongs to no single joint or body: a common delay, the base's tilt."""
    return column.of is Of.ROBOT


def parts(column: Column) -> tuple[str, str]:
    """Symbol and number of a parameter's name, ("Izz", "3"); the whole name and "" if it has no such form."""
    match = _NAME.fullmatch(column.name)
    return (match[1], match[2]) if match else (column.name, "")


def letter(symbol: str) -> Markup:
    """A symbol without its number, typeset."""
    head, index = _written(symbol)
    return Markup("<i>{}</i><sub>{}</sub>").format(head, index) if index else Markup("<i>{}</i>").format(head)


def words(symbol: str) -> str:
    """What a symbol stands for; "" when it is not known."""
    known = symbol_of(symbol)
    return known.words if known else ""


def symbol(column: Column, robot: RobotModel) -> Markup:
    """A parameter, typeset, with a tooltip that says what it is and of which body or joint."""
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
    """A base parameter as a sum, its leading parameter first; long sums fold away behind their beginning.

    row: (p,) its line of the base map.
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
