"""Which equations to fit: the schemes of Chavez-Olivares et al. 2012 on robots that no model here describes.

    python benchmarks/schemes.py [--draws 12] [--out FILE]

Robots are those of benchmarks/plants.py: pinocchio's bodies behind springs, with friction that builds up over a way and
turns with the gear, cables, ripple, warming, drives that lose torque, stale and quantised signals; each draw has about
two fifths of these. A scheme is fitted to 24 s of one motion, without inertias from the description, to rigid bodies,
rotors, viscous and Coulomb friction and offsets, and predicts the torque of another motion of the same machine. Beside
the five schemes stands what dynid chooses where no rows are named. Half of the draws have the drives' velocity, half
positions alone, which every row differentiates as often as it has to.

One line of JSON a draw and scheme goes to FILE; a campaign that is cut short goes on from there. Prints the median, the
upper quartile and the worst error, in how many draws each was within a tenth of the best, and the processor time.
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.plants import DEVELOPED, REPORTED, Unmodelled, plant, record
from dynid import Log, Settings, identify, validate
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import DynidError
from dynid.rows import EnergyRows, FilteredPowerRows, MomentumRows, PowerRows, TorqueRows
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous

SEED = 20120500
MODEL = RigidBody() + RotorInertia() + Viscous() + Coulomb(0.02) + Offset()
SCHEMES = {
    "dynamic": TorqueRows(),
    "filtered dynamic": MomentumRows(),
    "energy": EnergyRows(),
    "power": PowerRows(),
    "filtered power": FilteredPowerRows(),
    "chosen from the log": Settings().rows,
}
# A scheme that comes so close to the best of a draw was not worse.
CLOSE = 1.1


def one(draw: int) -> list[dict[str, object]]:
    """Errors of all schemes on one machine."""
    rng = np.random.default_rng([SEED, draw])
    names = sorted({*DEVELOPED, *REPORTED})
    name, lacks, velocity = names[draw % len(names)], Unmodelled.random(rng), draw % 2 == 0
    machine = plant(name, rng)
    seed = int(rng.integers(2**31))
    bare = np.full_like(machine.described.inertia_prior, np.nan)
    robot = replace(machine.described, inertia_prior=bare)
    train, unseen = (
        Log.from_arrays(robot, log.t, log.q, log.tau, dq=log.dq if velocity else None)
        for log in (record(machine, rng, lacks, machine=np.random.default_rng(seed)) for _ in range(2))
    )
    found: list[dict[str, object]] = []
    for scheme, rows in SCHEMES.items():
        start, error, rows_used = time.process_time(), float("inf"), ""
        try:
            run = identify(robot, train, Settings(MODEL, rows), diagnostics=Diagnostics())
            error = float(validate(run, unseen, Diagnostics()).scores.total_relative)
            model: Any = run.experiment.get("model", {})
            rows_used = str(model.get("rows", "torque"))
        except DynidError as stop:
            rows_used = stop.code
        found.append(
            {
                "draw": draw,
                "robot": name,
                "velocity": velocity,
                "lacks": sorted(lacks.names),
                "scheme": scheme,
                "rows": rows_used,
                "error": error if np.isfinite(error) else None,
                "seconds": time.process_time() - start,
            }
        )
    return found


def table(results: list[dict[str, object]]) -> str:
    """The schemes' errors, in % of the torque of an unseen motion."""
    lines = []
    for part, velocity in (("with the drives' velocity", True), ("from positions alone", False)):
        own = [r for r in results if r["velocity"] is velocity]
        draws = sorted({int(str(r["draw"])) for r in own})
        E = np.array([[_error(own, d, s) for s in SCHEMES] for d in draws]).reshape(len(draws), len(SCHEMES))
        lines.append(f"{part}: {len(draws)} machines")
        best = E.min(axis=1, initial=np.inf)
        for k, scheme in enumerate(SCHEMES):
            e = 100 * E[:, k]
            close = int(np.count_nonzero(E[:, k] <= CLOSE * best))
            failed = int(np.count_nonzero(~np.isfinite(e)))
            quartile, worst = np.quantile(e, 0.75, method="higher"), e.max()
            lines.append(
                f"  {scheme:20} median {np.median(e):6.3g}  upper quartile {quartile:6.3g}  worst {worst:6.3g} %"
                f"  close to the best {close}/{len(draws)}" + (f"  stopped {failed}" if failed else "")
            )
    lines.append(f"processor time {sum(float(str(r['seconds'])) for r in results):.0f} s")
    return "\n".join(lines)


def _error(results: list[dict[str, object]], draw: int, scheme: str) -> float:
    found = next(r["error"] for r in results if r["draw"] == draw and r["scheme"] == scheme)
    return float("inf") if found is None else float(str(found))


def main() -> None:
    """Runs the draws that are not in the file yet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=12)
    parser.add_argument("--out", type=Path, default=Path("schemes.jsonl"))
    chosen = parser.parse_args()
    lines = chosen.out.read_text().splitlines() if chosen.out.exists() else []
    results = [json.loads(line) for line in lines]
    for draw in range(chosen.draws):
        if sum(r["draw"] == draw for r in results) == len(SCHEMES):
            continue
        results = [r for r in results if r["draw"] != draw] + one(draw)
        chosen.out.write_text("".join(json.dumps(r) + "\n" for r in results))
    print(table([r for r in results if r["draw"] < chosen.draws]))


if __name__ == "__main__":
    main()
