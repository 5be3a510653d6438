"""Torque that is late or early against the motion: a second clock, or a filter in one of the channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.arrays import Float
from dynid.diagnosis.evidence import Evidence
from dynid.diagnosis.wording import ALARM

# What friction that the model lacks does alike, but not on all joints alike.
LEAST_SHARE, LEAST_PART, MOST_PART = 0.1, 0.3, 4.0


@dataclass(frozen=True, eq=False)
class Delay:
    """Time by which measured torque lags behind the motion.    seconds, std: of all joints together.

    by_joint: (k,) of every joint by itself.    share: (n,) of each joint's residual that it explains.
    p_value: of no delay at all.
    """

    seconds: float
    std: float
    by_joint: Float
    share: Float
    p_value: float

    @property
    def believable(self) -> bool:
        """Whether it is beyond chance, matters, and every joint by itself says about the same."""
        if not (self.p_value < ALARM and np.median(self.share) > LEAST_SHARE and len(self.by_joint)):
            return False
        parts = self.by_joint / self.seconds
        return bool((parts > LEAST_PART).all() and (parts < MOST_PART).all())


def find_delay(evidence: Evidence) -> Delay | None:
    """The delay that explains most of the residuals, to first order; None where the model holds it already.

    Torque that is late by d leaves the residual -d dtau/dt; the slope of the predicted torque is tested on what the
    model leaves, since friction and inertia take up part of it.
    """
    if not evidence.enough:
        return None
    predicted, i = evidence.residuals.predicted, evidence.index
    slope = (predicted[i + 1] - predicted[i - 1]) * (0.5 * evidence.residuals.rate)
    effect = evidence.effect(-slope.T[:, :, None])
    if effect is None:
        return None
    alone = [evidence.alone(joint, -slope[:, [joint]]) for joint in evidence.joints]
    by_joint = np.array([one.coefficient[0] for one in alone if one is not None])
    share = effect.share[list(evidence.joints)]
    return Delay(float(effect.coefficient[0]), float(effect.std[0]), by_joint, share, effect.p_value)
