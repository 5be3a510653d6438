"""dynid check: what is in a log, and is it fit."""

from __future__ import annotations

from typing import Annotated

import typer

from dynid.cli.common import ConfigOption, LogsArgument, RootOption, print_diagnostics, say


def command(
    logs: LogsArgument,
    robot: Annotated[str, typer.Option("--robot", help="Robot description: URDF, MJCF or dynid TOML.")],
    config: ConfigOption = None,
    root: RootOption = None,
) -> None:
    """Show trajectories, rates, gaps, ranges and pathologies of a log; exit with 4 if it is unfit."""
    from pathlib import Path

    from dynid.diagnostics import Diagnostics
    from dynid.log.checks import check_log
    from dynid.recipe import Experiment, open_log
    from dynid.robot import load_robot

    diagnostics = Diagnostics()
    model = load_robot(Path(robot), root=root, diagnostics=diagnostics)
    experiment = Experiment.read(config)
    try:
        summary = check_log(
            open_log(experiment, logs, model, experiment.data.train, diagnostics),
            diagnostics,
            experiment.terms().balances(model),
        )
        for line in summary.lines():
            say(line)
        say("fit for identification" + (", with the warnings below" if diagnostics.warnings else ""))
    finally:
        print_diagnostics(diagnostics)
