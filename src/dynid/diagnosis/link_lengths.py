"""Links that are longer or shorter than described, and links whose length a log does not show."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.distributions import student_quantile
from dynid.base.records import dataclass
from dynid.diagnosis.proof import RIVALS, Reading, prove
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.kernel import inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.terms.residual_tests import ALARM, Rival

# Relative step of the differences.
STEP = 1e-3
# Drawings and tapes give lengths to 2 %; a twentieth is what an exchanged link or a wrong variant makes.
WARN, MATTERS = 0.02, 0.05
# m, and share of the longest: shorter distances between joints carry no lever.
LEAST_LENGTH, LEAST_PART = 0.05, 0.2


@dataclass(frozen=True)
class LinkLength:
    """What a log says of the distance from a joint to the one before it.

    joint: index of the tree joint.    change, std: relative to the description.
    least: change from which on it is beyond chance.
    """

    joint: int
    change: float
    std: float
    least: float

    @property
    def differs(self) -> bool:
        """Whether it is another length than described, beyond chance and 95 % interval."""
        return abs(self.change) > self.least and abs(self.change) - 2.0 * self.std > WARN

    @property
    def excluded(self) -> bool:
        """Whether a change that matters is ruled out, even if what the model lacks hid half of it."""
        return self.least < 0.5 * MATTERS and abs(self.change) + 2.0 * self.std < MATTERS


def check_link_lengths(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Warns of a link of another length than described, and notes those whose length the log does not show."""
    found, named = find_link_lengths(analysis), -1
    names = analysis.robot.tree_joint_names
    for one in sorted((one for one in found if one.differs), key=lambda one: -abs(one.change) / one.least)[
        :1
    ]:
        longer, shorter = (_stretched(analysis.robot, one.joint, sign * one.change) for sign in (1.0, -1.0))
        samples = analysis.gated
        rivals = {
            str(rival): RIVALS[rival](analysis) for rival in (Rival.POSITION, Rival.FRICTION, Rival.ZERO)
        }
        proof = prove(analysis, Reading(longer, samples), Reading(shorter, samples), rivals)
        if proof is not None and proof.holds:
            diagnostics.warn(
                "link-length",
                f"the distance of joint '{names[one.joint]}' from the joint before it is "
                f"{100 * abs(one.change):.2g} +- {200 * one.std:.1g} % "
                f"{'longer' if one.change > 0 else 'shorter'} than described: "
                f"{proof.words(analysis.robot.joint_names)}; check the link against its drawing",
            )
            named = one.joint
    unseen = [names[one.joint] for one in found if one.joint != named and not one.excluded]
    if unseen:
        diagnostics.note(
            "link-length-unseen",
            f"lengths of links are taken from the description: an error of {100 * MATTERS:.0f} % before "
            f"{', '.join(unseen)} cannot be distinguished from other effects in this log",
        )


def find_link_lengths(analysis: ResidualAnalysis) -> list[LinkLength]:
    """By link, the relative change of its length that explains most of the residuals, to first order.

    Of the torque of the identified bodies that a longer link changes most is taken up by the other parameters, all of
    its gravity by the first moments of the link itself; only what these leave depends on the length. Empty for a model
    without rigid bodies.
    """
    bodies = analysis.bodies
    if bodies is None or not analysis.enough:
        return []
    # What the log leaves open of the identified bodies may be far from any body; the described ones are not.
    prior = analysis.robot.inertia_prior
    bodies = np.where(np.isfinite(prior), prior, bodies)
    robot = replace(analysis.robot, gravity=np.zeros(3))
    lengths = np.linalg.norm(robot.T_parent_joint[1:, :3, 3], axis=1)
    least = max(LEAST_LENGTH, LEAST_PART * float(lengths.max(initial=0.0)))
    joints = np.flatnonzero(lengths >= least) + 1
    # Student's quantile of so many blocks, all links counted.
    sure = float(student_quantile(int(analysis.block.max()), 1.0 - 0.5 * ALARM / max(len(joints), 1)))
    found = []
    for joint in joints.tolist():
        ahead, behind = (_torque(analysis, _stretched(robot, joint, step), bodies) for step in (STEP, -STEP))
        test = analysis.test_features(((ahead - behind) / (2.0 * STEP)).T[:, :, None])
        change, std = (0.0, np.inf) if test is None else (float(test.coefficient[0]), float(test.std[0]))
        found.append(LinkLength(joint, change, std, sure * std))
    return found


def _torque(analysis: ResidualAnalysis, robot: RobotModel, bodies: Float) -> Float:
    motion = analysis.motion
    tree_motion = robot.tree_motion(motion.q, motion.dq, motion.ddq)
    return np.asarray(inverse_dynamics(robot.tree, bodies, *tree_motion) @ robot.projection)


def _stretched(robot: RobotModel, joint: int, share: float) -> RobotModel:
    """The robot with one link longer by a share."""
    T = robot.T_parent_joint.copy()
    T[joint, :3, 3] *= 1.0 + share
    return replace(robot, T_parent_joint=T)
