"""Derivatives of torque and regressor by motion: pinocchio's, the regressor's own structure, mimic joints, shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from dynid import kernel as k
from dynid.arrays import Float
from dynid.errors import UsageError
from dynid.kernel import Tree
from dynid.kernel.adjoint import pairs, torque_gradient, torque_jacobian
from dynid.kernel.random import random_inertia, random_motion, random_tree

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
    weights = rng.normal(size=(len(body), 10, 67))
    lines = np.zeros((n, n, 10, 67))
    lines[joint, body] = weights
    lines = lines.reshape(n, 10 * n, 67)

    def summed(*at: Float) -> Float:
        panels = k.torque_regressor(tree, *at)
        parts = zip(panels.columns, panels.values, strict=True)
        return np.asarray(sum((lines[j, c] * v).sum(axis=0) for j, (c, v) in enumerate(parts)))

    found = torque_gradient(tree, *motion, weights)
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
    for j in range(8):
        weights = np.repeat((inertia[body] * (joint == j)[:, None])[:, :, None], 33, axis=2)
        np.testing.assert_allclose(torque_gradient(tree, *motion, weights), J[..., j], atol=1e-11)


def test_shapes_that_do_not_fit_are_refused() -> None:
    tree, motion = random_tree(7, 3), random_motion(7, 5, 3)
    with pytest.raises(UsageError, match="array-shape"):
        torque_gradient(tree, *motion, np.zeros((6, 10, 4)))
    with pytest.raises(UsageError, match="array-shape"):
        torque_jacobian(tree, np.zeros((2, 10)), *motion)
    with pytest.raises(UsageError, match="array-shape"):
        torque_jacobian(tree, np.zeros((3, 10)), motion[0], motion[1], np.zeros((4, 3)))
