"""dynid convert: a log as a recording in SI units, which opens without a mapping, or as an MCAP file."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import (
    ConfigOption,
    ForceOption,
    LogsArgument,
    RobotArgument,
    TopicOption,
    open_training,
    print_diagnostics,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    logs: LogsArgument,
    out: Annotated[
        Path,
        typer.Option(
            "--out", "--to", help="Folder to write, or a file ending in .mcap for Foxglove and PlotJuggler."
        ),
    ],
    config: ConfigOption = None,
    topic: TopicOption = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Write logs as one recording in SI units, which every command reads without a mapping, or as an MCAP file."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.files import check_place
    from dynid.identification.experiment import Experiment
    from dynid.log.mapping import channel_map
    from dynid.verbs import write_mcap, write_recording
    from dynid.verbs.convert import KIND

    mcap = out.suffix.lower() == ".mcap"
    if mcap:
        from dynid.exporters.export import check_targets

        check_targets([out], (robot, *logs), force)
    else:
        check_place(out, (robot, *logs), force, KIND)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_robot(robot_options)
    try:
        experiment, log = open_training(experiment, robot, logs, diagnostics)
        diagnostics.extend(Diagnostics([*log.remarks]))
        if experiment.content.log is not None:  # all further channels, not only those that the model reads
            mapping = channel_map(experiment.content.log, log.robot, experiment.file, experiment.lines)
            log = log.with_extra(mapping.extra)
        written = write_mcap(log, out) if mcap else write_recording(log, out, force)
        motions = len(log.trajectories)
        say(f"written: {written} ({motions} {'motion' if motions == 1 else 'motions'}, {log.duration:.4g} s)")
        set_results(lambda: {"written": written, "motions": motions, "seconds": log.duration})
    finally:
        print_diagnostics(diagnostics)
