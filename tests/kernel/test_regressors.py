"""Regressors of random trees against pinocchio, and the laws of mechanics that they keep."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dynid import kernel as k
from dynid.base import Float, SolverError, UsageError
from dynid.kernel import Tree
from dynid.testing import random_inertia, random_motion, random_tree

pytestmark = pytest.mark.usefixtures("kernel")
TREES = [(1, 1, 0.0), (2, 2, 0.0), (3, 7, 0.0), (4, 6, 0.5), (5, 9, 0.9), (6, 12, 0.3)]
RELATIVE = 1e-10
OracleOf = Callable[[Tree], Any]


def close(found: Float, wanted: Float, relative: float = RELATIVE) -> None:
    assert found.shape == wanted.shape
    assert np.abs(found - wanted).max(initial=0.0) <= relative * np.abs(wanted).max(initial=1e-300)


def derivative(along: Callable[[float], Float], h: float = 1e-3) -> Float:
    # Central difference of fourth order.
    return (8 * (along(h) - along(-h)) - (along(2 * h) - along(-2 * h))) / (12 * h)


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_torque_regressor_is_pinocchios(seed: int, n: int, branching: float, oracle: OracleOf) -> None:
    tree, (q, dq, ddq) = random_tree(seed, n, branching), random_motion(seed, 70, n)
    close(k.torque_regressor(tree, q, dq, ddq).dense(10 * n), oracle(tree).panels(q, dq, ddq))


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_momentum_regressor_is_pinocchios(seed: int, n: int, branching: float, oracle: OracleOf) -> None:
    tree, (q, dq, _) = random_tree(seed, n, branching), random_motion(seed, 70, n)
    wanted = oracle(tree).panels(q, np.zeros_like(q), dq, gravity=False)
    close(k.momentum_regressor(tree, q, dq).dense(10 * n), wanted)


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_momentum_rate_regressor_is_pinocchios(seed: int, n: int, branching: float, oracle: OracleOf) -> None:
    tree, (q, dq, _) = random_tree(seed, n, branching), random_motion(seed, 3, n)
    R = k.momentum_rate_regressor(tree, q, dq).dense(10 * n)
    bodies = [random_inertia(100 + i, n) for i in range(12)]
    # Ten linearly independent bodies at each joint make every column independent.
    assert np.linalg.matrix_rank(np.array([body[0] for body in bodies])) == 10
    for index in range(n):
        for body in bodies:
            inertia = np.array(bodies[0])
            inertia[index] = body[index]
            close(R @ inertia.ravel(), oracle(tree).momentum_rate(inertia, q, dq))


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_energy_regressors_are_pinocchios(seed: int, n: int, branching: float, oracle: OracleOf) -> None:
    tree, (q, dq, _) = random_tree(seed, n, branching), random_motion(seed, 70, n)
    kinetic, potential = oracle(tree).energies(q, dq)
    close(k.kinetic_energy_regressor(tree, q, dq), kinetic)
    close(k.potential_energy_regressor(tree, q), potential)


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_mass_matrix(seed: int, n: int, branching: float, oracle: OracleOf) -> None:
    tree, q, inertia = random_tree(seed, n, branching), random_motion(seed, 5, n)[0], random_inertia(seed, n)
    M = k.mass_matrix(tree, inertia, q)
    close(M, oracle(tree).mass_matrix(inertia, q))
    assert (M.transpose(0, 2, 1) == M).all()
    assert (np.linalg.eigvalsh(M) > 0).all()


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_equations_of_motion_give_the_torque_and_forward_dynamics_undoes_it(
    seed: int, n: int, branching: float
) -> None:
    tree, (q, dq, ddq) = random_tree(seed, n, branching), random_motion(seed, 70, n)
    inertia = random_inertia(seed, n)
    M, h = k.equations_of_motion(tree, inertia, q, dq)
    tau = k.inverse_dynamics(tree, inertia, q, dq, ddq)
    close(np.einsum("tij,tj->ti", M, ddq) + h, tau)
    close(k.forward_dynamics(tree, inertia, q, dq, tau), ddq, 1e-8)
    one = [k.forward_dynamics(tree, inertia, q[t, None], dq[t, None], tau[t, None])[0] for t in range(5)]
    close(np.array(one), k.forward_dynamics(tree, inertia, q, dq, tau)[:5], 1e-11)


def test_both_kernels_have_the_same_equations_of_motion(kernel: str) -> None:
    tree, (q, dq, _), inertia = random_tree(4, 6, 0.5), random_motion(4, 100, 6), random_inertia(4, 6)
    found = k.equations_of_motion(tree, inertia, q, dq, threads=3)
    with k.using("numpy"):
        for here, there in zip(found, k.equations_of_motion(tree, inertia, q, dq), strict=True):
            close(here, there, 1e-13)


def test_a_mass_matrix_that_is_not_positive_definite_is_refused() -> None:
    tree, (q, dq, tau) = random_tree(1, 3, 0.0), random_motion(1, 3, 3)
    with pytest.raises(SolverError, match="not positive definite"):
        k.forward_dynamics(tree, np.zeros((3, 10)), q, dq, tau)
    assert np.isnan(k.solved(np.full((1, 2, 2), np.inf), np.ones((1, 2)))).all()


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_torque_is_linear_in_the_parameters(seed: int, n: int, branching: float) -> None:
    tree, (q, dq, ddq) = random_tree(seed, n, branching), random_motion(seed, 40, n)
    one, other = random_inertia(seed, n), random_inertia(seed + 1, n)
    Y = k.torque_regressor(tree, q, dq, ddq).dense(10 * n)
    close(k.inverse_dynamics(tree, one, q, dq, ddq), Y @ one.ravel())
    both = k.inverse_dynamics(tree, 2.0 * one - 3.0 * other, q, dq, ddq)
    close(both, Y @ (2.0 * one - 3.0 * other).ravel())
    M, h = k.mass_matrix(tree, one, q), k.nonlinear_effects(tree, one, q, dq)
    close(np.einsum("tij,tj->ti", M, ddq) + h, Y @ one.ravel())
    close(k.gravity_torque(tree, one, q), k.nonlinear_effects(tree, one, q, np.zeros_like(dq)))


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_power_balance(seed: int, n: int, branching: float) -> None:
    # d/dt (T + U) = dq' tau along q(t) = q + dq t + ddq t^2 / 2, column by column.
    tree, (q, dq, ddq) = random_tree(seed, n, branching), random_motion(seed, 20, n)
    dq, ddq = 0.5 * dq, 0.5 * ddq

    def energy(t: float) -> Float:
        place, speed = q + dq * t + 0.5 * ddq * t**2, dq + ddq * t
        kinetic = k.kinetic_energy_regressor(tree, place, speed)
        return kinetic + k.potential_energy_regressor(tree, place)

    power = np.einsum("ti,tip->pt", dq, k.torque_regressor(tree, q, dq, ddq).dense(10 * n))
    close(derivative(energy), power, 1e-6)


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_momentum_identity(seed: int, n: int, branching: float) -> None:
    tree, (q, dq, ddq) = random_tree(seed, n, branching), random_motion(seed, 20, n)
    dq, ddq = 0.5 * dq, 0.5 * ddq

    def momentum(t: float) -> Float:
        place, speed = q + dq * t + 0.5 * ddq * t**2, dq + ddq * t
        return k.momentum_regressor(tree, place, speed).dense(10 * n)

    rate = k.momentum_rate_regressor(tree, q, dq).dense(10 * n)
    close(derivative(momentum) + rate, k.torque_regressor(tree, q, dq, ddq).dense(10 * n), 1e-6)


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_passivity(seed: int, n: int, branching: float) -> None:
    # Coriolis forces do no work beside that of the changing mass matrix: dq' C dq = dq' Mdot dq / 2.
    tree, (q, dq, _) = random_tree(seed, n, branching), random_motion(seed, 20, n)
    dq, inertia = 0.5 * dq, random_inertia(seed, n)
    coriolis = k.nonlinear_effects(tree, inertia, q, dq) - k.gravity_torque(tree, inertia, q)
    M_rate = derivative(lambda t: k.mass_matrix(tree, inertia, q + dq * t))
    work = np.einsum("ti,ti->t", dq, coriolis)
    size = np.abs(np.einsum("ti,tij,tj->t", dq, k.mass_matrix(tree, inertia, q), dq)).max()
    assert np.abs(work - 0.5 * np.einsum("ti,tij,tj->t", dq, M_rate, dq)).max() < 1e-6 * size


@pytest.mark.parametrize("T", [1, 63, 64, 65, 200])
def test_length_and_mask_change_nothing_else(T: int) -> None:
    tree, (q, dq, ddq) = random_tree(4, 6, 0.5), random_motion(1, 200, 6)
    wanted = np.random.default_rng(T).random(60) < 0.4
    for function, arguments in (
        (k.torque_regressor, (q, dq, ddq)),
        (k.momentum_regressor, (q, dq)),
        (k.momentum_rate_regressor, (q, dq)),
    ):
        whole = function(tree, *arguments).dense(60)
        part = function(tree, *(one[:T] for one in arguments), columns=wanted)
        close(part.dense(60), np.where(wanted, whole[:T], 0.0), 1e-15)
        assert all(wanted[columns].all() for columns in part.columns)
    for function, arguments in ((k.kinetic_energy_regressor, (q, dq)), (k.potential_energy_regressor, (q,))):
        whole = function(tree, *arguments)
        part = function(tree, *(one[:T] for one in arguments), columns=wanted)
        close(part, whole[wanted, :T], 1e-15)


def test_nothing_wanted_and_nothing_there() -> None:
    tree, (q, dq, ddq) = random_tree(4, 3), random_motion(1, 10, 3)
    none = np.zeros(30, dtype=np.bool_)
    assert all(v.shape == (0, 10) for v in k.torque_regressor(tree, q, dq, ddq, none).values)
    assert k.kinetic_energy_regressor(tree, q, dq, none).shape == (0, 10)
    empty = np.zeros((0, 3))
    assert [v.shape for v in k.torque_regressor(tree, empty, empty, empty).values] == [
        (len(c), 0) for c in k.torque_regressor(tree, q, dq, ddq).columns
    ]


def test_structural_zeros_are_left_out_and_no_more() -> None:
    tree, (q, dq, ddq) = random_tree(5, 9, 0.9), random_motion(1, 30, 9)
    panels = k.torque_regressor(tree, q, dq, ddq)
    for i, columns in enumerate(panels.columns):
        bodies = {j for j in range(9) if i in tree.paths[j]}
        assert {int(c) // 10 for c in columns} == bodies
        assert len(columns) == 10 * len(bodies)
        assert (np.diff(columns) > 0).all()


def test_threads_do_not_change_a_byte() -> None:
    tree, (q, dq, ddq) = random_tree(2, 2), random_motion(1, 3 * 16384 + 77, 2)
    for function, arguments in ((k.torque_regressor, (q, dq, ddq)), (k.momentum_rate_regressor, (q, dq))):
        first, *others = (function(tree, *arguments, threads=threads).values for threads in (1, 2, 5))
        for other in others:
            assert [v.tobytes() for v in other] == [v.tobytes() for v in first]


def test_layout_of_the_input_does_not_matter() -> None:
    tree, (q, dq, ddq) = random_tree(4, 3), random_motion(1, 90, 3)
    wanted = k.torque_regressor(tree, q, dq, ddq).dense(30)
    turned = [np.asfortranarray(one) for one in (q, dq, ddq)]
    thinned = [np.repeat(one, 2, axis=0)[::2] for one in (q, dq, ddq)]
    for arguments in (turned, thinned):
        np.testing.assert_array_equal(k.torque_regressor(tree, *arguments).dense(30), wanted)


def test_shapes_that_disagree_are_refused() -> None:
    tree, (q, dq, ddq) = random_tree(4, 3), random_motion(1, 10, 3)
    for arguments in ((q[:, :2], dq, ddq), (q, dq[:9], ddq), (q[0], dq[0], ddq[0])):
        with pytest.raises(UsageError, match="array-shape"):
            k.torque_regressor(tree, *arguments)
    with pytest.raises(UsageError, match="columns of shape"):
        k.torque_regressor(tree, q, dq, ddq, np.ones(29, dtype=np.bool_))
