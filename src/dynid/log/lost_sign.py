"""Whether an effort that comes down to zero and goes up again was logged without its sign."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dynid.base.arrays import Float

# Shares of the largest value: what comes as close to zero touches it; it is one touch until the effort is as far
# away again; and it is looked at up to here.
TOUCHES, LEAVES, UP_TO = 0.02, 0.06, 0.25
# Samples on either side of a touch, and order of the smooth curve through them.
SIDE, ORDER = 4, 3
# A way back of a joint below this share of its way is noise of its encoder.
WAY_BACK = 0.02
# Deviations below this share of the largest value are those of numbers that were rounded.
ROUNDED = 1e-4
# An effort whose samples are zero for this share of the time around a touch is switched off, or cut off, there.
SWITCHED_OFF = 1.0 / 3.0


def sign_evidence(effort: Float, position: Float) -> float:
    """How much smoother an effort (T,), not below zero, is with the sign given back that it may have lost.

    Logarithm of the ratio of squared deviations from smooth curves, without and with a change of sign at each touch,
    summed over the touches. Friction jumps where the joint turns round, so that a curve ends there.
    """
    if effort.max(initial=0.0) <= 0:
        return 0.0
    effort = effort / effort.max()
    low = np.concatenate([[False], effort < LEAVES, [False]])
    touches = [
        a + int(np.argmin(effort[a:b]))
        for a, b in np.flatnonzero(low[1:] != low[:-1]).reshape(-1, 2)
        if effort[a:b].min() < TOUCHES
    ]
    if not touches:
        return 0.0
    # Between two touches the effort is highest.
    tops = [a + int(np.argmax(effort[a:b])) for a, b in pairwise(touches)]
    far, evidence = np.flatnonzero(effort > UP_TO), 0.0
    for at, first, last in zip(touches, [0, *tops], [*tops, len(effort)], strict=True):
        beyond = int(np.searchsorted(far, at))
        start = max(first, int(far[beyond - 1]) + 1 if beyond else 0)
        end = min(last, int(far[beyond]) if beyond < len(far) else len(effort))
        start, end = _one_way(position, start, end, at)
        around = effort[start:end]
        if min(at - start, end - at - 1) < SIDE or (around == 0).mean() > SWITCHED_OFF:
            continue
        sign = np.where(np.arange(start, end) < at, -1.0, 1.0)
        rounded = len(around) * ROUNDED**2
        evidence += float(np.log((_roughness(around) + rounded) / (_roughness(sign * around) + rounded)))
    return evidence


def _roughness(values: Float) -> float:
    """Sum of squared deviations of values (T,) from a polynomial."""
    basis = np.linalg.qr(np.vander(np.linspace(-1.0, 1.0, len(values)), ORDER + 1))[0]
    return float(((values - basis @ (basis.T @ values)) ** 2).sum())


def _one_way(position: Float, start: int, end: int, at: int) -> tuple[int, int]:
    """The part of start..end around a sample in which a joint does not turn round."""
    while end - start > 2:
        path = position[start:end]
        # The same both ways round: an extreme inside that lies beyond both ends.
        beyond = [(int(np.argmax(way)), way.max() - max(way[0], way[-1])) for way in (path, -path)]
        turn, back = max(beyond, key=lambda one: one[1])
        if back <= WAY_BACK * np.ptp(path):
            break
        start, end = (start + turn, end) if start + turn <= at else (start, start + turn + 1)
    return start, end
