"""Options of robot files and of the drives' position controllers, in a module that is fast to import."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from dynid.base.errors import UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass

# Options of reading a robot file: pose of the base, part of the robot, location of packages.

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Reading:
    """Options of reading a robot file; kept with the robot, so that the file can be read again.

    Each field is explained in its option; `lock` and `xacro` are mappings by name.

    Raises
    ------
    UsageError
        For numbers that are not finite.

    """

    root: str | None = option(None, "fixed base link, for files with several trees")
    tip: str | None = option(
        None,
        "last link of the chain from the base: joints outside the chain are locked, at the value in `lock` or at zero",
    )
    base: Literal["auto", "fixed", "floating"] = option(
        "auto",
        "floating: the base link moves, [as an IMU in the log says](floating-base.md); auto: floating with an IMU",
    )
    lock: Mapping[str, float] = option(
        factory=dict,
        doc="locked joints and their positions: fingers, a second arm, joints that are not in the log",
        kind="numbers (rad or m) by joint",
    )
    gravity: Vector | None = option(
        None,
        "gravity in the base frame, instead of the robot file's, for a tilted or hanging base",
        unit="m/s^2",
    )
    packages: tuple[str, ...] = option(
        (),
        "folders with the packages of `package://` and `$(find ...)`, and with files outside the robot file's folder; "
        "searched before the folders above the file, ROS_PACKAGE_PATH and AMENT_PREFIX_PATH",
        kind="a list of folders",
    )
    xacro: Mapping[str, str | bool | int | float] | bool = option(
        factory=dict,
        doc="arguments of a xacro file; with or without arguments, it also expands a file that is not named `.xacro`",
        kind="texts, numbers, true or false by argument; or true",
    )

    def __post_init__(self) -> None:
        if self.base not in ("auto", "fixed", "floating"):
            raise UsageError("base", found=f"base = '{self.base}'", expected="auto, fixed or floating")
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
        """Whether a file that is not named `.xacro` is expanded, too."""
        return bool(self.xacro)

    @property
    def arguments(self) -> dict[str, str]:
        """Arguments of xacro as text, with true and false in lower case."""
        given = {} if isinstance(self.xacro, bool) else self.xacro
        return {
            name: str(value).lower() if isinstance(value, bool) else str(value)
            for name, value in given.items()
        }


# Settings of the drives' position controllers: options of the command line, keys of `[drive]`.

# One number for all joints, one per joint in the robot's order, or a table by joint.
PerJoint = float | tuple[float, ...] | dict[str, float]
_KIND = "a number, a list with one per joint, or a table joint -> number ({})"
# s: no servo takes longer to react to a command.
LONGEST_DELAY = 1.0


@dataclass(frozen=True)
class ServoSettings:
    """The drives' position controllers: tau = sat(kp e(q_des - q) + kd (dq_des - dq) + tau_ff).

    The law is explained in `dynid.robot.drive.Servo`. A drive that applies a voltage u V, u = sat(duty_gain e), to a
    motor with torque constant Kt and resistance R, both reflected to the joint, has tau = Kt (u V - Kt dq) / R. That is
    the same law with kp = duty_gain stall_torque and the limit stall_torque = Kt V / R, minus the damping
    stall_torque / no_load_speed dq. Fields that are None keep the value of the robot file.

    Raises
    ------
    UsageError
        For a delay out of range.

    """

    kp: PerJoint | None = option(
        None,
        "stiffness of the position controllers; default: that of the robot file's position actuators",
        unit="N m/rad or N/m",
        kind=_KIND.format("N m/rad or N/m"),
    )
    kd: PerJoint | None = option(
        None,
        "damping of the position controllers",
        unit="N m s/rad or N s/m",
        kind=_KIND.format("N m s/rad or N s/m"),
    )
    effort_limit: PerJoint | None = option(
        None, "torque limit of the position controllers", unit="N m or N", kind=_KIND.format("N m or N")
    )
    dead_band: PerJoint | None = option(
        None,
        "position error up to which the controllers apply no torque",
        unit="rad or m",
        kind=_KIND.format("rad or m"),
    )
    stall_torque: PerJoint | None = option(
        None,
        "for voltage-controlled drives such as hobby servos: torque at rest under the full supply voltage V, Kt V / R; "
        "it is the torque limit",
        unit="N m or N",
        kind=_KIND.format("N m or N"),
    )
    no_load_speed: PerJoint | None = option(
        None,
        "for voltage-controlled drives: speed without load under the full supply voltage, V / Kt; the damping by "
        "back-EMF, stall_torque / no_load_speed, counts as viscous friction",
        unit="rad/s or m/s",
        kind=_KIND.format("rad/s or m/s"),
    )
    duty_gain: PerJoint | None = option(
        None,
        "for voltage-controlled drives: share of supply voltage per position error; with stall_torque it replaces kp",
        unit="1/rad or 1/m",
        kind=_KIND.format("1/rad or 1/m"),
    )
    delay: float | Literal["auto"] | None = option(
        None,
        "delay from the log row of a command to its first effect; auto: estimated from the log, which is the default",
        unit="s",
        least=0.0,
        most=LONGEST_DELAY,
    )
    hold: float | Literal["auto"] | None = option(
        None,
        "how long a command acts until the next one; auto: from row to row of the log, which is the default",
        unit="s",
        least=0.0,
        most=LONGEST_DELAY,
    )
    loop: Literal["computer", "drive"] | None = option(
        None,
        "where the position loop is closed: in a computer that sends torques, which delays the whole torque, or in the "
        "drive, which delays only commands; default: computer for logs with less than 10 ms per row, else drive",
    )

    def __post_init__(self) -> None:
        check_options(self, "drive")
