"""Several motions one after the other: designed together, recorded together or one by one."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.trajectories.basis import Basis
from dynid.trajectories.trajectory import Trajectory

CONTACT = 1e-6


@dataclass(frozen=True, eq=False)
class Chain:
    """Motions one after the other, each at rest at both ends.

    Raises UsageError if there is none, or one begins elsewhere than the one before it ended.
    """

    parts: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError("chain", found="no motion", expected="at least one")
        for one, after in zip(self.parts[:-1], self.parts[1:], strict=True):
            end = one.motion(np.array([one.duration]))[0]
            start = after.motion(np.zeros(1))[0]
            if end.shape != start.shape or np.abs(end - start).max() > CONTACT:
                raise UsageError(
                    "chain", found="a motion that begins elsewhere than the last ended", expected="one pose"
                )

    @property
    def starts(self) -> Float:
        """Times at which the parts begin, and the end, s."""
        return _starts(self.parts)

    @property
    def duration(self) -> float:
        """Length of all parts, s."""
        return float(self.starts[-1])

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        """Exact q, dq, ddq, each (T, n), at times t (T,)."""
        t = np.asarray(t, dtype=np.float64)
        part = _part(self.starts, t)
        n = self.parts[0].motion(np.zeros(1))[0].shape[1]
        whole = np.zeros((3, len(t), n))
        for k, one in enumerate(self.parts):
            here = part == k
            if here.any():
                whole[:, here] = one.motion(t[here] - self.starts[k])
        return whole[0], whole[1], whole[2]


@dataclass(frozen=True)
class Together:
    """A family of several motions from one pose and back to it, each of its own family, judged as one.

    The first function is the pose of all; then come the other functions of each part, zero outside of their own time.
    """

    parts: tuple[Basis, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise UsageError("chain", found="no motion", expected="at least one")

    @property
    def starts(self) -> Float:
        """Times at which the parts begin, and the end, s."""
        return _starts(self.parts)

    @property
    def duration(self) -> float:
        """Length of all motions, s."""
        return float(self.starts[-1])

    @property
    def size(self) -> int:
        """One, and the free functions of all parts."""
        return 1 + sum(part.size - 1 for part in self.parts)

    @property
    def highest_frequency(self) -> float:
        """Of the quickest part."""
        return max(part.highest_frequency for part in self.parts)

    def own(self, part: int, X: Float) -> Float:
        """The coefficients (m_part, n) of one motion among those of all (m, n)."""
        first = 1 + sum(one.size - 1 for one in self.parts[:part])
        return np.concatenate([X[:1], X[first : first + self.parts[part].size - 1]])

    def values(self, t: Float) -> tuple[Float, Float, Float, Float]:
        """The functions and three derivatives, (T, m) each."""
        t = np.asarray(t, dtype=np.float64)
        part, starts = _part(self.starts, t), self.starts
        orders = np.zeros((4, len(t), self.size))
        orders[0, :, 0] = 1.0
        first = 1
        for k, basis in enumerate(self.parts):
            here, width = np.flatnonzero(part == k), basis.size - 1
            if len(here):
                own = np.stack(basis.values(t[here] - starts[k]))
                orders[:, here, first : first + width] = own[:, :, 1:]
            first += width
        return orders[0], orders[1], orders[2], orders[3]


def _starts(parts: tuple[Basis, ...] | tuple[Trajectory, ...]) -> Float:
    return np.concatenate([[0.0], np.cumsum([part.duration for part in parts])])


def _part(starts: Float, t: Float) -> Int:
    return np.clip(np.searchsorted(starts, t, side="right") - 1, 0, len(starts) - 2)
