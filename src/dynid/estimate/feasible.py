"""Weighted least squares among physically consistent parameters alone."""

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

# Blocks of time are held out in so many runs, and in no fewer.
FOLDS = 5
# Weights follow the residuals of the fit with constraints for so many rounds at most, or until none changes by so much.
WEIGHT_ROUNDS, WEIGHTS_SETTLED = 4, 0.05
# Weight of what no equation holds over all others; the share by which squares of residuals, and the amount by which the
# distance of a body may grow for that.
UNMOVED, WORSE, FURTHER = 1e8, 0.01, 1.0
# Centres of mass that lie implausibly far are held within so many times their reach: the least that the data bear.
NEAR = (1.0, 1.5, 2.0)
# How strongly masses may stay at their priors: shares of all equations that one off by its own size costs. The greatest
# is taken that the data do not mind: base parameters move by at most so many of their standard errors (root mean
# square, so that their mean square error grows by a sixteenth), errors on left-out blocks grow by at most that share.
MASS_SHARES = (0.03, 0.01, 0.003, 0.001)
MOVED, UNSEEN = 0.25, 0.01
# Eigenvalues of a correlation matrix below this are rounding.
SHARPEST = 1e-14
_CHOICES = {"held-out": "unseen blocks", "l-curve": "the corner of the L-curve"}


