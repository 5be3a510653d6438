"""dynid check: what is in a log, is it fit, and did the robot follow the plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import (
    AcceptOption,
    ConfigOption,
    LogsArgument,
    RootOption,
    TopicOption,
    print_diagnostics,
    say,
)
from dynid.cli.settings_options import Written, with_settings

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.excitation.tracking import Tracking
    from dynid.identification.experiment import Experiment
    from dynid.log.read import Log

LOOSE, LATE, LOST = 0.05, 0.02, 0.01


@with_settings
def command(
    logs: LogsArgument,
    robot: Annotated[str, typer.Option("--robot", help="Robot description: URDF, MJCF or dynid TOML.")],
    plan: Annotated[
        Path | None,
        typer.Option("--plan", help="Folder or trajectory.json of dynid excite: compare with the log."),
    ] = None,
    fit: Annotated[
        bool, typer.Option("--fit", help="Also fit the model and look for what its residuals give away.")
    ] = False,
    config: ConfigOption = None,
    topic: TopicOption = None,
    accept: AcceptOption = None,
    root: RootOption = None,
    *,
    written: Written,
) -> None:
    """Show trajectories, rates, gaps, ranges and pathologies of a log; exit with 4 if it is unfit."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment, open_log
    from dynid.log.checks import check_log
    from dynid.robot import load_robot

    diagnostics = Diagnostics()
    model = load_robot(Path(robot), root=root, diagnostics=diagnostics)
    experiment = Experiment.read(config).with_topics(topic).with_values(written).with_accepted(accept)
    diagnostics.accept(experiment.content.accept)
    experiment.settings()  # mistakes come to light before a log is read
    try:
        log = open_log(experiment, logs, model, experiment.data.train, diagnostics)
        if plan is not None:
            _compare(log, plan, diagnostics)
        for remark in log.remarks:
            if remark.severity == "note":
                say(remark.text)
        summary = check_log(log, diagnostics, experiment.terms().balances(model))
        for line in summary.lines():
            say(line)
        if fit:
            _fit(log, experiment, diagnostics)
        # A file's codes may be of the fit; a code that is given here is for what is looked at here.
        diagnostics.require_found(accept or ())
        say("fit for identification" + (", with the warnings below" if diagnostics.warnings else ""))
    finally:
        print_diagnostics(diagnostics)


def _fit(log: Log, experiment: Experiment, diagnostics: Diagnostics) -> None:
    from dynid.identification.pipeline import identify
    from dynid.verbs.summary import symptom_lines

    found = identify(log.robot, log, experiment.settings(), diagnostics=diagnostics)
    for line in symptom_lines(found):
        say(line)


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
