"""Times that neither the fit nor the scores count: torque cut off at its peak, contact."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Protocol

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Curve, Diagnostics, Evidence, Finding, Interval, Level
from dynid.base.numerics import normal_quantile
from dynid.base.records import dataclass
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import binned_curve, counts, figures, joint_finding, level, unit
from dynid.signals.samples import Samples
from dynid.terms.residual_tests import ALARM, FeatureTest

# Short bursts of residual on several joints at once: the robot touched something.

# Times the middle half's width that a sample has to lie off, at least; and the share of time that bursts may fill.
LEAST_HEIGHT, MOST_TIME = 8.0, 0.1
# A burst reaches from where its joints leave this size to where they are back, reversals or not.
USUAL = 4.0
REVERSAL_SECONDS, REVERSAL_SPEED = 0.25, 0.1
# Share of its top speed from which a joint moves; and samples of which a size is known to a quarter.
MOVES, FEW = 0.05, 20
# Of a normal distribution, half the width of the middle half over the standard deviation.
MIDDLE = 0.6745
END_CYCLES = 2.0
MOST_NAMED = 5
POINTS = 400


@dataclass(frozen=True)
class Bursts:
    """Looks for stretches in which the residual leaves its usual size far behind, away from reversals of the joint."""

    identifier: str = "bursts"
    looks_at: str = "short bursts of residual"

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """At most one finding: all bursts of the log with their times and joints."""
        height = heights(analysis)
        rate, T = analysis.residuals.rate, len(analysis.residuals.t)
        # Independent looks: two a period of the bandwidth and a joint.
        looks = max(2.0 * analysis.bandwidth * T / rate * len(analysis.joints), 1.0)
        threshold = max(LEAST_HEIGHT, float(-normal_quantile(0.5 * ALARM / looks)))
        beyond = (height > threshold) & ~analysis.near_reversal(REVERSAL_SECONDS, REVERSAL_SPEED)
        beyond[near_ends(analysis)] = False
        high: Bool = np.asarray(beyond.any(axis=1))
        if not high.any() or high.mean() > MOST_TIME:
            return []
        joints = np.flatnonzero(beyond.any(axis=0))
        own = height[:, joints]
        whole = _reaching(high, np.asarray((own > USUAL).any(axis=1)))
        spans = stretches(analysis, whole)
        share = float((own[whole] ** 2).sum() / (own**2).sum())
        worst = int(joints[np.argmax(height[:, joints].max(axis=0))])
        return [self._finding(analysis, height, spans, joints.tolist(), worst, share, threshold)]

    def _finding(
        self,
        analysis: ResidualAnalysis,
        height: Float,
        spans: list[Interval],
        joints: list[int],
        worst: int,
        share: float,
        threshold: float,
    ) -> Finding:
        names = ", ".join(analysis.robot.joint_names[j] for j in joints)
        when = ", ".join(f"{s.start:.2f} to {s.end:.2f} s" for s in spans[:MOST_NAMED])
        more = f" and {len(spans) - MOST_NAMED} more" if len(spans) > MOST_NAMED else ""
        size = height.max(axis=1)
        step = max(1, len(size) // POINTS)
        # The highest of each bucket, so that no burst falls between the points.
        edge = np.arange(0, len(size), step)
        curve = Curve(
            "time, s",
            "residual / usual size",
            analysis.residuals.t[edge],
            np.maximum.reduceat(size, edge),
            np.full(len(edge), threshold),
            "bound for noise",
        )
        return Finding(
            level(analysis, worst, share),
            self.identifier,
            f"On {names}, up to {height[:, joints].max():.3g} times the usual size (noise would stay below "
            f"{threshold:.2g}), at {when}{more}.",
            title="A burst of residual" if len(spans) == 1 else f"{len(spans)} bursts of residual",
            advice="Contact, a cable that catches, or a stop of the controller: look at these times and leave them out "
            "(window under [data]).",
            evidence=Evidence(share, ALARM, times=tuple(spans), curve=curve),
        )


def _reaching(high: Bool, unusual: Bool) -> Bool:
    """Runs of unusual samples (T,) that hold a high one."""
    unusual = unusual | high
    run = np.cumsum(np.diff(unusual, prepend=False))
    return np.asarray(unusual & np.isin(run, run[high]))


def heights(analysis: ResidualAnalysis) -> Float:
    """Size of the residual over its usual size by joint, (T, n): the standard deviation of its middle half.

    Of all samples, or of those in motion where that is more: a joint that stands for most of the time shows noise then.
    """
    e, speed = analysis.residuals.error_counted, np.abs(analysis.residuals.dq)
    low, middle, high = np.quantile(e, [0.25, 0.5, 0.75], axis=0)
    off = np.abs(e - middle)
    width = 0.5 * (high - low)
    for j in range(analysis.robot.n):
        moving = off[speed[:, j] > MOVES * speed[:, j].max(), j]
        if len(moving) >= FEW:
            width[j] = max(width[j], float(np.median(moving)))
    usual = np.where(width > 0, width / MIDDLE, np.inf)
    found = off / usual
    silent = np.ones(analysis.robot.n, dtype=np.bool_)
    silent[list(analysis.joints)] = False
    found[:, silent] = 0.0
    return np.asarray(found)


def near_ends(analysis: ResidualAnalysis) -> Bool:
    """Samples (T,) within two periods of the bandwidth of a run's ends, where filters have less to go by."""
    reach = max(1, round(END_CYCLES * analysis.residuals.rate / analysis.bandwidth))
    near = np.zeros(len(analysis.residuals.t), dtype=np.bool_)
    for run in analysis.runs:
        near[run.start : run.start + reach] = True
        near[max(run.stop - reach, run.start) : run.stop] = True
    return near


