"""What was found of a log: its decisions, and the columns of every channel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from pathlib import Path

from dynid.base.records import dataclass
from dynid.layouts.decision import Decision, Refusal
from dynid.layouts.names import Family
from dynid.robot.model import RobotModel


@dataclass(frozen=True)
class Group:
    """The columns of one channel by joint.

    slides: column and unit of joints that slide where the others turn.    apart: whether their rows are not those of
    the positions.
    """

    family: Family
    columns: dict[str, str]
    slides: dict[str, tuple[str, str]] = field(default_factory=dict)
    apart: bool = False

    @property
    def all_columns(self) -> tuple[str, ...]:
        """Of all joints."""
        return (*self.columns.values(), *(column for column, _ in self.slides.values()))


@dataclass(frozen=True)
class Proposal:
    """What was found of a log, for an experiment file.

    log: a file, or those of one recording by their labels.
    decisions: in the order in which they are asked.    groups: columns of "position", "velocity", "effort".
    locked: where joints that the log does not have stand.    unused: columns that nothing was made of.
    cited: sources as reasons name them -> the recorder alone.    refusal: why no answer helps; None = one does.
    """

    robot: RobotModel
    log: Path | Mapping[str, Path]
    topic: str | None
    decisions: tuple[Decision, ...]
    groups: dict[str, Group]
    gains: dict[str, float]
    locked: dict[str, float]
    unused: tuple[str, ...]
    cited: Mapping[str, str] = field(default_factory=dict)
    refusal: Refusal | None = None

    def __getitem__(self, key: str) -> Decision:
        return next((one for one in self.decisions if one.key == key), Decision(key, None, optional=True))

    @property
    def open(self) -> tuple[Decision, ...]:
        """What is left to ask."""
        return tuple(one for one in self.decisions if not one.sure)
