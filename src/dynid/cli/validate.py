"""dynid validate: score a stored model on held-out logs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import (
    AcceptOption,
    ConfigOption,
    LogsArgument,
    ThreadsOption,
    TopicOption,
    print_diagnostics,
    say,
    set_results,
)


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")],
    logs: LogsArgument,
    config: ConfigOption = None,
    topic: TopicOption = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file for the scores; must not exist.")
    ] = None,
    open_loop: Annotated[
        float | None,
        typer.Option(
            "--open-loop", help="Also simulate the model under this many seconds of measured torque."
        ),
    ] = None,
    picture: Annotated[
        Path | None, typer.Option("--picture", help="HTML page of the open-loop run; must not exist.")
    ] = None,
    accept: AcceptOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Predict the torque of other logs and print the errors per joint."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment, open_log
    from dynid.robot.load import with_fixed_base
    from dynid.run.floating import refuse_floating
    from dynid.run.serial import scores_to_dict
    from dynid.run.store import load
    from dynid.run.validation import validate
    from dynid.run.verdict import SAME_MOTION
    from dynid.verbs.summary import score_lines, write_scores

    _check_picture(open_loop, picture)
    stored = load(run)
    if open_loop is not None:
        refuse_floating(stored.robot, "a run in open loop")
    robot = with_fixed_base(stored.robot)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.from_dict(stored.experiment)
    experiment = experiment.with_topics(topic)
    diagnostics.accept(experiment.content.accept)
    log = open_log(experiment, logs, robot, experiment.data.validate_on, diagnostics)
    result = validate(stored, log, diagnostics, threads, accept=accept or ())
    if out is not None:
        write_scores(out, result.scores)
    print_diagnostics(diagnostics)
    set_results(lambda: {"scores": scores_to_dict(result.scores), "expected": result.expected})
    for line in score_lines(result.scores, result.expected):
        say(line)
    for note in diagnostics:
        if note.code == SAME_MOTION:
            say(f"  {note.text}")
    if open_loop is not None:
        from dynid.lab.open_loop_page import write_open_loop
        from dynid.verbs.schemes import drive

        driven = drive(stored, log, open_loop)
        set_results(lambda: {"open_loop": vars(driven)})
        say(f"open loop, {driven.t[-1] - driven.t[0]:.3g} s of measured torque:")
        for line in driven.lines():
            say(f"  {line}")
        if picture is not None:
            write_open_loop(driven, stored.robot.name or "robot", picture)
            say(f"picture: {picture}")


def _check_picture(open_loop: float | None, picture: Path | None) -> None:
    from dynid.base.errors import UsageError
    from dynid.base.files import refuse_existing

    if (open_loop is not None and not open_loop > 0) or (picture is not None and open_loop is None):
        raise UsageError(
            "open-loop-option",
            found=f"--open-loop {open_loop}, --picture {picture}",
            expected="--open-loop with seconds > 0, and --picture only with it",
        )
    if picture is not None:
        refuse_existing(picture, "choose another --picture")
