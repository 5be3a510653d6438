"""dynid statics: gravity and springs from static poses, and motion in two steps or one joint fit."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.cli.common import (
    AcceptOption,
    ConfigOption,
    ForceOption,
    RobotArgument,
    TopicOption,
    claim_output,
    print_diagnostics,
    say,
    set_results,
)
from dynid.cli.options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment
    from dynid.robot.model import RobotModel
    from dynid.verbs.statics import StaticPoses

PosesArgument = Annotated[
    list[Path], typer.Argument(help="Logs with static poses, or one table of poses.", metavar="POSES...")
]


@with_robot
def command(
    robot: RobotArgument,
    poses: PosesArgument,
    config: ConfigOption = None,
    topic: TopicOption = None,
    table: Annotated[
        bool,
        typer.Option("--table", help="POSES is a table with columns q_<joint>, tau_<joint>, from_<joint>."),
    ] = False,
    motion: Annotated[
        list[Path] | None,
        typer.Option("--motion", help="Log of a motion to fit in addition; may be repeated."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for the runs two_step and one_shot; requires --motion."),
    ] = None,
    accept: AcceptOption = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Identify gravity parameters and springs from static poses, and optionally a motion with or after them."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.identification.blocks import Blocks
    from dynid.identification.experiment import Experiment
    from dynid.run.store import check_output
    from dynid.signals.settings import Standstill
    from dynid.verbs.statics import balanced, identify_statics
    from dynid.verbs.summary import comparison_data, static_data, static_lines

    if (out is None) != (not motion):
        raise UsageError("statics-motion", found="--out or --motion alone", expected="both, or neither")
    if out is not None:
        for name in ("two_step", "one_shot"):
            claim_output(
                out / name, partial(check_output, out / name, (robot, *poses, *(motion or ())), force)
            )
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_topics(topic).with_accepted(accept).with_robot(robot_options)
    model = experiment.robot(robot, diagnostics)
    model, static_poses = _poses(experiment, poses, table, model, diagnostics)
    measured = balanced(model, static_poses, experiment.content.statics.made(Standstill).tolerance)
    if motion and out is not None:
        from dynid.identification.experiment import named_files, open_log
        from dynid.verbs.demo import save
        from dynid.verbs.statics import two_step
        from dynid.verbs.summary import comparison_lines

        training = open_log(experiment, motion, model, experiment.data.train, diagnostics)
        held_out = experiment.data.validate_on
        held_out_log = open_log(experiment, motion, model, held_out, diagnostics) if held_out else None
        result = two_step(
            model,
            measured,
            training,
            experiment.settings(),
            validation=held_out_log,
            experiment=experiment.to_dict(),
            files=named_files(robot, motion, config=config),
            diagnostics=diagnostics,
        )
        both = [("two_step", result.two_step), ("one_shot", result.one_shot)]
        lines = [*static_lines(result.static), "", *comparison_lines(both)]
        set_results(lambda: static_data(result.static) | comparison_data(both) | {"folder": out})
        for name, run in both:
            lines.append(f"report: {save(run, out / name, force)}")
    else:
        static = identify_statics(
            model,
            measured,
            experiment.terms(),
            seed=experiment.content.estimate.made(Blocks).seed,
            diagnostics=diagnostics,
        )
        set_results(lambda: static_data(static))
        lines = static_lines(static)
        diagnostics.require_found(accept or ())
    print_diagnostics(diagnostics)
    for line in lines:
        say(line)


def _poses(
    experiment: Experiment, files: list[Path], table: bool, robot: RobotModel, diagnostics: Diagnostics
) -> tuple[RobotModel, StaticPoses]:
    from dynid.base.errors import UsageError
    from dynid.identification.experiment import open_log
    from dynid.signals.settings import Standstill
    from dynid.verbs.statics import find_poses, read_poses

    if table:
        if len(files) != 1:
            raise UsageError("pose-tables", found=f"{len(files)} tables", expected="one table of poses")
        return robot, read_poses(files[0], robot)
    section = experiment.content.statics
    log = open_log(experiment, files, robot, section.poses, diagnostics)
    return log.robot, find_poses(log, section.made(Standstill))
