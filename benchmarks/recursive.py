"""Online estimation of a 7-joint arm at 1 kHz: how many times faster than real time on one core, by processor time.

    python benchmarks/recursive.py [--seconds 60] [--memory 10] [--excited] [--filter ekf]

Rows are fed in pieces of 0.1 s, as a controller would send them; the estimate is asked for after every batch (0.5 s).
"""

from __future__ import annotations

import argparse
import os
import time
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from dynid.signals.samples import Samples

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np


def main() -> None:
    """Prints the ratio of the log's time to the computer's."""
    from dynid.estimate.recursive import Forgetting
    from dynid.fleet.stream import watch_lines
    from dynid.fleet.watch import Watcher, WatchSettings
    from dynid.kernel import backend
    from dynid.robot import load_example
    from dynid.terms.catalogue import DEFAULT_TERMS
    from dynid.testing import smooth_samples

    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--memory", type=float, default=np.inf)
    parser.add_argument("--excited", action="store_true")
    parser.add_argument(
        "--filter", choices=["ekf", "ukf"], help="a Kalman filter on noisy rows, from 10 s on"
    )
    options = parser.parse_args()
    robot = load_example("arm7")
    motion = smooth_samples(robot, round(options.seconds * 1000), rate=1000.0)
    if options.filter:
        follow(options.filter, motion)
        return
    theta = np.random.default_rng(0).normal(0, 1, len(DEFAULT_TERMS.columns(robot)))
    tau = DEFAULT_TERMS.torque(robot, motion, theta)
    forgetting = Forgetting(options.memory, "excited" if options.excited else "all")
    settings = WatchSettings(forgetting=forgetting)
    watcher = Watcher(robot, settings)
    started = time.process_time()
    for first in range(0, len(motion), 100):
        part = slice(first, first + 100)
        watcher.feed(motion.t[part], motion.q[part], tau[part], motion.dq[part])
    watcher.finish()
    seconds = time.process_time() - started
    error = np.abs(watcher.estimate.value - watcher.base.reduce(theta)).max()
    print(
        f"{backend()}: {options.seconds:.0f} s of 1 kHz in {seconds:.2f} s of one processor, "
        f"{options.seconds / seconds:.0f} x real time"
    )
    lines = csv_lines(robot.joint_names, np.column_stack([motion.t, motion.q, tau, motion.dq]))
    reader = Watcher(robot, settings)
    started = time.process_time()
    for _ in watch_lines(reader, lines):
        pass
    seconds = time.process_time() - started
    print(f"from lines of text: {seconds:.2f} s, {options.seconds / seconds:.0f} x real time")
    print(f"{len(watcher.names)} base parameters, greatest error {error:.2g}")


def follow(kind: Literal["ekf", "ukf"], motion: Samples) -> None:
    """Prints speed, consistency and error of a Kalman filter on the described arm, 2 % of torque being noise."""
    from dynid.fleet.kalman import KalmanSettings, KalmanWatcher
    from dynid.robot import load_example
    from dynid.terms.catalogue import DEFAULT_TERMS

    robot = load_example("arm7")
    usual = {"rotor_inertia": 0.5, "viscous": 3.0, "coulomb": 2.0, "offset": 0.3}
    columns = DEFAULT_TERMS.columns(robot)
    theta = np.array([c.prior if np.isfinite(c.prior) else usual[c.term] for c in columns])
    rng = np.random.default_rng(0)
    clean = DEFAULT_TERMS.torque(robot, motion, theta)
    tau = clean + 0.02 * clean.std(axis=0) * rng.normal(size=clean.shape)
    q = motion.q + 2e-5 * rng.normal(size=clean.shape)
    watcher = KalmanWatcher(robot, KalmanSettings(kind, rate=200.0 if kind == "ekf" else 100.0))
    started, first = time.process_time(), 0.0
    for k in range(0, len(motion), 100):
        watcher.feed(motion.t[k : k + 100], q[k : k + 100], tau[k : k + 100])
        if watcher.filter is None:
            started, first = time.process_time(), float(motion.t[k + 99])
    watcher.finish()
    spent, track = time.process_time() - started, watcher.trajectory
    error = (track.value[-1] - watcher.base.reduce(theta)) / track.std[-1]
    print(f"{kind}: {(motion.t[-1] - first) / spent:.2f} x real time, surprise {watcher.consistency:.2f}")
    print(f"errors over standard deviations, root mean square: {np.sqrt(np.mean(error**2)):.2f}")


def csv_lines(joints: tuple[str, ...], table: np.ndarray) -> list[str]:
    """A log as a stream would bring it."""
    header = ["t", *(f"{kind}_{joint}" for kind in ("q", "tau", "dq") for joint in joints)]
    return [",".join(header), *(",".join(f"{x:.9g}" for x in row) for row in table)]


if __name__ == "__main__":
    main()
