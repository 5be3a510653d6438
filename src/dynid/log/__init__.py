"""Logs: files of measured rows, mapped to joints by name, checked and converted to SI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.log.clocks import Selection, Series
    from dynid.log.files import file_hash, open_table
    from dynid.log.log import Channel, ChannelMap, LogReader, Table, Text
    from dynid.log.own_columns import canonical_columns, write_log
    from dynid.log.read import Log, read_log
    from dynid.log.readers.arrays import ArrayTable, Budget, StoredArray, arrays_of, damaged, reading
    from dynid.log.readers.csv import CsvReader, CsvTable
    from dynid.log.readers.dialect import COMMENT, dialect_of
    from dynid.log.readers.json_files import array_table
    from dynid.log.readers.numpy_files import first_member
    from dynid.log.readers.parts import (
        are_joints,
        are_of_one_signal,
        are_signals,
        file_digest,
        has_each_signal_once,
        side_by_side,
    )
    from dynid.log.readers.stamps import seconds_of

__all__ = [
    "COMMENT",
    "ArrayTable",
    "Budget",
    "Channel",
    "ChannelMap",
    "CsvReader",
    "CsvTable",
    "Log",
    "LogReader",
    "Selection",
    "Series",
    "StoredArray",
    "Table",
    "Text",
    "are_joints",
    "are_of_one_signal",
    "are_signals",
    "array_table",
    "arrays_of",
    "canonical_columns",
    "damaged",
    "dialect_of",
    "file_digest",
    "file_hash",
    "first_member",
    "has_each_signal_once",
    "open_table",
    "read_log",
    "reading",
    "seconds_of",
    "side_by_side",
    "write_log",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "clocks": "Selection Series",
        "files": "file_hash open_table",
        "log": "Channel ChannelMap LogReader Table Text",
        "own_columns": "canonical_columns write_log",
        "read": "Log read_log",
        "readers.arrays": "ArrayTable Budget StoredArray arrays_of damaged reading",
        "readers.csv": "CsvReader CsvTable",
        "readers.dialect": "COMMENT dialect_of",
        "readers.json_files": "array_table",
        "readers.numpy_files": "first_member",
        "readers.parts": (
            "are_joints are_of_one_signal are_signals file_digest has_each_signal_once side_by_side"
        ),
        "readers.stamps": "seconds_of",
    },
    moved={"dynid.recording": "RawChunk Trajectory"},
)
