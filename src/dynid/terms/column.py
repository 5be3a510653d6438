"""A column of the regressor: one parameter, what it belongs to, and how readers write it."""

from __future__ import annotations

from enum import StrEnum

import numpy as np

from dynid.base.records import dataclass


class Of(StrEnum):
    """What a parameter belongs to."""

    JOINT = "joint"
    BODY = "body"
    ROBOT = "robot"


@dataclass(frozen=True)
class Symbol:
    """A parameter as a reader writes it: a letter with an index, and what it stands for.

    name: of the parameter without its number, "fv" of fv3.
    """

    name: str
    letter: str
    index: str
    words: str


@dataclass(frozen=True)
class Column:
    """One parameter of a term: one column of the regressor.

    name: unique within a model, e.g. "Izz3" or "fv2" (numbers count bodies or joints from 1).
    unit: of the parameter.    term: name of the term.    owner: index of the body or joint it belongs to.
    prior: value from the description, nan = unknown.    lower, upper: physical bounds; both zero = not there at all.
    of: whether it belongs to a joint, a body (then one of ten inertial parameters) or the whole robot.
    """

    name: str
    unit: str
    term: str
    owner: int
    prior: float = np.nan
    lower: float = -np.inf
    upper: float = np.inf
    of: Of = Of.JOINT

    @property
    def absent(self) -> bool:
        """Whether the parameter is known to be zero, as those of a body without mass are."""
        return self.lower == self.upper == 0.0


class Side(StrEnum):
    """On which side of the transmission a term acts: the link's, the motor's, or both."""

    LINK = "link"
    MOTOR = "motor"
    BOTH = "both"


class Scale(StrEnum):
    """What a term does to the size of all torques: nothing, it leaves it open, or it fixes it."""

    KEEPS = "keeps"
    FREES = "frees"
    FIXES = "fixes"
