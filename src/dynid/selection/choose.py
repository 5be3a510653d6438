"""The model of a log: friction, rotors, couplings, elasticity, offsets, tilt and delay, chosen on held-out blocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from dynid.diagnostics import Diagnostics
from dynid.factor.factor import Factors
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.selection.board import Board
from dynid.selection.contest import Axis, Contest, Option, Trial
from dynid.selection.findings import options_in_words
from dynid.selection.nuisance import estimate_nuisance
from dynid.selection.result import JointForm, Selection
from dynid.selection.superset import (
    EVERYWHERE,
    SHAPED,
    Label,
    Superset,
    kept_terms,
    nominal_model,
    superset,
)
from dynid.shapes.bench import kept_batches
from dynid.shapes.choice import standard_error
from dynid.shapes.settle import Fitted, Search, is_open
from dynid.terms.compliance import Compliance
from dynid.terms.coupling import JointCoupling
from dynid.terms.curve import CurveTerm
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_choice import WIDTH
from dynid.terms.friction_curves import AsymmetricCoulomb, PolynomialFriction
from dynid.terms.nuisance import Drift, GravityTilt, Nominal, TorqueDelay
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Term, Terms, joint_indices, on_joints

Names = tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that was chosen and the comparison.

    terms: with open shapes where such a form of friction won.    start: the same terms at the best shapes tried.
    """

    terms: Terms
    start: Terms | None = None
    selection: Selection | None = None


def choose_model(terms: Terms, search: Search, diagnostics: Diagnostics) -> Chosen:
    """Chooses a model around some terms by its errors on held-out blocks.

    Rotor inertia and plain friction among the terms are put to the test; all others stay. One fit of a plain model
    gives the weights of the joints and the torque that delay, tilt and elasticity are linearised about; then the log is
    worked through once with every column that any candidate has, and all candidates are fitted and scored on what is
    left of it. Deterministic. A log too short to hold blocks out keeps the terms it came with.
    """
    robot = search.robot
    kept = kept_terms(terms)
    plain = Terms((*kept.terms, RotorInertia(), Viscous(), Coulomb(WIDTH), Offset()))
    first = search.fit(plain)
    if not search.can_compare(first):
        diagnostics.warn(
            "too-short-to-choose",
            f"{len(first.factors.blocks)} blocks of data are too few to compare models on: the default model is kept",
        )
        return Chosen(terms)
    nominal = nominal_model(robot, first.estimate)
    bench = search.bench(first)
    origin = first.factors.blocks[0].start
    motion = [bench.motion(j) for j in range(robot.n)]
    elastic = isinstance(first.assembly.rows, ElasticRows)
    wide = superset(robot, kept, nominal, motion, origin, wide=not elastic)
    factors, board = _board(wide, first, search)
    contest = Contest(board, wide, wide.members["kept", EVERYWHERE])
    forms = _friction_by_joint(contest, search)
    axes = _axes(contest, forms, search)
    trial, selection = contest.best(axes)
    selection = replace(
        selection,
        friction=_joint_forms(contest, forms, robot),
        nuisance=estimate_nuisance(robot, contest, factors, first, trial),
    )
    found = _terms(robot, kept, trial, nominal, origin)
    start = None if is_open(kept) else _started(robot, found, trial, wide)
    diagnostics.note(
        "model",
        f"{selection.compared} models compared on held-out blocks: "
        + options_in_words(selection.axes, selection.chosen.options),
    )
    return Chosen(found, start, selection)


def _board(wide: Superset, first: Fitted, search: Search) -> tuple[Factors, Board]:
    """Factors of the wide model, and the board over their columns.

    Of the columns that every candidate has those stay that any motion can tell apart; the others are few, and which of
    them depend on which is a matter of the log: random states would not show what has a memory.
    """
    robot, assembly = search.robot, first.assembly
    alive = np.concatenate([term.alive(robot, search.moved) for term in wide.terms])
    wanted = np.array(alive)
    common = len(wide.members["kept", EVERYWHERE])
    wanted[:common] &= first.structural.mask[:common]
    lines = sum(len(f.columns) + 1 for f in first.factors.total) + robot.n * int(wanted[common:].sum())
    batches, _ = kept_batches(search.batches, lines, assembly.parallel.decimation)
    made = replace(assembly, terms=wide.terms, wanted=wanted)
    factors = made.factors(batches, search.threads)
    names = [column.name for column in wide.terms.columns(robot)]
    weights = np.asarray(first.estimate.weights)
    folds = min(search.folds, len(factors.blocks))
    return factors, Board.of(factors, names, np.flatnonzero(wanted), weights, folds)


