"""dynid inspect: what a robot description holds and what could be identified of it."""

from __future__ import annotations

from typing import Annotated

import typer

from dynid.cli.common import RobotArgument, RootOption, print_diagnostics, say


def command(
    robot: RobotArgument,
    root: RootOption = None,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the random states.")] = 0,
) -> None:
    """Show the tree, joints, limits, prior masses, and the base parameters with their groupings in words."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.robot import describe, load_robot
    from dynid.verbs.inspection import describe_base

    diagnostics = Diagnostics()
    model = load_robot(robot, root=root, diagnostics=diagnostics)
    for line in (*describe(model), "", *describe_base(model, seed)):
        say(line)
    print_diagnostics(diagnostics)
