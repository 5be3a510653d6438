"""Joints that are stopped in mid-log, by brakes or by their servos: plants by pinocchio, with what dynid lacks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.estimate import WLS, Scores
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.run import Identification
from dynid.signals import efforts_at_rest
from dynid.signals.effort_at_rest import EffortsAtRest
from dynid.testing import Plant, Recorded, Stop, Unmodelled, plant, record

BESIDE = Unmodelled(cable=0.005, torque_step=0.002, ripple=0.005)
ALL = tuple(range(6))
ARM = "ur5"
# What is held is told before anything is fitted, and what a joint's equation is worth does not depend on what is chosen
# of its friction, nor on consistent bodies.
PLAIN = Settings(automatic=False, estimator=WLS())


@cache
def arm() -> Plant:
    return plant(ARM, np.random.default_rng(1))


def motion(seed: int, *stops: Stop) -> Recorded:
    return record(arm(), np.random.default_rng(seed), BESIDE, machine=np.random.default_rng(77), stops=stops)


def log_of(made: Recorded) -> Log:
    return Log.from_arrays(arm().described, made.t, made.q, made.tau, made.dq)


@cache
def identified(*stops: Stop) -> Identification:
    """With some stops, scored on a motion without."""
    log, other = log_of(motion(5, *stops)), log_of(motion(6))
    return identify(arm().described, log, PLAIN, validation=other, threads=1, diagnostics=Diagnostics())


@cache
def without_stands(*stops: Stop) -> Scores:
    """As `unseen`, with equations at rest left out though friction holds nothing there."""

    def seen(*given: Any) -> EffortsAtRest:
        return replace(efforts_at_rest(*given), free=False, nearly_free=False)

    with patch("dynid.run.validation.efforts_at_rest", seen):
        return identified.__wrapped__(*stops).validations[0].scores


def unseen(*stops: Stop) -> Scores:
    return identified(*stops).validations[0].scores


def said(run: Identification, code: str) -> list[str]:
    return [one.text for one in run.diagnostics if one.identifier == code]


STOPS = {
    "all, brakes after the servos": Stop(ALL, 20.0, 99.0, 0.1, 0.0),
    "all, brakes take the motion": Stop(ALL, 20.0, 99.0, 0.1, 0.0, catches=True),
    "all, drives freeze": Stop(ALL, 20.0, 99.0, 0.1, "last", catches=True),
    "one joint in mid-log, no current": Stop((1,), 8.0, 15.0, 0.3, 0.0),
    "one joint in mid-log, holding current": Stop((1,), 8.0, 15.0, 0.3, 0.3),
    "three joints in mid-log": Stop((1, 2, 3), 8.0, 15.0, 0.3, 0.0),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if "three" in name else []) for name in STOPS]
)
def test_brakes_spoil_no_joint(name: str) -> None:
    """Every joint is predicted as by a model of a log in which servos held the same joints, or better.

    Where all stand at once what servos hold counts by itself; here it is left out as well, as behind brakes.
    """
    stop = STOPS[name]
    held = Stop(stop.joints, stop.start, stop.end, stop.slowing)
    run = identified(stop)
    (warning,) = said(run, "held-in-part")
    at = [j for j, joint in enumerate(run.robot.joint_names) if f"'{joint}'" in warning]
    assert set(at) <= set(stop.joints)
    assert 1 in at
    assert not run.diagnostics.doubts
    wanted = without_stands(held) if stop.joints == ALL else unseen(held)
    assert (unseen(stop).relative <= 1.15 * wanted.relative).all()


@pytest.mark.parametrize(
    "stop", [Stop(ALL, 20.0, 99.0, 0.1), Stop((1,), 8.0, 15.0, 0.3), Stop((4,), 8.0, 15.0, 0.3)], ids=str
)
def test_a_joint_that_its_servo_holds_keeps_its_equation(stop: Stop) -> None:
    assert not said(identified(stop), "held-in-part")


def test_the_equations_of_the_other_joints_stay() -> None:
    stop = STOPS["one joint in mid-log, no current"]
    count = identified(stop).training.scores.count
    others = np.delete(count, 1)
    assert (others == others[0]).all()
    lost = 1.0 - count[1] / others[0]
    # The joint stands from 8.3 to 15 s of 24; the filters' reach and its slow pace before and after go with it.
    assert 6.7 / 24.0 <= lost <= 9.0 / 24.0


def test_time_without_any_equation_is_left_out_and_accounted_for() -> None:
    stop = STOPS["all, brakes take the motion"]
    log = log_of(motion(5, stop))
    run = identify(arm().described, log, PLAIN, threads=1, diagnostics=Diagnostics())
    assert "stopped by brakes" in str(run.validations[0].scores.left_out)


def test_times_on_a_clock_of_seconds_since_1970_are_told_apart() -> None:
    made = motion(100, Stop((1,), 8.0, 15.0, 0.3, 0.0))
    late = replace(made, t=made.t + 1.7e9)
    run = identify(arm().described, log_of(late), PLAIN, threads=1, diagnostics=Diagnostics())
    (warning,) = said(run, "held-in-part")
    start, end = map(float, re.findall(r"\d+\.\d+", warning)[:2])
    assert start - 1.7e9 == pytest.approx(8.0, abs=1.0)
    assert end - 1.7e9 == pytest.approx(15.0, abs=1.0)
