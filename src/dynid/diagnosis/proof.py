"""Proof of a claim: its reading of the log predicts held-out blocks better, and no rival effect does as well."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cached_property

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.diagnostics import Evidence, Finding
from dynid.base.numerics import student_cumulative
from dynid.base.records import dataclass
from dynid.diagnosis.residual_analysis import ResidualAnalysis, regressor
from dynid.diagnosis.wording import binned_curve, counts, figures, joint_finding, unit
from dynid.factor.folds import folds_of_samples, motion_of_samples, not_judged
from dynid.kernel import cho_factor, cho_solve, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.curve import CurveTerm
from dynid.terms.residual_tests import (
    FRICTION_FORM,
    LEAST_SHARE,
    Declared,
    Feature,
    FeatureGroup,
    FeatureTest,
    Remains,
    Rival,
)
from dynid.terms.term import CATALOGUE, Terms, joint_indices

# Effects that the model lacks: features of all terms of the catalogue, tested on the residuals.

# A feature must explain at least this share of its evidence in addition to the features that imitate it.
MAINLY = 0.5


@dataclass(frozen=True)
class EffectTest:
    """Test of the features of a group on every joint."""

    group: FeatureGroup

    @property
    def identifier(self) -> str:
        """Code of the group's findings."""
        return self.group.identifier

    @property
    def looks_at(self) -> str:
        """Effect that the group tests."""
        return self.group.looks_at

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """Report the feature that explains most: one per joint, or one in total for features of the whole robot.

        There is no finding if all joints share the effect, because another check reports it for the whole robot.
        """
        if self.group.alike and _alike(self.group, analysis):
            return []
        findings: list[tuple[float, Finding]] = []
        whole = False
        for joint in analysis.joints:
            features = features_of(self.group, analysis.remains, joint)
            tried = [(candidate, _tested(analysis, joint, candidate.columns)) for candidate in features]
            known = [(candidate, effect) for candidate, effect in tried if effect is not None]
            if not known:
                continue
            feature, effect = max(known, key=lambda pair: float(pair[1].share[joint]))
            whole = whole or feature.columns.ndim == 3
            share = float(effect.share[joint])
            p_value = min(effect.p_value * len(features) * len(analysis.joints), 1.0)
            if not counts(share, p_value) or not _everywhere(effect, feature):
                continue
            if self.group.imitated_by is not None:
                others = columns_of(self.group.imitated_by, analysis.remains, joint)
                if analysis.partial_share(joint, feature.columns, others) <= MAINLY * share:
                    continue
            finding = self._finding(analysis, joint, feature, effect, p_value)
            findings.append((float(effect.share.sum()), finding))
        if whole and findings:
            # The features act on the same joints, so all but the strongest are imitations.
            findings = [max(findings, key=lambda pair: pair[0])]
        return [finding for _, finding in findings]

    def _finding(
        self, analysis: ResidualAnalysis, joint: int, feature: Feature, effect: FeatureTest, p_value: float
    ) -> Finding:
        share = float(effect.share[joint])
        words = _clearest(analysis, joint, feature).words(effect.coefficient, effect.std)
        advice = words.advice
        if form_name := _own_form(analysis, joint):
            if self.group.friction:
                advice = f"{form_name} does not explain this: record more such motion, or compare other friction forms."
            elif words.beside_form:
                advice = f"{form_name} does not explain this: {words.beside_form}"
        along = np.ones(len(feature.x)) if feature.along is None else feature.along
        fitted = effect.fitted[joint if len(effect.fitted) > 1 else 0]
        curve = binned_curve(
            feature.x,
            analysis.error[:, joint] * along,
            fitted * along,
            feature.x_title,
            f"residual{'' if feature.along is None else ' along the feature'}, {unit(analysis, joint)}",
            words.curve,
        )
        return joint_finding(
            analysis,
            self.identifier,
            joint,
            words.title,
            words.text.format(figures=figures(analysis, joint, share, p_value)),
            advice,
            Evidence(share, p_value, curve=curve),
        )


