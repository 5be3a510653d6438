"""Friction that drives the motion: a sign that is turned, or a model that lacks something else."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.base.records import dataclass
from dynid.diagnosis.proof import Reading, prove
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.diagnosis.wiring_checks import LARGE, misfits, sign_readings, thinned
from dynid.estimate.estimator import Estimate
from dynid.estimate.residuals import Residuals
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

SIGNIFICANCE = 4.0
# Of a joint's mean mechanical power; less than that is rounding of other effects.
LEAST_POWER = 0.05


@dataclass(frozen=True)
class DrivenJoint:
    """A joint whose friction feeds power into the motion.    power, std: W, negative = fed in."""

    joint: int
    power: float
    std: float


def driven_joints(estimate: Estimate, residuals: Residuals, power: Float) -> Iterator[DrivenJoint]:
    """Joints whose friction feeds power into the motion beyond doubt.

    power: (n, b) W, mean power that one unit of each base parameter's column takes as friction of a joint.
    It is compared with its own standard deviation and with the joint's mean |tau dq|.
    """
    throughput = np.mean(np.abs(residuals.measured * residuals.dq), axis=0)
    for joint, gradient in enumerate(power):
        mean = float(gradient @ estimate.value)
        std = float(np.sqrt(gradient @ estimate.covariance @ gradient))
        if gradient.any() and mean < -SIGNIFICANCE * std and mean < -LEAST_POWER * throughput[joint]:
            yield DrivenJoint(joint, mean, std)


def friction_power(robot: RobotModel, terms: Terms, motion: Samples, mask: Bool) -> Float:
    """(n, b) W, see `driven_joints`; of all forms of friction among some columns, mask (p,), over a motion."""
    Y, _ = regressor(robot, terms, motion, mask)
    power = np.einsum("jnb,nj->jb", Y, motion.dq) / max(len(motion), 1)
    return np.asarray(power * terms.friction_columns(robot)[mask])


def check_negative_friction(
    analysis: ResidualAnalysis, diagnostics: Diagnostics, commanded: bool = False
) -> None:
    """Reports joints whose friction drives the motion.

    commanded: whether torque is made of commands, which has no sign of its own: a warning then.
    Claims: negative-friction, where an effort or a position of the other sign would explain the log as well. Where the
    other joints contradict both signs, or neither explains most of the torque, the model lacks something, which is a
    warning.
    """
    if not analysis.enough:
        return
    mask = analysis.estimate.base.mask
    power = friction_power(analysis.robot, analysis.terms, analysis.motion, mask)
    for one in driven_joints(analysis.estimate, analysis.residuals, power):
        place = Place(joint=analysis.robot.joint_names[one.joint])
        found = f"friction that drives the motion ({one.power:.3g} W on average, standard deviation {one.std:.2g} W)"
        if commanded:
            diagnostics.warn(
                "negative-friction",
                f"{found}: torque is made of commands, and a delay that is off turns viscous friction round; declare "
                "when commands arrive and how long they hold (delay and hold under [drive]), and where the loop is "
                "closed (--loop drive or --loop computer)",
                place,
            )
            continue
        proofs = [
            prove(analysis, Reading(turned.robot, turned.samples))
            for turned in sign_readings(analysis.robot, analysis.gated, one.joint)
        ]
        if all(proof is not None and proof.contradicted for proof in proofs):
            diagnostics.warn(
                "negative-friction",
                f"{found}; neither effort nor position of the other sign would fit: the model lacks an effect that "
                "gives the joint power (a spring, a cable, another form of friction), or the log is short",
                place,
            )
        elif _lacks_most(analysis, one.joint):
            diagnostics.warn(
                "negative-friction",
                f"{found}; with either sign the model misses more than {100 * LARGE:g} % of this joint's torque: it "
                "lacks what makes it up, and friction stands in for that",
                place,
            )
        else:
            diagnostics.claim(
                "negative-friction",
                found=f"{found}, and the log fits as well with the other sign",
                expected="friction that takes power out of the motion",
                do="check the sign of this joint's effort and position ([log] effort.sign)",
                place=place,
            )


def _lacks_most(analysis: ResidualAnalysis, joint: int) -> bool:
    """Whether a plain fit misses most of a joint's torque as declared and with either sign."""
    samples = thinned(analysis)
    readings = [
        (analysis.robot, samples),
        *((one.robot, one.samples) for one in sign_readings(analysis.robot, samples, joint)),
    ]
    missed = [misfits(analysis, robot, motion) for robot, motion in readings]
    return all(one is not None and one[joint] > LARGE**2 for one in missed)
