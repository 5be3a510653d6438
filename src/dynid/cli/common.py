"""What the commands share: options, printing, and progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics

__all__ = ["ForceOption", "note_kept", "say"]

ROBOT_HELP = "Robot description: URDF, xacro, MJCF, SDF, USD or dynid TOML."
RobotArgument = Annotated[Path, typer.Argument(help=ROBOT_HELP, metavar="ROBOT")]
LogsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Logs: text, Parquet, LeRobot, NumPy, MATLAB, HDF5, PyTorch, ROS bags (or folders), MCAP.",
        metavar="LOG...",
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="experiment.toml: channels, signals, model, method.")
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", help="Topic of a bag's joint states; may be repeated. Default: the only one that fits."
    ),
]
AcceptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="CODE",
        help="Let the claim of this code be a warning where it would be a doubt; may be repeated.",
    ),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option("--threads", min=1, help="Threads; the result does not depend on it. Default: all."),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing output, and nothing beside it.")
]
# Names of files that stay in a folder: enough to recognise what it is about.
KEPT_SHOWN = 8


def say(text: str, err: bool = False) -> None:
    """Prints text; control characters, which names in input files may hold, are written as escapes."""
    line = "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)
    try:
        typer.echo(line, err=err)
    except BrokenPipeError:
        # Whoever read has read enough (`dynid ... | head`); the work goes on and its files are written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())


_claims: list[Callable[[], None]] = []


def claim_output(folder: Path, check: Callable[[], Sequence[str]]) -> None:
    """Takes an output folder until the command ends, before anything is computed; names what stays in one to renew.

    check: refuses the folder, or returns the names of what stays in it.
    """
    from dynid.base.atomic_write import claim

    _claims.append(claim(folder))
    note_kept(folder, check())


def release_outputs() -> None:
    """Gives up what the command has claimed."""
    while _claims:
        _claims.pop()()


def print_diagnostics(diagnostics: Diagnostics) -> None:
    """Doubts, then warnings, on standard error; notes are for the report."""
    for item in (*diagnostics.doubts, *diagnostics.warnings):
        say(str(item), err=True)


def note_kept(folder: Path, names: Sequence[str]) -> None:
    """Names on standard error what stays in a folder that is renewed, since dynid did not write it."""
    if names:
        shown = ", ".join(names[:KEPT_SHOWN]) + (" ..." if len(names) > KEPT_SHOWN else "")
        say(f"note: '{folder}' keeps what dynid did not write: {shown}", err=True)


@contextmanager
def progress_bar(total: float) -> Iterator[Callable[[str, float], None] | None]:
    """A rich progress bar on a terminal, nothing elsewhere; yields a function (stage, seconds of data done)."""
    from rich.console import Console

    console = Console(stderr=True)
    if not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    share = TextColumn("{task.percentage:>3.0f} %")
    columns = (TextColumn("{task.description}"), BarColumn(), share, TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def advance(stage: str, seconds: float) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.advance(tasks[stage], seconds)

        yield advance
