"""Settings of a motion design: the tables of motion.toml and the arguments of `dynid.excite`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import field, fields, replace
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import numpy as np
from pydantic import create_model

from dynid.base import (
    Float,
    Lines,
    ResourceError,
    Strict,
    UsageError,
    check_options,
    dataclass,
    key,
    model_of,
    option,
    options_of,
    read_toml,
    remove,
    validate,
    words_of,
)
from dynid.excitation.design import Criterion
from dynid.excitation.formats import FORMATS
from dynid.excitation.formats.motion import Motion, MotionFormat, check_fit
from dynid.trajectories import Trajectory

# Planned motions as files, in the formats of controllers and programs.


class Format(StrEnum):
    """File formats of a motion; `excitation/formats` writes them.

    CSV, PARQUET: t, q_<joint>, dq_<joint>, ddq_<joint>, at any rate.
    ROS2: trajectory_msgs/JointTrajectory as YAML.    ROSBAG2: the same in a bag, with joint states and a launch file.
    ROS2_CONTROL: a goal of joint_trajectory_controller.
    URSCRIPT: movej to the start, then servoj (six joints).
    MOVEJ: URScript with a chain of timed movej instead of servoj; straight moves exactly, others through way points.
    LIBFRANKA: rows t, q, dq, ddq without a header, 1 kHz.
    KUKA_RSI: telegrams of axis corrections, 4 ms (six joints).    KUKA_FRI: rows of positions, 1 kHz (seven joints).
    LEROBOT: a data set of one episode.    MUJOCO: ctrl of position actuators.
    """

    CSV = "csv"
    PARQUET = "parquet"
    ROS2 = "ros2"
    ROSBAG2 = "rosbag2"
    ROS2_CONTROL = "ros2_control"
    URSCRIPT = "urscript"
    MOVEJ = "movej"
    LIBFRANKA = "libfranka"
    KUKA_RSI = "kuka_rsi"
    KUKA_FRI = "kuka_fri"
    LEROBOT = "lerobot"
    MUJOCO = "mujoco"

    @property
    def writer(self) -> MotionFormat:
        """The writer of the format."""
        return FORMATS[self.value]

    def check(self, joint_names: Sequence[str], torque: bool = False) -> None:
        """Raise UsageError for an arm, or commanded torque, that it cannot store."""
        check_fit(self.value, self.writer, joint_names, torque)


FILES = {form: form.writer.name for form in Format}
# Most rows of a written motion, which bound the size of its files.
LARGEST = 10_000_000


def times(duration: float, rate: float) -> Float:
    """Times 0, 1/rate, ... to the end of the motion, (T,).

    Raises UsageError for a rate that is not positive, or for more than LARGEST rows.
    """
    if not (np.isfinite(rate) and rate > 0 and duration * rate <= LARGEST):
        raise UsageError(
            "rate", found=f"{rate} Hz for {duration:g} s", expected=f"a rate > 0, and up to {LARGEST} rows"
        )
    return np.arange(math.ceil(duration * rate - 1e-9) + 1) / rate


def write_motion(
    folder: str | Path,
    joint_names: Sequence[str],
    trajectory: Trajectory,
    form: Format,
    rate: float = 100.0,
    suffix: str = "",
    headline: str = "",
) -> Path:
    """Write a motion in one format into a folder.

    Parameters
    ----------
    folder : str or Path
        The folder.
    joint_names : sequence of str
        Names of the joints.
    trajectory : Trajectory
        The motion.
    form : Format
        The format.
    rate : float, Hz
        Sample rate, for formats that do not fix it.
    suffix : str
        Added to the name, before its ending.
    headline : str
        What could not be checked; it becomes the first line.

    Returns
    -------
    Path
        The file, or folder.

    Raises
    ------
    UsageError
        For a rate out of range, or an arm that the format cannot store.
    ResourceError
        If it cannot be written.

    """
    writer = form.writer
    form.check(joint_names)
    t = times(trajectory.duration, writer.rate or rate)
    name = Path(writer.name)
    path = Path(folder) / f"{name.stem}{suffix}{name.suffix}"
    motion = Motion(tuple(joint_names), t, *trajectory.motion(t), trajectory, headline)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Bags contain their own name, so the files are written under it in a scratch folder and then moved.
        with TemporaryDirectory(dir=path.parent, prefix=".motion-") as scratch:
            writer.write(motion, Path(scratch) / path.name)
            for made in sorted(Path(scratch).iterdir()):
                _move(made, path.parent / made.name)
    except OSError as error:
        raise ResourceError(
            "cannot-write", found=f"'{path}': {error.strerror}", expected="a folder that can be written"
        ) from error
    return path


def _move(made: Path, place: Path) -> None:
    if place.is_dir():
        remove(place)
    made.replace(place)


Family = Literal["fourier", "spline", "sweep", "poses", "torque-sines"]
# One number for all joints, or one per joint.
PerJoint = float | tuple[float, ...]
# m: default clearance. Next but one links of arms in service can be 12 mm apart.
CLEARANCE = 0.01
Triple = tuple[float, float, float]


@dataclass(frozen=True)
class MotionTable:
    """[motion]: kind of motion."""

    seconds: float = option(30.0, "length of the motion", unit="s", above=0)
    family: Family = option("fourier", "[family](excitation.md#families) of the motion")
    criterion: str = option("balanced", "criterion to minimise", choices=tuple(map(str, Criterion)))
    focus: tuple[str, ...] = option(
        (),
        "only these quantities count: parameters by name, `torque` (its prediction), `torque:MOTION` (along a plan) "
        "or `payload`",
    )
    motions: int = option(
        1, "number of motions of `seconds` each, designed together, from one pose and back", least=1
    )
    start: tuple[float, ...] | None = option(
        None, "pose at start and end, one number per joint; free without it", unit="rad or m"
    )
    harmonics: int | None = option(
        None,
        "harmonics of a Fourier motion (without it: up to 0.8 Hz, 8 to 16 of them), or sinusoids per joint of "
        "`torque-sines` (without it: 5)",
        least=1,
    )
    frequency: float | None = option(
        None,
        "first harmonic of a Fourier motion (without it: one period in the motion, of at most 20 s), or lowest "
        "frequency of `torque-sines` (without it: 0.1)",
        unit="Hz",
        above=0,
    )
    pieces: int = option(20, "number of intervals between the knots of a spline", least=6)
    knots: tuple[float, ...] | None = option(
        None, "times of the inner knots of a spline; uniform without it", unit="s"
    )
    free_knots: int = option(
        0, "number of random knot vectors to try in addition to the uniform one", least=0
    )
    speeds: tuple[float, ...] = option(
        (0.02, 0.05, 0.1, 0.2, 0.4), "speeds of sweeps, as shares of each joint's velocity limit"
    )
    joints: tuple[str, ...] = option((), "joints to sweep; all without it")
    poses: int = option(20, "number of static poses", least=1)

    def __post_init__(self) -> None:
        check_options(self, "motion")


@dataclass(frozen=True)
class LimitsTable:
    """[limits]: limits of the joints, and their reserve."""

    share: float = option(0.95, "share of every joint limit that the motion may use", above=0, most=1)
    velocity: PerJoint | None = option(
        None, "velocity limits in place of the robot's; one number, or one per joint", unit="rad/s or m/s"
    )
    acceleration: PerJoint | None = option(
        None,
        "acceleration limits; without them full velocity is reached within 0.25 s",
        unit="rad/s^2 or m/s^2",
    )
    jerk: PerJoint | None = option(
        None, "jerk limits; without them full acceleration is reached within 0.05 s", unit="rad/s^3 or m/s^3"
    )
    torque: PerJoint | None = option(None, "torque limits in place of the robot's", unit="N m or N")
    lower: PerJoint | None = option(None, "lower position limits in place of the robot's", unit="rad or m")
    upper: PerJoint | None = option(None, "upper position limits in place of the robot's", unit="rad or m")
    tcp_speed: float | None = option(
        None, "highest speed of the tool point; no limit without it", unit="m/s", above=0
    )
    uncertainty: float | None = option(
        None,
        "relative torque error that the limits allow for; without it 0.1, or the covariance of a run",
        least=0,
    )
    sigmas: float = option(
        3.0, "torque reserve, in standard deviations of the torque that a run predicts", least=0
    )
    noise: PerJoint | None = option(
        None,
        "expected torque noise; without it 1 % of the limit, or the residual of the run",
        unit="N m or N",
    )

    def __post_init__(self) -> None:
        check_options(self, "limits")


@dataclass(frozen=True)
class SolidTable:
    """[[tool.solids]]: one of `box`, `sphere`, `cylinder`, `mesh`, and its place in the last joint's frame."""

    box: Triple | None = option(None, "full side lengths", unit="m", above=0)
    sphere: float | None = option(None, "radius", unit="m", above=0)
    cylinder: tuple[float, float] | None = option(None, "radius and length along z", unit="m", above=0)
    mesh: str | None = option(None, "STL or OBJ file, relative to the plan file")
    scale: float = option(1.0, "scale of the mesh: 0.001 for millimetres", above=0)
    xyz: Triple = option((0.0, 0.0, 0.0), "origin of its frame", unit="m")
    rpy: Triple = option((0.0, 0.0, 0.0), "roll, pitch and yaw of its frame", unit="rad")

    def __post_init__(self) -> None:
        check_options(self, "tool.solids")
        given = [kind for kind in ("box", "sphere", "cylinder", "mesh") if getattr(self, kind) is not None]
        if len(given) != 1:
            raise UsageError(
                "tool-solid",
                found=" and ".join(given) or "a solid without a shape",
                expected="one of box, sphere, cylinder, mesh",
            )


