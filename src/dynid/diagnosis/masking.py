"""Times that are excluded from the fit and the scores: saturated torque and contact."""

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

# Short bursts of residual on several joints at once show contact.

# Least peak of a burst in robust standard deviations, and most share of time that bursts may take.
LEAST_HEIGHT, MOST_TIME = 8.0, 0.1
# A burst extends to where its joints fall below this many robust standard deviations, also near reversals.
USUAL = 4.0
# Excluded time around a reversal, s, and excluded speed as a share of the top speed.
REVERSAL_SECONDS, REVERSAL_SPEED = 0.25, 0.1
# Share of its top speed above which a joint moves; least number of samples for a robust standard deviation (to 25 %).
MOVES, FEW = 0.05, 20
# Ratio of half the interquartile range to the standard deviation of a normal distribution.
MIDDLE = 0.6745
# Excluded time at the ends of a run, in periods of the bandwidth.
END_CYCLES = 2.0
# Most intervals that a message lists, and most points of the plotted curve.
MOST_NAMED = 5
POINTS = 400


@dataclass(frozen=True)
class Bursts:
    """Search for intervals with an unusually large residual away from reversals of the joint."""

    identifier: str = "bursts"
    looks_at: str = "short bursts of residual"

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """Report all bursts of the log with their times and joints, in at most one finding."""
        height = heights(analysis)
        rate, T = analysis.residuals.rate, len(analysis.residuals.t)
        # Number of independent values: two per period of the bandwidth and joint.
        looks = max(2.0 * analysis.bandwidth * T / rate * len(analysis.joints), 1.0)
        threshold = max(LEAST_HEIGHT, float(-normal_quantile(0.5 * ALARM / looks)))
        beyond = (height > threshold) & ~analysis.near_reversal(REVERSAL_SECONDS, REVERSAL_SPEED)
        beyond[near_ends(analysis)] = False
        high: Bool = np.asarray(beyond.any(axis=1))
        if not high.any() or high.mean() > MOST_TIME:
            return []
        joints = np.flatnonzero(beyond.any(axis=0))
        active = height[:, joints]
        whole = _reaching(high, np.asarray((active > USUAL).any(axis=1)))
        spans = stretches(analysis, whole)
        share = float((active[whole] ** 2).sum() / (active**2).sum())
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
        # Plot the maximum of each interval, so that no burst falls between the points.
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
            f"On {names}, the residual reaches {height[:, joints].max():.3g} times its usual size (noise stays below "
            f"{threshold:.2g}), at {when}{more}.",
            title="A burst of residual" if len(spans) == 1 else f"{len(spans)} bursts of residual",
            advice="Possible causes are contact, a caught cable, or a stop of the controller: inspect these times and "
            "exclude them (window under [data]).",
            evidence=Evidence(share, ALARM, times=tuple(spans), curve=curve),
        )


def _reaching(high: Bool, unusual: Bool) -> Bool:
    """Runs of unusual samples (T,) that contain a high sample."""
    unusual = unusual | high
    run = np.cumsum(np.diff(unusual, prepend=False))
    return np.asarray(unusual & np.isin(run, run[high]))


def heights(analysis: ResidualAnalysis) -> Float:
    """Residual over its robust standard deviation, per joint, (T, n).

    The standard deviation follows from the middle half of all samples or of the moving samples, whichever is larger: if
    a joint is mostly at rest, the middle half of all samples shows only noise.
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
    height = off / usual
    silent = np.ones(analysis.robot.n, dtype=np.bool_)
    silent[list(analysis.joints)] = False
    height[:, silent] = 0.0
    return np.asarray(height)


def near_ends(analysis: ResidualAnalysis) -> Bool:
    """Samples (T,) within two periods of the bandwidth of a run's ends, where the filters are less accurate."""
    reach = max(1, round(END_CYCLES * analysis.residuals.rate / analysis.bandwidth))
    near = np.zeros(len(analysis.residuals.t), dtype=np.bool_)
    for run in analysis.runs:
        near[run.start : run.start + reach] = True
        near[max(run.stop - reach, run.start) : run.stop] = True
    return near


def stretches(analysis: ResidualAnalysis, high: Bool) -> list[Interval]:
    """Intervals of high samples (T,); intervals less than 0.25 s apart are merged."""
    r = analysis.residuals
    index = np.flatnonzero(high)
    apart = (np.diff(r.t[index]) > REVERSAL_SECONDS) | (np.diff(r.t[index]) < 0)
    apart |= np.diff(r.segment[index]) != 0
    cuts = np.flatnonzero(apart) + 1
    parts = np.split(index, cuts)
    return [
        Interval(r.trajectories[int(r.trajectory[p[0]])], float(r.t[p[0]]), float(r.t[p[-1]])) for p in parts
    ]


# Saturation: measured torque stays below predicted torque at the peaks, because of a limit of the drive or the log.

# Quantiles of predicted torque at which a limit is tested.
LEVELS = (0.8, 0.85, 0.9, 0.93, 0.96, 0.98)
# Range of the missing share of the torque beyond the limit. It is 1 without bias of the fit towards the limited torque.
MISSING = (0.45, 2.0)
# Least number of samples beyond a limit.
LEAST_SAMPLES = 10
# Beyond a limit the measured torque is flat: predicted torque explains at most this share of its variance. If the model
# lacks friction or a lag instead, the measured torque continues to rise, but less than predicted.
RISES = 0.5


