"""Motions for ROS 2: a JointTrajectory message, a goal of joint_trajectory_controller, and a bag with a launch file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np

from dynid.base import Float, ResourceError
from dynid.excitation.formats.motion import Motion, commented, listed

CONTROLLER = "/joint_trajectory_controller"
ACTION = "control_msgs/action/FollowJointTrajectory"
# s: time that the controller waits at its last point before it reports a failure.
PATIENCE_SECONDS = 1
TRAJECTORY_TOPIC = "/joint_trajectory_controller/joint_trajectory"
# Not /joint_states: a planned motion must not be taken for a measured one.
PREVIEW_TOPIC = "/planned_joint_states"
BAG_VERSION: Final = 9
LAUNCH = "play.launch.py"
# ns between the start of the bag and the trajectory message, so that subscribers are connected.
LEAD = 1_000_000_000
_LAUNCH_TEXT = '''"""Sends the planned trajectory to joint_trajectory_controller: ros2 launch {folder}/play.launch.py"""



BAG = str(Path(__file__).resolve().parent)


def generate_launch_description():
    """One process that plays the bag next to this file."""
    return LaunchDescription([ExecuteProcess(cmd=["ros2", "bag", "play", BAG], output="screen")])
'''


def seconds_and_nanoseconds(time: float) -> tuple[int, int]:
    """A time as in builtin_interfaces/Duration."""
    return divmod(round(float(time) * 1e9), 1_000_000_000)


def points(joints: Sequence[str], t: Float, q: Float, dq: Float, ddq: Float, indent: str = "") -> str:
    """Joint names and points as YAML.

    Parameters
    ----------
    joints : sequence of str
        Names, written as JSON strings, which YAML reads.
    t : ndarray, shape (n_samples,), s
        Times.
    q, dq, ddq : ndarray, shape (n_samples, n_joints)
        The motion.
    indent : str
        Start of every line.

    Returns
    -------
    str
        The text.

    """
    lines = ["joint_names: " + json.dumps(list(joints)), "points:"]
    for i, time in enumerate(t):
        sec, nanosec = seconds_and_nanoseconds(time)
        lines += [
            f"- positions: {listed(q[i])}",
            f"  velocities: {listed(dq[i])}",
            f"  accelerations: {listed(ddq[i])}",
            f"  time_from_start: {{sec: {sec}, nanosec: {nanosec}}}",
        ]
    return "".join(f"{indent}{line}\n" for line in lines)


def write_ros2(motion: Motion, path: Path) -> None:
    """Write positions with nine decimals and times to the nanosecond."""
    body = points(motion.joints, motion.t, motion.q, motion.dq, motion.ddq)
    path.write_text(commented(motion.notes()) + body, encoding="utf-8")


def write_ros2_control(motion: Motion, path: Path) -> None:
    """Write the goal; tolerances are the controller's, and the head contains the command that sends the goal."""
    send = f'ros2 action send_goal {CONTROLLER}/follow_joint_trajectory {ACTION} "$(cat {path.name})"'
    head = (
        *motion.notes(),
        "the arm must be at the first point: move it there first",
        send,
    )
    body = points(motion.joints, motion.t, motion.q, motion.dq, motion.ddq, "  ")
    text = f"trajectory:\n{body}goal_time_tolerance: {{sec: {PATIENCE_SECONDS}, nanosec: 0}}\n"
    path.write_text(commented(head) + text, encoding="utf-8")


def write_rosbag2(motion: Motion, path: Path) -> None:
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
