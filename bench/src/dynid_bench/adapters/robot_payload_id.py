"""robot_payload_id on Drake, written against its published functions; not run here: it is no package of PyPI.

Its data matrix, base parameters by SVD and the SDP with entropic regularisation towards the robot file; viscous and dry
friction and reflected inertia, as in its scripts.
"""

from __future__ import annotations

import numpy as np
from robot_payload_id.data import compute_base_param_mapping, extract_numeric_data_matrix_autodiff
from robot_payload_id.environment import create_arm
from robot_payload_id.optimization import solve_inertial_param_sdp
from robot_payload_id.utils import ArmPlantComponents, JointData, get_plant_joint_params

from dynid_bench.protocol import Answer, Float, States, Task, serve

WEIGHT = 1e-3  # of the regularisation, as its scripts have it


def joint_data(motion: States) -> JointData:
    """States as its functions take it."""
    tau = motion.tau if len(motion.tau) else np.zeros_like(motion.q)
    return JointData(motion.q, motion.dq, motion.ddq, tau, motion.t)


def matrix(arm: ArmPlantComponents, motion: States) -> tuple[Float, Float]:
    """Data matrix and torque of a motion."""
    W, tau = extract_numeric_data_matrix_autodiff(
        plant_components=arm, joint_data=joint_data(motion), add_reflected_inertia=True,
        add_viscous_friction=True, add_dynamic_dry_friction=True,
    )  # fmt: skip
    return np.asarray(W), np.asarray(tau)


def run(task: Task) -> Answer:
    """Identify on the training motion; the data matrix of held-out motion gives its torque."""
    # user's code: begin
    n = len(task.joints)
    arm = create_arm(arm_file_path=str(task.robot), num_joints=n, time_step=0.0)
    parts = [matrix(arm, motion) for motion in task.prepared]
    W, tau = np.concatenate([part[0] for part in parts]), np.concatenate([part[1] for part in parts])
    mapping = compute_base_param_mapping(W)
    guess = get_plant_joint_params(arm.plant, arm.plant.CreateDefaultContext())
    _, result, names, variables, _ = solve_inertial_param_sdp(
        num_links=n, W_data=W @ mapping, tau_data=tau, base_param_mapping=mapping,
        regularization_weight=WEIGHT, params_guess=guess,
    )  # fmt: skip
    if not result.is_success():
        raise RuntimeError(f"the SDP ended with {result.get_solution_result()}")
    theta = result.GetSolution(variables)
    torque = {name: (matrix(arm, motion)[0] @ theta).reshape(-1, n) for name, motion in task.held_out.items()}
    # user's code: end
    parameters = {str(name): (float(value), float("nan")) for name, value in zip(names, theta, strict=True)}
    return Answer(torque, parameters, packages=("drake", "robot_payload_id", "numpy"))


if __name__ == "__main__":
    serve(run)