def _plain(robot: RobotModel) -> list[Label]:
    effects = ("rotor", "viscous", "coulomb", "offset")
    return [(effect, j) for effect in effects for j in range(robot.n)]


def _friction_by_joint(contest: Contest, search: Search) -> dict[int, Option]:
    """By joint, the form of friction that earned its place there; joints that plain friction suits are left out."""
    robot = search.robot
    plain = _plain(robot)
    base = contest.squares(plain)
    found: dict[int, Option] = {}
    for j in np.flatnonzero(search.moved).tolist():
        others = [label for label in plain if label != ("coulomb", j)]
        forms = [
            Option("sides", (("sides", j),)),
            Option("cubic", (("coulomb", j), ("cubic", j))),
            *(_best_shape(contest, others, name, j) for name in SHAPED),
        ]
        scored = [(contest.squares([*others, *form.labels]), form) for form in forms]
        squares, form = min(scored, key=lambda pair: float(pair[0].sum()))
        if contest.earns(base, [*others, *form.labels], 1.0):
            close = [
                (len(contest.wide.names(other.labels)) + other.shapes, i, other)
                for i, (error, other) in enumerate(scored)
                if float((error - squares).sum()) <= standard_error(error - squares, contest.board.counts)
            ]
            found[j] = min(close, key=lambda entry: entry[:2])[2]
    return found


def _joint_forms(contest: Contest, forms: dict[int, Option], robot: RobotModel) -> tuple[JointForm, ...]:
    plain = _plain(robot)
    base = contest.squares(plain)
    return tuple(
        JointForm(
            robot.joint_names[j],
            form.name,
            *contest.gain(base, [*(label for label in plain if label != ("coulomb", j)), *form.labels]),
        )
        for j, form in forms.items()
    )


def _best_shape(contest: Contest, others: list[Label], name: str, joint: int) -> Option:
    """A form of friction at the best of the shapes that were written down."""
    with_coulomb = [("coulomb", joint)] if name == "stribeck" else []
    options = []
    for effect in dict.fromkeys(label for label, _ in contest.wide.shapes if label.startswith(f"{name}@")):
        labels = (*with_coulomb, (effect, joint))
        options.append((float(contest.squares([*others, *labels]).sum()), Option(name, labels, shapes=1)))
    return min(options, key=lambda pair: pair[0])[1]


def _axes(contest: Contest, forms: dict[int, Option], search: Search) -> list[Axis]:
    """What is combined: options that nothing speaks for by themselves are left out."""
    robot, wide = search.robot, contest.wide
    every = range(robot.n)
    viscous = tuple(("viscous", j) for j in every)
    coulomb = tuple(("coulomb", j) for j in every)
    friction = [Option("none"), Option("viscous", viscous), Option("viscous + coulomb", viscous + coulomb)]
    offset = tuple(("offset", j) for j in every)
    if forms:
        labels = viscous + tuple(("coulomb", j) for j in every if j not in forms)
        labels += tuple(label for form in forms.values() for label in form.labels)
        friction.append(Option("by joint", labels, sum(form.shapes for form in forms.values())))
    base = [label for label in _plain(robot) if not (label[0] == "coulomb" and label[1] in forms)]
    base += [label for form in forms.values() for label in form.labels]
    without = contest.squares(base)
    axes = [
        Axis("friction", tuple(friction)),
        Axis("rotors", (Option("none"), Option("rotors", tuple(("rotor", j) for j in every)))),
        Axis(
            "offsets",
            (
                Option("none"),
                Option("offsets", offset),
                Option("offsets + drift", offset + tuple(("drift", j) for j in every)),
            ),
        ),
    ]
    for name, effect in (("coupling", "coupling"), ("elasticity", "compliance")):
        earned = tuple(label for label in wide.joints(effect) if contest.earns(without, [*base, label]))
        if effect == "compliance":
            earned = _positive(contest, base, earned)
        if earned:
            axes.append(
                Axis(name, (Option("none"), Option(f"{len(earned)} {_many(name, len(earned))}", earned)))
            )
    axes.append(Axis("base", (Option("level"), Option("tilted", (("tilt", EVERYWHERE),)))))
    if _late_everywhere(contest, base):
        axes.append(Axis("time", (Option("in step"), Option("delayed", (("delay", EVERYWHERE),)))))
    return axes


