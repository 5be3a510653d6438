"""dynid show: a page with the robot in 3-D, moving as in a log, and the recorded signals over time."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import (
    AnswerOption,
    ConfigOption,
    ForceOption,
    RobotArgument,
    TopicOption,
    open_training,
    print_diagnostics,
    say,
)
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    out: Annotated[Path, typer.Option("--out", help="HTML page to write; must not exist.")],
    log: Annotated[
        Path | None,
        typer.Argument(
            help="Log whose motion is shown. Without it the robot does not move.", metavar="[LOG]"
        ),
    ] = None,
    trajectory: Annotated[
        str | None,
        typer.Option(
            "--trajectory",
            metavar="NAME",
            help="Trajectory to show. Default: the first that would be fitted.",
        ),
    ] = None,
    config: ConfigOption = None,
    answer: AnswerOption = None,
    topic: TopicOption = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Show the robot in 3-D, moving as recorded, and the signals of the log over time, on one offline page."""
    from glob import escape

    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.exporters.export import check_targets, write_files
    from dynid.identification.experiment import Experiment, open_log
    from dynid.scene import motions_of, scene_of, scene_of_log, scene_page, series_fragment

    if trajectory is not None and log is None:
        raise UsageError(
            "no-log", found=f"--trajectory {trajectory} without a log", expected="the log of this trajectory"
        )
    check_targets([out], [path for path in (robot, log, config) if path is not None], force)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_robot(robot_options)
    moved, signals = "", None
    if log is None:
        model = experiment.robot(robot, diagnostics)
        title, scene = model.name or "robot", scene_of(model)
    else:
        experiment, opened = open_training(experiment, robot, [log], diagnostics, answer)
        model = opened.robot
        title = model.name or "robot"
        if trajectory is not None:
            opened = open_log(experiment, [log], model, [escape(trajectory)], diagnostics)
        first = opened.trajectories[0].name
        scene = scene_of_log(opened, first)
        title += f", {first}" if first else ""
        moved = f", {scene.times[-1] - scene.times[0]:.1f} s of {first}"
        signals = series_fragment(*motions_of(opened, [*opened.remarks, *diagnostics]))
    write_files({out: scene_page(scene, title, signals).encode()})
    print_diagnostics(diagnostics)
    say(f"wrote {out}: {model.name or 'robot'}{moved}")
