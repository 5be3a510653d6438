"""Nonlinear fits of physically consistent links: every set of log-Cholesky coordinates is such a link."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.feasible.bodies import body_columns, body_scale, plausible
from dynid.spatial.inertia import (
    LOG_CHOLESKY_SHEARS,
    from_pseudo_inertia,
    log_cholesky,
    log_cholesky_factor,
    pseudo_inertia,
)
from dynid.terms.term import Column

# Greatest change of a coordinate in one fit; beyond it exponentials overflow.
FAR = 5.0


@dataclass(frozen=True, eq=False)
class Chart:
    """Coordinates x (p,) of parameters: log-Cholesky for links, scaled by their typical size; others over their spread.

    Attributes
    ----------
    bodies : ndarray of int, shape (n, 10)
        Columns of each link.
    scale : ndarray, shape (n, 4)
        Congruences D, P = D^-1 U U' D^-1.
    spread : ndarray, shape (p,)
        Typical sizes.
    lower, upper : ndarray, shape (p,)
        Bounds of x; links have none.

    References
    ----------
    Rucker and Wensing 2022.

    """

    bodies: Int
    scale: Float
    spread: Float
    lower: Float
    upper: Float

    @staticmethod
    def of(columns: tuple[Column, ...], spread: Float) -> Chart:
        """Coordinates for the columns of a model with typical sizes spread (p,)."""
        bodies = body_columns(columns)
        lower = np.array([c.lower for c in columns]) / spread
        upper = np.array([c.upper for c in columns]) / spread
        absent = [c.absent for c in columns]
        lower[absent], upper[absent] = -np.inf, np.inf
        lower[bodies], upper[bodies] = -np.inf, np.inf
        scale = np.array([body_scale(spread[ten]) for ten in bodies]).reshape(-1, 4)
        return Chart(bodies, scale, spread, lower, upper)

    def coordinates(self, theta: Float) -> Float:
        """Coordinates of parameters; raises UsageError for a link that is not strictly physical."""
        x = theta / self.spread
        for ten, D in zip(self.bodies, self.scale, strict=True):
            P = pseudo_inertia(theta[ten]) * np.outer(D, D)
            x[ten] = log_cholesky(from_pseudo_inertia(P))
        return np.clip(x, self.lower, self.upper)

    def parameters(self, x: Float) -> Float:
        """Parameters of coordinates, always physical."""
        theta = x * self.spread
        U = log_cholesky_factor(x[self.bodies])
        theta[self.bodies] = _ten_parameters(U @ U.transpose(0, 2, 1) / self._squares())
        return np.asarray(theta)

    def jacobian(self, x: Float) -> Float:
        """Derivative d theta / d x, (p, p): a 10 x 10 block per link, diagonal elsewhere."""
        J = np.diag(self.spread)
        U = log_cholesky_factor(x[self.bodies])
        dU = np.zeros((10, *U.shape))
        dU[0] = U
        for k in range(3):
            dU[1 + k, :, k, k] = U[:, k, k]
        for k, (i, j) in enumerate(LOG_CHOLESKY_SHEARS):
            dU[4 + k, :, i, j] = U[:, 3, 3]
        half = dU @ U.transpose(0, 2, 1)
        slopes = _ten_parameters((half + half.transpose(0, 1, 3, 2)) / self._squares())
        for b, ten in enumerate(self.bodies):
            J[np.ix_(ten, ten)] = slopes[:, b].T
        return J

    def _squares(self) -> Float:
        return np.asarray(self.scale[:, :, None] * self.scale[:, None, :])


def _ten_parameters(P: Float) -> Float:
    # (..., 10) parameters of pseudo-inertias (..., 4, 4).
    xx, yy, zz = P[..., 0, 0], P[..., 1, 1], P[..., 2, 2]
    return np.stack(
        [P[..., 3, 3], P[..., 0, 3], P[..., 1, 3], P[..., 2, 3],
         yy + zz, -P[..., 0, 1], xx + zz, -P[..., 0, 2], -P[..., 1, 2], xx + yy],
        axis=-1,
    )  # fmt: skip


def refine(
    A: Float,
    y: Float,
    columns: tuple[Column, ...],
    start: Float,
    prior: Float,
    spread: Float,
    strength: float,
) -> Float:
    """Nonlinear least squares over physically consistent links.

    min ||A theta(x) - y||^2 + strength ||(theta(x) - prior) / spread||^2 over the coordinates x. The solver starts
    from `start` and uses exact gradients.

    Parameters
    ----------
    A : ndarray, shape (r, p)
        Equations.
    y : ndarray, shape (r,)
        Right side.
    columns : tuple of Column
        Columns of the model.
    start : ndarray, shape (p,)
        Strictly physical parameters.
    prior, spread : ndarray, shape (p,)
        Prior, and typical sizes.
    strength : float
        Weight of the prior.

    Returns
    -------
    ndarray, shape (p,)
        Strictly physical parameters, never with a greater objective than start.

    Raises
    ------
    UsageError
        If start is not strictly physical.

    """
    from scipy.optimize import least_squares

    chart = Chart.of(columns, spread)
    pull = np.sqrt(strength) / spread
    centre = plausible(columns, prior, spread)

    def residual(x: Float) -> Float:
        theta = chart.parameters(x)
        return np.concatenate([A @ theta - y, pull * (theta - centre)])

    def derivative(x: Float) -> Float:
        J = chart.jacobian(x)
        return np.concatenate([A @ J, pull[:, None] * J])

    first = chart.coordinates(start)
    # The solver must start strictly inside the bounds.
    bounds = np.maximum(chart.lower, first - FAR), np.minimum(chart.upper, first + FAR)
    inside = np.clip(first, bounds[0] + 1e-9, bounds[1] - 1e-9)
    solution = least_squares(
        residual,
        inside,
        derivative,
        bounds=bounds,
        method="trf",
        x_scale="jac",
        max_nfev=100,
    )
    better = 2.0 * solution.cost <= float(np.sum(residual(first) ** 2))
    return chart.parameters(solution.x if better else first)
