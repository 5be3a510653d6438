"""Causal low passes with their derivative, sampled so that filtered equations of motion hold from the first sample."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dynid.base.arrays import Float
from dynid.base.errors import Place, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.signals.samples import Samples

Hold = Literal["linear", "zero"]


@dataclass(frozen=True)
class CausalFilter:
    """f2 = (lambda / (s + lambda))^degree and f1 = s f2, lambda = 2 pi cutoff, by Tustin's rule.

    cutoff: Hz.    degree: relative degree of f2, 1 or 2.    rate: Hz.
    Both start from rest, and f2[x] = f1[integral of x by the trapezoidal rule] holds sample by sample, so that
    f2[tau] = f1[P - P(0)] + f2[R] is as exact as the integrals are. A ramp comes out of f1 without error.
    Source: Chavez-Olivares et al. 2012 eq. 11; its zero-order-hold pair has f1 of a ramp 1.1 % too large.
    """

    cutoff: float
    degree: int
    rate: float

    @property
    def pole(self) -> float:
        """lambda, rad/s."""
        return 2.0 * np.pi * self.cutoff

    def low(self, lines: Float) -> Float:
        """f2 of each line (L, T)."""
        for _ in range(self.degree):
            lines = self._low(lines)
        return lines

    def high(self, lines: Float) -> Float:
        """f1 of each line (L, T), which should start at zero."""
        for _ in range(self.degree - 1):
            lines = self._low(lines)
        x = self.pole / self.rate
        gain = 2.0 * self.pole / (2.0 + x)
        return _filtered([gain, -gain], self._denominator, lines)

    def steps(self, momentum: Float, force: Float) -> Float:
        """What f1[momentum] + f2[force], (L, T) each, are made of step by step: `run` them to get it."""
        x = self.pole / self.rate
        steps = np.zeros_like(momentum)
        steps[:, 1:] = 2.0 * self.pole / (2.0 + x) * np.diff(momentum)
        steps[:, 1:] += x / (2.0 + x) * (force[:, 1:] + force[:, :-1])
        return steps

    def run(self, steps: Float) -> Float:
        """The filter over `steps`: one pass for momentum and force together."""
        lines = _filtered([1.0], self._denominator, steps)
        for _ in range(self.degree - 1):
            lines = self._low(lines)
        return lines

    def held(self, lines: Float) -> Float:
        """f2 of signals (L, T) that stay constant from each sample to the next."""
        x = self.pole / self.rate
        lines = _filtered([0.0, 2.0 * x / (2.0 + x)], self._denominator, lines)
        for _ in range(self.degree - 1):
            lines = self._low(lines)
        return lines

    def of_torque(self, lines: Float, hold: Hold) -> Float:
        """f2 of torque lines (L, T), held or linear between samples."""
        return self.held(lines) if hold == "zero" else self.low(lines)

    @property
    def _denominator(self) -> list[float]:
        x = self.pole / self.rate
        return [1.0, -(2.0 - x) / (2.0 + x)]

    def _low(self, lines: Float) -> Float:
        x = self.pole / self.rate
        gain = x / (2.0 + x)
        # The first output is zero: nothing has been integrated yet.
        return _filtered([gain, gain], self._denominator, lines, -gain * lines[..., :1])


def _filtered(
    numerator: list[float], denominator: list[float], lines: Float, state: Float | None = None
) -> Float:
    from scipy.signal import lfilter  # half a second of start-up that other rows do without

    if state is None:
        return np.asarray(lfilter(numerator, denominator, lines, axis=-1))
    return np.asarray(lfilter(numerator, denominator, lines, axis=-1, zi=state)[0])


def check_filter(cutoff: float, degree: int, hold: str) -> None:
    """Raises UsageError for a filter that is not one."""
    if not (np.isfinite(cutoff) and cutoff > 0) or degree not in (1, 2) or hold not in ("linear", "zero"):
        raise UsageError(
            "rows-filter",
            found=f"cutoff = {cutoff}, degree = {degree}, hold = '{hold}'",
            expected="a cut-off > 0 in Hz, degree 1 or 2, hold 'linear' or 'zero'",
        )


def check_stick(stick: float) -> None:
    """Raises UsageError for a velocity below which joints stick that is none."""
    if not (np.isfinite(stick) and stick >= 0):
        raise UsageError("rows-stick", found=f"stick = {stick}", expected="a velocity >= 0 in rad/s (m/s)")


def begin(samples: Samples) -> int:
    """Where integrals begin: the first sample that counts at the start of a segment, elsewhere the batch's first."""
    return int(np.argmax(samples.keep)) if samples.first == 0 and samples.keep.any() else 0


def require_finite(samples: Samples, scheme: str, names: tuple[str, ...] = ("q", "dq", "tau")) -> None:
    """Raises UnfitDataError that names the first row in which a signal of the scheme is missing."""
    said = {"q": "position", "dq": "velocity", "ddq": "acceleration", "tau": "torque"}
    for name in names:
        bad = np.flatnonzero(~np.isfinite(getattr(samples, name)).all(axis=1))
        if len(bad):
            row = int(bad[0])
            raise UnfitDataError(
                "missing-signal",
                found=f"no {said[name]} for {scheme} rows",
                expected=f"{said[name]} of every joint at every sample",
                place=Place(row=samples.first + row, time=float(samples.t[row])),
            )
