"""The equations of motion of simulated robots, against a Lagrangian written down a second time."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from dynid.base import Float, InputError, UsageError
from dynid.kernel import mass_matrix, nonlinear_effects, using
from dynid.robot import Drive, FourBar, Mounting, load_example
from dynid.simulation import Coupling, Dahl, Elasticity, FunctionLoad, Plant, SmoothFriction, State
from tests.elastic_arms import Arm, planar, puma
from tests.simulate.robots import geared

ARMS = {"planar": planar, "puma": puma}


def plant_of(arm: Arm, coupling: Coupling = Coupling.FULL) -> Plant:
    """The plant of an arm in dynid."""
    mounting = Mounting(arm.robot.parent, np.array(arm.carriers()))
    elasticity = Elasticity(arm.K, np.zeros(arm.n))
    return Plant(arm.robot, arm.bodies(), arm.Y, elasticity, coupling, mounting)


def random_state(n: int, seed: int) -> tuple[Float, Float, Float]:
    rng = np.random.default_rng(seed)
    return rng.uniform(-2, 2, 2 * n), rng.normal(size=2 * n), rng.normal(size=2 * n)


def relative(found: Float, wanted: Float) -> float:
    return float(np.abs(found - wanted).max() / np.abs(wanted).max())


@pytest.mark.parametrize("name", ARMS)
@pytest.mark.parametrize("seed", range(4))
def test_full_coupling_is_the_lagrangian_of_zollo(name: str, seed: int) -> None:
    arm = ARMS[name]()
    plant = plant_of(arm)
    x, v, a = random_state(arm.n, seed)
    M, h = plant.equations(x[None], v[None])
    assert relative(M[0], arm.mass_matrix(x[: arm.n])) < 1e-12
    spring = np.concatenate([arm.K, -arm.K]) * np.tile(x[: arm.n] - x[arm.n :], 2)
    wanted = arm.lagrangian_torque(x[: arm.n], x[arm.n :], v, a)
    assert relative(M[0] @ a + h[0] + spring, wanted) < 1e-12


@pytest.mark.parametrize("name", ARMS)
def test_simplified_coupling_drops_both_coupling_terms(name: str) -> None:
    arm = ARMS[name]()
    x, v, _ = random_state(arm.n, 1)
    M, h = plant_of(arm, Coupling.SIMPLIFIED).equations(x[None], v[None])
    n, full = arm.n, arm.mass_matrix(x[: arm.n])
    full[:n, n:] = full[n:, :n] = 0.0
    assert relative(M[0], full) < 1e-12
    np.testing.assert_array_equal(h[0, n:], 0.0)
    assert (
        relative(h[0, :n], nonlinear_effects(arm.robot.tree, arm.bodies(), x[None, :n], v[None, :n])[0])
        < 1e-12
    )


def test_the_mass_matrix_is_positive_only_with_the_rotor_in_the_link_that_carries_it() -> None:
    arm = planar()
    assert (np.linalg.eigvalsh(arm.mass_matrix(np.array([0.3, 1.0]))) > 0).all()
    left_out = arm.I.copy()
    left_out[0, 2] -= 12.10
    assert left_out[0, 2] == pytest.approx(1.7167, abs=1e-4)
    with pytest.raises(UsageError, match="rotors they carry"):
        plant_of(replace(arm, I=left_out))


@pytest.mark.parametrize("coupling", Coupling)
@pytest.mark.parametrize("elastic", [False, True])
@pytest.mark.parametrize(("coupled", "mimic"), [(False, False), (True, False), (False, True)])
def test_power_is_the_rate_of_energy(coupling: Coupling, elastic: bool, coupled: bool, mimic: bool) -> None:
    robot = geared(5, 4, coupled, mimic)
    n = robot.n
    rng = np.random.default_rng(0)
    spring = FunctionLoad(lambda q, dq: 3.0 * np.sin(q), lambda q: 3.0 * (1.0 - np.cos(q)).sum(axis=1))
    # Full coupling wants the rotors inside the links.
    heavier = robot.inertia_prior + np.array([0, 0, 0, 0, 0.2, 0, 0.2, 0, 0, 0.2])
    K, D = rng.uniform(50, 200, n), rng.uniform(0, 2, n)
    plant = Plant(
        robot,
        heavier,
        elasticity=Elasticity(K, D) if elastic else None,
        coupling=coupling,
        loads=(spring,),
        friction=SmoothFriction.of(robot),
    )
    y = rng.uniform(-1, 1, (20, plant.states))
    u = rng.uniform(-5, 5, (20, n))
    dy, h = plant.rate(y, u), 1e-4
    ways = [plant.energy(y + k * h * dy) for k in (-2, -1, 1, 2)]
    rate = (ways[0] - 8 * ways[1] + 8 * ways[2] - ways[3]) / (12 * h)
    state = plant.state(y)
    lost = (plant.friction_torque(y) * state.dtheta).sum(axis=1)
    if elastic:
        lost += ((state.dtheta - state.dq) ** 2) @ D
    wanted = (u * state.dtheta).sum(axis=1) - lost
    np.testing.assert_allclose(rate, wanted, atol=1e-9 * np.abs(plant.energy(y)).max())


@pytest.mark.parametrize("coupling", Coupling)
@pytest.mark.parametrize("elastic", [False, True])
def test_drive_torque_undoes_acceleration(coupling: Coupling, elastic: bool) -> None:
    robot = geared(2, 4, coupled=True)
    plant = Plant(
        robot,
        robot.inertia_prior + np.array([0, 0, 0, 0, 0.2, 0, 0.2, 0, 0, 0.2]),
        elasticity=Elasticity(np.full(4, 100.0), np.ones(4)) if elastic else None,
        coupling=coupling,
        loads=(FunctionLoad(lambda q, dq: q**3 + 0.1 * dq),),
        friction=SmoothFriction.of(robot),
    )
    rng = np.random.default_rng(3)
    y, u = rng.uniform(-1, 1, (10, plant.states)), rng.normal(size=(10, 4))
    assert relative(plant.drive_torque(plant.state(y), plant.acceleration(y, u)), u) < 1e-10


def test_friction_with_states_of_its_own() -> None:
    """Drive torque undoes acceleration, and the states change as the friction says."""
    robot, friction = geared(2, 2), Dahl(np.array([1.0, 0.5]), np.array([200.0, 400.0]))
    plant = Plant(robot, friction=friction)
    rng = np.random.default_rng(4)
    y, u = rng.uniform(-1, 1, (10, plant.states)), rng.normal(size=(10, 2))
    inner = y[:, -plant.friction_states :]
    assert inner.shape == (10, 2)
    assert relative(plant.drive_torque(plant.state(y), plant.acceleration(y, u), inner), u) < 1e-10
    np.testing.assert_array_equal(plant.rate(y, u)[:, -2:], friction.rate(plant.state(y).dq, inner))


def test_rigid_plant_has_the_kernels_mass_matrix_with_rotors_and_payload() -> None:
    arm = load_example("arm7")
    payload = np.zeros((7, 10))
    payload[-1, 0], payload[-1, 3], payload[-1, 4::3] = 2.0, 0.2, 0.05
    plant = Plant(arm, payload=payload)
    q = np.random.default_rng(0).uniform(-1, 1, (5, 7))
    M, h = plant.equations(q, q)
    bodies = arm.inertia_prior + payload
    wanted = mass_matrix(arm.tree, bodies, q) + np.diag(arm.drive.reflected_rotor_inertia)
    assert relative(M, wanted) < 1e-12
    assert relative(h, nonlinear_effects(arm.tree, bodies, q, q)) < 1e-12


def test_rigid_full_coupling_is_what_stiff_joints_come_to() -> None:
    robot = geared(3, 3)
    bodies = robot.inertia_prior + np.array([0, 0, 0, 0, 0.2, 0, 0.2, 0, 0, 0.2])
    rigid = Plant(robot, bodies, coupling=Coupling.FULL)
    elastic = Plant(robot, bodies, elasticity=Elasticity(np.ones(3), np.zeros(3)), coupling=Coupling.FULL)
    q, dq = np.random.default_rng(0).normal(size=(2, 6, 3))
    both = np.vstack([np.eye(3), np.eye(3)])
    M, h = elastic.equations(q @ both.T, dq @ both.T)
    rigid_M, rigid_h = rigid.equations(q, dq)
    assert relative(both.T @ M @ both, rigid_M) < 1e-12
    assert relative(h @ both, rigid_h) < 1e-12


def test_friction_acts_at_the_motors_of_coupled_joints() -> None:
    robot = geared(7, 3, coupled=True)
    friction = SmoothFriction.of(robot, 1e-3)
    plant = Plant(robot, friction=friction)
    y = np.random.default_rng(1).normal(size=(30, plant.states))
    motors = plant.state(y).dtheta @ robot.drive.transmission.T
    ratio = robot.drive.gear_ratio
    at_motor = friction.torque(motors / ratio, np.zeros((30, 0))) / ratio
    np.testing.assert_allclose(plant.friction_torque(y), at_motor @ robot.drive.transmission, rtol=1e-12)
    lost = (plant.friction_torque(y) * plant.state(y).dtheta).sum(axis=1)
    np.testing.assert_allclose(lost, (at_motor * motors).sum(axis=1), rtol=1e-12)


def test_a_linkage_of_bars_keeps_the_energy_balance() -> None:
    robot = geared(4, 2)
    bars = FourBar(ground=1.0, crank=0.4, coupler=0.9, rocker=0.5)
    drive = robot.drive
    bent = Drive(
        drive.transmission,
        drive.rotor_inertia,
        drive.torque_constant,
        drive.drive_gain,
        linkages=(None, bars),
    )
    plant = Plant(replace(robot, drive=bent), friction=SmoothFriction.of(robot))
    rng = np.random.default_rng(0)
    y = np.concatenate([rng.uniform(-0.3, 0.3, (10, 2)), rng.normal(size=(10, 2))], axis=1)
    u, h = rng.normal(size=(10, 2)), 1e-4
    dy = plant.rate(y, u)
    ways = [plant.energy(y + k * h * dy) for k in (-2, -1, 1, 2)]
    rate = (ways[0] - 8 * ways[1] + 8 * ways[2] - ways[3]) / (12 * h)
    lost = (plant.friction_torque(y) * y[:, 2:]).sum(axis=1)
    np.testing.assert_allclose(rate, (u * y[:, 2:]).sum(axis=1) - lost, atol=1e-8)


def test_at_rest_the_holding_torque_holds() -> None:
    robot = geared(1, 3)
    plant = Plant(
        robot,
        elasticity=Elasticity(np.array([80.0, 120.0, 200.0]), np.ones(3)),
        loads=(FunctionLoad(lambda q, dq: 2.0 * q),),
        friction=SmoothFriction.of(robot),
    )
    q = np.random.default_rng(0).uniform(-1, 1, (4, 3))
    y = plant.at_rest(q)
    assert np.abs(plant.rate(y, plant.holding_torque(q))).max() < 1e-9
    assert np.abs(plant.state(y).theta - q).max() > 1e-3


def test_both_kernels_give_the_same_motion() -> None:
    plant = plant_of(planar())
    y, u = np.random.default_rng(0).normal(size=(2, 5, 8))
    with using("numpy"):
        wanted = plant.rate(y, u[:, :2])
    assert relative(plant.rate(y, u[:, :2]), wanted) < 1e-11


def test_nonsense_is_refused() -> None:
    robot = geared(1, 3)
    with pytest.raises(InputError, match="body2"):
        Plant(replace(robot, inertia_prior=robot.inertia_prior * np.array([1, np.nan, 1])[:, None]))
    with pytest.raises(UsageError, match="elasticity"):
        Elasticity(np.array([1.0, -1.0]), np.zeros(2))
    unknown = replace(robot, drive=Drive.direct(3))
    with pytest.raises(UsageError, match="joint1"):
        Plant(unknown, elasticity=Elasticity(np.ones(3), np.zeros(3)))
    assert Plant(unknown).rotors.tolist() == [0, 0, 0]
    with pytest.raises(UsageError, match="stiffnesses"):
        Plant(robot, elasticity=Elasticity(np.ones(2), np.zeros(2)))
    with pytest.raises(UsageError, match="friction"):
        SmoothFriction(np.array([-1.0]), np.zeros(1))
    with pytest.raises(UsageError, match="rigid"):
        Plant(robot).spring_torque(State(*np.zeros((4, 1, 3))))
