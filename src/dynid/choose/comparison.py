"""Comparisons on held-out blocks: one effect against another, and all combinations of options against each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.records import dataclass
from dynid.choose.selection import MOST, Ablation, Model, Selection
from dynid.choose.subset_regression import Residualised, SubsetRegression
from dynid.choose.wide_model import KEPT, Label, WideModel
from dynid.factor.folds import Candidate, Comparison, compare, gain
from dynid.terms.exports import Role

# Least gain in standard errors for screening; effects that pass by chance are tested again in the final comparison.
SCREEN = 2.0
# A model whose squared error exceeds the best one by less than this share is equally good.
NEGLIGIBLE = 0.01
# A model whose squared error exceeds the best one by more than this share is rejected even within one standard error. A
# few dissimilar blocks cause standard errors of 25 %, within which plain friction or offsets would be dropped.
NOTICEABLE = 0.05


@dataclass(frozen=True)
class Option:
    """Option of an axis.

    Attributes
    ----------
    name : str
    labels : tuple of Label
        Effects that the option adds.
    shapes : int
        Number of their nonlinear parameters.
    without : int
        Penalty for leaving out effects that every robot has: number of their parameters plus one, so that the held-out
        error must favour leaving them out.

    """

    name: str
    labels: tuple[Label, ...] = ()
    shapes: int = 0
    without: int = 0


@dataclass(frozen=True)
class Axis:
    """Options that exclude each other."""

    name: str
    options: tuple[Option, ...]


@dataclass(frozen=True, eq=False)
class Trial(Candidate):
    """A combination of options."""

    options: tuple[Option, ...]


@dataclass(frozen=True, eq=False)
class ModelComparison:
    """Regressions on subsets of a wide model's columns; all candidates contain the `fixed` columns."""

    regression: SubsetRegression
    wide: WideModel
    fixed: tuple[str, ...]

    def squares(self, labels: Sequence[Label]) -> Float:
        """Held-out squared error per block of the model with the fixed columns and some effects."""
        return np.asarray(self.squares_of([labels])[0])

    def squares_of(self, models: Sequence[Sequence[Label]], within_bounds: bool = False) -> Float:
        """Held-out squared errors of several models, (K, M); see `SubsetRegression.squares_of`."""
        names = [(*self.fixed, *self.wide.names(labels)) for labels in models]
        return self.regression.squares_of(names, within_bounds)

    def friction_squares(self, models: Sequence[Sequence[Label]]) -> Float:
        """Held-out squared errors of models with different friction forms, (K, M), with nonnegative coefficients.

        Without bounds, negative friction or rotor inertia could compensate for a missing friction form, which then
        would not gain, although it gains in the final, physically consistent fit.
        """
        return self.squares_of(models, within_bounds=True)

    def earns(self, without: Float, labels: Sequence[Label], errors: float = SCREEN) -> bool:
        """Whether friction forms gain more than `errors` standard errors over a model with errors `without`, (M,)."""
        share, std = self.gain(without, labels)
        return share > errors * std

    def gain(self, without: Float, labels: Sequence[Label]) -> tuple[float, float]:
        """Relative reduction of the errors `without` by friction forms, and its standard error."""
        return gain(without, self.friction_squares([labels])[0], self.regression.counts)

    def _trials(self, combinations: Sequence[tuple[Option, ...]]) -> list[Trial]:
        names = [
            (*self.fixed, *self.wide.names([label for option in options for label in option.labels]))
            for options in combinations
        ]
        return [
            Trial(
                "; ".join(option.name for option in options),
                self.regression.rank(columns) + sum(option.shapes + option.without for option in options),
                squares,
                options,
            )
            for options, columns, squares in zip(
                combinations, names, self.regression.squares_of(names), strict=True
            )
        ]

    def best(self, axes: Sequence[Axis]) -> tuple[Trial, Selection]:
        """Compare all combinations, and choose the simplest within one standard error of the best.

        An excess below NEGLIGIBLE always counts as within, an excess above NOTICEABLE never does.
        """
        trials = self._trials(list(product(*(axis.options for axis in axes))))
        comparison = compare(trials, self.regression.counts, negligible=NEGLIGIBLE, noticeable=NOTICEABLE)
        models = [self._model(trial, comparison, i) for i, trial in enumerate(trials)]
        order = sorted(range(len(trials)), key=lambda i: float(trials[i].squares.sum()))
        rest = [models[i] for i in order if i != comparison.chosen]
        return trials[comparison.chosen], Selection(
            axes=tuple(axis.name for axis in axes),
            models=tuple([models[comparison.chosen], *rest][:MOST]),
            compared=len(trials),
            folds=len(self.regression.folds),
            friction=(),
            ablations=self._ablations(axes, trials, trials[comparison.chosen]),
            measurement_effects=(),
        )

    def _model(self, trial: Trial, comparison: Comparison, index: int) -> Model:
        reference = max(
            float(comparison.candidates[comparison.best].squares.sum()), np.finfo(np.float64).tiny
        )
        target = self.regression.target_square
        return Model(
            options=tuple(option.name for option in trial.options),
            parameters=int(trial.parameters),
            relative=float(np.sqrt(trial.squares.sum() / target)) if target > 0 else float("nan"),
            behind=float(comparison.excess[index]) / reference,
            behind_std=float(comparison.excess_std[index]) / reference,
            within=bool(comparison.within[index]),
        )

    def _ablations(
        self, axes: Sequence[Axis], trials: Sequence[Trial], chosen: Trial
    ) -> tuple[Ablation, ...]:
        """Compare the chosen model with each model that differs in a single option."""
        ablations = []
        for k, axis in enumerate(axes):
            for trial in trials:
                same = all(
                    a is b
                    for i, (a, b) in enumerate(zip(trial.options, chosen.options, strict=True))
                    if i != k
                )
                if not same or trial.options[k] is chosen.options[k]:
                    continue
                share, std = gain(trial.squares, chosen.squares, self.regression.counts)
                ablations.append(
                    Ablation(axis.name, chosen.options[k].name, trial.options[k].name, share, std)
                )
        return tuple(ablations)


