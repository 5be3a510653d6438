"""Faults that an identification may not notice, on made robots unlike those of the other campaigns.

    python benchmarks/silent.py [--faulty 66] [--clean 20] [--first 0] [--part 1/1] [--out silent.jsonl]

Ten robots (SCARA, gimbal, torso with two arms, palletiser with a follower, exoskeleton, leg, hand, gantry, humanoid
leg, mobile arm) are simulated by pinocchio with friction, flexibility and noise that the default model lacks
(dynid.testing.plants); masses of their URDFs are within 15 %. Each fault is put on robots in turn. `dynid identify URDF
LOG` makes a model, which `dynid validate` scores on another motion of the machine without the fault.

A fault is "named" if a stop, doubt or warning has one of its codes, or a note says that the log cannot show it;
"misnamed" if only another cause is doubted or stops the run; "silent" if the verdict is good or usable while the error
on the other motion is above 15 %; else "noticed" if the verdict is poor, and "harmless". Of clean logs, doubts of what
is not in the plant are wrong. Runs that are in --out already are not repeated.
"""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np
from scipy.signal import butter, lfilter

from benchmarks.doubts import RIGHT, Fault
from benchmarks.isolated import import_for, isolated
from dynid.base import Float
from dynid.log import canonical_columns, write_log
from dynid.robot import load_robot
from dynid.testing import Plant, Recorded, Unmodelled, record
from dynid.testing.faults import delayed, scaled, with_rows
from dynid.testing.plants import driven

CLEAN, BIASED = "clean", 0.15
SECONDS, SCORED = 20.0, 10.0  # s of a log, and of the motion that a model is scored on
MASSES = 0.15


@dataclass(frozen=True)
class Made:
    """A made robot.    joints: parent, type and axis, place in the parent (m), mass (kg), way to its end (m).

    A type is R or P with the axis; "=name*factor" behind it follows another joint. Links are rods from their joint to
    that end.
    """

    rate: float
    speed: float
    joints: tuple[tuple[str, str, str, tuple[float, float, float], float, tuple[float, float, float]], ...]


