"""A diagnosis: a joint that is disturbed by its neighbour's speed."""

from dataclasses import dataclass

from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.wording import counts, figures, level


@dataclass(frozen=True)
class FollowsNeighbour:
    """Residual of a joint against the velocity of the joint before it."""

    identifier: str = "follows-neighbour"
    looks_at: str = "residual against the neighbour's velocity"

    def look(self, analysis):
        findings = []
        for joint in analysis.joints[1:]:
            effect = analysis.test_joint(joint, analysis.motion.dq[:, [joint - 1]])
            if effect is None:
                continue
            share, p_value = float(effect.share[joint]), min(effect.p_value * len(analysis.joints), 1.0)
            if counts(share, p_value):
                name = analysis.robot.joint_names[joint]
                text, size = figures(analysis, joint, share, p_value), level(analysis, joint, share)
                title = f"{name}: coupled"
                findings.append(
                    ResidualFinding(self.identifier, size, name, title, text, "Couple them.", share, p_value)
                )
        return findings
