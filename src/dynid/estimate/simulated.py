"""What methods share that run the model: the feedback that holds it to the log, a start, simulated samples."""

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

# Stiffness from deflection and transmitted torque, with an interval that is honest about errors in both.

SIGN_WIDTH = 0.01
DEFLECTION, TORQUE, DISTURBANCES = 1, 2, slice(3, None)
LEAST_BLOCKS = 3


@dataclass(frozen=True)
class StiffnessRange:
    """What deflection and torque say about one joint's stiffness, N m/rad (N/m).

    forward: torque regressed on deflection, too small where the deflection has errors.
    inverse: from deflection regressed on torque, too large where the torque has errors.
    value: their geometric mean.    lower, upper: 95 % interval of the whole range: forward less, inverse plus its own.
    explained: share of the torque's variance that the deflection explains, forward / inverse.
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
    # Per segment and block the products of [1, deflection, torque, disturbances], (n, k, k).
    segment: int
    products: Float


def stiffness_ranges(
    assembly: Assembly, joints: Iterable[int], batches: Iterable[Samples], theta: Float
) -> tuple[StiffnessRange, ...]:
    """Ranges of the stiffness of joints with two encoders.

    The transmitted torque is the measured one less what the model gives to the motor besides its springs. A zero of the
    encoders (by segment), hysteresis with the sign of the velocity, a lag of one encoder (with the velocity) and the
    eccentricity of a link encoder (sine and cosine of its angle) are taken out of both sides first. Of what is left
    both regressions are formed; with independent errors in both the truth lies between them (Frisch 1934), and the
    interval adds the block jackknife's to each end.

    theta: (p,) parameters of assembly.terms.    Raises UnfitDataError for a log with one encoder or too few blocks.
    """
    blocks = _blocks(assembly, batches, theta)
    if len(blocks) < LEAST_BLOCKS:
        raise UnfitDataError(
            "too-few-blocks", found=f"{len(blocks)} block(s) of data", expected=f"at least {LEAST_BLOCKS}"
        )
    return tuple(_range(assembly.robot.joint_names[j], [_of_joint(b, j) for b in blocks]) for j in joints)


def _of_joint(block: _Sums, joint: int) -> _Sums:
    return _Sums(block.segment, block.products[joint])


def _range(name: str, blocks: list[_Sums]) -> StiffnessRange:
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
    # Within segments, so that each has its own zero; then the disturbances are eliminated (Schur complement).
    by_segment: dict[int, Float] = {}
    for block in blocks:
        by_segment[block.segment] = by_segment.get(block.segment, 0.0) + block.products
    G = sum(S[1:, 1:] - np.outer(S[0, 1:], S[0, 1:]) / S[0, 0] for S in by_segment.values())
    size = np.sqrt(np.maximum(np.diag(G), 1e-300))
    G = G / np.outer(size, size)
    left = G[:2, :2] - G[:2, 2:] @ np.linalg.pinv(G[2:, 2:], rcond=1e-10) @ G[2:, :2]
    with np.errstate(divide="ignore", invalid="ignore"):
        forward, inverse = left[0, 1] / left[0, 0], left[1, 1] / left[0, 1]
    return float(forward * size[1] / size[0]), float(inverse * size[1] / size[0])


def _blocks(assembly: Assembly, batches: Iterable[Samples], theta: Float) -> list[_Sums]:
    found: dict[tuple[int, int], Float] = {}
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
            found[key] = found.get(key, 0.0) + part @ part.transpose(0, 2, 1)
    return [_Sums(segment, products) for (segment, _), products in found.items()]


def _lines(assembly: Assembly, samples: Samples, theta: Float) -> Float:
    # (n, k, T): one, deflection, transmitted torque, then sign, velocity, sine and cosine.
    motor = samples.motor
    drive = motor_torque(assembly, samples, theta)
    sign = np.tanh(motor.dq / SIGN_WIDTH)
    parts = (
        np.ones_like(samples.q), motor.q - samples.q, samples.tau - drive,
        sign, motor.dq, np.sin(samples.q), np.cos(samples.q),
    )  # fmt: skip
    return np.ascontiguousarray(np.stack(parts).transpose(2, 0, 1))


def motor_torque(assembly: Assembly, samples: Samples, theta: Float) -> Float:
    """What the model gives to the motors besides their springs, rotors and friction, (T, n).

    Rotor inertia is the description's where it is known: the one fitted with a poor stiffness makes up for it.
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


