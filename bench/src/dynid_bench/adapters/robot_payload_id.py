"""robot_payload_id on Drake, written against its published functions; not run here: it is no package of PyPI.

The steps of its identification script: data matrix by automatic differentiation, base parameters by SVD, and the SDP
with entropic regularisation towards the robot file; reflected inertia, viscous and dry friction. Its arm needs turning
joints with actuators, on a base that is welded to the world.
"""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
from robot_payload_id.data import compute_base_param_mapping, extract_numeric_data_matrix_autodiff
from robot_payload_id.environment import create_arm
from robot_payload_id.optimization import solve_inertial_param_sdp
from robot_payload_id.utils import ArmPlantComponents, JointData
from robot_payload_id.utils.param_getters import get_plant_joint_params

from dynid_bench.protocol import Answer, Float, States, Task, answer_folder, serve

WEIGHT = 1e-2  # of the regularisation, the default of its script
ADDED = {
    "add_rotor_inertia": False,
    "add_reflected_inertia": True,
    "add_viscous_friction": True,
    "add_dynamic_dry_friction": True,
    "payload_only": False,
}


def with_actuators(task: Task, path: Path) -> Path:
    """The robot file with an actuator at each joint and its base on the world, as Drake reads them from URDF."""
    tree = ElementTree.parse(task.robot)  # noqa: S314 - written by the benchmark
    root = tree.getroot()
    kinds = {joint.get("name"): joint.get("type") for joint in root.iter("joint")}
    if sliding := [name for name in task.joints if kinds[name] == "prismatic"]:
        raise ValueError(f"robot_payload_id reads turning joints only; '{sliding[0]}' slides")
    children = {child.get("link") for child in root.iter("child")}
    base = next(link.get("name", "") for link in root.iter("link") if link.get("name") not in children)
    ElementTree.SubElement(root, "link", name="world")
    weld = ElementTree.SubElement(root, "joint", name="weld", type="fixed")
    ElementTree.SubElement(weld, "parent", link="world")
    ElementTree.SubElement(weld, "child", link=base)
    for name in task.joints:
        drive = ElementTree.SubElement(root, "transmission", name=f"drive_{name}")
        ElementTree.SubElement(drive, "type").text = "transmission_interface/SimpleTransmission"
        ElementTree.SubElement(drive, "joint", name=name)
        ElementTree.SubElement(drive, "actuator", name=f"motor_{name}")
    tree.write(path)
    return path


def matrix(parts: ArmPlantComponents, motion: States) -> tuple[Float, Float, Float]:
    """Data matrix, the torque that no parameter explains, and the measured torque of a motion, sample by sample."""
    tau = motion.tau if len(motion.tau) else np.zeros_like(motion.q)
    data = JointData(motion.q, motion.dq, motion.ddq, tau, motion.t)
    W, w0, _ = extract_numeric_data_matrix_autodiff(
        plant_components=parts, joint_data=data, use_progress_bar=False, **ADDED
    )
    return np.asarray(W), np.asarray(w0), data.joint_torques.flatten()


def run(task: Task) -> Answer:
    """Identify on the training motion; the data matrix of held-out motion gives its torque."""
    if not np.allclose(task.gravity, [0.0, 0.0, -9.81], atol=0.01):
        raise ValueError("robot_payload_id assumes gravity along -z of the base")
    n = len(task.joints)
    robot = with_actuators(task, answer_folder() / "actuated.urdf")
    # user's code: begin
    plant = create_arm(arm_file_path=str(robot), num_joints=n, time_step=0.0).plant
    parts = ArmPlantComponents(plant=plant, plant_context=plant.CreateDefaultContext())
    matrices = [matrix(parts, motion) for motion in task.prepared]
    W, w0, tau = (np.concatenate(columns) for columns in zip(*matrices, strict=True))
    mapping = compute_base_param_mapping(W)
    _, result, names, variables, _ = solve_inertial_param_sdp(
        num_links=n, W_data=W @ mapping, tau_data=tau - w0, base_param_mapping=mapping,
        regularization_weight=WEIGHT,
        params_guess=get_plant_joint_params(parts.plant, parts.plant_context, **ADDED),
    )  # fmt: skip
    if not result.is_success():
        raise RuntimeError(f"the SDP ended with {result.get_solution_result()}")
    theta = np.asarray(result.GetSolution(variables))
    torque = {}
    for name, motion in task.held_out.items():
        W, w0, _ = matrix(parts, motion)
        torque[name] = (W @ theta + w0).reshape(-1, n)
    # user's code: end
    parameters = {str(name): (float(value), float("nan")) for name, value in zip(names, theta, strict=True)}
    return Answer(
        torque, parameters, packages=("drake", "robot_payload_id", "numpy"),
        settings=f"reflected inertia, viscous and dry friction; regularisation {WEIGHT:g}",
    )  # fmt: skip


if __name__ == "__main__":
    serve(run)
