"""Entropic optimum by Newton's method: the distance is its own barrier, so no cone program is needed."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Bool, Float, Int
from dynid.base.numerics import generalised_eigenvalues
from dynid.base.records import dataclass
from dynid.feasible.bodies import BARRIER
from dynid.feasible.cones import Certificate
from dynid.feasible.region import SEVERAL, Balls, HalfSpaces, Region
from dynid.kernel import cho_factor, cho_solve, solve_triangular
from dynid.spatial.inertia import pseudo_inertia

# Unknowns in which all directions have the same curvature, however well the data determine them.


@dataclass(frozen=True, eq=False)
class Whitened:
    """Unknowns u in which all directions have the same curvature: theta = reference + spread T u.

    ||X (theta - reference) / spread + start||^2 = ||data u + start||^2. data and prior are orthonormal together, so the
    condition number is never squared.

    Attributes
    ----------
    reference, spread : ndarray, shape (p,)
        Reference, and typical sizes.
    T : ndarray, shape (p, p)
        Inverse of R in [X; diag(sqrt(w))] = Q R.
    R : ndarray, shape (p, p)
        Triangle.
    data : ndarray, shape (k, p)
        Upper part of Q.
    prior : ndarray, shape (p, p)
        Lower part of Q, diag(sqrt(w)) T.
    start : ndarray, shape (k,)
        Residual at the reference.
    away : ndarray, shape (p,)
        (reference - centre) / spread.

    """

    reference: Float
    spread: Float
    T: Float
    R: Float
    data: Float
    prior: Float
    start: Float
    away: Float

    @staticmethod
    def of(rows: Float, reference: Float | None, centre: Float, spread: Float, weight: Float) -> Whitened:
        """Whitened unknowns of equations with a prior.

        Parameters
        ----------
        rows : ndarray, shape (k, p + 1)
            [X, y] in units of the spread.
        reference : ndarray, shape (p,), optional
            Reference; None = the minimum of ||X theta / spread - y||^2 + sum w (theta - centre)^2 / spread^2.
        centre, spread : ndarray, shape (p,)
            Prior, and typical sizes.
        weight : ndarray, shape (p,)
            Weights w of the prior.

        """
        X, k = rows[:, :-1], len(rows)
        p = X.shape[1]
        Q, R = np.linalg.qr(np.concatenate([X, np.diag(np.sqrt(weight))]))
        if reference is None:
            reference = _without_conditions(rows, centre, spread, weight)
        return Whitened(
            reference,
            spread,
            solve_triangular(R, np.eye(p)),
            R,
            Q[:k],
            Q[k:],
            X @ (reference / spread) - rows[:, -1],
            (reference - centre) / spread,
        )

    @cached_property
    def gram(self) -> Float:
        """Data' data, (p, p)."""
        return np.asarray(self.data.T @ self.data)

    def theta(self, u: Float) -> Float:
        """Parameters (p,) of unknowns u (p,)."""
        return np.asarray(self.reference + self.spread * (self.T @ u))

    def unknowns(self, theta: Float) -> Float:
        """Unknowns u (p,) of parameters."""
        return np.asarray(self.R @ ((theta - self.reference) / self.spread))


def _without_conditions(rows: Float, centre: Float, spread: Float, weight: Float) -> Float:
    # theta = centre + spread x with min ||X x - z||^2 + x' diag(w) x; y stands for A theta, so A centre is taken off.
    X = rows[:, :-1]
    z = rows[:, -1] - X @ (centre / spread)
    p = X.shape[1]
    stacked = np.zeros((len(X) + p, p + 1))
    stacked[: len(X), :p], stacked[: len(X), p], stacked[len(X) :, :p] = X, z, np.diag(np.sqrt(weight))
    R = np.asarray(np.linalg.qr(stacked, mode="r"))
    return np.asarray(centre + spread * solve_triangular(R[:p, :p], R[:p, p]))


# Least squares with the entropic distance, as a function with derivatives.

# Share of the way to the edge of physical consistency that a first guess may go.
INSIDE = 0.9
# Parameters of the unit pseudo-inertia.
UNIT = np.array([1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 2.0])
BASIS = np.stack([pseudo_inertia(unit) for unit in np.eye(10)])


