"""Bytes of an input file, at most so many, or one error that says what is wrong with it."""

from __future__ import annotations

from pathlib import Path

from dynid.base.errors import InputError, Place, RefusedError, ResourceError


def read_bytes(path: str | Path, kind: str, limit: int) -> bytes:
    """Bytes of an input file, at most `limit` of them.

    Raises InputError if it is missing or a folder, RefusedError if it is larger, ResourceError if it cannot
    be read.
    """
    place = Place(file=str(path))
    try:
        with Path(path).open("rb") as file:
            data = file.read(limit + 1)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise InputError("file-missing", found="no such file", expected=kind, place=place) from error
    except IsADirectoryError as error:
        raise InputError("file-missing", found="a folder", expected=kind, place=place) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise ResourceError("file-unreadable", found=f"'{reason}'", expected=kind, place=place) from error
    except ValueError as error:
        raise InputError("file-missing", found=f"a path with {error}", expected=kind, place=place) from error
    if len(data) > limit:
        raise RefusedError(
            "too-large", found=f"more than {limit} bytes", expected=f"at most {limit} bytes", place=place
        )
    return data
