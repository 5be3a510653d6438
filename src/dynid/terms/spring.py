"""Springs whose force is linear in stiffness and preload: between two links, or about joints."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import Field, asdict
from typing import Any, ClassVar

import numpy as np

from dynid.base.arrays import Bool, Float, Int
from dynid.base.errors import InputError, UnfitDataError, UsageError
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import Samples
from dynid.terms.exports import Column, JointSpring, LogFacts, Part, Question, Role, Traits, panels_of
from dynid.terms.forms import balanced_joints, exported_parts, known_torque
from dynid.terms.term import Proposal, Selection, Term, joint_indices, proposal_of_robot

# Where a spring is mounted: its length as a function of the joints, and by how much each joint changes it.

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
    return joint_indices(robot, (name,))[0]


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


def lever_panels(robot: RobotModel, samples: Samples, joints: Int, lines: Float, wanted: Bool) -> Panels:
    """Panels of torque lines (c, T, n) that act on some joints alone; wanted: (c,)."""
    chosen = np.flatnonzero(wanted)
    return panels_of(robot, samples, {j: (chosen, lines[chosen, :, j]) for j in joints.tolist()})


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


@dataclass(frozen=True)
class Spring(Term):
    """A helical spring between two links: tau_j = (k l + c) dl/dq_j, its potential energy k l^2 / 2 + c l.

    The force k l + c pulls the ends together; c = F_init - k l0 with F_init the force at the free length l0.
    k in N/m and c in N are estimated; with a free length only k is, and the force is k (l - l0).
    Parallel springs of the same geometry act as one: only the sums of their k and c can be determined.

    geometry: where it is mounted.    label: its parameters are k_LABEL and c_LABEL.
    free_length: l0 in m, None = unknown.    stiffness, preload: priors of k and c; None = unknown.
    Source: Nini et al. 2024, with the geometry of spring and links written out.

    Raises UsageError for a negative stiffness or free length.
    """

    geometry: Lever
    label: str = "spring"
    free_length: float | None = None
    stiffness: float | None = None
    preload: float | None = None
    name: str = "spring"
    traits = Traits(passive=True)

    def __post_init__(self) -> None:
        check_label(self.label)
        not_negative(f"stiffness of spring '{self.label}'", self.stiffness, "N/m")
        not_negative(f"free length of spring '{self.label}'", self.free_length, "m")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Stiffness, and preload unless the free length is known."""
        owner = _owner(self.geometry, robot)
        k = Column(f"k_{self.label}", "N/m", self.name, owner, prior=_known(self.stiffness), lower=0.0)
        c = Column(f"c_{self.label}", "N", self.name, owner, prior=_known(self.preload))
        return (k, c) if self.free_length is None else (k,)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """L dl/dq and dl/dq on the joints between the two links."""
        length, slopes = self.geometry.length(robot, samples.q)
        if self.free_length is None:
            lines = np.stack([length[:, None] * slopes, slopes])
        else:
            lines = ((length - self.free_length)[:, None] * slopes)[None]
        return lever_panels(robot, samples, self.geometry.joints(robot), lines, wanted)


@balanced_joints.register(Spring)
def _(term: Spring, robot: RobotModel) -> Bool:
    """The joints between the two links."""
    return np.isin(np.arange(robot.n), term.geometry.joints(robot))


def _spring_proposals(_: type[Term], robot: RobotModel, log: LogFacts) -> tuple[Proposal, ...]:
    """Over each joint of which the description says nothing, as a hose, a cable or a balancer makes one."""
    return tuple(
        proposal_of_robot(
            robot,
            term := _of_joint(robot, j),
            "spring",
            "{count} spring{s} on {joints}",
            places=(j,) * len(term.columns(robot)),
            positive=True,
            shield="position",
        )
        for j in (() if log.both_sides else range(robot.n))
        if np.isnan(robot.spring_prior[j, 0])
    )


