"""Which estimator, by noise and by quality of the filters: the table of Madsen et al. 2020, rebuilt on 3 robots.

    python benchmarks/estimators.py [--seeds 20] [--workers 2] [--part 1/1] [--methods wls,didim]
                                    [--robots arm7,ur5e] [--seconds 12] [--out estimators.jsonl]

Every log has a motion, a noise, a robot that is not quite the described one and friction that grows with load, which
no model knows. Its columns: encoder and torque noise x1 and x10, filters good (positions 50 Hz, equations 20 Hz), loose
(200 Hz both) and over-filtered (2.5 Hz both). A figure is the error of the links' torque on another, noise-free motion
in per cent, root mean square over the joints, median over robots and seeds; "!" = some of the fits did not converge.
Finished logs are kept in the file given by --out, and the same command goes on where it stopped.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np

from dynid.base import Diagnostics, DynidError, Float
from dynid.estimate import (
    CLIE,
    CLOE,
    DIDIM,
    IRLS,
    IV,
    OE,
    OLS,
    WLS,
    Estimator,
    FeasibleFit,
    LogSource,
    Regression,
    parameter_spread,
)
from dynid.factor import Assembly, Blocking, data_base, influence, structural_base
from dynid.identification import DEFAULT_TERMS, default_estimator
from dynid.log import canonical_columns, read_log, write_log
from dynid.papers import EKF, ML, TLS
from dynid.robot import RobotModel, load_example
from dynid.rows import AutomaticRows, MomentumRows, Rows, RowsChoice, TorqueRows, choose_rows
from dynid.run import block_seconds
from dynid.signals import MotionNoise, Preparation, Prepared, Samples
from dynid.signals.prepare import prepare
from dynid.testing import random_robot
from dynid.trajectories import FourierTrajectory

ROBOTS = ("arm7", "ur5e", "random4")
SECONDS, RATE = 12.0, 1000.0
RANDOM = 2
ENCODER, TORQUE, LOAD_FRICTION, PRIOR_ERROR = 5e-6, 0.005, 0.02, 0.1
CHAINS = {
    "good": Preparation(cutoff=20.0, state_cutoff=50.0),
    "loose": Preparation(cutoff=200.0, state_cutoff=200.0),
    "over": Preparation(cutoff=2.5, state_cutoff=2.5),
}
CELLS = ((1, "good"), (10, "good"), (1, "loose"), (10, "loose"), (10, "over"))
AUTO, PLAIN, MOMENTUM = AutomaticRows(), TorqueRows(), MomentumRows()


# Rows and estimator of each.
METHODS: dict[str, tuple[Rows | AutomaticRows, Estimator]] = {
    "ols": (PLAIN, OLS()),
    "wls": (PLAIN, WLS()),
    "irls": (PLAIN, IRLS()),
    "tls": (PLAIN, TLS()),
    "ml": (PLAIN, ML()),
    "iv": (PLAIN, IV()),
    "didim": (PLAIN, DIDIM()),
    "clie": (PLAIN, CLIE()),
    "cloe": (PLAIN, CLOE()),
    "oe": (PLAIN, OE()),
    "ekf": (PLAIN, EKF()),
    "feasible": (PLAIN, FeasibleFit()),
    "momentum wls": (MOMENTUM, WLS()),
    "momentum feasible": (MOMENTUM, FeasibleFit()),
    "auto wls": (AUTO, WLS()),
    "auto didim": (AUTO, DIDIM()),
    "default": (AUTO, default_estimator()),
}


@lru_cache(maxsize=3)
def robot_of(name: str) -> RobotModel:
    """A robot that ships with dynid, or a chain of four turning joints with random bodies."""
    if name != "random4":
        return load_example(name)
    robot = random_robot(RANDOM, 4, 0.0)
    limits = replace(robot.limits, velocity=np.full(4, 2.5))
    return replace(robot, limits=limits)


def described(robot: RobotModel, seed: int) -> RobotModel:
    """The robot as it is believed to be: every body too heavy or too light by a tenth, and so is all its inertia."""
    rng = np.random.default_rng([seed, 3])
    share = 1.0 + PRIOR_ERROR * rng.choice([-1.0, 1.0], (robot.n_bodies, 1))
    return replace(robot, inertia_prior=robot.inertia_prior * share)


def true_parameters(robot: RobotModel) -> Float:
    """The description's values; friction and offsets that make up a tenth of the effort where it has none."""
    typical = {"viscous": 4.0, "coulomb": 3.0, "offset": 0.5, "rotor_inertia": 0.5}
    columns = DEFAULT_TERMS.columns(robot)
    return np.array([c.prior if np.isfinite(c.prior) else typical[c.term] for c in columns])


