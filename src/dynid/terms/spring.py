"""Springs and counterbalances: between two links, over joints, gas springs, and functions of a user."""

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

# Mounting of a spring: its length as a function of the joints, and the derivatives of the length.

# Name of the fixed body that carries the robot.
BASE = "base"
Point = tuple[float, float, float]


class Lever(ABC):
    """Mounting of a spring: its length l(q) and the derivatives dl/dq_j; a force F acts on joint j with F dl/dq_j.

    Subclasses are frozen dataclasses.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @abstractmethod
    def joints(self, robot: RobotModel) -> Int:
        """Indices of the independent joints that change the length, in ascending order."""

    @abstractmethod
    def length(self, robot: RobotModel, q: Float) -> tuple[Float, Float]:
        """Length and its derivatives.

        Parameters
        ----------
        robot : RobotModel
            The robot.
        q : ndarray, shape (T, n)
            Positions of the joints.

        Returns
        -------
        length : ndarray, shape (T,), m
            l(q).
        slopes : ndarray, shape (T, n), m/rad (1 for prismatic joints)
            dl/dq.

        """


@dataclass(frozen=True)
class Triangle(Lever):
    """A spring between a fixed point and a crank on one joint, both in a plane perpendicular to its axis.

    l^2 = d^2 + r^2 - 2 d r cos(phi),    dl/dq = d r sin(phi) / l,    phi = q + angle

    Attributes
    ----------
    joint : str
        Name of the joint.
    anchor : float, m
        Distance d of the fixed point from the joint axis.
    crank : float, m
        Distance r of the moving point from the joint axis.
    angle : float, rad
        phi at q = 0.

    References
    ----------
    Nini et al. 2024 (beta - alpha is the angle).

    """

    joint: str
    anchor: float
    crank: float
    angle: float

    def __post_init__(self) -> None:
        if not (self.anchor > 0 and self.crank > 0 and np.isfinite(self.angle)):
            geometry = f"anchor {self.anchor} m, crank {self.crank} m, angle {self.angle} rad"
            raise UsageError("spring-geometry", found=geometry, expected="two lengths > 0 and a finite angle")

    def joints(self, robot: RobotModel) -> Int:
        """The joint of the crank."""
        return np.array([named_joint(robot, self.joint)], dtype=np.int64)

    def length(self, robot: RobotModel, q: Float) -> tuple[Float, Float]:
        """Law of cosines."""
        j = named_joint(robot, self.joint)
        phi = q[:, j] + self.angle
        product = self.anchor * self.crank
        length = np.sqrt(np.maximum(self.anchor**2 + self.crank**2 - 2 * product * np.cos(phi), 0.0))
        slopes = np.zeros_like(q)
        slopes[:, j] = product * np.sin(phi) / np.maximum(length, 1e-12)
        return length, slopes


@dataclass(frozen=True)
class Points(Lever):
    """A spring between two points on two links.

    l = |p_b - p_a|,    dl/dq_j = u . d(p_b - p_a)/dq_j,    u = (p_b - p_a) / l

    Attributes
    ----------
    bodies : tuple of str
        Names of the two links; "base" for the fixed base.
    points : tuple of two points of three floats, m
        Each in the joint frame of its link, or in the base frame.

    """

    bodies: tuple[str, str]
    points: tuple[Point, Point]

    def __post_init__(self) -> None:
        shape = np.shape(self.points)
        if shape != (2, 3) or len(self.bodies) != 2 or not np.isfinite(self.points).all():
            geometry = f"points {self.points} on {self.bodies}"
            raise UsageError(
                "spring-geometry", found=geometry, expected="two links, and a point of 3 numbers on each"
            )
        if self.bodies[0] == self.bodies[1]:
            geometry = f"both ends of a spring on '{self.bodies[0]}'"
            raise UsageError("spring-geometry", found=geometry, expected="two different links")

    def joints(self, robot: RobotModel) -> Int:
        """The joints between the two links."""
        between = robot.projection[list(self._between(robot))]
        return np.flatnonzero(np.any(between != 0, axis=0)).astype(np.int64)

    def length(self, robot: RobotModel, q: Float) -> tuple[Float, Float]:
        """Forward kinematics of both points, and their Jacobians along the spring."""
        moved, _, _ = robot.tree_motion(q, np.zeros_like(q), np.zeros_like(q))
        (pa, axes_a), (pb, axes_b) = (
            _point_motion(robot, _body(robot, name), np.array(point), moved)
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
        # Tree joints that move only one of the two links; others move the whole spring.
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
    """Read a mounting from plain data, whose keys say which one it is; raise InputError for other keys."""
    kind = next(
        (kind for keys, kind in LEVERS.items() if isinstance(options, Mapping) and set(keys) == set(options)),
        None,
    )
    if kind is None:
        expected = " or ".join("{ " + ", ".join(keys) + " }" for keys in LEVERS)
        raise InputError("spring-geometry", found=f"geometry = {options}", expected=expected)
    try:
        return kind(**{key: _tuples(value) for key, value in options.items()})
    except TypeError as error:
        given = f"geometry = {dict(options)}"
        raise InputError("spring-geometry", found=given, expected="numbers and names") from error


def lever_to_options(lever: Lever) -> dict[str, Any]:
    """Write a mounting as plain data."""
    return {key: _lists(value) for key, value in asdict(lever).items()}


def named_joint(robot: RobotModel, name: str) -> int:
    """Index of a joint; raises UsageError for an unknown name."""
    return joint_indices(robot, (name,))[0]


def _point_motion(
    robot: RobotModel, body: int, point: Float, q: Float
) -> tuple[Float, dict[int, tuple[Float, Float]]]:
    # A link's point in the base frame, (T, 3), and origin and axis of each tree joint that moves it; q: (T, nb).
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
            R = R @ _rotations(axis, q[:, i])
    return p + R @ point, axes


def lever_panels(robot: RobotModel, samples: Samples, joints: Int, lines: Float, wanted: Bool) -> Panels:
    """Panels of torque that acts on some joints.

    `samples`: motion; `lines` (c, T, n): torque per unit of each parameter; `wanted` (c,): parameters that get columns.
    """
    chosen = np.flatnonzero(wanted)
    return panels_of(robot, samples, {j: (chosen, lines[chosen, :, j]) for j in joints.tolist()})


def _rotations(axis: Float, angle: Float) -> Float:
    # Rotation matrices (T, 3, 3) about an axis by angles (T,).
    K = np.array([[0.0, -axis[2], axis[1]], [axis[2], 0.0, -axis[0]], [-axis[1], axis[0], 0.0]])
    s, c = np.sin(angle)[:, None, None], np.cos(angle)[:, None, None]
    return np.asarray(np.eye(3) + s * K + (1.0 - c) * (K @ K))


def _body(robot: RobotModel, name: str) -> int:
    # Index of a link, -1 = the base.
    if name in robot.body_names:
        return robot.body_names.index(name)
    if name == BASE:
        return -1
    raise UsageError(
        "unknown-body", found=f"link '{name}'", expected=f"{BASE} or one of " + ", ".join(robot.body_names)
    )


def _tuples(value: Any) -> Any:
    return tuple(_tuples(item) for item in value) if isinstance(value, list | tuple) else value


def _lists(value: Any) -> Any:
    return [_lists(item) for item in value] if isinstance(value, list | tuple) else value


@dataclass(frozen=True)
class Spring(Term):
    """A helical spring between two links: tau_j = (k l + c) dl/dq_j, with potential energy k l^2 / 2 + c l.

    The force k l + c pulls the ends together; c = F_init - k l0 with F_init the force at the free length l0.
    k in N/m and c in N are estimated; with a known free length only k, and the force is k (l - l0).
    Of parallel springs with the same geometry only the sums of k and c are identifiable.

    Attributes
    ----------
    geometry : Lever
        Mounting.
    label : str
        The parameters are k_LABEL and c_LABEL.
    free_length : float or None, m
        l0; None = unknown.
    stiffness, preload : float or None, N/m and N
        Priors of k and c; None = unknown.

    Raises
    ------
    UsageError
        If stiffness or free length is negative.

    References
    ----------
    Nini et al. 2024, with the geometry of spring and links written out.

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
        """Stiffness, and preload if the free length is unknown."""
        owner = _owner(self.geometry, robot)
        k = Column(f"k_{self.label}", "N/m", self.name, owner, prior=_known(self.stiffness), lower=0.0)
        c = Column(f"c_{self.label}", "N", self.name, owner, prior=_known(self.preload))
        return (k, c) if self.free_length is None else (k,)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The columns l dl/dq and dl/dq on the joints between the two links."""
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
    """A spring over each joint without one in the robot file: hoses, cables and balancers act like springs."""
    return tuple(
        proposal_of_robot(
            robot,
            term := _joint_spring(robot, j),
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
    """The springs over single joints in the robot file."""
    known = np.flatnonzero(np.isfinite(robot.spring_prior[:, 0]))
    return tuple(_joint_spring(robot, j) for j in known.tolist())


def _joint_spring(robot: RobotModel, joint: int) -> TorsionSpring:
    return TorsionSpring((robot.joint_names[joint],), label=f"joint{joint + 1}")


@dataclass(frozen=True)
class TorsionSpring(Term):
    """A torsion spring over one joint or a sum of joints: tau_j = w_j (k a + c), a = sum_j w_j q_j.

    k in N m/rad and c in N m (N/m and N if all joints are prismatic) are estimated; c = -k a0 with a0 the angle without
    torque. Over a single joint, c cannot be distinguished from the joint's offset.

    Attributes
    ----------
    joints : tuple of str
        Names of the joints.
    label : str
        The parameters are kt_LABEL and ct_LABEL.
    weights : tuple of float
        w, one per joint; () = all 1.
    stiffness : float or None
        Prior of k; None = that of the robot file, for a spring over one joint.

    Raises
    ------
    UsageError
        If the stiffness is negative or the number of weights is wrong.

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
            given = f"{len(self.weights)} weights for joints {list(self.joints)}"
            raise UsageError(
                "spring-weights", found=given, expected="joints, and one weight for each or none"
            )

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
        # Prior from the robot file if a is a multiple of one joint's position.
        w = self._weights(robot)
        spanned = np.flatnonzero(w)
        if len(spanned) > 1:
            return np.nan, np.nan
        j = int(spanned[0])
        k, c = robot.spring_prior[j]
        return (float(k / w[j] ** 2), float(c / w[j])) if k >= 0 else (np.nan, np.nan)

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The columns a and 1 on the joints of the spring."""
        w = self._weights(robot)
        lines = np.stack([np.outer(samples.q @ w, w), np.outer(np.ones(len(samples)), w)])
        return lever_panels(robot, samples, np.flatnonzero(w).astype(np.int64), lines, wanted)

    def _weights(self, robot: RobotModel) -> Float:
        w = np.zeros(robot.n)
        for name, weight in zip(self.joints, self.weights or (1.0,) * len(self.joints), strict=True):
            w[named_joint(robot, name)] = weight
        if not w.any():
            given = f"weights {self.weights}"
            raise UsageError("spring-weights", found=given, expected="a weight other than zero")
        return w


@balanced_joints.register(TorsionSpring)
def _(term: TorsionSpring, robot: RobotModel) -> Bool:
    """The joints of the spring."""
    return np.asarray(term._weights(robot) != 0)


@exported_parts.register(TorsionSpring)
def _(term: TorsionSpring, robot: RobotModel, theta: Float) -> tuple[Part, ...] | None:
    """One spring."""
    return (JointSpring(term.name, term._weights(robot), float(theta[0]), float(theta[1])),)


def is_spring_stiffness(column: Column) -> bool:
    """Whether a parameter is the stiffness of a `TorsionSpring`."""
    return column.term == TorsionSpring.name and column.name.startswith("kt_")


def described_springs(robot: RobotModel) -> tuple[JointSpring, ...]:
    """Springs over single joints in the robot file."""
    return tuple(
        JointSpring("the robot file", np.eye(robot.n)[j], float(k), float(c))
        for j, (k, c) in enumerate(robot.spring_prior)
        if np.isfinite([k, c]).all()
    )


def not_negative(quantity: str, value: float | None, unit: str) -> None:
    """Raise UsageError if a given number is negative or not finite."""
    if value is not None and not (np.isfinite(value) and value >= 0):
        raise UsageError("negative-stiffness", found=f"{quantity} = {value} {unit}", expected="a number >= 0")


def check_label(label: str) -> None:
    """Raise UsageError for a label that cannot be part of a parameter's name."""
    if not label or not label.replace("_", "a").isalnum() or not label.isascii():
        raise UsageError("spring-label", found=f"label '{label}'", expected="letters, digits and underscores")


