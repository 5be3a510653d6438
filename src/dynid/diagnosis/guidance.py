"""Whether the torque moves the robot: a hand that leads an arm accelerates it, and leaves gravity and friction."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.records import dataclass
from dynid.diagnosis.proof import FOLDS, HeldOut, decisive
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.kernel import inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.term import Terms

# Share of the described bodies' inertial torque that may be in the log, three standard deviations included: a hand that
# leads an arm takes all of it, and descriptions are right to a factor of two.
MOST_INERTIA = 0.3
SURE = 3.0


@dataclass(frozen=True)
class Inertia:
    """What a log holds of the described bodies' inertial torque, 1 = all of it.    std: its standard deviation."""

    share: float
    std: float

    @property
    def missing(self) -> bool:
        """Whether next to nothing of it is in the log, beyond chance."""
        return abs(self.share) + SURE * self.std < MOST_INERTIA


def check_guidance(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> bool:
    """Doubts a log whose torque does not move the robot; returns whether it is doubted.

    Claims: hand-guided.
    """
    samples = analysis.gated
    terms, wanted = analysis.plain_model
    if not analysis.enough or samples.theta is not None or not any(term.of_bodies for term in terms):
        return False
    Y, complete = analysis.plain_columns
    if not complete or len(np.unique(analysis.block)) < FOLDS:
        return False
    still = standing(analysis.robot, terms, samples, wanted)
    moving, held = (HeldOut.weighted(analysis, columns, samples.tau) for columns in (Y, still))
    before, after = moving.error(), held.error()
    found = decisive(analysis, before, after, 1)
    if found is None:
        return False
    inertia = _inertia(analysis, still, samples)
    if inertia is None or not inertia.missing:
        return False
    gain, by_joint = found
    worst = analysis.robot.joint_names[int(np.nanargmax(by_joint))]
    diagnostics.claim(
        "hand-guided",
        found=f"torque that follows gravity and friction, with {100 * inertia.share:.2g} +- {200 * inertia.std:.2g} % "
        "of what the described bodies' accelerations take: without these the model predicts held-out blocks with "
        f"{100 * gain:.3g} % less mean square error, and '{worst}' with {100 * np.nanmax(by_joint):.3g} % less",
        expected="torque that moves the robot",
        do="record a motion that the drives make, not one in which the robot is led by hand, and map the measured "
        "torque, not a computed gravity torque",
    )
    return "hand-guided" not in diagnostics.accepting


def standing(robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Float:
    """Columns (n, N, w) of the model whose bodies and rotors stand at each position; all else moves as it did."""
    Y, _ = regressor(robot, terms, samples, wanted)
    rest = np.zeros_like(samples.dq)
    at_rest, _ = regressor(robot, terms, replace(samples, dq=rest, ddq=rest), wanted)
    heavy = np.concatenate(
        [np.full(len(term.columns(robot)), term.of_bodies or term.of_rotors) for term in terms]
    )[wanted]
    Y[:, :, heavy] = at_rest[:, :, heavy]
    return Y


def _inertia(analysis: ResidualAnalysis, still: Float, samples: Samples) -> Inertia | None:
    """How much of the described bodies' inertial torque is in the log, beside gravity and friction of any size.

    The standard deviation is that of estimates which leave out one block of time each. None where the description has
    no inertias.
    """
    robot = analysis.robot
    if not np.isfinite(robot.inertia_prior).all():
        return None
    tree_motion = robot.tree_motion(samples.q, samples.dq, samples.ddq)
    weightless = replace(robot, gravity=np.zeros(3)).tree
    taken = inverse_dynamics(weightless, robot.inertia_prior, *tree_motion) @ robot.projection
    weights = (~analysis.reverses * analysis.weights).T
    weights[[j for j in range(robot.n) if j not in analysis.joints]] = 0.0
    Y = np.concatenate([taken.T[:, :, None], still], axis=2) * weights[:, :, None]
    size = np.sqrt((Y**2).sum(axis=(0, 1)))
    if size[0] == 0:
        return None
    kept = size > 0
    rows, y = Y[:, :, kept] / size[kept], samples.tau.T * weights
    blocks = int(analysis.block.max()) + 1
    grams, sides = np.zeros((blocks, rows.shape[2], rows.shape[2])), np.zeros((blocks, rows.shape[2]))
    for k in range(blocks):
        part = analysis.block == k
        A = rows[:, part].reshape(-1, rows.shape[2])
        grams[k], sides[k] = A.T @ A, A.T @ y[:, part].reshape(-1)
    gram, side = grams.sum(axis=0), sides.sum(axis=0)
    shares = [
        float(np.linalg.lstsq(gram - g, side - s, rcond=None)[0][0])
        for g, s in [(0.0 * gram, 0.0 * side), *zip(grams, sides, strict=True)]
    ]
    left_out = np.array(shares[1:]) / size[0]
    std = np.sqrt((blocks - 1) / blocks * ((left_out - left_out.mean()) ** 2).sum())
    return Inertia(shares[0] / size[0], float(std))
