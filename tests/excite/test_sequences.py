"""Friction sweeps and static poses within all bounds of a plan."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from dynid.base import UnfitDataError, UsageError
from dynid.excitation import (
    Bounds,
    MotionLimits,
    Workspace,
    collision_model,
    information_of,
    prior_theta,
    robot_shapes,
)
from dynid.excitation.sequences import MovesPlan, poses_plan, sweep_plan
from dynid.robot import load_example
from dynid.signals import Samples
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.trajectories import SmoothMoves, read_motion
from tests.command_line import Run, planned

ROBOT = load_example("arm7")
INFORMATION = information_of(ROBOT, RigidBody() + Viscous() + Coulomb())
CAPSULES = collision_model(ROBOT, robot_shapes(ROBOT, np.array([0.05])))
BOUNDS = Bounds(
    MotionLimits.of(ROBOT),
    prior_theta(ROBOT, INFORMATION.terms),
    workspace=Workspace.of(ROBOT, floor=0.0, collision=CAPSULES),
    collision=CAPSULES,
)
TIGHT = MotionLimits.of(ROBOT, jerk=[20.0])


@pytest.fixture(scope="module")
def sweep() -> MovesPlan:
    return sweep_plan(INFORMATION, BOUNDS, [0.1, 0.4], longest=3.0)


@pytest.fixture(scope="module")
def poses() -> MovesPlan:
    return poses_plan(INFORMATION, BOUNDS, 8)


@pytest.mark.parametrize("name", ["sweep", "poses"])
def test_every_bound_holds(name: str, request: pytest.FixtureRequest) -> None:
    plan: MovesPlan = request.getfixturevalue(name)
    assert {m.what for m in plan.margins} == {
        "position", "velocity", "acceleration", "jerk", "torque", "workspace", "self-collision",
    }  # fmt: skip
    assert plan.tightest.margin >= -1e-9
    t = np.linspace(0.0, plan.trajectory.duration, 40_000)
    q, dq, ddq = plan.trajectory.motion(t)
    limits = BOUNDS.limits
    assert (q >= limits.lower).all()
    assert (q <= limits.upper).all()
    assert (np.abs(dq) <= limits.velocity * (1 + 1e-9)).all()
    assert (np.abs(ddq) <= limits.acceleration * (1 + 1e-9)).all()


def test_a_sweep_runs_at_constant_velocities_in_both_directions(sweep: MovesPlan) -> None:
    t = np.linspace(0.0, sweep.trajectory.duration, 40_000)
    dq, moves = sweep.trajectory.motion(t)[1], sweep.trajectory
    begin = moves.starts[:-1] + moves.ramp
    steady = ((t[:, None] >= begin) & (t[:, None] <= begin + moves.cruise)).any(axis=1)
    for j, limit in enumerate(BOUNDS.limits.velocity):
        alone = steady & (np.abs(dq[:, j]) > 1e-6) & (np.abs(np.delete(dq, j, axis=1)).max(axis=1) < 1e-12)
        share = dq[alone, j] / limit
        for speed in (-0.4, -0.1, 0.1, 0.4):
            assert (np.abs(share - speed) < 1e-9).sum() > 20, (j, speed)


def test_bounds_narrow_the_sweep_where_the_arm_would_touch_itself() -> None:
    free = sweep_plan(INFORMATION, replace(BOUNDS, collision=None, workspace=None), [0.3], longest=30.0)
    kept = sweep_plan(INFORMATION, BOUNDS, [0.3], longest=30.0)
    reach = [np.ptp(plan.trajectory.poses, axis=0) for plan in (kept, free)]
    assert (reach[0] <= reach[1] + 1e-9).all()
    assert (reach[0] < reach[1] - 0.2).any()


def test_jerk_bounds_make_moves_gentler() -> None:
    gentle = replace(BOUNDS, limits=TIGHT)
    for plan in (sweep_plan(INFORMATION, gentle, [0.2], longest=3.0), poses_plan(INFORMATION, gentle, 3)):
        t = np.linspace(0.0, plan.trajectory.duration, 20_000)
        assert np.abs(plan.trajectory.jerk(t)).max() <= 20.0


def test_poses_are_reached_from_both_sides_and_held(poses: MovesPlan) -> None:
    chain = poses.trajectory
    assert isinstance(chain, SmoothMoves)
    held = np.flatnonzero(chain.hold > 0)
    assert len(held) == 2 * 8
    arrived = chain.poses[held + 1] - chain.poses[held]
    np.testing.assert_allclose(arrived[0::2], 0.05)
    np.testing.assert_allclose(arrived[1::2], -0.05)
    np.testing.assert_array_equal(chain.poses[held[0::2] + 1], chain.poses[held[1::2] + 1])


def test_chosen_poses_determine_gravity_better_than_drawn_ones(poses: MovesPlan) -> None:
    chain = poses.trajectory
    chosen = chain.poses[np.flatnonzero(chain.hold > 0)[0::2] + 1]
    limits = BOUNDS.limits

    def reported(q: np.ndarray) -> float:
        zero = np.zeros_like(q)
        names = 10 * ROBOT.n_bodies
        Y = RigidBody().torque_regressor(
            ROBOT, Samples.from_motion(q, zero, zero), np.ones(names, dtype=bool)
        )
        W = (Y.dense(names) / INFORMATION.noise[None, :, None]).reshape(-1, names)
        s = np.linalg.svd(W, compute_uv=False)
        return float(np.log(s[:17]).sum())

    rng = np.random.default_rng(0)
    drawn = [reported(rng.uniform(limits.lower, limits.upper, (8, 7))) for _ in range(40)]
    assert reported(chosen) > np.quantile(drawn, 0.9)


def test_the_same_seed_gives_the_same_poses(poses: MovesPlan) -> None:
    again, other = poses_plan(INFORMATION, BOUNDS, 8), poses_plan(INFORMATION, BOUNDS, 8, seed=1)
    np.testing.assert_array_equal(again.trajectory.poses, poses.trajectory.poses)
    assert np.abs(other.trajectory.poses - poses.trajectory.poses).max() > 0.1


def test_what_cannot_be_done_is_named() -> None:
    with pytest.raises(UsageError, match="sweep-speeds"):
        sweep_plan(INFORMATION, BOUNDS, [1.5])
    with pytest.raises(UsageError, match="unknown-joint"):
        sweep_plan(INFORMATION, BOUNDS, [0.1], ["elbow9"])
    low = np.zeros(7)
    low[3] = -1.9
    low[1] = 1.7
    with pytest.raises(UnfitDataError, match=r"start-pose.*home pose"):
        sweep_plan(INFORMATION, BOUNDS, [0.1], home=low)
    with pytest.raises(UnfitDataError, match="0 poses"):
        poses_plan(INFORMATION, replace(BOUNDS, workspace=Workspace.of(ROBOT, floor=9.0)), 3, candidates=20)
    with pytest.raises(UsageError, match="approach"):
        poses_plan(INFORMATION, BOUNDS, 3, approach=9.0)
    with pytest.raises(UsageError, match="0 poses"):
        poses_plan(INFORMATION, BOUNDS, 0)


def test_the_command_plans_moves_that_the_simulator_runs(run: Run, tmp_path: Path) -> None:
    arm = files("dynid") / "data" / "arm7.toml"
    held = planned(tmp_path, {"motion.family": "poses", "motion.poses": 3})
    done = run("excite", arm, *held, "--out", tmp_path / "poses")
    assert done.code == 0, done.err
    sweep = {"motion.family": "sweep"}
    short = sweep | {"motion.speeds": [0.3], "motion.joints": ["joint7"], "output.rate": 20.0}
    done = run("excite", arm, *planned(tmp_path, short), "--format", "ros2", "--out", tmp_path / "sweep")
    assert done.code == 0, done.err
    plan = json.loads((tmp_path / "sweep" / "plan.json").read_text())
    assert plan["basis"]["family"] == "sweep"
    assert (tmp_path / "sweep" / "joint_trajectory.yaml").exists()
    assert read_motion(tmp_path / "sweep").trajectory.duration == plan["duration"]
    log = tmp_path / "log.parquet"
    assert run("simulate", arm, "--trajectory", tmp_path / "sweep", "--out", log).code == 0
    for key, wrong, code in (
        ("motion.speeds", [2.0], 2),
        ("motion.speeds", ["fast"], 3),
        ("motion.joints", ["none"], 2),
    ):
        done = run("excite", arm, *planned(tmp_path, sweep | {key: wrong}), "--out", tmp_path / "wrong")
        assert done.code == code, done.err
