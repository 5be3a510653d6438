"""Rows whose time runs back: several motions in one file, or rows that only stand in another order."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.layouts.excerpt import Excerpt

# Mean square step from row to row over twice the variance, of a signal that neighbouring rows follow; of rows in random
# order it is 1.
SMOOTH = 0.1
# Share of the mean square step that is left at the rows that sorting moves.
LESS_ROUGH = 0.5


def order_by_time(look: Excerpt, clock: str, t: Float) -> Int | None:
    """The order of the rows by their stamps (T,), None where it is not beyond doubt.

    Stamps have to differ, and where rows get other neighbours the signals have to be smoother than they were: stamps
    that scatter about the times of rows in the right order would make them rougher.
    """
    if not np.isfinite(t).all() or len(np.unique(t)) < len(t):
        return None
    order = np.argsort(t, kind="stable")
    place = np.argsort(order)
    moved, were = (np.abs(np.diff(one)) != 1 for one in (order, place))
    if not moved.any():
        return order  # from the last row to the first
    signals = look.table([name for name in look.numeric if name != clock])
    signals = signals[:, np.isfinite(signals).all(axis=0)]
    after = np.diff(signals[order], axis=0) ** 2
    smooth = after.mean(axis=0) < SMOOTH * 2.0 * signals.var(axis=0)
    if not smooth.any():
        return None
    before = np.diff(signals[:, smooth], axis=0) ** 2
    left = after[moved][:, smooth].mean(axis=0) / np.maximum(before[were].mean(axis=0), np.finfo(float).tiny)
    return order if float(np.median(left)) < LESS_ROUGH else None
