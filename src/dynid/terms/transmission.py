"""Effects at the motors of coupled transmissions, mapped to the joints: tau = J' tau_motor, J = d theta_m / dq.

Also friction and inertia of one joint that act on another through shared gears.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import partial

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms import forms
from dynid.terms.curve import CurveTerm, FrictionCurve, ShapedTerm, followed, motor_name, of_joints
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
    empty_panels,
    mapped_panels,
    panels_of,
)
from dynid.terms.friction import WIDTH, Coulomb, Viscous, direction
from dynid.terms.friction_shapes import SmoothCoulomb
from dynid.terms.term import (
    Proposal,
    Selection,
    Term,
    Terms,
    joint_indices,
    joints_of,
    narrowed,
    on_joints,
    proposal_by_joint,
    proposal_of_robot,
)

MOTORS = Question("motors")


def _rotor_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """One proposal for each motor that moves several joints."""
    motors = () if log.both_sides else shared_motors(robot)
    return tuple(motor_proposal(robot, MotorInertia(joints=(robot.joint_names[i],)), i) for i in motors)


@dataclass(frozen=True)
class MotorInertia(Term):
    """Rotor inertia, one parameter per motor: tau = J' I_m d^2 theta_m / dt^2, I_m in kg m^2 on the motor's side.

    With a constant transmission N this is N' I_m N ddq; if N is not diagonal, a rotor couples several joints.

    Attributes
    ----------
    joints : tuple of str
        Joints whose motors have a rotor; () = all.

    References
    ----------
    Nini et al. 2024, eq. 24 with K_r = N'; K_r^2 I_m as printed is only valid for a diagonal N.

    """

    joints: tuple[str, ...] = ()
    name: str = "motor_inertia"
    traits = Traits(side=Side.MOTOR)
    selection = Selection(Role.ROBOT, MOTORS, _rotor_proposals)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column per motor."""
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
        """Accelerations of the motors, mapped to the joints."""
        acceleration = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)[2]
        return motors_to_joints(robot, samples, self._motor_panels(robot, samples, acceleration, wanted))

    def _motor_panels(self, robot: RobotModel, samples: Samples, lines: Float, wanted: Bool) -> Panels:
        # One line of lines (T, m) per wanted motor.
        acting = enumerate(joint_indices(robot, self.joints))
        return panels_of(robot, samples, {i: ([k], lines[None, :, i]) for k, i in acting if wanted[k]})


@forms.momentum_form.register(MotorInertia)
def _(term: MotorInertia, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = J' dtheta_m, R = -(dJ/dt)' dtheta_m, which is zero without linkages."""
    speed = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)[1]
    motor_panels = term._motor_panels(robot, samples, speed, wanted)
    P = motors_to_joints(robot, samples, motor_panels)
    if not robot.drive.linkages:
        return P, empty_panels(robot, samples)
    rate = robot.drive.jacobian_rate(samples.q, samples.dq)
    return P, mapped_panels(motor_panels, -rate, robot.drive.moves)


@forms.energy_form.register(MotorInertia)
def _(term: MotorInertia, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic energy h = dtheta_m^2 / 2; no torque does work."""
    speed = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)[1]
    motor_speed = speed.T[list(joint_indices(robot, term.joints))]
    return np.ascontiguousarray(0.5 * motor_speed[wanted] ** 2), empty_panels(robot, samples)


