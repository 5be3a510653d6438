"""Effects at the motors of coupled transmissions, mapped to the joints: tau = J' tau_motor, J = d theta_m / dq."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms import forms
from dynid.terms.curve import ShapedTerm, followed, motor_name
from dynid.terms.exports import (
    Column,
    Extent,
    JointSpring,
    Kind,
    LeftOut,
    LogFacts,
    Mixed,
    MotionBasis,
    OnJoint,
    Part,
    Question,
    Role,
    Side,
    Traits,
    panels_of,
)
from dynid.terms.friction import WIDTH, Coulomb, Viscous, direction
from dynid.terms.term import (
    Proposal,
    Selection,
    Term,
    empty_panels,
    joint_indices,
    joints_of,
    proposal_by_joint,
    proposal_of_robot,
)

MOTORS = Question("motors")


def _rotor_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """At motors that move several joints."""
    motors = () if log.both_sides else shared_motors(robot)
    return tuple(at_motor(robot, MotorInertia(joints=(robot.joint_names[i],)), i) for i in motors)


@dataclass(frozen=True)
class MotorInertia(Term):
    """Rotor inertia, one parameter a motor: tau = J' I_m d^2 theta_m / dt^2, I_m in kg m^2 on the motor's side.

    With a constant N this is N' I_m N ddq: where N is not diagonal a rotor loads several joints and couples them.
    joints: names of the joints whose motors have one; empty = all.
    Source: Nini et al. 2024 eq. 24 with K_r = N'; K_r^2 I_m as printed holds for a diagonal N alone.
    """

    joints: tuple[str, ...] = ()
    name: str = "motor_inertia"
    traits = Traits(side=Side.MOTOR)
    selection = Selection(Role.ROBOT, MOTORS, _rotor_proposals)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column a motor."""
        return tuple(
            Column(
                f"Im{i + 1}",
                "kg m^2",
                self.name,
                i,
                prior=float(robot.drive.rotor_inertia[i]),
                lower=0.0,
                moved_by=moving_joints(robot, i),
            )
            for i in joint_indices(robot, self.joints)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The motors' accelerations on the joints that they move."""
        acceleration = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)[2]
        return from_motors(robot, samples, self._at_motors(robot, samples, acceleration, wanted))

    def _at_motors(self, robot: RobotModel, samples: Samples, lines: Float, wanted: Bool) -> Panels:
        # A line (T, m) of every wanted motor.
        acting = enumerate(joint_indices(robot, self.joints))
        return panels_of(robot, samples, {i: ([k], lines[None, :, i]) for k, i in acting if wanted[k]})


@forms.momentum_form.register(MotorInertia)
def _(term: MotorInertia, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = J' dtheta_m, R = -(dJ/dt)' dtheta_m, which is zero without linkages."""
    own = term._at_motors(
        robot, samples, robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)[1], wanted
    )
    P = from_motors(robot, samples, own)
    if not robot.drive.linkages:
        return P, empty_panels(robot, samples)
    R = through(robot, own, -robot.drive.linkage_bends(samples.q) * samples.dq)
    return P, R


@forms.energy_form.register(MotorInertia)
def _(term: MotorInertia, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic energy h = dtheta_m^2 / 2; nothing is lost."""
    speed = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)[1]
    own = speed.T[list(joint_indices(robot, term.joints))]
    return np.ascontiguousarray(0.5 * own[wanted] ** 2), empty_panels(robot, samples)


