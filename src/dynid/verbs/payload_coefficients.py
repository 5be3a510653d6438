"""What the unknowns of an estimate of a load make of the coefficients of one joint's equations."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass

# Coefficients in these columns are the unknowns at these places, in torque of which so many unknowns are logs.
Part = tuple[Int, Int, Sequence[int]]


@dataclass(frozen=True, eq=False)
class Coefficients:
    """c[row] = sum of x[place] exp(-sum of x[logs]) over entries, in torque of declared units.

    width: number of coefficients.    used: (m,) places of the unknowns that appear, ascending.
    row, place, column: (entries,) which coefficient, which unknown, and where it is in `used`.    part: (entries,)
    line of logs.    logs, log_columns: (parts, most) places of logs and where they are in `used`, filled up with one
    more than the unknowns, and with m.
    """

    width: int
    used: Int
    row: Int
    place: Int
    column: Int
    part: Int
    logs: Int
    log_columns: Int

    @staticmethod
    def of(parts: Sequence[Part], columns: Int, count: int) -> Coefficients:
        """Of equations with these columns (w,), and so many unknowns; what is in none of them is left out."""
        rows = {int(column): k for k, column in enumerate(columns)}
        entries = [
            (rows[column], place, k)
            for k, (own, places, _) in enumerate(parts)
            for column, place in zip(own.tolist(), places.tolist(), strict=True)
            if column in rows
        ]
        row, place, part = np.array(entries, dtype=np.int64).reshape(-1, 3).T
        most = max((len(logs) for *_, logs in parts), default=0)
        logs = np.array([[*logs, *[count] * (most - len(logs))] for *_, logs in parts], dtype=np.int64)
        used = np.unique(np.concatenate([place, logs[logs < count]]))
        where = np.full(count + 1, len(used))
        where[used] = np.arange(len(used))
        return Coefficients(len(columns), used, row, place, where[place], part, logs, where[logs])

    def _entries(self, x: Float) -> tuple[Float, Float]:
        size = np.exp(-np.append(x, 0.0)[self.logs].sum(axis=1))[self.part]
        return size, size * x[self.place]

    def values(self, x: Float) -> Float:
        """(w,) at unknowns (count,)."""
        return np.asarray(np.bincount(self.row, self._entries(x)[1], self.width), dtype=np.float64)

    def slopes(self, x: Float) -> Float:
        """(w, m) by the unknowns that appear."""
        size, values = self._entries(x)
        J = np.zeros((self.width, len(self.used) + 1))
        J[self.row, self.column] = size
        for column in self.log_columns.T:
            np.subtract.at(J, (self.row, column[self.part]), values)
        return J[:, :-1]
