"""A recording: time, motion, torque and commands of a robot's joints in SI units, decoded once from the files of a log.

All code that works on measured motion reads a recording. It has no columns, units or files: these belong to the
package `log`, which creates recordings.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.recording.chunk import RawChunk, Trajectory, in_order, joined, pieces_of, taken, within
    from dynid.recording.commands import Commands, delayed, servo_torque, slopes, speed_of_law
    from dynid.recording.recording import Channels, Recording

__all__ = [
    "Channels",
    "Commands",
    "RawChunk",
    "Recording",
    "Trajectory",
    "delayed",
    "in_order",
    "joined",
    "pieces_of",
    "servo_torque",
    "slopes",
    "speed_of_law",
    "taken",
    "within",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "chunk": "RawChunk Trajectory in_order joined pieces_of taken within",
        "commands": "Commands delayed servo_torque slopes speed_of_law",
        "recording": "Channels Recording",
    },
)
