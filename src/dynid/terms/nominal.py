"""Terms that are linearised about a model known in advance: small effects of the measurement, soft joints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, cast

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Side, Traits
from dynid.terms.forms import motion_slopes
from dynid.terms.friction import WIDTH, direction
from dynid.terms.rigid_body import torque_slopes
from dynid.terms.term import Term


@dataclass(frozen=True)
class Nominal:
    """A model known in advance: links, and rotor inertia, viscous and Coulomb friction and offset of every joint.

    Attributes
    ----------
    inertia : tuple of float
        Ten numbers per link about its joint frame; () = those of the robot file.
    drives : tuple of float
        Rotor inertias, viscous friction, Coulomb friction and offsets, n numbers each; () = zero.

    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()

    def bodies(self, robot: RobotModel) -> Float:
        """Inertial parameters (nb, 10); raises UnfitDataError if they are unknown."""
        inertia = np.array(self.inertia).reshape(-1, 10) if self.inertia else robot.inertia_prior
        if inertia.shape != (robot.n_bodies, 10) or not np.isfinite(inertia).all():
            raise UnfitDataError(
                "nominal-unknown",
                found="no inertial parameters for a term that needs a nominal model",
                expected=f"ten numbers for each of {robot.n_bodies} links",
                do="give them in the robot file or as inertia = [...], or use dynid identify --auto",
            )
        return np.asarray(inertia)

    def rigid(self, robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
        """Torque (T, n) of the links."""
        return (
            inverse_dynamics(robot.tree, self.bodies(robot), *robot.tree_motion(q, dq, ddq))
            @ robot.projection
        )

    def rigid_slopes(self, robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
        """Derivatives (3, T, n, n) of the torque of the links, as `rigid_body.torque_slopes` returns them."""
        return torque_slopes(robot, self.bodies(robot), q, dq, ddq)

    def torque_slopes(self, robot: RobotModel, samples: Samples) -> Float:
        """Derivatives (3, T, n, n) of the torque of links and drives."""
        total = self.rigid_slopes(robot, samples.q, samples.dq, samples.ddq)
        if self.drives:
            rotor, viscous, coulomb, _ = np.array(self.drives).reshape(4, robot.n)
            joints = np.arange(robot.n)
            steepness = (1.0 - direction(samples, WIDTH) ** 2) / WIDTH
            total[1][:, joints, joints] += viscous + coulomb * steepness
            total[2][:, joints, joints] += rotor
        return total

    def torque(self, robot: RobotModel, samples: Samples) -> Float:
        """Torque (T, n) of links and drives."""
        total = self.rigid(robot, samples.q, samples.dq, samples.ddq)
        if self.drives:
            rotor, viscous, coulomb, offset = np.array(self.drives).reshape(4, robot.n)
            sign = direction(samples, WIDTH)
            total = total + rotor * samples.ddq + viscous * samples.dq + coulomb * sign + offset
        return total


class NominalTerm(Term):
    """A term that is linearised about a nominal model.

    Subclasses have the fields `inertia` and `drives`, and define `lines`: the torque per unit of each parameter.

    Attributes
    ----------
    inertia, drives : tuple of float
        Nominal model, see `Nominal`.

    """

    inertia: tuple[float, ...]
    drives: tuple[float, ...]
    traits = Traits(side=Side.MOTOR, linearised=True)

    def __post_init__(self) -> None:
        if (
            len(self.inertia) % 10
            or len(self.drives) % 4
            or not np.isfinite([*self.inertia, *self.drives]).all()
        ):
            raise UsageError(
                "nominal",
                found=f"{len(self.inertia)} numbers in inertia and {len(self.drives)} in drives",
                expected="finite numbers, ten per link and four per joint, or none",
            )

    def near(self, robot: RobotModel, values: Mapping[str, float]) -> Self:
        """The term about values of its parameters, by name; unchanged if it has no field `about`."""
        if "about" not in self.__dataclass_fields__:
            return self
        about = tuple(values.get(column.name, 0.0) for column in self.columns(robot))
        return cast(Self, replace(cast(Any, self), about=about))

    @property
    def nominal(self) -> Nominal:
        """The nominal model."""
        return Nominal(self.inertia, self.drives)

    @abstractmethod
    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Torque (T, n) per unit of each parameter."""

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...] | None:
        """Derivatives (3, T, n, n) of each of `lines`, as `rigid_body.torque_slopes` returns them.

        None = the caller computes finite differences.
        """
        return None

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Columns of every wanted parameter on all joints."""
        index = np.flatnonzero(wanted)
        lines = self.lines(robot, samples) if len(index) else ()
        return Panels(
            columns=tuple(index.astype(np.int64) for _ in range(robot.n)),
            values=tuple(
                np.array([lines[i][:, j] for i in index]).reshape(len(index), len(samples))
                for j in range(robot.n)
            ),
        )


@motion_slopes.register(NominalTerm)
def _(term: NominalTerm, robot: RobotModel, samples: Samples) -> Float | None:
    """Derivatives of `lines`, joint after joint."""
    slopes = term.line_slopes(robot, samples)
    if slopes is None:
        return None
    by_joint = np.stack(slopes).transpose(1, 3, 4, 0, 2)
    return by_joint.reshape(3, robot.n, -1, len(samples))


def slope(values: Float, rate: float) -> Float:
    """Derivative along time (axis 0) by central differences."""
    if len(values) < 2:
        return np.zeros_like(values)
    return np.asarray(np.gradient(values, axis=0) * rate)
