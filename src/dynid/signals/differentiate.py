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
    two_before, before, after, two_after = _around(x, at, -2, -1, 1, 2)
    return _to_ends((8.0 * (after - before) - (two_after - two_before)) * (rate / 12.0), at)


def second_difference(x: Float, rate: float, at: Int | None = None) -> Float:
    """Second time derivative along the last axis, of fourth order: exact for polynomials of degree 5.

    ddx_k = (-x_{k+2} + 16 x_{k+1} - 30 x_k + 16 x_{k-1} - x_{k-2}) / (12 h^2); the rest as in first_difference.
    """
    two_before, before, own, after, two_after = _around(x, at, -2, -1, 0, 1, 2)
    outer, inner = two_after + two_before, after + before
    return _to_ends((16.0 * inner - outer - 30.0 * own) * (rate**2 / 12.0), at)


def _around(x: Float, at: Int | None, *shifts: int) -> list[Float]:
    # Samples k + shift of the wanted k; of all that lie two from the ends, without a copy, where none are named.
    T = x.shape[-1]
    if T < 5:
        raise UsageError("too-few-samples", found=f"{T} samples", expected="at least 5 to differentiate")
    if at is None:
        return [x[..., 2 + shift : T - 2 + shift] for shift in shifts]
    k = np.clip(at, 2, T - 3)
    return [x[..., k + shift] for shift in shifts]


def _to_ends(inner: Float, at: Int | None) -> Float:
    if at is not None:
        return np.asarray(inner)
    found = np.empty((*inner.shape[:-1], inner.shape[-1] + 4))
    found[..., 2:-2] = inner
    found[..., :2], found[..., -2:] = inner[..., :1], inner[..., -1:]
    return found
