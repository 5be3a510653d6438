"""The optimiser: Latin hypercube starts, then sequential quadratic programming from the best of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from dynid.base import (
    Bool,
    Float,
    Int,
    UnfitDataError,
    UsageError,
    dataclass,
    latin_hypercube,
    locked,
    minimize,
)
from dynid.excitation.constraints import Margin, SmoothBounds, keeps, margins
from dynid.excitation.gradient import Layout, MotionGradient
from dynid.excitation.limits import Bounds
from dynid.factor import STRUCTURAL_TOLERANCE, BaseMap, base_of_matrix, random_states
from dynid.kernel import gathered_gram
from dynid.robot import RobotModel
from dynid.terms import Kind, Terms
from dynid.trajectories import Basis, SplineBasis

# How informative a motion is: criteria on the column-scaled base regressor, with their derivatives.

SMOOTHNESS = 8
# Degree of the power mean of variances: high enough that the least known parameter leads, low enough that all count.
LEADING = 4
# How much the condition number counts beside the mean deviation, and the degree of its power means. From 1.5 to 2 the
# condition number falls by 2 to 8 %, mean errors rise by 3 % at most and that of the least known parameter by 14 %; see
# benchmarks/excitation.py.
PROPORTION, SHARPNESS = 2.0, 32
_FLOOR = 1e-10
# Multiplications up to which OpenBLAS keeps a product on one thread (its GEMM_MULTITHREAD_THRESHOLD, 4 x 65536).
ONE_THREAD = 1 << 18
SQUARABLE = 1e-6


class Criterion(StrEnum):
    """What is minimised; W holds the rows in units of their noise, its columns scaled.

    BALANCED: -log det(W'W / T) / 2b, the deviations' geometric mean, plus PROPORTION times CONDITION.
    CONDITION: log of the condition number of W with columns of unit length.
    LOGDET: -log det(W'W / T), the volume of the estimates' ellipsoid (D).
    TRACE: log tr (W'W / T)^-1, the sum of the variances (A).
    LEAST: -log of the least eigenvalue of W'W / T, the worst direction (E).
    PRECISION: log of the greatest deviation of a parameter over what is asked of it, or over its size in torque.

    For the optimiser greatest and least values are replaced by power means, which bound them and are smooth where they
    cross; their degree is SMOOTHNESS (PRECISION: LEADING, BALANCED: SHARPNESS).
    """

    BALANCED = "balanced"
    CONDITION = "condition"
    LOGDET = "logdet"
    TRACE = "trace"
    LEAST = "least"
    PRECISION = "precision"


@dataclass(frozen=True, eq=False)
class Figures:
    """Exact figures of a motion: condition number of the unit-length columns, log det, log trace, log least value.

    precision: log of the greatest deviation of a parameter over what is asked.    balanced: see Criterion.
    """

    condition: float
    logdet: float
    trace: float
    least: float
    precision: float
    balanced: float

    def of(self, criterion: Criterion) -> float:
        """The figure behind a criterion, as it is minimised."""
        if criterion is Criterion.CONDITION:
            return float(np.log(self.condition))
        return {
            Criterion.LOGDET: -self.logdet,
            Criterion.TRACE: self.trace,
            Criterion.LEAST: -self.least,
            Criterion.PRECISION: self.precision,
            Criterion.BALANCED: self.balanced,
        }[criterion]


@dataclass(frozen=True, eq=False)
class Information:
    """A criterion for one robot and model.

    base: structural base parameters.    noise: (n,) expected deviation of the torque, N m (N); only ratios count
        unless something was recorded.
    focus: (k, b) combinations of the base parameters whose variance counts (TRACE alone); None = all.
    asked: (b,) deviations to which the base parameters are to be known (PRECISION alone); None = those of equal effect
        on torque in usual motion.
    recorded: (r, b) triangle of what was recorded already, rows in units of the noise; rate: Hz, how many
        independent rows a second of the new motion counts for beside it.
    """

    robot: RobotModel
    terms: Terms
    base: BaseMap
    noise: Float
    criterion: Criterion = Criterion.LOGDET
    focus: Float | None = None
    asked: Float | None = None
    recorded: Float | None = None
    rate: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "noise", locked(self.noise, (self.robot.n,), "noise"))
        if not (np.isfinite(self.noise) & (self.noise > 0)).all():
            raise UsageError(
                "noise", found=f"deviations {self.noise.tolist()}", expected="positive, finite ones"
            )
        b = self.base.rank
        for name in ("focus", "recorded"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, locked(getattr(self, name), (None, b), name))
        if self.asked is not None:
            object.__setattr__(self, "asked", locked(self.asked, (b,), "asked"))
            if not (np.isfinite(self.asked) & (self.asked > 0)).all():
                raise UsageError("precision", found="deviations of 0 asked", expected="positive, finite ones")

    def figures(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> Figures:
        """Exact figures of a motion (T, n) each."""
        R = self.triangle(q, dq, ddq, seconds)
        length = np.linalg.norm(R, axis=0)
        s = np.linalg.svd(R / np.where(length > 0, length, 1.0), compute_uv=False)
        _, singular, Vt = np.linalg.svd(R / self._scale)
        l = singular**2
        with np.errstate(divide="ignore"):
            condition = float(s[0] / s[-1]) if s[-1] > 0 else np.inf
            variance = self._share**2 * ((Vt.T / singular) ** 2).sum(axis=1)
            logdet = float(np.log(l).sum())
            return Figures(
                condition,
                logdet,
                float(np.log((1 / l).sum())),
                float(np.log(l[-1])),
                0.5 * float(np.log(variance.max())),
                float(PROPORTION * np.log(condition) - 0.5 * logdet / self.base.rank),
            )

    def triangle(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> Float:
        """R (b, b) with R'R = W'W / T, what was recorded included."""
        return self._triangle(*self._regressor(q, dq, ddq), seconds)

    def value(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> float:
        """The smooth criterion."""
        return self._smooth(*self._regressor(q, dq, ddq), seconds)[0]

    def gradient(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> tuple[float, Float]:
        """The smooth criterion and its derivatives (3, T, n) with respect to q, dq, ddq."""
        layout, lines = self._regressor(q, dq, ddq)
        value, F = self._smooth(layout, lines, seconds)
        weights = np.empty_like(lines)
        for pairs, own, weight in zip(
            _pairs(self.base, layout), layout.spans, self._weights(len(q), seconds), strict=True
        ):
            _product(F.take(pairs) * (2.0 * weight**2), lines[own], out=weights[own])
        return value, self.chain.of_lines(q, dq, ddq, layout, lines, weights)

    @cached_property
    def chain(self) -> MotionGradient:
        """The chain rule through the model."""
        return MotionGradient(self.robot, self.terms)

    def _regressor(self, q: Float, dq: Float, ddq: Float) -> tuple[Layout, Float]:
        return self.chain.regressor(q, dq, ddq, self._wanted)

    @cached_property
    def _wanted(self) -> Bool:
        return self.base.mask

    def _weights(self, T: int, seconds: float) -> Float:
        share = self.rate * seconds if self.recorded is not None else 1.0
        return np.asarray(np.sqrt(share / T) / self.noise)

    def _triangle(self, layout: Layout, lines: Float, seconds: float) -> Float:
        T = lines.shape[1]
        rows = [] if self.recorded is None else [np.asarray(self.recorded)]
        places = _places(self.base, layout)
        for own, weight in zip(layout.spans, self._weights(T, seconds), strict=True):
            W = np.zeros((T, self.base.rank))
            W[:, places[own]] = lines[own].T * weight
            rows.append(W)
        return np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))

    def _smooth(self, layout: Layout, lines: Float, seconds: float) -> tuple[float, Float]:
        # Value, and dvalue/dM for M = W'W / T. Squaring W costs digits, so it is done only where enough are left.
        weights, b = self._weights(lines.shape[1], seconds) ** 2, self.base.rank
        M = gathered_gram(lines, layout.ends, _places(self.base, layout), weights, b)
        if self.recorded is not None:
            M += self.recorded.T @ self.recorded
        D = self._lengths(np.sqrt(M.diagonal()))
        N = M / D / D[:, None]
        split = _split(N)
        if split is None:
            R = self._triangle(layout, lines, seconds)
            D = self._lengths(np.linalg.norm(R, axis=0))
            _, s, Vt = np.linalg.svd(R / D, full_matrices=False)
            s = np.maximum(s, _FLOOR * s[0])
            N, H = (Vt.T * s**2) @ Vt, Vt / s[:, None]
            split = H, H.T @ H, 2.0 * float(np.log(s).sum())
        value, F = self._spectral(N, *split)
        scaled = F / D / D[:, None]
        if self._unit_length:
            scaled -= np.diag((F * N).sum(axis=1) / D**2)
        if self.criterion is Criterion.BALANCED and self.focus is None:
            # The determinant counts the columns' own lengths, which N has lost.
            value -= float(np.log(D / self._scale).sum()) / b
            scaled -= np.diag(0.5 / (b * D**2))
        return value, scaled

    def _lengths(self, length: Float) -> Float:
        return np.maximum(length, 1e-150) if self._unit_length else self._scale

    @property
    def _unit_length(self) -> bool:
        return self.criterion in (Criterion.CONDITION, Criterion.BALANCED) and self.focus is None

    @cached_property
    def _scale(self) -> Float:
        scale = self.base.scale[self.base.independent]
        return np.where(scale > 0, scale, 1.0) / float(np.exp(np.log(self.noise).mean()))

    @cached_property
    def _share(self) -> Float:
        # What a unit of deviation of the scaled columns is of what is asked.
        return np.ones(self.base.rank) if self.asked is None else 1.0 / (self._scale * self.asked)

    def _spectral(self, N: Float, H: Float, K: Float, logdet: float) -> tuple[float, Float]:
        # The criterion and its derivative by N, the scaled information, N^-1 = K = H'H.
        if self.focus is not None:
            half = (self.focus / self._scale) @ H.T
            total = float(np.sum(half**2))
            S = half @ H
            return float(np.log(total)), -S.T @ S / total
        if self.criterion is Criterion.LOGDET:
            return -logdet, -K
        if self.criterion is Criterion.PRECISION:
            variance = self._share**2 * K.diagonal()
            top = float(variance.max())
            total = float(((variance / top) ** LEADING).sum())
            slope = self._share**2 * (variance / top) ** (LEADING - 1) / (top * total)
            return 0.5 * (np.log(top) + np.log(total) / LEADING), -0.5 * (K * slope) @ K
        if self.criterion is Criterion.BALANCED:
            value, F = _condition(N, K, SHARPNESS)
            b = len(N)
            return PROPORTION * value - 0.5 * logdet / b, PROPORTION * F - 0.5 * K / b
        if self.criterion is Criterion.CONDITION:
            return _condition(N, K, SMOOTHNESS)
        value, S = _power_mean(K, 1 if self.criterion is Criterion.TRACE else SMOOTHNESS)
        return value, -K @ S @ K


def _condition(N: Float, K: Float, degree: int) -> tuple[float, Float]:
    # Log of the condition number of W, and its derivative by N = W'W of columns of unit length.
    low, S = _power_mean(K, degree)
    high, T = _power_mean(N, degree)
    return 0.5 * (low + high), 0.5 * (T - K @ S @ K)


def _product(A: Float, lines: Float, out: Float) -> None:
    # out = A lines, in blocks so small that the linear algebra does not share them among threads: where it cuts them
    # would change the last digits.
    w, T = lines.shape
    block = 1 << max((ONE_THREAD // max(w * w, 1)).bit_length() - 1, 0)
    whole = T - T % block
    for part, into in ((lines[:, :whole], out[:, :whole]), (lines[:, whole:], out[:, whole:])):
        if part.shape[1]:
            width = min(block, part.shape[1])
            blocks = (w, -1, width)
            np.matmul(A, part.reshape(blocks).swapaxes(0, 1), out=into.reshape(blocks).swapaxes(0, 1))


def _power_mean(A: Float, power: int) -> tuple[float, Float]:
    # log (tr A^p)^(1/p), near that of the greatest eigenvalue where p is large, and its derivative A^(p-1) / tr A^p.
    top = float(np.trace(A))
    S = np.linalg.matrix_power(A / top, power - 1)
    total = float((S * A).sum()) / top
    return float(np.log(top) + np.log(total) / power), S / (total * top)


def _split(N: Float) -> tuple[Float, Float, float] | None:
    # H and K with N^-1 = K = H'H, and log det N; None where N does not hold enough digits.
    U, failed = dpotrf(N, lower=0, clean=1)
    if failed:
        return None
    V, failed = dtrtri(U, lower=0)
    K = V @ V.T
    if failed or not np.linalg.norm(N) * np.linalg.norm(K) < 1.0 / SQUARABLE:
        return None
    return V.T, K, 2.0 * float(np.log(U.diagonal()).sum())


@lru_cache(maxsize=32)
def _places(base: BaseMap, layout: Layout) -> Int:
    # The base parameter (R,) of each line.
    place = np.full(len(base.names), -1)
    place[base.independent] = np.arange(base.rank)
    return place[np.concatenate(layout.columns)]


@lru_cache(maxsize=32)
def _pairs(base: BaseMap, layout: Layout) -> tuple[Int, ...]:
    # By joint, where the products of each two of its lines stand in a matrix (b, b).
    places = (_places(base, layout)[own] for own in layout.spans)
    return tuple(at[:, None] * base.rank + at for at in places)


def focus_on(base: BaseMap, names: Sequence[str]) -> Float:
    """Rows (k, b) that give the named parameters from the base parameters.

    Raises UnfitDataError for a parameter that no motion determines on its own, naming the combinations that it is part
    of.
    """
    rows = []
    for name in names:
        if name not in base.names:
            raise UsageError(
                "unknown-parameter", found=f"'{name}'", expected=f"one of {', '.join(base.names[:12])} ..."
            )
        j = base.names.index(name)
        lead = np.flatnonzero(base.independent == j)
        if len(lead) == 0 or np.count_nonzero(np.abs(base.B[lead[0]]) > 1e-12) != 1:
            within = [f for f, row in zip(base.formulas(), base.B, strict=True) if row[j] != 0]
            raise UnfitDataError(
                "unidentifiable",
                found=f"'{name}' as a quantity to be determined, which no motion determines on its own",
                expected="parameters that torque depends on by themselves",
                do="it counts in " + "; ".join(within[:3]) if within else "it has no influence on the torque",
            )
        row = np.zeros(base.rank)
        row[lead[0]] = 1.0
        rows.append(row)
    return np.stack(rows)


# Quantities that a motion is to determine: torque elsewhere, or a payload on an arm that is known.

STATES, RECORDED_TOLERANCE, BLIND = 256, 1e-12, 1e-6


def prediction_focus(information: Information, motions: Sequence[tuple[Float, Float, Float]]) -> Float:
    """Combinations (b, b) of the base parameters whose total variance is that of predicted torque.

    motions: q, dq, ddq, (T, n) each, on which torque is to be predicted. With the rows W_j of joint j and its expected
    deviation s_j, the mean over samples and joints of var(tau_j) / s_j^2 is tr(R P R') for R'R = mean W'W / s^2 and
    covariance P. Minimising it is I- or V-optimality.
    Raises UsageError without a motion.    Source: Fedorov 1972.
    """
    if not motions:
        raise UsageError("prediction", found="no motion to be predicted", expected="at least one")
    alone = replace(information, recorded=None, focus=None)
    rows = np.concatenate([alone.triangle(*motion) for motion in motions])
    return np.asarray(np.linalg.qr(rows / np.sqrt(len(motions) * information.robot.n), mode="r"))


def payload_information(information: Information) -> Information:
    """The criterion of a payload on the last body of an arm whose other parameters are known.

    The base parameters are those combinations of the ten of the load that torque depends on, in the columns of the
    last body; everything else counts as known.
    Raises UnfitDataError if the model has no rigid bodies, or something was recorded without the payload.
    """
    robot, terms = information.robot, information.terms
    own = payload_columns(robot, terms)
    if information.recorded is not None:
        raise UnfitDataError(
            "payload-recorded",
            found="a run without the payload as what was recorded",
            expected="a motion for the payload alone",
            do="leave out --after",
        )
    samples = random_states(robot, STATES, 0, terms.channels(), clock=terms.clock())
    panels = terms.torque_regressor(robot, samples)
    W = panels.dense(len(information.base.names)).reshape(-1, len(information.base.names))
    seen = np.zeros(W.shape[1], dtype=np.bool_)
    seen[own : own + 10] = True
    base = base_of_matrix(np.where(seen, W, 0.0), information.base.names, STRUCTURAL_TOLERANCE)
    return replace(information, base=base)


def payload_columns(robot: RobotModel, terms: Terms) -> int:
    """Index of the first of the ten columns of the last body; raises UnfitDataError where there is none."""
    first = 0
    for term in terms:
        if term.traits.kind is Kind.BODIES:
            return first + 10 * (robot.n_bodies - 1)
        first += len(term.columns(robot))
    raise UnfitDataError(
        "payload-model", found="a model without rigid bodies", expected="one with the term rigid_body"
    )


def loaded(robot: RobotModel, terms: Terms, theta: Float, mass: float, centre: Float) -> Float:
    """Parameters (p,) with a point mass on the last body added; mass: kg, centre: (3,) in its joint frame, m.

    Raises UsageError for a mass below zero.
    """
    if not (np.isfinite(mass) and mass >= 0):
        raise UsageError("payload-mass", found=f"a payload of {mass} kg", expected="0 or more")
    x, y, z = centre
    inertia = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    own = payload_columns(robot, terms)
    more = np.array(theta)
    more[own : own + 10] += mass * np.array([1.0, x, y, z, *inertia])
    return more


def shrinkage(information: Information, motion: tuple[Float, Float, Float], seconds: float) -> Float:
    """Deviations (b,) of the base parameters after a motion, as shares of those of what was recorded before it.

    motion: q, dq, ddq, (T, n) each, over `seconds`.    0 where the record determines nothing.
    Raises UsageError where nothing was recorded.
    """
    if information.recorded is None:
        raise UsageError("shrinkage", found="nothing recorded", expected="an earlier run")
    after = np.linalg.inv(information.triangle(*motion, seconds))
    now = np.linalg.norm(after, axis=1)
    _, s, Vt = np.linalg.svd(np.linalg.qr(np.asarray(information.recorded), mode="r"))
    seen = s > RECORDED_TOLERANCE * s[0]
    before = np.linalg.norm(Vt[seen].T / s[seen], axis=1)
    blind = np.abs(Vt[~seen]).max(axis=0, initial=0.0) > BLIND
    return np.where(blind | (before == 0), 0.0, now / np.where(before > 0, before, 1.0))


FIRST_STEP, NEARLY = 0.1, 0.3
# The criterion is summed on the first grid, bounds are kept on one FINER, and a motion is judged on one DENSER times as
# fine: between points of the first one a hand passes a floor by a centimetre.
POINTS_A_CYCLE, LEAST_POINTS, FINER, DENSER = 10, 120, 2, 8
MOST_POINTS, MOST_VARIABLES = 20_000, 1_000
SHARES = (0.998, 0.995, 0.99, 0.98, 0.96, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
WAYS = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1)

Watch = Callable[[float], bool]


@dataclass(frozen=True, eq=False)
class Task:
    """One motion to be designed: family, criterion, bounds.    start: (n,) pose at both ends, None = free."""

    basis: Basis
    information: Information
    bounds: Bounds
    start: Float | None = None

    def grid(self, denser: int = 1) -> Float:
        """Times (T,) on which the motion is judged."""
        cycles = self.basis.duration * self.basis.highest_frequency
        count = max(LEAST_POINTS, math.ceil(POINTS_A_CYCLE * cycles))
        return np.linspace(0.0, self.basis.duration, denser * count + 1)

    def margins(self, X: Float, denser: int = DENSER) -> tuple[Margin, ...]:
        """Margins of a motion on a denser grid."""
        information = self.information
        return margins(information.robot, information.terms, self.bounds, *self._motion(X, denser))

    def keeps(self, X: Float, denser: int = DENSER) -> bool:
        """Whether a motion keeps every bound there."""
        information = self.information
        return keeps(information.robot, information.terms, self.bounds, *self._motion(X, denser))

    def _motion(self, X: Float, denser: int) -> tuple[Float, Float, Float, Float, Float]:
        if denser not in self._values:
            self._values[denser] = self.basis.values(self.grid(denser))
        q, dq, ddq, jerk = (B @ X for B in self._values[denser])
        return self.grid(denser), q, dq, ddq, jerk

    @cached_property
    def _values(self) -> dict[int, tuple[Float, Float, Float, Float]]:
        # Of the basis, by how much denser their grid is.
        return {}

    def standing(self, pose: Float) -> tuple[Margin, ...]:
        """Margins of a pose at rest."""
        q, zero = pose[None], np.zeros((1, len(pose)))
        information = self.information
        return margins(information.robot, information.terms, self.bounds, np.zeros(1), q, zero, zero, zero)


@dataclass(frozen=True, eq=False)
class Solution:
    """One motion within all bounds.    value: the exact criterion.    first: that of the start it came from."""

    X: Float
    value: float
    first: float
    iterations: int


class _StopError(Exception):
    """The way out of scipy's loop."""


class Problem:
    """A task in the optimiser's variables: coefficients in units of the size that each can have."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.values = task.basis.values(task.grid())
        limits = task.bounds.limits
        half = 0.5 * (limits.upper - limits.lower)
        tops = [np.maximum(np.abs(B).max(axis=0), 1e-12) for B in self.values]
        self.scale = np.minimum.reduce(
            [half / tops[0][:, None], *(b / top[:, None] for b, top in zip(
                (limits.velocity, limits.acceleration, limits.jerk), tops[1:], strict=True))]
        )  # fmt: skip
        self.scale[0] = half
        self.free: Bool = np.ones(self.scale.shape, dtype=np.bool_)
        self.free[0] = task.start is None
        information = task.information
        finer = task.basis.values(task.grid(FINER))
        self.smooth = SmoothBounds(information.robot, information.terms, task.bounds, finer)

    @property
    def middle(self) -> Float:
        """Pose (n,) about which starts are drawn."""
        limits = self.task.bounds.limits
        return 0.5 * (limits.lower + limits.upper) if self.task.start is None else self.task.start

    def objective(self, x: Float) -> tuple[float, Float]:
        """Criterion and its derivatives in the variables."""
        X = self.unpacked(x)
        q, dq, ddq = (B @ X for B in self.values[:3])
        value, g = self.task.information.gradient(q, dq, ddq, self.task.basis.duration)
        slope = sum(B.T @ part for B, part in zip(self.values[:3], g, strict=True))
        return value, (slope * self.scale)[self.free]

    def constraints(self, x: Float) -> tuple[Float, Float]:
        """Constraint functions (c,), each to be at most 0, and their derivatives."""
        g, dg = self.smooth.evaluate(self.unpacked(x))
        return g, (dg * self.scale)[:, self.free]

    def figures(self, X: Float) -> Figures:
        """Exact figures."""
        q, dq, ddq = (B @ X for B in self.values[:3])
        return self.task.information.figures(q, dq, ddq, self.task.basis.duration)

    def exact(self, X: Float) -> float:
        """The exact criterion; for focused criteria the smooth one, which is exact."""
        information = self.task.information
        if information.focus is None:
            return self.figures(X).of(information.criterion)
        q, dq, ddq = (B @ X for B in self.values[:3])
        return information.value(q, dq, ddq, self.task.basis.duration)

    def packed(self, X: Float) -> Float:
        """Variables of coefficients."""
        Y = np.array(X)
        Y[0] -= self.middle
        return np.asarray((Y / self.scale)[self.free])

    def unpacked(self, x: Float) -> Float:
        """Coefficients (m, n) of variables."""
        Y = np.zeros(self.scale.shape)
        Y[self.free] = x
        Y *= self.scale
        Y[0] += self.middle
        return Y

    def shrunk(self, X: Float, denser: int = FINER) -> Float | None:
        """The motion made smaller about its start pose until it keeps all bounds; None if even the pose does not."""
        if self.task.keeps(X, denser):
            return X
        if worst_broken(self.task.standing(X[0])) is not None:
            return None
        # Larger first: a motion about a pose near a bound may keep it as a whole and break it when made smaller.
        for share in SHARES:
            if self.task.keeps(resized(X, share), denser):
                return resized(X, share)
        return None

    def toward(self, safe: Float, X: Float, denser: int = FINER) -> Float | None:
        """The farthest motion on the way from one that keeps all bounds to X that does; None where none was found."""
        for share in WAYS:
            Y = safe + share * (X - safe)
            if self.task.keeps(Y, denser):
                return np.asarray(Y)
        return None


def draws(problem: Problem, count: int, seed: int) -> list[Float]:
    """Motions within the bounds from a Latin hypercube over the variables, best first; the same for a seed.

    Raises UnfitDataError naming the bound that leaves no pose, or no motion.
    """
    size = int(problem.free.sum())
    cube = 2.0 * latin_hypercube(count, size, np.random.default_rng(seed)) - 1.0
    rest = problem.scale.shape[0] - 1
    kept, refused = [], []
    for row in cube:
        X = problem.unpacked(row)
        X[0] = problem.middle + 0.5 * (X[0] - problem.middle)
        X[1:] *= 2.0 / math.sqrt(rest)
        bad = worst_broken(problem.task.standing(X[0]))
        if bad is not None:
            refused.append(bad)
            continue
        X = within(problem, X)
        if (fit := problem.shrunk(X)) is not None:
            kept.append(fit)
        elif (bad := worst_broken(problem.task.margins(resized(X, SHARES[-1]), FINER))) is not None:
            refused.append(bad)
    if not kept:
        raise _infeasible(refused)
    return sorted(kept, key=problem.exact)


def within(problem: Problem, X: Float) -> Float:
    """The motion with each joint by itself scaled to its limits of position, velocity, acceleration and jerk."""
    limits = problem.task.bounds.limits
    Y = np.array(X)
    offset = [B @ Y - (Y[0] if k == 0 else 0.0) for k, B in enumerate(problem.values)]
    up, down = limits.upper - Y[0], Y[0] - limits.lower
    with np.errstate(divide="ignore"):
        shares = [
            up / np.maximum(offset[0].max(axis=0), 1e-12),
            down / np.maximum(-offset[0].min(axis=0), 1e-12),
        ]
        for values, limit in zip(
            offset[1:], (limits.velocity, limits.acceleration, limits.jerk), strict=True
        ):
            shares.append(limit / np.maximum(np.abs(values).max(axis=0), 1e-12))
    Y[1:] *= 0.95 * np.minimum.reduce(shares)
    return Y


def solve(problem: Problem, X: Float, iterations: int, watch: Watch | None = None) -> Solution:
    """The best motion that SQP finds from a start; the start itself if it finds none better.

    watch: called with the best value after every iteration; the search stops with the best so far when it returns True.
    """
    first = problem.exact(X)
    begun = X if problem.task.keeps(X) else None
    best, count = _searched(problem, X, iterations, watch)
    fits = [problem.shrunk(best, DENSER), begun]
    if begun is not None:
        fits.append(problem.toward(begun, best, DENSER))
    kept = [fit for fit in fits if fit is not None] or [best]
    fit = min(kept, key=problem.exact)
    return Solution(fit, problem.exact(fit), first, count)


def _searched(problem: Problem, X: Float, iterations: int, watch: Watch | None) -> tuple[Float, int]:
    # The best motion within the bounds on the finer grid, and how many iterations it took.
    best, best_value, count = np.array(X), problem.exact(X), 0
    cached: tuple[bytes, tuple[Float, Float]] | None = None

    def bounded(x: Float) -> tuple[Float, Float]:
        nonlocal cached
        if cached is None or cached[0] != x.tobytes():
            cached = (x.tobytes(), problem.constraints(x))
        return cached[1]

    def after(x: Float) -> None:
        nonlocal best, best_value, count
        count += 1
        if bounded(x)[0].max() <= NEARLY:
            here = problem.unpacked(x)
            for fit in (problem.shrunk(here), problem.toward(best, here)):
                if fit is not None and (value := problem.exact(fit)) < best_value:
                    best, best_value = fit, value
                    break
        if watch is not None and watch(best_value):
            raise _StopError

    x0 = problem.packed(X)
    # Without this the first step, a gradient long, leaves the bounds so far behind that the search does not return.
    gain = FIRST_STEP / max(float(np.linalg.norm(problem.objective(x0)[1])), 1e-12)

    def scaled(x: Float) -> tuple[float, Float]:
        value, slope = problem.objective(x)
        return gain * value, gain * slope

    with suppress(_StopError):
        minimize(
            scaled,
            x0,
            jac=True,
            method="SLSQP",
            bounds=[(-1.0, 1.0)] * len(x0),
            constraints=[{"type": "ineq", "fun": lambda x: -bounded(x)[0], "jac": lambda x: -bounded(x)[1]}],
            callback=after,
            options={"maxiter": iterations, "ftol": 1e-7},
        )
    return best, count


def check_size(task: Task) -> None:
    """Raises UsageError for a motion of more points or coefficients than a search can handle."""
    points, variables = len(task.grid()), task.basis.size * task.information.robot.n
    if points > MOST_POINTS or variables > MOST_VARIABLES:
        raise UsageError(
            "plan-size",
            found=f"a motion of {variables} coefficients, judged at {points} points",
            expected=f"at most {MOST_VARIABLES} and {MOST_POINTS}",
            do="shorten it, or take fewer harmonics, pieces or motions",
        )


def check_start(task: Task) -> None:
    """Raises UnfitDataError naming the bound that the given start pose breaks."""
    if task.start is None:
        return
    if np.shape(task.start) != (task.information.robot.n,):
        raise UsageError(
            "array-shape",
            found=f"a start pose of {np.size(task.start)}",
            expected=f"{task.information.robot.n} joints",
        )
    bad = worst_broken(task.standing(task.start))
    if bad is not None:
        kind = "start-collides" if bad.what == "self-collision" else "start-pose"
        raise UnfitDataError(
            kind,
            found=f"a start pose that breaks a bound: {bad}",
            expected="a pose that the robot can rest in",
            do="choose another start",
        )


def check_rank(problem: Problem, X: Float) -> None:
    """Raises UnfitDataError naming what a motion cannot determine, because joints hardly move."""
    information = problem.task.information
    q, dq, ddq = (B @ X for B in problem.values[:3])
    figures = information.figures(q, dq, ddq, problem.task.basis.duration)
    if not figures.condition < 1e9:
        raise UnfitDataError(
            "unidentifiable",
            found=f"base parameters that this family of motions cannot determine (condition {figures.condition:.1e})",
            expected="motion of every joint within its limits",
            do="widen the limits, add harmonics or take terms out of the model",
        )


def resized(X: Float, share: float) -> Float:
    """The motion (m, n) made smaller about its start pose."""
    return np.concatenate([X[:1], share * X[1:]])


def worst_broken(found: tuple[Margin, ...], tolerance: float = 0.0) -> Margin | None:
    """The bound that is broken most, None where all hold."""
    worst = min(found, key=lambda m: m.margin)
    return worst if worst.margin < -tolerance else None


def _infeasible(refused: list[Margin]) -> UnfitDataError:
    counts: dict[tuple[str, str], list[Margin]] = {}
    for margin in refused:
        counts.setdefault((margin.what, margin.where), []).append(margin)
    if not counts:
        return UnfitDataError("infeasible", found="no motion within the bounds", expected="room for motion")
    often = max(counts.values(), key=len)
    mildest = max(often, key=lambda m: m.margin)
    return UnfitDataError(
        "infeasible-limits",
        found=f"no motion within the bounds, however small; most often broken: {mildest.what} of {mildest.where} "
        f"({mildest.worst:.4g} of {mildest.bound:.4g} at best)",
        expected="bounds that leave room for motion",
        do=f"loosen the bound of {mildest.what}",
    )


# Free knots of a spline: several vectors of them are tried, the most promising one is kept.

CANDIDATES, ITERATIONS, LEAST = 12, 12, 0.4


def drawn_knots(basis: SplineBasis, count: int, seed: int = 0) -> list[SplineBasis]:
    """The family with uniform knots, then `count` with drawn ones; the same for a seed.

    Intervals are LEAST of a uniform one and random shares of the rest, so that no stretch asks for endless jerk.
    """
    rng = np.random.default_rng(seed)
    found = [basis]
    for _ in range(count):
        shares = LEAST / basis.pieces + (1.0 - LEAST) * rng.dirichlet(np.ones(basis.pieces))
        inner: Float = basis.duration * np.cumsum(shares)[:-1]
        found.append(SplineBasis(basis.duration, basis.pieces, tuple(float(x) for x in inner)))
    return found


def with_free_knots(task: Task, count: int, seed: int = 0) -> Task:
    """The task with the knots that a short search from one start gets farthest with, the uniform ones among them.

    Raises UsageError for a family that is no spline or has knots of its own.
    """
    if not isinstance(task.basis, SplineBasis) or task.basis.breaks or count < 1:
        raise UsageError(
            "free-knots",
            found=f"{count} vectors of knots",
            expected="1 or more, for one spline without motion.knots",
        )
    check_size(task)
    check_start(task)
    tried = [replace(task, basis=basis) for basis in drawn_knots(task.basis, count, seed)]
    return min(tried, key=lambda one: _reached(one, seed))


def _reached(task: Task, seed: int) -> float:
    problem = Problem(task)
    return solve(problem, draws(problem, CANDIDATES, seed)[0], ITERATIONS).value
