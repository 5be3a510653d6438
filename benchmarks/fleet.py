"""Fleets: throughput, factors of a thousand robots, drift, short logs.

    python benchmarks/fleet.py [--part logs|workers|fleet|ordinary|short|plants|delay] [--robots 1000] [--days 100]
                               [--logs 24] [--robot ur5e] [--kind normal|t5|t3|ar5|ar9|season ...] [--seed 61]

logs: seconds of processor time that a 40 s log costs a worker, model given, and the size of its factor.
workers: the same logs with one and two workers of one thread; wall and processor times, those of scheduler and client.
fleet: robots and days simulated at the level of factors, committed to a store, pooled, fitted and tested; false alarms
    of robots on which nothing changes, and when a step of 5 % of one joint's friction is found.
ordinary: the same step at a random day on every third robot, where the days of all robots scatter normally, as
    Student's t, as a first-order autoregression, or with a yearly season of friction; all with the standard deviations
    DAYS.
delay: the same step for several sizes of what friction does from day to day, and as a slow rise.
plants: logs of robots that pinocchio moves, from log to alarm, with worn friction, a payload and a wrong gain.
short: 10 s logs of robots of a known type against 60 s alone, on plants of pinocchio that the model does not describe.

Processor times are of the process and its children; machines are shared.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import parser, pinocchio_model

import numpy as np

from dynid.base import Float
from dynid.fleet import FleetLog, FleetStore, Plan, TypeModel, run_fleet
from dynid.fleet.cluster import local_file
from dynid.fleet.drift import TypeAnalysis, analyse
from dynid.fleet.page import alarm_text
from dynid.fleet.pool import State, Weights, days, fit_hierarchy, information
from dynid.fleet.task import DONE, LogRow, packed, process, unpacked
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import RobotModel, load_example
from dynid.signals import Preparation
from dynid.trajectories import FourierTrajectory
from dynid.verbs import save

RATE, SECONDS, CUTOFF = 1000.0, 40.0, 8.0
BEGIN = datetime(2026, 1, 1, 8, tzinfo=UTC)
# What differs between robots and between days of one robot, over each value: bodies, friction; offsets over the torque.
ROBOTS = {"bodies": 0.01, "friction": 0.15, "offset": 0.01}
DAYS = {"bodies": 0.0005, "friction": 0.01, "offset": 0.001}
STEP, AFTER, WITHIN = 0.05, 50, 3
# Day effects of `ordinary`, a day in which a change must be found, and the amplitude of a season of friction.
ORDINARY, SOON, SEASON = ("normal", "t5", "t3", "ar5", "ar9", "season"), 5, 0.10


@dataclass(frozen=True, eq=False)
class Arm:
    """A robot of one type as pinocchio moves it, with friction that no default term describes.

    scale: (n,) of friction.    bodies: relative error of the masses.    gain: (n,) of the torque's sensors.
    """

    robot: RobotModel
    size: Float
    scale: Float
    bodies: Float
    gain: Float
    load: float = 0.0  # kg

    @staticmethod
    def new(robot: RobotModel, rng: np.random.Generator, spread: float = 0.15) -> Arm:
        """A robot of the type."""
        n = robot.n
        size = np.array([30.0, 60.0, 30.0, 8.0, 8.0, 4.0, 4.0])[:n]
        scale = np.exp(rng.normal(0, spread, n))
        return Arm(robot, size, scale, np.exp(rng.normal(0, 0.01, n)), np.ones(n))

    def log(self, path: Path, seconds: float, seed: int, rate: float = RATE, noise: int = 0) -> Path:
        """Writes a log of a random motion."""
        rng = np.random.default_rng([seed, noise])
        t = np.arange(round(seconds * rate)) / rate
        motion = FourierTrajectory.random(
            self.robot, max(seconds, 20.0), harmonics=8, seed=seed, frequency=0.05
        )
        q, dq, ddq = motion.motion(t)
        tau = self.rigid(q, dq, ddq)
        curve = (
            0.1 * np.tanh(dq / 0.02) * (1 + 0.3 * np.exp(-np.abs(dq) / 0.2))
            + 0.1 * dq
            + 0.005 * np.sin(7 * q)
        )
        tau = self.gain * (tau + self.scale * self.size * curve)
        tau = tau + rng.normal(0, 0.01, tau.shape) * tau.std(axis=0)
        q = q + rng.normal(0, 1e-5, q.shape)
        columns = canonical_columns(self.robot.joint_names, q, dq + rng.normal(0, 1e-3, q.shape), tau)
        return write_log(path, t, columns)

    def rigid(self, q: Float, dq: Float, ddq: Float) -> Float:
        """Torque of the bodies by pinocchio."""
        import pinocchio as pin

        model = pinocchio_model(self.robot)
        for j in range(self.robot.n):
            inertia = model.inertias[j + 1]
            model.inertias[j + 1] = pin.Inertia(
                inertia.mass * self.bodies[j], inertia.lever, inertia.inertia * self.bodies[j]
            )
        if self.load:
            ball = pin.Inertia(self.load, np.array([0.0, 0.03, 0.1]), 0.001 * self.load * np.eye(3))
            model.inertias[self.robot.n] = model.inertias[self.robot.n] + ball
        data = model.createData()
        return np.array([pin.rnea(model, data, *state).copy() for state in zip(q, dq, ddq, strict=True)])


def type_run(folder: Path, robot: RobotModel) -> Path:
    """The run folder of a type's model, identified from 60 s of its first robot."""
    path = Arm.new(robot, np.random.default_rng(0)).log(folder / "first.parquet", 60.0, 1)
    settings = Settings(terms=DEFAULT_TERMS, preparation=Preparation(cutoff=CUTOFF))
    save(identify(robot, read_log(path, robot), settings, threads=1), folder / "run")
    return folder / "run"


