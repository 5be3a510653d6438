"""Spectra of residuals over contiguous runs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float
from dynid.signals.density import averaged_density

LONGEST_WINDOW = 1024
MOST_WINDOWS = 64


def spectrum(parts: Sequence[Float], rate: float, shortest: int = 8) -> tuple[Float, Float, float]:
    """Frequencies, power spectral density by Welch's method averaged over runs by their length, and windows averaged.

    parts: contiguous runs, each (T_i,).    rate: Hz.    shortest: samples of the least window.
    Of runs that hold more than 64 windows, stretches are taken that are spread evenly over them.
    """
    longest = max(len(part) for part in parts)
    window = min(longest, max(2 ** int(np.log2(max(longest / 4, 8))), shortest), LONGEST_WINDOW)
    usable = _spread([part for part in parts if len(part) >= window], window)
    # Hann windows that overlap by half share a 36th of their variance with each neighbour: 18 of 19 count.
    count = float(sum(max(1.0, (2 * len(part) / window - 1) * 18 / 19) for part in usable))
    return *averaged_density(usable, rate, window), count


def _spread(parts: Sequence[Float], window: int) -> list[Float]:
    total = sum(len(part) for part in parts)
    if total <= MOST_WINDOWS * window:
        return list(parts)
    stretch = 8 * window
    pieces = [part[a : a + stretch] for part in parts for a in range(0, len(part) - window + 1, stretch)]
    step = -(-sum(len(piece) for piece in pieces) // (MOST_WINDOWS * window))
    return [piece for piece in pieces[::step] if len(piece) >= window]
