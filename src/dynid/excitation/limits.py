"""Limits of a planned motion: joints, torque, surroundings and self-collision."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from dynid.base import (
    NOWHERE,
    Bool,
    Float,
    Int,
    Place,
    UnfitDataError,
    UsageError,
    dataclass,
    locked,
    locked_int,
)
from dynid.excitation.collision import CollisionModel, placements
from dynid.excitation.gradient import Whole, stretches
from dynid.factor import BaseMap
from dynid.kernel import Panels
from dynid.robot import JointType, RobotModel
from dynid.signals import Samples, samples_at
from dynid.terms import Kind, Terms
from dynid.trajectories import Trajectory

# Uncertainty of the model's torque, from the covariance and the residuals of a run.

# Default torque reserve in standard deviations: 99.9 % of normal errors on one side.
SIGMAS = 3.0
# N m: keeps the square root differentiable where nothing is uncertain.
_FLOOR = 1e-9


@dataclass(frozen=True, eq=False)
class TorqueSpread:
    """Uncertainty of the torque of a model, sigma^2 = y Cov y' + r^2 for a line y of the regressor.

    covariance: (p, p) of the parameters, zero for those that are not identified by themselves.
    residual: r (n,), N m (N), level of the residuals.    sigmas: z, reserve in standard deviations.
    complete: whether the run determines every base parameter that a motion can.
    Raises UsageError for numbers that are not finite or below zero.
    """

    covariance: Float
    residual: Float
    sigmas: float = SIGMAS
    complete: bool = True

    def __post_init__(self) -> None:
        p = len(self.covariance)
        object.__setattr__(self, "covariance", locked(self.covariance, (p, p), "covariance"))
        object.__setattr__(self, "residual", locked(self.residual, (None,), "residual"))
        good = np.isfinite(self.covariance).all() and np.isfinite(self.residual).all()
        if not (good and (self.residual >= 0).all() and np.isfinite(self.sigmas) and self.sigmas >= 0):
            raise UsageError(
                "torque-spread",
                found=f"{self.sigmas} deviations, or a covariance that is not finite",
                expected="finite numbers, 0 or more deviations",
            )

    @staticmethod
    def of(
        base: BaseMap, covariance: Float, residual: Float, rank: int, sigmas: float = SIGMAS
    ) -> TorqueSpread | None:
        """Uncertainty from base parameters; None if they have no covariance (b, b).

        rank: number of structural base parameters.
        """
        if not np.isfinite(covariance).all() or not covariance.any():
            return None
        whole = np.zeros((base.B.shape[1],) * 2)
        at = base.independent
        whole[np.ix_(at, at)] = covariance
        return TorqueSpread(whole, residual, sigmas, len(at) >= rank)

    @property
    def rate(self) -> float:
        """Probability that the torque stays within a limit at the instant when it comes closest: Phi(z)."""
        return 0.5 * (1.0 + math.erf(self.sigmas / math.sqrt(2.0)))

    @cached_property
    def _known(self) -> Bool:
        return np.asarray(np.diag(self.covariance) > 0)

    @cached_property
    def root(self) -> Float:
        """(p, r) with root root' the covariance; root times standard normal numbers is a draw of the parameters."""
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > 0
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))

    def panels(self, robot: RobotModel, terms: Terms, samples: Samples) -> Panels:
        """The regressor in the columns that have a covariance."""
        return terms.torque_regressor(robot, samples, self._known)

    def about(self, robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> tuple[Float, Float]:
        """Torque of a model along a motion, and its uncertainty.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        terms : Terms
            The model.
        theta : ndarray, shape (n_parameters,)
            Parameters.
        samples : Samples
            The motion.

        Returns
        -------
        tau, sigma : ndarray, shape (n_samples, n_joints)
            Torque and its standard deviations.

        """
        panels = self.panels(robot, terms, samples)
        # The regressor gives the torque too, but for rigid bodies the recursion is faster.
        bodies = [
            np.full(len(coefficients), term.traits.kind is Kind.BODIES)
            for term, coefficients in terms.with_values(robot, theta)
        ]
        rest = np.where(self._known & ~np.concatenate(bodies), 0.0, theta)
        tau = terms.torque(robot, samples, rest)
        sigma = np.empty_like(tau)
        for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
            tau[:, j] += (theta - rest)[columns] @ values
            sigma[:, j] = self._std(j, columns, values)[0]
        return tau, sigma

    def slope(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        """Standard deviations (T,) of a joint's torque, and derivatives (w, T) by its entries of the regressor."""
        sigma, spread = self._std(joint, columns, values)
        return sigma, spread / sigma

    def _std(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        spread = self.covariance[np.ix_(columns, columns)] @ values
        square = np.einsum("wt,wt->t", values, spread)
        return np.sqrt(np.maximum(square, 0.0) + self.residual[joint] ** 2 + _FLOOR**2), spread


# s: time to full velocity and to full acceleration for robots without such limits: shorter times inform more, and
# strain the drives more.
SPEED_UP_SECONDS, JERK_SECONDS = 0.25, 0.05
# Random poses, and change of height (m) over a plane below which no motion changes the height of a link: it is mounted
# on the plane, or crosses it.
STATES, LEAST_WAY = 60, 0.001


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Limits of a motion, each (n_joints,); inf = none. Positions and velocity must have limits.

    Parameters
    ----------
    lower, upper : ndarray, shape (n_joints,), rad or m
        Positions.
    velocity, acceleration, jerk : ndarray, shape (n_joints,)
        Largest magnitudes.
    torque : ndarray, shape (n_joints,), N m or N
        Largest magnitude.

    """

    lower: Float
    upper: Float
    velocity: Float
    acceleration: Float
    jerk: Float
    torque: Float

    def __post_init__(self) -> None:
        n = len(self.lower)
        for name in ("lower", "upper", "velocity", "acceleration", "jerk", "torque"):
            object.__setattr__(self, name, locked(getattr(self, name), (n,), name))

    @staticmethod
    def of(
        robot: RobotModel,
        acceleration: npt.ArrayLike | None = None,
        jerk: npt.ArrayLike | None = None,
        share: float = 0.95,
        velocity: npt.ArrayLike | None = None,
        lower: npt.ArrayLike | None = None,
        upper: npt.ArrayLike | None = None,
        torque: npt.ArrayLike | None = None,
    ) -> MotionLimits:
        """Limits of a robot, changed and completed by given ones.

        Continuous joints without limits stay within half a turn on both sides.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        acceleration : array_like, optional
            Without it full velocity is reached within SPEED_UP_SECONDS.
        jerk : array_like, optional
            Without it full acceleration is reached within JERK_SECONDS.
        share : float
            Share of all limits that is used.
        velocity, lower, upper, torque : array_like, optional
            Limits in place of the robot's, one number or one per joint.

        Returns
        -------
        MotionLimits
            The limits.

        Raises
        ------
        UsageError
            If a limit is missing; it names the joint.
        UnfitDataError
            If a limit leaves no motion; it names the joint.

        """
        if not 0 < share <= 1:
            raise UsageError("limit-share", found=f"a share of {share}", expected="above 0 and at most 1")
        robot_limits = robot.limits
        turn = np.array([robot.joint_types[i] is JointType.CONTINUOUS for i in robot.independent_bodies])
        low = _given_or_default(
            lower, np.where(turn & ~np.isfinite(robot_limits.lower), -np.pi, robot_limits.lower)
        )
        high = _given_or_default(
            upper, np.where(turn & ~np.isfinite(robot_limits.upper), np.pi, robot_limits.upper)
        )
        speed = _given_or_default(velocity, robot_limits.velocity)
        push = _given_or_default(acceleration, speed / SPEED_UP_SECONDS)
        _require_limits(robot, low, high, speed)
        inside = 0.5 * (1.0 - share) * (high - low)
        limits = MotionLimits(
            low + inside,
            high - inside,
            share * speed,
            share * push,
            share * _given_or_default(jerk, push / JERK_SECONDS),
            share * _given_or_default(torque, robot_limits.effort),
        )
        limits.check(robot)
        return limits

    def partial_share(self, robot: RobotModel, share: float = 1.0) -> tuple[str, ...]:
        """Limits that exceed `share` of those in the robot file, in words."""
        robot_limits, wider = robot.limits, []
        for j, name in enumerate(robot.joint_names):
            pairs = [("velocity", self.velocity[j], share * robot_limits.velocity[j])]
            pairs += (
                [("torque", self.torque[j], share * robot_limits.effort[j])]
                if np.isfinite(self.torque[j])
                else []
            )
            if np.isfinite([robot_limits.lower[j], robot_limits.upper[j]]).all():
                middle, half = (
                    0.5 * (robot_limits.upper[j] + robot_limits.lower[j]),
                    0.5 * (robot_limits.upper[j] - robot_limits.lower[j]),
                )
                pairs.append(("position", max(self.upper[j] - middle, middle - self.lower[j]), share * half))
            wider += [
                f"{quantity} of '{name}'" for quantity, here, there in pairs if here > there * (1 + 1e-9)
            ]
        return tuple(wider)

    def check(self, robot: RobotModel) -> None:
        """Raise UnfitDataError if a limit leaves no motion; it names the joint."""
        for j, name in enumerate(robot.joint_names):
            if not self.lower[j] < self.upper[j]:
                raise _no_room_error(
                    name, f"positions from {self.lower[j]:g} to {self.upper[j]:g}", "lower below upper"
                )
            for quantity in ("velocity", "acceleration", "jerk", "torque"):
                value = getattr(self, quantity)[j]
                if not value > 0:
                    raise _no_room_error(name, f"a {quantity} limit of {value:g}", "a positive one")


def _given_or_default(value: npt.ArrayLike | None, otherwise: Float) -> Float:
    if value is None:
        return otherwise
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1 and len(array) not in (1, len(otherwise)):
        raise UsageError(
            "limit-count", found=f"{len(array)} limits", expected=f"one number, or {len(otherwise)}"
        )
    return np.broadcast_to(array, otherwise.shape).astype(np.float64)


def _no_room_error(joint: str, finding: str, expected: str) -> UnfitDataError:
    return UnfitDataError("infeasible-limits", found=finding, expected=expected, place=Place(joint=joint))


def _require_limits(robot: RobotModel, low: Float, high: Float, speed: Float) -> None:
    missing = [
        f"'{name}' ({', '.join(quantities)})"
        for j, name in enumerate(robot.joint_names)
        if (
            quantities := [
                kind
                for kind, there in (
                    ("position", np.isfinite([low[j], high[j]]).all()),
                    ("velocity", np.isfinite(speed[j])),
                )
                if not there
            ]
        )
    ]
    if missing:
        raise UsageError(
            "no-limits",
            found="no limits for " + ", ".join(missing),
            expected="position and velocity limits of every joint",
            do="add lower, upper and velocity under [limits] of the plan file",
            place=Place(file=robot.source) if robot.source else NOWHERE,
        )


@dataclass(frozen=True, eq=False)
class Workspace:
    """Points of the robot, and half-spaces that contain them: normal . x <= offset, base frame, m.

    Parameters
    ----------
    body : ndarray of int, shape (n_points,)
        Link of each point.
    local : ndarray, shape (n_points, 3), m
        Points in the joint frames.
    normal : ndarray, shape (n_planes, 3)
        Unit normals.
    offset : ndarray, shape (n_planes,), m
        Offsets.
    names : tuple of str
        Names of the planes.
    radius : ndarray, shape (n_points,), m
        Radii of balls around the points that must fit too; empty for points.
    exempt : frozenset of tuple of int
        Links and planes that are not compared, since no motion changes their distance.
    whole_links : bool
        Whether the points are those of the links' shapes, or only the origins of joint frames.

    """

    body: Int
    local: Float
    normal: Float
    offset: Float
    names: tuple[str, ...]
    radius: Float = field(default_factory=lambda: np.zeros(0))
    exempt: frozenset[tuple[int, int]] = frozenset()
    whole_links: bool = False

    def __post_init__(self) -> None:
        P, H = len(self.body), len(self.names)
        object.__setattr__(self, "body", locked_int(self.body, (P,), "body"))
        if not len(self.radius):
            object.__setattr__(self, "radius", np.zeros(P))
        for name, shape in (("local", (P, 3)), ("normal", (H, 3)), ("offset", (H,)), ("radius", (P,))):
            object.__setattr__(self, name, locked(getattr(self, name), shape, name))
        if H and np.abs(np.linalg.norm(self.normal, axis=1) - 1.0).max() > 1e-9:
            raise UsageError("half-space", found=f"normals {self.normal.tolist()}", expected="unit length")

    @staticmethod
    def of(
        robot: RobotModel,
        floor: float | None = None,
        box: npt.ArrayLike | None = None,
        tool: npt.ArrayLike | None = None,
        collision: CollisionModel | None = None,
        planes: npt.ArrayLike | None = None,
    ) -> Workspace:
        """Moving links and the tool point, above a floor, within a box, behind planes.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        floor : float, optional, m
            Height of the floor.
        box : array_like, shape (2, 3), optional, m
            Lower and upper corner.
        tool : array_like, shape (3,), optional, m
            Tool point in the last joint frame.
        collision : CollisionModel, optional
            Shapes of the links; without it the origins of the joint frames represent the links.
        planes : array_like, shape (n_planes, 4), optional, m
            x, y, z of a normal of any length, and d: normal . x <= d.

        Returns
        -------
        Workspace
            Points and planes.

        Raises
        ------
        UsageError
            For an empty box, a plane without a normal, or numbers that are not finite.

        """
        body, local, radius = _points(robot, tool, collision)
        normal, offset, names = [], [], []
        if floor is not None:
            if not np.isfinite(floor):
                raise UsageError("floor", found=f"a floor at {floor} m", expected="a finite height")
            normal.append([0.0, 0.0, -1.0])
            offset.append(-float(floor))
            names.append("floor")
        if box is not None:
            corners = np.asarray(box, dtype=np.float64)
            if corners.shape != (2, 3) or not (corners[0] < corners[1]).all() or np.isinf(corners).any():
                raise UsageError(
                    "box", found=f"box {corners.tolist()}", expected="lower and upper corner, x y z each"
                )
            for k, axis in enumerate("xyz"):
                for sign, side in ((-1.0, "lower"), (1.0, "upper")):
                    normal.append([sign * (i == k) for i in range(3)])
                    offset.append(sign * corners[int(sign > 0), k])
                    names.append(f"box {axis} {side}")
        for k, plane in enumerate(np.reshape(() if planes is None else np.asarray(planes), (-1, 4))):
            length = float(np.linalg.norm(plane[:3]))
            if not (np.isfinite(plane).all() and length > 0):
                raise UsageError("half-space", found=f"plane {plane.tolist()}", expected="a normal and d")
            normal.append((plane[:3] / length).tolist())
            offset.append(float(plane[3]) / length)
            names.append(f"plane {k + 1}")
        space = Workspace(body, local, np.reshape(normal, (-1, 3)), np.array(offset), tuple(names), radius)
        if collision is None or not names:
            return space
        low, high = (
            np.where(np.isfinite(x), x, y)
            for x, y in ((robot.limits.lower, -np.pi), (robot.limits.upper, np.pi))
        )
        q = np.random.default_rng(0).uniform(low, high, (STATES, robot.n))
        still = np.ptp(space.reach(placements(robot, q))[0], axis=0) < LEAST_WAY
        bodies = space.bodies
        exempt = frozenset((int(bodies[b]), int(h)) for b, h in zip(*np.nonzero(still), strict=True))
        return replace(space, exempt=exempt, whole_links=True)

    @property
    def bodies(self) -> Int:
        """Links (B,) that have points."""
        return np.unique(self.body)

    def applies(self, body: int, plane: int) -> bool:
        """Whether a link is compared with a plane."""
        return (body, plane) not in self.exempt

    def reach(self, placed: tuple[Float, Float], points: bool = True) -> tuple[Float, Float]:
        """How far each link reaches along each normal (T, B, H), and the point that does (T, B, H, 3); exempt: -inf.

        placed: rotations and origins of all links, see `placements`.    points: whether to compute the points, else
        zeros.
        """
        R, p = placed
        T, bodies, H = len(R), self.bodies, len(self.names)
        far, where = np.full((T, len(bodies), H), -np.inf), np.zeros((T, len(bodies), H, 3))
        for k, i in enumerate(bodies):
            point_indices = np.flatnonzero(self.body == i)
            local, radius = self.local[point_indices], self.radius[point_indices]
            for h in range(H):
                normal = self.normal[h]
                along = (normal @ R[:, i]) @ local.T + radius
                best = along.argmax(axis=1)
                if points:
                    where[:, k, h] = np.einsum("tab,tb->ta", R[:, i], local[best]) + p[:, i]
                if self.applies(int(i), h):
                    far[:, k, h] = along[np.arange(T), best] + p[:, i] @ normal
        return far, where


def _points(
    robot: RobotModel, tool: npt.ArrayLike | None, collision: CollisionModel | None
) -> tuple[Int, Float, Float]:
    last, tip = robot.n_bodies - 1, np.reshape(np.zeros(3) if tool is None else tool, (1, 3))
    if collision is None:
        moving = [i for i in range(robot.n_bodies) if len(robot.tree.paths[i]) > 2]
        body = np.array([*moving, last], dtype=np.int64)
        return body, np.concatenate([np.zeros((len(moving), 3)), tip]), np.zeros(len(body))
    bodies, local, radius = [np.array([last])], [tip], [np.zeros(1)]
    for part in collision.parts:
        if part.body < 0:
            continue
        exact = part.box is None and len(part.corners) > 0
        round_ = np.stack([part.capsule.start, part.capsule.end])
        vertices = part.corners if exact else round_
        bodies.append(np.full(len(vertices), part.body))
        local.append(vertices)
        radius.append(np.zeros(len(vertices)) if exact else np.full(2, part.capsule.radius))
    return np.concatenate(bodies), np.concatenate(local), np.concatenate(radius)


@dataclass(frozen=True, eq=False)
class Bounds:
    """All limits of a motion.

    Parameters
    ----------
    limits : MotionLimits
        Limits of the joints.
    theta : ndarray, shape (n_parameters,), optional
        Parameters of the model for torque limits; without it torque is not limited.
    uncertainty : float
        Relative error by which the true torque may exceed the model's.
    workspace : Workspace, optional
        Surroundings.
    collision : CollisionModel, optional
        Pairs that must stay apart.
    clearance : float, m
        Distance from planes; pairs of links have their own in `collision`.
    spread : TorqueSpread, optional
        Uncertainty of the model's torque, from a run.
    tip : ndarray, shape (3,), optional, m
        Tool point in the last joint frame; its origin without it.
    tip_speed : float, m/s
        Highest speed of the tool point.

    """

    limits: MotionLimits
    theta: Float | None = None
    uncertainty: float = 0.1
    workspace: Workspace | None = None
    collision: CollisionModel | None = None
    clearance: float = 0.0
    spread: TorqueSpread | None = None
    tip: Float | None = None
    tip_speed: float = np.inf

    @property
    def tip_or_origin(self) -> Float:
        """The tool point, (3,)."""
        return np.zeros(3) if self.tip is None else np.asarray(self.tip, dtype=np.float64)

    def torque(self, robot: RobotModel, terms: Terms, samples: Samples) -> tuple[Float, Float] | None:
        """Torque of the model along a motion, and the reserve: a share of it plus z sigma.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        terms : Terms
            The model.
        samples : Samples
            The motion.

        Returns
        -------
        tuple of ndarray, shape (n_samples, n_joints) each, or None
            Torque and reserve; None if torque is not limited.

        """
        if self.theta is None:
            return None
        if self.spread is None:
            tau = terms.torque(robot, samples, self.theta)
            return tau, self.uncertainty * np.abs(tau)
        tau, sigma = self.spread.about(robot, terms, self.theta, samples)
        return tau, self.uncertainty * np.abs(tau) + self.spread.sigmas * sigma


# Torque reserve for the uncertainty of the torque: from the covariance of a run, or a share.

# Parameter sets drawn to verify the reserve, and samples of the motion.
DRAWS, RESERVE_STATES = 200, 1500


@dataclass(frozen=True)
class JointReserve:
    """Torque reserve of one joint in a plan.

    peak: largest torque of the model.    largest: largest reserve, N m (N).    limit: inf = none.
    left_out: largest torque of the terms that the search omits.
    """

    joint: str
    peak: float
    largest: float
    limit: float
    left_out: float = 0.0

    @property
    def share(self) -> float:
        """The largest reserve relative to the limit."""
        return self.largest / self.limit


@dataclass(frozen=True)
class Reserve:
    """How the torque limits of a plan allow for the uncertainty of the torque.

    kind: "covariance", "share" or "covariance and share".    share: of the model's torque.
    drawn, within: parameter sets drawn from the covariance, and those whose torque meets all limits all the time.
    left_out: terms that the search omits and that count here.
    """

    kind: str
    sigmas: float
    share: float
    rate: float
    joints: tuple[JointReserve, ...]
    drawn: int = 0
    within: int = 0
    left_out: tuple[str, ...] = ()

    def describe(self) -> dict[str, Any]:
        """Plain data for plan.json."""
        joints = [
            {
                "joint": reserve.joint,
                "peak": reserve.peak,
                "largest": reserve.largest,
                "share_of_limit": reserve.share if math.isfinite(reserve.limit) else None,
            }
            | ({"left_out": reserve.left_out} if self.left_out else {})
            for reserve in self.joints
        ]
        known = {"sigmas": self.sigmas, "rate": self.rate, "drawn": self.drawn, "within": self.within}
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        plain = {"kind": self.kind, "share": self.share, "joints": joints}
        return plain | (known if self.drawn else {}) | left_out


def reserve_of(robot: RobotModel, terms: Terms, bounds: Bounds, trajectory: Trajectory) -> Reserve | None:
    """Torque reserve of a motion, per joint.

    Terms that the search omits count here, except those of the log.

    Parameters
    ----------
    robot : RobotModel
        The robot.
    terms : Terms
        The model.
    bounds : Bounds
        The limits.
    trajectory : Trajectory
        The motion.

    Returns
    -------
    Reserve or None
        The reserve; None if torque is not limited.

    """
    whole, spread, limit = Whole(terms), bounds.spread, bounds.limits.torque
    peak, largest, more = np.zeros((3, robot.n))
    good, change = np.ones(DRAWS, dtype=np.bool_), np.zeros((0, DRAWS))
    if spread is not None:
        change = spread.root @ np.random.default_rng(0).standard_normal((spread.root.shape[1], DRAWS))
    for samples, inner in _reserve_samples(whole, trajectory):
        if (predicted := bounds.torque(robot, whole.model, samples)) is None:
            return None
        tau, kept = (part[inner] for part in predicted)
        peak, largest = (np.maximum(a, np.abs(b).max(axis=0)) for a, b in ((peak, tau), (largest, kept)))
        if whole.checked:
            added = whole.added(robot, samples, np.asarray(bounds.theta))[inner]
            more = np.maximum(more, np.abs(added).max(axis=0))
        if spread is not None:
            panels = spread.panels(robot, whole.model, samples)
            for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                torque = tau[:, j, None] + values[:, inner].T @ change[columns]
                good &= np.abs(torque).max(axis=0) <= limit[j]
    numbers = zip(
        robot.joint_names, peak.tolist(), largest.tolist(), limit.tolist(), more.tolist(), strict=True
    )
    joints = tuple(JointReserve(*row) for row in numbers)
    if spread is None:
        return Reserve("share", 0.0, bounds.uncertainty, 0.0, joints, left_out=whole.checked)
    kind = "covariance and share" if bounds.uncertainty > 0 else "covariance"
    return Reserve(
        kind, spread.sigmas, bounds.uncertainty, spread.rate, joints, DRAWS, int(good.sum()), whole.checked
    )


def _reserve_samples(whole: Whole, trajectory: Trajectory) -> Iterable[tuple[Samples, slice]]:
    if whole.checked:
        return stretches(trajectory)
    t = np.linspace(0.0, trajectory.duration, RESERVE_STATES)
    return [(samples_at(t, *trajectory.motion(t)), slice(None))]