@forms.exported_parts.register(MotorInertia)
def _(term: MotorInertia, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """One part per motor, behind a linkage as it is where that closes."""
    J, motors = _ratios(robot), joint_indices(robot, term.joints)
    turning = (OnJoint(i, float(x), MotionBasis.ACCELERATION) for x, i in zip(theta, motors, strict=True))
    return (
        *(_at_joints(robot, term.name, part, J[part.joint]) for part in turning),
        *_changing(robot, motors),
    )


def _at_joints(robot: RobotModel, name: str, part: OnJoint, ratios: Float) -> Part:
    """Part at a motor with constant ratios (n,) to the joints; behind a linkage of one joint it is one of the joint."""
    moved = np.flatnonzero(ratios)
    if not robot.drive.linkages or len(moved) > 1:
        return Mixed(name, part.value, part.basis, ratios, ratios, part.width)
    ratio = float(ratios[moved[0]])
    if part.basis is MotionBasis.ONE:
        return OnJoint(int(moved[0]), ratio * part.value, part.basis)
    if part.basis is MotionBasis.SIGN:
        return OnJoint(int(moved[0]), abs(ratio) * part.value, part.basis, part.width / abs(ratio))
    return OnJoint(int(moved[0]), ratio**2 * part.value, part.basis)


def _ratios(robot: RobotModel) -> Float:
    # J (m, n) where all linkages close; N without linkages.
    return np.asarray(robot.drive.jacobian(robot.drive.reference[None])[0])


def _changing(robot: RobotModel, motors: Sequence[int]) -> tuple[Part, ...]:
    # What parts with constant ratios leave out.
    linked = robot.drive.linked
    names = [f"'{robot.joint_names[i]}'" for i in motors if linked[i]]
    text = f"the change with position of friction and rotor behind the linkage of {', '.join(names)}"
    return (LeftOut(text),) if names else ()


def _friction_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Viscous and Coulomb friction of each motor that moves several joints."""
    candidates = []
    for i in () if log.both_sides else shared_motors(robot):
        joints = (robot.joint_names[i],)
        ratio = float(np.abs(robot.drive.transmission[i]).max()) * log.slowness
        for term in (Viscous(joints=joints), Coulomb(WIDTH * ratio, joints=joints)):
            candidates.append(motor_proposal(robot, OnMotor(term), i))
    return tuple(candidates)


@dataclass(frozen=True)
class OnMotor(ShapedTerm):
    """An effect of single joints, at the motors instead: evaluated at theta_m and mapped with tau = J' tau_motor.

    Its parameters have an m before their number, fvm3 for fv3, and the units of a turning motor. If N is diagonal and
    the effect is linear in velocity (or in its sign), the models at the motor and at the joint are the same.

    Attributes
    ----------
    of : Term
        A term whose torque on a joint depends only on the motion of this joint, such as friction. It receives the
        motors' position, velocity, acceleration and torque, so widths and velocities among its options are those of
        the motor. Its shapes may be estimated.

    References
    ----------
    Nini et al. 2024, columns n_j f(n_j . dq) with n_j' row j of N.

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
        """Columns of the inner term; without priors if the gear ratio is not 1."""
        turning = motor_units(self.of, robot)
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
        """Regressor of the inner term for the motors' motion, mapped to the joints."""
        inner = self.of.torque_regressor(robot, at_motors(robot, samples), wanted)
        return motors_to_joints(robot, samples, inner)

    def _prior(self, robot: RobotModel, column: Column) -> float:
        same = np.zeros(robot.n)
        same[column.owner] = robot.drive.transmission[column.owner, column.owner]
        alone = np.array_equal(robot.drive.transmission[column.owner], same)
        return column.prior if alone and abs(same[column.owner]) == 1.0 else np.nan


@forms.without_memory.register(OnMotor)
def _(term: OnMotor) -> OnMotor:
    """The inner term without memory, at the motors."""
    return replace(term, of=forms.without_memory(term.of))


@forms.within_extent.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, extent: Extent) -> OnMotor:
    """The inner term with bounds on the motors' speeds and positions; unchanged if there are linkages."""
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
    """Motion of the motors; one unit of a motor is its largest gear ratio in units of a joint."""
    return at_motors(robot, forms.seen_by(term, samples)), np.abs(robot.drive.transmission).max(axis=1)


