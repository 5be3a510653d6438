"""dynid excite: design an informative motion within limits and without collisions."""

from __future__ import annotations

import math
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.cli.common import (
    ConfigOption,
    ForceOption,
    RobotArgument,
    claim_output,
    print_diagnostics,
    progress_bar,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.excitation.excite import Current
    from dynid.excitation.plan import Plan, Sheet
    from dynid.excitation.settings import MotionSettings
    from dynid.excitation.torque_plan import TorquePlan
    from dynid.robot.model import RobotModel


# Output of a plan.

# States at which the expected shrinkage of intervals is evaluated.
STATES = 2000


def plan_data(plan: Sheet, settings: MotionSettings) -> dict[str, Any]:
    """Figures, margins, checks and stages of a plan, as plain data."""
    from dynid.excitation.folder import checks_of
    from dynid.excitation.sequences import stages_of

    checks = checks_of(plan)
    return {
        "not_checked": checks.missing,
        "checked": checks.notes,
        "seconds": plan.trajectory.duration,
        "base_parameters": plan.information.base.rank,
        "figures": plan.figures,
        "margins": plan.margins,
        "verified": plan.verified,
        "stages": [stage for stage, _ in stages_of(plan, settings.output.stages)],
    }


def lines(plan: Sheet, settings: MotionSettings) -> list[str]:
    """Lines of text: missing checks, figures, the tightest bound of each kind, and the stages."""
    from dynid.excitation.folder import ALL_TOLD, checks_of
    from dynid.excitation.plan import Plan
    from dynid.excitation.torque_plan import TorquePlan

    information = plan.information
    checks = checks_of(plan)
    sheet = [checks.headline, *(checks.notes if checks.missing else ())]
    first = f"{information.robot.name}: {plan.trajectory.duration:.4g} s for {information.base.rank} base parameters"
    if plan.figures.condition < ALL_TOLD:
        first += f", condition number {plan.figures.condition:.3g}, log determinant {plan.figures.logdet:.4g}"
    sheet.append(first)
    if isinstance(plan, Plan | TorquePlan):
        name = "of the chosen quantities" if information.focus is not None else str(information.criterion)
        sheet.append(
            f"criterion {name}: {plan.first:.4g} drawn, {plan.value:.4g} designed "
            f"({_search_effort(plan)}{', stopped' if plan.stopped else ''})"
        )
    if information.recorded is not None and len(information.recorded):
        sheet.append(_expected_intervals(plan))
    sheet.append("tightest bounds:")
    for kind in dict.fromkeys(m.what for m in plan.margins):
        sheet.append(f"  {min((m for m in plan.margins if m.what == kind), key=lambda m: m.margin)}")
    sheet += _torque_lines(plan) if isinstance(plan, TorquePlan) else _reserve_lines(plan)
    return sheet + _stage_lines(plan, settings)


def _stage_lines(plan: Sheet, settings: MotionSettings) -> list[str]:
    from math import isfinite

    from dynid.excitation.sequences import stages_of

    sheet = ["speed   length   tool   torque of limit    power   tightest bound"]
    for stage, _ in stages_of(plan, settings.output.stages):
        torque = f"{100 * stage.torque_share:.0f} %" if isfinite(stage.torque_share) else "-"
        power = f"{stage.power:.4g} W" if isfinite(stage.power) else "-"
        rest = "" if stage.rests else "; not at rest at both ends"
        sheet.append(
            f"{100 * stage.share:4.0f} % {stage.seconds:6.4g} s {stage.tool_speed:5.2f} m/s {torque:>9} {power:>12}   "
            f"{stage.tightest}{rest}"
        )
    return sheet


def _expected_intervals(plan: Sheet) -> str:
    import numpy as np

    from dynid.excitation.design import shrinkage

    seconds = plan.trajectory.duration
    motion = plan.trajectory.motion(np.linspace(0.0, seconds, STATES))
    share = shrinkage(plan.information, motion, seconds)
    return (
        f"expected width of the run's intervals after this motion: {np.median(share):.2f} of the present (median), "
        f"{share.min():.2f} at best, {share.max():.2f} at worst"
    )


def _search_effort(plan: Plan | TorquePlan) -> str:
    from dynid.excitation.plan import Plan

    if isinstance(plan, Plan):
        return f"{plan.starts} starts, {plan.iterations} iterations"
    return f"{plan.generations} generations"


def _torque_lines(plan: TorquePlan) -> list[str]:
    from dynid.excitation.torque_plan import VARIANTS

    bounds = plan.task.bounds
    about = (
        f"with errors of up to {100 * bounds.uncertainty:g} % in masses and friction"
        if bounds.spread is None
        else "drawn from the run's covariance"
    )
    return [
        f"the plan commands torque; the motion stays within bounds for the model and for {VARIANTS} variants {about}",
        "the arm is not at rest at the end: switch to its position controller",
    ]


def _reserve_lines(plan: Sheet) -> list[str]:
    from dynid.excitation.limits import reserve_of

    bounds = plan.bounds
    reserve = reserve_of(plan.information.robot, plan.information.terms, bounds, plan.trajectory)
    if reserve is None:
        return []
    share = f"{100 * reserve.share:g} % of the torque"
    if not reserve.drawn:
        sheet = [f"torque limits keep a constant reserve of {share}, because no covariance is known:"]
    else:
        more = (
            f" and {share}, because the run does not determine all base parameters"
            if reserve.share > 0
            else ""
        )
        sheet = [
            f"torque limits keep a reserve of {reserve.sigmas:g} standard deviations from the run's covariance and "
            f"residuals{more} (at each instant {100 * reserve.rate:.5g} % stay within):"
        ]
    for joint in reserve.joints:
        of_limit = f", {100 * joint.share:.1f} % of the limit" if joint.limit < float("inf") else ", no limit"
        more = f", {joint.left_out:.3g} of {', '.join(reserve.left_out)}" if reserve.left_out else ""
        sheet.append(
            f"  {joint.joint}: up to {joint.largest:.3g}{of_limit}; largest torque {joint.peak:.4g}{more}"
        )
    if reserve.drawn:
        sheet.append(
            f"  {reserve.within} of {reserve.drawn} models drawn from the covariance keep all limits at all times"
        )
    return sheet


# Plan file of every plan folder, from which a search is resumed.
KEPT = "motion.toml"


@with_robot
def command(
    robot: RobotArgument,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder to write; must not exist. Default: the folder of --resume."),
    ] = None,
    plan: Annotated[
        Path | None,
        typer.Option(
            "--plan",
            help="motion.toml with all settings; 'dynid schema motion --template motion.toml' writes one.",
        ),
    ] = None,
    time: Annotated[
        float | None, typer.Option("--time", help="Length of the motion, s. Default: 30.")
    ] = None,
    floor: Annotated[
        float | None, typer.Option("--floor", help="Height of the floor, m: everything stays above it.")
    ] = None,
    run: Annotated[
        Path | None, typer.Option("--run", help="Run folder of the current model, for torque limits.")
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option("--after", help="As --run, and plan what to record in addition to its logs."),
    ] = None,
    config: ConfigOption = None,
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help="csv, parquet, ros2, rosbag2, ros2_control, urscript, movej, libfranka, kuka_rsi, kuka_fri, "
            "lerobot or mujoco; may be repeated.",
        ),
    ] = None,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Plan folder to resume, with its settings.")
    ] = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Design an informative motion within all limits, check it, and write it for robot controllers."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.excitation.excite import Following, bounds_of, check_output_settings, motion_of
    from dynid.excitation.folder import check_output

    target = out if out is not None else resume
    if target is None:
        raise UsageError("no-output", found="neither --out nor --resume", expected="--out FOLDER")
    settings = _settings(plan, resume)
    settings = _with_options(settings, time, floor, run, after, config, form)
    known = settings.known
    inputs = [
        robot,
        *(Path(path) for path in (plan, known.run, known.after, known.experiment) if path is not None),
    ]
    if resume is not None and resume.resolve() != target.resolve():
        inputs.append(resume)
    force = force or out is None
    claim_output(target, lambda: check_output(target, inputs, force))
    diagnostics = Diagnostics()
    model = _robot(robot, settings, robot_options, diagnostics)
    check_output_settings(settings, model)
    current = _current_model(model, settings, diagnostics)
    bounds = bounds_of(model, settings, current)
    if wider := bounds.limits.partial_share(model, settings.limits.share):
        diagnostics.warn("limits-raised", "the plan exceeds limits of the robot file: " + ", ".join(wider))
    # Sweeps and poses need no search, so their number of iterations is unknown.
    in_steps = settings.motion.family in ("sweep", "poses")
    searched = math.nan if in_steps else settings.search.starts * settings.search.iterations
    with progress_bar(searched) as advance:
        if advance is not None:
            advance("searching for motions within all bounds", 0.0)
        with interruptible() as stop:
            following = Following(_progress_to(advance), stop, resume)
            made = motion_of(settings, current.information, bounds, following)
        if advance is not None:
            advance("writing", 0.0)
        written = _write(made, target, settings, force)
    print_diagnostics(diagnostics)
    _report(made, settings, written)


