"""Terms with one parameter a joint, and terms that are kept to some joints."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar, cast

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import UsageError
from dynid.base.named_options import meant
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Role
from dynid.terms.exports import MotionBasis, OnJoint, Part
from dynid.terms.term import Column, Proposal, Side, Term, Terms

_NO_COLUMN: Int = np.zeros(0, dtype=np.int64)


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
    side = Side.MOTOR
    needs_motion: ClassVar[bool] = True
    exports_as: ClassVar[MotionBasis | None] = None
    width: float = 0.0  # of the sign that it exports as, rad/s (m/s), 0 = plain
    label: ClassVar[str] = ""  # in the automatic choice
    option: ClassVar[str] = ""  # its name among the answers of its question
    joints: tuple[str, ...] = ()

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Itself, joint by joint, where it has a role and a label."""
        if cls.role is None or not cls.label:
            return ()
        return (proposal_by_joint(robot, cls.tried_on(log), cls.label, cls.option or cls.label),)

    @classmethod
    def tried_on(cls, log: LogFacts) -> JointTerm:
        """The term that the automatic choice tries on a log."""
        return cls()

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
            )
            for joint in joint_indices(robot, self.joints)
        )

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Those of the joints that moved, where the term needs motion at all."""
        acting = list(joint_indices(robot, self.joints))
        return moved[acting] if self.needs_motion else np.ones(len(acting), dtype=np.bool_)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """One line a wanted joint."""
        return self.panels(robot, self.basis(robot, samples), wanted)

    def exported(self, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
        """One line a joint, where the basis is one that other programs know; its width is that of the term."""
        basis = self.exports_as
        if basis is None:
            return super().exported(robot, theta)
        acting = joint_indices(robot, self.joints)
        return tuple(OnJoint(j, float(x), basis, self.width) for j, x in zip(acting, theta, strict=True))

    def panels(self, robot: RobotModel, basis: Float, wanted: Bool) -> Panels:
        """Column j of a basis (T, n) as the one line of joint j, for wanted joints."""
        columns, values = [_NO_COLUMN] * robot.n, [np.zeros((0, len(basis)))] * robot.n
        lines = np.ascontiguousarray(basis.T)
        for i, joint in enumerate(joint_indices(robot, self.joints)):
            if wanted[i]:
                columns[joint], values[joint] = np.array([i]), lines[joint : joint + 1]
        return Panels(columns=tuple(columns), values=tuple(values))


TermOnJoints = TypeVar("TermOnJoints", bound=Term)
SomeTerm = TypeVar("SomeTerm", bound=Term)


def sharpened(terms: Terms, width: float) -> Terms:
    """The terms with signs of dry friction smoothed over `width` rad/s (m/s), or less, where they were over more."""
    return Terms(
        tuple(
            replace(term, width=width)
            if isinstance(term, JointTerm) and term.exports_as is MotionBasis.SIGN and term.width > width
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
    return Proposal(label, term.role or Role.ROBOT, term.question, option=option, **(fields | more))
