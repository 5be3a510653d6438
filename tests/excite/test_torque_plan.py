"""Torque sinusoids: the expected motion is that of the simulator, bounds hold for wrong models too, files, refusals."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base import Float, InputError, UnfitDataError, UsageError
from dynid.excitation import Bounds, MotionLimits, TorquePlan, TorqueSpread, information_of, prior_theta
from dynid.excitation.torque_plan import TorqueTask, design_torque, swing
from dynid.robot import RobotModel, load_robot
from dynid.simulation import ForwardModel, Plant, SmoothFriction, simulate
from dynid.simulation.control import OpenLoop
from dynid.terms import Coulomb, RigidBody, Viscous
from dynid.trajectories import TorqueMotion, TorqueSinusoids, from_json, to_json
from tests.command_line import Run, planned

HANGING = """
name = "hanging"
convention = "placements"

[[joint]]
name = "shoulder"
type = "revolute"
axis = [0.0, 1.0, 0.0]
xyz = [0.0, 0.0, 1.2]
lower = -2.5
upper = 2.5
velocity = 6.0
effort = 80.0
friction = { viscous = 1.5, coulomb = 1.5 }
inertial = { mass = 6.0, com = [0.02, 0.05, -0.2], inertia = { xx = 0.1, yy = 0.1, zz = 0.01 } }

