"""Output error of robots that are commanded positions: the drives' controllers are simulated with the robot."""

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
from dynid.estimate.uncertainty import interval_kind, last_move, most_rounds, sought_play
from dynid.factor.base import BaseMap
from dynid.log.conversion import Commands
from dynid.robot.drive import Servo
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.simulation.loop import Stretches, extra_of, measured_coordinates
from dynid.simulation.mechanism import Mechanism
from dynid.simulation.servo_loop import Added, Carried, ServoLoop, servo_run
from dynid.terms.exports import Column, MotionBasis
from dynid.terms.term import Terms, sharpened

# What drives that close their own loops are not known to do: by how much they read their motion late.

# s, standard deviation: drives close their own loops some thousand times a second and hold the torque in between, which
# is late by half a period on average; how often they do so is not known.
LATE_FEEDBACK = 5e-4


def bases_of(robot: RobotModel, terms: Terms) -> list[tuple[MotionBasis | None, Column]]:
    """What each parameter multiplies, where that is a motion of its joint alone."""
    return [(term.traits.basis, column) for term in terms for column in term.columns(robot)]


def of_late_feedback(robot: RobotModel, terms: Terms, base: BaseMap) -> Float:
    """Covariance (b, b) from what no log of commands shows: the delay of the drives' own feedback.

    Feedback that is late by some time takes kp times it off the viscous friction that is found, and kd times it off
    the armature.    Zero where a computer closes the loop, whose delay is found.
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
    found = LATE_FEEDBACK * np.array(lines)
    return np.asarray(found.T @ found)


# Runs of a robot under its drives' controllers in windows of a log, and what of the drives is found beside
# the model.
#
# The lag from commands to torque, and the play between drives and the links whose positions they read:
# unknowns that are no parameters of the model, and that take a part of its friction and armature where they
# are left out.

# s, within which a start from the measured state is forgotten at least and at most, so that windows stay short.
LEAST_SETTLING, MOST_SETTLING = 0.1, 2.0
# s: of the difference that gives the slope by the lag; by how much the lag may leave that of the linear fit, whose
# error is below a sample, at least; and the step at which it has settled, far below what any log shows.
LAG_DIFFERENCE, LAG_REACH, LAG_SETTLED = 1e-4, 5e-3, 1e-5
# rad or m, of the play: the difference, of the size of those that occur, since links take another time to cross another
# one; its standard deviation before anything is measured, which decides where a joint never crosses it (data sheets of
# hobby servos have 4 to 17 mrad); the most that is searched; and the step at which it has settled.
PLAY_DIFFERENCE, USUAL_PLAY, MOST_PLAY, PLAY_SETTLED = 2e-3, 1e-2, 3e-2, 1e-4
ROUNDS = 4
# Of the square of an unknown's line, below which what is left of it beside the others says nothing.
ALIKE = 1e-10
# rad/s or m/s: the smoothed sign of dry friction in the simulation. A joint that sticks creeps by as much, at most, and
# goes less than a count of 12 bits in half a second; steps still follow its slope.
DRY_WIDTH = 2e-3


def slowest_loop(simulation: SimulationProblem, servo: Servo, value: Float) -> float:
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


@dataclass(eq=False)
class Unknown:
    """What is found with the parameters.

    later: s, by which torque is later than the log's preparation has it.    play: (n,) rad or m, from end to end; what
    a link behind its drive's encoder does is that of a negative one. () where it is not looked for.
    """

    later: float
    play: Float


@dataclass(frozen=True, eq=False)
class Windows:
    """What is simulated, and in which windows.

    measured: the samples that are simulated.    commands: by trajectory.    settling: s before a window's own samples.
    slowest: s, time constant of the slowest loop.    carried: by the drives, along the measured samples.
    """

    simulation: SimulationProblem
    measured: tuple[Samples, ...]
    servo: Servo
    commands: dict[str, Commands]
    settling: float
    slowest: float
    carried: tuple[Carried, ...]
    unknown: Unknown

    @staticmethod
    def of(
        simulation: SimulationProblem,
        servo: Servo,
        told: Callable[[str], Commands],
        start: Float,
        play: bool = False,
    ) -> Windows:
        """Windows whose start is forgotten after `SETTLING` time constants of the slowest loop.

        play: whether it is looked for.
        """
        slowest = slowest_loop(simulation, servo, start)
        settling = float(np.clip(SETTLING * slowest, LEAST_SETTLING, MOST_SETTLING))
        # Positions as measured: what velocities of the log are late by does not move them.
        stride = simulation.stride
        measured = simulation.measured
        measured = measured if stride == 1 else tuple(thinned(samples, stride) for samples in measured)
        commands = {name: told(name).clean() for name in dict.fromkeys(s.trajectory for s in measured)}
        smooth = simulation.smooth
        smooth = smooth if stride == 1 else tuple(thinned(samples, stride) for samples in smooth)
        sought = play and not simulation.second
        carried = [Carried.of(simulation.source.robot, s) if sought else None for s in smooth]
        known = tuple(one for one in carried if one is not None)
        count = simulation.source.robot.n if len(known) == len(measured) else 0
        unknown = Unknown(0.0, np.zeros(count))
        return Windows(simulation, measured, servo, commands, settling, slowest, known, unknown)

    def drier(self) -> Windows | None:
        """The same with friction that holds joints at rest; None where it does so already.

        Equations of filtered motion bear a wide sign; a joint that sticks for a tenth of a second does not.
        """
        source = self.simulation.source
        terms = sharpened(source.terms, DRY_WIDTH)
        if terms == source.terms:
            return None
        dry = replace(source, assembly=replace(source.assembly, terms=terms))
        return replace(self, simulation=replace(self.simulation, source=dry), unknown=replace(self.unknown))

    def misfit(self, value: Float) -> float:
        """Sum over the coordinates of the logarithm of the mean square residual, the unknowns being the best ones.

        Infinite where the model cannot be simulated: the last step of a search is taken without a run at its end.
        """
        try:
            self.settle(value)
            pieces = list(self._pieces(value, slopes=False, others=False))
        except SolverError:
            return np.inf
        groups = zip(*(piece.panels for piece in pieces), strict=True)
        return sum(float(np.log(np.mean(np.concatenate([p[-1] for p in group]) ** 2))) for group in groups)

    def lag_deviation(self, value: Float) -> float:
        """Standard error of the lag, s, from its equations by block of time, all other unknowns taken out.

        nan where no block holds any of them.
        """
        pieces = list(self._pieces(value, slopes=True))
        _, weights = self._along(pieces, value)
        b, places = len(value), Places(self.simulation.regression.factors.blocks)
        square, size = _normal(pieces, weights)
        others = np.delete(np.arange(len(size)), b)
        along = (
            np.linalg.pinv(square[np.ix_(others, others)], rcond=ALIKE, hermitian=True) @ square[others, b]
        )
        left = np.insert(-along / size[others], b, 1.0 / size[b])
        known, score = 0.0, np.zeros(len(places.blocks))
        for piece in pieces:
            for panel, weight, times in zip(piece.panels, weights, piece.times, strict=True):
                own, block = left @ panel[:-1], places.of(piece.segment, times)
                known += weight * float(own @ own)
                missed = panel[-1] - value @ panel[:b]
                np.add.at(score, block[block >= 0], weight * (own * missed)[block >= 0])
        M = len(score)
        if not score.any():
            return np.nan
        return float(np.sqrt(M / max(M - 1, 1) * np.sum(score**2)) / max(known, 1e-300) / size[b])

    def of_play(self, value: Float, share: float) -> Float:
        """Covariance (b, b) from plays that are known to a share of themselves, as a standard deviation.

        The other parameters and the lag are refitted as another play asks for.
        """
        play, b = self.unknown.play, len(value)
        if not play.any():
            return np.zeros((b, b))
        pieces = list(self._pieces(value, slopes=True))
        _, weights = self._along(pieces, value)
        square, size = _normal(pieces, weights)
        free = slice(0, b + 1)
        moves = np.linalg.pinv(square[free, free], rcond=ALIKE, hermitian=True) @ square[free, b + 1 :]
        found = (moves / size[free, None])[:b] * size[b + 1 :] * share * play
        return np.asarray(found @ found.T)

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
        """Residuals of the positions and their slopes, after the filters of the equations, the unknowns taken out.

        They are parameters like the others: at every value they are the best ones, and their slopes are projected out
        of the others', which is what a fit of all would leave (variable projection, Golub and Pereyra 1973).
        """
        weights = self.settle(value)
        pieces = list(self._pieces(value, slopes=True))
        share, _ = self._along(pieces, value, weights)
        for piece in pieces:
            panels = tuple(
                np.ascontiguousarray(others - share.T @ own)
                for own, others in (self._parted(panel) for panel in piece.panels)
            )
            columns = tuple(c[: -len(share)] for c in piece.columns)
            yield replace(piece, columns=columns, panels=panels)

    def settle(self, value: Float) -> Float:
        """Finds the unknowns that are best at a value; the weights (g,) of the positions there."""
        unknown = self.unknown
        for _ in range(ROUNDS):
            along, weights = self._along(list(self._pieces(value, slopes=False)), value[:0])
            step = along[:, -1]
            unknown.later = float(np.clip(unknown.later + step[0], -self.reach, self.reach))
            unknown.play = np.clip(unknown.play + step[1:], -MOST_PLAY, MOST_PLAY)
            if abs(step[0]) < LAG_SETTLED and (np.abs(step[1:]) < PLAY_SETTLED).all():
                break
        return weights

    def _pieces(self, value: Float, slopes: bool, others: bool = True) -> Iterator[Piece]:
        # Lines by parameters where `slopes` says so, by the unknowns where `others` does, then the target.
        simulation, mechanism = self.simulation, self.simulation.mechanism(value)
        regression, count = simulation.regression, (1 + len(self.unknown.play)) * others
        own = regression.base.independent if slopes else regression.base.independent[:0]
        columns = np.append(own, len(regression.columns) + np.arange(count))
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

    def _parted(self, panel: Float) -> tuple[Float, Float]:
        # The unknowns' lines of a panel, and the others.
        first = len(panel) - 2 - len(self.unknown.play)
        return panel[first:-1], np.concatenate([panel[:first], panel[-1:]])

    def _along(self, pieces: list[Piece], value: Float, weights: Float | None = None) -> tuple[Float, Float]:
        """How much of each line, the unknowns' left out, lies along theirs, (u, b + 1); and the groups' weights.

        value: (b,) by which lines are parts of the target.    weights: (g,), None = 1/sigma^2 of the residuals.
        """
        groups = range(len(pieces[0].panels))
        if weights is None:
            missed = [
                np.concatenate([p.panels[g][-1] - value @ p.panels[g][: len(value)] for p in pieces])
                for g in groups
            ]
            weights = np.array([1.0 / max(float(np.mean(e**2)), 1e-300) for e in missed])
        u = 1 + len(self.unknown.play)
        square, across = np.zeros((u, u)), np.zeros((u, len(value) + 1))
        for piece in pieces:
            for panel, weight in zip(piece.panels, weights, strict=True):
                own, others = self._parted(panel)
                square += weight * (own @ own.T)
                across += weight * (own @ others.T)
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

    felt: torque that stands for the play, and by how much runs are ahead of their links: at the play as it is, then
    with that of one joint after the other being `PLAY_DIFFERENCE` greater.
    """

    windows: Windows
    mechanism: Mechanism
    samples: Samples
    stretches: Stretches
    felt: list[tuple[Added, Float]]

    @staticmethod
    def of(windows: Windows, index: int, mechanism: Mechanism, value: Float) -> _Runs:
        samples, simulation = windows.measured[index], windows.simulation
        settling = round(windows.settling * samples.rate)
        # As long as what comes before them: shorter ones would spend their time on settling.
        stretches = Stretches.of(len(samples), max(len(samples) // STRETCHES, settling, 8), settling)
        play, felt = windows.unknown.play, list[tuple[Added, Float]]()
        if len(play):
            carried, theta = windows.carried[index], full_vector(simulation.regression, value)
            own, viscous = carried.own(simulation.inertia(value)), np.zeros(len(play))
            bases = bases_of(simulation.source.robot, simulation.source.terms)
            for (basis, column), amount in zip(bases, theta, strict=True):
                if basis is MotionBasis.SPEED:
                    viscous[column.owner] += amount
            now, more = (carried.ahead(own, one) for one in (play, play + PLAY_DIFFERENCE))
            alike = np.eye(len(play), dtype=np.bool_)
            for chosen in (alike[0] & False, *alike):
                ahead = replace(now, torque=np.where(chosen, more.torque, now.torque))
                felt.append(carried.felt(ahead, own, windows.servo, viscous))
        return _Runs(windows, mechanism, samples, stretches, felt)

    def run(self, later: float, joint: int | None, wanted: Bool | None = None) -> tuple[Float, Float | None]:
        """Positions (B, K, s) that encoders see, and slopes; with more play of a joint, None = with what it is."""
        windows = self.windows
        added, shift = self.felt[0 if joint is None else joint + 1] if self.felt else (None, None)
        loop = ServoLoop(windows.servo, windows.commands[self.samples.trajectory], later, added)
        threads = windows.simulation.source.threads
        found = servo_run(self.mechanism, self.samples, loop, self.stretches, wanted, threads)
        x = found.x if shift is None else found.x - shift[self.stretches.index]
        return x, found.dx


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


# When the torque of commands comes, by the positions of the simulated robot.

# Gauss-Newton rounds, of which lags take three or four: a search that goes on for longer is lost.
SERVO_TIMING_ROUNDS = 8
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
            found = ServoOE(rounds=SERVO_TIMING_ROUNDS).searched(
                regression, windows, start, _Settled(windows)
            )
            deviation = windows.lag_deviation(found.value)
        except DynidError:
            return None
        later = windows.unknown.later
        if not found.status.ok or abs(later) >= windows.reach or servo.lag + later <= 0.0:
            return None
        return ServoTiming(servo.lag + later, deviation, len(regression.factors.blocks))
