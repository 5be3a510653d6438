"""Torque that stays below what the model asks for at its peaks: a limit was reached, or the log cuts it off."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.diagnosis.bursts import stretches
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import binned_curve, counts, figures, level, unit
from dynid.terms.residual_tests import FeatureTest

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

    def look(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
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
    ) -> ResidualFinding:
        name, share = analysis.robot.joint_names[joint], float(effect.share[joint])
        missing = 100 * min(-side * float(effect.coefficient[0]), 1.0)
        predicted = analysis.residuals.predicted[analysis.index, joint]
        lower = [one for one in _caps(side * predicted) if one < cap]
        # The level lies between two that were tried.
        beyond = side * analysis.residuals.predicted[:, joint] > max(lower, default=cap)
        return ResidualFinding(
            self.identifier,
            level(analysis, joint, share),
            name,
            f"{name}: torque is missing at its peaks",
            f"Beyond {side * cap:.4g} {unit(analysis, joint)} {missing:.0f} % of the torque that the motion takes was "
            f"not measured: {figures(analysis, joint, share, p_value)}.",
            "The log or the drive cuts it off. Record with less load or speed, or leave these stretches out ([data]).",
            share,
            p_value,
            times=tuple(stretches(analysis, beyond)),
            curve=binned_curve(
                predicted,
                analysis.error[:, joint],
                effect.fitted[0],
                f"predicted torque, {unit(analysis, joint)}",
                f"residual, {unit(analysis, joint)}",
                "missing beyond a level",
            ),
        )


def _missing(side: float, effect: FeatureTest) -> bool:
    return MISSING[0] < -side * float(effect.coefficient[0]) < MISSING[1]


def _flat(measured: Float, predicted: Float) -> bool:
    """Whether measured torque does not rise with the predicted one, of samples beyond a level."""
    a, b = measured - measured.mean(), predicted - predicted.mean()
    return bool(max(float(a @ b), 0.0) ** 2 < RISES * float(a @ a) * float(b @ b))


def _caps(predicted: Float) -> list[float]:
    return [float(cap) for cap in np.quantile(predicted, LEVELS)]
