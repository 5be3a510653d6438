"""Equations of motion of any linear model with known parameters: mass matrix and everything else."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.kernel import equations_of_motion
from dynid.kernel.multibody import Multibody
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.mechanism import Mechanism, tried_positions
from dynid.terms.exports import MotionBasis, smooth_sign
from dynid.terms.joint_term import JointTerm, joint_indices
from dynid.terms.term import Term, Terms

_TRIED = 3


class ForwardModel:
    """M(q) and h(q, dq) with tau = M ddq + h, of terms with parameters theta.

    Terms whose part of M is the same everywhere, as that of rotors, are asked for it once.
    """

    def __init__(self, robot: RobotModel, terms: Terms, theta: Float) -> None:
        """theta: (p,) over terms.columns(robot).

        Raises UsageError for parameters of another length, or a term that reads a log channel or the past.
        """
        p = len(terms.columns(robot))
        other = [term.name for term in terms if term.channels() or term.remembers]
        if np.shape(theta) != (p,) or other:
            raise UsageError(
                "forward-model",
                found=f"{np.shape(theta)} parameters" + (f", terms {', '.join(other)}" if other else ""),
                expected=f"({p},) parameters and terms of the present motion alone",
            )
        self.robot, self.n = robot, robot.n
        self._terms, self._theta = terms, np.array(theta)
        self._bodies = np.zeros((robot.n_bodies, 10))
        self._steady: list[tuple[Term, Float]] = []
        self._moving: list[tuple[Term, Float]] = []
        self._mass = np.zeros((robot.n, robot.n))
        self._viscous = np.zeros(robot.n)
        self._coulomb: list[tuple[float, Float]] = []
        first = 0
        for term in terms:
            count = len(term.columns(robot))
            self._sort(term, np.array(theta[first : first + count]))
            first += count

    @cached_property
    def multibody(self) -> Multibody | None:
        """The same for the compiled step; None for what it does not know."""
        return Mechanism(self.robot, self._terms, self._theta).multibody

    def equations(self, q: Float, dq: Float) -> tuple[Float, Float]:
        """M (B, n, n) and h (B, n) in states (B, n); M may be indefinite where theta is no body's."""
        robot = self.robot
        if robot.has_mimic:
            P = robot.projection
            M, h = equations_of_motion(robot.tree, self._bodies, q @ P.T + robot.projection_offset, dq @ P.T)
            M, h = P.T @ M @ P, h @ P
        else:
            M, h = equations_of_motion(robot.tree, self._bodies, q, dq)
        M, h = M + self._mass, h + self._viscous * dq
        for width, part in self._coulomb:
            h += part * smooth_sign(dq, width)
        if self._steady or self._moving:
            samples = Samples.from_motion(q, dq, np.zeros_like(q))
            for term, part in self._steady + self._moving:
                h += _torque(term, robot, samples, part)
        for term, part in self._moving:
            M += self._mass_of(term, part, q)
        return M, h

    def _sort(self, term: Term, part: Float) -> None:
        if term.of_bodies:
            self._bodies = self._bodies + part.reshape(self._bodies.shape)
            return
        # The commonest friction without the detour over samples: an integration asks for it thousands of times.
        if isinstance(term, JointTerm) and term.exports_as is MotionBasis.SPEED:
            self._viscous[list(joint_indices(self.robot, term.joints))] += part
            return
        if isinstance(term, JointTerm) and term.exports_as is MotionBasis.SIGN:
            level = np.zeros(self.n)
            level[list(joint_indices(self.robot, term.joints))] = part
            self._coulomb.append((term.width, level))
            return
        q = tried_positions(self.robot, _TRIED)
        mass = self._mass_of(term, part, q)
        if np.allclose(mass, mass[0], rtol=1e-9, atol=0.0):
            self._mass = self._mass + mass[0]
            self._steady.append((term, part))
        else:
            self._moving.append((term, part))

    def _mass_of(self, term: Term, part: Float, q: Float) -> Float:
        B, n = np.shape(q)
        zero = np.zeros((B * (n + 1), n))
        ddq = np.tile(np.vstack([np.zeros((1, n)), np.eye(n)]), (B, 1))
        found = _torque(term, self.robot, Samples.from_motion(np.repeat(q, n + 1, axis=0), zero, ddq), part)
        found = found.reshape(B, n + 1, n)
        return np.asarray((found[:, 1:] - found[:, :1]).transpose(0, 2, 1))


def _torque(term: Term, robot: RobotModel, samples: Samples, part: Float) -> Float:
    known = term.known_torque(robot, term.seen(samples))
    if isinstance(term, JointTerm):
        # One line a joint: the basis itself, without the panels of a regressor.
        found = np.zeros_like(samples.q)
        acting = list(joint_indices(robot, term.joints))
        found[:, acting] = part * term.basis(robot, term.seen(samples))[:, acting]
    else:
        found = term.torque(robot, term.seen(samples), part)
    return found if known is None else found + known
