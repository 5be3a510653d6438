"""Joints that move in step: along how many directions of the joint space a log moves."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.log.absent import STILL
from dynid.signals.samples import Samples

# A direction counts from this share of the joints' mean variance: motion along it is a tenth as fast as they are.
COUNTS = 0.01


@dataclass(frozen=True, eq=False)
class Directions:
    """How many joints move, and along how many directions of their space.

    Eigenvalues of the correlation of the joints' velocities from COUNTS on are counted: joints that move
    independently have as many as there are joints; moves between two poses with one profile have one.
    """

    joints: int
    directions: int

    @property
    def in_step(self) -> bool:
        """Whether half of the directions or fewer are used."""
        return 0 < 2 * self.directions <= self.joints


def directions_of(batches: Iterable[Samples]) -> Directions:
    """The directions along which samples move; joints that stand still are left out."""
    count, total, square, low, high = 0, np.zeros(0), np.zeros((0, 0)), np.zeros(0), np.zeros(0)
    for samples in batches:
        if not len(samples):
            continue
        if not count:
            n = samples.n
            total, square, low, high = np.zeros(n), np.zeros((n, n)), np.full(n, np.inf), np.full(n, -np.inf)
        count += len(samples)
        total, square = total + samples.dq.sum(axis=0), square + samples.dq.T @ samples.dq
        low, high = np.minimum(low, samples.q.min(axis=0)), np.maximum(high, samples.q.max(axis=0))
    moves = high - low > STILL
    if not moves.any():
        return Directions(0, 0)
    mean = total / count
    covariance: Float = (square / count - np.outer(mean, mean))[np.ix_(moves, moves)]
    size = np.sqrt(np.maximum(np.diag(covariance), np.finfo(float).tiny))
    values = np.linalg.eigvalsh(covariance / np.outer(size, size))
    return Directions(int(moves.sum()), int((values >= COUNTS).sum()))
