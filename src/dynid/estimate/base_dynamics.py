"""The forward dynamics of a model as a function of motion, torque and base parameters, with its derivatives."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dynid.arrays import Float
from dynid.errors import UsageError
from dynid.factor.base import BaseMap
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

DIFFERENCE = 1e-5


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the accelerations of S states, all with the same parameters.

    by_position, by_velocity: (S, n, n).    by_parameter: (S, n, b).    by_torque: (S, n, n), inverse mass matrices.
    """

    by_position: Float
    by_velocity: Float
    by_parameter: Float
    by_torque: Float


@dataclass(frozen=True, eq=False)
class BaseDynamics:
    """ddq = M(q; beta)^-1 (tau - c(q, dq; beta)) of a rigid robot, beta (b,) the base parameters of its terms.

    Raises UsageError for terms that read further channels or remember the motion.
    """

    robot: RobotModel
    terms: Terms
    base: BaseMap

    def __post_init__(self) -> None:
        if self.terms.channels() or self.terms.remembers:
            raise UsageError(
                "base-dynamics",
                found="terms that read " + (", ".join(self.terms.channels()) or "the motion before"),
                expected="torque as a function of position, velocity and acceleration",
            )

    @property
    def count(self) -> int:
        """Number of base parameters."""
        return len(self.base.independent)

    def acceleration(self, q: Float, dq: Float, beta: Float, tau: Float) -> tuple[Float, Float]:
        """Accelerations (S, n) and mass matrices (S, n, n) of S states, each with parameters of its own.

        q, dq, tau: (S, n).    beta: (S, b).
        """
        S, n = q.shape
        ddq = np.tile(np.vstack([np.zeros(n), np.eye(n)]), (S, 1))
        found = self._torque(
            np.repeat(q, n + 1, axis=0), np.repeat(dq, n + 1, axis=0), ddq, np.repeat(beta, n + 1, axis=0)
        ).reshape(S, n + 1, n)
        M = found[:, 1:] - found[:, :1]
        M = 0.5 * (M + M.transpose(0, 2, 1))
        return np.asarray(np.linalg.solve(M, (tau - found[:, 0])[..., None])[..., 0]), M

    def slopes(self, q: Float, dq: Float, beta: Float, ddq: Float, M: Float) -> Slopes:
        """Derivatives at states (S, n) with their accelerations and mass matrices, for parameters (b,).

        By implicit differentiation of tau = Y(q, dq, ddq) beta: those by parameters are exact, those by position and
        velocity central differences of the inverse dynamics.
        """
        S, n = q.shape
        shift = np.zeros((1 + 4 * n, 2 * n))
        for i in range(2 * n):
            shift[1 + 2 * i, i], shift[2 + 2 * i, i] = DIFFERENCE, -DIFFERENCE
        near, fast = ((x[:, None] + dx).reshape(-1, n) for x, dx in ((q, shift[:, :n]), (dq, shift[:, n:])))
        samples = Samples.from_motion(near, fast, np.repeat(ddq, len(shift), axis=0))
        panels = self._panels(samples)
        torque = self._contract(panels, np.broadcast_to(beta, (len(samples), len(beta))))
        torque = (torque + self.terms.known_torque(self.robot, samples)).reshape(S, len(shift), n)
        change = ((torque[:, 1::2] - torque[:, 2::2]) / (2.0 * DIFFERENCE)).transpose(0, 2, 1)
        Y = np.zeros((S, n, self.count))
        for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
            Y[:, j, self._place[columns]] = values[:, :: len(shift)].T
        inverse = np.asarray(np.linalg.inv(M), dtype=np.float64)
        return Slopes(-inverse @ change[:, :, :n], -inverse @ change[:, :, n:], -inverse @ Y, inverse)

    @cached_property
    def _place(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        place = np.zeros(len(self.base.names), dtype=np.int64)
        place[self.base.independent] = np.arange(self.count)
        return place

    def _panels(self, samples: Samples) -> Panels:
        return self.terms.torque_regressor(self.robot, samples, self.base.mask)

    def _torque(self, q: Float, dq: Float, ddq: Float, beta: Float) -> Float:
        samples = Samples.from_motion(q, dq, ddq)
        return self._contract(self._panels(samples), beta) + self.terms.known_torque(self.robot, samples)

    def _contract(self, panels: Panels, beta: Float) -> Float:
        lines = np.ascontiguousarray(beta.T)
        torque = [
            np.einsum("ct,ct->t", values, lines[self._place[columns]])
            for columns, values in zip(panels.columns, panels.values, strict=True)
        ]
        return np.stack(torque, axis=1)
