"""Cut-offs of positions by joint: lower where noise outweighs motion, higher where the torque is predicted as well."""

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

# Which velocity to use, joint by joint: the derivative of the position, the logged one, or both of them.

WINDOW_SECONDS = 4.0
LEAST_ROWS = 64
CROSSOVER_ORDER = 2
MOVED = 2e-3  # rad or m, that a joint has to go before a velocity that never changes counts as not measured
LOWEST_CROSSOVER = 1.0  # Hz: lower ones need seconds to settle, and there the two hardly differ
WORTH = 0.8  # what is taken in place of the logged velocity must leave at most this share of its noise,
NEGLIGIBLE = 0.02  # if that is more than this share of the acceleration's power, up to which rows trust it
AGREE, STRONG = (
    0.9,
    0.01,
)  # squared coherence and share of the peak above which the phase says how late one is


@dataclass(frozen=True, eq=False)
class VelocityEvidence:
    """Noise of the accelerations that both velocities would give, within the cut-off of the positions.

    derivative, logged: (n,) root mean square, rad/s^2 or m/s^2.    delay: (n,) s, of the logged velocity behind the
    position's derivative.    crossover: (n,) Hz, below which the derivative is taken and above which the logged
    velocity: 0 = the logged one alone, the sampling rate = the derivative alone.
    """

    joint_names: tuple[str, ...]
    derivative: Float
    logged: Float
    delay: Float
    crossover: Float
    rate: float

    @property
    def reason(self) -> str:
        """One sentence."""
        alone, dropped = self.crossover == 0, self.crossover >= self.rate
        parts = []
        for chosen, text in (
            (alone, "the logged velocity is used"),
            (dropped, "the logged velocity is dropped and positions are differentiated"),
            (
                ~alone & ~dropped,
                "the derivative of the position and, above a crossover, the logged velocity are used",
            ),
        ):
            if chosen.any():
                parts.append(f"{text}{self._of(chosen)}")
        return "; ".join(parts)

    def _of(self, chosen: Bool) -> str:
        names = [name for name, c in zip(self.joint_names, chosen, strict=True) if c]
        mean = [float(np.sqrt(np.mean(x[chosen] ** 2))) for x in (self.logged, self.derivative)]
        whose = "" if chosen.all() else f" for {', '.join(names)}"
        noise = f"{mean[0]:.2g} logged, {mean[1]:.2g} derivative"
        return f"{whose} (noise of accelerations within the cut-off of positions: {noise})"

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
    """Weighs the logged velocity against the derivative of the position, joint by joint; None = one is missing.

    Both measure the same velocity v with noise of their own, a = v + n_a and b = v + n_b, so that at each frequency the
    cross-spectrum holds what they share, C = Re(S_ab exp(i w d)): N_a = S_aa - C, N_b = S_bb - C. No floor is assumed:
    quantised positions, steps of the velocity, held rows and scattered stamps all count, as far as the filter lets them
    through. The delay d of b behind a adds C |1 - exp(-i w d)|^2 to N_b: a velocity that was low-passed or comes late
    belongs to another time than position and torque. d is the slope of the phase where both agree. What counts is the
    noise of the acceleration, w^2 N behind the filter. The logged velocity is taken where its noise is below 2 %
    of the acceleration's power; elsewhere the derivative, or both with a crossover frequency (the derivative's noise
    grows with frequency, the logged one's does not), where that leaves less than 0.8 of the noise of what is simpler.
    A logged velocity that never changes while its joint moves lacks all of the motion.
    Source: cross-spectra of two sensors of one signal, Bendat and Piersol 2010, chapter 7.
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
        found = part.q.shape[1] * np.array([aa + 0j, bb + 0j, ab])
        sums = found if not sums.size else sums + found
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
    """Velocities (n, T): dq above each joint's crossover frequency, the derivative of q below it."""
    if crossover is None or not any(crossover):
        return dq
    used = dq.copy()
    slope = first_difference(q, rate)
    for j, at in enumerate(crossover):
        if at >= rate:
            used[j] = slope[j]
        elif at > 0:
            low = zero_phase_filter(at, CROSSOVER_ORDER, rate)
            used[j] += low(np.ascontiguousarray(slope[j : j + 1] - dq[j : j + 1]))[0]
    return used


