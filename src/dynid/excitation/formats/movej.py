"""URScript of timed movej commands: straight moves exactly, other motions through way points."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dynid.base import UsageError, dataclass
from dynid.excitation.formats.motion import Motion, commented, listed
from dynid.trajectories import SmoothMoves, Trajectory

# Way points per period of the highest frequency, and blend radius, m: more way points follow the motion more closely.
WAY_POINTS, BLEND = 8, 0.005


def movej_chain(trajectory: Trajectory) -> str:
    """A URScript program of timed movej commands: one pose per straight move, else way points blended at BLEND m.

    Raises UsageError for another number of joints than six.
    """
    if isinstance(trajectory, SmoothMoves):
        seconds = np.diff(trajectory.starts) - trajectory.hold
        steps = [
            f"  movej({listed(q)}, t={t:.9g})" + (f"\n  sleep({hold:.9g})" if hold > 0 else "")
            for q, t, hold in zip(trajectory.poses[1:], seconds, trajectory.hold, strict=True)
        ]
        first = trajectory.poses[0]
    else:
        frequency = float(getattr(trajectory, "highest_frequency", 1.0))
        count = max(2, math.ceil(WAY_POINTS * frequency * trajectory.duration))
        t = np.linspace(0.0, trajectory.duration, count + 1)
        q = trajectory.motion(t)[0]
        ends = [f", r={BLEND}"] * (count - 1) + [""]
        steps = [f"  movej({listed(row)}, t={t[1]:.9g}{end})" for row, end in zip(q[1:], ends, strict=True)]
        first = q[0]
    if len(first) != 6:
        raise UsageError("urscript", found=f"{len(first)} joints", expected="six joints")
    start = f"  movej({listed(first)}, a=0.5, v=0.5)"
    return "\n".join(["def excitation():", start, "  sleep(1.0)", *steps, "end", ""])


@dataclass(frozen=True)
class MoveJ:
    """A program of movej."""

    name: str = "movej.script"
    joints: tuple[int, ...] = (6,)
    rate: float | None = None
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write poses with nine decimals."""
        notes = (
            "between way points the controller chooses the path",
            *motion.notes("rad, s, rad/s, rad/s^2"),
        )
        # The headline must be the first line.
        ordered = (notes[1], notes[0], *notes[2:]) if motion.headline else notes
        path.write_text(commented(ordered) + movej_chain(motion.trajectory), encoding="utf-8")


FORMAT = MoveJ()