@forms.exported_parts.register(MotorInertia)
def _(term: MotorInertia, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """One line a motor; None through linkages."""
    N = robot.drive.transmission
    if robot.drive.linkages:
        return None
    return tuple(
        Mixed(term.name, float(x), MotionBasis.ACCELERATION, N[i], N[i])
        for x, i in zip(theta, joint_indices(robot, term.joints), strict=True)
    )


def _friction_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Viscous and Coulomb friction of motors that move several joints, felt by all of these."""
    found = []
    for i in () if log.both_sides else shared_motors(robot):
        own = (robot.joint_names[i],)
        ratio = float(np.abs(robot.drive.transmission[i]).max()) * log.slowness
        for term in (Viscous(joints=own), Coulomb(WIDTH * ratio, joints=own)):
            found.append(at_motor(robot, OnMotor(term), i))
    return tuple(found)


@dataclass(frozen=True)
class OnMotor(ShapedTerm):
    """Any effect of single joints, at the motors instead: evaluated at theta_m and mapped with tau = J' tau_motor.

    of: a term whose torque on a joint depends on that joint's own motion alone, such as friction. It sees the
        motors' position, velocity, acceleration and torque in place of the joints', so widths and velocities
        among its options are the motor's; its shapes may be estimated.
    Its parameters get an m before their number, fvm3 for fv3, and units of a turning motor. Where N is diagonal
    and the effect linear in velocity (or in its sign), motor and joint side are the same model.
    Source: Nini et al. 2024, columns n_j f(n_j . dq) with n_j' row j of N.
    """

    of: Term
    name: str = "on_motor"
    traits = Traits(side=Side.MOTOR)
    selection = Selection(Role.ROBOT, MOTORS, _friction_proposals)

    def __post_init__(self) -> None:
        if isinstance(self.of, OnMotor) or not isinstance(self.of, Term):
            raise UsageError("on-motor", found=f"on_motor of {self.of}", expected="a term of the joints")
        inner = self.of.traits
        kind = Kind.FRICTION if inner.kind is Kind.FRICTION else Kind.EFFECT
        object.__setattr__(self, "traits", Traits(kind, Side.MOTOR, inner.reads, inner.dry))
        object.__setattr__(self, "joints", joints_of(self.of))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The term's columns; a prior at the joint says nothing about a motor of another ratio."""
        turning = replace_units(self.of, robot)
        return tuple(
            replace(
                column,
                name=motor_name(column.name),
                unit=unit,
                term=self.name,
                prior=float(self._prior(robot, column)),
                moved_by=moving_joints(robot, *column.moved_by),
            )
            for column, unit in zip(self.of.columns(robot), turning, strict=True)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The term's lines at the motors, on the joints that they move."""
        return from_motors(robot, samples, self.of.torque_regressor(robot, at_motors(robot, samples), wanted))

    def _prior(self, robot: RobotModel, column: Column) -> float:
        same = np.zeros(robot.n)
        same[column.owner] = robot.drive.transmission[column.owner, column.owner]
        alone = np.array_equal(robot.drive.transmission[column.owner], same)
        return column.prior if alone and abs(same[column.owner]) == 1.0 else np.nan


@forms.without_memory.register(OnMotor)
def _(term: OnMotor) -> OnMotor:
    """That of the term, at the motors."""
    return replace(term, of=forms.without_memory(term.of))


@forms.within_extent.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, extent: Extent) -> OnMotor:
    """The term with the speeds and positions that the motors can have had, where no linkage is between."""
    if robot.drive.linkages:
        return term
    N = robot.drive.transmission
    middle = N @ (0.5 * (extent.low + extent.high))
    half = np.abs(N) @ (0.5 * (extent.high - extent.low))
    return replace(
        term,
        of=forms.within_extent(term.of, robot, Extent(np.abs(N) @ extent.peak, middle - half, middle + half)),
    )


@followed.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, samples: Samples) -> tuple[Samples, Float]:
    """The motors' motion; a motor's unit is its largest ratio of a joint's."""
    return at_motors(robot, forms.seen_by(term, samples)), np.abs(robot.drive.transmission).max(axis=1)


@forms.known_torque.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, samples: Samples) -> Float | None:
    """The term's known torque at the motors, mapped."""
    known = forms.known_torque(term.of, robot, at_motors(robot, samples))
    return None if known is None else robot.drive.joint_torque(samples.q, known)


@forms.exported_parts.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """The term's lines and springs at the motors; None for a term that is more, and through linkages."""
    own = forms.exported_parts(term.of, robot, theta)
    if robot.drive.linkages or own is None:
        return None
    N = robot.drive.transmission
    lines = [one for one in own if isinstance(one, OnJoint)]
    springs = [
        replace(one, term=term.name, weights=one.weights @ N) for one in own if isinstance(one, JointSpring)
    ]
    left = [one for one in own if isinstance(one, LeftOut)]
    if len(lines) + len(springs) + len(left) < len(own):
        return None
    mixed = (Mixed(term.name, x.value, x.basis, N[x.joint], N[x.joint], x.width) for x in lines)
    return (*mixed, *springs, *left)


def placed_at(term: Term, motors: bool, ratio: float = 1.0) -> Term:
    """The term at the motors or at the joints, where it may sit at either; else as it is.

    ratio: of motor to joint velocity, by which the width of a smoothed sign is turned.
    """
    inner = term.of if isinstance(term, OnMotor) else term
    if not inner.traits.either_side or isinstance(term, OnMotor) == motors:
        return term
    factor = ratio if motors else 1.0 / ratio
    wide = any(field.name == "width" for field in fields(inner))
    moved = replace(inner, width=getattr(inner, "width") * factor) if wide else inner  # noqa: B009  # no field of Term itself
    return OnMotor(moved) if motors else moved


def shared_motors(robot: RobotModel) -> tuple[int, ...]:
    """Motors that move with several joints; none where linkages stand between, whose effects no export holds."""
    if robot.drive.linkages:
        return ()
    N = robot.drive.transmission
    return tuple(i for i in range(robot.n) if np.count_nonzero(N[i]) > 1)


def at_motor(robot: RobotModel, term: Term, motor: int) -> Proposal:
    """An effect of one motor; all effects of a motor are chosen together."""
    places = (motor,) * len(term.columns(robot))
    option = "friction and rotor on {joints}"
    return proposal_of_robot(robot, term, "motor", option, places=places)


