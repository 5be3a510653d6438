"""Whether neighbouring rows follow one another."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError
from dynid.kernel import line_moments
from dynid.log.log import RawChunk

# Mean square step from row to row over twice the variance: 1 of rows in random order, 1 - cos(2 pi / k) of a sine
# with k rows a period. Motion with fewer than six rows a period is not to be differentiated.
UNRELATED = 0.5
# Whose rows are unrelated, too.
POSES = "poses at rest, one a row, are for `dynid statics --table`"


@dataclass
class OrderWatch:
    """Steps of the positions from row to row beside their spread, while a log passes by.    joints: their number."""

    joints: int
    _last: Float | None = None
    _steps: Float = field(init=False)
    _moments: Float = field(init=False)

    def __post_init__(self) -> None:
        self._steps, self._moments = np.zeros((2, self.joints)), np.zeros((3, self.joints))

    def see(self, chunk: RawChunk) -> None:
        """Looks at the next rows."""
        # Joint by joint in memory, so that sums work along time.
        own = np.ascontiguousarray(chunk.q.T)
        with np.errstate(invalid="ignore", over="ignore"):
            total, square, step_square = line_moments(own).T
            first = own[:, 0] - (own[:, 0] if self._last is None else self._last)
            complete = np.isfinite((square + step_square + first * first).sum())
        rows, steps = np.full((2, len(own)), float(own.shape[1]))
        if complete:
            steps -= self._last is None
            step_square += first * first
        else:
            step = np.diff(own if self._last is None else np.column_stack([self._last, own]))
            fine, known = np.isfinite(own), np.isfinite(step)
            rows, steps = fine.sum(axis=1), known.sum(axis=1)
            there, step = np.where(fine, own, 0.0), np.where(known, step, 0.0)
            total, square, step_square = there.sum(axis=1), np.vecdot(there, there), np.vecdot(step, step)
        self._last = own[:, -1].copy()
        self._steps += [step_square, steps]
        self._moments += [rows, total, square]

    def end(self) -> None:
        """Ends a trajectory: the next row is not its neighbour."""
        self._last = None

    def unrelated(self, moved: Bool | None = None) -> bool:
        """Whether every joint that moved, None = any, jumps from row to row as if rows were picked at random."""
        count, total, square = self._moments
        variance = square / np.maximum(count, 1.0) - (total / np.maximum(count, 1.0)) ** 2
        step = self._steps[0] / np.maximum(self._steps[1], 1.0)
        moved = variance > 0 if moved is None else moved
        return bool(moved.any() and (step[moved] > UNRELATED * 2.0 * variance[moved]).all())

    def finish(self, moved: Bool) -> None:
        """Raises UnfitDataError where rows are unrelated."""
        if self.unrelated(moved):
            raise UnfitDataError(
                "rows-unrelated",
                found="positions of every joint that jump between rows as far as if these were picked at random",
                expected="rows in the order in which they were recorded, many a period of the motion",
                do=f"look for rows that were shuffled or sorted by another column, or a log thinned too far; {POSES}",
            )
