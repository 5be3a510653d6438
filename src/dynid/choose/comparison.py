"""Comparisons on held-out blocks: one effect against another, and all combinations of options against each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np

from dynid.base.arrays import Float
from dynid.base.records import dataclass
from dynid.choose.selection import MOST, Ablation, Model, Selection
from dynid.choose.subset_regression import SubsetRegression
from dynid.choose.wide_model import Label, WideModel
from dynid.factor.comparison import Candidate, Comparison, compare, gain

# Screening many effects one by one: what passes by chance is judged again together with everything else.
SCREEN = 2.0
# A model whose squared error is within this of the best one's is as good for any use.
NEGLIGIBLE = 0.01
# A model whose squared error exceeds the best one's by more is worse for some use, be that chance or not: a few unlike
# blocks leave standard errors of a quarter, within which plain friction or offsets would be given up.
NOTICEABLE = 0.05


@dataclass(frozen=True)
class Option:
    """One choice on an axis.    labels: effects that it adds.    shapes: nonlinear parameters among them.

    without: parameters of effects that every robot has and this choice denies; they count as if they were there, and
    one more, so that held-out blocks have to speak against them.
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
    """Regressions on subsets of a wide model's columns; `fixed`: those of every candidate."""

    regression: SubsetRegression
    wide: WideModel
    fixed: tuple[str, ...]

    def squares(self, labels: Sequence[Label]) -> Float:
        """Held-out squared error by block of the fixed columns and some effects."""
        return np.asarray(self.squares_of([labels])[0])

    def squares_of(self, models: Sequence[Sequence[Label]], within_bounds: bool = False) -> Float:
        """Those of several models, (K, M).    within_bounds: see SubsetRegression.squares_of."""
        names = [(*self.fixed, *self.wide.names(labels)) for labels in models]
        return self.regression.squares_of(names, within_bounds)

    def friction_squares(self, models: Sequence[Sequence[Label]]) -> Float:
        """Those of models that differ in forms of friction, (K, M), within the bounds of a physically consistent fit.

        Friction and rotors below zero stand for something that a model lacks, and the form that has it gains nothing
        beside them; in the fit that is reported it does.
        """
        return self.squares_of(models, within_bounds=True)

    def earns(self, without: Float, labels: Sequence[Label], errors: float = SCREEN) -> bool:
        """Whether forms of friction gain more than so many standard errors over a model with errors `without`, (M,)."""
        share, std = self.gain(without, labels)
        return share > errors * std

    def gain(self, without: Float, labels: Sequence[Label]) -> tuple[float, float]:
        """Share of the errors `without` that forms of friction take away, and its standard error."""
        return gain(without, self.friction_squares([labels])[0], self.regression.counts)

    def _trials(self, combinations: Sequence[tuple[Option, ...]]) -> list[Trial]:
        names = [
            (*self.fixed, *self.wide.names([label for option in options for label in option.labels]))
            for options in combinations
        ]
        return [
            Trial(
                "; ".join(option.name for option in options),
                self.regression.rank(own) + sum(option.shapes + option.without for option in options),
                squares,
                options,
            )
            for options, own, squares in zip(
                combinations, names, self.regression.squares_of(names), strict=True
            )
        ]

    def best(self, axes: Sequence[Axis]) -> tuple[Trial, Selection]:
        """All combinations; the simplest one within one standard error of the best is chosen.

        NEGLIGIBLE is within it, and what is NOTICEABLE is not.
        """
        trials = self._trials(list(product(*(axis.options for axis in axes))))
        found = compare(trials, self.regression.counts, negligible=NEGLIGIBLE, noticeable=NOTICEABLE)
        models = [self._model(trial, found, i) for i, trial in enumerate(trials)]
        order = sorted(range(len(trials)), key=lambda i: float(trials[i].squares.sum()))
        rest = [models[i] for i in order if i != found.chosen]
        return trials[found.chosen], Selection(
            axes=tuple(axis.name for axis in axes),
            models=tuple([models[found.chosen], *rest][:MOST]),
            compared=len(trials),
            folds=len(self.regression.folds),
            friction=(),
            ablations=self._ablations(axes, trials, trials[found.chosen]),
            measurement_effects=(),
        )

    def _model(self, trial: Trial, found: Comparison, place: int) -> Model:
        reference = max(float(found.candidates[found.best].squares.sum()), np.finfo(np.float64).tiny)
        target = self.regression.target_square
        return Model(
            options=tuple(option.name for option in trial.options),
            parameters=int(trial.parameters),
            relative=float(np.sqrt(trial.squares.sum() / target)) if target > 0 else float("nan"),
            behind=float(found.excess[place]) / reference,
            behind_std=float(found.excess_std[place]) / reference,
            within=bool(found.within[place]),
        )

    def _ablations(
        self, axes: Sequence[Axis], trials: Sequence[Trial], chosen: Trial
    ) -> tuple[Ablation, ...]:
        """Every other option in place of the chosen one, all else alike."""
        found = []
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
                found.append(Ablation(axis.name, chosen.options[k].name, trial.options[k].name, share, std))
        return tuple(found)
