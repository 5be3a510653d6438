"""Identification of one hour of 1 kHz data of a 7-joint arm (3.6 million rows of Parquet): time and peak memory.

    python benchmarks/hour.py [--minutes 60] [--repeats 3]

The log is made once in a temporary folder; every repeat is a fresh process. Prints the median, and beside it the time
that NumPy alone needs to read the same file as a yardstick of the machine.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import parser

import numpy as np

from benchmarks.length import PERIOD, fourier, rounded, write_chunks
from dynid.base import Float
from dynid.robot import load_example

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
    robot, rng, t = load_example("arm7"), np.random.default_rng(0), np.arange(0, PERIOD, 1e-3)
    q, dq, tau = fourier(robot, t, 0.25)
    rng.normal(size=(5, 2, robot.n))  # the motion's draws

    def chunks() -> Iterator[list[Float]]:
        for repeat in range(int(minutes * 60 / PERIOD)):
            signals = ((q, 2e-5, 1e-5), (dq, 1e-3, 1e-4), (tau, 0.2, 1e-2))
            noisy = [rounded(x + rng.normal(0, noise, x.shape), step) for x, noise, step in signals]
            yield [t + repeat * PERIOD, *noisy]

    write_chunks(path, ("q", "dq", "tau"), robot.joint_names, chunks(), 20_000, use_dictionary=False)


def measure(code: str, log: Path) -> dict[str, float]:
    """One run in a fresh process."""
    done = subprocess.run([sys.executable, "-c", code, str(log)], check=True, capture_output=True, text=True)
    return dict(json.loads(done.stdout))


def main() -> None:
    """Interleaved repeats of identification and plain reading."""
    options = parser(__doc__, minutes=60.0, repeats=3).parse_args()
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
