"""Bounds that a planned motion keeps: of the joints, of the room, of the arm itself."""

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

# How far the true torque may lie from a model's: by the covariance of a run and what it left.

# Standard deviations that torque limits keep free: 99.9 % of normal errors on one side.
SIGMAS = 3.0
# N m: keeps the root differentiable where nothing is uncertain.
_FLOOR = 1e-9


@dataclass(frozen=True, eq=False)
class TorqueSpread:
    """Deviation of the torque about a model's, sigma^2 = y Cov y' + r^2 for a line y of the regressor.

    covariance: (p, p) of the parameters, zero where they are not identified by themselves.
    residual: r (n,), N m (N), level of what the model left.    sigmas: z, how many deviations limits keep free.
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
        """That of base parameters; None where they have no covariance (b, b).

        rank: of the structural base.
        """
        if not np.isfinite(covariance).all() or not covariance.any():
            return None
        whole = np.zeros((base.B.shape[1],) * 2)
        at = base.independent
        whole[np.ix_(at, at)] = covariance
        return TorqueSpread(whole, residual, sigmas, len(at) >= rank)

    @property
    def rate(self) -> float:
        """Share of torques that stay within a limit that they come nearest to, at one instant: Phi(z)."""
        return 0.5 * (1.0 + math.erf(self.sigmas / math.sqrt(2.0)))

    @cached_property
    def _known(self) -> Bool:
        return np.asarray(np.diag(self.covariance) > 0)

    @cached_property
    def root(self) -> Float:
        """(p, r) with root root' the covariance; a draw of the parameters is root times normal numbers."""
        values, vectors = np.linalg.eigh(self.covariance)
        kept = values > 0
        return np.asarray(vectors[:, kept] * np.sqrt(values[kept]))

    def panels(self, robot: RobotModel, terms: Terms, samples: Samples) -> Panels:
        """The regressor in the columns that have a covariance."""
        return terms.torque_regressor(robot, samples, self._known)

    def about(self, robot: RobotModel, terms: Terms, theta: Float, samples: Samples) -> tuple[Float, Float]:
        """Torque of the model with parameters theta (p,) along a motion, and its deviations, (T, n) each."""
        found = self.panels(robot, terms, samples)
        # The lines of the regressor give the torque, too, but of bodies, whose recursion is quicker.
        bodies = [
            np.full(len(own), term.traits.kind is Kind.BODIES)
            for term, own in terms.with_values(robot, theta)
        ]
        rest = np.where(self._known & ~np.concatenate(bodies), 0.0, theta)
        tau = terms.torque(robot, samples, rest)
        sigma = np.empty_like(tau)
        for j, (columns, values) in enumerate(zip(found.columns, found.values, strict=True)):
            tau[:, j] += (theta - rest)[columns] @ values
            sigma[:, j] = self._std(j, columns, values)[0]
        return tau, sigma

    def slope(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        """Deviations (T,) of a joint and its derivatives (w, T) by the entries of its line of the regressor."""
        sigma, spread = self._std(joint, columns, values)
        return sigma, spread / sigma

    def _std(self, joint: int, columns: Int, values: Float) -> tuple[Float, Float]:
        spread = self.covariance[np.ix_(columns, columns)] @ values
        square = np.einsum("wt,wt->t", values, spread)
        return np.sqrt(np.maximum(square, 0.0) + self.residual[joint] ** 2 + _FLOOR**2), spread


SPEED_UP_SECONDS, JERK_SECONDS = 0.25, 0.05
# A body whose height over a plane varies by less (m) in random poses stands on it or passes it: no motion changes that.
STATES, LEAST_WAY = 60, 0.001


@dataclass(frozen=True, eq=False)
class MotionLimits:
    """Bounds of a motion, each (n,); inf = no bound (velocity and positions must have one).

    lower, upper: rad (m).    velocity, acceleration, jerk: greatest magnitudes.    torque: N m (N).
    Raises UsageError naming the joint and the bound that is missing or empty.
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
        """The robot's own limits, of which `share` is used; what is given replaces or adds to them.

        acceleration: None = full velocity within SPEED_UP_SECONDS.    jerk: None = within JERK_SECONDS.
        Continuous joints without bounds stay within half a turn to both sides.
        """
        if not 0 < share <= 1:
            raise UsageError("limit-share", found=f"a share of {share}", expected="above 0 and at most 1")
        own = robot.limits
        turn = np.array([robot.joint_types[i] is JointType.CONTINUOUS for i in robot.independent_bodies])
        low = _given(lower, np.where(turn & ~np.isfinite(own.lower), -np.pi, own.lower))
        high = _given(upper, np.where(turn & ~np.isfinite(own.upper), np.pi, own.upper))
        speed = _given(velocity, own.velocity)
        push = _given(acceleration, speed / SPEED_UP_SECONDS)
        _complete(robot, low, high, speed)
        inside = 0.5 * (1.0 - share) * (high - low)
        limits = MotionLimits(
            low + inside,
            high - inside,
            share * speed,
            share * push,
            share * _given(jerk, push / JERK_SECONDS),
            share * _given(torque, own.effort),
        )
        limits.check(robot)
        return limits

    def partial_share(self, robot: RobotModel, share: float = 1.0) -> tuple[str, ...]:
        """What lies above `share` of the description's own limits, in words."""
        own, wider = robot.limits, []
        for j, name in enumerate(robot.joint_names):
            pairs = [("velocity", self.velocity[j], share * own.velocity[j])]
            pairs += (
                [("torque", self.torque[j], share * own.effort[j])] if np.isfinite(self.torque[j]) else []
            )
            if np.isfinite([own.lower[j], own.upper[j]]).all():
                middle, half = 0.5 * (own.upper[j] + own.lower[j]), 0.5 * (own.upper[j] - own.lower[j])
                pairs.append(("position", max(self.upper[j] - middle, middle - self.lower[j]), share * half))
            wider += [f"{what} of '{name}'" for what, here, there in pairs if here > there * (1 + 1e-9)]
        return tuple(wider)

    def check(self, robot: RobotModel) -> None:
        """Raises UnfitDataError naming the joint and the limit that leaves no motion."""
        for j, name in enumerate(robot.joint_names):
            if not self.lower[j] < self.upper[j]:
                raise _empty(
                    name, f"positions from {self.lower[j]:g} to {self.upper[j]:g}", "lower below upper"
                )
            for quantity in ("velocity", "acceleration", "jerk", "torque"):
                value = getattr(self, quantity)[j]
                if not value > 0:
                    raise _empty(name, f"a {quantity} limit of {value:g}", "a positive one")


def _given(value: npt.ArrayLike | None, otherwise: Float) -> Float:
    if value is None:
        return otherwise
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == 1 and len(array) not in (1, len(otherwise)):
        raise UsageError("limit-count", found=f"{len(array)} limits", expected=f"1 or {len(otherwise)}")
    return np.broadcast_to(array, otherwise.shape).astype(np.float64)


def _empty(joint: str, found: str, expected: str) -> UnfitDataError:
    return UnfitDataError("infeasible-limits", found=found, expected=expected, place=Place(joint=joint))


def _complete(robot: RobotModel, low: Float, high: Float, speed: Float) -> None:
    missing = [
        f"'{name}' ({', '.join(what)})"
        for j, name in enumerate(robot.joint_names)
        if (
            what := [
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
            expected="bounds of position and velocity for every joint",
            do="give them with the limits of the plan: lower, upper, velocity",
            place=Place(file=robot.source) if robot.source else NOWHERE,
        )


@dataclass(frozen=True, eq=False)
class Workspace:
    """Points of the robot and half-spaces that all of them keep to: normal . x <= offset, base frame, m.

    body: (P,) index of the body a point sits on.    local: (P, 3) in its joint frame.
    normal: (H, 3) unit vectors.    offset: (H,).    names: (H,).
    radius: (P,) of the balls round the points that have to fit as a whole; () = points.
    exempt: bodies and planes that are not compared, as no motion changes the distance between them.
    whole_links: whether the points are those of the links' shapes, or only the origins of joint frames.
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
        """All links that move, and the tool's point, above a floor, within a box, behind planes.

        Without a collision model the origins of the joint frames stand for the links.

        floor: height, m.    box: (2, 3) lower and upper corner, m.    tool: (3,) in the last joint frame.
        collision: the links of which all of each part that moves counts, in place of the frames' origins.
        planes: (H, 4) x, y, z of a normal of any length, then d: normal . x <= d, m.
        Raises UsageError for a box that holds nothing, a plane without normal, or numbers that are not finite.
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
        """The bodies (B,) that points sit on."""
        return np.unique(self.body)

    def applies(self, body: int, plane: int) -> bool:
        """Whether a body has to keep to a plane."""
        return (body, plane) not in self.exempt

    def reach(self, placed: tuple[Float, Float], points: bool = True) -> tuple[Float, Float]:
        """How far each body gets along each normal (T, B, H), and the point (T, B, H, 3) that does; -inf where exempt.

        placed: rotations and origins of all bodies, see `placements`.    points: whether they are wanted, else zeros.
        """
        R, p = placed
        T, bodies, H = len(R), self.bodies, len(self.names)
        far, where = np.full((T, len(bodies), H), -np.inf), np.zeros((T, len(bodies), H, 3))
        for k, i in enumerate(bodies):
            own = np.flatnonzero(self.body == i)
            local, radius = self.local[own], self.radius[own]
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
        own = part.corners if exact else round_
        bodies.append(np.full(len(own), part.body))
        local.append(own)
        radius.append(np.zeros(len(own)) if exact else np.full(2, part.capsule.radius))
    return np.concatenate(bodies), np.concatenate(local), np.concatenate(radius)


@dataclass(frozen=True, eq=False)
class Bounds:
    """Everything that a motion keeps.

    theta: (p,) current parameters of the model behind the torque bound, None = torque is not bounded.
    uncertainty: share by which the true torque may exceed the model's.
    clearance: m from planes; pairs of links have their own in `collision`.
    spread: deviation of the true torque about the model's, where a run gives it.
    tip: (3,) the tool's point in the last joint frame, None = its origin.    tip_speed: m/s, its greatest speed.
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
        """The tool's point, (3,)."""
        return np.zeros(3) if self.tip is None else np.asarray(self.tip, dtype=np.float64)

    def torque(self, robot: RobotModel, terms: Terms, samples: Samples) -> tuple[Float, Float] | None:
        """The model's torque along a motion, (T, n), and what limits keep free of it: a share of it, and z sigma.

        None where torque is not bounded.
        """
        if self.theta is None:
            return None
        if self.spread is None:
            tau = terms.torque(robot, samples, self.theta)
            return tau, self.uncertainty * np.abs(tau)
        tau, sigma = self.spread.about(robot, terms, self.theta, samples)
        return tau, self.uncertainty * np.abs(tau) + self.spread.sigmas * sigma


# What torque limits keep free for what is not known of the torque: by the covariance of a run, or by a
# share.

DRAWS, RESERVE_STATES = 200, 1500


@dataclass(frozen=True)
class JointReserve:
    """What a plan keeps free of one joint's torque limit.

    peak: greatest torque of the model.    largest: greatest reserve, N m (N).    limit: inf = none.
    left_out: greatest part of the torque that the search left out of the model.
    """

    joint: str
    peak: float
    largest: float
    limit: float
    left_out: float = 0.0

    @property
    def share(self) -> float:
        """The greatest reserve as a share of the limit."""
        return self.largest / self.limit


@dataclass(frozen=True)
class Reserve:
    """How a plan's torque limits allow for what is not known.

    kind: "covariance", "share" or "covariance and share".    share: of the model's torque.
    drawn, within: parameter sets drawn from the covariance, and those whose torque keeps all limits all the time.
    left_out: terms that the search left out of the model and that count here.
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
                "joint": one.joint,
                "peak": one.peak,
                "largest": one.largest,
                "share_of_limit": one.share if math.isfinite(one.limit) else None,
            }
            | ({"left_out": one.left_out} if self.left_out else {})
            for one in self.joints
        ]
        known = {"sigmas": self.sigmas, "rate": self.rate, "drawn": self.drawn, "within": self.within}
        left_out = {"left_out": list(self.left_out)} if self.left_out else {}
        found = {"kind": self.kind, "share": self.share, "joints": joints}
        return found | (known if self.drawn else {}) | left_out


def reserve_of(robot: RobotModel, terms: Terms, bounds: Bounds, trajectory: Trajectory) -> Reserve | None:
    """What a motion's torque limits keep free, by joint; None where torque is not bounded.

    What the search left out of the model counts, but for what is of the log.
    """
    whole, spread, limit = Whole(terms), bounds.spread, bounds.limits.torque
    peak, largest, more = np.zeros((3, robot.n))
    good, change = np.ones(DRAWS, dtype=np.bool_), np.zeros((0, DRAWS))
    if spread is not None:
        change = spread.root @ np.random.default_rng(0).standard_normal((spread.root.shape[1], DRAWS))
    for samples, own in _looked_at(whole, trajectory):
        if (predicted := bounds.torque(robot, whole.model, samples)) is None:
            return None
        tau, kept = (part[own] for part in predicted)
        peak, largest = (np.maximum(a, np.abs(b).max(axis=0)) for a, b in ((peak, tau), (largest, kept)))
        if whole.checked:
            added = whole.added(robot, samples, np.asarray(bounds.theta))[own]
            more = np.maximum(more, np.abs(added).max(axis=0))
        if spread is not None:
            panels = spread.panels(robot, whole.model, samples)
            for j, (columns, values) in enumerate(zip(panels.columns, panels.values, strict=True)):
                torque = tau[:, j, None] + values[:, own].T @ change[columns]
                good &= np.abs(torque).max(axis=0) <= limit[j]
    numbers = zip(
        robot.joint_names, peak.tolist(), largest.tolist(), limit.tolist(), more.tolist(), strict=True
    )
    joints = tuple(JointReserve(*one) for one in numbers)
    if spread is None:
        return Reserve("share", 0.0, bounds.uncertainty, 0.0, joints, left_out=whole.checked)
    kind = "covariance and share" if bounds.uncertainty > 0 else "covariance"
    return Reserve(
        kind, spread.sigmas, bounds.uncertainty, spread.rate, joints, DRAWS, int(good.sum()), whole.checked
    )


def _looked_at(whole: Whole, trajectory: Trajectory) -> Iterable[tuple[Samples, slice]]:
    if whole.checked:
        return stretches(trajectory)
    t = np.linspace(0.0, trajectory.duration, RESERVE_STATES)
    return [(samples_at(t, *trajectory.motion(t)), slice(None))]
