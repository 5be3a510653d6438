"""The command line: one file per command; errors become one message and an exit code."""

from __future__ import annotations

import errno
import gc
import os
import platform
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Mapping, Sequence
from functools import lru_cache
from importlib import import_module
from types import FrameType
from typing import Annotated, NoReturn

import typer

from dynid.base.errors import NOWHERE, DynidError, InputError, Place, ResourceError, UsageError
from dynid.base.registry import announce_plugins
from dynid.cli.common import PlainCommand, finish, note, reset, say, with_output
from dynid.cli.plugins import WithPlugins, load_named, with_plugins

# Early ends of a command: Ctrl-C, SIGTERM, or a bug.

# s: an interrupted process has 2 s to end; after this time another thread ends it.
GRACE_SECONDS = 0.5

_received: list[int] = []
_watching: list[threading.Thread] = []


def catch_signals() -> None:
    """Let Ctrl-C and SIGTERM end the command without leaving incomplete files.

    Python runs signal handlers only between two of its own instructions. If compiled code blocks the main thread for
    longer than GRACE_SECONDS, another thread ends the process after SIGTERM.
    """
    signal.signal(signal.SIGINT, _interrupted)
    signal.signal(signal.SIGTERM, _interrupted)
    if not _watching:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        _watching.append(threading.Thread(target=_watch, args=(reading,), daemon=True))
        _watching[0].start()


def interruption() -> int | None:
    """Exit code of an interrupted command, 128 + number of the signal; None if it was not interrupted."""
    return 128 + _received[0] if _received else None


def clear_away() -> None:
    """Remove temporary files that an interruption during cleaning up has left."""
    from dynid.base.files import abandon

    abandon()


def say_interrupted() -> None:
    """Print on standard error what an interrupted command has written."""
    from dynid.base.files import written

    done = ", ".join(f"'{path}'" for path in written())
    rest = f"{done} is complete" if done else "nothing was written; run the command again"
    say(f"interrupted: {rest}", err=True)


def say_bug(error: Exception) -> int:
    """Report an unexpected error, write a temporary file for a bug report, and return the exit code.

    If a run folder was changed after dynid wrote it, that is reported as the cause.
    """
    from dynid.base.registry import __version__

    store = sys.modules.get("dynid.run.store")
    if store is not None and (edited := store.edited_runs()):
        damaged = InputError(
            "damaged-run",
            found=f"a run folder that was changed after dynid wrote it ({type(error).__name__}: {error})",
            expected="the unchanged run folder",
            do="run dynid identify again",
            place=Place(file=str(edited[0])),
        )
        say(str(damaged), err=True)
        finish(damaged.exit_code, damaged)
        return damaged.exit_code
    lines = (
        f"dynid {__version__}, Python {platform.python_version()}, {platform.platform()}",
        f"command: {' '.join(sys.argv[1:])}",
        "",
        *traceback.format_exception(error),
    )
    with tempfile.NamedTemporaryFile(
        "w", encoding="utf-8", errors="backslashreplace", prefix="dynid-error-", suffix=".txt", delete=False
    ) as file:
        file.write("\n".join(lines))
    summary = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'without a message'}"
    bug = DynidError(
        "internal",
        found=summary,
        expected="no error: this is a bug in dynid, not in the input",
        do=f"send '{file.name}' to the maintainers of dynid; it has the command and the place of the error, no data",
    )
    say(str(bug), err=True)
    finish(bug.exit_code, bug)
    return bug.exit_code


def _interrupted(number: int, _frame: FrameType | None) -> NoReturn:
    _received.append(number)
    raise SystemExit(128 + number)


def _watch(reading: int) -> None:
    while (number := os.read(reading, 1)[0]) != signal.SIGTERM:
        pass
    time.sleep(GRACE_SECONDS)
    from dynid.base.files import abandon

    abandon()
    # Imported only where a command has started processes.
    processes = sys.modules.get("multiprocessing")
    for child in processes.active_children() if processes is not None else ():
        child.kill()
    say_interrupted()
    os._exit(128 + number)


