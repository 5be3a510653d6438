"""What is looked for along a joint's position."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.terms.position_waves import slow_features


@pytest.mark.parametrize("prismatic", [False, True])
def test_slow_functions_of_position_are_three_waves_a_turn_or_a_cubic(prismatic: bool) -> None:
    """All of those and nothing faster, wherever the motion lies."""
    q = np.linspace(-2.0, 3.0, 400)
    features = np.column_stack([np.ones_like(q), slow_features(q, prismatic)])

    def missed(wanted: np.ndarray) -> float:
        left = wanted - features @ np.linalg.lstsq(features, wanted, rcond=None)[0]
        return float(np.linalg.norm(left) / np.linalg.norm(wanted))

    for k in (1, 2, 3):
        assert missed((q - 0.7) ** k if prismatic else np.sin(k * q + 0.4)) < 1e-9
    assert missed(q**4 if prismatic else np.sin(4 * q + 0.4)) > 0.01
    assert missed(np.sin(40 * q)) > 0.9
