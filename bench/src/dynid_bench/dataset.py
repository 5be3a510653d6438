"""A data set: a robot, its logs, and which of them are held out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dynid.base import Float
from dynid_bench.bodies import Body
from dynid_bench.protocol import Motion

# Kinds of held-out motion, in the order of tables.
REGIONS = ("same", "repeated", "slower", "faster", "elsewhere", "moves")


@dataclass(frozen=True, eq=False)
class DataSet:
    """A set with its logs in memory.

    Parameters
    ----------
    name, title, source, licence : str
        What it is and where it comes from.
    developed_on : bool
        Whether dynid was developed on it.
    reason : str
        Reason of the split.
    bodies : list of Body
        Kinematics, with the inertias of the robot file where it has some.
    robot_file : Path or None
        Robot file as published, or as it comes with dynid; None for made sets.
    cutoff : float, Hz
        Cutoff frequency of the scores.
    gravity : ndarray, shape (3,)
        Gravity.
    motors : ndarray, shape (k, n)
        Motors that turn with several joints.
    train : list of Motion
        Training motion.
    held_out : mapping of str to list of Motion
        Held-out motion by region, with torque.
    loaded : list of Motion
        Motion with a payload.
    repeats : list of list of Motion
        Separate recordings of one robot, for intervals.
    servo : mapping or None
        Gains of the drives, of logs without torque.
    payload : float, kg, or None
        True mass of the payload.
    truth : str
        The rigid robot as MJCF, of made sets.

    """

    name: str
    title: str
    source: str
    licence: str
    developed_on: bool
    reason: str
    bodies: list[Body]
    robot_file: Path | None
    cutoff: float
    gravity: Float
    motors: Float
    train: list[Motion]
    held_out: Mapping[str, list[Motion]]
    loaded: list[Motion] = field(default_factory=list)
    repeats: list[list[Motion]] = field(default_factory=list)
    servo: Mapping[str, list[float]] | None = None
    payload: float | None = None
    truth: str = ""

    @property
    def joints(self) -> list[str]:
        """Names of the joints."""
        return [body.joint for body in self.bodies]

    @property
    def has_priors(self) -> bool:
        """Whether the robot file has inertias."""
        return all(body.inertia is not None for body in self.bodies)

    def about(self) -> dict[str, Any]:
        """Plain data for the report."""
        seconds = {
            region: sum(float(motion.t[-1] - motion.t[0]) for motion in motions)
            for region, motions in {"training": self.train, **self.held_out}.items()
        }
        return {
            "name": self.name,
            "title": self.title,
            "source": self.source,
            "licence": self.licence,
            "developed_on": self.developed_on,
            "reason": self.reason,
            "cutoff": self.cutoff,
            "joints": self.joints,
            "seconds": seconds,
            "regions": [region for region in REGIONS if region in self.held_out],
            "payload": self.payload,
            "commands": self.servo is not None,
        }
