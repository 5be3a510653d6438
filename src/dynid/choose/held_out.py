"""Scores on held-out blocks when shapes were estimated: they are estimated again without the blocks that score them."""

from __future__ import annotations

from dataclasses import replace

from dynid.choose.fit_nonlinear import constant_part_of, refine
from dynid.choose.search import Fitted, NonlinearFit, Search
from dynid.estimate.estimator import Estimator
from dynid.estimate.scores import LeftOut, Origin, Scores, Sums
from dynid.estimate.source import LogSource
from dynid.factor.folds import folds_of


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
    for fold in folds_of(fitted.factors, search.folds):
        training = fold.training.tolist()
        found = refine(nonlinear, search, fresh=False, blocks=training, constant=constant)
        assembly = replace(fitted.assembly, terms=found.terms)
        known = assembly.unchanged(fitted.assembly, fitted.factors)
        factors = assembly.factors(search.batches, search.threads, known=known)
        factors = factors.select(fitted.regression.base.mask)
        source = fitted.regression.source
        if isinstance(source, LogSource):
            source = replace(source, assembly=replace(source.assembly, terms=found.terms))
        part = replace(fitted.regression, factors=factors.subset(training), source=source, value_only=True)
        theta = estimator.fit(part).full_vector
        held_out = factors.subset(fold.held_out.tolist())
        sums.append(Sums.of_factors(held_out, theta, scored))
        blocks += Sums.of_blocks(held_out, theta, scored)
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    names = dict.fromkeys(block.trajectory for block in fitted.factors.blocks)
    scored_names = [group_names[g] for g in scored]
    return total.scores(Origin.HELD_OUT_BLOCKS, scored_names, tuple(names), left_out, blocks)
