"""What a log adds to a robot's torque: a lag, a tilted base, wrong gains, drift. Small quantities, made linear."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from dynid.base.arrays import Bool, Float, locked
from dynid.base.errors import UnfitDataError, UsageError
from dynid.kernel import Panels, inverse_dynamics
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Part
from dynid.terms.friction import direction
from dynid.terms.term import Column, JointTerm, Of, Side, Symbol, Term, joint_indices

WIDTH = 0.02
SECONDS_AN_HOUR = 3600.0
# Secants over less of a sample are rounding.
LEAST_STEPS = 1e-3


@dataclass(frozen=True)
class Nominal:
    """A model known beforehand: bodies, and rotor inertia, viscous, Coulomb friction and offset of every joint.

    inertia: ten numbers a body about its joint frame; empty = the description's.
    drives: four times n numbers, empty = none.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()

    def bodies(self, robot: RobotModel) -> Float:
        """(nb, 10); raises UnfitDataError if they are not known."""
        inertia = np.array(self.inertia).reshape(-1, 10) if self.inertia else robot.inertia_prior
        if inertia.shape != (robot.n_bodies, 10) or not np.isfinite(inertia).all():
            raise UnfitDataError(
                "nominal-unknown",
                found="a term that needs a nominal model, without inertias",
                expected=f"ten numbers for each of {robot.n_bodies} bodies",
                do="give them in the description or as inertia = [...], or let dynid identify --auto find them",
            )
        return np.asarray(inertia)

    def rigid(self, robot: RobotModel, q: Float, dq: Float, ddq: Float) -> Float:
        """Torque of the bodies, (T, n)."""
        return (
            inverse_dynamics(robot.tree, self.bodies(robot), *robot.tree_motion(q, dq, ddq))
            @ robot.projection
        )

    def torque(self, robot: RobotModel, samples: Samples) -> Float:
        """Torque of bodies and drives, (T, n)."""
        total = self.rigid(robot, samples.q, samples.dq, samples.ddq)
        if self.drives:
            rotor, viscous, coulomb, offset = np.array(self.drives).reshape(4, robot.n)
            sign = direction(samples, WIDTH)
            total = total + rotor * samples.ddq + viscous * samples.dq + coulomb * sign + offset
        return total


class NominalTerm(Term):
    """A term that is linear about a nominal model.    Subclasses have the fields `inertia` and `drives` of it."""

    inertia: tuple[float, ...]
    drives: tuple[float, ...]
    side: ClassVar[Side] = Side.MOTOR

    @property
    def nominal(self) -> Nominal:
        """The model."""
        return Nominal(self.inertia, self.drives)

    @abstractmethod
    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Torque (T, n) of one unit of each parameter."""

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Every wanted parameter on all joints."""
        index = np.flatnonzero(wanted)
        lines = self.lines(robot, samples) if len(index) else ()
        return Panels(
            columns=tuple(index.astype(np.int64) for _ in range(robot.n)),
            values=tuple(
                np.array([lines[i][:, j] for i in index]).reshape(len(index), len(samples))
                for j in range(robot.n)
            ),
        )


def check_nominal(inertia: tuple[float, ...], drives: tuple[float, ...]) -> None:
    """Raises UsageError for numbers of a nominal model that are not finite or too few."""
    if len(inertia) % 10 or len(drives) % 4 or not np.isfinite([*inertia, *drives]).all():
        raise UsageError(
            "nominal",
            found=f"{len(inertia)} inertial numbers and {len(drives)} of drives",
            expected="finite numbers, ten a body and four a joint, or none",
        )


@dataclass(frozen=True)
class TorqueDelay(NominalTerm):
    """Torque that is logged late by `delay` seconds: tau(t - delay) = tau - delay dtau/dt, tau of a nominal model.

    Holds while the delay is short against the motion, or near a delay a that is known roughly, with the secant
    tau(t - delay) = tau + delay (tau(t - a) - tau) / a.
    inertia, drives: the nominal model, see Nominal.    each: whether every joint has a delay of its own.
    joints: names of the joints that are late; empty = all.    about: s, a of every parameter; empty = 0.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    each: bool = False
    joints: tuple[str, ...] = ()
    about: tuple[float, ...] = ()
    name: str = "torque_delay"
    of_log = True
    symbols = (Symbol("delay", "Δt", "", "delay of the torque behind the motion"),)

    def __post_init__(self) -> None:
        check_nominal(self.inertia, self.drives)
        if not np.isfinite(self.about).all():
            raise UsageError("delay-about", found=f"about = {list(self.about)}", expected="finite seconds")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The delay, or one a joint."""
        if self.each:
            late = joint_indices(robot, self.joints)
            return tuple(Column(f"delay{j + 1}", "s", self.name, j, prior=0.0) for j in late)
        return (Column("delay", "s", self.name, 0, prior=0.0, of=Of.ROBOT),)

    def near(self, robot: RobotModel, late: Mapping[str, float]) -> TorqueDelay:
        """The same about delays by name, s; 0 for those that are not named."""
        return replace(self, about=tuple(late.get(column.name, 0.0) for column in self.columns(robot)))

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """What a second of delay changes of the nominal torque: minus its slope, or a secant."""
        torque = self.nominal.torque(robot, samples)
        acting = joint_indices(robot, self.joints)
        groups = [(j,) for j in acting] if self.each else [acting]
        if len(self.about) not in (0, len(groups)):
            raise UsageError(
                "delay-about",
                found=f"{len(self.about)} delays to be about",
                expected=f"{len(groups)} or none",
            )
        found = []
        for group, about in zip(groups, self.about or (0.0,) * len(groups), strict=True):
            own = torque * np.isin(np.arange(robot.n), group)
            steps = about * samples.rate
            if abs(steps) < LEAST_STEPS:
                found.append(-slope(own, samples.rate))
            else:
                found.append((earlier(own, steps) - own) / about)
        return tuple(found)


