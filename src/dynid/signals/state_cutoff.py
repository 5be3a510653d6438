"""Cutoff frequencies of positions per joint: lower where noise exceeds motion, higher where torque allows it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.coherence import Signals, held_out_misfits
from dynid.signals.filter import (
    HIGHEST_SHARE,
    averaged_density,
    first_difference,
    low_passed,
    pair_density,
    zero_phase_filter,
)
from dynid.signals.settings import ByJoint, Preparation

# Which velocity to use, per joint: the derivative of the position, the logged velocity, or both.

WINDOW_SECONDS = 4.0  # s: spectra resolve 0.25 Hz
LEAST_ROWS = 64  # shorter stretches show no spectrum
CROSSOVER_ORDER = 2  # low, so that the two velocities blend over an octave
MOVED = 2e-3  # rad or m: travel above which a constant velocity counts as not measured
LOWEST_CROSSOVER = 1.0  # Hz: lower ones need seconds to settle, and there both velocities hardly differ
WORTH = 0.8  # a replacement must reduce the noise to at most this share
NEGLIGIBLE = 0.02  # of the acceleration's power: noise of the logged velocity up to this share is accepted
# Squared coherence, and share of the peak, above which the phase shows the delay of the logged velocity.
AGREE, STRONG = 0.9, 0.01


@dataclass(frozen=True, eq=False)
class VelocityEvidence:
    """Noise of the accelerations from both velocities, below the cutoff frequency of the positions.

    Attributes
    ----------
    joint_names : tuple of str
        Names of the joints.
    derivative, logged : ndarray, shape (n,), rad/s^2 or m/s^2
        R.m.s. noise of the acceleration from the derivative of the position and from the logged velocity.
    delay : ndarray, shape (n,), s
        Delay of the logged velocity after the derivative of the position.
    crossover : ndarray, shape (n,), Hz
        Frequency below which the derivative is used and above which the logged velocity: 0 = the logged velocity
        alone, the sampling rate = the derivative alone.
    rate : float, Hz
        Sampling rate.

    """

    joint_names: tuple[str, ...]
    derivative: Float
    logged: Float
    delay: Float
    crossover: Float
    rate: float

    @property
    def reason(self) -> str:
        """The choice in words."""
        alone, dropped = self.crossover == 0, self.crossover >= self.rate
        parts = []
        for chosen, text in (
            (alone, "the logged velocity is used"),
            (dropped, "the logged velocity is dropped and positions are differentiated"),
            (
                ~alone & ~dropped,
                "the position is differentiated below a crossover frequency and the logged velocity used above it",
            ),
        ):
            if chosen.any():
                parts.append(f"{text}{self._for_joints(chosen)}")
        return "; ".join(parts)

    def _for_joints(self, chosen: Bool) -> str:
        names = [name for name, c in zip(self.joint_names, chosen, strict=True) if c]
        mean = [float(np.sqrt(np.mean(x[chosen] ** 2))) for x in (self.logged, self.derivative)]
        whose = "" if chosen.all() else f" for {', '.join(names)}"
        return f"{whose} (noise of the acceleration: {mean[0]:.2g} logged, {mean[1]:.2g} differentiated)"

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder."""
        return {
            "joints": list(self.joint_names),
            "derivative_noise": self.derivative.tolist(),
            "logged_noise": self.logged.tolist(),
            "delay_s": self.delay.tolist(),
            "crossover_hz": self.crossover.tolist(),
        }