@dataclass(frozen=True)
class ObstacleTable:
    """[[surroundings.obstacles]]: a box-shaped obstacle, in the frame of the base."""

    size: Triple = option((1.0, 1.0, 1.0), "full side lengths", unit="m", above=0)
    xyz: Triple = option((0.0, 0.0, 0.0), "position of its centre", unit="m")
    rpy: Triple = option((0.0, 0.0, 0.0), "roll, pitch and yaw of the box", unit="rad")
    label: str = option("", "name in the output; its number without it")

    def __post_init__(self) -> None:
        check_options(self, "surroundings.obstacles")


@dataclass(frozen=True)
class SurroundingsTable:
    """[surroundings]: obstacles and walls around the arm, in the frame of its base."""

    clearance: float = option(
        CLEARANCE, "minimum distance between links, and from links to the surroundings", unit="m", least=0
    )
    floor: float | None = option(None, "height of the floor", unit="m")
    box: tuple[float, float, float, float, float, float] | None = option(
        None, "box that the robot stays within: x0, y0, z0, x1, y1, z1", unit="m"
    )
    planes: tuple[tuple[float, float, float, float], ...] = option(
        (), "planes nx, ny, nz, d: the robot stays where nx x + ny y + nz z <= d", unit="m"
    )
    obstacles: tuple[ObstacleTable, ...] = option(
        (), "see `[[surroundings.obstacles]]`", kind="a list of tables"
    )

    def __post_init__(self) -> None:
        check_options(self, "surroundings")


