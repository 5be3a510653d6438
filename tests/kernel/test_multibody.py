"""Runs of multibody systems: steps of the native kernel against NumPy's, pinocchio's and MuJoCo's, and their slopes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid.base import Float, SolverError, UsageError
from dynid.kernel import Tree, solved, using
from dynid.kernel.multibody import Control, Held, Multibody, Parameter, Rollout, Slope, rollout
from dynid.testing import random_inertia, random_tree
from tests.kernel.conftest import Oracle

pytestmark = pytest.mark.usefixtures("native_kernel")
H, COUNT = 4e-3, 2
N = 4
KP, KD = np.full(N, 40.0), np.full(N, 4.0)


def system(seed: int, elastic: bool = False, projected: bool = False) -> Multibody:
    """Bodies, rotors, friction; with `elastic` a motor behind a spring each, with `projected` mixed coordinates."""
    rng, tree = np.random.default_rng(seed), random_tree(seed, N)
    P = np.eye(N) + (0.3 * rng.normal(size=(N, N)) if projected else 0.0)
    s, driven = N, np.arange(N)
    stiffness, damping = np.zeros((2, s, s))
    mass: Float = np.diag(rng.uniform(0.1, 0.5, N))
    if elastic:
        s, driven = 2 * N, np.arange(N, 2 * N)
        P = np.hstack([P, np.zeros_like(P)])
        between: Float = np.kron(np.array([[1.0, -1.0], [-1.0, 1.0]]), np.eye(N))
        stiffness, damping = np.asarray(300.0 * between), np.asarray(0.3 * between)
        mass = np.asarray(np.kron(np.diag([0.0, 1.0]), mass))
    return Multibody(
        tree,
        random_inertia(seed, N),
        P,
        mass,
        driven,
        shift=0.2 * rng.normal(size=N) * projected,
        stiffness=stiffness,
        damping=damping + 0.1 * np.eye(s),
        constant=rng.normal(size=s),
        at=driven,
        level=rng.uniform(0.1, 0.6, N),
        width=np.full(N, 0.1),
    )


def starts(one: Multibody, runs: int = 1) -> Float:
    return np.random.default_rng(1).uniform(-0.5, 0.5, (runs, 2 * one.size))


def references(rows: int, spacing: float) -> Float:
    t = spacing * np.arange(rows)
    return 0.4 * np.sin(2 * np.pi * np.outer(t, np.linspace(0.5, 1.5, N)))


def by_numpy(one: Multibody, y: Float, samples: int, force: Callable[[int, Float], Float]) -> Float:
    """States (samples, 2 s) by the same steps; force(half step, state) on the coordinates."""
    s, h, found = one.size, H / COUNT, [y]

    def rate(row: int, z: Float) -> Float:
        x, v = z[None, :s], z[None, s:]
        M, bias = one.equations(x, v)
        with using("numpy"):
            a = solved(M, force(row, z)[None] - bias)[0]
        return np.concatenate([v[0], a])

    for step in range((samples - 1) * COUNT):
        k1 = rate(2 * step, y)
        k2 = rate(2 * step + 1, y + 0.5 * h * k1)
        k3 = rate(2 * step + 1, y + 0.5 * h * k2)
        k4 = rate(2 * step + 2, y + h * k3)
        y = y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + k4)
        if (step + 1) % COUNT == 0:
            found.append(y)
    return np.array(found)


@pytest.mark.parametrize(
    ("elastic", "projected"), [(False, False), (True, False), (False, True), (True, True)]
)
@pytest.mark.parametrize("seed", [3, 5])
def test_steps_are_those_of_numpy_for_a_second(seed: int, elastic: bool, projected: bool) -> None:
    one, samples = system(seed, elastic, projected), 251
    q = references(2 * COUNT * (samples - 1) + 1, 0.5 * H / COUNT)
    start = starts(one)

    def force(row: int, z: Float) -> Float:
        x, v = z[one.driven], z[one.size + one.driven]
        found = np.zeros(one.size)
        found[one.driven] = KP * (q[row] - x) - KD * v
        return found

    run = rollout(one, start, samples, H, COUNT, Control(N, kp=KP, kd=KD, q=q))
    expected = by_numpy(one, start[0], samples, force)
    assert np.ptp(expected, axis=0).max() > 0.3
    assert_allclose(np.concatenate([run.x[0], run.v[0]], axis=1), expected, rtol=0, atol=1e-9)


def test_steps_are_those_of_pinocchios_articulated_bodies(oracle: Callable[[Tree], Oracle]) -> None:
    import pinocchio as pin

    tree, inertia, samples = random_tree(11, N, 0.5), random_inertia(11, N), 101
    made = oracle(tree)
    model, order = made.model(inertia), np.array(made.order)
    data = model.createData()
    one = Multibody(tree, inertia, np.eye(N), np.zeros((N, N)), np.arange(N))
    start = starts(one)
    y, h = start[0], H / COUNT

    def rate(z: Float) -> Float:
        a = np.zeros(N)
        a[order] = pin.aba(model, data, z[order], z[N + order], -z[N + order])
        return np.concatenate([z[N:], a])

    for _ in range(COUNT * (samples - 1)):
        k1 = rate(y)
        k2 = rate(y + 0.5 * h * k1)
        k3 = rate(y + 0.5 * h * k2)
        y = y + h / 6.0 * (k1 + 2.0 * (k2 + k3) + rate(y + h * k3))
    run = rollout(one, start, samples, H, COUNT, Control(N, kd=np.ones(N)))
    assert_allclose(np.concatenate([run.x[0, -1], run.v[0, -1]]), y, rtol=0, atol=1e-9)


def test_steps_are_those_of_mujocos_runge_kutta() -> None:
    import mujoco

    from dynid.lab import export_mjcf
    from dynid.simulation import Plant
    from tests.simulate.robots import geared

    plant = Plant(geared(4, 3))
    text = export_mjcf(plant, H / COUNT)
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_RK4, H / COUNT
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    data = mujoco.MjData(model)
    joints = [model.joint(name).qposadr[0] for name in plant.robot.joint_names]
    q = np.array([0.3, -0.4, 0.6])
    data.qpos[joints] = q
    one = plant.multibody
    assert one is not None
    for _ in range(COUNT * 100):
        mujoco.mj_step(model, data)
    run = rollout(one, np.concatenate([q, np.zeros(3)])[None], 101, H, COUNT, Control(3))
    assert np.ptp(run.x[0], axis=0).max() > 0.3
    assert_allclose(run.x[0, -1], data.qpos[joints], rtol=0, atol=1e-8)


def by_hand(one: Multibody, samples: int, limit: float, band: float, delay: float, q: Float) -> Rollout:
    """Torque held from sample to sample that acts later, one sample after another."""
    y, commands, states = starts(one), [np.zeros(N)] * 8, []
    whole = int(delay)
    for k in range(samples):
        states.append(y[0])
        x, v = y[0, one.driven], y[0, one.size + one.driven]
        e = np.where(np.abs(q[k] - x) <= band, 0.0, q[k] - x)
        commands.append(np.clip(KP * e - KD * v, -limit, limit))
        steps = Held.of(delay, COUNT)
        for u, share, own in (
            (commands[-2 - whole], steps.share, steps.early),
            (commands[-1 - whole], 1.0 - steps.share, steps.count),
        ):
            if own:
                table = np.tile(u, (2 * own + 1, 1))
                run = rollout(one, y, 2, share * H, own, Control(N, u=table))
                y = np.concatenate([run.x[:, -1], run.v[:, -1]], axis=1)
    found = np.array(states)
    return Rollout(found[None, :, : one.size], found[None, :, one.size :], np.array(commands[8:])[None])


@pytest.mark.parametrize("delay", [0.0, 1.0, 2.4])
def test_held_torque_acts_later_and_is_limited(delay: float) -> None:
    one, samples = system(6, elastic=True), 60
    q = references(samples, H)
    limit, band = 12.0, 0.02
    control = Control(N, kp=KP, kd=KD, q=q, limit=np.full(N, limit), dead_band=np.full(N, band))
    run = rollout(one, starts(one), samples, H, COUNT, control, Held.of(delay, COUNT))
    expected = by_hand(one, samples, limit, band, delay, q)
    assert run.u is not None
    assert expected.u is not None
    assert 0.05 < np.mean(np.abs(run.u) == limit) < 0.95
    assert_allclose(run.u, expected.u, rtol=0, atol=1e-9)
    assert_allclose(run.x, expected.x, rtol=0, atol=1e-10)


def parameters(one: Multibody) -> list[Parameter]:
    motors = one.driven.tolist()
    own = [Parameter(Slope.BODY, j, k) for j in range(N) for k in range(10)]
    own += [Parameter(Slope.ACCELERATION, j) for j in motors] + [Parameter(Slope.VELOCITY, j) for j in motors]
    own += [Parameter(Slope.SIGN, j, 0, 0.1) for j in motors] + [Parameter(Slope.ONE, j) for j in motors]
    if one.size > N:
        own += [Parameter(kind, N, 0) for kind in (Slope.DEFLECTION, Slope.DEFLECTION_RATE)]
    return own


def moved(one: Multibody, parameter: Parameter, by: float) -> Multibody:
    """The system with one parameter changed."""
    i, j = parameter.first, parameter.second
    if parameter.kind is Slope.BODY:
        inertia = np.array(one.inertia)
        inertia[i, j] += by
        return replace(one, inertia=inertia)
    if parameter.kind is Slope.SIGN:
        level = np.array(one.level)
        level[one.at.tolist().index(i)] += by
        return replace(one, level=level)
    name = {
        Slope.ACCELERATION: "mass", Slope.VELOCITY: "damping", Slope.ONE: "constant",
        Slope.DEFLECTION: "stiffness", Slope.DEFLECTION_RATE: "damping",
    }[parameter.kind]  # fmt: skip
    values = np.array(getattr(one, name))
    if parameter.kind is Slope.ONE:
        values[i] += by
    elif parameter.kind in (Slope.ACCELERATION, Slope.VELOCITY):
        values[i, i] += by
    else:
        values[np.ix_([i, j], [i, j])] += by * np.array([[1.0, -1.0], [-1.0, 1.0]])
    changed: dict[str, Any] = {name: values}
    return replace(one, **changed)


@pytest.mark.parametrize(("elastic", "projected"), [(False, False), (True, False), (False, True)])
@pytest.mark.parametrize("held", [None, Held.of(1.3, COUNT)])
def test_slopes_are_those_of_the_steps(elastic: bool, projected: bool, held: Held | None) -> None:
    one, samples, eps = system(8, elastic, projected), 25, 1e-6
    q = references(samples if held else 2 * COUNT * (samples - 1) + 1, H if held else 0.5 * H / COUNT)
    control = Control(N, kp=KP, kd=KD, q=q)
    start, own = starts(one), parameters(one)

    def x(other: Multibody, y: Float) -> tuple[Float, Float]:
        run = rollout(other, y, samples, H, COUNT, control, held)
        return run.x[0], run.v[0]

    run = rollout(one, start, samples, H, COUNT, control, held, own, first_state=True)
    assert run.dx is not None
    assert run.dv is not None
    for c, parameter in enumerate(own):
        before, behind = x(moved(one, parameter, eps), start), x(moved(one, parameter, -eps), start)
        for slope, a, b in zip((run.dx, run.dv), before, behind, strict=True):
            size = max(np.abs(a - b).max() / (2 * eps), 1e-3)
            assert_allclose(slope[0, :, :, c], (a - b) / (2 * eps), rtol=0, atol=2e-5 * size + 1e-8)
    for i in range(2 * one.size):
        shift = eps * np.eye(2 * one.size)[i]
        after, early = x(one, start + shift), x(one, start - shift)
        assert_allclose(run.dx[0, :, :, len(own) + i], (after[0] - early[0]) / (2 * eps), rtol=0, atol=1e-6)


def test_threads_and_neighbours_change_no_byte() -> None:
    one = system(9, elastic=True)
    start = starts(one, 11)
    q = np.random.default_rng(2).normal(0.0, 0.2, (11, 40, N))
    own = parameters(one)[:12]

    def bytes_of(part: slice, threads: int) -> list[bytes]:
        control = Control(N, kp=KP, kd=KD, q=q[part])
        run = rollout(one, start[part], 40, H, COUNT, control, Held(COUNT), own, threads=threads)
        assert run.dx is not None
        return [run.x[i].tobytes() + run.dx[i].tobytes() for i in range(len(run.x))]

    every = bytes_of(slice(None), 1)
    assert every == bytes_of(slice(None), 3)
    assert every[5:] == bytes_of(slice(5, None), 2)


def test_failures_are_told() -> None:
    one = system(3)
    control = Control(N, kd=np.full(N, -1e6))
    with pytest.raises(SolverError, match="no finite acceleration"):
        rollout(one, starts(one), 100, H, COUNT, control)
    light = replace(one, mass=-10.0 * np.eye(N))
    with pytest.raises(SolverError, match="not positive definite"):
        rollout(light, starts(one), 3, H, COUNT, Control(N))
    with using("numpy"), pytest.raises(UsageError, match="the native one"):
        rollout(one, starts(one), 3, H, COUNT, Control(N))
    with pytest.raises(UsageError, match="tables of shapes"):
        rollout(one, starts(one), 3, H, COUNT, Control(N, q=np.zeros((4, N))))
    with pytest.raises(UsageError, match="driven"):
        replace(one, driven=np.array([N]))
