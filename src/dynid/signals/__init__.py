"""Signals: from rows of a log to uniformly sampled, filtered motion and torque."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.signals.coherence import choose_cutoff as choose_cutoff
    from dynid.signals.effort_at_rest import efforts_at_rest as efforts_at_rest
    from dynid.signals.effort_at_rest import unexplained_at_rest as unexplained_at_rest
    from dynid.signals.effort_at_rest import unexplained_hands as unexplained_hands
    from dynid.signals.filter import at_times as at_times
    from dynid.signals.filter import averaged_density as averaged_density
    from dynid.signals.filter import first_difference as first_difference
    from dynid.signals.filter import is_uniform as is_uniform
    from dynid.signals.filter import low_passed as low_passed
    from dynid.signals.filter import zero_phase_filter as zero_phase_filter
    from dynid.signals.first_look import average_periods as average_periods
    from dynid.signals.first_look import columns_of as columns_of
    from dynid.signals.noise import MotionNoise as MotionNoise
    from dynid.signals.noise import directions_of as directions_of
    from dynid.signals.noise import last_direction as last_direction
    from dynid.signals.parallel import ParallelFilter as ParallelFilter
    from dynid.signals.prepare import Prepared as Prepared
    from dynid.signals.repetition import Motion as Motion
    from dynid.signals.repetition import Repetition as Repetition
    from dynid.signals.repetition import repetitions as repetitions
    from dynid.signals.repetition import same_motion as same_motion
    from dynid.signals.samples import BRIEF_BINS as BRIEF_BINS
    from dynid.signals.samples import Samples as Samples
    from dynid.signals.samples import WithPast as WithPast
    from dynid.signals.samples import poses_at_rest as poses_at_rest
    from dynid.signals.samples import samples_at as samples_at
    from dynid.signals.samples import stands as stands
    from dynid.signals.settings import Preparation as Preparation
    from dynid.signals.settings import Standstill as Standstill

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "coherence": "choose_cutoff",
        "effort_at_rest": "efforts_at_rest unexplained_at_rest unexplained_hands",
        "filter": "at_times averaged_density first_difference is_uniform low_passed zero_phase_filter",
        "first_look": "average_periods columns_of",
        "noise": "MotionNoise directions_of last_direction",
        "parallel": "ParallelFilter",
        "prepare": "Prepared",
        "repetition": "Motion Repetition repetitions same_motion",
        "samples": "BRIEF_BINS Samples WithPast poses_at_rest samples_at stands",
        "settings": "Preparation Standstill",
    },
)
