"""Do 95 % intervals of fits to commands hold the truth 95 times of 100? Logs of an arm that MuJoCo simulates.

    python benchmarks/servo_coverage.py [--logs 17] [--seconds 15] [--first 0] [--methods servo_oe wls] [--soft]

Every log has a motion, a noise of the encoders and a torque that no model knows, of 0.1 s correlation and about a third
of the joints' dry friction. MuJoCo's friction is made dry (--soft: as it is by default, which gives way below some
0.05 rad/s). The table gives the share of base parameters inside their intervals, by method and by parameter, and what
the estimates miss of the dry and viscous friction and of the armature (root mean square, per cent).
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import dynid
from dynid.base.arrays import Float
from dynid.base.scipy_functions import stdtrit
from dynid.estimate import WLS, Estimate, ServoOE
from dynid.identification.settings import Settings
from dynid.robot.servo import Servo
from dynid.terms.default import DEFAULT_TERMS
from tests.servo_plant import KD, KP, Recording, recorded, robot_file, true_parameters

METHODS = {"servo_oe": ServoOE(), "wls": WLS()}


def fitted(recording: Recording, folder: Path, method: str) -> Estimate:
    """What a method finds in a log."""
    servo = Servo(KP, KD, np.full(2, np.inf), np.zeros(2))
    robot = dynid.load_robot(robot_file(folder)).with_servo(servo)
    settings = Settings(terms=DEFAULT_TERMS, estimator=METHODS[method])
    return dynid.identify(robot, recording.log(robot), settings).estimate


def inside(estimate: Estimate, truth: Float) -> np.ndarray:
    """Which base parameters (b,) lie in their 95 % intervals."""
    half = stdtrit(estimate.degrees_of_freedom, 0.975) * np.sqrt(np.diag(estimate.covariance))
    return np.abs(estimate.value - estimate.base.reduce(truth)) < half


def main() -> None:
    """Every log is simulated once, and fitted by every method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--logs", type=int, default=17)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--methods", nargs="+", default=list(METHODS))
    parser.add_argument("--soft", action="store_true")
    chosen = parser.parse_args()
    hits: dict[str, list[np.ndarray]] = {name: [] for name in chosen.methods}
    missed: dict[str, list[Float]] = {name: [] for name in chosen.methods}
    spent = dict.fromkeys(chosen.methods, 0.0)
    names: tuple[str, ...] = ()
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.first, chosen.first + chosen.logs):
            recording = recorded(chosen.seconds, seed=seed, disturbed=1.0, dry=not chosen.soft)
            for name in chosen.methods:
                started = time.process_time()
                one = fitted(recording, Path(folder), name)
                spent[name] += time.process_time() - started
                truth = true_parameters([column.name for column in one.columns])
                names = one.names
                hits[name].append(inside(one, truth))
                true = one.base.reduce(truth)
                missed[name].append(
                    np.where(true != 0, one.value / np.where(true != 0, true, 1.0) - 1.0, 0.0)
                )
    for name in chosen.methods:
        found = np.array(hits[name])
        print(f"{name}: {found.sum()} of {found.size} inside, {100 * found.mean():.1f} %; ", end="")
        print(f"{spent[name] / chosen.logs:.2f} s of processor time a log")
        print(
            "  by parameter: "
            + ", ".join(f"{n} {100 * p:.0f}" for n, p in zip(names, found.mean(axis=0), strict=True))
        )
        error = 100 * np.sqrt(np.mean(np.square(missed[name]), axis=0))
        own = [(n, e) for n, e in zip(names, error, strict=True) if n[:2] in ("Ia", "fv", "fc")]
        print("  missed, %: " + ", ".join(f"{n} {e:.1f}" for n, e in own))


if __name__ == "__main__":
    main()
