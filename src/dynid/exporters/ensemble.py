"""Ensembles for domain randomisation: models drawn from the uncertainty of an identification, as wide as its error."""

from __future__ import annotations

from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import pass_threads
from dynid.base.records import dataclass
from dynid.estimate.prior import parameter_spread
from dynid.estimate.uncertainty import block_jackknife
from dynid.factor.base import influence
from dynid.factor.factor import Factors, stack
from dynid.factor.folds import folds_of, judged_equations
from dynid.identification.experiment import Experiment
from dynid.identification.logs import torque_factors
from dynid.identification.settings import ON_FACTORS
from dynid.kernel import solve_triangular
from dynid.log.read import Log
from dynid.run.result import Identification
from dynid.terms.exports import Kind
from dynid.terms.term import Of

if TYPE_CHECKING:
    from dynid.estimate.estimator import Estimator
    from dynid.estimate.feasible import FeasibleFit
    from dynid.estimate.physical import Posterior

# Most models of an ensemble, as each may be a file.
MOST = 10_000
# The width of friction is searched on the models themselves if there are at least _ENOUGH of them, else on _DRAWS draws
# that repeat their links with other friction: too few draws would make the width random.
_ENOUGH, _DRAWS = 32, 256
# Maximum rounds of that search, and the relative error at which it ends.
_ROUNDS, _FOUND = 60, 1e-3


class Width(StrEnum):
    """What sets the width of an ensemble: the held-out error, or noise alone."""

    ERROR = "error"
    NOISE = "noise"


@dataclass(frozen=True, eq=False)
class UnseenSpread:
    """Torque spread of an ensemble on a motion that was not fitted, relative to the r.m.s. measured torque.

    A spread far below the error means that the models are more alike than they are right.

    Parameters
    ----------
    trajectories : tuple of str
        Names of the trajectories.
    spread : ndarray, shape (n_joints,)
        Standard deviation of the models' torque.
    error : ndarray, shape (n_joints,)
        R.m.s. torque error of the model around which they are drawn.

    """

    trajectories: tuple[str, ...]
    spread: Float
    error: Float

    def __post_init__(self) -> None:
        for name in ("spread", "error"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Parameters of N models that differ as much as the identification is uncertain, for domain randomisation.

    Parameters
    ----------
    parameters : ndarray, shape (N, n_parameters)
        Full parameters of each model.
    centre : ndarray, shape (n_parameters,)
        The model around which they are drawn: the estimate of the run, or its physically consistent links.
    group_names : tuple of str
        Names of the groups of equations, most often joints.
    spread : ndarray, shape (n_groups,)
        Standard deviation of the models' torque on the fitted motion, relative to the r.m.s. measured torque.
    unseen : UnseenSpread, optional
        Spread and error on a held-out log.
    held_out : ndarray, shape (n_groups,)
        Held-out error of the same fit that set the width, relative to the r.m.s. measured torque; empty if it did not.

    """

    parameters: Float
    centre: Float
    group_names: tuple[str, ...]
    spread: Float
    unseen: UnseenSpread | None = None
    held_out: Float = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        object.__setattr__(self, "held_out", locked(self.held_out, (None,), "held_out"))
        object.__setattr__(self, "parameters", locked(self.parameters, (None, None), "parameters"))
        object.__setattr__(self, "centre", locked(self.centre, (self.parameters.shape[1],), "centre"))
        object.__setattr__(self, "spread", locked(self.spread, (len(self.group_names),), "spread"))


def spread_on(
    run: Identification,
    ensemble: Ensemble,
    log: Log,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
) -> Ensemble:
    """Add the torque spread on another log to an ensemble.

    `log`: log of the same joints; it is prepared like the run's own; `diagnostics`: receives the warnings about the
    log; `threads`: threads that read the log; all without it. Result: the ensemble with its field `unseen`. Raises
    UsageError if the log has other joints; UnfitDataError if the log has no usable sample.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    everything = np.ones(len(run.estimate.columns), dtype=np.bool_)
    factors = torque_factors(run, log, everything, sink, pass_threads(threads))
    if not factors.blocks:
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="a longer motion, since filters discard its ends"
        )
    changes = ensemble.parameters - ensemble.parameters.mean(axis=0)
    error = [
        np.sqrt(factor.residual_square(ensemble.centre) / max(factor.target_square, 1e-300))
        for factor in factors.total
    ]
    names = tuple(dict.fromkeys(block.trajectory for block in factors.blocks))
    return replace(ensemble, unseen=UnseenSpread(names, _torque_spread(changes, factors), np.array(error)))


