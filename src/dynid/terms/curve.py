"""Terms of several coefficients a joint and a shape: linear in the coefficients, nonlinear in the shape."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import ClassVar, Self

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
)
from dynid.terms.friction import WIDTH, Coulomb, Offset, Viscous
from dynid.terms.term import (
    CATALOGUE,
    Proposal,
    Selection,
    Term,
    Terms,
    joint_indices,
    narrowed,
    on_joints,
    proposal_by_joint,
)

__all__ = ["Coefficient", "CurveTerm", "FrictionCurve", "JointMotion", "Shape", "ShapeValue", "check_shapes"]


ShapeValue = float | tuple[float, ...] | None


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
    """

    name: str
    unit_revolute: str
    unit_prismatic: str
    typical: float
    positive: bool = True


class ShapedTerm(Term):
    """A term with nonlinear parameters, its shapes, of single joints (or motors): what a search for shapes works with.

    joints: names of the joints (whose motors) it acts on; () = all.
    """

    joints: tuple[str, ...] = ()

    @property
    @abstractmethod
    def shapes(self) -> tuple[Shape, ...]:
        """The nonlinear parameters of every joint; a class attribute will do."""

    @abstractmethod
    def shape_table(self, robot: RobotModel) -> Float:
        """(m, s) values of the shapes for the m joints it acts on, nan = estimated."""

    @abstractmethod
    def with_shape_table(self, table: Float) -> Self:
        """The same term with shapes (m, s); nan = estimated."""

    @abstractmethod
    def of_joints(self, robot: RobotModel, joints: Sequence[int]) -> Self:
        """The same term on some of its joints, with their shapes."""

    @abstractmethod
    def range_of(self, motion: JointMotion) -> Float:
        """(s, 2) bounds of the shapes that a motion can determine, nan-free."""

    @abstractmethod
    def starts(self, motion: JointMotion) -> Float:
        """(k, s) values to start the search from."""

    @abstractmethod
    def tried(self, motion: JointMotion) -> Float:
        """(k, s) values at which it is compared with others."""

    @property
    def subject(self) -> str:
        """What it is called in comparisons."""
        return self.name

    def rival(self, joints: tuple[str, ...]) -> Terms:
        """What would stand in the model instead of this term on some joints, to judge its worth; none by default."""
        return Terms(())

    def followed(self, robot: RobotModel, samples: Samples) -> tuple[Samples, Float]:
        """Samples of the motion that its shapes are about, and how many of a joint's units each is, (n,)."""
        return samples, np.ones(robot.n)

    def shape_name(self, k: int, joint: int) -> str:
        """Name of the k-th shape of a joint."""
        return f"{self.shapes[k].name}{joint + 1}"

    def shape_unit(self, robot: RobotModel, k: int, joint: int) -> str:
        """Unit of the k-th shape of a joint."""
        return self.shapes[k].unit_prismatic if robot.prismatic[joint] else self.shapes[k].unit_revolute

    def of_joint(self, robot: RobotModel, joint: int, shape: Float | None = None) -> Self:
        """The same term on one joint alone, with shape (s,) or its own."""
        own = self.of_joints(robot, (joint,))
        return own if shape is None else own.with_shape_table(shape[None, :])


