"""Designed motions: better than drawn ones, within all bounds, the same for any number of workers; refusals."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, UnfitDataError, UsageError
from dynid.excitation import (
    Bounds,
    Criterion,
    MotionLimits,
    Plan,
    RobotShapes,
    Task,
    Workspace,
    collision_model,
    design_motion,
    information_of,
    prior_theta,
    robot_shapes,
)
from dynid.excitation.design import FINER, Problem, draws
from dynid.excitation.excite import fourier_basis
from dynid.robot import Limits, RobotModel, Shape, load_example
from dynid.spatial import placement
from dynid.terms import ChannelTorque, Coulomb, Offset, RigidBody, Viscous
from dynid.trajectories import FourierBasis, SplineBasis

ROBOT = load_example("arm7")
TERMS = RigidBody() + Viscous() + Coulomb() + Offset()
INFORMATION = information_of(ROBOT, TERMS)
BASIS = FourierBasis(10.0, 3, 0.2, 1.5)


def bounds(robot: RobotModel = ROBOT) -> Bounds:
    return Bounds(
        MotionLimits.of(robot),
        prior_theta(robot, INFORMATION.terms),
        workspace=Workspace.of(robot, floor=-0.2),
        collision=collision_model(robot, robot_shapes(robot, np.array([0.05]))),
    )


def small(task: Task, workers: int = 1) -> Plan:
    return design_motion(task, starts=2, iterations=12, candidates=16, workers=workers)


@pytest.fixture(scope="module")
def plan() -> Plan:
    return small(Task(BASIS, replace(INFORMATION, criterion=Criterion.CONDITION), bounds()))


def test_the_design_beats_the_best_draw(plan: Plan) -> None:
    assert plan.value < plan.first - 0.2
    assert plan.figures.condition == pytest.approx(np.exp(plan.value))


def test_every_bound_holds_and_is_stated(plan: Plan) -> None:
    assert {m.what for m in plan.margins} == {
        "position", "velocity", "acceleration", "jerk", "torque", "workspace", "self-collision",
    }  # fmt: skip
    assert plan.tightest.margin >= 0
    fine = plan.task.margins(plan.trajectory.X, denser=20)
    assert min(m.margin for m in fine) > -1e-3


def test_a_search_tests_limits_only_of_motions_with_a_better_criterion(
    plan: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, inner = Problem(plan.task), Task.keeps
    tested: list[float] = []

    def keeps(task: Task, X: Float, denser: int) -> bool:
        tested.append(problem.exact(X))
        return inner(task, X, denser)

    best, rng, improved = draws(problem, 30, 0)[-1], np.random.default_rng(0), 0
    value = problem.exact(best)
    monkeypatch.setattr(Task, "keeps", keeps)
    for _ in range(20):
        X = problem.unpacked(0.4 * rng.uniform(-1, 1, problem.scale.size))
        tested.clear()
        better = problem.improvement(best, value, X)
        assert all(criterion < value for criterion in tested)
        if better is not None:
            improved += 1
            best, value = better
            assert value == problem.exact(best) == tested[-1]
            assert min(margin.margin for margin in plan.task.margins(best, FINER)) >= 0
    assert improved >= 1


def test_a_motion_keeps_its_bounds_where_no_margin_is_negative(plan: Plan) -> None:
    task, problem = plan.task, Problem(plan.task)
    rng, seen = np.random.default_rng(0), set()
    for size in np.linspace(0.05, 1.0, 40):
        X = problem.unpacked(size * rng.uniform(-1, 1, problem.scale.size))
        kept = min(margin.margin for margin in task.margins(X, FINER)) >= 0
        assert task.keeps(X, FINER) == kept
        seen.add(kept)
    assert task.keeps(plan.trajectory.X)
    assert seen == {True, False}


def test_harmonics_reach_one_bandwidth_whatever_the_length() -> None:
    found = [(one.frequency, one.harmonics) for one in map(fourier_basis, (4.0, 10.0, 16.0, 30.0, 60.0))]
    np.testing.assert_allclose(found, [(1 / 4, 8), (0.1, 8), (1 / 16, 13), (0.05, 16), (0.05, 16)])
    given = fourier_basis(30.0, harmonics=3, frequency=0.2)
    assert (given.frequency, given.harmonics) == (0.2, 3)
    assert fourier_basis(30.0, frequency=0.1).harmonics == 8


def test_rest_at_start_and_end(plan: Plan) -> None:
    q, dq, ddq = plan.trajectory.motion(np.array([0.0, plan.trajectory.duration]))
    np.testing.assert_allclose(q[0], q[1], atol=1e-12)
    assert max(np.abs(dq).max(), np.abs(ddq).max()) < 1e-9


def test_the_number_of_workers_changes_nothing(plan: Plan) -> None:
    np.testing.assert_array_equal(small(plan.task, workers=2).trajectory.X, plan.trajectory.X)


def test_splines_and_the_determinant() -> None:
    task = Task(SplineBasis(10.0, 12), INFORMATION, bounds(), start=np.full(7, 0.2))
    found = small(task)
    assert found.value < found.first - 3.0
    assert found.tightest.margin >= 0
    np.testing.assert_allclose(found.trajectory.motion(np.zeros(1))[0][0], 0.2)


def test_stopping_keeps_the_best_so_far() -> None:
    asked = []

    def stop() -> bool:
        asked.append(1)
        return len(asked) > 6

    found = design_motion(Task(BASIS, INFORMATION, bounds()), 3, 50, candidates=12, stop=stop)
    assert found.stopped
    assert found.tightest.margin >= 0
    assert found.value <= found.first


@pytest.mark.parametrize("workers", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_progress_reaches_its_end(workers: int) -> None:
    reported: list[tuple[int, int, float]] = []
    task = Task(BASIS, INFORMATION, Bounds(MotionLimits.of(ROBOT)))
    plan = design_motion(
        task, 2, 4, candidates=6, workers=workers, progress=lambda *now: reported.append(now)
    )
    counts = [done for done, _, _ in reported]
    assert counts == sorted(counts)
    assert counts[-1] == 8
    assert {most for _, most, _ in reported} == {8}
    assert reported[-1][2] == pytest.approx(plan.value, rel=1e-9)


def test_terms_that_read_a_log_are_refused_by_channel() -> None:
    with pytest.raises(UsageError, match=r"channel-terms.*balance"):
        information_of(ROBOT, RigidBody() + ChannelTorque("balance", ROBOT.joint_names[1]))


def test_a_robot_without_limits_is_refused_by_name() -> None:
    bare = replace(ROBOT, limits=Limits.none(7))
    with pytest.raises(UsageError, match=rf"no limits for '{ROBOT.joint_names[0]}'.*velocity"):
        MotionLimits.of(bare)
    MotionLimits.of(bare, velocity=[1.0], lower=[-1.0], upper=[1.0])


def test_empty_limits_are_named() -> None:
    name = ROBOT.joint_names[2]
    lower, upper = np.array(ROBOT.limits.lower), np.array(ROBOT.limits.upper)
    lower[2] = upper[2] + 0.1
    with pytest.raises(UnfitDataError, match=f"joint '{name}'.*positions from"):
        MotionLimits.of(ROBOT, lower=lower)
    with pytest.raises(UnfitDataError, match="velocity limit of 0"):
        MotionLimits.of(ROBOT, velocity=np.zeros(7))


def test_a_torque_limit_below_gravity_is_named() -> None:
    effort = np.array(ROBOT.limits.effort)
    effort[1] = 1e-3
    weak = replace(bounds(), limits=MotionLimits.of(ROBOT, torque=effort))
    with pytest.raises(UnfitDataError, match=f"torque of {ROBOT.joint_names[1]}"):
        small(Task(BASIS, INFORMATION, weak))


def test_a_floor_above_the_robot_is_named() -> None:
    with pytest.raises(UnfitDataError, match="floor"):
        small(Task(BASIS, INFORMATION, replace(bounds(), workspace=Workspace.of(ROBOT, floor=9.0))))


def test_a_colliding_start_pose_is_named() -> None:
    pillar = Shape("base", -1, "capsule", placement(np.eye(3), np.array([0, 0, 1.0])), (0.2, 2.0))
    hand = Shape("hand", 6, "sphere", np.eye(4), (0.1,))
    pair = collision_model(ROBOT, RobotShapes((pillar, hand), "collision"))
    task = Task(BASIS, INFORMATION, replace(bounds(), collision=pair), start=np.zeros(7))
    with pytest.raises(UnfitDataError, match=r"start-collides.*self-collision of base - "):
        small(task)


def test_start_poses_outside_are_named() -> None:
    with pytest.raises(UnfitDataError, match=f"position of {ROBOT.joint_names[0]}"):
        small(Task(BASIS, INFORMATION, bounds(), start=np.array([9.0] + [0.0] * 6)))


def test_motion_too_small_to_determine_anything_is_refused() -> None:
    still = replace(bounds(), limits=MotionLimits.of(ROBOT, acceleration=[1e-9]))
    with pytest.raises(UnfitDataError, match="unidentifiable"):
        small(Task(BASIS, INFORMATION, still))