def _settings(plan: Path | None, resume: Path | None) -> MotionSettings:
    from dynid.excitation.settings import MotionSettings, read_plan_file

    if plan is not None:
        return read_plan_file(plan)
    if resume is not None and (resume / KEPT).is_file():
        return read_plan_file(resume / KEPT)
    return MotionSettings()


def _with_options(
    settings: MotionSettings,
    time: float | None,
    floor: float | None,
    run: Path | None,
    after: Path | None,
    config: Path | None,
    form: list[str] | None,
) -> MotionSettings:
    from dynid.base.errors import UsageError
    from dynid.excitation.excite import with_values

    known = {"run": run, "after": after, "experiment": config}
    settings = with_values(
        settings,
        motion={"seconds": time},
        surroundings={"floor": floor},
        known={name: None if path is None else str(path) for name, path in known.items()},
        output={"formats": tuple(form) if form else None},
    )
    if settings.known.run is not None and settings.known.after is not None:
        raise UsageError(
            "run",
            found="--run and --after",
            expected="one of them",
            do="use --after alone: it also uses the model of that run",
        )
    if settings.known.after is not None and settings.limits.noise is not None:
        raise UsageError("noise", found="limits.noise with --after", expected="the noise of that run")
    return settings


def _robot(
    file: Path, settings: MotionSettings, options: RobotOptions, diagnostics: Diagnostics
) -> RobotModel:
    # Joints that were locked in the run are locked here as well.
    from dynid.identification.experiment import Experiment
    from dynid.robot.load import locked
    from dynid.run.store import load

    experiment = settings.known.experiment
    model = Experiment.read(None if experiment is None else Path(experiment)).with_robot(options)
    robot = model.robot(file, diagnostics)
    folder = settings.known.run or settings.known.after
    locked_joints = {} if folder is None else load(Path(folder)).robot.locked
    values = {joint: value for joint, value in locked_joints.items() if joint in robot.joint_names}
    return replace(locked(robot, values, "", diagnostics), source=str(file))