# Thresholds of the garbage collector: with Python's default of 700, a tenth of a short command would be spent on
# searching modules while they are loaded.
COLLECTED = (100_000, 10, 10)
# Commands in the order of use, each named as its file, with whether it takes --plugin.
GROUPS: Mapping[str, Sequence[tuple[str, bool]]] = {
    "Begin": (
        ("demo", False),
        ("doctor", False),
        ("inspect", False),
        ("show", True),
        ("init", True),
        ("check", True),
        ("app", False),
    ),
    "Identify and judge": (
        ("identify", True),
        ("report", True),
        ("explain", False),
        ("validate", True),
        ("replay", True),
        ("compare", True),
        ("selftest", True),
    ),
    "Use the model": (
        ("export", True),
        ("cite", False),
        ("payload", True),
        ("simulate", False),
    ),
    "Record": (
        ("excite", True),
        ("watch", True),
        ("average", False),
        ("convert", True),
    ),
    "Many robots": (("fleet", True),),
    "Static poses, springs, known models": (
        ("statics", True),
        ("springs", True),
        ("limits", False),
        ("reveal", False),
        ("retrieve", True),
    ),
    "Files": (
        ("migrate", False),
        ("schema", False),
    ),
}
EVERY = tuple(name for commands in GROUPS.values() for name, _ in commands)


def __getattr__(name: str) -> typer.Typer:
    if name == "app":  # all commands; `main` builds only the requested one
        return application(EVERY)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


@lru_cache
def application(names: tuple[str, ...]) -> typer.Typer:
    """The command line with the named commands of dynid, which are imported."""
    made = typer.Typer(
        name="dynid",
        cls=WithPlugins,
        help="Identify the dynamics of a robot from its logs, validate the model, and report.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )
    for group, commands in GROUPS.items():
        for name, plugins in commands:
            if name in names:
                whole = with_output(name, import_module(f"dynid.cli.{name}").command)
                made.command(name, cls=PlainCommand, rich_help_panel=group)(
                    with_plugins(whole) if plugins else whole
                )
    made.callback(invoke_without_command=True)(options)
    return made


def options(
    version: bool = typer.Option(False, "--version", help="Print the version and the kernel in use."),
    plugin: Annotated[
        list[str] | None,
        typer.Option(
            "--plugin", callback=load_named, help="Module that provides the command; may be repeated."
        ),
    ] = None,
) -> None:
    """Identify the dynamics of a robot from its logs, validate the model, and report."""
    if version:
        _say_version()
        raise typer.Exit


def _say_version() -> None:
    from dynid.base.registry import __version__
    from dynid.kernel import backend

    say(f"dynid {__version__} (kernel: {backend()})")


def main() -> None:
    """Run the command line; the exit code is 0, 1, 2 to 7, 130 or 143 as documented."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*COLLECTED)
    catch_signals()
    reset()
    announce_plugins(note)
    try:
        code = _run()
    except Exception as error:
        # A library that is interrupted inside compiled code may raise its own error instead.
        code = 1 if interruption() else say_bug(error)
    if code and (stopped := interruption()) is not None:
        clear_away()
        say_interrupted()
        code = stopped
    gc.freeze()  # the process ends: a last collection would take a tenth of a short command
    sys.exit(code)


def _run() -> int:
    if sys.argv[1:] == ["--version"]:
        _say_version()  # without the parser, which takes as long as everything else
        return 0
    asked = tuple(sys.argv[1:2])
    try:
        _refuse_undecoded(sys.argv[1:])
        application(asked if set(asked) & set(EVERY) else EVERY)(standalone_mode=True)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except DynidError as error:
        return _report_error(error)
    except MemoryError:
        return _report_error(
            ResourceError(
                "memory",
                found="no memory left",
                expected="more memory",
                do="close programs or use shorter logs",
            )
        )
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = f"'{str(error.filename)[:60]}...'"
            return _report_error(UsageError("name-too-long", found=name, expected="a shorter name"))
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE):
            raise
        place = Place(file=str(error.filename)) if error.filename else NOWHERE
        return _report_error(
            ResourceError(
                "io", found=str(error.strerror), expected="a readable file and a writable disk", place=place
            )
        )
    return 0


def _refuse_undecoded(arguments: Sequence[str]) -> None:
    """Raise UsageError for a name that is not UTF-8, which neither files of runs nor JSON can contain."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            shown = argument.encode(errors="surrogateescape").decode(errors="backslashreplace")
            raise UsageError(
                "name-too-long",
                found=f"the name '{shown}', which is not UTF-8",
                expected="UTF-8",
                do="rename it",
            ) from error


def _report_error(error: DynidError) -> int:
    say(str(error), err=True)
    _say_where_explained(error)
    finish(error.exit_code, error)
    return error.exit_code


def _say_where_explained(error: DynidError) -> None:
    from dynid.base.diagnostics import has_more, see

    if has_more(error.identifier):
        note(see((error.identifier,)))
