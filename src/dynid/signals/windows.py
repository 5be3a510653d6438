"""Windows of clean rows that samples are made from, cut from segments while those are read."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.signals.align import Piece

# So long that what a window costs whatever its length is small beside its samples, and so short that those of a 7-joint
# arm at 1 kHz take 10 MB.
WINDOW_SECONDS = 60.0


@dataclass(frozen=True, eq=False)
class Window:
    """Clean rows that one window of samples is made from.

    t: (T,) times.    parts: the rows of all channels one after another, each (L, T_i), views of what was read.
    Grid samples start..stop of the segment are its own, low..high are computed; ends: whether high is where the
    segment ends.
    """

    trajectory: str
    segment: int
    step: float
    origin: float
    t: Float
    parts: tuple[Float, ...]
    low: int
    start: int
    stop: int
    high: int
    ends: bool

    @property
    def lines(self) -> Float:
        """The rows in one piece, (L, T)."""
        return np.concatenate(self.parts, axis=1)


class Cutter:
    """Cuts the segments of one trajectory into windows, forgetting rows that no later window needs.

    step: of its rows, s.    rate: of the grid, Hz.    overlap: grid samples that a window needs on each side.
    decimation: grid samples a sample.    shortest: s of a segment below which it is left out.
    """

    def __init__(
        self, trajectory: str, step: float, rate: float, overlap: int, decimation: int, shortest: float
    ) -> None:
        self.trajectory, self.step, self.rate, self.overlap = trajectory, step, rate, overlap
        self.shortest = shortest
        self.size = max(int(WINDOW_SECONDS * rate) // decimation, 1) * decimation
        # Grid samples known beyond a window before it is cut: enough to know that it is not the last one, so that
        # where windows end does not depend on how the rows arrived.
        self.ahead = max(self.overlap + 2, self.size // 2)
        self.held: list[Piece] = []
        self.done, self.origin = 0, 0.0

    def cut(self, piece: Piece) -> Iterator[Window]:
        """Takes a piece and yields the windows that are complete."""
        if not self.held:
            self.done, self.origin = 0, float(piece.t[0])
        self.held.append(piece)
        last = float(piece.t[-1])
        enough = (last - self.origin) * self.rate > self.done + self.size + self.ahead + 2
        if not (enough or piece.last):
            return
        t = np.concatenate([one.t for one in self.held])
        lines = tuple(one.lines for one in self.held)
        count = math.floor((float(t[-1]) - self.origin) * self.rate + 1e-6) + 1
        if not (piece.last and self.done == 0 and t[-1] - self.origin < self.shortest):
            yield from self._complete(piece, t, lines, count)
        if piece.last:
            self.held = []
        else:
            self._forget()

    def _complete(self, piece: Piece, t: Float, lines: tuple[Float, ...], count: int) -> Iterator[Window]:
        while self.done < count:
            stop = min(self.done + self.size, count)
            if piece.last and count - stop < self.size // 2:
                stop = count
            if not piece.last and count - stop < self.ahead:
                return
            low, high = max(self.done - self.overlap, 0), min(stop + self.overlap, count)
            a = max(int(np.searchsorted(t, self.origin + (low - 2) / self.rate)) - 1, 0)
            b = int(np.searchsorted(t, self.origin + (high + 2) / self.rate)) + 1
            yield Window(
                self.trajectory, piece.segment, self.step, self.origin, t[a:b], between(lines, a, b),
                low, self.done, stop, high, piece.last and high == count,
            )  # fmt: skip
            self.done = stop

    def _forget(self) -> None:
        # A window takes up to two rows before the first time that it needs.
        needed = self.origin + (self.done - self.overlap - 8) / self.rate
        while len(self.held) > 1 and np.count_nonzero(self.held[1].t < needed) > 2:
            del self.held[0]


def between(parts: tuple[Float, ...], start: int, stop: int) -> tuple[Float, ...]:
    """Columns start..stop of parts that stand side by side."""
    found, at = [], 0
    for part in parts:
        a, b = max(start - at, 0), min(stop - at, part.shape[1])
        if b > a:
            found.append(part[:, a:b])
        at += part.shape[1]
    return tuple(found) or (parts[0][:, :0],)
