"""The model of a log, chosen on held-out blocks: the robot's own effects, and faults that its log shows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import field, replace

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.diagnostics import Diagnostics
from dynid.base.numerics import student_quantile
from dynid.base.records import dataclass
from dynid.choose.comparison import NEGLIGIBLE, SCREEN, Axis, ForwardSelection, ModelComparison, Option
from dynid.choose.friction_forms import Form, chosen_form, joint_motions
from dynid.choose.search import LEAST_TO_COMPARE, Fit, Fitted, NonlinearFit, Search, is_open
from dynid.choose.selection import JointForm, MeasurementEffect, Selection, effects_left_out, options_in_words
from dynid.choose.wide_model import (
    KEPT,
    Label,
    WideModel,
    effect_name,
    found_effects,
    kept_terms,
    most_probable,
    nominal_model,
    plain_effects,
    wide_model,
    wide_regression,
)
from dynid.estimate.estimator import Estimate
from dynid.estimate.uncertainty import BlockScores, Intervals, covariance_of
from dynid.factor.factor import Factors, stack
from dynid.factor.folds import gain, why_none_held_out
from dynid.kernel import solve_triangular
from dynid.robot.model import RobotModel
from dynid.rows.elastic import ElasticRows
from dynid.signals.samples import Samples
from dynid.terms.curve import CurveTerm, shapes_of, with_shape_table
from dynid.terms.exports import EVERYWHERE, FRICTION, Dry, Extent, JointMotion, LogFacts, Role
from dynid.terms.forms import inner_term
from dynid.terms.nominal import Nominal, NominalTerm
from dynid.terms.term import Proposal, Term, Terms
from dynid.terms.transmission import terms_at_drives

# From the options that were chosen to the terms of a model.


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
        if started and isinstance(inner_term(term), CurveTerm) and shapes_of(term):
            term = with_shape_table(term, np.array([wide.shape(proposal, own[j], j) for j in places]))
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


# What the log adds to the robot, estimated beside the chosen model with intervals from blocks of time.

DEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class _Fit:
    index: Int
    value: Float
    half_width: Float


def estimate_effects(
    robot: RobotModel, comparison: ModelComparison, factors: Factors, first: Fitted, labels: Sequence[Label]
) -> tuple[MeasurementEffect, ...]:
    """Effects of the log, each beside the chosen model; a jackknife over blocks for each.

    labels: of the chosen model, from which a kind that it contains is taken. Relative sizes are relative to that of the
    first joint where the model does not hold the effect; some stand not beside but in place of others.
    """
    wide = comparison.wide.terms.columns(robot)
    place = {column.name: i for i, column in enumerate(wide)}
    weights = np.asarray(first.estimate.weights)
    found: list[MeasurementEffect] = []
    for effect in comparison.wide.proposals:
        if not effect.measured:
            continue
        own = comparison.wide.of(effect)
        if effect.relative:
            right = next((label for label in own if label not in labels), None)
            own = tuple(label for label in own if label != right)
        held = [label for label in labels if label[0] not in effect.instead_of]
        names = (*comparison.fixed, *comparison.wide.names(dict.fromkeys([*held, *own])))
        index = np.array(
            [place[comparison.regression.names[i]] for i in comparison.regression.index(names)],
            dtype=np.int64,
        )
        fit = _fit(factors, index, weights)
        by_column = dict(zip(fit.index.tolist(), zip(fit.value, fit.half_width, strict=True), strict=True))
        for label in own:
            for name in comparison.wide.members[label]:
                own_name = name.split(":", 1)[1]
                if place[name] in by_column and own_name not in effect.auxiliary:
                    value, half = by_column[place[name]]
                    found.append(
                        MeasurementEffect(
                            name=own_name,
                            kind=effect.label,
                            joint=_joint(robot, label),
                            unit=wide[place[name]].unit,
                            value=float(value),
                            half_width=float(half),
                            adopted=label in labels,
                            fault=effect.role is Role.LOG,
                        )
                    )
    return tuple(found)


def as_estimated(found: Sequence[MeasurementEffect], estimate: Estimate) -> tuple[MeasurementEffect, ...]:
    """Those that the model contains with the values and intervals of its final fit, the others as they are."""
    half = estimate.half_width()
    values = {
        estimate.columns[i].name: (float(estimate.value[k]), float(half[k]))
        for k, i in enumerate(estimate.base.independent)
    }
    return tuple(
        replace(one, value=values[one.name][0], half_width=values[one.name][1])
        if one.adopted and one.name in values
        else one
        for one in found
    )


def _joint(robot: RobotModel, label: Label) -> str:
    return "" if label[1] == EVERYWHERE else robot.joint_names[label[1]]


def _fit(factors: Factors, index: Int, weights: Float) -> _Fit:
    """Weighted least squares over some columns of wide factors, with 95 % half widths from the jackknife."""
    mask = np.zeros(factors.parameter_count, dtype=np.bool_)
    mask[index] = True
    # Of the sum, which all effects share: blocks are gone through once, for the columns that are independent.
    R = stack([factor.select(mask) for factor in factors.total], index, weights)
    size = np.linalg.norm(R[:-1, :-1], axis=0)
    good = np.abs(np.diag(R)[:-1]) > DEPENDENT * np.where(size > 0, size, np.inf)
    if not good.all():
        return _fit(factors, index[good], weights)
    b = len(index)
    inverse = solve_triangular(R[:b, :b], np.eye(b))
    value = inverse @ R[:b, b]
    theta = np.zeros(factors.parameter_count)
    theta[index] = value
    blocks = BlockScores.of(factors.select(mask), index, theta, inverse, weights)
    blocks = blocks.grouped(factors.independent())
    std = np.sqrt(np.diag(covariance_of(Intervals.JACKKNIFE, blocks)))
    return _Fit(index, value, float(student_quantile(blocks.count - 1, 0.975)) * std)


# Small effects linearised about the model that holds them, where a first fit without them was a rough
# guess.

ROUNDS = 3
# Steps within this share of the interval are of no account.
CLOSE = 0.1


def relinearised(
    robot: RobotModel, nonlinear: NonlinearFit, fitted: Fitted, nominal: Nominal, fit: Fit
) -> tuple[NonlinearFit, Fitted]:
    """The model fitted again until the effects that are linearised about a nominal model stay where they are.

    nominal: that which a choice of the model linearised about; terms with any other are left alone.
    A gain that is off by g is found off by g / (1 + g) about a model that took it for granted.
    """
    for _ in range(ROUNDS):
        found = nominal_model(robot, fitted.estimate, nominal)
        terms = _about(robot, nonlinear.terms, nominal, found, found_effects(fitted.estimate))
        if terms == nonlinear.terms:
            break
        again = fit(terms)
        step = _step(fitted, again)
        nonlinear, fitted, nominal = replace(nonlinear, terms=terms), again, found
        if step <= CLOSE:
            break
    return nonlinear, fitted


def _about(robot: RobotModel, terms: Terms, old: Nominal, new: Nominal, values: Mapping[str, float]) -> Terms:
    made: list[Term] = []
    for term in terms:
        if isinstance(term, NominalTerm) and term.inertia == old.inertia:
            term_now = replace(term, inertia=new.inertia, drives=new.drives if term.drives else ())
            made.append(term_now.near(robot, values))
        else:
            made.append(term)
    return Terms(tuple(made))


def _step(before: Fitted, after: Fitted) -> float:
    """Largest step of an effect that is linearised over its 95 % half width."""
    old, new = _effects(before), _effects(after)
    steps = [abs(new[name][0] - old[name][0]) / new[name][1] for name in new if name in old]
    return max((step for step in steps if np.isfinite(step)), default=0.0)


def _effects(fitted: Fitted) -> dict[str, tuple[float, float]]:
    """By name, value and half width of the linearised effects."""
    estimate = fitted.estimate
    own = {term.name for term in fitted.assembly.terms if term.traits.linearised}
    return {
        estimate.columns[i].name: (float(value), float(half))
        for i, value, half in zip(
            estimate.base.independent, estimate.value, estimate.half_width(), strict=True
        )
        if estimate.columns[i].term in own
    }


CHOOSE_MODEL_ROUNDS = 2
# Forms of friction on one joint: one of its reversals, one of its speeds, one of its load.
FORMS_A_JOINT = 3
# Share of the moving joints from which on a form of friction is one of the whole robot.
MOST_JOINTS = 0.5


@dataclass(frozen=True, eq=False)
class Chosen:
    """The model that was chosen and the comparison.

    terms: with open shapes where such a form of friction won.    start: the same terms at the best shapes tried.
    nominal: that its small effects are linearised about.    added: columns that each effect adds to a plain model.
    among_others: the choice once more without some effects; None where there was no choice.
    """

    terms: Terms
    start: Terms | None = None
    selection: Selection | None = None
    nominal: Nominal | None = None
    added: Mapping[Label, tuple[str, ...]] = field(default_factory=dict)
    among_others: Callable[[Collection[Label]], Chosen] | None = None

    def as_estimated(self, estimate: Estimate) -> Chosen:
        """With what the model holds of the log as its final fit has it."""
        if self.selection is None:
            return self
        measurement_effects = as_estimated(self.selection.measurement_effects, estimate)
        return replace(self, selection=replace(self.selection, measurement_effects=measurement_effects))

    def without_unsure(self, estimate: Estimate, diagnostics: Diagnostics) -> Chosen | None:
        """The choice without effects whose 95 % intervals hold zero in the final fit; None = all are sure.

        Such an effect gained its place on held-out blocks in place of something else that the model holds now.
        """
        limits = {
            estimate.columns[i].name: (float(value), float(half), estimate.columns[i].unit)
            for i, value, half in zip(
                estimate.base.independent, estimate.value, estimate.half_width(), strict=True
            )
        }
        gone = {
            label: [(name, *limits[name]) for name in names]
            for label, names in self.added.items()
            if names and all(name in limits and abs(limits[name][0]) <= limits[name][1] for name in names)
        }
        if not gone or self.among_others is None:
            return None
        diagnostics.note("effects-left-out", effects_left_out(gone))
        return self.among_others(gone)

    def report(self, diagnostics: Diagnostics) -> None:
        """Notes what was chosen, where there was a choice."""
        if self.selection is None:
            return
        chosen = options_in_words(self.selection.axes, self.selection.chosen.options)
        diagnostics.note("model", f"{self.selection.compared} models compared on held-out blocks: {chosen}")


def choose_model(terms: Terms, search: Search, diagnostics: Diagnostics) -> Chosen:
    """Chooses a model around some terms by its errors on held-out blocks.

    Rotor inertia and plain friction among the terms are put to the test; all others stay. One fit of a plain model
    gives the weights of the joints and the torque that delay, tilt and elasticity are linearised about; then the log is
    worked through once with every column that any candidate has, and all candidates are fitted and scored on what is
    left of it. What the log shows is added first, faults beside forms of friction that imitate them; friction is
    chosen beside those faults, or all but a delay, and then all options in all combinations. Deterministic. A log too
    short to hold blocks out keeps the terms it came with.
    """
    robot = search.robot
    kept = kept_terms(terms)
    plain = plain_effects(robot, kept)
    first = search.fit(Terms((*kept.terms, *(one.build(tuple(range(robot.n))) for one in plain))))
    if not search.can_compare(first):
        diagnostics.warn(
            "too-short-to-choose",
            f"{_too_short(len(first.factors.blocks))}: the default model is kept",
        )
        return Chosen(terms_at_drives(robot, terms))
    motion = joint_motions(search, first)
    wide_fit = _WideFit.of(first, kept, search, first, motion)
    tried = wide_fit.comparison.wide.members
    plain_labels = tuple(
        label
        for one in plain
        for label in dict.fromkeys((one.label, place) for place in one.places)
        if label in tried
    )
    shown = ForwardSelection(wide_fit.comparison, plain_labels).found()
    for _ in range(CHOOSE_MODEL_ROUNDS):
        # About a model that took a fault for granted, faults are found off in size, and beside what they left askew.
        faults = wide_fit.linearised(shown)
        if not faults:
            break
        about = terms_of(kept, (*plain_labels, *faults), wide_fit.comparison.wide)
        _, fitted = relinearised(
            robot, NonlinearFit(about, {}), search.fit(about), wide_fit.nominal, search.fit
        )
        wide_fit = _WideFit.of(fitted, kept, search, first, motion)
        before, shown = faults, ForwardSelection(wide_fit.comparison, plain_labels).found()
        if set(before) == set(wide_fit.linearised(shown)):
            break
    comparison = wide_fit.comparison
    base = (*plain_labels, *(label for label in shown if comparison.wide.role(label) is Role.LOG))
    base, forms = _friction_beside_faults(comparison, base, search)

    def among(shown: Sequence[Label], forms: dict[int, Option]) -> Chosen:
        wide = comparison.wide
        trial, selection = comparison.best(_axes(wide, forms, (*plain_labels, *shown)))
        chosen = [label for option in trial.options for label in option.labels]
        effects = estimate_effects(robot, comparison, wide_fit.factors, wide_fit.fitted, chosen)
        friction = _joint_forms(comparison, base, forms)
        return Chosen(
            terms_of(kept, chosen, wide),
            None if is_open(kept) else terms_of(kept, chosen, wide, started=True),
            replace(selection, friction=friction, measurement_effects=effects),
            wide_fit.nominal,
            {label: wide.adds(label) for label in chosen if label not in plain_labels},
            lambda gone: among([label for label in shown if label not in gone], _without(wide, forms, gone)),
        )

    return among(shown, forms)


def _without(wide: WideModel, forms: Mapping[int, Option], gone: Collection[Label]) -> dict[int, Option]:
    """Forms of friction by joint without some effects; joints of plain friction are left out."""
    kept = {joint: [label for label in form.labels if label not in gone] for joint, form in forms.items()}
    return {joint: _option(wide, labels, joint) for joint, labels in kept.items() if labels}


def _too_short(blocks: int) -> str:
    if blocks >= LEAST_TO_COMPARE:
        return why_none_held_out(blocks)
    return f"{blocks} blocks of data are too few to compare models on, which takes {LEAST_TO_COMPARE}"


@dataclass(frozen=True, eq=False)
class _WideFit:
    """Every column that any candidate has, linearised about a fit, and the comparison of them.

    factors: of the wide model.    nominal: the fit's model.
    """

    fitted: Fitted
    nominal: Nominal
    factors: Factors
    comparison: ModelComparison

    @staticmethod
    def of(
        fitted: Fitted, kept: Terms, search: Search, plain: Fitted, motion: tuple[JointMotion, ...]
    ) -> _WideFit:
        """About a fit whose terms begin with the kept ones.    plain: the first fit.    motion: of the joints."""
        robot, probable = search.robot, most_probable(fitted, search.prior)
        nominal = nominal_model(robot, probable)
        log = LogFacts(
            nominal.inertia,
            nominal.drives,
            found_effects(fitted.estimate),
            motion,
            min(block.start for block in plain.factors.blocks),
            max(block.end for block in plain.factors.blocks),
            isinstance(plain.assembly.rows, ElasticRows),
            search.slowness,
        )
        wide = wide_model(robot, kept, log)
        factors, regression = wide_regression(wide, fitted, probable, search)
        return _WideFit(fitted, nominal, factors, ModelComparison(regression, wide, wide.members[KEPT]))

    def linearised(self, labels: Sequence[Label]) -> list[Label]:
        """Those effects of the log that are linear about the nominal model alone."""
        found = [(label, self.comparison.wide.proposal(label)) for label in labels]
        return [label for label, one in found if one.role is Role.LOG and one.variants[0].traits.linearised]


def _friction_beside_faults(
    comparison: ModelComparison, base: tuple[Label, ...], search: Search
) -> tuple[tuple[Label, ...], dict[int, Option]]:
    """Forms of friction chosen beside the faults of the log, and these; beside no delay where that predicts more.

    A delay of all joints is one effect, which gains more at once than a form of friction on one of them does: it may
    have joined first and kept out what it imitates. It stays among the options that are then combined.
    """
    beside = _friction_by_joint(comparison, base, search)
    in_step = tuple(label for label in base if not comparison.wide.proposal(label).alike)
    if in_step == base:
        return base, beside
    alone = _friction_by_joint(comparison, in_step, search)
    models = [
        _with_form(comparison.wide, labels, *forms.values())
        for labels, forms in ((base, beside), (in_step, alone))
    ]
    delayed, prompt = comparison.friction_squares(models).sum(axis=1)
    return (in_step, alone) if prompt < delayed else (base, beside)


def _friction_by_joint(
    comparison: ModelComparison, base: Sequence[Label], search: Search
) -> dict[int, Option]:
    """By joint, the form of friction that earned its place there; joints that plain friction suits are left out.

    base: plain friction and the faults of the log, which a form of friction would imitate otherwise.
    """
    found: dict[int, Option] = {}
    for j in np.flatnonzero(search.moved).tolist():
        forms = _forms_of_joint(comparison, base, j)
        if forms.labels:
            found[j] = forms
    found = _shared(comparison, base, found, search)
    found = _worthwhile(comparison, base, found)
    # Many forms were tried, of which some gain a standard error by chance: together they have to gain more.
    together = _with_form(comparison.wide, base, *found.values())
    return found if comparison.earns(comparison.friction_squares([base])[0], together) else {}


def _shared(
    comparison: ModelComparison, base: Sequence[Label], forms: dict[int, Option], search: Search
) -> dict[int, Option]:
    """Forms of friction with those that most joints have earned on the others, too, where these gain by them.

    Gears of one make have one kind of friction. What most joints have shown to be there beyond chance need not be
    proven on each: there its gain has to be worth having, and may be chance.
    """
    wide, moving = comparison.wide, np.flatnonzero(search.moved).tolist()
    own = {j: [wide.proposal(label).label for label in form.labels] for j, form in forms.items()}
    counts = Counter(name for names in own.values() for name in names)
    for name in sorted(counts, key=lambda one: (-counts[one], one)):
        if not counts[name] > MOST_JOINTS * len(moving):
            continue
        for j in (j for j in moving if name not in own.get(j, ())):
            held = forms.get(j, Option("plain"))
            rest = [form for k, form in forms.items() if k != j]
            offered = next((one for one in _forms(wide, held, j) if one.label == name), None)
            if offered is None or len(held.labels) >= FORMS_A_JOINT:
                continue
            tried = (held, *_tried(comparison, held, offered, j))
            models = [_with_form(wide, base, *rest, one) for one in tried]
            missed = comparison.friction_squares(models).sum(axis=1)
            best = int(np.argmin(missed))
            if (1.0 + NEGLIGIBLE) * missed[best] < missed[0]:
                forms = {**forms, j: tried[best]}
    return forms


def _worthwhile(
    comparison: ModelComparison, base: Sequence[Label], forms: dict[int, Option]
) -> dict[int, Option]:
    """Forms of friction without those whose gains together are negligible, the least first.

    One of several on a joint is left out, too. A longer log is surer of a small gain, and no reason for another model.
    """

    def missed(options: Sequence[dict[int, Option]]) -> Float:
        models = [_with_form(comparison.wide, base, *own.values()) for own in options]
        return np.asarray(comparison.friction_squares(models).sum(axis=1))

    enough = (1.0 + NEGLIGIBLE) * float(missed([forms])[0])
    while forms:
        fewer = [
            {j: form for j, form in {**forms, joint: less}.items() if form.labels}
            for joint in forms
            for less in _without_one(comparison.wide, forms[joint], joint)
        ]
        left = missed(fewer)
        least = int(np.argmin(left))
        if not left[least] <= enough:
            break
        forms = fewer[least]
    return forms


def _without_one(wide: WideModel, form: Option, joint: int) -> list[Option]:
    """A joint's forms of friction without one of them each."""
    return [_option(wide, [label for label in form.labels if label != gone], joint) for gone in form.labels]


