"""What a term says for the choice of the model and for exports, and panels of several terms."""

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

# A column of the regressor: one parameter, what it belongs to, and how readers write it.


class Of(StrEnum):
    """What a parameter belongs to."""

    JOINT = "joint"
    BODY = "body"
    ROBOT = "robot"


@dataclass(frozen=True)
class Symbol:
    """A parameter as a reader writes it: a letter with an index, and what it stands for.

    name: of the parameter without its number, "fv" of fv3.
    """

    name: str
    letter: str
    index: str
    words: str


@dataclass(frozen=True)
class Column:
    """One parameter of a term: one column of the regressor.

    name: unique within a model, e.g. "Izz3" or "fv2" (numbers count bodies or joints from 1).
    unit: of the parameter.    term: name of the term.    owner: index of the body or joint it belongs to.
    prior: value from the description, nan = unknown.    lower, upper: physical bounds; both zero = not there at all.
    of: whether it belongs to a joint, a body (then one of ten inertial parameters) or the whole robot.
    moved_by: indices of joints one of which has to move so that a log can determine it; () = it needs no motion.
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
        """Whether the parameter is known to be zero, as those of a body without mass are."""
        return self.lower == self.upper == 0.0


class Side(StrEnum):
    """On which side of the transmission a term acts: the link's, the motor's, or both."""

    LINK = "link"
    MOTOR = "motor"
    BOTH = "both"


class Scale(StrEnum):
    """What a term does to the size of all torques: nothing, it leaves it open, or it fixes it."""

    KEEPS = "keeps"
    FREES = "frees"
    FIXES = "fixes"


class Kind(StrEnum):
    """What the parameters of a term are to programs that treat some of them apart.

    BODIES: the ten inertial parameters of each body, in order.    ROTORS: rotor inertias as the joints see them.
    COMPENSATION: none, but known friction, so that friction estimated beside it may have either sign.
    LOG: of the log or its load, and not of the robot.    EFFECT: any other.
    """

    EFFECT = "effect"
    BODIES = "bodies"
    ROTORS = "rotors"
    FRICTION = "friction"
    COMPENSATION = "compensation"
    LOG = "log"


class Reads(Flag):
    """What a term reads besides each sample: the motion before (`Samples.past`), or rates along time."""

    SAMPLE = 0
    PAST = 1
    RATE = 2


class Dry(StrEnum):
    """Whether a term is dry friction: with a step at rest, or one that grows with the torque of the bodies."""

    NO = "no"
    STEP = "step"
    LOAD = "load"


# What programs without dynid can hold of an effect: torque that is a line in the motion, and its text in C.


class MotionBasis(Enum):
    """What a torque is made of, x = weights . (dq or ddq)."""

    SPEED = "dq"
    SIGN = "s(dq)"
    ACCELERATION = "ddq"
    ONE = "1"

    def slope(self, values: Float, width: float) -> tuple[int, Float | float] | None:
        """Derivative of a line with respect to one joint's motion; None where it depends on none.

        values: of the line itself.    width: of the sign, 0 = plain.
        Returns which of q, dq, ddq (0, 1, 2) it depends on, and the derivative.
        """
        if self is MotionBasis.SIGN:
            return (1, (1.0 - values**2) / width) if width > 0 else None
        places = {MotionBasis.SPEED: 1, MotionBasis.ACCELERATION: 2}
        return (places[self], 1.0) if self in places else None


@dataclass(frozen=True)
class Traits:
    """What a term is to programs that use it: data that they ask for in place of its class.

    side: where it acts. A term on the motor's side is given the motors' reflected motion in place of the links' where
    both were measured; with one encoder the two are the same.
    basis: of a term that acts joint by joint: the motion that its torque is a line in, None = another.
    linearised: whether it is linear about a model known beforehand.
    passive: whether a parameter that is negative beyond doubt is a mistake of the input.
    either_side: whether it may sit at the motors as well as at the joints.
    hides_wiring: whether it could take up exchanged joints or a wrong sign.
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
    """What an equation needs of a term: its parameters, and the columns of Y in tau = Y theta."""

    traits: ClassVar[Traits]

    @property
    def name(self) -> str:
        """Of the term in experiments and run folders."""
        ...

    def columns(self, robot: RobotModel) -> tuple[Column, ...]:
        """The parameters that the term adds for a robot."""
        ...

    def torque_regressor(self, robot: RobotModel, samples: Samples, wanted: Bool) -> Panels:
        """The wanted columns of Y by joint; indices count within the term."""
        ...


