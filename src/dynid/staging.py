"""Files and folders that appear as a whole or not at all: written beside their place, moved there at the end."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from dynid.errors import RefusedError, ResourceError

Own = Callable[[Path], bool]


@contextmanager
def staged_folder(folder: Path, own: Own | None = None) -> Iterator[Path]:
    """A new folder to write into, which takes the place of `folder` when the block ends.

    own: whether what stands there already may be replaced (None: never); it is deleted last, and comes back if the new
    folder cannot take its place. After any error, and after Ctrl-C, everything is as it was.

    Raises RefusedError if something else stands there, at the beginning or at the end; ResourceError for an OSError in
    the block.
    """
    _refuse_foreign(folder, own)
    scratch = _beside(folder, "partial")
    try:
        scratch.mkdir(parents=True)
        yield scratch
        _refuse_foreign(folder, own)
        _put(scratch, folder)
    except OSError as error:
        raise _cannot_write(error, folder) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


@contextmanager
def staged_files(*paths: Path) -> Iterator[tuple[Path, ...]]:
    """A new file beside each path to write to; they replace the paths when the block ends, unless it fails.

    Raises ResourceError for an OSError in the block.
    """
    scratch = tuple(_beside(path, "partial") for path in paths)
    try:
        yield scratch
        for part, path in zip(scratch, paths, strict=True):
            part.replace(path)
    except OSError as error:
        raise _cannot_write(error, *paths) from error
    finally:
        for part in scratch:
            # An error here would hide the one that left the file behind.
            with suppress(OSError):
                part.unlink()


def refuse_existing(path: Path, do: str = "choose another name") -> None:
    """Raises RefusedError if an output exists already."""
    if path.exists():
        raise RefusedError(
            "output-exists",
            found=f"output '{path}' exists already",
            expected="a place that does not exist yet",
            do=do,
        )


def _refuse_foreign(folder: Path, own: Own | None) -> None:
    if own is None or not own(folder):
        refuse_existing(folder)


def _beside(path: Path, ending: str) -> Path:
    return path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.{ending}")


def _put(scratch: Path, folder: Path) -> None:
    if not folder.exists():
        scratch.rename(folder)
        return
    earlier = _beside(folder, "earlier")
    try:
        folder.rename(earlier)
        scratch.rename(folder)
    finally:
        if folder.exists():
            shutil.rmtree(earlier, ignore_errors=True)
        else:
            earlier.rename(folder)


def _cannot_write(error: OSError, *paths: Path) -> ResourceError:
    names = ", ".join(f"'{path}'" for path in paths)
    return ResourceError(
        "cannot-write",
        found=f"writing {names} failed: {error.strerror or error}",
        expected="space and permission",
    )
