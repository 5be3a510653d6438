"""How far the true torque may lie from a model's: by the covariance of a run and what it left."""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.factor.base import BaseMap
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

# Standard deviations that torque limits keep free: 99.9 % of normal errors on one side.
SIGMAS = 3.0
# N m: keeps the root differentiable where nothing is uncertain.
_FLOOR = 1e-9


@dataclass(frozen=True, eq=False)
class TorqueSpread:
    """Deviation of the torque about a model's, sigma^2 = y Cov y' + r^2 for a line y of the regressor.

    covariance: (p, p) of the parameters, zero where they are not identified by themselves.
    residual: r (n,), N m (N), level of what the model left.    sigmas: z, how many deviations limits keep free.
    complete: whether the run determines every base parameter that a motion can.
    Raises UsageError for numbers that are not finite or below zero.
    """

    covariance: Float
    residual: Float
    sigmas: float = SIGMAS
    complete: bool = True

    def __post_init__(self) -> None:
        p = len(self.covariance)
        object.__setattr__(self, "covariance", locked(self.covariance, (p, p), "covariance"))
        object.__setattr__(self, "residual", locked(self.residual, (None,), "residual"))
        good = np.isfinite(self.covariance).all() and np.isfinite(self.residual).all()
        if not (good and (self.residual >= 0).all() and np.isfinite(self.sigmas) and self.sigmas >= 0):
            raise UsageError(
                "torque-spread",
                found=f"{self.sigmas} deviations, or a covariance that is not finite",
                expected="finite numbers, 0 or more deviations",
            )

    @staticmethod
    def of(
        base: BaseMap, covariance: Float, residual: Float, rank: int, sigmas: float = SIGMAS
    ) -> TorqueSpread | None:
        """That of base parameters; None where they have no covariance (b, b).

        rank: of the structural base.
        """
        if not np.isfinite(covariance).all() or not covariance.any():
            return None
        whole = np.zeros((base.B.shape[1],) * 2)
        at = base.independent
        whole[np.ix_(at, at)] = covariance
        return TorqueSpread(whole, residual, sigmas, len(at) >= rank)

    @property
    def rate(self) -> float:
        """Share of torques that stay within a limit that they come nearest to, at one instant: Phi(z)."""
        return 0.5 * (1.0 + math.erf(self.sigmas / math.sqrt(2.0)))

    @cached_property
    def _known(self) -> Bool:
        return np.asarray(np.diag(self.covariance) > 0)

    @cached_property
    def root(self) -> Float:
        """(p, r) with root root' the covariance; a draw of the parameters is root times normal numbers."""
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > 0
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))

    def panels(self, robot: RobotModel, terms: Terms, samples: Samples) -> Panels:
        """The regressor in the columns that have a covariance."""
        return terms.torque_regressor(robot, samples, self._known)

    def about(self, robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> tuple[Float, Float]:
        """Torque of the model with parameters theta (p,) along a motion, and its deviations, (T, n) each."""
        found = self.panels(robot, terms, samples)
        # The lines of the regressor give the torque, too, but of bodies, whose recursion is quicker.
        bodies = [np.full(len(own), term.of_bodies) for term, own in terms.with_values(robot, theta)]
        rest = np.where(self._known & ~np.concatenate(bodies), 0.0, theta)
        tau = terms.torque(robot, samples, rest)
        sigma = np.empty_like(tau)
        for j, (columns, values) in enumerate(zip(found.columns, found.values, strict=True)):
            tau[:, j] += (theta - rest)[columns] @ values
            sigma[:, j] = self._std(j, columns, values)[0]
        return tau, sigma

    def slope(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        """Deviations (T,) of a joint and its derivatives (w, T) by the entries of its line of the regressor."""
        sigma, spread = self._std(joint, columns, values)
        return sigma, spread / sigma

    def _std(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        spread = self.covariance[np.ix_(columns, columns)] @ values
        square = np.einsum("wt,wt->t", values, spread)
        return np.sqrt(np.maximum(square, 0.0) + self.residual[joint] ** 2 + _FLOOR**2), spread
