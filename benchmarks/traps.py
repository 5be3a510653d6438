"""Wrong inputs that look like robots: are they noticed?  Five simulated robots, thirteen faults, clean logs besides.

    python benchmarks/traps.py [--seeds 20] [--clean 100] [--first 0] [--workers 2] [--out traps.jsonl]
                               [--bare] [--auto] [--more]

Every robot is described with masses, centres and inertias 20 to 30 % off; every log has encoder steps, torque noise and
friction that the model does not hold exactly. A fault is named if the run stops, doubts or warns with one of the words
that mean it, noticed if it does so at all or the verdict is not "good", silent otherwise; how loudly it is reported (by
a stop, a doubt, a warning) is counted apart. Runs that are in --out already are not repeated. --bare: descriptions
without inertias. --auto: the model is left to the data, as it is without an experiment file. --more: ten further
faults in place of the thirteen, those of torque's size on descriptions up to 15 % off; a gain is sought with --auto
alone. --first: first seed.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.trap_robots import Machine, imprecise, loaded, machines, tilted
from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostic, Diagnostics
from dynid.base.errors import DynidError
from dynid.diagnosis.finding import ResidualFinding
from dynid.estimate.estimator import Estimator
from dynid.identification.pipeline import identify
from dynid.identification.settings import DEFAULT_TERMS, Settings, default_estimator
from dynid.kernel import gravity_torque
from dynid.log.own_columns import canonical_columns, write_log
from dynid.log.read import read_log
from dynid.robot.model import RobotModel
from dynid.simulation.motion import inverse, rigid_torque
from dynid.trajectories.trajectory import FourierTrajectory

RATE, SECONDS, HARMONICS, FREQUENCY = 250.0, 24.0, 5, 0.1
NOISE, COUNTS = 0.005, 2.0**17
CLEAN = "clean"
LAG_SAMPLES = (6, 15)
CLIPPED = 0.05
TILT = (2.0, 5.0)
# Of a joint's torque, what its bodies have to make up for another joint's torque to tell its scale.
SEEN = 0.05


@dataclass(frozen=True, eq=False)
class Recording:
    """What a simulated robot did and what was measured; t (T,), the rest (T, n)."""

    robot: RobotModel
    t: Float
    q: Float
    dq: Float
    tau: Float


@dataclass(frozen=True)
class Fault:
    """A wrong input.    spoil: what it does to a recording.    words: identifiers that name it.

    rebuild: what it does to the robot that is recorded, None = nothing.    described: range of the shares by which the
    description is off.
    """

    name: str
    severity: str
    words: tuple[str, ...]
    spoil: Callable[[Recording, np.random.Generator], Recording] = lambda one, rng: one
    rebuild: Callable[[Machine, np.random.Generator], RobotModel] = lambda machine, rng: machine.robot
    described: tuple[float, float] = (0.2, 0.3)


def degrees(one: Recording, rng: np.random.Generator) -> Recording:
    """Angles in degrees and lengths in millimetres; half of the time velocities as well."""
    unit = np.where(one.robot.prismatic, 1000.0, 180.0 / np.pi)
    return replace(one, q=one.q * unit, dq=one.dq * (unit if rng.random() < 0.5 else 1.0))


def milliamperes(one: Recording, rng: np.random.Generator) -> Recording:
    """Motor current in mA of drives with 8 to 15 N m/A in place of torque."""
    return replace(one, tau=1000.0 * one.tau / rng.uniform(8.0, 15.0, one.robot.n))


def effort_sign(one: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint with the wrong sign."""
    sign = np.ones(one.robot.n)
    sign[rng.integers(one.robot.n)] = -1.0
    return replace(one, tau=one.tau * sign)


def position_sign(one: Recording, rng: np.random.Generator) -> Recording:
    """Position and velocity of one joint with the wrong sign."""
    sign = np.ones(one.robot.n)
    sign[rng.integers(one.robot.n)] = -1.0
    return replace(one, q=one.q * sign, dq=one.dq * sign)


def effort_order(one: Recording, rng: np.random.Generator) -> Recording:
    """Two torque columns exchanged."""
    return replace(one, tau=one.tau[:, _exchanged(one.robot.n, rng)])


