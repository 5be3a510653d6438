"""Scores on held-out blocks when shapes were sought: they are sought again without the blocks that score them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dynid.choose.fit_nonlinear import Fitted, Search, Settled, desk_of, refine
from dynid.estimate.estimator import Estimator
from dynid.estimate.scores import LeftOut, Origin, Scores, Sums
from dynid.estimate.source import LogSource


def held_out_scores(
    fitted: Fitted,
    settled: Settled,
    search: Search,
    estimator: Estimator,
    left_out: LeftOut | None = None,
) -> Scores:
    """Scores on contiguous runs of blocks, each left out of everything that is sought but the forms of friction.

    left_out: samples of the log that are in no equation, by the model that was fitted to all blocks.
    """
    M = len(fitted.factors.blocks)
    group_names = fitted.factors.group_names
    scored = [g for g, name in enumerate(group_names) if name in search.robot.joint_names]
    desk = desk_of(fitted, settled, search)
    sums: list[Sums] = []
    for held_out in np.array_split(np.arange(M), min(search.folds, M)):
        training = sorted(set(range(M)) - set(held_out.tolist()))
        found = refine(settled, search, fresh=False, blocks=training, desk=desk)
        factors = replace(fitted.assembly, terms=found.terms).factors(search.batches, search.threads)
        factors = factors.select(fitted.regression.base.mask)
        source = fitted.regression.source
        if isinstance(source, LogSource):
            source = replace(source, assembly=replace(source.assembly, terms=found.terms))
        part = replace(fitted.regression, factors=factors.subset(training), source=source)
        theta = estimator.fit(part).full_vector
        sums.append(Sums.of_factors(factors.subset(held_out.tolist()), theta, scored))
    total = sums[0]
    for one in sums[1:]:
        total = total + one
    names = dict.fromkeys(block.trajectory for block in fitted.factors.blocks)
    return total.scores(Origin.HELD_OUT_BLOCKS, [group_names[g] for g in scored], tuple(names), left_out)
