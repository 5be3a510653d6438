"""Times that neither the fit nor the scores count: torque cut off at its peak, contact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.diagnosis.bursts import Bursts
from dynid.diagnosis.finding import Interval, ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.saturation import Saturation
from dynid.signals.samples import Samples

# More than this share of a log is never left out: what remains would say too little.
MOST = 1.0 / 3.0
# Evidence is sure where so much of the residual's mean square lies in the times that would be left out.
SURE = 0.5
# The filtered peak lies within this share of the greatest effort about the peak that was logged.
NEAR = 0.01
ADVICE = "These times are left out of the fit and of the scores; look at what happened there."


class Spoilt(Protocol):
    """Says which samples (T,) of a batch are not to be counted, neighbours that filters reach included."""

    def among(self, samples: Samples) -> Bool:
        """Mask (T,), True = left out."""
        ...


@dataclass(frozen=True, eq=False)
class AtPeak:
    """Samples whose effort lies at a joint's upper or lower end.

    ends: (2, n) effort there, nan = not cut off.    size: (n,) greatest effort.    seconds: to either side.
    """

    ends: Float
    size: Float
    seconds: float

    def among(self, samples: Samples) -> Bool:
        """Mask (T,), True = left out."""
        room = NEAR * self.size
        with np.errstate(invalid="ignore"):
            high = (samples.tau >= self.ends[0] - room) | (samples.tau <= self.ends[1] + room)
        return widened(high.any(axis=1), round(self.seconds * samples.rate))


@dataclass(frozen=True, eq=False)
class Within:
    """Samples within stretches of time.    seconds: to either side."""

    spans: tuple[Interval, ...]
    seconds: float

    def among(self, samples: Samples) -> Bool:
        """Mask (T,), True = left out."""
        inside = np.zeros(len(samples), dtype=np.bool_)
        for span in self.spans:
            if span.trajectory == samples.trajectory:
                inside |= (samples.t >= span.start - self.seconds) & (samples.t <= span.end + self.seconds)
        return inside


@dataclass(frozen=True, eq=False)
class _Anew:
    """Batches that are made anew each time, less what is spoilt."""

    batches: Iterable[Samples]
    spoilt: Spoilt
    why: str

    def __iter__(self) -> Iterator[Samples]:
        return (_less(samples, self.spoilt, self.why) for samples in self.batches)


def widened(mask: Bool, reach: int) -> Bool:
    """A mask (T,) that is True within so many samples of where it was."""
    counts = np.concatenate([[0], np.cumsum(mask)])
    T = len(mask)
    low, high = np.maximum(np.arange(T) - reach, 0), np.minimum(np.arange(T) + reach + 1, T)
    return np.asarray(counts[high] > counts[low])


def left_out(
    batches: Iterable[Samples], spoilt: Spoilt, why: str, diagnostics: Diagnostics
) -> Iterable[Samples] | None:
    """Batches less what is spoilt, with a warning of how much it is; None if it is nothing or over a third of the log.

    why: what is left out, in words.
    """
    before = after = 0.0
    for samples in batches:
        before += samples.keep.sum() / samples.rate
        after += (samples.keep & ~spoilt.among(samples)).sum() / samples.rate
    lost = before - after
    if not lost > 0:
        return None
    amount = f"{lost:.3g} s of {before:.3g} s ({100 * lost / before:.3g} %)"
    if lost > MOST * before:
        diagnostics.warn("not-masked", f"{why}: too much to be left out, {amount}; record anew")
        return None
    diagnostics.warn(
        "masked", f"{why}: {amount} are left out of the fit and of the scores, neighbours included"
    )
    if isinstance(batches, list):
        return [_less(samples, spoilt, why) for samples in batches]
    return _Anew(batches, spoilt, why)


def _less(samples: Samples, spoilt: Spoilt, why: str) -> Samples:
    among = spoilt.among(samples)
    # What is left out for another reason may count after all, as stands do: not where it is spoilt.
    left_out = {reason: mask & ~among for reason, mask in samples.left_out.items()}
    left_out[why] = samples.with_left_out.keep & among
    return replace(samples, keep=samples.keep & ~among, left_out=left_out)


def spoilt_times(analysis: ResidualAnalysis) -> tuple[ResidualFinding, ...]:
    """Contact and missing torque that matter, with evidence sure enough to leave their times out."""
    if not analysis.enough:
        return ()
    found = [*Bursts().look(analysis), *Saturation(least=0.5 * SURE).look(analysis)]
    return tuple(one for one in found if one.level == "warning" and one.share >= SURE and one.times)


def without_times(
    batches: Iterable[Samples],
    residual_findings: Sequence[ResidualFinding],
    bandwidth: float,
    diagnostics: Diagnostics,
) -> tuple[Iterable[Samples], tuple[ResidualFinding, ...]] | None:
    """Batches less the times of findings, and these marked as masked; None if nothing or too much would go.

    bandwidth: Hz of the filters; a period to either side is left out as well.
    """
    spans = tuple(span for one in residual_findings for span in one.times)
    if not spans:
        return None
    why = "; ".join(one.title for one in residual_findings)
    sound = left_out(batches, Within(spans, 1.0 / bandwidth), why, diagnostics)
    if sound is None:
        return None
    return sound, tuple(replace(one, masked=True, advice=ADVICE) for one in residual_findings)