def feature_groups() -> tuple[FeatureGroup, ...]:
    """Distinct feature groups of the catalogue's terms."""
    return tuple(
        dict.fromkeys(kind.words.group for kind in CATALOGUE.values() if kind.words.group is not None)
    )


def features_of(group: FeatureGroup, remains: Remains, joint: int) -> list[Feature]:
    """Features of all terms of a group."""
    every = [kind.words for kind in CATALOGUE.values() if kind.words.group == group]
    return [feature for words in every for feature in words.features(remains, joint)]


def columns_of(group: FeatureGroup, remains: Remains, joint: int) -> Float:
    """Features (N, k) of a joint from all terms of a group, as columns."""
    return np.column_stack([feature.columns for feature in features_of(group, remains, joint)])


def _alike(group: FeatureGroup, analysis: ResidualAnalysis) -> bool:
    joints = range(analysis.robot.n)
    columns = np.stack([columns_of(group, analysis.remains, joint)[:, 0] for joint in joints])
    common = analysis.test_alike(columns)
    return common is not None and common.believable


def _clearest(analysis: ResidualAnalysis, joint: int, feature: Feature) -> Feature:
    """Return the unambiguous variant of a feature if it is significant, else the feature."""
    if feature.clear is None:
        return feature
    effect = analysis.test_joint(joint, feature.clear.columns)
    sure = effect is not None and counts(float(effect.share[joint]), effect.p_value)
    return feature.clear if sure else feature


def _tested(analysis: ResidualAnalysis, joint: int, columns: Float) -> FeatureTest | None:
    return analysis.test_joint(joint, columns) if columns.ndim == 2 else analysis.test_features(columns)


def _everywhere(effect: FeatureTest, feature: Feature) -> bool:
    # An effect on several joints must appear on at least two: on a single joint, other errors can imitate it.
    return feature.columns.ndim == 2 or int(np.count_nonzero(effect.share >= LEAST_SHARE)) > 1


def _own_form(analysis: ResidualAnalysis, joint: int) -> str | None:
    """Name of the friction form with estimated shape on this joint; None for plain friction."""
    for term in analysis.terms:
        if isinstance(term, CurveTerm) and joint in joint_indices(analysis.robot, term.joints):
            return term.name
    return None


# Number of folds of the cross-validation.
FOLDS = 8
# Number of adjacent joints on either side whose torque a sensor may pick up through bearings and flanges.
NEIGHBOURS = 2
# Significance level of a gain on held-out blocks.
CHANCE = 1e-3
# Least share of a joint's held-out mean square error that a claim must explain.
PROOF_LEAST_SHARE = 0.2
# A change of robot or load must explain this share of the held-out mean square error, and this share of the rms torque
# of at least one joint.
LEAST_GAIN, LEAST_TORQUE = 0.5, 0.03
# The gain of the opposite claim must stay below this share of the gain of the claim.
MOST_MIRROR = 0.5
# Relative ridge of the normal equations.
RIDGE = 1e-9
# Least share of a column's square that the training folds must contain for the column to be used: with less, the
# standard deviation of its coefficient is at least ten times that of the whole log.
LEAST_HELD = 0.01
# Squared errors of a block below this share of the mean over blocks are treated as equal.
BLOCK_FLOOR = 1e-3
# Step of the central differences, rad or m.
OFFSET_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class Reading:
    """A log under a possible declaration.

    Attributes
    ----------
    robot : RobotModel
        The declared robot.
    samples : Samples
        Motion and torque at the thinned samples.
    weightless : tuple of int
        Joints whose torque does not include gravity.

    """

    robot: RobotModel
    samples: Samples
    weightless: tuple[int, ...] = ()

    def columns(self, terms: Terms, wanted: Bool) -> tuple[Float, bool]:
        """Columns (n, N, w) of the torque, and whether motion is the only input that the terms need."""
        Y, complete = regressor(self.robot, terms, self.samples, wanted)
        if self.weightless and complete:
            floating, _ = regressor(replace(self.robot, gravity=np.zeros(3)), terms, self.samples, wanted)
            Y[list(self.weightless)] = floating[list(self.weightless)]
        return Y, complete


