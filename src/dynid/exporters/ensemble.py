"""Ensembles: models drawn from what an identification leaves open, for domain randomisation."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.parallel import default_threads
from dynid.estimate.prior import parameter_spread
from dynid.factor.data_base import influence
from dynid.factor.factor import Factors
from dynid.identification.experiment import Experiment
from dynid.identification.further_log import torque_factors
from dynid.log.read import Log
from dynid.run.regression import regression_of_run
from dynid.run.result import Identification

if TYPE_CHECKING:
    from dynid.estimate.feasible import FeasibleFit
    from dynid.estimate.laplace import Posterior

MOST = 10_000
# A direction that the log determines this much better than the worst counts no more than this.
_SHARPEST = 1e-6
# Between bodies as close to the draw as data weigh them, the prior decides.
_PRIOR_WEIGHT = 1.0


@dataclass(frozen=True, eq=False)
class UnseenSpread:
    """What an ensemble does on a motion that was not fitted, by joint, relative to the measured torque's r.m.s.

    trajectories: names.    spread: (n,) r.m.s. difference of the models' torque from the estimate's.
    error: (n,) r.m.s. error of the estimate's own torque. A spread far below it: the models are more alike than they
    are right, as the covariance knows nothing of effects that the model lacks.
    """

    trajectories: tuple[str, ...]
    spread: Float
    error: Float

    def __post_init__(self) -> None:
        for name in ("spread", "error"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Full parameters of N models, (N, p), and by how much their torque differs from the estimate's.

    spread: (g,) root mean square difference of torque on the fitted motion, relative to the measured torque.
    unseen: the same on a held-out log, None without one.
    """

    parameters: Float
    group_names: tuple[str, ...]
    spread: Float
    unseen: UnseenSpread | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (None, None), "parameters"))
        object.__setattr__(self, "spread", locked(self.spread, (len(self.group_names),), "spread"))


def spread_on(
    run: Identification,
    ensemble: Ensemble,
    log: Log,
    diagnostics: Diagnostics | None = None,
    threads: int | None = None,
) -> Ensemble:
    """The ensemble with its spread of torque on another log, which is prepared as the run's own was.

    Raises UsageError for a log of other joints, UnfitDataError for one without usable samples.
    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    everything = np.ones(len(run.estimate.columns), dtype=np.bool_)
    factors = torque_factors(run, log, everything, sink, threads or default_threads())
    if not factors.blocks:
        raise UnfitDataError(
            "no-samples", found="no usable sample", expected="motion longer than the filters' edges"
        )
    changes = ensemble.parameters - run.estimate.parameters
    theta = run.estimate.full_vector
    error = [
        np.sqrt(factor.residual_square(theta) / max(factor.target_square, 1e-300)) for factor in factors.total
    ]
    names = tuple(dict.fromkeys(block.trajectory for block in factors.blocks))
    return replace(ensemble, unseen=UnseenSpread(names, _torque_spread(changes, factors), np.array(error)))


def sample_parameters(
    run: Identification, count: int, seed: int = 0, feasible: bool = False, posterior: bool = False
) -> Ensemble:
    """Draws base parameters from N(estimate, covariance) and lifts each by the prior: B theta_k = beta_k.

    theta_k = theta + S Q R'^-1 (beta_k - beta), the change closest to none in the metric of the prior's spread S.
    feasible: project every draw on the physically consistent parameters, in the metric of the covariance and, where
    that says nothing, of the prior.
    posterior: draw from the posterior over consistent bodies: what the data leave open varies as the prior does.
    Deterministic for a seed.
    Raises UsageError for a count below 1 or above 10,000, SolverError if no parameters are feasible.
    """
    if not 1 <= count <= MOST:
        raise UsageError("ensemble-count", found=f"{count} models", expected=f"1 to {MOST}")
    estimate = run.estimate
    if posterior:
        drawn = _posterior(run).sample(count, seed)
        return Ensemble(
            drawn, estimate.group_names, _fitted_spread(run, drawn @ estimate.base.B.T - estimate.value)
        )
    values, vectors = np.linalg.eigh(estimate.covariance)
    values = np.maximum(values, 0.0)
    steps = np.random.default_rng(seed).normal(size=(count, len(values))) @ (vectors * np.sqrt(values)).T
    spread = _spread(run)
    nothing = np.zeros(len(estimate.columns))
    drawn = estimate.parameters + np.array([estimate.base.lift(step, nothing, spread) for step in steps])
    if feasible:
        std = np.sqrt(np.maximum(values, _SHARPEST**2 * values.max()))
        drawn = _projected(run, drawn, (vectors / std).T, spread)
        steps = drawn @ estimate.base.B.T - estimate.value
    return Ensemble(drawn, estimate.group_names, _fitted_spread(run, steps))


def _posterior(run: Identification) -> Posterior:
    # The solver is loaded for those that ask for it.
    from dynid.estimate.laplace import posterior

    return posterior(run.estimate, _spread(run))


def _spread(run: Identification) -> Float:
    return parameter_spread(run.robot, run.estimate.columns, influence(run.factors, run.estimate.base))


def closest_real(run: Identification) -> tuple[Float, Float]:
    """Physically consistent parameters (p,) closest to the estimate as the data weigh it, and what they cost.

    Those that the run found itself, if it did. Else min (B theta - beta)' C^-1 (B theta - beta) + entropic distance
    from the prior, C the estimate's textbook covariance, which is the fit of the data itself for least squares. Limits
    of a feasible run hold as well.
    cost: (g,) root mean square change of torque on the fitted motion, relative to the measured torque.
    Raises SolverError if no parameters are feasible.
    """
    from dynid.estimate import WLS

    estimate = run.estimate
    theta = estimate.consistent
    if not len(theta):
        regression = replace(regression_of_run(run), value_only=True)
        fit = replace(_constrained(run), inner=WLS(), strength=_PRIOR_WEIGHT, weights="joint")
        theta = fit.around(regression, estimate).parameters
    return theta, _fitted_spread(run, (theta @ estimate.base.B.T - estimate.value)[None])


def _projected(run: Identification, drawn: Float, whiten: Float, spread: Float) -> Float:
    # The solver is loaded for models that are to be made real alone.
    from dynid.feasible import feasible_parameters

    columns = run.estimate.columns
    prior = np.array([column.prior for column in columns])
    A, held = whiten @ run.estimate.base.B, _constrained(run).constraints()
    return np.array(
        [
            feasible_parameters(A, A @ theta, columns, held, prior, spread, _PRIOR_WEIGHT).parameters
            for theta in drawn
        ]
    )


def _constrained(run: Identification) -> FeasibleFit:
    from dynid.estimate.feasible import FeasibleFit

    if run.estimate.method == "feasible" and "experiment" in run.recipe:
        fitted = Experiment.of_recipe(run.recipe).settings().estimator
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
        spread.append(float(np.sqrt(np.mean(np.sum(moved**2, axis=1)) / size)))
    return np.array(spread)