def compare_velocities(
    parts: Sequence[Signals], rate: float, cutoff: float, order: int, joint_names: tuple[str, ...]
) -> VelocityEvidence | None:
    """Compare the noise of the logged velocity with that of the differentiated position, per joint.

    Both measure the same velocity v with independent noise, a = v + n_a and b = v + n_b. At each frequency the
    cross-spectrum is the common part, C = Re(S_ab exp(i w d)), hence N_a = S_aa - C and N_b = S_bb - C. No noise floor
    is assumed: quantised positions, velocity steps, repeated rows and scattered stamps all count, as far as the filter
    passes them. The delay d of b after a is the slope of the phase where both agree. It adds C |1 - exp(-i w d)|^2 to
    N_b, since a delayed velocity does not match position and torque.

    The noise of the acceleration, w^2 N after the filter, decides. The logged velocity is used where its noise is below
    2 % of the acceleration's power. Elsewhere the derivative is used, or both with a crossover frequency (the
    derivative's noise grows with frequency, the logged velocity's does not) if that reduces the noise to 0.8 of the
    simpler choice. A logged velocity that never changes while its joint moves is not used.

    `parts`: uniform stretches of the log; `rate` in Hz: sampling rate; `cutoff` in Hz: cutoff frequency of the
    positions; `order`: order of this filter. Result: the comparison; None without a logged velocity or enough rows.

    References
    ----------
    Bendat and Piersol 2010, chapter 7: cross-spectra of two sensors of one signal.

    """
    usable = [p for p in parts if p.dq is not None and p.q.shape[1] >= LEAST_ROWS]
    if not usable:
        return None
    size = int(min(max(p.q.shape[1] for p in usable), WINDOW_SECONDS * rate))
    frequency, sums = np.zeros(0), np.zeros(0)
    for part in usable:
        if part.q.shape[1] < size or part.dq is None:
            continue
        a = first_difference(part.q, rate)
        frequency, aa, bb, ab = pair_density(a, part.dq, rate, size)
        weighted = part.q.shape[1] * np.array([aa + 0j, bb + 0j, ab])
        sums = weighted if not sums.size else sums + weighted
    aa, bb, ab = sums[0].real, sums[1].real, sums[2]
    w = 2.0 * np.pi * frequency
    weight = w**2 * (frequency > 0)
    if cutoff < 0.45 * rate:
        weight = weight * zero_phase_filter(cutoff, order, rate).gain(frequency) ** 2
    delay = _delay(aa, bb, ab, w, frequency <= cutoff)
    shared = (ab * np.exp(1j * w * delay[:, None])).real
    dead = _dead(usable)[:, None]
    shared = np.where(dead, aa, shared)
    late = np.maximum(shared, 0.0) * np.abs(1.0 - np.exp(-1j * w * delay[:, None])) ** 2
    from_position = weight * (aa - shared)
    from_velocity = weight * np.where(dead, aa, bb - shared + late)
    crossover = np.array(
        [
            _crossover(frequency, x, y, cutoff, rate, float((weight * s).sum()))
            for x, y, s in zip(from_position, from_velocity, shared, strict=True)
        ]
    )
    width = float(frequency[1]) / sum(p.q.shape[1] for p in usable if p.q.shape[1] >= size)
    return VelocityEvidence(
        joint_names,
        np.sqrt(np.maximum(from_position.sum(axis=1) * width, 0.0)),
        np.sqrt(np.maximum(from_velocity.sum(axis=1) * width, 0.0)),
        delay,
        crossover,
        rate,
    )


def fused(q: Float, dq: Float, rate: float, crossover: Sequence[float] | None) -> Float:
    """Velocities (n, T): `dq` above each joint's crossover frequency (Hz), the derivative of `q` below it."""
    if crossover is None or not any(crossover):
        return dq
    used = dq.copy()
    slope = first_difference(q, rate)
    for j, at in enumerate(crossover):
        if at >= 0.5 * rate:  # also a crossover chosen for a log with another rate
            used[j] = slope[j]
        elif at > 0:
            low = zero_phase_filter(at, CROSSOVER_ORDER, rate)
            used[j] += low(np.ascontiguousarray(slope[j : j + 1] - dq[j : j + 1]))[0]
    return used


def settling(rate: float, crossover: Sequence[float] | None) -> int:
    """Samples that the crossover filters need on each side."""
    between = [at for at in crossover or () if 0 < at < 0.5 * rate]
    return max((zero_phase_filter(at, CROSSOVER_ORDER, rate).settling + 2 for at in between), default=2)


def _delay(aa: Float, bb: Float, ab: Float, w: Float, inside: Bool) -> Float:
    # Slope of the phase by least squares, weighted by the cross-spectrum, where both velocities agree.
    shared = np.abs(ab) * inside
    with np.errstate(divide="ignore", invalid="ignore"):
        agree = np.where(aa * bb > 0, shared**2 / (aa * bb), 0.0) > AGREE
    strength = shared * (agree & (shared > STRONG * shared.max(axis=1, keepdims=True)))
    total = (strength * w**2).sum(axis=1)
    slope = (strength * w * np.angle(ab)).sum(axis=1)
    return np.asarray(np.where(total > 0, -slope / np.where(total > 0, total, 1.0), 0.0))


