"""File formats of motions for controllers and programs; `excitation/settings.py` names them."""

from __future__ import annotations

from dynid.excitation.formats.lerobot import write_lerobot
from dynid.excitation.formats.motion import MotionFormat
from dynid.excitation.formats.programs import write_kuka_rsi, write_movej, write_urscript
from dynid.excitation.formats.ros import write_ros2, write_ros2_control, write_rosbag2
from dynid.excitation.formats.tables import (
    write_csv,
    write_kuka_fri,
    write_libfranka,
    write_mujoco,
    write_parquet,
)

# Rates, Hz: the control loop of libfranka, the shortest cycle of FRI (a client with a longer one uses every second or
# fifth row), and the IPO_FAST cycle of RSI.
FORMATS = {
    "csv": MotionFormat("motion.csv", write_csv, torque=True),
    "parquet": MotionFormat("motion.parquet", write_parquet, torque=True),
    "ros2": MotionFormat("joint_trajectory.yaml", write_ros2),
    "rosbag2": MotionFormat("motion_bag", write_rosbag2),
    "ros2_control": MotionFormat("follow_joint_trajectory.yaml", write_ros2_control),
    "urscript": MotionFormat("motion.script", write_urscript, joints=(6,)),
    "movej": MotionFormat("movej.script", write_movej, joints=(6,)),
    "libfranka": MotionFormat("libfranka.csv", write_libfranka, rate=1000.0),
    "kuka_rsi": MotionFormat("kuka_rsi.txt", write_kuka_rsi, joints=(6,), rate=250.0),
    "kuka_fri": MotionFormat("kuka_fri.csv", write_kuka_fri, joints=(7,), rate=1000.0),
    "lerobot": MotionFormat("lerobot", write_lerobot),
    "mujoco": MotionFormat("mujoco_ctrl.npz", write_mujoco, torque=True),
}
