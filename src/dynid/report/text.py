"""Numbers as a reader wants them: digits chosen by the interval, signs and powers typeset."""

from __future__ import annotations

import math
import re

from markupsafe import Markup, escape

__all__ = ["MINUS", "NO_BREAK", "interval", "number", "percent", "plain_number"]

MISSING = "–"
MINUS = "−"
NO_BREAK = "\u00a0"
_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_LEAST, _GREATEST = -3, 5
_MOST_DIGITS = 8


def number(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, e.g. "0.0123", "−1.20·10⁻⁵"; "–" for nan."""
    if math.isnan(value):
        return MISSING
    if math.isinf(value):
        return "∞" if value > 0 else f"{MINUS}∞"
    if value == 0:
        return "0"
    exponent = _exponent(value, digits)
    return _fixed(value, digits - 1 - exponent, exponent)


def interval(value: float, half_width: float) -> tuple[str, str]:
    """Value and half width, rounded alike so that the half width keeps two digits; ("1.234", "0.056")."""
    if not math.isfinite(half_width) or half_width <= 0 or not math.isfinite(value):
        return number(value, 4), number(half_width, 2)
    exponent = _exponent(max(abs(value), half_width), _MOST_DIGITS)
    decimals = min(1 - _exponent(half_width, 2), _MOST_DIGITS - 1 - exponent)
    return _fixed(value, decimals, exponent), _fixed(half_width, decimals, exponent)


def percent(fraction: float, digits: int = 2) -> str:
    """A fraction as per cent, e.g. "5.2 %"."""
    return MISSING if math.isnan(fraction) else f"{number(100.0 * fraction, digits)}{NO_BREAK}%"


def duration(seconds: float) -> str:
    """A time span in the unit that suits it, e.g. "21 s", "12.5 min", "1.2 h"."""
    if seconds < 120:
        return f"{number(seconds)}{NO_BREAK}s"
    if seconds < 7200:
        return f"{number(seconds / 60)}{NO_BREAK}min"
    return f"{number(seconds / 3600)}{NO_BREAK}h"


def r_squared(value: float) -> str:
    """A coefficient of determination: what matters is its distance from 1, so four decimals."""
    return f"{value:.4f}".replace("-", MINUS) if math.isfinite(value) and abs(value) < 100 else number(value)


def unit(text: str) -> str:
    """A unit with its powers raised, e.g. "kg m²"."""
    return text.replace("^2", "²").replace("^3", "³")


def plain_number(value: float) -> str:
    """A number of somebody else's choosing, to six digits and without trailing zeros."""
    if not math.isfinite(value) or (value != 0 and not 1e-4 <= abs(value) < 1e7):
        return number(value, 4)
    return f"{value:.6g}".replace("-", MINUS)


def markdown(text: str) -> Markup:
    """A paragraph whose code stands in backticks as HTML; links become their text, since the page leads nowhere."""
    escaped = str(escape(re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", text)))
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", escaped))  # noqa: S704  (escaped above)


def short(text: str, length: int = 60) -> str:
    """The text itself, or its beginning and end around an ellipsis."""
    if len(text) <= length:
        return text
    tail = length // 3
    return f"{text[: length - tail - 1]}…{text[-tail:]}"


def _exponent(value: float, digits: int) -> int:
    return int(f"{abs(value):.{digits - 1}e}".partition("e")[2])


def _fixed(value: float, decimals: int, exponent: int) -> str:
    if _LEAST <= exponent < _GREATEST:
        text = f"{value:.{max(decimals, 0)}f}"
    else:
        mantissa = f"{value / 10.0**exponent:.{max(decimals + exponent, 0)}f}"
        text = f"{mantissa}·10{str(exponent).translate(_SUPERSCRIPT)}"
    return text.replace("-", MINUS)