@dataclass(frozen=True, eq=False)
class Entropic:
    """Objective f(u) = ||data u + start||^2 + entropic distance of links + squared distance of the others.

    f = ||data u + start||^2 + sum over links w D(P || P0) + over the others w d^2, with d = (theta - centre) / spread.

    Attributes
    ----------
    program : Whitened
        Unknowns.
    bodies : ndarray of int, shape (nb, 10)
        Columns of each link.
    centre : ndarray, shape (p,)
        Prior.
    weight : ndarray, shape (p,)
        Weights w; the weight of a mass counts for its link.
    compactness : float
        c of `dynid.feasible.bodies`. D is (1 - BARRIER) of the entropic distance and BARRIER of the barrier of the
        density limit, which are the same for c = 0, no limit.

    """

    program: Whitened
    bodies: Int
    centre: Float
    weight: Float
    compactness: float = 0.0

    @cached_property
    def of_bodies(self) -> Float:
        """Weights (nb,) of the links."""
        return np.asarray(self.weight[self.bodies[:, 0]])

    @cached_property
    def others(self) -> Bool:
        """Parameters (p,) that belong to no link."""
        mask = np.ones(len(self.centre), dtype=np.bool_)
        mask[self.bodies] = False
        return mask

    @cached_property
    def _roots(self) -> Float:
        # Square roots of the weights of squared parameters.
        return np.asarray(np.sqrt(self.weight[self.others]))

    @cached_property
    def _prior_log_det(self) -> Float:
        return np.asarray(np.linalg.slogdet(self.inertias(self.centre))[1])

    @cached_property
    def _prior_traces(self) -> Float:
        # (nb, 10) of tr(P0^-1 E_k).
        inverses = np.linalg.inv(self.inertias(self.centre))
        return np.asarray(inverses.reshape(-1, 16) @ BASIS.reshape(10, 16).T)

    @cached_property
    def _linear_slopes(self) -> Float:
        # (nb, 10) slopes of D without its logarithms.
        share, masses = self._prior_shares, self.centre[self.bodies[:, 0]]
        linear = self._prior_traces * (1.0 - BARRIER + BARRIER / (1.0 - share))[:, None]
        linear[:, 0] -= 6.0 * BARRIER * share / (1.0 - share) / masses
        return np.asarray(linear)

    @cached_property
    def _prior_shares(self) -> Float:
        # (nb,) c m^(3/2) / det(P)^(1/4) of the priors: the square root of their density over the greatest.
        return self._density_shares(self.centre, self._prior_log_det)

    def _density_shares(self, theta: Float, log_det: Float) -> Float:
        return np.asarray(self.compactness * theta[self.bodies[:, 0]] ** 1.5 * np.exp(-log_det / 4))

    def inertias(self, theta: Float) -> Float:
        """Pseudo-inertias (nb, 4, 4) of parameters."""
        return np.asarray((theta[self.bodies] @ BASIS.reshape(10, 16)).reshape(-1, 4, 4))

    def _log_dets(self, inertias: Float) -> Float | None:
        # Log determinants (nb,) of physically consistent links; None if one is not.
        try:
            triangles = np.linalg.cholesky(inertias)
        except LinAlgError:
            return None
        return np.asarray(2.0 * np.log(triangles.diagonal(axis1=1, axis2=2)).sum(axis=1))

    def rooms(self, theta: Float) -> Float:
        """Distance to the density limit, f = det(P)^(1/4) - c m^(3/2), of every link, (nb,)."""
        log_det = np.asarray(np.linalg.slogdet(self.inertias(theta))[1])
        return np.asarray(np.exp(log_det / 4) * (1.0 - self._density_shares(theta, log_det)))

    def value(self, u: Float) -> float:
        """Objective f at u; infinite if a link is not physically consistent."""
        program = self.program
        theta = program.theta(u)
        log_det = self._log_dets(self.inertias(theta))
        if log_det is None:
            return np.inf
        density_shares = self._density_shares(theta, log_det)
        if not (density_shares < 1.0).all():
            return np.inf
        trace = (self._prior_traces * theta[self.bodies]).sum(axis=1)
        others = self.others
        far = self._roots * (theta[others] - self.centre[others]) / program.spread[others]
        residual = program.data @ u + program.start
        masses, at_prior = self.bodies[:, 0], self._prior_shares
        linear = trace - 4.0 - 6.0 * at_prior * (theta[masses] / self.centre[masses] - 1.0)
        limit = linear / (1.0 - at_prior) - 4.0 * np.log((1.0 - density_shares) / (1.0 - at_prior))
        entropy = (1.0 - BARRIER) * (trace - 4.0) + BARRIER * limit - (log_det - self._prior_log_det)
        return float(residual @ residual + far @ far + self.of_bodies @ entropy)

    def slopes(self, u: Float) -> tuple[Float, Float]:
        """Gradient (p,) and Hessian (p, p) at a u where every link is physically consistent."""
        theta, weights = self.program.theta(u), self.of_bodies
        inertias = self.inertias(theta)
        turned = turned_basis(np.asarray(np.linalg.inv(inertias)))
        f, slope, bent = self.limits(theta, inertias, turned)
        edge, limit = (1.0 - BARRIER) * weights, 4.0 * BARRIER * weights / f
        curve = edge[:, None, None] * products(turned, turned)
        curve += (limit / f)[:, None, None] * slope[:, :, None] * slope[:, None, :] - limit[
            :, None, None
        ] * bent
        push = edge[:, None] * traces(turned) + limit[:, None] * slope
        gradient, hessian = self.smooth(u)
        force, stiffness = self.of_unknowns(push, curve)
        return gradient - force, hessian + stiffness

    def smooth(self, u: Float, ease: float = 1.0) -> tuple[Float, Float]:
        """Gradient (p,) and Hessian (p, p) of f without its logarithms, with all weights multiplied by `ease`."""
        program, others = self.program, self.others
        theta, spread = program.theta(u), program.spread
        gradient = np.zeros(len(theta))
        gradient[others] = 2.0 * (self.weight * (theta - self.centre) / spread)[others]
        gradient[self.bodies] = self.of_bodies[:, None] * self._linear_slopes * spread[self.bodies]
        residual = program.data @ u + program.start
        return (
            2.0 * (program.data.T @ residual) + ease * (program.T.T @ gradient),
            2.0 * program.gram + ease * self._curvature_of_others,
        )

    @cached_property
    def _curvature_of_others(self) -> Float:
        # (p, p), of the distances that are squares.
        T = self.program.T[self.others]
        return np.asarray((T.T * (2.0 * self.weight[self.others])) @ T)

    def limits(self, theta: Float, inertias: Float, turned: Float) -> tuple[Float, Float, Float]:
        """`rooms` of parameters (nb,), its gradient (nb, 10) and Hessian (nb, 10, 10); turned: P^-1 E_k."""
        masses = theta[self.bodies[:, 0]]
        root, trace = np.exp(np.linalg.slogdet(inertias)[1] / 4), traces(turned)
        slope = root[:, None] * trace / 4.0
        bent = trace[:, :, None] * trace[:, None, :] / 16.0 - products(turned, turned) / 4.0
        bent *= root[:, None, None]
        slope[:, 0] -= 1.5 * self.compactness * np.sqrt(masses)
        bent[:, 0, 0] -= 0.75 * self.compactness / np.sqrt(masses)
        return root - self.compactness * masses**1.5, slope, bent

    def of_unknowns(self, push: Float, curve: Float) -> tuple[Float, Float]:
        """Forces (nb, 10) and stiffnesses (nb, 10, 10) of link parameters, as (p,) and (p, p) of u."""
        spreads, T = self._spreads, self._body_directions
        turned = (curve * spreads[:, :, None] * spreads[:, None, :]) @ T
        flat = T.reshape(-1, T.shape[2])
        return self.force_of_unknowns(push), flat.T @ turned.reshape(flat.shape)

    def force_of_unknowns(self, push: Float) -> Float:
        """Forces (nb, 10) of link parameters, as (p,) of u."""
        flat = self._body_directions.reshape(-1, self._body_directions.shape[2])
        return np.asarray(flat.T @ (push * self._spreads).ravel())

    @cached_property
    def _spreads(self) -> Float:
        # Spreads (nb, 10) of the link parameters.
        return np.asarray(self.program.spread[self.bodies])

    @cached_property
    def _body_directions(self) -> Float:
        # Derivatives (nb, 10, p) of link parameters over their spreads by u.
        return np.asarray(self.program.T[self.bodies])

    def first(self, margin: Float) -> Float:
        """Reference (p,) of the program, with every link pulled towards its centre until it is physically consistent.

        margin: (nb,) lower limit of its pseudo-inertia; a centre below it is raised by twice as much.
        """
        theta, centre = self.program.reference.copy(), self.centre.copy()
        lifted = np.linalg.eigvalsh(self.inertias(centre))[:, 0] <= margin
        centre[self.bodies[lifted]] += 2.0 * margin[lifted, None] * UNIT
        priors = self.inertias(centre)
        above = priors - margin[:, None, None] * np.eye(4)
        least = generalised_eigenvalues(self.inertias(theta) - priors, above)[:, :1]
        share = INSIDE / np.maximum(-least, INSIDE)
        theta[self.bodies] = centre[self.bodies] + share * (theta[self.bodies] - centre[self.bodies])
        while len(dense := self.bodies[~(self.rooms(theta) > 0)]):
            theta[dense] = (theta[dense] + centre[dense]) / 2
        return theta


