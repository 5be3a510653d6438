"""Scores on held-out blocks when shapes were estimated: they are estimated again without the blocks that score them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from dynid.choose.fit_nonlinear import constant_part_of, refine
from dynid.choose.search import Fitted, NonlinearFit, Search
from dynid.choose.wide_model import Labelled
from dynid.estimate.estimator import Estimator
from dynid.estimate.scores import LeftOut, Origin, Scores, Sums
from dynid.estimate.source import LogSource
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of, judged_equations, moved_once
from dynid.terms.term import Terms


def held_out_scores(
    fitted: Fitted,
    nonlinear: NonlinearFit,
    search: Search,
    estimator: Estimator,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores on contiguous runs of blocks, each left out of everything that is estimated but the forms of friction.

    search: of a long log its stretches of every block, on which the shapes were estimated: the scores are of these.
    left_out: samples of the log that are in no equation, by the model that was fitted to all blocks.
    """
    if search.share < 1.0:
        fitted = search.fit(nonlinear.terms)
        left_out = None if left_out is None else left_out.scaled(search.share)
    group_names = fitted.factors.group_names
    scored = [g for g, name in enumerate(group_names) if name in search.robot.joint_names]
    constant = constant_part_of(fitted, nonlinear, search)
    sums: list[Sums] = []
    blocks: list[Sums] = []
    folds = folds_of(fitted.factors, search.folds)
    models = [
        refine(nonlinear, search, fresh=False, blocks=fold.training.tolist(), constant=constant).terms
        for fold in folds
    ]
    every = _factors_of_all(fitted, models, list(nonlinear.estimated), search)
    for fold, terms, whole in zip(folds, models, every, strict=True):
        factors = whole.select(fitted.regression.base.mask)
        source = fitted.regression.source
        if isinstance(source, LogSource):
            source = replace(source, assembly=replace(source.assembly, terms=terms))
        part = replace(
            fitted.regression,
            factors=factors.subset(fold.training.tolist()),
            source=source,
            value_only=True,
        )
        theta = estimator.fit(part).full_vector
        held_out = judged_equations(factors, folds).subset(fold.held_out.tolist())
        sums.append(Sums.of_factors(held_out, theta, scored))
        blocks += Sums.of_blocks(held_out, theta, scored)
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    names = dict.fromkeys(block.trajectory for block in fitted.factors.blocks)
    scored_names = [group_names[g] for g in scored]
    found = total.scores(Origin.HELD_OUT_BLOCKS, scored_names, tuple(names), left_out, blocks)
    return replace(found, moved_once=moved_once(fitted.factors, folds))


def _factors_of_all(
    fitted: Fitted, models: Sequence[Terms], changed: Sequence[int], search: Search
) -> Iterator[Factors]:
    """Factors of models that differ from a fitted one in some terms, by their positions, from one pass over all."""
    assembly, robot = fitted.assembly, search.robot
    counts = [len(term.columns(robot)) for term in assembly.terms]
    first = np.cumsum([0, *counts])
    own = [np.arange(first[i], first[i + 1]) for i in changed]
    trial = np.concatenate(own)
    others = [
        Labelled(model.terms[i], f"{number}, {i}") for number, model in enumerate(models) for i in changed
    ]
    wider = replace(
        assembly,
        terms=Terms((*assembly.terms.terms, *others)),
        wanted=np.concatenate([assembly.wanted, *[assembly.wanted[trial]] * len(models)]),
    )
    known = wider.unchanged(assembly, fitted.factors)
    factors = wider.factors(search.batches, search.threads, known=known)
    for number in range(len(models)):
        place = np.append(np.arange(first[-1]), np.full(len(trial) * len(models), -1))
        place[trial] = -1
        place[first[-1] + number * len(trial) + np.arange(len(trial))] = trial
        yield factors.renumbered(place, int(first[-1]))