@dataclass(frozen=True, eq=False)
class Proof:
    """Gain of a claim on held-out blocks, as a share of the held-out mean square error with equal joint weights.

    Attributes
    ----------
    gain : float
        Gain over all joints.
    by_joint : ndarray, shape (n,)
        Gain per joint.
    p_value : float
        p-value of no gain, for independent blocks.
    mirror : float
        Gain of the opposite claim; -inf if there is none.
    rival : str
        Name of the best rival effect; empty if there is none.
    rival_gain : float
        Gain of the best rival effect.

    """

    gain: float
    by_joint: Float
    p_value: float
    mirror: float
    rival: str
    rival_gain: float

    @property
    def holds(self) -> bool:
        """Whether the gain is significant, large on some joint, and not matched by the opposite claim or a rival."""
        return (
            self.p_value < CHANCE
            and self.share >= PROOF_LEAST_SHARE
            and self.mirror < MOST_MIRROR * self.gain
            and self.rival_gain < self.gain
        )

    @property
    def contradicted(self) -> bool:
        """Whether the log significantly contradicts the claim."""
        return self.p_value > 1.0 - CHANCE

    @property
    def share(self) -> float:
        """Largest gain of a joint."""
        return float(np.nanmax(self.by_joint, initial=0.0))

    def words(self, names: tuple[str, ...]) -> str:
        """The evidence for a claim that holds."""
        worst = names[int(np.nanargmax(self.by_joint))]
        text = f"declaring it lowers the held-out mean square error of '{worst}' by {100 * self.share:.3g} %"
        return f"{text}, and the opposite does not" if np.isfinite(self.mirror) else text

    def doubts(self) -> str:
        """Why the claim is not proven."""
        if self.p_value >= CHANCE or self.gain <= 0:
            return "declaring it does not predict held-out blocks significantly better"
        if self.mirror >= MOST_MIRROR * self.gain:
            return "the opposite predicts held-out blocks about as well"
        if self.rival_gain >= self.gain:
            return f"{self.rival} predicts held-out blocks as well"
        return f"declaring it explains at most {100 * self.share:.2g} % of the held-out error"


def prove(
    analysis: ResidualAnalysis,
    declared: Reading,
    mirror: Reading | None = None,
    rivals: Mapping[str, Float] | None = None,
) -> Proof | None:
    """Compare the log as it is with a claimed reading by cross-validation over blocks.

    The plain model is the fitted model without the terms that could absorb the claimed effect.

    Parameters
    ----------
    analysis : ResidualAnalysis
        Residuals of the finished fit.
    declared : Reading
        The log under the claim.
    mirror : Reading, optional
        The log under the opposite claim.
    rivals : mapping of str to ndarray, shape (n, N, k), optional
        Columns of effects that imitate the claim, in equal numbers per joint. Each rival uses only the columns of
        joints that gain on held-out blocks, so useless columns do not weaken it.

    Returns
    -------
    Proof or None
        None if the model needs other inputs than motion, or if there are too few blocks.

    """
    plain = Reading(analysis.robot, analysis.gated)
    fit = HeldOut.of(analysis, plain)
    other = HeldOut.of(analysis, declared)
    if fit is None or other is None:
        return None
    before, after = fit.error(), other.error()
    rivalry = {"": -np.inf}
    for name, columns in (rivals or {}).items():
        rival_fit = HeldOut.of(analysis, plain, columns)
        rivalry[name] = (
            -np.inf if rival_fit is None else gain_of(before, rival_fit.joined(before, fit.joints))
        )
    rival = max(rivalry, key=lambda name: rivalry[name])
    opposite = None if mirror is None else HeldOut.of(analysis, mirror)
    return Proof(
        gain=gain_of(before, after),
        by_joint=gain_by_joint(before, after),
        p_value=chance_of_gain(before.sum(axis=0), after.sum(axis=0)),
        mirror=-np.inf if opposite is None else gain_of(before, opposite.error()),
        rival=rival,
        rival_gain=rivalry[rival],
    )


