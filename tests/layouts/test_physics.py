"""What clocks, derivatives and torque say: laws on an arm whose truth is known."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float
from dynid.layouts.physics import (
    DECISIVE,
    Motion,
    Recording,
    description_scale,
    exchanges,
    gain,
    misfit,
    motion_of,
    runs_of,
    time_step,
    velocity_ratio,
)
from tests.layouts.plants import PER_SI, run

ONE = run("arm", tuple(f"joint{k}" for k in range(1, 8)))


def motion(unit: str = "s", angle: str = "rad") -> Motion:
    t = ONE.t * PER_SI[unit]
    found = motion_of(Recording(t, ONE.q * PER_SI[angle], ONE.dq, ONE.tau, ((0, len(t)),)), 1 / PER_SI[unit])
    assert found is not None
    return found


def test_runs_end_where_time_runs_back_or_the_name_changes() -> None:
    t = np.array([0.0, 1, 2, 0, 1, 2, 3])
    assert runs_of(t) == ((0, 3), (3, 7))
    assert runs_of(t, ["a", "a", "a", "b", "b", "c", "c"]) == ((0, 3), (3, 5), (5, 7))
    assert time_step(t, runs_of(t)) == 1.0
    assert np.isnan(time_step(np.zeros(5), ((0, 5),)))


@pytest.mark.parametrize("unit", ["s", "ms", "ns"])
def test_motion_is_in_seconds_whatever_the_clock(unit: str) -> None:
    found, truth = motion(unit), motion()
    assert np.abs(found.dq - truth.dq).max() < 1e-3 * np.abs(truth.dq).max()


@pytest.mark.parametrize(("angle", "ratio"), [("rad", 1.0), ("deg", np.pi / 180)])
def test_the_slope_of_velocities_is_that_of_their_units(angle: str, ratio: float) -> None:
    slope, share = velocity_ratio(motion(angle=angle))
    assert slope == pytest.approx(np.full(7, ratio), rel=0.05)
    assert (share > 0.95).all()


def test_short_or_still_recordings_say_nothing() -> None:
    short = Recording(ONE.t[:40], ONE.q[:40], None, None, ((0, 40),))
    assert motion_of(short, 1.0) is None
    still = replace(motion(), tau=np.zeros_like(motion().q))
    assert misfit(ONE.robot, still) is None


def test_the_unit_of_the_torque_does_not_matter_to_the_fit() -> None:
    truth = motion()
    assert truth.tau is not None
    declared, scaled = misfit(ONE.robot, truth), misfit(ONE.robot, replace(truth, tau=truth.tau / 37))
    assert declared is not None
    assert scaled is not None
    assert scaled == pytest.approx(declared, rel=1e-6)


def test_every_exchange_of_joints_fits_worse() -> None:
    truth = motion()
    declared = misfit(ONE.robot, truth)
    assert declared is not None
    for i, j, order in exchanges(range(7)):
        other = misfit(ONE.robot, truth.read_as(1.0, order))
        assert other is not None
        assert gain(declared, other) > DECISIVE, (i, j)


def test_degrees_taken_for_radians_fit_worse() -> None:
    truth = motion()
    declared, wrong = misfit(ONE.robot, truth), misfit(ONE.robot, truth.read_as(180 / np.pi))
    assert declared is not None
    assert wrong is not None
    assert gain(declared, wrong) > DECISIVE


def test_the_description_tells_what_the_effort_is_worth() -> None:
    truth = motion()
    assert truth.tau is not None
    found = description_scale(ONE.robot, replace(truth, tau=truth.tau / 12.0))
    assert found is not None
    slope, share, size = found
    clear = (share > 0.6) & (size > 0.02 * size.max())
    assert clear.sum() >= 3
    # Friction that grows with load adds to it.
    assert slope[clear] == pytest.approx(np.full(int(clear.sum()), 1 / 12.0), rel=0.25)
    blind = replace(ONE.robot, inertia_prior=np.full_like(ONE.robot.inertia_prior, np.nan))
    assert description_scale(blind, truth) is None


def test_long_stands_before_and_after_take_no_evidence_from_the_motion() -> None:
    """A robot that waits for 24 parts of 25 of the log shows as well as one that does not whose columns are whose."""
    truth = motion()
    assert truth.tau is not None
    T = len(truth.q)

    def waits(values: Float, still: float) -> Float:
        before, after = (np.repeat(still * values[k : k + 1], 12 * T, axis=0) for k in (0, -1))
        return np.concatenate([before, values, after])

    long = Motion(
        waits(truth.q, 1.0), waits(truth.dq, 0.0), waits(truth.ddq, 0.0), waits(truth.tau, 1.0), None
    )
    declared = misfit(ONE.robot, long)
    assert declared is not None
    for i, j, order in exchanges(range(7)):
        other = misfit(ONE.robot, long.read_as(1.0, order))
        assert other is not None
        assert gain(declared, other) > DECISIVE, (i, j)
