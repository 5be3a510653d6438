"""Rotor inertia of a rigid drive."""

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
    """Rotor and gear seen at the joint: tau_j = Ia_j ddq_j, Ia = N^2 I_m, kg m^2 (kg when prismatic)."""

    name: str = "rotor_inertia"
    symbol = "Ia"
    words = TermWords(
        symbols=(Symbol("Ia", "I", "a", "rotor inertia seen at the joint"),),
        cause="rotors, which the model lacks",
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
    """Kinetic energy h = dq_j^2 / 2; nothing is lost."""
    return np.ascontiguousarray(0.5 * samples.dq.T[wanted] ** 2), empty_panels(robot, samples)


# Rotors that spin on links that move, with the gyroscopic torque on these links.


@dataclass(frozen=True)
class SpinningRotor(Term):
    """Rotors that are carried by links, with the gyroscopic coupling to these links, one parameter a motor.

    T = sum_i Ia_i (s_i^2 / 2 + s_i z_i . w_i / r_i), s = dtheta_m / r: r_i is motor i's gear ratio on its own joint
    (the largest of its ratios where it has none there), Ia_i = r_i^2 I_m,i, z_i the motor's axis, w_i the angular
    velocity of the link that carries it. So the torque Ia_i (ds_i/dt + z_i . dw_i / r_i) acts on what motor i moves,
    by row i of the transmission, and the moment Ia_i / r_i (ds_i/dt z_i + s_i w_i x z_i) on the carrying link. Take it
    in place of `rotor_inertia` or `motor_inertia`, which leave the coupling out (Spong's simplification). The link's
    own inertia includes the whole rotor. Transmissions may be coupled, elastic, or move through linkages.

    Source: Zollo et al. 2014, eqs 8 and A.8 to A.12; Nini et al. 2024, eq. 33, dw_m . z_m with the carrying link's
    acceleration in it, for motors that move several joints.

    Raises UsageError for axes that are not one unit vector a motor, and for unknown carriers.
    """

    axes: tuple[tuple[float, float, float], ...] = option(
        (),
        "the motors' axes in the carrying bodies' frames, none = along their joints where all joints are at zero",
    )
    carriers: tuple[str, ...] = option(
        (), "bodies that carry the motors, `base` for the base; none = the body before each joint"
    )
    name: str = "spinning_rotor"
    symbol = "Ia"
    selection = Selection(covers=("rotor",))
    traits = Traits(Kind.ROTORS, Side.BOTH)

    def __post_init__(self) -> None:
        object.__setattr__(self, "axes", unit_vectors(self.axes))

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column a motor, as its own joint sees it."""
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
        """The motors' lines and, on the joints that move a carrying link, what the rotor does to that link."""
        rotors = _Rotors.of(self, robot, samples)
        lines = self._on_motors(robot, samples, rotors.push)
        for i, body, axis in rotors.carried():
            spin = np.cross(rotors.links.w[body].T, axis) * rotors.speed[:, [i]]
            moment = (rotors.acceleration[:, [i]] * axis + spin).T / rotors.ratio[i]
            for ancestor, (turning, _) in rotors.links.axes[body].items():
                lines[:, i] += robot.projection[ancestor][:, None] * (turning * moment).sum(axis=0)
        return _panels(lines, rotors.present(robot), wanted)

    def _on_motors(self, robot: RobotModel, samples: Samples, values: Float) -> Float:
        # (joint, motor, T): values (T, m) of the motors, mapped to the joints by their transmission over r.
        J = robot.drive.jacobian(samples.motor.q) / robot.drive.own_ratio[:, None]
        return np.asarray(
            np.einsum("tmn,tm->nmt", np.broadcast_to(J, (len(samples), robot.n, robot.n)), values)
        )


@motor_regressor.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """On what the motors move: their own acceleration and that of the carrying links about the motors' axes."""
    push = _Rotors.of(term, robot, samples).push
    return _panels(term._on_motors(robot, samples, push), _driven(robot), wanted)


@momentum_form.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = dT/d(dq, dtheta), R = -dT/dq of both sides; through a linkage, whose ratio changes, the torque itself."""
    if robot.drive.linkages:
        return empty_panels(robot, samples), term.torque_regressor(robot, samples, wanted)
    rotors = _Rotors.of(term, robot, samples)
    P = term._on_motors(robot, samples, rotors.spin)
    R = np.zeros_like(P)
    for i, body, axis in rotors.carried():
        rate = rotors.speed[:, i] / rotors.ratio[i]
        turned = np.zeros((3, len(samples)))
        for ancestor in sorted(rotors.links.axes[body]):
            own = rotors.links.axes[body][ancestor][0]
            turned = turned + own * (samples.dq @ robot.projection[ancestor])
            turn = np.cross(turned.T, own.T) @ axis
            P[:, i] += robot.projection[ancestor][:, None] * (rate * (axis @ own))
            R[:, i] -= robot.projection[ancestor][:, None] * (rate * turn)
    present = rotors.present(robot)
    return _panels(P, present, wanted), _panels(R, present, wanted)


@motor_momentum_form.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Panels, Panels]:
    """P = s + z . w / r by the rows of the transmission, and no R: no position occurs in it."""
    if robot.drive.linkages:
        return empty_panels(robot, samples), motor_regressor(term, robot, samples, wanted)
    spin = term._on_motors(robot, samples, _Rotors.of(term, robot, samples).spin)
    return _panels(spin, _driven(robot), wanted), empty_panels(robot, samples)


@energy_form.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> tuple[Float, Panels]:
    """Kinetic energy h = s^2 / 2 + s z . w / r beside that of the links; nothing is lost."""
    rotors = _Rotors.of(term, robot, samples)
    h = rotors.speed * (rotors.spin - 0.5 * rotors.speed)
    return np.ascontiguousarray(h.T[wanted]), empty_panels(robot, samples)


@motor_work.register(SpinningRotor)
def _(term: SpinningRotor, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
    """Nothing: what the motor gives to its rotor is stored."""
    return empty_panels(robot, samples)


@dataclass(frozen=True, eq=False)
class _Rotors:
    """Rotors in motion: speed, acceleration (T, m) of the motors over their own gear ratio (m,), and the links."""

    mounting: Mounting
    links: reference.Motion
    ratio: Float
    speed: Float
    acceleration: Float

    @staticmethod
    def of(term: SpinningRotor, robot: RobotModel, samples: Samples) -> _Rotors:
        """Those of a robot at samples."""
        mounting = Mounting.of(robot, term.carriers, term.axes)
        motor, ratio = samples.motor, robot.drive.own_ratio
        _, speed, acceleration = robot.drive.motor_motion(motor.q, motor.dq, motor.ddq)
        links = reference.motion(robot.tree, *robot.tree_motion(samples.q, samples.dq, samples.ddq))
        return _Rotors(mounting, links, ratio, speed / ratio, acceleration / ratio)

    def carried(self) -> Iterator[tuple[int, int, Float]]:
        """Motors on bodies that move: (motor, carrying body, axis in that body's joint frame)."""
        for i, (body, axis) in enumerate(zip(self.mounting.carrier, self.mounting.axis, strict=True)):
            if body >= 0:
                yield i, int(body), axis

    def present(self, robot: RobotModel) -> Bool:
        """Whether the rotor of a motor (second) acts on a joint (first), (n, n)."""
        found = _driven(robot)
        for i, body, _ in self.carried():
            for ancestor in robot.tree.paths[body]:
                found[:, i] |= robot.projection[ancestor] != 0
        return found

    @property
    def spin(self) -> Float:
        """Angular velocity of each rotor about its axis, over its gear ratio, (T, m)."""
        return self._with_carriers(self.speed, self.links.w)

    @property
    def push(self) -> Float:
        """Its rate, (T, m)."""
        return self._with_carriers(self.acceleration, self.links.al)

    def _with_carriers(self, own: Float, links: list[Float]) -> Float:
        total = np.array(own)
        for i, body, axis in self.carried():
            total[:, i] += (axis @ links[body]) / self.ratio[i]
        return total


def _driven(robot: RobotModel) -> Bool:
    # (n, n): whether a motor (second) drives a joint (first).
    return np.array((robot.drive.transmission != 0).T)


def _panels(lines: Float, present: Bool, wanted: Bool) -> Panels:
    columns = tuple(np.flatnonzero(row & wanted) for row in present)
    return Panels(columns, tuple(np.ascontiguousarray(lines[j][c]) for j, c in enumerate(columns)))
