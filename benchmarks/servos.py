"""Held-out commands replayed in MuJoCo: models by dynid and by mujoco.sysid from one log of positions and commands.

    python benchmarks/servos.py --data DATA --out servos.json [--robots aliengo_pace z1_pace] [--minutes 10]

Both get the first 70 % of the same log, the same model and the same gains, and both estimate inertias, armatures,
viscous and dry friction and a delay, starting at that model. dynid runs its default command. mujoco.sysid minimises
the difference of the simulated positions by its default optimizer on one thread until it has converged or its processor
time is up, and the best point counts; its delay is one of the commands, of which position actuators are capable. The
last 30 % of the commands are then simulated by each model under its own law. Finished parts are kept, so that
a run that was cut off goes on; mujoco.sysid needs `pip install colorama tabulate absl-py matplotlib mediapy`.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import DATA, parser

import mujoco
import numpy as np

from benchmarks.real import COMMANDS_ONLY
from dynid.base import Diagnostics, Float
from dynid.exporters import ExportModel, new_mjcf
from dynid.identification import Experiment, identify, open_log
from dynid.lab.replay import replay
from dynid.log import Log

# s: of simulation, while it fits (longer steps are faster) and in the replay.
FIT_STEP, REPLAY_STEP = 2.5e-3, 1e-3
# Bounds of armature in kg m^2, of viscous friction in N m s/rad, of dry friction in N m, of the delay in s.
BOUNDS = {"armature": 0.5, "damping": 20.0, "frictionloss": 10.0}
LONGEST_DELAY = 0.1


class OutOfTime(Exception):
    """Processor time is up."""


def read(folder: Path, scratch: Path) -> tuple[Log, Log]:
    """Training and held-out part."""
    file = scratch / f"{folder.name}.toml"
    file.write_text(COMMANDS_ONLY[folder.name])
    experiment = Experiment.read(file)
    robot = experiment.robot(folder / "robot.xml", Diagnostics())
    parts = (experiment.data.train, experiment.data.validate_on)
    train, unseen = (open_log(experiment, [folder / "data.parquet"], robot, p, Diagnostics()) for p in parts)
    return train, unseen


def by_dynid(train: Log, unseen: Log) -> dict[str, Any]:
    """The default command and its replay."""
    started = time.process_time()
    run = identify(train.robot, train, validation=unseen)
    seconds = time.process_time() - started
    outcome = replay(run, unseen)
    model, description = outcome.total
    return {
        "seconds": seconds,
        "mrad": 1e3 * model,
        "joints": (1e3 * outcome.model).tolist(),
        "description": None if description is None else 1e3 * description,
        "torque": run.validations[0].scores.total_relative,
    }


def moves(log: Log) -> tuple[Float, Float, Float]:
    """Time, measured positions and what position actuators are to be told, which have no commanded velocity."""
    # Of torque without a delay, so that no row is left out.
    servo = log.robot.drive.servo
    assert servo is not None
    (trajectory,) = log.trajectories
    desired = log.commands(trajectory)
    raw = replace(log, robot=log.robot.with_servo(replace(servo, delay=0.0, hold=0.0))).read(trajectory)
    return desired.t - desired.t[0], raw.q, desired.q_des + servo.kd / servo.kp * desired.dq_des


def by_sysid(train: Log, unseen: Log, limit: float) -> dict[str, Any]:
    """mujoco.sysid on positions, one run over the whole block."""
    from mujoco import sysid
    from mujoco.sysid._src import timeseries

    names = train.robot.joint_names
    text = new_mjcf(ExportModel.of_description(train.robot), soft=True).decode()
    sensors = "".join(f'<jointpos name="at_{name}" joint="{name}"/>' for name in names)
    spec = mujoco.MjSpec.from_string(text.replace("</mujoco>", f"<sensor>{sensors}</sensor></mujoco>"))
    spec.option.timestep = FIT_STEP
    spec.option.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    spec.option.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    scene = spec.compile()
    started = time.process_time()
    params = sysid.ParameterDict()
    for name in names:
        for field, most in BOUNDS.items():
            at = float(getattr(scene, f"dof_{field}")[scene.joint(name).dofadr[0]])

            def change(s, p, n=name, f=field):
                set_field(s.joint(n), f, float(p.value[0]))

            params.add(sysid.Parameter(f"{name}_{field}", at, 0.0, most, modifier=change))
        body = scene.body(int(scene.jnt_bodyid[scene.joint(name).id])).name
        pseudo = sysid.parameter.InertiaType.Pseudo
        change = lambda s, p, n=body: set_body(s.body(n), p.value)
        params.add(sysid.body_inertia_param(spec, scene, body, inertia_type=pseudo, modifier=change))
    params.add(sysid.Parameter("lag", 0.01, 0.0, LONGEST_DELAY))
    for name in params.keys():  # noqa: SIM118
        params[name].move_off_bound()
    t, q, ctrl = moves(train)
    data = mujoco.MjData(scene)
    start = sysid.create_initial_state(scene, q[0], data.qvel, data.act)
    measured = timeseries.TimeSeries.from_names(t, q, scene)
    sequences = sysid.ModelSequences("robot", spec, "log", start, sysid.TimeSeries(t, ctrl), measured)

    def late(params, predicted, measured, model, return_all, **_):
        # A simulation whose commands come later is the same one, later.
        at = np.clip(measured.times - params["lag"].value[0], predicted.times[0], None)
        positions = np.stack([np.interp(at, predicted.times, column) for column in predicted.data.T], axis=1)
        delayed = timeseries.TimeSeries(measured.times, positions, measured.signal_mapping)
        return np.nan_to_num(positions - measured.data, nan=1e3), delayed, measured

    plain = sysid.build_residual_fn(models_sequences=[sequences], modify_residual=late, n_threads=1)
    best: list[Any] = [np.inf, params.as_vector()]

    def residual(x, parameters, **more):
        if time.process_time() - started > limit:
            raise OutOfTime
        made = plain(x, parameters, **more)
        if np.ndim(x) == 1 or x.shape[1] == 1:
            size = float(np.sum(np.square(np.concatenate([part.ravel() for part in made[0]]))))
            if size < best[0]:
                best[:] = [size, np.array(x).ravel()]
                rms = 1e3 * np.sqrt(size / q.size)
                print(f"  {time.process_time() - started:6.0f} s: {rms:.3f} mrad", flush=True)
        return made

    converged = True
    try:
        sysid.optimize(initial_params=params, residual_fn=residual, verbose=False)
    except OutOfTime:
        converged = False
    seconds = time.process_time() - started
    params.update_from_vector(best[1])
    fitted = sysid.apply_param_modifiers(params, spec)
    error = replayed(fitted, unseen, float(params["lag"].value[0]))
    bounds = params.get_bounds()
    at_bound = int(((best[1] <= bounds[0] + 1e-9) | (best[1] >= bounds[1] - 1e-9)).sum())
    return {
        "seconds": seconds,
        "converged": converged,
        "mrad": 1e3 * float(np.sqrt(np.mean(error**2))),
        "joints": (1e3 * np.sqrt(np.mean(error**2, axis=0))).tolist(),
        "lag": float(params["lag"].value[0]),
        "parameters": len(best[1]),
        "at a bound": at_bound,
    }


def set_body(body: Any, theta: Float) -> None:
    """Mass, centre and inertia by mujoco.sysid's ten parameters, whose own modifier does not compile twice."""
    from mujoco.sysid._src.model_modifier import pi_from_theta

    pi = pi_from_theta(theta)
    m, c, about = pi[0], pi[1:4] / pi[0], np.reshape(pi[4:], (3, 3))
    # Of the origin -> of the centre of mass.
    I = about - m * (c @ c * np.eye(3) - np.outer(c, c))
    body.explicitinertial = True
    body.mass, body.ipos = m, c
    body.inertia[:], body.iquat[:] = 0.0, [1.0, 0.0, 0.0, 0.0]
    body.fullinertia = [I[0, 0], I[1, 1], I[2, 2], I[0, 1], I[0, 2], I[1, 2]]


