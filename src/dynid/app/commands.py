"""The dynid command of each button; only this file turns the fields of forms into arguments."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from dynid.app.jobs import Command
from dynid.app.workspace import (
    DEMO,
    EXPERIMENT,
    EXPORTS,
    HELD_OUT,
    PAGES,
    PLANS,
    RUNS,
    TRAIN,
    Project,
    sanitised,
)
from dynid.base import UsageError

Form = Mapping[str, Sequence[str]]
# Formats of `dynid export`, each with the suffix of its file and its label.
EXPORT_FORMATS = {
    "urdf": (".urdf", "URDF"),
    "mjcf": (".xml", "MJCF (MuJoCo)"),
    "playground": (".xml", "MJCF for MuJoCo Playground (MJX)"),
    "sdf": (".sdf", "SDF (Gazebo)"),
    "c": (".c", "C code"),
    "json": (".json", "JSON"),
    "actuators": (".actuators.json", "actuators, JSON"),
    "isaaclab": (".py", "Isaac Lab"),
    "khalil": (".csv", "table, Khalil's order"),
    "pinocchio": (".npy", "vector, pinocchio's order"),
}
FAMILIES = {
    "fourier": "Fourier series: links and friction",
    "spline": "splines: links and friction, within tight bounds",
    "sweep": "sweeps: friction of each joint",
    "poses": "static poses: gravity",
}
# Formats of `dynid excite` that are a single file.
MOTION_FORMATS = (
    "csv", "parquet", "ros2", "ros2_control", "urscript", "movej", "libfranka", "kuka_rsi", "kuka_fri", "mujoco",
)  # fmt: skip
LONGEST_TEXT = 500
# Pages of the recorded motion, and of the check with the recorded signals.
RECORDED, CHECKED = f"{PAGES}/recorded.html", f"{PAGES}/check.html"


def demo(_project: Project, _form: Form) -> Command:
    """Simulate an arm, log it and identify it."""
    out = f"{RUNS}/{DEMO}"
    return Command("demo", "Example: a simulated arm", ("demo", "--fast", "--out", out), out)


def init(project: Project, form: Form) -> Command:
    """Detect the columns, with the user's answers and choice of trajectories."""
    robot, logs = _robot(project), _logs(project)
    about = project.about
    answers = [word for key, value in about.answers.items() for word in ("--answer", f"{key}={value}")]
    motions = [
        word
        for name, role in about.motions.items()
        for flag, wanted in (("--train", TRAIN), ("--hold-out", HELD_OUT))
        if role == wanted
        for word in (flag, name)
    ]
    words = ("init", robot, logs[0], "--out", EXPERIMENT, "--no-ask", *answers, *motions)
    return Command("init", "Find the columns", (*words, *_renewing(project, EXPERIMENT)), EXPERIMENT)


def check(project: Project, form: Form) -> Command:
    """Check the log without a fit."""
    words = ("check", _robot(project), *_logs(project), "--config", EXPERIMENT, "--no-fit", "--out", CHECKED)
    return Command("check", "Check the log", (*words, *_renewing(project, CHECKED)), CHECKED)


def edit(project: Project, form: Form) -> Command:
    """Write the user's experiment file and check the log with it."""
    text = (form.get("text") or ("",))[0].replace("\r\n", "\n")
    if not text.strip():
        raise UsageError(
            "empty-experiment", found="an empty experiment file", expected="a [log] table with columns"
        )
    if not form.get("right"):
        raise UsageError(
            "not-confirmed",
            found="columns and units without confirmation",
            expected="a tick in the box below",
        )
    made = check(project, form)
    return replace(made, title="Check the edited experiment file", files=((EXPERIMENT, text),))


def show(project: Project, form: Form) -> Command:
    """Show the recorded motion in 3-D."""
    name, out = _text(form, "trajectory"), RECORDED
    words = ("show", _robot(project), _logs(project)[0], "--config", EXPERIMENT, "--out", out)
    chosen = ("--trajectory", name) if name else ()
    return Command("show", "Show the recorded motion", (*words, *chosen, *_renewing(project, out)), out)


def identify(project: Project, form: Form) -> Command:
    """Identify the robot."""
    out = _output(project, form, RUNS, "run")
    validation = [word for log in project.logs_to(HELD_OUT) for word in ("--validate", log)]
    accepted = [word for code in project.accepted for word in ("--accept", code)]
    words = ("identify", _robot(project), *_logs(project), *validation, "--config", EXPERIMENT, *accepted)
    words = (*words, "--out", out)
    return Command("identify", f"Identify: {Path(out).name}", words, out)


def compare(project: Project, form: Form) -> Command:
    """Compare runs on a page."""
    runs = [run for run in project.runs() if run in form.get("run", ())]
    if len(runs) < 2:
        raise UsageError("one-run", found=f"{len(runs)} run(s)", expected="at least two to compare")
    out = project.free_name(PAGES, "comparison", ".html")
    names = ", ".join(Path(run).name for run in runs)
    return Command("compare", f"Compare {names}", ("compare", *runs, "--out", out), out)


