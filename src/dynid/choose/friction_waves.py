"""Waves of dry friction over a joint's position, found in what a fit of plain friction leaves, without trial fits."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.choose.search import Fitted, Search
from dynid.signals.samples import Samples
from dynid.terms.choice import STANDS, JointMotion
from dynid.terms.friction import WIDTH, direction
from dynid.terms.friction_shapes import MOST_WAVES

# Waves within the range of a joint's motion: fewer look like friction that is the same everywhere.
FEWEST = 1.0
# Numbers of waves that are tried, in steps of so much of a wave within the range; bins of position a wave.
STEP, BINS = 0.25, 8
# A wave whose frequency, at a joint's slow speed, exceeds this share of the cut-off is lost in the filter: half of its
# usual one, which about a quarter of the samples are below.
WITHIN, SLOW = 0.7, 0.5
# Size of the smoothed sign from which on a joint slides one way.
SLIDING = 0.9
# Parts of the time, each predicted by the others, their search for the number of waves included.
PARTS = 5
# Worth a trial beside other friction is what explains such a share of what is left in these parts, and so many standard
# errors of it: whether it is taken is a matter of that comparison.
LEAST, SURE = 0.01, 2.0


def joint_motions(search: Search, fitted: Fitted) -> tuple[JointMotion, ...]:
    """How every joint moved, with the waves of friction that a fit leaves."""
    separable = search.separable(fitted)
    cutoff = fitted.assembly.parallel.cutoff
    found = []
    for joint, left in enumerate(_left(fitted, separable.batches, search)):
        motion = separable.motion(joint)
        fastest = np.inf if cutoff is None else WITHIN * 2.0 * np.pi * cutoff / max(SLOW * left.speed, STANDS)
        wave = left.wave(fastest) if search.moved[joint] else None
        found.append(replace(motion, waves=() if wave is None else (wave,)))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class Left:
    """What a fit leaves of a joint's torque along its motion, where it slides: q (N,) and error times sign (N,).

    speed: |dq| of half of these samples at most.
    """

    q: Float
    error: Float
    speed: float = 0.0

    def wave(self, fastest: float) -> float | None:
        """Waves a radian times 2 pi (rad/m of a slide), at most `fastest`, that predict parts left out; None = none."""
        span = float(np.ptp(self.q)) if len(self.q) else 0.0
        if span <= STANDS:
            return None
        lowest, step = 2.0 * np.pi * FEWEST / span, 2.0 * np.pi * STEP / span
        count = int((min(fastest, 2.0 * np.pi * MOST_WAVES / span) - lowest) / step)
        if count < 1:
            return None
        profile = _Profile.of(self, np.asarray(lowest + step * np.arange(count + 1.0)))
        return profile.best if profile.is_within and profile.is_worth_a_trial() else None


@dataclass(frozen=True, eq=False)
class _Profile:
    """Sums over bins of position (B,), by part of the time (P, B).

    waves: (K,) that are tried.    lines: (K, 2, B) cosine and sine.
    count, total: of samples and of their errors.    square: (P,) of errors.
    """

    waves: Float
    lines: Float
    count: Float
    total: Float
    square: Float

    @staticmethod
    def of(left: Left, waves: Float) -> _Profile:
        low, span = float(left.q.min()), float(np.ptp(left.q))
        B = int(np.ceil(BINS * waves[-1] * span / (2.0 * np.pi)))
        bins = np.minimum(((left.q - low) * (B / span)).astype(np.int64), B - 1)
        part = np.arange(len(left.q)) * PARTS // len(left.q)
        middle = (np.arange(B) + 0.5) / B
        angle = waves[:, None] * (low + span * middle)

        def summed(values: Float | None) -> Float:
            found = np.bincount(part * B + bins, values, PARTS * B)
            return np.asarray(found.reshape(PARTS, B), dtype=np.float64)

        return _Profile(
            waves,
            np.stack([np.cos(angle), np.sin(angle)], axis=1),
            summed(None),
            summed(left.error),
            np.asarray(np.bincount(part, left.error**2, PARTS), dtype=np.float64),
        )

    @property
    def best(self) -> float:
        """The wave that fits all parts best."""
        return float(self.waves[self._best])

    @property
    def is_within(self) -> bool:
        """Whether that is not the last that is tried, beside which a faster one would fit better still.

        The slowest stands for what changes more slowly.
        """
        return self._best < len(self.waves) - 1

    @cached_property
    def _best(self) -> int:
        return self._fit(self.count.sum(axis=0), self.total.sum(axis=0))[0]

    def is_worth_a_trial(self) -> bool:
        """Whether parts that are left out are predicted better with a wave, beyond chance."""
        gains = np.zeros(PARTS)
        for part in range(PARTS):
            others = np.arange(PARTS) != part
            _, plain, waved = self._fit(self.count[others].sum(axis=0), self.total[others].sum(axis=0))
            gains[part] = self._missed(part, plain) - self._missed(part, waved)
        gain, std = float(gains.sum()), float(np.sqrt(PARTS) * gains.std(ddof=1))
        return gain > 0.0 and gain >= LEAST * float(self.square.sum()) and gain >= SURE * std

    def _missed(self, part: int, curve: Float) -> float:
        return float(self.square[part] + (self.count[part] * curve - 2.0 * self.total[part]) @ curve)

    def _fit(self, count: Float, total: Float) -> tuple[int, Float, Float]:
        # Which wave fits some sums best beside a constant, and curves over the bins without and with it.
        samples = count.sum()
        mean = total.sum() / samples
        lines = self.lines - (self.lines @ count / samples)[..., None]
        products, along = (lines * count) @ lines.transpose(0, 2, 1), lines @ (total - mean * count)
        sizes = (np.linalg.pinv(products, hermitian=True) @ along[..., None])[..., 0]
        best = int(np.argmax((sizes * along).sum(axis=1)))
        return best, np.full(len(count), mean), mean + sizes[best] @ lines[best]


def _left(fitted: Fitted, batches: Iterable[Samples], search: Search) -> list[Left]:
    """By joint, what a fit leaves of the torque, filtered as equations are."""
    assembly, n = fitted.assembly, search.robot.n
    found: list[list[Float]] = [[] for _ in range(n)]
    for samples in batches:
        motion = samples.motor
        model = assembly.terms.torque(assembly.robot, samples, fitted.estimate.parameters)
        lines = np.stack([samples.tau - model, motion.q, direction(motion, WIDTH * search.slowness)])
        kept = assembly.parallel.kept(samples)
        error, _ = assembly.parallel.apply(np.ascontiguousarray(lines[0].T), samples)
        for j in range(n):
            q, sign = lines[1][kept, j], lines[2][kept, j]
            slides = np.abs(sign) >= SLIDING
            if samples.gate is not None:
                slides &= samples.gate[kept, j]
            speed = np.abs(motion.dq[kept, j])
            found[j].append(np.stack([q, error[j] * np.sign(sign), speed])[:, slides])
    joined = (np.concatenate(parts, axis=1) if parts else np.zeros((3, 0)) for parts in found)
    return [Left(q, wave, float(np.median(speed)) if len(speed) else 0.0) for q, wave, speed in joined]
