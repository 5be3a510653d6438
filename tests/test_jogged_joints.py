"""Joints that are jogged once or twice each, one after the other; the plant is pinocchio's, and so is the other fit."""

from __future__ import annotations

from functools import cache
from itertools import product

import numpy as np
import pytest

from dynid.base import Diagnostics, Float
from dynid.estimate import WLS, Origin
from dynid.factor import folds_of, moved_once
from dynid.identification import Settings, identify
from dynid.run import Identification, scores_from_dict, scores_to_dict
from dynid.signals import Samples
from dynid.terms import Offset, RigidBody, Terms, Viscous, moves_throughout
from dynid.terms.residual_tests import LEAST_PARTS, PARTS
from dynid.testing import Plant
from tests.jogged_plant import RATE, Jogged, arm, jogged, plain_least_squares

# Friction whose sign the model smooths over 0.02 rad/s, and the plant over less, comes out so much off.
SMOOTHED = 0.12
# One arm jogged once and another twice; the other two are for the campaign, as are more models without friction.
JOGGED = [
    (1, 1), (3, 2), *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1, 2), (3, 1)))
]  # fmt: skip
LEVEL, LINEAR = RigidBody() + Offset(), RigidBody() + Viscous()


@cache
def made(seed: int, times: int, held: bool = False) -> tuple[Plant, object, Jogged]:
    one, real = arm(seed)
    return one, real, jogged(one, real, list(range(one.described.n)) * times, seed + 10, held)


@cache
def identified(
    seed: int, times: int, held: bool = False, terms: Terms | None = None
) -> tuple[Identification, Diagnostics]:
    one, _, log = made(seed, times, held)
    sink, settings = Diagnostics(), Settings(terms=terms, estimator=WLS())
    return identify(one.described, log.log(one), settings, threads=1, diagnostics=sink), sink


def follows_time(run: Identification) -> list[str]:
    return [one.title for one in run.residual_findings if one.identifier == "drift"]


def friction_at(run: Identification, dq: float) -> Float:
    """(n,) the model's friction after a while at a steady speed, half of what lies between both directions."""
    n, t = run.robot.n, np.arange(2.0 * RATE) / RATE
    own = run.terms.friction_columns(run.robot)
    found = []
    for speed in (dq, -dq):
        q = np.repeat((speed * t)[:, None], n, axis=1)
        samples = Samples.from_motion(q, np.full_like(q, speed), 0.0 * q, 0.0 * q, RATE)
        found.append(run.terms.torque(run.robot, samples, np.where(own, run.estimate.parameters, 0.0))[-1])
    return np.asarray(0.5 * (found[0] - found[1]))


@pytest.mark.parametrize(("seed", "times"), JOGGED)
def test_one_jog_a_joint_gives_a_model_without_a_false_claim(seed: int, times: int) -> None:
    run, sink = identified(seed, times)
    assert not sink.doubts
    assert follows_time(run) == []
    assert not [one for one in sink if one.identifier == "friction-drift"]
    assert run.verdict.level in ("good", "usable")


@pytest.mark.parametrize(("seed", "times"), JOGGED)
def test_it_finds_the_friction_at_the_speed_of_the_jogs(seed: int, times: int) -> None:
    one, _, log = made(seed, times)
    run, _ = identified(seed, times)
    speed = float(np.abs(log.dq).max(axis=0).mean())
    true = one.coulomb + one.viscous * speed
    assert (np.abs(friction_at(run, speed) - true) < SMOOTHED * true).all()


@pytest.mark.parametrize("seed", [3, pytest.param(1, marks=pytest.mark.slow)])
def test_a_joint_that_moved_one_way_has_friction_and_no_offset(seed: int) -> None:
    """At rest friction holds any part of its limit, of which an offset would make a level."""
    run, _ = identified(seed, 1, True)
    names = {column.name.rstrip("0123456789") for column in run.estimate.columns}
    assert not names & {"fo", "fcp", "fcn"}


@pytest.mark.parametrize(("seed", "times"), JOGGED)
def test_it_predicts_other_jogs_as_well_as_plain_least_squares(seed: int, times: int) -> None:
    one, real, log = made(seed, times)
    run, _ = identified(seed, times)
    other = jogged(one, real, list(range(one.described.n)) * 3, seed + 20, False)
    samples = Samples.from_motion(other.q, other.dq, other.ddq, other.tau, RATE)
    moves = np.abs(other.dq) > 0.02
    error = np.where(moves, run.terms.torque(run.robot, samples, run.estimate.parameters) - other.tau, 0.0)
    size = (np.where(moves, other.tau, 0.0) ** 2).sum(axis=0)
    ours = np.sqrt((error**2).sum() / size.sum())
    plain = plain_least_squares(real, log, other)
    assert ours < 1.1 * np.sqrt((plain**2 * size).sum() / size.sum())


@pytest.mark.parametrize(
    ("seed", "times", "held", "terms"),
    [
        (3, 2, False, LEVEL),
        (4, 2, True, LINEAR),
        *(
            pytest.param(*one, terms, marks=pytest.mark.slow)
            for one, terms in (
                ((3, 2, False), LINEAR),
                ((4, 2, True), LEVEL),
                *product(((1, 2, False), (3, 1, True)), (LEVEL, LINEAR)),
            )
        ),
    ],
)
def test_a_model_without_friction_is_no_proof_of_another_reading_or_of_change(
    seed: int, times: int, held: bool, terms: Terms
) -> None:
    """What it lacks looks like turned signs, and like friction that changes; the log knows neither."""
    run, sink = identified(seed, times, held, terms)
    assert not sink.doubts
    assert follows_time(run) == []


def test_a_joint_whose_motion_lies_in_one_block_is_not_judged() -> None:
    """Five joints are jogged four times, the last one once, within a block of 3 s."""
    one, real = arm(1)
    log = jogged(one, real, [0, 1, 2, 3, 4] * 4 + [5], 11, False)
    run = identify(
        one.described,
        log.log(one),
        Settings(block_seconds=3.0, automatic=False, estimator=WLS()),
        threads=1,
        diagnostics=Diagnostics(),
    )
    scores = run.validations[0].scores
    assert scores.origin is Origin.HELD_OUT_BLOCKS
    assert scores.moved_once == moved_once(run.factors, folds_of(run.factors))
    assert scores.moved_once == (one.described.joint_names[5],)
    said = [one for one in run.verdict.findings if one.code == "joint-not-judged"]
    assert [one.title.split(":")[0] for one in said] == list(scores.moved_once)
    assert run.verdict.level != "good"
    assert scores_from_dict(scores_to_dict(scores)).moved_once == scores.moved_once


@pytest.mark.parametrize(("parts", "wanted"), [(LEAST_PARTS, True), (LEAST_PARTS - 1, False)])
def test_a_change_is_seen_of_a_joint_that_moves_in_half_of_the_log(parts: int, wanted: bool) -> None:
    t = np.linspace(0.0, 60.0, 50 * PARTS, endpoint=False)
    dq = np.where(np.arange(len(t)) < 50 * parts, np.sin(t), 1e-6)
    assert moves_throughout(t, dq) is wanted
    assert not moves_throughout(np.zeros(10), np.ones(10))
