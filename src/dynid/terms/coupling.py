"""Joints whose drives share gears: motion of one shows as friction and inertia in the torque of another."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Question, Role
from dynid.terms.exports import Mixed, MotionBasis, Part
from dynid.terms.friction import WIDTH, direction
from dynid.terms.joint_term import proposal_by_joint
from dynid.terms.term import Column, Proposal, Side, Term

_KINDS = ("fv", "fc", "Ia")
# Of each kind, by whether the joint slides and whether the other one does.
_UNITS = {
    (False, False): ("N m s/rad", "N m", "kg m^2"),
    (True, True): ("N s/m", "N", "kg"),
    (False, True): ("N s", "N m", "kg m"),
    (True, False): ("N s/rad", "N", "kg m"),
}


@dataclass(frozen=True)
class JointCoupling(Term):
    """Torque on joint j from the motion of joint k: fv_jk dq_k + fc_jk s(dq_k) + Ia_jk ddq_k, s = tanh(dq / width).

    For wrists whose motors drive each other's gears when the robot file does not describe the transmission.
    joints, others: names of j and k, pair by pair; both empty = every joint and its neighbours.
    width: rad/s (m/s), 0 = plain sign.
    Raises UsageError for lists of unlike length, an unknown joint or a joint paired with itself.
    """

    joints: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    width: float = 0.02
    name: str = "joint_coupling"
    side = Side.MOTOR
    hides_wiring = True
    role, question = Role.ROBOT, Question("coupling")

    def __post_init__(self) -> None:
        pairs = list(zip(self.joints, self.others, strict=False))
        if len(self.joints) != len(self.others) or any(a == b for a, b in pairs) or not self.width >= 0:
            raise UsageError(
                "joint-coupling",
                found=f"joints {list(self.joints)} with others {list(self.others)}, width {self.width}",
                expected="as many others as joints, each another joint, and a width >= 0",
            )

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Pair by pair of neighbours, where the equations do not hold the motors apart."""
        if log.both_sides:
            return ()
        width = WIDTH * log.slowness
        term = cls(width=width)
        pairs = term.pairs(robot)

        def build(places: tuple[int, ...]) -> Term:
            own, names = [pairs[i] for i in places], robot.joint_names
            return cls(tuple(names[j] for j, _ in own), tuple(names[k] for _, k in own), width)

        places = tuple(np.repeat(np.arange(len(pairs)), len(_KINDS)).tolist())
        return (
            proposal_by_joint(robot, term, "coupling", "{count} coupled pair{s}", build=build, places=places),
        )

    def pairs(self, robot: RobotModel) -> tuple[tuple[int, int], ...]:
        """(j, k) of every coupling."""
        if not self.joints:
            n = robot.n
            return tuple((j, k) for j in range(n) for k in (j - 1, j + 1) if 0 <= k < n)
        for name in (*self.joints, *self.others):
            if name not in robot.joint_names:
                raise UsageError(
                    "unknown-joint",
                    found=f"joint '{name}'",
                    expected="one of " + ", ".join(robot.joint_names),
                )
        index = robot.joint_names.index
        return tuple((index(a), index(b)) for a, b in zip(self.joints, self.others, strict=True))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Three a pair, named by both joints."""
        slides = [bool(one) for one in robot.prismatic]
        return tuple(
            Column(f"{symbol}{j + 1}_{k + 1}", unit, self.name, j)
            for j, k in self.pairs(robot)
            for symbol, unit in zip(_KINDS, _UNITS[slides[j], slides[k]], strict=True)
        )

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Those whose other joint moved."""
        return np.repeat(np.asarray(moved)[[k for _, k in self.pairs(robot)]], len(_KINDS))

    def exported(self, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
        """Velocity, sign and acceleration of the other joint."""
        unit = np.eye(robot.n)
        kinds = ((MotionBasis.SPEED, 0.0), (MotionBasis.SIGN, self.width), (MotionBasis.ACCELERATION, 0.0))
        return tuple(
            Mixed(self.name, float(theta[3 * i + c]), basis, unit[j], unit[k], width)
            for i, (j, k) in enumerate(self.pairs(robot))
            for c, (basis, width) in enumerate(kinds)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Velocity, sign and acceleration of the other joint, on the joint itself."""
        columns: list[list[int]] = [[] for _ in range(robot.n)]
        values: list[list[Float]] = [[] for _ in range(robot.n)]
        for i, (j, k) in enumerate(self.pairs(robot)):
            lines = (samples.dq[:, k], direction(samples, self.width, k), samples.ddq[:, k])
            for c, line in enumerate(lines):
                if wanted[3 * i + c]:
                    columns[j].append(3 * i + c)
                    values[j].append(line)
        return Panels(
            columns=tuple(np.array(c, dtype=np.int64) for c in columns),
            values=tuple(np.array(v).reshape(len(v), len(samples)) for v in values),
        )
