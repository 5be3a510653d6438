"""Motions as programs and telegrams of robot controllers: URScript and KUKA RSI."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np

from dynid.base import Float, UsageError
from dynid.excitation.formats.motion import Motion, commented, listed
from dynid.trajectories import SmoothMoves, Trajectory

LOOKAHEAD, GAIN = 0.1, 300  # within 0.03 to 0.2 s and 100 to 2000, the ranges of servoj
# Way points per period of the highest frequency, and blend radius, m: more way points follow the motion more closely.
WAY_POINTS, BLEND = 8, 0.005
SENDER = "dynid"


def urscript(t: Float, q: Float) -> str:
    """A URScript program of servoj; raises UsageError unless there are six joints and at least two points."""
    if q.shape[1] != 6 or len(t) < 2:
        raise UsageError(
            "urscript",
            found=f"{q.shape[1]} joints, {len(t)} points",
            expected="six joints and at least two points",
        )
    step = float(t[1] - t[0])
    lines = ["def excitation():", f"  movej({listed(q[0])}, a=0.5, v=0.5)", "  sleep(1.0)"]
    lines += [
        f"  servoj({listed(row)}, t={step:.9g}, lookahead_time={LOOKAHEAD:g}, gain={GAIN})" for row in q[1:]
    ]
    return "\n".join([*lines, "  stopj(2.0)", "end", ""])


def write_urscript(motion: Motion, path: Path) -> None:
    """Write positions with nine decimals."""
    text = commented(motion.notes("rad, s, rad/s, rad/s^2")) + urscript(motion.t, motion.q)
    path.write_text(text, encoding="utf-8")


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


def write_movej(motion: Motion, path: Path) -> None:
    """Write poses with nine decimals."""
    notes = (
        "between way points the controller chooses the path",
        *motion.notes("rad, s, rad/s, rad/s^2"),
    )
    # The headline must be the first line.
    ordered = (notes[1], notes[0], *notes[2:]) if motion.headline else notes
    path.write_text(commented(ordered) + movej_chain(motion.trajectory), encoding="utf-8")


def telegrams(motion: Motion) -> list[str]:
    """Telegrams for RSI_AXISCORR in absolute mode; the sender fills <IPOC> with that of the robot's packet."""
    degrees = np.rad2deg(motion.q - motion.q[0])
    return [
        f'<Sen Type="{SENDER}"><AK '
        + " ".join(f'A{j + 1}="{x:.9f}"' for j, x in enumerate(row))
        + "/><IPOC>0</IPOC></Sen>"
        for row in degrees
    ]


def write_kuka_rsi(motion: Motion, path: Path) -> None:
    """Write one telegram per line, and start pose (as KRL) and notes in a second file."""
    path.write_text("\n".join(telegrams(motion)) + "\n", encoding="utf-8")
    start = ", ".join(f"A{j + 1} {x:.9f}" for j, x in enumerate(np.rad2deg(motion.q[0])))
    notes = motion.notes("telegrams in degrees from the start, 4 ms apart")
    path.with_suffix(".start.src").write_text(commented(notes, "; ") + f"PTP {{{start}}}\n", encoding="utf-8")
