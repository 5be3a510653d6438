"""Read logs of measured motion: map columns to joints by name, check them and convert them to SI units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynid.base.registry import lazily

if TYPE_CHECKING:
    from dynid.log.checks import LogWatch as LogWatch
    from dynid.log.checks import check_log as check_log
    from dynid.log.clocks import MOTION as MOTION
    from dynid.log.clocks import Selection as Selection
    from dynid.log.clocks import Series as Series
    from dynid.log.files import READERS as READERS
    from dynid.log.files import file_hash as file_hash
    from dynid.log.files import open_table as open_table
    from dynid.log.joints import ANGLE_BEYOND as ANGLE_BEYOND
    from dynid.log.joints import JOINT_LIMITS_BEYOND as JOINT_LIMITS_BEYOND
    from dynid.log.joints import STILL as STILL
    from dynid.log.joints import RangeWatch as RangeWatch
    from dynid.log.joints import half_turn as half_turn
    from dynid.log.joints import hand_joints as hand_joints
    from dynid.log.log import Channel as Channel
    from dynid.log.log import ChannelMap as ChannelMap
    from dynid.log.log import LogReader as LogReader
    from dynid.log.log import Table as Table
    from dynid.log.log import Text as Text
    from dynid.log.mapping import LogSection as LogSection
    from dynid.log.mapping import MotorCalibration as MotorCalibration
    from dynid.log.mapping import calibration_json as calibration_json
    from dynid.log.mapping import channel_map as channel_map
    from dynid.log.mapping import motor_of as motor_of
    from dynid.log.mapping import moved as moved
    from dynid.log.mapping import rad_per_percent as rad_per_percent
    from dynid.log.mapping import read_calibration as read_calibration
    from dynid.log.own_columns import canonical_columns as canonical_columns
    from dynid.log.own_columns import write_log as write_log
    from dynid.log.read import Log as Log
    from dynid.log.read import read_log as read_log
    from dynid.log.readers.arrays import ArrayTable as ArrayTable
    from dynid.log.readers.arrays import StoredArray as StoredArray
    from dynid.log.readers.arrays import arrays_of as arrays_of
    from dynid.log.readers.arrays import damaged as damaged
    from dynid.log.readers.arrays import reading as reading
    from dynid.log.readers.csv import CsvReader as CsvReader
    from dynid.log.readers.csv import CsvTable as CsvTable
    from dynid.log.readers.dialect import COMMENT as COMMENT
    from dynid.log.readers.dialect import dialect_of as dialect_of
    from dynid.log.readers.json_files import array_table as array_table
    from dynid.log.readers.numpy_files import first_member as first_member
    from dynid.log.readers.parts import are_joints as are_joints
    from dynid.log.readers.parts import are_of_one_signal as are_of_one_signal
    from dynid.log.readers.parts import are_signals as are_signals
    from dynid.log.readers.parts import file_digest as file_digest
    from dynid.log.readers.parts import has_each_signal_once as has_each_signal_once
    from dynid.log.readers.parts import may_be_parts as may_be_parts
    from dynid.log.readers.parts import recordings as recordings
    from dynid.log.readers.parts import side_by_side as side_by_side
    from dynid.log.readers.stamps import seconds_of as seconds_of
    from dynid.log.readers.stamps import split_stamps as split_stamps
    from dynid.log.recording_faults import ONE_SIDED as ONE_SIDED
    from dynid.log.summary import LogSummary as LogSummary
    from dynid.log.summary import Switch as Switch
    from dynid.log.summary import contents as contents
    from dynid.log.summary import switches_of as switches_of

__getattr__, __dir__, __all__ = lazily(
    __name__,
    {
        "checks": "LogWatch check_log",
        "clocks": "MOTION Selection Series",
        "files": "READERS file_hash open_table",
        "joints": "ANGLE_BEYOND JOINT_LIMITS_BEYOND RangeWatch STILL half_turn hand_joints",
        "log": "Channel ChannelMap LogReader Table Text",
        "mapping": (
            "LogSection MotorCalibration calibration_json channel_map motor_of moved rad_per_percent "
            "read_calibration"
        ),
        "own_columns": "canonical_columns write_log",
        "read": "Log read_log",
        "readers.arrays": "ArrayTable StoredArray arrays_of damaged reading",
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
    moved={"dynid.base": "Budget", "dynid.recording": "RawChunk Trajectory"},
)
