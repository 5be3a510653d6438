"""Output error of robots that are commanded positions: the drives' controllers are simulated with the robot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError, UsageError
from dynid.base.options import check_options
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, Status, require_enough
from dynid.estimate.gauss_newton import Problem, minimised
from dynid.estimate.options import interval_kind, last_move, most_rounds, sought_play
from dynid.estimate.servo_windows import DRY_WIDTH, Windows
from dynid.estimate.simulated import SimulationProblem

# Time constants of the slowest loop, after which residuals of positions have forgotten each other.
MEMORY = 4.0
# Standard deviation of a play, as a share of it: impacts and friction at its ends are not those of the simulation. On
# arms in MuJoCo those that are found are up to a quarter too small.
CROSSING = 0.2
# rad, of play that a status names: smaller ones are within a count of 12 bits.
PLAY_SHOWN = 1.5e-3


@dataclass(frozen=True)
class ServoOE:
    """Output error under the drives' own controllers: min sum ||(q - q_s)_j / sigma_j||^2, positions alone.

    Robot and controllers are simulated from the commands: u(t) = sat(kp e(q_des - q_s) + kd (dq_des - dq_s) + tau_ff),
    `lag` later, with the gains, limits, dead bands and the delay of the robot's `servo`, known or found in the log; the
    commands alone are late where the drives close the loop on board. Many windows side by side, each begun at the
    measured state early enough to forget it. Gauss-Newton from the linear fit, with the exact slopes of the
    simulation's steps; joints weigh 1/sigma_j^2 of their own residuals.

    The lag from commands to torque is found with the parameters, and with `play` each joint's play between motor and
    link, and their uncertainty is part of those'. A disturbance of the torque moves the joints for as long as the
    slowest loop takes to forget it: so many blocks of time count as one in the intervals.
    Source: Ljung 1999, ch. 13; Landau, Anderson and De Bruyne 2001 (closed-loop output error); Bock 1983.
    """

    rounds: int = most_rounds(15)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    play: bool = sought_play()
    name: str = "servo_oe"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Fits from a start on smoothed motion.

        Raises UsageError where there are factors alone or the gains of the controllers are not known, SolverError if
        nothing near the data can be simulated.
        """
        require_enough(regression)
        simulation = SimulationProblem.of(regression, self.name, None)
        servo, told = simulation.source.robot.drive.servo, simulation.source.commands
        if servo is None or not servo.known or told is None:
            raise UsageError(
                "no-gains",
                found="'servo_oe' for a log without commanded positions, or drives whose controllers are not known",
                expected="commands in place of a torque; kp, and kd if there is damping",
                do="give gains under [drive] of the experiment or as --kp and --kd; a log with a torque: use 'cloe'",
            )
        start = simulation.start()
        windows = Windows.of(simulation, servo, told, start, self.play)
        found = self.searched(regression, windows, start)
        dry, unknown = windows.drier(), np.zeros((len(start), len(start)))
        if dry is not None:
            # Steps of such friction are many and its minima narrow, so that a search does not begin there.
            stuck = self._stuck(regression, dry, found.value)
            best = np.inf if stuck is None else dry.misfit(stuck.value)
            if stuck is not None and best < np.inf:
                lead = windows.misfit(found.value) - best
                away = stuck.value - found.value
                found, windows = (stuck, dry) if lead > 0 else (found, windows)
                # As likely as the other is, by as many independent residuals as there are runs of blocks.
                other = 1.0 / (1.0 + np.exp(0.5 * (found.degrees_of_freedom + 1.0) * abs(lead)))
                unknown = unknown + other * np.outer(away, away)
        unknown = unknown + windows.of_play(found.value, CROSSING)
        lag = 1e3 * (servo.lag + windows.unknown.later)
        text = f"{found.status.text}; torque comes {lag:.3g} ms after its commands"
        within = abs(windows.unknown.later) < windows.reach
        if not within:
            text += (
                f", {1e3 * windows.reach:g} ms from drive.delay and as far from it as was searched: declare another "
                "delay, or look for a loop that is late itself"
            )
        if windows is dry:
            text += f"; joints that stick creep by less than {DRY_WIDTH:g} rad/s"
        play = np.abs(windows.unknown.play)
        if (play > PLAY_SHOWN).any():
            text += f"; up to {1e3 * play.max():.2g} mrad of play between motors and links"
        return replace(
            found, status=Status(found.status.ok and within, text), covariance=found.covariance + unknown
        )

    def searched(
        self,
        regression: Regression,
        windows: Windows,
        start: Float,
        enough: Callable[[], bool] = lambda: False,
    ) -> Estimate:
        """The minimum for friction of one width, from a start (b,); raises SolverError if it cannot be simulated.

        enough: see `minimised`.
        """
        return minimised(
            self,
            regression,
            Problem(windows.names, windows.linear),
            windows.simulation.simulable.nearest,
            start,
            self.rounds,
            self.tolerance,
            "positions under the drives' controllers",
            MEMORY * windows.slowest,
            enough,
        )

    def _stuck(self, regression: Regression, windows: Windows, start: Float) -> Estimate | None:
        try:
            found = self.searched(regression, windows, start)
        except SolverError:
            return None
        return found if found.status.ok else None
