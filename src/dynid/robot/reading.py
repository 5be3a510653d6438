"""What may be said of a robot beside its file: how it stands, which part of it, and where its packages lie."""

from __future__ import annotations

import math
from collections.abc import Mapping

from dynid.base.errors import UsageError
from dynid.base.options import option
from dynid.base.records import dataclass

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
        object.__setattr__(self, "packages", tuple(str(one) for one in self.packages))
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
