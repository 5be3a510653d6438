"""Is the cause named that keeps bodies from being physically consistent?  Robots that pinocchio simulates.

    python benchmarks/causes.py [--robots z1,ur10] [--causes rotor,lean,gain,load]

Each robot of dynid.testing.plants is recorded with one known cause: rotors that the model lacks, a base tilted by 10
degrees, torque of one joint that is half or 1.6 times what it should be, a load of 15 % of the robot's mass that the
description lacks. A line a case: what was done, what the run says, and whether it names it. Where consistent bodies fit
as well as others, there is nothing to be named ("no gap"), nor where they predict left-out blocks as well ("as well
unseen").
"""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import parser

import numpy as np

import dynid
from dynid.estimate.physical import LIKELY_CAUSE
from dynid.terms import Coulomb, Offset, RigidBody, RotorInertia, Viscous
from dynid.testing.plants import DEVELOPED, REPORTED, Unmodelled, plant, record

CAUSES = ("rotor", "lean", "gain", "load")
LEAN, LOAD = np.deg2rad(10.0), 0.15
GAPS = ("not-consistent", "consistency-costs")


def case(name: str, cause: str) -> str:
    """The line of one robot and cause."""
    rng = np.random.default_rng(sum(map(ord, name + cause)))
    arm, terms = plant(name, rng), RigidBody() + RotorInertia() + Viscous() + Coulomb() + Offset()
    robot, lacks, load, truth = arm.described, Unmodelled(), 0.0, ""
    if cause == "rotor":
        arm, terms = replace(arm, rotor=3.0 * arm.rotor), RigidBody() + Viscous() + Coulomb() + Offset()
        truth = "rotors"
    elif cause == "lean":
        lacks, truth = Unmodelled(lean=LEAN), "a lean"
    elif cause == "load":
        load, truth = LOAD * sum(inertia.mass for inertia in arm.model.inertias), "description's"
    log = record(arm, rng, lacks, load=load)
    tau = np.array(log.tau)
    if cause == "gain":
        joint = int(rng.integers(1, min(4, robot.n)))
        tau[:, joint] *= rng.choice([0.5, 1.6])
        truth = f"gain of '{robot.joint_names[joint]}'"
    run = dynid.identify(
        robot, dynid.Log.from_arrays(robot, log.t, log.q, dq=log.dq, tau=tau), dynid.Settings(terms=terms)
    )
    gap = [d.code for d in run.diagnostics.warnings if d.code in GAPS]
    text = " ".join(d.text for d in run.diagnostics.warnings if d.code == LIKELY_CAUSE)
    first = text.split(" freed")[0] if text.startswith("No single") else text.split(". ")[0]
    named = "no gap" if not gap else "first" if truth in first else "not named" if text else "as well unseen"
    if truth in first and text.startswith("Likely"):
        named = "named"
    return f"{name:<16}{cause:<7}{truth:<30}{named:<16}{text}"


def main() -> None:
    """Runs all cases."""
    chosen = parser(__doc__, robots=",".join(DEVELOPED | REPORTED), causes=",".join(CAUSES)).parse_args()
    for name in chosen.robots.split(","):
        for cause in chosen.causes.split(","):
            print(case(name, cause), flush=True)


if __name__ == "__main__":
    main()