def export(project: Project, form: Form) -> Command:
    """Export the model of a run."""
    run = _chosen(form, "run", project.runs(), "a run")
    kind = _chosen(form, "format", tuple(EXPORT_FORMATS), "a format")
    out = project.free_name(EXPORTS, f"{Path(run).name}-{kind}", EXPORT_FORMATS[kind][0])
    words = ["export", run, "--to", out, "--format", kind]
    words += ["--feasible"] if form.get("feasible") else []
    return Command("export", f"Export {Path(run).name} as {EXPORT_FORMATS[kind][1]}", tuple(words), out)


def validate(project: Project, form: Form) -> Command:
    """Score the model of a run on a log."""
    run = _chosen(form, "run", project.runs(), "a run")
    log = _chosen(form, "log", project.logs(), "a log")
    words = ("validate", run, log)
    return Command("validate", f"Validate {Path(run).name} on {Path(log).name}", words)


def excite(project: Project, form: Form) -> Command:
    """Design a motion, with a plan file for settings that are not options of the command."""
    out = _output(project, form, PLANS, "plan")
    text, plan = _plan(form), f"{out}.toml"
    words = ["excite", _robot(project), *(("--plan", plan) if text else ()), "--out", out]
    words += ["--time", _number(form, "time", 1.0, 600.0)]
    if _text(form, "floor"):
        words += ["--floor", _number(form, "floor", -100.0, 100.0)]
    for name in form.get("format", ()):
        words += ["--format", _chosen({"format": [name]}, "format", MOTION_FORMATS, "a format")]
    if _text(form, "after"):
        words += ["--after", _chosen(form, "after", project.runs(), "a run")]
    elif (project.folder / EXPERIMENT).is_file():
        words += ["--config", EXPERIMENT]
    files = ((plan, text),) if text else ()
    return Command("excite", f"Design a motion: {Path(out).name}", tuple(words), out, files=files)


def _plan(form: Form) -> str:
    """Return a plan file with the settings that differ from the defaults; empty if none does."""
    asked: dict[str, dict[str, Any]] = {
        "motion": {"family": _chosen(form, "family", tuple(FAMILIES), "a family")},
        "search": {"seed": int(_number(form, "seed", 0, 2**31 - 1, whole=True))},
    }
    for table, name, high in (("limits", "share", 1.0), ("surroundings", "clearance", 1.0)):
        if _text(form, name):
            asked[table] = {name: float(_number(form, name, 0.001, high))}
    usual = {"family": next(iter(FAMILIES)), "seed": 0}
    tables = {
        table: [f"{key} = {json.dumps(value)}" for key, value in values.items() if value != usual.get(key)]
        for table, values in asked.items()
    }
    return "\n".join("\n".join([f"[{table}]", *lines, ""]) for table, lines in tables.items() if lines)


def watch(project: Project, form: Form) -> Command:
    """Follow a growing log."""
    log = _chosen(form, "log", project.live_logs(), "a CSV log")
    wait = _number(form, "wait", 1, 3600)
    out = project.free_name(PAGES, "watch", ".csv")
    words = ["watch", _robot(project), log, "--every", "1", "--wait", wait, "--out", out]
    words += (
        ["--config", EXPERIMENT] if form.get("mapped") and (project.folder / EXPERIMENT).is_file() else []
    )
    return Command("watch", f"Follow {Path(log).name}", tuple(words), out, live=True)


# Commands by the last part of the address of their form.
COMMANDS: Mapping[str, Callable[[Project, Form], Command]] = {
    "init": init,
    "check": check,
    "edit": edit,
    "show": show,
    "identify": identify,
    "compare": compare,
    "export": export,
    "validate": validate,
    "excite": excite,
    "watch": watch,
}


def _robot(project: Project) -> str:
    robot = project.robot
    if robot is None:
        several = project.robots()
        raise UsageError(
            "no-robot",
            found="several robot files" if several else "no robot file",
            expected="a choice of one of them" if several else "a URDF, xacro, MJCF, SDF, USD or dynid TOML",
        )
    return robot


def _logs(project: Project) -> tuple[str, ...]:
    logs = project.logs_to(TRAIN)
    if not logs:
        raise UsageError("no-log", found="no log to fit", expected="at least one log to fit")
    return logs


def _renewing(project: Project, out: str) -> tuple[str, ...]:
    return ("--force",) if (project.folder / out).exists() else ()


def _text(form: Form, name: str) -> str:
    return (form.get(name) or ("",))[0].strip()[:LONGEST_TEXT]


def _chosen(form: Form, name: str, allowed: Sequence[str], noun: str) -> str:
    value = _text(form, name)
    if value not in allowed:
        raise UsageError(
            "choice", found=f"{name} '{value}'", expected=f"{noun}: {', '.join(allowed) or 'there is none'}"
        )
    return value


def _number(form: Form, name: str, low: float, high: float, whole: bool = False) -> str:
    text = _text(form, name)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high or (whole and value != int(value)):
        raise UsageError(
            "number",
            found=f"{name} '{text}'",
            expected=f"a {'whole ' * whole}number from {low:g} to {high:g}",
        )
    return f"{int(value)}" if whole else f"{value:g}"


def _output(project: Project, form: Form, folder: str, stem: str) -> str:
    name = _text(form, "name")
    return f"{folder}/{sanitised(name)}" if name else project.free_name(folder, stem)
