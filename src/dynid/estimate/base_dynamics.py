"""The forward dynamics of a model as a function of motion, torque and base parameters, with its derivatives."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.estimate.compiled_dynamics import CompiledDynamics, SystemAt
from dynid.factor.base import BaseMap
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.mechanism import Mechanism
from dynid.terms.term import Terms

DIFFERENCE = 1e-5


@dataclass(frozen=True, eq=False)
class Slopes:
    """Derivatives of the accelerations of S states, all with the same parameters.

    by_position, by_velocity, by_force: (S, s, s), the last the inverse mass matrices.    by_parameter: (S, s, b).
    """

    by_position: Float
    by_velocity: Float
    by_parameter: Float
    by_force: Float


@dataclass(frozen=True, eq=False)
class BaseDynamics:
    """M(x; beta) a = u - h(x, v; beta), beta (b,) the base parameters of a robot's terms.

    Coordinates x (s,) are the joints, then the motors of the joints in `second`, those behind a spring.

    Raises UsageError for terms that read further channels or remember the motion.
    """

    robot: RobotModel
    terms: Terms
    base: BaseMap
    second: tuple[int, ...] = ()

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

    @property
    def size(self) -> int:
        """Number of coordinates s."""
        return self.frame.size

    @cached_property
    def frame(self) -> Mechanism:
        """The coordinates, and what the terms know without parameters."""
        return Mechanism(self.robot, self.terms, np.zeros(len(self.base.names)), self.second)

    def force(self, x: Float, v: Float, a: Float, beta: Float) -> Float:
        """Generalised force M a + h (S, s) of S states (S, s), each with parameters of its own, (S, b).

        Parameters (1, b) are those of all states.
        """
        if (system := self._at(beta)) is not None:
            return system.force(x, v, a)
        beta = np.broadcast_to(beta, (len(x), self.count))
        samples = self.frame.samples(x, v, a, {})
        total = self._contract(self._panels(samples), beta) + self.terms.known_torque(self.robot, samples)
        return self.frame.split(total, self._motor(samples, beta)) if self.second else total

    def mass(self, x: Float, v: Float, beta: Float) -> tuple[Float, Float]:
        """M (S, s, s) and h (S, s) of S states, each with parameters of its own, (S, b), or those of all, (1, b)."""
        if (system := self._at(beta)) is not None:
            return system.equations(x, v)
        S, s = x.shape
        beta = np.broadcast_to(beta, (S, self.count))
        a = np.tile(np.vstack([np.zeros(s), np.eye(s)]), (S, 1))
        x, v, beta = (np.repeat(values, s + 1, axis=0) for values in (x, v, beta))
        found = self.force(x, v, a, beta).reshape(S, s + 1, s)
        M = found[:, 1:] - found[:, :1]
        return 0.5 * (M + M.transpose(0, 2, 1)), found[:, 0]

    def springs(self, x: Float, v: Float, beta: Float) -> tuple[Float, Float]:
        """Stiffness K and damping D (S, s, s) between the joints and their motors: h = K x + D v + ..."""
        S, s = x.shape
        # The links alone are moved: friction of the motors is no part of the springs.
        move = DIFFERENCE * (np.arange(s) < self.robot.n)
        rest = np.zeros_like(move)
        near, fast = ((y + np.stack(shift)[:, None]).reshape(-1, s) for y, shift in (
            (x, (move, -move, rest, rest)), (v, (rest, rest, move, -move)),
        ))  # fmt: skip
        at = self.frame.samples(near, fast, np.zeros_like(near), {})
        motor = self._motor(at, np.tile(beta, (4, 1)))[:, list(self.second)].reshape(2, 2, S, -1)
        between = np.maximum((motor[:, 1] - motor[:, 0]) / (2.0 * DIFFERENCE), 0.0)
        found = np.zeros((2, S, s, s))
        for i, joint in enumerate(self.second):
            ends = [joint, self.robot.n + i]
            found[:, :, ends, ends] = between[:, :, [i]]
            found[:, :, ends, ends[::-1]] = -between[:, :, [i]]
        return found[0], found[1]

    def slopes(self, x: Float, v: Float, a: Float, beta: Float) -> Slopes:
        """Derivatives of the accelerations a at states (S, s), for parameters (b,).

        By implicit differentiation of u = Y(x, v, a) beta: those by parameters are exact, those by position and
        velocity, too, for what the compiled step knows, else central differences of the inverse dynamics.
        """
        S, s = x.shape
        if (system := self._at(beta[None])) is not None and self.compiled is not None:
            by_x, by_v, M = system.slopes(x, v, a)
            inverse = np.asarray(np.linalg.inv(M), dtype=np.float64)
            Y = self.compiled.regressor(x, v, a)
            return Slopes(-inverse @ by_x, -inverse @ by_v, -inverse @ Y, inverse)
        shift = np.zeros((1 + 4 * s, 2 * s))
        for i in range(2 * s):
            shift[1 + 2 * i, i], shift[2 + 2 * i, i] = DIFFERENCE, -DIFFERENCE
        near, fast = ((y[:, None] + dy).reshape(-1, s) for y, dy in ((x, shift[:, :s]), (v, shift[:, s:])))
        many = np.broadcast_to(beta, (len(near), len(beta)))
        force = self.force(near, fast, np.repeat(a, len(shift), axis=0), many).reshape(S, len(shift), s)
        change = ((force[:, 1::2] - force[:, 2::2]) / (2.0 * DIFFERENCE)).transpose(0, 2, 1)
        Y = self.frame.regressor(x, v, a, {}, self.base.mask)
        inverse = np.asarray(np.linalg.inv(self.mass(x, v, many[:S])[0]), dtype=np.float64)
        return Slopes(-inverse @ change[:, :, :s], -inverse @ change[:, :, s:], -inverse @ Y, inverse)

    @cached_property
    def _place(self) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
        place = np.zeros(len(self.base.names), dtype=np.int64)
        place[self.base.independent] = np.arange(self.count)
        return place

    @cached_property
    def compiled(self) -> CompiledDynamics | None:
        """The same as the compiled step knows it; None for models of which it does not know all."""
        return CompiledDynamics.of(self.frame.multibody, self.frame.parameters(self.base.mask))

    def _at(self, beta: Float) -> SystemAt | None:
        # The compiled system where all states have the same parameters (1, b).
        return self.compiled.at(beta[0]) if len(beta) == 1 and self.compiled is not None else None

    def _panels(self, samples: Samples) -> Panels:
        return self.terms.torque_regressor(self.robot, samples, self.base.mask)

    def _motor(self, samples: Samples, beta: Float) -> Float:
        panels = self.terms.motor_regressor(self.robot, samples, self.base.mask)
        return self._contract(panels, beta) + self.terms.known_motor_torque(self.robot, samples)

    def _contract(self, panels: Panels, beta: Float) -> Float:
        lines = np.ascontiguousarray(beta.T)
        torque = [
            np.einsum("ct,ct->t", values, lines[self._place[columns]])
            for columns, values in zip(panels.columns, panels.values, strict=True)
        ]
        return np.stack(torque, axis=1)
