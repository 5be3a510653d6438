"""Least squares with the entropic distance of bodies from their priors, as a function with slopes."""

from __future__ import annotations

from dataclasses import field
from functools import cached_property

import numpy as np
from numpy.linalg import LinAlgError

from dynid.base.arrays import Bool, Float, Int
from dynid.base.eigenvalues import generalised_eigenvalues
from dynid.base.records import dataclass
from dynid.feasible.bodies import NO_ROTORS
from dynid.feasible.density import BARRIER
from dynid.feasible.entropic import scalar_divergence
from dynid.feasible.whitened import Whitened
from dynid.spatial.inertia import pseudo_inertia

# How near to the edge of physical consistency a first guess may come.
INSIDE = 0.9
# Parameters of the pseudo-inertia 1.
UNIT = np.array([1.0, 0.0, 0.0, 0.0, 2.0, 0.0, 2.0, 0.0, 0.0, 2.0])
BASIS = np.stack([pseudo_inertia(unit) for unit in np.eye(10)])


@dataclass(frozen=True, eq=False)
class Entropic:
    """f(u) = ||data u + start||^2 + sum over bodies w D(P || P0) + over rotors w (x - log x - 1) + over the rest w d^2.

    x = theta / centre, d = (theta - centre) / spread.
    bodies: (nb, 10) columns of each.    weight: (p,) w; that of a body's mass counts for the body.
    compactness: c of `dynid.feasible.density`; D is then (1 - BARRIER) of the entropic distance and BARRIER of the
    barrier of the density limit, which are the same for c = 0, no limit.    rotors: (nr,) indices.
    """

    program: Whitened
    bodies: Int
    centre: Float
    weight: Float
    compactness: float = 0.0
    rotors: Int = field(default_factory=NO_ROTORS.copy)

    @cached_property
    def of_bodies(self) -> Float:
        """(nb,) weights of the bodies."""
        return np.asarray(self.weight[self.bodies[:, 0]])

    @cached_property
    def others(self) -> Bool:
        """(p,) which parameters belong to no body."""
        mask = np.ones(len(self.centre), dtype=np.bool_)
        mask[self.bodies] = False
        return mask

    @cached_property
    def squared(self) -> Bool:
        """(p,) which parameters' distance is a square: all but those of bodies and rotors."""
        mask = self.others.copy()
        mask[self.rotors] = False
        return mask

    @cached_property
    def _roots(self) -> Float:
        # Roots of the weights of those.
        return np.asarray(np.sqrt(self.weight[self.squared]))

    @cached_property
    def _prior_log_det(self) -> Float:
        return np.asarray(np.linalg.slogdet(self.inertias(self.centre))[1])

    @cached_property
    def _prior_traces(self) -> Float:
        # (nb, 10) of tr(P0^-1 E_k).
        inverses = np.linalg.inv(self.inertias(self.centre))
        return np.asarray(inverses.reshape(-1, 16) @ BASIS.reshape(10, 16).T)

    @cached_property
    def _linear(self) -> Float:
        # (nb, 10) slopes of D without its logarithms.
        share, masses = self._prior_shares, self.centre[self.bodies[:, 0]]
        found = self._prior_traces * (1.0 - BARRIER + BARRIER / (1.0 - share))[:, None]
        found[:, 0] -= 6.0 * BARRIER * share / (1.0 - share) / masses
        return np.asarray(found)

    @cached_property
    def _prior_shares(self) -> Float:
        # (nb,) c m^(3/2) / det(P)^(1/4) of the priors: the square root of their density over the greatest.
        return self._shares(self.centre, self._prior_log_det)

    def _shares(self, theta: Float, log_det: Float) -> Float:
        return np.asarray(self.compactness * theta[self.bodies[:, 0]] ** 1.5 * np.exp(-log_det / 4))

    def inertias(self, theta: Float) -> Float:
        """Pseudo-inertias (nb, 4, 4) of parameters."""
        return np.asarray((theta[self.bodies] @ BASIS.reshape(10, 16)).reshape(-1, 4, 4))

    def _log_dets(self, inertias: Float) -> Float | None:
        # (nb,) of bodies that are physically consistent, None where one is not.
        try:
            triangles = np.linalg.cholesky(inertias)
        except LinAlgError:
            return None
        return np.asarray(2.0 * np.log(triangles.diagonal(axis1=1, axis2=2)).sum(axis=1))

    def rooms(self, theta: Float) -> Float:
        """(nb,) f = det(P)^(1/4) - c m^(3/2) of every body."""
        log_det = np.asarray(np.linalg.slogdet(self.inertias(theta))[1])
        return np.asarray(np.exp(log_det / 4) * (1.0 - self._shares(theta, log_det)))

    def value(self, u: Float) -> float:
        """f, infinite where a body is not physically consistent."""
        program = self.program
        theta = program.theta(u)
        log_det = self._log_dets(self.inertias(theta))
        if log_det is None:
            return np.inf
        here = self._shares(theta, log_det)
        if not (here < 1.0).all():
            return np.inf
        trace = (self._prior_traces * theta[self.bodies]).sum(axis=1)
        others, rotors = self.squared, self.rotors
        far = self._roots * (theta[others] - self.centre[others]) / program.spread[others]
        turning = self.weight[rotors] @ scalar_divergence(theta[rotors], self.centre[rotors])
        missed = program.data @ u + program.start
        masses, at_prior = self.bodies[:, 0], self._prior_shares
        away = trace - 4.0 - 6.0 * at_prior * (theta[masses] / self.centre[masses] - 1.0)
        limit = away / (1.0 - at_prior) - 4.0 * np.log((1.0 - here) / (1.0 - at_prior))
        entropy = (1.0 - BARRIER) * (trace - 4.0) + BARRIER * limit - (log_det - self._prior_log_det)
        return float(missed @ missed + far @ far + turning + self.of_bodies @ entropy)

    def slopes(self, u: Float) -> tuple[Float, Float]:
        """Gradient (p,) and Hessian (p, p) at a u where every body exists."""
        theta, own = self.program.theta(u), self.of_bodies
        inertias = self.inertias(theta)
        turned = turned_basis(np.asarray(np.linalg.inv(inertias)))
        f, slope, bent = self.limits(theta, inertias, turned)
        edge, limit = (1.0 - BARRIER) * own, 4.0 * BARRIER * own / f
        curve = edge[:, None, None] * products(turned, turned)
        curve += (limit / f)[:, None, None] * slope[:, :, None] * slope[:, None, :] - limit[
            :, None, None
        ] * bent
        push = edge[:, None] * traces(turned) + limit[:, None] * slope
        gradient, hessian = self.smooth(u)
        force, stiffness = self.of_unknowns(push, curve)
        rotors = self.rotors
        rows = (self.program.spread[rotors] / theta[rotors])[:, None] * self.program.T[rotors]
        own = self.weight[rotors]
        return gradient - force - rows.T @ own, hessian + stiffness + (rows.T * own) @ rows

    def smooth(self, u: Float, ease: float = 1.0) -> tuple[Float, Float]:
        """Gradient (p,) and Hessian (p, p) of f without its logarithms, all weights `ease` times as great."""
        program, others, rotors = self.program, self.squared, self.rotors
        theta, spread = program.theta(u), program.spread
        gradient = np.zeros(len(theta))
        gradient[rotors] = self.weight[rotors] * spread[rotors] / self.centre[rotors]
        gradient[others] = 2.0 * (self.weight * (theta - self.centre) / spread)[others]
        gradient[self.bodies] = self.of_bodies[:, None] * self._linear * spread[self.bodies]
        missed = program.data @ u + program.start
        return (
            2.0 * (program.data.T @ missed) + ease * (program.T.T @ gradient),
            2.0 * program.gram + ease * self._curvature_of_others,
        )

    @cached_property
    def _curvature_of_others(self) -> Float:
        # (p, p), of the distances that are squares.
        T = self.program.T[self.squared]
        return np.asarray((T.T * (2.0 * self.weight[self.squared])) @ T)

    def limits(self, theta: Float, inertias: Float, turned: Float) -> tuple[Float, Float, Float]:
        """`rooms` of parameters (nb,) with gradient (nb, 10) and Hessian (nb, 10, 10); turned: P^-1 E_k."""
        masses = theta[self.bodies[:, 0]]
        root, trace = np.exp(np.linalg.slogdet(inertias)[1] / 4), traces(turned)
        slope = root[:, None] * trace / 4.0
        bent = trace[:, :, None] * trace[:, None, :] / 16.0 - products(turned, turned) / 4.0
        bent *= root[:, None, None]
        slope[:, 0] -= 1.5 * self.compactness * np.sqrt(masses)
        bent[:, 0, 0] -= 0.75 * self.compactness / np.sqrt(masses)
        return root - self.compactness * masses**1.5, slope, bent

    def of_unknowns(self, push: Float, curve: Float) -> tuple[Float, Float]:
        """Forces (nb, 10) and stiffnesses (nb, 10, 10) of the bodies' parameters as (p,) and (p, p) of u."""
        own, T = self._spreads, self._moves
        turned = (curve * own[:, :, None] * own[:, None, :]) @ T
        flat = T.reshape(-1, T.shape[2])
        return self.force_of_unknowns(push), flat.T @ turned.reshape(flat.shape)

    def force_of_unknowns(self, push: Float) -> Float:
        """Forces (nb, 10) of the bodies' parameters as (p,) of u."""
        flat = self._moves.reshape(-1, self._moves.shape[2])
        return np.asarray(flat.T @ (push * self._spreads).ravel())

    @cached_property
    def _spreads(self) -> Float:
        # (nb, 10) of the bodies' parameters.
        return np.asarray(self.program.spread[self.bodies])

    @cached_property
    def _moves(self) -> Float:
        # (nb, 10, p), how the bodies' parameters over their spreads move with u.
        return np.asarray(self.program.T[self.bodies])

    def first(self, margin: Float) -> Float:
        """The program's reference (p,), with every body drawn towards its centre until it exists.

        margin: (nb,) that its pseudo-inertia has to be above; a centre that is not is raised by twice as much.
        """
        theta, centre = self.program.reference.copy(), self.centre.copy()
        lifted = np.linalg.eigvalsh(self.inertias(centre))[:, 0] <= margin
        centre[self.bodies[lifted]] += 2.0 * margin[lifted, None] * UNIT
        priors = self.inertias(centre)
        above = priors - margin[:, None, None] * np.eye(4)
        least = generalised_eigenvalues(self.inertias(theta) - priors, above)[:, :1]
        share = INSIDE / np.maximum(-least, INSIDE)
        theta[self.bodies] = centre[self.bodies] + share * (theta[self.bodies] - centre[self.bodies])
        rotors = self.rotors
        theta[rotors] = np.maximum(theta[rotors], (1.0 - INSIDE) * centre[rotors])
        while len(dense := self.bodies[~(self.rooms(theta) > 0)]):
            theta[dense] = (theta[dense] + centre[dense]) / 2
        return theta


def turned_basis(matrices: Float) -> Float:
    """M E_k (nb, 10, 4, 4) of matrices M (nb, 4, 4), with P = sum pi_k E_k."""
    return np.asarray(matrices[:, None] @ BASIS)


def traces(turned: Float) -> Float:
    """(nb, 10) of matrices."""
    return np.asarray(turned.trace(axis1=2, axis2=3))


def products(first: Float, second: Float) -> Float:
    """tr(A_k B_l) (nb, 10, 10) of matrices (nb, 10, 4, 4)."""
    flat = second.transpose(0, 1, 3, 2).reshape(-1, 10, 16)
    return np.asarray(first.reshape(-1, 10, 16) @ flat.transpose(0, 2, 1))
