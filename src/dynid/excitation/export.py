"""Planned motions as files: tables at any rate, ROS 2, URScript, rows for libfranka."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from enum import StrEnum
from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.atomic_write import staged_files
from dynid.base.errors import UsageError
from dynid.log.write import canonical_columns, write_log
from dynid.trajectories.moves import SmoothMoves
from dynid.trajectories.torque_sines import TorqueMotion
from dynid.trajectories.trajectory import Trajectory


class Format(StrEnum):
    """Files that a motion can be written as.

    CSV, PARQUET: t, q_<joint>, dq_<joint>, ddq_<joint>, at any rate.
    ROS2: trajectory_msgs/JointTrajectory as YAML.    URSCRIPT: movej to the start, then servoj (six joints).
    LIBFRANKA: rows t, q, dq, ddq without a header, 1 kHz.
    MOVEJ: URScript with a chain of timed movej in place of servoj; straight moves exactly, others through way points.
    """

    CSV = "csv"
    PARQUET = "parquet"
    ROS2 = "ros2"
    URSCRIPT = "urscript"
    LIBFRANKA = "libfranka"
    MOVEJ = "movej"


FILES = {
    Format.CSV: "motion.csv",
    Format.PARQUET: "motion.parquet",
    Format.ROS2: "joint_trajectory.yaml",
    Format.URSCRIPT: "motion.script",
    Format.LIBFRANKA: "libfranka.csv",
    Format.MOVEJ: "movej.script",
}
LIBFRANKA_RATE = 1000.0
LARGEST = 10_000_000
WAY_POINTS, BLEND = 8, 0.005


def times(duration: float, rate: float) -> Float:
    """Times 0, 1/rate, ... to the end of the motion, which is the last one, (T,).

    Raises UsageError for a rate that is not positive, or for more than LARGEST rows.
    """
    if not (np.isfinite(rate) and rate > 0 and duration * rate <= LARGEST):
        raise UsageError("rate", found=f"{rate} Hz for {duration:g} s", expected=f"up to {LARGEST} rows")
    return np.arange(math.ceil(duration * rate - 1e-9) + 1) / rate


def write_motion(
    folder: str | Path,
    joint_names: Sequence[str],
    trajectory: Trajectory,
    form: Format,
    rate: float = 100.0,
    suffix: str = "",
) -> Path:
    """Writes one file of a motion into a folder; returns its path.    suffix: of the name, before its ending.

    Raises UsageError for a rate out of range or an arm that the format cannot hold, ResourceError if it cannot be
    written.
    """
    t = times(trajectory.duration, LIBFRANKA_RATE if form is Format.LIBFRANKA else rate)
    q, dq, ddq = trajectory.motion(t)
    name = Path(FILES[form])
    path = Path(folder) / f"{name.stem}{suffix}{name.suffix}"
    if form in (Format.CSV, Format.PARQUET):
        # Torque beside the motion, so that the file is what `open-loop:` and a torque controller read.
        tau = trajectory.torque(t) if isinstance(trajectory, TorqueMotion) else None
        columns = canonical_columns(joint_names, q, dq, tau)
        columns |= {f"ddq_{name}": ddq[:, j] for j, name in enumerate(joint_names)}
        return write_log(path, t, columns)
    writer: Callable[[], str] = {
        Format.ROS2: lambda: ros2_yaml(joint_names, t, q, dq, ddq),
        Format.URSCRIPT: lambda: urscript(t, q),
        Format.MOVEJ: lambda: movej_chain(trajectory),
        Format.LIBFRANKA: lambda: _rows(np.concatenate([t[:, None], q, dq, ddq], axis=1)),
    }[form]
    text = writer()
    with staged_files(path) as (scratch,):
        scratch.write_text(text, encoding="utf-8")
    return path


def ros2_yaml(joint_names: Sequence[str], t: Float, q: Float, dq: Float, ddq: Float) -> str:
    """A trajectory_msgs/JointTrajectory message as YAML; names are quoted as JSON strings, which YAML reads."""
    lines = ["joint_names: " + json.dumps(list(joint_names)), "points:"]
    for i, time in enumerate(t):
        sec, nanosec = divmod(round(float(time) * 1e9), 1_000_000_000)
        lines += [
            f"- positions: {_list(q[i])}",
            f"  velocities: {_list(dq[i])}",
            f"  accelerations: {_list(ddq[i])}",
            f"  time_from_start: {{sec: {sec}, nanosec: {nanosec}}}",
        ]
    return "\n".join(lines) + "\n"


def urscript(t: Float, q: Float) -> str:
    """A URScript program: movej to the start, servoj along the motion, stopj.

    Raises UsageError for another number of joints than six or fewer than two points.
    """
    if q.shape[1] != 6 or len(t) < 2:
        raise UsageError(
            "urscript", found=f"{q.shape[1]} joints, {len(t)} points", expected="six joints, a motion"
        )
    step = float(t[1] - t[0])
    lines = ["def excitation():", f"  movej({_list(q[0])}, a=0.5, v=0.5)", "  sleep(1.0)"]
    lines += [f"  servoj({_list(row)}, t={step:.9g}, lookahead_time=0.1, gain=300)" for row in q[1:]]
    return "\n".join([*lines, "  stopj(2.0)", "end", ""])


def movej_chain(trajectory: Trajectory) -> str:
    """A URScript program of timed movej commands: a pose each for straight moves, else way points blended at BLEND m.

    Raises UsageError for another number of joints than six.
    """
    if isinstance(trajectory, SmoothMoves):
        seconds = np.diff(trajectory.starts) - trajectory.hold
        steps = [
            f"  movej({_list(q)}, t={t:.9g})" + (f"\n  sleep({hold:.9g})" if hold > 0 else "")
            for q, t, hold in zip(trajectory.poses[1:], seconds, trajectory.hold, strict=True)
        ]
        first = trajectory.poses[0]
    else:
        frequency = float(getattr(trajectory, "highest_frequency", 1.0))
        count = max(2, math.ceil(WAY_POINTS * frequency * trajectory.duration))
        t = np.linspace(0.0, trajectory.duration, count + 1)
        q = trajectory.motion(t)[0]
        ends = [f", r={BLEND}"] * (count - 1) + [""]
        steps = [f"  movej({_list(row)}, t={t[1]:.9g}{end})" for row, end in zip(q[1:], ends, strict=True)]
        first = q[0]
    if len(first) != 6:
        raise UsageError("urscript", found=f"{len(first)} joints", expected="six joints")
    start = f"  movej({_list(first)}, a=0.5, v=0.5)"
    return "\n".join(["def excitation():", start, "  sleep(1.0)", *steps, "end", ""])


def _list(values: Float) -> str:
    return "[" + ", ".join(f"{x:.9f}" for x in values) + "]"


def _rows(table: Float) -> str:
    return "".join(",".join(f"{x:.12g}" for x in row) + "\n" for row in table)
