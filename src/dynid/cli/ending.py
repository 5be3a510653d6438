"""How a command ends that does not get to its end: Ctrl-C, SIGTERM, an error that is a bug of ours."""

from __future__ import annotations

import os
import platform
import signal
import sys
import tempfile
import threading
import time
import traceback
from types import FrameType
from typing import NoReturn

from dynid.base.errors import DynidError, InputError, Place
from dynid.cli.output import finish, say

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
    from dynid.base.atomic_write import abandon

    abandon()


def say_interrupted() -> None:
    """One line on standard error: what an interrupted command has written."""
    from dynid.base.atomic_write import written

    done = ", ".join(f"'{path}'" for path in written())
    rest = f"{done} is complete" if done else "nothing was written; run the same command again to start over"
    say(f"interrupted: {rest}", err=True)


def say_bug(error: Exception) -> int:
    """One message for an error that nobody foresaw, and a temporary file with what is needed to mend it; the exit code.

    Where a run folder was read that someone has edited, that is the cause.
    """
    from dynid.base.version import __version__

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
    from dynid.base.atomic_write import abandon

    abandon()
    # Imported only where a command has started processes.
    processes = sys.modules.get("multiprocessing")
    for child in processes.active_children() if processes is not None else ():
        child.kill()
    say_interrupted()
    os._exit(128 + number)