def turned_basis(matrices: Float) -> Float:
    """Products M E_k (nb, 10, 4, 4) of matrices M (nb, 4, 4), with P = sum pi_k E_k."""
    return np.asarray(matrices[:, None] @ BASIS)


def traces(turned: Float) -> Float:
    """Traces (nb, 10) of matrices (nb, 10, 4, 4)."""
    return np.asarray(turned.trace(axis1=2, axis2=3))


def products(first: Float, second: Float) -> Float:
    """tr(A_k B_l) (nb, 10, 10) of matrices (nb, 10, 4, 4)."""
    flat = second.transpose(0, 1, 3, 2).reshape(-1, 10, 16)
    return np.asarray(first.reshape(-1, 10, 16) @ flat.transpose(0, 2, 1))


# Central path: a primal-dual path on which the weight of the barriers decreases.

# Most steps of the path; some 30 are usual.
STEPS = 200
# Initial value over weight of the path.
GENTLE = 1e4
# Share of the way to a border that a step goes, length of a long step, and decrease of the barrier weight after one.
BACK, LONG, FALL = 0.95, 0.6, 0.1
# Distance inside bounds at the start of the path, in spreads.
CENTRAL_PATH_INSIDE = 0.1
# Weight of limits, and gain of a step, as shares of the weight of the distance: until the active set is visible, and
# until the end of the path is as good as the minimum.
NEAR, NEAREST = (1e-6, 0.1), (1e-8, 1e-9)