def spent() -> tuple[float, float]:
    """Processor time of this process and of its children that ended, s."""
    times = os.times()
    return times.user + times.system, times.children_user + times.children_system


def part_logs(folder: Path, given: argparse.Namespace) -> None:
    """Processor time and size of a log."""
    robot = load_example("arm7")
    model = TypeModel.of_run("arm7", type_run(folder, robot))
    store, text, times = FleetStore.open(folder / "fleet", {"arm7": model}), model.text(), []
    for day, path in enumerate(logs_of(robot, folder, range(2, 5))):
        before = time.process_time()
        row = process(fields("arm7", "0", day, path), text, local_file)
        times.append(time.process_time() - before)
        store.commit([row])
    store.fold()
    size = sum(path.stat().st_size for path in (folder / "fleet" / "factors").rglob("*.parquet"))
    cost, minutes = float(np.mean(times[1:])), len(times) * SECONDS / 60
    print(
        f"a 40 s log of 7 joints at 1 kHz: {cost:.2f} s of processor time, {1 / cost:.2f} logs a second and core "
        f"(goal 0.9)\nfactor: {size / minutes / 1000:.1f} kB a minute of log (limit 30), {len(model.kept)} columns"
    )


def logs_of(robot: RobotModel, folder: Path, seeds: range) -> list[Path]:
    """A log of each of some robots of a type."""
    return [Arm.new(robot, np.random.default_rng(s)).log(folder / f"{s}.parquet", SECONDS, s) for s in seeds]


def fields(kind: str, serial: str, day: int, path: Path | str) -> dict[str, str]:
    """Fields of a log, a day after the other."""
    when = (BEGIN + timedelta(days=day)).isoformat()
    return {"type": kind, "serial": serial, "time": when, "path": str(path), "trajectory": "*"}


