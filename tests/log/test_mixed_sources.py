"""Efforts of two sources in one channel are doubted; noise, hum and steps of a single source are not."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.log import Log, check_log
from dynid.testing import Recorded, Unmodelled, plant, record

RNG = np.random.default_rng(0)


def recorded(name: str) -> tuple[Log, Recorded]:
    rng = np.random.default_rng(3)
    arm = plant(name, rng)
    log = record(arm, rng, Unmodelled(), 12.0)
    return Log.from_arrays(arm.described, log.t, log.q, log.tau), log


def doubted(log: Log) -> bool:
    sink = Diagnostics()
    check_log(log, sink)
    return any(finding.code == "mixed-sources" for finding in sink)


def with_effort(log: Log, rows: Recorded, tau: Float) -> Log:
    return Log.from_arrays(log.robot, rows.t, rows.q, tau)


@pytest.mark.parametrize("name", ["ur5", "finger"])
@pytest.mark.parametrize(("every", "factor"), [(2, 0.1), (3, 0.6), (3, -1.0), (5, 0.3)])
def test_rows_of_a_second_source_are_doubted(name: str, every: int, factor: float) -> None:
    log, rows = recorded(name)
    tau = rows.tau * np.where(np.arange(len(rows.t)) % every, 1.0, factor)[:, None]
    assert doubted(with_effort(log, rows, tau))


@pytest.mark.parametrize("name", ["ur5", "finger"])
def test_a_single_source_is_not(name: str) -> None:
    log, rows = recorded(name)
    size = rows.tau.std(axis=0)
    hum = 0.3 * size * np.sin(np.pi * 0.99 * np.arange(len(rows.t)))[:, None] * (np.arange(len(size)) == 0)
    held = np.arange(len(rows.t)) // 3 * 3
    for tau in (rows.tau, rows.tau + size * RNG.normal(size=rows.tau.shape), rows.tau + hum, rows.tau[held]):
        assert not doubted(with_effort(log, rows, tau))
