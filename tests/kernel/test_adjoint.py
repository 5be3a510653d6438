"""Derivatives of torque and regressor by motion: pinocchio's, the regressor's own structure, mimic joints, shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from dynid import kernel as k
from dynid.base import Float, UsageError
from dynid.kernel import Tree
from dynid.kernel.adjoint import pairs, torque_gradient, torque_jacobian, torque_lines
from dynid.testing import random_inertia, random_motion, random_tree

pytestmark = pytest.mark.usefixtures("kernel")
TREES = [(1, 1, 0.0), (2, 2, 0.0), (3, 7, 0.0), (4, 6, 0.5), (5, 9, 0.9)]


def of_pinocchio(oracle: Any, inertia: Float, q: Float, dq: Float, ddq: Float) -> Float:
    model, order = oracle.model(inertia), np.array(oracle.order)
    data = model.createData()
    J = np.zeros((3, *q.shape, q.shape[1]))
    for t in range(len(q)):
        by_q, by_dq, M = pin.computeRNEADerivatives(model, data, q[t, order], dq[t, order], ddq[t, order])
        upper = np.triu(M)
        for kind, found in enumerate((by_q, by_dq, upper + np.triu(upper, 1).T)):
            J[kind, t][np.ix_(order, order)] = found.T
    return J


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_torque_derivatives_are_pinocchios(
    seed: int, n: int, branching: float, oracle: Callable[[Tree], Any]
) -> None:
    tree, motion, inertia = (
        random_tree(seed, n, branching),
        random_motion(seed, 70, n),
        random_inertia(seed, n),
    )
    found = torque_jacobian(tree, inertia, *motion)
    wanted = of_pinocchio(oracle(tree), inertia, *motion)
    assert np.abs(found - wanted).max() <= 1e-10 * np.abs(wanted).max()


@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_gradients_agree_with_central_differences(seed: int, n: int, branching: float) -> None:
    tree, motion = random_tree(seed, n, branching), random_motion(seed, 67, n)
    rng = np.random.default_rng(seed)
    body, joint = pairs(tree)
    # Rows in any order, some of the regressor's lines without a weight, some rows that no line has.
    slots = rng.permutation(10 * len(body) + 5)[: 10 * len(body)].reshape(-1, 10)
    slots[rng.random(slots.shape) < 0.2] = -1
    weights = rng.normal(size=(10 * len(body) + 5, 67))
    lines = np.zeros((n, n, 10, 67))
    lines[joint, body] = np.where(slots[:, :, None] < 0, 0.0, weights[slots])
    lines = lines.reshape(n, 10 * n, 67)

    def summed(*at: Float) -> Float:
        panels = k.torque_regressor(tree, *at)
        parts = zip(panels.columns, panels.values, strict=True)
        return np.asarray(sum((lines[j, c] * v).sum(axis=0) for j, (c, v) in enumerate(parts)))

    found = torque_gradient(tree, *motion, slots, weights).transpose(0, 2, 1)
    h = 1e-3
    for kind in range(3):
        for j in range(n):
            step = np.zeros((3, n))
            step[kind, j] = h
            along = [summed(*(x + s * e for x, e in zip(motion, step, strict=True))) for s in (-2, -1, 1, 2)]
            slope = (8 * (along[2] - along[1]) - (along[3] - along[0])) / (12 * h)
            np.testing.assert_allclose(found[kind, :, j], slope, atol=1e-8 * np.abs(lines).max() * 100)


def test_both_are_the_same_derivative() -> None:
    # The torque of bodies is the regressor weighted by their parameters, joint by joint.
    tree, motion, inertia = random_tree(6, 8, 0.4), random_motion(6, 33, 8), random_inertia(6, 8)
    body, joint = pairs(tree)
    J = torque_jacobian(tree, inertia, *motion)
    slots = np.arange(10 * len(body)).reshape(-1, 10)
    for j in range(8):
        weights = np.repeat((inertia[body] * (joint == j)[:, None]).reshape(-1, 1), 33, axis=1)
        found = torque_gradient(tree, *motion, slots, weights)
        np.testing.assert_allclose(found, J[..., j].transpose(0, 2, 1), atol=1e-11)


@pytest.mark.parametrize("T", [1, 4, 12, 64, 67, 68, 200])
@pytest.mark.parametrize(("seed", "n", "branching"), TREES)
def test_lines_stand_where_they_are_wanted(seed: int, n: int, branching: float, T: int) -> None:
    tree, motion, rng = (
        random_tree(seed, n, branching),
        random_motion(seed, T, n),
        np.random.default_rng(seed),
    )
    body, joint = pairs(tree)
    slots = rng.permutation(10 * len(body) + 4)[: 10 * len(body)].reshape(-1, 10)
    slots[rng.random(slots.shape) < 0.3] = -1
    lines = np.full((10 * len(body) + 4, T), np.nan)
    torque_lines(tree, *motion, slots, lines)
    Y = k.torque_regressor(tree, *motion).dense(10 * n).reshape(T, n, n, 10)
    wanted = Y[:, joint, body].transpose(1, 2, 0)
    np.testing.assert_allclose(lines[slots[slots >= 0]], wanted[slots >= 0], rtol=1e-12, atol=1e-12)
    rest = np.setdiff1d(np.arange(len(lines)), slots)
    assert np.isnan(lines[rest]).all()


def test_pieces_of_a_motion_give_the_same_bytes() -> None:
    tree, (q, dq, ddq) = random_tree(9, 6, 0.3), random_motion(9, 150, 6)
    count = len(pairs(tree)[0])
    slots, weights = (
        np.arange(10 * count).reshape(-1, 10),
        np.random.default_rng(9).normal(size=(10 * count, 150)),
    )
    whole = torque_gradient(tree, q, dq, ddq, slots, weights)
    for part in (slice(0, 64), slice(64, 150), slice(128, 131)):
        own = torque_gradient(
            tree, q[part], dq[part], ddq[part], slots, np.ascontiguousarray(weights[:, part])
        )
        np.testing.assert_array_equal(own, whole[:, :, part])


def test_shapes_that_do_not_fit_are_refused() -> None:
    tree, motion = random_tree(7, 3), random_motion(7, 5, 3)
    slots = np.arange(60).reshape(6, 10)
    for wrong, lines in (
        (slots, np.zeros((60, 4))),
        (slots, np.zeros((59, 5))),
        (slots[:5], np.zeros((60, 5))),
    ):
        with pytest.raises(UsageError, match="array-shape"):
            torque_gradient(tree, *motion, wrong, lines)
        with pytest.raises(UsageError, match="array-shape"):
            torque_lines(tree, *motion, wrong, lines)
    with pytest.raises(UsageError, match="array-shape"):
        torque_gradient(tree, *motion, slots - 2, np.zeros((60, 5)))
    with pytest.raises(UsageError, match="array-shape"):
        torque_jacobian(tree, np.zeros((2, 10)), *motion)
    with pytest.raises(UsageError, match="array-shape"):
        torque_jacobian(tree, np.zeros((3, 10)), motion[0], motion[1], np.zeros((4, 3)))
