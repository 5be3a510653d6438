"""Friction that drives the motion: a sign that is turned, or a model that lacks something else."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.diagnosis.proof import LEAST_SHARE, Reading, gated, prove
from dynid.diagnosis.residual_analysis import Evidence
from dynid.diagnosis.wiring_checks import sign_readings
from dynid.estimate.estimator import Estimate
from dynid.estimate.residuals import Residuals

SIGNIFICANCE = 4.0
# Of a joint's mean mechanical power; less than that is rounding of other effects.
LEAST_POWER = 0.05


@dataclass(frozen=True)
class DrivenJoint:
    """A joint whose friction feeds power into the motion.    power, std: W, negative = fed in."""

    joint: int
    power: float
    std: float


def driven_joints(estimate: Estimate, residuals: Residuals) -> Iterator[DrivenJoint]:
    """Joints whose friction feeds power into the motion beyond doubt.

    The mean power fv dq^2 + fc |dq| over the log is compared with its own standard deviation and with the joint's mean
    |tau dq|.
    """
    names = [column.name for column in estimate.columns]
    position = {int(c): i for i, c in enumerate(estimate.base.independent)}
    for joint in range(len(residuals.joint_names)):
        speed = residuals.dq[:, joint]
        gradient = np.zeros(estimate.base.rank)
        for name, power in (
            (f"fv{joint + 1}", np.mean(speed**2)),
            (f"fc{joint + 1}", np.mean(np.abs(speed))),
        ):
            if name in names and names.index(name) in position:
                gradient[position[names.index(name)]] = power
        if not gradient.any():
            continue
        mean = float(gradient @ estimate.value)
        std = float(np.sqrt(gradient @ estimate.covariance @ gradient))
        throughput = float(np.mean(np.abs(residuals.measured[:, joint] * speed)))
        if mean < -SIGNIFICANCE * std and mean < -LEAST_POWER * throughput:
            yield DrivenJoint(joint, mean, std)


def check_negative_friction(evidence: Evidence, diagnostics: Diagnostics) -> None:
    """Tells of joints whose friction drives the motion.

    Claims: negative-friction, where an effort or a position of the other sign would explain the log as well. Where the
    other joints contradict both signs, the model lacks something, which is a warning.
    """
    for one in driven_joints(evidence.estimate, evidence.residuals):
        place = Place(joint=evidence.robot.joint_names[one.joint])
        found = f"friction that drives the motion ({one.power:.3g} W on average, standard deviation {one.std:.2g} W)"
        proofs = [
            prove(evidence, Reading(turned.robot, turned.samples))
            for turned in sign_readings(evidence.robot, gated(evidence), one.joint)
        ]
        if all(proof is not None and proof.gain < -LEAST_SHARE for proof in proofs):
            diagnostics.warn(
                "negative-friction",
                f"{found}; neither effort nor position of the other sign would fit: the model lacks an effect that "
                "gives the joint power (a spring, a cable, another form of friction), or the log is short",
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
