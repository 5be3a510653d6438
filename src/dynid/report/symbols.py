"""Parameters as a reader writes them: I with indices zz and 3 instead of Izz3, with a tooltip in words."""

from __future__ import annotations

import re

import numpy as np
from markupsafe import Markup

from dynid.base.arrays import Float
from dynid.report.text import MINUS
from dynid.robot.model import RobotModel
from dynid.terms.term import Column

_NAME = re.compile(r"([A-Za-z]+)(\d+)")
_LETTERS: dict[str, tuple[str, str, str]] = {
    "m": ("m", "", "mass"),
    "mcx": ("mc", "x", "first moment of mass along x"),
    "mcy": ("mc", "y", "first moment of mass along y"),
    "mcz": ("mc", "z", "first moment of mass along z"),
    "Ixx": ("I", "xx", "inertia xx about the joint frame"),
    "Ixy": ("I", "xy", "inertia xy about the joint frame"),
    "Iyy": ("I", "yy", "inertia yy about the joint frame"),
    "Ixz": ("I", "xz", "inertia xz about the joint frame"),
    "Iyz": ("I", "yz", "inertia yz about the joint frame"),
    "Izz": ("I", "zz", "inertia zz about the joint frame"),
    "Ia": ("I", "a", "rotor inertia seen at the joint"),
    "fv": ("f", "v", "viscous friction"),
    "fc": ("f", "c", "Coulomb friction"),
    "fo": ("f", "o", "torque offset"),
    "fcp": ("f", "c+", "Coulomb friction, forward"),
    "fcn": ("f", "c−", "Coulomb friction, backward"),
    "fs": ("f", "s", "Stribeck friction"),
    "fg": ("f", "g", "sigmoidal friction, Gaz's phi 1"),
    "fzc": ("f", "3", "friction that fades with speed, Zollo's f3"),
    "fze": ("f", "5", "friction that rises with speed, Zollo's f5"),
    "fvv": ("f", "vv", "friction with the square of velocity"),
    "fvvv": ("f", "vvv", "friction with the cube of velocity"),
    "fqc": ("f", "qc", "Coulomb friction with the cosine of position"),
    "fqs": ("f", "qs", "Coulomb friction with the sine of position"),
    "fl": ("f", "l", "friction with the load"),
    "fvt": ("f", "vT", "change of viscous friction with temperature"),
    "K": ("K", "", "stiffness between motor and link"),
    "D": ("D", "", "damping between motor and link"),
    "fvl": ("f", "v,link", "viscous friction behind the spring"),
    "fcl": ("f", "c,link", "Coulomb friction behind the spring"),
    "fol": ("f", "o,link", "constant torque behind the spring"),
    "dk": ("δk", "", "deviation of the drive gain"),
    "delay": ("Δt", "", "delay of the torque behind the motion"),
    "tiltx": ("δ", "x", "tilt of the base about x"),
    "tilty": ("δ", "y", "tilt of the base about y"),
    "tiltz": ("δ", "z", "tilt of the base about z"),
    "tmc": ("t", "c", "first moment of the first body times the tilt, with cos q"),
    "tms": ("t", "s", "first moment of the first body times the tilt, with sin q"),
    "cq": ("c", "", "compliance of the joint"),
    "dg": ("δg", "", "deviation of the drive gain from the first joint's"),
    "fd": ("f", "d", "offset that grows with time"),
}
# Terms that have a parameter of the whole robot, which is the one without a number.
_WHOLE = ("torque_delay", "gravity_tilt")
_SHOWN = 4


def owner(column: Column, robot: RobotModel) -> str:
    """The body or joint that a parameter belongs to, in words."""
    i = column.owner
    if of_whole_robot(column):
        return "the whole robot"
    if column.term == "rigid_body" and i < robot.n_bodies:
        return f"body {i + 1} '{robot.body_names[i]}' (moved by joint '{robot.tree_joint_names[i]}')"
    return f"joint {i + 1} '{robot.joint_names[i]}'" if 0 <= i < robot.n else ""


def of_whole_robot(column: Column) -> bool:
    """Whether a parameter belongs to no single joint or body: a common delay, the base's tilt."""
    return column.term in _WHOLE and not parts(column)[1]


def parts(column: Column) -> tuple[str, str]:
    """Symbol and number of a parameter's name, ("Izz", "3"); the whole name and "" if it has no such form."""
    match = _NAME.fullmatch(column.name)
    return (match[1], match[2]) if match else (column.name, "")


def letter(symbol: str) -> Markup:
    """A symbol without its number, typeset."""
    head, index, _ = _LETTERS.get(symbol, (symbol, "", ""))
    return Markup("<i>{}</i><sub>{}</sub>").format(head, index) if index else Markup("<i>{}</i>").format(head)


def words(symbol: str) -> str:
    """What a symbol stands for; "" when it is not known."""
    return _LETTERS[symbol][2] if symbol in _LETTERS else ""


def symbol(column: Column, robot: RobotModel) -> Markup:
    """A parameter, typeset, with a tooltip that says what it is and of which body or joint."""
    name, count = parts(column)
    meaning = words(name) or column.term.replace("_", " ")
    title = f"{column.name}: {meaning}, {owner(column, robot)} [{column.unit}]"
    head, index, _ = _LETTERS.get(name, (name, "", ""))
    below = ",".join(part for part in (index, count) if part)
    if not below:
        return Markup('<span class="sym" title="{}"><i>{}</i></span>').format(title, head)
    return Markup('<span class="sym" title="{}"><i>{}</i><sub>{}</sub></span>').format(title, head, below)


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
    text = "" if np.isclose(size, 1.0, rtol=1e-9) else f"{size:.4g} "
    sign = "" if first and factor > 0 else "+ " if factor > 0 else f"{MINUS} "
    return Markup('<span class="piece">{}{}{}</span>').format(sign, text, name)