def _dead(parts: Sequence[Signals]) -> Bool:
    """(n,) joints that move while their logged velocity never changes: a channel that nobody fills."""
    moved = np.max([np.ptp(part.q, axis=1) for part in parts], axis=0) > MOVED
    still = np.max([np.ptp(part.dq, axis=1) for part in parts if part.dq is not None], axis=0) == 0
    return np.asarray(moved & still)


def _crossover(
    frequency: Float, position: Float, velocity: Float, cutoff: float, rate: float, signal: float
) -> float:
    logged, derivative = float(velocity.sum()), float(position.sum())
    if logged <= NEGLIGIBLE * signal:
        return 0.0
    best, least = (rate, derivative) if derivative < WORTH**2 * logged else (0.0, logged)
    candidates = [float(f) for f in frequency if LOWEST_CROSSOVER <= f < cutoff]
    noise = [float(position[frequency < at].sum() + velocity[frequency >= at].sum()) for at in candidates]
    if noise and min(noise) < WORTH**2 * least:
        return candidates[int(np.argmin(noise))]
    return best


# Band, as shares of the sampling rate, in which no arm moves, so that the spectrum is white noise.
FLOOR_BAND = (0.25, 0.45)
LEAST_WINDOW = 256  # samples of a spectrum
# Share of noise in the acceleration's power up to which nothing is filtered: it biases an inertia by the same share,
# and a thousandth shows in no log.
STATE_CUTOFF_NEGLIGIBLE = 1e-3
STEPS_AN_OCTAVE = 4  # of the cutoff frequencies that are tried
LOWEST = 1.0  # Hz: slower filters need seconds to settle
HIGHEST_STATE = 0.4  # of the sampling rate: above it the grid itself is the filter
# Periods of the filter that are left out at the ends of windows, and fewest blocks of held-out torque for a decision.
EDGE_PERIODS, LEAST_BLOCKS = 1.5, 6
BEYOND_CHANCE = 2.0  # standard errors
# Variance of a sum of spectral lines with Hann's window over that of independent lines: neighbours are correlated.
NEIGHBOURS = 35.0 / 18.0
# Share of the log that may be left out at the ends of its segments, one period of the filter at each.
SPARED = 0.1
# Multiple of the cutoff frequency of the parallel filter, which removes noise above its own cutoff from both sides. At
# a quarter of its cutoff a fourth-order zero-phase filter attenuates by 15 ppm, so that the sign of the velocity stays
# sharp.
SHARPER = 4.0


@dataclass(frozen=True, eq=False)
class StateCutoffs:
    """Cutoff frequencies of the filter before differentiation, and the evidence for them.

    Attributes
    ----------
    joint_names : tuple of str
        Names of the joints.
    common : float, Hz
        Cutoff frequency of the parallel filter; joints with negligible noise have this or a higher one.
    chosen : ndarray, shape (n,), Hz
        Cutoff frequency of each joint.
    noise, left : ndarray, shape (n,)
        Share of noise in the acceleration's power after both filters, at the common and at the chosen frequency. For
        higher ones both are equal, since the parallel filter removes what lies above.

    """

    joint_names: tuple[str, ...]
    common: float
    chosen: Float
    noise: Float
    left: Float

    @property
    def reason(self) -> str:
        """The choice in words."""
        parts = [
            f"'{name}' at {at:.2g} Hz (noise in its acceleration's power {100 * after:.2g} % instead of "
            f"{100 * before:.2g} %)"
            for name, at, before, after in zip(
                self.joint_names, self.chosen, self.noise, self.left, strict=True
            )
            if at < self.common
        ]
        lowered = f"lower where noise exceeds motion, {', '.join(parts)}" if parts else ""
        names = [f"'{n}'" for n, at in zip(self.joint_names, self.chosen, strict=True) if at > self.common]
        raised = (
            f"at {self.chosen.max():.3g} Hz where torque is predicted as well, {', '.join(names)}"
            if names
            else ""
        )
        return (
            f"positions are low-passed before differentiation: {'; '.join(filter(None, (lowered, raised)))}"
        )

    @property
    def differ(self) -> bool:
        """Whether any joint has a lower cutoff frequency than the common one."""
        return bool((self.chosen < self.common).any())

    def describe(self) -> dict[str, Any]:
        """Plain data for the run folder."""
        return {
            "joints": list(self.joint_names),
            "state_cutoff_hz": self.chosen.tolist(),
            "common_hz": self.common,
            "noise_at_common": self.noise.tolist(),
            "noise_at_chosen": self.left.tolist(),
        }


