"""The robot model: a kinematic tree of moving links with priors, limits, drives and mounting of motors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from difflib import get_close_matches
from enum import StrEnum
from functools import cached_property
from typing import Any

import numpy as np

from dynid.base.arrays import Bool, Float, Int, locked, locked_int
from dynid.base.errors import InputError, UsageError
from dynid.base.records import Overview, counted, dataclass, listed
from dynid.base.registry import meant
from dynid.kernel.tree import Tree
from dynid.robot.drive import Drive, Servo, servo_over
from dynid.robot.options import Reading, ServoSettings

# The robot model. A body is a moving link with everything fixed to it.


# Massless joints of a floating base, along x, y and z of the base link, then about z, y and x.
FLOATING_JOINTS = ("base_x", "base_y", "base_z", "base_yaw", "base_pitch", "base_roll")


class JointType(StrEnum):
    """Types of joints in the tree; readers merge fixed joints."""

    REVOLUTE = "revolute"
    CONTINUOUS = "continuous"
    PRISMATIC = "prismatic"


@dataclass(frozen=True, eq=False)
class Limits:
    """Joint limits; infinite where the robot file has none.

    Parameters
    ----------
    lower, upper : ndarray, shape (n,), rad (m)
        Position.
    velocity : ndarray, shape (n,), rad/s (m/s)
    effort : ndarray, shape (n,), N m (N)

    """

    lower: Float
    upper: Float
    velocity: Float
    effort: Float

    def __post_init__(self) -> None:
        n = len(self.lower)
        for name in ("lower", "upper", "velocity", "effort"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))

    @staticmethod
    def none(n: int) -> Limits:
        """Return limits of n joints that are all infinite."""
        return Limits(np.full(n, -np.inf), np.full(n, np.inf), np.full(n, np.inf), np.full(n, np.inf))


@dataclass(frozen=True, eq=False)
class RobotModel:
    """A fixed-base tree of nb moving bodies driven by n independent joint coordinates.

    Joint i moves body i. Its frame is placed at T_parent_joint[i] in the joint frame of its parent and moves about or
    along axis[i]. Mimic joints are joints of the tree whose motion is projected: q_tree = projection q +
    projection_offset, where the projection is the identity without mimic joints.

    Parameters
    ----------
    name : str
        Name of the robot.
    body_names, tree_joint_names : tuple of str, length nb
    joint_names : tuple of str, length n
        Independent joints, in tree order.
    parent : ndarray, shape (nb,)
        Index of the parent body; -1 = base.
    joint_types : tuple of JointType, length nb
    T_parent_joint : ndarray, shape (nb, 4, 4)
    axis : ndarray, shape (nb, 3)
        Unit vectors in the joint frames.
    inertia_prior : ndarray, shape (nb, 10), SI
        m, mcx, mcy, mcz, Ixx, Ixy, Iyy, Ixz, Iyz, Izz in the joint frame; nan = unknown, all zero = without mass.
    gravity : ndarray, shape (3,), m/s^2
        In the base frame.
    limits : Limits
    drive : Drive
    projection : ndarray, shape (nb, n)
    projection_offset : ndarray, shape (nb,), rad (m)
    friction_prior : ndarray, shape (n, 2), N m s/rad (N s/m) and N m (N)
        Viscous and Coulomb friction in the robot file; nan = unknown.
    merged : tuple of tuple of str
        For each body, the names of its links: its own first, then those fixed to it.
    source : str
        File that it was read from, or "".
    locked : mapping of str to float, rad (m)
        Locked joints of the robot file and their positions; they are fixed joints here.
    reading : Reading
        Options with which the file was read.
    spring_prior : ndarray, shape (n, 2), N m/rad (N/m) and N m (N)
        Stiffness k and preload c of a spring k q + c in the robot file; nan = no spring.
    frames : mapping of str to (int, array_like of shape (4, 4))
        Body that carries a link (-1 = base) and the link's frame in the joint frame of that body, by the name of the
        link; links that are absent have the joint frame of their body. Kept as tuples, see `link_frame`.
    base_links : tuple of str
        Links of the base: the one that can float first, then those fixed to it; () = the base is part of the world.
    base_prior : ndarray, shape (10,), SI
        Inertial parameters of the base in the frame of its first link; nan = unknown.

    Raises
    ------
    UsageError
        If arrays do not fit together, or a number that must be known is not finite.

    """

    name: str
    body_names: tuple[str, ...]
    tree_joint_names: tuple[str, ...]
    joint_names: tuple[str, ...]
    parent: Int
    joint_types: tuple[JointType, ...]
    T_parent_joint: Float
    axis: Float
    inertia_prior: Float
    gravity: Float
    limits: Limits
    drive: Drive
    projection: Float
    projection_offset: Float
    friction_prior: Float
    merged: tuple[tuple[str, ...], ...] = ()
    source: str = ""
    locked: Mapping[str, float] = field(default_factory=dict)
    reading: Reading = field(default_factory=Reading)
    spring_prior: Float = field(default_factory=lambda: np.zeros((0, 2)))
    frames: Mapping[str, tuple[int, Any]] = field(default_factory=dict)
    base_links: tuple[str, ...] = ()
    base_prior: Float = field(default_factory=lambda: np.full(10, np.nan))

    def __post_init__(self) -> None:
        nb, n = len(self.body_names), len(self.joint_names)
        if not len(self.spring_prior):
            object.__setattr__(self, "spring_prior", np.full((n, 2), np.nan))
        if not (len(self.tree_joint_names) == len(self.joint_types) == nb >= n >= 1):
            raise UsageError(
                "robot-counts",
                found=f"{nb} bodies, {len(self.tree_joint_names)} joints, {n} independent joints",
                expected="one joint per body and at least one independent joint",
            )
        object.__setattr__(self, "parent", locked_int(self.parent, (nb,), "parent"))
        for name, shape in (
            ("T_parent_joint", (nb, 4, 4)),
            ("axis", (nb, 3)),
            ("inertia_prior", (nb, 10)),
            ("gravity", (3,)),
            ("projection", (nb, n)),
            ("projection_offset", (nb,)),
            ("friction_prior", (n, 2)),
            ("spring_prior", (n, 2)),
            ("base_prior", (10,)),
        ):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))
        number_of = dict(zip(self.body_names, range(nb), strict=True))
        frames = {
            name: (int(body), tuple(tuple(row) for row in np.asarray(frame).tolist()))
            for name, (body, frame) in self.frames.items()
            if number_of.get(name) != body or not np.array_equal(frame, np.eye(4))
        }
        object.__setattr__(self, "frames", frames)
        if not self.merged:
            object.__setattr__(self, "merged", tuple((name,) for name in self.body_names))
        self._check()

    def _check(self) -> None:
        names = [self.name, self.source, *self.body_names, *self.tree_joint_names, *self.joint_names]
        if not all(isinstance(name, str) for name in names):
            raise UsageError("robot-names", found=f"names {names}", expected="text")
        if len(set(self.tree_joint_names)) < self.n_bodies or not set(self.joint_names) <= set(
            self.tree_joint_names
        ):
            raise UsageError(
                "robot-names",
                found=f"joints {list(self.tree_joint_names)}, independent {list(self.joint_names)}",
                expected="unique names, the independent joints among them",
            )
        if (
            len(self.merged) != self.n_bodies
            or len(self.limits.lower) != self.n
            or len(self.drive.transmission) != self.n
        ):
            raise UsageError(
                "robot-counts",
                found=f"{len(self.merged)} merged bodies, {len(self.limits.lower)} limits, "
                f"{len(self.drive.transmission)} drives",
                expected=f"{self.n_bodies} merged bodies, limits and drives of {self.n} joints",
            )
        for name in ("T_parent_joint", "axis", "gravity", "projection", "projection_offset"):
            if not np.isfinite(getattr(self, name)).all():
                raise UsageError("robot-finite", found=f"{name} with nan or inf", expected="finite numbers")
        if np.abs(np.linalg.norm(self.axis, axis=1) - 1.0).max() > 1e-9:
            raise UsageError("robot-axis", found=f"axes {self.axis.tolist()}", expected="unit length")
        R = self.T_parent_joint[:, :3, :3]
        last = self.T_parent_joint[:, 3]
        if (
            np.abs(R.transpose(0, 2, 1) @ R - np.eye(3)).max() > 1e-6
            or (last != np.array([0.0, 0.0, 0.0, 1.0])).any()
        ):
            raise UsageError(
                "robot-placement", found="T_parent_joint that is not rigid", expected="[R p; 0 1]"
            )
        for j, linkage in enumerate(self.drive.linkages):
            if linkage is not None and not np.isfinite([self.limits.lower[j], self.limits.upper[j]]).all():
                raise UsageError(
                    "linkage-limits",
                    found=f"joint '{self.joint_names[j]}' with a linkage and without limits",
                    expected="limits, since the bars only close over a part of the turn",
                )
        for i, parent in enumerate(self.parent):
            if not -1 <= parent < i:
                raise UsageError(
                    "tree-order", found=f"body {i} with parent {parent}", expected="parents before children"
                )

    def overview(self) -> Overview:
        """Summary for prompts and notebooks: joints, bodies and priors."""
        known = np.isfinite(self.inertia_prior[:, 0])
        mass = f"{self.inertia_prior[known, 0].sum():.3g} kg" if known.all() else "unknown for some bodies"
        kinds = [f"{name} ({self.joint_types[i]})" for name, i in zip(
            self.joint_names, self.independent_bodies, strict=True
        )]  # fmt: skip
        return Overview(
            f"Robot '{self.name}': {counted(self.n, 'joint')}, {self.n_bodies} moving links",
            (
                ("joints", listed(kinds)),
                ("gravity", f"{self.gravity.tolist()} m/s^2"),
                ("prior mass", mass),
                ("locked joints", listed([f"{name} at {value:g}" for name, value in self.locked.items()]) or "none"),
                ("source", self.source or "none"),
            ),
            ("joint", "type", "lower", "upper", "velocity", "effort"),
            tuple(
                (name, str(self.joint_types[i]), *(f"{float(limit[j]):.4g}" for limit in (
                    self.limits.lower, self.limits.upper, self.limits.velocity, self.limits.effort
                )))
                for j, (name, i) in enumerate(zip(self.joint_names, self.independent_bodies, strict=True))
            ),
        )  # fmt: skip

    def __repr__(self) -> str:
        return self.overview().text()

    def _repr_html_(self) -> str:
        return self.overview().html()

    @property
    def n(self) -> int:
        """Number of independent joints."""
        return len(self.joint_names)

    @property
    def n_bodies(self) -> int:
        """Number of moving bodies."""
        return len(self.body_names)

    @property
    def floats(self) -> bool:
        """Whether the first joints are the six massless ones of a floating base."""
        return self.tree_joint_names[:6] == FLOATING_JOINTS

    @property
    def driven(self) -> tuple[str, ...]:
        """Names of the joints without the massless ones of a floating base."""
        return self.joint_names[6:] if self.floats else self.joint_names

    @property
    def has_mimic(self) -> bool:
        """Whether a joint follows other joints."""
        return self.n_bodies != self.n

    @cached_property
    def tree(self) -> Tree:
        """The kinematic tree in the form of the kernel."""
        return Tree(
            parent=self.parent,
            prismatic=np.array([kind is JointType.PRISMATIC for kind in self.joint_types]),
            axis=self.axis,
            rotation=self.T_parent_joint[:, :3, :3],
            translation=self.T_parent_joint[:, :3, 3],
            gravity=self.gravity,
        )

    @cached_property
    def independent_bodies(self) -> Int:
        """Index of each independent joint in the tree, (n,)."""
        index = [self.tree_joint_names.index(name) for name in self.joint_names]
        return locked_int(index, (self.n,), "independent_bodies")

    @cached_property
    def prismatic(self) -> tuple[bool, ...]:
        """Whether each independent joint is prismatic, (n,)."""
        return tuple(self.joint_types[i] is JointType.PRISMATIC for i in self.independent_bodies)

    def with_servo(self, servo: Servo | ServoSettings | None) -> RobotModel:
        """Copy of the robot with other position controllers.

        The viscous friction prior changes with the back-EMF damping of the controllers.

        Parameters
        ----------
        servo : Servo, ServoSettings or None
            Controllers, or settings that override those of the robot.

        Returns
        -------
        RobotModel

        Raises
        ------
        InputError
            For settings of unknown joints, or that are not valid gains.

        """
        made = (
            servo_over(servo, self.drive.servo, self.joint_names)
            if isinstance(servo, ServoSettings)
            else servo
        )
        before = self.drive.servo
        change = (0.0 if made is None else made.back_emf) - (0.0 if before is None else before.back_emf)
        prior = np.array(self.friction_prior)
        prior[:, 0] = np.where(change != 0.0, np.nan_to_num(prior[:, 0]) + change, prior[:, 0])
        return replace(self, friction_prior=prior, drive=replace(self.drive, servo=made))

    def link_frame(self, link: str) -> tuple[int, Float]:
        """Body that carries a link (-1 = base), and the link's frame (4, 4) in the joint frame of that body.

        Raises InputError for an unknown link.
        """
        if link in self.frames:
            body, frame = self.frames[link]
            return body, np.array(frame)
        if link in self.body_names:
            return self.body_names.index(link), np.eye(4)
        if link == "base":  # not every format names it
            return -1, np.eye(4)
        known = [*self.body_names, *self.frames]
        near = get_close_matches(link, known, n=1, cutoff=0.4)
        raise InputError(
            "unknown-link",
            found=f"unknown link '{link}'",
            expected="one of " + listed(list(dict.fromkeys(known))),
            do=f"did you mean '{near[0]}'?" if near else "",
        )

    @property
    def base_frame(self) -> Float:
        """Frame (4, 4) of the link that can float, at its place in the robot file."""
        return self.link_frame(self.base_links[0])[1] if self.base_links else np.eye(4)

    def tree_motion(self, q: Float, dq: Float, ddq: Float) -> tuple[Float, Float, Float]:
        """Map the motion of independent joints (T, n) to that of all tree joints (T, nb).

        Parameters
        ----------
        q, dq, ddq : ndarray, shape (T, n)
            Position, velocity and acceleration of the independent joints.

        Returns
        -------
        tuple of ndarray, shape (T, nb)

        """
        if not self.has_mimic:
            return q, dq, ddq
        J = self.projection.T
        return q @ J + self.projection_offset, dq @ J, ddq @ J


# Paths to the base, and joints on one branch of the tree.


def path_to_base(robot: RobotModel, body: int) -> list[int]:
    """Indices of the bodies from `body` to the base, itself first; [] for the base, -1."""
    path = []
    while body >= 0:
        path.append(body)
        body = int(robot.parent[body])
    return path


def carriers(robot: RobotModel, joints: Bool) -> Bool:
    """Mask (n,) of joints closer to the base than any of the masked `joints` (n,), on the same branch."""
    moves = robot.projection != 0
    carrying = np.zeros(robot.n, dtype=np.bool_)
    for i in np.flatnonzero(moves[:, joints].any(axis=1)).tolist():
        carrying |= moves[path_to_base(robot, i)[1:]].any(axis=0)
    return carrying


def on_branches_of(robot: RobotModel, joints: Bool) -> Bool:
    """Mask (n,) of joints on a common branch with one of the masked `joints` (n,), these included."""
    moves = robot.projection != 0
    moved = moves[:, joints].any(axis=1)
    related = np.zeros(robot.n, dtype=np.bool_)
    for i in range(robot.n_bodies):
        path = path_to_base(robot, i)
        if moved[path].any():
            related |= moves[path].any(axis=0)
    return related


# Mounting of motors: the bodies that carry them, and the axes of their rotors.

BASE = "base"
_UNIT = 1e-9  # tolerance of the length of unit vectors


@dataclass(frozen=True, eq=False)
class Mounting:
    """Mounting of the motors.

    Parameters
    ----------
    carrier : ndarray, shape (n,)
        Body that each motor is mounted on; -1 = base.
    axis : ndarray, shape (n, 3)
        Unit vector of each rotor's axis, in the joint frame of the carrier.

    """

    carrier: Int
    axis: Float

    def __post_init__(self) -> None:
        n = len(self.carrier)
        object.__setattr__(self, "carrier", locked_int(self.carrier, (n,), "carrier"))
        object.__setattr__(self, "axis", locked(self.axis, (n, 3), "axis"))

    @staticmethod
    def of(robot: RobotModel, carriers: Sequence[str] = (), axes: Sequence[Sequence[float]] = ()) -> Mounting:
        """Mounting by names of bodies.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        carriers : sequence of str
            Body of each motor in the order of the joints, "base" for the base; () = the parent body of each joint.
        axes : sequence of sequence of float
            Unit vectors in the joint frames of the carriers; () = along the motor's joint with all joints at zero.

        Returns
        -------
        Mounting

        Raises
        ------
        UsageError
            For an unknown body, or a wrong number of carriers or axes.

        """
        return Mounting(_carriers(robot, carriers), _axes(robot, _carriers(robot, carriers), axes))


def unit_vectors(axes: Sequence[Sequence[float]]) -> tuple[tuple[float, float, float], ...]:
    """Return the axes as tuples of float; raises UsageError unless each is a unit vector of three numbers."""
    try:
        vectors = np.array(axes, dtype=np.float64).reshape(-1, 3)
    except ValueError:
        vectors = np.full((1, 3), np.nan)
    if len(vectors) != len(axes) or not (np.abs(np.linalg.norm(vectors, axis=1) - 1.0) <= _UNIT).all():
        raise UsageError("rotor-axes", found=f"axes {[list(a) for a in axes]}", expected="unit vectors")
    return tuple((float(x), float(y), float(z)) for x, y, z in vectors)


def _carriers(robot: RobotModel, names: Sequence[str]) -> Int:
    if not names:
        return np.asarray(robot.parent[robot.independent_bodies])
    if len(names) != robot.n:
        raise UsageError(
            "rotor-carriers", found=f"{len(names)} carriers", expected=f"{robot.n}, one per motor"
        )
    for name in names:
        if name not in (*robot.body_names, BASE):
            raise UsageError(
                "unknown-body",
                found=f"unknown body '{name}' as carrier of a motor",
                expected=f"{BASE}, " + ", ".join(robot.body_names),
                do=meant(name, robot.body_names),
            )
    index = {BASE: -1} | {name: i for i, name in enumerate(robot.body_names)}
    return np.array([index[name] for name in names], dtype=np.int64)


def _axes(robot: RobotModel, carrier: Int, axes: Sequence[Sequence[float]]) -> Float:
    if axes and len(axes) != robot.n:
        raise UsageError("rotor-axes", found=f"{len(axes)} axes", expected=f"{robot.n}, one per joint")
    if axes:
        return np.array(unit_vectors(axes))
    R = _rotations_at_zero(robot)
    joint_axes = [R[body] @ robot.axis[body] for body in robot.independent_bodies]
    on = [np.eye(3) if body < 0 else R[body] for body in carrier]
    return np.array([E.T @ z for E, z in zip(on, joint_axes, strict=True)])


def _rotations_at_zero(robot: RobotModel) -> Float:
    # (nb, 3, 3): orientation of the bodies' joint frames in the base frame with all joints at zero.
    rotations = np.zeros((robot.n_bodies, 3, 3))
    for body, parent in enumerate(robot.parent):
        rotation = robot.T_parent_joint[body, :3, :3]
        rotations[body] = rotation if parent < 0 else rotations[parent] @ rotation
    return rotations
