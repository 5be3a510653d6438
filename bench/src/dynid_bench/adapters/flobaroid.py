"""FloBaRoID on iDynTree, written against its published classes; not run here: it is no package of PyPI.

The steps of its `identifier.py` with the authors' configuration of their KUKA LWR, `configs/kuka_lwr4.yaml`. Changed is
only what belongs to that robot or to its files: the mass of the arm, samples skipped at the start, meshes, and plots.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import identifier
import numpy as np
import yaml
from identification.data import Data
from identifier import Identification

from dynid_bench.protocol import Answer, Float, States, Task, answer_folder, serve

CONFIGURATION = Path("configs") / "kuka_lwr4.yaml"


def options_of(task: Task) -> dict[str, Any]:
    """The authors' options; those that keep masses near the robot file's only where it has some."""
    path = Path(identifier.__file__).parent / CONFIGURATION
    known = int(task.priors)
    return {
        "useRBDL": 0,  # read by some of its versions, and not in the file
        "identifyFriction": 1,  # the same
        **yaml.safe_load(path.read_text(encoding="utf-8")),
        "startOffset": 0,
        "restrictCOMtoHull": 0,
        "limitMassVal": None,
        "limitOverallMass": known,
        "limitMassToApriori": known,
        "identifyClosestToCAD": known,
        "createPlots": 0,
        "verbose": 0,
    }


def measurements(motion: States, order: Sequence[int], path: Path) -> str:
    """Write a motion as its measurement files, with joints in its order."""
    tau = motion.tau if len(motion.tau) else np.zeros_like(motion.q)
    np.savez(
        path, positions=motion.q[:, order], velocities=motion.dq[:, order], accelerations=motion.ddq[:, order],
        torques=tau[:, order], times=motion.t, frequency=1.0 / (motion.t[1] - motion.t[0]),
    )  # fmt: skip
    return str(path)


def predicted(fit: Identification, file: str) -> Float:
    """Torque of a file from its regressor and the identified parameters, in the package's order of joints."""
    fit.data = Data(fit.opt)
    fit.data.init_from_files([[file]])
    fit.model.computeRegressors(fit.data)
    fit.estimateRegressorTorques()
    return np.asarray(fit.tauEstimated)


def run(task: Task) -> Answer:
    """Identify, and evaluate the regressor on held-out motion."""
    if not np.allclose(task.gravity, [0.0, 0.0, -9.81], atol=0.01):
        raise ValueError("FloBaRoID assumes gravity along -z of the base")
    folder = answer_folder()
    # user's code: begin
    fit = Identification(options_of(task), str(task.robot), None, None, None, None)
    order = [list(task.joints).index(name) for name in fit.model.jointNames]
    files = [measurements(m, order, folder / f"train-{i}.npz") for i, m in enumerate(task.prepared)]
    fit.data.init_from_files([files])
    fit.estimateParameters()
    model = ""
    if fit.paramHelpers.isPhysicalConsistent(fit.model.xStd):
        model = "robot.urdf"
        fit.urdfHelpers.replaceParamsInURDF(
            input_urdf=str(task.robot), output_urdf=str(folder / model), new_params=fit.model.xStd
        )
    torque = {}
    for name, motion in task.held_out.items():
        torque[name] = np.empty_like(motion.q)
        torque[name][:, order] = predicted(fit, measurements(motion, order, folder / f"{name}.npz"))
    # user's code: end
    return Answer(
        torque, model=model, packages=("idyntree", "numpy"),
        settings=f"{CONFIGURATION.as_posix()} without its mass, meshes and skipped samples",
    )  # fmt: skip


if __name__ == "__main__":
    serve(run)
