"""Common parts of methods that simulate the model: feedback to the log, start, simulated samples."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import DynidError, SolverError, UnfitDataError, UsageError
from dynid.base.numerics import nnls, student_quantile
from dynid.base.options import check_options, option
from dynid.base.parallel import ordered_map
from dynid.base.records import dataclass
from dynid.estimate.estimator import Estimate, Regression, require_enough
from dynid.estimate.feasible import FeasibleFit
from dynid.estimate.least_squares import WLS, full_vector, solve
from dynid.estimate.source import LogSource, Places, factors_of_pieces, log_source, one_a_joint
from dynid.estimate.uncertainty import interval_kind, last_move, most_rounds
from dynid.factor.assemble import Assembly
from dynid.factor.base import Category
from dynid.kernel import solve_triangular
from dynid.rows.rows import two_encoders
from dynid.signals.filter import first_difference, zero_phase_filter
from dynid.signals.parallel import ParallelFilter
from dynid.signals.samples import Samples
from dynid.simulation.loop import Feedback, Run, Stretches, extra_of, measured_coordinates, refined, run
from dynid.simulation.mechanism import Mechanism
from dynid.terms.elastic import SpringTerm, is_stiffness
from dynid.terms.exports import Kind

# Stiffness from deflection and torque, with an interval that includes errors in both.

# rad/s (m/s): width of the smoothed sign of hysteresis.
SIGN_WIDTH = 0.01
DEFLECTION, TORQUE, DISTURBANCES = 1, 2, slice(3, None)
# Fewer blocks give no jackknife interval.
LEAST_BLOCKS = 3


@dataclass(frozen=True)
class StiffnessRange:
    """Stiffness of one joint from its deflection and torque, N m/rad (N/m).

    Attributes
    ----------
    joint : str
        Joint.
    forward : float
        From torque regressed on deflection, too small if the deflection has errors.
    inverse : float
        From deflection regressed on torque, too large if the torque has errors.
    value : float
        Their geometric mean.
    lower, upper : float
        95 % interval of the range: forward minus, and inverse plus, its own interval.
    explained : float
        Share of the variance of the torque that the deflection explains, forward / inverse.

    """

    joint: str
    forward: float
    inverse: float
    value: float
    lower: float
    upper: float
    explained: float


@dataclass(frozen=True, eq=False)
class _Sums:
    # Products of [1, deflection, torque, disturbances] by segment and block, (n, k, k).
    segment: int
    products: Float


def stiffness_ranges(
    assembly: Assembly, joints: Iterable[int], batches: Iterable[Samples], theta: Float
) -> tuple[StiffnessRange, ...]:
    """Ranges of the stiffness of joints with two encoders.

    The transmitted torque is the measured torque minus the model's torque on the motor without springs. Encoder zeros
    (per segment), hysteresis with the sign of the velocity, a lag of one encoder (with the velocity) and the
    eccentricity of a link encoder (sine and cosine of its angle) are removed from both sides first. Both regressions
    are then computed. With independent errors in both variables the truth lies between them (Frisch 1934), and the
    interval adds that of the block jackknife to each end.

    Parameters
    ----------
    assembly : Assembly
        Robot, terms and filter.
    joints : iterable of int
        Joints with two encoders.
    batches : iterable of Samples
        Prepared log.
    theta : ndarray, shape (p,)
        Parameters of assembly.terms.

    Returns
    -------
    tuple of StiffnessRange
        One per joint.

    Raises
    ------
    UnfitDataError
        For a log with one encoder, or too few blocks.

    """
    blocks = _blocks(assembly, batches, theta)
    if len(blocks) < LEAST_BLOCKS:
        raise UnfitDataError(
            "too-few-blocks", found=f"{len(blocks)} block(s) of data", expected=f"at least {LEAST_BLOCKS}"
        )
    return tuple(
        _stiffness_range(assembly.robot.joint_names[j], [_of_joint(b, j) for b in blocks]) for j in joints
    )


def _of_joint(block: _Sums, joint: int) -> _Sums:
    return _Sums(block.segment, block.products[joint])


def _stiffness_range(name: str, blocks: list[_Sums]) -> StiffnessRange:
    forward, inverse = _slopes(blocks)
    M = len(blocks)
    without = np.array([_slopes(blocks[:m] + blocks[m + 1 :]) for m in range(M)])
    std = np.sqrt((M - 1) / M * ((without - without.mean(axis=0)) ** 2).sum(axis=0))
    half = float(student_quantile(M - 1, 0.975)) * std
    sign = 1.0 if forward >= 0 else -1.0
    return StiffnessRange(
        joint=name,
        forward=forward,
        inverse=inverse,
        value=sign * float(np.sqrt(forward * inverse)),
        lower=min(forward, inverse) - float(half[0 if forward <= inverse else 1]),
        upper=max(forward, inverse) + float(half[1 if forward <= inverse else 0]),
        explained=forward / inverse,
    )


def _slopes(blocks: list[_Sums]) -> tuple[float, float]:
    # Within segments, so that each has its own zero; then disturbances are eliminated (Schur complement).
    by_segment: dict[int, Float] = {}
    for block in blocks:
        by_segment[block.segment] = by_segment.get(block.segment, 0.0) + block.products
    G = sum(S[1:, 1:] - np.outer(S[0, 1:], S[0, 1:]) / S[0, 0] for S in by_segment.values())
    size = np.sqrt(np.maximum(np.diag(G), 1e-300))
    G = G / np.outer(size, size)
    reduced = G[:2, :2] - G[:2, 2:] @ np.linalg.pinv(G[2:, 2:], rcond=1e-10) @ G[2:, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        forward, inverse = reduced[0, 1] / reduced[0, 0], reduced[1, 1] / reduced[0, 1]
    return float(forward * size[1] / size[0]), float(inverse * size[1] / size[0])


def _blocks(assembly: Assembly, batches: Iterable[Samples], theta: Float) -> list[_Sums]:
    sums: dict[tuple[int, int], Float] = {}
    for samples in batches:
        if samples.theta is None:
            raise UnfitDataError(
                "one-encoder", found="a log with one encoder a joint", expected="motor and link positions"
            )
        lines = _lines(assembly, samples, theta)
        n, k, T = lines.shape
        kept, _ = assembly.parallel.apply(lines.reshape(n * k, T), samples)
        rows = kept.reshape(n, k, -1)
        cut = assembly.blocks.of(samples, assembly.parallel.kept(samples))
        rows = cut.arranged(rows)
        for number, (a, b) in zip(cut.numbers, pairwise(cut.edges.tolist()), strict=True):
            part = rows[..., a:b]
            key = (samples.segment, number)
            sums[key] = sums.get(key, 0.0) + part @ part.transpose(0, 2, 1)
    return [_Sums(segment, products) for (segment, _), products in sums.items()]


def _lines(assembly: Assembly, samples: Samples, theta: Float) -> Float:
    # Lines (n, k, T): one, deflection, transmitted torque, then sign, velocity, sine and cosine.
    motor = samples.motor
    drive = motor_torque(assembly, samples, theta)
    sign = np.tanh(motor.dq / SIGN_WIDTH)
    parts = (
        np.ones_like(samples.q), motor.q - samples.q, samples.tau - drive,
        sign, motor.dq, np.sin(samples.q), np.cos(samples.q),
    )  # fmt: skip
    return np.ascontiguousarray(np.stack(parts).transpose(2, 0, 1))


def motor_torque(assembly: Assembly, samples: Samples, theta: Float) -> Float:
    """Torque of the model on the motors without springs, (T, n).

    Rotor inertia is the prior's where it is known: a value fitted with an inaccurate stiffness would compensate for it.

    `assembly`: robot and terms; `theta` (p,): parameters. The result has shape (T, n), in N m (N).
    """
    robot, terms = assembly.robot, assembly.terms
    columns = terms.columns(robot)
    springs = {term.name for term in terms if isinstance(term, SpringTerm)}
    rotors = {term.name for term in terms if term.traits.kind is Kind.ROTORS}
    value = np.array(theta)
    for i, column in enumerate(columns):
        if column.term in rotors and np.isfinite(column.prior):
            value[i] = column.prior
    wanted = np.array([column.term not in springs for column in columns]) & (value != 0)
    panels = terms.motor_regressor(robot, samples, wanted)
    total = terms.known_motor_torque(robot, samples)
    for joint, (indices, lines) in enumerate(zip(panels.columns, panels.values, strict=True)):
        total[:, joint] += value[indices] @ lines
    return total


# Parameters that can be simulated: the mass matrix is positive definite in the postures of the log.

# Floor as a share of the mass matrix of the nearest consistent links, and of a coordinate's inertia if those have
# little.
SHARE, LEAST_SHARE = 0.5, 1e-3
ROUNDS, CUTS = 60, 12
# Eigenvalue accepted for an answer; cuts aim higher, or they would converge to it forever.
ENOUGH = 0.9


@dataclass(frozen=True, eq=False)
class Simulable:
    """Base parameters beta with M(x; beta) >= F(x) in every posture: a convex set, since M is linear in beta.

    Attributes
    ----------
    mechanism : callable
        Model of base parameters (b,).
    x : ndarray, shape (B, s)
        Postures.
    extra : mapping of str to ndarray
        Channels of the postures.
    wanted : ndarray of bool, shape (p,)
        Mask of the base columns.
    root : ndarray, shape (B, s, s)
        Inverse of the triangle L of F = L L'.
    least : ndarray, shape (b,)
        Lower bounds of single parameters: stiffness, friction.

    """

    mechanism: Callable[[Float], Mechanism]
    x: Float
    extra: Mapping[str, Float]
    wanted: Bool
    root: Float
    least: Float

    @staticmethod
    def of(
        mechanism: Callable[[Float], Mechanism],
        x: Float,
        extra: Mapping[str, Float],
        wanted: Bool,
        real: Float,
        first: Float,
        least: Float,
    ) -> Simulable:
        """Set whose floor F is half the mass matrix of consistent links.

        `mechanism`: model of base parameters (b,); `x` (B, s): postures; `extra`: channels of the postures; `wanted`
        (p,): mask of the base columns; `real` (b,): base parameters of consistent links; `first` (b,): parameters that
        give each coordinate a size of inertia if consistent links have almost none; `least` (b,): lower bounds of
        single parameters. Raises SolverError if a coordinate moves no inertia at all.
        """
        rest = np.zeros_like(x)
        M, other = (mechanism(value).equations(x, rest, extra)[0] for value in (real, first))
        size = np.diagonal(np.abs(M) + np.abs(other), axis1=1, axis2=2).mean(axis=0)
        if not (np.isfinite(size).all() and size.min() > 0):
            raise not_simulable()
        lowest = np.linalg.eigvalsh(M / np.sqrt(np.outer(size, size)))[:, 0]
        lift = np.maximum(LEAST_SHARE - lowest, 0.0) + LEAST_SHARE
        floor = SHARE * (M + lift[:, None, None] * np.diag(size))
        return Simulable(mechanism, x, extra, wanted, np.linalg.inv(np.linalg.cholesky(floor)), least)

    def shortfall(self, value: Float) -> tuple[Float, Float]:
        """Least eigenvalue (B,) of L^-1 M L^-T, which must be >= 1, and its vector v (B, s), v'M v = eigenvalue."""
        M = self.mechanism(value).equations(self.x, np.zeros_like(self.x), self.extra)[0]
        with np.errstate(invalid="ignore", over="ignore"):
            whitened = self.root @ M @ np.swapaxes(self.root, 1, 2)
        if not np.isfinite(whitened).all():
            raise not_simulable()
        values, vectors = np.linalg.eigh(whitened)
        return values[:, 0], np.einsum("bji,bj->bi", self.root, vectors[:, :, 0])

    def nearest(self, value: Float, R: Float) -> Float:
        """Point of the set nearest to base parameters, min ||R (beta - value)||; the value itself within the set.

        Planes v'M(x; beta) v >= 1 of the worst postures are added until none is violated.

        `value` (b,): base parameters; `R` (b, b): upper triangle of the equations that the value came from. The result
        has shape (b,). Raises SolverError if no parameters near these equations are in the set.

        References
        ----------
        Lawson and Hanson 1974, ch. 23 (least distance); Kelley 1960 (cutting planes).

        """
        bounded = np.isfinite(self.least)
        planes, levels = np.eye(len(value))[bounded], self.least[bounded]
        point = value
        if (value[bounded] < levels).any():
            point = value + least_distance(R, planes, levels - planes @ value)
        for _ in range(ROUNDS):
            least, v = self.shortfall(point)
            if least.min() >= ENOUGH:
                return point
            worst = np.argsort(least)[:CUTS]
            worst = worst[least[worst] < 1.0]
            new = self._planes(v[worst], worst)
            constant = least[worst] - new @ point
            planes, levels = np.concatenate([planes, new]), np.concatenate([levels, 1.0 - constant])
            point = value + least_distance(R, planes, levels - planes @ value)
        raise not_simulable()

    def _planes(self, v: Float, postures: Int) -> Float:
        # Derivatives (k, b) of v'M(x; beta) v by the parameters: torque of the acceleration v.
        x, extra = self.x[postures], {name: values[postures] for name, values in self.extra.items()}
        rest = np.zeros_like(x)
        mechanism = self.mechanism(np.zeros(int(self.wanted.sum())))
        moved, still = (mechanism.regressor(x, rest, a, extra, self.wanted) for a in (v, rest))
        return np.asarray(np.einsum("bs,bsw->bw", v, moved - still))