ROBOTS = {
    "scara": Made(250.0, 2.5, (
        ("a", "base", "Rz", (0, 0, 0.4), 6.0, (0.4, 0, 0)), ("b", "a", "Rz", (0.4, 0, 0), 4.0, (0.35, 0, 0)),
        ("c", "b", "Pz", (0.35, 0, 0), 1.2, (0, 0, -0.2)), ("d", "c", "Rz", (0, 0, -0.2), 0.8, (0.06, 0, 0)))),
    "gimbal": Made(200.0, 3.0, (
        ("a", "base", "Rz", (0, 0, 0.2), 0.9, (0, 0, 0)), ("b", "a", "Rx", (0, 0, 0), 0.6, (0, 0, 0)),
        ("c", "b", "Ry", (0, 0, 0), 0.8, (0, 0, 0)))),
    "torso": Made(100.0, 2.0, (
        ("a", "base", "Rz", (0, 0, 0.8), 15.0, (0, 0, 0.4)), ("b", "a", "Ry", (0, 0.2, 0.4), 2.5, (0, 0.15, 0)),
        ("c", "b", "Rx", (0, 0.15, 0), 2.0, (0, 0, -0.3)), ("d", "c", "Ry", (0, 0, -0.3), 1.2, (0.25, 0, 0)),
        ("e", "a", "Ry", (0, -0.2, 0.4), 2.5, (0, -0.15, 0)), ("f", "e", "Rx", (0, -0.15, 0), 2.0, (0, 0, -0.3)),
        ("g", "f", "Ry", (0, 0, -0.3), 1.2, (0.25, 0, 0)))),
    "palletiser": Made(125.0, 1.5, (
        ("a", "base", "Rz", (0, 0, 0.5), 60.0, (0.1, 0, 0)), ("b", "a", "Ry", (0.2, 0, 0.2), 40.0, (0, 0, 0.9)),
        ("c", "b", "Ry", (0, 0, 0.9), 30.0, (0.8, 0, 0)), ("d", "c", "Ry=c*-1", (0.8, 0, 0), 8.0, (0.1, 0, 0)),
        ("e", "d", "Rz", (0.1, 0, 0), 5.0, (0.05, 0, -0.1)))),
    "exoskeleton": Made(200.0, 2.5, (
        ("a", "base", "Rx", (0, 0.15, 1.0), 1.5, (0, 0.05, 0)), ("b", "a", "Ry", (0, 0.05, 0), 3.5, (0.02, 0, -0.42)),
        ("c", "b", "Ry", (0, 0, -0.42), 2.4, (0.02, 0, -0.4)), ("d", "c", "Ry", (0, 0, -0.4), 1.0, (0.15, 0, -0.05)))),
    "leg": Made(250.0, 4.0, (
        ("a", "base", "Rx", (0.2, 0.05, 0.4), 0.6, (0, 0.08, 0)), ("b", "a", "Ry", (0, 0.08, 0), 1.0, (0, 0, -0.2)),
        ("c", "b", "Ry", (0, 0, -0.2), 0.25, (0, 0, -0.2)))),
    "hand": Made(200.0, 4.0, (
        ("a", "base", "Rx", (0, 0.03, 0.1), 0.03, (0, 0, 0.03)), ("b", "a", "Ry", (0, 0, 0.03), 0.05, (0, 0, 0.05)),
        ("c", "b", "Ry", (0, 0, 0.05), 0.03, (0, 0, 0.04)), ("d", "base", "Rx", (0, -0.03, 0.1), 0.03, (0, 0, 0.03)),
        ("e", "d", "Ry", (0, 0, 0.03), 0.05, (0, 0, 0.05)), ("f", "e", "Ry", (0, 0, 0.05), 0.03, (0, 0, 0.04)))),
    "gantry": Made(125.0, 1.5, (
        ("a", "base", "Px", (0, 0, 1.5), 25.0, (0.2, 0, 0)), ("b", "a", "Py", (0, 0, 0), 12.0, (0, 0.2, 0)),
        ("c", "b", "Pz", (0, 0, 0), 6.0, (0, 0, -0.4)), ("d", "c", "Rz", (0, 0, -0.4), 2.0, (0.12, 0, 0)))),
    "humanoid leg": Made(200.0, 2.5, (
        ("a", "base", "Rz", (0, 0.1, 0.9), 1.5, (0.03, 0, -0.05)),
        ("b", "a", "Rx", (0, 0, -0.05), 1.8, (0.03, 0, 0.02)),
        ("c", "b", "Ry", (0, 0, 0), 6.0, (0.02, 0, -0.38)), ("d", "c", "Ry", (0, 0, -0.38), 3.5, (0.02, 0, -0.38)),
        ("e", "d", "Ry", (0, 0, -0.38), 0.5, (0.02, 0.02, 0)), ("f", "e", "Rx", (0, 0, 0), 1.2, (0.1, 0, -0.06)))),
    "mobile arm": Made(100.0, 1.2, (
        ("a", "base", "Px", (0, 0, 0.1), 5.0, (0, 0, 0.05)), ("b", "a", "Py", (0, 0, 0), 5.0, (0, 0, 0.05)),
        ("c", "b", "Rz", (0, 0, 0.1), 35.0, (0.1, 0, 0.2)), ("d", "c", "Ry", (0.2, 0, 0.4), 4.0, (0, 0, 0.45)),
        ("e", "d", "Ry", (0, 0, 0.45), 2.5, (0.4, 0, 0)), ("f", "e", "Rx", (0.4, 0, 0), 1.0, (0.1, 0.05, 0)))),
}  # fmt: skip
WITHOUT_GRAVITY = ("gimbal",)
WITH_WEIGHT = ("torso", "palletiser", "exoskeleton", "leg", "hand", "humanoid leg")


def urdf(name: str, masses: Float, lengths: Float) -> str:
    """URDF text of a made robot with masses and lengths of its links times factors (joints,)."""
    parts, slide, turn = [f'<robot name="{name.replace(" ", "_")}"><link name="base"/>'], 0.3, 1.4
    places = dict(zip([joint[0] for joint in ROBOTS[name].joints], lengths, strict=True))
    for (joint, parent, kind, xyz, mass, way), factor in zip(ROBOTS[name].joints, masses, strict=True):
        longer = places.get(parent, 1.0)
        m, size = mass * factor, np.array(way) * places[joint]
        radius = 0.12 * mass ** (1.0 / 3.0)
        # A rod of some thickness, somewhat off its axis.
        about = m * (size @ size * np.eye(3) - np.outer(size, size)) / 12.0
        about += m * radius**2 * np.diag([0.3, 0.25, 0.35])
        com = 0.5 * size + 0.05 * radius * np.array([1.0, -1.0, 1.0]) * (name != "gimbal")
        pairs = [(a, b) for a in range(3) for b in range(a, 3)]
        inertia = " ".join(f'i{"xyz"[a]}{"xyz"[b]}="{about[a, b]:.9g}"' for a, b in pairs)
        moves, _, follows = kind.partition("=")
        leader, _, times = follows.partition("*")
        reach = slide if moves[0] == "P" else turn
        axis = " ".join("1" if letter == moves[1] else "0" for letter in "xyz")
        parts.append(
            f'<link name="l{joint}"><inertial><origin xyz="{_text(com)}"/><mass value="{m:.9g}"/><inertia {inertia}/>'
            f'</inertial></link><joint name="{joint}" type="{"prismatic" if moves[0] == "P" else "revolute"}">'
            f'<parent link="{parent if parent == "base" else "l" + parent}"/><child link="l{joint}"/>'
            f'<origin xyz="{_text(np.array(xyz) * longer)}"/><axis xyz="{axis}"/>'
            f'<limit lower="{-reach}" upper="{reach}" velocity="10" effort="1000"/>'
            + (f'<mimic joint="{leader}" multiplier="{times}"/>' if follows else "")
            + "</joint>"
        )
    return "\n".join([*parts, "</robot>"])


