"""Numerical helpers: distributions, bounded least squares, eigenvalues, Latin hypercubes, lazily loaded SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import import_module
from statistics import NormalDist
from typing import Any

import numpy as np

from dynid.base.arrays import Float

# Nonlinear least squares with a few unknowns between 0 and 1.

# Convergence: step relative to the unknowns, reduction relative to the sum of squares.
STEP, GAIN = 1e-5, 1e-8
# Evaluations of the residual, which bound the time of a search that does not converge.
TRIALS = 30
# Initial and least damping, relative to the greatest curvature of an unknown.
DAMPING, LEAST = 1e-3, 1e-12


def least_squares_in_box(
    residual: Callable[[Float], Float], jacobian: Callable[[Float], Float], start: Float
) -> tuple[Float, float]:
    """Minimise the sum of squares of a residual over unknowns between 0 and 1 (Levenberg-Marquardt).

    Damping follows the ratio of actual to predicted reduction. Steps are clipped to the bounds, and unknowns that the
    slope presses against a bound stay fixed.
    Source of the damping: Nielsen 1999, IMM-REP-1999-05.

    Parameters
    ----------
    residual : callable
        Residual (rows,) of unknowns (s,).
    jacobian : callable
        Its derivative (rows, s) at the unknowns of the last call of `residual`.
    start : ndarray, shape (s,)
        Initial unknowns.

    Returns
    -------
    unknowns : ndarray, shape (s,)
    cost : float
        Sum of squares.

    """
    u = np.clip(start, 0.0, 1.0)
    r = residual(u)
    cost, damping, growth, left = float(r @ r), np.nan, 2.0, TRIALS - 1
    arrived = False
    while left > 0 and not arrived:
        J = jacobian(u)
        square, slope = J.T @ J, J.T @ r
        steepest = float(np.max(np.diag(square), initial=0.0))
        free = ~(((u <= 0.0) & (slope > 0.0)) | ((u >= 1.0) & (slope < 0.0)))
        if not (steepest > 0.0 and slope[free].any()):
            break
        damping = DAMPING * steepest if np.isnan(damping) else max(damping, LEAST * steepest)
        while left > 0 and not arrived:
            step = np.zeros(len(u))
            damped = square[np.ix_(free, free)] + damping * np.eye(int(free.sum()))
            step[free] = np.linalg.solve(damped, -slope[free])
            tried = np.clip(u + step, 0.0, 1.0)
            step = tried - u
            there = residual(tried)
            left -= 1
            gain = cost - float(there @ there)
            arrived = float(np.linalg.norm(step)) <= STEP * (STEP + float(np.linalg.norm(u)))
            if gain > 0.0:
                promised = -float(step @ (2.0 * slope + square @ step))
                arrived = arrived or gain <= GAIN * cost
                share = gain / promised if promised > 0.0 else 0.0
                damping, growth = damping * max(1.0 / 3.0, 1.0 - (2.0 * share - 1.0) ** 3), 2.0
                u, r, cost = tried, there, cost - gain
                break
            damping, growth = damping * growth, 2.0 * growth
    return u, cost


# Tails and quantiles of common distributions without SciPy, whose import takes longer than a small command.

# Degrees of freedom above which Fisher's expansion about the normal distribution is exact to 1e-13.
ALMOST_NORMAL = 3e3
# Newton steps at most; a few are enough unless the start is poor.
STEPS = 60
# Replaces zero in denominators of Lentz's continued fraction.
TINY = 1e-300
# Share of t: Newton's method converges quadratically, so the error after such a step is rounding.
LAST_STEP = 1e-8
# Convergence of series and continued fractions (two roundings of a factor near 1), and their greatest length.
CONVERGED = 4e-16
LONGEST = 100_000


def normal_quantile(probability: float) -> float:
    """Quantile of the standard normal distribution, 0 < probability < 1.    Source: Wichura 1988 (AS 241)."""
    return NormalDist().inv_cdf(probability)


def student_cumulative(freedom: float, t: float) -> float:
    """P(T <= t) of Student's t; nan unless the degrees of freedom are > 0.    Source: Press et al. 2007, 6.14."""
    return _cumulative(float(t), float(freedom)) if freedom > 0.0 else math.nan


