"""A term: one physical effect, its parameters and their torque. Terms add: RigidBody() + Viscous()."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import Field, replace
from functools import cached_property, partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, cast

import numpy as np
import numpy.typing as npt

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.base.registry import Registry, meant
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import POSE_RATE, Samples
from dynid.terms import forms
from dynid.terms.exports import (
    EVERYWHERE,
    Column,
    Extent,
    Kind,
    LogFacts,
    MotionBasis,
    Of,
    OnJoint,
    Part,
    Question,
    Reads,
    Role,
    Scale,
    Side,
    Symbol,
    Traits,
    empty_panels,
    joined,
    panels_of,
    side_by_side,
    split,
)
from dynid.terms.residual_tests import TermWords

__all__ = [
    "CATALOGUE",
    "Column",
    "MomentumForm",
    "Of",
    "Proposal",
    "Scale",
    "Side",
    "Symbol",
    "Term",
    "Terms",
    "empty_panels",
    "proposal_of_robot",
]


MomentumForm = Callable[[Any, RobotModel, Samples, Bool], tuple[Panels, Panels]]


def _nothing(*_: Any) -> tuple[Any, ...]:
    return ()


@dataclass(frozen=True, eq=False)
class Selection:
    """How the automatic choice of the model tries a term.

    role: None = it has none.    question: of the choice, that it answers.
    proposed: the proposals for a log, from the class of the term; () = it is not tried.
    described: terms for what a robot's description says that it has, which the choice keeps; () = nothing.
    covers: labels of plain effects that have no place beside it.
    """

    role: Role | None = None
    question: Question = Question("")
    proposed: Callable[[type[Any], RobotModel, LogFacts], tuple[Proposal, ...]] = _nothing
    described: Callable[[RobotModel], tuple[Term, ...]] = _nothing
    covers: tuple[str, ...] = ()


class Term(ABC):
    """One physical effect, linear in its parameters; the seam for new physics.

    A new effect is one small file: a frozen dataclass with `columns` and `torque_regressor`
    (or a JointTerm with `basis`), named in dynid.terms.catalogue to be reachable from an experiment file.

    traits: what it is to programs that use it.
    words: how it is written, what its lack looks like, what its size means.
    selection: how the automatic choice tries it.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    name: str
    traits: ClassVar[Traits] = Traits()
    words: ClassVar[TermWords] = TermWords()
    selection: ClassVar[Selection] = Selection()

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.__module__.partition(".")[0] != "dynid":
            _old_interface().adapt(cls)

    if not TYPE_CHECKING:  # a checker of types is to know none of them

        def __getattr__(self, name):
            # Members of the interface of dynid 0.1, which are attributes once its module is loaded.
            if name in OLD_MEMBERS and _old_interface():
                return getattr(self, name)
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    @abstractmethod
    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The parameters that this term adds for this robot."""

    @abstractmethod
    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Returns, per joint, the wanted columns of Y in tau = Y theta; indices count within the term."""

    def __add__(self, other: Term | Terms) -> Terms:
        return Terms((self,)) + other


# Members of the interface of dynid 0.1, so that its module is loaded for these alone.
OLD_MEMBERS = frozenset(
    (
        *("against_description", "alive", "alternatives", "as_cause", "as_cause_of_kind", "balances"),
        *("c_texts", "channels", "clock", "covers", "described", "either_side", "energy_form"),
        *("explanations", "exported", "exports_as", "features", "filtered_regressor", "followed"),
        *("group", "hides_wiring", "is_friction", "is_open", "known_energy", "known_momentum"),
        *("known_torque", "knows_friction", "label", "lacking", "linearised", "load_slope", "loaded"),
        *("momentum_form", "motion_slopes", "motor_momentum_form", "motor_regressor", "motor_work"),
        *("needs_bodies", "notices", "of_bodies", "of_log", "of_rotors", "option", "parameter_count"),
        *("passive", "proposed", "question", "range_of", "reads_rate", "remembers", "rival", "role"),
        *("scale", "side", "starts", "steps", "symbols", "torque", "tried", "tried_on", "with_bodies"),
        *("within", "without_memory", "zeros"),
    )
)


def _old_interface() -> Any:
    # By its name, as kinds of the catalogue are loaded: it builds on this module.
    return import_module("dynid.terms.old")


