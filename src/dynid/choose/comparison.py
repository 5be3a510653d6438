"""Comparisons on held-out blocks: one effect against another, and all combinations of options against each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from dynid.base.arrays import Float
from dynid.choose.friction_forms import standard_error
from dynid.choose.selection import MOST, Model, Selection, Worth
from dynid.choose.subset_regression import Board
from dynid.choose.wide_model import Label, Superset

# Screening many effects one by one: what passes by chance is judged again together with everything else.
SCREEN = 2.0
# A model whose squared error is within this of the best one's is as good for any use.
NEGLIGIBLE = 0.01


@dataclass(frozen=True)
class Option:
    """One choice on an axis.    labels: effects that it adds.    shapes: nonlinear parameters among them."""

    name: str
    labels: tuple[Label, ...] = ()
    shapes: int = 0


@dataclass(frozen=True)
class Axis:
    """Options that exclude each other."""

    name: str
    options: tuple[Option, ...]


@dataclass(frozen=True, eq=False)
class Trial:
    """A combination of options with its held-out squared error by block (M,)."""

    options: tuple[Option, ...]
    parameters: int
    squares: Float


@dataclass(frozen=True, eq=False)
class Contest:
    """A board with the wide model behind it; `fixed`: columns of every candidate."""

    board: Board
    wide: Superset
    fixed: tuple[str, ...]

    def squares(self, labels: Sequence[Label]) -> Float:
        """Held-out squared error by block of the fixed columns and some effects."""
        return self.board.squares((*self.fixed, *self.wide.names(labels)))

    def earns(self, without: Float, labels: Sequence[Label], errors: float = SCREEN) -> bool:
        """Whether effects gain more than so many standard errors over a model with errors `without`, (M,)."""
        gain = without - self.squares(labels)
        return float(gain.sum()) > errors * standard_error(gain, self.board.counts)

    def gain(self, without: Float, labels: Sequence[Label]) -> tuple[float, float]:
        """Share of the errors `without` that effects take away, and its standard error."""
        gain = without - self.squares(labels)
        reference = max(float(without.sum()), np.finfo(np.float64).tiny)
        return float(gain.sum()) / reference, standard_error(gain, self.board.counts) / reference

    def trial(self, options: tuple[Option, ...]) -> Trial:
        """One combination."""
        labels = [label for option in options for label in option.labels]
        names = (*self.fixed, *self.wide.names(labels))
        count = self.board.rank(names) + sum(option.shapes for option in options)
        return Trial(options, count, self.board.squares(names))

    def best(self, axes: Sequence[Axis]) -> tuple[Trial, Selection]:
        """All combinations; the simplest one within one standard error of the best, or within NEGLIGIBLE, is chosen.

        Simple = few parameters, then in the order of the options.
        Source: Breiman et al. 1984 (rule of one standard error), on paired differences over blocks.
        """
        trials = [self.trial(options) for options in product(*(axis.options for axis in axes))]
        order = sorted(range(len(trials)), key=lambda i: float(trials[i].squares.sum()))
        best = trials[order[0]]
        models = [self._model(trial, best) for trial in trials]
        simple = sorted(range(len(trials)), key=lambda i: trials[i].parameters)
        chosen = next(i for i in simple if models[i].within)
        rest = [models[i] for i in order if i != chosen]
        return trials[chosen], Selection(
            axes=tuple(axis.name for axis in axes),
            models=tuple([models[chosen], *rest][:MOST]),
            compared=len(trials),
            folds=len(self.board.folds),
            friction=(),
            worth=self._worth(axes, trials, trials[chosen]),
            nuisance=(),
        )

    def _model(self, trial: Trial, best: Trial) -> Model:
        excess = trial.squares - best.squares
        reference = max(float(best.squares.sum()), np.finfo(np.float64).tiny)
        error = standard_error(excess, self.board.counts)
        target = self.board.target_square
        return Model(
            options=tuple(option.name for option in trial.options),
            parameters=trial.parameters,
            relative=float(np.sqrt(trial.squares.sum() / target)) if target > 0 else float("nan"),
            behind=float(excess.sum()) / reference,
            behind_std=error / reference,
            within=bool(excess.sum() <= max(error, NEGLIGIBLE * reference)),
        )

    def _worth(self, axes: Sequence[Axis], trials: Sequence[Trial], chosen: Trial) -> tuple[Worth, ...]:
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
                gain = trial.squares - chosen.squares
                reference = max(float(trial.squares.sum()), np.finfo(np.float64).tiny)
                found.append(
                    Worth(
                        axis=axis.name,
                        option=chosen.options[k].name,
                        other=trial.options[k].name,
                        gain=float(gain.sum()) / reference,
                        gain_std=standard_error(gain, self.board.counts) / reference,
                    )
                )
        return tuple(found)
