"""Static poses: found in logs, averaged over both sides, and the two steps that build upon them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from dynid_studies.nini_arm import SPRINGS, arm, at_rest, motion, static_grid, truth

from dynid.base import Diagnostics, Float, InputError, UnfitDataError, UsageError
from dynid.estimate import WLS, Given
from dynid.identification import Settings
from dynid.log import Log, canonical_columns, read_log, write_log
from dynid.robot import RobotModel, TorqueSide, load_example
from dynid.signals import Preparation, Standstill, poses_at_rest
from dynid.terms import (
    ChannelTorque,
    Compliance,
    MotorInertia,
    Offset,
    OnMotor,
    RigidBody,
    Term,
    Terms,
    TorqueDelay,
    Viscous,
)
from dynid.testing import synthetic_regression
from dynid.verbs import StaticPoses, balanced, find_poses, identify_statics, read_poses, two_step
from tests.command_line import Run
from tests.robot_files import ROBOTS

TERMS = RigidBody() + MotorInertia() + OnMotor(Viscous()) + Offset() + SPRINGS
STICTION = np.array([2.0, 3.0, 2.5, 0.8, 0.6, 0.3])
PREPARATION = Preparation(cutoff=10.0)


def true_values(robot: RobotModel) -> Float:
    return np.nan_to_num(truth(robot, TERMS))


def pose_log(robot: RobotModel, path: Path, count: int = 40, both: bool = True, noise: float = 1e-6) -> Log:
    """A log of poses that are held for 0.7 s, reached from either side of every motor, with stiction at the motors."""
    rate, rng = 100.0, np.random.default_rng(0)
    poses, away = static_grid(robot, count), 0.06 * np.ones(robot.n)
    theta = true_values(robot)
    rows_q, rows_tau = [], []
    here = poses[0] - away
    for pose in poses:
        for side in (1.0, -1.0) if both else (1.0,):
            start = pose - side * away
            for a, b in ((here, start), (start, pose)):
                path_part = np.linspace(a, b, 30)
                rows_q.append(path_part)
                rows_tau.append(TERMS.torque(robot, at_rest(path_part), theta))
            held = np.repeat(pose[None], 70, axis=0)
            friction = robot.drive.joint_torque(held, np.tile(side * STICTION, (70, 1)))
            rows_q.append(held)
            rows_tau.append(TERMS.torque(robot, at_rest(held), theta) + friction)
            here = pose
    q, tau = np.concatenate(rows_q), np.concatenate(rows_tau)
    tau = tau + noise * np.abs(tau).max(axis=0) * rng.normal(size=tau.shape)
    q = q + 1e-6 * rng.normal(size=q.shape)
    write_log(path, np.arange(len(q)) / rate, canonical_columns(robot.joint_names, q, tau=tau))
    return read_log(path, replace_side(robot))


def replace_side(robot: RobotModel) -> RobotModel:
    """The robot with torque logged at the joints."""
    drive = robot.drive
    return replace(robot, drive=replace(drive, torque_side=TorqueSide.LINK))


@pytest.fixture(scope="module")
def robot() -> RobotModel:
    return replace_side(arm())


@pytest.fixture(scope="module")
def poses(robot: RobotModel, tmp_path_factory: pytest.TempPathFactory) -> StaticPoses:
    return find_poses(pose_log(robot, tmp_path_factory.mktemp("poses") / "poses.parquet"))


def test_standstills_and_the_sides_they_were_reached_from(robot: RobotModel, poses: StaticPoses) -> None:
    assert len(poses) == 80
    grid = np.repeat(static_grid(robot, 40), 2, axis=0)
    np.testing.assert_allclose(poses.q, grid, atol=2e-6)
    # A parallelogram's motor turns with the sum of two joints, all of which came from the same side.
    assert (poses.approach == np.tile([[1.0], [-1.0]], (40, 6))).all()
    assert (poses.seconds > 0.3).all()


def test_friction_at_rest_cancels_motor_by_motor(robot: RobotModel, poses: StaticPoses) -> None:
    found = balanced(robot, poses)
    assert len(found) == 40
    assert found.both.all()
    assert found.offset_known.all()
    np.testing.assert_allclose(found.stiction, np.tile(STICTION, (40, 1)), rtol=1e-2)
    wanted = TERMS.torque(robot, at_rest(found.q), true_values(robot))
    np.testing.assert_allclose(found.tau, wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())


def test_gravity_and_springs_come_back(robot: RobotModel, poses: StaticPoses) -> None:
    sink = Diagnostics()
    static = identify_statics(robot, poses, TERMS, diagnostics=sink)
    assert static.structural.rank == static.estimate.base.rank == 11 + 6
    assert not list(sink)
    q = static_grid(robot, 50, seed=5)
    error = TERMS.torque(robot, at_rest(q), static.estimate.full_vector - true_values(robot))
    assert np.abs(error).max() < 0.5


def test_one_sided_poses_say_that_their_offset_is_unknown(robot: RobotModel, tmp_path: Path) -> None:
    found = find_poses(pose_log(robot, tmp_path / "one.parquet", both=False))
    sink = Diagnostics()
    static = identify_statics(robot, found, TERMS, diagnostics=sink)
    assert [one.identifier for one in sink.warnings] == ["static-offset-unknown"]
    assert "j1, j2, j3, j4, j5, j6" in sink.warnings[0].text
    assert not static.poses.offset_known.any()
    # The constant torque takes the friction up, so gravity is right all the same.
    columns = [c.name for c in TERMS.columns(robot)]
    gravity = np.array([not name.startswith("fo") for name in columns])
    q = static_grid(robot, 50, seed=5)
    difference = (static.estimate.full_vector - true_values(robot)) * gravity
    assert np.abs(TERMS.torque(robot, at_rest(q), difference)).max() < 0.5


def test_one_sided_poses_of_a_joint_are_left_out(robot: RobotModel, poses: StaticPoses) -> None:
    side = np.array(poses.approach)
    side[1::2, 5] = 1.0
    side[:10] = 1.0
    sink = Diagnostics()
    found = identify_statics(robot, replace(poses, approach=side), TERMS, diagnostics=sink)
    assert found.poses.offset_known.tolist() == [True] * 5 + [False]
    assert {one.identifier for one in sink} == {"static-offset-unknown", "static-one-sided"}
    assert found.factors.total[0].count == 35
    assert found.factors.total[5].count == 40


def motion_log(robot: RobotModel, path: Path, seed: int, noise: float = 0.01) -> Log:
    t, samples = motion(robot, 6000, seed)
    tau = TERMS.torque(robot, samples, true_values(robot))
    tau = tau + noise * tau.std(axis=0) * np.random.default_rng(seed).normal(size=tau.shape)
    write_log(path, t, canonical_columns(robot.joint_names, samples.q, tau=tau))
    return read_log(path, robot)


def test_both_ways_on_a_log(robot: RobotModel, poses: StaticPoses, tmp_path: Path) -> None:
    training, unseen = (motion_log(robot, tmp_path / f"{s}.parquet", s) for s in (0, 1))
    found = two_step(
        robot, poses, training, Settings(terms=TERMS, preparation=PREPARATION), validation=unseen
    )
    assert found.two_step.estimate.method == "two_step"
    assert found.one_shot.estimate.method == "one_shot"
    assert "combinations fixed" in found.two_step.estimate.status.text
    for run_ in (found.two_step, found.one_shot):
        assert run_.validations[0].scores.total_relative < 0.01
        assert run_.verdict.level == "good"
        z = (run_.estimate.value - run_.estimate.base.reduce(true_values(robot))) / run_.estimate.std
        assert np.mean(np.abs(z) < 3) > 0.85
    # What the poses determine is what the model has at rest, up to constant torques.
    given = found.static.given()
    held = given.rows @ found.two_step.estimate.full_vector
    np.testing.assert_allclose(held, given.value, rtol=1e-6, atol=1e-6 * np.abs(given.value).max())


def test_poses_without_gravity_or_springs_hold_nothing(robot: RobotModel, poses: StaticPoses) -> None:
    weightless = replace(robot, gravity=np.zeros(3))
    found = identify_statics(weightless, poses, RigidBody() + Offset())
    with pytest.raises(UnfitDataError, match="torque of gravity does not change"):
        found.given()


def test_held_combinations_and_their_covariance() -> None:
    case = synthetic_regression(1)
    rows = case.regression.base.B[[1, 3]]
    value, P = rows @ case.theta, np.diag([0.2, 0.3]) ** 2
    found = Given(rows, value, P).fit(case.regression)
    np.testing.assert_allclose(found.value[[1, 3]], value, rtol=1e-10)
    np.testing.assert_allclose(found.covariance[np.ix_([1, 3], [1, 3])], P, rtol=1e-9, atol=1e-12)
    # Exact combinations and the free ones' least squares, by elimination.
    full = WLS().fit(case.regression)
    assert found.std[0] != full.std[0]
    rest = [0, 2, 4]
    scale = np.repeat(np.sqrt(found.weights), [len(y) for y in case.y])
    X = np.concatenate(case.X) * scale[:, None]
    y = np.concatenate(case.y) * scale - X[:, [1, 3]] @ value
    wanted = np.linalg.lstsq(X[:, rest], y, rcond=None)[0]
    np.testing.assert_allclose(found.value[rest], wanted, rtol=1e-9)
    J = -np.linalg.lstsq(X[:, rest], X[:, [1, 3]], rcond=None)[0]
    certain = Given(rows, value, 0 * P).fit(case.regression)
    added = found.covariance - certain.covariance
    np.testing.assert_allclose(added[np.ix_(rest, rest)], J @ P @ J.T, rtol=1e-7, atol=1e-12)


def test_a_held_sum_of_parameters_of_different_sizes() -> None:
    """Held means held in any units: columns of very different length leave C theta = value as exact."""
    case = synthetic_regression(1)
    rows = case.regression.base.B[[1]] + 2.0 * case.regression.base.B[[3]]
    value = rows @ case.theta + 0.1
    found = Given(rows, value, np.zeros((1, 1))).fit(case.regression)
    np.testing.assert_allclose(found.value[1] + 2.0 * found.value[3], value[0], rtol=1e-10)


def test_held_combinations_must_belong_to_the_model() -> None:
    case = synthetic_regression(1)
    with pytest.raises(UsageError, match="combinations of 3 parameters for a model of 7"):
        Given(np.eye(3)[:1], np.zeros(1), np.zeros((1, 1))).fit(case.regression)
    outside = case.regression.base.null_space()[:, :1].T
    with pytest.raises(UnfitDataError, match="no base parameters of this log"):
        Given(outside, np.zeros(1), np.zeros((1, 1))).fit(case.regression)


def test_a_table_of_poses(robot: RobotModel, poses: StaticPoses, tmp_path: Path) -> None:
    names = robot.joint_names
    columns = canonical_columns(names, poses.q, tau=poses.tau)
    columns |= {f"from_{j}": poses.approach[:, i] for i, j in enumerate(names)}
    path = write_log(tmp_path / "table.csv", np.arange(len(poses), dtype=float), columns)
    again = read_poses(path, robot)
    np.testing.assert_allclose(again.tau, poses.tau)
    np.testing.assert_array_equal(again.approach, poses.approach)
    moving = columns | {f"dq_{j}": np.where(np.arange(len(poses)) == 7, 0.5, 0.0) for j in names}
    write_log(tmp_path / "moving.csv", np.arange(len(poses), dtype=float), moving)
    with pytest.raises(InputError, match=r"row 7.*a pose in motion"):
        read_poses(tmp_path / "moving.csv", robot)
    torn = columns | {"tau_j2": np.where(np.arange(len(poses)) == 3, np.nan, poses.tau[:, 1])}
    write_log(tmp_path / "torn.parquet", np.arange(len(poses), dtype=float), torn)
    with pytest.raises(InputError, match=r"row 3.*missing number"):
        read_poses(tmp_path / "torn.parquet", robot)
    with pytest.raises(InputError, match="no column tau_j1"):
        read_poses(
            write_log(tmp_path / "q.parquet", np.zeros(2), canonical_columns(names, poses.q[:2])), robot
        )


def test_a_log_that_never_rests_is_refused(robot: RobotModel, tmp_path: Path) -> None:
    with pytest.raises(UnfitDataError, match="no standstill"):
        find_poses(motion_log(robot, tmp_path / "m.parquet", 0))
    with pytest.raises(UsageError, match="still"):
        Standstill(still=0.0)


CONFIG = """
[prepare]
cutoff = 10.0
[model]
terms = ["rigid_body", "motor_inertia", { term = "on_motor", of = "viscous" }, "offset",
  { term = "spring", label = "springs", geometry = { joint = "j2", anchor = 0.9, crank = 0.45, angle = 0.35 } }]
