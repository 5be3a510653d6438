"""Pauses of 20 minutes in a log: blocks and drift are those of recorded time."""

from __future__ import annotations

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.run import Identification
from dynid.testing import Unmodelled, plant, record

SECONDS, STRETCHES, PAUSE = 36.0, 3, 1200.0


def identified(fall: float, pause: float = PAUSE) -> tuple[Log, Identification]:
    """Three stretches with pauses between them, in which viscous friction falls by a share in all."""
    rng = np.random.default_rng(1)
    arm = plant("ur5", rng)
    made = record(arm, rng, Unmodelled(), SECONDS)
    tau = made.tau - fall * (made.t / SECONDS)[:, None] * arm.viscous * made.dq
    stretch = np.floor(made.t / SECONDS * STRETCHES)
    log = Log.from_arrays(arm.described, made.t + pause * stretch, made.q, tau)
    return log, identify(arm.described, log, Settings(), threads=1, diagnostics=Diagnostics())


def test_a_log_with_long_pauses_is_as_good_as_one_without() -> None:
    """Blocks were as long as a share of the whole time, so that there was one, and the log was refused."""
    log, run = identified(0.0)
    assert log.duration == pytest.approx(SECONDS, abs=0.1)
    assert run.verdict.level == "good"
    assert not {"drift", "friction-drift"} & {finding.code for finding in run.diagnostics}


def test_friction_that_falls_over_the_stretches_is_named() -> None:
    _, run = identified(0.4)
    assert "friction-drift" in {finding.code for finding in run.diagnostics}