def part_workers(folder: Path, given: argparse.Namespace) -> None:
    """The same logs with one and with two workers."""
    robot = load_example("arm7")
    run, paths = type_run(folder, robot), logs_of(robot, folder, range(4))
    count = given.logs
    logs = tuple(sorted(log_of(fields("arm7", str(i % 4), i, paths[i % 4])) for i in range(count)))
    walls = {}
    for workers in (1, 2):
        before, before_others = spent()
        begun = time.perf_counter()
        first: list[float] = []

        def advance(done: int, failed: int, first: list[float] = first) -> None:
            first.append(time.perf_counter())

        out = folder / f"fleet{workers}"
        run_fleet(Plan(logs, {"arm7": run}, {}, folder), out, workers=workers, advance=advance)
        after, after_others = spent()
        walls[workers] = first[-1] - first[0]
        rest = (count - 1) / walls[workers]
        print(
            f"{workers} worker(s): {count} logs, {time.perf_counter() - begun:.1f} s in all, {rest:.2f} logs a second "
            f"from the first to the last; processor time: scheduler and client {after - before:.1f} s, workers "
            f"{after_others - before_others:.1f} s"
        )
    print(f"two workers are {walls[1] / walls[2]:.2f} times as fast as one (goal 1.7)")


def log_of(row: Mapping[str, str]) -> FleetLog:
    """The log of fields."""
    return FleetLog(**dict(row) | {"time": datetime.fromisoformat(row["time"])})


@dataclass(frozen=True, eq=False)
class Generator:
    """Logs of a simulated fleet as factors: a few motions, parameters that differ by robot and day, noise.

    motions: rows of logs, whose triangles hold what a motion shows.    by_robot, by_day: (k,) standard deviations.
    """

    model: TypeModel
    motions: list[LogRow]
    by_robot: Float
    by_day: Float

    @staticmethod
    def of(folder: Path, robot: RobotModel, motions: int, days: Mapping[str, float]) -> Generator:
        """A type and its motions, 40 s each."""
        model = TypeModel.of_run(robot.name, type_run(folder, robot))
        rows = []
        for seed in range(motions):
            arm, path = Arm.new(robot, np.random.default_rng(seed)), folder / f"m{seed}.parquet"
            arm.log(path, SECONDS, 10 + seed, 250.0)
            rows.append(process(fields(robot.name, "0", seed, path), model.text(), local_file))
        if any(row.status != DONE for row in rows):
            raise RuntimeError(rows[0].message)
        return Generator(model, rows, _spread(model, rows[0], ROBOTS), _spread(model, rows[0], days))

    def log(self, serial: str, day: int, x: Float, rng: np.random.Generator) -> LogRow:
        """A row with parameters x (k,)."""
        row = self.motions[int(rng.integers(len(self.motions)))]
        place = {int(c): i for i, c in enumerate(self.model.kept)}
        triangles = []
        widths = [len(columns) for columns in self.model.layout]
        for j, (R, columns) in enumerate(zip(unpacked(row.R, widths), self.model.layout, strict=True)):
            w = len(columns)
            noise = row.sigma[j] * rng.normal(size=w) * np.sqrt(row.design[j])
            R[:w, w] = R[:w, :w] @ x[[place[int(c)] for c in columns]] + noise
            R[w, w] = row.sigma[j] * np.sqrt(max(row.count[j] - w, 1))
            triangles.append(R)
        log = log_of(fields(self.model.name, serial, day, "simulated"))
        return replace(row, log=log, R=packed(triangles, row.count))


def _spread(model: TypeModel, row: LogRow, sizes: Mapping[str, float]) -> Float:
    spread = sizes["bodies"] * np.abs(model.value)
    torque = [
        float(np.linalg.norm(R[:, -1])) / np.sqrt(c)
        for R, c in zip(unpacked(row.R, [len(columns) for columns in model.layout]), row.count, strict=True)
    ]
    for j in range(model.robot.n):
        spread[model.friction(j)] = sizes["friction"] * np.abs(model.value[model.friction(j)])
        spread[model.offset(j)] = sizes["offset"] * torque[j]
        spread[model.compliance(j)] = 0.0
    return spread


def simulated(
    generator: Generator,
    store: FleetStore,
    robots: int,
    days: int,
    step: Callable[[int, int], float],
    seed: int = 0,
) -> dict[str, tuple[int, int]]:
    """Writes a fleet; every tenth robot's friction of one joint grows.    step: (day, after) -> share.

    Returns joint and first day of the change by serial number.
    """
    model, changed = generator.model, {}
    for r in range(robots):
        rng = np.random.default_rng([seed, r])
        serial = f"{r:05d}"
        usual = model.value + generator.by_robot * rng.normal(size=len(model.value))
        joint = int(rng.integers(model.robot.n))
        if r % 10 == 0:
            changed[serial] = (joint, AFTER)
        rows = []
        for day in range(days):
            x = usual + generator.by_day * rng.normal(size=len(usual))
            if serial in changed:
                x = x * (1.0 + step(day, AFTER) * model.friction(joint))
            rows.append(generator.log(serial, day, x, rng))
        store.commit(rows)
    store.fold()
    return changed


