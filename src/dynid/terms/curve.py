"""Friction curves: linear in their coefficients, nonlinear in their shapes; and the choice among forms of friction."""

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
from dynid.terms.forms import alternatives, exported_parts, inner_term, parameter_count
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
    """A linear parameter of every joint.

    Attributes
    ----------
    symbol : str
        Name without the number of the joint.
    unit_revolute, unit_prismatic : str
        Unit for each type of joint.
    lower : float
        Physical lower bound.

    """

    symbol: str
    unit_revolute: str
    unit_prismatic: str
    lower: float = -np.inf


@dataclass(frozen=True)
class Shape:
    """A nonlinear parameter of every joint.

    Attributes
    ----------
    name : str
        Name without the number of the joint, and name of the field of the term with its values.
    unit_revolute, unit_prismatic : str
        Unit for each type of joint.
    typical : float
        Value that is used until it is estimated.
    positive : bool
        Whether it is > 0 and estimated on a logarithmic scale.
    bounds : callable or None
        Bounds within which a motion can determine it, from the term and a `JointMotion`; None = it must be given.

    """

    name: str
    unit_revolute: str
    unit_prismatic: str
    typical: float
    positive: bool = True
    bounds: Callable[[Any, JointMotion], tuple[float, float]] | None = None


class ShapedTerm(Term):
    """A term that may have shapes: a `CurveTerm`, or a wrapper of one, such as `OnMotor`.

    Attributes
    ----------
    joints : tuple of str
        Joints (or joints of the motors) on which it acts; () = all.

    """

    joints: tuple[str, ...] = ()


