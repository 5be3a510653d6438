"""Instrumental variables as such: their intervals; what they find stands with the other methods."""

from __future__ import annotations

import numpy as np

from dynid.base import Float
from dynid.estimate import BlockScores, Intervals, covariance_of
from dynid.estimate.instrumental import Solved


def test_intervals_of_instruments_are_those_of_their_kind() -> None:
    """The jackknife is what leaving blocks out gives; with the regressor as instrument both are least squares'."""
    rng, M = np.random.default_rng(0), 12
    W = rng.normal(size=(M, 30, 3))
    Z = W + 0.3 * rng.normal(size=W.shape)
    y = W @ np.array([1.0, -2.0, 3.0]) + rng.normal(size=(M, 30))
    segment = np.zeros(M, dtype=np.int64)

    def solved(Z: Float) -> tuple[Solved, Float, Float]:
        A, b = np.einsum("mti,mtj->mij", Z, W), np.einsum("mti,mt->mi", Z, y)
        value = np.linalg.solve(A.sum(axis=0), b.sum(axis=0))
        square = np.eye(3)
        return Solved(value, square, np.ones(1), np.ones(1), square, A, b - A @ value, 1.0), A, b

    found, A, b = solved(Z)
    without = np.array([np.linalg.solve(A.sum(axis=0) - A[m], b.sum(axis=0) - b[m]) for m in range(M)])
    shift = without - without.mean(axis=0)
    jackknifed = (M - 1) / M * shift.T @ shift
    np.testing.assert_allclose(found.jackknife(), jackknifed, rtol=1e-9)
    assert not np.allclose(
        found.covariance("sandwich", segment), found.covariance("jackknife", segment), rtol=1e-3
    )
    plain, A, _ = solved(W)
    inverse = np.linalg.inv(np.linalg.cholesky(A.sum(axis=0))).T
    blocks = BlockScores(
        inverse, np.einsum("ia,mij,jb->mab", inverse, A, inverse), plain.score @ inverse, segment
    )
    for kind in (Intervals.JACKKNIFE, Intervals.SANDWICH):
        np.testing.assert_allclose(plain.covariance(kind, segment), covariance_of(kind, blocks), rtol=1e-6)
