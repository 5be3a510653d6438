"""Output error: parameters for which the simulated motion equals the measured one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError, UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Piece, Regression, Status, require_enough
from dynid.estimate.least_squares import Method, completed, full_vector, residual_sigma, solve
from dynid.estimate.simulated import ClosedLoopFit, SimulationProblem, tried
from dynid.estimate.source import factors_of_pieces
from dynid.estimate.uncertainty import interval_kind, last_move, most_rounds
from dynid.factor.factor import Factors, group_scale
from dynid.signals.samples import Samples
from dynid.simulation.loop import (
    Feedback,
    Output,
    Run,
    Stretches,
    extra_of,
    measured_coordinates,
    run,
    sensitivity,
)
from dynid.simulation.mechanism import Mechanism

# Gauss-Newton on simulations: each round is a weighted linear regression, with all its properties.

# Most halvings of a step that does not lower the residual.
HALVINGS = 5
# Move, in standard deviations, that is accepted at a minimum: derivatives are those between samples.
NEAR = 0.5
# Least number of runs of blocks for intervals: with fewer the spread is uncertain and Student's quantile grows.
LEAST_RUNS = 8


@dataclass(frozen=True, eq=False)
class Problem:
    """Residuals that are nonlinear in the parameters.

    Attributes
    ----------
    names : tuple of str
        Names of their groups.
    linear : callable
        Value (b,) -> pieces whose columns are the derivatives of the prediction, with target residual + derivative
        value. It may raise SolverError if the model cannot be simulated.

    """

    names: tuple[str, ...]
    linear: Callable[[Float], Iterator[Piece]]


@dataclass(frozen=True, eq=False)
class _Linear:
    """Linearised equations at a value, with the mean square residual of each group."""

    value: Float
    factors: Factors
    square: Float

    @staticmethod
    def at(regression: Regression, problem: Problem, value: Float) -> _Linear:
        factors = factors_of_pieces(regression, problem.linear(value), problem.names)
        theta, total = full_vector(regression, value), factors.total
        squares = np.array([f.residual_square(theta) / max(f.count, 1) for f in total])
        return _Linear(value, factors, np.maximum(squares, 1e-24 / group_scale(total)))

    @property
    def weights(self) -> Float:
        return 1.0 / self.square

    def cost(self, weights: Float) -> float:
        counts = np.array([f.count for f in self.factors.total])
        return float(np.sum(weights * counts * self.square))


def minimised(
    method: Method,
    regression: Regression,
    problem: Problem,
    nearest: Callable[[Float, Float], Float],
    start: Float,
    rounds: int,
    tolerance: float,
    subject: str,
    memory: float = 0.0,
    enough: Callable[[], bool] = lambda: False,
) -> Estimate:
    """Fit by Gauss-Newton with halved steps; groups weigh 1/sigma^2 of their residuals, recomputed each round.

    `method`: estimator; `regression`: its input; `nearest`: value (b,) and triangle R (b, b) of equations -> the
    nearest value that can be simulated. Steps end there, and intervals include the distance to the solution of the
    equations; `start` (b,): start, which can be simulated; `rounds`: greatest number of rounds; `tolerance`: move of
    the estimate at which iteration stops, in standard deviations; `subject`: start of the text of the status; `memory`
    in s: time within which residuals are correlated: shorter blocks count together in the intervals; `enough`: called
    after every step; True ends the iteration early, although other parameters may not have converged.
    """
    current = _Linear.at(regression, problem, start)
    stopped: str | None = None
    moved, done, known = np.inf, 0, False
    target, free, R = current.value, current.value, np.eye(len(start))
    for done in range(1, rounds + 1):
        free, R = solve(replace(regression, factors=current.factors), current.weights)
        target = nearest(free, R)
        moved = float(np.linalg.norm(R @ (target - current.value)) / np.sqrt(len(start)))
        if moved < tolerance or done == rounds:
            break
        trial = _line_search(regression, problem, current, target - current.value, moved / tolerance)
        if isinstance(trial, str):
            stopped = trial
            break
        current = trial
        known = enough()
        if known:
            break
    value = target if moved < tolerance else current.value
    sigma = residual_sigma(regression, value)
    weighted = current.factors.scaled(current.weights)
    distance = float(np.linalg.norm(R @ (target - free)) / np.sqrt(len(start)))
    status = _status(
        subject + _constraint_text(distance, tolerance), done, moved, np.inf if known else tolerance, stopped
    )
    together = _blocks_together(regression, memory)
    estimate = completed(
        method, regression, value, R, 1.0 / sigma**2, sigma, 1.0, None, status, weighted, together
    )
    away = np.outer(target - free, target - free)
    return replace(
        estimate,
        covariance=estimate.covariance + away,
        textbook_covariance=estimate.textbook_covariance + away,
    )


def _blocks_together(regression: Regression, memory: float) -> int:
    # Number of neighbouring blocks within the memory, if enough runs remain.
    blocks = regression.factors.blocks
    length = float(np.median([block.length for block in blocks]))
    wanted = int(np.ceil(memory / length)) if length > 0 else 1
    return max(min(wanted, len(blocks) // LEAST_RUNS), 1)


def _line_search(
    regression: Regression, problem: Problem, current: _Linear, step: Float, longest: float
) -> _Linear | str:
    # The first of the step and its halves that lowers the cost; a text if none does, "" at a minimum. The step is
    # `longest` tolerances long; a half below the tolerance would end the search, so it is not tried.
    wrong = ""
    for halving in range(HALVINGS):
        if halving and longest / 2**halving < 1.0:
            break
        try:
            trial = _Linear.at(regression, problem, current.value + step / 2**halving)
        except SolverError as error:
            wrong = tried(error)
            continue
        if trial.cost(current.weights) < current.cost(current.weights):
            return trial
    return wrong


def _constraint_text(distance: float, tolerance: float) -> str:
    if distance < tolerance:
        return ""
    return (
        f", kept where the mass matrix is positive definite, {distance:.2g} standard deviations from the "
        "unconstrained fit"
    )


def _status(subject: str, rounds: int, moved: float, tolerance: float, stopped: str | None) -> Status:
    text = f"{subject}, {rounds} Gauss-Newton rounds"
    if moved < tolerance:
        return Status(True, text)
    if stopped == "" and moved < NEAR:
        return Status(True, f"{text}; no smaller step lowers the residual")
    text += f"; not converged: the last round moved the estimate by {moved:.2g} standard deviations"
    if stopped is not None:
        text += f"; {stopped or 'no smaller step lowers the residual'}"
    return Status(False, f"{text}; record a richer motion, give a better prior, raise rounds, or use 'didim'")


# Least samples of an open-loop segment, and greatest error relative to the motion if its duration is automatic.
SHORTEST, ASTRAY = 8, 0.1


@dataclass(frozen=True)
class CLOE(ClosedLoopFit):
    """Closed-loop output error, min sum ||(q - q_s)_j / sigma_j||^2, with q_s simulated under the feedback of `DIDIM`.

    Gauss-Newton with the exact linearisation of the simulation, see simulate.sensitivity. With elastic joints the
    motion of the motors is compared too. Options kp, kd and bandwidth are those of `DIDIM`.

    References
    ----------
    Ljung 1999, ch. 13; Brunot et al. 2018 for robots.

    """

    name: str = "cloe"

    def fit(self, regression: Regression) -> Estimate:
        """Fit from a start on smoothed motion.

        Raises UsageError if there are only factors, SolverError if no parameters near the data can be simulated.
        """
        simulation, start, feedback = self.opened(regression, self.name)
        problem = closed_loop(simulation, feedback, of_torque=False)
        subject = f"positions under {simulation.bandwidth:.2g} Hz feedback"
        return minimised(
            self,
            regression,
            problem,
            simulation.simulable.nearest,
            start,
            self.rounds,
            self.tolerance,
            subject,
        )


@dataclass(frozen=True)
class CLIE(ClosedLoopFit):
    """Closed-loop input error, min sum ||(tau - u)_j / sigma_j||^2, with the torque u under the feedback of `DIDIM`.

    tau - u = -kp (q - q_s) - kd (dq - dq_s): positions and velocities (of the motors if joints are elastic) have the
    weights of the controller. Torque shows a spring only through the motion of the link, so the interval of its
    stiffness is several times as wide as with deflections.

    References
    ----------
    Brunot, Janot, Young and Carrillo 2018.

    """

    name: str = "clie"

    def fit(self, regression: Regression) -> Estimate:
        """Fit from a start on smoothed motion; raises as `DIDIM` does."""
        simulation, start, feedback = self.opened(regression, self.name)
        problem = closed_loop(simulation, feedback, of_torque=True)
        subject = f"torque under {simulation.bandwidth:.2g} Hz feedback"
        return minimised(
            self,
            regression,
            problem,
            simulation.simulable.nearest,
            start,
            self.rounds,
            self.tolerance,
            subject,
        )


@dataclass(frozen=True)
class OE:
    """Open-loop output error by multiple shooting, with q_s driven by the measured torque over segments of time.

    Every segment has its own initial state, which is eliminated exactly from each linearised round, so that errors do
    not accumulate beyond a segment. Errors are weighted as the torque that causes them: M(q) (q - q_s) / sigma, with M
    and each joint's sigma at the initial parameters.

    Parameters
    ----------
    horizon : float, s, optional
        Duration of a segment; None = a quarter of the period of the motion's highest frequency, 0.1 to 1 s, halved
        until the first parameters predict the motion of every joint to a tenth of its size.
    rounds : int
        Greatest number of rounds.
    tolerance : float
        Move of the estimate at which iteration stops, in standard deviations.
    intervals : str
        Method of the covariance, see dynid.estimate.uncertainty.Intervals.

    Raises
    ------
    UsageError
        For a horizon that is not positive.

    References
    ----------
    Bock 1983 (multiple shooting); Golub and Pereyra 1973 (elimination).

    """

    horizon: float | None = option(None, "oe: duration of each simulated segment", unit="s", above=0)
    rounds: int = most_rounds(15)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    name: str = "oe"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Fit from a start on smoothed motion; raises as `CLOE` does."""
        require_enough(regression)
        simulation = SimulationProblem.of(regression, self.name, None)
        start = simulation.start()
        shooting = _Shooting.of(simulation, start, self.horizon)
        problem = Problem(("all joints",), shooting.linear)
        subject = f"open loop over segments of {shooting.length / simulation.rate:.2g} s"
        return minimised(
            self,
            regression,
            problem,
            simulation.simulable.nearest,
            simulation.start(),
            self.rounds,
            self.tolerance,
            subject,
        )


