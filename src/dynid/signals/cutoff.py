"""A cut-off frequency from the motion's own spectrum."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.signals.density import averaged_density

SHARE = 0.999
HIGHEST_MOTION = 20.0
MARGIN = 10.0
LEAST, GREATEST = 5.0, 25.0


@dataclass(frozen=True, eq=False)
class CutoffEvidence:
    """Why a cut-off was chosen.

    frequency: (F,) Hz.    velocity: (n, F) spectra of the joint velocities.    reach: (n,) frequency below which a
    joint has 99.9 % of its velocity's power.    chosen: Hz.
    """

    joint_names: tuple[str, ...]
    frequency: Float
    velocity: Float
    reach: Float
    chosen: float
    reason: str

    def describe(self) -> dict[str, Any]:
        """Plain data for the report."""
        return {
            "joints": list(self.joint_names),
            "frequency": self.frequency.tolist(),
            "velocity": self.velocity.tolist(),
            "reach": self.reach.tolist(),
            "chosen": self.chosen,
            "reason": self.reason,
        }


def choose_cutoff(positions: Sequence[Float], rate: float, joint_names: tuple[str, ...]) -> CutoffEvidence:
    """Chooses the cut-off of the parallel filter from uniformly sampled positions, a list of (n, T).

    A joint's reach is the frequency below which 99.9 % of its velocity's power lies, counted up to 20 Hz: no arm moves
    faster, and above it the noise of the position, magnified by differentiation, would outweigh the motion. The cut-off
    is ten times the greatest reach, between 5 and 25 Hz and below a fifth of the sampling rate.
    Source: the rule of thumb of Khalil and Dombre 2002, section 12.4.2 (filter at ten times the dynamics' frequency).
    """
    longest = max(q.shape[1] for q in positions)
    size = int(min(longest, max(256, 8 * rate)))
    frequency, spectrum = averaged_density([q for q in positions if q.shape[1] >= size], rate, size)
    velocity = spectrum * (2 * np.pi * frequency) ** 2
    velocity = np.where(frequency <= HIGHEST_MOTION, velocity, 0.0)
    energy = np.cumsum(velocity, axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = energy / energy[:, -1:]
    reach = np.array(
        [frequency[np.searchsorted(row, SHARE)] if np.isfinite(row).all() else 0.0 for row in share]
    )
    wanted = MARGIN * float(reach.max())
    chosen = float(np.clip(wanted, LEAST, min(GREATEST, 0.2 * rate)))
    chosen = float(f"{chosen:.2g}")
    mover = joint_names[int(np.argmax(reach))]
    reason = f"ten times the {reach.max():.2g} Hz below which '{mover}' has {100 * SHARE:.3g} % of its velocity's power"
    if not np.isclose(chosen, wanted, rtol=0.1):
        reason += f", bounded to {LEAST:g} ... {min(GREATEST, 0.2 * rate):g} Hz"
    every = max(1, len(frequency) // 400)
    shown = spectrum * (2 * np.pi * frequency) ** 2
    return CutoffEvidence(joint_names, frequency[::every], shown[:, ::every], reach, chosen, reason)
