"""The command line: one file a command; errors become one message and the right exit code."""

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
from dynid.cli.common import PlainCommand, finish, note, reset, say, with_output
from dynid.cli.plugins import WithPlugins, load_named, with_plugins

# How a command ends that does not get to its end: Ctrl-C, SIGTERM, an error that is a bug of ours.

# A process that is asked to end has 2 s in all; after this much of it the process is ended from another thread.
GRACE_SECONDS = 0.5

_received: list[int] = []
_watching: list[threading.Thread] = []


def listen() -> None:
    """Ctrl-C and SIGTERM end the command from now on, and nothing half-written stays.

    Python runs a signal's handler between two of its own instructions only: SIGTERM ends the process from another
    thread where compiled code holds the main one for longer than GRACE_SECONDS.
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
    """The exit code of a command that was interrupted, 128 + the signal's number; None = it was not."""
    return 128 + _received[0] if _received else None


def clear_away() -> None:
    """Removes what an interruption has left because it came while things were being put away."""
    from dynid.base.files import abandon

    abandon()


def say_interrupted() -> None:
    """One line on standard error: what an interrupted command has written."""
    from dynid.base.files import written

    done = ", ".join(f"'{path}'" for path in written())
    rest = f"{done} is complete" if done else "nothing was written; run the same command again to start over"
    say(f"interrupted: {rest}", err=True)


def say_bug(error: Exception) -> int:
    """One message for an error that nobody foresaw, and a temporary file with what is needed to mend it; the exit code.

    Where a run folder was read that someone has edited, that is the cause.
    """
    from dynid.base.registry import __version__

    store = sys.modules.get("dynid.run.store")
    if store is not None and (edited := store.edited_runs()):
        damaged = InputError(
            "damaged-run",
            found=f"a run folder that was changed since it was written ({type(error).__name__}: {error})",
            expected="what dynid wrote",
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
        "w", encoding="utf-8", prefix="dynid-error-", suffix=".txt", delete=False
    ) as file:
        file.write("\n".join(lines))
    found = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'without a message'}"
    bug = DynidError(
        "internal",
        found=found,
        expected="none: this is a mistake in dynid, not in the input",
        do=f"send '{file.name}' to those who keep dynid; it holds the command and where it failed, no data",
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


# New objects between two searches for cycles, and searches of the young between those of the older: with Python's 700 a
# tenth of a small command goes into searching modules that are being loaded, which hold none that could go.
COLLECTED = (100_000, 10, 10)
# What a newcomer needs first comes first; every command, named as its file, with whether it takes --plugin.
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
    if name == "app":  # all of it; `main` makes the command that was asked for alone
        return application(EVERY)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


@lru_cache
def application(names: tuple[str, ...]) -> typer.Typer:
    """The command line with some of dynid's own commands, which are imported."""
    made = typer.Typer(
        name="dynid",
        cls=WithPlugins,
        help="The dynamics of a real robot, from its log: identified, verified, reported.",
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
            "--plugin", callback=load_named, help="Module that brings the command; may be repeated."
        ),
    ] = None,
) -> None:
    """The dynamics of a real robot, from its log: identified, verified, reported."""
    if version:
        _say_version()
        raise typer.Exit


def _say_version() -> None:
    from dynid.base.registry import __version__
    from dynid.kernel import backend

    say(f"dynid {__version__} (kernel: {backend()})")


def main() -> None:
    """Runs the command line and leaves with 0, or 2 to 7, 130, 143 or 1 as the table of exit codes says."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    gc.set_threshold(*COLLECTED)
    listen()
    reset()
    try:
        code = _run()
    except Exception as error:
        # A library that is interrupted inside its own compiled code may raise an error of its own instead.
        code = 1 if interruption() else say_bug(error)
    if code and (stopped := interruption()) is not None:
        clear_away()
        say_interrupted()
        code = stopped
    gc.freeze()  # what is left goes with the process: searching it for cycles takes a tenth of a small command
    sys.exit(code)


def _run() -> int:
    if sys.argv[1:] == ["--version"]:
        _say_version()  # without the parser, which takes as long as all the rest
        return 0
    asked = tuple(sys.argv[1:2])
    try:
        application(asked if set(asked) & set(EVERY) else EVERY)(standalone_mode=True)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except DynidError as error:
        return _ended(error)
    except MemoryError:
        return _ended(
            ResourceError(
                "memory", found="no memory left", expected="more", do="close programs or use shorter logs"
            )
        )
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            name = f"'{str(error.filename)[:60]}...'"
            return _ended(
                UsageError("name-too-long", found=name, expected="a name that the file system takes")
            )
        if error.errno not in (errno.ENOSPC, errno.EACCES, errno.EROFS, errno.EDQUOT, errno.EMFILE):
            raise
        place = Place(file=str(error.filename)) if error.filename else NOWHERE
        return _ended(ResourceError("io", found=str(error.strerror), expected="a writable disk", place=place))
    return 0


def _ended(error: DynidError) -> int:
    say(str(error), err=True)
    _say_where_explained(error)
    finish(error.exit_code, error)
    return error.exit_code


def _say_where_explained(error: DynidError) -> None:
    from dynid.base.diagnostics import has_more, see

    if has_more(error.identifier):
        note(see((error.identifier,)))
