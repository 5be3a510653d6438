"""Robots that nobody tuned dynid for: its command beside plain least squares, scored on another motion.

    python benchmarks/strangers.py [--logs 40] [--first 0] [--part 1/1] [--out strangers.jsonl]

Published URDFs of arms and legs move along Fourier series, from pose to pose, with some joints alone from pose to pose,
or one joint after the other; they have a random choice of what real robots have and the default model lacks
(dynid.testing.plants), and their models are exact, off by up to 30 %, filled in with links of 1 kg and 1 kg m^2, or
without inertias. `dynid identify ROBOT LOG` makes a model of each; both it and weighted least squares are then
scored on two motions of the same machine, moves and a Fourier series, filtered at dynid's cut-off: on samples in
motion, and on all of them. At rest half of the plants keep all of their dry friction where they have hysteresis, and
none where they have not, and in half of them it settles anywhere up to its limit. Runs that are in --out already are
not repeated.
Prints a line a log, and in how many dynid misses more than 1.03 times what least squares does; then, by cable, how many
base parameters of links and rotors with the verdict "identified" lie in their 95 % intervals, and the median half width
over the value. Exits 1 if a run ends with an internal error.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, dynid_command, parser

import numpy as np
from dynid_bench.adapters.least_squares import equations, fit
from dynid_bench.protocol import Motion

from benchmarks.real import arm_of, relative
from dynid.base import Bool, Float
from dynid.estimate import Word, base_verdicts
from dynid.feasible import body_columns
from dynid.log import canonical_columns, write_log
from dynid.run import Identification, load
from dynid.terms import RotorInertia
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.testing.plants import STRANGERS, described_as, in_turns

MOTIONS = ("fourier", "moves", "picks", "in turns")
DESCRIPTIONS = ("exact", "off", "off", "placeholders", "none")
SECONDS = (20.0, 40.0, 60.0)
SCORED = 20.0  # s of each motion that models are scored on
STANDING = 0.5  # chance that a joint keeps its place in a move where some move alone
AS_GOOD = 1.03  # of what least squares misses


def main(arguments: Sequence[str] | None = None) -> int:
    """The campaign; see the module."""
    given = parser(__doc__, logs=40, first=0, part="1/1", out=Path).parse_args(arguments)
    seeds = {seed: seed for seed in range(given.first, given.first + given.logs)}
    rows = campaign(seeds, run, lambda row: row["seed"], given)
    for row in rows:
        print(line_of(row))
    scored = [row for row in rows if row["exit"] == 0]
    pairs = [(row["dynid"][kind], row["plain"][kind]) for row in scored for kind in ("moves", "fourier")]
    moving, whole = (sum(ours[k] > AS_GOOD * plain[k] for ours, plain in pairs) for k in (0, 1))
    print(
        f"{moving} of {len(pairs)} scores in motion are worse than {AS_GOOD:g} times those of least squares, "
        f"{whole} of all samples"
    )
    print_coverage(scored)
    return int(any(row["exit"] == 1 for row in rows))


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

    def recorded(kind: str, length: float, *, other: bool = False) -> Recorded:
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

    robot, training = folder / "robot.urdf", recorded(motion, seconds)
    described_as(name, description, rng, robot)
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
        lambda kind: recorded(kind, SCORED, other=True),
    )


def run(seed: int) -> Row:
    """One log: what it is, and the errors of both on other motion, %."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(seed, Path(folder))


def _run(seed: int, folder: Path) -> Row:
    case = stranger(seed, folder)
    ended = dynid_command("identify", case.robot, case.log, "--out", folder / "run")
    row: Row = {
        "seed": seed,
        "log": case.label,
        "lacks": sorted(case.lacks.names),
        "exit": ended.code,
        "processor": round(ended.seconds, 1),
        "says": (ended.output.strip() or ended.errors.strip()).split("\n")[0][:200],
        "dynid": {},
        "plain": {},
    }
    if ended.code:
        return row
    result = json.loads((folder / "run" / "run.json").read_text())
    row["verdict"] = result["verdict"]["level"]
    row["base"] = base_parameters(case.plant, load(folder / "run"))
    cutoff = float(np.max(result["preparation"]["settings"]["cutoff"]))
    Y, tau, _ = _plain(case.plant, case.training, cutoff, case.logs_velocity)
    parameters = fit([Y], [tau])
    for kind in ("moves", "fourier"):
        test, other = case.other(kind, folder)
        moving = json.loads(dynid_command("validate", folder / "run", test, "--json").output)["results"][
            "scores"
        ]
        whole = moving.get("all_samples") or moving
        row["dynid"][kind] = [round(100 * scores["total_relative"], 2) for scores in (moving, whole)]
        Y, tau, moves = _plain(case.plant, other, cutoff, True)
        error = np.einsum("knp,p->kn", Y, parameters) - tau
        row["plain"][kind] = [round(relative(error[k], tau[k]), 2) for k in (moves, slice(None))]
    return row


def base_parameters(truth: Plant, run: Identification) -> list[list[Any]]:
    """Verdict, value, half width, textbook half width and truth of each base parameter of links and rotors alone."""
    estimate, robot = run.estimate, truth.described
    columns, true = estimate.columns, np.full(len(estimate.columns), np.nan)
    for ten in body_columns(columns):
        true[ten] = robot.inertia_prior[columns[ten[0]].owner]
    for k, column in enumerate(columns):
        if column.term == RotorInertia.name:
            true[k] = truth.rotor[column.owner]
    values = zip(
        estimate.base.B,
        base_verdicts(estimate, run.factors),
        estimate.value,
        estimate.half_width(),
        estimate.textbook_std,
        strict=True,
    )
    return [
        [str(verdict.word), float(value), float(half), 1.96 * float(textbook), float(row[used] @ true[used])]
        for row, verdict, value, half, textbook in values
        if not np.isnan(true[used := row != 0]).any()
    ]


def print_coverage(rows: Sequence[Row]) -> None:
    """Coverage of identified base parameters of robots with a cable, of those without one, and of all."""
    for name, cables in (("cable", (True,)), ("no cable", (False,)), ("all", (True, False))):
        of_class = [row for row in rows if "base" in row and ("cable" in row["lacks"]) in cables]
        identified = [entry[1:] for row in of_class for entry in row["base"] if entry[0] == Word.IDENTIFIED]
        if not identified:
            continue
        value, half, _, true = np.array(identified).T
        of_all = sum(len(row["base"]) for row in of_class)
        print(
            f"{name}: {len(of_class)} logs, {len(value)} of {of_all} base parameters identified, "
            f"{100 * np.mean(np.abs(value - true) <= half):.1f} % in their intervals, "
            f"median half width {100 * np.median(half / np.abs(value)):.1f} %"
        )


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


def _plain(arm: Plant, log: Recorded, cutoff: float, velocity: bool) -> tuple[Float, Float, Bool]:
    motion = Motion(log.t, log.q, log.tau, log.dq if velocity else None)
    return equations(arm_of(arm.described), motion, cutoff)


if __name__ == "__main__":
    sys.exit(main())
