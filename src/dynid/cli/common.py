"""What the commands share: options, claimed outputs, and progress on a terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dynid.base.progress import PROGRESS_VARIABLE, progress_file
from dynid.cli.output import is_verbose, note, print_diagnostics, say, set_results, shows_progress

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.identification.experiment import Experiment
    from dynid.log.read import Log

__all__ = ["ForceOption", "note_kept", "print_diagnostics", "say", "set_results"]

ROBOT_HELP = "Robot description: URDF, xacro, MJCF, SDF, USD or dynid TOML."
RobotArgument = Annotated[Path, typer.Argument(help=ROBOT_HELP, metavar="ROBOT")]
LogsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Logs: text, JSON, Parquet, LeRobot, NumPy, MATLAB, HDF5, PyTorch, ROS bags (or folders), MCAP.",
        metavar="LOG...",
    ),
]
ConfigOption = Annotated[
    Path | None, typer.Option("--config", "-c", help="experiment.toml: channels, signals, model, method.")
]
RobotLogsArgument = Annotated[
    list[Path],
    typer.Argument(
        help="Robot description, which may be left out to list what is in the logs; then logs.",
        metavar="[ROBOT] LOG...",
    ),
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
AnswerOption = Annotated[
    list[str] | None,
    typer.Option("--answer", metavar="KEY=VALUE", help="Answer to a question, by its key; may be repeated."),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="Threads; results do not depend on it. Default: one, all for simulations.",
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace an existing output, and nothing beside it.")
]
# Names of files that stay in a folder: enough to recognise what it is about.
KEPT_SHOWN = 8


_claims: list[Callable[[], None]] = []


def claim_output(folder: Path, check: Callable[[], Sequence[str]]) -> None:
    """Takes an output folder until the command ends, before anything is computed; names what stays in one to renew.

    check: refuses the folder, or returns the names of what stays in it.
    """
    from dynid.base.atomic_write import claim

    _claims.append(claim(folder))
    note_kept(folder, check())


def answers_of(given: Sequence[str] | None) -> dict[str, str]:
    """Answers by key, as --answer gives them; raises UsageError for one that is no KEY=VALUE."""
    from dynid.base.errors import UsageError

    pairs = [one.partition("=") for one in given or ()]
    for key, mark, _ in pairs:
        if not mark:
            raise UsageError("answer", found=f"--answer {key}", expected="KEY=VALUE, as in log.effort.unit=A")
    return {key.strip(): value.strip() for key, _, value in pairs}


def open_training(
    experiment: Experiment,
    robot: Path,
    logs: Sequence[Path],
    diagnostics: Diagnostics,
    answer: Sequence[str] | None = None,
) -> tuple[Experiment, Log]:
    """As `dynid.identification.found_columns.open_training`; which columns were taken unasked is said at once."""
    from dynid.identification.found_columns import open_training as opened

    found = opened(experiment, robot, logs, diagnostics, answers_of(answer))
    for one in diagnostics:
        if one.identifier == "columns-found" and not is_verbose():  # which prints all notes
            note(one.text)
    return found


def release_outputs() -> None:
    """Gives up what the command has claimed."""
    while _claims:
        _claims.pop()()


def note_kept(folder: Path, names: Sequence[str]) -> None:
    """Names on standard error what stays in a folder that is renewed, since dynid did not write it."""
    if names:
        shown = ", ".join(names[:KEPT_SHOWN]) + (" ..." if len(names) > KEPT_SHOWN else "")
        note(f"note: '{folder}' keeps what dynid did not write: {shown}")


@contextmanager
def progress_bar(total: float) -> Iterator[Callable[[str, float], None] | None]:
    """A rich progress bar on a terminal, nothing elsewhere; yields a function (stage, seconds of data done).

    With --verbose the wall time of every stage is printed at the end instead. The environment variable DYNID_PROGRESS
    names a file that progress is kept in.
    """
    if kept := os.environ.get(PROGRESS_VARIABLE):
        yield progress_file(Path(kept), total)
        return
    if is_verbose():
        with _stopwatch() as clocked:
            yield clocked
        return
    if not (shows_progress() and sys.stderr.isatty()):
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeRemainingColumn

    share = TextColumn("{task.percentage:>3.0f} %")
    columns = (TextColumn("{task.description}"), BarColumn(), share, TimeRemainingColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        tasks: dict[str, TaskID] = {}

        def advance(stage: str, seconds: float) -> None:
            if stage not in tasks:
                tasks[stage] = progress.add_task(stage, total=total)
            progress.advance(tasks[stage], seconds)

        yield advance


@contextmanager
def _stopwatch() -> Iterator[Callable[[str, float], None]]:
    from time import perf_counter

    started = last = perf_counter()
    spent: dict[str, float] = {}

    def advance(stage: str, _seconds: float) -> None:
        nonlocal last
        now = perf_counter()
        spent[stage] = spent.get(stage, 0.0) + now - last
        last = now

    yield advance
    spent["the rest"] = perf_counter() - last
    parts = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in spent.items())
    note(f"time: {perf_counter() - started:.2f} s: {parts}")
