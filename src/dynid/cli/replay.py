"""dynid replay: a log's commands, or its torque and motion, by a stored model and by the robot as described."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ConfigOption, LogsArgument, TopicOption, print_diagnostics, say, set_results


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")],
    logs: LogsArgument,
    config: ConfigOption = None,
    topic: TopicOption = None,
) -> None:
    """Replay commands, or measured torque, by exported files; errors are printed, and stand in the run's report."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import ResourceError
    from dynid.identification.experiment import Experiment, open_log
    from dynid.lab.replay import Replay, replay
    from dynid.lab.torque_replay import TorqueReplay, replay_torque
    from dynid.report import write_report
    from dynid.run.store import keep_replay, load

    stored = load(run)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.from_dict(stored.experiment)
    experiment = experiment.with_topics(topic)
    wanted = experiment.data.validate_on or experiment.data.train
    log = open_log(experiment, logs, stored.robot, wanted, diagnostics)
    servo = stored.robot.drive.servo
    if servo is not None and servo.known and log.channels.commanded:
        found: Replay | TorqueReplay = replay(stored, log, diagnostics)
    else:
        found = replay_torque(stored, log)
    print_diagnostics(diagnostics)
    set_results(lambda: {"replay": found})
    for line in found.lines():
        say(line)
    try:
        write_report(
            keep_replay(run, found.plain() | {"logs": [str(one) for one in logs]}), run / "report.html"
        )
    except ResourceError as error:
        # A run that may only be read still is replayed.
        say(f"report: not written anew: {error.found}", err=True)
        return
    say(f"report: {run / 'report.html'}")
