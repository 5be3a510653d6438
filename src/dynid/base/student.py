"""Quantiles of Student's t without SciPy, for commands that only read a run."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

# Above it the first terms of Fisher's expansion about the normal distribution are exact to 1e-13.
ALMOST_NORMAL = 3e3
STEPS = 60
TINY = 1e-300


@lru_cache(maxsize=256)
def student_quantile(freedom: float, probability: float) -> float:
    """Student's t with P(T <= t) = probability, 0 < probability < 1; NaN unless the degrees of freedom are > 0.

    Newton's method on the incomplete beta function, whose continued fraction is Lentz's.
    Source: Fisher 1925 (expansion); Press et al. 2007, sections 6.4 and 6.14.
    """
    if not freedom > 0.0:
        return math.nan
    z = NormalDist().inv_cdf(probability)
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
        if abs(t - before) <= 4e-16 * max(abs(t), TINY):
            break
    return t


def _tail_start(n: float, probability: float) -> float:
    # Beyond the quantile the tail falls like t^-n; at one degree of freedom it is Cauchy's.
    far = math.tan(math.pi * (probability - 0.5))
    return math.copysign(abs(far) ** (1.0 / max(n, 1.0)), far) if n >= 1.0 else far


def _cumulative(t: float, n: float) -> float:
    x = n / (n + t * t)
    tail = 0.5 * _beta(0.5 * n, 0.5, x)
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
    for m in range(1, 10_000):
        for even in (True, False):
            if even:
                factor = m * (b - m) * x / ((a + 2 * m - 1.0) * (a + 2 * m))
            else:
                factor = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1.0))
            d, c = 1.0 / _far(1.0 + factor * d), _far(1.0 + factor / c)
            product *= d * c
        if abs(d * c - 1.0) < 1e-16:
            break
    return math.exp(front) * product / a


def _far(value: float) -> float:
    return value if abs(value) > TINY else TINY
