"""Commands of a log replayed in MuJoCo: errors between simulated and measured joint positions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base import Diagnostics, Float, SolverError, UsageError, dataclass
from dynid.exporters import ExportModel, new_mjcf
from dynid.log import Log
from dynid.recording import Trajectory
from dynid.robot import Servo, compiled, load_mujoco
from dynid.run import Identification, refuse_floating

# s: MuJoCo's friction and stiff controllers of light joints need such steps, and robot files without rotor inertia
# shorter ones.
STEPS = (1e-3, 2.5e-4, 6.25e-5)


@dataclass(frozen=True, eq=False)
class Replay:
    """Position errors of simulated joints over the replayed rows, rad (m).

    model, description: (n,) r.m.s. error per joint, of the identified model and of the robot as in its file; None
    where the file has no inertias or the robot diverges.    seconds: length of the motion.    why: reason for a
    missing error of the robot file; "" = it has no inertias.
    """

    joint_names: tuple[str, ...]
    model: Float
    description: Float | None
    seconds: float
    why: str = ""

    @property
    def total(self) -> tuple[float, float | None]:
        """R.m.s. error over all joints: of the model, and of the robot as in its file."""
        return _rms(self.model), None if self.description is None else _rms(self.description)

    def plain(self) -> dict[str, Any]:
        """Plain data, as stored in run folders."""
        errors = (("identified", self.model), ("as described", self.description))
        rows = [
            {"program": "MuJoCo", "description": name, "why": "", "torque": None, "motion": error.tolist()}
            for name, error in errors
            if error is not None
        ]
        if self.why:
            rows.append(
                {
                    "program": "MuJoCo",
                    "description": "as described",
                    "why": self.why,
                    "torque": None,
                    "motion": None,
                }
            )
        return {"of": "commands", "joints": list(self.joint_names), "seconds": self.seconds, "rows": rows}

    def lines(self) -> list[str]:
        """Lines of text for the terminal."""
        model, description = self.total
        head = f"replay of {self.seconds:.3g} s of commands in MuJoCo, position error: {1e3 * model:.3g} mrad (mm)"
        head += "" if description is None else f"; robot file: {1e3 * description:.3g}"
        head += f"; robot file: {self.why}" if self.why else ""
        lines = [head, f"  {'joint':<22}{'model':>10}{'robot file':>14}"]
        for j, name in enumerate(self.joint_names):
            before = "-" if self.description is None else f"{1e3 * self.description[j]:.3g}"
            lines.append(f"  {name:<22}{1e3 * self.model[j]:>10.3g}{before:>14}")
        return lines


def replay(run: Identification, log: Log, diagnostics: Diagnostics | None = None) -> Replay:
    """Replay the commands of a log in MuJoCo, with the identified model and with the robot as in its file.

    Each trajectory starts from its first row and then runs freely. A controller computes its torque from the command
    of each row and the simulated joints; the torque acts after the run's delay and stays constant until the next row.
    If the drive closes its loop on board, the command is delayed instead, and torque is computed at every step.

    Parameters
    ----------
    run : Identification
        A run identified from commands.
    log : Log
        A log with commands.
    diagnostics : Diagnostics, optional
        Receives the warnings.

    Returns
    -------
    Replay
        The errors.

    Raises
    ------
    UsageError
        If the log has no commands, or the run no gains.
    ResourceError
        Without MuJoCo.
    SolverError
        If the model diverges.

    """
    sink = diagnostics if diagnostics is not None else Diagnostics()
    refuse_floating(run.robot, "a replay")
    servo = run.robot.drive.servo
    if servo is None or not servo.known or not log.channels.commanded:
        raise UsageError(
            "no-command",
            found="no commanded positions in the log, or no controller gains in the run",
            expected="a log of commands, and a run identified from such a log",
        )
    models = [ExportModel.of_run(run).straightened(sink)]
    if np.isfinite(run.robot.inertia_prior).all():
        models.append(ExportModel.of_description(run.robot))
    errors, why = [_rms_by_joint(models[0], servo, log, False)], ""
    try:
        errors += [_rms_by_joint(model, servo, log, True) for model in models[1:]]
    except SolverError as error:
        why = str(error.found)
    return Replay(run.robot.joint_names, errors[0], errors[1] if len(errors) > 1 else None, log.duration, why)


def _rms_by_joint(model: ExportModel, servo: Servo, log: Log, soft: bool) -> Float:
    """R.m.s. error (n,) over all trajectories, with the longest step at which the robot does not diverge."""
    for step in STEPS[:-1]:
        with suppress(SolverError):
            return _rms_in_steps(step, model, servo, log, soft)
    return _rms_in_steps(STEPS[-1], model, servo, log, soft)


def _rms_in_steps(longest: float, model: ExportModel, servo: Servo, log: Log, soft: bool) -> Float:
    parts = [_errors(model, servo, log, trajectory, soft, longest) for trajectory in log.trajectories]
    return np.asarray(np.sqrt(np.mean(np.concatenate(parts) ** 2, axis=0)))


def _errors(
    model: ExportModel, servo: Servo, log: Log, trajectory: Trajectory, soft: bool, longest: float
) -> Float:
    """Simulated minus measured positions (T, n).

    soft: whether friction yields as in MuJoCo's defaults, which robot files use.    longest: longest step, s.
    """
    mujoco = load_mujoco()
    bare = replace(
        model, robot=model.robot.with_servo(None)
    )  # MuJoCo's own controllers have no delay, so the control law is computed here
    scene = compiled(new_mjcf(bare, soft).decode())
    scene.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT | mujoco.mjtDisableBit.mjDSBL_LIMIT
    data = mujoco.MjData(scene)
    places, speeds = _joints(mujoco, scene, log.robot.joint_names)
    desired, measured = log.commands(trajectory), log.read(trajectory)
    step = float(np.median(np.diff(desired.t)))
    count = max(1, math.ceil(step / longest))
    scene.opt.timestep = step / count
    late = 0 if not np.isfinite(servo.delay) else round(servo.delay / scene.opt.timestep)
    first = int(np.searchsorted(desired.t, measured.t[0]))
    data.qpos[places] = measured.q[0]
    if measured.dq is not None:
        data.qvel[speeds] = measured.dq[0]
    T = len(desired.t) - first
    simulated, waiting = np.zeros((T, log.robot.n)), list[Any]()
    for k in range(T):
        q, dq = np.array(data.qpos[places]), np.array(data.qvel[speeds])
        simulated[k] = q
        row = first + k
        command = desired.q_des[row], desired.dq_des[row], desired.tau_ff[row]
        applied = command if servo.on_board else servo.torque(q, dq, *command)
        waiting += [applied] * (count if waiting else count + late)
        for now in waiting[:count]:
            torque = servo.torque(data.qpos[places], data.qvel[speeds], *now) if servo.on_board else now
            data.qfrc_applied[speeds] = torque - model.offset
            mujoco.mj_step(scene, data)
        del waiting[:count]
        if not np.isfinite(data.qpos).all() or np.abs(data.qvel[speeds]).max() > 1e3:
            raise SolverError(
                "replay-diverged",
                found=f"a simulated robot that diverges after {desired.t[row] - desired.t[first]:.3g} s",
                expected="motion near the measured one",
            )
    at = np.stack([np.interp(desired.t[first:], measured.t, column) for column in measured.q.T], axis=1)
    return np.asarray(simulated - at)


def _rms(values: Float) -> float:
    return float(np.sqrt(np.mean(values**2)))


def _joints(mujoco: Any, scene: Any, names: Sequence[str]) -> tuple[list[int], list[int]]:
    index = [mujoco.mj_name2id(scene, mujoco.mjtObj.mjOBJ_JOINT, name) for name in names]
    if min(index) < 0:
        raise UsageError(
            "joint-names",
            found=f"joint '{names[index.index(min(index))]}', whose name MJCF cannot hold",
            expected="names of letters, digits, '_', '-' and '.'",
        )
    return [int(scene.jnt_qposadr[i]) for i in index], [int(scene.jnt_dofadr[i]) for i in index]
