"""Resonance of elastic joints (spectral peaks of the residual above the motion's frequencies), and gear ripple."""

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

# Longest window in samples, and most windows.
LONGEST_WINDOW = 1024
MOST_WINDOWS = 64


def spectrum(parts: Sequence[Float], rate: float, shortest: int = 8) -> tuple[Float, Float, float]:
    """Estimate a power spectral density by Welch's method.

    Long runs with more than 64 windows are represented by evenly spread pieces.

    Parameters
    ----------
    parts : sequence of ndarray, each of shape (T_i,)
        Contiguous runs.
    rate : float
        Sample rate, Hz.
    shortest : int
        Shortest window in samples.

    Returns
    -------
    frequency, density : ndarray, shape (F,)
        Frequencies, Hz, and power spectral density averaged over the runs, weighted by length.
    count : float
        Number of independent windows.

    """
    longest = max(len(part) for part in parts)
    window = min(longest, max(2 ** int(np.log2(max(longest / 4, 8))), shortest), LONGEST_WINDOW)
    usable = _spread([part for part in parts if len(part) >= window], window)
    # Half-overlapping Hann windows have a squared correlation of 1/36 with each neighbour, so 18 of 19 are independent.
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


# Share of the velocities' power below the highest frequency of the motion: above it, residuals contain no errors at
# harmonics of the motion.
MOTION = 0.999
# Highest frequency of the search, as a share of the bandwidth.
HIGHEST = 0.85
# Least samples of a window, and least ratio of a peak to its neighbourhood.
LEAST_WINDOW = 32
LEAST_RATIO = 6.0
# Range of the search in raw torque: lowest frequency as a share of the bandwidth, highest as a share of the sample
# rate.
BEYOND, HIGHEST_RAW = 0.85, 0.45
# Neighbourhood of a peak, as a factor of its frequency on either side.
REACH = 1.6
# Excluded time around a reversal, in periods of the bandwidth, and excluded speed as a share of the top speed.
REVERSAL_CYCLES, REVERSAL_SPEED = 1.0, 0.02


@dataclass(frozen=True)
class Resonance:
    """Search for a narrow spectral peak of the residual above the frequencies of the motion."""

    identifier: str = "resonance"
    looks_at: str = "peaks in the residual's spectrum"

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """Report at most one finding per joint."""
        rate = analysis.residuals.rate
        runs = [run for run in analysis.runs if run.stop - run.start >= LEAST_WINDOW]
        findings = []
        motion = highest_motion(analysis, runs) if runs else 0.0
        # Errors of the friction model at reversals are impulses, and two of them produce a comb of peaks.
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
                findings.append(self._finding(analysis, joint, at, ratio, share, p_value, frequency, density))
        seen = {finding.joint for finding in findings}
        return findings + [candidate for candidate in self._beyond(analysis) if candidate.joint not in seen]

    def _beyond(self, analysis: ResidualAnalysis) -> list[Finding]:
        # Above the cutoff frequency there are no residuals, so the measured torque itself is searched.
        raw = analysis.raw
        if raw is None:
            return []
        findings = []
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
                findings.append(
                    _above(analysis, joint, at, ratio, power, share, p_value, frequency, density, inside)
                )
        return findings

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
            f"At this frequency the motion has no torque, but the residual's spectrum is {ratio:.3g} times that of "
            f"neighbouring frequencies: {figures(analysis, joint, share, p_value)}.",
            f"Elastic joint or base: keep the cutoff below {0.7 * at:.2g} Hz, or log both encoders and identify with "
            'rows = "elastic".',
            Evidence(share, p_value, curve=curve),
        )


