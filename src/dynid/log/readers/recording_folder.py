"""Read recordings of `dynid convert`: folders with the rows in SI units (Parquet) and the mapping (JSON)."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place
from dynid.base.files import read_bytes
from dynid.log.readers.parquet import ParquetTable

ABOUT, ROWS = "recording.json", "rows.parquet"
FORMAT = 1
# Maximum size of the JSON file in bytes. Only its list of damaged rows grows with the length of the log.
MOST_BYTES = 16_000_000


class RecordingReader:
    """Opens folders written by `dynid convert`."""

    name = "recording"
    suffixes: tuple[str, ...] = ()

    def can_read(self, head: bytes) -> bool:
        """Return False: a recording is a folder."""
        return False

    def can_read_folder(self, path: Path) -> bool:
        """Whether a folder is a recording."""
        return (path / ABOUT).is_file()

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> RecordingTable:
        """Open a folder; raise InputError if a file is missing, damaged or of another version."""
        return RecordingTable(path)


class RecordingTable(ParquetTable):
    """Table of the rows in a recording folder, which also contains the mapping of the columns.

    Parameters
    ----------
    path : Path
        Path of the folder.

    """

    def __init__(self, path: Path) -> None:
        about = _description(path / ABOUT)
        if not (path / ROWS).is_file():
            raise InputError(
                "file-missing",
                found=f"a recording without {ROWS}",
                expected="the folder as written by `dynid convert`",
                do="convert the log again",
                place=Place(file=str(path)),
            )
        super().__init__(path / ROWS)
        self.path = path
        self.section: dict[str, Any] = about["log"]

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the rows."""
        with (self.path / ROWS).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


def _description(path: Path) -> dict[str, Any]:
    place = Place(file=str(path))
    try:
        about = json.loads(read_bytes(path, "the metadata of a recording", MOST_BYTES))
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise InputError(
            "recording",
            found=f"invalid JSON ({type(error).__name__})",
            expected="the file written by `dynid convert`",
            do="convert the log again",
            place=place,
        ) from error
    description: dict[str, Any] = about if isinstance(about, dict) else {}
    version = description.get("format")
    if version != FORMAT or not isinstance(description.get("log"), dict):
        raise InputError(
            "recording",
            found=f"a recording of format {str(version)[:40]}",
            expected=f"format {FORMAT}",
            do="convert the log again with this version of dynid",
            place=place,
        )
    return description
