"""mujoco.sysid by its documented path: parameters with bounds, measured rollouts, `build_residual_fn`, `optimize`.

Every link has a mass and a centre (its default; the inertia grows with the mass; pseudo-inertias do not compile in
4.0.0), every joint damping, dry friction and armature. Rollouts are stretches of 0.4 s under
the measured torque from the measured state; the torque of held-out motion is MuJoCo's inverse dynamics.
"""

from __future__ import annotations

from collections.abc import Callable

import mujoco
import numpy as np
from mujoco import sysid

from dynid_bench.protocol import Answer, Float, Task, answer_folder, serve

# 90 iterations end within 10 minutes of processor time on a made set; 200 are the package's default.
STRETCH, MOST, STEP, ITERATIONS = (
    0.4,
    20,
    0.002,
    90,
)  # s, stretches, s, of the optimiser
FRICTION = ("damping", "frictionloss", "armature")


# user's code: begin


def specification(task: Task) -> mujoco.MjSpec:
    """The robot with a motor and two sensors on each joint."""
    spec = mujoco.MjSpec.from_file(str(task.robot))
    spec.option.timestep = STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.gravity = task.gravity
    spec.option.disableflags = int(mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT)
    for joint in task.joints:
        motor = spec.add_actuator(name=f"motor_{joint}", target=joint, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        motor.set_to_motor()
        spec.joint(joint).armature = 0.01
        for kind, sensor in (
            ("pos", mujoco.mjtSensor.mjSENS_JOINTPOS),
            ("vel", mujoco.mjtSensor.mjSENS_JOINTVEL),
        ):
            spec.add_sensor(
                name=f"{joint}_{kind}", type=sensor, objtype=mujoco.mjtObj.mjOBJ_JOINT, objname=joint
            )
    return spec


def setter(joint: str, name: str) -> Callable[[mujoco.MjSpec, sysid.Parameter], None]:
    """Write a parameter of a joint."""

    def write(spec: mujoco.MjSpec, parameter: sysid.Parameter) -> None:
        value = float(parameter.value[0])
        target = spec.joint(joint)
        setattr(target, name, [value, 0, 0] if isinstance(getattr(target, name), np.ndarray) else value)

    return write


def parameters_of(task: Task, spec: mujoco.MjSpec) -> sysid.ParameterDict:
    """All links and joints, with wide bounds; wider where the robot file has no inertias."""
    model, parameters = spec.compile(), sysid.ParameterDict()
    wide = 10.0 if task.priors else 100.0
    size = np.max([np.abs(motion.tau).max(axis=0) for motion in task.train], axis=0)
    for i in range(len(task.joints)):
        parameters.add(
            sysid.body_inertia_param(
                spec, model, f"link_{i + 1}", scale_rot_inertia=True,
                mass_bound_mult=np.array([1.0 / wide, wide]),
            )
        )  # fmt: skip
    for joint, largest in zip(task.joints, size, strict=True):
        for name, share in zip(FRICTION, (0.1, 0.05, 0.02), strict=True):
            parameters.add(
                sysid.Parameter(
                    f"{joint}_{name}", nominal=share * largest, min_value=1e-4 * largest, max_value=5.0 * largest,
                    modifier=setter(joint, name),
                )
            )  # fmt: skip
    return parameters


def rollouts(task: Task, spec: mujoco.MjSpec) -> list[sysid.ModelSequences]:
    """Stretches spread over the training motion."""
    model = spec.compile()
    pieces = []
    for motion in task.prepared:
        length = max(3, int(STRETCH / (motion.t[1] - motion.t[0])))
        pieces += [(motion, k, length) for k in range(0, len(motion.t) - length - 1, length)]
    chosen = [pieces[k] for k in np.linspace(0, len(pieces) - 1, min(MOST, len(pieces))).astype(int)]
    states, controls, sensors = [], [], []
    for motion, k, length in chosen:
        part = slice(k, k + length)
        t = motion.t[part] - motion.t[k]
        seen = np.empty((length, 2 * len(task.joints)))
        seen[:, ::2], seen[:, 1::2] = motion.q[part], motion.dq[part]
        states.append(sysid.create_initial_state(model, motion.q[k], motion.dq[k], np.zeros(0)))
        controls.append(sysid.TimeSeries(t, motion.tau[part]))
        sensors.append(sysid.TimeSeries.from_names(t, seen, model))
    names = [f"stretch_{k}" for k in range(len(chosen))]
    return [sysid.ModelSequences("robot", spec, names, states, controls, sensors)]


def inverse(model: mujoco.MjModel, q: Float, dq: Float, ddq: Float) -> Float:
    """Torque of a motion (T, n)."""
    data, tau = mujoco.MjData(model), np.empty_like(q)
    for k in range(len(q)):
        data.qpos[:], data.qvel[:], data.qacc[:] = q[k], dq[k], ddq[k]
        mujoco.mj_inverse(model, data)
        tau[k] = data.qfrc_inverse
    return tau


# user's code: end


def run(task: Task) -> Answer:
    """Optimise, then inverse dynamics."""
    # user's code: begin
    spec = specification(task)
    parameters = parameters_of(task, spec)
    residual = sysid.build_residual_fn(models_sequences=rollouts(task, spec), n_threads=1)
    optimum, result = sysid.optimize(
        parameters, residual, optimizer="mujoco", max_iters=ITERATIONS, verbose=True
    )
    model = sysid.apply_param_modifiers(optimum, spec)
    torque = {name: inverse(model, m.q, m.dq, m.ddq) for name, m in task.held_out.items()}
    # user's code: end
    residuals, _, _ = residual(optimum.as_vector(), optimum)
    _, half = sysid.calculate_intervals(residuals, np.asarray(result.jac))
    names = [f"{name}[{k}]" for name in optimum.keys() for k in range(optimum[name].size)]  # noqa: SIM118
    (answer_folder() / "robot.xml").write_text(spec.to_xml(), encoding="utf-8")
    done = len(result.extras["objective"]) - 1  # the last entry is the end
    return Answer(
        torque, {n: (float(v), float(h)) for n, v, h in zip(names, optimum.as_vector(), half, strict=True)}, None,
        "robot.xml", ("mujoco", "numpy", "scipy"), f"stretches of {STRETCH} s, {done} iterations",
    )  # fmt: skip


if __name__ == "__main__":
    serve(run)
