"""What shapes a motion that is to be designed: the tables of motion.toml and the arguments of `dynid.excite`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any, Literal

from dynid.base.errors import UsageError
from dynid.base.options import check_options, option
from dynid.base.records import dataclass
from dynid.excitation.criteria import Criterion
from dynid.excitation.export import Format

Family = Literal["fourier", "spline", "sweep", "poses", "torque-sines"]
# One number for all joints, or one each.
PerJoint = float | tuple[float, ...]
# m that links keep from one another and from what stands around them: neighbours but one of arms in service have 12.
CLEARANCE = 0.01
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class MotionTable:
    """[motion]: what kind of motion."""

    seconds: float = option(30.0, "length of the motion", unit="s", above=0)
    family: Family = option("fourier", "[family](excitation.md#families) of the motion")
    criterion: str = option("balanced", "what is minimised", choices=tuple(map(str, Criterion)))
    focus: tuple[str, ...] = option(
        (),
        "what alone counts: parameters by name, `torque` (its prediction), `torque:MOTION` (on a plan) or `payload`",
    )
    motions: int = option(1, "motions of `seconds` each, from one pose and back, designed together", least=1)
    start: tuple[float, ...] | None = option(
        None, "pose at both ends, one number a joint; free without it", unit="rad or m"
    )
    harmonics: int | None = option(
        None,
        "of a Fourier motion, without it up to 0.8 Hz, 8 to 16 of them; torque sinusoids a joint, 5 without it",
        least=1,
    )
    frequency: float | None = option(
        None,
        "its first harmonic, without it one period in the motion or, if that is longer, in 20 s; lowest frequency of "
        "torque sinusoids, 0.1 without it",
        unit="Hz",
        above=0,
    )
    pieces: int = option(20, "intervals between the knots of a spline", least=6)
    knots: tuple[float, ...] | None = option(None, "times of its inner knots; uniform without it", unit="s")
    free_knots: int = option(0, "vectors of knots that are tried beside the uniform one", least=0)
    speeds: tuple[float, ...] = option(
        (0.02, 0.05, 0.1, 0.2, 0.4), "of sweeps: shares of each joint's velocity limit"
    )
    joints: tuple[str, ...] = option((), "joints to sweep; all without it")
    poses: int = option(20, "number of static poses", least=1)

    def __post_init__(self) -> None:
        check_options(self, "motion")


@dataclass(frozen=True)
class LimitsTable:
    """[limits]: limits of the joints, and what they keep free."""

    share: float = option(0.95, "share of every joint limit that is used", above=0, most=1)
    velocity: PerJoint | None = option(
        None, "in place of the robot's own; one for all joints, or one each", unit="rad/s or m/s"
    )
    acceleration: PerJoint | None = option(
        None, "likewise; else full velocity within 0.25 s", unit="rad/s^2 or m/s^2"
    )
    jerk: PerJoint | None = option(
        None, "likewise; else full acceleration within 0.05 s", unit="rad/s^3 or m/s^3"
    )
    torque: PerJoint | None = option(None, "in place of the robot's own", unit="N m or N")
    lower: PerJoint | None = option(None, "least positions in place of the robot's own", unit="rad or m")
    upper: PerJoint | None = option(None, "greatest positions in place of the robot's own", unit="rad or m")
    tcp_speed: float | None = option(
        None, "greatest speed of the tool's point; no bound without it", unit="m/s", above=0
    )
    uncertainty: float | None = option(
        None, "share by which torque may exceed the model's; 0.1, or the covariance of a run", least=0
    )
    sigmas: float = option(3.0, "standard deviations of a run's torque that torque limits keep free", least=0)
    noise: PerJoint | None = option(
        None, "expected deviation of the torque; 1 % of the limit, or the run's", unit="N m or N"
    )

    def __post_init__(self) -> None:
        check_options(self, "limits")


@dataclass(frozen=True)
class SolidTable:
    """[[tool.solids]]: one of `box`, `sphere`, `cylinder`, `mesh`, and where it is in the last joint's frame."""

    box: Triple | None = option(None, "full sides", unit="m", above=0)
    sphere: float | None = option(None, "radius", unit="m", above=0)
    cylinder: tuple[float, float] | None = option(None, "radius and length along z", unit="m", above=0)
    mesh: str | None = option(None, "file beside the plan, STL or OBJ")
    scale: float = option(1.0, "of the mesh: 0.001 where it is in millimetres", above=0)
    xyz: Triple = option((0.0, 0.0, 0.0), "origin of its frame", unit="m")
    rpy: Triple = option((0.0, 0.0, 0.0), "roll, pitch and yaw of its frame", unit="rad")

    def __post_init__(self) -> None:
        check_options(self, "tool.solids")
        given = [one for one in ("box", "sphere", "cylinder", "mesh") if getattr(self, one) is not None]
        if len(given) != 1:
            raise UsageError(
                "tool-solid",
                found=" and ".join(given) or "none",
                expected="one of box, sphere, cylinder, mesh",
            )


@dataclass(frozen=True)
class ObstacleTable:
    """[[surroundings.obstacles]]: a box in the way, in the frame of the base."""

    size: Triple = option((1.0, 1.0, 1.0), "full sides", unit="m", above=0)
    xyz: Triple = option((0.0, 0.0, 0.0), "its middle", unit="m")
    rpy: Triple = option((0.0, 0.0, 0.0), "roll, pitch and yaw of its sides", unit="rad")
    label: str = option("", "what it is called in the output; its number without it")

    def __post_init__(self) -> None:
        check_options(self, "surroundings.obstacles")