def _option(wide: WideModel, labels: Sequence[Label], joint: int) -> Option:
    """Option that combines forms of friction of a joint; plain friction if there are none."""
    held = [wide.proposal(label) for label in labels]
    name = " + ".join(form.label for form in held) if held else "plain"
    return Option(name, tuple(labels), sum(wide.shape(form, 0, joint).size for form in held))


def _forms_of_joint(comparison: ModelComparison, base: Sequence[Label], joint: int) -> Option:
    """The form that earned its place on a joint, and those beside it; plain friction where none did.

    What turns round at a reversal, what bends with speed and what grows with the load are three effects, so that a form
    may join others that do not stand in the same place. It then has to gain as surely as any effect that is added.
    """
    wide, counts, held = comparison.wide, comparison.regression.counts, Option("plain")
    for _ in range(FORMS_A_JOINT):
        options = [(held,), *(_tried(comparison, held, one, joint) for one in _forms(wide, held, joint))]
        forms = [
            Form(
                one.name,
                len(wide.names(one.labels)) + one.shapes - len(wide.names(wide.replaced(one.labels))),
                tuple(tuple(_with_form(wide, base, shaped)) for shaped in tried),
            )
            for tried in options
            for one in tried[:1]
        ]
        judged, shape = chosen_form(comparison, forms)
        share, std = gain(judged.candidates[0].squares, judged.winner.squares, counts)
        if judged.chosen == 0 or (held.labels and share <= SCREEN * std):
            break
        held = options[judged.chosen][shape]
    return held


