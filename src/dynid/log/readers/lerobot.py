"""Read LeRobot data sets: folders of Parquet files, with the names of list components in meta/info.json.

Each episode is a trajectory. Supported layouts are 2.0 and 2.1 (a file per episode) and 3.0 (several episodes per
file). Source: LeRobotDataset of huggingface/lerobot, docs/source/lerobot-dataset-v3.mdx.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

from dynid.base.arrays import Float
from dynid.base.diagnostics import Finding, Level
from dynid.base.errors import InputError, Place
from dynid.log.log import ColumnInfo, Text
from dynid.log.readers.parquet import ParquetTable

INFO, DATA = Path("meta/info.json"), "data/chunk-*/*.parquet"
MAX_INFO_BYTES = 4_000_000
MAX_FILES = 100_000
EPISODE = "episode_index"


class LeRobotReader:
    """Opens LeRobot data sets, which are folders."""

    name = "LeRobot data set"
    suffixes: tuple[str, ...] = ()

    def can_read(self, head: bytes) -> bool:
        """Return False: a data set is a folder."""
        return False

    def can_read_folder(self, path: Path) -> bool:
        """Whether a folder is a data set."""
        return (path / INFO).is_file()

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> LeRobotTable:
        """Open a folder; raise InputError if it has no data, or if the columns of its files differ."""
        return LeRobotTable(path)


class LeRobotTable:
    """Table of all data files of a data set in the order of their names; each episode is a trajectory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._about = _info(path)
        labels = {name: _labels(feature) for name, feature in _features(self._about).items()}
        files = sorted(path.glob(DATA))
        if not files or len(files) > MAX_FILES:
            raise InputError(
                "no-rows",
                found=f"{len(files)} files {DATA}",
                expected=f"1 to {MAX_FILES} files",
                do="download the folder data/ next to meta/",
                place=Place(file=str(path)),
            )
        self._files = files
        self._first = ParquetTable(files[0], labels)
        self._labels = labels
        self.column_names, self.left_out = self._first.column_names, self._first.left_out
        counts = [self._part(i).row_count or 0 for i in range(len(files))]
        self._starts = [0, *accumulate(counts)]
        self.row_count: int | None = self._starts[-1]
        self.trajectory = EPISODE if EPISODE in self.column_names else None
        self.remarks = tuple(self._row_count_warning())

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """Numeric columns and text columns."""
        return self._first.streams

    def info(self, column: str) -> ColumnInfo:
        """Metadata of a column from the schema and from meta/info.json."""
        column_info = self._first.info(column)
        shape = (self.row_count or 0, *column_info.shape[1:])
        rate = self._about.get("fps")
        known = float(rate) if isinstance(rate, int | float) and rate > 0 else None
        return ColumnInfo(
            column_info.dtype, column_info.field, shape, column_info.unit, self.row_count, known
        )

    @cached_property
    def sha256(self) -> str:
        """SHA-256 over the names and hashes of the data files and of meta/info.json."""
        total = hashlib.sha256()
        for part in (self.path / INFO, *self._files):
            with part.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{digest} {part.relative_to(self.path).as_posix()}\n".encode())
        return total.hexdigest()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yield the given columns in batches; files outside of start to stop are not opened."""
        end = self._starts[-1] if stop is None else min(stop, self._starts[-1])
        for i in range(max(bisect_right(self._starts, start) - 1, 0), len(self._files)):
            first, last = self._starts[i], self._starts[i + 1]
            if first >= end:
                return
            yield from self._part(i).batches(columns, rows, max(start - first, 0), min(end, last) - first)

    def _part(self, i: int) -> ParquetTable:
        part = self._first if i == 0 else ParquetTable(self._files[i], self._labels)
        if part.column_names != self.column_names:
            differ = sorted(set(part.column_names) ^ set(self.column_names))
            raise InputError(
                "different-columns",
                found=f"columns that differ from {self._files[0].name} ({', '.join(differ[:6]) or 'in their order'})",
                expected="the same columns in all files",
                do="convert all files with the same version of LeRobot",
                place=Place(file=str(self._files[i])),
            )
        return part

    def _row_count_warning(self) -> Iterator[Finding]:
        place = Place(file=str(self.path))
        claimed = self._about.get("total_frames")
        if isinstance(claimed, int) and claimed != self.row_count:
            text = f"meta/info.json lists {claimed} rows, but the data have {self.row_count}"
            yield Finding(Level.WARNING, "row-count", text, place)


def _info(path: Path) -> Mapping[str, Any]:
    place = Place(file=str(path / INFO))
    with (path / INFO).open("rb") as file:
        data = file.read(MAX_INFO_BYTES + 1)
    try:
        about = json.loads(data) if len(data) <= MAX_INFO_BYTES else None
    except (ValueError, RecursionError) as error:
        text = " ".join(str(error).split())[:160]
        raise InputError(
            "json", found=f"invalid JSON ({text})", expected="the metadata of a data set", place=place
        ) from error
    if not isinstance(about, dict):
        raise InputError("json", found="no JSON object", expected="the metadata of a data set", place=place)
    return about


def _features(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    features = about.get("features")
    tables = features if isinstance(features, dict) else {}
    return {name: feature for name, feature in tables.items() if isinstance(feature, dict)}


def _labels(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of the components of a feature, from a list or from a table with a single list ({"motors": [...]})."""
    names = feature.get("names")
    if isinstance(names, dict):
        lists = [entry for entry in names.values() if isinstance(entry, list)]
        names = lists[0] if len(lists) == 1 else list(names) if not lists else None
    good = isinstance(names, list) and all(isinstance(label, str) for label in names)
    return tuple(names) if good and isinstance(names, list) else ()
