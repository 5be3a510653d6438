"""Written logs open again without a mapping, bit for bit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from dynid.base import ResourceError, UsageError
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import load_example

ROBOT = load_example("arm7")
T = 500
t = np.arange(T) / 250.0
q, dq, tau = np.random.default_rng(0).normal(size=(3, T, 7))
COLUMNS = canonical_columns(ROBOT.joint_names, q, dq, tau)


@pytest.mark.parametrize("name", ["log.parquet", "log.csv"])
def test_what_was_written_is_read(tmp_path: Path, name: str) -> None:
    names = ["first"] * 200 + ["second"] * 300
    path = write_log(tmp_path / "new" / name, t, COLUMNS, names)
    log = read_log(path, ROBOT)
    assert [one.name for one in log.trajectories] == ["first", "second"]
    chunks = [log.read(one) for one in log.trajectories]
    for wanted, key in ((t, "t"), (q, "q"), (dq, "dq"), (tau, "tau")):
        np.testing.assert_array_equal(np.concatenate([getattr(chunk, key) for chunk in chunks]), wanted)
    assert [one.name for one in path.parent.iterdir()] == [name]


def test_one_name_and_metadata_reach_the_file(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log.parquet", t, COLUMNS, "only", {"robot": "arm7"})
    assert [one.name for one in read_log(path, ROBOT).trajectories] == ["only"]
    assert pq.read_schema(path).metadata[b"robot"] == b"arm7"
    assert pq.ParquetFile(path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_nonsense_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    for path, columns, trajectory, metadata in (
        ("log.xlsx", COLUMNS, None, None),
        ("log.csv", COLUMNS, None, {"a": "b"}),
        ("log.csv", COLUMNS | {"traj": t}, None, None),
        ("log.csv", {"q_joint1": t[:-1]}, None, None),
        ("log.csv", COLUMNS, ["a", "b"], None),
    ):
        with pytest.raises(UsageError):
            write_log(tmp_path / path, t, columns, trajectory, metadata)
    with pytest.raises(UsageError, match="array-shape"):
        canonical_columns(ROBOT.joint_names, q[:, :3])
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResourceError):
        write_log(tmp_path / "file" / "log.csv", t, COLUMNS)
    assert [one.name for one in tmp_path.iterdir()] == ["file"]
