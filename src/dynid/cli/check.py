"""dynid check: what is in a log, is it fit, and did the robot follow the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import (
    AcceptOption,
    AnswerOption,
    ConfigOption,
    RobotLogsArgument,
    TopicOption,
    open_training,
    print_diagnostics,
    progress_bar,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, Written, with_robot, with_settings

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.excitation.tracking import Tracking
    from dynid.identification.experiment import Experiment
    from dynid.log.read import Log

LOOSE, LATE, LOST = 0.05, 0.02, 0.01


@with_settings
@with_robot
def command(
    files: RobotLogsArgument,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Folder or trajectory.json of dynid excite: compare with the log."),
    ] = None,
    fit: Annotated[
        bool | None,
        typer.Option(
            "--fit/--no-fit",
            help="Identify as dynid identify would, and say what the fit shows; left out with --plan.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    answer: AnswerOption = None,
    topic: TopicOption = None,
    accept: AcceptOption = None,
    *,
    robot_options: RobotOptions,
    written: Written,
) -> None:
    """Show what is in a log and what speaks against it, by itself and by a fit; exit with 4 if it is unfit."""
    from dynid.robot.formats import named_as_robot

    robot, logs = (files[0], files[1:]) if named_as_robot(files[0]) else (None, files)
    if not logs:
        from dynid.base.errors import UsageError

        raise UsageError(
            "no-log", found=f"a robot description, '{robot}', and no log", expected="ROBOT LOG..."
        )
    if robot is None:
        if plan is not None or fit:
            from dynid.base.errors import UsageError

            raise UsageError("no-robot", found="--plan or --fit without a robot", expected="ROBOT LOG...")
        _list_columns(logs, config)
        return
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment
    from dynid.log.checks import check_log
    from dynid.run.validation import stage

    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_values(written)
    experiment = experiment.with_accepted(accept).with_robot(robot_options)
    diagnostics.accept(experiment.content.accept)
    experiment.settings()  # mistakes come to light before a log is read
    try:
        experiment, log = open_training(experiment, robot, logs, diagnostics, answer)
        if plan is not None:
            _compare(log, plan, diagnostics)
        for remark in log.remarks:
            if remark.severity == "note":
                say(remark.text)
        fits = fit or (fit is None and plan is None)
        # Gains that have to be estimated are a finding of the fit, which estimates them again, or else of this look.
        looked_at = _with_effort(log, experiment.settings().seed, Diagnostics() if fits else diagnostics)
        with progress_bar(log.duration) as progress:
            summary = check_log(
                looked_at,
                diagnostics,
                experiment.terms().balances(log.robot),
                stage(progress, "looking at the log"),
            )
        for line in summary.lines():
            say(line)
        set_results(lambda: {"log": summary.describe()})
        level = _fit(log, logs, experiment, diagnostics) if fits else None
        # A file's codes may be of the fit; a code that is given here is for what is looked at here.
        diagnostics.require_found(accept or ())
        set_results(lambda: {"verdict": level, "doubts": [one.identifier for one in diagnostics.doubts]})
        say(_answer(level, diagnostics))
    finally:
        print_diagnostics(diagnostics)


def _with_effort(log: Log, seed: int, diagnostics: Diagnostics) -> Log:
    """The log as it is identified: commands make an effort by gains that are estimated where nobody declared them."""
    from dynid.identification.commands import with_found_servo

    servo = log.robot.drive.servo
    if not log.channels.commanded or (servo is not None and servo.known):
        return log
    return replace(log, robot=with_found_servo(log.robot, log, seed, 1, diagnostics))


def _list_columns(logs: list[Path], config: Path | None) -> None:
    from dynid.identification.experiment import Experiment
    from dynid.log.summary import contents

    section = Experiment.read(config).content.log
    found_all = [contents(path, *((section.delimiter, section.decimal) if section else ())) for path in logs]
    set_results(
        lambda: {
            "logs": [
                {"path": one.path, "streams": one.streams, "left_out": one.left_out} for one in found_all
            ]
        }
    )
    for number, found in enumerate(found_all):
        for line in (*([""] if number else []), *found.lines(), *(one.text for one in found.remarks)):
            say(line)
    say("")
    say("dynid check ROBOT LOG says more: whether these columns are fit for its joints")


def _answer(word: str | None, diagnostics: Diagnostics) -> str:
    doubts = ", ".join(dict.fromkeys(one.identifier for one in diagnostics.doubts))
    if word is None:
        seen = f"in doubt: {doubts}" if doubts else "nothing speaks against this log"
        return f"{seen}, as far as can be seen without a fit (--fit)"
    seen = (
        f"in doubt: {doubts}" if doubts else "no use as it is" if word == "POOR" else "fit for identification"
    )
    return f"{seen}; dynid identify ends with {word}"


def _fit(log: Log, logs: list[Path], experiment: Experiment, diagnostics: Diagnostics) -> str:
    from dynid.identification.experiment import open_log
    from dynid.identification.pipeline import identify
    from dynid.verbs.summary import finding_lines

    unseen = None
    if experiment.data.validate_on:
        unseen = open_log(experiment, logs, log.robot, experiment.data.validate_on, diagnostics)
    # What a file accepts may have been found in the log before the fit.
    settings = replace(experiment.settings(), accept=())
    with progress_bar(log.duration) as progress:
        found = identify(
            log.robot, log, settings, validation=unseen, diagnostics=diagnostics, progress=progress
        )
    for line in finding_lines(found):
        say(line)
    return found.verdict.word


def _compare(log: Log, plan: Path, diagnostics: Diagnostics) -> None:
    from dynid.base.errors import Place, UsageError
    from dynid.excitation.tracking import recorded_positions, track_any, union_missing
    from dynid.trajectories.codec import joints_of, read_motion

    planned = read_motion(plan)
    names = log.robot.joint_names
    if joints_of(planned.trajectory) != len(names) or (planned.joints and planned.joints != names):
        found = f"a plan for {', '.join(planned.joints) or joints_of(planned.trajectory)}"
        raise UsageError("plan-joints", found=found, expected="the joints " + ", ".join(names))
    found_all: list[Tracking] = []
    for trajectory in log.trajectories:
        place = Place(file=str(trajectory.file))
        one = track_any(planned.trajectory, names, *recorded_positions(log, trajectory), place)
        found_all.append(one)
        _show(trajectory.name, one, log.robot.prismatic)
        _warn(one, diagnostics)
    missing = union_missing(found_all)
    set_results(lambda: {"tracking": [vars(one) for one in found_all], "missing": missing})
    lost = float((missing[:, 1] - missing[:, 0]).sum()) / planned.trajectory.duration
    spans = ", ".join(f"{low:.2f} to {high:.2f} s" for low, high in missing)
    say(f"of the plan recorded: {100 * (1 - lost):.1f} %" + (f"; missing: {spans}" if len(missing) else ""))
    if lost > LOST:
        diagnostics.warn("plan-incomplete", f"{100 * lost:.1f} % of the plan is not in the log: {spans}")


def _show(name: str, one: Tracking, prismatic: tuple[bool, ...]) -> None:
    what = f"motion {one.part} of the plan" if one.part else "the plan"
    say(f"{name}: {what} begins at {one.start:.3f} s of the log")
    wide = max(len("joint"), *(len(joint) for joint in one.joint_names))
    head = ("rms error", "worst", "at", "of the motion", "delay", "offset")
    say(f"  {'joint':<{wide}}" + "".join(f"{title:>15}" for title in head))
    for j, joint in enumerate(one.joint_names):
        unit = "mm" if prismatic[j] else "mrad"
        cells = (
            f"{1e3 * one.rms[j]:.2f} {unit}",
            f"{1e3 * one.worst[j]:.2f} {unit}",
            f"{one.worst_at[j]:.2f} s",
            f"{100 * one.share[j]:.1f} %",
            f"{round(1e3 * one.delay[j], 1) + 0.0:+.1f} ms",
            f"{round(1e3 * one.offset[j], 2) + 0.0:+.2f} {unit}",
        )
        say(f"  {joint:<{wide}}" + "".join(f"{cell:>15}" for cell in cells))


def _warn(one: Tracking, diagnostics: Diagnostics) -> None:
    from dynid.base.errors import Place

    for j, joint in enumerate(one.joint_names):
        if one.share[j] > LOOSE:
            diagnostics.warn(
                "plan-tracking",
                f"moves {100 * one.share[j]:.0f} % of its motion beside the plan, at worst by {one.worst[j]:.3g} at "
                f"{one.worst_at[j]:.2f} s; identification uses what was measured, but limits held for the plan",
                Place(joint=joint),
            )
        if abs(one.delay[j]) > LATE:
            diagnostics.warn(
                "plan-delay", f"is {1e3 * one.delay[j]:+.0f} ms off the common start", Place(joint=joint)
            )
