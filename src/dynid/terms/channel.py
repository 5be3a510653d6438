"""Torque from channels of the log, and known rotors and friction of the drives."""

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
    """Torque on one joint in proportion to an extra log channel: tau_j = s u(t).

    For example a counterbalance, a vendor's compensation, or a disturbance.

    Attributes
    ----------
    channel_name : str
        Name of the extra channel u.
    joint : str
        Name of the joint.
    free : bool
        Whether the scale s is estimated (prior 1); else it is 1.

    """

    channel_name: str
    joint: str
    free: bool = True
    name: str = "channel"

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The scale, if it is estimated."""
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
    """The channel, if its scale is not estimated."""
    if term.free:
        return None
    torque = np.zeros((len(samples), robot.n))
    torque[:, term._joint(robot)] = channel(samples, term.channel_name)
    return torque


@balanced_joints.register(ChannelTorque)
def _(term: ChannelTorque, robot: RobotModel) -> Bool:
    """Its joint, since the channel may be a counterbalance."""
    return np.isin(np.arange(robot.n), term._joint(robot))


def channel(samples: Samples, name: str) -> Float:
    """Extra channel (T,) of the samples; raises UnfitDataError if the log has no such channel."""
    if name not in samples.extra:
        have = ", ".join(sorted(samples.extra)) or "none"
        raise UnfitDataError(
            "missing-channel",
            found=f"no extra channel '{name}' (extra channels: {have})",
            expected="the channel, which a term of the model reads",
            do=f"map it under [log.extra] as {name} = {{ column = ..., unit = ... }}",
        )
    return samples.extra[name]


# Rotor dynamics compensation: known torque of the drives is subtracted from the motor torque before the fit.


@dataclass(frozen=True)
class RotorCompensation(Term):
    """Known rotors and friction: the other terms explain tau_J = tau - B ddtheta - f(dtheta, tau_J, T).

    f = viscous (1 + heat (T - reference)) dtheta + (coulomb + load |tau_J|) s, s = sign or tanh(dtheta / width).
    Corrections of f are estimated by adding `viscous`, `coulomb` or any other friction. f depends on the joint torque
    tau_J, which follows from tau_J = r / (1 + load s sign(r)), where r contains everything except the load-dependent
    part. The solution is unique while load |s| < 1; otherwise the drive is self-locking.

    Attributes
    ----------
    inertia : tuple of float, kg m^2 (kg)
        B, reflected, one per joint; () = those of the robot file.
    viscous : tuple of float, N m s/rad
        One per joint; () = 0.
    coulomb : tuple of float, N m
        One per joint; () = 0.
    load : tuple of float
        Friction per load, one per joint; () = 0.
    heat : tuple of float, 1/K
        Relative change of viscous friction, one per joint; needs temperatures in the log; () = 0.
    reference : float, degC
        Temperature at which `viscous` is valid.
    width : float, rad/s
        Width of the smoothed sign s; 0 = no smoothing.
    loaded_by : {"joint", "motor"}
        Load: the joint torque, or the motor torque minus that of the rotor as in the paper, which is less accurate
        there by a factor of 4.

    Raises
    ------
    UsageError
        If the number of values is wrong, an inertia is unknown, or friction makes a drive self-locking.
    UnfitDataError
        If the log has no temperatures although `heat` is given.

    References
    ----------
    Madsen et al. 2020, eqs 12 to 14; the implicit load is not in the paper.

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
        """No columns, since everything is known."""
        return ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Panels without columns."""
        return empty_panels(robot, samples)

    def _friction(self, robot: RobotModel, samples: Samples) -> tuple[Float, Float]:
        # Friction without load, and its derivative with respect to the absolute load, (T, n) each.
        sign = direction(samples, self.width)
        viscous = np.broadcast_to(self._values(robot, "viscous"), samples.dq.shape)
        if self.heat:
            if samples.temperature is None:
                raise UnfitDataError(
                    "no-temperature",
                    found="friction that changes with temperature, and no temperature in the log",
                    expected="temperature columns under [log.temperature]",
                )
            viscous = viscous * (1 + self._values(robot, "heat") * (samples.temperature - self.reference))
        plain = viscous * samples.dq + self._values(robot, "coulomb") * sign
        return np.asarray(plain), np.asarray(self._values(robot, "load") * sign)

    def _values(self, robot: RobotModel, name: str) -> Float:
        # Values (n,) of an option, 0 if none are given.
        values = getattr(self, name)
        if values and len(values) != robot.n:
            raise UsageError(
                "rotor-compensation",
                found=f"{len(values)} values of {name}",
                expected=f"{robot.n}, one per joint, or none",
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
            expected="one per joint",
            do="give drive.rotor_inertia in the robot file, or inertia of rotor_compensation",
        )
    without_rotor = samples.tau - B * samples.ddq
    plain, slope = term._friction(robot, samples)
    if term.loaded_by == "motor":
        return np.asarray(B * samples.ddq + plain + slope * np.abs(without_rotor))
    steepest = np.abs(slope).max(axis=0)
    if (steepest >= 1.0).any():
        j = int(np.argmax(steepest))
        raise UsageError(
            "self-locking",
            found=f"load = {term._values(robot, 'load')[j]:.4g} at {robot.joint_names[j]}",
            expected="below 1, since the joint torque is not unique otherwise",
            do="check the coefficient: it is the friction in N m per N m of joint torque",
        )
    remainder = without_rotor - plain
    return np.asarray(samples.tau - remainder / (1.0 + slope * np.sign(remainder)))
