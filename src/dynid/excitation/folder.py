"""A planned motion as a folder: plan.json, picture.html, motion files; it appears as a whole or not at all."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from dynid.base.arrays import finite_or_none
from dynid.base.atomic_write import FolderKind, check_place, listed_files, staged_folder
from dynid.base.errors import InputError, Place
from dynid.excitation.checks import Checks, checks_of
from dynid.excitation.export import FILES, Format, write_motion
from dynid.excitation.plan import Sheet
from dynid.excitation.plan_file import plan_text
from dynid.excitation.settings import MotionSettings, OutputTable
from dynid.excitation.stages import Stage, stages_of
from dynid.trajectories.codec import parts_of, read_motion, to_json
from dynid.trajectories.slowed import slowed
from dynid.trajectories.torque_sines import TorqueMotion
from dynid.trajectories.trajectory import Trajectory

FORMAT = 1


def check_output(folder: Path, inputs: Sequence[Path], force: bool) -> tuple[str, ...]:
    """Refuses an output folder before anything is computed; returns the names of what stays in one to be replaced.

    Raises RefusedError if it exists (unless `force` and it is a plan) or holds an input; ResourceError if its parent
    cannot be written.
    """
    return check_place(folder, inputs, force, PLAN)


def write_plan(
    plan: Sheet,
    folder: str | Path,
    settings: MotionSettings,
    picture: str,
    force: bool = False,
) -> tuple[Path, ...]:
    """Writes everything; returns the paths.

    settings: what it was designed with, and the files that are wanted.    picture: the page that shows the plan, HTML.
    force: whether the files of a plan that is there are replaced; other files in its folder stay.
    Raises RefusedError if the folder exists, ResourceError if it cannot be written, UsageError for a format that does
    not fit the arm.
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
    """Whether it is a folder that `write_plan` wrote."""
    return _plan_data(Path(folder)) is not None


def write_stored(
    plan: str | Path,
    folder: str | Path,
    formats: Sequence[str],
    force: bool = False,
) -> tuple[Path, ...]:
    """Writes the motion of a plan's folder in other forms, at each speed of the plan; returns the paths.

    Nothing is designed or checked anew: what the plan could not check is the first line of every file.
    folder: to be written; force: whether the motions of one that is there are replaced.
    Raises InputError for a folder without a plan, UsageError for a form that the arm or the motion does not fit,
    RefusedError if the folder exists, ResourceError if it cannot be written.
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
        missing = tuple(str(one) for one in data.get("not_checked", ()))
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
    """Plain data: what was checked, family, coefficients, figures, margins, stages."""
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
    parts = [one.name for name in motions for one in folder.glob(f"{name.stem}-[0-9]*{name.suffix}")]
    numbered = [name for name in parts if re.fullmatch(r".+-\d+\.\w+", name)]
    return ["plan.json", "picture.html", "trajectory.json", *FILES.values(), *numbered]


def _plan_data(folder: Path) -> dict[str, Any] | None:
    try:
        data = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    return data if isinstance(data, dict) and data.get("kind") == "plan" else None


def _nothing(_folder: Path) -> None:
    # Every folder of motions has a manifest.
    return None


PLAN = FolderKind("plan", _files_of_unlisted_plan)
MOTION = FolderKind("motion", _nothing)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
