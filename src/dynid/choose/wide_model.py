"""Every column that some proposal model has, side by side in one model, so that a log is worked through once."""

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

# An effect with the number of its variant, and its place.
Label = tuple[str, int]
KEPT: Label = ("kept", EVERYWHERE)
_VARIANT = "@"
# Rows of the drives of a nominal model.
_DRIVES = (MotionBasis.ACCELERATION, MotionBasis.SPEED, MotionBasis.SIGN, MotionBasis.ONE)


@dataclass(frozen=True)
class Labelled(Term):
    """A term whose parameters carry a label, so that several of a kind can stand side by side."""

    of: Term
    label: str
    name: str = "labelled"

    def __post_init__(self) -> None:
        object.__setattr__(self, "traits", self.of.traits)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the term, renamed."""
        return tuple(replace(c, name=f"{self.label}:{c.name}") for c in self.of.columns(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the term."""
        return self.of.torque_regressor(robot, samples, wanted)


def _of_held(form: Any, term: Labelled, *motion: Any) -> Any:
    return form(term.of, *motion)


for _form in FORMS:
    _form.register(Labelled, partial(_of_held, _form))


@dataclass(frozen=True, eq=False)
class WideModel:
    """The wide model, and which of its columns belong to which effect at which place (EVERYWHERE = the whole robot).

    proposals: the effects, in the order of the catalogue.
    kept: how many terms every candidate has, which come first.
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
        return next(one for one in self.proposals if one.label == name and label[1] in one.places)

    def bounded(self, label: Label) -> tuple[str, ...]:
        """Those columns of an effect that are not negative by nature."""
        prefix = f"{label[0]}:"
        return tuple(
            prefix + column.name
            for one in self.proposals
            if one.label == self.proposal(label).label
            for place, column in zip(one.places, one.variants[0].columns(self.robot), strict=True)
            if place == label[1] and column.lower >= 0
        )

    def role(self, label: Label) -> Role:
        """What an effect is to the choice."""
        return self.proposal(label).role

    def of(self, proposal: Proposal, variant: int = 0) -> tuple[Label, ...]:
        """Labels of a proposal at all its places, in order."""
        name = effect_name(proposal, variant)
        return tuple(label for label in self.members if label[0] == name and label[1] in proposal.places)

    def named(self, name: str) -> tuple[Label, ...]:
        """Labels of the first variant of all proposals of a name, at all their places."""
        return tuple(label for one in self.proposals if one.label == name for label in self.of(one))

    def replaced(self, labels: Iterable[Label]) -> tuple[Label, ...]:
        """Labels of the plain effects of the same question in whose place some effects stand."""
        return tuple(
            (name, label[1])
            for label in labels
            for name in self.proposal(label).replaces
            if (name, label[1]) in self.members
            and self.proposal((name, label[1])).question == self.proposal(label).question
        )

    def adds(self, label: Label) -> tuple[str, ...]:
        """Names in a model of the columns that an effect adds to those in whose place it stands."""
        proposal, replaced = self.proposal(label), self.names(self.replaced([label]))
        gone = {*(name.split(":", 1)[1] for name in replaced), *proposal.auxiliary}
        names = (name.split(":", 1)[1] for name in self.members[label])
        return tuple(name for name in names if name not in gone)

    def tried(self, proposal: Proposal, labels: Collection[Label]) -> Iterator[tuple[int, int]]:
        """Place and number of the variant of those labels that are of a proposal."""
        for variant in range(len(proposal.variants)):
            name = effect_name(proposal, variant)
            own = sorted(place for effect, place in labels if effect == name and place in proposal.places)
            yield from ((place, variant) for place in own)

    def shape(self, proposal: Proposal, variant: int, joint: int) -> Float:
        """Shapes (s,) of a variant on a joint."""
        term = inner_term(proposal.variants[variant])
        if not isinstance(term, CurveTerm):
            return np.zeros(0)
        return np.asarray(shape_table(term, self.robot)[joint_indices(self.robot, term.joints).index(joint)])


def effect_name(proposal: Proposal, variant: int) -> str:
    """The name of a proposal's variant in labels."""
    return proposal.label if len(proposal.variants) == 1 else f"{proposal.label}{_VARIANT}{variant}"


