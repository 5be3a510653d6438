"""A row scheme: which scalar equations are written down from samples, all linear in the same parameters."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Protocol

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations by group, with the left side (target) last in every panel.

    Attributes
    ----------
    columns : tuple of ndarray, shape (w_g,)
        Indices of the parameters of each group, ascending.
    panels : tuple of ndarray, shape (w_g + 1, T)
        One line per column and sample, the target last.

    """

    columns: tuple[Int, ...]
    panels: tuple[Float, ...]

    def __post_init__(self) -> None:
        for columns, panel in zip(self.columns, self.panels, strict=True):
            if panel.shape[0] != len(columns) + 1:
                raise UsageError(
                    "equation-shape",
                    found=f"a panel of {panel.shape[0]} lines for {len(columns)} columns",
                    expected="one line per column, and one for the target",
                )


class Rows(Protocol):
    """Interface of a row scheme: one small file with these members.

    Further members are optional. `group_joints(robot)`: the joint of every group if groups are not the joints, -1 for a
    sum over all. `two_encoders(robot)`: joints whose motor motion the equations need. `posed(robot, samples)`: turns
    random states into states that the scheme is written for. `projected(robot, samples, torque)`: what of torques is
    scored. `regressor(robot, terms, samples, wanted)`: columns
    without their target, if a term has the same columns as in torque equations, and only in the equations of the joints
    it acts on.
    """

    @property
    def name(self) -> str:
        """Name of the scheme."""
        ...

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Names of the groups of equations."""
        ...

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """Equations of the samples.

        Parameters
        ----------
        robot : RobotModel
            Robot.
        terms : Terms
            Terms of the model.
        samples : Samples
            Samples.
        wanted : ndarray of bool, shape (p,)
            Columns to write.

        Returns
        -------
        Equations
            Equations.

        """
        ...


def group_joints(rows: Rows, robot: RobotModel) -> tuple[int, ...]:
    """Joint of every group of equations; the groups are the joints unless the scheme defines otherwise."""
    joints_of = getattr(rows, "group_joints", None)
    return tuple(joints_of(robot)) if joints_of is not None else tuple(range(len(rows.groups(robot))))


def two_encoders(rows: Rows, robot: RobotModel) -> tuple[int, ...]:
    """Joints whose motor motion a scheme needs in addition to that of the links; none by default."""
    joints_of = getattr(rows, "two_encoders", None)
    return tuple(joints_of(robot)) if joints_of is not None else ()


def torque_projection(rows: Rows, robot: RobotModel, samples: Samples) -> Callable[[Float], Float]:
    """What of torques (T, n) the equations of a scheme contain: all by default, else what no contact force changes."""
    projected = getattr(rows, "projected", None)
    return (lambda torque: torque) if projected is None else partial(projected, robot, samples)


def posed(rows: Rows, robot: RobotModel, samples: Samples) -> Samples:
    """Random states as the scheme needs them; unchanged by default."""
    pose = getattr(rows, "posed", None)
    return samples if pose is None else pose(robot, samples)
