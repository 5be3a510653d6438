"""Signals: from rows of a log to uniformly sampled, filtered motion and torque."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.signals.noise import MotionNoise
    from dynid.signals.prepare import Prepared
    from dynid.signals.samples import Samples
    from dynid.signals.settings import Preparation

__all__ = [
    "MotionNoise",
    "Preparation",
    "Prepared",
    "Samples",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "noise": "MotionNoise",
        "prepare": "Prepared",
        "samples": "Samples",
        "settings": "Preparation",
    },
)
