"""dynid replay: replay a log with the exported model and with the original robot file."""

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
    """Replay the commands or torques of a log with exported files; print the errors and add them to the report."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import ResourceError
    from dynid.identification.experiment import Experiment, open_log
    from dynid.lab.replay import Replay, replay
    from dynid.lab.torque_replay import TorqueReplay, replay_torque
    from dynid.report import write_report
    from dynid.run.floating import refuse_floating
    from dynid.run.store import keep_replay, load

    stored = load(run)
    refuse_floating(stored.robot, "a replay")
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.from_dict(stored.experiment)
    experiment = experiment.with_topics(topic)
    wanted = experiment.data.validate_on or experiment.data.train
    log = open_log(experiment, logs, stored.robot, wanted, diagnostics)
    servo = stored.robot.drive.servo
    if servo is not None and servo.known and log.channels.commanded:
        result: Replay | TorqueReplay = replay(stored, log, diagnostics)
    else:
        result = replay_torque(stored, log)
    print_diagnostics(diagnostics)
    set_results(lambda: {"replay": result})
    for line in result.lines():
        say(line)
    try:
        write_report(
            keep_replay(run, result.plain() | {"logs": [str(path) for path in logs]}), run / "report.html"
        )
    except ResourceError as error:
        # A read-only run can still be replayed.
        say(f"report: not updated: {error.found}", err=True)
        return
    say(f"report: {run / 'report.html'}")
