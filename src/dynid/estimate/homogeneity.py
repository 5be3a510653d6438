"""Do parts of the data have the same parameters? A test that holds when residuals are autocorrelated."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.distributions import f_tail
from dynid.base.errors import UsageError
from dynid.base.records import dataclass

# Directions of a part's information below this share of its greatest say nothing.
_NOTHING = 1e-12


@dataclass(frozen=True, eq=False)
class Part:
    """The same r parameters, estimated from one part of the data.

    value: (r,).    information: (r, r), the inverse of the textbook covariance.
    scatter: (r, M), a column a block: the covariance of the value is scatter scatter'.
    """

    value: Float
    information: Float
    scatter: Float

    def __post_init__(self) -> None:
        r = len(self.value)
        object.__setattr__(self, "value", locked(self.value, (r,), "value"))
        object.__setattr__(self, "information", locked(self.information, (r, r), "information"))
        object.__setattr__(self, "scatter", locked(self.scatter, (r, None), "scatter"))


@dataclass(frozen=True, eq=False)
class Homogeneity:
    """How much better the data are fitted when every part has parameters of its own, and what chance would give.

    statistic: T = sum_k (beta_k - pooled)' A_k (beta_k - pooled).    expected: its mean if all are the same.
    freedom, known: of the F distribution of statistic / expected then.    p_value: of that.
    spread: standard deviation of the statistic then.
    pooled: (r,) parameters in common, A^-1 sum A_k beta_k.    away: (K, r) beta_k - pooled.
    noise: (K, r, S), away's covariance is noise_k noise_k'.
    """

    statistic: float
    expected: float
    freedom: float
    known: float
    p_value: float
    spread: float
    pooled: Float
    away: Float
    noise: Float

    @property
    def ratio(self) -> float:
        """Statistic over its expectation: 1 = as chance has it."""
        return self.statistic / self.expected


def homogeneity(parts: Sequence[Part], free: Sequence[Float] | None = None) -> Homogeneity:
    """Tests whether parts have the same parameters, whatever the correlation of residuals within blocks.

    T is the weighted sum of squares that pooling adds (Chow's statistic). With T = u' P u, u_k = A_k^1/2 beta_k and
    P the projection off what the parts have in common, its mean is tr P V and its variance 2 tr (P V)^2, with V from
    the blocks; the part of tr (P V)^2 that few blocks alone bring is taken off.
    free: by part, (r, f_k) directions in which it may differ.
    Raises UsageError for fewer than two parts.
    Source: Chow 1960; Rao and Scott 1984 (second-order correction); Bell and McCaffrey 2002.
    """
    if len(parts) < 2:
        raise UsageError("one-part", found="one part of the data", expected="at least two to be compared")
    r, K = len(parts[0].value), len(parts)
    size = 1.0 / np.sqrt(np.maximum(np.diag(sum(part.information for part in parts)), 1e-300))
    roots, inverses, u = [], [], []
    for part in parts:
        root, inverse = _roots(part.information * np.outer(size, size))
        roots.append(root)
        inverses.append(inverse)
        u.append(root @ (part.value / size))
    common = np.concatenate(roots)
    directions = [common]
    for k, own in enumerate(free or ()):
        block = np.zeros((K * r, own.shape[1]))
        block[k * r : (k + 1) * r] = roots[k] @ (own / size[:, None])
        directions.append(block)
    basis = _orthonormal(np.concatenate(directions, axis=1))
    stacked = np.concatenate(u)
    rest = stacked - basis @ (basis.T @ stacked)
    counts = [part.scatter.shape[1] for part in parts]
    Z = np.zeros((K * r, sum(counts)))
    ends = np.cumsum([0, *counts])
    for k, part in enumerate(parts):
        Z[k * r : (k + 1) * r, ends[k] : ends[k + 1]] = roots[k] @ (part.scatter / size[:, None])
    Y = Z - basis @ (basis.T @ Z)
    gram = Z.T @ Y
    expected = float(np.trace(gram))
    square, doubt = float(np.sum(gram**2)), 0.0
    for k, n in enumerate(counts):
        own = gram[ends[k] : ends[k + 1], ends[k] : ends[k + 1]]
        seen, trace, known = float(np.sum(own**2)), float(np.trace(own)), max(n - 1, 2)
        true = max((seen - trace**2 / known) * known**2 / ((known - 1) * (known + 2)), trace**2 / r)
        square += min(true, seen) - seen
        doubt += 2.0 * min(true, seen) / known
    statistic = float(rest @ rest)
    freedom, sure = expected**2 / square, 2.0 * expected**2 / doubt
    pooled = np.linalg.lstsq(common, stacked, rcond=None)[0]
    return Homogeneity(
        statistic=statistic,
        expected=expected,
        freedom=freedom,
        known=sure,
        p_value=float(f_tail(freedom, sure, statistic / expected)),
        spread=float(np.sqrt(2.0 * square)),
        pooled=size * pooled,
        away=np.array([size * (inverses[k] @ rest[k * r : (k + 1) * r]) for k in range(K)]),
        noise=np.array([size[:, None] * (inverses[k] @ Y[k * r : (k + 1) * r]) for k in range(K)]),
    )


def _roots(A: Float) -> tuple[Float, Float]:
    values, vectors = np.linalg.eigh(A)
    kept = values > _NOTHING * values[-1]
    root = np.sqrt(np.where(kept, values, 0.0))
    inverse = np.where(kept, 1.0 / np.where(kept, root, 1.0), 0.0)
    return (vectors * root) @ vectors.T, (vectors * inverse) @ vectors.T


def _orthonormal(columns: Float) -> Float:
    norms = np.linalg.norm(columns, axis=0)
    U, s, _ = np.linalg.svd(columns / np.where(norms > 0, norms, 1.0), full_matrices=False)
    return np.asarray(U[:, s > 1e-9])


def combined(tests: Sequence[Homogeneity]) -> Homogeneity:
    """Several independent tests as one, such as of the halves of several runs; without parameters in common."""
    expected = sum(test.expected for test in tests)
    square = sum(test.spread**2 for test in tests) / 2.0
    doubt = sum(2.0 * test.expected**2 / test.known for test in tests)
    statistic = sum(test.statistic for test in tests)
    freedom, known = expected**2 / square, 2.0 * expected**2 / doubt
    return Homogeneity(
        statistic=statistic,
        expected=expected,
        freedom=freedom,
        known=known,
        p_value=float(f_tail(freedom, known, statistic / expected)),
        spread=float(np.sqrt(2.0 * square)),
        pooled=np.zeros(0),
        away=np.zeros((0, 0)),
        noise=np.zeros((0, 0, 0)),
    )
