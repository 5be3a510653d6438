"""Simulation of a robot that is known exactly, as its sensors measure it: a log in memory."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from dynid.base import Float, UsageError
from dynid.lab.rig import Rig
from dynid.lab.setup import TrajectoryChoice, read_setup
from dynid.log import Log
from dynid.robot import RobotModel
from dynid.trajectories import Trajectory, joints_of

# Group of the [log] table, unit and further keys of each column of a rig.
_MEASURED: dict[str, tuple[str, dict[str, str]]] = {
    "q": ("position", {"unit": "rad"}),
    "dq": ("velocity", {"unit": "rad/s"}),
    "tau": ("effort", {"unit": "N m"}),
    "i": ("effort", {"unit": "A"}),
    "theta": ("motor_position", {"unit": "rad"}),
    "theta_m": ("motor_position", {"unit": "rad", "side": "motor"}),
    "temperature": ("temperature", {"unit": "degC"}),
}


def simulate(
    robot: RobotModel,
    motion: Any = None,
    *,
    seconds: float = 20.0,
    controller: str = "ideal",
    sensors: str | Path | Rig | None = None,
    plant: str | Path | None = None,
    simulator: Literal["dynid", "mujoco"] = "dynid",
    seed: int = 0,
) -> Log:
    """Simulate a robot along a motion, and return the log of its sensors.

    Parameters
    ----------
    robot : RobotModel
        The robot; its file gives the true parameters.
    motion : plan, trajectory, str or Path, optional
        A plan of `excite`, a trajectory, or the path of one; without it a random motion.
    seconds : float, s
        Length of a random motion.
    controller : str
        "ideal", "pd", "computed-torque" or a TOML file.
    sensors : str, Path or Rig, optional
        Sensors, or their TOML file; without it an exact log at 1 kHz.
    plant : str or Path, optional
        TOML file of elastic joints, payload, friction and integrator.
    simulator : str
        "dynid" or "mujoco".
    seed : int
        Seed of sensors and random motions.

    Returns
    -------
    Log
        The log.

    Raises
    ------
    UsageError
        If settings exclude one another.
    InputErrors
        With the line of every error in a file.
    SolverError
        If the controller cannot follow the motion.

    """
    setup = read_setup(robot, str(controller), None if plant is None else Path(plant), simulator)
    rig = sensors if isinstance(sensors, Rig) else Rig() if sensors is None else Rig.read(Path(sensors))
    rig.check(robot)
    trajectory = _trajectory(robot, motion, seconds, seed)
    t, columns = rig.measure(robot, setup.motion(trajectory, rig.rate), (seed, 0))
    return Log.from_frame(pa.table({"t": t, **columns}), robot, _mapping(robot, columns), name="simulated")


def _trajectory(robot: RobotModel, motion: Any, seconds: float, seed: int) -> Trajectory:
    if motion is None:
        return TrajectoryChoice(seed=seed, duration=seconds).draw(robot, seed)
    if isinstance(motion, str | Path):
        return TrajectoryChoice.read(str(motion), robot, seconds).draw(robot, seed)
    trajectory: Trajectory = getattr(motion, "trajectory", motion)
    if not callable(getattr(trajectory, "motion", None)):
        raise UsageError(
            "trajectory",
            found=f"{type(motion).__name__} in place of a motion",
            expected="a plan of dynid.excite, a trajectory, or the path of one",
        )
    if joints_of(trajectory) != robot.n:
        raise UsageError(
            "trajectory", found=f"a motion of {joints_of(trajectory)} joints", expected=str(robot.n)
        )
    return trajectory


def _mapping(robot: RobotModel, columns: Mapping[str, Float]) -> dict[str, Any]:
    section: dict[str, Any] = {"time": {"column": "t", "unit": "s"}}
    for key, (group, entry) in _MEASURED.items():
        if f"{key}_{robot.joint_names[0]}" in columns:
            section[group] = {"columns": f"{key}_{{joint}}"} | entry
    return section
