"""dynid inspect: what a robot description holds and what could be identified of it; the robot in 3-D."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.cli.common import ConfigOption, RobotArgument, print_diagnostics, say, set_results
from dynid.cli.robot_options import RobotOptions, with_robot

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment
    from dynid.robot.model import RobotModel
    from dynid.scene.scene import Scene


@with_robot
def command(
    robot: RobotArgument,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random states.")] = 0,
    html: Annotated[
        Path | None,
        typer.Option("--html", help="Page to write: the robot in 3-D, which opens in any browser."),
    ] = None,
    log: Annotated[
        Path | None, typer.Option("--log", help="Log whose motion the page shows, of its longest trajectory.")
    ] = None,
    config: ConfigOption = None,
    *,
    robot_options: RobotOptions,
) -> None:
    """Show the tree, joints, limits, prior masses, base parameters with their groupings in words; and the robot."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.identification.experiment import Experiment
    from dynid.robot import describe
    from dynid.verbs.inspection import describe_base

    def data() -> dict[str, Any]:
        from dynid.verbs.results import robot_data

        return robot_data(model, seed) | ({} if html is None else {"page": html})

    if log is not None and html is None:
        raise UsageError(
            "no-page", found="--log without --html", expected="--html PAGE, which shows its motion"
        )
    diagnostics = Diagnostics()
    experiment = Experiment.read(config).with_robot(robot_options)
    model = experiment.robot(robot, diagnostics)
    # Written first: a page that cannot be is known before anything is shown.
    drawn = None if html is None else _page(html, model, log, experiment, diagnostics)
    set_results(data)
    for line in (*describe(model), "", *describe_base(model, seed)):
        say(line)
    print_diagnostics(diagnostics)
    for item in diagnostics:
        if item.severity == "note":
            say(str(item), err=True)
    if drawn is not None:
        say("")
        say(drawn.shapes)
        say(f"page: {html}")


def _page(
    html: Path, robot: RobotModel, log: Path | None, experiment: Experiment, diagnostics: Diagnostics
) -> Scene:
    from dynid.base.atomic_write import staged_files
    from dynid.identification.experiment import open_log
    from dynid.scene import scene_of, scene_of_log, scene_page

    title = robot.name or "robot"
    if log is None:
        scene = scene_of(robot)
    else:
        scene = scene_of_log(open_log(experiment, [log], robot, (), diagnostics))
        title += f": motion of {log.name}"
    with staged_files(html) as (scratch,):
        scratch.write_text(scene_page(scene, title), encoding="utf-8")
    return scene
