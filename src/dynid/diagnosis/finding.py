"""What a diagnosis hands back: one effect that was found, in words, figures and a curve."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dynid.base.arrays import Float, locked
from dynid.base.records import dataclass


@dataclass(frozen=True, eq=False)
class Curve:
    """The evidence to look at: y against x, both (k,), with a second line (k,) to compare with, or none (0,)."""

    x_title: str
    y_title: str
    x: Float
    y: Float
    beside: Float
    beside_title: str = ""
    logarithmic: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "x", locked(self.x, (None,), "x"))
        object.__setattr__(self, "y", locked(self.y, (len(self.x),), "y"))
        beside = np.zeros(0) if not len(self.beside) else self.beside
        object.__setattr__(self, "beside", locked(beside, (None,), "beside"))


@dataclass(frozen=True)
class Interval:
    """A stretch of a trajectory, s on the log's clock."""

    trajectory: str
    start: float
    end: float


@dataclass(frozen=True, eq=False)
class ResidualFinding:
    """One effect that the model lacks or the log has wrong.

    identifier: of the diagnosis.    level: "warning" if it matters to the torque, else "note".
    joint: its name, "" = the whole robot.    title, text, advice: what was seen, on what evidence, what to do.
    share: part of the residual's mean square that it explains, 0 to 1.
    p_value: chance of evidence as strong in a log without the effect, all that was looked through counted.
    times: when it was seen, () = throughout.    masked: whether these times were left out of the fit.
    """

    identifier: str
    level: str
    joint: str
    title: str
    text: str
    advice: str
    share: float
    p_value: float
    times: tuple[Interval, ...] = ()
    curve: Curve | None = None
    masked: bool = False


def finding_to_dict(finding: ResidualFinding) -> dict[str, Any]:
    """Plain data of a finding."""
    data = {key: value for key, value in vars(finding).items() if key not in ("times", "curve")}
    data["times"] = [vars(interval) for interval in finding.times]
    data["curve"] = None if finding.curve is None else dict(vars(finding.curve))
    return data


def finding_from_dict(data: Mapping[str, Any]) -> ResidualFinding:
    """A finding from plain data."""
    curve = data["curve"]
    if curve is not None:
        arrays = {key: np.array(curve[key], dtype=np.float64) for key in ("x", "y", "beside")}
        curve = Curve(**{**curve, **arrays})
    times = tuple(Interval(**interval) for interval in data["times"])
    return ResidualFinding(**{**data, "times": times, "curve": curve})
