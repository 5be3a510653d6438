"""dynid by its default command, on a log with its standard column names; nothing is set.

The torque of held-out motion is that of the run folder; the payload is that of `dynid payload RUN LOG`.
"""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

import dynid
from dynid.log import canonical_columns, write_log
from dynid.robot import TorqueSide
from dynid_bench.protocol import Answer, Float, Motion, States, Task, answer_folder, serve


def written(task: Task, motions: Sequence[Motion], name: str) -> list[Path]:
    """Logs as a user has them: torque on the side that the robot file declares, or commands."""
    drive, paths = dynid.load_robot(task.source).drive, []
    at_motors = drive.torque_side is TorqueSide.MOTOR
    for i, motion in enumerate(motions):
        tau: Float | None = motion.tau
        if at_motors:
            tau = np.asarray(np.linalg.solve(drive.transmission.T, motion.tau.T).T, dtype=np.float64)
        if task.servo:
            tau = None
        columns: Mapping[str, Float] = canonical_columns(task.joints, motion.q, dq=motion.dq, tau=tau)
        if motion.q_des is not None and motion.dq_des is not None:
            for j, joint in enumerate(task.joints):
                commands = {f"q_des_{joint}": motion.q_des[:, j], f"dq_des_{joint}": motion.dq_des[:, j]}
                columns = {**columns, **commands}
        paths.append(write_log(answer_folder() / f"{name}-{i}.parquet", motion.t, columns))
    return paths


def command(*words: object) -> None:
    """Run a dynid command; its message ends this program if it fails."""
    line = [sys.executable, "-m", "dynid", *map(str, words)]
    ended = subprocess.run(line, capture_output=True, text=True, check=False)  # noqa: S603
    if ended.returncode:
        errors = [text for text in ended.stderr.splitlines() if text.startswith("error")]
        sys.exit(errors[-1] if errors else f"exit code {ended.returncode}")


def intervals(result: dynid.Result) -> dict[str, tuple[float, float]]:
    """Base parameters with half their 95 % intervals."""
    frame = result.parameters
    columns = {name: list(frame[name]) for name in ("kind", "formula", "value", "lower95", "upper95")}
    rows = zip(*columns.values(), strict=True)
    plain = [[getattr(cell, "as_py", lambda cell=cell: cell)() for cell in row] for row in rows]
    return {
        formula: (value, 0.5 * (upper - lower))
        for kind, formula, value, lower, upper in plain
        if kind == "base" and np.isfinite([value, lower, upper]).all()
    }


def at_rows(result: dynid.Result, motion: States) -> Float:
    """Torque of the log's rows; a command's torque acts later than its row, by the lag that dynid estimates."""
    rate = 1.0 / float(motion.t[1] - motion.t[0])
    tau = np.asarray(result.predict(motion.q, motion.dq, motion.ddq, rate=rate))
    servo = result.robot.drive.servo
    if servo is None or not servo.lag:
        return tau

    def later(values: Float) -> Float:
        return np.column_stack([np.interp(motion.t + servo.lag, motion.t, line) for line in values.T])

    if servo.on_board:
        # Only the command is late: the law of its row has the motion of that row.
        spring = servo.kp * (later(motion.q) - motion.q)
        return later(tau) + spring + servo.kd * (later(motion.dq) - motion.dq)
    return later(tau)


def run(task: Task) -> Answer:
    """Identify, predict, export; the payload where there is one."""
    folder = answer_folder()
    gains: list[object] = []
    if task.servo:
        for option in ("kp", "kd"):
            gains += [f"--{option}", ",".join(map(str, task.servo[option]))]
    logs = written(task, task.train, "train")
    # user's code: begin
    command("identify", task.source, *logs, *gains, "--out", folder / "run")
    result = dynid.load(folder / "run")
    # user's code: end
    torque = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name, motion in task.held_out.items():
            torque[name] = at_rows(result, motion)
    model = "robot.xml"
    try:
        result.export(folder / model)
    except dynid.DynidError as error:
        print(error, file=sys.stderr)  # noqa: T201 - of a program
        model = ""
    payload = None
    if task.loaded:
        with_load = dynid.read_log(written(task, task.loaded, "loaded"), dynid.load_robot(task.source))
        load = dynid.payload(result, with_load)
        lower, upper = load.interval()[0]
        payload = (load.mass, 0.5 * (upper - lower)) if load.determined[0] else None
    return Answer(torque, intervals(result), payload, model, ("dynid", "numpy", "scipy"), "none")


if __name__ == "__main__":
    serve(run)
