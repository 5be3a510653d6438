"""Robots that nobody tuned dynid for: its command beside plain least squares, scored on another motion.

    python benchmarks/strangers.py [--logs 40] [--first 0] [--out strangers.jsonl]

Published URDFs of arms and legs move along Fourier series, from pose to pose, with some joints alone from pose to pose,
or one joint after the other; they have a random choice of what real robots have and the default model lacks
(benchmarks/plants.py), and their descriptions are exact, off by up to 30 %, filled in with bodies of 1 kg and 1 kg m^2,
or without inertias. `dynid identify ROBOT LOG` makes a model of each; both it and weighted least squares are then
scored on two motions of the same machine, moves and a Fourier series, filtered at dynid's cut-off: on samples in
motion, and on all of them. At rest half of the plants keep all of their dry friction where they have hysteresis, and
none where they have not, and in half of them it settles anywhere up to its limit. Runs that are in --out already are
not repeated.
Prints a line a log, and in how many dynid misses more than 1.03 times what least squares does; exits 1 if a run ends
with an internal error.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

from benchmarks.plain_least_squares import Motion, equations, fit
from benchmarks.plants import STRANGERS, Plant, Recorded, Stop, Unmodelled, plant, record, urdf_of
from benchmarks.real import arm_of, relative
from dynid.base.arrays import Bool, Float
from dynid.log.own_columns import canonical_columns, write_log

MOTIONS = ("fourier", "moves", "picks", "in turns")
DESCRIPTIONS = ("exact", "off", "off", "placeholders", "none")
SECONDS = (20.0, 40.0, 60.0)
SCORED = 20.0  # s of each motion that models are scored on
MASSES = (0.05, 0.3)  # shares by which masses are off
STANDING = 0.5  # chance that a joint keeps its place in a move where some move alone
SLOWING = 0.4  # s that a joint takes to stop where joints move in turns
AS_GOOD = 1.03  # of what least squares misses


def main(arguments: Sequence[str] | None = None) -> int:
    """The campaign; see the module."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--logs", type=int, default=40)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    done = [json.loads(line) for line in given.out.read_text().splitlines()] if _exists(given.out) else []
    rows = {row["seed"]: row for row in done}
    for seed in range(given.first, given.first + given.logs):
        if seed not in rows:
            with tempfile.TemporaryDirectory() as folder:
                rows[seed] = run(seed, Path(folder))
            if given.out is not None:
                with given.out.open("a") as file:
                    file.write(json.dumps(rows[seed]) + "\n")
        print(line_of(rows[seed]), flush=True)
    scored = [row for row in rows.values() if row["exit"] == 0]
    pairs = [(row["dynid"][kind], row["plain"][kind]) for row in scored for kind in ("moves", "fourier")]
    moving, whole = (sum(ours[k] > AS_GOOD * plain[k] for ours, plain in pairs) for k in (0, 1))
    print(
        f"{moving} of {len(pairs)} scores in motion are worse than {AS_GOOD:g} times those of least squares, "
        f"{whole} of all samples"
    )
    return int(any(row["exit"] == 1 for row in rows.values()))


@dataclass(frozen=True, eq=False)
class Stranger:
    """A robot with its log, and what is recorded of it on further motion.

    label: of the log, in words.    robot, log: files.    logs_velocity: whether the log holds velocities.
    """

    plant: Plant
    lacks: Unmodelled
    label: str
    robot: Path
    log: Path
    training: Recorded
    logs_velocity: bool
    record: Callable[[str], Recorded]

    def other(self, kind: str, folder: Path) -> tuple[Path, Recorded]:
        """The file of a further motion of some kind, with velocities, and what it holds."""
        recorded, names = self.record(kind), self.plant.described.joint_names
        columns = canonical_columns(names, recorded.q, dq=recorded.dq, tau=recorded.tau)
        return write_log(folder / f"{kind}.csv", recorded.t, columns), recorded


def robot_and_seconds(seed: int) -> tuple[str, float]:
    """Name of the robot of a seed, and the length of its log, s."""
    name, _, _, seconds = _drawn(np.random.default_rng(seed))
    return name, seconds


def _drawn(rng: np.random.Generator) -> tuple[str, str, str, float]:
    # Robot, motion, kind of description, seconds.
    name, motion = str(rng.choice(list(STRANGERS))), str(rng.choice(MOTIONS))
    return name, motion, str(rng.choice(DESCRIPTIONS)), float(rng.choice(SECONDS))


def stranger(seed: int, folder: Path) -> Stranger:
    """The robot and the log of a seed, written to a folder."""
    rng = np.random.default_rng(seed)
    name, motion, description, seconds = _drawn(rng)
    machine, lacks, logs_velocity = plant(name, rng), Unmodelled.random(rng), bool(rng.random() < 0.6)
    lacks = replace(lacks, at_rest=float(rng.choice([0.0, 1.0])))
    gears, joints = int(rng.integers(2**31)), machine.described.n

    def made(kind: str, length: float, *, other: bool = False) -> Recorded:
        return record(
            machine,
            np.random.default_rng([seed, MOTIONS.index(kind), *([1] if other else [])]),
            lacks,
            length,
            machine=np.random.default_rng(gears),
            stops=in_turns(joints, length) if kind == "in turns" else (),
            moves=kind in ("moves", "picks"),
            standing=STANDING if kind == "picks" else 0.0,
        )

    robot, training = folder / "robot.urdf", made(motion, seconds)
    describe(name, description, rng, robot)
    names = machine.described.joint_names
    velocity = training.dq if logs_velocity else None
    columns = canonical_columns(names, training.q, dq=velocity, tau=training.tau)
    return Stranger(
        machine,
        lacks,
        f"{name}, {description}, {motion} of {seconds:g} s at {machine.rate:g} Hz",
        robot,
        write_log(folder / "log.csv", training.t, columns),
        training,
        logs_velocity,
        lambda kind: made(kind, SCORED, other=True),
    )