@dataclass(frozen=True)
class ToolTable:
    """[tool]: what the last joint carries in addition to its links, in its frame."""

    point: Triple | None = option(
        None, "tool point; the origin of the last joint's frame without it", unit="m"
    )
    payload: float = option(
        0.0, "point mass at the tool point, included in the torque that is limited", unit="kg", least=0
    )
    solids: tuple[SolidTable, ...] = option((), "see `[[tool.solids]]`", kind="a list of tables")

    def __post_init__(self) -> None:
        check_options(self, "tool")


@dataclass(frozen=True)
class ShapesTable:
    """[shapes]: capsules that replace the shapes of the robot file."""

    radius: PerJoint | None = option(
        None,
        "radius of capsules from joint to joint that replace the robot's shapes; one number, or one per link",
        unit="m",
    )


@dataclass(frozen=True)
class KnownTable:
    """[known]: what is known of the robot in addition to its file; paths are relative to the plan file."""

    experiment: str | None = option(None, "experiment.toml whose [model] and [robot] are used")
    run: str | None = option(None, "run folder of the current model, for torque limits")
    after: str | None = option(None, "run folder whose log counts too: designs what to record next")


@dataclass(frozen=True)
class SearchTable:
    """[search]: size of the search."""

    starts: int = option(4, "number of random motions from which the search starts", least=1)
    iterations: int = option(80, "maximum number of iterations of each", least=1)
    seed: int = option(0, "seed of the random motions", least=0)
    workers: int | None = option(
        None, "number of processes; without it all processors; the motion does not depend on it", least=1
    )

    def __post_init__(self) -> None:
        check_options(self, "search")