def _late_everywhere(contest: Contest, base: list[Label]) -> bool:
    """Whether every joint by itself shows a delay of one sign: friction that is missing looks like a delay, too."""
    lags = contest.wide.joints("lag")
    values = contest.board.values((*contest.fixed, *contest.wide.names([*base, *lags])))
    found = [values[name] for name in contest.wide.names(lags) if name in values]
    return bool(found) and (min(found) > 0 or max(found) < 0)


def _many(name: str, count: int) -> str:
    word = {"coupling": "coupled pair", "elasticity": "elastic joint"}[name]
    return word if count == 1 else word + "s"


def _positive(contest: Contest, base: list[Label], labels: tuple[Label, ...]) -> tuple[Label, ...]:
    """Compliances that come out positive together; a negative one stands for something else."""
    kept = labels
    while kept:
        values = contest.board.values((*contest.fixed, *contest.wide.names([*base, *kept])))
        good = tuple(
            label for label in kept if all(values.get(n, 0.0) > 0 for n in contest.wide.members[label])
        )
        if good == kept:
            break
        kept = good
    return kept


def _terms(robot: RobotModel, kept: Terms, trial: Trial, nominal: Nominal, origin: float) -> Terms:
    """The chosen options as terms; shapes are left open, to be sought with all joints together."""
    labels = {label for option in trial.options for label in option.labels}

    def on(*effects: str) -> tuple[str, ...] | None:
        """Names of the joints with one of these effects, () = all, None = none."""
        joints = sorted({j for effect, j in labels if effect in effects})
        return (
            None
            if not joints
            else ()
            if len(joints) == robot.n
            else tuple(robot.joint_names[j] for j in joints)
        )

    found: list[Term] = list(kept.terms)
    if on("rotor") is not None:
        found.append(RotorInertia())
    made: list[tuple[tuple[str, ...], Callable[[Names], Term]]] = [
        (("viscous",), lambda names: Viscous(joints=names)),
        (("coulomb",), lambda names: Coulomb(WIDTH, joints=names)),
        (("sides",), lambda names: AsymmetricCoulomb(WIDTH, joints=names)),
        (("cubic",), lambda names: PolynomialFriction((3,), joints=names)),
        *((_grid(name), partial(_of_shape, name)) for name in SHAPED),
        (("offset",), lambda names: Offset(joints=names)),
        (("drift",), lambda names: Drift(origin, joints=names)),
        (("compliance",), lambda names: Compliance(nominal.inertia, joints=names)),
    ]
    for effects, build in made:
        names = on(*effects)
        if names is not None:
            found.append(build(names))
    pairs = JointCoupling().pairs(robot)
    coupled = [pairs[i] for effect, i in sorted(labels) if effect == "coupling"]
    if coupled:
        names = robot.joint_names
        found.append(
            JointCoupling(tuple(names[j] for j, _ in coupled), tuple(names[k] for _, k in coupled), WIDTH)
        )
    if ("tilt", EVERYWHERE) in labels:
        found.append(GravityTilt(nominal.inertia))
    if ("delay", EVERYWHERE) in labels:
        found.append(TorqueDelay(nominal.inertia, nominal.drives))
    return Terms(tuple(found))


def _started(robot: RobotModel, terms: Terms, trial: Trial, wide: Superset) -> Terms:
    """The terms with the best shapes on the grid in place of open ones."""
    tried = {
        label: wide.shapes[label]
        for option in trial.options
        for label in option.labels
        if label in wide.shapes
    }
    made: list[Term] = []
    for term in terms:
        if isinstance(term, CurveTerm) and term.shapes and np.isnan(term.shape_table(robot)).any():
            name = next(name for name, (kind, _) in SHAPED.items() if kind.name == term.name)
            rows = [
                next(
                    shape for (effect, joint), shape in tried.items() if joint == j and effect in _grid(name)
                )
                for j in joint_indices(robot, term.joints)
            ]
            made.append(term.with_shape_table(np.array(rows)))
        else:
            made.append(term)
    return Terms(tuple(made))


def _grid(name: str) -> tuple[str, ...]:
    return tuple(f"{name}@{k}" for k in range(len(SHAPED[name][1])))


def _of_shape(name: str, joints: Names) -> Term:
    return on_joints(SHAPED[name][0], joints)
