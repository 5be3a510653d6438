"""Motors that share gears, and angles that count other joints', as readings of the log."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cache
from itertools import product

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.diagnosis.residual_analysis import regressor
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Side, Terms

# By which motors turn with joints before theirs: bevel gears of wrists and bars of a parallelogram.
GEARS = (1.0, -1.0)
# By which the motors of a differential turn with the second of its joints, over the first: powers of this from a
# quarter to four, of which the best is refined by halving the step of its exponent so often, to 4 %.
STEP, STEPS, HALVED = 2.0**0.5, 4, 3


@dataclass(frozen=True, eq=False)
class SharedGears:
    """Motors that turn by theta = N q, and torque that is theirs: u = N^-T tau.

    N: (n, n), 1 on the lines of motors with gears of their own.    motors: those that share gears.
    counted: whether the log has theta and tau, in place of q and u.
    """

    N: Float
    motors: tuple[int, ...]
    counted: bool = False

    @staticmethod
    def of_motor(n: int, motor: int, joint: int, factor: float, counted: bool = False) -> SharedGears:
        """A motor that turns by its joint's angle and so many times another's."""
        N = np.eye(n)
        N[motor, joint] = factor
        return SharedGears(N, (motor,), counted)

    @staticmethod
    def differential(n: int, first: int, second: int, factor: float, sign: float) -> SharedGears:
        """Two motors of which both joints turn both: theta = (q_1 + f q_2, s (q_1 - f q_2))."""
        N, pair = np.eye(n), [first, second]
        N[np.ix_(pair, pair)] = [[1.0, factor], [sign, -sign * factor]]
        return SharedGears(N, (first, second))

    def regressor(self, Y: Float, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Float:
        """Columns of the logged torque: motors feel their own motion, and the bodies through the gears.

        Y: (n, N, w) columns of the joints' torque, see `dynid.diagnosis.residual_analysis.regressor`.
        """
        if self.counted:
            at_joints = np.linalg.inv(self.N).T
            moved = replace(
                samples, q=samples.q @ at_joints, dq=samples.dq @ at_joints, ddq=samples.ddq @ at_joints
            )
            return regressor(robot, terms, moved, wanted)[0]
        at_motors = replace(samples, dq=samples.dq @ self.N.T, ddq=samples.ddq @ self.N.T)
        found = np.tensordot(np.linalg.inv(self.N).T, Y, 1)
        first, place = 0, np.cumsum(wanted) - 1
        for term in terms:
            own = slice(first, first := first + len(term.columns(robot)))
            if term.side is Side.MOTOR and wanted[own].any():
                of_motors, _ = regressor(robot, Terms((term,)), at_motors, wanted[own])
                found[:, :, place[own][wanted[own]]] = of_motors
        return np.asarray(found)

    def words(self, names: tuple[str, ...]) -> tuple[str, str]:
        """What the motors do, and how it is declared."""
        if len(self.motors) == 1:
            (motor,) = self.motors
            joint = next(j for j in np.flatnonzero(self.N[motor]).tolist() if j != motor)
            if self.counted:
                return self._words_of_angles(names[motor], names[joint], float(self.N[motor, joint]))
            return (
                f"torque of motors of which that of '{names[motor]}' turns with '{names[joint]}', too",
                f'declare what turns with what ([[drive.coupling]] motor = "{names[motor]}", joint = "{names[joint]}", '
                f'factor = {self.N[motor, joint]:.3g}) and torque_side = "motor" under [drive]',
            )
        return self._words_of_differential(names)

    def _words_of_angles(self, motor: str, joint: str, factor: float) -> tuple[str, str]:
        other = "minus" if factor > 0 else "plus"
        return (
            f"an angle of '{motor}' that counts that of '{joint}', too, as one to the horizontal does: the joint's is "
            f"the logged one {other} that of '{joint}'",
            f'correct the log, or declare it ([[drive.coupling]] motor = "{motor}", joint = "{joint}", factor = '
            f'{factor:.3g}) with position.side = "motor" and effort.side = "link" under [log]',
        )

    def _words_of_differential(self, names: tuple[str, ...]) -> tuple[str, str]:
        first, second = self.motors
        rows = ", ".join(f"[{', '.join(f'{one:.3g}' for one in row)}]" for row in self.N)
        return (
            f"torque of the two motors of a differential that moves '{names[first]}' and '{names[second]}' together",
            f"declare it (transmission = [{rows}], each row times the gear ratio where torque is that of a shaft, and "
            'torque_side = "motor") under [drive] in a TOML file of the robot',
        )


def shared_gears(
    n: int, motors: Collection[int], poor: Collection[int], gain_of: Callable[[SharedGears], float]
) -> Iterator[SharedGears]:
    """Gears and angles of each motor with every other joint, and the best differential of poor neighbours.

    gain_of: of a reading over the log as declared, more is better.
    """
    for motor, joint, factor in product(motors, range(n), GEARS):
        if joint != motor:
            yield SharedGears.of_motor(n, motor, joint, factor)
            yield SharedGears.of_motor(n, motor, joint, factor, counted=True)
    for first in range(n - 1):
        if first in poor and first + 1 in poor:
            for turned, sign in product((1.0, -1.0), repeat=2):
                yield _best_differential(n, first, turned, sign, gain_of)


def _best_differential(
    n: int, first: int, turned: float, sign: float, gain_of: Callable[[SharedGears], float]
) -> SharedGears:
    def at(exponent: float) -> SharedGears:
        return SharedGears.differential(n, first, first + 1, turned * STEP**exponent, sign)

    @cache
    def gain_at(exponent: float) -> float:
        return gain_of(at(exponent))

    best = max(map(float, range(-STEPS, STEPS + 1)), key=gain_at)
    for k in range(1, HALVED + 1):
        best = max((best, best - 0.5**k, best + 0.5**k), key=gain_at)
    return at(best)
