"""Derivatives of regressors and torques with respect to motion, exact for rigid bodies without an adjoint.

The torque of rigid bodies is linear in ddq, of second degree in dq and in prismatic positions, and a trigonometric
polynomial of second degree in every revolute position. Differences over finite shifts are therefore exact: no step
size, no truncation, rounding alone. Other terms are differenced centrally with a small step.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Bool, Float, Int
from dynid.kernel import Panels, inverse_dynamics, torque_regressor
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Term, Terms

_NEAR, _FAR = np.pi / 4, 3 * np.pi / 4
_NEAR_WEIGHT, _FAR_WEIGHT = 0.5 * (1 + np.sqrt(0.5)), 0.5 * (np.sqrt(0.5) - 1)
STEP = 1e-5


@dataclass(frozen=True, eq=False)
class Stencil:
    """Shifted states and the weights that turn values there into derivatives.

    keep: (S, 3) factors of q, dq, ddq.    shift: (S, 3, n) added to them.
    weights: (3 n, S), rows in the order of q, dq, ddq: derivative = weights @ values.
    """

    keep: Float
    shift: Float
    weights: Float

    def states(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """All shifted motions one behind the other, each (S T, n)."""
        n = q.shape[1]
        parts = [
            (self.keep[:, k, None, None] * x[None] + self.shift[:, k, None, :]).reshape(-1, n)
            for k, x in enumerate((q, dq, ddq))
        ]
        return parts[0], parts[1], parts[2]


def rigid_stencil(prismatic: tuple[bool, ...]) -> Stencil:
    """The exact stencil for rigid bodies: seven states a revolute joint, five a prismatic one, and one more."""
    n = len(prismatic)
    rows: list[tuple[tuple[float, float, float], int, int, float, list[tuple[int, float]]]] = []
    for j in range(n):
        shifts = [(1.0, 0.5), (-1.0, -0.5)]
        if not prismatic[j]:
            shifts = [
                (s * x, s * w) for x, w in ((_NEAR, _NEAR_WEIGHT), (_FAR, _FAR_WEIGHT)) for s in (1.0, -1.0)
            ]
        rows += [((1.0, 1.0, 1.0), 0, j, x, [(j, w)]) for x, w in shifts]
        # Coriolis forces do not depend on the acceleration, so it is left out, and its rounding with it.
        rows += [((1.0, 1.0, 0.0), 1, j, s, [(n + j, 0.5 * s)]) for s in (1.0, -1.0)]
        rows.append(((1.0, 0.0, 0.0), 2, j, 1.0, [(2 * n + j, 1.0)]))
    rows.append(((1.0, 0.0, 0.0), 2, 0, 0.0, [(2 * n + j, -1.0) for j in range(n)]))
    return _stencil(n, rows)


def difference_stencil(n: int, step: float = STEP) -> Stencil:
    """Central differences: 6 n states."""
    return _stencil(
        n,
        [
            ((1.0, 1.0, 1.0), k, j, s * step, [(k * n + j, 0.5 * s / step)])
            for k in range(3)
            for j in range(n)
            for s in (1.0, -1.0)
        ],
    )


def _stencil(
    n: int, rows: list[tuple[tuple[float, float, float], int, int, float, list[tuple[int, float]]]]
) -> Stencil:
    keep, shift, weights = np.zeros((len(rows), 3)), np.zeros((len(rows), 3, n)), np.zeros((3 * n, len(rows)))
    for i, (factors, quantity, joint, by, targets) in enumerate(rows):
        keep[i] = factors
        shift[i, quantity, joint] = by
        for target, weight in targets:
            weights[target, i] = weight
    return Stencil(keep, shift, weights)


@dataclass(frozen=True, eq=False)
class MotionGradient:
    """Chain rule through the regressor or the torque of a model: what each motion value does.

    Returns of its methods hold (3, T, n): derivatives with respect to q, dq, ddq.
    """

    robot: RobotModel
    terms: Terms

    def of_contraction(self, q: Float, dq: Float, ddq: Float, wanted: Int, G: tuple[Float, ...]) -> Float:
        """Gradient (3, T, n) of sum over samples and joints of <G_j, Y_j>.

        wanted: (b,) the columns of Y that occur, ascending.    G: per joint (T, b).
        """
        total = np.zeros((3, *q.shape))
        first = 0
        for term in self.terms:
            width = len(term.columns(self.robot))
            inside = (wanted >= first) & (wanted < first + width)
            if inside.any():
                mask = np.zeros(width, dtype=np.bool_)
                mask[wanted[inside] - first] = True
                place = np.full(width, -1)
                place[wanted[inside] - first] = np.flatnonzero(inside)
                if isinstance(term, RigidBody):
                    total += self._rigid(q, dq, ddq, mask, place, G)
                else:
                    total += self._other(term, q, dq, ddq, mask, place, G)
            first += width
        return total

    def _rigid(self, q: Float, dq: Float, ddq: Float, mask: Bool, place: Int, G: tuple[Float, ...]) -> Float:
        robot = self.robot
        tree = robot.tree_motion(q, dq, ddq)
        stencil = rigid_stencil(tuple(bool(x) for x in robot.tree.prismatic))
        panels = torque_regressor(robot.tree, *stencil.states(*tree), columns=mask)
        P = robot.projection
        weights = [
            sum(P[i, j] * G[j] for j in np.flatnonzero(P[i])) if robot.has_mimic else G[i]
            for i in range(robot.n_bodies)
        ]
        d = _contracted(stencil, panels, place, weights, len(q)).reshape(3, robot.n_bodies, len(q))
        return np.asarray(np.einsum("kit,ij->ktj", d, P))

    def _other(
        self,
        term: Term,
        q: Float,
        dq: Float,
        ddq: Float,
        mask: Bool,
        place: Int,
        G: tuple[Float, ...],
    ) -> Float:
        stencil = difference_stencil(self.robot.n)
        samples = Samples.from_motion(*stencil.states(q, dq, ddq))
        panels = term.torque_regressor(self.robot, samples, mask)
        d = _contracted(stencil, panels, place, list(G), len(q))
        return d.reshape(3, self.robot.n, len(q)).transpose(0, 2, 1)

    def of_torque(self, q: Float, dq: Float, ddq: Float, theta: Float) -> tuple[Float, Float]:
        """Torque (T, n) of the model and its derivatives (3, T, n, n): quantity, sample, motion joint, torque joint."""
        robot = self.robot
        samples = Samples.from_motion(q, dq, ddq)
        tau = self.terms.torque(robot, samples, theta)
        total = np.zeros((3, *q.shape, robot.n))
        first = 0
        for term in self.terms:
            part = theta[first : first + len(term.columns(robot))]
            first += len(part)
            if isinstance(term, RigidBody):
                stencil = rigid_stencil(tuple(bool(x) for x in robot.tree.prismatic))
                states = stencil.states(*robot.tree_motion(q, dq, ddq))
                values = inverse_dynamics(robot.tree, part, *states).reshape(len(stencil.keep), -1)
                d = (stencil.weights @ values).reshape(3, robot.n_bodies, len(q), robot.n_bodies)
                total += np.einsum("kita,ij,ab->ktjb", d, robot.projection, robot.projection, optimize=True)
            elif part.any():
                stencil = difference_stencil(robot.n)
                shifted = Samples.from_motion(*stencil.states(q, dq, ddq))
                values = term.torque(robot, shifted, part).reshape(len(stencil.keep), -1)
                d = (stencil.weights @ values).reshape(3, robot.n, len(q), robot.n)
                total += d.transpose(0, 2, 1, 3)
        return tau, total


def _contracted(stencil: Stencil, panels: Panels, place: Int, G: list[Float], T: int) -> Float:
    S = len(stencil.keep)
    total = np.zeros((S, T))
    for columns, values, weight in zip(panels.columns, panels.values, G, strict=True):
        if len(columns):
            total += np.einsum("wst,tw->st", values.reshape(len(columns), S, T), weight[:, place[columns]])
    return np.asarray(stencil.weights @ total)
