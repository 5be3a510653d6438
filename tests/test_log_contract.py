"""Every built-in log reader keeps the contract."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dynid.arrays import Float
from dynid.log.csv import CsvReader
from dynid.log.log import Table
from dynid.log.parquet import ParquetReader
from dynid.log.read import READERS, open_table
from dynid.testing import LogReaderContract


class TestCsv(LogReaderContract):
    suffix = ".csv"

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        with path.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(columns)
            for row in zip(*columns.values(), strict=True):
                writer.writerow(
                    [
                        ""
                        if isinstance(x, float) and np.isnan(x)
                        else x
                        if isinstance(x, str)
                        else repr(float(x))
                        for x in row
                    ]
                )

    def can_read(self, path: Path) -> bool:
        return CsvReader().can_read(path.read_bytes()[:4096])

    def open(self, path: Path) -> Table:
        return CsvReader().open(path)


class TestParquet(LogReaderContract):
    suffix = ".parquet"

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        pq.write_table(pa.table(dict(columns)), path, row_group_size=128)

    def can_read(self, path: Path) -> bool:
        return ParquetReader().can_read(path.read_bytes()[:4096])

    def open(self, path: Path) -> Table:
        return ParquetReader().open(path)


class TestParquetThroughTheDispatch(TestParquet):
    def open(self, path: Path) -> Table:
        return open_table(path)


def test_every_registered_reader_is_tested_here() -> None:
    assert {type(reader) for reader in READERS} == {CsvReader, ParquetReader}