def f_tail(first: float, second: float, ratio: float) -> float:
    """P(F >= ratio) of Fisher's F distribution, I_x(second / 2, first / 2) with x = second / (second + first ratio).

    Source: Press et al. 2007, section 6.14.

    Parameters
    ----------
    first, second : float
        Degrees of freedom of numerator and denominator.
    ratio : float
        Value >= 0.

    Returns
    -------
    float
        nan unless the degrees of freedom are > 0 and finite.

    """
    if not (0.0 < first < math.inf and 0.0 < second < math.inf):
        return math.nan
    first, second = float(first), float(second)  # NumPy's scalars are slow
    return _beta(0.5 * second, 0.5 * first, second / (second + first * float(ratio)))


def gamma_tail(a: float, x: float) -> float:
    """Regularised incomplete gamma function Q(a, x) = Gamma(a, x) / Gamma(a) for a > 0, x >= 0.

    By its series below a + 1, by Lentz's continued fraction above.    Source: Press et al. 2007, section 6.2.
    """
    a, x = float(a), float(x)
    if x <= 0.0 or math.isinf(x):
        return float(x <= 0.0)
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1.0:
        term = total = 1.0 / a
        for n in range(1, LONGEST):
            term *= x / (a + n)
            total += term
            if term < CONVERGED * total:
                break
        return 1.0 - front * total
    b, c = x + 1.0 - a, 1.0 / TINY
    d = product = 1.0 / _away_from_zero(b)
    for n in range(1, LONGEST):
        b += 2.0
        d, c = 1.0 / _away_from_zero(n * (a - n) * d + b), _away_from_zero(b + n * (a - n) / c)
        product *= d * c
        if not abs(d * c - 1.0) >= CONVERGED:
            break
    return front * product


def chi_squared_tail(freedom: float, value: float) -> float:
    """P(chi^2 >= value) with `freedom` > 0 degrees of freedom; value >= 0."""
    return gamma_tail(0.5 * freedom, 0.5 * value)


@lru_cache(maxsize=256)
def student_quantile(freedom: float, probability: float) -> float:
    """Student's t with P(T <= t) = probability, 0 < probability < 1; nan unless the degrees of freedom are > 0.

    Newton's method on the incomplete beta function, with Lentz's continued fraction.
    Source: Fisher 1925 (expansion); Press et al. 2007, sections 6.4 and 6.14.
    """
    if not freedom > 0.0:
        return math.nan
    z = normal_quantile(probability)
    n = freedom
    t = z + (z**3 + z) / (4.0 * n) + (5.0 * z**5 + 16.0 * z**3 + 3.0 * z) / (96.0 * n**2)
    t += (3.0 * z**7 + 19.0 * z**5 + 17.0 * z**3 - 15.0 * z) / (384.0 * n**3)
    if n > ALMOST_NORMAL:
        return t
    if n < 4.0:
        t = _tail_start(n, probability)
    scale = math.lgamma(0.5 * (n + 1.0)) - math.lgamma(0.5 * n) - 0.5 * math.log(n * math.pi)
    for _ in range(STEPS):
        slope = math.exp(scale - 0.5 * (n + 1.0) * math.log1p(t * t / n))
        step = (_cumulative(t, n) - probability) / slope
        # The distribution is concave away from zero, so Newton's step may overshoot: halve t instead of changing sign.
        t, before = (t - step if (t - step) * t > 0.0 or t == 0.0 else 0.5 * t), t
        if abs(t - before) <= LAST_STEP * max(abs(t), TINY):
            break
    return t


