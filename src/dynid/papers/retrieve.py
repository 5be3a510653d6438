"""Physically consistent links from dynamic coefficients: a table of coefficients in, full parameters out."""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np

from dynid.base import (
    DynidError,
    Float,
    InputError,
    InputErrors,
    Place,
    SolverError,
    UsageError,
    dataclass,
    locked,
    meant,
    number_of,
    read_bytes,
)
from dynid.estimate import FeasibleFit, parameter_spread
from dynid.factor import structural_base
from dynid.feasible import (
    RULES,
    ColumnBounds,
    Distance,
    Feasible,
    PhysicalBodies,
    all_conditions,
    body_columns,
    feasible_parameters,
)
from dynid.papers.annealing import COORDINATES, Annealing, Box, annealed_parameters
from dynid.papers.penalty import Penalised, Rule
from dynid.robot import RobotModel
from dynid.rows import TorqueRows
from dynid.terms import Column, Of, RigidBody, RotorInertia, Terms

# Bytes of a table: many times more than any robot needs.
MAX_BYTES = 4_000_000
# Standard deviation of a coefficient without one, relative to the r.m.s. of the table.
DEVIATION = 1e-3
# Least standard deviation relative to that: coefficients of a noiseless model have fifteen digits, and would dominate.
LEAST = 0.1
# Digits of printed formulas: a factor that rounds to the same is replaced by the robot's exact one.
_DIGITS = 4
_PART = re.compile(r"\s*([+-])?\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?|\.\d+)\s*\*?\s*)?([A-Za-z]+\d+)\s*")


@dataclass(frozen=True, eq=False)
class Coefficients:
    """Dynamic coefficients, C theta = y.

    Parameters
    ----------
    formulas : tuple of str, length k
        Formulas of the coefficients.
    C : ndarray, shape (k, n_parameters)
        Factors of the parameters.
    value, std : ndarray, shape (k,)
        y and its standard deviations.

    """

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
    """Full parameters found for coefficients.    misfit: (k,) C theta - y.    strength: of the prior, 0 = none."""

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

    Parameters
    ----------
    robot : RobotModel
        The robot.
    coefficients : Coefficients
        C, y and std.
    terms : Terms, optional
        The model; rigid bodies without it.
    fit : FeasibleFit, optional
        Constraints, prior and strength; "l-curve" may choose the strength.

    Returns
    -------
    FeasibleCoefficients
        Parameters and misfit.

    Raises
    ------
    SolverError
        If constraints exclude one another; it names them.
    UsageError
        For a strength that needs a log.

    References
    ----------
    Gaz et al. 2019, section V, as one convex program.

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

    distance = Distance.EUCLIDEAN if how.prior == "euclidean" else Distance.ENTROPIC

    def solved(strength: float) -> Feasible:
        return feasible_parameters(A, y, columns, how.constraints(), prior, spread, strength, distance)

    def point(strength: float) -> tuple[float, float]:
        trial = solved(strength)
        return trial.cost, trial.distance

    strength = l_curve_strength(point) if how.strength == "l-curve" else float(how.strength)
    solution = solved(strength)
    misfit = coefficients.C @ solution.parameters - coefficients.value
    return FeasibleCoefficients(robot, chosen, coefficients, solution, misfit, strength)


# Strengths of the prior that the L-curve is computed at, in variances of one coefficient.
GRID = tuple(float(10.0**k) for k in range(-1, 6))