@dataclass(frozen=True)
class GravityTilt(NominalTerm):
    """A base that is not level: tau + tilt_a dG(a x g) + tilt_b dG(b x g), small rotations about two base axes.

    The axes a, b are those of the base frame that lie most across gravity; tilts in rad. The first moment of the first
    body, which gravity does not show on a level base, adds tmc cos q1 + tms sin q1 where its joint turns.
    inertia: of the nominal model, see Nominal; drives are not read.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    name: str = "gravity_tilt"
    symbols = (
        Symbol("tiltx", "δ", "x", "tilt of the base about x"),
        Symbol("tilty", "δ", "y", "tilt of the base about y"),
        Symbol("tiltz", "δ", "z", "tilt of the base about z"),
        Symbol("tmc", "t", "c", "first moment of the first body times the tilt, with cos q"),
        Symbol("tms", "t", "s", "first moment of the first body times the tilt, with sin q"),
    )

    def __post_init__(self) -> None:
        check_nominal(self.inertia, self.drives)

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Two tilts and two moments."""
        names = [f"tilt{'xyz'[k]}" for k in self.axes(robot)]
        tilts = tuple(Column(name, "rad", self.name, 0, prior=0.0, of=Of.ROBOT) for name in names)
        root = () if robot.prismatic[0] else ("tmc1", "tms1")
        return tilts + tuple(Column(name, "N m", self.name, 0, prior=0.0) for name in root)

    def axes(self, robot: RobotModel) -> tuple[int, int]:
        """The two axes of the base frame that lie most across gravity, in order."""
        across = np.linalg.norm(np.cross(np.eye(3), robot.gravity), axis=1)
        a, b = sorted(np.argsort(-across, kind="stable")[:2].tolist())
        return a, b

    def exported(self, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
        """The lean of the base."""
        return (Lean(self, theta),)

    def lines(self, robot: RobotModel, samples: Samples) -> tuple[Float, ...]:
        """Static torque under the two changes of gravity, and the first body's pattern."""
        still = np.zeros_like(samples.q)
        found = []
        for k in self.axes(robot):
            turned = replace(robot, gravity=np.cross(np.eye(3)[k], robot.gravity))
            found.append(self.nominal.rigid(turned, samples.q, still, still))
        if not robot.prismatic[0]:
            for pattern in (np.cos, np.sin):
                line = np.zeros_like(samples.q)
                line[:, 0] = pattern(samples.q[:, 0])
                found.append(line)
        return tuple(found)


@dataclass(frozen=True, eq=False)
class Lean(Part):
    """A term of a base that is not level, with its parameters (2 or 4)."""

    term: GravityTilt
    values: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", locked(self.values, (None,), "tilts"))

    def torque(self, robot: RobotModel, q: Float) -> Float:
        """(T, n) at positions q (T, n)."""
        still = np.zeros_like(q)
        return self.term.torque(robot, Samples.from_motion(q, still, still), self.values)

    def gravity(self, robot: RobotModel) -> Float:
        """(2, 3) m/s^2: what a unit of each tilt adds to gravity."""
        return np.array([np.cross(np.eye(3)[k], robot.gravity) for k in self.term.axes(robot)])

    def bodies(self, robot: RobotModel) -> Float:
        """(nb, 10): the bodies that it weighs on."""
        return self.term.nominal.bodies(robot)


@dataclass(frozen=True)
class GainError(NominalTerm):
    """Drive gains that are off, relative to the other joints: tau_j (1 + dg_j), tau of a nominal model.

    All gains together cannot be told from the size of the robot, so one joint has to be left out.
    joints: names of the joints whose gain is free; empty = all but the first.
    inertia, drives: the nominal model, see Nominal.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    joints: tuple[str, ...] = ()
    name: str = "gain_error"
    of_log = True
    symbols = (Symbol("dg", "δg", "", "deviation of the drive gain from the first joint's"),)

    def __post_init__(self) -> None:
        check_nominal(self.inertia, self.drives)

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


@dataclass(frozen=True)
class Drift(JointTerm):
    """Offset that changes with time: tau_j = fd_j (t - origin) / 3600 s, in N m an hour.

    origin: on the log's clock, s.    joints: names of the joints it acts on; empty = all.
    """

    origin: float = 0.0
    joints: tuple[str, ...] = ()
    name: str = "drift"
    of_log = True
    symbol = "fd"
    symbols = (Symbol("fd", "f", "d", "offset that grows with time"),)
    unit_revolute = "N m/h"
    unit_prismatic = "N/h"
    needs_motion = False

    def basis(self, robot: RobotModel, samples: Samples) -> Float:
        """Hours since the origin."""
        hours = (samples.t - self.origin) / SECONDS_AN_HOUR
        return np.repeat(hours[:, None], robot.n, axis=1)


def slope(values: Float, rate: float) -> Float:
    """Derivative along time (axis 0) by central differences."""
    if len(values) < 2:
        return np.zeros_like(values)
    return np.asarray(np.gradient(values, axis=0) * rate)


def earlier(values: Float, samples: float) -> Float:
    """Values (T, n) some samples before, by cubic splines; the ends stay what they are beyond them."""
    from scipy.interpolate import CubicSpline

    if len(values) < 2:
        return values
    at = np.arange(len(values), dtype=np.float64)
    return np.asarray(CubicSpline(at, values)(np.clip(at - samples, 0.0, at[-1])))
