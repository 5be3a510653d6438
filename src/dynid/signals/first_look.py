"""First looks at a log: time step, source of velocities, positions for the choice of a cut-off."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import CLAIMS, Diagnostics
from dynid.base.errors import UnfitDataError
from dynid.log.checks import check_log, longest_step
from dynid.log.lattice import lattice_step
from dynid.log.log import Trajectory
from dynid.log.read import Log
from dynid.signals.align import Piece, pieces
from dynid.signals.resample import at_times, is_uniform

HEAD_ROWS = 8192
EVIDENCE_SAMPLES = 200_000


def velocity_source(log: Log, sink: Diagnostics) -> Literal["differentiate", "measured"]:
    """The measured velocity where it was logged for every joint and is not quantised, else the derivative."""
    if set(log.mapping.velocity) != set(log.robot.joint_names):
        return "differentiate"
    if (lattice_step(_head(log, log.trajectories[0])[1]) > 0).any():
        sink.note("velocity", "the logged velocity is quantised: positions are differentiated instead")
        return "differentiate"
    return "measured"


def _head(log: Log, trajectory: Trajectory) -> tuple[Float, Float]:
    # Times and velocities of the first rows: of several chunks where a window leaves little of the first one.
    times, velocities, total = [np.zeros(0)], [np.zeros((0, log.robot.n))], 0
    for chunk in log.chunks(trajectory, HEAD_ROWS):
        times.append(chunk.t)
        velocities.append(chunk.dq if chunk.dq is not None else np.zeros((0, log.robot.n)))
        total += len(chunk.t)
        if total >= HEAD_ROWS:
            break
    return np.concatenate(times)[:HEAD_ROWS], np.concatenate(velocities)[:HEAD_ROWS]


def median_step(log: Log, index: int) -> float:
    """Median time step of the first rows of a trajectory; raises UnfitDataError if time does not move."""
    trajectory = log.trajectories[index]
    t, _ = _head(log, trajectory)
    steps = np.diff(t)
    steps = steps[steps > 0]
    if len(steps) == 0:
        raise UnfitDataError(
            "time-stands",
            found=f"trajectory '{trajectory.name}' without time steps",
            expected="increasing time stamps",
        )
    return float(np.median(steps))


def positions_for_evidence(log: Log, rate: float) -> list[Float]:
    """Uniform positions (n, T) of the first segments of a log, for the choice of a cut-off."""
    found, total = [], 0
    for trajectory in log.trajectories:
        segments: dict[int, list[Piece]] = {}
        for piece in pieces(log.chunks(trajectory), log.robot.prismatic, longest_step(1.0 / rate), 0):
            positions = replace(
                piece, lines=piece.lines[: log.robot.n].copy()
            )  # a view would keep all channels
            segments.setdefault(piece.segment, []).append(positions)
            total += len(piece.t)
            if total > EVIDENCE_SAMPLES:
                break
        for parts in segments.values():
            t = np.concatenate([piece.t for piece in parts])
            q = np.concatenate([piece.lines for piece in parts], axis=1)
            if len(t) > 8:
                found.append(q if is_uniform(t, rate) else at_times(t, q, np.arange(t[0], t[-1], 1.0 / rate)))
        if total > EVIDENCE_SAMPLES:
            break
    if not found:
        check_log(log, Diagnostics(accepting=frozenset(CLAIMS)))  # says what is wrong with the rows
        raise UnfitDataError(
            "no-rows", found="no run of complete rows", expected="rows without missing values"
        )
    return found
