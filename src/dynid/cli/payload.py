"""dynid payload: identify a payload from a run and a log with the payload mounted."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

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
        Path, typer.Argument(help="Run folder of dynid identify, without payload.", metavar="RUN")
    ],
    log: Annotated[Path, typer.Argument(help="Log with the payload mounted.", metavar="LOG")],
    trajectory: Annotated[
        str, typer.Option("--trajectory", help="Trajectory of the log, by name or pattern.")
    ] = "*",
    without: Annotated[
        Path | None,
        typer.Option("--without", help="Log without payload, if the log of the run is missing."),
    ] = None,
    without_trajectory: Annotated[
        str, typer.Option("--without-trajectory", help="Trajectory of that log.")
    ] = "*",
    scale: Annotated[
        str | None,
        typer.Option(
            "--scale", help="What fixes the torque scale: gains, or description (masses of the robot file)."
        ),
    ] = None,
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference", help="Log with a payload of known mass, which fixes the torque scale instead."
        ),
    ] = None,
    reference_trajectory: Annotated[
        str, typer.Option("--reference-trajectory", help="Trajectory of that log.")
    ] = "*",
    reference_mass: Annotated[
        float | None, typer.Option("--reference-mass", help="Mass of that payload, kg.")
    ] = None,
    expected: Annotated[
        float | None, typer.Option("--expected", help="Mass to compare the result with, kg.")
    ] = None,
    tool: Annotated[
        str | None,
        typer.Option("--tool", help="Also print the payload for a controller: ur, franka, abb or kuka."),
    ] = None,
    flange: Annotated[
        str,
        typer.Option(
            "--flange", help="Pose of the flange in the last joint frame: x,y,z,roll,pitch,yaw in m and rad."
        ),
    ] = "0,0,0,0,0,0",
    out: Annotated[
        Path | None, typer.Option("--out", help="JSON file for the payload; must not exist.")
    ] = None,
    config: ConfigOption = None,
    topic: TopicOption = None,
    accept: AcceptOption = None,
    threads: ThreadsOption = None,
) -> None:
    """Identify mass, centre of mass and inertia of a payload, with intervals."""
    import json

    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.exporters.export import check_targets, write_files
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.store import load
    from dynid.verbs.payload import FORMS, payload, payload_data, payload_lines, tool_text

    if tool is not None and tool not in FORMS:
        raise UsageError("payload-tool", found=f"form '{tool}'", expected="one of " + ", ".join(FORMS))
    if expected is not None and not expected > 0:
        raise UsageError("expected-mass", found=f"a mass of {expected} kg", expected="a mass > 0")
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="one of --reference and --reference-mass",
            expected="both: a log and the mass of the load in it",
        )
    try:
        place = [float(part) for part in flange.split(",")]
    except ValueError:
        place = []
    if len(place) != 6:
        raise UsageError(
            "payload-flange",
            found=f"--flange {flange}",
            expected="six numbers: x, y, z in m, roll, pitch, yaw in rad",
        )
    if out is not None:
        check_targets([out], [log], force=None)
    stored = load(run)
    diagnostics = Diagnostics()
    experiment = Experiment.read(config) if config else Experiment.from_dict(stored.experiment)
    experiment = experiment.with_topics(topic)
    diagnostics.accept((*experiment.content.accept, *(accept or ())))
    loaded = open_log(experiment, [log], stored.robot, [trajectory], diagnostics)
    known, alone = (
        None if path is None else open_log(experiment, [path], stored.robot, [pattern], diagnostics)
        for path, pattern in ((reference, reference_trajectory), (without, without_trajectory))
    )
    result = payload(
        stored,
        loaded,
        unloaded=alone,
        scale=scale,
        reference=known,
        reference_mass=reference_mass,
        threads=threads,
        diagnostics=diagnostics,
        accept=accept or (),
    )
    if out is not None:
        write_files({out: (json.dumps(payload_data(result, expected), indent=1) + "\n").encode()})
    print_diagnostics(diagnostics)
    set_results(lambda: payload_data(result, expected))
    for line in payload_lines(result, expected):
        say(line)
    if tool is not None:
        where = "the last joint's frame" if not any(place) else "the flange's frame"
        say(f"for the controller ({tool}), centre and axes in {where}:")
        say(tool_text(result, tool, place).rstrip("\n"))