def sample_parameters(
    run: Identification,
    count: int,
    seed: int = 0,
    feasible: bool = False,
    posterior: bool = False,
    width: Width | str = Width.ERROR,
) -> Ensemble:
    """Draw models from the uncertainty of a run.

    Base parameters are drawn from N(estimate, covariance). Each draw beta_k is lifted to full parameters by the
    prior's spread S, theta_k = theta + S Q R'^-1 (beta_k - beta), the smallest change in the metric of S. All models
    have the run's shapes, and the covariance is that of the coefficients at these shapes.

    Parameters
    ----------
    run : Identification
        The run.
    count : int
        Number of models, 1 to 10,000.
    seed : int
        Seed; the same seed gives the same models.
    feasible : bool
        Project each draw on the physically consistent parameters, in the metric of the textbook covariance and, where
        that is singular, of the prior.
    posterior : bool
        Draw from the posterior over physically consistent links: what the data do not determine varies as the prior
        does.
    width : Width or str
        "noise": the covariance alone. "error": in addition vary friction and offsets per joint until the standard
        deviation of the models' torque equals the held-out error of the same fit. That error contains what the model
        lacks, which no covariance does.

    Returns
    -------
    Ensemble
        The models.

    Raises
    ------
    UsageError
        If the count or the width is not allowed.
    SolverError
        If no parameters are feasible.

    """
    if not 1 <= count <= MOST:
        raise UsageError("ensemble-count", found=f"{count} models", expected=f"1 to {MOST}")
    if width not in list(Width):
        raise UsageError("ensemble-width", found=f"width '{width}'", expected="error or noise")
    consistent = feasible or posterior
    centre = _model(run, consistent)
    drawn = (
        _posterior(run).sample(count, seed)
        if posterior
        else _drawn_from_covariance(run, count, seed, feasible)
    )
    error = held_out_error(run, consistent) if width == Width.ERROR else np.zeros(0)
    if len(error):
        drawn = _widened(run, drawn, error, seed)
    changes = drawn - drawn.mean(axis=0)
    size = np.array(
        [max(factor.target_square / max(factor.count, 1), 1e-300) for factor in run.factors.total]
    )
    return Ensemble(
        drawn,
        centre,
        run.estimate.group_names,
        _fitted_spread(run, changes @ run.estimate.base.B.T),
        held_out=error / np.sqrt(size) if len(error) else error,
    )


def held_out_error(run: Identification, consistent: bool = True) -> Float:
    """R.m.s. torque error of the run's own fit on contiguous parts of its data, each left out in turn.

    Equations of a joint are skipped where the remaining data contain too little of its motion (`judged_equations`).
    Fits to less data are worse than the run's; how much worse they are on all data is subtracted, down to the run's
    error on its own data. The prior keeps the strength that the run chose, since refits would each search for another.

    `consistent`: whether to take the run's physically consistent links where they differ from its estimate. Result:
    error in N m (N); empty if the data are too short, (n_groups,).

    References
    ----------
    Burman 1989 (bias-corrected cross-validation).

    """
    regression = replace(run.regression, value_only=True)
    factors, estimator = regression.factors, _estimator(run, consistent)
    parts = folds_of(factors)
    if not parts:
        return np.zeros(0)
    base, model = run.estimate.base, _model(run, consistent)
    # The run stores no prior strength for its consistent links, so their fit is repeated here: a fit is compared only
    # with fits of the same kind.
    beside = consistent and len(run.estimate.consistent) > 0
    whole = estimator.fit(regression).full_vector if beside else _full_parameters(run, base.reduce(model))

    def missed(some: Factors, theta: Float) -> Float:
        return np.array([factor.residual_square(theta) for factor in some.total])

    seen = judged_equations(factors, parts)
    count = np.array([max(factor.count, 1) for factor in seen.total])
    fitted = missed(seen, _full_parameters(run, base.reduce(model)))
    square, worse = np.zeros(len(count)), -missed(seen, whole)
    for fold in parts:
        training = replace(regression, factors=factors.subset(fold.training.tolist()))
        theta = estimator.fit(training).full_vector
        held_out = seen.subset(fold.held_out.tolist())
        square += missed(held_out, theta)
        share = np.array([factor.count for factor in held_out.total]) / count
        worse += share * missed(seen, theta)
    return np.asarray(np.sqrt(np.maximum(square - worse, fitted) / count))


