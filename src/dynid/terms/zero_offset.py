"""Joint positions whose zero is off: an encoder that was mounted or calibrated a little askew."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

import numpy as np

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import Place, UsageError
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Kind, LogFacts, Part, Question, Role, ZeroShift
from dynid.terms.forms import exported_parts
from dynid.terms.nominal import NominalTerm
from dynid.terms.residual_tests import (
    Declared,
    Feature,
    FeatureGroup,
    Held,
    Hypothesis,
    Remains,
    Rival,
    TermWords,
    Words,
)
from dynid.terms.term import (
    Column,
    Proposal,
    Selection,
    Symbol,
    Term,
    joint_indices,
    named_joints,
    proposal_by_joint,
)

# rad or m, over which torque is differentiated, and less than which an offset that is known counts as none.
STEP = 1e-4
# Share of the torque below which its change over a step is rounding: the joint turns about gravity.
ROUNDING = 1e-11
# rad and m from which on a joint's zero is worth a warning: half a degree, as of a base that leans, and a millimetre.
WARN, WARN_SLIDE = float(np.radians(0.5)), 1e-3
# From here on no encoder is mounted askew: either the description's zero is another or the effect is none.
LARGE, LARGE_SLIDE = float(np.radians(10.0)), 2e-2


def _zero_features(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """The change of all joints' torque with the joint's position."""
    robot, motion = remains.robot, remains.motion
    if remains.bodies is None:
        return ()
    term = ZeroOffset(tuple(remains.bodies.ravel().tolist()), joints=(robot.joint_names[joint],))
    (line,) = term.lines(robot, motion)
    if not line.any():
        return ()
    unit, factor = ("mm", 1e3) if robot.prismatic[joint] else ("degrees", 180.0 / np.pi)

    def words(size: Float, _: Float) -> Words:
        return Words(
            "its zero is off",
            f"By {factor * float(size[0]):.2g} {unit} beyond the log's position, which explains {{figures}}.",
            'Calibrate it, correct position.offset under [log], or add the term "zero_offset" for this joint.',
            "a joint that stands elsewhere",
        )

    title = f"position, {remains.angle(joint)}"
    return (Feature(line.T[:, :, None], words, motion.q[:, joint], title),)


def _zero_notices(term: ZeroOffset, held: Held) -> Iterator[Hypothesis]:
    """Over half a degree or a millimetre, 95 % interval included; what is not proven is a warning."""
    for j in joint_indices(held.robot, term.joints):
        value, half = held.sizes.get(f"zq{j + 1}", (0.0, 0.0))
        slides = held.robot.prismatic[j]
        if abs(value) - half <= (WARN_SLIDE if slides else WARN):
            continue
        name = held.robot.joint_names[j]
        unit, factor = ("mm", 1e3) if slides else ("degrees", 180.0 / np.pi)
        large = abs(value) - half > (LARGE_SLIDE if slides else LARGE)
        do = (
            f"calibrate the joint, or add {value:.4g} {'m' if slides else 'rad'} to its position.offset under "
            "[log] (in the unit declared there)"
        )
        if large:
            do += (
                ". No encoder is mounted so far off: if the description's zero is the robot's, something that the "
                "model lacks looks like it; name the terms of the model without zero_offset then"
            )
        yield Hypothesis(
            Finding(
                Level.DOUBT,
                "zero-offset",
                f"joint '{name}' that stands {factor * value:.2g} +- {factor * half:.1g} {unit} further than "
                "its logged position",
                Place(joint=name),
                advice=do,
            ),
            "positions that are zero where the description has them so",
            declared=Declared(zeros={j: value}),
            lesser=Level.WARNING,
            rivals=(Rival.POSITION,),
            held="; the model contains it, and exported robots have it in the joint's origin",
        )


def _zero_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Joint by joint."""
    term = ZeroOffset(log.inertia)

    def build(places: tuple[int, ...]) -> Term:
        return replace(term, joints=named_joints(robot, places))

    near = term.near(robot, log.found)
    return (proposal_by_joint(robot, near, "zero", "off on {joints}", build=build, measured=True),)


@dataclass(frozen=True)
class ZeroOffset(NominalTerm):
    """Joints that stand at q + z where the log says q: tau(q + z) - tau(q), tau of a nominal model's bodies.

    To first order z_j dtau/dq_j; about offsets a that are known roughly, one joint after the other, the secant
    z_j (tau(q + a_1 + ... + a_j) - tau(q + a_1 + ... + a_(j-1))) / a_j, which is exact where z = a.
    A turn of the first joint about gravity and one of the last joint, whose body may be any, show in no torque.
    inertia: of the nominal model, see Nominal; drives are not read.    joints: names of the joints; empty = all.
    about: rad (m), a of every joint that it acts on; empty = 0.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    about: tuple[float, ...] = ()
    name: str = "zero_offset"
    traits = replace(NominalTerm.traits, kind=Kind.LOG, hides_wiring=True)
    selection = Selection(Role.LOG, Question("zeros", "as logged"), _zero_proposals)
    words = TermWords(
        symbols=(Symbol("zq", "δq", "", "zero offset of the joint's position"),),
        group=FeatureGroup("zero-offset", "residual against torque of joints that stand elsewhere"),
        features=_zero_features,
        notices=_zero_notices,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.isfinite(self.about).all():
            raise UsageError("zero-about", found=f"about = {list(self.about)}", expected="finite positions")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One a joint, moved or not: weight that is not where the log says shows on other joints, too."""
        return tuple(
            Column(f"zq{j + 1}", "m" if robot.prismatic[j] else "rad", self.name, j, prior=0.0)
            for j in joint_indices(robot, self.joints)
        )

    def near(self, robot: RobotModel, found: Mapping[str, float]) -> ZeroOffset:
        """The same about offsets by name, rad (m); 0 for those that are not named."""
        return replace(self, about=tuple(found.get(column.name, 0.0) for column in self.columns(robot)))

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Central differences, or secants, at offsets of the joints before."""
        return self._changes(robot, samples, self.nominal.rigid)

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """The same of the torque's derivatives."""
        return self._changes(robot, samples, self.nominal.rigid_slopes)

    def _changes(
        self, robot: RobotModel, samples: Samples, of: Callable[[RobotModel, Float, Float, Float], Float]
    ) -> tuple[Float, ...]:
        # What a unit of each offset changes in a function of the motion.
        acting = joint_indices(robot, self.joints)
        if len(self.about) not in (0, len(acting)):
            raise UsageError(
                "zero-about",
                found=f"{len(self.about)} offsets to be about",
                expected=f"{len(acting)} or none",
            )
        found = []
        before = np.zeros(robot.n)
        for j, about in zip(acting, self.about or (0.0,) * len(acting), strict=True):
            known = abs(about) > STEP
            ends = (0.0, about) if known else (-STEP, STEP)
            torque = [
                of(robot, samples.q + before + end * np.eye(robot.n)[j], samples.dq, samples.ddq)
                for end in ends
            ]
            change = torque[1] - torque[0]
            if np.abs(change).max(initial=0.0) <= ROUNDING * np.abs(torque[0]).max(initial=0.0):
                change = np.zeros_like(change)
            found.append(change / (ends[1] - ends[0]))
            before[j] = about
        return tuple(found)


@exported_parts.register(ZeroOffset)
def _(term: ZeroOffset, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """The offsets themselves."""
    positions = np.zeros(robot.n)
    positions[list(joint_indices(robot, term.joints))] = theta
    return (ZeroShift(positions),)
