"""The model of a log, chosen on held-out blocks: the robot's own effects, and faults that its log shows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from dynid.base.diagnostics import Diagnostics
from dynid.choose.build import started, terms_of
from dynid.choose.comparison import Axis, ModelComparison, Option
from dynid.choose.findings import options_in_words
from dynid.choose.fit_nonlinear import LEAST_TO_COMPARE, Fitted, NonlinearFit, Search, is_open
from dynid.choose.forward_selection import Pursuit
from dynid.choose.measurement_effects import as_estimated, estimate_nuisance
from dynid.choose.relinearise import about_itself
from dynid.choose.selection import JointForm, Selection
from dynid.choose.subset_regression import SubsetRegression
from dynid.choose.wide_model import (
    EVERYWHERE,
    FAULTS,
    SHAPED,
    Label,
    Superset,
    found_delays,
    kept_terms,
    nominal_model,
    superset,
)
from dynid.estimate.estimator import Estimate
from dynid.factor.comparison import Candidate, compare
from dynid.factor.factor import Factors
from dynid.factor.folds import folds_of
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.terms.elastic import SpinningRotor
from dynid.terms.friction import Coulomb, Offset, Viscous
from dynid.terms.friction_choice import WIDTH
from dynid.terms.measurement_effects import Nominal
from dynid.terms.rotor import RotorInertia
from dynid.terms.term import Terms

LINEARISED = ("delay", "lag", "gain", "tilt")
ROUNDS = 2


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that was chosen and the comparison.

    terms: with open shapes where such a form of friction won.    start: the same terms at the best shapes tried.
    nominal: that its small effects are linearised about.
    """

    terms: Terms
    start: Terms | None = None
    selection: Selection | None = None
    nominal: Nominal | None = None

    def as_estimated(self, estimate: Estimate) -> Chosen:
        """With what the model holds of the log as its final fit has it."""
        if self.selection is None:
            return self
        nuisance = as_estimated(self.selection.nuisance, estimate)
        return replace(self, selection=replace(self.selection, nuisance=nuisance))


def choose_model(terms: Terms, search: Search, diagnostics: Diagnostics) -> Chosen:
    """Chooses a model around some terms by its errors on held-out blocks.

    Rotor inertia and plain friction among the terms are put to the test; all others stay. One fit of a plain model
    gives the weights of the joints and the torque that delay, tilt and elasticity are linearised about; then the log is
    worked through once with every column that any candidate has, and all candidates are fitted and scored on what is
    left of it. What the log shows is pursued first, faults beside forms of friction that imitate them; friction is
    chosen beside those faults, and then all options in all combinations. Deterministic. A log too short to hold blocks
    out keeps the terms it came with.
    """
    robot = search.robot
    kept = kept_terms(terms)
    rotors = () if _knows_rotors(kept) else (RotorInertia(),)
    first = search.fit(Terms((*kept.terms, *rotors, Viscous(), Coulomb(WIDTH), Offset())))
    if not search.can_compare(first):
        diagnostics.warn(
            "too-short-to-choose",
            f"{len(first.factors.blocks)} blocks of data are too few to compare models on, which takes "
            f"{LEAST_TO_COMPARE}: the default model is kept",
        )
        return Chosen(terms)
    desk = _Desk.of(first, kept, search, first)
    plain_labels = _plain(robot, kept)
    shown = Pursuit(desk.contest, plain_labels).found()
    for _ in range(ROUNDS):
        # About a model that took a fault for granted, faults are found off in size, and beside what they left askew.
        faults = [label for label in shown if label[0] in LINEARISED]
        if not faults:
            break
        about = terms_of(robot, kept, (*plain_labels, *faults), desk.nominal, desk.origin)
        _, fitted = about_itself(robot, NonlinearFit(about, {}), search.fit(about), desk.nominal, search.fit)
        desk = _Desk.of(fitted, kept, search, first)
        before, shown = faults, Pursuit(desk.contest, plain_labels).found()
        if set(before) == {label for label in shown if label[0] in LINEARISED}:
            break
    contest = desk.contest
    base = (*plain_labels, *(label for label in shown if label[0] in FAULTS))
    forms = _friction_by_joint(contest, base, search)
    trial, selection = contest.best(_axes(contest, forms, (*plain_labels, *shown), robot))
    chosen = [label for option in trial.options for label in option.labels]
    selection = replace(
        selection,
        friction=_joint_forms(contest, base, forms, robot),
        nuisance=estimate_nuisance(robot, contest, desk.factors, desk.fitted, chosen),
    )
    found = terms_of(robot, kept, chosen, desk.nominal, desk.origin)
    start = None if is_open(kept) else started(robot, found, chosen, contest.wide)
    diagnostics.note(
        "model",
        f"{selection.compared} models compared on held-out blocks: "
        + options_in_words(selection.axes, selection.chosen.options),
    )
    return Chosen(found, start, selection, desk.nominal)


