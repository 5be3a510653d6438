"""Blocks that come piece by piece: of a motion that repeats, one of every repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.factor.factor import Block, Factor
from dynid.kernel import qr_panel

# Numbers, 16 MB, of equations that wait for others of their block before they are made a triangle: one of several
# hundred equations takes less time than one of each piece.
WAITING = 2**21


class GrowingBlocks:
    """Blocks by segment and number, in the order in which they begin, and the equations that they have so far."""

    def __init__(self) -> None:
        self._blocks: dict[tuple[int, int], _GrowingBlock] = {}
        # One piece of memory for all that waits. Thousands of small ones, each for as long as it waits, would lie where
        # larger arrays have been freed, and the process would grow by what does not fit between them any more.
        self._room, self._used = np.empty(WAITING), 0

    def take(self, number: int, piece: Block, columns: Sequence[Int], panels: Sequence[Float]) -> None:
        """Adds a piece of a block: its time, motion and stretches, and its equations.

        columns: of each group, see Factor.    panels: (w + 1, T) a group, as Factor.from_panel takes, which are copied.
        """
        key = piece.segment, number
        if key not in self._blocks:
            self._blocks[key] = _GrowingBlock(piece, columns)
        else:
            self._blocks[key].add(piece)
        if sum(panel.size for panel in panels) > len(self._room) - self._used:
            self._settle()
        for group, panel in zip(self._blocks[key].groups, panels, strict=True):
            if panel.size > len(self._room) - self._used:
                group.settle(panel)
                continue
            room = self._room[self._used : self._used + panel.size].reshape(panel.shape)
            room[...] = panel
            self._used += panel.size
            group.waiting.append(room)

    def whole(self) -> list[Block]:
        """The blocks with all equations."""
        self._settle()
        return [block.whole() for block in self._blocks.values()]

    def _settle(self) -> None:
        for block in self._blocks.values():
            for group in block.groups:
                if group.waiting:
                    group.settle(*group.waiting)
                    group.waiting.clear()
        self._used = 0


class _GrowingBlock:
    """What its pieces have of a block, without their equations, and its factors so far."""

    def __init__(self, first: Block, columns: Sequence[Int]) -> None:
        self.groups = [_GrowingFactor(own) for own in columns]
        self._first, self._end = first, first.end
        self._motion = None if first.motion is None else first.motion.copy()
        self._stretches = None if first.stretches is None else first.stretches.tolist()

    def add(self, piece: Block) -> None:
        """A further piece, behind the others in time."""
        self._end = piece.end
        if self._motion is not None and piece.motion is not None:
            self._motion += piece.motion
        if self._stretches is not None and piece.stretches is not None:
            self._stretches += piece.stretches.tolist()

    def whole(self) -> Block:
        """The block with all equations so far."""
        return replace(
            self._first,
            end=self._end,
            groups=tuple(group.factor() for group in self.groups),
            motion=self._motion,
            stretches=None if self._stretches is None else stretches_joined(np.array(self._stretches)),
        )


class _GrowingFactor:
    """A factor of the equations so far, and panels (w + 1, T) of those that wait."""

    def __init__(self, columns: Int) -> None:
        w = len(columns) + 1
        self.waiting: list[Float] = []
        self._columns, self._R, self._sums = columns, np.zeros((0, w)), np.zeros(w)
        self._target_abs, self._count = 0.0, 0

    def settle(self, *panels: Float) -> None:
        """Adds equations to the triangle."""
        whole = np.concatenate([self._R.T, *panels], axis=1)
        new = whole[:, len(self._R) :]
        self._sums += new.sum(axis=1)
        self._target_abs += float(np.abs(new[-1]).sum())
        self._count += new.shape[1]
        self._R = qr_panel(whole)

    def factor(self) -> Factor:
        """That of all equations that do not wait."""
        if not self._count:
            return Factor.empty(self._columns)
        self._R.setflags(write=False)  # which is taken as it is, not copied
        return Factor(self._columns, self._R, self._count, self._sums, self._target_abs)


def stretches_joined(every: Float) -> Float:
    """Stretches (K, 2), first and last time, of several pieces of a block: one that two pieces share is one."""
    first, index = np.unique(every[:, 0], return_inverse=True)
    last = np.full(len(first), -np.inf)
    np.maximum.at(last, index, every[:, 1])
    return np.stack([first, last], axis=1)
