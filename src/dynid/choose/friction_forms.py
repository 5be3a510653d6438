"""Comparison of friction forms per joint on held-out blocks, by the one-standard-error rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import product

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.choose.comparison import NEGLIGIBLE, ModelComparison
from dynid.choose.search import Choice, Fitted, FormScore, NonlinearFit, Search, is_open, merged, nominal
from dynid.choose.wide_model import KEPT, Label, Labelled, WideModel, most_probable, wide_regression
from dynid.factor.folds import Candidate, Comparison, compare, gain
from dynid.signals.samples import Samples
from dynid.terms.curve import (
    ShapedTerm,
    of_joints,
    rival_of,
    shape_table,
    shapes_of,
    subject,
    tried_shapes,
    with_shape_table,
)
from dynid.terms.exports import EVERYWHERE, STANDS, JointMotion
from dynid.terms.forms import alternatives, inner_term
from dynid.terms.friction import WIDTH, Coulomb, direction
from dynid.terms.friction_shapes import MOST_WAVES
from dynid.terms.term import Term, Terms, joint_indices, joints_of, narrowed
from dynid.terms.transmission import OnMotor

# Position-dependent dry friction, detected in the residual of a fit with plain friction, without trial fits.

# Least number of periods within the range of motion: fewer look like constant friction.
FEWEST = 1.0
# Step of the search, in periods within the range; position bins per period.
STEP, BINS = 0.25, 8
# The filter removes friction whose frequency at slow speed exceeds WITHIN of the cutoff. Slow speed is SLOW times the
# median; about a quarter of the samples are slower.
WITHIN, SLOW = 0.7, 0.5
# A joint slides in one direction if the magnitude of its smoothed sign is at least this.
SLIDING = 0.9
# Folds of the cross-validation, which includes the search for the period.
PARTS = 5
# Position-dependent friction is tried if it explains at least this share of the held-out squares, and gains at least
# this many standard errors. The comparison with other friction forms then decides.
LEAST, SURE = 0.01, 2.0


def joint_motions(search: Search, fitted: Fitted) -> tuple[JointMotion, ...]:
    """Motion of every joint (or of its motor behind a linkage), and position-dependent friction in the residual."""
    separable = search.separable(fitted)
    linked = search.robot.drive.linked
    cutoff = fitted.assembly.parallel.cutoff
    motions = []
    for joint, residual in enumerate(_left(fitted, separable.batches, search)):
        if linked[joint]:
            # Friction acts at the motor of a linkage, but the search covers only joint positions.
            motions.append(replace(separable.motion(joint, OnMotor(Coulomb())), waves=()))
            continue
        motion = separable.motion(joint)
        fastest = (
            np.inf if cutoff is None else WITHIN * 2.0 * np.pi * cutoff / max(SLOW * residual.speed, STANDS)
        )
        wave = residual.wave(fastest) if search.moved[joint] else None
        motions.append(replace(motion, waves=() if wave is None else (wave,)))
    return tuple(motions)


@dataclass(frozen=True, eq=False)
class Left:
    """Residual of a joint along its motion, for sliding samples.

    Attributes
    ----------
    q : ndarray, shape (N,)
        Positions.
    error : ndarray, shape (N,)
        Residual times sign of velocity.
    speed : float
        Median of |dq|.

    """

    q: Float
    error: Float
    speed: float = 0.0

    def wave(self, fastest: float) -> float | None:
        """Best spatial frequency up to `fastest`, rad per rad or m; None if none predicts the held-out parts."""
        span = float(np.ptp(self.q)) if len(self.q) else 0.0
        if span <= STANDS:
            return None
        lowest, step = 2.0 * np.pi * FEWEST / span, 2.0 * np.pi * STEP / span
        count = int((min(fastest, 2.0 * np.pi * MOST_WAVES / span) - lowest) / step)
        if count < 1:
            return None
        profile = _Profile.of(self, np.asarray(lowest + step * np.arange(count + 1.0)))
        return profile.best if profile.is_within and profile.is_worth_a_trial() else None


@dataclass(frozen=True, eq=False)
class _Profile:
    """Sums over position bins and parts of the time.

    `waves` (K,): tried spatial frequencies; `lines` (K, 2, B): cosine and sine in each bin; `count`, `total` (P, B):
    number of samples and sum of their errors; `square` (P,): sum of squared errors.
    """

    waves: Float
    lines: Float
    count: Float
    total: Float
    square: Float

    @staticmethod
    def of(left: Left, waves: Float) -> _Profile:
        low, span = float(left.q.min()), float(np.ptp(left.q))
        B = int(np.ceil(BINS * waves[-1] * span / (2.0 * np.pi)))
        bins = np.minimum(((left.q - low) * (B / span)).astype(np.int64), B - 1)
        part = np.arange(len(left.q)) * PARTS // len(left.q)
        middle = (np.arange(B) + 0.5) / B
        angle = waves[:, None] * (low + span * middle)

        def summed(values: Float | None) -> Float:
            sums = np.bincount(part * B + bins, values, PARTS * B)
            return np.asarray(sums.reshape(PARTS, B), dtype=np.float64)

        return _Profile(
            waves,
            np.stack([np.cos(angle), np.sin(angle)], axis=1),
            summed(None),
            summed(left.error),
            np.asarray(np.bincount(part, left.error**2, PARTS), dtype=np.float64),
        )

    @property
    def best(self) -> float:
        """Spatial frequency that fits all parts best."""
        return float(self.waves[self._best])

    @property
    def is_within(self) -> bool:
        """Whether the best frequency is below the highest one, beyond which others could fit better."""
        return self._best < len(self.waves) - 1

    @cached_property
    def _best(self) -> int:
        return self._fit(self.count.sum(axis=0), self.total.sum(axis=0))[0]

    def is_worth_a_trial(self) -> bool:
        """Whether the best frequency predicts held-out parts significantly better."""
        gains = np.zeros(PARTS)
        for part in range(PARTS):
            others = np.arange(PARTS) != part
            _, plain, waved = self._fit(self.count[others].sum(axis=0), self.total[others].sum(axis=0))
            gains[part] = self._missed(part, plain) - self._missed(part, waved)
        gain, std = float(gains.sum()), float(np.sqrt(PARTS) * gains.std(ddof=1))
        return gain > 0.0 and gain >= LEAST * float(self.square.sum()) and gain >= SURE * std

    def _missed(self, part: int, curve: Float) -> float:
        return float(self.square[part] + (self.count[part] * curve - 2.0 * self.total[part]) @ curve)

    def _fit(self, count: Float, total: Float) -> tuple[int, Float, Float]:
        # Returns the index of the best frequency, and curves over the bins without and with it.
        samples = count.sum()
        mean = total.sum() / samples
        lines = self.lines - (self.lines @ count / samples)[..., None]
        products, along = (lines * count) @ lines.transpose(0, 2, 1), lines @ (total - mean * count)
        sizes = (np.linalg.pinv(products, hermitian=True) @ along[..., None])[..., 0]
        best = int(np.argmax((sizes * along).sum(axis=1)))
        return best, np.full(len(count), mean), mean + sizes[best] @ lines[best]


def _left(fitted: Fitted, batches: Iterable[Samples], search: Search) -> list[Left]:
    """Residual torque of a fit per joint, filtered like the equations."""
    assembly, n = fitted.assembly, search.robot.n
    parts_by_joint: list[list[Float]] = [[] for _ in range(n)]
    for samples in batches:
        motion = samples.motor
        model = assembly.terms.torque(assembly.robot, samples, fitted.estimate.parameters)
        lines = np.stack([samples.tau - model, motion.q, direction(motion, WIDTH * search.slowness)])
        kept = assembly.parallel.kept(samples)
        error, _ = assembly.parallel.apply(np.ascontiguousarray(lines[0].T), samples)
        for j in range(n):
            q, sign = lines[1][kept, j], lines[2][kept, j]
            slides = np.abs(sign) >= SLIDING
            if samples.gate is not None:
                slides &= samples.gate[kept, j]
            speed = np.abs(motion.dq[kept, j])
            parts_by_joint[j].append(np.stack([q, error[j] * np.sign(sign), speed])[:, slides])
    joined = (np.concatenate(parts, axis=1) if parts else np.zeros((3, 0)) for parts in parts_by_joint)
    return [Left(q, wave, float(np.median(speed)) if len(speed) else 0.0) for q, wave, speed in joined]


@dataclass(frozen=True)
class Form:
    """Friction form of a joint.

    Attributes
    ----------
    name : str
    parameters : int
        Number of parameters, including shapes.
    models : tuple of tuple of Label
        Models of the whole robot with this form, for each tried value of its shapes.

    """

    name: str
    parameters: int
    models: tuple[tuple[Label, ...], ...]


def chosen_form(comparison: ModelComparison, forms: Sequence[Form]) -> tuple[Comparison, int]:
    """Compare a joint's forms at their best tried shapes; return the comparison and the shape index of the winner.

    The best shape of a form is the one with the smallest held-out error; each shape counts as a parameter.
    """
    candidates, shapes = list[Candidate](), list[int]()
    every = comparison.friction_squares([model for form in forms for model in form.models])
    starts = np.cumsum([0, *(len(form.models) for form in forms)])
    for form, first in zip(forms, starts[:-1], strict=True):
        squares = every[first : first + len(form.models)]
        shapes.append(int(np.argmin(squares.sum(axis=1))))
        candidates.append(Candidate(form.name, form.parameters, squares[shapes[-1]]))
    # Divide the negligible error of the robot among the joints.
    part = NEGLIGIBLE / comparison.wide.robot.n
    comparison_of_forms = compare(candidates, comparison.regression.counts, negligible=part)
    return comparison_of_forms, shapes[comparison_of_forms.chosen]


def choose_forms(terms: Terms, search: Search) -> tuple[Terms, Terms | None, tuple[Choice, ...]]:
    """Replace every term with alternatives by the best alternative per joint.

    Returns the chosen terms; the same terms at their best tried shapes (None if other terms still have a choice or
    nothing was chosen); and the choices.
    """
    robot = search.robot
    choosable = [term for term in terms if alternatives(term, ())]
    if not choosable:
        return terms, None, ()
    others = Terms(tuple(term for term in terms if term not in choosable))
    fitted = search.fit(nominal(Terms((*others.terms, *choosable)), robot))
    places = [(term, joint) for term in choosable for joint in joint_indices(robot, joints_of(term))]
    rivals = [
        [
            (name, _slowed(form, search))
            for name, form in alternatives(term, (robot.joint_names[joint],)).items()
        ]
        for term, joint in places
    ]
    open_forms = [forms[0][1] for forms in rivals]
    started, choices = list(open_forms), list[Choice]()
    if search.can_compare(fitted):
        moving = [i for i, (_, joint) in enumerate(places) if search.moved[joint]]
        motions = joint_motions(search, fitted)
        tried = {
            (i, k): tuple(_tried(form, motions[places[i][1]], search))
            for i in moving
            for k, (_, form) in enumerate(rivals[i])
        }
        shelf = _Shelf.of(
            nominal(others, robot), [*open_forms, *(m for models in tried.values() for m in models)], search
        )
        comparison = shelf.comparison(fitted, search)
        plain = [shelf.labels(form) for form in open_forms]
        picked = list(plain)
        for i in moving:
            base = tuple(label for k, labels in enumerate(plain) if k != i for label in labels)
            offered = [(k, *rival) for k, rival in enumerate(rivals[i]) if tried[i, k]]
            forms = [
                Form(
                    name, _count(form, search), tuple((*base, *shelf.labels(model)) for model in tried[i, k])
                )
                for k, name, form in offered
            ]
            compared, shape = chosen_form(comparison, forms)
            choices.append(_choice(comparison, compared, robot.joint_names[places[i][1]], "friction"))
            k, _, open_forms[i] = offered[compared.chosen]
            started[i] = tried[i, k][shape]
            picked[i] = shelf.labels(started[i])
        # With many trials, some forms gain one standard error by chance, so together they must gain more.
        before, together = (tuple(label for part in forms for label in part) for forms in (plain, picked))
        if before != together and not comparison.earns(comparison.friction_squares([before])[0], together):
            open_forms = started = [forms[0][1] for forms in rivals]
            choices = [replace(choice, chosen=choice.candidates[0].name) for choice in choices]
    whole, start = (Terms((*others.terms, *merged(parts, robot))) for parts in (open_forms, started))
    return whole, None if is_open(others) or not choices else start, tuple(choices)


def _slowed(terms: Terms, search: Search) -> Terms:
    return Terms(tuple(narrowed(term, search.slowness) for term in terms))


def worth_of_shapes(terms: Terms, nonlinear: NonlinearFit, search: Search) -> tuple[Choice, ...]:
    """Gain of each term with an estimated shape on held-out blocks, per joint."""
    robot = search.robot
    kinds = {type(term) for term in terms if isinstance(term, ShapedTerm) and shapes_of(term)}
    estimated: dict[int, Bool] = {
        i: free for i, free in nonlinear.estimated.items() if type(nonlinear.terms.terms[i]) in kinds
    }
    if not estimated:
        return ()
    others, shaped = list[Term](), list[tuple[ShapedTerm, int, Bool]]()
    for i, term in enumerate(nonlinear.terms):
        if i not in estimated or not isinstance(term, ShapedTerm):
            others.append(term)
            continue
        acting = joint_indices(robot, term.joints)
        kept = [joint for joint, free in zip(acting, estimated[i], strict=True) if not free.any()]
        others += [of_joints(term, robot, kept)] if kept else []
        shaped += [
            (of_joints(term, robot, (j,)), j, free)
            for j, free in zip(acting, estimated[i], strict=True)
            if free.any()
        ]
    fitted = search.fit(Terms((*others, *(term for term, _, _ in shaped))))
    if not search.can_compare(fitted):
        return ()
    separable = search.separable(fitted)
    without = [_slowed(rival_of(term, (robot.joint_names[joint],)), search) for term, joint, _ in shaped]
    open_terms = [
        Terms((with_shape_table(term, np.where(free, np.nan, shape_table(term, robot))),))
        for term, _, free in shaped
    ]
    tried = [
        tuple(_tried(open_term, separable.motion(joint, term), search))
        for open_term, (term, joint, _) in zip(open_terms, shaped, strict=True)
    ]
    alone = [Terms((term,)) for term, _, _ in shaped]
    shelf = _Shelf.of(
        Terms(tuple(others)), [*alone, *without, *(model for models in tried for model in models)], search
    )
    comparison = shelf.comparison(fitted, search)
    choices = []
    for i, (term, joint, _) in enumerate(shaped):
        base = tuple(label for k, other in enumerate(alone) if k != i for label in shelf.labels(other))
        rival = _subject(without[i].terms[0]) if without[i].terms else "without"
        forms = [
            Form(rival, _count(without[i], search), ((*base, *shelf.labels(without[i])),)),
            Form(
                subject(term),
                _count(open_terms[i], search),
                tuple((*base, *shelf.labels(model)) for model in tried[i]),
            ),
        ]
        judged, _ = chosen_form(comparison, forms)
        choices.append(_choice(comparison, judged, robot.joint_names[joint], subject(term)))
    return tuple(choices)


@dataclass(frozen=True, eq=False)
class _Shelf:
    """Wide model of tried terms, in which each term occurs once even if several models contain it."""

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
        _, regression = wide_regression(self.wide, fitted, most_probable(fitted, search.prior), search)
        return ModelComparison(regression, self.wide, self.wide.members[KEPT])


def _tried(terms: Terms, motion: JointMotion, search: Search) -> Iterator[Terms]:
    """Yield the terms of a joint at every tried value of their unknown shapes."""
    options: list[list[Term]] = []
    for term in terms:
        table = shape_table(term, search.robot) if isinstance(term, ShapedTerm) else np.zeros(0)
        if isinstance(term, ShapedTerm) and np.isnan(table).any():
            tried = [
                np.where(np.isnan(table), shape, table) for shape in tried_shapes(inner_term(term), motion)
            ]
            options.append([with_shape_table(term, shape) for shape in tried])
        else:
            options.append([term])
    yield from (Terms(combination) for combination in product(*options))


def _subject(term: Term) -> str:
    return subject(term) if isinstance(term, ShapedTerm) else term.name


def _count(terms: Terms, search: Search) -> int:
    shapes = [
        shape_table(term, search.robot) for term in terms if isinstance(term, ShapedTerm) and shapes_of(term)
    ]
    return len(terms.columns(search.robot)) + sum(int(np.isnan(table).sum()) for table in shapes)


def _choice(comparison: ModelComparison, compared: Comparison, joint: str, subject: str) -> Choice:
    """Choice among forms, with gains relative to the first form."""
    first, torque = compared.candidates[0], comparison.regression.target_square
    candidates = []
    for candidate in compared.candidates:
        share, std = gain(first.squares, candidate.squares, comparison.regression.counts)
        candidates.append(
            FormScore(
                name=candidate.name,
                parameters=int(candidate.parameters),
                relative=float(np.sqrt(candidate.squares.sum() / torque)) if torque > 0 else float("nan"),
                gain=share,
                gain_std=std,
                earned=candidate is not first and share > std,
            )
        )
    return Choice(joint, subject, tuple(candidates), compared.winner.name)
