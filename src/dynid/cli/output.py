"""What a command prints: lines for people, or with --json one object for programs; how much of it on standard error."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dynid.cli.added_options import Values, with_options

if TYPE_CHECKING:
    from dynid.base.diagnostics import Diagnostics
    from dynid.base.errors import DynidError

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
        from dynid.base.plain import plain

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
        from dynid.base.explanation import see

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
    from dynid.base.plain import plain
    from dynid.base.version import __version__

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
