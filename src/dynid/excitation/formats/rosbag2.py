"""ROS 2 bag (MCAP): the trajectory as one message for a controller, and joint states for rviz; with a launch file."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np

from dynid.base import ResourceError, dataclass
from dynid.excitation.formats.motion import Motion, commented
from dynid.excitation.formats.ros2 import seconds_and_nanoseconds

TRAJECTORY_TOPIC = "/joint_trajectory_controller/joint_trajectory"
# Not /joint_states: a planned motion must not be taken for a measured one.
PREVIEW_TOPIC = "/planned_joint_states"
BAG_VERSION: Final = 9
LAUNCH = "play.launch.py"
# ns between the start of the bag and the trajectory message, so that subscribers are connected.
LEAD = 1_000_000_000
_LAUNCH_TEXT = '''"""Sends the planned trajectory to joint_trajectory_controller: ros2 launch {folder}/play.launch.py"""

from pathlib import Path

from launch import LaunchDescription
from launch.actions import ExecuteProcess

BAG = str(Path(__file__).resolve().parent)


def generate_launch_description():
    """One process that plays the bag next to this file."""
    return LaunchDescription([ExecuteProcess(cmd=["ros2", "bag", "play", BAG], output="screen")])
'''


@dataclass(frozen=True)
class Rosbag2:
    """A folder: metadata.yaml, an MCAP file, a launch file."""

    name: str = "motion_bag"
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write the bag; raises ResourceError without the package rosbags."""
        try:
            from rosbags.rosbag2 import StoragePlugin, Writer
            from rosbags.typesys import Stores, get_typestore
        except ImportError as error:
            raise ResourceError(
                "missing-package",
                found="no rosbags",
                expected="the package that writes ROS bags",
                do="pip install 'dynid[bags]'",
            ) from error
        store = get_typestore(Stores.ROS2_HUMBLE)
        with Writer(path, version=BAG_VERSION, storage_plugin=StoragePlugin.MCAP) as writer:
            trajectory, states = _messages(store, motion)
            for topic, stamped in ((TRAJECTORY_TOPIC, [(LEAD, trajectory)]), (PREVIEW_TOPIC, states)):
                kind = stamped[0][1].__msgtype__
                connection = writer.add_connection(topic, kind, typestore=store)
                for stamp, message in stamped:
                    writer.write(connection, stamp, store.serialize_cdr(message, kind))
        launch = commented(motion.notes()) + _LAUNCH_TEXT.format(folder=path.name)
        (path / LAUNCH).write_text(launch, encoding="utf-8")


def _messages(store: Any, motion: Motion) -> tuple[Any, list[tuple[int, Any]]]:
    kinds = store.types
    header = kinds["std_msgs/msg/Header"]
    time, duration = kinds["builtin_interfaces/msg/Time"], kinds["builtin_interfaces/msg/Duration"]
    point, state = kinds["trajectory_msgs/msg/JointTrajectoryPoint"], kinds["sensor_msgs/msg/JointState"]
    none, names = np.zeros(0), list(motion.joints)
    at = [seconds_and_nanoseconds(t) for t in motion.t]
    # A stamp of zero makes the controller start at once.
    trajectory = kinds["trajectory_msgs/msg/JointTrajectory"](
        header(time(0, 0), ""),
        names,
        [
            point(q, dq, ddq, none, duration(*span))
            for q, dq, ddq, span in zip(motion.q, motion.dq, motion.ddq, at, strict=True)
        ],
    )
    states = [
        (LEAD + sec * 1_000_000_000 + nanosec, state(header(time(sec, nanosec), ""), names, q, dq, none))
        for (sec, nanosec), q, dq in zip(at, motion.q, motion.dq, strict=True)
    ]
    return trajectory, states


FORMAT = Rosbag2()
