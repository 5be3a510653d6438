"""ROS 2: a trajectory_msgs/JointTrajectory message as YAML, for `ros2 topic pub` and programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from dynid.base import Float, dataclass
from dynid.excitation.formats.motion import Motion, commented, listed


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


@dataclass(frozen=True)
class Ros2:
    """A message as YAML."""

    name: str = "joint_trajectory.yaml"
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
        """Write positions with nine decimals and times to the nanosecond."""
        body = points(motion.joints, motion.t, motion.q, motion.dq, motion.ddq)
        path.write_text(commented(motion.notes()) + body, encoding="utf-8")


FORMAT = Ros2()
