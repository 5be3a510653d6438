"""Generated C code against pinocchio's rnea: time of one inverse dynamics of a 7-joint arm.

    python benchmarks/export.py [--calls 200000] [--repeats 7]

The generated code is called in a loop in C (gcc -O3 -march=native), pinocchio's rnea in a loop in Python, as its users
call it: the binding's overhead counts in. Where pinocchio was built with OpenMP, its batched call on one thread is
timed as well, which has no such overhead. Repeats are interleaved, the median of each is shown.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import numpy as np
import pinocchio as pin

from dynid.exporters import ExportModel
from dynid.exporters.c_code import write_c
from dynid.exporters.model import c_identifier
from dynid.exporters.urdf import new_urdf
from dynid.robot import load_example

FLAGS = ["-O3", "-march=native"]
LOOP = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
int main(int argc, char **argv) {
    long k, calls = argc > 1 ? atol(argv[1]) : 1;
    double q[N], dq[N], ddq[N], tau[N], sum = 0.0;
    struct timespec a, b;
    int i;
    for (i = 0; i < N; ++i) { q[i] = 0.1 * i; dq[i] = 0.2 * i - 0.5; ddq[i] = 0.3; }
    clock_gettime(CLOCK_MONOTONIC, &a);
    for (k = 0; k < calls; ++k) { q[k % N] += 1e-6; CALL; sum += tau[k % N]; }
    clock_gettime(CLOCK_MONOTONIC, &b);
    printf("%.17g %.3f\\n", sum, ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / calls);
    return 0;
}
"""


def model() -> ExportModel:
    """The shipped arm with its description's inertias, without rotors and friction, which rnea does not have."""
    robot = load_example("arm7")
    nothing = np.zeros(robot.n)
    return ExportModel(robot, robot.inertia_prior, *[nothing] * 5)


def build_c(one: ExportModel, folder: Path) -> Path:
    """The loop around the generated code."""
    code = write_c(one, "arm.h")
    name = c_identifier(one.robot.name)
    (folder / "arm.c").write_text(code.source)
    (folder / "arm.h").write_text(code.header)
    loop = LOOP.replace("CALL", f"{name}_inverse_dynamics(q, dq, ddq, tau)")
    (folder / "loop.c").write_text(f'#define N {one.robot.n}\n#include "arm.h"\n{loop}')
    gcc = shutil.which("gcc") or "gcc"
    subprocess.run([gcc, *FLAGS, "arm.c", "loop.c", "-o", "ours", "-lm"], cwd=folder, check=True)
    return folder / "ours"


def nanoseconds(*command: object) -> tuple[float, float]:
    """What a loop printed: a sum of torques, and ns a call."""
    out = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout.split()
    return float(out[0]), float(out[1])


def binding(urdf: Path, calls: int) -> tuple[float, float]:
    """The loop in Python."""
    theirs = pin.buildModelFromUrdf(str(urdf))
    data, n = theirs.createData(), theirs.nv
    i = np.arange(n)
    q, v, a = 0.1 * i, 0.2 * i - 0.5, np.full(n, 0.3)
    total = 0.0
    started = time.perf_counter()
    for k in range(calls):
        q[k % n] += 1e-6
        total += pin.rnea(theirs, data, q, v, a)[k % n]
    return total, (time.perf_counter() - started) / calls * 1e9


def batched(urdf: Path, calls: int) -> float | None:
    """Nanoseconds a sample of the batched call on one thread, or None where there is none."""
    if not hasattr(pin, "rneaInParallel"):
        return None
    theirs = pin.buildModelFromUrdf(str(urdf))
    pool = pin.ModelPool(theirs, 1)
    rng = np.random.default_rng(0)
    q, v, a = (np.asfortranarray(rng.normal(size=(theirs.nv, calls))) for _ in range(3))
    started = time.perf_counter()
    pin.rneaInParallel(1, pool, q, v, a)
    return (time.perf_counter() - started) / calls * 1e9


def main() -> None:
    """Prints the times and their ratios."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--calls", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder, one = Path(name), model()
        urdf = folder / "arm.urdf"
        urdf.write_bytes(new_urdf(one))
        ours = build_c(one, folder)
        times: list[tuple[float, float, float | None]] = []
        for _ in range(options.repeats):
            sum_ours, a = nanoseconds(ours, options.calls)
            sum_theirs, b = binding(urdf, options.calls)
            assert abs(sum_ours - sum_theirs) < 1e-6 * max(abs(sum_ours), 1.0), (sum_ours, sum_theirs)
            times.append((a, b, batched(urdf, options.calls)))
        a, b = (statistics.median(t[k] or 0.0 for t in times) for k in (0, 1))
        print(f"generated C {a:.0f} ns, pinocchio rnea from Python {b:.0f} ns, {b / a:.1f} times as fast")
        batches = [t[2] for t in times if t[2] is not None]
        if batches:
            c = statistics.median(batches)
            print(f"pinocchio rneaInParallel on one thread {c:.0f} ns, {c / a:.1f} times as fast")


if __name__ == "__main__":
    main()