def torque_of(robot: RobotModel, theta: Float, motion: Sequence[Float]) -> Float:
    """Torque (T, n), with friction that grows with load."""
    samples = Samples.from_motion(motion[0], motion[1], motion[2])
    tau = DEFAULT_TERMS.torque(robot, samples, theta)
    coulomb = np.array(
        [t for t, c in zip(theta, DEFAULT_TERMS.columns(robot), strict=True) if c.term == "coulomb"]
    )
    load = np.abs(tau) / np.sqrt(np.mean(tau**2, axis=0))
    return np.asarray(tau + LOAD_FRICTION * coulomb * load * np.tanh(samples.dq / 0.02))


def link_error(robot: RobotModel, theta: Float, truth: Float, motion: Sequence[Float]) -> float:
    """Error of the torque of bodies and rotors, per cent."""
    bodies = np.array([c.term in ("rigid_body", "rotor_inertia") for c in DEFAULT_TERMS.columns(robot)])
    samples = Samples.from_motion(motion[0], motion[1], motion[2])
    wanted = DEFAULT_TERMS.torque(robot, samples, np.where(bodies, truth, 0.0))
    predicted = DEFAULT_TERMS.torque(robot, samples, np.where(bodies, theta, 0.0))
    share = ((predicted - wanted) ** 2).sum(axis=0) / (wanted**2).sum(axis=0)
    return 100.0 * float(np.sqrt(share.mean()))


@dataclass(frozen=True, eq=False)
class Case:
    """A log, prepared, whose equations are written when a method asks for them."""

    robot: RobotModel
    asked: Prepared

    def choice(self, wanted: Rows | AutomaticRows) -> RowsChoice:
        """The rows, chosen from the log where they are automatic."""
        return choose_rows(wanted, self.robot, DEFAULT_TERMS, self.asked, Diagnostics())

    def regression(self, choice: RowsChoice) -> Regression:
        """The regression of these rows, as `identify` makes it."""
        robot, rows, prepared = self.robot, choice.rows, choice.prepared(self.asked)
        batches = list(prepared)
        structural = structural_base(robot, DEFAULT_TERMS, rows)
        assembly = Assembly(
            robot,
            DEFAULT_TERMS,
            rows,
            structural.mask,
            prepared.parallel_filter(),
            Blocking(block_seconds(prepared)),
        )
        factors = assembly.factors(batches)
        base, columns = data_base(structural, factors), DEFAULT_TERMS.columns(robot)
        return Regression(
            columns=columns,
            base=base,
            factors=factors.select(base.mask),
            spread=parameter_spread(robot, columns, influence(factors)),
            source=LogSource(assembly, batches, 1, partial(MotionNoise.of, prepared)),
        )


def log_of(folder: Path, robot: RobotModel, seed: int, noise: float, seconds: float) -> Path:
    """A log of a motion with encoder and torque noise."""
    rng = np.random.default_rng([seed, int(noise), 7])
    trajectory = FourierTrajectory.random(robot, seconds, 5, seed, 0.15, 1.5)
    t = np.arange(round(seconds * RATE)) / RATE
    motion = trajectory.motion(t)
    tau = torque_of(robot, true_parameters(robot), motion)
    size = TORQUE * noise * np.sqrt(np.mean(tau**2, axis=0))
    q = motion[0] + ENCODER * noise * rng.normal(size=motion[0].shape)
    tau = tau + size * rng.normal(size=tau.shape)
    return write_log(folder / "log.parquet", t, canonical_columns(robot.joint_names, q, tau=tau))


