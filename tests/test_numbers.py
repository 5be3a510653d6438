"""Numbers with their intervals as text."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest

from dynid.base import with_interval


@pytest.mark.parametrize(
    ("value", "half", "text"),
    [
        (0.02435, 0.0029, "0.0244 +- 0.0029"),
        (6.882e-5, 0.0023, "0.0001 +- 0.0023"),
        (-0.0004, 0.62, "0.00 +- 0.62"),
        (0.996, 0.0996, "1.00 +- 0.10"),
        (123456.0, 2345.0, "123500 +- 2300"),
        (1.23e-5, 4.5e-7, "(1.230 +- 0.045)e-05"),
        (0.0, 0.058, "0 +- 0.058"),  # at its bound
        (1.2345678, 1e-12, "1.2345678 +- 1e-12"),
        (5.0, 0.0, "5 +- 0"),
        (3.14159, math.nan, "3.142"),
    ],
)
def test_as_a_reader_wants_them(value: float, half: float, text: str) -> None:
    assert with_interval(value, half) == text


def test_value_and_half_width_are_rounded_at_the_same_place_to_two_digits() -> None:
    rng = np.random.default_rng(0)
    for sign, power, share in zip(
        rng.choice([-1.0, 1.0], 500), *rng.uniform([-9, -5], [9, 3], (500, 2)).T, strict=True
    ):
        value = sign * 10.0**power
        half = abs(value) * 10.0**share
        text = with_interval(value, half)
        scale = float(f"1e{text.partition(')e')[2] or 0}")
        shown, width = (scale * float(one) for one in re.sub(r"[()]|e.*$", "", text).split(" +- "))
        assert width == pytest.approx(half, rel=0.05)
        # Half a unit of the second digit of the half width, which its own rounding may have carried up.
        assert abs(shown - value) <= 0.0501 * 10.0 ** math.ceil(math.log10(width) + 1e-9)
