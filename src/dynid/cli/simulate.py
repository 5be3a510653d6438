"""dynid simulate: simulate a robot and write the log of its sensors."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import RobotArgument, completes, print_diagnostics, progress_bar, say, set_results
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    out: Annotated[
        Path, typer.Option("--out", help="Log to write (with --runs a folder of logs); must not exist.")
    ],
    trajectory: Annotated[
        str,
        typer.Option("--trajectory", help="JSON file, random:SEED, or random (another motion in each run)."),
    ] = "random:0",
    controller: Annotated[
        str,
        typer.Option(
            "--controller",
            autocompletion=completes(lambda: ("ideal", "pd", "computed-torque", "open-loop:")),
            help="ideal, pd, computed-torque, open-loop:LOG, or a TOML file.",
        ),
    ] = "ideal",
    sensors: Annotated[
        Path | None,
        typer.Option("--sensors", help="TOML file of the sensors. Without it the log has no noise."),
    ] = None,
    plant: Annotated[
        Path | None, typer.Option("--plant", help="TOML file: elastic joints, payload, friction, integrator.")
    ] = None,
    simulator: Annotated[
        str,
        typer.Option(
            "--simulator", autocompletion=completes(lambda: ("dynid", "mujoco")), help="dynid or mujoco."
        ),
    ] = "dynid",
    duration: Annotated[float, typer.Option("--duration", help="Length of a random trajectory, s.")] = 20.0,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of sensors and random trajectories.")] = 0,
    runs: Annotated[
        int | None, typer.Option("--runs", min=1, help="Number of Monte Carlo runs, each with its own seed.")
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers", min=1, help="Number of processes; logs do not depend on it. Default: all cores."
        ),
    ] = None,
    *,
    robot_options: RobotOptions,
) -> None:
    """Simulate a robot along a trajectory and write the log of its sensors."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.files import refuse_existing
    from dynid.base.parallel import default_threads
    from dynid.lab.campaign import Campaign, record, run_campaign
    from dynid.lab.rig import Rig
    from dynid.lab.setup import TrajectoryChoice, read_setup
    from dynid.robot import Reading, read_robot

    refuse_existing(out, "choose another --out")
    diagnostics = Diagnostics()
    model = read_robot(robot, Reading(**robot_options), diagnostics)
    campaign = Campaign(
        read_setup(model, controller, plant, simulator),
        TrajectoryChoice.read(trajectory, model, duration),
        Rig() if sensors is None else Rig.read(sensors),
        seed,
    )
    if runs is None:
        record(campaign, out)
        set_results(lambda: {"logs": [out]})
        say(f"log: {out}")
    else:
        with progress_bar(float(runs)) as progress:
            paths = run_campaign(campaign, out, runs, workers or default_threads(), progress)
        set_results(lambda: {"logs": paths})
        say(f"{len(paths)} logs: {out}")
    print_diagnostics(diagnostics)
