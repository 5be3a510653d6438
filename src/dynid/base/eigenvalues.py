"""Eigenvalues of symmetric matrices in the metric of others."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float


def generalised_eigenvalues(a: Float, metric: Float) -> Float:
    """The w (..., n), ascending, with a v = w metric v; a symmetric, metric positive definite, (..., n, n).

    Raises LinAlgError for a metric that is not.    Source: Golub and Van Loan 2013, section 8.7.2.
    """
    L = np.linalg.cholesky(metric)
    half = np.linalg.solve(L, a)
    return np.asarray(np.linalg.eigvalsh(np.linalg.solve(L, half.swapaxes(-1, -2))))
