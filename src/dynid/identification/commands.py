"""Logs of commands: what of the drives' position controllers nobody declared, their gains, delay and loops."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.diagnostics import Diagnostics
from dynid.log.read import Log
from dynid.robot.model import RobotModel
from dynid.robot.servo import COMPUTER, DRIVE, Servo

if TYPE_CHECKING:
    from dynid.identification.drive_timing import DriveTiming


def with_found_servo(
    robot: RobotModel, log: Log, seed: int, threads: int, diagnostics: Diagnostics
) -> RobotModel:
    """The robot with gains and delay of its position controllers, those that are unknown found in a log of commands.

    The same robot for a log whose torque was measured.    Claims: drive-gain where gains were estimated.

    Raises InputError for unknown gains of a robot whose bodies are unknown, too, or that the log does not determine.
    """
    if not log.mapping.commanded:
        return robot
    # The simulation of servo loops is loaded for logs of commands alone.
    from dynid.identification.drive_gains import with_gains
    from dynid.identification.drive_timing import find_drive_timing

    servo = robot.drive.servo or Servo.unknown(robot.n)
    if not servo.known:
        servo = with_gains(robot, log, servo, diagnostics)
    timing = find_drive_timing(robot, log, servo, seed, threads)
    _report(timing, diagnostics)
    if not servo.loop:
        _report_loop(timing, diagnostics)
    return robot.with_servo(timing.servo)


def _report(timing: DriveTiming, diagnostics: Diagnostics) -> None:
    lag = timing.lag
    if lag is None:
        return
    text = f"commands act {lag} after they were logged, and are held for {1e3 * lag.hold:.3g} ms"
    if timing.simulated:
        diagnostics.note("command-delay", text + ": so the simulated robot follows them best")
    elif lag.bounded:
        text += ". That is the longest that was tried: give drive.delay, or check that commands and measurements are "
        diagnostics.warn("command-delay", text + "on one clock")
    else:
        diagnostics.note("command-delay", text)


def _report_loop(timing: DriveTiming, diagnostics: Diagnostics) -> None:
    servo = timing.servo
    late = float(servo.kp.max()) * servo.lag
    row = f"{1e3 / timing.rate:.3g} ms"
    if servo.on_board:
        taken, why = "on board of the drives", f"of {row}, in which no computer closes one"
        other, wrong = COMPUTER, "more than is found"
    else:
        taken, why = "by a computer that sends torques", f"of {row}"
        other, wrong = DRIVE, "less than is found"
    if timing.exchanged:
        why = f"of {row}, but friction would drive most joints otherwise"
    diagnostics.note(
        "command-loop",
        f"position loops are taken to be closed {taken}: nobody declared it, and the log has rows {why}. If it is the "
        f"other way round, viscous friction is up to {late:.2g} N m s/rad {wrong}: give --loop {other}, or "
        f'loop = "{other}" under [drive] of the experiment',
    )