def least_distance(R: Float, G: Float, h: Float) -> Float:
    """Minimise ||R z|| under G z >= h, as non-negative least squares of the dual problem.

    `R` (b, b): upper triangle; `G` (k, b): normals; `h` (k,): levels. The result has shape (b,). Raises SolverError if
    no z fulfils the conditions.
    """
    A = solve_triangular(R, G.T, transposed=True).T
    size = np.linalg.norm(A, axis=1)
    if not (np.isfinite(size).all() and size.min() > 0):
        raise not_simulable()
    A, h = A / size[:, None], h / size
    scale = max(float(np.abs(h).max()), 1e-300)
    target = np.concatenate([np.zeros(len(R)), [1.0]])
    dual, _ = nnls(np.concatenate([A.T, h[None] / scale]), target)
    residual = np.concatenate([A.T, h[None] / scale]) @ dual - target
    if residual[-1] > -1e-12:
        raise not_simulable()
    return np.asarray(solve_triangular(R, -scale * residual[:-1] / residual[-1]))


def not_simulable() -> SolverError:
    """Error for equations without a positive definite mass matrix nearby."""
    return SolverError(
        "not-simulable",
        found="no parameters near the log's equations whose mass matrix is positive definite",
        expected="a model that can be simulated",
        do="add missing masses and inertias to the robot file, record a richer motion, or use 'wls'",
    )


