"""Tails and quantiles of the usual distributions without SciPy, which takes longer to load than a command to run."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# Above it the first terms of Fisher's expansion about the normal distribution are exact to 1e-13.
ALMOST_NORMAL = 3e3
STEPS = 60
TINY = 1e-300
# Share of t: Newton's steps go like their squares, so that behind a smaller one there is rounding alone.
LAST_STEP = 1e-8
# Two roundings of a factor near 1, at which series and continued fractions have converged; and their greatest length.
CONVERGED = 4e-16
LONGEST = 100_000


def normal_quantile(probability: float) -> float:
    """Quantile of the standard normal distribution, 0 < probability < 1.    Source: Wichura 1988 (AS 241)."""
    return NormalDist().inv_cdf(probability)


def student_cumulative(freedom: float, t: float) -> float:
    """P(T <= t) of Student's t; NaN unless the degrees of freedom are > 0.    Source: Press et al. 2007, 6.14."""
    return _cumulative(float(t), float(freedom)) if freedom > 0.0 else math.nan


def f_tail(first: float, second: float, ratio: float) -> float:
    """P(F >= ratio) of Fisher's F, ratio >= 0; NaN unless the degrees of freedom, above and below, are > 0 and finite.

    I_x(second / 2, first / 2), x = second / (second + first ratio).    Source: Press et al. 2007, section 6.14.
    """
    if not (0.0 < first < math.inf and 0.0 < second < math.inf):
        return math.nan
    first, second = float(first), float(second)  # NumPy's scalars are slow
    return _beta(0.5 * second, 0.5 * first, second / (second + first * float(ratio)))


def gamma_tail(a: float, x: float) -> float:
    """Gamma(a, x) / Gamma(a), the regularised incomplete gamma function Q; a > 0, x >= 0.

    Its series below a + 1, Lentz's continued fraction above.    Source: Press et al. 2007, section 6.2.
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
    d = product = 1.0 / _far(b)
    for n in range(1, LONGEST):
        b += 2.0
        d, c = 1.0 / _far(n * (a - n) * d + b), _far(b + n * (a - n) / c)
        product *= d * c
        if not abs(d * c - 1.0) >= CONVERGED:
            break
    return front * product


def chi_squared_tail(freedom: float, value: float) -> float:
    """P(chi^2 >= value) with so many degrees of freedom, > 0; value >= 0."""
    return gamma_tail(0.5 * freedom, 0.5 * value)


@lru_cache(maxsize=256)
def student_quantile(freedom: float, probability: float) -> float:
    """Student's t with P(T <= t) = probability, 0 < probability < 1; NaN unless the degrees of freedom are > 0.

    Newton's method on the incomplete beta function, whose continued fraction is Lentz's.
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
        # The distribution is concave on the far side: a step that leaves the quadrant is halved.
        t, before = (t - step if (t - step) * t > 0.0 or t == 0.0 else 0.5 * t), t
        if abs(t - before) <= LAST_STEP * max(abs(t), TINY):
            break
    return t


def _tail_start(n: float, probability: float) -> float:
    # Beyond the quantile the tail falls like t^-n; at one degree of freedom it is Cauchy's.
    far = math.tan(math.pi * (probability - 0.5))
    return math.copysign(abs(far) ** (1.0 / max(n, 1.0)), far) if n >= 1.0 else far


def _cumulative(t: float, n: float) -> float:
    # In the middle the tail of what is left is exact, far out the tail itself.
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
    c, d = 1.0, 1.0 / _far(1.0 - (a + b) * x / (a + 1.0))
    product = d
    for m in range(1, LONGEST):
        for even in (True, False):
            if even:
                factor = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
            else:
                factor = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
            d, c = 1.0 / _far(1.0 + factor * d), _far(1.0 + factor / c)
            product *= d * c
        if not abs(d * c - 1.0) >= CONVERGED:
            break
    return math.exp(front) * product / a


def _far(value: float) -> float:
    return value if abs(value) > TINY else TINY
