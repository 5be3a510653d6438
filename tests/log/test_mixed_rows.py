"""Rows of single joints, or of single signals, in any order."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

from dynid import read_log
from dynid.log import open_table
from tests.layouts.test_strangers import ARM, csv, numbered
from tests.log.test_empty_cells import changes, in_steps

N = ARM.robot.n


def test_changes_of_tags_are_held(tmp_path: Path) -> None:
    stepped = in_steps(0.02)
    lines = ["Timestamp,Tag,Value,Quality"]
    lines += [
        f"{t:.12g},Robot.{name},{value:.12g},Good"
        for t, row in changes(stepped)
        for name, value in row.items()
    ]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([*lines, ""]))
    log = read_log(path, ARM.robot)
    raw = log.read(log.trajectories[0])
    k = np.searchsorted(ARM.t, raw.t + ARM.t[0] - raw.t[0] - 1e-6)
    assert len(k) > 0.9 * len(ARM.t)
    assert_allclose(raw.q, np.stack([stepped[f"q{j + 1}"] for j in range(N)], axis=1)[k])


@pytest.mark.parametrize("key", ["motor_id", "joint_name"])
def test_frames_of_drives_in_any_order(key: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    rows = []
    for j in range(N):
        t = ARM.t[:-1] + rng.uniform(0, 4e-3, len(ARM.t) - 1)
        moved = [np.interp(t, ARM.t, one[:, j]) for one in (ARM.q, ARM.dq, ARM.tau)]
        label = str(j + 1) if key == "motor_id" else f"joint{j + 1}"
        rows += [
            (float(at), f"{at:.9f},{label},{a:.9f},{b:.9f},{c:.9f}")
            for at, a, b, c in zip(t, *moved, strict=True)
            if rng.random() > 0.01
        ]
    path = tmp_path / "log.csv"
    path.write_text(
        "\n".join([f"time,{key},position,velocity,torque", *(text for _, text in sorted(rows)), ""])
    )
    log = read_log(path, ARM.robot)
    raw = log.read(log.trajectories[0])
    assert len(raw.t) > 0.97 * len(ARM.t)
    start = min(
        (float(np.abs(np.interp(raw.t + d, ARM.t - ARM.t[0], ARM.q[:, 0]) - raw.q[:, 0])[:-5].max()), d)
        for d in np.linspace(0, 2e-2, 201)
    )
    assert start[0] < 5e-3


@pytest.mark.parametrize("key", ["id", "name", "field", "joint"])
def test_a_table_of_whole_rows_beside_a_label_stays_so(key: str, tmp_path: Path) -> None:
    drawn = np.random.default_rng(5).integers(0, 3, len(ARM.t)).tolist()
    label = [f"{k}" if key in ("id", "joint") else "abc"[k] for k in drawn]
    columns = {"time": ARM.t, key: label, **numbered("q#", ARM.q), **numbered("tau#", ARM.tau)}
    assert open_table(csv(tmp_path / "log.csv", columns)).column_names == tuple(columns)


def test_labels_that_come_in_long_runs_are_no_reports(tmp_path: Path) -> None:
    label = [f"{k // 100 % 2}" for k in range(len(ARM.t))]
    columns = {"time": ARM.t, "id": label, "position": ARM.q[:, 0], "torque": ARM.tau[:, 0]}
    assert open_table(csv(tmp_path / "log.csv", columns)).column_names == tuple(columns)
