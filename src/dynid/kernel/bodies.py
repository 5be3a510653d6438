"""Dynamics and kinematics of a tree of bodies with known parameters."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.errors import UsageError
from dynid.kernel import _chosen, _whole, equations_of_motion, reference, solved
from dynid.kernel.adjoint import Sweep, torque_jacobian
from dynid.kernel.handles import keep_handle
from dynid.kernel.tree import Tree


class Bodies:
    """Bodies on a tree of joints, M(q) ddq + C(q, dq) dq + g(q) = tau, with rotor inertia in M.

    Motion is (T, n) in SI units; results are float64 arrays with samples first. The native kernel computes four samples
    at once and keeps what does not change between calls.

    Parameters
    ----------
    tree : Tree
        Kinematic tree with n bodies.
    inertia : ndarray, shape (n, 10)
        m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about the joint frames.
    armature : ndarray, shape (n,), kg m^2, optional
        Rotor inertia reflected to the joints; None = zero.

    Raises
    ------
    UsageError
        For arrays of other shapes.

    """

    def __init__(self, tree: Tree, inertia: Float, armature: Float | None = None) -> None:
        """Check the arrays, see the class."""
        self.tree = tree
        self.inertia = locked(np.reshape(inertia, (-1, 10)), (tree.n, 10), "inertia")
        self.armature = locked(np.zeros(tree.n) if armature is None else armature, (tree.n,), "armature")
        self._handle: Any = None

    def __reduce__(self) -> tuple[type[Bodies], tuple[Tree, Float, Float]]:
        return Bodies, (self.tree, self.inertia, self.armature)  # a copy creates its own native object

    def inverse_dynamics(self, q: Float, dq: Float, ddq: Float, *, threads: int = 1) -> Float:
        """Joint torque M ddq + C dq + g, (T, n).    Source: recursive Newton-Euler, Luh, Walker and Paul 1980.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (T, n)
            Position, velocity and acceleration of the joints.
        threads : int
            Number of threads.

        """
        q, dq, ddq = self._motion(q, dq, ddq)
        if (native := self.native()) is not None:
            return np.asarray(native.inverse_dynamics(q, dq, ddq, threads))
        return reference.inverse_dynamics(self.tree, self.inertia, q, dq, ddq) + self.armature * ddq

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """Mass matrix M (T, n, n) and bias C dq + g (T, n) for q and dq (T, n)."""
        q, dq = self._motion(q, dq)
        M, h = equations_of_motion(self.tree, self.inertia, q, dq)
        if self.armature.any():
            M = M + np.diag(self.armature)
        return M, h

    def forward_dynamics(self, q: Float, dq: Float, tau: Float, *, threads: int = 1) -> Float:
        """Joint acceleration M^-1 (tau - C dq - g), (T, n).

        By composite bodies, and a factorisation M = L' D L that keeps the zeros between branches of the tree.
        Source: Featherstone 2008, sections 6.2 and 6.5.

        Parameters
        ----------
        q, dq, tau : ndarray, shape (T, n)
            Position, velocity and torque of the joints.
        threads : int
            Number of threads.

        Raises
        ------
        SolverError
            If a mass matrix is not positive definite.

        """
        q, dq, tau = self._motion(q, dq, tau)
        if (native := self.native()) is not None:
            ddq, positive = native.forward_dynamics(q, dq, tau, threads)
            if positive:
                return np.asarray(ddq)
        M, h = self.equations(q, dq)
        return solved(M, tau - h)

    def momentum(self, q: Float, dq: Float, *, threads: int = 1) -> tuple[Float, Float]:
        """Momentum p = M dq and -C' dq + g, (T, n) each, with dp/dt = tau + C' dq - g.

        C' dq is the gradient of the kinetic energy with respect to q, for any C with dM/dt = C + C'.
        Source: Chavez-Olivares et al. 2012, generalised.
        """
        q, dq = self._motion(q, dq)
        if (native := self.native()) is not None:
            p, rest = native.momentum(q, dq, threads)
            return np.asarray(p), np.asarray(rest)
        wanted = np.ones(10 * self.tree.n, dtype=np.bool_)
        both = (
            reference.momentum_regressor(self.tree, q, dq, wanted),
            reference.momentum_rate_regressor(self.tree, q, dq, wanted),
        )
        pi = self.inertia.ravel()
        p, rest = (
            np.stack(
                [pi[c] @ lines for c, lines in zip(regressor.columns, regressor.values, strict=True)], axis=1
            )
            for regressor in both
        )
        return p + self.armature * dq, rest

    def placements(self, q: Float, *, threads: int = 1) -> tuple[Float, Float]:
        """Rotation R (T, n, 3, 3) and origin p (T, n, 3) of each joint frame in the base frame: x_base = R x + p."""
        (q,) = self._motion(q)
        if (native := self.native()) is not None:
            frames = np.asarray(native.placements(q, threads))
            return frames[..., :3], frames[..., 3]
        sweep = Sweep.of(self.tree, q, np.zeros_like(q), np.zeros_like(q))
        return np.moveaxis(sweep.rotation, -1, 0), np.moveaxis(sweep.origin, -1, 0)

    def derivatives(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """Derivatives of inverse dynamics with respect to q, dq and ddq, (T, n, n) each: [t, i, j] = d tau_i / d x_j.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (T, n)
            Position, velocity and acceleration of the joints.

        """
        q, dq, ddq = self._motion(q, dq, ddq)
        by_q, by_dq, M = np.swapaxes(torque_jacobian(self.tree, self.inertia, q, dq, ddq), -1, -2)
        return by_q, by_dq, M + np.diag(self.armature)

    def native(self) -> Any:
        """Return the native object; None if NumPy is in use.

        Its methods also accept and return single samples (n,). They raise ValueError or TypeError for wrong arguments.
        """
        kernel = _chosen()
        if kernel is not None and self._handle is None:
            keep_handle(self, kernel.Bodies(*_whole(self.tree), self.inertia.ravel(), self.armature))
        return None if kernel is None else self._handle

    def _motion(self, *arrays: Float) -> tuple[Float, ...]:
        motion = tuple(np.ascontiguousarray(array, dtype=np.float64) for array in arrays)
        shape = motion[0].shape
        if len(shape) != 2 or shape[1] != self.tree.n or any(array.shape != shape for array in motion):
            raise UsageError(
                "array-shape",
                found=f"motion of shapes {[array.shape for array in motion]}",
                expected=f"(T, {self.tree.n}) for all of it",
            )
        return motion