def l_curve_strength(
    solve: Callable[[float], tuple[float, float]], strengths: Sequence[float] = GRID
) -> float:
    """Corner of the L-curve, log cost over log distance from the prior: the point farthest below the chord of its ends.

    The logarithms are scaled to the unit square. The chord replaces the curvature, which noise in a few points would
    move.

    Parameters
    ----------
    solve : callable
        Cost ||A theta - y||^2 and distance of a strength.
    strengths : sequence of float
        Strengths to try.

    Returns
    -------
    float
        Strength.

    Raises
    ------
    SolverError
        If fewer than three strengths have a solution.
    UsageError
        If fewer than three strengths are given.

    References
    ----------
    Hansen and O'Leary 1993.

    """
    if len(strengths) < 3:
        raise UsageError("l-curve", found=f"{len(strengths)} strengths", expected="at least 3")
    solved, points = list[float](), list[tuple[float, float]]()
    for strength in sorted(strengths):
        try:
            points.append(solve(strength))
            solved.append(strength)
        except SolverError as error:
            # Constraints without a solution have none for any strength.
            if error.identifier == "constraints-in-conflict":
                raise
    if len(solved) < 3:
        raise SolverError(
            "l-curve",
            found=f"solutions for {len(solved)} of {len(strengths)} strengths",
            expected="at least 3 points of the curve",
            do="widen the constraints, or set strength to a number",
        )
    curve = np.log(np.maximum(points, np.finfo(np.float64).tiny))
    span = np.ptp(curve, axis=0)
    x, y = ((curve - curve.min(axis=0)) / np.where(span > 0, span, 1.0)).T
    # The scaled chord runs from (0, 1) to (1, 0): both ends lie on x + y = 1.
    return solved[int(np.argmax(1.0 - x - y))]