def replace_units(term: Term, robot: RobotModel) -> tuple[str, ...]:
    """Units of a term's columns as if every joint turned: motors do."""
    turning = getattr(term, "unit_revolute", None)
    return tuple(turning or column.unit for column in term.columns(robot))


def moving_joints(robot: RobotModel, *motors: int) -> tuple[int, ...]:
    """Joints whose motion turns some motors."""
    return tuple(np.flatnonzero(np.any(robot.drive.transmission[list(motors)] != 0, axis=0)).tolist())


def at_motors(robot: RobotModel, samples: Samples) -> Samples:
    """The same samples with the motors' motion and torque in place of the joints'."""
    theta, dtheta, ddtheta = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)
    tau = robot.drive.motor_torque(samples.q, samples.tau)
    past = None if samples.past is None else samples.past.of_motors
    return replace(samples, q=theta, dq=dtheta, ddq=ddtheta, tau=tau, past=past)


def from_motors(robot: RobotModel, samples: Samples, own: Panels) -> Panels:
    """Panels by motor, mapped to panels by joint with J'."""
    return through(robot, own, robot.drive.linkage_slopes(samples.q) if robot.drive.linkages else None)


def through(robot: RobotModel, own: Panels, slopes: Float | None) -> Panels:
    """Panels by motor, mapped to panels by joint with N' and then slopes (T, n); None = ones."""
    N, T = robot.drive.transmission, own.values[0].shape[1]
    columns, values = [], []
    for joint in range(robot.n):
        motors = np.flatnonzero(N[:, joint])
        union = np.unique(np.concatenate([own.columns[i] for i in motors]))
        total = np.zeros((len(union), T))
        for i in motors:
            total[np.searchsorted(union, own.columns[i])] += N[i, joint] * own.values[i]
        columns.append(union)
        values.append(total if slopes is None else total * slopes[:, joint])
    return Panels(columns=tuple(columns), values=tuple(values))


# Joints whose drives share gears: motion of one shows as friction and inertia in the torque of another.

_KINDS = ("fv", "fc", "Ia")
# Of each kind, by whether the joint slides and whether the other one does.
_UNITS = {
    (False, False): ("N m s/rad", "N m", "kg m^2"),
    (True, True): ("N s/m", "N", "kg"),
    (False, True): ("N s", "N m", "kg m"),
    (True, False): ("N s/rad", "N", "kg m"),
}


def _coupling_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Pair by pair of neighbours, where the equations do not hold the motors apart."""
    if log.both_sides:
        return ()
    width = WIDTH * log.slowness
    term = JointCoupling(width=width)
    pairs = term.pairs(robot)

    def build(places: tuple[int, ...]) -> Term:
        own, names = [pairs[i] for i in places], robot.joint_names
        return JointCoupling(tuple(names[j] for j, _ in own), tuple(names[k] for _, k in own), width)

    places = tuple(np.repeat(np.arange(len(pairs)), len(_KINDS)).tolist())
    return (
        proposal_by_joint(robot, term, "coupling", "{count} coupled pair{s}", build=build, places=places),
    )


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
    traits = Traits(side=Side.MOTOR, hides_wiring=True)
    selection = Selection(Role.ROBOT, Question("coupling"), _coupling_proposals)

    def __post_init__(self) -> None:
        pairs = list(zip(self.joints, self.others, strict=False))
        if len(self.joints) != len(self.others) or any(a == b for a, b in pairs) or not self.width >= 0:
            raise UsageError(
                "joint-coupling",
                found=f"joints {list(self.joints)} with others {list(self.others)}, width {self.width}",
                expected="as many others as joints, each another joint, and a width >= 0",
            )

    def pairs(self, robot: RobotModel) -> tuple[tuple[int, int], ...]:
        """(j, k) of every coupling."""
        if not self.joints:
            n = robot.n
            return tuple((j, k) for j in range(n) for k in (j - 1, j + 1) if 0 <= k < n)
        joint_indices(robot, (*self.joints, *self.others))
        index = robot.joint_names.index
        return tuple((index(a), index(b)) for a, b in zip(self.joints, self.others, strict=True))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Three a pair, named by both joints."""
        slides = [bool(one) for one in robot.prismatic]
        return tuple(
            Column(f"{symbol}{j + 1}_{k + 1}", unit, self.name, j, moved_by=(k,))
            for j, k in self.pairs(robot)
            for symbol, unit in zip(_KINDS, _UNITS[slides[j], slides[k]], strict=True)
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


@forms.exported_parts.register(JointCoupling)
def _(term: JointCoupling, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Velocity, sign and acceleration of the other joint."""
    unit = np.eye(robot.n)
    kinds = ((MotionBasis.SPEED, 0.0), (MotionBasis.SIGN, term.width), (MotionBasis.ACCELERATION, 0.0))
    return tuple(
        Mixed(term.name, float(theta[3 * i + c]), basis, unit[j], unit[k], width)
        for i, (j, k) in enumerate(term.pairs(robot))
        for c, (basis, width) in enumerate(kinds)
    )
