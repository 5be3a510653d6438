"""Blocks that come piece by piece: of a motion that repeats, one of every repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.factor.factor import Block, Factor, sum_of
from dynid.kernel import qr_panel

# Equations of a group that wait for others before they are made a triangle: one of several hundred takes less time than
# one of each piece.
WAITING = 256
# Numbers in all equations that wait, 16 MB: many blocks that are not growing any more would hold more than a pass does.
AT_MOST = 2**21


class GrowingBlocks:
    """Blocks by segment and number, in the order in which they begin, and the equations that they have so far."""

    def __init__(self) -> None:
        self._pieces: dict[tuple[int, int], list[Block]] = {}
        self._groups: dict[tuple[int, int], list[_GrowingFactor]] = {}
        self._waiting = 0

    def take(self, number: int, piece: Block, columns: Sequence[Int], panels: Sequence[Float]) -> None:
        """Adds a piece of a block: its time, motion and stretches, and its equations.

        columns: of each group, see Factor.    panels: (w + 1, T) a group, as Factor.from_panel takes; they may be parts
        of larger arrays.
        """
        key = piece.segment, number
        if key not in self._pieces:
            self._pieces[key], self._groups[key] = [], [_GrowingFactor(own) for own in columns]
        self._pieces[key].append(piece)
        for group, panel in zip(self._groups[key], panels, strict=True):
            self._waiting += group.take(panel)
        if self._waiting > AT_MOST:
            for groups in self._groups.values():
                for group in groups:
                    group.settle()
            self._waiting = 0

    def whole(self) -> list[Block]:
        """The blocks with all equations."""
        return [
            pieces_joined(pieces, tuple(group.factor() for group in self._groups[key]))
            for key, pieces in self._pieces.items()
        ]


class _GrowingFactor:
    """A factor of the equations so far, and those that wait."""

    def __init__(self, columns: Int) -> None:
        w = len(columns) + 1
        self._columns, self._R, self._sums, self._target_abs = columns, np.zeros((0, w)), np.zeros(w), 0.0
        self._waiting: list[Float] = []
        self._count = self._waits = 0

    def take(self, panel: Float) -> int:
        """Adds equations (w + 1, T); by how many numbers more wait now."""
        before = self._waits
        # A part of a larger panel would keep all of it in memory.
        self._waiting.append(panel if panel.shape[1] >= WAITING or panel.base is None else panel.copy())
        self._waits += panel.shape[1]
        if self._waits >= WAITING:
            self.settle()
        return (self._waits - before) * len(panel)

    def settle(self) -> None:
        """Works out the triangle of all equations so far."""
        if not self._waits:
            return
        new = self._waiting[0] if len(self._waiting) == 1 else np.concatenate(self._waiting, axis=1)
        self._sums += new.sum(axis=1)
        self._target_abs += float(np.abs(new[-1]).sum())
        self._R = qr_panel(np.concatenate([self._R.T, new], axis=1))
        self._count += self._waits
        self._waiting, self._waits = [], 0

    def factor(self) -> Factor:
        """That of all equations."""
        self.settle()
        if not self._count:
            return Factor.empty(self._columns)
        self._R.setflags(write=False)  # which is taken as it is, not copied
        return Factor(self._columns, self._R, self._count, self._sums, self._target_abs)


def pieces_joined(pieces: Sequence[Block], groups: tuple[Factor, ...]) -> Block:
    """One block of consecutive pieces of one segment, or of one part of a motion, with the equations of all."""
    if len(pieces) == 1:
        return replace(pieces[0], groups=groups)
    stretches = [block.stretches for block in pieces if block.stretches is not None]
    both = pieces[0].stretches
    if len(stretches) == len(pieces):
        every = np.concatenate(stretches)
        # One that two pieces share comes from each of them.
        first, index = np.unique(every[:, 0], return_inverse=True)
        last = np.full(len(first), -np.inf)
        np.maximum.at(last, index, every[:, 1])
        both = np.stack([first, last], axis=1)
    motion = sum_of([block.motion for block in pieces])
    return replace(pieces[0], end=pieces[-1].end, groups=groups, motion=motion, stretches=both)
