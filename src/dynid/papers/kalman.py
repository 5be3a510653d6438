"""Kalman filters as estimators of a whole log: passes over its blocks, repeated until the parameters converge."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import pairwise
from typing import ClassVar

import numpy as np

from dynid.base import Float, UnfitDataError, UsageError, check_options, dataclass, option
from dynid.estimate import (
    FILTERS,
    WLS,
    BaseDynamics,
    BlockScores,
    Estimate,
    JointFilter,
    KalmanNoise,
    Places,
    Regression,
    SimulationProblem,
    Status,
    covariance_of,
    diverged,
    encoder_noise,
    interval_kind,
    last_move,
    most_rounds,
    require_enough,
    residual_sigma,
    seconds_a_step,
)
from dynid.kernel import solve_triangular
from dynid.signals import Samples
from dynid.simulation import measured_coordinates, measured_motion

# Least number of samples in a row: fewer inform about little more than their initial state.
SHORTEST = 8
# Passes if only the value is needed: the second one starts at the result of the first.
VALUE_ROUNDS = 2
# Least noise relative to positions and torque: integration steps are not more accurate.
LEAST_POSITION, LEAST_TORQUE = 1e-7, 1e-5
# Uncertainty of initial speeds relative to their r.m.s.
SLOW = 0.02


@dataclass(frozen=True)
class KalmanFit:
    """A Kalman filter for state and parameters z = (x, v, beta), run over all blocks of a log until beta converges.

    x are the positions of the joints and, behind springs, of their motors. Torque drives the model, and positions
    correct it; nothing is differentiated. Every block starts with its own state, so that P^-1 of the parameters grows
    by the information H_m of each block, and P^-1 beta by H_m beta_m: intervals come from the blocks as in least
    squares. A pass starts at the parameters of the last one, with a spread of `width` times the textbook one of
    weighted least squares. The start of the last pass does not count as information.

    Parameters
    ----------
    position_noise : float or sequence of float, optional, rad or m
        Standard deviation of the encoder noise, one number or one per joint; measured in the log without it.
    width : float
        Spread at the start of each pass, in textbook standard deviations of weighted least squares.
    rounds : int
        Maximum number of passes.
    tolerance : float
        Last change of the estimate between passes, in standard deviations.
    intervals : str
        Kind of confidence intervals.
    longest : float, min
        Time that all passes may take on one core, estimated from the number of steps, whatever the machine.

    Raises
    ------
    UsageError
        For a width or noise that is not positive, or no round.

    """

    position_noise: float | Sequence[float] | None = encoder_noise()
    width: float = option(
        10.0,
        "ekf, ukf, cdkf: spread at the start of each pass, in textbook standard deviations of wls; 10 without it",
        above=0,
    )
    rounds: int = most_rounds(8)
    tolerance: float = last_move(0.1)
    intervals: str = interval_kind()
    longest: float = option(
        10.0,
        "ekf, ukf, cdkf: most minutes for all passes of a fit, estimated from their steps; 10 without it",
        unit="min",
        above=0,
    )
    name: str = ""

    kind: ClassVar[str] = ""

    def __post_init__(self) -> None:
        check_options(self)

    def fit(self, regression: Regression) -> Estimate:
        """Run passes until the parameters converge.

        Raises UsageError if there are only factors, without samples, or the log is too long for `longest`; SolverError
        if the model cannot be simulated; UnfitDataError if blocks are shorter than a filter needs.
        """
        require_enough(regression)
        simulation = SimulationProblem.of(regression, self.name, None)
        rounds = min(self.rounds, VALUE_ROUNDS) if regression.value_only else self.rounds
        self._require_short_run(simulation, rounds)
        value = simulation.start()
        run = _Passes(simulation, self.position_noise, value)
        spread = self.width**2 * run.first_covariance
        done, moved = 0, np.inf
        while done < rounds and not moved < self.tolerance:
            done += 1
            try:
                result = run.over(FILTERS[self.kind], value, spread)
            except np.linalg.LinAlgError as error:
                raise diverged(f"singular matrices ({error})") from error
            step, value = result.value - value, result.value
            moved = float(np.sqrt(step @ result.total @ step / len(value)))
        text = f"{done} passes, squared innovations {result.consistency:.2g} times what noise explains"
        if not moved < self.tolerance:
            text += (
                f"; the estimate still moves by {moved:.2g} standard deviations per pass: raise rounds, "
                "give position_noise, or use 'didim'"
            )
        return self._estimate(regression, result, Status(bool(moved < self.tolerance), text))

    def _require_short_run(self, simulation: SimulationProblem, rounds: int) -> None:
        run = _Passes(simulation, self.position_noise, np.zeros(simulation.regression.base.rank))
        model, steps = run.model, run.steps
        points = FILTERS[self.kind].points(2 * model.size + model.count)
        minutes = rounds * steps * seconds_a_step(FILTERS[self.kind], model) / 60.0
        if minutes > self.longest:
            share = max(self.longest / minutes, 0.01)
            raise UsageError(
                "too-long",
                found=f"about {minutes:.2g} min for '{self.name}' ({steps} steps of {points} points, up to {rounds} "
                "passes), and as long again for held-out blocks",
                expected=f"at most {self.longest:g} min",
                do=f"set train = [{{ part = [0.0, {share:.2g}] }}] under [data], or longest = "
                f"{np.ceil(1.1 * minutes):g} under [estimate]; 'wls' and 'iv' take seconds",
            )

    def _estimate(self, regression: Regression, result: PassResult, status: Status) -> Estimate:
        base, value = regression.base, result.value
        size = np.sqrt(np.diag(result.total))
        L = np.linalg.cholesky(result.total / np.outer(size, size))
        inverse = solve_triangular(L, np.eye(len(value)), lower=True).T / size[:, None]
        information = inverse.T @ result.information @ inverse
        segment = np.array([block.segment for block in regression.factors.blocks], dtype=np.int64)
        blocks = BlockScores(inverse, information, result.score @ inverse, segment)
        independent = blocks.grouped(regression.factors.independent())
        sigma = residual_sigma(regression, value)
        return Estimate(
            method=self.name,
            columns=regression.columns,
            base=base,
            group_names=regression.factors.group_names,
            value=value,
            covariance=covariance_of(self.intervals, independent),
            textbook_covariance=inverse @ inverse.T,
            degrees_of_freedom=float(independent.count - 1),
            sigma=sigma,
            weights=1.0 / sigma**2,
            parameters=base.lift(value, regression.prior, regression.spread),
            block_leverage=np.maximum(blocks.leverage(), 0.0),
            count=regression.factors.count,
            status=status,
        )


@dataclass(frozen=True)
class EKF(KalmanFit):
    """Extended Kalman filter, see `KalmanFit` and dynid.estimate.kalman.ExtendedKalman.

    References
    ----------
    Gautier and Poignet 2001.

    """

    name: str = "ekf"
    kind: ClassVar[str] = "ekf"


@dataclass(frozen=True)
class UKF(KalmanFit):
    """Unscented Kalman filter, see `KalmanFit` and dynid.estimate.kalman.UnscentedKalman.

    References
    ----------
    Julier and Uhlmann 2004.

    """

    name: str = "ukf"
    kind: ClassVar[str] = "ukf"


@dataclass(frozen=True)
class CDKF(KalmanFit):
    """Central-difference Kalman filter, see `KalmanFit` and dynid.estimate.kalman.CentralDifferenceKalman.

    References
    ----------
    Norgaard, Poulsen and Ravn 2000.

    """

    name: str = "cdkf"
    kind: ClassVar[str] = "cdkf"


@dataclass(frozen=True, eq=False)
class PassResult:
    """Result of a pass: value (b,), and at that value information (M, b, b) and score (M, b) of each block.

    consistency: mean square of normalised innovations.
    """

    value: Float
    information: Float
    score: Float
    consistency: float

    @property
    def total(self) -> Float:
        """(b, b) information of all blocks."""
        return np.asarray(self.information.sum(axis=0))


@dataclass(frozen=True, eq=False)
class _Passes:
    """Passes of a filter over the samples.    start: parameters (b,) at which torque noise is measured."""

    simulation: SimulationProblem
    position_noise: float | Sequence[float] | None
    start: Float

    @cached_property
    def model(self) -> BaseDynamics:
        source = self.simulation.source
        return BaseDynamics(
            source.robot, source.terms, self.simulation.regression.base, self.simulation.second
        )

    @cached_property
    def noise(self) -> KalmanNoise:
        """White noise at the rate of the steps that is as strong at low frequencies as the noise of the log."""
        simulation, source, frame = self.simulation, self.simulation.source, self.model.frame
        rate, places = simulation.coarse[0].rate, Places(simulation.regression.factors.blocks)
        inside = [places.of(s.segment, s.t) >= 0 for s in simulation.coarse]
        x = np.concatenate(
            [measured_motion(frame, s)[0][mask] for s, mask in zip(simulation.coarse, inside, strict=True)]
        )
        tau = np.concatenate([s.tau[mask] for s, mask in zip(simulation.coarse, inside, strict=True)])
        known, position = source.noise(self.position_noise), np.zeros(frame.size)
        if known is not None:
            motor = known.position if known.motor_position is None else known.motor_position
            level = np.concatenate([known.position, motor[list(frame.second)]])
            position = level * np.sqrt(rate / known.rate)
        mechanism, parallel = simulation.mechanism(self.start), source.assembly.parallel
        left = []
        for samples in simulation.smooth:
            x_v_a = measured_motion(frame, samples)
            error = mechanism.on_coordinates(samples.tau) - mechanism.force(*x_v_a, {})
            kept, t = parallel.apply(np.ascontiguousarray(error.T), samples)
            left.append(kept[:, places.of(samples.segment, t) >= 0])
        cutoff = parallel.cutoff or 0.5 * rate
        force = np.sqrt(np.mean(np.concatenate(left, axis=1) ** 2, axis=1) * max(0.5 * rate / cutoff, 1.0))
        size = np.sqrt(np.mean(tau**2, axis=0))
        return KalmanNoise(
            np.maximum(force, LEAST_TORQUE * np.concatenate([size, size[list(frame.second)]])),
            np.maximum(position, LEAST_POSITION * x.std(axis=0)),
        )

    @property
    def first_covariance(self) -> Float:
        """(b, b) textbook covariance of weighted least squares, with at least the noise that the filter assumes."""
        least_squares = WLS().fit(self.simulation.regression)
        size = np.sqrt([f.target_square / max(f.count, 1) for f in self.simulation.regression.factors.total])
        floor = float(np.max(LEAST_TORQUE * size / least_squares.sigma))
        return np.asarray(least_squares.textbook_covariance * max(floor, 1.0) ** 2)

    def over(self, kind: type[JointFilter], value: Float, spread: Float) -> PassResult:
        """Run one pass from parameters (b,) with a covariance (b, b)."""
        s, b = self.model.size, len(value)
        M = len(self.simulation.regression.factors.blocks)
        size = np.sqrt(np.diag(spread))
        whole = np.zeros((2 * s + b,) * 2)
        whole[2 * s :, 2 * s :] = spread
        joint = kind(self.model, np.concatenate([np.zeros(2 * s), value]), whole, self.noise)
        information, pull = np.zeros((M, b, b)), np.zeros((M, b))
        before = _information_form(joint, size)
        progress = self.simulation.source.progress
        for m, part in self._runs():
            x, v = measured_coordinates(self.model.frame, part)
            _begin_stretch(joint, x, v, part.rate)
            joint.follow(np.stack([part.tau[:-1], part.tau[1:]], axis=1), x[1:], 1.0 / part.rate)
            if progress is not None:
                progress("a pass of the filter", len(part) / part.rate)
            after = _information_form(joint, size)
            information[m] += after[0] - before[0]
            pull[m] += after[1] - before[1]
            before = after
        if not joint.innovation:
            raise UnfitDataError(
                "too-short",
                found="no block with enough consecutive samples",
                expected=f"at least {SHORTEST} samples in a row",
                do="record a longer motion, or use 'wls'",
            )
        # The start of the pass is the end of the last one, so it is not counted as information.
        if not np.linalg.eigvalsh(information.sum(axis=0) * np.outer(size, size))[0] > 0:
            raise UnfitDataError(
                "uninformed",
                found="a combination of parameters that no block determines",
                expected="a motion that moves every joint",
                do="record a richer motion, or use 'ridge'",
            )
        new = np.array(joint.value)
        return PassResult(new, information, pull - information @ new, float(np.mean(joint.innovation)) / s)

    @property
    def steps(self) -> int:
        """Number of steps of a pass."""
        return sum(len(part) - 1 for _, part in self._runs())

    def _runs(self) -> Iterator[tuple[int, Samples]]:
        places = Places(self.simulation.regression.factors.blocks)
        for samples in self.simulation.coarse:
            label = np.where(samples.keep, places.of(samples.segment, samples.t), -1)
            edges = [0, *(np.flatnonzero(np.diff(label)) + 1).tolist(), len(label)]
            for a, b in pairwise(edges):
                if label[a] >= 0 and b - a >= SHORTEST:
                    yield int(label[a]), samples.part(a, b)


def _begin_stretch(joint: JointFilter, x: Float, v: Float, rate: float) -> None:
    # Each stretch starts with its own state; only parameters carry over.
    known, P = 2 * joint.model.size, joint.covariance
    position = np.broadcast_to(joint.noise.position, (joint.model.size,))
    speed = SLOW * np.sqrt(np.mean(v**2, axis=0)) + position * rate
    joint.mean[:known] = np.concatenate([x[0], v[0]])
    P[:known], P[:, :known] = 0.0, 0.0
    P[:known, :known] = np.diag(np.concatenate([position, speed]) ** 2)


def _information_form(joint: JointFilter, size: Float) -> tuple[Float, Float]:
    # Information form: P^-1 and P^-1 beta of the parameters.
    scale = np.outer(size, size)
    inverse = np.linalg.inv(joint.parameter_covariance / scale) / scale
    inverse = 0.5 * (inverse + inverse.T)
    return inverse, inverse @ joint.value
