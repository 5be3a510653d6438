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
    from dynid.lab.campaign import Campaign as Campaign
    from dynid.lab.campaign import record as record
    from dynid.lab.campaign import run_campaign as run_campaign
    from dynid.lab.mujoco import MujocoSimulator as MujocoSimulator
    from dynid.lab.mujoco import export_mjcf as export_mjcf
    from dynid.lab.replay import Replay as Replay
    from dynid.lab.rig import Rig as Rig
    from dynid.lab.rig import SensorFile as SensorFile
    from dynid.lab.setup import ControllerFile as ControllerFile
    from dynid.lab.setup import PlantFile as PlantFile
    from dynid.lab.setup import Setup as Setup
    from dynid.lab.setup import TrajectoryChoice as TrajectoryChoice
    from dynid.lab.setup import build_plant as build_plant
    from dynid.lab.setup import read_setup as read_setup
    from dynid.lab.torque_replay import TorqueReplay as TorqueReplay
    from dynid.lab.torque_replay import replay_torque as replay_torque

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "campaign": "Campaign record run_campaign",
        "mujoco": "MujocoSimulator export_mjcf",
        "replay": "Replay",
        "rig": "Rig SensorFile",
        "setup": "ControllerFile PlantFile Setup TrajectoryChoice build_plant read_setup",
        "torque_replay": "TorqueReplay replay_torque",
    },
)