def _text(values: Float) -> str:
    return " ".join(f"{value:.9g}" for value in values)


def machine(name: str, rng: np.random.Generator, folder: Path) -> Plant:
    """The true robot, with friction and rotors drawn."""
    import pinocchio as pin

    made, count = ROBOTS[name], len(ROBOTS[name].joints)
    text = urdf(name, np.ones(count), np.ones(count))
    path = folder / "true.urdf"
    path.write_text(text)
    model = pin.buildModelFromXML(text)
    if list(model.names)[1:] != [joint[0] for joint in made.joints]:
        raise ValueError(f"{name}: pinocchio orders joints {list(model.names)}")
    return driven(load_robot(path), model, made.rate, made.speed, rng)


def eccentric(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """The encoder of one turning joint sits 0.02 rad off centre: q + 0.02 sin(q + phase)."""
    q, dq, joint = log.q.copy(), log.dq.copy(), _turning(arm, rng)
    phase = rng.uniform(0.0, 2.0 * np.pi)
    q[:, joint] += 0.02 * np.sin(log.q[:, joint] + phase)
    dq[:, joint] *= 1.0 + 0.02 * np.cos(log.q[:, joint] + phase)
    return replace(log, q=q, dq=dq)


def _turning(arm: Plant, rng: np.random.Generator) -> int:
    return int(rng.choice([j for j in range(arm.described.n) if not arm.described.prismatic[j]]))


def upside_down(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """The robot hangs; its description stands."""
    model = arm.model.copy()
    model.gravity.linear = -model.gravity.linear
    return record(
        replace(arm, model=model), rng, replace(lacks, lean=0.0), SECONDS
    )  # which would set it upright


def rate_limited(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Logged torque changes at most as fast as its 60 % quantile."""
    step = np.quantile(np.abs(np.diff(log.tau, axis=0)), 0.6, axis=0)
    smooth = lfilter(*butter(2, 0.2), log.tau, axis=0)
    step = np.minimum(step, np.quantile(np.abs(np.diff(smooth, axis=0)), 0.6, axis=0))
    tau = log.tau.copy()
    for i in range(1, len(tau)):
        tau[i] = tau[i - 1] + np.clip(log.tau[i] - tau[i - 1], -step, step)
    return replace(log, tau=tau)


def low_passed(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Logged torque behind a filter of first order at 0.5 to 1.5 Hz."""
    cutoff = rng.uniform(0.5, 1.5)
    a = np.exp(-2.0 * np.pi * cutoff / arm.rate)
    start = a * log.tau[:1]
    return replace(log, tau=lfilter([1.0 - a], [1.0, -a], log.tau, axis=0, zi=start)[0])


def by_hand(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Someone pushes the robot six times, one second each, with up to half the usual torque."""
    tau = log.tau.copy()
    for start in rng.uniform(1.0, log.t[-1] - 2.0, 6):
        shape = np.exp(-(((log.t - start - 0.5) / 0.3) ** 2))[:, None]
        tau -= shape * 0.5 * arm.scale * rng.uniform(-1.0, 1.0, arm.described.n)
    return replace(log, tau=tau)


def compensated(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """The torque of one joint that carries weight is logged without gravity."""
    import pinocchio as pin

    data, P = arm.model.createData(), arm.described.projection
    q = arm.described.tree_motion(log.q, log.dq, log.dq)[0]
    weight = np.stack([pin.computeGeneralizedGravity(arm.model, data, one) for one in q]) @ P
    joint = int(rng.choice(np.argsort(-weight.std(axis=0) / log.tau.std(axis=0))[:2]))
    tau = log.tau.copy()
    tau[:, joint] -= weight[:, joint]
    return replace(log, tau=tau)


def exchanged(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """Two columns of torque are exchanged."""
    order = np.arange(arm.described.n)
    pair = rng.choice(arm.described.n, 2, replace=False)
    order[pair] = order[pair[::-1]]
    return replace(log, tau=log.tau[:, order])


def rotated(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """All columns of torque stand one place off."""
    return replace(log, tau=np.roll(log.tau, 1, axis=1))


def lost(arm: Plant, rng: np.random.Generator, lacks: Unmodelled, log: Recorded) -> Recorded:
    """A twentieth of the rows is lost in five to ten gaps, time numbered anew."""
    kept, gaps = np.ones(len(log.t), dtype=np.bool_), int(rng.integers(5, 11))
    length = len(log.t) // (20 * gaps)
    for start in rng.integers(length, len(log.t) - 2 * length, gaps):
        kept[start : start + length] = False
    return with_rows(log, kept)


Robots = tuple[str, ...]
FAULTS: dict[Fault, Robots] = {
    Fault("torque x0.5", ("torque-scale",), lambda arm, rng, lacks, log: scaled(log, 0.5),
          unseen="scale-not-shown"): ("gimbal", "scara", "gantry"),
    Fault("eccentric encoder", ("encoder-eccentric",), eccentric): tuple(ROBOTS),
    Fault("another variant", ("link-length", "description-contradicted", "other-variant"),
          unseen="link-length-unseen"): tuple(r for r in ROBOTS if r not in ("gimbal", "gantry")),
    Fault("upside down", ("tilted-base",), upside_down): tuple(r for r in ROBOTS if r != "gimbal"),
    Fault("rate-limited", ("torque-lag", "torque-rate-limited"), rate_limited): tuple(ROBOTS),
    Fault("low-passed", ("torque-lag", "torque-filtered"), low_passed): tuple(ROBOTS),
    Fault("pushes by hand", ("contact", "bursts", "hand-guided"), by_hand): tuple(ROBOTS),
    Fault("one compensated", ("gravity-compensated",), compensated): WITH_WEIGHT,
    Fault("exchanged", ("joint-order",), exchanged): tuple(ROBOTS),
    Fault("rotated", ("joint-order",), rotated): tuple(ROBOTS),
    Fault("100 ms late", ("torque-lag",),
          lambda arm, rng, lacks, log: delayed(log, round(0.1 * arm.rate))): tuple(ROBOTS),
    Fault("rows lost", ("rows-lost", "time-base"), lost): tuple(ROBOTS),
}  # fmt: skip
BY_NAME = {fault.name: fault for fault in FAULTS}
Job = tuple[str, str, int]


def jobs(faulty: int, clean: int, first: int) -> Iterator[Job]:
    """Faults in turn, each on its robots in turn, and clean logs.    first: seed."""
    for k in range(faulty):
        fault, robots = list(FAULTS.items())[k % len(FAULTS)]
        turn = k // len(FAULTS) + list(FAULTS).index(fault) + first
        yield fault.name, robots[turn % len(robots)], first + k // len(FAULTS)
    for k in range(clean):
        yield CLEAN, list(ROBOTS)[(k + first) % len(ROBOTS)], first + k // len(ROBOTS)


def write(job: Job, folder: Path) -> tuple[Plant, Path, Recorded]:
    """The machine of a job, its other motion (a file), and the log that is written to robot.urdf and log.csv."""
    fault, name, seed = job
    rng = np.random.default_rng([seed, list(ROBOTS).index(name), [CLEAN, *BY_NAME].index(fault)])
    arm, lacks = machine(name, rng, folder), Unmodelled.random(rng)
    lacks = replace(lacks, encoder=max(lacks.encoder, 2.0**17), warming=0.0, stale=0.0)
    log = record(arm, rng, lacks, SECONDS)
    names, count = arm.described.joint_names, len(ROBOTS[name].joints)
    if fault != CLEAN:
        log = BY_NAME[fault].spoil(arm, rng, lacks, log)
    if fault == "upside down":
        arm = replace(arm, model=arm.model.copy())
        arm.model.gravity.linear = -arm.model.gravity.linear
    other = record(arm, np.random.default_rng([seed, 9]), replace(lacks, lean=0.0), SCORED)
    masses, lengths = 1.0 + MASSES * rng.uniform(-1.0, 1.0, count), np.ones(count)
    if fault == "another variant":
        masses, lengths = (1.0 + share * rng.choice([-1.0, 1.0], count) for share in (0.3, 0.08))
    (folder / "robot.urdf").write_text(urdf(name, masses, lengths))
    write_log(folder / "log.csv", log.t, canonical_columns(names, log.q, dq=log.dq, tau=log.tau))
    test = write_log(
        folder / "test.csv", other.t, canonical_columns(names, other.q, dq=other.dq, tau=other.tau)
    )
    return arm, test, log


def work(job: Job) -> Row:
    """One log: what the command says of it, and the error of its model on another motion, %."""
    fault, name, seed = job
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        _, test, log = write(job, folder)
        ended = isolated(["identify", folder / "robot.urdf", folder / "log.csv", "--out", folder / "run"])
        row: Row = {"fault": fault, "robot": name, "seed": seed, "effects": sorted(log.effects), "exit": ended.code,
                    "seconds": round(ended.cpu, 1), "codes": {}, "level": "", "error": None,
                    "says": ended.text.strip()[:1500]}  # fmt: skip
        if ended.code:
            row["stop"] = next(iter(re.findall(r"\[([a-z0-9-]+)\]", ended.text)), "")
            return row
        result = json.loads((folder / "run" / "run.json").read_text())
        row["level"] = result["verdict"]["level"]
        for finding in [*result["verdict"]["findings"], *result["diagnostics"]]:
            level, code = (
                finding.get(own) or finding[other] for own, other in (("level", "severity"), ("code", "id"))
            )
            row["codes"].setdefault(level, []).append(code)
        row["codes"] = {level: sorted(set(codes)) for level, codes in row["codes"].items()}
        row["headline"] = result["verdict"]["headline"]
        scored = isolated(["validate", folder / "run", test, "--json"])
        start = scored.text.find("{")
        if scored.code == 0 and start >= 0:
            scores = json.JSONDecoder().raw_decode(scored.text[start:])[0]["results"]["scores"]
            row["error"] = round(100 * scores["total_relative"], 2)
    return row


def kind(row: Row) -> str:
    """How a log was answered, see the module."""
    doubted, warned = (set(row["codes"].get(level, [])) for level in ("doubt", "warning"))
    if row["fault"] == CLEAN:
        wrong = {code for code in doubted if not RIGHT.get(code, set()) & set(row["effects"])}
        return "stopped" if row["exit"] else "wrongly doubted" if wrong else "passed"
    fault = BY_NAME[row["fault"]]
    noted = set(row["codes"].get("note", []))
    if (doubted | warned | {row.get("stop")}) & set(fault.words) or fault.unseen in noted | warned:
        return "named"
    if doubted or row["exit"]:
        return "misnamed"
    if row["level"] in ("good", "usable"):
        return "silent" if row["error"] is None or row["error"] > 100 * BIASED else "harmless"
    return "noticed"


def table(rows: Sequence[Row]) -> Iterator[str]:
    """Counts by fault, and what was said in every log that was not named."""
    kinds = ("named", "misnamed", "silent", "noticed", "harmless")
    yield f"{'fault':<20}{'runs':>6}" + "".join(f"{title:>10}" for title in kinds)
    for name in BY_NAME:
        counts = Counter(kind(row) for row in rows if row["fault"] == name)
        yield f"{name:<20}{counts.total():>6}" + "".join(f"{counts[title]:>10}" for title in kinds)
    clean = [row for row in rows if row["fault"] == CLEAN]
    levels = Counter(row["level"] for row in clean)
    yield f"clean: {len(clean)}, {dict(Counter(map(kind, clean)))}, verdicts {dict(levels)}"
    yield ""
    for row in rows:
        if kind(row) in ("named", "passed"):
            continue
        said = [code for level in ("doubt", "problem", "warning") for code in row["codes"].get(level, [])]
        yield (
            f"{kind(row):<16}{row['fault']:<18}{row['robot']:<13}{row['seed']:>5} {row['level'] or row.get('stop')} "
            f"{row['error']} % {', '.join(dict.fromkeys(said))}"
        )


def main() -> None:
    """Runs what is missing and prints the table."""
    given = parser(__doc__, faulty=66, clean=20, first=0, part="1/1", out=Path).parse_args()
    with tempfile.TemporaryDirectory() as place:
        write((CLEAN, "leg", 0), Path(place))
        import_for(["identify", f"{place}/robot.urdf", f"{place}/log.csv", "--out", f"{place}/run"],
                   ["validate", f"{place}/run", f"{place}/test.csv", "--json"])  # fmt: skip
    wanted = {job: job for job in jobs(given.faulty, given.clean, given.first)}
    rows = campaign(wanted, work, lambda row: (row["fault"], row["robot"], row["seed"]), given)
    print("\n".join(table(rows)))


if __name__ == "__main__":
    main()
