"""Torque that the log itself brings along: a counterbalance, a vendor's compensation, a disturbance."""

from __future__ import annotations

from typing import Literal

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Column, Kind, Side, Traits, panels_of
from dynid.terms.forms import balanced_joints, known_torque
from dynid.terms.friction import direction
from dynid.terms.term import Term, empty_panels, joint_indices


@dataclass(frozen=True)
class ChannelTorque(Term):
    """Torque proportional to an extra log channel on one joint: tau_j = s u(t).

    channel_name: the extra channel u.    joint: its joint.
    free: whether the scale s is estimated (prior 1) or is 1.
    """

    channel_name: str
    joint: str
    free: bool = True
    name: str = "channel"

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """One column if the scale is estimated."""
        owner = self._joint(robot)
        return (Column(f"s_{self.channel_name}", "1", self.name, owner, prior=1.0),) if self.free else ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The channel on its joint."""
        line = np.array(channel(samples, self.channel_name)[None, :], dtype=np.float64)
        return panels_of(robot, samples, {self._joint(robot): ([0], line)} if wanted.any() else {})

    def _joint(self, robot: RobotModel) -> int:
        return joint_indices(robot, (self.joint,))[0]


@known_torque.register(ChannelTorque)
def _(term: ChannelTorque, robot: RobotModel, samples: Samples) -> Float | None:
    """The channel itself when its scale is fixed."""
    if term.free:
        return None
    torque = np.zeros((len(samples), robot.n))
    torque[:, term._joint(robot)] = channel(samples, term.channel_name)
    return torque


@balanced_joints.register(ChannelTorque)
def _(term: ChannelTorque, robot: RobotModel) -> Bool:
    """Its joint: what the log brings along may be a counterbalance."""
    return np.isin(np.arange(robot.n), term._joint(robot))


def channel(samples: Samples, name: str) -> Float:
    """Returns an extra channel of the samples; raises UnfitDataError if the log does not hold it."""
    if name not in samples.extra:
        have = ", ".join(sorted(samples.extra)) or "none"
        raise UnfitDataError(
            "missing-channel",
            found=f"no extra channel '{name}' (extra channels: {have})",
            expected="the channel that a term of the model reads",
            do=f"map it under [log.extra] as {name} = {{ column = ..., unit = ... }}",
        )
    return samples.extra[name]


# Rotor dynamics compensation: what is known of the drives is taken off the motor torque before the fit.


@dataclass(frozen=True)
class RotorCompensation(Term):
    """Known rotors and friction: tau - B ddtheta - f(dtheta, tau_J, T) = tau_J is left for the other terms.

    f = viscous (1 + heat (T - reference)) dtheta + (coulomb + load |tau_J|) s, s = sign or tanh(dtheta / width).
    What f lacks is estimated by adding `viscous`, `coulomb` or any other friction. The torque tau_J at the joint loads
    the friction that it is found by; both are solved for together, tau_J = r / (1 + load s sign(r)) with r all but the
    loaded part. That has one solution for every torque while load |s| < 1; from there on a drive locks itself.

    inertia: B, reflected, kg m^2 (kg), one a joint; () = of the description.    viscous: N m s/rad.    coulomb: N m.
    load: 1.    heat: 1/K, needs the log's temperature.    each () = 0.    reference: degC.    width: rad/s.
    loaded_by: "joint", or "motor": by the motor's torque less the rotor's instead, as the paper has it, which costs a
        factor of 4 in accuracy there.
    Source: Madsen et al. 2020, eqs 12 to 14; the implicit load is not in the paper.

    Raises UsageError for a wrong number of values, an unknown inertia, or friction that locks a drive, UnfitDataError
    without a temperature to use.
    """

    inertia: tuple[float, ...] = ()
    viscous: tuple[float, ...] = ()
    coulomb: tuple[float, ...] = ()
    load: tuple[float, ...] = ()
    heat: tuple[float, ...] = ()
    reference: float = 25.0
    width: float = 0.0
    loaded_by: Literal["joint", "motor"] = "joint"
    name: str = "rotor_compensation"
    traits = Traits(Kind.COMPENSATION, Side.MOTOR)

    def __post_init__(self) -> None:
        if not self.width >= 0 or self.loaded_by not in ("joint", "motor"):
            raise UsageError(
                "rotor-compensation",
                found=f"width = {self.width}, loaded_by = '{self.loaded_by}'",
                expected="a width >= 0, loaded_by 'joint' or 'motor'",
            )

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """None: everything is known."""
        return ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Empty."""
        return empty_panels(robot, samples)

    def _friction(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
        # Friction without load, and its change by the size of the load, (T, n) each.
        sign = direction(samples, self.width)
        viscous = np.broadcast_to(self._values(robot, "viscous"), samples.dq.shape)
        if self.heat:
            if samples.temperature is None:
                raise UnfitDataError(
                    "no-temperature",
                    found="friction that changes with temperature, and no temperature in the log",
                    expected="log.temperature",
                )
            viscous = viscous * (1 + self._values(robot, "heat") * (samples.temperature - self.reference))
        plain = viscous * samples.dq + self._values(robot, "coulomb") * sign
        return np.asarray(plain), np.asarray(self._values(robot, "load") * sign)

    def _values(self, robot: RobotModel, name: str) -> Float:
        values = getattr(self, name)
        if values and len(values) != robot.n:
            raise UsageError(
                "rotor-compensation",
                found=f"{len(values)} values of {name}",
                expected=f"{robot.n}, one a joint, or none",
            )
        return np.array(values or np.zeros(robot.n), dtype=np.float64)


@known_torque.register(RotorCompensation)
def _(term: RotorCompensation, robot: RobotModel, samples: Samples) -> Float | None:
    """Torque of rotors and friction, (T, n)."""
    B = term._values(robot, "inertia") if term.inertia else robot.drive.reflected_rotor_inertia
    if not np.isfinite(B).all():
        missing = [name for name, b in zip(robot.joint_names, B, strict=True) if not np.isfinite(b)]
        raise UsageError(
            "rotor-inertia",
            found=f"no rotor inertia of {', '.join(missing)}",
            expected="one a joint",
            do="give drive.rotor_inertia in the robot file, or inertia of rotor_compensation",
        )
    spun = samples.tau - B * samples.ddq
    plain, slope = term._friction(robot, samples)
    if term.loaded_by == "motor":
        return np.asarray(B * samples.ddq + plain + slope * np.abs(spun))
    locked = np.abs(slope).max(axis=0)
    if (locked >= 1.0).any():
        j = int(np.argmax(locked))
        raise UsageError(
            "self-locking",
            found=f"load = {term._values(robot, 'load')[j]:.4g} at {robot.joint_names[j]}",
            expected="below 1: friction that grows as fast as its load leaves no torque, or two, at the joint",
            do="check the coefficient; it is N m of friction for each N m at the joint",
        )
    rest = spun - plain
    return np.asarray(samples.tau - rest / (1.0 + slope * np.sign(rest)))
