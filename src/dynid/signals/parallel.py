"""The parallel filter: one low pass over both sides of the equations, then decimation (Madsen et al. 2020, section 4.2).

A filter is linear and does not change with time, so filtering every column of Y and the torque alike leaves
tau = Y theta true while noise and what the model cannot follow above the cut-off are gone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float, Int
from dynid.signals.filter import ZeroPhase
from dynid.signals.samples import Samples


@dataclass(frozen=True)
class ParallelFilter:
    """Zero-phase low pass at `cutoff` Hz (None = none) for samples of `rate` Hz, then every `decimation`-th sample.

    Which samples stay depends on their number within the segment, not on how the segment was cut into chunks.
    """

    rate: float
    cutoff: float | None
    order: int = 4
    decimation: int = 1

    @property
    def settling(self) -> int:
        """Neighbouring samples needed on each side."""
        return 0 if self.cutoff is None else ZeroPhase(self.cutoff, self.order, self.rate).settling

    def kept(self, samples: Samples) -> Int:
        """Indices of the samples that stay."""
        grid = (samples.first + np.arange(len(samples))) % self.decimation == 0
        return np.flatnonzero(grid & samples.keep)

    def apply(self, panel: Float, samples: Samples) -> tuple[Float, Float]:
        """Filters a panel (w, T); returns what stays of it (w, kept) and the times (kept,)."""
        index = self.kept(samples)
        filtered = panel if self.cutoff is None else ZeroPhase(self.cutoff, self.order, self.rate)(panel)
        return np.ascontiguousarray(filtered[:, index]), samples.t[index]