@dataclass(frozen=True)
class FeasibleFit:
    """Least squares among consistent bodies: min ||y - W B theta||_Sigma^2 + strength distance(theta, prior).

    The strength is that of the pull to the inertias that the description gives. Bodies without one, friction and all
    else count FAINT at most (see dynid.estimate.prior), so that they stay free beside known ones.

    Every body's pseudo-inertia stays above `margin`, friction, rotor inertia and stiffness above zero, the total mass
    within `total_mass` (kg). Joints weigh 1/sigma^2, at first of the weighted fit without constraints and then of this
    fit, bounded as that is.
    The covariance is that of the fit without constraints plus d d', d being how far the constraints moved the base
    parameters: intervals cover both.
    strength: 1 = a deviation from the prior by one spread costs one standard deviation of one equation; "held-out" =
    the greatest that predicts left-out blocks as well as the best, 1 where fewer than three can be left out or another
    method is inside; or "l-curve" = the corner of cost against distance.
    prior: "euclidean", "entropic" or "geodesic" distance from it.
    weights: "joint" as above, "equal" = 1 for every equation.
    limits: what is known of single bodies, see dynid.feasible.limits.
    intervals: how the covariance without constraints is found, see dynid.estimate.uncertainty.Intervals.
    inner: another method, with intervals of its own, in place of the weighted fit; then the misfit is
    (B theta - beta)' C^-1 (B theta - beta) with its answer beta and textbook covariance C: the sum of squares of its
    own last linear equations.
    further: constraints of any other kind.
    mass_share: by how much a mass that is off its prior by its own size costs, as a share of all equations. Where the
    strength is chosen, so is this: what the data say of single masses is little even where they determine all their
    combinations well, and a mass that they do not ask for stays where the description, or the guess, puts it.
    required: whether bodies are kept physically consistent even where that fits the log much worse; otherwise the fit
    without constraints stands in that case, with a warning. Any option but the defaults asks for the same.
    Source: Sousa and Cortesao 2014, 2019; Wensing, Kim and Slotine 2018; Lee, Wensing and Park 2020.
    """

    strength: float | str = prior_strength("held-out")
    margin: float | None = option(
        None,
        "feasible: least eigenvalue of every pseudo-inertia; without it 1e-6, or a hundredth of the description's "
        "where that is less",
        unit="kg m^2 and kg",
        above=0,
    )
    density: float = option(
        DENSEST,
        "feasible: greatest density of a body, taken as a uniform ellipsoid; 8960 without it, copper; 1e6 = any",
        unit="kg/m^3",
        above=0,
    )
    prior: str = option(
        "entropic",
        'feasible: distance from the prior; `"entropic"` without it',
        choices=tuple(distance.value for distance in Distance),
    )
    weights: str = option(
        "joint", 'feasible: weights as in wls, or as in ols; `"joint"` without it', choices=("joint", "equal")
    )
    total_mass: tuple[float, float] | None = option(
        None, "feasible: window for the sum of the masses; none without it", unit="kg", least=0
    )
    limits: Sequence[Mapping[str, Any]] = option(
        (), "feasible: see `[[estimate.limits]]`", kind="a list of tables"
    )
    intervals: str = interval_kind()
    inner: Estimator | None = None
    required: bool = False
    further: Sequence[Convex] = option(
        (),
        "feasible: further ones, `{ constraint = NAME, option = value }`, as a [plug-in](design.md#plug-ins) may bring",
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
                expected="another strength, and the method's own weights",
            )
        for entry in self.limits:
            limits_of_body(entry)

    @property
    def unconstrained(self) -> Estimator:
        """The method whose answer is brought to physically consistent bodies."""
        if self.inner is not None:
            return self.inner
        return (WLS if self.weights == "joint" else OLS)(intervals=self.intervals)

    def constraints(self) -> Sequence[Convex]:
        """What the parameters must fulfil."""
        window: list[Convex] = [TotalMass(*self.total_mass)] if self.total_mass is not None else []
        known = [constraint for entry in self.limits for constraint in limits_of_body(entry)]
        dense = [DensityLimit(self.density)] if self.density < UNLIMITED else []
        return [PhysicalBodies(self.margin), *dense, ColumnBounds(), *window, *known, *self.further]

    def fit(self, regression: Regression) -> Estimate:
        """Fits without constraints for the weights, then with them."""
        return self.around(regression, self.unconstrained.fit(regression))

    def around(self, regression: Regression, free: Estimate) -> Estimate:
        """The fit with constraints, given the one without."""
        fit, reason = self.resolved(regression, free)
        return fit.solution(regression, free, reason)[0]

    def resolved(self, regression: Regression, free: Estimate) -> tuple[FeasibleFit, str]:
        """The same fit with a strength that is a number, and how that was chosen."""
        if not isinstance(self.strength, str):
            return self, ""
        if self.inner is not None:
            return replace(self, strength=1.0), ""
        parts = _Parts.of(regression, self._weights(free), self.among(regression))
        fit, missed, reason = self._with_strength(regression, parts)
        return fit._with_masses(regression, free, parts, missed), reason

    def _with_strength(self, regression: Regression, parts: _Parts) -> tuple[FeasibleFit, float | None, str]:
        # And its squared error on unseen blocks, if that is known.
        if not parts.among.known.any():
            return replace(self, strength=1.0), None, "; the description knows no inertia to be drawn to"
        if self.strength == "l-curve":
            chosen = l_curve_strength(partial(self._point, regression, parts.weights))
        elif not parts.folds:
            why = why_none_held_out(len(regression.factors.blocks))
            return replace(self, strength=1.0), None, f"; strength 1 of the prior: {why}"
        else:
            chosen = held_out_strength(partial(self._unseen, regression, parts))
        missed = None if self.strength == "l-curve" else chosen.judgement
        return replace(self, strength=chosen.strength), missed, self._reason(chosen)

    def _with_masses(
        self, regression: Regression, free: Estimate, parts: _Parts, missed: float | None
    ) -> FeasibleFit:
        """The same fit, masses held at their priors as strongly as the data do not mind.

        missed: squared error on unseen blocks without that; None = not known.
        """
        if not parts.folds or not len(body_columns(regression.columns)):
            return self
        strength, base = float(self.strength), regression.base
        std = np.where(free.std > 0, free.std, np.inf)
        of_all = parts.among, parts.directions
        found = self.consistent(regression, *parts.whole, strength, *of_all)
        value = base.reduce(found.parameters)
        if missed is None:
            missed = float(self._unseen(regression, parts, strength).sum())
        for share in MASS_SHARES:
            fit = replace(self, mass_share=share)
            try:
                there = fit.consistent(regression, *parts.whole, strength, *of_all, found.parameters)
                moved = base.reduce(there.parameters) - value
                if np.sqrt(np.mean((moved / std) ** 2)) > MOVED:
                    continue
                if fit._unseen(regression, parts, strength).sum() <= (1.0 + UNSEEN) ** 2 * missed:
                    return fit
            except SolverError:
                continue
        return self

    def solution(self, regression: Regression, free: Estimate, reason: str = "") -> tuple[Estimate, Feasible]:
        """The fit with constraints for a strength that is a number, and the solver's answer that it holds."""
        if self.inner is not None:
            return self._nearest(regression, free, self.inner.name)
        strength, text = float(self.strength), f"{free.status.text}; {{}}{reason}"
        floor, weights = weight_floor(free.weights, free.sigma), self._weights(free)
        b, among = regression.base.rank, self.among(regression)
        near: Float | None = None
        for _ in range(WEIGHT_ROUNDS):
            found = self._solved(regression, weights, strength, among, near)
            near = found.parameters
            R = stack(regression.factors.total, regression.base.independent, weights)[:b, :b]
            real = self._estimate(regression, replace(free, weights=weights), found, R, strength, text)
            again = 1.0 / (real.sigma**2 + floor**2)
            if self.weights != "joint" or np.abs(again / weights - 1.0).max() < WEIGHTS_SETTLED:
                break
            weights = again
        fit, within, among = self._near(regression, weights, strength, found, among)
        exact = fit._unmoved(regression, weights, strength, within, among)
        if exact is not found:
            real = self._estimate(regression, replace(free, weights=weights), exact, R, strength, text)
        return real, exact

    def _near(
        self, regression: Regression, weights: Float, strength: float, found: Feasible, among: Among
    ) -> tuple[FeasibleFit, Feasible, Among]:
        """The same fit with limits on centres of mass that lie implausibly far, its answer and what it is among.

        The centre of a body of little mass may lie anywhere without torque that the data would notice. Limits that
        have no solution, or with which the data are fitted worse, are not kept.
        """
        columns, spread = regression.columns, regression.spread
        for scale in NEAR:
            limits = centre_limits(columns, found.parameters, among.setting.centre, spread, scale)
            if not limits:
                break
            nearer = replace(self, further=(*self.further, *limits))
            try:
                within = nearer.among(regression)
                there = nearer._solved(regression, weights, strength, within, found.parameters)
            except SolverError:
                continue
            if there.cost - found.cost <= WORSE * regression.factors.count:
                return nearer, there, within
        return self, found, among

    def _unmoved(
        self, regression: Regression, weights: Float, strength: float, found: Feasible, among: Among
    ) -> Feasible:
        """The answer with parameters that no equation holds exactly where the description puts them.

        The distance of a body from its prior moves them along with those that the data move. An answer that needs them
        elsewhere to exist, or to predict as well, stays as it is.
        """
        columns = regression.columns
        unseen = np.array([kind is Category.NOT_IDENTIFIABLE for kind in regression.base.categories()])
        unseen &= among.known
        # Masses and first moments at least, where inertias have to give way.
        gravity = np.array([column.name.startswith("m") for column in columns])
        for which in (np.flatnonzero(unseen), np.flatnonzero(unseen & gravity)):
            exact = self._held(regression, weights, strength, which, found, among) if len(which) else None
            if exact is None:
                continue
            worse = exact.cost - found.cost > WORSE * regression.factors.count
            further = exact.distance - found.distance > FURTHER * len(body_columns(columns))
            if not worse and not further:
                return exact
        return found

    def _held(
        self,
        regression: Regression,
        weights: Float,
        strength: float,
        which: Int,
        found: Feasible,
        among: Among,
    ) -> Feasible | None:
        """The answer with some parameters at the prior; None if there is none.    found: the one without."""
        spread = regression.spread
        A, y = weighted_rows(regression, regression.factors, weights)
        rows = np.zeros((len(which), len(spread)))
        weight = UNMOVED * max(strength, FREE_SHARE * regression.factors.count)
        rows[np.arange(len(which)), which] = np.sqrt(weight) / spread[which]
        both = np.concatenate([A, rows]), np.concatenate([y, rows @ among.setting.centre])
        try:
            directions = Directions.of(A, spread)
            exact = self.consistent(regression, *both, strength, among, directions, found.parameters)
        except SolverError:
            return None
        return replace(exact, cost=float(np.sum((A @ exact.parameters - y) ** 2)))

    def _weights(self, free: Estimate) -> Float:
        return free.weights if self.weights == "joint" else free.weights / np.mean(free.sigma**2)

    def _nearest(self, regression: Regression, free: Estimate, method: str) -> tuple[Estimate, Feasible]:
        """The physically consistent bodies nearest to an answer, in the metric of its textbook covariance."""
        size = free.textbook_std
        values, vectors = np.linalg.eigh(free.textbook_covariance / np.outer(size, size))
        R = (vectors / np.sqrt(np.maximum(values, SHARPEST * values[-1]))).T / size
        strength = float(self.strength)
        A = R @ regression.base.B
        found = self.consistent(regression, A, R @ free.value, strength)
        text = f"{method}, {free.status.text}; {{}}"
        return self._estimate(regression, free, found, R, strength, text), found

    def _estimate(
        self, regression: Regression, free: Estimate, found: Feasible, R: Float, strength: float, text: str
    ) -> Estimate:
        value = regression.base.reduce(found.parameters)
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
            parameters=found.parameters,
            status=Status(free.status.ok, text.format(_text(found, moved, R))),
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
        """What answers to equations with the columns, spread and guess of a regression are chosen from."""
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
        """Min ||A theta - y||^2 + strength distance among consistent bodies.

        among: of the regression; None = worked out.    directions: what all data know of each; None = what A knows.
        near: (p,) the answer for almost the same, from which this one is sought.
        Of the regression the columns, their spread and guess, and the number of equations are read.
        """
        among = among or self.among(regression)
        setting, count = among.setting, regression.factors.count
        directions = directions or Directions.of(A, setting.spread)
        held = directions.rows(count, strength)
        masses = mass_rows(setting.bodies, among.known, setting.centre, self.mass_share * count)
        found = nearest(
            np.concatenate([A, held, masses]),
            np.concatenate([y, held @ setting.centre, masses @ setting.centre]),
            setting,
            strength,
            Distance(self.prior),
            prior_pull(among.known, strength) / strength,
            near,
        )
        theta = among.with_unseen(A, found.parameters)
        return replace(found, parameters=theta, cost=float(np.sum((A @ theta - y) ** 2)))

    def _point(self, regression: Regression, weights: Float, strength: float) -> tuple[float, float]:
        found = self._solved(regression, weights, strength)
        return found.cost, found.distance

    def unseen(self, regression: Regression, weights: Float) -> Callable[[float | None], Float]:
        """Squared errors (folds, g) on runs of neighbouring blocks that were left out, fitted with weights (g,).

        Of a strength; None in its place: of least squares without constraints.
        """
        return partial(
            self._unseen_by_group, regression, _Parts.of(regression, weights, self.among(regression))
        )

    def _unseen(self, regression: Regression, parts: _Parts, strength: float | None) -> Float:
        # Squared errors (folds,) at the weights of the fit.
        return self._unseen_by_group(regression, parts, strength) @ parts.weights

    def _unseen_by_group(self, regression: Regression, parts: _Parts, strength: float | None) -> Float:
        base, missed = regression.base, []
        for number, (kept, rows, left_out) in enumerate(parts.folds):
            theta = np.zeros(len(regression.columns))
            if strength is None:
                theta[base.independent] = solve(replace(regression, factors=kept), parts.weights)[0]
            else:
                near = parts.latest.get(number)
                found = self.consistent(regression, *rows, strength, parts.among, parts.directions, near)
                parts.latest[number] = found.parameters
                theta[base.independent] = base.reduce(found.parameters)
            missed.append([factor.residual_square(theta) for factor in left_out.total])
        return np.array(missed)

    def _reason(self, chosen: Chosen) -> str:
        border = ", at the border of what was tried" if chosen.at_border else ""
        return f"; strength {chosen.strength:g} of the prior chosen by {_CHOICES[str(self.strength)]}{border}"


