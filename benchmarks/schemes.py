"""Which equations to fit: the schemes of Chavez-Olivares et al. 2012 on robots that no model here describes.

    python benchmarks/schemes.py [--draws 12] [--out FILE]

Robots are those of dynid.testing.plants: pinocchio's links behind springs, with friction that builds up over a way and
turns with the gear, cables, ripple, warming, drives that lose torque, stale and quantised signals; each draw has about
two fifths of these. A scheme is fitted to 24 s of one motion, without inertias from the description, to rigid bodies,
rotors, viscous and Coulomb friction and offsets, and predicts the torque of another motion of the same machine. Beside
the five schemes stands what dynid chooses where no rows are named. Half of the draws have the drives' velocity, half
positions alone, which every row differentiates as often as it has to.

One line of JSON a draw goes to FILE; a campaign that is cut short goes on from there. Prints the median, the
upper quartile and the worst error, in how many draws each was within a tenth of the best, and the processor time.
"""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import Row, campaign, parser

import numpy as np

from dynid import Log, Settings, identify, validate
from dynid.base import Diagnostics, DynidError
from dynid.rows import EnergyRows, FilteredPowerRows, MomentumRows, PowerRows, TorqueRows
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing import Unmodelled, plant, record
from dynid.testing.plants import DEVELOPED, REPORTED

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


def compared(draw: int) -> Row:
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
    schemes: dict[str, Row] = {}
    for scheme, rows in SCHEMES.items():
        start, error, rows_used = time.process_time(), float("inf"), ""
        try:
            run = identify(robot, train, Settings(MODEL, rows), diagnostics=Diagnostics())
            error = float(validate(run, unseen, Diagnostics()).scores.total_relative)
            model: Any = run.experiment.get("model", {})
            rows_used = str(model.get("rows", "torque"))
        except DynidError as stop:
            rows_used = stop.code
        schemes[scheme] = {
            "rows": rows_used,
            "error": error if np.isfinite(error) else None,
            "seconds": time.process_time() - start,
        }
    return {
        "draw": draw,
        "robot": name,
        "velocity": velocity,
        "lacks": sorted(lacks.names),
        "schemes": schemes,
    }


def table(results: list[Row]) -> str:
    """The schemes' errors, in % of the torque of held-out motion."""
    lines = []
    for part, velocity in (("with the drives' velocity", True), ("from positions alone", False)):
        draws = [
            [r["schemes"][scheme]["error"] for scheme in SCHEMES]
            for r in results
            if r["velocity"] is velocity
        ]
        E = 100 * np.array(draws, dtype=float).reshape(len(draws), len(SCHEMES))
        E[np.isnan(E)] = np.inf
        lines.append(f"{part}: {len(draws)} machines")
        best = E.min(axis=1, initial=np.inf)
        for scheme, e in zip(SCHEMES, E.T, strict=True) if draws else ():
            close, failed = int(np.sum(e <= CLOSE * best)), int(np.sum(~np.isfinite(e)))
            lines.append(
                f"  {scheme:20} median {np.median(e):6.3g}  upper quartile {np.quantile(e, 0.75, method='higher'):6.3g}"
                f"  worst {e.max():6.3g} %  close to the best {close}/{len(draws)}"
                + (f"  stopped {failed}" if failed else "")
            )
    seconds = sum(scheme["seconds"] for r in results for scheme in r["schemes"].values())
    return "\n".join([*lines, f"processor time {seconds:.0f} s"])


def main() -> None:
    """Runs the draws that are not in the file yet."""
    given = parser(__doc__, draws=12, out=Path("schemes.jsonl")).parse_args()
    print(table(campaign({draw: draw for draw in range(given.draws)}, compared, lambda r: r["draw"], given)))


if __name__ == "__main__":
    main()