def stretches(analysis: ResidualAnalysis, high: Bool) -> list[Interval]:
    """Times during which samples (T,) are high, those less than a quarter of a second apart as one."""
    r = analysis.residuals
    index = np.flatnonzero(high)
    apart = (np.diff(r.t[index]) > REVERSAL_SECONDS) | (np.diff(r.t[index]) < 0)
    apart |= np.diff(r.segment[index]) != 0
    cuts = np.flatnonzero(apart) + 1
    parts = np.split(index, cuts)
    return [
        Interval(r.trajectories[int(r.trajectory[p[0]])], float(r.t[p[0]]), float(r.t[p[-1]])) for p in parts
    ]


# Torque that stays below what the model asks for at its peaks: a limit was reached, or the log cuts it off.

LEVELS = (0.8, 0.85, 0.9, 0.93, 0.96, 0.98)
# The part of the torque beyond the level that is missing: all of it, but for what the fit has bent towards the log.
MISSING = (0.45, 2.0)
LEAST_SAMPLES = 10
# A limit is flat: beyond it, this share of the measured torque's variance at most goes with the torque that the motion
# takes. Friction or a lag that the model lacks leaves torque that goes on rising, and less of it than predicted.
RISES = 0.5


@dataclass(frozen=True)
class Saturation:
    """Tries on either side whether torque beyond a level is missing from what was measured.

    least: share of a joint's mean square residual that must lie beyond the lowest level for the others to be tried.
    """

    identifier: str = "saturation"
    looks_at: str = "torque missing at the peaks"
    least: float = 0.0

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """At most one finding a joint and side, with the times at which the torque is beyond the level."""
        found = []
        for joint in analysis.joints:
            for side in (1.0, -1.0):
                predicted = side * analysis.residuals.predicted[analysis.index, joint]
                caps, square = _caps(predicted), analysis.error[:, joint] ** 2
                if square[predicted > caps[0]].sum() < self.least * square.sum():
                    continue
                tried = [(cap, self._effect(analysis, joint, side, predicted, cap)) for cap in caps]
                known = [
                    (cap, effect) for cap, effect in tried if effect is not None and _missing(side, effect)
                ]
                if not known:
                    continue
                cap, effect = max(known, key=lambda pair: float(pair[1].share[joint]))
                share = float(effect.share[joint])
                p_value = min(effect.p_value * 2 * len(LEVELS) * len(analysis.joints), 1.0)
                measured = side * analysis.residuals.measured[analysis.index, joint]
                if counts(share, p_value) and _flat(measured[predicted > cap], predicted[predicted > cap]):
                    found.append(self._finding(analysis, joint, side, cap, effect, p_value))
        return found

    @staticmethod
    def _effect(
        analysis: ResidualAnalysis, joint: int, side: float, predicted: Float, cap: float
    ) -> FeatureTest | None:
        beyond = np.maximum(predicted - cap, 0.0)
        return (
            analysis.test_joint(joint, beyond[:, None]) if np.count_nonzero(beyond) >= LEAST_SAMPLES else None
        )

    def _finding(
        self,
        analysis: ResidualAnalysis,
        joint: int,
        side: float,
        cap: float,
        effect: FeatureTest,
        p_value: float,
    ) -> Finding:
        share = float(effect.share[joint])
        missing = 100 * min(-side * float(effect.coefficient[0]), 1.0)
        predicted = analysis.residuals.predicted[analysis.index, joint]
        lower = [one for one in _caps(side * predicted) if one < cap]
        # The level lies between two that were tried.
        beyond = side * analysis.residuals.predicted[:, joint] > max(lower, default=cap)
        curve = binned_curve(
            predicted,
            analysis.error[:, joint],
            effect.fitted[0],
            f"predicted torque, {unit(analysis, joint)}",
            f"residual, {unit(analysis, joint)}",
            "missing beyond a level",
        )
        return joint_finding(
            analysis,
            self.identifier,
            joint,
            "torque is missing at its peaks",
            f"Beyond {side * cap:.4g} {unit(analysis, joint)} {missing:.0f} % of the torque that the motion takes was "
            f"not measured: {figures(analysis, joint, share, p_value)}.",
            "The log or the drive cuts it off. Record with less load or speed, or leave these stretches out ([data]).",
            Evidence(share, p_value, times=tuple(stretches(analysis, beyond)), curve=curve),
        )


