"""Who writes an output now: a lock beside it that names the process, and goes with it however the process ends."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dynid.base.errors import RefusedError

fcntl: Any
try:
    import fcntl
except ImportError:  # Windows: the later of two processes on one output is refused by its last step alone
    fcntl = None

# File systems end names at 255 bytes; what stands beside an output adds up to 40 to its name.
LONGEST_STEM = 200


@dataclass
class _Held:
    file: int
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


def _locked(place: Path) -> int:
    if fcntl is None:
        return -1
    path = lock_file(place)
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = os.read(file, 20).decode(errors="replace").strip()
            os.close(file)
            raise RefusedError(
                "output-busy",
                found=f"'{place}' is being written by another process{f' (pid {owner})' if owner else ''}",
                expected="one at a time",
                do="wait until it is done, or choose another --out",
            ) from error
        except OSError:
            # No locks on this file system.
            os.close(file)
            with suppress(OSError):
                path.unlink()
            return -1
        # Whoever held it may have removed the file between opening and locking.
        with suppress(OSError):
            if os.path.samestat(os.fstat(file), path.stat()):
                os.ftruncate(file, 0)
                os.write(file, str(os.getpid()).encode())
                return file
        os.close(file)


def _release(place: Path) -> None:
    with _guard:
        held = _held[place]
        held.count -= 1
        if held.count:
            return
        # Known until its file is gone: whoever is interrupted here removes it by `forget_all`.
        if held.file >= 0:
            with suppress(OSError):
                lock_file(place).unlink()
        del _held[place]
        if held.file >= 0:
            os.close(held.file)
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
