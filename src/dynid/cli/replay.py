"""dynid replay: the commands of a log in MuJoCo, with a stored model and with the robot as described."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ConfigOption, LogsArgument, TopicOption, print_diagnostics, say


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of a log of commands.", metavar="RUN")],
    logs: LogsArgument,
    config: ConfigOption = None,
    topic: TopicOption = None,
) -> None:
    """Replay commands in MuJoCo and print how far the simulated joints are from the measured ones."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.exporters.replay import replay
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.store import load

    stored = load(run)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.of_recipe(stored.recipe)
    experiment = experiment.with_topics(topic)
    wanted = experiment.data.validate_on or experiment.data.train
    log = open_log(experiment, logs, stored.robot, wanted, diagnostics)
    found = replay(stored, log, diagnostics)
    print_diagnostics(diagnostics)
    for line in found.lines():
        say(line)
