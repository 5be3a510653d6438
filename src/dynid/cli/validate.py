"""dynid validate: score a stored model on logs that it has not seen."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ConfigOption, LogsArgument, ThreadsOption, print_diagnostics, say


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")],
    logs: LogsArgument,
    config: ConfigOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file to write the scores to; must not exist.")
    ] = None,
    threads: ThreadsOption = None,
) -> None:
    """Predict the torque of other logs and print the errors by joint."""
    from dynid.diagnostics import Diagnostics
    from dynid.recipe import Experiment, open_log
    from dynid.store import load
    from dynid.summary import score_lines, write_scores
    from dynid.validation import validate

    stored = load(run)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.of_recipe(stored.recipe)
    log = open_log(experiment, logs, stored.robot, experiment.data.validate_on, diagnostics)
    result = validate(stored, log, diagnostics, threads)
    if out is not None:
        write_scores(out, result.scores)
    print_diagnostics(diagnostics)
    for line in score_lines(result.scores):
        say(line)