@dataclass(frozen=True)
class OutputTable:
    """[output]: the files of the motion."""

    formats: tuple[str, ...] = option(("csv",), "file formats of the motion", choices=tuple(map(str, Format)))
    rate: float = option(
        100.0,
        "sample rate of the written motion (`libfranka` and `kuka_fri`: always 1000, `kuka_rsi`: 250)",
        unit="Hz",
        above=0,
    )
    stages: tuple[float, ...] = option(
        (0.25, 0.5, 1.0),
        "speeds at which the motion is written, as shares of the designed one",
        above=0,
        most=1,
    )

    def __post_init__(self) -> None:
        check_options(self, "output")


@dataclass(frozen=True)
class MotionSettings:
    """All settings of a motion design, with the same defaults in motion.toml, on the command line and in Python.

    Each field is a table of motion.toml.
    """

    motion: MotionTable = field(default_factory=MotionTable)
    limits: LimitsTable = field(default_factory=LimitsTable)
    surroundings: SurroundingsTable = field(default_factory=SurroundingsTable)
    tool: ToolTable = field(default_factory=ToolTable)
    shapes: ShapesTable = field(default_factory=ShapesTable)
    known: KnownTable = field(default_factory=KnownTable)
    search: SearchTable = field(default_factory=SearchTable)
    output: OutputTable = field(default_factory=OutputTable)

    def plain(self) -> dict[str, dict[str, Any]]:
        """Values that differ from the defaults, table by table, as TOML can store them."""
        tables: dict[str, dict[str, Any]] = {}
        for table in fields(self):
            given, usual = getattr(self, table.name), getattr(MotionSettings(), table.name)
            values = {
                entry.name: _plain(getattr(given, entry.name))
                for entry in fields(given)
                if getattr(given, entry.name) != getattr(usual, entry.name)
            }
            if values:
                tables[table.name] = values
        return tables


# Former options of `dynid excite`, and the keys of plan files that replace them.
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
            item.name: _plain(getattr(value, item.name))
            for item in fields(value)
            if getattr(value, item.name) != item.default
        }
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


# motion.toml: reading, writing and JSON schema.

_TABLES = {table.name: type(getattr(MotionSettings(), table.name)) for table in fields(MotionSettings)}
# Lists of tables: dataclasses and models of their entries.
WITHIN = {"obstacles": ObstacleTable, "solids": SolidTable}
ENTRIES = {
    key: model_of(kind, f"{kind.__name__}Entry", doc=kind.__doc__ or "") for key, kind in WITHIN.items()
}


def _section(name: str) -> type[Strict]:
    kind = _TABLES[name]
    plain = model_of(kind, f"{kind.__name__}Section", doc=kind.__doc__ or "")
    inner: dict[str, Any] = {
        name: (
            list.__class_getitem__(ENTRIES[name]),
            key(doc=info.description or "", kind="a list of tables", default_factory=list),
        )
        for name, info in plain.model_fields.items()
        if name in ENTRIES
    }
    if not inner:
        return plain
    return create_model(f"{kind.__name__}Section", __base__=plain, __doc__=kind.__doc__, **inner)


SECTIONS = {name: _section(name) for name in _TABLES}


