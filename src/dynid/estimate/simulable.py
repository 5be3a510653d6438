"""Parameters that can be simulated: those whose mass matrix stays positive definite in the postures of a log."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import SolverError
from dynid.base.records import dataclass
from dynid.base.scipy_functions import nnls
from dynid.kernel import solve_triangular
from dynid.simulation.mechanism import Mechanism

# Of the mass matrix of the nearest consistent bodies, and of each coordinate's own inertia where those have little.
SHARE, LEAST_SHARE = 0.5, 1e-3
ROUNDS, CUTS = 60, 12
# Cuts aim a little above what is asked of an answer, or they would close in on it for ever.
ENOUGH = 0.9


@dataclass(frozen=True, eq=False)
class Simulable:
    """Base parameters beta with M(x; beta) >= F(x) in every posture: a convex set, since M is linear in beta.

    mechanism: the model of base parameters (b,).    x: (B, s) postures with their channels `extra`.
    wanted: (p,) mask of the base columns.    root: (B, s, s) inverse of the triangle L of F = L L'.
    least: (b,) what single parameters are at least: stiffness, friction.
    """

    mechanism: Callable[[Float], Mechanism]
    x: Float
    extra: Mapping[str, Float]
    wanted: Bool
    root: Float
    least: Float

    @staticmethod
    def of(
        mechanism: Callable[[Float], Mechanism],
        x: Float,
        extra: Mapping[str, Float],
        wanted: Bool,
        real: Float,
        first: Float,
        least: Float,
    ) -> Simulable:
        """The set whose floor F is half the mass matrix of consistent bodies with base parameters `real` (b,).

        first: (b,) parameters that give each coordinate a size of inertia where consistent bodies have next to none.
        Raises SolverError where a coordinate moves no inertia at all.
        """
        rest = np.zeros_like(x)
        M, other = (mechanism(value).equations(x, rest, extra)[0] for value in (real, first))
        size = np.diagonal(np.abs(M) + np.abs(other), axis1=1, axis2=2).mean(axis=0)
        if not (np.isfinite(size).all() and size.min() > 0):
            raise not_simulable()
        lowest = np.linalg.eigvalsh(M / np.sqrt(np.outer(size, size)))[:, 0]
        lift = np.maximum(LEAST_SHARE - lowest, 0.0) + LEAST_SHARE
        floor = SHARE * (M + lift[:, None, None] * np.diag(size))
        return Simulable(mechanism, x, extra, wanted, np.linalg.inv(np.linalg.cholesky(floor)), least)

    def shortfall(self, value: Float) -> tuple[Float, Float]:
        """Least eigenvalue (B,) of L^-1 M L^-T, which must be one, and its vector v (B, s): v'M v is the eigenvalue."""
        M = self.mechanism(value).equations(self.x, np.zeros_like(self.x), self.extra)[0]
        with np.errstate(invalid="ignore", over="ignore"):
            whitened = self.root @ M @ np.swapaxes(self.root, 1, 2)
        if not np.isfinite(whitened).all():
            raise not_simulable()
        values, vectors = np.linalg.eigh(whitened)
        return values[:, 0], np.einsum("bji,bj->bi", self.root, vectors[:, :, 0])

    def nearest(self, value: Float, R: Float) -> Float:
        """The point of the set nearest to base parameters, min ||R (beta - value)||; the value itself within the set.

        R: (b, b) upper triangle of the equations that the value came from.
        Planes v'M(x; beta) v >= 1 of the worst postures are added until none is broken.
        Source: Lawson and Hanson 1974, ch. 23 (least distance); Kelley 1960 (cutting planes).
        Raises SolverError if no parameters of these equations are in the set.
        """
        bounded = np.isfinite(self.least)
        planes, levels = np.eye(len(value))[bounded], self.least[bounded]
        point = value
        if (value[bounded] < levels).any():
            point = value + least_distance(R, planes, levels - planes @ value)
        for _ in range(ROUNDS):
            least, v = self.shortfall(point)
            if least.min() >= ENOUGH:
                return point
            worst = np.argsort(least)[:CUTS]
            worst = worst[least[worst] < 1.0]
            new = self._planes(v[worst], worst)
            constant = least[worst] - new @ point
            planes, levels = np.concatenate([planes, new]), np.concatenate([levels, 1.0 - constant])
            point = value + least_distance(R, planes, levels - planes @ value)
        raise not_simulable()

    def _planes(self, v: Float, postures: Int) -> Float:
        # Slopes (k, b) of v'M(x; beta) v over the parameters: torque for the acceleration v alone.
        x, extra = self.x[postures], {name: values[postures] for name, values in self.extra.items()}
        rest = np.zeros_like(x)
        mechanism = self.mechanism(np.zeros(int(self.wanted.sum())))
        moved, still = (mechanism.regressor(x, rest, a, extra, self.wanted) for a in (v, rest))
        return np.asarray(np.einsum("bs,bsw->bw", v, moved - still))


def least_distance(R: Float, G: Float, h: Float) -> Float:
    """Min ||R z|| under G z >= h, as non-negative least squares of the dual; raises SolverError if nothing fulfils it.

    R: (b, b) upper triangular.    G: (k, b).    h: (k,).
    """
    A = solve_triangular(R, G.T, transposed=True).T
    size = np.linalg.norm(A, axis=1)
    if not (np.isfinite(size).all() and size.min() > 0):
        raise not_simulable()
    A, h = A / size[:, None], h / size
    scale = max(float(np.abs(h).max()), 1e-300)
    target = np.concatenate([np.zeros(len(R)), [1.0]])
    dual, _ = nnls(np.concatenate([A.T, h[None] / scale]), target)
    left = np.concatenate([A.T, h[None] / scale]) @ dual - target
    if left[-1] > -1e-12:
        raise not_simulable()
    return np.asarray(solve_triangular(R, -scale * left[:-1] / left[-1]))


def not_simulable() -> SolverError:
    """The error of equations near which no mass matrix is positive definite."""
    return SolverError(
        "not-simulable",
        found="no parameters near the log's equations whose mass matrix is positive definite",
        expected="a model that can be simulated",
        do="give masses and inertias in the robot file where it has none, record a richer motion, or use 'wls'",
    )
