"""Zero offsets of joint positions: encoders that are not calibrated exactly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    FittedEffect,
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

# rad (m): step by which torque is differentiated; smaller known offsets count as zero.
STEP = 1e-4
# Share of the torque below which its change over a step is rounding, for example of a joint along gravity.
ROUNDING = 1e-11
# rad and m: offsets that are reported; half a degree, as for the tilt of a base, and a millimetre.
WARN, WARN_SLIDE = float(np.radians(0.5)), 1e-3
# rad and m: offsets too large for an error of calibration. Either the robot file has another zero, or the estimate
# compensates for a missing effect.
LARGE, LARGE_SLIDE = float(np.radians(10.0)), 2e-2


def _shown_unit(slides: bool) -> tuple[str, float]:
    # Unit in which messages give an offset, and its number per m or rad.
    return ("mm", 1e3) if slides else ("degrees", 180.0 / np.pi)


def _zero_features(remains: Remains, joint: int) -> tuple[Feature, ...]:
    """Derivative of the torque of all joints with respect to the joint's position."""
    robot, motion = remains.robot, remains.motion
    if remains.bodies is None:
        return ()
    term = ZeroOffset(tuple(remains.bodies.ravel().tolist()), joints=(robot.joint_names[joint],))
    (line,) = term.lines(robot, motion)
    if not line.any():
        return ()
    unit, factor = _shown_unit(robot.prismatic[joint])

    def words(size: Float, _: Float) -> Words:
        return Words(
            "zero offset of the position",
            f"The joint is {factor * float(size[0]):.2g} {unit} from its logged position. This explains {{figures}}.",
            'Calibrate it, correct position.offset under [log], or add the term "zero_offset" for this joint.',
            "zero offset",
        )

    title = f"position, {remains.angle(joint)}"
    return (Feature(line.T[:, :, None], words, motion.q[:, joint], title),)


def _zero_notices(term: ZeroOffset, effect: FittedEffect) -> Iterator[Hypothesis]:
    """Notices about offsets above half a degree or a millimetre, 95 % interval included; without proof a warning."""
    for j in joint_indices(effect.robot, term.joints):
        value, half = effect.sizes.get(f"zq{j + 1}", (0.0, 0.0))
        slides = effect.robot.prismatic[j]
        if abs(value) - half <= (WARN_SLIDE if slides else WARN):
            continue
        name = effect.robot.joint_names[j]
        unit, factor = _shown_unit(slides)
        large = abs(value) - half > (LARGE_SLIDE if slides else LARGE)
        do = (
            f"calibrate the joint, or add {value:.4g} {'m' if slides else 'rad'} to its position.offset under "
            "[log] (in the unit declared there)"
        )
        if large:
            do += (
                ". This is too large for an encoder: if the zeros of robot file and robot are the same, the offset "
                "compensates for a missing effect; then list the terms of the model without zero_offset"
            )
        yield Hypothesis(
            Finding(
                Level.DOUBT,
                "zero-offset",
                f"joint '{name}' at {factor * value:.2g} +- {factor * half:.1g} {unit} from its logged position",
                Place(joint=name),
                advice=do,
            ),
            "the zero position of the robot file",
            declared=Declared(zeros={j: value}),
            lesser=Level.WARNING,
            rivals=(Rival.POSITION,),
            held="; the model contains it, and exported robots have it in the joint's origin",
        )


def _zero_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """One offset per joint."""
    term = ZeroOffset(log.inertia)

    def build(places: tuple[int, ...]) -> Term:
        return replace(term, joints=named_joints(robot, places))

    near = term.near(robot, log.found)
    return (proposal_by_joint(robot, near, "zero", "off on {joints}", build=build, measured=True),)


@dataclass(frozen=True)
class ZeroOffset(NominalTerm):
    """Joints at q + z in place of the logged q: tau(q + z) - tau(q), with tau of the links of a nominal model.

    To first order z_j dtau/dq_j; about approximately known offsets a, joint after joint, the secant
    z_j (tau(q + a_1 + ... + a_j) - tau(q + a_1 + ... + a_(j-1))) / a_j, which is exact for z = a.
    The offset of a first joint along gravity, and that of the last joint if its link is unknown, change no torque.

    Attributes
    ----------
    inertia : tuple of float
        Links of the nominal model, see `Nominal`.
    drives : tuple of float
        Not used.
    joints : tuple of str
        Joints with an offset; () = all.
    about : tuple of float, rad (m)
        a of each of these joints; () = 0.

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
        group=FeatureGroup("zero-offset", "residual against the change of torque with position"),
        features=_zero_features,
        notices=_zero_notices,
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not np.isfinite(self.about).all():
            raise UsageError("zero-about", found=f"about = {list(self.about)}", expected="finite positions")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One offset per joint, also for joints at rest, since it changes the gravity torque of other joints."""
        return tuple(
            Column(f"zq{j + 1}", "m" if robot.prismatic[j] else "rad", self.name, j, prior=0.0)
            for j in joint_indices(robot, self.joints)
        )

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Central differences, or secants, at the offsets of the previous joints."""
        return self._changes(robot, samples, self.nominal.rigid)

    def line_slopes(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """The same differences of the derivatives of the torque."""
        return self._changes(robot, samples, self.nominal.rigid_slopes)

    def _changes(
        self, robot: RobotModel, samples: Samples, of: Callable[[RobotModel, Float, Float, Float], Float]
    ) -> tuple[Float, ...]:
        # Change of a function of the motion per unit of each offset.
        acting = joint_indices(robot, self.joints)
        if len(self.about) not in (0, len(acting)):
            raise UsageError(
                "zero-about",
                found=f"{len(self.about)} offsets in about",
                expected=f"{len(acting)} or none",
            )
        lines = []
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
            lines.append(change / (ends[1] - ends[0]))
            before[j] = about
        return tuple(lines)


@exported_parts.register(ZeroOffset)
def _(term: ZeroOffset, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """The offsets, as shifts of the joints' zero positions."""
    positions = np.zeros(robot.n)
    positions[list(joint_indices(robot, term.joints))] = theta
    return (ZeroShift(positions),)
