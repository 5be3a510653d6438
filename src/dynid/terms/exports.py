"""Data of terms: columns, traits, parts of exports, data for the automatic choice, and panels of several terms."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from enum import Enum, Flag, StrEnum
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from dynid.base.arrays import Bool, Float, Int, locked
from dynid.base.records import dataclass
from dynid.kernel import Panels
from dynid.robot.model import RobotModel
from dynid.signals.samples import REACH, Samples

# Parameters: one column of the regressor each.


class Of(StrEnum):
    """What a parameter belongs to."""

    JOINT = "joint"
    BODY = "body"
    ROBOT = "robot"


@dataclass(frozen=True)
class Symbol:
    """Notation of a parameter: a letter with an index, and its meaning.

    Attributes
    ----------
    name : str
        Name of the parameter without the number of its joint: "fv" for fv3.
    letter, index : str
        Letter and subscript in formulas.
    words : str
        Meaning, for reports.

    """

    name: str
    letter: str
    index: str
    words: str


@dataclass(frozen=True)
class Column:
    """One parameter of a term: one column of the regressor.

    Attributes
    ----------
    name : str
        Unique within a model, such as "Izz3" or "fv2"; numbers count links or joints from 1.
    unit : str
        Unit of the parameter.
    term : str
        Name of the term.
    owner : int
        Index of the link or joint that the parameter belongs to.
    prior : float
        Value from the robot file; nan = unknown.
    lower, upper : float
        Physical bounds; both zero = the parameter is known to be zero.
    of : Of
        Whether the owner is a joint, a link (then this is one of its ten inertial parameters) or the whole robot.
    moved_by : tuple of int
        Joints, at least one of which has to move to make the parameter identifiable; () = no motion is necessary.

    """

    name: str
    unit: str
    term: str
    owner: int
    prior: float = np.nan
    lower: float = -np.inf
    upper: float = np.inf
    of: Of = Of.JOINT
    moved_by: tuple[int, ...] = ()

    @property
    def absent(self) -> bool:
        """Whether the parameter is known to be zero, such as those of a link without mass."""
        return self.lower == self.upper == 0.0


class Side(StrEnum):
    """Side of the transmission on which a term acts."""

    LINK = "link"
    MOTOR = "motor"
    BOTH = "both"


class Scale(StrEnum):
    """Effect of a term on the common scale of all torques: none, makes it unidentifiable, makes it identifiable."""

    KEEPS = "keeps"
    FREES = "frees"
    FIXES = "fixes"


class Kind(StrEnum):
    """Kind of a term's parameters, for programs that treat some kinds differently.

    Attributes
    ----------
    EFFECT
        Any kind without an entry of its own.
    BODIES
        The ten inertial parameters of each link, in order.
    ROTORS
        Rotor inertias, reflected to the joints.
    FRICTION
        Friction coefficients.
    COMPENSATION
        No parameters, but known friction: friction estimated in addition to it may have either sign.
    LOG
        Properties of the log or of its load, which are not part of the robot.

    """

    EFFECT = "effect"
    BODIES = "bodies"
    ROTORS = "rotors"
    FRICTION = "friction"
    COMPENSATION = "compensation"
    LOG = "log"


class Reads(Flag):
    """What a term reads besides each sample: the past motion (`Samples.past`), or derivatives along time."""

    SAMPLE = 0
    PAST = 1
    RATE = 2


class Dry(StrEnum):
    """Whether a term is dry friction: with a step at zero velocity, or a step in proportion to the load."""

    NO = "no"
    STEP = "step"
    LOAD = "load"


# Effects that exported files can express.


class MotionBasis(Enum):
    """Function of the motion to which a torque is proportional: velocity, its sign, acceleration, or constant."""

    SPEED = "dq"
    SIGN = "s(dq)"
    ACCELERATION = "ddq"
    ONE = "1"

    def slope(self, values: Float, width: float) -> tuple[int, Float | float] | None:
        """Derivative of the function with respect to the motion of its joint.

        Parameters
        ----------
        values : ndarray
            Values of the function.
        width : float, rad/s (m/s)
            Width of the smoothed sign; 0 = no smoothing.

        Returns
        -------
        tuple of int and ndarray (or float), or None
            Whether it depends on q, dq or ddq (0, 1, 2), and the derivative; None if it depends on no motion.

        """
        if self is MotionBasis.SIGN:
            return (1, (1.0 - values**2) / width) if width > 0 else None
        places = {MotionBasis.SPEED: 1, MotionBasis.ACCELERATION: 2}
        return (places[self], 1.0) if self in places else None


@dataclass(frozen=True)
class Traits:
    """Properties of a term that programs read instead of testing its class.

    Attributes
    ----------
    kind : Kind
        What its parameters are.
    side : Side
        Where it acts. On the motor's side, a term receives the motors' reflected motion if both sides were measured.
    reads : Reads
        What it reads along time.
    dry : Dry
        Whether it is dry friction.
    basis : MotionBasis or None
        Function of its joint's motion to which the torque is proportional; None = any other function.
    scale : Scale
        Its effect on the common scale of all torques.
    linearised : bool
        Whether it is linearised about a model known in advance.
    passive : bool
        Whether a significantly negative parameter means that the input is wrong.
    either_side : bool
        Whether it may also be placed at the motors (`on_motor`).
    hides_wiring : bool
        Whether it can compensate for exchanged joints or a wrong sign, so that these remain undetected.

    """

    kind: Kind = Kind.EFFECT
    side: Side = Side.LINK
    reads: Reads = Reads.SAMPLE
    dry: Dry = Dry.NO
    basis: MotionBasis | None = None
    scale: Scale = Scale.KEEPS
    linearised: bool = False
    passive: bool = False
    either_side: bool = False
    hides_wiring: bool = False


class Columns(Protocol):
    """The protocol "columns": parameters of a term and their columns of Y in tau = Y theta."""

    traits: ClassVar[Traits]

    @property
    def name(self) -> str:
        """Name of the term in experiments and run folders."""
        ...

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """Parameters of the term for a robot."""
        ...

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The wanted columns of Y per joint; indices count within the term."""
        ...


