"""Output error of robots with position commands: the drives' controllers are simulated with the robot."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import DynidError, SolverError, UsageError
from dynid.base.options import check_options
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Piece, Regression, Status, require_enough
from dynid.estimate.least_squares import full_vector
from dynid.estimate.output_error import Problem, minimised, piece_of_run
from dynid.estimate.simulated import SETTLING, STRETCHES, SimulationProblem, thinned
from dynid.estimate.source import Places
from dynid.estimate.uncertainty import interval_kind, last_move, most_rounds, play_option
from dynid.factor.base import BaseMap
from dynid.recording import Commands
from dynid.robot.drive import Servo
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.loop import Stretches, extra_of, measured_coordinates
from dynid.simulation.mechanism import Mechanism
from dynid.simulation.servo_loop import AddedTorque, DrivenLoad, ServoLoop, servo_run
from dynid.terms.exports import Column, MotionBasis
from dynid.terms.term import Terms, sharpened

# Unknown delay of the feedback of drives that close their own loops.

# s: standard deviation of that delay. Such loops run at about 1 kHz and keep the torque in between, half a period late
# on average; the rate is unknown.
LATE_FEEDBACK = 5e-4


def bases_of(robot: RobotModel, terms: Terms) -> list[tuple[MotionBasis | None, Column]]:
    """Motion that each parameter multiplies, if it is that of its joint only."""
    return [(term.traits.basis, column) for term in terms for column in term.columns(robot)]


def of_late_feedback(robot: RobotModel, terms: Terms, base: BaseMap) -> Float:
    """Covariance from the unknown delay of the drives' own feedback, which no log of commands shows.

    A delay of the feedback reduces the estimated viscous friction by kp times the delay, and the armature by kd times
    the delay. It is zero if a computer closes the loop, whose delay is estimated.

    `terms`: terms of the model; `base`: base parameters. The result has shape (b, b).
    """
    servo = robot.drive.servo
    if servo is None or not servo.on_board or not servo.known:
        return np.zeros((base.rank, base.rank))
    lines = []
    for j in range(robot.n):
        taken: dict[MotionBasis | None, float] = {
            MotionBasis.SPEED: servo.kp[j],
            MotionBasis.ACCELERATION: servo.kd[j],
        }
        of_term = [
            taken.get(basis, 0.0) if column.owner == j else 0.0 for basis, column in bases_of(robot, terms)
        ]
        lines.append(base.reduce(np.array(of_term)))
    shifts = LATE_FEEDBACK * np.array(lines)
    return np.asarray(shifts.T @ shifts)


# Runs of a robot under its drives' controllers in windows of a log, and what of the drives is found beside
# the model.
#
# The lag from commands to torque, and the play between drives and the links whose positions they read:
# unknowns that are no parameters of the model, and that take a part of its friction and armature where they
# are left out.

# s: limits of the time in which a start from the measured state is forgotten, so that windows stay short.
LEAST_SETTLING, MOST_SETTLING = 0.1, 2.0
# s: step of the derivative by the lag; its greatest distance from the linear fit, which is accurate to a sample; and
# the change at which it has settled, far below what a log shows.
LAG_DIFFERENCE, LAG_REACH, LAG_SETTLED = 1e-4, 5e-3, 1e-5
# rad or m: step of the derivative by play, of the size of usual play, since crossing times change with it; its standard
# deviation before any data, which decides if a joint never crosses it (data sheets of hobby servos: 4 to 17 mrad); the
# greatest play; and the change at which it has settled.
PLAY_DIFFERENCE, USUAL_PLAY, MOST_PLAY, PLAY_SETTLED = 2e-3, 1e-2, 3e-2, 1e-4
# Most rounds in which the unknowns settle.
ROUNDS = 4
# Independent share of a squared line below which an unknown is not determined.
ALIKE = 1e-10
# rad/s or m/s: width of dry friction in the simulation. A sticking joint creeps at most that fast, less than a count of
# 12 bits in half a second; integration still resolves it.
DRY_WIDTH = 2e-3


def slowest_loop(simulation: SimulationProblem, servo: Servo, value: Float) -> float:
    """Time constant of the slowest loop, from inertia, gains and friction at usual joint speeds.

    A lag of the whole torque reduces the damping by kp lag.

    `servo`: controllers of the drives; `value` (b,): base parameters. The result is in s.
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