def closed_loop(simulation: SimulationProblem, feedback: Feedback, of_torque: bool) -> Problem:
    """Residuals of position or torque under feedback, with their derivatives, after the filters of the equations.

    `simulation`: samples and model; `feedback`: feedback on the measured motion; `of_torque`: residuals of torque
    instead of position.
    """
    robot = simulation.source.robot
    probe = simulation.mechanism(np.zeros(simulation.regression.base.rank))
    names = robot.joint_names
    if not of_torque:
        names = names + tuple(f"{robot.joint_names[j]} motor" for j in simulation.second)
    columns = tuple(np.array(simulation.regression.base.independent) for _ in names)
    place = probe.driven

    def residual_lines(samples: Samples, simulated: Run) -> Float:
        if of_torque:
            return np.asarray(samples.tau - simulated.u)
        return measured_coordinates(probe, samples)[0] - simulated.x

    output = Output(place, -feedback.kp, -feedback.kd) if of_torque else Output.positions(probe.size)

    def linear(value: Float) -> Iterator[Piece]:
        mechanism = simulation.mechanism(value)
        for samples in simulation.coarse:
            stretches = simulation.stretches(samples)
            simulated = run(mechanism, samples, feedback, stretches)
            extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
            change = sensitivity(
                mechanism, simulated, extra, feedback, samples.rate, simulation.wanted, False, output
            )
            slope = stretches.gathered(change)
            gathered = Run(
                *(stretches.gathered(part) for part in (simulated.x, simulated.v, simulated.a, simulated.u))
            )
            e = residual_lines(samples, gathered)
            yield piece_of_run(simulation, samples, columns, slope, e + slope @ value)

    return Problem(names, linear)