def settling(rate: float, crossover: Sequence[float] | None) -> int:
    """Samples that the crossover filters need on each side."""
    between = [at for at in crossover or () if 0 < at < rate]
    return max((zero_phase_filter(at, CROSSOVER_ORDER, rate).settling + 2 for at in between), default=2)


def _delay(aa: Float, bb: Float, ab: Float, w: Float, inside: Bool) -> Float:
    # Slope of the phase, least squares weighted by what both share, where they agree.
    shared = np.abs(ab) * inside
    with np.errstate(divide="ignore", invalid="ignore"):
        agree = np.where(aa * bb > 0, shared**2 / (aa * bb), 0.0) > AGREE
    strength = shared * (agree & (shared > STRONG * shared.max(axis=1, keepdims=True)))
    total = (strength * w**2).sum(axis=1)
    slope = (strength * w * np.angle(ab)).sum(axis=1)
    return np.asarray(np.where(total > 0, -slope / np.where(total > 0, total, 1.0), 0.0))


def _dead(parts: Sequence[Signals]) -> Bool:
    """(n,) joints whose position moves while their logged velocity never changes: a channel that nobody fills."""
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
    left = [float(position[frequency < at].sum() + velocity[frequency >= at].sum()) for at in candidates]
    if left and min(left) < WORTH**2 * least:
        return candidates[int(np.argmin(left))]
    return best


# White noise is measured where no arm moves, as shares of the sampling rate.
FLOOR_BAND = (0.25, 0.45)
STATE_CUTOFF_WINDOW_SECONDS, LEAST_WINDOW = 4.0, 256
# Noise in an acceleration makes its inertia too small by its share of the power: a thousandth shows in no log.
STATE_CUTOFF_NEGLIGIBLE = 1e-3
STEPS_AN_OCTAVE = 4
LOWEST = 1.0  # Hz: slower filters need seconds to settle
HIGHEST_STATE = 0.4  # of the sampling rate: above it a filter is the grid's
# Periods of the filter that are left out at the ends of windows, and blocks of held-out torque that a judgement takes.
EDGE_PERIODS, LEAST_BLOCKS = 1.5, 6
BEYOND_CHANCE = 2.0  # standard errors
# Neighbouring lines of a spectrum behind Hann's window share their scatter: a sum of lines varies as much more.
NEIGHBOURS = 35.0 / 18.0
# Of the log, that may be left out at the ends of its segments, one period of the filter at each.
SPARED = 0.1
# Times the cut-off of the equations' own filter, which takes from both sides what noise of the torque there is: at a
# quarter of its cut-off a zero-phase filter of fourth order takes 15 millionths of the amplitude, and the sign of a
# velocity, which is not linear, comes through sharply.
SHARPER = 4.0


