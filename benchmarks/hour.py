"""Identification of one hour of 1 kHz data of a 7-joint arm (3.6 million rows of Parquet): time and peak memory.

    python benchmarks/hour.py [--minutes 60] [--repeats 3]

The log is made once in a temporary folder; every repeat is a fresh process. Prints the median, and beside it the time
that NumPy alone needs to read the same file as a yardstick of the machine.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

WORKER = """
import json, resource, sys, time
import dynid.identification.pipeline, dynid.robot.load, dynid.log.read, pyarrow.parquet, scipy.signal
started = time.perf_counter()
robot = dynid.robot.load.load_example("arm7")
settings = dynid.identification.settings.Settings(automatic=False)
result = dynid.identification.pipeline.identify(robot, dynid.log.read.read_log(sys.argv[1], robot), settings)
seconds = time.perf_counter() - started
peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps({"seconds": seconds, "peak_mb": peak, "base": result.estimate.base.rank}))
"""
PEER = """
import json, sys, time
import pyarrow.parquet as pq
started = time.perf_counter()
file = pq.ParquetFile(sys.argv[1])
rows = sum(batch.num_rows for batch in file.iter_batches(65536))
print(json.dumps({"seconds": time.perf_counter() - started, "rows": rows}))
"""


def make_log(path: Path, minutes: float) -> None:
    """A Fourier motion of arm7 repeated with fresh noise, 1 kHz, canonical columns, zstd."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dynid.kernel import inverse_dynamics
    from dynid.robot import load_example

    robot = load_example("arm7")
    rng = np.random.default_rng(0)
    n, period = robot.n, 20.0
    t = np.arange(0, period, 1e-3)
    q, dq, ddq = (np.zeros((len(t), n)) for _ in range(3))
    for k in range(1, 6):
        w = 2 * np.pi * k / period
        a, b = rng.normal(0, 0.25 / k, (2, n))
        q += np.outer(np.sin(w * t), a) + np.outer(np.cos(w * t), b)
        dq += w * (np.outer(np.cos(w * t), a) - np.outer(np.sin(w * t), b))
        ddq -= w * w * (np.outer(np.sin(w * t), a) + np.outer(np.cos(w * t), b))
    tau = inverse_dynamics(robot.tree, robot.inertia_prior, q, dq, ddq) + 0.8 * dq + 1.2 * np.tanh(dq / 0.02)
    names = ["t", *(f"{p}_{j}" for p in ("q", "dq", "tau") for j in robot.joint_names)]
    schema = pa.schema([(name, pa.float64()) for name in names])
    with pq.ParquetWriter(path, schema, compression="zstd", use_dictionary=False) as writer:
        for repeat in range(int(minutes * 60 / period)):
            columns = [t + repeat * period]
            # Encoders and torque sensors have a resolution, as every real log shows.
            for values, noise, resolution in ((q, 2e-5, 1e-5), (dq, 1e-3, 1e-4), (tau, 0.2, 1e-2)):
                noisy = np.round((values + rng.normal(0, noise, values.shape)) / resolution) * resolution
                columns += [np.ascontiguousarray(noisy[:, j]) for j in range(n)]
            writer.write_table(pa.table(columns, schema=schema), row_group_size=20_000)


def measure(code: str, log: Path) -> dict[str, float]:
    """One run in a fresh process."""
    # One thread for BLAS, as the command line sets it: the work is spread over samples.
    done = subprocess.run(
        [sys.executable, "-c", code, str(log)],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    return dict(json.loads(done.stdout))


def main() -> None:
    """Interleaved repeats of identification and plain reading."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--repeats", type=int, default=3)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "hour.parquet"
        started = time.perf_counter()
        make_log(log, options.minutes)
        print(f"log of {log.stat().st_size / 1e6:.0f} MB made in {time.perf_counter() - started:.0f} s")
        runs, peers = [], []
        for _ in range(options.repeats):
            peers.append(measure(PEER, log))
            runs.append(measure(WORKER, log))
        seconds = statistics.median(run["seconds"] for run in runs)
        peer = statistics.median(run["seconds"] for run in peers)
        peak = max(run["peak_mb"] for run in runs)
        print(
            f"identify: {seconds:.2f} s after import, peak {peak:.0f} MB, {runs[0]['base']} base parameters"
        )
        print(f"reading the file alone: {peer:.2f} s; ratio {seconds / peer:.1f}")


if __name__ == "__main__":
    main()
