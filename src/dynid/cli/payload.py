"""dynid payload: what a robot carries, from a run and a log with the load mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from dynid.cli.common import (
    AcceptOption,
    ConfigOption,
    ThreadsOption,
    TopicOption,
    print_diagnostics,
    say,
    set_results,
)


def command(
    run: Annotated[
        Path, typer.Argument(help="Run folder of dynid identify, without the load.", metavar="RUN")
    ],
    log: Annotated[Path, typer.Argument(help="Log with the load mounted.", metavar="LOG")],
    method: Annotated[str, typer.Option("--method", help="difference or joint.")] = "difference",
    free_friction: Annotated[
        bool, typer.Option("--free-friction", help="Let friction differ from the run's.")
    ] = False,
    trajectory: Annotated[
        str, typer.Option("--trajectory", help="Trajectory of the log, by name or pattern.")
    ] = "*",
    reference: Annotated[
        Path | None,
        typer.Option("--reference", help="Log with a load of known mass: calibrates the drive gains."),
    ] = None,
    reference_trajectory: Annotated[
        str, typer.Option("--reference-trajectory", help="Trajectory of that log.")
    ] = "*",
    reference_mass: Annotated[
        float | None, typer.Option("--reference-mass", help="Mass of that load, kg.")
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file to write the payload to; must not exist.")
    ] = None,
    config: ConfigOption = None,
    topic: TopicOption = None,
    accept: AcceptOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Find mass, centre and inertia of a payload, with intervals."""
    import json

    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.exporters.files import check_targets, write_files
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.store import load
    from dynid.verbs.payload import payload, payload_data, payload_lines

    if method not in ("difference", "joint"):
        raise UsageError("payload-method", found=f"method '{method}'", expected="difference or joint")
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="one of --reference and --reference-mass",
            expected="both: a log and the mass of the load in it",
        )
    if out is not None:
        check_targets([out], [log], force=False)
    stored = load(run)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.of_recipe(stored.recipe)
    experiment = experiment.with_topics(topic)
    diagnostics.accept((*experiment.content.accept, *(accept or ())))
    loaded = open_log(experiment, [log], stored.robot, [trajectory], diagnostics)
    known = (
        None
        if reference is None
        else open_log(experiment, [reference], stored.robot, [reference_trajectory], diagnostics)
    )
    found = payload(
        stored,
        loaded,
        method=cast(Literal["difference", "joint"], method),
        free_friction=free_friction,
        reference=known,
        reference_mass=reference_mass,
        threads=threads,
        diagnostics=diagnostics,
        accept=accept or (),
    )
    if out is not None:
        write_files({out: (json.dumps(payload_data(found), indent=1) + "\n").encode()})
    print_diagnostics(diagnostics)
    set_results(lambda: payload_data(found))
    for line in payload_lines(found):
        say(line)