def _known(value: float | None) -> float:
    return np.nan if value is None else value


def _owner(geometry: Lever, robot: RobotModel) -> int:
    joints = geometry.joints(robot)
    if not len(joints):
        raise UsageError(
            "spring-geometry",
            found=f"a spring whose length no joint changes ({geometry})",
            expected="at least one joint between the ends of the spring",
        )
    return int(joints[-1])


# Counterbalances that are not linear: gas springs, and functions of a user.

# Share of the volume at rest below which the gas is not compressed further, so that the pressure stays finite.
LEAST_VOLUME = 0.01


class GainedTorque(Term):
    """A known torque times a gain s, which is 1 or estimated with the prior 1.

    Attributes
    ----------
    free : bool
        Whether s is estimated.
    label : str
        The parameter is s_LABEL.

    """

    free: bool
    label: str
    traits = Traits(passive=True)

    @abstractmethod
    def acting(self, robot: RobotModel) -> Int:
        """Indices of the joints on which it acts, in ascending order."""

    @abstractmethod
    def whole(self, robot: RobotModel, samples: Samples) -> Float:
        """Torque (T, n) at s = 1."""

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The gain, if it is estimated."""
        owner = int(self.acting(robot)[-1])
        return (Column(f"s_{self.label}", "1", self.name, owner, prior=1.0, lower=0.0),) if self.free else ()

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """Torque at s = 1, if the gain is estimated."""
        lines = self.whole(robot, samples)[None] if self.free else np.zeros((0, *samples.q.shape))
        return lever_panels(robot, samples, self.acting(robot), lines, wanted)


@balanced_joints.register(GainedTorque)
def _(term: GainedTorque, robot: RobotModel) -> Bool:
    """The joints on which it acts."""
    return np.isin(np.arange(robot.n), term.acting(robot))


@known_torque.register(GainedTorque)
def _(term: GainedTorque, robot: RobotModel, samples: Samples) -> Float | None:
    """Torque at s = 1, if the gain is not estimated."""
    return None if term.free else term.whole(robot, samples)


@dataclass(frozen=True)
class GasSpring(GainedTorque):
    """A gas or hydro-pneumatic counterbalance: tau_j = s F dl/dq_j.

        F = A p,    p = p0 (V0 / V)^n,    V = V0 - (l - l0) A

    The cylinder pulls its ends together, and extending it compresses the gas. A cylinder that pushes has F = -A p and
    V = V0 + (l - l0) A. V is limited to V0 / 100. For an isothermal charge p0 V0 = m R T. The gain s (prior 1) covers
    changes of filling and temperature.

    Attributes
    ----------
    geometry : Lever
        Mounting.
    rest_length : float, m
        l0, the length at which the gas has the volume V0 and the pressure p0.
    area : float, m^2
        A of the piston (without that of the rod if it pulls).
    volume : float, m^3
        V0.
    pressure : float, Pa
        p0, relative to the ambient pressure.
    exponent : float
        n; 1 = isothermal, 1.4 = adiabatic air or nitrogen.
    pushes : bool
        Whether it pushes its ends apart.
    free : bool
        Whether s is estimated; else it is 1.
    label : str
        The parameter is s_LABEL.

    Raises
    ------
    UsageError
        If a number is not positive.

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
                    "gas-spring", found=f"{key} = {getattr(self, key)}", expected="a number > 0 in SI units"
                )

    def acting(self, robot: RobotModel) -> Int:
        """The joints that change its length."""
        return self.geometry.joints(robot)

    def force(self, length: Float) -> Float:
        """Force F (T,), N, at lengths (T,), m; positive = it pulls."""
        sign = -1.0 if self.pushes else 1.0
        volume = self.volume - sign * (length - self.rest_length) * self.area
        volume = np.maximum(volume, LEAST_VOLUME * self.volume)
        return np.asarray(sign * self.area * self.pressure * (self.volume / volume) ** self.exponent)

    def whole(self, robot: RobotModel, samples: Samples) -> Float:
        """Force times the derivatives of the length."""
        length, slopes = self.geometry.length(robot, samples.q)
        return np.asarray(self.force(length)[:, None] * slopes)