def named_cutoffs(named: ByJoint, joint_names: Sequence[str]) -> Float:
    """Cutoff frequencies (n,) of positions in the settings, in Hz; nan = automatic.

    Raises UsageError for a joint that the robot lacks, or a wrong number of frequencies.
    """
    if isinstance(named, dict):
        strange = [joint for joint in named if joint not in joint_names]
        if strange:
            raise UsageError(
                "unknown-joint",
                found=f"prepare.state_cutoff of joint '{strange[0]}'",
                expected="one of " + ", ".join(joint_names),
            )
        return np.array([named.get(joint, np.nan) for joint in joint_names])
    if isinstance(named, Sequence) and not isinstance(named, str) and len(named) != len(joint_names):
        raise UsageError(
            "joint-count",
            found=f"prepare.state_cutoff of {len(named)} numbers",
            expected=f"{len(joint_names)}, in the order {', '.join(joint_names)}",
        )
    asked = np.nan if isinstance(named, str) else named
    return np.array(np.broadcast_to(np.asarray(asked, dtype=np.float64), len(joint_names)))


def common_cutoff(cutoff: float, rate: float) -> float:
    """Cutoff frequency (Hz) of positions that are filtered as the equations are, at a sampling rate (Hz)."""
    return min(cutoff, HIGHEST_STATE * rate)


def sharper_cutoff(cutoff: float, rate: float) -> float:
    """Cutoff frequency (Hz) of positions that are filtered less than the equations, at a sampling rate (Hz)."""
    return min(SHARPER * cutoff, HIGHEST_STATE * rate)


