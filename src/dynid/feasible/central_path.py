"""The entropic optimum within limits, nearly: a primal-dual path on which the distance weighs less and less."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.feasible.balls import Balls
from dynid.feasible.cones import Certificate
from dynid.feasible.density import BARRIER
from dynid.feasible.entropic_problem import BASIS, Entropic, products, traces
from dynid.feasible.half_spaces import HalfSpaces
from dynid.feasible.region import Region
from dynid.feasible.whitened import Whitened
from dynid.kernel import cho_factor, cho_solve

STEPS = 200
# Value over weight that the path begins with.
GENTLE = 1e4
# A step ends at this share of the way to a border; after one of that length at least the weight falls so much.
BACK, LONG, FALL = 0.95, 0.6, 0.1
# How far inside bounds the path begins, in spreads.
INSIDE = 0.1
# Shares of the weight of the distance: that limits have, and that a step gains at most; where what holds the minimum
# shows, and where the path's end is as good as the minimum.
NEAR, NEAREST = (1e-6, 0.1), (1e-8, 1e-9)


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Functions f >= 0 (b,): rows theta - edge of half-spaces and of what keeps rotors above zero, then cones.

    rows, edge: (l, p) and (l,).    turned: (l, p) rows over the unknowns u.
    own: (b,) weights of the logarithms that are part of the distance, those of rotors; 0 = a limit.
    place: (b,) of the half-space among all; -1 = a rotor's, or a cone.
    equations: (e, p) over the unknowns.
    """

    program: Whitened
    rows: Float
    edge: Float
    turned: Float
    balls: Balls
    own: Float
    place: Int
    equations: Float

    @staticmethod
    def of(problem: Entropic, region: Region) -> _Bounds:
        """Below rotors lies 0, and what keeps them from it has their own weight."""
        program, rotors, sides, balls = problem.program, problem.rotors, region.sides, region.balls
        at_zero = np.isin(sides.index, rotors) & (sides.value <= 0) & (sides.edge <= 0)
        kept = np.flatnonzero(~at_zero & ~sides.equal)
        of_rotors = np.eye(len(program.spread))[rotors] / program.spread[rotors, None]
        rows = np.concatenate([sides.rows[kept], of_rotors])
        none = np.zeros(balls.count)
        return _Bounds(
            program,
            rows,
            np.append(sides.edge[kept], np.zeros(len(rotors))),
            (rows * program.spread) @ program.T,
            balls,
            np.concatenate([np.zeros(len(kept)), problem.weight[rotors], none]),
            np.concatenate([kept, np.full(len(rotors) + balls.count, -1)]),
            (sides.rows[sides.equal] * program.spread) @ program.T,
        )

    @property
    def curved(self) -> Bool:
        """(b,) which are cones."""
        return np.arange(len(self.own)) >= len(self.edge)

    def room(self, theta: Float) -> Float:
        """The functions (b,) of parameters: how far these are inside."""
        room = self.rows @ theta - self.edge
        return np.append(room, self.balls.room(theta)) if self.balls.count else room

    def slopes(self, theta: Float, force: Float) -> tuple[Float, Float]:
        """Gradients (b, p) over the unknowns, and minus the Hessian (p, p) of their sum with forces (b,)."""
        if not self.balls.count:
            return self.turned, np.zeros((self.turned.shape[1],) * 2)
        slope, curved = self.balls.slopes(theta)
        spread, T = self.program.spread, self.program.T
        flat = (curved * np.sqrt(force[self.curved])[:, None, None]).reshape(-1, len(spread))
        bent = (flat * spread) @ T
        return np.concatenate([self.turned, (slope * spread) @ T]), bent.T @ bent


