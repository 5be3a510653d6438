"""Blocks that come piece by piece: of a motion that repeats, one of every repetition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.factor.blocking import Cut
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

    def take(
        self, cut: Cut, motion: Float, columns: Sequence[Int], panels: Sequence[Float], edges: Sequence[Int]
    ) -> None:
        """Adds what a batch has of the blocks that it is cut into.

        motion: (n, B) of each block, see Block.    columns: of each group, see Factor.
        panels: (w + 1, T) a group, as Factor.from_panel takes, in the blocks' order; they are copied.
        edges: (B + 1,) a group, where the equations of each block begin, and their number.
        """
        blocks = [self._block(cut, place, motion[:, place], columns) for place in range(len(cut.numbers))]
        if sum(panel.size for panel in panels) > len(self._room) - self._used:
            self._settle()
        for group, (panel, own) in enumerate(zip(panels, edges, strict=True)):
            waits = panel.size <= len(self._room) - self._used
            held = self._kept(panel) if waits else panel
            for block, (a, b) in zip(blocks, pairwise(own.tolist()), strict=True):
                if a == b:
                    continue
                if waits:
                    block.groups[group].waiting.append(held[:, a:b])
                else:
                    block.groups[group].settle(held[:, a:b])

    def whole(self) -> list[Block]:
        """The blocks with all equations."""
        self._settle()
        return [block.whole() for block in self._blocks.values()]

    def _block(self, cut: Cut, place: int, motion: Float, columns: Sequence[Int]) -> _GrowingBlock:
        key = cut.segment, cut.numbers[place]
        known = self._blocks.get(key)
        if known is None:
            made = self._blocks[key] = _GrowingBlock(cut.block(place), motion, columns)
            return made
        known.add(cut.ends[place], motion, cut.stretches[place])
        return known

    def _kept(self, panel: Float) -> Float:
        room = self._room[self._used : self._used + panel.size].reshape(panel.shape)
        room[...] = panel
        self._used += panel.size
        return room

    def _settle(self) -> None:
        for block in self._blocks.values():
            for group in block.groups:
                if group.waiting:
                    group.settle(*group.waiting)
                    group.waiting.clear()
        self._used = 0


class _GrowingBlock:
    """What its pieces have of a block, without their equations, and its factors so far."""

    def __init__(self, first: Block, motion: Float, columns: Sequence[Int]) -> None:
        self.groups = [_GrowingFactor(own) for own in columns]
        self._first, self._end, self._motion = first, first.end, motion.copy()
        self._stretches = [] if first.stretches is None else [first.stretches]

    def add(self, end: float, motion: Float, stretches: Float) -> None:
        """A further piece, behind the others in time."""
        self._end = end
        self._motion += motion
        if self._stretches:
            self._stretches.append(stretches)

    def whole(self) -> Block:
        """The block with all equations so far."""
        return replace(
            self._first,
            end=self._end,
            groups=tuple(group.factor() for group in self.groups),
            motion=self._motion,
            stretches=stretches_joined(np.concatenate(self._stretches)) if self._stretches else None,
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
