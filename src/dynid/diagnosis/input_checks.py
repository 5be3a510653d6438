"""Checks that the effort is measured, that it moves the robot, and that it fits the link lengths of the URDF."""

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

# Is the effort measured? The torque of a controller's or simulator's model has neither friction nor noise.

# Friction is 5 to 50 % of the torque of geared joints, and some percent at light joints behind joint torque sensors. No
# robot has less than this share on every joint.
LEAST_FRICTION = 0.01
# The noise of currents and torque sensors is 0.1 to 5 % of the torque; files contain five digits or more.
LEAST_NOISE = 1e-3
# The fitted model reproduces modelled torque within MOST_MISSED at most joints. Spurious friction from the fit error is
# at most about FITTED_TO_MISFIT times this error.
MOST_MISSED, FITTED_TO_MISFIT = 0.1, 2.0
# Fourth differences attenuate motion below 1/50 of the sample rate to less than 1e-4, but not white noise.
DIFFERENCE = np.array([1.0, -4.0, 6.0, -4.0, 1.0])


def check_measured(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Claim modelled-effort if the torque of at least two joints contains neither friction nor sensor noise."""
    if not analysis.enough or analysis.raw is None or len(analysis.joints) < 2:
        return
    joints = list(analysis.joints)
    noise = noise_shares(analysis)
    if np.median(analysis.missed[joints]) > MOST_MISSED or noise[joints].max() > LEAST_NOISE:
        return  # the effort is measured; skip the slow estimate of friction
    friction = friction_shares(analysis)
    most = LEAST_FRICTION + FITTED_TO_MISFIT * analysis.missed
    if friction is None or (friction > most)[joints].any():
        return
    usual = float(np.median(friction[joints]))
    diagnostics.claim(
        "modelled-effort",
        found=f"efforts without friction (at most {100 * usual:.2g} % of the torque on half of the joints) and "
        f"without sensor noise (at most {100 * noise[joints].max():.1g} %): the efforts come from the model of a "
        "controller or simulator, not from a measurement",
        expected="measured torque or current",
        do="map the measured effort under [log] (actual current or torque, not the target)",
    )


def friction_shares(analysis: ResidualAnalysis) -> Float | None:
    """Upper 95 % limit of the friction torque over the joint torque, per joint (n,).

    Viscous and Coulomb friction are added to the plain model for this estimate. The result is None if the model needs
    other inputs than motion.
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
    # Remove the model's own friction columns, because friction is estimated here per joint.
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
    # X and e are the friction features and the torque, orthogonal to the rest of the model.
    coefficient, *_ = np.linalg.lstsq(X, e, rcond=1e-9)
    torque = shape @ coefficient
    sigma = float(np.sqrt(np.mean((e - X @ coefficient) ** 2)))
    spread = np.linalg.pinv(X.T @ X) * sigma**2
    half = 2.0 * np.sqrt(max(float(np.mean(np.einsum("ni,ij,nj->n", shape, spread, shape))), 0.0))
    # Use the same moving samples: the mean square torque including rest is smaller.
    whole = np.sqrt(np.mean(analysis.motion.tau[:, joint] ** 2))
    return float((np.sqrt(np.mean(torque**2)) + half) / max(whole, 1e-300))


def noise_shares(analysis: ResidualAnalysis) -> Float:
    """White noise of the raw torque over its rms, per joint (n,), from fourth differences; 0 if it is only rounding."""
    if analysis.raw is None:
        return np.zeros(analysis.robot.n)
    parts = [np.apply_along_axis(np.convolve, 0, part, DIFFERENCE, "valid") for part in analysis.raw.parts]
    everything = np.concatenate(analysis.raw.parts)
    size = np.sqrt(np.mean((everything - everything.mean(axis=0)) ** 2, axis=0))
    # The median ignores steps of friction and contact, which are rare and large.
    noise = np.median(np.abs(np.concatenate(parts)), axis=0) / 0.6745 / np.linalg.norm(DIFFERENCE)
    rounded = noise <= lattice_step(everything)
    return np.where(rounded, 0.0, noise / np.maximum(size, 1e-300))


# Does the logged torque move the robot? In hand guiding the hand accelerates the arm, and the drives carry only gravity
# and friction.

# Upper limit of the share of the prior's inertial torque in a hand-guided log, including SURE standard deviations. The
# hand provides all inertial torque, and priors are right within a factor of two.
MOST_INERTIA = 0.3
SURE = 3.0


@dataclass(frozen=True)
class Inertia:
    """Share of the prior's inertial torque in the logged torque.

    Attributes
    ----------
    share : float
        1 means all of it.
    std : float
        Standard deviation.

    """

    share: float
    std: float

    @property
    def missing(self) -> bool:
        """Whether the share is significantly below MOST_INERTIA."""
        return abs(self.share) + SURE * self.std < MOST_INERTIA


def check_guidance(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> bool:
    """Claim hand-guided if the torque does not accelerate the robot; return True unless the user accepts the claim."""
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
    moving, resting = (HeldOut.weighted(analysis, columns, samples.tau) for columns in (Y, still))
    before, after = moving.error(), resting.error()
    gains = decisive(analysis, before, after, 1)
    if gains is None:
        return False
    inertia = _inertia(analysis, still, samples)
    if inertia is None or not inertia.missing:
        return False
    gain, by_joint = gains
    worst = analysis.robot.joint_names[int(np.nanargmax(by_joint))]
    diagnostics.claim(
        "hand-guided",
        found=f"torque of gravity and friction with only {100 * inertia.share:.2g} +- {200 * inertia.std:.2g} % of "
        "the prior's inertial torque: a model without inertia lowers the held-out mean square error by "
        f"{100 * gain:.3g} % ({100 * np.nanmax(by_joint):.3g} % for '{worst}')",
        expected="torque that moves the robot",
        do="record a motion driven by the motors, not by hand guiding, and map the measured torque, not a computed "
        "gravity torque",
    )
    return "hand-guided" not in diagnostics.accepting


def standing(robot: RobotModel, terms: Terms, samples: Samples, wanted: Bool) -> Float:
    """Columns (n, N, w) of the model with links and rotors at rest at each position and all other terms in motion."""
    Y, _ = regressor(robot, terms, samples, wanted)
    rest = np.zeros_like(samples.dq)
    at_rest, _ = regressor(robot, terms, replace(samples, dq=rest, ddq=rest), wanted)
    heavy = np.concatenate(
        [np.full(len(term.columns(robot)), term.traits.kind in (Kind.BODIES, Kind.ROTORS)) for term in terms]
    )[wanted]
    Y[:, :, heavy] = at_rest[:, :, heavy]
    return Y


def _inertia(analysis: ResidualAnalysis, still: Float, samples: Samples) -> Inertia | None:
    """Estimate the share of the prior's inertial torque in the log, with free gravity and friction parameters.

    The standard deviation comes from a jackknife over blocks of time. The result is None if the prior has no inertias.
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


# Friction that drives the motion shows a wrong sign or an incomplete model.

# Least negative power, in standard deviations.
SIGNIFICANCE = 4.0
# Least share of a joint's mean mechanical power; other effects can cause smaller shares.
LEAST_POWER = 0.05


@dataclass(frozen=True)
class DrivenJoint:
    """A joint whose friction adds power to the motion.

    Attributes
    ----------
    joint : int
    power, std : float
        Mean friction power and its standard deviation, W; negative power drives the motion.

    """

    joint: int
    power: float
    std: float


def driven_joints(estimate: Estimate, residuals: Residuals, power: Float) -> Iterator[DrivenJoint]:
    """Yield joints whose friction significantly adds power to the motion.

    The friction power is compared with its standard deviation and with the joint's mean |tau dq|. `power` (n, b) is the
    mean friction power of each joint per unit of each base parameter, W.
    """
    throughput = np.mean(np.abs(residuals.measured * residuals.dq), axis=0)
    for joint, gradient in enumerate(power):
        mean = float(gradient @ estimate.value)
        std = float(np.sqrt(gradient @ estimate.covariance @ gradient))
        if gradient.any() and mean < -SIGNIFICANCE * std and mean < -LEAST_POWER * throughput[joint]:
            yield DrivenJoint(joint, mean, std)


def friction_power(robot: RobotModel, terms: Terms, motion: Samples, mask: Bool) -> Float:
    """Mean friction power (n, b) per unit of each base parameter, W; see `driven_joints`. The mask is (p,)."""
    Y, _ = regressor(robot, terms, motion, mask)
    power = np.einsum("jnb,nj->jb", Y, motion.dq) / max(len(motion), 1)
    return np.asarray(power * terms.friction_columns(robot)[mask])


def check_negative_friction(
    analysis: ResidualAnalysis, diagnostics: Diagnostics, commanded: bool = False
) -> None:
    """Report joints whose friction drives the motion.

    The function claims negative-friction if a flipped sign of effort or position explains the log as well. If the other
    joints contradict both flipped signs, or neither sign explains most of the torque, the model is incomplete, and the
    function warns.

    Parameters
    ----------
    analysis : ResidualAnalysis
        Residuals of the finished fit.
    diagnostics : Diagnostics
        Receives the claims and warnings.
    commanded : bool
        Whether the torque is computed from commands. Its sign cannot be wrong, so the function only warns.

    """
    if not analysis.enough:
        return
    mask = analysis.estimate.base.mask
    power = friction_power(analysis.robot, analysis.terms, analysis.motion, mask)
    for driven in driven_joints(analysis.estimate, analysis.residuals, power):
        place = Place(joint=analysis.robot.joint_names[driven.joint])
        text = f"friction that drives the motion ({driven.power:.3g} W on average, std {driven.std:.2g} W)"
        if commanded:
            diagnostics.warn(
                "negative-friction",
                f"{text}: the torque is computed from commands, and a wrong delay can flip the sign of viscous "
                "friction; declare the delay and hold time of commands (delay and hold under [drive]), and where the "
                "loop is closed (--loop drive or --loop computer)",
                place,
            )
            continue
        proofs = [
            prove(analysis, Reading(turned.robot, turned.samples))
            for turned in sign_readings(analysis.robot, analysis.gated, driven.joint)
        ]
        if all(proof is not None and proof.contradicted for proof in proofs):
            diagnostics.warn(
                "negative-friction",
                f"{text}; flipping the sign of effort or position does not fit: the model lacks an effect that adds "
                "power to the joint (a spring, a cable, another form of friction), or the log is too short",
                place,
            )
        elif _lacks_most(analysis, driven.joint):
            diagnostics.warn(
                "negative-friction",
                f"{text}; with either sign the torque error of this joint exceeds {100 * LARGE:g} %: the model "
                "lacks a main part of the torque, and friction compensates for it",
                place,
            )
        else:
            diagnostics.claim(
                "negative-friction",
                found=f"{text}, and the log fits as well with the opposite sign",
                expected="friction that takes power from the motion",
                do="check the sign of this joint's effort and position ([log] effort.sign)",
                place=place,
            )


def _lacks_most(analysis: ResidualAnalysis, joint: int) -> bool:
    """Whether the plain model fails to fit most of a joint's torque, as declared and with flipped signs."""
    samples = thinned(analysis)
    readings = [
        (analysis.robot, samples),
        *((reading.robot, reading.samples) for reading in sign_readings(analysis.robot, samples, joint)),
    ]
    missed = [misfits(analysis, robot, motion) for robot, motion in readings]
    return all(reading is not None and reading[joint] > LARGE**2 for reading in missed)


# Links whose length differs from the URDF, and links whose length is not identifiable from the log.

# Relative step of the differences.
STEP = 1e-3
# Least relative change for a warning (drawings and tape measures give 2 %), and the change that matters (5 %, as from a
# replaced link or a wrong variant).
WARN, MATTERS = 0.02, 0.05
# Least length of a link that is checked, m and as a share of the longest link: shorter links have no lever arm.
LEAST_LENGTH, LEAST_PART = 0.05, 0.2


@dataclass(frozen=True)
class LinkLength:
    """Estimated distance from a joint to the joint before it.

    Attributes
    ----------
    joint : int
        Index of the tree joint.
    change, std : float
        Change relative to the URDF and its standard deviation.
    least : float
        Least significant change.

    """

    joint: int
    change: float
    std: float
    least: float

    @property
    def differs(self) -> bool:
        """Whether the change is significant and its 95 % interval exceeds WARN."""
        return abs(self.change) > self.least and abs(self.change) - 2.0 * self.std > WARN

    @property
    def excluded(self) -> bool:
        """Whether the log excludes a change that matters, even if modelling errors hide half of it."""
        return self.least < 0.5 * MATTERS and abs(self.change) + 2.0 * self.std < MATTERS


def check_link_lengths(analysis: ResidualAnalysis, diagnostics: Diagnostics) -> None:
    """Warn of a link whose length differs from the URDF, and note the links whose length is not identifiable."""
    lengths, named = find_link_lengths(analysis), -1
    names = analysis.robot.tree_joint_names
    for link in sorted(
        (link for link in lengths if link.differs), key=lambda link: -abs(link.change) / link.least
    )[:1]:
        longer, shorter = (_stretched(analysis.robot, link.joint, sign * link.change) for sign in (1.0, -1.0))
        samples = analysis.gated
        rivals = {
            str(rival): RIVALS[rival](analysis) for rival in (Rival.POSITION, Rival.FRICTION, Rival.ZERO)
        }
        proof = prove(analysis, Reading(longer, samples), Reading(shorter, samples), rivals)
        if proof is not None and proof.holds:
            diagnostics.warn(
                "link-length",
                f"the distance of joint '{names[link.joint]}' from the joint before it is "
                f"{100 * abs(link.change):.2g} +- {200 * link.std:.1g} % "
                f"{'longer' if link.change > 0 else 'shorter'} than in the URDF: "
                f"{proof.words(analysis.robot.joint_names)}; check the link against its drawing",
            )
            named = link.joint
    not_identified = [names[link.joint] for link in lengths if link.joint != named and not link.excluded]
    if not_identified:
        diagnostics.note(
            "link-length-unseen",
            f"link lengths are taken from the URDF: this log cannot show an error of {100 * MATTERS:.0f} % before "
            f"{', '.join(not_identified)}",
        )


def find_link_lengths(analysis: ResidualAnalysis) -> list[LinkLength]:
    """Estimate for each link the relative change of length that explains the residuals best, to first order.

    The other parameters absorb most of the effect of a longer link, and the first moments of the link absorb its whole
    gravity torque. Only the rest shows the length. The list is empty for a model without rigid bodies.
    """
    bodies = analysis.bodies
    if bodies is None or not analysis.enough:
        return []
    # Link parameters that the log does not identify can be far from any physical link, so use the prior instead.
    prior = analysis.robot.inertia_prior
    bodies = np.where(np.isfinite(prior), prior, bodies)
    robot = replace(analysis.robot, gravity=np.zeros(3))
    lengths = np.linalg.norm(robot.T_parent_joint[1:, :3, 3], axis=1)
    least = max(LEAST_LENGTH, LEAST_PART * float(lengths.max(initial=0.0)))
    joints = np.flatnonzero(lengths >= least) + 1
    # Student's quantile for the number of blocks, with Bonferroni correction for the number of links.
    sure = float(student_quantile(int(analysis.block.max()), 1.0 - 0.5 * ALARM / max(len(joints), 1)))
    estimates = []
    for joint in joints.tolist():
        ahead, behind = (_torque(analysis, _stretched(robot, joint, step), bodies) for step in (STEP, -STEP))
        test = analysis.test_features(((ahead - behind) / (2.0 * STEP)).T[:, :, None])
        change, std = (0.0, np.inf) if test is None else (float(test.coefficient[0]), float(test.std[0]))
        estimates.append(LinkLength(joint, change, std, sure * std))
    return estimates


def _torque(analysis: ResidualAnalysis, robot: RobotModel, bodies: Float) -> Float:
    motion = analysis.motion
    tree_motion = robot.tree_motion(motion.q, motion.dq, motion.ddq)
    return np.asarray(inverse_dynamics(robot.tree, bodies, *tree_motion) @ robot.projection)


def _stretched(robot: RobotModel, joint: int, share: float) -> RobotModel:
    """Copy of the robot with a link that is longer by a relative change."""
    T = robot.T_parent_joint.copy()
    T[joint, :3, 3] *= 1.0 + share
    return replace(robot, T_parent_joint=T)