"""


def test_the_command(robot: RobotModel, tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "exp.toml").write_text(CONFIG)
    text = (ROBOTS / "painting_arm.toml").read_text()
    (tmp_path / "arm.toml").write_text(text.replace('torque_side = "motor"', 'torque_side = "link"'))
    pose_log(robot, tmp_path / "poses.parquet")
    motion_log(robot, tmp_path / "motion.parquet", 0)
    done = run("statics", "arm.toml", "poses.parquet", "--config", "exp.toml")
    assert done.code == 0, done.err
    assert "40 static poses: 17 of 17 static base parameters" in done.out
    both = ("--motion", "motion.parquet", "--out", "runs")
    done = run("statics", "arm.toml", "poses.parquet", "--config", "exp.toml", *both)
    assert done.code == 0, done.err
    assert "two_step" in done.out
    assert "one_shot" in done.out
    for name in ("two_step", "one_shot"):
        assert (tmp_path / "runs" / name / "report.html").is_file()
    again = run("compare", "runs/two_step", "runs/one_shot")
    assert again.code == 0, again.err
    assert run("statics", "arm.toml", "poses.parquet", "--out", "x").code == 2


@pytest.mark.parametrize("along", [Compliance(), TorqueDelay(each=True)], ids=lambda term: term.name)
def test_poses_know_nothing_of_the_pose_before(along: Term) -> None:
    """What differentiates along time says the same of each of them in whatever order they stand."""
    arm, rng = load_example("ur5e"), np.random.default_rng(3)
    q, order, every = rng.uniform(-2, 2, (30, arm.n)), rng.permutation(30), np.ones(arm.n, dtype=bool)
    here, there = (along.torque_regressor(arm, poses_at_rest(x), every) for x in (q, q[order]))
    one, other = here.dense(arm.n)[order], there.dense(arm.n)
    np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
    # Gravity bends a joint, and nothing is late.
    assert (np.abs(one).max() > 1.0) == isinstance(along, Compliance)
    assert (np.abs(one).max() < 1e-6) == isinstance(along, TorqueDelay)


def test_channels_have_no_place_in_statics(robot: RobotModel, poses: StaticPoses) -> None:
    with pytest.raises(UsageError, match="terms that read u"):
        identify_statics(robot, poses, Terms((RigidBody(), ChannelTorque("u", "j1"))))