@dataclass(eq=False)
class Unknown:
    """Unknowns that are estimated with the parameters.

    Attributes
    ----------
    later : float, s
        Delay of the torque in addition to that of the prepared log.
    play : ndarray, shape (n,), rad or m
        Play from end to end; negative for a link behind the encoder of its drive. () if it is not estimated.

    """

    later: float
    play: Float


@dataclass(frozen=True, eq=False)
class Windows:
    """Samples to simulate, and the windows in which they are simulated.

    Attributes
    ----------
    simulation : SimulationProblem
        Problem.
    measured : tuple of Samples
        Samples to simulate.
    servo : Servo
        Controllers of the drives.
    commands : dict of str to Commands
        Commands by trajectory.
    settling : float, s
        Time before the samples of a window.
    slowest : float, s
        Time constant of the slowest loop.
    carried : tuple of DrivenLoad
        Loads of the drives along the measured samples.
    unknown : Unknown
        Unknowns.

    """

    simulation: SimulationProblem
    measured: tuple[Samples, ...]
    servo: Servo
    commands: dict[str, Commands]
    settling: float
    slowest: float
    carried: tuple[DrivenLoad, ...]
    unknown: Unknown

    @staticmethod
    def of(
        simulation: SimulationProblem,
        servo: Servo,
        commands_of: Callable[[str], Commands],
        start: Float,
        play: bool = False,
    ) -> Windows:
        """Windows whose initial state is forgotten after `SETTLING` time constants of the slowest loop.

        `servo`: controllers of the drives; `commands_of`: commands of a trajectory by name; `start` (b,): base
        parameters; `play`: whether play is estimated.
        """
        slowest = slowest_loop(simulation, servo, start)
        settling = float(np.clip(SETTLING * slowest, LEAST_SETTLING, MOST_SETTLING))
        # Measured positions, which a lag of the logged velocities does not shift.
        stride = simulation.stride
        measured = simulation.measured
        measured = measured if stride == 1 else tuple(thinned(samples, stride) for samples in measured)
        commands = {name: commands_of(name).clean() for name in dict.fromkeys(s.trajectory for s in measured)}
        smooth = simulation.smooth
        smooth = smooth if stride == 1 else tuple(thinned(samples, stride) for samples in smooth)
        sought = play and not simulation.second
        carried = [DrivenLoad.of(simulation.source.robot, s) if sought else None for s in smooth]
        known = tuple(load for load in carried if load is not None)
        count = simulation.source.robot.n if len(known) == len(measured) else 0
        unknown = Unknown(0.0, np.zeros(count))
        return Windows(simulation, measured, servo, commands, settling, slowest, known, unknown)

    def drier(self) -> Windows | None:
        """The same with friction that keeps joints at rest; None if it already does.

        Equations of filtered motion tolerate a wide sign of the velocity; a joint that sticks for a tenth of a second
        does not.
        """
        source = self.simulation.source
        terms = sharpened(source.terms, DRY_WIDTH)
        if terms == source.terms:
            return None
        dry = replace(source, assembly=replace(source.assembly, terms=terms))
        return replace(self, simulation=replace(self.simulation, source=dry), unknown=replace(self.unknown))

    def misfit(self, value: Float) -> float:
        """Sum over the coordinates of the log mean square residual, with the best unknowns.

        It is infinite if the model cannot be simulated, since the last step of a search is taken without a simulation.
        """
        try:
            self.settle(value)
            pieces = list(self._pieces(value, slopes=False, others=False))
        except SolverError:
            return np.inf
        groups = zip(*(piece.panels for piece in pieces), strict=True)
        return sum(float(np.log(np.mean(np.concatenate([p[-1] for p in group]) ** 2))) for group in groups)

    def lag_deviation(self, value: Float) -> float:
        """Standard error of the lag, s, from its equations by block of time, with all other unknowns eliminated.

        It is nan if no block contains equations of the lag.
        """
        pieces = list(self._pieces(value, slopes=True))
        _, weights = self._projection(pieces, value)
        b, places = len(value), Places(self.simulation.regression.factors.blocks)
        square, size = _normal(pieces, weights)
        others = np.delete(np.arange(len(size)), b)
        along = (
            np.linalg.pinv(square[np.ix_(others, others)], rcond=ALIKE, hermitian=True) @ square[others, b]
        )
        combination = np.insert(-along / size[others], b, 1.0 / size[b])
        known, score = 0.0, np.zeros(len(places.blocks))
        for piece in pieces:
            for panel, weight, times in zip(piece.panels, weights, piece.times, strict=True):
                line, block = combination @ panel[:-1], places.of(piece.segment, times)
                known += weight * float(line @ line)
                residual = panel[-1] - value @ panel[:b]
                np.add.at(score, block[block >= 0], weight * (line * residual)[block >= 0])
        M = len(score)
        if not score.any():
            return np.nan
        return float(np.sqrt(M / max(M - 1, 1) * np.sum(score**2)) / max(known, 1e-300) / size[b])

    def of_play(self, value: Float, share: float) -> Float:
        """Covariance (b, b) from plays that are known to a share of themselves (standard deviation).

        The other parameters and the lag are refitted for another play.
        """
        play, b = self.unknown.play, len(value)
        if not play.any():
            return np.zeros((b, b))
        pieces = list(self._pieces(value, slopes=True))
        _, weights = self._projection(pieces, value)
        square, size = _normal(pieces, weights)
        free = slice(0, b + 1)
        moves = np.linalg.pinv(square[free, free], rcond=ALIKE, hermitian=True) @ square[free, b + 1 :]
        shifts = (moves / size[free, None])[:b] * size[b + 1 :] * share * play
        return np.asarray(shifts @ shifts.T)

    @property
    def reach(self) -> float:
        """Greatest distance of the lag from that of the linear fit, s: one row of the commands, and `LAG_REACH`."""
        rows = [float(np.median(np.diff(c.t))) for c in self.commands.values() if len(c.t) > 1]
        return max([LAG_REACH, *rows])

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coordinates."""
        robot = self.simulation.source.robot
        return robot.joint_names + tuple(f"{robot.joint_names[j]} motor" for j in self.simulation.second)

    def linear(self, value: Float) -> Iterator[Piece]:
        """Residuals of the positions and their derivatives, after the filters, with the unknowns eliminated.

        The unknowns are optimal at every value, and their derivatives are projected out of the others, as in a joint
        fit (variable projection, Golub and Pereyra 1973).
        """
        weights = self.settle(value)
        pieces = list(self._pieces(value, slopes=True))
        share, _ = self._projection(pieces, value, weights)
        for piece in pieces:
            panels = tuple(
                np.ascontiguousarray(others - share.T @ unknowns)
                for unknowns, others in (self._split_unknowns(panel) for panel in piece.panels)
            )
            columns = tuple(c[: -len(share)] for c in piece.columns)
            yield replace(piece, columns=columns, panels=panels)

    def settle(self, value: Float) -> Float:
        """Set the unknowns that are optimal at a value; returns the weights (g,) of the positions there."""
        unknown = self.unknown
        for _ in range(ROUNDS):
            along, weights = self._projection(list(self._pieces(value, slopes=False)), value[:0])
            step = along[:, -1]
            unknown.later = float(np.clip(unknown.later + step[0], -self.reach, self.reach))
            unknown.play = np.clip(unknown.play + step[1:], -MOST_PLAY, MOST_PLAY)
            if abs(step[0]) < LAG_SETTLED and (np.abs(step[1:]) < PLAY_SETTLED).all():
                break
        return weights

    def _pieces(self, value: Float, slopes: bool, others: bool = True) -> Iterator[Piece]:
        # Lines by parameters if `slopes`, by the unknowns if `others`, then the target.
        simulation, mechanism = self.simulation, self.simulation.mechanism(value)
        regression, count = simulation.regression, (1 + len(self.unknown.play)) * others
        indices = regression.base.independent if slopes else regression.base.independent[:0]
        columns = np.append(indices, len(regression.columns) + np.arange(count))
        for i, samples in enumerate(self.measured):
            runs = _Runs.of(self, i, mechanism, value)
            x, dx = runs.run(self.unknown.later, None, simulation.wanted if slopes else None)
            lines = [] if dx is None else [dx]
            if others:
                later = runs.run(self.unknown.later + LAG_DIFFERENCE, None)[0]
                lines.append(((later - x) / LAG_DIFFERENCE)[..., None])
            for j in range(count - 1):
                lines.append(((runs.run(self.unknown.later, j)[0] - x) / PLAY_DIFFERENCE)[..., None])
            target = measured_coordinates(mechanism, samples)[0] - runs.stretches.gathered(x)
            slope = (
                runs.stretches.gathered(np.concatenate(lines, axis=-1))
                if lines
                else target[..., None][..., :0]
            )
            if slopes:
                target = target + slope[..., : len(value)] @ value
            yield piece_of_run(simulation, samples, tuple(columns for _ in self.names), slope, target)

    def _split_unknowns(self, panel: Float) -> tuple[Float, Float]:
        # Lines of the unknowns in a panel, and the others.
        first = len(panel) - 2 - len(self.unknown.play)
        return panel[first:-1], np.concatenate([panel[:first], panel[-1:]])

    def _projection(
        self, pieces: list[Piece], value: Float, weights: Float | None = None
    ) -> tuple[Float, Float]:
        """Part of each line along the lines of the unknowns, (u, b + 1), and the weights of the groups.

        value: (b,) by which lines are parts of the target.    weights: (g,), None = 1/sigma^2 of the residuals.
        """
        groups = range(len(pieces[0].panels))
        if weights is None:
            residuals = [
                np.concatenate([p.panels[g][-1] - value @ p.panels[g][: len(value)] for p in pieces])
                for g in groups
            ]
            weights = np.array([1.0 / max(float(np.mean(e**2)), 1e-300) for e in residuals])
        u = 1 + len(self.unknown.play)
        square, across = np.zeros((u, u)), np.zeros((u, len(value) + 1))
        for piece in pieces:
            for panel, weight in zip(piece.panels, weights, strict=True):
                unknowns, others = self._split_unknowns(panel)
                square += weight * (unknowns @ unknowns.T)
                across += weight * (unknowns @ others.T)
        usual = np.append(0.0, np.full(u - 1, USUAL_PLAY**-2))
        across[1:, -1] -= usual[1:] * self.unknown.play
        square += np.diag(usual)
        size = np.sqrt(np.diag(square))
        size = np.where(size > 0, size, 1.0)
        inverse = np.linalg.pinv(square / np.outer(size, size), rcond=ALIKE, hermitian=True)
        return inverse @ (across / size[:, None]) / size[:, None], weights


def _normal(pieces: list[Piece], weights: Float) -> tuple[Float, Float]:
    """Normal equations of all lines but the target, each of length one, and their lengths."""
    products = [
        weight * (panel[:-1] @ panel[:-1].T)
        for piece in pieces
        for panel, weight in zip(piece.panels, weights, strict=True)
    ]
    square = np.sum(products, axis=0)
    size = np.sqrt(np.maximum(np.diag(square), np.finfo(float).tiny))
    return square / np.outer(size, size), size


@dataclass(frozen=True, eq=False)
class _Runs:
    """Runs of one batch of samples at a value of the parameters.

    play_effects: torque equivalent to the play, and the lead of the drives over their links, (T, n): first for the
    present play, then with the play of one joint after the other increased by `PLAY_DIFFERENCE`.
    """

    windows: Windows
    mechanism: Mechanism
    samples: Samples
    stretches: Stretches
    play_effects: list[tuple[AddedTorque, Float]]

    @staticmethod
    def of(windows: Windows, index: int, mechanism: Mechanism, value: Float) -> _Runs:
        samples, simulation = windows.measured[index], windows.simulation
        settling = round(windows.settling * samples.rate)
        # At least as long as their settling time, on which shorter ones would spend most of the work.
        stretches = Stretches.of(len(samples), max(len(samples) // STRETCHES, settling, 8), settling)
        play, play_effects = windows.unknown.play, list[tuple[AddedTorque, Float]]()
        if len(play):
            carried, theta = windows.carried[index], full_vector(simulation.regression, value)
            drive_inertia, viscous = carried.drive_inertia(simulation.inertia(value)), np.zeros(len(play))
            bases = bases_of(simulation.source.robot, simulation.source.terms)
            for (basis, column), amount in zip(bases, theta, strict=True):
                if basis is MotionBasis.SPEED:
                    viscous[column.owner] += amount
            now, more = (
                carried.play_deflection(drive_inertia, size) for size in (play, play + PLAY_DIFFERENCE)
            )
            alike = np.eye(len(play), dtype=np.bool_)
            for chosen in (alike[0] & False, *alike):
                ahead = replace(now, torque=np.where(chosen, more.torque, now.torque))
                play_effects.append(carried.equivalent_torque(ahead, drive_inertia, windows.servo, viscous))
        return _Runs(windows, mechanism, samples, stretches, play_effects)

    def run(self, later: float, joint: int | None, wanted: Bool | None = None) -> tuple[Float, Float | None]:
        """Positions (B, K, s) that encoders measure, and derivatives; with more play of a joint, None = no more."""
        windows = self.windows
        added, shift = (
            self.play_effects[0 if joint is None else joint + 1] if self.play_effects else (None, None)
        )
        loop = ServoLoop(windows.servo, windows.commands[self.samples.trajectory], later, added)
        threads = windows.simulation.source.threads
        simulated = servo_run(self.mechanism, self.samples, loop, self.stretches, wanted, threads)
        x = simulated.x if shift is None else simulated.x - shift[self.stretches.index]
        return x, simulated.dx


# Time constants of the slowest loop after which residuals of positions are independent.
MEMORY = 4.0
# Relative standard deviation of a play: impacts and end friction differ from the simulation. Estimated plays of arms in
# MuJoCo are up to a quarter too small.
CROSSING = 0.2
# rad: play that a status reports; less is within a count of 12 bits.
PLAY_SHOWN = 1.5e-3


@dataclass(frozen=True)
class ServoOE:
    """Output error under the drives' own controllers, min sum ||(q - q_s)_j / sigma_j||^2, from positions only.

    Robot and controllers are simulated from the commands: u(t) = sat(kp e(q_des - q_s) + kd (dq_des - dq_s) + tau_ff),
    `lag` later, with the gains, limits, dead bands and delay of the robot's `servo`, given or estimated from the log.
    Only the commands are late if the drives close the loop on board. Many windows are simulated in parallel, each
    started at the measured state early enough to forget it. Gauss-Newton starts at the linear fit and uses the exact
    derivatives of the simulation steps; joints weigh 1/sigma_j^2 of their own residuals.

    The lag from commands to torque is estimated with the parameters, and with `play` each joint's play between motor
    and link; their uncertainty is included. A disturbance of the torque moves the joints until the slowest loop forgets
    it: so many blocks of time count as one in the intervals.

    Parameters
    ----------
    rounds : int
        Greatest number of rounds.
    tolerance : float
        Move of the estimate at which iteration stops, in standard deviations.
    intervals : str
        Method of the covariance, see dynid.estimate.uncertainty.Intervals.
    play : bool
        Whether play is estimated.

    References
    ----------
    Ljung 1999, ch. 13; Landau, Anderson and De Bruyne 2001 (closed-loop output error); Bock 1983.

    """

    rounds: int = most_rounds(15)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    play: bool = play_option()
    name: str = "servo_oe"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Fit from a start on smoothed motion.

        Raises UsageError if there are only factors or the gains of the controllers are unknown, SolverError if no
        parameters near the data can be simulated.
        """
        require_enough(regression)
        simulation = SimulationProblem.of(regression, self.name, None)
        servo, commands_of = simulation.source.robot.drive.servo, simulation.source.commands
        if servo is None or not servo.known or commands_of is None:
            raise UsageError(
                "no-gains",
                found="'servo_oe' without commanded positions or without controller gains",
                expected="commanded positions in the log; kp, and kd if there is damping",
                do="give gains under [drive] of the experiment or as --kp and --kd; for a log with torque use 'cloe'",
            )
        start = simulation.start()
        windows = Windows.of(simulation, servo, commands_of, start, self.play)
        estimate = self.searched(regression, windows, start)
        dry, unknown = windows.drier(), np.zeros((len(start), len(start)))
        if dry is not None:
            # Sharp friction needs many steps and has narrow minima, so the search does not start with it.
            stuck = self._with_sticking(regression, dry, estimate.value)
            best = np.inf if stuck is None else dry.misfit(stuck.value)
            if stuck is not None and best < np.inf:
                lead = windows.misfit(estimate.value) - best
                away = stuck.value - estimate.value
                estimate, windows = (stuck, dry) if lead > 0 else (estimate, windows)
                # Probability of the other minimum, with as many independent residuals as runs of blocks.
                other = 1.0 / (1.0 + np.exp(0.5 * (estimate.degrees_of_freedom + 1.0) * abs(lead)))
                unknown = unknown + other * np.outer(away, away)
        unknown = unknown + windows.of_play(estimate.value, CROSSING)
        lag = 1e3 * (servo.lag + windows.unknown.later)
        text = f"{estimate.status.text}; torque lags its commands by {lag:.3g} ms"
        within = abs(windows.unknown.later) < windows.reach
        if not within:
            text += (
                f", {1e3 * windows.reach:g} ms from drive.delay, the limit of the search: give another drive.delay, or "
                "check for a delay inside the control loop"
            )
        if windows is dry:
            text += f"; sticking joints are simulated as creeping below {DRY_WIDTH:g} rad/s"
        play = np.abs(windows.unknown.play)
        if (play > PLAY_SHOWN).any():
            text += f"; up to {1e3 * play.max():.2g} mrad of play between motors and links"
        return replace(
            estimate,
            status=Status(estimate.status.ok and within, text),
            covariance=estimate.covariance + unknown,
        )

    def searched(
        self,
        regression: Regression,
        windows: Windows,
        start: Float,
        enough: Callable[[], bool] = lambda: False,
    ) -> Estimate:
        """Minimum for friction of one width.

        Parameters
        ----------
        regression : Regression
            Regression.
        windows : Windows
            Windows to simulate.
        start : ndarray, shape (b,)
            Start.
        enough : callable
            See `minimised`.

        Returns
        -------
        Estimate
            Estimate.

        Raises
        ------
        SolverError
            If it cannot be simulated.

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

    def _with_sticking(self, regression: Regression, windows: Windows, start: Float) -> Estimate | None:
        try:
            estimate = self.searched(regression, windows, start)
        except SolverError:
            return None
        return estimate if estimate.status.ok else None


# Time of the torque of commands, from the positions of the simulated robot.

# Most Gauss-Newton rounds: a lag needs three or four.
SERVO_TIMING_ROUNDS = 8
# s: change per round below which a lag is known, while weakly determined parameters still move.
KNOWN = 1e-4


class _Settled:
    """Whether the lag of some windows has hardly moved since the last call."""

    def __init__(self, windows: Windows) -> None:
        self._windows, self._before = windows, windows.unknown.later

    def __call__(self) -> bool:
        before, self._before = self._before, self._windows.unknown.later
        return abs(self._before - before) < KNOWN


@dataclass(frozen=True, eq=False)
class ServoTiming:
    """Lag of the torque behind its commands and its standard error, s, from a number of blocks of time."""

    lag: float
    deviation: float
    blocks: int

    @staticmethod
    def of(regression: Regression) -> ServoTiming | None:
        """Lag from positions only, starting at a near lag; None if the search does not converge.

        The robot is simulated from the commands with joints that stick, and parameters are estimated with the lag, as
        by `ServoOE`.
        """
        try:
            require_enough(regression)
            simulation = SimulationProblem.of(regression, "servo_oe", None)
            servo, commands_of = simulation.source.robot.drive.servo, simulation.source.commands
            if servo is None or commands_of is None:
                return None
            start = simulation.start()
            smooth = Windows.of(simulation, servo, commands_of, start)
            windows = smooth.drier() or smooth
            estimate = ServoOE(rounds=SERVO_TIMING_ROUNDS).searched(
                regression, windows, start, _Settled(windows)
            )
            deviation = windows.lag_deviation(estimate.value)
        except DynidError:
            return None
        later = windows.unknown.later
        if not estimate.status.ok or abs(later) >= windows.reach or servo.lag + later <= 0.0:
            return None
        return ServoTiming(servo.lag + later, deviation, len(regression.factors.blocks))
