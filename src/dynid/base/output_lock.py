"""Who writes an output now: a lock beside it that names the process, and goes with it however the process ends."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dynid.base.errors import RefusedError

if TYPE_CHECKING:
    from filelock import BaseFileLock

# File systems end names at 255 bytes; what stands beside an output adds up to 40 to its name.
LONGEST_STEM = 200


@dataclass
class _Held:
    lock: BaseFileLock | None
    count: int
    made: list[Path]


_held: dict[Path, _Held] = {}
_guard = threading.RLock()


def stem(place: Path) -> str:
    """What the names of files beside an output begin with, after a dot: its name, shortened with a hash if long."""
    name = place.name
    if len(os.fsencode(name)) <= LONGEST_STEM:
        return name
    return (
        os.fsencode(name)[:100].decode(errors="ignore") + hashlib.sha256(os.fsencode(name)).hexdigest()[:16]
    )


def lock_file(place: Path) -> Path:
    """The file that stands beside an output while it is locked."""
    return place.with_name(f".{stem(place)}.lock")


def hold(place: Path) -> Callable[[], None]:
    """Locks an output for this process, which may do so many times, and returns what releases it.

    Folders above it are made, and go again if they are still empty at the end. Where the file system knows no locks,
    nothing is locked.

    Raises RefusedError if another process holds it; OSError if nothing can be written there.
    """
    with _guard:
        held = _held.get(place)
        if held is None:
            held = _held[place] = _take(place)
        held.count += 1
    return lambda: _release(place)


def forget_all() -> None:
    """Removes all locks of this process, which is about to end at once."""
    for place in list(_held):
        with suppress(OSError):
            lock_file(place).unlink()


def _take(place: Path) -> _Held:
    made = _make_parents(place.parent)
    try:
        return _Held(_locked(place), 0, made)
    except BaseException:
        _remove_parents(made)
        raise


def _locked(place: Path) -> BaseFileLock | None:
    from filelock import FileLock, Timeout

    path = lock_file(place)
    lock = FileLock(path, timeout=0, thread_local=False, fallback_to_soft=False)
    try:
        lock.acquire()
    except Timeout as error:
        owner = ""
        with suppress(OSError):  # on Windows a locked file cannot be read
            owner = path.read_text(errors="replace")[:20].strip()
        raise RefusedError(
            "output-busy",
            found=f"'{place}' is being written by another process{f' (pid {owner})' if owner else ''}",
            expected="one at a time",
            do="wait until it is done, or choose another --out",
        ) from error
    except OSError:
        if not path.exists():
            raise
        # The file could be made, but there are no locks on this file system.
        with suppress(OSError):
            path.unlink()
        return None
    with suppress(OSError):
        path.write_text(str(os.getpid()))
    return lock


def _release(place: Path) -> None:
    with _guard:
        held = _held[place]
        held.count -= 1
        if held.count:
            return
        # Known until its file is gone: whoever is interrupted here removes it by `forget_all`.
        if held.lock is not None:
            with suppress(OSError):
                lock_file(place).unlink()
        del _held[place]
        if held.lock is not None:
            held.lock.release()
        _remove_parents(held.made)


def _make_parents(folder: Path) -> list[Path]:
    missing = []
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for one in reversed(missing):
        one.mkdir(exist_ok=True)
    return missing


def _remove_parents(made: list[Path]) -> None:
    for folder in made:
        with suppress(OSError):
            folder.rmdir()