def chance(windows: float, ratio: float, looks: int) -> float:
    """Compute the p-value of a peak: Bonferroni bound for noise averaged over K windows and several frequencies.

    For a single frequency, the probability that noise exceeds x times its expectation is Gamma(K, K x) / Gamma(K).
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
        f"At this frequency the spectrum of measured torque is {ratio:.3g} times that of neighbouring frequencies: "
        f"{100 * share:.2g} % of the power above the cutoff, {part:.2g} % of the torque.",
        Place(joint=name),
        title=f"{name}: rings at {at:.3g} Hz, above the cutoff",
        advice="Elastic joint, base, or a control loop: the filter keeps it out of the model. If your application uses "
        'these frequencies, log both encoders and identify with rows = "elastic".',
        evidence=Evidence(share, p_value, curve=curve),
    )


def highest_motion(analysis: ResidualAnalysis, runs: Sequence[slice]) -> float:
    """Highest frequency of the motion, Hz: 99.9 % of each joint's velocity power lies below it."""
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
    """Find the highest peak relative to its neighbourhood.

    Parameters
    ----------
    frequency, density : ndarray, shape (F,)
        Frequencies, Hz, and power spectral density.
    low, high : float
        Range of the search, Hz.

    Returns
    -------
    tuple or None
        Frequency of the peak, ratio to the neighbourhood, mask (F,) of its bins, and number of bins searched. None if
        there is no peak or too little to search.

    """
    searched = np.flatnonzero((frequency > low) & (frequency < high))
    if len(searched) < 8:
        return None
    ratios = np.zeros(len(searched))
    padded = np.pad(density, 2)
    summit = density >= np.lib.stride_tricks.sliding_window_view(padded, 5).max(axis=1)
    for i in np.flatnonzero(summit[searched]).tolist():
        k = searched[i]
        # Use the larger median of the two sides: on a steep slope, one side alone would exaggerate the peak.
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
    # np.median takes ten times as long for a few values, because it checks for nan and axes first.
    half = len(values) // 2
    if len(values) % 2:
        return float(np.partition(values, half)[half])
    low, high = np.partition(values, (half - 1, half))[half - 1 : half + 1]
    return float(0.5 * (low + high))


# Gear ripple: residual that is periodic in position, from teeth, wave generators or cogging.

# The filters remove ripple whose frequency in time exceeds this share of the bandwidth.
WITHIN = 0.7
# Least share of time in which the ripple passes the filters.
LEAST_TIME = 0.3
# Most spatial frequencies of the scan.
MOST_WAVES = 250
# Relative tolerance of a spatial frequency at a multiple of the gear ratio.
NEAR = 0.03
# Share of its top speed below which a joint is at rest.
STANDS = 1e-9
# Least share of the residual that ripple must explain in addition to a delay.
LEAST = 0.5 * LEAST_SHARE


@dataclass(frozen=True)
class GearRipple:
    """Scan all spatial frequencies that pass the filters, and test the strongest."""

    identifier: str = "gear-ripple"
    looks_at: str = "residual that is periodic in position"

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """Report at most one finding per joint."""
        findings = []
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
            # In repeated motion, late torque also looks like a function of position.
            late = columns_of(LATE_TORQUE, analysis.remains, joint)
            if effect is None or analysis.partial_share(joint, _pair(analysis, joint, best), late) < LEAST:
                continue
            # Waves that differ by less than one period over the whole range are not independent.
            tried = max(
                1.0, (waves[-1] - waves[0]) * float(np.ptp(analysis.motion.q[:, joint])) / (2 * np.pi)
            )
            p_value = min(effect.p_value * 2.0 * tried * len(analysis.joints), 1.0)
            share = float(effect.share[joint])
            if counts(share, p_value):
                size = float(np.hypot(*effect.coefficient))
                findings.append(self._finding(analysis, joint, best, size, share, p_value, waves, shares))
        return findings

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
            f"A ripple with amplitude {size:.3g} {unit(analysis, joint)} {where}{cause} explains "
            f"{figures(analysis, joint, share, p_value)}.",
            "In fast motion the ripple averages out and does not bias the parameters. If torque at low speed matters, "
            "lower the cutoff, move faster, or model it as a function of position (position_friction, channel).",
            Evidence(share, p_value, curve=curve),
        )


def wave_numbers(analysis: ResidualAnalysis, joint: int) -> Float:
    """Spatial frequencies that the motion and the filters can show, rad per rad (m) of position; empty if none."""
    q, dq = analysis.motion.q[:, joint], np.abs(analysis.motion.dq[:, joint])
    reach = float(np.ptp(q))
    moves = dq if analysis.counted is None else dq[analysis.counted[:, joint]]
    if not len(moves):
        return np.zeros(0)
    slow = np.quantile(moves, LEAST_TIME)
    # The filtered velocity of a joint that is nearly always at rest is only rounding error.
    if reach <= 0 or slow <= STANDS * dq.max():
        return np.zeros(0)
    # Require at least four periods within the range: a smooth function of position can fit fewer.
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