@forms.known_torque.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, samples: Samples) -> Float | None:
    """Known torque of the inner term, mapped to the joints."""
    known = forms.known_torque(term.of, robot, at_motors(robot, samples))
    return None if known is None else robot.drive.joint_torque(samples.q, known)


@forms.exported_parts.register(OnMotor)
def _(term: OnMotor, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """Joint parts and springs of the inner term, mapped as where linkages close; None for terms with other parts."""
    parts = forms.exported_parts(term.of, robot, theta)
    if parts is None or (robot.drive.linkages and any(isinstance(part, JointSpring) for part in parts)):
        return None
    N = _ratios(robot)
    lines = [part for part in parts if isinstance(part, OnJoint)]
    springs = [
        replace(part, term=term.name, weights=part.weights @ N)
        for part in parts
        if isinstance(part, JointSpring)
    ]
    left = [part for part in parts if isinstance(part, LeftOut)]
    # A smoothed sign is the same function at the motor, whatever joints that moves.
    smooth = [
        part for part in parts if isinstance(part, FrictionCurve) and isinstance(part.term, SmoothCoulomb)
    ]
    lines += [
        OnJoint(part.joint, float(part.coefficients[0]), MotionBasis.SIGN, float(part.shape[0]))
        for part in smooth
    ]
    parts = tuple(part for part in parts if not any(part is curve for curve in smooth))
    curves = [
        replace(part, joint=joint, coefficients=ratio * part.coefficients, ratio=ratio * part.ratio)
        for part in parts
        if isinstance(part, FrictionCurve) and robot.drive.linkages and np.count_nonzero(N[part.joint]) == 1
        for joint, ratio in ((int(np.flatnonzero(N[part.joint])[0]), float(N[part.joint].sum())),)
    ]
    if len(lines) - len(smooth) + len(springs) + len(left) + len(curves) < len(parts):
        return None
    mixed = (_at_joints(robot, term.name, part, N[part.joint]) for part in lines)
    return (*mixed, *springs, *curves, *left, *_changing(robot, joint_indices(robot, joints_of(term))))


def placed_at(term: Term, motors: bool, ratio: float = 1.0) -> Term:
    """Move a term to the motors or to the joints, if its traits allow both.

    Parameters
    ----------
    term : Term
        The term.
    motors : bool
        Whether it is to be at the motors.
    ratio : float
        Motor velocity over joint velocity, by which the width of a smoothed sign is converted.

    Returns
    -------
    Term

    """
    inner = term.of if isinstance(term, OnMotor) else term
    if not inner.traits.either_side or isinstance(term, OnMotor) == motors:
        return term
    factor = ratio if motors else 1.0 / ratio
    wide = any(field.name == "width" for field in fields(inner))
    moved = replace(inner, width=getattr(inner, "width") * factor) if wide else inner  # noqa: B009  # no field of Term itself
    return OnMotor(moved) if motors else moved


def at_drives(robot: RobotModel, proposal: Proposal) -> tuple[Proposal, ...]:
    """Split an effect of the drives: behind a linkage it acts at the motor, elsewhere at the joint.

    Friction and rotor of a gear motor are constant at the motor. Seen at a joint behind a linkage they change with the
    position, so that a constant at the joint would make a declared linkage worse than none.

    `proposal`: a plain effect, or a form of friction, on all joints. Result: with the same label: that of the other
    joints, if there are any, and one per motor behind a linkage.
    """
    linked = np.flatnonzero(robot.drive.linked).tolist()
    if not linked or proposal.role not in (Role.PLAIN, Role.FRICTION):
        return (proposal,)
    others = tuple(j for j in range(robot.n) if j not in linked)
    ratio = _largest_ratio(robot)
    parts = [_part(robot, proposal, others, lambda term: term)] if others else []
    return (*parts, *(_part(robot, proposal, (i,), partial(_behind, ratio=float(ratio[i]))) for i in linked))


def _part(
    robot: RobotModel, proposal: Proposal, places: tuple[int, ...], placed: Callable[[Term], Term]
) -> Proposal:
    def build(chosen: tuple[int, ...]) -> Term:
        names = tuple(robot.joint_names[j] for j in chosen if j in places)
        return placed(on_joints(proposal.build(chosen), names))

    joints = tuple(robot.joint_names[j] for j in places)
    variants = tuple(
        placed(
            of_joints(variant, robot, places)
            if isinstance(variant, ShapedTerm)
            else on_joints(variant, joints)
        )
        for variant in proposal.variants
    )
    columns = variants[0].columns(robot)
    return replace(proposal, variants=variants, places=tuple(column.owner for column in columns), build=build)


def _behind(term: Term, ratio: float) -> Term:
    if term.traits.kind is Kind.ROTORS:
        return MotorInertia(joints_of(term))
    return OnMotor(narrowed(term, ratio))


def _largest_ratio(robot: RobotModel) -> Float:
    # Of each motor to the joints that it moves, (m,), where linkages close.
    return np.asarray(np.abs(_ratios(robot)).max(axis=1))


def terms_at_drives(robot: RobotModel, terms: Terms) -> Terms:
    """Model with its plain effects of single joints at the motors of joints that are behind linkages."""
    placed: list[Term] = []
    for term in terms:
        plain = term.selection.role is Role.PLAIN and not joints_of(term)
        parts = at_drives(robot, proposal_by_joint(robot, term, term.name, term.name)) if plain else ()
        placed += [part.build(tuple(range(robot.n))) for part in parts] or [term]
    return Terms(tuple(placed))


# Symbols of plain effects at motors, with the function of the motion that they multiply.
_AT_MOTORS = {
    "Im": MotionBasis.ACCELERATION,
    "fvm": MotionBasis.SPEED,
    "fcm": MotionBasis.SIGN,
    "fom": MotionBasis.ONE,
}


def seen_at_joints(robot: RobotModel, column: Column, value: float) -> tuple[MotionBasis, Float] | None:
    """Plain effect (n,) at the joints that is closest to one at a motor, where linkages close; None for another one."""
    basis = _AT_MOTORS.get(column.name.rstrip("0123456789"))
    if basis is None or column.term not in (MotorInertia.name, OnMotor.name):
        return None
    ratio = _ratios(robot)[column.owner]
    if basis is MotionBasis.ONE:
        return basis, value * ratio
    return basis, value * (np.abs(ratio) if basis is MotionBasis.SIGN else ratio**2)


def shared_motors(robot: RobotModel) -> tuple[int, ...]:
    """Indices of motors that move several joints without a linkage; behind one, plain effects are at the motor."""
    shared = (robot.drive.moves.sum(axis=1) > 1) & ~robot.drive.linked
    return tuple(np.flatnonzero(shared).tolist())


def motor_proposal(robot: RobotModel, term: Term, motor: int) -> Proposal:
    """Proposal of an effect at one motor; all effects of a motor are chosen together."""
    places = (motor,) * len(term.columns(robot))
    option = "friction and rotor on {joints}"
    return proposal_of_robot(robot, term, "motor", option, places=places)


def motor_units(term: Term, robot: RobotModel) -> tuple[str, ...]:
    """Units of a term's columns at motors, which turn unless they are cylinders."""
    columns, sliding = term.columns(robot), robot.drive.sliding
    kinds = ("revolute", "prismatic")
    if isinstance(term, CurveTerm):
        parts = [[getattr(part, f"unit_{kind}") for kind in kinds] for part in term.coefficients]
    else:
        parts = [[getattr(term, f"unit_{kind}", None) for kind in kinds]]
    return tuple(
        parts[k % len(parts)][int(sliding[column.owner])] or column.unit for k, column in enumerate(columns)
    )


def moving_joints(robot: RobotModel, *motors: int) -> tuple[int, ...]:
    """Indices of joints whose motion turns at least one of some motors."""
    return tuple(np.flatnonzero(robot.drive.moves[list(motors)].any(axis=0)).tolist())


def at_motors(robot: RobotModel, samples: Samples) -> Samples:
    """Samples with motion and torque of the motors in place of those of the joints."""
    theta, dtheta, ddtheta = robot.drive.motor_motion(samples.q, samples.dq, samples.ddq)
    tau = robot.drive.motor_torque(samples.q, samples.tau)
    past = None if samples.past is None else samples.past.of_motors
    return replace(samples, q=theta, dq=dtheta, ddq=ddtheta, tau=tau, past=past)


def motors_to_joints(robot: RobotModel, samples: Samples, motor_panels: Panels) -> Panels:
    """Map panels of the motors to the joints with J'."""
    return mapped_panels(motor_panels, robot.drive.jacobian(samples.q), robot.drive.moves)


# Joints whose drives share gears: friction and inertia of one act on another.

_SYMBOLS = ("fv", "fc", "Ia")
# Units of the three parameters, by whether the joint is prismatic and whether the other one is.
_UNITS = {
    (False, False): ("N m s/rad", "N m", "kg m^2"),
    (True, True): ("N s/m", "N", "kg"),
    (False, True): ("N s", "N m", "kg m"),
    (True, False): ("N s/rad", "N", "kg m"),
}


def _coupling_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Pairs of neighbouring joints; none if motors and links have separate equations."""
    if log.both_sides:
        return ()
    width = WIDTH * log.slowness
    term = JointCoupling(width=width)
    pairs = term.pairs(robot)

    def build(places: tuple[int, ...]) -> Term:
        chosen, names = [pairs[i] for i in places], robot.joint_names
        return JointCoupling(tuple(names[j] for j, _ in chosen), tuple(names[k] for _, k in chosen), width)

    places = tuple(np.repeat(np.arange(len(pairs)), len(_SYMBOLS)).tolist())
    return (
        proposal_by_joint(robot, term, "coupling", "{count} coupled pair{s}", build=build, places=places),
    )


@dataclass(frozen=True)
class JointCoupling(Term):
    """Torque on joint j from the motion of joint k: fv_jk dq_k + fc_jk s(dq_k) + Ia_jk ddq_k, s = tanh(dq / width).

    For wrists whose motors drive each other's gears if the robot file has no transmission.

    Attributes
    ----------
    joints, others : tuple of str
        Names of j and k of each pair; both () = every joint with each of its neighbours.
    width : float, rad/s (m/s)
        Width of the smoothed sign; 0 = no smoothing.

    Raises
    ------
    UsageError
        If the lists differ in length, a joint is unknown, or a joint is paired with itself.

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
        """Indices (j, k) of all pairs."""
        if not self.joints:
            n = robot.n
            return tuple((j, k) for j in range(n) for k in (j - 1, j + 1) if 0 <= k < n)
        joint_indices(robot, (*self.joints, *self.others))
        index = robot.joint_names.index
        return tuple((index(a), index(b)) for a, b in zip(self.joints, self.others, strict=True))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Three columns per pair, named by both joints."""
        return tuple(
            Column(f"{symbol}{j + 1}_{k + 1}", unit, self.name, j, moved_by=(k,))
            for j, k in self.pairs(robot)
            for symbol, unit in zip(_SYMBOLS, _UNITS[robot.prismatic[j], robot.prismatic[k]], strict=True)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Velocity, its sign and acceleration of the other joint, as torque on the first."""
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
    """Three parts per pair."""
    unit = np.eye(robot.n)
    kinds = ((MotionBasis.SPEED, 0.0), (MotionBasis.SIGN, term.width), (MotionBasis.ACCELERATION, 0.0))
    return tuple(
        Mixed(term.name, float(theta[3 * i + c]), basis, unit[j], unit[k], width)
        for i, (j, k) in enumerate(term.pairs(robot))
        for c, (basis, width) in enumerate(kinds)
    )
