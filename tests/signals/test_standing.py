"""Times at which joints stand, batch by batch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.log import STILL
from dynid.signals import Samples, stands
from dynid.signals.samples import BIN, LEAST_BINS

RATE = 50.0


def motion(seed: int) -> Samples:
    """Three joints that move and pause at random times."""
    rng = np.random.default_rng(seed)
    speed = np.repeat(rng.normal(size=(60, 3)) * (rng.random((60, 3)) < 0.5), 40, axis=0)
    q = np.cumsum(speed, axis=0) / RATE
    return Samples.from_motion(q, speed, np.zeros_like(q), rate=RATE)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("size", [7, 33, 60, 400, 5000])
def test_stands_are_windows_of_a_second_without_travel_however_a_log_is_cut(seed: int, size: int) -> None:
    whole = motion(seed)
    batches = [
        replace(whole.part(a, min(a + size, len(whole))), segment=0) for a in range(0, len(whole), size)
    ]
    found = stands(batches)
    # In batches no bin is cut where they end: the reference takes the same edges.
    cut = np.flatnonzero(np.diff(np.floor(whole.t / BIN), prepend=-np.inf))
    edges = np.union1d(cut, np.arange(0, len(whole), size))
    low, high = (f.reduceat(whole.q, edges, axis=0) for f in (np.minimum, np.maximum))
    ends = np.append(edges[1:], len(whole)) - 1
    expected = []
    for j in range(3):
        still = np.zeros(len(edges), dtype=np.bool_)
        for k in range(len(edges) - LEAST_BINS + 1):
            w = slice(k, k + LEAST_BINS)
            still[w] |= np.ptp([low[w, j].min(), high[w, j].max()]) <= STILL
        turns = np.flatnonzero(np.diff(still, prepend=False, append=False))
        expected += [
            (j, whole.t[edges[a]], whole.t[ends[b - 1]]) for a, b in zip(turns[::2], turns[1::2], strict=True)
        ]
    assert expected
    assert [(one.joint, one.start, one.end) for one in found] == expected