def _described_by_robot(robot: RobotModel) -> tuple[Term, ...]:
    """Over each joint that has one in the description."""
    known = np.flatnonzero(np.isfinite(robot.spring_prior[:, 0]))
    return tuple(_of_joint(robot, j) for j in known.tolist())


def _of_joint(robot: RobotModel, joint: int) -> TorsionSpring:
    return TorsionSpring((robot.joint_names[joint],), label=f"joint{joint + 1}")


@dataclass(frozen=True)
class TorsionSpring(Term):
    """A torsion spring over one joint or the sum of several: tau_j = w_j (k a + c), a = sum_j w_j q_j.

    k in N m/rad and c in N m (N/m and N where all joints slide) are estimated; c = -k a0 with a0 the angle at rest, and
    is one with the offset of a joint where only one is spanned.

    joints: names.    weights: w, one a joint; () = all 1.    label: the parameters are kt_LABEL and ct_LABEL.
    stiffness: prior of k; None = that of the description, for a spring of one joint that it has.

    Raises UsageError for a negative stiffness or a wrong number of weights.
    """

    joints: tuple[str, ...]
    label: str = "torsion"
    weights: tuple[float, ...] = ()
    stiffness: float | None = None
    name: str = "torsion_spring"
    traits = Traits(passive=True)

    selection = Selection(Role.ROBOT, Question("springs"), _spring_proposals, _described_by_robot)

    def __post_init__(self) -> None:
        check_label(self.label)
        not_negative(f"stiffness of torsion spring '{self.label}'", self.stiffness, "N m/rad")
        if not self.joints or (self.weights and len(self.weights) != len(self.joints)):
            found = f"{len(self.weights)} weights for joints {list(self.joints)}"
            raise UsageError("spring-weights", found=found, expected="joints, and one weight each or none")

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Stiffness and preload."""
        spanned = np.flatnonzero(self._weights(robot)).tolist()
        stiffness, torque = ("N/m", "N") if all(robot.prismatic[j] for j in spanned) else ("N m/rad", "N m")
        owner = spanned[-1]
        k, c = self._described(robot) if self.stiffness is None else (self.stiffness, np.nan)
        return (
            Column(f"kt_{self.label}", stiffness, self.name, owner, prior=k, lower=0.0),
            Column(f"ct_{self.label}", torque, self.name, owner, prior=c),
        )

    def _described(self, robot: RobotModel) -> tuple[float, float]:
        # The description's spring of the one joint, of whose position a is a multiple.
        w = self._weights(robot)
        spanned = np.flatnonzero(w)
        if len(spanned) > 1:
            return np.nan, np.nan
        j = int(spanned[0])
        k, c = robot.spring_prior[j]
        return (float(k / w[j] ** 2), float(c / w[j])) if k >= 0 else (np.nan, np.nan)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The spanned angle and one, on the spanned joints."""
        w = self._weights(robot)
        lines = np.stack([np.outer(samples.q @ w, w), np.outer(np.ones(len(samples)), w)])
        return lever_panels(robot, samples, np.flatnonzero(w).astype(np.int64), lines, wanted)

    def _weights(self, robot: RobotModel) -> Float:
        w = np.zeros(robot.n)
        for name, weight in zip(self.joints, self.weights or (1.0,) * len(self.joints), strict=True):
            w[named_joint(robot, name)] = weight
        if not w.any():
            found = f"weights {self.weights}"
            raise UsageError("spring-weights", found=found, expected="a weight other than zero")
        return w


@balanced_joints.register(TorsionSpring)
def _(term: TorsionSpring, robot: RobotModel) -> Bool:
    """The spanned joints."""
    return np.asarray(term._weights(robot) != 0)