def _by_form(kind: type[CurveTerm], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Its form, at a few values of its shapes within each joint's own range."""
    form = kind.form
    if form is None or (kind.shapes and not form.tried):
        return ()
    term = narrowed(kind(**form.options), log.slowness)
    variants: tuple[CurveTerm, ...] = (term,)
    if kind.shapes:
        ranges = np.array([term.range_of(one if one.peak > 0 else _STILL) for one in log.motion])
        variants = tuple(term.with_shape_table(term.shapes_at(ranges, share)) for share in form.tried)
    more = {"variants": variants, "replaces": form.replaces, "both_ways": form.both_ways}
    return (proposal_by_joint(robot, term, form.label, form.label, **more),)


class CurveTerm(ShapedTerm):
    """tau_j = sum_k theta_jk curve_k(samples, j; shape_j), on joints alone.

    Subclasses are frozen dataclasses with `coefficients`, `shapes`, `curve`, one field a shape (None = estimated, a
    number for all joints, or one a joint), `range_of` where there are shapes, and usually a field `joints`.
    """

    shapes: tuple[Shape, ...] = ()
    traits = Traits(Kind.FRICTION, Side.MOTOR)
    selection = Selection(Role.FRICTION, FRICTION, _by_form)
    form: ClassVar[FrictionForm | None] = None

    def shapes_at(self, ranges: Float, share: float) -> Float:
        """Shapes (m, s) at a share of their ranges (m, s, 2), logarithmic where they are positive."""
        low, high = ranges[..., 0], ranges[..., 1]
        positive = np.array([shape.positive for shape in self.shapes])
        a, b = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
        return np.asarray(np.where(positive, a * (b / a) ** share, low + (high - low) * share))

    @property
    def is_open(self) -> bool:
        """Whether a shape is to be estimated."""
        return any(getattr(self, shape.name) is None for shape in self.shapes)

    @property
    @abstractmethod
    def coefficients(self) -> tuple[Coefficient, ...]:
        """The linear parameters of every joint; a class attribute will do."""

    @abstractmethod
    def curve(self, robot: RobotModel, samples: Samples, joint: int, shape: Float) -> Float:
        """Torque per unit of each coefficient, (c, T), for a joint and its shape (s,)."""

    def range_of(self, motion: JointMotion) -> Float:
        """(s, 2) bounds of the shapes that a motion can determine, nan-free."""
        return np.zeros((0, 2))

    def starts(self, motion: JointMotion) -> Float:
        """(k, s) values to start the search from: shares of the range on each shape's own scale."""
        low, high = self.range_of(motion).T
        positive = np.array([shape.positive for shape in self.shapes])
        shares = np.array([0.15, 0.4, 0.65, 0.9])[:, None]
        safe = np.where(positive, low, 1.0), np.where(positive, high, 1.0)
        logarithmic = safe[0] * (safe[1] / safe[0]) ** shares
        return np.asarray(np.where(positive, logarithmic, low + (high - low) * 0.5))

    def tried(self, motion: JointMotion) -> Float:
        """(k, s) values at which forms are compared: those of the form, or else the starts of the search."""
        if self.form is None or not self.form.tried:
            return self.starts(motion)
        return np.stack([self.shapes_at(self.range_of(motion), share) for share in self.form.tried])

    def shape_table(self, robot: RobotModel) -> Float:
        """(m, s) values of the shapes for the m joints it acts on, nan = estimated.

        Raises UsageError if there are neither one nor m values.
        """
        acting = joint_indices(robot, self.joints)
        table = np.full((len(acting), len(self.shapes)), np.nan)
        for k, shape in enumerate(self.shapes):
            value = getattr(self, shape.name)
            if value is None:
                continue
            values = np.atleast_1d(np.array(value, dtype=np.float64))
            if len(values) not in (1, len(acting)):
                raise UsageError(
                    "shape-values",
                    found=f"{len(values)} values of {shape.name} of term '{self.name}'",
                    expected=f"one, or one for each of {len(acting)} joints",
                )
            table[:, k] = values
        return table

    def with_shape_table(self, table: Float) -> Self:
        """The same term with shapes (m, s); nan = estimated."""
        values = {
            shape.name: None if np.isnan(table[:, k]).any() else tuple(table[:, k].tolist())
            for k, shape in enumerate(self.shapes)
        }
        return replace(self, **values)

    def of_joints(self, robot: RobotModel, joints: Sequence[int]) -> Self:
        """The same term on some of its joints, with their shapes."""
        acting = joint_indices(robot, self.joints)
        table = self.shape_table(robot)[[acting.index(j) for j in joints]]
        named = tuple(robot.joint_names[j] for j in joints)
        return on_joints(self.with_shape_table(table) if self.shapes else self, named)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The coefficients, joint by joint."""
        return tuple(
            Column(
                name=f"{c.symbol}{joint + 1}",
                unit=c.unit_prismatic if robot.prismatic[joint] else c.unit_revolute,
                term=self.name,
                owner=joint,
                lower=c.lower,
            )
            for joint in joint_indices(robot, self.joints)
            for c in self.coefficients
        )

    def parameter_count(self, robot: RobotModel) -> int:
        """Counted without making them: trials of shapes ask thousands of times."""
        return len(joint_indices(robot, self.joints)) * len(self.coefficients)

    def c_texts(self, joint: int, shape: Float, speed: str) -> tuple[str, ...] | None:
        """A C expression for each coefficient's share, of the name of the joint's speed.

        shape: (s,).    None for a curve of more than the speed, which is not exported.
        """
        return None

    def exported(self, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
        """A curve a joint that has any of it; None where the curve has no text."""
        table, c = self.shape_table(robot), len(self.coefficients)
        typical = np.array([shape.typical for shape in self.shapes])
        found: list[FrictionCurve] = []
        for i, joint in enumerate(joint_indices(robot, self.joints)):
            shape = np.where(np.isnan(table[i]), typical, table[i])
            if self.c_texts(joint, shape, "") is None:
                return None
            if theta[i * c : (i + 1) * c].any():
                found.append(FrictionCurve(self, joint, theta[i * c : (i + 1) * c], shape))
        return tuple(found)

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Those of the joints that moved."""
        return np.repeat(moved[list(joint_indices(robot, self.joints))], len(self.coefficients))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The wanted lines of each joint's curves."""
        c = len(self.coefficients)
        table = self.shape_table(robot)
        typical = np.array([shape.typical for shape in self.shapes])
        columns = [np.zeros(0, dtype=np.int64) for _ in range(robot.n)]
        values = [np.zeros((0, len(samples))) for _ in range(robot.n)]
        for i, joint in enumerate(joint_indices(robot, self.joints)):
            keep = np.flatnonzero(wanted[i * c : (i + 1) * c])
            if len(keep):
                shape = np.where(np.isnan(table[i]), typical, table[i])
                columns[joint] = i * c + keep
                values[joint] = np.ascontiguousarray(self.curve(robot, samples, joint, shape)[keep])
        return Panels(columns=tuple(columns), values=tuple(values))


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
        return self.term.c_texts(self.joint, self.shape, speed) or ()


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

    @property
    def is_open(self) -> bool:
        """Until its form is chosen, always."""
        return True

    def alternatives(self, joints: tuple[str, ...]) -> Mapping[str, Terms]:
        """The candidates."""
        return {name: CANDIDATES[name](joints) for name in self.candidates}

    def baseline(self) -> Terms:
        """The form it has before the choice."""
        return CANDIDATES[BASELINE](self.joints)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Those of the baseline."""
        joint_indices(robot, self.joints)
        return tuple(replace(column, term=self.name) for column in self.baseline().columns(robot))

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """That of the baseline."""
        return np.concatenate([term.alive(robot, moved) for term in self.baseline()])

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """That of the baseline."""
        return self.baseline().torque_regressor(robot, samples, np.asarray(wanted, dtype=np.bool_))
