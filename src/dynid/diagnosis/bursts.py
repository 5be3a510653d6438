"""Short bursts of residual on several joints at once: the robot touched something."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.distributions import normal_quantile
from dynid.base.records import dataclass
from dynid.diagnosis.finding import Curve, Interval, ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import level
from dynid.terms.residual_tests import ALARM

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

    def look(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
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
    ) -> ResidualFinding:
        names = ", ".join(analysis.robot.joint_names[j] for j in joints)
        when = ", ".join(f"{s.start:.2f} to {s.end:.2f} s" for s in spans[:MOST_NAMED])
        more = f" and {len(spans) - MOST_NAMED} more" if len(spans) > MOST_NAMED else ""
        size = height.max(axis=1)
        step = max(1, len(size) // POINTS)
        # The highest of each bucket, so that no burst falls between the points.
        edge = np.arange(0, len(size), step)
        return ResidualFinding(
            self.identifier,
            level(analysis, worst, share),
            "",
            "A burst of residual" if len(spans) == 1 else f"{len(spans)} bursts of residual",
            f"On {names}, up to {height[:, joints].max():.3g} times the usual size (noise would stay below "
            f"{threshold:.2g}), at {when}{more}.",
            "Contact, a cable that catches, or a stop of the controller: look at these times and leave them out "
            "(window under [data]).",
            share,
            ALARM,
            times=tuple(spans),
            curve=Curve(
                "time, s",
                "residual / usual size",
                analysis.residuals.t[edge],
                np.maximum.reduceat(size, edge),
                np.full(len(edge), threshold),
                "bound for noise",
            ),
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
