"""figaroh's documented path: a class for the robot, a unified configuration, weighted least squares.

Filter, friction, rotor inertia and offset are settings of its configuration; its defaults are kept otherwise.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import yaml
from figaroh.identification.base_identification import BaseIdentification
from figaroh.tools.regressor import build_regressor_basic, build_regressor_reduced
from figaroh.tools.robot import Robot

from dynid_bench.protocol import Answer, Task, answer_folder, serve

# user's code: begin


def configuration(task: Task, rate: float) -> dict[str, object]:
    """The unified configuration."""
    return {
        "schema_version": "2.0",
        "robot": {"name": task.name, "properties": {"joints": {"active_joints": list(task.joints)}}},
        "tasks": {
            "identification": {
                "enabled": True,
                "type": "dynamic_identification",
                "problem": {
                    "model_components": {"friction": True, "actuator_inertia": True, "joint_offset": True},
                    "wls": True,
                    "qr_relative_tolerance": 1e-4,
                },
                "mechanics": {
                    "friction_coefficients": {
                        "viscous": [0.0] * len(task.joints),
                        "static": [0.0] * len(task.joints),
                    },
                    "actuator_inertias": [0.0] * len(task.joints),
                    "joint_offsets": [0.0] * len(task.joints),
                    "reduction_ratios": [1.0] * len(task.joints),
                },
                "coupling": {"has_coupled_wrist": False},
                "signal_processing": {
                    "sampling_frequency": rate,
                    "cutoff_frequency": min(task.cutoff, 0.45 * rate),
                },
                "select_stage": "physical_fit",
                "physical_fit": {"enabled": True},
            }
        },
    }


class Identification(BaseIdentification):  # type: ignore[misc]
    """The robot's class, as figaroh's examples write it."""

    task: Task

    def load_trajectory_data(self, data_source: str | None = None) -> dict[str, object]:
        """All prepared motion, one after the other."""
        motions = self.task.prepared
        return {
            "timestamps": np.concatenate([motion.t for motion in motions]),
            "positions": np.concatenate([motion.q for motion in motions]),
            "velocities": np.concatenate([motion.dq for motion in motions]),
            "accelerations": np.concatenate([motion.ddq for motion in motions]),
            "torques": np.concatenate([motion.tau for motion in motions]),
        }


def indices(robot: Robot, task: Task) -> dict[str, object]:
    """Active joints as the examples name them to the base class."""
    numbers = [robot.model.getJointId(name) for name in task.joints]
    joints = [robot.model.joints[number] for number in numbers]
    return {
        "act_Jid": numbers,
        "act_J": joints,
        "act_idxq": [joint.idx_q for joint in joints],
        "act_idxv": [joint.idx_v for joint in joints],
    }


# user's code: end


def run(task: Task) -> Answer:
    """Identify, and evaluate the base regressor on held-out motion."""
    rate = 1.0 / float(np.median(np.diff(task.prepared[0].t)))
    with tempfile.TemporaryDirectory() as folder:
        settings = Path(folder) / "robot.yaml"
        settings.write_text(yaml.safe_dump(configuration(task, rate)), encoding="utf-8")
        # user's code: begin
        robot = Robot(str(task.robot), package_dirs=str(task.robot.parent))
        fit = Identification(robot, str(settings))
        fit.task = task
        fit.identif_config.update(indices(robot, task))
        fit.initialize()
        fit.solve(decimate=True, decimation_factor=10, plotting=False, wls=True)
        # user's code: end
    torque = {}
    for name, motion in task.held_out.items():
        full = build_regressor_basic(robot, motion.q, motion.dq, motion.ddq, fit.identif_config)
        base = build_regressor_reduced(full, fit._idx_eliminated)[:, fit._base_indices]
        torque[name] = (base @ fit.phi_base).reshape(len(task.joints), len(motion.t)).T
    model = ""
    try:
        fit.export_urdf(str(task.robot), str(answer_folder() / "robot.urdf"))
        model = "robot.urdf"
    except ValueError as error:
        print(error)  # noqa: T201 - of a program
    deviations = np.asarray(fit.result["wls_std_deviations"], dtype=float) / 100.0 * np.abs(fit.phi_base)
    parameters = {
        name: (float(value), 1.96 * float(deviation))
        for name, value, deviation in zip(fit.params_base, fit.phi_base, deviations, strict=True)
    }
    return Answer(
        torque, parameters, None, model, ("figaroh", "pin", "numpy"),
        "weighted least squares, friction, rotor inertia, offset; physical fit for the export",
    )  # fmt: skip


if __name__ == "__main__":
    serve(run)