def judged(
    analysis: TypeAnalysis,
    changed: Mapping[str, tuple[int, int]],
    robots: int,
    days: int,
    within: int = WITHIN,
) -> str:
    """Detections and false alarms in words."""
    model, right, named, delays, false = analysis.model, 0, 0, [], 0
    done: set[str] = set()
    for alarm in analysis.alarms:
        day = (alarm.found - BEGIN.date()).days
        truth = changed.get(alarm.serial)
        if truth is None or day < truth[1] or alarm.serial in done:
            false += 1
            continue
        done.add(alarm.serial)
        delays.append(day - truth[1] + 1)
        right += delays[-1] <= within
        named += alarm.effect == "friction" and alarm.joint == model.robot.joint_names[truth[0]]
    years = (robots * days - sum(days - since for _, since in changed.values())) / 365.0
    middle = f"{np.median(delays):.0f} days (greatest {max(delays)})" if delays else "-"
    return (
        f"{len(done)} of {len(changed)} found, {right} within {within} days, median {middle}; joint and effect "
        f"right {named}; {false} false alarms in {years:.0f} robot-years ({100 * false / years:.2f} % a robot-year, "
        "stated: at most 1)"
    )


def part_fleet(folder: Path, given: argparse.Namespace) -> None:
    """A thousand robots."""
    generator = Generator.of(folder, load_example("ur5e"), 6, DAYS)
    store = FleetStore.open(folder / "fleet", {generator.model.name: generator.model})
    begun, before = time.perf_counter(), sum(spent())
    changed = simulated(generator, store, given.robots, given.days, lambda day, after: STEP * (day >= after))
    middle, half = time.perf_counter(), sum(spent())
    (analysis,) = analyse(store)
    print(
        f"{given.robots} robots x {given.days} days: generated {middle - begun:.0f} s wall, {half - before:.0f} s "
        f"processor; pooled, fitted, tested {time.perf_counter() - middle:.0f} s wall, {sum(spent()) - half:.0f} s "
        "processor (goal: all < 600 s on 2 cores)"
    )
    print(
        f"step of {100 * STEP:g} %, friction varies by {100 * DAYS['friction']:g} % from day to day: "
        + judged(analysis, changed, given.robots, given.days)
    )
    print(
        f"false alarms on quiet days in random order {100 * analysis.calibration.rate:.2g} % a robot-year; memory "
        f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB"
    )


def day_effects(kind: str, rng: np.random.Generator, days: int, count: int) -> Float:
    """Day effects (days, count) of variance 1: independent normal or Student's t, or an autoregression."""
    if kind in ("t5", "t3"):
        freedom = float(kind[1:])
        return np.asarray(rng.standard_t(freedom, (days, count)) * np.sqrt((freedom - 2.0) / freedom))
    effects = rng.normal(size=(days, count))
    if kind in ("ar5", "ar9"):
        memory = float(kind[2:]) / 10.0
        for day in range(1, days):
            effects[day] = memory * effects[day - 1] + np.sqrt(1.0 - memory**2) * effects[day]
    return effects