def _by_form(kind: type[CurveTerm], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Proposal of a curve's form, at a few values of its shapes within the range of each joint's motion."""
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
    """A term of single joints with shapes: tau_j = sum_k theta_jk curve_k(samples, j; shape_j).

    Subclasses are frozen dataclasses with `coefficients`, `shapes`, `curve`, one field per shape (None = estimated, a
    number for all joints, or one number per joint), and usually a field `joints`.

    Attributes
    ----------
    coefficients : tuple of Coefficient
        Linear parameters of every joint.
    shapes : tuple of Shape
        Nonlinear parameters of every joint.
    form : FrictionForm or None
        How it is compared with other forms of friction; None = it is not compared.

    """

    shapes: tuple[Shape, ...] = ()
    traits = Traits(Kind.FRICTION, Side.MOTOR)
    selection = Selection(Role.FRICTION, FRICTION, _by_form)
    form: ClassVar[FrictionForm | None] = None

    def __post_init__(self) -> None:
        check_shapes(self)

    @property
    @abstractmethod
    def coefficients(self) -> tuple[Coefficient, ...]:
        """Linear parameters of every joint; may be a class attribute."""

    @abstractmethod
    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Torque of a joint per unit of each coefficient.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        samples : Samples
            Motion of T samples.
        joint : int
            Index of the joint.
        shape : ndarray, shape (s,)
            Values of its shapes.

        Returns
        -------
        ndarray, shape (c, T)

        """

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The coefficients of joint after joint."""
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
        """The wanted curves of each joint."""
        c = len(self.coefficients)
        table = shape_values(self, robot)
        lines = {}
        for i, joint in enumerate(joint_indices(robot, self.joints)):
            keep = np.flatnonzero(wanted[i * c : (i + 1) * c])
            if len(keep):
                lines[joint] = i * c + keep, self.curve(robot, samples, joint, table[i])[keep]
        return panels_of(robot, samples, lines)


# Shapes of a term.


def shapes_of(term: Term) -> tuple[Shape, ...]:
    """Shapes of a term or of the term inside a wrapper; () = none."""
    curve = inner_term(term)
    return curve.shapes if isinstance(term, ShapedTerm) and isinstance(curve, CurveTerm) else ()


def shape_table(term: ShapedTerm, robot: RobotModel) -> Float:
    """Given values (m, s) of the shapes for the m joints on which a term acts; nan = to be estimated.

    Raises
    ------
    UsageError
        If there are neither one nor m values of a shape.

    """
    acting, shapes = joint_indices(robot, term.joints), shapes_of(term)
    table = np.full((len(acting), len(shapes)), np.nan)
    for k, shape in enumerate(shapes):
        value = getattr(inner_term(term), shape.name)
        if value is None:
            continue
        values = np.atleast_1d(np.array(value, dtype=np.float64))
        if len(values) not in (1, len(acting)):
            raise UsageError(
                "shape-values",
                found=f"{len(values)} values of {shape.name} of term '{inner_term(term).name}'",
                expected=f"one, or one for each of {len(acting)} joints",
            )
        table[:, k] = values
    return table


def with_shape_table(term: SomeTerm, table: Float) -> SomeTerm:
    """The term with other values (m, s) of its shapes; nan = to be estimated."""
    values = {
        shape.name: None if np.isnan(table[:, k]).any() else tuple(table[:, k].tolist())
        for k, shape in enumerate(shapes_of(term))
    }
    return with_inner(term, replace(inner_term(term), **values))


def shape_values(term: CurveTerm, robot: RobotModel) -> Float:
    """Values (m, s) of the shapes of a term, typical values in place of those to be estimated."""
    table = shape_table(term, robot)
    return np.where(np.isnan(table), [shape.typical for shape in term.shapes], table)


def of_joints(term: Shaped, robot: RobotModel, joints: Sequence[int]) -> Shaped:
    """The term restricted to some of its joints, with their shapes."""
    acting = joint_indices(robot, term.joints)
    if shapes_of(term):
        term = with_shape_table(term, shape_table(term, robot)[[acting.index(j) for j in joints]])
    return with_inner(term, on_joints(inner_term(term), tuple(robot.joint_names[j] for j in joints)))


def with_inner(term: SomeTerm, inner: Any) -> SomeTerm:
    """The wrapper `term` around another inner term; the other term itself if `term` is no wrapper."""
    return cast(SomeTerm, inner if inner_term(term) is term else replace(cast(Any, term), of=inner))


@singledispatch
def range_of(curve: CurveTerm, motion: JointMotion) -> Float:
    """Bounds (s, 2) within which a motion can determine the shapes.

    Raises
    ------
    UsageError
        If a shape has no bounds.

    """
    if without := [shape.name for shape in curve.shapes if shape.bounds is None]:
        raise UsageError(
            "shape-values",
            found=f"no value of {without[0]} of term '{curve.name}', and no bounds to estimate it",
            expected=f"{without[0]} = a number",
        )
    return np.array([shape.bounds(curve, motion) for shape in curve.shapes if shape.bounds]).reshape(-1, 2)


def _shapes_at(curve: CurveTerm, ranges: Float, share: float | Float) -> Float:
    # Shapes at a share (0 to 1) of their ranges (..., s, 2); on a logarithmic scale if they are positive.
    low, high = ranges[..., 0], ranges[..., 1]
    positive = np.array([shape.positive for shape in curve.shapes])
    a, b = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
    return np.asarray(np.where(positive, a * (b / a) ** share, low + (high - low) * share))


@singledispatch
def starts(curve: CurveTerm, motion: JointMotion) -> Float:
    """Values (k, s) from which the search starts: shares of the range, and the middle for shapes of either sign."""
    positive = np.array([shape.positive for shape in curve.shapes])
    shares = np.array([0.15, 0.4, 0.65, 0.9])[:, None]
    return _shapes_at(curve, range_of(curve, motion), np.where(positive, shares, 0.5))


@singledispatch
def tried_shapes(curve: CurveTerm, motion: JointMotion) -> Float:
    """Values (k, s) at which forms are compared: those of the form, or else the starts of the search."""
    if curve.form is None or not curve.form.tried:
        return starts(curve, motion)
    return np.stack([_shapes_at(curve, range_of(curve, motion), share) for share in curve.form.tried])


@singledispatch
def rival_of(term: Any, joints: tuple[str, ...]) -> Terms:
    """The plain terms that replace a curve on some joints in a comparison: those that its form replaces."""
    if (curve := inner_term(term)) is not term:
        return Terms(tuple(with_inner(term, plain) for plain in rival_of(curve, joints)))
    replaced = () if term.form is None else term.form.replaces
    return Terms(tuple(make(joints) for label, make in _PLAIN.items() if label in replaced))


@singledispatch
def followed(term: Term, robot: RobotModel, samples: Samples) -> tuple[Samples, Float]:
    """Samples of the motion on which a term's shapes depend, and units of this motion per unit of the joint, (n,)."""
    return samples, np.ones(robot.n)


def subject(term: Term) -> str:
    """Name of a term in comparisons."""
    return term.name if inner_term(term) is term else f"{inner_term(term).name} at the motor"


def shape_name(term: ShapedTerm, k: int, joint: int) -> str:
    """Name of the k-th shape of a joint."""
    name = f"{shapes_of(term)[k].name}{joint + 1}"
    return name if inner_term(term) is term else motor_name(name)


def shape_unit(term: ShapedTerm, robot: RobotModel, k: int, joint: int) -> str:
    """Unit of the k-th shape of a joint; motors turn even if their joints are prismatic, unless they are cylinders."""
    shape, slides = (
        shapes_of(term)[k],
        (robot.prismatic if inner_term(term) is term else robot.drive.sliding)[joint],
    )
    return shape.unit_prismatic if slides else shape.unit_revolute


def motor_name(name: str) -> str:
    """Name of a joint's parameter at the motor: fv3 -> fvm3."""
    return re.sub(r"(\d*)$", r"m\1", name, count=1)


@singledispatch
def c_texts(curve: CurveTerm, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
    """C expressions of a curve.

    `joint`: index of the joint; `shape` (s,); `speed`: C expression of the joint's velocity. Result: torque per unit of
    each coefficient. None = the curve reads more than the velocity and is not exported.
    """
    return None


@parameter_count.register(CurveTerm)
def _(term: CurveTerm, robot: RobotModel) -> int:
    """Number without making the columns, since the search for shapes asks thousands of times."""
    return len(joint_indices(robot, term.joints)) * len(term.coefficients)


@exported_parts.register(CurveTerm)
def _(term: CurveTerm, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """One curve per joint with a non-zero coefficient; None if the curve has no C text."""
    table, c = shape_values(term, robot), len(term.coefficients)
    curves: list[FrictionCurve] = []
    for i, joint in enumerate(joint_indices(robot, term.joints)):
        if c_texts(term, joint, table[i], "") is None:
            return None
        if theta[i * c : (i + 1) * c].any():
            curves.append(FrictionCurve(term, joint, theta[i * c : (i + 1) * c], table[i]))
    return tuple(curves)


@dataclass(frozen=True, eq=False)
class FrictionCurve(Part):
    """Friction of one joint that depends only on its velocity: tau = coefficients . curve(ratio dq; shape).

    Attributes
    ----------
    term : CurveTerm
        The curve.
    joint : int
        Index of the joint.
    coefficients : ndarray, shape (c,)
        Values of the coefficients.
    shape : ndarray, shape (s,)
        Values of the shapes.
    ratio : float
        Velocity of the motor over that of the joint, for a curve at the motor.

    """

    term: CurveTerm
    joint: int
    coefficients: Float
    shape: Float
    ratio: float = 1.0

    def __post_init__(self) -> None:
        for name in ("coefficients", "shape"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))

    def torque(self, robot: RobotModel, dq: Float) -> Float:
        """Torque (T,) at joint velocities dq (T, n)."""
        nothing = np.zeros_like(dq)
        samples = Samples.from_motion(nothing, self.ratio * dq, nothing, nothing)
        return np.asarray(self.coefficients @ self.term.curve(robot, samples, self.joint, self.shape))

    def c_texts(self, speed: str) -> tuple[str, ...]:
        """C expressions of the torque per unit of each coefficient, from that of the velocity."""
        turning = speed if self.ratio == 1.0 else f"({self.ratio!r} * {speed})"
        return c_texts(self.term, self.joint, self.shape, turning) or ()


# Used for joints that never moved, whose own motion gives an empty range of shapes.
_STILL = JointMotion(1.0, 1.0, 1.0)


def check_shapes(term: CurveTerm) -> None:
    """Raise UsageError for a shape that is not finite, or not positive although it must be."""
    for shape in term.shapes:
        value: ShapeValue = getattr(term, shape.name)
        for number in () if value is None else np.atleast_1d(value).tolist():
            if not np.isfinite(number) or (shape.positive and not number > 0):
                raise UsageError(
                    "shape-values",
                    found=f"{shape.name} = {number} of term '{term.name}'",
                    expected="a finite number" + (" > 0" if shape.positive else ""),
                )


# The choice of the form of friction per joint.

Names = tuple[str, ...]
BASELINE = "coulomb"
_PLAIN: dict[str, Callable[[Names], Term]] = {
    "viscous": lambda on: Viscous(joints=on),
    "coulomb": lambda on: Coulomb(WIDTH, joints=on),
    "offset": lambda on: Offset(joints=on),
}


class _Forms(Mapping[str, Callable[[Names], Terms]]):
    """Forms of friction by label, plain friction first: all terms of the catalogue with a form."""

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
    """Plain friction on some joints with a form in place of the effects that it replaces."""
    if kind is None or kind.form is None:
        return Terms(tuple(make(on) for make in _PLAIN.values()))
    plain = [make(on) for label, make in _PLAIN.items() if label not in kind.form.replaces]
    return Terms((*plain, on_joints(kind(**kind.form.options), on)))


CANDIDATES: Mapping[str, Callable[[Names], Terms]] = _Forms()


@dataclass(frozen=True)
class FrictionChoice(Term):
    """Friction of the form with the smallest held-out error, per joint.

    In the first fit it is viscous, Coulomb (width 0.02) and offset. A result contains the chosen terms instead.

    Attributes
    ----------
    choose : str or tuple of str
        "auto" = all forms, or names of some; "coulomb" is always compared.
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    choose: str | tuple[str, ...] = "auto"
    joints: tuple[str, ...] = ()
    name: str = "friction"
    traits = Traits(side=Side.MOTOR, reads=Reads.PAST)

    def __post_init__(self) -> None:
        unknown = [label for label in self.candidates if label not in CANDIDATES]
        if unknown:
            raise UsageError(
                "unknown-friction",
                found=f"friction '{unknown[0]}'",
                expected="'auto' or some of " + ", ".join(CANDIDATES),
            )

    @property
    def candidates(self) -> tuple[str, ...]:
        """Names of the forms, plain friction first."""
        if self.choose == "auto":
            return tuple(CANDIDATES)
        named = (self.choose,) if isinstance(self.choose, str) else self.choose
        return tuple(dict.fromkeys((BASELINE, *named)))

    def baseline(self) -> Terms:
        """The form before the choice."""
        return CANDIDATES[BASELINE](self.joints)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Columns of the baseline."""
        joint_indices(robot, self.joints)
        return tuple(replace(column, term=self.name) for column in self.baseline().columns(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Regressor of the baseline."""
        return self.baseline().torque_regressor(robot, samples, np.asarray(wanted, dtype=np.bool_))


@alternatives.register(FrictionChoice)
def _(term: FrictionChoice, joints: tuple[str, ...]) -> Mapping[str, Terms]:
    """The forms to compare."""
    return {name: CANDIDATES[name](joints) for name in term.candidates}
