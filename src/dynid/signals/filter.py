"""Zero-phase Butterworth filters: run forward and backward, so that nothing is delayed."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property, lru_cache

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import zero_phase

# Of the sampling rate; a low pass above it takes nothing away and is left out.
HIGHEST_SHARE = 0.45


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
        return butterworth(self.order, self.cutoff, self.rate)

    @cached_property
    def settled(self) -> Float:
        """(s, 2) state of the sections after a constant input of 1."""
        states, level = [], 1.0
        for b0, b1, b2, _, a1, a2 in self.sections:
            gain = (b0 + b1 + b2) / (1.0 + a1 + a2)
            states.append([level * (gain - b0), level * (b2 - a2 * gain)])
            level *= gain
        return np.array(states)

    @cached_property
    def settling(self) -> int:
        """Samples after which the one-way impulse response has fallen to 1e-11."""
        return self._fallen_to(1e-11)

    @cached_property
    def margin(self) -> int:
        """Samples after which it has fallen to 1e-6: what an end leaves there is lost in any sensor's noise."""
        return self._fallen_to(1e-6)

    def _fallen_to(self, share: float) -> int:
        poles = np.concatenate([np.roots(section[3:]) for section in self.sections])
        slowest = float(np.abs(poles).max())
        return int(np.ceil(np.log(share) / np.log(slowest))) + 8 * self.order

    def gain(self, frequency: Float) -> Float:
        """Gain of both passes together at frequencies in Hz."""
        back = np.exp(-2j * np.pi * np.asarray(frequency, dtype=np.float64) / self.rate)
        delays = np.array([np.ones_like(back), back, back * back])
        response = np.prod((self.sections[:, :3] @ delays) / (self.sections[:, 3:] @ delays), axis=0)
        return np.asarray(np.abs(response) ** 2)

    def __call__(self, lines: Float, start: int = 0, step: int = 1, continued: bool = True) -> Float:
        """Filters each line (L, T) along time and returns its samples start, start + step, ...

        continued: the ends are, by odd reflection; only samples a margin away from both can do without.
        """
        T = lines.shape[1]
        if T < 2:
            return np.array(lines[:, start::step])
        return zero_phase(lines, self.sections, self.settled, self.pad(T, continued), start, step)

    def pad(self, count: int, continued: bool = True) -> int:
        """Samples by which lines of `count` samples are continued at both ends."""
        return min(self.settling, count - 1) if continued else 0


def low_passed(
    lines: Float, cutoffs: Sequence[float], order: int, rate: float, start: int = 0, step: int = 1
) -> Float:
    """Lines (L, T), each through the zero-phase low pass of its own cut-off (Hz), at samples start, start + step, ...

    Those whose cut-off is at least 0.45 of the rate stay as they are.
    """
    distinct = sorted(set(cutoffs))
    found = np.empty((len(lines), len(range(start, lines.shape[1], step))))
    for cutoff in distinct:
        own = slice(None) if len(distinct) == 1 else np.flatnonzero(np.equal(cutoffs, cutoff))
        if cutoff < HIGHEST_SHARE * rate:
            part = np.ascontiguousarray(lines[own])
            found[own] = zero_phase_filter(cutoff, order, rate)(part, start, step)
        else:
            found[own] = lines[own, start::step]
    return found


def settling_of(cutoffs: Sequence[float], order: int, rate: float) -> int:
    """Samples that `low_passed` needs on each side."""
    filters = (zero_phase_filter(c, order, rate) for c in set(cutoffs) if c < HIGHEST_SHARE * rate)
    return max((one.settling for one in filters), default=0)


def butterworth(order: int, cutoff: float, rate: float) -> Float:
    """Digital Butterworth low pass as second-order sections (s, 6) of b0, b1, b2, 1, a1, a2, the sharpest last.

    order: of the low pass.    cutoff: Hz, at -3 dB.    rate: Hz.
    The analogue poles on a circle of warped radius go through the bilinear transform; all zeros lie at half the rate.
    Source: Oppenheim and Schafer 2010, section 7.2.
    """
    warped = 4.0 * np.tan(np.pi * cutoff / rate)
    angle = np.pi * np.arange(-order + 1, order, 2) / (2.0 * order)
    analogue = -warped * np.exp(1j * angle[angle > -1e-9])
    poles = (4.0 + analogue) / (4.0 - analogue)
    poles = poles[np.argsort(np.abs(poles), kind="stable")]
    real = np.abs(poles.imag) < 1e-12
    sections = []
    for pole in poles[real].real:
        sections.append([1.0, 1.0, 0.0, 1.0, -pole, 0.0])
    for pole in poles[~real]:
        sections.append([1.0, 2.0, 1.0, 1.0, -2.0 * pole.real, abs(pole) ** 2])
    found = np.array(sections, dtype=np.float64)
    # The first section carries the whole gain, which is 1 at rest.
    found[0, :3] *= np.prod(found[:, 3:].sum(axis=1) / found[:, :3].sum(axis=1))
    return found