@dataclass(frozen=True, eq=False)
class _Desk:
    """Every column that any candidate has, linearised about a fit, and the contest among them.

    factors: of the wide model.    nominal: the fit's model.    origin: of drift, s.
    """

    fitted: Fitted
    nominal: Nominal
    origin: float
    factors: Factors
    contest: ModelComparison

    @staticmethod
    def of(fitted: Fitted, kept: Terms, search: Search, plain: Fitted) -> _Desk:
        """About a fit whose terms begin with the kept ones.    plain: the fit that shapes of friction are tried on."""
        robot = search.robot
        nominal = nominal_model(robot, fitted.estimate)
        bench = search.separable(plain)
        origin = plain.factors.blocks[0].start
        motion = [bench.motion(j) for j in range(robot.n)]
        elastic = isinstance(plain.assembly.rows, ElasticRows)
        late = found_delays(fitted.estimate)
        wide = superset(robot, kept, nominal, late, motion, origin, wide=not elastic)
        factors, regression = _wide_regression(wide, fitted, search)
        return _Desk(
            fitted,
            nominal,
            origin,
            factors,
            ModelComparison(regression, wide, wide.members["kept", EVERYWHERE]),
        )


def _wide_regression(wide: Superset, fitted: Fitted, search: Search) -> tuple[Factors, SubsetRegression]:
    """Factors of the wide model, and regressions on subsets of their columns.

    Of the columns that every candidate has those stay that any motion can tell apart; the others are few, and which of
    them depend on which is a matter of the log: random states would not show what has a memory.
    """
    robot, assembly = search.robot, fitted.assembly
    alive = np.concatenate([term.alive(robot, search.moved) for term in wide.terms])
    wanted = np.array(alive)
    common = len(wide.members["kept", EVERYWHERE])
    wanted[:common] &= fitted.structural.mask[:common]
    lines = sum(len(f.columns) + 1 for f in fitted.factors.total) + robot.n * int(wanted[common:].sum())
    made = replace(assembly, terms=wide.terms, wanted=wanted)
    factors = made.factors(search.within_memory(fitted, lines), search.threads)
    names = [column.name for column in wide.terms.columns(robot)]
    weights = np.asarray(fitted.estimate.weights)
    columns, folds = np.flatnonzero(wanted), folds_of(factors, search.folds)
    return factors, SubsetRegression.of(factors, names, columns, weights, folds)


def _knows_rotors(kept: Terms) -> bool:
    # Rotors that spin on moving links are in every candidate, where they were asked for.
    return any(isinstance(term, SpinningRotor) for term in kept)


def _plain(robot: RobotModel, kept: Terms) -> tuple[Label, ...]:
    effects: tuple[str, ...] = ("viscous", "coulomb", "offset")
    effects = effects if _knows_rotors(kept) else ("rotor", *effects)
    return tuple((effect, j) for effect in effects for j in range(robot.n))