@dataclass(frozen=True, eq=False)
class _Bounds:
    """Functions f >= 0 (b,): half-spaces rows theta - edge, then cones.

    rows, edge: (l, p) and (l,).    turned: (l, p) rows over the unknowns u.
    place: (b,) index of the half-space; -1 = a cone.
    equations: (e, p) over the unknowns.
    """

    program: Whitened
    rows: Float
    edge: Float
    turned: Float
    balls: Balls
    place: Int
    equations: Float

    @staticmethod
    def of(problem: Entropic, region: Region) -> _Bounds:
        """Bounds of a region."""
        program, sides, balls = problem.program, region.sides, region.balls
        kept = np.flatnonzero(~sides.equal)
        rows = sides.rows[kept]
        return _Bounds(
            program,
            rows,
            sides.edge[kept],
            (rows * program.spread) @ program.T,
            balls,
            np.append(kept, np.full(balls.count, -1)),
            (sides.rows[sides.equal] * program.spread) @ program.T,
        )

    @property
    def curved(self) -> Bool:
        """Functions (b,) that are cones."""
        return np.arange(len(self.place)) >= len(self.edge)

    def room(self, theta: Float) -> Float:
        """Values (b,) of the functions at parameters: their distance inside."""
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
    """Point u (p,) of the central path with its duals: S = w 1 of links, z s = w of density limits, y t = w of bounds.

    S: (nb + nm, 4, 4), dual of the links P = L L' and of those with a margin less that margin: the force on P is
    L'^-1 S L^-1. So small forces beside large ones do not vanish in rounding, however thin a link is.
    s, z: (nb,).    t, y: (b,). The slacks s and t need not agree with u before the end.
    """

    u: Float
    S: Float
    s: Float
    z: Float
    t: Float
    y: Float

    def moved(self, way: _Point, length: float) -> _Point:
        """Point after a part of a step."""
        return _Point(
            *(getattr(self, name) + length * getattr(way, name) for name in self.__dataclass_fields__)
        )


