"""Short batches that are written down together give the factors of each by itself."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.factor import Assembly, Blocking, assemble, thinned
from dynid.robot import load_example
from dynid.rows import TorqueRows
from dynid.signals import ParallelFilter, Samples, WithPast
from dynid.terms import Presliding, RigidBody, Terms, TorqueDelay, Viscous

RATE, SECONDS = 100.0, 60.0


def stretches(parallel: ParallelFilter) -> list[Samples]:
    """A stretch of each of twelve blocks, with a past, some samples masked."""
    rng, t = np.random.default_rng(3), np.arange(0.0, SECONDS, 1.0 / RATE)
    w = rng.uniform(0.5, 3.0, 7)
    q, dq, ddq = np.sin(np.outer(t, w)), w * np.cos(np.outer(t, w)), -(w**2) * np.sin(np.outer(t, w))
    whole = Samples.from_motion(q, dq, ddq, rng.normal(size=q.shape), RATE)
    keep = np.array(whole.keep)
    keep[1111:1200] = keep[:100] = keep[-100:] = False
    parts = [whole.part(a, a + 1500) for a in range(0, len(t), 1500)]
    masked = [Samples(**{**vars(one), "keep": keep[one.first : one.first + len(one)]}) for one in parts]
    return list(thinned(WithPast(masked), 0.3, Blocking(5.0), parallel.margin))


@pytest.mark.parametrize("decimation", [1, 3])
def test_joined_batches_have_the_factors_of_single_ones(
    decimation: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With terms that have a memory and that differentiate along time, which may not see their neighbours."""
    robot = load_example("arm7")
    drives = (0.8, 0.3, 0.0, 0.1) * robot.n
    bodies = tuple(np.asarray(robot.inertia_prior).ravel().tolist())
    late = TorqueDelay(inertia=bodies, drives=drives)
    terms = Terms((RigidBody(), Viscous(), Presliding(distance=0.01), late))
    assert terms.along_time
    parallel = ParallelFilter(RATE, 6.0, 4, decimation)
    wanted = np.ones(len(terms.columns(robot)), dtype=np.bool_)
    assembly = Assembly(robot, terms, TorqueRows(), wanted, parallel, Blocking(5.0))
    batches = stretches(parallel)
    assert len(batches) == 12
    together = assembly.factors(batches)
    monkeypatch.setattr(assemble, "AT_ONCE", 1)
    alone = assembly.factors(batches)
    assert [b.start for b in together.blocks] == [b.start for b in alone.blocks]
    for a, b in zip(together.blocks, alone.blocks, strict=True):
        for one, other in zip(a.groups, b.groups, strict=True):
            assert one.count == other.count
            gram = other.R.T @ other.R
            np.testing.assert_allclose(one.R.T @ one.R, gram, rtol=1e-9, atol=1e-9 * np.abs(gram).max())
