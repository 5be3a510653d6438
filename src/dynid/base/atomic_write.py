"""Files and folders that appear as a whole or not at all: written beside their place, moved there at the end."""

from __future__ import annotations

import os
import secrets
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from dynid.base.errors import RefusedError, ResourceError

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


def check_place(folder: Path, inputs: Sequence[Path], force: bool, own: Own, what: str) -> None:
    """Refuses an output folder before anything is computed.

    own: whether what stands there is of the kind that may be replaced.    what: word for that kind.

    Raises RefusedError if it exists (unless `force` and it is of that kind) or holds an input; ResourceError if its
    parent cannot be written.
    """
    target = folder.resolve()
    for path in inputs:
        source = path.resolve()
        if source == target or target in source.parents:
            raise RefusedError(
                "output-is-input",
                found=f"output '{folder}' holds the input '{path}'",
                expected="another folder",
            )
    if not force:
        refuse_existing(folder, f"choose another --out, or --force to replace that {what}")
    if folder.exists() and not own(folder):
        raise RefusedError(
            f"not-a-{what}",
            found=f"'{folder}' is not a {what} folder",
            expected=f"a {what} of dynid to replace",
            do="delete it",
        )
    parent = target.parent
    while not parent.exists():
        parent = parent.parent
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ResourceError(
            "cannot-write",
            found=f"no permission to write in '{parent}'",
            expected="a writable folder for --out",
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
