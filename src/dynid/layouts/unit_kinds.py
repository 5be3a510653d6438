"""Kinds of joints and the units of their positions and velocities, and which fit the joints' limits."""

from __future__ import annotations

import numpy as np

from dynid.base.arrays import Bool, Float
from dynid.base.errors import NOWHERE
from dynid.base.records import dataclass
from dynid.base.units import factor
from dynid.log.calibration import PERCENT
from dynid.log.joint_limits import BESIDE, BEYOND
from dynid.robot.model import RobotModel

POSITIONS, VELOCITIES = ("rad", "deg"), ("rad/s", "deg/s", "rpm")
# With those that so few logs use that nothing but a name or an answer speaks for them.
_SMALL = ("arcmin", "arcsec")
TURN = "turn"
ANGLES = (*POSITIONS, "mrad", TURN, *_SMALL)
SPEEDS = (*VELOCITIES, "mrad/s", "turn/s", *(f"{one}/s" for one in _SMALL))
# A motion that is to show gravity spans this much on some joint, rad; a joint without limits at most two turns.
MOVED, TURNS = 0.1, 4 * np.pi
# Of slides, m. What fits as m is taken to be m where nothing else speaks: as inches it would be a 39th of that motion,
# and robots that are logged to be identified move by more than a 39th of their range.
SLID = 0.005


@dataclass(frozen=True)
class Kind:
    """Units of joints that turn, or of a robot whose joints all slide.

    length, speed: what they are units of.    positions, velocities: those that a log is looked at for; all_positions,
    all_velocities: with those of names and answers.    moved: what a motion spans at least, rad or m.
    """

    length: str
    speed: str
    positions: tuple[str, ...]
    velocities: tuple[str, ...]
    all_positions: tuple[str, ...]
    all_velocities: tuple[str, ...]
    moved: float
    slides: bool

    @property
    def neither(self) -> str:
        """That no unit fits."""
        return f"neither {' nor '.join(self.positions)} fits the limits"


_TURNING = Kind("angle", "angular velocity", POSITIONS, VELOCITIES, ANGLES, SPEEDS, MOVED, False)
LENGTHS, SLIDE_SPEEDS = ("m", "mm", "cm", "in"), ("m/s", "mm/s", "cm/s", "in/s")
SLIDING = Kind("length", "velocity", *2 * (LENGTHS, SLIDE_SPEEDS), SLID, True)


def kind_of(robot: RobotModel) -> Kind:
    """Units of angle where a joint turns: those of slides beside it are found by their own columns."""
    return SLIDING if all(robot.prismatic) else _TURNING


def si(unit: str, quantity: str) -> float:
    """Factor of a unit to SI.    A percent of a motor's range is about a degree: ranges are about 200 degrees."""
    if unit == PERCENT:
        unit = "deg"
    return factor(unit, (quantity,), NOWHERE)[1]


def in_range(robot: RobotModel, span: Float, unit: str) -> bool:
    """Whether joints that move by spans (n,) in a unit stay within their limits, and do not hardly move."""
    kind = kind_of(robot)
    counted = np.array(robot.prismatic) == kind.slides
    moved = si(unit, kind.length) * span[counted]
    return bool((moved <= room(robot)[counted]).all() and moved.max(initial=0.0) >= kind.moved)


def room(robot: RobotModel) -> Float:
    """How far joints (n,) can move within their limits, rad or m; two turns where they have none."""
    free = robot.limits.upper - robot.limits.lower
    return np.asarray(np.where(np.isfinite(free), (1 + BEYOND) * free + BESIDE, TURNS))


def units_within_limits(robot: RobotModel, span: Float) -> tuple[str, ...]:
    """Units in which joints move by spans (n,) as their limits let them, and not by too little.

    Of angle, where only joints that turn are looked at, or of length where all slide.
    """
    return tuple(u for u in kind_of(robot).positions if in_range(robot, span, u))


def stays_within_limits(robot: RobotModel, span: Float, unit: str) -> Bool:
    """Joints (n,) whose spans fit their limits in a unit of angle, those of slides beside them in metres."""
    kind = kind_of(robot)
    scale = si(unit, kind.length) if kind.slides else np.where(robot.prismatic, 1.0, si(unit, kind.length))
    return np.asarray(scale * span <= room(robot))


def widest(q: Float) -> float:
    """The greatest of the spans of columns (T, n)."""
    with np.errstate(invalid="ignore"):
        span = np.nanmax(q, axis=0, initial=-np.inf) - np.nanmin(q, axis=0, initial=np.inf)
    return float(np.max(span, initial=0.0))