def run(seed: int, folder: Path) -> dict[str, Any]:
    """One log: what it is, and what both miss on other motion, %."""
    case = stranger(seed, folder)
    before = os.times()
    code, printed = _dynid("identify", case.robot, case.log, "--out", folder / "run")
    after = os.times()
    row = {
        "seed": seed,
        "log": case.label,
        "lacks": sorted(case.lacks.names),
        "exit": code,
        "processor": round(
            after.children_user + after.children_system - before.children_user - before.children_system, 1
        ),
        "says": printed.strip().split("\n")[0][:200],
        "dynid": {},
        "plain": {},
    }
    if code:
        return row
    found = json.loads((folder / "run" / "run.json").read_text())
    row["verdict"] = found["verdict"]["level"]
    cutoff = float(np.max(found["preparation"]["settings"]["cutoff"]))
    parameters = None
    for kind in ("moves", "fourier"):
        test, other = case.other(kind, folder)
        _, scores = _dynid("validate", folder / "run", test, "--json")
        own = json.loads(scores)["results"]["scores"]
        whole = own.get("all_samples") or own
        row["dynid"][kind] = [round(100 * figures["total_relative"], 2) for figures in (own, whole)]
        if parameters is None:
            Y, tau, _ = _plain(case.plant, case.training, cutoff, case.logs_velocity)
            parameters = fit([Y], [tau])
        Y, tau, moves = _plain(case.plant, other, cutoff, True)
        missed = np.einsum("knp,p->kn", Y, parameters) - tau
        row["plain"][kind] = [round(relative(missed[k], tau[k]), 2) for k in (moves, slice(None))]
    return row


def in_turns(joints: int, seconds: float) -> list[Stop]:
    """Each joint stands but in its part of the time."""
    part = seconds / joints
    found = []
    for j in range(joints):
        found += [Stop((j,), -1.0, j * part)] if j else []
        found += [Stop((j,), (j + 1) * part - SLOWING, 2.0 * seconds, SLOWING)] if j < joints - 1 else []
    return found


def describe(name: str, kind: str, rng: np.random.Generator, path: Path) -> None:
    """Writes a robot's URDF without meshes, its inertias as the kind of description has them."""
    tree = ET.parse(urdf_of(name))  # noqa: S314 - of an installed package
    for link in tree.getroot().findall("link"):
        for tag in ("visual", "collision"):
            for part in link.findall(tag):
                link.remove(part)
        inertial = link.find("inertial")
        if inertial is None:
            continue
        if kind == "none":
            link.remove(inertial)
        elif kind == "placeholders":
            for part in list(inertial):
                inertial.remove(part)
            ET.SubElement(inertial, "mass", value="1.0")
            ET.SubElement(
                inertial, "inertia", ixx="1.0", iyy="1.0", izz="1.0", ixy="0.0", ixz="0.0", iyz="0.0"
            )
        elif kind == "off":
            factor = 1.0 + float(rng.choice([-1.0, 1.0]) * rng.uniform(*MASSES))
            for part in (inertial.find("mass"), inertial.find("inertia")):
                for key, value in () if part is None else list(part.attrib.items()):
                    part.set(key, repr(factor * float(value)))
    tree.write(path)


def line_of(row: dict[str, Any]) -> str:
    """A row as it is printed."""
    if row["exit"]:
        return f"{row['seed']:4d} {row['log']}: exit {row['exit']}, {row['says']}"
    scores = ", ".join(
        f"{kind} {_pair(row['dynid'][kind])} % (least squares {_pair(row['plain'][kind])} %)"
        for kind in row["dynid"]
    )
    return f"{row['seed']:4d} {row['log']}: {row['verdict']}, {scores}, {row['processor']} s"


def _pair(scores: Sequence[float]) -> str:
    moving, whole = scores
    return f"{moving}" if moving == whole else f"{moving} / {whole}"


def _plain(one: Plant, log: Recorded, cutoff: float, velocity: bool) -> tuple[Float, Float, Bool]:
    motion = Motion(log.t, log.q, log.dq if velocity else None, log.tau)
    return equations(arm_of(one.described), motion, cutoff)


def _dynid(*arguments: object) -> tuple[int, str]:
    done = subprocess.run(
        [sys.executable, "-m", "dynid", *map(str, arguments)], capture_output=True, text=True, check=False
    )
    return done.returncode, done.stdout or done.stderr


def _exists(path: Path | None) -> bool:
    return path is not None and path.is_file()


if __name__ == "__main__":
    sys.exit(main())
