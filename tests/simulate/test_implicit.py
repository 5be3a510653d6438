"""Implicit integration of stiff robots: energy, agreement with other schemes and simulators, memory and choice."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.base import Float, ResourceError, SolverError, UsageError
from dynid.kernel import using
from dynid.lab import MujocoSimulator
from dynid.robot import load_example
from dynid.simulation import (
    Adaptive,
    ComputedTorque,
    Elasticity,
    FixedStep,
    GravityPD,
    Implicit,
    LuGre,
    Plant,
    SmoothFriction,
    fastest_mode,
    pd_gains,
    sample_times,
    simulate,
)
from dynid.simulation.control import OpenLoop
from dynid.trajectories import FourierTrajectory
from tests.simulate.robots import geared

DURATION = 4.0


def light_wrist() -> Plant:
    """Three joints with dry friction, the last 1000 times lighter than its friction suits."""
    robot = geared(8, 3)
    rotors = np.array(robot.drive.rotor_inertia)
    rotors[-1] = 0.0
    inertia = np.array(robot.inertia_prior)
    inertia[-1] *= 1e-3
    friction = SmoothFriction(np.array([1.0, 1.0, 0.5]), np.array([2.0, 2.0, 1.0]))
    return Plant(robot, inertia, rotors, friction=friction)


def reference(plant: Plant) -> FourierTrajectory:
    return FourierTrajectory.random(plant.robot, DURATION, 3, 1, 0.25, 1.0)


def following(plant: Plant, held: bool = False) -> tuple[GravityPD, Float]:
    """A controller and the state at its beginning; torque that is held destabilises a light joint with great gains."""
    motion, gains = reference(plant), pd_gains(replace(plant, friction=None) if held else plant, 3.0)
    return GravityPD(plant, motion, *gains), plant.at_rest(motion.motion(np.zeros(1))[0])[0]


@pytest.mark.usefixtures("native_kernel")
def test_a_stiff_robot_is_integrated_implicitly_and_follows_its_reference() -> None:
    plant = light_wrist()
    control, start = following(plant)
    step, joint = fastest_mode(plant, start, controller=control)
    assert step < 1e-5
    assert joint == plant.robot.joint_names[-1]
    t = sample_times(DURATION, 250.0)
    run = simulate(plant, control, start, t)
    wanted = reference(plant).motion(t)[0]
    assert np.ptp(wanted, axis=0).min() > 0.5
    assert_allclose(run.q[:, -1], wanted[:, -1], atol=0.02)
    assert simulate(plant, control, start, t, Implicit()).q.tobytes() == run.q.tobytes()
    with pytest.raises(ResourceError, match="simulation-steps"):
        simulate(plant, control, start, sample_times(100.0, 250.0), FixedStep(step))


@pytest.mark.usefixtures("native_kernel")
def test_the_error_is_far_below_that_of_mujocos_implicit_scheme() -> None:
    """MuJoCo's implicitfast at 0.5 ms errs by milliradians on such an arm."""
    plant = light_wrist()
    control, start = following(plant)
    part = sample_times(0.4, 500.0) + 1.0
    start = plant.vector(simulate(plant, control, start, sample_times(1.0, 500.0)).state)[-1]
    exact = simulate(plant, control, start, part, FixedStep(1e-6))
    assert np.ptp(exact.q, axis=0).min() > 0.02
    for tolerance, most in ((1e-5, 1e-4), (1e-7, 1e-5)):
        assert np.abs(simulate(plant, control, start, part, Implicit(tolerance)).q - exact.q).max() < most


@pytest.mark.usefixtures("native_kernel")
def test_energy_of_a_fall_without_friction_is_kept() -> None:
    plant = Plant(load_example("arm7"))
    start = plant.at_rest(np.array([[0.3, 0.8, -0.4, 1.1, 0.2, -0.7, 0.5]]))[0]
    coast = OpenLoop(lambda t: np.zeros((len(t), 7)))
    for tolerance, most in ((1e-5, 1e-4), (1e-9, 1e-7)):
        run = simulate(plant, coast, start, sample_times(2.0, 200.0), Implicit(tolerance))
        E = plant.energy(plant.vector(run.state))
        assert np.ptp(run.q, axis=0).max() > 0.5
        assert np.abs(E - E[0]).max() < most * np.abs(E[0])


def test_smooth_motion_is_that_of_mujoco() -> None:
    robot = geared(4, 3)
    plant = Plant(robot, friction=SmoothFriction.of(robot, 0.1))
    push = OpenLoop(lambda t: 2.0 * np.sin(3.0 * t[:, None] * np.array([1.0, 1.3, 0.7])))
    start, t = plant.at_rest(np.zeros((1, 3)))[0], sample_times(0.5, 100.0)
    other = MujocoSimulator(plant, 5e-4).simulate(push, start, t)
    run = simulate(plant, push, start, t, Implicit(1e-8))
    assert np.ptp(other.q, axis=0).min() > 0.05
    assert_allclose(run.q, other.q, rtol=0, atol=1e-6)