[[joint]]
name = "elbow"
type = "revolute"
axis = [0.0, 1.0, 0.0]
xyz = [0.0, 0.1, -0.4]
lower = -2.5
upper = 2.5
velocity = 8.0
effort = 20.0
friction = { viscous = 0.3, coulomb = 0.2 }
inertial = { mass = 2.0, com = [0.01, 0.02, -0.2], inertia = { xx = 0.03, yy = 0.03, zz = 0.003 } }
"""
LONG = 1.5


@pytest.fixture(scope="module")
def arm_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("hanging") / "arm.toml"
    path.write_text(HANGING)
    return path


@pytest.fixture(scope="module")
def arm(arm_file: Path) -> RobotModel:
    return load_robot(arm_file)


def task_of(arm: RobotModel, spread: TorqueSpread | None = None) -> TorqueTask:
    information = information_of(arm, RigidBody() + Viscous() + Coulomb())
    theta = prior_theta(arm, information.terms)
    share = 0.1 if spread is None else 0.0
    bounds = Bounds(MotionLimits.of(arm), theta, share, spread=spread)
    return TorqueTask(information, bounds, LONG, 2, 0.5, 1.5, 0.5)


@pytest.fixture(scope="module")
def plan(arm: RobotModel) -> TorquePlan:
    return design_torque(task_of(arm), 2, 24)


def simulated(
    arm: RobotModel, sines: TorqueSinusoids, start: Float, t: Float, wrong: Float
) -> tuple[Float, Float]:
    width = task_of(arm).information.terms.terms[2].width  # type: ignore[attr-defined]  # the Coulomb term
    friction = SmoothFriction(arm.friction_prior[:, 0], arm.friction_prior[:, 1], width)
    plant = Plant(arm, inertia=arm.inertia_prior * wrong[:, None], friction=friction)
    moved = simulate(plant, OpenLoop(sines.torque), plant.at_rest(start[None])[0], t)
    return moved.q, moved.dq


def test_the_expected_motion_is_that_of_the_simulator(arm: RobotModel, plan: TorquePlan) -> None:
    t = np.linspace(0.0, LONG, 151)
    q, dq = simulated(arm, plan.trajectory.sines, plan.task.pose, t, np.ones(2))
    expected = plan.trajectory.motion(t)
    assert np.abs(q - plan.task.pose).max() > 0.05
    np.testing.assert_allclose(expected[0], q, atol=2e-4)
    np.testing.assert_allclose(expected[1], dq, atol=2e-3)


def test_the_steps_are_of_second_order(arm: RobotModel) -> None:
    task = task_of(arm)
    theta = np.array(task.bounds.theta)
    theta[-2:] = 0.0
    model = ForwardModel(arm, task.information.terms, theta)
    sines = [task.sines(np.full((3, 2, 2), x)) for x in (0.3, 0.6)]
    t = np.linspace(0.0, 2.0, 101)
    found = [swing(model, sines, task.pose, t, count).q for count in (2, 4, 8)]
    ratio = np.abs(found[0] - found[1]).max() / np.abs(found[1] - found[2]).max()
    assert 3.5 < ratio < 4.6


def test_bounds_hold_in_wrong_models(arm: RobotModel, plan: TorquePlan) -> None:
    assert plan.tightest.margin >= 0
    assert {m.what for m in plan.margins} == {"position", "velocity", "acceleration", "jerk", "torque"}
    limits, t = plan.bounds.limits, np.linspace(0.0, LONG, 151)
    q, dq = simulated(arm, plan.trajectory.sines, plan.task.pose, t, np.array([0.93, 1.07]))
    assert ((q > limits.lower) & (q < limits.upper) & (np.abs(dq) < limits.velocity)).all()
    assert (np.abs(plan.trajectory.torque(t)) <= limits.torque).all()


def test_the_search_gains(plan: TorquePlan) -> None:
    assert plan.value < plan.first - 0.5


def test_models_are_drawn_from_the_covariance_of_a_run(arm: RobotModel) -> None:
    task = task_of(arm)
    b, p = task.information.base.independent, len(task.information.base.names)
    whole = np.zeros((p, p))
    whole[b, b] = 1e-6
    known = design_torque(task_of(arm, TorqueSpread(whole, np.full(2, 0.01))), 1, 8)
    assert known.describe()["variants_by"] == "covariance"
    assert known.tightest.margin >= 0


def test_stopping_keeps_the_best_so_far_and_the_search_is_repeatable(arm: RobotModel) -> None:
    reported: list[int] = []
    found = design_torque(
        task_of(arm),
        1,
        80,
        progress=lambda done, _most, _best: reported.append(done),
        stop=lambda: len(reported) > 0,
    )
    assert (found.stopped, found.generations) == (True, 1)
    assert found.tightest.margin >= 0
    assert to_json(design_torque(task_of(arm), 1, 8).trajectory) == to_json(found.trajectory)


def test_text_gives_the_motion_back(plan: TorquePlan) -> None:
    text = to_json(plan.trajectory)
    same = from_json(text)
    assert isinstance(same, TorqueMotion)
    t = np.linspace(-0.5, 2.0, 777)
    for a, b in zip(plan.trajectory.motion(t), same.motion(t), strict=True):
        np.testing.assert_array_equal(a, b)
    np.testing.assert_array_equal(plan.trajectory.torque(t), same.torque(t))
    with pytest.raises(InputError, match="trajectory-json"):
        from_json(json.dumps(json.loads(text) | {"dq": [[0.0, 0.0]]}))


def test_the_motion_between_rows_is_smooth(plan: TorquePlan) -> None:
    t, h = np.linspace(0.0131, 1.47, 300), 1e-5
    _, dq, ddq = plan.trajectory.motion(t)
    ahead, behind = plan.trajectory.motion(t + h), plan.trajectory.motion(t - h)
    np.testing.assert_allclose((ahead[0] - behind[0]) / (2 * h), dq, atol=1e-6)
    np.testing.assert_allclose((ahead[1] - behind[1]) / (2 * h), ddq, atol=1e-3 * np.abs(ddq).max())


def test_the_window_begins_at_rest_and_is_differentiated_exactly() -> None:
    rng = np.random.default_rng(0)
    amplitude, frequency, phase = rng.uniform(0.1, 1.0, (3, 2, 3))
    sines = TorqueSinusoids(np.ones(2), amplitude, frequency, phase, ramp=0.7)
    t, h = np.linspace(0.05, 2.0, 99), 1e-5
    _, first, second = sines.derivatives(t)
    np.testing.assert_allclose((sines.torque(t + h) - sines.torque(t - h)) / (2 * h), first, atol=1e-6)
    ahead, behind = sines.derivatives(t + h)[1], sines.derivatives(t - h)[1]
    np.testing.assert_allclose((ahead - behind) / (2 * h), second, atol=1e-4)
    for values, expected in zip(sines.derivatives(np.zeros(1)), (1.0, 0.0, 0.0), strict=True):
        np.testing.assert_array_equal(values, np.full((1, 2), expected))


def test_what_cannot_be_planned_is_refused(arm: RobotModel) -> None:
    task = task_of(arm)
    with pytest.raises(UsageError, match="torque-sines"):
        replace(task, count=0)
    with pytest.raises(UnfitDataError, match="torque-sines-model"):
        replace(task, bounds=replace(task.bounds, theta=None))
    endless = replace(task.bounds.limits, torque=np.array([np.inf, 1.0]))
    with pytest.raises(UsageError, match=r"limits\.torque"):
        replace(task, bounds=replace(task.bounds, limits=endless))
    with pytest.raises(UsageError, match="at least 1"):
        design_torque(task, 0)


def test_the_command_writes_torque_that_the_simulator_follows(
    arm_file: Path, tmp_path: Path, run: Run
) -> None:
    out, log = tmp_path / "traj", tmp_path / "log.parquet"
    keys = {
        "motion.family": "torque-sines", "motion.seconds": 4.0, "motion.frequency": 0.3, "motion.harmonics": 2,
        "search.starts": 1, "search.iterations": 4, "output.formats": ["csv", "parquet"], "output.rate": 500.0,
    }  # fmt: skip
    done = run("excite", arm_file, *planned(tmp_path, keys), "--out", out)
    assert done.code == 0, done.err
    assert (
        "stays within bounds for the model and for 4 variants with errors of up to 10 % in masses and friction"
        in done.out
    )
    table = pq.read_table(out / "motion.parquet")
    sines = from_json((out / "trajectory.json").read_text())
    assert isinstance(sines, TorqueMotion)
    for j, name in enumerate(("shoulder", "elbow")):
        np.testing.assert_allclose(table[f"tau_{name}"].to_numpy(), sines.torque(table["t"].to_numpy())[:, j])
    assert "torque" in (out / "picture.html").read_text()
    controller = f"open-loop:{out / 'motion.csv'}"
    assert run("simulate", arm_file, "--trajectory", out, "--controller", controller, "--out", log).code == 0
    done = run("check", arm_file, log, "--plan", out)
    assert "share of the plan in the log: 100.0 %" in done.out, done.err
    for more, code, words in (
        ({"output.formats": ["ros2"]}, 2, "stores positions"),
        ({"motion.motions": 2}, 2, "motion.motions with family"),
        ({"motion.start": [9.0, 0.0]}, 4, "position of shoulder"),
        ({"limits.torque": 1e-3, "motion.start": [1.0, 0.0]}, 4, "torque of shoulder"),
    ):
        done = run("excite", arm_file, *planned(tmp_path, keys | more), "--out", tmp_path / "none")
        assert (done.code, words in done.err) == (code, True), (more, done.err)
        assert not (tmp_path / "none").exists()
