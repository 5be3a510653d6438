"""Are faults of a log found, and clean logs not doubted?  Plants that the model does not describe, made by pinocchio.

    python benchmarks/doubts.py [--clean 60] [--seeds 2] [--report] [--first 0] [--robots ur5,so101] [--least 0.95]
                                [--out doubts.jsonl] [--workers 2] [--part 1/1]

Clean logs have a random choice of what real robots have and the default model lacks (dynid.testing.plants); none may be
stopped, and a doubt is wrong if what it names is not in the plant. Each fault is put on such a log, its description's
masses within 15 %; a fault is named if the run says one of the words that mean it, and a word that is also said of
more than 2 % of the clean logs does not count. --report: other robots and seeds than those that the thresholds were
developed on; --first: other seeds. --least: fails if a smaller share of the faults is named, or a clean log is stopped
or wrongly doubted. Runs that are in --out already are not repeated. The model is left to the data, as by default.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import campaign, parser

import numpy as np

from dynid.identification import Settings
from dynid.log import canonical_columns, write_log
from dynid.robot import RobotModel
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.testing.faults import delayed, reported, scaled, with_rows
from dynid.testing.machines import imprecise
from dynid.testing.plants import DEVELOPED, REPORTED

CLEAN = "clean"
# Masses of a description are off by up to this share; a word said of more clean logs than that is no notice.
MASSES, COMMON = 0.15, 0.02
# First seeds of the logs that thresholds are developed on, and of those that are reported.
FIRST_SEED = {False: 0, True: 100_000}
# What a claim names: the effects of a plant that make it right.
RIGHT = {
    "tilted-base": {"lean"},
    "torque-lag": {"stale"},
    "stale-samples": {"stale"},
    "temperature": {"warming"},
    "torque-drift": {"warming"},
}

Spoil = Callable[[Plant, np.random.Generator, Unmodelled, Recorded], Recorded]


@dataclass(frozen=True)
class Fault:
    """What is wrong with a log.    spoil: makes it so.    words: identifiers that name it.

    describe: what is wrong with the description instead.    unseen: note that a log cannot show it, "" = none.
    """

    name: str
    words: tuple[str, ...]
    spoil: Spoil = lambda arm, rng, lacks, log: log
    describe: Callable[[RobotModel, np.random.Generator], RobotModel] = lambda robot, rng: robot
    unseen: str = ""


def load(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """A load of 2 kg, or a quarter of a small arm's mass."""
    total = sum(inertia.mass for inertia in arm.model.inertias)
    return record(arm, rng, lacks, load=min(2.0, 0.25 * total))


