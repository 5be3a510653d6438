"""What the commands share: options, claimed outputs, and progress on a terminal."""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperCommand

from dynid.base.parallel import PROGRESS_VARIABLE, progress_file

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import DynidError
    from dynid.identification.experiment import Experiment
    from dynid.log.read import Log

__all__ = ["ForceOption", "note_kept", "print_diagnostics", "say", "set_results"]


# Commands with options that several of them share, added to those of their own signature.

Values = dict[str, Any]


def with_options(
    command: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    call: Callable[[Values, Values], None],
    stands_for: str = "",
) -> Callable[..., None]:
    """A function that typer reads as the command with further options.

    options: (annotation, default) of each, by name.    call: runs the command, given the values of the command's own
    parameters and those of the options.    stands_for: parameter of the command that is handed the options' values.
    """
    hints = get_type_hints(command, include_extras=True)
    own = [p for p in inspect.signature(command).parameters.values() if p.name != stands_for]
    parameters = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in own] + [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]

    def wrapped(**given: Any) -> None:
        added = {name: given.pop(name) for name in options}
        call(given, added)

    wrapped.__doc__, wrapped.__name__ = command.__doc__, command.__name__
    wrapped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # read by inspect, set by us
    wrapped.__annotations__ = {p.name: p.annotation for p in parameters}
    return wrapped


# Values of texts and paths on the command line, read without typer's types: they take longer to load than
# to use.
#
# Whatever is more than a text or a path, or is wrong, is left to typer, which says what is wrong with it.

# What typer may be asked to check of a path or to make of a value, and what it does unless it is asked.
_UNASKED = {
    "exists": False, "file_okay": True, "dir_okay": True, "readable": True, "writable": False,
    "resolve_path": False, "allow_dash": False, "path_type": None, "parser": None,
}  # fmt: skip


XACRO = "--xacro"


class PlainCommand(TyperCommand):
    """A command that reads texts and paths without typer's types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Reads the command's arguments."""
        parameters = self.get_params(ctx)
        read_plainly(parameters)
        if any(parameter.name == "robot_xacro" for parameter in parameters):
            args = with_bare_xacro(args)
        return super().parse_args(ctx, args)


def with_bare_xacro(arguments: Sequence[str]) -> list[str]:
    """The words of a command line, with an empty value after each `--xacro` that has none.

    The parser takes the next word for the value, which may be the robot's file.
    """
    words = list(arguments)
    for place in reversed([i for i, word in enumerate(words) if word == XACRO]):
        name, equals, _ = words[place + 1].partition("=") if place + 1 < len(words) else ("", "", "")
        if "--" in words[:place]:
            continue
        if not equals or name.startswith("-") or os.sep in name:
            words[place] = f"{XACRO}="
    return words


def read_plainly(parameters: Iterable[Any]) -> None:
    """Reads texts and paths without typer's types; a typer that describes parameters in another way reads all."""
    for parameter in parameters:
        described = getattr(parameter, "type_descriptor", None)
        if described is None or "process_value" in vars(parameter):
            continue
        several = get_origin(described.annotation) is list
        kind = get_args(described.annotation)[0] if several else described.annotation
        unasked = all(getattr(described.parameter_info, name, x) == x for name, x in _UNASKED.items())
        if unasked:
            parameter.process_value = partial(_value, parameter, parameter.process_value, kind, several)


def _value(
    parameter: Any, process: Callable[[Any, Any], Any], kind: Any, several: bool, ctx: Any, value: Any
) -> Any:
    if value is None and not parameter.required:
        read: Any = () if several else None
    elif kind in (str, Path) and isinstance(value, list | tuple) == several and value:
        parts = value if several else [value]
        if not all(_is_fine(part, kind) for part in parts):
            return process(ctx, value)
        read = [kind(part) for part in parts] if several else kind(value)
    else:
        return process(ctx, value)
    return read if parameter.callback is None else parameter.callback(ctx, parameter, read)


def _is_fine(value: Any, kind: type[str] | type[Path]) -> bool:
    if kind is str:
        return isinstance(value, str)
    if not isinstance(value, str | Path):
        return False
    try:
        Path(value).stat()
    except OSError:
        return True  # the command says what it misses
    except ValueError:
        return False
    return os.access(value, os.R_OK)