@dataclass(frozen=True, eq=False)
class Among:
    """What parameters are chosen from, whatever equations, weights and strength are.

    known: (p,) which are of inertias that the description gives.
    """

    setting: Setting
    known: Bool

    def with_unseen(self, A: Float, theta: Float) -> Float:
        """Parameters (p,) with those of joints that no equation (r, p) holds exactly at their priors, and not nearly.

        So are friction and rotor of a joint without an effort: a solver's tolerance is no friction.
        """
        setting = self.setting
        unseen = ~A.any(axis=0) & ~setting.absent
        unseen[setting.bodies] = False
        return np.where(unseen, np.clip(setting.centre, setting.lower, setting.upper), theta)


@dataclass(frozen=True, eq=False)
class _Parts:
    """Weighted equations of all data, and of runs of neighbouring blocks that are left out in turn.

    weights: (g,).    whole: rows and right side of all.    folds: what is kept, its rows and right side, what is not.
    latest: by fold its latest answer, near which that of the next strength is.
    """

    weights: Float
    whole: tuple[Float, Float]
    folds: tuple[tuple[Factors, tuple[Float, Float], Factors], ...]
    among: Among
    latest: dict[int, Float] = field(default_factory=dict)

    @cached_property
    def directions(self) -> Directions:
        """What all equations know of each."""
        return Directions.of(self.whole[0], self.among.setting.spread)

    @staticmethod
    def of(regression: Regression, weights: Float, among: Among) -> _Parts:
        factors, folds = regression.factors, []
        # Not by parts of a motion that repeats: strengths chosen so were weaker, and missed more of another motion (the
        # LWR4 4.8 in place of 4.6 %, a simulated UR10 0.92 in place of 0.88 %).
        made = folds_by_time(factors, FOLDS)
        seen = judged_equations(factors, made)
        for fold in made:
            kept = factors.subset(fold.training)
            folds.append((kept, weighted_rows(regression, kept, weights), seen.subset(fold.held_out)))
        return _Parts(weights, weighted_rows(regression, factors, weights), tuple(folds), among)


def weighted_rows(regression: Regression, factors: Factors, weights: Float) -> tuple[Float, Float]:
    """Rows (b, p) and right side (b,) of the weighted equations, in all parameters."""
    R = stack(factors.total, regression.base.independent, weights)
    b = regression.base.rank
    return R[:b, :b] @ regression.base.B, R[:b, b]


def _text(found: Feasible, moved: Float, R: Float) -> str:
    rise = float(np.sum((R @ moved) ** 2))
    bodies = len(found.least_eigenvalue)
    least = f"least pseudo-inertia eigenvalue {found.least_eigenvalue.min():.2g}, " if bodies else ""
    held = {0: "no constraint holds it", 1: "1 constraint holds it"}.get(
        len(found.active), f"{len(found.active)} constraints hold it"
    )
    return (
        f"physically consistent: {least}{held}, at a cost of {rise:.3g} in units of one equation's variance"
    )
