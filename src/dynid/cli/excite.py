"""dynid excite: a motion that tells much about the robot and stays within its limits."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ConfigOption, RobotArgument, RootOption, print_diagnostics, progress_bar, say

PER_JOINT = "one number for all joints, or one each, with commas between."


def command(
    robot: RobotArgument,
    out: Annotated[Path, typer.Option("--out", help="Folder to write; must not exist.")],
    time: Annotated[float, typer.Option("--time", help="Length of the motion, s.")] = 30.0,
    criterion: Annotated[
        str, typer.Option("--criterion", help="logdet, condition, trace or least.")
    ] = "logdet",
    focus: Annotated[
        list[str] | None,
        typer.Option(
            "--focus",
            help="What alone counts: a parameter (may be repeated), torque, torque:MOTION or payload.",
        ),
    ] = None,
    family: Annotated[
        str, typer.Option("--family", help="fourier, spline, sweep (friction) or poses (static).")
    ] = "fourier",
    motions: Annotated[
        int, typer.Option("--motions", min=1, help="Motions of --time each, designed together.")
    ] = 1,
    speeds: Annotated[
        str, typer.Option("--speeds", help="Of sweeps: shares of each velocity limit.")
    ] = "0.02,0.05,0.1,0.2,0.4",
    joint: Annotated[
        list[str] | None, typer.Option("--joint", help="Joint to sweep; may be repeated. Default: all.")
    ] = None,
    poses: Annotated[int, typer.Option("--poses", min=1, help="Number of static poses.")] = 20,
    harmonics: Annotated[int, typer.Option("--harmonics", min=1, help="Harmonics of a Fourier motion.")] = 5,
    frequency: Annotated[float, typer.Option("--frequency", help="Its first harmonic, Hz.")] = 0.1,
    pieces: Annotated[int, typer.Option("--pieces", min=6, help="Intervals between knots of a spline.")] = 20,
    start: Annotated[
        str | None, typer.Option("--start", help="Pose at both ends: one number a joint.")
    ] = None,
    share: Annotated[float, typer.Option("--share", help="Share of every joint limit to be used.")] = 0.95,
    velocity: Annotated[str | None, typer.Option("--velocity", help="Limits: " + PER_JOINT)] = None,
    acceleration: Annotated[str | None, typer.Option("--acceleration", help="Limits: " + PER_JOINT)] = None,
    jerk: Annotated[str | None, typer.Option("--jerk", help="Limits: " + PER_JOINT)] = None,
    torque: Annotated[str | None, typer.Option("--torque", help="Limits: " + PER_JOINT)] = None,
    lower: Annotated[str | None, typer.Option("--lower", help="Positions: " + PER_JOINT)] = None,
    upper: Annotated[str | None, typer.Option("--upper", help="Positions: " + PER_JOINT)] = None,
    uncertainty: Annotated[
        float, typer.Option("--uncertainty", min=0, help="Share by which torque may exceed the model's.")
    ] = 0.1,
    floor: Annotated[
        float | None, typer.Option("--floor", help="Height that all points stay above, m.")
    ] = None,
    box: Annotated[
        str | None, typer.Option("--box", help="Box that all points stay in: x0,y0,z0,x1,y1,z1, m.")
    ] = None,
    plane: Annotated[
        list[str] | None,
        typer.Option("--plane", help="nx,ny,nz,d: all points keep nx x + ny y + nz z <= d; may be repeated."),
    ] = None,
    tool: Annotated[
        str | None, typer.Option("--tool", help="Tool's point in the last joint frame: x,y,z, m.")
    ] = None,
    payload: Annotated[
        float, typer.Option("--payload", min=0, help="Mass at the tool, for torque limits, kg.")
    ] = 0.0,
    radius: Annotated[
        str | None,
        typer.Option("--radius", help="Radius of the links' capsules, m, or one each, with commas between."),
    ] = None,
    shapes: Annotated[
        bool, typer.Option("--shapes", help="Capsules round the collision shapes of the URDF.")
    ] = False,
    packages: Annotated[
        Path | None, typer.Option("--packages", help="Folder that package:// names of meshes start from.")
    ] = None,
    clearance: Annotated[float, typer.Option("--clearance", min=0, help="Between capsules, m.")] = 0.02,
    after: Annotated[
        Path | None, typer.Option("--after", help="Run folder of what was recorded: what to record next.")
    ] = None,
    config: ConfigOption = None,
    form: Annotated[
        list[str] | None,
        typer.Option("--format", help="csv, parquet, ros2, urscript or libfranka; may be repeated."),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Rate of the written motion, Hz.")] = 100.0,
    starts: Annotated[int, typer.Option("--starts", min=1, help="Starts that are optimised.")] = 4,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Most iterations a start.")] = 80,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the starts.")] = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; the motion does not depend on it.")
    ] = None,
    root: RootOption = None,
) -> None:
    """Design a motion worth recording, within all limits, and write it in the forms that controllers read."""
    from dynid.cli.excite_parts import (
        Given,
        bounds_of,
        family_of,
        focused,
        lines,
        model_of,
        numbers,
        refuse_with,
        required,
        word,
    )
    from dynid.diagnostics import Diagnostics
    from dynid.errors import UsageError
    from dynid.excite.design import Task
    from dynid.excite.export import Format
    from dynid.excite.folder import write_plan
    from dynid.excite.plan import Sheet, design_motion
    from dynid.excite.sequences import poses_plan, sweep_plan
    from dynid.parallel import default_threads
    from dynid.report.plan import plan_html
    from dynid.robot import load_robot
    from dynid.store import check_output

    check_output(out, (robot,))
    forms = tuple(word(name, Format, "format") for name in (form or ["csv"]))
    diagnostics = Diagnostics()
    model = load_robot(robot, root=root, diagnostics=diagnostics)
    if Format.URSCRIPT in forms and model.n != 6:
        raise UsageError("urscript", found=f"{model.n} joints", expected="six joints")
    given = Given(
        share, velocity, acceleration, jerk, torque, lower, upper, uncertainty, payload,
        floor, box, plane or [], tool, radius, shapes, packages, root, clearance,
    )  # fmt: skip
    information, theta = model_of(model, config, after, criterion)
    bounds = bounds_of(model, robot, information, theta, given)
    if wider := bounds.limits.beyond(model, share):
        diagnostics.warn(
            "limits-raised", "the plan goes beyond the description's limits: " + ", ".join(wider)
        )
    home = numbers(start, "--start", model.n)
    settings = {"seed": seed, "starts": starts, "iterations": iterations, "share": share, "rate": rate}
    plan: Sheet
    if family in ("sweep", "poses"):
        refuse_with(
            family,
            {
                "--motions": motions != 1,
                "--focus": bool(focus),
                "--start": bool(home is not None and family == "poses"),
            },
        )
    if family == "sweep":
        plan = sweep_plan(
            information, bounds, [float(x) for x in required(speeds, "--speeds")], joint or (), home
        )
    elif family == "poses":
        plan = poses_plan(information, bounds, poses, seed)
    else:
        basis = family_of(family, time, harmonics, frequency, pieces, motions)
        information = focused(information, focus or [], bounds, basis, home)
        task = Task(basis, information, bounds, home)
        with progress_bar(starts * iterations) as advance, _interruptible() as stop:
            done = 0

            def tell(now: int, _most: int, _best: float) -> None:
                nonlocal done
                if advance is not None and now > done:
                    advance("iterations", float(now - done))
                    done = now

            plan = design_motion(
                task,
                starts,
                iterations,
                seed,
                workers=workers or default_threads(),
                progress=tell,
                stop=stop,
            )
    paths = write_plan(plan, out, forms, rate, settings, plan_html(plan))
    print_diagnostics(diagnostics)
    for line in lines(plan):
        say(line)
    for path in paths:
        say(f"written: {path}")


@contextmanager
def _interruptible() -> Iterator[Callable[[], bool]]:
    # The first Ctrl-C ends the search and keeps the best motion, the second one ends the command.
    asked = []
    before = signal.getsignal(signal.SIGINT)

    def once(_number: int, _frame: object) -> None:
        asked.append(True)
        signal.signal(signal.SIGINT, before)
        say("interrupted: the best motion so far will be written", err=True)

    signal.signal(signal.SIGINT, once)
    try:
        yield lambda: bool(asked)
    finally:
        signal.signal(signal.SIGINT, before)
