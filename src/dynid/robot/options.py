"""Options that go with a robot file: how it is read, and the drives' position controllers. Light to load."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from dynid.base.errors import UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass

# What may be said of a robot beside its file: how it stands, which part of it, and where its packages lie.

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Reading:
    """How a description is read: all that is not in the file. Kept with the robot, so that it can be read again.

    lock and xacro: by name.    Raises UsageError for numbers that are not finite.
    """

    root: str | None = option(None, "link that stands still, where the file holds several trees")
    tip: str | None = option(
        None,
        "last link of a chain from the base: joints beside it and beyond are held where `lock` says, or at zero",
    )
    lock: Mapping[str, float] = option(
        factory=dict,
        doc="joints that are held, and where: fingers, a second arm, what is not in the log",
        kind="numbers (rad or m) by joint",
    )
    gravity: Vector | None = option(
        None,
        "in the base frame, in place of the description's: of a base that leans or hangs",
        unit="m/s^2",
    )
    packages: tuple[str, ...] = option(
        (),
        "folders that hold the packages of `package://` and `$(find ...)`, and files outside the description's folder; "
        "looked in before the folders above the file, ROS_PACKAGE_PATH and AMENT_PREFIX_PATH",
        kind="a list of folders",
    )
    xacro: Mapping[str, str | bool | int | float] | bool = option(
        factory=dict,
        doc="arguments of a xacro file; alone, or with any argument, it also expands a file that is not named `.xacro`",
        kind="texts, numbers, true or false by argument; or true",
    )

    def __post_init__(self) -> None:
        gravity = self.gravity
        if gravity is not None and (len(gravity) != 3 or not all(map(math.isfinite, gravity))):
            raise UsageError("gravity", found=f"gravity {gravity}", expected="three finite numbers, m/s^2")
        for joint, value in self.lock.items():
            if not math.isfinite(value):
                raise UsageError(
                    "lock", found=f"lock {joint} = {value}", expected="a finite number, rad or m"
                )
        if gravity is not None:
            object.__setattr__(self, "gravity", (float(gravity[0]), float(gravity[1]), float(gravity[2])))
        object.__setattr__(self, "lock", {name: float(value) for name, value in self.lock.items()})
        object.__setattr__(self, "packages", tuple(str(folder) for folder in self.packages))
        object.__setattr__(self, "xacro", self.arguments or self.xacro is True or {})

    @property
    def expands(self) -> bool:
        """Whether xacro is expanded in a file whose name does not say that it is xacro."""
        return bool(self.xacro)

    @property
    def arguments(self) -> dict[str, str]:
        """The arguments of xacro as they stand in a file: true and false in small letters."""
        given = {} if isinstance(self.xacro, bool) else self.xacro
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
        }


# What a user says of the drives' position controllers: options of the command line, keys of `[drive]`.

# One number for all joints, one a joint in the robot's order, or a table by joint.
PerJoint = float | tuple[float, ...] | dict[str, float]
_KIND = "a number, a list of one a joint, or a table joint -> number ({})"
# s; a drive whose command takes longer to act is no servo.
LONGEST_DELAY = 1.0


@dataclass(frozen=True)
class ServoSettings:
    """The drives' position controllers: tau = sat(kp e(q_des - q) + kd (dq_des - dq) + tau_ff).

    `dynid.robot.drive.Servo` says what they do. A drive that applies a voltage u V, u = sat(duty_gain e), to a motor of
    constant Kt and resistance R, both as the joint sees them, makes tau = Kt (u V - Kt dq) / R: the same law with
    kp = duty_gain stall_torque and the limit stall_torque = Kt V / R, less stall_torque / no_load_speed times dq.
    What is None stays as the robot's description has it.    Raises UsageError for a delay out of range.
    """

    kp: PerJoint | None = option(
        None,
        "stiffness of the position controllers; without it those of the description's position actuators",
        unit="N m/rad or N/m",
        kind=_KIND.format("N m/rad or N/m"),
    )
    kd: PerJoint | None = option(
        None, "their damping", unit="N m s/rad or N s/m", kind=_KIND.format("N m s/rad or N s/m")
    )
    effort_limit: PerJoint | None = option(
        None, "greatest torque that they ask for", unit="N m or N", kind=_KIND.format("N m or N")
    )
    dead_band: PerJoint | None = option(
        None,
        "errors of position up to this size make no torque",
        unit="rad or m",
        kind=_KIND.format("rad or m"),
    )
    stall_torque: PerJoint | None = option(
        None,
        "of a drive that applies a voltage and no current, as hobby servos do: torque at rest under its whole supply "
        "voltage V, Kt V / R; it is the limit of the torque",
        unit="N m or N",
        kind=_KIND.format("N m or N"),
    )
    no_load_speed: PerJoint | None = option(
        None,
        "speed of such a drive without load under its whole voltage, V / Kt: what its back-EMF takes off, "
        "stall_torque / no_load_speed, counts to viscous friction",
        unit="rad/s or m/s",
        kind=_KIND.format("rad/s or m/s"),
    )
    duty_gain: PerJoint | None = option(
        None,
        "share of its voltage that it applies per error of position; with stall_torque it stands for kp",
        unit="1/rad or 1/m",
        kind=_KIND.format("1/rad or 1/m"),
    )
    delay: float | Literal["auto"] | None = option(
        None,
        "how much later than it was logged a row's command begins to act; auto: found in the log, as it is without it",
        unit="s",
        least=0.0,
        most=LONGEST_DELAY,
    )
    hold: float | Literal["auto"] | None = option(
        None,
        "for how long it acts until the next one takes over; auto: from row to row, as it is without it",
        unit="s",
        least=0.0,
        most=LONGEST_DELAY,
    )
    loop: Literal["computer", "drive"] | None = option(
        None,
        "where the position loop is closed: in a computer that sends torques, so that the delay is one of the whole "
        "torque, or on board of the drive, where commands alone are late; without it by a computer in logs whose rows "
        "take less than 10 ms, on board in slower ones",
    )

    def __post_init__(self) -> None:
        check_options(self, "drive")
