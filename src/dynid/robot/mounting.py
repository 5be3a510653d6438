"""Where motors sit: the bodies that carry them, and the axes about which their rotors spin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dynid.base.arrays import Float, Int, locked, locked_int
from dynid.base.errors import UsageError
from dynid.base.named_options import meant
from dynid.base.records import dataclass
from dynid.robot.model import RobotModel

BASE = "base"
_UNIT = 1e-9  # how far the length of an axis may be from one


@dataclass(frozen=True, eq=False)
class Mounting:
    """Where the motors sit: carrier (n,) body whose link each is mounted on (-1 = base), axis (n, 3) in its frame."""

    carrier: Int
    axis: Float

    def __post_init__(self) -> None:
        n = len(self.carrier)
        object.__setattr__(self, "carrier", locked_int(self.carrier, (n,), "carrier"))
        object.__setattr__(self, "axis", locked(self.axis, (n, 3), "axis"))

    @staticmethod
    def of(robot: RobotModel, carriers: Sequence[str] = (), axes: Sequence[Sequence[float]] = ()) -> Mounting:
        """Motors on named bodies, in the order of the joints, with axes in the joint frames of these bodies.

        carriers: names of bodies, "base" for the base; () = each motor on the body before its joint.
        axes: unit vectors; () = along the motor's own joint where all joints are at zero.
        Raises UsageError for an unknown body, or another number of carriers or axes than of motors.
        """
        return Mounting(_carriers(robot, carriers), _axes(robot, _carriers(robot, carriers), axes))


def unit_vectors(axes: Sequence[Sequence[float]]) -> tuple[tuple[float, float, float], ...]:
    """The axes as plain numbers; raises UsageError unless each is a unit vector of three numbers."""
    try:
        found = np.array(axes, dtype=np.float64).reshape(-1, 3)
    except ValueError:
        found = np.full((1, 3), np.nan)
    if len(found) != len(axes) or not (np.abs(np.linalg.norm(found, axis=1) - 1.0) <= _UNIT).all():
        raise UsageError("rotor-axes", found=f"axes {[list(a) for a in axes]}", expected="unit vectors")
    return tuple((float(x), float(y), float(z)) for x, y, z in found)


def _carriers(robot: RobotModel, names: Sequence[str]) -> Int:
    if not names:
        return np.asarray(robot.parent[robot.independent_bodies])
    if len(names) != robot.n:
        raise UsageError("rotor-carriers", found=f"{len(names)} carriers", expected=f"{robot.n}, one a motor")
    for name in names:
        if name not in (*robot.body_names, BASE):
            raise UsageError(
                "unknown-body",
                found=f"body '{name}' that carries a motor",
                expected=f"{BASE}, " + ", ".join(robot.body_names),
                do=meant(name, robot.body_names),
            )
    index = {BASE: -1} | {name: i for i, name in enumerate(robot.body_names)}
    return np.array([index[name] for name in names], dtype=np.int64)


def _axes(robot: RobotModel, carrier: Int, axes: Sequence[Sequence[float]]) -> Float:
    if axes and len(axes) != robot.n:
        raise UsageError("rotor-axes", found=f"{len(axes)} axes", expected=f"{robot.n}, one a joint")
    if axes:
        return np.array(unit_vectors(axes))
    R = _at_zero(robot)
    own = [R[body] @ robot.axis[body] for body in robot.independent_bodies]
    on = [np.eye(3) if body < 0 else R[body] for body in carrier]
    return np.array([E.T @ z for E, z in zip(on, own, strict=True)])


def _at_zero(robot: RobotModel) -> Float:
    # (nb, 3, 3): bodies' joint frames seen from the base where every joint is at zero.
    found = np.zeros((robot.n_bodies, 3, 3))
    for body, parent in enumerate(robot.parent):
        own = robot.T_parent_joint[body, :3, :3]
        found[body] = own if parent < 0 else found[parent] @ own
    return found
