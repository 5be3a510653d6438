"""Proof of a claim: the log, read as the claim says, predicts held-out blocks better, and nothing else does so."""

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

# Effects that the model lacks: features of every term of the catalogue, tested on the residuals.

# Share of its evidence that a feature has to keep beside those that imitate it.
MAINLY = 0.5


@dataclass(frozen=True)
class EffectTest:
    """Tries the features of one group on every joint."""

    group: FeatureGroup

    @property
    def identifier(self) -> str:
        """That of the group."""
        return self.group.identifier

    @property
    def looks_at(self) -> str:
        """That of the group."""
        return self.group.looks_at

    def look(self, analysis: ResidualAnalysis) -> list[Finding]:
        """At most one finding a joint: the feature that explains most; one in all of features of the whole robot.

        None for what all joints have alike, which is reported of the whole robot.
        """
        if self.group.alike and _alike(self.group, analysis):
            return []
        found: list[tuple[float, Finding]] = []
        whole = False
        for joint in analysis.joints:
            features = features_of(self.group, analysis.remains, joint)
            tried = [(one, _tested(analysis, joint, one.columns)) for one in features]
            known = [(one, effect) for one, effect in tried if effect is not None]
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
            found.append((float(effect.share.sum()), finding))
        if whole and found:
            # They act on the same joints, so that all but one merely imitate it.
            found = [max(found, key=lambda pair: pair[0])]
        return [finding for _, finding in found]

    def _finding(
        self, analysis: ResidualAnalysis, joint: int, feature: Feature, effect: FeatureTest, p_value: float
    ) -> Finding:
        share = float(effect.share[joint])
        words = _clearest(analysis, joint, feature).words(effect.coefficient, effect.std)
        advice = words.advice
        if own := _own_form(analysis, joint):
            if self.group.friction:
                advice = f"{own} leaves this: record more of such motion, or compare it with further forms."
            elif words.beside_form:
                advice = f"{own} leaves this: {words.beside_form}"
        along = np.ones(len(feature.x)) if feature.along is None else feature.along
        fitted = effect.fitted[joint if len(effect.fitted) > 1 else 0]
        curve = binned_curve(
            feature.x,
            analysis.error[:, joint] * along,
            fitted * along,
            feature.x_title,
            f"residual{'' if feature.along is None else ' along it'}, {unit(analysis, joint)}",
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
    """The groups of the catalogue's terms, each once."""
    return tuple(
        dict.fromkeys(kind.words.group for kind in CATALOGUE.values() if kind.words.group is not None)
    )


def features_of(group: FeatureGroup, remains: Remains, joint: int) -> list[Feature]:
    """Features of all terms of a group."""
    every = [kind.words for kind in CATALOGUE.values() if kind.words.group == group]
    return [feature for words in every for feature in words.features(remains, joint)]


def columns_of(group: FeatureGroup, remains: Remains, joint: int) -> Float:
    """Features (N, k) of one joint of all terms of a group, side by side."""
    return np.column_stack([feature.columns for feature in features_of(group, remains, joint)])


def _alike(group: FeatureGroup, analysis: ResidualAnalysis) -> bool:
    joints = range(analysis.robot.n)
    columns = np.stack([columns_of(group, analysis.remains, joint)[:, 0] for joint in joints])
    common = analysis.test_alike(columns)
    return common is not None and common.believable


def _clearest(analysis: ResidualAnalysis, joint: int, feature: Feature) -> Feature:
    """The feature, or itself where nothing else looks alike, where it explains something there, too."""
    if feature.clear is None:
        return feature
    effect = analysis.test_joint(joint, feature.clear.columns)
    sure = effect is not None and counts(float(effect.share[joint]), effect.p_value)
    return feature.clear if sure else feature


def _tested(analysis: ResidualAnalysis, joint: int, columns: Float) -> FeatureTest | None:
    return analysis.test_joint(joint, columns) if columns.ndim == 2 else analysis.test_features(columns)


def _everywhere(effect: FeatureTest, feature: Feature) -> bool:
    # What acts on several joints has to show on more than one: alone it could be any error of that joint.
    return feature.columns.ndim == 2 or int(np.count_nonzero(effect.share >= LEAST_SHARE)) > 1


def _own_form(analysis: ResidualAnalysis, joint: int) -> str | None:
    """Name of the form with a shape of its own that the model gives this joint's friction, None for plain friction."""
    for term in analysis.terms:
        if isinstance(term, CurveTerm) and joint in joint_indices(analysis.robot, term.joints):
            return term.name
    return None


FOLDS = 8
# Joints on either side whose torque a sensor may feel: through bearings and flanges, of a wrist both others.
NEIGHBOURS = 2
# Chance that blocks without the effect gain as much.
CHANCE = 1e-3
# Share of a joint's held-out mean square that a claim has to explain before it may overturn a model.
PROOF_LEAST_SHARE = 0.2
# Share of the held-out mean square error that another robot or load has to take away, and of the torque that it is.
LEAST_GAIN, LEAST_TORQUE = 0.5, 0.03
# The opposite of the claim may gain at most this share of what the claim does.
MOST_MIRROR = 0.5
RIDGE = 1e-9
# Of a column's square over the log, what the folds beside the one left out have to hold for the column to be used: with
# less, a coefficient has ten times the standard deviation that the log gives it, and what it says there is noise.
LEAST_HELD = 0.01
# Of the blocks' mean: an error below this share of it is nothing that two readings can differ in.
BLOCK_FLOOR = 1e-3
# rad or m, of central differences.
OFFSET_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class Reading:
    """A log as it may be declared.

    robot: its description.    samples: motion and torque at the thinned samples.
    weightless: joints whose torque lacks gravity.
    """

    robot: RobotModel
    samples: Samples
    weightless: tuple[int, ...] = ()

    def columns(self, terms: Terms, wanted: Bool) -> tuple[Float, bool]:
        """Columns (n, N, w) of the torque, and whether all terms read motion only."""
        Y, complete = regressor(self.robot, terms, self.samples, wanted)
        if self.weightless and complete:
            floating, _ = regressor(replace(self.robot, gravity=np.zeros(3)), terms, self.samples, wanted)
            Y[list(self.weightless)] = floating[list(self.weightless)]
        return Y, complete


@dataclass(frozen=True, eq=False)
class Proof:
    """What a claim gains on held-out blocks, as shares of the mean square error there, joints weighted alike.

    by_joint: (n,) of each joint.    p_value: of no gain, blocks being independent.    mirror: gain of the opposite.
    rival, rival_gain: the best of the effects that imitate it, "" = none.
    """

    gain: float
    by_joint: Float
    p_value: float
    mirror: float
    rival: str
    rival_gain: float

    @property
    def holds(self) -> bool:
        """Whether it is beyond chance, matters to a joint, and neither its opposite nor a rival does about as well."""
        return (
            self.p_value < CHANCE
            and self.share >= PROOF_LEAST_SHARE
            and self.mirror < MOST_MIRROR * self.gain
            and self.rival_gain < self.gain
        )

    @property
    def contradicted(self) -> bool:
        """Whether the log speaks against the claim beyond chance."""
        return self.p_value > 1.0 - CHANCE

    @property
    def share(self) -> float:
        """The greatest share of a joint's held-out mean square error that the claim takes away."""
        return float(np.nanmax(self.by_joint, initial=0.0))

    def words(self, names: tuple[str, ...]) -> str:
        """The evidence for a claim that holds."""
        worst = names[int(np.nanargmax(self.by_joint))]
        text = f"declaring it takes {100 * self.share:.3g} % off the held-out mean square error of '{worst}'"
        return f"{text}, and its opposite none" if np.isfinite(self.mirror) else text

    def doubts(self) -> str:
        """Why a claim that does not hold is none."""
        if self.p_value >= CHANCE or self.gain <= 0:
            return "declaring it does not predict held-out blocks better beyond chance"
        if self.mirror >= MOST_MIRROR * self.gain:
            return "its opposite predicts held-out blocks about as well"
        if self.rival_gain >= self.gain:
            return f"{self.rival} predicts held-out blocks as well"
        return f"declaring it explains {100 * self.share:.2g} % of the held-out error at most"


def prove(
    analysis: ResidualAnalysis,
    declared: Reading,
    mirror: Reading | None = None,
    rivals: Mapping[str, Float] | None = None,
) -> Proof | None:
    """Fits the plain model to folds of whole blocks, read as declared and otherwise, and scores the blocks left out.

    The plain model is the fitted one without the terms that would take up what is claimed.
    mirror: the opposite of the claim.    rivals: columns (n, N, k) of effects that imitate it, by name and joint; each
    takes the joints' columns that gain on held-out blocks, so that it does not pay for those that do not.
    None where the model reads more than motion, or where there are too few blocks.
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
    """Share of the squared errors before that is gone after."""
    return 1.0 - float(after.sum()) / max(float(before.sum()), 1e-300)


def gain_by_joint(before: Float, after: Float) -> Float:
    """That share by joint (n,), of squared errors (n, M); nan where there were none."""
    total = before.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(total > 0, 1.0 - after.sum(axis=1) / total, np.nan)


def decisive(
    analysis: ResidualAnalysis, before: Float, after: Float, tried: int
) -> tuple[float, Float] | None:
    """What a claim about the whole log gains, in all and by joint (n,); None where that is not decisive.

    It takes LEAST_GAIN of the error away, beyond chance in as many as were tried, and LEAST_TORQUE of some joint.
    """
    gain, by_joint = gain_of(before, after), gain_by_joint(before, after)
    if gain < LEAST_GAIN or chance_of_gain(before.sum(axis=0), after.sum(axis=0)) * tried > CHANCE:
        return None
    seen = [j for j in analysis.joints if np.isfinite(by_joint[j])]
    if max((analysis.relevance(j, float(by_joint[j])) for j in seen), default=0.0) < LEAST_TORQUE:
        return None
    return gain, by_joint


def chance_of_gain(before: Float, after: Float) -> float:
    """p-value of no gain: one-sided t-test over blocks of the logarithms' difference of the errors (M,).

    Of logarithms, since a few blocks may hold most of the error. Blocks without any say nothing.
    """
    told = (before > 0) | (after > 0)
    if np.count_nonzero(told) < 2:
        return 1.0
    before, after = before[told], after[told]
    least = BLOCK_FLOOR * float(before.mean()) + 1e-300
    gains = np.log((before + least) / (after + least))
    M, spread = len(gains), float(gains.std(ddof=1))
    return 1.0 if spread == 0 else float(student_cumulative(M - 1, -gains.mean() / (spread / np.sqrt(M))))


@dataclass(frozen=True, eq=False)
class HeldOut:
    """Weighted equations of the plain model and further columns, by fold.

    parts: (rows of fold, columns), targets: (rows of fold,), grams, sides: their products.    fold: (N,).
    further: number of the further columns.    judged: (n, M) joints whose motion the other folds know, by block.
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
        """Equations of a reading, each column of length one; None where the model reads more than motion."""
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
        """Columns (n, N, w) and torque (N, n) at the thinned samples, joints weighted by their residuals."""
        block = analysis.part
        count = int(block.max(initial=-1)) + 1
        Y = Y if further is None else np.concatenate([Y, further], axis=2)
        n = len(Y)
        # A joint whose torque is declared another size is judged by its own size.
        size = tau.std(axis=0) / np.maximum(analysis.motion.tau.std(axis=0), 1e-300)
        usable = np.isin(np.arange(n), analysis.joints) & (size > 0)
        weight = np.where(usable, 1.0 / np.where(usable, analysis.rms * size, 1.0), 0.0)
        weights = (~analysis.reverses * weight).T
        Y, y = Y * weights[:, :, None], tau.T * weights
        length = np.sqrt((Y**2).sum(axis=(0, 1)))
        Y = Y / np.where(length > 0, length, 1.0)
        number = np.zeros(count, dtype=np.int64)
        made = folds_of_samples(block, analysis.motion.dq, FOLDS)
        for k, one in enumerate(made):
            number[one.held_out] = k
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
        """Squared error (n, M) by joint and block, each predicted by a fit to the folds that do not hold it.

        Zero where these hold too little of the joint's motion to know its friction.
        part: (folds,) part of the log that a fold belongs to, None = one part.    other: weight of the other parts.
        """
        index = np.arange(self.width) if columns is None else columns
        grams, sides = self._products
        grams, sides = grams[:, index[:, None], index], sides[:, index]
        left = np.zeros((self.joints, len(self.fold)))
        for k in range(len(self.parts)):
            weight = np.ones(len(self.parts)) if part is None else np.where(part == part[k], 1.0, other)
            weight[k] = 0.0
            gram, right = np.tensordot(weight, grams, 1), np.tensordot(weight, sides, 1)
            # Columns have length one. Friction of the lowest speeds may stand in one block alone, before the motion.
            unknown = np.diagonal(grams[k]) > 1.0 - LEAST_HELD
            gram[unknown], gram[:, unknown], right[unknown] = 0.0, 0.0, 0.0
            factor = cho_factor(gram + RIDGE * np.eye(len(index)))
            theta = cho_solve(factor, right)
            # One refinement makes up for the ridge.
            theta = theta + cho_solve(factor, right - gram @ theta)
            left[:, self.fold == k] = (self.targets[k] - self.parts[k][:, index] @ theta).reshape(
                self.joints, -1
            )
        count = int(self.block.max()) + 1
        found = np.array([np.bincount(self.block, row**2, minlength=count) for row in left])
        return np.where(self.judged, found, 0.0)

    def joined(self, before: Float, joints: int) -> Float:
        """Squared error (n, M) with the further columns of those joints that gain, on top of those before them.

        before: (n, M) without any.    joints: number of groups, as wide as each other, of the further columns.
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
    """Columns (n, N, 2 n): cosine and sine of each joint's own position, as of a cable, a spring or a zero offset."""
    n, N = analysis.robot.n, len(analysis.index)
    found = np.zeros((n, N, 2 * n))
    for j in range(n):
        if not analysis.robot.prismatic[j]:
            found[j, :, 2 * j] = np.cos(analysis.motion.q[:, j])
            found[j, :, 2 * j + 1] = np.sin(analysis.motion.q[:, j])
    return found


def shifted_positions(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, n): change of the identified bodies' torque with each joint's zero, to first order."""
    n, N = analysis.robot.n, len(analysis.index)
    found, bodies, motion = np.zeros((n, N, n)), analysis.bodies, analysis.motion
    if bodies is None:
        return found
    for j in range(n):
        turn = OFFSET_STEP * (np.arange(n) == j)
        ahead, behind = (
            inverse_dynamics(
                analysis.robot.tree, bodies, *analysis.robot.tree_motion(q, motion.dq, motion.ddq)
            )
            for q in (motion.q + turn, motion.q - turn)
        )
        found[:, :, j] = ((ahead - behind) @ analysis.robot.projection).T / (2.0 * OFFSET_STEP)
    return found


def friction_forms(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, k): what forms of friction that the model lacks leave, of every joint; as many for each."""
    n, N, remains = analysis.robot.n, len(analysis.index), analysis.remains
    by_joint = [[one.columns for one in features_of(FRICTION_FORM, remains, j)] for j in range(n)]
    found = np.zeros((n, N, sum(columns.shape[1] for forms in by_joint for columns in forms)))
    first = 0
    for j, forms in enumerate(by_joint):
        for columns in forms:
            found[j, :, first : first + columns.shape[1]] = columns
            first += columns.shape[1]
    return found


def crosstalk(analysis: ResidualAnalysis) -> Float:
    """Columns (n, N, 2 NEIGHBOURS n): the measured torques of the joints next to each, as its sensor may feel them."""
    n, N, tau = analysis.robot.n, len(analysis.index), analysis.motion.tau
    steps = [step for step in range(-NEIGHBOURS, NEIGHBOURS + 1) if step]
    found = np.zeros((n, N, len(steps) * n))
    for j in range(n):
        for k, other in enumerate(j + step for step in steps):
            if 0 <= other < n:
                found[j, :, len(steps) * j + k] = tau[:, other]
    return found


# What imitates an effect, as columns (n, N, k) in as many for each joint.
RIVALS: dict[Rival, Callable[[ResidualAnalysis], Float]] = {
    Rival.POSITION: position_waves,
    Rival.FRICTION: friction_forms,
    Rival.ZERO: shifted_positions,
    Rival.CROSSTALK: crosstalk,
}


def reading(analysis: ResidualAnalysis, declared: Declared) -> Reading:
    """The log as it is declared."""
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