# Bandwidth of the virtual feedback over the highest frequency of the motion.
ABOVE_MOTION = 4.0
# Hz: limits of that bandwidth.
SLOWEST, FASTEST = 2.0, 15.0
# Time constants after which the feedback has settled.
SETTLING = 8.0
# Number of parallel segments, and limits of their duration in s.
STRETCHES, SHORTEST, LONGEST = 64, 0.15, 1.0
# Samples after a segment that derivatives need.
AFTER = 3
# Hz: simulated samples need not be denser.
COARSE_RATE = 160.0
# Postures of the log in which the mass matrix is checked.
POSTURES = 200
# Random deviation of postures, as a share of the range of the motion, for simulations off the measurement.
AROUND = 0.1
LEAST_SAMPLES = 16
# Least stiffness as a share of that from deflections.
STIFF = 0.5
# Share of unexplained torque above which the log is of another robot or sign.
UNEXPLAINED = 0.4
Gains = float | Sequence[float] | None


@dataclass(frozen=True, eq=False)
class SimulationProblem:
    """Samples of a regression's blocks, and the model that is simulated on them.

    Attributes
    ----------
    regression : Regression
        Regression.
    source : LogSource
        Source of its equations.
    measured : tuple of Samples
        Batches of samples.
    second : tuple of int
        Joints with a coordinate for their motor.
    bandwidth : float, Hz
        Bandwidth of the virtual feedback.
    lag : ndarray, shape (n,), s
        Lag of velocities behind their positions.

    """

    regression: Regression
    source: LogSource
    measured: tuple[Samples, ...]
    second: tuple[int, ...]
    bandwidth: float
    lag: Float

    @staticmethod
    def of(regression: Regression, method: str, bandwidth: float | None) -> SimulationProblem:
        """Problem of a regression.

        Parameters
        ----------
        regression : Regression
            Regression with a LogSource.
        method : str
            Name of the method for messages.
        bandwidth : float, Hz, optional
            Bandwidth of the virtual feedback; None = chosen from the motion.

        Raises
        ------
        UsageError
            If there are only factors, effort of a joint is missing, or the feedback does not settle within the log.

        """
        source = log_source(regression, method)
        places = Places(regression.factors.blocks)
        _require_efforts(source, method)
        margin = source.assembly.parallel.settling
        batches = tuple(part for s in source.batches for part in parts_of_blocks(s, places, margin))
        source = source.with_batches(batches)
        chosen = bandwidth
        if chosen is None:
            chosen = float(np.clip(ABOVE_MOTION * source.reach, SLOWEST, FASTEST))
        second = two_encoders(source.assembly.rows, source.robot)
        bandwidth = min(chosen, 0.2 * batches[0].rate)
        longest = max(len(s) / s.rate for s in batches)
        if SETTLING / (2.0 * np.pi * bandwidth) > longest:
            raise UsageError(
                "bandwidth",
                found=f"bandwidth = {bandwidth:g} Hz, whose feedback does not settle within the log",
                expected=f"at least {SETTLING / (2.0 * np.pi * longest):.2g} Hz, and above the frequencies of the "
                f"motion, {source.reach:.2g} Hz",
                do="raise bandwidth, or leave it out",
            )
        return SimulationProblem(regression, source, batches, second, bandwidth, lag_of(batches))

    @cached_property
    def batches(self) -> tuple[Samples, ...]:
        """Samples whose positions match their velocities, as in a simulation."""
        return tuple(replace(s, q=s.q - self.lag * s.dq) for s in self.measured)

    def mechanism(self, value: Float) -> Mechanism:
        """Model with base parameters (b,)."""
        theta = full_vector(self.regression, value)
        return Mechanism(self.source.robot, self.source.terms, theta, self.second)

    @cached_property
    def smooth(self) -> tuple[Samples, ...]:
        """Samples with motion filtered at the bandwidth of the feedback, or higher for faster motion."""
        cutoff = max(self.bandwidth, self.source.reach)
        return tuple(smoothed(samples, cutoff) for samples in self.measured)

    @property
    def wanted(self) -> Bool:
        """Mask (p,) of the base columns."""
        return self.regression.base.mask

    def start(self) -> Float:
        """Base parameters (b,) to start from: weighted least squares on smooth motion, or the nearest ones to simulate.

        Raises SolverError if none can be simulated, or if those leave two fifths of the torque unexplained.
        """
        regression, first = self._smooth_fit
        nearest = self.simulable.nearest(first.value, solve(regression, first.weights)[1])
        weighted = list(zip(first.weights, regression.factors.total, strict=True))

        def missed(value: Float) -> float:
            theta = full_vector(regression, value)
            return float(sum(weight * factor.residual_square(theta) for weight, factor in weighted))

        size = sum(weight * factor.target_square for weight, factor in weighted)
        if missed(nearest) - missed(first.value) > UNEXPLAINED**2 * size:
            raise not_simulable()
        return nearest

    @cached_property
    def simulable(self) -> Simulable:
        """Base parameters that can be simulated in the postures of the log; raises SolverError if there are none."""
        regression, first = self._smooth_fit
        real = FeasibleFit().around(regression, first).value
        x, extra = self._postures
        around = np.random.default_rng(0).normal(0.0, AROUND, x.shape) * np.ptp(x, axis=0)
        x = np.concatenate([x, x + around])
        extra = {name: np.concatenate([values, values]) for name, values in extra.items()}
        return Simulable.of(
            self.mechanism, x, extra, self.wanted, real, first.value, self._lower_bounds(first.value)
        )

    def _lower_bounds(self, first: Float) -> Float:
        # Lower bounds (b,): friction is not negative, and springs have at least STIFF of the stiffness from
        # deflections.
        columns = [self.regression.columns[i] for i in self.regression.base.independent]
        alone = [c is Category.IDENTIFIABLE for c in self.regression.base.categories()]
        lower = np.array([c.lower for c in self.regression.columns])
        lower = np.where(alone, lower, -np.inf)[self.regression.base.independent]
        if self.second:
            theta = full_vector(self.regression, first)
            ranges = stiffness_ranges(self.source.assembly, self.second, self.measured, theta)
            soft = {
                j: STIFF * max(stiffness.forward, 0.0)
                for j, stiffness in zip(self.second, ranges, strict=True)
            }
            for i, column in enumerate(columns):
                if is_stiffness(column) and column.owner in soft:
                    lower[i] = max(lower[i], soft[column.owner])
        return lower

    @cached_property
    def _smooth_fit(self) -> tuple[Regression, Estimate]:
        regression = replace(self.regression, value_only=True)
        pieces = self.source.with_batches(self.smooth).pieces(self.wanted)
        smooth = replace(regression, factors=factors_of_pieces(regression, pieces))
        return smooth, WLS().fit(smooth)

    def inertia(self, value: Float) -> Float:
        """Mean inertia (n,) that each drive sees."""
        mechanism = self.mechanism(value)
        x, extra = self._postures
        M = mechanism.equations(x, np.zeros_like(x), extra)[0]
        return np.asarray(np.diagonal(M, axis1=1, axis2=2).mean(axis=0)[mechanism.driven])

    @cached_property
    def _postures(self) -> tuple[Float, dict[str, Float]]:
        mechanism = self.mechanism(np.zeros(self.regression.base.rank))
        total = sum(len(s) for s in self.batches)
        every = max(total // POSTURES, 1)
        x = np.concatenate([measured_coordinates(mechanism, s)[0][::every] for s in self.batches])
        parts = [extra_of(mechanism, s) for s in self.batches]
        extra = {name: np.concatenate([part[name][::every] for part in parts]) for name in parts[0]}
        return x, extra

    def feedback(self, value: Float, kp: Gains, kd: Gains) -> Feedback:
        """Gains of the controller if they are given, otherwise of a virtual, critically damped feedback.

        Parameters
        ----------
        value : ndarray, shape (b,)
            Base parameters.
        kp, kd : float, sequence of float or None, N m/rad and N m s/rad
            Gains of the controller.

        Returns
        -------
        Feedback
            Gains.

        """
        n = self.source.robot.n
        w = 2.0 * np.pi * self.bandwidth
        inertia = self.inertia(value)
        given = [
            None if gain is None else one_a_joint(name, gain, n) for name, gain in (("kp", kp), ("kd", kd))
        ]
        return Feedback(
            w**2 * inertia if given[0] is None else given[0],
            2.0 * w * inertia if given[1] is None else given[1],
        )

    def runs(self, value: Float, feedback: Feedback) -> list[Run]:
        """Simulation of every coarse batch, (T, ...) each; raises SolverError if it diverges."""
        mechanism = self.mechanism(value)

        def simulate(samples: Samples) -> Run:
            stretches = self.stretches(samples)
            simulated = run(mechanism, samples, feedback, stretches)
            return Run(
                *(stretches.gathered(part) for part in (simulated.x, simulated.v, simulated.a, simulated.u))
            )

        return list(ordered_map(simulate, self.coarse, self.source.threads))

    @property
    def rate(self) -> float:
        """Rate of the simulated samples, Hz."""
        return self.coarse[0].rate

    @property
    def stride(self) -> int:
        """Number of samples from one simulated sample to the next."""
        return max(1, int(self.batches[0].rate // COARSE_RATE))

    @cached_property
    def coarse(self) -> tuple[Samples, ...]:
        """Samples to simulate, decimated if there are more than needed."""
        return self.batches if self.stride == 1 else tuple(thinned(s, self.stride) for s in self.batches)

    @property
    def parallel(self) -> ParallelFilter:
        """Filter of the equations for coarse samples."""
        fitted, stride = self.source.assembly.parallel, self.stride
        rate = fitted.rate / stride
        cutoff = None if fitted.cutoff is None or fitted.cutoff >= 0.4 * rate else fitted.cutoff
        return ParallelFilter(rate, cutoff, fitted.order, max(fitted.decimation // stride, 1))

    def stretches(self, samples: Samples) -> Stretches:
        """Segments of a batch, each started early enough for the feedback to settle."""
        settling = round(SETTLING / (2.0 * np.pi * self.bandwidth) * samples.rate)
        length = max(len(samples) // STRETCHES, round(SHORTEST * samples.rate), 8)
        longest = max(round(LONGEST * samples.rate), 8)
        return Stretches.of(len(samples), min(length, longest), settling, AFTER)

    def _at_all_times(self, values: Float, samples: Samples) -> Float:
        # Coarse values (T, s) at the times of all samples, constant at the ends, which filters leave out.
        if self.stride == 1:
            return values
        start = -samples.first % self.stride
        fine = refined(values[None], self.stride)[0]
        after = len(samples) - start - len(fine)
        return np.concatenate([np.repeat(fine[:1], start, axis=0), fine, np.repeat(fine[-1:], after, axis=0)])

    def simulated(self, value: Float, feedback: Feedback) -> list[Samples]:
        """Samples with simulated instead of measured motion."""
        mechanism = self.mechanism(value)
        samples_simulated = []
        for samples, simulated in zip(self.batches, self.runs(value, feedback), strict=True):
            x, v, a = (self._at_all_times(part, samples) for part in (simulated.x, simulated.v, simulated.a))
            motion = mechanism.samples(x, v, a, {})
            samples_simulated.append(
                replace(
                    samples,
                    q=motion.q + self.lag * motion.dq,
                    dq=motion.dq,
                    ddq=motion.ddq,
                    theta=motion.theta,
                    dtheta=motion.dtheta,
                    ddtheta=motion.ddtheta,
                )
            )
        return samples_simulated


def thinned(samples: Samples, stride: int) -> Samples:
    """Every stride-th sample, counted from the start of the segment, after a low pass for the lower rate."""
    start = -samples.first % stride
    low_pass = zero_phase_filter(0.4 * samples.rate / stride, 6, samples.rate)

    def slow(values: Float) -> Float:
        lines = np.ascontiguousarray(values.T if values.ndim > 1 else values[None])
        kept = low_pass(lines, start, stride)
        return kept.T if values.ndim > 1 else kept[0]

    def slow_or_none(values: Float | None) -> Float | None:
        return None if values is None else slow(values)

    return replace(
        samples,
        t=samples.t[start::stride],
        q=slow(samples.q),
        dq=slow(samples.dq),
        ddq=slow(samples.ddq),
        tau=slow(samples.tau),
        keep=samples.keep[start::stride],
        theta=slow_or_none(samples.theta),
        dtheta=slow_or_none(samples.dtheta),
        ddtheta=slow_or_none(samples.ddtheta),
        temperature=slow_or_none(samples.temperature),
        gate=None if samples.gate is None else samples.gate[start::stride],
        extra={name: slow(values) for name, values in samples.extra.items()},
        rate=samples.rate / stride,
        span=stride / samples.rate if stride > 1 else samples.span,
        first=(samples.first + start) // stride,
    )


def parts_of_blocks(samples: Samples, places: Places, margin: int) -> Iterator[Samples]:
    """Parts of a batch that lie in some block, with the samples around them that the filters need."""
    inside = places.of(samples.segment, samples.t) >= 0
    reach = np.convolve(inside, np.ones(2 * margin + 1), mode="same") > 0.5 if inside.any() else inside
    edges = np.flatnonzero(np.diff(np.concatenate([[False], reach, [False]]).astype(np.int8)))
    for a, b in edges.reshape(-1, 2):
        yield samples if b - a == len(samples) else samples.part(int(a), int(b))


def smoothed(samples: Samples, cutoff: float) -> Samples:
    """Samples with motion filtered once more at a cutoff frequency in Hz."""
    if cutoff >= 0.4 * samples.rate or len(samples) < LEAST_SAMPLES:
        return samples
    filtered = zero_phase_filter(cutoff, 4, samples.rate)

    def motion(q: Float, dq: Float) -> tuple[Float, Float, Float]:
        lines = filtered(np.ascontiguousarray(np.concatenate([q.T, dq.T])))
        n = q.shape[1]
        velocity = np.ascontiguousarray(lines[n:])
        return lines[:n].T, velocity.T, first_difference(velocity, samples.rate).T

    q, dq, ddq = motion(samples.q, samples.dq)
    filtered_samples = replace(samples, q=q, dq=dq, ddq=ddq)
    if samples.theta is None or samples.dtheta is None:
        return filtered_samples
    theta, dtheta, ddtheta = motion(samples.theta, samples.dtheta)
    return replace(filtered_samples, theta=theta, dtheta=dtheta, ddtheta=ddtheta)


def lag_of(batches: Sequence[Samples]) -> Float:
    """Lag (n,) of the links' velocities behind their positions, s: <dq_j/dt - v_j, a_j> / <a_j, a_j>.

    Controllers often log the backward difference of positions as velocity, which lags by half a sample or more. The
    equations use that velocity, so a simulation that is compared with unshifted positions would be off by this lag.
    """
    across, along = np.zeros(batches[0].q.shape[1]), np.zeros(batches[0].q.shape[1])
    for samples in batches:
        if len(samples) >= LEAST_SAMPLES:
            change = first_difference(samples.q.T, samples.rate).T[2:-2] - samples.dq[2:-2]
            across += np.sum(change * samples.ddq[2:-2], axis=0)
            along += np.sum(samples.ddq[2:-2] ** 2, axis=0)
    return np.asarray(np.where(along > 0, across / np.where(along > 0, along, 1.0), 0.0))


@dataclass(frozen=True)
class ClosedLoop:
    """Options of estimators that simulate the robot under feedback on its measured motion, see `DIDIM`.

    Raises UsageError for a bandwidth that is not positive, negative gains, one gain without the other, or no round.
    """

    bandwidth: float | None = option(
        None, "iv, didim, clie, cloe: bandwidth of the virtual feedback", unit="Hz", above=0
    )
    kp: Gains = option(
        None,
        "iv, didim, clie, cloe: position gain of the robot's own controller, one number or one per joint; needs `kd`",
        unit="N m/rad or N/m",
        least=0,
    )
    kd: Gains = option(
        None,
        "iv, didim, clie, cloe: velocity gain of that controller; needs `kp`",
        unit="N m s/rad or N s/m",
        least=0,
    )
    rounds: int = most_rounds(12)
    tolerance: float = last_move(0.05)

    def __post_init__(self) -> None:
        check_options(self)
        if (self.kp is None) != (self.kd is None):
            raise UsageError("gains", found="one of kp and kd", expected="both of them, or neither")

    def opened(self, regression: Regression, method: str) -> tuple[SimulationProblem, Float, Feedback]:
        """Simulations of the data, start of the search (b,), and the feedback of the simulations.

        Raises UsageError if there are only factors, SolverError if no parameters near the data can be simulated.
        """
        require_enough(regression)
        simulation = SimulationProblem.of(regression, method, self.bandwidth)
        start = simulation.start()
        return simulation, start, simulation.feedback(start, self.kp, self.kd)


@dataclass(frozen=True)
class ClosedLoopFit(ClosedLoop):
    """The same for estimators that end with a least-squares fit, with a choice of the covariance."""

    intervals: str = interval_kind()


def tried(error: DynidError) -> str:
    """Why a simulation stopped and what to try, for the text of a status."""
    return f"{error.found}; {error.do or 'record a richer motion, lower the cutoff frequency, or use ' + repr('wls')}"


def _require_efforts(source: LogSource, method: str) -> None:
    # A simulation needs the torque of all joints.
    seen = [np.ones(s.n, dtype=np.bool_) if s.measured is None else s.measured for s in source.batches]
    ever = np.any(seen, axis=0)
    names = [
        f"'{joint}'" for joint, measured in zip(source.robot.joint_names, ever, strict=True) if not measured
    ]
    if not names:
        return
    raise UsageError(
        "no-effort",
        found=f"'{method}' on a log without the effort of {', '.join(names)}",
        expected="effort of every joint, since the method simulates the whole robot",
        do="use 'wls', 'irls' or the default, which skip joints without effort",
    )
