"""dynid retrieve: physically consistent links from a table of dynamic coefficients."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

import typer

from dynid.cli.common import ForceOption, RobotArgument, print_diagnostics, progress_bar, say, set_results
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    table: Annotated[
        Path,
        typer.Argument(help="CSV with columns formula, value, and optionally std.", metavar="COEFFICIENTS"),
    ],
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="experiment.toml whose [estimate] has the method 'feasible'."),
    ] = None,
    rotors: Annotated[bool, typer.Option("--rotors", help="Formulas include rotor inertias.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file for the parameters; must not exist.")
    ] = None,
    to: Annotated[
        Path | None, typer.Option("--to", help="URDF, MJCF, C or JSON file for the model, by its suffix.")
    ] = None,
    method: Annotated[
        Literal["cone", "penalty"],
        typer.Option(
            "--method",
            help="cone: one convex program with the global minimum. penalty: Algorithm 1 of Gaz et al. 2019, for "
            "rules of any form.",
        ),
    ] = "cone",
    total_mass: Annotated[
        tuple[float, float] | None,
        typer.Option(
            "--total-mass", help="Smallest and largest sum of the masses, kg.", metavar="LEAST MOST"
        ),
    ] = None,
    box: Annotated[
        Path | None,
        typer.Option(
            "--box",
            help="penalty: CSV name,least,most with bounds of m3, cx3, Icxx3, ...; others from the robot file.",
        ),
    ] = None,
    rule: Annotated[
        list[str] | None,
        typer.Option("--rule", help="penalty: rule registered by a plug-in; may be repeated."),
    ] = None,
    runs: Annotated[
        int, typer.Option("--runs", min=1, help="penalty: number of runs from random starts.")
    ] = 10,
    seed: Annotated[int, typer.Option("--seed", min=0, help="penalty: seed of starts and annealing.")] = 0,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Find masses, centres of mass and inertias of physically consistent links from dynamic coefficients."""
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import UsageError
    from dynid.estimate import FeasibleFit
    from dynid.exporters.export import check_targets, export_parameters, write_files
    from dynid.identification.experiment import Experiment
    from dynid.papers.annealing import Annealing
    from dynid.papers.retrieve import (
        default_box,
        feasible_by_penalty,
        feasible_from_coefficients,
        parameters_csv,
        read_box,
        read_coefficients,
        retrieval_lines,
        rules_by_name,
        terms_of,
    )

    experiment = Experiment.read(config).with_robot(robot_options)
    fit = experiment.settings().estimator if config else FeasibleFit()
    if not isinstance(fit, FeasibleFit):
        raise UsageError(
            "retrieve-method", found=f"method '{fit.name}'", expected="[estimate] method = 'feasible'"
        )
    if method == "cone" and (box is not None or rule):
        raise UsageError(
            "retrieve-method",
            found="--box or --rule with the method 'cone'",
            expected="--method penalty, which takes any rule",
        )
    if total_mass is not None:
        fit = replace(fit, total_mass=total_mass)
    if out is not None:
        check_targets([out], [robot, table], force)
    diagnostics = Diagnostics()
    model, terms = experiment.robot(robot, diagnostics), terms_of(rotors)
    coefficients = read_coefficients(table, model, terms)
    if method == "penalty":
        columns = terms.columns(model)
        bounds = default_box(model, columns, fit.total_mass)
        with progress_bar(runs) as bar:
            result = feasible_by_penalty(
                model,
                coefficients,
                terms,
                fit,
                rules=rules_by_name(rule or ()),
                box=bounds if box is None else read_box(box, bounds, columns),
                how=Annealing(runs=runs, seed=seed),
                progress=None if bar is None else lambda share: bar("runs", 1.0),
            )
    else:
        result = feasible_from_coefficients(model, coefficients, terms, fit)
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
            "held_by": getattr(result.found, "active", None),  # of the cone program alone
            "parameters": [
                {"name": column.name, "value": value, "unit": column.unit}
                for column, value in zip(terms.columns(model), result.found.parameters, strict=True)
            ],
        }
    )
    for line in retrieval_lines(result):
        say(line)
