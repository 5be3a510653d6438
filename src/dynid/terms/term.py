"""Terms, their sums, and proposals of terms to the automatic choice of the model."""

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
from dynid.terms.residual_tests import TermWords, nothing

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


@dataclass(frozen=True, eq=False)
class Selection:
    """How the automatic choice of the model uses a term.

    Attributes
    ----------
    role : Role or None
        Its role; None = it takes no part.
    question : Question
        The question that it answers.
    proposed : callable
        Proposals for a log, from the class of the term, the robot and facts about the log.
    described : callable
        Terms for effects that the robot file describes, which every model contains.
    covers : tuple of str
        Labels of plain effects that it includes, which are left out of models with it.

    """

    role: Role | None = None
    question: Question = Question("")
    proposed: Callable[[type[Any], RobotModel, LogFacts], tuple[Proposal, ...]] = nothing
    described: Callable[[RobotModel], tuple[Term, ...]] = nothing
    covers: tuple[str, ...] = ()


class Term(ABC):
    """One physical effect, linear in its parameters. Terms add: RigidBody() + Viscous().

    A new effect is one file: a frozen dataclass with `columns` and `torque_regressor` (or a `JointTerm` with `basis`,
    or a `CurveTerm` with `curve`), registered in `dynid.terms.catalogue`. docs/extending.md has examples.

    Attributes
    ----------
    name : str
        Name in experiments and run folders.
    traits : Traits
        Its properties for programs.
    words : TermWords
        Its notation, the signs of its absence, the meaning of its size.
    selection : Selection
        How the automatic choice uses it.

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

    if not TYPE_CHECKING:  # type checkers must report the old members as unknown

        def __getattr__(self, name):
            # Members of the interface of dynid 0.1 become attributes when dynid.terms.old is imported.
            if name in OLD_MEMBERS and _old_interface():
                return getattr(self, name)
            raise AttributeError(f"'{type(self).__name__}' has no attribute '{name}'")

    @abstractmethod
    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Parameters of the term for a robot."""

    @abstractmethod
    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Columns of Y in tau = Y theta, per joint.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        samples : Samples
            Motion; that of the motors if the term acts on their side.
        wanted : ndarray of bool, shape (p,)
            Parameters that get columns.

        Returns
        -------
        Panels
            For each joint the indices of its non-zero columns, counted within the term, and their values.

        """

    def __add__(self, other: Term | Terms) -> Terms:
        return Terms((self,)) + other


# Members of the interface of dynid 0.1, listed here so that dynid.terms.old is imported only if one is used.
OLD_MEMBERS = frozenset(
    (
        *("against_description", "alive", "alternatives", "balances"),
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
    # Imported late because dynid.terms.old imports this module.
    return import_module("dynid.terms.old")


def _batch_by_batch(term: Term, batches: Sequence[Samples]) -> Callable[[RobotModel, Samples, Bool], Panels]:
    """Regressor of joined batches that a term evaluates separately."""

    def regressor(robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        parts = [term.torque_regressor(robot, forms.seen_by(term, batch), wanted) for batch in batches]
        values = zip(*(part.values for part in parts), strict=True)
        return Panels(parts[0].columns, tuple(np.concatenate(lines, axis=1) for lines in values))

    return regressor


@dataclass(frozen=True)
class Terms:
    """A sum of terms: the model whose parameters are estimated. Columns are in the order of the terms."""

    terms: tuple[Term, ...]

    def __add__(self, other: Term | Terms) -> Terms:
        return Terms(self.terms + (other.terms if isinstance(other, Terms) else (other,)))

    def __iter__(self) -> Iterator[Term]:
        return iter(self.terms)

    @cached_property
    def after_first(self) -> Terms:
        """All terms except the first."""
        return Terms(self.terms[1:])

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """All parameters in order.

        Lower bounds of friction are removed if another term contains known friction, since a correction of known
        friction may have either sign.

        Raises
        ------
        UsageError
            If two parameters have the same name.

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
                found=f"parameters {', '.join(twice)} of two terms",
                expected="each parameter in one term",
            )
        return columns

    def channels(self) -> tuple[str, ...]:
        """Names of the extra log channels that the terms read, without repetition."""
        return tuple(dict.fromkeys(name for term in self.terms for name in forms.channels_of(term)))

    def clock(self) -> tuple[float, float] | None:
        """First and last time, s, for which terms are valid; None = any time."""
        times = [time for term in self.terms if (time := forms.clock_of(term)) is not None]
        return (min(start for start, _ in times), max(end for _, end in times)) if times else None

    def torque_regressor(
        self,
        robot: RobotModel,
        samples: Samples,
        wanted: Bool | None = None,
        target: Float | None = None,
        joints: Bool | None = None,
        batches: Sequence[Samples] = (),
    ) -> Panels:
        """Y of all terms per joint, without structurally zero columns.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        samples : Samples
            Motion.
        wanted : ndarray of bool, shape (p,), optional
            Parameters that get columns; None = all.
        target : ndarray, shape (T, n), optional
            Values that each joint's panel gets as its last line.
        joints : ndarray of bool, shape (n,), optional
            Joints that get columns; None = all.
        batches : sequence of Samples
            The batches from which `samples` were joined. Terms that read along time evaluate them separately.

        Returns
        -------
        Panels

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
        """The part of Y that acts on the motors; parameters as in `torque_regressor`."""
        counts = self._counts(robot)
        parts = (
            (partial(forms.motor_regressor, term), forms.seen_by(term, samples), n)
            for term, n in zip(self.terms, counts, strict=True)
        )
        return side_by_side(robot, parts, samples, wanted, target)

    def _counts(self, robot: RobotModel) -> tuple[int, ...]:
        # Numbers of parameters, cached because filters and simulations ask thousands of times for the same robot.
        latest: tuple[RobotModel, tuple[int, ...]] | None = self.__dict__.get("_latest_counts")
        if latest is None or latest[0] is not robot:
            latest = robot, tuple(forms.parameter_count(term, robot) for term in self.terms)
            self.__dict__["_latest_counts"] = latest
        return latest[1]

    def within(self, robot: RobotModel, extent: Extent) -> Terms:
        """The terms bounded to the range of motion of the log that they are fitted to; see `within_extent`."""
        return Terms(tuple(forms.within_extent(term, robot, extent) for term in self.terms))

    def friction_columns(self, robot: RobotModel) -> Bool:
        """Mask (p,) of the parameters of friction."""
        parts = [np.full(len(term.columns(robot)), _is_friction(term)) for term in self.terms]
        return np.concatenate([np.zeros(0, dtype=np.bool_), *parts])

    @property
    def remembers(self) -> bool:
        """Whether a term reads the motion before the given samples."""
        return any(Reads.PAST in term.traits.reads for term in self.terms)

    @property
    def reads_rate(self) -> bool:
        """Whether a term differentiates along time."""
        return any(Reads.RATE in term.traits.reads for term in self.terms)

    @property
    def along_time(self) -> bool:
        """Whether a term reads more than each sample by itself."""
        return any(term.traits.reads for term in self.terms)

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Mask (p,) of the parameters that a log in which only `moved` joints (n,) moved can determine."""
        return np.concatenate(
            [np.zeros(0, dtype=np.bool_), *(forms.alive_columns(term, robot, moved) for term in self.terms)]
        )

    def balances(self, robot: RobotModel) -> Bool:
        """Mask (n,) of the joints whose gravity torque may be carried by a term other than the rigid links."""
        carried = np.zeros(robot.n, dtype=np.bool_)
        for term in self.terms:
            carried |= forms.balanced_joints(term, robot)
        return carried

    def momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """P and R of all terms with Y theta = d(P theta)/dt + R theta, for the wanted parameters (p,)."""
        return self._momentum(forms.momentum_form, robot, samples, wanted)

    def motor_momentum_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
        """The part of `momentum_form` that acts on the motors."""
        return self._momentum(forms.motor_momentum_form, robot, samples, wanted)

    def _momentum(
        self, form: MomentumForm, robot: RobotModel, samples: Samples, wanted: Bool
    ) -> tuple[Panels, Panels]:
        parts = [
            form(term, robot, seen, part_wanted)
            for term, seen, part_wanted in self._each(robot, samples, wanted)
        ]
        P, R = (self._joined(robot, samples, [part[i] for part in parts]) for i in range(2))
        return P, R

    def _each(
        self, robot: RobotModel, samples: Samples, wanted: Bool
    ) -> Iterator[tuple[Term, Samples, Bool]]:
        # Every term with its samples and its part of a mask (p,).
        for term, part_wanted in zip(self.terms, split(wanted, self._counts(robot)), strict=True):
            yield term, forms.seen_by(term, samples), part_wanted

    def _joined(self, robot: RobotModel, samples: Samples, parts: list[Panels]) -> Panels:
        return joined(robot, parts, self._counts(robot), samples)

    def energy_form(self, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
        """Energy h (w, T) and W of all terms, dq' Y theta = d(h theta)/dt + dq' W theta, for w wanted parameters."""
        parts = [
            forms.energy_form(term, robot, seen, part_wanted)
            for term, seen, part_wanted in self._each(robot, samples, wanted)
        ]
        stored = np.concatenate([np.zeros((0, len(samples))), *(part[0] for part in parts)])
        return stored, self._joined(robot, samples, [part[1] for part in parts])

    def motor_work(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The part of W of `energy_form` that acts on the motors."""
        parts = [
            forms.motor_work(term, robot, seen, part_wanted)
            for term, seen, part_wanted in self._each(robot, samples, wanted)
        ]
        return self._joined(robot, samples, parts)

    @property
    def of_motors(self) -> Terms:
        """The terms on the motors' side."""
        return Terms(tuple(term for term in self.terms if term.traits.side is Side.MOTOR))

    def known_momentum(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
        """`known_torque` as dP/dt + R: P and R, (T, n) each."""
        return self._known_form(forms.known_momentum, np.zeros((len(samples), robot.n)), robot, samples)

    def known_energy(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
        """`known_torque` as stored energy (T,) and other torque that does work (T, n)."""
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
        """Joint torque (T, n) of the model for parameter values theta (p,), known torque included."""
        total = self.known_torque(robot, samples)
        for term, values in self.with_values(robot, theta):
            if values.any():
                total += forms.torque_of(term, robot, forms.seen_by(term, samples), values)
        return total

    def with_values(self, robot: RobotModel, theta: Float) -> Iterator[tuple[Term, Float]]:
        """Each term with its part of the values (p,) of all parameters."""
        return zip(self.terms, split(theta, self._counts(robot)), strict=True)

    def known_torque(self, robot: RobotModel, samples: Samples, batches: Sequence[Samples] = ()) -> Float:
        """Torque (T, n) without unknown parameters, summed over the terms; `batches` as in `torque_regressor`."""
        if batches and self.along_time:
            return np.concatenate([self._known(robot, batch, self.terms) for batch in batches])
        return self._known(robot, samples, self.terms)

    def known_motor_torque(self, robot: RobotModel, samples: Samples) -> Float:
        """The part of `known_torque` that acts on the motors, (T, n)."""
        return self._known(robot, samples, self.of_motors.terms)

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
    """An effect that the automatic choice compares with models without it.

    Attributes
    ----------
    label : str
        Name in comparisons and reports; proposals with the same label are chosen together.
    role : Role
        Role of the term.
    question : Question
        Question of the choice that it answers.
    variants : tuple of Term
        Terms in the wide model, one for each value of the shapes that is tried.
    places : tuple of int
        Place of each column of a variant: its joint, its pair of joints, or EVERYWHERE.
    build : callable
        Term for the final model from the places where the effect was chosen; its shapes are still to be estimated.
    option : str
        Name among the answers of its question; {joints}, {count} and {s} are replaced by the joints, the number of
        places, and the ending of the plural.
    replaces : tuple of str
        Labels of plain effects that it replaces.
    positive : bool
        Whether it is only chosen where its parameters with a bound of zero are positive.
    alike : str
        Label of an effect of single joints that must have about the same size on all of them.
    measured : bool
        Whether its size is reported if it is not chosen.
    instead_of : tuple of str
        Labels that are left out of the model for that measurement.
    relative : bool
        Whether its sizes are relative to the first place where it was not chosen.
    auxiliary : tuple of str
        Names of parameters whose only purpose is to keep others unbiased.
    shield : str
        Label of a shield that nearly contains it, and that it replaces at the same joint.
    both_ways : bool
        Whether it is the same as dry friction on a joint that moved in one direction, where it is not tried.
    moving : bool
        Whether a joint at rest gives no evidence of it, so that it is not tried there.

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
        """Name among the answers of its question for some places."""
        joints = ", ".join(robot.joint_names[j] for j in places if 0 <= j < robot.n)
        return self.option.format(joints=joints, count=len(places), s="" if len(places) == 1 else "s")


def proposal_of_robot(robot: RobotModel, term: Term, label: str, option: str, **more: Any) -> Proposal:
    """Proposal of an effect that is chosen for the whole robot.

    `term`: the term of the wide model, and of the final model unless `build` is given; `**more`: further fields of the
    proposal.
    """
    places = (EVERYWHERE,) * len(term.columns(robot))
    fields: dict[str, Any] = {"variants": (term,), "places": places, "build": lambda _: term}
    chosen = term.selection
    return Proposal(label, chosen.role or Role.ROBOT, chosen.question, option=option, **(fields | more))


# Terms by their name in experiments and run folders; dynid.terms.catalogue fills it.
CATALOGUE: Registry[type[Term]] = Registry("term", "dynid.terms", {})


def _is_friction(term: Term) -> bool:
    return term.traits.kind is Kind.FRICTION


# Motion states given by a user: one (n,) or many (T, n).


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
    """Make samples of given states.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        Model, which may read extra channels.
    q, dq, ddq : array_like, shape (T, n) or (n,)
        Motion: many states, or one.
    rate : float, Hz, optional
        Sampling rate of consecutive states. None = independent states, all at the beginning of the log's time.
    temperature : array_like, shape of q, degC, optional
        Temperatures of the drives.
    extra : mapping of str to array_like, shape (T,), optional
        Extra channels by name.

    Returns
    -------
    samples : Samples
        The states.
    shape : tuple of int
        Shape of q, which is that of their torque.

    Raises
    ------
    UsageError
        If an array has another shape, a channel that a term reads is missing, or the rate is not positive.

    """
    if missing := [name for name in terms.channels() if name not in (extra or {})]:
        raise UsageError(
            "missing-channel",
            found=f"no channel '{missing[0]}', which the model reads, in the given states",
            expected=f"extra = {{'{missing[0]}': values}}, (T,)",
        )
    if rate is not None and not 0 < rate < np.inf:
        raise UsageError(
            "no-rate",
            found=f"rate = {rate} Hz",
            expected="a sampling rate > 0 of consecutive states, or None",
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
            expected=f"(T, {robot.n}) or ({robot.n},), the same for q, dq and ddq: '{robot.name}' has {robot.n} joints",
        )
    return array.reshape(-1, robot.n)


def _channel(values: npt.ArrayLike, T: int, name: str) -> Float:
    array = np.array(values, dtype=np.float64).reshape(-1)
    if len(array) not in (1, T):
        raise UsageError(
            "array-shape",
            found=f"channel '{name}' with {len(array)} values",
            expected=f"{T}, one per state, or 1",
        )
    return np.broadcast_to(array, (T,)).copy()


# Terms with one parameter per joint, and terms restricted to some joints.


class JointTerm(Term):
    """A term with one parameter per joint: tau_j = theta_j basis_j(samples).

    It acts on the motor's side unless `traits` say otherwise. Subclasses define the attributes without default and
    `basis`; with a dataclass field `joints` the term can be restricted to some joints.

    Attributes
    ----------
    symbol : str
        Name of the parameter without the number of the joint.
    unit_revolute, unit_prismatic : str
        Unit of the parameter for each type of joint.
    lower : float
        Physical lower bound of the parameter.
    needs_motion : bool
        Whether the joint has to move to make its parameter identifiable.
    width : float, rad/s (m/s)
        Width of the smoothed sign in exports; 0 = no smoothing.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    symbol: str
    unit_revolute: str
    unit_prismatic: str
    lower: float = -np.inf
    traits = Traits(side=Side.MOTOR)
    needs_motion: ClassVar[bool] = True
    width: float = 0.0
    joints: tuple[str, ...] = ()

    @abstractmethod
    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Torque per unit of the parameter, (T, n)."""

    def prior(self, robot: RobotModel) -> Float:
        """Prior values (n,); nan = unknown."""
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
        """One line per wanted joint."""
        return self.panels(robot, samples, self.basis(robot, samples), wanted)

    def panels(self, robot: RobotModel, samples: Samples, basis: Float, wanted: Bool) -> Panels:
        """Column j of a basis (T, n) as the line of joint j, for wanted parameters."""
        lines, acting = np.ascontiguousarray(basis.T), joint_indices(robot, self.joints)
        return panels_of(
            robot, samples, {j: ([i], lines[j : j + 1]) for i, j in enumerate(acting) if wanted[i]}
        )


@forms.exported_parts.register(JointTerm)
def _(term: JointTerm, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """One part per joint if the basis is one that exported files can express."""
    basis = term.traits.basis
    if basis is None:
        return forms.exported_parts.dispatch(object)(term, robot, theta)
    acting = joint_indices(robot, term.joints)
    return tuple(OnJoint(j, float(x), basis, term.width) for j, x in zip(acting, theta, strict=True))


TermOnJoints = TypeVar("TermOnJoints", bound=Term)
SomeTerm = TypeVar("SomeTerm", bound=Term)


def sharpened(terms: Terms, width: float) -> Terms:
    """Limit the widths of the smoothed sign of dry friction to `width`, rad/s (m/s)."""
    return Terms(
        tuple(
            replace(term, width=width)
            if isinstance(term, JointTerm) and term.traits.basis is MotionBasis.SIGN and term.width > width
            else term
            for term in terms
        )
    )


def narrowed(term: SomeTerm, slowness: float) -> SomeTerm:
    """Multiply the width of a term's smoothed sign by `slowness`, for robots with slow joints."""
    inner = getattr(term, "of", None)
    if isinstance(inner, Term) and slowness != 1.0:
        return cast(SomeTerm, replace(cast(Any, term), of=narrowed(inner, slowness)))
    width = getattr(term, "width", None)
    if slowness == 1.0 or "width" not in term.__dataclass_fields__ or not isinstance(width, float):
        return term
    return cast(SomeTerm, replace(cast(Any, term), width=width * slowness))


def on_joints(term: TermOnJoints, joints: tuple[str, ...]) -> TermOnJoints:
    """Restrict a term to named joints, () = all.

    Raises UsageError if the term has no field `joints`.
    """
    if "joints" not in getattr(term, "__dataclass_fields__", {}):
        raise UsageError(
            "term-joints",
            found=f"joints for term '{term.name}', which has no option joints",
            expected="a term of single joints",
        )
    return replace(term, joints=joints)


def joints_of(term: Term) -> tuple[str, ...]:
    """Names of the joints to which a term is restricted; () = all."""
    return tuple(getattr(term, "joints", ()))


def named_joints(robot: RobotModel, joints: Sequence[int]) -> tuple[str, ...]:
    """Names of joints for the field `joints` of a term; () if they are all."""
    return () if len(joints) == robot.n else tuple(robot.joint_names[j] for j in joints)


def joint_indices(robot: RobotModel, names: tuple[str, ...]) -> tuple[int, ...]:
    """Indices of named joints in ascending order; all joints for no names.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    names : tuple of str
        Names of joints.

    Raises
    ------
    UsageError
        If a joint is unknown.

    """
    if not names:
        return tuple(range(robot.n))
    for name in names:
        if name not in robot.joint_names:
            raise UsageError(
                "unknown-joint",
                found=f"joint '{name}' in a term",
                expected="one of " + ", ".join(robot.joint_names),
                do=meant(name, robot.joint_names),
            )
    return tuple(j for j, name in enumerate(robot.joint_names) if name in names)


def proposal_by_joint(robot: RobotModel, term: Term, label: str, option: str, **more: Any) -> Proposal:
    """Proposal of an effect that is chosen per joint.

    `term`: the term on all joints; `**more`: further fields of the proposal.
    """
    fields: dict[str, Any] = {
        "places": tuple(column.owner for column in term.columns(robot)),
        "build": lambda places: on_joints(term, named_joints(robot, places)),
    }
    return proposal_of_robot(robot, term, label, option, **(fields | more))


def by_joint(
    label: str, option: str = "", make: Callable[[LogFacts], Term | None] | None = None, **more: Any
) -> Callable[[type[Term], RobotModel, LogFacts], tuple[Proposal, ...]]:
    """`Selection.proposed` of a term that is chosen per joint.

    `label`, `option`: as in `Proposal`; the option is the label by default; `make`: returns the term on all joints for
    a log, or None to leave it out; by default the class without options; `**more`: further fields of the proposal.
    """

    def proposed(kind: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        term = kind() if make is None else make(log)
        return () if term is None else (proposal_by_joint(robot, term, label, option or label, **more),)

    return proposed