def ordinary(
    generator: Generator, store: FleetStore, kind: str, robots: int, days: int, seed: int
) -> dict[str, tuple[int, int]]:
    """Writes a fleet with day effects of a kind; every third robot's friction of one joint grows by STEP.

    Returns joint and first day of the change by serial number.
    """
    model, changed = generator.model, {}
    friction = np.sum([model.friction(j) for j in range(model.robot.n)], axis=0) > 0
    phase = np.random.default_rng(seed).uniform(0, 2 * np.pi)
    for r in range(robots):
        rng = np.random.default_rng([seed, r])
        serial = f"{r:05d}"
        usual = model.value + generator.by_robot * rng.normal(size=len(model.value))
        joint, since = int(rng.integers(model.robot.n)), int(rng.integers(days // 3, 2 * days // 3))
        effects = day_effects(kind, rng, days, len(usual))
        if r % 3 == 0:
            changed[serial] = (joint, since)
        rows = []
        for day in range(days):
            x = usual + generator.by_day * effects[day]
            if kind == "season":
                x = x * (1.0 + SEASON * np.sin(2 * np.pi * day / 365 + phase) * friction)
            if serial in changed and day >= since:
                x = x * (1.0 + STEP * model.friction(joint))
            rows.append(generator.log(serial, day, x, rng))
        store.commit(rows)
    store.fold()
    return changed


def part_ordinary(folder: Path, given: argparse.Namespace) -> None:
    """False alarms and the step on days that are not independent and normal."""
    robots, days = min(given.robots, 60) if given.robot == "ur5e" else given.robots, max(given.days, 150)
    generator = Generator.of(folder, load_example(given.robot), 4, DAYS)
    for kind in given.kind or ORDINARY:
        store = FleetStore.open(folder / kind, {generator.model.name: generator.model})
        changed = ordinary(generator, store, kind, robots, days, given.seed)
        (analysis,) = analyse(store)
        print(f"{kind:7s} {judged(analysis, changed, robots, days, SOON)}", flush=True)


def part_delay(folder: Path, given: argparse.Namespace) -> None:
    """How much friction may vary from day to day."""
    robots = min(given.robots, 60)

    def at_once(day: int, after: int) -> float:
        return STEP * (day >= after)

    def slowly(day: int, after: int) -> float:
        return STEP * min(max((day - after) / 20.0, 0.0), 1.0)

    cases = [("step", share, at_once) for share in (0.005, 0.01, 0.015, 0.03)] + [
        ("rise in 20 days", 0.01, slowly)
    ]
    for name, share, step in cases:
        place = folder / f"{name[:4]}{share}"
        place.mkdir()
        generator = Generator.of(place, load_example("ur5e"), 4, DAYS | {"friction": share})
        store = FleetStore.open(place / "fleet", {generator.model.name: generator.model})
        changed = simulated(generator, store, robots, 80, step)
        (analysis,) = analyse(store)
        print(f"{name} of 5 %, {100 * share:g} % from day to day: {judged(analysis, changed, robots, 80)}")


def part_plants(folder: Path, given: argparse.Namespace) -> None:
    """From logs to alarms, on plants that the model does not describe."""
    robot = load_example("arm7")
    run = type_run(folder, robot)
    changes = {
        "friction": lambda arm: replace(arm, scale=arm.scale * np.where(np.arange(robot.n) == 1, 1.2, 1.0)),
        "load": lambda arm: replace(arm, load=0.5),
        "gain": lambda arm: replace(arm, gain=np.where(np.arange(robot.n) == 2, 0.94, 1.0)),
    }
    logs = []
    for r in range(9):
        new = Arm.new(robot, np.random.default_rng(100 + r))
        serial = dict(enumerate(changes)).get(r, f"calm {r}")
        for day in range(20):
            rng = np.random.default_rng([r, day])
            arm = replace(new, scale=new.scale * np.exp(rng.normal(0, 0.015, robot.n)))
            arm = changes[serial](arm) if serial in changes and day >= 14 else arm
            path = arm.log(folder / f"{r}-{day}.parquet", 20.0, 500 + day % 4, 250.0, noise=r * 100 + day)
            logs.append(log_of(fields("arm7", serial, day, path)))
    out = folder / "fleet"
    run_fleet(Plan(tuple(sorted(logs)), {"arm7": run}, {}, folder), out, workers=2)
    (analysis,) = analyse(FleetStore.open(out))
    print(
        f"{len(logs)} logs of pinocchio's arms, 9 robots x 20 days; changes on day 15 of 3 of them: "
        "friction of j2 +20 %, load +0.5 kg, gain of j3 -6 %"
    )
    for alarm in analysis.alarms:
        print("  " + alarm_text(alarm))


def part_short(folder: Path, given: argparse.Namespace) -> None:
    """Short logs of a known type."""
    robot = load_example("arm7")
    model = TypeModel.of_run("arm7", type_run(folder, robot))

    def row(arm: Arm, serial: str, day: int, seconds: float, motion: int) -> LogRow:
        path = arm.log(folder / f"{serial}-{day}.parquet", seconds, motion, 250.0, noise=day)
        return process(fields("arm7", serial, day, path), model.text(), local_file)

    store = FleetStore.open(folder / "fleet", {"arm7": model})
    for r in range(12):
        arm = Arm.new(robot, np.random.default_rng(200 + r))
        store.commit([row(arm, f"k{r:02d}", day, 40.0, 700 + 10 * r + day) for day in range(3)])
    store.fold()
    rows = [log for _, robot_rows in store.rows("arm7") for log in robot_rows]
    weights = Weights.of(model, rows)
    hierarchy = fit_hierarchy(
        [days(model, weights, robot_rows) for _, robot_rows in store.rows("arm7")], robot.n
    )
    errors: dict[str, list[float]] = {
        name: [] for name in ("10 s alone", "60 s alone", "10 s and its type", "the type")
    }
    for r in range(10):
        arm = Arm.new(robot, np.random.default_rng(300 + r))
        short, long = (row(arm, f"n{r:02d}", i, seconds, 800 + r) for i, seconds in enumerate((10.0, 60.0)))
        unseen = row(arm, f"n{r:02d}", 2, 40.0, 900 + r)
        A, h = information(model, weights, vars(short))
        B, g = information(model, weights, vars(long))
        # Gains and compliances are no part of a robot's own plain model.
        b = model.base.rank
        state = State.new(hierarchy, 1)
        values = {
            "the type": state.mean[0],
            "10 s and its type": state.after(hierarchy, A[None], h[None]).mean[0],
            "10 s alone": np.linalg.lstsq(A[:b, :b], h[:b], rcond=1e-12)[0],
            "60 s alone": np.linalg.lstsq(B[:b, :b], g[:b], rcond=1e-12)[0],
        }
        for name, value in values.items():
            errors[name].append(missed(model, unseen, np.pad(value, (0, len(h) - len(value)))))
    print(
        "torque missed on 40 s of unseen motion, mean over the joints, median of 10 robots new to their type:"
    )
    for name, each in errors.items():
        print(f"  {name}: {100 * np.median(each):.2f} %")
    better = sum(a <= b for a, b in zip(errors["10 s and its type"], errors["60 s alone"], strict=True))
    print(f"10 s of a known type are no worse than 60 s alone on {better} of 10 robots")


def missed(model: TypeModel, row: LogRow, x: Float) -> float:
    """Mean over the joints of the relative error of parameters and gains x (m,), about the type's model, on a log."""
    place = {int(c): i for i, c in enumerate(model.kept)}
    value, gain = model.value + x[: len(model.kept)], 1.0 + x[len(model.kept) :]
    errors = []
    for j, R in enumerate(unpacked(row.R, [len(columns) for columns in model.layout])):
        predicted = gain[j] * (R[:, :-1] @ value[[place[int(c)] for c in model.layout[j]]])
        errors.append(float(np.linalg.norm(predicted - R[:, -1]) / np.linalg.norm(R[:, -1])))
    return float(np.mean(errors))


def main() -> None:
    """Runs the parts."""
    parts = {
        "logs": part_logs, "workers": part_workers, "fleet": part_fleet, "short": part_short, "plants": part_plants,
        "delay": part_delay, "ordinary": part_ordinary,
    }  # fmt: skip
    options = parser(__doc__, robots=1000, days=100, logs=24, robot="ur5e", seed=61)
    options.add_argument("--kind", choices=ORDINARY, action="append")
    options.add_argument("--part", choices=tuple(parts), action="append")
    given = options.parse_args()
    for name in given.part or parts:
        with tempfile.TemporaryDirectory(prefix="dynid-fleet-") as folder:
            parts[name](Path(folder), given)


if __name__ == "__main__":
    main()
