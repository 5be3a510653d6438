"""Drive gains that are off."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.records import dataclass
from dynid.log.effort_size import size_advice
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.choice import LogFacts, Question, Role
from dynid.terms.joint_term import joint_indices, named_joints, proposal_by_joint
from dynid.terms.nominal import NominalTerm, check_nominal
from dynid.terms.residual_tests import Declared, Held, Level, Notice, Rival
from dynid.terms.term import Column, Proposal, Symbol, Term

# Share by which a drive's torque may be off: torque constants are known to a few per cent.
WARN = 0.03
# Share from which a gain may overturn a model; and share of the torque that is left below which its sign is doubtful.
DOUBT, TURNED = 0.1, 0.5


@dataclass(frozen=True)
class GainError(NominalTerm):
    """Drive gains that are off, relative to the other joints: tau_j (1 + dg_j), tau of a nominal model.

    All gains together cannot be distinguished from the size of the robot, so one joint has to be left out.
    joints: names of the joints whose gain is free; empty = all but the first.
    inertia, drives: the nominal model, see Nominal.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    name: str = "gain_error"
    of_log = True
    hides_wiring = True
    role, question = Role.LOG, Question("gains", "as logged")
    as_cause = "the drive gain of '{joint}'"
    as_cause_of_kind = "the drive gains of {joints} (drives of {effort})"
    symbols = (Symbol("dg", "δg", "", "deviation of the drive gain from the first joint's"),)

    def __post_init__(self) -> None:
        check_nominal(self.inertia, self.drives)

    @classmethod
    def proposed(cls, robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
        """Joint by joint, relative to one whose gain is taken for right."""
        term = cls(log.inertia, log.drives, robot.joint_names)

        def build(places: tuple[int, ...]) -> Term:
            return cls(log.inertia, log.drives, named_joints(robot, places))

        return (
            proposal_by_joint(
                robot, term, "gain", "off on {joints}", build=build, measured=True, relative=True
            ),
        )

    def notices(self, held: Held) -> Iterator[Notice]:
        """Over 3 %, 95 % interval included; over a tenth, or of the other sign, it is doubted."""
        # Bodies that nobody has described may be the ones that are wrong.
        described = bool(np.isfinite(held.robot.inertia_prior).all())
        for j in self.acting(held.robot):
            value, half = held.sizes.get(f"dg{j + 1}", (0.0, 0.0))
            name, factor = held.robot.joint_names[j], 1.0 + value
            if abs(value) - half <= WARN and factor > TURNED:
                continue
            sign = Notice(
                "torque-sign",
                Level.DOUBT,
                f"effort that is {factor:.3g} +- {half:.2g} times what the other joints say of the bodies"
                if factor < 0
                else "effort that fits the bodies that the other joints show better with the other sign",
                "effort that drives the motion",
                f"set effort.sign = {{ {name} = -1 }} under [log]",
                name,
            )
            if factor + half < 0:
                yield sign
                continue
            doubted = abs(value) - half > DOUBT and factor > 0
            lesser = Level.WARNING if described else Level.NOTE
            yield Notice(
                "drive-gain",
                Level.DOUBT if doubted else lesser,
                f"torque of '{name}' that is {100 * abs(value):.3g} +- {100 * half:.2g} % too "
                f"{'large' if value > 0 else 'small'} for the bodies that the other joints' torque shows",
                "one scale of all joints' torque",
                size_advice(factor)
                or "check this joint's torque constant or sensor, gear ratio and effort unit",
                name,
                declared=Declared(factors={j: factor}),
                lesser=lesser,
                rivals=(Rival.POSITION, Rival.FRICTION, Rival.ZERO, Rival.CROSSTALK),
                held="; the model contains it",
                sign=sign,
            )

    def acting(self, robot: RobotModel) -> tuple[int, ...]:
        """Joints whose gain is free."""
        return joint_indices(robot, self.joints) if self.joints else tuple(range(1, robot.n))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One a free joint."""
        return tuple(Column(f"dg{j + 1}", "1", self.name, j, prior=0.0) for j in self.acting(robot))

    def alive(self, robot: RobotModel, moved: Bool) -> Bool:
        """Those of the joints that moved."""
        return np.asarray(moved)[list(self.acting(robot))]

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """The nominal torque of one joint each."""
        torque = self.nominal.torque(robot, samples)
        return tuple(torque * (np.arange(robot.n) == j) for j in self.acting(robot))

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Those of the nominal torque."""
        slopes = self.nominal.torque_slopes(robot, samples)
        return tuple(slopes * (np.arange(robot.n) == j) for j in self.acting(robot))
