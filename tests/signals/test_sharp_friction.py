"""Positions are filtered less than the equations where friction asks for it and noise permits; plants by pinocchio."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.estimate import WLS
from dynid.identification import Settings, identify
from dynid.log import Log
from dynid.run import Identification, validate
from dynid.signals import Preparation
from dynid.signals.prepare import prepare
from dynid.signals.state_cutoff import SHARPER
from dynid.testing import Plant, Recorded, Unmodelled, plant, record

pytestmark = pytest.mark.usefixtures("unexamined")

PLANTS = {"finger": 1, "ur3": 2}
SECONDS = 40.0
COARSE = 4e-3  # rad, of a count: a velocity in steps of more than friction needs to change sign


@cache
def moves(name: str, seed: int) -> tuple[Plant, Recorded]:
    """From pose to pose: friction turns round at every stop."""
    one = plant(name, np.random.default_rng(PLANTS[name]))
    rng = np.random.default_rng(seed)
    return one, record(one, rng, Unmodelled(), SECONDS, machine=np.random.default_rng(9), moves=True)


def log_of(one: Plant, made: Recorded) -> Log:
    return Log.from_arrays(one.described, made.t, made.q, made.tau)


def states_of(log: Log, **settings: object) -> tuple[float, Sequence[float]]:
    """The equations' own cut-off and those of the positions, Hz."""
    made = prepare(log, Preparation(**settings), Diagnostics()).settings  # type: ignore[arg-type]
    return float(made.cutoff), made.state_cutoffs(log.robot.n)


@pytest.mark.parametrize("name", PLANTS)
def test_other_moves_are_predicted_better_than_with_one_cutoff_for_both(name: str) -> None:
    one, made = moves(name, 10 + PLANTS[name])
    log, other = log_of(one, made), log_of(*moves(name, 20 + PLANTS[name]))
    cutoff, states = states_of(log)
    assert max(states) == pytest.approx(SHARPER * cutoff, rel=0.01)

    def missed(state_cutoff: float | str) -> float:
        settings = Settings(
            automatic=False, estimator=WLS(), preparation=Preparation(state_cutoff=state_cutoff)
        )  # type: ignore[arg-type]
        found: Identification = identify(one.described, log, settings, threads=1)
        return float(validate(found, other, Diagnostics()).scores.total_relative)

    assert missed("auto") < missed(cutoff)


@pytest.mark.parametrize("name", PLANTS)
def test_velocities_as_coarse_as_the_change_of_sign_are_filtered_as_the_equations(name: str) -> None:
    one, made = moves(name, 10 + PLANTS[name])
    cutoff, states = states_of(log_of(one, replace(made, q=np.round(made.q / COARSE) * COARSE)))
    assert max(states) <= cutoff


def test_a_cutoff_that_is_named_is_that_of_both_filters() -> None:
    log = log_of(*moves("finger", 11))
    cutoff, states = states_of(log, cutoff=6.0)
    assert cutoff == 6.0
    assert set(states) == {6.0}


def test_a_log_too_short_to_tell_keeps_one_cutoff() -> None:
    one, made = moves("finger", 11)
    short = made.t < 8.0
    cutoff, states = states_of(
        log_of(one, replace(made, t=made.t[short], q=made.q[short], dq=made.dq[short], tau=made.tau[short]))
    )
    assert set(states) == {cutoff}


def test_a_named_cutoff_of_a_joint_stays_beside_those_that_are_raised() -> None:
    log = log_of(*moves("finger", 11))
    first, *others = log.robot.joint_names
    cutoff, states = states_of(log, state_cutoff={first: 4.0})
    assert states[0] == 4.0
    assert len(others) == 2
    assert list(states[1:]) == pytest.approx([SHARPER * cutoff] * 2, rel=0.01)


def test_a_joint_that_hardly_moved_says_nothing_and_keeps_the_common_cutoff() -> None:
    """In one block of the log alone, of which there is no standard error."""
    one, made = moves("finger", 11)
    q = np.array(made.q)
    q[made.t > 1.0, 0] = q[made.t <= 1.0, 0][-1]
    cutoff, states = states_of(log_of(one, replace(made, q=q)))
    assert states[0] == cutoff
    assert max(states) > cutoff
