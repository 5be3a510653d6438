"""MuJoCo, an independent simulator, moves the same robots in the same way.

Both take the same steps of the same scheme, so what differs is rounding: 1e-15 a step, that the motion may amplify.
Against each other's accelerations they agree to 1e-9 of the greatest; positions to 1e-10.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from dynid.base import Float, InputError, UsageError
from dynid.identification import Settings, identify
from dynid.lab import MujocoSimulator, export_mjcf
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_example, load_robot
from dynid.simulation import (
    Adaptive,
    Coupling,
    Elasticity,
    FixedStep,
    FunctionLoad,
    GravityPD,
    Plant,
    SmoothFriction,
    Tabulated,
    follow,
    pd_gains,
    sample_times,
    simulate,
)
from dynid.simulation.control import OpenLoop
from dynid.trajectories import FourierTrajectory
from tests.simulate.robots import geared

pytestmark = pytest.mark.usefixtures("unexamined")

POSITION, ACCELERATION = 1e-10, 1e-8


def relative(found: Float, wanted: Float) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


def plant(seed: int, joints: str, coupling: Coupling = Coupling.SIMPLIFIED, coupled: bool = False) -> Plant:
    robot = geared(seed, 4, coupled, branching=0.6)
    springs = Elasticity(np.full(4, 300.0), np.full(4, 0.5)) if joints == "elastic" else None
    return Plant(
        robot,
        robot.inertia_prior + np.array([0, 0, 0, 0, 0.5, 0, 0.5, 0, 0, 0.5]),
        elasticity=springs,
        coupling=coupling,
        loads=(FunctionLoad(lambda q, dq: np.sin(q) + 0.1 * dq),),
        friction=SmoothFriction.of(robot, 0.1),
    )


CASES = [
    ("rigid", Coupling.SIMPLIFIED, False),
    ("elastic", Coupling.SIMPLIFIED, False),
    ("elastic", Coupling.SIMPLIFIED, True),
    ("elastic", Coupling.FULL, False),
    ("elastic", Coupling.FULL, True),
]


@pytest.mark.parametrize(("joints", "coupling", "coupled"), CASES)
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_stepped_by_mujoco_or_by_dynid_the_motion_is_the_same(
    joints: str, coupling: Coupling, coupled: bool, seed: int
) -> None:
    one = plant(seed, joints, coupling, coupled)
    push = OpenLoop(lambda t: 5.0 * np.sin(t[:, None] * np.array([3.0, 4.0, 5.0, 6.0])))
    start, t = one.at_rest(np.full((1, 4), 0.3))[0], sample_times(0.3, 100.0)
    ours = simulate(one, push, start, t, FixedStep(5e-4))
    theirs = MujocoSimulator(one, 5e-4).simulate(push, start, t)
    for name in ("q", "theta", "dq", "dtheta"):
        assert relative(getattr(theirs, name), getattr(ours, name)) < POSITION, name
    for name in ("ddq", "ddtheta", "tau", "load", "friction"):
        assert relative(getattr(theirs, name), getattr(ours, name)) < ACCELERATION, name


def test_mujoco_differs_from_an_exact_solution_by_its_scheme() -> None:
    one = plant(1, "rigid")
    start, t = one.at_rest(np.full((1, 4), 0.3))[0], sample_times(0.5, 100.0)
    push = OpenLoop(lambda t: 5.0 * np.cos(3.0 * t)[:, None] * np.ones(4))
    exact = simulate(one, push, start, t, Adaptive(1e-12, 1e-12))
    errors = [relative(MujocoSimulator(one, h).simulate(push, start, t).q, exact.q) for h in (5e-3, 2.5e-3)]
    assert 10 < errors[0] / errors[1] < 25


def test_inverse_dynamics_agree() -> None:
    arm = load_example("arm7")
    one = Plant(arm, friction=SmoothFriction.of(arm))
    motion, t = FourierTrajectory.random(arm, 4.0, seed=1, ramp=1.0), sample_times(4.0, 50.0)
    ours, theirs = follow(one, motion, t), MujocoSimulator(one).follow(motion, t)
    assert relative(theirs.tau, ours.tau) < 1e-12


def test_the_exported_robot_is_read_back(tmp_path: Path) -> None:
    arm = load_example("arm7")
    path = tmp_path / "arm.xml"
    path.write_text(export_mjcf(Plant(arm)))
    again = load_robot(path)
    assert again.joint_names == arm.joint_names
    np.testing.assert_allclose(again.inertia_prior, arm.inertia_prior, atol=1e-12)
    np.testing.assert_allclose(again.T_parent_joint, arm.T_parent_joint, atol=1e-12)
    np.testing.assert_allclose(again.drive.reflected_rotor_inertia, arm.drive.reflected_rotor_inertia)


def test_a_log_of_mujoco_is_identified_like_any_other(tmp_path: Path) -> None:
    robot = replace(geared(3, 3, branching=0.0), friction_prior=np.full((3, 2), 0.5))
    one = Plant(robot, friction=SmoothFriction.of(robot))
    motion = Tabulated(FourierTrajectory.random(robot, 12.0, 5, 3, 0.2), 2e-3)
    t = sample_times(12.0, 250.0)
    start = one.at_rest(motion.motion(t[:1])[0])[0]
    control = GravityPD(one, motion, *pd_gains(one, 4.0))
    run = MujocoSimulator(one, 4e-3).simulate(control, start, t)
    path = write_log(tmp_path / "log.parquet", t, canonical_columns(robot.joint_names, run.q, tau=run.tau))
    found = identify(robot, read_log(path, robot), Settings(automatic=False))
    assert found.validations[-1].scores.total_relative < 0.03
    estimate = found.estimate
    columns = {c.name: c.prior for c in estimate.columns}
    truth = np.array([0.0 if np.isnan(columns[c.name]) else columns[c.name] for c in estimate.columns])
    share = np.abs(estimate.value - estimate.base.reduce(truth)) <= 3 * estimate.half_width() + 0.02
    assert share.mean() > 0.7


def test_what_mujoco_cannot_hold_exactly_is_refused() -> None:
    for bad in (
        Plant(geared(1, 3, coupled=True)),
        Plant(geared(1, 4, mimic=True)),
        plant(1, "elastic", Coupling.FULL).rigid,
    ):
        with pytest.raises(UsageError, match="mujoco-export"):
            export_mjcf(bad)
    robot = geared(1, 2)
    flat = np.array(robot.inertia_prior)
    flat[:, 4:] = [1.0, 0, 1.0, 0, 0, 5.0]
    with pytest.raises(InputError, match="triangle"):
        MujocoSimulator(Plant(robot, flat)).simulate(
            OpenLoop(lambda t: np.zeros((len(t), 2))), np.zeros(4), sample_times(0.1, 10.0)
        )
    motion = FourierTrajectory.random(robot, 4.0, 2, 0, 0.25, ramp=1.0)
    with pytest.raises(UsageError, match="choose a controller"):
        MujocoSimulator(plant(1, "elastic")).follow(motion, sample_times(0.1, 10.0))