# Parameters that can be simulated: those whose mass matrix stays positive definite in the postures of a
# log.

# Of the mass matrix of the nearest consistent bodies, and of each coordinate's own inertia where those have little.
SHARE, LEAST_SHARE = 0.5, 1e-3
ROUNDS, CUTS = 60, 12
# Cuts aim a little above what is asked of an answer, or they would close in on it for ever.
ENOUGH = 0.9


@dataclass(frozen=True, eq=False)
class Simulable:
    """Base parameters beta with M(x; beta) >= F(x) in every posture: a convex set, since M is linear in beta.

    mechanism: the model of base parameters (b,).    x: (B, s) postures with their channels `extra`.
    wanted: (p,) mask of the base columns.    root: (B, s, s) inverse of the triangle L of F = L L'.
    least: (b,) what single parameters are at least: stiffness, friction.
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
        """The set whose floor F is half the mass matrix of consistent bodies with base parameters `real` (b,).

        first: (b,) parameters that give each coordinate a size of inertia where consistent bodies have next to none.
        Raises SolverError where a coordinate moves no inertia at all.
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
        """Least eigenvalue (B,) of L^-1 M L^-T, which must be one, and its vector v (B, s): v'M v is the eigenvalue."""
        M = self.mechanism(value).equations(self.x, np.zeros_like(self.x), self.extra)[0]
        with np.errstate(invalid="ignore", over="ignore"):
            whitened = self.root @ M @ np.swapaxes(self.root, 1, 2)
        if not np.isfinite(whitened).all():
            raise not_simulable()
        values, vectors = np.linalg.eigh(whitened)
        return values[:, 0], np.einsum("bji,bj->bi", self.root, vectors[:, :, 0])

    def nearest(self, value: Float, R: Float) -> Float:
        """The point of the set nearest to base parameters, min ||R (beta - value)||; the value itself within the set.

        R: (b, b) upper triangle of the equations that the value came from.
        Planes v'M(x; beta) v >= 1 of the worst postures are added until none is broken.
        Source: Lawson and Hanson 1974, ch. 23 (least distance); Kelley 1960 (cutting planes).
        Raises SolverError if no parameters of these equations are in the set.
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
        # Slopes (k, b) of v'M(x; beta) v over the parameters: torque for the acceleration v alone.
        x, extra = self.x[postures], {name: values[postures] for name, values in self.extra.items()}
        rest = np.zeros_like(x)
        mechanism = self.mechanism(np.zeros(int(self.wanted.sum())))
        moved, still = (mechanism.regressor(x, rest, a, extra, self.wanted) for a in (v, rest))
        return np.asarray(np.einsum("bs,bsw->bw", v, moved - still))


def least_distance(R: Float, G: Float, h: Float) -> Float:
    """Min ||R z|| under G z >= h, as non-negative least squares of the dual; raises SolverError if nothing fulfils it.

    R: (b, b) upper triangular.    G: (k, b).    h: (k,).
    """
    A = solve_triangular(R, G.T, transposed=True).T
    size = np.linalg.norm(A, axis=1)
    if not (np.isfinite(size).all() and size.min() > 0):
        raise not_simulable()
    A, h = A / size[:, None], h / size
    scale = max(float(np.abs(h).max()), 1e-300)
    target = np.concatenate([np.zeros(len(R)), [1.0]])
    dual, _ = nnls(np.concatenate([A.T, h[None] / scale]), target)
    left = np.concatenate([A.T, h[None] / scale]) @ dual - target
    if left[-1] > -1e-12:
        raise not_simulable()
    return np.asarray(solve_triangular(R, -scale * left[:-1] / left[-1]))


def not_simulable() -> SolverError:
    """The error of equations near which no mass matrix is positive definite."""
    return SolverError(
        "not-simulable",
        found="no parameters near the log's equations whose mass matrix is positive definite",
        expected="a model that can be simulated",
        do="give masses and inertias in the robot file where it has none, record a richer motion, or use 'wls'",
    )


ABOVE_MOTION = 4.0
SLOWEST, FASTEST = 2.0, 15.0
SETTLING = 8.0
STRETCHES, SHORTEST, LONGEST = 64, 0.15, 1.0
AFTER = 3
COARSE_RATE = 160.0
POSTURES = 200
# Of the motion's range: a simulated run leaves the measured one.
AROUND = 0.1
LEAST_SAMPLES = 16
STIFF = 0.5
# Of the torque, for parameters that can be simulated: where they miss more, the log is of another robot or sign.
UNEXPLAINED = 0.4
Gains = float | Sequence[float] | None


@dataclass(frozen=True, eq=False)
class SimulationProblem:
    """The samples of a regression's blocks, and the model that is run on them.

    measured: batches of samples.    second: joints with a coordinate of their motors.
    bandwidth: of the virtual feedback, Hz.    lag: (n,) s, by which velocities are behind their positions.
    """

    regression: Regression
    source: LogSource
    measured: tuple[Samples, ...]
    second: tuple[int, ...]
    bandwidth: float
    lag: Float

    @staticmethod
    def of(regression: Regression, method: str, bandwidth: float | None) -> SimulationProblem:
        """The problem of a regression; raises UsageError where there are factors alone."""
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
                found=f"bandwidth = {bandwidth:g} Hz, whose feedback has not settled by the end of the log",
                expected=f"at least {SETTLING / (2.0 * np.pi * longest):.2g} Hz, and above the motion's own reach, "
                f"{source.reach:.2g} Hz",
                do="raise bandwidth, or give none",
            )
        return SimulationProblem(regression, source, batches, second, bandwidth, lag_of(batches))

    @cached_property
    def batches(self) -> tuple[Samples, ...]:
        """The samples with positions that their velocities belong to, as those of a run do."""
        return tuple(replace(s, q=s.q - self.lag * s.dq) for s in self.measured)

    def mechanism(self, value: Float) -> Mechanism:
        """The model with base parameters (b,)."""
        theta = full_vector(self.regression, value)
        return Mechanism(self.source.robot, self.source.terms, theta, self.second)

    @cached_property
    def smooth(self) -> tuple[Samples, ...]:
        """The samples with their motion filtered at the bandwidth of the feedback, not below the motion's own reach."""
        cutoff = max(self.bandwidth, self.source.reach)
        return tuple(smoothed(samples, cutoff) for samples in self.measured)

    @property
    def wanted(self) -> Bool:
        """(p,) mask of the base columns."""
        return self.regression.base.mask

    def start(self) -> Float:
        """Base parameters (b,) to begin with: weighted least squares on smooth motion, or the nearest to simulate.

        Raises SolverError if none can be simulated, or those that can miss two fifths of the torque.
        """
        regression, first = self._smooth_fit
        found = self.simulable.nearest(first.value, solve(regression, first.weights)[1])
        weighted = list(zip(first.weights, regression.factors.total, strict=True))

        def missed(value: Float) -> float:
            theta = full_vector(regression, value)
            return float(sum(weight * factor.residual_square(theta) for weight, factor in weighted))

        size = sum(weight * factor.target_square for weight, factor in weighted)
        if missed(found) - missed(first.value) > UNEXPLAINED**2 * size:
            raise not_simulable()
        return found

    @cached_property
    def simulable(self) -> Simulable:
        """The base parameters that can be simulated in the log's postures; raises SolverError if there are none."""
        regression, first = self._smooth_fit
        real = FeasibleFit().around(regression, first).value
        x, extra = self._postures
        around = np.random.default_rng(0).normal(0.0, AROUND, x.shape) * np.ptp(x, axis=0)
        x = np.concatenate([x, x + around])
        extra = {name: np.concatenate([values, values]) for name, values in extra.items()}
        return Simulable.of(
            self.mechanism, x, extra, self.wanted, real, first.value, self._least(first.value)
        )

    def _least(self, first: Float) -> Float:
        # (b,) friction does not drive; springs are at least half as stiff as their deflections say.
        columns = [self.regression.columns[i] for i in self.regression.base.independent]
        alone = [c is Category.IDENTIFIABLE for c in self.regression.base.categories()]
        lower = np.array([c.lower for c in self.regression.columns])
        lower = np.where(alone, lower, -np.inf)[self.regression.base.independent]
        if self.second:
            theta = full_vector(self.regression, first)
            found = stiffness_ranges(self.source.assembly, self.second, self.measured, theta)
            soft = {j: STIFF * max(one.forward, 0.0) for j, one in zip(self.second, found, strict=True)}
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
        """(n,) mean inertia that each drive sees."""
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
        """The controller's gains where they are given, else those of a virtual, critically damped feedback."""
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
        """The model run on every coarse batch, (T, ...) each; raises SolverError where it cannot be followed."""
        mechanism = self.mechanism(value)

        def one(samples: Samples) -> Run:
            stretches = self.stretches(samples)
            found = run(mechanism, samples, feedback, stretches)
            return Run(*(stretches.gathered(part) for part in (found.x, found.v, found.a, found.u)))

        return list(ordered_map(one, self.coarse, self.source.threads))

    @property
    def rate(self) -> float:
        """Of the samples that are simulated, Hz."""
        return self.coarse[0].rate

    @property
    def stride(self) -> int:
        """Samples from one that is simulated to the next."""
        return max(1, int(self.batches[0].rate // COARSE_RATE))

    @cached_property
    def coarse(self) -> tuple[Samples, ...]:
        """The samples that are simulated: thinned out where there are more than a run needs."""
        return self.batches if self.stride == 1 else tuple(thinned(s, self.stride) for s in self.batches)

    @property
    def parallel(self) -> ParallelFilter:
        """The filter of the equations, for coarse samples."""
        own, stride = self.source.assembly.parallel, self.stride
        rate = own.rate / stride
        cutoff = None if own.cutoff is None or own.cutoff >= 0.4 * rate else own.cutoff
        return ParallelFilter(rate, cutoff, own.order, max(own.decimation // stride, 1))

    def stretches(self, samples: Samples) -> Stretches:
        """Stretches of a batch, each begun early enough for the feedback to settle."""
        settling = round(SETTLING / (2.0 * np.pi * self.bandwidth) * samples.rate)
        length = max(len(samples) // STRETCHES, round(SHORTEST * samples.rate), 8)
        longest = max(round(LONGEST * samples.rate), 8)
        return Stretches.of(len(samples), min(length, longest), settling, AFTER)

    def _fine(self, values: Float, samples: Samples) -> Float:
        # Coarse values (T, s) at the times of all samples; the ends, which filters leave out, are held.
        if self.stride == 1:
            return values
        start = -samples.first % self.stride
        fine = refined(values[None], self.stride)[0]
        after = len(samples) - start - len(fine)
        return np.concatenate([np.repeat(fine[:1], start, axis=0), fine, np.repeat(fine[-1:], after, axis=0)])

    def simulated(self, value: Float, feedback: Feedback) -> list[Samples]:
        """The samples with simulated in place of measured motion."""
        mechanism = self.mechanism(value)
        found = []
        for samples, one in zip(self.batches, self.runs(value, feedback), strict=True):
            x, v, a = (self._fine(part, samples) for part in (one.x, one.v, one.a))
            made = mechanism.samples(x, v, a, {})
            found.append(
                replace(
                    samples,
                    q=made.q + self.lag * made.dq,
                    dq=made.dq,
                    ddq=made.ddq,
                    theta=made.theta,
                    dtheta=made.dtheta,
                    ddtheta=made.ddtheta,
                )
            )
        return found


def thinned(samples: Samples, stride: int) -> Samples:
    """Every stride-th sample, counted from the segment's start, behind a filter for the lower rate."""
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
    """The parts of a batch that lie in some block, and as many samples around each as the filters need."""
    inside = places.of(samples.segment, samples.t) >= 0
    reach = np.convolve(inside, np.ones(2 * margin + 1), mode="same") > 0.5 if inside.any() else inside
    edges = np.flatnonzero(np.diff(np.concatenate([[False], reach, [False]]).astype(np.int8)))
    for a, b in edges.reshape(-1, 2):
        yield samples if b - a == len(samples) else samples.part(int(a), int(b))


def smoothed(samples: Samples, cutoff: float) -> Samples:
    """Samples whose positions are filtered once more at a cut-off in Hz, velocities and accelerations with them."""
    if cutoff >= 0.4 * samples.rate or len(samples) < LEAST_SAMPLES:
        return samples
    filtered = zero_phase_filter(cutoff, 4, samples.rate)

    def motion(q: Float, dq: Float) -> tuple[Float, Float, Float]:
        lines = filtered(np.ascontiguousarray(np.concatenate([q.T, dq.T])))
        n = q.shape[1]
        velocity = np.ascontiguousarray(lines[n:])
        return lines[:n].T, velocity.T, first_difference(velocity, samples.rate).T

    q, dq, ddq = motion(samples.q, samples.dq)
    found = replace(samples, q=q, dq=dq, ddq=ddq)
    if samples.theta is None or samples.dtheta is None:
        return found
    theta, dtheta, ddtheta = motion(samples.theta, samples.dtheta)
    return replace(found, theta=theta, dtheta=dtheta, ddtheta=ddtheta)


def lag_of(batches: Sequence[Samples]) -> Float:
    """By how much the links' velocities are behind their positions, (n,) s: <dq_j/dt - v_j, a_j> / <a_j, a_j>.

    A controller's logged velocity is often the backward difference of its positions, half a sample late or more, and
    torque goes with the velocity in its equations. A run that is compared with positions would miss them by that lag.
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
        None, "iv, didim, clie, cloe: of the virtual feedback", unit="Hz", above=0
    )
    kp: Gains = option(
        None,
        "iv, didim, clie, cloe: gain of the robot's own controller, one number or one a joint; with `kd`",
        unit="N m/rad or N/m",
        least=0,
    )
    kd: Gains = option(None, "the same for velocities", unit="N m s/rad or N s/m", least=0)
    rounds: int = most_rounds(12)
    tolerance: float = last_move(0.05)

    def __post_init__(self) -> None:
        check_options(self)
        if (self.kp is None) != (self.kd is None):
            raise UsageError("gains", found="one of kp and kd", expected="both of them, or neither")

    def opened(self, regression: Regression, method: str) -> tuple[SimulationProblem, Float, Feedback]:
        """Simulations of the data, start of the search (b,), and the feedback that simulations run under.

        Raises UsageError where there are factors alone, SolverError if nothing near the data can be simulated.
        """
        require_enough(regression)
        simulation = SimulationProblem.of(regression, method, self.bandwidth)
        start = simulation.start()
        return simulation, start, simulation.feedback(start, self.kp, self.kd)


@dataclass(frozen=True)
class ClosedLoopFit(ClosedLoop):
    """The same for estimators that end with a least-squares fit, whose covariance may be found in several ways."""

    intervals: str = interval_kind()


def tried(error: DynidError) -> str:
    """What stopped a simulation and what to try, for the text of a status."""
    return f"{error.found}; {error.do or 'record a richer motion, lower the cut-off, or use ' + repr('wls')}"


def _require_efforts(source: LogSource, method: str) -> None:
    # A simulated robot is driven by all joints' torques.
    seen = [np.ones(s.n, dtype=np.bool_) if s.measured is None else s.measured for s in source.batches]
    ever = np.any(seen, axis=0)
    names = [f"'{joint}'" for joint, one in zip(source.robot.joint_names, ever, strict=True) if not one]
    if not names:
        return
    raise UsageError(
        "no-effort",
        found=f"'{method}' on a log without the effort of {', '.join(names)}",
        expected="the effort of every joint: the method simulates the robot, which all torques drive",
        do="choose 'wls', 'irls' or the default, which leave out the equation of such a joint",
    )
