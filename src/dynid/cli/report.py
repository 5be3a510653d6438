"""dynid report: where the report of a run is, and its verdict in short."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(run: Annotated[Path, typer.Argument(help="Run folder of dynid identify.", metavar="RUN")]) -> None:
    """Print the verdict and scores of a stored run and the path of its report."""
    from dynid.store import load  # noqa: PLC0415
    from dynid.summary import stored_lines  # noqa: PLC0415

    for line in stored_lines(load(run)):
        typer.echo(line)
