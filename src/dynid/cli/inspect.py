"""dynid inspect: contents of a robot file, and which parameters can be identified."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from dynid.cli.common import RobotArgument, print_diagnostics, say, set_results
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    seed: Annotated[
        int, typer.Option("--seed", help="Seed of the random states that determine the base parameters.")
    ] = 0,
    *,
    robot_options: RobotOptions,
) -> None:
    """Show tree, joints, limits and prior masses of a robot file, and its base parameters as sums."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.robot import Reading, describe, read_robot
    from dynid.verbs.summary import describe_base

    def data() -> dict[str, Any]:
        from dynid.verbs.summary import robot_data

        return robot_data(model, seed)

    diagnostics = Diagnostics()
    model = read_robot(robot, Reading(**robot_options), diagnostics)
    set_results(data)
    for line in (*describe(model), "", *describe_base(model, seed)):
        say(line)
    print_diagnostics(diagnostics)
    for item in diagnostics:
        if item.level == "note":
            say(str(item), err=True)
