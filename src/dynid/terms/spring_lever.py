"""Where a spring is mounted: its length as a function of the joints, and by how much each joint changes it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import Field, asdict
from typing import Any, ClassVar

import numpy as np

from dynid.base.arrays import Float, Int
from dynid.base.errors import InputError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel

BASE = "base"
Point = tuple[float, float, float]


class Lever(ABC):
    """The seam for mountings: the spring's length l(q) and its slopes dl/dq_j; a force F loads joint j by F dl/dq_j.

    Subclasses are frozen dataclasses.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @abstractmethod
    def joints(self, robot: RobotModel) -> Int:
        """Indices of the independent joints that change the length, ascending."""

    @abstractmethod
    def length(self, robot: RobotModel, q: Float) -> tuple[Float, Float]:
        """Returns l (T,) in m and dl/dq (T, n) in m/rad (1 for a slide), for positions q (T, n)."""


@dataclass(frozen=True)
class Triangle(Lever):
    """A spring between a fixed point and a crank on one joint, both in the plane across its axis.

    l^2 = d^2 + r^2 - 2 d r cos(phi),    dl/dq = d r sin(phi) / l,    phi = q + angle

    joint: its name.    anchor: distance d of the fixed point from the joint axis, m.
    crank: distance r of the moving point, m.    angle: phi at q = 0, rad.
    Source: Nini et al. 2024 (beta - alpha is the angle).
    """

    joint: str
    anchor: float
    crank: float
    angle: float

    def __post_init__(self) -> None:
        if not (self.anchor > 0 and self.crank > 0 and np.isfinite(self.angle)):
            found = f"anchor {self.anchor} m, crank {self.crank} m, angle {self.angle} rad"
            raise UsageError("spring-geometry", found=found, expected="two lengths > 0 and an angle")

    def joints(self, robot: RobotModel) -> Int:
        """The one joint."""
        return np.array([named_joint(robot, self.joint)], dtype=np.int64)

    def length(self, robot: RobotModel, q: Float) -> tuple[Float, Float]:
        """By the law of cosines."""
        j = named_joint(robot, self.joint)
        phi = q[:, j] + self.angle
        product = self.anchor * self.crank
        length = np.sqrt(np.maximum(self.anchor**2 + self.crank**2 - 2 * product * np.cos(phi), 0.0))
        slopes = np.zeros_like(q)
        slopes[:, j] = product * np.sin(phi) / np.maximum(length, 1e-12)
        return length, slopes


@dataclass(frozen=True)
class Points(Lever):
    """A spring between two points on any two bodies.

    l = |p_b - p_a|,    dl/dq_j = u . d(p_b - p_a)/dq_j,    u = (p_b - p_a) / l

    bodies: names of the two bodies, "base" for what stands still.
    points: the two points, m, each in the joint frame of its body (in the base frame for "base").
    """

    bodies: tuple[str, str]
    points: tuple[Point, Point]

    def __post_init__(self) -> None:
        shape = np.shape(self.points)
        if shape != (2, 3) or len(self.bodies) != 2 or not np.isfinite(self.points).all():
            found = f"points {self.points} on {self.bodies}"
            raise UsageError(
                "spring-geometry", found=found, expected="two bodies and a point of 3 numbers on each"
            )
        if self.bodies[0] == self.bodies[1]:
            found = f"both ends of a spring on '{self.bodies[0]}'"
            raise UsageError("spring-geometry", found=found, expected="two different bodies")

    def joints(self, robot: RobotModel) -> Int:
        """The joints between the two bodies."""
        between = (
            robot.projection[list(self._between(robot))] if self._between(robot) else robot.projection[:0]
        )
        return np.flatnonzero(np.any(between != 0, axis=0)).astype(np.int64)

    def length(self, robot: RobotModel, q: Float) -> tuple[Float, Float]:
        """Forward kinematics of both points and their Jacobians along the spring."""
        moved, _, _ = robot.tree_motion(q, np.zeros_like(q), np.zeros_like(q))
        (pa, axes_a), (pb, axes_b) = (
            carried(robot, _body(robot, name), np.array(point), moved)
            for name, point in zip(self.bodies, self.points, strict=True)
        )
        apart = pb - pa
        length = np.linalg.norm(apart, axis=1)
        u = apart / np.maximum(length, 1e-12)[:, None]
        slopes = np.zeros((len(q), robot.n_bodies))
        for sign, point, axes in ((-1.0, pa, axes_a), (1.0, pb, axes_b)):
            for i in self._between(robot):
                if i in axes:
                    origin, axis = axes[i]
                    slides = robot.tree.prismatic[i]
                    slopes[:, i] += sign * np.einsum(
                        "tk,tk->t", u, axis if slides else np.cross(axis, point - origin)
                    )
        return length, slopes @ robot.projection

    def _between(self, robot: RobotModel) -> tuple[int, ...]:
        # Joints that move one body and not the other: the others turn the whole spring.
        a, b = (
            set(robot.tree.paths[i]) if i >= 0 else set()
            for i in (_body(robot, name) for name in self.bodies)
        )
        return tuple(sorted(a ^ b))