def position_order(one: Recording, rng: np.random.Generator) -> Recording:
    """Two joints' positions and velocities exchanged."""
    order = _exchanged(one.robot.n, rng)
    return replace(one, q=one.q[:, order], dq=one.dq[:, order])


def lag(one: Recording, rng: np.random.Generator) -> Recording:
    """Torque that is late by 6 to 14 samples."""
    late = int(rng.integers(*LAG_SAMPLES))
    return replace(one, tau=one.tau[np.maximum(np.arange(len(one.t)) - late, 0)])


def clipping(one: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint cut off where 5 % of the samples lie, on one side or on both."""
    tau, j = one.tau.copy(), int(rng.integers(one.robot.n))
    low, high = np.quantile(tau[:, j], [CLIPPED, 1.0 - CLIPPED])
    side = rng.integers(3)
    tau[:, j] = np.clip(tau[:, j], low if side != 0 else None, high if side != 1 else None)
    return replace(one, tau=tau)


def without_gravity(one: Recording, rng: np.random.Generator) -> Recording:
    """Torque less that of gravity."""
    return replace(one, tau=one.tau - gravity_torque(one.robot.tree, one.robot.inertia_prior, one.q))


def standstill(one: Recording, rng: np.random.Generator) -> Recording:
    """A robot at rest, its sensors working."""
    rest = 2e-5 * rng.normal(size=one.q.shape)
    tau = one.tau[0] + 0.01 * np.abs(one.tau).max(axis=0) * rng.normal(size=one.tau.shape)
    return replace(one, q=one.q[0] + rest, dq=5e-3 * rng.normal(size=one.q.shape), tau=tau)


def one_at_rest(one: Recording, rng: np.random.Generator) -> Recording:
    """One joint's encoder has died: it reports a constant."""
    q, dq, j = one.q.copy(), one.dq.copy(), int(rng.integers(one.robot.n))
    q[:, j], dq[:, j] = q[0, j], 0.0
    return replace(one, q=q, dq=dq)


def tilt(machine: Machine, rng: np.random.Generator) -> RobotModel:
    """A base that leans by 2 to 5 degrees."""
    return tilted(machine.robot, np.deg2rad(rng.uniform(*TILT)), rng.uniform(0, 2 * np.pi))


def payload(machine: Machine, rng: np.random.Generator) -> RobotModel:
    """A load near the robot's rated one."""
    return loaded(machine.robot, machine.payload, rng)


def twice(one: Recording, rng: np.random.Generator) -> Recording:
    """All torques twice as large, or half."""
    return replace(one, tau=one.tau * (2.0 if rng.random() < 0.5 else 0.5))


def frozen(one: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint stands still for 8 % of the log."""
    tau, j = one.tau.copy(), int(rng.integers(one.robot.n))
    start = int(rng.integers(len(one.t) // 4, len(one.t) // 2))
    tau[start : start + len(one.t) // 12, j] = tau[start, j]
    return replace(one, tau=tau)


def coarse(one: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint in 20 to 40 steps."""
    tau, j = one.tau.copy(), int(rng.integers(one.robot.n))
    step = np.ptp(tau[:, j]) / rng.integers(20, 40)
    tau[:, j] = np.round(tau[:, j] / step) * step
    return replace(one, tau=tau)


def rows_lost(one: Recording, rng: np.random.Generator) -> Recording:
    """Rows lost at four places, time numbered anew."""
    keep = np.ones(len(one.t), dtype=bool)
    for start in rng.integers(500, len(one.t) - 500, 4):
        keep[start : start + int(rng.integers(15, 60))] = False
    return replace(one, t=one.t[: keep.sum()], q=one.q[keep], dq=one.dq[keep], tau=one.tau[keep])


def long_lag(one: Recording, rng: np.random.Generator) -> Recording:
    """Torque that is late by 25 to 60 samples."""
    late = int(rng.integers(25, 60))
    return replace(one, tau=one.tau[np.maximum(np.arange(len(one.t)) - late, 0)])


def unsigned(one: Recording, rng: np.random.Generator) -> Recording:
    """The absolute value of all torques."""
    return replace(one, tau=np.abs(one.tau))


def clock(one: Recording, rng: np.random.Generator) -> Recording:
    """Time stamps that run 10 to 60 % too fast or too slowly."""
    factor = 1.0 + rng.uniform(0.1, 0.6)
    return replace(one, t=one.t * (factor if rng.random() < 0.5 else 1.0 / factor))


def milliseconds(one: Recording, rng: np.random.Generator) -> Recording:
    """Time in milliseconds."""
    return replace(one, t=1000.0 * one.t)


def last_sign(one: Recording, rng: np.random.Generator) -> Recording:
    """The torque of the last joint with the wrong sign."""
    return replace(one, tau=one.tau * np.where(np.arange(one.robot.n) == one.robot.n - 1, -1.0, 1.0))


def gain(one: Recording, rng: np.random.Generator) -> Recording:
    """The torque of one joint half as large, of those whose bodies make up some of it: friction alone has any scale."""
    of_bodies = rigid_torque(one.robot, one.robot.inertia_prior, one.q, one.dq, np.zeros_like(one.q))
    seen = np.flatnonzero(of_bodies.std(axis=0) > SEEN * one.tau.std(axis=0))
    return replace(one, tau=one.tau * np.where(np.arange(one.robot.n) == rng.choice(seen), 0.5, 1.0))


SIGN = ("torque-sign", "negative-friction", "negative-inertia", "velocity-sign", "position-sign")
ORDER = ("joint-order", "negative-inertia", "negative-friction")
FAULTS = (
    Fault("degrees", "57.3, mm: 1000", ("unit-suspicion", "joint-order"), degrees),
    Fault("mA", "1000 / (8..15)", ("unit-suspicion", "gear-ratio-side"), milliamperes),
    Fault("torque sign", "one joint", SIGN, effort_sign),
    Fault("position sign", "one joint", SIGN, position_sign),
    Fault("torque order", "two joints", ORDER, effort_order),
    Fault("position order", "two joints", ORDER, position_order),
    Fault("lag", "6..14 samples", ("torque-lag",), lag),
    Fault("clipping", "5 % of a joint", ("saturated", "saturation"), clipping),
    Fault("gravity-free", "whole", ("gravity-compensated",), without_gravity),
    Fault("standstill", "all joints", ("standstill",), standstill),
    Fault("dead encoder", "one joint", ("joint-at-rest", "standstill"), one_at_rest),
    Fault("payload", "near the rated one", ("payload",), rebuild=payload),
    Fault("tilted base", "2..5 degrees", ("tilted-base",), rebuild=tilt),
)
# With --more.
FURTHER = (
    Fault("torque size", "x2 or x0.5", ("torque-scale", "unit-suspicion"), twice, described=(0.05, 0.15)),
    Fault("frozen torque", "8 % of a joint", ("constant-effort",), frozen),
    Fault("coarse torque", "20..40 steps", ("quantised-effort",), coarse),
    Fault("rows lost", "4 places", ("rows-lost",), rows_lost),
    Fault("long lag", "25..60 samples", ("torque-lag",), long_lag),
    Fault("unsigned", "all joints", ("unsigned-effort",), unsigned),
    Fault("wrong clock", "1.1..1.6", ("wrong-clock", "time-base"), clock),
    Fault("milliseconds", "1000", ("time-base", "rows-too-slow", "wrong-clock"), milliseconds),
    Fault("last sign", "last joint", SIGN, last_sign),
    Fault("gain", "x0.5 of a joint", ("drive-gain",), gain),
)
# The place in this list is part of a run's seed.
BY_NAME = {one.name: one for one in (*FAULTS, Fault(CLEAN, "", ()), *FURTHER)}
MACHINES = {machine.name: machine for machine in machines()}


def _exchanged(n: int, rng: np.random.Generator) -> list[int]:
    a, b = rng.choice(n, 2, replace=False)
    order = list(range(n))
    order[a], order[b] = order[b], order[a]
    return order


def recorded(robot: RobotModel, rng: np.random.Generator, seconds: float = SECONDS) -> Recording:
    """A random motion within the limits, measured: encoder steps, torque noise, friction sharper than the model's."""
    motion = FourierTrajectory.random(robot, seconds, HARMONICS, int(rng.integers(2**31)), FREQUENCY)
    t = np.arange(0.0, seconds, 1.0 / RATE)
    q, dq, ddq = motion.motion(t)
    plain = DEFAULT_TERMS.columns(robot)
    known = np.array([0.0 if np.isnan(c.prior) else c.prior for c in plain])
    theta = np.where([c.term == "coulomb" for c in plain], 0.0, known)
    tau = inverse(robot, DEFAULT_TERMS, theta, q, dq, ddq)
    coulomb = np.nan_to_num(robot.friction_prior[:, 1])
    # Sharper than the model's step, and a little higher at low speed.
    tau += coulomb * np.tanh(dq / 5e-3) * (1.0 + 0.1 * np.exp(-np.abs(dq) / 0.1))
    peak = np.abs(tau).max(axis=0)
    tau += 0.02 * peak * rng.uniform(-1, 1, robot.n)
    step = np.where(robot.prismatic, 1e-5, 2 * np.pi / COUNTS)
    return Recording(
        robot,
        t,
        np.round(q / step) * step,
        dq + 2e-3 * rng.normal(size=q.shape),
        tau + NOISE * peak * rng.normal(size=q.shape),
    )


def written(
    machine: Machine, fault: Fault, seed: int, folder: Path, known: bool = True
) -> tuple[RobotModel, Path]:
    """The robot as it is described, and the file of a log with a fault in a folder.

    known: whether the description has inertias at all.
    """
    number = list(MACHINES).index(machine.name)
    rng = np.random.default_rng([seed, number, list(BY_NAME).index(fault.name)])
    described = imprecise(machine.robot, rng, fault.described)
    if not known:
        described = replace(described, inertia_prior=np.full_like(described.inertia_prior, np.nan))
    recording = fault.spoil(recorded(fault.rebuild(machine, rng), rng), rng)
    names = machine.robot.joint_names
    columns = canonical_columns(names, recording.q, dq=recording.dq, tau=recording.tau)
    return described, write_log(folder / "log.parquet", recording.t, columns)


def outcome(
    machine: Machine,
    fault: Fault,
    seed: int,
    known: bool = True,
    auto: bool = False,
    estimator: Estimator | None = None,
) -> dict[str, Any]:
    """One log through an identification.

    Returns {"stop": identifier or None, "doubted", "warned": identifiers, "level": verdict, "text": of the stop}.

    known: whether the description has inertias at all.    auto: whether the model is left to the data.
    estimator: in place of the default one.
    """
    sink = Diagnostics()
    with tempfile.TemporaryDirectory() as folder:
        described, path = written(machine, fault, seed, Path(folder), known)
        try:
            log = read_log(path, described)
            settings = Settings(automatic=auto, estimator=estimator or default_estimator())
            found = identify(described, log, settings, diagnostics=sink, threads=1)
        except DynidError as error:
            return {
                "stop": error.identifier,
                "doubted": _ids(sink.doubts),
                "warned": _ids(sink.warnings),
                "level": "",
                "text": str(error),
            }
    residual_findings = [one for one in found.residual_findings if one.level == "warning"]
    return {
        "stop": None,
        "doubted": _ids(sink.doubts),
        "warned": _ids([*sink.warnings, *residual_findings]),
        "level": found.verdict.level,
        "text": "",
    }


def _ids(items: Sequence[Diagnostic | ResidualFinding]) -> list[str]:
    return sorted({item.identifier for item in items})


def kind(result: Mapping[str, Any]) -> str:
    """named, noticed or silent; for a clean log stopped, doubted, warned or passed."""
    fault = BY_NAME[result["fault"]]
    reported = {result["stop"], *result["doubted"], *result["warned"]} - {None}
    if fault.name == CLEAN:
        # The friction of clean logs is not quite the model's, so to report it is right.
        reported -= {"friction-form"}
        loud = "stopped" if result["stop"] else "doubted" if result["doubted"] else ""
        return loud or ("warned" if reported or result["level"] != "good" else "passed")
    if reported & set(fault.words):
        return "named"
    return "noticed" if reported or result["level"] not in ("good", "") else "silent"


def loudest(result: Mapping[str, Any]) -> str:
    """How a log was answered: stopped, doubted, warned or ""."""
    if result["stop"]:
        return "stopped"
    return "doubted" if result["doubted"] else "warned" if result["warned"] else ""


Job = tuple[str, str, int, bool, bool]


def work(job: Job) -> dict[str, Any]:
    """One run of the campaign."""
    name, fault, seed, known, auto = job
    result = outcome(MACHINES[name], BY_NAME[fault], seed, known, auto)
    return {"robot": name, "fault": fault, "seed": seed, "known": known, "auto": auto} | result


def jobs(
    seeds: int, clean: int, known: bool, auto: bool, more: bool = False, first: int = 0
) -> Iterator[Job]:
    """All runs: seeds of every fault, and clean ones, on every robot.    first: seed."""
    names = [fault.name for fault in (FURTHER if more else FAULTS)]
    for count, name, fault in product(range(max(seeds, clean)), MACHINES, [*names, CLEAN]):
        if count < (clean if fault == CLEAN else seeds):
            yield name, fault, first + count, known, auto


def table(results: list[dict[str, Any]]) -> list[str]:
    """Shares by fault over all robots, and every silent or wrongly stopped run."""
    titles = ("stopped", "doubted", "warned", "named", "noticed")
    lines = [
        f"{'fault':<16}{'severity':<20}{'runs':>6}"
        + "".join(f"{one:>9}" for one in titles)
        + f"{'silent':>8}"
    ]
    for fault in (*FAULTS, *FURTHER):
        own = [r for r in results if r["fault"] == fault.name]
        if own:
            kinds = [kind(r) for r in own]
            how = [loudest(r) for r in own]
            counts = [how.count(one) for one in titles[:3]]
            counts += [kinds.count("named"), len(own) - kinds.count("silent")]
            cells = [100 * x / len(own) for x in counts]
            lines.append(
                f"{fault.name:<16}{fault.severity:<20}{len(own):>6}"
                + "".join(f"{cell:>7.1f} %" for cell in cells)
                + f"{kinds.count('silent'):>8}"
            )
    clean = [r for r in results if r["fault"] == CLEAN]
    if clean:
        kinds = [kind(r) for r in clean]
        lines.append(
            f"clean logs: {len(clean)}; stopped {kinds.count('stopped')} "
            f"({100 * kinds.count('stopped') / len(clean):.2g} %), doubted {kinds.count('doubted')} "
            f"({100 * kinds.count('doubted') / len(clean):.2g} %), warned or not 'good' {kinds.count('warned')}"
        )
    return lines


def details(results: list[dict[str, Any]]) -> list[str]:
    """What was said instead, for every run that was not named, and for every clean one that did not pass."""
    counts: dict[str, int] = {}
    for r in results:
        if kind(r) not in ("named", "passed"):
            said = r["stop"] or ", ".join([*r["doubted"], *r["warned"]]) or f"verdict {r['level']}"
            key = f"{kind(r):<8}{r['fault']:<16}{r['robot']:<7} {said}"
            counts[key] = counts.get(key, 0) + 1
    return [f"{count:>4} x {key}" for key, count in sorted(counts.items())]


def main() -> None:
    """Runs what is missing and prints the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--clean", type=int, default=100)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--out", type=Path, default=None)
    parser.add_argument("--bare", action="store_true", help="descriptions without inertias")
    parser.add_argument("--auto", action="store_true", help="the model is left to the data")
    parser.add_argument("--more", action="store_true", help="the further faults in place of the thirteen")
    chosen = parser.parse_args()
    results = []
    if chosen.out and chosen.out.exists():
        results = [json.loads(line) for line in chosen.out.read_text().splitlines()]
    done = {(r["robot"], r["fault"], r["seed"], r["known"], r["auto"]) for r in results}
    wanted = jobs(chosen.seeds, chosen.clean, not chosen.bare, chosen.auto, chosen.more, chosen.first)
    missing = [job for job in wanted if job not in done]
    with ProcessPoolExecutor(chosen.workers) as pool:
        for result in pool.map(work, missing):
            results.append(result)
            if chosen.out:
                with chosen.out.open("a") as file:
                    file.write(json.dumps(result) + "\n")
    shown = [r for r in results if r["known"] != chosen.bare and r["auto"] == chosen.auto]
    print("\n".join([*table(shown), "", *details(shown)]))


if __name__ == "__main__":
    main()
