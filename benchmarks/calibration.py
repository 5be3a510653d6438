"""Whether stated errors hold on other motions: robots with effects that no model describes.

    python benchmarks/calibration.py [--logs 40] [--first 0] [--part 1/1] [--out calibration.jsonl]

Published URDFs of arms and legs have cables, ripple, hysteresis, warming and other effects (dynid.testing.plants). They
are identified by `dynid identify ROBOT LOG` from a log that covers 65 % of the range of their joints at half of their
speed: a Fourier series or moves from pose to pose. The same machine then moves on other paths, slower, faster, in other
positions, and with joints at rest, and `dynid validate` gives the error that was made. Runs in --out are not repeated.
Prints a line a log: made / expected error, % ("-": the headline says that the log does not show it). Then, by verdict
and kind of motion, the share of logs in which the error is at most 1.5 times the expected and the held-out one.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, dynid_command, parser

import numpy as np

from dynid.log import canonical_columns, write_log
from dynid.testing import Plant, Recorded, Unmodelled, plant, record
from dynid.testing.plants import STRANGERS, described_as

KINDS = ("paths", "slower", "faster", "positions", "dwells")
DESCRIPTIONS = ("exact", "off", "off", "none")
MOTIONS, SECONDS = ("fourier", "moves"), (30.0, 60.0)
# Share of the top speed, and part of the range of the joints.
RECORDED = (0.5, 0.1, 0.75)
OTHERS = {
    "paths": (20.0, *RECORDED),
    "slower": (40.0, 0.15, 0.1, 0.75),
    "faster": (20.0, 1.0, 0.1, 0.75),
    "positions": (20.0, 0.5, 0.6, 1.0),
    "dwells": (40.0, *RECORDED),
}
STANDING = 0.5  # chance that a joint keeps its place in a move with dwells
# Effects that leave next to no trace in the prediction: a plant has another one as well.
SLIGHT = frozenset({"current", "stale", "torque_step", "lean"})
HOLDS = 1.5


def main(arguments: Sequence[str] | None = None) -> int:
    """The campaign; see the module."""
    given = parser(__doc__, logs=40, first=0, part="1/1", out=Path).parse_args(arguments)
    seeds = {seed: seed for seed in range(given.first, given.first + given.logs)}
    rows = campaign(seeds, run, lambda row: row["seed"], given, lambda row: print(line_of(row), flush=True))
    for levels in (("good",), ("usable",), ("good", "usable")):
        table(rows, levels)
    return int(any(row["exit"] == 1 for row in rows))


def within(machine: Plant, speed: float, start: float, end: float) -> Plant:
    """The machine with motions of a share of its speed in a part of the range of its joints."""
    limits = machine.described.limits
    span = limits.upper - limits.lower
    less = replace(
        limits,
        lower=limits.lower + start * span,
        upper=limits.lower + end * span,
        velocity=speed * limits.velocity,
    )
    return replace(machine, described=replace(machine.described, limits=less))


def run(seed: int) -> Row:
    """One robot: its verdict, and the expected and the made error on each kind of motion."""
    with tempfile.TemporaryDirectory() as folder:
        return _run(seed, Path(folder))


def _run(seed: int, folder: Path) -> Row:
    rng = np.random.default_rng(seed)
    name, motion, description = (str(rng.choice(x)) for x in (list(STRANGERS), MOTIONS, DESCRIPTIONS))
    seconds = float(rng.choice(SECONDS))
    machine, lacks = plant(name, rng), Unmodelled.random(rng)
    while lacks.names <= SLIGHT:
        lacks = Unmodelled.random(rng)
    lacks = replace(lacks, at_rest=float(rng.choice([0.0, 1.0])))
    gears, logs_velocity = int(rng.integers(2**31)), bool(rng.random() < 0.6)
    whole = record(machine, rng, Unmodelled(), machine=np.random.default_rng(gears))
    largest = np.abs(whole.tau).max(axis=0)

    def recorded(kind: str, length: float, speed: float, start: float, end: float) -> Recorded:
        dwells = kind == "dwells"
        return record(
            within(machine, speed, start, end),
            np.random.default_rng([seed, *map(ord, kind)]),
            lacks,
            length,
            machine=np.random.default_rng(gears),
            moves=dwells or motion == "moves",
            standing=STANDING if dwells else 0.0,
            largest=largest,
        )

    def written(kind: str, log: Recorded) -> Path:
        velocity = log.dq if logs_velocity else None
        columns = canonical_columns(machine.described.joint_names, log.q, dq=velocity, tau=log.tau)
        return write_log(folder / f"{kind}.csv", log.t, columns)

    robot = folder / "robot.urdf"
    described_as(name, description, rng, robot)
    training = written("log", recorded("log", seconds, *RECORDED))
    ended = dynid_command("identify", robot, training, "--out", folder / "run")
    row: Row = {
        "seed": seed,
        "log": f"{name}, {description}, {motion} of {seconds:g} s",
        "lacks": sorted(lacks.names),
        "exit": ended.code,
        "says": (ended.output.strip() or ended.errors.strip()).split("\n")[0][:300],
    }
    if ended.code:
        return row
    result = json.loads((folder / "run" / "run.json").read_text())
    row["verdict"], held_out = result["verdict"]["level"], result["scores"][-1]["total_relative"]
    row["held_out"] = held_out
    row["expected"] = {
        item["kind"]: (item["error"], item["served"]) for item in result["verdict"]["expected"]
    }
    row["made"] = {}
    for kind, which in OTHERS.items():
        test = written(kind, recorded(kind, *which))
        output = json.loads(dynid_command("validate", folder / "run", test, "--json").output)
        scores = output["results"]["scores"]
        if kind == "dwells":
            scores = scores.get("all_samples") or scores
        row["made"][kind] = scores["total_relative"]
    return row


def line_of(row: Row) -> str:
    """A row as it is printed."""
    if row["exit"]:
        return f"{row['seed']} {row['log']}: exit {row['exit']}, {row['says']}"
    parts = [
        f"{kind} {100 * row['made'][kind]:.2g} / {100 * error:.2g}{'' if served else ' -'}"
        for kind, (error, served) in row["expected"].items()
    ]
    return f"{row['seed']} {row['log']}: {row['verdict']}, held out {100 * row['held_out']:.2g}; {', '.join(parts)}"


def table(rows: Sequence[Row], levels: Sequence[str]) -> None:
    """Shares of the logs in which errors hold."""
    judged = [row for row in rows if row["exit"] == 0 and row["verdict"] in levels]
    print(f"{' or '.join(levels)}: {len(judged)} logs")
    for kind in KINDS:
        pairs = [
            (row["made"][kind] / row["expected"][kind][0], row["made"][kind] / row["held_out"])
            for row in judged
            if kind in row["expected"]
        ]
        shown = [row["expected"][kind][1] for row in judged if kind in row["expected"]]
        if not pairs:
            continue
        expected, held_out = np.array(pairs).T
        of_shown = held_out[np.array(shown)]
        claim = f"{np.mean(of_shown <= HOLDS):.0%} of {len(of_shown)}" if len(of_shown) else "none"
        print(
            f"  {kind:9} within {HOLDS:g} times the expected {np.mean(expected <= HOLDS):.0%}, "
            f"the held-out {np.mean(held_out <= HOLDS):.0%}; the latter where the headline claims it: {claim}"
        )


if __name__ == "__main__":
    sys.exit(main())
