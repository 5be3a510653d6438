"""Weighted least squares over physically consistent parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import SolverError, UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Estimator, Regression, Status
from dynid.estimate.least_squares import OLS, WLS, residual_sigma, solve, weight_floor
from dynid.estimate.prior import (
    FREE_SHARE,
    Directions,
    centre_limits,
    inertia_known,
    mass_rows,
    prior_pull,
    prior_share,
    rotors_known,
)
from dynid.estimate.uncertainty import interval_kind, prior_strength
from dynid.factor.base import Category
from dynid.factor.factor import Factors, stack
from dynid.factor.folds import folds_by_time, judged_equations, why_none_held_out
from dynid.feasible.bodies import DENSEST, UNLIMITED, body_columns
from dynid.feasible.constraints import ColumnBounds, Convex, DensityLimit, PhysicalBodies, TotalMass
from dynid.feasible.limits import limits_of_body
from dynid.feasible.problem import Chosen, Distance, Feasible, held_out_strength, l_curve_strength, nearest
from dynid.feasible.region import Setting

# Number of runs of blocks that are held out in turn.
FOLDS = 5
# Most rounds of re-weighting by the constrained fit, and relative change of weights at which they end.
WEIGHT_ROUNDS, WEIGHTS_SETTLED = 4, 0.05
# Weight of unobserved parameters over all others; and increase of squared residuals, and of a link's distance, that is
# accepted for it.
UNMOVED, WORSE, FURTHER = 1e8, 0.01, 1.0
# Implausibly far centres of mass are limited to these multiples of their reach, the least that the data allow.
NEAR = (1.0, 1.5, 2.0)
# Weight of masses at their priors: cost of a mass that is off by its own size, as shares of all equations. The greatest
# is chosen with which base parameters move by at most MOVED standard errors (root mean square, so their mean square
# error grows by a sixteenth) and held-out errors grow by at most HELD_OUT_GROWTH.
MASS_SHARES = (0.03, 0.01, 0.003, 0.001)
MOVED, HELD_OUT_GROWTH = 0.25, 0.01
# Eigenvalues of a correlation matrix below this are rounding.
SHARPEST = 1e-14
_CHOICES = {"held-out": "held-out blocks", "l-curve": "the corner of the L-curve"}


@dataclass(frozen=True)
class FeasibleFit:
    """Least squares over consistent links, min ||y - W B theta||_Sigma^2 + strength distance(theta, prior).

    Every link's pseudo-inertia stays above `margin`, friction, rotor inertia and stiffness above zero, and the total
    mass within `total_mass`. The strength applies to inertias that the prior (URDF) gives; other links, friction and
    everything else have the weight FAINT at most (see dynid.estimate.prior), so that they stay free. Joints weigh
    1/sigma^2, first of the weighted fit without constraints and then of this fit, bounded as there. The covariance is
    that of the unconstrained fit plus d d', with d the shift of the base parameters by the constraints: intervals cover
    both.

    Parameters
    ----------
    strength : float or str
        1 = a deviation from the prior by one spread costs one standard deviation of one equation. "held-out" = the
        greatest strength that predicts held-out blocks as well as the best, 1 if fewer than three can be held out or
        another method is inside. "l-curve" = the corner of cost against distance.
    margin : float, kg m^2 and kg, optional
        Least eigenvalue of every pseudo-inertia.
    density : float, kg/m^3
        Greatest density of a link.
    prior : {"entropic", "euclidean", "geodesic"}
        Distance from the prior.
    weights : {"joint", "equal"}
        As above, or 1 for every equation.
    total_mass : tuple of two floats, kg, optional
        Limits of the total mass.
    limits : sequence of mapping
        Limits of single links, see dynid.feasible.limits.
    intervals : str
        Method of the covariance without constraints, see dynid.estimate.uncertainty.Intervals.
    inner : Estimator, optional
        Another method, with its own intervals, instead of the weighted fit. The misfit is then (B theta - beta)' C^-1
        (B theta - beta) with its answer beta and textbook covariance C: the sum of squares of its last linear
        equations.
    required : bool
        Whether links stay physically consistent even if the log is fitted much worse; otherwise the unconstrained fit
        is kept in that case, with a warning. Any option but the defaults has the same effect.
    further : sequence of Convex
        Further constraints.
    mass_share : float
        Cost of a mass that deviates from its prior by its own size, as a share of all equations. It is chosen if the
        strength is: data say little about single masses even where they determine all combinations well, and such a
        mass stays at its prior or guess.

    References
    ----------
    Sousa and Cortesao 2014, 2019; Wensing, Kim and Slotine 2018; Lee, Wensing and Park 2020.

    """

    strength: float | str = prior_strength("held-out")
    margin: float | None = option(
        None,
        "feasible: least eigenvalue of every pseudo-inertia; default 1e-6, or 1 % of the prior's (URDF) where that is "
        "less",
        unit="kg m^2 and kg",
        above=0,
    )
    density: float = option(
        DENSEST,
        "feasible: greatest density of a link, taken as a uniform ellipsoid; default 8960 (copper); 1e6 = no limit",
        unit="kg/m^3",
        above=0,
    )
    prior: str = option(
        "entropic",
        'feasible: distance from the prior; default `"entropic"`',
        choices=tuple(distance.value for distance in Distance),
    )
    weights: str = option(
        "joint",
        'feasible: weights as in wls (joint) or as in ols (equal); default `"joint"`',
        choices=("joint", "equal"),
    )
    total_mass: tuple[float, float] | None = option(
        None, "feasible: lower and upper limit of the total mass; default none", unit="kg", least=0
    )
    limits: Sequence[Mapping[str, Any]] = option(
        (), "feasible: see `[[estimate.limits]]`", kind="a list of tables"
    )
    intervals: str = interval_kind()
    inner: Estimator | None = None
    required: bool = False
    further: Sequence[Convex] = option(
        (),
        "feasible: further ones, `{ constraint = NAME, option = value }`, also of a [plug-in](extending.md#plug-ins)",
        kind="a list of names or tables",
    )
    mass_share: float = 0.0
    name: str = "feasible"

    def __post_init__(self) -> None:
        check_options(self)
        if self.inner is not None and (self.weights != "joint" or self.strength == "l-curve"):
            raise UsageError(
                "feasible-inner",
                found=f"'{self.inner.name}' with weights = '{self.weights}', strength = {self.strength}",
                expected="a number or 'held-out' as strength, and weights = 'joint'",
            )
        for entry in self.limits:
            limits_of_body(entry)

    @property
    def unconstrained(self) -> Estimator:
        """Method whose answer is made physically consistent."""
        if self.inner is not None:
            return self.inner
        return (WLS if self.weights == "joint" else OLS)(intervals=self.intervals)

    def constraints(self) -> Sequence[Convex]:
        """Constraints on the parameters."""
        window: list[Convex] = [TotalMass(*self.total_mass)] if self.total_mass is not None else []
        known = [constraint for entry in self.limits for constraint in limits_of_body(entry)]
        dense = [DensityLimit(self.density)] if self.density < UNLIMITED else []
        return [PhysicalBodies(self.margin), *dense, ColumnBounds(), *window, *known, *self.further]

    def fit(self, regression: Regression) -> Estimate:
        """Fit without constraints for the weights, then with them."""
        return self.around(regression, self.unconstrained.fit(regression))

    def around(self, regression: Regression, free: Estimate) -> Estimate:
        """Fit with constraints, given the fit without."""
        fit, reason = self.resolved(regression, free)
        return fit.solution(regression, free, reason)[0]

    def resolved(self, regression: Regression, free: Estimate) -> tuple[FeasibleFit, str]:
        """The same fit with a numeric strength, and how it was chosen."""
        if not isinstance(self.strength, str):
            return self, ""
        if self.inner is not None:
            return replace(self, strength=1.0), ""
        parts = _HeldOutParts.of(regression, self._weights(free), self.among(regression))
        fit, held_out_error, reason = self._with_strength(regression, parts)
        return fit._with_masses(regression, free, parts, held_out_error), reason

    def _with_strength(
        self, regression: Regression, parts: _HeldOutParts
    ) -> tuple[FeasibleFit, float | None, str]:
        # Also returns the squared held-out error, if it is known.
        if not parts.among.known.any():
            return replace(self, strength=1.0), None, "; prior strength 1, since no prior inertia is known"
        if self.strength == "l-curve":
            chosen = l_curve_strength(partial(self._curve_point, regression, parts.weights))
        elif not parts.folds:
            why = why_none_held_out(len(regression.factors.blocks))
            return replace(self, strength=1.0), None, f"; prior strength 1: {why}"
        else:
            chosen = held_out_strength(partial(self._held_out_errors, regression, parts))
        held_out_error = None if self.strength == "l-curve" else chosen.judgement
        return replace(self, strength=chosen.strength), held_out_error, self._choice_text(chosen)

    def _with_masses(
        self, regression: Regression, free: Estimate, parts: _HeldOutParts, held_out_error: float | None
    ) -> FeasibleFit:
        """The same fit, with masses kept at their priors as strongly as the data allow.

        held_out_error: squared held-out error without that; None = unknown.
        """
        if not parts.folds or not len(body_columns(regression.columns)):
            return self
        strength, base = float(self.strength), regression.base
        std = np.where(free.std > 0, free.std, np.inf)
        of_all = parts.among, parts.directions
        answer = self.consistent(regression, *parts.whole, strength, *of_all)
        value = base.reduce(answer.parameters)
        if held_out_error is None:
            held_out_error = float(self._held_out_errors(regression, parts, strength).sum())
        for share in MASS_SHARES:
            fit = replace(self, mass_share=share)
            try:
                candidate = fit.consistent(regression, *parts.whole, strength, *of_all, answer.parameters)
                moved = base.reduce(candidate.parameters) - value
                if np.sqrt(np.mean((moved / std) ** 2)) > MOVED:
                    continue
                if (
                    fit._held_out_errors(regression, parts, strength).sum()
                    <= (1.0 + HELD_OUT_GROWTH) ** 2 * held_out_error
                ):
                    return fit
            except SolverError:
                continue
        return self

    def solution(self, regression: Regression, free: Estimate, reason: str = "") -> tuple[Estimate, Feasible]:
        """Fit with constraints for a numeric strength.

        Parameters
        ----------
        regression : Regression
            Regression.
        free : Estimate
            Unconstrained estimate.
        reason : str
            How the strength was chosen, for the text of the status.

        Returns
        -------
        estimate : Estimate
            Estimate.
        answer : Feasible
            Answer of the solver.

        """
        if self.inner is not None:
            return self._nearest_to_answer(regression, free, self.inner.name)
        strength, text = float(self.strength), f"{free.status.text}; {{}}{reason}"
        floor, weights = weight_floor(free.weights, free.sigma), self._weights(free)
        b, among = regression.base.rank, self.among(regression)
        near: Float | None = None
        for _ in range(WEIGHT_ROUNDS):
            answer = self._solved(regression, weights, strength, among, near)
            near = answer.parameters
            R = stack(regression.factors.total, regression.base.independent, weights)[:b, :b]
            real = self._estimate(regression, replace(free, weights=weights), answer, R, strength, text)
            again = 1.0 / (real.sigma**2 + floor**2)
            if self.weights != "joint" or np.abs(again / weights - 1.0).max() < WEIGHTS_SETTLED:
                break
            weights = again
        fit, within, among = self._with_centre_limits(regression, weights, strength, answer, among)
        exact = fit._unobserved_at_prior(regression, weights, strength, within, among)
        if exact is not answer:
            real = self._estimate(regression, replace(free, weights=weights), exact, R, strength, text)
        return real, exact

    def _with_centre_limits(
        self, regression: Regression, weights: Float, strength: float, answer: Feasible, among: Among
    ) -> tuple[FeasibleFit, Feasible, Among]:
        """The same fit with limits on centres of mass that lie implausibly far, its answer and its setting.

        The centre of a link of little mass may lie anywhere without noticeable torque. Limits without a solution, or
        with which the data are fitted worse, are dropped.
        """
        columns, spread = regression.columns, regression.spread
        for scale in NEAR:
            limits = centre_limits(columns, answer.parameters, among.setting.centre, spread, scale)
            if not limits:
                break
            nearer = replace(self, further=(*self.further, *limits))
            try:
                within = nearer.among(regression)
                candidate = nearer._solved(regression, weights, strength, within, answer.parameters)
            except SolverError:
                continue
            if candidate.cost - answer.cost <= WORSE * regression.factors.count:
                return nearer, candidate, within
        return self, answer, among

    def _unobserved_at_prior(
        self, regression: Regression, weights: Float, strength: float, answer: Feasible, among: Among
    ) -> Feasible:
        """Answer in which parameters that no equation contains are exactly at the prior.

        The distance of a link from its prior moves them along with those that the data move. An answer that needs other
        values to exist, or to predict as well, stays as it is.
        """
        columns = regression.columns
        unseen = np.array([kind is Category.NOT_IDENTIFIABLE for kind in regression.base.categories()])
        unseen &= among.known
        # First all such parameters, then only masses and first moments, if inertias must change.
        gravity = np.array([column.name.startswith("m") for column in columns])
        for which in (np.flatnonzero(unseen), np.flatnonzero(unseen & gravity)):
            exact = (
                self._at_prior(regression, weights, strength, which, answer, among) if len(which) else None
            )
            if exact is None:
                continue
            worse = exact.cost - answer.cost > WORSE * regression.factors.count
            further = exact.distance - answer.distance > FURTHER * len(body_columns(columns))
            if not worse and not further:
                return exact
        return answer

    def _at_prior(
        self,
        regression: Regression,
        weights: Float,
        strength: float,
        which: Int,
        answer: Feasible,
        among: Among,
    ) -> Feasible | None:
        """Answer with some parameters at the prior; None if there is none.    answer: the one without."""
        spread = regression.spread
        A, y = weighted_rows(regression, regression.factors, weights)
        rows = np.zeros((len(which), len(spread)))
        weight = UNMOVED * max(strength, FREE_SHARE * regression.factors.count)
        rows[np.arange(len(which)), which] = np.sqrt(weight) / spread[which]
        both = np.concatenate([A, rows]), np.concatenate([y, rows @ among.setting.centre])
        try:
            directions = Directions.of(A, spread)
            exact = self.consistent(regression, *both, strength, among, directions, answer.parameters)
        except SolverError:
            return None
        return replace(exact, cost=float(np.sum((A @ exact.parameters - y) ** 2)))

    def _weights(self, free: Estimate) -> Float:
        return free.weights if self.weights == "joint" else free.weights / np.mean(free.sigma**2)

    def _nearest_to_answer(
        self, regression: Regression, free: Estimate, method: str
    ) -> tuple[Estimate, Feasible]:
        """Physically consistent links nearest to an answer, in the metric of its textbook covariance."""
        size = free.textbook_std
        values, vectors = np.linalg.eigh(free.textbook_covariance / np.outer(size, size))
        R = (vectors / np.sqrt(np.maximum(values, SHARPEST * values[-1]))).T / size
        strength = float(self.strength)
        A = R @ regression.base.B
        answer = self.consistent(regression, A, R @ free.value, strength)
        text = f"{method}, {free.status.text}; {{}}"
        return self._estimate(regression, free, answer, R, strength, text), answer

    def _estimate(
        self, regression: Regression, free: Estimate, answer: Feasible, R: Float, strength: float, text: str
    ) -> Estimate:
        value = regression.base.reduce(answer.parameters)
        moved = value - free.value
        outer = np.outer(moved, moved)
        shares = free.prior_share
        if not regression.value_only:
            shares = prior_share(regression, R, strength, Distance(self.prior), self.mass_share)
        return replace(
            free,
            method=self.name,
            value=value,
            covariance=free.covariance + outer,
            textbook_covariance=free.textbook_covariance + outer,
            sigma=residual_sigma(regression, value),
            parameters=answer.parameters,
            status=Status(free.status.ok, text.format(_status_text(answer, moved, R))),
            prior_share=shares,
            prior_strength=strength,
            mass_share=self.mass_share,
        )

    def _solved(
        self,
        regression: Regression,
        weights: Float,
        strength: float,
        among: Among | None = None,
        near: Float | None = None,
    ) -> Feasible:
        rows = weighted_rows(regression, regression.factors, weights)
        return self.consistent(regression, *rows, strength, among, near=near)

    def among(self, regression: Regression) -> Among:
        """Setting of the solutions for the columns, spread and guess of a regression."""
        columns = regression.columns
        rotors = rotors_known(columns)
        setting = Setting.of(columns, self.constraints(), regression.guess, regression.spread, rotors)
        return Among(setting, inertia_known(columns))

    def consistent(
        self,
        regression: Regression,
        A: Float,
        y: Float,
        strength: float,
        among: Among | None = None,
        directions: Directions | None = None,
        near: Float | None = None,
    ) -> Feasible:
        """Minimise ||A theta - y||^2 + strength distance over consistent links.

        Only the columns, their spread and guess, and the number of equations of the regression are used.

        Parameters
        ----------
        regression : Regression
            Regression.
        A : ndarray, shape (r, p)
            Equations.
        y : ndarray, shape (r,)
            Right side.
        strength : float
            Strength of the prior.
        among : Among, optional
            Setting of the regression; None = computed.
        directions : Directions, optional
            Information of all data in each direction; None = that of A.
        near : ndarray, shape (p,), optional
            Answer to a similar problem, from which the search starts.

        Returns
        -------
        Feasible
            Parameters.

        """
        among = among or self.among(regression)
        setting, count = among.setting, regression.factors.count
        directions = directions or Directions.of(A, setting.spread)
        direction_rows = directions.rows(count, strength)
        masses = mass_rows(setting.bodies, among.known, setting.centre, self.mass_share * count)
        answer = nearest(
            np.concatenate([A, direction_rows, masses]),
            np.concatenate([y, direction_rows @ setting.centre, masses @ setting.centre]),
            setting,
            strength,
            Distance(self.prior),
            prior_pull(among.known, strength) / strength,
            near,
        )
        theta = among.with_unobserved(A, answer.parameters)
        return replace(answer, parameters=theta, cost=float(np.sum((A @ theta - y) ** 2)))

    def _curve_point(self, regression: Regression, weights: Float, strength: float) -> tuple[float, float]:
        answer = self._solved(regression, weights, strength)
        return answer.cost, answer.distance

    def unseen(self, regression: Regression, weights: Float) -> Callable[[float | None], Float]:
        """Squared held-out errors (folds, g) on runs of neighbouring blocks, for fits with weights (g,).

        The result is a function of the strength; None = least squares without constraints.
        """
        return partial(
            self._held_out_errors_by_group,
            regression,
            _HeldOutParts.of(regression, weights, self.among(regression)),
        )

    def _held_out_errors(self, regression: Regression, parts: _HeldOutParts, strength: float | None) -> Float:
        # Squared held-out errors (folds,) at the weights of the fit.
        return self._held_out_errors_by_group(regression, parts, strength) @ parts.weights

    def _held_out_errors_by_group(
        self, regression: Regression, parts: _HeldOutParts, strength: float | None
    ) -> Float:
        base, errors = regression.base, []
        for number, (kept, rows, left_out) in enumerate(parts.folds):
            theta = np.zeros(len(regression.columns))
            if strength is None:
                theta[base.independent] = solve(replace(regression, factors=kept), parts.weights)[0]
            else:
                near = parts.latest.get(number)
                answer = self.consistent(regression, *rows, strength, parts.among, parts.directions, near)
                parts.latest[number] = answer.parameters
                theta[base.independent] = base.reduce(answer.parameters)
            errors.append([factor.residual_square(theta) for factor in left_out.total])
        return np.array(errors)

    def _choice_text(self, chosen: Chosen) -> str:
        border = ", at the end of the range tried" if chosen.at_border else ""
        return f"; prior strength {chosen.strength:g} chosen by {_CHOICES[str(self.strength)]}{border}"


@dataclass(frozen=True, eq=False)
class Among:
    """Setting of the solutions for all equations, weights and strengths; known: (p,) inertias that the prior gives."""

    setting: Setting
    known: Bool

    def with_unobserved(self, A: Float, theta: Float) -> Float:
        """Parameters (p,), exactly at their priors for joints that no equation (r, p) contains.

        Such are friction and rotor of a joint without effort: the tolerance of a solver would leave small values.
        """
        setting = self.setting
        unseen = ~A.any(axis=0) & ~setting.absent
        unseen[setting.bodies] = False
        return np.where(unseen, np.clip(setting.centre, setting.lower, setting.upper), theta)


@dataclass(frozen=True, eq=False)
class _HeldOutParts:
    """Weighted equations of all data, and of runs of neighbouring blocks that are held out in turn.

    weights: (g,).    whole: rows and right side of all.    folds: kept factors, their rows and right side, held-out
    factors. latest: by fold the latest answer, from which the search for the next strength starts.
    """

    weights: Float
    whole: tuple[Float, Float]
    folds: tuple[tuple[Factors, tuple[Float, Float], Factors], ...]
    among: Among
    latest: dict[int, Float] = field(default_factory=dict)

    @cached_property
    def directions(self) -> Directions:
        """Information of all equations in each direction."""
        return Directions.of(self.whole[0], self.among.setting.spread)

    @staticmethod
    def of(regression: Regression, weights: Float, among: Among) -> _HeldOutParts:
        factors, folds = regression.factors, []
        # Contiguous in time: folds by the parts of a motion that repeats choose weaker strengths, with larger errors on
        # other motion.
        time_folds = folds_by_time(factors, FOLDS)
        judged = judged_equations(factors, time_folds)
        for fold in time_folds:
            kept = factors.subset(fold.training)
            folds.append((kept, weighted_rows(regression, kept, weights), judged.subset(fold.held_out)))
        return _HeldOutParts(weights, weighted_rows(regression, factors, weights), tuple(folds), among)


def weighted_rows(regression: Regression, factors: Factors, weights: Float) -> tuple[Float, Float]:
    """Rows (b, p) and right side (b,) of the weighted equations, in all parameters.

    Parameters
    ----------
    regression : Regression
        Regression.
    factors : Factors
        Equations.
    weights : ndarray, shape (g,)
        Weights of the groups.

    """
    R = stack(factors.total, regression.base.independent, weights)
    b = regression.base.rank
    return R[:b, :b] @ regression.base.B, R[:b, b]


def _status_text(answer: Feasible, moved: Float, R: Float) -> str:
    rise = float(np.sum((R @ moved) ** 2))
    bodies = len(answer.least_eigenvalue)
    least = f"least pseudo-inertia eigenvalue {answer.least_eigenvalue.min():.2g}, " if bodies else ""
    count = len(answer.active)
    active = f"{count or 'no'} active constraint{'' if count == 1 else 's'}"
    return f"physically consistent: {least}{active}, squared error higher by {rise:.3g} variances of one equation"
