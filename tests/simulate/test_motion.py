"""Motion over time: energy, order of the schemes, refusals, controllers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
from scipy.integrate import simpson

from dynid.base import Float, ResourceError, SolverError, UsageError
from dynid.kernel import using
from dynid.robot import Drive, JointType, Mounting, RobotModel, load_example
from dynid.simulation import (
    Adaptive,
    ComputedTorque,
    Coupling,
    Elasticity,
    FixedStep,
    FunctionLoad,
    GravityPD,
    Plant,
    SmoothFriction,
    State,
    Tabulated,
    TorqueTable,
    check_budget,
    follow,
    sample_times,
    simulate,
)
from dynid.simulation.control import OpenLoop
from dynid.testing import random_robot
from dynid.trajectories import FourierTrajectory
from tests.elastic_arms import planar
from tests.simulate.robots import geared

MOST_STEPS = 5_000_000

ROTORS_IN_LINKS = np.array([0, 0, 0, 0, 0.2, 0, 0.2, 0, 0, 0.2])


def coast(n: int) -> OpenLoop:
    return OpenLoop(lambda t: np.zeros((len(t), n)))


def elastic(robot: RobotModel, coupling: Coupling = Coupling.SIMPLIFIED, damping: float = 0.0) -> Plant:
    return Plant(
        robot,
        robot.inertia_prior + ROTORS_IN_LINKS,
        elasticity=Elasticity(np.full(robot.n, 200.0), np.full(robot.n, damping)),
        coupling=coupling,
    )


@dataclass(frozen=True)
class Still:
    """A reference that rests at a posture."""

    q: Float
    duration: float = 10.0

    def motion(self, t: Float) -> tuple[Float, Float, Float]:
        q = np.tile(self.q, (len(t), 1))
        return q, np.zeros_like(q), np.zeros_like(q)


@pytest.mark.parametrize("joints", ["rigid", "elastic"])
@pytest.mark.parametrize("coupling", Coupling)
def test_energy_is_kept_for_ten_seconds_without_friction(joints: str, coupling: Coupling) -> None:
    robot = geared(8, 3)
    plant = elastic(robot, coupling)
    plant = plant if joints == "elastic" else plant.rigid
    start = plant.at_rest(np.array([[0.4, -0.9, 0.6]]))[0]
    t = sample_times(10.0, 100.0)
    run = simulate(plant, coast(3), start, t, Adaptive(1e-11, 1e-11))
    E = plant.energy(plant.vector(run.state))
    assert np.ptp(run.q, axis=0).max() > 0.5
    assert np.abs(E - E[0]).max() < 1e-8 * np.ptp(0.5 * E + E[0] * 0 + plant.energy(plant.at_rest(run.q)))


def test_energy_is_kept_by_fixed_steps() -> None:
    arm = load_example("arm7")
    plant = Plant(arm)
    q = np.array([[0.3, 0.8, -0.4, 1.1, 0.2, -0.7, 0.5]])
    run = simulate(plant, coast(7), plant.at_rest(q)[0], sample_times(2.0, 500.0), FixedStep(2e-3))
    E = plant.energy(plant.vector(run.state))
    assert np.abs(E - E[0]).max() < 1e-8 * np.abs(E[0])


@pytest.mark.parametrize("coupling", Coupling)
def test_work_and_losses_balance_over_ten_seconds(coupling: Coupling) -> None:
    robot = geared(8, 3)
    plant = replace(elastic(robot, coupling, damping=1.0), friction=SmoothFriction.of(robot, 0.1))
    push = OpenLoop(lambda t: 3.0 * np.sin(t[:, None] * np.array([2.0, 3.1, 4.3])))
    t = sample_times(10.0, 1000.0)
    run = simulate(plant, push, plant.at_rest(np.zeros((1, 3)))[0], t, Adaptive(1e-10, 1e-10))
    E = plant.energy(plant.vector(run.state))
    damped = ((run.dtheta - run.dq) ** 2 * plant.elasticity.damping).sum(axis=1)
    power = ((run.tau - run.friction) * run.dtheta).sum(axis=1) - damped
    work = float(simpson(power, dx=t[1]))
    assert abs(E[-1] - E[0] - work) < 1e-8 * float(simpson(np.abs(power), dx=t[1]))


def test_a_pendulum_swings_with_its_known_period() -> None:
    one = random_robot(0, 1)
    pendulum = replace(
        one,
        joint_types=(JointType.REVOLUTE,),
        T_parent_joint=np.eye(4)[None],
        axis=np.array([[0.0, 1.0, 0.0]]),
        inertia_prior=np.array([[2.0, 0.0, 0.0, -1.0, 0.5, 0.0, 0.5, 0.0, 0.0, 0.01]]),
    )
    omega = np.sqrt(9.81 / (0.5 + 0.25))
    plant = Plant(pendulum, rotor_inertia=np.array([0.25]))
    run = simulate(plant, coast(1), np.array([1e-4, 0.0]), sample_times(4.0, 500.0), FixedStep(2e-3))
    np.testing.assert_allclose(run.q[:, 0], 1e-4 * np.cos(omega * run.t), atol=1e-9)


def test_an_elastic_joint_swings_with_its_known_frequency() -> None:
    # Motor and link on a spring: omega^2 = K (1/I + 1/B), no gravity about a vertical axis.
    one = random_robot(0, 1)
    joint = replace(
        one,
        joint_types=(JointType.REVOLUTE,),
        T_parent_joint=np.eye(4)[None],
        axis=np.array([[0.0, 0.0, 1.0]]),
        inertia_prior=np.array([[1.0, 0, 0, 0, 0.5, 0, 0.5, 0, 0, 0.4]]),
        drive=Drive(np.array([[100.0]]), np.array([3e-5]), np.full(1, np.nan), np.full(1, np.nan)),
    )
    plant = Plant(joint, elasticity=Elasticity(np.array([900.0]), np.zeros(1)))
    start = plant.vector(State(*np.array([[[1e-3]], [[0.0]], [[0.0]], [[0.0]]])))[0]
    omega = np.sqrt(900.0 * (1 / 0.4 + 1 / 0.3))
    run = simulate(plant, coast(1), start, sample_times(0.3, 500.0), FixedStep(2.5e-4))
    np.testing.assert_allclose((run.q - run.theta)[:, 0], 1e-3 * np.cos(omega * run.t), atol=1e-9)
    np.testing.assert_allclose(run.load, 900.0 * (run.theta - run.q), atol=1e-12)


def test_halving_the_step_divides_the_error_by_sixteen() -> None:
    plant = Plant(geared(8, 3))
    start = plant.at_rest(np.full((1, 3), 0.5))[0]

    def end(step: float) -> Float:
        return simulate(plant, coast(3), start, sample_times(0.64, 12.5), FixedStep(step, tolerance=1.0)).q[
            -1
        ]

    exact = end(2.5e-3)
    ratio = np.linalg.norm(end(4e-2) - exact) / np.linalg.norm(end(2e-2) - exact)
    assert 11 < ratio < 23


def test_the_schemes_agree() -> None:
    plant = replace(elastic(geared(8, 3), damping=1.0), friction=SmoothFriction(np.ones(3), np.ones(3), 0.1))
    start, t = plant.at_rest(np.zeros((1, 3)))[0], sample_times(0.3, 100.0)
    push = OpenLoop(lambda t: 4.0 * np.sin(3.0 * t)[:, None] * np.ones(3))
    runs = [
        simulate(plant, push, start, t, one)
        for one in (None, FixedStep(2e-4), Adaptive(), Adaptive(1e-8, 1e-8, "LSODA"))
    ]
    for run in runs[1:]:
        np.testing.assert_allclose(run.q, runs[0].q, atol=2e-6)


def test_a_step_that_is_too_long_is_refused() -> None:
    plant = elastic(geared(8, 3))
    stiff = replace(plant, elasticity=Elasticity(np.full(3, 1e6), np.zeros(3)))
    start = stiff.at_rest(np.zeros((1, 3)))[0] + np.repeat([0.0, 1e-2, 0.0], [3, 3, 6])
    assert np.isfinite(simulate(stiff, coast(3), start, sample_times(0.1, 500.0)).q).all()
    with pytest.raises(SolverError, match=r"integration-error|diverged"):
        simulate(stiff, coast(3), start, sample_times(0.1, 500.0), FixedStep(2e-3))


def test_a_held_input_changes_at_samples_only() -> None:
    plant = Plant(geared(8, 3))
    ramp = OpenLoop(lambda t: t[:, None] * np.ones(3))
    start, t = plant.at_rest(np.zeros((1, 3)))[0], sample_times(0.2, 50.0)
    stairs = OpenLoop(lambda at: np.floor(at * 50 + 1e-9)[:, None] / 50 * np.ones(3))
    held = simulate(plant, ramp, start, t, FixedStep(1e-3, held=True))
    smooth = simulate(plant, ramp, start, t, FixedStep(1e-3))
    late = simulate(plant, stairs, start, t, FixedStep(5e-5))
    np.testing.assert_allclose(held.tau, smooth.tau)
    np.testing.assert_allclose(held.q, late.q, rtol=0, atol=2e-3 * np.abs(late.q).max())
    assert np.abs(held.q - smooth.q).max() > 3 * np.abs(held.q - late.q).max()


def test_elastic_pd_brings_zollos_planar_arm_to_rest_where_it_should_be() -> None:
    arm, goal = planar(), np.array([0.5, -0.3])
    mounting = Mounting(arm.robot.parent, np.array(arm.carriers()))
    plant = Plant(arm.robot, arm.bodies(), arm.Y, Elasticity(arm.K, np.zeros(2)), Coupling.FULL, mounting)
    control, start = (
        GravityPD(plant, Still(goal), np.full(2, 3e3), np.full(2, 250.0)),
        plant.at_rest(np.zeros((1, 2))),
    )
    run = simulate(plant, control, start[0], sample_times(6.0, 20.0), Adaptive(1e-7, 1e-7, "LSODA"))
    np.testing.assert_allclose(run.q[-1], goal, atol=2e-4)
    bend = np.degrees(run.theta[-1] - goal)
    # Gravity alone bends the joints by up to 2.4 and 0.78 degrees, where the paper's figure 5 shows 0.39 and 0.10.
    np.testing.assert_allclose(bend, np.degrees(plant.holding_torque(goal[None])[0] / arm.K), atol=0.01)
    outstretched = np.degrees(plant.holding_torque(np.zeros((1, 2)))[0] / arm.K)
    np.testing.assert_allclose(outstretched, [2.4, 0.78], atol=0.05)


def test_watching_the_error_costs_little() -> None:
    """A step of Runge and Kutta is four rates; two half steps beside it, eight more, are for one step in many."""
    asked: list[Float] = []

    class Falling:
        def control(self, t: float, y: Float) -> Float:
            return np.zeros(1)

        def rate(self, y: Float, u: Float) -> Float:
            asked.append(y)
            return np.array([y[1], -9.81])

    steps = 1000
    Y, _ = FixedStep(1e-3, held=True).run(Falling(), np.zeros(2), np.arange(0, 1.001, 0.1))
    np.testing.assert_allclose(Y[-1], [-0.5 * 9.81, -9.81])
    assert 4 * steps < len(asked) < 1.1 * 4 * steps


def test_computed_torque_of_an_exact_model_follows_exactly() -> None:
    robot = geared(8, 3)
    plant = Plant(robot, friction=SmoothFriction.of(robot, 0.1), loads=(FunctionLoad(lambda q, dq: 2 * q),))
    motion = FourierTrajectory.random(robot, 4.0, 4, 0, 0.25, ramp=1.0)
    t = sample_times(4.0, 250.0)
    control = ComputedTorque(plant, Tabulated(motion, 1e-3), np.full(3, 400.0), np.full(3, 40.0))
    run = simulate(plant, control, plant.at_rest(motion.motion(t[:1])[0])[0], t, FixedStep(2e-3))
    q = motion.motion(t)[0]
    assert np.abs(run.q - q).max() < 1e-8 * np.abs(q).max()
    np.testing.assert_allclose(follow(plant, motion, t).tau, run.tau, atol=1e-5 * np.abs(run.tau).max())


def test_an_ideal_elastic_motion_obeys_the_equations() -> None:
    robot = geared(8, 3)
    plant = replace(elastic(robot), friction=SmoothFriction.of(robot, 0.1))
    motion = FourierTrajectory.random(robot, 4.0, 4, 0, 0.25, ramp=1.0)
    t = sample_times(4.0, 100.0)
    run = follow(plant, motion, t)
    found = plant.acceleration(plant.vector(run.state), run.tau)
    wanted = np.concatenate([run.ddq, run.ddtheta], axis=1)
    np.testing.assert_allclose(found, wanted, atol=1e-8 * np.abs(wanted).max())
    h, smooth = t[1], np.abs((t[2:-2] - 2.0) ** 2 - 1.0) > 0.1
    slope = (run.theta[:-4] - 8 * run.theta[1:-3] + 8 * run.theta[3:-1] - run.theta[4:]) / (12 * h)
    np.testing.assert_allclose(run.dtheta[2:-2][smooth], slope[smooth], atol=1e-4 * np.abs(slope).max())
    # The same torque in open loop gives the same motion, for a while: without feedback errors grow.
    part = slice(5, 31)
    table = OpenLoop(lambda at: follow(plant, motion, at).tau)
    again = simulate(plant, table, plant.vector(run.state)[5], t[part], FixedStep(1e-3))
    np.testing.assert_allclose(again.q, run.q[part], atol=1e-7)


def test_a_torque_table_is_followed() -> None:
    table = TorqueTable(np.array([0.0, 1.0, 2.0]), np.array([[0.0, 1.0], [2.0, 1.0], [2.0, 3.0]]))
    state = State(*np.zeros((4, 3, 2)))
    np.testing.assert_allclose(table.torque(np.array([-1.0, 0.5, 1.5]), state), [[0, 1], [1, 1], [2, 2]])
    with pytest.raises(UsageError, match="increasing"):
        TorqueTable(np.array([0.0, 0.0]), np.zeros((2, 1)))


def test_nonsense_is_refused() -> None:
    plant = Plant(geared(8, 3))
    start, t = plant.at_rest(np.zeros((1, 3)))[0], sample_times(0.1, 100.0)
    for step in (0.0, np.inf):
        with pytest.raises(UsageError, match="step"):
            FixedStep(step)
    with pytest.raises(UsageError, match="method Euler"):
        Adaptive(method="Euler")
    with pytest.raises(UsageError, match="step of finite length"):
        sample_times(np.inf, 10.0)
    with pytest.raises(UsageError, match="evenly spaced"):
        simulate(plant, coast(3), start, np.array([0.0, 0.1, 0.15]))
    with pytest.raises(UsageError, match="start"):
        simulate(plant, coast(3), start[:-1], t)
    runaway = OpenLoop(lambda at: np.where(at > 0.01, np.inf, 0.0)[:, None] * np.ones(3))
    for scheme in (FixedStep(), Adaptive()):
        with pytest.raises(SolverError, match="diverged"):
            simulate(plant, runaway, start, t, scheme)
    motion = FourierTrajectory.random(plant.robot, 4.0, 2, 0, 0.25, ramp=1.0)
    for bent in (elastic(plant.robot, Coupling.FULL), elastic(plant.robot, damping=1.0)):
        with pytest.raises(UsageError, match="with a controller"):
            follow(bent, motion, t)
    with pytest.raises(UsageError, match="kp"):
        GravityPD(plant, motion, np.full(3, -1.0), np.zeros(3))


def test_one_step_in_thirty_two_is_watched() -> None:
    """A step takes four slopes; watching one takes it again in two halves, eight more."""

    class Falling:
        calls = 0

        def control(self, t: float, y: Float) -> Float:
            return np.zeros(0)

        def rate(self, y: Float, u: Float | None) -> Float:
            self.calls += 1
            return np.array([y[1], -9.81])

    falling = Falling()
    Y, _ = FixedStep(1e-2, held=True).run(falling, np.zeros(2), np.arange(11) * 0.1)
    assert falling.calls == 4 * 100 + 8 * 4
    np.testing.assert_allclose(Y[-1], [-9.81 / 2, -9.81], rtol=1e-12)


@pytest.mark.parametrize(
    ("joints", "coupling", "held"),
    [
        ("rigid", Coupling.SIMPLIFIED, True),
        ("elastic", Coupling.FULL, False),
        pytest.param("rigid", Coupling.FULL, False, marks=pytest.mark.slow),
        pytest.param("elastic", Coupling.SIMPLIFIED, False, marks=pytest.mark.slow),
    ],
)
@pytest.mark.usefixtures("native_kernel")
def test_compiled_steps_are_those_of_numpy(joints: str, coupling: Coupling, held: bool) -> None:
    """Under a controller that holds the weight, with smooth friction; both kernels give one motion."""
    robot = geared(8, 3)
    plant = replace(
        elastic(robot, coupling, 0.2), friction=SmoothFriction(np.full(3, 0.5), np.full(3, 0.4), 0.05)
    )
    plant = plant if joints == "elastic" else plant.rigid
    trajectory = FourierTrajectory.random(robot, 4.0, 3, 1, 0.2, 1.0)
    reference = Tabulated(trajectory, 5e-4)
    controller = GravityPD(plant, reference, np.full(3, 60.0), np.full(3, 8.0))
    start = plant.at_rest(reference.motion(np.zeros(1))[0] + 0.1)[0]
    t, found = sample_times(0.1, 100.0), []
    for kernel in ("native", "numpy"):
        with using(kernel):
            found.append(simulate(plant, controller, start, t, FixedStep(2e-3, held, 1e-3)))
    for name in ("q", "dq", "theta", "dtheta", "tau"):
        one, other = (getattr(run, name) for run in found)
        assert np.abs(one).max() > 0.02
        assert np.abs(one - other).max() < 1e-9 * max(1.0, np.abs(other).max())


@pytest.mark.usefixtures("native_kernel")
def test_compiled_steps_refuse_what_numpys_refuse() -> None:
    arm = load_example("arm7")
    plant = Plant(arm, friction=SmoothFriction(np.zeros(7), np.full(7, 20.0), 1e-3))
    start, t = plant.at_rest(np.zeros((1, 7)))[0], sample_times(0.2, 100.0)
    for kernel in ("native", "numpy"):
        with using(kernel), pytest.raises(SolverError, match=r"relative error|no finite acceleration"):
            simulate(plant, OpenLoop(lambda t: np.full((len(t), 7), 5.0)), start, t, FixedStep(5e-3))


@pytest.mark.usefixtures("native_kernel")
@pytest.mark.parametrize("held", [False, True])
def test_compiled_steps_do_not_depend_on_how_many_are_prepared_at_a_time(
    held: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    robot = geared(8, 3)
    plant = Plant(robot, friction=SmoothFriction.of(robot, 0.1))
    trajectory = FourierTrajectory.random(robot, 4.0, 3, 1, 0.2, 1.0)
    controller = GravityPD(plant, trajectory, np.full(3, 60.0), np.full(3, 8.0))
    start, t = plant.at_rest(trajectory.motion(np.zeros(1))[0])[0], sample_times(0.5, 100.0)
    motions = []
    for rows in (20_000, 90):
        monkeypatch.setattr("dynid.simulation.integrate.TABLE_ROWS", rows)
        motions.append(simulate(plant, controller, start, t, FixedStep(5e-4, held)))
    for name in ("q", "dq", "ddq", "tau"):
        whole, in_parts = (getattr(motion, name) for motion in motions)
        np.testing.assert_allclose(in_parts, whole, rtol=1e-10, atol=1e-10)
    runaway = OpenLoop(lambda at: np.where(at > 0.301, np.inf, 0.0)[:, None] * np.ones(3))
    with pytest.raises(SolverError, match=r"t = 0\.3"):
        simulate(plant, runaway, start, t, FixedStep(5e-4, held))


def test_a_tabulated_trajectory_is_the_trajectory() -> None:
    trajectory = FourierTrajectory.random(geared(8, 3), 4.0, 3, 1, 0.2, 1.0)
    table = Tabulated(trajectory, 1e-4)
    for at in (0.0, 0.8191, 0.8192, 0.81925, 0.8191, 4.0, 0.0):
        for tabulated, exact in zip(
            table.motion(np.array([at])), trajectory.motion(np.array([at])), strict=True
        ):
            np.testing.assert_allclose(tabulated, exact, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kernel", ["native", "numpy"])
def test_too_many_steps_are_refused_before_any_is_taken(kernel: str, request: pytest.FixtureRequest) -> None:
    if kernel == "native":
        request.getfixturevalue("native_kernel")
    plant = Plant(geared(8, 3))
    start, longest = plant.at_rest(np.zeros((1, 3)))[0], MOST_STEPS * 1e-3
    unused = OpenLoop(lambda t: pytest.fail("asked for a torque"))
    with (
        using(kernel),
        pytest.raises(ResourceError, match=r"10 million steps of 0\.0005 s; expected at most 5 m"),
    ):
        simulate(plant, unused, start, sample_times(longest, 0.4), FixedStep(5e-4))
    check_budget(sample_times(longest, 10.0), 1e-3)
    with pytest.raises(ResourceError, match="simulation-steps"):
        check_budget(sample_times(longest + 0.1, 10.0), 1e-3)