def set_field(joint: Any, field: str, value: float) -> None:
    """A joint's number, which some versions keep as a list."""
    now = getattr(joint, field)
    if np.ndim(now):
        now[0] = value
    else:
        setattr(joint, field, value)


def replayed(model: mujoco.MjModel, log: Log, lag: float) -> Float:
    """Simulated less measured positions, (T, n), of position actuators that are told each row later by the lag."""
    t, q, ctrl = moves(log)
    model.opt.timestep = REPLAY_STEP
    data = mujoco.MjData(model)
    data.qpos[:] = q[0]
    positions = np.zeros_like(q)
    for k, now in enumerate(t):
        positions[k] = data.qpos
        while data.time < (t[k + 1] if k + 1 < len(t) else now) - 0.5 * REPLAY_STEP:
            row = max(int(np.searchsorted(t, data.time - lag + 1e-9, side="right")) - 1, 0)
            data.ctrl[:] = ctrl[row]
            mujoco.mj_step(model, data)
    return positions - q


def main() -> None:
    """What is not in the file yet is computed; every line is printed."""
    chosen = parser(
        __doc__, data=DATA, out=Path("servos.json"), robots=list(COMMANDS_ONLY), programs=["dynid", "mujoco.sysid"],
        minutes=10.0,
    ).parse_args()  # fmt: skip
    done = json.loads(chosen.out.read_text()) if chosen.out.is_file() else {}
    for name in chosen.robots:
        train, unseen = read(chosen.data / name, chosen.out.parent)
        for program in chosen.programs:
            key = f"{name} {program}"
            if key not in done and program == "dynid":
                done[key] = by_dynid(train, unseen)
            elif key not in done:
                done[key] = by_sysid(train, unseen, 60.0 * chosen.minutes)
            chosen.out.write_text(json.dumps(done, indent=1))
            row = done[key]
            print(f"{key:<28}{row['mrad']:8.2f} mrad {row['seconds']:8.1f} s of processor time", flush=True)
            if row.get("description") is not None:
                print(f"{name + ' description':<28}{row['description']:8.2f} mrad", flush=True)


if __name__ == "__main__":
    main()
