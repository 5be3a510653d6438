"""Choice of a model by cross-validation over blocks: effects of the robot, and faults of the log."""

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

# Terms of the chosen options.


def terms_of(kept: Terms, effects: Iterable[Label], wide: WideModel, started: bool = False) -> Terms:
    """Return the terms of a model with the kept terms and the chosen effects.

    If `started` is True, shapes have their best tried values; otherwise they remain to be estimated for all joints
    together.
    """
    labels = set(effects)
    chosen_terms: list[Term] = list(kept.terms)
    for proposal in wide.proposals:
        variants = dict(wide.tried(proposal, labels))
        if not variants:
            continue
        places = tuple(sorted(variants))
        term = proposal.build(places)
        if started and isinstance(inner_term(term), CurveTerm) and shapes_of(term):
            term = with_shape_table(term, np.array([wide.shape(proposal, variants[j], j) for j in places]))
        chosen_terms.append(term)
    return Terms(tuple(chosen_terms))


def within_extent(terms: Terms, robot: RobotModel, batches: Iterable[Samples]) -> Terms:
    """Pass the ranges of velocity and position in the samples to the terms that need them."""
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


# Effects of the log, estimated together with the chosen model, with intervals from blocks of time.

# Columns below this relative distance from the others are dependent.
DEPENDENT = 1e-6


@dataclass(frozen=True, eq=False)
class _Fit:
    index: Int
    value: Float
    half_width: Float


