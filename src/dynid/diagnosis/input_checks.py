"""Whether the effort is a measurement, moves the robot, and fits the described links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.diagnostics import Diagnostics
from dynid.base.errors import Place
from dynid.base.numerics import student_quantile
from dynid.base.records import dataclass
from dynid.diagnosis.proof import FOLDS, RIVALS, HeldOut, Reading, decisive, prove
from dynid.diagnosis.residual_analysis import ResidualAnalysis, basis, regressor
from dynid.diagnosis.wiring_checks import LARGE, misfits, sign_readings, thinned
from dynid.estimate.estimator import Estimate
from dynid.estimate.scores import Residuals
from dynid.kernel import inverse_dynamics
from dynid.log.log import lattice_step
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind
from dynid.terms.residual_tests import ALARM, Rival
from dynid.terms.term import Terms

# Is the effort a measurement? A controller's or simulator's model has neither friction nor noise.

# Friction of geared joints takes 5 to 50 % of their torque, and that behind joint torque sensors some percent at light
# joints: less than this on every joint is no robot's.
LEAST_FRICTION = 0.01
# Noise of currents and torque sensors lies between 0.1 and 5 % of the torque; files hold five digits or more.
LEAST_NOISE = 1e-3
# A model of torque follows the model that is fitted to it at most joints; simpler ones, such as those without coupling
# of the joints, do less well at some. Friction fitted to such a misfit is about as large as the misfit.
MOST_MISSED, FITTED_TO_MISFIT = 0.1, 2.0
# Fourth differences: motion below a fiftieth of the sample rate leaves less than 1e-4 of itself, white noise all of it.
DIFFERENCE = np.array([1.0, -4.0, 6.0, -4.0, 1.0])


def check_measured(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Looks for efforts that are no measurement.

    Claims: modelled-effort, where the torque of two joints and more has no friction, and no noise of its own.
    """
    if not analysis.enough or analysis.raw is None or len(analysis.joints) < 2:
        return
    joints = list(analysis.joints)
    noise = noise_shares(analysis)
    # A model of measured motion has the motion's noise: then friction alone shows it, where little else is missed.
    noisy = noise[joints].max() > LEAST_NOISE
    if np.median(analysis.missed[joints]) > (LEAST_FRICTION if noisy else MOST_MISSED):
        return  # measured: friction, which takes much longer, is not asked
    friction = friction_shares(analysis)
    most = LEAST_FRICTION + (0.0 if noisy else FITTED_TO_MISFIT) * analysis.missed
    if friction is None or (friction > most)[joints].any():
        return
    usual = float(np.median(friction[joints]))
    diagnostics.claim(
        "modelled-effort",
        found=f"efforts without friction (at most {100 * usual:.2g} % of the torque of half of the joints) and "
        f"no noise (at most {100 * noise[joints].max():.1g} %) of its own: a controller's or a simulator's model, "
        "not a measurement",
        expected="measured torque or current",
        do="map the measured effort under [log] (actual current or torque, not the target)",
    )


def friction_shares(analysis: ResidualAnalysis) -> Float | None:
    """Torque (n,) of viscous and Coulomb friction by joint over its torque, at the end of the 95 % interval.

    Both are fitted beside the plain model, which may leave them out. None where the model reads more than motion.
    """
    terms, wanted = analysis.plain_model
    Y, complete = regressor(analysis.robot, terms, analysis.motion, wanted)
    if not complete:
        return None
    n, N, b = Y.shape
    weight = (~analysis.reverses).T / np.maximum(analysis.rms, 1e-300)[:, None]
    shares = np.zeros(n)
    y = (analysis.motion.tau.T * weight).reshape(-1)
    rigid = (Y * weight[:, :, None]).reshape(n * N, b)
    # Friction of the model is estimated anew, joint by joint.
    Q = basis(rigid[:, ~terms.friction_columns(analysis.robot)[wanted]])
    residual = y - Q @ (Q.T @ y)
    for j in analysis.joints:
        dq = analysis.motion.dq[:, j]
        forms = np.zeros((n, N, 2))
        forms[j] = np.column_stack([dq, np.sign(dq)])
        X = (forms * weight[:, :, None]).reshape(n * N, 2)
        shares[j] = _share(X - Q @ (Q.T @ X), residual, analysis, j, forms[j])
    return shares


def _share(X: Float, e: Float, analysis: ResidualAnalysis, joint: int, shape: Float) -> float:
    # X and e: friction's forms and the torque, without what the rest of the model explains.
    coefficient, *_ = np.linalg.lstsq(X, e, rcond=1e-9)
    torque = shape @ coefficient
    sigma = float(np.sqrt(np.mean((e - X @ coefficient) ** 2)))
    spread = np.linalg.pinv(X.T @ X) * sigma**2
    half = 2.0 * np.sqrt(max(float(np.mean(np.einsum("ni,ij,nj->n", shape, spread, shape))), 0.0))
    # Over the same samples, in motion: a robot that stands long has less torque.
    whole = np.sqrt(np.mean(analysis.motion.tau[:, joint] ** 2))
    return float((np.sqrt(np.mean(torque**2)) + half) / max(whole, 1e-300))


def noise_shares(analysis: ResidualAnalysis) -> Float:
    """White noise (n,) of the raw torque beyond its rounding, over its root mean square, by fourth differences."""
    if analysis.raw is None:
        return np.zeros(analysis.robot.n)
    parts = [np.apply_along_axis(np.convolve, 0, part, DIFFERENCE, "valid") for part in analysis.raw.parts]
    everything = np.concatenate(analysis.raw.parts)
    size = np.sqrt(np.mean((everything - everything.mean(axis=0)) ** 2, axis=0))
    # The median: steps of friction and contact are rare and large.
    noise = np.median(np.abs(np.concatenate(parts)), axis=0) / 0.6745 / np.linalg.norm(DIFFERENCE)
    rounded = noise <= lattice_step(everything)
    return np.where(rounded, 0.0, noise / np.maximum(size, 1e-300))


# Whether the torque moves the robot: a hand that leads an arm accelerates it, and leaves gravity and
# friction.

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
    if (
        not analysis.enough
        or samples.theta is not None
        or not any(term.traits.kind is Kind.BODIES for term in terms)
    ):
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
        [np.full(len(term.columns(robot)), term.traits.kind in (Kind.BODIES, Kind.ROTORS)) for term in terms]
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


# Friction that drives the motion: a sign that is turned, or a model that lacks something else.

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


# Links that are longer or shorter than described, and links whose length a log does not show.

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
