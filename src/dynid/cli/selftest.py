"""dynid selftest: what an identification recovers where its model is true."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ThreadsOption, TopicOption, print_diagnostics, progress_bar, say, set_results


def command(
    run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")],
    logs: Annotated[
        list[Path] | None,
        typer.Argument(help="Its logs, where they are not there any more.", metavar="[LOG...]"),
    ] = None,
    topic: TopicOption = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Of the noise.")] = 0,
    threads: ThreadsOption = None,
) -> None:
    """Simulate a run's model at its own motion with its noise, identify it again, and show what is recovered."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.store import load
    from dynid.verbs.selftest import selftest
    from dynid.verbs.summary import identification_data

    stored = load(run)
    diagnostics = Diagnostics()
    log = None
    if logs:
        experiment = Experiment.from_dict(stored.experiment).with_topics(topic)
        log = open_log(experiment, logs, stored.robot, experiment.data.train, Diagnostics())
    seconds = 0.0 if log is None else log.duration
    with progress_bar(seconds) as progress:
        found = selftest(stored, log, seed=seed, threads=threads, progress=progress, diagnostics=diagnostics)
    print_diagnostics(diagnostics)
    names, value, half = (
        found.refit.estimate.names,
        found.refit.estimate.value,
        found.refit.estimate.half_width(),
    )
    set_results(
        lambda: {
            "groups": [vars(one) for one in found.groups],
            "inside": found.share,
            "parameters": [
                {"parameter": name, "true": true, "value": one, "half_width95": width}
                for name, true, one, width in zip(names, found.truth, value, half, strict=True)
            ],
            "torque_error": found.torque_error,
            "missing": found.missing,
            "refit": identification_data(found.refit),
        }
    )
    for line in found.lines():
        say(line)