class Part:
    """A piece of an exported model; subclasses are frozen dataclasses."""


@dataclass(frozen=True)
class OnJoint(Part):
    """Torque of one parameter on one joint, from this joint's motion: tau_j = value basis(dq_j or ddq_j).

    Attributes
    ----------
    joint : int
        Index of the joint.
    value : float
        Value of the parameter.
    basis : MotionBasis
        Function of the motion.
    width : float, rad/s (m/s)
        Width of the smoothed sign; 0 = no smoothing.

    """

    joint: int
    value: float
    basis: MotionBasis
    width: float = 0.0


@dataclass(frozen=True)
class Memory(Part):
    """Distance, rad (m), over which a joint's Coulomb friction builds up."""

    joint: int
    distance: float


@dataclass(frozen=True, eq=False)
class ZeroShift(Part):
    """Joint positions minus logged positions, (n,) rad (m); exported robots have them in their joints' origins."""

    positions: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", locked(self.positions, (None,), "zeros"))


@dataclass(frozen=True)
class LeftOut(Part):
    """The part of a term that exported files cannot express, in words, while they express its other parts."""

    what: str


@dataclass(frozen=True, eq=False)
class Mixed(Part):
    """Torque of one parameter on all joints: tau = out value basis(weights . dq), with ddq for accelerations.

    Attributes
    ----------
    term : str
        Name of the term.
    value : float
        Value of the parameter.
    basis : MotionBasis
        Function of the motion.
    out, weights : ndarray, shape (n,)
        Distribution of the torque to the joints, and weights of the joints' motion.
    width : float, rad/s (m/s)
        Width of the smoothed sign; 0 = no smoothing.

    """

    term: str
    value: float
    basis: MotionBasis
    out: Float
    weights: Float
    width: float = 0.0

    def __post_init__(self) -> None:
        for name in ("out", "weights"):
            object.__setattr__(self, name, locked(getattr(self, name), (None,), name))

    def torque(self, dq: Float, ddq: Float) -> Float:
        """Torque (T, n) of the motion dq, ddq (T, n)."""
        line = (ddq if self.basis is MotionBasis.ACCELERATION else dq) @ self.weights
        if self.basis is MotionBasis.SIGN:
            line = smooth_sign(line, self.width)
        if self.basis is MotionBasis.ONE:
            line = np.ones(len(dq))
        return np.asarray(self.value * np.outer(line, self.out))


