"""Torque that is late or early against the motion: a second clock, or a filter in one of the channels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dynid.base.arrays import Float
from dynid.diagnosis.effect_tests import features_of, remains_of
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.residual_analysis import FeatureTest, ResidualAnalysis
from dynid.diagnosis.wording import ALARM, binned_curve, counts, figures, level, unit
from dynid.terms.evidence import FRICTION_FORM

# What friction that the model lacks does alike, but not on all joints alike.
LEAST_SHARE, LEAST_PART, MOST_PART = 0.1, 0.3, 4.0
# Share of its evidence that a delay has to keep beside all forms of friction.
MAINLY = 0.5
REVERSAL_CYCLES, REVERSAL_SPEED = 1.0, 0.02


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


def find_delay(evidence: ResidualAnalysis) -> Delay | None:
    """The delay that explains most of the residuals, to first order; None where the model holds it already.

    Torque that is late by d leaves the residual -d dtau/dt; the slope of the predicted torque is tested on what the
    model leaves, since friction and inertia take up part of it.
    """
    if not evidence.enough:
        return None
    slope = evidence.slope
    effect = evidence.test_features(-slope.T[:, :, None])
    if effect is None:
        return None
    alone = [evidence.test_joint(joint, -slope[:, [joint]]) for joint in evidence.joints]
    by_joint = np.array([one.coefficient[0] for one in alone if one is not None])
    share = effect.share[list(evidence.joints)]
    return Delay(float(effect.coefficient[0]), float(effect.std[0]), by_joint, share, effect.p_value)


def late(evidence: ResidualAnalysis, joint: int) -> Float:
    """What torque of one joint that is late by a second leaves of its residual, to first order, (N, 1)."""
    return -evidence.slope[:, [joint]]


@dataclass(frozen=True)
class LateTorque:
    """Tries a delay of each joint's torque by itself, beside what friction that the model lacks would do alike.

    Away from reversals only torque that is late itself leaves such residuals; at reversals friction that builds up on
    the way does, too.
    """

    identifier: str = "late-torque"
    looks_at: str = "residual against the torque's change in time"

    def look(self, evidence: ResidualAnalysis) -> list[ResidualFinding]:
        """At most one finding a joint; none for a delay of all joints, which is reported on its own."""
        common = find_delay(evidence)
        if common is not None and common.believable:
            return []
        found, remains = [], remains_of(evidence)
        near = evidence.near_reversal(REVERSAL_CYCLES / evidence.bandwidth, REVERSAL_SPEED)[evidence.index]
        for joint in evidence.joints:
            column = late(evidence, joint)
            effect = evidence.test_joint(joint, column)
            if effect is None:
                continue
            share, p_value = float(effect.share[joint]), min(effect.p_value * len(evidence.joints), 1.0)
            forms = np.column_stack([f.columns for f in features_of(FRICTION_FORM, remains, joint)])
            if counts(share, p_value) and evidence.partial_share(joint, column, forms) > MAINLY * share:
                away = evidence.test_joint(joint, np.where(near[:, [joint]], 0.0, column))
                everywhere = away is not None and counts(float(away.share[joint]), away.p_value)
                found.append(self._finding(evidence, joint, effect, share, p_value, everywhere))
        return found

    def _finding(
        self,
        evidence: ResidualAnalysis,
        joint: int,
        effect: FeatureTest,
        share: float,
        p_value: float,
        everywhere: bool,
    ) -> ResidualFinding:
        name, seconds = evidence.robot.joint_names[joint], float(effect.coefficient[0])
        way = "late" if seconds > 0 else "early"
        delay = 'a filter or a clock of its drive: align its channels, or add { term = "torque_delay", each = true }'
        return ResidualFinding(
            self.identifier,
            level(evidence, joint, share),
            name,
            f"{name}: torque comes {way}" if everywhere else f"{name}: torque turns round {way}",
            f"By {1e3 * abs(seconds):.2g} +- {2e3 * float(effect.std[0]):.1g} ms against the motion, which explains "
            f"{figures(evidence, joint, share, p_value)}.",
            f"{delay[0].upper()}{delay[1:]}."
            if everywhere
            else f'Friction that builds up on the way: try {{ term = "friction" }}; or {delay}.',
            share,
            p_value,
            curve=binned_curve(
                evidence.slope[:, joint],
                evidence.error[:, joint],
                effect.fitted[0],
                f"change of the predicted torque, {unit(evidence, joint)}/s",
                f"residual, {unit(evidence, joint)}",
                f"torque that is {way}",
            ),
        )
