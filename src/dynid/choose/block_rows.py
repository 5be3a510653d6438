"""What every block of a log says of a wide model's columns, group by group: each joint's equations hold few of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.factor.factor import Factors, stack

# Of a column, what a triangle's rows hold of it by rounding.
ROUNDING = 1e-13


@dataclass(frozen=True, eq=False)
class BlockRows:
    """Rows whose squares are those of the blocks' equations: of each group a triangle a block, at the group's weight.

    width: number of columns and target, c + 1.    places: by group those that its rows hold, (w,), the target's c last.
    lines: by group its rows of every block, (w, M, r): a line a column.
    """

    width: int
    places: tuple[Int, ...]
    lines: tuple[Float, ...]

    @staticmethod
    def of(factors: Factors, columns: Int, weights: Float) -> BlockRows:
        """From factors whose columns are all among some, (c,), and the weights (g,) of their groups."""
        position = {int(c): i for i, c in enumerate(columns)}
        places, lines = [], []
        for g, weight in enumerate(weights):
            rows = np.stack([block.groups[g].R for block in factors.blocks])
            # Blocks of fewer equations than columns fill a part of their triangles.
            filled = (np.abs(rows) > ROUNDING * np.linalg.norm(rows, axis=1, keepdims=True)).any(axis=(0, 2))
            own = factors.blocks[0].groups[g].columns
            places.append(np.array([*(position[int(c)] for c in own), len(columns)], dtype=np.int64))
            lines.append(np.sqrt(weight) * np.ascontiguousarray(rows[:, filled].transpose(2, 0, 1)))
        return BlockRows(len(columns) + 1, tuple(places), tuple(lines))

    @staticmethod
    def of_triangles(triangles: Float) -> BlockRows:
        """From triangles (M, c + 1, c + 1) over all columns."""
        width = triangles.shape[-1]
        return BlockRows(width, (np.arange(width),), (np.ascontiguousarray(triangles.transpose(2, 0, 1)),))

    def __len__(self) -> int:
        return int(self.lines[0].shape[1])

    def squares(self, blocks: Int, used: Int, x: Float) -> Float:
        """Squared errors (K, m) of some blocks for values x (u, K) of some columns and the target."""
        value = np.zeros((self.width, x.shape[1]))
        value[used] = x
        among = np.zeros(self.width, dtype=np.bool_)
        among[used] = True
        found = np.zeros((x.shape[1], len(blocks)))
        part = _part(blocks)
        for place, lines in zip(self.places, self.lines, strict=True):
            own = np.flatnonzero(among[place])
            rows = lines[own][:, part] if isinstance(part, slice) else lines[np.ix_(own, part)]
            errors = value[place[own]].T @ rows.reshape(len(own), -1)
            found += np.square(errors, out=errors).reshape(x.shape[1], len(blocks), -1).sum(axis=2)
        return found

    def residualised(self, blocks: Int, kept: Int, behind: Int, solved: Float) -> Float:
        """Columns `behind` (e,) of some blocks less what others (k,) explain of them, solved (k, e); (e, m, R)."""
        number = np.full(self.width, -1)
        number[behind] = np.arange(len(behind))
        of_kept = np.full(self.width, -1)
        of_kept[kept] = np.arange(len(kept))
        part, rows = _part(blocks), [lines.shape[2] for lines in self.lines]
        found = np.zeros((len(behind), len(blocks), sum(rows)))
        first = 0
        for place, lines, r in zip(self.places, self.lines, rows, strict=True):
            own = lines[:, part]
            mine, known = number[place] >= 0, of_kept[place] >= 0
            there = found[:, :, first : first + r]
            there[number[place[mine]]] = own[mine]
            there -= np.tensordot(solved[of_kept[place[known]]].T, own[known], 1)
            first += r
        return found


def _part(blocks: Int) -> slice | Int:
    # Blocks in a row are no copy.
    whole = len(blocks) > 0 and bool((np.diff(blocks) == 1).all())
    return slice(int(blocks[0]), int(blocks[-1]) + 1) if whole else np.asarray(blocks)


def fold_triangles(factors: Factors, blocks: Sequence[Int], columns: Int, weights: Float) -> list[Float]:
    """Triangles (c + 1, c + 1) of several sets of blocks, each merged group by group first."""
    return [stack(factors.subset(own.tolist()).total, columns, weights) for own in blocks]
