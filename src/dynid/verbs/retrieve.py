"""Physically consistent bodies from dynamic coefficients: a published or revealed table in, full parameters out."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import DynidError, InputError, InputErrors, Place, UsageError
from dynid.base.input_file import read_bytes
from dynid.base.numbers import number_of
from dynid.base.records import dataclass
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.prior import parameter_spread
from dynid.factor.base import structural_base
from dynid.feasible.penalty import Penalised
from dynid.feasible.problem import Distance, Feasible, feasible_parameters
from dynid.feasible.strength import l_curve_strength
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.terms.rigid_body import RigidBody
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Column, Terms

MAX_BYTES = 4_000_000
# Deviation of a coefficient that comes without one, over the table's root mean square.
DEVIATION = 1e-3
# Least deviation that counts, over that: a noiseless model reveals coefficients to fifteen digits.
LEAST = 0.1
# A printed factor is one of the robot's own if it rounds to the same: digits that formulas are written with.
_DIGITS = 4
_PART = re.compile(r"\s*([+-])?\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*\*?\s*)?([A-Za-z]+\d+)\s*")


@dataclass(frozen=True, eq=False)
class Coefficients:
    """C theta = y, with deviations.    formulas: (k,).    C: (k, p).    value, std: (k,)."""

    formulas: tuple[str, ...]
    C: Float
    value: Float
    std: Float

    def __post_init__(self) -> None:
        k = len(self.formulas)
        object.__setattr__(self, "C", locked(self.C, (k, None), "C"))
        for name in ("value", "std"):
            object.__setattr__(self, name, locked(getattr(self, name), (k,), name))


@dataclass(frozen=True, eq=False)
class FeasibleCoefficients:
    """Full parameters behind coefficients.    misfit: (k,) C theta - y.    strength: of the prior, 0 = none."""

    robot: RobotModel
    terms: Terms
    coefficients: Coefficients
    found: Feasible | Penalised
    misfit: Float
    strength: float

    @property
    def cost(self) -> float:
        """Sum of the squared misfits, phi of Gaz et al. 2019."""
        return float(np.sum(self.misfit**2))


def feasible_from_coefficients(
    robot: RobotModel, coefficients: Coefficients, terms: Terms | None = None, fit: FeasibleFit | None = None
) -> FeasibleCoefficients:
    """Min sum ((C theta - y) / std)^2 + strength distance(theta, prior) under the constraints of a feasible fit.

    terms: rigid bodies without it.    fit: constraints, prior and strength ("l-curve" may choose it).
    Raises SolverError naming constraints in conflict, UsageError for a strength that needs a log.
    Source: Gaz et al. 2019, section V, as one convex program.
    """
    chosen, how = terms or Terms((RigidBody(),)), fit or FeasibleFit(strength=1.0)
    columns = chosen.columns(robot)
    if how.strength == "held-out":
        raise UsageError(
            "prior-strength", found="strength = 'held-out' without a log", expected="a number or 'l-curve'"
        )
    prior = np.array([column.prior for column in columns])
    spread = parameter_spread(robot, columns, np.full(len(columns), np.nan))
    A = coefficients.C / coefficients.std[:, None]
    y = coefficients.value / coefficients.std

    def solved(strength: float) -> Feasible:
        return feasible_parameters(
            A, y, columns, how.constraints(), prior, spread, strength, Distance(how.prior)
        )

    def point(strength: float) -> tuple[float, float]:
        one = solved(strength)
        return one.cost, one.distance

    strength = l_curve_strength(point).strength if how.strength == "l-curve" else float(how.strength)
    found = solved(strength)
    misfit = coefficients.C @ found.parameters - coefficients.value
    return FeasibleCoefficients(robot, chosen, coefficients, found, misfit, strength)


def read_coefficients(path: str | Path, robot: RobotModel, terms: Terms | None = None) -> Coefficients:
    """Reads a CSV file with the columns `formula` and `value`, and `std` or `half_width_95` if there.

    A formula is a sum such as "Iyy2 + Izz1 - 0.0068 m4" of this robot's parameters. One that is a base parameter of the
    robot with its factors rounded to four digits is taken with exact factors.
    Raises InputErrors with the lines of all that is wrong.
    """
    chosen = terms or Terms((RigidBody(),))
    columns = chosen.columns(robot)
    text = read_bytes(path, "a CSV file of coefficients", MAX_BYTES).decode("utf-8-sig", "replace")
    table = csv.DictReader(io.StringIO(text))
    missing = {"formula", "value"} - set(table.fieldnames or ())
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column {' and '.join(sorted(missing))}",
            expected="formula, value, and std or half_width_95",
            place=Place(file=str(path), line=1),
        )
    errors: list[DynidError] = []
    formulas, rows, values, deviations = [], [], [], []
    for line in _lines(table, Path(path)):
        place = Place(file=str(path), line=table.line_num)
        try:
            rows.append(_row(line["formula"] or "", columns, place))
            values.append(_number(line, "value", place))
            deviations.append(_deviation(line, place))
            formulas.append(line["formula"])
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors[:50])
    if not rows:
        raise InputError(
            "no-rows", found="no coefficient", expected="one a line", place=Place(file=str(path))
        )
    y = np.array(values)
    usual = DEVIATION * max(float(np.sqrt(np.mean(y**2))), np.finfo(np.float64).tiny)
    std = np.array([usual if math.isnan(one) else max(one, LEAST * usual) for one in deviations])
    return Coefficients(tuple(formulas), _exact(np.array(rows), robot, chosen), y, std)


def _lines(table: csv.DictReader[str], path: Path) -> Iterator[dict[str, str]]:
    try:
        yield from table
    except csv.Error as error:
        place = Place(file=str(path), line=table.line_num)
        raise InputError("csv", found=str(error), expected="CSV", place=place) from error


def _row(formula: str, columns: Sequence[Column], place: Place) -> Float:
    row, position = np.zeros(len(columns)), 0
    names = {column.name: i for i, column in enumerate(columns)}
    while position < len(formula):
        part = _PART.match(formula, position)
        if part is None or (position > 0 and part[1] is None) or part[3] not in names:
            at = formula[position : position + 30].strip()
            raise InputError(
                "formula",
                found=f"'{at}' in the formula '{formula[:60]}'",
                expected="a sum of parameters such as 'Iyy2 + Izz1 - 0.0068 m4'",
                do="dynid inspect shows the robot's base parameters",
                place=place,
            )
        row[names[part[3]]] += float(part[2] or 1.0) * (-1.0 if part[1] == "-" else 1.0)
        position = part.end()
    if not row.any():
        raise InputError("formula", found="an empty formula", expected="a sum of parameters", place=place)
    return row


def _number(line: dict[str, str], key: str, place: Place) -> float:
    try:
        value = number_of(line[key])
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise InputError("number", found=f"{key} = '{line[key]}'", expected="a finite number", place=place)
    return value


def _deviation(line: dict[str, str], place: Place) -> float:
    for key, share in (("std", 1.0), ("half_width_95", 0.5)):
        if line.get(key):
            value = share * _number(line, key, place)
            # What a noiseless model reveals has no deviation to speak of.
            return value if value > 0 else math.nan
    return math.nan


def _exact(C: Float, robot: RobotModel, terms: Terms) -> Float:
    B = structural_base(robot, terms, TorqueRows()).B
    rounded = {tuple(_rounded(row)): row for row in B}
    return np.array([rounded.get(tuple(_rounded(row)), row) for row in C])


def _rounded(row: Float) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in row]


def retrieval_lines(result: FeasibleCoefficients) -> list[str]:
    """The result in words: cost, worst coefficients, bodies and what holds them."""
    found, theta = result.found, result.found.parameters
    count = len(result.misfit)
    how = f"prior of strength {result.strength:g}"
    if isinstance(found, Penalised):
        met = found.costs[np.isfinite(found.costs)]
        runs = f"{len(found.costs)} run{'s' * (len(found.costs) > 1)}"
        how = f"best of {runs}, median {float(np.median(met)):.4g}, {len(met)} fulfil every rule"
    lines = [f"{count} coefficients, sum of squared misfits {result.cost:.4g}, {how}"]
    for i in np.argsort(-np.abs(result.misfit))[:5]:
        value = result.coefficients.value[i]
        lines.append(
            f"  off by {result.misfit[i]: .3g} of {value: .4g}  {result.coefficients.formulas[i][:80]}"
        )
    lines.append("body, mass kg, centre of mass m, least eigenvalue of the pseudo-inertia")
    for i, (name, least) in enumerate(zip(result.robot.body_names, found.least_eigenvalue, strict=True)):
        m, *h = theta[10 * i : 10 * i + 4]
        centre = ", ".join(f"{x / m: .4f}" for x in h)
        lines.append(f"  {name:<20} {m:8.4f}   {centre}   {least:.2g}")
    if isinstance(found, Feasible):
        lines.append("held by: " + (", ".join(found.active) or "no constraint"))
    return lines


def parameters_csv(result: FeasibleCoefficients) -> bytes:
    """Name, unit and value of every parameter."""
    columns = result.terms.columns(result.robot)
    lines = ["name,unit,value"]
    lines += [
        f"{c.name},{c.unit},{float(v)!r}" for c, v in zip(columns, result.found.parameters, strict=True)
    ]
    return ("\n".join(lines) + "\n").encode()


def terms_of(rotors: bool) -> Terms:
    """Rigid bodies, with rotor inertias on request."""
    return RigidBody() + RotorInertia() if rotors else Terms((RigidBody(),))