@dataclass(frozen=True, eq=False)
class StateCutoffs:
    """Cut-offs of the filter before differentiation, and why.

    chosen: (n,) Hz.    common: Hz, of the equations' own filter; joints whose noise does not matter have it or more.
    noise, left: (n,) share of noise in the power of the acceleration behind both filters, at the common cut-off and at
    the chosen one, or the common one where a higher one was chosen: the other filter takes what lies above.
    """

    joint_names: tuple[str, ...]
    common: float
    chosen: Float
    noise: Float
    left: Float

    @property
    def reason(self) -> str:
        """One sentence."""
        parts = [
            f"'{name}' at {at:.2g} Hz (noise in the power of its acceleration: {100 * after:.2g} in place of "
            f"{100 * before:.2g} %)"
            for name, at, before, after in zip(
                self.joint_names, self.chosen, self.noise, self.left, strict=True
            )
            if at < self.common
        ]
        lowered = f"where noise outweighs their motion, {', '.join(parts)}" if parts else ""
        names = [f"'{n}'" for n, at in zip(self.joint_names, self.chosen, strict=True) if at > self.common]
        raised = (
            f"at {self.chosen.max():.3g} Hz where torque is predicted as well so, {', '.join(names)}"
            if names
            else ""
        )
        return (
            f"low-passed before they are differentiated {'; '.join(one for one in (lowered, raised) if one)}"
        )

    @property
    def differ(self) -> bool:
        """Whether any joint has a lower cut-off of its own."""
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
    """(n,) Hz, the cut-offs of positions that were asked for; nan = automatic.

    Raises UsageError for a joint that the robot lacks, or another number of them than it has.
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
    """Of positions that are filtered as the equations are at a cut-off; all Hz."""
    return min(cutoff, HIGHEST_STATE * rate)


def sharper_cutoff(cutoff: float, rate: float) -> float:
    """Of positions that are filtered less than the equations are at a cut-off; all Hz."""
    return min(SHARPER * cutoff, HIGHEST_STATE * rate)


def choose_state_cutoffs(
    parts: Sequence[Signals],
    rate: float,
    common: float,
    settings: Preparation,
    joint_names: tuple[str, ...],
) -> StateCutoffs:
    """Lowers the cut-off of each joint to where its acceleration has the least error, if noise matters there.

    The signal x that is differentiated m times (a position twice, a velocity once) has the density P = S + N, of which
    the median between a quarter and 0.45 of the rate is the noise N. A low pass of gain H before the parallel filter of
    gain G leaves noise in the acceleration and takes signal from it,

        E(H) = sum_f w^(2m) G^2 (H^2 N + (1 - H)^2 (P - N)),

    least where noise outweighs the signal, as with Wiener's filter. Noise that is left makes inertias too small, since
    it is in the regressor; signal that is lost is missed on the left side alone and makes nothing wrong. So of the
    cut-offs whose error is the least within the scatter of the spectrum it is the lowest.
    Cut-offs lie below `common` by quarters of an octave, not below 1 Hz nor where a tenth of the log would be spent at
    the ends of its segments. Joints of which noise has less than a thousandth of the acceleration's power keep the
    common one.

    rate, common: Hz.    settings: with cut-off, orders and velocity as resolved.
    Source: Wiener 1949; errors in the regressor: Fuller 1987, section 1.1.
    """
    measured, cutoff = settings.velocity == "measured", float(settings.cutoff)
    times = 1 if measured else 2
    lines = [
        part.q if part.dq is None or not measured else fused(part.q, part.dq, rate, settings.crossover)
        for part in parts
    ]
    n, seconds = len(joint_names), np.array([line.shape[1] / rate for line in lines])
    nothing = StateCutoffs(joint_names, common, np.full(n, common), np.zeros(n), np.zeros(n))
    size = int(
        min(max(x.shape[1] for x in lines) - times, max(LEAST_WINDOW, STATE_CUTOFF_WINDOW_SECONDS * rate))
    )
    if size < LEAST_WINDOW or common >= HIGHEST_SHARE * rate:
        return nothing
    steps = [np.diff(x, times, axis=1) for x in lines if x.shape[1] >= size + times]
    frequency, density = averaged_density(steps, rate, size)
    # Differences first, so that slow motion does not leak upwards; then the gain of differentiation in their place.
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
    # The least error is known to within the scatter of the spectrum: the lowest cut-off within it leaves least noise.
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
    found: StateCutoffs,
    robot: RobotModel,
    parts: Sequence[Signals],
    rate: float,
    settings: Preparation,
) -> StateCutoffs:
    """Keeps the cut-offs with which a joint's own torque is predicted better; the others are the common one again.

    What looks like noise of a position may be motion: a drive answers its encoder's noise, and a trembling arm is no
    noise. Then torque follows it, and filtering it away makes the prediction worse. So for each joint a trial model is
    fitted with and without its own cut-off; of the logarithm of the ratio of what both miss on held-out blocks of its
    torque, the mean has to lie two standard errors below zero.
    parts: (n, T) positions, velocities and torques.    settings: with cut-off, orders and velocity as resolved.
    """
    n = len(found.joint_names)
    common = np.full(n, found.common)
    trial = _Trial(robot, parts, rate, settings, found.common, EDGE_PERIODS / float(found.chosen.min()))
    before = trial.misfits(common)
    kept = np.zeros(n, dtype=np.bool_)
    for j in np.flatnonzero(found.chosen < found.common) if len(before) >= LEAST_BLOCKS else ():
        mean, error = _change(before, trial.misfits(np.where(np.arange(n) == j, found.chosen, common)))
        kept[j] = bool(mean[j] < -BEYOND_CHANCE * error[j])
    return replace(
        found,
        chosen=np.where(kept, found.chosen, common),
        left=np.where(kept, found.left, found.noise),
    )


def raised_beside_torque(
    found: StateCutoffs,
    robot: RobotModel,
    parts: Sequence[Signals],
    rate: float,
    settings: Preparation,
    named: Float,
) -> StateCutoffs:
    """Raises the cut-offs that are the common one to SHARPER times that, but where a joint's torque speaks against it.

    The equations' own filter takes noise above the common cut-off from both sides. A filter of the positions there as
    well takes signal below it from one side alone, and smears the sign of velocities, of which friction is made. What
    may speak for it is noise of the velocity as great as the speed over which friction changes sign. So a trial model
    whose friction changes sign over as much as the default's is fitted with both; a joint keeps the common cut-off
    where the logarithm of the ratio of what they miss on held-out blocks of its torque lies two standard errors above
    zero, or less than two blocks hold motion of it, and all keep it in a log too short to tell. Where some keep it, the
    others are tried once more beside them.
    parts: (n, T) positions, velocities and torques.    settings: with cut-off, orders, rest and velocity as resolved.
    named: (n,) Hz, of joints whose cut-off is not automatic; nan = automatic.
    Source: Khalil and Dombre 2002, section 12.4.2, of both filters.
    """
    higher = sharper_cutoff(float(settings.cutoff), rate)
    low = np.where(np.isnan(named), found.chosen, named)
    raised = np.isnan(named) & (found.chosen == found.common) & (higher > found.common)
    if not raised.any():
        return found
    trial = _Trial(robot, parts, rate, settings, higher, EDGE_PERIODS / float(low.min()), settings.rest)
    before = trial.misfits(low)
    if len(before) < LEAST_BLOCKS:
        return found
    for _ in range(2):
        asked = int(raised.sum())
        mean, error = _change(before, trial.misfits(np.where(raised, higher, low)))
        raised &= np.isfinite(error) & (mean <= BEYOND_CHANCE * error)
        if not 0 < raised.sum() < asked:
            break
    return replace(found, chosen=np.where(raised, float(f"{higher:.3g}"), found.chosen))


@dataclass(frozen=True, eq=False)
class _Trial:
    # highest: Hz, up to which motion is kept.    edge: s, left out at both ends of a stretch.
    # width: rad/s (m/s) over which friction changes sign; 0 = a share of each joint's speed.
    robot: RobotModel
    parts: Sequence[Signals]
    rate: float
    settings: Preparation
    highest: float
    edge: float
    width: float = 0.0

    def misfits(self, cutoffs: Float) -> Float:
        """(B, n) squares of each joint's torque that are missed on held-out blocks, with cut-offs (n,)."""
        s = self.settings
        order, measured, cutoff = s.state_order, s.velocity == "measured", float(s.cutoff)
        low = [
            _filtered(part, cutoffs.tolist(), order, self.rate, measured, s.crossover) for part in self.parts
        ]
        return held_out_misfits(
            self.robot, low, self.rate, cutoff, s.order, self.edge, self.highest, self.width
        )


def _change(before: Float, after: Float) -> tuple[Float, Float]:
    """Mean (n,) of the logarithm of the ratio of what is missed on blocks (B, n), and its standard error.

    Of the blocks in which a joint moves; zero and infinity where these are less than two.
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
