"""What changes within a log: friction that drifts, another robot from some time on; and what merely looks like it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Diagnostics
from dynid.diagnosis import ResidualAnalysis, check_changes
from dynid.diagnosis.changes import find_change, find_friction_drift
from dynid.diagnosis.load_times import find_load_times
from dynid.kernel import inverse_dynamics
from dynid.log import Switch
from dynid.testing import TrueMotion, analysis_of, random_robot, small_arm
from dynid.testing.lab import AddedTorque

ARM = small_arm()
VISCOUS, DRY = ARM.friction_prior.T
# Noise and motion drawn anew, for a law that holds at every period, mass and sense of a column.
DRAWN = pytest.mark.parametrize("seed", [0, pytest.param(1, marks=pytest.mark.slow)])


def softer(share: float) -> AddedTorque:
    """Viscous friction that changes by a share of its first value, in proportion to time."""
    return lambda motion, rng: share * (motion.t / motion.t[-1])[:, None] * VISCOUS * motion.dq


def heavier(start: float) -> AddedTorque:
    """A load of 2 kg on the forearm from some time on, s."""

    def torque(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
        load = np.zeros_like(ARM.inertia_prior)
        load[2, :4] = [2.0, 0.6, 0.0, 0.0]
        ddq = np.gradient(motion.dq, motion.t, axis=0)
        later = (motion.t >= start)[:, None]
        return np.where(later, inverse_dynamics(ARM.tree, load, motion.q, motion.dq, ddq), 0.0)

    return torque


def picking(period: float, mass: float) -> AddedTorque:
    """A load on the forearm, m c = 0.3 m kg m, that is taken up and put down every so many seconds."""

    def torque(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
        load = np.zeros_like(ARM.inertia_prior)
        load[2, :4] = [mass, 0.3 * mass, 0.0, 0.0]
        ddq = np.gradient(motion.dq, motion.t, axis=0)
        held = is_held(motion.t, period)[:, None]
        return np.where(held, inverse_dynamics(ARM.tree, load, motion.q, motion.dq, ddq), 0.0)

    return torque


def is_held(t: np.ndarray, period: float) -> np.ndarray:
    return np.asarray((t / period + 0.3) % 2.0 >= 1.0)


def heavier_and_stiffer(start: float) -> AddedTorque:
    """Such a load, with viscous friction doubled at the same time."""

    def torque(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
        later = (motion.t >= start)[:, None]
        return heavier(start)(motion, rng) + np.where(later, 2.5 * VISCOUS * motion.dq, 0.0)

    return torque


def cable(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
    """A spring that bites in one half of the elbow's range."""
    torque = np.zeros_like(motion.tau)
    torque[:, 2] = 3.0 * np.maximum(motion.q[:, 2] - np.median(motion.q[:, 2]), 0.0) ** 2
    return torque


def reported(analysis: ResidualAnalysis) -> list[str]:
    sink = Diagnostics()
    check_changes(analysis, sink)
    return [one.identifier for one in sink]