class CentralPath:
    """Path to the minimum within a region, on which the weight of the barriers decreases.

    Newton's method on the conditions of `_Point` and of a minimum, with a second solution of the same matrix that
    corrects for the products of the changes where a step would leave the region. Where the data ask for impossible
    links it needs some 30 steps, and Newton's method on the value alone hundreds.

    References ---------- Wright 1997, chapters 5 and 10, also for the corrector; Helmberg, Rendl, Vanderbei and
    Wolkowicz 1996 for the matrices.

    """

    def __init__(self, problem: Entropic, region: Region, theta: Float, value: float) -> None:
        """theta: (p,) physically consistent links above their margins, whose objective is `value`."""
        self._problem, self._region, self._bounds = problem, region, _Bounds.of(problem, region)
        weights = problem.of_bodies, problem.weight[problem.others]
        self._heaviest = float(np.concatenate(weights).max())
        self._ease, self._sharp = max(1.0, value / (GENTLE * self._heaviest)), 1.0
        self._steps = 0
        # The path may start outside planes and mass limits, and enters on its way.
        s, room = problem.rooms(theta), self._bounds.room(theta)
        t = np.where(room > 0, room, np.maximum(CENTRAL_PATH_INSIDE, -room))
        limit = 4.0 * BARRIER * problem.of_bodies
        self._root = np.linalg.cholesky(self._matrices(theta))
        S = self._matrix_weights()[:, None, None] * np.eye(4)
        y = self._bound_weights() / t
        self._point = _Point(problem.program.unknowns(theta), S, s, self._ease * limit / s, t, y)

    @staticmethod
    def begun(problem: Entropic, region: Region) -> CentralPath | None:
        """Path from physically consistent links; None if their objective is not finite."""
        theta = _inside_bounds(problem, region.sides, problem.first(region.margin))
        value = problem.value(problem.program.unknowns(theta))
        return CentralPath(problem, region, theta, value) if np.isfinite(value) else None

    def follow(self, sharp: float, gain: float) -> bool:
        """Advance until limits weigh the share `sharp` of the distance and a step gains at most the share `gain`.

        Returns False if it stalls.
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
        """Parameters (p,) at the current point."""
        return self._problem.program.theta(self._point.u)

    @property
    def active(self) -> Bool:
        """Active half-spaces (k,) at the minimum."""
        active = np.zeros(self._region.sides.count, dtype=np.bool_)
        place = self._bounds.place[self._point.y > self._point.t]
        active[place[place >= 0]] = True
        return active

    @property
    def certificate(self) -> Certificate:
        """Certificate of the current point: remaining slope under the forces of the limits, and their possible gain."""
        problem, bounds, at = self._problem, self._bounds, self._point
        nb = len(problem.bodies)
        gradient, hessian = problem.slopes(at.u)
        rows, bent = bounds.slopes(self.theta, at.y)
        bounded = self._region.bounded
        push = np.zeros((nb, 10))
        push[bounded] = traces(at.S[nb:, None] @ self._turned()[nb:])
        slope_left = gradient - rows.T @ at.y - problem.force_of_unknowns(push)
        if len(bounds.equations):
            slope_left = (
                slope_left
                - bounds.equations.T @ np.linalg.lstsq(bounds.equations.T, slope_left, rcond=None)[0]
            )
        size = 1.0 + float(np.abs((hessian + bent) @ at.u).max())
        gap = float(at.y @ bounds.room(self.theta)) + float(np.trace(at.S[nb:], axis1=1, axis2=2).sum())
        share = gap / (1.0 + abs(problem.value(at.u)))
        return Certificate(0.0, float(np.abs(slope_left).max()) / size, share, self._steps)

    def _matrices(self, theta: Float) -> Float:
        """P of the links, and P - margin of those with a margin, (nb + nm, 4, 4)."""
        P, bounded = self._problem.inertias(theta), self._region.bounded
        return np.concatenate([P, P[bounded] - self._region.margin[bounded, None, None] * np.eye(4)])

    def _matrix_weights(self) -> Float:
        """Weights (nb + nm,) of the logarithms of the matrices: of the distance, then decreasing ones of the limits."""
        fading = np.full(len(self._region.bounded), self._sharp * self._heaviest)
        return np.append((1.0 - BARRIER) * self._problem.of_bodies, fading) * self._ease

    def _bound_weights(self) -> Float:
        """Weights (b,) of the logarithms of the bounds, which decrease."""
        return np.full(len(self._bounds.place), self._ease * self._sharp * self._heaviest)

    def _move(self, way: _Point, length: float) -> None:
        next_point = self._point.moved(way, length)
        root = np.linalg.cholesky(self._matrices(self._problem.program.theta(next_point.u)))
        turn = np.linalg.inv(self._root) @ root
        self._point, self._root = replace(next_point, S=turn.transpose(0, 2, 1) @ next_point.S @ turn), root

    def _turned(self) -> Float:
        """L^-1 E_k L'^-1 (nb + nm, 10, 4, 4) of every link, and of those with a margin."""
        inverse = np.linalg.inv(self._root)[:, None]
        return np.asarray(inverse @ BASIS @ inverse.transpose(0, 1, 3, 2))

    def _repeat_bounded(self, of_bodies: Float) -> Float:
        """Values of all links, followed by the values of the links with a margin again."""
        return np.concatenate([of_bodies, of_bodies[self._region.bounded]])

    def _sum_per_body(self, of_matrices: Float) -> Float:
        """Sum (nb, ...) over the one or two matrices of each link."""
        nb = len(self._problem.bodies)
        total = of_matrices[:nb].copy()
        total[self._region.bounded] += of_matrices[nb:]
        return total

    def _step(self) -> tuple[_Point, float, float]:
        """Next step, its gain, and the share of it that stays inside."""
        problem, bounds, at = self._problem, self._bounds, self._point
        program, nb = problem.program, len(problem.bodies)
        theta, spread, T = program.theta(at.u), program.spread, program.T
        edge, of_bounds = self._matrix_weights(), self._bound_weights()
        limit = self._ease * 4.0 * BARRIER * problem.of_bodies
        turned, of_S = self._turned(), np.linalg.inv(np.linalg.cholesky(at.S))
        f, slope, bent = problem.limits(theta, problem.inertias(theta), turned[:nb])
        curve = self._sum_per_body(products(turned, turned @ at.S[:, None]))
        curve = (curve + curve.transpose(0, 2, 1)) / 2.0 - at.z[:, None, None] * bent
        curve += (at.z / at.s)[:, None, None] * slope[:, :, None] * slope[:, None, :]
        push = self._sum_per_body(edge[:, None] * traces(turned))
        push += ((limit - at.z * (f - at.s)) / at.s)[:, None] * slope
        room = bounds.room(theta)
        rows, bowed = bounds.slopes(theta, at.y)
        gradient, hessian = problem.smooth(at.u, self._ease)
        force, stiffness = problem.of_unknowns(push, curve)
        right = force - gradient + rows.T @ ((of_bounds - at.y * (room - at.t)) / at.t)
        factor = cho_factor(hessian + stiffness + bowed + (rows.T * (at.y / at.t)) @ rows)
        E, missing = bounds.equations, -self._region.sides.room(theta)[self._region.sides.equal]
        equation_response = cho_solve(factor, E.T) if len(E) else E.T

        def changes(u: Float) -> Float:
            of_bodies = self._repeat_bounded((spread * (T @ u))[problem.bodies])
            return np.asarray(np.einsum("bk,bkij->bij", of_bodies, turned))

        def step(right: Float, S: Float, z: Float, y: Float) -> _Point:
            # S, z, y: products of changes, over P, s and t, that the step corrects.
            u = cho_solve(factor, right)
            if len(E):
                u = u - equation_response @ np.linalg.solve(E @ equation_response, E @ u - missing)
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
            # Eigenvalues of the changes relative to the positive definite matrices.
            of_matrices = np.linalg.eigvalsh(
                np.concatenate([changes(way.u), of_S @ way.S @ of_S.transpose(0, 2, 1)])
            )
            ratios = [way.s / at.s, way.z / at.z, way.t / at.t, way.y / at.y, of_matrices]
            least = min(float(ratio.min(initial=0.0)) for ratio in ratios)
            return min(1.0, BACK / max(-least, BACK))

        way = step(right, np.zeros_like(at.S), np.zeros_like(at.z), np.zeros_like(at.y))
        length = inside(way)
        if length < 1.0:
            half = changes(way.u) @ way.S
            S, z, y = (half + half.transpose(0, 2, 1)) / 2.0, way.s * way.z / at.s, way.t * way.y / at.t
            away = self._sum_per_body(traces(turned @ S[:, None])) + z[:, None] * slope
            corrected = step(right - problem.force_of_unknowns(away) - rows.T @ y, S, z, y)
            further = inside(corrected)
            if further > length:
                way, length = corrected, further
        return way, float(right @ way.u), length


