"""What the codes of this room mean."""

from __future__ import annotations

from dynid.base.explanation import Explanation
from dynid.diagnosis import (
    base_motion,
    bursts,
    changes,
    guidance,
    link_lengths,
    masking,
    measurement,
    negative_friction,
    resonance,
    ripple,
    saturation,
    wiring_checks,
)

EXPLANATIONS: tuple[Explanation, ...] = tuple(
    one
    for module in (
        wiring_checks,
        guidance,
        measurement,
        changes,
        base_motion,
        negative_friction,
        link_lengths,
        bursts,
        saturation,
        resonance,
        ripple,
        masking,
    )
    for one in module.EXPLANATIONS
)
