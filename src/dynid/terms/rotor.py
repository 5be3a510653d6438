"""Rotor inertias: seen at the joints, and with the gyroscopic torque on the links that carry the motors."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.options import option
from dynid.base.records import dataclass
from dynid.kernel import Panels, reference
from dynid.robot.model import Mounting, RobotModel, unit_vectors
from dynid.signals.samples import Samples
from dynid.terms.exports import Column, Kind, MotionBasis, Question, Role, Side, Symbol, Traits
from dynid.terms.forms import energy_form, momentum_form, motor_momentum_form, motor_regressor, motor_work
from dynid.terms.residual_tests import TermWords
from dynid.terms.term import JointTerm, Selection, Term, by_joint, empty_panels
from dynid.terms.transmission import moving_joints


@dataclass(frozen=True)
class RotorInertia(JointTerm):
    """Inertia of rotor and gear reflected to the joint: tau_j = Ia_j ddq_j, Ia = N^2 I_m, kg m^2 (kg if prismatic).

    Attributes
    ----------
    joints : tuple of str
        Joints on which it acts; () = all.

    """

    joints: tuple[str, ...] = ()
    name: str = "rotor_inertia"
    symbol = "Ia"
    words = TermWords(
        symbols=(Symbol("Ia", "I", "a", "rotor inertia seen at the joint"),),
    )
    unit_revolute = "kg m^2"
    unit_prismatic = "kg"
    lower = 0.0
    traits = Traits(Kind.ROTORS, Side.MOTOR, basis=MotionBasis.ACCELERATION)
    selection = Selection(
        Role.PLAIN,
        Question("rotors", words="rotor inertia", certain=True),
        by_joint("rotor", "rotors", build=lambda _: RotorInertia()),
    )

    def prior(self, robot: RobotModel) -> Float:
        """Reflected rotor inertia of the drive."""
        return robot.drive.reflected_rotor_inertia

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Joint acceleration."""
        return samples.ddq


