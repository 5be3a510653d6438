"""dynid check: contents and quality of a log, and whether the robot followed the plan."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import (
    AcceptOption,
    AnswerOption,
    ConfigOption,
    ForceOption,
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
    from dynid.base.diagnostics import Diagnostics, Finding
    from dynid.excitation.tracking import Tracking
    from dynid.identification.experiment import Experiment
    from dynid.log.read import Log
    from dynid.log.summary import LogSummary
    from dynid.run.result import Identification

# Warnings about a plan: tracking error relative to the motion, delay (s), and share of the plan not recorded.
LOOSE, LATE, LOST = 0.05, 0.02, 0.01


@with_settings
@with_robot
def command(
    files: RobotLogsArgument,
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Folder or trajectory.json of dynid excite, to compare with the log."),
    ] = None,
    fit: Annotated[
        bool | None,
        typer.Option(
            "--fit/--no-fit",
            help="Also identify, and report what the fit shows. Default: yes, but not with --plan.",
            show_default=False,
        ),
    ] = None,
    config: ConfigOption = None,
    answer: AnswerOption = None,
    topic: TopicOption = None,
    accept: AcceptOption = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", help="Also write an HTML page with the signals over time and the findings marked."
        ),
    ] = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
    written: Written,
) -> None:
    """Show the contents of a log and its problems, also those that a fit reveals; exit code 4 if it cannot be used."""
    from dynid.robot.formats import named_as_robot

    robot, logs = (files[0], files[1:]) if named_as_robot(files[0]) else (None, files)
    if not logs:
        from dynid.base.errors import UsageError

        raise UsageError("no-log", found=f"a robot file, '{robot}', and no log", expected="ROBOT LOG...")
    if robot is None:
        if plan is not None or fit:
            from dynid.base.errors import UsageError

            raise UsageError("no-robot", found="--plan or --fit without a robot", expected="ROBOT LOG...")
        _list_columns(logs, config)
        return
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import DynidError
    from dynid.identification.experiment import Experiment
    from dynid.log.checks import check_log
    from dynid.run.validation import stage

    if out is not None:
        from dynid.exporters.export import check_targets

        check_targets([out], [path for path in (robot, *logs, config) if path is not None], force)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_values(written)
    experiment = experiment.with_accepted(accept).with_robot(robot_options)
    diagnostics.accept(experiment.content.accept)
    settings = experiment.settings()  # errors in settings are reported before a log is read
    log: Log | None = None
    summary: LogSummary | None = None
    fitted: Identification | None = None
    reason = ""
    try:
        experiment, log = open_training(experiment, robot, logs, diagnostics, answer)
        log = log.without_short(settings.preparation.shortest)
        if plan is not None:
            _compare(log, plan, diagnostics)
        for remark in log.remarks:
            if remark.level == "note":
                say(remark.text)
        fits = fit or (fit is None and plan is None)
        # The fit reports servo gains that it estimates; without a fit this check reports them.
        looked_at = _with_effort(log, experiment.settings().seed, Diagnostics() if fits else diagnostics)
        with progress_bar(log.duration) as progress:
            summary = check_log(
                looked_at,
                diagnostics,
                experiment.terms().balances(log.robot),
                stage(progress, "checking the log"),
            )
        for line in summary.lines():
            say(line)
        described = summary.describe()
        set_results(lambda: {"log": described})
        fitted = _fit(log, logs, experiment, diagnostics) if fits else None
        level = None if fitted is None else fitted.verdict.word
        # Codes in the experiment file may refer to the fit; codes given here must occur in this check.
        diagnostics.require_found(accept or ())
        set_results(lambda: {"verdict": level, "doubts": [doubt.code for doubt in diagnostics.doubts]})
        say(_answer(level, diagnostics))
    except DynidError as error:
        reason = str(error)
        raise
    finally:
        # A log that cannot be used needs to be looked at most.
        if out is not None and log is not None:
            _write_page(out, log, summary, [*log.remarks, *diagnostics], fitted, reason)
            say(f"wrote {out}")
        print_diagnostics(diagnostics)


def _write_page(
    out: Path,
    log: Log,
    summary: LogSummary | None,
    findings: list[Finding],
    fitted: Identification | None,
    reason: str,
) -> None:
    """Write a page with findings and signals; reason: why the check ended early, "" = it did not."""
    from html import escape

    from dynid.exporters.export import write_files
    from dynid.scene import document, motions_of, series_fragment

    # The verdict has the findings of the log among its own, and residual findings know their times.
    marked = [*findings, *(fitted.residual_findings if fitted is not None else ())]
    every = {finding.text: finding for finding in (*findings, *(fitted.verdict.findings if fitted else ()))}
    urgent: list[str] = []
    rest: list[str] = []
    for text, finding in every.items():
        place = f"{finding.place} " if str(finding.place) else ""
        title = finding.title or str(finding.level)
        entry = f'<li class="{finding.level}"><b>{escape(title)}</b>{escape(place + text)}</li>'
        (rest if finding.level in ("note", "good") else urgent).append(entry)
    if reason:
        urgent.insert(0, f'<li class="problem"><b>error</b>{escape(reason)}</li>')
    contents = "" if summary is None else escape("\n".join(summary.lines()))
    before = f"""<ul class="entries">{"".join(urgent)}</ul>
