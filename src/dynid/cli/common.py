"""What the commands share: printing diagnostics and showing progress on a terminal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dynid.diagnostics import Diagnostics

RobotArgument = Annotated[Path, typer.Argument(help="Robot description: URDF, MJCF or dynid TOML.", metavar="ROBOT")]
LogsArgument = Annotated[list[Path], typer.Argument(help="Log files: Parquet or CSV.", metavar="LOG...")]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="experiment.toml: channels, signals, model, method.")
]
ThreadsOption = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads; the result does not depend on it. Default: all.")
]
ForceOption = Annotated[bool, typer.Option("--force", help="Replace an existing run folder.")]


def print_diagnostics(diagnostics: Diagnostics) -> None:
    """Warnings on standard error; notes are for the report."""
    for warning in diagnostics.warnings:
        typer.echo(str(warning), err=True)


@contextmanager
def progress_bar(total: float) -> Iterator[Callable[[str, float], None] | None]:
    """A rich progress bar on a terminal, nothing elsewhere; yields a function (stage, seconds of data done)."""
    from rich.console import Console  # noqa: PLC0415

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def advance(stage: str, seconds: float) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.advance(tasks[stage], seconds)

        yield advance
