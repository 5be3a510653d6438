"""Parameters of a known model, from samples of its mass matrix and gravity torque."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from dynid.base import Float, InputError, Place, UnfitDataError, UsageError, dataclass
from dynid.estimate import OLS, Estimate, Regression, regression_of
from dynid.factor import BaseMap, Block, Factor, Factors, stack, structural_base
from dynid.feasible import ColumnBounds, PhysicalBodies, feasible_parameters
from dynid.log import open_table
from dynid.robot import RobotModel
from dynid.rows import GRAVITY_TORQUE, MASS_MATRIX, InertiaRows, check_mass_matrices
from dynid.signals import Samples, poses_at_rest
from dynid.terms import RigidBody, Terms

__all__ = ["ParametersOfModel", "parameters_from_model", "read_model_table"]


Model = Callable[[Float], Float]

# Blocks into which the samples are divided.
BLOCKS = 10
# kg m^2 and kg: least eigenvalue of a pseudo-inertia; and weight of the prior, which decides only what the samples do
# not.
MARGIN, STRENGTH = 1e-6, 1e-10
# Rows that are read at once.
TABLE_ROWS = 65536


@dataclass(frozen=True, eq=False)
class ParametersOfModel:
    """Parameters that samples of a model determine.

    structural: base parameters that any samples could determine; estimate.base: those that these samples do.
    mass_error, gravity_error: largest misfit relative to the largest entry of M and of g; nan for what was not given.
    """

    robot: RobotModel
    terms: Terms
    structural: BaseMap
    estimate: Estimate
    mass_error: float
    gravity_error: float


def parameters_from_model(
    robot: RobotModel,
    q: Float,
    mass_matrix: Float | Model | None = None,
    gravity: Float | Model | None = None,
    terms: Terms | None = None,
    feasible: bool = False,
) -> ParametersOfModel:
    """Find the parameters of a model from samples of M(q) and g(q); nan = unknown entry.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    q : ndarray, shape (n_samples, n_joints), rad or m
        Positions.
    mass_matrix : ndarray, shape (n_samples, n_joints, n_joints), or callable, optional
        Samples, or a function that gives M (n, n) of one position (n,).
    gravity : ndarray, shape (n_samples, n_joints), or callable, optional
        Samples, or a function that gives g (n,) of one position (n,).
    terms : Terms, optional
        The model; rigid bodies without it.
    feasible : bool
        Whether every link must be physically consistent. Of the parameters that explain the samples equally well,
        those closest to the robot file are returned.

    Returns
    -------
    ParametersOfModel
        Parameters and misfit.

    Raises
    ------
    UsageError
        Without M and g, or for wrong shapes.
    UnfitDataError
        If a matrix is no mass matrix (with its row), or there are too few samples.

    References
    ----------
    Gaz et al. 2019, reverse engineering of a controller's model.

    """
    chosen = terms or Terms((RigidBody(),))
    mass_matrix, gravity = _sampled(mass_matrix, q), _sampled(gravity, q)
    rows = InertiaRows(mass=mass_matrix is not None, gravity=gravity is not None)
    samples = _samples(robot, q, mass_matrix, gravity)
    if mass_matrix is not None:
        check_mass_matrices(mass_matrix)
    structural = structural_base(robot, chosen, rows)
    factors = _factors(robot, chosen, rows, structural, samples)
    regression = regression_of(robot, chosen, structural, factors)
    estimate = OLS().fit(regression)
    if feasible:
        estimate = _feasible(regression, estimate)
    mass_error, gravity_error = _errors(robot, chosen, samples, estimate.full_vector, rows)
    return ParametersOfModel(robot, chosen, structural, estimate, mass_error, gravity_error)


def read_model_table(path: str | Path, robot: RobotModel) -> tuple[Float, Float | None, Float | None]:
    """Read q (T, n), M (T, n, n) and g (T, n) from columns q_<joint>, M_<joint>_<joint> and g_<joint>; None = absent.

    Raises InputError if positions are missing, or the table has neither M nor g.
    """
    table = open_table(path)
    names, n = robot.joint_names, robot.n
    place = Place(file=str(path))
    missing = [f"q_{name}" for name in names if f"q_{name}" not in table.column_names]
    if missing:
        raise InputError(
            "missing-column",
            found=f"no column {', '.join(missing)}",
            expected="q_<joint> of every joint",
            place=place,
        )
    entries = {f"M_{a}_{b}": (i, j) for i, a in enumerate(names) for j, b in enumerate(names)}
    entries = {name: at for name, at in entries.items() if name in table.column_names}
    torques = {f"g_{a}": i for i, a in enumerate(names) if f"g_{a}" in table.column_names}
    if not entries and not torques:
        raise InputError(
            "missing-column",
            found="neither M_<joint>_<joint> nor g_<joint>",
            expected="entries of the mass matrix, gravity torques, or both",
            place=place,
        )
    wanted = [*(f"q_{name}" for name in names), *entries, *torques]
    parts = list(table.batches(tuple(wanted), TABLE_ROWS))
    data = {
        name: np.concatenate([np.asarray(part[name], dtype=np.float64) for part in parts]) for name in wanted
    }
    T = len(data[wanted[0]])
    M, g = np.full((T, n, n), np.nan), np.full((T, n), np.nan)
    for name, (i, j) in entries.items():
        M[:, i, j] = data[name]
    for name, i in torques.items():
        g[:, i] = data[name]
    q = np.stack([data[f"q_{name}"] for name in names], axis=1)
    return q, M if entries else None, g if torques else None


def _feasible(regression: Regression, free: Estimate) -> Estimate:
    # Samples of a model have no noise, so errors are weighted relative to all samples.
    b = regression.base.rank
    R = stack(regression.factors.total, regression.base.independent, np.ones(len(regression.factors.total)))
    R = R[:b] / np.linalg.norm(R[:, b])
    solution = feasible_parameters(
        R[:, :b] @ regression.base.B,
        R[:, b],
        regression.columns,
        [PhysicalBodies(MARGIN), ColumnBounds()],
        np.array([column.prior for column in regression.columns]),
        regression.spread,
        STRENGTH,
    )
    value = regression.base.reduce(solution.parameters)
    return replace(free, method="feasible", value=value, parameters=solution.parameters)


def _sampled(model: Float | Model | None, q: Float) -> Float | None:
    return np.stack([np.asarray(model(position)) for position in q]) if callable(model) else model


def _samples(robot: RobotModel, q: Float, M: Float | None, g: Float | None) -> Samples:
    T, n = len(q), robot.n
    for name, values, shape in (("q", q, (T, n)), ("M", M, (T, n, n)), ("g", g, (T, n))):
        if values is not None and np.shape(values) != shape:
            raise UsageError(
                "array-shape", found=f"{name} of shape {np.shape(values)}", expected=f"shape {shape}"
            )
    bad = np.flatnonzero(~np.isfinite(q).all(axis=1))
    if len(bad):
        raise UnfitDataError(
            "missing-signal",
            found="no position",
            expected="a number for every joint",
            place=Place(row=int(bad[0])),
        )
    extra = {}
    if M is not None:
        # A mass matrix is symmetric: an entry known on one side is known on both.
        extra[MASS_MATRIX] = np.where(np.isfinite(M), M, M.transpose(0, 2, 1))
    if g is not None:
        extra[GRAVITY_TORQUE] = np.asarray(g)
    return poses_at_rest(q, extra=extra)


def _factors(
    robot: RobotModel, terms: Terms, rows: InertiaRows, structural: BaseMap, samples: Samples
) -> Factors:
    equations = rows.equations(robot, terms, samples, structural.mask)
    blocks = [
        Block(
            "model",
            0,
            float(part[0]),
            float(part[-1]),
            tuple(
                Factor.from_panel(columns, np.ascontiguousarray(panel[:, part]))
                for columns, panel in zip(equations.columns, equations.panels, strict=True)
            ),
        )
        for part in np.array_split(np.arange(len(samples)), min(BLOCKS, len(samples)))
        if len(part)
    ]
    return Factors(rows.groups(robot), len(structural.names), tuple(blocks))


def _errors(
    robot: RobotModel, terms: Terms, samples: Samples, theta: Float, rows: InertiaRows
) -> tuple[float, float]:
    equations = rows.equations(robot, terms, samples, theta != 0)
    groups = rows.groups(robot)
    worst = {"M": [0.0, 0.0], "g": [0.0, 0.0]}
    for group, columns, panel in zip(groups, equations.columns, equations.panels, strict=True):
        miss = np.abs(theta[columns] @ panel[:-1] - panel[-1]).max(initial=0.0)
        kind = worst[group[0]]
        kind[0], kind[1] = max(kind[0], float(miss)), max(kind[1], float(np.abs(panel[-1]).max(initial=0.0)))
    errors = [miss / size if size > 0 else float("nan") for miss, size in (worst["M"], worst["g"])]
    return errors[0], errors[1]
