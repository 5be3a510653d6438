"""A planned motion as a folder: plan.json, picture.html and motion files; written completely, or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dynid.base import (
    Float,
    FolderKind,
    InputError,
    Place,
    check_place,
    dataclass,
    finite_or_none,
    listed_files,
    staged_folder,
)
from dynid.excitation.collision import CollisionModel, has_coal
from dynid.excitation.constraints import Margin, Verified
from dynid.excitation.gradient import RATE, Whole
from dynid.excitation.plan import Sheet
from dynid.excitation.sequences import Stage, stages_of
from dynid.excitation.settings import FILES, Format, MotionSettings, OutputTable, plan_text, write_motion
from dynid.excitation.torque_plan import TorquePlan
from dynid.signals import samples_at
from dynid.trajectories import TorqueMotion, Trajectory, parts_of, read_motion, slowed, to_json

if TYPE_CHECKING:
    from markupsafe import Markup

    from dynid.report import Figure, Page, Trace
    from dynid.scene import Scene, Surface


# What of a planned motion was checked, and what could not be.

NOT_CHECKED = "NOT CHECKED: "
EXTRA = "pip install 'dynid[collision]'"
# Names in a list before "and N more".
_LISTED = 8
# Headline: maximum number of items, of names per item, and of characters of a reason in brackets.
THINGS, NAMES, REASON = 5, 3, 40
WHERE = "; full list: not_checked in plan.json"


@dataclass(frozen=True)
class Checks:
    """What of a plan was checked.

    Parameters
    ----------
    missing : tuple of str
        What could not be checked.
    notes : tuple of str
        How the rest was checked.

    """

    missing: tuple[str, ...]
    notes: tuple[str, ...]

    @property
    def in_full(self) -> str:
        """What could not be checked, with reasons and all names; or how everything was checked."""
        return NOT_CHECKED + "; ".join(self.missing) if self.missing else "; ".join(self.notes)

    @property
    def headline(self) -> str:
        """First line of every output: in short what could not be checked, or how everything was checked."""
        if not self.missing:
            return self.in_full
        short = [_shortened(text) for text in self.missing[:THINGS]]
        more = len(self.missing) - len(short)
        rest = f"; {more} more" if more else ""
        return NOT_CHECKED + "; ".join(short) + rest + ("" if (*short,) == self.missing else WHERE)


def checks_of(plan: Sheet) -> Checks:
    """List what of a plan was checked.

    Parameters
    ----------
    plan : Sheet
        The plan.

    Returns
    -------
    Checks
        What was checked, and what could not be.

    """
    bounds, robot = plan.bounds, plan.information.robot
    missing = []
    collision = bounds.collision
    if collision is None:
        missing.append("self-collision of the arm")
    else:
        missing += _unchecked_shapes(collision)
    walls = bounds.workspace is not None and bool(bounds.workspace.names)
    if not walls and (collision is None or not collision.obstacles):
        missing.append("surroundings (no floor, wall or obstacle is given)")
    if walls and bounds.workspace is not None and not bounds.workspace.whole_links:
        missing.append("distances of the links from the surroundings (only origins of joints were checked)")
    if collision is not None and plan.verified is None:
        missing.append(
            f"the final motion with an independent library ({EXTRA})"
            if not has_coal()
            else "the final motion at 1 kHz"
        )
    if bounds.theta is None:
        missing.append("torque (the robot file has no masses)")
    elif not np.isfinite(bounds.limits.torque).all():
        unlimited = np.flatnonzero(~np.isfinite(bounds.limits.torque))
        missing.append(f"torque of {', '.join(robot.joint_names[j] for j in unlimited)} (no limit is given)")
    if isinstance(plan, TorquePlan):
        missing.append("the end, where the arm still moves (stop it with its controller)")
    return Checks(tuple(missing), tuple(_notes(collision, plan.verified) + _terms_left_out(plan)))


def _terms_left_out(plan: Sheet) -> list[str]:
    whole = Whole(plan.information.terms)
    if not whole.names:
        return []
    text = f"the search omits terms that need derivatives over time: {', '.join(whole.names)}"
    if whole.checked and plan.bounds.theta is not None and not isinstance(plan, TorquePlan):
        text += f"; the final motion meets the torque limits with {', '.join(whole.checked)} at {RATE:g} Hz"
    return [text]


def _shortened(text: str) -> str:
    # Drops a long reason in brackets, and all but the first names of a list.
    subject, bracket, reason = text.partition(" (")
    first, *names = subject.split(", ")
    if len(names) >= NAMES + 1:
        subject = f"{', '.join([first, *names[: NAMES - 1]])} and {len(names) + 1 - NAMES} more"
    return subject + (bracket + reason if len(reason) <= REASON else "")


def _unchecked_shapes(collision: CollisionModel) -> list[str]:
    shapes, unchecked = collision.shapes, []
    if shapes is not None:
        if shapes.derived:
            radius = max(shape.size[0] for shape in shapes.shapes if shape.link in shapes.derived)
            which = "none could be read: all links" if shapes.kind == "derived" else ", ".join(shapes.derived)
            unchecked.append(
                f"the robot's own shapes ({which} are replaced by capsules of {radius:.3f} m radius)"
            )
        unchecked += list(shapes.faults)
    if collision.overlapping:
        unchecked.append(
            f"{', '.join(collision.overlapping)} (they overlap in the zero pose and in all others tried)"
        )
    if collision.closer:
        unchecked.append(
            f"the clearance of {', '.join(collision.closer)} (they are closer in every pose tried)"
        )
    if collision.coarse:
        derived = shapes is not None and bool(shapes.derived)
        why = "" if derived else f"; {EXTRA} for their own shapes"
        unchecked.append(f"{', '.join(collision.coarse)} (their capsules come too close in most poses{why})")
    return unchecked


def _notes(collision: CollisionModel | None, verified: Verified | None) -> list[str]:
    if collision is None:
        return []
    notes = []
    if collision.shapes is not None:
        kind, made_up = collision.shapes.kind, collision.shapes.derived
        beside = f" and capsules in place of {_listed(made_up)}" if made_up and kind != "derived" else ""
        notes.append(f"checked on the robot's {kind} shapes{beside}")
    if verified is not None and verified.nearest is not None:
        notes.append(
            f"the final motion verified at {verified.rate:g} Hz with {verified.library}: "
            f"smallest distance {1000 * verified.nearest.distance:.1f} mm ({verified.nearest.pair})"
        )
    return notes


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _LISTED
    return ", ".join(names[:_LISTED]) + (f" and {more} more" if more > 0 else "")


# Version of plan.json.
FORMAT = 1


def check_output(folder: Path, inputs: Sequence[Path], force: bool) -> tuple[str, ...]:
    """Check an output folder before any computation.

    Parameters
    ----------
    folder : Path
        The folder.
    inputs : sequence of Path
        Files and folders that are read.
    force : bool
        Whether an existing plan may be replaced.

    Returns
    -------
    tuple of str
        Names of files that stay in a folder that is replaced.

    Raises
    ------
    RefusedError
        If the folder exists (without force, or if it is no plan) or contains an input.
    ResourceError
        If it cannot be written.

    """
    return check_place(folder, inputs, force, PLAN)


def write_plan(
    plan: Sheet,
    folder: str | Path,
    settings: MotionSettings,
    picture: str,
    force: bool = False,
) -> tuple[Path, ...]:
    """Write a plan as a folder.

    Parameters
    ----------
    plan : Sheet
        The plan.
    folder : str or Path
        The folder.
    settings : MotionSettings
        Settings of the design, and the wanted files.
    picture : str
        Page that shows the plan, HTML.
    force : bool
        Whether the files of an existing plan are replaced; other files in its folder stay.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    RefusedError
        If the folder exists.
    ResourceError
        If it cannot be written.
    UsageError
        If a format does not fit the arm.

    """
    robot, output = plan.information.robot, settings.output
    folder = Path(folder)
    checks = checks_of(plan)
    headline = checks.headline if checks.missing else ""
    stages = stages_of(plan, output.stages)
    with staged_folder(folder, PLAN, force) as scratch:
        _text(scratch / "plan.json", json.dumps(plan_dict(plan, settings, stages), indent=1))
        _text(scratch / "motion.toml", plan_text(settings))
        _text(scratch / "picture.html", picture)
        _text(scratch / "trajectory.json", to_json(plan.trajectory))
        for stage, motion in stages:
            _write_speed(
                scratch, robot.joint_names, motion, stage.share, output.formats, output.rate, headline
            )
    return tuple(sorted(folder / name for name in listed_files(folder, PLAN) or ()))


def is_plan(folder: str | Path) -> bool:
    """Whether a folder was written by `write_plan`."""
    return _plan_data(Path(folder)) is not None


def write_stored(
    plan: str | Path,
    folder: str | Path,
    formats: Sequence[str],
    force: bool = False,
) -> tuple[Path, ...]:
    """Write the motion of a plan folder in other formats, at each speed of the plan.

    Nothing is designed or checked again: what the plan could not check is the first line of every file.

    Parameters
    ----------
    plan : str or Path
        Plan folder.
    folder : str or Path
        Folder to write.
    formats : sequence of str
        File formats.
    force : bool
        Whether the motions of an existing folder are replaced.

    Returns
    -------
    tuple of Path
        The files.

    Raises
    ------
    InputError
        If the folder contains no plan.
    UsageError
        If a format does not fit the arm or the motion.
    RefusedError
        If the folder exists.
    ResourceError
        If it cannot be written.

    """
    plan, folder = Path(plan), Path(folder)
    planned, data = read_motion(plan), _plan_data(plan) or {}
    trajectory = planned.trajectory
    forms = tuple(Format(form) for form in formats)
    commanded = isinstance(trajectory, TorqueMotion)
    for form in forms:
        form.check(planned.joints, commanded)
    try:
        shares = [float(stage["share"]) for stage in data.get("stages", ())] or [1.0]
        missing = tuple(str(entry) for entry in data.get("not_checked", ()))
        rate = float(data.get("settings", {}).get("output", {}).get("rate", OutputTable().rate))
    except (TypeError, ValueError, LookupError, AttributeError) as error:
        raise InputError(
            "plan-json",
            found=f"a plan.json without stages ({type(error).__name__})",
            expected="a folder that dynid excite wrote",
            place=Place(file=str(plan)),
        ) from error
    headline = Checks(missing, ()).headline if missing else ""
    check_place(folder, [plan], force, MOTION)
    with staged_folder(folder, MOTION, force) as scratch:
        for share in shares:
            motion = trajectory if share == 1 else slowed(trajectory, share)
            _write_speed(scratch, planned.joints, motion, share, forms, rate, headline)
    return tuple(sorted(folder / name for name in listed_files(folder, MOTION) or ()))


def _write_speed(
    folder: Path,
    joint_names: Sequence[str],
    motion: Trajectory,
    share: float,
    formats: Sequence[str],
    rate: float,
    headline: str,
) -> None:
    speed = "" if share == 1 else f"-{round(100 * share)}"
    parts = parts_of(motion)
    for number, part in enumerate(parts, start=1):
        suffix = (f"-{number}" if len(parts) > 1 else "") + speed
        for form in formats:
            write_motion(folder, joint_names, part, Format(form), rate, suffix, headline)


def plan_dict(
    plan: Sheet, settings: MotionSettings, stages: Sequence[tuple[Stage, Trajectory]] = ()
) -> dict[str, Any]:
    """Plain data of a plan for plan.json: checks, family, coefficients, criteria, margins, stages.

    Parameters
    ----------
    plan : Sheet
        The plan.
    settings : MotionSettings
        Settings of the design.
    stages : sequence of (Stage, Trajectory)
        Its speeds.

    Returns
    -------
    dict
        The data.

    """
    information, checks = plan.information, checks_of(plan)
    verified = plan.verified
    return {
        "not_checked": list(checks.missing),
        "checked": list(checks.notes),
        "kind": "plan",
        "format": FORMAT,
        "robot": information.robot.name,
        "joints": list(information.robot.joint_names),
        "duration": plan.trajectory.duration,
        "criterion": str(information.criterion),
        "condition": finite_or_none(plan.figures.condition),
        "logdet": finite_or_none(plan.figures.logdet),
        "base_parameters": information.base.rank,
        "stopped": plan.stopped,
        "margins": [asdict(margin) for margin in plan.margins],
        "verified": None if verified is None else asdict(verified),
        "stages": [_stage(stage) for stage, _ in stages],
        "settings": settings.plain(),
    } | plan.describe()


def _stage(stage: Stage) -> dict[str, Any]:
    numbers = {name: finite_or_none(getattr(stage, name)) for name in ("torque_share", "power", "tool_speed")}
    torque = {joint: finite_or_none(value) for joint, value in stage.torque.items()}
    return asdict(stage) | numbers | {"torque": torque}


def _files_of_unlisted_plan(folder: Path) -> list[str] | None:
    if _plan_data(folder) is None:
        return None
    motions = [Path(name) for name in FILES.values()]
    parts = [path.name for name in motions for path in folder.glob(f"{name.stem}-[0-9]*{name.suffix}")]
    numbered = [name for name in parts if re.fullmatch(r".+-\d+\.\w+", name)]
    return ["plan.json", "picture.html", "trajectory.json", *FILES.values(), *numbered]


def _plan_data(folder: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("kind") == "plan" else None


def _no_unlisted_files(_folder: Path) -> None:
    # Every folder of motions has a manifest.
    return None


PLAN = FolderKind("plan", _files_of_unlisted_plan)
MOTION = FolderKind("motion", _no_unlisted_files)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


# A page to look at before running a motion: the moving robot, smallest distances, torque and limits, all margins.

# Points of curves, and condition number above which criteria say nothing and are not shown.
POINTS, ALL_TOLD = 1500, 1e6
# Number of distance curves shown, of the closest pairs.
MOST_PAIRS = 6
_FLOOR, _ROOM = "floor", "arm - "
# Half size of the visible room, in radii of a ball around the moving robot.
ROOM = 1.6
# Squares along a side of an obstacle: large faces may reach behind the camera, and are drawn square by square.
OBSTACLE_PARTS = 10


def plan_html(plan: Sheet) -> str:
    """The page as text. It needs no network, and the same plan gives the same bytes."""
    from markupsafe import Markup

    from dynid.report import Chapter, Page, page_html

    page = Page()
    robot = plan.information.robot
    t = np.linspace(0.0, plan.trajectory.duration, POINTS)
    q = plan.trajectory.motion(t)[0]
    about = f"{robot.name or 'robot'} along the planned motion"
    moving = page.scene(_scene(plan, t, q), about, follows="time")
    drawn = [
        page.figure(_joint_figure(plan, j), f"planned motion of joint {name}")
        for j, name in enumerate(robot.joint_names)
    ]
    figures = Markup("").join(
        Markup("<h3>{}</h3>{}").format(name, figure)
        for name, figure in zip(robot.joint_names, drawn, strict=True)
    )
    rows = Markup("").join(
        Markup(
            "<tr><td>{}</td><td>{}</td><td>{:.4g}</td><td>{:.4g}</td><td>{}</td><td>{:.2f} s</td></tr>"
        ).format(m.what, m.where, m.worst, m.bound, _room(m), m.time)
        for m in plan.margins
    )
    head = Markup(
        "<tr><th>limit of</th><th>where</th><th>closest value</th><th>limit</th><th>margin</th><th>time</th></tr>"
    )
    quality = f", condition number {plan.figures.condition:.3g}, log determinant {plan.figures.logdet:.4g}"
    summary = Markup("<p><strong>{}</strong></p><p>{:.4g} s{}.{}</p>").format(
        checks_of(plan).in_full,
        plan.trajectory.duration, quality if plan.figures.condition < ALL_TOLD else "",
        " The search was stopped early." if plan.stopped else "",
    )  # fmt: skip
    chapters = [
        Chapter("robot", "Look before you run", summary + moving),
        Chapter("distances", "Smallest distances", _distances_shown(plan, t, q, page)),
        Chapter("motion", "Motion against its limits", figures),
        Chapter(
            "margins",
            "Margins",
            Markup('<div class="scroll"><table class="data">{}{}</table></div>').format(head, rows),
        ),
    ]
    name = robot.name or "robot"
    return page_html(f"{name}: planned motion", "Planned motion", name, chapters, page)


def _scene(plan: Sheet, t: Float, q: Float) -> Scene:
    from dynid.scene import outlines, scene_of

    robot, space = plan.information.robot, plan.bounds.workspace
    scene = scene_of(robot, t, q, geometry="collision", surfaces=_checked(plan))
    if space is None or not len(space.names):
        return scene
    centre, radius = scene.extent
    lines = outlines(space.normal, space.offset, centre, ROOM * radius)
    floor = -space.offset[space.names.index(_FLOOR)] if _FLOOR in space.names else 0.0
    return replace(scene, lines=lines, floor=float(floor))


def _checked(plan: Sheet) -> list[Surface] | None:
    # The checked shapes and obstacles; None if there are none.
    collision = plan.bounds.collision
    if collision is None or collision.shapes is None:
        return None
    from dynid.scene import surface_of

    made_up = collision.shapes.derived
    return [
        *(surface_of(shape, "capsule" if shape.link in made_up else "") for shape in collision.shapes.shapes),
        *(surface_of(shape, "obstacle", OBSTACLE_PARTS) for shape in collision.obstacles),
    ]


def _distances_shown(plan: Sheet, t: Float, q: Float, page: Page) -> Markup:
    from markupsafe import Markup

    from dynid.report import CYCLE, VERMILION, Axis, Panel, column_of, level_line, line

    distances = sorted(_distances(plan, q), key=lambda curve: float(curve[1].min()))
    if not distances:
        return Markup(
            "<p>No distances were checked: neither surroundings nor shapes of the arm were given.</p>"
        )
    # The closest wall is always shown, even if many pairs of links are closer.
    room = next((k for k, curve in enumerate(distances) if curve[0].startswith(_ROOM)), None)
    chosen = set(range(MOST_PAIRS)) if room is None or room < MOST_PAIRS else {*range(MOST_PAIRS - 1), room}
    shown = [curve for k, curve in enumerate(distances) if k in chosen]
    rest = [curve for k, curve in enumerate(distances) if k not in chosen]
    curves = tuple(line(t, 1e3 * values, name, CYCLE[k]) for k, (name, values, _) in enumerate(shown))
    asked = sorted({1e3 * bound for _, _, bound in shown})
    panel = Panel(
        curves, Axis("time, s"), Axis("distance, mm"), tuple(level_line(x, VERMILION) for x in asked)
    )
    figure = page.figure(column_of((panel,), 320, "time"), "smallest distances over time")
    entry = Markup('<li><i style="background:{}"></i>{}: at least {:.1f} mm</li>')
    legend = [entry.format(CYCLE[k], name, 1e3 * values.min()) for k, (name, values, _) in enumerate(shown)]
    more = "Large distances are lower bounds: exact shapes are compared only where parts come close."
    if rest:
        more += f" {len(rest)} further pairs stay at least {1e3 * rest[0][1].min():.0f} mm apart."
    return Markup('<ul class="scene-legend">{}</ul>{}<p class="note">{}</p>').format(
        Markup("").join(legend), figure, more
    )


def _distances(plan: Sheet, q: Float) -> list[tuple[str, Float, float]]:
    # Names, distances (T,) in m and required distances: between links, and from walls.
    from dynid.excitation.collision import placements

    robot, bounds = plan.information.robot, plan.bounds
    placed = placements(robot, q)
    distances: list[tuple[str, Float, float]] = []
    if (collision := bounds.collision) is not None and collision.links:
        free = collision.nearest(placed).distance
        distances += [
            (name, free[:, k], float(collision.clearance[k])) for k, name in enumerate(collision.names)
        ]
    if (space := bounds.workspace) is not None and len(space.names):
        room = (space.offset - space.reach(placed)[0]).min(axis=1)
        distances += [(f"{_ROOM}{name}", room[:, h], bounds.clearance) for h, name in enumerate(space.names)]
    return distances


def _room(margin: Margin) -> str:
    if margin.what in ("workspace", "self-collision"):
        return f"{1000 * margin.margin:.1f} mm"
    return f"{100 * margin.margin:.1f} %"


def _joint_figure(plan: Sheet, joint: int) -> Figure:
    from dynid.report import BLUE, VERMILION, Axis, Panel, band, column_of, level_line, line

    bounds, information = plan.bounds, plan.information
    limits, robot = bounds.limits, information.robot
    t = np.linspace(0.0, plan.trajectory.duration, POINTS)
    q, dq, ddq = plan.trajectory.motion(t)
    length = "m" if robot.prismatic[joint] else "rad"
    effort = "N" if robot.prismatic[joint] else "N m"
    curves: list[tuple[str, Float, tuple[float, ...]]] = [
        (f"position, {length}", q, (limits.lower[joint], limits.upper[joint])),
        (f"velocity, {length}/s", dq, (-limits.velocity[joint], limits.velocity[joint])),
    ]
    reserve: tuple[Trace, ...] = ()
    if (
        predicted := bounds.torque(robot, Whole(information.terms).model, samples_at(t, q, dq, ddq))
    ) is not None:
        tau, kept = predicted
        joint_torque, kept = tau[:, joint], kept[:, joint]
        reserve = (band(t, joint_torque - kept, joint_torque + kept, "torque with its reserve", BLUE, 0.25),)
        room = limits.torque[joint]
        curves.append((f"torque, {effort}", tau, (-room, room) if np.isfinite(room) else ()))
    panels = tuple(
        Panel(
            (*(reserve if i == 2 else ()), line(t, values[:, joint], title, BLUE)),
            Axis("time, s" if i == len(curves) - 1 else ""),
            Axis(title),
            tuple(level_line(float(level), VERMILION) for level in levels),
        )
        for i, (title, values, levels) in enumerate(curves)
    )
    return column_of(panels, 360, "time")
