"""Signals: from rows of a log to uniformly sampled, filtered motion and torque."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.signals.coherence import choose_cutoff
    from dynid.signals.effort_at_rest import efforts_at_rest, unexplained_at_rest, unexplained_hands
    from dynid.signals.filter import (
        at_times,
        averaged_density,
        first_difference,
        is_uniform,
        low_passed,
        zero_phase_filter,
    )
    from dynid.signals.first_look import average_periods, columns_of
    from dynid.signals.noise import MotionNoise, directions_of, last_direction
    from dynid.signals.parallel import ParallelFilter
    from dynid.signals.prepare import Prepared
    from dynid.signals.repetition import Repetition, repetitions, same_motion
    from dynid.signals.samples import Samples, poses_at_rest, samples_at
    from dynid.signals.settings import Preparation, Standstill

__all__ = [
    "MotionNoise",
    "ParallelFilter",
    "Preparation",
    "Prepared",
    "Repetition",
    "Samples",
    "Standstill",
    "at_times",
    "average_periods",
    "averaged_density",
    "choose_cutoff",
    "columns_of",
    "directions_of",
    "efforts_at_rest",
    "first_difference",
    "is_uniform",
    "last_direction",
    "low_passed",
    "poses_at_rest",
    "repetitions",
    "same_motion",
    "samples_at",
    "unexplained_at_rest",
    "unexplained_hands",
    "zero_phase_filter",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "coherence": "choose_cutoff",
        "effort_at_rest": "efforts_at_rest unexplained_at_rest unexplained_hands",
        "filter": "at_times averaged_density first_difference is_uniform low_passed zero_phase_filter",
        "first_look": "average_periods columns_of",
        "noise": "MotionNoise directions_of last_direction",
        "parallel": "ParallelFilter",
        "prepare": "Prepared",
        "repetition": "Repetition repetitions same_motion",
        "samples": "Samples poses_at_rest samples_at",
        "settings": "Preparation Standstill",
    },
)
