"""Shared parts of the commands: options, claimed outputs, printing and progress."""

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
    from dynid.base.diagnostics import Diagnostics, Finding
    from dynid.base.errors import DynidError
    from dynid.identification.experiment import Experiment
    from dynid.log.read import Log
    from dynid.run.result import Identification

__all__ = ["ForceOption", "note_kept", "print_diagnostics", "say", "set_results"]


# Options that several commands share, added to those of each command.

Values = dict[str, Any]


def with_options(
    command: Callable[..., None],
    options: Mapping[str, tuple[Any, Any]],
    call: Callable[[Values, Values], None],
    stands_for: str = "",
) -> Callable[..., None]:
    """Add options to a command.

    Parameters
    ----------
    command : callable
        The command.
    options : mapping of str to (annotation, default)
        The options, by name.
    call : callable
        Runs the command; gets the values of its own parameters and those of the options.
    stands_for : str
        Parameter of the command that gets the values of the options.

    Returns
    -------
    callable
        A function with the signature that typer reads.

    """
    hints = get_type_hints(command, include_extras=True)
    kept = [p for p in inspect.signature(command).parameters.values() if p.name != stands_for]
    parameters = [p.replace(annotation=hints.get(p.name, p.annotation)) for p in kept] + [
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


# Texts and paths on the command line are read without typer's types, which take longer to load than to use. All other
# values, and wrong ones, are left to typer, which reports the error.

# Checks and conversions of typer, with their defaults.
_DEFAULTS = {
    "exists": False, "file_okay": True, "dir_okay": True, "readable": True, "writable": False,
    "resolve_path": False, "allow_dash": False, "path_type": None, "parser": None,
}  # fmt: skip


XACRO = "--xacro"


class PlainCommand(TyperCommand):
    """A command that reads texts and paths without typer's types."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the arguments of the command."""
        parameters = self.get_params(ctx)
        read_plainly(parameters)
        if any(parameter.name == "robot_xacro" for parameter in parameters):
            args = with_bare_xacro(args)
        return super().parse_args(ctx, args)


def with_bare_xacro(arguments: Sequence[str]) -> list[str]:
    """Insert an empty value after each `--xacro` without one.

    Otherwise the parser would take the next word, such as the robot file, for its value.
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
    """Read texts and paths without typer's types, if this version of typer describes its parameters as expected."""
    for parameter in parameters:
        described = getattr(parameter, "type_descriptor", None)
        if described is None or "process_value" in vars(parameter):
            continue
        several = get_origin(described.annotation) is list
        kind = get_args(described.annotation)[0] if several else described.annotation
        is_default = all(getattr(described.parameter_info, name, x) == x for name, x in _DEFAULTS.items())
        if is_default:
            parameter.process_value = partial(_value, parameter, parameter.process_value, kind, several)


def _value(
    parameter: Any, process: Callable[[Any, Any], Any], kind: Any, several: bool, ctx: Any, value: Any
) -> Any:
    if value is None and not parameter.required:
        read: Any = () if several else None
    elif kind in (str, Path) and isinstance(value, list | tuple) == several and value:
        parts = value if several else [value]
        if not all(_is_readable(part, kind) for part in parts):
            return process(ctx, value)
        read = [kind(part) for part in parts] if several else kind(value)
    else:
        return process(ctx, value)
    return read if parameter.callback is None else parameter.callback(ctx, parameter, read)


def _is_readable(value: Any, kind: type[str] | type[Path]) -> bool:
    if kind is str:
        return isinstance(value, str)
    if not isinstance(value, str | Path):
        return False
    try:
        Path(value).stat()
    except OSError:
        return True  # the command reports a missing file
    except ValueError:
        return False
    return os.access(value, os.R_OK)


# Output of a command: lines of text, or one JSON object with --json; and how much goes to standard error.

JsonOption = Annotated[
    bool, typer.Option("--json", help="Print one JSON object instead of text: results, diagnostics, errors.")
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print only results and errors: no warnings, notes or progress.")
]
VerboseOption = Annotated[
    bool,
    typer.Option("--verbose", "-v", help="Print every finding and table, notes, and the time of each stage."),
]
_OUTPUT_OPTIONS = {"json_output": JsonOption, "quiet": QuietOption, "verbose": VerboseOption}


@dataclass
class _Output:
    command: str = ""
    as_json: bool = False
    quiet: bool = False
    verbose: bool = False
    lines: list[str] = field(default_factory=list)
    results: dict[str, Any] = field(default_factory=dict)
    diagnostics: list[Diagnostics] = field(default_factory=list)


_output = _Output()


def reset() -> None:
    """Reset the output settings of an earlier command in this process."""
    global _output  # noqa: PLW0603 - one process is one command
    _output = _Output()


def wants_json() -> bool:
    """Whether the output is JSON."""
    return _output.as_json


def say(text: str, err: bool = False) -> None:
    """Print text, with control characters (which names in input files may contain) as escapes.

    With --json the lines of standard output are collected for the object that is printed at the end.
    """
    line = "".join(c if c.isprintable() or c == "\n" else f"\\u{ord(c):04x}" for c in text)
    if _output.as_json and not err:
        _output.lines += line.split("\n")
        return
    _print(line, err)


def note(text: str) -> None:
    """Print a note on standard error, unless --quiet is given."""
    if not _output.quiet:
        say(text, err=True)


def set_results(results: Callable[[], Mapping[str, object]]) -> None:
    """Set the results of the command for --json; `results` is called only with --json."""
    if _output.as_json:
        from dynid.base.records import plain

        _output.results |= plain(results())


def print_diagnostics(
    diagnostics: Diagnostics, explained: bool = False, shown: Sequence[Finding] = ()
) -> None:
    """Print doubts and warnings on standard error, and notes with --verbose.

    explained: whether the command itself prints where codes are explained.
    shown: findings of which the command prints the most important itself; of these, warnings follow only with
    --verbose.
    """
    if not any(diagnostic is diagnostics for diagnostic in _output.diagnostics):
        _output.diagnostics.append(diagnostics)
    if _output.as_json or _output.quiet:
        return
    notes = [finding for finding in diagnostics if _output.verbose and finding.level == "note"]
    known = set() if _output.verbose else {finding.code for finding in shown}
    urgent = [*diagnostics.doubts, *(item for item in diagnostics.warnings if item.code not in known)]
    for item in (*urgent, *notes):
        say(str(item), err=True)
    codes = [finding.code for finding in urgent]
    if codes and not explained:
        from dynid.base.diagnostics import see

        say(see(codes), err=True)


def say_identification(result: Identification, report: Path | str) -> None:
    """Print the result of an identification: in 25 lines, or with every finding and table with --verbose."""
    from dynid.verbs.summary import identification_lines, overview_lines

    lines = identification_lines(result) if _output.verbose else overview_lines(result)
    if _output.verbose:
        print_diagnostics(result.diagnostics, explained=True)
    for line in (*lines, f"report: {report}"):
        say(line)
    if not _output.verbose:
        print_diagnostics(result.diagnostics, shown=result.verdict.findings)


def shows_progress() -> bool:
    """Whether progress may be shown."""
    return not _output.quiet


def is_verbose() -> bool:
    """Whether --verbose is given."""
    return _output.verbose


def with_output(name: str, command: Callable[..., None]) -> Callable[..., None]:
    """Add --json, --quiet and --verbose to a command."""

    def call(given: Values, output: Values) -> None:
        global _output  # noqa: PLW0603 - one process is one command
        _output = _Output(name, output["json_output"], output["quiet"], output["verbose"])
        command(**given)
        finish(0)

    return with_options(command, {key: (kind, False) for key, kind in _OUTPUT_OPTIONS.items()}, call)


def finish(code: int, error: DynidError | None = None) -> None:
    """Print the object of --json once, with the exit code and the error that ended the command."""
    if not _output.as_json:
        return
    from dynid.base.records import plain
    from dynid.base.registry import __version__

    errors = [] if error is None else getattr(error, "errors", (error,))
    data = {
        "dynid": __version__,
        "command": _output.command,
        "exit_code": code,
        "results": _output.results,
        "lines": _output.lines,
        "diagnostics": [
            {
                "severity": str(entry.level),
                "code": entry.code,
                "text": entry.text,
                "place": plain(entry.place),
            }
            for sink in _output.diagnostics
            for entry in sink
        ],
        "errors": [
            {"code": entry.identifier, "found": entry.found, "expected": entry.expected, "do": entry.do}
            | {"place": plain(entry.place)}
            for entry in errors
        ],
    }
    _output.as_json = False
    _print(json.dumps(data, indent=1, allow_nan=False), err=False)


def _print(line: str, err: bool) -> None:
    try:
        typer.echo(line, err=err)
    except BrokenPipeError:
        # The reader has closed the pipe (`dynid ... | head`); the command continues and writes its files.
        os.dup2(os.open(os.devnull, os.O_WRONLY), (sys.stderr if err else sys.stdout).fileno())


ROBOT_HELP = "Robot file: URDF, xacro, MJCF, SDF, USD or dynid TOML."
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
        help="Robot file, then logs. Without a robot file, the columns of the logs are listed.",
        metavar="[ROBOT] LOG...",
    ),
]
TopicOption = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", help="Topic of the joint states in a bag; may be repeated. Default: the only suitable one."
    ),
]