def piece_of_run(
    simulation: SimulationProblem,
    samples: Samples,
    columns: tuple[np.ndarray, ...],
    slope: Float,
    target: Float,
) -> Piece:
    """Derivatives and target of a batch as equations, with the filter and decimation of the log.

    `columns`: indices of the parameters by group; `slope` (T, g, w): derivatives; `target` (T, g).
    """
    parallel = simulation.parallel
    panels, times = [], np.zeros(0)
    for g in range(target.shape[1]):
        panel = np.concatenate([slope[:, g].T, target[None, :, g]])
        kept, times = parallel.apply(np.ascontiguousarray(panel), samples)
        panels.append(np.ascontiguousarray(kept))
    return Piece(samples.segment, (times,) * len(panels), columns, tuple(panels))


@dataclass(frozen=True, eq=False)
class _Shooting:
    """Segments of samples with free initial states: the equations of all joints of a segment are coupled.

    length: samples of a segment.    first: (b,) parameters whose mass matrix M weights the errors. scale: (s,) root
    mean square of M e with them. Unless encoders are coarse, errors come from torque, and equal torque moves a light
    joint, or a folded arm, further than a heavy one.
    """

    simulation: SimulationProblem
    length: int
    first: Float
    scale: Float

    @staticmethod
    def of(simulation: SimulationProblem, start: Float, horizon: float | None) -> _Shooting:
        """Segments of `horizon` seconds; None = the longest over which the first parameters predict the motion.

        Raises UsageError for a horizon with fewer samples than an initial state needs.
        """
        seconds = horizon
        if seconds is None:
            seconds = float(np.clip(0.25 / max(simulation.source.reach, 0.1), 0.1, 1.0))
        length = round(seconds * simulation.rate)
        if horizon is not None and length < SHORTEST:
            raise UsageError(
                "horizon",
                found=f"horizon = {horizon} s, {length} samples at {simulation.rate:.4g} Hz",
                expected=f"at least {SHORTEST} samples, {SHORTEST / simulation.rate:.2g} s",
                do="give a longer horizon, or leave it out",
            )
        length = max(length, SHORTEST)
        while True:
            error, size, scale = _prediction_errors(simulation, start, length)
            if horizon is not None or length // 2 < SHORTEST or (error < ASTRAY * size).all():
                return _Shooting(simulation, length, start, scale)
            length //= 2

    def linear(self, value: Float) -> Iterator[Piece]:
        """Equations at a value, with initial states eliminated."""
        simulation, mechanism = self.simulation, self.simulation.mechanism(value)
        columns = (np.array(simulation.regression.base.independent),)
        free = Feedback.none(mechanism.n)
        for samples in simulation.coarse:
            stretches = Stretches.of(len(samples), self.length, 0)
            simulated = run(mechanism, samples, free, stretches)
            extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
            change = sensitivity(
                mechanism,
                simulated,
                extra,
                free,
                samples.rate,
                simulation.wanted,
                True,
                Output.positions(mechanism.size),
            )
            x = measured_coordinates(mechanism, samples)[0][stretches.index]
            weight = _middle_mass_matrices(simulation.mechanism(self.first), x, extra) / self.scale[:, None]
            weighted = np.einsum("bij,bkj->bki", weight, x - simulated.x)
            yield self._without_initial_states(
                samples, stretches, columns, weight[:, None] @ change, weighted, value
            )

    def _without_initial_states(
        self,
        samples: Samples,
        stretches: Stretches,
        columns: tuple[np.ndarray, ...],
        change: Float,
        e: Float,
        value: Float,
    ) -> Piece:
        b = len(value)
        every = max(min(self.simulation.parallel.decimation, self.length // SHORTEST), 1)
        lines, times = [], []
        for i in range(len(e)):
            kept = np.arange(0, min(stretches.length, stretches.count - i * stretches.length), every)
            kept = kept[samples.keep[stretches.index[i, kept]]]
            if len(kept) < 4:
                continue
            S, r = change[i, kept].reshape(-1, change.shape[-1]), e[i, kept].ravel()
            Q = np.linalg.qr(S[:, b:])[0]
            panel = np.column_stack([S[:, :b], r + S[:, :b] @ value])
            panel = panel - Q @ (Q.T @ panel)
            lines.append(panel)
            times.append(np.repeat(samples.t[stretches.index[i, kept]], e.shape[-1]))
        width = len(columns[0]) + 1
        whole = np.concatenate([np.zeros((0, width)), *lines])
        t = np.concatenate([np.zeros(0), *times])
        return Piece(samples.segment, (t,), columns, (np.ascontiguousarray(whole.T),))


def _middle_mass_matrices(mechanism: Mechanism, x: Float, extra: Mapping[str, Float]) -> Float:
    # Mass matrices (B, s, s) in the middle of segments (B, K, s).
    middle = x.shape[1] // 2
    at = {name: np.ascontiguousarray(values[:, middle]) for name, values in extra.items()}
    posture = np.ascontiguousarray(x[:, middle])
    return mechanism.equations(posture, np.zeros_like(posture), at)[0]


def _prediction_errors(
    simulation: SimulationProblem, value: Float, length: int
) -> tuple[Float, Float, Float]:
    # By coordinate: root mean square error e of open-loop segments, size of the motion, and size of M e.
    mechanism = simulation.mechanism(value)
    errors, motion, weighted = [], [], []
    for samples in simulation.coarse:
        stretches = Stretches.of(len(samples), length, 0)
        measured = measured_coordinates(mechanism, samples)[0]
        motion.append(measured)
        x = measured[stretches.index]
        try:
            e = x - run(mechanism, samples, Feedback.none(mechanism.n), stretches).x
        except SolverError:
            return np.full(mechanism.size, np.inf), np.ones(mechanism.size), np.ones(mechanism.size)
        extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
        errors.append(stretches.gathered(e))
        weighted.append(
            stretches.gathered(np.einsum("bij,bkj->bki", _middle_mass_matrices(mechanism, x, extra), e))
        )
    size = np.std(np.concatenate(motion), axis=0)
    error, scale = (np.sqrt(np.mean(np.concatenate(z) ** 2, axis=0)) for z in (errors, weighted))
    return error, np.maximum(size, 1e-9), np.maximum(scale, 1e-12)