def _forms(wide: WideModel, held: Option, joint: int) -> list[Proposal]:
    """Forms of friction of a joint that can stand beside those held, one of which may bend with speed at most."""
    own = [wide.proposal(label) for label in held.labels]
    taken = {name for one in own for name in one.replaces}
    bent = any(_bends(one) for one in own)
    return [
        one
        for one in wide.proposals
        if one.role is Role.FRICTION
        and joint in one.places
        and (effect_name(one, 0), joint) in wide.members
        and one not in own
        and not taken & set(one.replaces)
        and not (bent and _bends(one))
    ]


def _bends(form: Proposal) -> bool:
    term = form.variants[0]
    return term.traits.dry is Dry.NO


def _with_form(wide: WideModel, labels: Sequence[Label], *forms: Option) -> list[Label]:
    """Effects with forms of friction among them, in place of the plain friction that these replace."""
    added = [label for form in forms for label in form.labels]
    gone = set(wide.replaced(added))
    return [*(label for label in labels if label not in gone), *added]


def _joint_forms(
    comparison: ModelComparison, base: Sequence[Label], forms: dict[int, Option]
) -> tuple[JointForm, ...]:
    wide, without = comparison.wide, comparison.friction_squares([base])[0]
    return tuple(
        JointForm(
            wide.robot.joint_names[j], form.name, *comparison.gain(without, _with_form(wide, base, form))
        )
        for j, form in forms.items()
    )