def _friction_by_joint(contest: ModelComparison, base: Sequence[Label], search: Search) -> dict[int, Option]:
    """By joint, the form of friction that earned its place there; joints that plain friction suits are left out.

    base: plain friction and the faults of the log, which a form of friction would imitate otherwise.
    """
    without = contest.squares(base)
    found: dict[int, Option] = {}
    for j in np.flatnonzero(search.moved).tolist():
        others = [label for label in base if label != ("coulomb", j)]
        forms = [
            Option("sides", (("sides", j),)),
            Option("cubic", (("coulomb", j), ("cubic", j))),
            *(_best_shape(contest, others, name, j) for name in SHAPED),
        ]
        scored = [
            Candidate(
                form.name,
                len(contest.wide.names(form.labels)) + form.shapes,
                contest.squares([*others, *form.labels]),
            )
            for form in forms
        ]
        result = compare(scored, contest.regression.counts)
        if contest.earns(without, [*others, *forms[result.best].labels], 1.0):
            found[j] = forms[result.chosen]
    return found


def _joint_forms(
    contest: ModelComparison, base: Sequence[Label], forms: dict[int, Option], robot: RobotModel
) -> tuple[JointForm, ...]:
    without = contest.squares(base)
    return tuple(
        JointForm(
            robot.joint_names[j],
            form.name,
            *contest.gain(without, [*(label for label in base if label != ("coulomb", j)), *form.labels]),
        )
        for j, form in forms.items()
    )


def _best_shape(contest: ModelComparison, others: list[Label], name: str, joint: int) -> Option:
    """A form of friction at the best of the shapes that were written down."""
    with_coulomb = [("coulomb", joint)] if name == "stribeck" else []
    options = []
    for effect in dict.fromkeys(label for label, _ in contest.wide.shapes if label.startswith(f"{name}@")):
        labels = (*with_coulomb, (effect, joint))
        options.append((float(contest.squares([*others, *labels]).sum()), Option(name, labels, shapes=1)))
    return min(options, key=lambda pair: pair[0])[1]


def _axes(
    contest: ModelComparison, forms: dict[int, Option], shown: Sequence[Label], robot: RobotModel
) -> list[Axis]:
    """What is combined: options that nothing speaks for are left out.

    shown: plain effects, and those that the log shows.
    """
    every = range(robot.n)

    def of(effect: str) -> tuple[Label, ...]:
        return tuple(sorted(label for label in shown if label[0] == effect))

    offset = tuple(("offset", j) for j in every)
    offsets = [Option("none"), Option("offsets", offset)]
    if drifts := of("drift"):
        offsets.append(Option(f"offsets + drift{_where(robot, drifts)}", offset + drifts))
    axes = [
        Axis("friction", _friction(forms, robot)),
        _with("rotors", "none", "rotors", of("rotor")),
        Axis("offsets", tuple(offsets)),
        _with("coupling", "none", _counted("coupled pair", of("coupling")), of("coupling")),
        _with("elasticity", "none", _counted("elastic joint", of("compliance")), of("compliance")),
        _with("base", "level", "tilted", of("tilt")),
        _with("time", "in step", "delayed" + _where(robot, of("lag")), (*of("delay"), *of("lag"))),
        _with("gains", "as logged", "off" + _where(robot, of("gain")), of("gain")),
    ]
    return [axis for axis in axes if len(axis.options) > 1]


def _friction(forms: dict[int, Option], robot: RobotModel) -> tuple[Option, ...]:
    every = range(robot.n)
    viscous = tuple(("viscous", j) for j in every)
    coulomb = tuple(("coulomb", j) for j in every)
    plain = (Option("none"), Option("viscous", viscous), Option("viscous + coulomb", viscous + coulomb))
    if not forms:
        return plain
    labels = viscous + tuple(("coulomb", j) for j in every if j not in forms)
    labels += tuple(label for form in forms.values() for label in form.labels)
    return (*plain, Option("by joint", labels, sum(form.shapes for form in forms.values())))


def _with(axis: str, without: str, name: str, labels: tuple[Label, ...]) -> Axis:
    """An axis of some effects, all or none."""
    return Axis(axis, (Option(without), Option(name, labels)) if labels else (Option(without),))


def _counted(word: str, labels: tuple[Label, ...]) -> str:
    return f"{len(labels)} {word}{'' if len(labels) == 1 else 's'}"


def _where(robot: RobotModel, labels: tuple[Label, ...]) -> str:
    """On which joints, in words."""
    return " on " + ", ".join(robot.joint_names[j] for _, j in labels) if labels else ""
