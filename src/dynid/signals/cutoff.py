"""A cut-off frequency from the motion's own spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.signals.coherence import TorqueCoherence
from dynid.signals.density import averaged_density

SHARE = 0.999
HIGHEST_MOTION = 20.0
MARGIN = 10.0
LEAST, GREATEST = 5.0, 25.0
ABOVE_SIGNAL = (
    1.25  # a zero-phase filter of fourth order there passes 86 % of the amplitude where signal equals noise
)
LEAST_BY_TORQUE = 3.0  # Hz: friction turns round within a fraction of a second, however slow the motion
# Friction at rest is unknown, and a low pass spreads that over its period to either side: over a third of a move.
PERIODS_A_MOVE = 6.0
NOTHING_LEFT = 1e-4  # of the torque's power, 1 % of its amplitude
FLOOR_BAND = (0.25, 0.45)  # of the sampling rate: no arm moves there
FLOOR_FACTOR = 3.0  # spectra scatter about their floor


@dataclass(frozen=True, eq=False)
class CutoffEvidence:
    """Why a cut-off was chosen.

    frequency: (F,) Hz.    velocity: (n, F) spectra of the joint velocities.    reach: (n,) frequency below which a
    joint has 99.9 % of its velocity's power, noise left out.    chosen: Hz.
    coherence: by frequency, how much of the torque follows the motion; None = no torque was looked at.
    """

    joint_names: tuple[str, ...]
    frequency: Float
    velocity: Float
    reach: Float
    chosen: float
    reason: str
    coherence: TorqueCoherence | None = None

    def describe(self) -> dict[str, Any]:
        """Plain data for the report."""
        torque = self.coherence
        return {
            "joints": list(self.joint_names),
            "frequency": self.frequency.tolist(),
            "velocity": self.velocity.tolist(),
            "reach": self.reach.tolist(),
            "chosen": self.chosen,
            "reason": self.reason,
            "torque_follows_motion": None
            if torque is None
            else {
                "frequency": torque.frequency.tolist(),
                "share": torque.share.tolist(),
                "together": torque.together.tolist(),
                "ends": torque.ends.tolist(),
                "end": torque.end,
            },
        }


def choose_cutoff(
    positions: Sequence[Float],
    rate: float,
    joint_names: tuple[str, ...],
    coherence: TorqueCoherence | None = None,
    move: float = np.inf,
) -> CutoffEvidence:
    """Chooses the cut-off of the parallel filter from uniformly sampled positions, a list of (n, T).

    A joint's reach is the frequency below which 99.9 % of its velocity's power lies, counted up to 20 Hz: no arm moves
    faster, and above it the noise of the position, magnified by differentiation, would outweigh the motion. White noise
    of the position at the height of its spectrum above a quarter of the rate is taken off before. The cut-off is ten
    times the greatest reach, between 5 and 25 Hz and below a fifth of the sampling rate.

    coherence: how far up the measured torque follows the motion. Above 1.25 times that frequency accelerations and
    torque hold more noise than signal, whatever its source: the cut-off is lowered to it, but not below 3 Hz, and not
    where the torque has nothing above it that a filter could take (a command, or a log that was low-passed before).
    move: s, from one pause to the next. Friction at rest may have any size, and the filter spreads it over its period
    to either side: six periods of the filter are at most as long as a move.
    Source: the rule of thumb of Khalil and Dombre 2002, section 12.4.2 (filter at ten times the dynamics' frequency).
    """
    longest = max(q.shape[1] for q in positions)
    size = int(min(longest, max(256, 8 * rate)))
    frequency, spectrum = averaged_density([q for q in positions if q.shape[1] >= size], rate, size)
    velocity = _above_floor(frequency, spectrum, rate) * (2 * np.pi * frequency) ** 2
    velocity = np.where(frequency <= HIGHEST_MOTION, velocity, 0.0)
    energy = np.cumsum(velocity, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = energy / energy[:, -1:]
    reach = np.array(
        [frequency[np.searchsorted(row, SHARE)] if np.isfinite(row).all() else 0.0 for row in share]
    )
    greatest = min(GREATEST, 0.2 * rate)
    wanted = MARGIN * float(reach.max())
    chosen = float(np.clip(wanted, LEAST, greatest))
    mover = joint_names[int(np.argmax(reach))]
    reason = f"ten times the {reach.max():.2g} Hz below which '{mover}' has {100 * SHARE:.3g} % of its velocity's power"
    if not np.isclose(chosen, wanted, rtol=0.1):
        reason += f", bounded to {LEAST:g} ... {greatest:g} Hz"
    if coherence is not None and coherence.end > 0 and coherence.beyond > NOTHING_LEFT:
        least = min(max(LEAST_BY_TORQUE, PERIODS_A_MOVE / move), greatest)
        limit = max(ABOVE_SIGNAL * coherence.end, least)
        if limit < chosen:
            chosen = limit
            reason = f"above {coherence.end:.2g} Hz less than half of the torque follows the motion, the rest is noise"
            if limit == least:
                reason += f"; bounded to at least {least:.2g} Hz"
                reason += f" for moves of {move:.2g} s" if least > LEAST_BY_TORQUE else ""
    chosen = float(f"{chosen:.2g}")
    every = max(1, len(frequency) // 400)
    shown = spectrum * (2 * np.pi * frequency) ** 2
    return CutoffEvidence(
        joint_names, frequency[::every], shown[:, ::every], reach, chosen, reason, coherence
    )


def _above_floor(frequency: Float, spectrum: Float, rate: float) -> Float:
    high = (frequency >= FLOOR_BAND[0] * rate) & (frequency <= FLOOR_BAND[1] * rate)
    floor = np.median(spectrum[:, high], axis=1) if high.any() else np.zeros(len(spectrum))
    return np.where(spectrum > FLOOR_FACTOR * floor[:, None], spectrum - floor[:, None], 0.0)
