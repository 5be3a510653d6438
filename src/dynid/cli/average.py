"""dynid average: average a repeated motion over its periods."""

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
    period: Annotated[float, typer.Option("--period", help="Period of the motion, s.")],
    out: Annotated[Path, typer.Option("--out", help="Log to write: .parquet or .csv.")],
    skip: Annotated[int, typer.Option("--skip", min=0, help="Number of periods to skip at the start.")] = 1,
    margin: Annotated[
        float, typer.Option("--margin", min=0.0, help="Time added on both sides for the filters, s.")
    ] = 0.5,
    config: ConfigOption = None,
    topic: TopicOption = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Average a repeated motion over its periods, and write one period and its noise level."""
    import numpy as np

    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment
    from dynid.log.own_columns import write_log
    from dynid.signals.first_look import average_periods, columns_of

    _refuse(out, (robot, *logs), force)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_robot(robot_options)
    try:
        experiment, log = open_training(experiment, robot, logs, diagnostics)
        means = average_periods(log, period, skip, diagnostics)
        parts = [columns_of(log, mean, margin) for mean in means]
        t = np.concatenate([times for times, _ in parts])
        columns = {name: np.concatenate([part[name] for _, part in parts]) for name in parts[0][1]}
        labels = [mean.trajectory for mean, (times, _) in zip(means, parts, strict=True) for _ in times]
        written = write_log(out, t, columns, labels)
        for mean in means:
            say(f"{mean.trajectory}: {mean.periods} periods of {mean.period:g} s, {len(mean.t)} samples each")
            say(f"  {'channel':<24}{'range':>12}{'noise':>12}{'of the mean':>14}")
            for name, line, noise in zip(mean.names, mean.mean, mean.noise, strict=True):
                say(f"  {name:<24}{np.ptp(line):>12.4g}{noise:>12.3g}{noise / np.sqrt(mean.periods):>14.3g}")
        set_results(
            lambda: {"written": written, "periods": {mean.trajectory: mean.periods for mean in means}}
        )
        say(f"written: {written}")
    finally:
        print_diagnostics(diagnostics)


def _refuse(out: Path, inputs: tuple[Path, ...], force: bool) -> None:
    """Raises RefusedError if `out` is one of the inputs or a folder, or exists and is not to be replaced."""
    from dynid.base.errors import RefusedError
    from dynid.base.files import refuse_existing

    if out.resolve() in {path.resolve() for path in inputs}:
        raise RefusedError(
            "output-is-input",
            found=f"output '{out}', which is also an input",
            expected="another file",
            do="choose another --out",
        )
    if out.is_dir():
        raise RefusedError("output-exists", found=f"output '{out}' is a folder", expected="a file name")
    if not force:
        refuse_existing(out, "choose another --out, or --force to replace it")
