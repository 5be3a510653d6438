"""Samples that lie in a file come back as they were, in their order, as often as they are asked for."""

from __future__ import annotations

import gc
import weakref
from dataclasses import fields, replace

import numpy as np

from dynid.base import SpilledRecords
from dynid.signals import Samples


def batch(seed: int, rows: int) -> Samples:
    rng = np.random.default_rng(seed)
    motion = [rng.normal(size=(rows, 3)) for _ in range(4)]
    plain = Samples.from_motion(*motion, rate=100.0)
    return replace(
        plain,
        keep=rng.random(rows) > 0.2,
        theta=motion[0],
        dtheta=motion[1],
        ddtheta=motion[2],
        temperature=motion[3],
        extra={"one": motion[0][:, 0], "many": motion[1]},
        gate=motion[2] > 0,
        left_out={"rest": motion[3][:, 0] > 0},
        segment=seed,
        trajectory=f"trial {seed}",
        first=7,
    )


def same(a: object, b: object) -> bool:
    if isinstance(a, dict) and isinstance(b, dict):
        return list(a) == list(b) and all(same(a[key], b[key]) for key in a)
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.dtype == b.dtype and np.array_equal(a, b)
    return a == b


def test_batches_come_back_bit_by_bit() -> None:
    batches = [batch(seed, rows) for seed, rows in enumerate((50, 1, 0, 1000))]
    spilled = SpilledRecords(Samples)
    for one in batches:
        spilled.add(one)
    for _ in range(2):
        found = list(spilled)
        assert len(found) == len(spilled) == len(batches)
        for one, other in zip(found, batches, strict=True):
            assert all(same(getattr(one, f.name), getattr(other, f.name)) for f in fields(Samples))


def test_two_walks_at_a_time_do_not_disturb_each_other() -> None:
    spilled = SpilledRecords(Samples)
    for seed in range(4):
        spilled.add(batch(seed, 20))
    for one, other in zip(spilled, spilled, strict=True):
        assert np.array_equal(one.q, other.q)


def test_batches_are_freed_without_a_search_for_cycles() -> None:
    """A batch that kept itself would wait for the collector, and a day of batches with it."""
    rng = np.random.default_rng(0)
    for theta in (None, rng.normal(size=(20, 2))):
        samples = Samples.from_motion(*rng.normal(size=(3, 20, 2)))
        samples = replace(samples, theta=theta, dtheta=theta, ddtheta=theta)
        assert len(samples.motor) == 20
        kept = weakref.ref(samples)
        gc.disable()
        try:
            del samples
            assert kept() is None
        finally:
            gc.enable()
