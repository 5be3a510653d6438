"""First looks at a log: time step, time base, signals for the choice of velocities and of a cut-off."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import tee

import numpy as np

from dynid.base.diagnostics import CLAIMS, Diagnostics
from dynid.base.errors import UnfitDataError
from dynid.log.checks import check_log
from dynid.log.log import RawChunk, Trajectory
from dynid.log.read import Log
from dynid.log.time_order import longest_step
from dynid.signals.align import Piece, clean_rows, pieces
from dynid.signals.coherence import Signals
from dynid.signals.resample import at_times, is_uniform
from dynid.signals.time_base import TimeBase, find_time_base

HEAD_ROWS = 8192
EVIDENCE_SAMPLES = 200_000
WINDOW_SECONDS, WINDOWS = 10.0, 6


def first_look(log: Log, index: int) -> tuple[float, TimeBase]:
    """Median time step of the first rows of a trajectory, and what is to be done to its rows; they are read once.

    Raises UnfitDataError if time does not move.
    """
    trajectory = log.trajectories[index]
    for_step, for_base = tee(log.chunks(trajectory, HEAD_ROWS))
    return _median_step(trajectory, for_step), _time_base(for_base, log.robot.n)


def median_step(log: Log, index: int) -> float:
    """Median time step of the first rows of a trajectory; raises UnfitDataError if time does not move."""
    trajectory = log.trajectories[index]
    return _median_step(trajectory, log.chunks(trajectory, HEAD_ROWS))


def _time_base(chunks: Iterable[RawChunk], joints: int) -> TimeBase:
    rows, total = [], 0
    for t, lines in clean_rows(chunks):
        rows.append((t, lines))
        total += len(t)
        if total >= HEAD_ROWS:
            break
    if not rows:
        return TimeBase()
    t, lines = np.concatenate([t for t, _ in rows]), np.concatenate([x for _, x in rows], axis=1)
    return find_time_base([(t[:HEAD_ROWS], lines[:, :HEAD_ROWS])], joints)


def _median_step(trajectory: Trajectory, chunks: Iterable[RawChunk]) -> float:
    times, total = [np.zeros(0)], 0
    for chunk in chunks:  # several where a window leaves little of the first one
        times.append(chunk.t)
        total += len(chunk.t)
        if total >= HEAD_ROWS:
            break
    if not total:
        raise UnfitDataError(
            "no-rows",
            found=f"no row of trajectory '{trajectory.name}' with a value in the columns that are read",
            expected="positions of its joints",
        )
    steps = np.diff(np.concatenate(times)[:HEAD_ROWS])
    steps = steps[steps > 0]
    if len(steps) == 0:
        raise UnfitDataError(
            "time-stands",
            found=f"trajectory '{trajectory.name}' without time steps",
            expected="increasing time stamps",
        )
    return float(np.median(steps))


def signals_for_evidence(log: Log, rate: float, bases: Sequence[TimeBase]) -> list[Signals]:
    """Uniform positions, velocities and torques of the first segments of a log, for what is chosen from its spectra."""
    n, m = log.robot.n, log.mapping
    velocity, effort = set(m.velocity) == set(log.robot.joint_names), m.gives_torque
    wanted = slice(n * (1 + bool(m.velocity) + effort))
    found, total = [], 0
    for trajectory, base in zip(log.trajectories, bases, strict=True):
        segments: dict[int, list[Piece]] = {}
        rows = pieces(log.chunks(trajectory), log.robot.prismatic, longest_step(1.0 / rate), 0, base)
        for piece in rows:
            segments.setdefault(piece.segment, []).append(replace(piece, lines=piece.lines[wanted]))
            total += len(piece.t)
            if total > EVIDENCE_SAMPLES:
                break
        for parts in segments.values():
            t = np.concatenate([piece.t for piece in parts])
            lines = np.concatenate([piece.lines for piece in parts], axis=1)
            if len(t) <= 8:
                continue
            if not is_uniform(t, rate):
                lines = at_times(t, lines, np.arange(t[0], t[-1], 1.0 / rate))
            found.append(
                Signals(lines[:n], lines[n : 2 * n] if velocity else None, lines[-n:] if effort else None)
            )
        if total > EVIDENCE_SAMPLES:
            break
    if not found:
        check_log(log, Diagnostics(accepting=frozenset(CLAIMS)))  # says what is wrong with the rows
        raise UnfitDataError(
            "no-rows", found="no run of complete rows", expected="rows without missing values"
        )
    return found


def windows_of(parts: Sequence[Signals], rate: float) -> list[Signals]:
    """At most a minute of the stretches, in windows of ten seconds spread evenly over them: enough for spectra."""
    size = int(WINDOW_SECONDS * rate)
    whole = [(part, start) for part in parts for start in range(0, max(part.q.shape[1] - size // 2, 1), size)]
    wanted = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), WINDOWS)).astype(int))
    return [whole[i][0].part(whole[i][1], whole[i][1] + size) for i in wanted]
