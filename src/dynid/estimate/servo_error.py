"""Output error of robots that are commanded positions: the drives' controllers are simulated with the robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError, UsageError
from dynid.base.options import check_options
from dynid.estimate.estimator import Estimate, Piece, Regression, Status, require_enough
from dynid.estimate.gauss_newton import Problem, minimised
from dynid.estimate.options import interval_kind, last_move, most_rounds
from dynid.estimate.output_error import piece_of_run
from dynid.estimate.simulated import SETTLING, STRETCHES, SimulationProblem, thinned
from dynid.log.commands import Commands
from dynid.robot.servo import Servo
from dynid.signals.samples import Samples
from dynid.simulation.loop import Stretches, extra_of, measured_coordinates
from dynid.simulation.servo_loop import ServoLoop, servo_run
from dynid.terms.exports import MotionBasis
from dynid.terms.joint_term import JointTerm, sharpened
from dynid.terms.term import Column

# s, within which a start from the measured state is forgotten at least and at most, so that windows stay short.
LEAST_SETTLING, MOST_SETTLING = 0.1, 2.0
# Time constants of the slowest loop, after which residuals of positions have forgotten each other.
MEMORY = 4.0
# s: of the difference that gives the slope by the lag; by how much the lag may leave that of the linear fit, whose
# error is below a sample, at least; and the step at which it has settled, far below what any log shows.
LAG_DIFFERENCE, LAG_REACH, LAG_SETTLED = 1e-4, 5e-3, 1e-5
LAG_ROUNDS = 4
# rad/s or m/s: the smoothed sign of dry friction in the simulation. A joint that sticks creeps by as much, at most, and
# goes less than a count of 12 bits in half a second; steps still follow its slope.
DRY_WIDTH = 2e-3
# s, standard deviation: drives close their own loops some thousand times a second and hold the torque in between, which
# is late by half a period on average; how often they do so is not known.
LATE_FEEDBACK = 5e-4


@dataclass(frozen=True)
class ServoOE:
    """Output error under the drives' own controllers: min sum ||(q - q_s)_j / sigma_j||^2, positions alone.

    Robot and controllers are simulated from the commands: u(t) = sat(kp e(q_des - q_s) + kd (dq_des - dq_s) + tau_ff),
    `lag` later, with the gains, limits, dead bands and the delay of the robot's `servo`, known or found in the log; the
    commands alone are late where the drives close the loop on board. Many windows side by side, each begun at the
    measured state early enough to forget it. Gauss-Newton from the linear fit, with the exact slopes of the
    simulation's steps; joints weigh 1/sigma_j^2 of their own residuals.

    The lag from commands to torque is found with the parameters, and its uncertainty is part of theirs. A disturbance
    of the torque moves the joints for as long as the slowest loop takes to forget it: so many blocks of time count as
    one in the intervals.
    Source: Ljung 1999, ch. 13; Landau, Anderson and De Bruyne 2001 (closed-loop output error); Bock 1983.
    """

    rounds: int = most_rounds(15)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
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
        windows = _Windows.of(simulation, servo, told, start)
        found = self._minimised(regression, windows, start)
        dry = windows.drier()
        if dry is not None:
            # Steps of such friction are many and its minima narrow, so that a search does not begin there.
            stuck = self._stuck(regression, dry, found.value)
            if stuck is not None and dry.misfit(stuck.value) < windows.misfit(found.value):
                found, windows = stuck, dry
        lag = 1e3 * (servo.lag + windows.lag.later)
        text = f"{found.status.text}; torque comes {lag:.3g} ms after its commands"
        if windows is dry:
            text += f"; joints that stick creep by less than {DRY_WIDTH:g} rad/s"
        within = abs(windows.lag.later) < windows.reach
        if not within:
            text += (
                f", {1e3 * windows.reach:g} ms from drive.delay and as far from it as was searched: declare another "
                "delay, or look for play and a loop that is late itself"
            )
        unknown = _of_late_feedback(simulation, servo)
        return replace(
            found, status=Status(found.status.ok and within, text), covariance=found.covariance + unknown
        )

    def _minimised(self, regression: Regression, windows: _Windows, start: Float) -> Estimate:
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
        )

    def _stuck(self, regression: Regression, windows: _Windows, start: Float) -> Estimate | None:
        try:
            found = self._minimised(regression, windows, start)
        except SolverError:
            return None
        return found if found.status.ok else None


def _of_late_feedback(simulation: SimulationProblem, servo: Servo) -> Float:
    """Covariance (b, b) from what no log shows: by how much the drives' own loops read their motion late.

    Feedback that is late by some time takes kp times it off the viscous friction that is found, and kd times it off
    the armature.
    """
    base, robot = simulation.regression.base, simulation.source.robot
    if not servo.on_board:
        return np.zeros((base.rank, base.rank))
    lines = []
    for j in range(robot.n):
        taken: dict[MotionBasis | None, float] = {
            MotionBasis.SPEED: servo.kp[j],
            MotionBasis.ACCELERATION: servo.kd[j],
        }
        of_term = [
            taken.get(basis, 0.0) if column.owner == j else 0.0 for basis, column in _bases_of(simulation)
        ]
        lines.append(base.reduce(np.array(of_term)))
    found = LATE_FEEDBACK * np.array(lines)
    return np.asarray(found.T @ found)


def _bases_of(simulation: SimulationProblem) -> list[tuple[MotionBasis | None, Column]]:
    # What each parameter multiplies, where that is a motion of its joint alone.
    robot = simulation.source.robot
    return [
        (term.exports_as if isinstance(term, JointTerm) else None, column)
        for term in simulation.source.terms
        for column in term.columns(robot)
    ]


@dataclass(eq=False)
class _Lag:
    # s, by which torque is later than the log's preparation has it; found with the parameters.
    later: float = 0.0


def _slowest(simulation: SimulationProblem, servo: Servo, value: Float) -> float:
    """Time constant of the slowest loop, s: inertia, gains and what friction takes at the joints' usual speeds.

    A lag of the whole torque takes kp lag off the damping.
    """
    mechanism, place = simulation.mechanism(value), simulation.mechanism(value).driven
    inertia = np.maximum(simulation.inertia(value), 1e-12)
    x, v = (
        np.concatenate(parts)
        for parts in zip(*(measured_coordinates(mechanism, s) for s in simulation.measured), strict=True)
    )
    extra = {name: values[:1] for name, values in extra_of(mechanism, simulation.measured[0]).items()}
    speed = np.sqrt(np.mean(v**2, axis=0, keepdims=True))
    lost = np.broadcast_to(mechanism.damping(x[:1], speed, extra), speed.shape)[0, place]
    late = 0.0 if servo.on_board else servo.lag
    half: Float = 0.5 * (servo.kd - servo.kp * late + lost) / inertia
    root = np.sqrt(np.maximum(half**2 - servo.kp / inertia, 0.0))
    decay = np.where(root > 0, servo.kp / inertia / (half + root + 1e-300), half)
    return float(np.clip(1.0 / max(float(decay.min()), 1e-9), 0.0, MOST_SETTLING))


@dataclass(frozen=True, eq=False)
class _Windows:
    """What is simulated, and in which windows.

    measured: the samples that are simulated.    commands: by trajectory.    settling: s before a window's own samples.
    slowest: s, time constant of the slowest loop.
    """

    simulation: SimulationProblem
    measured: tuple[Samples, ...]
    servo: Servo
    commands: dict[str, Commands]
    settling: float
    slowest: float
    lag: _Lag

    @staticmethod
    def of(
        simulation: SimulationProblem, servo: Servo, told: Callable[[str], Commands], start: Float
    ) -> _Windows:
        """Windows whose start is forgotten after `SETTLING` time constants of the slowest loop."""
        slowest = _slowest(simulation, servo, start)
        settling = float(np.clip(SETTLING * slowest, LEAST_SETTLING, MOST_SETTLING))
        # Positions as measured: what velocities of the log are late by does not move them.
        stride = simulation.stride
        measured = simulation.measured
        measured = measured if stride == 1 else tuple(thinned(samples, stride) for samples in measured)
        commands = {name: told(name).clean() for name in dict.fromkeys(s.trajectory for s in measured)}
        return _Windows(simulation, measured, servo, commands, settling, slowest, _Lag())

    def drier(self) -> _Windows | None:
        """The same with friction that holds joints at rest; None where it does so already.

        Equations of filtered motion bear a wide sign; a joint that sticks for a tenth of a second does not.
        """
        source = self.simulation.source
        terms = sharpened(source.terms, DRY_WIDTH)
        if terms == source.terms:
            return None
        dry = replace(source, assembly=replace(source.assembly, terms=terms))
        return replace(self, simulation=replace(self.simulation, source=dry), lag=replace(self.lag))

    def misfit(self, value: Float) -> float:
        """Sum over the coordinates of the logarithm of the mean square residual."""
        pieces = list(self._pieces(value, slopes=False))
        groups = zip(*(piece.panels for piece in pieces), strict=True)
        return sum(float(np.log(np.mean(np.concatenate([p[-1] for p in group]) ** 2))) for group in groups)

    @property
    def reach(self) -> float:
        """By how much the lag may leave that of the linear fit, s: a row of the commands, and `LAG_REACH`."""
        rows = [float(np.median(np.diff(c.t))) for c in self.commands.values() if len(c.t) > 1]
        return max([LAG_REACH, *rows])

    @property
    def names(self) -> tuple[str, ...]:
        """Of the coordinates."""
        robot = self.simulation.source.robot
        return robot.joint_names + tuple(f"{robot.joint_names[j]} motor" for j in self.simulation.second)

    def linear(self, value: Float) -> Iterator[Piece]:
        """Residuals of the positions and their slopes, after the filters of the equations, the lag taken out.

        The lag is a parameter like the others: at every value it is the best one, and its slope is projected out of
        theirs, which is what a fit of both would leave (variable projection, Golub and Pereyra 1973).
        """
        for _ in range(LAG_ROUNDS):
            pieces = list(self._pieces(value, slopes=False))
            along, weights = _along_lag(pieces, value[:0])
            step = float(along[-1])
            self.lag.later = float(np.clip(self.lag.later + step, -self.reach, self.reach))
            if abs(step) < LAG_SETTLED:
                break
        pieces = list(self._pieces(value, slopes=True))
        share, _ = _along_lag(pieces, value, weights)
        for piece in pieces:
            panels = tuple(
                np.ascontiguousarray(np.delete(panel, -2, axis=0) - share[:, None] * panel[-2])
                for panel in piece.panels
            )
            yield replace(piece, columns=tuple(c[:-1] for c in piece.columns), panels=panels)

    def _pieces(self, value: Float, slopes: bool) -> Iterator[Piece]:
        # Lines by parameters where `slopes` says so, then by the lag (per second), then the target.
        simulation, mechanism = self.simulation, self.simulation.mechanism(value)
        regression, threads = simulation.regression, simulation.source.threads
        own = regression.base.independent if slopes else regression.base.independent[:0]
        columns = tuple(np.append(own, len(regression.columns)) for _ in self.names)
        for samples in self.measured:
            loop = ServoLoop(self.servo, self.commands[samples.trajectory], self.lag.later)
            after = replace(loop, later=self.lag.later + LAG_DIFFERENCE)
            settling = round(self.settling * samples.rate)
            # As long as what comes before them: shorter ones would spend their time on settling.
            length = max(len(samples) // STRETCHES, settling, 8)
            stretches = Stretches.of(len(samples), length, settling)
            wanted = simulation.wanted if slopes else None
            run = servo_run(mechanism, samples, loop, stretches, wanted, threads)
            moved = servo_run(mechanism, samples, after, stretches, None, threads).x - run.x
            lines = (moved / LAG_DIFFERENCE)[..., None]
            if run.dx is not None:
                lines = np.concatenate([run.dx, lines], axis=-1)
            slope = stretches.gathered(lines)
            target = measured_coordinates(mechanism, samples)[0] - stretches.gathered(run.x)
            if run.dx is not None:
                target = target + slope[..., :-1] @ value
            yield piece_of_run(simulation, samples, columns, slope, target)


def _along_lag(pieces: list[Piece], value: Float, weights: Float | None = None) -> tuple[Float, Float]:
    """How much of each line, the lag's own left out, lies along the lag's line; and the groups' weights.

    value: (b,) by which lines are parts of the target.    weights: (g,), None = 1/sigma^2 of the residuals.
    """
    groups = range(len(pieces[0].panels))
    if weights is None:
        missed = [
            np.concatenate([p.panels[g][-1] - value @ p.panels[g][:-2] for p in pieces]) for g in groups
        ]
        weights = np.array([1.0 / max(float(np.mean(e**2)), 1e-300) for e in missed])
    own, across = 0.0, np.zeros(len(value) + 1)
    for piece in pieces:
        for panel, weight in zip(piece.panels, weights, strict=True):
            own += weight * float(panel[-2] @ panel[-2])
            across += weight * (np.delete(panel, -2, axis=0) @ panel[-2])
    return (across / own if own > 0 else across), weights