def _inside_bounds(problem: Entropic, sides: HalfSpaces, first: Float) -> Float:
    """Move the parameters (p,) that belong to no link well inside their bounds."""
    low, high = np.full(len(first), -np.inf), np.full(len(first), np.inf)
    for row, j, value in zip(sides.rows, sides.index.tolist(), sides.value.tolist(), strict=True):
        if j >= 0 and problem.others[j]:
            (low if row[j] > 0 else high)[j] = value
    known = sides.equal & np.isin(sides.index, np.flatnonzero(problem.others))
    high[sides.index[known]] = low[sides.index[known]]
    width = np.where(np.isfinite(high - low), (high - low) / 4.0, np.inf)
    inside = np.minimum(CENTRAL_PATH_INSIDE * problem.program.spread, width)
    return np.clip(first, low + inside, high - inside)


# Most Newton steps with one active set.
INTERIOR_STEPS = 150
# Newton steps for a minimum without active bounds, or near a known one; harder problems use the path.
QUICK = 12
# Most changes of the active set.
ROUNDS = 6
# Gain of a step as a share of the value: at the end of the search, and below rounding; and the ratio to the previous
# gain while the search continues below rounding.
SETTLED, ROUNDING, CLOSER = 1e-20, 1e-13, 0.25
# Shortest step of the line search.
LEAST_STEP = 1e-10
# Violation of a half-space, in sizes of its row, that is rounding; and the least independent part of a row.
ROUNDING_ROOM, DEPENDENT = 1e-12, 1e-9