@dataclass(frozen=True, eq=False)
class JointSpring(Part):
    """A spring on one joint or on a sum of joints: tau = weights (stiffness a + preload), a = weights . q.

    Attributes
    ----------
    term : str
        Name of the term.
    weights : ndarray, shape (n,)
        Weights of the joints.
    stiffness : float, N m/rad (N/m)
        Stiffness.
    preload : float, N m (N)
        Torque at a = 0.

    """

    term: str
    weights: Float
    stiffness: float
    preload: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", locked(self.weights, (None,), "weights"))

    @property
    def joints(self) -> tuple[int, ...]:
        """Indices of the joints with a weight."""
        return tuple(np.flatnonzero(self.weights).tolist())

    @property
    def rest(self) -> float:
        """Value of a without torque, rad (m); the stiffness must not be zero."""
        return -self.preload / self.stiffness

    def torque(self, q: Float) -> Float:
        """Torque (T, n) at positions q (T, n)."""
        return np.outer(self.stiffness * (q @ self.weights) + self.preload, self.weights)

    def energy(self, q: Float) -> Float:
        """Stored energy (T,), J, zero at a = 0."""
        a = q @ self.weights
        return np.asarray((0.5 * self.stiffness * a + self.preload) * a)


def spring_torque(springs: Sequence[JointSpring], q: Float) -> Float:
    """Torque (T, n) of all springs at positions q (T, n)."""
    return sum((spring.torque(q) for spring in springs), np.zeros_like(q))


def spring_slopes(springs: Sequence[JointSpring], n: int) -> Float:
    """Derivative (n, n) of the torque of all springs with respect to the positions."""
    return sum(
        (spring.stiffness * np.outer(spring.weights, spring.weights) for spring in springs), np.zeros((n, n))
    )


def mixed_torque(parts: Sequence[Mixed], bases: Sequence[MotionBasis], dq: Float, ddq: Float) -> Float:
    """Torque of those parts that have one of several bases.

    Parameters
    ----------
    parts : sequence of Mixed
        Parts of an exported model.
    bases : sequence of MotionBasis
        Bases to include.
    dq, ddq : ndarray, shape (T, n)
        Motion of the joints.

    Returns
    -------
    ndarray, shape (T, n)

    """
    return sum((part.torque(dq, ddq) for part in parts if part.basis in bases), np.zeros_like(dq))


def smooth_sign(speed: Float, width: float) -> Float:
    """tanh(speed / width), or the sign of the speed if the width is 0."""
    return np.tanh(speed / width) if width > 0 else np.sign(speed)


def c_sign(speed: str, width: float) -> str:
    """C expression of `smooth_sign` of a speed."""
    return f"tanh({speed} / {width!r})" if width > 0 else f"(double)(({speed} > 0.0) - ({speed} < 0.0))"


def c_number(value: float) -> str:
    """C text of a number, in parentheses if negative, so that it can be a factor."""
    return repr(float(value)) if value >= 0 else f"({float(value)!r})"


def spring_text(robot: RobotModel, spring: JointSpring) -> str:
    """Description of a spring for messages: joints, stiffness, and position without torque."""
    joints = " + ".join(
        f"'{robot.joint_names[j]}'"
        if spring.weights[j] == 1.0
        else f"{spring.weights[j]:g} '{robot.joint_names[j]}'"
        for j in spring.joints
    )
    unit = "N/m" if all(robot.prismatic[j] for j in spring.joints) else "N m/rad"
    rest = f", zero torque at {spring.rest:.3g} {'m' if unit == 'N/m' else 'rad'}" if spring.stiffness else ""
    return f"{joints} ({spring.stiffness:.3g} {unit}{rest})"


# Data for the automatic choice of the model.

# rad (m): a joint with a smaller range is at rest, where friction or a brake may carry any part of its load.
STANDS = 2e-3
# Place of an effect of the whole robot; other effects have the index of a joint, or of a pair of joints.
EVERYWHERE = -1