# Forward selection of the effects that a log shows, largest gain on held-out blocks first.

# Least gain of a fault in standard errors: faults are reported to the user, so the level is stricter than SCREEN.
SURE = 3.0
# Range of a joint's delay relative to the common delay: missing friction looks like delays that differ more.
LEAST_PART, MOST_PART = 0.3, 4.0
# Most effects that are added.
MOST_EFFECTS = 40
# If the gain exceeds this share, the logarithms of the errors are also tested.
MOST_SHARE = 0.5
# Gains that differ by less than this share are equal: the difference is rounding.
EQUAL = 1e-6
# An effect is preferred to its shield, or to a rival, if it achieves this share of their gain: over a short range, a
# smooth function of position or a tilt of the base fits like a spring, with more parameters.
NEARLY = 0.95


@dataclass(frozen=True, eq=False)
class ForwardSelection:
    """Forward selection of effects, starting from a model with the `base` effects."""

    comparison: ModelComparison
    base: tuple[Label, ...]

    def found(self) -> tuple[Label, ...]:
        """Select effects by forward selection and backward elimination, in the order of selection.

        Friction forms, couplings, elasticity and faults of the log compete at every step: an imitation gains less than
        the true effect, and nothing after the true effect is in the model. Finally, effects that no longer gain are
        removed. The selection stops when only friction forms still gain.

        Source: orthogonal matching pursuit (Pati, Rezaiifar, Krishnaprasad 1993), with held-out errors instead of
        correlations.
        """
        comparison, wide = self.comparison, self.comparison.wide
        rest = comparison.regression.residualised((*comparison.fixed, *wide.names(self.base)))
        columns = {
            label: comparison.regression.index(wide.names([label]))
            for label in wide.members
            if label not in self.base and label != KEPT
        }
        bars: dict[Label, float] = {}
        while len(bars) < MOST_EFFECTS:
            best = self._next(list(bars), rest, columns)
            if best is None:
                break
            bars[best[0]] = best[1]
            rest = rest.beside(columns.pop(best[0]))
        return self._thinned(bars)

    def _next(
        self, joined: Sequence[Label], rest: Residualised, columns: Mapping[Label, Int]
    ) -> tuple[Label, float] | None:
        """The effect that gains most among those that earn their place, and the standard errors that it has to gain.

        rest: what the model leaves.    columns: of every effect that is not in it, in the regression.
        """
        wide = self.comparison.wide
        without, *with_each = rest.squares_of([np.array([], dtype=np.int64), *columns.values()])
        gains = {
            label: (float((without - squares).sum()), self._strength(without, squares))
            for label, squares in zip(columns, with_each, strict=True)
        }
        order = sorted(gains, key=lambda label: -gains[label][0])
        sound = [
            label for label in order if gains[label][1] > self._least(label) and self._is_sound(label, joined)
        ]
        if all(wide.role(label) is Role.FRICTION for label in sound):
            return None
        first = sound[0]
        for label in sound:
            if gains[label][0] >= NEARLY * gains[first][0] and wide.proposal(label).shield:
                return label, self._least(label)
        if wide.role(first) is Role.SHIELD:
            # It has earned its place; what it contains gets that where nothing at all gains more.
            best = next((other for other in order if other != first and self._is_sound(other, joined)), first)
            contained = (wide.proposal(best).shield, best[1]) == first
            if contained and gains[best][0] >= NEARLY * gains[first][0] and gains[best][1] > SCREEN:
                return best, SCREEN
        most = gains[first][0]
        equal = [label for label in sound if gains[label][0] >= (1.0 - EQUAL) * most and label[0] == first[0]]
        best = min(sorted(equal), key=lambda label: self._size(label, joined)) if len(equal) > 1 else first
        return best, self._least(best)

    def _size(self, label: Label, joined: Sequence[Label]) -> float:
        """Norm of an effect's sizes at all its places, including one more place.

        Relative effects such as drive gains are identifiable only up to a reference joint, and every reference predicts
        the same. The smallest deviations are the most likely.
        """
        together = [other for other in (*joined, label) if other[0] == label[0]]
        values = self._values([*joined, label])
        sizes = [values[name] for name in self.comparison.wide.names(together) if name in values]
        # Rounding decides nothing: sizes count to six digits.
        return float(f"{np.linalg.norm(sizes):.6g}")

    def _thinned(self, bars: Mapping[Label, float]) -> tuple[Label, ...]:
        """Remove effects that gain less than their bar in standard errors, weakest first.

        The gain of an effect is measured without its shield.
        """
        comparison, joined = self.comparison, list(bars)
        while joined:
            full = comparison.squares([*self.base, *joined])
            strengths = []
            for label in joined:
                shield = (comparison.wide.proposal(label).shield, label[1])
                others = [other for other in joined if other not in (label, shield)]
                with_it = comparison.squares([*self.base, *others, label]) if shield in joined else full
                strength = self._strength(comparison.squares([*self.base, *others]), with_it)
                strengths.append(strength / bars[label] if self._is_sound(label, others) else -np.inf)
            least = int(np.argmin(strengths))
            if strengths[least] > 1.0:
                break
            del joined[least]
        return tuple(joined)

    def _strength(self, without: Float, squares: Float) -> float:
        """Gain of held-out squares (M,) over the squares without an effect, in standard errors over blocks.

        If a few blocks contain most of a large gain, its standard error is large. So a gain above MOST_SHARE is also
        tested with the logarithms of the blocks' errors, and the larger result counts.
        """
        tiny = np.finfo(np.float64).tiny
        share, std = gain(without, squares, self.comparison.regression.counts)
        strength = share / max(std, tiny)
        if share > MOST_SHARE:
            ratio = np.log(np.maximum(without, tiny) / np.maximum(squares, tiny))
            strength = max(strength, float(ratio.mean() / max(ratio.std() / np.sqrt(len(ratio)), tiny)))
        return strength

    def _least(self, label: Label) -> float:
        # What may be taken in place of a fault is judged as strictly.
        effect = self.comparison.wide.proposal(label)
        return SURE if effect.role is Role.LOG or effect.shield else SCREEN

    def _is_sound(self, label: Label, others: Sequence[Label]) -> bool:
        """Whether the estimate of an effect is plausible: the right sign, and similar on every joint if required."""
        effect = self.comparison.wide.proposal(label)
        if effect.alike:
            return self._alike(label, effect.alike, [other for other in others if other[0] != effect.alike])
        if not effect.positive:
            return True
        values = self._values([*others, label])
        return all(values.get(name, 0.0) > 0 for name in self.comparison.wide.bounded(label))

    def _alike(self, label: Label, by_joint: str, others: Sequence[Label]) -> bool:
        """Whether the estimates per joint are similar to the common estimate."""
        wide = self.comparison.wide
        together = self._values([*others, label]).get(wide.members[label][0], 0.0)
        alone = wide.named(by_joint)
        names = wide.names(alone)
        values = self._values([*others, *alone])
        parts = np.array([values[name] for name in names if name in values]) / (together or np.inf)
        return len(parts) > 0 and bool((parts > LEAST_PART).all() and (parts < MOST_PART).all())

    def _values(self, labels: Sequence[Label]) -> dict[str, float]:
        comparison = self.comparison
        return comparison.regression.values(
            (*comparison.fixed, *comparison.wide.names([*self.base, *labels]))
        )
