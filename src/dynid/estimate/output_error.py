"""Output error: parameters with which the simulated motion is the measured one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import SolverError, UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Piece, Regression, require_enough
from dynid.estimate.gauss_newton import Problem, minimised
from dynid.estimate.options import interval_kind, last_move, most_rounds
from dynid.estimate.simulated import ClosedLoopFit, SimulationProblem
from dynid.signals.samples import Samples
from dynid.simulation.loop import Feedback, Run, Stretches, extra_of, measured_coordinates, run
from dynid.simulation.mechanism import Mechanism
from dynid.simulation.sensitivity import Output, sensitivity

# Samples of an open-loop stretch at least, and its error at most, of the motion's size, if dynid chooses its length.
SHORTEST, ASTRAY = 8, 0.1


@dataclass(frozen=True)
class CLOE(ClosedLoopFit):
    """Closed-loop output error: min sum ||(q - q_s)_j / sigma_j||^2, q_s simulated under the feedback of `DIDIM`.

    kp, kd, bandwidth: as in `DIDIM`.    Gauss-Newton with the run's exact linearisation, see simulate.sensitivity.
    With elastic joints the motors' motion is compared as well.
    Source: Ljung 1999, ch. 13; Brunot et al. 2018 for robots.
    """

    name: str = "cloe"

    def fit(self, regression: Regression) -> Estimate:
        """Fits from a start on smoothed motion.

        Raises UsageError where there are factors alone, SolverError if nothing near the data can be simulated.
        """
        simulation, start, feedback = self.opened(regression, self.name)
        problem = closed_loop(simulation, feedback, of_torque=False)
        what = f"positions under {simulation.bandwidth:.2g} Hz feedback"
        return minimised(
            self, regression, problem, simulation.simulable.nearest, start, self.rounds, self.tolerance, what
        )


@dataclass(frozen=True)
class CLIE(ClosedLoopFit):
    """Closed-loop input error: min sum ||(tau - u)_j / sigma_j||^2, u the torque under the feedback of `DIDIM`.

    tau - u = -kp (q - q_s) - kd (dq - dq_s): positions and velocities weighed as the controller does, those of the
    motors where joints are elastic. Torque shows a spring only by the motion that it leaves to the link: its interval
    is several times as wide as where deflections are compared.
    Source: Brunot, Janot, Young and Carrillo 2018.
    """

    name: str = "clie"

    def fit(self, regression: Regression) -> Estimate:
        """Fits from a start on smoothed motion; raises as `DIDIM` does."""
        simulation, start, feedback = self.opened(regression, self.name)
        problem = closed_loop(simulation, feedback, of_torque=True)
        what = f"torque under {simulation.bandwidth:.2g} Hz feedback"
        return minimised(
            self, regression, problem, simulation.simulable.nearest, start, self.rounds, self.tolerance, what
        )


@dataclass(frozen=True)
class OE:
    """Open-loop output error by multiple shooting: q_s driven by the measured torque alone, over stretches of time.

    Every stretch of `horizon` seconds has a first state of its own, which is eliminated exactly from each linearised
    round, so that errors do not add up beyond it. Errors weigh as the torque
    that makes them: M(q) (q - q_s) / sigma, M and each joint's sigma being those of the first parameters.
    horizon: s; None = a quarter of the period of the motion's highest frequency, 0.1 to 1 s, halved until the first
    parameters foretell every joint's motion to a tenth of its size.
    Source: Bock 1983 (multiple shooting); Golub and Pereyra 1973 (elimination).

    Raises UsageError for a horizon that is not positive.
    """

    horizon: float | None = option(None, "oe: length of the stretches that are simulated", unit="s", above=0)
    rounds: int = most_rounds(15)
    tolerance: float = last_move(0.05)
    intervals: str = interval_kind()
    name: str = "oe"

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Fits from a start on smoothed motion; raises as `CLOE` does."""
        require_enough(regression)
        simulation = SimulationProblem.of(regression, self.name, None)
        start = simulation.start()
        shooting = _Shooting.of(simulation, start, self.horizon)
        problem = Problem(("all joints",), shooting.linear)
        what = f"open loop over stretches of {shooting.length / simulation.rate:.2g} s"
        return minimised(
            self,
            regression,
            problem,
            simulation.simulable.nearest,
            simulation.start(),
            self.rounds,
            self.tolerance,
            what,
        )


def closed_loop(simulation: SimulationProblem, feedback: Feedback, of_torque: bool) -> Problem:
    """Residuals of position or of torque under feedback, with their slopes, after the filters of the equations."""
    robot = simulation.source.robot
    probe = simulation.mechanism(np.zeros(simulation.regression.base.rank))
    names = robot.joint_names
    if not of_torque:
        names = names + tuple(f"{robot.joint_names[j]} motor" for j in simulation.second)
    columns = tuple(np.array(simulation.regression.base.independent) for _ in names)
    place = probe.driven

    def residual_lines(samples: Samples, one: Run) -> Float:
        if of_torque:
            return np.asarray(samples.tau - one.u)
        return measured_coordinates(probe, samples)[0] - one.x

    output = Output(place, -feedback.kp, -feedback.kd) if of_torque else Output.positions(probe.size)

    def linear(value: Float) -> Iterator[Piece]:
        mechanism = simulation.mechanism(value)
        for samples in simulation.coarse:
            stretches = simulation.stretches(samples)
            found = run(mechanism, samples, feedback, stretches)
            extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
            change = sensitivity(
                mechanism, found, extra, feedback, samples.rate, simulation.wanted, False, output
            )
            slope = stretches.gathered(change)
            own = Run(*(stretches.gathered(part) for part in (found.x, found.v, found.a, found.u)))
            e = residual_lines(samples, own)
            yield piece_of_run(simulation, samples, columns, slope, e + slope @ value)

    return Problem(names, linear)


