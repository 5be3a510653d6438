"""Logs: files of measured rows, mapped to joints by name, checked and converted to SI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.lazy import lazily

if TYPE_CHECKING:
    from dynid.log.log import Channel, ChannelMap, LogReader, RawChunk, Table, Text, Trajectory
    from dynid.log.read import Log, read_log
    from dynid.log.selection import Selection
    from dynid.log.write import canonical_columns, write_log

__all__ = [
    "Channel",
    "ChannelMap",
    "Log",
    "LogReader",
    "RawChunk",
    "Selection",
    "Table",
    "Text",
    "Trajectory",
    "canonical_columns",
    "read_log",
    "write_log",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "log": "Channel ChannelMap LogReader RawChunk Table Text Trajectory",
        "read": "Log read_log",
        "selection": "Selection",
        "write": "canonical_columns write_log",
    },
)