def estimate_effects(
    robot: RobotModel, comparison: ModelComparison, factors: Factors, first: Fitted, labels: Sequence[Label]
) -> tuple[MeasurementEffect, ...]:
    """Estimate each effect of the log together with the chosen model, with intervals from a jackknife over blocks.

    Relative effects, such as drive gains, are relative to the first joint for which the model does not contain the
    effect. An effect that replaces others is estimated without these.
    """
    wide = comparison.wide.terms.columns(robot)
    place = {column.name: i for i, column in enumerate(wide)}
    weights = np.asarray(first.estimate.weights)
    effects: list[MeasurementEffect] = []
    for effect in comparison.wide.proposals:
        if not effect.measured:
            continue
        effect_labels = comparison.wide.of(effect)
        if effect.relative:
            right = next((label for label in effect_labels if label not in labels), None)
            effect_labels = tuple(label for label in effect_labels if label != right)
        kept_labels = [label for label in labels if label[0] not in effect.instead_of]
        names = (*comparison.fixed, *comparison.wide.names(dict.fromkeys([*kept_labels, *effect_labels])))
        index = np.array(
            [place[comparison.regression.names[i]] for i in comparison.regression.index(names)],
            dtype=np.int64,
        )
        fit = _fit(factors, index, weights)
        by_column = dict(zip(fit.index.tolist(), zip(fit.value, fit.half_width, strict=True), strict=True))
        for label in effect_labels:
            for name in comparison.wide.members[label]:
                own_name = name.split(":", 1)[1]
                if place[name] in by_column and own_name not in effect.auxiliary:
                    value, half = by_column[place[name]]
                    effects.append(
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
    return tuple(effects)


def as_estimated(effects: Sequence[MeasurementEffect], estimate: Estimate) -> tuple[MeasurementEffect, ...]:
    """Update the effects that the model contains with the values and intervals of its final fit."""
    half = estimate.half_width()
    values = {
        estimate.columns[i].name: (float(estimate.value[k]), float(half[k]))
        for k, i in enumerate(estimate.base.independent)
    }
    return tuple(
        replace(effect, value=values[effect.name][0], half_width=values[effect.name][1])
        if effect.adopted and effect.name in values
        else effect
        for effect in effects
    )


def _joint(robot: RobotModel, label: Label) -> str:
    return "" if label[1] == EVERYWHERE else robot.joint_names[label[1]]


def _fit(factors: Factors, index: Int, weights: Float) -> _Fit:
    """Weighted least squares over some columns of the wide factors, with 95 % half-widths from the jackknife."""
    mask = np.zeros(factors.parameter_count, dtype=np.bool_)
    mask[index] = True
    # Find independent columns from the sum over blocks, so that the blocks are processed only once.
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


# Repeated linearisation of small effects about the fitted model, because the first fit without them is only
# approximate.

# Most repetitions of the linearisation.
ROUNDS = 3
# The linearisation has converged if all steps are below this share of the half-width.
CLOSE = 0.1


def relinearised(
    robot: RobotModel, nonlinear: NonlinearFit, fitted: Fitted, nominal: Nominal, fit: Fit
) -> tuple[NonlinearFit, Fitted]:
    """Repeat the fit until the effects that are linearised about a nominal model no longer change.

    A gain error g appears as g / (1 + g) if the nominal model ignores it. `nominal` is the nominal model used so far;
    terms with another nominal model do not change.
    """
    for _ in range(ROUNDS):
        new_nominal = nominal_model(robot, fitted.estimate, nominal)
        terms = _about(robot, nonlinear.terms, nominal, new_nominal, found_effects(fitted.estimate))
        if terms == nonlinear.terms:
            break
        again = fit(terms)
        step = _step(fitted, again)
        nonlinear, fitted, nominal = replace(nonlinear, terms=terms), again, new_nominal
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
    """Largest step of a linearised effect, relative to its 95 % half-width."""
    old, new = _effects(before), _effects(after)
    steps = [abs(new[name][0] - old[name][0]) / new[name][1] for name in new if name in old]
    return max((step for step in steps if np.isfinite(step)), default=0.0)


def _effects(fitted: Fitted) -> dict[str, tuple[float, float]]:
    """Value and half-width of each linearised effect, by name."""
    estimate = fitted.estimate
    linearised = {term.name for term in fitted.assembly.terms if term.traits.linearised}
    return {
        estimate.columns[i].name: (float(value), float(half))
        for i, value, half in zip(
            estimate.base.independent, estimate.value, estimate.half_width(), strict=True
        )
        if estimate.columns[i].term in linearised
    }


# Most repetitions of the choice with linearisation about the faults that it finds.
CHOOSE_MODEL_ROUNDS = 2
# Most friction forms per joint: for reversals, for speed and for load.
FORMS_A_JOINT = 3
# A friction form on more than this share of the moving joints is tried on all joints.
MOST_JOINTS = 0.5


@dataclass(frozen=True, eq=False)
class Chosen:
    """The chosen model and the comparison.

    Attributes
    ----------
    terms : Terms
        Terms of the model; shapes of friction forms are still to be estimated.
    start : Terms or None
        The same terms with the best tried shapes.
    selection : Selection or None
        The comparison; None without a choice.
    nominal : Nominal or None
        Nominal model of the linearised effects.
    added : mapping of Label to tuple of str
        Columns that each effect adds to a plain model.
    among_others : callable or None
        Repeats the choice without some effects; None without a choice.

    """

    terms: Terms
    start: Terms | None = None
    selection: Selection | None = None
    nominal: Nominal | None = None
    added: Mapping[Label, tuple[str, ...]] = field(default_factory=dict)
    among_others: Callable[[Collection[Label]], Chosen] | None = None

    def as_estimated(self, estimate: Estimate) -> Chosen:
        """Copy with the log's effects updated from the final fit."""
        if self.selection is None:
            return self
        measurement_effects = as_estimated(self.selection.measurement_effects, estimate)
        return replace(self, selection=replace(self.selection, measurement_effects=measurement_effects))

    def without_unsure(self, estimate: Estimate, diagnostics: Diagnostics) -> Chosen | None:
        """Repeat the choice without effects whose 95 % interval in the final fit contains zero; None if there are none.

        Such an effect improved the held-out error because it imitated an effect that the model now contains.
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
        """Note the chosen options if there was a choice."""
        if self.selection is None:
            return
        chosen = options_in_words(self.selection.axes, self.selection.chosen.options)
        diagnostics.note("model", f"{self.selection.compared} models compared on held-out blocks: {chosen}")


def choose_model(terms: Terms, search: Search, diagnostics: Diagnostics) -> Chosen:
    """Choose a model by its errors on held-out blocks.

    Rotor inertia and plain friction among the given terms are optional; all other terms stay. A fit of the plain model
    gives the weights of the joints and the nominal torque for the linearised effects (delay, tilt, elasticity). A
    single pass over the log computes factors for the columns of all candidates, which are then fitted and scored from
    these factors. First, forward selection finds the effects that the log shows, where faults compete with friction
    forms that imitate them. Then friction forms are chosen together with these faults, with or without a common delay.
    Finally, all combinations of options are compared. The result is deterministic. If the log is too short for held-out
    blocks, the given terms stay.
    """
    robot = search.robot
    kept = kept_terms(terms)
    plain = plain_effects(robot, kept)
    first = search.fit(Terms((*kept.terms, *(effect.build(tuple(range(robot.n))) for effect in plain))))
    if not search.can_compare(first):
        diagnostics.warn(
            "too-short-to-choose",
            f"{_too_short(len(first.factors.blocks))}: the default model is used",
        )
        return Chosen(terms_at_drives(robot, terms))
    motion = joint_motions(search, first)
    wide_fit = _WideFit.of(first, kept, search, first, motion)
    tried = wide_fit.comparison.wide.members
    plain_labels = tuple(
        label
        for effect in plain
        for label in dict.fromkeys((effect.label, place) for place in effect.places)
        if label in tried
    )
    shown = ForwardSelection(wide_fit.comparison, plain_labels).found()
    for _ in range(CHOOSE_MODEL_ROUNDS):
        # If the nominal model ignores a fault, the estimated size of faults is biased, and so are other effects.
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
    """Friction forms per joint without some effects; joints with plain friction are omitted."""
    kept = {joint: [label for label in form.labels if label not in gone] for joint, form in forms.items()}
    return {joint: _option(wide, labels, joint) for joint, labels in kept.items() if labels}


def _too_short(blocks: int) -> str:
    if blocks >= LEAST_TO_COMPARE:
        return why_none_held_out(blocks)
    return f"{blocks} blocks of data are too few to compare models; at least {LEAST_TO_COMPARE} are necessary"


@dataclass(frozen=True, eq=False)
class _WideFit:
    """Wide model with the columns of all candidates, linearised about a fit."""

    fitted: Fitted
    nominal: Nominal
    factors: Factors
    comparison: ModelComparison

    @staticmethod
    def of(
        fitted: Fitted, kept: Terms, search: Search, plain: Fitted, motion: tuple[JointMotion, ...]
    ) -> _WideFit:
        """Linearise about a fit whose terms begin with the kept terms; `plain` is the first fit."""
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
        """Select the faults of the log that are linearised about the nominal model."""
        with_proposals = [(label, self.comparison.wide.proposal(label)) for label in labels]
        return [
            label
            for label, proposal in with_proposals
            if proposal.role is Role.LOG and proposal.variants[0].traits.linearised
        ]


def _friction_beside_faults(
    comparison: ModelComparison, base: tuple[Label, ...], search: Search
) -> tuple[tuple[Label, ...], dict[int, Option]]:
    """Choose friction forms together with the faults of the log, or without the common delay if that predicts better.

    A common delay gains on all joints at once, so it may enter before the friction forms that it imitates. It remains
    an option in the final comparison.

    Result: plain friction and faults of the better alternative, and its friction forms per joint.
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
    """Choose friction forms per joint; joints with plain friction are omitted.

    `base` contains plain friction and the faults of the log, because friction forms can imitate faults.
    """
    forms_by_joint: dict[int, Option] = {}
    for j in np.flatnonzero(search.moved).tolist():
        forms = _forms_of_joint(comparison, base, j)
        if forms.labels:
            forms_by_joint[j] = forms
    forms_by_joint = _shared(comparison, base, forms_by_joint, search)
    forms_by_joint = _worthwhile(comparison, base, forms_by_joint)
    # With many trials, some forms gain one standard error by chance, so together they must gain more.
    together = _with_form(comparison.wide, base, *forms_by_joint.values())
    return forms_by_joint if comparison.earns(comparison.friction_squares([base])[0], together) else {}


def _shared(
    comparison: ModelComparison, base: Sequence[Label], forms: dict[int, Option], search: Search
) -> dict[int, Option]:
    """Extend friction forms that most joints need to the other joints, if the error there decreases noticeably.

    Gears of the same make have the same kind of friction. So a form that is significant on most joints need not be
    significant on each.
    """
    wide, moving = comparison.wide, np.flatnonzero(search.moved).tolist()
    names_by_joint = {j: [wide.proposal(label).label for label in form.labels] for j, form in forms.items()}
    counts = Counter(name for names in names_by_joint.values() for name in names)
    for name in sorted(counts, key=lambda each: (-counts[each], each)):
        if not counts[name] > MOST_JOINTS * len(moving):
            continue
        for j in (j for j in moving if name not in names_by_joint.get(j, ())):
            present = forms.get(j, Option("plain"))
            rest = [form for k, form in forms.items() if k != j]
            offered = next((each for each in _forms(wide, present, j) if each.label == name), None)
            if offered is None or len(present.labels) >= FORMS_A_JOINT:
                continue
            tried = (present, *_tried(comparison, present, offered, j))
            models = [_with_form(wide, base, *rest, each) for each in tried]
            squares = comparison.friction_squares(models).sum(axis=1)
            best = int(np.argmin(squares))
            if (1.0 + NEGLIGIBLE) * squares[best] < squares[0]:
                forms = {**forms, j: tried[best]}
    return forms


def _worthwhile(
    comparison: ModelComparison, base: Sequence[Label], forms: dict[int, Option]
) -> dict[int, Option]:
    """Remove friction forms, smallest gain first, while the total loss is negligible.

    On a joint with several forms, single forms can be removed, too. In a long log a negligible gain is significant, so
    significance alone does not justify a form.
    """

    def squared_errors(options: Sequence[dict[int, Option]]) -> Float:
        models = [_with_form(comparison.wide, base, *forms_by_joint.values()) for forms_by_joint in options]
        return np.asarray(comparison.friction_squares(models).sum(axis=1))

    enough = (1.0 + NEGLIGIBLE) * float(squared_errors([forms])[0])
    while forms:
        fewer = [
            {j: form for j, form in {**forms, joint: less}.items() if form.labels}
            for joint in forms
            for less in _without_one(comparison.wide, forms[joint], joint)
        ]
        squares = squared_errors(fewer)
        least = int(np.argmin(squares))
        if not squares[least] <= enough:
            break
        forms = fewer[least]
    return forms


def _without_one(wide: WideModel, form: Option, joint: int) -> list[Option]:
    """All options that remove one friction form of a joint."""
    return [_option(wide, [label for label in form.labels if label != gone], joint) for gone in form.labels]


def _option(wide: WideModel, labels: Sequence[Label], joint: int) -> Option:
    """Option that combines friction forms of a joint; plain friction if there are none."""
    proposals = [wide.proposal(label) for label in labels]
    name = " + ".join(form.label for form in proposals) if proposals else "plain"
    return Option(name, tuple(labels), sum(wide.shape(form, 0, joint).size for form in proposals))


def _forms_of_joint(comparison: ModelComparison, base: Sequence[Label], joint: int) -> Option:
    """Select the friction forms of a joint by forward selection; plain friction if no form gains.

    Behaviour at reversals, dependence on speed and dependence on load are separate effects, so forms of different kinds
    can be combined. Each additional form must gain more than SCREEN standard errors.
    """
    wide, counts, chosen_option = comparison.wide, comparison.regression.counts, Option("plain")
    for _ in range(FORMS_A_JOINT):
        options = [
            (chosen_option,),
            *(_tried(comparison, chosen_option, each, joint) for each in _forms(wide, chosen_option, joint)),
        ]
        forms = [
            Form(
                each.name,
                len(wide.names(each.labels)) + each.shapes - len(wide.names(wide.replaced(each.labels))),
                tuple(tuple(_with_form(wide, base, shaped)) for shaped in tried),
            )
            for tried in options
            for each in tried[:1]
        ]
        judged, shape = chosen_form(comparison, forms)
        share, std = gain(judged.candidates[0].squares, judged.winner.squares, counts)
        if judged.chosen == 0 or (chosen_option.labels and share <= SCREEN * std):
            break
        chosen_option = options[judged.chosen][shape]
    return chosen_option


def _forms(wide: WideModel, option: Option, joint: int) -> list[Proposal]:
    """Friction forms that can be combined with the forms of a joint; only one form may be nonlinear in speed."""
    present = [wide.proposal(label) for label in option.labels]
    taken = {name for proposal in present for name in proposal.replaces}
    bent = any(_bends(proposal) for proposal in present)
    return [
        proposal
        for proposal in wide.proposals
        if proposal.role is Role.FRICTION
        and joint in proposal.places
        and (effect_name(proposal, 0), joint) in wide.members
        and proposal not in present
        and not taken & set(proposal.replaces)
        and not (bent and _bends(proposal))
    ]


def _bends(form: Proposal) -> bool:
    term = form.variants[0]
    return term.traits.dry is Dry.NO


def _with_form(wide: WideModel, labels: Sequence[Label], *forms: Option) -> list[Label]:
    """Add friction forms to the effects, in place of the plain friction that they replace."""
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


def _tried(comparison: ModelComparison, option: Option, form: Proposal, joint: int) -> tuple[Option, ...]:
    """Options that add a friction form, one for each of its tried shapes."""
    shapes = option.shapes + comparison.wide.shape(form, 0, joint).size
    name = f"{option.name} + {form.label}" if option.labels else form.label
    return tuple(
        Option(name, (*option.labels, (effect_name(form, k), joint)), shapes)
        for k in range(len(form.variants))
    )


def _axes(wide: WideModel, forms: dict[int, Option], shown: Sequence[Label]) -> list[Axis]:
    """Axes of the final comparison, friction first; an option contains the effects of the options before it.

    Only options with plain effects, or with effects that the log shows (`shown`), are included.
    """
    by_question: dict[str, list[Option]] = {}
    effects = {each.label: each for each in wide.proposals}
    for effect in sorted(effects.values(), key=lambda each: each.question.name != FRICTION.name):
        if effect.role in (Role.FRICTION, Role.SHIELD):
            continue
        answers = by_question.setdefault(effect.question.name, [Option(effect.question.without)])
        labels = tuple(sorted(label for label in shown if label[0] == effect.label))
        if labels:
            name = effect.option_at(wide.robot, [place for _, place in labels])
            before = f"{answers[-1].name} + " if len(answers) > 1 else ""
            answers.append(Option(before + name, answers[-1].labels + labels))
    # Every drive has dry and viscous friction. If the motion does not show them, leaving them out would still cause
    # errors on other motions.
    friction_options, whole = by_question[FRICTION.name], len(by_question[FRICTION.name][-1].labels)
    friction_options[:-1] = [
        replace(each, without=whole - len(each.labels) + 1) for each in friction_options[:-1]
    ]
    if forms:
        by_joint = tuple(_with_form(wide, friction_options[-1].labels, *forms.values()))
        friction_options.append(Option("by joint", by_joint, sum(form.shapes for form in forms.values())))
    # The comparison takes the first of equivalent models. Put options that every robot has first: the inertia of a
    # rotor on a carriage, for example, is equivalent to mass of the carriage, which would be too large without the
    # rotor.
    for question in {each.question for each in effects.values() if each.question.certain}:
        by_question[question.name].reverse()
    return [Axis(name, tuple(options)) for name, options in by_question.items() if len(options) > 1]