@dataclass(frozen=True, eq=False)
class _Point:
    """u (p,), and what stands against it: S = w 1 of bodies, z s = w of density limits, y t = w of bounds.

    S: (nb + nm, 4, 4), against the bodies P = L L' and those with a margin less that margin: the force on P is
    L'^-1 S L^-1. So small forces beside large ones are not lost in rounding, however thin a body is.
    s, z: (nb,).    t, y: (b,). The slacks s and t need not agree with u before the end.
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


class CentralPath:
    """A path to the minimum within a region, on which what keeps it inside weighs less and less.

    Newton's method on the conditions of `_Point` with those of a minimum, and a second solution with the same matrix
    that makes up for the products of the changes where a step would leave the inside. Where the data want bodies that
    cannot be, it needs some 30 steps, and Newton's method on the value alone hundreds.
    Source: Wright 1997, chapters 5 and 10, there for the corrector, too; Helmberg, Rendl, Vanderbei and Wolkowicz 1996
    for the matrices.
    """

    def __init__(self, problem: Entropic, region: Region, theta: Float, value: float) -> None:
        """theta: (p,) of bodies that exist, above their margins, with that value."""
        self._problem, self._region, self._bounds = problem, region, _Bounds.of(problem, region)
        weights = problem.of_bodies, problem.weight[problem.squared], problem.weight[problem.rotors]
        self._heaviest = float(np.concatenate(weights).max())
        self._ease, self._sharp = max(1.0, value / (GENTLE * self._heaviest)), 1.0
        self._steps = 0
        # The path may begin beyond planes and masses: it comes inside on its way.
        s, room = problem.rooms(theta), self._bounds.room(theta)
        t = np.where(room > 0, room, np.maximum(INSIDE, -room))
        limit = 4.0 * BARRIER * problem.of_bodies
        self._root = np.linalg.cholesky(self._matrices(theta))
        S = self._of_matrices()[:, None, None] * np.eye(4)
        y = self._of_bounds() / t
        self._point = _Point(problem.program.unknowns(theta), S, s, self._ease * limit / s, t, y)

    @staticmethod
    def begun(problem: Entropic, region: Region) -> CentralPath | None:
        """From bodies that exist; None where these have no value."""
        theta = _inside_bounds(problem, region.sides, problem.first(region.margin))
        value = problem.value(problem.program.unknowns(theta))
        return CentralPath(problem, region, theta, value) if np.isfinite(value) else None

    def follow(self, sharp: float, gain: float) -> bool:
        """Goes on until limits weigh the one share of the distance and a step gains no more than the other.

        False if it stalls.
        """
        for _ in range(STEPS):
            try:
                way, gained, length = self._step()
                self._move(way, length)
            except LinAlgError:
                return False
            self._steps += 1
            settled = gained <= gain * self._heaviest
            if settled and length == 1.0 and self._ease == 1.0 and self._sharp <= sharp:
                return True
            if length >= LONG:
                self._sharp = max(sharp, self._sharp * FALL) if self._ease == 1.0 else self._sharp
                self._ease = max(1.0, self._ease * FALL)
        return False

    @property
    def theta(self) -> Float:
        """Parameters (p,) where it is."""
        return self._problem.program.theta(self._point.u)

    @property
    def held(self) -> Bool:
        """Which half-spaces (k,) hold the minimum."""
        found = np.zeros(self._region.sides.count, dtype=np.bool_)
        place = self._bounds.place[self._point.y > self._point.t]
        found[place[place >= 0]] = True
        return found

    @property
    def certificate(self) -> Certificate:
        """What the forces of the limits leave of the slope here, and what these could still gain."""
        problem, bounds, at = self._problem, self._bounds, self._point
        nb, limits = len(problem.bodies), bounds.own == 0
        gradient, hessian = problem.slopes(at.u)
        rows, bent = bounds.slopes(self.theta, at.y)
        bounded = self._region.bounded
        push = np.zeros((nb, 10))
        push[bounded] = traces(at.S[nb:, None] @ self._turned()[nb:])
        left = gradient - rows[limits].T @ at.y[limits] - problem.force_of_unknowns(push)
        if len(bounds.equations):
            left = left - bounds.equations.T @ np.linalg.lstsq(bounds.equations.T, left, rcond=None)[0]
        size = 1.0 + float(np.abs((hessian + bent) @ at.u).max())
        gap = float(at.y[limits] @ bounds.room(self.theta)[limits]) + float(
            np.trace(at.S[nb:], axis1=1, axis2=2).sum()
        )
        share = gap / (1.0 + abs(problem.value(at.u)))
        return Certificate(0.0, float(np.abs(left).max()) / size, share, self._steps)

    def _matrices(self, theta: Float) -> Float:
        """P of the bodies, and P - margin of those with one, (nb + nm, 4, 4)."""
        P, bounded = self._problem.inertias(theta), self._region.bounded
        return np.concatenate([P, P[bounded] - self._region.margin[bounded, None, None] * np.eye(4)])

    def _of_matrices(self) -> Float:
        """Weights (nb + nm,) of their logarithms: those that are part of the distance, and those that fade."""
        fading = np.full(len(self._region.bounded), self._sharp * self._heaviest)
        return np.append((1.0 - BARRIER) * self._problem.of_bodies, fading) * self._ease

    def _of_bounds(self) -> Float:
        """Weights (b,) of their logarithms: of the rotors' own ones, which stay, and of the others', which fade."""
        own = self._bounds.own
        return np.asarray(self._ease * np.where(own > 0, own, self._sharp * self._heaviest))

    def _move(self, way: _Point, length: float) -> None:
        there = self._point.moved(way, length)
        root = np.linalg.cholesky(self._matrices(self._problem.program.theta(there.u)))
        turn = np.linalg.inv(self._root) @ root
        self._point, self._root = replace(there, S=turn.transpose(0, 2, 1) @ there.S @ turn), root

    def _turned(self) -> Float:
        """L^-1 E_k L'^-1 (nb + nm, 10, 4, 4) of every body and of what it has above its margin."""
        inverse = np.linalg.inv(self._root)[:, None]
        return np.asarray(inverse @ BASIS @ inverse.transpose(0, 1, 3, 2))

    def _both(self, of_bodies: Float) -> Float:
        """Of the bodies, and once more of those with a margin."""
        return np.concatenate([of_bodies, of_bodies[self._region.bounded]])

    def _added(self, of_matrices: Float) -> Float:
        """Of both matrices of a body the sum, (nb, ...)."""
        nb = len(self._problem.bodies)
        found = of_matrices[:nb].copy()
        found[self._region.bounded] += of_matrices[nb:]
        return found

    def _step(self) -> tuple[_Point, float, float]:
        """The next step, what it gains, and how much of it stays inside."""
        problem, bounds, at = self._problem, self._bounds, self._point
        program, nb = problem.program, len(problem.bodies)
        theta, spread, T = program.theta(at.u), program.spread, program.T
        edge, of_bounds = self._of_matrices(), self._of_bounds()
        limit = self._ease * 4.0 * BARRIER * problem.of_bodies
        turned, of_S = self._turned(), np.linalg.inv(np.linalg.cholesky(at.S))
        f, slope, bent = problem.limits(theta, problem.inertias(theta), turned[:nb])
        curve = self._added(products(turned, turned @ at.S[:, None]))
        curve = (curve + curve.transpose(0, 2, 1)) / 2.0 - at.z[:, None, None] * bent
        curve += (at.z / at.s)[:, None, None] * slope[:, :, None] * slope[:, None, :]
        push = self._added(edge[:, None] * traces(turned))
        push += ((limit - at.z * (f - at.s)) / at.s)[:, None] * slope
        room = bounds.room(theta)
        rows, bowed = bounds.slopes(theta, at.y)
        gradient, hessian = problem.smooth(at.u, self._ease)
        force, stiffness = problem.of_unknowns(push, curve)
        right = force - gradient + rows.T @ ((of_bounds - at.y * (room - at.t)) / at.t)
        factor = cho_factor(hessian + stiffness + bowed + (rows.T * (at.y / at.t)) @ rows)
        E, missing = bounds.equations, -self._region.sides.room(theta)[self._region.sides.equal]
        held = cho_solve(factor, E.T) if len(E) else E.T

        def changes(u: Float) -> Float:
            of_bodies = self._both((spread * (T @ u))[problem.bodies])
            return np.asarray(np.einsum("bk,bkij->bij", of_bodies, turned))

        def step(right: Float, S: Float, z: Float, y: Float) -> _Point:
            # S, z, y: products of changes that the way is to make up for, over P, s and t.
            u = cho_solve(factor, right)
            if len(E):
                u = u - held @ np.linalg.solve(E @ held, E @ u - missing)
            by = spread * (T @ u)
            half = changes(u) @ at.S
            s, t = (slope * by[problem.bodies]).sum(axis=1) + f - at.s, rows @ u + room - at.t
            return _Point(
                u,
                edge[:, None, None] * np.eye(4) - at.S - (half + half.transpose(0, 2, 1)) / 2.0 - S,
                s,
                (limit - at.z * s) / at.s - at.z - z,
                t,
                (of_bounds - at.y * t) / at.t - at.y - y,
            )

        def inside(way: _Point) -> float:
            # Eigenvalues of the changes over the matrices that they are changes of, which are positive definite.
            of_matrices = np.linalg.eigvalsh(
                np.concatenate([changes(way.u), of_S @ way.S @ of_S.transpose(0, 2, 1)])
            )
            ratios = [way.s / at.s, way.z / at.z, way.t / at.t, way.y / at.y, of_matrices]
            least = min(float(one.min(initial=0.0)) for one in ratios)
            return min(1.0, BACK / max(-least, BACK))

        way = step(right, np.zeros_like(at.S), np.zeros_like(at.z), np.zeros_like(at.y))
        length = inside(way)
        if length < 1.0:
            half = changes(way.u) @ way.S
            S, z, y = (half + half.transpose(0, 2, 1)) / 2.0, way.s * way.z / at.s, way.t * way.y / at.t
            away = self._added(traces(turned @ S[:, None])) + z[:, None] * slope
            corrected = step(right - problem.force_of_unknowns(away) - rows.T @ y, S, z, y)
            further = inside(corrected)
            if further > length:
                way, length = corrected, further
        return way, float(right @ way.u), length


def _inside_bounds(problem: Entropic, sides: HalfSpaces, first: Float) -> Float:
    """Parameters (p,) with those that are of no body well inside their bounds."""
    low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    for row, j, value in zip(sides.rows, sides.index.tolist(), sides.value.tolist(), strict=True):
        if j >= 0 and problem.others[j]:
            (low if row[j] > 0 else high)[j] = value
    known = sides.equal & np.isin(sides.index, np.flatnonzero(problem.others))
    high[sides.index[known]] = low[sides.index[known]]
    width = np.where(np.isfinite(high - low), (high - low) / 4.0, np.inf)
    inside = np.minimum(INSIDE * problem.program.spread, width)
    return np.clip(first, low + inside, high - inside)
