"""A row scheme: which scalar equations are written down from samples, all linear in the same parameters."""

from __future__ import annotations

from typing import Protocol

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms


@dataclass(frozen=True, eq=False)
class Equations:
    """Equations of one batch of samples, in groups that share their columns; for torque rows, the joints.

    columns: per group the indices (w_g,) of the parameters that occur, ascending.
    panels: per group (w_g + 1, T): a line a column, the target (left-hand side) last.
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
    """The seam for row schemes: one small file with these members.

    More members may be there: `group_joints(robot)`, the joint of every group where groups are not the joints, -1 for
    a sum over all of them; `two_encoders(robot)`, the joints whose motor motion the equations need;
    `posed(robot, samples)`, which turns random states into such as the scheme is written for; and
    `regressor(robot, terms, samples, wanted)`, the columns without their target, where a term's columns are those of
    its torque and stand in no equation but those of the joints it acts on.
    """

    @property
    def name(self) -> str:
        """Name of the scheme."""
        ...

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Names of the groups of equations."""
        ...

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """Writes the equations of the samples with the wanted columns (mask over all parameters)."""
        ...


def group_joints(rows: Rows, robot: RobotModel) -> tuple[int, ...]:
    """The joint of every group of equations; the groups are the joints unless the scheme says otherwise."""
    joints_of = getattr(rows, "group_joints", None)
    return tuple(joints_of(robot)) if joints_of is not None else tuple(range(len(rows.groups(robot))))


def two_encoders(rows: Rows, robot: RobotModel) -> tuple[int, ...]:
    """The joints whose motor motion a scheme needs beside the links'; none unless it says so."""
    joints_of = getattr(rows, "two_encoders", None)
    return tuple(joints_of(robot)) if joints_of is not None else ()


def posed(rows: Rows, robot: RobotModel, samples: Samples) -> Samples:
    """Random states as the scheme needs them; as they are unless it says otherwise."""
    pose = getattr(rows, "posed", None)
    return samples if pose is None else pose(robot, samples)
