"""Both kernels, and pinocchio as their oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pinocchio as pin
import pytest

from dynid.base import Float
from dynid.kernel import Tree


@dataclass(frozen=True, eq=False)
class Oracle:
    """A tree in pinocchio, which expects joints in depth-first order; order[k]: body of its joint k + 1."""

    tree: Tree
    order: tuple[int, ...]

    @staticmethod
    def of(tree: Tree) -> Oracle:
        order: list[int] = []

        def visit(body: int) -> None:
            order.append(body)
            for child in np.flatnonzero(tree.parent == body):
                visit(int(child))

        for root in np.flatnonzero(tree.parent == -1):
            visit(int(root))
        return Oracle(tree, tuple(order))

    def model(self, inertia: Float | None = None, gravity: bool = True) -> Any:
        tree, model = self.tree, pin.Model()
        joint = {-1: 0}
        for body in self.order:
            kind = (
                pin.JointModelPrismaticUnaligned if tree.prismatic[body] else pin.JointModelRevoluteUnaligned
            )
            placement = pin.SE3(tree.rotation[body].copy(), tree.translation[body].copy())
            parent = joint[int(tree.parent[body])]
            joint[body] = model.addJoint(parent, kind(tree.axis[body].copy()), placement, f"j{body}")
            if inertia is not None:
                one = pin.Inertia.FromDynamicParameters(inertia[body].copy())
                model.appendBodyToJoint(joint[body], one, pin.SE3.Identity())
        model.gravity.linear = tree.gravity.copy() if gravity else np.zeros(3)
        return model

    def panels(self, q: Float, dq: Float, ddq: Float, gravity: bool = True) -> Float:
        """Dense torque regressor (T, n, 10 n)."""
        model = self.model(gravity=gravity)
        data, order, n = model.createData(), np.array(self.order), self.tree.n
        Y = np.zeros((len(q), n, n, 10))
        for t in range(len(q)):
            found = pin.computeJointTorqueRegressor(model, data, q[t, order], dq[t, order], ddq[t, order])
            Y[t, order[:, None], order[None, :]] = found.reshape(n, n, 10)
        return Y.reshape(len(q), n, 10 * n)

    def energies(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """Dense lines of kinetic and potential energy, each (10 n, T)."""
        model = self.model()
        data, order = model.createData(), np.array(self.order)
        kinetic, potential = np.zeros((2, self.tree.n, 10, len(q)))
        for t in range(len(q)):
            found = pin.computeKineticEnergyRegressor(model, data, q[t, order], dq[t, order])
            kinetic[order, :, t] = np.ravel(found).reshape(-1, 10)
            found = pin.computePotentialEnergyRegressor(model, data, q[t, order])
            potential[order, :, t] = np.ravel(found).reshape(-1, 10)
        return kinetic.reshape(-1, len(q)), potential.reshape(-1, len(q))

    def momentum_rate(self, inertia: Float, q: Float, dq: Float) -> Float:
        """-C' dq + g of bodies with inertia (n, 10), (T, n)."""
        model = self.model(inertia)
        data, order = model.createData(), np.array(self.order)
        found = np.zeros_like(q)
        for t in range(len(q)):
            C = pin.computeCoriolisMatrix(model, data, q[t, order], dq[t, order]).copy()
            g = pin.computeGeneralizedGravity(model, data, q[t, order])
            found[t, order] = g - C.T @ dq[t, order]
        return found

    def mass_matrix(self, inertia: Float, q: Float) -> Float:
        """M(q), (T, n, n)."""
        model = self.model(inertia)
        data, order, n = model.createData(), np.array(self.order), self.tree.n
        M = np.zeros((len(q), n, n))
        for t in range(len(q)):
            upper = np.triu(pin.crba(model, data, q[t, order]))
            M[t][np.ix_(order, order)] = upper + np.triu(upper, 1).T
        return M


@pytest.fixture(scope="session")
def oracle() -> Callable[[Tree], Oracle]:
    """Makes the pinocchio oracle of a tree."""
    return Oracle.of
