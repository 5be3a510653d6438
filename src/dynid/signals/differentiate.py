"""Central differences on a uniform grid."""

from __future__ import annotations

import numpy as np

from dynid.arrays import Float


def first_difference(x: Float, rate: float) -> Float:
    """First time derivative along the last axis, fourth order inside, second order at the two samples of each end.

    dx_k = (8 (x_{k+1} - x_{k-1}) - (x_{k+2} - x_{k-2})) / (12 h): exact for polynomials of degree 4; at frequency f its
    gain is off by (2 pi f h)^4 / 30.    x: (..., T).    rate: 1/h in Hz.
    """
    d = np.gradient(x, axis=-1, edge_order=2 if x.shape[-1] > 2 else 1) * rate
    if x.shape[-1] >= 5:
        d[..., 2:-2] = (8.0 * (x[..., 3:-1] - x[..., 1:-3]) - (x[..., 4:] - x[..., :-4])) * (rate / 12.0)
    return np.asarray(d)


def second_difference(x: Float, rate: float) -> Float:
    """Second time derivative along the last axis, fourth order inside, second order near the ends.

    ddx_k = (-x_{k+2} + 16 x_{k+1} - 30 x_k + 16 x_{k-1} - x_{k-2}) / (12 h^2): exact for polynomials of degree 5.
    """
    d = np.zeros_like(x)
    if x.shape[-1] < 3:
        return d
    d[..., 1:-1] = (x[..., 2:] - 2.0 * x[..., 1:-1] + x[..., :-2]) * rate**2
    d[..., 0], d[..., -1] = d[..., 1], d[..., -2]
    if x.shape[-1] >= 5:
        outer, inner = x[..., 4:] + x[..., :-4], x[..., 3:-1] + x[..., 1:-3]
        d[..., 2:-2] = (16.0 * inner - outer - 30.0 * x[..., 2:-2]) * (rate**2 / 12.0)
    return d
