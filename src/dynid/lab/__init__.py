"""The laboratory: simulated robots whose parameters are known exactly.

A plant with friction, elastic joints and a payload follows a trajectory under a controller, and a rig of sensors turns
its motion into a log. Campaigns repeat this with many seeds in parallel processes. MuJoCo can replace dynid's own
simulation as an independent check. Replays run exported files in MuJoCo and pinocchio on a measured log and compare
torque and motion.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base import lazily

if TYPE_CHECKING:
    from dynid.lab.campaign import Campaign, record, run_campaign
    from dynid.lab.mujoco import MujocoSimulator, export_mjcf
    from dynid.lab.rig import Rig, SensorFile
    from dynid.lab.setup import ControllerFile, PlantFile, Setup, TrajectoryChoice, build_plant, read_setup
    from dynid.lab.torque_replay import TorqueReplay, replay_torque

__all__ = [
    "Campaign",
    "ControllerFile",
    "MujocoSimulator",
    "PlantFile",
    "Rig",
    "SensorFile",
    "Setup",
    "TorqueReplay",
    "TrajectoryChoice",
    "build_plant",
    "export_mjcf",
    "read_setup",
    "record",
    "replay_torque",
    "run_campaign",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "campaign": "Campaign record run_campaign",
        "mujoco": "MujocoSimulator export_mjcf",
        "rig": "Rig SensorFile",
        "setup": "ControllerFile PlantFile Setup TrajectoryChoice build_plant read_setup",
        "torque_replay": "TorqueReplay replay_torque",
    },
)
