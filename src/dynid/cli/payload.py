"""dynid payload: identify a payload from a run and a log with it mounted, or from a force/torque sensor alone."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.cli.common import (
    AcceptOption,
    ConfigOption,
    ThreadsOption,
    TopicOption,
    completes,
    print_diagnostics,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.verbs.wrench_payload import WrenchPayload


@with_robot
def command(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="Run folder of dynid identify, without payload; with --wrench the robot file.",
            metavar="[RUN|ROBOT]",
            show_default=False,
        ),
    ] = None,
    log: Annotated[
        Path | None,
        typer.Argument(help="Log with the payload mounted.", metavar="[LOG]", show_default=False),
    ] = None,
    wrench: Annotated[
        str | None,
        typer.Option(
            "--wrench",
            help="Force/torque sensor of the log, by its name under [log.wrench]: needs no run and no torque.",
        ),
    ] = None,
    poses: Annotated[
        Path | None,
        typer.Option(
            "--poses",
            help="Instead of RUN and LOG: table of sensor poses qx, qy, qz, qw and wrenches fx to tz, in SI units.",
        ),
    ] = None,
    frame: Annotated[
        str | None,
        typer.Option(
            "--frame",
            help="Axes of the wrench's components, sensor or base; by default as declared, or by held-out error.",
        ),
    ] = None,
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
        typer.Option(
            "--tool",
            autocompletion=completes(lambda: ("ur", "franka", "abb", "kuka")),
            help="Also print the payload for a controller: ur, franka, abb or kuka.",
        ),
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
    *,
    robot_options: RobotOptions,
) -> None:
    """Identify mass, centre of mass and inertia of a payload, with intervals."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.exporters.export import check_targets
    from dynid.identification.experiment import Experiment, open_log
    from dynid.run.floating import refuse_floating
    from dynid.run.store import load
    from dynid.verbs.payload import FORMS, payload

    if tool is not None and tool not in FORMS:
        raise UsageError("payload-tool", found=f"form '{tool}'", expected="one of " + ", ".join(FORMS))
    if expected is not None and not expected > 0:
        raise UsageError("expected-mass", found=f"a mass of {expected} kg", expected="a mass > 0")
    if (reference is None) != (reference_mass is None):
        raise UsageError(
            "reference-mass",
            found="only one of --reference and --reference-mass",
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
    if frame is not None and wrench is None and poses is None:
        raise UsageError("wrench-frame", found="--frame alone", expected="--frame with --wrench or --poses")
    if poses is not None and (run is not None or log is not None or wrench is not None):
        raise UsageError("payload-poses", found="--poses with a robot or --wrench", expected="--poses alone")
    if poses is None and (run is None or log is None):
        raise UsageError(
            "payload-inputs",
            found="no log" if run is not None else "neither a run nor a robot",
            expected="RUN LOG, ROBOT LOG --wrench NAME, or --poses TABLE",
        )
    if poses is not None or wrench is not None:
        given = {"--without": without, "--scale": scale, "--reference": reference}
        for name in (name for name, value in given.items() if value is not None):
            raise UsageError(
                "payload-wrench",
                found=f"{name} with a force/torque sensor",
                expected=f"{name} with a run only",
            )
    if out is not None:
        check_targets([out], [path for path in (log, poses) if path is not None], force=None)
    if poses is not None or wrench is not None:
        diagnostics = Diagnostics()
        sensed = _from_wrench(
            run, log, poses, wrench, frame, trajectory, config, topic, robot_options, diagnostics
        )
        _report(sensed, "wrench", expected, tool, place, out, diagnostics)
        return
    if run is None or log is None:
        return
    if robot_options:
        raise UsageError(
            "payload-robot",
            found="options of a robot file, and a run",
            expected="these options with --wrench only",
            do="remove them",
        )
    stored = load(run)
    refuse_floating(stored.robot, "a payload")
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
    _report(result, "run", expected, tool, place, out, diagnostics)


def _from_wrench(
    robot: Path | None,
    log: Path | None,
    poses: Path | None,
    wrench: str | None,
    frame: str | None,
    trajectory: str,
    config: Path | None,
    topic: list[str] | None,
    robot_options: RobotOptions,
    diagnostics: Diagnostics,
) -> WrenchPayload:
    from dynid.identification.experiment import Experiment, open_log
    from dynid.verbs.wrench_payload import payload_from_wrench

    if poses is not None or robot is None or log is None:
        gravity = robot_options.get("gravity")
        return payload_from_wrench(poses, frame=frame, gravity=gravity, diagnostics=diagnostics)
    experiment = Experiment.read(config).with_topics(topic).with_robot(robot_options)
    model = experiment.robot(robot, diagnostics)
    if experiment.content.log is None:
        from dynid.layouts.propose import found_tables

        answers = {"log.effort.columns": "none"}
        tables, remark = found_tables(model, robot, [log], answers, None, with_effort=False)
        diagnostics.note(remark.code, remark.text, remark.place)
        experiment = experiment.with_robot(tables.pop("robot", {})).with_values(tables)
    opened = open_log(experiment, [log], model, [trajectory], diagnostics, wrench=wrench)
    return payload_from_wrench(opened, wrench, frame=frame, diagnostics=diagnostics)


def _report(
    result: Any,
    source: str,
    expected: float | None,
    tool: str | None,
    place: list[float],
    out: Path | None,
    diagnostics: Diagnostics,
) -> None:
    import json

    from dynid.exporters.export import write_files
    from dynid.verbs.payload import payload_data, payload_lines, tool_text
    from dynid.verbs.wrench_payload import wrench_payload_data, wrench_payload_lines

    of_run = source == "run"
    data = (payload_data if of_run else wrench_payload_data)(result, expected)
    if out is not None:
        write_files({out: (json.dumps(data, indent=1) + "\n").encode()})
    print_diagnostics(diagnostics)
    set_results(lambda: data)
    for line in (payload_lines if of_run else wrench_payload_lines)(result, expected):
        say(line)
    if tool is not None:
        frame = "the last joint's frame" if of_run else "the sensor's frame"
        where = "the flange's frame" if any(place) else frame
        say(f"for the controller ({tool}), centre and axes in {where}:")
        say(tool_text(result, tool, place).rstrip("\n"))
