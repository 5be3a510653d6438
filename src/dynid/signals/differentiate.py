"""Central differences on a uniform grid."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError


def first_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """First time derivative along the last axis, of fourth order: exact for polynomials of degree 4.

    dx_k = (8 (x_{k+1} - x_{k-1}) - (x_{k+2} - x_{k-2})) / (12 h); at frequency f its gain is off by (2 pi f h)^4 / 30.
    The two samples at each end take the value of their inner neighbour.
    x: (..., T), T >= 5.    rate: 1/h, Hz.    at: indices k wanted, None = all.
    """
    k = _inner(x, at)
    return np.asarray(
        (8.0 * (x[..., k + 1] - x[..., k - 1]) - (x[..., k + 2] - x[..., k - 2])) * (rate / 12.0)
    )


def second_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """Second time derivative along the last axis, of fourth order: exact for polynomials of degree 5.

    ddx_k = (-x_{k+2} + 16 x_{k+1} - 30 x_k + 16 x_{k-1} - x_{k-2}) / (12 h^2); the rest as in first_difference.
    """
    k = _inner(x, at)
    outer, inner = x[..., k + 2] + x[..., k - 2], x[..., k + 1] + x[..., k - 1]
    return np.asarray((16.0 * inner - outer - 30.0 * x[..., k]) * (rate**2 / 12.0))


def _inner(x: Float, at: Int | None) -> Int:
    T = x.shape[-1]
    if T < 5:
        raise UsageError("too-few-samples", found=f"{T} samples", expected="at least 5 to differentiate")
    return np.clip(np.arange(T) if at is None else at, 2, T - 3)
