"""Terms of several coefficients a joint and a shape: linear in the coefficients, nonlinear in the shape."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, singledispatch
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import (
    FRICTION,
    Column,
    FrictionForm,
    JointMotion,
    Kind,
    LogFacts,
    Part,
    Reads,
    Role,
    Side,
    Traits,
    panels_of,
)
from dynid.terms.forms import alternatives, exported_parts, held_term, parameter_count
from dynid.terms.friction import WIDTH, Coulomb, Offset, Viscous
from dynid.terms.term import (
    CATALOGUE,
    Proposal,
    Selection,
    SomeTerm,
    Term,
    Terms,
    joint_indices,
    narrowed,
    on_joints,
    proposal_by_joint,
)

__all__ = ["Coefficient", "CurveTerm", "FrictionCurve", "JointMotion", "Shape", "ShapeValue", "check_shapes"]


ShapeValue = float | tuple[float, ...] | None
Shaped = TypeVar("Shaped", bound="ShapedTerm")


@dataclass(frozen=True)
class Coefficient:
    """A linear parameter of every joint.    lower: physical bound."""

    symbol: str
    unit_revolute: str
    unit_prismatic: str
    lower: float = -np.inf


@dataclass(frozen=True)
class Shape:
    """A nonlinear parameter of every joint; `name` is also the field of the term that holds its values.

    typical: the value that stands in while it is estimated.
    positive: whether it is > 0 and estimated on a logarithmic scale.
    bounds: from the term and a joint's motion, between which such a motion can determine it; None = it has to be given.
    """

    name: str
    unit_revolute: str
    unit_prismatic: str
    typical: float
    positive: bool = True
    bounds: Callable[[Any, JointMotion], tuple[float, float]] | None = None


class ShapedTerm(Term):
    """A term of single joints (or motors) that may have shapes: a CurveTerm, or one that holds one in its field `of`.

    joints: names of the joints (whose motors) it acts on; () = all.
    """

    joints: tuple[str, ...] = ()


def _by_form(kind: type[CurveTerm], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Its form, at a few values of its shapes within each joint's own range."""
    form = kind.form
    if form is None or (kind.shapes and not form.tried):
        return ()
    term = narrowed(kind(**form.options), log.slowness)
    variants: tuple[CurveTerm, ...] = (term,)
    if kind.shapes:
        ranges = np.array([range_of(term, motion if motion.peak > 0 else _STILL) for motion in log.motion])
        variants = tuple(with_shape_table(term, _shapes_at(term, ranges, share)) for share in form.tried)
    more = {"variants": variants, "replaces": form.replaces, "both_ways": form.both_ways}
    return (proposal_by_joint(robot, term, form.label, form.label, **more),)


