"""A peak in the residual's spectrum where the motion has none: the joint's elasticity rings."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Curve, Evidence, Finding, Level
from dynid.base.errors import Place
from dynid.base.numerics import gamma_tail
from dynid.base.records import dataclass
from dynid.diagnosis.proof import columns_of
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import counts, figures, joint_finding, unit
from dynid.signals.filter import averaged_density
from dynid.terms.position_waves import HARMONICS
from dynid.terms.residual_tests import LEAST_SHARE
from dynid.terms.torque_delay import LATE_TORQUE

# Spectra of residuals over contiguous runs.

LONGEST_WINDOW = 1024
MOST_WINDOWS = 64


def spectrum(parts: Sequence[Float], rate: float, shortest: int = 8) -> tuple[Float, Float, float]:
    """Frequencies, power spectral density by Welch's method averaged over runs by their length, and windows averaged.

    parts: contiguous runs, each (T_i,).    rate: Hz.    shortest: samples of the least window.
    Of runs that hold more than 64 windows, stretches are taken that are spread evenly over them.
    """
    longest = max(len(part) for part in parts)
    window = min(longest, max(2 ** int(np.log2(max(longest / 4, 8))), shortest), LONGEST_WINDOW)
    usable = _spread([part for part in parts if len(part) >= window], window)
    # Hann windows that overlap by half share a 36th of their variance with each neighbour: 18 of 19 count.
    count = float(sum(max(1.0, (2 * len(part) / window - 1) * 18 / 19) for part in usable))
    return *averaged_density(usable, rate, window), count


def _spread(parts: Sequence[Float], window: int) -> list[Float]:
    total = sum(len(part) for part in parts)
    if total <= MOST_WINDOWS * window:
        return list(parts)
    stretch = 8 * window
    pieces = [part[a : a + stretch] for part in parts for a in range(0, len(part) - window + 1, stretch)]
    step = -(-sum(len(piece) for piece in pieces) // (MOST_WINDOWS * window))
    return [piece for piece in pieces[::step] if len(piece) >= window]


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

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
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

    def _beyond(self, analysis: ResidualAnalysis) -> list[Finding]:
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
    ) -> Finding:
        shown = (frequency > 0) & (frequency <= analysis.bandwidth)
        curve = Curve(
            "frequency, Hz",
            f"residual, ({unit(analysis, joint)})²/Hz",
            frequency[shown],
            density[shown],
            np.zeros(0),
            logarithmic=True,
        )
        return joint_finding(
            analysis,
            self.identifier,
            joint,
            f"rings at {at:.3g} Hz",
            f"The residual's spectrum stands {ratio:.3g} times above its neighbourhood there, where the motion has no "
            f"torque: {figures(analysis, joint, share, p_value)}.",
            f"Elastic joint or base: keep the cut-off below {0.7 * at:.2g} Hz, or log both encoders and identify with "
            'rows = "elastic".',
            Evidence(share, p_value, curve=curve),
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
) -> Finding:
    name = analysis.robot.joint_names[joint]
    part = 100 * np.sqrt(power) / max(float(analysis.torque_rms[joint]), 1e-300)
    curve = Curve(
        "frequency, Hz",
        f"measured torque, ({unit(analysis, joint)})²/Hz",
        frequency[inside],
        density[inside],
        np.zeros(0),
        logarithmic=True,
    )
    return Finding(
        Level.NOTE,
        Resonance.identifier,
        f"Measured torque stands {ratio:.3g} times above its neighbourhood there: {100 * share:.2g} % of what lies "
        f"above the cut-off, {part:.2g} % of the torque.",
        Place(joint=name),
        title=f"{name}: rings at {at:.3g} Hz, above the cut-off",
        advice="Elastic joint, base, or a control loop: the filter keeps it out of the model. Who works at such "
        'frequencies needs it: log both encoders and identify with rows = "elastic".',
        evidence=Evidence(share, p_value, curve=curve),
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


# Residual that is periodic in position: teeth, wave generators, cogging.

# A wave whose frequency, while the joint passes, exceeds this share of the bandwidth has been filtered away.
WITHIN = 0.7
LEAST_TIME = 0.3
MOST_WAVES = 250
NEAR = 0.03
# Of a joint's top speed, below which nothing moves.
STANDS = 1e-9
# Share of the residual that a wave has to explain on top of a delay.
LEAST = 0.5 * LEAST_SHARE


@dataclass(frozen=True)
class GearRipple:
    """Scans waves in position, as many a turn as the filter lets through, and tests the strongest."""

    identifier: str = "gear-ripple"
    looks_at: str = "residual that is periodic in position"

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """At most one finding a joint."""
        found = []
        for joint in analysis.joints:
            waves = wave_numbers(analysis, joint)
            if not len(waves):
                continue
            shares = np.concatenate(
                [
                    analysis.shares(joint, np.stack([_pair(analysis, joint, k) for k in part], axis=1))
                    for part in np.array_split(waves, -(-len(waves) // 50))
                ]
            )
            best = float(waves[int(np.argmax(shares))])
            effect = analysis.test_joint(joint, _pair(analysis, joint, best))
            # Late torque repeats with the motion and so looks like a wave as well, if a poor one.
            late = columns_of(LATE_TORQUE, analysis.remains, joint)
            if effect is None or analysis.partial_share(joint, _pair(analysis, joint, best), late) < LEAST:
                continue
            # Waves that differ by less than a period over the whole range are one and the same.
            tried = max(
                1.0, (waves[-1] - waves[0]) * float(np.ptp(analysis.motion.q[:, joint])) / (2 * np.pi)
            )
            p_value = min(effect.p_value * 2.0 * tried * len(analysis.joints), 1.0)
            share = float(effect.share[joint])
            if counts(share, p_value):
                size = float(np.hypot(*effect.coefficient))
                found.append(self._finding(analysis, joint, best, size, share, p_value, waves, shares))
        return found

    def _finding(
        self,
        analysis: ResidualAnalysis,
        joint: int,
        wave: float,
        size: float,
        share: float,
        p_value: float,
        waves: Float,
        shares: Float,
    ) -> Finding:
        slides = analysis.robot.prismatic[joint]
        where = (
            f"every {1e3 * 2 * np.pi / wave:.4g} mm" if slides else f"{wave:.4g} times a turn of the joint"
        )
        cause = _cause(wave, abs(float(analysis.robot.drive.gear_ratio[joint])), slides)
        curve = Curve(
            "waves a metre" if slides else "waves a turn",
            "share of the residual",
            waves / (2 * np.pi) if slides else waves,
            shares,
            np.zeros(0),
        )
        return joint_finding(
            analysis,
            self.identifier,
            joint,
            "torque ripple of the gear",
            f"A wave of {size:.3g} {unit(analysis, joint)} {where}{cause} explains "
            f"{figures(analysis, joint, share, p_value)}.",
            "It averages out in the parameters over fast motion. Lower the cut-off, move faster, or give it as a "
            "function of position (position_friction, channel) if the torque at low speed matters.",
            Evidence(share, p_value, curve=curve),
        )


def wave_numbers(analysis: ResidualAnalysis, joint: int) -> Float:
    """Wave numbers k, rad of wave a rad (m) of position, that the motion and the filter can show; () = none."""
    q, dq = analysis.motion.q[:, joint], np.abs(analysis.motion.dq[:, joint])
    reach = float(np.ptp(q))
    moves = dq if analysis.counted is None else dq[analysis.counted[:, joint]]
    if not len(moves):
        return np.zeros(0)
    slow = np.quantile(moves, LEAST_TIME)
    # A joint that stands for nearly all of the time keeps what a filter leaves of its motion.
    if reach <= 0 or slow <= STANDS * dq.max():
        return np.zeros(0)
    # Four waves within the range at least, else a slow function of position says the same.
    lowest = max(8 * np.pi / reach, 0.0 if analysis.robot.prismatic[joint] else HARMONICS + 1.0)
    highest = WITHIN * 2 * np.pi * analysis.bandwidth / slow
    count = int(np.clip((highest - lowest) * reach / np.pi, 0, MOST_WAVES))
    if count < 2:
        return np.zeros(0)
    return np.asarray(lowest + np.arange(count) * np.pi / reach)


def _pair(analysis: ResidualAnalysis, joint: int, wave: float) -> Float:
    q, dq = analysis.motion.q[:, joint], np.abs(analysis.motion.dq[:, joint])
    passes = wave * dq < WITHIN * 2 * np.pi * analysis.bandwidth
    return np.stack([np.sin(wave * q), np.cos(wave * q)], axis=1) * passes[:, None]


def _cause(wave: float, ratio: float, slides: bool) -> str:
    if slides or ratio <= 1:
        return ""
    for times, words in ((1, "once a turn of the motor"), (2, "twice a turn of the motor, as wave gears do")):
        if abs(wave / (times * ratio) - 1.0) < NEAR:
            return f" ({words})"
    return ""