def piece_of_run(
    simulation: SimulationProblem,
    samples: Samples,
    columns: tuple[np.ndarray, ...],
    slope: Float,
    target: Float,
) -> Piece:
    """Slopes (T, g, w) and target (T, g) of a batch: lines by group, filtered and thinned as the equations are."""
    parallel = simulation.parallel
    panels, times = [], np.zeros(0)
    for g in range(target.shape[1]):
        panel = np.concatenate([slope[:, g].T, target[None, :, g]])
        kept, times = parallel.apply(np.ascontiguousarray(panel), samples)
        panels.append(np.ascontiguousarray(kept))
    return Piece(samples.segment, (times,) * len(panels), columns, tuple(panels))


@dataclass(frozen=True, eq=False)
class _Shooting:
    """Stretches of samples with free first states: equations of all joints of a stretch are tied together.

    length: samples of a stretch.    first: (b,) parameters whose mass matrix M weighs the errors.
    scale: (s,) root mean square of M e with them: what was missed was torque, unless encoders are coarse, and equal
    torque moves a light joint, or a folded arm, further than a heavy one.
    """

    simulation: SimulationProblem
    length: int
    first: Float
    scale: Float

    @staticmethod
    def of(simulation: SimulationProblem, start: Float, horizon: float | None) -> _Shooting:
        """Stretches of `horizon` seconds; None = the longest over which the first parameters foretell the motion.

        Raises UsageError for a horizon of fewer samples than a first state needs.
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
                do="give a longer horizon, or none",
            )
        length = max(length, SHORTEST)
        while True:
            error, size, scale = _predicted(simulation, start, length)
            if horizon is not None or length // 2 < SHORTEST or (error < ASTRAY * size).all():
                return _Shooting(simulation, length, start, scale)
            length //= 2

    def linear(self, value: Float) -> Iterator[Piece]:
        """Equations at a value, first states eliminated."""
        simulation, mechanism = self.simulation, self.simulation.mechanism(value)
        columns = (np.array(simulation.regression.base.independent),)
        free = Feedback.none(mechanism.n)
        for samples in simulation.coarse:
            stretches = Stretches.of(len(samples), self.length, 0)
            found = run(mechanism, samples, free, stretches)
            extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
            change = sensitivity(
                mechanism,
                found,
                extra,
                free,
                samples.rate,
                simulation.wanted,
                True,
                Output.positions(mechanism.size),
            )
            x = measured_coordinates(mechanism, samples)[0][stretches.index]
            weight = _weights(simulation.mechanism(self.first), x, extra) / self.scale[:, None]
            weighted = np.einsum("bij,bkj->bki", weight, x - found.x)
            yield self._projected(samples, stretches, columns, weight[:, None] @ change, weighted, value)

    def _projected(
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
            own = np.arange(0, min(stretches.length, stretches.count - i * stretches.length), every)
            own = own[samples.keep[stretches.index[i, own]]]
            if len(own) < 4:
                continue
            S, r = change[i, own].reshape(-1, change.shape[-1]), e[i, own].ravel()
            Q = np.linalg.qr(S[:, b:])[0]
            panel = np.column_stack([S[:, :b], r + S[:, :b] @ value])
            panel = panel - Q @ (Q.T @ panel)
            lines.append(panel)
            times.append(np.repeat(samples.t[stretches.index[i, own]], e.shape[-1]))
        width = len(columns[0]) + 1
        whole = np.concatenate([np.zeros((0, width)), *lines])
        t = np.concatenate([np.zeros(0), *times])
        return Piece(samples.segment, (t,), columns, (np.ascontiguousarray(whole.T),))


def _weights(mechanism: Mechanism, x: Float, extra: Mapping[str, Float]) -> Float:
    # Mass matrices (B, s, s) in the middle of stretches (B, K, s).
    middle = x.shape[1] // 2
    at = {name: np.ascontiguousarray(values[:, middle]) for name, values in extra.items()}
    posture = np.ascontiguousarray(x[:, middle])
    return mechanism.equations(posture, np.zeros_like(posture), at)[0]


def _predicted(simulation: SimulationProblem, value: Float, length: int) -> tuple[Float, Float, Float]:
    # By coordinate: root mean square e of what open-loop runs of so many samples miss, the motion's size, and M e.
    mechanism = simulation.mechanism(value)
    missed, motion, weighted = [], [], []
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
        missed.append(stretches.gathered(e))
        weighted.append(stretches.gathered(np.einsum("bij,bkj->bki", _weights(mechanism, x, extra), e)))
    size = np.std(np.concatenate(motion), axis=0)
    error, scale = (np.sqrt(np.mean(np.concatenate(z) ** 2, axis=0)) for z in (missed, weighted))
    return error, np.maximum(size, 1e-9), np.maximum(scale, 1e-12)
