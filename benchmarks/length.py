"""One process logged for a minute, an hour, eight hours and a day: the same model and verdict, time and memory.

    python benchmarks/length.py [--minutes 1 60 480 1440] [--rate 100]

Every log is what `dynid identify ROBOT LOG` gets, without a model and without options. The process is the arm7 example
with a Stribeck curve on joint 2 and a cubic term on joint 4, which no description names; a Fourier motion of 20 s is
repeated with fresh noise. The rate is 100 Hz so that a day is 8.6 million rows: blocks, windows and what fits in memory
go by time and rows as at 1 kHz. Logs are written in chunks into a temporary folder and removed at the end. Prints the
chosen model, verdict, held-out error, processor time and peak memory of each; exits 1 if the models or verdicts differ.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Iterable, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import dynid_command, parser

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dynid.base import Float
from dynid.kernel import inverse_dynamics
from dynid.robot import RobotModel, load_example

PERIOD = 20.0
SPEED, STRIBECK, CUBIC = 0.08, 1.5, 4.0
# Standard deviation of torque noise as a share of each joint's torque, of position noise in rad, and resolutions.
NOISE, POSITION_NOISE, RESOLUTION = 0.01, 1e-5, 1e-5
GROUP = 50_000
# Options that add nothing to a model.
UNUSED = ("none", "level", "in step", "as logged")


def fourier(robot: RobotModel, t: Float, size: float) -> tuple[Float, Float, Float]:
    """Positions, velocities and torque (T, n) of a motion of period PERIOD without noise."""
    rng = np.random.default_rng(0)
    q, dq, ddq = (np.zeros((len(t), robot.n)) for _ in range(3))
    for k in range(1, 6):
        w = 2 * np.pi * k / PERIOD
        a, b = rng.normal(0, size / k, (2, robot.n))
        sin, cos = np.sin(w * t), np.cos(w * t)
        q += np.outer(sin, a) + np.outer(cos, b)
        dq += w * (np.outer(cos, a) - np.outer(sin, b))
        ddq -= w * w * (np.outer(sin, a) + np.outer(cos, b))
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    return q, dq, tau + 0.8 * dq + 1.2 * np.tanh(dq / 0.02)


def write_chunks(
    path: Path,
    signals: Sequence[str],
    joints: Sequence[str],
    chunks: Iterable[list[Float]],
    group: int,
    **more: Any,
) -> None:
    """Write a log in row groups; a chunk has the time and each signal (T, n) with its resolution."""
    schema = pa.schema(
        [(name, pa.float64()) for name in ("t", *(f"{s}_{j}" for s in signals for j in joints))]
    )
    with pq.ParquetWriter(path, schema, compression="zstd", **more) as writer:
        for t, *values in chunks:
            columns = [np.ascontiguousarray(column) for signal in values for column in signal.T]
            writer.write_table(pa.table([t, *columns], schema=schema), row_group_size=group)


def rounded(values: Float, step: float) -> Float:
    """Values in steps: encoders and torque sensors have a resolution, as every real log shows."""
    return np.round(values / step) * step


def write(path: Path, minutes: float, rate: float) -> None:
    """A log of the process, row group by row group."""
    robot, rng = load_example("arm7"), np.random.default_rng(1)
    q, dq, tau = fourier(robot, np.arange(round(PERIOD * rate)) / rate, 0.3)
    tau[:, 1] += STRIBECK * np.exp(-np.abs(dq[:, 1]) / SPEED) * np.tanh(dq[:, 1] / 0.02)
    tau[:, 3] += CUBIC * dq[:, 3] ** 3
    total = round(60.0 * minutes * rate)

    def chunks() -> Iterable[list[Float]]:
        for first in range(0, total, GROUP):
            rows = np.arange(first, min(first + GROUP, total))
            phase, shape = rows % len(q), (len(rows), robot.n)
            positions = q[phase] + rng.normal(0, POSITION_NOISE, shape)
            torque = tau[phase] + NOISE * tau.std(axis=0) * rng.normal(0, 1, shape)
            yield [rows / rate, rounded(positions, RESOLUTION), rounded(torque, 1e-3)]

    write_chunks(path, ("q", "tau"), robot.joint_names, chunks(), GROUP)


def identify(log: Path, out: Path) -> dict[str, Any]:
    """The user's command in a fresh process: what it chose, and what it cost."""
    # Modules are compiled from the first log on, as pip leaves them.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    ended = dynid_command("identify", files("dynid.data") / "arm7.toml", log, "--out", out)
    if ended.code:
        raise SystemExit(ended.output + ended.errors)
    run = json.loads((out / "run.json").read_text())
    selection = run["selection"]
    # Axes on which nothing was adopted are looked at or not with the evidence: they make no other model.
    chosen = zip(selection["axes"], selection["models"][0]["options"], strict=True)
    return {
        "model": {axis: option for axis, option in chosen if option not in UNUSED}
        | {f["joint"]: f["form"] for f in selection["friction"]},
        "verdict": run["verdict"]["level"],
        "missed": 100 * run["scores"][-1]["total_relative"],
        "seconds": ended.seconds,
        "peak_mb": ended.megabytes,
    }


def main() -> None:
    """Logs from short to long."""
    given = parser(__doc__, minutes=[1.0, 60.0, 480.0, 1440.0], rate=100.0).parse_args()
    outcomes = []
    with tempfile.TemporaryDirectory() as folder:
        for minutes in given.minutes:
            log = Path(folder) / "log.parquet"
            write(log, minutes, given.rate)
            result = identify(log, Path(folder) / f"run{len(outcomes)}")
            outcomes.append((result["model"], result["verdict"]))
            print(
                f"{minutes:6g} min, {log.stat().st_size / 1e6:5.0f} MB: {result['verdict']}, misses "
                f"{result['missed']:.3g} %; {result['seconds']:.0f} s of processor, peak {result['peak_mb']:.0f} MB; "
                f"{result['model']}",
                flush=True,
            )
    if any(outcome != outcomes[0] for outcome in outcomes):
        sys.exit("the chosen models or verdicts differ")
    print("one model and one verdict at every length")


if __name__ == "__main__":
    main()