def read_coefficients(path: str | Path, robot: RobotModel, terms: Terms | None = None) -> Coefficients:
    """Read a CSV file with the columns `formula` and `value`, and `std` or `half_width_95` if given.

    A formula is a sum such as "Iyy2 + Izz1 - 0.0068 m4" of this robot's parameters. If it is a base parameter of the
    robot with factors rounded to four digits, the exact factors are used.

    Parameters
    ----------
    path : str or Path
        The file.
    robot : RobotModel
        The robot.
    terms : Terms, optional
        The model; rigid bodies without it.

    Returns
    -------
    Coefficients
        The table.

    Raises
    ------
    InputErrors
        With the line of every error.

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
    std = np.array(
        [usual if math.isnan(deviation) else max(deviation, LEAST * usual) for deviation in deviations]
    )
    return Coefficients(tuple(formulas), _with_exact_factors(np.array(rows), robot, chosen), y, std)


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
            # A deviation of 0, from a noiseless model, is treated as unknown.
            return value if value > 0 else math.nan
    return math.nan


def _with_exact_factors(C: Float, robot: RobotModel, terms: Terms) -> Float:
    B = structural_base(robot, terms, TorqueRows()).B
    rounded = {tuple(_rounded(row)): row for row in B}
    return np.array([rounded.get(tuple(_rounded(row)), row) for row in C])


def _rounded(row: Float) -> list[float]:
    return [float(f"{value:.{_DIGITS}g}") for value in row]


def retrieval_lines(result: FeasibleCoefficients) -> list[str]:
    """Lines for the terminal: cost, largest misfits, links and active constraints."""
    solution, theta = result.found, result.found.parameters
    count = len(result.misfit)
    how = f"prior of strength {result.strength:g}"
    if isinstance(solution, Penalised):
        met = solution.costs[np.isfinite(solution.costs)]
        runs = f"{len(solution.costs)} run{'s' * (len(solution.costs) > 1)}"
        how = f"best of {runs}, median {float(np.median(met)):.4g}, {len(met)} fulfil every rule"
    lines = [f"{count} coefficients, sum of squared misfits {result.cost:.4g}, {how}"]
    for i in np.argsort(-np.abs(result.misfit))[:5]:
        value = result.coefficients.value[i]
        lines.append(
            f"  misfit {result.misfit[i]: .3g} of {value: .4g}  {result.coefficients.formulas[i][:80]}"
        )
    lines.append("link, mass kg, centre of mass m, smallest eigenvalue of the pseudo-inertia")
    for i, (name, least) in enumerate(zip(result.robot.body_names, solution.least_eigenvalue, strict=True)):
        m, *h = theta[10 * i : 10 * i + 4]
        centre = ", ".join(f"{x / m: .4f}" for x in h)
        lines.append(f"  {name:<20} {m:8.4f}   {centre}   {least:.2g}")
    if isinstance(solution, Feasible):
        lines.append("active constraints: " + (", ".join(solution.active) or "none"))
    return lines


def parameters_csv(result: FeasibleCoefficients) -> bytes:
    """CSV file with name, unit and value of every parameter."""
    columns = result.terms.columns(result.robot)
    lines = ["name,unit,value"]
    lines += [
        f"{c.name},{c.unit},{float(v)!r}" for c, v in zip(columns, result.found.parameters, strict=True)
    ]
    return ("\n".join(lines) + "\n").encode()


def terms_of(rotors: bool) -> Terms:
    """Rigid bodies, with rotor inertias on request."""
    return RigidBody() + RotorInertia() if rotors else Terms((RigidBody(),))


# Links from dynamic coefficients by Algorithm 1 of Gaz et al. 2019, for rules that are not convex.

# m: margin of a link's box around its joint and the next ones.
ROOM = 0.15
# Least mass relative to the largest: a link without mass has no centre.
LEAST_MASS = 1e-3
# Bounds of parameters other than links: relative to the robot file if it knows them, else absolute.
WIDE, UNKNOWN = 10.0, 1e3


def feasible_by_penalty(
    robot: RobotModel,
    coefficients: Coefficients,
    terms: Terms | None = None,
    fit: FeasibleFit | None = None,
    *,
    rules: Sequence[Rule] = (),
    box: Box | None = None,
    how: Annealing | None = None,
    progress: Callable[[float], None] | None = None,
) -> FeasibleCoefficients:
    """Min phi(p) + xi sum g(h(p)) within LB <= p <= UB, phi = sum ((C theta(p) - y) / std)^2 mean(std)^2.

    Coefficients of equal deviation have weight one, as in the paper.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    coefficients : Coefficients
        C, y and std.
    terms : Terms, optional
        The model; rigid bodies without it.
    fit : FeasibleFit, optional
        Its total mass, limits and further constraints become rules; its prior is not used.
    rules : sequence of Rule
        Further rules.
    box : Box, optional
        LB and UB; `default_box` without it.
    how : Annealing, optional
        Settings.
    progress : callable, optional
        Called with the share of runs that are complete.

    Returns
    -------
    FeasibleCoefficients
        Parameters and misfit.

    Raises
    ------
    SolverError
        If no run fulfils all rules; it names them.

    References
    ----------
    Gaz et al. 2019, Algorithm 1.

    """
    chosen, asked = terms or Terms((RigidBody(),)), fit or FeasibleFit(strength=1.0)
    columns = chosen.columns(robot)
    spread = parameter_spread(robot, columns, np.full(len(columns), np.nan))
    constraints = [
        constraint
        for constraint in asked.constraints()
        if not isinstance(constraint, PhysicalBodies | ColumnBounds)
    ]
    weight = float(np.sqrt(np.mean(coefficients.std**2))) / coefficients.std
    solution = annealed_parameters(
        coefficients.C * weight[:, None],
        coefficients.value * weight,
        columns,
        box or default_box(robot, columns, asked.total_mass),
        tuple(rules),
        all_conditions(constraints, columns, spread),
        how,
        progress=progress,
    )
    misfit = coefficients.C @ solution.parameters - coefficients.value
    return FeasibleCoefficients(robot, chosen, coefficients, solution, misfit, 0.0)


def default_box(
    robot: RobotModel, columns: Sequence[Column], total_mass: tuple[float, float] | None = None
) -> Box:
    """LB and UB from the robot: masses up to the total one, centres near the links, inertias that follow from these.

    A link's centre of mass lies within ROOM of the box around its joint and the next ones.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    columns : sequence of Column
        Columns of the model.
    total_mass : tuple of float, optional, kg
        Least and greatest total mass.

    Returns
    -------
    Box
        The bounds.

    Raises
    ------
    UsageError
        If neither a total mass nor the robot file bounds the masses.

    """
    masses = robot.inertia_prior[:, 0]
    heaviest = total_mass[1] if total_mass is not None else float(np.nansum(masses)) or np.inf
    if not np.isfinite(heaviest):
        raise UsageError(
            "box",
            found="masses without an upper bound",
            expected="a total mass, or masses in the robot file",
            do="give --total-mass LEAST MOST, or --box",
        )
    lower, upper = np.zeros(len(columns)), np.zeros(len(columns))
    for body, ten in enumerate(body_columns(tuple(columns))):
        near = robot.T_parent_joint[robot.parent == body, :3, 3]
        corners = np.vstack([np.zeros(3), near])
        low, high = corners.min(axis=0) - ROOM, corners.max(axis=0) + ROOM
        most = heaviest * float(((high - low) ** 2).sum()) / 4.0
        lower[ten] = [LEAST_MASS * heaviest, *low, 0, -most, 0, -most, -most, 0]
        upper[ten] = [heaviest, *high, *(most,) * 6]
    for j, column in enumerate(columns):
        if column.of is not Of.BODY:
            size = WIDE * abs(column.prior) if np.isfinite(column.prior) and column.prior else UNKNOWN
            lower[j], upper[j] = max(column.lower, -size), min(column.upper, size)
    return Box(lower, upper)


def read_box(path: Path, default: Box, columns: Sequence[Column]) -> Box:
    """Read a CSV file that changes bounds of a box: `name,least,most`, with names such as m3, cx3, Icxx3 or Ia3.

    m kg, cx, cy, cz m in the joint frame, Icxx, ..., Iczz kg m^2 about the centre of mass.

    Parameters
    ----------
    path : Path
        The file.
    default : Box
        The box whose bounds it changes.
    columns : sequence of Column
        Columns of the model.

    Returns
    -------
    Box
        The changed box.

    Raises
    ------
    InputErrors
        With the line of every error.

    """
    places = {column.name: j for j, column in enumerate(columns) if column.of is not Of.BODY}
    for body, ten in enumerate(body_columns(tuple(columns))):
        places |= {f"{name}{body + 1}": int(j) for name, j in zip(COORDINATES, ten, strict=True)}
    text = read_bytes(path, "a CSV file of bounds", MAX_BYTES).decode("utf-8-sig", "replace")
    table = csv.DictReader(io.StringIO(text))
    missing = {"name", "least", "most"} - set(table.fieldnames or ())
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column {' and '.join(sorted(missing))}",
            expected="name, least, most",
            place=Place(file=str(path), line=1),
        )
    lower, upper = np.array(default.lower), np.array(default.upper)
    errors: list[DynidError] = []
    for line in table:
        try:
            j, bounds = _bounds(line, places, Place(file=str(path), line=table.line_num))
            lower[j], upper[j] = bounds
        except InputError as error:
            errors.append(error)
    if errors:
        raise InputErrors(errors[:50])
    return Box(lower, upper)


def _bounds(line: dict[str, str], places: dict[str, int], place: Place) -> tuple[int, tuple[float, float]]:
    name = (line["name"] or "").strip()
    if name not in places:
        raise InputError(
            "unknown-parameter",
            found=f"'{name}'",
            expected="m1, cx1, cy1, cz1, Icxx1, ... or another parameter of the model",
            do=meant(name, tuple(places)),
            place=place,
        )
    try:
        least, most = number_of(line["least"]), number_of(line["most"])
    except (TypeError, ValueError):
        least, most = np.nan, np.nan
    if not (np.isfinite(least) and np.isfinite(most) and least <= most):
        raise InputError(
            "number",
            found=f"least = '{line['least']}', most = '{line['most']}'",
            expected="two finite numbers, the least first",
            place=place,
        )
    return places[name], (least, most)


def rules_by_name(names: Sequence[str]) -> tuple[Rule, ...]:
    """Registered rules by name; raises UsageError for an unknown one."""
    rules = []
    for name in names:
        if name not in RULES:
            raise UsageError(
                "unknown-rule",
                found=f"rule '{name}'",
                expected="one of " + (", ".join(RULES.names()) or "none, as no plug-in has registered one"),
                do=RULES.meant(name) or "name the module that registers it: --plugin my_rules.py",
            )
        rules.append(Rule(name, RULES[name]))
    return tuple(rules)