def _tried(comparison: ModelComparison, held: Option, form: Proposal, joint: int) -> tuple[Option, ...]:
    """A form of friction beside those held, at the shapes that were written down."""
    shapes = held.shapes + comparison.wide.shape(form, 0, joint).size
    name = f"{held.name} + {form.label}" if held.labels else form.label
    return tuple(
        Option(name, (*held.labels, (effect_name(form, k), joint)), shapes) for k in range(len(form.variants))
    )


def _axes(wide: WideModel, forms: dict[int, Option], shown: Sequence[Label]) -> list[Axis]:
    """What is combined, friction first: each answer of a question holds the effects of those before it and one more.

    shown: plain effects, and those that the log shows; options that nothing speaks for are left out.
    """
    found: dict[str, list[Option]] = {}
    effects = {one.label: one for one in wide.proposals}
    for effect in sorted(effects.values(), key=lambda one: one.question.name != FRICTION.name):
        if effect.role in (Role.FRICTION, Role.SHIELD):
            continue
        answers = found.setdefault(effect.question.name, [Option(effect.question.without)])
        labels = tuple(sorted(label for label in shown if label[0] == effect.label))
        if labels:
            name = effect.option_at(wide.robot, [place for _, place in labels])
            before = f"{answers[-1].name} + " if len(answers) > 1 else ""
            answers.append(Option(before + name, answers[-1].labels + labels))
    # Every drive has dry and viscous friction. A motion too poor to show them is no reason to leave them out, which
    # would be paid for on any other motion.
    own, whole = found[FRICTION.name], len(found[FRICTION.name][-1].labels)
    own[:-1] = [replace(one, without=whole - len(one.labels) + 1) for one in own[:-1]]
    if forms:
        by_joint = tuple(_with_form(wide, own[-1].labels, *forms.values()))
        own.append(Option("by joint", by_joint, sum(form.shapes for form in forms.values())))
    # Of models that are the same to the last digit the first is taken: a rotor that turns with a carriage weighs as it
    # does, and without it the carriage would be as heavy as both.
    for question in {one.question for one in effects.values() if one.question.certain}:
        found[question.name].reverse()
    return [Axis(name, tuple(options)) for name, options in found.items() if len(options) > 1]
