"""When the torque of commands comes, by the positions of the simulated robot."""

from __future__ import annotations

from dynid.base.errors import DynidError
from dynid.base.records import dataclass
from dynid.estimate.estimator import Regression, require_enough
from dynid.estimate.servo_error import ServoOE
from dynid.estimate.servo_windows import Windows
from dynid.estimate.simulated import SimulationProblem

# Gauss-Newton rounds, of which lags take three or four: a search that goes on for longer is lost.
ROUNDS = 8
# s, by which a lag that is known still moves in a round: parameters that the log hardly determines move on.
KNOWN = 1e-4


class _Settled:
    """Whether the lag of some windows has hardly moved since it was last asked."""

    def __init__(self, windows: Windows) -> None:
        self._windows, self._before = windows, windows.unknown.later

    def __call__(self) -> bool:
        before, self._before = self._before, self._windows.unknown.later
        return abs(self._before - before) < KNOWN


@dataclass(frozen=True, eq=False)
class ServoTiming:
    """The lag of the commands' torque and its standard error, s, from so many blocks of time."""

    lag: float
    deviation: float
    blocks: int

    @staticmethod
    def of(regression: Regression) -> ServoTiming | None:
        """By positions alone, from a lag that is near; None where the search does not end well.

        The robot is simulated from the commands, joints stick, and parameters are found with the lag, as by `ServoOE`.
        """
        try:
            require_enough(regression)
            simulation = SimulationProblem.of(regression, "servo_oe", None)
            servo, told = simulation.source.robot.drive.servo, simulation.source.commands
            if servo is None or told is None:
                return None
            start = simulation.start()
            smooth = Windows.of(simulation, servo, told, start)
            windows = smooth.drier() or smooth
            found = ServoOE(rounds=ROUNDS).searched(regression, windows, start, _Settled(windows))
            deviation = windows.lag_deviation(found.value)
        except DynidError:
            return None
        later = windows.unknown.later
        if not found.status.ok or abs(later) >= windows.reach or servo.lag + later <= 0.0:
            return None
        return ServoTiming(servo.lag + later, deviation, len(regression.factors.blocks))
