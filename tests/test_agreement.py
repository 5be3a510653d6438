"""Runs of one robot agree, and if not, what changed is named: on plants that the model does not describe."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.signal import lfilter

from dynid.base import Float, UsageError
from dynid.estimate import WLS, Part, homogeneity
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.log import Log
from dynid.report import comparison_html
from dynid.robot import load_example
from dynid.run import Agreement, Cause, Identification
from dynid.run.agreement import agreement
from dynid.signals import Preparation, Samples
from dynid.terms import RigidBody, Terms
from dynid.testing import random_inertia
from dynid.trajectories import FourierTrajectory
from dynid.verbs import agreement_data, agreement_lines, save
from tests.command_line import Run

pytestmark = pytest.mark.usefixtures("unexamined")

ROBOT = load_example("puma560")
RATE, SECONDS = 100.0, 40.0
PASSED = np.linspace(0.0, 1.0, round(SECONDS * RATE))
BODIES = random_inertia(3, ROBOT.n_bodies)
RIGID = Terms((RigidBody(),))
# Torque that the joints see, N m, by which friction is measured.
SIZE = np.array([20.0, 130.0, 50.0, 8.0, 10.0, 6.0])

Effect = Callable[[Samples, Float], Float]


def friction(scale: Float | float = 1.0, bend: float = 0.0) -> Effect:
    """Coulomb and viscous friction with a wave over position, and a Stribeck bend, which no default term describes."""

    def torque(samples: Samples, rigid: Float) -> Float:
        level = 0.1 + bend * np.exp(-((samples.dq / 0.1) ** 2))
        own = level * np.tanh(samples.dq / 0.02) + 0.1 * samples.dq + 0.01 * np.sin(7.0 * samples.q)
        return np.asarray(np.reshape(scale, (-1, 1)) * own * SIZE)

    return torque


def loaded_friction(samples: Samples, rigid: Float) -> Float:
    """Friction that grows with the torque that a gear carries."""
    return np.asarray(0.25 * np.abs(rigid) * np.tanh(samples.dq / 0.02))


@cache
def recorded(
    motion: int, noise: int, *effects: Effect, pace: float = 0.05, load: float = 0.0, gain: float = 1.0
) -> Identification:
    """A run on a simulated log; gain: of the second joint's torque sensor.    load: kg, 10 cm off the last joint."""
    t = np.arange(round(SECONDS * RATE)) / RATE
    q, dq, ddq = FourierTrajectory.random(ROBOT, SECONDS, harmonics=8, seed=motion, frequency=pace).motion(t)
    bodies = BODIES.copy()
    bodies[-1] += load * np.array([1.0, 0.1, 0.0, 0.05, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    samples = Samples.from_motion(q, dq, ddq, rate=RATE)
    rigid = RIGID.torque(ROBOT, samples, bodies.ravel())
    tau = rigid + sum(effect(samples, rigid) for effect in (effects or (friction(),)))
    slow = np.exp(-1.0 / (0.1 * RATE))
    white = np.random.default_rng(noise).normal(size=tau.shape) * np.sqrt(1.0 - slow**2)
    tau = tau + 0.02 * tau.std(axis=0) * lfilter([1.0], [1.0, -slow], white, axis=0)
    tau[:, 1] *= gain
    settings = Settings(terms=DEFAULT_TERMS, estimator=WLS(), preparation=Preparation(cutoff=8.0))
    return identify(
        ROBOT, Log.from_arrays(ROBOT, t, q, tau, dq=dq, name=f"m{motion}n{noise}"), settings, threads=1
    )


def compared(*runs: Identification) -> Agreement:
    return agreement([(f"run {i}", run) for i, run in enumerate(runs)])


def test_one_robot_on_three_motions_agrees_where_textbook_intervals_do_not() -> None:
    found = compared(recorded(1, 1), recorded(2, 2), recorded(3, 3))
    assert found.cause is Cause.NONE
    assert found.share >= 0.9
    assert found.textbook < found.share - 0.1
    assert found.compared == 3 * recorded(1, 1).estimate.base.rank
    assert all(np.isfinite(one.pooled) for one in found.parameters if one.agrees)


def test_the_pooled_values_are_those_of_one_fit_to_all_and_know_more_than_each_run() -> None:
    runs = recorded(1, 1), recorded(2, 2)
    found = compared(*runs)
    assert all(one.agrees for one in found.parameters)
    for one in found.parameters:
        widths = [r.estimate.half_width()[r.estimate.names.index(one.formula)] for r in runs]
        assert one.half < 1.2 * min(widths)
        assert one.values.min() - 3 * one.half < one.pooled < one.values.max() + 3 * one.half


@pytest.mark.parametrize(
    ("changed", "what"),
    [
        (lambda: recorded(2, 9, load=1.0), "the load on the last link"),
        (lambda: recorded(2, 9, gain=1.1), "the torque scale of the joints"),
        (lambda: recorded(2, 9, friction(1.4)), "friction and offsets"),
    ],
    ids=["load", "gain", "friction"],
)
def test_what_changed_is_named(changed: Callable[[], Identification], what: str) -> None:
    found = compared(recorded(2, 2), changed())
    assert found.cause is Cause.CHANGED
    assert what in found.reason
    assert max(found.changes, key=lambda c: c.share if " and the" not in c.what else 0.0).what == what
    assert any("would explain" in line for line in agreement_lines(found))


def test_friction_that_warms_up_during_the_runs_is_no_change_between_them() -> None:
    found = compared(
        recorded(2, 2, friction(1.6 - 0.4 * PASSED)), recorded(2, 9, friction(1.3 - 0.4 * PASSED))
    )
    assert found.cause is Cause.DRIFTS


def test_a_model_that_lacks_friction_under_load_is_too_small_for_two_paces() -> None:
    found = compared(recorded(1, 1, loaded_friction), recorded(2, 2, loaded_friction, pace=0.15))
    assert found.cause is Cause.TOO_SMALL
    assert not found.alike
    assert "depend on the motion" in found.reason


def test_a_bend_of_friction_that_the_model_lacks_is_no_change_of_the_robot() -> None:
    bent = friction(bend=0.15)
    found = compared(recorded(1, 1, bent, pace=0.025), recorded(2, 2, bent, pace=0.1))
    assert found.cause in (Cause.TOO_SMALL, Cause.OPEN)


def test_friction_that_may_depend_on_the_motion_is_left_open() -> None:
    found = compared(recorded(1, 1), recorded(2, 9, friction(1.4), pace=0.15))
    assert found.cause is Cause.OPEN
    assert "Record the same motion twice" in found.reason


def test_runs_of_the_same_data_are_not_tested() -> None:
    one = recorded(1, 1)
    held = replace(one, provenance={"training_data": [["abc", 0, 0.0, 40.0]]})
    later = replace(one, provenance={"training_data": [["abc", 0, 40.0, 80.0]]})
    with pytest.raises(UsageError, match="same data"):
        compared(held, held)
    assert compared(held, later).cause is Cause.NONE


def test_other_robots_and_single_runs_are_refused() -> None:
    one = recorded(1, 1)
    renamed = replace(ROBOT, joint_names=tuple("abcdef"), tree_joint_names=tuple("abcdef"))
    with pytest.raises(UsageError, match="joints"):
        compared(one, replace(one, robot=renamed))
    with pytest.raises(UsageError, match="one run"):
        compared(one)


def test_the_statistic_is_what_pooling_adds_to_the_squares() -> None:
    rng = np.random.default_rng(4)
    X = [rng.normal(size=(200, 5)), rng.normal(size=(300, 5))]
    y = [x @ np.arange(5.0) + rng.normal(size=len(x)) for x in X]

    def missed(x: Float, target: Float) -> tuple[Float, float]:
        beta = np.linalg.lstsq(x, target, rcond=None)[0]
        return beta, float(np.sum((target - x @ beta) ** 2))

    parts = []
    for x, target in zip(X, y, strict=True):
        beta, _ = missed(x, target)
        blocks = [x[i : i + 10].T @ (target[i : i + 10] - x[i : i + 10] @ beta) for i in range(0, len(x), 10)]
        parts.append(Part(beta, x.T @ x, np.linalg.solve(x.T @ x, np.array(blocks).T)))
    own = sum(missed(x, target)[1] for x, target in zip(X, y, strict=True))
    both, pooled = missed(np.concatenate(X), np.concatenate(y))
    test = homogeneity(parts)
    assert np.isclose(test.statistic, pooled - own)
    np.testing.assert_allclose(test.pooled, both)


def test_equal_parts_are_told_apart_as_often_as_stated() -> None:
    rng = np.random.default_rng(5)
    p_values = []
    for _ in range(400):
        parts = []
        for count in (20, 40, 30):
            scores = rng.normal(size=(8, count)) * np.linspace(0.5, 3.0, 8)[:, None]
            value = scores.sum(axis=1) / count
            parts.append(Part(value, np.eye(8) * count, (scores - value[:, None]) / count))
        p_values.append(homogeneity(parts).p_value)
    # Three standard errors of a share of 0.05 among 400 are 0.033.
    assert abs(np.mean(np.array(p_values) < 0.05) - 0.05) < 0.033


def test_the_page_the_lines_and_the_data_say_it(run: Run, tmp_path: Path) -> None:
    runs = [("a", recorded(2, 2)), ("b", recorded(2, 9, load=1.0))]
    found = agreement(runs)
    page = comparison_html(runs, found)
    assert "the load on the last link" in page
    data = agreement_data(found)
    assert json.loads(json.dumps(data, allow_nan=False))["cause"] == "the robot changed between the runs"
    for name, one in runs:
        save(one, tmp_path / name)
    done = run(
        "compare", tmp_path / "a", tmp_path / "b", "--pool", tmp_path / "p.json", "--out", tmp_path / "c.html"
    )
    assert done.code == 0
    assert "THE ROBOT CHANGED BETWEEN THE RUNS" in done.out
    assert json.loads((tmp_path / "p.json").read_text())["comparisons"] == found.compared
    again = run("compare", tmp_path / "a", tmp_path / "b", "--pool", tmp_path / "p.json")
    assert again.code != 0
