"""Do 95 % intervals of fits to commands hold the truth 95 times of 100? Logs of arms that MuJoCo simulates.

    python benchmarks/servo_coverage.py [--logs 17] [--seconds 15] [--first 0] [--soft]
                                        [--methods servo_oe servo_oe_play wls default]
    python benchmarks/servo_coverage.py --arms [--play 0.008 --side link] [--delay 0.015] [--logs 6]

One arm: every log has a motion, a noise of the encoders and a torque that no model knows, of 0.1 s correlation and
about a third of the joints' dry friction; a computer closes the loop. --arms: every log has an arm of two to four
joints, whose drives close their loops on board, at 1 kHz, on encoders of 12 bits; commands come 15 ms late, at 50 Hz;
with --play motors and links are bodies of their own, and the encoder is on one --side. Nothing but gains and place of
the loop is declared, and the --delay where it is given. MuJoCo's friction is made dry (--soft, of one arm: as it is by
default, which gives way below some 0.05 rad/s). The table gives the share of base parameters inside their intervals, by
method and by parameter, and what the estimates miss of the dry and viscous friction and of the armature (root mean
square, per cent).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.harness import parser

import numpy as np

import dynid
from dynid.base import Float, stdtrit
from dynid.estimate import WLS, Estimate, ServoOE
from dynid.identification import Settings
from dynid.log import Log
from dynid.robot import RobotModel, Servo
from dynid.terms import DEFAULT_TERMS
from tests import play_plant
from tests.servo_plant import KD, KP, recorded, robot_file, true_parameters

METHODS = {"servo_oe": ServoOE(), "servo_oe_play": ServoOE(play=True), "wls": WLS(), "default": None}
TYPES = {"Ia": "armature", "fv": "viscous friction", "fc": "dry friction"}


@dataclass(frozen=True, eq=False)
class Case:
    """A log, and what is true of its robot by the names of parameters."""

    robot: RobotModel
    log: Log
    truth: Callable[[Sequence[str]], Float]


def disturbed(folder: Path, seed: int, chosen: argparse.Namespace) -> Case:
    """The arm of two joints under a computer's loop and an unknown torque."""
    servo = Servo(KP, KD, np.full(2, np.inf), np.zeros(2))
    robot = dynid.load_robot(robot_file(folder)).with_servo(servo)
    recording = recorded(chosen.seconds, seed=seed, disturbed=1.0, dry=not chosen.soft)
    return Case(robot, recording.log(robot), true_parameters)


def of_hobby_arm(folder: Path, seed: int, chosen: argparse.Namespace) -> Case:
    """An arm of its own for every seed, with loops on board, encoders of 12 bits and play."""
    arm = play_plant.Arm.random(seed)
    t, q, q_des = play_plant.recorded(arm, chosen.seconds, 100 + seed, chosen.play, chosen.side)
    robot = arm.robot(folder)
    if chosen.delay is not None and robot.drive.servo is not None:
        robot = robot.with_servo(replace(robot.drive.servo, delay=chosen.delay))
    return Case(robot, dynid.Log.from_arrays(robot, t, q, q_des=q_des), arm.parameters)


def fitted(case: Case, method: str) -> Estimate:
    """What a method finds in a log."""
    estimator = METHODS[method]
    if estimator is None:
        return dynid.identify(case.robot, case.log).estimate
    return dynid.identify(case.robot, case.log, Settings(terms=DEFAULT_TERMS, estimator=estimator)).estimate


def covered(estimate: Estimate, truth: Float) -> np.ndarray:
    """Which base parameters (b,) lie in their 95 % intervals."""
    half = stdtrit(estimate.degrees_of_freedom, 0.975) * np.sqrt(np.diag(estimate.covariance))
    return np.abs(estimate.value - estimate.base.reduce(truth)) < half


def main() -> None:
    """Every log is simulated once, and fitted by every method."""
    chosen = parser(
        __doc__, logs=17, first=0, seconds=15.0, methods=list(METHODS), soft=False, arms=False, play=0.0, side="link",
        delay=float,
    ).parse_args()  # fmt: skip
    make = of_hobby_arm if chosen.arms else disturbed
    hits: dict[str, dict[str, list[bool]]] = {name: defaultdict(list) for name in chosen.methods}
    errors: dict[str, dict[str, list[float]]] = {name: defaultdict(list) for name in chosen.methods}
    seconds = dict.fromkeys(chosen.methods, 0.0)
    with tempfile.TemporaryDirectory() as folder:
        for seed in range(chosen.first, chosen.first + chosen.logs):
            case = make(Path(folder), seed, chosen)
            for method in chosen.methods:
                started = time.process_time()
                estimate = fitted(case, method)
                seconds[method] += time.process_time() - started
                truth = case.truth([column.name for column in estimate.columns])
                true, inside = estimate.base.reduce(truth), covered(estimate, truth)
                for name, value, right, hit in zip(estimate.names, estimate.value, true, inside, strict=True):
                    # Arms have different parameters: they are counted by type.
                    key = TYPES.get(name[:2], "bodies") if chosen.arms else name
                    hits[method][key].append(bool(hit))
                    if name[:2] in TYPES and right != 0:
                        errors[method][key].append(value / right - 1.0)
    for method in chosen.methods:
        every = [hit for by_key in hits[method].values() for hit in by_key]
        print(f"{method}: {sum(every)} of {len(every)} inside, {100 * np.mean(every):.1f} %; ", end="")
        print(f"{seconds[method] / chosen.logs:.2f} s of processor time a log")
        shares = [f"{key} {sum(by_key)} of {len(by_key)}" for key, by_key in hits[method].items()]
        print("  by parameter: " + ", ".join(shares))
        rms = [f"{key} {100 * np.sqrt(np.mean(np.square(e))):.1f}" for key, e in errors[method].items()]
        print("  missed, %: " + ", ".join(rms))


if __name__ == "__main__":
    main()
