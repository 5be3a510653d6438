"""A peak in the residual's spectrum where the motion has none: the joint's elasticity rings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.distributions import gamma_tail
from dynid.base.records import dataclass
from dynid.diagnosis.finding import Curve, ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.spectra import spectrum
from dynid.diagnosis.wording import counts, figures, level, unit

# Share of the velocities' power below: beyond it residuals are not errors at the motion's own harmonics.
MOTION = 0.999
HIGHEST = 0.85
LEAST_WINDOW = 32
LEAST_RATIO = 6.0
BEYOND, HIGHEST_RAW = 0.85, 0.45
# The neighbourhood of a peak, as a factor of its frequency to either side.
REACH = 1.6
REVERSAL_CYCLES, REVERSAL_SPEED = 1.0, 0.02


@dataclass(frozen=True)
class Resonance:
    """Looks above the motion's own frequencies for a line that stands out of its neighbourhood."""

    identifier: str = "resonance"
    looks_at: str = "peaks in the residual's spectrum"

    def look(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
        """At most one finding a joint."""
        rate = analysis.residuals.rate
        runs = [run for run in analysis.runs if run.stop - run.start >= LEAST_WINDOW]
        found = []
        motion = highest_motion(analysis, runs) if runs else 0.0
        # Steps of friction that the model draws otherwise are impulses; two of them make a comb of peaks.
        near = analysis.near_reversal(REVERSAL_CYCLES / analysis.bandwidth, REVERSAL_SPEED)
        ringing = np.where(near, 0.0, analysis.residuals.error_counted)
        for joint in analysis.joints if runs else ():
            frequency, density, windows = spectrum([ringing[run, joint] for run in runs], rate, LEAST_WINDOW)
            peak = highest_peak(frequency, density, 1.2 * motion, HIGHEST * analysis.bandwidth)
            if peak is None:
                continue
            at, ratio, width, bins = peak
            p_value = chance(windows, ratio, bins * len(analysis.joints))
            power = np.sum(density[width]) / max(float(np.sum(density)), 1e-300)
            share = float(power * (1.0 - 1.0 / ratio))
            if ratio >= LEAST_RATIO and counts(share, p_value):
                found.append(self._finding(analysis, joint, at, ratio, share, p_value, frequency, density))
        seen = {finding.joint for finding in found}
        return found + [one for one in self._beyond(analysis) if one.joint not in seen]

    def _beyond(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
        # Above the cut-off the torque itself is all that there is; the model has no part in it.
        raw = analysis.raw
        if raw is None:
            return []
        found = []
        for joint in analysis.joints:
            frequency, density, windows = spectrum(
                [part[:, joint] for part in raw.parts], raw.rate, LEAST_WINDOW
            )
            low, high = BEYOND * analysis.bandwidth, HIGHEST_RAW * raw.rate
            peak = highest_peak(frequency, density, low, high)
            if peak is None:
                continue
            at, ratio, width, bins = peak
            p_value = chance(windows, ratio, bins * len(analysis.joints))
            inside = (frequency > low) & (frequency < high)
            power = float(density[width].sum() * frequency[1]) * (1.0 - 1.0 / ratio)
            share = power / max(float(density[inside].sum() * frequency[1]), 1e-300)
            if ratio >= LEAST_RATIO and counts(share, p_value):
                found.append(
                    _above(analysis, joint, at, ratio, power, share, p_value, frequency, density, inside)
                )
        return found

    def _finding(
        self,
        analysis: ResidualAnalysis,
        joint: int,
        at: float,
        ratio: float,
        share: float,
        p_value: float,
        frequency: Float,
        density: Float,
    ) -> ResidualFinding:
        name = analysis.robot.joint_names[joint]
        shown = (frequency > 0) & (frequency <= analysis.bandwidth)
        return ResidualFinding(
            self.identifier,
            level(analysis, joint, share),
            name,
            f"{name}: rings at {at:.3g} Hz",
            f"The residual's spectrum stands {ratio:.3g} times above its neighbourhood there, where the motion has no "
            f"torque: {figures(analysis, joint, share, p_value)}.",
            f"Elastic joint or base: keep the cut-off below {0.7 * at:.2g} Hz, or log both encoders and identify with "
            'rows = "elastic".',
            share,
            p_value,
            curve=Curve(
                "frequency, Hz",
                f"residual, ({unit(analysis, joint)})²/Hz",
                frequency[shown],
                density[shown],
                np.zeros(0),
                logarithmic=True,
            ),
        )


def chance(windows: float, ratio: float, looks: int) -> float:
    """Chance that a mean of K windows of noise exceeds x times its expectation in any of so many looks.

    Gamma(K, K x) / Gamma(K) for one look.
    """
    return min(float(gamma_tail(windows, windows * ratio)) * looks, 1.0)


def _above(
    analysis: ResidualAnalysis,
    joint: int,
    at: float,
    ratio: float,
    power: float,
    share: float,
    p_value: float,
    frequency: Float,
    density: Float,
    inside: Bool,
) -> ResidualFinding:
    name = analysis.robot.joint_names[joint]
    part = 100 * np.sqrt(power) / max(float(analysis.torque_rms[joint]), 1e-300)
    return ResidualFinding(
        Resonance.identifier,
        "note",
        name,
        f"{name}: rings at {at:.3g} Hz, above the cut-off",
        f"Measured torque stands {ratio:.3g} times above its neighbourhood there: {100 * share:.2g} % of what lies "
        f"above the cut-off, {part:.2g} % of the torque.",
        "Elastic joint, base, or a control loop: the filter keeps it out of the model. Who works at such frequencies "
        'needs it: log both encoders and identify with rows = "elastic".',
        share,
        p_value,
        curve=Curve(
            "frequency, Hz",
            f"measured torque, ({unit(analysis, joint)})²/Hz",
            frequency[inside],
            density[inside],
            np.zeros(0),
            logarithmic=True,
        ),
    )


def highest_motion(analysis: ResidualAnalysis, runs: Sequence[slice]) -> float:
    """Frequency, Hz, below which all but a thousandth of the fastest joint's velocity lies."""
    highest = 0.0
    for joint in analysis.joints:
        frequency, density, _ = spectrum(
            [analysis.residuals.dq[run, joint] for run in runs], analysis.residuals.rate, LEAST_WINDOW
        )
        cumulative = np.cumsum(density)
        highest = max(highest, float(frequency[int(np.searchsorted(cumulative, MOTION * cumulative[-1]))]))
    return highest


def highest_peak(
    frequency: Float, density: Float, low: float, high: float
) -> tuple[float, float, Bool, int] | None:
    """Frequency, height over the neighbourhood, bins that belong to it and bins searched; None = nothing to search.

    frequency, density: (F,) of the residual, searched between low and high, Hz.
    """
    searched = np.flatnonzero((frequency > low) & (frequency < high))
    if len(searched) < 8:
        return None
    ratios = np.zeros(len(searched))
    padded = np.pad(density, 2)
    summit = density >= np.lib.stride_tricks.sliding_window_view(padded, 5).max(axis=1)
    for i in np.flatnonzero(summit[searched]).tolist():
        k = searched[i]
        # Where density falls steeply one side alone would flatter: the greater of both sides' medians is taken.
        low_side = density[max(1, int(k / REACH)) : k - 2]
        high_side = density[k + 3 : int(k * REACH) + 1]
        if min(len(low_side), len(high_side)) >= 3:
            ratios[i] = density[k] / max(_median(low_side), _median(high_side), 1e-300)
    if not ratios.any():
        return None
    best = int(np.argmax(ratios))
    width: Bool = np.abs(np.arange(len(frequency)) - searched[best]) <= 2
    return float(frequency[searched[best]]), float(ratios[best]), width, len(searched)


def _median(values: Float) -> float:
    # That of NumPy, which takes ten times as long on so few: it asks for nan and for axes first.
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(0.5 * (low + high))
