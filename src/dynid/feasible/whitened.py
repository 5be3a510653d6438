"""Unknowns in which every direction counts alike, however well the data know it."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
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
    def of(rows: Float, reference: Float | None, centre: Float, spread: Float, weight: Float) -> Whitened:
        """rows: (k, p + 1), [X, y] in units of the spread.    weight: (p,) w, of the prior.

        reference: None = the minimum of ||X theta / spread - y||^2 + sum w (theta - centre)^2 / spread^2.
        """
        X, k = rows[:, :-1], len(rows)
        p = X.shape[1]
        Q, R = np.linalg.qr(np.concatenate([X, np.diag(np.sqrt(weight))]))
        if reference is None:
            reference = _without_conditions(rows, centre, spread, weight)
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


def _without_conditions(rows: Float, centre: Float, spread: Float, weight: Float) -> Float:
    # theta = centre + spread x with min ||X x - z||^2 + x' diag(w) x; y stands for A theta, so A centre is taken off.
    X = rows[:, :-1]
    z = rows[:, -1] - X @ (centre / spread)
    p = X.shape[1]
    stacked = np.zeros((len(X) + p, p + 1))
    stacked[: len(X), :p], stacked[: len(X), p], stacked[len(X) :, :p] = X, z, np.diag(np.sqrt(weight))
    R = np.asarray(np.linalg.qr(stacked, mode="r"))
    return np.asarray(centre + spread * solve_triangular(R[:p, :p], R[:p, p]))