class CurveTerm(ShapedTerm):
    """tau_j = sum_k theta_jk curve_k(samples, j; shape_j), on joints alone.

    Subclasses are frozen dataclasses with `coefficients`, `shapes`, `curve`, one field a shape (None = estimated, a
    number for all joints, or one a joint), and usually a field `joints`.
    """

    shapes: tuple[Shape, ...] = ()
    traits = Traits(Kind.FRICTION, Side.MOTOR)
    selection = Selection(Role.FRICTION, FRICTION, _by_form)
    form: ClassVar[FrictionForm | None] = None

    @property
    @abstractmethod
    def coefficients(self) -> tuple[Coefficient, ...]:
        """The linear parameters of every joint; a class attribute will do."""

    @abstractmethod
    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Torque per unit of each coefficient, (c, T), for a joint and its shape (s,)."""

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The coefficients, joint by joint."""
        return tuple(
            Column(
                name=f"{c.symbol}{joint + 1}",
                unit=c.unit_prismatic if robot.prismatic[joint] else c.unit_revolute,
                term=self.name,
                owner=joint,
                lower=c.lower,
                moved_by=(joint,),
            )
            for joint in joint_indices(robot, self.joints)
            for c in self.coefficients
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The wanted lines of each joint's curves."""
        c = len(self.coefficients)
        table = shape_table(self, robot)
        typical = np.array([shape.typical for shape in self.shapes])
        lines = {}
        for i, joint in enumerate(joint_indices(robot, self.joints)):
            keep = np.flatnonzero(wanted[i * c : (i + 1) * c])
            if len(keep):
                shape = np.where(np.isnan(table[i]), typical, table[i])
                lines[joint] = i * c + keep, self.curve(robot, samples, joint, shape)[keep]
        return panels_of(robot, samples, lines)


# What a search for shapes asks of a term with them.


def shapes_of(term: Term) -> tuple[Shape, ...]:
    """The nonlinear parameters of every joint of a term; () = it has none."""
    curve = held_term(term)
    return curve.shapes if isinstance(term, ShapedTerm) and isinstance(curve, CurveTerm) else ()


def shape_table(term: ShapedTerm, robot: RobotModel) -> Float:
    """(m, s) values of the shapes for the m joints that a term acts on, nan = estimated.

    Raises UsageError if there are neither one nor m values.
    """
    acting, shapes = joint_indices(robot, term.joints), shapes_of(term)
    table = np.full((len(acting), len(shapes)), np.nan)
    for k, shape in enumerate(shapes):
        value = getattr(held_term(term), shape.name)
        if value is None:
            continue
        values = np.atleast_1d(np.array(value, dtype=np.float64))
        if len(values) not in (1, len(acting)):
            raise UsageError(
                "shape-values",
                found=f"{len(values)} values of {shape.name} of term '{held_term(term).name}'",
                expected=f"one, or one for each of {len(acting)} joints",
            )
        table[:, k] = values
    return table


def with_shape_table(term: SomeTerm, table: Float) -> SomeTerm:
    """A term with other shapes (m, s); nan = estimated."""
    values = {
        shape.name: None if np.isnan(table[:, k]).any() else tuple(table[:, k].tolist())
        for k, shape in enumerate(shapes_of(term))
    }
    return holding(term, replace(held_term(term), **values))


def of_joints(term: Shaped, robot: RobotModel, joints: Sequence[int]) -> Shaped:
    """A term on some of its joints, with their shapes."""
    acting = joint_indices(robot, term.joints)
    if shapes_of(term):
        term = with_shape_table(term, shape_table(term, robot)[[acting.index(j) for j in joints]])
    return holding(term, on_joints(held_term(term), tuple(robot.joint_names[j] for j in joints)))


def holding(term: SomeTerm, held: Any) -> SomeTerm:
    """A term with another one in its field `of`; the other one itself where it has no such field."""
    return cast(SomeTerm, held if held_term(term) is term else replace(cast(Any, term), of=held))


@singledispatch
def range_of(curve: CurveTerm, motion: JointMotion) -> Float:
    """(s, 2) bounds of the shapes that a motion can determine, nan-free; raises UsageError for a shape without any."""
    if without := [shape.name for shape in curve.shapes if shape.bounds is None]:
        raise UsageError(
            "shape-values",
            found=f"no {without[0]} of term '{curve.name}'",
            expected="a value, or bounds of the shape",
        )
    return np.array([shape.bounds(curve, motion) for shape in curve.shapes if shape.bounds]).reshape(-1, 2)


def _shapes_at(curve: CurveTerm, ranges: Float, share: float | Float) -> Float:
    # Shapes (m, s) at a share of their ranges (m, s, 2), logarithmic where they are positive.
    low, high = ranges[..., 0], ranges[..., 1]
    positive = np.array([shape.positive for shape in curve.shapes])
    a, b = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
    return np.asarray(np.where(positive, a * (b / a) ** share, low + (high - low) * share))


@singledispatch
def starts(curve: CurveTerm, motion: JointMotion) -> Float:
    """(k, s) values to start the search from: shares of the range on each shape's own scale."""
    low, high = range_of(curve, motion).T
    positive = np.array([shape.positive for shape in curve.shapes])
    shares = np.array([0.15, 0.4, 0.65, 0.9])[:, None]
    safe = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
    logarithmic = safe[0] * (safe[1] / safe[0]) ** shares
    return np.asarray(np.where(positive, logarithmic, low + (high - low) * 0.5))


@singledispatch
def tried_shapes(curve: CurveTerm, motion: JointMotion) -> Float:
    """(k, s) values at which forms are compared: those of the form, or else the starts of the search."""
    if curve.form is None or not curve.form.tried:
        return starts(curve, motion)
    return np.stack([_shapes_at(curve, range_of(curve, motion), share) for share in curve.form.tried])


@singledispatch
def rival_of(term: Any, joints: tuple[str, ...]) -> Terms:
    """What would stand in the model in place of a curve on some joints, to judge its worth: what its form replaces."""
    if (curve := held_term(term)) is not term:
        return Terms(tuple(holding(term, plain) for plain in rival_of(curve, joints)))
    replaced = () if term.form is None else term.form.replaces
    return Terms(tuple(make(joints) for label, make in _PLAIN.items() if label in replaced))


@singledispatch
def followed(term: Term, robot: RobotModel, samples: Samples) -> tuple[Samples, Float]:
    """Samples of the motion that a term's shapes are about, and how many of a joint's units each is, (n,)."""
    return samples, np.ones(robot.n)


def subject(term: Term) -> str:
    """What a term is called in comparisons."""
    return term.name if held_term(term) is term else f"{held_term(term).name} at the motor"


def shape_name(term: ShapedTerm, k: int, joint: int) -> str:
    """Name of the k-th shape of a joint."""
    name = f"{shapes_of(term)[k].name}{joint + 1}"
    return name if held_term(term) is term else motor_name(name)


def shape_unit(term: ShapedTerm, robot: RobotModel, k: int, joint: int) -> str:
    """Unit of the k-th shape of a joint; motors turn whatever their joints do."""
    shape, slides = shapes_of(term)[k], robot.prismatic[joint] and held_term(term) is term
    return shape.unit_prismatic if slides else shape.unit_revolute


def motor_name(name: str) -> str:
    """The name of a joint's parameter at the motor: fv3 -> fvm3."""
    return re.sub(r"(\d*)$", r"m\1", name, count=1)


@singledispatch
def c_texts(curve: CurveTerm, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """A C expression for each coefficient's share, of the name of the joint's speed.

    shape: (s,).    None for a curve of more than the speed, which is not exported.
    """
    return None


@parameter_count.register(CurveTerm)
def _(term: CurveTerm, robot: RobotModel) -> int:
    """Counted without making them: trials of shapes ask thousands of times."""
    return len(joint_indices(robot, term.joints)) * len(term.coefficients)


@exported_parts.register(CurveTerm)
def _(term: CurveTerm, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """A curve a joint that has any of it; None where the curve has no text."""
    table, c = shape_table(term, robot), len(term.coefficients)
    typical = np.array([shape.typical for shape in term.shapes])
    found: list[FrictionCurve] = []
    for i, joint in enumerate(joint_indices(robot, term.joints)):
        shape = np.where(np.isnan(table[i]), typical, table[i])
        if c_texts(term, joint, shape, "") is None:
            return None
        if theta[i * c : (i + 1) * c].any():
            found.append(FrictionCurve(term, joint, theta[i * c : (i + 1) * c], shape))
    return tuple(found)


@dataclass(frozen=True, eq=False)
class FrictionCurve(Part):
    """Friction of one joint that depends on its speed alone: tau = coefficients . curve(dq; shape).

    joint: index.    coefficients: (c,).    shape: (s,).
    """

    term: CurveTerm
    joint: int
    coefficients: Float
    shape: Float

    def __post_init__(self) -> None:
        for name in ("coefficients", "shape"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))

    def torque(self, robot: RobotModel, dq: Float) -> Float:
        """Torque (T,) of joint speeds (T, n)."""
        nothing = np.zeros_like(dq)
        samples = Samples.from_motion(nothing, dq, nothing, nothing)
        return np.asarray(self.coefficients @ self.term.curve(robot, samples, self.joint, self.shape))

    def c_texts(self, speed: str) -> tuple[str, ...]:
        """A C expression for each coefficient's share, of the name of the speed."""
        return c_texts(self.term, self.joint, self.shape, speed) or ()


_STILL = JointMotion(1.0, 1.0, 1.0)


def check_shapes(term: CurveTerm) -> None:
    """Raises UsageError for a shape that is not finite, or not positive where it must be."""
    for shape in term.shapes:
        value: ShapeValue = getattr(term, shape.name)
        given: Sequence[float] = () if value is None else value if isinstance(value, tuple) else (value,)
        for number in given:
            if not np.isfinite(number) or (shape.positive and not number > 0):
                raise UsageError(
                    "shape-values",
                    found=f"{shape.name} = {number} of term '{term.name}'",
                    expected="a finite number" + (" > 0" if shape.positive else ""),
                )


# Friction whose form is chosen by joint: the candidates, and the term that stands for the choice.

Names = tuple[str, ...]
BASELINE = "coulomb"
_PLAIN: dict[str, Callable[[Names], Term]] = {
    "viscous": lambda on: Viscous(joints=on),
    "coulomb": lambda on: Coulomb(WIDTH, joints=on),
    "offset": lambda on: Offset(joints=on),
}


class _Forms(Mapping[str, Callable[[Names], Terms]]):
    """Forms of friction by label, plain friction first: every term of the catalogue that has a form."""

    def __getitem__(self, label: str) -> Callable[[Names], Terms]:
        return self._all()[label]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())

    @staticmethod
    def _all() -> Mapping[str, Callable[[Names], Terms]]:
        kinds = [kind for kind in CATALOGUE.values() if issubclass(kind, CurveTerm) and kind.form]
        return {BASELINE: partial(_with_form, None)} | {
            kind.form.label: partial(_with_form, kind) for kind in kinds if kind.form
        }


def _with_form(kind: type[CurveTerm] | None, on: Names) -> Terms:
    """Plain friction with a form among it, on some joints."""
    if kind is None or kind.form is None:
        return Terms(tuple(make(on) for make in _PLAIN.values()))
    plain = [make(on) for label, make in _PLAIN.items() if label not in kind.form.replaces]
    return Terms((*plain, on_joints(kind(**kind.form.options), on)))


CANDIDATES: Mapping[str, Callable[[Names], Terms]] = _Forms()


@dataclass(frozen=True)
class FrictionChoice(Term):
    """Friction of the form that predicts held-out blocks best, joint by joint; in a result its choice stands instead.

    Until it is chosen it is viscous, Coulomb (width 0.02) and offset.
    choose: "auto" for all candidates, or names of some; "coulomb" is always among them.
    joints: names of the joints it acts on; empty = all.
    """

    choose: str | tuple[str, ...] = "auto"
    joints: tuple[str, ...] = ()
    name: str = "friction"
    traits = Traits(side=Side.MOTOR, reads=Reads.PAST)

    def __post_init__(self) -> None:
        unknown = [one for one in self.candidates if one not in CANDIDATES]
        if unknown:
            raise UsageError(
                "unknown-friction",
                found=f"friction '{unknown[0]}'",
                expected="'auto' or some of " + ", ".join(CANDIDATES),
            )

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the candidates, the baseline first."""
        if self.choose == "auto":
            return tuple(CANDIDATES)
        named = (self.choose,) if isinstance(self.choose, str) else self.choose
        return tuple(dict.fromkeys((BASELINE, *named)))

    def baseline(self) -> Terms:
        """The form it has before the choice."""
        return CANDIDATES[BASELINE](self.joints)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the baseline."""
        joint_indices(robot, self.joints)
        return tuple(replace(column, term=self.name) for column in self.baseline().columns(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the baseline."""
        return self.baseline().torque_regressor(robot, samples, np.asarray(wanted, dtype=np.bool_))


@alternatives.register(FrictionChoice)
def _(term: FrictionChoice, joints: tuple[str, ...]) -> Mapping[str, Terms]:
    """The candidates."""
    return {name: CANDIDATES[name](joints) for name in term.candidates}
