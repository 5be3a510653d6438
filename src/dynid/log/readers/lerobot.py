"""LeRobot data sets: folders of Parquet files whose list columns are named by meta/info.json, one motion an episode.

Layouts 2.0, 2.1 (a file an episode) and 3.0 (several episodes a file). Source: LeRobotDataset of huggingface/lerobot,
docs/source/lerobot-dataset-v3.mdx.
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
    """Opens folders of LeRobot data sets."""

    name = "LeRobot data set"
    suffixes: tuple[str, ...] = ()

    def can_read(self, head: bytes) -> bool:
        """No file is one."""
        return False

    def can_read_folder(self, path: Path) -> bool:
        """Whether a folder is a data set."""
        return (path / INFO).is_file()

    def open(self, path: Path, delimiter: str | None = None, decimal: str | None = None) -> LeRobotTable:
        """Opens a folder; raises InputError for one without data, or whose files do not fit together."""
        return LeRobotTable(path)


class LeRobotTable:
    """The data files of a data set as one table, in the order of their names; episodes are its trajectories."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._about = _info(path)
        labels = {name: _labels(one) for name, one in _features(self._about).items()}
        files = sorted(path.glob(DATA))
        if not files or len(files) > MAX_FILES:
            raise InputError(
                "no-rows",
                found=f"{len(files)} files {DATA}",
                expected=f"1 to {MAX_FILES}",
                do="download the data beside meta/",
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
        self.remarks = tuple(self._told())

    @property
    def streams(self) -> dict[str, tuple[str, ...]]:
        """The columns that hold numbers or text."""
        return self._first.streams

    def info(self, column: str) -> ColumnInfo:
        """What schema and meta/info.json say of a column."""
        one = self._first.info(column)
        shape = (self.row_count or 0, *one.shape[1:])
        rate = self._about.get("fps")
        known = float(rate) if isinstance(rate, int | float) and rate > 0 else None
        return ColumnInfo(one.dtype, one.field, shape, one.unit, self.row_count, known)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the names and hashes of the data files and of meta/info.json."""
        total = hashlib.sha256()
        for one in (self.path / INFO, *self._files):
            with one.open("rb") as file:
                digest = hashlib.file_digest(file, "sha256").hexdigest()
            total.update(f"{digest} {one.relative_to(self.path).as_posix()}\n".encode())
        return total.hexdigest()

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        """Yields batches of the named columns; files outside start..stop are not opened."""
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
                found=f"other columns than in {self._files[0].name} ({', '.join(differ[:6]) or 'in another order'})",
                expected="the same in all files",
                place=Place(file=str(self._files[i])),
            )
        return part

    def _told(self) -> Iterator[Finding]:
        place = Place(file=str(self.path))
        claimed = self._about.get("total_frames")
        if isinstance(claimed, int) and claimed != self.row_count:
            text = f"meta/info.json claims {claimed} rows, {self.row_count} are there"
            yield Finding(Level.WARNING, "row-count", text, place)


def _info(path: Path) -> Mapping[str, Any]:
    place = Place(file=str(path / INFO))
    with (path / INFO).open("rb") as file:
        data = file.read(MAX_INFO_BYTES + 1)
    try:
        found = json.loads(data) if len(data) <= MAX_INFO_BYTES else None
    except (ValueError, RecursionError) as error:
        text = " ".join(str(error).split())[:160]
        raise InputError(
            "json", found=f"what is no JSON ({text})", expected="the description of a data set", place=place
        ) from error
    if not isinstance(found, dict):
        raise InputError("json", found="no table", expected="the description of a data set", place=place)
    return found


def _features(about: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    features = about.get("features")
    found = features if isinstance(features, dict) else {}
    return {name: one for name, one in found.items() if isinstance(one, dict)}


def _labels(feature: Mapping[str, Any]) -> tuple[str, ...]:
    """Names of a feature's parts: a list, or a table with one list such as {"motors": [...]}."""
    names = feature.get("names")
    if isinstance(names, dict):
        lists = [one for one in names.values() if isinstance(one, list)]
        names = lists[0] if len(lists) == 1 else list(names) if not lists else None
    good = isinstance(names, list) and all(isinstance(one, str) for one in names)
    return tuple(names) if good and isinstance(names, list) else ()
