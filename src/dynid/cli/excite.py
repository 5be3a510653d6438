"""dynid excite: a motion that tells much about the robot and stays within its limits."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from dynid.cli.common import ConfigOption, RobotArgument, RootOption, print_diagnostics, progress_bar, say

if TYPE_CHECKING:
    from dynid.arrays import Float
    from dynid.excite.basis import Basis
    from dynid.excite.criteria import Information
    from dynid.excite.plan import Plan
    from dynid.robot.model import RobotModel

Word = TypeVar("Word", bound=StrEnum)
PER_JOINT = "one number for all joints, or one each, with commas between."


def command(
    robot: RobotArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write; must not exist.")],
    time: Annotated[float, typer.Option("--time", help="Length of the motion, s.")] = 30.0,
    criterion: Annotated[
        str, typer.Option("--criterion", help="logdet, condition, trace or least.")
    ] = "logdet",
    focus: Annotated[
        list[str] | None,
        typer.Option("--focus", help="Parameter whose variance alone counts; may be repeated."),
    ] = None,
    family: Annotated[str, typer.Option("--family", help="fourier or spline.")] = "fourier",
    harmonics: Annotated[int, typer.Option("--harmonics", min=1, help="Harmonics of a Fourier motion.")] = 5,
    frequency: Annotated[float, typer.Option("--frequency", help="Its first harmonic, Hz.")] = 0.1,
    pieces: Annotated[int, typer.Option("--pieces", min=6, help="Intervals between knots of a spline.")] = 20,
    start: Annotated[
        str | None, typer.Option("--start", help="Pose at both ends: one number a joint.")
    ] = None,
    share: Annotated[float, typer.Option("--share", help="Share of every joint limit to be used.")] = 0.95,
    velocity: Annotated[str | None, typer.Option("--velocity", help="Limits: " + PER_JOINT)] = None,
    acceleration: Annotated[str | None, typer.Option("--acceleration", help="Limits: " + PER_JOINT)] = None,
    jerk: Annotated[str | None, typer.Option("--jerk", help="Limits: " + PER_JOINT)] = None,
    torque: Annotated[str | None, typer.Option("--torque", help="Limits: " + PER_JOINT)] = None,
    lower: Annotated[str | None, typer.Option("--lower", help="Positions: " + PER_JOINT)] = None,
    upper: Annotated[str | None, typer.Option("--upper", help="Positions: " + PER_JOINT)] = None,
    uncertainty: Annotated[
        float, typer.Option("--uncertainty", min=0, help="Share by which torque may exceed the model's.")
    ] = 0.1,
    floor: Annotated[
        float | None, typer.Option("--floor", help="Height that all points stay above, m.")
    ] = None,
    box: Annotated[
        str | None, typer.Option("--box", help="Box that all points stay in: x0,y0,z0,x1,y1,z1, m.")
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", help="Tool's point in the last joint frame: x,y,z, m.")
    ] = None,
    radius: Annotated[
        float | None, typer.Option("--radius", help="Radius of the links' capsules, m; none = no check.")
    ] = None,
    clearance: Annotated[float, typer.Option("--clearance", min=0, help="Between capsules, m.")] = 0.02,
    after: Annotated[
        Path | None, typer.Option("--after", help="Run folder of what was recorded: what to record next.")
    ] = None,
    config: ConfigOption = None,
    form: Annotated[
        list[str] | None,
        typer.Option("--format", help="csv, parquet, ros2, urscript or libfranka; may be repeated."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Rate of the written motion, Hz.")] = 100.0,
    starts: Annotated[int, typer.Option("--starts", min=1, help="Starts that are optimised.")] = 4,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Most iterations a start.")] = 80,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the starts.")] = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; the motion does not depend on it.")
    ] = None,
    root: RootOption = None,
) -> None:
    """Design a motion worth recording, within all limits, and write it in the forms that controllers read."""
    from dataclasses import replace

    from dynid.diagnostics import Diagnostics
    from dynid.errors import UsageError
    from dynid.excite.capsules import link_capsules
    from dynid.excite.criteria import Criterion, focus_on
    from dynid.excite.design import Task
    from dynid.excite.export import Format
    from dynid.excite.folder import write_plan
    from dynid.excite.limits import Bounds, MotionLimits, Workspace
    from dynid.excite.plan import design_motion
    from dynid.parallel import default_threads
    from dynid.robot import load_robot
    from dynid.store import check_output

    check_output(out, (robot,))
    forms = tuple(_word(name, Format, "format") for name in (form or ["csv"]))
    diagnostics = Diagnostics()
    model = load_robot(robot, root=root, diagnostics=diagnostics)
    if Format.URSCRIPT in forms and model.n != 6:
        raise UsageError("urscript", found=f"{model.n} joints", expected="six joints")
    limits = MotionLimits.of(
        model,
        acceleration=_numbers(acceleration, "--acceleration"),
        jerk=_numbers(jerk, "--jerk"),
        share=share,
        velocity=_numbers(velocity, "--velocity"),
        lower=_numbers(lower, "--lower"),
        upper=_numbers(upper, "--upper"),
        torque=_numbers(torque, "--torque"),
    )
    information, theta = _information(model, config, after)
    information = replace(information, criterion=_word(criterion, Criterion, "criterion"))
    if focus:
        information = replace(information, focus=focus_on(information.base, focus))
    tip = _numbers(tool, "--tool", 3)
    corners = _numbers(box, "--box", 6)
    bounds = Bounds(
        limits,
        theta,
        uncertainty,
        Workspace.of(model, floor, None if corners is None else corners.reshape(2, 3), tip),
        None if radius is None else link_capsules(model, radius, tip),
        clearance,
    )
    task = Task(
        _basis(family, time, harmonics, frequency, pieces), information, bounds, _numbers(start, "--start")
    )
    with progress_bar(starts) as advance, _interruptible() as stop:
        plan = design_motion(
            task,
            starts,
            iterations,
            seed,
            workers=workers or default_threads(),
            progress=None if advance is None else lambda done, every, best: advance("starts", 1.0),
            stop=stop,
        )
    settings = {"seed": seed, "starts": starts, "iterations": iterations, "share": share, "rate": rate}
    paths = write_plan(plan, out, forms, rate, settings)
    print_diagnostics(diagnostics)
    for line in _lines(plan, theta is None, radius is None):
        say(line)
    for path in paths:
        say(f"written: {path}")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    # The first Ctrl-C ends the search and keeps the best motion, the second one ends the command.
    asked = []
    before = signal.getsignal(signal.SIGINT)

    def once(_number: int, _frame: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        say("interrupted: the best motion so far will be written", err=True)

    signal.signal(signal.SIGINT, once)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _information(
    model: RobotModel, config: Path | None, after: Path | None
) -> tuple[Information, Float | None]:
    from dynid.excite.after import information_after
    from dynid.excite.plan import information_of, prior_theta
    from dynid.recipe import Experiment
    from dynid.store import load

    if after is None:
        information = information_of(model, Experiment.read(config).terms())
        return information, prior_theta(model, information.terms)
    run = load(after)
    information = information_after(model, run.terms, run.factors, run.estimate.sigma)
    return information, run.estimate.parameters


def _basis(family: str, time: float, harmonics: int, frequency: float, pieces: int) -> Basis:
    from dynid.errors import UsageError
    from dynid.excite.basis import FourierBasis, SplineBasis

    if family == "fourier":
        return FourierBasis(time, harmonics, frequency, min(2.0, 0.2 * time))
    if family == "spline":
        return SplineBasis(time, pieces)
    raise UsageError("family", found=f"family '{family}'", expected="fourier or spline")


def _word(text: str, kind: type[Word], what: str) -> Word:
    from dynid.errors import UsageError

    try:
        return kind(text)
    except ValueError as error:
        known = ", ".join(kind)
        raise UsageError(what, found=f"{what} '{text}'", expected=f"one of {known}") from error


def _numbers(text: str | None, option: str, count: int | None = None) -> Float | None:
    import numpy as np

    from dynid.errors import UsageError

    if text is None:
        return None
    try:
        values = np.array([float(part) for part in text.split(",")])
    except ValueError:
        values = np.zeros(0)
    if not len(values) or not np.isfinite(values).all() or (count is not None and len(values) != count):
        expected = "numbers with commas between" if count is None else f"{count} numbers with commas between"
        raise UsageError("option-numbers", found=f"{option} '{text}'", expected=expected)
    return values


def _lines(plan: Plan, no_torque: bool, no_capsules: bool) -> list[str]:
    information = plan.task.information
    lines = [
        f"{information.robot.name}: {plan.trajectory.duration:g} s for {information.base.rank} base parameters, "
        f"condition number {plan.figures.condition:.3g}, log determinant {plan.figures.logdet:.4g}",
        f"criterion {information.criterion}: {plan.first:.4g} drawn, {plan.value:.4g} designed "
        f"({plan.starts} starts, {plan.iterations} iterations{', stopped' if plan.stopped else ''})",
        "tightest bounds:",
    ]
    kinds = dict.fromkeys(m.what for m in plan.margins)
    lines += [
        f"  {min((m for m in plan.margins if m.what == kind), key=lambda m: m.margin)}" for kind in kinds
    ]
    if no_torque:
        lines.append("not checked: torque (the description holds no masses)")
    if plan.task.bounds.workspace is None or not plan.task.bounds.workspace.names:
        lines.append("not checked: surroundings (give --floor, --box)")
    if no_capsules:
        lines.append("not checked: self-collision (give --radius)")
    return lines
