"""Units of log channels with their factors to SI, and formatting of numbers."""

from __future__ import annotations

import math
import re
from difflib import get_close_matches

from dynid.base.errors import InputError, Place

# Units of log channels and their factors to SI. Input is converted here and nowhere else.

_FACTORS: dict[str, dict[str, float]] = {
    "time": {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9, "day": 86400.0},
    "angle": {
        "rad": 1.0,
        "deg": math.pi / 180.0,
        "mrad": 1e-3,
        "turn": 2 * math.pi,
        "arcmin": math.pi / 10800.0,
        "arcsec": math.pi / 648000.0,
    },
    "angular velocity": {
        "rad/s": 1.0,
        "deg/s": math.pi / 180.0,
        "rpm": math.pi / 30.0,
        "mrad/s": 1e-3,
        "turn/s": 2 * math.pi,
        "arcmin/s": math.pi / 10800.0,
        "arcsec/s": math.pi / 648000.0,
    },
    "length": {"m": 1.0, "mm": 1e-3, "cm": 1e-2, "in": 0.0254},
    "velocity": {"m/s": 1.0, "mm/s": 1e-3, "cm/s": 1e-2, "in/s": 0.0254},
    "acceleration": {"m/s^2": 1.0, "mm/s^2": 1e-3, "g": 9.80665},
    "torque": {
        "N m": 1.0,
        "Nm": 1.0,
        "mN m": 1e-3,
        "mNm": 1e-3,
        "N cm": 1e-2,
        "Ncm": 1e-2,
        "kN m": 1e3,
        "kNm": 1e3,
    },
    "force": {"N": 1.0, "kN": 1e3},
    "current": {"A": 1.0, "mA": 1e-3},
    "raw": {"raw": 1.0},
    "temperature": {"degC": 1.0},
    "none": {"1": 1.0},
}
# Multiples and fractions of units, for counts and row numbers: 1/500 s, 1/4096 turn, 0.229 rpm, 2.69 mA.
_MULTIPLE = re.compile(r"(1/)?(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?) (\S.*)")
# Other units in tables of other programs; they cannot be declared for a channel.
_SEEN = ("°", "°/s", "deg/s^2", "rad/s^2", "rad/s²", "sec", "V", "W", "%", "-", "°C", "Hz")

# Those that mean "no unit".
NO_UNITS = ("%", "-")


def is_unit(text: str) -> bool:
    """Whether a cell of a table looks like a unit."""
    return text in _SEEN or any(text in known for known in _FACTORS.values())


def units_beside(unit: str) -> dict[str, float]:
    """Return all units of the same quantity with their size in the given unit; for times only the unit itself."""
    plain = {"°": "deg", "°/s": "deg/s"}.get(unit, unit)
    known_factors: dict[str, float] = next((known for known in _FACTORS.values() if plain in known), {})
    if not known_factors or known_factors is _FACTORS["time"]:  # times are not converted here
        return {unit: 1.0}
    factors = {**known_factors, **({"°": known_factors["deg"]} if "deg" in known_factors else {})}
    factors |= {"°/s": known_factors["deg/s"]} if "deg/s" in known_factors else {}
    return {other: factor / factors[unit] for other, factor in factors.items()}


def is_si(text: str, quantities: tuple[str, ...]) -> bool:
    """Whether a unit is the SI unit of one of `quantities`, in the spelling of tables: Nm, sec."""
    plain = {"sec": "s"}.get(text, text)
    return any(_FACTORS[quantity].get(plain) == 1.0 for quantity in quantities)


def is_unit_of(text: str, quantity: str) -> bool:
    """Whether a text is a unit of a quantity, or a multiple or fraction of one."""
    return text in _FACTORS[quantity] or _multiple(text, quantity) is not None


def is_multiple(text: str) -> bool:
    """Whether a unit is a multiple or fraction of another: "1/4096 turn"."""
    return any(_multiple(text, quantity) is not None for quantity in _FACTORS)


def _multiple(unit: str, quantity: str) -> float | None:
    match = _MULTIPLE.fullmatch(unit)
    known = _FACTORS[quantity].get(match[3]) if match else None
    if (
        match is None
        or known is None
        or quantity in ("raw", "none", "temperature")
        or not float(match[2]) > 0
    ):
        return None
    return known / float(match[2]) if match[1] else known * float(match[2])


def factor(unit: str, quantities: tuple[str, ...], place: Place) -> tuple[str, float]:
    """Return quantity and factor to SI of a unit.

    Parameters
    ----------
    unit : str
        The unit.
    quantities : tuple of str
        Allowed quantities.
    place : Place
        For the message.

    Returns
    -------
    tuple of (str, float)

    Raises
    ------
    InputError
        For other units; the message lists the allowed ones.

    """
    for quantity in quantities:
        multiple = _multiple(unit, quantity)
        if multiple is not None:
            return quantity, multiple
        if unit in _FACTORS[quantity]:
            return quantity, _FACTORS[quantity][unit]
    allowed = [name for quantity in quantities for name in _FACTORS[quantity]]
    near = get_close_matches(unit, allowed, n=1, cutoff=0.3)
    hint = f"write '{near[0]}'" if near else "declare the unit; dynid does not guess it"
    raise InputError(
        "unit", found=f"unknown unit '{unit}'", expected="one of " + ", ".join(allowed), do=hint, place=place
    )


# Numbers written as text, and text read as numbers.

# Powers of ten between which a number is written without an exponent.
_LEAST, _GREATEST = -4, 6
_MOST_DIGITS = 8  # significant digits, even for a very narrow interval


def number_of(text: str) -> float:
    """Convert text to a number.

    Parameters
    ----------
    text : str
        The text.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        If the text is not a number; that includes 1_0, which Python reads as 10.

    """
    if "_" in text:
        raise ValueError(f"'{text}' is not a number")
    return float(text)


def with_interval(value: float, half_width: float) -> str:
    """Format a value with its half width, both rounded to two digits of the half width: "0.0244 +- 0.0029".

    Without a known half width, the value is rounded to four digits.
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
    # An exact zero, such as a parameter at its bound, is written without decimals.
    return "0" if value == 0.0 else f"{round(value, decimals) + 0.0:.{max(decimals, 0)}f}"


def _exponent(value: float) -> int:
    # Exponent after rounding to two digits: 9.96 is 10.
    return int(f"{value:.1e}".partition("e")[2])
