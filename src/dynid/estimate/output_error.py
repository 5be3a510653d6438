"""Output error: parameters with which the simulated motion is the measured one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float
from dynid.errors import UsageError
from dynid.estimate.estimator import Estimate, Piece, Regression, check_iteration, require_enough
from dynid.estimate.gauss_newton import Problem, minimised
from dynid.estimate.simulated import Bench, ClosedLoopFit
from dynid.estimate.uncertainty import Intervals, check_intervals
from dynid.signals.samples import Samples
from dynid.simulate.loop import Feedback, Run, Stretches, extra_of, measured_coordinates, run
from dynid.simulate.sensitivity import Sensitivity, sensitivity


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
        bench, start, feedback = self.opened(regression, self.name)
        problem = closed_loop(bench, feedback, of_torque=False)
        what = f"positions under {bench.bandwidth:.2g} Hz feedback"
        return minimised(self, regression, problem, start, self.rounds, self.tolerance, what)


@dataclass(frozen=True)
class CLIE(ClosedLoopFit):
    """Closed-loop input error: min sum ||(tau - u)_j / sigma_j||^2, u the torque under the feedback of `DIDIM`.

    tau - u = -kp (q - q_s) - kd (dq - dq_s): positions and velocities weighed as the controller does, those of the
    motors where joints are elastic. Torque tells a spring only by the motion that it leaves to the link: its interval
    is several times as wide as where deflections are compared.
    Source: Brunot, Janot, Young and Carrillo 2018.
    """

    name: str = "clie"

    def fit(self, regression: Regression) -> Estimate:
        """Fits from a start on smoothed motion; raises as `DIDIM` does."""
        bench, start, feedback = self.opened(regression, self.name)
        problem = closed_loop(bench, feedback, of_torque=True)
        what = f"torque under {bench.bandwidth:.2g} Hz feedback"
        return minimised(self, regression, problem, start, self.rounds, self.tolerance, what)


@dataclass(frozen=True)
class OE:
    """Open-loop output error by multiple shooting: q_s driven by the measured torque alone, over stretches of time.

    Every stretch of `horizon` seconds has a first state of its own, which is eliminated exactly from each linearised
    round, so that errors do not add up beyond it.    sigma_j: of each joint's positions.
    horizon: s; None = a quarter of the period of the motion's highest frequency, 0.1 to 1 s.
    Source: Bock 1983 (multiple shooting); Golub and Pereyra 1973 (elimination).

    Raises UsageError for a horizon that is not positive.
    """

    horizon: float | None = None
    rounds: int = 15
    tolerance: float = 0.05
    intervals: str = Intervals.JACKKNIFE.value
    name: str = "oe"

    def __post_init__(self) -> None:
        check_intervals(self.intervals)
        check_iteration(self.rounds, self.tolerance)
        if self.horizon is not None and not self.horizon > 0:
            raise UsageError("horizon", found=f"horizon = {self.horizon}", expected="a time > 0 in s")

    def fit(self, regression: Regression) -> Estimate:
        """Fits from a start on smoothed motion; raises as `CLOE` does."""
        require_enough(regression)
        bench = Bench.of(regression, self.name, None)
        horizon = self.horizon
        if horizon is None:
            horizon = float(np.clip(0.25 / max(bench.source.reach, 0.1), 0.1, 1.0))
        problem = Problem(("all joints",), _Shooting(bench, horizon).linear)
        what = f"open loop over stretches of {horizon:.2g} s"
        return minimised(self, regression, problem, bench.start(), self.rounds, self.tolerance, what)


def closed_loop(bench: Bench, feedback: Feedback, of_torque: bool) -> Problem:
    """Residuals of position or of torque under feedback, with their slopes, after the filters of the equations."""
    robot = bench.source.robot
    probe = bench.mechanism(np.zeros(bench.regression.base.rank))
    names = robot.joint_names
    if not of_torque:
        names = names + tuple(f"{robot.joint_names[j]} motor" for j in bench.second)
    columns = tuple(np.array(bench.regression.base.independent) for _ in names)
    place = probe.driven

    def residual_lines(samples: Samples, one: Run) -> Float:
        if of_torque:
            return np.asarray(samples.tau - one.u)
        return measured_coordinates(probe, samples)[0] - one.x

    def slopes(one: Sensitivity) -> Float:
        if not of_torque:
            return one.x
        return -feedback.kp[:, None] * one.x[:, :, place] - feedback.kd[:, None] * one.v[:, :, place]

    def linear(value: Float) -> Iterator[Piece]:
        mechanism = bench.mechanism(value)
        for samples in bench.coarse:
            stretches = bench.stretches(samples)
            found = run(mechanism, samples, feedback, stretches)
            extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
            change = sensitivity(mechanism, found, extra, feedback, samples.rate, bench.wanted, False)
            slope = stretches.gathered(slopes(change))
            own = Run(*(stretches.gathered(part) for part in (found.x, found.v, found.a, found.u)))
            e = residual_lines(samples, own)
            yield _piece(bench, samples, columns, slope, e + slope @ value)

    return Problem(names, linear)


def _piece(
    bench: Bench, samples: Samples, columns: tuple[np.ndarray, ...], slope: Float, target: Float
) -> Piece:
    # slope (T, g, w), target (T, g): lines by group, filtered and thinned as the equations are.
    parallel = bench.parallel
    panels, times = [], np.zeros(0)
    for g in range(target.shape[1]):
        panel = np.concatenate([slope[:, g].T, target[None, :, g]])
        kept, times = parallel.apply(np.ascontiguousarray(panel), samples)
        panels.append(np.ascontiguousarray(kept))
    return Piece(samples.segment, (times,) * len(panels), columns, tuple(panels))


@dataclass(frozen=True, eq=False)
class _Shooting:
    """Stretches of samples with free first states: equations of all joints of a stretch are tied together."""

    bench: Bench
    horizon: float

    def linear(self, value: Float) -> Iterator[Piece]:
        """Equations at a value, first states eliminated."""
        bench, mechanism = self.bench, self.bench.mechanism(value)
        columns = (np.array(bench.regression.base.independent),)
        free = Feedback.none(mechanism.n)
        for samples in bench.coarse:
            length = max(round(self.horizon * samples.rate), 8)
            stretches = Stretches.of(len(samples), length, 0)
            found = run(mechanism, samples, free, stretches)
            extra = {k: v[stretches.index] for k, v in extra_of(mechanism, samples).items()}
            change = sensitivity(mechanism, found, extra, free, samples.rate, bench.wanted, True).x
            e = measured_coordinates(mechanism, samples)[0][stretches.index] - found.x
            yield self._projected(samples, stretches, columns, change, e, value)

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
        every = self.bench.parallel.decimation
        lines, times, scale = [], [], self.scale
        for i in range(len(e)):
            own = np.arange(0, min(stretches.length, stretches.count - i * stretches.length), every)
            own = own[samples.keep[stretches.index[i, own]]]
            if len(own) < 4:
                continue
            S = (change[i, own] / scale[:, None]).reshape(-1, change.shape[-1])
            r = (e[i, own] / scale).ravel()
            Q = np.linalg.qr(S[:, b:])[0]
            panel = np.column_stack([S[:, :b], r + S[:, :b] @ value])
            panel = panel - Q @ (Q.T @ panel)
            lines.append(panel)
            times.append(np.repeat(samples.t[stretches.index[i, own]], e.shape[-1]))
        width = len(columns[0]) + 1
        whole = np.concatenate([np.zeros((0, width)), *lines])
        t = np.concatenate([np.zeros(0), *times])
        return Piece(samples.segment, (t,), columns, (np.ascontiguousarray(whole.T),))

    @property
    def scale(self) -> Float:
        """(s,) size of each coordinate's motion, so that joints and slides count alike."""
        probe = self.bench.mechanism(np.zeros(self.bench.regression.base.rank))
        x = np.concatenate([measured_coordinates(probe, s)[0] for s in self.bench.batches])
        return np.asarray(np.maximum(np.std(x, axis=0), 1e-9))
