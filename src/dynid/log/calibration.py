"""LeRobot's calibration files: which share of its turn each motor's encoder may cover, and where its middle is.

Positions of LeRobot are shares of that range, in percent, unless its robot was told to use degrees.

Source: MotorsBus._normalize and MotorCalibration of huggingface/lerobot, src/lerobot/motors/motors_bus.py.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dynid.base.checked_toml import Strict, key, validate
from dynid.base.errors import InputError, Place
from dynid.base.input_file import read_bytes

# The unit of positions that are shares of a motor's calibrated range.
PERCENT = "%"
# One turn of the encoders of Feetech's STS and Dynamixel's X servos, which every arm of LeRobot has.
COUNTS_PER_TURN = 4096
# Grippers are logged from 0 (range_min) to 100, other joints from -100 to 100 about the middle of their range.
_GRIPPER = "gripper"
# A calibration of an arm has some hundred bytes a motor.
_MAX_BYTES = 1_000_000


class MotorCalibration(Strict):
    """One motor of a calibration file, in counts of its encoder."""

    id: int | None = key(None, "of the motor on its bus")
    drive_mode: Annotated[int, Field(ge=0, le=1)] = key(0, "1: shares count the other way")
    homing_offset: int = key(0, "as its firmware holds it; ranges count with it")
    range_min: int = key(doc="lower end", unit="counts")
    range_max: int = key(doc="upper end", unit="counts")


class _Calibration(Strict):
    motors: dict[str, MotorCalibration]


def read_calibration(path: str | Path) -> dict[str, MotorCalibration]:
    """The motors of a calibration file by name.    Raises InputError for what is none."""
    place = Place(file=str(path))
    try:
        data = json.loads(read_bytes(path, "a calibration file of LeRobot", _MAX_BYTES))
    except ValueError as error:
        raise InputError(
            "calibration",
            found=f"no JSON: {error}",
            expected="the JSON file that lerobot-calibrate wrote",
            place=place,
        ) from error
    if not isinstance(data, dict) or not data or not all(isinstance(one, dict) for one in data.values()):
        raise InputError(
            "calibration",
            found="no table of motors",
            expected='{"shoulder_pan": {"range_min": 750, "range_max": 3400}, ...}, as lerobot-calibrate writes it',
            do="calibrate again with a LeRobot of 2025 or later, if the file is older",
            place=place,
        )
    motors = validate(_Calibration, {"motors": data}, {}, str(path)).motors
    check_ranges(motors, place)
    return motors


def check_ranges(motors: Mapping[str, MotorCalibration], place: Place) -> None:
    """Raises InputError for a motor without a range."""
    for name, one in motors.items():
        if not one.range_min < one.range_max:
            raise InputError(
                "calibration",
                found=f"motor '{name}' from {one.range_min} to {one.range_max} counts",
                expected="range_min below range_max",
                place=place,
            )


def motor_of(column: str, joint: str, motors: Iterable[str]) -> str | None:
    """The motor that a column names, else the one of the joint's name; None where neither is there."""
    named = [one for one in motors if re.search(rf"(?<![A-Za-z0-9]){re.escape(one)}(?![A-Za-z0-9])", column)]
    return max(named, key=len, default=joint if joint in motors else None)


def rad_per_percent(motor: str, one: MotorCalibration) -> float:
    """Angle of one percent of a motor's range, rad; negative where shares count against its encoder.

    q = (v / 200) (range_max - range_min) 2 pi / 4096, over 100 for a gripper.
    """
    whole = 100.0 if motor.endswith(_GRIPPER) else 200.0
    sign = -1.0 if one.drive_mode else 1.0
    return sign * (one.range_max - one.range_min) * 2.0 * math.pi / COUNTS_PER_TURN / whole


def moved(
    motors: Mapping[str, MotorCalibration], angles: Mapping[str, float]
) -> tuple[dict[str, MotorCalibration], tuple[str, ...]]:
    """A calibration with which each motor's encoder reads further by an angle, rad, in whole counts; some cannot.

    Positions count from the middle of the range or from its end: the whole range moves the other way. Returns the
    motors and the names of those whose range would leave the turn of the encoder, which stay.
    """
    out, left = dict(motors), []
    for name, angle in angles.items():
        one = motors[name]
        counts = -round(angle * COUNTS_PER_TURN / (2.0 * math.pi))
        low, high = one.range_min + counts, one.range_max + counts
        if counts and (low < 0 or high >= COUNTS_PER_TURN):
            left.append(name)
            continue
        out[name] = one.model_copy(update={"range_min": low, "range_max": high})
    return out, tuple(left)


def calibration_json(motors: Mapping[str, MotorCalibration]) -> bytes:
    """The file that `read_calibration` reads and LeRobot loads."""
    data = {
        name: {"id": k + 1 if one.id is None else one.id, **one.model_dump(exclude={"id"})}
        for k, (name, one) in enumerate(motors.items())
    }
    return json.dumps(data, indent=4).encode() + b"\n"