def _batch_by_batch(term: Term, batches: Sequence[Samples]) -> Callable[[RobotModel, Samples, Bool], Panels]:
    """A regressor of several batches of which the term sees each by itself."""

    def regressor(robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        parts = [term.torque_regressor(robot, forms.seen_by(term, batch), wanted) for batch in batches]
        values = zip(*(part.values for part in parts), strict=True)
        return Panels(parts[0].columns, tuple(np.concatenate(lines, axis=1) for lines in values))

    return regressor


@dataclass(frozen=True)
class Terms:
    """A sum of terms: the model whose parameters are estimated, their columns in order."""

    terms: tuple[Term, ...]

    def __add__(self, other: Term | Terms) -> Terms:
        return Terms(self.terms + (other.terms if isinstance(other, Terms) else (other,)))

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    @cached_property
    def after_first(self) -> Terms:
        """All terms but the first."""
        return Terms(self.terms[1:])

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """All parameters in order; raises UsageError if two share a name.

        Friction has its lower bounds unless another term knows friction: what that lacks may have either sign.
        """
        known = any(term.traits.kind is Kind.COMPENSATION for term in self.terms)
        columns = tuple(
            replace(column, lower=-np.inf) if known and _is_friction(term) else column
            for term in self.terms
            for column in term.columns(robot)
        )
        names = [column.name for column in columns]
        twice = sorted({name for name in names if names.count(name) > 1})
        if twice:
            raise UsageError(
                "duplicate-parameter",
                found=f"parameters {', '.join(twice)} in two terms",
                expected="each term once",
            )
        return columns

    def channels(self) -> tuple[str, ...]:
        """Extra log channels that the terms read, each once."""
        return tuple(dict.fromkeys(name for term in self.terms for name in forms.channels_of(term)))

    def clock(self) -> tuple[float, float] | None:
        """First and last time, s, that any term is of; None = all are of any time."""
        known = [times for term in self.terms if (times := forms.clock_of(term)) is not None]
        return (min(start for start, _ in known), max(end for _, end in known)) if known else None

    def torque_regressor(
        self,
        robot: RobotModel,
        samples: Samples,
        wanted: Bool | None = None,
        target: Float | None = None,
        joints: Bool | None = None,
        batches: Sequence[Samples] = (),
    ) -> Panels:
        """Returns Y of all terms side by side, per joint, structurally zero columns left out.

        target: (T, n), appended to each joint's panel as its last line.    joints: (n,) that get columns, None = all.
        batches: that the samples were joined from, which terms that look along time see one by one; () = one batch.
        """
        counts = self._counts(robot)
        parts = (
            (
                _batch_by_batch(term, batches) if batches and term.traits.reads else term.torque_regressor,
                forms.seen_by(term, samples),
                n,
            )
            for term, n in zip(self.terms, counts, strict=True)
        )
        return side_by_side(robot, parts, samples, wanted, target, joints)

    def motor_regressor(
        self, robot: RobotModel, samples: Samples, wanted: Bool | None = None, target: Float | None = None
    ) -> Panels:
        """Returns the part of Y that acts on the motors, in the form of `torque_regressor`."""
        counts = self._counts(robot)
        parts = (
            (partial(forms.motor_regressor, term), forms.seen_by(term, samples), n)
            for term, n in zip(self.terms, counts, strict=True)
        )
        return side_by_side(robot, parts, samples, wanted, target)

    def _counts(self, robot: RobotModel) -> tuple[int, ...]:
        # Numbers of parameters; filters and simulations ask for the same robot's thousands of times.
        latest: tuple[RobotModel, tuple[int, ...]] | None = self.__dict__.get("_latest_counts")
        if latest is None or latest[0] is not robot:
            latest = robot, tuple(forms.parameter_count(term, robot) for term in self.terms)
            self.__dict__["_latest_counts"] = latest
        return latest[1]

    def within(self, robot: RobotModel, extent: Extent) -> Terms:
        """The same terms, knowing how fast and far joints went in the log that they are fitted to."""
        return Terms(tuple(forms.within_extent(term, robot, extent) for term in self.terms))

    def friction_columns(self, robot: RobotModel) -> Bool:
        """Mask (p,) of the parameters of friction, of whatever form."""
        parts = [np.full(len(term.columns(robot)), _is_friction(term)) for term in self.terms]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    @property
    def remembers(self) -> bool:
        """Whether some term reads the motion before the samples at hand."""
        return any(Reads.PAST in term.traits.reads for term in self.terms)

    @property
    def reads_rate(self) -> bool:
        """Whether some term differentiates along time."""
        return any(Reads.RATE in term.traits.reads for term in self.terms)

    @property
    def along_time(self) -> bool:
        """Whether some term is not a function of each sample alone."""
        return any(term.traits.reads for term in self.terms)

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Which parameters (p,) a log can determine in which only some joints (n,) moved."""
        return np.concatenate(
            [np.zeros(0, dtype=np.bool_), *(forms.alive_columns(term, robot, moved) for term in self.terms)]
        )

    def balances(self, robot: RobotModel) -> Bool:
        """Joints (n,) whose gravity some term other than the bodies may carry."""
        carried = np.zeros(robot.n, dtype=np.bool_)
        for term in self.terms:
            carried |= forms.balanced_joints(term, robot)
        return carried

    def momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """Momentum P and its rate's other part R of all terms side by side, Y theta = d(P theta)/dt + R theta."""
        return self._momentum(forms.momentum_form, robot, samples, wanted)

    def motor_momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """The part of `momentum_form` that acts on the motors."""
        return self._momentum(forms.motor_momentum_form, robot, samples, wanted)

    def _momentum(
        self, form: MomentumForm, robot: RobotModel, samples: Samples, wanted: Bool
    ) -> tuple[Panels, Panels]:
        parts = [form(term, robot, seen, own) for term, seen, own in self._each(robot, samples, wanted)]
        P, R = (self._joined(robot, samples, [part[i] for part in parts]) for i in range(2))
        return P, R

    def _each(
        self, robot: RobotModel, samples: Samples, wanted: Bool
    ) -> Iterator[tuple[Term, Samples, Bool]]:
        # Every term with its samples, and with its part of a mask (p,).
        for term, own in zip(self.terms, split(wanted, self._counts(robot)), strict=True):
            yield term, forms.seen_by(term, samples), own

    def _joined(self, robot: RobotModel, samples: Samples, parts: list[Panels]) -> Panels:
        return joined(robot, parts, self._counts(robot), samples)

    def energy_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
        """Stored energy h (w, T) and working torque W of all terms, dq' Y theta = d(h theta)/dt + dq' W theta."""
        parts = [
            forms.energy_form(term, robot, seen, own)
            for term, seen, own in self._each(robot, samples, wanted)
        ]
        stored = np.concatenate([np.zeros((0, len(samples))), *(part[0] for part in parts)])
        return stored, self._joined(robot, samples, [part[1] for part in parts])

    def motor_work(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The part of the working torque of `energy_form` that acts on the motors."""
        parts = [
            forms.motor_work(term, robot, seen, own) for term, seen, own in self._each(robot, samples, wanted)
        ]
        return self._joined(robot, samples, parts)

    @property
    def of_motors(self) -> Terms:
        """The terms on the motors' side."""
        return Terms(tuple(term for term in self.terms if term.traits.side is Side.MOTOR))

    def known_momentum(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
        """`known_torque` as dP/dt + R, (T, n) each."""
        return self._known_form(forms.known_momentum, np.zeros((len(samples), robot.n)), robot, samples)

    def known_energy(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
        """`known_torque` as stored energy (T,) and torque that does work (T, n)."""
        return self._known_form(forms.known_energy, np.zeros(len(samples)), robot, samples)

    def _known_form(
        self, form: Callable[..., Any], stored: Float, robot: RobotModel, samples: Samples
    ) -> tuple[Float, Float]:
        rest = np.zeros((len(samples), robot.n))
        for term in self.terms:
            known = form(term, robot, forms.seen_by(term, samples))
            if known is not None:
                stored, rest = stored + known[0], rest + known[1]
        return stored, rest

    def torque(self, robot: RobotModel, samples: Samples, theta: Float) -> Float:
        """Joint torque of the model for parameter values theta (p,), known torque included, (T, n)."""
        total = self.known_torque(robot, samples)
        for term, own in self.with_values(robot, theta):
            if own.any():
                total += forms.torque_of(term, robot, forms.seen_by(term, samples), own)
        return total

    def with_values(self, robot: RobotModel, theta: Float) -> Iterator[tuple[Term, Float]]:
        """The terms, each with its part of the values (p,) of all parameters."""
        return zip(self.terms, split(theta, self._counts(robot)), strict=True)

    def known_torque(self, robot: RobotModel, samples: Samples, batches: Sequence[Samples] = ()) -> Float:
        """Sum of the torque that needs no unknown, (T, n).    batches: as of `torque_regressor`."""
        if batches and self.along_time:
            return np.concatenate([self._known(robot, batch, self.terms) for batch in batches])
        return self._known(robot, samples, self.terms)

    def known_motor_torque(self, robot: RobotModel, samples: Samples) -> Float:
        """The part of `known_torque` that acts on the motors, (T, n)."""
        return self._known(
            robot, samples, tuple(term for term in self.terms if term.traits.side is Side.MOTOR)
        )

    @staticmethod
    def _known(robot: RobotModel, samples: Samples, terms: tuple[Term, ...]) -> Float:
        total = np.zeros((len(samples), robot.n))
        for term in terms:
            known = forms.known_torque(term, robot, forms.seen_by(term, samples))
            if known is not None:
                total += known
        return total


@dataclass(frozen=True, eq=False)
class Proposal:
    """An effect as the automatic choice tries it.

    label: names it in comparisons and reports; proposals of one label are chosen together.
    role, question: of the term.
    variants: terms of the wide model, one for each value of shapes that is tried.
    places: of each column of a variant: its joint, pair of joints, or EVERYWHERE.
    build: the term of the model for the places where it was chosen, shapes left open.
    option: its name among the answers of its question; {joints}, {count} and {s} stand for where it is, at how many
    places, and the ending of a plural.
    replaces: labels of plain effects in whose place it stands.
    positive: whether it is itself only where its parameters with a bound of zero are above it.
    alike: label of an effect of single joints that has to come out about the same on all of them.
    measured: whether its size is reported where it is not chosen.    instead_of: labels left out of the model then.
    relative: whether its sizes are relative to the first place where it was not chosen.
    auxiliary: names of parameters that only keep others from being biased.
    shield: label of a shield that contains it nearly, in whose place at the same joint it is chosen.
    both_ways: whether it is dry friction to a joint that moved one way, where it is not tried.
    moving: whether a joint that stands says nothing of it, where it is not tried.
    """

    label: str
    role: Role
    question: Question
    variants: tuple[Term, ...]
    places: tuple[int, ...]
    build: Callable[[tuple[int, ...]], Term]
    option: str
    replaces: tuple[str, ...] = ()
    positive: bool = False
    alike: str = ""
    measured: bool = False
    instead_of: tuple[str, ...] = ()
    relative: bool = False
    auxiliary: tuple[str, ...] = ()
    shield: str = ""
    both_ways: bool = False
    moving: bool = False

    def option_at(self, robot: RobotModel, places: Sequence[int]) -> str:
        """Its name among the answers of its question."""
        joints = ", ".join(robot.joint_names[j] for j in places if 0 <= j < robot.n)
        return self.option.format(joints=joints, count=len(places), s="" if len(places) == 1 else "s")


def proposal_of_robot(robot: RobotModel, term: Term, label: str, option: str, **more: Any) -> Proposal:
    """A candidate that is chosen for the whole robot.    build: the term for a model.    more: further fields."""
    places = (EVERYWHERE,) * len(term.columns(robot))
    fields: dict[str, Any] = {"variants": (term,), "places": places, "build": lambda _: term}
    chosen = term.selection
    return Proposal(label, chosen.role or Role.ROBOT, chosen.question, option=option, **(fields | more))


# The terms of experiments and run folders by name, filled by dynid.terms.catalogue.
CATALOGUE: Registry[type[Term]] = Registry("term", "dynid.terms", {})


def _is_friction(term: Term) -> bool:
    return term.traits.kind is Kind.FRICTION


# Motion states that a user hands over: one (n,) or many (T, n).


def states(
    robot: RobotModel,
    terms: Terms,
    q: npt.ArrayLike,
    dq: npt.ArrayLike,
    ddq: npt.ArrayLike,
    *,
    rate: float | None = None,
    temperature: npt.ArrayLike | None = None,
    extra: Mapping[str, npt.ArrayLike] | None = None,
) -> tuple[Samples, tuple[int, ...]]:
    """Samples of given states for a model, and the shape that their torque has: that of q.

    q, dq, ddq, temperature: (T, n), or (n,) for one state.    extra: channels by name, (T,).
    rate: Hz, of consecutive states; None = states by themselves, whose torque does not change along time, all at the
    beginning of the log's time.
    Raises UsageError for arrays of another shape, without the channels that terms read, or a rate that is not positive.
    """
    if missing := [name for name in terms.channels() if name not in (extra or {})]:
        raise UsageError(
            "missing-channel",
            found=f"states without the channel '{missing[0]}' that the model reads",
            expected=f"extra = {{'{missing[0]}': values}}, (T,)",
        )
    if rate is not None and not 0 < rate < np.inf:
        raise UsageError(
            "no-rate",
            found=f"a rate of {rate} Hz",
            expected="samples a second of consecutive states, or None",
        )
    shape = np.shape(q)
    given = {"q": q, "dq": dq, "ddq": ddq}
    if temperature is not None:
        given["temperature"] = temperature
    arrays = {name: _states(values, shape, robot, name) for name, values in given.items()}
    T = len(arrays["q"])
    samples = Samples.from_motion(arrays["q"], arrays["dq"], arrays["ddq"], rate=rate or POSE_RATE)
    if rate is None:
        samples = replace(samples, t=np.zeros(T))
    channels = {name: _channel(values, T, name) for name, values in (extra or {}).items()}
    return replace(samples, temperature=arrays.get("temperature"), extra=channels), shape


def _states(values: npt.ArrayLike, shape: tuple[int, ...], robot: RobotModel, name: str) -> Float:
    array = np.array(values, dtype=np.float64)
    if array.shape != shape or array.ndim not in (1, 2) or array.shape[-1] != robot.n:
        raise UsageError(
            "array-shape",
            found=f"{name} of shape {array.shape}",
            expected=f"(T, {robot.n}) or ({robot.n},), the same for q, dq and ddq: the joints of '{robot.name}'",
        )
    return array.reshape(-1, robot.n)


def _channel(values: npt.ArrayLike, T: int, name: str) -> Float:
    array = np.array(values, dtype=np.float64).reshape(-1)
    if len(array) not in (1, T):
        raise UsageError("array-shape", found=f"channel '{name}' of {len(array)} values", expected=f"{T}")
    return np.broadcast_to(array, (T,)).copy()


# Terms with one parameter a joint, and terms that are kept to some joints.


class JointTerm(Term):
    """A term with one parameter a joint, which acts on that joint alone: tau_j = theta_j basis_j(samples).

    It acts on the motor's side unless a subclass says otherwise.
    Subclasses give `symbol`, `unit_revolute`, `unit_prismatic` and `basis`; with a field `joints` it can be kept to
    some joints (empty = all).
    """

    symbol: str
    unit_revolute: str
    unit_prismatic: str
    lower: float = -np.inf
    traits = Traits(side=Side.MOTOR)
    needs_motion: ClassVar[bool] = True
    width: float = 0.0  # of the sign that it exports as, rad/s (m/s), 0 = plain
    joints: tuple[str, ...] = ()

    @abstractmethod
    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Torque per unit of the parameter, (T, n)."""

    def prior(self, robot: RobotModel) -> Float:
        """Prior values, (n,); nan = unknown."""
        return np.full(robot.n, np.nan)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column a joint."""
        prior = self.prior(robot)
        return tuple(
            Column(
                name=f"{self.symbol}{joint + 1}",
                unit=self.unit_prismatic if robot.prismatic[joint] else self.unit_revolute,
                term=self.name,
                owner=joint,
                prior=float(prior[joint]),
                lower=self.lower,
                moved_by=(joint,) if self.needs_motion else (),
            )
            for joint in joint_indices(robot, self.joints)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """One line a wanted joint."""
        return self.panels(robot, samples, self.basis(robot, samples), wanted)

    def panels(self, robot: RobotModel, samples: Samples, basis: Float, wanted: Bool) -> Panels:
        """Column j of a basis (T, n) as the one line of joint j, for wanted joints."""
        lines, acting = np.ascontiguousarray(basis.T), joint_indices(robot, self.joints)
        return panels_of(
            robot, samples, {j: ([i], lines[j : j + 1]) for i, j in enumerate(acting) if wanted[i]}
        )


@forms.exported_parts.register(JointTerm)
def _(term: JointTerm, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """One line a joint, where the basis is one that other programs know; its width is that of the term."""
    basis = term.traits.basis
    if basis is None:
        return forms.exported_parts.dispatch(object)(term, robot, theta)
    acting = joint_indices(robot, term.joints)
    return tuple(OnJoint(j, float(x), basis, term.width) for j, x in zip(acting, theta, strict=True))


TermOnJoints = TypeVar("TermOnJoints", bound=Term)
SomeTerm = TypeVar("SomeTerm", bound=Term)


def sharpened(terms: Terms, width: float) -> Terms:
    """The terms with signs of dry friction smoothed over `width` rad/s (m/s), or less, where they were over more."""
    return Terms(
        tuple(
            replace(term, width=width)
            if isinstance(term, JointTerm) and term.traits.basis is MotionBasis.SIGN and term.width > width
            else term
            for term in terms
        )
    )


def narrowed(term: SomeTerm, slowness: float) -> SomeTerm:
    """The term with signs of friction smoothed over a share of their width, as of robots that are as much slower."""
    inner = getattr(term, "of", None)
    if isinstance(inner, Term) and slowness != 1.0:
        return cast(SomeTerm, replace(cast(Any, term), of=narrowed(inner, slowness)))
    width = getattr(term, "width", None)
    if slowness == 1.0 or "width" not in term.__dataclass_fields__ or not isinstance(width, float):
        return term
    return cast(SomeTerm, replace(cast(Any, term), width=width * slowness))


def on_joints(term: TermOnJoints, joints: tuple[str, ...]) -> TermOnJoints:
    """The term kept to named joints, () = all; raises UsageError for a term that has no joints to name."""
    if "joints" not in getattr(term, "__dataclass_fields__", {}):
        raise UsageError(
            "term-joints", found=f"term '{term.name}'", expected="a term that acts joint by joint"
        )
    return replace(term, joints=joints)


def joints_of(term: Term) -> tuple[str, ...]:
    """Names of the joints that a term is kept to; () = all."""
    return tuple(getattr(term, "joints", ()))


def named_joints(robot: RobotModel, joints: Sequence[int]) -> tuple[str, ...]:
    """Names of joints for the field `joints` of a term: () where they are all."""
    return () if len(joints) == robot.n else tuple(robot.joint_names[j] for j in joints)


def joint_indices(robot: RobotModel, names: tuple[str, ...]) -> tuple[int, ...]:
    """Indices of named joints in ascending order, all of them for no name; raises UsageError for an unknown one."""
    if not names:
        return tuple(range(robot.n))
    for name in names:
        if name not in robot.joint_names:
            raise UsageError(
                "unknown-joint",
                found=f"joint '{name}' of a term",
                expected="one of " + ", ".join(robot.joint_names),
                do=meant(name, robot.joint_names),
            )
    return tuple(j for j, name in enumerate(robot.joint_names) if name in names)


def proposal_by_joint(robot: RobotModel, term: Term, label: str, option: str, **more: Any) -> Proposal:
    """A candidate that is chosen joint by joint.    term: on all joints.    more: further fields."""
    fields: dict[str, Any] = {
        "variants": (term,),
        "places": tuple(column.owner for column in term.columns(robot)),
        "build": lambda places: on_joints(term, named_joints(robot, places)),
    }
    chosen = term.selection
    return Proposal(label, chosen.role or Role.ROBOT, chosen.question, option=option, **(fields | more))


def by_joint(
    label: str, option: str = "", make: Callable[[LogFacts], Term | None] | None = None, **more: Any
) -> Callable[[type[Term], RobotModel, LogFacts], tuple[Proposal, ...]]:
    """A term's `Selection.proposed`: itself, joint by joint.

    Parameters
    ----------
    label, option : str
        As of a `Proposal`; the option is the label unless it is given.
    make : callable, optional
        The term on all joints for a log, None where it is not tried; the class without options otherwise.
    **more
        Further fields of the proposal.

    """

    def proposed(kind: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        term = kind() if make is None else make(log)
        return () if term is None else (proposal_by_joint(robot, term, label, option or label, **more),)

    return proposed
