"""dynid limits: limits of link parameters from shapes, for experiment.toml."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal, cast

import typer

from dynid.cli.common import RobotArgument, completes, print_diagnostics, say, set_results
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    out: Annotated[
        Path | None, typer.Option("--out", help="TOML file to write; must not exist. Default: print it.")
    ] = None,
    geometry: Annotated[
        str,
        typer.Option(
            "--geometry",
            autocompletion=completes(lambda: ("collision", "visual")),
            help="Shapes to use: collision or visual.",
        ),
    ] = "collision",
    *,
    robot_options: RobotOptions,
) -> None:
    """Compute limits of link parameters from the shapes of a URDF or MJCF, for the method 'feasible'."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UnfitDataError, UsageError
    from dynid.exporters.export import check_targets, write_files
    from dynid.feasible.limits import limits_from_description, limits_text
    from dynid.robot import Reading, read_robot

    if geometry not in ("collision", "visual"):
        raise UsageError("geometry", found=f"geometry '{geometry}'", expected="collision or visual")
    if out is not None:
        check_targets([out], [robot], force=None)
    diagnostics, reading = Diagnostics(), Reading(**robot_options)
    kind = cast(Literal["collision", "visual"], geometry)
    entries = limits_from_description(robot, reading, kind, diagnostics)
    print_diagnostics(diagnostics)
    if not entries:
        raise UnfitDataError(
            "no-shapes",
            found=f"no link with readable {geometry} shapes",
            expected="STL or OBJ meshes, boxes, cylinders or spheres",
        )
    set_results(lambda: {"limits": entries, "written": out})
    text = limits_text(entries, read_robot(robot, reading, Diagnostics()).body_names)
    if out is None:
        say(text)
    else:
        write_files({out: text.encode()})
        say(f"wrote {out}: hulls of {len(entries)} links for [[estimate.limits]]")