def _current_model(model: RobotModel, settings: MotionSettings, diagnostics: Diagnostics) -> Current:
    from dynid.base.errors import Place
    from dynid.excitation.design import Criterion
    from dynid.excitation.excite import correlated_joints, described, identified, per_joint
    from dynid.identification.experiment import Experiment
    from dynid.run.store import load

    known, limits = settings.known, settings.limits
    criterion, noise = Criterion(settings.motion.criterion), per_joint(limits.noise, model, "limits.noise")
    folder = known.run if known.after is None else known.after
    if folder is None:
        terms = Experiment.read(None if known.experiment is None else Path(known.experiment)).terms()
        return described(model, terms, criterion, noise, limits.uncertainty)
    run = load(Path(folder))
    if known.after is not None and (joints := correlated_joints(run)):
        diagnostics.warn(
            "expected-intervals",
            f"the residuals of {', '.join(joints)} in {folder} depend on the motion, so they are not noise; "
            "intervals after the new motion may be wider than expected",
        )
    return identified(
        model,
        run,
        criterion,
        go_on=known.after is not None,
        noise=noise,
        share=limits.uncertainty,
        sigmas=limits.sigmas,
        place=Place(file=folder),
    )


def _progress_to(advance: Callable[[str, float], None] | None) -> Callable[[int, int, float], None]:
    done = 0

    def update(now: int, _most: int, _best: float) -> None:
        nonlocal done
        if advance is not None and now > done:
            advance("iterations", float(now - done))
            done = now

    return update


@contextmanager
def interruptible() -> Iterator[Callable[[], bool]]:
    """Yield a function that tells whether Ctrl-C was pressed; a second Ctrl-C ends the command."""
    asked = []
    before = signal.getsignal(signal.SIGINT)

    def once(_number: int, _frame: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        say("interrupted: writing the best motion so far", err=True)

    signal.signal(signal.SIGINT, once)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)


def _write(plan: Sheet, out: Path, settings: MotionSettings, force: bool) -> tuple[Path, ...]:
    from dynid.excitation.folder import plan_html, write_plan

    return write_plan(plan, out, settings, plan_html(plan), force)


def _report(plan: Sheet, settings: MotionSettings, written: tuple[Path, ...]) -> None:

    set_results(lambda: plan_data(plan, settings) | {"written": written})
    for line in lines(plan, settings):
        say(line)
    for path in written:
        say(f"written: {path}")
