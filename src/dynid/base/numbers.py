"""Numbers written as text, and text read as numbers."""

import math

# Powers of ten between which a number is written without one.
_LEAST, _GREATEST = -4, 6
_MOST_DIGITS = 8  # of a value, however narrow its interval


def number_of(text: str) -> float:
    """The number that a text holds; raises ValueError for one that is none, such as 1_0, which Python takes for 10."""
    if "_" in text:
        raise ValueError(f"'{text}' is no number")
    return float(text)


def with_interval(value: float, half_width: float) -> str:
    """A value and its half width, rounded alike so that the half width keeps two digits: "0.0244 +- 0.0029".

    The value alone, to four digits, where its half width is not known.
    """
    if not math.isfinite(half_width) or half_width < 0.0 or not math.isfinite(value):
        return f"{value:.4g}"
    if half_width == 0.0:
        return f"{value:.4g} +- 0"
    greatest = _exponent(max(abs(value), half_width))
    decimals = 1 - _exponent(half_width)
    if decimals > _MOST_DIGITS - 1 - greatest:
        return f"{value:.{_MOST_DIGITS}g} +- {half_width:.2g}"
    if _LEAST <= greatest < _GREATEST:
        return f"{_rounded(value, decimals)} +- {_rounded(half_width, decimals)}"
    scale, decimals = 10.0**greatest, decimals + greatest
    return (
        f"({_rounded(value / scale, decimals)} +- {_rounded(half_width / scale, decimals)})e{greatest:+03d}"
    )


def _rounded(value: float, decimals: int) -> str:
    # A parameter at its bound is zero, and not as good as zero.
    return "0" if value == 0.0 else f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"


def _exponent(value: float) -> int:
    # As rounded to two digits: 9.96 is 10.
    return int(f"{value:.1e}".partition("e")[2])