class Role(StrEnum):
    """Role of an effect in the automatic choice.

    Attributes
    ----------
    PLAIN
        Compared in every choice.
    ROBOT
        An effect that some robots have.
    FRICTION
        A form of a joint's friction.
    LOG
        An effect of the measurement, not of the robot.
    SHIELD
        Never chosen; it is fitted so that no other effect is chosen in its place.

    """

    PLAIN = "plain"
    ROBOT = "robot"
    FRICTION = "friction"
    LOG = "log"
    SHIELD = "shield"


@dataclass(frozen=True)
class Question:
    """A question of the automatic choice.

    Attributes
    ----------
    name : str
        Key in results.
    without : str
        Answer if no effect is chosen.
    words : str
        Name in messages; "" = `name`.
    certain : bool
        Whether every robot has the effect; the model keeps it if the motion cannot distinguish models with and without.

    """

    name: str
    without: str = "none"
    words: str = ""
    certain: bool = False


FRICTION = Question("friction")


@dataclass(frozen=True)
class FrictionForm:
    """A form of friction that is compared with others per joint.

    Attributes
    ----------
    label : str
        Name in comparisons.
    replaces : tuple of str
        Labels of the plain effects (viscous, coulomb, offset) that it replaces.
    tried : tuple of float
        Shares of the range of its shapes at which the automatic choice evaluates it; () = only forms without shapes
        are evaluated.
    options : mapping
        Options of the term in comparisons.
    both_ways : bool
        Whether it is compared only for joints that moved in both directions.

    """

    label: str
    replaces: tuple[str, ...] = ()
    tried: tuple[float, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    both_ways: bool = False


@dataclass(frozen=True)
class JointMotion:
    """Motion of a joint in a log, from which bounds and start values of shapes are computed.

    Attributes
    ----------
    peak, median : float, rad/s (m/s)
        Maximum and median of abs(dq).
    span : float, rad (m)
        Range of positions.
    reach : float, rad (m)
        Distance before a sample within which its last reversals are known.
    both_ways : bool
        Whether the joint moved in both directions.
    waves : tuple of float or None, rad/rad (rad/m)
        Candidate wave numbers of friction that varies with position; None = not searched.
    warmth : float or None, degC
        Mean temperature of a drive whose temperature was logged and changed; else None.

    """

    peak: float
    median: float
    span: float
    reach: float = REACH
    both_ways: bool = True
    waves: tuple[float, ...] | None = None
    warmth: float | None = None

    @property
    def stands(self) -> bool:
        """Whether the joint was at rest throughout."""
        return self.span < STANDS


# K: smaller changes of temperature are ignored.
LEAST_WARMING = 1.0


def mean_warmth(temperature: Float) -> float | None:
    """Mean temperature in degC of a drive that warmed up, by its temperatures (T,); None where it did not."""
    warmed = bool(np.isfinite(temperature).all()) and np.ptp(temperature) > LEAST_WARMING
    return float(temperature.mean()) if warmed else None


@dataclass(frozen=True, eq=False)
class Extent:
    """Range of motion of a log.

    Attributes
    ----------
    peak : ndarray, shape (n,), rad/s (m/s)
        Maximum of abs(dq).
    low, high : ndarray, shape (n,), rad (m)
        Range of positions.

    """

    peak: Float
    low: Float
    high: Float


@dataclass(frozen=True, eq=False)
class LogFacts:
    """Facts about a log from which terms make their proposals to the automatic choice.

    Attributes
    ----------
    inertia, drives : tuple of float
        Model about which small effects are linearised, see `Nominal`.
    found : mapping of str to float
        Values of such effects from an earlier round, by name of the parameter.
    motion : tuple of JointMotion
        Motion of every joint.
    origin, end : float, s
        First and last time of the log.
    both_sides : bool
        Whether the equations have separate motions of motors and links.
    slowness : float
        Factor on the usual widths of the smoothed sign; below 1 if all joints are slow.

    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    found: Mapping[str, float] = field(default_factory=dict)
    motion: tuple[JointMotion, ...] = ()
    origin: float = 0.0
    end: float | None = None
    both_sides: bool = False
    slowness: float = 1.0


# Panels of several terms.

_NO_COLUMN: Int = np.zeros(0, dtype=np.int64)
Values = TypeVar("Values", Bool, Float)


def split(values: Values, counts: Sequence[int]) -> list[Values]:
    """Split a mask or values (p,) of all parameters into those of the terms, which have `counts` parameters each."""
    return list(np.split(values, np.cumsum(counts)[:-1])) if counts else []


def joined(robot: RobotModel, parts: list[Panels], counts: Sequence[int], samples: Samples) -> Panels:
    """Join the panels of several terms, which have `counts` parameters each, into panels of their sum."""
    first = np.cumsum([0, *counts], dtype=np.int64)[:-1]
    no_line = np.zeros((0, len(samples)))
    return Panels(
        columns=tuple(
            np.concatenate([_NO_COLUMN, *(p.columns[j] + a for p, a in zip(parts, first, strict=True))])
            for j in range(robot.n)
        ),
        values=tuple(np.concatenate([no_line, *(p.values[j] for p in parts)]) for j in range(robot.n)),
    )


def side_by_side(
    robot: RobotModel,
    parts: Iterable[tuple[Callable[[RobotModel, Samples, Bool], Panels], Samples, int]],
    samples: Samples,
    wanted: Bool | None,
    target: Float | None,
    joints: Bool | None = None,
) -> Panels:
    """Evaluate the regressors of several terms and join their columns.

    `parts`: for each term: function that returns its panels, samples as the term receives them, number of its
    parameters; `samples`: motion; `wanted` (p,): parameters that get columns; None = all; `target` (T, n): values that
    each joint's panel gets as its last line; `joints` (n,): joints that get columns; None = all.
    """
    columns: list[list[Int]] = [[] for _ in range(robot.n)]
    values: list[list[Float]] = [[] for _ in range(robot.n)]
    first = 0
    for regressor, seen, count in parts:
        part_wanted = np.ones(count, dtype=np.bool_) if wanted is None else wanted[first : first + count]
        if part_wanted.any():
            part = regressor(robot, seen, part_wanted)
            for joint, index in enumerate(part.columns):
                if len(index) and (joints is None or joints[joint]):
                    columns[joint].append(index + first)
                    values[joint].append(part.values[joint])
        first += count
    for joint in range(robot.n):
        if target is not None:
            values[joint].append(target[None, :, joint])
        elif not values[joint]:
            values[joint].append(np.zeros((0, len(samples))))
    return Panels(
        columns=tuple(np.concatenate([_NO_COLUMN, *c]) for c in columns),
        values=tuple(np.concatenate(v) for v in values),
    )


def empty_panels(robot: RobotModel, samples: Samples) -> Panels:
    """Panels without columns."""
    return panels_of(robot, samples, {})


def panels_of(robot: RobotModel, samples: Samples, lines: Mapping[int, tuple[ArrayLike, Float]]) -> Panels:
    """Panels from the lines of some joints.

    `samples`: motion; its length is that of the lines; `lines`: by joint: indices of the parameters (k,), and their
    values (k, T).
    """
    columns, values = [_NO_COLUMN] * robot.n, [np.zeros((0, len(samples)))] * robot.n
    for joint, (index, line) in lines.items():
        columns[joint], values[joint] = np.array(index, dtype=np.int64), np.ascontiguousarray(line)
    return Panels(tuple(columns), tuple(values))


def mapped_panels(panels: Panels, weights: Float, present: Bool | None = None) -> Panels:
    """Map panels of links or motors to the joints: Y_j = sum_i weights[i, j] Y_i.

    `panels`: panels of m links or motors; `weights` (m, n) in m, m: weight of each panel in each joint's equation;
    `present` (m, n): whether a weight can differ from zero; by default whether it does.
    """
    columns, values = [], []
    T = panels.values[0].shape[1]
    sizes = weights if weights.ndim == 3 else weights[None]
    acting = (sizes != 0).any(axis=0) if present is None else present
    for joint in range(sizes.shape[2]):
        sources = np.flatnonzero(acting[:, joint])
        union = np.unique(np.concatenate([panels.columns[i] for i in sources]))
        total = np.zeros((len(union), T))
        for i in sources:
            total[np.searchsorted(union, panels.columns[i])] += sizes[:, i, joint] * panels.values[i]
        columns.append(union)
        values.append(total)
    return Panels(tuple(columns), tuple(values))
