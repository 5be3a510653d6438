"""Signals: from rows of a log to uniformly sampled, filtered motion and torque."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.signals.filter import zero_phase_filter
    from dynid.signals.noise import MotionNoise
    from dynid.signals.parallel import ParallelFilter
    from dynid.signals.prepare import Prepared
    from dynid.signals.samples import Samples, poses_at_rest, samples_at
    from dynid.signals.settings import Preparation

__all__ = [
    "MotionNoise",
    "ParallelFilter",
    "Preparation",
    "Prepared",
    "Samples",
    "poses_at_rest",
    "samples_at",
    "zero_phase_filter",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "filter": "zero_phase_filter",
        "noise": "MotionNoise",
        "parallel": "ParallelFilter",
        "prepare": "Prepared",
        "samples": "Samples poses_at_rest samples_at",
        "settings": "Preparation",
    },
)
