"""A log written as a recording, which opens without a mapping, or as an MCAP file for other programs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dynid.base.arrays import Float
from dynid.base.files import FolderKind, staged_folder
from dynid.base.registry import __version__
from dynid.base.tables import arrow_array
from dynid.log.read import Log
from dynid.log.readers.memory import KINDS
from dynid.log.readers.recording_folder import ABOUT, FORMAT, ROWS
from dynid.recording import IMU_CHANNELS, FloatingBase, RawChunk

KIND = FolderKind("recording", lambda _: None)
WRENCH_AXES = ("fx", "fy", "fz", "tx", "ty", "tz")


def write_recording(log: Log, folder: str | Path, force: bool = False) -> Path:
    """Write a log as a recording: a folder with its rows in SI units at the joints and a description.

    The recording holds every joint that the log measures, the commands where the torque is made of them, and which row
    of which file each motion begins with. Memory does not grow with the log.

    Parameters
    ----------
    log : Log
        Of any robot and format.
    folder : str or Path
        Made as a whole or not at all.
    force : bool
        Whether a recording that stands there is replaced.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    RefusedError
        If something else stands there.
    ResourceError
        If the folder cannot be written.
    InputError
        For rows that cannot be read.

    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    target = Path(folder)
    with staged_folder(target, KIND, force) as scratch:
        schema = None
        with (scratch / ROWS).open("wb") as file:
            writer = None
            for columns, name in _batches(log):
                data = {key: arrow_array(np.ascontiguousarray(values)) for key, values in columns.items()}
                labels = pa.DictionaryArray.from_arrays(pa.array(np.zeros(len(columns["t"]), "i4")), [name])
                table = pa.table(data | {"traj": labels.cast(pa.string())})
                if writer is None:
                    schema = table.schema
                    writer = pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)
                writer.write_table(table)
            if writer is not None:
                writer.close()
        about = json.dumps(_description(log), indent=1, ensure_ascii=False)
        (scratch / ABOUT).write_text(about + "\n", encoding="utf-8")
    return target


def _batches(log: Log) -> Iterator[tuple[dict[str, Float], str]]:
    for trajectory in log.trajectories:
        for chunk in log.recorded(trajectory):
            yield _columns(log, chunk), trajectory.name


def _columns(log: Log, chunk: RawChunk) -> dict[str, Float]:
    columns = {"t": chunk.t}
    signals = _signals(chunk)
    for kind, joints in _joints(log).items():
        columns |= {
            f"{kind}_{joint}": signals[kind][:, log.robot.joint_names.index(joint)] for joint in joints
        }
    for sensor, values in chunk.wrench.items():
        columns |= dict(zip(_wrench_columns(sensor), values.T, strict=True))
    return columns | dict(chunk.extra)


def _wrench_columns(sensor: str) -> list[str]:
    return [f"wrench_{sensor}_{axis}" for axis in WRENCH_AXES]


def _signals(chunk: RawChunk) -> dict[str, Float]:
    signals = {
        kind: getattr(chunk, kind)
        for kind in ("q", "dq", "tau", "theta", "dtheta", "temperature")
        if getattr(chunk, kind) is not None
    }
    if chunk.commands is not None:
        commands = np.split(chunk.commands, 3, axis=1)
        signals |= dict(zip(("q_des", "dq_des", "tau_ff"), commands, strict=True))
    return signals


def _joints(log: Log) -> dict[str, list[str]]:
    """Joints of each kind of signal, in the robot's order."""
    names = log.robot.joint_names
    recorded = {kind: getattr(log.channels, group, frozenset(names)) for kind, (group, _) in KINDS.items()}
    return {kind: [name for name in names if name in joints] for kind, joints in recorded.items() if joints}


def _section(log: Log) -> dict[str, Any]:
    """The [log] table that reads the rows."""
    section: dict[str, Any] = {"time": {"column": "t", "unit": "s"}, "trajectory": "traj"}
    for kind, joints in _joints(log).items():
        group, unit = KINDS[kind]
        section[group] = {"columns": {joint: f"{kind}_{joint}" for joint in joints}, "unit": unit}
    if "effort" in section:
        section["effort"]["side"] = "link"
    channels = log.channels
    section["extra"] = {name: {"column": name, "unit": "1"} for name in channels.extra}
    if channels.wrench:
        section["wrench"] = {
            sensor.name: {
                "link": sensor.link,
                "columns": _wrench_columns(sensor.name),
                "unit": {"force": "N", "torque": "N m"},
            }
            | ({"frame": sensor.frame} if sensor.frame else {})
            for sensor in channels.wrench
        }
    return section | (_base_section(channels.base) if channels.base is not None else {})


def _base_section(base: FloatingBase) -> dict[str, Any]:
    """The tables of an IMU and of contacts."""
    units = {"gyro": "rad/s", "acceleration": "m/s^2"}
    by_kind = {kind: [name for name in IMU_CHANNELS if name.startswith(f"imu:{kind}")] for kind in units}
    contact: dict[str, Any] = {"feet": list(base.feet)}
    if base.measured:
        contact |= {
            "columns": [f"contact:{foot}" for foot in base.feet],
            "unit": "N" if base.force else "1",
        }
    contact |= {} if base.moment is None else {"moment": base.moment}
    contact["hold"] = {
        f"hold{number}": vars(support) | {"trajectories": list(support.trajectories)}
        for number, support in enumerate(base.supports, start=1)
    }
    return {"imu": {"link": base.imu, "unit": units} | by_kind, "contact": contact}


def _description(log: Log) -> dict[str, Any]:
    hashes = log.sha256
    return {
        "format": FORMAT,
        "dynid": __version__,
        "robot": log.robot.name,
        "log": _section(log),
        "motions": [
            {
                "name": trajectory.name,
                "file": str(trajectory.file),
                "sha256": hashes[str(trajectory.file)],
                "first_row": trajectory.first_row,
                "rows": trajectory.row_count,
                "start_s": trajectory.start_time,
                "end_s": trajectory.end_time,
                "rows_left_out": list(trajectory.left_out),
            }
            for trajectory in log.trajectories
        ],
        "held_joints": dict(log.robot.locked),
        "remarks": [remark.text for remark in log.remarks],
    }