def picking(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Such a load, taken up and put down every few seconds."""
    total = sum(inertia.mass for inertia in arm.model.inertias)
    seed, machine = rng.integers(2**31, size=2)
    without, holding = (
        record(arm, np.random.default_rng(seed), lacks, load=mass, machine=np.random.default_rng(machine))
        for mass in (0.0, min(2.0, 0.25 * total))
    )
    period = rng.uniform(3.0, 8.0)
    carried = ((without.t / period + rng.uniform()) % 2.0 < 1.0)[:, None]
    q, dq, tau = (np.where(carried, b, a) for a, b in zip(_of(without), _of(holding), strict=True))
    return Recorded(without.t, q, dq, tau, log.effects)


def other_half(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """The second half from another robot of the same kind: a fifth heavier, with other friction."""
    other = replace(arm, viscous=1.6 * arm.viscous, coulomb=0.6 * arm.coulomb, model=arm.model.copy())
    for i in range(1, other.model.njoints):
        other.model.inertias[i] = type(other.model.inertias[i])(
            1.2 * other.model.inertias[i].mass,
            other.model.inertias[i].lever,
            1.2 * other.model.inertias[i].inertia,
        )
    second, half = record(other, rng, lacks), len(log.t) // 2
    # The motions meet where they do not fit: a log of two runs glued together has a gap there.
    t = np.concatenate([log.t[:half], log.t[half:] + 1.0])
    join = [np.concatenate([a[:half], b[half:]]) for a, b in zip(_of(log), _of(second), strict=True)]
    return Recorded(t, join[0], join[1], join[2], log.effects)


def pushes(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Someone pushes the arm, three times half a second."""
    tau = log.tau.copy()
    for start in rng.uniform(2.0, log.t[-1] - 3.0, 3):
        shape = np.exp(-(((log.t - start - 0.25) / 0.15) ** 2))[:, None]
        tau -= shape * 0.5 * arm.scale * rng.uniform(-1.0, 1.0, arm.described.n)
    return replace(log, tau=tau)


def frozen(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """The torque of one joint stops being updated half way."""
    tau, joint = log.tau.copy(), rng.integers(arm.described.n)
    tau[len(tau) // 2 :, joint] = tau[len(tau) // 2, joint]
    return replace(log, tau=tau)


def coarse(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Torque in steps of an eighth of its peak."""
    step = np.abs(log.tau).max(axis=0) / 8.0
    return replace(log, tau=np.round(log.tau / step) * step)


def lost_rows(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """A twentieth of the rows lost in bunches, time numbered anew."""
    kept = np.ones(len(log.t), dtype=np.bool_)
    for start in rng.integers(0, len(log.t) - 20, len(log.t) // 400):
        kept[start : start + 20] = False
    return with_rows(log, kept)


def one_gain(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """The torque of joint 2 or 3 halved."""
    gain = np.ones(arm.described.n)
    gain[rng.integers(1, 3)] = 0.5
    return scaled(log, gain)


def shorter_link(robot: RobotModel, rng: np.random.Generator) -> RobotModel:
    """One of the long links described as so much shorter that the real one is 5 % longer."""
    T = robot.T_parent_joint.copy()
    lengths = np.linalg.norm(T[1:, :3, 3], axis=1)
    T[rng.choice(np.flatnonzero(lengths > 0.5 * lengths.max())) + 1, :3, 3] /= 1.05
    return replace(robot, T_parent_joint=T)


FAULTS = (
    Fault("torque x2", ("torque-scale",), lambda arm, rng, lacks, log: scaled(log, 2.0)),
    Fault("torque x0.5", ("torque-scale",), lambda arm, rng, lacks, log: scaled(log, 0.5)),
    Fault("payload 2 kg", ("payload",), load),
    Fault("two robots", ("changed-robot", "changed-within-log"), other_half),
    Fault("last sign", ("torque-sign", "negative-friction", "negative-inertia"),
          lambda arm, rng, lacks, log: scaled(log, [*np.ones(arm.described.n - 1), -1.0])),
    Fault("one gain", ("drive-gain",), one_gain),
    Fault("warming", ("friction-drift", "temperature", "changed-within-log", "torque-drift"),
          lambda arm, rng, lacks, log: record(arm, rng, replace(lacks, warming=0.4))),
    Fault("pushes", ("contact", "bursts"), pushes),
    Fault("wrong clock", ("time-base", "wrong-clock"), lambda arm, rng, lacks, log: replace(log, t=0.5 * log.t)),
    Fault("frozen torque", ("constant-effort",), frozen),
    Fault("coarse torque", ("quantised-effort",), coarse),
    Fault("lost rows", ("rows-lost",), lost_rows),
    Fault("37 samples late", ("torque-lag",), lambda arm, rng, lacks, log: delayed(log, 37)),
    Fault("link 5 % longer", ("link-length",), describe=shorter_link, unseen="link-length-unseen"),
    # A fault's place is part of its seed: new ones come last.
    Fault("load at times", ("changed-within-log",), picking),
)  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}


def _of(log: Recorded) -> tuple[Any, Any, Any]:
    return log.q, log.dq, log.tau


Job = tuple[str, str, int]


def written(job: Job, folder: Path) -> tuple[RobotModel, Path, frozenset[str]]:
    """The robot of a job as it is described, the file of its log in a folder, and the effects in its plant."""
    name, fault, seed = job
    robots = list(DEVELOPED | REPORTED)
    rng = np.random.default_rng([seed, robots.index(name), [CLEAN, *BY_NAME].index(fault)])
    machine, lacks = plant(name, rng), Unmodelled.random(rng)
    log = record(machine, rng, lacks)
    if fault != CLEAN:
        log = BY_NAME[fault].spoil(machine, rng, lacks, log)
    described = imprecise(machine.described, rng, (0.0, MASSES))
    if fault != CLEAN:
        described = BY_NAME[fault].describe(described, rng)
    # A wrong clock shows only where velocity was not logged with it.
    columns = canonical_columns(described.joint_names, log.q, dq=log.dq, tau=log.tau)
    return described, write_log(folder / "log.parquet", log.t, columns), log.effects


def work(job: Job) -> dict[str, Any]:
    """One log through an identification: what stopped it, what was doubted, warned of, the verdict, the plant."""
    name, fault, seed = job
    started = time.process_time()
    with tempfile.TemporaryDirectory() as folder:
        described, path, effects = written(job, Path(folder))
        result = reported(described, path, Settings(automatic=True))
    seconds = round(time.process_time() - started, 2)
    return {
        "robot": name,
        "fault": fault,
        "seed": seed,
        "effects": sorted(effects),
        **result,
        "seconds": seconds,
    }


def jobs(robots: Sequence[str], clean: int, seeds: int, first: int) -> Iterator[Job]:
    """All runs: clean logs over the robots in turn, and every fault on every robot.    first: seed."""
    for k in range(clean):
        yield robots[k % len(robots)], CLEAN, first + k
    for seed, name, fault in product(range(seeds), robots, BY_NAME):
        yield name, fault, first + seed


def words_of(result: Mapping[str, Any]) -> set[str]:
    """All words of a run."""
    return ({result["stop"]} - {None}) | set(result["doubted"]) | set(result["warned"])


def common_words(clean: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Words that are said of more clean logs than count as notice, with their number."""
    counts = Counter(word for result in clean for word in words_of(result))
    return {word: count for word, count in sorted(counts.items()) if count > COMMON * max(len(clean), 1)}


def wrongly_doubted(result: Mapping[str, Any]) -> bool:
    """Whether a doubt names what is not in the plant."""
    return any(not RIGHT.get(doubt, set()) & set(result["effects"]) for doubt in result["doubted"])


def is_named(result: Mapping[str, Any], common: Mapping[str, int]) -> bool:
    """Whether a run with a fault says a word that means it, or says that the log cannot show it."""
    fault = BY_NAME[result["fault"]]
    return bool((words_of(result) - set(common)) & set(fault.words)) or fault.unseen in result.get(
        "noted", ()
    )


def table(results: Sequence[Mapping[str, Any]]) -> list[str]:
    """Clean logs, words that are too common, and by fault how many were named, noticed and silent."""
    clean = [r for r in results if r["fault"] == CLEAN]
    common = common_words(clean)
    stopped, wrong = [r for r in clean if r["stop"]], [r for r in clean if wrongly_doubted(r)]
    levels = {level: sum(r["level"] == level for r in clean) for level in sorted({r["level"] for r in clean})}
    lines = [
        f"clean logs: {len(clean)}; stopped {len(stopped)}; wrong doubts {len(wrong)} "
        f"({100.0 * len(wrong) / max(len(clean), 1):.2g} %); verdicts {levels}",
        f"said of more than {100 * COMMON:.0f} % of them: "
        + (", ".join(f"{word} ({count})" for word, count in common.items()) or "nothing"),
        "",
        f"{'fault':<18}{'runs':>6}{'named':>9}{'noticed':>9}{'stopped':>9}   otherwise said",
    ]
    for fault in FAULTS:
        runs = [r for r in results if r["fault"] == fault.name]
        if not runs:
            continue
        named, noticed, other = 0, 0, Counter[str]()
        for r in runs:
            words, right = words_of(r) - set(common), is_named(r, common)
            named += right
            noticed += bool(words) or r["level"] in ("doubtful", "poor")
            other.update([] if right else words or ["nothing"])
        if fault.unseen:
            other[fault.unseen] = sum(fault.unseen in r.get("noted", ()) for r in runs)
        text = ", ".join(f"{word} {count}" for word, count in other.most_common(6))
        lines.append(
            f"{fault.name:<18}{len(runs):>6}{100 * named / len(runs):>7.0f} %{100 * noticed / len(runs):>7.0f} %"
            f"{sum(bool(r['stop']) for r in runs):>9}   {text}"
        )
    seconds = sum(r["seconds"] for r in results)
    return [*lines, "", f"{len(results)} logs, {seconds:.0f} s of processor time"]


def failures(results: Sequence[Mapping[str, Any]], least: float) -> list[str]:
    """What falls short: clean logs that are stopped or wrongly doubted, and too few faults named."""
    clean = [r for r in results if r["fault"] == CLEAN]
    faulty = [r for r in results if r["fault"] != CLEAN]
    common = common_words(clean)
    short = [
        f"{r['robot']}, seed {r['seed']}: clean, {r['stop'] or ', '.join(r['doubted'])}"
        for r in clean
        if r["stop"] or wrongly_doubted(r)
    ]
    missed = [r for r in faulty if not is_named(r, common)]
    if len(missed) > (1.0 - least) * len(faulty):
        short += [f"{r['robot']}, seed {r['seed']}: {r['fault']} is not named" for r in missed]
    return short


def main() -> None:
    """Runs what is missing and prints the table."""
    given = parser(
        __doc__,
        clean=60,
        seeds=2,
        workers=2,
        part="1/1",
        report=False,
        first=int,
        robots="",
        least=float,
        out=Path,
    ).parse_args()
    robots = given.robots.split(",") if given.robots else list(REPORTED if given.report else DEVELOPED)
    first = FIRST_SEED[given.report] if given.first is None else given.first
    wanted = {job: job for job in jobs(robots, given.clean, given.seeds, first)}
    results = campaign(wanted, work, lambda r: (r["robot"], r["fault"], r["seed"]), given)
    print("\n".join(table(results)))
    if given.least is not None and (short := failures(results, given.least)):
        sys.exit("\n".join(["falls short:", *short]))


if __name__ == "__main__":
    main()
