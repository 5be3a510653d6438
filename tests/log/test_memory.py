"""Logs of arrays and data frames are read, checked and identified like the same numbers in a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dynid.base import Diagnostics, InputErrors, UnfitDataError, UsageError
from dynid.identification import DEFAULT_TERMS, Settings, identify
from dynid.log import Log, LogWatch, read_log, write_log
from dynid.run import Identification, write_tables
from dynid.signals import Preparation
from dynid.testing import random_robot, simulated_log

ROBOT = random_robot(21, 3, 0.0)
NAMES = ROBOT.joint_names
# The second joint slides.
UNITS = {name: "mm" if slides else "deg" for name, slides in zip(NAMES, ROBOT.prismatic, strict=True)}
IN_UNITS = np.where(ROBOT.prismatic, 1e3, np.degrees(1.0))


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 24 s as Parquet."""
    path = tmp_path_factory.mktemp("memory") / "motion.parquet"
    typical = {"rotor_inertia": 0.2, "viscous": 0.8, "coulomb": 1.5, "offset": -0.4}
    theta = np.array([typical.get(c.term, c.prior) for c in DEFAULT_TERMS.columns(ROBOT)])
    simulated_log(path, ROBOT, DEFAULT_TERMS, theta, seconds=24.0, seed=1)
    return path


@pytest.fixture(scope="module")
def arrays(path: Path) -> dict[str, Any]:
    """Its arrays, by the arguments' names."""
    log = read_log(path, ROBOT)
    chunk = log.read(log.trajectories[0])
    return {"t": chunk.t, "q": chunk.q, "tau": chunk.tau, "dq": chunk.dq}


def small(arrays: dict[str, Any], count: int = 500) -> dict[str, Any]:
    return {key: None if values is None else np.array(values[:count]) for key, values in arrays.items()}


def columns(arrays: dict[str, Any]) -> dict[str, Any]:
    """The same under dynid's own column names."""
    found = {"t": arrays["t"]}
    for key in ("q", "dq", "tau"):
        if arrays[key] is not None:
            found |= {f"{key}_{joint}": arrays[key][:, j] for j, joint in enumerate(NAMES)}
    return found


def files(result: Identification, folder: Path) -> dict[str, bytes]:
    """What a run folder holds of the numbers; run.json has times and file names beside."""
    folder.mkdir()
    write_tables(result, folder)
    return {one.name: one.read_bytes() for one in folder.iterdir() if one.name != "run.json"}


def test_identification_gives_the_same_bytes(path: Path, arrays: dict[str, Any], tmp_path: Path) -> None:
    settings = Settings(preparation=Preparation(cutoff=8.0))
    first = identify(ROBOT, read_log(path, ROBOT), settings)
    second = identify(ROBOT, Log.from_arrays(ROBOT, **arrays, name="motion"), settings)
    found, expected = files(second, tmp_path / "arrays"), files(first, tmp_path / "file")
    assert set(found) >= {"model.json", "parameters.parquet", "residuals.parquet", "factors.parquet"}
    assert found == expected
    assert second.verdict == first.verdict
    assert [str(one) for one in second.diagnostics] == [
        str(one).replace(str(path), "motion") for one in first.diagnostics
    ]


