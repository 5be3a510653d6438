"""Arms that someone else moves: their drives carry the weight, and nothing of what accelerations take is in the log."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.diagnosis import ResidualAnalysis, check_guidance
from dynid.simulation import rigid_torque
from dynid.testing import TrueMotion, analysis_of, small_arm

ARM = small_arm()


def led(share: float) -> Callable[[TrueMotion, np.random.Generator], Float]:
    """What a hand adds that takes a share of the accelerating torque, and all friction but a little."""

    def added(motion: TrueMotion, rng: np.random.Generator) -> Float:
        rest = np.zeros_like(motion.q)
        weight = rigid_torque(ARM, ARM.inertia_prior, motion.q, rest, rest)
        friction = 0.02 * motion.size * np.tanh(motion.dq / 0.05)
        return share * (weight + friction - motion.tau)

    return added


def claims(analysis: ResidualAnalysis) -> list[str]:
    sink = Diagnostics()
    assert check_guidance(analysis, sink) == bool(sink.doubts)
    return [one.text for one in sink.doubts]


@pytest.mark.parametrize("seed", range(3))
def test_an_arm_that_a_hand_moves_is_named(seed: int) -> None:
    (text,) = claims(analysis_of(ARM, led(1.0), seed))
    assert "hand guiding" in text


@pytest.mark.parametrize(("share", "speed"), [(0.0, 1.0), (0.0, 0.2), (0.4, 1.0)])
def test_an_arm_that_its_drives_move_is_not(share: float, speed: float) -> None:
    """Nor where the torque is of another size than the described bodies', to a factor of two."""
    for seed in range(3):
        assert not claims(analysis_of(ARM, led(share), seed, speed=speed))


def test_motion_too_slow_to_tell_is_not_claimed() -> None:
    assert not claims(analysis_of(ARM, led(1.0), speed=0.02))
