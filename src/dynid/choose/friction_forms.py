"""Forms of friction compared joint by joint on held-out blocks; the simplest that is as good as the best wins."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product

import numpy as np

from dynid.base.arrays import Bool
from dynid.base.records import dataclass
from dynid.choose.comparison import NEGLIGIBLE, ModelComparison
from dynid.choose.friction_waves import joint_motions
from dynid.choose.search import Fitted, NonlinearFit, Search
from dynid.choose.shaped import is_open, merged, nominal
from dynid.choose.shapes import Choice, FormScore
from dynid.choose.wide_fit import wide_regression
from dynid.choose.wide_model import KEPT, Label, Labelled, WideModel
from dynid.factor.comparison import Candidate, Comparison, compare, gain
from dynid.terms.choice import EVERYWHERE
from dynid.terms.curve import JointMotion, ShapedTerm
from dynid.terms.joint_term import joint_indices, joints_of, narrowed
from dynid.terms.term import Term, Terms


@dataclass(frozen=True)
class Form:
    """A form of one joint's friction.

    parameters: how many it has, shapes among them.
    models: effects of the whole robot with it, one model for each value of its shapes that is tried.
    """

    name: str
    parameters: int
    models: tuple[tuple[Label, ...], ...]


def chosen_form(comparison: ModelComparison, forms: Sequence[Form]) -> tuple[Comparison, int]:
    """The comparison of a joint's forms, each at its best tried shape, and which that is of the winner.

    A shape is an option like any other: the one that predicts held-out blocks best stands for the form, and counts as
    a parameter.
    """
    candidates, shapes = list[Candidate](), list[int]()
    every = comparison.friction_squares([model for one in forms for model in one.models])
    starts = np.cumsum([0, *(len(one.models) for one in forms)])
    for one, first in zip(forms, starts[:-1], strict=True):
        squares = every[first : first + len(one.models)]
        shapes.append(int(np.argmin(squares.sum(axis=1))))
        candidates.append(Candidate(one.name, one.parameters, squares[shapes[-1]]))
    # Of what is negligible for the robot each joint has its part.
    part = NEGLIGIBLE / comparison.wide.robot.n
    found = compare(candidates, comparison.regression.counts, negligible=part)
    return found, shapes[found.chosen]


def choose_forms(terms: Terms, search: Search) -> tuple[Terms, Terms | None, tuple[Choice, ...]]:
    """Terms in which every term with alternatives has given way to one of them joint by joint, and the choices made.

    The second terms are the same at the best shapes tried; None where others are open, or where nothing was chosen.
    """
    robot = search.robot
    asked = [term for term in terms if term.alternatives(())]
    if not asked:
        return terms, None, ()
    others = Terms(tuple(term for term in terms if term not in asked))
    fitted = search.fit(nominal(Terms((*others.terms, *asked)), robot))
    places = [(term, joint) for term in asked for joint in joint_indices(robot, joints_of(term))]
    rivals = [
        [(name, _slowed(one, search)) for name, one in term.alternatives((robot.joint_names[joint],)).items()]
        for term, joint in places
    ]
    open_forms = [one[0][1] for one in rivals]
    started, choices = list(open_forms), list[Choice]()
    if search.can_compare(fitted):
        moving = [i for i, (_, joint) in enumerate(places) if search.moved[joint]]
        motions = joint_motions(search, fitted)
        tried = {
            (i, k): tuple(_tried(one, motions[places[i][1]], search))
            for i in moving
            for k, (_, one) in enumerate(rivals[i])
        }
        shelf = _Shelf.of(
            nominal(others, robot), [*open_forms, *(m for own in tried.values() for m in own)], search
        )
        comparison = shelf.comparison(fitted, search)
        plain = [shelf.labels(one) for one in open_forms]
        picked = list(plain)
        for i in moving:
            base = tuple(label for k, own in enumerate(plain) if k != i for label in own)
            offered = [(k, *rival) for k, rival in enumerate(rivals[i]) if tried[i, k]]
            forms = [
                Form(name, _count(one, search), tuple((*base, *shelf.labels(model)) for model in tried[i, k]))
                for k, name, one in offered
            ]
            found, shape = chosen_form(comparison, forms)
            choices.append(_choice(comparison, found, robot.joint_names[places[i][1]], "friction"))
            k, _, open_forms[i] = offered[found.chosen]
            started[i] = tried[i, k][shape]
            picked[i] = shelf.labels(started[i])
        # Many forms were tried, of which some gain a standard error by chance: together they have to gain more.
        before, together = (tuple(x for own in one for x in own) for one in (plain, picked))
        if before != together and not comparison.earns(comparison.friction_squares([before])[0], together):
            open_forms = started = [one[0][1] for one in rivals]
            choices = [replace(one, chosen=one.candidates[0].name) for one in choices]
    whole, start = (Terms((*others.terms, *merged(parts, robot))) for parts in (open_forms, started))
    return whole, None if is_open(others) or not choices else start, tuple(choices)


def _slowed(terms: Terms, search: Search) -> Terms:
    return Terms(tuple(narrowed(term, search.slowness) for term in terms))


def worth_of_shapes(terms: Terms, found: NonlinearFit, search: Search) -> tuple[Choice, ...]:
    """What each term of the model with an estimated shape gains on held-out blocks, joint by joint."""
    robot = search.robot
    asked = {type(term) for term in terms if isinstance(term, ShapedTerm) and term.shapes}
    mine: dict[int, Bool] = {
        i: free for i, free in found.estimated.items() if type(found.terms.terms[i]) in asked
    }
    if not mine:
        return ()
    others, own = list[Term](), list[tuple[ShapedTerm, int, Bool]]()
    for i, term in enumerate(found.terms):
        if i not in mine or not isinstance(term, ShapedTerm):
            others.append(term)
            continue
        acting = joint_indices(robot, term.joints)
        kept = [joint for joint, free in zip(acting, mine[i], strict=True) if not free.any()]
        others += [term.of_joints(robot, kept)] if kept else []
        own += [
            (term.of_joint(robot, j), j, free) for j, free in zip(acting, mine[i], strict=True) if free.any()
        ]
    fitted = search.fit(Terms((*others, *(term for term, _, _ in own))))
    if not search.can_compare(fitted):
        return ()
    separable = search.separable(fitted)
    without = [_slowed(term.rival((robot.joint_names[joint],)), search) for term, joint, _ in own]
    open_terms = [
        Terms((term.with_shape_table(np.where(free, np.nan, term.shape_table(robot))),))
        for term, _, free in own
    ]
    tried = [
        tuple(_tried(one, separable.motion(joint, term), search))
        for one, (term, joint, _) in zip(open_terms, own, strict=True)
    ]
    here = [Terms((term,)) for term, _, _ in own]
    shelf = _Shelf.of(
        Terms(tuple(others)), [*here, *without, *(model for one in tried for model in one)], search
    )
    comparison = shelf.comparison(fitted, search)
    choices = []
    for i, (term, joint, _) in enumerate(own):
        base = tuple(label for k, one in enumerate(here) if k != i for label in shelf.labels(one))
        rival = _subject(without[i].terms[0]) if without[i].terms else "without"
        forms = [
            Form(rival, _count(without[i], search), ((*base, *shelf.labels(without[i])),)),
            Form(
                term.subject,
                _count(open_terms[i], search),
                tuple((*base, *shelf.labels(model)) for model in tried[i]),
            ),
        ]
        judged, _ = chosen_form(comparison, forms)
        choices.append(_choice(comparison, judged, robot.joint_names[joint], term.subject))
    return tuple(choices)


@dataclass(frozen=True, eq=False)
class _Shelf:
    """A wide model of terms that are tried beside others, each of them once however many models have it."""

    wide: WideModel
    label: Mapping[Term, Label]

    @staticmethod
    def of(others: Terms, models: Sequence[Terms], search: Search) -> _Shelf:
        robot = search.robot
        every = dict.fromkeys(term for model in models for term in model)
        label = {term: (str(k), EVERYWHERE) for k, term in enumerate(every)}
        labelled = [Labelled(term, name) for term, (name, _) in label.items()]
        members: dict[Label, tuple[str, ...]] = {KEPT: tuple(c.name for c in others.columns(robot))}
        for term in labelled:
            members[term.label, EVERYWHERE] = tuple(column.name for column in term.columns(robot))
        wide = WideModel(Terms((*others.terms, *labelled)), members, (), robot, len(others.terms))
        return _Shelf(wide, label)

    def labels(self, model: Terms) -> tuple[Label, ...]:
        return tuple(self.label[term] for term in model)

    def comparison(self, fitted: Fitted, search: Search) -> ModelComparison:
        _, regression = wide_regression(self.wide, fitted, search)
        return ModelComparison(regression, self.wide, self.wide.members[KEPT])


def _tried(terms: Terms, motion: JointMotion, search: Search) -> Iterator[Terms]:
    """Terms of one joint with their open shapes at every value that is tried."""
    options: list[list[Term]] = []
    for term in terms:
        table = term.shape_table(search.robot) if isinstance(term, ShapedTerm) else np.zeros(0)
        if isinstance(term, ShapedTerm) and np.isnan(table).any():
            tried = [np.where(np.isnan(table), one, table) for one in term.tried(motion)]
            options.append([term.with_shape_table(one) for one in tried])
        else:
            options.append([term])
    yield from (Terms(one) for one in product(*options))


def _subject(term: Term) -> str:
    return term.subject if isinstance(term, ShapedTerm) else term.name


def _count(terms: Terms, search: Search) -> int:
    shapes = [one.shape_table(search.robot) for one in terms if isinstance(one, ShapedTerm) and one.shapes]
    return len(terms.columns(search.robot)) + sum(int(np.isnan(one).sum()) for one in shapes)


def _choice(comparison: ModelComparison, found: Comparison, joint: str, subject: str) -> Choice:
    """The choice among forms; the first one is what the gains are counted from."""
    first, torque = found.candidates[0], comparison.regression.target_square
    candidates = []
    for one in found.candidates:
        share, std = gain(first.squares, one.squares, comparison.regression.counts)
        candidates.append(
            FormScore(
                name=one.name,
                parameters=int(one.parameters),
                relative=float(np.sqrt(one.squares.sum() / torque)) if torque > 0 else float("nan"),
                gain=share,
                gain_std=std,
                earned=one is not first and share > std,
            )
        )
    return Choice(joint, subject, tuple(candidates), found.winner.name)