def entropic_optimum(
    problem: Entropic, region: Region, near: Float | None = None
) -> tuple[Float, Certificate] | None:
    """Minimum over physically consistent links within a region; None if the search stalls.

    Newton's method with an active set of half-spaces. f is convex, so a point that fulfils all other constraints is the
    constrained minimum as well. If a curved limit is active, the end of a central path is the solution.

    Parameters
    ----------
    problem : Entropic
        Objective.
    region : Region
        Region.
    near : ndarray, shape (p,), optional
        Solution of a similar problem.

    Returns
    -------
    tuple of ndarray, shape (p,), and Certificate, or None
        Minimum.

    """
    optimum = (
        _from_nearby(problem, region, near) if near is not None else _without_half_spaces(problem, region)
    )
    if optimum is not None and region.curved_inside(optimum[0]):
        return optimum
    path = CentralPath.begun(problem, region)
    if path is None or not path.follow(*NEAR):
        return None
    optimum = _within_half_spaces(problem, region.sides, path.theta, path.active)
    if optimum is not None and region.curved_inside(optimum[0]):
        return optimum
    path.follow(*NEAREST)  # if it stalls, the point reached may suffice
    certificate = path.certificate
    return (path.theta, certificate) if certificate.ok else None


def _from_nearby(problem: Entropic, region: Region, near: Float) -> tuple[Float, Certificate] | None:
    # Similar programs usually have the same active half-spaces.
    return _within_half_spaces(problem, region.sides, near, region.sides.room(near) <= ROUNDING_ROOM, QUICK)


