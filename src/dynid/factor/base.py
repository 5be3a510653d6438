"""Base parameters: the combinations of parameters that equations can determine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked, locked_int
from dynid.base.errors import UnfitDataError
from dynid.base.records import dataclass
from dynid.factor.factor import Factors, group_scale, stack
from dynid.kernel import solve_triangular
from dynid.robot.model import RobotModel
from dynid.rows.rows import Rows, posed, two_encoders
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

# Distances of a column from the span of others that count as dependent: from exact states, and from data.
STRUCTURAL_TOLERANCE = 1e-9
DATA_TOLERANCE = 1e-6
# A column smaller than this share of the largest of its kind is rounding.
ROUNDING = 1e-10
# Digits of coefficients in formulas, and the distance from 1 at which none is written.
DIGITS, ONE = 4, 1e-8
# s: random states lie within this time, so that changes in time show on any clock.
LONG = 1e6


class Category(StrEnum):
    """What equations can determine about one parameter."""

    IDENTIFIABLE = "identifiable"
    COMBINATION = "only in combination"
    NOT_IDENTIFIABLE = "not identifiable"


@dataclass(frozen=True, eq=False)
class BaseMap:
    """Linear map from parameters to base parameters, beta = B theta, with W theta = W[:, independent] beta.

    Attributes
    ----------
    names : tuple of str
        Names of the p parameters.
    independent : ndarray of int, shape (b,)
        Parameters whose columns are kept.
    B : ndarray, shape (b, p)
        Map; identity on the independent columns.
    singular_values : ndarray, shape (c,)
        Singular values of the column-normalised matrix, descending.
    gap : float
        Least accepted over greatest rejected distance of a column from the span of those before it.
    scale : ndarray, shape (p,)
        Root mean square of the columns.

    References
    ----------
    Gautier and Khalil 1990; numerical form Gautier 1991.

    """

    names: tuple[str, ...]
    independent: Int
    B: Float
    singular_values: Float
    gap: float
    scale: Float

    def __post_init__(self) -> None:
        b, p = len(self.independent), len(self.names)
        object.__setattr__(self, "independent", locked_int(self.independent, (b,), "independent"))
        object.__setattr__(self, "B", locked(self.B, (b, p), "B"))
        object.__setattr__(self, "singular_values", locked(self.singular_values, (None,), "singular_values"))
        object.__setattr__(self, "scale", locked(self.scale, (p,), "scale"))

    @property
    def rank(self) -> int:
        """Number of base parameters b."""
        return len(self.independent)

    @property
    def mask(self) -> Bool:
        """Parameters (p,) whose column is independent."""
        mask = np.zeros(len(self.names), dtype=np.bool_)
        mask[self.independent] = True
        return mask

    @property
    def condition(self) -> float:
        """Condition number of the column-normalised independent columns."""
        return float(self.singular_values[0] / self.singular_values[-1])

    def reduce(self, theta: Float) -> Float:
        """Base parameters beta = B theta, (b,)."""
        return np.asarray(self.B @ theta)

    def lift(self, beta: Float, prior: Float | None = None, spread: Float | None = None) -> Float:
        """Parameters with given base parameters that are closest to a prior, min ||(theta - prior) / spread||.

        Parameters
        ----------
        beta : ndarray, shape (b,)
            Base parameters.
        prior : ndarray, shape (p,), optional
            Prior; nan or None = 0. Parameters without any effect keep it.
        spread : ndarray, shape (p,), optional
            Typical sizes > 0; None = 1.

        Returns
        -------
        ndarray, shape (p,)
            Parameters theta with B theta = beta.

        """
        centre = np.zeros(len(self.names)) if prior is None else np.where(np.isnan(prior), 0.0, prior)
        width = np.where(np.any(self.B, axis=0), 1.0 if spread is None else spread, 0.0)
        Q, R = np.linalg.qr((self.B * width).T)
        theta = centre
        # Spreads of very different size cost digits in one solution; each further step restores them.
        for _ in range(3):
            step = solve_triangular(R, beta - self.B @ theta, transposed=True)
            theta = theta + width * (Q @ step)
        return theta

    def null_space(self) -> Float:
        """Basis (p, p - b) of the directions that change no equation, one column per dependent parameter."""
        dependent = np.flatnonzero(~self.mask)
        N = np.zeros((len(self.names), len(dependent)))
        N[self.independent] = -self.B[:, dependent]
        N[dependent, np.arange(len(dependent))] = 1.0
        return N

    def categories(self) -> tuple[Category, ...]:
        """Category of every parameter, (p,)."""
        invisible: Bool = ~np.any(self.B, axis=0)
        alone: Bool = self.mask & ~np.any(self.null_space(), axis=1)
        return tuple(
            Category.NOT_IDENTIFIABLE
            if invisible[j]
            else Category.IDENTIFIABLE
            if alone[j]
            else Category.COMBINATION
            for j in range(len(self.names))
        )

    def formulas(self) -> tuple[str, ...]:
        """Each base parameter as a formula, for example "Izz1 + Iyy2 + 0.1067 m4"."""
        return self._formulas

    @cached_property
    def _formulas(self) -> tuple[str, ...]:
        return tuple(
            _formula(row, int(lead), self.names)
            for row, lead in zip(self.B.tolist(), self.independent, strict=True)
        )

    def compose(self, inner: BaseMap) -> BaseMap:
        """Map from the parameters of `inner`, where this map was found among the independent columns of `inner`."""
        return BaseMap(
            names=inner.names,
            independent=inner.independent[self.independent],
            B=self.B @ inner.B,
            singular_values=self.singular_values,
            gap=self.gap,
            scale=inner.scale,
        )


def base_of_matrix(W: Float, names: Sequence[str], tolerance: float, kinds: Sequence[str] = ()) -> BaseMap:
    """Base parameters of equations with matrix W; each independent column depends on none before it.

    Parameters
    ----------
    W : ndarray, shape (rows, p)
        Matrix.
    names : sequence of str
        Names of the parameters.
    tolerance : float
        A column is dependent if, scaled to unit norm, its distance from the span of those before is below this. A
        column smaller than 1e-10 of the largest of its kind is rounding, and counts as zero.
    kinds : sequence of str
        Kind (p,) of each column, within which sizes are compared; () = all columns. A rotor behind a gear makes columns
        many million times those of a link, since it has another unit.

    Returns
    -------
    BaseMap
        Map to base parameters.

    Raises
    ------
    UnfitDataError
        If no column differs from zero.

    """
    norm = np.linalg.norm(W, axis=0)
    kind = np.array(kinds if len(kinds) else [""] * len(norm))
    largest = np.array([norm[kind == kind_name].max() for kind_name in kind])
    scale = np.where(norm > ROUNDING * largest, norm, 0.0)
    X = np.where(scale > 0, W, 0.0) / np.where(scale > 0, scale, 1.0)
    basis = np.zeros((W.shape[0], 0))
    independent: list[int] = []
    accepted, rejected = 1.0, 0.0
    for j in range(W.shape[1]):
        x = X[:, j]
        for _ in range(2):
            x = x - basis @ (basis.T @ x)
        distance = float(np.linalg.norm(x))
        if distance > tolerance:
            independent.append(j)
            basis = np.column_stack([basis, x / distance])
            accepted = min(accepted, distance)
        else:
            rejected = max(rejected, distance)
    if not independent:
        raise UnfitDataError(
            "no-excitation",
            found="no parameter has any effect on the equations",
            expected="motion or gravity that loads at least one joint",
            do="record a motion of all joints",
        )
    chosen = X[:, independent]
    U, s, Vt = np.linalg.svd(chosen, full_matrices=False)
    C = (Vt.T / s) @ (U.T @ X)
    C = C * np.where(scale > 0, scale, 1.0) / scale[independent][:, None]
    B = np.where(np.abs(C) * scale[independent][:, None] < 1e-9 * np.where(scale > 0, scale, 1.0), 0.0, C)
    B[:, independent] = np.eye(len(independent))
    return BaseMap(
        names=tuple(names),
        independent=np.array(independent),
        B=_without_rounding(B),
        singular_values=s,
        gap=accepted / rejected if rejected > 0 else np.inf,
        scale=norm / np.sqrt(len(W)),
    )


def structural_base(robot: RobotModel, terms: Terms, rows: Rows, seed: int = 0) -> BaseMap:
    """Base parameters that some motion could determine, found from random states of the robot.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    terms : Terms
        Terms of the model.
    rows : Rows
        Row scheme.
    seed : int
        Seed of the random states.

    Returns
    -------
    BaseMap
        Map over all parameters of the terms.

    """
    columns = terms.columns(robot)
    names, absent = [column.name for column in columns], np.array([column.absent for column in columns])
    count = max(64, -(-4 * len(names) // min(robot.n, len(rows.groups(robot)))))
    samples = posed(
        rows,
        robot,
        random_states(robot, count, seed, terms.channels(), two_encoders(rows, robot), terms.clock()),
    )
    equations = rows.equations(robot, terms, samples, np.ones(len(names), dtype=np.bool_))
    W = np.concatenate(
        [
            _scatter(panel[:-1], places, len(names))
            for panel, places in zip(equations.panels, equations.columns, strict=True)
        ]
    )
    kinds = [column.term for column in columns]
    return base_of_matrix(np.where(absent, 0.0, W), names, STRUCTURAL_TOLERANCE, kinds)


def random_states(
    robot: RobotModel,
    count: int,
    seed: int,
    channels: Sequence[str] = (),
    two_encoders: Sequence[int] = (),
    clock: tuple[float, float] | None = None,
) -> Samples:
    """Random motion: positions in +-pi rad (+-1 m), velocities and accelerations of order one.

    Joints that are moved through a linkage stay within their limits.

    Parameters
    ----------
    robot : RobotModel
        Robot.
    count : int
        Number of states.
    seed : int
        Seed.
    channels : sequence of str
        Names of log channels to include.
    two_encoders : sequence of int
        Joints whose motors deviate from their links by about 0.1 rad.
    clock : tuple of two floats, s, optional
        First and last time; None = within days.

    Returns
    -------
    Samples
        States.

    """
    rng = np.random.default_rng(seed)
    q = rng.uniform(-np.pi, np.pi, (count, robot.n))
    q[:, np.array(robot.prismatic)] /= np.pi
    for j in np.flatnonzero([linkage is not None for linkage in robot.drive.linkages]):
        q[:, j] = rng.uniform(robot.limits.lower[j], robot.limits.upper[j], count)
    q = robot.drive.within_reach(q)
    samples = Samples.from_motion(
        q,
        rng.normal(0, 2, (count, robot.n)),
        rng.normal(0, 4, (count, robot.n)),
        rng.normal(0, 1, (count, robot.n)),
    )
    extra = {name: rng.normal(0, 1, count) for name in channels}
    warm = np.random.default_rng(seed + 1).normal(30, 5, (count, robot.n))
    samples = replace(samples, temperature=warm)
    samples = replace(samples, t=np.random.default_rng(seed).uniform(*(clock or (0.0, LONG)), count))
    if not len(two_encoders):
        return replace(samples, extra=extra)
    theta, dtheta, ddtheta = np.array(q), np.array(samples.dq), np.array(samples.ddq)
    for values, size in ((theta, 0.1), (dtheta, 1.0), (ddtheta, 2.0)):
        values[:, two_encoders] += rng.normal(0, size, (count, len(two_encoders)))
    return replace(samples, extra=extra, theta=theta, dtheta=dtheta, ddtheta=ddtheta)


def _scatter(lines: Float, columns: Int, width: int) -> Float:
    W = np.zeros((lines.shape[1], width))
    W[:, columns] = lines.T
    return W


def _without_rounding(B: Float) -> Float:
    rounded = np.round(B)
    return np.where(np.abs(B - rounded) < 1e-10, rounded, B)


def _formula(row: Sequence[float], lead: int, names: Sequence[str]) -> str:
    text = names[lead]
    for j, value in enumerate(row):
        if j == lead or value == 0.0:
            continue
        factor = "" if abs(abs(value) - 1.0) <= ONE else f"{abs(value):.{DIGITS}g} "
        text += f" {'+' if value > 0 else '-'} {factor}{names[j]}"
    return text


# Base parameters that the data determine, and the influence of each parameter.


def influence(factors: Factors, base: BaseMap | None = None) -> Float:
    """Root mean square (p,) of each column over that of the torque it acts on, greatest over the groups; nan = none.

    Parameters
    ----------
    factors : Factors
        Equations.
    base : BaseMap, optional
        Map onto columns of the factors, with which dependent columns are measured too.

    """
    relative = np.full(factors.parameter_count, np.nan)
    place = {} if base is None else {int(c): i for i, c in enumerate(base.independent)}
    for factor in factors.total:
        torque = np.sqrt(factor.target_square)
        if not torque > 0:
            continue
        R, columns = factor.R[:, :-1], factor.columns
        if base is not None:
            is_base = np.array([int(c) in place for c in columns], dtype=np.bool_)
            R = R[:, is_base] @ base.B[[place[int(c)] for c in columns[is_base]]]
            columns = np.arange(factors.parameter_count)
        norms = np.linalg.norm(R, axis=0)
        relative[columns] = np.fmax(relative[columns], norms / torque)
    return np.where(relative > 0, relative, np.nan)


def data_base(structural: BaseMap, factors: Factors) -> BaseMap:
    """Base parameters that the data determine, as a map from all parameters.

    Each group is scaled by its own torque, so that a small wrist joint has the same weight as a shoulder.
    """
    present = np.unique(np.concatenate([factor.columns for factor in factors.total]))
    weights = group_scale(factors.total)
    R = stack(factors.total, present, weights)[:-1, :-1]
    rows = np.sqrt(max(factor.count for factor in factors.total))
    names = [structural.names[i] for i in present]
    inner = BaseMap(
        names=structural.names,
        independent=present,
        B=structural.B[np.searchsorted(structural.independent, present)],
        singular_values=structural.singular_values,
        gap=structural.gap,
        scale=structural.scale,
    )
    reduced = base_of_matrix(R, names, DATA_TOLERANCE)
    scaled = BaseMap(
        names=tuple(names),
        independent=reduced.independent,
        B=reduced.B,
        singular_values=reduced.singular_values,
        gap=reduced.gap,
        scale=np.linalg.norm(R, axis=0) / rows,
    )
    return scaled.compose(inner)
