"""Every built-in log reader keeps the contract."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from dynid.base import Float
from dynid.log import READERS, CsvReader, LogReader, Table, Text, open_table
from dynid.testing import LogReaderContract
from tests.log import formats
from tests.log.bags import states, storage, write_bag

# In the order of READERS.
BAGS = tuple(READERS[name] for name in ("ROS 1 bag", "MCAP", "rosbag2 database"))


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
        return READERS["parquet"].can_read(path.read_bytes()[:4096])

    def open(self, path: Path) -> Table:
        return READERS["parquet"].open(path)


class TestParquetThroughTheDispatch(TestParquet):
    def open(self, path: Path) -> Table:
        return open_table(path)


class Renamed:
    """A bag under the names of the contract: its own columns are called q_, dq_ and tau_ with a joint's name."""

    NAMES: ClassVar[dict[str, str]] = {"t": "t", "q one": "q_one", "tau": "tau_one"}

    def __init__(self, table: Table) -> None:
        self.table, self.path, self.row_count = table, table.path, table.row_count
        back = {own: name for name, own in self.NAMES.items()}
        self.column_names = tuple(back[name] for name in table.column_names if ":" not in name)

    def batches(
        self, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Float | Text]]:
        for batch in self.table.batches(tuple(self.NAMES[name] for name in columns), rows, start, stop):
            yield {name: batch[self.NAMES[name]] for name in columns}


class TestMcap(LogReaderContract):
    suffix = ".mcap"
    text = False
    index = 1

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        t, q, tau = (np.asarray(columns[name], dtype=np.float64) for name in ("t", "q one", "tau"))
        messages = states(t, ["one"], q[:, None], tau=tau[:, None], start=0)
        name = path.name if self.suffix == ".bag" else f"{path.stem}_{self.suffix[1:]}"
        written = write_bag(path.with_name(name), messages, chunk=20_000)
        if written.is_dir():
            storage(written).rename(path)

    def can_read(self, path: Path) -> bool:
        return BAGS[self.index].can_read(path.read_bytes()[:4096])

    def open(self, path: Path) -> Table:
        return Renamed(BAGS[self.index].open(path))


class TestRos1Bag(TestMcap):
    suffix = ".bag"
    index = 0


class TestRosbag2Database(TestMcap):
    suffix = ".db3"
    index = 2


class ArrayFile(LogReaderContract):
    """A format of named arrays."""

    text = False
    reader: ClassVar[LogReader]

    def arrays(self, columns: Mapping[str, Float | Sequence[str]]) -> dict[str, Float]:
        return {name: np.asarray(values) for name, values in columns.items()}

    def can_read(self, path: Path) -> bool:
        return self.reader.can_read(path.read_bytes()[:4096])

    def open(self, path: Path) -> Table:
        return self.reader.open(path)


class TestNpz(ArrayFile):
    suffix, text, reader = ".npz", True, READERS["npz"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        formats.npz(path, self.arrays(columns))


class TestNpy(ArrayFile):
    suffix, reader = ".npy", READERS["npy"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        formats.npy(path, self.arrays(columns))


class TestMatlab5(ArrayFile):
    suffix, reader = ".mat", READERS["MATLAB"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        formats.mat(path, self.arrays(columns))


class TestMatlab73(ArrayFile):
    suffix, reader = ".mat", READERS["MATLAB"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        formats.hdf5(path, self.arrays(columns), matlab=True)


class TestHdf5(ArrayFile):
    suffix, reader = ".h5", READERS["HDF5"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        formats.hdf5(path, self.arrays(columns))


class TestTorch(ArrayFile):
    suffix, reader = ".pt", READERS["PyTorch tensors"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        formats.torch(path, self.arrays(columns))


class TestJson(ArrayFile):
    suffix, reader = ".json", READERS["JSON"]

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        arrays = {name: np.asarray(values).tolist() for name, values in self.arrays(columns).items()}
        path.write_text(json.dumps(arrays), encoding="utf-8")


class TestWorkbook(LogReaderContract):
    suffix = ".xlsx"

    def columns(self) -> dict[str, Float | Sequence[str]]:
        """With as many digits as openpyxl writes of a number."""
        return {
            name: np.array([float(f"{x:.15g}") for x in values]) if isinstance(values, np.ndarray) else values
            for name, values in super().columns().items()
        }

    def write(self, path: Path, columns: Mapping[str, Float | Sequence[str]]) -> None:
        book = openpyxl.Workbook(write_only=True)
        sheet = book.create_sheet("log")
        sheet.append(list(columns))
        for row in zip(*columns.values(), strict=True):
            sheet.append([None if isinstance(x, float) and np.isnan(x) else x for x in row])
        book.save(path)

    def can_read(self, path: Path) -> bool:
        return READERS["workbook"].can_read(path.read_bytes()[:4096])

    def open(self, path: Path) -> Table:
        return READERS["workbook"].open(path)


def test_every_registered_reader_is_tested_here() -> None:
    # A LeRobot data set and a recording are folders of Parquet files: they have no first bytes, and tests/recording has
    # the tests of recordings. Printed messages and named values hold no columns of any name, nor do YAML, traces and
    # ports of a dump: their tests are in tests/log, test_messages.py, test_text_forms.py, test_yaml_files.py,
    # test_traces.py and test_port_folders.py.
    assert set(READERS.builtin) == {
        "parquet", "npz", "npy", "MATLAB", "HDF5", "PyTorch tensors", "recording", "workbook", "LeRobot data set",
        "YARP dump", "JSON", "printed messages", "YAML", "XML messages", "CODESYS trace", "named values", "csv",
        *(reader.name for reader in BAGS),
    }  # fmt: skip
    assert [suffix for reader in BAGS for suffix in reader.suffixes] == [".bag", ".mcap", ".db3"]