def _without_half_spaces(problem: Entropic, region: Region) -> tuple[Float, Certificate] | None:
    # The minimum without half-spaces, or near it if it violates some.
    first = problem.first(np.zeros(len(problem.bodies)))
    u, ended = _newton(problem, problem.program.unknowns(first), np.zeros((0, len(first))), QUICK)
    if ended is None or not ended[1].ok:
        return None
    theta = problem.program.theta(u)
    active = region.sides.beyond(theta, 0.0)
    return _within_half_spaces(problem, region.sides, theta, active) if active.any() else (theta, ended[1])


def _within_half_spaces(
    problem: Entropic, sides: HalfSpaces, near: Float, active: Bool, steps: int = INTERIOR_STEPS
) -> tuple[Float, Certificate] | None:
    """Minimum within half-spaces, from parameters (p,) near it and the half-spaces active there, (k,)."""
    program, theta = problem.program, near
    turned = (sides.rows * program.spread) @ program.T
    for _ in range(ROUNDS):
        active = _independent(turned, active | sides.equal)
        theta = sides.at(theta, active)
        u, A = program.unknowns(theta), turned[active]
        if (sides.index[active] == SEVERAL).any():
            u = u - A.T @ np.linalg.solve(A @ A.T, sides.room(program.theta(u))[active])
        u, ended = _newton(problem, u, A, steps)
        if ended is None or not ended[1].ok:
            return None
        pull, certificate = ended
        theta = sides.at(program.theta(u), active)
        beyond = ~active & sides.beyond(theta, ROUNDING_ROOM)
        # Drop active half-spaces whose force points inside.
        back = np.flatnonzero(active)[(pull > 0.0) & ~sides.equal[active]]
        if not beyond.any() and not len(back):
            return theta, certificate
        active[back] = False
        active |= beyond
    return None


def _independent(rows: Float, active: Bool) -> Bool:
    """Active rows (k,) that are linearly independent: a box around a link may repeat planes of other limits."""
    kept, basis = active.copy(), np.zeros((0, rows.shape[1]))
    for row in np.flatnonzero(active).tolist():
        direction = rows[row] / np.linalg.norm(rows[row])
        for _ in range(2):  # the second pass removes rounding
            direction = direction - basis.T @ (basis @ direction)
        size = np.linalg.norm(direction)
        if size < DEPENDENT:
            kept[row] = False
        else:
            basis = np.concatenate([basis, direction[None] / size])
    return kept


def _newton(
    problem: Entropic, u: Float, A: Float, steps: int = INTERIOR_STEPS
) -> tuple[Float, tuple[Float, Certificate] | None]:
    """Newton's method along A u = const until a step gains no more than rounding.

    Returns the end point, and the forces of A u with the certificate; None for these if it stalls.
    """
    value, decrease = problem.value(u), np.inf
    for step in range(steps):
        if not np.isfinite(value):
            return u, None
        gradient, hessian = problem.slopes(u)
        force, along = np.zeros(0), gradient
        try:
            factor = cho_factor(hessian)
            if len(A):
                inverse = cho_solve(factor, A.T)
                force = np.linalg.solve(A @ inverse, -inverse.T @ gradient).astype(np.float64, copy=False)
                along = gradient + A.T @ force
        except LinAlgError:
            return u, None
        direction = -cho_solve(factor, along)
        before, decrease = decrease, -float(along @ direction)
        share = decrease / (1.0 + abs(value))
        if share > ROUNDING:
            length, next_value = _step(problem, u, value, direction, decrease)
        else:  # Rounding hides differences of the value here, but each step doubles the correct digits.
            length = 1.0 if share <= SETTLED or decrease <= CLOSER * before else 0.0
            next_value = value
        u, value = u + length * direction, next_value
        if length == 0.0 or share <= SETTLED:
            size = 1.0 + float(np.abs(hessian @ u).max())
            return u, (force, Certificate(0.0, float(np.abs(along).max()) / size, share, step))
    return u, None


def _step(
    problem: Entropic, u: Float, value: float, direction: Float, decrease: float
) -> tuple[float, float]:
    # Longest halved step with sufficient decrease, and the value there; 0 if there is none.
    length = 1.0
    while length > LEAST_STEP:
        next_value = problem.value(u + length * direction)
        if next_value < value - 0.25 * length * decrease:
            return length, next_value
        length *= 0.5
    return 0.0, value
