"""The optimiser: starts from a Latin hypercube, then sequential quadratic programming from the best of them."""

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
from dynid.excitation.constraints import Margin, SmoothBounds, margins, violation
from dynid.excitation.gradient import Layout, MotionGradient
from dynid.excitation.limits import Bounds
from dynid.factor import STRUCTURAL_TOLERANCE, BaseMap, base_of_matrix, random_states
from dynid.kernel import gathered_gram
from dynid.robot import RobotModel
from dynid.terms import Kind, Terms
from dynid.trajectories import Basis, SplineBasis

# Information of a motion: criteria on the column-scaled base regressor, with their derivatives.

# Degree of power means that replace largest and smallest values: higher is closer, and less smooth.
SMOOTHNESS = 8
# Degree of the power mean of variances: high enough that the worst parameter dominates, low enough that all count.
LEADING = 4
# Weight of the condition number relative to the mean deviation, and degree of its power means. From 1.5 to 2 the
# condition number falls by 2 to 8 %, mean errors rise by at most 3 % and the error of the worst parameter by 14 %; see
# benchmarks/excitation.py.
PROPORTION, SHARPNESS = 2.0, 32
# Least singular value relative to the largest, so that inverses stay finite.
_FLOOR = 1e-10
# Multiplications up to which OpenBLAS computes a product on one thread (its GEMM_MULTITHREAD_THRESHOLD, 4 x 65536).
ONE_THREAD = 1 << 18
# Inverse condition number of W'W below which squaring loses too many digits.
SQUARABLE = 1e-6


class Criterion(StrEnum):
    """Criterion that is minimised; W contains the rows in units of their noise, with scaled columns.

    BALANCED: -log det(W'W / T) / 2b, the geometric mean of the standard deviations, plus PROPORTION times CONDITION.
    CONDITION: log of the condition number of W with columns of unit length. LOGDET: -log det(W'W / T), the volume of
    the confidence ellipsoid (D). TRACE: log tr (W'W / T)^-1, the sum of the variances (A). LEAST: -log of the smallest
    eigenvalue of W'W / T, the worst direction (E). PRECISION: log of the largest standard deviation of a parameter,
    relative to what is required or to its size in torque.

    In the optimiser power means replace largest and smallest values: they bound these and are smooth where values
    cross. Their degree is SMOOTHNESS (PRECISION: LEADING, BALANCED: SHARPNESS).
    """

    BALANCED = "balanced"
    CONDITION = "condition"
    LOGDET = "logdet"
    TRACE = "trace"
    LEAST = "least"
    PRECISION = "precision"


