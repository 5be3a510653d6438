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
from dynid.excitation.checks import checks_of
from dynid.excitation.export import FILES, Format, write_motion
from dynid.excitation.plan import Sheet
from dynid.excitation.plan_file import plan_text
from dynid.excitation.settings import MotionSettings
from dynid.excitation.stages import Stage, stages_of
from dynid.trajectories.codec import parts_of, to_json
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
            speed = "" if stage.share == 1 else f"-{round(100 * stage.share)}"
            parts = parts_of(motion)
            for number, part in enumerate(parts, start=1):
                for form in output.formats:
                    suffix = (f"-{number}" if len(parts) > 1 else "") + speed
                    write_motion(
                        scratch, robot.joint_names, part, Format(form), output.rate, suffix, headline
                    )
    return tuple(sorted(folder / name for name in listed_files(folder, PLAN) or ()))


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
    try:
        data = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(data, dict) or data.get("kind") != "plan":
        return None
    motions = [Path(name) for name in FILES.values()]
    parts = [one.name for name in motions for one in folder.glob(f"{name.stem}-[0-9]*{name.suffix}")]
    numbered = [name for name in parts if re.fullmatch(r".+-\d+\.\w+", name)]
    return ["plan.json", "picture.html", "trajectory.json", *FILES.values(), *numbered]


PLAN = FolderKind("plan", _files_of_unlisted_plan)


def _text(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
