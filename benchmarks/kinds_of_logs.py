"""Is what a log really measured understood?  Kinds of trouble crossed with robots, each log with its clean twin.

    python benchmarks/kinds_of_logs.py [--seed 47000] [--kinds late,bursts] [--robots ur5,z1] [--part 1/1] [--out FILE]

A plant that the model does not quite describe (dynid.testing.plants) is recorded; the log of a kind is made from its
rows, and the twin is that of the same rows without the trouble. Each goes through the user's commands, `init` with
the mapping that it proposes, then `identify`. A log is right if on another motion no joint misses much more than with
the clean twin and its viscous friction is near the truth; else it was asked about (`init` has open questions or the
run refuses), named (a doubt or warning with a word that means the kind), named wrongly (other words alone), or silent.
Of a twin, words that are said of the troubled log's kind are false findings, and open questions are extra ones.
Prints a table by kind and every log that is not right.
"""

from __future__ import annotations

import json
import sys
import tempfile
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, dynid_command, markdown, note, parser

import numpy as np

import dynid
from dynid.base import Bool, Float
from dynid.terms import TemperatureViscous
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.testing.plants import described_as
from tests.log.bags import states, write_bag

ROBOTS = ("ur5", "so101", "finger", "z1", "kinova", "xarm7")
SECONDS, SCORED = 20.0, 15.0  # s of each log, and of the motion that models are scored on
LIKE_TWIN, ENOUGH = 1.5, 0.03  # times the twin's error, and share of a joint's torque, that are no fault
FRICTION = (
    0.2  # share of a joint's usual torque at top speed by which viscous friction may be off, and of itself
)
LOUD = ("warning", "doubt", "problem")  # levels of findings that count
COLD = 30.0  # degC at which the friction of a plant is stated
TIMEOUT = 120.0  # s of a command


@dataclass(eq=False)
class Made:
    """What a kind writes.    columns: of a CSV file; logs: files in its place.    describe: changes the URDF's text."""

    plant: Plant
    log: Recorded
    rng: np.random.Generator
    folder: Path
    columns: dict[str, Float] = field(default_factory=dict)
    logs: list[Path] = field(default_factory=list)
    describe: Callable[[str], str] = lambda text: text

    @property
    def n(self) -> int:
        """Number of joints."""
        return self.plant.described.n

    def put(self, name: str, values: Float) -> None:
        """A column for each joint."""
        self.columns |= {f"{name}_{j}": values[:, k] for k, j in enumerate(self.plant.described.joint_names)}

    def files(self) -> list[Path]:
        """The files of the log."""
        return self.logs or [self.csv("log", self.columns)]

    def csv(self, name: str, columns: dict[str, Float]) -> Path:
        """Write columns, an empty cell for nan."""
        path = self.folder / f"{name}.csv"
        lines = [",".join(columns)]
        for row in np.column_stack(list(columns.values())):
            lines.append(",".join("" if np.isnan(x) else f"{x:.7g}" for x in row))
        path.write_text("\n".join(lines) + "\n")
        return path


def plain(made: Made, log: Recorded | None = None) -> None:
    """Columns of positions and efforts."""
    log = log or made.log
    made.columns = {"t": log.t}
    made.put("q", log.q)
    made.put("tau", log.tau)


def two_publishers(made: Made, fault: bool) -> None:
    """A second node publishes the joints on the same topic, late, with efforts that are 0."""
    _second(made, fault, 0.0)


def two_efforts(made: Made, fault: bool) -> None:
    """A second node publishes the joints on the same topic with efforts in another unit."""
    _second(made, fault, made.rng.uniform(0.05, 0.6))


def _second(made: Made, fault: bool, factor: float) -> None:
    log, names = made.log, made.plant.described.joint_names
    messages = states(log.t, names, log.q, log.dq, log.tau)
    if fault:
        k = np.arange(1, len(log.t) - 1, 2)
        later = log.t[k] + 0.4 * (log.t[1] - log.t[0])
        messages += states(later, names, log.q[k], log.dq[k], factor * log.tau[k])
    made.logs = [write_bag(made.folder / "bag", sorted(messages, key=lambda m: m.ns))]


