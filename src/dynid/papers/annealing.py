"""Algorithm 1 of Gaz et al. 2019 as printed: a box, random starts, simulated annealing, growing penalties, Q runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynid.base import (
    Float,
    UsageError,
    check_options,
    dataclass,
    default_threads,
    locked,
    option,
    ordered_map,
)
from dynid.feasible import Condition, body_columns, least_eigenvalues
from dynid.papers.penalty import FULFILLED, Bodies, Constraint, Penalised, checked, not_met
from dynid.terms import Column

# A link's ten coordinates as boxes name them: mass, centre of mass, inertia about it.
COORDINATES = ("m", "cx", "cy", "cz", "Icxx", "Icxy", "Icyy", "Icxz", "Icyz", "Iczz")
# kg m^2: margin of the triangle inequality in the result, as in the cone program.
MARGIN = 1e-6
# Step of forward differences of rules, relative to the box.
_STEP = 1e-7
_SIX = ((0, 0), (0, 1), (1, 1), (0, 2), (1, 2), (2, 2))
_MATRIX = np.array([[0, 1, 3], [1, 2, 4], [3, 4, 5]])


@dataclass(frozen=True, eq=False)
class Box:
    """LB <= p <= UB for the search of Algorithm 1.

    Parameters
    ----------
    lower, upper : ndarray, shape (n_parameters,)
        Bounds in the order of the model's columns, with COORDINATES in place of a link's ten: mass kg, centre of mass
        m and inertia about it kg m^2. Other parameters are in their own units.

    Raises
    ------
    UsageError
        Unless all bounds are finite and lower <= upper.

    """

    lower: Float
    upper: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", locked(self.lower, (None,), "lower"))
        object.__setattr__(self, "upper", locked(self.upper, (len(self.lower),), "upper"))
        if not (np.isfinite(self.lower) & np.isfinite(self.upper) & (self.lower <= self.upper)).all():
            raise UsageError("box", found="bounds that are infinite or crossed", expected="finite LB <= UB")


@dataclass(frozen=True)
class Annealing:
    """Settings of Algorithm 1, as in the paper except for its 100 runs, each of which takes seconds."""

    runs: int = option(10, "Q: independent runs, each from a point drawn uniformly from the box", least=1)
    rounds: int = option(
        10, "kappa: successive optimisations of a run, with penalty weight 10 (k - 1)", least=1
    )
    evaluations: int = option(
        500, "evaluations of simulated annealing at the beginning of each round", least=0
    )
    seed: int = option(0, "seed of starts and annealing", least=0)

    def __post_init__(self) -> None:
        check_options(self)


def annealed_parameters(
    A: Float,
    y: Float,
    columns: tuple[Column, ...],
    box: Box,
    rules: Sequence[Constraint] = (),
    conditions: Sequence[Condition] = (),
    how: Annealing | None = None,
    threads: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Penalised:
    """The best of Q runs of min ||A theta(p) - y||^2 + xi_k sum g(h(p)), LB <= p <= UB, xi_k = 10 (k - 1).

    g(h) = -min(0, h) of the triangle inequality tr(I) / 2 >= lambda_max(I) of every link, of the rules and of convex
    conditions. A round is simulated annealing, then a local search from the better of its result and the end of the
    last round. The penalty enters the local search by slack variables, which is the same problem without kinks.

    Parameters
    ----------
    A : ndarray, shape (n_equations, n_parameters)
        Regressor.
    y : ndarray, shape (n_equations,)
        Target.
    columns : tuple of Column
        Columns of the model.
    box : Box
        Bounds.
    rules : sequence of Constraint
        Constraints of any form.
    conditions : sequence of Condition
        Convex conditions.
    how : Annealing, optional
        Settings.
    threads : int, optional
        Number of threads; results do not depend on it.
    progress : callable, optional
        Called with the share of runs that are complete.

    Returns
    -------
    Penalised
        The best run.

    Raises
    ------
    SolverError
        If no run fulfils all rules; it names what is violated.
    UsageError
        If a rule fails.

    References
    ----------
    Gaz et al. 2019, Algorithm 1, eqs 16 and 29 to 32.

    """
    how = how or Annealing()
    task = _Task(A, y, columns, box, tuple(rules), tuple(conditions), how)
    runs = range(how.runs)
    ends = []
    for end in ordered_map(task.run, runs, threads or default_threads()):
        ends.append(end)
        if progress is not None:
            progress(len(ends) / how.runs)
    values = np.array([task.rules(p) for p in ends])
    fulfilled = (values >= -FULFILLED).all(axis=1)
    costs = np.where(fulfilled, [task.phi(p)[0] for p in ends], np.inf)
    if not fulfilled.any():
        raise not_met(
            task.names,
            values,
            f"{how.runs} runs",
            "rules that can be fulfilled together within the box",
            "widen the box or the rules, or use more runs or rounds",
        )
    best = int(np.argmin(costs))
    theta = task.theta(ends[best])
    return Penalised(theta, float(costs[best]), costs, values[best], least_eigenvalues(columns, theta))


class _Task:
    def __init__(
        self,
        A: Float,
        y: Float,
        columns: tuple[Column, ...],
        box: Box,
        rules: tuple[Constraint, ...],
        conditions: tuple[Condition, ...],
        how: Annealing,
    ) -> None:
        self.A, self.y, self.box, self.how = A, y, box, how
        self.own, self.conditions = rules, conditions
        self.bodies = body_columns(columns)
        self.width = box.upper - box.lower
        self.names = (
            *(f"the triangle inequality of link {i + 1}" for i in range(len(self.bodies))),
            *(rule.name for rule in rules),
            *(condition.name for condition in conditions),
        )

    # ---- Map p -> theta, and the rules

    def theta(self, p: Float) -> Float:
        """Parameters about the joint frames, by the parallel axis theorem (26)."""
        parameters = np.array(p)
        ten = p[self.bodies]
        mass, c = ten[:, :1], ten[:, 1:4]
        parameters[self.bodies[:, 1:4]] = mass * c
        square = (c**2).sum(axis=1)
        for k, (a, b) in enumerate(_SIX):
            parameters[self.bodies[:, 4 + k]] += mass[:, 0] * ((a == b) * square - c[:, a] * c[:, b])
        return parameters

    def _jacobian(self, p: Float) -> Float:
        # d theta / d p, (p, p).
        J = np.eye(len(p))
        for ten in self.bodies:
            m, c = p[ten[0]], p[ten[1:4]]
            J[ten[1:4], ten[0]] = c
            J[ten[1:4], ten[1:4]] = m
            for k, (a, b) in enumerate(_SIX):
                J[ten[4 + k], ten[0]] = (a == b) * (c @ c) - c[a] * c[b]
                slope = 2.0 * (a == b) * c
                slope[a] -= c[b]
                slope[b] -= c[a]
                J[ten[4 + k], ten[1:4]] = m * slope
        return J

    def phi(self, p: Float) -> tuple[float, Float]:
        """The cost and its gradient in p."""
        residual = self.A @ self.theta(p) - self.y
        return float(residual @ residual), np.asarray(2.0 * (self.A.T @ residual) @ self._jacobian(p))

    def rules(self, p: Float) -> Float:
        """h(p) of every rule, zero or more where it is fulfilled."""
        return np.concatenate([self._triangles(p), self._other_rules(p)])

    def _triangles(self, p: Float) -> Float:
        inertia = p[self.bodies][:, 4:][:, _MATRIX]
        return np.asarray(0.5 * np.trace(inertia, axis1=1, axis2=2) - np.linalg.eigvalsh(inertia)[:, -1])

    def _other_rules(self, p: Float, conditions: Sequence[Condition] | None = None) -> Float:
        theta, ten = self.theta(p), p[self.bodies]
        values = []
        if self.own:
            seen = Bodies(ten[:, 0], ten[:, 1:4], ten[:, 4:][:, _MATRIX], theta)
            values = [checked(rule, seen) for rule in self.own]
        asked = self.conditions if conditions is None else conditions
        return np.array(values + [-condition.violation(theta) for condition in asked])

    def _slopes(self, p: Float) -> Float:
        """Dh / dz over the box, (rules, p), by forward differences; a triangle inequality depends on one link only."""
        n = len(self.bodies)
        here = self.rules(p)
        slopes = np.zeros((len(here), len(p)))
        for k in range(4, 10):
            step = _STEP * self.width[self.bodies[:, k]]
            moved = np.array(p)
            moved[self.bodies[:, k]] += step
            change = self._triangles(moved) - here[:n]
            slopes[np.arange(n), self.bodies[:, k]] = np.divide(change, step, where=step > 0, out=np.zeros(n))
        # A fulfilled condition is zero in its neighbourhood, so only violated ones have a slope.
        broken = np.flatnonzero(here[n + len(self.own) :] < 0)
        places = np.concatenate([n + np.arange(len(self.own)), n + len(self.own) + broken]).astype(np.int64)
        asked = [self.conditions[i] for i in broken]
        for j in np.flatnonzero(self.width > 0) if len(places) else ():
            moved = np.array(p)
            moved[j] += _STEP * self.width[j]
            slopes[places, j] = (self._other_rules(moved, asked) - here[places]) / (_STEP * self.width[j])
        return slopes * self.width

    # ---- one run

    def run(self, number: int) -> Float:
        """Lines 1 to 7 of Algorithm 1; returns p, (p,)."""
        rng = np.random.default_rng([self.how.seed, number])
        z = rng.uniform(size=len(self.width))
        for k in range(1, self.how.rounds + 1):
            xi = 10.0 * (k - 1)
            annealed = self._annealed(z, xi, rng) if self.how.evaluations else z
            starts = [z] if np.array_equal(annealed, z) else [annealed, z]
            z = min(
                (z, *(self._local(start, xi) for start in starts)),
                key=lambda candidate: self._penalised_cost(candidate, xi),
            )
        return self._with_triangle_margin(self._p(z))

    def _with_triangle_margin(self, p: Float) -> Float:
        # A local search does not end on the inequality where lambda_max is a double eigenvalue. Adding the same inertia
        # about every axis, twice the violation, fulfils it, as far as the box allows.
        missing = np.maximum(MARGIN - self._triangles(p), 0.0)
        lifted = np.array(p)
        diagonal = self.bodies[:, [4, 6, 9]]
        lifted[diagonal] = np.minimum(lifted[diagonal] + 2.0 * missing[:, None], self.box.upper[diagonal])
        return lifted

    def _p(self, z: Float) -> Float:
        return np.asarray(self.box.lower + np.clip(z, 0.0, 1.0) * self.width)

    def _penalised_cost(self, z: Float, xi: float) -> float:
        p = self._p(z)
        residual = self.A @ self.theta(p) - self.y
        missed = float(np.maximum(-self.rules(p), 0.0).sum()) if xi else 0.0
        return float(residual @ residual) + xi * missed

    def _annealed(self, z: Float, xi: float, rng: np.random.Generator) -> Float:
        from scipy.optimize import dual_annealing

        result = dual_annealing(
            lambda at: self._penalised_cost(at, xi),
            [(0.0, 1.0)] * len(z),
            maxfun=self.how.evaluations,
            no_local_search=True,
            x0=z,
            rng=rng,
        )
        return np.asarray(result.x)

    def _local(self, z: Float, xi: float) -> Float:
        from scipy.optimize import minimize

        size = max(self._penalised_cost(z, xi), 1e-12)
        unit = [(0.0, 1.0)] * len(z)

        def smooth(at: Float) -> tuple[float, Float]:
            value, slope = self.phi(self._p(at))
            return value / size, slope * self.width / size

        if xi == 0.0:
            free = minimize(smooth, z, method="L-BFGS-B", jac=True, bounds=unit, options={"maxiter": 300})
            return np.asarray(free.x)
        slack = np.maximum(-self.rules(self._p(z)), 0.0)
        count = len(slack)

        def penalised(at: Float) -> tuple[float, Float]:
            value, slope = smooth(at[:-count])
            weight = xi / size
            return value + weight * float(at[-count:].sum()), np.append(slope, np.full(count, weight))

        kept: dict[str, Any] = {
            "type": "ineq",
            "fun": lambda at: self.rules(self._p(at[:-count])) + at[-count:],
            "jac": lambda at: np.hstack([self._slopes(self._p(at[:-count])), np.eye(count)]),
        }
        result = minimize(
            penalised,
            np.append(z, slack),
            method="SLSQP",
            jac=True,
            bounds=unit + [(0.0, None)] * count,
            constraints=[kept],
            options={"maxiter": 150, "ftol": 1e-10},
        )
        return np.asarray(np.clip(result.x[:-count], 0.0, 1.0)) if np.isfinite(result.x).all() else z
