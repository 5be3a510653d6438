"""A wide model with the columns of all candidate models, so that one pass over a log suffices for all."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.choose.search import Fitted, Search
from dynid.choose.subset_regression import Prior, SubsetRegression, bounded_columns
from dynid.estimate.estimator import Estimate
from dynid.estimate.posterior import MAP, link_equations
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.catalogue import proposals
from dynid.terms.curve import CurveTerm, shape_table
from dynid.terms.exports import EVERYWHERE, Column, LogFacts, MotionBasis, Of, Role
from dynid.terms.forms import FORMS, inner_term
from dynid.terms.nominal import Nominal
from dynid.terms.term import CATALOGUE, Proposal, Term, Terms, joint_indices
from dynid.terms.transmission import seen_at_joints

# Name of an effect with its variant, and its place.
Label = tuple[str, int]
KEPT: Label = ("kept", EVERYWHERE)
_VARIANT = "@"
# Rows of the drives of a nominal model.
_DRIVES = (MotionBasis.ACCELERATION, MotionBasis.SPEED, MotionBasis.SIGN, MotionBasis.ONE)


@dataclass(frozen=True)
class Labelled(Term):
    """A term whose parameter names have a label, so that a model can contain several of its kind."""

    of: Term
    label: str
    name: str = "labelled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "traits", self.of.traits)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Columns of the term, renamed."""
        return tuple(replace(c, name=f"{self.label}:{c.name}") for c in self.of.columns(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Regressor of the term."""
        return self.of.torque_regressor(robot, samples, wanted)


def _of_held(form: Any, term: Labelled, *motion: Any) -> Any:
    return form(term.of, *motion)


for _form in FORMS:
    _form.register(Labelled, partial(_of_held, _form))


@dataclass(frozen=True, eq=False)
class WideModel:
    """The wide model, and the columns of each effect at each place (EVERYWHERE = the whole robot).

    `proposals` are the effects in the order of the catalogue; `kept` is the number of terms, the first ones, that every
    candidate has.
    """

    terms: Terms
    members: dict[Label, tuple[str, ...]]
    proposals: tuple[Proposal, ...]
    robot: RobotModel
    kept: int

    def names(self, labels: Iterable[Label]) -> tuple[str, ...]:
        """Columns of some effects."""
        return tuple(name for label in labels for name in self.members.get(label, ()))

    def proposal(self, label: Label) -> Proposal:
        """The proposal of a label."""
        name = label[0].split(_VARIANT)[0]
        return next(
            proposal for proposal in self.proposals if proposal.label == name and label[1] in proposal.places
        )

    def bounded(self, label: Label) -> tuple[str, ...]:
        """Columns of an effect with physically nonnegative coefficients."""
        prefix = f"{label[0]}:"
        return tuple(
            prefix + column.name
            for proposal in self.proposals
            if proposal.label == self.proposal(label).label
            for place, column in zip(proposal.places, proposal.variants[0].columns(self.robot), strict=True)
            if place == label[1] and column.lower >= 0
        )

    def role(self, label: Label) -> Role:
        """Role of an effect in the choice."""
        return self.proposal(label).role

    def of(self, proposal: Proposal, variant: int = 0) -> tuple[Label, ...]:
        """Labels of a proposal at all its places, in order."""
        name = effect_name(proposal, variant)
        return tuple(label for label in self.members if label[0] == name and label[1] in proposal.places)

    def named(self, name: str) -> tuple[Label, ...]:
        """Labels of the first variant of all proposals of a name, at all their places."""
        return tuple(
            label for proposal in self.proposals if proposal.label == name for label in self.of(proposal)
        )

    def replaced(self, labels: Iterable[Label]) -> tuple[Label, ...]:
        """Labels of the plain effects that some effects replace."""
        return tuple(
            (name, label[1])
            for label in labels
            for name in self.proposal(label).replaces
            if (name, label[1]) in self.members
            and self.proposal((name, label[1])).question == self.proposal(label).question
        )

    def adds(self, label: Label) -> tuple[str, ...]:
        """Names of the columns that an effect adds beyond those it replaces."""
        proposal, replaced = self.proposal(label), self.names(self.replaced([label]))
        gone = {*(name.split(":", 1)[1] for name in replaced), *proposal.auxiliary}
        names = (name.split(":", 1)[1] for name in self.members[label])
        return tuple(name for name in names if name not in gone)

    def tried(self, proposal: Proposal, labels: Collection[Label]) -> Iterator[tuple[int, int]]:
        """Place and variant number of a proposal's labels among some."""
        for variant in range(len(proposal.variants)):
            name = effect_name(proposal, variant)
            places = sorted(place for effect, place in labels if effect == name and place in proposal.places)
            yield from ((place, variant) for place in places)

    def shape(self, proposal: Proposal, variant: int, joint: int) -> Float:
        """Shapes (s,) of a variant on a joint."""
        term = inner_term(proposal.variants[variant])
        if not isinstance(term, CurveTerm):
            return np.zeros(0)
        return np.asarray(shape_table(term, self.robot)[joint_indices(self.robot, term.joints).index(joint)])


def effect_name(proposal: Proposal, variant: int) -> str:
    """Name of a proposal's variant in labels."""
    return proposal.label if len(proposal.variants) == 1 else f"{proposal.label}{_VARIANT}{variant}"


def plain_effects(robot: RobotModel, kept: Terms) -> tuple[Proposal, ...]:
    """Effects that are tested in every comparison: those that no kept term covers."""
    covered = {label for term in kept for label in term.selection.covers}
    return tuple(
        proposal for proposal in proposals(robot, LogFacts(), Role.PLAIN) if proposal.label not in covered
    )


def kept_terms(terms: Terms) -> Terms:
    """Terms of every candidate model: all except those that are tested."""
    return Terms(tuple(term for term in terms if term.selection.role is not Role.PLAIN))


def nominal_model(robot: RobotModel, estimate: Estimate, before: Nominal | None = None) -> Nominal:
    """The links and drives of a fit; `before` has the drives of joints whose friction now has another form."""
    inertia = np.zeros(10 * robot.n_bodies)
    bodies = [i for i, c in enumerate(estimate.columns) if c.of is Of.BODY]
    inertia[: len(bodies)] = estimate.parameters[bodies]
    drives = np.zeros((4, robot.n)) if before is None else np.array(before.drives).reshape(4, robot.n)
    for column, value in zip(estimate.columns, estimate.parameters, strict=True):
        basis = CATALOGUE.get(column.term, Term).traits.basis
        if basis is not None:
            drives[_DRIVES.index(basis), column.owner] = value
        elif (at_joints := seen_at_joints(robot, column, float(value))) is not None:
            drives[_DRIVES.index(at_joints[0])] += at_joints[1]
    return Nominal(tuple(inertia.tolist()), tuple(drives.ravel().tolist()))


def found_effects(estimate: Estimate) -> dict[str, float]:
    """Values, by name, of a fit's effects that are linear about a nominal model."""
    return {
        estimate.columns[i].name: float(value)
        for i, value in zip(estimate.base.independent, estimate.value, strict=True)
        if CATALOGUE.get(estimate.columns[i].term, Term).traits.linearised
    }


def wide_model(robot: RobotModel, kept: Terms, log: LogFacts) -> WideModel:
    """The wide model with the terms that every candidate has."""
    covered = {label for term in kept for label in term.selection.covers}
    effects = tuple(proposal for proposal in proposals(robot, log) if proposal.label not in covered)
    members: dict[Label, list[str]] = {KEPT: [c.name for c in kept.columns(robot)]}
    kept_names = frozenset(members[KEPT])
    labelled: list[Term] = []
    for proposal in effects:
        for variant, term in enumerate(proposal.variants):
            name = effect_name(proposal, variant)
            labelled.append(Labelled(term, name))
            for place, column in zip(proposal.places, term.columns(robot), strict=True):
                if column.name in kept_names:
                    continue
                if proposal.both_ways and log.motion and not log.motion[place].both_ways:
                    continue
                if proposal.moving and log.motion and log.motion[place].stands:
                    continue
                members.setdefault((name, place), []).append(f"{name}:{column.name}")
    return WideModel(
        Terms((*kept.terms, *labelled)),
        {label: tuple(names) for label, names in members.items()},
        effects,
        robot,
        len(kept.terms),
    )


# One pass over a log for all columns of a wide model, and regressions on subsets of them.


def most_probable(fitted: Fitted, prior: MAP) -> Estimate:
    """Estimate of a fit under the prior of the final one; unchanged for a model without links."""
    has_links = any(column.of is Of.BODY for column in fitted.regression.columns)
    return prior.around(fitted.regression, fitted.estimate) if has_links else fitted.estimate


def wide_regression(
    wide: WideModel, fitted: Fitted, probable: Estimate, search: Search
) -> tuple[Factors, SubsetRegression]:
    """Factors of the wide model, and regressions on subsets of their columns.

    Columns that every candidate has are kept if any motion can determine them. The log decides which of the others are
    dependent, since random states do not show effects with a memory. The prior is linearised about `probable`.
    """
    robot, assembly = search.robot, fitted.assembly
    alive = wide.terms.alive(robot, search.moved)
    wanted = np.array(alive)
    common = len(wide.members[KEPT])
    wanted[:common] &= fitted.structural.mask[:common]
    # All repetitions of a motion count as one: the blocks of each are merged.
    made = replace(assembly, terms=wide.terms, wanted=wanted, blocks=assembly.blocks.of_all_repetitions())
    factors = made.factors(search.batches, search.threads).repetitions_merged()
    names = [column.name for column in wide.terms.columns(robot)]
    columns, folds = np.flatnonzero(wanted), folds_of(factors, search.folds)
    bounded = bounded_columns(wide.terms.columns(robot), fitted.estimate)
    weights = np.asarray(fitted.estimate.weights)
    prior = _prior_of(fitted, probable, [names[i] for i in columns])
    return factors, SubsetRegression.of(factors, names, columns, weights, folds, bounded, prior)


def _prior_of(fitted: Fitted, probable: Estimate, names: Sequence[str]) -> Prior | None:
    """Prior of the links in the final fit; None for a model without links."""
    regression, base = fitted.regression, fitted.regression.base
    place = {name: i for i, name in enumerate(names)}
    rows = np.array(
        [
            k
            for k, i in enumerate(base.independent.tolist())
            if regression.columns[i].of is Of.BODY and regression.columns[i].name in place
        ],
        dtype=np.int64,
    )
    if not len(rows):
        return None
    known = np.zeros((len(rows), len(names) + 1))
    equations = link_equations(probable, regression, rows)
    known[:, [place[regression.columns[base.independent[k]].name] for k in rows]] = equations[:, :-1]
    known[:, -1] = equations[:, -1]
    return Prior(np.asarray(probable.weights), known)
