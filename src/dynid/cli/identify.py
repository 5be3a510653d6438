"""dynid identify: robot and logs in, a run folder out."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import (
    ConfigOption,
    ForceOption,
    LogsArgument,
    RobotArgument,
    RootOption,
    ThreadsOption,
    print_diagnostics,
    progress_bar,
    say,
)


def command(
    robot: RobotArgument,
    logs: LogsArgument,
    out: Annotated[Path, typer.Option("--out", help="Run folder to write; must not exist.")],
    config: ConfigOption = None,
    validation: Annotated[
        list[Path] | None, typer.Option("--validate", help="Log to hold out; may be repeated.")
    ] = None,
    root: RootOption = None,
    threads: ThreadsOption = None,
    force: ForceOption = False,
) -> None:
    """Identify the robot's dynamics, judge the model on data it has not seen, and write a run folder."""
    from dynid.diagnostics import Diagnostics  # noqa: PLC0415
    from dynid.pipeline import identify  # noqa: PLC0415
    from dynid.recipe import Experiment, open_log  # noqa: PLC0415
    from dynid.robot import load_robot  # noqa: PLC0415
    from dynid.store import check_output, save  # noqa: PLC0415
    from dynid.summary import identification_lines  # noqa: PLC0415

    held_out = tuple(validation or ())
    inputs = (robot, *logs, *held_out, *((config,) if config else ()))
    check_output(out, inputs, force)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config)
    model = load_robot(robot, root=root, diagnostics=diagnostics)
    training = open_log(experiment, logs, model, experiment.data.train, diagnostics)
    unseen = None
    if held_out or experiment.data.validate_on:
        unseen = open_log(
            experiment, held_out or tuple(logs), model, experiment.data.validate_on, diagnostics
        )
    with progress_bar(training.duration) as progress:
        result = identify(
            model,
            training,
            experiment.settings(),
            validation=unseen,
            threads=threads,
            progress=progress,
            recipe=experiment.recipe(robot, logs, held_out),
            diagnostics=diagnostics,
        )
    report = save(result, out, force)
    print_diagnostics(result.diagnostics)
    for line in (*identification_lines(result), f"report: {report}"):
        say(line)
