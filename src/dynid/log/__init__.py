"""Logs: files of measured rows, mapped to joints by name, checked and converted to SI."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.log.checks import LogWatch, check_log
    from dynid.log.clocks import Selection, Series
    from dynid.log.files import READERS, file_hash, open_table
    from dynid.log.joints import ANGLE_BEYOND, JOINT_LIMITS_BEYOND, RangeWatch, half_turn, hand_joints
    from dynid.log.log import Channel, ChannelMap, LogReader, Table, Text
    from dynid.log.mapping import (
        LogSection,
        MotorCalibration,
        calibration_json,
        channel_map,
        motor_of,
        moved,
        rad_per_percent,
        read_calibration,
    )
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
        may_be_parts,
        recordings,
        side_by_side,
    )
    from dynid.log.readers.stamps import seconds_of, split_stamps
    from dynid.log.recording_faults import ONE_SIDED
    from dynid.log.summary import LogSummary, Switch, contents, switches_of

__all__ = [
    "ANGLE_BEYOND",
    "COMMENT",
    "JOINT_LIMITS_BEYOND",
    "ONE_SIDED",
    "READERS",
    "ArrayTable",
    "Budget",
    "Channel",
    "ChannelMap",
    "CsvReader",
    "CsvTable",
    "Log",
    "LogReader",
    "LogSection",
    "LogSummary",
    "LogWatch",
    "MotorCalibration",
    "RangeWatch",
    "Selection",
    "Series",
    "StoredArray",
    "Switch",
    "Table",
    "Text",
    "are_joints",
    "are_of_one_signal",
    "are_signals",
    "array_table",
    "arrays_of",
    "calibration_json",
    "canonical_columns",
    "channel_map",
    "check_log",
    "contents",
    "damaged",
    "dialect_of",
    "file_digest",
    "file_hash",
    "first_member",
    "half_turn",
    "hand_joints",
    "has_each_signal_once",
    "may_be_parts",
    "motor_of",
    "moved",
    "open_table",
    "rad_per_percent",
    "read_calibration",
    "read_log",
    "reading",
    "recordings",
    "seconds_of",
    "side_by_side",
    "split_stamps",
    "switches_of",
    "write_log",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "checks": "LogWatch check_log",
        "clocks": "Selection Series",
        "files": "READERS file_hash open_table",
        "joints": "ANGLE_BEYOND JOINT_LIMITS_BEYOND RangeWatch half_turn hand_joints",
        "log": "Channel ChannelMap LogReader Table Text",
        "mapping": (
            "LogSection MotorCalibration calibration_json channel_map motor_of moved rad_per_percent "
            "read_calibration"
        ),
        "own_columns": "canonical_columns write_log",
        "read": "Log read_log",
        "readers.arrays": "ArrayTable Budget StoredArray arrays_of damaged reading",
        "readers.csv": "CsvReader CsvTable",
        "readers.dialect": "COMMENT dialect_of",
        "readers.json_files": "array_table",
        "readers.numpy_files": "first_member",
        "readers.parts": (
            "are_joints are_of_one_signal are_signals file_digest has_each_signal_once may_be_parts "
            "recordings side_by_side"
        ),
        "readers.stamps": "seconds_of split_stamps",
        "recording_faults": "ONE_SIDED",
        "summary": "LogSummary Switch contents switches_of",
    },
    moved={"dynid.recording": "RawChunk Trajectory"},
)
