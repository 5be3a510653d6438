"""Zero-phase Butterworth filters: run forward and backward, so that nothing is delayed."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
from scipy.signal import butter, sosfilt_zi, sosfreqz

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.kernel import zero_phase


@lru_cache(maxsize=64)
def zero_phase_filter(cutoff: float, order: int, rate: float) -> ZeroPhase:
    """The filter of these settings, designed once."""
    return ZeroPhase(cutoff, order, rate)


@dataclass(frozen=True)
class ZeroPhase:
    """Butterworth low pass of an order and cut-off (Hz, -6 dB after both passes) at a sampling rate (Hz).

    Its gain is |H(f)|^2 of the one-way filter, its phase zero.
    Raises UsageError unless the cut-off lies below half the rate.
    """

    cutoff: float
    order: int
    rate: float

    def __post_init__(self) -> None:
        if not 0 < self.cutoff < 0.5 * self.rate:
            raise UsageError(
                "cutoff",
                found=f"a cut-off of {self.cutoff:g} Hz at {self.rate:g} samples a second",
                expected=f"below {0.5 * self.rate:g} Hz",
            )

    @cached_property
    def sections(self) -> Float:
        """(s, 6) second-order sections of the one-way filter."""
        return np.ascontiguousarray(butter(self.order, self.cutoff, fs=self.rate, output="sos"))

    @cached_property
    def settled(self) -> Float:
        """(s, 2) state of the sections after a constant input of 1."""
        return np.ascontiguousarray(sosfilt_zi(self.sections))

    @cached_property
    def settling(self) -> int:
        """Samples after which the one-way impulse response has fallen to 1e-11."""
        poles = np.concatenate([np.roots(section[3:]) for section in self.sections])
        slowest = float(np.abs(poles).max())
        return int(np.ceil(np.log(1e-11) / np.log(slowest))) + 8 * self.order

    def gain(self, frequency: Float) -> Float:
        """Gain of both passes together at frequencies in Hz."""
        _, response = sosfreqz(self.sections, worN=frequency, fs=self.rate)
        return np.asarray(np.abs(response) ** 2)

    def __call__(self, lines: Float, start: int = 0, step: int = 1) -> Float:
        """Filters each line (L, T) along time and returns its samples start, start + step, ...

        The ends are continued by odd reflection.
        """
        T = lines.shape[1]
        if T < 2:
            return np.array(lines[:, start::step])
        return zero_phase(lines, self.sections, self.settled, min(self.settling, T - 1), start, step)
