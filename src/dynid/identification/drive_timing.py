"""Delay and loops of position controllers, by simulated positions where the log is slow."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.distributions import student_quantile
from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Regression
from dynid.estimate.regression import regression_of
from dynid.estimate.servo_timing import ServoTiming
from dynid.estimate.source import LogSource
from dynid.factor.assemble import Assembly
from dynid.factor.base import structural_base
from dynid.factor.blocking import Blocking
from dynid.identification.command_lag import CommandLag, find_command_lag, reading, some
from dynid.log.commands import MOVED
from dynid.log.read import Log
from dynid.robot.locking import lock_joints
from dynid.robot.model import RobotModel
from dynid.robot.servo import COMPUTER, DRIVE, Servo
from dynid.rows.torque import TorqueRows
from dynid.run.blocks import block_of_motion
from dynid.signals.prepare import Prepared, prepare
from dynid.signals.samples import Samples
from dynid.signals.settings import Preparation
from dynid.terms.default import DEFAULT_TERMS

# s: rows from which on torque that is rebuilt from positions says little of a lag, on arms in MuJoCo it is 1 to 10 ms
# off at rows of 10 to 33 ms, that of simulated positions 0.1 to 0.4 ms; and from which on no computer would close the
# loops of a robot.
SLOW_ROW = 0.0099
# s of motion in which the robot is simulated, in the busiest parts of the log: they determine a lag to some 0.1 ms. Of
# a robot that stands most of the time twice as many seconds are looked at, which hold less motion but cost as much.
SEARCHED, PART = 20.0, 5.0
LOOKED_AT = 2.0 * SEARCHED


@dataclass(frozen=True)
class DriveTiming:
    """Controllers with their delay and loop, and how these were found.

    lag: None where it was declared.    simulated: whether positions said when torque comes.
    rate: of the log, Hz.    exchanged: whether friction rules out where loops are usually closed at such a rate.
    """

    servo: Servo
    lag: CommandLag | None
    rate: float
    simulated: bool = False
    exchanged: bool = False


def find_drive_timing(robot: RobotModel, log: Log, servo: Servo, seed: int, threads: int) -> DriveTiming:
    """Delay and loop of controllers with known gains, those that nobody declared.

    First the lag at which commanded torque fits the plain model; in a slow log then the one at which the simulated
    robot follows its commands as the log does. Loops are taken to be closed by a computer in fast logs, and on board of
    the drives in slow ones, unless friction would drive most joints then, and not otherwise.
    """
    rate = reading(robot, log, servo).source_rate
    slow = 1.0 / rate > SLOW_ROW
    first = _first(robot, log, replace(servo, loop=servo.loop or (DRIVE if slow else COMPUTER)), seed)
    if not servo.loop and first.lag is not None and first.lag.driven:
        other = _first(robot, log, replace(servo, loop=COMPUTER if slow else DRIVE), seed)
        if other.lag is not None and not other.lag.driven:
            first = replace(other, exchanged=True)
    if first.lag is None or not slow:
        return first
    # A drive that has no more commands than the log holds them for a row, which is half of that as a lag.
    near = replace(first.servo, delay=max(first.lag.seconds - 0.5 / rate, 0.0), hold=1.0 / rate)
    found = _by_positions(robot.with_servo(near), log, seed, threads)
    if found is None:
        return first
    half = float(student_quantile(found.blocks - 1, 0.975)) * found.deviation
    lag = CommandLag.of(found.lag, half, rate)
    timed = replace(first.servo, delay=lag.delay, hold=lag.hold)
    return replace(first, servo=timed, lag=lag, simulated=True)


def _first(robot: RobotModel, log: Log, servo: Servo, seed: int) -> DriveTiming:
    prepared = reading(robot, log, servo)
    rate = prepared.source_rate
    if np.isfinite(servo.delay):
        hold = servo.hold if np.isfinite(servo.hold) else 1.0 / rate
        return DriveTiming(replace(servo, hold=hold), None, rate)
    lag = find_command_lag(prepared, seed)
    return DriveTiming(replace(servo, delay=lag.delay, hold=lag.hold), lag, rate)


def _by_positions(robot: RobotModel, log: Log, seed: int, threads: int) -> ServoTiming | None:
    try:
        log = _without_still(replace(log, robot=robot))
        prepared = prepare(log, Preparation(), Diagnostics())
        return ServoTiming.of(_regression(prepared, list(_busiest(prepared)), seed, threads))
    except DynidError:
        # A robot that cannot be simulated, too short a log: the run itself says what stops it.
        return None


def _without_still(log: Log) -> Log:
    """The log of the robot whose joints that stand all the time are held there: friction says nothing of them."""
    robot = log.robot
    values = np.concatenate([samples.q for samples in some(prepare(log, Preparation(), Diagnostics()))])
    still = np.flatnonzero(np.ptp(values, axis=0) <= MOVED).tolist()
    if not still:
        return log
    where = {robot.joint_names[j]: float(np.median(values[:, j])) for j in still}
    return log.of_robot(lock_joints(robot, where).robot)


def _regression(prepared: Prepared, batches: list[Samples], seed: int, threads: int) -> Regression:
    log, rows = prepared.log, TorqueRows()
    base = structural_base(log.robot, DEFAULT_TERMS, rows, seed)
    moved = np.max([np.ptp(samples.q, axis=0) for samples in batches], axis=0) > MOVED
    alive = np.concatenate([term.alive(log.robot, moved) for term in DEFAULT_TERMS])
    filters, seconds = prepared.parallel_filter(), block_of_motion(batches, prepared.bandwidth)
    assembly = Assembly(log.robot, DEFAULT_TERMS, rows, base.mask & alive, filters, Blocking(seconds))
    source = LogSource(assembly, batches, threads, commands=log.commands_of)
    return regression_of(log.robot, DEFAULT_TERMS, base, assembly.factors(batches), source)


def _busiest(prepared: Prepared) -> Iterator[Samples]:
    """The parts of the log in which the joints move most, with `SEARCHED` seconds of motion, in their order."""
    parts = [
        samples.part(start, start + round(PART * samples.rate))
        for samples in some(prepared)
        for start in range(0, len(samples), round(PART * samples.rate))
    ]
    speed = np.array([np.sum(part.dq**2, axis=0) for part in parts])
    busy = (speed / np.maximum(speed.sum(axis=0), np.finfo(float).tiny)).sum(axis=1)
    order = np.argsort(-busy, kind="stable")[: round(LOOKED_AT / PART)]
    moving = np.array([float(parts[k].keep.sum()) / parts[k].rate for k in order.tolist()])
    before = np.cumsum(moving) - moving
    yield from (parts[k] for k in sorted(order[before < SEARCHED].tolist()))
