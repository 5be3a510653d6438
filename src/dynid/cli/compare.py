"""dynid compare: several runs side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dynid.cli.common import ForceOption


def command(
    runs: Annotated[list[Path], typer.Argument(help="Run folders, at least two.", metavar="RUN RUN...")],
    out: Annotated[Path | None, typer.Option("--out", help="HTML page to write as well; must not exist.")] = None,
    force: ForceOption = False,
) -> None:
    """Print scores side by side and the parameters that differ beyond their intervals."""
    from dynid.errors import UsageError  # noqa: PLC0415
    from dynid.store import load  # noqa: PLC0415
    from dynid.summary import comparison_lines, write_comparison  # noqa: PLC0415

    if len(runs) < 2:
        raise UsageError("one-run", found="one run", expected="at least two to compare")
    stored = [load(run) for run in runs]
    if out is not None:
        write_comparison(out, stored, force)
    for line in comparison_lines(stored):
        typer.echo(line)