@exported_parts.register(TorsionSpring)
def _(term: TorsionSpring, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """A spring over the joints."""
    return (JointSpring(term.name, term._weights(robot), float(theta[0]), float(theta[1])),)


def is_spring_stiffness(column: Column) -> bool:
    """Whether a parameter is the stiffness of a spring over one joint, or the sum of several."""
    return column.term == TorsionSpring.name and column.name.startswith("kt_")


def described_springs(robot: RobotModel) -> tuple[JointSpring, ...]:
    """The springs that a robot's description says."""
    return tuple(
        JointSpring("the description", np.eye(robot.n)[j], float(k), float(c))
        for j, (k, c) in enumerate(robot.spring_prior)
        if np.isfinite([k, c]).all()
    )


def not_negative(what: str, value: float | None, unit: str) -> None:
    """Raises UsageError if a number that is given is negative or not finite."""
    if value is not None and not (np.isfinite(value) and value >= 0):
        raise UsageError("negative-stiffness", found=f"{what} = {value} {unit}", expected="a number >= 0")


def check_label(label: str) -> None:
    """Raises UsageError for a label that cannot be a part of a parameter's name."""
    if not label or not label.replace("_", "a").isalnum() or not label.isascii():
        raise UsageError("spring-label", found=f"label '{label}'", expected="letters, digits and underscores")


def _known(value: float | None) -> float:
    return np.nan if value is None else value


def _owner(geometry: Lever, robot: RobotModel) -> int:
    joints = geometry.joints(robot)
    if not len(joints):
        raise UsageError(
            "spring-geometry",
            found=f"{geometry}, whose length no joint changes",
            expected="a joint between the ends",
        )
    return int(joints[-1])


# Counterbalances that are no linear springs: gas over a piston, and any function of one's own.

# The gas law is not followed below this share of the volume at rest: no seal would hold.
LEAST_VOLUME = 0.01


class GainedTorque(Term):
    """A torque that is known but for a gain s with the prior 1, which is estimated, or 1.

    Subclasses have the fields `free`, whether s is estimated, and `label`: the parameter is s_LABEL.
    """

    free: bool
    label: str
    traits = Traits(passive=True)

    @abstractmethod
    def acting(self, robot: RobotModel) -> Int:
        """Indices of the joints that it acts on, ascending."""

    @abstractmethod
    def whole(self, robot: RobotModel, samples: Samples) -> Float:
        """The torque (T, n) at s = 1."""

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The gain, if it is estimated."""
        owner = int(self.acting(robot)[-1])
        return (Column(f"s_{self.label}", "1", self.name, owner, prior=1.0, lower=0.0),) if self.free else ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The whole torque, at s = 1."""
        lines = self.whole(robot, samples)[None] if self.free else np.zeros((0, *samples.q.shape))
        return lever_panels(robot, samples, self.acting(robot), lines, wanted)


@balanced_joints.register(GainedTorque)
def _(term: GainedTorque, robot: RobotModel) -> Bool:
    """The joints that it acts on."""
    return np.isin(np.arange(robot.n), term.acting(robot))


@known_torque.register(GainedTorque)
def _(term: GainedTorque, robot: RobotModel, samples: Samples) -> Float | None:
    """The whole torque when the gain is not estimated."""
    return None if term.free else term.whole(robot, samples)


@dataclass(frozen=True)
class GasSpring(GainedTorque):
    """A gas or hydro-pneumatic counterbalance: tau_j = s F dl/dq_j.

        F = A p,    p = p0 (V0 / V)^n,    V = V0 - (l - l0) A

    The cylinder pulls its ends together, and drawing it out compresses the gas. One that pushes them apart has
    F = -A p and V = V0 + (l - l0) A. V counts as at least V0 / 100.
    For an isothermal charge p0 V0 = m R T. The gain s (prior 1) takes up what filling and temperature change.

    geometry: where it is mounted.    rest_length: l0, m, at which the gas has volume and pressure p0 below.
    area: A of the piston, m^2 (less that of the rod if it pulls).    volume: V0, m^3.    pressure: p0, Pa, above
    the ambient one.    exponent: n, 1 = isothermal, 1.4 = adiabatic air or nitrogen.
    pushes: whether it pushes.    free: whether s is estimated, else 1.    label: the parameter is s_LABEL.

    Raises UsageError for numbers that are not positive.
    """

    geometry: Lever
    rest_length: float
    area: float
    volume: float
    pressure: float
    exponent: float = 1.0
    pushes: bool = False
    free: bool = True
    label: str = "gas"
    name: str = "gas_spring"

    def __post_init__(self) -> None:
        check_label(self.label)
        for key in ("rest_length", "area", "volume", "pressure", "exponent"):
            if not (np.isfinite(getattr(self, key)) and getattr(self, key) > 0):
                raise UsageError(
                    "gas-spring", found=f"{key} = {getattr(self, key)}", expected="a number > 0, SI"
                )

    def acting(self, robot: RobotModel) -> Int:
        """Those that it is mounted over."""
        return self.geometry.joints(robot)

    def force(self, length: Float) -> Float:
        """F of lengths (T,) in m, N; positive pulls."""
        sign = -1.0 if self.pushes else 1.0
        volume = self.volume - sign * (length - self.rest_length) * self.area
        volume = np.maximum(volume, LEAST_VOLUME * self.volume)
        return np.asarray(sign * self.area * self.pressure * (self.volume / volume) ** self.exponent)

    def whole(self, robot: RobotModel, samples: Samples) -> Float:
        """The force on its lever."""
        length, slopes = self.geometry.length(robot, samples.q)
        return np.asarray(self.force(length)[:, None] * slopes)


TorqueFunction = Callable[[Float], Float]
FUNCTIONS: dict[str, TorqueFunction] = {}


def register_function(name: str, function: TorqueFunction) -> None:
    """Makes a function known by a name to FunctionTorque, in experiments and when a run folder is read.

    function: lengths (T,) in m to forces (T,) in N, or positions (T, n) to joint torques (T, n), of gain 1.
    """
    FUNCTIONS[name] = function


@dataclass(frozen=True)
class FunctionTorque(GainedTorque):
    """Torque of a function of one's own, times a gain: tau_j = s f(l) dl/dq_j, or tau = s f(q) without a geometry.

    function: name that it was registered by (`register_function`); no code is ever read from a file.
    geometry: where the spring is mounted whose force f(l) is; None = f gives joint torque from positions.
    free: whether s is estimated (prior 1), else 1.    label: the parameter is s_LABEL.

    Raises InputError for a name that is not registered, UnfitDataError for results that are not finite.
    """

    function: str
    geometry: Lever | None = None
    free: bool = True
    label: str = "function"
    name: str = "function"

    def __post_init__(self) -> None:
        check_label(self.label)

    def acting(self, robot: RobotModel) -> Int:
        """All of them, or those that it is mounted over."""
        return np.arange(robot.n) if self.geometry is None else self.geometry.joints(robot)

    def whole(self, robot: RobotModel, samples: Samples) -> Float:
        """What the function says."""
        if self.function not in FUNCTIONS:
            raise InputError(
                "unknown-function",
                found=f"function '{self.function}'",
                expected="one of " + (", ".join(sorted(FUNCTIONS)) or "those registered: none is"),
                do="register it in Python: dynid.terms.register_function(name, function)",
            )
        evaluate = FUNCTIONS[self.function]
        if self.geometry is None:
            return self._checked(evaluate(np.array(samples.q)), samples.q.shape)
        length, slopes = self.geometry.length(robot, samples.q)
        return np.asarray(self._checked(evaluate(length), length.shape)[:, None] * slopes)

    def _checked(self, values: Float, shape: tuple[int, ...]) -> Float:
        found = np.asarray(values, dtype=np.float64)
        if found.shape != shape or not np.isfinite(found).all():
            raise UnfitDataError(
                "function-result",
                found=f"function '{self.function}' gave shape {found.shape}"
                + ("" if np.isfinite(found).all() else " with numbers that are not finite"),
                expected=f"finite numbers of shape {shape}",
            )
        return found
