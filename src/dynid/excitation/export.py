"""Planned motions as files, in the forms that controllers and programs take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import cast

import numpy as np

from dynid.base.arrays import Float
from dynid.base.atomic_write import remove
from dynid.base.errors import ResourceError, UsageError
from dynid.excitation.formats.motion import Motion, MotionFormat, check_fit
from dynid.trajectories.trajectory import Trajectory


class Format(StrEnum):
    """Forms of a motion; each is the file of its name in `excitation/formats`.

    CSV, PARQUET: t, q_<joint>, dq_<joint>, ddq_<joint>, at any rate.
    ROS2: trajectory_msgs/JointTrajectory as YAML.    ROSBAG2: the same in a bag, with joint states and a launch file.
    ROS2_CONTROL: a goal of joint_trajectory_controller.
    URSCRIPT: movej to the start, then servoj (six joints).
    MOVEJ: URScript with a chain of timed movej in place of servoj; straight moves exactly, others through way points.
    LIBFRANKA: rows t, q, dq, ddq without a header, 1 kHz.
    KUKA_RSI: telegrams of axis corrections, 4 ms (six joints).    KUKA_FRI: rows of positions, 1 kHz (seven joints).
    LEROBOT: a data set of one episode.    MUJOCO: ctrl of position actuators.
    """

    CSV = "csv"
    PARQUET = "parquet"
    ROS2 = "ros2"
    ROSBAG2 = "rosbag2"
    ROS2_CONTROL = "ros2_control"
    URSCRIPT = "urscript"
    MOVEJ = "movej"
    LIBFRANKA = "libfranka"
    KUKA_RSI = "kuka_rsi"
    KUKA_FRI = "kuka_fri"
    LEROBOT = "lerobot"
    MUJOCO = "mujoco"

    @property
    def writer(self) -> MotionFormat:
        """What writes it."""
        return cast(MotionFormat, import_module(f"dynid.excitation.formats.{self.value}").FORMAT)

    def check(self, joint_names: Sequence[str], torque: bool = False) -> None:
        """Raises UsageError for an arm, or commanded torque, that it cannot hold."""
        check_fit(self.value, self.writer, joint_names, torque)


FILES = {form: form.writer.name for form in Format}
LARGEST = 10_000_000


def times(duration: float, rate: float) -> Float:
    """Times 0, 1/rate, ... to the end of the motion, which is the last one, (T,).

    Raises UsageError for a rate that is not positive, or for more than LARGEST rows.
    """
    if not (np.isfinite(rate) and rate > 0 and duration * rate <= LARGEST):
        raise UsageError("rate", found=f"{rate} Hz for {duration:g} s", expected=f"up to {LARGEST} rows")
    return np.arange(math.ceil(duration * rate - 1e-9) + 1) / rate


def write_motion(
    folder: str | Path,
    joint_names: Sequence[str],
    trajectory: Trajectory,
    form: Format,
    rate: float = 100.0,
    suffix: str = "",
    headline: str = "",
) -> Path:
    """Writes one form of a motion into a folder; returns the path of its file, or folder.

    suffix: of the name, before its ending.    headline: what could not be checked, which becomes the first line.
    Raises UsageError for a rate out of range or an arm that the format cannot hold, ResourceError if it cannot be
    written.
    """
    writer = form.writer
    form.check(joint_names)
    t = times(trajectory.duration, writer.rate or rate)
    name = Path(writer.name)
    path = Path(folder) / f"{name.stem}{suffix}{name.suffix}"
    motion = Motion(tuple(joint_names), t, *trajectory.motion(t), trajectory, headline)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Written elsewhere under its own name, which bags hold inside, then moved as a whole.
        with TemporaryDirectory(dir=path.parent, prefix=".motion-") as scratch:
            writer.write(motion, Path(scratch) / path.name)
            for made in sorted(Path(scratch).iterdir()):
                _moved(made, path.parent / made.name)
    except OSError as error:
        raise ResourceError(
            "cannot-write", found=f"'{path}': {error.strerror}", expected="a folder that can be written"
        ) from error
    return path


def _moved(made: Path, place: Path) -> None:
    if place.is_dir():
        remove(place)
    made.replace(place)
