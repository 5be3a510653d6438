"""Residual against position, slow: gravity in another direction, cables, springs, unbalanced parts."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.diagnosis.residual_analysis import Evidence
from dynid.diagnosis.symptom import Symptom
from dynid.diagnosis.wording import angle, binned_curve, counts, figures, level, unit

HARMONICS = 3


@dataclass(frozen=True)
class FollowsPosition:
    """Tries the first three harmonics of each joint's own angle, or the first three powers of a slide's position."""

    identifier: str = "follows-position"
    looks_at: str = "residual against position"

    def look(self, evidence: Evidence) -> list[Symptom]:
        """At most one symptom a joint."""
        found = []
        for joint in evidence.joints:
            q = evidence.motion.q[:, joint]
            columns = slow_features(q, evidence.robot.prismatic[joint])
            effect = evidence.alone(joint, columns)
            if effect is None:
                continue
            share, p_value = float(effect.share[joint]), min(effect.p_value * len(evidence.joints), 1.0)
            if not counts(share, p_value):
                continue
            name = evidence.robot.joint_names[joint]
            found.append(
                Symptom(
                    self.identifier,
                    level(evidence, joint, share),
                    name,
                    f"{name}: residual follows position",
                    "A slow function of this joint's position explains "
                    f"{figures(evidence, joint, share, p_value)}.",
                    "Check gravity and [base] in the robot file; a cable or hose is a channel, a spring or "
                    "counterbalance a spring term, friction that varies over the turn position_friction.",
                    share,
                    p_value,
                    curve=binned_curve(
                        q,
                        evidence.error[:, joint],
                        effect.fitted[0],
                        f"position, {angle(evidence, joint)}",
                        f"residual, {unit(evidence, joint)}",
                        "slow function of position",
                    ),
                )
            )
        return found


def slow_features(q: Float, prismatic: bool) -> Float:
    """Slow functions of position (N,): sines and cosines of k q, k = 1..3, or powers 1..3 of a slide, (N, k)."""
    if prismatic:
        x = (q - q.mean()) / max(float(np.ptp(q)), 1e-12)
        return np.stack([x, x**2, x**3], axis=1)
    waves = [f(k * q) for k in range(1, HARMONICS + 1) for f in (np.sin, np.cos)]
    return np.stack(waves, axis=1)
