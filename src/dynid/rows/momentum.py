"""Momentum rows: the filtered inverse dynamic model, which needs no acceleration."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import Place, UnfitDataError, UsageError
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.rows.rows import Equations
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

# Causal low passes with their derivative, discretised so that filtered equations hold from the first sample.

Hold = Literal["linear", "zero"]


@dataclass(frozen=True)
class CausalFilter:
    """Low pass f2 = (lambda / (s + lambda))^degree and f1 = s f2, lambda = 2 pi cutoff, by Tustin's rule.

    Both start from rest, and f2[x] = f1[integral of x by the trapezoidal rule] is exact for every sample, so that
    f2[tau] = f1[P - P(0)] + f2[R] is as exact as the integrals. f1 of a ramp has no error.

    Attributes
    ----------
    cutoff : float, Hz
        Cutoff frequency.
    degree : {1, 2}
        Relative degree of f2.
    rate : float, Hz
        Sampling rate.

    References
    ----------
    Chavez-Olivares et al. 2012, eq. 11; its zero-order-hold pair has f1 of a ramp 1.1 % too large.

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
        """Increments of f1[momentum] + f2[force], (L, T) each; `run` integrates them."""
        x = self.pole / self.rate
        steps = np.zeros_like(momentum)
        steps[:, 1:] = 2.0 * self.pole / (2.0 + x) * np.diff(momentum)
        steps[:, 1:] += x / (2.0 + x) * (force[:, 1:] + force[:, :-1])
        return steps

    def run(self, steps: Float) -> Float:
        """Filter `steps`: one pass for momentum and force together."""
        lines = _filtered([1.0], self._denominator, steps)
        for _ in range(self.degree - 1):
            lines = self._low(lines)
        return lines

    def low_of_held(self, lines: Float) -> Float:
        """f2 of signals (L, T) that are constant from each sample to the next."""
        x = self.pole / self.rate
        lines = _filtered([0.0, 2.0 * x / (2.0 + x)], self._denominator, lines)
        for _ in range(self.degree - 1):
            lines = self._low(lines)
        return lines

    def of_torque(self, lines: Float, hold: Hold) -> Float:
        """f2 of torque lines (L, T), constant or linear between samples."""
        return self.low_of_held(lines) if hold == "zero" else self.low(lines)

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
    from scipy.signal import lfilter  # importing it takes half a second, which other rows save

    if state is None:
        return np.asarray(lfilter(numerator, denominator, lines, axis=-1))
    return np.asarray(lfilter(numerator, denominator, lines, axis=-1, zi=state)[0])


def check_filter(cutoff: float, degree: int, hold: str) -> None:
    """Raise UsageError for invalid filter options."""
    if not (np.isfinite(cutoff) and cutoff > 0) or degree not in (1, 2) or hold not in ("linear", "zero"):
        raise UsageError(
            "rows-filter",
            found=f"cutoff = {cutoff}, degree = {degree}, hold = '{hold}'",
            expected="a cutoff frequency > 0 Hz, degree 1 or 2, hold 'linear' or 'zero'",
        )


def check_stick(stick: float) -> None:
    """Raise UsageError unless `stick` is a velocity >= 0."""
    if not (np.isfinite(stick) and stick >= 0):
        raise UsageError("rows-stick", found=f"stick = {stick}", expected="a velocity >= 0 in rad/s (m/s)")


def begin(samples: Samples) -> int:
    """First sample of integrals: the first usable one at the start of a segment, otherwise the first of the batch."""
    return int(np.argmax(samples.keep)) if samples.first == 0 and samples.keep.any() else 0


def require_finite(samples: Samples, scheme: str, names: tuple[str, ...] = ("q", "dq", "tau")) -> None:
    """Raise UnfitDataError for the first row in which a signal of the scheme is missing.

    Parameters
    ----------
    samples : Samples
        Samples.
    scheme : str
        Name of the row scheme for the message.
    names : tuple of str
        Signals that it needs.

    Raises
    ------
    UnfitDataError
        If one is missing.

    """
    quantity = {"q": "position", "dq": "velocity", "ddq": "acceleration", "tau": "torque"}
    for name in names:
        bad = np.flatnonzero(~np.isfinite(getattr(samples, name)).all(axis=1))
        if len(bad):
            row = int(bad[0])
            raise UnfitDataError(
                "missing-signal",
                found=f"no {quantity[name]} for {scheme} rows",
                expected=f"{quantity[name]} of every joint at every sample",
                place=Place(row=samples.first + row, time=float(samples.t[row])),
            )


