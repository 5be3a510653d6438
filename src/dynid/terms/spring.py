"""Springs whose force is linear in stiffness and preload: between two links, or about joints."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Question, Role
from dynid.terms.exports import JointSpring, Part
from dynid.terms.spring_lever import Lever, lever_panels, named_joint
from dynid.terms.term import Column, Proposal, Term, proposal_of_robot


@dataclass(frozen=True)
class Spring(Term):
    """A helical spring between two links: tau_j = (k l + c) dl/dq_j, its potential energy k l^2 / 2 + c l.

    The force k l + c pulls the ends together; c = F_init - k l0 with F_init the force at the free length l0.
    k in N/m and c in N are estimated; with a free length only k is, and the force is k (l - l0).
    Parallel springs of the same geometry act as one: only the sums of their k and c can be determined.

    geometry: where it is mounted.    label: its parameters are k_LABEL and c_LABEL.
    free_length: l0 in m, None = unknown.    stiffness, preload: priors of k and c; None = unknown.
    Source: Nini et al. 2024, with the geometry of spring and links written out.

    Raises UsageError for a negative stiffness or free length.
    """

    geometry: Lever
    label: str = "spring"
    free_length: float | None = None
    stiffness: float | None = None
    preload: float | None = None
    name: str = "spring"
    passive: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_label(self.label)
        not_negative(f"stiffness of spring '{self.label}'", self.stiffness, "N/m")
        not_negative(f"free length of spring '{self.label}'", self.free_length, "m")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Stiffness, and preload unless the free length is known."""
        owner = _owner(self.geometry, robot)
        k = Column(f"k_{self.label}", "N/m", self.name, owner, prior=_known(self.stiffness), lower=0.0)
        c = Column(f"c_{self.label}", "N", self.name, owner, prior=_known(self.preload))
        return (k, c) if self.free_length is None else (k,)

    def balances(self, robot: RobotModel) -> Bool:
        """The joints between the two links."""
        return np.isin(np.arange(robot.n), self.geometry.joints(robot))

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """L dl/dq and dl/dq on the joints between the two links."""
        length, slopes = self.geometry.length(robot, samples.q)
        if self.free_length is None:
            lines = np.stack([length[:, None] * slopes, slopes])
        else:
            lines = ((length - self.free_length)[:, None] * slopes)[None]
        return lever_panels(robot, self.geometry.joints(robot), lines, tuple(wanted))


