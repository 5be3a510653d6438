"""The laboratory: robots known exactly with sensors, campaigns of simulated logs, MuJoCo, replays of exported files."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base import lazily

if TYPE_CHECKING:
    from dynid.lab.rig import Rig, SensorFile
    from dynid.lab.setup import Setup, build_plant, read_setup

__all__ = [
    "Rig",
    "SensorFile",
    "Setup",
    "build_plant",
    "read_setup",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "rig": "Rig SensorFile",
        "setup": "Setup build_plant read_setup",
    },
)