<details><summary>Contents of the log, and {len(rest)} notes</summary><ul class="entries">{"".join(rest)}</ul>
<pre class="lines">{contents}</pre></details>
"""
    title = f"{log.robot.name or 'robot'}: {', '.join(dict.fromkeys(x.file.name for x in log.trajectories))}"
    part = series_fragment(*motions_of(log, marked))
    write_files({out: document(title, (part,), before).encode()})


def _with_effort(log: Log, seed: int, diagnostics: Diagnostics) -> Log:
    """The log as it is identified: effort of commanded logs follows from servo gains, estimated if not declared."""
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
                {"path": entry.path, "streams": entry.streams, "left_out": entry.left_out}
                for entry in found_all
            ]
        }
    )
    for number, listing in enumerate(found_all):
        for line in (*([""] if number else []), *listing.lines(), *(entry.text for entry in listing.remarks)):
            say(line)
    say("")
    say("dynid check ROBOT LOG also checks whether these columns suit the joints of the robot")


def _answer(word: str | None, diagnostics: Diagnostics) -> str:
    doubts = ", ".join(dict.fromkeys(doubt.code for doubt in diagnostics.doubts))
    if word is None:
        seen = f"in doubt: {doubts}" if doubts else "no problem found in this log"
        return f"{seen} (checked without a fit; see --fit)"
    seen = (
        f"in doubt: {doubts}"
        if doubts
        else "not usable as it is"
        if word == "POOR"
        else "fit for identification"
    )
    return f"{seen}; verdict of the fit: {word}"


def _fit(log: Log, logs: list[Path], experiment: Experiment, diagnostics: Diagnostics) -> Identification:
    from dynid.identification.experiment import open_log
    from dynid.identification.pipeline import identify
    from dynid.verbs.summary import finding_lines

    held_out = None
    if experiment.data.validate_on:
        held_out = open_log(experiment, logs, log.robot, experiment.data.validate_on, diagnostics)
    # A doubt accepted in the file may already have occurred before the fit.
    settings = replace(experiment.settings(), accept=())
    with progress_bar(log.duration) as progress:
        result = identify(
            log.robot, log, settings, validation=held_out, diagnostics=diagnostics, progress=progress
        )
    for line in finding_lines(result):
        say(line)
    return result


def _compare(log: Log, plan: Path, diagnostics: Diagnostics) -> None:
    from dynid.base.errors import Place, UsageError
    from dynid.excitation.tracking import recorded_positions, track_any, union_missing
    from dynid.trajectories.codec import joints_of, read_motion

    planned = read_motion(plan)
    names = log.robot.joint_names
    if joints_of(planned.trajectory) != len(names) or (planned.joints and planned.joints != names):
        planned_joints = f"a plan for {', '.join(planned.joints) or joints_of(planned.trajectory)}"
        raise UsageError("plan-joints", found=planned_joints, expected="the joints " + ", ".join(names))
    found_all: list[Tracking] = []
    for trajectory in log.trajectories:
        place = Place(file=str(trajectory.file))
        tracking = track_any(planned.trajectory, names, *recorded_positions(log, trajectory), place)
        found_all.append(tracking)
        _show(trajectory.name, tracking, log.robot.prismatic)
        _warn(tracking, diagnostics)
    missing = union_missing(found_all)
    set_results(lambda: {"tracking": [vars(tracking) for tracking in found_all], "missing": missing})
    lost = float((missing[:, 1] - missing[:, 0]).sum()) / planned.trajectory.duration
    spans = ", ".join(f"{low:.2f} to {high:.2f} s" for low, high in missing)
    say(
        f"share of the plan in the log: {100 * (1 - lost):.1f} %"
        + (f"; missing: {spans}" if len(missing) else "")
    )
    if lost > LOST:
        diagnostics.warn("plan-incomplete", f"{100 * lost:.1f} % of the plan is missing in the log: {spans}")


def _show(name: str, tracking: Tracking, prismatic: tuple[bool, ...]) -> None:
    part = f"motion {tracking.part} of the plan" if tracking.part else "the plan"
    say(f"{name}: {part} starts at {tracking.start:.3f} s of the log")
    wide = max(len("joint"), *(len(joint) for joint in tracking.joint_names))
    head = ("RMS error", "largest", "at", "of the motion", "delay", "offset")
    say(f"  {'joint':<{wide}}" + "".join(f"{title:>15}" for title in head))
    for j, joint in enumerate(tracking.joint_names):
        unit = "mm" if prismatic[j] else "mrad"
        cells = (
            f"{1e3 * tracking.rms[j]:.2f} {unit}",
            f"{1e3 * tracking.worst[j]:.2f} {unit}",
            f"{tracking.worst_at[j]:.2f} s",
            f"{100 * tracking.share[j]:.1f} %",
            f"{round(1e3 * tracking.delay[j], 1) + 0.0:+.1f} ms",
            f"{round(1e3 * tracking.offset[j], 2) + 0.0:+.2f} {unit}",
        )
        say(f"  {joint:<{wide}}" + "".join(f"{cell:>15}" for cell in cells))


def _warn(tracking: Tracking, diagnostics: Diagnostics) -> None:
    from dynid.base.errors import Place

    for j, joint in enumerate(tracking.joint_names):
        if tracking.share[j] > LOOSE:
            diagnostics.warn(
                "plan-tracking",
                f"tracking error is {100 * tracking.share[j]:.0f} % of the motion, at most {tracking.worst[j]:.3g} at "
                f"{tracking.worst_at[j]:.2f} s; identification uses the measured motion, but limits were checked for "
                "the plan",
                Place(joint=joint),
            )
        if abs(tracking.delay[j]) > LATE:
            diagnostics.warn(
                "plan-delay",
                f"starts {1e3 * tracking.delay[j]:+.0f} ms relative to the other joints",
                Place(joint=joint),
            )