def no_rows(made: Made, fault: bool) -> None:
    """6 % of the rows have all efforts 0."""
    tau = made.log.tau.copy()
    if fault:
        tau[made.rng.random(len(tau)) < 0.06] = 0.0
    plain(made, replace(made.log, tau=tau))


def late(made: Made, fault: bool) -> None:
    """Stamps of reception: every second or so, messages wait for 50 to 150 ms and then come at once."""
    t = made.log.t.copy()
    if fault:
        for start in np.arange(1.0, t[-1] - 1.0, 1.0) + made.rng.uniform(
            0, 0.5, len(np.arange(1.0, t[-1] - 1.0))
        ):
            end = start + made.rng.uniform(0.05, 0.15)
            held_up = (t >= start) & (t < end)
            t[held_up] = end + 2e-4 * np.arange(held_up.sum())
        t = np.maximum.accumulate(t + 1e-6 * np.arange(len(t)))
    plain(made, replace(made.log, t=t))


def bursts(made: Made, fault: bool) -> None:
    """The effort of one joint is missing for 0.2 s, a dozen times."""
    tau, joint = made.log.tau.copy(), int(made.rng.integers(made.n))
    if fault:
        tau[_spells(made, 12, 0.2), joint] = np.nan
    plain(made, replace(made.log, tau=tau))


def stale(made: Made, fault: bool) -> None:
    """All channels freeze for 0.3 s, ten times."""
    rows = np.arange(len(made.log.t))
    if fault:
        frozen = _spells(made, 10, 0.3)
        rows = np.maximum.accumulate(np.where(frozen, 0, rows))
    plain(made, replace(made.log, q=made.log.q[rows], tau=made.log.tau[rows]))


def _spells(made: Made, count: int, seconds: float) -> Bool:
    t = made.log.t
    starts = made.rng.uniform(1.0, t[-1] - 1.5, count)
    return np.asarray(((t[:, None] >= starts) & (t[:, None] < starts + seconds)).any(axis=1))