def _tail_start(n: float, probability: float) -> float:
    # The tail falls like t^-n; with one degree of freedom it is that of the Cauchy distribution.
    far = math.tan(math.pi * (probability - 0.5))
    return math.copysign(abs(far) ** (1.0 / max(n, 1.0)), far) if n >= 1.0 else far


def _cumulative(t: float, n: float) -> float:
    # Near zero the central part is computed, far out the tail, so that neither loses digits.
    square = t * t
    near = square < 1.0
    tail = (
        0.5 - 0.5 * _beta(0.5, 0.5 * n, square / (n + square))
        if near
        else 0.5 * _beta(0.5 * n, 0.5, n / (n + square))
    )
    return 1.0 - tail if t > 0 else tail


def _beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b)."""
    if x <= 0.0 or x >= 1.0:
        return float(x >= 1.0)
    if x > (a + 1.0) / (a + b + 2.0):
        return 1.0 - _beta(b, a, 1.0 - x)
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    c, d = 1.0, 1.0 / _away_from_zero(1.0 - (a + b) * x / (a + 1.0))
    product = d
    for m in range(1, LONGEST):
        for even in (True, False):
            if even:
                factor = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
            else:
                factor = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
            d, c = 1.0 / _away_from_zero(1.0 + factor * d), _away_from_zero(1.0 + factor / c)
            product *= d * c
        if not abs(d * c - 1.0) >= CONVERGED:
            break
    return math.exp(front) * product / a


def _away_from_zero(value: float) -> float:
    return value if abs(value) > TINY else TINY


# Generalised eigenvalues of symmetric matrices.


def generalised_eigenvalues(a: Float, metric: Float) -> Float:
    """Eigenvalues w (..., n), ascending, of a v = w metric v, for symmetric matrices (..., n, n).

    Raises LinAlgError if `metric` is not positive definite.    Source: Golub and Van Loan 2013, section 8.7.2.
    """
    L = np.linalg.cholesky(metric)
    half = np.linalg.solve(L, a)
    return np.asarray(np.linalg.eigvalsh(np.linalg.solve(L, half.swapaxes(-1, -2))))


# Latin hypercube samples.


def latin_hypercube(count: int, size: int, rng: np.random.Generator) -> Float:
    """Draw a Latin hypercube sample: one point in each of `count` equal slices of every coordinate.

    The points are those of SciPy, whose import takes a second. They are drawn from a generator spawned from `rng`, so
    that later draws of `rng` do not change.
    Source: McKay, Beckman and Conover 1979.

    Parameters
    ----------
    count : int
        Number of points.
    size : int
        Number of coordinates.
    rng : numpy.random.Generator
        Source of the spawned generator.

    Returns
    -------
    ndarray, shape (count, size)
        Points in [0, 1).

    """
    generator = rng.spawn(1)[0]
    within = generator.uniform(size=(count, size))
    slices = np.tile(np.arange(1, count + 1), (size, 1))
    for order in slices:
        generator.shuffle(order)
    return np.asarray((slices.T - within) / count)


# Functions of SciPy with its documented arguments, each imported on its first call.
#
# The import of SciPy takes as long as a small command. What every identification and report needs is therefore part of
# dynid: triangular systems in `dynid.kernel`, the functions above in this module.


def _scipy_function(module: str, name: str) -> Callable[..., Any]:
    @cache
    def loaded() -> Callable[..., Any]:
        function: Callable[..., Any] = getattr(import_module(f"scipy.{module}"), name)
        return function

    def call(*arguments: Any, **options: Any) -> Any:
        return loaded()(*arguments, **options)

    call.__name__ = name
    call.__doc__ = f"scipy.{module}.{name}."
    return call


eigh, expm = _scipy_function("linalg", "eigh"), _scipy_function("linalg", "expm")
expit, stdtrit = _scipy_function("special", "expit"), _scipy_function("special", "stdtrit")
least_squares, minimize, nnls = (
    _scipy_function("optimize", name) for name in ("least_squares", "minimize", "nnls")
)
