"""ros2_control: a goal of joint_trajectory_controller's action control_msgs/FollowJointTrajectory, as YAML."""

from __future__ import annotations

from pathlib import Path

from dynid.base import dataclass
from dynid.excitation.formats.motion import Motion, commented
from dynid.excitation.formats.ros2 import points

CONTROLLER = "/joint_trajectory_controller"
ACTION = "control_msgs/action/FollowJointTrajectory"
# s: time that the controller waits at its last point before it reports a failure.
PATIENCE_SECONDS = 1


@dataclass(frozen=True)
class Ros2Control:
    """A goal as YAML."""

    name: str = "follow_joint_trajectory.yaml"
    joints: tuple[int, ...] = ()
    rate: float | None = None
    torque: bool = False

    def write(self, motion: Motion, path: Path) -> None:
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


FORMAT = Ros2Control()
