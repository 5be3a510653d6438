"""Do 95 % intervals hold the truth 95 times of 100? Simulated experiments on 3 robots with correlated residuals.

    python benchmarks/coverage.py [--short] [--experiments 1000] [--workers 2] [--part 1/1] [--out FILE]

Every experiment has a motion, a noise and a correlation time of its own (0.05, 0.2 or 0.5 s; the filter alone leaves
0.1 s). Finished experiments are kept in the file given by --out, and the same command goes on where it stopped. The
table gives the share of base parameters inside their intervals by method, for textbook intervals, and for what dynid
does when nothing is said: consistent bodies near those of the description, which here has nothing to do with the truth.
--short: logs of 24 s, whose blocks are shorter; residuals up to 3 and to 8 Hz, by turns.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np

from dynid.base import Float, SolverError
from dynid.estimate import WLS, Intervals, regression_of
from dynid.factor import Assembly, BaseMap, Blocking, structural_base
from dynid.identification import DEFAULT_TERMS, default_estimator
from dynid.robot import RobotModel, load_example
from dynid.rows import TorqueRows
from dynid.run import usual_block
from dynid.signals import ParallelFilter, Samples
from dynid.testing import random_inertia
from dynid.trajectories import FourierTrajectory

ROBOTS = ("arm7", "ur5e", "puma560")
CORRELATION = (0.05, 0.2, 0.5)
RATE, NOISE = 100.0, 0.05
# Length of a log in s; cut-off frequencies in Hz, by turns.
LONG, SHORT = (80.0, (8.0,)), (24.0, (3.0, 8.0))


@lru_cache(maxsize=3)
def robot_of(name: str) -> tuple[RobotModel, BaseMap]:
    """A robot and its structural base parameters."""
    robot = load_example(name)
    return robot, structural_base(robot, DEFAULT_TERMS, TorqueRows())


def truth_of(robot: RobotModel, seed: int) -> Float:
    """Parameters of a robot: physical bodies, rotors, friction."""
    rng = np.random.default_rng([seed, 1])
    bodies = random_inertia(seed, robot.n_bodies).ravel()
    joints = len(DEFAULT_TERMS.columns(robot)) - len(bodies)
    return np.concatenate([bodies, rng.uniform(0.2, 2.0, joints)])


def experiment(number: int, short: bool = False, default: bool = True) -> Row:
    """One experiment: how many base parameters lie in their 95 % intervals, by method.

    default: whether what dynid does when nothing is said is tried as well, which takes nine tenths of the time.
    """
    seconds, cutoffs = SHORT if short else LONG
    cutoff = cutoffs[number // (len(ROBOTS) * len(CORRELATION)) % len(cutoffs)]
    robot, structural = robot_of(ROBOTS[number % len(ROBOTS)])
    memory = CORRELATION[number // len(ROBOTS) % len(CORRELATION)]
    theta = truth_of(robot, number)
    motion = FourierTrajectory.random(robot, seconds, harmonics=8, seed=number, frequency=0.05)
    t = np.arange(round(seconds * RATE)) / RATE
    q, dq, ddq = motion.motion(t)
    tau = DEFAULT_TERMS.torque(robot, Samples.from_motion(q, dq, ddq, rate=RATE), theta)
    tau = tau + NOISE * tau.std(axis=0) * correlated(tau.shape, memory, number)
    samples = Samples.from_motion(q, dq, ddq, tau, rate=RATE)
    length = usual_block(seconds, cutoff)
    assembly = Assembly(
        robot,
        DEFAULT_TERMS,
        TorqueRows(),
        structural.mask,
        ParallelFilter(RATE, cutoff, 4, 2),
        Blocking(length),
    )
    factors = assembly.factors([samples])
    regression = regression_of(robot, DEFAULT_TERMS, structural, factors)
    base = regression.base
    beta = base.reduce(theta)
    row: Row = {"number": number, "robot": robot.name, "memory": memory, "cutoff": cutoff}
    row |= {"parameters": base.rank, "blocks": len(factors.blocks)}
    for kind in Intervals:
        estimate = WLS(intervals=kind.value).fit(regression)
        error = np.abs(estimate.value - beta)
        row[kind.value] = int((error <= estimate.half_width()).sum())
        row["textbook"] = int((error <= 1.96 * estimate.textbook_std).sum())
    if default:
        try:
            estimate = default_estimator().fit(regression)
        except SolverError:  # then `identify` keeps the estimate without constraints, with a warning
            estimate = WLS().fit(regression)
        row["default"] = int((np.abs(estimate.value - beta) <= estimate.half_width()).sum())
    return row


def correlated(shape: tuple[int, ...], memory: float, seed: int) -> Float:
    """First-order autoregressive noise of unit variance whose correlation falls to 1/e within `memory` seconds."""
    from scipy.signal import lfilter

    rng = np.random.default_rng([seed, 2])
    r = np.exp(-1.0 / (memory * RATE))
    white = rng.normal(0.0, 1.0, shape)
    white[1:] *= np.sqrt(1.0 - r**2)
    return np.asarray(lfilter([1.0], [1.0, -r], white, axis=0))


def table(results: list[Row]) -> Iterator[str]:
    """Coverage in percent, by robot, by correlation time and over all."""
    methods = [*(kind.value for kind in Intervals), "textbook", "default"]
    yield f"{'':<16}{'experiments':>12}" + "".join(f"{m:>12}" for m in methods)
    groups = [(name, "robot", name) for name in sorted({r["robot"] for r in results})]
    groups += [(f"memory {memory:g} s", "memory", memory) for memory in CORRELATION]
    cutoffs = sorted({r["cutoff"] for r in results})
    groups += [(f"up to {cutoff:g} Hz", "cutoff", cutoff) for cutoff in cutoffs if len(cutoffs) > 1]
    for name, field, value in [*groups, ("all", "", None)]:
        rows = [r for r in results if not field or r[field] == value]
        total = sum(r["parameters"] for r in rows)
        if total:
            shares = "".join(f"{100 * sum(r[m] for r in rows) / total:>10.1f} %" for m in methods)
            yield f"{name:<16}{len(rows):>12}" + shares


def main() -> None:
    """Runs what is missing and prints the table."""
    given = parser(
        __doc__, experiments=1000, workers=os.cpu_count() or 1, part="1/1", short=False, out=Path
    ).parse_args()
    given.out = given.out or Path("coverage_short.jsonl" if given.short else "coverage.jsonl")
    numbers = {number: number for number in range(given.experiments)}
    work = partial(experiment, short=given.short)
    print("\n".join(table(campaign(numbers, work, lambda row: row["number"], given))))


if __name__ == "__main__":
    main()
