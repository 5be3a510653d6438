"""Bodies from dynamic coefficients by Algorithm 1 of Gaz et al. 2019, for rules that no convex program holds."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from dynid.base.errors import DynidError, InputError, InputErrors, Place, UsageError
from dynid.base.input_file import read_bytes
from dynid.base.named_options import meant
from dynid.base.numbers import number_of
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.prior import parameter_spread
from dynid.feasible.annealing import COORDINATES, Annealing, Box, annealed_parameters
from dynid.feasible.bodies import body_columns
from dynid.feasible.catalogue import RULES
from dynid.feasible.constraints import ColumnBounds, PhysicalBodies, all_conditions
from dynid.feasible.penalty import Rule
from dynid.robot.model import RobotModel
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Column, Of, Terms
from dynid.verbs.retrieve import MAX_BYTES, Coefficients, FeasibleCoefficients

# A link's box holds its joint and the next ones, and this much more on every side, m.
ROOM = 0.15
# Least mass over the greatest: a body without mass has no centre.
LEAST_MASS = 1e-3
# Bounds of what is no body, over its description, where the description knows it and where it does not.
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

    Coefficients of equal deviation weigh one each, as in the paper.
    fit: its total mass, limits and further constraints are rules here; its prior has no part in this method.
    rules: any others.    box: LB and UB; None = `default_box`.
    Raises SolverError naming the rules that no run fulfils.
    Source: Gaz et al. 2019, Algorithm 1.
    """
    chosen, asked = terms or Terms((RigidBody(),)), fit or FeasibleFit(strength=1.0)
    columns = chosen.columns(robot)
    spread = parameter_spread(robot, columns, np.full(len(columns), np.nan))
    held = [one for one in asked.constraints() if not isinstance(one, PhysicalBodies | ColumnBounds)]
    weight = float(np.sqrt(np.mean(coefficients.std**2))) / coefficients.std
    found = annealed_parameters(
        coefficients.C * weight[:, None],
        coefficients.value * weight,
        columns,
        box or default_box(robot, columns, asked.total_mass),
        tuple(rules),
        all_conditions(held, columns, spread),
        how,
        progress=progress,
    )
    misfit = coefficients.C @ found.parameters - coefficients.value
    return FeasibleCoefficients(robot, chosen, coefficients, found, misfit, 0.0)


def default_box(
    robot: RobotModel, columns: Sequence[Column], total_mass: tuple[float, float] | None = None
) -> Box:
    """LB and UB from the description: masses up to the total one, centres near the links, inertias that follow.

    A link's centre lies within ROOM of the box that holds its joint and the next ones.
    Raises UsageError where neither a total mass nor the description bounds the masses.
    """
    masses = robot.inertia_prior[:, 0]
    heaviest = total_mass[1] if total_mass is not None else float(np.nansum(masses)) or np.inf
    if not np.isfinite(heaviest):
        raise UsageError(
            "box",
            found="no bound of the masses",
            expected="a total mass",
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
    """A box whose bounds a CSV file changes: `name,least,most`, with names such as m3, cx3, Icxx3 or Ia3.

    m kg, cx, cy, cz m in the joint frame, Icxx, ..., Iczz kg m^2 about the centre of mass.
    Raises InputErrors with the lines of all that is wrong.
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
    """Registered rules; raises UsageError for an unknown one."""
    found = []
    for name in names:
        if name not in RULES:
            raise UsageError(
                "unknown-rule",
                found=f"rule '{name}'",
                expected="one of " + (", ".join(RULES.names()) or "none, as no plug-in has registered one"),
                do=RULES.meant(name) or "name the module that registers it: --plugin my_rules.py",
            )
        found.append(Rule(name, RULES[name]))
    return tuple(found)
