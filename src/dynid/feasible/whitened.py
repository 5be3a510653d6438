"""Unknowns in which every direction counts alike, however well the data know it."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.base.arrays import Float
from dynid.kernel import solve_triangular


@dataclass(frozen=True, eq=False)
class Whitened:
    """theta = reference + spread T u, with ||X (theta - reference) / spread + start||^2 = ||data u + start||^2.

    T: (p, p), the inverse of R in [X; diag(sqrt(w))] = Q R.    data: (k, p), upper part of Q.    prior: (p, p), lower
    part, diag(sqrt(w)) T. Orthonormal together, so no square of a condition number comes in.    start: (k,).
    away: (p,) (reference - centre) / spread.
    """

    reference: Float
    spread: Float
    T: Float
    R: Float
    data: Float
    prior: Float
    start: Float
    away: Float

    @staticmethod
    def of(rows: Float, reference: Float, centre: Float, spread: Float, weight: Float) -> Whitened:
        """rows: (k, p + 1), [X, y] in units of the spread.    weight: (p,) w, of the prior."""
        X, k = rows[:, :-1], len(rows)
        p = X.shape[1]
        Q, R = np.linalg.qr(np.concatenate([X, np.diag(np.sqrt(weight))]))
        return Whitened(
            reference,
            spread,
            solve_triangular(R, np.eye(p)),
            R,
            Q[:k],
            Q[k:],
            X @ (reference / spread) - rows[:, -1],
            (reference - centre) / spread,
        )

    @cached_property
    def gram(self) -> Float:
        """Data' data, (p, p)."""
        return np.asarray(self.data.T @ self.data)

    def theta(self, u: Float) -> Float:
        """Parameters (p,)."""
        return np.asarray(self.reference + self.spread * (self.T @ u))

    def unknowns(self, theta: Float) -> Float:
        """The unknowns u (p,) of parameters."""
        return np.asarray(self.R @ ((theta - self.reference) / self.spread))