def test_chunks_are_those_of_the_file(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    T = 70_000
    t, q, tau = np.arange(T) / 1000.0, rng.normal(size=(T, 3)), rng.normal(size=(T, 3))
    tau[5, 1] = np.nan
    data = columns({"t": t, "q": q, "dq": None, "tau": tau})
    write_log(tmp_path / "long.parquet", data.pop("t"), data)
    file = read_log(tmp_path / "long.parquet", ROBOT)
    memory = Log.from_arrays(ROBOT, t, q, tau, name="long")
    whole, same = file.read(file.trajectories[0]), memory.read(memory.trajectories[0])
    assert np.array_equal(whole.t, same.t)
    assert np.array_equal(whole.q, same.q)
    assert whole.tau is not None
    assert same.tau is not None
    assert np.array_equal(whole.tau, same.tau, equal_nan=True)
    pieces = list(memory.chunks(memory.trajectories[0], 30_000))
    assert max(len(piece.t) for piece in pieces) <= 30_000
    assert np.array_equal(np.concatenate([piece.q for piece in pieces]), q)
    assert same.dq is None
    assert memory.duration == file.duration


@pytest.mark.parametrize("library", ["pyarrow", "pandas", "polars"])
def test_frames_of_every_library_are_the_same_log(library: str, arrays: dict[str, Any]) -> None:
    module = pytest.importorskip(library)
    data = columns(small(arrays)) | {"traj": ["a"] * 200 + ["b"] * 300}
    frame = module.table(data) if library == "pyarrow" else module.DataFrame(data)
    log = Log.from_frame(frame, ROBOT)
    assert [(one.name, one.row_count) for one in log.trajectories] == [("a", 200), ("b", 300)]
    assert np.array_equal(log.read(log.trajectories[1]).q, arrays["q"][200:500])
    assert log.sha256 == Log.from_frame(pa.table(data), ROBOT).sha256
    (only,) = Log.from_frame(frame, ROBOT, select=["b"]).trajectories
    assert only == log.trajectories[1]


def test_labels_may_be_coded_in_any_way(arrays: dict[str, Any]) -> None:
    data = columns(small(arrays))
    labels = pa.array(["a"] * 200 + ["b"] * 300)
    for coded in (
        labels,
        labels.cast(pa.large_string()),
        labels.cast(pa.string_view()),
        labels.dictionary_encode(),
        pa.DictionaryArray.from_arrays(pa.array([0] * 200 + [1] * 300, pa.uint32()), pa.array(["a", "b"])),
    ):
        log = Log.from_frame(pa.table(data | {"traj": coded}), ROBOT)
        assert [one.name for one in log.trajectories] == ["a", "b"]


def test_unsigned_codes_are_read_from_a_file(arrays: dict[str, Any], tmp_path: Path) -> None:
    coded = pa.DictionaryArray.from_arrays(
        pa.array([0] * 200 + [None] * 300, pa.uint32()), pa.array(["a", "b"])
    )
    pq.write_table(pa.table(columns(small(arrays)) | {"traj": coded}), tmp_path / "coded.parquet")
    assert [one.name for one in read_log(tmp_path / "coded.parquet", ROBOT).trajectories] == ["a", ""]


def test_mapping_may_be_plain_data(arrays: dict[str, Any]) -> None:
    few = small(arrays)
    shown = few["q"] * IN_UNITS
    data = {"stamp": 1000.0 * few["t"]} | {f"pos{j + 1}": shown[:, j] for j in range(3)}
    data |= {f"current{j + 1}": few["tau"][:, j] for j in range(3)}
    mapping = {
        "time": {"column": "stamp", "unit": "ms"},
        "position": {"columns": "pos{number}", "unit": UNITS},
        "effort": {"columns": "current{number}", "unit": "N m"},
    }
    log = Log.from_frame(pa.table(data), ROBOT, mapping)
    assert np.allclose(log.read(log.trajectories[0]).q, few["q"], rtol=1e-14)
    with pytest.raises(InputErrors, match="did you mean 'position'"):
        Log.from_frame(pa.table(data), ROBOT, {"positon": {}})


def test_units_and_order_of_joints_are_declared(arrays: dict[str, Any]) -> None:
    few = small(arrays)
    plain = Log.from_arrays(ROBOT, **few)
    swapped = {key: few[key][:, ::-1] for key in ("q", "tau")}
    other = Log.from_arrays(ROBOT, few["t"], **swapped, joints=NAMES[::-1])
    assert np.array_equal(other.read(other.trajectories[0]).q, few["q"])
    degrees = Log.from_arrays(ROBOT, 1e3 * few["t"], few["q"] * IN_UNITS, units={"t": "ms", "q": UNITS})
    assert np.allclose(degrees.read(degrees.trajectories[0]).q, few["q"], rtol=1e-14)
    assert not degrees.has_effort
    with pytest.raises(InputErrors, match="'deg' for all joints, but 'joint2' is prismatic"):
        Log.from_arrays(ROBOT, few["t"], few["q"], units={"q": "deg"})
    assert plain.sha256 != other.sha256


def test_motors_channels_and_trajectories_of_arrays(arrays: dict[str, Any]) -> None:
    few = small(arrays)
    log = Log.from_arrays(
        ROBOT,
        **few,
        theta=few["q"] + 0.01,
        dtheta=np.zeros((500, 3)),
        temperature=np.full((500, 3), 30.0),
        extra={"pressure": np.arange(500)},
        trajectory=[1] * 250 + [2] * 250,
    )
    chunk = log.read(log.trajectories[1])
    assert [one.name for one in log.trajectories] == ["1", "2"]
    assert chunk.theta is not None
    assert np.array_equal(chunk.theta, few["q"][250:] + 0.01)
    assert chunk.temperature is not None
    assert np.array_equal(chunk.extra["pressure"], np.arange(250, 500))


def test_the_hash_is_of_the_values(arrays: dict[str, Any]) -> None:
    few = small(arrays)
    log = Log.from_arrays(ROBOT, **few)
    assert log.identity()[0][0] == log.sha256["arrays"] == Log.from_arrays(ROBOT, **few).sha256["arrays"]
    few["q"][3, 1] += 1e-12
    assert np.array_equal(log.read(log.trajectories[0]).q, arrays["q"][:500])
    assert Log.from_arrays(ROBOT, **few).sha256 != log.sha256


def test_checks_of_logs_name_the_row(arrays: dict[str, Any]) -> None:
    few = small(arrays)
    few["t"][100:160] = 0.0
    log = Log.from_arrays(ROBOT, **few, name="bench")
    (only,), watch = log.trajectories, LogWatch(log, Diagnostics())
    with pytest.raises(UnfitDataError, match=r"bench.*row 100.*time that decreases"):
        list(watch.observed(only, log.chunks(only)))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"q": np.zeros((500, 2))}, r"q of shape \(500, 2\).*\(500, 3\)"),
        ({"tau": np.zeros((499, 3))}, r"tau of shape \(499, 3\).*\(500, 3\)"),
        ({"t": np.zeros((500, 2))}, r"t of shape \(500, 2\)"),
        ({"q": [["a"]]}, "q with values that are not numbers"),
        ({"extra": {"t": np.zeros(500)}}, "extra channel 't'"),
        ({"extra": {"p": np.zeros(3)}}, r"p of shape \(3,\)"),
        ({"trajectory": ["a"] * 3}, r"trajectory of shape \(3,\)"),
        ({"units": {"dq": "deg/s"}}, "a unit for 'dq'"),
    ],
)
def test_arrays_that_do_not_fit_are_named(change: dict[str, Any], text: str, arrays: dict[str, Any]) -> None:
    few = small(arrays) | {"dq": None}
    with pytest.raises(UsageError, match=text):
        Log.from_arrays(ROBOT, **(few | change))


def test_unknown_units_and_joints_are_named(arrays: dict[str, Any]) -> None:
    few = small(arrays)
    with pytest.raises(InputErrors, match=r"unit 'degrees'.*write 'deg'"):
        Log.from_arrays(ROBOT, **few, units={"q": "degrees"})
    with pytest.raises(InputErrors, match="no column 'q_"):
        Log.from_arrays(ROBOT, **few, joints=("a", "b", "c"))


@pytest.mark.parametrize("thing", ["motion.parquet", 3, None, np.zeros((3, 3))])
def test_what_is_no_frame_is_named(thing: object) -> None:
    with pytest.raises(UsageError, match="instead of a log; expected a Log, or a data frame"):
        Log.from_frame(thing, ROBOT)
