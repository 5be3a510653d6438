"""Joints whose torque is late alike are named together, others one by one."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.terms import FittedEffect, TorqueDelay
from dynid.testing import random_robot

RATE, HALF = 500.0, 2e-4
ROBOT = random_robot(3, 5, 0.0)


def said(samples: list[float]) -> list[str]:
    """Notices of delays of the joints, in samples of the log; 0 = none."""
    sizes = {f"delay{j + 1}": (one / RATE, HALF) for j, one in enumerate(samples)}
    late = tuple(name for name, one in zip(ROBOT.joint_names, samples, strict=True) if one)
    held = FittedEffect(ROBOT, sizes, RATE, 20.0, np.ones(ROBOT.n))
    return [one.text for one in TorqueDelay.words.notices(TorqueDelay(each=True, joints=late), held)]


@pytest.mark.parametrize(
    ("samples", "groups"),
    [
        ([2.1, 2.0, 1.9, 0.0, 0.0], [({0, 1, 2}, "the effort channel")]),
        ([-2.1, -2.0, -1.9, -2.4, 0.5], [({0, 1, 2, 3}, "the effort channel")]),
        ([2.1, 2.0, 0.0, 0.0, 0.0], [({0, 1}, "their efforts")]),
        ([0.0, 0.0, 4.0, 0.0, 0.0], [({2}, "this joint's effort")]),
        ([2.0, 2.2, 2.1, 8.0, 0.0], [({0, 1, 2}, "the effort channel"), ({3}, "this joint's effort")]),
        ([0.9, 0.8, 0.0, -0.7, 1.0], []),
    ],
)
def test_lags_of_one_size_have_one_cause(samples: list[float], groups: list[tuple[set[int], str]]) -> None:
    found = said(samples)
    assert len(found) == len(groups)
    for text, (joints, advice) in zip(sorted(found, key=lambda one: -len(one)), groups, strict=True):
        assert advice in text
        assert {j for j, name in enumerate(ROBOT.joint_names) if f"'{name}'" in text} == joints
