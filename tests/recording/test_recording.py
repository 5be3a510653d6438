"""A recording is decoded once, gives every reader the same rows, and does not fill memory."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import dynid
from dynid.base import InputError, RefusedError
from dynid.identification import Settings
from dynid.log import CsvTable, Log, Text, read_log
from dynid.recording import RawChunk, Recording, recording
from dynid.robot import RobotModel
from dynid.terms import RigidBody, Terms
from dynid.testing import random_robot, simulated_log, small_arm
from dynid.verbs import write_recording

ROWS, JOINTS = 1000, 3
T = np.arange(ROWS) / 200.0


def arrays(seed: int) -> dict[str, Any]:
    """Every signal of three joints, as noise."""
    rng = np.random.default_rng(seed)
    signals = {name: rng.normal(size=(ROWS, JOINTS)) for name in ("q", "tau", "dq", "theta", "dtheta")}
    return {
        **signals,
        "temperature": rng.normal(size=(ROWS, JOINTS)),
        "extra": {"load": rng.normal(size=ROWS)},
    }


def log_of(seed: int, robot: RobotModel | None = None, **given: Any) -> Log:
    return Log.from_arrays(robot or random_robot(seed, JOINTS), T, **(arrays(seed) | given))


def same(first: RawChunk, second: RawChunk) -> bool:
    """Whether chunks are equal bit by bit, in values and in the layout of their arrays in memory."""

    def equal(a: Any, b: Any) -> bool:
        if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
            return np.array_equal(a, b, equal_nan=True) and a.flags.f_contiguous == b.flags.f_contiguous
        if isinstance(a, Mapping):
            return a.keys() == b.keys() and all(equal(a[key], b[key]) for key in a)
        return bool(a == b)

    return all(equal(getattr(first, field.name), getattr(second, field.name)) for field in fields(RawChunk))


@pytest.mark.parametrize("seed", range(3))
def test_rows_in_a_file_are_those_in_memory(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    log = log_of(seed)
    (trajectory,) = log.trajectories
    in_memory = list(log.chunks(trajectory, 70))
    for limit in (0, 40 * ROWS):
        monkeypatch.setattr(recording, "IN_MEMORY", limit)
        spilled = Recording(log.robot.joint_names, log.trajectories, lambda one: log.chunks(one, 70))
        kept = [
            chunk for chunks in spilled._chunks.values() for chunk in chunks if isinstance(chunk, RawChunk)
        ]
        assert not kept, "rows beyond the limit are in memory"
        for _ in range(2):
            chunks = list(spilled.chunks(trajectory, log.robot.joint_names))
            assert len(chunks) == len(in_memory)
            assert all(same(a, b) for a, b in zip(chunks, in_memory, strict=True))


def test_readers_cannot_change_the_rows_of_others() -> None:
    log = log_of(0)
    chunk = next(log.chunks(log.trajectories[0]))
    with pytest.raises(ValueError, match="read-only"):
        chunk.q[0, 0] = 1.0


@pytest.mark.parametrize("seed", range(3))
def test_a_log_without_some_joints_has_the_columns_of_the_others(seed: int) -> None:
    log = log_of(seed)
    whole = log.read(log.trajectories[0])
    held = log.with_held({log.robot.joint_names[1]: 0.3}, "for a test")
    part = held.read(held.trajectories[0])
    for signal in ("q", "dq", "tau", "theta", "dtheta", "temperature"):
        np.testing.assert_array_equal(getattr(part, signal), getattr(whole, signal)[:, [0, 2]])


def test_identify_decodes_the_rows_of_a_file_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    robot = small_arm()
    terms = Terms((RigidBody(),))
    path = simulated_log(tmp_path / "log.csv", robot, terms, robot.inertia_prior.ravel(), seconds=90.0)
    passes = {"cells": 0}
    original = CsvTable.batches

    def counted(
        self: CsvTable, columns: tuple[str, ...], rows: int, start: int = 0, stop: int | None = None
    ) -> Iterator[Mapping[str, Any | Text]]:
        for batch in original(self, columns, rows, start, stop):
            passes["cells"] += sum(len(values) for values in batch.values() if not isinstance(values, Text))
            yield batch

    monkeypatch.setattr(CsvTable, "batches", counted)
    log = read_log(path, robot)
    dynid.identify(robot, log, Settings(automatic=False))
    rows = 18_000
    cells = rows * (1 + 2 * robot.n)
    # Whole rows once, the column of time once more to find motions, and the first 2000 rows three times at most.
    assert passes["cells"] <= cells + rows + 3 * 2000 * (1 + 2 * robot.n)


def test_rows_that_cannot_be_read_are_reported_each_time(tmp_path: Path) -> None:
    robot = random_robot(0, 1)
    (name,) = robot.joint_names
    path = tmp_path / "log.csv"
    path.write_text(
        f"t,q_{name},tau_{name}\n" + "".join(f"{k / 100},{k % 7},{k % 5}\n" for k in range(300)) + "4,x,1\n"
    )
    log = read_log(path, robot)
    for _ in range(2):
        with pytest.raises(InputError, match="text-cell"):
            log.read(log.trajectories[0])


@pytest.mark.parametrize("commanded", [False, True])
def test_a_recording_on_disk_is_the_log_that_it_was_made_of(commanded: bool, tmp_path: Path) -> None:
    given = arrays(5)
    if commanded:
        given["q_des"] = given.pop("tau")
    log = Log.from_arrays(random_robot(5, JOINTS), T, trajectory=np.where(T < 2.0, "a", "b"), **given)
    folder = write_recording(log, tmp_path / "recording")
    again = read_log(folder, log.robot, extra=("load",))
    assert [one.name for one in again.trajectories] == ["a", "b"]
    assert again.channels == log.channels
    for first, second in zip(log.trajectories, again.trajectories, strict=True):
        for a, b in zip(log.recorded(first), again.recorded(second), strict=True):
            for field in fields(RawChunk):
                if field.name not in ("trajectory", "first_row"):
                    left, right = getattr(a, field.name), getattr(b, field.name)
                    assert (left is None) == (right is None)
                    if isinstance(left, np.ndarray):
                        np.testing.assert_array_equal(left, right)
    about = json.loads((folder / "recording.json").read_text())
    assert [motion["rows"] for motion in about["motions"]] == [400, 600]
    assert all(len(motion["sha256"]) == 64 for motion in about["motions"])
    with pytest.raises(RefusedError, match="recording"):
        write_recording(log, folder)
    write_recording(log, folder, force=True)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("{", "invalid JSON"),
        ("[1]", "format"),
        ('{"format": 2, "log": {}}', "format 2"),
        ('{"format": 1}', "format 1"),
    ],
)
def test_damaged_descriptions_get_one_message(text: str, expected: str, tmp_path: Path) -> None:
    folder = write_recording(log_of(1), tmp_path / "recording")
    (folder / "recording.json").write_text(text)
    with pytest.raises(InputError, match=expected):
        read_log(folder, random_robot(1, JOINTS))


def test_a_recording_keeps_wrenches_in_their_units_and_axes(tmp_path: Path) -> None:
    robot = random_robot(2, JOINTS)
    given = arrays(2)
    wrench = np.random.default_rng(2).normal(size=(len(T), 6))
    axes = ("fx", "fy", "fz", "tx", "ty", "tz")
    columns = {f"ft_{axis}": wrench[:, k] * (1.0 if k < 3 else 1e3) for k, axis in enumerate(axes)}
    positions = {f"q_{name}": given["q"][:, j] for j, name in enumerate(robot.joint_names)}
    frame = pa.table({"time": T, **columns, **positions})
    mapping = {
        "time": {"column": "time", "unit": "s"},
        "position": {"columns": "q_{joint}", "unit": "rad"},
        "wrench": {
            "ft": {
                "link": robot.body_names[-1],
                "columns": list(columns),
                "unit": {"force": "N", "torque": "mN m"},
                "frame": "base",
            }
        },
    }
    log = Log.from_frame(frame, robot, mapping)
    again = read_log(write_recording(log, tmp_path / "recording"), robot)
    assert again.channels == log.channels
    (trajectory,) = again.trajectories
    np.testing.assert_allclose(again.read(trajectory).wrench["ft"], wrench, rtol=1e-12)