def gain_of(before: Float, after: Float) -> float:
    """Relative reduction of the sum of squared errors."""
    return 1.0 - float(after.sum()) / max(float(before.sum()), 1e-300)


def gain_by_joint(before: Float, after: Float) -> Float:
    """Relative reduction per joint (n,) of squared errors (n, M); nan for joints without error before."""
    total = before.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1.0 - after.sum(axis=1) / total, np.nan)


def decisive(
    analysis: ResidualAnalysis, before: Float, after: Float, tried: int
) -> tuple[float, Float] | None:
    """Gain of a claim about the whole log, in total and per joint (n,); None if the gain is not decisive.

    A decisive gain is at least LEAST_GAIN, significant after Bonferroni correction for the number of claims tried, and
    corresponds to at least LEAST_TORQUE of the rms torque of some joint.
    """
    gain, by_joint = gain_of(before, after), gain_by_joint(before, after)
    if gain < LEAST_GAIN or chance_of_gain(before.sum(axis=0), after.sum(axis=0)) * tried > CHANCE:
        return None
    seen = [j for j in analysis.joints if np.isfinite(by_joint[j])]
    if max((analysis.relevance(j, float(by_joint[j])) for j in seen), default=0.0) < LEAST_TORQUE:
        return None
    return gain, by_joint