def completes(values: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Completion of the values of an option in a shell; values are loaded only then."""

    def complete(incomplete: str) -> list[str]:
        return [value for value in values() if value.startswith(incomplete)]

    return complete


def _claims_of_doubts() -> tuple[str, ...]:
    from dynid.base.diagnostics import CLAIMS

    return CLAIMS


AcceptOption = Annotated[
    list[str] | None,
    typer.Option(
        "--accept",
        metavar="CODE",
        autocompletion=completes(_claims_of_doubts),
        help="Accept the doubt with this code, which makes it a warning; may be repeated.",
    ),
]
AnswerOption = Annotated[
    list[str] | None,
    typer.Option("--answer", metavar="KEY=VALUE", help="Answer the question with this key; may be repeated."),
]
ThreadsOption = Annotated[
    int | None,
    typer.Option(
        "--threads",
        min=1,
        help="Number of threads; results do not depend on it. Default: one, but all for simulations.",
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Replace existing output files; other files stay.")
]
# Names of foreign files in an output folder that are printed; enough to recognise it.
KEPT_SHOWN = 8


_claims: list[Callable[[], None]] = []


def claim_output(folder: Path, check: Callable[[], Sequence[str]]) -> None:
    """Reserve an output folder until the command ends, before anything is computed.

    check: rejects the folder, or returns the names of foreign files that stay in it.
    """
    from dynid.base.files import claim

    _claims.append(claim(folder))
    note_kept(folder, check())


def answers_of(given: Sequence[str] | None) -> dict[str, str]:
    """Answers by key, as given by --answer; raises UsageError for a text that is not KEY=VALUE."""
    from dynid.base.errors import UsageError

    pairs = [text.partition("=") for text in given or ()]
    for key, mark, _ in pairs:
        if not mark:
            raise UsageError(
                "answer", found=f"--answer {key}", expected="KEY=VALUE, for example log.effort.unit=A"
            )
    return {key.strip(): value.strip() for key, _, value in pairs}


def open_training(
    experiment: Experiment,
    robot: Path,
    logs: Sequence[Path],
    diagnostics: Diagnostics,
    answer: Sequence[str] | None = None,
) -> tuple[Experiment, Log]:
    """Open the training log, and print at once which columns were detected automatically.

    Parameters
    ----------
    experiment : Experiment
        Settings of the identification.
    robot : Path
        Robot file.
    logs : sequence of Path
        Log files.
    diagnostics : Diagnostics
        Collects warnings and notes.
    answer : sequence of str, optional
        Answers KEY=VALUE of the command line.

    Returns
    -------
    Experiment
        With the detected columns.
    Log

    """
    from dynid.identification.logs import open_training as opened

    result = opened(experiment, robot, logs, diagnostics, answers_of(answer))
    for diagnostic in diagnostics:
        if diagnostic.code == "columns-found" and not is_verbose():  # which prints all notes
            note(diagnostic.text)
    return result


def release_outputs() -> None:
    """Release the output folders of the command."""
    while _claims:
        _claims.pop()()


def note_kept(folder: Path, names: Sequence[str]) -> None:
    """Print the names of files in an output folder that dynid did not write and therefore keeps."""
    if names:
        shown = ", ".join(names[:KEPT_SHOWN]) + (" ..." if len(names) > KEPT_SHOWN else "")
        note(f"note: files in '{folder}' that dynid did not write are kept: {shown}")


@contextmanager
def progress_bar(total: float) -> Iterator[Callable[[str, float], None] | None]:
    """Show a progress bar on a terminal; yields a function of stage and seconds of data done, or None.

    With --verbose the wall time of every stage is printed at the end instead. The environment variable DYNID_PROGRESS
    names a file that progress is written to.
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
    spent["other"] = perf_counter() - last
    parts = ", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in spent.items())
    note(f"time: {perf_counter() - started:.2f} s ({parts})")
