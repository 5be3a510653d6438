"""Along how many directions joints move: as many as there are independent motions, and never more than joints."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.signals import Samples, directions_of

RATE, N = 100.0, 6


@pytest.mark.parametrize("sources", [1, 2, 3, 4, 6])
def test_directions_are_those_of_the_motions_that_joints_share(sources: int) -> None:
    rng = np.random.default_rng(sources)
    t = np.arange(0.0, 60.0, 1.0 / RATE)
    motions = np.sin(2 * np.pi * rng.uniform(0.2, 1.0, sources) * t[:, None] + rng.uniform(0, 6, sources))
    mixed, _ = np.linalg.qr(rng.normal(size=(N, sources)))
    # A joint of any size and unit counts like the others; one that stands does not count.
    q = np.column_stack([motions @ mixed.T * np.geomspace(0.01, 1.0, N), np.full(len(t), 0.3)])
    dq = np.gradient(q, t, axis=0)
    ddq = np.gradient(dq, t, axis=0)
    samples = Samples.from_motion(q, dq, ddq, np.zeros_like(q), RATE)
    found = directions_of([samples.part(0, 2000), samples.part(2000, len(t))])
    assert (found.joints, found.directions) == (N, sources)
    assert found.in_step == (sources <= N / 2)


def test_no_motion_is_not_in_step() -> None:
    still = np.zeros((200, N))
    assert directions_of([Samples.from_motion(still, still, still, still, RATE)]).joints == 0
    assert not directions_of([]).in_step