def pressed(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
    """A wave of torque on every joint that no model has."""
    return 0.3 * motion.size * np.sin(7.0 * motion.t)[:, None]


@pytest.mark.parametrize("seed", range(4))
def test_a_load_on_a_chain_that_stands_is_looked_for_nowhere(seed: int) -> None:
    """Joints that do not move count for nothing, and the load at their end is felt by no other."""
    robot = random_robot(seed, 4, branching=1.0)
    tips = sorted(set(range(4)) - set(robot.parent.tolist()))
    assert len(tips) > 1
    analysis = analysis_of(robot, pressed, seed=seed)
    r = analysis.residuals
    q = r.q.copy()
    q[:, tips[-1]] = 0.3
    if robot.parent[tips[-1]] >= 0:
        q[:, robot.parent[tips[-1]]] = 0.1
    standing = replace(analysis, residuals=replace(r, q=q))
    assert tips[-1] not in standing.joints
    assert standing.joints
    assert find_load_times(standing) is None


@pytest.mark.parametrize("share", [-0.3, 0.4])
def test_friction_that_drifts_is_reported_with_its_size(share: float) -> None:
    analysis = analysis_of(ARM, softer(share), seed=1)
    drift = find_friction_drift(analysis)
    assert drift is not None
    assert drift.part == "viscous friction"
    # Relative to the fitted mean, half the change away from the first value; the drift itself bends it by some percent.
    assert drift.change == pytest.approx(share / (1.0 + 0.5 * share), rel=0.15)
    assert 0.0 < drift.std < 0.05
    assert reported(analysis) == ["friction-drift"]


@pytest.mark.parametrize("start", [11.0, 15.0])
def test_friction_that_is_less_from_some_time_on_is_no_other_robot(start: float) -> None:
    """As of two logs of which one was recorded with cold drives and the other with warm ones."""

    def warm(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
        friction = VISCOUS * motion.dq + DRY * np.tanh(motion.dq / 0.02)
        return np.where((motion.t >= start)[:, None], -0.5 * friction, 0.0)

    assert reported(analysis_of(ARM, warm, seed=1)) == ["friction-drift"]


@pytest.mark.parametrize("seed", range(3))
def test_what_would_push_at_one_end_of_the_log_is_no_friction(seed: int) -> None:
    """A torque against the motion in the beginning and with it in the end, as no friction does: no drift."""

    def turning(motion: TrueMotion, rng: np.random.Generator) -> np.ndarray:
        return -6.0 * (motion.t / motion.t[-1] - 0.5)[:, None] * DRY * np.sign(motion.dq)

    assert find_friction_drift(analysis_of(ARM, turning, seed=seed)) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_robot_that_stays_the_same_is_left_in_peace(seed: int) -> None:
    assert reported(analysis_of(ARM, seed=seed)) == []
    assert reported(analysis_of(ARM, softer(-0.08), seed=seed)) == []


@pytest.mark.parametrize("start", [11.0, 15.0, 19.0])
def test_a_load_that_is_taken_up_is_a_doubt(start: float) -> None:
    analysis = analysis_of(ARM, heavier(start), seed=2)
    change = find_change(analysis)
    assert change is not None
    assert change.gain > 0.5
    # Times are found to an eighth of the log.
    assert abs(change.seconds - start) < 30.0 / 8.0
    assert reported(analysis) == ["changed-within-log"]


@pytest.mark.parametrize("seed", range(3))
def test_what_the_model_lacks_is_no_change(seed: int) -> None:
    for lacking in (cable, softer(0.4)):
        analysis = analysis_of(ARM, lacking, seed=seed)
        assert find_change(analysis) is None
        assert find_load_times(analysis) is None


@DRAWN
@pytest.mark.parametrize(
    ("period", "mass"),
    [
        (0.6, 1.0),
        (1.1, 0.5),
        (7.0, 2.0),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in ((1.1, 2.0), (3.0, 1.0), (5.0, 0.5))),
    ],
)
def test_a_load_that_is_taken_up_and_put_down_is_found_with_its_mass_and_its_times(
    period: float, mass: float, seed: int
) -> None:
    analysis = analysis_of(ARM, picking(period, mass), seed=seed)
    found = find_load_times(analysis)
    assert found is not None
    assert found.body == 2
    # Windows that hold both states, and friction that has taken up a part of the load, bend it by some percent.
    assert found.mass == pytest.approx(mass, rel=0.1)
    assert 0.0 < found.std < 0.1 * mass
    assert (found.held == is_held(analysis.elapsed, period)).mean() > 0.95
    assert find_change(analysis) is None
    assert reported(analysis) == ["changed-within-log"]


def switched(analysis: ResidualAnalysis, **columns: np.ndarray) -> ResidualAnalysis:
    """The analysis of a log with further columns of two values, given at the times of the residuals."""
    r = analysis.residuals
    found = tuple(
        Switch(name, low, high, {r.trajectories[0]: (r.t, on)})
        for (name, on), (low, high) in zip(columns.items(), [(0.0, 1.0), (2.0, 5.0)], strict=False)
    )
    return replace(analysis, switches=lambda: found)


@DRAWN
@pytest.mark.parametrize("period", [0.5, 1.1, 4.0])
@pytest.mark.parametrize("inverted", [False, True])
def test_a_column_that_says_when_the_load_is_held_is_named(period: float, inverted: bool, seed: int) -> None:
    analysis = analysis_of(ARM, picking(period, 1.0), seed=seed)
    t = analysis.residuals.t
    grip = is_held(t, period) ^ inverted
    found = find_load_times(switched(analysis, lamp=t % 2.3 > 1.0, grip=grip))
    assert found is not None
    assert found.switch is not None
    assert found.switch.column == "grip"
    assert found.when == ((2.0, 5.0) if inverted else (5.0, 2.0))
    assert found.mass == pytest.approx(1.0, abs=max(4.0 * found.std, 0.02))
    assert (found.held == is_held(analysis.elapsed, period)).mean() > 0.95
    sink = Diagnostics()
    check_changes(switched(analysis, lamp=t % 2.3 > 1.0, grip=grip), sink)
    assert "while column 'grip' is " in next(iter(sink)).text
    assert 'term = "held_load"' in next(iter(sink)).text


@pytest.mark.parametrize("seed", range(3))
def test_a_column_that_has_nothing_to_do_with_a_load_is_not_named(seed: int) -> None:
    for added in (pressed, cable, softer(0.4)):
        analysis = analysis_of(ARM, added, seed=seed)
        t, q = analysis.residuals.t, analysis.residuals.q
        columns = {"lamp": t % 2.3 > 1.0, "inside": q[:, 2] > np.median(q[:, 2])}
        assert find_load_times(switched(analysis, **columns)) is None
    still = analysis_of(ARM, picking(3.0, 1.0), seed=seed)
    found = find_load_times(switched(still, lamp=still.residuals.t % 2.3 > 1.0))
    assert found is not None
    assert found.switch is None


def test_a_load_of_some_trajectories_is_told_by_their_names() -> None:
    analysis = analysis_of(ARM, heavier(15.0), seed=2)
    r = analysis.residuals
    second = (r.t >= 15.0).astype(np.int64)
    sink = Diagnostics()
    two = replace(r, trajectories=("empty", "with tool"), trajectory=second)
    check_changes(replace(analysis, residuals=two), sink)
    assert [one.identifier for one in sink] == ["changed-within-log"]
    assert "in trajectory 'with tool'" in next(iter(sink)).text
    assert "a load of 2 +- " in next(iter(sink)).text


def test_a_load_is_named_where_more_than_the_load_changed() -> None:
    analysis = analysis_of(ARM, heavier_and_stiffer(15.0), seed=2)
    r = analysis.residuals
    two = replace(r, trajectories=("empty", "with tool"), trajectory=(r.t >= 15.0).astype(np.int64))
    analysis, sink = replace(analysis, residuals=two), Diagnostics()
    load, change = find_load_times(analysis), find_change(analysis)
    assert load is not None
    assert change is not None
    assert load.gain < 0.8 * change.gain
    assert load.mass == pytest.approx(2.0, abs=3.0 * load.std)
    check_changes(analysis, sink)
    (doubt,) = sink
    assert "a load of" in doubt.text
    assert "in trajectory 'with tool'" in doubt.text


def test_without_blocks_to_hold_out_nothing_is_claimed() -> None:
    analysis = analysis_of(ARM, heavier(15.0), seed=2)
    r = analysis.residuals
    few = {
        name: getattr(r, name)[:40]
        for name in ("t", "trajectory", "segment", "measured", "predicted", "q", "dq")
    }
    assert reported(replace(analysis, residuals=replace(r, **few, std=r.std[:40]))) == []
