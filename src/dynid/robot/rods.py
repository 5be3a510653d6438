"""Rods with ball joints between a motor's crank, or the anchor of a cylinder, and a link that it moves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import DynidError, InputError, UsageError
from dynid.base.records import dataclass
from dynid.robot.linkage import Linkage
from dynid.robot.model import JointType, RobotModel, path_to_base

Vector = tuple[float, float, float]


@dataclass(frozen=True)
class Rod:
    """A rod from a crank to a point of another link, or a cylinder between points of two links.

    All is given in the frame of the link that carries the crank. From there a chain of joints leads to the other link;
    each joint moves by weights . q + shift.

    Parameters
    ----------
    frames : tuple of 12 float each
        Rows of [R p]: frame of the first joint, of each next one in that before it, and of the other link in the last.
    axes : tuple of three float each
        Axes of the joints.
    slides : tuple of bool
        Whether they are prismatic.
    weights : tuple of k float each
        Share of the positions q of the linkage's joints in the position of each joint of the chain.
    shifts : tuple of float, rad (m)
        Position of each joint of the chain at q = 0.
    end : three float, m
        Point of the other link at which the rod ends.
    centre : three float, m
        A point of the crank's axis, or the anchor of the cylinder.
    axis : three float
        Axis of the crank; zero for a cylinder.
    arm : three float, m
        From the centre to the rod's end at crank angle 0.
    length : float, m
        Of the rod; of a cylinder at coordinate 0.
    side : float
        1 or -1: which of two crank angles the rod has.
    link, to : str
        Names of the two links.

    """

    frames: tuple[tuple[float, ...], ...]
    axes: tuple[Vector, ...]
    slides: tuple[bool, ...]
    weights: tuple[tuple[float, ...], ...]
    shifts: tuple[float, ...]
    end: Vector
    centre: Vector
    axis: Vector = (0.0, 0.0, 0.0)
    arm: Vector = (0.0, 0.0, 0.0)
    length: float = 0.0
    side: float = 1.0
    link: str = ""
    to: str = ""

    @property
    def is_cylinder(self) -> bool:
        """Whether the actuator changes its length instead of turning a crank."""
        return not any(self.axis)

    def end_point(self, q: Float) -> tuple[Float, Float, Float]:
        """Point B (T, 3) at which the rod ends, with derivatives dB/dq (T, k, 3) and d^2B/dq^2 (T, k, k, 3)."""
        T, W = len(q), np.array(self.weights)
        R, p = np.tile(np.eye(3), (T, 1, 1)), np.zeros((T, 3))
        turning, origins = [], []
        motion = q @ W.T + np.array(self.shifts)
        for i, numbers in enumerate(self.frames):
            F = np.reshape(numbers, (3, 4))
            p, R = p + R @ F[:, 3], R @ F[:, :3]
            if i == len(self.axes):
                break
            axis = np.array(self.axes[i])
            turning.append(R @ axis)
            origins.append(p)
            if self.slides[i]:
                p = p + motion[:, [i]] * turning[-1]
            else:
                R = R @ _rotations(axis, motion[:, i])
        B = p + R @ np.array(self.end)
        s = len(turning)
        first, second = np.zeros((T, s, 3)), np.zeros((T, s, s, 3))
        for j in range(s):
            first[:, j] = turning[j] if self.slides[j] else np.cross(turning[j], B - origins[j])
            for i in range(j + 1):
                if not self.slides[i]:
                    second[:, i, j] = second[:, j, i] = np.cross(turning[i], first[:, j])
        return B, np.einsum("tsx,sk->tkx", first, W), np.einsum("tabx,ai,bj->tijx", second, W, W)

    def closed(self, q: Float) -> tuple[Float, Float, Float]:
        """Coordinate (T,) of the actuator with first (T, k) and second derivatives (T, k, k); nan where apart."""
        B, dB, ddB = self.end_point(q)
        w = B - np.array(self.centre)
        if self.is_cylinder:
            size = np.linalg.norm(w, axis=1)
            along = np.einsum("tx,tkx->tk", w, dB) / size[:, None]
            bend = np.einsum("tix,tjx->tij", dB, dB) + np.einsum("tx,tijx->tij", w, ddB)
            bend -= along[:, :, None] * along[:, None, :]
            return size - self.length, along, bend / size[:, None, None]
        a = self._crank_angle(w)
        across, up, level = self._crank_plane()
        arm = level + np.cos(a)[:, None] * across + np.sin(a)[:, None] * up
        tangent = np.cos(a)[:, None] * up - np.sin(a)[:, None] * across
        u = w - arm
        # Derivatives of |u|^2 = l^2 with u = B(q) - A(a).
        with np.errstate(divide="ignore", invalid="ignore"):
            lever = np.einsum("tx,tx->t", u, tangent)
            slope = np.einsum("tx,tkx->tk", u, dB) / lever[:, None]
            moved = dB - slope[:, :, None] * tangent[:, None, :]
            bend = np.einsum("tix,tjx->tij", moved, moved) + np.einsum("tx,tijx->tij", u, ddB)
            inward = np.einsum("tx,tx->t", u, arm - level)
            bend += inward[:, None, None] * slope[:, :, None] * slope[:, None, :]
            return a, slope, bend / lever[:, None, None]

    def _crank_plane(self) -> tuple[Float, Float, Float]:
        # Arm across the axis, the direction in which it turns first, and arm along the axis.
        axis, arm = np.array(self.axis), np.array(self.arm)
        level = axis * (axis @ arm)
        across = arm - level
        return across, np.cross(axis, across), level

    def _crank_angle(self, w: Float) -> Float:
        across, up, level = self._crank_plane()
        x, y = w @ across, w @ up
        gap = 0.5 * ((w**2).sum(axis=1) + np.dot(self.arm, self.arm) - self.length**2) - w @ level
        with np.errstate(divide="ignore", invalid="ignore"):
            a = np.arctan2(y, x) + self.side * np.arccos(gap / np.hypot(x, y))
        return np.asarray(np.remainder(a + np.pi, 2 * np.pi) - np.pi)


def _rotations(axis: Float, angle: Float) -> Float:
    x, y, z = axis
    K = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    turn = np.eye(3) + np.sin(angle)[:, None, None] * K + (1.0 - np.cos(angle))[:, None, None] * (K @ K)
    return np.asarray(turn)


@dataclass(frozen=True)
class Rods(Linkage):
    """Rods or cylinders by which k motors move k joints together: an ankle with two rods, a slider-crank, a Delta.

    Parameters
    ----------
    rods : tuple of Rod
        One per motor, in the order of the joints.
    at : tuple of float, rad (m)
        Joint positions at which they close.

    """

    rods: tuple[Rod, ...]
    at: tuple[float, ...]
    kind = "rods"
    noun = "linkage of rods"

    def __post_init__(self) -> None:
        if len(self.rods) != len(self.at):
            raise UsageError(
                "linkage",
                found=f"{len(self.rods)} rods for {len(self.at)} joints",
                expected="one rod per joint",
            )

    @classmethod
    def from_numbers(cls, numbers: Mapping[str, Any]) -> Rods:
        """Rods from the numbers of their fields."""
        return cls(
            tuple(Rod(**{name: _tuples(value) for name, value in rod.items()}) for rod in numbers["rods"]),
            tuple(numbers["at"]),
        )

    @property
    def reference(self) -> Float:
        """Joint positions (k,) at which the rods close."""
        return np.array(self.at)

    @property
    def sliding(self) -> Bool:
        """Which actuators are cylinders, (k,)."""
        return np.array([rod.is_cylinder for rod in self.rods])

    def closed(self, q: Float) -> tuple[Float, Float, Float]:
        """Crank angles or lengths, one after the other, since each rod closes for itself."""
        parts = [rod.closed(q) for rod in self.rods]
        phi, D, H = (np.stack([part[k] for part in parts], axis=1) for k in range(3))
        phi[np.isnan(phi).any(axis=1)] = np.nan
        return phi, D, H


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


# Rods between links of a robot.


@dataclass(frozen=True, eq=False)
class RodEntry:
    """A rod as a robot file declares it, points in the frames of links.

    Attributes
    ----------
    motor : str
        Joint whose motor turns the crank or is the cylinder.
    link, to : str
        Link with the crank or anchor, and link that the rod moves.
    centre, axis, arm, end : three float
        As in `Rod`; no axis = a cylinder.
    length : float or None, m
        Of the rod; None = as it is with the crank at its arm and all joints at 0. Of a cylinder at coordinate 0.
    crossed : bool
        Whether the crank has the other one of its two angles.

    """

    motor: str
    link: str
    centre: Vector
    to: str
    end: Vector
    axis: Vector | None = None
    arm: Vector = (0.0, 0.0, 0.0)
    length: float | None = None
    crossed: bool = False


def rods_of(robot: RobotModel, entries: Sequence[RodEntry]) -> dict[int, Rods]:
    """Linkages of declared rods by joint.

    Parameters
    ----------
    robot : RobotModel
        The robot without them.
    entries : sequence of RodEntry
        The rods.

    Returns
    -------
    dict of int to Rods
        The same object at each joint that it moves.

    Raises
    ------
    InputError
        For unknown links and motors, rods that move no joint or more joints than there are rods, and rods that do not
        close within the limits.

    """
    joints_of: list[set[int]] = []
    for entry in entries:
        if entry.motor not in robot.joint_names:
            raise InputError(
                "unknown-joint",
                found=f"a rod of unknown motor '{entry.motor}'",
                expected="one of " + ", ".join(robot.joint_names),
            )
        moved = set(joints_between(robot, entry))
        joints_of.append(moved | {robot.joint_names.index(entry.motor)})
        if not moved:
            raise InputError(
                "linkage",
                found=f"a rod between '{entry.link}' and '{entry.to}', which do not move against each other",
                expected="links with joints between them",
            )
    linkages: dict[int, Rods] = {}
    left = list(range(len(entries)))
    while left:
        members, joints = [left[0]], set(joints_of[left[0]])
        while more := [k for k in left if k not in members and joints & joints_of[k]]:
            members += more
            joints = joints.union(*(joints_of[k] for k in more))
        left = [k for k in left if k not in members]
        linkage = _linkage(robot, [entries[k] for k in members], sorted(joints))
        linkages |= dict.fromkeys(sorted(joints), linkage)
    return linkages


def _linkage(robot: RobotModel, entries: Sequence[RodEntry], joints: list[int]) -> Rods:
    names = [robot.joint_names[j] for j in joints]
    motors = [entry.motor for entry in entries]
    if sorted(motors) != sorted(names):
        raise InputError(
            "linkage",
            found=f"rods of motors {', '.join(motors)} that move joints {', '.join(names)}",
            expected="one rod per joint that they move, each with the motor of one of these joints",
        )
    low, high = robot.limits.lower[joints], robot.limits.upper[joints]
    if not np.isfinite([*low, *high]).all():
        raise InputError(
            "linkage-limits",
            found=f"joints {', '.join(names)} with rods and without limits",
            expected="lower and upper, since rods only close over a part of the turn",
        )
    ordered = sorted(entries, key=lambda entry: names.index(entry.motor))

    def closing(at: Float) -> Rods:
        linkage = Rods(tuple(_placed(robot, entry, joints, at) for entry in ordered), tuple(at.tolist()))
        for k in range(len(joints)):
            line = np.tile(at, (LINE, 1))
            line[:, k] = np.linspace(low[k], high[k], LINE)
            _check_levers(linkage, linkage.evaluate(line)[1], line)
        return linkage

    # Crank angles are counted from the declared arm: of two angles the one closer to it is right.
    try:
        return closing(np.clip(0.0, low, high))
    except DynidError:
        return closing(0.5 * (low + high))


# Positions between the limits at which a linkage must close: 1 degree apart for half a turn.
LINE = 181


def _check_levers(linkage: Linkage, D: Float, q: Float) -> None:
    # Where det D changes its sign, an actuator has no lever: a dead point.
    size = np.linalg.det(D)
    if (size > 0).all() or (size < 0).all():
        return
    place = ", ".join(f"{value:.3g}" for value in q[int(np.argmin(np.abs(size)))])
    raise InputError(
        "linkage-apart",
        found=f"a {linkage.noun} without a lever at q = {place}",
        expected="no dead point between the limits",
        do="check points and lengths, or narrow the limits",
    )


def _placed(robot: RobotModel, entry: RodEntry, joints: list[int], at: Float) -> Rod:
    frame, last_frame = robot.link_frame(entry.link)[1], robot.link_frame(entry.to)[1]
    placed, frames, axes, slides, weights, shifts = np.linalg.inv(frame), [], [], [], [], []
    for moving, outward in _between(robot, entry):
        before = robot.T_parent_joint[moving]
        frames.append(placed @ before if outward else placed)
        sign = 1.0 if outward else -1.0
        axes.append(tuple(robot.axis[moving].tolist()))
        slides.append(robot.joint_types[moving] is JointType.PRISMATIC)
        weights.append(tuple((sign * robot.projection[moving, joints]).tolist()))
        shifts.append(sign * float(robot.projection_offset[moving]))
        placed = np.eye(4) if outward else np.linalg.inv(before)
    frames.append(placed @ last_frame)
    axis = np.zeros(3) if entry.axis is None else np.array(entry.axis) / np.linalg.norm(entry.axis)
    rod = Rod(
        frames=tuple(tuple(F[:3].ravel().tolist()) for F in frames),
        axes=tuple(axes),
        slides=tuple(slides),
        weights=tuple(weights),
        shifts=tuple(shifts),
        end=entry.end,
        centre=entry.centre,
        axis=(float(axis[0]), float(axis[1]), float(axis[2])),
        arm=entry.arm,
        length=entry.length or 0.0,
        link=entry.link,
        to=entry.to,
    )
    if rod.is_cylinder:
        return rod
    if entry.length is None:
        start = rod.end_point(np.zeros((1, len(joints))))[0][0]
        rod = replace(rod, length=float(np.linalg.norm(start - np.array(rod.centre) - np.array(rod.arm))))
    with np.errstate(invalid="ignore"):
        angles = {
            side: [abs(replace(rod, side=side).closed(q[None])[0][0]) for q in (np.zeros(len(joints)), at)]
            for side in (1.0, -1.0)
        }
    # The declared arm is that of the joints' zero; where the rod does not close there, that of the middle.
    closes = bool(np.isfinite(angles[1.0][0]))
    near = 1.0 if angles[1.0][0 if closes else 1] <= angles[-1.0][0 if closes else 1] else -1.0
    return replace(rod, side=-near if entry.crossed else near)


def joints_between(robot: RobotModel, entry: RodEntry) -> list[int]:
    """Indices of the joints that a rod moves: those between its links."""
    bodies = [body for body, _ in _between(robot, entry)]
    return np.flatnonzero((robot.projection[bodies] != 0).any(axis=0)).tolist()


def _between(robot: RobotModel, entry: RodEntry) -> list[tuple[int, bool]]:
    """Bodies whose joints lie between the links of a rod, and whether they lead outward, from the first link on."""
    paths = []
    for link in (entry.link, entry.to):
        body = robot.link_frame(link)[0]
        paths.append(path_to_base(robot, body) if body >= 0 else [])
    inward = [(body, False) for body in paths[0] if body not in paths[1]]
    outward = [(body, True) for body in reversed(paths[1]) if body not in paths[0]]
    return inward + outward