@dataclass(frozen=True)
class SurroundingsTable:
    """[surroundings]: what the arm must not touch, in the frame of its base."""

    clearance: float = option(
        CLEARANCE, "distance that links keep from one another and from the surroundings", unit="m", least=0
    )
    floor: float | None = option(None, "height that everything stays above", unit="m")
    box: tuple[float, float, float, float, float, float] | None = option(
        None, "walls of the room that everything stays in: x0, y0, z0, x1, y1, z1", unit="m"
    )
    planes: tuple[tuple[float, float, float, float], ...] = option(
        (), "nx, ny, nz, d each: everything keeps nx x + ny y + nz z <= d", unit="m"
    )
    obstacles: tuple[ObstacleTable, ...] = option(
        (), "see `[[surroundings.obstacles]]`", kind="a list of tables"
    )

    def __post_init__(self) -> None:
        check_options(self, "surroundings")


@dataclass(frozen=True)
class ToolTable:
    """[tool]: what the last joint carries beside its own links, in its frame."""

    point: Triple | None = option(None, "the tool's point; the origin of the frame without it", unit="m")
    payload: float = option(
        0.0, "point mass at that point, which torque limits must bear", unit="kg", least=0
    )
    solids: tuple[SolidTable, ...] = option((), "see `[[tool.solids]]`", kind="a list of tables")

    def __post_init__(self) -> None:
        check_options(self, "tool")


@dataclass(frozen=True)
class ShapesTable:
    """[shapes]: the links' shapes, where the description's own are not to be used."""

    radius: PerJoint | None = option(
        None,
        "of capsules from joint to joint in place of the robot's own shapes, one or one a body",
        unit="m",
    )


@dataclass(frozen=True)
class KnownTable:
    """[known]: what is known of the robot beside its description; paths are those beside the plan file."""

    experiment: str | None = option(None, "experiment.toml whose [model] and [robot] are used")
    run: str | None = option(None, "run folder of the current model, for torque limits")
    after: str | None = option(None, "the same, and what it recorded counts: what to record next")


@dataclass(frozen=True)
class SearchTable:
    """[search]: how long the motion is searched for."""

    starts: int = option(4, "drawn motions that are optimised", least=1)
    iterations: int = option(80, "most iterations of each", least=1)
    seed: int = option(0, "of the drawn motions", least=0)
    workers: int | None = option(
        None, "processes; all processors without it; the motion does not depend on it", least=1
    )

    def __post_init__(self) -> None:
        check_options(self, "search")


@dataclass(frozen=True)
class OutputTable:
    """[output]: the files of the motion."""

    formats: tuple[str, ...] = option(
        ("csv",), "forms that controllers read", choices=tuple(map(str, Format))
    )
    rate: float = option(
        100.0,
        "of the written motion (`libfranka` and `kuka_fri`: always 1000, `kuka_rsi`: 250)",
        unit="Hz",
        above=0,
    )
    stages: tuple[float, ...] = option(
        (0.25, 0.5, 1.0), "shares of the speed at which the motion is written", above=0, most=1
    )

    def __post_init__(self) -> None:
        check_options(self, "output")


@dataclass(frozen=True)
class MotionSettings:
    """Everything that shapes a motion; the same defaults from motion.toml, command line and Python."""

    motion: MotionTable = field(default_factory=MotionTable)
    limits: LimitsTable = field(default_factory=LimitsTable)
    surroundings: SurroundingsTable = field(default_factory=SurroundingsTable)
    tool: ToolTable = field(default_factory=ToolTable)
    shapes: ShapesTable = field(default_factory=ShapesTable)
    known: KnownTable = field(default_factory=KnownTable)
    search: SearchTable = field(default_factory=SearchTable)
    output: OutputTable = field(default_factory=OutputTable)

    def plain(self) -> dict[str, dict[str, Any]]:
        """What differs from the defaults, table by table, as TOML can hold it."""
        found: dict[str, dict[str, Any]] = {}
        for table in fields(self):
            own, usual = getattr(self, table.name), getattr(MotionSettings(), table.name)
            values = {
                one.name: _plain(getattr(own, one.name))
                for one in fields(own)
                if getattr(own, one.name) != getattr(usual, one.name)
            }
            if values:
                found[table.name] = values
        return found


# What `dynid excite` took as an option of its own before it took a plan file, and the key that took its place.
REMOVED_OPTIONS: Mapping[str, str] = {
    "--criterion": "motion.criterion", "--focus": "motion.focus", "--family": "motion.family",
    "--motions": "motion.motions", "--speeds": "motion.speeds", "--joint": "motion.joints", "--poses": "motion.poses",
    "--harmonics": "motion.harmonics", "--frequency": "motion.frequency", "--pieces": "motion.pieces",
    "--knots": "motion.knots", "--free-knots": "motion.free_knots", "--start": "motion.start",
    "--share": "limits.share", "--velocity": "limits.velocity", "--acceleration": "limits.acceleration",
    "--jerk": "limits.jerk", "--torque": "limits.torque", "--lower": "limits.lower", "--upper": "limits.upper",
    "--uncertainty": "limits.uncertainty", "--sigmas": "limits.sigmas", "--noise": "limits.noise",
    "--box": "surroundings.box", "--plane": "surroundings.planes", "--clearance": "surroundings.clearance",
    "--tool": "tool.point", "--payload": "tool.payload", "--radius": "shapes.radius", "--rate": "output.rate",
    "--starts": "search.starts", "--iterations": "search.iterations", "--seed": "search.seed",
    "--workers": "search.workers", "--shapes": "",
}  # fmt: skip


def _plain(value: Any) -> Any:
    if isinstance(value, SolidTable | ObstacleTable):
        return {
            one.name: _plain(getattr(value, one.name))
            for one in fields(value)
            if getattr(value, one.name) != one.default
        }
    return [_plain(one) for one in value] if isinstance(value, tuple) else value