def choose_state_cutoffs(
    parts: Sequence[Signals],
    rate: float,
    common: float,
    settings: Preparation,
    joint_names: tuple[str, ...],
) -> StateCutoffs:
    """Lower the cutoff frequency of each joint to the least error of its acceleration, where noise matters.

    The signal that is differentiated m times (a position twice, a velocity once) has the spectral density P = S + N;
    the median of P between 0.25 and 0.45 of the rate is the noise N. A low pass of gain H before the parallel filter of
    gain G leaves noise in the acceleration and removes signal from it,

        E(H) = sum_f w^(2m) G^2 (H^2 N + (1 - H)^2 (P - N)),

    as in Wiener's filter. Remaining noise biases inertias towards zero, since it is in the regressor; lost signal does
    not. Of the frequencies whose error equals the least within the scatter of the spectrum, the lowest is chosen.
    Candidates lie below `common` in quarters of an octave, not below 1 Hz, and not where a tenth of the log would be
    lost at the ends of its segments. Joints whose noise is below a thousandth of the acceleration's power keep the
    common frequency.

    `parts`, `rate`, `joint_names`: as for `compare_velocities`; `common` in Hz: cutoff frequency of the parallel
    filter; `settings`: settings with cutoff frequency, orders and velocity resolved.

    References
    ----------
    Wiener 1949. Fuller 1987, section 1.1: errors in the regressor.

    """
    measured, cutoff = settings.velocity == "measured", float(settings.cutoff)
    times = 1 if measured else 2
    lines = [
        part.q if part.dq is None or not measured else fused(part.q, part.dq, rate, settings.crossover)
        for part in parts
    ]
    n, seconds = len(joint_names), np.array([line.shape[1] / rate for line in lines])
    nothing = StateCutoffs(joint_names, common, np.full(n, common), np.zeros(n), np.zeros(n))
    size = int(min(max(x.shape[1] for x in lines) - times, max(LEAST_WINDOW, WINDOW_SECONDS * rate)))
    if size < LEAST_WINDOW or common >= HIGHEST_SHARE * rate:
        return nothing
    steps = [np.diff(x, times, axis=1) for x in lines if x.shape[1] >= size + times]
    frequency, density = averaged_density(steps, rate, size)
    # Spectra of differences, so that slow motion does not leak to high frequencies; their gain is divided out below.
    step_gain = 2.0 * np.sin(np.pi * frequency / rate)
    inside = (frequency > 0) & (frequency < HIGHEST_SHARE * rate)
    frequency, density = frequency[inside], density[:, inside] / step_gain[inside] ** (2 * times)
    floor = np.median(density[:, frequency >= FLOOR_BAND[0] * rate], axis=1)
    weight = (2.0 * np.pi * frequency) ** (2 * times)
    if cutoff < HIGHEST_SHARE * rate:
        weight = weight * zero_phase_filter(cutoff, settings.order, rate).gain(frequency) ** 2
    least = max(LOWEST, 2.0 * len(seconds) / (SPARED * float(seconds.sum())))
    octaves = np.log2(max(common / least, 1.0))
    candidates = common * 2.0 ** (-np.arange(int(STEPS_AN_OCTAVE * octaves) + 1) / STEPS_AN_OCTAVE)
    gains = np.array(
        [zero_phase_filter(float(c), settings.state_order, rate).gain(frequency) for c in candidates]
    )
    noise = np.outer((weight * gains**2).sum(axis=1), floor)
    lost = (weight * (1.0 - gains) ** 2) @ (density - floor[:, None]).T
    power = (weight * gains**2) @ density.T
    with np.errstate(divide="ignore", invalid="ignore"):
        share = np.where(power > 0, noise / power, 0.0)
    # Spectra scatter, so that the lowest frequency whose error equals the least within the scatter leaves the least
    # noise.
    least_error = np.argmin(noise + lost, axis=0)
    count = sum(max(2 * x.shape[1] // size - 1, 1) for x in steps)
    best = least_error.copy()
    for j, k in enumerate(least_error):
        differ = weight * ((1.0 - gains) ** 2 - (1.0 - gains[k]) ** 2)
        scatter = floor[j] * np.sqrt(NEIGHBOURS * (differ**2).sum(axis=1) / count)
        within = noise[:, j] + lost[:, j] <= noise[k, j] + lost[k, j] + BEYOND_CHANCE * scatter
        best[j] = np.flatnonzero(within)[-1]
    best = np.where(share[0] > STATE_CUTOFF_NEGLIGIBLE, best, 0)
    chosen = np.array([float(f"{candidates[k]:.2g}") if k else common for k in best])
    return StateCutoffs(joint_names, common, chosen, share[0], share[best, np.arange(n)])


def confirmed_by_torque(
    proposed: StateCutoffs,
    robot: RobotModel,
    parts: Sequence[Signals],
    rate: float,
    settings: Preparation,
) -> StateCutoffs:
    """Keep lower cutoff frequencies that improve the prediction of the joint's torque; reset the others.

    High-frequency motion may be real: a drive reacts to the noise of its encoder, and an arm may vibrate. The torque
    then follows it, and filtering it out worsens the prediction. For each joint a trial model is fitted with and
    without the lower frequency. The mean log ratio of both errors on held-out blocks must lie two standard errors below
    zero. Arguments as in `choose_state_cutoffs`; `parts` also has torques.
    """
    n = len(proposed.joint_names)
    common = np.full(n, proposed.common)
    trial = _Trial(robot, parts, rate, settings, proposed.common, EDGE_PERIODS / float(proposed.chosen.min()))
    before = trial.misfits(common)
    kept = np.zeros(n, dtype=np.bool_)
    for j in np.flatnonzero(proposed.chosen < proposed.common) if len(before) >= LEAST_BLOCKS else ():
        mean, error = _log_ratio(before, trial.misfits(np.where(np.arange(n) == j, proposed.chosen, common)))
        kept[j] = bool(mean[j] < -BEYOND_CHANCE * error[j])
    return replace(
        proposed,
        chosen=np.where(kept, proposed.chosen, common),
        left=np.where(kept, proposed.left, proposed.noise),
    )


def raised_beside_torque(
    proposed: StateCutoffs,
    robot: RobotModel,
    parts: Sequence[Signals],
    rate: float,
    settings: Preparation,
    named: Float,
) -> StateCutoffs:
    """Raise cutoff frequencies from the common one to SHARPER times it, unless it worsens a joint's prediction.

    The parallel filter removes noise above the common frequency from both sides of the equations. A filter of the
    positions at the same frequency also removes signal below it, from one side alone, and smears the sign of the
    velocity on which friction depends. It helps only if the velocity noise is as large as the speed over which friction
    changes sign. A trial model whose friction changes sign over the default speed is therefore fitted with both.

    A joint keeps the common frequency if the mean log ratio of both errors on held-out blocks lies two standard errors
    above zero, or if it moves in fewer than two blocks. All joints keep it in a log with too few blocks. If some keep
    it, the others are tested once more with these unchanged. `named` has the frequencies (n,) from the settings in Hz,
    nan = automatic; the other arguments are those of `confirmed_by_torque`.

    References
    ----------
    Khalil and Dombre 2002, section 12.4.2: both filters.

    """
    higher = sharper_cutoff(float(settings.cutoff), rate)
    low = np.where(np.isnan(named), proposed.chosen, named)
    raised = np.isnan(named) & (proposed.chosen == proposed.common) & (higher > proposed.common)
    if not raised.any():
        return proposed
    trial = _Trial(robot, parts, rate, settings, higher, EDGE_PERIODS / float(low.min()), settings.rest)
    before = trial.misfits(low)
    if len(before) < LEAST_BLOCKS:
        return proposed
    for _ in range(2):
        asked = int(raised.sum())
        mean, error = _log_ratio(before, trial.misfits(np.where(raised, higher, low)))
        raised &= np.isfinite(error) & (mean <= BEYOND_CHANCE * error)
        if not 0 < raised.sum() < asked:
            break
    return replace(proposed, chosen=np.where(raised, float(f"{higher:.3g}"), proposed.chosen))


@dataclass(frozen=True, eq=False)
class _Trial:
    # highest: Hz, motion above it is dropped.    edge: s, left out at both ends of a stretch.
    # width: rad/s (m/s) over which friction changes sign; 0 = a share of each joint's speed.
    robot: RobotModel
    parts: Sequence[Signals]
    rate: float
    settings: Preparation
    highest: float
    edge: float
    width: float = 0.0

    def misfits(self, cutoffs: Float) -> Float:
        """(B, n) sums of squared errors of each joint's torque on held-out blocks, with cutoff frequencies (n,)."""
        s = self.settings
        order, measured, cutoff = s.state_order, s.velocity == "measured", float(s.cutoff)
        low = [
            _filtered(part, cutoffs.tolist(), order, self.rate, measured, s.crossover) for part in self.parts
        ]
        return held_out_misfits(
            self.robot, low, self.rate, cutoff, s.order, self.edge, self.highest, self.width
        )


def _log_ratio(before: Float, after: Float) -> tuple[Float, Float]:
    """Mean (n,) and standard error of the log ratio of errors on blocks (B, n) in which a joint moves.

    Zero and infinity for a joint that moves in fewer than two blocks.
    """
    used = (before > 0.0) & (after > 0.0)
    count = np.maximum(used.sum(axis=0), 1)
    change = np.log(np.where(used, after, 1.0) / np.where(used, before, 1.0))
    mean = change.sum(axis=0) / count
    squares = (np.where(used, change - mean, 0.0) ** 2).sum(axis=0)
    return mean, np.where(count > 1, np.sqrt(squares / (np.maximum(count - 1, 1) * count)), np.inf)


def _filtered(
    part: Signals,
    cutoffs: Sequence[float],
    order: int,
    rate: float,
    measured: bool,
    crossover: Sequence[float] | None,
) -> Signals:
    dq = None
    if measured and part.dq is not None:
        dq = low_passed(fused(part.q, part.dq, rate, crossover), cutoffs, order, rate)
    return Signals(low_passed(part.q, cutoffs, order, rate), dq, part.tau)
