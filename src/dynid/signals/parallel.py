"""The parallel filter: one low pass over both sides of the equations, then decimation (Madsen et al. 2020, sec. 4.2).

A filter is linear and does not change with time, so filtering every column of Y and the torque alike leaves
tau = Y theta true while noise and what the model cannot follow above the cut-off are gone.
"""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.signals.filter import ZeroPhase, zero_phase_filter
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
        return 0 if self.cutoff is None else self._filter.settling

    @property
    def margin(self) -> int:
        """Neighbouring samples on each side without which only what is lost in noise is missing."""
        return 0 if self.cutoff is None else self._filter.margin

    @property
    def _filter(self) -> ZeroPhase:
        return zero_phase_filter(self.cutoff or np.inf, self.order, self.rate)

    def kept(self, samples: Samples) -> Int:
        """Indices of the samples that stay."""
        grid = np.arange(self.phase(samples), len(samples), self.decimation)
        return grid[samples.keep[grid]]

    def apply(self, panel: Float, samples: Samples) -> tuple[Float, Float]:
        """Filters a panel (w, T); returns what stays of it (w, kept) and the times (kept,)."""
        start = self.phase(samples)
        keep = samples.keep[start :: self.decimation]
        thinned = self.lines(panel, start, self.needs_ends(samples))
        return thinned if keep.all() else np.ascontiguousarray(thinned[:, keep]), samples.t[
            self.kept(samples)
        ]

    def lines(self, panel: Float, start: int, continued: bool = True) -> Float:
        """Filters lines (w, T) of samples without a gap; of these start, start + decimation, ... stay.

        continued: the ends are; only where `needs_ends` they have to be.
        """
        if self.cutoff is None:
            return panel[:, start :: self.decimation]
        return self._filter(panel, start, self.decimation, continued)

    def needs_ends(self, samples: Samples) -> bool:
        """Whether some sample that counts lies within the margin of an end."""
        return bool(
            samples.keep[: self.margin].any() or samples.keep[max(len(samples) - self.margin, 0) :].any()
        )

    def phase(self, samples: Samples) -> int:
        """Index of the first sample that stays, whether it counts or not."""
        return -samples.first % self.decimation