@dataclass(frozen=True)
class TorsionSpring(Term):
    """A torsion spring over one joint or the sum of several: tau_j = w_j (k a + c), a = sum_j w_j q_j.

    k in N m/rad and c in N m (N/m and N where all joints slide) are estimated; c = -k a0 with a0 the angle at rest, and
    is one with the offset of a joint where only one is spanned.

    joints: names.    weights: w, one a joint; () = all 1.    label: the parameters are kt_LABEL and ct_LABEL.
    stiffness: prior of k; None = that of the description, for a spring of one joint that it has.

    Raises UsageError for a negative stiffness or a wrong number of weights.
    """

    joints: tuple[str, ...]
    label: str = "torsion"
    weights: tuple[float, ...] = ()
    stiffness: float | None = None
    name: str = "torsion_spring"
    passive: ClassVar[bool] = True

    role, question = Role.ROBOT, Question("springs")

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Over each joint of which the description says nothing, as a hose, a cable or a balancer makes one."""
        return tuple(
            proposal_of_robot(
                robot,
                term := cls._of_joint(robot, j),
                "spring",
                "{count} spring{s} on {joints}",
                places=(j,) * len(term.columns(robot)),
                positive=True,
                shield="position",
            )
            for j in (() if log.both_sides else range(robot.n))
            if np.isnan(robot.spring_prior[j, 0])
        )

    @classmethod
    def described(cls, robot: RobotModel) -> tuple[Term, ...]:
        """Over each joint that has one in the description."""
        known = np.flatnonzero(np.isfinite(robot.spring_prior[:, 0]))
        return tuple(cls._of_joint(robot, j) for j in known.tolist())

    @classmethod
    def _of_joint(cls, robot: RobotModel, joint: int) -> TorsionSpring:
        return cls((robot.joint_names[joint],), label=f"joint{joint + 1}")

    def __post_init__(self) -> None:
        check_label(self.label)
        not_negative(f"stiffness of torsion spring '{self.label}'", self.stiffness, "N m/rad")
        if not self.joints or (self.weights and len(self.weights) != len(self.joints)):
            found = f"{len(self.weights)} weights for joints {list(self.joints)}"
            raise UsageError("spring-weights", found=found, expected="joints, and one weight each or none")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Stiffness and preload."""
        spanned = np.flatnonzero(self._weights(robot)).tolist()
        stiffness, torque = ("N/m", "N") if all(robot.prismatic[j] for j in spanned) else ("N m/rad", "N m")
        owner = spanned[-1]
        k, c = self._described(robot) if self.stiffness is None else (self.stiffness, np.nan)
        return (
            Column(f"kt_{self.label}", stiffness, self.name, owner, prior=k, lower=0.0),
            Column(f"ct_{self.label}", torque, self.name, owner, prior=c),
        )

    def _described(self, robot: RobotModel) -> tuple[float, float]:
        # The description's spring of the one joint, of whose position a is a multiple.
        w = self._weights(robot)
        spanned = np.flatnonzero(w)
        if len(spanned) > 1:
            return np.nan, np.nan
        j = int(spanned[0])
        k, c = robot.spring_prior[j]
        return (float(k / w[j] ** 2), float(c / w[j])) if k >= 0 else (np.nan, np.nan)

    def balances(self, robot: RobotModel) -> Bool:
        """The spanned joints."""
        return np.asarray(self._weights(robot) != 0)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The spanned angle and one, on the spanned joints."""
        w = self._weights(robot)
        lines = np.stack([np.outer(samples.q @ w, w), np.outer(np.ones(len(samples)), w)])
        return lever_panels(robot, np.flatnonzero(w).astype(np.int64), lines, tuple(wanted))

    def exported(self, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
        """A spring over the joints."""
        return (JointSpring(self.name, self._weights(robot), float(theta[0]), float(theta[1])),)

    def _weights(self, robot: RobotModel) -> Float:
        w = np.zeros(robot.n)
        for name, weight in zip(self.joints, self.weights or (1.0,) * len(self.joints), strict=True):
            w[named_joint(robot, name)] = weight
        if not w.any():
            found = f"weights {self.weights}"
            raise UsageError("spring-weights", found=found, expected="a weight other than zero")
        return w


def is_spring_stiffness(column: Column) -> bool:
    """Whether a parameter is the stiffness of a spring over one joint, or the sum of several."""
    return column.term == TorsionSpring.name and column.name.startswith("kt_")


def described_springs(robot: RobotModel) -> tuple[JointSpring, ...]:
    """The springs that a robot's description says."""
    return tuple(
        JointSpring("the description", np.eye(robot.n)[j], float(k), float(c))
        for j, (k, c) in enumerate(robot.spring_prior)
        if np.isfinite([k, c]).all()
    )


def not_negative(what: str, value: float | None, unit: str) -> None:
    """Raises UsageError if a number that is given is negative or not finite."""
    if value is not None and not (np.isfinite(value) and value >= 0):
        raise UsageError("negative-stiffness", found=f"{what} = {value} {unit}", expected="a number >= 0")


def check_label(label: str) -> None:
    """Raises UsageError for a label that cannot be a part of a parameter's name."""
    if not label or not label.replace("_", "a").isalnum() or not label.isascii():
        raise UsageError("spring-label", found=f"label '{label}'", expected="letters, digits and underscores")


def _known(value: float | None) -> float:
    return np.nan if value is None else value


def _owner(geometry: Lever, robot: RobotModel) -> int:
    joints = geometry.joints(robot)
    if not len(joints):
        raise UsageError(
            "spring-geometry",
            found=f"{geometry}, whose length no joint changes",
            expected="a joint between the ends",
        )
    return int(joints[-1])