@dataclass(frozen=True, eq=False)
class Figures:
    """Exact criteria of a motion.

    condition: condition number for columns of unit length.    logdet, trace, least: logs of determinant, trace of the
    inverse and smallest eigenvalue. precision: log of the largest deviation of a parameter relative to what is
    required.    balanced: see Criterion.
    """

    condition: float
    logdet: float
    trace: float
    least: float
    precision: float
    balanced: float

    def of(self, criterion: Criterion) -> float:
        """Value of a criterion, as it is minimised."""
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

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model of the design.
    base : BaseMap
        Structural base parameters.
    noise : ndarray, shape (n_joints,), N m or N
        Expected torque noise; only ratios count unless `recorded` is given.
    criterion : Criterion
        The criterion.
    focus : ndarray, shape (k, n_base), optional
        Combinations of the base parameters whose variance counts (TRACE only); without it all.
    asked : ndarray, shape (n_base,), optional
        Required standard deviations of the base parameters (PRECISION only); without it those with equal effect on
        torque in usual motion.
    recorded : ndarray, shape (r, n_base), optional
        Triangle of the equations of an earlier log, in units of the noise.
    rate : float, Hz
        Independent rows that a second of the new motion counts for, compared with `recorded`.

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
                "noise", found=f"torque noise {self.noise.tolist()}", expected="positive, finite numbers"
            )
        b = self.base.rank
        for name in ("focus", "recorded"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, locked(getattr(self, name), (None, b), name))
        if self.asked is not None:
            object.__setattr__(self, "asked", locked(self.asked, (b,), "asked"))
            if not (np.isfinite(self.asked) & (self.asked > 0)).all():
                raise UsageError(
                    "precision",
                    found="a required deviation that is not above 0",
                    expected="positive, finite numbers",
                )

    def figures(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> Figures:
        """Exact criteria of a motion.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        seconds : float, s
            Its length.

        Returns
        -------
        Figures
            The criteria.

        """
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
        """R (b, b) with R'R = W'W / T, including an earlier log.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        seconds : float, s
            Its length.

        Returns
        -------
        ndarray, shape (n_base, n_base)
            The triangle.

        """
        return self._triangle(*self._regressor(q, dq, ddq), seconds)

    def value(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> float:
        """The smooth criterion.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        seconds : float, s
            Its length.

        Returns
        -------
        float
            Its value.

        """
        return self._smooth(*self._regressor(q, dq, ddq), seconds)[0]

    def gradient(self, q: Float, dq: Float, ddq: Float, seconds: float = 1.0) -> tuple[float, Float]:
        """The smooth criterion and its gradient.

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (n_samples, n_joints)
            The motion.
        seconds : float, s
            Its length.

        Returns
        -------
        value : float
            The criterion.
        gradient : ndarray, shape (3, n_samples, n_joints)
            Derivatives with respect to q, dq and ddq.

        """
        layout, lines = self._regressor(q, dq, ddq)
        value, F = self._smooth(layout, lines, seconds)
        weights = np.empty_like(lines)
        for pairs, span, weight in zip(
            _pairs(self.base, layout), layout.spans, self._weights(len(q), seconds), strict=True
        ):
            _product(F.take(pairs) * (2.0 * weight**2), lines[span], out=weights[span])
        return value, self.chain.of_lines(q, dq, ddq, layout, lines, weights)

    @cached_property
    def chain(self) -> MotionGradient:
        """Derivatives through the model."""
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
        places = _base_indices(self.base, layout)
        for span, weight in zip(layout.spans, self._weights(T, seconds), strict=True):
            W = np.zeros((T, self.base.rank))
            W[:, places[span]] = lines[span].T * weight
            rows.append(W)
        return np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))

    def _smooth(self, layout: Layout, lines: Float, seconds: float) -> tuple[float, Float]:
        # Value, and dvalue/dM for M = W'W / T. Squaring W costs digits, so it is done only where enough are left.
        weights, b = self._weights(lines.shape[1], seconds) ** 2, self.base.rank
        M = gathered_gram(lines, layout.ends, _base_indices(self.base, layout), weights, b)
        if self.recorded is not None:
            M += self.recorded.T @ self.recorded
        D = self._lengths(np.sqrt(M.diagonal()))
        N = M / D / D[:, None]
        split = _inverse_factors(N)
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
            # The determinant depends on the lengths of the columns, which N does not contain.
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
        # Deviation of the scaled columns relative to the required one.
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
    # out = A lines, in blocks so small that the linear algebra uses one thread: its division among threads would change
    # the last digits.
    w, T = lines.shape
    block = 1 << max((ONE_THREAD // max(w * w, 1)).bit_length() - 1, 0)
    whole = T - T % block
    for part, into in ((lines[:, :whole], out[:, :whole]), (lines[:, whole:], out[:, whole:])):
        if part.shape[1]:
            width = min(block, part.shape[1])
            blocks = (w, -1, width)
            np.matmul(A, part.reshape(blocks).swapaxes(0, 1), out=into.reshape(blocks).swapaxes(0, 1))


def _power_mean(A: Float, power: int) -> tuple[float, Float]:
    # log (tr A^p)^(1/p), which for large p is close to the log of the largest eigenvalue, and its derivative A^(p-1) /
    # tr A^p.
    top = float(np.trace(A))
    S = np.linalg.matrix_power(A / top, power - 1)
    total = float((S * A).sum()) / top
    return float(np.log(top) + np.log(total) / power), S / (total * top)


def _inverse_factors(N: Float) -> tuple[Float, Float, float] | None:
    # H and K with N^-1 = K = H'H, and log det N; None if N is too ill-conditioned.
    U, failed = dpotrf(N, lower=0, clean=1)
    if failed:
        return None
    V, failed = dtrtri(U, lower=0)
    K = V @ V.T
    if failed or not np.linalg.norm(N) * np.linalg.norm(K) < 1.0 / SQUARABLE:
        return None
    return V.T, K, 2.0 * float(np.log(U.diagonal()).sum())


@lru_cache(maxsize=32)
def _base_indices(base: BaseMap, layout: Layout) -> Int:
    # The base parameter (R,) of each line.
    place = np.full(len(base.names), -1)
    place[base.independent] = np.arange(base.rank)
    return place[np.concatenate(layout.columns)]


@lru_cache(maxsize=32)
def _pairs(base: BaseMap, layout: Layout) -> tuple[Int, ...]:
    # Indices, per joint, of the products of each two of its lines in a matrix (b, b).
    places = (_base_indices(base, layout)[span] for span in layout.spans)
    return tuple(at[:, None] * base.rank + at for at in places)


def focus_on(base: BaseMap, names: Sequence[str]) -> Float:
    """Rows (k, b) that select named parameters from the base parameters.

    Raises UnfitDataError for a parameter that no motion determines by itself, with the combinations that contain it.
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
                found=f"focus on '{name}', which no motion determines by itself",
                expected="a parameter that is identifiable by itself",
                do="it is part of " + "; ".join(within[:3])
                if within
                else "it has no influence on the torque",
            )
        row = np.zeros(base.rank)
        row[lead[0]] = 1.0
        rows.append(row)
    return np.stack(rows)


# Quantities to determine: torque on other motions, or a payload on a known arm.

# Random states for the rank of a payload, relative singular value below which an earlier log determines nothing, and
# share of a parameter in such directions above which it counts as undetermined.
STATES, RECORDED_TOLERANCE, BLIND = 256, 1e-12, 1e-6


def prediction_focus(information: Information, motions: Sequence[tuple[Float, Float, Float]]) -> Float:
    """Combinations (b, b) of the base parameters whose total variance is that of predicted torque.

    motions: q, dq, ddq, (T, n) each, on which torque is to be predicted. With the rows W_j of joint j and its expected
    noise s_j, the mean over samples and joints of var(tau_j) / s_j^2 is tr(R P R') for R'R = mean W'W / s^2 and
    covariance P. Minimising it is I- or V-optimality.
    Raises UsageError without a motion.    Source: Fedorov 1972.
    """
    if not motions:
        raise UsageError("prediction", found="no motion to predict", expected="at least one")
    alone = replace(information, recorded=None, focus=None)
    rows = np.concatenate([alone.triangle(*motion) for motion in motions])
    return np.asarray(np.linalg.qr(rows / np.sqrt(len(motions) * information.robot.n), mode="r"))


def payload_information(information: Information) -> Information:
    """The criterion for a payload on the last link of an arm whose other parameters are known.

    The base parameters are the combinations of the load's ten that torque depends on, in the columns of the last link.
    Raises UnfitDataError if the model has no rigid bodies, or an earlier log was recorded without the payload.
    """
    robot, terms = information.robot, information.terms
    first = payload_columns(robot, terms)
    if information.recorded is not None:
        raise UnfitDataError(
            "payload-recorded",
            found="an earlier run, which was recorded without the payload",
            expected="a motion for the payload alone",
            do="leave out --after",
        )
    samples = random_states(robot, STATES, 0, terms.channels(), clock=terms.clock())
    panels = terms.torque_regressor(robot, samples)
    W = panels.dense(len(information.base.names)).reshape(-1, len(information.base.names))
    seen = np.zeros(W.shape[1], dtype=np.bool_)
    seen[first : first + 10] = True
    base = base_of_matrix(np.where(seen, W, 0.0), information.base.names, STRUCTURAL_TOLERANCE)
    return replace(information, base=base)


def payload_columns(robot: RobotModel, terms: Terms) -> int:
    """Index of the first of the ten columns of the last link; raises UnfitDataError if there is none."""
    first = 0
    for term in terms:
        if term.traits.kind is Kind.BODIES:
            return first + 10 * (robot.n_bodies - 1)
        first += len(term.columns(robot))
    raise UnfitDataError(
        "payload-model", found="a model without rigid bodies", expected="one with the term rigid_body"
    )


def loaded(robot: RobotModel, terms: Terms, theta: Float, mass: float, centre: Float) -> Float:
    """Add a point mass on the last link to the parameters of a model.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    theta : ndarray, shape (n_parameters,)
        Parameters.
    mass : float, kg
        The mass.
    centre : ndarray, shape (3,), m
        Its position in the last joint frame.

    Returns
    -------
    ndarray, shape (n_parameters,)
        Parameters with the mass.

    Raises
    ------
    UsageError
        For a mass below zero.

    """
    if not (np.isfinite(mass) and mass >= 0):
        raise UsageError("payload-mass", found=f"a payload of {mass} kg", expected="0 or more")
    x, y, z = centre
    inertia = [y * y + z * z, -x * y, x * x + z * z, -x * z, -y * z, x * x + y * y]
    first = payload_columns(robot, terms)
    more = np.array(theta)
    more[first : first + 10] += mass * np.array([1.0, x, y, z, *inertia])
    return more


def shrinkage(information: Information, motion: tuple[Float, Float, Float], seconds: float) -> Float:
    """Standard deviations of the base parameters after a motion, relative to those of the earlier log alone.

    Parameters
    ----------
    information : Information
        The criterion, with an earlier log.
    motion : tuple of ndarray, shape (n_samples, n_joints) each
        q, dq and ddq.
    seconds : float, s
        Length of the motion.

    Returns
    -------
    ndarray, shape (n_base,)
        Ratios; 0 where the earlier log determines nothing.

    Raises
    ------
    UsageError
        Without an earlier log.

    """
    if information.recorded is None:
        raise UsageError("shrinkage", found="no earlier log", expected="the run of an earlier log")
    after = np.linalg.inv(information.triangle(*motion, seconds))
    now = np.linalg.norm(after, axis=1)
    _, s, Vt = np.linalg.svd(np.linalg.qr(np.asarray(information.recorded), mode="r"))
    seen = s > RECORDED_TOLERANCE * s[0]
    before = np.linalg.norm(Vt[seen].T / s[seen], axis=1)
    blind = np.abs(Vt[~seen]).max(axis=0, initial=0.0) > BLIND
    return np.where(blind | (before == 0), 0.0, now / np.where(before > 0, before, 1.0))


# Length of the first step in scaled variables, and violation up to which an iterate is repaired and compared.
FIRST_STEP, NEARLY = 0.1, 0.3
# The criterion is evaluated on the coarse grid, limits on one FINER and the final check on one DENSER times as fine:
# between points of the coarse grid a hand can pass through a floor by a centimetre.
POINTS_A_CYCLE, LEAST_POINTS, FINER, DENSER = 10, 120, 2, 8
# Largest search: time and memory grow with both.
MOST_POINTS, MOST_VARIABLES = 20_000, 1_000
# Sizes at which a motion is tried until it meets all limits, and ways from a safe motion to a better one.
SHARES = (0.998, 0.995, 0.99, 0.98, 0.96, 0.94, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
# Samples tried on each side of the last violation: few, compared with the thousands of a motion.
BESIDE = 3
WAYS = (0.98, 0.9, 0.75, 0.5, 0.25, 0.1)

Watch = Callable[[float], bool]


@dataclass(frozen=True, eq=False)
class Task:
    """One motion to design.

    Parameters
    ----------
    basis : Basis
        Family of motions.
    information : Information
        The criterion.
    bounds : Bounds
        The limits.
    start : ndarray, shape (n_joints,), optional, rad or m
        Pose at both ends; free without it.

    """

    basis: Basis
    information: Information
    bounds: Bounds
    start: Float | None = None

    def grid(self, denser: int = 1) -> Float:
        """Times (T,) of the grid on which the motion is evaluated; denser: how many times as many points."""
        cycles = self.basis.duration * self.basis.highest_frequency
        count = max(LEAST_POINTS, math.ceil(POINTS_A_CYCLE * cycles))
        return np.linspace(0.0, self.basis.duration, denser * count + 1)

    def margins(self, X: Float, denser: int = DENSER) -> tuple[Margin, ...]:
        """Margins of a motion on a denser grid."""
        information = self.information
        return margins(information.robot, information.terms, self.bounds, *self._motion(X, denser))

    def keeps(self, X: Float, denser: int = DENSER) -> bool:
        """Whether a motion meets all limits on a denser grid."""
        information, motion = self.information, self._motion(X, denser)
        # Motions of a search mostly violate a limit where the one before did, so that these samples are tried first.
        at = np.clip(self._violated.get(denser, np.zeros(0, dtype=np.int64)), 0, len(motion[0]) - 1)
        tried = [tuple(part[at] for part in motion)] if len(at) else []
        for part in (*tried, motion):
            bad = violation(information.robot, information.terms, self.bounds, *part)
            if bad is not None:
                if part is motion:
                    middle = int(np.abs(motion[0] - bad.time).argmin())
                    self._violated[denser] = middle + np.arange(-BESIDE, BESIDE + 1)
                return False
        return True

    @cached_property
    def _violated(self) -> dict[int, Int]:
        # Samples around the violation that was found last, by density of the grid.
        return {}

    def _motion(self, X: Float, denser: int) -> tuple[Float, Float, Float, Float, Float]:
        if denser not in self._values:
            self._values[denser] = self.basis.values(self.grid(denser))
        q, dq, ddq, jerk = (B @ X for B in self._values[denser])
        return self.grid(denser), q, dq, ddq, jerk

    @cached_property
    def _values(self) -> dict[int, tuple[Float, Float, Float, Float]]:
        # Values of the basis by density of the grid.
        return {}

    def standing(self, pose: Float) -> tuple[Margin, ...]:
        """Margins of a pose at rest."""
        q, zero = pose[None], np.zeros((1, len(pose)))
        information = self.information
        return margins(information.robot, information.terms, self.bounds, np.zeros(1), q, zero, zero, zero)


@dataclass(frozen=True, eq=False)
class Solution:
    """A motion within all limits.    value: exact criterion.    first: that of the start of its search."""

    X: Float
    value: float
    first: float
    iterations: int


class _StopError(Exception):
    """Ends scipy's loop."""


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
        """Pose (n,) around which starts are drawn."""
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
        """Constraint functions (c,), each of which must be at most 0, and their derivatives."""
        g, dg = self.smooth.evaluate(self.unpacked(x))
        return g, (dg * self.scale)[:, self.free]

    def figures(self, X: Float) -> Figures:
        """Exact criteria."""
        q, dq, ddq = (B @ X for B in self.values[:3])
        return self.task.information.figures(q, dq, ddq, self.task.basis.duration)

    def exact(self, X: Float) -> float:
        """The exact criterion; with a focus the smooth one, which is exact then."""
        information = self.task.information
        if information.focus is None:
            return self.figures(X).of(information.criterion)
        q, dq, ddq = (B @ X for B in self.values[:3])
        return information.value(q, dq, ddq, self.task.basis.duration)

    def packed(self, X: Float) -> Float:
        """Variables from coefficients."""
        Y = np.array(X)
        Y[0] -= self.middle
        return np.asarray((Y / self.scale)[self.free])

    def unpacked(self, x: Float) -> Float:
        """Coefficients (m, n) from variables."""
        Y = np.zeros(self.scale.shape)
        Y[self.free] = x
        Y *= self.scale
        Y[0] += self.middle
        return Y

    def shrunk(self, X: Float, denser: int = FINER) -> Float | None:
        """The motion reduced around its start pose until it meets all limits; None if the pose itself violates one."""
        if self.task.keeps(X, denser):
            return X
        if worst_broken(self.task.standing(X[0])) is not None:
            return None
        # Larger shares first: a motion around a pose near a limit may meet it in full size and violate it when reduced.
        for share in SHARES:
            if self.task.keeps(resized(X, share), denser):
                return resized(X, share)
        return None

    def improvement(self, best: Float, best_value: float, X: Float) -> tuple[Float, float] | None:
        """The first motion within all limits that is better than the best so far; None if there is none.

        Tried are X, X reduced around its start pose, and motions between the best and X. The criterion is computed
        first: it takes a fraction of the time of a test of all limits.

        Parameters
        ----------
        best : ndarray, shape (n_coefficients, n_joints)
            Best motion so far.
        best_value : float
            Its criterion.
        X : ndarray, shape (n_coefficients, n_joints)
            Motion of the search, which may violate limits.

        Returns
        -------
        motion : ndarray, shape (n_coefficients, n_joints)
        value : float
            Its criterion.

        """
        stands: bool | None = None
        for share in (1.0, *SHARES):
            Y = X if share == 1.0 else resized(X, share)
            value = self.exact(Y)
            if not value < best_value:
                continue
            if share < 1.0 and stands is None:
                stands = worst_broken(self.task.standing(X[0])) is None
            if stands is False:
                break
            if self.task.keeps(Y, FINER):
                return Y, value
        for share in WAYS:
            Y = np.asarray(best + share * (X - best))
            value = self.exact(Y)
            if value < best_value and self.task.keeps(Y, FINER):
                return Y, value
        return None

    def toward(self, safe: Float, X: Float, denser: int = FINER) -> Float | None:
        """The farthest motion between one within all limits and X that meets them too; None if there is none."""
        for share in WAYS:
            Y = safe + share * (X - safe)
            if self.task.keeps(Y, denser):
                return np.asarray(Y)
        return None


def draws(problem: Problem, count: int, seed: int) -> list[Float]:
    """Random motions within the limits from a Latin hypercube over the variables, best first.

    Parameters
    ----------
    problem : Problem
        The problem.
    count : int
        Number of motions that are drawn.
    seed : int
        Seed; the same seed gives the same motions.

    Returns
    -------
    list of ndarray, shape (n_coefficients, n_joints)
        The motions that meet all limits.

    Raises
    ------
    UnfitDataError
        If a limit leaves no pose, or no motion; it names the limit.

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
    """The motion with each joint scaled separately to its limits of position, velocity, acceleration and jerk."""
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
    """The best motion that SQP finds from a start, or the start itself.

    Parameters
    ----------
    problem : Problem
        The problem.
    X : ndarray, shape (n_coefficients, n_joints)
        The start.
    iterations : int
        Maximum number of iterations.
    watch : callable, optional
        Called with the best value after every iteration; the search stops with the best motion so far if it returns
        True.

    Returns
    -------
    Solution
        The motion.

    """
    first = problem.exact(X)
    begun = X if problem.task.keeps(X) else None
    best, count = _search(problem, X, iterations, watch)
    fits = [problem.shrunk(best, DENSER), begun]
    if begun is not None:
        fits.append(problem.toward(begun, best, DENSER))
    kept = [fit for fit in fits if fit is not None] or [best]
    fit = min(kept, key=problem.exact)
    return Solution(fit, problem.exact(fit), first, count)


def _search(problem: Problem, X: Float, iterations: int, watch: Watch | None) -> tuple[Float, int]:
    # The best motion within the limits on the finer grid, and the number of iterations.
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
            if (better := problem.improvement(best, best_value, here)) is not None:
                best, best_value = better
        if watch is not None and watch(best_value):
            raise _StopError

    x0 = problem.packed(X)
    # Without this scale the first step, as long as the gradient, leaves the limits so far that the search does not
    # return.
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
    """Raise UsageError for a motion with more points or coefficients than a search can handle."""
    points, variables = len(task.grid()), task.basis.size * task.information.robot.n
    if points > MOST_POINTS or variables > MOST_VARIABLES:
        raise UsageError(
            "plan-size",
            found=f"a motion of {variables} coefficients, evaluated at {points} points",
            expected=f"at most {MOST_VARIABLES} and {MOST_POINTS}",
            do="shorten it, or take fewer harmonics, pieces or motions",
        )


def check_start(task: Task) -> None:
    """Raise UnfitDataError if the given start pose violates a limit."""
    if task.start is None:
        return
    if np.shape(task.start) != (task.information.robot.n,):
        raise UsageError(
            "array-shape",
            found=f"a start pose of {np.size(task.start)} numbers",
            expected=f"{task.information.robot.n}, one per joint",
        )
    bad = worst_broken(task.standing(task.start))
    if bad is not None:
        kind = "start-collides" if bad.what == "self-collision" else "start-pose"
        raise UnfitDataError(
            kind,
            found=f"a start pose that violates a limit: {bad}",
            expected="a pose within all limits at rest",
            do="choose another motion.start",
        )


def check_rank(problem: Problem, X: Float) -> None:
    """Raise UnfitDataError if a motion cannot determine the base parameters because joints hardly move."""
    information = problem.task.information
    q, dq, ddq = (B @ X for B in problem.values[:3])
    figures = information.figures(q, dq, ddq, problem.task.basis.duration)
    if not figures.condition < 1e9:
        raise UnfitDataError(
            "unidentifiable",
            found=f"base parameters that these motions cannot determine (condition number {figures.condition:.1e})",
            expected="motion of every joint within its limits",
            do="widen the limits, add harmonics or take terms out of the model",
        )


def resized(X: Float, share: float) -> Float:
    """The motion (m, n) scaled around its start pose."""
    return np.concatenate([X[:1], share * X[1:]])


def worst_broken(all_margins: tuple[Margin, ...], tolerance: float = 0.0) -> Margin | None:
    """The limit that is violated most, None if all are met."""
    worst = min(all_margins, key=lambda m: m.margin)
    return worst if worst.margin < -tolerance else None


def _infeasible(refused: list[Margin]) -> UnfitDataError:
    counts: dict[tuple[str, str], list[Margin]] = {}
    for margin in refused:
        counts.setdefault((margin.what, margin.where), []).append(margin)
    if not counts:
        return UnfitDataError("infeasible", found="no motion within the limits", expected="room for motion")
    often = max(counts.values(), key=len)
    mildest = max(often, key=lambda m: m.margin)
    return UnfitDataError(
        "infeasible-limits",
        found=f"no motion within the limits, however small; most often violated: {mildest.what} of {mildest.where} "
        f"({mildest.worst:.3g}, limit {mildest.bound:.3g} at best)",
        expected="limits that leave room for motion",
        do=f"relax the limit of {mildest.what}",
    )


# Free knots of a spline: several vectors are tried, and the most promising one is used.

# Random starts and iterations of the search for each knot vector, and least interval relative to a uniform one.
CANDIDATES, ITERATIONS, LEAST = 12, 12, 0.4


def drawn_knots(basis: SplineBasis, count: int, seed: int = 0) -> list[SplineBasis]:
    """Families of splines with uniform and with random knots.

    Intervals are LEAST of a uniform one and random shares of the rest, so that none is so short that it needs a very
    high jerk.

    Parameters
    ----------
    basis : SplineBasis
        The family with uniform knots.
    count : int
        Number of families with random knots.
    seed : int
        Seed; the same seed gives the same knots.

    Returns
    -------
    list of SplineBasis
        The family with uniform knots, then the others.

    """
    rng = np.random.default_rng(seed)
    families = [basis]
    for _ in range(count):
        shares = LEAST / basis.pieces + (1.0 - LEAST) * rng.dirichlet(np.ones(basis.pieces))
        inner: Float = basis.duration * np.cumsum(shares)[:-1]
        families.append(SplineBasis(basis.duration, basis.pieces, tuple(float(x) for x in inner)))
    return families


def with_free_knots(task: Task, count: int, seed: int = 0) -> Task:
    """The task with the knots that a short search improves most, the uniform ones among them.

    Parameters
    ----------
    task : Task
        A task of one spline.
    count : int
        Number of random knot vectors.
    seed : int
        Seed of the knots.

    Returns
    -------
    Task
        The task with these knots.

    Raises
    ------
    UsageError
        If the family is no spline, or its knots are given.

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
    return min(tried, key=lambda candidate: _value_after_search(candidate, seed))


def _value_after_search(task: Task, seed: int) -> float:
    problem = Problem(task)
    return solve(problem, draws(problem, CANDIDATES, seed)[0], ITERATIONS).value
