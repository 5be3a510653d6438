"""Total least squares: noise in the regressor as well as in the torque."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base import Float, check_options, dataclass, eigh
from dynid.estimate import (
    WLS,
    Estimate,
    Regression,
    Status,
    completed,
    encoder_noise,
    interval_kind,
    last_move,
    most_rounds,
    require_enough,
    residual_sigma,
)
from dynid.factor import stack

# Least share of torque noise in the residual variance, so that it stays positive.
LEAST_TORQUE_SHARE = 0.05
# Least ratio of residual to assumed noise; it is near one if the assumption is right.
LEAST_RATIO = 0.5


@dataclass(frozen=True)
class TLS:
    """Generalised total least squares: min sum_j [beta; -1]' G_j [beta; -1] / [beta; -1]' C_j [beta; -1].

    G_j = [X y]'[X y] of joint j, and C_j is the covariance of the errors of [X y]: of X, the effect of encoder noise
    on the columns behind all filters (simulated, see dynid.signals.noise); of y, the rest of the residual. This
    removes the bias of least squares under noisy regressors to first order; the estimate is consistent if the noise is
    as assumed. Without known noise of the columns it is weighted least squares.

    Parameters
    ----------
    position_noise : float or sequence of float, optional, rad or m
        Standard deviation of the encoder noise, one number or one per joint. Without it the noise is measured in the
        upper half of the log's frequencies, where no arm moves.
    rounds : int
        Maximum number of iterations.
    tolerance : float
        Last change of the estimate, in standard deviations.
    intervals : str
        Kind of confidence intervals.

    References
    ----------
    Van Huffel and Vandewalle 1991, ch. 10; Gautier, Vandanjon and Presse 1994 for robots.

    """

    position_noise: float | Sequence[float] | None = encoder_noise()
    rounds: int = most_rounds(50)
    tolerance: float = last_move(1e-6)
    intervals: str = interval_kind()
    name: str = "tls"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Alternate between the smallest generalised eigenvector and the noise of the torque."""
        require_enough(regression)
        free = WLS().fit(regression)
        source = regression.source
        noise = None if source is None else source.column_noise(regression.base.mask, self.position_noise)
        if noise is None:
            text = f"{free.status.text}; the noise of the regressor is unknown, so this is weighted least squares"
            return replace(free, method=self.name, status=Status(free.status.ok, text))
        b = regression.base.rank
        total = regression.factors.total
        C = _base_covariances(regression, noise)
        value, sigma = np.array(free.value), np.array(free.sigma)
        ratio, change = 1.0, np.inf
        for _ in range(self.rounds):
            weights = 1.0 / sigma**2
            R = stack(total, regression.base.independent, weights)
            shared = [np.einsum("i,ij,j->", value, covariance, value) for covariance in C]
            torque = [max(s**2 - x, LEAST_TORQUE_SHARE * s**2) for s, x in zip(sigma, shared, strict=True)]
            errors = np.zeros((b + 1, b + 1))
            for f, w, covariance, torque_variance in zip(total, weights, C, torque, strict=True):
                errors[:b, :b] += w * f.count * covariance
                errors[b, b] += w * f.count * torque_variance
            new, ratio = smallest(R, errors)
            change = float(np.linalg.norm(R[:b, :b] @ (new - value)) / np.sqrt(b))
            value = new
            sigma = residual_sigma(regression, value)
            if change < self.tolerance * np.sqrt(regression.factors.count):
                break
        weights = 1.0 / sigma**2
        R = stack(total, regression.base.independent, weights)[:b, :b]
        moved = float(np.linalg.norm(R @ (value - free.value)) / np.sqrt(b))
        status = _status(change < self.tolerance * np.sqrt(regression.factors.count), ratio, moved)
        estimate = completed(self, regression, value, R, weights, sigma, 1.0, None, status)
        # The corrected information, G - ratio C, is smaller than that of least squares.
        corrected = R.T @ R - ratio * sum(
            w * f.count * covariance for w, f, covariance in zip(weights, total, C, strict=True)
        )
        stretch = np.linalg.solve(_positive(corrected, R), R.T @ R)
        return replace(
            estimate,
            covariance=stretch @ estimate.covariance @ stretch.T,
            textbook_covariance=stretch @ estimate.textbook_covariance @ stretch.T,
        )


def smallest(R: Float, errors: Float) -> tuple[Float, float]:
    """Beta (b,) with [beta; -1] the eigenvector of (R'R, errors) of the smallest eigenvalue, and that eigenvalue.

    R: (b + 1, b + 1) triangle of [X y].    errors: (b + 1, b + 1) covariance of the errors of [X y], summed over the
    equations; it may be singular.
    """
    size = np.linalg.norm(R, axis=0)
    size = np.where(size > 0, size, 1.0)
    scaled = R / size
    inner = errors / np.outer(size, size)
    # errors v = (1 / lambda) R'R v: R is regular, so the largest 1 / lambda is safe; errors may be singular.
    values, vectors = eigh(inner, scaled.T @ scaled + 1e-14 * np.eye(len(R)))
    v = vectors[:, -1] / size
    return -v[:-1] / v[-1], float(1.0 / values[-1])


def _base_covariances(regression: Regression, noise: tuple[Float, ...]) -> list[Float]:
    position = {int(c): i for i, c in enumerate(regression.base.independent)}
    covariances = []
    for factor, covariance in zip(regression.factors.total, noise, strict=True):
        place = np.array([position[int(c)] for c in factor.columns])
        whole = np.zeros((regression.base.rank,) * 2)
        whole[np.ix_(place, place)] = covariance
        covariances.append(whole)
    return covariances


def _positive(A: Float, R: Float) -> Float:
    # If noise is as strong as the signal the corrected matrix may become indefinite; the correction is limited there.
    values, vectors = eigh(A, R.T @ R)
    back = (R.T @ R) @ vectors
    return np.asarray((back * np.maximum(values, 0.1)) @ back.T)


def _status(converged: bool, ratio: float, moved: float) -> Status:
    text = f"corrected for noise of the regressor by {moved:.2g} standard deviations; smallest eigenvalue {ratio:.3g}"
    if ratio < LEAST_RATIO:
        text += ": the assumed noise exceeds the residual; give the encoders' true position_noise"
    if not converged:
        text += "; not converged: lower the cut-off, or use 'didim'"
    return Status(bool(converged and ratio >= LEAST_RATIO), text)
