"""C99 code of motion: kinematics, forward dynamics, energy, derivatives and external torque, as loops over tables.

Torque is written out body by body (c_code.py), which is fastest; these functions are loops, so that their size does not
grow with the robot. They call the ones that are written out. No memory is allocated, nothing is kept between calls but
what the caller hands over. Their text is in the folder `c`, where PREFIX and MACRO stand for the robot's name in lower
and upper case, SLOPES for what a leaning base and springs add to derivatives, ENERGY for the springs' energy.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.resources import files

import numpy as np

from dynid.base.arrays import Float
from dynid.exporters.model import ExportModel
from dynid.terms.exports import MotionBasis, c_number, spring_slopes


def declarations(prefix: str) -> list[str]:
    """Lines for the header."""
    return _named(_text("motion.h"), prefix)


def functions(model: ExportModel, prefix: str) -> list[str]:
    """Lines for the source, behind those of torque."""
    slopes = [*([] if model.tilt is None else _tilt(model)), *_spring_slopes(model)]
    motion = (
        _text("motion.c").replace("SLOPES", "".join(slopes)).replace("ENERGY", "".join(_spring_energy(model)))
    )
    text = _text("algebra.c") + "\n" + motion
    return [*_tables(model, prefix), "", *_named(text, prefix), ""]


def _text(name: str) -> str:
    return (files("dynid.exporters") / "c" / name).read_text(encoding="utf-8")


def _named(text: str, prefix: str) -> list[str]:
    return text.rstrip("\n").replace("PREFIX", prefix).replace("MACRO", prefix.upper()).split("\n")


def _tables(model: ExportModel, prefix: str) -> list[str]:
    robot, tree = model.robot, model.robot.tree
    n, nb = f"{prefix.upper()}_N", f"{prefix.upper()}_NB"
    drives = np.diag(model.rotor)
    for part in model.mixed:
        if part.basis is MotionBasis.ACCELERATION:
            drives = drives + part.value * np.outer(part.out, part.weights)
    numbers = [
        *_table(f"double {prefix}_axis[{nb}][3]", tree.axis),
        *_table(f"double {prefix}_rotation[{nb}][9]", tree.rotation.reshape(-1, 9)),
        *_table(f"double {prefix}_translation[{nb}][3]", tree.translation),
        *_table(f"double {prefix}_projection[{nb}][{n}]", robot.projection),
        *_table(f"double {prefix}_drives[{n}][{n}]", drives),
        *_table(f"double {prefix}_shift[{nb}]", robot.projection_offset),
        *_table(f"double {prefix}_gravity_vector[3]", robot.gravity),
    ]
    whole = [
        f"static const int {prefix}_{name}[{nb}] = {{{', '.join(str(int(x)) for x in values)}}};"
        for name, values in (("parent", tree.parent), ("slides", tree.prismatic))
    ]
    if model.tilt is not None:
        numbers += _table(f"double {prefix}_leaning[10 * {nb}]", model.tilt.bodies(robot).ravel())
        change = model.tilt.gravity(robot).T @ model.tilt.values[:2]
        numbers += _table(f"double {prefix}_lean[3]", change)
    return ["/* The tree: bodies in the order of the parameters. */", *whole, *numbers]


def _table(name: str, values: Float) -> list[str]:
    if values.ndim == 1:
        return [f"static const {name} = {{{_row(values)}}};"]
    rows = [f"    {{{_row(row)}}}," for row in values]
    rows[-1] = rows[-1].rstrip(",")
    return [f"static const {name} = {{", *rows, "};"]


def _row(values: Sequence[float] | Float) -> str:
    return ", ".join(repr(float(x)) for x in values)


def _tilt(model: ExportModel) -> list[str]:
    # Weights of the nominal bodies under what the tilts add to gravity, and the pattern of the first body.
    lines = ["    PREFIX_add_derivatives(PREFIX_leaning, PREFIX_lean, q, 0, 0, by_q, 0);\n"]
    patterns = [] if model.tilt is None else model.tilt.values[2:].tolist()
    for value, slope in zip(patterns, ("-sin", "cos"), strict=False):
        lines.append(f"    by_q[0] += {value!r} * {slope}(q[0]);\n")
    return lines


def _spring_slopes(model: ExportModel) -> list[str]:
    n = model.robot.n
    K = spring_slopes(model.springs, n)
    return [f"    by_q[{n * i + j}] += {c_number(K[i, j])};\n" for i, j in zip(*np.nonzero(K), strict=True)]


def _spring_energy(model: ExportModel) -> list[str]:
    lines = []
    for one in model.springs:
        a = "(" + " + ".join(f"{c_number(one.weights[j])} * q[{j}]" for j in one.joints) + ")"
        lines.append(
            f"    energy += (0.5 * {c_number(one.stiffness)} * {a} + {c_number(one.preload)}) * {a};\n"
        )
    return lines
