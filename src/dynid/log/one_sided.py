"""Efforts that never change their sign while their joint moves both ways, and grow with its speed: supply currents."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place

ONE_SIDED = "one-sided-effort"
# Correlation of such an effort with the speed, and how many times that with the velocity it is. Weight on a joint that
# moves to and fro about the level does as much: alone this proves nothing.
FOLLOWS, RATHER = 0.4, 3.0
# Share of the rows with motion each way.
EACH_WAY = 0.2


class OneSidedWatch:
    """Moments of efforts of one sign with velocity and speed, while the windows of a log pass by.

    names: of the joints.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        n = len(names)
        self._names = names
        self._low, self._high = np.full(n, np.inf), np.full(n, -np.inf)
        self._rows, self._ahead, self._back = np.zeros(n), np.zeros(n), np.zeros(n)
        self._means, self._products = np.zeros((n, 3)), np.zeros((n, 3, 3))

    def see(self, t: Float, q: Float, effort: Float, low: Float, high: Float) -> None:
        """Takes a window t (T,) of positions and efforts (n, T), whose ends are low, high (n,)."""
        self._low, self._high = np.fmin(self._low, low), np.fmax(self._high, high)
        for j in np.flatnonzero(self._of_one_sign & np.isfinite(low)).tolist():
            step = np.diff(t)
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                dq = np.diff(q[j]) / step
            middle = 0.5 * (effort[j, 1:] + effort[j, :-1])
            known = (step > 0) & np.isfinite(dq) & np.isfinite(middle)
            rows = np.column_stack([dq[known], np.abs(dq[known]), np.abs(middle[known])])
            self._rows[j] += len(rows)
            self._ahead[j] += (rows[:, 0] > 0).sum()
            self._back[j] += (rows[:, 0] < 0).sum()
            self._means[j] += rows.sum(axis=0)
            self._products[j] += rows.T @ rows

    def finish(self, moved: Bool, sink: Diagnostics) -> None:
        """Notes such efforts of joints that moved."""
        for j in np.flatnonzero(moved & self._of_one_sign & (self._rows > 0)).tolist():
            count = self._rows[j]
            mean = self._means[j] / count
            with np.errstate(over="ignore", invalid="ignore"):  # of numbers of no size
                covariance = self._products[j] / count - np.outer(mean, mean)
                size = np.sqrt(np.diag(covariance))
            if (
                not (np.isfinite(size) & (size > 0)).all()
                or min(self._ahead[j], self._back[j]) < EACH_WAY * count
            ):
                continue
            velocity, speed = covariance[2, :2] / (size[2] * size[:2])
            if speed > FOLLOWS and speed > RATHER * abs(velocity):
                sink.note(
                    ONE_SIDED,
                    f"an effort from {self._low[j]:.4g} to {self._high[j]:.4g} that never changes its sign while the "
                    f"joint moves both ways, and follows its speed (correlation {speed:.2f}), not its velocity "
                    f"({velocity:.2f})",
                    Place(joint=self._names[j]),
                )

    @property
    def _of_one_sign(self) -> Bool:
        return np.asarray((self._low >= 0) | (self._high <= 0))