def end_of_hold(made: Made, fault: bool) -> None:
    """A 50 Hz log of a position controller; its effort is read just before the next command."""
    log = made.log
    step = round(made.plant.rate / 50.0)
    kp = 40.0 * made.plant.scale
    kd = 0.02 * kp
    rows = np.arange(step, len(log.t) - step, step)
    # A command makes the torque of the motion in the middle of its hold; less at its end, since the joint moves on.
    wanted = log.q + (log.tau + kd * log.dq) / kp
    q_des = 0.5 * (wanted[rows + step // 2] + wanted[rows + (step + 1) // 2])
    ends = kp * (np.vstack([q_des[:1], q_des[:-1]]) - log.q[rows]) - kd * log.dq[rows]
    made.columns = {"t": log.t[rows]}
    made.put("q", log.q[rows])
    made.put("dq", log.dq[rows])
    made.put("q_des", q_des)
    made.put("tau", ends if fault else log.tau[rows])


def slow(made: Made, fault: bool) -> None:
    """Efforts at a fifth of the rate of the positions."""
    tau = made.log.tau.copy()
    if fault:
        tau[np.arange(len(tau)) % 5 != 0] = np.nan
    plain(made, replace(made.log, tau=tau))


def temperature(made: Made, fault: bool) -> None:
    """Three stretches 20 minutes apart; viscous friction falls by 40 % with a temperature that is logged."""
    log = made.log
    part = np.minimum(3 * np.arange(len(log.t)) // len(log.t), 2)
    warm = (part + 0.3 * np.sin(0.5 * log.t)) / 2.0 if fault else np.zeros(len(log.t))
    tau = log.tau - 0.4 * np.clip(warm, 0, 1)[:, None] * made.plant.viscous * log.dq
    plain(made, replace(log, t=log.t + 1200.0 * part, tau=tau))
    noise = 0.1 * made.rng.normal(size=log.q.shape)
    made.put("temperature", COLD + 25.0 * warm[:, None] + noise)


def missing(made: Made, fault: bool) -> None:
    """15 % of the positions of one joint and of the efforts of another are empty."""
    q, tau = made.log.q.copy(), made.log.tau.copy()
    if fault:
        a, b = made.rng.integers(made.n, size=2)
        q[made.rng.random(len(q)) < 0.15, a] = np.nan
        tau[made.rng.random(len(q)) < 0.15, b] = np.nan
    plain(made, replace(made.log, q=q, tau=tau))


def percent(made: Made, fault: bool) -> None:
    """Efforts in percent of a rated torque that nobody knows."""
    rated = np.abs(made.log.tau).max(axis=0) * made.rng.uniform(0.8, 1.5, made.n)
    plain(made, replace(made.log, tau=100.0 * made.log.tau / rated) if fault else made.log)


def degrees(made: Made, fault: bool) -> None:
    """Positions in degrees, efforts in thousandths."""
    log = replace(made.log, q=np.rad2deg(made.log.q), tau=1000.0 * made.log.tau)
    plain(made, log if fault else made.log)


def belt(made: Made, fault: bool) -> None:
    """Angles and torques of the motors; the last motor turns with the joint before it."""
    N = np.eye(made.n)
    if fault:
        N[-1, -2] = made.rng.choice([-1.0, 1.0]) * made.rng.uniform(0.4, 1.0)
    log = made.log
    plain(made, replace(log, q=log.q @ N.T, tau=log.tau @ np.linalg.inv(N)))


def grams(made: Made, fault: bool) -> None:
    """One link of the description in grams."""
    plain(made)
    link = int(made.rng.integers(1, made.n)) if fault else -1

    def describe(text: str) -> str:
        from xml.etree import ElementTree

        root = ElementTree.fromstring(text)  # noqa: S314 - of an installed package
        name = made.plant.described.body_names[link]
        for part in root.findall("link"):
            inertial = part.find("inertial")
            if part.get("name") == name and inertial is not None:
                for item in (*inertial.findall("mass"), *inertial.findall("inertia")):
                    for key, value in list(item.attrib.items()):
                        item.set(key, repr(1000.0 * float(value)))
        return ElementTree.tostring(root, encoding="unicode")

    made.describe = describe if fault else made.describe


def own_model(made: Made, fault: bool) -> None:
    """Efforts of a controller's model of the rigid links, without friction and noise."""
    from dynid.testing.faults import gravity_torque, rigid_torque  # noqa: F401 - the first is what some log

    log = made.log
    if fault:
        ddq = np.gradient(log.dq, log.t, axis=0)
        width = max(1, round(0.05 * made.plant.rate))
        ddq = np.apply_along_axis(np.convolve, 0, ddq, np.ones(width) / width, "same")
        robot = made.plant.described
        log = replace(log, tau=rigid_torque(robot, robot.inertia_prior, log.q, log.dq, ddq))
    plain(made, log)


def short(made: Made, fault: bool) -> None:
    """Three files, one of them with seven rows."""
    log, parts = made.log, 3
    for k, rows in enumerate(np.array_split(np.arange(len(log.t)), parts)):
        kept = rows[:7] if fault and k == 1 else rows
        plain(made, replace(log, t=log.t[kept] - log.t[kept[0]], q=log.q[kept], tau=log.tau[kept]))
        made.logs.append(made.csv(f"part{k + 1}", made.columns))


KINDS: dict[str, tuple[Callable[[Made, bool], None], tuple[str, ...]]] = {
    "two publishers": (two_publishers, ("rows-without-effort", "mixed-sources")),
    "two efforts": (two_efforts, ("mixed-sources",)),
    "efforts of 0": (no_rows, ("rows-without-effort",)),
    "late messages": (late, ("shared-stamps", "late-rows", "time-base", "jitter", "gap")),
    "bursts": (bursts, ("missing-values", "gap")),
    "stale": (stale, ("stale-samples", "frozen", "constant-effort", "repeated-rows", "frozen-rows")),
    "end of a hold": (end_of_hold, ("held-effort",)),
    "slow efforts": (slow, ("slow-effort", "missing-values")),
    "temperature": (temperature, ("temperature", "friction-drift", "torque-drift", "changed-within-log")),
    "missing": (missing, ("missing-values",)),
    "percent": (percent, ("unit-suspicion", "torque-scale", "drive-gain")),
    "degrees, mN m": (degrees, ("unit-suspicion",)),
    "belt": (belt, ("undeclared-coupling",)),
    "grams": (grams, ("wrong-link", "link-prior", "description")),
    "own model": (own_model, ("modelled-effort",)),
    "short": (short, ("too-few-rows", "short-trajectory", "trajectory-too-short")),
}  # fmt: skip
Job = tuple[str, str, int]


def work(job: Job) -> Row:
    """A log of a kind and its twin."""
    with tempfile.TemporaryDirectory() as folder:
        twin, fault = (_outcome(job, Path(folder) / str(wrong), wrong) for wrong in (False, True))
    name, kind, seed = job
    return {"robot": name, "kind": kind, "seed": seed, "twin": twin, "fault": fault}


def _outcome(job: Job, folder: Path, fault: bool) -> Row:
    name, kind, seed = job
    folder.mkdir()
    rng = np.random.default_rng([seed, ROBOTS.index(name), zlib.crc32(kind.encode())])
    machine = plant(name, rng)
    lacks = replace(Unmodelled.random(rng), stale=0.0, lean=0.0, warming=0.0, hysteresis=0.0)
    gears, motion = (int(x) for x in rng.integers(2**31, size=2))

    def recorded(number: int, seconds: float) -> Recorded:
        gear = np.random.default_rng(gears)
        return record(machine, np.random.default_rng([motion, number]), lacks, seconds, machine=gear)

    made = Made(machine, recorded(0, SECONDS), rng, folder)
    KINDS[kind][0](made, fault)
    robot, files = folder / "robot.urdf", made.files()
    described_as(name, "off" if kind != "grams" else "exact", np.random.default_rng([seed, 1]), robot)
    robot.write_text(made.describe(robot.read_text()))
    config, run = folder / "experiment.toml", folder / "run"
    init = dynid_command("init", robot, files[0], "--out", config, "--json", timeout=TIMEOUT)
    row: Row = {"init": init.code, "init_s": round(init.seconds, 1), "asked": _open(init.output), "words": []}
    row["says"] = (init.errors.strip() or init.output)[-300:] if init.code else ""
    if init.code or row["asked"]:
        return row
    ended = dynid_command("identify", robot, *files, "-c", config, "--out", run, "--json", timeout=TIMEOUT)
    row |= {"exit": ended.code, "seconds": round(ended.seconds, 1)}
    if ended.code:
        row["says"] = (ended.errors.strip() or ended.output)[:400]
        return row
    data = json.loads((run / "run.json").read_text())
    findings = [
        *data["verdict"]["findings"],
        *data.get("residual_findings", ()),
        *data.get("diagnostics", ()),
    ]
    row["words"] = sorted({str(f.get("code") or f.get("title")) for f in findings if f.get("level") in LOUD})
    row["verdict"] = data["verdict"]["level"]
    result = dynid.load(run)
    estimate = result.estimate
    found = dict(zip((c.name for c in estimate.columns), estimate.full_vector, strict=True))
    warm = next((term for term in result.terms.terms if isinstance(term, TemperatureViscous)), None)
    cold = COLD - warm.reference if warm is not None else 0.0
    viscous = [found.get(f"fv{j + 1}", np.nan) + cold * found.get(f"fvt{j + 1}", 0.0) for j in range(made.n)]
    row["viscous"] = [float(f"{x:.4g}") for x in viscous]
    row["true"] = [float(f"{x:.4g}") for x in machine.viscous]
    row["usual"] = [float(f"{x:.4g}") for x in machine.scale / machine.speed]
    if kind not in ("belt", "temperature"):
        other = recorded(1, SCORED)
        log = dynid.Log.from_arrays(result.robot, other.t, other.q, other.tau, dq=other.dq)
        row["error"] = [round(float(x), 4) for x in dynid.validate(result, log).scores.relative]
    return row


def _open(output: str) -> list[str]:
    try:
        results: dict[str, Any] = json.loads(output)["results"]
    except (ValueError, KeyError):
        return []
    return [str(q.get("key", q)) if isinstance(q, dict) else str(q) for q in results.get("questions", ())]


def outcome(row: Row) -> str:
    """How a troubled log was answered."""
    fault, twin = row["fault"], row["twin"]
    words = set(fault["words"])
    if fault["asked"] or fault["init"] or fault.get("exit"):
        return "asked"
    if _near(fault, twin):
        return "right"
    if words & set(KINDS[row["kind"]][1]):
        return "named"
    return (
        "named wrongly"
        if words - set(twin["words"]) or fault["verdict"] in ("doubtful", "poor")
        else "silent"
    )


def _near(fault: Row, twin: Row) -> bool:
    limit = [max(LIKE_TWIN * x, ENOUGH) for x in twin.get("error", ())]
    if len(limit) == len(fault.get("error", ())) and any(
        x > y for x, y in zip(fault.get("error", ()), limit, strict=True)
    ):
        return False
    of_twin = twin.get("viscous") or fault["true"]
    near = [
        np.isnan(x) or abs(x - true) <= max(FRICTION * true, 0.02 * usual, LIKE_TWIN * abs(y - true))
        for x, true, y, usual in zip(fault["viscous"], fault["true"], of_twin, fault["usual"], strict=True)
    ]
    return all(near)


def twins(row: Row) -> str:
    """How a clean twin was answered."""
    twin = row["twin"]
    if twin["init"] or twin["asked"] or twin.get("exit"):
        return "extra question"
    return "false" if set(twin["words"]) & set(KINDS[row["kind"]][1]) else "clean"


def table(rows: Sequence[Row]) -> str:
    """Counts by kind."""
    titles = ("right", "asked", "named", "named wrongly", "silent")
    lines = []
    for kind in [*KINDS, ""]:
        of_kind = [row for row in rows if kind in ("", row["kind"])]
        counts, clean = Counter(map(outcome, of_kind)), Counter(map(twins, of_kind))
        if of_kind:
            numbers = [*(counts[x] for x in titles), clean["false"], clean["extra question"]]
            lines.append([kind or "all", len(of_kind), *numbers])
    return markdown(("kind", "logs", *titles, "twins: false", "twins: asked"), lines)


def main(arguments: Sequence[str] | None = None) -> None:
    """The campaign; see the module."""
    given = parser(__doc__, seed=47000, kinds="", robots="", part="1/1", out=Path).parse_args(arguments)
    kinds = given.kinds.split(",") if given.kinds else list(KINDS)
    robots = given.robots.split(",") if given.robots else ROBOTS
    jobs = {(r, k, given.seed): (r, k, given.seed) for r in robots for k in kinds}
    rows = campaign(
        jobs, work, lambda row: (row["robot"], row["kind"], row["seed"]), given, lambda row: note(line(row))
    )
    print(table(rows))


def line(row: Row) -> str:
    """A row as it is printed while the campaign runs."""
    return (
        f"{row['robot']:7} {row['kind']:15} {outcome(row):14} twin {twins(row):14} {json.dumps(row['fault'])}"
    )


if __name__ == "__main__":
    main()
