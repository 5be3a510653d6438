"""Open log files as tables with the reader that recognises their first bytes, and hash files."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from dynid.base.errors import DynidError, InputError, Place, ResourceError
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

# Plug-ins are tried first, then these readers in this order; the last reader accepts any text. A plug-in registers its
# reader under the suffix of its files, without the dot.
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
# Suffixes of general formats, for which a plug-in may provide a more specific reader.
_GENERAL_SUFFIXES = (".json", ".jsonl", ".yaml", ".yml", ".xml", ".txt", ".log")
READERS: Registry[LogReader] = Registry(
    "reader", "dynid.readers", {reader.name: reader for reader in _BINARY}, _TEXT_AND_FOLDERS
)


# First bytes of files that are not logs, with a description of the format and advice.
_OTHER_FORMATS = {
    b"\x1f\x8b": ("a file compressed by gzip", "unpack it: gunzip FILE"),
    b"BZh": ("a file compressed by bzip2", "unpack it: bunzip2 FILE"),
    b"\xfd7zXZ": ("a file compressed by xz", "unpack it: unxz FILE"),
    b"PK\x03\x04": ("a zip archive", "unpack it, or save the sheet (.ods) as .xlsx or CSV"),
    b"\xd0\xcf\x11\xe0": (
        "a workbook in the old format (.xls), or one with a password",
        "save it as .xlsx without a password, or the sheet as CSV",
    ),
    b"MDF  ": ("an ASAM measurement file (MDF)", "write its channels as CSV: mdfconvert, asammdf"),
    b"LOGG": (
        "a bus log (BLF)",
        "decode it with the database of the bus, and write the signals as CSV",
    ),
    b"ULog": (
        "a PX4 flight log (ULog) of a vehicle, not of a robot arm",
        "if it contains joint signals, write them as CSV: ulog2csv FILE",
    ),
    b"\xa3\x95": (
        "an ArduPilot flight log of a vehicle, not of a robot arm",
        "if it contains joint signals, write them as CSV",
    ),
    b"\x80": (
        "pickled Python objects, which are never loaded because they can run code",
        "write the arrays with numpy.savez, or to Parquet",
    ),
}


# (1436509052.249713) can0 123#0011223344556677
_CAN_DUMP = re.compile(rb"\s*\(\d+\.\d+\)\s+\w+\s+[0-9A-Fa-f]{3,8}#")


_kept_open: ContextVar[dict[tuple[Any, ...], Table] | None] = ContextVar("kept_open", default=None)


@contextmanager
def tables_kept_open() -> Iterator[None]:
    """Reuse open tables within the block, so that the dialect and columns of a file are detected only once."""
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
    """Open a log with the reader that recognises its first bytes.

    Parameters
    ----------
    path : str or Path
        File, or folder of a recording.
    delimiter, decimal : str, optional
        Separator and decimal sign of text files; None means that they are detected.
    definitions : sequence of Path
        .msg files, or folders of them, for bags that do not define their message types.

    Returns
    -------
    Table

    Raises
    ------
    InputError
        If no reader recognises the file.
    ResourceError
        If the file cannot be read.

    """
    kept = _kept_open.get()
    if kept is None:
        return _open_file(path, delimiter, decimal, definitions)
    key = (Path(path), delimiter, decimal, *definitions)
    if key not in kept:
        kept[key] = _open_file(path, delimiter, decimal, definitions)
    return kept[key]


def _open_file(
    path: str | Path,
    delimiter: str | None,
    decimal: str | None,
    definitions: Sequence[Path],
) -> Table:
    path = Path(path)
    place = Place(file=str(path))
    if not path.exists():
        raise InputError(
            "file-missing", found="no such file", expected="a log file", do="check the path", place=place
        )
    if path.is_dir():
        return _open_folder(path, delimiter, decimal, definitions)
    if path.is_fifo():
        raise InputError(
            "file-missing",
            found="a named pipe, which can be read only once",
            expected="a log file",
            do=f"write it to a file first: cat {path} > log.csv",
            place=place,
        )
    try:
        with path.open("rb") as file:
            head = file.read(4096)
    except OSError as error:
        description = error.strerror or str(error)
        raise ResourceError(
            "file-unreadable",
            found=f"a file that cannot be read ({description})",
            expected="a readable log",
            do="check the permissions of the file",
            place=place,
        ) from error
    if not head.strip():
        raise InputError(
            "file-empty",
            found="an empty file",
            expected="a log",
            do="check that the recording was started and the export is complete",
            place=place,
        )
    if _CAN_DUMP.match(head):
        raise InputError(
            "log-format",
            found="raw CAN frames (candump)",
            expected="signals",
            do="decode them with the database of the bus (DBC), e.g. with cantools, and write the signals as CSV",
            place=place,
        )
    readers = _readers(path.suffix.lower())
    for reader in readers:
        if reader.can_read(head):
            named = [candidate for candidate in readers if path.suffix.lower() in candidate.suffixes]
            if named and reader not in named:
                raise InputError(
                    "magic",
                    found=f"a file named '{path.suffix}' whose content is {reader.name}",
                    expected=f"{named[0].name}, as its name suggests",
                    do="rename it to match its content, or export it as CSV, JSON or .npz",
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
    description, do = next(
        (entry for begin, entry in _OTHER_FORMATS.items() if head.startswith(begin)),
        (f"a file that starts with {head[:8]!r}", ""),
    )
    raise InputError("log-format", found=description, expected=known, do=do, place=place)


def open_parts_of(
    recording: Mapping[str, Path], delimiter: str | None = None, decimal: str | None = None
) -> Table:
    """Open the files of a recording, given by their labels, as a single table; raises InputError like open_table."""
    return open_parts(recording, lambda file: open_table(file, delimiter, decimal))


def _open_folder(
    path: Path, delimiter: str | None, decimal: str | None, definitions: Sequence[Path]
) -> Table:
    if is_bag_folder(path):
        return open_bag_folder(path, definitions)
    for reader in _readers(""):
        if getattr(reader, "can_read_folder", _no_folder)(path):
            return reader.open(path, delimiter, decimal)
    parts = [file for file in bag_files(path) if file.suffix in (".mcap", ".db3")]
    signals = [] if parts else signal_files(path)
    if signals:
        labels = {file.stem: file for file in signals}
        if are_joints(tuple(labels)) or are_signals(tuple(labels)):
            tables = {label: open_table(file, delimiter, decimal) for label, file in labels.items()}
            if (whole := with_own_clocks(path, tables)) is not None:
                return whole
        return with_whole_stamps(
            open_signals(path, signals, lambda file: open_table(file, delimiter, decimal))
        )
    raise InputError(
        "file-missing",
        found="a folder that is not a recording",
        expected="a log file, a rosbag2 folder with metadata.yaml, a LeRobot data set, a YARP dump, "
        "or one file per signal",
        do=f"pass {parts[0].name} in it, or restore metadata.yaml with `ros2 bag reindex`"
        if parts
        else _logs_in(path),
        place=Place(file=str(path)),
    )


def _logs_in(folder: Path) -> str:
    """Advice for a folder that is not a recording but contains log files; "" if it contains no log file."""
    endings = {ending for reader in _readers("") for ending in reader.suffixes}
    files = sorted(file for file in folder.iterdir() if file.is_file() and file.suffix.lower() in endings)
    if not files:
        return ""
    same = [file for file in files if file.suffix == files[0].suffix]
    return f"pass the log files in it: {given(folder, same)}"


def parts_beside(path: Path) -> list[str]:
    """Names of files in the same folder with the same number of rows, which may be parts of the same recording."""
    candidates = signal_files(path.parent) if path.is_file() else []
    if path not in candidates:
        return []
    counts = {}
    for file in candidates:
        try:
            counts[file] = row_count(open_table(file))
        except DynidError:  # a file that cannot be read is not a part of the recording
            continue
    return [file.name for file, count in counts.items() if file != path and count == counts.get(path)]


def _no_folder(path: Path) -> bool:
    return False


def _readers(suffix: str) -> list[LogReader]:
    builtin = list(READERS.builtin.values())
    if suffix in _GENERAL_SUFFIXES or (suffix and not any(suffix in reader.suffixes for reader in builtin)):
        READERS.get(suffix[1:])  # loads an installed plug-in for this suffix
    added: list[Any] = list(READERS.added.values())
    return [*(reader() if isinstance(reader, type) else reader for reader in added), *builtin]


def file_hash(path: Path) -> str:
    """SHA-256 of a file, or over the names and hashes of the files in a rosbag2 folder."""
    if path.is_dir():
        listed = "".join(f"{file_hash(part)} {part.name}\n" for part in bag_files(path))
        return hashlib.sha256(listed.encode()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
