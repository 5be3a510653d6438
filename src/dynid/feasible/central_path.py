"""The entropic optimum within bounds, nearly: a primal-dual path on which the distance weighs less and less."""

from __future__ import annotations

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.feasible.density import BARRIER
from dynid.feasible.entropic_problem import Entropic, products, traces, turned_basis
from dynid.kernel import cho_factor, cho_solve

STEPS = 100
# Value over weight that the path begins with.
GENTLE = 1e4
# A step ends at this share of the way to a border; after one of that length at least the weight falls so much.
BACK, LONG, FALL = 0.95, 0.6, 0.1
# How far inside bounds the path begins, in spreads; the share of the weight that bounds have at its end.
INSIDE, SHARP = 0.1, 1e-6
# The path ends where a step gains no more than this share of the weight.
LOOSE = 0.1


@dataclass(frozen=True, eq=False)
class _Bounds:
    """sign theta[index] >= edge, (b,) each, in spreads: lower bounds with sign +, upper ones with sign -.

    own: (b,) weights of the logarithms that are part of the distance, those of rotors; 0 = a bound.
    """

    index: Int
    sign: Float
    edge: Float
    own: Float

    @staticmethod
    def of(problem: Entropic, lower: Float, upper: Float) -> _Bounds:
        """Those of (p,) that are finite; below rotors lies 0, and what keeps them from it has their own weight."""
        spread, rotors = problem.program.spread, problem.rotors
        at_zero = np.zeros(len(lower), dtype=np.bool_)
        at_zero[rotors] = lower[rotors] <= 0
        low, high = np.flatnonzero(np.isfinite(lower) & ~at_zero), np.flatnonzero(np.isfinite(upper))
        index = np.concatenate([low, high, rotors])
        sign = np.concatenate([np.ones(len(low)), -np.ones(len(high)), np.ones(len(rotors))]) / spread[index]
        edge = np.concatenate([lower[low], -upper[high], np.zeros(len(rotors))]) / spread[index]
        own = np.concatenate([np.zeros(len(low) + len(high)), problem.weight[rotors]])
        return _Bounds(index, sign, edge, own)

    def weights(self, ease: float, sharp: float, heaviest: float) -> Float:
        """(b,) of their logarithms: of the rotors' own ones, which stay, and of the others', which fade."""
        return np.asarray(ease * np.where(self.own > 0, self.own, sharp * heaviest))

    def room(self, theta: Float) -> Float:
        """How far parameters (p,) are inside, (b,)."""
        return np.asarray(self.sign * theta[self.index] - self.edge)


@dataclass(frozen=True, eq=False)
class _Point:
    """u (p,), and what stands against it: S P = w of bodies, z s = w of density limits, y t = w of bounds.

    S: (nb, 4, 4).    s, z: (nb,).    t, y: (b,). The slacks s and t need not agree with u before the end.
    """

    u: Float
    S: Float
    s: Float
    z: Float
    t: Float
    y: Float

    def moved(self, way: _Point, length: float) -> _Point:
        """After a part of a step."""
        return _Point(
            *(getattr(self, name) + length * getattr(way, name) for name in self.__dataclass_fields__)
        )


def near_optimum(problem: Entropic, lower: Float, upper: Float, first: Float) -> tuple[Float, Float] | None:
    """Parameters (p,) near the minimum within bounds (p,), and -1 or 1 (p,) for those held at their lower or upper one.

    first: (p,) of bodies that exist.
    None if the path stalls. Newton's method on the conditions of `_Point` with those of a minimum, and a second
    solution with the same matrix that makes up for the products of the changes where a step would leave the inside.
    Where the data want bodies that cannot be, it needs some 30 steps, and Newton's method on the value alone hundreds.
    Source: Wright 1997, chapters 5 and 10, there for the corrector, too; Helmberg, Rendl, Vanderbei and Wolkowicz 1996
    for the matrices.
    """
    program, others = problem.program, problem.others
    low, high = np.where(others, lower, -np.inf), np.where(others, upper, np.inf)
    bounds = _Bounds.of(problem, low, high)
    inside = np.minimum(
        INSIDE * program.spread, np.where(np.isfinite(high - low), (high - low) / 4.0, np.inf)
    )
    theta = np.clip(first, low + inside, high - inside)
    u = program.unknowns(theta)
    heaviest, value = float(problem.weight.max()), problem.value(u)
    if not np.isfinite(value):
        return None
    ease, sharp = max(1.0, value / (GENTLE * heaviest)), 1.0
    edge, limit = (1.0 - BARRIER) * problem.of_bodies, 4.0 * BARRIER * problem.of_bodies
    s, t = problem.rooms(theta), bounds.room(theta)
    S = ease * edge[:, None, None] * np.linalg.inv(problem.inertias(theta))
    point = _Point(u, S, s, ease * limit / s, t, bounds.weights(ease, sharp, heaviest) / t)
    for _ in range(STEPS):
        try:
            of_bounds = bounds.weights(ease, sharp, heaviest)
            way, gained, length = _step(problem, bounds, point, ease, of_bounds)
        except LinAlgError:
            return None
        point = point.moved(way, length)
        if length == 1.0 and ease == 1.0 and sharp == SHARP and gained <= LOOSE * heaviest:
            force = (point.y > point.t) & (bounds.own == 0)
            side = np.zeros(len(theta))
            side[bounds.index[force]] = -np.sign(bounds.sign[force])
            return program.theta(point.u), side
        if length >= LONG:
            sharp = max(SHARP, sharp * FALL) if ease == 1.0 else sharp
            ease = max(1.0, ease * FALL)
    return None


