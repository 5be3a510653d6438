"""The regressor of a robot, tau = Y(q, dq, ddq) theta, with names of its columns and its base parameters."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.factor.base import STRUCTURAL_TOLERANCE, BaseMap, base_of_matrix, random_states, structural_base
from dynid.robot.model import RobotModel
from dynid.rows.torque import TorqueRows
from dynid.rows.wrench import AXES, WrenchTree
from dynid.terms.exports import Reads
from dynid.terms.rigid_body import RigidBody
from dynid.terms.term import Column, Term, Terms, states

_SHOWN = 12  # columns named in the representation


@dataclass(frozen=True, eq=False)
class Regressor:
    """Y of tau = Y theta for given states, with the meaning of its columns.

    Attributes
    ----------
    robot : RobotModel
    terms : Terms
    Y : ndarray, shape (n_samples, n_joints, p)
        (n_joints, p) for a single state.
    columns : tuple of Column
        Name, unit and prior of the p parameters.

    """

    robot: RobotModel
    terms: Terms
    Y: Float
    columns: tuple[Column, ...]

    def __repr__(self) -> str:
        return f"Regressor of '{self.robot.name}': Y {self.Y.shape}, columns {_few(self.names)}"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the p parameters: symbol and number of the link or joint, from 1."""
        return tuple(column.name for column in self.columns)

    @property
    def units(self) -> tuple[str, ...]:
        """Units of the p parameters."""
        return tuple(column.unit for column in self.columns)

    @property
    def prior(self) -> Float:
        """Values of the robot file, shape (p,); nan = unknown."""
        return np.array([column.prior for column in self.columns])

    @cached_property
    def base(self) -> BaseMap:
        """Base parameters beta = B theta that any motion can determine: see `base.B` and `base.formulas()`."""
        return structural_base(self.robot, self.terms, TorqueRows())

    @property
    def Y_base(self) -> Float:
        """Columns of the base parameters, shape (..., n_joints, n_base): Y theta = Y_base beta."""
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
    """Regressor Y of tau = Y(q, dq, ddq) theta, for all states at once.

    Torque that terms contribute without a parameter is not part of Y.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    q, dq, ddq : array_like, shape (n_samples, n_joints) or (n_joints,), SI units
        States.
    terms : Terms or Term, optional
        The model; None = rigid bodies, with ten inertial parameters per link about its joint frame: m, mcx, mcy, mcz,
        Ixx, Ixy, Iyy, Ixz, Iyz, Izz.
    rate : float, Hz, optional
        Sampling rate, for terms that use the history of the motion.
    extra : mapping of str to array_like, shape (n_samples,), optional
        Channels that the terms read.

    Returns
    -------
    Regressor

    Raises
    ------
    UsageError
        For arrays of another shape, or if an input of a term is missing.

    References
    ----------
    Atkeson, An and Hollerbach 1986; base parameters: Gautier 1991.

    """
    chosen = RigidBody() if terms is None else terms
    model = chosen if isinstance(chosen, Terms) else Terms((chosen,))
    if rate is None and model.reads_rate:
        needing = [term.name for term in model.terms if Reads.RATE in term.traits.reads]
        raise UsageError(
            "no-rate",
            found=f"states without their rate for the term {', '.join(needing)}",
            expected="rate = samples per second of consecutive states",
        )
    samples, shape = states(robot, model, q, dq, ddq, rate=rate, extra=extra)
    columns = model.columns(robot)
    Y = model.torque_regressor(robot, samples).dense(len(columns))
    return Regressor(robot, model, Y.reshape(*shape, len(columns)), columns)


def wrench_base(
    robot: RobotModel, link: str = "base", *, biases: bool = True, torque: bool = False, seed: int = 0
) -> BaseMap:
    """Base parameters of the links that a force/torque sensor carries, found from random states of the robot.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    link : str
        Link at whose frame the sensor measures; "base" for a plate under the robot.
    biases : bool
        Whether the biases of the six axes are unknown, too; they come first, so that links are combined with them.
    torque : bool
        Whether the torques of the joints are measured as well.
    seed : int
        Seed of the random states.

    Returns
    -------
    BaseMap
        Map over the biases, if they are unknown, and the ten parameters of each link.

    Raises
    ------
    InputError
        For an unknown link.
    UnfitDataError
        If the sensor carries no link that moves.

    """
    tree, columns = WrenchTree.of(robot, link), RigidBody().columns(robot)
    samples = random_states(robot, 10 * max(robot.n_bodies, 8), seed)
    motion = (samples.q, samples.dq, samples.ddq)
    Y = tree.rows(*robot.tree_motion(*motion))[:, :, 10:]
    carried = [k for k, column in enumerate(columns) if column.owner in tree.carried]
    if torque:
        Y = np.concatenate([Y, regressor(robot, *motion).Y[:, :, carried]], axis=1)
    names = [columns[k].name for k in carried]
    if biases:
        bias = np.tile(np.eye(Y.shape[1], 6), (len(Y), 1, 1))
        Y, names = np.concatenate([bias, Y], axis=2), [*(f"bias {axis}" for axis in AXES), *names]
    return base_of_matrix(Y.reshape(-1, len(names)), names, STRUCTURAL_TOLERANCE)


def _few(names: tuple[str, ...]) -> str:
    return ", ".join(names[:_SHOWN]) + (f", ... ({len(names)})" if len(names) > _SHOWN else "")
