"""Power spectral densities averaged over contiguous stretches."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.signal import welch

from dynid.base.arrays import Float


def averaged_density(parts: Sequence[Float], rate: float, window: int) -> tuple[Float, Float]:
    """Frequencies (F,), Hz, and the density (..., F) by Welch's method, averaged over the parts by their length.

    parts: each (..., T_i) with T_i >= window, at least one.    rate: Hz.    window: samples.
    Source: Welch 1967.
    """
    density = [welch(part, fs=rate, nperseg=window, detrend="constant", axis=-1) for part in parts]
    weights = np.array([part.shape[-1] for part in parts], dtype=np.float64)
    return density[0][0], np.average([d for _, d in density], axis=0, weights=weights)
