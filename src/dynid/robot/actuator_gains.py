"""What inputs and forces of a description's actuators are worth at the joints."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError
from dynid.robot.mjcf import compile_mjcf
from dynid.robot.mjcf_actuators import torque_gains
from dynid.robot.model import RobotModel
from dynid.robot.source import read_again

_XML = (".xml", ".mjcf")


def actuator_gains(robot: RobotModel) -> dict[str, Float]:
    """Joint torque per unit of an actuator's "input" and of its "force", (n,); {} where the description has none.

    Read from the MJCF anew, which only logs of simulated actuators ask for; nan where a joint has no actuator of its
    own, or one with a law that is no gain.
    """
    path = Path(robot.source)
    try:
        if path.suffix.lower() not in _XML or (root := read_again(path, robot.reading)).tag != "mujoco":
            return {}
        compiled = compile_mjcf(root, path, robot.reading, Diagnostics())
    except (DynidError, OSError):
        return {}  # it was read before: the file is gone or changed, and says nothing now
    mujoco, model = compiled.mujoco, compiled.model
    numbers = [mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_JOINT, name) for name in robot.joint_names]
    of_input, of_force = torque_gains(mujoco, model, numbers)
    found = {"input": of_input, "force": of_force}
    return {kind: gains for kind, gains in found.items() if np.isfinite(gains).any()}
