"""What batches add to a set of scores: sums of errors, samples that do not count, ranges of the motion."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.records import dataclass
from dynid.estimate.kept_friction import StopSums
from dynid.estimate.scores import LeftOut, MotionRange, Sums
from dynid.signals.samples import REST, STANDING, Samples
from dynid.terms.friction import WIDTH


@dataclass(frozen=True, eq=False)
class Counted:
    """What one batch adds to a set of scores beside its residuals.

    sums, left_out: what the model misses on samples that count, and on those that do not.    reasons: their number.
    stops: the dry friction of those at rest, which left_out is without.
    exported: what the bodies that exports hold miss on samples that count; None = the model is of these.
    motion: range of those that count, None = there are none.    beyond: (3, n) how many lie outside the training's.
    """

    count: int
    sums: Sums
    left_out: Sums
    stops: StopSums
    reasons: Mapping[str, float]
    motion: MotionRange | None
    beyond: Float
    exported: Sums | None = None

    @staticmethod
    def of(
        samples: Samples,
        index: Int,
        torque: Float,
        dry: Float,
        opened: Bool | None,
        rate: float,
        trained: MotionRange | None,
    ) -> Counted:
        """index: of the T sound samples, rate Hz.    torque: (2 n, T) measured, predicted.    dry: (n, T) at rest.

        opened: (T, n) whose equation counts; None = all.
        """
        kept, n = samples.keep[index], samples.n
        reasons = {reason: float(mask[index].sum()) for reason, mask in samples.left_out.items()}
        left, shut = torque[:, ~kept], None
        if opened is not None:
            left, shut = torque, np.asarray(~(kept[:, None] & opened))
            reasons[STANDING] = float((kept[:, None] & ~opened).sum()) / n
        moved = tuple(x[index[kept]] for x in (samples.q, samples.dq, samples.ddq))
        return Counted(
            count=int(kept.sum()),
            sums=kept_sums(samples, index, torque, opened),
            left_out=Sums.of_arrays(left[:n].T, left[n:].T, shut).of_joints(samples.measured),
            stops=StopSums.of(torque[:n] - torque[n:], dry, at_rest(samples)[:, index], rate),
            reasons=reasons,
            motion=MotionRange.of(*moved) if kept.any() else None,
            beyond=trained.beyond(*moved) if trained is not None else np.zeros((3, n)),
        )


class Tally:
    """What the batches add up to."""

    def __init__(self, n: int, trained: MotionRange | None) -> None:
        self.motion: MotionRange | None = None
        self.exported: Sums | None = None
        self._compared = trained is not None
        self.count, self._beyond = 0, np.zeros((3, n))
        self.sums = self._left_out = Sums.of_arrays(np.zeros((0, n)), np.zeros((0, n)))
        self.stops = StopSums.of(np.zeros((n, 0)), np.zeros((n, 0)), np.zeros((n, 0), dtype=np.bool_), 1.0)
        self._reasons: dict[str, float] = {}

    def add(self, one: Counted) -> None:
        """Adds a batch."""
        self.count += one.count
        self.sums, self._left_out = self.sums + one.sums, self._left_out + one.left_out
        self._beyond += one.beyond
        self.stops += one.stops
        if one.exported is not None:
            self.exported = one.exported if self.exported is None else self.exported + one.exported
        for reason, number in one.reasons.items():
            self._reasons[reason] = self._reasons.get(reason, 0) + number
        if one.motion is not None:
            self.motion = one.motion if self.motion is None else self.motion | one.motion

    def left_out(self, kept_at_rest: Float | None) -> LeftOut:
        """The samples that do not count, of those at rest a share (n,) of the dry friction predicted; None = theirs."""
        # Where one joint's equation does not count, those of others do.
        everything = self.count + sum(number for why, number in self._reasons.items() if why != STANDING)
        shares = {reason: number / everything for reason, number in self._reasons.items() if number}
        kept = self.stops.share if kept_at_rest is None else kept_at_rest
        return LeftOut(
            self.stops.predicted(self._left_out, kept),
            shares,
            kept if {REST, STANDING} & set(shares) else None,
        )

    @property
    def beyond(self) -> dict[str, Float]:
        """Share of the samples that count outside the training's range, by quantity."""
        if not self._compared:
            return {}
        shares = self._beyond / self.count
        return dict(zip(("position", "velocity", "acceleration"), shares, strict=True))


def kept_sums(samples: Samples, index: Int, torque: Float, opened: Bool | None) -> Sums:
    """Sums over samples that count, of torque (2 n, T) measured, then predicted."""
    kept = samples.keep[index]
    sound, counted = torque[:, kept], None if opened is None else opened[kept]
    return Sums.of_arrays(sound[: samples.n].T, sound[samples.n :].T, counted).of_joints(samples.measured)


def at_rest(samples: Samples) -> Bool:
    """(n, T) where joints stand: all of them, or one while others move."""
    # Equations are also left out where one comes to rest or leaves it, fast enough for friction to have its sign.
    stands = np.broadcast_to(
        samples.left_out.get(REST, np.zeros(len(samples), dtype=np.bool_)), (samples.n, len(samples))
    )
    opened = opened_equations(samples, np.arange(len(samples)))
    slow = np.abs(samples.dq.T) <= WIDTH
    return stands if opened is None else np.asarray(stands | (slow & ~opened.T))


def opened_equations(samples: Samples, index: Int) -> Bool | None:
    """(T, n) of which joints the equations count; None = of all."""
    # A joint that was not measured has no figures anyway.
    if samples.gate is None:
        return None
    opened = samples.gate[index] if samples.measured is None else samples.gate[index] | ~samples.measured
    return None if opened.all() else opened