class Part:
    """A piece of an exported model; subclasses are frozen dataclasses."""


@dataclass(frozen=True)
class OnJoint(Part):
    """Torque of one parameter on one joint, from its own motion: tau_j = value basis(dq_j or ddq_j).

    width: of the sign, rad/s or m/s, 0 = plain.
    """

    joint: int
    value: float
    basis: MotionBasis
    width: float = 0.0


@dataclass(frozen=True)
class Memory(Part):
    """The distance over which a joint's Coulomb friction builds up, rad (m)."""

    joint: int
    distance: float


@dataclass(frozen=True, eq=False)
class ZeroShift(Part):
    """What the joints' positions (n,) are above the logged ones, rad (m); robots have it in their joints' origins."""

    positions: Float

    def __post_init__(self) -> None:
        object.__setattr__(self, "positions", locked(self.positions, (None,), "zeros"))


@dataclass(frozen=True)
class LeftOut(Part):
    """What no program without dynid can hold of a term whose other parts it can, in words."""

    what: str


@dataclass(frozen=True, eq=False)
class Mixed(Part):
    """Torque of one parameter on all joints: tau = out value basis(weights . dq), with ddq for accelerations.

    term: its name.    out, weights: (n,).    width: of the sign, rad/s or m/s, 0 = plain.
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
        """(T, n) of motion (T, n)."""
        line = (ddq if self.basis is MotionBasis.ACCELERATION else dq) @ self.weights
        if self.basis is MotionBasis.SIGN:
            line = smooth_sign(line, self.width)
        if self.basis is MotionBasis.ONE:
            line = np.ones(len(dq))
        return np.asarray(self.value * np.outer(line, self.out))


@dataclass(frozen=True, eq=False)
class JointSpring(Part):
    """A spring over a joint, or the sum of several: tau = weights (stiffness a + preload), a = weights . q.

    term: name of the term.    weights: (n,).    stiffness: N m/rad (N/m).    preload: N m (N) at a = 0.
    """

    term: str
    weights: Float
    stiffness: float
    preload: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", locked(self.weights, (None,), "weights"))

    @property
    def joints(self) -> tuple[int, ...]:
        """The joints that it spans."""
        return tuple(np.flatnonzero(self.weights).tolist())

    @property
    def rest(self) -> float:
        """The a without torque, rad (m); the stiffness must not be zero."""
        return -self.preload / self.stiffness

    def torque(self, q: Float) -> Float:
        """(T, n) at positions (T, n)."""
        return np.outer(self.stiffness * (q @ self.weights) + self.preload, self.weights)

    def energy(self, q: Float) -> Float:
        """Stored energy (T,), J, zero at a = 0."""
        a = q @ self.weights
        return np.asarray((0.5 * self.stiffness * a + self.preload) * a)


def spring_torque(springs: Sequence[JointSpring], q: Float) -> Float:
    """Torque of all springs, (T, n)."""
    return sum((one.torque(q) for one in springs), np.zeros_like(q))


def spring_slopes(springs: Sequence[JointSpring], n: int) -> Float:
    """Derivative (n, n) of their torque by the positions."""
    return sum((one.stiffness * np.outer(one.weights, one.weights) for one in springs), np.zeros((n, n)))


def mixed_torque(parts: Sequence[Mixed], bases: Sequence[MotionBasis], dq: Float, ddq: Float) -> Float:
    """Sum over the parts with some bases, (T, n)."""
    return sum((part.torque(dq, ddq) for part in parts if part.basis in bases), np.zeros_like(dq))


def smooth_sign(speed: Float, width: float) -> Float:
    """tanh(speed / width), or the plain sign for a width of 0."""
    return np.tanh(speed / width) if width > 0 else np.sign(speed)


def c_sign(speed: str, width: float) -> str:
    """The smoothed sign of a speed in C, or the plain one for a width of 0."""
    return f"tanh({speed} / {width!r})" if width > 0 else f"(double)(({speed} > 0.0) - ({speed} < 0.0))"


def c_number(value: float) -> str:
    """A number as a factor in C."""
    return repr(float(value)) if value >= 0 else f"({float(value)!r})"


def spring_text(robot: RobotModel, one: JointSpring) -> str:
    """A spring in words: the joints that it spans, its stiffness, and where it is at rest."""
    joints = " + ".join(
        f"'{robot.joint_names[j]}'"
        if one.weights[j] == 1.0
        else f"{one.weights[j]:g} '{robot.joint_names[j]}'"
        for j in one.joints
    )
    unit = "N/m" if all(robot.prismatic[j] for j in one.joints) else "N m/rad"
    rest = f", at rest at {one.rest:.3g} {'m' if unit == 'N/m' else 'rad'}" if one.stiffness else ""
    return f"{joints} ({one.stiffness:.3g} {unit}{rest})"


# What an effect is to the automatic choice, and what a log says before effects are tried on it.

# rad or m: a joint that goes less far stands, and friction or a brake may hold any part of its load.
STANDS = 2e-3
# The place of an effect of the whole robot; others have the index of a joint, or of a pair of joints.
EVERYWHERE = -1


class Role(StrEnum):
    """What an effect is to the automatic choice.

    PLAIN: on trial in every comparison.    ROBOT: some robots have it.    FRICTION: a form of a joint's friction.
    LOG: of the measurement rather than the robot.    SHIELD: never chosen, but nothing else may stand for it.
    """

    PLAIN = "plain"
    ROBOT = "robot"
    FRICTION = "friction"
    LOG = "log"
    SHIELD = "shield"


@dataclass(frozen=True)
class Question:
    """A question of the automatic choice.    without: its answer where no effect is chosen.    words: for messages.

    certain: whether every robot has the effect, so that it stays where the motion cannot tell models with and without.
    """

    name: str
    without: str = "none"
    words: str = ""
    certain: bool = False


FRICTION = Question("friction")


@dataclass(frozen=True)
class FrictionForm:
    """A form of friction among those that are compared joint by joint.

    label: its name there.    replaces: labels of the plain effects in whose place it stands.
    tried: shares of its shapes' range, on the shapes' own scale, at which the automatic choice tries it first;
    () = it tries a form without shapes as it is, and none with shapes.
    options: of the term.    both_ways: as of proposals.
    """

    label: str
    replaces: tuple[str, ...] = ()
    tried: tuple[float, ...] = ()
    options: Mapping[str, object] = field(default_factory=dict)
    both_ways: bool = False


@dataclass(frozen=True)
class JointMotion:
    """How a joint moved in a log: where bounds and starts of shapes come from.

    peak, median: of |dq|, rad/s (m/s).    span: greatest minus least position, rad (m).
    reach: distance over which samples know where it turned round, rad (m).    both_ways: whether it moved either way.
    waves: in which its dry friction seems to vary with its position, rad of a wave a rad (m); None = not looked for.
    """

    peak: float
    median: float
    span: float
    reach: float = REACH
    both_ways: bool = True
    waves: tuple[float, ...] | None = None

    @property
    def stands(self) -> bool:
        """Whether the joint never moved."""
        return self.span < STANDS


@dataclass(frozen=True, eq=False)
class Extent:
    """How fast and how far joints went in a log: |dq| at most, (n,) rad/s (m/s), and positions from and to, rad (m)."""

    peak: Float
    low: Float
    high: Float


@dataclass(frozen=True, eq=False)
class LogFacts:
    """What a log says before effects are tried on it.

    inertia, drives: of the model that small effects are linearised about, see Nominal.
    found: values of such effects found so far, by name.    motion: of every joint.    origin, end: its beginning
    and end on its clock, s.
    both_sides: whether the equations hold the motion of motors and links apart.
    slowness: share of the usual widths of friction's sign that it has where all joints are slow.
    """

    inertia: tuple[float, ...] = ()
    drives: tuple[float, ...] = ()
    found: Mapping[str, float] = field(default_factory=dict)
    motion: tuple[JointMotion, ...] = ()
    origin: float = 0.0
    end: float | None = None
    both_sides: bool = False
    slowness: float = 1.0


# Panels of several terms side by side.

_NO_COLUMN: Int = np.zeros(0, dtype=np.int64)
Values = TypeVar("Values", Bool, Float)


def split(values: Values, counts: Sequence[int]) -> list[Values]:
    """The part (p_i,) of a mask or of values (p,) that belongs to each of several terms with p_i parameters."""
    return list(np.split(values, np.cumsum(counts)[:-1])) if counts else []


def joined(robot: RobotModel, parts: list[Panels], counts: Sequence[int], samples: Samples) -> Panels:
    """Panels of several terms with `counts` parameters as those of one."""
    first = np.cumsum([0, *counts], dtype=np.int64)[:-1]
    nothing, none = np.zeros((0, len(samples))), np.zeros(0, dtype=np.int64)
    return Panels(
        columns=tuple(
            np.concatenate([none, *(p.columns[j] + a for p, a in zip(parts, first, strict=True))])
            for j in range(robot.n)
        ),
        values=tuple(np.concatenate([nothing, *(p.values[j] for p in parts)]) for j in range(robot.n)),
    )


def side_by_side(
    robot: RobotModel,
    parts: Iterable[tuple[Callable[[RobotModel, Samples, Bool], Panels], Samples, int]],
    samples: Samples,
    wanted: Bool | None,
    target: Float | None,
    joints: Bool | None = None,
) -> Panels:
    """Regressors of several terms side by side: functions, what each is shown, and how many parameters it has.

    wanted: (p,) of all, None = every one.    target: (T, n), appended to each joint's panel as its last line.
    joints: (n,) that get columns, None = all.
    """
    columns: list[list[Int]] = [[] for _ in range(robot.n)]
    values: list[list[Float]] = [[] for _ in range(robot.n)]
    first = 0
    for regressor, seen, count in parts:
        part_wanted = np.ones(count, dtype=np.bool_) if wanted is None else wanted[first : first + count]
        if part_wanted.any():
            part = regressor(robot, seen, part_wanted)
            for joint, own in enumerate(part.columns):
                if len(own) and (joints is None or joints[joint]):
                    columns[joint].append(own + first)
                    values[joint].append(part.values[joint])
        first += count
    for joint in range(robot.n):
        if target is not None:
            values[joint].append(target[None, :, joint])
        elif not values[joint]:
            values[joint].append(np.zeros((0, len(samples))))
    return Panels(
        columns=tuple(np.concatenate([np.zeros(0, dtype=np.int64), *c]) for c in columns),
        values=tuple(np.concatenate(v) for v in values),
    )


def empty_panels(robot: RobotModel, samples: Samples) -> Panels:
    """Panels without a column."""
    return panels_of(robot, samples, {})


def panels_of(robot: RobotModel, samples: Samples, lines: Mapping[int, tuple[ArrayLike, Float]]) -> Panels:
    """Panels with lines on some joints: by joint, the columns (k,) and values (k, T)."""
    columns, values = [_NO_COLUMN] * robot.n, [np.zeros((0, len(samples)))] * robot.n
    for joint, (index, own) in lines.items():
        columns[joint], values[joint] = np.array(index, dtype=np.int64), np.ascontiguousarray(own)
    return Panels(tuple(columns), tuple(values))