@momentum_form.register(RotorInertia)
def _(term: RotorInertia, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = dq_j, R = 0."""
    return term.panels(robot, samples, samples.dq, wanted), empty_panels(robot, samples)


@energy_form.register(RotorInertia)
def _(term: RotorInertia, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic energy h = dq_j^2 / 2; no torque does work."""
    return np.ascontiguousarray(0.5 * samples.dq.T[wanted] ** 2), empty_panels(robot, samples)


# Rotors on moving links.


@dataclass(frozen=True)
class SpinningRotor(Term):
    """Rotors on moving links, with the gyroscopic coupling to these links, one parameter per motor.

    The kinetic energy is T = sum_i Ia_i (s_i^2 / 2 + s_i z_i . w_i / r_i) with s = dtheta_m / r. r_i is the gear ratio
    of motor i on its own joint (its largest ratio if it has none there), Ia_i = r_i^2 I_m,i, z_i the axis of the motor,
    and w_i the angular velocity of the carrying link. So the torque Ia_i (ds_i/dt + z_i . dw_i / r_i) acts on the
    joints that motor i moves, by row i of the transmission, and the moment Ia_i / r_i (ds_i/dt z_i + s_i w_i x z_i) on
    the carrying link. Use it in place of `rotor_inertia` or `motor_inertia`, which neglect the coupling (Spong's
    simplification). The inertia of the link includes the whole rotor. Transmissions may be coupled, elastic, or contain
    linkages.

    Attributes
    ----------
    axes : tuple of three float each
        Axes of the motors in the frames of the carrying links; () = along their joints, with all joints at zero.
    carriers : tuple of str
        Links that carry the motors, "base" for the base; () = the link before each joint.

    Raises
    ------
    UsageError
        If the axes are not one unit vector per motor, or a carrier is unknown.

    References
    ----------
    Zollo et al. 2014, eqs 8 and A.8 to A.12; Nini et al. 2024, eq. 33, dw_m . z_m with the acceleration of the carrying
    link, for motors that move several joints.

    """

    axes: tuple[tuple[float, float, float], ...] = option(
        (),
        "axes of the motors in the frames of the carrying links; none = along their joints, with all joints at zero",
    )
    carriers: tuple[str, ...] = option(
        (), "links that carry the motors, `base` for the base; none = the link before each joint"
    )
    name: str = "spinning_rotor"
    symbol = "Ia"
    selection = Selection(covers=("rotor",))
    traits = Traits(Kind.ROTORS, Side.BOTH)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", unit_vectors(self.axes))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column per motor, reflected to its own joint."""
        prior = robot.drive.own_ratio**2 * robot.drive.rotor_inertia
        return tuple(
            Column(
                name=f"{self.symbol}{i + 1}",
                unit="kg" if robot.prismatic[i] else "kg m^2",
                term=self.name,
                owner=i,
                prior=float(prior[i]),
                lower=0.0,
                moved_by=moving_joints(robot, i),
            )
            for i in range(robot.n)
        )

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Torque on the joints that the motors move, and on the joints that move the carrying links."""
        rotors = _Rotors.of(self, robot, samples)
        lines = self._on_motors(robot, samples, rotors.spin_rate)
        for i, body, axis in rotors.carried():
            spin = np.cross(rotors.links.w[body].T, axis) * rotors.speed[:, [i]]
            moment = (rotors.acceleration[:, [i]] * axis + spin).T / rotors.ratio[i]
            for ancestor, (turning, _) in rotors.links.axes[body].items():
                lines[:, i] += robot.projection[ancestor][:, None] * (turning * moment).sum(axis=0)
        return _panels(lines, rotors.present(robot), wanted)

    def _on_motors(self, robot: RobotModel, samples: Samples, values: Float) -> Float:
        # (joint, motor, T): values (T, m) of the motors, mapped to the joints by the transmission over r.
        J = robot.drive.jacobian(samples.motor.q) / robot.drive.own_ratio[:, None]
        return np.asarray(
            np.einsum("tmn,tm->nmt", np.broadcast_to(J, (len(samples), robot.n, robot.n)), values)
        )


@motor_regressor.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """Torque on the joints that the motors move."""
    rate = _Rotors.of(term, robot, samples).spin_rate
    return _panels(term._on_motors(robot, samples, rate), _driven(robot), wanted)


@momentum_form.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = dT/d(dq, dtheta) and R = -dT/dq of both sides; with linkages, whose ratio changes, R is the torque."""
    if robot.drive.linkages:
        return empty_panels(robot, samples), term.torque_regressor(robot, samples, wanted)
    rotors = _Rotors.of(term, robot, samples)
    P = term._on_motors(robot, samples, rotors.spin)
    R = np.zeros_like(P)
    for i, body, axis in rotors.carried():
        rate = rotors.speed[:, i] / rotors.ratio[i]
        velocity = np.zeros((3, len(samples)))
        for ancestor in sorted(rotors.links.axes[body]):
            turning = rotors.links.axes[body][ancestor][0]
            velocity = velocity + turning * (samples.dq @ robot.projection[ancestor])
            gyroscopic = np.cross(velocity.T, turning.T) @ axis
            P[:, i] += robot.projection[ancestor][:, None] * (rate * (axis @ turning))
            R[:, i] -= robot.projection[ancestor][:, None] * (rate * gyroscopic)
    present = rotors.present(robot)
    return _panels(P, present, wanted), _panels(R, present, wanted)


@motor_momentum_form.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = s + z . w / r, mapped by the transmission; R is zero, since P does not depend on positions."""
    if robot.drive.linkages:
        return empty_panels(robot, samples), motor_regressor(term, robot, samples, wanted)
    spin = term._on_motors(robot, samples, _Rotors.of(term, robot, samples).spin)
    return _panels(spin, _driven(robot), wanted), empty_panels(robot, samples)


@energy_form.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic energy h = s^2 / 2 + s z . w / r in addition to that of the links; no torque does work."""
    rotors = _Rotors.of(term, robot, samples)
    h = rotors.speed * (rotors.spin - 0.5 * rotors.speed)
    return np.ascontiguousarray(h.T[wanted]), empty_panels(robot, samples)


@motor_work.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """No columns, since the rotor stores the energy."""
    return empty_panels(robot, samples)


@dataclass(frozen=True, eq=False)
class _Rotors:
    """Motion of rotors and links.

    `mounting`: carrying links and axes of the motors; `ratio` (m,): gear ratio of each motor on its own joint; `speed`,
    `acceleration` (T, m): motion of the motors over their gear ratio.
    """

    mounting: Mounting
    links: reference.Motion
    ratio: Float
    speed: Float
    acceleration: Float

    @staticmethod
    def of(term: SpinningRotor, robot: RobotModel, samples: Samples) -> _Rotors:
        """Motion of a term's rotors at samples."""
        mounting = Mounting.of(robot, term.carriers, term.axes)
        motor, ratio = samples.motor, robot.drive.own_ratio
        _, speed, acceleration = robot.drive.motor_motion(motor.q, motor.dq, motor.ddq)
        links = reference.motion(robot.tree, *robot.tree_motion(samples.q, samples.dq, samples.ddq))
        return _Rotors(mounting, links, ratio, speed / ratio, acceleration / ratio)

    def carried(self) -> Iterator[tuple[int, int, Float]]:
        """Motors on moving links: motor, carrying link, axis in the joint frame of that link."""
        for i, (body, axis) in enumerate(zip(self.mounting.carrier, self.mounting.axis, strict=True)):
            if body >= 0:
                yield i, int(body), axis

    def present(self, robot: RobotModel) -> Bool:
        """Mask (n, n): whether the rotor of a motor (second index) acts on a joint (first index)."""
        acts = _driven(robot)
        for i, body, _ in self.carried():
            for ancestor in robot.tree.paths[body]:
                acts[:, i] |= robot.projection[ancestor] != 0
        return acts

    @property
    def spin(self) -> Float:
        """Angular velocity of each rotor about its axis, over its gear ratio, (T, m)."""
        return self._with_carriers(self.speed, self.links.w)

    @property
    def spin_rate(self) -> Float:
        """Derivative of `spin` along time, (T, m)."""
        return self._with_carriers(self.acceleration, self.links.al)

    def _with_carriers(self, rates: Float, links: list[Float]) -> Float:
        total = np.array(rates)
        for i, body, axis in self.carried():
            total[:, i] += (axis @ links[body]) / self.ratio[i]
        return total


def _driven(robot: RobotModel) -> Bool:
    # Mask (n, n): whether a motor (second index) drives a joint (first index).
    return robot.drive.moves.T


def _panels(lines: Float, present: Bool, wanted: Bool) -> Panels:
    columns = tuple(np.flatnonzero(row & wanted) for row in present)
    return Panels(columns, tuple(np.ascontiguousarray(lines[j][c]) for j, c in enumerate(columns)))