def chance_of_gain(before: Float, after: Float) -> float:
    """Compute the p-value of no gain by a one-sided t-test of the log ratio of the errors (M,) over blocks.

    The test uses logarithms because a few blocks may contain most of the error. Blocks without error are ignored.
    """
    informative = (before > 0) | (after > 0)
    if np.count_nonzero(informative) < 2:
        return 1.0
    before, after = before[informative], after[informative]
    least = BLOCK_FLOOR * float(before.mean()) + 1e-300
    gains = np.log((before + least) / (after + least))
    M, spread = len(gains), float(gains.std(ddof=1))
    return 1.0 if spread == 0 else float(student_cumulative(M - 1, -gains.mean() / (spread / np.sqrt(M))))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Weighted equations of the plain model and of additional columns, per fold.

    Attributes
    ----------
    parts : list of ndarray, each of shape (rows, columns)
        Equations of each fold.
    targets : list of ndarray, each of shape (rows,)
        Right-hand sides of each fold.
    fold, block : ndarray of int, shape (N,)
        Fold and block of each thinned sample.
    joints : int
        Number of joints.
    further : int
        Number of additional columns.
    judged : ndarray of bool, shape (n, M)
        Whether the other folds contain enough motion of the joint to predict the block.

    """

    parts: list[Float]
    targets: list[Float]
    fold: Int
    block: Int
    joints: int
    further: int
    judged: Bool

    @staticmethod
    def of(analysis: ResidualAnalysis, reading: Reading, further: Float | None = None) -> HeldOut | None:
        """Equations of a reading with unit-length columns; None if the model needs other inputs than motion."""
        if int(analysis.part.max(initial=-1)) + 1 < FOLDS or not analysis.enough:
            return None
        robot, samples = reading.robot, reading.samples
        as_logged = robot is analysis.robot and samples is analysis.gated and not reading.weightless
        terms, wanted = analysis.plain_model
        Y, complete = analysis.plain_columns if as_logged else reading.columns(terms, wanted)
        if not complete:
            return None
        return HeldOut.weighted(analysis, Y, samples.tau, further)

    @staticmethod
    def weighted(analysis: ResidualAnalysis, Y: Float, tau: Float, further: Float | None = None) -> HeldOut:
        """Equations of columns (n, N, w) and torque (N, n), with joints weighted by their inverse rms residuals."""
        block = analysis.part
        count = int(block.max(initial=-1)) + 1
        Y = Y if further is None else np.concatenate([Y, further], axis=2)
        n = len(Y)
        # If a reading scales the torque of a joint, its error is scaled alike.
        size = tau.std(axis=0) / np.maximum(analysis.motion.tau.std(axis=0), 1e-300)
        usable = np.isin(np.arange(n), analysis.joints) & (size > 0)
        weight = np.where(usable, 1.0 / np.where(usable, analysis.rms * size, 1.0), 0.0)
        weights = (~analysis.reverses * weight).T
        Y, y = Y * weights[:, :, None], tau.T * weights
        length = np.sqrt((Y**2).sum(axis=(0, 1)))
        Y = Y / np.where(length > 0, length, 1.0)
        number = np.zeros(count, dtype=np.int64)
        made = folds_of_samples(block, analysis.motion.dq, FOLDS)
        for k, held_out_fold in enumerate(made):
            number[held_out_fold.held_out] = k
        fold = number[block]
        judged = ~not_judged(made, motion_of_samples(block, analysis.motion.dq)).T
        parts = [Y[:, fold == k].reshape(-1, Y.shape[2]) for k in range(int(number[-1]) + 1)]
        targets = [y[:, fold == k].reshape(-1) for k in range(len(parts))]
        return HeldOut(parts, targets, fold, block, n, 0 if further is None else further.shape[2], judged)

    @property
    def width(self) -> int:
        """Number of columns."""
        return int(self.parts[0].shape[1])

    @cached_property
    def _products(self) -> tuple[Float, Float]:
        grams = np.stack([part.T @ part for part in self.parts])
        return grams, np.stack([part.T @ y for part, y in zip(self.parts, self.targets, strict=True)])

    def error(self, columns: Int | None = None, part: Int | None = None, other: float = 1.0) -> Float:
        """Held-out squared error (n, M) per joint and block.

        The error is zero if the training folds contain too little of the joint's motion to estimate its friction.

        Parameters
        ----------
        columns : ndarray of int, optional
            Columns of the model; all by default.
        part : ndarray of int, shape (folds,), optional
            Part of the log that contains each fold; a single part by default.
        other : float
            Weight of the other parts in training.

        """
        index = np.arange(self.width) if columns is None else columns
        grams, sides = self._products
        grams, sides = grams[:, index[:, None], index], sides[:, index]
        left = np.zeros((self.joints, len(self.fold)))
        for k in range(len(self.parts)):
            weight = np.ones(len(self.parts)) if part is None else np.where(part == part[k], 1.0, other)
            weight[k] = 0.0
            gram, right = np.tensordot(weight, grams, 1), np.tensordot(weight, sides, 1)
            # Columns have unit length. Friction at the lowest speeds may occur in a single block, before the motion.
            unknown = np.diagonal(grams[k]) > 1.0 - LEAST_HELD
            gram[unknown], gram[:, unknown], right[unknown] = 0.0, 0.0, 0.0
            factor = cho_factor(gram + RIDGE * np.eye(len(index)))
            theta = cho_solve(factor, right)
            # One step of iterative refinement removes the effect of the ridge.
            theta = theta + cho_solve(factor, right - gram @ theta)
            left[:, self.fold == k] = (self.targets[k] - self.parts[k][:, index] @ theta).reshape(
                self.joints, -1
            )
        count = int(self.block.max()) + 1
        squared = np.array([np.bincount(self.block, row**2, minlength=count) for row in left])
        return np.where(self.judged, squared, 0.0)

    def joined(self, before: Float, joints: int) -> Float:
        """Held-out squared error (n, M) after forward selection of the additional columns, joint by joint.

        Parameters
        ----------
        before : ndarray, shape (n, M)
            Squared error without additional columns.
        joints : int
            Number of groups of additional columns, all of the same width.

        """
        each = self.further // joints
        first = self.width - self.further
        taken, best = np.arange(first), before
        for joint in range(joints):
            tried = np.concatenate([taken, first + each * joint + np.arange(each)])
            error = self.error(tried)
            if error.sum() < best.sum():
                taken, best = tried, error
        return best


def position_waves(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, 2 n): cosine and sine of each joint's position, for cables, springs and zero offsets."""
    n, N = analysis.robot.n, len(analysis.index)
    columns = np.zeros((n, N, 2 * n))
    for j in range(n):
        if not analysis.robot.prismatic[j]:
            columns[j, :, 2 * j] = np.cos(analysis.motion.q[:, j])
            columns[j, :, 2 * j + 1] = np.sin(analysis.motion.q[:, j])
    return columns