@dataclass(frozen=True)
class MomentumRows:
    """Filtered equations f2[tau] = (f1[P - P(0)] + f2[R]) theta, grouped by joint.

    P theta = M dq, R theta = -C' dq + g + friction.

    Parameters
    ----------
    cutoff : float, Hz
        Cutoff frequency of f2.
    degree : {1, 2}
        Relative degree of f2; 2 reduces noise of the velocity more than 1.
    hold : {"linear", "zero"}
        "zero" if torque is constant between samples, as a digital controller commands it.
    stick : float, rad/s (m/s)
        A joint at or below this speed may be held by dry friction of any value: its equation pauses, and restarts as
        f1[P - P(t)] when it slides again; 0 = it never sticks.

    Raises
    ------
    UsageError
        For options out of range. `equations` raises UnfitDataError if a signal is missing.

    References
    ----------
    Chavez-Olivares et al. 2012, eqs 12 to 14, with R in place of the misprinted eq. 34.

    """

    cutoff: float = option(5.0, "cutoff frequency of the equation filter", unit="Hz", above=0)
    degree: int = option(2, "relative degree of that filter", least=1, most=2)
    hold: Hold = "linear"
    stick: float = option(
        0.0, "a joint at or below this speed gives no equations", unit="rad/s or m/s", least=0
    )
    name: str = "momentum"

    def __post_init__(self) -> None:
        check_filter(self.cutoff, self.degree, self.hold)
        check_stick(self.stick)

    def groups(self, robot: RobotModel) -> tuple[str, ...]:
        """Names of the joints."""
        return robot.joint_names

    def equations(self, robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Equations:
        """One panel per joint: filtered columns and filtered torque, minus known torque."""
        require_finite(samples, self.name)
        f = CausalFilter(self.cutoff, self.degree, samples.rate)
        P, R = terms.momentum_form(robot, samples, wanted)
        known = terms.known_momentum(robot, samples)
        columns, panels = zip(
            *(filtered(f, (P, R), known, samples, j, self.hold, self.stick) for j in range(robot.n)),
            strict=True,
        )
        return Equations(columns, panels)


def filtered(
    f: CausalFilter,
    forms: tuple[Panels, Panels],
    known: tuple[Float, Float],
    samples: Samples,
    joint: int,
    hold: Hold,
    stick: float = 0.0,
) -> tuple[Int, Float]:
    """Columns and panel of one filtered equation.

    While the joint sticks, and at the first sample of each sliding run, the equation is 0 = 0.

    Parameters
    ----------
    f : CausalFilter
        Filter.
    forms : tuple of two Panels
        P and R of the model.
    known : tuple of two ndarray, shape (T, n)
        P and R of known torque.
    samples : Samples
        Samples.
    joint : int
        Joint.
    hold : {"linear", "zero"}
        Torque between samples.
    stick : float, rad/s (m/s)
        Speed at or below which the joint may stick.

    Returns
    -------
    columns : ndarray of int, shape (w,)
        Indices of the parameters.
    panel : ndarray, shape (w + 1, T)
        Lines of the columns, and of the torque.

    """
    P, R = forms
    union = np.union1d(P.columns[joint], R.columns[joint])
    momentum, force = (np.zeros((len(union) + 1, len(samples))) for _ in range(2))
    momentum[np.searchsorted(union, P.columns[joint])] = P.values[joint]
    force[np.searchsorted(union, R.columns[joint])] = R.values[joint]
    momentum[-1], force[-1] = -known[0][:, joint], -known[1][:, joint]
    panel = np.zeros((len(union) + 1, len(samples)))
    for part in sliding(samples, joint, stick):
        panel[:, part] = f.run(f.steps(momentum[:, part], force[:, part]))
        panel[-1:, part] += f.of_torque(samples.tau[None, part, joint], hold)
    return union, panel


def sliding(samples: Samples, joint: int, stick: float) -> list[slice]:
    """Runs of samples in which a joint slides.

    Parameters
    ----------
    samples : Samples
        Samples.
    joint : int
        Joint.
    stick : float, rad/s (m/s)
        Speed at or below which it may stick; 0 = it never sticks.

    Returns
    -------
    list of slice
        Runs; all usable samples for stick = 0.

    """
    start = begin(samples)
    if stick == 0:
        return [slice(start, len(samples))]
    moves = np.abs(samples.dq[start:, joint]) > stick
    # A reversal between two samples is a stop too.
    turns = np.diff(np.sign(samples.dq[start:, joint]), prepend=0.0) != 0
    edges = np.flatnonzero(np.diff(np.concatenate([[False], moves, [False]])))
    stretches = []
    for a, b in zip(edges[::2], edges[1::2], strict=True):
        cuts = [a, *(np.flatnonzero(turns[a + 1 : b]) + a + 1), b]
        stretches += [slice(start + int(x), start + int(y)) for x, y in pairwise(cuts) if y - x > 1]
    return stretches