def _missing(side: float, effect: FeatureTest) -> bool:
    return MISSING[0] < -side * float(effect.coefficient[0]) < MISSING[1]


def _flat(measured: Float, predicted: Float) -> bool:
    """Whether measured torque does not rise with the predicted one, of samples beyond a level."""
    a, b = measured - measured.mean(), predicted - predicted.mean()
    return bool(max(float(a @ b), 0.0) ** 2 < RISES * float(a @ a) * float(b @ b))


def _caps(predicted: Float) -> list[float]:
    return [float(cap) for cap in np.quantile(predicted, LEVELS)]


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


def spoilt_times(analysis: ResidualAnalysis) -> tuple[Finding, ...]:
    """Contact and missing torque that matter, with evidence sure enough to leave their times out."""
    if not analysis.enough:
        return ()
    found = [*Bursts().look(analysis), *Saturation(least=0.5 * SURE).look(analysis)]
    sure = [one for one in found if one.level is Level.WARNING and one.evidence.share >= SURE]
    return tuple(one for one in sure if one.evidence.times)


def without_times(
    batches: Iterable[Samples],
    residual_findings: Sequence[Finding],
    bandwidth: float,
    diagnostics: Diagnostics,
) -> tuple[Iterable[Samples], tuple[Finding, ...]] | None:
    """Batches less the times of findings, and these marked as masked; None if nothing or too much would go.

    bandwidth: Hz of the filters; a period to either side is left out as well.
    """
    spans = tuple(span for one in residual_findings for span in one.evidence.times)
    if not spans:
        return None
    why = "; ".join(one.title for one in residual_findings)
    sound = left_out(batches, Within(spans, 1.0 / bandwidth), why, diagnostics)
    if sound is None:
        return None
    return sound, tuple(
        replace(one, advice=ADVICE, evidence=replace(one.evidence, masked=True)) for one in residual_findings
    )
