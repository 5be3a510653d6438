"""Any finite or missing number survives being written and read, bit for bit."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from dynid.base import LARGEST_VALUE, InputError
from dynid.log import canonical_columns, read_log, write_log
from dynid.robot import RobotModel

NAMES = ("shoulder", "elbow")
# What is larger than anything that is measured counts as missing when it is read.
VALUES = st.one_of(
    st.floats(-LARGEST_VALUE, LARGEST_VALUE, width=64),
    st.sampled_from([0.0, -0.0, 5e-324, LARGEST_VALUE]),
)


@pytest.mark.parametrize("ending", ["parquet", "pq", "csv"])
def test_round_trip(ending: str, robot: RobotModel) -> None:
    @given(q=arrays(np.float64, st.tuples(st.integers(1, 20), st.just(2)), elements=VALUES), name=st.text(
        st.characters(codec="utf-8", exclude_categories=("Cs", "Cc")), min_size=1, max_size=12))  # fmt: skip
    @settings(max_examples=20, deadline=None)
    def holds(q: np.ndarray, name: str) -> None:
        with tempfile.TemporaryDirectory() as folder:
            t = np.arange(len(q)) * 0.1
            tau = np.tile(1 + t[:, None], 2)  # one that never changes would hold a joint at rest
            path = write_log(Path(folder) / f"log.{ending}", t, canonical_columns(NAMES, q, tau=tau), name)
            log = read_log(path, robot)
            chunk = log.read(log.trajectories[0])
        assert chunk.q.tobytes() == q.tobytes()
        np.testing.assert_array_equal(chunk.t, t)
        assert chunk.dq is None

    holds()


@pytest.mark.parametrize(
    "name",
    ["True", "false", "TRUE", "2024-01-05", "2024-01-05 10:30:00", "2024-01-05T10:30:00.5Z", "10:30:00"],
)
def test_a_name_that_looks_like_a_value_stays_a_name(name: str, robot: RobotModel, tmp_path: Path) -> None:
    t, q = np.arange(4.0), np.zeros((4, 2))
    for ending in ("csv", "parquet"):
        path = write_log(tmp_path / f"log.{ending}", t, canonical_columns(NAMES, q), name)
        assert [one.name for one in read_log(path, robot).trajectories] == [name]


def test_a_name_that_looks_like_a_number_stays_a_name(robot: RobotModel, tmp_path: Path) -> None:
    t, q = np.arange(4.0), np.zeros((4, 2))
    for ending in ("csv", "parquet"):
        path = write_log(tmp_path / f"log.{ending}", t, canonical_columns(NAMES, q), ["1", "1", "2", "2"])
        assert [one.name for one in read_log(path, robot).trajectories] == ["1", "2"]


def test_a_damaged_page_is_noticed(robot: RobotModel, tmp_path: Path) -> None:
    t = np.arange(500) / 100
    path = write_log(
        tmp_path / "log.parquet", t, canonical_columns(NAMES, np.random.default_rng(0).normal(size=(500, 2)))
    )
    column = pq.ParquetFile(path).metadata.row_group(0).column(1)
    data = bytearray(path.read_bytes())
    middle = column.data_page_offset + column.total_compressed_size // 2
    data[middle] ^= 0x10
    path.write_bytes(data)
    log = read_log(path, robot)
    with pytest.raises(InputError, match="damaged Parquet"):
        log.read(log.trajectories[0])
