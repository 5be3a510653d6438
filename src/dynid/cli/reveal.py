"""dynid reveal: parameters of a known model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.base.units import with_interval
from dynid.cli.common import ForceOption, RobotArgument, print_diagnostics, say, set_results
from dynid.cli.options import RobotOptions, with_robot


@with_robot
def command(
    robot: RobotArgument,
    table: Annotated[
        Path, typer.Argument(help="CSV or Parquet: q_<joint>, M_<joint>_<joint>, g_<joint>.", metavar="TABLE")
    ],
    rotors: Annotated[bool, typer.Option("--rotors", help="Also estimate rotor inertias.")] = False,
    feasible: Annotated[
        bool, typer.Option("--feasible", help="Restrict to physically consistent links.")
    ] = False,
    out: Annotated[
        Path | None, typer.Option("--out", help="CSV file for the parameters; must not exist.")
    ] = None,
    bodies: Annotated[
        Path | None, typer.Option("--bodies", help="CSV file for every single parameter; must not exist.")
    ] = None,
    force: ForceOption = False,
    *,
    robot_options: RobotOptions,
) -> None:
    """Find the dynamic coefficients of a model from samples of its mass matrix and gravity torque."""
    import numpy as np

    from dynid.base.diagnostics import Diagnostics
    from dynid.exporters.export import check_targets, write_files
    from dynid.papers.reveal import parameters_from_model, read_model_table
    from dynid.robot import Reading, read_robot
    from dynid.terms.rigid_body import RigidBody
    from dynid.terms.rotor import RotorInertia
    from dynid.terms.term import Terms
    from dynid.verbs.summary import parameter_data

    check_targets([path for path in (out, bodies) if path is not None], [robot, table], force)
    diagnostics = Diagnostics()
    model = read_robot(robot, Reading(**robot_options), diagnostics)
    q, M, g = read_model_table(table, model)
    terms = RigidBody() + RotorInertia() if rotors else Terms((RigidBody(),))
    result = parameters_from_model(model, q, M, g, terms, feasible)
    estimate = result.estimate
    say(f"{estimate.base.rank} of {result.structural.rank} coefficients from {len(q)} samples")
    for name, error in (("mass matrix", result.mass_error), ("gravity torque", result.gravity_error)):
        if np.isfinite(error):
            say(f"{name}: largest error {error:.2g} of the largest entry")
    set_results(
        lambda: {
            "mass_matrix_misfit": result.mass_error,
            "gravity_misfit": result.gravity_error,
            "base_parameters": parameter_data(estimate),
        }
    )
    half = estimate.half_width()
    written: dict[Path, list[str]] = {}
    for name, unit, value, width in zip(estimate.names, estimate.units, estimate.value, half, strict=True):
        say(f"  {with_interval(value, width)} {unit}  {name}")
    if out is not None:
        lines = ["formula,unit,value,half_width_95"]
        rows = zip(estimate.names, estimate.units, estimate.value, half, strict=True)
        lines += [f'"{name}",{unit},{value:.17g},{width:.6g}' for name, unit, value, width in rows]
        written[out] = lines
    if bodies is not None:
        lines = ["parameter,unit,value"]
        values = zip(estimate.columns, estimate.parameters, strict=True)
        lines += [f"{column.name},{column.unit},{value:.17g}" for column, value in values]
        written[bodies] = lines
    write_files({path: ("\n".join(lines) + "\n").encode() for path, lines in written.items()})
    for name, path in (("parameters", out), ("every single parameter", bodies)):
        if path is not None:
            say(f"{name}: {path}")
    print_diagnostics(diagnostics)
