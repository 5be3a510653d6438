"""Feasible parameters under constraints of any form: growing penalties, many starts, and a last constrained search."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from dynid.base import Float, SolverError, UsageError, dataclass, default_threads, locked, ordered_map
from dynid.feasible import FAR, Chart, body_columns, least_eigenvalues, plausible
from dynid.terms import Column

# Step of forward differences relative to the spread of a parameter.
STEP = 1e-6
# Violation that is rounding.
FULFILLED = 1e-7
# Largest change of coordinates in the last search.
NEAR = 0.5
_MATRIX = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])

Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class Bodies:
    """Inertial parameters of all links, as constraints get them.

    Parameters
    ----------
    mass : ndarray, shape (n_links,), kg
        Masses.
    centre : ndarray, shape (n_links, 3), m
        Centres of mass in the joint frames.
    inertia : ndarray, shape (n_links, 3, 3), kg m^2
        Inertias about the centres of mass.
    parameters : ndarray, shape (n_parameters,)
        All parameters of the model.

    """

    mass: Float
    centre: Float
    inertia: Float
    parameters: Float


class Constraint(Protocol):
    """Interface of constraints of any form: nonlinear, with cases, disjunctions."""

    @property
    def name(self) -> str:
        """Name, for messages."""
        ...

    def value(self, bodies: Bodies) -> float:
        """Zero or more where the constraint is fulfilled, else minus the size of the violation."""
        ...


@dataclass(frozen=True)
class Rule:
    """A constraint from a function.

    Parameters
    ----------
    name : str
        Name, for messages.
    function : callable
        Function of Bodies that is zero or more where the constraint is fulfilled.

    """

    name: str
    function: Callable[[Bodies], float]

    def value(self, bodies: Bodies) -> float:
        """Value of the function."""
        return float(self.function(bodies))


@dataclass(frozen=True)
class Search:
    """Settings of the penalty method.

    Parameters
    ----------
    rounds : int
        Rounds of growing penalties, with weight 10 (k - 1) in round k.
    weight : float
        Weight of one unit of violation in the cost.
    starts : int
        Starts: the given one, and others around it.
    reach : float
        Distance of the other starts, in coordinates of the chart.
    annealing : int
        Evaluations of simulated annealing before the first round of each start; 0 for none.
    seed : int
        Seed of starts and annealing.
    threads : int, optional
        Threads, all without it; results do not depend on it.

    """

    rounds: int = 10
    weight: float = 1.0
    starts: int = 4
    reach: float = 0.3
    annealing: int = 0
    seed: int = 0
    threads: int | None = None


@dataclass(frozen=True, eq=False)
class Penalised:
    """The best parameters that fulfil every constraint.

    Parameters
    ----------
    parameters : ndarray, shape (n_parameters,)
        Parameters.
    cost : float
        ||A theta - y||^2.
    costs : ndarray, shape (n_starts,)
        Cost of every start, inf where constraints stayed violated.
    values : ndarray, shape (n_constraints,)
        Values of the constraints at the result.
    least_eigenvalue : ndarray, shape (n_links,)
        Smallest eigenvalue of each pseudo-inertia.

    """

    parameters: Float
    cost: float
    costs: Float
    values: Float
    least_eigenvalue: Float

    def __post_init__(self) -> None:
        for name in ("parameters", "costs", "values", "least_eigenvalue"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))


def not_met(names: Sequence[str], values: Float, tried: str, expected: str, do: str) -> SolverError:
    """Error of a search in which no result fulfils all constraints: violations of the nearest result.

    Parameters
    ----------
    names : sequence of str
        Names of the constraints.
    values : ndarray, shape (n_results, n_constraints)
        Values, fulfilled from 0 on.
    tried : str
        What led to the results, in words.
    expected, do : str
        Parts of the message.

    Returns
    -------
    SolverError
        The error.

    """
    nearest = values[int(np.argmin(np.maximum(-values, 0.0).sum(axis=1)))]
    parts = [f"{name} by {-v:.4g}" for name, v in zip(names, nearest, strict=True) if v < -FULFILLED]
    return SolverError(
        "constraints-not-met",
        found=f"no parameters from {tried} that fulfil all constraints; the nearest violate "
        + ", ".join(parts),
        expected=expected,
        do=do,
    )


def penalised_parameters(
    A: Float,
    y: Float,
    columns: tuple[Column, ...],
    constraints: Sequence[Constraint],
    start: Float,
    prior: Float,
    spread: Float,
    strength: float,
    search: Search | None = None,
    progress: Progress | None = None,
) -> Penalised:
    """Least squares under constraints of any form, min ||A theta - y||^2 + strength ||(theta - prior) / spread||^2.

    Links move in log-Cholesky coordinates, so that all are physically consistent. Violations, -min(0, value), are
    penalised with a weight that grows from round to round; a last search uses the constraints as they are.

    Parameters
    ----------
    A : ndarray, shape (n_equations, n_parameters)
        Regressor.
    y : ndarray, shape (n_equations,)
        Target.
    columns : tuple of Column
        Columns of the model.
    constraints : sequence of Constraint
        The constraints.
    start : ndarray, shape (n_parameters,)
        Strictly consistent parameters, preferably from `feasible_parameters`.
    prior, spread : ndarray, shape (n_parameters,)
        Prior and its spread.
    strength : float
        Weight of the prior.
    search : Search, optional
        Settings.
    progress : callable, optional
        Called with the share of starts that are complete.

    Returns
    -------
    Penalised
        The best start.

    Raises
    ------
    SolverError
        If no start fulfils all constraints (exit code 5); it names what is violated and by how much.
    UsageError
        If a constraint gives nan or fails.

    References
    ----------
    Gaz et al. 2019, Algorithm 1, with their weights 10 (k - 1).

    """
    how = search or Search()
    task = _Task(A, y, columns, tuple(constraints), prior, spread, strength, how)
    first = task.chart.coordinates(start)
    rng = np.random.default_rng(how.seed)
    beginnings = [first] + [
        np.clip(first + how.reach * rng.normal(size=len(first)), task.chart.lower, task.chart.upper)
        for _ in range(how.starts - 1)
    ]
    numbered = list(enumerate(beginnings))
    ends = []
    for done, x in enumerate(ordered_map(task.run, numbered, how.threads or default_threads())):
        ends.append(x)
        if progress is not None:
            progress((done + 1) / len(beginnings))
    values = np.array([task.values(task.chart.parameters(x)) for x in ends]).reshape(len(ends), -1)
    missed = np.maximum(-values, 0.0).sum(axis=1)
    costs = np.array([task.cost(task.chart.parameters(x)) for x in ends])
    whole = np.where(missed <= FULFILLED, [task.smooth(x)[0] for x in ends], np.inf)
    if not np.isfinite(whole).any():
        raise not_met(
            [constraint.name for constraint in constraints],
            values,
            f"{len(ends)} starts",
            "constraints that can be fulfilled together",
            "widen them, or search longer: more starts, rounds or weight",
        )
    best = int(np.argmin(whole))
    theta = task.chart.parameters(ends[best])
    return Penalised(
        parameters=theta,
        cost=float(costs[best]),
        costs=np.where(missed <= FULFILLED, costs, np.inf),
        values=values[best],
        least_eigenvalue=least_eigenvalues(columns, theta),
    )


class _Task:
    """One problem; `run` searches from one start."""

    def __init__(
        self,
        A: Float,
        y: Float,
        columns: tuple[Column, ...],
        constraints: tuple[Constraint, ...],
        prior: Float,
        spread: Float,
        strength: float,
        search: Search,
    ):
        self.A, self.y, self.constraints, self.search = A, y, constraints, search
        self.chart = Chart.of(columns, spread)
        self.bodies = body_columns(columns)
        self.centre = plausible(columns, prior, spread)
        self.pull = strength / spread**2

    def cost(self, theta: Float) -> float:
        return float(np.sum((self.A @ theta - self.y) ** 2))

    def smooth(self, x: Float) -> tuple[float, Float]:
        """Cost with the prior, and its gradient."""
        theta = self.chart.parameters(x)
        residual, away = self.A @ theta - self.y, theta - self.centre
        value = float(residual @ residual + away @ (self.pull * away))
        gradient = 2.0 * (self.A.T @ residual + self.pull * away)
        return value, np.asarray(self.chart.jacobian(x).T @ gradient)

    def values(self, theta: Float) -> Float:
        """Values of the constraints, (constraints,)."""
        ten = theta[self.bodies]
        mass, centre = ten[:, 0], ten[:, 1:4] / ten[:, :1]
        inertia = ten[:, 4:][:, _MATRIX]
        square = (
            np.sum(centre**2, axis=1)[:, None, None] * np.eye(3) - centre[:, :, None] * centre[:, None, :]
        )
        seen = Bodies(mass, centre, inertia - mass[:, None, None] * square, theta)
        return np.array([checked(constraint, seen) for constraint in self.constraints])

    def slopes(self, x: Float) -> tuple[Float, Float]:
        """Values and their derivatives (constraints, p): forward differences in the parameters, then the chain rule."""
        theta = self.chart.parameters(x)
        here = self.values(theta)
        slope = np.empty((len(here), len(x)))
        for j, step in enumerate(STEP * self.chart.spread):
            moved = np.array(theta)
            moved[j] += step
            slope[:, j] = (self.values(moved) - here) / step
        return here, slope @ self.chart.jacobian(x)

    def run(self, numbered: tuple[int, Float]) -> Float:
        """The result of one start."""
        from scipy.optimize import minimize

        number, x = numbered
        bounds = self._around(x, FAR)
        if self.search.annealing:
            x = self._annealed(x, number)
        for k in range(1, self.search.rounds + 1):
            xi = self.search.weight * 10.0 * (k - 1)
            result = minimize(
                self._penalised,
                x,
                (xi,),
                "L-BFGS-B",
                jac=True,
                bounds=bounds,
                options={"maxiter": 60, "maxls": 10},
            )
            x = result.x
            if k > 1 and (self.values(self.chart.parameters(x)) >= -FULFILLED).all():
                break
        return self._polished(x)

    def _penalised(self, x: Float, xi: float) -> tuple[float, Float]:
        value, gradient = self.smooth(x)
        if xi == 0 or not self.constraints:
            return value, gradient
        here = self.values(self.chart.parameters(x))
        if (here >= 0).all():
            return value, gradient
        here, slope = self.slopes(x)
        broken = here < 0
        return value - xi * float(here[broken].sum()), gradient - xi * slope[broken].sum(axis=0)

    def _annealed(self, x: Float, number: int) -> Float:
        from scipy.optimize import dual_annealing

        xi = self.search.weight * 10.0

        def whole(z: Float) -> float:
            theta = self.chart.parameters(z)
            missed = float(np.maximum(-self.values(theta), 0.0).sum()) if self.constraints else 0.0
            away = theta - self.centre
            return self.cost(theta) + float(away @ (self.pull * away)) + xi * missed

        result = dual_annealing(
            whole,
            [(low, max(high, low + STEP)) for low, high in self._around(x, 3.0 * self.search.reach)],
            maxfun=self.search.annealing,
            no_local_search=True,
            x0=x,
            rng=np.random.default_rng([self.search.seed, number]),
        )
        return np.asarray(result.x)

    def _around(self, x: Float, reach: float) -> list[tuple[float, float]]:
        lower, upper = np.maximum(x - reach, self.chart.lower), np.minimum(x + reach, self.chart.upper)
        return list(zip(lower.tolist(), upper.tolist(), strict=True))

    def _polished(self, x: Float) -> Float:
        if not self.constraints:
            return x
        from scipy.optimize import minimize

        size = max(self.smooth(x)[0], 1e-12)
        fulfilled: dict[str, Any] = {
            "type": "ineq",
            "fun": lambda z: self.values(self.chart.parameters(z)),
            "jac": lambda z: self.slopes(z)[1],
        }

        def scaled(z: Float) -> tuple[float, Float]:
            value, gradient = self.smooth(z)
            return value / size, gradient / size

        result = minimize(
            scaled,
            x,
            method="SLSQP",
            jac=True,
            bounds=self._around(x, NEAR),
            constraints=[fulfilled],
            options={"maxiter": 100, "ftol": 1e-9},
        )
        return min((x, np.asarray(result.x)), key=self._rank)

    def _rank(self, x: Float) -> tuple[float, float]:
        if not np.isfinite(x).all():
            return np.inf, np.inf
        missed = float(np.maximum(-self.values(self.chart.parameters(x)), 0.0).sum())
        return max(missed - FULFILLED, 0.0), self.smooth(x)[0]


def checked(constraint: Constraint, bodies: Bodies) -> float:
    """Value of a constraint; raises UsageError with its name if it fails or gives nan."""
    try:
        value = float(constraint.value(bodies))
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:
        raise UsageError(
            "constraint-failed", found=f"constraint '{constraint.name}' fails: {error}", expected="a number"
        ) from error
    if np.isnan(value):
        raise UsageError(
            "constraint-nan", found=f"nan from constraint '{constraint.name}'", expected="a number"
        )
    return value