# What a command prints: lines for people, or with --json one object for programs; how much of it on
# standard error.

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object in place of lines: results, diagnostics, error.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="No warnings, notes or progress: results and errors alone.")
]
VerboseOption = Annotated[
    bool, typer.Option("--verbose", "-v", help="Notes on standard error as well, and where the time went.")
]
_OWN = {"json_output": JsonOption, "quiet": QuietOption, "verbose": VerboseOption}


@dataclass
class _Output:
    command: str = ""
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    lines: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    diagnostics: list[Diagnostics] = field(default_factory=list)


_now = _Output()


def reset() -> None:
    """Forgets what an earlier command of this process was asked for."""
    global _now  # noqa: PLW0603 - one process is one command
    _now = _Output()


def wants_json() -> bool:
    """Whether a program reads what is printed."""
    return _now.as_json


def say(text: str, err: bool = False) -> None:
    """Prints text; control characters, which names in input files may hold, are written as escapes.

    Under --json the lines of standard output are collected for the object that is printed at the end.
    """
    line = "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)
    if _now.as_json and not err:
        _now.lines += line.split("\n")
        return
    _print(line, err)


def note(text: str) -> None:
    """Prints a line on standard error that is no warning, unless the user wants quiet."""
    if not _now.quiet:
        say(text, err=True)


def set_results(results: Callable[[], Mapping[str, object]]) -> None:
    """Takes the results of the command as data, where the user wants JSON; `results` is called only then."""
    if _now.as_json:
        from dynid.base.records import plain

        _now.results |= plain(results())


def print_diagnostics(diagnostics: Diagnostics, explained: bool = False) -> None:
    """Doubts, then warnings, on standard error; notes are for the report, or for --verbose.

    explained: whether the command says elsewhere where their codes are explained.
    """
    if not any(one is diagnostics for one in _now.diagnostics):
        _now.diagnostics.append(diagnostics)
    if _now.as_json or _now.quiet:
        return
    notes = [one for one in diagnostics if one.severity == "note"] if _now.verbose else []
    for item in (*diagnostics.doubts, *diagnostics.warnings, *notes):
        say(str(item), err=True)
    codes = [one.identifier for one in (*diagnostics.doubts, *diagnostics.warnings)]
    if codes and not explained:
        from dynid.base.diagnostics import see

        say(see(codes), err=True)


def shows_progress() -> bool:
    """Whether progress may be shown."""
    return not _now.quiet


def is_verbose() -> bool:
    """Whether the user wants to know more than results and warnings."""
    return _now.verbose


def with_output(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """The command with --json, --quiet and --verbose."""

    def call(given: Values, output: Values) -> None:
        global _now  # noqa: PLW0603 - one process is one command
        _now = _Output(name, output["json_output"], output["quiet"], output["verbose"])
        command(**given)
        finish(0)

    return with_options(command, {key: (kind, False) for key, kind in _OWN.items()}, call)


def finish(code: int, error: DynidError | None = None) -> None:
    """Prints the object of --json, once, with the exit code and the error that ended the command."""
    if not _now.as_json:
        return
    from dynid.base.records import plain
    from dynid.base.registry import __version__

    errors = [] if error is None else getattr(error, "errors", (error,))
    data = {
        "dynid": __version__,
        "command": _now.command,
        "exit_code": code,
        "results": _now.results,
        "lines": _now.lines,
        "diagnostics": [
            {
                "severity": str(one.severity),
                "code": one.identifier,
                "text": one.text,
                "place": plain(one.place),
            }
            for sink in _now.diagnostics
            for one in sink
        ],
        "errors": [
            {"code": one.identifier, "found": one.found, "expected": one.expected, "do": one.do}
            | {"place": plain(one.place)}
            for one in errors
        ],
    }
    _now.as_json = False
    _print(json.dumps(data, indent=1, allow_nan=False), err=False)


def _print(line: str, err: bool) -> None:
    try:
        typer.echo(line, err=err)
    except BrokenPipeError:
        # Whoever read has read enough (`dynid ... | head`); the work goes on and its files are written.
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())


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
    from dynid.base.files import claim

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
    """As `dynid.identification.logs.open_training`; which columns were taken unasked is said at once."""
    from dynid.identification.logs import open_training as opened

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