TorqueFunction = Callable[[Float], Float]
FUNCTIONS: dict[str, TorqueFunction] = {}


def register_function(name: str, function: TorqueFunction) -> None:
    """Register a function for `FunctionTorque`.

    Parameters
    ----------
    name : str
        Name in experiments and run folders.
    function : callable
        Forces (T,) in N from lengths (T,) in m, or joint torques (T, n) from positions (T, n), at a gain of 1.

    """
    FUNCTIONS[name] = function


@dataclass(frozen=True)
class FunctionTorque(GainedTorque):
    """Torque of a user's function times a gain: tau_j = s f(l) dl/dq_j, or tau = s f(q) without a geometry.

    Attributes
    ----------
    function : str
        Name by which it was registered (`register_function`); code is never read from a file.
    geometry : Lever or None
        Mounting of the spring with the force f(l); None = f returns joint torque from positions.
    free : bool
        Whether s is estimated (prior 1); else it is 1.
    label : str
        The parameter is s_LABEL.

    Raises
    ------
    InputError
        If the name is not registered.
    UnfitDataError
        If the function returns another shape or numbers that are not finite.

    """

    function: str
    geometry: Lever | None = None
    free: bool = True
    label: str = "function"
    name: str = "function"

    def __post_init__(self) -> None:
        check_label(self.label)

    def acting(self, robot: RobotModel) -> Int:
        """All joints, or those that change the length."""
        return np.arange(robot.n) if self.geometry is None else self.geometry.joints(robot)

    def whole(self, robot: RobotModel, samples: Samples) -> Float:
        """Torque from the registered function."""
        if self.function not in FUNCTIONS:
            raise InputError(
                "unknown-function",
                found=f"function '{self.function}'",
                expected="a registered function: " + (", ".join(sorted(FUNCTIONS)) or "none is registered"),
                do="register it in Python: dynid.terms.register_function(name, function)",
            )
        evaluate = FUNCTIONS[self.function]
        if self.geometry is None:
            return self._checked(evaluate(np.array(samples.q)), samples.q.shape)
        length, slopes = self.geometry.length(robot, samples.q)
        return np.asarray(self._checked(evaluate(length), length.shape)[:, None] * slopes)

    def _checked(self, values: Float, shape: tuple[int, ...]) -> Float:
        result = np.asarray(values, dtype=np.float64)
        if result.shape != shape or not np.isfinite(result).all():
            raise UnfitDataError(
                "function-result",
                found=f"a result of shape {result.shape} from function '{self.function}'"
                + ("" if np.isfinite(result).all() else " with numbers that are not finite"),
                expected=f"finite numbers of shape {shape}",
            )
        return result