def plain_effects(robot: RobotModel, kept: Terms) -> tuple[Proposal, ...]:
    """The effects that are on trial in every comparison: those that no kept term stands for."""
    covered = {label for term in kept for label in term.selection.covers}
    return tuple(one for one in proposals(robot, LogFacts(), Role.PLAIN) if one.label not in covered)


def kept_terms(terms: Terms) -> Terms:
    """The terms that are in every proposal: all but those that are on trial."""
    return Terms(tuple(term for term in terms if term.selection.role is not Role.PLAIN))


def nominal_model(robot: RobotModel, estimate: Estimate, before: Nominal | None = None) -> Nominal:
    """The bodies and drives of a fit.    before: drives of joints whose friction has another form now."""
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
    """Values, by name, of the effects that a fit holds and that are linear about a nominal model."""
    return {
        estimate.columns[i].name: float(value)
        for i, value in zip(estimate.base.independent, estimate.value, strict=True)
        if CATALOGUE.get(estimate.columns[i].term, Term).traits.linearised
    }


def wide_model(robot: RobotModel, kept: Terms, log: LogFacts) -> WideModel:
    """The wide model around the terms that every proposal has."""
    covered = {label for term in kept for label in term.selection.covers}
    effects = tuple(one for one in proposals(robot, log) if one.label not in covered)
    members: dict[Label, list[str]] = {KEPT: [c.name for c in kept.columns(robot)]}
    there = frozenset(members[KEPT])
    labelled: list[Term] = []
    for proposal in effects:
        for variant, term in enumerate(proposal.variants):
            name = effect_name(proposal, variant)
            labelled.append(Labelled(term, name))
            for place, column in zip(proposal.places, term.columns(robot), strict=True):
                if column.name in there:
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


# One pass over a log for every column of a wide model, and regressions on subsets of them.


def most_probable(fitted: Fitted, prior: MAP) -> Estimate:
    """Estimate of a fit under the prior of the final one; unchanged for a model without links."""
    has_links = any(column.of is Of.BODY for column in fitted.regression.columns)
    return prior.around(fitted.regression, fitted.estimate) if has_links else fitted.estimate


def wide_regression(
    wide: WideModel, fitted: Fitted, probable: Estimate, search: Search
) -> tuple[Factors, SubsetRegression]:
    """Factors of the wide model, and regressions on subsets of their columns.

    probable: the most probable estimate of the fit, about which the prior is linearised.

    Of the columns that every candidate has those stay that any motion can determine; the others are few, and which of
    them depend on which is a matter of the log: random states would not show what has a memory.
    """
    robot, assembly = search.robot, fitted.assembly
    alive = wide.terms.alive(robot, search.moved)
    wanted = np.array(alive)
    common = len(wide.members[KEPT])
    wanted[:common] &= fitted.structural.mask[:common]
    # Models are compared with all repetitions of a motion as one: the blocks of each would be merged.
    made = replace(assembly, terms=wide.terms, wanted=wanted, blocks=assembly.blocks.of_all_repetitions())
    factors = made.factors(search.batches, search.threads).repetitions_merged()
    names = [column.name for column in wide.terms.columns(robot)]
    columns, folds = np.flatnonzero(wanted), folds_of(factors, search.folds)
    bounded = bounded_columns(wide.terms.columns(robot), fitted.estimate)
    weights = np.asarray(fitted.estimate.weights)
    prior = _prior_of(fitted, probable, [names[i] for i in columns])
    return factors, SubsetRegression.of(factors, names, columns, weights, folds, bounded, prior)


def _prior_of(fitted: Fitted, probable: Estimate, names: Sequence[str]) -> Prior | None:
    """Prior of the links as the final fit has it; None for a model without links."""
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