LEVERS: dict[tuple[str, ...], type[Lever]] = {
    ("joint", "anchor", "crank", "angle"): Triangle,
    ("bodies", "points"): Points,
}


def lever_from_options(options: Any) -> Lever:
    """Reads a mounting from plain data, recognised by its keys; raises InputError for others."""
    found = next(
        (keys for keys in LEVERS if isinstance(options, Mapping) and set(keys) == set(options)), None
    )
    if found is None:
        expected = " or ".join("{ " + ", ".join(keys) + " }" for keys in LEVERS)
        raise InputError("spring-geometry", found=f"geometry = {options}", expected=expected)
    try:
        return LEVERS[found](**{key: _tuples(value) for key, value in options.items()})
    except TypeError as error:
        given = f"geometry = {dict(options)}"
        raise InputError("spring-geometry", found=given, expected="numbers and names") from error


def lever_to_options(lever: Lever) -> dict[str, Any]:
    """The mounting as plain data."""
    return {key: _lists(value) for key, value in asdict(lever).items()}


def named_joint(robot: RobotModel, name: str) -> int:
    """Index of a joint; raises UsageError if there is none of that name."""
    if name not in robot.joint_names:
        raise UsageError(
            "unknown-joint", found=f"joint '{name}'", expected="one of " + ", ".join(robot.joint_names)
        )
    return robot.joint_names.index(name)


def carried(
    robot: RobotModel, body: int, point: Float, q: Float
) -> tuple[Float, dict[int, tuple[Float, Float]]]:
    """A body's point in the base frame, (T, 3), and origin and axis of each joint that moves it; q: (T, nb)."""
    T = len(q)
    R, p = np.tile(np.eye(3), (T, 1, 1)), np.zeros((T, 3))
    axes: dict[int, tuple[Float, Float]] = {}
    for i in robot.tree.paths[body] if body >= 0 else ():
        p = p + R @ robot.tree.translation[i]
        R = R @ robot.tree.rotation[i]
        axis = robot.tree.axis[i]
        axes[i] = (p, R @ axis)
        if robot.tree.prismatic[i]:
            p = p + (R @ axis) * q[:, i, None]
        else:
            R = R @ _turn(axis, q[:, i])
    return p + R @ point, axes


def lever_panels(robot: RobotModel, joints: Int, lines: Float, wanted: tuple[bool, ...]) -> Panels:
    """Panels of torque lines (c, T, n) that act on some joints alone; wanted: (c,)."""
    chosen = np.flatnonzero(wanted).astype(np.int64)
    nothing = np.zeros((0, lines.shape[1]))
    here = set(joints.tolist())
    return Panels(
        columns=tuple(chosen if j in here else chosen[:0] for j in range(robot.n)),
        values=tuple(
            np.ascontiguousarray(lines[chosen, :, j]) if j in here else nothing for j in range(robot.n)
        ),
    )


def _turn(axis: Float, angle: Float) -> Float:
    K = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.asarray(np.eye(3) + s * K + (1.0 - c) * (K @ K))


def _body(robot: RobotModel, name: str) -> int:
    if name in robot.body_names:
        return robot.body_names.index(name)
    if name == BASE:
        return -1
    raise UsageError(
        "unknown-body", found=f"body '{name}'", expected=f"{BASE} or one of " + ", ".join(robot.body_names)
    )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(one) for one in value) if isinstance(value, list | tuple) else value


def _lists(value: Any) -> Any:
    return [_lists(one) for one in value] if isinstance(value, list | tuple) else value
