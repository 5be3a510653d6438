"""How much of its dry friction a joint keeps when it has stopped, as the stops of a log show it."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.estimate.scores import Sums
from dynid.terms.at_rest import HALF

# Variance of the share from robot to robot, anywhere between none and all of it, and, as far as a log with few stops
# says nothing of that, from stop to stop.
VARIANCE = 1.0 / 12.0
# s. Shorter ones are where joints turn back together: what they keep is still on its way.
LEAST_STOP = 0.2


@dataclass(frozen=True, eq=False)
class StopSums:
    """What samples at rest say of the friction that joints keep, each (n,): sums that add over batches.

    e: torque missed without dry friction.    x: the dry friction that a joint stopped with; 0 = not known.
    friction, friction_square, product: sums of x, x^2 and e x over samples.
    weight, weight_square, weighted, spread: over stops with means e and x and N samples, the sums of w = N x^2, of w^2,
    of N e x and of N e^2.
    """

    friction: Float
    friction_square: Float
    product: Float
    weight: Float
    weight_square: Float
    weighted: Float
    spread: Float

    def __add__(self, other: StopSums) -> StopSums:
        return StopSums(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))

    @staticmethod
    def of(e: Float, x: Float, stands: Bool, rate: float) -> StopSums:
        """Of samples with e and x (n, T), at rest where `stands` (n, T).    rate: Hz."""
        found = np.zeros((len(fields(StopSums)), len(e)))
        for j in np.flatnonzero(stands.any(axis=1)).tolist():
            found[:, j] = _of_joint(e[j, stands[j]], x[j, stands[j]], np.flatnonzero(stands[j]), rate)
        return StopSums(*found)

    @property
    def share(self) -> Float:
        """The share that joints keep, (n,), within 0 and 1.

        (S k + V HALF) / (S + V): k the mean over stops, weighted by w, V the variance of k from stop to stop over their
        effective number (sum w)^2 / sum w^2, S = VARIANCE that of the guess of a half.
        """
        # Of friction so small that its square is none nothing is known.
        known = self.weight_square > 0
        weight = np.where(known, self.weight, 1.0)
        mean = self.weighted / weight
        stops = weight**2 / np.where(known, self.weight_square, 1.0)
        varied = np.maximum(self.spread / weight - mean**2, 0.0) * stops
        variance = (VARIANCE + varied) / stops**2
        found = (VARIANCE * mean + variance * HALF) / (VARIANCE + variance)
        return np.asarray(np.clip(np.where(known, found, HALF), 0.0, 1.0))

    def predicted(self, sums: Sums, share: Float) -> Sums:
        """Sums that hold these samples, a share (n,) of x predicted in place of no dry friction."""
        return replace(
            sums,
            error=sums.error - share * self.friction,
            error_square=sums.error_square - 2.0 * share * self.product + share**2 * self.friction_square,
        )


def _of_joint(e: Float, x: Float, index: Int, rate: float) -> tuple[float, ...]:
    """The sums of one joint's samples at rest, (T,) each, in the order of the fields.    index: of these samples."""
    starts = np.flatnonzero(np.diff(index, prepend=index[0] - 2) > 1)
    lengths = np.diff(starts, append=len(index))
    long = lengths >= LEAST_STOP * rate
    e_mean, x_mean = ((np.add.reduceat(line, starts) / lengths)[long] for line in (e, x))
    N = np.where(x_mean != 0, lengths[long], 0)
    w = N * x_mean**2
    sums = (x, x**2, e * x, w, w**2, N * e_mean * x_mean, N * e_mean**2)
    return tuple(float(one.sum()) for one in sums)