@dataclass(frozen=True)
class Saturation:
    """Test for a limit of the measured torque, for positive and negative torque.

    Attributes
    ----------
    least : float
        Share of a joint's mean square residual that must lie beyond the lowest level for the test to continue.

    """

    identifier: str = "saturation"
    looks_at: str = "torque missing at the peaks"
    least: float = 0.0

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """Report at most one finding per joint and sign, with the times at which the torque is beyond the limit."""
        findings = []
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
                    findings.append(self._finding(analysis, joint, side, cap, effect, p_value))
        return findings

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
        lower = [level_below for level_below in _caps(side * predicted) if level_below < cap]
        # The limit lies between two of the tested levels.
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
            f"Beyond {side * cap:.4g} {unit(analysis, joint)}, {missing:.0f} % of the torque required by the motion is "
            f"missing in the log: {figures(analysis, joint, share, p_value)}.",
            "The log or the drive limits the torque. Record with less load or speed, or exclude these times ([data]).",
            Evidence(share, p_value, times=tuple(stretches(analysis, beyond)), curve=curve),
        )


def _missing(side: float, effect: FeatureTest) -> bool:
    return MISSING[0] < -side * float(effect.coefficient[0]) < MISSING[1]


def _flat(measured: Float, predicted: Float) -> bool:
    """Whether measured torque does not rise with predicted torque, for samples beyond a limit."""
    a, b = measured - measured.mean(), predicted - predicted.mean()
    return bool(max(float(a @ b), 0.0) ** 2 < RISES * float(a @ a) * float(b @ b))


def _caps(predicted: Float) -> list[float]:
    return [float(cap) for cap in np.quantile(predicted, LEVELS)]


# Most share of a log that may be excluded, so that enough data remain.
MOST = 1.0 / 3.0
# Least share of the mean square residual within the excluded times for sure evidence.
SURE = 0.5
# Largest difference between filtered and logged peak, as a share of the largest effort.
NEAR = 0.01
ADVICE = "These times are excluded from the fit and from the scores; check what happened there."


class Spoilt(Protocol):
    """Selects the samples (T,) of a batch to exclude, including neighbours within reach of the filters."""

    def among(self, samples: Samples) -> Bool:
        """Mask (T,), True = left out."""
        ...


@dataclass(frozen=True, eq=False)
class AtPeak:
    """Samples whose effort is at the upper or lower limit of a joint.

    Attributes
    ----------
    ends : ndarray, shape (2, n)
        Upper and lower limit; nan without limit.
    size : ndarray, shape (n,)
        Largest effort.
    seconds : float
        Time on either side that is also excluded, s.

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
    """Samples within intervals, which are extended by `seconds` on either side."""

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
    """Batches without the spoilt samples, generated again in each iteration."""

    batches: Iterable[Samples]
    spoilt: Spoilt
    why: str

    def __iter__(self) -> Iterator[Samples]:
        return (_less(samples, self.spoilt, self.why) for samples in self.batches)


def widened(mask: Bool, reach: int) -> Bool:
    """Extend the True runs of a mask (T,) by a number of samples on either side."""
    counts = np.concatenate([[0], np.cumsum(mask)])
    T = len(mask)
    low, high = np.maximum(np.arange(T) - reach, 0), np.minimum(np.arange(T) + reach + 1, T)
    return np.asarray(counts[high] > counts[low])


def left_out(
    batches: Iterable[Samples], spoilt: Spoilt, why: str, diagnostics: Diagnostics
) -> Iterable[Samples] | None:
    """Exclude spoilt samples from batches and warn of their amount; `why` is the reason in words.

    Returns None if there is nothing to exclude, or if it is more than a third of the log.
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
        diagnostics.warn(
            "not-masked", f"{why}: the affected time is too long to exclude, {amount}; record again"
        )
        return None
    diagnostics.warn(
        "masked", f"{why}: {amount}, including neighbours, are excluded from the fit and from the scores"
    )
    if isinstance(batches, list):
        return [_less(samples, spoilt, why) for samples in batches]
    return _Anew(batches, spoilt, why)


def _less(samples: Samples, spoilt: Spoilt, why: str) -> Samples:
    among = spoilt.among(samples)
    # Samples excluded for another reason, such as rest, may still be used later; spoilt samples may not.
    left_out = {reason: mask & ~among for reason, mask in samples.left_out.items()}
    left_out[why] = samples.with_left_out.keep & among
    return replace(samples, keep=samples.keep & ~among, left_out=left_out)


def spoilt_times(analysis: ResidualAnalysis) -> tuple[Finding, ...]:
    """Findings of contact and saturation with sufficient evidence to exclude their times."""
    if not analysis.enough:
        return ()
    findings = [*Bursts().look(analysis), *Saturation(least=0.5 * SURE).look(analysis)]
    sure = [
        finding for finding in findings if finding.level is Level.WARNING and finding.evidence.share >= SURE
    ]
    return tuple(finding for finding in sure if finding.evidence.times)


def without_times(
    batches: Iterable[Samples],
    residual_findings: Sequence[Finding],
    bandwidth: float,
    diagnostics: Diagnostics,
) -> tuple[Iterable[Samples], tuple[Finding, ...]] | None:
    """Exclude the times of findings from batches, and mark the findings as masked.

    One period of `bandwidth` (the cutoff frequency of the filters, Hz) on either side is excluded, too. The result is
    None if nothing, or too much, would be excluded.
    """
    spans = tuple(span for finding in residual_findings for span in finding.evidence.times)
    if not spans:
        return None
    why = "; ".join(finding.title for finding in residual_findings)
    sound = left_out(batches, Within(spans, 1.0 / bandwidth), why, diagnostics)
    if sound is None:
        return None
    return sound, tuple(
        replace(finding, advice=ADVICE, evidence=replace(finding.evidence, masked=True))
        for finding in residual_findings
    )
