"""Ensembles: models drawn from what an identification leaves open, for domain randomisation."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, locked
from dynid.errors import UsageError
from dynid.estimate.estimator import Estimate
from dynid.estimate.prior import parameter_spread
from dynid.factor.factor import Factors
from dynid.identification import Identification
from dynid.pipeline import influence

MOST = 10_000


@dataclass(frozen=True, eq=False)
class Ensemble:
    """Full parameters of N models, (N, p), and by how much their torque differs from the estimate's.

    spread: (g,) root mean square difference of torque on the fitted motion, relative to the measured torque.
    """

    parameters: Float
    group_names: tuple[str, ...]
    spread: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", locked(self.parameters, (None, None), "parameters"))
        object.__setattr__(self, "spread", locked(self.spread, (len(self.group_names),), "spread"))


def sample_parameters(run: Identification, count: int, seed: int = 0) -> Ensemble:
    """Draws base parameters from N(estimate, covariance) and lifts each by the prior: B theta_k = beta_k.

    theta_k = theta + S Q R'^-1 (beta_k - beta), the change closest to none in the metric of the prior's spread S.
    Deterministic for a seed.
    Raises UsageError for a count below 1 or above 10,000.
    """
    if not 1 <= count <= MOST:
        raise UsageError("ensemble-count", found=f"{count} models", expected=f"1 to {MOST}")
    estimate = run.estimate
    values, vectors = np.linalg.eigh(estimate.covariance)
    root = vectors * np.sqrt(np.maximum(values, 0.0))
    steps = np.random.default_rng(seed).normal(size=(count, len(values))) @ root.T
    spread = parameter_spread(run.robot, estimate.columns, influence(run.factors))
    nothing = np.zeros(len(estimate.columns))
    lifted = np.array([estimate.base.lift(step, nothing, spread) for step in steps])
    return Ensemble(
        estimate.parameters + lifted, estimate.group_names, _torque_spread(estimate, run.factors, steps)
    )


def _torque_spread(estimate: Estimate, factors: Factors, steps: Float) -> Float:
    change = np.zeros((len(steps), len(estimate.columns)))
    change[:, estimate.base.independent] = steps
    spread = []
    for factor in factors.total:
        moved = change[:, factor.columns] @ factor.R[:, :-1].T
        size = max(factor.target_square, 1e-300)
        spread.append(float(np.sqrt(np.mean(np.sum(moved**2, axis=1)) / size)))
    return np.array(spread)
