"""Log files opened as tables by the reader that knows their first bytes, and their hashes."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from dynid.base.errors import InputError, Place, ResourceError
from dynid.base.registry import Registry
from dynid.log.log import LogReader, Table
from dynid.log.readers.bag import BAG_READERS, BagReader, is_bag_folder, open_bag_folder
from dynid.log.readers.bag_files import bag_files
from dynid.log.readers.csv import CsvReader, CsvTable
from dynid.log.readers.hdf5_files import Hdf5Reader
from dynid.log.readers.long_rows import (
    with_blocks_side_by_side,
    with_cells_filled,
    with_joints_side_by_side,
    with_reports_side_by_side,
)
from dynid.log.readers.mat_files import MatReader
from dynid.log.readers.numpy_files import NpyReader, NpzReader
from dynid.log.readers.parquet import ParquetReader
from dynid.log.readers.parts import (
    are_joints,
    are_signals,
    given,
    open_parts,
    open_signals,
    row_count,
    signal_files,
    with_own_clocks,
)
from dynid.log.readers.stamps import with_text_times, with_whole_stamps
from dynid.log.readers.torch_files import TorchReader
from dynid.log.readers.wide_rows import signals_in_rows, with_lists_apart, with_one_clock

# Asked in this order, registered ones first; the last one takes any text. A plug-in names its reader after the suffix
# of the files, without the dot.
_BINARY: tuple[LogReader, ...] = (
    ParquetReader(),
    *BAG_READERS,
    NpzReader(),
    NpyReader(),
    MatReader(),
    Hdf5Reader(),
    TorchReader(),
)
_TEXT_AND_FOLDERS = {
    "recording": "dynid.log.readers.recording_folder:RecordingReader()",
    "workbook": "dynid.formats.workbooks:WorkbookReader()",
    "LeRobot data set": "dynid.log.readers.lerobot:LeRobotReader()",
    "YARP dump": "dynid.formats.port_folders:PortFolderReader()",
    "JSON": "dynid.log.readers.json_files:JsonReader()",
    "printed messages": "dynid.formats.yaml_files:EchoReader()",
    "YAML": "dynid.formats.yaml_files:YamlReader()",
    "XML messages": "dynid.formats.xml_messages:XmlMessagesReader()",
    "CODESYS trace": "dynid.formats.traces:TraceReader()",
    "named values": "dynid.formats.named_values:NamedValuesReader()",
    "csv": "dynid.log.readers.csv:CsvReader()",
}
# Endings that say how a file is written, and not what it holds: an installed reader may know better.
_ANYBODYS = (".json", ".jsonl", ".yaml", ".yml", ".xml", ".txt", ".log")
READERS: Registry[LogReader] = Registry(
    "reader", "dynid.readers", {reader.name: reader for reader in _BINARY}, _TEXT_AND_FOLDERS
)


# What is no log, by its first bytes: what it is, and what to do with it.
_OTHERS = {
    b"\x1f\x8b": ("a file compressed by gzip", "unpack it: gunzip FILE"),
    b"BZh": ("a file compressed by bzip2", "unpack it: bunzip2 FILE"),
    b"\xfd7zXZ": ("a file compressed by xz", "unpack it: unxz FILE"),
    b"PK\x03\x04": ("a zip archive", "unpack it, or save the sheet (.ods) as .xlsx or CSV"),
    b"\xd0\xcf\x11\xe0": (
        "a workbook of an old form (.xls), or one with a password",
        "save it as .xlsx without a password, or the sheet as CSV",
    ),
    b"MDF  ": ("a measurement file of ASAM (MDF)", "write its channels as CSV: mdfconvert, asammdf"),
    b"LOGG": (
        "a dump of buses (BLF)",
        "decode it with the database of the bus, and write the signals as CSV",
    ),
    b"ULog": (
        "a flight log of PX4 (ULog), of a vehicle in place of a robot arm",
        "if joints are logged in it, write their signals as CSV: ulog2csv FILE",
    ),
    b"\xa3\x95": (
        "a flight log of ArduPilot, of a vehicle in place of a robot arm",
        "if joints are logged in it, write their signals as CSV",
    ),
    b"\x80": (
        "Python objects, pickled, which are never loaded",
        "write the arrays with numpy.savez, or to Parquet",
    ),
}


# (1436509052.249713) can0 123#0011223344556677
_CAN_DUMP = re.compile(rb"\s*\(\d+\.\d+\)\s+\w+\s+[0-9A-Fa-f]{3,8}#")


_kept_open: ContextVar[dict[tuple[Any, ...], Table] | None] = ContextVar("kept_open", default=None)


@contextmanager
def tables_kept_open() -> Iterator[None]:
    """Within the block a file that is opened again is the table that it was: its dialect and columns are found once."""
    if _kept_open.get() is not None:
        yield
        return
    token = _kept_open.set({})
    try:
        yield
    finally:
        _kept_open.reset(token)


def open_table(
    path: str | Path,
    delimiter: str | None = None,
    decimal: str | None = None,
    definitions: Sequence[Path] = (),
) -> Table:
    """Opens a file with the reader that knows its first bytes; raises InputError if there is none.

    delimiter, decimal: of text files, None = as found.    definitions: files or folders of .msg files, for bags that
    lack them.
    """
    kept = _kept_open.get()
    if kept is None:
        return _opened(path, delimiter, decimal, definitions)
    key = (Path(path), delimiter, decimal, *definitions)
    if key not in kept:
        kept[key] = _opened(path, delimiter, decimal, definitions)
    return kept[key]


def _opened(
    path: str | Path,
    delimiter: str | None,
    decimal: str | None,
    definitions: Sequence[Path],
) -> Table:
    path = Path(path)
    place = Place(file=str(path))
    if not path.exists():
        raise InputError("file-missing", found="no such file", expected="a log file", place=place)
    if path.is_dir():
        return _open_folder(path, delimiter, decimal, definitions)
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        found = error.strerror or str(error)
        raise ResourceError(
            "file-unreadable", found=f"'{found}'", expected="a log file", place=place
        ) from error
    if not head.strip():
        raise InputError("file-empty", found="an empty file", expected="a log", place=place)
    if _CAN_DUMP.match(head):
        raise InputError(
            "log-format",
            found="frames of a CAN bus (candump)",
            expected="signals",
            do="decode it with the database of the bus (DBC), as cantools does, and write the signals as CSV",
            place=place,
        )
    readers = _readers(path.suffix.lower())
    for reader in readers:
        if reader.can_read(head):
            named = [one for one in readers if path.suffix.lower() in one.suffixes]
            if named and reader not in named:
                raise InputError(
                    "magic",
                    found=f"a file that ends in '{path.suffix}' and starts like {reader.name}",
                    expected=f"{named[0].name}, as its name says",
                    do="rename it to what it is, or write what it holds as CSV, JSON or .npz",
                    place=place,
                )
            if definitions and isinstance(reader, BagReader):
                return reader.open_defined(path, definitions)
            turned = (
                signals_in_rows(path)
                if isinstance(reader, CsvReader) and not (delimiter or decimal)
                else None
            )
            table = reader.open(path, delimiter, decimal) if turned is None else turned
            if isinstance(reader, BagReader):
                return table
            if isinstance(table, CsvTable):
                table = with_text_times(with_lists_apart(table))
            table = with_blocks_side_by_side(with_joints_side_by_side(table))
            return with_cells_filled(with_reports_side_by_side(with_whole_stamps(with_one_clock(table))))
    known = ", ".join(reader.name for reader in readers)
    found, do = next(
        (said for begin, said in _OTHERS.items() if head.startswith(begin)),
        (f"a file that starts with {head[:8]!r}", ""),
    )
    raise InputError("log-format", found=found, expected=known, do=do, place=place)


def open_parts_of(
    recording: Mapping[str, Path], delimiter: str | None = None, decimal: str | None = None
) -> Table:
    """Opens the files of one recording, by their labels, side by side; raises InputError as open_table."""
    return open_parts(recording, lambda one: open_table(one, delimiter, decimal))


def _open_folder(
    path: Path, delimiter: str | None, decimal: str | None, definitions: Sequence[Path]
) -> Table:
    if is_bag_folder(path):
        return open_bag_folder(path, definitions)
    for reader in _readers(""):
        if getattr(reader, "can_read_folder", _no_folder)(path):
            return reader.open(path, delimiter, decimal)
    parts = [one for one in bag_files(path) if one.suffix in (".mcap", ".db3")]
    signals = [] if parts else signal_files(path)
    if signals:
        labels = {one.stem: one for one in signals}
        if are_joints(tuple(labels)) or are_signals(tuple(labels)):
            tables = {label: open_table(one, delimiter, decimal) for label, one in labels.items()}
            if (whole := with_own_clocks(path, tables)) is not None:
                return whole
        return with_whole_stamps(open_signals(path, signals, lambda one: open_table(one, delimiter, decimal)))
    raise InputError(
        "file-missing",
        found="a folder",
        expected="a log file, a folder of rosbag2 with its metadata.yaml, "
        "a LeRobot data set, a YARP dump, or a file for each signal",
        do=f"give {parts[0].name} in it, or restore metadata.yaml with `ros2 bag reindex`"
        if parts
        else _logs_in(path),
        place=Place(file=str(path)),
    )


def _logs_in(folder: Path) -> str:
    """What to give in place of a folder that is no recording but may hold some; "" = nothing in it looks like a log."""
    endings = {ending for reader in _readers("") for ending in reader.suffixes}
    files = sorted(one for one in folder.iterdir() if one.is_file() and one.suffix.lower() in endings)
    if not files:
        return ""
    same = [one for one in files if one.suffix == files[0].suffix]
    return f"give what is a log in it: {given(folder, same)}"


def parts_beside(path: Path) -> list[str]:
    """Names of the files in the folder of a file that have as many rows, and so may be parts of one recording."""
    found = signal_files(path.parent) if path.is_file() else []
    if path not in found:
        return []
    counts = {}
    for file in found:
        try:
            counts[file] = row_count(open_table(file))
        except InputError:
            continue
    return [file.name for file, count in counts.items() if file != path and count == counts.get(path)]


def _no_folder(path: Path) -> bool:
    return False


def _readers(suffix: str) -> list[LogReader]:
    own = list(READERS.builtin.values())
    if suffix in _ANYBODYS or (suffix and not any(suffix in one.suffixes for one in own)):
        READERS.get(suffix[1:])  # an installed reader of such files is loaded now
    added: list[Any] = list(READERS.added.values())
    return [*(one() if isinstance(one, type) else one for one in added), *own]


def file_hash(path: Path) -> str:
    """SHA-256 of a file, read in pieces; of a folder of rosbag2 that of its files' names and hashes."""
    if path.is_dir():
        listed = "".join(f"{file_hash(one)} {one.name}\n" for one in bag_files(path))
        return hashlib.sha256(listed.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