def _step(
    problem: Entropic, bounds: _Bounds, at: _Point, ease: float, of_bounds: Float
) -> tuple[_Point, float, float]:
    """The step for weights `ease` times as great, what it gains, and how much of it stays inside.

    of_bounds: (b,) their weights.
    """
    program = problem.program
    theta, spread, T = program.theta(at.u), program.spread, program.T
    edge, limit = ease * (1.0 - BARRIER) * problem.of_bodies, ease * 4.0 * BARRIER * problem.of_bodies
    P = problem.inertias(theta)
    inverse = np.asarray(np.linalg.inv(P))
    roots = np.linalg.inv(np.linalg.cholesky(np.concatenate([P, at.S])))
    turned = turned_basis(inverse)
    f, slope, bent = problem.limits(theta, P, turned)
    curve = products(turned, turned_basis(at.S))
    curve = (curve + curve.transpose(0, 2, 1)) / 2.0 - at.z[:, None, None] * bent
    curve += (at.z / at.s)[:, None, None] * slope[:, :, None] * slope[:, None, :]
    push = edge[:, None] * traces(turned) + ((limit - at.z * (f - at.s)) / at.s)[:, None] * slope
    room, rows = bounds.room(theta), (bounds.sign * spread[bounds.index])[:, None] * T[bounds.index]
    gradient, hessian = problem.smooth(at.u, ease)
    force, stiffness = problem.of_unknowns(push, curve)
    right = force - gradient + rows.T @ ((of_bounds - at.y * (room - at.t)) / at.t)
    factor = cho_factor(hessian + stiffness + (rows.T * (at.y / at.t)) @ rows)

    def step(right: Float, S: Float, z: Float, y: Float) -> _Point:
        # S, z, y: products of changes that the way is to make up for, over P, s and t.
        u = cho_solve(factor, right)
        by = spread * (T @ u)
        half = inverse @ problem.inertias(by) @ at.S
        s, t = (slope * by[problem.bodies]).sum(axis=1) + f - at.s, rows @ u + room - at.t
        return _Point(
            u,
            edge[:, None, None] * inverse - at.S - (half + half.transpose(0, 2, 1)) / 2.0 - S,
            s,
            (limit - at.z * s) / at.s - at.z - z,
            t,
            (of_bounds - at.y * t) / at.t - at.y - y,
        )

    def inside(way: _Point) -> float:
        # Eigenvalues of the changes over the matrices that they are changes of, which are positive definite.
        changes = np.concatenate([problem.inertias(spread * (T @ way.u)), way.S])
        of_matrices = np.linalg.eigvalsh(roots @ changes @ roots.transpose(0, 2, 1))
        ratios = [way.s / at.s, way.z / at.z, way.t / at.t, way.y / at.y, of_matrices]
        least = min(float(one.min(initial=0.0)) for one in ratios)
        return min(1.0, BACK / max(-least, BACK))

    way = step(right, np.zeros_like(P), np.zeros_like(at.z), np.zeros_like(at.y))
    length = inside(way)
    if length < 1.0:
        half = inverse @ problem.inertias(spread * (T @ way.u)) @ way.S
        S, z, y = (half + half.transpose(0, 2, 1)) / 2.0, way.s * way.z / at.s, way.t * way.y / at.t
        away = traces(turned_basis(S)) + z[:, None] * slope
        corrected = step(right - problem.force_of_unknowns(away) - rows.T @ y, S, z, y)
        further = inside(corrected)
        if further > length:
            way, length = corrected, further
    return way, float(right @ way.u), length
