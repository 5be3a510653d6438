"""The direction in which joints moved last, which is what is known of the friction of those that stand still."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.kernel import stop_operator
from dynid.signals.noise import MotionNoise
from dynid.signals.prepare import Prepared
from dynid.signals.samples import Samples

# A joint has turned back once it has done so by more than this many standard deviations of a logged position, within
# which noise stays that has passed the filters.
SEEN = 3.0
LEAST = 1e-9  # rad (m), where positions have no noise


def seen_travel(prepared: Prepared) -> Float:
    """By how much joints have to move for it to be seen in a log, (n,), rad (m)."""
    return np.maximum(SEEN * MotionNoise.of(prepared).position, LEAST)


def last_direction(samples: Samples, travel: Float) -> Float:
    """Sign of each joint's last motion by more than `travel` (n,), (T, n): between -1 and 1 while it turns back.

    However slow: a joint that creeps back by a hundredth of a degree under its servo has turned its friction round.
    0 = not known, of a joint that has not moved by twice as much since the log or a gap in it.
    """
    before = samples.past.joints if samples.past is not None else ((),) * samples.n
    return np.stack(
        [_turned(before[j], samples.q[:, j], travel[j]) for j in range(samples.n)],
        axis=1,
    )


def _turned(before: tuple[float, ...], path: Float, travel: float) -> Float:
    whole = np.concatenate([before, path])
    spanned = np.maximum.accumulate(whole) - np.minimum.accumulate(whole) >= 2.0 * travel
    state = stop_operator([x / travel for x in before], path / travel)
    return np.asarray(state * spanned[len(before) :])
