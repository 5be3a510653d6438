"""From the options that were chosen to the terms of a model."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dynid.choose.wide_model import Label, WideModel
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import Extent
from dynid.terms.curve import CurveTerm
from dynid.terms.term import Term, Terms


def terms_of(kept: Terms, effects: Iterable[Label], wide: WideModel, started: bool = False) -> Terms:
    """The kept terms and chosen effects as terms.

    started: with the shapes that were tried; else these are left open, to be estimated with all joints together.
    """
    labels = set(effects)
    found: list[Term] = list(kept.terms)
    for proposal in wide.proposals:
        own = dict(wide.tried(proposal, labels))
        if not own:
            continue
        places = tuple(sorted(own))
        term = proposal.build(places)
        if started and isinstance(term, CurveTerm) and term.shapes:
            term = term.with_shape_table(np.array([wide.shape(proposal, own[j], j) for j in places]))
        found.append(term)
    return Terms(tuple(found))


def within_extent(terms: Terms, robot: RobotModel, batches: Iterable[Samples]) -> Terms:
    """The terms, knowing how fast and far joints went in the samples that they are fitted to, where one asks."""
    none = np.zeros(robot.n)
    if terms.within(robot, Extent(none, none, none)) == terms:
        return terms
    peak, low, high = none, none + np.inf, none - np.inf
    for samples in batches:
        q = samples.q[samples.keep]
        peak = np.maximum(peak, np.abs(samples.dq[samples.keep]).max(axis=0, initial=0.0))
        low, high = (
            np.minimum(low, q.min(axis=0, initial=np.inf)),
            np.maximum(high, q.max(axis=0, initial=-np.inf)),
        )
    return terms.within(robot, Extent(peak, low, high))