def shifted_positions(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, n): derivative of the identified rigid-body torque with respect to each joint's zero offset."""
    n, N = analysis.robot.n, len(analysis.index)
    columns, bodies, motion = np.zeros((n, N, n)), analysis.bodies, analysis.motion
    if bodies is None:
        return columns
    for j in range(n):
        turn = OFFSET_STEP * (np.arange(n) == j)
        ahead, behind = (
            inverse_dynamics(
                analysis.robot.tree, bodies, *analysis.robot.tree_motion(q, motion.dq, motion.ddq)
            )
            for q in (motion.q + turn, motion.q - turn)
        )
        columns[:, :, j] = ((ahead - behind) @ analysis.robot.projection).T / (2.0 * OFFSET_STEP)
    return columns


def friction_forms(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, k): features of friction forms that the model lacks, in equal numbers per joint."""
    n, N, remains = analysis.robot.n, len(analysis.index), analysis.remains
    by_joint = [[feature.columns for feature in features_of(FRICTION_FORM, remains, j)] for j in range(n)]
    features = np.zeros((n, N, sum(columns.shape[1] for forms in by_joint for columns in forms)))
    first = 0
    for j, forms in enumerate(by_joint):
        for columns in forms:
            features[j, :, first : first + columns.shape[1]] = columns
            first += columns.shape[1]
    return features


def crosstalk(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, 2 NEIGHBOURS n): measured torque of the adjacent joints, which a sensor may pick up."""
    n, N, tau = analysis.robot.n, len(analysis.index), analysis.motion.tau
    steps = [step for step in range(-NEIGHBOURS, NEIGHBOURS + 1) if step]
    columns = np.zeros((n, N, len(steps) * n))
    for j in range(n):
        for k, other in enumerate(j + step for step in steps):
            if 0 <= other < n:
                columns[j, :, len(steps) * j + k] = tau[:, other]
    return columns


# Columns (n, N, k) of effects that imitate others, in equal numbers per joint.
RIVALS: dict[Rival, Callable[[ResidualAnalysis], Float]] = {
    Rival.POSITION: position_waves,
    Rival.FRICTION: friction_forms,
    Rival.ZERO: shifted_positions,
    Rival.CROSSTALK: crosstalk,
}


def reading(analysis: ResidualAnalysis, declared: Declared) -> Reading:
    """The log under a declaration: gravity, torque factors, zero offsets or a time shift."""
    robot, samples = analysis.robot, analysis.gated
    if declared.gravity is not None:
        robot = replace(robot, gravity=declared.gravity)
    if declared.factors:
        scale = np.array([1.0 / declared.factors.get(j, 1.0) for j in range(robot.n)])
        samples = replace(samples, tau=samples.tau * scale)
    if declared.zeros:
        samples = replace(samples, q=samples.q + [declared.zeros.get(j, 0.0) for j in range(robot.n)])
    if declared.seconds:
        samples = replace(samples, tau=analysis.torque_later(declared.seconds))
    return Reading(robot, samples)