@dataclass(frozen=True, eq=False)
class Untabulated:
    """A controller that only computes torque, so that the steps are NumPy's."""

    inner: GravityPD

    def torque(self, t: Float, state: object) -> Float:
        return self.inner.torque(t, state)  # type: ignore[arg-type]


@pytest.mark.usefixtures("native_kernel")
@pytest.mark.parametrize("held", [False, True])
def test_any_controller_moves_a_stiff_robot_as_a_tabulated_one(held: bool) -> None:
    plant = light_wrist()
    control, start = following(plant, held)
    t = sample_times(0.3, 250.0) + 1.0
    first, second = (
        simulate(plant, law, start, t, Implicit(1e-7, held)) for law in (control, Untabulated(control))
    )
    assert np.ptp(first.q, axis=0).max() > 0.01
    assert_allclose(first.q, second.q, rtol=0, atol=2e-6)
    assert_allclose(first.tau, second.tau, rtol=0, atol=2e-6 * np.abs(control.kp).max() + 1e-3)


def test_friction_with_states_and_computed_torque_agree_with_lsoda() -> None:
    robot = geared(8, 3)
    friction = LuGre(
        np.ones(3), np.full(3, 1.5), np.full(3, 0.05), np.full(3, 1e3), np.full(3, 1.0), np.full(3, 0.3)
    )
    plant = Plant(robot, friction=friction)
    control = ComputedTorque(plant, reference(plant), np.full(3, 100.0), np.full(3, 20.0))
    start, t = plant.at_rest(reference(plant).motion(np.zeros(1))[0])[0], sample_times(0.5, 100.0)
    run = simulate(plant, control, start, t, Implicit(1e-7))
    other = simulate(plant, control, start, t, Adaptive(1e-8, 1e-9, "LSODA"))
    assert np.ptp(other.q, axis=0).max() > 0.01
    assert_allclose(run.q, other.q, rtol=0, atol=2e-6)


@pytest.mark.usefixtures("native_kernel")
@pytest.mark.parametrize("held", [False, True])
def test_parts_of_the_reference_do_not_change_the_motion(held: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    plant = light_wrist()
    control, start = following(plant, held)
    t, motions = sample_times(1.0, 100.0), []
    for rows in (20_000, 90):
        monkeypatch.setattr("dynid.simulation.integrate.TABLE_ROWS", rows)
        motions.append(simulate(plant, control, start, t, Implicit(held=held)))
    assert motions[0].q.tobytes() == motions[1].q.tobytes()
    assert motions[0].tau.tobytes() == motions[1].tau.tobytes()


@pytest.mark.parametrize("kernel", ["native", "numpy"])
def test_elastic_joints_with_stiff_springs_and_friction(kernel: str, request: pytest.FixtureRequest) -> None:
    if kernel == "native":
        request.getfixturevalue("native_kernel")
    robot = geared(8, 3)
    plant = Plant(
        robot,
        elasticity=Elasticity(np.full(3, 2e3), np.full(3, 2.0)),
        friction=SmoothFriction(np.ones(3), np.ones(3), 0.05),
    )
    control, start = following(plant)
    t = sample_times(0.2, 100.0) + 1.0
    with using(kernel):
        run = simulate(plant, control, start, t, Implicit(1e-7))
    exact = simulate(plant, control, start, t, FixedStep(2e-5))
    assert np.ptp(exact.q, axis=0).max() > 0.01
    assert_allclose(run.q, exact.q, rtol=0, atol=2e-6)


def test_gains_overcome_friction_where_it_exceeds_the_inertia() -> None:
    plant = light_wrist()
    rigid = replace(plant, friction=None)
    (kp, kd), (least_kp, least_kd) = pd_gains(plant, 3.0), pd_gains(rigid, 3.0)
    assert (kp >= least_kp).all()
    assert (kd >= least_kd).all()
    assert kp[-1] > 100 * least_kp[-1]
    # Dry friction bends the position of the joint by little.
    assert plant.friction is not None
    assert 1.0 / kp[-1] < 0.01
    weak = replace(plant, friction=SmoothFriction(np.full(3, 1e-6), np.full(3, 1e-6)))
    assert_allclose(pd_gains(weak, 3.0), pd_gains(rigid, 3.0))


def test_nonsense_is_refused() -> None:
    plant = light_wrist()
    start, t = plant.at_rest(np.zeros((1, 3)))[0], sample_times(0.1, 100.0)
    for wrong in ({"tolerance": 0.0}, {"longest": np.inf}, {"longest": -1.0}):
        with pytest.raises(UsageError, match="tolerance"):
            Implicit(**wrong)
    runaway = OpenLoop(lambda at: np.where(at > 0.01, np.inf, 0.0)[:, None] * np.ones(3))
    with pytest.raises(SolverError, match="diverged"):
        simulate(plant, runaway, start, t, Implicit())
