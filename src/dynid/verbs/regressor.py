"""The regressor of a robot in one line: tau = Y(q, dq, ddq) theta, its columns by name, its base parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.factor.base import BaseMap, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Column, Term, Terms, states

_SHOWN = 12  # columns that are named


@dataclass(frozen=True, eq=False)
class Regressor:
    """Y of tau = Y theta for given states, with what its columns stand for.

    Y: (T, n, p) for states (T, n), (n, p) for one state (n,).    columns: (p,) name, unit and prior of the parameters.
    """

    robot: RobotModel
    terms: Terms
    Y: Float
    columns: tuple[Column, ...]

    def __repr__(self) -> str:
        return f"Regressor of '{self.robot.name}': Y {self.Y.shape}, columns {_few(self.names)}"

    @property
    def names(self) -> tuple[str, ...]:
        """(p,) names of the parameters: symbol and number of the body or joint, from 1."""
        return tuple(column.name for column in self.columns)

    @property
    def units(self) -> tuple[str, ...]:
        """(p,) units of the parameters."""
        return tuple(column.unit for column in self.columns)

    @property
    def prior(self) -> Float:
        """(p,) values of the robot's description; nan = unknown."""
        return np.array([column.prior for column in self.columns])

    @cached_property
    def base(self) -> BaseMap:
        """The b base parameters that any motion can determine, beta = B theta: `base.B`, `base.formulas()`."""
        return structural_base(self.robot, self.terms, TorqueRows())

    @property
    def Y_base(self) -> Float:
        """The columns of the base parameters, (..., n, b): Y theta = Y_base beta."""
        return self.Y[..., self.base.independent]


def regressor(
    robot: RobotModel,
    q: npt.ArrayLike,
    dq: npt.ArrayLike,
    ddq: npt.ArrayLike,
    *,
    terms: Terms | Term | None = None,
    rate: float | None = None,
    extra: Mapping[str, npt.ArrayLike] | None = None,
) -> Regressor:
    """Y of tau = Y(q, dq, ddq) theta, for all states at once.

    q, dq, ddq: (T, n), or (n,) for one state, in SI units.    terms: the model; None = rigid bodies alone, ten inertial
    parameters a body: m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz about its joint's frame.
    rate: Hz, for terms that read the motion in time.    extra: channels (T,) that terms read, by name.
    Torque that terms contribute without a parameter is no part of Y.

    Raises UsageError for arrays of another shape, or without what the terms read.
    Source: Atkeson, An and Hollerbach 1986; base parameters: Gautier 1991.
    """
    chosen = RigidBody() if terms is None else terms
    model = chosen if isinstance(chosen, Terms) else Terms((chosen,))
    samples, shape = states(robot, model, q, dq, ddq, rate=rate, extra=extra)
    columns = model.columns(robot)
    Y = model.torque_regressor(robot, samples).dense(len(columns))
    return Regressor(robot, model, Y.reshape(*shape, len(columns)), columns)


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", ... ({len(names)})" if len(names) > _SHOWN else "")