def _model(run: Identification, consistent: bool) -> Float:
    """(p,) full parameters of the run's model: its estimate, or its physically consistent links."""
    estimate = run.estimate
    return estimate.consistent if consistent and len(estimate.consistent) else estimate.parameters


def _estimator(run: Identification, consistent: bool) -> Estimator:
    from dynid.estimate import WLS
    from dynid.estimate.feasible import FeasibleFit

    fitted = Experiment.from_dict(run.experiment).settings().estimator
    if isinstance(fitted, FeasibleFit):
        estimate = run.estimate
        if len(estimate.consistent) and not consistent:
            return WLS()
        return fitted
    return fitted if fitted.name in ON_FACTORS else WLS()


def _widened(run: Identification, drawn: Float, error: Float, seed: int) -> Float:
    """Draws with friction and offsets varied in addition, until the torque spread equals the error.

    Each such parameter of a joint contributes the same share of the joint's torque, within its physical bounds.
    """
    estimate, total = run.estimate, run.factors.total
    columns, base = estimate.columns, estimate.base
    rotors = {term.name for term in run.terms if term.traits.kind is Kind.ROTORS}
    free = np.array(
        [c.of is Of.JOINT and c.term not in rotors and not c.absent for c in columns], dtype=np.bool_
    ) & np.any(base.B, axis=0)
    owners = np.array([column.owner for column in columns])
    lower, upper = (np.array([getattr(column, name) for column in columns]) for name in ("lower", "upper"))
    unit = np.zeros(len(columns))
    for j in np.flatnonzero(free):
        torque = max(
            float(np.sum((factor.R[:, :-1] @ _full_parameters(run, base.B[:, j])[factor.columns]) ** 2))
            / max(factor.count, 1)
            for factor in total
        )
        unit[j] = 1.0 / np.sqrt(torque) if torque > 0 else 0.0
    number = len(drawn) if len(drawn) >= _ENOUGH else -(-_DRAWS // len(drawn)) * len(drawn)
    bodies = np.tile(drawn, (number // len(drawn), 1))
    noise = np.random.default_rng([seed, 1]).normal(size=(number, len(columns))) * unit
    joints = {int(owner): _group_of(run, int(owner)) for owner in owners[free & (unit > 0)]}
    spread = {owner: 0.1 * float(error[group]) for owner, group in joints.items()}
    wanted, least = error**2, _variances(run, bodies)

    def varied() -> Float:
        size = np.array(
            [spread.get(int(owner), 0.0) if yes else 0.0 for owner, yes in zip(owners, free, strict=True)]
        )
        return np.asarray(np.where(size > 0, np.clip(bodies + noise * size, lower, upper), bodies))

    for _ in range(_ROUNDS):
        made = _variances(run, varied())
        off = 0.0
        for owner, group in joints.items():
            missing = wanted[group] - least[group]
            if missing <= 0:
                spread[owner] = 0.0
                continue
            ratio = missing / max(made[group] - least[group], 1e-12 * wanted[group])
            spread[owner] *= float(np.clip(np.sqrt(ratio), 0.25, 4.0))
            off = max(off, abs(ratio - 1.0))
        if off < _FOUND:
            break
    return varied()[: len(drawn)]


def _group_of(run: Identification, joint: int) -> int:
    """Index of the equations in which a joint's friction appears: the joint's own group, or the only one."""
    names = run.estimate.group_names
    name = run.robot.joint_names[joint]
    return names.index(name) if name in names else min(joint, len(names) - 1)


def _variances(run: Identification, thetas: Float) -> Float:
    """(g,) mean square torque by which models (N, p) differ from their mean, on the fitted motion."""
    changes = (thetas - thetas.mean(axis=0)) @ run.estimate.base.B.T
    moved = np.zeros((len(thetas), len(run.estimate.columns)))
    moved[:, run.estimate.base.independent] = changes
    return np.array(
        [
            float(np.sum((moved[:, f.columns] @ f.R[:, :-1].T) ** 2))
            / max(len(thetas) - 1, 1)
            / max(f.count, 1)
            for f in run.factors.total
        ]
    )


def _full_parameters(run: Identification, beta: Float) -> Float:
    theta = np.zeros(len(run.estimate.columns))
    theta[run.estimate.base.independent] = beta
    return theta


def _drawn_from_covariance(run: Identification, count: int, seed: int, feasible: bool) -> Float:
    estimate = run.estimate
    values, vectors = np.linalg.eigh(_covariance(run))
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    steps = np.random.default_rng(seed).normal(size=(count, len(values))) @ root.T
    spread = _spread(run)
    nothing = np.zeros(len(estimate.columns))
    lifted = [estimate.base.lift(step, nothing, spread) for step in steps]
    drawn: Float = _model(run, feasible) + np.array(lifted)
    return _projected(run, drawn) if feasible else drawn


def _covariance(run: Identification) -> Float:
    """(b, b) covariance of the base parameters at the run's shapes.

    If shapes were estimated, the covariance of the estimate contains the effect of shapes on coefficients. All models
    share the shapes, and coefficients that varied as if shapes did would cause torque that the data exclude.
    """
    estimate = run.estimate
    if not run.shapes:
        return estimate.covariance
    factors, columns = run.regression.factors, estimate.base.independent
    b = len(columns)
    inverse = solve_triangular(stack(factors.total, columns, estimate.weights)[:b, :b], np.eye(b))
    return block_jackknife(factors, columns, estimate.full_vector, inverse, estimate.weights)[0]


def _posterior(run: Identification) -> Posterior:
    # Imported here because it loads the solver.
    from dynid.estimate.physical import posterior

    return posterior(replace(run.estimate, covariance=_covariance(run)), _spread(run))


def _spread(run: Identification) -> Float:
    return parameter_spread(run.robot, run.estimate.columns, influence(run.factors, run.estimate.base))


def closest_consistent(run: Identification) -> tuple[Float, Float]:
    """Physically consistent parameters closest to the estimate, and the change of torque that they cause.

    These are the run's own links if it has consistent ones. Otherwise they minimise (B theta - beta)' C^-1 (B theta -
    beta) + the prior of the method `map`, with C the textbook covariance of the estimate; for least squares the first
    term is the fit of the data. Limits of a feasible run are kept.

    Results: `theta` (n_parameters,); `change` (n_groups,): r.m.s. change of torque on the fitted motion, relative to
    the measured torque. Raises SolverError if no parameters are feasible.
    """
    from dynid.estimate import WLS
    from dynid.estimate.posterior import MAP

    estimate = run.estimate
    theta = estimate.consistent
    if not len(theta) and estimate.method == MAP().name:
        theta = estimate.parameters
    elif not len(theta):
        regression = replace(run.regression, value_only=True)
        fit = replace(_constrained(run), inner=WLS(), weights="joint")
        theta = fit.around(regression, estimate).parameters
    return theta, _fitted_spread(run, (theta @ estimate.base.B.T - estimate.value)[None])


def _projected(run: Identification, drawn: Float) -> Float:
    """The consistent parameters nearest to each draw in the metric of the textbook covariance, with the prior.

    The covariance of blocks cannot serve as metric: it has at most as many directions as there are blocks.
    """
    return _constrained(run).nearest(run.regression, run.estimate, drawn @ run.estimate.base.B.T)


def _constrained(run: Identification) -> FeasibleFit:
    from dynid.estimate.feasible import FeasibleFit

    if run.estimate.method == "feasible":
        fitted = Experiment.from_dict(run.experiment).settings().estimator
        if isinstance(fitted, FeasibleFit):
            return fitted
    return FeasibleFit()


def _fitted_spread(run: Identification, steps: Float) -> Float:
    moved = np.zeros((len(steps), len(run.estimate.columns)))
    moved[:, run.estimate.base.independent] = steps
    return _torque_spread(moved, run.factors)


def _torque_spread(changes: Float, factors: Factors) -> Float:
    spread = []
    for factor in factors.total:
        moved = changes[:, factor.columns] @ factor.R[:, :-1].T
        size = max(factor.target_square, 1e-300)
        spread.append(float(np.sqrt(np.sum(moved**2) / max(len(changes) - 1, 1) / size)))
    return np.array(spread)
