"""dynid selftest: what the identification recovers if the model is true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ThreadsOption, TopicOption, print_diagnostics, progress_bar, say, set_results


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")],
    logs: Annotated[
        list[Path] | None,
        typer.Argument(help="Its logs, if the original files are missing.", metavar="[LOG...]"),
    ] = None,
    topic: TopicOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the noise.")] = 0,
    threads: ThreadsOption = None,
) -> None:
    """Simulate the model of a run on its own motion with its noise, identify it again, and show what is recovered."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.floating import refuse_floating
    from dynid.run.store import load
    from dynid.verbs.selftest import selftest
    from dynid.verbs.summary import identification_data

    stored = load(run)
    refuse_floating(stored.robot, "a self-test")
    diagnostics = Diagnostics()
    log = None
    if logs:
        experiment = Experiment.from_dict(stored.experiment).with_topics(topic)
        log = open_log(experiment, logs, stored.robot, experiment.data.train, Diagnostics())
    seconds = 0.0 if log is None else log.duration
    with progress_bar(seconds) as progress:
        result = selftest(stored, log, seed=seed, threads=threads, progress=progress, diagnostics=diagnostics)
    print_diagnostics(diagnostics)
    names, value, half = (
        result.refit.estimate.names,
        result.refit.estimate.value,
        result.refit.estimate.half_width(),
    )
    set_results(
        lambda: {
            "groups": [vars(entry) for entry in result.groups],
            "inside": result.share,
            "parameters": [
                {"parameter": name, "true": true, "value": entry, "half_width95": width}
                for name, true, entry, width in zip(names, result.truth, value, half, strict=True)
            ],
            "torque_error": result.torque_error,
            "missing": result.missing,
            "refit": identification_data(result.refit),
        }
    )
    for line in result.lines():
        say(line)
