"""The lattice of quantised values."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float

# Of the values, that those of a lattice are at most, and that a first look takes.
MOST_DISTINCT, FIRST = 0.25, 0.3


def lattice_step(values: Float) -> Float:
    """Step of quantised values (T, n) by column: the difference of distinct ones if few cover the range, else 0."""
    steps = np.zeros(values.shape[1])
    for j in range(values.shape[1]):
        # Most columns have too many distinct values among the first of them already, of which three may not be finite.
        if len(np.unique(values[: int(FIRST * len(values)), j])) > MOST_DISTINCT * len(values) + 3:
            continue
        distinct = np.unique(values[np.isfinite(values[:, j]), j])
        if 4 <= len(distinct) < MOST_DISTINCT * len(values):
            gaps = np.diff(distinct)
            step = float(np.median(gaps[gaps <= 1.5 * gaps.min()])) if gaps.min() > 1e-12 else 0.0
            if step > 0 and np.mean(np.abs(gaps / step - np.round(gaps / step)) < 0.1) > 0.9:
                steps[j] = step
    return steps
