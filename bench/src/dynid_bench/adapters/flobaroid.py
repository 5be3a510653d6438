"""FloBaRoID on iDynTree, written against its published classes; not run here: it is no package of PyPI.

Measurements as its .npz files, its options for a fixed base with friction and the SDP of consistent links.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import yaml
from identification.data import Data
from identification.model import Model
from identifier import Identification

from dynid_bench.protocol import Answer, Float, States, Task, answer_folder, serve

OPTIONS = {
    "floatingBase": 0,
    "identifyFriction": 1,
    "identifyFrictionSimultaneously": 1,
    "identifySymmetricVelFriction": 1,
    "identifyGravityParamsOnly": 0,
    "estimateWith": "std",
    "constrainToConsistent": 1,
    "useAPriori": 0,
    "useWLS": 1,
    "skipSamples": 4,
    "verbose": 0,
}


def measurements(task: Task, motion: States, path: Path) -> str:
    """Write a motion as its measurement files."""
    tau = motion.tau if len(motion.tau) else np.zeros_like(motion.q)
    np.savez(
        path, positions=motion.q, velocities=motion.dq, accelerations=motion.ddq, torques=tau,
        target_positions=motion.q, target_velocities=motion.dq, target_accelerations=motion.ddq,
        times=motion.t, frequency=1.0 / (motion.t[1] - motion.t[0]), base_velocity=np.zeros((len(tau), 6)),
        base_acceleration=np.zeros((len(tau), 6)), base_rpy=np.zeros((len(tau), 3)),
        contacts=np.array({}), joint_names=np.array(list(task.joints)),
    )  # fmt: skip
    return str(path)


def predicted(options: dict[str, object], task: Task, motion: States, theta: Float, path: Path) -> Float:
    """Torque of a motion from its regressor."""
    model = Model({**options, "skipSamples": 0}, str(task.robot), None)
    data = Data({**options, "skipSamples": 0})
    data.init_from_files([measurements(task, motion, path)])
    model.computeRegressors(data)
    return np.asarray(model.YStd @ theta).reshape(-1, len(task.joints))


def run(task: Task) -> Answer:
    """Identify, and evaluate the regressor on held-out motion."""
    folder = answer_folder()
    # user's code: begin
    options = yaml.safe_load(yaml.safe_dump(OPTIONS))
    files = [measurements(task, m, folder / f"train-{i}.npz") for i, m in enumerate(task.prepared)]
    identification = Identification(options, str(task.robot), None, files, None, None)
    identification.estimateParameters()
    theta = np.asarray(identification.model.xStd)
    torque = {
        name: predicted(options, task, motion, theta, folder / f"{name}.npz")
        for name, motion in task.held_out.items()
    }
    identification.urdfHelpers.replaceParamsInURDF(str(task.robot), str(folder / "robot.urdf"), theta)
    # user's code: end
    return Answer(torque, model="robot.urdf", packages=("idyntree", "numpy"))


if __name__ == "__main__":
    serve(run)