def run_log(
    name: str, seed: int, cell: tuple[int, str], methods: Sequence[str], seconds: float = SECONDS
) -> Row:
    """Errors of all methods on one log, by name: error in per cent, whether it converged, seconds."""
    noise, chain = cell
    true = robot_of(name)
    robot = described(true, seed)
    unseen = FourierTrajectory.random(true, 8.0, 5, seed + 5000, 0.2, 1.0).motion(np.arange(0, 8.0, 0.02))
    row: Row = {"robot": name, "seed": seed, "noise": noise, "chain": chain}
    with tempfile.TemporaryDirectory() as folder:
        path = log_of(Path(folder), true, seed, noise, seconds)
        prepared = prepare(read_log(path, robot), CHAINS[chain], Diagnostics())
        case = Case(robot, prepared)
        known: dict[tuple[Rows, float | None], Regression] = {}
        for method in methods:
            started = time.process_time()
            rows, estimator = METHODS[method]
            choice = case.choice(rows)
            key = choice.rows, choice.state_cutoff
            if key not in known:
                known[key] = case.regression(choice)
            try:
                estimate = estimator.fit(known[key])
                error = link_error(true, estimate.full_vector, true_parameters(true), unseen)
                row[method] = [error, estimate.status.ok, time.process_time() - started]
            except DynidError as failure:
                row[method] = [None, False, time.process_time() - started, failure.identifier]
    return row


def table(results: Sequence[Row], methods: Sequence[str]) -> list[str]:
    """The table, and how far the default is from the best of each column."""
    head = [f"x{noise} {chain}" for noise, chain in CELLS]
    lines = [f"{'':<20}" + "".join(f"{h:>11}" for h in head) + f"{'seconds':>10}"]
    medians = {m: [_median(results, m, cell) for cell in CELLS] for m in methods}
    for method in methods:
        cells = "".join(f"{value:>10.3g}{mark}" for value, mark in medians[method])
        times = [r[method][2] for r in results if method in r]
        lines.append(f"{method:<20}{cells}{np.median(times) if times else np.nan:>10.2g}")
    best = [min((medians[m][i][0], m) for m in methods) for i in range(len(CELLS))]
    lines.append(f"{'best':<20}" + "".join(f"{name[:10]:>11}" for _, name in best))
    for method in methods:
        if method.startswith(("auto", "default")):
            shares = [medians[method][i][0] / best[i][0] for i in range(len(CELLS))]
            lines.append(f"{method + ' / best':<20}" + "".join(f"{s:>10.2f} " for s in shares))
    return lines


def _median(results: Sequence[Row], method: str, cell: tuple[int, str]) -> tuple[float, str]:
    fits = [r[method] for r in results if (r["noise"], r["chain"]) == cell and method in r]
    if not fits:
        return np.nan, " "
    values = [np.inf if fit[0] is None else fit[0] for fit in fits]
    return float(np.median(values)), " " if all(fit[1] for fit in fits) else "!"


def wanted(seeds: int, robots: Sequence[str]) -> Iterator[tuple[str, int, tuple[int, str]]]:
    """All logs, seed by seed, so that an unfinished run has something of everything."""
    for seed in range(seeds):
        for name in robots:
            for cell in CELLS:
                yield name, seed, cell


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the logs that are not in the file yet and prints the table."""
    given = parser(
        __doc__, seeds=20, workers=os.cpu_count() or 1, part="1/1", methods=",".join(METHODS), robots=",".join(ROBOTS),
        seconds=SECONDS, out=Path("estimators.jsonl"),
    ).parse_args(arguments)  # fmt: skip
    methods = [m for m in METHODS if m in given.methods.split(",")]

    def key(row: Row) -> object:
        # A log on which some method is missing is run again.
        return set(methods) <= set(row) and (row["robot"], row["seed"], (row["noise"], row["chain"]))

    tasks = {task: task for task in wanted(given.seeds, given.robots.split(","))}
    work = partial(run_task, methods=methods, seconds=given.seconds)
    print("\n".join(table(campaign(tasks, work, key, given), methods)))


def run_task(task: tuple[str, int, tuple[int, str]], methods: Sequence[str], seconds: float) -> Row:
    """`run_log` of a task."""
    return run_log(*task, methods, seconds)


if __name__ == "__main__":
    main()
