"""One process logged for a minute, an hour, eight hours and a day: the same model and verdict, time and memory.

    python benchmarks/length.py [--minutes 1 60 480 1440] [--rate 100]

Every log is what `dynid identify ROBOT LOG` gets, without a model and without options. The process is the arm7 example
with a Stribeck curve on joint 2 and a cubic term on joint 4, which no description names; a Fourier motion of 20 s is
repeated with fresh noise. The rate is 100 Hz so that a day is 8.6 million rows: blocks, windows and what fits in memory
go by time and rows as at 1 kHz. Logs are written in chunks into a temporary folder and removed at the end. Prints the
chosen model, verdict, held-out error, processor time and peak memory of each; exits 1 if the models or verdicts differ.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np

PERIOD = 20.0
SPEED, STRIBECK, CUBIC = 0.08, 1.5, 4.0
# Standard deviation of torque noise as a share of each joint's torque, of position noise in rad, and resolutions.
NOISE, POSITION_NOISE, RESOLUTION = 0.01, 1e-5, 1e-5
GROUP = 50_000
# Options that add nothing to a model.
UNUSED = ("none", "level", "in step", "as logged")


def period(rate: float) -> tuple[np.ndarray, np.ndarray, tuple[str, ...]]:
    """Positions and torque of one period without noise, (T, n), and the joints' names."""
    from dynid.kernel import inverse_dynamics
    from dynid.robot import load_example

    robot = load_example("arm7")
    rng = np.random.default_rng(0)
    t = np.arange(round(PERIOD * rate)) / rate
    q, dq, ddq = (np.zeros((len(t), robot.n)) for _ in range(3))
    for k in range(1, 6):
        w = 2 * np.pi * k / PERIOD
        a, b = rng.normal(0, 0.3 / k, (2, robot.n))
        q += np.outer(np.sin(w * t), a) + np.outer(np.cos(w * t), b)
        dq += w * (np.outer(np.cos(w * t), a) - np.outer(np.sin(w * t), b))
        ddq -= w * w * (np.outer(np.sin(w * t), a) + np.outer(np.cos(w * t), b))
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq)
    tau = tau + 0.8 * dq + 1.2 * np.tanh(dq / 0.02)
    tau[:, 1] += STRIBECK * np.exp(-np.abs(dq[:, 1]) / SPEED) * np.tanh(dq[:, 1] / 0.02)
    tau[:, 3] += CUBIC * dq[:, 3] ** 3
    return q, tau, robot.joint_names


def write(path: Path, minutes: float, rate: float) -> None:
    """A log of the process, row group by row group."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    q, tau, joints = period(rate)
    rng = np.random.default_rng(1)
    names = ["t", *(f"{p}_{j}" for p in ("q", "tau") for j in joints)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    left = round(60.0 * minutes * rate)
    done = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while done < left:
            rows = np.arange(done, min(done + GROUP, left))
            phase = rows % len(q)
            noisy_q = q[phase] + rng.normal(0, POSITION_NOISE, (len(rows), q.shape[1]))
            noisy_tau = tau[phase] + NOISE * tau.std(axis=0) * rng.normal(0, 1, (len(rows), q.shape[1]))
            columns = [rows / rate]
            for values, step in ((noisy_q, RESOLUTION), (noisy_tau, 1e-3)):
                columns += [np.ascontiguousarray(c) for c in (np.round(values / step) * step).T]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=GROUP)
            done += len(rows)


def identify(log: Path, out: Path) -> dict[str, Any]:
    """The user's command in a fresh process: what it chose, and what it cost."""
    robot = str(files("dynid.data") / "arm7.toml")
    command = [sys.executable, "-m", "dynid", "identify", robot, str(log), "--out", str(out)]
    # Modules are compiled from the first log on, as pip leaves them.
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    with (out.parent / f"{out.name}.txt").open("w") as printed:
        child = subprocess.Popen(command, stdout=printed, stderr=subprocess.STDOUT, env=environment)
        _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit((out.parent / f"{out.name}.txt").read_text())
    run = json.loads((out / "run.json").read_text())
    selection = run["selection"]
    # Axes on which nothing was adopted are looked at or not with the evidence: they make no other model.
    chosen = zip(selection["axes"], selection["models"][0]["options"], strict=True)
    return {
        "model": {axis: option for axis, option in chosen if option not in UNUSED}
        | {f["joint"]: f["form"] for f in selection["friction"]},
        "verdict": run["verdict"]["level"],
        "missed": 100 * run["scores"][-1]["total_relative"],
        "seconds": used.ru_utime + used.ru_stime,
        "peak_mb": used.ru_maxrss / 1024,
    }


def main() -> None:
    """Logs from short to long."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, nargs="+", default=[1.0, 60.0, 480.0, 1440.0])
    parser.add_argument("--rate", type=float, default=100.0)
    options = parser.parse_args()
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for minutes in options.minutes:
            log = Path(folder) / "log.parquet"
            write(log, minutes, options.rate)
            one = identify(log, Path(folder) / f"run{len(found)}")
            found.append((one["model"], one["verdict"]))
            size = log.stat().st_size / 1e6
            print(
                f"{minutes:6g} min, {size:5.0f} MB: {one['verdict']}, misses {one['missed']:.3g} %; "
                f"{one['seconds']:.0f} s of processor, peak {one['peak_mb']:.0f} MB; {one['model']}",
                flush=True,
            )
    if any(one != found[0] for one in found):
        sys.exit("the chosen models or verdicts differ")
    print("one model and one verdict at every length")


if __name__ == "__main__":
    main()
