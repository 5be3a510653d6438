"""Scenes of recorded motion."""

from __future__ import annotations

from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import UsageError
from dynid.log.log import Trajectory
from dynid.log.read import Log
from dynid.scene.scene import FRAME_RATE, Scene, scene_of


def scene_of_log(log: Log, trajectory: str | None = None, **options: Any) -> Scene:
    """The robot as a log moved it.

    trajectory: name of one; None = the longest.    options: as for `scene_of`.
    Raises UsageError for a name that the log does not have, or a trajectory without two complete rows.
    """
    named = {one.name: one for one in log.trajectories}
    if trajectory is not None and trajectory not in named:
        raise UsageError(
            "no-trajectory", found=f"trajectory '{trajectory}'", expected="one of " + ", ".join(sorted(named))
        )
    chosen = (
        max(log.trajectories, key=lambda one: one.end_time - one.start_time)
        if trajectory is None
        else named[trajectory]
    )
    t, q = positions_of(log, chosen)
    if len(t) < 2:
        raise UsageError(
            "no-motion",
            found=f"{len(t)} complete rows in '{chosen.name}'",
            expected="positions of all joints",
        )
    return scene_of(log.robot, t, q, **options)


def positions_of(log: Log, trajectory: Trajectory) -> tuple[Float, Float]:
    """Times (T,), which grow, and positions (T, n) of the complete rows, one for each of twice as many as frames."""
    times: list[Float] = []
    positions: list[Float] = []
    last = -np.inf
    for chunk in log.chunks(trajectory):
        complete = np.isfinite(chunk.t) & np.isfinite(chunk.q).all(axis=1)
        t, q = chunk.t[complete], chunk.q[complete]
        cell = np.floor(t * 2.0 * FRAME_RATE)
        before = np.maximum.accumulate(np.concatenate([[last], cell]))[:-1]
        fresh = cell > before
        times.append(t[fresh])
        positions.append(q[fresh])
        last = max(last, float(cell.max(initial=-np.inf)))
    return np.concatenate(times), np.concatenate(positions)