def _file_model() -> type[Strict]:
    made: dict[str, Any] = {name: (model, model()) for name, model in SECTIONS.items()}
    return create_model(
        "MotionFile", __base__=Strict, __doc__="The whole file; every table is optional.", **made
    )


MotionFile = _file_model()


def read_plan_file(path: str | Path) -> MotionSettings:
    """Read the settings of a plan file.

    Parameters
    ----------
    path : str or Path
        The file; paths in it are relative to its folder.

    Returns
    -------
    MotionSettings
        The settings.

    Raises
    ------
    InputErrors
        With the line of every wrong key.
    InputError
        If the file is no TOML.

    """
    data, lines = read_toml(path)
    return settings_of(data, lines, str(path), Path(path).parent)


def settings_of(
    data: Mapping[str, Any], lines: Lines | None = None, file: str = "", folder: Path | None = None
) -> MotionSettings:
    """Settings from plain data.

    Parameters
    ----------
    data : mapping
        Tables and their keys.
    lines : Lines, optional
        Line of each key, for messages.
    file : str
        Name of the file, for messages.
    folder : Path, optional
        Folder to which paths are relative; without it they stay as they are.

    Returns
    -------
    MotionSettings
        The settings.

    Raises
    ------
    InputErrors
        With every wrong key.

    """
    checked = validate(MotionFile, dict(data), lines or {}, file)
    made = {name: kind(**_values(getattr(checked, name))) for name, kind in _TABLES.items()}
    settings = MotionSettings(**made)
    return settings if folder is None else _with_paths_in(settings, folder)


def _with_paths_in(settings: MotionSettings, folder: Path) -> MotionSettings:
    known = {
        entry.name: str(folder / value)
        for entry in fields(settings.known)
        if (value := getattr(settings.known, entry.name)) is not None
    }
    solids = tuple(
        entry if entry.mesh is None else replace(entry, mesh=str(folder / entry.mesh))
        for entry in settings.tool.solids
    )
    return replace(
        settings, known=replace(settings.known, **known), tool=replace(settings.tool, solids=solids)
    )


def _values(section: Strict) -> dict[str, Any]:
    return {
        name: tuple(WITHIN[name](**_values(entry)) for entry in value) if name in WITHIN else _tuple(value)
        for name in type(section).model_fields
        for value in (getattr(section, name),)
    }


def _tuple(value: Any) -> Any:
    return tuple(_tuple(item) for item in value) if isinstance(value, list | tuple) else value


def plan_text(settings: MotionSettings) -> str:
    """A plan file with all values that differ from the defaults; paths are absolute."""
    lines: list[str] = []
    for table, values in settings.plain().items():
        lines += [f"[{table}]"]
        for name, value in values.items():
            whole = str(Path(value).absolute()) if table == "known" else value
            lines.append(f"{name} = {_toml(whole)}")
        lines.append("")
    return "\n".join(lines)


def _toml(value: Any) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{name} = {_toml(item)}" for name, item in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def json_schema() -> dict[str, Any]:
    """JSON schema (draft 2020-12) of motion.toml, with which editors complete keys and check values."""
    schema = MotionFile.model_json_schema(by_alias=True)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "dynid motion"}


def template_text(schema_file: str) -> str:
    """A plan file with every key commented out at its default, with its meaning and the schema for editors."""
    lines = [
        f"#:schema ./{schema_file}",
        "# dynid excite ROBOT --plan THIS-FILE --out FOLDER",
        "# Every table is optional. Remove the # in front of the keys that you change.",
    ]
    for table, model in SECTIONS.items():
        lines += ["", f"[{table}]"]
        for name, info in model.model_fields.items():
            default = info.get_default(call_default_factory=True)
            written = "..." if default is None else _toml(_listed(default))
            doc = options_of(_TABLES[table])[name].option.doc
            lines.append(f"#{name} = {written}  # {words_of(info)}: {doc}")
    return "\n".join(lines) + "\n"


def _listed(value: Any) -> Any:
    return [_listed(item) for item in value] if isinstance(value, tuple) else value
