"""dynid excite: an informative motion and stays within its limits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.cli.common import ConfigOption, RobotArgument, claim_output, print_diagnostics, say, set_results
from dynid.cli.robot_options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.excitation.export import Format
    from dynid.excitation.plan import Sheet

PER_JOINT = "one number for all joints, or one each, with commas between."


@with_robot
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
        str,
        typer.Option("--family", help="fourier, spline, sweep (friction), poses (static) or torque-sines."),
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
    knots: Annotated[
        str | None, typer.Option("--knots", help="Times of its inner knots, s, with commas between.")
    ] = None,
    free_knots: Annotated[
        int,
        typer.Option("--free-knots", min=0, help="Vectors of knots that are tried beside the uniform one."),
    ] = 0,
    resume: Annotated[
        Path | None, typer.Option("--resume", help="Plan to go on from; same family and --time.")
    ] = None,
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
        float | None,
        typer.Option(
            "--uncertainty",
            min=0,
            help="Share by which torque may exceed the model's. Default: 0.1, or the covariance of a run.",
        ),
    ] = None,
    sigmas: Annotated[
        float,
        typer.Option("--sigmas", min=0, help="Standard deviations of a run's torque that limits keep free."),
    ] = 3.0,
    noise: Annotated[
        str | None, typer.Option("--noise", help="Expected deviation of the torque, N m (N): " + PER_JOINT)
    ] = None,
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
    clearance: Annotated[float, typer.Option("--clearance", min=0, help="Between capsules, m.")] = 0.02,
    run: Annotated[
        Path | None, typer.Option("--run", help="Run folder of the current model, for torque limits.")
    ] = None,
    after: Annotated[
        Path | None,
        typer.Option("--after", help="The same, and what it recorded counts: what to record next."),
    ] = None,
    config: ConfigOption = None,
    form: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            help="csv, parquet, ros2, rosbag2, ros2_control, urscript, movej, libfranka, kuka_rsi, kuka_fri, "
            "lerobot or mujoco; may be repeated.",
        ),
    ] = None,
    rate: Annotated[float, typer.Option("--rate", help="Rate of the written motion, Hz.")] = 100.0,
    starts: Annotated[int, typer.Option("--starts", min=1, help="Starts that are optimised.")] = 4,
    iterations: Annotated[int, typer.Option("--iterations", min=1, help="Most iterations a start.")] = 80,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the starts.")] = 0,
    workers: Annotated[
        int | None, typer.Option("--workers", min=1, help="Processes; the motion does not depend on it.")
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing plan.")] = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Design a motion worth recording, within all limits, and write it in the forms that controllers read."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.cli.excite_model import Knowledge, as_in_run, current_of
    from dynid.cli.excite_motion import Search, Wanted, plan_of
    from dynid.cli.excite_parts import Given, bounds_of, check_formats, formats, word
    from dynid.excitation.criteria import Criterion
    from dynid.excitation.folder import check_output
    from dynid.identification.experiment import Experiment

    inputs = [robot, *(path for path in (resume, run, after, config) if path is not None)]
    claim_output(out, lambda: check_output(out, inputs, force))
    forms, kind = formats(form), word(criterion, Criterion, "criterion")
    given = Given(
        share, velocity, acceleration, jerk, torque, lower, upper, payload, floor, box, plane or [], tool,
        radius, shapes, clearance,
    )  # fmt: skip
    wanted = Wanted(
        family, time, motions, focus or [], harmonics, frequency, pieces, start, speeds, joint or [], poses,
        knots, free_knots, resume,
    )  # fmt: skip
    diagnostics = Diagnostics()
    model = Experiment.read(config).with_robot(robot_options).robot(robot, diagnostics)
    model = as_in_run(model, run or after, diagnostics)
    check_formats(forms, model, family, rate, time)
    current = current_of(model, Knowledge(config, run, after, uncertainty, sigmas, noise), kind)
    bounds = bounds_of(model, robot, current, given)
    if wider := bounds.limits.partial_share(model, share):
        diagnostics.warn(
            "limits-raised", "the plan goes beyond the description's limits: " + ", ".join(wider)
        )
    plan = plan_of(wanted, Search(starts, iterations, seed, workers), current.information, bounds)
    settings = {"seed": seed, "starts": starts, "iterations": iterations, "share": share, "rate": rate}
    written = _write(plan, out, forms, rate, settings, force)
    print_diagnostics(diagnostics)
    _report(plan, written)


def _write(
    plan: Sheet, out: Path, forms: tuple[Format, ...], rate: float, settings: dict[str, Any], force: bool
) -> tuple[Path, ...]:
    from dynid.excitation.folder import write_plan
    from dynid.report.plan import plan_html

    return write_plan(plan, out, forms, rate, settings, plan_html(plan), force)


def _report(plan: Sheet, written: tuple[Path, ...]) -> None:
    from dynid.cli.excite_lines import lines, plan_data

    set_results(lambda: plan_data(plan) | {"written": written})
    for line in lines(plan):
        say(line)
    for path in written:
        say(f"written: {path}")
