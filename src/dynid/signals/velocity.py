"""Which velocity to use, joint by joint: the derivative of the position, the logged one, or both of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.signals.coherence import Signals
from dynid.signals.density import pair_density
from dynid.signals.differentiate import first_difference
from dynid.signals.filter import zero_phase_filter

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
