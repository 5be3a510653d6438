"""How informative a motion is: criteria on the column-scaled base regressor, with their derivatives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import StrEnum
from functools import cached_property, lru_cache

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from dynid.base import Bool, Float, Int, UnfitDataError, UsageError, dataclass, locked
from dynid.excitation.gradient import Layout, MotionGradient
from dynid.factor import STRUCTURAL_TOLERANCE, BaseMap, base_of_matrix, random_states
from dynid.kernel import gathered_gram
from dynid.robot import RobotModel
from dynid.terms import Terms

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
        if term.of_bodies:
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
