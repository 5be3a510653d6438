"""What a joint did before a batch of samples: effects with a memory start right, however a log is cut."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Float
from dynid.signals.samples import Samples

REACH = 0.2


@dataclass(frozen=True)
class WithPast:
    """Batches of samples in the order of the log, each with the turning points of the (motors') motion before it.

    Source: return-point memory of rate-independent hysteresis (Mayergoyz 1991): of the past only extremes count, and
    none from before the joint moved by more than twice the greatest distance over which friction builds up.
    """

    batches: Iterable[Samples]

    def __iter__(self) -> Iterator[Samples]:
        latest: Samples | None = None
        past: tuple[tuple[float, ...], ...] = ()
        for samples in self.batches:
            if latest is None or latest.segment != samples.segment:
                past = tuple(() for _ in range(samples.n))
            else:
                earlier = latest.motor.q[: max(samples.first - latest.first, 0)]
                past = tuple(
                    turning_points((*points, *turning_points(earlier[:, j].tolist())))
                    for j, points in enumerate(past)
                )
            latest = samples
            yield replace(samples, past=past)


def turning_points(path: Sequence[float], reach: float = REACH) -> tuple[float, ...]:
    """Extremes of a path in their order, its last point included, without what a later swing of 2 reach wiped out."""
    x: Float = np.asarray(path, dtype=np.float64)
    if len(x) > 2:
        step = np.diff(x)
        x = x[np.append(True, step != 0)]
        turns = np.flatnonzero(np.diff(np.sign(np.diff(x))) != 0) + 1
        x = x[np.unique(np.concatenate([[0], turns, [len(x) - 1]]))]
    return tuple(x[_first_that_counts(x, reach) :].tolist())


def _first_that_counts(x: Float, reach: float) -> int:
    # From the end backwards: once the path seen spans 2 reach, the state at the later extreme is known.
    if len(x) < 3:
        return 0
    backward = x[::-1]
    high, low = np.maximum.accumulate(backward), np.minimum.accumulate(backward)
    wide = np.flatnonzero(high - low >= 2 * reach)
    return 0 if not len(wide) else len(x) - 1 - int(wide[0])
