"""dynid retrieve: physically consistent bodies from a table of dynamic coefficients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ForceOption, RobotArgument, print_diagnostics, say, set_results
from dynid.cli.robot_options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    table: Annotated[
        Path, typer.Argument(help="CSV: formula, value, and std if known.", metavar="COEFFICIENTS")
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="experiment.toml: [estimate] with method 'feasible'."),
    ] = None,
    rotors: Annotated[bool, typer.Option("--rotors", help="Formulas hold rotor inertias too.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file for the parameters; must not exist.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="URDF, MJCF, C or JSON file for the model, by its suffix.")
    ] = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Find masses, centres and inertias of physically consistent bodies behind dynamic coefficients."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.estimate import FeasibleFit
    from dynid.exporters.export import export_parameters
    from dynid.exporters.files import check_targets, write_files
    from dynid.identification.experiment import Experiment
    from dynid.verbs.retrieve import parameters_csv, read_coefficients, retrieval_lines, retrieve, terms_of

    experiment = Experiment.read(config).with_robot(robot_options)
    fit = experiment.settings().estimator if config else FeasibleFit()
    if isinstance(fit, FeasibleFit) and "strength" not in experiment.content.estimate.options:
        fit = replace(fit, strength=1.0)  # coefficients hold no blocks to choose it by
    if not isinstance(fit, FeasibleFit):
        raise UsageError(
            "retrieve-method", found=f"method '{fit.name}'", expected="[estimate] method = 'feasible'"
        )
    if out is not None:
        check_targets([out], [robot, table], force)
    diagnostics = Diagnostics()
    model, terms = experiment.robot(robot, diagnostics), terms_of(rotors)
    result = retrieve(model, read_coefficients(table, model, terms), terms, fit)
    if to is not None:
        theta = result.found.parameters
        for path in export_parameters(model, terms, theta, to, force=force, diagnostics=diagnostics):
            say(f"wrote {path}")
    if out is not None:
        write_files({out: parameters_csv(result)})
        say(f"wrote {out}")
    print_diagnostics(diagnostics)
    set_results(
        lambda: {
            "cost": result.cost,
            "strength": result.strength,
            "held_by": result.found.active,
            "parameters": [
                {"name": column.name, "value": value, "unit": column.unit}
                for column, value in zip(terms.columns(model), result.found.parameters, strict=True)
            ],
        }
    )
    for line in retrieval_lines(result):
        say(line)
