"""Effects that the model lacks: features of every term of the catalogue, tested on the residuals."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.diagnosis.finding import ResidualFinding
from dynid.diagnosis.residual_analysis import ResidualAnalysis
from dynid.diagnosis.wording import binned_curve, counts, figures, level, unit
from dynid.terms.catalogue import CATALOGUE
from dynid.terms.curve import CurveTerm
from dynid.terms.joint_term import joint_indices
from dynid.terms.residual_tests import LEAST_SHARE, Feature, FeatureGroup, FeatureTest, Remains

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

    def look(self, analysis: ResidualAnalysis) -> list[ResidualFinding]:
        """At most one finding a joint: the feature that explains most; one in all of features of the whole robot.

        None for what all joints have alike, which is reported of the whole robot.
        """
        if self.group.alike and _alike(self.group, analysis):
            return []
        found: list[tuple[float, ResidualFinding]] = []
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
    ) -> ResidualFinding:
        share, name = float(effect.share[joint]), analysis.robot.joint_names[joint]
        words = _clearest(analysis, joint, feature).words(effect.coefficient, effect.std)
        advice = words.advice
        if own := _own_form(analysis, joint):
            if self.group.friction:
                advice = f"{own} leaves this: record more of such motion, or compare it with further forms."
            elif words.beside_form:
                advice = f"{own} leaves this: {words.beside_form}"
        along = np.ones(len(feature.x)) if feature.along is None else feature.along
        fitted = effect.fitted[joint if len(effect.fitted) > 1 else 0]
        return ResidualFinding(
            self.identifier,
            level(analysis, joint, share),
            name,
            f"{name}: {words.title}",
            words.text.format(figures=figures(analysis, joint, share, p_value)),
            advice,
            share,
            p_value,
            curve=binned_curve(
                feature.x,
                analysis.error[:, joint] * along,
                fitted * along,
                feature.x_title,
                f"residual{'' if feature.along is None else ' along it'}, {unit(analysis, joint)}",
                words.curve,
            ),
        )


def feature_groups() -> tuple[FeatureGroup, ...]:
    """The groups of the catalogue's terms, each once."""
    return tuple(dict.fromkeys(kind.group for kind in CATALOGUE.values() if kind.group is not None))


def features_of(group: FeatureGroup, remains: Remains, joint: int) -> list[Feature]:
    """Features of all terms of a group."""
    kinds = [kind for kind in CATALOGUE.values() if kind.group == group]
    return [feature for kind in kinds for feature in kind.features(remains, joint)]


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
